/* What the files of the library share: handles, and how every call begins. */
#ifndef HPCKIT_FAKE_NVML_LIBRARY_H
#define HPCKIT_FAKE_NVML_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvml_codes.h"
#include "profile.h"

#define API __attribute__((visibility("default"))) int

enum { ENABLED = 1 };

/* A handle: a GPU, or a MIG device of one. */
struct device {
    struct gpu *gpu;
    int index; /* in the profile */
    int place; /* among the GPUs that are shown */
    int slice; /* -1: the GPU itself */
};

/* Written by nvmlInit alone, while nobody uses the library. */
extern struct profile profile;
extern struct device devices[MOST_GPUS][1 + MOST_MIG];

/* How a call begins: NVML_SUCCESS, or what it returns at once. They hang where the profile wants it. */
int enter_library(const char *call);
int enter(const struct device *device, const char *call);
int enter_gpu(const struct device *device, const char *call); /* not of a MIG device */
int injected(int code);

int put_text(char *out, unsigned size, const char *text);
int put(unsigned *out, int64_t value);
void mig_uuid(const struct device *device, char *out, size_t size);

int64_t elapsed(void);                       /* ns since the profile's epoch */
int64_t whole(const struct wave *wave);      /* its value now, rounded down; 0 for NULL */
bool is_active(const struct gpu *gpu, unsigned link);
int check_link(const struct gpu *gpu, unsigned link);

#define ENTER(device)                              \
    do {                                           \
        int entered_ = enter(device, __func__);    \
        if (entered_) return entered_;             \
    } while (0)
#define ENTER_GPU(device)                          \
    do {                                           \
        int entered_ = enter_gpu(device, __func__); \
        if (entered_) return entered_;             \
    } while (0)
#define NEED(condition)                            \
    do {                                           \
        if (!(condition)) return NVML_ERROR_INVALID_ARGUMENT; \
    } while (0)

#define ENTER_SYSTEM()                             \
    do {                                           \
        int entered_ = enter_library(__func__);    \
        if (entered_) return entered_;             \
    } while (0)

#endif
