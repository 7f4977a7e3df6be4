/* places.h - where bodies lie: at the layout's offsets, or wherever a pool puts them. */
#ifndef TN_ENGINE_PLACES_H
#define TN_ENGINE_PLACES_H

#include <tenure/pool.h>
#include <tenure/program.h>

#include "base/base.h"

typedef struct tn__held { /* bytes of the arena */
    uint64_t lo, hi;
} tn__held;

typedef struct tn__places {
    const tn_occupancy *occupancy;
    uint8_t *arena; /* where kernels see it */
    uint64_t bytes; /* of it */
    uint32_t body_count;
    uint32_t static_count; /* the last of them: static memory inside the arena */
    uint64_t *offset;      /* [bodies] from the start of the arena; with a pool: now */
    uint64_t *block;       /* [bodies] id of the pool's block */
    uint32_t *tag;         /* [bodies] of the pool: who holds it */
    uint32_t *named;       /* [bodies] the first life there, which names it; TN_NONE: nobody's */
    uint32_t *life_at;     /* [steps + 2] lives by their first step */
    tn_pool *pool;         /* NULL: a layout */
    tn__held *held;        /* blocks that last longer than a run */
    uint32_t held_count;
} tn__places;

/* Tables, and the offsets of `layout` (NULL: none yet). Errors: E_NO_MEMORY, E_UNSUPPORTED (a view
 * whose place nobody knows). */
tn_status tn__places_make(tn__places *places, const tn_occupancy *occupancy,
                          const tn_layout *layout, tn__arena *arena, tn_error *error);
/* The arena is a pool of `capacity` bytes, to be destroyed with `release`; `held_room` blocks may
 * be held. Errors: those of the pool. */
tn_status tn__places_pool(tn__places *places, const char *name, uint64_t capacity,
                          uint32_t held_room, const tn_context *context, tn__arena *arena,
                          tn_error *error);
void tn__places_release(tn__places *places);
/* A block of the pool that stays. */
tn_status tn__places_hold(tn__places *places, const tn_static_block *block, uint64_t *offset,
                          tn_error *error);

/* Static memory inside the arena: a body that lasts longer than a run. */
void tn__places_keep(tn__places *places, tn_body_id body);

/* The life that names a body; NULL: none. */
const tn_life *tn__places_life(const tn__places *places, tn_body_id body);
static inline bool tn__places_is_static(const tn__places *places, tn_body_id body) {
    return body >= places->body_count - places->static_count;
}
static inline uint64_t tn__places_of(const tn__places *places, const tn_life *life) {
    return places->offset[life->body] + life->delta;
}

#endif
