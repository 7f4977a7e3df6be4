/* granules.c - memory is created once, mapped where blocks lie, and mapped elsewhere when no block
 * lies there any more.
 *
 * Cost: O(1) for each granule of a block; if memory must move, also the wait for the device and
 * O(n) to find some.
 * Source: CUDA Driver API, virtual memory management. */
#include "interop/torch/granules.h"

#include <inttypes.h>

#define GRANULES_RANGE 4 /* size of the range: this times the budget */

static uint64_t granules_address(const tn__granules *of, uint64_t at) {
    return of->base + at * of->size;
}

/* The status of a driver call. Driver calls leave no error in the runtime. */
static tn_status granules_status(int status, const char *what, tn_error *error) {
    if (status == TN__CUDA_OK) return TN_OK;
    TN_FAIL(error, status == TN__CUDA_NO_MEMORY ? TN_E_NO_MEMORY : TN_E_IO,
            "the CUDA driver failed: %s: CUresult %d", what, status);
}

/* --- opening and closing --- */

static tn_status granules_ask(tn__granules *of, tn_error *error) {
    const tn__cuda_pages *driver = &of->driver;
    int has = 0, has_rdma = 0;
    size_t size = 0;
    TN_TRY(tn__cuda_load_pages(&of->driver, error));
    TN_TRY(granules_status(driver->cuDeviceGetAttribute(&has, TN__CUDA_HAS_PAGES, of->device),
                           "asking what the device can do", error));
    if (has == 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "cuda:%d has no virtual memory management", of->device);
    int status = driver->cuDeviceGetAttribute(&has_rdma, TN__CUDA_HAS_RDMA, of->device);
    of->place = (tn__cuda_place){.type = TN__CUDA_PINNED,
                                 .where = TN__CUDA_AT_DEVICE,
                                 .device = of->device,
                                 .is_rdma = status == TN__CUDA_OK && has_rdma != 0};
    TN_TRY(granules_status(driver->cuMemGetAllocationGranularity(&size, &of->place, 0),
                           "asking how memory is divided", error));
    if (size == 0 || (size & (size - 1)) != 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "cuda:%d divides memory into %zu bytes", of->device, size);
    of->size = size;
    return TN_OK;
}

static tn_status granules_reserve(tn__granules *of, uint64_t budget, tn_error *error) {
    size_t available = 0, total = 0;
    char text[TN_SIZE_TEXT_MAX];
    /* also creates the context that the driver uses */
    int asked = of->cuda->cudaMemGetInfo(&available, &total);
    TN_TRY(tn__cuda_status(of->cuda, asked, "asking for its size", error));
    of->limit = budget == 0 ? UINT64_MAX : budget / of->size;
    if (of->limit == 0)
        TN_FAIL(error, TN_E_INVALID, "a budget has at least %s here",
                tn_size_format(of->size, text));
    uint64_t most = total / of->size + 1;
    of->count = GRANULES_RANGE * (of->limit < most ? of->limit : most);
    of->table = tn__alloc_array(of->context, of->count, sizeof *of->table);
    if (of->table == NULL) return tn__no_memory(error, "the granules of a device's memory");
    int status = of->driver.cuMemAddressReserve(&of->base, (size_t)(of->count * of->size),
                                                (size_t)of->size, 0, 0);
    if (status != TN__CUDA_OK) of->base = 0;
    return granules_status(status, "a range of addresses", error);
}

tn_status tn__granules_open(tn__granules *of, const tn_context *context, const tn__cuda *cuda,
                            int device, uint64_t budget, tn_error *error) {
    *of = (tn__granules){.context = context, .cuda = cuda, .device = device};
    tn_status status = granules_ask(of, error);
    if (status == TN_OK) status = granules_reserve(of, budget, error);
    if (status != TN_OK) tn__granules_close(of, true);
    return status;
}

/* Waits until no queued work can use granules without blocks. */
static tn_status granules_wait(tn__granules *of, tn_error *error) {
    int status = of->cuda->cudaDeviceSynchronize();
    of->waits++;
    return tn__cuda_status(of->cuda, status, "waiting for the device", error);
}

/* Unmaps a granule and leaves its handle to the caller. False: it stays mapped. */
static bool granules_unmap(tn__granules *of, uint64_t at) {
    if (of->driver.cuMemUnmap(granules_address(of, at), (size_t)of->size) != TN__CUDA_OK)
        return false;
    of->table[at].is_here = of->table[at].is_open = false;
    return true;
}

