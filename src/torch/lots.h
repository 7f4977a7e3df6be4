/* lots.h - which block begins at an offset: a table of those that are handed out. */
#ifndef TN_TORCH_LOTS_H
#define TN_TORCH_LOTS_H

#include "base/base.h"
#include "device/turns.h"

typedef struct tn__lot {
    uint64_t offset, size;            /* size 0: an empty place of the table */
    uint64_t id;                      /* of the pool */
    uint64_t name;                    /* in the trace */
    uint32_t stream_count;            /* 0: on more streams than are remembered */
    void *streams[TN__TURNS_STREAMS]; /* its own first */
} tn__lot;

typedef struct tn__lots {
    const tn_context *context;
    tn__lot *places; /* [room], a power of two */
    size_t room, count;
} tn__lots;

void tn__lots_init(tn__lots *lots, const tn_context *context);
void tn__lots_release(tn__lots *lots);
/* Room for one more; false: no memory. */
bool tn__lots_room(tn__lots *lots);
void tn__lots_add(tn__lots *lots, const tn__lot *block); /* with room, and not there yet */
/* NULL: none begins there. Good until the next change. */
tn__lot *tn__lots_find(const tn__lots *lots, uint64_t offset);
void tn__lots_remove(tn__lots *lots, tn__lot *block);

#endif
