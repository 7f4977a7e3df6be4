/* skyline.c - fills the lowest segment of a skyline repeatedly, with the first buffer of an order
 * that fits.
 *
 *   |        +----+             The skyline consists of level segments, kept by their first step
 *   |   +----+    |   +----     (floor, next, previous); a heap gives the lowest one. A placed
 *   +---+    |    |   |         buffer raises its part of the segment and splits it; neighbours
 *   |   |    |    +---+         of equal height merge.
 *
 * The search for the first buffer in the order that is live only within [s, e) uses a tree
 * (live_tree.h). A buffer of several pieces needs a level floor below its hull, but raises only the
 * steps that its pieces cover, so that other buffers may use its gaps. The space between the floor
 * and a piece above the buffer's lowest byte is called a cave; it is filled at once with buffers
 * that fit.
 *
 * A chain is a row of buffers in which each begins where the one before ends, from one end of the
 * segment to the other, so it leaves no gap. Chains are searched depth first, longest live ranges
 * (or first ranks) first; a step from which the end was not reached is not tried again. In a
 * perfect packing with cuts that run from side to side and seldom share a step, this finds the rows
 * as they were cut, and thereby the packing.
 *
 * This is the first descent of MiniMalloc's search (least offset first, then a static order)
 * without comparing pairs of buffers.
 *
 * Cost: O(log n) per placement in practice.
 * Source: Burke et al. 2004 (best-fit skyline); Moffitt 2023 (canonical order). The tree, rows and
 * caves are new here.
 */
#include "plan/skyline/skyline.h"

#include "base/heap.h"

#define SKYLINE_POLL 1024u  /* number of placed buffers between two checks of the clock */
#define SKYLINE_CAVES 128u  /* limit of caves that wait to be filled */
#define SKYLINE_CHAIN 1024u /* limit of the number of buffers in a chain */
#define SKYLINE_LOOKS 400u  /* limit of buffers visited in the search of a chain */
/* visits per buffer in all searches for chains of one plan; after that, no chains are searched */
#define SKYLINE_LOOKS_EACH 32u

/* a type that can hold a product of bytes and steps */
__extension__ typedef unsigned __int128 skyline_area;

struct tn__skyline {
    tn_context context;
    const tn_run_body *bodies;
    const tn_run_piece *pieces;
    const uint32_t *ids;
    uint32_t count, time_count;
    tn__live_tree lives; /* the buffers that are not placed yet, by live range */
    /* by_length: buffer numbers sorted by first step, then by length, longest first; those that
     * begin at step t are by_length[starts[t]] to by_length[starts[t + 1] - 1] */
    uint32_t *by_length, *starts;
    /* by_first: buffer numbers sorted by first step, then by length or rank, which is the order in
     * which chains try them; row_of[number]: the buffer's index in by_first */
    uint32_t *by_first, *row_of;
    /* [index in by_first], the index itself if its buffer is not placed, else a later index */
    uint32_t *unplaced;
    /* [step], equals dead_now if the current search has found that no chain from this step reaches
     * the end of the segment */
    uint32_t *dead, dead_now;
    uint64_t looks; /* number of buffers that searches for chains may still visit */
    /* [SKYLINE_CHAIN], the buffers of the chain that is searched, and their indices in by_first */
    uint32_t *chain, *chain_at;
    skyline_area mean_area;
    /* [step], the segment of the skyline that begins at this step: its height, and the steps at
     * which the next and the previous segment begin */
    uint64_t *floor;
    uint32_t *next, *previous;
    uint32_t *heap, *heap_at; /* heap of segments, lowest floor first, ties to the earlier one */
    uint32_t heap_count;
};

/* --- making --- */

#define SKYLINE_ARRAYS(X, n, times)                                                                \
    X(by_length, n)                                                                                \
    X(by_first, n)                                                                                 \
    X(row_of, n)                                                                                   \
    X(unplaced, (size_t)(n) + 1)                                                                   \
    X(starts, (size_t)(times) + 1)                                                                 \
    X(dead, times)                                                                                 \
    X(chain, SKYLINE_CHAIN)                                                                        \
    X(chain_at, SKYLINE_CHAIN)                                                                     \
    X(floor, times)                                                                                \
    X(next, times)                                                                                 \
    X(previous, times)                                                                             \
    X(heap, times)                                                                                 \
    X(heap_at, times)

