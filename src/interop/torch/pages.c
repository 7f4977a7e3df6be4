/* pages.c - creates physical pages once, maps them where blocks lie, and maps them elsewhere when
 * no block lies there any more.
 *
 * Cost: O(1) for each page of a block; if memory must move, also the wait for the device and O(n)
 * to find unused pages.
 * Source: CUDA Driver API, virtual memory management.
 */
#include "interop/torch/pages.h"

#include <inttypes.h>

#define PAGES_RANGE 4 /* size of the range of addresses, as a multiple of the budget */

static uint64_t pages_address(const tn__pages *of, uint64_t at) { return of->base + at * of->size; }

/* Converts the status of a driver call. Driver calls leave no error in the runtime. */
static tn_status pages_status(int status, const char *what, tn_error *error) {
    if (status == TN__CUDA_OK) return TN_OK;
    TN_FAIL(error, status == TN__CUDA_NO_MEMORY ? TN_E_NO_MEMORY : TN_E_IO,
            "the CUDA driver failed: %s: CUresult %d", what, status);
}

/* --- opening and closing the range --- */

static tn_status pages_ask(tn__pages *of, tn_error *error) {
    const tn__cuda_pages *driver = &of->driver;
    int has = 0, has_rdma = 0;
    size_t size = 0;
    TN_TRY(tn__cuda_load_pages(&of->driver, error));
    TN_TRY(pages_status(driver->cuDeviceGetAttribute(&has, TN__CUDA_HAS_PAGES, of->device),
                        "asking what the device can do", error));
    if (has == 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "cuda:%d has no virtual memory management", of->device);
    int status = driver->cuDeviceGetAttribute(&has_rdma, TN__CUDA_HAS_RDMA, of->device);
    of->place = (tn__cuda_place){.type = TN__CUDA_PINNED,
                                 .where = TN__CUDA_AT_DEVICE,
                                 .device = of->device,
                                 .is_rdma = status == TN__CUDA_OK && has_rdma != 0};
    TN_TRY(pages_status(driver->cuMemGetAllocationGranularity(&size, &of->place, 0),
                        "asking how memory is divided", error));
    if (size == 0 || (size & (size - 1)) != 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "cuda:%d divides memory into %zu bytes", of->device, size);
    of->size = size;
    return TN_OK;
}

static tn_status pages_reserve(tn__pages *of, uint64_t budget, tn_error *error) {
    size_t available = 0, total = 0;
    char text[TN_SIZE_TEXT_MAX];
    /* this call also creates the context that the driver uses */
    int asked = of->cuda->cudaMemGetInfo(&available, &total);
    TN_TRY(tn__cuda_status(of->cuda, asked, "asking for its size", error));
    of->limit = budget == 0 ? UINT64_MAX : budget / of->size;
    if (of->limit == 0)
        TN_FAIL(error, TN_E_INVALID, "a budget has at least %s here",
                tn_size_format(of->size, text));
    uint64_t most = total / of->size + 1;
    of->count = PAGES_RANGE * (of->limit < most ? of->limit : most);
    of->table = tn__alloc_array(of->context, of->count, sizeof *of->table);
    if (of->table == NULL) return tn__no_memory(error, "the pages of a device's memory");
    int status = of->driver.cuMemAddressReserve(&of->base, (size_t)(of->count * of->size),
                                                (size_t)of->size, 0, 0);
    if (status != TN__CUDA_OK) of->base = 0;
    return pages_status(status, "a range of addresses", error);
}

tn_status tn__pages_open(tn__pages *of, const tn_context *context, const tn__cuda *cuda, int device,
                         uint64_t budget, tn_error *error) {
    *of = (tn__pages){.context = context, .cuda = cuda, .device = device};
    tn_status status = pages_ask(of, error);
    if (status == TN_OK) status = pages_reserve(of, budget, error);
    if (status != TN_OK) tn__pages_close(of, true);
    return status;
}

/* Waits until no queued work can use pages without blocks. */
static tn_status pages_wait(tn__pages *of, tn_error *error) {
    int status = of->cuda->cudaDeviceSynchronize();
    of->waits++;
    return tn__cuda_status(of->cuda, status, "waiting for the device", error);
}

/* Unmaps a page and leaves its handle to the caller. False: it stays mapped. */
static bool pages_unmap(tn__pages *of, uint64_t at) {
    if (of->driver.cuMemUnmap(pages_address(of, at), (size_t)of->size) != TN__CUDA_OK) return false;
    of->table[at].is_mapped = of->table[at].is_accessible = false;
    return true;
}

