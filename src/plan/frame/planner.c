/* planner.c - the functions that planners are written with: orders, holes, placing, limits.
 *
 * Finding holes for a buffer begins with a question: which placed buffers overlap it in time?
 * Buffers are kept in buckets by the length of their live ranges and by their first step
 * (prepare.c), so only a few buckets have to be searched: for live ranges of at most 2^k steps,
 * those that begin at most 2^k steps before the buffer. The first search sorts the buffers of a
 * bucket by offset. So the forbidden starts come as a few sorted rows of ranges. They are merged in
 * one sweep from the lowest offset, and the gaps between them are the holes. With clocks (several
 * streams), time does not limit the search, so all placed buffers are checked.
 */
#include "plan/frame/planner_run.h"

#include <inttypes.h>

#define RUN_LOOK_EVERY 256u /* units of work between two checks of the clock */
/* number of examined buffers after which the clock is checked in any case */
#define RUN_LOOK_BODIES 100000u
/* limit of new buffers in a bucket that are inserted one by one; more are sorted with the bucket */
#define RUN_BUCKET_FEW 64u

/* --- beginning and ending a run --- */

#define RUN_ARRAYS(X, n, buckets)                                                                  \
    X(offset, n)                                                                                   \
    X(placed, n)                                                                                   \
    X(order, n)                                                                                    \
    X(near, n)                                                                                     \
    X(best, n)                                                                                     \
    X(bucket, buckets)

tn_status tn__run_create(tn_run *run, const tn__prepared_bank *prepared, const tn_planner *planner,
                         tn_error *error) {
    const tn_context *context = &prepared->context;
    size_t n = prepared->count;
    *run = (tn_run){.prepared = prepared,
                    .planner = planner,
                    .error = error,
                    .best_peak = UINT64_MAX,
                    .best_cost = UINT64_MAX,
                    .lower_bound = prepared->lower_bound,
                    .work_limit = prepared->options->work_limit,
                    .threads = prepared->options->threads};
    tn__arena_init(&run->scratch, context);
    run->entries = tn__alloc(context, n * sizeof *run->entries);
    bool all = run->entries != NULL;
#define TN_X(field, room)                                                                          \
    run->field = tn__alloc_array(context, room, sizeof *run->field);                               \
    all = all && run->field != NULL;
    RUN_ARRAYS(TN_X, n, prepared->class_begin[prepared->class_count])
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
    const tn__prepared_bank *prepared = run->prepared;
    const tn_context *context = &prepared->context;
    size_t n = prepared->count;
#define TN_X(field, room) tn__free(context, run->field, (room) * sizeof *run->field);
    RUN_ARRAYS(TN_X, n, prepared->class_begin[prepared->class_count])
#undef TN_X
    tn__free(context, run->entries, n * sizeof *run->entries);
    tn__free(context, run->blocked, run->blocked_room * sizeof *run->blocked);
    tn__free(context, run->merged, run->merged_room * sizeof *run->merged);
    tn__free(context, run->holes, run->hole_room * sizeof *run->holes);
    tn__arena_release(&run->scratch);
}

void *tn__run_scratch(tn_run *run, size_t count, size_t item) {
    return tn__arena_array(&run->scratch, count, item);
}

