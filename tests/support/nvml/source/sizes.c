/* How large the driver's structures are here, to compare with what a binding takes them for. */
#include <string.h>

#include "fake.h"

#define SIZE(type) {#type, sizeof(type)}

static const struct {
    const char *name;
    size_t size;
} sizes[] = {
    SIZE(struct State),
    SIZE(nvmlEccSramErrorStatus_v1_t),
    SIZE(nvmlEventData_t),
    SIZE(nvmlFieldValue_t),
    SIZE(nvmlGpuFabricInfo_t),
    SIZE(nvmlGpuFabricInfo_v2_t),
    SIZE(nvmlGpuFabricInfo_v3_t),
    SIZE(nvmlMarginTemperature_v1_t),
    SIZE(nvmlMemory_t),
    SIZE(nvmlMemory_v2_t),
    SIZE(nvmlPciInfo_t),
    SIZE(nvmlProcessInfo_v2_t),
    SIZE(nvmlRowRemapperHistogramValues_t),
    SIZE(nvmlTemperature_v1_t),
    SIZE(nvmlUtilization_t),
};

size_t fake_sizeof(const char *name);

size_t fake_sizeof(const char *name)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(sizes[i].name, name) == 0)
            return sizes[i].size;
    return 0;
}
