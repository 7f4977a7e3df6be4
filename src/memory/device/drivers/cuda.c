/* cuda.c - an NVIDIA GPU as a device: memory of cudaMalloc, CUDA's streams and events.
 *
 * Streams and fences behave as in CUDA (driver.h was modelled on it), so each function is one call
 * of the runtime. A stream with TN_STREAM_INLINE waits at the end of each call. The current device
 * is a property of the thread: every call makes this device current and restores the previous one.
 *
 * Copies from and to host memory that is not pinned go through staging buffers of the runtime, and
 * may block the calling thread; they are correct, but slower than the link.
 *
 * A failure of CUDA is reported by the call that first sees it, which may be a later one of another
 * stream; a lost device stays lost.
 *
 * Cost: that of the runtime's call.
 * Source: CUDA Runtime API.
 */
#include "memory/device/cuda.h"

#include <stdio.h>

#include "memory/device/driver.h"

typedef struct cuda_device {
    tn_context context;
    tn__cuda cuda;
    int index;
    void *zeroes; /* a CUDA stream on which new blocks are filled with zeroes */
} cuda_device;

typedef struct cuda_stream {
    cuda_device *device;
    void *stream;
    bool is_inline;
} cuda_stream;

typedef struct cuda_fence {
    cuda_device *device;
    void *event;
} cuda_fence;

#define CUDA_POINTER(address) ((void *)(uintptr_t)(address))

/* --- memory --- */

static tn_status cuda_alloc_here(cuda_device *device, uint64_t size, void **pointer,
                                 tn_error *error) {
    const tn__cuda *cuda = &device->cuda;
    char text[TN_SIZE_TEXT_MAX], what[TN_SIZE_TEXT_MAX + 16];
    snprintf(what, sizeof what, "a block of %s", tn_size_format(size, text));
    TN_TRY(tn__cuda_status(cuda, cuda->cudaMalloc(pointer, (size_t)size), what, error));
    int status = cuda->cudaMemsetAsync(*pointer, 0, (size_t)size, device->zeroes);
    if (status == TN__CUDA_OK) status = cuda->cudaStreamSynchronize(device->zeroes);
    if (status == TN__CUDA_OK) return TN_OK;
    /* waits for all queued work, because some may still use the device's memory */
    (void)cuda->cudaDeviceSynchronize();
    (void)cuda->cudaFree(*pointer);
    return tn__cuda_status(cuda, status, "zeroing a block", error);
}

static tn_status cuda_alloc(void *state, uint64_t size, tn_address *address, tn_error *error) {
    cuda_device *device = state;
    void *pointer = NULL;
    int before, entered = tn__cuda_enter(&device->cuda, device->index, &before);
    tn_status status = tn__cuda_status(&device->cuda, entered, "making it current", error);
    if (status == TN_OK) status = cuda_alloc_here(device, size, &pointer, error);
    tn__cuda_leave(&device->cuda, device->index, before);
    if (status == TN_OK) *address = (tn_address)(uintptr_t)pointer;
    return status;
}

static void cuda_free(void *state, tn_address address, uint64_t size) {
    cuda_device *device = state;
    (void)size;
    int before;
    /* a failure is ignored, because a pointer identifies its device */
    (void)tn__cuda_enter(&device->cuda, device->index, &before);
    /* a failure is ignored: if the device is lost, so is the block */
    (void)device->cuda.cudaFree(CUDA_POINTER(address));
    tn__cuda_leave(&device->cuda, device->index, before);
}

/* --- streams --- */

static tn_status cuda_stream_create(void *state, uint32_t flags, void **stream, tn_error *error) {
    cuda_device *device = state;
    cuda_stream *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a stream");
    made->device = device;
    made->is_inline = (flags & TN_STREAM_INLINE) != 0;
    int before, status = tn__cuda_enter(&device->cuda, device->index, &before);
    if (status == TN__CUDA_OK)
        status = device->cuda.cudaStreamCreateWithFlags(&made->stream, TN__CUDA_STREAM_ALONE);
    tn__cuda_leave(&device->cuda, device->index, before);
    if (status != TN__CUDA_OK) {
        tn__free(&device->context, made, sizeof *made);
        return tn__cuda_status(&device->cuda, status, "a stream", error);
    }
    *stream = made;
    return TN_OK;
}

