/* spans.c - begins and ends spans, from step to step of a run. A span is a range of bytes that a
 * buffer occupies during the steps [first, last): a section of a buffer in a layout, or a whole
 * buffer in a pool.
 *
 * Control flow may skip or repeat steps. In every case, exactly the spans that contain step s are
 * active when step s runs. Spans have two uses:
 *
 *   pool     a block is allocated when a span begins, and freed when the span ends
 *   poison   an option that finds writes outside of buffers: all bytes of the arena that no span
 *            occupies are filled with NaNs. When a span begins, its bytes must still be NaNs;
 *            otherwise an instruction wrote outside its own buffers. When a span ends, its bytes
 *            become NaNs. If a buffer shrinks, the bytes that remain in it keep their data.
 *
 * If a copy still uses the bytes of a span that ends, the bytes are released only after the copy.
 * If another span begins in these bytes before that, its instruction must have waited for the copy,
 * and poison checks that the program's signals contain this wait. A pool has no notion of streams,
 * so freeing a block waits for the copy.
 *
 * Cost: O(spans) in a run and O(spans) for each jump of control flow. Poison: O(bytes of the spans
 * that begin and end).
 */
#include "engine/on_demand.h"

#include <stdio.h>

/* every byte of free memory: a NaN in all float types, -1 in signed integers */
#define SPANS_POISON 0xffu
/* bytes checked on each side of a buffer: a loop that runs past the end writes about one vector */
#define SPANS_AROUND 64u

enum { SPANS_NOBODY, SPANS_HELD, SPANS_PASSED_ON, SPANS_COPIED };

static const char *spans_name(const tn__spans *spans, tn_body_id body) {
    const tn_problem *problem = tn_occupancy_problem(spans->places->occupancy);
    const char *name = tn_problem_body(problem, body)->name;
    return name != NULL ? name : "";
}

/* --- tables --- */

static uint32_t spans_count(const tn__places *places, bool pieces) {
    const tn_problem *problem = tn_occupancy_problem(places->occupancy);
    uint32_t count = 0;
    for (tn_body_id b = 0; b < places->body_count; b++)
        if (!tn__places_is_static(places, b))
            count += pieces ? tn_problem_body(problem, b)->piece_count : 1;
    return count;
}

static void spans_fill(tn__spans *spans, bool pieces) {
    const tn_problem *problem = tn_occupancy_problem(spans->places->occupancy);
    tn__step_span *at = spans->spans;
    for (tn_body_id b = 0; b < spans->places->body_count; b++) {
        const tn_body *body = tn_problem_body(problem, b);
        /* static memory is occupied during all runs, so it is not tracked by steps */
        if (tn__places_is_static(spans->places, b)) continue;
        for (uint32_t p = 0; p < body->piece_count && pieces; p++)
            *at++ = (tn__step_span){.first = (uint32_t)body->pieces[p].first,
                                    .last = (uint32_t)body->pieces[p].last,
                                    .lo = body->pieces[p].lo,
                                    .hi = body->pieces[p].hi,
                                    .body = b};
        if (!pieces)
            *at++ = (tn__step_span){.first = (uint32_t)body->first,
                                    .last = (uint32_t)body->last,
                                    .hi = body->size,
                                    .body = b};
    }
}

static void spans_fill_begins(void *self, tn__lists *begins) {
    const tn__spans *spans = self;
    for (uint32_t i = 0; i < spans->count; i++) tn__lists_add(begins, spans->spans[i].first, i);
}

static void spans_fill_ends(void *self, tn__lists *ends) {
    const tn__spans *spans = self;
    for (uint32_t i = 0; i < spans->count; i++) tn__lists_add(ends, spans->spans[i].last, i);
}

