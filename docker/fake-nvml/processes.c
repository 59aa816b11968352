/* Processes that compute on a GPU: as many as the profile says, with the numbers that it names. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "library.h"

enum { MOST_PROCESSES = 256, MADE_UP = 4200000 /* above Linux's greatest number of a process, 4194304 */ };

struct process_v1 {
    unsigned pid;
    unsigned long long used_bytes;
};

struct process { /* second and third version */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

_Static_assert(sizeof(struct process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct process) == 24, "nvmlProcessInfo_v2_t");

static int named(const struct gpu *gpu, unsigned *pids) {
    int count = 0;
    if (gpu->process_pids_file[0]) {
        FILE *file = fopen(gpu->process_pids_file, "re");
        if (!file) return 0;
        while (count < MOST_PROCESSES && fscanf(file, "%9u", &pids[count]) == 1) count++;
        fclose(file);
        return count;
    }
    const char *text = gpu->process_pids;
    for (char *end; count < MOST_PROCESSES; text = end) {
        unsigned long pid = strtoul(text, &end, 10);
        if (end == text) break;
        pids[count++] = (unsigned)pid;
    }
    return count;
}

/* Those that are named, or as many as `processes` says; where that is more, the others are made up. */
static int running(const struct device *device, unsigned *pids) {
    const struct gpu *gpu = device->gpu;
    if (device->slice >= 0) return 0;
    int count = named(gpu, pids);
    int64_t wanted = gpu->processes ? whole(gpu->processes) : count;
    if (wanted > MOST_PROCESSES) wanted = MOST_PROCESSES;
    for (int i = count; i < wanted; i++) pids[i] = (unsigned)(MADE_UP + device->index * MOST_PROCESSES + i);
    return (int)wanted;
}

static int put_processes(const struct device *device, unsigned *count, struct process *out, struct process_v1 *first) {
    unsigned pids[MOST_PROCESSES];
    NEED(count);
    unsigned room = *count, is = (unsigned)running(device, pids);
    *count = is;
    if (!is) return NVML_SUCCESS;
    if (room < is || (!out && !first)) return NVML_ERROR_INSUFFICIENT_SIZE;
    unsigned long long used = (unsigned long long)whole(device->gpu->memory_used_bytes) / is;
    for (unsigned i = 0; i < is; i++) {
        if (first) first[i] = (struct process_v1){.pid = pids[i], .used_bytes = used};
        else out[i] = (struct process){pids[i], used, UINT_MAX, UINT_MAX};
    }
    return NVML_SUCCESS;
}

API nvmlDeviceGetComputeRunningProcesses(const struct device *device, unsigned *count, struct process_v1 *out) {
    ENTER(device);
    return put_processes(device, count, NULL, out);
}
API nvmlDeviceGetComputeRunningProcesses_v2(const struct device *device, unsigned *count, struct process *out) {
    ENTER(device);
    return put_processes(device, count, out, NULL);
}
API nvmlDeviceGetComputeRunningProcesses_v3(const struct device *device, unsigned *count, struct process *out) {
    ENTER(device);
    return put_processes(device, count, out, NULL);
}

#define NOBODY(call)                                             \
    API nvmlDeviceGet##call(const struct device *device, unsigned *count, void *out) { \
        (void)out;                                               \
        ENTER(device);                                           \
        return put(count, 0);                                    \
    }
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
