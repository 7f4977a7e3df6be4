/* library.c - loads the libraries of GPUs at run time, with errors that say what to do: CUDA's
 * runtime and driver, and OpenCL, with its devices on all platforms.
 *
 * Source: CUDA Runtime API, error handling and device management; only functions without a version
 * in their names, which are the same from 11 to 13. CUDA Driver API, virtual memory management.
 * OpenCL 1.2, chapter 4.
 */
#include "memory/device/library.h"
#include "memory/device/cuda.h"
#include "memory/device/opencl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *library_try(const tn__library *wanted, int flags) {
    void *handle = NULL;
    for (const char *const *file = wanted->files; *file != NULL && handle == NULL; file++)
        handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flags);
    return handle;
}

static tn_status library_open(const tn__library *wanted, void **handle, const char **file,
                              tn_error *error) {
    *file = getenv(wanted->variable);
    if (*file != NULL && (*file)[0] != '\0') {
        *handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (*handle != NULL) return TN_OK;
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s of %s cannot be loaded: %.200s", wanted->what,
                wanted->variable, dlerror());
    }
    *file = wanted->files[0];
    *handle = library_try(wanted, RTLD_NOLOAD);
    if (*handle == NULL) *handle = library_try(wanted, 0);
    if (*handle != NULL) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s (%s) cannot be loaded; %s, or name its file in %s",
            wanted->what, *file, wanted->remedy, wanted->variable);
}

tn_status tn__library_load(const tn__library *wanted, void *table, tn_error *error) {
    void *handle;
    const char *file;
    TN_TRY(library_open(wanted, &handle, &file, error));
    for (size_t i = 0; i < wanted->symbol_count; i++) {
        const tn__library_symbol *symbol = &wanted->symbols[i];
        void *found = dlsym(handle, symbol->name);
        if (found == NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED, "%s (%.150s) has no %s; %s", wanted->what, file,
                    symbol->name, wanted->remedy);
        memcpy((char *)table + symbol->offset, &found, sizeof found);
    }
    return TN_OK;
}

/* --- CUDA --- */

/* version as counted by cudaRuntimeGetVersion: 1000 * major + 10 * minor */
#define CUDA_OLDEST 11000

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
    /* if the call failed, the device was not changed, so the current one is the previous one */
    if (status != TN__CUDA_OK) *before = device;
    if (status == TN__CUDA_OK && *before != device) status = cuda->cudaSetDevice(device);
    if (status != TN__CUDA_OK) (void)cuda->cudaGetLastError();
    return status;
}

void tn__cuda_leave(const tn__cuda *cuda, int device, int before) {
    if (before != device) (void)cuda->cudaSetDevice(before);
}

/* --- OpenCL --- */

/* limits of the platforms and devices that are examined */
enum { OPENCL_PLATFORMS = 32, OPENCL_DEVICES = 64 };

enum { /* constants of the OpenCL standard's header */
       OPENCL_NO_BUFFER_MEMORY = -4,
       OPENCL_NO_RESOURCES = -5,
       OPENCL_NO_HOST_MEMORY = -6,
       OPENCL_WRONG_SIZE = -61,
       OPENCL_MAX_BLOCK = 0x1010, /* a parameter of clGetDeviceInfo */
       OPENCL_MEMORY = 0x101f,
       OPENCL_AVAILABLE = 0x1027,
       OPENCL_VERSION = 0x102f,
};
#define OPENCL_ANY_TYPE UINT32_MAX

static const char *const opencl_files[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};

static const tn__library_symbol opencl_symbols[] = {
#define TN_SYMBOL(result, name, arguments) {#name, offsetof(tn__opencl, name)},
#include "memory/device/opencl_symbols.def"
#undef TN_SYMBOL
};

static const tn__library opencl_library = {
    .what = "OpenCL's loader",
    .variable = "TENURE_OPENCL",
    .files = opencl_files,
    .remedy = "install Debian's ocl-icd-libopencl1 and a driver, as pocl-opencl-icd",
    .symbols = opencl_symbols,
    .symbol_count = sizeof opencl_symbols / sizeof *opencl_symbols,
};

tn_status tn__opencl_load(tn__opencl *cl, tn_error *error) {
    return tn__library_load(&opencl_library, cl, error);
}

tn_status tn__opencl_status(int status, const char *what, tn_error *error) {
    if (status == 0) return TN_OK;
    bool full = status == OPENCL_NO_BUFFER_MEMORY || status == OPENCL_NO_RESOURCES ||
                status == OPENCL_NO_HOST_MEMORY || status == OPENCL_WRONG_SIZE;
    TN_FAIL(error, full ? TN_E_NO_MEMORY : TN_E_IO, "the OpenCL device failed: %s: status %d%s",
            what, status, full ? ", out of memory" : "");
}

tn_status tn__opencl_choose(const tn__opencl *cl, uint32_t index, void **device, tn_error *error) {
    void *platforms[OPENCL_PLATFORMS], *devices[OPENCL_DEVICES];
    unsigned platform_count = 0, seen = 0;
    int status = cl->clGetPlatformIDs(OPENCL_PLATFORMS, platforms, &platform_count);
    if (status != 0) platform_count = 0; /* the loader returns -1001 if there is no driver */
    for (unsigned p = 0; p < platform_count && p < OPENCL_PLATFORMS; p++) {
        unsigned count = 0;
        status = cl->clGetDeviceIDs(platforms[p], OPENCL_ANY_TYPE, OPENCL_DEVICES, devices, &count);
        if (status != 0) continue; /* the loader returns -1 for a platform without devices */
        if (count > OPENCL_DEVICES) count = OPENCL_DEVICES;
        if (index - seen < count) {
            *device = devices[index - seen];
            return TN_OK;
        }
        seen += count;
    }
    if (seen > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "there is no OpenCL device %u; they are counted from 0 to %u", index, seen - 1);
    TN_FAIL(error, TN_E_UNSUPPORTED, "there is no OpenCL device; %s", opencl_library.remedy);
}

tn_status tn__opencl_ask(const tn__opencl *cl, void *device, uint64_t *capacity,
                         uint64_t *block_max, tn_error *error) {
    char version[128] = "";
    unsigned available = 0, major = 0, minor = 0;
    int status = cl->clGetDeviceInfo(device, OPENCL_MEMORY, sizeof *capacity, capacity, NULL);
    if (status == 0)
        status = cl->clGetDeviceInfo(device, OPENCL_MAX_BLOCK, sizeof *block_max, block_max, NULL);
    if (status == 0)
        status = cl->clGetDeviceInfo(device, OPENCL_AVAILABLE, sizeof available, &available, NULL);
    if (status == 0)
        status = cl->clGetDeviceInfo(device, OPENCL_VERSION, sizeof version - 1, version, NULL);
    TN_TRY(tn__opencl_status(status, "asking what it has", error));
    if (!available) TN_FAIL(error, TN_E_UNSUPPORTED, "the OpenCL device is not available");
    bool read = sscanf(version, "OpenCL %u.%u", &major, &minor) == 2;
    if (!read || major < 1 || (major == 1 && minor < 2))
        TN_FAIL(error, TN_E_UNSUPPORTED, "the device is of '%.60s'; OpenCL 1.2 or later is needed",
                version);
    return TN_OK;
}
