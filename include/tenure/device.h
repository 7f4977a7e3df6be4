/* device.h - devices: separate memory, streams that work on it, and copies to and from the host.
 *
 *     tn_device_options options = TN_DEVICE_OPTIONS_INIT;
 *     tn_device *device;
 *     tn_stream *stream;
 *     tn_address arena;
 *     tn_error error;
 *     char there[6] = "", here[6] = "bytes";
 *     options.capacity = 1 << 20;
 *     if (tn_device_create(&options, &device, &error) ||
 *         tn_stream_create(device, 0, &stream, &error) ||
 *         tn_device_alloc(device, 4096, &arena, &error) ||
 *         tn_device_put(stream, arena, here, sizeof here, &error) ||
 *         tn_device_get(stream, there, arena, sizeof there, &error) ||
 *         tn_stream_wait(stream, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     puts(there); // bytes
 *     tn_device_free(device, arena);
 *     tn_stream_destroy(stream);
 *     tn_device_destroy(device);
 *
 * A device address is a number, not a pointer: bytes are copied only by put and get, and only
 * kernels that were launched on the device may access them.
 *
 * A stream works in order. Different streams run concurrently, and fences order them. A call that
 * queues work on a stream returns at once; host memory that it names must stay valid until the
 * stream has finished that work (tn_stream_wait). With TN_STREAM_INLINE the calling thread does the
 * work before the call returns.
 *
 * Units: bytes, seconds.
 * Threads: several threads may use a device at once, one thread a stream.
 */
#ifndef TENURE_DEVICE_H
#define TENURE_DEVICE_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_device tn_device;
typedef struct tn_stream tn_stream;
typedef struct tn_fence tn_fence; /* a point in a stream that other streams can wait for */
typedef uint64_t tn_address;      /* in a device's memory; 0: no address */

typedef struct tn_device_options {
    size_t struct_size;
    const tn_context *context; /* NULL, or must outlive the device */
    /* The technique; NULL = "host". "cuda:1" is the second CUDA device; "file:/var/tmp" an unnamed
     * file in that folder. */
    const char *device;
    uint64_t capacity;       /* total bytes, a hard limit; 0: the memory of the machine */
    double link_bytes_per_s; /* limit for put and get, each way; 0: no limit */
} tn_device_options;
#define TN_DEVICE_OPTIONS_INIT                                                                     \
    TN_INIT(tn_device_options, TN_SET(struct_size, sizeof(tn_device_options)))

typedef struct tn_device_limits {
    const char *name;        /* "host"; static */
    uint64_t capacity;       /* bytes; TN_SIZE_UNKNOWN: no limit of its own */
    uint64_t alignment;      /* least alignment of every allocation */
    double link_bytes_per_s; /* 0: no limit */
    bool host_kernels;       /* kernels are host functions, and tn_device_pointer works */
} tn_device_limits;

typedef struct tn_device_usage {
    uint64_t allocated, allocated_peak; /* requested bytes: now, and peak */
    uint64_t alloc_count, free_count, failed_count;
    uint64_t put_bytes, get_bytes; /* queued for copying so far */
} tn_device_usage;

/* Opens a device.
 *
 * Errors: E_UNKNOWN (technique), E_INVALID (a link rate that is not valid), E_UNSUPPORTED (the
 * library is not installed, lacks a function or is too old; no such device; a rate for a device
 * with a real link), E_IO (the device fails; no file can be created in that folder), E_NO_MEMORY.
 *
 * cuda loads the CUDA runtime, and opencl the OpenCL loader, at the first call. TENURE_CUDART and
 * TENURE_OPENCL in the environment name another file to load. */
TN_API TN_CHECKED tn_status tn_device_create(const tn_device_options *options, tn_device **device,
                                             tn_error *error);
/* Closes a device and frees its memory. Destroy streams and fences first. NULL is fine. */
TN_API void tn_device_destroy(tn_device *device);
/* Memory and traffic so far, and the limits of a device. */
TN_API void tn_device_measure(tn_device *device, tn_device_usage *usage);
TN_API tn_device_limits tn_device_limits_of(const tn_device *device);