void tn__skyline_destroy(tn__skyline *skyline) {
    if (skyline == NULL) return;
    tn_context context = skyline->context;
#define TN_X(field, room) tn__free(&context, skyline->field, (room) * sizeof *skyline->field);
    SKYLINE_ARRAYS(TN_X, skyline->count, skyline->time_count)
#undef TN_X
    tn__live_tree_release(&skyline->lives);
    tn__free(&context, skyline, sizeof *skyline);
}

/* Fills by_length[] and starts[] by two stable counting sorts: by last step, latest first, then by
 * first step. row_of[] serves as scratch memory. */
static void skyline_sort_rows(tn__skyline *skyline) {
    uint32_t *starts = skyline->starts, *by_last = skyline->row_of, times = skyline->time_count;
    skyline_area area = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        memset(starts, 0, ((size_t)times + 1) * sizeof *starts);
        for (uint32_t i = 0; i < skyline->count; i++) {
            const tn_run_body *body = &skyline->bodies[skyline->ids[i]];
            starts[(pass == 0 ? times - body->last : body->first + 1)]++;
            area += (skyline_area)body->size * (body->last - body->first);
        }
        for (uint32_t t = 0; t < times; t++) starts[t + 1] += starts[t];
        for (uint32_t i = skyline->count; pass == 0 && i-- > 0;) {
            const tn_run_body *body = &skyline->bodies[skyline->ids[i]];
            by_last[--starts[times - body->last]] = i;
        }
        for (uint32_t i = 0; pass == 1 && i < skyline->count; i++) {
            const tn_run_body *body = &skyline->bodies[skyline->ids[by_last[i]]];
            skyline->by_length[starts[body->first]++] = by_last[i];
        }
    }
    for (uint32_t t = times; t > 0; t--) starts[t] = starts[t - 1];
    starts[0] = 0;
    skyline->mean_area = area / 2 / (skyline->count > 0 ? skyline->count : 1);
}

tn__skyline *tn__skyline_create(const tn__live_tree_input *input, const tn_run_piece *pieces,
                                uint32_t time_count) {
    const tn_context *context = input->context;
    uint32_t count = input->count;
    tn__skyline *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return NULL;
    *made = (tn__skyline){.context = *context,
                          .bodies = input->bodies,
                          .pieces = pieces,
                          .ids = input->ids,
                          .count = count,
                          .time_count = time_count};
    bool all = tn__live_tree_create(&made->lives, input);
#define TN_X(field, room)                                                                          \
    made->field = tn__alloc_array(context, room, sizeof *made->field);                             \
    all = all && made->field != NULL;
    SKYLINE_ARRAYS(TN_X, count, time_count)
#undef TN_X
    if (!all) {
        tn__skyline_destroy(made);
        return NULL;
    }
    skyline_sort_rows(made);
    return made;
}

/* --- the heap of segments --- */

static bool skyline_lower(const tn__skyline *skyline, const uint32_t *a, const uint32_t *b) {
    if (skyline->floor[*a] != skyline->floor[*b]) return skyline->floor[*a] < skyline->floor[*b];
    return *a < *b;
}

static void skyline_placed(tn__skyline *skyline, const uint32_t *segment, size_t at) {
    skyline->heap_at[*segment] = (uint32_t)at;
}
TN__HEAP_OF(skyline_heap, tn__skyline, uint32_t, skyline_lower, skyline_placed)

static void skyline_enter(tn__skyline *skyline, uint32_t segment) {
    skyline_heap_push(skyline, skyline->heap, skyline->heap_count++, segment);
}

/* Moves a segment down the heap after its floor was raised. */
static void skyline_sink(tn__skyline *skyline, uint32_t segment) {
    skyline_heap_sink(skyline, skyline->heap, skyline->heap_count, skyline->heap_at[segment],
                      segment);
}

