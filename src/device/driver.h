/* driver.h - what a device is: one table of functions.
 *
 * A device is one file in drivers/ that fills in one tn__driver, plus one line in drivers.def.
 * Where the processor serves it, threads.h has its streams and fences. device.c stands around it:
 * it completes options, checks arguments and ranges, holds the bound on bytes, counts, and knows
 * every block. So a driver is only called with sizes above 0 and ranges that lie in a block of its
 * own; it moves bytes and keeps order.
 *
 * The state of a device, stream or fence is the driver's: an opaque pointer that it allocates with
 * the context it was opened with. A library that a driver needs is loaded in `open` (library.h);
 * where it is missing, that is E_UNSUPPORTED with what to install. A device that fails is E_IO.
 *
 * Threads: alloc and free are called under the lock of the device, everything else by any number
 * of threads at once, but for one stream or fence by one at a time.
 */
#ifndef TN_DEVICE_DRIVER_H
#define TN_DEVICE_DRIVER_H

#include <tenure/device.h>

#include "base/base.h"

typedef struct tn__driver {
    const char *name;    /* what people type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    bool takes_text; /* what stands behind the colon of its name is its own to read, no number */

    /* options   complete; link_bytes_per_s is a number from 0, finite
     * index     which of several, from 0: what stands behind the name, as in cuda:1
     * limits    out: `name` may be left NULL. capacity: what the device has, not what was asked */
    tn_status (*open)(const tn_context *context, const tn_device_options *options, uint32_t index,
                      void **device, tn_device_limits *limits, tn_error *error);
    void (*close)(void *device);

    /* A zeroed block, aligned as `limits` say; address not 0. */
    tn_status (*alloc)(void *device, uint64_t size, tn_address *address, tn_error *error);
    void (*free)(void *device, tn_address address, uint64_t size);
    /* NULL: kernels are not functions of the host. */
    void *(*pointer)(const void *device, tn_address address);

    /* A stream does things in the order of the calls. What it cannot tell in the call, because it
     * happens later, it keeps until stream_wait: the first failure, once. After a failure it does
     * nothing more until then, but fences pass. */
    tn_status (*stream_create)(void *device, uint32_t flags, void **stream, tn_error *error);
    void (*stream_destroy)(void *stream); /* waits */
    tn_status (*stream_wait)(void *stream, tn_error *error);
    /* NULL: queuing never takes memory. */
    tn_status (*stream_reserve)(void *stream, uint32_t count, tn_error *error);
    tn_status (*put)(void *stream, tn_address to, const void *from, uint64_t size, tn_error *error);
    tn_status (*get)(void *stream, void *to, tn_address from, uint64_t size, tn_error *error);
    tn_status (*copy)(void *stream, tn_address to, tn_address from, uint64_t size, tn_error *error);
    /* NULL: kernels are not functions of the host. */
    tn_status (*launch)(void *stream, tn_status (*work)(void *self, tn_error *error), void *self,
                        tn_error *error);

    /* A fence remembers a point of a stream. A wait is for the point that it has when it is called,
     * wherever the fence is moved later and even when that stream is gone. */
    tn_status (*fence_create)(void *device, void **fence, tn_error *error);
    void (*fence_destroy)(void *fence);
    tn_status (*fence_record)(void *fence, void *stream, tn_error *error);
    tn_status (*fence_wait)(void *fence, void *stream, tn_error *error);
    bool (*fence_passed)(const void *fence);
} tn__driver;

/* Whether there is such a device at all; it is not opened. Errors: E_UNKNOWN, with a near name. */
tn_status tn__device_known(const char *name, tn_error *error);

#endif
