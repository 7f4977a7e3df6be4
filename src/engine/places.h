/* places.h - the places of bodies: at the offsets of a layout, or at addresses that a pool chooses.
 */
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
    uint8_t *arena; /* address as kernels see it */
    uint64_t bytes; /* bytes of the arena */
    uint32_t body_count;
    uint32_t static_count; /* the last bodies are static memory inside the arena */
    /* [bodies] from the start of the arena; with a pool: the current offset */
    uint64_t *offset;
    uint64_t *block; /* [bodies] id of the pool's block */
    uint32_t *tag;   /* [bodies] the pool's tag that names the holder */
    /* [bodies] the first live range in the body, which names it; TN_NONE: no live range */
    uint32_t *named;
    uint32_t *life_at; /* [steps + 2] live ranges by their first step */
    tn_pool *pool;     /* NULL: a layout */
    tn__held *held;    /* blocks of the pool that outlast a run */
    uint32_t held_count;
} tn__places;

/* Builds the tables, with the offsets of `layout` (NULL: none yet). Errors: E_NO_MEMORY,
 * E_UNSUPPORTED (the place of a view is not known). */
tn_status tn__places_make(tn__places *places, const tn_occupancy *occupancy,
                          const tn_layout *layout, tn__arena *arena, tn_error *error);
/* Makes the arena a pool of `capacity` bytes; destroy it with `release`. `held_room` blocks may be
 * held. Errors: those of the pool. */
tn_status tn__places_pool(tn__places *places, const char *name, uint64_t capacity,
                          uint32_t held_room, const tn_context *context, tn__arena *arena,
                          tn_error *error);
void tn__places_release(tn__places *places);
/* Takes a block of the pool that outlasts a run. */
tn_status tn__places_hold(tn__places *places, const tn_static_block *block, uint64_t *offset,
                          tn_error *error);

/* Marks a body as static memory inside the arena, which outlasts a run. */
void tn__places_keep(tn__places *places, tn_body_id body);

/* The live range that names a body; NULL: none. */
const tn_life *tn__places_life(const tn__places *places, tn_body_id body);
static inline bool tn__places_is_static(const tn__places *places, tn_body_id body) {
    return body >= places->body_count - places->static_count;
}
static inline uint64_t tn__places_of(const tn__places *places, const tn_life *life) {
    return places->offset[life->body] + life->delta;
}

#endif
