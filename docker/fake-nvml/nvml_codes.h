/* nvmlReturn_t of nvml.h, and the names that nvidia-ml-py gives them. */
#ifndef HPCKIT_FAKE_NVML_CODES_H
#define HPCKIT_FAKE_NVML_CODES_H

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
};

#define ERROR_CODES                                                                                              \
    {"Uninitialized", 1}, {"InvalidArgument", 2}, {"NotSupported", 3}, {"NoPermission", 4}, {"NotFound", 6},     \
        {"InsufficientSize", 7}, {"InsufficientPower", 8}, {"DriverNotLoaded", 9}, {"Timeout", 10},              \
        {"IrqIssue", 11}, {"LibraryNotFound", 12}, {"FunctionNotFound", 13}, {"CorruptedInforom", 14},           \
        {"GpuIsLost", 15}, {"ResetRequired", 16}, {"OperatingSystem", 17}, {"LibRmVersionMismatch", 18},         \
        {"InUse", 19}, {"Memory", 20}, {"NoData", 21}, {"VgpuEccNotSupported", 22},                              \
        {"InsufficientResources", 23}, {"FreqNotSupported", 24}, {"ArgumentVersionMismatch", 25},                \
        {"Deprecated", 26}, {"NotReady", 27}, {"GpuNotFound", 28}, {"InvalidState", 29}, {"Unknown", 999}

#endif
