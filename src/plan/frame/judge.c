/* judge.c - computes the number of waits or the estimated time of a placement, for planners that
 * try many placements.
 *
 * Data that does not depend on offsets is computed once: all paths of the given order of events,
 * the direct predecessors of each event without those implied by others, and the pairs of spans
 * that need a wait if they share bytes, with the last uses of the earlier span. A placement then
 * needs one pass over these pairs, and one over the events in their order. When an event is
 * visited, all predecessors of its direct predecessors are known, so waits that they imply are
 * found in the same pass.
 *
 * Cost: O(pairs + events (events + orders + waits) / 64) for each placement.
 */
#include "plan/frame/planner_run.h"

#include <pthread.h>

#define JUDGE_PAIRS_MAX ((size_t)1 << 22)
#define JUDGE_EVENTS_MAX ((size_t)1 << 24)

/* if spans `old` and `fresh` share bytes, event `after` waits for a list of events */
typedef struct judge_need {
    uint32_t old, fresh; /* spans */
    uint32_t after;
    uint32_t first, count; /* range in `events` of the events for which `after` waits */
} judge_need;

struct tn__judge {
    const tn_problem *problem;
    tn_objective objective;
    uint32_t workers;
    tn__rows known, direct, before, waits;
    size_t *last_begin; /* [spans + 1], where the list of each span begins in `lasts` */
    uint32_t *lasts;    /* the uses of each span that do not precede another use of the span */
    judge_need *needs;
    size_t need_count, need_room;
    uint32_t *events;
    size_t event_count, event_room;
    tn_pair *pairs;
    size_t pair_count, pair_room;
    /* a span of some pair is only a part of its buffer, so the buffers may share other bytes
     * without a wait */
    bool has_parts;
    /* [bodies] the number in the run of each buffer or of its group; UINT32_MAX: not in the run */
    uint32_t *run_id;
    uint64_t *numbers;
    size_t numbers_room;
    uint64_t units; /* units of work that one placement costs */
    pthread_mutex_t mutex;
};

void tn__judge_destroy(tn__judge *judge, const tn_context *context) {
    if (judge == NULL) return;
    pthread_mutex_destroy(&judge->mutex);
    tn__rows_free(context, &judge->known);
    tn__rows_free(context, &judge->direct);
    tn__rows_free(context, &judge->before);
    tn__rows_free(context, &judge->waits);
    size_t begins = judge->last_begin != NULL ? judge->problem->span_count + 1 : 0;
    size_t lasts = judge->lasts != NULL ? judge->problem->use_count + 1 : 0;
    tn__free(context, judge->last_begin, begins * sizeof *judge->last_begin);
    tn__free(context, judge->lasts, lasts * sizeof *judge->lasts);
    tn__free(context, judge->needs, judge->need_room * sizeof *judge->needs);
    tn__free(context, judge->events, judge->event_room * sizeof *judge->events);
    tn__free(context, judge->pairs, judge->pair_room * sizeof *judge->pairs);
    size_t bodies = judge->run_id != NULL ? judge->problem->count + 1 : 0;
    tn__free(context, judge->run_id, bodies * sizeof *judge->run_id);
    size_t numbers = judge->numbers != NULL ? judge->numbers_room : 0;
    tn__free(context, judge->numbers, numbers * sizeof *judge->numbers);
    tn__free(context, judge, sizeof *judge);
}

/* Adds to `paths` all events that precede an event of `row`, the set of predecessors of some event.
 * No event in `row` is above `last`. The highest events are handled first, so that events which
 * they imply are skipped. */
static void judge_add_paths(const tn__rows *rows, const uint64_t *row, uint32_t last,
                            uint64_t *paths) {
    for (size_t w = last / 64 + 1; w-- > 0;) {
        for (uint64_t left = row[w] & ~paths[w]; left != 0;) {
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(left);
            tn__row_add_all(rows, (uint32_t)(w * 64) + bit, paths);
            left &= ~(1ull << bit) & ~paths[w];
        }
    }
}