tn_status tn__spans_make(tn__spans *spans, tn__places *places, tn__tell *tell, tn__streams *streams,
                         bool poison, tn__arena *arena, tn_error *error) {
    bool pieces = places->pool == NULL && poison;
    *spans = (tn__spans){.places = places,
                         .tell = tell,
                         .streams = streams,
                         .steps = tn_program_count(tn_occupancy_program(places->occupancy))};
    if (places->pool == NULL && !poison && tell->trace == NULL) return TN_OK;
    spans->count = spans_count(places, pieces);
    spans->spans = tn__arena_array(arena, spans->count, sizeof *spans->spans);
    spans->late = tn__arena_array(arena, spans->count, sizeof *spans->late);
    if (poison) spans->owned = tn__arena_array(arena, places->bytes, 1);
    if (spans->spans == NULL || spans->late == NULL || (poison && spans->owned == NULL))
        return tn__no_memory(error, "live ranges by step");
    spans_fill(spans, pieces);
    if (!tn__lists_make(&spans->begins, spans->steps + 1, arena, spans_fill_begins, spans) ||
        !tn__lists_make(&spans->ends, spans->steps + 1, arena, spans_fill_ends, spans))
        return tn__no_memory(error, "live ranges by step");
    return TN_OK;
}

/* --- checks when a span (bytes that a buffer occupies for some steps) begins --- */

static void spans_tell(const tn__spans *spans, uint32_t step, tn_body_id body, bool frees) {
    tn__tell_block(spans->tell, step, body, tn__places_life(spans->places, body), frees);
}

static bool spans_covers(const tn__step_span *span, uint32_t step) {
    return span->first <= step && step < span->last;
}

static tn_status spans_dirty(uint64_t at, const char *whose, tn_error *error) {
    TN_FAIL(error, TN_E_CONFLICT,
            "byte %llu of the arena was written while nothing lived there (found when looking at "
            "'%.80s')",
            (unsigned long long)at, whose);
}

static tn_status spans_begin_poison(tn__spans *spans, const tn__step_span *span, tn_error *error) {
    uint64_t base = spans->places->offset[span->body];
    for (uint64_t at = base + span->lo; at < base + span->hi; at++) {
        if (spans->owned[at] == SPANS_HELD || spans->owned[at] == SPANS_COPIED)
            TN_FAIL(error, TN_E_CONFLICT,
                    "'%.80s' begins at byte %llu of the arena, which another still holds",
                    spans_name(spans, span->body), (unsigned long long)at);
        if (spans->owned[at] == SPANS_NOBODY && spans->places->arena[at] != SPANS_POISON)
            return spans_dirty(at, spans_name(spans, span->body), error);
        spans->owned[at] = SPANS_HELD;
    }
    return TN_OK;
}

/* --- spans that end while a copy still uses their bytes --- */

static const uint8_t *spans_data(const tn__spans *spans, const tn__step_span *span) {
    return spans->places->arena + spans->places->offset[span->body] + span->lo;
}

/* Marks the bytes that a buffer occupied as free if they are in the given state, and fills them
 * with NaNs. */
static void spans_release(tn__spans *spans, const tn__step_span *span, uint8_t state,
                          uint32_t step) {
    uint64_t base = spans->places->offset[span->body];
    for (uint64_t at = base + span->lo; at < base + span->hi && spans->owned != NULL; at++) {
        if (spans->owned[at] != state) continue;
        spans->owned[at] = SPANS_NOBODY;
        spans->places->arena[at] = SPANS_POISON;
    }
    spans_tell(spans, step, span->body, true);
}

/* Frees bytes of buffers that have ended while a copy used them, if no copy uses them any more. */
static void spans_look(tn__spans *spans, uint32_t step) {
    for (uint32_t i = 0; i < spans->late_count;) {
        const tn__step_span *span = &spans->spans[spans->late[i]];
        if (tn__streams_holder(spans->streams, spans_data(spans, span), span->hi - span->lo) !=
            TN_NONE) {
            i++;
            continue;
        }
        spans_release(spans, span, SPANS_COPIED, step);
        spans->late[i] = spans->late[--spans->late_count];
    }
}

/* Handles a span that begins in bytes that a copy used when this was last checked. Fails if the
 * program does not guarantee that the copy has ended. Bytes that the same buffer keeps from an
 * earlier span are allowed, because a copy may still read them. */
static tn_status spans_take_late(tn__spans *spans, const tn__step_span *span, uint32_t step,
                                 tn_error *error) {
    if (spans->late_count == 0 || spans->owned == NULL) return TN_OK;
    const uint8_t *data = spans_data(spans, span);
    const uint8_t *owned = spans->owned + (data - spans->places->arena);
    if (memchr(owned, SPANS_COPIED, (size_t)(span->hi - span->lo)) == NULL) return TN_OK;
    uint32_t holder = tn__streams_holder(spans->streams, data, span->hi - span->lo);
    if (holder != TN_NONE && !tn__known_over(spans->streams, holder))
        TN_FAIL(error, TN_E_CONFLICT,
                "'%.80s' takes bytes that instruction %u is copying: nothing here says that it is "
                "over",
                spans_name(spans, span->body), spans->streams->items[holder].step);
    TN_TRY(tn__streams_settle(spans->streams, data, span->hi - span->lo));
    spans_look(spans, step);
    return TN_OK;
}

