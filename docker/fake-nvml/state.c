/* How a GPU is: memory, health, power, clocks, PCIe. */
#include <string.h>

#include "library.h"

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct temperature {
    unsigned version, sensor;
    int celsius;
};

struct utilization {
    unsigned gpu, memory;
};

struct sample {
    unsigned long long timestamp_us;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

_Static_assert(sizeof(struct sample) == 16, "nvmlSample_t");
_Static_assert(sizeof(struct memory_v2) == 0x28, "nvmlMemory_v2");
_Static_assert(sizeof(struct temperature) == 0xc, "nvmlTemperature_v1");

/* Of all memory a part is reserved, and only the second version of the structure says it apart. */
static void memory_of(const struct device *device, struct memory_v2 *out) {
    const struct gpu *gpu = device->gpu;
    unsigned long long total = (unsigned long long)gpu->memory_bytes, reserved = 0, used = 0;
    if (device->slice >= 0) {
        total = (unsigned long long)gpu->slice[device->slice].memory_gb << 30;
    } else {
        reserved = (unsigned long long)gpu->memory_reserved_bytes;
        used = (unsigned long long)whole(gpu->memory_used_bytes);
    }
    if (reserved > total) reserved = total;
    if (used > total - reserved) used = total - reserved;
    out->total = total;
    out->reserved = reserved;
    out->free = total - reserved - used;
    out->used = used;
}

API nvmlDeviceGetMemoryInfo(const struct device *device, struct memory *out) {
    struct memory_v2 memory;
    ENTER(device);
    NEED(out);
    memory_of(device, &memory);
    *out = (struct memory){.total = memory.total, .free = memory.free, .used = memory.used + memory.reserved};
    return NVML_SUCCESS;
}

API nvmlDeviceGetMemoryInfo_v2(const struct device *device, struct memory_v2 *out) {
    ENTER(device);
    NEED(out);
    if (out->version != 0x02000028) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory_of(device, out);
    return NVML_SUCCESS;
}

/* ---- how a GPU is ---------------------------------------------------------------------------- */

/* What the profile says, and the bits of what holds the clocks down at this moment. */
static int put_reasons(const struct gpu *gpu, unsigned long long *out) {
    const struct {
        const struct wave *share;
        unsigned bits;
    } CAUSES[] = {{gpu->sw_power_cap, 0x4}, {gpu->sync_boost, 0x10}, {gpu->sw_thermal, 0x20},
                  {gpu->hw_thermal, 0x48}, {gpu->hw_power_brake, 0x88}}; /* hardware ones are slowdowns, 8, as well */
    int64_t t = elapsed();
    NEED(out);
    *out = (unsigned long long)gpu->clocks_event_reasons;
    for (size_t i = 0; i < sizeof CAUSES / sizeof *CAUSES; i++)
        if (CAUSES[i].share && wave_value(CAUSES[i].share, t)) *out |= CAUSES[i].bits;
    return NVML_SUCCESS;
}

API nvmlDeviceGetCurrentClocksEventReasons(const struct device *device, unsigned long long *out) {
    ENTER_GPU(device);
    return put_reasons(device->gpu, out);
}
API nvmlDeviceGetCurrentClocksThrottleReasons(const struct device *device, unsigned long long *out) {
    ENTER_GPU(device);
    return put_reasons(device->gpu, out);
}

API nvmlDeviceGetRemappedRows(const struct device *device, unsigned *correctable, unsigned *uncorrectable,
                              unsigned *pending, unsigned *failed) {
    ENTER_GPU(device);
    NEED(correctable && uncorrectable && pending && failed);
    if (device->gpu->sm_major < 8) return NVML_ERROR_NOT_SUPPORTED;
    *correctable = (unsigned)device->gpu->remapped_correctable;
    *uncorrectable = (unsigned)device->gpu->remapped_uncorrectable;
    *pending = device->gpu->remapping_pending;
    *failed = device->gpu->remapping_failed;
    return NVML_SUCCESS;
}

API nvmlDeviceGetEccMode(const struct device *device, unsigned *current, unsigned *pending) {
    ENTER_GPU(device);
    NEED(current && pending);
    *current = *pending = device->gpu->ecc;
    return NVML_SUCCESS;
}

API nvmlDeviceGetTotalEccErrors(const struct device *device, unsigned kind, unsigned counter, unsigned long long *out) {
    ENTER_GPU(device);
    NEED(out && kind <= 1 && counter <= 1);
    if (!device->gpu->ecc) return NVML_ERROR_NOT_SUPPORTED;
    *out = 0;
    if (kind == 1)
        *out = (unsigned long long)(counter ? device->gpu->ecc_uncorrected_aggregate : device->gpu->ecc_uncorrected_volatile);
    return NVML_SUCCESS;
}

API nvmlDeviceGetTemperature(const struct device *device, unsigned sensor, unsigned *out) {
    ENTER_GPU(device);
    NEED(sensor == 0);
    return put(out, whole(device->gpu->temperature_c));
}

API nvmlDeviceGetTemperatureV(const struct device *device, struct temperature *out) {
    ENTER_GPU(device);
    NEED(out && out->sensor == 0);
    if (out->version != 0x0100000c) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->celsius = (int)whole(device->gpu->temperature_c);
    return NVML_SUCCESS;
}

API nvmlDeviceGetPowerUsage(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    const struct gpu *gpu = device->gpu;
    enum reading kind = gpu->sensor.usage_is_average ? AVERAGE : INSTANT;
    return put(out, power_reading_mw(&gpu->sensor, gpu->power_w, elapsed(), kind));
}

/* The driver's ring of power readings, those after `seen_us`, the oldest first. Without `out` how many there may be. */
API nvmlDeviceGetSamples(const struct device *device, unsigned type, unsigned long long seen_us, int *value_type,
                         unsigned *count, struct sample *out) {
    ENTER_GPU(device);
    NEED(count && value_type);
    const struct sensor *sensor = &device->gpu->sensor;
    if (type != 0 || !sensor->power_samples) return NVML_ERROR_NOT_SUPPORTED; /* NVML_TOTAL_POWER_SAMPLES */
    *value_type = 1;                                                          /* NVML_VALUE_TYPE_UNSIGNED_INT */
    unsigned room = *count, given = 0;
    *count = (unsigned)sensor->power_samples;
    if (!out) return NVML_SUCCESS;
    int64_t step = sample_step_ns(sensor), last = sample_tick_ns(sensor, elapsed());
    for (int64_t i = sensor->power_samples - 1; i >= 0 && given < room; i--) {
        int64_t at = last - i * step, us = (at + profile.epoch_s * NS_PER_S) / 1000;
        if (at < 0 || (unsigned long long)us <= seen_us) continue;
        unsigned mw = (unsigned)power_reading_mw(sensor, device->gpu->power_w, at, INSTANT);
        out[given++] = (struct sample){.timestamp_us = (unsigned long long)us, .value.u = mw};
    }
    *count = given;
    return given ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

API nvmlDeviceGetEnforcedPowerLimit(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->power_limit_w * 1000);
}
API nvmlDeviceGetPowerManagementLimit(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->power_limit_w * 1000);
}
API nvmlDeviceGetPowerManagementDefaultLimit(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->power_limit_w * 1000);
}