/* Computes `known` (all paths of the given order) and `direct` (the given orders that no other path
 * implies). */
static void judge_order(tn__judge *judge) {
    const tn_problem *problem = judge->problem;
    size_t words = judge->known.words;
    for (size_t i = 0; i < problem->order_count; i++)
        tn__row_add(tn__row(&judge->direct, problem->orders[i].after), problem->orders[i].before);
    for (uint32_t b = 0; b < problem->event_count; b++) {
        uint64_t *known = tn__row(&judge->known, b), *direct = tn__row(&judge->direct, b);
        judge_add_paths(&judge->known, direct, b, known);
        for (size_t w = 0; w < words; w++) {
            uint64_t left = direct[w] & ~known[w];
            known[w] |= direct[w];
            direct[w] = left;
        }
    }
}

static bool judge_knows(const tn__judge *judge, uint32_t before, uint32_t after) {
    return tn__row_has(tn__row(&judge->known, after), before);
}

/* Lists the uses of each span that do not precede another use of it. All other uses have ended when
 * these have. */
static tn_status judge_lasts(tn__judge *judge, const tn_context *context, tn_error *error) {
    const tn_problem *problem = judge->problem;
    uint64_t *uses = tn__row(&judge->before, 0), *paths = tn__row(&judge->waits, 0);
    size_t words = judge->known.words, used = 0;
    judge->last_begin = tn__alloc_array(context, problem->span_count + 1, sizeof(size_t));
    judge->lasts = tn__alloc_array(context, problem->use_count + 1, sizeof *judge->lasts);
    if (judge->last_begin == NULL || judge->lasts == NULL)
        return tn__no_memory(error, "the uses of buffers");
    for (size_t i = 0; i < problem->span_count; i++) {
        const tn_span *span = &problem->spans[i];
        memset(uses, 0, words * sizeof *uses);
        memset(paths, 0, words * sizeof *paths);
        for (uint32_t u = 0; u < span->use_count; u++) tn__row_add(uses, span->uses[u]);
        if (span->use_count > 1)
            judge_add_paths(&judge->known, uses, span->uses[span->use_count - 1], paths);
        for (uint32_t u = 0; u < span->use_count; u++)
            if (!tn__row_has(paths, span->uses[u])) judge->lasts[used++] = span->uses[u];
        judge->last_begin[i + 1] = used;
    }
    return TN_OK;
}

static bool judge_is_part(const tn__judge *judge, uint32_t id) {
    const tn_span *span = &judge->problem->spans[id];
    return span->hi - span->lo < judge->problem->bodies[span->body].size;
}

/* Records the uses of span `old` that span `fresh` would have to wait for if both shared bytes. */
static bool judge_need_waits(tn__judge *judge, const tn_context *context, uint32_t old,
                             uint32_t fresh) {
    const tn_span *spans = judge->problem->spans, *from = &spans[old];
    uint32_t after = spans[fresh].first;
    judge_need need = {
        .old = old, .fresh = fresh, .after = after, .first = (uint32_t)judge->event_count};
    for (size_t i = judge->last_begin[old]; i < judge->last_begin[old + 1]; i++) {
        uint32_t use = judge->lasts[i];
        if (use == after || judge_knows(judge, use, after)) continue;
        if (!tn__reserve(context, &judge->events, &judge->event_room, judge->event_count + 1,
                         sizeof *judge->events))
            return false;
        judge->events[judge->event_count++] = use;
        need.count++;
    }
    if (need.count == 0) return true;
    if (!tn__reserve(context, &judge->needs, &judge->need_room, judge->need_count + 1,
                     sizeof *judge->needs) ||
        !tn__reserve(context, &judge->pairs, &judge->pair_room, judge->pair_count + 1,
                     sizeof *judge->pairs))
        return false;
    judge->has_parts |= judge_is_part(judge, old) || judge_is_part(judge, fresh);
    judge->needs[judge->need_count++] = need;
    judge->pairs[judge->pair_count++] =
        (tn_pair){.a = from->body, .b = spans[fresh].body, .cost = need.count};
    return true;
}

