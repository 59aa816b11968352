/* truth PROFILE GPU FROM_NS TO_NS [KEY]: the joules that a GPU of the profile drew between two moments, in ns since
   1970; of another waveform its integral, in its unit times seconds. Rounded down to nine decimals. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

static struct profile profile;

static bool take(const char *text, int64_t *out) {
    char *end;
    *out = strtoll(text, &end, 10);
    return *text && !*end;
}

static int fail(const char *what) {
    fprintf(stderr, "truth: %s\nusage: truth PROFILE GPU FROM_NS TO_NS [KEY]\n", what);
    return 2;
}

int main(int count, char **words) {
    int64_t index, from, to;
    if (count != 5 && count != 6) return fail("it takes four words or five");
    if (setenv("HPCKIT_FAKE_NVML", words[1], 1) || read_profile(&profile)) return 1;
    if (!take(words[2], &index) || index < 0 || index >= profile.gpus) return fail("there is no such GPU");
    if (!take(words[3], &from) || !take(words[4], &to) || from > to) return fail("the moments are not ascending numbers");
    const struct wave *wave = wave_of(&profile.gpu[index], count == 6 ? words[5] : "power_w");
    if (!wave) return fail("there is no such waveform");
    wide nano = integral_nano(&profile, wave, from, to);
    printf("%" PRId64 ".%09" PRId64 "\n", (int64_t)(nano / NS_PER_S), (int64_t)(nano % NS_PER_S));
    return 0;
}
