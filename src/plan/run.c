/* run.c - the words that planners are written in: orders, holes, placing, limits.
 *
 * "Who of the placed bodies meets this one in time?" is asked once per body and must not cost a
 * look at all of them. Bodies are sorted by their first step; a binary tree over that order keeps
 * the latest end of the placed ones. A query visits only subtrees that hold an answer:
 * O(answers * log n). The starts that an answer forbids are ranges; their complement, taken in one
 * sweep from the bottom, are the holes.
 */
#include "plan/run.h"

#include <inttypes.h>

#define RUN_LOOK_EVERY 64u /* units of work between two looks at the clock */

/* --- making and ending ------------------------------------------------------------------------ */

#define RUN_ARRAYS(X, n, leaves)                                                                   \
    X(offset, n) X(placed, n) X(reach, 2 * (leaves)) X(order, n) X(near, n) X(best, n)

tn_status tn__run_create(tn_run *run, const tn__prepared *prepared, const tn_planner *planner,
                         tn_error *error) {
    const tn_context *context = &prepared->context;
    size_t n = prepared->count, leaves = prepared->leaf_count;
    *run = (tn_run){.prepared = prepared,
                    .planner = planner,
                    .error = error,
                    .best_peak = UINT64_MAX,
                    .lower_bound = prepared->lower_bound,
                    .work_limit = prepared->options->work_limit,
                    .threads = prepared->options->threads};
    tn__arena_init(&run->scratch, context);
    bool all = true;
#define TN_X(field, room)                                                                          \
    run->field = tn__alloc_array(context, room, sizeof *run->field);                               \
    all = all && run->field != NULL;
    RUN_ARRAYS(TN_X, n, leaves)
#undef TN_X
    if (all) {
        for (uint32_t i = 0; i < prepared->count; i++) {
            const tn_body *body = &prepared->problem->bodies[prepared->ids[i]];
            if (body->flags & TN_BODY_PINNED) tn__run_place(run, i, body->offset);
        }
        return TN_OK;
    }
    tn__run_release(run);
    return tn__no_memory(error, "a planner's arrays");
}

void tn__run_release(tn_run *run) {
    const tn_context *context = &run->prepared->context;
    size_t n = run->prepared->count, leaves = run->prepared->leaf_count;
#define TN_X(field, room) tn__free(context, run->field, (room) * sizeof *run->field);
    RUN_ARRAYS(TN_X, n, leaves)
#undef TN_X
    tn__free(context, run->blocked, run->blocked_room * sizeof *run->blocked);
    tn__free(context, run->holes, run->hole_room * sizeof *run->holes);
    tn__arena_release(&run->scratch);
}

void *tn__run_scratch(tn_run *run, size_t count, size_t item) {
    return tn__arena_array(&run->scratch, count, item);
}

/* --- plain facts ---------------------------------------------------------------------------------
 */

uint32_t tn__run_count(const tn_run *run) { return run->prepared->count; }
const tn_run_body *tn__run_bodies(const tn_run *run) { return run->prepared->bodies; }
const tn_run_piece *tn__run_pieces(const tn_run *run) { return run->prepared->pieces; }
uint32_t tn__run_time_count(const tn_run *run) { return run->prepared->time_count; }
uint64_t tn__run_capacity(const tn_run *run) { return run->prepared->capacity; }
uint64_t tn__run_lower_bound(const tn_run *run) { return run->lower_bound; }
uint64_t tn__run_seed(const tn_run *run) { return run->prepared->options->seed; }
bool tn__run_has_capacity(const tn_run *run) { return run->prepared->has_capacity; }
uint32_t tn__run_threads(const tn_run *run) { return run->threads > 0 ? run->threads : 1; }
const tn_context *tn__run_context(const tn_run *run) { return &run->prepared->context; }
uint64_t tn__run_best(const tn_run *run) { return run->best_peak; }
const volatile bool *tn__run_stop(const tn_run *run) { return &run->stop; }
bool tn__run_placed(const tn_run *run, uint32_t body) { return run->placed[body] != 0; }

