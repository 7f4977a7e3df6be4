/* intervals.c - replaces the clocks of streams by step intervals wherever both mean the same.
 *
 * Planners are faster and find better layouts with plain intervals than with clocks. A life must
 * not share memory with a life that begins before the first is known to be over, according to
 * streams and signals:
 *
 *     stream 0   ... use x   APPLY y   APPLY z   WAIT     APPLY u
 *     stream 1              SWAP_OUT x ─────────▶
 *     x          ───────────────────────────────────]    may lie where u lies, not y or z
 *
 * On one chain, if a step knows that the life is over, all later steps know it, too. So each
 * chain has a last definition that conflicts with the life. The life is extended to the last of
 * these definitions in the list. This never loses a conflict. It also adds none if every
 * definition in between, on any chain, conflicts. If that holds for all lives, intervals are
 * equivalent to clocks and replace them. Otherwise nothing is changed.
 *
 * Cost: O((lives + uses) chains log n).
 */
#include "program/occupancy.h"

#define INTERVALS_CHAINS_MAX 64u /* programs of streams have fewer chains */

typedef struct intervals_state {
    occ_state *occ;
    uint32_t chains;
    uint32_t *first;  /* [chains + 1] into the lists below */
    uint32_t *step;   /* [steps] by chain, then index */
    uint32_t *before; /* [steps] newest earlier step of its chain that defines; OCC_NONE */
    uint32_t *from;   /* [steps] first defining step of its chain from this one on; OCC_NONE */
    uint32_t *last;   /* [lives] */
} intervals_state;

static bool intervals_make(intervals_state *state, uint8_t **defines) {
    occ_state *occ = state->occ;
    const tn__happens *happens = occ->happens;
    tn__arena *arena = &occ->scratch;
    uint32_t steps = happens->count;
    if (!(state->first = tn__arena_array(arena, (size_t)state->chains + 1, sizeof *state->first)) ||
        !(state->step = tn__arena_array(arena, steps, sizeof *state->step)) ||
        !(state->before = tn__arena_array(arena, steps, sizeof *state->before)) ||
        !(state->from = tn__arena_array(arena, steps, sizeof *state->from)) ||
        !(state->last = tn__arena_array(arena, occ->count, sizeof *state->last)) ||
        !(*defines = tn__arena_array(arena, steps, sizeof **defines)))
        return false;
    for (uint32_t s = 0; s < steps; s++) state->first[happens->chain[s] + 1]++;
    for (uint32_t c = 0; c < state->chains; c++) state->first[c + 1] += state->first[c];
    for (uint32_t s = 0; s < steps; s++)
        state->step[state->first[happens->chain[s]] + happens->index[s]] = s;
    for (size_t i = 0; i < occ->count; i++)
        if (!occ->lives[i].is_static) (*defines)[occ->lives[i].first] = 1;
    return true;
}

/* Finds the nearest definitions before and after each place of each chain. */
static void intervals_index(intervals_state *state, const uint8_t *defines) {
    for (uint32_t c = 0; c < state->chains; c++) {
        uint32_t seen = OCC_NONE, first = state->first[c], end = state->first[c + 1];
        for (uint32_t i = first; i < end; i++) {
            state->before[i] = seen;
            if (defines[state->step[i]]) seen = state->step[i];
        }
        seen = OCC_NONE;
        for (uint32_t i = end; i-- > first;) {
            if (defines[state->step[i]]) seen = state->step[i];
            state->from[i] = seen;
        }
    }
}

/* The first place of a chain, from `low` on, that knows step `use` to be over; the chain's end
 * if there is no such place. */
static uint32_t intervals_known(const intervals_state *state, uint32_t chain, uint32_t low,
                                uint32_t use) {
    uint32_t high = state->first[chain + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (tn__happens_before(state->occ->happens, use, state->step[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The newest definition of a chain that conflicts with a life, and the first later one that does
 * not. */
static void intervals_of(const intervals_state *state, const occ_life *life, uint32_t chain,
                         uint32_t *newest, uint32_t *free) {
    uint32_t end = state->first[chain + 1];
    uint32_t at = intervals_known(state, chain, state->first[chain], life->first);
    for (uint32_t use = life->newest; use != OCC_NONE && at < end;
         use = state->occ->uses.items[use].next)
        at = intervals_known(state, chain, at, state->occ->uses.items[use].step);
    *free = at < end ? state->from[at] : OCC_NONE;
    if (at < end) {
        *newest = state->before[at];
        return;
    }
    bool empty = end == state->first[chain];
    bool defines = !empty && state->from[end - 1] != OCC_NONE;
    *newest = empty ? OCC_NONE : defines ? state->step[end - 1] : state->before[end - 1];
}

/* Whether one interval gives a life the same conflicts as the clocks. */
static bool intervals_find(intervals_state *state, uint32_t id) {
    const occ_life *life = &state->occ->lives[id];
    uint32_t last = life->last, soonest = OCC_NONE;
    for (uint32_t c = 0; c < state->chains; c++) {
        uint32_t newest, free;
        intervals_of(state, life, c, &newest, &free);
        if (newest != OCC_NONE && newest >= last) last = newest + 1;
        if (free < soonest) soonest = free;
    }
    state->last[id] = last;
    return soonest >= last;
}

tn_status tn__occ_straighten(occ_state *occ) {
    intervals_state state = {.occ = occ};
    uint8_t *defines;
    if (occ->happens == NULL || occ->options.parallel != TN_PARALLEL_SERIAL) return TN_OK;
    state.chains = occ->happens->chain_count;
    if (state.chains < 2 || state.chains > INTERVALS_CHAINS_MAX) return TN_OK;
    if (!intervals_make(&state, &defines)) return tn__no_memory(occ->error, "lives");
    intervals_index(&state, defines);
    for (uint32_t i = 0; i < occ->count; i++)
        if (!occ->lives[i].is_static && !intervals_find(&state, i)) return TN_OK;
    for (uint32_t i = 0; i < occ->count; i++)
        if (!occ->lives[i].is_static) occ->lives[i].last = state.last[i];
    occ->straight = true;
    return TN_OK;
}
