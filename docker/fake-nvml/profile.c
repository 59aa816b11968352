/* Reads a profile: the part of TOML that README.md describes, line by line. */
#include "profile.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "nvml_codes.h"
#include "values.h"

enum { LINE = 32768, MOST_VALUE = 1000000, MOST_MS = 1000000, MOST_SAMPLES = 10000 };

#define MOST_BYTES 1e12

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

/* ---- keys ------------------------------------------------------------------------------------ */

enum kind { WORDS, NUMBER, FLAG, PCI, UUID, CPUS, NODES, WAVE, LINKS, DEAD, SWITCHES, ROW, P2P, MIGS, SM, VERSION, STATE,
            BYTES, SHARE, MS, GAIN, USAGE, SPANS, RESETS, JUMPS, PIDS_LIST, FILE_NAME };

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
    {"memory_used_bytes", BYTES, AT(memory_used_bytes)},
    {"memory_reserved_bytes", NUMBER, AT(memory_reserved_bytes)},
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
    {"temperature_c", WAVE, AT(temperature_c)},
    {"pcie_generation", NUMBER, AT(pcie_generation)},
    {"pcie_width", NUMBER, AT(pcie_width)},
    {"pcie_max_generation", NUMBER, AT(pcie_max_generation)},
    {"pcie_max_width", NUMBER, AT(pcie_max_width)},
    {"pcie_replays", NUMBER, AT(pcie_replays)},
    {"graphics_mhz", WAVE, AT(graphics_mhz)},
    {"max_graphics_mhz", NUMBER, AT(max_graphics_mhz)},
    {"memory_mhz", WAVE, AT(memory_mhz)},
    {"power_limit_w", NUMBER, AT(power_limit_w)},
    {"power_w", WAVE, AT(power_w)},
    {"utilization_pct", WAVE, AT(utilization_pct)},
    {"memory_utilization_pct", WAVE, AT(memory_utilization_pct)},
    {"processes", WAVE, AT(processes)},
    {"sw_power_cap", SHARE, AT(sw_power_cap)},
    {"sync_boost", SHARE, AT(sync_boost)},
    {"board_limit", SHARE, AT(board_limit)},
    {"sw_thermal", SHARE, AT(sw_thermal)},
    {"hw_thermal", SHARE, AT(hw_thermal)},
    {"hw_power_brake", SHARE, AT(hw_power_brake)},
    {"nvlink_tx_mb_per_s", BYTES, AT(nvlink_tx_mb_per_s)},
    {"nvlink_rx_mb_per_s", BYTES, AT(nvlink_rx_mb_per_s)},
    {"pcie_tx_mb_per_s", BYTES, AT(pcie_tx_mb_per_s)},
    {"pcie_rx_mb_per_s", BYTES, AT(pcie_rx_mb_per_s)},
    {"pcie_wraps_bytes", NUMBER, AT(pcie_wraps_bytes)},
    {"gpm", FLAG, AT(gpm)},
    {"sm_active_pct", WAVE, AT(sm_active_pct)},
    {"sm_occupancy_pct", WAVE, AT(sm_occupancy_pct)},
    {"tensor_active_pct", WAVE, AT(tensor_active_pct)},
    {"dram_active_pct", WAVE, AT(dram_active_pct)},
    {"process_pids", PIDS_LIST, AT(process_pids)},
    {"process_pids_file", FILE_NAME, AT(process_pids_file)},
    {"power_update_ms", MS, AT(sensor.power_update_ns)},
    {"power_window_ms", MS, AT(sensor.power_window_ns)},
    {"power_average_ms", MS, AT(sensor.power_average_ns)},
    {"power_usage", USAGE, AT(sensor.usage_is_average)},
    {"power_gain", GAIN, AT(sensor.power_gain)},
    {"power_samples", NUMBER, AT(sensor.power_samples)},
    {"power_frozen_s", SPANS, AT(sensor.power_frozen)},
    {"sensor_phase_ms", MS, AT(sensor.phase_ns)},
    {"energy_update_ms", MS, AT(sensor.energy_update_ns)},
    {"energy_window", FLAG, AT(sensor.energy_window)},
    {"energy_gain", GAIN, AT(sensor.energy_gain)},
    {"energy_wraps_mj", NUMBER, AT(sensor.energy_wraps_mj)},
    {"energy_frozen_s", SPANS, AT(sensor.energy_frozen)},
    {"energy_reset_s", RESETS, AT(sensor.energy_resets)},
    {"energy_jump_j", JUMPS, AT(sensor.energy_jumps)},
    {"lost_s", SPANS, AT(lost)},
};