static tn_status judge_find(tn__judge *judge, const tn_context *context, tn_error *error) {
    const tn_problem *problem = judge->problem;
    for (uint32_t i = 0; i < problem->span_count; i++) {
        for (uint32_t k = i + 1; k < problem->span_count; k++) {
            const tn_span *a = &problem->spans[i], *b = &problem->spans[k];
            if (a->body == b->body) continue;
            int order = tn__spans_order(a, b);
            if (order == 0) continue;
            if (!judge_need_waits(judge, context, order < 0 ? i : k, order < 0 ? k : i))
                return tn__no_memory(error, "the waits of a plan");
            if (judge->need_count > JUDGE_PAIRS_MAX || judge->event_count > JUDGE_EVENTS_MAX)
                TN_FAIL(error, TN_E_UNSUPPORTED,
                        "more than 2^22 pairs of buffers, or 2^24 pairs of their uses, have no "
                        "known order; use the objective bytes");
        }
    }
    return TN_OK;
}

tn_status tn__judge_create(const tn__call *call, tn__judge **judge, tn_error *error) {
    const tn_problem *problem = call->problem;
    tn_context context = tn__context(call->options.context);
    size_t events = problem->event_count;
    tn__judge *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "the waits of a plan");
    pthread_mutex_init(&made->mutex, NULL);
    made->problem = problem;
    made->objective = call->options.objective;
    made->workers = call->options.workers < events ? call->options.workers : 0;
    made->numbers_room = tn__events_scratch(events, made->workers);
    made->numbers = tn__alloc_array(&context, made->numbers_room, sizeof *made->numbers);
    made->run_id = tn__alloc_array(&context, problem->count + 1, sizeof *made->run_id);
    tn_status status = TN_OK;
    if (made->numbers == NULL || made->run_id == NULL ||
        !tn__rows_make(&context, events, &made->known) ||
        !tn__rows_make(&context, events, &made->direct) ||
        !tn__rows_make(&context, events, &made->before) ||
        !tn__rows_make(&context, events, &made->waits))
        status = tn__no_memory(error, "the order of events");
    if (status == TN_OK) {
        judge_order(made);
        status = judge_lasts(made, &context, error);
        if (status == TN_OK) status = judge_find(made, &context, error);
        made->units = 1 + (made->need_count + made->event_count + events * made->known.words) / 512;
    }
    if (status == TN_OK)
        *judge = made;
    else
        tn__judge_destroy(made, &context);
    return status;
}

const tn_pair *tn__judge_pairs(const tn__judge *judge, size_t *count) {
    *count = judge->pair_count;
    return judge->pairs;
}

uint64_t tn__judge_units(const tn__judge *judge) { return judge->units; }

void tn__judge_bind(tn__judge *judge, const tn__prepared_bank *p) {
    for (size_t i = 0; i < judge->problem->count; i++) judge->run_id[i] = UINT32_MAX;
    for (uint32_t i = 0; i < p->count; i++) judge->run_id[p->ids[i]] = i;
    for (size_t i = 0; i < judge->problem->count; i++) {
        const tn_body *body = &judge->problem->bodies[i];
        if (body->flags & TN_BODY_TIED) judge->run_id[i] = judge->run_id[body->leader];
    }
}

/* Computes the first byte of a span in a placement; false if its buffer is not in the run. */
static bool judge_place(const tn__judge *judge, const uint64_t *offset, const tn_span *span,
                        uint64_t *first) {
    uint32_t id = judge->run_id[span->body];
    const tn_body *body = &judge->problem->bodies[span->body];
    if (id == UINT32_MAX) return false;
    *first = offset[id] + (body->flags & TN_BODY_TIED ? body->delta : 0) + span->lo;
    return true;
}