/* --- facts --- */

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
bool tn__run_by_cost(const tn_run *run) { return run->prepared->by_cost; }
uint64_t tn__run_cost_bound(const tn_run *run) { return run->cost_bound; }
uint64_t tn__run_best_cost(const tn_run *run) { return run->best_cost; }
bool tn__run_is_proved(const tn_run *run) {
    if (!run->prepared->by_cost) return run->best_peak <= run->lower_bound;
    return run->best_peak <= run->prepared->capacity && run->best_cost <= run->cost_bound;
}
bool tn__run_is_done(const tn_run *run) {
    if (run->prepared->by_cost) return tn__run_is_proved(run);
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

/* Whether an outer run (the run that made this one, or one further out) must stop or no longer
 * needs this run. */
static bool run_outer_stops(const tn_run *run) {
    for (; run->outer != NULL; run = run->outer)
        if (run->outer->stop || (run->outer_stop != NULL && *run->outer_stop)) return true;
    return false;
}

/* Reports the progress of this run and of its outer runs. Results for a part of the problem are
 * left out, because they say nothing about the whole problem. */
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
    const tn__prepared_bank *prepared = run->prepared;
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

/* State of a bottom-up merge sort. It is stable, so ties stay in order of number, and unlike qsort
 * it passes a context to the comparison. */
typedef struct run_sort {
    const tn_run_body *bodies;
    const uint64_t *key; /* the keys that are compared first; NULL: no keys */
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

static int run_by_bytes(const void *a, const void *b) {
    const tn__placed_entry *x = a, *y = b;
    if (x->bytes.first != y->bytes.first) return x->bytes.first < y->bytes.first ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Removes unplaced buffers from the bucket; the others keep their order. */
static void run_clear_bucket(const tn_run *run, tn__placed_bucket *bucket,
                             tn__placed_entry *bodies) {
    uint32_t left = 0, sorted = 0;
    for (uint32_t i = 0; i < bucket->count && bucket->gone > 0; i++) {
        if (i == bucket->sorted) sorted = left;
        if (run->placed[bodies[i].id]) bodies[left++] = bodies[i];
    }
    if (bucket->gone == 0) return;
    *bucket = (tn__placed_bucket){.count = left,
                                  .sorted = bucket->sorted < bucket->count ? sorted : left};
}

/* Returns the placed buffers of a bucket, sorted by their first byte. */
static const tn__placed_entry *run_bucket(tn_run *run, uint32_t which) {
    tn__placed_bucket *bucket = &run->bucket[which];
    tn__placed_entry *bodies = run->entries + run->prepared->buckets[which];
    run_clear_bucket(run, bucket, bodies);
    if (bucket->count - bucket->sorted > RUN_BUCKET_FEW) {
        qsort(bodies, bucket->count, sizeof *bodies, run_by_bytes);
        bucket->sorted = bucket->count;
    }
    for (; bucket->sorted < bucket->count; bucket->sorted++) {
        tn__placed_entry body = bodies[bucket->sorted];
        uint32_t low = 0, high = bucket->sorted;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (bodies[middle].bytes.first <= body.bytes.first)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(&bodies[low + 1], &bodies[low], (bucket->sorted - low) * sizeof *bodies);
        bodies[low] = body;
    }
    return bodies;
}

void tn__run_place(tn_run *run, uint32_t body, uint64_t offset) {
    tn_assert(!run->placed[body]);
    const tn__prepared_bank *prepared = run->prepared;
    const tn_run_body *facts = &prepared->bodies[body];
    /* the difference is not negative: no size exceeds TN__PLAN_HEIGHT_MAX (problem.c) */
    if (offset > TN__PLAN_HEIGHT_MAX - facts->size) {
        run->too_high = true;
        offset = 0;
    }
    uint32_t which = tn__prepared_bucket(prepared, facts);
    tn__placed_bucket *bucket = &run->bucket[which];
    tn__placed_entry *bodies = run->entries + prepared->buckets[which];
    /* removes the entries that are marked as unplaced, because an old one may belong to this
     * buffer */
    run_clear_bucket(run, bucket, bodies);
    run->placed[body] = 1;
    run->offset[body] = offset;
    tn__placed_entry *made = &bodies[bucket->count++];
    *made = (tn__placed_entry){{offset, offset}, facts->first, facts->last, body};
    if (facts->piece_count != 1) return;
    const tn_run_piece *piece = &prepared->pieces[facts->piece_first];
    made->bytes = (tn__blocked){offset + piece->lo, offset + piece->hi};
}

void tn__run_unplace(tn_run *run, uint32_t body) {
    tn_assert(run->placed[body]);
    tn_assert(!tn__run_pinned(run, body));
    run->placed[body] = 0;
    run->bucket[tn__prepared_bucket(run->prepared, &run->prepared->bodies[body])].gone++;
}

/* --- holes --- */

/* Finds the placed buffers with live ranges that overlap [first, last). Their indices in
 * run->entries go to run->near, where those of each bucket are sorted by first byte. */
static uint32_t run_find_near(tn_run *run, uint32_t first, uint32_t last) {
    const tn__prepared_bank *p = run->prepared;
    uint32_t found = 0, *near = run->near;
    for (uint32_t k = 0; k < p->class_count; k++) {
        uint32_t shift = p->shift[k], begin = p->class_begin[k], end = p->class_begin[k + 1];
        if (p->buckets[begin] == p->buckets[end] || first >= last) continue;
        uint32_t from = first >> shift, to = (last - 1) >> shift;
        for (uint32_t which = begin + from - (from > 0); which <= begin + to; which++) {
            if (run->bucket[which].count == 0) continue;
            const tn__placed_entry *bodies = run_bucket(run, which);
            uint32_t count = run->bucket[which].count, at = p->buckets[which];
            run->unseen += count / 8;
            for (uint32_t i = 0; i < count; i++) {
                near[found] = at + i;
                found += (bodies[i].first < last) & (bodies[i].last > first);
            }
        }
    }
    return found;
}

/* Computes the starts of a buffer that a range of bytes forbids: with start s, piece `mine`
 * overlaps bytes [low, high) if s + mine.hi > low and s + mine.lo < high. */
static tn__blocked run_block(const tn_run_piece *mine, tn__blocked bytes) {
    return (tn__blocked){.first = bytes.first >= mine->hi ? bytes.first - mine->hi + 1 : 0,
                         .last = bytes.last > mine->lo ? bytes.last - mine->lo : 0};
}

static bool run_block_room(tn_run *run, size_t need) {
    return tn__reserve(&run->prepared->context, &run->blocked, &run->blocked_room, need,
                       sizeof *run->blocked);
}

static bool run_collect_pieces(tn_run *run, const tn_run_body *body, uint32_t id, size_t *count) {
    const tn__prepared_bank *prepared = run->prepared;
    const tn_run_body *other = &prepared->bodies[id];
    const tn_run_piece *mine = prepared->pieces + body->piece_first;
    const tn_run_piece *theirs = prepared->pieces + other->piece_first;
    /* the pieces of both buffers are sorted by first step, so a piece that has ended can be
     * skipped */
    for (uint32_t a = 0, from = 0; a < body->piece_count; a++) {
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
    const tn__prepared_bank *prepared = run->prepared;
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

/* Collects forbidden starts in a problem with clocks: buffers far apart in time may conflict, so
 * all placed buffers are checked. */
static bool run_collect_unordered(tn_run *run, const tn_run_body *body, size_t *count) {
    const tn__prepared_bank *prepared = run->prepared;
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

/* Collects the starts that reserved ranges and separated buffers forbid, regardless of live
 * ranges. */
static bool run_collect_apart(tn_run *run, uint32_t id, size_t *count) {
    const tn__prepared_bank *p = run->prepared;
    const tn_run_body *body = &p->bodies[id];
    size_t first = p->apart.begin != NULL ? p->apart.begin[id] : 0;
    size_t last = p->apart.begin != NULL ? p->apart.begin[id + 1] : 0;
    if (body->size == 0) return true;
    if (!run_block_room(run, *count + p->reserved_count + (last - first))) return false;
    run->unseen += p->reserved_count + (last - first);
    for (uint32_t i = 0; i < p->reserved_count; i++) {
        const tn_run_piece whole = {.hi = body->size};
        tn__blocked bytes = {p->reserved[i].first, p->reserved[i].last};
        run->blocked[(*count)++] = run_block(&whole, bytes);
    }
    for (size_t i = first; i < last; i++) {
        const tn__beside *pair = &p->apart.items[i];
        if (!run->placed[pair->other]) continue;
        const tn_run_piece mine = {.lo = pair->lo, .hi = pair->hi};
        uint64_t offset = run->offset[pair->other];
        tn__blocked blocked =
            run_block(&mine, (tn__blocked){offset + pair->other_lo, offset + pair->other_hi});
        if (blocked.first < blocked.last) run->blocked[(*count)++] = blocked;
    }
    return true;
}

/* Collects the starts that placed buffers forbid. If both buffers have one piece, a fast path is
 * taken. */
static bool run_collect(tn_run *run, uint32_t id, size_t *count) {
    const tn_run_body *body = &run->prepared->bodies[id];
    if (run->prepared->begins != NULL) return run_collect_unordered(run, body, count);
    const tn_run_piece *mine = &run->prepared->pieces[body->piece_first];
    uint32_t near_count = run_find_near(run, body->first, body->last);
    if (!run_block_room(run, near_count)) return false;
    for (uint32_t i = 0; i < near_count; i++) {
        const tn__placed_entry *other = &run->entries[run->near[i]];
        if (tn__prepared_excluded(run->prepared, id, other->id)) continue;
        if (other->bytes.first == other->bytes.last || body->piece_count != 1) {
            if (!run_collect_pieces(run, body, other->id, count)) return false;
            if (!run_block_room(run, *count + near_count - i)) return false;
            continue;
        }
        run->blocked[*count] = run_block(mine, other->bytes);
        *count += run->blocked[*count].first < run->blocked[*count].last;
    }
    return true;
}

uint32_t tn__run_near(tn_run *run, uint32_t first, uint32_t last, const uint32_t **ids) {
    uint32_t count = run_find_near(run, first, last);
    for (uint32_t i = 0; i < count; i++) run->near[i] = run->entries[run->near[i]].id;
    *ids = run->near;
    return count;
}

/* Returns the end of the ascending row of run->blocked that begins at `at`. */
static size_t run_row_end(const tn__blocked *blocked, size_t at, size_t count) {
    if (at == count) return count;
    for (at++; at < count && blocked[at - 1].first <= blocked[at].first;) at++;
    return at;
}

static void run_merge_blocked(const tn__blocked *from, tn__blocked *to, size_t first, size_t middle,
                              size_t last) {
    size_t a = first, b = middle;
    for (; a < middle && b < last; to++) {
        bool left = from[a].first <= from[b].first;
        *to = from[left ? a : b];
        a += left;
        b += !left;
    }
    memcpy(to, from + a, (middle - a) * sizeof *to);
    memcpy(to + (middle - a), from + b, (last - b) * sizeof *to);
}

/* Sorts run->blocked by first start. Each bucket added one ascending row, so rows are merged in
 * pairs. */
static bool run_sort_blocked(tn_run *run, size_t count) {
    if (!tn__reserve(&run->prepared->context, &run->merged, &run->merged_room, run->blocked_room,
                     sizeof *run->merged))
        return false;
    while (run_row_end(run->blocked, 0, count) < count) {
        for (size_t first = 0; first < count;) {
            size_t middle = run_row_end(run->blocked, first, count);
            size_t last = run_row_end(run->blocked, middle, count);
            run_merge_blocked(run->blocked, run->merged + first, first, middle, last);
            first = last;
        }
        tn__blocked *swap = run->blocked;
        size_t room = run->blocked_room;
        run->blocked = run->merged;
        run->blocked_room = run->merged_room;
        run->merged = swap;
        run->merged_room = room;
    }
    return true;
}

tn_status tn__run_holes(tn_run *run, uint32_t id, const tn_hole **holes, uint32_t *count) {
    const tn_run_body *body = &run->prepared->bodies[id];
    tn_assert(!run->placed[id]);
    TN_TRY(tn__run_work(run, 1));
    size_t blocked_count = 0;
    bool collected = run_collect(run, id, &blocked_count);
    if (run->prepared->needs & TN_PLANS_APART)
        collected = collected && run_collect_apart(run, id, &blocked_count);
    if (!collected || !run_sort_blocked(run, blocked_count) ||
        !tn__reserve(&run->prepared->context, &run->holes, &run->hole_room, blocked_count + 1,
                     sizeof *run->holes))
        return tn__no_memory(run->error, "the holes of a body");
    run->unseen += blocked_count;
    /* in the loop, all starts below `top` are forbidden or already listed */
    uint64_t mask = body->alignment - 1, top = 0;
    uint32_t found = 0;
    for (size_t i = 0; i < blocked_count; i++) {
        tn__blocked blocked = run->blocked[i];
        uint64_t first = top > UINT64_MAX - mask ? UINT64_MAX : (top + mask) & ~mask;
        if (first < blocked.first)
            run->holes[found++] = (tn_hole){first, (blocked.first - 1) & ~mask};
        if (blocked.last > top) top = blocked.last;
    }
    /* rounds up; `top` may be near 2^64, because a reserved range may end above every possible
     * start */
    top = top > UINT64_MAX - mask ? ~mask : (top + mask) & ~mask;
    run->holes[found++] = (tn_hole){top, UINT64_MAX};
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

/* In a run that minimises reuse cost, a plan within the capacity is useful even if its peak is not
 * the lowest. */
tn_status tn__run_greedy(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose) {
    uint64_t capacity = run->prepared->capacity, below = run->best_peak;
    if (run->prepared->by_cost && below <= capacity) below = tn__add_sat(capacity, 1);
    return run_greedy(run, order, count, choose, below);
}

tn_status tn__run_greedy_all(tn_run *run, const uint32_t *order, uint32_t count,
                             tn_run_choose choose) {
    return run_greedy(run, order, count, choose, UINT64_MAX);
}

/* --- results
 * ------------------------------------------------------------------------------------------------
 */

bool tn__run_is_better(const tn_run *run, const tn_run *than) {
    uint64_t capacity = run->prepared->capacity;
    if (!run->prepared->by_cost || than->best_peak > capacity || run->best_peak > capacity)
        return run->best_peak < than->best_peak;
    if (run->best_cost != than->best_cost) return run->best_cost < than->best_cost;
    return run->best_peak < than->best_peak;
}

void tn__run_keep_offsets(tn_run *run, const uint64_t *offsets) {
    const tn__prepared_bank *prepared = run->prepared;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < prepared->count; i++) {
        uint64_t end = offsets[i] + prepared->bodies[i].size;
        if (prepared->bodies[i].size > 0 && end > peak) peak = end;
    }
    tn_run made = {.prepared = prepared, .best_peak = peak, .best_cost = UINT64_MAX};
    if (prepared->by_cost) made.best_cost = tn__prepared_cost(prepared, offsets);
    if (!tn__run_is_better(&made, run)) return;
    run->best_peak = peak;
    run->best_cost = made.best_cost;
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

void tn__run_raise_cost_bound(tn_run *run, uint64_t cost) {
    if (cost > run->cost_bound) run->cost_bound = cost;
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
    const tn__prepared_bank *prepared = run->prepared;
    tn_status status = tn__run_solve(run);
    bool limit = status == TN_E_STOPPED && !run->cancelled && !run->too_high;
    if (!limit || run->best_peak != UINT64_MAX) return status;
    uint64_t peak;
    if (first != NULL) {
        tn__run_keep_offsets(run, first);
    } else if (tn__first_layout(prepared, run->best, &peak, NULL) == TN_OK) {
        run->best_peak = peak;
        if (prepared->by_cost) run->best_cost = tn__prepared_cost(prepared, run->best);
    }
    if (run->best_peak == UINT64_MAX) return status;
    const tn_context *context = &prepared->context;
    if (context->log != NULL)
        context->log(context->self, "the limit was reached before the planner had a layout; this "
                                    "one places buffers in order of time");
    if (run->error != NULL) *run->error = (tn_error){.status = TN_OK};
    return TN_OK;
}
