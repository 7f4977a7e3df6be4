/* device.c - the code around every device driver: checks arguments, limits and counts bytes, tracks
 * the blocks.
 *
 * Blocks are in an array sorted by address, so the block of an address is found by bisection, and a
 * range outside any block is refused before a driver sees it. Allocating and freeing moves the end
 * of the array: devices have few blocks (an arena, weights), which exist for a long time.
 *
 * Cost: O(log n) per range with n blocks, O(n) per block allocated or freed.
 */
#include <inttypes.h>
#include <pthread.h>

#include "memory/device/driver.h"

#define TN_DEVICE(name) extern const tn__driver tn__device_##name;
#include "memory/device/drivers.def"
#undef TN_DEVICE

static const tn__driver *const device_drivers[] = {
#define TN_DEVICE(name) &tn__device_##name,
#include "memory/device/drivers.def"
#undef TN_DEVICE
};
#define DEVICE_COUNT (sizeof device_drivers / sizeof *device_drivers)
#define DEVICE_INDEX_MAX 100000u

typedef struct device_block {
    tn_address address;
    uint64_t size;
} device_block;

struct tn_device {
    tn_context context;
    const tn__driver *driver;
    void *state;
    tn_device_limits limits;
    pthread_mutex_t lock; /* protects all fields below */
    device_block *blocks; /* sorted by address, without overlap */
    size_t block_count, block_room;
    tn_device_usage usage;
    uint64_t handle_count; /* number of streams and fences */
};

struct tn_stream {
    tn_device *device;
    void *state;
};

struct tn_fence {
    tn_device *device;
    void *state;
};

uint32_t tn_device_count(void) { return DEVICE_COUNT; }
const char *tn_device_name(uint32_t index) {
    return index < DEVICE_COUNT ? device_drivers[index]->name : "";
}
const char *tn_device_summary(uint32_t index) {
    return index < DEVICE_COUNT ? device_drivers[index]->summary : "";
}

/* --- opening and closing a device --- */

/* Reads the number in "cuda:N"; false: it is not a number. */
static bool device_number(const char *text, uint32_t *index) {
    *index = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || *index > DEVICE_INDEX_MAX / 10) return false;
        *index = *index * 10 + (uint32_t)(*at - '0');
    }
    return *text != '\0';
}

static tn_status device_find(const tn_device_options *options, const tn__driver **driver,
                             uint32_t *index, tn_error *error) {
    *driver = device_drivers[0];
    *index = 0;
    if (options->device == NULL) return TN_OK;
    size_t length = strcspn(options->device, ":");
    const char *text = options->device[length] == ':' ? options->device + length + 1 : NULL;
    for (size_t i = 0; i < DEVICE_COUNT; i++) {
        *driver = device_drivers[i];
        if (strlen((*driver)->name) != length ||
            memcmp((*driver)->name, options->device, length) != 0)
            continue;
        if (text == NULL || ((*driver)->takes_text ? *text != '\0' : device_number(text, index)))
            return TN_OK;
    }
    char asked[TN__NEAR_TEXT];
    TN_FAIL(error, TN_E_UNKNOWN, "there is no device '%.80s'; %s", options->device,
            tn__near_of(options->device, tn_device_count(), tn_device_name, "see `tn_device_name`",
                        asked));
}

tn_status tn__device_known(const char *name, tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    const tn__driver *driver;
    uint32_t index;
    options.device = name;
    return device_find(&options, &driver, &index, error);
}

static tn_status device_open(tn_device *device, const tn_device_options *options, uint32_t index,
                             tn_error *error) {
    device->limits = (tn_device_limits){.capacity = TN_SIZE_UNKNOWN, .alignment = 1};
    TN_TRY(device->driver->open(&device->context, options, index, &device->state, &device->limits,
                                error));
    device->limits.name = device->driver->name;
    device->limits.host_kernels = device->driver->pointer != NULL;
    if (options->capacity != 0 && options->capacity < device->limits.capacity)
        device->limits.capacity = options->capacity;
    return TN_OK;
}

tn_status tn_device_create(const tn_device_options *given, tn_device **device, tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    const tn__driver *driver;
    uint32_t index;
    tn__options(&options, sizeof options, given);
    TN_TRY(device_find(&options, &driver, &index, error));
    if (!(options.link_bytes_per_s >= 0 && options.link_bytes_per_s <= 1e18))
        TN_FAIL(error, TN_E_INVALID, "a link has from 0 to 1e18 bytes per second, not %g",
                options.link_bytes_per_s);
    tn_context context = tn__context(options.context);
    tn_device *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a device");
    made->context = context;
    made->driver = driver;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        tn__free(&context, made, sizeof *made);
        return tn__no_memory(error, "the lock of a device");
    }
    tn_status status = device_open(made, &options, index, error);
    if (status == TN_OK)
        *device = made;
    else
        tn_device_destroy(made);
    return status;
}

