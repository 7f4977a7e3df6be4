/* spans.c - what begins and ends to hold bytes as the run goes from step to step.
 *
 * A span is held during [first, last): a piece of a body's time and bytes, or with a pool the body
 * from its first step to its last. Whatever way control flow takes, at step s just those spans are
 * held that cover s. Two things hang on that:
 *
 *   pool     a span that begins is allocated, one that ends is freed
 *   poison   bytes that nobody holds are NaNs, everywhere in the arena. A span that begins must
 *            find them so, or somebody wrote where nothing of his was; one that ends makes them so.
 *            Where a body shrinks to a part of itself, that part is kept.
 *
 * Cost: O(spans) a run, and O(spans) for each jump; poison: O(bytes that begin and end).
 */
#include "engine/engine.h"

#include <stdio.h>

#define SPANS_POISON 0xffu /* of all bytes: a NaN of every width, -1 */
#define SPANS_AROUND 64u

enum { SPANS_NOBODY, SPANS_HELD, SPANS_PASSED_ON };

static const char *spans_name(const tn_engine *engine, const tn__span *span) {
    const char *name = tn_problem_body(tn_occupancy_problem(engine->occupancy), span->body)->name;
    return name != NULL ? name : "";
}

/* --- tables --- */

static uint32_t spans_count(const tn_engine *engine, bool pieces) {
    const tn_problem *problem = tn_occupancy_problem(engine->occupancy);
    uint32_t count = 0;
    for (tn_body_id b = 0; b < engine->body_count; b++)
        count += pieces ? tn_problem_body(problem, b)->piece_count : 1;
    return count;
}

static void spans_fill(tn_engine *engine, bool pieces) {
    const tn_problem *problem = tn_occupancy_problem(engine->occupancy);
    tn__span *at = engine->spans.spans;
    for (tn_body_id b = 0; b < engine->body_count; b++) {
        const tn_body *body = tn_problem_body(problem, b);
        for (uint32_t p = 0; p < body->piece_count && pieces; p++)
            *at++ = (tn__span){.first = (uint32_t)body->pieces[p].first,
                               .last = (uint32_t)body->pieces[p].last,
                               .lo = body->pieces[p].lo,
                               .hi = body->pieces[p].hi,
                               .body = b};
        if (!pieces)
            *at++ = (tn__span){.first = (uint32_t)body->first,
                               .last = (uint32_t)body->last,
                               .hi = body->size,
                               .body = b};
    }
}

/* Lists of spans by a step of theirs: a counting sort. */
static void spans_index(tn__spans *spans, uint32_t steps, bool by_end, uint32_t *at,
                        uint32_t *list) {
    for (uint32_t i = 0; i < spans->count; i++)
        at[(by_end ? spans->spans[i].last : spans->spans[i].first) + 1]++;
    for (uint32_t s = 0; s <= steps; s++) at[s + 1] += at[s];
    for (uint32_t i = spans->count; i-- > 0;) /* backwards, filled from behind: order is kept */
        list[--at[(by_end ? spans->spans[i].last : spans->spans[i].first) + 1]] = i;
    for (uint32_t s = 0; s <= steps; s++) at[s] = at[s + 1];
    at[steps + 1] = spans->count;
}

tn_status tn__spans_make(tn_engine *engine) {
    const tn_context *context = &engine->context;
    tn__spans *spans = &engine->spans;
    bool pieces = engine->pool == NULL && engine->options.poison;
    size_t steps = (size_t)tn_program_count(engine->program) + 2;
    if (engine->pool == NULL && !engine->options.poison && engine->options.trace == NULL)
        return TN_OK;
    spans->count = spans_count(engine, pieces);
    spans->spans = tn__alloc_array(context, spans->count, sizeof *spans->spans);
    spans->begin = tn__alloc_array(context, spans->count, sizeof *spans->begin);
    spans->end = tn__alloc_array(context, spans->count, sizeof *spans->end);
    spans->begin_at = tn__alloc_array(context, steps, sizeof *spans->begin_at);
    spans->end_at = tn__alloc_array(context, steps, sizeof *spans->end_at);
    if (engine->options.poison) engine->owned = tn__alloc_array(context, engine->arena_bytes, 1);
    if (spans->spans == NULL || spans->begin == NULL || spans->end == NULL ||
        spans->begin_at == NULL || spans->end_at == NULL ||
        (engine->options.poison && engine->owned == NULL))
        return tn__no_memory(engine->error, "what lives when");
    spans_fill(engine, pieces);
    spans_index(spans, (uint32_t)steps - 2, false, spans->begin_at, spans->begin);
    spans_index(spans, (uint32_t)steps - 2, true, spans->end_at, spans->end);
    return TN_OK;
}