API nvmlDeviceGetTotalEnergyConsumption(const struct device *device, unsigned long long *out) {
    ENTER_GPU(device);
    NEED(out);
    *out = energy_counter_mj(&device->gpu->sensor, device->gpu->power_w, elapsed());
    return NVML_SUCCESS;
}

static unsigned percent(const struct wave *wave) {
    int64_t pct = whole(wave);
    return (unsigned)(pct < 100 ? pct : 100);
}

API nvmlDeviceGetUtilizationRates(const struct device *device, struct utilization *out) {
    ENTER_GPU(device);
    NEED(out);
    if (device->gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    const struct wave *memory = device->gpu->memory_utilization_pct;
    out->gpu = percent(device->gpu->utilization_pct);
    out->memory = memory ? percent(memory) : out->gpu / 2;
    return NVML_SUCCESS;
}

API nvmlDeviceGetPerformanceState(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, 0);
}

/* ---- PCIe ------------------------------------------------------------------------------------ */

#define PCIE(call, value)                                        \
    API nvmlDeviceGet##call(const struct device *device, unsigned *out) { \
        ENTER_GPU(device);                                       \
        return put(out, device->gpu->value);                     \
    }
PCIE(CurrPcieLinkGeneration, pcie_generation)
PCIE(CurrPcieLinkWidth, pcie_width)
PCIE(MaxPcieLinkGeneration, pcie_max_generation)
PCIE(GpuMaxPcieLinkGeneration, pcie_max_generation)
PCIE(MaxPcieLinkWidth, pcie_max_width)
PCIE(PcieReplayCounter, pcie_replays)