uint64_t tn__run_offset(const tn_run *run, uint32_t body) {
    tn_assert(run->placed[body]);
    return run->offset[body];
}

/* --- limits
 * ---------------------------------------------------------------------------------------- */

static void run_look(tn_run *run) {
    const tn__prepared *prepared = run->prepared;
    const tn_context *context = &prepared->context;
    if (prepared->deadline_s != 0 && tn__clock_s() >= prepared->deadline_s)
        run->stop = run->timed_out = true;
    if (run->outer != NULL && (run->outer->stop || *run->outer_stop)) run->stop = true;
    if (run->other_thread || context->progress == NULL) return;
    if (context->progress(context->self, "plan", run->work, run->work_limit)) return;
    run->stop = true;
    if (run->outer != NULL) run->outer->stop = true;
}

tn_status tn__run_work(tn_run *run, uint64_t units) {
    run->work += units;
    if (run->work >= run->next_look) {
        run->next_look = run->work + RUN_LOOK_EVERY;
        run_look(run);
    }
    if (run->stop)
        TN_FAIL(run->error, TN_E_STOPPED, "stopped after %" PRIu64 " units of work", run->work);
    if (run->work_limit != 0 && run->work > run->work_limit) {
        run->out_of_work = true;
        TN_FAIL(run->error, TN_E_STOPPED, "the work limit of %" PRIu64 " is reached",
                run->work_limit);
    }
    return TN_OK;
}

uint64_t tn__run_work_left(const tn_run *run) {
    if (run->work_limit == 0) return UINT64_MAX;
    return run->work < run->work_limit ? run->work_limit - run->work : 0;
}

/* --- order
 * ------------------------------------------------------------------------------------------- */

/* Merge sort from the bottom: stable, so ties stay by number; no recursion, no global context. */
typedef struct run_sort {
    const tn_run_body *bodies;
    const uint64_t *key; /* NULL: none */
    tn_run_compare compare;
} run_sort;

static bool run_in_order(const run_sort *sort, uint32_t a, uint32_t b) {
    if (sort->key != NULL && sort->key[a] != sort->key[b]) return sort->key[a] < sort->key[b];
    return sort->compare(&sort->bodies[a], &sort->bodies[b]) <= 0;
}

static void run_merge(const run_sort *sort, const uint32_t *from, uint32_t *to, uint32_t first,
                      uint32_t middle, uint32_t last) {
    uint32_t a = first, b = middle;
    for (uint32_t at = first; at < last; at++) {
        bool left = a < middle && (b >= last || run_in_order(sort, from[a], from[b]));
        to[at] = from[left ? a++ : b++];
    }
}

tn_status tn__run_order(tn_run *run, tn_run_compare compare, const uint32_t **order,
                        uint32_t *count) {
    return tn__run_order_by_key(run, NULL, compare, order, count);
}