static bool take_wave(const char *value, double most, const struct wave **out, struct wave **waves) {
    return (*out = read_wave(value, most, waves)) != NULL;
}

/* What the sensor and the counters do with the waveforms. */
static bool take_behaviour(void *field, enum kind kind, const char *value) {
    switch (kind) {
        case MS: return take_scaled(value, MOST_MS, 1000000, field);
        case GAIN: return take_scaled(value, 10, MICRO, field);
        case USAGE: return take_power_usage(value, field);
        case SPANS: return read_spans(value, field);
        case RESETS: return read_moments(value, false, field);
        case JUMPS: return read_moments(value, true, field);
        case PIDS_LIST: return take_pids(value, field);
        case FILE_NAME: return take_text(value, field, PATH);
        default: return false;
    }
}

static bool take_gpu_value(struct gpu *gpu, const struct key *key, const char *value, struct wave **waves) {
    void *field = (char *)gpu + key->offset;
    switch (key->kind) {
        case WORDS: return take_text(value, field, TEXT);
        case NUMBER: return take_number(value, field);
        case FLAG: return take_flag(value, field);
        case PCI: return take_pci(value, field);
        case UUID: return take_uuid(value, field);
        case CPUS: return take_mask(value, field, CPU_WORDS);
        case NODES: return take_mask(value, field, NODE_WORDS);
        case WAVE: return take_wave(value, MOST_VALUE, field, waves);
        case SHARE: return take_wave(value, 1, field, waves);
        case BYTES: return take_wave(value, MOST_BYTES, field, waves);
        case LINKS: return take_links(value, gpu);
        case DEAD: return take_dead_links(value, gpu);
        case SWITCHES: return take_switches(value, gpu);
        case ROW: return take_row(value, ANCESTOR_WORDS, gpu->ancestor, &gpu->ancestors);
        case P2P: return take_row(value, P2P_WORDS, gpu->p2p, &gpu->p2ps);
        case MIGS: return take_slices(value, gpu);
        case SM: return take_sm(value, gpu);
        case VERSION: return take_nvlink_version(value, gpu);
        case STATE: return take_fabric_state(value, gpu);
        default: return take_behaviour(field, key->kind, value);
    }
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
    if (strncmp(call, "field", 5) || !take_number(call + 5, &entry->field)) entry->field = -1;
    entry->code = code;
    errors->count++;
    return true;
}

/* `true` is where a driver has them. */
static bool take_device_files(const char *value, char out[PATH]) {
    bool is_set;
    if (take_flag(value, &is_set)) return take_text(is_set ? "/dev/nvidia" : "", out, PATH);
    return *value == '/' && take_text(value, out, PATH);
}

static bool take_root(const struct place *place, struct profile *profile, const char *key, const char *value) {
    bool is_synthetic, ok;
    if (!strcmp(key, "schema")) ok = !strcmp(value, "hpckit.nvml-profile/1");
    else if (!strcmp(key, "synthetic")) ok = take_flag(value, &is_synthetic) && is_synthetic;
    else if (!strcmp(key, "gpus")) ok = take_number(value, &profile->gpus) && profile->gpus >= 0 && profile->gpus <= MOST_GPUS;
    else if (!strcmp(key, "driver_version")) ok = take_text(value, profile->driver_version, 40);
    else if (!strcmp(key, "cuda_version")) ok = take_number(value, &profile->cuda_version);
    else if (!strcmp(key, "device_files")) ok = take_device_files(value, profile->device_files);
    else if (!strcmp(key, "epoch_s")) ok = take_number(value, &profile->epoch_s);
    else return wrong(place, "there is no key `%s` outside a section", key);
    return ok || wrong(place, "`%s` cannot be `%.80s`", key, value);
}

