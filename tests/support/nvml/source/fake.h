/* What the parts of the fake driver share. */
#ifndef FAKE_H
#define FAKE_H

/* The old names are functions of their own here, as in the real library. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <stddef.h>

#include "layout.h"

struct nvmlDevice_st {
    int index;
};

/* Shared with the test, which writes into it at any time; never null. */
extern volatile struct State *state;

/* The version of the library as this process loaded it, whatever is installed later. */
extern char loaded_version[80];

/* Counts the call and obeys the test's rules for it; success where it may go on. */
nvmlReturn_t enter(ptrdiff_t rule);
nvmlReturn_t enter_for_gpu(ptrdiff_t rule, int index);
/* Obeys without counting: for a call that is under way when the rules change. */
nvmlReturn_t obey(volatile struct Rule *rule);

/* Both steps, and what the header says of bad handles and null pointers. */
nvmlReturn_t enter_device(ptrdiff_t rule, nvmlDevice_t device, const void *out,
                          volatile struct GpuState **gpu);

nvmlDevice_t device_of(int index);
int index_of(nvmlDevice_t device);
nvmlReturn_t copy_text(char *out, unsigned int length, const char *text);
const char *state_path(const char *file, char *path, size_t size);

#define RULE(function) ((ptrdiff_t)offsetof(struct Rules, function))

#endif