tn_status tn__run_order_by_key(tn_run *run, const uint64_t *key, tn_run_compare then,
                               const uint32_t **order, uint32_t *count) {
    run_sort sort = {.bodies = run->prepared->bodies, .key = key, .compare = then};
    uint32_t free_count = 0, n = run->prepared->count;
    for (uint32_t i = 0; i < n; i++)
        if (!run->placed[i]) run->order[free_count++] = i;
    uint32_t *from = run->order, *to = run->near;
    for (uint32_t width = 1; width < free_count; width = width <= n / 2 ? 2 * width : n) {
        for (uint32_t first = 0; first < free_count;) {
            uint32_t left = free_count - first;
            uint32_t middle = first + (width < left ? width : left);
            uint32_t last = middle + (width < free_count - middle ? width : free_count - middle);
            run_merge(&sort, from, to, first, middle, last);
            first = last;
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != run->order) memcpy(run->order, from, free_count * sizeof *from);
    *order = run->order;
    *count = free_count;
    return TN_OK;
}

/* --- placing
 * ------------------------------------------------------------------------------------------- */

static void run_set_reach(tn_run *run, uint32_t body, uint32_t last) {
    uint32_t at = run->prepared->leaf_count + run->prepared->position[body];
    run->reach[at] = last;
    for (at /= 2; at >= 1; at /= 2) {
        uint32_t left = run->reach[2 * at], right = run->reach[2 * at + 1];
        run->reach[at] = left > right ? left : right;
    }
}

void tn__run_place(tn_run *run, uint32_t body, uint64_t offset) {
    tn_assert(!run->placed[body]);
    run->offset[body] = offset;
    run->placed[body] = 1;
    run_set_reach(run, body, run->prepared->bodies[body].last);
}

void tn__run_unplace(tn_run *run, uint32_t body) {
    tn_assert(run->placed[body]);
    tn_assert(!(run->prepared->problem->bodies[run->prepared->ids[body]].flags & TN_BODY_PINNED));
    run->placed[body] = 0;
    run_set_reach(run, body, 0);
}

/* --- holes
 * ---------------------------------------------------------------------------------------------- */

/* Placed bodies whose hull meets that of `body`, into run->near, by first step. Iterative walk over
 * the part of the tree left of the bodies that begin too late. */
static uint32_t run_near(tn_run *run, const tn_run_body *body) {
    const tn__prepared *prepared = run->prepared;
    uint32_t limit = prepared->until[body->last]; /* positions below it begin before our end */
    uint32_t found = 0;
    struct {
        uint32_t node, first, width;
    } stack[66]; /* two per level */
    uint32_t depth = 0;
    stack[depth++] = (typeof(stack[0])){1, 0, prepared->leaf_count};
    while (depth > 0) {
        uint32_t node = stack[--depth].node, first = stack[depth].first, width = stack[depth].width;
        if (first >= limit || run->reach[node] <= body->first) continue;
        if (width == 1) {
            run->near[found++] = prepared->by_first[first];
            continue;
        }
        width /= 2;
        stack[depth++] = (typeof(stack[0])){2 * node + 1, first + width, width};
        stack[depth++] = (typeof(stack[0])){2 * node, first, width};
    }
    return found;
}

static int run_blocked_order(const void *a, const void *b) {
    const tn__blocked *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->last > y->last) - (x->last < y->last);
}

/* A start s of `mine` meets `other` at `offset` while s + mine.hi > offset + other.lo and
 * s + mine.lo < offset + other.hi. */
static tn__blocked run_block(const tn_run_piece *mine, const tn_run_piece *other, uint64_t offset) {
    uint64_t low = offset + other->lo, high = offset + other->hi;
    return (tn__blocked){.first = low >= mine->hi ? low - mine->hi + 1 : 0,
                         .last = high > mine->lo ? high - mine->lo : 0};
}

static bool run_collect(tn_run *run, const tn_run_body *body, uint32_t near_count, size_t *count) {
    const tn__prepared *prepared = run->prepared;
    const tn_run_piece *mine = prepared->pieces + body->piece_first;
    for (uint32_t i = 0; i < near_count; i++) {
        const tn_run_body *other = &prepared->bodies[run->near[i]];
        const tn_run_piece *theirs = prepared->pieces + other->piece_first;
        uint64_t offset = run->offset[run->near[i]];
        for (uint32_t a = 0; a < body->piece_count; a++) {
            for (uint32_t b = 0; b < other->piece_count && theirs[b].first < mine[a].last; b++) {
                if (theirs[b].last <= mine[a].first) continue;
                tn__blocked blocked = run_block(&mine[a], &theirs[b], offset);
                if (blocked.first >= blocked.last) continue;
                if (!tn__reserve(&prepared->context, &run->blocked, &run->blocked_room, *count + 1,
                                 sizeof *run->blocked))
                    return false;
                run->blocked[(*count)++] = blocked;
            }
        }
    }
    return true;
}

