/* opencl.c - an OpenCL device: buffers, in-order queues as streams, events as fences.
 *
 * Addresses. OpenCL has buffers but no addresses: each block is a buffer, and its address is a
 * range of numbers chosen here, never reused, with a gap after it. The buffer of an address is
 * found by bisection. Numbers only grow, so a new block belongs at the end of the array.
 *
 * Memory. A buffer of pocl has no memory until an operation on it is queued. So a new block is
 * filled with zeroes at once, and a machine without enough memory reports it at that time.
 *
 * Fences. A marker's event is a point of a queue, and a barrier with the event waits for that
 * point; recording a fence again creates another event. Queues are flushed after a marker, because
 * a thread that waits may never call into the queue that contains the marker.
 *
 * Failures. Each copy has an event with its status; completed events are examined at the next call.
 *
 * Limits: drivers older than OpenCL 1.2 cannot be used, because their queues have neither markers
 * nor fills.
 *
 * Cost: O(log blocks) and the queue's call.
 * Source: OpenCL 1.2, chapter 5.
 */
#include "memory/device/opencl.h"

#include <pthread.h>

#include "memory/device/driver.h"

/* alignment of the addresses of blocks, and the gap between two blocks, in bytes */
#define OPENCL_GAP 4096u

typedef struct opencl_block {
    tn_address address;
    void *buffer;
} opencl_block;

typedef struct opencl_device {
    tn_context context;
    tn__opencl cl;
    void *device, *scope; /* the OpenCL device, and the OpenCL context in which it is used */
    void *zeroes;         /* a queue for filling new blocks with zeroes */
    uint64_t block_max;   /* bytes */
    pthread_mutex_t lock; /* protects all fields below */
    opencl_block *blocks; /* blocks, sorted by address */
    size_t block_count, block_room;
    tn_address next; /* the address of the next block */
} opencl_device;

typedef struct opencl_stream {
    opencl_device *device;
    void *queue;
    bool is_inline;
    void **going; /* [going_count] events of queued copies, in order of queuing */
    size_t going_count, going_room;
    int failure; /* status of the first failure since the last wait; 0: none */
} opencl_stream;

typedef struct opencl_fence {
    opencl_device *device;
    void *event; /* event that marks a point of a queue; NULL: the fence was not recorded yet */
} opencl_fence;

/* --- memory --- */

static tn_status opencl_fill(opencl_device *device, void *buffer, uint64_t size, tn_error *error) {
    const tn__opencl *cl = &device->cl;
    const char zero = 0;
    int status = cl->clEnqueueFillBuffer(device->zeroes, buffer, &zero, sizeof zero, 0,
                                         (size_t)size, 0, NULL, NULL);
    if (status == 0) status = cl->clFinish(device->zeroes);
    return tn__opencl_status(status, "zeroing a block", error);
}

/* Makes the array large enough for one more block. Call it under the lock. */
static bool opencl_room(opencl_device *device) {
    return tn__reserve(&device->context, &device->blocks, &device->block_room,
                       device->block_count + 1, sizeof *device->blocks);
}

static tn_status opencl_alloc(void *state, uint64_t size, tn_address *address, tn_error *error) {
    opencl_device *device = state;
    char wanted[TN_SIZE_TEXT_MAX], most[TN_SIZE_TEXT_MAX];
    uint64_t taken;
    int failed = 0;
    if (size > device->block_max || !tn__align_up(size, OPENCL_GAP, &taken))
        TN_FAIL(error, TN_E_NO_MEMORY, "%s wanted of device opencl, which gives %s at once",
                tn_size_format(size, wanted), tn_size_format(device->block_max, most));
    pthread_mutex_lock(&device->lock);
    bool fits = opencl_room(device);
    pthread_mutex_unlock(&device->lock);
    if (!fits) return tn__no_memory(error, "the blocks of a device");
    void *buffer = device->cl.clCreateBuffer(device->scope, 1, (size_t)size, NULL, &failed);
    TN_TRY(tn__opencl_status(failed, "a block", error));
    tn_status status = opencl_fill(device, buffer, size, error);
    if (status != TN_OK) {
        (void)device->cl.clReleaseMemObject(buffer);
        return status;
    }
    pthread_mutex_lock(&device->lock);
    device->blocks[device->block_count++] = (opencl_block){device->next, buffer};
    *address = device->next;
    device->next += taken + OPENCL_GAP;
    pthread_mutex_unlock(&device->lock);
    return TN_OK;
}

