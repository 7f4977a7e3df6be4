/* device.h - memory of its own, streams that work on it, and copies across.
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
 * A device address is a number, not a pointer: bytes cross only by put and get, and only kernels
 * that were launched on the device may look at them.
 *
 * A stream does its work in order; different streams run side by side, and fences order them.
 * Everything queued on a stream returns at once; host memory that is named must stay until the
 * stream has passed it (tn_stream_wait). A stream with TN_STREAM_INLINE does each thing before the
 * call returns, in the calling thread.
 *
 * Units: bytes, seconds.
 * Threads: a device may be used by several threads at once, a stream by one.
 */
#ifndef TENURE_DEVICE_H
#define TENURE_DEVICE_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_device tn_device;
typedef struct tn_stream tn_stream;
typedef struct tn_fence tn_fence; /* a point in a stream that others can wait for */
typedef uint64_t tn_address;      /* in a device's memory; 0: none */

typedef struct tn_device_options {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the device */
    const char *device;        /* technique; NULL = "host". "cuda:1": the second of several;
                                * "file:/var/tmp": a file without a name in that folder */
    uint64_t capacity;         /* bytes in all, a hard bound; 0: what the machine has */
    double link_bytes_per_s;   /* of put and get, each way; 0: as fast as it goes */
} tn_device_options;
#define TN_DEVICE_OPTIONS_INIT                                                                     \
    TN_INIT(tn_device_options, TN_SET(struct_size, sizeof(tn_device_options)))

typedef struct tn_device_limits {
    const char *name;        /* "host"; static */
    uint64_t capacity;       /* bytes; TN_SIZE_UNKNOWN: no bound of its own */
    uint64_t alignment;      /* of every allocation: at least this */
    double link_bytes_per_s; /* 0: not limited */
    bool host_kernels;       /* kernels are host functions: tn_device_pointer works */
} tn_device_limits;

typedef struct tn_device_usage {
    uint64_t allocated, allocated_peak; /* bytes as asked for: now, and the most so far */
    uint64_t alloc_count, free_count, failed_count;
    uint64_t put_bytes, get_bytes; /* that were queued to cross, so far */
} tn_device_usage;

/* Errors: E_UNKNOWN (technique), E_INVALID (a link that is no speed), E_UNSUPPORTED (its library is
 * not installed, lacks a function or is too old; there is no such device; a speed is asked of a
 * link of its own), E_IO (the device fails; no file can be made in that folder), E_NO_MEMORY.
 *
 * cuda loads the CUDA runtime, opencl OpenCL's loader, at the first call; TENURE_CUDART and
 * TENURE_OPENCL in the environment name a file to load instead. */
TN_API TN_CHECKED tn_status tn_device_create(const tn_device_options *options, tn_device **device,
                                             tn_error *error);
/* Streams and fences must be gone; memory that is still allocated goes with it. NULL is fine. */
TN_API void tn_device_destroy(tn_device *device);
TN_API void tn_device_measure(tn_device *device, tn_device_usage *usage);
TN_API tn_device_limits tn_device_limits_of(const tn_device *device);

/* A block of its own, zeroed. host: pages of their own with an unreadable page on either side; the
 * block ends at the upper one, up to its alignment of 64.
 *
 * size  bytes; 0 is allowed and takes none
 * Errors: E_EXHAUSTED (above the capacity: how much is left), E_IO (file: a full disk),
 * E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_device_alloc(tn_device *device, uint64_t size, tn_address *address,
                                            tn_error *error);
/* 0 is fine. Nothing that is still queued may use the block. */
TN_API void tn_device_free(tn_device *device, tn_address address);
/* For kernels alone: where the bytes are in the address space that they run in. NULL: outside any
 * block, or kernels are no functions of the host. */
TN_API void *tn_device_pointer(const tn_device *device, tn_address address);

enum {                             /* tn_stream_create flags */
       TN_STREAM_INLINE = 1u << 0, /* in the calling thread, done when the call returns */
};
TN_API TN_CHECKED tn_status tn_stream_create(tn_device *device, uint32_t flags, tn_stream **stream,
                                             tn_error *error);
TN_API void tn_stream_destroy(tn_stream *stream); /* waits for what it still has to do */
/* Until all that was queued is done. Errors: the first that a copy or launch met since the last
 * wait, E_IO of a device that failed; what was queued behind it was left out, but fences passed.
 * (INLINE: the call that queues tells its own error, nothing is kept.) */
TN_API TN_CHECKED tn_status tn_stream_wait(tn_stream *stream, tn_error *error);
/* Room for `count` things (copies, launches, waits for fences) that are queued and not done: as
 * long as there are no more, queuing takes no memory. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_stream_reserve(tn_stream *stream, uint32_t count, tn_error *error);

/* Copies: host to device, device to host, within the device (the ranges must not overlap).
 * Errors: E_INVALID (outside any block of the device), E_NO_MEMORY (queue). */
TN_API TN_CHECKED tn_status tn_device_put(tn_stream *stream, tn_address to, const void *from,
                                          uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_device_get(tn_stream *stream, void *to, tn_address from,
                                          uint64_t size, tn_error *error);
TN_API TN_CHECKED tn_status tn_device_copy(tn_stream *stream, tn_address to, tn_address from,
                                           uint64_t size, tn_error *error);
/* Runs a function on the stream: kernels on the host device. */
TN_API TN_CHECKED tn_status tn_device_launch(tn_stream *stream,
                                             tn_status (*work)(void *self, tn_error *error),
                                             void *self, tn_error *error);

TN_API TN_CHECKED tn_status tn_fence_create(tn_device *device, tn_fence **fence, tn_error *error);
TN_API void tn_fence_destroy(tn_fence *fence);
/* The fence is passed when the stream has done all that was queued before; recording it again
 * moves it. `wait` queues: nothing after it on this stream begins before the fence is passed, where
 * it was last recorded when `wait` was called. A fence that was never recorded counts as passed.
 * Threads: a fence is used by one at a time. */
TN_API TN_CHECKED tn_status tn_fence_record(tn_fence *fence, tn_stream *stream, tn_error *error);
TN_API TN_CHECKED tn_status tn_fence_wait(tn_fence *fence, tn_stream *stream, tn_error *error);
/* Whether it is passed by now; does not wait. */
TN_API bool tn_fence_passed(const tn_fence *fence);

typedef struct tn_device_link { /* bytes per second that copies of host memory reached */
    double put_bytes_per_s, get_bytes_per_s; /* each way alone */
    double both_bytes_per_s;                 /* both at once, the sum */
} tn_device_link;
/* How fast the link is, by copies of `bytes` of ordinary host memory: the best of a few rounds.
 *
 * context  for the host's side; NULL: the default
 * Errors: E_INVALID (0 bytes), those of tn_device_alloc (2 x bytes are taken, and given back) and
 * of copies, E_NO_MEMORY. Cost: 16 copies. */
TN_API TN_CHECKED tn_status tn_device_measure_link(tn_device *device, uint64_t bytes,
                                                   const tn_context *context, tn_device_link *link,
                                                   tn_error *error);

/* The registry, for `tenure list devices`. */
TN_API uint32_t tn_device_count(void);
TN_API const char *tn_device_name(uint32_t index);
TN_API const char *tn_device_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
