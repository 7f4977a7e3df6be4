/* host.c - the host as a device: memory with guard pages, threads as streams, a link of a given
 * speed.
 *
 * Each block is a mapping of its own between two inaccessible pages. It ends at the upper one,
 * except for bytes lost to alignment, so that a kernel that writes past the end of the arena faults
 * at once. Addresses are shifted by 2^54, a range that no processor maps for programs, so using a
 * device address as a pointer faults as well.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "memory/device/copy.h"
#include "memory/device/threads.h"

#define HOST_ALIGNMENT 64u
#define HOST_SHIFT ((tn_address)1 << 54)
#define HOST_HUGE ((size_t)4 << 20) /* blocks of at least this size use large pages */

typedef struct host_device {
    tn__threads threads;
    size_t page;
} host_device;

/* --- memory --- */

static void *host_pointer(const void *device, tn_address address) {
    (void)device;
    return (void *)(uintptr_t)(address - HOST_SHIFT);
}

/* Computes the bytes of a block in whole pages, without its guard pages; false if they overflow. */
static bool host_pages(const host_device *device, uint64_t size, uint64_t *pages) {
    uint64_t all;
    return tn__align_up(size, device->page, pages) && tn__add(*pages, 2 * device->page, &all) &&
           all <= SIZE_MAX;
}

static tn_status host_alloc(void *state, uint64_t size, tn_address *address, tn_error *error) {
    const host_device *device = state;
    uint64_t pages, rounded;
    char text[TN_SIZE_TEXT_MAX];
    char *mapping = MAP_FAILED;
    if (host_pages(device, size, &pages))
        mapping =
            mmap(NULL, pages + 2 * device->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        TN_FAIL(error, TN_E_NO_MEMORY, "the host has no room for a block of %s",
                tn_size_format(size, text));
    char *inside = mapping + device->page;
    if (mprotect(inside, pages, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, pages + 2 * device->page);
        TN_FAIL(error, TN_E_NO_MEMORY, "the host has no memory for a block of %s",
                tn_size_format(size, text));
    }
#ifdef MADV_HUGEPAGE
    /* large pages are only a request to the system, so a failure is harmless */
    if (pages >= HOST_HUGE) (void)madvise(inside, pages, MADV_HUGEPAGE);
#endif
    rounded = (size + HOST_ALIGNMENT - 1) & ~(uint64_t)(HOST_ALIGNMENT - 1);
    *address = (tn_address)(uintptr_t)(inside + (pages - rounded)) + HOST_SHIFT;
    return TN_OK;
}

static void host_free(void *state, tn_address address, uint64_t size) {
    const host_device *device = state;
    uint64_t pages;
    /* never true, because the size was checked when the block was allocated */
    if (!host_pages(device, size, &pages)) return;
    uintptr_t start = (uintptr_t)(address - HOST_SHIFT) & ~(uintptr_t)(device->page - 1);
    munmap((char *)start - device->page, pages + 2 * device->page);
}

/* --- copies --- */

static tn_status host_put(void *device, tn_address to, const void *from, uint64_t size,
                          tn_error *error) {
    (void)error;
    tn__copy_past_caches(host_pointer(device, to), from, size);
    return TN_OK;
}

static tn_status host_get(void *device, void *to, tn_address from, uint64_t size, tn_error *error) {
    (void)error;
    tn__copy_past_caches(to, host_pointer(device, from), size);
    return TN_OK;
}

static tn_status host_copy(void *device, tn_address to, tn_address from, uint64_t size,
                           tn_error *error) {
    (void)error;
    memcpy(host_pointer(device, to), host_pointer(device, from), size);
    return TN_OK;
}

/* --- opening --- */

static void host_close(void *state) {
    host_device *device = state;
    tn_context context = device->threads.context;
    tn__threads_close(&device->threads);
    tn__free(&context, device, sizeof *device);
}

static tn_status host_open(const tn_context *context, const tn_device_options *options,
                           uint32_t index, void **state, tn_device_limits *limits,
                           tn_error *error) {
    static const tn__threads_ways ways = {host_put, host_get, host_copy};
    if (index != 0) TN_FAIL(error, TN_E_UNSUPPORTED, "there is one host, host:0, not %u", index);
    host_device *device = tn__alloc_array(context, 1, sizeof *device);
    long page = sysconf(_SC_PAGESIZE);
    if (device == NULL) return tn__no_memory(error, "a device");
    tn_status status =
        tn__threads_open(&device->threads, context, &ways, options->link_bytes_per_s, error);
    if (status != TN_OK) {
        tn__free(context, device, sizeof *device);
        return status;
    }
    device->page = page > 0 ? (size_t)page : 4096;
    limits->alignment = HOST_ALIGNMENT;
    limits->link_bytes_per_s = options->link_bytes_per_s;
    *state = device;
    return TN_OK;
}

const tn__driver tn__device_host = {
    .name = "host",
    .summary = "host memory between guard pages, with threads as streams",
    .open = host_open,
    .close = host_close,
    .alloc = host_alloc,
    .free = host_free,
    .pointer = host_pointer,
    .launch = tn__threads_launch,
    TN__THREADS_DRIVER,
};
