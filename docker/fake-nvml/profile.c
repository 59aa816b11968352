/* Reads a profile: the part of TOML that README.md describes, line by line. */
#include "profile.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nvml_codes.h"

enum { LINE = 4096, MOST_VALUE = 1000000, MOST_SECONDS = 1000000000 };

#define NODE_FILE "/etc/hpckit/node.toml"

/* The place that is read, for what is said of it. */
struct place {
    const char *path;
    int line;
};

static bool wrong(const struct place *place, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(const struct place *place, const char *format, ...) {
    va_list values;
    fprintf(stderr, "fake NVML (synthetic): %s:%d: ", place->path, place->line);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool take_text(const char *word, char *out, size_t size) {
    size_t length = strlen(word);
    if (length >= size) return false;
    memcpy(out, word, length + 1);
    return true;
}

static bool take_number(const char *word, int64_t *out) {
    char *end;
    errno = 0;
    if (!*word || isspace((unsigned char)*word)) return false;
    long long value = strtoll(word, &end, 0);
    if (*end || errno) return false;
    *out = value;
    return true;
}

static bool take_flag(const char *word, bool *out) {
    *out = !strcmp(word, "true");
    return *out || !strcmp(word, "false");
}

/* 0-3,8 as a mask; an empty list is an empty mask. */
static bool take_mask(const char *text, uint64_t *words, int count) {
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

static bool take_pci(const char *text, struct pci *out) {
    int used = 0;
    struct pci pci = {.is_set = true};
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &pci.domain, &pci.bus, &pci.device, &pci.function, &used) != 4 || text[used])
        return false;
    *out = pci;
    return true;
}

/* 32 hexadecimal digits, dashes between them do not count. */
static bool take_uuid(const char *text, unsigned char out[16]) {
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

/* `0:120 10:650 30:120`, the seconds ascending from 0; or one number for ever. */
static bool take_points(const char *text, struct points *out) {
    char *end;
    memset(out, 0, sizeof *out);
    double value = strtod(text, &end);
    if (end != text && !*end && value >= 0 && value <= MOST_VALUE) {
        out->count = 1;
        out->value[0] = value;
        return true;
    }
    while (*text) {
        if (out->count == MOST_POINTS) return false;
        double at = strtod(text, &end);
        if (end == text || *end != ':' || !(at >= 0 && at <= MOST_SECONDS)) return false;
        text = end + 1;
        value = strtod(text, &end);
        if (end == text || !(value >= 0 && value <= MOST_VALUE)) return false;
        if (out->count ? at <= out->at_s[out->count - 1] : at != 0) return false;
        out->at_s[out->count] = at;
        out->value[out->count++] = value;
        text = end;
        while (*text == ' ') text++;
    }
    return out->count > 1;
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

struct word {
    const char *text;
    int code;
};

static bool code_of(const struct word *words, const char *text, int *code) {
    for (; words->text; words++)
        if (!strcasecmp(words->text, text)) return *code = words->code, true;
    return false;
}

static const struct word LINK_ENDS[] = {
    {"-", TO_NOTHING}, {"switch", TO_SWITCH}, {"npu", TO_NPU}, {"hidden", TO_HIDDEN}, {NULL, 0}};
static const struct word ANCESTOR_WORDS[] = {{"X", 0},     {"INTERNAL", 0}, {"PIX", 10}, {"PXB", 20},
                                             {"PHB", 30},  {"NODE", 40},    {"SYS", 50}, {NULL, 0}};
static const struct word P2P_WORDS[] = {{"X", 0},   {"OK", 0},   {"CNS", 1}, {"GNS", 2},
                                        {"TNS", 3}, {"DR", 4},   {"NS", 5},  {"U", 6},
                                        {NULL, 0}}; /* nvidia-smi topo -p2p */
static const struct word FABRIC_WORDS[] = {
    {"NOT_SUPPORTED", 0}, {"NOT_STARTED", 1}, {"IN_PROGRESS", 2}, {"COMPLETED", 3}, {NULL, 0}};
static const struct word ERROR_WORDS[] = {ERROR_CODES, {"Hang", HANGS}, {NULL, 0}};

/* `18*switch`, `1 1 2 - switch`: where each link ends, GPUs by their index. */
static bool take_links(const char *text, struct gpu *gpu) {
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

static bool take_dead_links(const char *text, struct gpu *gpu) {
    uint64_t mask = 0;
    if (!take_mask(text, &mask, 1) || mask >> MOST_LINKS) return false;
    for (int i = 0; i < MOST_LINKS; i++) gpu->link_is_dead[i] = mask >> i & 1;
    return true;
}

static bool take_switches(const char *text, struct gpu *gpu) {
    char word[TEXT];
    gpu->switches = 0;
    for (const char *rest; (rest = next_word(text, word, sizeof word)) != NULL; text = rest)
        if (gpu->switches == MOST_LINKS || !take_pci(word, &gpu->switch_pci[gpu->switches++])) return false;
    return is_at_end(text);
}

static bool take_row(const char *text, const struct word *words, int row[MOST_GPUS], int *count) {
    char word[TEXT];
    *count = 0;
    for (const char *rest; (rest = next_word(text, word, sizeof word)) != NULL; text = rest)
        if (*count == MOST_GPUS || !code_of(words, word, &row[(*count)++])) return false;
    return is_at_end(text);
}

/* `1g.10gb 3g.40gb`: compute slices and memory of each MIG device. */
static bool take_slices(const char *text, struct gpu *gpu) {
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

static bool take_sm(const char *text, struct gpu *gpu) {
    int used = 0;
    unsigned major, minor;
    if (sscanf(text, "%3u.%1u%n", &major, &minor, &used) != 2 || text[used]) return false;
    gpu->sm_major = major;
    gpu->sm_minor = minor;
    return true;
}

static bool take_nvlink_version(const char *text, struct gpu *gpu) {
    static const struct word VERSIONS[] = {{"1.0", 1}, {"2.0", 2}, {"2.2", 3}, {"3.0", 4}, {"3.1", 5},
                                           {"4.0", 6}, {"5.0", 7}, {"6.0", 8}, {NULL, 0}};
    int code;
    if (!code_of(VERSIONS, text, &code)) return false;
    gpu->nvlink_version = code;
    return true;
}

static bool take_fabric_state(const char *text, struct gpu *gpu) {
    int code;
    if (!code_of(FABRIC_WORDS, text, &code)) return false;
    gpu->fabric_state = code;
    return true;
}

/* ---- keys ------------------------------------------------------------------------------------ */

enum kind { WORDS, NUMBER, FLAG, PCI, UUID, CPUS, NODES, WAVE, LINKS, DEAD, SWITCHES, ROW, P2P, MIGS, SM, VERSION, STATE };

struct key {
    const char *name;
    enum kind kind;
    size_t offset;
};

#define AT(field) offsetof(struct gpu, field)
static const struct key GPU_KEYS[] = {
    {"name", WORDS, AT(name)},
    {"uuid", WORDS, AT(uuid)},
    {"serial", WORDS, AT(serial)},
    {"pci", PCI, AT(pci)},
    {"device_id", NUMBER, AT(device_id)},
    {"subsystem_id", NUMBER, AT(subsystem_id)},
    {"minor", NUMBER, AT(minor)},
    {"sm", SM, 0},
    {"memory_bytes", NUMBER, AT(memory_bytes)},
    {"memory_used_bytes", NUMBER, AT(memory_used_bytes)},
    {"cpus", CPUS, AT(cpus)},
    {"numa", NODES, AT(numa)},
    {"own_numa", NUMBER, AT(own_numa)},
    {"virtualization", NUMBER, AT(virtualization)},
    {"nvlink_version", VERSION, 0},
    {"nvlink_mb_per_s", NUMBER, AT(nvlink_mb_per_s)},
    {"nvlinks", LINKS, 0},
    {"dead_nvlinks", DEAD, 0},
    {"nvlink_switches", SWITCHES, 0},
    {"c2c_links", NUMBER, AT(c2c_links)},
    {"c2c_mb_per_s", NUMBER, AT(c2c_mb_per_s)},
    {"ancestors", ROW, 0},
    {"p2p", P2P, 0},
    {"fabric_state", STATE, 0},
    {"fabric_status", NUMBER, AT(fabric_status)},
    {"fabric_clique", NUMBER, AT(fabric_clique)},
    {"fabric_cluster_uuid", UUID, AT(fabric_uuid)},
    {"fabric_health_mask", NUMBER, AT(fabric_health_mask)},
    {"fabric_health_summary", NUMBER, AT(fabric_health_summary)},
    {"platform_chassis_serial", WORDS, AT(platform_chassis)},
    {"platform_slot", NUMBER, AT(platform_slot)},
    {"platform_tray", NUMBER, AT(platform_tray)},
    {"platform_host_id", NUMBER, AT(platform_host)},
    {"platform_module_id", NUMBER, AT(platform_module)},
    {"mig", FLAG, AT(mig)},
    {"mig_devices", MIGS, 0},
    {"clocks_event_reasons", NUMBER, AT(clocks_event_reasons)},
    {"remapped_correctable", NUMBER, AT(remapped_correctable)},
    {"remapped_uncorrectable", NUMBER, AT(remapped_uncorrectable)},
    {"remapping_pending", FLAG, AT(remapping_pending)},
    {"remapping_failed", FLAG, AT(remapping_failed)},
    {"ecc", FLAG, AT(ecc)},
    {"ecc_uncorrected_volatile", NUMBER, AT(ecc_uncorrected_volatile)},
    {"ecc_uncorrected_aggregate", NUMBER, AT(ecc_uncorrected_aggregate)},
    {"temperature_c", NUMBER, AT(temperature_c)},
    {"pcie_generation", NUMBER, AT(pcie_generation)},
    {"pcie_width", NUMBER, AT(pcie_width)},
    {"pcie_max_generation", NUMBER, AT(pcie_max_generation)},
    {"pcie_max_width", NUMBER, AT(pcie_max_width)},
    {"pcie_replays", NUMBER, AT(pcie_replays)},
    {"graphics_mhz", NUMBER, AT(graphics_mhz)},
    {"max_graphics_mhz", NUMBER, AT(max_graphics_mhz)},
    {"memory_mhz", NUMBER, AT(memory_mhz)},
    {"power_limit_w", NUMBER, AT(power_limit_w)},
    {"power_w", WAVE, AT(power_w)},
    {"utilization_pct", WAVE, AT(utilization_pct)},
};

static bool take_gpu_value(struct gpu *gpu, const struct key *key, const char *value) {
    void *field = (char *)gpu + key->offset;
    switch (key->kind) {
        case WORDS: return take_text(value, field, TEXT);
        case NUMBER: return take_number(value, field);
        case FLAG: return take_flag(value, field);
        case PCI: return take_pci(value, field);
        case UUID: return take_uuid(value, field);
        case CPUS: return take_mask(value, field, CPU_WORDS);
        case NODES: return take_mask(value, field, NODE_WORDS);
        case WAVE: return take_points(value, field);
        case LINKS: return take_links(value, gpu);
        case DEAD: return take_dead_links(value, gpu);
        case SWITCHES: return take_switches(value, gpu);
        case ROW: return take_row(value, ANCESTOR_WORDS, gpu->ancestor, &gpu->ancestors);
        case P2P: return take_row(value, P2P_WORDS, gpu->p2p, &gpu->p2ps);
        case MIGS: return take_slices(value, gpu);
        case SM: return take_sm(value, gpu);
        case VERSION: return take_nvlink_version(value, gpu);
        case STATE: return take_fabric_state(value, gpu);
    }
    return false;
}

static bool take_error(const struct place *place, struct errors *errors, const char *call, const char *value) {
    struct injected *entry = errors->entries;
    int code;
    if (!code_of(ERROR_WORDS, value, &code))
        return wrong(place, "`%s` is no error of nvml.h such as NotSupported, nor Hang", value);
    for (; entry < errors->entries + errors->count; entry++)
        if (!strcmp(entry->call, call)) return entry->code = code, true;
    if (errors->count == MOST_ERRORS) return wrong(place, "over %d errors", MOST_ERRORS);
    if (!*call || !take_text(call, entry->call, sizeof entry->call)) return wrong(place, "no call is named so");
    entry->code = code;
    errors->count++;
    return true;
}

static bool take_root(const struct place *place, struct profile *profile, const char *key, const char *value) {
    bool is_synthetic, ok;
    if (!strcmp(key, "schema")) ok = !strcmp(value, "hpckit.nvml-profile/1");
    else if (!strcmp(key, "synthetic")) ok = take_flag(value, &is_synthetic) && is_synthetic;
    else if (!strcmp(key, "gpus")) ok = take_number(value, &profile->gpus) && profile->gpus >= 0 && profile->gpus <= MOST_GPUS;
    else if (!strcmp(key, "driver_version")) ok = take_text(value, profile->driver_version, 40);
    else if (!strcmp(key, "cuda_version")) ok = take_number(value, &profile->cuda_version);
    else if (!strcmp(key, "epoch_s")) ok = take_number(value, &profile->epoch_s);
    else return wrong(place, "there is no key `%s` outside a section", key);
    return ok || wrong(place, "`%s` cannot be `%s`", key, value);
}

static bool take_gpu(const struct place *place, struct gpu *gpu, const char *name, const char *value) {
    for (size_t i = 0; i < sizeof GPU_KEYS / sizeof *GPU_KEYS; i++)
        if (!strcmp(name, GPU_KEYS[i].name))
            return take_gpu_value(gpu, &GPU_KEYS[i], value) || wrong(place, "`%s` cannot be `%s`", name, value);
    return wrong(place, "there is no key `%s` of a GPU", name);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static char *stripped(char *text) {
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1])) text[--length] = 0;
    return text;
}

/* Ends the line at a `#` that is not inside quotes. */
static void cut_comment(char *line) {
    bool is_quoted = false;
    for (; *line; line++) {
        if (*line == '"') is_quoted = !is_quoted;
        if (*line == '#' && !is_quoted) {
            *line = 0;
            return;
        }
    }
}

/* Splits `key = value` in place; a value in quotes loses them. False for any other line. */
static bool split(char *line, char **key, char **value) {
    char *equals = strchr(line, '=');
    if (!equals) return false;
    *equals = 0;
    *key = stripped(line);
    *value = stripped(equals + 1);
    size_t length = strlen(*value);
    if (**value == '"') {
        if (length < 2 || strchr(*value + 1, '"') != *value + length - 1 || strchr(*value, '\\')) return false;
        (*value)[length - 1] = 0;
        (*value)++;
    } else if (!length || strpbrk(*value, " \t\"'")) {
        return false;
    }
    return **key != 0;
}

struct reader {
    struct place place;
    struct profile *profile;
    struct gpu *all;    /* what [gpu] says */
    struct gpu *gpu;    /* where keys go now; NULL outside a section */
    bool has_overrides; /* a [gpu.N] was seen */
};

static bool section(struct reader *reader, char *line) {
    char *end;
    struct profile *profile = reader->profile;
    if (!strcmp(line, "[gpu]")) {
        if (reader->has_overrides) return wrong(&reader->place, "[gpu] comes before every [gpu.N]");
        reader->gpu = reader->all;
        return true;
    }
    if (strncmp(line, "[gpu.", 5) || !isdigit((unsigned char)line[5]))
        return wrong(&reader->place, "the sections are [gpu] and [gpu.N], not %s", line);
    unsigned long index = strtoul(line + 5, &end, 10);
    if (strcmp(end, "]") || index >= (unsigned long)profile->gpus)
        return wrong(&reader->place, "%s: N is below `gpus`, which comes first", line);
    if (!reader->has_overrides)
        for (int64_t i = 0; i < profile->gpus; i++) profile->gpu[i] = *reader->all;
    reader->has_overrides = true;
    reader->gpu = &profile->gpu[index];
    return true;
}

static bool take_line(struct reader *reader, char *line) {
    char *key, *value;
    cut_comment(line);
    line = stripped(line);
    if (!*line) return true;
    if (*line == '[') return section(reader, line);
    if (!split(line, &key, &value)) return wrong(&reader->place, "expected key = value, got `%s`", line);
    if (!strncmp(key, "error.", 6)) {
        struct errors *errors = reader->gpu ? &reader->gpu->errors : &reader->profile->errors;
        return take_error(&reader->place, errors, key + 6, value);
    }
    if (!reader->gpu) return take_root(&reader->place, reader->profile, key, value);
    return take_gpu(&reader->place, reader->gpu, key, value);
}

static void set_defaults(struct profile *profile, struct gpu *all) {
    memset(profile, 0, sizeof *profile);
    memset(all, 0, sizeof *all);
    snprintf(profile->driver_version, sizeof profile->driver_version, "570.86.15");
    profile->cuda_version = 12080;
    profile->epoch_s = 1704067200; /* 2024-01-01T00:00:00Z */
    snprintf(all->name, sizeof all->name, "Synthetic GPU");
    all->sm_major = 9;
    all->minor = all->own_numa = all->platform_slot = -1;
    all->fabric_health_summary = 0;
    all->ecc = true;
    all->pcie_generation = all->pcie_max_generation = 5;
    all->pcie_width = all->pcie_max_width = 16;
    all->nvlink_version = 6;
    all->power_limit_w = 700;
    all->temperature_c = 35;
    all->graphics_mhz = all->max_graphics_mhz = 1980;
    all->memory_mhz = 2619;
}

/* What a GPU has that no two may share, where the profile does not say it. */
static void complete(struct gpu *gpu, int index) {
    if (!gpu->uuid[0]) snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-5e7e71c0-0000-4000-8000-%012x", index);
    if (!gpu->serial[0]) snprintf(gpu->serial, sizeof gpu->serial, "synthetic-%d", index);
    if (!gpu->pci.is_set) gpu->pci = (struct pci){.is_set = true, .bus = (unsigned)(0x10 + index)};
    if (gpu->minor < 0) gpu->minor = index;
}

static bool is_same_pci(const struct pci *one, const struct pci *other) {
    return one->domain == other->domain && one->bus == other->bus && one->device == other->device &&
           one->function == other->function;
}

static bool check(const struct place *place, const struct profile *profile) {
    for (int64_t i = 0; i < profile->gpus; i++) {
        const struct gpu *gpu = &profile->gpu[i];
        if ((gpu->ancestors && gpu->ancestors != profile->gpus) || (gpu->p2ps && gpu->p2ps != profile->gpus))
            return wrong(place, "GPU %d: `ancestors` and `p2p` have one word for each GPU", (int)i);
        if (gpu->c2c_links < 0 || gpu->c2c_links > MOST_C2C)
            return wrong(place, "GPU %d: `c2c_links` is 0 to %d", (int)i, MOST_C2C);
        for (int link = 0; link < gpu->links; link++)
            if (gpu->link_to[link] >= profile->gpus || gpu->link_to[link] == (int)i)
                return wrong(place, "GPU %d: link %d does not end at another GPU", (int)i, link);
        for (int64_t j = 0; j < i; j++)
            if (is_same_pci(&gpu->pci, &profile->gpu[j].pci) || !strcmp(gpu->uuid, profile->gpu[j].uuid))
                return wrong(place, "GPUs %d and %d have the same `pci` or `uuid`", (int)j, (int)i);
    }
    return true;
}

/* Reads all lines with `take`; false once one is wrong. A line over the limit is wrong. */
static bool each_line(FILE *file, struct place *place, bool (*take)(void *, char *), void *argument) {
    char line[LINE];
    while (fgets(line, sizeof line, file)) {
        size_t length = strlen(line);
        place->line++;
        if (length + 1 == sizeof line && line[length - 1] != '\n')
            return wrong(place, "a line over %d bytes", LINE - 2);
        if (!take(argument, line)) return false;
    }
    return !ferror(file) || wrong(place, "%s", strerror(errno));
}

static bool take_profile_line(void *reader, char *line) { return take_line(reader, line); }

struct wanted {
    char *out;
    size_t size;
    bool is_found;
};

static bool take_node_line(void *argument, char *line) {
    struct wanted *wanted = argument;
    char *key, *value;
    cut_comment(line);
    line = stripped(line);
    if (*line != '[' && split(line, &key, &value) && !strcmp(key, "nvml_profile"))
        wanted->is_found = *value && take_text(value, wanted->out, wanted->size);
    return true;
}

/* The file of the profile: of the variable, else of the node. False where neither names one. */
static bool find_profile(char *out, size_t size) {
    const char *named = getenv("HPCKIT_FAKE_NVML");
    struct wanted wanted = {.out = out, .size = size};
    if (named && *named) return take_text(named, out, size);
    struct place place = {.path = NODE_FILE};
    FILE *file = fopen(place.path, "re");
    if (!file) return false;
    bool is_read = each_line(file, &place, take_node_line, &wanted);
    fclose(file);
    return is_read && wanted.is_found;
}

static bool read_lines(FILE *file, const char *path, struct profile *profile, struct gpu *all) {
    struct reader reader = {.place = {.path = path}, .profile = profile, .all = all};
    set_defaults(profile, all);
    if (!each_line(file, &reader.place, take_profile_line, &reader)) return false;
    for (int i = 0; i < (int)profile->gpus; i++) {
        if (!reader.has_overrides) profile->gpu[i] = *all;
        complete(&profile->gpu[i], i);
    }
    return check(&reader.place, profile);
}

int read_profile(struct profile *profile) {
    char path[LINE];
    if (!find_profile(path, sizeof path)) return NVML_ERROR_DRIVER_NOT_LOADED;
    struct place place = {.path = path};
    FILE *file = fopen(path, "re");
    if (!file) return wrong(&place, "%s", strerror(errno)), NVML_ERROR_UNKNOWN;
    struct gpu *all = malloc(sizeof *all);
    bool is_good = all && read_lines(file, path, profile, all);
    free(all);
    fclose(file);
    return is_good ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

int error_of(const struct errors *errors, const char *call) {
    size_t length = strlen(call);
    const char *suffix = strstr(call, "_v");
    if (suffix && isdigit((unsigned char)suffix[2])) length = (size_t)(suffix - call);
    for (int i = 0; i < errors->count; i++)
        if (strlen(errors->entries[i].call) == length && !strncmp(errors->entries[i].call, call, length))
            return errors->entries[i].code;
    return 0;
}
