/* A libnvidia-ml.so.1 without a driver behind it: what nvml.h declares, answered from a profile.
   Here: the library itself, and its handles. */
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define SYNTHETIC "-synthetic"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;                             /* nvmlInit less nvmlShutdown */
static int shown_count, shown[MOST_GPUS];     /* indices of the GPUs that this process may see */
struct profile profile;
struct device devices[MOST_GPUS][1 + MOST_MIG];

/* ---- common ---------------------------------------------------------------------------------- */

int injected(int code) {
    while (code == HANGS) pause();
    return code;
}

int enter_library(const char *call) {
    if (!users) return NVML_ERROR_UNINITIALIZED;
    return injected(error_of(&profile.errors, call));
}

/* What the profile makes of a call of this GPU now. */
static int refusal(const struct gpu *gpu, const char *call) {
    int64_t began;
    if (gpu->lost.count && is_within(&gpu->lost, since_epoch(&profile, now_ns()), &began)) return NVML_ERROR_GPU_IS_LOST;
    return injected(error_of(&gpu->errors, call));
}

int enter(const struct device *device, const char *call) {
    int code = enter_library(call);
    if (code) return code;
    const struct device *first = &devices[0][0];
    if (device < first || device >= first + sizeof devices / sizeof **devices || !device->gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    return refusal(device->gpu, call);
}

/* Of a GPU that is no MIG device. */
int enter_gpu(const struct device *device, const char *call) {
    int code = enter(device, call);
    return code ? code : device->slice < 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

int put_text(char *out, unsigned size, const char *text) {
    NEED(out);
    size_t length = strlen(text);
    if (length >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, length + 1);
    return NVML_SUCCESS;
}

int put(unsigned *out, int64_t value) {
    NEED(out);
    *out = (unsigned)value;
    return NVML_SUCCESS;
}

/* ns since the profile's epoch. */
int64_t elapsed(void) { return since_epoch(&profile, now_ns()); }

int64_t whole(const struct wave *wave) { return wave ? wave_value(wave, elapsed()) / MICRO : 0; }

bool is_active(const struct gpu *gpu, unsigned link) {
    return gpu->link_to[link] != TO_NOTHING && !gpu->link_is_dead[link];
}

int check_link(const struct gpu *gpu, unsigned link) {
    if (!gpu->links) return NVML_ERROR_NOT_SUPPORTED;
    return link < (unsigned)gpu->links ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* ---- the truth -------------------------------------------------------------------------------- */

/* No call of NVML: nanojoules that a GPU of the profile drew between two moments in ns since 1970, for tests. */
API hpckitFakeEnergyNj(unsigned index, long long from_ns, long long to_ns, unsigned long long *out) {
    if (!users) return NVML_ERROR_UNINITIALIZED;
    NEED(out && index < (unsigned)profile.gpus && from_ns <= to_ns);
    *out = (unsigned long long)integral_nano(&profile, profile.gpu[index].power_w, from_ns, to_ns);
    return NVML_SUCCESS;
}

/* ---- the library ----------------------------------------------------------------------------- */

/* As far as the devices that a control group allows go: a file that is not there, or that no driver stands behind,
   forbids nothing. */
static bool may_open(const struct gpu *gpu) {
    char path[PATH + 24];
    if (!profile.device_files[0]) return true;
    snprintf(path, sizeof path, "%s%lld", profile.device_files, (long long)gpu->minor);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0) close(file);
    return file >= 0 || (errno != EPERM && errno != EACCES);
}

static void make_handles(void) {
    memset(devices, 0, sizeof devices);
    shown_count = 0;
    for (int i = 0; i < (int)profile.gpus; i++) {
        struct gpu *gpu = &profile.gpu[i];
        if (!may_open(gpu)) continue;
        shown[shown_count] = i;
        for (int slice = -1; slice < (gpu->mig ? gpu->slices : 0); slice++)
            devices[i][slice + 1] = (struct device){.gpu = gpu, .index = i, .place = shown_count, .slice = slice};
        shown_count++;
    }
}

static int begin(void) {
    int code = NVML_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!users) code = read_profile(&profile);
    int hang = code ? 0 : error_of(&profile.errors, "nvmlInit");
    if (!code && hang != HANGS) code = hang;
    if (!code && hang != HANGS) {
        if (!users) make_handles();
        users++;
    }
    pthread_mutex_unlock(&lock);
    while (hang == HANGS) pause();
    return code;
}

API nvmlInit(void) { return begin(); }
API nvmlInit_v2(void) { return begin(); }
API nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return begin();
}