void tn__spans_release(tn_engine *engine) {
    const tn_context *context = &engine->context;
    tn__spans *spans = &engine->spans;
    size_t steps = (size_t)tn_program_count(engine->program) + 2;
    tn__free(context, spans->spans, spans->count * sizeof *spans->spans);
    tn__free(context, spans->begin, spans->count * sizeof *spans->begin);
    tn__free(context, spans->end, spans->count * sizeof *spans->end);
    tn__free(context, spans->begin_at, steps * sizeof *spans->begin_at);
    tn__free(context, spans->end_at, steps * sizeof *spans->end_at);
    tn__free(context, engine->owned, engine->arena_bytes);
}

/* --- one span --- */

static bool spans_covers(const tn__span *span, uint32_t step) {
    return span->first <= step && step < span->last;
}

static tn_status spans_dirty(const tn_engine *engine, uint64_t at, const char *whose) {
    TN_FAIL(engine->error, TN_E_CONFLICT,
            "byte %llu of the arena was written while nothing lived there (found when looking at "
            "'%.80s')",
            (unsigned long long)at, whose);
}

static tn_status spans_begin_poison(tn_engine *engine, const tn__span *span) {
    uint64_t base = engine->body_offset[span->body];
    for (uint64_t at = base + span->lo; at < base + span->hi; at++) {
        if (engine->owned[at] == SPANS_HELD)
            TN_FAIL(engine->error, TN_E_CONFLICT,
                    "'%.80s' begins at byte %llu of the arena, which another still holds",
                    spans_name(engine, span), (unsigned long long)at);
        if (engine->owned[at] == SPANS_NOBODY && engine->arena[at] != SPANS_POISON)
            return spans_dirty(engine, at, spans_name(engine, span));
        engine->owned[at] = SPANS_HELD;
    }
    return TN_OK;
}

static tn_status spans_begin(tn_engine *engine, tn__span *span, uint32_t step) {
    if (engine->pool != NULL) {
        tn_allocation block;
        tn_pool_request request = {.size = span->hi, .tag = engine->body_tag[span->body]};
        TN_TRY(tn_pool_alloc(engine->pool, &request, &block, engine->error));
        engine->body_offset[span->body] = block.offset;
        engine->body_block[span->body] = block.id;
    }
    span->live = true;
    tn__tell_block(engine, step, span->body, false);
    return engine->owned != NULL ? spans_begin_poison(engine, span) : TN_OK;
}

static tn_status spans_end(tn_engine *engine, tn__span *span, uint32_t step) {
    uint64_t base = engine->body_offset[span->body];
    span->live = false;
    for (uint64_t at = base + span->lo; at < base + span->hi && engine->owned != NULL; at++) {
        if (engine->owned[at] == SPANS_PASSED_ON) continue;
        engine->owned[at] = SPANS_NOBODY;
        engine->arena[at] = SPANS_POISON;
    }
    tn__tell_block(engine, step, span->body, true);
    if (engine->pool == NULL) return TN_OK;
    return tn_pool_free(engine->pool, engine->body_block[span->body], engine->error);
}

/* Bytes that a body keeps although the span ends: those of one that begins now. */
static void spans_pass_on(tn_engine *engine, const tn__span *ends, const tn__span *begins) {
    if (engine->owned == NULL || ends->body != begins->body) return;
    uint64_t base = engine->body_offset[ends->body];
    uint64_t lo = ends->lo > begins->lo ? ends->lo : begins->lo;
    uint64_t hi = ends->hi < begins->hi ? ends->hi : begins->hi;
    if (lo < hi) memset(engine->owned + base + lo, SPANS_PASSED_ON, hi - lo);
}

/* --- from step to step --- */