static void skyline_leave(tn__skyline *skyline, uint32_t segment) {
    skyline_heap_remove(skyline, skyline->heap, skyline->heap_count--, skyline->heap_at[segment]);
}

/* --- segments --- */

static uint32_t skyline_end(const tn__skyline *skyline) { return skyline->time_count - 1; }

/* Splits `segment` at step `time`, where a new segment begins, which is not in the heap yet. */
static void skyline_split(tn__skyline *skyline, uint32_t segment, uint32_t time) {
    uint32_t next = skyline->next[segment];
    skyline->next[segment] = time;
    skyline->previous[time] = segment;
    skyline->next[time] = next;
    if (next != skyline_end(skyline)) skyline->previous[next] = time;
    skyline->floor[time] = skyline->floor[segment];
}

/* Merges the segment with the next one if both have the same floor; the next one leaves the heap.
 * Both must be in the heap. */
static void skyline_join_next(tn__skyline *skyline, uint32_t segment) {
    uint32_t next = skyline->next[segment];
    if (next == skyline_end(skyline) || skyline->floor[next] != skyline->floor[segment]) return;
    skyline_leave(skyline, next);
    skyline->next[segment] = skyline->next[next];
    if (skyline->next[next] != skyline_end(skyline))
        skyline->previous[skyline->next[next]] = segment;
}

/* Raises a segment to the height of its lower neighbour, because no unplaced buffer fits on it any
 * more, or because that wastes little. */
static void skyline_lift(tn__skyline *skyline, uint32_t segment) {
    uint32_t next = skyline->next[segment], previous = skyline->previous[segment];
    uint64_t level = UINT64_MAX;
    if (previous != TN__LIVE_TREE_NONE) level = skyline->floor[previous];
    if (next != skyline_end(skyline) && skyline->floor[next] < level) level = skyline->floor[next];
    /* always true, because a segment over all of time can hold every buffer */
    tn_assert(level != UINT64_MAX);
    skyline->floor[segment] = level;
    skyline_sink(skyline, segment);
    skyline_join_next(skyline, segment);
    if (previous != TN__LIVE_TREE_NONE) skyline_join_next(skyline, previous);
}

/* Raises the floor of the steps [first, last) to at least `top`. `at` is a segment that begins at
 * or before `first`. Neighbours that now have equal heights are not merged. Returns the segment
 * that begins at `first`. */
static uint32_t skyline_raise(tn__skyline *skyline, uint32_t at, uint32_t first, uint32_t last,
                              uint64_t top) {
    while (skyline->next[at] <= first) at = skyline->next[at];
    if (at < first) {
        skyline_split(skyline, at, first);
        skyline_enter(skyline, first);
        at = first;
    }
    for (;; at = skyline->next[at]) {
        if (skyline->next[at] > last) {
            skyline_split(skyline, at, last);
            skyline_enter(skyline, last);
        }
        if (skyline->floor[at] < top) {
            skyline->floor[at] = top;
            skyline_sink(skyline, at);
        }
        if (skyline->next[at] == last) return first;
    }
}

/* Merges neighbouring segments of equal height, from the segment before `first` to the one after
 * `last`. */
static void skyline_join_all(tn__skyline *skyline, uint32_t first, uint32_t last) {
    uint32_t at = skyline->previous[first] != TN__LIVE_TREE_NONE ? skyline->previous[first] : first;
    while (at < last && at != skyline_end(skyline)) {
        uint32_t next = skyline->next[at];
        if (next == skyline_end(skyline)) return;
        if (skyline->floor[next] == skyline->floor[at])
            skyline_join_next(skyline, at);
        else
            at = next;
    }
}

/* --- rows --- */

/* Fills by_first[], the buffers that begin at each step in the order in which chains try them, and
 * marks all buffers as not placed. */
