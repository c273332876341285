/* The shared state: how it is found, and how every call obeys it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

/* Stands in where no state is found: a machine without a driver. */
static struct State without_driver = {.init_code = NVML_ERROR_DRIVER_NOT_LOADED};

volatile struct State *state = &without_driver;
char loaded_version[80];

static int users;
static struct nvmlDevice_st devices[MAX_GPUS];

const char *state_path(const char *file, char *path, size_t size)
{
    const char *folder = getenv("FAKE_NVML");
    snprintf(path, size, "%s/%s", folder ? folder : "/nonexistent", file);
    return path;
}

__attribute__((constructor)) static void attach(void)
{
    char path[4096];
    struct stat found;
    int file = open(state_path("state", path, sizeof path), O_RDWR | O_CLOEXEC);

    for (int index = 0; index < MAX_GPUS; index++)
        devices[index].index = index;
    if (file < 0)
        return;
    if (fstat(file, &found) == 0 && found.st_size == (off_t)sizeof(struct State)) {
        void *memory =
            mmap(NULL, sizeof(struct State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED)
            state = memory;
    }
    close(file);
    memcpy(loaded_version, (const char *)state->library_version, sizeof loaded_version);
}

static void sleep_microseconds(int64_t microseconds)
{
    struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static int still_fails(volatile struct Rule *rule)
{
    int64_t times = __atomic_load_n(&rule->times, __ATOMIC_SEQ_CST);
    while (times > 0)
        if (__atomic_compare_exchange_n(&rule->times, &times, times - 1, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return 1;
    return times < 0;
}

nvmlReturn_t obey(volatile struct Rule *rule)
{
    if (rule->crash) {
        prctl(PR_SET_DUMPABLE, 0); /* no core file */
        raise(SIGSEGV);
    }
    /* No process may be made truly uninterruptible at will; deaf to SIGTERM comes closest. */
    if (rule->hang > 1)
        signal(SIGTERM, SIG_IGN);
    while (rule->hang)
        sleep_microseconds(2000);
    if (rule->delay_microseconds)
        sleep_microseconds(rule->delay_microseconds);
    if (rule->code && still_fails(rule))
        return (nvmlReturn_t)rule->code;
    return NVML_SUCCESS;
}

static nvmlReturn_t count_and_obey(volatile struct Rules *rules, ptrdiff_t offset)
{
    volatile struct Rule *rule = (volatile struct Rule *)((volatile char *)rules + offset);
    __atomic_fetch_add(&rule->calls, 1, __ATOMIC_SEQ_CST);
    return obey(rule);
}

static int needs_no_init(ptrdiff_t rule)
{
    return rule == RULE(nvmlInitWithFlags) || rule == RULE(nvmlInit_v2);
}

nvmlReturn_t enter(ptrdiff_t rule)
{
    nvmlReturn_t code = count_and_obey(&state->rules, rule);
    if (code != NVML_SUCCESS)
        return code;
    if (!needs_no_init(rule) && __atomic_load_n(&users, __ATOMIC_SEQ_CST) == 0)
        return NVML_ERROR_UNINITIALIZED;
    return NVML_SUCCESS;
}

nvmlReturn_t enter_for_gpu(ptrdiff_t rule, int index)
{
    nvmlReturn_t code = count_and_obey(&state->gpus[index].rules, rule);
    return code != NVML_SUCCESS ? code : (nvmlReturn_t)state->gpus[index].code;
}

nvmlReturn_t enter_device(ptrdiff_t rule, nvmlDevice_t device, const void *out,
                          volatile struct GpuState **gpu)
{
    nvmlReturn_t code = enter(rule);
    int index = index_of(device);

    if (code != NVML_SUCCESS)
        return code;
    if (index < 0 || out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &state->gpus[index];
    return enter_for_gpu(rule, index);
}

nvmlDevice_t device_of(int index)
{
    return &devices[index];
}

int index_of(nvmlDevice_t device)
{
    for (int index = 0; index < MAX_GPUS; index++)
        if (device == &devices[index])
            return index;
    return -1;
}

nvmlReturn_t copy_text(char *out, unsigned int length, const char *text)
{
    if (out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

static nvmlReturn_t init(ptrdiff_t rule)
{
    nvmlReturn_t code = enter(rule);

    if (code != NVML_SUCCESS)
        return code;
    if (state->init_code)
        return (nvmlReturn_t)state->init_code;
    if (strcmp(loaded_version, (const char *)state->kernel_version) != 0)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    __atomic_fetch_add(&users, 1, __ATOMIC_SEQ_CST);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return init(RULE(nvmlInitWithFlags));
}

nvmlReturn_t nvmlInit_v2(void)
{
    return init(RULE(nvmlInit_v2));
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t code = enter(RULE(nvmlShutdown));
    if (code == NVML_SUCCESS)
        __atomic_fetch_sub(&users, 1, __ATOMIC_SEQ_CST);
    return code;
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    static __thread char text[64];
    snprintf(text, sizeof text, "the fake driver's error %d", (int)code);
    return text;
}
