/* Field values, and the functions that tell of memory errors out of the same cells. */
#include <limits.h>
#include <string.h>
#include <time.h>

#include "fake.h"

static long long microseconds_since_1970(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* One link carries the whole count, so that the links' sum is the count as well. */
static nvmlReturn_t narrow_to_link(volatile struct GpuState *gpu, volatile struct FieldCell *cell,
                                   const nvmlFieldValue_t *entry, int64_t *value)
{
    int all_links = entry->scopeId == UINT_MAX;

    if (!all_links && entry->scopeId >= gpu->values.nvlink_present)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (entry->fieldId == NVLINK_STATE)
        *value = all_links ? gpu->values.nvlink_active_mask != 0
                           : gpu->values.nvlink_active_mask >> entry->scopeId & 1;
    else if (!all_links && entry->scopeId != cell->link)
        *value = 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t look_up(volatile struct GpuState *gpu, const nvmlFieldValue_t *entry,
                            int64_t *value)
{
    if (entry->fieldId == 0 || entry->fieldId >= FIELDS)
        return NVML_ERROR_INVALID_ARGUMENT;

    volatile struct FieldCell *cell = &gpu->fields[entry->fieldId];
    if (!cell->known)
        return NVML_ERROR_NOT_SUPPORTED;
    if (cell->code)
        return (nvmlReturn_t)cell->code;
    *value = cell->value;
    return cell->per_link ? narrow_to_link(gpu, cell, entry, value) : NVML_SUCCESS;
}

static void store(nvmlFieldValue_t *entry, nvmlValueType_t kind, int64_t value)
{
    entry->valueType = kind;
    switch (kind) {
    case NVML_VALUE_TYPE_UNSIGNED_INT:
        entry->value.uiVal = (unsigned int)value;
        break;
    case NVML_VALUE_TYPE_SIGNED_INT:
        entry->value.siVal = (int)value;
        break;
    case NVML_VALUE_TYPE_UNSIGNED_SHORT:
        entry->value.usVal = (unsigned short)value;
        break;
    default: /* all others fill the union; a double comes as its bits */
        entry->value.sllVal = value;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *entries)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetFieldValues), device, entries, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (count <= 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (nvmlFieldValue_t *entry = entries; entry < entries + count; entry++) {
        int64_t value = 0;

        entry->timestamp = microseconds_since_1970();
        entry->latencyUsec = gpu->values.field_latency_microseconds;
        entry->nvmlReturn = look_up(gpu, entry, &value);
        /* What stands beside an error is no value, and is made to look like none. */
        memset(&entry->value, 0x5A, sizeof entry->value);
        if (entry->nvmlReturn == NVML_SUCCESS)
            store(entry, (nvmlValueType_t)gpu->fields[entry->fieldId].kind, value);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
                                       unsigned int *uncorrected, unsigned int *pending,
                                       unsigned int *failed)
{
    volatile struct GpuState *gpu;
    int complete = corrected && uncorrected && pending && failed;
    nvmlReturn_t code =
        enter_device(RULE(nvmlDeviceGetRemappedRows), device, complete ? corrected : NULL, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    *corrected = (unsigned int)gpu->fields[NVML_FI_DEV_REMAPPED_COR].value;
    *uncorrected = (unsigned int)gpu->fields[NVML_FI_DEV_REMAPPED_UNC].value;
    *pending = (unsigned int)gpu->fields[NVML_FI_DEV_REMAPPED_PENDING].value;
    *failed = (unsigned int)gpu->fields[NVML_FI_DEV_REMAPPED_FAILURE].value;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                               nvmlRowRemapperHistogramValues_t *banks)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetRowRemapperHistogram), device, banks, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    banks->max = (unsigned int)gpu->values.remap_banks_max;
    banks->high = (unsigned int)gpu->values.remap_banks_high;
    banks->partial = (unsigned int)gpu->values.remap_banks_partial;
    banks->low = (unsigned int)gpu->values.remap_banks_low;
    banks->none = (unsigned int)gpu->values.remap_banks_none;
    return NVML_SUCCESS;
}

static nvmlReturn_t retired_pages(ptrdiff_t rule, nvmlDevice_t device,
                                  nvmlPageRetirementCause_t cause, unsigned int *count,
                                  unsigned long long *addresses, unsigned long long *times)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(rule, device, count, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (cause >= NVML_PAGE_RETIREMENT_CAUSE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;

    int id = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR ? NVML_FI_DEV_RETIRED_DBE
                                                                      : NVML_FI_DEV_RETIRED_SBE;
    volatile struct FieldCell *cell = &gpu->fields[id];
    unsigned int room = *count;
    if (cell->code)
        return (nvmlReturn_t)cell->code;
    *count = (unsigned int)cell->value;
    if (*count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < *count; i++) {
        if (addresses)
            addresses[i] = 0x10000ULL * (i + 1);
        if (times)
            times[i] = 1700000000ULL + i;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                       unsigned int *count, unsigned long long *addresses)
{
    return retired_pages(RULE(nvmlDeviceGetRetiredPages), device, cause, count, addresses, NULL);
}

nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                          unsigned int *count, unsigned long long *addresses,
                                          unsigned long long *times)
{
    return retired_pages(RULE(nvmlDeviceGetRetiredPages_v2), device, cause, count, addresses,
                         times);
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device,
                                                    nvmlEnableState_t *pending)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code =
        enter_device(RULE(nvmlDeviceGetRetiredPagesPendingStatus), device, pending, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    *pending = (nvmlEnableState_t)gpu->fields[NVML_FI_DEV_RETIRED_PENDING].value;
    return (nvmlReturn_t)gpu->fields[NVML_FI_DEV_RETIRED_PENDING].code;
}

static unsigned long long ecc_errors(volatile struct GpuState *gpu, nvmlMemoryErrorType_t type,
                                     nvmlEccCounterType_t counter)
{
    int uncorrected = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
    int id = counter == NVML_AGGREGATE_ECC ? NVML_FI_DEV_ECC_SBE_AGG_TOTAL + uncorrected
                                           : NVML_FI_DEV_ECC_SBE_VOL_TOTAL + uncorrected;
    return (unsigned long long)gpu->fields[id].value;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, unsigned long long *count)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetTotalEccErrors), device, count, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (type >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = ecc_errors(gpu, type, counter);
    return NVML_SUCCESS;
}

/* All errors are the DRAM's. */
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter,
                                             nvmlMemoryLocation_t place, unsigned long long *count)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetMemoryErrorCounter), device, count, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (type >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT ||
        place >= NVML_MEMORY_LOCATION_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = place == NVML_MEMORY_LOCATION_DRAM ? ecc_errors(gpu, type, counter) : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetSramEccErrorStatus), device, status, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    if (status->version != nvmlEccSramErrorStatus_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(status, 0, sizeof *status);
    status->version = nvmlEccSramErrorStatus_v1;
    status->bThresholdExceeded = (unsigned int)gpu->values.sram_ecc_threshold;
    return NVML_SUCCESS;
}