static bool granules_is_idle(const tn__granules *of, uint64_t at) {
    return of->table[at].is_here && of->table[at].users == 0;
}

/* Returns spare granules to the device until `left` remain, or one cannot be returned. */
static void granules_release(tn__granules *of, size_t left) {
    while (of->spare_count > left &&
           of->driver.cuMemRelease(of->spare[of->spare_count - 1]) == TN__CUDA_OK) {
        of->spare_count--;
        of->had--;
    }
}

static bool granules_room(tn__granules *of, uint64_t count) {
    return tn__reserve(of->context, &of->spare, &of->spare_room, (size_t)count, sizeof *of->spare);
}

void tn__granules_trim(tn__granules *of) {
    if (!granules_room(of, of->had) || granules_wait(of, NULL) != TN_OK) return;
    for (uint64_t at = 0; at < of->reach; at++)
        if (granules_is_idle(of, at) && granules_unmap(of, at))
            of->spare[of->spare_count++] = of->table[at].handle;
    granules_release(of, 0);
}

void tn__granules_close(tn__granules *of, bool is_current) {
    bool asks = of->base != 0 && is_current;
    if (asks) (void)of->cuda->cudaDeviceSynchronize(); /* the result does not matter any more */
    for (uint64_t at = 0; at < of->reach && asks; at++)
        if (of->table[at].is_here && granules_unmap(of, at))
            (void)of->driver.cuMemRelease(of->table[at].handle);
    if (asks) granules_release(of, 0);
    if (asks) (void)of->driver.cuMemAddressFree(of->base, (size_t)(of->count * of->size));
    tn__free(of->context, of->table, of->count * sizeof *of->table);
    tn__free(of->context, of->spare, of->spare_room * sizeof *of->spare);
    *of = (tn__granules){.context = of->context};
}

const char *tn__granules_check(const tn__granules *of) {
    uint64_t used = 0, here = 0;
    for (uint64_t at = 0; at < of->count; at++) {
        const tn__granule *granule = &of->table[at];
        used += granule->users > 0;
        here += granule->is_here;
        if (granule->users > 0 && !granule->is_open) return "a block has no memory";
        if (granule->is_open && !granule->is_here) return "memory that is not there is open";
        if (at >= of->reach && granule->is_here) return "memory lies beyond the reach";
    }
    if (used != of->used) return "the count of what is used is wrong";
    if (here + of->spare_count != of->had) return "what is there is not what is had";
    return of->had > of->limit ? "more is had than may be" : NULL;
}

/* --- obtaining memory --- */

/* Creates up to `count` granules; fewer if the device has no more memory. */
static tn_status granules_create(tn__granules *of, uint64_t count, tn_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t handle = 0;
        int status = of->driver.cuMemCreate(&handle, (size_t)of->size, &of->place, 0);
        if (status == TN__CUDA_NO_MEMORY) return TN_OK;
        TN_TRY(granules_status(status, "memory", error));
        of->spare[of->spare_count++] = handle;
        of->had++;
        if (of->had > of->had_peak) of->had_peak = of->had;
    }
    return TN_OK;
}

/* Unmaps granules that no block uses, those with the highest addresses first: `count`, and some
 * more for later requests, or as many as exist. */
static tn_status granules_move(tn__granules *of, uint64_t count, tn_error *error) {
    uint64_t batch = of->had / TN__GRANULES_BATCH;
    if (batch < count) batch = count;
    if (!granules_room(of, of->spare_count + batch))
        return tn__no_memory(error, "the handles of a device's memory");
    uint64_t at = of->reach;
    while (at > 0 && !granules_is_idle(of, at - 1)) at--;
    if (at == 0) return TN_OK; /* nothing is unused, so there is nothing to wait for */
    TN_TRY(granules_wait(of, error));
    for (; at > 0 && batch > 0; at--) {
        if (!granules_is_idle(of, at - 1) || !granules_unmap(of, at - 1)) continue;
        of->spare[of->spare_count++] = of->table[at - 1].handle;
        of->moved++;
        batch--;
    }
    return TN_OK;
}

/* The number of granules that may exist, given those in use now. */
static uint64_t granules_most(const tn__granules *of) {
    uint64_t peak = of->used > of->used_peak ? of->used : of->used_peak;
    uint64_t most = peak + peak / TN__GRANULES_BESIDE + of->waits / TN__GRANULES_WAITS;
    return most < of->limit ? most : of->limit;
}

