/* requests.c - converts a snapshot into requests for pools and planners.
 *
 * Blocks that existed before the ring began are requested first, by address, because their real
 * order is unknown. Each later event is one request. Events of segments and marks are not requests.
 * But where the file's own allocator freed segments (empty_cache(), or before it ran out of
 * memory), a pool is asked to empty its cache too.
 */
#include "interop/snapshot/snapshot.h"

typedef struct requests_order {
    tn__sort_item *before; /* blocks that existed before recording began, sorted by address */
    size_t before_count;
    /* [times] the first of the blocks that are freed at each time; REQUESTS_NONE: no block */
    uint32_t *ends;
    /* [lives] the next block that is freed at the same time; REQUESTS_NONE: no more */
    uint32_t *next;
    size_t times;
} requests_order;
#define REQUESTS_NONE UINT32_MAX

static void requests_release(const tn_snapshot_lives *lives, requests_order *order) {
    const tn_context *context = &lives->context;
    tn__free(context, order->next, (lives->life_count + 1) * sizeof *order->next);
    tn__free(context, order->ends, order->times * sizeof *order->ends);
    tn__free(context, order->before, (order->before_count + 1) * sizeof *order->before);
}

/* Prepares the lists. Blocks are numbered in order of allocation, except those from before the
 * ring, so only the frees need a list. */
static bool requests_prepare(const tn_snapshot_lives *lives, requests_order *order) {
    const tn_context *context = &lives->context;
    order->times = (size_t)lives->facts.event_count + 2;
    order->before_count = (size_t)lives->facts.before_count;
    order->before = tn__alloc_array(context, order->before_count + 1, sizeof *order->before);
    order->ends = tn__alloc_array(context, order->times, sizeof *order->ends);
    order->next = tn__alloc_array(context, lives->life_count + 1, sizeof *order->next);
    if (order->before == NULL || order->ends == NULL || order->next == NULL) return false;
    memset(order->ends, 0xff, order->times * sizeof *order->ends);
    size_t at = 0;
    for (size_t i = lives->life_count; i-- > 0;) {
        const tn_snapshot_life *life = &lives->lives[i];
        order->next[i] = order->ends[life->last];
        order->ends[life->last] = (uint32_t)i;
        if (life->before) order->before[at++] = (tn__sort_item){life->address, (uint32_t)i};
    }
    return tn__sort_items(context, order->before, order->before_count);
}

/* Callbacks for each request, in order. */
typedef struct requests_visitor {
    void *self;
    tn_status (*begin)(void *self, uint32_t life, tn_error *error);
    tn_status (*end)(void *self, uint32_t life, tn_error *error);
    void (*trim)(void *self); /* empties the cache of a pool; may be NULL */
} requests_visitor;

static tn_status requests_visit(const tn_snapshot_lives *lives, const requests_visitor *visitor,
                                tn_error *error) {
    requests_order order = {0};
    uint64_t count = 0;
    const tn_snapshot_event *events = tn_snapshot_events(lives->snapshot, lives->device, &count);
    tn_status status = requests_prepare(lives, &order) ? TN_OK : tn__no_memory(error, "a snapshot");
    for (size_t i = 0; i < order.before_count && status == TN_OK; i++)
        status = visitor->begin(visitor->self, order.before[i].id, error);
    size_t next = 0; /* the next block to be allocated */
    for (uint64_t i = 0; i < count && status == TN_OK; i++) {
        uint32_t time = (uint32_t)i + 1;
        bool gives = events[i].action == TN_SNAPSHOT_SEGMENT_FREE ||
                     events[i].action == TN_SNAPSHOT_SEGMENT_UNMAP;
        if (gives && visitor->trim != NULL) visitor->trim(visitor->self);
        for (uint32_t life = order.ends[time]; life != REQUESTS_NONE && status == TN_OK;
             life = order.next[life])
            status = visitor->end(visitor->self, life, error);
        while (next < lives->life_count && lives->lives[next].first < time) next++;
        if (next < lives->life_count && lives->lives[next].first == time && status == TN_OK)
            status = visitor->begin(visitor->self, (uint32_t)next++, error);
    }
    requests_release(lives, &order);
    return status;
}

/* --- the requests as a trace --- */

typedef struct requests_recorder {
    const tn_snapshot_lives *lives;
    tn_pool_event *events;
    size_t count;
    uint32_t *blocks; /* [lives], number of the allocation of each block */
    uint32_t block_count;
    tn_pool_label *labels;
    uint32_t *stack_labels; /* [stacks][guesses], the label for each pair; 0: not made yet */
    size_t label_count, label_room;
} requests_recorder;

/* Finds the label of a block. Blocks with the same stack and guess share a label. */
static tn_status requests_label(requests_recorder *recorder, const tn_snapshot_life *life,
                                uint32_t *label, tn_error *error) {
    const tn_snapshot_lives *lives = recorder->lives;
    uint32_t *known =
        &recorder->stack_labels[(size_t)life->stack * TN_SNAPSHOT_GUESS_COUNT + life->guess];
    if (*known == 0) {
        if (!tn__reserve(&lives->context, &recorder->labels, &recorder->label_room,
                         recorder->label_count + 1, sizeof *recorder->labels))
            return tn__no_memory(error, "a recorded run");
        const tn__stack_facts *facts = &lives->stacks[life->stack];
        recorder->labels[recorder->label_count] =
            (tn_pool_label){lives->names[facts->line], tn_snapshot_guess_name(life->guess),
                            lives->names[facts->module]};
        *known = (uint32_t)recorder->label_count++;
    }
    *label = *known;
    return TN_OK;
}