/* ---- clocks ---------------------------------------------------------------------------------- */

static int64_t most_memory_mhz(const struct gpu *gpu) { return wave_most(gpu->memory_mhz) / MICRO; }

static int put_clock(unsigned type, int64_t graphics, int64_t memory, unsigned *out) {
    NEED(type <= 3);
    return put(out, type == 2 ? memory : graphics); /* NVML_CLOCK_MEM */
}

API nvmlDeviceGetClockInfo(const struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device);
    return put_clock(type, whole(device->gpu->graphics_mhz), whole(device->gpu->memory_mhz), out);
}
API nvmlDeviceGetMaxClockInfo(const struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device);
    return put_clock(type, device->gpu->max_graphics_mhz, most_memory_mhz(device->gpu), out);
}
API nvmlDeviceGetApplicationsClock(const struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device);
    return put_clock(type, whole(device->gpu->graphics_mhz), whole(device->gpu->memory_mhz), out);
}

API nvmlDeviceGetSupportedMemoryClocks(const struct device *device, unsigned *count, unsigned *out) {
    ENTER_GPU(device);
    NEED(count);
    unsigned size = *count;
    *count = 1;
    if (!out || !size) return NVML_ERROR_INSUFFICIENT_SIZE;
    return put(out, most_memory_mhz(device->gpu));
}

/* In steps of 15 MHz from the highest down to 345, as on an H100. */
API nvmlDeviceGetSupportedGraphicsClocks(const struct device *device, unsigned memory_mhz, unsigned *count, unsigned *out) {
    ENTER_GPU(device);
    NEED(count);
    if (memory_mhz != (unsigned)most_memory_mhz(device->gpu)) return NVML_ERROR_NOT_FOUND;
    int64_t most = device->gpu->max_graphics_mhz;
    unsigned size = *count;
    *count = most < 345 || most > 5000 ? 1 : (unsigned)((most - 345) / 15 + 1);
    if (!out || size < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) out[i] = (unsigned)(most - 15 * (int64_t)i);
    return NVML_SUCCESS;
}

/* Nothing can be set: a fake that took a setting and did not show it would lie. */
#define REFUSES(call, ...)                                       \
    API nvmlDevice##call(const struct device *device, ##__VA_ARGS__) { \
        ENTER_GPU(device);                                       \
        return NVML_ERROR_NOT_SUPPORTED;                         \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSES(SetApplicationsClocks, unsigned memory_mhz, unsigned graphics_mhz)
REFUSES(ResetApplicationsClocks)
REFUSES(SetGpuLockedClocks, unsigned least_mhz, unsigned most_mhz)
REFUSES(ResetGpuLockedClocks)
REFUSES(SetMemoryLockedClocks, unsigned least_mhz, unsigned most_mhz)
REFUSES(ResetMemoryLockedClocks)
REFUSES(SetPersistenceMode, unsigned mode)
REFUSES(SetAccountingMode, unsigned mode)
REFUSES(GetAccountingStats, unsigned pid, void *out)
#pragma GCC diagnostic pop
