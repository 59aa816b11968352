/* What the texts of a profile mean: numbers, masks, addresses, lists of words. False where a text is wrong. */
#include "values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nvml_codes.h"

bool take_text(const char *word, char *out, size_t size) {
    size_t length = strlen(word);
    if (length >= size) return false;
    memcpy(out, word, length + 1);
    return true;
}

bool take_number(const char *word, int64_t *out) {
    char *end;
    errno = 0;
    if (!*word || isspace((unsigned char)*word)) return false;
    long long value = strtoll(word, &end, 0);
    if (*end || errno) return false;
    *out = value;
    return true;
}

bool take_flag(const char *word, bool *out) {
    *out = !strcmp(word, "true");
    return *out || !strcmp(word, "false");
}

/* 0-3,8 as a mask; an empty list is an empty mask. */
bool take_mask(const char *text, uint64_t *words, int count) {
    memset(words, 0, sizeof(*words) * (size_t)count);
    while (*text) {
        char *end;
        if (!isdigit((unsigned char)*text)) return false;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1])) return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first || last >= (unsigned long)count * 64) return false;
        for (unsigned long i = first; i <= last; i++) words[i / 64] |= (uint64_t)1 << (i % 64);
        if (*end == ',' && end[1]) end++;
        else if (*end) return false;
        text = end;
    }
    return true;
}

bool take_pci(const char *text, struct pci *out) {
    int used = 0;
    struct pci pci = {.is_set = true};
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &pci.domain, &pci.bus, &pci.device, &pci.function, &used) != 4 || text[used])
        return false;
    *out = pci;
    return true;
}

/* 32 hexadecimal digits, dashes between them do not count. */
bool take_uuid(const char *text, unsigned char out[16]) {
    int digits = 0;
    memset(out, 0, 16);
    for (; *text; text++) {
        if (*text == '-') continue;
        if (!isxdigit((unsigned char)*text) || digits == 32) return false;
        int digit = isdigit((unsigned char)*text) ? *text - '0' : tolower((unsigned char)*text) - 'a' + 10;
        out[digits / 2] = (unsigned char)(out[digits / 2] << 4 | digit);
        digits++;
    }
    return digits == 32;
}

/* The next word of a list, in `word`; NULL at its end or where a word is too long. */
static const char *next_word(const char *text, char *word, size_t size) {
    while (*text == ' ') text++;
    size_t length = strcspn(text, " ");
    if (!length || length >= size) return NULL;
    memcpy(word, text, length);
    word[length] = 0;
    return text + length;
}

static bool is_at_end(const char *text) { return text[strspn(text, " ")] == 0; }

bool code_of(const struct word *words, const char *text, int *code) {
    for (; words->text; words++)
        if (!strcasecmp(words->text, text)) return *code = words->code, true;
    return false;
}

static const struct word LINK_ENDS[] = {
    {"-", TO_NOTHING}, {"switch", TO_SWITCH}, {"npu", TO_NPU}, {"hidden", TO_HIDDEN}, {NULL, 0}};
const struct word ANCESTOR_WORDS[] = {{"X", 0},     {"INTERNAL", 0}, {"PIX", 10}, {"PXB", 20},
                                             {"PHB", 30},  {"NODE", 40},    {"SYS", 50}, {NULL, 0}};
const struct word P2P_WORDS[] = {{"X", 0},   {"OK", 0},   {"CNS", 1}, {"GNS", 2},
                                        {"TNS", 3}, {"DR", 4},   {"NS", 5},  {"U", 6},
                                        {NULL, 0}}; /* nvidia-smi topo -p2p */
static const struct word FABRIC_WORDS[] = {
    {"NOT_SUPPORTED", 0}, {"NOT_STARTED", 1}, {"IN_PROGRESS", 2}, {"COMPLETED", 3}, {NULL, 0}};
const struct word ERROR_WORDS[] = {ERROR_CODES, {"Hang", HANGS}, {NULL, 0}};

