/* driver.h - the interface of a device driver: one table of functions.
 *
 * A device is one file in drivers/ that fills in one tn__driver, plus one line in drivers.def. If
 * the processor does its work, threads.h provides streams and fences. device.c calls the drivers:
 * it completes options, checks arguments and ranges, enforces the limit on bytes, counts, and
 * tracks every block. So a driver is only called with sizes above 0 and with ranges inside one of
 * its blocks; it moves bytes and keeps the order.
 *
 * The state of a device, stream or fence belongs to the driver: an opaque pointer that it allocates
 * with the context with which it was opened. `open` loads the library that a driver needs
 * (library.h); if the library is missing, the error is E_UNSUPPORTED and says what to install. The
 * failure of a device is E_IO.
 *
 * Threads: alloc and free are called under the lock of the device. All other functions may be
 * called by any number of threads at once, but for each stream or fence by one thread at a time.
 */
#ifndef TN_DEVICE_DRIVER_H
#define TN_DEVICE_DRIVER_H

#include <tenure/engine.h>

#include "base/base.h"

typedef struct tn__driver {
    const char *name;    /* the name that users type, matching [a-z0-9-]+ */
    const char *summary; /* description of the device in one line for --help, without a full stop */
    /* true: the text after the colon of a device name need not be a number, and the driver parses
     * it */
    bool takes_text;

    /* Opens a device.
     *
     * options   complete; link_bytes_per_s is finite and not negative
     * index     number of the device, from 0: 1 for cuda:1
     * limits    set by the driver: `name` may be left NULL; capacity is that of the device, not the
     *           requested limit
     */
    tn_status (*open)(const tn_context *context, const tn_device_options *options, uint32_t index,
                      void **device, tn_device_limits *limits, tn_error *error);
    void (*close)(void *device);

    /* Allocates a zeroed block, aligned as `limits` say; its address is not 0. */
    tn_status (*alloc)(void *device, uint64_t size, tn_address *address, tn_error *error);
    void (*free)(void *device, tn_address address, uint64_t size);
    /* Returns the host pointer of an address. The entry is NULL if kernels cannot be functions of
     * the host. */
    void *(*pointer)(const void *device, tn_address address);

    /* Creates a stream, which executes its operations in the order of the calls. A failure that
     * happens after the call is kept until stream_wait, which reports the first one, once. After a
     * failure the stream skips operations until stream_wait, but fences pass. */
    tn_status (*stream_create)(void *device, uint32_t flags, void **stream, tn_error *error);
    void (*stream_destroy)(void *stream); /* waits */
    tn_status (*stream_wait)(void *stream, tn_error *error);
    /* Reserves memory for `count` operations. The entry is NULL if queuing never allocates
     * memory. */
    tn_status (*stream_reserve)(void *stream, uint32_t count, tn_error *error);
    tn_status (*put)(void *stream, tn_address to, const void *from, uint64_t size, tn_error *error);
    tn_status (*get)(void *stream, void *to, tn_address from, uint64_t size, tn_error *error);
    tn_status (*copy)(void *stream, tn_address to, tn_address from, uint64_t size, tn_error *error);
    /* Queues a function of the host. The entry is NULL if kernels cannot be functions of the
     * host. */
    tn_status (*launch)(void *stream, tn_status (*work)(void *self, tn_error *error), void *self,
                        tn_error *error);

    /* Creates a fence, which marks a point of a stream. A wait is for the point that the fence
     * marks when the wait is called, even if the fence is moved later or that stream is
     * destroyed. */
    tn_status (*fence_create)(void *device, void **fence, tn_error *error);
    void (*fence_destroy)(void *fence);
    tn_status (*fence_record)(void *fence, void *stream, tn_error *error);
    tn_status (*fence_wait)(void *fence, void *stream, tn_error *error);
    bool (*fence_passed)(const void *fence);
} tn__driver;

/* Checks whether a device of that name can exist, without opening it. Errors: E_UNKNOWN, with a
 * similar name in the message. */
tn_status tn__device_known(const char *name, tn_error *error);

#endif