/* Allocates a zeroed block. On the host device the block has its own pages with an unreadable page
 * on either side; it ends at the upper one, except for its alignment of 64.
 *
 * size  bytes; 0 is allowed and allocates nothing
 * Errors: E_EXHAUSTED (above the capacity; the message says how much is left), E_IO (file: the disk
 * is full), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_device_alloc(tn_device *device, uint64_t size, tn_address *address,
                                            tn_error *error);
/* Frees a block; 0 is fine. No queued work may use the block. */
TN_API void tn_device_free(tn_device *device, tn_address address);
/* For kernels only: the pointer to the bytes in the address space of the kernels. NULL: outside any
 * block, or kernels are not host functions. */
TN_API void *tn_device_pointer(const tn_device *device, tn_address address);

enum {                             /* tn_stream_create flags */
       TN_STREAM_INLINE = 1u << 0, /* in the calling thread, done when the call returns */
};
/* Creates a stream. Errors: E_INVALID (flags), E_NO_MEMORY, and those of the device. */
TN_API TN_CHECKED tn_status tn_stream_create(tn_device *device, uint32_t flags, tn_stream **stream,
                                             tn_error *error);
TN_API void tn_stream_destroy(tn_stream *stream); /* waits for queued work */
/* Waits for all queued work. Errors: the first error of a copy or launch since the last wait, E_IO
 * for a device that failed. Work that was queued after the error was skipped; fences have passed.
 * (INLINE: the call that queues returns its own error, and none is kept.) */
TN_API TN_CHECKED tn_status tn_stream_wait(tn_stream *stream, tn_error *error);
/* Reserves room for `count` queued items (copies, launches, waits for fences). Queuing up to that
 * many allocates nothing. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_stream_reserve(tn_stream *stream, uint32_t count, tn_error *error);

/* Copies from host to device, from device to host, and within the device (the ranges must not
 * overlap). Errors: E_INVALID (outside any block of the device), E_NO_MEMORY (queue). */
TN_API TN_CHECKED tn_status tn_device_put(tn_stream *stream, tn_address to, const void *from,
                                          uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_device_get(tn_stream *stream, void *to, tn_address from,
                                          uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_device_copy(tn_stream *stream, tn_address to, tn_address from,
                                           uint64_t size, tn_error *error);
/* Runs a function on the stream, such as a kernel on the host device. */
TN_API TN_CHECKED tn_status tn_device_launch(tn_stream *stream,
                                             tn_status (*work)(void *self, tn_error *error),
                                             void *self, tn_error *error);

/* Creates a fence, which counts as passed until it is recorded. */
TN_API TN_CHECKED tn_status tn_fence_create(tn_device *device, tn_fence **fence, tn_error *error);
TN_API void tn_fence_destroy(tn_fence *fence);
/* tn_fence_record queues a fence: it passes when the stream has finished all work queued before.
 * Recording it again moves it. tn_fence_wait queues a wait: no later work of this stream begins
 * before the fence has passed, as it was recorded when tn_fence_wait was called. A fence that was
 * never recorded counts as passed.
 * Threads: one thread at a time uses a fence. */
TN_API TN_CHECKED tn_status tn_fence_record(tn_fence *fence, tn_stream *stream, tn_error *error);
TN_API TN_CHECKED tn_status tn_fence_wait(tn_fence *fence, tn_stream *stream, tn_error *error);
/* Whether the fence has passed; does not wait. */
TN_API bool tn_fence_passed(const tn_fence *fence);

/* measured rates of copies from and to host memory, bytes per second */
typedef struct tn_device_link {
    double put_bytes_per_s, get_bytes_per_s; /* each way alone */
    double both_bytes_per_s;                 /* both ways at once, the sum */
} tn_device_link;
/* Measures the link with copies of `bytes` of ordinary host memory: the best of a few rounds.
 *
 * context  for host memory; NULL: the default
 * Errors: E_INVALID (0 bytes), those of tn_device_alloc (2 x bytes are allocated and freed) and of
 * copies, E_NO_MEMORY. Cost: 16 copies. */
TN_API TN_CHECKED tn_status tn_device_measure_link(tn_device *device, uint64_t bytes,
                                                   const tn_context *context, tn_device_link *link,
                                                   tn_error *error);

/* The registry of devices (`tenure list devices`). */
TN_API uint32_t tn_device_count(void);
TN_API const char *tn_device_name(uint32_t index);
TN_API const char *tn_device_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
