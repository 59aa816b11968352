/* A libnvidia-ml.so.1 without a driver behind it: what nvml.h declares, answered from a profile.
   Declarations are those of nvidia-ml-py's ctypes structures; sizes are asserted below. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "clock.h"
#include "nvml_codes.h"
#include "profile.h"

#define API __attribute__((visibility("default"))) int
#define SYNTHETIC "-synthetic"

enum { ENABLED = 1 };

/* A handle: a GPU, or a MIG device of one. */
struct device {
    struct gpu *gpu;
    int index;
    int slice; /* -1: the GPU itself */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users; /* nvmlInit less nvmlShutdown */
static struct profile profile;
static struct device devices[MOST_GPUS][1 + MOST_MIG];

/* ---- structures of nvml.h -------------------------------------------------------------------- */

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct pci_info_v1 { /* what the unversioned nvmlDeviceGetNvLinkRemotePciInfo fills */
    char bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
};

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct fabric {
    unsigned version;
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique_id;
    unsigned char state;
    unsigned health_mask;
    unsigned char health_summary; /* from version 3 on */
};

struct platform {
    unsigned version;
    unsigned char ib_guid[16];
    unsigned char chassis_serial[16];
    unsigned char slot, tray, host, peer_type, module;
};

struct field_value {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

struct temperature {
    unsigned version, sensor;
    int celsius;
};

struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
};

struct utilization {
    unsigned gpu, memory;
};

_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct memory_v2) == 0x28, "nvmlMemory_v2");
_Static_assert(sizeof(struct fabric) == 0x28, "nvmlGpuFabricInfo_v3");
_Static_assert(sizeof(struct platform) == 0x2c, "nvmlPlatformInfo_v2");
_Static_assert(sizeof(struct temperature) == 0xc, "nvmlTemperature_v1");
_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

/* ---- common ---------------------------------------------------------------------------------- */

static int injected(const struct errors *errors, const char *call) {
    int code = error_of(errors, call);
    while (code == HANGS) pause();
    return code;
}

static int enter_library(const char *call) {
    if (!users) return NVML_ERROR_UNINITIALIZED;
    return injected(&profile.errors, call);
}

/* What the profile makes of a call of this GPU now. */
static int refusal(const struct gpu *gpu, const char *call) {
    int64_t began;
    if (gpu->lost.count && is_within(&gpu->lost, since_epoch(&profile, now_ns()), &began)) return NVML_ERROR_GPU_IS_LOST;
    return injected(&gpu->errors, call);
}