API nvmlShutdown(void) {
    int code = NVML_ERROR_UNINITIALIZED;
    pthread_mutex_lock(&lock);
    if (users) users--, code = NVML_SUCCESS;
    pthread_mutex_unlock(&lock);
    return code;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
    static const struct {
        const char *text;
        int code;
    } NAMES[] = {{"Success", 0}, ERROR_CODES};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].code == code) return NAMES[i].text;
    return "Unknown Error";
}

API nvmlSystemGetDriverVersion(char *out, unsigned size) {
    char text[TEXT + sizeof SYNTHETIC];
    ENTER_SYSTEM();
    snprintf(text, sizeof text, "%s" SYNTHETIC, profile.driver_version);
    return put_text(out, size, text);
}

API nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    char text[TEXT + 32];
    ENTER_SYSTEM();
    snprintf(text, sizeof text, "%d.%s" SYNTHETIC, (int)(profile.cuda_version / 1000), profile.driver_version);
    return put_text(out, size, text);
}

API nvmlSystemGetCudaDriverVersion(int *out) {
    ENTER_SYSTEM();
    return put((unsigned *)out, profile.cuda_version);
}
API nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ENTER_SYSTEM();
    return put((unsigned *)out, profile.cuda_version);
}

API nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER_SYSTEM();
    return put(out, shown_count);
}
API nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

/* ---- handles --------------------------------------------------------------------------------- */

/* Errors of the GPU's own section hold for its handle too. */
static int give(struct device *device, struct device **out, const char *call) {
    int code = refusal(device->gpu, call);
    if (!code) *out = device;
    return code;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **out) {
    ENTER_SYSTEM();
    NEED(out && index < (unsigned)shown_count);
    return give(&devices[shown[index]][0], out, __func__);
}
API nvmlDeviceGetHandleByIndex(unsigned index, struct device **out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

void mig_uuid(const struct device *device, char *out, size_t size) {
    snprintf(out, size, "MIG-%.*s-%02x", 40, device->gpu->uuid, device->slice);
}

API nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
    char text[TEXT];
    ENTER_SYSTEM();
    NEED(uuid && out);
    for (int i = 0; i < (int)profile.gpus; i++) {
        if (devices[i][0].gpu && !strcmp(uuid, profile.gpu[i].uuid)) return give(&devices[i][0], out, __func__);
        for (int slice = 0; slice < MOST_MIG && devices[i][slice + 1].gpu; slice++) {
            mig_uuid(&devices[i][slice + 1], text, sizeof text);
            if (!strcmp(uuid, text)) return give(&devices[i][slice + 1], out, __func__);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlDeviceGetHandleByPciBusId_v2(const char *text, struct device **out) {
    unsigned domain, bus, slot;
    ENTER_SYSTEM();
    NEED(text && out && sscanf(text, "%8x:%2x:%2x", &domain, &bus, &slot) == 3);
    for (int i = 0; i < (int)profile.gpus; i++) {
        const struct pci *pci = &profile.gpu[i].pci;
        if (devices[i][0].gpu && pci->domain == domain && pci->bus == bus && pci->device == slot)
            return give(&devices[i][0], out, __func__);
    }
    return NVML_ERROR_NOT_FOUND;
}
API nvmlDeviceGetHandleByPciBusId(const char *text, struct device **out) {
    return nvmlDeviceGetHandleByPciBusId_v2(text, out);
}

API nvmlDeviceGetIndex(const struct device *device, unsigned *out) {
    ENTER(device);
    return put(out, device->slice < 0 ? device->place : device->slice);
}

API nvmlDeviceGetMinorNumber(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->minor);
}
