/* cuda.c - loads the CUDA runtime at run time.
 *
 * Source: CUDA Runtime API, error handling and device management; only functions without a version
 * in their names, which are the same from 11 to 13; CUDA Driver API, virtual memory management. */
#include "memory/device/cuda.h"

#include "memory/device/library.h"

#define CUDA_OLDEST 11000 /* as cudaRuntimeGetVersion counts: 1000 * major + 10 * minor */

static const char *const cuda_files[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                         "libcudart.so", NULL};

static const tn__library_symbol cuda_symbols[] = {
#define TN_SYMBOL(result, name, arguments) {#name, offsetof(tn__cuda, name)},
#include "memory/device/cuda_symbols.def"
#undef TN_SYMBOL
};

static const tn__library cuda_library = {
    .what = "the CUDA runtime",
    .variable = "TENURE_CUDART",
    .files = cuda_files,
    .remedy = "install NVIDIA's driver and the runtime of CUDA 11, 12 or 13",
    .symbols = cuda_symbols,
    .symbol_count = sizeof cuda_symbols / sizeof *cuda_symbols,
};

static const char *const cuda_driver_files[] = {"libcuda.so.1", NULL};

static const tn__library_symbol cuda_pages_symbols[] = {
#define TN_SYMBOL(result, name, arguments) {#name, offsetof(tn__cuda_pages, name)},
#include "memory/device/cuda_pages.def"
#undef TN_SYMBOL
};

static const tn__library cuda_driver = {
    .what = "the CUDA driver",
    .variable = "TENURE_CUDA",
    .files = cuda_driver_files,
    .remedy = "install NVIDIA's driver",
    .symbols = cuda_pages_symbols,
    .symbol_count = sizeof cuda_pages_symbols / sizeof *cuda_pages_symbols,
};

tn_status tn__cuda_load_pages(tn__cuda_pages *pages, tn_error *error) {
    return tn__library_load(&cuda_driver, pages, error);
}

tn_status tn__cuda_status(const tn__cuda *cuda, int status, const char *what, tn_error *error) {
    if (status == TN__CUDA_OK) return TN_OK;
    (void)cuda->cudaGetLastError();
    const char *name = cuda->cudaGetErrorName(status), *text = cuda->cudaGetErrorString(status);
    TN_FAIL(error, status == TN__CUDA_NO_MEMORY ? TN_E_NO_MEMORY : TN_E_IO,
            "the CUDA device failed: %s: %.100s, %.150s", what, name, text);
}

tn_status tn__cuda_check_device(const tn__cuda *cuda, int device, tn_error *error) {
    int count = 0, status = cuda->cudaGetDeviceCount(&count);
    if (status != TN__CUDA_OK) {
        (void)cuda->cudaGetLastError();
        TN_FAIL(error, TN_E_UNSUPPORTED, "there is no CUDA device: %.150s",
                cuda->cudaGetErrorString(status));
    }
    if (device < 0 || device >= count)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "there is no CUDA device %d; they are counted from 0 to %d", device, count - 1);
    return TN_OK;
}

tn_status tn__cuda_load(tn__cuda *cuda, tn_error *error) {
    int version = 0;
    TN_TRY(tn__library_load(&cuda_library, cuda, error));
    int status = cuda->cudaRuntimeGetVersion(&version);
    if (status != TN__CUDA_OK || version < CUDA_OLDEST)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the CUDA runtime is version %d.%d; 11.0 or later is needed", version / 1000,
                version % 1000 / 10);
    return TN_OK;
}

int tn__cuda_enter(const tn__cuda *cuda, int device, int *before) {
    *before = device;
    int status = cuda->cudaGetDevice(before);
    if (status != TN__CUDA_OK) *before = device; /* nothing was changed, so nothing is restored */
    if (status == TN__CUDA_OK && *before != device) status = cuda->cudaSetDevice(device);
    if (status != TN__CUDA_OK) (void)cuda->cudaGetLastError();
    return status;
}

void tn__cuda_leave(const tn__cuda *cuda, int device, int before) {
    if (before != device) (void)cuda->cudaSetDevice(before);
}