static bool pages_is_idle(const tn__pages *of, uint64_t at) {
    return of->table[at].is_mapped && of->table[at].users == 0;
}

/* Returns unmapped pages to the device until `left` are left, or until one cannot be returned. */
static void pages_release(tn__pages *of, size_t left) {
    while (of->spare_count > left &&
           of->driver.cuMemRelease(of->spare[of->spare_count - 1]) == TN__CUDA_OK) {
        of->spare_count--;
        of->had--;
    }
}

static bool pages_room(tn__pages *of, uint64_t count) {
    return tn__reserve(of->context, &of->spare, &of->spare_room, (size_t)count, sizeof *of->spare);
}

void tn__pages_trim(tn__pages *of) {
    if (!pages_room(of, of->had) || pages_wait(of, NULL) != TN_OK) return;
    for (uint64_t at = 0; at < of->reach; at++)
        if (pages_is_idle(of, at) && pages_unmap(of, at))
            of->spare[of->spare_count++] = of->table[at].handle;
    pages_release(of, 0);
}

void tn__pages_close(tn__pages *of, bool is_current) {
    bool asks = of->base != 0 && is_current;
    /* the result does not matter, because everything is freed */
    if (asks) (void)of->cuda->cudaDeviceSynchronize();
    for (uint64_t at = 0; at < of->reach && asks; at++)
        if (of->table[at].is_mapped && pages_unmap(of, at))
            (void)of->driver.cuMemRelease(of->table[at].handle);
    if (asks) pages_release(of, 0);
    if (asks) (void)of->driver.cuMemAddressFree(of->base, (size_t)(of->count * of->size));
    tn__free(of->context, of->table, of->count * sizeof *of->table);
    tn__free(of->context, of->spare, of->spare_room * sizeof *of->spare);
    *of = (tn__pages){.context = of->context};
}

const char *tn__pages_check(const tn__pages *of) {
    uint64_t used = 0, here = 0;
    for (uint64_t at = 0; at < of->count; at++) {
        const tn__page *page = &of->table[at];
        used += page->users > 0;
        here += page->is_mapped;
        if (page->users > 0 && !page->is_accessible) return "a block has no memory";
        if (page->is_accessible && !page->is_mapped)
            return "a page that is not mapped is accessible";
        if (at >= of->reach && page->is_mapped) return "a page beyond the reach is mapped";
    }
    if (used != of->used) return "the count of used pages is wrong";
    if (here + of->spare_count != of->had) return "mapped and spare pages are not all pages";
    return of->had > of->limit ? "there are more pages than the limit allows" : NULL;
}

/* --- obtaining physical pages --- */

/* Creates up to `count` pages; fewer if the device has no more memory. */
static tn_status pages_create(tn__pages *of, uint64_t count, tn_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t handle = 0;
        int status = of->driver.cuMemCreate(&handle, (size_t)of->size, &of->place, 0);
        if (status == TN__CUDA_NO_MEMORY) return TN_OK;
        TN_TRY(pages_status(status, "memory", error));
        of->spare[of->spare_count++] = handle;
        of->had++;
        if (of->had > of->had_peak) of->had_peak = of->had;
    }
    return TN_OK;
}

/* Unmaps pages that no block uses, those with the highest addresses first: `count`, and some more
 * for later requests, or as many as exist. */
static tn_status pages_move(tn__pages *of, uint64_t count, tn_error *error) {
    uint64_t batch = of->had / TN__PAGES_BATCH;
    if (batch < count) batch = count;
    if (!pages_room(of, of->spare_count + batch))
        return tn__no_memory(error, "the handles of a device's memory");
    uint64_t at = of->reach;
    while (at > 0 && !pages_is_idle(of, at - 1)) at--;
    if (at == 0) return TN_OK; /* no page is unused, so there is nothing to wait for */
    TN_TRY(pages_wait(of, error));
    for (; at > 0 && batch > 0; at--) {
        if (!pages_is_idle(of, at - 1) || !pages_unmap(of, at - 1)) continue;
        of->spare[of->spare_count++] = of->table[at - 1].handle;
        of->moved++;
        batch--;
    }
    return TN_OK;
}

/* The number of pages that may exist, given those in use now. */
static uint64_t pages_limit(const tn__pages *of) {
    uint64_t peak = of->used > of->used_peak ? of->used : of->used_peak;
    uint64_t most = peak + peak / TN__PAGES_EXTRA + of->waits / TN__PAGES_WAITS;
    return most < of->limit ? most : of->limit;
}

