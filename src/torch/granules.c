/* granules.c - memory is created once, mapped where a block is, and mapped elsewhere when no block
 * is there. Cost: O(1) for each granule of a block; where memory moves, the wait and O(n) to find
 * some. Source: CUDA Driver API, virtual memory management. */
#include "torch/granules.h"

#include <inttypes.h>

#define GRANULES_RANGE 4 /* the range: times the budget */

static uint64_t granules_address(const tn__granules *of, uint64_t at) {
    return of->base + at * of->size;
}

static tn_status granules_status(const tn__granules *of, int status, const char *what,
                                 tn_error *error) {
    return tn__cuda_status(of->cuda, status, what, error);
}

/* --- opening and closing --- */

static tn_status granules_ask(tn__granules *of, tn_error *error) {
    int has = 0, has_rdma = 0;
    TN_TRY(tn__cuda_load_pages(&of->driver, error));
    int status = of->driver.cuDeviceGetAttribute(&has, TN__CUDA_HAS_PAGES, of->device);
    if (status != TN__CUDA_OK || has == 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "cuda:%d has no virtual memory management", of->device);
    status = of->driver.cuDeviceGetAttribute(&has_rdma, TN__CUDA_HAS_RDMA, of->device);
    of->place = (tn__cuda_place){.type = TN__CUDA_PINNED,
                                 .where = TN__CUDA_AT_DEVICE,
                                 .device = of->device,
                                 .is_rdma = status == TN__CUDA_OK && has_rdma != 0};
    size_t size = 0;
    status = of->driver.cuMemGetAllocationGranularity(&size, &of->place, 0);
    of->size = size;
    if (status != TN__CUDA_OK || size == 0 || (size & (size - 1)) != 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "cuda:%d does not tell how memory is divided", of->device);
    return TN_OK;
}

static tn_status granules_reserve(tn__granules *of, uint64_t budget, tn_error *error) {
    size_t available = 0, total = 0;
    char text[TN_SIZE_TEXT_MAX];
    /* which also makes the context that the driver works in */
    TN_TRY(granules_status(of, of->cuda->cudaMemGetInfo(&available, &total), "asking for its size",
                           error));
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
    return granules_status(of, status, "a range of addresses", error);
}

tn_status tn__granules_open(tn__granules *of, const tn_context *context, const tn__cuda *cuda,
                            int device, uint64_t budget, tn_error *error) {
    *of = (tn__granules){.context = context, .cuda = cuda, .device = device};
    tn_status status = granules_ask(of, error);
    if (status == TN_OK) status = granules_reserve(of, budget, error);
    if (status != TN_OK) tn__granules_close(of);
    return status;
}

static void granules_sync(tn__granules *of) {
    (void)of->cuda->cudaDeviceSynchronize(); /* what failed, the next call tells */
    of->waits++;
}

/* Unmaps one; its handle is the caller's. False: it stays. */
static bool granules_unmap(tn__granules *of, uint64_t at) {
    if (of->driver.cuMemUnmap(granules_address(of, at), (size_t)of->size) != TN__CUDA_OK)
        return false;
    of->table[at].is_here = false;
    return true;
}

static void granules_release(tn__granules *of, uint64_t handle) {
    (void)of->driver.cuMemRelease(handle);
    of->had--;
}

void tn__granules_trim(tn__granules *of) {
    bool has_waited = false;
    for (uint64_t at = 0; at < of->reach; at++) {
        if (!of->table[at].is_here || of->table[at].users > 0) continue;
        if (!has_waited) granules_sync(of);
        has_waited = true;
        if (granules_unmap(of, at)) granules_release(of, of->table[at].handle);
    }
    while (of->spare_count > 0) granules_release(of, of->spare[--of->spare_count]);
}

void tn__granules_close(tn__granules *of) {
    for (uint64_t at = 0; at < of->reach; at++) of->table[at].users = 0;
    if (of->base != 0) {
        tn__granules_trim(of);
        (void)of->driver.cuMemAddressFree(of->base, (size_t)(of->count * of->size));
    }
    tn__free(of->context, of->table, of->count * sizeof *of->table);
    tn__free(of->context, of->spare, of->spare_room * sizeof *of->spare);
    *of = (tn__granules){.context = of->context};
}

/* --- having memory --- */

static bool granules_room(tn__granules *of, uint64_t more) {
    return tn__reserve(of->context, &of->spare, &of->spare_room, of->spare_count + (size_t)more,
                       sizeof *of->spare);
}

/* Up to `count` new ones; fewer where the device has no more. */
static tn_status granules_create(tn__granules *of, uint64_t count, tn_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t handle = 0;
        int status = of->driver.cuMemCreate(&handle, (size_t)of->size, &of->place, 0);
        if (status == TN__CUDA_NO_MEMORY) return TN_OK;
        TN_TRY(granules_status(of, status, "memory", error));
        of->spare[of->spare_count++] = handle;
        of->had++;
        if (of->had > of->had_peak) of->had_peak = of->had;
    }
    return TN_OK;
}