static int enter(const struct device *device, const char *call) {
    int code = enter_library(call);
    if (code) return code;
    const struct device *first = &devices[0][0];
    if (device < first || device >= first + sizeof devices / sizeof **devices || !device->gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    return refusal(device->gpu, call);
}

/* Of a GPU that is no MIG device. */
static int enter_gpu(const struct device *device, const char *call) {
    int code = enter(device, call);
    return code ? code : device->slice < 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

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

static int put_text(char *out, unsigned size, const char *text) {
    NEED(out);
    size_t length = strlen(text);
    if (length >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, length + 1);
    return NVML_SUCCESS;
}

static int put(unsigned *out, int64_t value) {
    NEED(out);
    *out = (unsigned)value;
    return NVML_SUCCESS;
}

static void put_pci(struct pci_info *out, const struct pci *pci) {
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.%X", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0x1f, pci->function & 7);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.%X", pci->domain, pci->bus & 0xff, pci->device & 0x1f,
             pci->function & 7);
    out->domain = pci->domain;
    out->bus = pci->bus;
    out->device = pci->device;
}

/* ns since the profile's epoch. */
static int64_t elapsed(void) { return since_epoch(&profile, now_ns()); }

static int64_t whole(const struct wave *wave) { return wave ? wave_value(wave, elapsed()) / MICRO : 0; }

/* ---- the truth -------------------------------------------------------------------------------- */

/* No call of NVML: nanojoules that a GPU of the profile drew between two moments in ns since 1970, for tests. */
API hpckitFakeEnergyNj(unsigned index, long long from_ns, long long to_ns, unsigned long long *out) {
    if (!users) return NVML_ERROR_UNINITIALIZED;
    NEED(out && index < (unsigned)profile.gpus && from_ns <= to_ns);
    *out = (unsigned long long)integral_nano(&profile, profile.gpu[index].power_w, from_ns, to_ns);
    return NVML_SUCCESS;
}

/* ---- the library ----------------------------------------------------------------------------- */

static void make_handles(void) {
    memset(devices, 0, sizeof devices);
    for (int i = 0; i < (int)profile.gpus; i++) {
        struct gpu *gpu = &profile.gpu[i];
        for (int slice = -1; slice < (gpu->mig ? gpu->slices : 0); slice++)
            devices[i][slice + 1] = (struct device){.gpu = gpu, .index = i, .slice = slice};
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

static int enter_system(const char *call) { return enter_library(call); }
#define ENTER_SYSTEM()                             \
    do {                                           \
        int entered_ = enter_system(__func__);     \
        if (entered_) return entered_;             \
    } while (0)

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
    return put(out, profile.gpus);
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
    NEED(out && index < (unsigned)profile.gpus);
    return give(&devices[index][0], out, __func__);
}
API nvmlDeviceGetHandleByIndex(unsigned index, struct device **out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

static void mig_uuid(const struct device *device, char *out, size_t size) {
    snprintf(out, size, "MIG-%.*s-%02x", 40, device->gpu->uuid, device->slice);
}

API nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
    char text[TEXT];
    ENTER_SYSTEM();
    NEED(uuid && out);
    for (int i = 0; i < (int)profile.gpus; i++) {
        if (!strcmp(uuid, profile.gpu[i].uuid)) return give(&devices[i][0], out, __func__);
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
        if (pci->domain == domain && pci->bus == bus && pci->device == slot)
            return give(&devices[i][0], out, __func__);
    }
    return NVML_ERROR_NOT_FOUND;
}
API nvmlDeviceGetHandleByPciBusId(const char *text, struct device **out) {
    return nvmlDeviceGetHandleByPciBusId_v2(text, out);
}

API nvmlDeviceGetIndex(const struct device *device, unsigned *out) {
    ENTER(device);
    return put(out, device->slice < 0 ? device->index : device->slice);
}

API nvmlDeviceGetMinorNumber(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->minor);
}

/* ---- what a GPU is --------------------------------------------------------------------------- */

API nvmlDeviceGetName(const struct device *device, char *out, unsigned size) {
    char text[2 * TEXT + 8];
    ENTER(device);
    if (device->slice < 0) return put_text(out, size, device->gpu->name);
    snprintf(text, sizeof text, "%s MIG %s", device->gpu->name, device->gpu->slice[device->slice].name);
    return put_text(out, size, text);
}

API nvmlDeviceGetUUID(const struct device *device, char *out, unsigned size) {
    char text[TEXT];
    ENTER(device);
    if (device->slice < 0) return put_text(out, size, device->gpu->uuid);
    mig_uuid(device, text, sizeof text);
    return put_text(out, size, text);
}

API nvmlDeviceGetSerial(const struct device *device, char *out, unsigned size) {
    ENTER_GPU(device);
    return put_text(out, size, device->gpu->serial);
}

API nvmlDeviceGetBrand(const struct device *device, unsigned *out) {
    ENTER(device);
    return put(out, 14); /* NVML_BRAND_NVIDIA */
}

API nvmlDeviceGetCudaComputeCapability(const struct device *device, int *major, int *minor) {
    ENTER(device);
    NEED(major && minor);
    *major = (int)device->gpu->sm_major;
    *minor = (int)device->gpu->sm_minor;
    return NVML_SUCCESS;
}

API nvmlDeviceGetArchitecture(const struct device *device, unsigned *out) {
    /* nvml.h: NVML_DEVICE_ARCH_*, from Kepler = 2 */
    ENTER(device);
    int64_t sm = device->gpu->sm_major * 10 + device->gpu->sm_minor;
    if (sm >= 100) return put(out, 10);
    if (sm >= 90) return put(out, 9);
    if (sm == 89) return put(out, 8);
    if (sm >= 80) return put(out, 7);
    if (sm >= 75) return put(out, 6);
    return put(out, device->gpu->sm_major >= 7 ? 5 : device->gpu->sm_major - 2);
}

API nvmlDeviceGetMemoryInfo(const struct device *device, struct memory *out) {
    ENTER(device);
    NEED(out);
    unsigned long long total = (unsigned long long)device->gpu->memory_bytes, used = 0;
    if (device->slice >= 0) total = (unsigned long long)device->gpu->slice[device->slice].memory_gb << 30;
    else used = (unsigned long long)whole(device->gpu->memory_used_bytes);
    if (used > total) used = total;
    *out = (struct memory){.total = total, .free = total - used, .used = used};
    return NVML_SUCCESS;
}

API nvmlDeviceGetMemoryInfo_v2(const struct device *device, struct memory_v2 *out) {
    struct memory memory;
    NEED(out);
    if (out->version != 0x02000028) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    int code = nvmlDeviceGetMemoryInfo(device, &memory);
    if (code) return code;
    out->total = memory.total;
    out->reserved = 0;
    out->free = memory.free;
    out->used = memory.used;
    return NVML_SUCCESS;
}

API nvmlDeviceGetPciInfo_v3(const struct device *device, struct pci_info *out) {
    ENTER(device);
    NEED(out);
    put_pci(out, &device->gpu->pci);
    /* GPUs have one function that computes, and NVML writes it as 0. */
    out->device_id = (unsigned)device->gpu->device_id;
    out->subsystem_id = (unsigned)device->gpu->subsystem_id;
    return NVML_SUCCESS;
}

static int put_mask(const struct device *device, const uint64_t *words, int count, unsigned size, unsigned long *out) {
    (void)device;
    NEED(out && size);
    for (unsigned i = 0; i < size; i++) out[i] = i < (unsigned)count ? words[i] : 0;
    return NVML_SUCCESS;
}

API nvmlDeviceGetCpuAffinity(const struct device *device, unsigned size, unsigned long *out) {
    ENTER(device);
    return put_mask(device, device->gpu->cpus, CPU_WORDS, size, out);
}
API nvmlDeviceGetCpuAffinityWithinScope(const struct device *device, unsigned size, unsigned long *out, unsigned scope) {
    ENTER(device);
    NEED(scope <= 1);
    return put_mask(device, device->gpu->cpus, CPU_WORDS, size, out);
}
API nvmlDeviceGetMemoryAffinity(const struct device *device, unsigned size, unsigned long *out, unsigned scope) {
    ENTER(device);
    NEED(scope <= 1);
    return put_mask(device, device->gpu->numa, NODE_WORDS, size, out);
}

API nvmlDeviceGetNumaNodeId(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    if (device->gpu->own_numa < 0) return NVML_ERROR_NOT_SUPPORTED;
    return put(out, device->gpu->own_numa);
}

API nvmlDeviceGetVirtualizationMode(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->virtualization);
}

