/* GPM, the performance counters of Hopper and later: means of waveforms between two samples. */
#include <stdlib.h>

#include "clock.h"
#include "library.h"

enum { MOST_METRICS = 477, GPM_VERSION = 1 }; /* pynvml: NVML_GPM_METRIC_MAX */

#define MIB_PER_MB (1e6 / 1048576)

struct gpm_sample {
    const struct gpu *gpu; /* NULL: not taken yet */
    int64_t t_ns;
};

struct gpm_metric {
    unsigned id;
    int code;
    double value;
    const char *short_name, *long_name, *unit;
};

struct gpm_metrics {
    unsigned version, count;
    struct gpm_sample *first, *second;
    struct gpm_metric metrics[MOST_METRICS];
};

struct gpm_support {
    unsigned version, is_supported;
};

_Static_assert(sizeof(struct gpm_metric) == 40, "nvmlGpmMetric_t");
_Static_assert(sizeof(struct gpm_metrics) == 24 + MOST_METRICS * 40, "nvmlGpmMetricsGet_t");

API nvmlGpmQueryDeviceSupport(const struct device *device, struct gpm_support *out) {
    ENTER(device);
    NEED(out);
    if (out->version != GPM_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->is_supported = device->gpu->gpm;
    return NVML_SUCCESS;
}

API nvmlGpmSampleAlloc(struct gpm_sample **out) {
    ENTER_SYSTEM();
    NEED(out);
    *out = calloc(1, sizeof **out);
    return *out ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

API nvmlGpmSampleFree(struct gpm_sample *sample) {
    NEED(sample);
    free(sample);
    return NVML_SUCCESS;
}

static int sample_now(const struct gpu *gpu, struct gpm_sample *sample) {
    NEED(sample);
    if (!gpu->gpm) return NVML_ERROR_NOT_SUPPORTED;
    sample->gpu = gpu;
    sample->t_ns = elapsed();
    return NVML_SUCCESS;
}

API nvmlGpmSampleGet(const struct device *device, struct gpm_sample *sample) {
    ENTER_GPU(device);
    return sample_now(device->gpu, sample);
}

/* The slices of a profile have no waveforms of their own: each shows those of the GPU. */
API nvmlGpmMigSampleGet(const struct device *device, unsigned gpu_instance, struct gpm_sample *sample) {
    ENTER_GPU(device);
    NEED(device->gpu->mig && gpu_instance >= 1 && gpu_instance <= (unsigned)device->gpu->slices);
    return sample_now(device->gpu, sample);
}

static const struct wave *wave_of_metric(const struct gpu *gpu, unsigned id, double *scale) {
    *scale = id >= 20 ? MIB_PER_MB : 1;
    switch (id) { /* nvml.h: NVML_GPM_METRIC_* */
        case 1: return gpu->utilization_pct;
        case 2: return gpu->sm_active_pct;
        case 3: return gpu->sm_occupancy_pct;
        case 5: return gpu->tensor_active_pct;
        case 10: return gpu->dram_active_pct;
        case 20: return gpu->pcie_tx_mb_per_s;
        case 21: return gpu->pcie_rx_mb_per_s;
        case 60: return gpu->nvlink_rx_mb_per_s;
        case 61: return gpu->nvlink_tx_mb_per_s;
        default: return NULL;
    }
}

static void fill_metric(struct gpm_metric *metric, const struct gpm_sample *first, const struct gpm_sample *second) {
    double scale;
    const struct wave *wave = wave_of_metric(first->gpu, metric->id, &scale);
    metric->value = 0;
    metric->code = wave ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    if (!wave) return;
    wide sum2 = wave_integral2(wave, second->t_ns) - wave_integral2(wave, first->t_ns);
    metric->value = (double)sum2 / 2 / (double)(second->t_ns - first->t_ns) / MICRO * scale;
}

API nvmlGpmMetricsGet(struct gpm_metrics *get) {
    ENTER_SYSTEM();
    NEED(get && get->count <= MOST_METRICS);
    if (get->version != GPM_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct gpm_sample *first = get->first, *second = get->second;
    NEED(first && second && first->gpu && first->gpu == second->gpu && first->t_ns < second->t_ns);
    for (unsigned i = 0; i < get->count; i++) fill_metric(&get->metrics[i], first, second);
    return NVML_SUCCESS;
}