/* Returns the last block that starts at `address` or before it. Call it under the lock. */
static opencl_block *opencl_find(const opencl_device *device, tn_address address) {
    size_t low = 0, high = device->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (device->blocks[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    tn_assert(low > 0);
    return &device->blocks[low - 1];
}

static opencl_block opencl_at(opencl_device *device, tn_address address) {
    pthread_mutex_lock(&device->lock);
    opencl_block block = *opencl_find(device, address);
    pthread_mutex_unlock(&device->lock);
    return block;
}

static void opencl_free(void *state, tn_address address, uint64_t size) {
    opencl_device *device = state;
    (void)size;
    pthread_mutex_lock(&device->lock);
    opencl_block *block = opencl_find(device, address);
    void *buffer = block->buffer;
    size_t behind = (size_t)(device->blocks + device->block_count - (block + 1));
    memmove(block, block + 1, behind * sizeof *block);
    device->block_count--;
    pthread_mutex_unlock(&device->lock);
    (void)device->cl.clReleaseMemObject(buffer);
}

/* --- streams --- */

static tn_status opencl_stream_create(void *state, uint32_t flags, void **stream, tn_error *error) {
    opencl_device *device = state;
    int status = 0;
    opencl_stream *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a stream");
    made->device = device;
    made->is_inline = (flags & TN_STREAM_INLINE) != 0;
    made->queue = device->cl.clCreateCommandQueue(device->scope, device->device, 0, &status);
    if (status != 0) {
        tn__free(&device->context, made, sizeof *made);
        return tn__opencl_status(status, "a queue", error);
    }
    *stream = made;
    return TN_OK;
}

static int opencl_event_status(const tn__opencl *cl, void *event) {
    int now = 0,
        status = cl->clGetEventInfo(event, TN__OPENCL_EVENT_STATUS, sizeof now, &now, NULL);
    return status != 0 ? status : now;
}

/* Releases the events of copies that have completed, from the first on, and remembers the status of
 * a failed copy. */
static void opencl_look(opencl_stream *stream) {
    const tn__opencl *cl = &stream->device->cl;
    size_t over = 0;
    for (; over < stream->going_count; over++) {
        int status = opencl_event_status(cl, stream->going[over]);
        if (status > 0) break;
        if (status < 0 && stream->failure == 0) stream->failure = status;
        (void)cl->clReleaseEvent(stream->going[over]);
    }
    stream->going_count -= over;
    if (over > 0)
        memmove(stream->going, stream->going + over, stream->going_count * sizeof *stream->going);
}

static tn_status opencl_stream_wait(void *state, tn_error *error) {
    opencl_stream *stream = state;
    int status = stream->device->cl.clFinish(stream->queue);
    opencl_look(stream);
    if (stream->failure != 0) status = stream->failure;
    stream->failure = 0;
    return tn__opencl_status(status, "a copy", error);
}

static void opencl_stream_destroy(void *state) {
    opencl_stream *stream = state;
    opencl_device *device = stream->device;
    (void)device->cl.clFinish(stream->queue);
    for (size_t i = 0; i < stream->going_count; i++)
        (void)device->cl.clReleaseEvent(stream->going[i]);
    (void)device->cl.clReleaseCommandQueue(stream->queue);
    tn__free(&device->context, stream->going, stream->going_room * sizeof *stream->going);
    tn__free(&device->context, stream, sizeof *stream);
}

static tn_status opencl_stream_reserve(void *state, uint32_t count, tn_error *error) {
    opencl_stream *stream = state;
    bool fits = tn__reserve(&stream->device->context, &stream->going, &stream->going_room,
                            stream->going_count + count, sizeof *stream->going);
    return fits ? TN_OK : tn__no_memory(error, "the queue of a stream");
}

/* --- copies --- */

/* Called before a copy is queued. *skips is set if an earlier copy of the stream failed, so that
 * this one must be skipped. */
static tn_status opencl_begin(opencl_stream *stream, bool *skips, tn_error *error) {
    if (stream->going_count == stream->going_room) opencl_look(stream);
    *skips = stream->failure != 0;
    return *skips ? TN_OK : opencl_stream_reserve(stream, 1, error);
}

static tn_status opencl_queued(opencl_stream *stream, int status, void *event, tn_error *error) {
    const tn__opencl *cl = &stream->device->cl;
    TN_TRY(tn__opencl_status(status, "a copy", error));
    stream->going[stream->going_count++] = event;
    if (stream->is_inline) return opencl_stream_wait(stream, error);
    return tn__opencl_status(cl->clFlush(stream->queue), "a copy", error);
}

static tn_status opencl_put(void *state, tn_address to, const void *from, uint64_t size,
                            tn_error *error) {
    opencl_stream *stream = state;
    opencl_block block = opencl_at(stream->device, to);
    void *event = NULL;
    bool skips;
    TN_TRY(opencl_begin(stream, &skips, error));
    if (skips) return TN_OK;
    int status = stream->device->cl.clEnqueueWriteBuffer(stream->queue, block.buffer, 0,
                                                         (size_t)(to - block.address), (size_t)size,
                                                         from, 0, NULL, &event);
    return opencl_queued(stream, status, event, error);
}

static tn_status opencl_get(void *state, void *to, tn_address from, uint64_t size,
                            tn_error *error) {
    opencl_stream *stream = state;
    opencl_block block = opencl_at(stream->device, from);
    void *event = NULL;
    bool skips;
    TN_TRY(opencl_begin(stream, &skips, error));
    if (skips) return TN_OK;
    int status = stream->device->cl.clEnqueueReadBuffer(stream->queue, block.buffer, 0,
                                                        (size_t)(from - block.address),
                                                        (size_t)size, to, 0, NULL, &event);
    return opencl_queued(stream, status, event, error);
}

static tn_status opencl_copy(void *state, tn_address to, tn_address from, uint64_t size,
                             tn_error *error) {
    opencl_stream *stream = state;
    opencl_block target = opencl_at(stream->device, to), source = opencl_at(stream->device, from);
    void *event = NULL;
    bool skips;
    TN_TRY(opencl_begin(stream, &skips, error));
    if (skips) return TN_OK;
    int status = stream->device->cl.clEnqueueCopyBuffer(
        stream->queue, source.buffer, target.buffer, (size_t)(from - source.address),
        (size_t)(to - target.address), (size_t)size, 0, NULL, &event);
    return opencl_queued(stream, status, event, error);
}

/* --- fences --- */

static tn_status opencl_fence_create(void *state, void **fence, tn_error *error) {
    opencl_device *device = state;
    opencl_fence *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a fence");
    made->device = device;
    *fence = made;
    return TN_OK;
}

static void opencl_fence_destroy(void *state) {
    opencl_fence *fence = state;
    opencl_device *device = fence->device;
    if (fence->event != NULL) (void)device->cl.clReleaseEvent(fence->event);
    tn__free(&device->context, fence, sizeof *fence);
}

static tn_status opencl_fence_record(void *state, void *of, tn_error *error) {
    opencl_fence *fence = state;
    opencl_stream *stream = of;
    const tn__opencl *cl = &fence->device->cl;
    void *event = NULL;
    int status = cl->clEnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event);
    TN_TRY(tn__opencl_status(status, "a marker", error));
    if (fence->event != NULL) (void)cl->clReleaseEvent(fence->event);
    fence->event = event;
    return tn__opencl_status(cl->clFlush(stream->queue), "a marker", error);
}

static tn_status opencl_fence_wait(void *state, void *of, tn_error *error) {
    opencl_fence *fence = state;
    opencl_stream *stream = of;
    const tn__opencl *cl = &fence->device->cl;
    if (fence->event == NULL || opencl_event_status(cl, fence->event) <= 0) return TN_OK;
    if (stream->is_inline) {
        /* the status is ignored, because the stream that made the copy reports its failure */
        (void)cl->clWaitForEvents(1, &fence->event);
        return TN_OK;
    }
    int status = cl->clEnqueueBarrierWithWaitList(stream->queue, 1, &fence->event, NULL);
    return tn__opencl_status(status, "a barrier", error);
}

static bool opencl_fence_passed(const void *state) {
    const opencl_fence *fence = state;
    return fence->event == NULL || opencl_event_status(&fence->device->cl, fence->event) <= 0;
}

/* --- opening --- */

static tn_status opencl_start(opencl_device *device, uint32_t index, tn_device_limits *limits,
                              tn_error *error) {
    const tn__opencl *cl = &device->cl;
    int status = 0;
    TN_TRY(tn__opencl_choose(cl, index, &device->device, error));
    TN_TRY(tn__opencl_ask(cl, device->device, &limits->capacity, &device->block_max, error));
    limits->alignment = OPENCL_GAP;
    device->scope = cl->clCreateContext(NULL, 1, &device->device, NULL, NULL, &status);
    TN_TRY(tn__opencl_status(status, "a context", error));
    device->zeroes = cl->clCreateCommandQueue(device->scope, device->device, 0, &status);
    return tn__opencl_status(status, "a queue", error);
}

static void opencl_close(void *state) {
    opencl_device *device = state;
    tn_context context = device->context;
    if (device->zeroes != NULL) (void)device->cl.clReleaseCommandQueue(device->zeroes);
    if (device->scope != NULL) (void)device->cl.clReleaseContext(device->scope);
    tn__free(&context, device->blocks, device->block_room * sizeof *device->blocks);
    pthread_mutex_destroy(&device->lock);
    tn__free(&context, device, sizeof *device);
}

static tn_status opencl_open(const tn_context *context, const tn_device_options *options,
                             uint32_t index, void **state, tn_device_limits *limits,
                             tn_error *error) {
    if (options->link_bytes_per_s > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "device opencl has a link of its own, as fast as it is");
    opencl_device *device = tn__alloc_array(context, 1, sizeof *device);
    if (device == NULL) return tn__no_memory(error, "a device");
    device->context = *context;
    device->next = OPENCL_GAP;
    if (pthread_mutex_init(&device->lock, NULL) != 0) {
        tn__free(context, device, sizeof *device);
        return tn__no_memory(error, "the lock of a device");
    }
    tn_status status = tn__opencl_load(&device->cl, error);
    if (status == TN_OK) status = opencl_start(device, index, limits, error);
    if (status == TN_OK)
        *state = device;
    else
        opencl_close(device);
    return status;
}

const tn__driver tn__device_opencl = {
    .name = "opencl",
    .summary = "an OpenCL device; opencl:1 is the second",
    .open = opencl_open,
    .close = opencl_close,
    .alloc = opencl_alloc,
    .free = opencl_free,
    .stream_create = opencl_stream_create,
    .stream_destroy = opencl_stream_destroy,
    .stream_wait = opencl_stream_wait,
    .stream_reserve = opencl_stream_reserve,
    .put = opencl_put,
    .get = opencl_get,
    .copy = opencl_copy,
    .fence_create = opencl_fence_create,
    .fence_destroy = opencl_fence_destroy,
    .fence_record = opencl_fence_record,
    .fence_wait = opencl_fence_wait,
    .fence_passed = opencl_fence_passed,
};