API nvmlDeviceGetPersistenceMode(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, ENABLED);
}

API nvmlDeviceGetComputeMode(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, 0);
}

/* ---- MIG ------------------------------------------------------------------------------------- */

API nvmlDeviceGetMigMode(const struct device *device, unsigned *current, unsigned *pending) {
    ENTER_GPU(device);
    NEED(current && pending);
    if (device->gpu->sm_major < 8) return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = device->gpu->mig;
    return NVML_SUCCESS;
}

API nvmlDeviceGetMaxMigDeviceCount(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->sm_major < 8 ? 0 : 7);
}

API nvmlDeviceGetMigDeviceHandleByIndex(const struct device *device, unsigned index, struct device **out) {
    ENTER_GPU(device);
    NEED(out && index < MOST_MIG);
    if (!device->gpu->mig || index >= (unsigned)device->gpu->slices) return NVML_ERROR_NOT_FOUND;
    *out = &devices[device->index][index + 1];
    return NVML_SUCCESS;
}

API nvmlDeviceIsMigDeviceHandle(const struct device *device, unsigned *out) {
    ENTER(device);
    return put(out, device->slice >= 0);
}

API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const struct device *device, struct device **out) {
    ENTER(device);
    NEED(out && device->slice >= 0);
    *out = &devices[device->index][0];
    return NVML_SUCCESS;
}

