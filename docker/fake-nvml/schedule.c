/* Reads and looks up moments and spans. */
#include "schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "waveform.h"

static bool take_seconds(const char *text, char **end, int64_t *ns) {
    double seconds = strtod(text, end);
    if (*end == text || !(seconds >= 0 && seconds <= 4e9)) return false;
    *ns = llround(seconds * NS_PER_S);
    return true;
}

/* `every:SECONDS` at the end of a list; all of the list lies inside it. */
static bool take_every(const char *text, int64_t last_ns, int64_t *every_ns) {
    char *end;
    return take_seconds(text + strlen("every:"), &end, every_ns) && !*end && *every_ns > 0 && last_ns <= *every_ns;
}

bool read_spans(const char *text, struct spans *out) {
    memset(out, 0, sizeof *out);
    for (char *end; *(text += strspn(text, " ")); text = end) {
        int i = out->count;
        int64_t before = i ? out->to_ns[i - 1] : 0;
        if (!strncmp(text, "every:", 6)) return i && take_every(text, before, &out->every_ns);
        if (i == MOST_SPANS || !take_seconds(text, &end, &out->from_ns[i]) || *end != '-') return false;
        text = end + 1;
        if (*text == ' ' || !*text) out->to_ns[i] = INT64_MAX, end = (char *)text;
        else if (!take_seconds(text, &end, &out->to_ns[i])) return false;
        if (out->from_ns[i] < before || out->to_ns[i] <= out->from_ns[i] || (*end && *end != ' ')) return false;
        out->count++;
    }
    return true;
}

bool read_moments(const char *text, bool has_values, struct moments *out) {
    memset(out, 0, sizeof *out);
    for (char *end; *(text += strspn(text, " ")); text = end) {
        int i = out->count;
        if (!strncmp(text, "every:", 6)) return i && take_every(text, out->at_ns[i - 1] + 1, &out->every_ns);
        if (i == MOST_SPANS || !take_seconds(text, &end, &out->at_ns[i])) return false;
        if (has_values) {
            if (*end != ':') return false;
            text = end + 1;
            double value = strtod(text, &end);
            if (end == text || !(fabs(value) <= 1e12)) return false;
            out->value[i] = llround(value * 1000);
        }
        if ((*end && *end != ' ') || (i && out->at_ns[i] <= out->at_ns[i - 1])) return false;
        out->count++;
    }
    return true;
}

bool is_within(const struct spans *spans, int64_t t, int64_t *began) {
    int64_t at = spans->every_ns ? floor_mod(t, spans->every_ns) : t;
    for (int i = 0; i < spans->count && spans->from_ns[i] <= at; i++)
        if (at < spans->to_ns[i]) return *began = t - (at - spans->from_ns[i]), true;
    return false;
}

/* How many of the list's moments are not after `at`. */
static int passed(const struct moments *moments, int64_t at) {
    int count = 0;
    while (count < moments->count && moments->at_ns[count] <= at) count++;
    return count;
}

bool last_moment(const struct moments *moments, int64_t t, int64_t *out) {
    if (!moments->count || t < 0) return false;
    int64_t at = moments->every_ns ? t % moments->every_ns : t, start = t - at;
    int count = passed(moments, at);
    if (!count && (!moments->every_ns || !start)) return false;
    *out = count ? start + moments->at_ns[count - 1]
                 : start - moments->every_ns + moments->at_ns[moments->count - 1];
    return true;
}

int64_t sum_of_moments(const struct moments *moments, int64_t t) {
    if (!moments->count || t < 0) return 0;
    int64_t sum = 0, all = 0, at = moments->every_ns ? t % moments->every_ns : t;
    int count = passed(moments, at);
    for (int i = 0; i < moments->count; i++) {
        all += moments->value[i];
        if (i < count) sum += moments->value[i];
    }
    return moments->every_ns ? t / moments->every_ns * all + sum : sum;
}
