/* waits.c - computes the waits that a layout adds to the order of the events of a program, and the
 * pairs of buffers that need a wait if they share bytes.
 *
 * A wait from event a to event b is implied by another path if some direct predecessor of b, by an
 * order or a wait, comes after a. So one pass over the events, with sets of predecessors as bits,
 * finds all paths, and removes from the direct predecessors of b all predecessors of these. Waits
 * that remain are not implied. Every pair of spans is compared.
 *
 * Cost: O(spans (spans + uses) + events (events + orders + waits) / 64) time, O(events^2 / 8)
 * bytes.
 * Source: Aho, Garey, Ullman 1972 (the transitive reduction of an acyclic graph is unique).
 */
#include "plan/problem/problem.h"

typedef struct waits_job {
    const tn_problem *problem;
    const tn_layout *layout;
    /* direct predecessors of each event: at first by the given orders, later also by waits */
    tn__rows direct;
    /* all predecessors of each event: at first by the given orders, later also by waits */
    tn__rows known;
    tn__rows waits; /* for each event, the events for which it must wait because of the layout */
    uint64_t *numbers;
    size_t numbers_room;
} waits_job;

/* Computes `known`, all predecessors of each event, from the paths in `direct`, and removes those
 * direct predecessors that another path implies. A later direct predecessor is handled first, so
 * that the ones it implies are skipped. */
static void waits_close(waits_job *job) {
    size_t words = job->direct.words;
    for (uint32_t b = 0; b < job->problem->event_count; b++) {
        uint64_t *known = tn__row(&job->known, b), *direct = tn__row(&job->direct, b);
        memset(known, 0, words * sizeof *known);
        for (uint32_t a = b; a-- > 0;)
            if (tn__row_has(direct, a) && !tn__row_has(known, a))
                tn__row_add_all(&job->known, a, known);
        for (size_t w = 0; w < words; w++) {
            uint64_t left = direct[w] & ~known[w];
            known[w] |= direct[w];
            direct[w] = left;
        }
    }
}

/* Makes `direct` and `known` of the given orders. */
static tn_status waits_know(waits_job *job, tn_error *error) {
    const tn_problem *problem = job->problem;
    if (!tn__rows_make(&problem->context, problem->event_count, &job->direct) ||
        !tn__rows_make(&problem->context, problem->event_count, &job->known))
        return tn__no_memory(error, "the order of events");
    for (size_t i = 0; i < problem->order_count; i++)
        tn__row_add(tn__row(&job->direct, problem->orders[i].after), problem->orders[i].before);
    waits_close(job);
    return TN_OK;
}

static bool waits_share(const waits_job *job, const tn_span *a, const tn_span *b) {
    const tn_layout *layout = job->layout;
    if (a->body == b->body || layout->bank[a->body] != layout->bank[b->body]) return false;
    uint64_t x = layout->offset[a->body], y = layout->offset[b->body];
    return tn__add_sat(x, a->lo) < tn__add_sat(y, b->hi) &&
           tn__add_sat(y, b->lo) < tn__add_sat(x, a->hi);
}

static tn_body_id waits_root(const tn_problem *problem, tn_body_id id) {
    const tn_body *body = &problem->bodies[id];
    return body->flags & TN_BODY_TIED ? body->leader : id;
}

/* Whether each of two spans is used after the other one is written, so that no order of them is
 * possible in shared bytes. Buffers of one group are exempt, because they overlap on purpose. */
static bool waits_contradict(const tn_problem *problem, const tn_span *a, const tn_span *b) {
    return a->first != TN_EVENT_NONE && b->first != TN_EVENT_NONE && a->first != b->first &&
           waits_root(problem, a->body) != waits_root(problem, b->body);
}

static tn_status waits_fail(const tn_problem *problem, const tn_span *a, const tn_span *b,
                            tn_error *error) {
    char one[TN__BODY_TEXT_MAX], other[TN__BODY_TEXT_MAX];
    tn__body_text(problem, a->body, one);
    tn__body_text(problem, b->body, other);
    TN_FAIL(error, TN_E_INVALID,
            "%s and %s share bytes, but event %u writes the one while the other is still used "
            "(until event %u); correct the spans or the live ranges",
            one, other, a->first > b->first ? a->first : b->first,
            a->first > b->first ? b->uses[b->use_count - 1] : a->uses[a->use_count - 1]);
}

static tn_status waits_find(waits_job *job, tn_error *error) {
    const tn_problem *problem = job->problem;
    for (size_t i = 0; i < problem->span_count; i++) {
        for (size_t k = i + 1; k < problem->span_count; k++) {
            const tn_span *a = &problem->spans[i], *b = &problem->spans[k];
            if (!waits_share(job, a, b)) continue;
            int order = tn__spans_order(a, b);
            if (order == 0 && waits_contradict(problem, a, b))
                return waits_fail(problem, a, b, error);
            if (order == 0) continue;
            const tn_span *old = order < 0 ? a : b, *fresh = order < 0 ? b : a;
            for (uint32_t u = 0; u < old->use_count; u++)
                if (old->uses[u] != fresh->first)
                    tn__row_add(tn__row(&job->waits, fresh->first), old->uses[u]);
        }
    }
    for (size_t i = 0; i < problem->wait_count; i++)
        tn__row_add(tn__row(&job->waits, problem->waits[i].after), problem->waits[i].before);
    return TN_OK;
}

/* Removes waits that another path of orders and waits implies. */
static void waits_reduce(waits_job *job) {
    size_t room = job->direct.words * job->problem->event_count;
    uint64_t *waits = job->waits.bits, *direct = job->direct.bits;
    for (size_t w = 0; w < room; w++) {
        waits[w] &= ~job->known.bits[w];
        direct[w] |= waits[w];
    }
    waits_close(job);
    for (size_t w = 0; w < room; w++) waits[w] &= direct[w];
}

