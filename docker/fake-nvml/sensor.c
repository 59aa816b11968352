/* The power sensor and the energy counter of a GPU. */
#include "sensor.h"

#include <stdlib.h>

#define MJ2 ((wide)2000000000000)       /* wave_integral2() of a millijoule */
#define DEFAULT_AVERAGE_NS 1000000000LL /* nvml.h of POWER_AVERAGE: one second */
#define DEFAULT_SAMPLE_NS 20000000LL

enum { MOST_SUMS = 1 << 18 };

struct window_sums {
    int64_t count;  /* updates after which the readings repeat */
    wide before2[]; /* twice µW ns of the first n updates; count + 1 of them */
};

static int64_t tick(int64_t t, int64_t step, int64_t phase) {
    return step ? t - floor_mod(t - phase, step) : t;
}

static wide window2(const struct wave *power, int64_t end, int64_t width) {
    return wave_integral2(power, end) - wave_integral2(power, end - width);
}

static int64_t average_ns(const struct sensor *sensor) {
    if (sensor->power_average_ns >= 0) return sensor->power_average_ns;
    return sensor->power_update_ns || sensor->power_window_ns ? DEFAULT_AVERAGE_NS : 0;
}

int64_t power_reading_mw(const struct sensor *sensor, const struct wave *power, int64_t t, enum reading kind) {
    int64_t width = kind == AVERAGE ? average_ns(sensor) : sensor->power_window_ns;
    is_within(&sensor->power_frozen, t, &t);
    int64_t at = tick(t, sensor->power_update_ns, sensor->phase_ns);
    wide uw = width ? floor_div(window2(power, at, width), 2 * width) : wave_value(power, at);
    return (int64_t)(uw * sensor->power_gain / MICRO / 1000);
}

int64_t sample_step_ns(const struct sensor *sensor) {
    return sensor->power_update_ns ? sensor->power_update_ns : DEFAULT_SAMPLE_NS;
}

int64_t sample_tick_ns(const struct sensor *sensor, int64_t t) {
    return tick(t, sample_step_ns(sensor), sensor->phase_ns);
}

/* ---- the counter ----------------------------------------------------------------------------- */

/* What a reading counts for until the next: the window's mean for the whole time between two updates. */
static wide update2(const struct sensor *sensor, const struct wave *power, int64_t at) {
    int64_t step = sensor->power_update_ns, width = sensor->power_window_ns;
    if (!width) return (wide)2 * wave_value(power, at) * step;
    return floor_div(window2(power, at, width) * step, width);
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

bool sum_windows(struct sensor *sensor, const struct wave *power) {
    int64_t step = sensor->power_update_ns, period = wave_period_ns(power);
    int64_t count = period ? period / common_divisor(period, step) : 1;
    if (!step || count > MOST_SUMS) return false;
    struct window_sums *sums = malloc(sizeof *sums + (size_t)(count + 1) * sizeof *sums->before2);
    if (!sums) return false;
    sums->count = count;
    sums->before2[0] = 0;
    for (int64_t i = 0; i < count; i++)
        sums->before2[i + 1] = sums->before2[i] + update2(sensor, power, floor_mod(sensor->phase_ns, step) + i * step);
    sensor->sums = sums;
    return true;
}

void free_sums(struct sensor *sensor) {
    free(sensor->sums);
    sensor->sums = NULL;
}

static wide counted2(const struct sensor *sensor, const struct wave *power, int64_t t) {
    const struct window_sums *sums = sensor->sums;
    if (!sums) return wave_integral2(power, t);
    int64_t first = floor_mod(sensor->phase_ns, sensor->power_update_ns);
    int64_t updates = t < first ? 0 : (t - first) / sensor->power_update_ns + 1;
    return updates / sums->count * sums->before2[sums->count] + sums->before2[updates % sums->count];
}

uint64_t energy_counter_mj(const struct sensor *sensor, const struct wave *power, int64_t t) {
    int64_t reset = 0;
    is_within(&sensor->energy_frozen, t, &t);
    bool was_reset = last_moment(&sensor->energy_resets, t, &reset);
    int64_t at = tick(t, sensor->energy_update_ns, sensor->phase_ns);
    if (at < reset) at = reset; /* also before the epoch */
    wide sum2 = counted2(sensor, power, at) - (was_reset ? counted2(sensor, power, reset) : 0);
    wide mj = sum2 * sensor->energy_gain / MICRO / MJ2;
    mj += sum_of_moments(&sensor->energy_jumps, t) - (was_reset ? sum_of_moments(&sensor->energy_jumps, reset) : 0);
    if (mj < 0) mj = 0;
    return (uint64_t)(sensor->energy_wraps_mj ? mj % sensor->energy_wraps_mj : mj);
}
