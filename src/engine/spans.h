/* spans.h - begins and ends the bytes that bodies hold, from step to step: poison, blocks of a
 * pool. */
#ifndef TN_ENGINE_SPANS_H
#define TN_ENGINE_SPANS_H

#include "base/lists.h"
#include "engine/places.h"
#include "engine/streams.h"
#include "engine/tell.h"

/* Bytes of the arena that a body holds during [first, last). */
typedef struct tn__step_span {
    uint32_t first, last;
    uint64_t lo, hi; /* bytes of the body */
    tn_body_id body;
    bool live;
} tn__step_span;

typedef struct tn__spans {
    tn__places *places;
    tn__tell *tell;
    tn__streams *streams;
    uint32_t steps;
    tn__step_span *spans;
    uint32_t count;         /* 0: spans are not tracked */
    tn__lists begins, ends; /* [steps + 1] the spans with this step as `first`, as `last` */
    uint8_t *owned;         /* [arena] poison: state of each byte; NULL: no poison */
    /* [late_count] ended spans with bytes that a copy still holds */
    uint32_t *late;
    uint32_t late_count;
} tn__spans;

tn_status tn__spans_make(tn__spans *spans, tn__places *places, tn__tell *tell, tn__streams *streams,
                         bool poison, tn__arena *arena, tn_error *error);
void tn__spans_start(tn__spans *spans); /* a run begins: before step 0 */
/* Step `from` has run (TN_NONE: none yet); `to` comes next: the following step or any other. */
tn_status tn__spans_move(tn__spans *spans, uint32_t from, uint32_t to, tn_error *error);
/* Poison: checks that free bytes close to these bytes of the arena were not written. */
tn_status tn__spans_around(const tn__spans *spans, uint64_t lo, uint64_t bytes, const char *name,
                           tn_error *error);
void tn__spans_finish(tn__spans *spans); /* a run has ended, well or not: releases all spans */
/* All copies are over. Poison: checks that free bytes were not written. */
tn_status tn__spans_check(tn__spans *spans, tn_error *error);

#endif