/* Collects the waits of a placement in `waits`; with offset NULL, only the waits that every
 * placement has. */
static void judge_collect(tn__judge *judge, const uint64_t *offset) {
    const tn_problem *problem = judge->problem;
    memset(judge->waits.bits, 0, judge->waits.room * sizeof *judge->waits.bits);
    for (size_t i = 0; i < problem->wait_count; i++) {
        const tn_wait *wait = &problem->waits[i];
        if (!judge_knows(judge, wait->before, wait->after))
            tn__row_add(tn__row(&judge->waits, wait->after), wait->before);
    }
    for (size_t i = 0; i < judge->need_count && offset != NULL; i++) {
        const judge_need *need = &judge->needs[i];
        const tn_span *old = &problem->spans[need->old], *fresh = &problem->spans[need->fresh];
        uint64_t x, y;
        if (!judge_place(judge, offset, old, &x) || !judge_place(judge, offset, fresh, &y) ||
            x >= y + (fresh->hi - fresh->lo) || y >= x + (old->hi - old->lo))
            continue;
        for (uint32_t k = 0; k < need->count; k++)
            tn__row_add(tn__row(&judge->waits, need->after), judge->events[need->first + k]);
    }
}

static uint64_t judge_count(tn__judge *judge) {
    uint64_t kept = 0;
    for (uint32_t b = 0; b < judge->problem->event_count; b++) {
        uint64_t *before = tn__row(&judge->before, b), *waits = tn__row(&judge->waits, b);
        const uint64_t *direct = tn__row(&judge->direct, b);
        size_t words = b / 64 + 1; /* predecessors of b have lower numbers, so later words are 0 */
        memset(before, 0, words * sizeof *before);
        judge_add_paths(&judge->before, direct, b, before);
        judge_add_paths(&judge->before, waits, b, before);
        for (size_t w = 0; w < words; w++) {
            kept += (uint64_t)__builtin_popcountll(waits[w] & ~before[w]);
            before[w] |= direct[w] | waits[w];
        }
    }
    return kept;
}

static uint64_t judge_time(tn__judge *judge, uint32_t workers) {
    size_t room = judge->waits.words * judge->problem->event_count;
    for (size_t w = 0; w < room; w++) judge->waits.bits[w] |= judge->direct.bits[w];
    return tn__events_time(judge->problem, &judge->waits, &judge->before, workers, judge->numbers);
}

uint64_t tn__judge_value(tn__judge *judge, const uint64_t *offset) {
    /* the mutex is needed because greedy planners may call this function from several threads */
    pthread_mutex_lock(&judge->mutex);
    judge_collect(judge, offset);
    uint64_t value = judge->objective == TN_OBJECTIVE_WAITS ? judge_count(judge)
                                                            : judge_time(judge, judge->workers);
    pthread_mutex_unlock(&judge->mutex);
    return value;
}

double tn__judge_unit(const tn__judge *judge) {
    const tn_problem *problem = judge->problem;
    double sum = 0;
    if (judge->objective == TN_OBJECTIVE_WAITS || problem->event_count == 0) return 1;
    for (size_t e = 0; e < problem->event_count; e++) sum += (double)problem->events[e];
    return sum / (double)problem->event_count;
}

uint64_t tn__judge_bound(tn__judge *judge, bool must_share) {
    if (judge->objective == TN_OBJECTIVE_WAITS) {
        judge_collect(judge, NULL);
        return (must_share && !judge->has_parts) || judge_count(judge) > 0 ? 1 : 0;
    }
    uint64_t sum = 0;
    for (size_t e = 0; e < judge->problem->event_count; e++)
        sum = tn__add_sat(sum, judge->problem->events[e]);
    judge_collect(judge, NULL);
    uint64_t path = judge_time(judge, 0);
    uint64_t each = judge->workers > 0 ? (sum - 1) / judge->workers + 1 : 0;
    if (sum == 0) return 0;
    return path > each ? path : each;
}