void tn_device_destroy(tn_device *device) {
    if (device == NULL) return;
    tn_assert(device->handle_count == 0);
    tn_context context = device->context;
    for (size_t i = 0; i < device->block_count; i++)
        device->driver->free(device->state, device->blocks[i].address, device->blocks[i].size);
    if (device->state != NULL) device->driver->close(device->state);
    tn__free(&context, device->blocks, device->block_room * sizeof *device->blocks);
    pthread_mutex_destroy(&device->lock);
    tn__free(&context, device, sizeof *device);
}

void tn_device_measure(tn_device *device, tn_device_usage *usage) {
    pthread_mutex_lock(&device->lock);
    *usage = device->usage;
    pthread_mutex_unlock(&device->lock);
}

tn_device_limits tn_device_limits_of(const tn_device *device) { return device->limits; }

/* --- blocks --- */

/* Returns the number of blocks that start at `address` or below it. */
static size_t device_blocks_up_to(const tn_device *device, tn_address address) {
    size_t low = 0, high = device->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (device->blocks[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool device_holds(tn_device *device, tn_address address, uint64_t size) {
    bool holds = false;
    pthread_mutex_lock(&device->lock);
    size_t before = device_blocks_up_to(device, address);
    if (before > 0) {
        const device_block *block = &device->blocks[before - 1];
        uint64_t offset = address - block->address;
        holds = offset <= block->size && size <= block->size - offset;
    }
    pthread_mutex_unlock(&device->lock);
    return holds;
}

static tn_status device_exhausted(const tn_device *device, uint64_t size, tn_error *error) {
    char wanted[TN_SIZE_TEXT_MAX], left[TN_SIZE_TEXT_MAX], all[TN_SIZE_TEXT_MAX];
    uint64_t capacity = device->limits.capacity;
    TN_FAIL(error, TN_E_EXHAUSTED, "%s wanted of device %s, but only %s of its %s are left",
            tn_size_format(size, wanted), device->driver->name,
            tn_size_format(capacity - device->usage.allocated, left),
            tn_size_format(capacity, all));
}

static tn_status device_take(tn_device *device, uint64_t size, tn_address *address,
                             tn_error *error) {
    tn_device_usage *usage = &device->usage;
    if (size > device->limits.capacity - usage->allocated)
        return device_exhausted(device, size, error);
    if (!tn__reserve(&device->context, &device->blocks, &device->block_room,
                     device->block_count + 1, sizeof *device->blocks))
        return tn__no_memory(error, "the blocks of a device");
    tn_address taken = 0;
    TN_TRY(device->driver->alloc(device->state, size, &taken, error));
    tn_assert(taken != 0 && taken % device->limits.alignment == 0);
    size_t at = device_blocks_up_to(device, taken);
    device_block *block = device->blocks + at;
    memmove(block + 1, block, (device->block_count - at) * sizeof *block);
    *block = (device_block){taken, size};
    device->block_count++;
    usage->allocated += size;
    if (usage->allocated > usage->allocated_peak) usage->allocated_peak = usage->allocated;
    *address = taken;
    return TN_OK;
}

tn_status tn_device_alloc(tn_device *device, uint64_t size, tn_address *address, tn_error *error) {
    tn_status status = TN_OK;
    tn_address taken = 0;
    pthread_mutex_lock(&device->lock);
    if (size > 0) status = device_take(device, size, &taken, error);
    device->usage.alloc_count++;
    device->usage.failed_count += status != TN_OK;
    pthread_mutex_unlock(&device->lock);
    if (status == TN_OK) *address = taken;
    return status;
}

void tn_device_free(tn_device *device, tn_address address) {
    if (address == 0) return;
    pthread_mutex_lock(&device->lock);
    size_t before = device_blocks_up_to(device, address);
    device_block *block = before > 0 ? device->blocks + before - 1 : NULL;
    if (block != NULL && block->address == address) {
        device->driver->free(device->state, address, block->size);
        device->usage.allocated -= block->size;
        device->usage.free_count++;
        memmove(block, block + 1, (device->block_count - before) * sizeof *block);
        device->block_count--;
    }
    pthread_mutex_unlock(&device->lock);
}

void *tn_device_pointer(const tn_device *device, tn_address address) {
    if (device->driver->pointer == NULL) return NULL;
    /* the cast removes const only to lock the mutex; nothing else is modified */
    if (!device_holds((tn_device *)(uintptr_t)device, address, 0)) return NULL;
    return device->driver->pointer(device->state, address);
}

/* --- streams --- */

static void device_count_handle(tn_device *device, bool more) {
    pthread_mutex_lock(&device->lock);
    device->handle_count += more ? 1 : UINT64_MAX;
    pthread_mutex_unlock(&device->lock);
}

tn_status tn_stream_create(tn_device *device, uint32_t flags, tn_stream **stream, tn_error *error) {
    if ((flags & ~(uint32_t)TN_STREAM_INLINE) != 0)
        TN_FAIL(error, TN_E_INVALID, "a stream has no flags 0x%x", flags);
    tn_stream *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a stream");
    made->device = device;
    tn_status status = device->driver->stream_create(device->state, flags, &made->state, error);
    if (status != TN_OK) {
        tn__free(&device->context, made, sizeof *made);
        return status;
    }
    device_count_handle(device, true);
    *stream = made;
    return TN_OK;
}

void tn_stream_destroy(tn_stream *stream) {
    if (stream == NULL) return;
    tn_device *device = stream->device;
    device->driver->stream_destroy(stream->state);
    tn__free(&device->context, stream, sizeof *stream);
    device_count_handle(device, false);
}

tn_status tn_stream_wait(tn_stream *stream, tn_error *error) {
    return stream->device->driver->stream_wait(stream->state, error);
}

tn_status tn_stream_reserve(tn_stream *stream, uint32_t count, tn_error *error) {
    const tn__driver *driver = stream->device->driver;
    if (driver->stream_reserve == NULL) return TN_OK;
    return driver->stream_reserve(stream->state, count, error);
}

/* --- copies and kernels --- */

static tn_status device_check_range(tn_device *device, tn_address address, uint64_t size,
                                    const char *what, tn_error *error) {
    if (device_holds(device, address, size)) return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "%s %" PRIu64 " bytes at address %" PRIu64
            ", which are not all in one block of device %s",
            what, size, address, device->driver->name);
}

static void device_count_bytes(tn_device *device, uint64_t *sum, uint64_t size) {
    pthread_mutex_lock(&device->lock);
    *sum = tn__add_sat(*sum, size);
    pthread_mutex_unlock(&device->lock);
}

tn_status tn_device_put(tn_stream *stream, tn_address to, const void *from, uint64_t size,
                        tn_error *error) {
    tn_device *device = stream->device;
    if (size == 0) return TN_OK;
    if (from == NULL) TN_FAIL(error, TN_E_INVALID, "nothing is given to put on the device");
    TN_TRY(device_check_range(device, to, size, "put of", error));
    TN_TRY(device->driver->put(stream->state, to, from, size, error));
    device_count_bytes(device, &device->usage.put_bytes, size);
    return TN_OK;
}

tn_status tn_device_get(tn_stream *stream, void *to, tn_address from, uint64_t size,
                        tn_error *error) {
    tn_device *device = stream->device;
    if (size == 0) return TN_OK;
    if (to == NULL) TN_FAIL(error, TN_E_INVALID, "no memory is given to get from the device into");
    TN_TRY(device_check_range(device, from, size, "get of", error));
    TN_TRY(device->driver->get(stream->state, to, from, size, error));
    device_count_bytes(device, &device->usage.get_bytes, size);
    return TN_OK;
}

tn_status tn_device_copy(tn_stream *stream, tn_address to, tn_address from, uint64_t size,
                         tn_error *error) {
    tn_device *device = stream->device;
    if (size == 0) return TN_OK;
    TN_TRY(device_check_range(device, to, size, "copy to", error));
    TN_TRY(device_check_range(device, from, size, "copy from", error));
    if ((to > from ? to - from : from - to) < size)
        TN_FAIL(error, TN_E_INVALID,
                "a copy of %" PRIu64 " bytes overlaps itself: %" PRIu64
                " bytes from start to start",
                size, to > from ? to - from : from - to);
    return device->driver->copy(stream->state, to, from, size, error);
}

tn_status tn_device_launch(tn_stream *stream, tn_status (*work)(void *self, tn_error *error),
                           void *self, tn_error *error) {
    const tn__driver *driver = stream->device->driver;
    if (driver->launch == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "device %s does not run functions of the host",
                driver->name);
    return driver->launch(stream->state, work, self, error);
}

/* --- fences --- */

tn_status tn_fence_create(tn_device *device, tn_fence **fence, tn_error *error) {
    tn_fence *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a fence");
    made->device = device;
    tn_status status = device->driver->fence_create(device->state, &made->state, error);
    if (status != TN_OK) {
        tn__free(&device->context, made, sizeof *made);
        return status;
    }
    device_count_handle(device, true);
    *fence = made;
    return TN_OK;
}

void tn_fence_destroy(tn_fence *fence) {
    if (fence == NULL) return;
    tn_device *device = fence->device;
    device->driver->fence_destroy(fence->state);
    tn__free(&device->context, fence, sizeof *fence);
    device_count_handle(device, false);
}

static tn_status fence_check(const tn_fence *fence, const tn_stream *stream, tn_error *error) {
    if (fence->device != stream->device)
        TN_FAIL(error, TN_E_INVALID, "the fence is of one device, the stream of another");
    return TN_OK;
}

tn_status tn_fence_record(tn_fence *fence, tn_stream *stream, tn_error *error) {
    TN_TRY(fence_check(fence, stream, error));
    return fence->device->driver->fence_record(fence->state, stream->state, error);
}

tn_status tn_fence_wait(tn_fence *fence, tn_stream *stream, tn_error *error) {
    TN_TRY(fence_check(fence, stream, error));
    return fence->device->driver->fence_wait(fence->state, stream->state, error);
}

bool tn_fence_passed(const tn_fence *fence) {
    return fence->device->driver->fence_passed(fence->state);
}