/* Straight on: what ends and begins stands in the lists. */
static tn_status spans_next(tn_engine *engine, uint32_t to) {
    tn__spans *spans = &engine->spans;
    uint32_t first = spans->begin_at[to], last = spans->begin_at[to + 1];
    for (uint32_t e = spans->end_at[to]; e < spans->end_at[to + 1]; e++)
        for (uint32_t b = first; b < last && engine->owned != NULL; b++)
            if (spans->spans[spans->end[e]].live)
                spans_pass_on(engine, &spans->spans[spans->end[e]], &spans->spans[spans->begin[b]]);
    for (uint32_t e = spans->end_at[to]; e < spans->end_at[to + 1]; e++)
        if (spans->spans[spans->end[e]].live)
            TN_TRY(spans_end(engine, &spans->spans[spans->end[e]], to));
    for (uint32_t b = first; b < last; b++)
        if (!spans->spans[spans->begin[b]].live)
            TN_TRY(spans_begin(engine, &spans->spans[spans->begin[b]], to));
    return TN_OK;
}

/* Anywhere else: just those that cover the step are held. */
static tn_status spans_jump(tn_engine *engine, uint32_t to) {
    tn__spans *spans = &engine->spans;
    for (uint32_t e = 0; e < spans->count && engine->owned != NULL; e++) {
        const tn__span *ends = &spans->spans[e];
        if (!ends->live || spans_covers(ends, to)) continue;
        for (uint32_t b = e; b < spans->count && spans->spans[b].body == ends->body; b++)
            if (!spans->spans[b].live && spans_covers(&spans->spans[b], to))
                spans_pass_on(engine, ends, &spans->spans[b]);
        for (uint32_t b = e; b-- > 0 && spans->spans[b].body == ends->body;)
            if (!spans->spans[b].live && spans_covers(&spans->spans[b], to))
                spans_pass_on(engine, ends, &spans->spans[b]);
    }
    for (uint32_t i = 0; i < spans->count; i++)
        if (spans->spans[i].live && !spans_covers(&spans->spans[i], to))
            TN_TRY(spans_end(engine, &spans->spans[i], to));
    for (uint32_t i = 0; i < spans->count; i++)
        if (!spans->spans[i].live && spans_covers(&spans->spans[i], to))
            TN_TRY(spans_begin(engine, &spans->spans[i], to));
    return TN_OK;
}

tn_status tn__spans_start(tn_engine *engine) {
    if (engine->owned == NULL) return TN_OK;
    memset(engine->owned, SPANS_NOBODY, engine->arena_bytes);
    for (uint32_t t = 0; t < engine->held_count; t++) /* weights in a pool */
        memset(engine->owned + engine->held[t].lo, SPANS_HELD,
               engine->held[t].hi - engine->held[t].lo);
    for (uint64_t at = 0; at < engine->arena_bytes; at++)
        if (engine->owned[at] == SPANS_NOBODY) engine->arena[at] = SPANS_POISON;
    return TN_OK;
}

tn_status tn__spans_move(tn_engine *engine, uint32_t from, uint32_t to) {
    if (engine->spans.count == 0) return TN_OK;
    return from == ENGINE_NONE || to == from + 1 ? spans_next(engine, to) : spans_jump(engine, to);
}

void tn__spans_finish(tn_engine *engine) {
    uint32_t last = tn_program_count(engine->program) - 1; /* spans: there are steps */
    for (uint32_t i = 0; i < engine->spans.count; i++) {
        tn__span *span = &engine->spans.spans[i];
        if (!span->live) continue;
        tn__tell_block(engine, last, span->body, true);
        if (engine->pool != NULL)
            (void)!tn_pool_free(engine->pool, engine->body_block[span->body], NULL);
        span->live = false;
    }
}

/* --- canaries --- */

tn_status tn__spans_around(tn_engine *engine, const void *data, uint64_t bytes, const char *name) {
    if (engine->owned == NULL) return TN_OK;
    const uint8_t *from = data;
    if (from < engine->arena || from >= engine->arena + engine->arena_bytes) return TN_OK;
    uint64_t lo = (uint64_t)(from - engine->arena), hi = lo + bytes;
    uint64_t first = lo > SPANS_AROUND ? lo - SPANS_AROUND : 0;
    uint64_t last =
        hi + SPANS_AROUND < engine->arena_bytes ? hi + SPANS_AROUND : engine->arena_bytes;
    for (uint64_t at = first; at < last; at++)
        if (engine->owned[at] == SPANS_NOBODY && engine->arena[at] != SPANS_POISON)
            return spans_dirty(engine, at, name);
    return TN_OK;
}

tn_status tn__spans_check(tn_engine *engine) {
    for (uint64_t at = 0; at < engine->arena_bytes && engine->owned != NULL; at++)
        if (engine->owned[at] == SPANS_NOBODY && engine->arena[at] != SPANS_POISON)
            return spans_dirty(engine, at, "the end of the run");
    return TN_OK;
}