static tn_status requests_record_begin(void *self, uint32_t number, tn_error *error) {
    requests_recorder *recorder = self;
    const tn_snapshot_life *life = &recorder->lives->lives[number];
    tn_pool_event event = {
        .size = life->size, .block = recorder->block_count, .stream = life->stream};
    TN_TRY(requests_label(recorder, life, &event.label, error));
    if (life->before && life->after) event.flags = TN_POOL_LONG_LIVED;
    recorder->blocks[number] = recorder->block_count++;
    recorder->events[recorder->count++] = event;
    return TN_OK;
}

static tn_status requests_record_end(void *self, uint32_t number, tn_error *error) {
    requests_recorder *recorder = self;
    (void)error;
    recorder->events[recorder->count++] =
        (tn_pool_event){.block = recorder->blocks[number],
                        .stream = recorder->lives->lives[number].stream,
                        .frees = true};
    return TN_OK;
}

tn_status tn_snapshot_trace(const tn_snapshot_lives *lives, tn_pool_trace **trace,
                            tn_error *error) {
    const tn_context *context = &lives->context;
    size_t events = 2 * lives->life_count + 1, blocks = lives->life_count + 1,
           stacks = tn_snapshot_stack_count(lives->snapshot) * (size_t)TN_SNAPSHOT_GUESS_COUNT;
    requests_recorder recorder = {.lives = lives};
    recorder.events = tn__alloc_array(context, events, sizeof *recorder.events);
    recorder.blocks = tn__alloc_array(context, blocks, sizeof *recorder.blocks);
    recorder.stack_labels = tn__alloc_array(context, stacks, sizeof *recorder.stack_labels);
    bool has_room =
        recorder.events != NULL && recorder.blocks != NULL && recorder.stack_labels != NULL &&
        tn__reserve(context, &recorder.labels, &recorder.label_room, 1, sizeof *recorder.labels);
    tn_status status = has_room ? TN_OK : tn__no_memory(error, "a recorded run");
    if (has_room) {
        recorder.labels[recorder.label_count++] = (tn_pool_label){"", "", ""};
        requests_visitor visitor = {&recorder, requests_record_begin, requests_record_end, NULL};
        status = requests_visit(lives, &visitor, error);
    }
    if (status == TN_OK)
        status = tn_pool_trace_create(recorder.events, recorder.count, recorder.labels,
                                      (uint32_t)recorder.label_count, context, trace, error);
    tn__free(context, recorder.labels, recorder.label_room * sizeof *recorder.labels);
    tn__free(context, recorder.stack_labels, stacks * sizeof *recorder.stack_labels);
    tn__free(context, recorder.blocks, blocks * sizeof *recorder.blocks);
    tn__free(context, recorder.events, events * sizeof *recorder.events);
    return status;
}

/* --- the requests served by a pool --- */

typedef struct requests_pool {
    const tn_snapshot_lives *lives;
    tn_pool *pool;
    uint64_t *ids; /* [lives] */
} requests_pool;

static tn_status requests_pool_begin(void *self, uint32_t number, tn_error *error) {
    requests_pool *server = self;
    const tn_snapshot_life *life = &server->lives->lives[number];
    tn_pool_request request = {.size = life->size, .stream = life->stream};
    tn_allocation block;
    if (life->before && life->after) request.flags = TN_POOL_LONG_LIVED;
    tn_status status = tn_pool_alloc(server->pool, &request, &block, error);
    if (status != TN_OK) return tn__where(error, status, "event %u", life->first);
    server->ids[number] = block.id;
    return TN_OK;
}

static tn_status requests_pool_end(void *self, uint32_t number, tn_error *error) {
    requests_pool *server = self;
    return tn_pool_free(server->pool, server->ids[number], error);
}

static void requests_pool_trim(void *self) {
    requests_pool *server = self;
    (void)tn_pool_empty_cache(server->pool);
}

tn_status tn_snapshot_serve(const tn_snapshot_lives *lives, tn_pool *pool, tn_error *error) {
    size_t count = lives->life_count + 1;
    requests_pool server = {.lives = lives, .pool = pool};
    server.ids = tn__alloc_array(&lives->context, count, sizeof *server.ids);
    if (server.ids == NULL) return tn__no_memory(error, "a replay");
    requests_visitor visitor = {&server, requests_pool_begin, requests_pool_end,
                                requests_pool_trim};
    tn_status status = requests_visit(lives, &visitor, error);
    tn__free(&lives->context, server.ids, count * sizeof *server.ids);
    return status;
}

/* --- the live ranges as a planning problem --- */

tn_status tn_snapshot_problem(const tn_snapshot_lives *lives, uint64_t alignment,
                              const tn_context *context, tn_problem **problem, tn_error *error) {
    tn_problem *made = NULL;
    TN_TRY(tn_problem_create(context, &made, error));
    tn_status status = tn_problem_set_alignment(made, alignment, error);
    for (size_t i = 0; i < lives->life_count && status == TN_OK; i++) {
        const tn_snapshot_life *life = &lives->lives[i];
        tn_body body = {.size = life->size,
                        .first = life->first,
                        .last = life->last,
                        .name = lives->names[lives->stacks[life->stack].line]};
        status = tn_problem_add(made, &body, NULL, error);
    }
    if (status == TN_OK)
        *problem = made;
    else
        tn_problem_destroy(made);
    return status;
}