/* --- the beginning and the end of a span --- */

static tn_status spans_begin(tn__spans *spans, tn__step_span *span, uint32_t step,
                             tn_error *error) {
    TN_TRY(spans_take_late(spans, span, step, error));
    if (spans->places->on_demand != NULL) {
        /* in passive mode, the buffer gets its bytes later, when the step accesses it */
        tn__on_demand_begin(spans->places->on_demand, span->body);
    } else if (spans->places->pool != NULL) {
        tn_allocation block;
        tn_pool_request request = {.size = span->hi, .tag = spans->places->tag[span->body]};
        TN_TRY(tn_pool_alloc(spans->places->pool, &request, &block, error));
        spans->places->offset[span->body] = block.offset;
        spans->places->block[span->body] = block.id;
    }
    span->live = true;
    spans_tell(spans, step, span->body, false);
    return spans->owned != NULL ? spans_begin_poison(spans, span, error) : TN_OK;
}

static tn_status spans_free(tn__spans *spans, tn_body_id body, tn_error *error) {
    tn__places *places = spans->places;
    if (places->on_demand != NULL) return tn__on_demand_end(places->on_demand, body, error);
    return tn_pool_free(places->pool, places->block[body], error);
}

static tn_status spans_end(tn__spans *spans, tn__step_span *span, uint32_t step, tn_error *error) {
    const uint8_t *data = spans_data(spans, span);
    uint64_t bytes = span->hi - span->lo;
    span->live = false;
    if (spans->places->pool != NULL) {
        TN_TRY(tn__streams_settle(spans->streams, data, bytes));
        spans_release(spans, span, SPANS_HELD, step);
        return spans_free(spans, span->body, error);
    }
    if (tn__streams_holder(spans->streams, data, bytes) == TN_NONE) {
        spans_release(spans, span, SPANS_HELD, step);
        return TN_OK;
    }
    uint64_t first = (uint64_t)(data - spans->places->arena);
    for (uint64_t at = first; at < first + bytes && spans->owned != NULL; at++)
        if (spans->owned[at] == SPANS_HELD) spans->owned[at] = SPANS_COPIED;
    spans->late[spans->late_count++] = (uint32_t)(span - spans->spans);
    return TN_OK;
}

/* Marks the bytes that a buffer keeps when one of its spans ends and its next span begins. */
static void spans_pass_on(tn__spans *spans, const tn__step_span *ends,
                          const tn__step_span *begins) {
    if (spans->owned == NULL || ends->body != begins->body) return;
    uint64_t base = spans->places->offset[ends->body];
    uint64_t lo = ends->lo > begins->lo ? ends->lo : begins->lo;
    uint64_t hi = ends->hi < begins->hi ? ends->hi : begins->hi;
    if (lo < hi) memset(spans->owned + base + lo, SPANS_PASSED_ON, hi - lo);
}

/* --- the spans that begin and end when the run goes from one step to another --- */

/* Moves to the following step: marks bytes as free or occupied for the buffers that end or begin
 * there. */
static tn_status spans_next(tn__spans *spans, uint32_t to, tn_error *error) {
    uint32_t first = spans->begins.first[to], last = spans->begins.first[to + 1];
    for (uint32_t e = spans->ends.first[to]; e < spans->ends.first[to + 1]; e++)
        for (uint32_t b = first; b < last && spans->owned != NULL; b++)
            if (spans->spans[spans->ends.items[e]].live)
                spans_pass_on(spans, &spans->spans[spans->ends.items[e]],
                              &spans->spans[spans->begins.items[b]]);
    for (uint32_t e = spans->ends.first[to]; e < spans->ends.first[to + 1]; e++)
        if (spans->spans[spans->ends.items[e]].live)
            TN_TRY(spans_end(spans, &spans->spans[spans->ends.items[e]], to, error));
    for (uint32_t b = first; b < last; b++)
        if (!spans->spans[spans->begins.items[b]].live)
            TN_TRY(spans_begin(spans, &spans->spans[spans->begins.items[b]], to, error));
    return TN_OK;
}

