/* normal.c - brings pieces into normal form: disjoint rectangles of time and bytes, sorted, as long
 * in time as possible.
 *
 * A sweep over time keeps the union of the byte windows that are live. A window that does not
 * change prolongs its rectangle; a changed window ends the rectangle and begins a new one. Merging
 * in time never hides a conflict: the rectangles cover exactly the area of the input pieces.
 *
 * Clocks: a rectangle takes, for each stream, the least `begins` and the largest `ends` of all
 * input pieces that it intersects. This is safe and may forbid more than necessary: anything before
 * (or after) the rectangle is before (or after) each of those pieces, but the converse need not
 * hold. The rectangles of an input piece cover all of its bytes, so no conflict is lost. Then, for
 * two rectangles that share bytes, the later one in time gets clocks that are not less than those
 * of the earlier one (`begins` is lowered, `ends` raised; true clocks of one buffer have this
 * property already). So a piece that comes after the last holder of a byte comes after all its
 * holders, which the verifier relies on.
 *
 * Cost: O(k log k + k a) for k pieces of which at most a are live at once; clocks cost O((k + m) m
 * streams) more for m rectangles. The normal form can have k^2 / 4 rectangles: if k / 2 vertical
 * bars cross k / 2 horizontal ones, no fewer disjoint rectangles cover them. Pieces that need more
 * than NORMAL_WORK_MAX steps (10^5 pieces of distinct times, all live at once) are refused.
 */
#include "plan/problem/problem.h"

#define NORMAL_CLOCK_WORK_MAX ((uint64_t)1 << 30) /* limit of work for clocks: about a second */
#define NORMAL_WORK_MAX ((uint64_t)1 << 33)       /* limit of visits of live pieces: ten seconds */

typedef struct normal_sweep {
    const tn_context *context;
    tn_piece *out; /* finished rectangles; the array grows */
    size_t out_count, out_room;
    tn_piece *open; /* rectangles that extend to the current time */
    uint32_t open_count;
    tn_piece *live; /* input pieces that are live now, sorted by lo */
    uint32_t live_count;
    uint64_t work; /* number of visits of live pieces that the whole sweep makes */
} normal_sweep;

static int normal_piece_order(const void *a, const void *b) {
    const tn_piece *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Updates the rectangles at time `now`. The union of the live windows changes there: windows that
 * stay equal are prolonged later, the others are closed at `now`, and new ones are opened. */
static bool normal_sweep_step(normal_sweep *sweep, int64_t now, tn_piece *fresh) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < sweep->live_count; i++) { /* merges overlapping windows into fresh[] */
        const tn_piece *live = &sweep->live[i];
        if (count != 0 && live->lo <= fresh[count - 1].hi) {
            if (live->hi > fresh[count - 1].hi) fresh[count - 1].hi = live->hi;
        } else {
            fresh[count++] = (tn_piece){.first = now, .lo = live->lo, .hi = live->hi};
        }
    }
    if (sweep->out_count > TN__PIECES_MAX ||
        !tn__reserve(sweep->context, &sweep->out, &sweep->out_room,
                     sweep->out_count + sweep->open_count, sizeof *sweep->out))
        return false;
    uint32_t at = 0;
    for (uint32_t i = 0; i < sweep->open_count; i++) {
        tn_piece *open = &sweep->open[i];
        while (at < count && fresh[at].lo < open->lo) at++;
        bool stays = at < count && fresh[at].lo == open->lo && fresh[at].hi == open->hi;
        if (stays) {
            fresh[at].first = open->first;
        } else {
            open->last = now;
            sweep->out[sweep->out_count++] = *open;
        }
    }
    for (uint32_t i = 0; i < count; i++) sweep->open[i] = fresh[i];
    sweep->open_count = count;
    return true;
}

static bool normal_sweep_run(normal_sweep *sweep, const tn_piece *pieces, uint32_t count,
                             const int64_t *times, size_t time_count, tn_piece *fresh) {
    uint32_t next = 0;
    for (size_t t = 0; t < time_count; t++) {
        if (t != 0 && times[t] == times[t - 1]) continue;
        uint32_t left = 0;
        for (uint32_t i = 0; i < sweep->live_count; i++)
            if (sweep->live[i].last > times[t]) sweep->live[left++] = sweep->live[i];
        sweep->live_count = left;
        for (; next < count && pieces[next].first == times[t]; next++) {
            uint32_t at = sweep->live_count++;
            for (; at > 0 && sweep->live[at - 1].lo > pieces[next].lo; at--)
                sweep->live[at] = sweep->live[at - 1];
            sweep->live[at] = pieces[next];
        }
        if (!normal_sweep_step(sweep, times[t], fresh)) return false;
    }
    tn_assert(sweep->open_count == 0);
    return sweep->out_count <= TN__PIECES_MAX;
}

/* Computes the work of the sweep in advance: the number of live pieces, summed over all distinct
 * times. `pieces` [k] are sorted by first, `times` [2k] are their begins and ends. */
static uint64_t normal_work(const tn_piece *pieces, size_t k, const int64_t *times) {
    uint64_t work = 0;
    for (size_t i = 0, begun = 0; i < 2 * k; i++) {
        if (i + 1 < 2 * k && times[i + 1] == times[i]) continue;
        while (begun < k && pieces[begun].first <= times[i]) begun++;
        /* pieces that have ended are not visited */
        work = tn__add_sat(work, begun - (i + 1 - begun));
    }
    return work;
}

