/* A waveform: straight lines between points, repeated for ever, kept in integers. */
#ifndef HPCKIT_FAKE_NVML_WAVEFORM_H
#define HPCKIT_FAKE_NVML_WAVEFORM_H

#include <stdint.h>

enum { MOST_POINTS = 512 };

/* The unit of a value is a millionth (µ) of what the profile writes: a power of "650" is 650,000,000 µW. */
#define MICRO 1000000
#define NS_PER_S 1000000000

/* Wide enough for twice an integral in µ-units times ns, over three centuries. */
__extension__ typedef __int128 wide;

struct wave; /* NULL: not written */

/* A waveform of a profile's text with no value over `most`, or NULL where the text is wrong (README.md has the
   format). `add` keeps it in a list that free_waves() ends. */
struct wave *read_wave(const char *text, double most, struct wave **list);
struct wave *constant_wave(double value, struct wave **list);
void free_waves(struct wave **list);

/* At t ns since the epoch, before it too: the waveform has neither beginning nor end. */
int64_t wave_value(const struct wave *wave, int64_t t_ns);

/* Twice the integral from the epoch to t, in µ-units times ns: exact, but for less than one such unit where a
   line slopes. Twice, because half of an odd number is none. */
wide wave_integral2(const struct wave *wave, int64_t t_ns);

int64_t wave_period_ns(const struct wave *wave); /* 0: one number */
int64_t wave_most(const struct wave *wave);      /* µ */

/* Rounded down, for b > 0. */
static inline wide floor_div(wide a, wide b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
static inline int64_t floor_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

#endif
