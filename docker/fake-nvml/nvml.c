/* What a GPU is: identity, place, MIG devices, NVLinks, fabric. Declarations are those of nvidia-ml-py's ctypes
   structures; sizes are asserted. */
#include <stdio.h>
#include <string.h>

#include "library.h"

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct pci_info_v1 { /* what the unversioned nvmlDeviceGetNvLinkRemotePciInfo fills */
    char bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
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

struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
};

_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct fabric) == 0x28, "nvmlGpuFabricInfo_v3");
_Static_assert(sizeof(struct platform) == 0x2c, "nvmlPlatformInfo_v2");

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
