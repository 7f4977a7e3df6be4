/* events.c - the partial order of the program that a problem belongs to, as it is given, and the
 * time of that program.
 *
 * Events are numbered in a serial order, so an order always goes from a lower number to a higher
 * one, and a loop over the numbers visits the predecessors of an event before the event.
 *
 * Cost:   O(1) for each event and order; the time: O(events^2 / 64 + orders + events workers).
 * Source: list scheduling: Graham 1966.
 */
#include "plan/problem/problem.h"

#include <inttypes.h>

#define EVENTS_ORDERS_MAX ((size_t)1 << 24)

tn_status tn_problem_add_event(tn_problem *problem, uint64_t time, uint32_t *id, tn_error *error) {
    if (problem->event_count >= TN_EVENTS_MAX)
        TN_FAIL(error, TN_E_INVALID, "more than %u events; join events that run one after another",
                TN_EVENTS_MAX);
    if (time > INT64_MAX) /* files hold numbers of 63 bits */
        TN_FAIL(error, TN_E_INVALID, "the time %" PRIu64 " of an event is above 2^63 - 1", time);
    if (!tn__reserve(&problem->context, &problem->events, &problem->event_room,
                     problem->event_count + 1, sizeof *problem->events))
        return tn__no_memory(error, "an event");
    if (id != NULL) *id = (uint32_t)problem->event_count;
    problem->events[problem->event_count++] = time;
    return TN_OK;
}

static tn_status events_add(tn_problem *problem, tn_wait pair, tn_wait **list, size_t *count,
                            size_t *room, tn_error *error) {
    if (pair.before >= pair.after || pair.after >= problem->event_count)
        TN_FAIL(error, TN_E_INVALID,
                "the order of events %u and %u: there are %zu events, and the first must have the "
                "lower number",
                pair.before, pair.after, problem->event_count);
    if (*count >= EVENTS_ORDERS_MAX)
        TN_FAIL(error, TN_E_INVALID, "more than 2^24 orders of events; give fewer of them");
    if (!tn__reserve(&problem->context, list, room, *count + 1, sizeof **list))
        return tn__no_memory(error, "an order of events");
    (*list)[(*count)++] = pair;
    return TN_OK;
}

tn_status tn_problem_add_order(tn_problem *problem, uint32_t before, uint32_t after,
                               tn_error *error) {
    return events_add(problem, (tn_wait){before, after}, &problem->orders, &problem->order_count,
                      &problem->order_room, error);
}

tn_status tn_problem_add_wait(tn_problem *problem, uint32_t before, uint32_t after,
                              tn_error *error) {
    return events_add(problem, (tn_wait){before, after}, &problem->waits, &problem->wait_count,
                      &problem->wait_room, error);
}

static tn_status events_check_span(const tn_problem *problem, const tn_span *span,
                                   tn_error *error) {
    char text[TN__BODY_TEXT_MAX];
    if (span->body >= problem->count)
        TN_FAIL(error, TN_E_INVALID, "a span of body %u: there are %zu bodies", span->body,
                problem->count);
    tn__body_text(problem, span->body, text);
    if (span->lo > span->hi || span->hi > problem->bodies[span->body].size)
        TN_FAIL(error, TN_E_INVALID, "a span of %s has bytes outside of it", text);
    if (span->first != TN_EVENT_NONE && span->first >= problem->event_count)
        TN_FAIL(error, TN_E_INVALID, "%s is written by event %u, but there are %zu", text,
                span->first, problem->event_count);
    for (uint32_t i = 0; i < span->use_count; i++) {
        uint32_t use = span->uses[i];
        if (use >= problem->event_count)
            TN_FAIL(error, TN_E_INVALID, "%s is used by event %u, but there are %zu", text, use,
                    problem->event_count);
        if (span->first != TN_EVENT_NONE && use < span->first)
            TN_FAIL(error, TN_E_INVALID, "%s is used by event %u before event %u writes it", text,
                    use, span->first);
    }
    if (span->use_count >= EVENTS_ORDERS_MAX - problem->use_count)
        TN_FAIL(error, TN_E_INVALID, "more than 2^24 uses of bytes; give fewer of them");
    return TN_OK;
}

tn_status tn_problem_add_span(tn_problem *problem, const tn_span *span, tn_error *error) {
    TN_TRY(events_check_span(problem, span, error));
    bool writes = span->first != TN_EVENT_NONE;
    for (uint32_t i = 0; i < span->use_count; i++)
        if (span->uses[i] == span->first) writes = false; /* it is in the list already */
    uint32_t count = span->use_count + writes;
    uint32_t *uses = tn__arena_array(&problem->arena, count, sizeof *uses);
    if (uses == NULL || !tn__reserve(&problem->context, &problem->spans, &problem->span_room,
                                     problem->span_count + 1, sizeof *problem->spans))
        return tn__no_memory(error, "a span");
    if (span->use_count > 0) memcpy(uses, span->uses, span->use_count * sizeof *uses);
    if (writes) uses[span->use_count] = span->first;
    tn_span *made = &problem->spans[problem->span_count++];
    *made = *span;
    if (span->lo == span->hi) made->lo = 0, made->hi = problem->bodies[span->body].size;
    made->uses = uses;
    made->use_count = count;
    problem->use_count += count;
    return TN_OK;
}