static tn_status pages_lack(const tn__pages *of, uint64_t count, tn_error *error) {
    char had[TN_SIZE_TEXT_MAX], wanted[TN_SIZE_TEXT_MAX];
    TN_FAIL(error, TN_E_EXHAUSTED, "the %s has no more: %s are lacking, %s are had",
            of->used > of->limit ? "budget" : "device", tn_size_format(count * of->size, wanted),
            tn_size_format(of->had * of->size, had));
}

/* Provides `count` unmapped pages for a block that is already counted in `used`. */
static tn_status pages_stock(tn__pages *of, uint64_t count, tn_error *error) {
    size_t before = of->spare_count;
    if (of->used > of->limit) return pages_lack(of, count, error);
    if (before >= count) return TN_OK;
    if (!pages_room(of, count)) return tn__no_memory(error, "the handles of a device's memory");
    uint64_t most = pages_limit(of), lack = count - before;
    uint64_t fresh = of->had < most ? most - of->had : 0;
    tn_status status = pages_create(of, fresh < lack ? fresh : lack, error);
    if (status == TN_OK && of->spare_count < count)
        status = pages_move(of, count - of->spare_count, error);
    if (status == TN_OK && of->spare_count < count)
        status = pages_lack(of, count - of->spare_count, error);
    /* newly created pages are returned, because other programs may need them */
    if (status != TN_OK) pages_release(of, before);
    return status;
}

/* --- blocks --- */

/* Maps unmapped pages to the addresses in [from, to) that have no memory. */
static tn_status pages_map(tn__pages *of, uint64_t from, uint64_t to, tn_error *error) {
    for (uint64_t at = from; at < to; at++) {
        if (of->table[at].is_mapped) continue;
        tn_assert(of->spare_count > 0);
        uint64_t handle = of->spare[of->spare_count - 1];
        int status = of->driver.cuMemMap(pages_address(of, at), (size_t)of->size, 0, handle, 0);
        TN_TRY(pages_status(status, "mapping memory", error));
        of->spare_count--;
        of->table[at].handle = handle;
        of->table[at].is_mapped = true;
        if (at >= of->reach) of->reach = at + 1;
    }
    return TN_OK;
}

/* Maps the pages [from, to) and makes them accessible to the device; none may be accessible before.
 * On failure none is accessible. */
static tn_status pages_unlock(tn__pages *of, uint64_t from, uint64_t to, tn_error *error) {
    tn__cuda_access access = {TN__CUDA_AT_DEVICE, of->device, TN__CUDA_READ_WRITE};
    size_t bytes = (size_t)((to - from) * of->size);
    TN_TRY(pages_map(of, from, to, error));
    int status = of->driver.cuMemSetAccess(pages_address(of, from), bytes, &access, 1);
    TN_TRY(pages_status(status, "access to memory", error));
    for (uint64_t at = from; at < to; at++) of->table[at].is_accessible = true;
    return TN_OK;
}

static tn_status pages_fill(tn__pages *of, uint64_t first, uint64_t last, tn_error *error) {
    uint64_t missing = 0;
    for (uint64_t at = first; at <= last; at++) missing += !of->table[at].is_mapped;
    TN_TRY(pages_stock(of, missing, error));
    for (uint64_t at = first; at <= last; at++) {
        uint64_t from = at;
        while (at <= last && !of->table[at].is_accessible) at++;
        if (at > from) TN_TRY(pages_unlock(of, from, at, error));
    }
    return TN_OK;
}

/* Adds a block to the counts of its pages, or removes it. */
static void pages_count(tn__pages *of, uint64_t first, uint64_t last, bool is_in) {
    for (uint64_t at = first; at <= last; at++) {
        tn__page *page = &of->table[at];
        tn_assert(is_in || page->users > 0);
        if (is_in)
            of->used += page->users++ == 0;
        else
            of->used -= --page->users == 0;
    }
}

tn_status tn__pages_take(tn__pages *of, uint64_t offset, uint64_t size, tn_error *error) {
    uint64_t first = offset / of->size, last = (offset + size - 1) / of->size;
    tn_assert(size > 0 && last < of->count);
    bool is_accessible = true;
    for (uint64_t at = first; at <= last; at++) is_accessible &= of->table[at].is_accessible;
    /* the block is counted first, so that none of its pages is moved */
    pages_count(of, first, last, true);
    tn_status status =
        is_accessible && of->used <= of->limit ? TN_OK : pages_fill(of, first, last, error);
    if (status != TN_OK)
        pages_count(of, first, last, false);
    else if (of->used > of->used_peak)
        of->used_peak = of->used;
    return status;
}

void tn__pages_give(tn__pages *of, uint64_t offset, uint64_t size) {
    pages_count(of, offset / of->size, (offset + size - 1) / of->size, false);
}
