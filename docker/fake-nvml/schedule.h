/* When something happens: moments and spans of time in ns since the epoch, once or again and again. */
#ifndef HPCKIT_FAKE_NVML_SCHEDULE_H
#define HPCKIT_FAKE_NVML_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST_SPANS = 16 };

struct spans { /* `10-20 30-`, `0-5 every:60` */
    int count;
    int64_t from_ns[MOST_SPANS], to_ns[MOST_SPANS]; /* ascending; `to` is outside */
    int64_t every_ns;                               /* 0: once */
};

struct moments { /* `12 40`, `12:-500 40:+3`, `12 every:60` */
    int count;
    int64_t at_ns[MOST_SPANS], value[MOST_SPANS]; /* thousandths of what is written after the colon */
    int64_t every_ns;
};

bool read_spans(const char *text, struct spans *out);
bool read_moments(const char *text, bool has_values, struct moments *out);

/* Whether t is inside a span, and when that one began. */
bool is_within(const struct spans *spans, int64_t t_ns, int64_t *began_ns);

/* Whether a moment is not after t, and when the last such was. */
bool last_moment(const struct moments *moments, int64_t t_ns, int64_t *at_ns);

/* The values of all moments not after t. */
int64_t sum_of_moments(const struct moments *moments, int64_t t_ns);

#endif