const uint64_t *tn_problem_events(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->event_count;
    return problem->events;
}

const tn_wait *tn_problem_orders(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->order_count;
    return problem->orders;
}

const tn_wait *tn_problem_waits(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->wait_count;
    return problem->waits;
}

const tn_span *tn_problem_spans(const tn_problem *problem, uint32_t *count) {
    *count = (uint32_t)problem->span_count;
    return problem->spans;
}

/* --- sets of events --- */

bool tn__rows_make(const tn_context *context, size_t count, tn__rows *rows) {
    rows->words = count / 64 + 1;
    rows->room = rows->words * (count + 1);
    rows->bits = tn__alloc_array(context, rows->room, sizeof *rows->bits);
    return rows->bits != NULL;
}

void tn__rows_free(const tn_context *context, tn__rows *rows) {
    tn__free(context, rows->bits, rows->bits != NULL ? rows->room * sizeof *rows->bits : 0);
    *rows = (tn__rows){0};
}

static bool events_over(const tn_span *span, uint32_t event) {
    if (event == TN_EVENT_NONE) return false;
    for (uint32_t i = 0; i < span->use_count; i++)
        if (span->uses[i] > event) return false;
    return true;
}

int tn__spans_order(const tn_span *a, const tn_span *b) {
    bool a_first = events_over(a, b->first), b_first = events_over(b, a->first);
    if (a_first && b_first) return 0; /* both are written by the same event */
    return a_first ? -1 : b_first ? 1 : 0;
}

/* --- the time of the program --- */

typedef struct events_run {
    const tn_problem *problem;
    const tn__rows *before;
    uint64_t *tail;   /* [events] longest path from the start of each event to the end */
    uint64_t *start;  /* [events] earliest start by the predecessors that are placed */
    uint64_t *left;   /* [events] predecessors that have not started; UINT64_MAX: started */
    uint64_t *worker; /* [workers] when each is free */
} events_run;

/* Calls for all predecessors of an event. */
#define EVENTS_EACH(row, words, p)                                                                 \
    for (size_t w_ = 0; w_ < (words); w_++)                                                        \
        for (uint64_t b_ = (row)[w_]; b_ != 0; b_ &= b_ - 1)                                       \
            for (uint32_t p = (uint32_t)(w_ * 64) + (uint32_t)__builtin_ctzll(b_), one_ = 1;       \
                 one_ != 0; one_ = 0)

/* The ready event that can start first; among equals with the longest path, then the lowest
 * number. */
static uint32_t events_next(const events_run *run, uint64_t free_at) {
    uint32_t best = UINT32_MAX, count = (uint32_t)run->problem->event_count;
    uint64_t best_at = 0;
    for (uint32_t e = 0; e < count; e++) {
        if (run->left[e] != 0) continue;
        uint64_t at = run->start[e] > free_at ? run->start[e] : free_at;
        if (best != UINT32_MAX &&
            (at > best_at || (at == best_at && run->tail[e] <= run->tail[best])))
            continue;
        best = e;
        best_at = at;
    }
    return best;
}

static uint64_t events_schedule(events_run *run, uint32_t workers) {
    uint32_t count = (uint32_t)run->problem->event_count;
    uint64_t end = 0;
    for (uint32_t e = 0; e < count; e++) {
        run->start[e] = run->left[e] = 0;
        EVENTS_EACH(tn__row(run->before, e), run->before->words, p) run->left[e] += p < e;
    }
    for (uint32_t w = 0; w < workers; w++) run->worker[w] = 0;
    for (uint32_t placed = 0; placed < count; placed++) {
        uint32_t w = 0;
        for (uint32_t k = 1; k < workers; k++)
            if (run->worker[k] < run->worker[w]) w = k;
        uint32_t next = events_next(run, run->worker[w]);
        uint64_t at = run->start[next] > run->worker[w] ? run->start[next] : run->worker[w];
        uint64_t over = tn__add_sat(at, run->problem->events[next]);
        run->worker[w] = over;
        run->left[next] = UINT64_MAX;
        if (over > end) end = over;
        for (uint32_t e = next + 1; e < count; e++) {
            if (!tn__row_has(tn__row(run->before, e), next)) continue;
            run->left[e]--;
            if (over > run->start[e]) run->start[e] = over;
        }
    }
    return end;
}

uint64_t tn__events_time(const tn_problem *problem, const tn__rows *before, uint32_t workers,
                         uint64_t *numbers) {
    uint32_t count = (uint32_t)problem->event_count;
    events_run run = {.problem = problem,
                      .before = before,
                      .tail = numbers,
                      .start = numbers + count,
                      .left = numbers + 2 * (size_t)count,
                      .worker = numbers + 3 * (size_t)count};
    uint64_t longest = 0;
    for (uint32_t e = 0; e < count; e++) run.tail[e] = 0;
    for (uint32_t e = count; e-- > 0;) {
        run.tail[e] = tn__add_sat(run.tail[e], problem->events[e]);
        EVENTS_EACH(tn__row(before, e), before->words, p)
        if (run.tail[e] > run.tail[p]) run.tail[p] = run.tail[e];
        if (run.tail[e] > longest) longest = run.tail[e];
    }
    return workers == 0 || workers >= count ? longest : events_schedule(&run, workers);
}