static tn_status waits_list(const waits_job *job, tn_wait **list, uint64_t *count,
                            tn_error *error) {
    uint32_t events = (uint32_t)job->problem->event_count;
    uint64_t found = 0;
    for (size_t w = 0; w < job->waits.words * events; w++)
        found += (uint64_t)__builtin_popcountll(job->waits.bits[w]);
    *count = found;
    if (list == NULL) return TN_OK;
    tn_wait *made = calloc(found + 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "the waits of a layout");
    size_t at = 0;
    for (uint32_t b = 0; b < events; b++)
        for (uint32_t a = 0; a < b; a++)
            if (tn__row_has(tn__row(&job->waits, b), a)) made[at++] = (tn_wait){a, b};
    *list = made;
    return TN_OK;
}

static tn_status waits_run(waits_job *job, uint32_t workers, tn_wait **list, uint64_t *count,
                           uint64_t *time, tn_error *error) {
    const tn_problem *problem = job->problem;
    const tn_context *context = &problem->context;
    size_t events = problem->event_count;
    uint32_t used = workers < events ? workers : 0;
    job->numbers_room = tn__events_scratch(events, used);
    job->numbers = tn__alloc_array(context, job->numbers_room, sizeof *job->numbers);
    if (job->numbers == NULL || !tn__rows_make(context, events, &job->waits))
        return tn__no_memory(error, "the order of events");
    TN_TRY(waits_know(job, error));
    TN_TRY(waits_find(job, error));
    waits_reduce(job);
    if (time != NULL) /* `known` is not needed any more, so its memory is reused */
        *time = tn__events_time(problem, &job->direct, &job->known, used, job->numbers);
    return waits_list(job, list, count, error);
}

/* --- pairs of buffers that need a wait --- */

/* limit of pairs of spans without a known order */
#define WAITS_PAIRS_MAX ((size_t)1 << 22)

typedef struct waits_pairs {
    uint64_t *items; /* the two bodies of a pair as one number, the lower body in the upper half */
    size_t count, room;
} waits_pairs;

/* Whether the write of `fresh` must wait for a use of `old` if both hold a common byte. */
static bool waits_needs(const waits_job *job, const tn_span *old, const tn_span *fresh) {
    const uint64_t *known = tn__row(&job->known, fresh->first);
    for (uint32_t u = 0; u < old->use_count; u++)
        if (old->uses[u] != fresh->first && !tn__row_has(known, old->uses[u])) return true;
    return false;
}

static int waits_pair_order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static tn_status waits_list_pairs(const waits_job *job, waits_pairs *pairs, tn_error *error) {
    const tn_problem *problem = job->problem;
    for (size_t i = 0; i < problem->span_count; i++) {
        for (size_t k = i + 1; k < problem->span_count; k++) {
            const tn_span *a = &problem->spans[i], *b = &problem->spans[k];
            int order = a->body != b->body ? tn__spans_order(a, b) : 0;
            if (order == 0 || !waits_needs(job, order < 0 ? a : b, order < 0 ? b : a)) continue;
            if (pairs->count == WAITS_PAIRS_MAX)
                TN_FAIL(error, TN_E_UNSUPPORTED,
                        "more than 2^22 pairs of buffers have no known order; use the objective "
                        "bytes");
            if (!tn__reserve(&problem->context, &pairs->items, &pairs->room, pairs->count + 1,
                             sizeof *pairs->items))
                return tn__no_memory(error, "the reuse costs of a program");
            tn_body_id low = a->body < b->body ? a->body : b->body;
            pairs->items[pairs->count++] = (uint64_t)low << 32 | (a->body ^ b->body ^ low);
        }
    }
    if (pairs->count > 1) qsort(pairs->items, pairs->count, sizeof *pairs->items, waits_pair_order);
    return TN_OK;
}

tn_status tn_problem_price_pairs(tn_problem *problem, tn_error *error) {
    waits_job job = {.problem = problem};
    waits_pairs pairs = {0};
    const tn_context *context = &problem->context;
    tn_status status = waits_know(&job, error);
    if (status == TN_OK) status = waits_list_pairs(&job, &pairs, error);
    for (size_t i = 0; i < pairs.count && status == TN_OK; i++) {
        uint64_t pair = pairs.items[i];
        if (i == 0 || pair != pairs.items[i - 1])
            status = tn_problem_add_reuse_cost(problem, (tn_body_id)(pair >> 32), (tn_body_id)pair,
                                               1, error);
    }
    tn__free(context, pairs.items, pairs.room * sizeof *pairs.items);
    tn__rows_free(context, &job.direct);
    tn__rows_free(context, &job.known);
    return status;
}

/* --- the waits of a layout --- */

tn_status tn_layout_waits(const tn_problem *problem, const tn_layout *layout, uint32_t workers,
                          tn_wait **list, uint64_t *count, uint64_t *time, tn_error *error) {
    waits_job job = {.problem = problem, .layout = layout};
    const tn_context *context = &problem->context;
    if (layout->body_count != problem->count)
        TN_FAIL(error, TN_E_INVALID, "the layout is for %u bodies, the problem has %zu",
                layout->body_count, problem->count);
    tn_status status = waits_run(&job, workers, list, count, time, error);
    tn__rows_free(context, &job.direct);
    tn__rows_free(context, &job.known);
    tn__rows_free(context, &job.waits);
    tn__free(context, job.numbers, job.numbers != NULL ? job.numbers_room * sizeof(uint64_t) : 0);
    return status;
}

void tn_waits_release(tn_wait *list) { free(list); }
