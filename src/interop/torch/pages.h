/* pages.h - a range of addresses of a device that is backed by physical pages only where blocks
 * lie.
 *
 * A page is the unit in which CUDA maps device memory (its allocation granularity: 2 MiB on the
 * GPUs of 2026). A page that no block uses any more stays mapped until its memory is needed
 * elsewhere; then the caller waits for the device, and maps it there. So holes between blocks cost
 * only addresses. The memory may exceed the peak of the pages in use by one part in
 * TN__PAGES_EXTRA, plus one page for every TN__PAGES_WAITS waits. Thus a program that would have to
 * move memory in each of its steps stops doing so after some time.
 *
 * Threads: the caller holds a lock, and the device is the current one. Other devices of the process
 * cannot access the range, because only its own device gets access.
 */
#ifndef TN_TORCH_PAGES_H
#define TN_TORCH_PAGES_H

#include "memory/device/cuda.h"

enum {
    TN__PAGES_EXTRA = 512,
    TN__PAGES_WAITS = 16,
    /* each wait frees at least 1/32 of all pages, if that many are unused */
    TN__PAGES_BATCH = 32,
};

typedef struct tn__page {
    uint64_t handle;    /* handle of the memory mapped to the page; valid if is_mapped */
    uint32_t users;     /* number of blocks that lie in the page */
    bool is_mapped;     /* true: memory is mapped to it */
    bool is_accessible; /* true: the device may access the mapped memory */
} tn__page;

typedef struct tn__pages {
    const tn_context *context;
    const tn__cuda *cuda;
    tn__cuda_pages driver;
    int device;
    tn__cuda_place place;
    uint64_t base;   /* address of the range; 0: there is no range */
    uint64_t size;   /* bytes of a page */
    uint64_t limit;  /* limit of pages that exist at once */
    tn__page *table; /* [count] the pages, by address */
    /* `count`: pages of the range; `reach`: pages from this index on never had memory */
    uint64_t count, reach;
    uint64_t *spare; /* handles of existing pages that are mapped to no address */
    size_t spare_count, spare_room;
    uint64_t had, had_peak;   /* number of pages that exist now, mapped or not, and its maximum */
    uint64_t used, used_peak; /* number of pages in which blocks lie now, and its maximum */
    /* waits: number of waits for the device; moved: number of pages that were unmapped for other
     * addresses */
    uint64_t waits, moved;
} tn__pages;

/* Reserves the range. `budget`: limit of bytes of memory; 0: as many as the device has. The range
 * is four times as long as the budget, or as the device's memory. Errors: E_UNSUPPORTED (the driver
 * or device lacks these functions), E_INVALID (a budget below a page), E_NO_MEMORY, E_IO. On
 * failure nothing is left to close. */
tn_status tn__pages_open(tn__pages *pages, const tn_context *context, const tn__cuda *cuda,
                         int device, uint64_t budget, tn_error *error);
/* Waits for the device and frees everything. `is_current`: false if the device could not be made
 * current; then it is not called and its memory is lost. */
void tn__pages_close(tn__pages *pages, bool is_current);
/* Provides memory for a block at [offset, offset + size). Errors: E_EXHAUSTED (over the limit, or
 * the device has no more), E_IO, E_NO_MEMORY of the host. On failure the blocks are unchanged. */
tn_status tn__pages_take(tn__pages *pages, uint64_t offset, uint64_t size, tn_error *error);
/* Called when the block is freed; queued work may still use it. */
void tn__pages_give(tn__pages *pages, uint64_t offset, uint64_t size);
/* Returns pages without blocks to the device. If waiting for the device fails, no page is
 * returned. */
void tn__pages_trim(tn__pages *pages);
/* Checks the invariants; returns NULL, or a sentence about one that is broken. Cost: O(n). */
const char *tn__pages_check(const tn__pages *pages);

#endif