static void cuda_stream_destroy(void *state) {
    cuda_stream *stream = state;
    cuda_device *device = stream->device;
    int before;
    /* a failure is ignored, because a stream identifies its device */
    (void)tn__cuda_enter(&device->cuda, device->index, &before);
    (void)device->cuda.cudaStreamSynchronize(stream->stream);
    (void)device->cuda.cudaStreamDestroy(stream->stream);
    tn__cuda_leave(&device->cuda, device->index, before);
    tn__free(&device->context, stream, sizeof *stream);
}

static tn_status cuda_stream_wait(void *state, tn_error *error) {
    cuda_stream *stream = state;
    const tn__cuda *cuda = &stream->device->cuda;
    int before, status = tn__cuda_enter(cuda, stream->device->index, &before);
    if (status == TN__CUDA_OK) status = cuda->cudaStreamSynchronize(stream->stream);
    tn__cuda_leave(cuda, stream->device->index, before);
    return tn__cuda_status(cuda, status, "waiting for a stream", error);
}

static tn_status cuda_move(cuda_stream *stream, void *to, const void *from, uint64_t size, int kind,
                           tn_error *error) {
    const tn__cuda *cuda = &stream->device->cuda;
    int before, status = tn__cuda_enter(cuda, stream->device->index, &before);
    if (status == TN__CUDA_OK)
        status = cuda->cudaMemcpyAsync(to, from, (size_t)size, kind, stream->stream);
    if (status == TN__CUDA_OK && stream->is_inline)
        status = cuda->cudaStreamSynchronize(stream->stream);
    tn__cuda_leave(cuda, stream->device->index, before);
    return tn__cuda_status(cuda, status, "a copy", error);
}

static tn_status cuda_put(void *stream, tn_address to, const void *from, uint64_t size,
                          tn_error *error) {
    return cuda_move(stream, CUDA_POINTER(to), from, size, TN__CUDA_TO_DEVICE, error);
}

static tn_status cuda_get(void *stream, void *to, tn_address from, uint64_t size, tn_error *error) {
    return cuda_move(stream, to, CUDA_POINTER(from), size, TN__CUDA_TO_HOST, error);
}

static tn_status cuda_copy(void *stream, tn_address to, tn_address from, uint64_t size,
                           tn_error *error) {
    return cuda_move(stream, CUDA_POINTER(to), CUDA_POINTER(from), size, TN__CUDA_ON_DEVICE, error);
}

/* --- fences --- */

static tn_status cuda_fence_create(void *state, void **fence, tn_error *error) {
    cuda_device *device = state;
    cuda_fence *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a fence");
    made->device = device;
    int before, status = tn__cuda_enter(&device->cuda, device->index, &before);
    if (status == TN__CUDA_OK)
        status = device->cuda.cudaEventCreateWithFlags(&made->event, TN__CUDA_EVENT_UNTIMED);
    tn__cuda_leave(&device->cuda, device->index, before);
    if (status != TN__CUDA_OK) {
        tn__free(&device->context, made, sizeof *made);
        return tn__cuda_status(&device->cuda, status, "an event", error);
    }
    *fence = made;
    return TN_OK;
}

static void cuda_fence_destroy(void *state) {
    cuda_fence *fence = state;
    cuda_device *device = fence->device;
    (void)device->cuda.cudaEventDestroy(fence->event);
    tn__free(&device->context, fence, sizeof *fence);
}