/* Moves to any step, forward or backward: marks exactly the bytes of the buffers that are live at
 * this step as occupied. */
static tn_status spans_jump(tn__spans *spans, uint32_t to, tn_error *error) {
    for (uint32_t e = 0; e < spans->count && spans->owned != NULL; e++) {
        const tn__step_span *ends = &spans->spans[e];
        if (!ends->live || spans_covers(ends, to)) continue;
        for (uint32_t b = e; b < spans->count && spans->spans[b].body == ends->body; b++)
            if (!spans->spans[b].live && spans_covers(&spans->spans[b], to))
                spans_pass_on(spans, ends, &spans->spans[b]);
        for (uint32_t b = e; b-- > 0 && spans->spans[b].body == ends->body;)
            if (!spans->spans[b].live && spans_covers(&spans->spans[b], to))
                spans_pass_on(spans, ends, &spans->spans[b]);
    }
    for (uint32_t i = 0; i < spans->count; i++)
        if (spans->spans[i].live && !spans_covers(&spans->spans[i], to))
            TN_TRY(spans_end(spans, &spans->spans[i], to, error));
    for (uint32_t i = 0; i < spans->count; i++)
        if (!spans->spans[i].live && spans_covers(&spans->spans[i], to))
            TN_TRY(spans_begin(spans, &spans->spans[i], to, error));
    return TN_OK;
}

void tn__spans_start(tn__spans *spans) {
    if (spans->owned == NULL) return;
    memset(spans->owned, SPANS_NOBODY, spans->places->bytes);
    /* static memory that lies in the arena is marked as used */
    for (uint32_t t = 0; t < spans->places->held_count; t++)
        memset(spans->owned + spans->places->held[t].lo, SPANS_HELD,
               spans->places->held[t].hi - spans->places->held[t].lo);
    for (uint64_t at = 0; at < spans->places->bytes; at++)
        if (spans->owned[at] == SPANS_NOBODY) spans->places->arena[at] = SPANS_POISON;
}

tn_status tn__spans_move(tn__spans *spans, uint32_t from, uint32_t to, tn_error *error) {
    if (spans->count == 0) return TN_OK;
    if (spans->late_count > 0) spans_look(spans, to);
    return from == TN_NONE || to == from + 1 ? spans_next(spans, to, error)
                                             : spans_jump(spans, to, error);
}

void tn__spans_finish(tn__spans *spans) {
    /* the engine tracks occupied bytes, so it has at least one step */
    uint32_t last = spans->steps - 1;
    spans_look(spans, last);
    for (uint32_t i = 0; i < spans->count; i++) {
        tn__step_span *span = &spans->spans[i];
        if (!span->live) continue;
        spans_tell(spans, last, span->body, true);
        if (spans->places->pool != NULL) (void)!spans_free(spans, span->body, NULL);
        span->live = false;
    }
}

/* --- canaries --- */

tn_status tn__spans_around(const tn__spans *spans, uint64_t lo, uint64_t bytes, const char *name,
                           tn_error *error) {
    if (spans->owned == NULL) return TN_OK;
    if (lo >= spans->places->bytes) return TN_OK;
    uint64_t hi = lo + bytes;
    uint64_t first = lo > SPANS_AROUND ? lo - SPANS_AROUND : 0;
    uint64_t last =
        hi + SPANS_AROUND < spans->places->bytes ? hi + SPANS_AROUND : spans->places->bytes;
    for (uint64_t at = first; at < last; at++)
        if (spans->owned[at] == SPANS_NOBODY && spans->places->arena[at] != SPANS_POISON)
            return spans_dirty(at, name, error);
    return TN_OK;
}

tn_status tn__spans_check(tn__spans *spans, tn_error *error) {
    if (spans->count > 0) spans_look(spans, spans->steps - 1);
    for (uint64_t at = 0; at < spans->places->bytes && spans->owned != NULL; at++)
        if (spans->owned[at] == SPANS_NOBODY && spans->places->arena[at] != SPANS_POISON)
            return spans_dirty(at, "the end of the run", error);
    return TN_OK;
}