/* From where no block is, the highest first: up to `count`. */
static void granules_move(tn__granules *of, uint64_t count) {
    bool has_waited = false;
    for (uint64_t at = of->reach; at-- > 0 && count > 0;) {
        if (!of->table[at].is_here || of->table[at].users > 0) continue;
        if (!has_waited) granules_sync(of);
        has_waited = true;
        if (!granules_unmap(of, at)) continue;
        of->spare[of->spare_count++] = of->table[at].handle;
        of->moved++;
        count--;
    }
}

/* So many spare ones, for a block that is counted in `used` already. */
static tn_status granules_stock(tn__granules *of, uint64_t count, tn_error *error) {
    char used[TN_SIZE_TEXT_MAX], wanted[TN_SIZE_TEXT_MAX];
    if (of->spare_count >= count) return TN_OK;
    if (!granules_room(of, count)) return tn__no_memory(error, "the handles of a device's memory");
    uint64_t peak = of->used > of->used_peak ? of->used : of->used_peak;
    uint64_t most = peak + peak / TN__GRANULES_BESIDE, lack = count - of->spare_count;
    if (most > of->limit) most = of->limit;
    uint64_t fresh = of->had < most ? most - of->had : 0;
    TN_TRY(granules_create(of, fresh < lack ? fresh : lack, error));
    if (of->spare_count < count) granules_move(of, count - of->spare_count);
    if (of->spare_count >= count) return TN_OK;
    TN_FAIL(error, TN_E_EXHAUSTED, "%s more do not fit: %s of the device are had, all in use",
            tn_size_format((count - of->spare_count) * of->size, wanted),
            tn_size_format(of->had * of->size, used));
}

/* --- blocks --- */

/* Of [from, to): those without memory get it. On failure they have none. */
static tn_status granules_map(tn__granules *of, uint64_t from, uint64_t to, tn_error *error) {
    tn__cuda_access access = {TN__CUDA_AT_DEVICE, of->device, TN__CUDA_READ_WRITE};
    uint64_t at = from;
    int status = TN__CUDA_OK;
    for (; at < to && status == TN__CUDA_OK; at += status == TN__CUDA_OK) {
        uint64_t handle = of->spare[of->spare_count - 1];
        status = of->driver.cuMemMap(granules_address(of, at), (size_t)of->size, 0, handle, 0);
        if (status != TN__CUDA_OK) break;
        of->spare_count--;
        of->table[at].handle = handle;
        of->table[at].is_here = true;
    }
    if (to > of->reach) of->reach = to;
    if (status == TN__CUDA_OK)
        status = of->driver.cuMemSetAccess(granules_address(of, from),
                                           (size_t)((to - from) * of->size), &access, 1);
    if (status == TN__CUDA_OK) return TN_OK;
    while (at-- > from)
        if (granules_unmap(of, at)) of->spare[of->spare_count++] = of->table[at].handle;
    return granules_status(of, status, "mapping memory", error);
}

static tn_status granules_fill(tn__granules *of, uint64_t first, uint64_t last, uint64_t missing,
                               tn_error *error) {
    TN_TRY(granules_stock(of, missing, error));
    for (uint64_t at = first; at <= last; at++) {
        uint64_t from = at;
        while (at <= last && !of->table[at].is_here) at++;
        if (at > from) TN_TRY(granules_map(of, from, at, error));
    }
    return TN_OK;
}

/* Counts a block in, or out. */
static void granules_count(tn__granules *of, uint64_t first, uint64_t last, bool is_in) {
    for (uint64_t at = first; at <= last; at++) {
        tn__granule *granule = &of->table[at];
        if (is_in)
            of->used += granule->users++ == 0;
        else
            of->used -= --granule->users == 0;
    }
}

tn_status tn__granules_take(tn__granules *of, uint64_t offset, uint64_t size, tn_error *error) {
    uint64_t first = offset / of->size, last = (offset + size - 1) / of->size, missing = 0;
    tn_assert(size > 0 && last < of->count);
    for (uint64_t at = first; at <= last; at++) missing += !of->table[at].is_here;
    granules_count(of, first, last, true); /* so that none of them moves */
    tn_status status = missing > 0 ? granules_fill(of, first, last, missing, error) : TN_OK;
    if (status != TN_OK)
        granules_count(of, first, last, false);
    else if (of->used > of->used_peak)
        of->used_peak = of->used;
    return status;
}

void tn__granules_give(tn__granules *of, uint64_t offset, uint64_t size) {
    granules_count(of, offset / of->size, (offset + size - 1) / of->size, false);
}