/* Sorts the pieces and runs the sweep. `scratch` holds 4k pieces: sorted input, open, live,
 * fresh. */
static bool normal_sort_and_sweep(normal_sweep *sweep, const tn_piece *pieces, size_t k,
                                  tn_piece *scratch, int64_t *times) {
    memcpy(scratch, pieces, k * sizeof *scratch);
    qsort(scratch, k, sizeof *scratch, normal_piece_order);
    for (size_t i = 0; i < k; i++) {
        times[2 * i] = scratch[i].first;
        times[2 * i + 1] = scratch[i].last;
    }
    qsort(times, 2 * k, sizeof *times, tn__time_order);
    sweep->work = normal_work(scratch, k, times);
    if (sweep->work > NORMAL_WORK_MAX) return false;
    sweep->open = scratch + k;
    sweep->live = scratch + 2 * k;
    if (!normal_sweep_run(sweep, scratch, (uint32_t)k, times, 2 * k, scratch + 3 * k)) return false;
    qsort(sweep->out, sweep->out_count, sizeof *sweep->out, normal_piece_order);
    return true;
}

/* --- clocks --- */

static void normal_widen(int64_t *begins, int64_t *ends, const tn_piece *piece, uint32_t streams) {
    for (uint32_t s = 0; s < streams; s++) {
        if (piece->begins[s] < begins[s]) begins[s] = piece->begins[s];
        if (piece->ends[s] > ends[s]) ends[s] = piece->ends[s];
    }
}

/* Computes the clocks of the rectangles `out` from those of the pieces. `pieces` [k] are sorted by
 * first. */
static bool normal_clocks(const tn_piece *pieces, size_t k, tn_piece *out, size_t count,
                          uint32_t streams, tn__arena *arena) {
    for (size_t i = 0; i < count; i++) {
        int64_t *clocks = tn__arena_array(arena, 2 * (size_t)streams, sizeof *clocks);
        if (clocks == NULL) return false;
        for (uint32_t s = 0; s < streams; s++) {
            clocks[s] = INT64_MAX;
            clocks[streams + s] = INT64_MIN;
        }
        for (size_t j = 0; j < k && pieces[j].first < out[i].last; j++)
            if (pieces[j].last > out[i].first && pieces[j].lo < out[i].hi &&
                pieces[j].hi > out[i].lo)
                normal_widen(clocks, clocks + streams, &pieces[j], streams);
        out[i].begins = clocks;
        out[i].ends = clocks + streams;
    }
    return true;
}

static bool normal_share_bytes(const tn_piece *a, const tn_piece *b) {
    return a->lo < b->hi && b->lo < a->hi;
}

/* Makes the clocks of rectangles that share bytes ascend in time. `out` is sorted by first; its
 * arrays of clocks were allocated by normal_clocks. */
static void normal_order_clocks(tn_piece *out, size_t count, uint32_t streams) {
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            for (uint32_t s = 0; s < streams && normal_share_bytes(&out[i], &out[j]); s++)
                if (out[j].ends[s] > out[i].ends[s]) ((int64_t *)out[i].ends)[s] = out[j].ends[s];
    for (size_t i = count; i-- > 0;)
        for (size_t j = i + 1; j < count; j++)
            for (uint32_t s = 0; s < streams && normal_share_bytes(&out[i], &out[j]); s++)
                if (out[j].begins[s] < out[i].begins[s])
                    ((int64_t *)out[i].begins)[s] = out[j].begins[s];
}

tn_status tn__normal_form(const tn_piece *pieces, size_t k, uint32_t streams, tn__arena *arena,
                          const tn_piece **out, uint32_t *count, tn_error *error) {
    const tn_context *context = arena->context;
    tn_piece *scratch = tn__alloc_array(context, 4 * k, sizeof *scratch);
    int64_t *times = tn__alloc_array(context, 2 * k, sizeof *times);
    normal_sweep sweep = {.context = context};
    tn_piece *made = NULL;
    uint64_t work = 0;
    bool done = scratch != NULL && times != NULL &&
                normal_sort_and_sweep(&sweep, pieces, k, scratch, times);
    if (done && streams > 1) {
        work = tn__mul_sat(tn__mul_sat(k + sweep.out_count, sweep.out_count), streams);
        done = work <= NORMAL_CLOCK_WORK_MAX &&
               normal_clocks(scratch, k, sweep.out, sweep.out_count, streams, arena);
    }
    if (done && streams > 1) normal_order_clocks(sweep.out, sweep.out_count, streams);
    if (done) made = tn__arena_copy(arena, sweep.out, sweep.out_count * sizeof *sweep.out);
    tn__free(context, sweep.out, sweep.out_room * sizeof *sweep.out);
    tn__free(context, scratch, 4 * k * sizeof *scratch);
    tn__free(context, times, 2 * k * sizeof *times);
    if (sweep.out_count > TN__PIECES_MAX)
        TN_FAIL(error, TN_E_INVALID, "has pieces that cut each other into more than %u",
                TN__PIECES_MAX);
    if (sweep.work > NORMAL_WORK_MAX)
        TN_FAIL(error, TN_E_INVALID, "has more pieces alive at once than can be merged");
    if (work > NORMAL_CLOCK_WORK_MAX)
        TN_FAIL(error, TN_E_INVALID, "has more pieces with clocks than can be merged");
    if (made == NULL) return tn__no_memory(error, "the pieces of a body");
    *out = made;
    *count = (uint32_t)sweep.out_count;
    return TN_OK;
}
