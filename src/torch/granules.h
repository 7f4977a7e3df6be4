/* granules.h - a range of addresses of a device, with memory where blocks are and not elsewhere.
 *
 * Memory is had in granules (2 MiB on the GPUs of 2026). One that no block lies in any more keeps
 * its place until it is wanted elsewhere: then the device is waited for, and it is mapped there. So
 * holes between blocks cost addresses alone. What is had beyond what blocks lay in at once is one
 * part in TN__GRANULES_BESIDE, and a granule more for each TN__GRANULES_WAITS waits, so that a
 * program that moves more than that in each of its steps does not do so for ever.
 *
 * Threads: the caller holds a lock, and the device is the current one. Other devices of the process
 * may not touch the range: access is given to its own alone.
 */
#ifndef TN_TORCH_GRANULES_H
#define TN_TORCH_GRANULES_H

#include "device/cuda.h"

enum {
    TN__GRANULES_BESIDE = 512,
    TN__GRANULES_WAITS = 16,
    TN__GRANULES_BATCH = 32, /* a wait makes this part of all spare, if so much is idle */
};

typedef struct tn__granule {
    uint64_t handle; /* with `is_here` */
    uint32_t users;  /* blocks that lie in it */
    bool is_here;    /* memory is mapped ... */
    bool is_open;    /* ... and the device may use it */
} tn__granule;

typedef struct tn__granules {
    const tn_context *context;
    const tn__cuda *cuda;
    tn__cuda_pages driver;
    int device;
    tn__cuda_place place;
    uint64_t base;         /* address of the range; 0: none */
    uint64_t size;         /* bytes of a granule */
    uint64_t limit;        /* granules that may be had at once */
    tn__granule *table;    /* [count], by address */
    uint64_t count, reach; /* from `reach` on none ever had memory */
    uint64_t *spare;       /* handles that are mapped nowhere */
    size_t spare_count, spare_room;
    uint64_t had, had_peak;   /* granules that exist, mapped or spare */
    uint64_t used, used_peak; /* granules that blocks lie in */
    uint64_t waits, moved; /* times that the device was waited for; granules that went elsewhere */
} tn__granules;

/* `budget`: bytes that may be had, 0: as many as the device gives. The range is four times as long,
 * or as the memory of the device. Errors: E_UNSUPPORTED (driver or device cannot do it), E_INVALID
 * (a budget below a granule), E_NO_MEMORY, E_IO. On failure there is nothing to close. */
tn_status tn__granules_open(tn__granules *granules, const tn_context *context, const tn__cuda *cuda,
                            int device, uint64_t budget, tn_error *error);
/* Waits for the device, and gives all back. `is_current`: false where the device could not be made
 * the current one; then it is asked for nothing, and what it has is lost. */
void tn__granules_close(tn__granules *granules, bool is_current);
/* Memory for a block at [offset, offset + size). Errors: E_EXHAUSTED (over the limit, or the device
 * has no more), E_IO, E_NO_MEMORY of the host. On failure blocks are what they were. */
tn_status tn__granules_take(tn__granules *granules, uint64_t offset, uint64_t size,
                            tn_error *error);
/* The block is no more; what is queued may still use it. */
void tn__granules_give(tn__granules *granules, uint64_t offset, uint64_t size);
/* What no block lies in goes back to the device; where that cannot be waited for, nothing does. */
void tn__granules_trim(tn__granules *granules);
/* Everything that must hold: NULL, or what does not. O(n). */
const char *tn__granules_check(const tn__granules *granules);

#endif
