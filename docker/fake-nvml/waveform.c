/* Waveforms. An integral is computed, not added up, so that every process sees the same counter at the same
   moment; in integers, so that years after the epoch it is as exact as at the epoch. */
#include "waveform.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SINE_LINES = 128, MOST_SECONDS = 1000000000 };

struct knot {
    int64_t at_ns, value;
    wide before2; /* twice the integral from the first knot to this one */
};

struct wave {
    struct wave *next;
    int count;
    int64_t shift_ns; /* the first knot is this long after the epoch */
    wide shift2;      /* what the integral from there to the epoch would count */
    struct knot knots[];
};

/* ---- values and integrals -------------------------------------------------------------------- */

int64_t wave_period_ns(const struct wave *wave) { return wave->count > 1 ? wave->knots[wave->count - 1].at_ns : 0; }

int64_t wave_most(const struct wave *wave) {
    int64_t most = wave->knots[0].value;
    for (int i = 1; i < wave->count; i++)
        if (wave->knots[i].value > most) most = wave->knots[i].value;
    return most;
}

/* The last knot that is not after `at`, which is below the period: of two at one moment the later. */
static const struct knot *knot_at(const struct wave *wave, int64_t at) {
    int low = 0, high = wave->count - 1; /* knots[low] <= at < knots[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (wave->knots[middle].at_ns <= at) low = middle;
        else high = middle;
    }
    return &wave->knots[low];
}

/* Into the period; *periods are the whole ones that have passed. */
static int64_t phase(const struct wave *wave, int64_t t, int64_t *periods) {
    int64_t period = wave_period_ns(wave), at = floor_mod(t, period);
    *periods = (t - at) / period;
    return at;
}

/* Floor of rise * d / width, and what is left of the division. Up to 1e18 * 1e18. */
static int64_t risen(const struct knot *knot, int64_t d, int64_t *rest) {
    wide rise = (wide)(knot[1].value - knot->value) * d;
    int64_t width = knot[1].at_ns - knot->at_ns;
    wide whole = floor_div(rise, width);
    *rest = (int64_t)(rise - whole * width);
    return (int64_t)whole;
}

int64_t wave_value(const struct wave *wave, int64_t t) {
    int64_t periods, rest;
    if (wave->count == 1) return wave->knots[0].value;
    int64_t at = phase(wave, t - wave->shift_ns, &periods);
    const struct knot *knot = knot_at(wave, at);
    if (knot->value == knot[1].value) return knot->value;
    return knot->value + risen(knot, at - knot->at_ns, &rest);
}

/* Twice the integral from a knot on: (2 v + rise * d / width) * d, in parts that stay below 2^127. */
static wide from_knot2(const struct knot *knot, int64_t d) {
    int64_t rest;
    wide flat = (wide)2 * knot->value * d;
    if (!d || knot->value == knot[1].value) return flat;
    int64_t whole = risen(knot, d, &rest), width = knot[1].at_ns - knot->at_ns;
    return flat + (wide)whole * d + (wide)rest * d / width;
}

static wide since_first2(const struct wave *wave, int64_t t) {
    int64_t periods;
    int64_t at = phase(wave, t, &periods);
    const struct knot *knot = knot_at(wave, at);
    return periods * wave->knots[wave->count - 1].before2 + knot->before2 + from_knot2(knot, at - knot->at_ns);
}

wide wave_integral2(const struct wave *wave, int64_t t) {
    if (wave->count == 1) return (wide)2 * wave->knots[0].value * t;
    return since_first2(wave, t - wave->shift_ns) - wave->shift2;
}

/* ---- making one ------------------------------------------------------------------------------ */

static bool add(struct wave *wave, double at_s, double value) {
    if (wave->count == MOST_POINTS) return false;
    struct knot knot = {.at_ns = llround(at_s * NS_PER_S), .value = llround(value * MICRO)};
    if (wave->count) {
        const struct knot *before = &wave->knots[wave->count - 1];
        if (knot.at_ns < before->at_ns) return false;
        knot.before2 = before->before2 + (wide)(before->value + knot.value) * (knot.at_ns - before->at_ns);
    } else if (knot.at_ns) {
        return false;
    }
    wave->knots[wave->count++] = knot;
    return true;
}

/* `0:120 10:650 30:120`, the seconds ascending from 0; two values at one moment are a step. */
static bool add_points(struct wave *wave, const char *text, double most) {
    char *end;
    while (*text) {
        double at = strtod(text, &end);
        if (end == text || *end != ':' || !(at >= 0 && at <= MOST_SECONDS)) return false;
        text = end + 1;
        double value = strtod(text, &end);
        if (end == text || !(value >= 0 && value <= most) || !add(wave, at, value)) return false;
        text = end;
        if (*text && *text != ' ') return false;
        while (*text == ' ') text++;
    }
    return wave->count > 1 && wave_period_ns(wave) > 0;
}

/* `square:LOW:HIGH:PERIOD_S:DUTY`: high from the start of each period for DUTY of it. */
static bool add_square(struct wave *wave, const double *v) {
    double low = v[0], high = v[1], period = v[2], duty = v[3];
    if (!(duty >= 0 && duty <= 1)) return false;
    return add(wave, 0, high) && add(wave, duty * period, high) && add(wave, duty * period, low) &&
           add(wave, period, low);
}

/* `sine:LOW:HIGH:PERIOD_S`: 128 straight lines, from the middle upwards. */
static bool add_sine(struct wave *wave, const double *v) {
    double middle = (v[0] + v[1]) / 2, half = (v[1] - v[0]) / 2;
    for (int i = 0; i <= SINE_LINES; i++) {
        double part = (double)i / SINE_LINES;
        if (!add(wave, v[2] * part, middle + half * sin(2 * M_PI * part))) return false;
    }
    return true;
}

/* `steps:LOW:HIGH:PERIOD_S:COUNT:SEED`: levels between LOW and HIGH drawn by SplitMix64. */
static bool add_steps(struct wave *wave, const double *v) {
    double count = v[3];
    uint64_t state = (uint64_t)v[4];
    if (!(count >= 1 && count <= MOST_POINTS / 2) || count != floor(count)) return false;
    for (int i = 0; i < (int)count; i++) {
        uint64_t word = state += 0x9e3779b97f4a7c15;
        word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
        word = (word ^ word >> 27) * 0x94d049bb133111eb;
        double level = v[0] + (v[1] - v[0]) * (double)((word ^ word >> 31) >> 11) / 9007199254740992.0; /* 2^53 */
        if (!add(wave, v[2] * i / count, level) || !add(wave, v[2] * (i + 1) / count, level)) return false;
    }
    return true;
}

enum { MOST_NUMBERS = 6 };

/* Numbers with `:` before each; -1 where something else stands there. */
static int numbers(const char *text, double *out) {
    int count = 0;
    while (*text == ':' && count < MOST_NUMBERS) {
        char *end;
        double value = strtod(text + 1, &end);
        if (end == text + 1 || !(value >= 0 && value <= 1e15)) return -1;
        out[count++] = value;
        text = end;
    }
    return *text ? -1 : count;
}

/* A shape by its name; one number more than it takes is a shift in seconds. */
static bool add_shape(struct wave *wave, const char *text, double most) {
    static const struct {
        const char *name;
        int takes;
        bool (*add)(struct wave *, const double *);
    } SHAPES[] = {{"square", 4, add_square}, {"sine", 3, add_sine}, {"steps", 5, add_steps}};
    double v[MOST_NUMBERS];
    size_t length = strcspn(text, ":");
    int count = numbers(text + length, v);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        int takes = SHAPES[i].takes;
        if (strlen(SHAPES[i].name) != length || strncmp(text, SHAPES[i].name, length)) continue;
        if (count != takes && count != takes + 1) return false;
        if (v[0] > most || v[1] > most || v[2] <= 0 || v[2] > MOST_SECONDS) return false;
        if (count > takes && v[takes] > MOST_SECONDS) return false;
        if (!SHAPES[i].add(wave, v) || !wave_period_ns(wave)) return false;
        wave->shift_ns = count > takes ? llround(v[takes] * NS_PER_S) : 0;
        wave->shift2 = since_first2(wave, -wave->shift_ns);
        return true;
    }
    return false;
}

