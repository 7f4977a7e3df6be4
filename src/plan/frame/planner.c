/* planner.c - the words that planners are written in: orders, holes, placing, limits.
 *
 * "Who of the placed bodies meets this one in time?" is asked once per body. Up to RUN_SCAN_MAX
 * bodies the placed ones are kept in order of their offsets and their hulls are scanned: under a
 * nanosecond each, and what is found is sorted already. Beyond, bodies are sorted by their first
 * step, a binary tree over that order keeps the latest end of the placed ones, and a query visits
 * only subtrees that hold an answer: O(answers * log n). Both find the same bodies. The starts
 * that they forbid are ranges; the complement, in one sweep from the bottom, are the holes. Where
 * clocks decide (several streams), neither structure helps: all placed bodies are asked.
 */
#include "plan/frame/planner_run.h"

#include <inttypes.h>

#define RUN_SCAN_MAX 32768u
#define RUN_LOOK_EVERY 256u     /* units of work between two looks at the clock ... */
#define RUN_LOOK_BODIES 100000u /* ... or bodies that were looked at */

/* --- making and ending --- */

#define RUN_ARRAYS(X, n, scans, leaves)                                                            \
    X(offset, n)                                                                                   \
    X(placed, n)                                                                                   \
    X(order, n)                                                                                    \
    X(near, n)                                                                                     \
    X(best, n)                                                                                     \
    X(reach, (scans) ? 0 : 2 * (leaves))                                                           \
    X(level, (scans) ? (n) : 0)                                                                    \
    X(level_first, (scans) ? (n) : 0)                                                              \
    X(level_last, (scans) ? (n) : 0)                                                               \
    X(level_bytes, (scans) ? (n) : 0)

tn_status tn__run_create(tn_run *run, const tn__prepared *prepared, const tn_planner *planner,
                         tn_error *error) {
    const tn_context *context = &prepared->context;
    size_t n = prepared->count, leaves = prepared->leaf_count;
    *run = (tn_run){.prepared = prepared,
                    .planner = planner,
                    .error = error,
                    .scans = prepared->count <= RUN_SCAN_MAX,
                    .best_peak = UINT64_MAX,
                    .lower_bound = prepared->lower_bound,
                    .work_limit = prepared->options->work_limit,
                    .threads = prepared->options->threads};
    tn__arena_init(&run->scratch, context);
    bool all = true;
#define TN_X(field, room)                                                                          \
    run->field = tn__alloc_array(context, room, sizeof *run->field);                               \
    all = all && run->field != NULL;
    RUN_ARRAYS(TN_X, n, run->scans, leaves)
#undef TN_X
    if (all) {
        for (uint32_t i = 0; i < prepared->count; i++)
            if (prepared->pins[i] != TN__FREE) tn__run_place(run, i, prepared->pins[i]);
        return TN_OK;
    }
    tn__run_release(run);
    return tn__no_memory(error, "a planner's arrays");
}