static void skyline_reset_rows(tn__skyline *skyline, const uint32_t *order, tn__skyline_fit fit) {
    uint32_t *starts = skyline->starts, count = skyline->count;
    if (fit == TN__SKYLINE_ROWS_RANKED) {
        for (uint32_t rank = 0; rank < count; rank++) {
            uint32_t first = skyline->bodies[skyline->ids[order[rank]]].first;
            skyline->by_first[starts[first]++] = order[rank];
        }
        for (uint32_t t = skyline->time_count; t > 0; t--) starts[t] = starts[t - 1];
        starts[0] = 0;
    } else {
        memcpy(skyline->by_first, skyline->by_length, count * sizeof *skyline->by_first);
    }
    for (uint32_t i = 0; i < count; i++) skyline->row_of[skyline->by_first[i]] = i;
    for (uint32_t i = 0; i <= count; i++) skyline->unplaced[i] = i;
    skyline->looks = (uint64_t)SKYLINE_LOOKS_EACH * count + 8 * SKYLINE_LOOKS;
}

/* The index of the first unplaced buffer at or after `at` in by_first. Path halving makes later
 * searches short. */
static uint32_t skyline_unplaced(tn__skyline *skyline, uint32_t at) {
    uint32_t *unplaced = skyline->unplaced;
    while (unplaced[at] != at) {
        unplaced[at] = unplaced[unplaced[at]];
        at = unplaced[at];
    }
    return at;
}

/* Returns the first index in by_first of a buffer that begins at `time` and may be tried
 * (starts[time + 1] if there is none): with `ranked`, the first of all, else the longest that ends
 * by step `end`. */
