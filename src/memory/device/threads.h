/* threads.h - streams, fences and a link of a given speed, for drivers of devices that the
 * processor simulates.
 *
 * The state of such a driver begins with a tn__threads, and the functions below are entries of its
 * driver table. The driver provides functions that move bytes into its memory, out of it, and
 * within it.
 */
#ifndef TN_DEVICE_THREADS_H
#define TN_DEVICE_THREADS_H

#include <pthread.h>

#include "memory/device/driver.h"

/* Functions that move bytes; called in any thread, several at once. Addresses are those of the
 * driver. */
typedef struct tn__threads_ways {
    tn_status (*put)(void *device, tn_address to, const void *from, uint64_t size, tn_error *error);
    tn_status (*get)(void *device, void *to, tn_address from, uint64_t size, tn_error *error);
    tn_status (*copy)(void *device, tn_address to, tn_address from, uint64_t size, tn_error *error);
} tn__threads_ways;

typedef struct tn__threads_link { /* one direction of the link */
    pthread_mutex_t lock;
    /* time until which this direction of the link is occupied, in ns on the monotonic clock */
    uint64_t free_at;
} tn__threads_link;

typedef struct tn__threads {
    tn_context context;
    const tn__threads_ways *ways;
    double bytes_per_s;          /* speed of each direction; 0: no limit */
    tn__threads_link links[2];   /* index 0: host to device, 1: device to host */
    pthread_mutex_t lock;        /* protects the lists of lanes, and all fences */
    struct threads_lane *lanes;  /* list of all lanes that were created */
    struct threads_lane *vacant; /* list of lanes that no stream uses */
} tn__threads;

/* Initialises the zeroed `device`. Errors: E_NO_MEMORY; then tn__threads_close need not be
 * called. */
tn_status tn__threads_open(tn__threads *device, const tn_context *context,
                           const tn__threads_ways *ways, double bytes_per_s, tn_error *error);
/* closes the device; all its streams must be destroyed before */
void tn__threads_close(tn__threads *device);

tn_status tn__threads_stream_create(void *device, uint32_t flags, void **stream, tn_error *error);
void tn__threads_stream_destroy(void *stream);
tn_status tn__threads_stream_wait(void *stream, tn_error *error);
tn_status tn__threads_stream_reserve(void *stream, uint32_t count, tn_error *error);
tn_status tn__threads_put(void *stream, tn_address to, const void *from, uint64_t size,
                          tn_error *error);
tn_status tn__threads_get(void *stream, void *to, tn_address from, uint64_t size, tn_error *error);
tn_status tn__threads_copy(void *stream, tn_address to, tn_address from, uint64_t size,
                           tn_error *error);
tn_status tn__threads_launch(void *stream, tn_status (*work)(void *self, tn_error *error),
                             void *self, tn_error *error);
tn_status tn__threads_fence_create(void *device, void **fence, tn_error *error);
void tn__threads_fence_destroy(void *fence);
tn_status tn__threads_fence_record(void *fence, void *stream, tn_error *error);
tn_status tn__threads_fence_wait(void *fence, void *stream, tn_error *error);
bool tn__threads_fence_passed(const void *fence);

/* The entries of a driver's table, except `launch`, which needs memory that kernels can access. */
#define TN__THREADS_DRIVER                                                                         \
    .stream_create = tn__threads_stream_create, .stream_destroy = tn__threads_stream_destroy,      \
    .stream_wait = tn__threads_stream_wait, .stream_reserve = tn__threads_stream_reserve,          \
    .put = tn__threads_put, .get = tn__threads_get, .copy = tn__threads_copy,                      \
    .fence_create = tn__threads_fence_create, .fence_destroy = tn__threads_fence_destroy,          \
    .fence_record = tn__threads_fence_record, .fence_wait = tn__threads_fence_wait,                \
    .fence_passed = tn__threads_fence_passed

#endif