/* With room for the most points, until kept() or free(). */
static struct wave *new_wave(void) {
    struct wave *wave = malloc(sizeof *wave + MOST_POINTS * sizeof *wave->knots);
    if (wave) *wave = (struct wave){.count = 0};
    return wave;
}

static struct wave *kept(struct wave *wave, struct wave **list) {
    struct wave *made = realloc(wave, sizeof *wave + (size_t)wave->count * sizeof *wave->knots);
    if (!made) made = wave;
    made->next = *list;
    return *list = made;
}

struct wave *constant_wave(double value, struct wave **list) {
    struct wave *wave = new_wave();
    if (!wave) return NULL;
    add(wave, 0, value);
    return kept(wave, list);
}

struct wave *read_wave(const char *text, double most, struct wave **list) {
    char *end;
    double value = strtod(text, &end);
    if (end != text && !*end) return value >= 0 && value <= most ? constant_wave(value, list) : NULL;
    struct wave *wave = new_wave();
    if (!wave) return NULL;
    bool is_shape = *text >= 'a' && *text <= 'z';
    if (is_shape ? add_shape(wave, text, most) : add_points(wave, text, most)) return kept(wave, list);
    free(wave);
    return NULL;
}

void free_waves(struct wave **list) {
    while (*list) {
        struct wave *wave = *list;
        *list = wave->next;
        free(wave);
    }
}
