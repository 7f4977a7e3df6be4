/* spans.h - what begins and ends to hold bytes from step to step: poison, blocks of a pool. */
#ifndef TN_ENGINE_SPANS_H
#define TN_ENGINE_SPANS_H

#include "engine/places.h"
#include "engine/streams.h"
#include "engine/tell.h"

/* Bytes of the arena that something holds during [first, last). */
typedef struct tn__span {
    uint32_t first, last;
    uint64_t lo, hi; /* of the body */
    tn_body_id body;
    bool live;
} tn__span;

typedef struct tn__spans {
    tn__places *places;
    tn__tell *tell;
    tn__streams *streams;
    uint32_t steps;
    tn__span *spans;
    uint32_t count;             /* 0: nobody wants to know */
    uint32_t *begin_at, *begin; /* [steps + 2], [count]: which begin at a step */
    uint32_t *end_at, *end;     /* those whose `last` is the step */
    uint8_t *owned;             /* [arena] poison: who holds each byte; NULL: none */
    uint32_t *late;             /* [late_count] ended, but for copies that still hold their bytes */
    uint32_t late_count;
} tn__spans;

tn_status tn__spans_make(tn__spans *spans, tn__places *places, tn__tell *tell, tn__streams *streams,
                         bool poison, tn__arena *arena, tn_error *error);
void tn__spans_start(tn__spans *spans); /* of a run: before step 0 */
/* Step `from` has run (TN_NONE: none yet), `to` comes next, behind it or anywhere. */
tn_status tn__spans_move(tn__spans *spans, uint32_t from, uint32_t to, tn_error *error);
/* Poison: nothing was written close to these bytes of the arena where nothing lives. */
tn_status tn__spans_around(const tn__spans *spans, uint64_t lo, uint64_t bytes, const char *name,
                           tn_error *error);
void tn__spans_finish(tn__spans *spans); /* a run ended, well or not: all is released */
/* All copies are over. Poison: nothing was written where nothing lives. */
tn_status tn__spans_check(tn__spans *spans, tn_error *error);

#endif