tn_status tn__run_holes(tn_run *run, uint32_t id, const tn_hole **holes, uint32_t *count) {
    const tn_run_body *body = &run->prepared->bodies[id];
    tn_assert(!run->placed[id]);
    TN_TRY(tn__run_work(run, 1));
    size_t blocked_count = 0;
    uint32_t near_count = run_near(run, body);
    if (!run_collect(run, body, near_count, &blocked_count) ||
        !tn__reserve(&run->prepared->context, &run->holes, &run->hole_room, blocked_count + 1,
                     sizeof *run->holes))
        return tn__no_memory(run->error, "the holes of a body");
    if (blocked_count > 1)
        qsort(run->blocked, blocked_count, sizeof *run->blocked, run_blocked_order);
    uint64_t mask = body->alignment - 1, top = 0; /* starts below top are forbidden or done */
    uint32_t found = 0;
    for (size_t i = 0; i < blocked_count; i++) {
        tn__blocked blocked = run->blocked[i];
        uint64_t first = (top + mask) & ~mask;
        if (first < blocked.first)
            run->holes[found++] = (tn_hole){first, (blocked.first - 1) & ~mask};
        if (blocked.last > top) top = blocked.last;
    }
    run->holes[found++] = (tn_hole){(top + mask) & ~mask, UINT64_MAX};
    *holes = run->holes;
    *count = found;
    return TN_OK;
}

/* --- the greedy frame
 * ------------------------------------------------------------------------------------ */

int tn__larger_first(const tn_run_body *a, const tn_run_body *b) {
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    uint32_t x = a->last - a->first, y = b->last - b->first;
    return (x < y) - (x > y);
}

uint64_t tn__choose_lowest(const tn_hole *holes, uint32_t count) {
    (void)count;
    return holes[0].first;
}

uint64_t tn__choose_tightest(const tn_hole *holes, uint32_t count) {
    const tn_hole *best = &holes[0];
    for (uint32_t i = 1; i < count; i++)
        if (holes[i].last - holes[i].first < best->last - best->first) best = &holes[i];
    return best->first;
}

tn_status tn__run_greedy(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose) {
    for (uint32_t i = 0; i < count; i++) {
        const tn_hole *holes;
        uint32_t hole_count;
        TN_TRY(tn__run_holes(run, order[i], &holes, &hole_count));
        tn__run_place(run, order[i], choose(holes, hole_count));
    }
    return TN_OK;
}

/* --- results
 * ------------------------------------------------------------------------------------------------
 */

tn_status tn__run_keep(tn_run *run) {
    const tn__prepared *prepared = run->prepared;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < prepared->count; i++) {
        if (!run->placed[i])
            TN_FAIL(run->error, TN_E_INTERNAL, "planner %s left body %u without an offset",
                    run->planner->name, prepared->ids[i]);
        uint64_t end = run->offset[i] + prepared->bodies[i].size;
        if (end > peak) peak = end;
    }
    if (peak < run->best_peak) {
        run->best_peak = peak;
        memcpy(run->best, run->offset, prepared->count * sizeof *run->best);
    }
    return TN_OK;
}

void tn__run_raise_bound(tn_run *run, uint64_t bytes) {
    if (bytes > run->lower_bound) run->lower_bound = bytes;
}

tn_status tn__run_solve(tn_run *run) {
    tn_error *error = run->error;
    tn_status status = run->planner->solve(run);
    bool complete = true;
    for (uint32_t i = 0; i < run->prepared->count && complete; i++) complete = run->placed[i] != 0;
    if (status == TN_OK && (complete || run->best_peak == UINT64_MAX)) status = tn__run_keep(run);
    if (status == TN_E_STOPPED && run->best_peak != UINT64_MAX) status = TN_OK;
    if (status == TN_OK && error != NULL) *error = (tn_error){.status = TN_OK};
    return status;
}