API nvmlDeviceGetGpuInstanceId(const struct device *device, unsigned *out) {
    ENTER(device);
    NEED(device->slice >= 0);
    return put(out, device->slice + 1);
}

API nvmlDeviceGetComputeInstanceId(const struct device *device, unsigned *out) {
    ENTER(device);
    NEED(device->slice >= 0);
    return put(out, 0);
}

API nvmlDeviceGetAttributes_v2(const struct device *device, struct attributes *out) {
    ENTER(device);
    NEED(out);
    if (device->slice < 0) return NVML_ERROR_NOT_SUPPORTED;
    const struct slice *slice = &device->gpu->slice[device->slice];
    *out = (struct attributes){
        .gpu_slices = slice->compute, .compute_slices = slice->compute, .memory_mb = slice->memory_gb * 1024ULL};
    return NVML_SUCCESS;
}
API nvmlDeviceGetAttributes(const struct device *device, struct attributes *out) {
    return nvmlDeviceGetAttributes_v2(device, out);
}

/* ---- NVLink ---------------------------------------------------------------------------------- */

static bool is_active(const struct gpu *gpu, unsigned link) {
    return gpu->link_to[link] != TO_NOTHING && !gpu->link_is_dead[link];
}

static int check_link(const struct gpu *gpu, unsigned link) {
    if (!gpu->links) return NVML_ERROR_NOT_SUPPORTED;
    return link < (unsigned)gpu->links ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

#define ENTER_LINK(device, link)                               \
    do {                                                       \
        int entered_ = enter_gpu(device, __func__);            \
        if (!entered_) entered_ = check_link(device->gpu, link); \
        if (entered_) return entered_;                         \
    } while (0)

API nvmlDeviceGetNvLinkState(const struct device *device, unsigned link, unsigned *out) {
    ENTER_LINK(device, link);
    return put(out, is_active(device->gpu, link));
}

API nvmlDeviceGetNvLinkVersion(const struct device *device, unsigned link, unsigned *out) {
    ENTER_LINK(device, link);
    return put(out, device->gpu->nvlink_version);
}

API nvmlDeviceGetNvLinkCapability(const struct device *device, unsigned link, unsigned capability, unsigned *out) {
    ENTER_LINK(device, link);
    NEED(capability <= 5);
    return put(out, is_active(device->gpu, link));
}

API nvmlDeviceGetNvLinkRemoteDeviceType(const struct device *device, unsigned link, unsigned *out) {
    ENTER_LINK(device, link);
    switch (device->gpu->link_to[link]) {
        case TO_NOTHING: return NVML_ERROR_NOT_SUPPORTED;
        case TO_SWITCH: return put(out, 2);
        case TO_NPU: return put(out, 1);
        case TO_HIDDEN: return put(out, 0xff);
        default: return put(out, 0);
    }
}

/* A dead link has no other end; that of a virtual machine's is not shown, and its address is empty. */
static int remote_pci(const struct gpu *gpu, unsigned link, struct pci_info *out) {
    if (!is_active(gpu, link)) return NVML_ERROR_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    int to = gpu->link_to[link];
    if (to >= 0) put_pci(out, &profile.gpu[to].pci);
    else if (to == TO_SWITCH && gpu->switches) put_pci(out, &gpu->switch_pci[link % (unsigned)gpu->switches]);
    return NVML_SUCCESS;
}

API nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct device *device, unsigned link, struct pci_info *out) {
    ENTER_LINK(device, link);
    NEED(out);
    return remote_pci(device->gpu, link, out);
}

