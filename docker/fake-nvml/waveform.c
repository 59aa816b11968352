/* A waveform: straight lines between points, repeated for ever. Its integral is computed, not added
   up, so that every process sees the same counter at the same moment. */
#include "profile.h"

/* The integral from the first point up to `t` seconds into the period. */
static double partial(const struct points *points, double t) {
    double sum = 0;
    for (int i = 1; i < points->count; i++) {
        double from = points->at_s[i - 1], to = points->at_s[i];
        if (t <= from) break;
        double end = t < to ? t : to, width = to - from;
        double rise = (points->value[i] - points->value[i - 1]) / width;
        sum += (points->value[i - 1] + rise * (end - from) / 2) * (end - from);
    }
    return sum;
}

/* Seconds into the period; *periods are those that have passed. Whole seconds are taken apart as
   integers, so that a clock of today loses no nanoseconds. */
static double phase(const struct points *points, int64_t since_s, long ns, double *periods) {
    double period = points->at_s[points->count - 1];
    if (since_s < 0) since_s = 0, ns = 0;
    double t = (double)since_s + (double)ns / 1e9;
    *periods = (double)(int64_t)(t / period);
    t -= *periods * period;
    if (t < 0) t = 0;
    return t < period ? t : period;
}

double value_at(const struct points *points, int64_t epoch_s, int64_t now_s, long now_ns) {
    if (points->count == 0) return 0;
    if (points->count == 1) return points->value[0];
    double periods, t = phase(points, now_s - epoch_s, now_ns, &periods);
    for (int i = 1; i < points->count; i++) {
        double from = points->at_s[i - 1], to = points->at_s[i];
        if (t <= to)
            return points->value[i - 1] + (points->value[i] - points->value[i - 1]) * (t - from) / (to - from);
    }
    return points->value[points->count - 1];
}

double integral_at(const struct points *points, int64_t epoch_s, int64_t now_s, long now_ns) {
    if (points->count == 0 || now_s < epoch_s) return 0;
    if (points->count == 1) return points->value[0] * ((double)(now_s - epoch_s) + (double)now_ns / 1e9);
    double periods, t = phase(points, now_s - epoch_s, now_ns, &periods);
    return periods * partial(points, points->at_s[points->count - 1]) + partial(points, t);
}
