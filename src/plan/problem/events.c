/* events.c - stores the partial order of events of the program that a problem belongs to, and
 * computes the time of that program.
 *
 * Events are numbered in a serial order, so an order always goes from a lower number to a higher
 * one, and a loop over the numbers visits the predecessors of an event before the event.
 *
 * Cost: O(1) for each event and order; for the time O(events^2 / 64 + orders + events log events).
 * Source: list scheduling, Graham 1966.
 */
#include "base/heap.h"
#include "plan/problem/problem.h"

#include <inttypes.h>

#define EVENTS_ORDERS_MAX ((size_t)1 << 24)
/* limit of spans times uses, because every pair of spans is compared */
#define EVENTS_PAIRS_MAX ((uint64_t)1 << 32)

tn_status tn_problem_add_event(tn_problem *problem, uint64_t time, uint32_t *id, tn_error *error) {
    if (problem->event_count >= TN_EVENTS_MAX)
        TN_FAIL(error, TN_E_INVALID, "more than %u events; join events that run one after another",
                TN_EVENTS_MAX);
    /* the sum of times is limited, because numbers in files have 63 bits */
    if (tn__add_sat(problem->event_sum, time) > INT64_MAX)
        TN_FAIL(error, TN_E_INVALID,
                "with the time %" PRIu64 " of event %zu, the times of all events add up to more "
                "than 2^63 - 1; use a larger unit",
                time, problem->event_count);
    if (!tn__reserve(&problem->context, &problem->events, &problem->event_room,
                     problem->event_count + 1, sizeof *problem->events))
        return tn__no_memory(error, "an event");
    if (id != NULL) *id = (uint32_t)problem->event_count;
    problem->events[problem->event_count++] = time;
    problem->event_sum += time;
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
    return TN_OK;
}

static int events_by_number(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sorts the uses and removes repetitions; returns the new count. */
static uint32_t events_sort(uint32_t *uses, uint32_t count) {
    uint32_t kept = 0;
    if (count > 1) qsort(uses, count, sizeof *uses, events_by_number);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || uses[kept - 1] != uses[i]) uses[kept++] = uses[i];
    return kept;
}

tn_status tn_problem_add_span(tn_problem *problem, const tn_span *span, tn_error *error) {
    TN_TRY(events_check_span(problem, span, error));
    bool writes = span->first != TN_EVENT_NONE;
    uint32_t room = span->use_count + writes;
    if (problem->span_count >= TN_SPANS_MAX || span->use_count >= EVENTS_ORDERS_MAX ||
        room > EVENTS_ORDERS_MAX - problem->use_room)
        TN_FAIL(error, TN_E_INVALID, "more than %u spans or 2^24 uses; give fewer of them",
                TN_SPANS_MAX);
    uint32_t *uses = tn__arena_array(&problem->arena, room, sizeof *uses);
    if (uses == NULL || !tn__reserve(&problem->context, &problem->spans, &problem->span_room,
                                     problem->span_count + 1, sizeof *problem->spans))
        return tn__no_memory(error, "a span");
    if (span->use_count > 0) memcpy(uses, span->uses, span->use_count * sizeof *uses);
    if (writes) uses[span->use_count] = span->first;
    uint32_t count = events_sort(uses, room);
    if ((uint64_t)(problem->span_count + 1) * (problem->use_count + count) > EVENTS_PAIRS_MAX)
        TN_FAIL(error, TN_E_INVALID,
                "%zu spans with %zu uses are too many to compare; join events or bodies",
                problem->span_count + 1, problem->use_count + count);
    tn_span *made = &problem->spans[problem->span_count++];
    *made = *span;
    if (span->lo == span->hi) made->lo = 0, made->hi = problem->bodies[span->body].size;
    made->uses = uses;
    made->use_count = count;
    problem->use_count += count;
    problem->use_room += room;
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
    return span->use_count == 0 || span->uses[span->use_count - 1] <= event;
}

int tn__spans_order(const tn_span *a, const tn_span *b) {
    bool a_first = events_over(a, b->first), b_first = events_over(b, a->first);
    /* the same event writes both spans, so neither is over before the other begins */
    if (a_first && b_first) return 0;
    return a_first ? -1 : b_first ? 1 : 0;
}

/* --- the time of the program --- */

/* An item of a heap of events or workers: the least key comes first, among equal ones the lowest
 * number. */
typedef struct events_item {
    uint64_t key, id;
} events_item;

typedef struct events_heap {
    events_item *items;
    uint32_t count;
} events_heap;

static bool events_before(const events_item *a, const events_item *b) {
    return a->key != b->key ? a->key < b->key : a->id < b->id;
}

TN__HEAP(events_queue, events_item, events_before)