API nvmlDeviceGetNvLinkRemotePciInfo(const struct device *device, unsigned link, struct pci_info_v1 *out) {
    struct pci_info info;
    ENTER_LINK(device, link);
    NEED(out);
    int code = remote_pci(device->gpu, link, &info);
    if (code) return code;
    memcpy(out, &info, sizeof *out);
    return NVML_SUCCESS;
}

API nvmlDeviceGetNvLinkErrorCounter(const struct device *device, unsigned link, unsigned counter, unsigned long long *out) {
    ENTER_LINK(device, link);
    NEED(out && counter <= 4);
    *out = 0;
    return NVML_SUCCESS;
}

API nvmlDeviceGetTopologyCommonAncestor(const struct device *one, const struct device *other, unsigned *out) {
    ENTER_GPU(one);
    ENTER_GPU(other);
    const struct gpu *gpu = one->gpu;
    if (gpu->ancestors) return put(out, gpu->ancestor[other->index]);
    bool is_near = !memcmp(gpu->numa, other->gpu->numa, sizeof gpu->numa);
    return put(out, one == other ? 0 : is_near ? 40 : 50);
}

API nvmlDeviceGetP2PStatus(const struct device *one, const struct device *other, unsigned index, unsigned *out) {
    ENTER_GPU(one);
    ENTER_GPU(other);
    NEED(index <= 4);
    return put(out, one->gpu->p2ps ? one->gpu->p2p[other->index] : 0);
}

/* ---- fabric and platform --------------------------------------------------------------------- */

API nvmlDeviceGetGpuFabricInfoV(const struct device *device, struct fabric *out) {
    ENTER_GPU(device);
    NEED(out);
    const struct gpu *gpu = device->gpu;
    if (out->version != 0x02000024 && out->version != 0x03000028) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memcpy(out->cluster_uuid, gpu->fabric_uuid, sizeof out->cluster_uuid);
    out->status = (int)gpu->fabric_status;
    out->clique_id = (unsigned)gpu->fabric_clique;
    out->state = (unsigned char)gpu->fabric_state;
    out->health_mask = (unsigned)gpu->fabric_health_mask;
    if (out->version == 0x03000028) out->health_summary = (unsigned char)gpu->fabric_health_summary;
    return NVML_SUCCESS;
}

API nvmlDeviceGetPlatformInfo(const struct device *device, struct platform *out) {
    ENTER_GPU(device);
    NEED(out);
    const struct gpu *gpu = device->gpu;
    if (gpu->platform_slot < 0) return NVML_ERROR_NOT_SUPPORTED;
    if (out->version != 0x0200002c) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    unsigned version = out->version;
    memset(out, 0, sizeof *out);
    out->version = version;
    size_t length = strnlen(gpu->platform_chassis, sizeof out->chassis_serial - 1);
    memcpy(out->chassis_serial, gpu->platform_chassis, length);
    out->slot = (unsigned char)gpu->platform_slot;
    out->tray = (unsigned char)gpu->platform_tray;
    out->host = (unsigned char)gpu->platform_host;
    out->module = (unsigned char)gpu->platform_module;
    return NVML_SUCCESS;
}

/* ---- how a GPU is ---------------------------------------------------------------------------- */

API nvmlDeviceGetCurrentClocksEventReasons(const struct device *device, unsigned long long *out) {
    ENTER_GPU(device);
    NEED(out);
    *out = (unsigned long long)device->gpu->clocks_event_reasons;
    return NVML_SUCCESS;
}
API nvmlDeviceGetCurrentClocksThrottleReasons(const struct device *device, unsigned long long *out) {
    ENTER_GPU(device);
    NEED(out);
    *out = (unsigned long long)device->gpu->clocks_event_reasons;
    return NVML_SUCCESS;
}

