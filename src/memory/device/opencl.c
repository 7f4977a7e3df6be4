/* opencl.c - loads OpenCL at run time, and finds the devices of all its platforms.
 *
 * Source: OpenCL 1.2, chapter 4. */
#include "memory/device/opencl.h"

#include <stdio.h>

#include "memory/device/library.h"

enum { OPENCL_PLATFORMS = 32, OPENCL_DEVICES = 64 }; /* that are examined */

enum { /* constants of the standard's header */
       OPENCL_NO_BUFFER_MEMORY = -4,
       OPENCL_NO_RESOURCES = -5,
       OPENCL_NO_HOST_MEMORY = -6,
       OPENCL_WRONG_SIZE = -61,
       OPENCL_MAX_BLOCK = 0x1010, /* of clGetDeviceInfo */
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
    if (status != 0) platform_count = 0; /* without a driver the loader returns -1001 */
    for (unsigned p = 0; p < platform_count && p < OPENCL_PLATFORMS; p++) {
        unsigned count = 0;
        status = cl->clGetDeviceIDs(platforms[p], OPENCL_ANY_TYPE, OPENCL_DEVICES, devices, &count);
        if (status != 0) continue; /* a platform without devices returns -1 */
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
