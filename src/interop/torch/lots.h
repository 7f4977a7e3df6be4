/* lots.h - a table of the allocated blocks, by the offset at which each begins. */
#ifndef TN_TORCH_LOTS_H
#define TN_TORCH_LOTS_H

#include "base/base.h"
#include "memory/device/stream_fences.h"

typedef struct tn__lot {
    uint64_t offset, size;                    /* size 0: an empty place of the table */
    uint64_t id;                              /* the pool's id */
    uint64_t name;                            /* in the trace */
    uint32_t stream_count;                    /* 0: more streams than can be remembered */
    void *streams[TN__STREAM_FENCES_STREAMS]; /* its own first */
} tn__lot;

typedef struct tn__lots {
    const tn_context *context;
    tn__lot *places; /* [room], a power of two */
    size_t room, count;
} tn__lots;

void tn__lots_init(tn__lots *lots, const tn_context *context);
void tn__lots_release(tn__lots *lots);
/* Room for one more; false: out of memory. */
bool tn__lots_room(tn__lots *lots);
void tn__lots_add(tn__lots *lots, const tn__lot *block); /* needs room; must not exist yet */
/* NULL: no block begins there. Valid until the next change. */
tn__lot *tn__lots_find(const tn__lots *lots, uint64_t offset);
void tn__lots_remove(tn__lots *lots, tn__lot *block);

#endif
