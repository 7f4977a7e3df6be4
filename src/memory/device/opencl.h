/* opencl.h - OpenCL as a table of functions, and its devices by number.
 *
 * The environment variable TENURE_OPENCL names a file to load instead of the usual loader.
 */
#ifndef TN_DEVICE_OPENCL_H
#define TN_DEVICE_OPENCL_H

#include "base/base.h"

/* a parameter of clGetEventInfo, which returns 0 for done and negative numbers for failed */
enum { TN__OPENCL_EVENT_STATUS = 0x11d3 };

typedef struct tn__opencl {
#define TN_SYMBOL(result, name, arguments) result(*name) arguments;
#include "memory/device/opencl_symbols.def"
#undef TN_SYMBOL
} tn__opencl;

/* Loads OpenCL. Errors: E_UNSUPPORTED (as tn__library_load). */
tn_status tn__opencl_load(tn__opencl *cl, tn_error *error);
/* Finds the device with that number, counted over all platforms. Errors: E_UNSUPPORTED. */
tn_status tn__opencl_choose(const tn__opencl *cl, uint32_t index, void **device, tn_error *error);
/* Reads the memory size of a device, and the size of its largest block. Errors: E_UNSUPPORTED (not
 * available now, or older than OpenCL 1.2), E_IO. */
tn_status tn__opencl_ask(const tn__opencl *cl, void *device, uint64_t *capacity,
                         uint64_t *block_max, tn_error *error);
/* Converts the status of a call into OK, E_NO_MEMORY or E_IO. `what` names the call. */
tn_status tn__opencl_status(int status, const char *what, tn_error *error);

#endif
