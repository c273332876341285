/* What a GPU measures and how it is set up: one function a value. */
#include <string.h>

#include "fake.h"

/* A function that answers one number of the state. */
#define GETTER(function, type, number)                                              \
    nvmlReturn_t function(nvmlDevice_t device, type *value)                         \
    {                                                                               \
        volatile struct GpuState *gpu;                                              \
        nvmlReturn_t code = enter_device(RULE(function), device, value, &gpu);      \
        if (code == NVML_SUCCESS)                                                   \
            *value = (type)gpu->number;                                             \
        return code;                                                                \
    }

GETTER(nvmlDeviceGetPowerUsage, unsigned int, values.power_milliwatts)
GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, values.throttle_reasons)
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, values.throttle_reasons)
GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, values.persistence)
GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, values.pcie_generation)
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, values.pcie_generation_max)
GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, values.pcie_width)
GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, values.pcie_width_max)
GETTER(nvmlDeviceGetPcieReplayCounter, unsigned int, fields[NVML_FI_DEV_PCIE_REPLAY_COUNTER].value)

/* A function that answers how a mode is, and how it will be after the next start. */
#define MODE_GETTER(function, type, number)                                         \
    nvmlReturn_t function(nvmlDevice_t device, type *current, type *pending)        \
    {                                                                               \
        volatile struct GpuState *gpu;                                              \
        nvmlReturn_t code =                                                         \
            enter_device(RULE(function), device, pending ? current : NULL, &gpu);   \
        if (code == NVML_SUCCESS)                                                   \
            *current = *pending = (type)gpu->values.number;                         \
        return code;                                                                \
    }

MODE_GETTER(nvmlDeviceGetMigMode, unsigned int, mig)
MODE_GETTER(nvmlDeviceGetEccMode, nvmlEnableState_t, ecc_mode)

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int *celsius)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetTemperature), device, celsius, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *celsius = (unsigned int)gpu->values.temperature_celsius;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetTemperatureV), device, temperature, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (temperature->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (temperature->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = (int)gpu->values.temperature_celsius;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetMarginTemperature), device, margin, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (margin->version != nvmlMarginTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    margin->marginTemperature = (int)gpu->values.margin_celsius;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetUtilizationRates), device, rates, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    rates->gpu = (unsigned int)gpu->values.utilization_percent;
    rates->memory = (unsigned int)gpu->values.memory_utilization_percent;
    return NVML_SUCCESS;
}

/* The first version has no word for what the driver keeps for itself and counts it as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetMemoryInfo), device, memory, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    memory->total = (unsigned long long)gpu->values.memory_total_bytes;
    memory->used = (unsigned long long)(gpu->values.memory_used_bytes +
                                        gpu->values.memory_reserved_bytes);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetMemoryInfo_v2), device, memory, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = (unsigned long long)gpu->values.memory_total_bytes;
    memory->reserved = (unsigned long long)gpu->values.memory_reserved_bytes;
    memory->used = (unsigned long long)gpu->values.memory_used_bytes;
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

/* The versions of the list differ in the entries' shape alone. */
#define PROCESS_GETTER(function, type)                                              \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *infos)    \
    {                                                                               \
        volatile struct GpuState *gpu;                                              \
        nvmlReturn_t code = enter_device(RULE(function), device, count, &gpu);      \
        if (code != NVML_SUCCESS)                                                   \
            return code;                                                            \
        unsigned int room = *count;                                                 \
        unsigned int found = *count = (unsigned int)gpu->pid_count;                 \
        if (found > room)                                                           \
            return NVML_ERROR_INSUFFICIENT_SIZE;                                    \
        if (found > 0 && infos == NULL)                                             \
            return NVML_ERROR_INVALID_ARGUMENT;                                     \
        for (unsigned int i = 0; i < found; i++) {                                  \
            memset(&infos[i], 0xFF, sizeof infos[i]);                               \
            infos[i].pid = (unsigned int)gpu->pids[i];                              \
            infos[i].usedGpuMemory = 1ULL << 30;                                    \
        }                                                                           \
        return NVML_SUCCESS;                                                        \
    }

PROCESS_GETTER(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
PROCESS_GETTER(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESS_GETTER(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      nvmlEnableState_t *active)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetNvLinkState), device, active, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (link >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (link >= gpu->values.nvlink_present)
        return NVML_ERROR_NOT_SUPPORTED;
    *active = gpu->values.nvlink_active_mask >> link & 1 ? NVML_FEATURE_ENABLED
                                                         : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *fabric)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetGpuFabricInfo), device, fabric, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    memset(fabric->clusterUuid, (int)gpu->values.fabric_cluster, sizeof fabric->clusterUuid);
    fabric->status = (nvmlReturn_t)gpu->values.fabric_status;
    fabric->cliqueId = (unsigned int)gpu->values.fabric_clique;
    fabric->state = (nvmlGpuFabricState_t)gpu->values.fabric_state;
    return NVML_SUCCESS;
}

/* Version 3 is version 2 and a summary; a caller of version 2 has no room for it. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *fabric)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetGpuFabricInfoV), device, fabric, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (fabric->version != nvmlGpuFabricInfo_v2 && fabric->version != nvmlGpuFabricInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(fabric->clusterUuid, (int)gpu->values.fabric_cluster, sizeof fabric->clusterUuid);
    fabric->status = (nvmlReturn_t)gpu->values.fabric_status;
    fabric->cliqueId = (unsigned int)gpu->values.fabric_clique;
    fabric->state = (nvmlGpuFabricState_t)gpu->values.fabric_state;
    fabric->healthMask = (unsigned int)gpu->values.fabric_mask;
    if (fabric->version == nvmlGpuFabricInfo_v3)
        fabric->healthSummary = (unsigned char)gpu->values.fabric_summary;
    return NVML_SUCCESS;
}