API nvmlDeviceGetRemappedRows(const struct device *device, unsigned *correctable, unsigned *uncorrectable,
                              unsigned *pending, unsigned *failed) {
    ENTER_GPU(device);
    NEED(correctable && uncorrectable && pending && failed);
    if (device->gpu->sm_major < 8) return NVML_ERROR_NOT_SUPPORTED;
    *correctable = (unsigned)device->gpu->remapped_correctable;
    *uncorrectable = (unsigned)device->gpu->remapped_uncorrectable;
    *pending = device->gpu->remapping_pending;
    *failed = device->gpu->remapping_failed;
    return NVML_SUCCESS;
}

API nvmlDeviceGetEccMode(const struct device *device, unsigned *current, unsigned *pending) {
    ENTER_GPU(device);
    NEED(current && pending);
    *current = *pending = device->gpu->ecc;
    return NVML_SUCCESS;
}

API nvmlDeviceGetTotalEccErrors(const struct device *device, unsigned kind, unsigned counter, unsigned long long *out) {
    ENTER_GPU(device);
    NEED(out && kind <= 1 && counter <= 1);
    if (!device->gpu->ecc) return NVML_ERROR_NOT_SUPPORTED;
    *out = 0;
    if (kind == 1)
        *out = (unsigned long long)(counter ? device->gpu->ecc_uncorrected_aggregate : device->gpu->ecc_uncorrected_volatile);
    return NVML_SUCCESS;
}

API nvmlDeviceGetTemperature(const struct device *device, unsigned sensor, unsigned *out) {
    ENTER_GPU(device);
    NEED(sensor == 0);
    return put(out, whole(device->gpu->temperature_c));
}

API nvmlDeviceGetTemperatureV(const struct device *device, struct temperature *out) {
    ENTER_GPU(device);
    NEED(out && out->sensor == 0);
    if (out->version != 0x0100000c) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->celsius = (int)whole(device->gpu->temperature_c);
    return NVML_SUCCESS;
}

API nvmlDeviceGetPowerUsage(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    const struct gpu *gpu = device->gpu;
    enum reading kind = gpu->sensor.usage_is_average ? AVERAGE : INSTANT;
    return put(out, power_reading_mw(&gpu->sensor, gpu->power_w, elapsed(), kind));
}

API nvmlDeviceGetEnforcedPowerLimit(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->power_limit_w * 1000);
}
API nvmlDeviceGetPowerManagementLimit(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->power_limit_w * 1000);
}
API nvmlDeviceGetPowerManagementDefaultLimit(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, device->gpu->power_limit_w * 1000);
}

API nvmlDeviceGetTotalEnergyConsumption(const struct device *device, unsigned long long *out) {
    ENTER_GPU(device);
    NEED(out);
    *out = energy_counter_mj(&device->gpu->sensor, device->gpu->power_w, elapsed());
    return NVML_SUCCESS;
}

static unsigned percent(const struct wave *wave) {
    int64_t pct = whole(wave);
    return (unsigned)(pct < 100 ? pct : 100);
}

API nvmlDeviceGetUtilizationRates(const struct device *device, struct utilization *out) {
    ENTER_GPU(device);
    NEED(out);
    if (device->gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
    const struct wave *memory = device->gpu->memory_utilization_pct;
    out->gpu = percent(device->gpu->utilization_pct);
    out->memory = memory ? percent(memory) : out->gpu / 2;
    return NVML_SUCCESS;
}

API nvmlDeviceGetPerformanceState(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, 0);
}

/* ---- PCIe ------------------------------------------------------------------------------------ */

#define PCIE(call, value)                                        \
    API nvmlDeviceGet##call(const struct device *device, unsigned *out) { \
        ENTER_GPU(device);                                       \
        return put(out, device->gpu->value);                     \
    }
PCIE(CurrPcieLinkGeneration, pcie_generation)
PCIE(CurrPcieLinkWidth, pcie_width)
PCIE(MaxPcieLinkGeneration, pcie_max_generation)
PCIE(GpuMaxPcieLinkGeneration, pcie_max_generation)
PCIE(MaxPcieLinkWidth, pcie_max_width)
PCIE(PcieReplayCounter, pcie_replays)

