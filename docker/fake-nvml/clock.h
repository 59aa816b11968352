/* Which time it is: the machine's, or that of the file which HPCKIT_FAKE_NVML_CLOCK names. */
#ifndef HPCKIT_FAKE_NVML_CLOCK_H
#define HPCKIT_FAKE_NVML_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Look again which clock it is. False, with a line on stderr, where the file is not one of 8 bytes. */
bool open_clock(void);

/* ns since 1970. */
int64_t now_ns(void);

#endif
