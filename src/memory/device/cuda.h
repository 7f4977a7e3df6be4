/* cuda.h - the CUDA runtime as a table of functions; building needs no header of NVIDIA's.
 *
 * The runtime is used instead of the driver wherever possible: frameworks have already loaded it,
 * so streams, events and addresses are valid for both sides. The environment variable TENURE_CUDART
 * names a file to load instead of the usual ones.
 */
#ifndef TN_DEVICE_CUDA_H
#define TN_DEVICE_CUDA_H

#include "base/base.h"

enum {
    TN__CUDA_OK = 0,
    TN__CUDA_NO_MEMORY = 2,
    TN__CUDA_NOT_READY = 600,
    TN__CUDA_TO_DEVICE = 1, /* kinds of copies (cudaMemcpyKind) */
    TN__CUDA_TO_HOST = 2,
    TN__CUDA_ON_DEVICE = 3,
    TN__CUDA_STREAM_ALONE = 1, /* a stream that does not wait for the default stream */
    TN__CUDA_EVENT_UNTIMED = 2,
    TN__CUDA_ALIGNMENT = 256, /* alignment of addresses that cudaMalloc returns */
};

typedef struct tn__cuda {
#define TN_SYMBOL(result, name, arguments) result(*name) arguments;
#include "memory/device/cuda_symbols.def"
#undef TN_SYMBOL
} tn__cuda;

/* --- virtual memory management: functions of the CUDA driver, which the runtime has loaded --- */

enum {
    TN__CUDA_HAS_PAGES = 102, /* device attribute: virtual memory management is supported */
    /* device attribute: memory that a network card may read is supported */
    TN__CUDA_HAS_RDMA = 110,
    TN__CUDA_PINNED = 1, /* type of an allocation: memory that does not migrate */
    TN__CUDA_AT_DEVICE = 1,
    TN__CUDA_READ_WRITE = 3,
};

typedef struct tn__cuda_place { /* CUmemAllocationProp */
    int type, handles; /* type: TN__CUDA_PINNED; handles: 0 if not shared with other processes */
    int where, device; /* where: TN__CUDA_AT_DEVICE; device: number of the device */
    void *none;
    uint8_t compression, is_rdma, usage[2], reserved[4];
} tn__cuda_place;

typedef struct tn__cuda_access { /* CUmemAccessDesc */
    int where, device, flags;
} tn__cuda_access;

typedef struct tn__cuda_pages {
#define TN_SYMBOL(result, name, arguments) result(*name) arguments;
#include "memory/device/cuda_pages.def"
#undef TN_SYMBOL
} tn__cuda_pages;

/* Loads the functions for virtual memory management. TENURE_CUDA names a file to load instead of
 * libcuda.so.1. Errors: E_UNSUPPORTED. */
tn_status tn__cuda_load_pages(tn__cuda_pages *pages, tn_error *error);

/* Loads the CUDA runtime. Errors: E_UNSUPPORTED (as tn__library_load; the version of the runtime is
 * unknown or too old). */
tn_status tn__cuda_load(tn__cuda *cuda, tn_error *error);
/* Checks that `device` exists. Errors: E_UNSUPPORTED. */
tn_status tn__cuda_check_device(const tn__cuda *cuda, int device, tn_error *error);

/* Makes a device the current one of this thread; *before receives the previous one. Returns a
 * status of CUDA, and clears the error in the runtime. If the status is not OK, another device may
 * be current, and no call for this device is allowed. */
int tn__cuda_enter(const tn__cuda *cuda, int device, int *before);
/* Restores the previous device, after any result of tn__cuda_enter. A failure here stays in the
 * runtime, which reports it to the next caller that asks for it. */
void tn__cuda_leave(const tn__cuda *cuda, int device, int before);

/* Converts the status of a call into OK, E_NO_MEMORY, or E_IO for a device that failed. `what`
 * names the call. The error is cleared in the runtime, so that a later call does not report it
 * again. */
tn_status tn__cuda_status(const tn__cuda *cuda, int status, const char *what, tn_error *error);

#endif
