/* holders.c - lists the tensors that hold memory at a step, and the live bytes of every step.
 *
 * Several live ranges often share bytes of a buffer: a view and its source, or a result written
 * over its input. Each byte is counted once. The live ranges of a buffer are visited by the first
 * byte that they keep, the earlier live range first on ties, and each live range is charged for the
 * bytes that no earlier live range holds. So the rows of one step add up to the live bytes of that
 * step, in total and by kind.
 *
 * Windows are sorted by buffer, first byte and age when the occupancy is made, so that one step
 * needs one pass and no memory. For all steps together, a sweep over each buffer keeps the live
 * windows sorted and adds each interval to a difference array at its two ends.
 *
 * Cost: O(n) for one step; O(n log n + n a + steps) for all steps. a is the maximum number of live
 * ranges that overlap in one buffer.
 */
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "program/liveness/liveness.h"
#include "base/heap.h"

/* --- windows --- */

static int window_order(const void *a, const void *b) {
    const range_window *x = a, *y = b;
    if (x->root != y->root) return x->root < y->root ? -1 : 1;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

tn_status tn__holders_windows(const liveness_state *liveness, tn_occupancy *made,
                              const uint32_t *range_of) {
    made->windows = tn__arena_array(&made->arena, liveness->count, sizeof *made->windows);
    if (made->windows == NULL) return tn__no_memory(liveness->error, "the holders of an occupancy");
    for (uint32_t i = 0; i < liveness->count; i++) {
        const live_range *range = &liveness->ranges[i];
        made->windows[i] = (range_window){.root = range->root,
                                          .id = i,
                                          .range = range_of[i],
                                          .first = range->first,
                                          .last = range->last,
                                          .lo = range->lo,
                                          .hi = range->hi};
    }
    if (liveness->count > 0)
        qsort(made->windows, liveness->count, sizeof *made->windows, window_order);
    return TN_OK;
}

tn_kind tn_life_kind(const tn_graph *graph, const tn_life *range) {
    if (range->tensor == TN_NONE) return TN_KIND_WORKSPACE;
    tn_kind kind = tn_graph_tensor(graph, range->tensor)->kind;
    return range->is_static && kind == TN_KIND_ACTIVATION ? TN_KIND_CONSTANT : kind;
}

tn_kind tn__occupancy_kind(const tn_occupancy *occupancy, uint32_t range) {
    return tn_life_kind(occupancy->program->graph, &occupancy->ranges[range]);
}

/* Returns the bytes of a window above `top`, the highest end of all windows before it in its
 * buffer, and raises `top` to the window's end if that is higher. */
static uint64_t window_take(const range_window *window, uint64_t *top) {
    uint64_t from = window->lo > *top ? window->lo : *top;
    if (window->hi <= from) return 0;
    *top = window->hi;
    return window->hi - from;
}

bool tn__holders_next(const tn_occupancy *occupancy, uint32_t step, holders_walk *walk,
                      tn_occupant *holder) {
    while (walk->at < occupancy->count) {
        const range_window *window = &occupancy->windows[walk->at++];
        if (step < window->first || window->last <= step) continue;
        if (window->root != walk->root) *walk = (holders_walk){walk->at, window->root, 0};
        uint64_t bytes = window_take(window, &walk->top);
        if (bytes == 0) continue;
        *holder = (tn_occupant){window->range, bytes};
        return true;
    }
    return false;
}

/* --- one step: keeps the largest in a heap with the smallest at its root --- */

/* Whether occupant a comes after occupant b in the list that the caller gets. */
static bool holder_is_less(const tn_occupant *a, const tn_occupant *b) {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->life > b->life;
}

TN__HEAP(holder_heap, tn_occupant, holder_is_less)

uint32_t tn_occupancy_holders(const tn_occupancy *occupancy, uint32_t step, tn_occupant *holders,
                              uint32_t room) {
    if (step == TN_NONE) step = occupancy->summary.peak_step;
    holders_walk walk = HOLDERS_WALK_INIT;
    tn_occupant one;
    uint32_t count = 0;
    for (; tn__holders_next(occupancy, step, &walk, &one); count++) {
        if (count < room)
            holder_heap_push(holders, count, one);
        else if (room > 0 && holder_is_less(&holders[0], &one))
            holder_heap_sink(holders, room, 0, one);
    }
    /* moves the smallest entry to the end */
    for (uint32_t i = count < room ? count : room; i > 1; i--)
        holders[i - 1] = holder_heap_pop(holders, i);
    return count;
}

/* --- every step --- */

typedef struct holders_sweep {
    const tn_occupancy *occupancy;
    /* [steps] during the sweep: differences between neighbouring steps */
    uint64_t (*live)[TN_KIND_COUNT];
    uint32_t step_count;
    const range_window *windows; /* windows of one buffer */
    uint32_t *open;              /* the windows that are live now, sorted as in `windows` */
    uint32_t count, open_count;
} holders_sweep;

typedef struct holders_start {
    uint32_t first, window;
} holders_start;

static int holders_start_order(const void *a, const void *b) {
    const holders_start *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->window > y->window) - (x->window < y->window);
}

