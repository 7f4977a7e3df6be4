/* granules.h - a range of addresses of a device that is backed by memory only where blocks lie.
 *
 * Memory is allocated in granules (2 MiB on the GPUs of 2026). A granule that no block uses any
 * more stays mapped until its memory is needed elsewhere; then the caller waits for the device, and
 * maps it there. So holes between blocks cost only addresses. The memory may exceed the peak of the
 * granules in use by one part in TN__GRANULES_BESIDE, plus one granule for every TN__GRANULES_WAITS
 * waits. Thus a program that would have to move memory in each of its steps stops doing so after
 * some time.
 *
 * Threads: the caller holds a lock, and the device is the current one. Other devices of the process
 * cannot access the range, because only its own device gets access.
 */
#ifndef TN_TORCH_GRANULES_H
#define TN_TORCH_GRANULES_H

#include "memory/device/cuda.h"

enum {
    TN__GRANULES_BESIDE = 512,
    TN__GRANULES_WAITS = 16,
    /* each wait frees 1 / BATCH of all granules, if that many are unused */
    TN__GRANULES_BATCH = 32,
};

typedef struct tn__granule {
    uint64_t handle; /* with `is_here` */
    uint32_t users;  /* blocks that lie in it */
    bool is_here;    /* memory is mapped */
    bool is_open;    /* and the device may use it */
} tn__granule;

typedef struct tn__granules {
    const tn_context *context;
    const tn__cuda *cuda;
    tn__cuda_pages driver;
    int device;
    tn__cuda_place place;
    uint64_t base;         /* address of the range; 0: none */
    uint64_t size;         /* bytes of a granule */
    uint64_t limit;        /* granules that may exist at once */
    tn__granule *table;    /* [count], by address */
    uint64_t count, reach; /* granules from `reach` on never had memory */
    uint64_t *spare;       /* handles of unmapped granules */
    size_t spare_count, spare_room;
    uint64_t had, had_peak;   /* granules that exist, mapped or spare */
    uint64_t used, used_peak; /* granules that blocks lie in */
    uint64_t waits, moved;    /* waits for the device; granules mapped elsewhere */
} tn__granules;

/* `budget`: most bytes of memory; 0: as many as the device has. The range is four times the budget,
 * or the device's memory, long. Errors: E_UNSUPPORTED (the driver or device lacks this), E_INVALID
 * (a budget below a granule), E_NO_MEMORY, E_IO. On failure nothing is left to close. */
tn_status tn__granules_open(tn__granules *granules, const tn_context *context, const tn__cuda *cuda,
                            int device, uint64_t budget, tn_error *error);
/* Waits for the device and frees everything. `is_current`: false if the device could not be made
 * current; then no call is made to it and its memory is lost. */
void tn__granules_close(tn__granules *granules, bool is_current);
/* Provides memory for a block at [offset, offset + size). Errors: E_EXHAUSTED (over the limit, or
 * the device has no more), E_IO, E_NO_MEMORY of the host. On failure the blocks are unchanged. */
tn_status tn__granules_take(tn__granules *granules, uint64_t offset, uint64_t size,
                            tn_error *error);
/* The block is freed; queued work may still use it. */
void tn__granules_give(tn__granules *granules, uint64_t offset, uint64_t size);
/* Returns granules without blocks to the device; none if waiting for the device fails. */
void tn__granules_trim(tn__granules *granules);
/* Checks the invariants: NULL, or a sentence about one that is broken. O(n). */
const char *tn__granules_check(const tn__granules *granules);

#endif
