/* What a profile says: the GPUs that the fake libnvidia-ml.so.1 shows. See README.md for the keys. */
#ifndef HPCKIT_FAKE_NVML_PROFILE_H
#define HPCKIT_FAKE_NVML_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schedule.h"
#include "sensor.h"
#include "waveform.h"

enum {
    MOST_GPUS = 64,
    MOST_LINKS = 36, /* nvml.h: NVML_NVLINK_MAX_LINKS */
    MOST_C2C = 64,
    MOST_MIG = 8,
    MOST_ERRORS = 32,
    CPU_WORDS = 128, /* 8192 CPUs */
    NODE_WORDS = 16, /* 1024 NUMA nodes */
    TEXT = 96,       /* nvml.h: NVML_DEVICE_NAME_V2_BUFFER_SIZE */
    CALL = 64,
    PIDS = 512,
    PATH = 256
};

/* Where a link ends: at the GPU of this index, or one of these. */
enum { TO_NOTHING = -1, TO_SWITCH = -2, TO_NPU = -3, TO_HIDDEN = -4 };

/* Returned by error_of() for a call that never returns. */
enum { HANGS = -1 };

struct injected {
    char call[CALL];
    int64_t field; /* N of fieldN; -1 */
    int code;
};

struct errors {
    int count;
    struct injected entries[MOST_ERRORS];
};

struct pci {
    bool is_set;
    unsigned domain, bus, device, function;
};

struct slice { /* a MIG profile such as 1g.10gb */
    unsigned compute, memory_gb;
    char name[TEXT];
};

struct gpu {
    char name[TEXT], uuid[TEXT], serial[TEXT];
    struct pci pci;
    int64_t device_id, subsystem_id, minor;
    int64_t sm_major, sm_minor;
    int64_t memory_bytes, memory_reserved_bytes;
    uint64_t cpus[CPU_WORDS], numa[NODE_WORDS];
    int64_t own_numa; /* -1: the GPU's memory is no node of the system */
    int64_t virtualization;

    int64_t nvlink_version, nvlink_mb_per_s;
    int links;
    int link_to[MOST_LINKS];
    bool link_is_dead[MOST_LINKS];
    int switches;
    struct pci switch_pci[MOST_LINKS];
    int64_t c2c_links, c2c_mb_per_s;
    int ancestors, p2ps; /* how many are written; 0 for none */
    int ancestor[MOST_GPUS], p2p[MOST_GPUS];

    int64_t fabric_state, fabric_status, fabric_clique, fabric_health_mask, fabric_health_summary;
    unsigned char fabric_uuid[16];
    char platform_chassis[TEXT];
    int64_t platform_slot, platform_tray, platform_host, platform_module; /* slot -1: not supported */

    bool mig;
    int slices;
    struct slice slice[MOST_MIG];

    int64_t clocks_event_reasons;
    int64_t remapped_correctable, remapped_uncorrectable;
    bool remapping_pending, remapping_failed;
    bool ecc;
    int64_t ecc_uncorrected_volatile, ecc_uncorrected_aggregate;
    int64_t pcie_generation, pcie_width, pcie_max_generation, pcie_max_width, pcie_replays;
    int64_t max_graphics_mhz;
    int64_t power_limit_w;
    int64_t pcie_wraps_bytes; /* 0: at 2^64 */

    bool gpm;
    char process_pids[PIDS], process_pids_file[PATH];
    struct sensor sensor;
    struct spans lost;
    /* Always there after read_profile(): */
    const struct wave *power_w, *temperature_c, *graphics_mhz, *memory_mhz, *memory_used_bytes, *utilization_pct;
    /* NULL where the profile does not say: */
    const struct wave *memory_utilization_pct, *processes;
    const struct wave *sw_power_cap, *sync_boost, *board_limit, *sw_thermal, *hw_thermal, *hw_power_brake;
    const struct wave *nvlink_tx_mb_per_s, *nvlink_rx_mb_per_s, *pcie_tx_mb_per_s, *pcie_rx_mb_per_s;
    const struct wave *sm_active_pct, *sm_occupancy_pct, *tensor_active_pct, *dram_active_pct;
    struct errors errors;
};

struct profile {
    char driver_version[TEXT];
    int64_t cuda_version;
    int64_t epoch_s; /* when the waveforms and the energy counters began */
    int64_t gpus;
    char device_files[PATH]; /* what a minor number makes the file of a GPU: "/dev/nvidia"; empty: all are shown */
    struct wave *waves;
    struct gpu gpu[MOST_GPUS];
    struct errors errors;
};

/* Fill *profile from the file that the environment or the node names. 0, or a code of nvml.h; what is
   wrong is said once on stderr. */
int read_profile(struct profile *profile);

/* The code to return in place of doing `call`, whose suffix _v<digits> does not count; 0 for none. */
int error_of(const struct errors *errors, const char *call);

/* The same for a field of nvmlDeviceGetFieldValues. */
int error_of_field(const struct errors *errors, unsigned field);

/* The waveform of a key such as power_w; NULL where there is no such key or it is not written. */
const struct wave *wave_of(const struct gpu *gpu, const char *key);

/* The integral between two moments in ns since 1970, in billionths of its unit times seconds. */
wide integral_nano(const struct profile *profile, const struct wave *wave, int64_t from_ns, int64_t to_ns);

/* ns since the epoch, and 0 before it. */
int64_t since_epoch(const struct profile *profile, int64_t now_ns);

#endif