/* ---- clocks ---------------------------------------------------------------------------------- */

static int64_t most_memory_mhz(const struct gpu *gpu) { return wave_most(gpu->memory_mhz) / MICRO; }

static int put_clock(unsigned type, int64_t graphics, int64_t memory, unsigned *out) {
    NEED(type <= 3);
    return put(out, type == 2 ? memory : graphics); /* NVML_CLOCK_MEM */
}

API nvmlDeviceGetClockInfo(const struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device);
    return put_clock(type, whole(device->gpu->graphics_mhz), whole(device->gpu->memory_mhz), out);
}
API nvmlDeviceGetMaxClockInfo(const struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device);
    return put_clock(type, device->gpu->max_graphics_mhz, most_memory_mhz(device->gpu), out);
}
API nvmlDeviceGetApplicationsClock(const struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device);
    return put_clock(type, whole(device->gpu->graphics_mhz), whole(device->gpu->memory_mhz), out);
}

API nvmlDeviceGetSupportedMemoryClocks(const struct device *device, unsigned *count, unsigned *out) {
    ENTER_GPU(device);
    NEED(count);
    unsigned size = *count;
    *count = 1;
    if (!out || !size) return NVML_ERROR_INSUFFICIENT_SIZE;
    return put(out, most_memory_mhz(device->gpu));
}

/* In steps of 15 MHz from the highest down to 345, as on an H100. */
API nvmlDeviceGetSupportedGraphicsClocks(const struct device *device, unsigned memory_mhz, unsigned *count, unsigned *out) {
    ENTER_GPU(device);
    NEED(count);
    if (memory_mhz != (unsigned)most_memory_mhz(device->gpu)) return NVML_ERROR_NOT_FOUND;
    int64_t most = device->gpu->max_graphics_mhz;
    unsigned size = *count;
    *count = most < 345 || most > 5000 ? 1 : (unsigned)((most - 345) / 15 + 1);
    if (!out || size < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) out[i] = (unsigned)(most - 15 * (int64_t)i);
    return NVML_SUCCESS;
}

/* Nothing can be set: a fake that took a setting and did not show it would lie. */
#define REFUSES(call, ...)                                       \
    API nvmlDevice##call(const struct device *device, ##__VA_ARGS__) { \
        ENTER_GPU(device);                                       \
        return NVML_ERROR_NOT_SUPPORTED;                         \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSES(SetApplicationsClocks, unsigned memory_mhz, unsigned graphics_mhz)
REFUSES(ResetApplicationsClocks)
REFUSES(SetGpuLockedClocks, unsigned least_mhz, unsigned most_mhz)
REFUSES(ResetGpuLockedClocks)
REFUSES(SetMemoryLockedClocks, unsigned least_mhz, unsigned most_mhz)
REFUSES(ResetMemoryLockedClocks)
REFUSES(SetPersistenceMode, unsigned mode)
REFUSES(SetAccountingMode, unsigned mode)
REFUSES(GetAccountingStats, unsigned pid, void *out)
#pragma GCC diagnostic pop

/* ---- processes: there are none --------------------------------------------------------------- */

#define NOBODY(call)                                             \
    API nvmlDeviceGet##call(const struct device *device, unsigned *count, void *out) { \
        (void)out;                                               \
        ENTER(device);                                           \
        return put(count, 0);                                    \
    }
NOBODY(ComputeRunningProcesses)
NOBODY(ComputeRunningProcesses_v2)
NOBODY(ComputeRunningProcesses_v3)
NOBODY(GraphicsRunningProcesses)
NOBODY(GraphicsRunningProcesses_v2)
NOBODY(GraphicsRunningProcesses_v3)
NOBODY(MPSComputeRunningProcesses_v3)
NOBODY(AccountingPids)

