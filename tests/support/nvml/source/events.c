/* Event sets: each reads the test's file of events at a place of its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

struct nvmlEventSet_st {
    pthread_mutex_t lock;
    int events;  /* the file of events */
    int changes; /* an inotify queue: readable once the file has grown */
    off_t place; /* how far this set has read */
    unsigned long long wanted[MAX_GPUS];
    off_t since[MAX_GPUS]; /* what happened before the registration is not delivered */
};

static off_t end_of(int file)
{
    struct stat found;
    return fstat(file, &found) == 0 ? found.st_size : 0;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceGetSupportedEventTypes), device, types, &gpu);
    if (code == NVML_SUCCESS)
        *types = (unsigned long long)gpu->values.supported_events;
    return code;
}

static void release(nvmlEventSet_t set)
{
    if (set->events >= 0)
        close(set->events);
    if (set->changes >= 0)
        close(set->changes);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *created)
{
    nvmlReturn_t code = enter(RULE(nvmlEventSetCreate));
    char path[4096];

    if (code != NVML_SUCCESS)
        return code;
    if (created == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;

    nvmlEventSet_t set = calloc(1, sizeof *set);
    if (set == NULL)
        return NVML_ERROR_MEMORY;
    pthread_mutex_init(&set->lock, NULL);
    set->events = open(state_path("events", path, sizeof path), O_RDONLY | O_CLOEXEC);
    set->changes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (set->events < 0 || set->changes < 0 ||
        inotify_add_watch(set->changes, path, IN_MODIFY) < 0) {
        release(set);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    set->place = end_of(set->events);
    *created = set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    nvmlReturn_t code = enter(RULE(nvmlEventSetFree));

    if (code != NVML_SUCCESS)
        return code;
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    release(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set)
{
    volatile struct GpuState *gpu;
    nvmlReturn_t code = enter_device(RULE(nvmlDeviceRegisterEvents), device, set, &gpu);

    if (code != NVML_SUCCESS)
        return code;
    /* One type that the GPU does not know, and none of them is registered. */
    if (types & ~(unsigned long long)gpu->values.supported_events)
        return NVML_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&set->lock);
    set->wanted[device->index] |= types;
    set->since[device->index] = end_of(set->events);
    pthread_mutex_unlock(&set->lock);
    return NVML_SUCCESS;
}

static int take(nvmlEventSet_t set, nvmlEventData_t *data)
{
    struct Event event;
    int taken = 0;

    pthread_mutex_lock(&set->lock);
    while (!taken && pread(set->events, &event, sizeof event, set->place) == sizeof event) {
        off_t place = set->place;
        set->place += sizeof event;
        if (place < set->since[event.gpu] ||
            !(set->wanted[event.gpu] & (unsigned long long)event.type))
            continue;
        data->device = device_of((int)event.gpu);
        data->eventType = (unsigned long long)event.type;
        data->eventData = (unsigned long long)event.data;
        data->gpuInstanceId = (unsigned int)event.instance;
        data->computeInstanceId = UINT_MAX;
        taken = 1;
    }
    pthread_mutex_unlock(&set->lock);
    return taken;
}

static int lost_one(nvmlEventSet_t set)
{
    for (int index = 0; index < MAX_GPUS; index++)
        if (set->wanted[index] && state->gpus[index].code == NVML_ERROR_GPU_IS_LOST)
            return 1;
    return 0;
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void forget_changes(nvmlEventSet_t set)
{
    char notices[4096];
    while (read(set->changes, notices, sizeof notices) > 0)
        ;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout)
{
    nvmlReturn_t code = enter(RULE(nvmlEventSetWait_v2));
    int64_t deadline = nanoseconds() + timeout * 1000000LL;

    if (code != NVML_SUCCESS)
        return code;
    if (set == NULL || data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (;;) {
        /* The event of a loss is written before the loss: looked for in the other order, none of
         * them is passed over. */
        int lost = lost_one(set);
        if (take(set, data))
            return NVML_SUCCESS;
        if (lost)
            return NVML_ERROR_GPU_IS_LOST;

        int64_t left = deadline - nanoseconds();
        struct timespec rest = {left / 1000000000, left % 1000000000};
        struct pollfd changes = {.fd = set->changes, .events = POLLIN};
        if (left <= 0 || ppoll(&changes, 1, &rest, NULL) < 0)
            return NVML_ERROR_TIMEOUT;
        forget_changes(set);
        code = obey(&state->rules.nvmlEventSetWait_v2);
        if (code != NVML_SUCCESS)
            return code;
    }
}