/* `18*switch`, `1 1 2 - switch`: where each link ends, GPUs by their index. */
bool take_links(const char *text, struct gpu *gpu) {
    char word[TEXT];
    int links = 0;
    for (const char *rest; (rest = next_word(text, word, sizeof word)) != NULL; text = rest) {
        char *end = word, *what = word;
        int64_t peer;
        unsigned long times = strtoul(word, &end, 10);
        if (end != word && *end == '*') what = end + 1;
        else times = 1;
        int code = TO_NOTHING;
        if (!code_of(LINK_ENDS, what, &code)) {
            if (!take_number(what, &peer) || peer < 0 || peer >= MOST_GPUS) return false;
            code = (int)peer;
        }
        if (times > (unsigned long)(MOST_LINKS - links)) return false;
        while (times--) gpu->link_to[links++] = code;
    }
    gpu->links = links;
    return is_at_end(text);
}

bool take_dead_links(const char *text, struct gpu *gpu) {
    uint64_t mask = 0;
    if (!take_mask(text, &mask, 1) || mask >> MOST_LINKS) return false;
    for (int i = 0; i < MOST_LINKS; i++) gpu->link_is_dead[i] = mask >> i & 1;
    return true;
}

bool take_switches(const char *text, struct gpu *gpu) {
    char word[TEXT];
    gpu->switches = 0;
    for (const char *rest; (rest = next_word(text, word, sizeof word)) != NULL; text = rest)
        if (gpu->switches == MOST_LINKS || !take_pci(word, &gpu->switch_pci[gpu->switches++])) return false;
    return is_at_end(text);
}

bool take_row(const char *text, const struct word *words, int row[MOST_GPUS], int *count) {
    char word[TEXT];
    *count = 0;
    for (const char *rest; (rest = next_word(text, word, sizeof word)) != NULL; text = rest)
        if (*count == MOST_GPUS || !code_of(words, word, &row[(*count)++])) return false;
    return is_at_end(text);
}

/* `1g.10gb 3g.40gb`: compute slices and memory of each MIG device. */
bool take_slices(const char *text, struct gpu *gpu) {
    char word[TEXT];
    gpu->slices = 0;
    for (const char *rest; (rest = next_word(text, word, sizeof word)) != NULL; text = rest) {
        struct slice slice = {0};
        int used = 0;
        if (gpu->slices == MOST_MIG) return false;
        if (sscanf(word, "%1ug.%3ugb%n", &slice.compute, &slice.memory_gb, &used) != 2 || word[used]) return false;
        if (!take_text(word, slice.name, sizeof slice.name)) return false;
        gpu->slice[gpu->slices++] = slice;
    }
    return is_at_end(text);
}

bool take_sm(const char *text, struct gpu *gpu) {
    int used = 0;
    unsigned major, minor;
    if (sscanf(text, "%3u.%1u%n", &major, &minor, &used) != 2 || text[used]) return false;
    gpu->sm_major = major;
    gpu->sm_minor = minor;
    return true;
}

bool take_nvlink_version(const char *text, struct gpu *gpu) {
    static const struct word VERSIONS[] = {{"1.0", 1}, {"2.0", 2}, {"2.2", 3}, {"3.0", 4}, {"3.1", 5},
                                           {"4.0", 6}, {"5.0", 7}, {"6.0", 8}, {NULL, 0}};
    int code;
    if (!code_of(VERSIONS, text, &code)) return false;
    gpu->nvlink_version = code;
    return true;
}

bool take_fabric_state(const char *text, struct gpu *gpu) {
    int code;
    if (!code_of(FABRIC_WORDS, text, &code)) return false;
    gpu->fabric_state = code;
    return true;
}

/* A number that may have a fraction, as so many of the thousandths, millionths … that `unit` says. */
bool take_scaled(const char *word, double most, int64_t unit, int64_t *out) {
    char *end;
    double value = strtod(word, &end);
    if (end == word || *end || !(value >= 0 && value <= most)) return false;
    *out = llround(value * (double)unit);
    return true;
}

bool take_power_usage(const char *word, bool *is_average) {
    *is_average = !strcmp(word, "average");
    return *is_average || !strcmp(word, "instant");
}

/* `100 101`: numbers of processes. */
bool take_pids(const char *text, char out[PIDS]) {
    if (text[strspn(text, "0123456789 ")]) return false;
    return take_text(text, out, PIDS);
}
