/* opencl.h - OpenCL as a table of functions, and its devices by number.
 *
 * TENURE_OPENCL names a file to load instead of the usual loader.
 */
#ifndef TN_DEVICE_OPENCL_H
#define TN_DEVICE_OPENCL_H

#include "base/base.h"

enum { TN__OPENCL_EVENT_STATUS = 0x11d3 }; /* for clGetEventInfo; 0: done, negative: failed */

typedef struct tn__opencl {
#define TN_SYMBOL(result, name, arguments) result(*name) arguments;
#include "memory/device/opencl_symbols.def"
#undef TN_SYMBOL
} tn__opencl;

/* Errors: E_UNSUPPORTED (tn__library_load). */
tn_status tn__opencl_load(tn__opencl *cl, tn_error *error);
/* The device with that number, counted over all platforms. Errors: E_UNSUPPORTED. */
tn_status tn__opencl_choose(const tn__opencl *cl, uint32_t index, void **device, tn_error *error);
/* The bytes of a device, and of its largest block. Errors: E_UNSUPPORTED (not available now, older
 * than OpenCL 1.2), E_IO. */
tn_status tn__opencl_ask(const tn__opencl *cl, void *device, uint64_t *capacity,
                         uint64_t *block_max, tn_error *error);
/* The meaning of a call's status: OK, E_NO_MEMORY, E_IO. `what` names the call. */
tn_status tn__opencl_status(int status, const char *what, tn_error *error);

#endif