static tn_status granules_lack(const tn__granules *of, uint64_t count, tn_error *error) {
    char had[TN_SIZE_TEXT_MAX], wanted[TN_SIZE_TEXT_MAX];
    TN_FAIL(error, TN_E_EXHAUSTED, "the %s has no more: %s are lacking, %s are had",
            of->used > of->limit ? "budget" : "device", tn_size_format(count * of->size, wanted),
            tn_size_format(of->had * of->size, had));
}

/* Provides `count` spare granules for a block that `used` counts already. */
static tn_status granules_stock(tn__granules *of, uint64_t count, tn_error *error) {
    size_t before = of->spare_count;
    if (of->used > of->limit) return granules_lack(of, count, error);
    if (before >= count) return TN_OK;
    if (!granules_room(of, count)) return tn__no_memory(error, "the handles of a device's memory");
    uint64_t most = granules_most(of), lack = count - before;
    uint64_t fresh = of->had < most ? most - of->had : 0;
    tn_status status = granules_create(of, fresh < lack ? fresh : lack, error);
    if (status == TN_OK && of->spare_count < count)
        status = granules_move(of, count - of->spare_count, error);
    if (status == TN_OK && of->spare_count < count)
        status = granules_lack(of, count - of->spare_count, error);
    if (status != TN_OK) granules_release(of, before); /* other programs may need them */
    return status;
}

/* --- blocks --- */

/* Maps spare granules where [from, to) has none. */
static tn_status granules_map(tn__granules *of, uint64_t from, uint64_t to, tn_error *error) {
    for (uint64_t at = from; at < to; at++) {
        if (of->table[at].is_here) continue;
        tn_assert(of->spare_count > 0);
        uint64_t handle = of->spare[of->spare_count - 1];
        int status = of->driver.cuMemMap(granules_address(of, at), (size_t)of->size, 0, handle, 0);
        TN_TRY(granules_status(status, "mapping memory", error));
        of->spare_count--;
        of->table[at].handle = handle;
        of->table[at].is_here = true;
        if (at >= of->reach) of->reach = at + 1;
    }
    return TN_OK;
}

/* Opens [from, to) to the device; none of them is open yet. On failure none is. */
static tn_status granules_unlock(tn__granules *of, uint64_t from, uint64_t to, tn_error *error) {
    tn__cuda_access access = {TN__CUDA_AT_DEVICE, of->device, TN__CUDA_READ_WRITE};
    size_t bytes = (size_t)((to - from) * of->size);
    TN_TRY(granules_map(of, from, to, error));
    int status = of->driver.cuMemSetAccess(granules_address(of, from), bytes, &access, 1);
    TN_TRY(granules_status(status, "access to memory", error));
    for (uint64_t at = from; at < to; at++) of->table[at].is_open = true;
    return TN_OK;
}

static tn_status granules_fill(tn__granules *of, uint64_t first, uint64_t last, tn_error *error) {
    uint64_t missing = 0;
    for (uint64_t at = first; at <= last; at++) missing += !of->table[at].is_here;
    TN_TRY(granules_stock(of, missing, error));
    for (uint64_t at = first; at <= last; at++) {
        uint64_t from = at;
        while (at <= last && !of->table[at].is_open) at++;
        if (at > from) TN_TRY(granules_unlock(of, from, at, error));
    }
    return TN_OK;
}

/* Counts a block in, or out. */
static void granules_count(tn__granules *of, uint64_t first, uint64_t last, bool is_in) {
    for (uint64_t at = first; at <= last; at++) {
        tn__granule *granule = &of->table[at];
        tn_assert(is_in || granule->users > 0);
        if (is_in)
            of->used += granule->users++ == 0;
        else
            of->used -= --granule->users == 0;
    }
}

tn_status tn__granules_take(tn__granules *of, uint64_t offset, uint64_t size, tn_error *error) {
    uint64_t first = offset / of->size, last = (offset + size - 1) / of->size;
    tn_assert(size > 0 && last < of->count);
    bool is_open = true;
    for (uint64_t at = first; at <= last; at++) is_open &= of->table[at].is_open;
    granules_count(of, first, last, true); /* so that none of them moves */
    tn_status status =
        is_open && of->used <= of->limit ? TN_OK : granules_fill(of, first, last, error);
    if (status != TN_OK)
        granules_count(of, first, last, false);
    else if (of->used > of->used_peak)
        of->used_peak = of->used;
    return status;
}

void tn__granules_give(tn__granules *of, uint64_t offset, uint64_t size) {
    granules_count(of, offset / of->size, (offset + size - 1) / of->size, false);
}