static void sweep_open(holders_sweep *sweep, uint32_t window) {
    uint32_t at = sweep->open_count++;
    for (; at > 0 && sweep->open[at - 1] > window; at--) sweep->open[at] = sweep->open[at - 1];
    sweep->open[at] = window;
}

/* Removes the windows that have ended at step `now`; returns the next end, UINT32_MAX if no window
 * is live. */
static uint32_t sweep_close(holders_sweep *sweep, uint32_t now) {
    uint32_t kept = 0, next = UINT32_MAX;
    for (uint32_t i = 0; i < sweep->open_count; i++) {
        uint32_t last = sweep->windows[sweep->open[i]].last;
        if (last <= now) continue;
        sweep->open[kept++] = sweep->open[i];
        if (last < next) next = last;
    }
    sweep->open_count = kept;
    return next;
}

/* Adds the bytes of the live windows to steps [from, to). */
static void sweep_add(holders_sweep *sweep, uint32_t from, uint32_t to) {
    uint64_t top = 0;
    /* does nothing in a program without steps, which may still have static memory */
    if (from >= sweep->step_count) return;
    for (uint32_t i = 0; i < sweep->open_count; i++) {
        const range_window *window = &sweep->windows[sweep->open[i]];
        uint64_t bytes = window_take(window, &top);
        tn_kind kind = tn__occupancy_kind(sweep->occupancy, window->range);
        sweep->live[from][kind] += bytes;
        /* a negative change wraps, so the sums of changes are right */
        if (to < sweep->step_count) sweep->live[to][kind] -= bytes;
    }
}

static void sweep_body(holders_sweep *sweep, holders_start *starts) {
    for (uint32_t i = 0; i < sweep->count; i++)
        starts[i] = (holders_start){sweep->windows[i].first, i};
    qsort(starts, sweep->count, sizeof *starts, holders_start_order);
    sweep->open_count = 0;
    for (uint32_t i = 0, now = 0, next; i < sweep->count || sweep->open_count > 0; now = next) {
        now = sweep->open_count == 0 ? starts[i].first : now;
        for (; i < sweep->count && starts[i].first <= now; i++) sweep_open(sweep, starts[i].window);
        next = sweep_close(sweep, now);
        if (i < sweep->count && starts[i].first < next) next = starts[i].first;
        if (sweep->open_count > 0) sweep_add(sweep, now, next);
    }
}

tn_status tn_occupancy_live(const tn_occupancy *occupancy, uint64_t (*live)[TN_KIND_COUNT],
                            tn_error *error) {
    size_t count = occupancy->count;
    holders_sweep sweep = {
        .occupancy = occupancy, .live = live, .step_count = tn_program_count(occupancy->program)};
    tn__arena scratch;
    tn__arena_init(&scratch, &occupancy->context);
    holders_start *starts = tn__arena_array(&scratch, count, sizeof *starts);
    sweep.open = tn__arena_array(&scratch, count, sizeof *sweep.open);
    bool done = starts != NULL && sweep.open != NULL;
    for (uint32_t s = 0; done && s < sweep.step_count; s++) memset(live[s], 0, sizeof live[s]);
    for (size_t first = 0, last; done && first < count; first = last) {
        for (last = first + 1; last < count; last++)
            if (occupancy->windows[last].root != occupancy->windows[first].root) break;
        sweep.windows = occupancy->windows + first;
        sweep.count = (uint32_t)(last - first);
        sweep_body(&sweep, starts);
    }
    for (uint32_t s = 1; done && s < sweep.step_count; s++)
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++) live[s][kind] += live[s - 1][kind];
    tn__arena_release(&scratch);
    return done ? TN_OK : tn__no_memory(error, "the curve of live bytes");
}