API nvmlDeviceGetProcessUtilization(const struct device *device, void *out, unsigned *count, unsigned long long since) {
    (void)out, (void)since;
    ENTER_GPU(device);
    return put(count, 0);
}

API nvmlDeviceGetAccountingMode(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, 0);
}
API nvmlDeviceGetAccountingBufferSize(const struct device *device, unsigned *out) {
    ENTER_GPU(device);
    return put(out, 4000);
}

/* ---- fields ---------------------------------------------------------------------------------- */

enum { /* nvml.h: NVML_FI_DEV_* */
    FIELD_ENERGY = 83,
    FIELD_SPEED_COMMON = 90,
    FIELD_LINK_COUNT = 91,
    FIELD_LINK_SPEED = 164,
    FIELD_LINK_STATE = 165,
    FIELD_C2C_COUNT = 170,
    FIELD_C2C_STATUS = 171,
    FIELD_C2C_BANDWIDTH = 172,
    FIELD_POWER_AVERAGE = 185,
    FIELD_POWER_INSTANT = 186
};

static int number_field(const struct gpu *gpu, struct field_value *field, int64_t value) {
    (void)gpu;
    field->type = 1; /* NVML_VALUE_TYPE_UNSIGNED_INT */
    field->value.u = (unsigned)value;
    return NVML_SUCCESS;
}

static int link_field(const struct gpu *gpu, struct field_value *field) {
    int code = check_link(gpu, field->scope);
    if (code) return code;
    bool active = is_active(gpu, field->scope);
    return number_field(gpu, field, field->id == FIELD_LINK_STATE ? active : active ? gpu->nvlink_mb_per_s : 0);
}

static int c2c_field(const struct gpu *gpu, struct field_value *field) {
    if (!gpu->c2c_links) return NVML_ERROR_NOT_SUPPORTED;
    if (field->id == FIELD_C2C_COUNT) return number_field(gpu, field, gpu->c2c_links);
    if (field->scope >= (unsigned)gpu->c2c_links) return NVML_ERROR_INVALID_ARGUMENT;
    return number_field(gpu, field, field->id == FIELD_C2C_STATUS ? ENABLED : gpu->c2c_mb_per_s);
}

static int fill_field(const struct gpu *gpu, struct field_value *field, int64_t t) {
    int code = error_of_field(&gpu->errors, field->id);
    while (code == HANGS) pause();
    if (code) return code;
    switch (field->id) {
        case FIELD_ENERGY:
            field->type = 3; /* NVML_VALUE_TYPE_UNSIGNED_LONG_LONG */
            field->value.ull = energy_counter_mj(&gpu->sensor, gpu->power_w, t);
            return NVML_SUCCESS;
        case FIELD_LINK_COUNT: return number_field(gpu, field, gpu->links);
        case FIELD_SPEED_COMMON: return gpu->links ? number_field(gpu, field, gpu->nvlink_mb_per_s) : NVML_ERROR_NOT_SUPPORTED;
        case FIELD_LINK_SPEED:
        case FIELD_LINK_STATE: return link_field(gpu, field);
        case FIELD_C2C_COUNT:
        case FIELD_C2C_STATUS:
        case FIELD_C2C_BANDWIDTH: return c2c_field(gpu, field);
        case FIELD_POWER_AVERAGE: return number_field(gpu, field, power_reading_mw(&gpu->sensor, gpu->power_w, t, AVERAGE));
        case FIELD_POWER_INSTANT: return number_field(gpu, field, power_reading_mw(&gpu->sensor, gpu->power_w, t, INSTANT));
        default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

API nvmlDeviceGetFieldValues(const struct device *device, int count, struct field_value *values) {
    ENTER_GPU(device);
    NEED(values && count > 0);
    int64_t now = now_ns(), t = since_epoch(&profile, now);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = now / 1000;
        values[i].latency = 0;
        values[i].value.ull = 0;
        values[i].code = fill_field(device->gpu, &values[i], t);
    }
    return NVML_SUCCESS;
}