static uint32_t skyline_row(const tn__skyline *skyline, uint32_t time, uint32_t end, bool ranked) {
    uint32_t low = skyline->starts[time], high = skyline->starts[time + 1];
    if (ranked) return low;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t number = skyline->by_first[middle];
        if (tn__live_tree_at(&skyline->lives, number)->last > end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds a chain of buffers that are not placed yet: the first begins at the first step of the
 * segment, each further one begins at the step where the one before ends, and the last ends with
 * the segment. Stores the chain in chain[] and returns its length; 0: no chain was found. If
 * *limited is set, the search was cut short, so a chain may exist. */
static uint32_t skyline_find_chain(tn__skyline *skyline, uint32_t segment, bool ranked,
                                   bool *limited) {
    uint32_t end = skyline->next[segment], time = segment, depth = 0;
    uint32_t *chain = skyline->chain, *at = skyline->chain_at;
    skyline->dead_now++;
    at[0] = skyline_row(skyline, time, end, ranked);
    for (uint32_t looks = 0; looks < SKYLINE_LOOKS && skyline->looks > 0; looks++) {
        skyline->looks--;
        at[depth] = skyline_unplaced(skyline, at[depth]);
        /* no further buffer begins at this step, so the search goes back to the buffer before it in
         * the chain */
        if (at[depth] >= skyline->starts[time + 1]) {
            skyline->dead[time] = skyline->dead_now;
            if (depth-- == 0) return 0;
            time = tn__live_tree_at(&skyline->lives, chain[depth])->first;
            at[depth]++;
            continue;
        }
        chain[depth] = skyline->by_first[at[depth]];
        uint32_t last = tn__live_tree_at(&skyline->lives, chain[depth])->last;
        if (last == end) return depth + 1;
        if (last > end || skyline->dead[last] == skyline->dead_now || depth + 1 == SKYLINE_CHAIN) {
            at[depth]++;
            continue;
        }
        time = last;
        at[++depth] = skyline_row(skyline, time, end, ranked);
    }
    *limited = true;
    return 0;
}

/* Whether raising a segment to its lower neighbour wastes at most `most` times the mean area of a
 * buffer. */
static bool skyline_may_lift(const tn__skyline *skyline, uint32_t segment, uint32_t most) {
    uint32_t next = skyline->next[segment], previous = skyline->previous[segment];
    uint64_t level = UINT64_MAX;
    if (previous != TN__LIVE_TREE_NONE) level = skyline->floor[previous];
    if (next != skyline_end(skyline) && skyline->floor[next] < level) level = skyline->floor[next];
    if (level == UINT64_MAX) return false;
    skyline_area waste = (skyline_area)(level - skyline->floor[segment]) * (next - segment);
    return waste <= skyline->mean_area * most;
}

/* --- filling --- */

static uint32_t skyline_choose(const tn__skyline *skyline, uint32_t segment, tn__skyline_fit fit) {
    uint32_t end = skyline->next[segment], best = TN__LIVE_TREE_NONE;
    if (fit == TN__SKYLINE_WALL) {
        best = tn__live_tree_find(&skyline->lives, (tn__live_tree_box){segment, segment, 0, end, 0},
                                  best);
        best = tn__live_tree_find(&skyline->lives, (tn__live_tree_box){segment, end, end, end, 0},
                                  best);
        if (best != TN__LIVE_TREE_NONE) return best;
    }
    return tn__live_tree_find(&skyline->lives, (tn__live_tree_box){segment, end, 0, end, 0}, best);
}

/* Places a buffer on the floor of the segment that contains its live range; returns its upper
 * end. */
static uint64_t skyline_place(tn__skyline *skyline, uint32_t segment, const tn_run_body *body,
                              uint64_t *offset) {
    const tn_run_piece *pieces = skyline->pieces + body->piece_first;
    uint64_t least = pieces[0].lo, mask = body->alignment - 1, floor = skyline->floor[segment];
    for (uint32_t i = 1; i < body->piece_count; i++)
        if (pieces[i].lo < least) least = pieces[i].lo;
    uint64_t at = (floor > least ? floor - least + mask : 0) & ~mask;
    for (uint32_t i = 0, from = segment; i < body->piece_count; i++)
        from = skyline_raise(skyline, from, pieces[i].first, pieces[i].last, at + pieces[i].hi);
    skyline_join_all(skyline, segment, body->last);
    *offset = at;
    return at + body->size;
}

static void skyline_reset(tn__skyline *skyline, const uint32_t *order, tn__skyline_fit fit) {
    tn__live_tree_reset(&skyline->lives, order);
    skyline_reset_rows(skyline, order, fit);
    skyline->floor[0] = 0;
    skyline->next[0] = skyline_end(skyline);
    skyline->previous[0] = TN__LIVE_TREE_NONE;
    skyline->heap_count = 0;
    skyline_enter(skyline, 0);
}

typedef struct skyline_filling {
    const uint32_t *order;
    uint64_t *offsets, peak;
    uint32_t since; /* number of buffers placed since the last poll */
    uint32_t left;
} skyline_filling;

static void skyline_count(tn__skyline *skyline, uint32_t number, skyline_filling *filling) {
    tn__live_tree_remove(&skyline->lives, number);
    skyline->unplaced[skyline->row_of[number]]++;
    filling->since++;
    filling->left--;
}

typedef struct skyline_cave {
    uint32_t first, last;
    uint64_t floor, ceiling;
} skyline_cave;

/* Places the first buffer in the order that fits on the floor of the cave. The spaces to its left,
 * to its right and above it become caves too. A buffer in a cave is treated as one rectangle (hull
 * of its live range, whole size), so no caves are searched below its pieces. */
static void skyline_fill_cave(tn__skyline *skyline, skyline_cave cave, skyline_filling *filling) {
    skyline_cave stack[SKYLINE_CAVES];
    uint32_t depth = 0;
    stack[depth++] = cave;
    while (depth > 0) {
        cave = stack[--depth];
        if (cave.first >= cave.last || cave.floor >= cave.ceiling) continue;
        tn__live_tree_box box = {cave.first, cave.last, 0, cave.last, cave.ceiling - cave.floor};
        uint32_t rank = tn__live_tree_find(&skyline->lives, box, TN__LIVE_TREE_NONE);
        if (rank == TN__LIVE_TREE_NONE) continue;
        uint32_t number = filling->order[rank], id = skyline->ids[number];
        const tn_run_body *body = &skyline->bodies[id];
        uint64_t mask = body->alignment - 1, at = (cave.floor + mask) & ~mask;
        if (at + body->size > cave.ceiling) continue;
        skyline_count(skyline, number, filling);
        filling->offsets[id] = at;
        /* if the stack of caves is nearly full, the spaces around this buffer stay empty */
        if (depth + 3 > SKYLINE_CAVES) continue;
        stack[depth++] = (skyline_cave){cave.first, body->first, cave.floor, cave.ceiling};
        stack[depth++] = (skyline_cave){body->last, cave.last, cave.floor, cave.ceiling};
        stack[depth++] = (skyline_cave){body->first, body->last, at + body->size, cave.ceiling};
    }
}

/* Fills the caves below the pieces of a buffer at `offset`. A buffer with pieces above each other
 * is left out. */
static void skyline_fill_caves(tn__skyline *skyline, const tn_run_body *body, uint64_t floor,
                               uint64_t offset, skyline_filling *filling) {
    const tn_run_piece *pieces = skyline->pieces + body->piece_first;
    for (uint32_t i = 1; i < body->piece_count; i++)
        if (pieces[i].first < pieces[i - 1].last) return;
    for (uint32_t i = 0; i < body->piece_count; i++)
        if (pieces[i].lo > 0 && offset + pieces[i].lo > floor)
            skyline_fill_cave(
                skyline,
                (skyline_cave){pieces[i].first, pieces[i].last, floor, offset + pieces[i].lo},
                filling);
}

static void skyline_put(tn__skyline *skyline, uint32_t segment, uint32_t number,
                        skyline_filling *filling) {
    uint32_t id = skyline->ids[number];
    uint64_t floor = skyline->floor[segment];
    skyline_count(skyline, number, filling);
    uint64_t top = skyline_place(skyline, segment, &skyline->bodies[id], &filling->offsets[id]);
    if (top > filling->peak) filling->peak = top;
    skyline_fill_caves(skyline, &skyline->bodies[id], floor, filling->offsets[id], filling);
}

/* One step of the filling: places a buffer or a chain of buffers on the lowest segment, or raises
 * that segment. */
static void skyline_step(tn__skyline *skyline, tn__skyline_rule rule, skyline_filling *filling) {
    uint32_t segment = skyline->heap[0];
    uint32_t rank = TN__LIVE_TREE_NONE;
    bool lift = false;
    if (rule.fit == TN__SKYLINE_ROWS || rule.fit == TN__SKYLINE_ROWS_RANKED) {
        bool limited = false, ranked = rule.fit == TN__SKYLINE_ROWS_RANKED;
        uint32_t length = skyline_find_chain(skyline, segment, ranked, &limited);
        /* places the chain from right to left, so that the rest of the segment keeps its first
         * step */
        for (uint32_t i = length; i-- > 0;) {
            /* this buffer may already have been placed in a cave below another buffer of the
             * chain */
            uint32_t number = skyline->chain[i];
            if (tn__live_tree_at(&skyline->lives, number)->rank != TN__LIVE_TREE_NONE)
                skyline_put(skyline, segment, number, filling);
        }
        if (length > 0) return;
        /* The search for a chain was cut short by a limit. A buffer placed at its right end makes
         * it narrower. */
        if (limited) {
            uint32_t end = skyline->next[segment];
            rank = tn__live_tree_find(&skyline->lives,
                                      (tn__live_tree_box){segment, end, end, end, 0}, rank);
        } else {
            lift = skyline_may_lift(skyline, segment, rule.lift);
        }
    }
    if (rank == TN__LIVE_TREE_NONE && !lift) rank = skyline_choose(skyline, segment, rule.fit);
    if (rank == TN__LIVE_TREE_NONE)
        skyline_lift(skyline, segment);
    else
        skyline_put(skyline, segment, filling->order[rank], filling);
}

bool tn__skyline_fill(tn__skyline *skyline, const uint32_t *order, tn__skyline_rule rule,
                      uint64_t give_up, tn__skyline_poll poll, uint64_t *offsets, uint64_t *peak) {
    skyline_filling filling = {.order = order, .offsets = offsets, .left = skyline->count};
    if (skyline->count > 0) skyline_reset(skyline, order, rule.fit);
    while (filling.left > 0 && filling.peak < give_up) {
        skyline_step(skyline, rule, &filling);
        if (filling.since < SKYLINE_POLL) continue;
        if (!poll.go_on(poll.self, filling.since)) return false;
        filling.since = 0;
    }
    *peak = filling.peak;
    return poll.go_on(poll.self, filling.since);
}