static tn_status cuda_fence_record(void *state, void *to, tn_error *error) {
    cuda_fence *fence = state;
    cuda_stream *stream = to;
    const tn__cuda *cuda = &fence->device->cuda;
    int before, status = tn__cuda_enter(cuda, fence->device->index, &before);
    if (status == TN__CUDA_OK) status = cuda->cudaEventRecord(fence->event, stream->stream);
    tn__cuda_leave(cuda, fence->device->index, before);
    return tn__cuda_status(cuda, status, "recording an event", error);
}

static tn_status cuda_fence_wait(void *state, void *of, tn_error *error) {
    cuda_fence *fence = state;
    cuda_stream *stream = of;
    const tn__cuda *cuda = &fence->device->cuda;
    int before, status = tn__cuda_enter(cuda, fence->device->index, &before);
    if (status == TN__CUDA_OK)
        status = stream->is_inline ? cuda->cudaEventSynchronize(fence->event)
                                   : cuda->cudaStreamWaitEvent(stream->stream, fence->event, 0);
    tn__cuda_leave(cuda, fence->device->index, before);
    return tn__cuda_status(cuda, status, "waiting for an event", error);
}

static bool cuda_fence_passed(const void *state) {
    const cuda_fence *fence = state;
    const tn__cuda *cuda = &fence->device->cuda;
    int status = cuda->cudaEventQuery(fence->event);
    if (status != TN__CUDA_OK) (void)cuda->cudaGetLastError();
    /* any status but "not ready" counts as passed, because nothing runs on a lost device */
    return status != TN__CUDA_NOT_READY;
}

/* --- opening --- */

static void cuda_close(void *state) {
    cuda_device *device = state;
    tn_context context = device->context;
    int before;
    (void)tn__cuda_enter(&device->cuda, device->index, &before);
    if (device->zeroes != NULL) (void)device->cuda.cudaStreamDestroy(device->zeroes);
    tn__cuda_leave(&device->cuda, device->index, before);
    tn__free(&context, device, sizeof *device);
}

static tn_status cuda_start(cuda_device *device, tn_device_limits *limits, tn_error *error) {
    const tn__cuda *cuda = &device->cuda;
    size_t available = 0, total = 0;
    TN_TRY(tn__cuda_check_device(cuda, device->index, error));
    int before, status = tn__cuda_enter(cuda, device->index, &before);
    if (status == TN__CUDA_OK) status = cuda->cudaMemGetInfo(&available, &total);
    if (status == TN__CUDA_OK)
        status = cuda->cudaStreamCreateWithFlags(&device->zeroes, TN__CUDA_STREAM_ALONE);
    tn__cuda_leave(cuda, device->index, before);
    limits->capacity = available;
    limits->alignment = TN__CUDA_ALIGNMENT;
    return tn__cuda_status(cuda, status, "opening it", error);
}

static tn_status cuda_open(const tn_context *context, const tn_device_options *options,
                           uint32_t index, void **state, tn_device_limits *limits,
                           tn_error *error) {
    if (options->link_bytes_per_s > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "device cuda has a link of its own, as fast as it is");
    cuda_device *device = tn__alloc_array(context, 1, sizeof *device);
    if (device == NULL) return tn__no_memory(error, "a device");
    device->context = *context;
    device->index = index <= INT32_MAX ? (int)index : -1;
    tn_status status = tn__cuda_load(&device->cuda, error);
    if (status != TN_OK) {
        tn__free(context, device, sizeof *device);
        return status;
    }
    status = cuda_start(device, limits, error);
    if (status == TN_OK)
        *state = device;
    else
        cuda_close(device);
    return status;
}

const tn__driver tn__device_cuda = {
    .name = "cuda",
    .summary = "an NVIDIA GPU, by the CUDA runtime; cuda:1 is the second",
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_wait = cuda_stream_wait,
    .put = cuda_put,
    .get = cuda_get,
    .copy = cuda_copy,
    .fence_create = cuda_fence_create,
    .fence_destroy = cuda_fence_destroy,
    .fence_record = cuda_fence_record,
    .fence_wait = cuda_fence_wait,
    .fence_passed = cuda_fence_passed,
};