static bool take_gpu(const struct place *place, struct gpu *gpu, const char *name, const char *value,
                     struct wave **waves) {
    for (size_t i = 0; i < sizeof GPU_KEYS / sizeof *GPU_KEYS; i++)
        if (!strcmp(name, GPU_KEYS[i].name))
            return take_gpu_value(gpu, &GPU_KEYS[i], value, waves) || wrong(place, "`%s` cannot be `%.80s`", name, value);
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
    return take_gpu(&reader->place, reader->gpu, key, value, &reader->profile->waves);
}

static void set_defaults(struct profile *profile, struct gpu *all) {
    free_waves(&profile->waves);
    for (int i = 0; i < MOST_GPUS; i++) free_sums(&profile->gpu[i].sensor);
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
    all->max_graphics_mhz = 1980;
    all->sensor.power_average_ns = -1;
    all->sensor.power_gain = all->sensor.energy_gain = MICRO;
}

static void complete_wave(const struct wave **wave, double value, struct wave **waves) {
    if (!*wave) *wave = constant_wave(value, waves);
}

/* What the profile does not say: values, and what no two GPUs may share. */
static bool complete(struct gpu *gpu, int index, struct wave **waves) {
    complete_wave(&gpu->power_w, (double)gpu->power_limit_w / 10, waves);
    complete_wave(&gpu->temperature_c, 35, waves);
    complete_wave(&gpu->graphics_mhz, 1980, waves);
    complete_wave(&gpu->memory_mhz, 2619, waves);
    complete_wave(&gpu->memory_used_bytes, 0, waves);
    complete_wave(&gpu->utilization_pct, 0, waves);
    if (!gpu->uuid[0]) snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-5e7e71c0-0000-4000-8000-%012x", index);
    if (!gpu->serial[0]) snprintf(gpu->serial, sizeof gpu->serial, "synthetic-%d", index);
    if (!gpu->pci.is_set) gpu->pci = (struct pci){.is_set = true, .bus = (unsigned)(0x10 + index)};
    if (gpu->minor < 0) gpu->minor = index;
    return gpu->utilization_pct && (!gpu->sensor.energy_window || sum_windows(&gpu->sensor, gpu->power_w));
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
        if (gpu->sensor.power_samples < 0 || gpu->sensor.power_samples > MOST_SAMPLES)
            return wrong(place, "GPU %d: `power_samples` is 0 to %d", (int)i, MOST_SAMPLES);
        if (gpu->sensor.energy_wraps_mj < 0 || gpu->pcie_wraps_bytes < 0 || gpu->memory_reserved_bytes < 0)
            return wrong(place, "GPU %d: `energy_wraps_mj`, `pcie_wraps_bytes` and `memory_reserved_bytes` are not negative", (int)i);
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
        if (!complete(&profile->gpu[i], i, &profile->waves))
            return wrong(&reader.place, "GPU %d: `energy_window` needs `power_update_ms`, and a period of `power_w` of "
                         "which a small multiple, within 262144 updates, is a multiple of it", i);
    }
    return check(&reader.place, profile);
}

int read_profile(struct profile *profile) {
    char path[4096];
    if (!open_clock()) return NVML_ERROR_UNKNOWN;
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

int error_of_field(const struct errors *errors, unsigned field) {
    for (int i = 0; i < errors->count; i++)
        if (errors->entries[i].field == field) return errors->entries[i].code;
    return 0;
}

static bool is_wave(enum kind kind) { return kind == WAVE || kind == BYTES || kind == SHARE; }

const struct wave *wave_of(const struct gpu *gpu, const char *key) {
    for (size_t i = 0; i < sizeof GPU_KEYS / sizeof *GPU_KEYS; i++)
        if (!strcmp(key, GPU_KEYS[i].name) && is_wave(GPU_KEYS[i].kind))
            return *(const struct wave *const *)((const char *)gpu + GPU_KEYS[i].offset);
    return NULL;
}

int64_t since_epoch(const struct profile *profile, int64_t now) {
    int64_t since = now - profile->epoch_s * NS_PER_S;
    return since > 0 ? since : 0;
}

wide integral_nano(const struct profile *profile, const struct wave *wave, int64_t from, int64_t to) {
    wide whole2 = wave_integral2(wave, since_epoch(profile, to)) - wave_integral2(wave, since_epoch(profile, from));
    return whole2 / (2 * MICRO); /* µ * ns is 1e-15 of a unit times seconds */
}
