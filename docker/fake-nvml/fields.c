/* nvmlDeviceGetFieldValues. */
#include <limits.h>

#include "clock.h"
#include "library.h"

struct field_value {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

enum { NVLINK_5 = 7 }; /* nvml.h: NVML_NVLINK_VERSION_5_0 */

enum { /* nvml.h: NVML_FI_DEV_* */
    FIELD_ENERGY = 83,
    FIELD_SW_POWER_CAP = 74,
    FIELD_THERMAL = 75,
    FIELD_SYNC_BOOST = 76,
    FIELD_BOARD_LIMIT = 77,
    FIELD_SPEED_COMMON = 90,
    FIELD_LINK_COUNT = 91,
    FIELD_LINK_TX_KIB = 138,
    FIELD_LINK_RX_KIB = 139,
    FIELD_LINK_SPEED = 164,
    FIELD_LINK_STATE = 165,
    FIELD_C2C_COUNT = 170,
    FIELD_C2C_STATUS = 171,
    FIELD_C2C_BANDWIDTH = 172,
    FIELD_POWER_AVERAGE = 185,
    FIELD_POWER_INSTANT = 186,
    FIELD_PCIE_TX = 197,
    FIELD_PCIE_RX = 198,
    FIELD_LINK_TX = 202,
    FIELD_LINK_RX = 204,
    FIELD_SW_THERMAL = 269,
    FIELD_HW_THERMAL = 270,
    FIELD_HW_POWER_BRAKE = 271
};

static int number_field(struct field_value *field, int64_t value) {
    field->type = 1; /* NVML_VALUE_TYPE_UNSIGNED_INT */
    field->value.u = (unsigned)value;
    return NVML_SUCCESS;
}

static int link_field(const struct gpu *gpu, struct field_value *field) {
    int code = check_link(gpu, field->scope);
    if (code) return code;
    bool active = is_active(gpu, field->scope);
    return number_field(field, field->id == FIELD_LINK_STATE ? active : active ? gpu->nvlink_mb_per_s : 0);
}

static int c2c_field(const struct gpu *gpu, struct field_value *field) {
    if (!gpu->c2c_links) return NVML_ERROR_NOT_SUPPORTED;
    if (field->id == FIELD_C2C_COUNT) return number_field(field, gpu->c2c_links);
    if (field->scope >= (unsigned)gpu->c2c_links) return NVML_ERROR_INVALID_ARGUMENT;
    return number_field(field, field->id == FIELD_C2C_STATUS ? ENABLED : gpu->c2c_mb_per_s);
}

static int counter_field(struct field_value *field, uint64_t value) {
    field->type = 3; /* NVML_VALUE_TYPE_UNSIGNED_LONG_LONG */
    field->value.ull = value;
    return NVML_SUCCESS;
}

/* ns for which a waveform of 0 to 1 says that the clocks were held down. */
static int slowed_field(struct field_value *field, const struct wave *share, const struct wave *other, int64_t t) {
    if (!share && !other) return NVML_ERROR_NOT_SUPPORTED;
    wide sum2 = (share ? wave_integral2(share, t) : 0) + (other ? wave_integral2(other, t) : 0);
    return counter_field(field, (uint64_t)(sum2 / (2 * MICRO)));
}

/* Bytes of a waveform in MB/s. */
static wide bytes_of(const struct wave *rate, int64_t t) { return wave_integral2(rate, t) / (2 * (wide)NS_PER_S); }

static int pcie_field(const struct gpu *gpu, struct field_value *field, const struct wave *rate, int64_t t) {
    if (!rate) return NVML_ERROR_NOT_SUPPORTED;
    wide bytes = bytes_of(rate, t);
    return counter_field(field, (uint64_t)(gpu->pcie_wraps_bytes ? bytes % gpu->pcie_wraps_bytes : bytes));
}

static int active_links(const struct gpu *gpu) {
    int count = 0;
    for (int link = 0; link < gpu->links; link++) count += is_active(gpu, (unsigned)link);
    return count;
}

/* The waveform is that of all links together, and each active one has its share. KiB up to NVLink 4, bytes after. */
static int traffic_field(const struct gpu *gpu, struct field_value *field, const struct wave *rate, int64_t t) {
    bool is_kib = field->id < FIELD_LINK_TX;
    if (!rate || is_kib != (gpu->nvlink_version < NVLINK_5)) return NVML_ERROR_NOT_SUPPORTED;
    wide bytes = bytes_of(rate, t);
    if (field->scope != UINT_MAX) {
        int code = check_link(gpu, field->scope);
        if (code) return code;
        bytes = is_active(gpu, field->scope) ? bytes / active_links(gpu) : 0;
    }
    return counter_field(field, (uint64_t)(is_kib ? bytes / 1024 : bytes));
}

/* Counters of what a GPU did, each there where the profile has its waveform. */
static int activity_field(const struct gpu *gpu, struct field_value *field, int64_t t) {
    switch (field->id) {
        case FIELD_SW_POWER_CAP: return slowed_field(field, gpu->sw_power_cap, NULL, t);
        case FIELD_THERMAL: return slowed_field(field, gpu->sw_thermal, gpu->hw_thermal, t);
        case FIELD_SYNC_BOOST: return slowed_field(field, gpu->sync_boost, NULL, t);
        case FIELD_BOARD_LIMIT: return slowed_field(field, gpu->board_limit, NULL, t);
        case FIELD_SW_THERMAL: return slowed_field(field, gpu->sw_thermal, NULL, t);
        case FIELD_HW_THERMAL: return slowed_field(field, gpu->hw_thermal, NULL, t);
        case FIELD_HW_POWER_BRAKE: return slowed_field(field, gpu->hw_power_brake, NULL, t);
        case FIELD_LINK_TX_KIB:
        case FIELD_LINK_TX: return traffic_field(gpu, field, gpu->nvlink_tx_mb_per_s, t);
        case FIELD_LINK_RX_KIB:
        case FIELD_LINK_RX: return traffic_field(gpu, field, gpu->nvlink_rx_mb_per_s, t);
        case FIELD_PCIE_TX: return pcie_field(gpu, field, gpu->pcie_tx_mb_per_s, t);
        case FIELD_PCIE_RX: return pcie_field(gpu, field, gpu->pcie_rx_mb_per_s, t);
        default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

static int power_field(const struct gpu *gpu, struct field_value *field, int64_t t) {
    enum reading kind = field->id == FIELD_POWER_AVERAGE ? AVERAGE : INSTANT;
    return number_field(field, power_reading_mw(&gpu->sensor, gpu->power_w, t, kind));
}

static int fill_field(const struct gpu *gpu, struct field_value *field, int64_t t) {
    int code = injected(error_of_field(&gpu->errors, field->id));
    if (code) return code;
    switch (field->id) {
        case FIELD_ENERGY: return counter_field(field, energy_counter_mj(&gpu->sensor, gpu->power_w, t));
        case FIELD_LINK_COUNT: return number_field(field, gpu->links);
        case FIELD_SPEED_COMMON:
            return gpu->links ? number_field(field, gpu->nvlink_mb_per_s) : NVML_ERROR_NOT_SUPPORTED;
        case FIELD_LINK_SPEED:
        case FIELD_LINK_STATE: return link_field(gpu, field);
        case FIELD_C2C_COUNT:
        case FIELD_C2C_STATUS:
        case FIELD_C2C_BANDWIDTH: return c2c_field(gpu, field);
        case FIELD_POWER_AVERAGE:
        case FIELD_POWER_INSTANT: return power_field(gpu, field, t);
        default: return activity_field(gpu, field, t);
    }
}

API nvmlDeviceGetFieldValues(const struct device *device, int count, struct field_value *values) {
    ENTER_GPU(device);
    NEED(values && count > 0);
    int64_t now = now_ns(), t = since_epoch(&profile, now);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = now / 1000;
        values[i].latency = 0;
        values[i].value.ull = 0;
        values[i].code = fill_field(device->gpu, &values[i], t);
    }
    return NVML_SUCCESS;
}

struct violation {
    unsigned long long reference_us, violation_ns;
};

_Static_assert(sizeof(struct violation) == 16, "nvmlViolationTime_t");

/* The counters of the fields of the same policies. */
API nvmlDeviceGetViolationStatus(const struct device *device, unsigned policy, struct violation *out) {
    static const unsigned FIELDS[] = {FIELD_SW_POWER_CAP, FIELD_THERMAL, FIELD_SYNC_BOOST, FIELD_BOARD_LIMIT};
    ENTER_GPU(device);
    NEED(out);
    if (policy >= sizeof FIELDS / sizeof *FIELDS) return NVML_ERROR_NOT_SUPPORTED;
    struct field_value field = {.id = FIELDS[policy]};
    int64_t now = now_ns();
    int code = activity_field(device->gpu, &field, since_epoch(&profile, now));
    if (code) return code;
    *out = (struct violation){.reference_us = (unsigned long long)(now / 1000), .violation_ns = field.value.ull};
    return NVML_SUCCESS;
}