void tn__run_release(tn_run *run) {
    const tn_context *context = &run->prepared->context;
    size_t n = run->prepared->count, leaves = run->prepared->leaf_count;
#define TN_X(field, room) tn__free(context, run->field, (room) * sizeof *run->field);
    RUN_ARRAYS(TN_X, n, run->scans, leaves)
#undef TN_X
    tn__free(context, run->blocked, run->blocked_room * sizeof *run->blocked);
    tn__free(context, run->merged, run->merged_room * sizeof *run->merged);
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
uint64_t tn__run_span(const tn_run *run, uint32_t body) {
    const tn_run_body *facts = &run->prepared->bodies[body];
    const int64_t *times = run->prepared->times;
    return (uint64_t)times[facts->last] - (uint64_t)times[facts->first];
}
bool tn__run_pinned(const tn_run *run, uint32_t body) {
    return run->prepared->pins[body] != TN__FREE;
}
uint64_t tn__run_capacity(const tn_run *run) { return run->prepared->capacity; }
uint64_t tn__run_lower_bound(const tn_run *run) { return run->lower_bound; }
uint64_t tn__run_seed(const tn_run *run) { return run->prepared->options->seed; }
bool tn__run_is_limited(const tn_run *run) {
    return run->work_limit != 0 || run->prepared->deadline_s != 0;
}
uint32_t tn__run_needs(const tn_run *run) { return run->prepared->needs; }
bool tn__run_has_streams(const tn_run *run) {
    return (run->prepared->needs & TN_PLANS_STREAMS) != 0;
}
bool tn__run_has_capacity(const tn_run *run) { return run->prepared->has_capacity; }
uint32_t tn__run_threads(const tn_run *run) { return run->threads > 0 ? run->threads : 1; }
const tn_context *tn__run_context(const tn_run *run) { return &run->prepared->context; }
bool tn__run_is_done(const tn_run *run) {
    if (run->best_peak <= run->lower_bound) return true;
    return run->prepared->has_capacity && run->best_peak <= run->prepared->capacity;
}
uint64_t tn__run_best(const tn_run *run) { return run->best_peak; }
const uint64_t *tn__run_best_offsets(const tn_run *run) { return run->best; }
bool tn__run_placed(const tn_run *run, uint32_t body) { return run->placed[body] != 0; }

uint64_t tn__run_offset(const tn_run *run, uint32_t body) {
    tn_assert(run->placed[body]);
    return run->offset[body];
}

/* --- limits --- */

/* Whether a run that made this one, near or far, is to stop, or needs it no longer. */
static bool run_outer_stops(const tn_run *run) {
    for (; run->outer != NULL; run = run->outer)
        if (run->outer->stop || (run->outer_stop != NULL && *run->outer_stop)) return true;
    return false;
}

/* Of this run and of those around it; what was found of a part is nothing of the whole. */
static void run_tell(const tn_run *run) {
    const tn_context *context = &run->prepared->context;
    const tn_run *whole = run;
    uint64_t best = UINT64_MAX, bound = 0;
    if (context->found == NULL) return;
    while (whole->outer != NULL) whole = whole->outer;
    for (; run != NULL; run = run->outer) {
        if (run->prepared != whole->prepared) continue;
        if (run->best_peak < best) best = run->best_peak;
        if (run->lower_bound > bound) bound = run->lower_bound;
    }
    context->found(context->self, "plan", best, bound);
}

static void run_look(tn_run *run) {
    const tn__prepared *prepared = run->prepared;
    const tn_context *context = &prepared->context;
    if (prepared->deadline_s != 0 && tn__clock_s() >= prepared->deadline_s) {
        run->timed_out = true;
        run->stop = true;
    }
    if (run_outer_stops(run)) run->stop = true;
    if (run->other_thread || context->progress == NULL) return;
    run_tell(run);
    if (context->progress(context->self, "plan", run->work, run->work_limit)) return;
    for (tn_run *each = run; each != NULL; each = each->outer) each->stop = each->cancelled = true;
}

bool tn__run_goes_on(tn_run *run) {
    run_look(run);
    return !run->stop;
}

bool tn__run_is_over(const tn_run *run) {
    double deadline_s = run->prepared->deadline_s;
    if (run->stop || (run_outer_stops(run))) return true;
    return deadline_s != 0 && tn__clock_s() >= deadline_s;
}

static tn_status run_refuse_height(const tn_run *run) {
    TN_FAIL(run->error, TN_E_STOPPED, "planner %s would end beyond 2^63 - 1 bytes; try another",
            run->planner->name);
}

tn_status tn__run_work(tn_run *run, uint64_t units) {
    run->work += units;
    if (run->too_high) return run_refuse_height(run);
    if (run->work >= run->next_look || run->unseen >= RUN_LOOK_BODIES) {
        run->next_look = run->work + RUN_LOOK_EVERY;
        run->unseen = 0;
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

uint64_t tn__run_work_done(const tn_run *run) { return run->work; }

/* --- order --- */

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
        if (!tn__run_goes_on(run)) return tn__run_work(run, 0);
    }
    if (from != run->order) memcpy(run->order, from, free_count * sizeof *from);
    *order = run->order;
    *count = free_count;
    return TN_OK;
}

/* --- placing --- */

static void run_set_reach(tn_run *run, uint32_t body, uint32_t last) {
    uint32_t at = run->prepared->leaf_count + run->prepared->position[body];
    run->reach[at] = last;
    for (at /= 2; at >= 1; at /= 2) {
        uint32_t left = run->reach[2 * at], right = run->reach[2 * at + 1];
        run->reach[at] = left > right ? left : right;
    }
}

/* How many placed bodies lie at or below (`up`), or strictly below, an offset. */
static uint32_t run_level_find(const tn_run *run, uint64_t offset, bool up) {
    uint32_t low = 0, high = run->level_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t there = run->offset[run->level[middle]];
        if (there < offset || (up && there == offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Moves the levels from `from` up so that they begin at `to`. */
static void run_level_shift(tn_run *run, uint32_t from, uint32_t to) {
    size_t bytes = (run->level_count - from) * sizeof *run->level;
    memmove(run->level + to, run->level + from, bytes);
    memmove(run->level_first + to, run->level_first + from, bytes);
    memmove(run->level_last + to, run->level_last + from, bytes);
    memmove(run->level_bytes + to, run->level_bytes + from,
            (run->level_count - from) * sizeof *run->level_bytes);
}

void tn__run_place(tn_run *run, uint32_t body, uint64_t offset) {
    tn_assert(!run->placed[body]);
    const tn_run_body *facts = &run->prepared->bodies[body];
    if (offset > TN__PLAN_HEIGHT_MAX - facts->size) { /* sizes and pins are below it: problem.c */
        run->too_high = true;
        offset = 0;
    }
    run->placed[body] = 1;
    if (!run->scans) {
        run->offset[body] = offset;
        run_set_reach(run, body, facts->last);
        return;
    }
    uint32_t at = run_level_find(run, offset, true);
    run_level_shift(run, at, at + 1);
    run->level_count++;
    run->offset[body] = offset;
    run->level[at] = body;
    run->level_first[at] = facts->first;
    run->level_last[at] = facts->last;
    run->level_bytes[at] = (tn__blocked){0, 0};
    if (facts->piece_count != 1) return;
    const tn_run_piece *piece = &run->prepared->pieces[facts->piece_first];
    run->level_bytes[at] = (tn__blocked){offset + piece->lo, offset + piece->hi};
}

void tn__run_unplace(tn_run *run, uint32_t body) {
    tn_assert(run->placed[body]);
    tn_assert(!tn__run_pinned(run, body));
    run->placed[body] = 0;
    if (!run->scans) {
        run_set_reach(run, body, 0);
        return;
    }
    uint32_t at = run_level_find(run, run->offset[body], false);
    while (run->level[at] != body) at++;
    run_level_shift(run, at + 1, at);
    run->level_count--;
}

/* --- holes --- */

#define RUN_BLOCK 32u

/* Levels whose hull meets that of `body`, into run->near. Blocks of hulls are compared at once (the
 * inner loop is one for the compiler's vectors); few of them hold answers. */
static uint32_t run_near_scan(tn_run *run, const tn_run_body *body) {
    const uint32_t first = body->first, last = body->last, count = run->level_count;
    uint32_t found = 0, at = 0;
    for (; count - at >= RUN_BLOCK; at += RUN_BLOCK) {
        const uint32_t *firsts = run->level_first + at, *lasts = run->level_last + at;
        uint8_t meets[RUN_BLOCK];
        for (size_t i = 0; i < RUN_BLOCK; i++)
            meets[i] = (uint8_t)((firsts[i] < last) & (lasts[i] > first));
        for (uint32_t word = 0; word < RUN_BLOCK; word += 8) {
            uint64_t bits;
            memcpy(&bits, meets + word, sizeof bits);
            if (bits == 0) continue;
            for (uint32_t i = word; i < word + 8; i++)
                if (meets[i]) run->near[found++] = at + i;
        }
    }
    for (; at < count; at++)
        if (run->level_first[at] < last && run->level_last[at] > first) run->near[found++] = at;
    return found;
}

typedef struct run_subtree {
    uint32_t node, first, width;
} run_subtree;

/* The same for many bodies, which it puts into run->near by first step: a walk over the part of the
 * tree left of those that begin too late. */
static uint32_t run_near_tree(tn_run *run, const tn_run_body *body) {
    const tn__prepared *prepared = run->prepared;
    uint32_t limit = prepared->until[body->last]; /* positions below it begin before our end */
    uint32_t found = 0, depth = 0;
    run_subtree stack[66]; /* two per level */
    stack[depth++] = (run_subtree){1, 0, prepared->leaf_count};
    while (depth > 0) {
        uint32_t node = stack[--depth].node, first = stack[depth].first, width = stack[depth].width;
        if (first >= limit || run->reach[node] <= body->first) continue;
        if (width == 1) {
            run->near[found++] = prepared->by_first[first];
            continue;
        }
        width /= 2;
        stack[depth++] = (run_subtree){2 * node + 1, first + width, width};
        stack[depth++] = (run_subtree){2 * node, first, width};
    }
    return found;
}

/* A start s of `mine` meets bytes [low, high) while s + mine.hi > low and s + mine.lo < high. */
static tn__blocked run_block(const tn_run_piece *mine, tn__blocked bytes) {
    return (tn__blocked){.first = bytes.first >= mine->hi ? bytes.first - mine->hi + 1 : 0,
                         .last = bytes.last > mine->lo ? bytes.last - mine->lo : 0};
}

static bool run_block_room(tn_run *run, size_t need) {
    return tn__reserve(&run->prepared->context, &run->blocked, &run->blocked_room, need,
                       sizeof *run->blocked);
}

static bool run_collect_pieces(tn_run *run, const tn_run_body *body, uint32_t id, size_t *count) {
    const tn__prepared *prepared = run->prepared;
    const tn_run_body *other = &prepared->bodies[id];
    const tn_run_piece *mine = prepared->pieces + body->piece_first;
    const tn_run_piece *theirs = prepared->pieces + other->piece_first;
    for (uint32_t a = 0, from = 0; a < body->piece_count; a++) { /* both sorted by first */
        while (from < other->piece_count && theirs[from].last <= mine[a].first) from++;
        for (uint32_t b = from; b < other->piece_count && theirs[b].first < mine[a].last; b++) {
            if (theirs[b].last <= mine[a].first) continue;
            uint64_t offset = run->offset[id];
            tn__blocked bytes = {offset + theirs[b].lo, offset + theirs[b].hi};
            tn__blocked blocked = run_block(&mine[a], bytes);
            if (blocked.first >= blocked.last) continue;
            if (!run_block_room(run, *count + 1)) return false;
            run->blocked[(*count)++] = blocked;
        }
    }
    return true;
}

bool tn__run_pieces_meet(const tn_run *run, uint32_t piece_a, uint32_t piece_b) {
    const tn__prepared *prepared = run->prepared;
    const tn_run_piece *a = &prepared->pieces[piece_a], *b = &prepared->pieces[piece_b];
    if (a->first < b->last && b->first < a->last) return true;
    if (prepared->begins == NULL) return false;
    bool a_first = a->last <= b->first;
    const int64_t *ends = prepared->ends[a_first ? piece_a : piece_b];
    const int64_t *begins = prepared->begins[a_first ? piece_b : piece_a];
    for (uint32_t s = 0; s < prepared->streams; s++)
        if (ends[s] > begins[s]) return true;
    return false;
}

/* With clocks, bodies that are far apart in time may conflict: all that are placed are asked. */
static bool run_collect_unordered(tn_run *run, const tn_run_body *body, size_t *count) {
    const tn__prepared *prepared = run->prepared;
    for (uint32_t id = 0; id < prepared->count; id++) {
        if (!run->placed[id]) continue;
        const tn_run_body *other = &prepared->bodies[id];
        for (uint32_t a = 0; a < body->piece_count; a++) {
            for (uint32_t b = 0; b < other->piece_count; b++) {
                uint32_t mine = body->piece_first + a, theirs = other->piece_first + b;
                const tn_run_piece *piece = &prepared->pieces[theirs];
                uint64_t offset = run->offset[id];
                tn__blocked bytes = {offset + piece->lo, offset + piece->hi};
                tn__blocked blocked = run_block(&prepared->pieces[mine], bytes);
                if (blocked.first >= blocked.last || !tn__run_pieces_meet(run, mine, theirs))
                    continue;
                if (!run_block_room(run, *count + 1)) return false;
                run->blocked[(*count)++] = blocked;
            }
        }
    }
    return true;
}

/* Plain bodies (one piece) among the levels that were found are done in a straight line. */
static bool run_collect_levels(tn_run *run, const tn_run_body *body, uint32_t near_count,
                               size_t *count) {
    const tn_run_piece *mine = &run->prepared->pieces[body->piece_first];
    if (!run_block_room(run, near_count)) return false;
    for (uint32_t i = 0; i < near_count; i++) {
        tn__blocked bytes = run->level_bytes[run->near[i]];
        if (bytes.first == bytes.last || body->piece_count != 1) {
            if (!run_collect_pieces(run, body, run->level[run->near[i]], count)) return false;
            if (!run_block_room(run, *count + near_count - i)) return false;
            continue;
        }
        run->blocked[*count] = run_block(mine, bytes);
        *count += run->blocked[*count].first < run->blocked[*count].last;
    }
    return true;
}

uint32_t tn__run_near(tn_run *run, uint32_t first, uint32_t last, const uint32_t **ids) {
    const tn_run_body span = {.first = first, .last = last};
    uint32_t count = run->scans ? run_near_scan(run, &span) : run_near_tree(run, &span);
    for (uint32_t i = 0; i < count && run->scans; i++) run->near[i] = run->level[run->near[i]];
    *ids = run->near;
    return count;
}

static bool run_collect(tn_run *run, const tn_run_body *body, size_t *count) {
    if (run->prepared->begins != NULL) return run_collect_unordered(run, body, count);
    if (run->scans) return run_collect_levels(run, body, run_near_scan(run, body), count);
    uint32_t near_count = run_near_tree(run, body);
    for (uint32_t i = 0; i < near_count; i++)
        if (!run_collect_pieces(run, body, run->near[i], count)) return false;
    return true;
}

static void run_merge_blocked(const tn__blocked *from, tn__blocked *to, size_t first, size_t middle,
                              size_t last) {
    size_t a = first, b = middle;
    for (size_t at = first; at < last; at++) {
        bool left = a < middle && (b >= last || from[a].first <= from[b].first);
        to[at] = from[left ? a++ : b++];
    }
}

/* Sorts run->blocked by first; most often it is sorted already. Merge sort from the bottom. */
static bool run_sort_blocked(tn_run *run, size_t count) {
    size_t rising = 1;
    while (rising < count && run->blocked[rising - 1].first <= run->blocked[rising].first) rising++;
    if (rising >= count) return true;
    if (!tn__reserve(&run->prepared->context, &run->merged, &run->merged_room, count,
                     sizeof *run->merged))
        return false;
    tn__blocked *from = run->blocked, *to = run->merged;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t first = 0; first < count; first += 2 * width) {
            size_t middle = first + width < count ? first + width : count;
            size_t last = middle + width < count ? middle + width : count;
            run_merge_blocked(from, to, first, middle, last);
        }
        tn__blocked *swap = from;
        from = to;
        to = swap;
    }
    if (from != run->blocked) memcpy(run->blocked, from, count * sizeof *from);
    return true;
}

tn_status tn__run_holes(tn_run *run, uint32_t id, const tn_hole **holes, uint32_t *count) {
    const tn_run_body *body = &run->prepared->bodies[id];
    tn_assert(!run->placed[id]);
    TN_TRY(tn__run_work(run, 1));
    size_t blocked_count = 0;
    if (!run_collect(run, body, &blocked_count) || !run_sort_blocked(run, blocked_count) ||
        !tn__reserve(&run->prepared->context, &run->holes, &run->hole_room, blocked_count + 1,
                     sizeof *run->holes))
        return tn__no_memory(run->error, "the holes of a body");
    run->unseen += run->scans ? run->level_count / 8 + blocked_count : blocked_count;
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

/* --- the greedy frame --- */

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

static tn_status run_greedy(tn_run *run, const uint32_t *order, uint32_t count,
                            tn_run_choose choose, uint64_t below) {
    for (uint32_t i = 0; i < count; i++) {
        const tn_hole *holes;
        uint32_t hole_count, id = order[i];
        TN_TRY(tn__run_holes(run, id, &holes, &hole_count));
        tn__run_place(run, id, choose(holes, hole_count));
        uint64_t size = run->prepared->bodies[id].size;
        if (size > 0 && run->offset[id] + size >= below) return TN_OK;
    }
    return TN_OK;
}

tn_status tn__run_greedy(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose) {
    return run_greedy(run, order, count, choose, run->best_peak);
}

tn_status tn__run_greedy_all(tn_run *run, const uint32_t *order, uint32_t count,
                             tn_run_choose choose) {
    return run_greedy(run, order, count, choose, UINT64_MAX);
}

/* --- results
 * ------------------------------------------------------------------------------------------------
 */

void tn__run_keep_offsets(tn_run *run, const uint64_t *offsets) {
    const tn__prepared *prepared = run->prepared;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < prepared->count; i++) {
        uint64_t end = offsets[i] + prepared->bodies[i].size;
        if (prepared->bodies[i].size > 0 && end > peak) peak = end;
    }
    if (peak >= run->best_peak) return;
    run->best_peak = peak;
    memcpy(run->best, offsets, prepared->count * sizeof *run->best);
}

tn_status tn__run_keep(tn_run *run) {
    if (run->too_high) return run_refuse_height(run);
    for (uint32_t i = 0; i < run->prepared->count; i++)
        if (!run->placed[i])
            TN_FAIL(run->error, TN_E_INTERNAL, "planner %s left body %u without an offset",
                    run->planner->name, run->prepared->ids[i]);
    tn__run_keep_offsets(run, run->offset);
    return TN_OK;
}

void tn__run_raise_bound(tn_run *run, uint64_t bytes) {
    if (bytes > run->lower_bound) run->lower_bound = bytes;
}

tn_status tn__run_solve(tn_run *run) {
    tn_error *error = run->error;
    if (error != NULL) *error = (tn_error){.status = TN_OK};
    tn_status status = run->planner->solve(run);
    bool complete = true;
    for (uint32_t i = 0; i < run->prepared->count && complete; i++) complete = run->placed[i] != 0;
    if (status == TN_OK && (complete || run->best_peak == UINT64_MAX)) status = tn__run_keep(run);
    if (status == TN_E_STOPPED && run->best_peak != UINT64_MAX) status = TN_OK;
    if (status == TN_OK && error != NULL) *error = (tn_error){.status = TN_OK};
    if (status != TN_OK && error != NULL && error->status != status)
        TN_FAIL(error, status, "planner %s: %s", run->planner->name, tn_status_message(status));
    return status;
}

tn_status tn__run_answer(tn_run *run, const uint64_t *first) {
    const tn__prepared *prepared = run->prepared;
    tn_status status = tn__run_solve(run);
    bool limit = status == TN_E_STOPPED && !run->cancelled && !run->too_high;
    if (!limit || run->best_peak != UINT64_MAX) return status;
    uint64_t peak;
    if (first != NULL)
        tn__run_keep_offsets(run, first);
    else if (tn__first_layout(prepared, run->best, &peak, NULL) == TN_OK)
        run->best_peak = peak;
    if (run->best_peak == UINT64_MAX) return status;
    const tn_context *context = &prepared->context;
    if (context->log != NULL)
        context->log(context->self, "the limit came before the planner had a layout; this is the "
                                    "first one, made in order of time");
    if (run->error != NULL) *run->error = (tn_error){.status = TN_OK};
    return TN_OK;
}