static void events_push(events_heap *heap, uint64_t key, uint64_t id) {
    events_queue_push(heap->items, heap->count++, (events_item){key, id});
}

static events_item events_pop(events_heap *heap) {
    return events_queue_pop(heap->items, heap->count--);
}

typedef struct events_run {
    const tn_problem *problem;
    const tn__rows *before;
    tn__rows *after; /* direct successors of each event */
    /* [events] length of the longest path from the start of each event to the end of the program */
    uint64_t *tail;
    uint64_t *start;   /* [events] earliest start that the scheduled predecessors allow */
    uint64_t *left;    /* [events] number of predecessors that are not scheduled yet */
    events_heap ready; /* [events] events that can start now, the one with the longest path first */
    /* [events] events with all predecessors scheduled, the earliest start first */
    events_heap waiting;
    events_heap workers; /* [workers] the times at which workers become free, earliest first */
} events_run;

/* Runs the statement that follows for each event `p` of the set `row`. */
#define EVENTS_EACH(row, words, p)                                                                 \
    for (size_t w_ = 0; w_ < (words); w_++)                                                        \
        for (uint64_t b_ = (row)[w_]; b_ != 0; b_ &= b_ - 1)                                       \
            for (uint32_t p = (uint32_t)(w_ * 64) + (uint32_t)__builtin_ctzll(b_), one_ = 1;       \
                 one_ != 0; one_ = 0)

static void events_schedule_begin(events_run *run, uint32_t workers) {
    uint32_t count = (uint32_t)run->problem->event_count;
    run->ready.count = run->waiting.count = run->workers.count = 0;
    memset(run->after->bits, 0, run->after->room * sizeof *run->after->bits);
    for (uint32_t e = 0; e < count; e++) {
        run->start[e] = run->left[e] = 0;
        EVENTS_EACH(tn__row(run->before, e), e / 64 + 1, p) {
            run->left[e]++;
            tn__row_add(tn__row(run->after, p), e);
        }
        if (run->left[e] == 0) events_push(&run->waiting, 0, e);
    }
    for (uint32_t w = 0; w < workers; w++) events_push(&run->workers, 0, w);
}

/* Schedules the events on the workers, in order of the longest path; returns the end of the last
 * one. Starts never get earlier from one event to the next, so an event that is ready stays
 * ready. */
static uint64_t events_schedule(events_run *run, uint32_t workers) {
    uint64_t end = 0, now = 0;
    events_schedule_begin(run, workers);
    while (run->ready.count > 0 || run->waiting.count > 0) {
        uint64_t worker = events_pop(&run->workers).key;
        if (worker > now) now = worker;
        if (run->ready.count == 0 && run->waiting.items[0].key > now)
            now = run->waiting.items[0].key;
        while (run->waiting.count > 0 && run->waiting.items[0].key <= now) {
            uint64_t e = events_pop(&run->waiting).id;
            events_push(&run->ready, UINT64_MAX - run->tail[e], e);
        }
        uint32_t next = (uint32_t)events_pop(&run->ready).id;
        uint64_t over = tn__add_sat(now, run->problem->events[next]);
        events_push(&run->workers, over, run->workers.count);
        if (over > end) end = over;
        EVENTS_EACH(tn__row(run->after, next), run->after->words, e) {
            if (over > run->start[e]) run->start[e] = over;
            if (--run->left[e] == 0) events_push(&run->waiting, run->start[e], e);
        }
    }
    return end;
}

size_t tn__events_scratch(size_t events, uint32_t workers) {
    return 7 * events + 2 * (size_t)workers + 1;
}

uint64_t tn__events_time(const tn_problem *problem, const tn__rows *before, tn__rows *after,
                         uint32_t workers, uint64_t *numbers) {
    size_t count = problem->event_count;
    events_item *items = (events_item *)(numbers + 3 * count);
    events_run run = {.problem = problem,
                      .before = before,
                      .after = after,
                      .tail = numbers,
                      .start = numbers + count,
                      .left = numbers + 2 * count,
                      .ready = {.items = items},
                      .waiting = {.items = items + count},
                      .workers = {.items = items + 2 * count}};
    uint64_t longest = 0;
    for (size_t e = 0; e < count; e++) run.tail[e] = 0;
    for (uint32_t e = (uint32_t)count; e-- > 0;) {
        run.tail[e] = tn__add_sat(run.tail[e], problem->events[e]);
        EVENTS_EACH(tn__row(before, e), e / 64 + 1, p)
        if (run.tail[e] > run.tail[p]) run.tail[p] = run.tail[e];
        if (run.tail[e] > longest) longest = run.tail[e];
    }
    return workers == 0 || workers >= count ? longest : events_schedule(&run, workers);
}
