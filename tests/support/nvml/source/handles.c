/* The system's versions, and who the GPUs are. */
#include <stdio.h>
#include <string.h>

#include "fake.h"

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    nvmlReturn_t code = enter(RULE(nvmlSystemGetDriverVersion));
    return code != NVML_SUCCESS ? code : copy_text(version, length, loaded_version);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    nvmlReturn_t code = enter(RULE(nvmlSystemGetNVMLVersion));
    return code != NVML_SUCCESS ? code
                                : copy_text(version, length, (const char *)state->nvml_version);
}

/* Indexes count the GPUs that are there, so they move up when one is gone. */
static int nth_present(unsigned int wanted)
{
    for (int index = 0; index < MAX_GPUS; index++)
        if (state->gpus[index].present && wanted-- == 0)
            return index;
    return -1;
}

static unsigned int present_before(int limit)
{
    unsigned int count = 0;
    for (int index = 0; index < limit; index++)
        count += state->gpus[index].present != 0;
    return count;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlReturn_t code = enter(RULE(nvmlDeviceGetCount_v2));
    if (code != NVML_SUCCESS)
        return code;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = present_before(MAX_GPUS);
    return NVML_SUCCESS;
}

/* A GPU is set up where its handle is fetched: one in a bad state fails here alone. */
static nvmlReturn_t hand_out(ptrdiff_t rule, int index, nvmlDevice_t *device)
{
    nvmlReturn_t code = enter_for_gpu(rule, index);
    if (code == NVML_SUCCESS)
        *device = device_of(index);
    return code;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int wanted, nvmlDevice_t *device)
{
    ptrdiff_t rule = RULE(nvmlDeviceGetHandleByIndex_v2);
    nvmlReturn_t code = enter(rule);
    int index = nth_present(wanted);

    if (code != NVML_SUCCESS)
        return code;
    if (index < 0 || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return hand_out(rule, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    ptrdiff_t rule = RULE(nvmlDeviceGetHandleByUUID);
    nvmlReturn_t code = enter(rule);

    if (code != NVML_SUCCESS)
        return code;
    if (uuid == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int index = 0; index < MAX_GPUS; index++)
        if (state->gpus[index].present && strcmp((const char *)state->gpus[index].uuid, uuid) == 0)
            return hand_out(rule, index, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device)
{
    ptrdiff_t rule = RULE(nvmlDeviceGetHandleByPciBusId_v2);
    nvmlReturn_t code = enter(rule);
    unsigned int domain, bus, slot;

    if (code != NVML_SUCCESS)
        return code;
    if (address == NULL || device == NULL ||
        sscanf(address, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int index = 0; index < MAX_GPUS; index++)
        if (state->gpus[index].present && domain == 0 && slot == 0 &&
            bus == (unsigned int)state->gpus[index].bus)
            return hand_out(rule, index, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetUUID), device, uuid, &gpu);
    return code != NVML_SUCCESS ? code : copy_text(uuid, length, (const char *)gpu->uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetName), device, name, &gpu);
    return code != NVML_SUCCESS ? code : copy_text(name, length, (const char *)gpu->name);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetIndex), device, index, &gpu);
    if (code == NVML_SUCCESS)
        *index = present_before(device->index);
    return code;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetPciInfo_v3), device, pci, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned int)gpu->bus;
    pci->pciDeviceId = 0x233010DE;
    pci->pciSubSystemId = 0x16C110DE;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:00.0", 0, pci->bus);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:00.0", 0, pci->bus & 0xFF);
    return NVML_SUCCESS;
}
