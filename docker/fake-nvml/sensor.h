/* What a GPU's power sensor and its counters say of the waveforms: late, seen through a window, frozen, reset. */
#ifndef HPCKIT_FAKE_NVML_SENSOR_H
#define HPCKIT_FAKE_NVML_SENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule.h"
#include "waveform.h"

struct window_sums; /* of a counter that adds up the sensor's readings; NULL: it adds up the power */

struct sensor {
    int64_t power_update_ns;  /* 0: at every moment */
    int64_t power_window_ns;  /* 0: the power at the update */
    int64_t power_average_ns; /* -1: not written */
    bool usage_is_average;    /* nvmlDeviceGetPowerUsage */
    int64_t power_gain;       /* µ */
    int64_t phase_ns;         /* of the updates of both, after the epoch */
    int64_t energy_update_ns;
    int64_t energy_gain; /* µ */
    int64_t energy_wraps_mj; /* 0: at 2^64 */
    int64_t power_samples; /* that the driver keeps */
    bool energy_window;
    struct window_sums *sums;
    struct moments energy_resets, energy_jumps;
    struct spans energy_frozen, power_frozen;
};

enum reading { INSTANT, AVERAGE };

/* mW at t ns since the epoch. */
int64_t power_reading_mw(const struct sensor *sensor, const struct wave *power_w, int64_t t_ns, enum reading kind);

/* The energy counter at that moment, mJ. */
uint64_t energy_counter_mj(const struct sensor *sensor, const struct wave *power_w, int64_t t_ns);

/* The last update not after t, and how long is between two: 20 ms where the profile does not say it. */
int64_t sample_step_ns(const struct sensor *sensor);
int64_t sample_tick_ns(const struct sensor *sensor, int64_t t_ns);

/* Fill sensor->sums for `energy_window`. False where the readings repeat only after too many updates. */
bool sum_windows(struct sensor *sensor, const struct wave *power_w);
void free_sums(struct sensor *sensor);

#endif
