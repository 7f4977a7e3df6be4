/* cliques.c - a lower bound of the reuse cost, from sets of buffers that need more memory than
 * there is if no two of them share bytes.
 *
 * Consider a set in which every two buffers either must not share bytes or pay a cost if they do.
 * Let W be the sum of their sizes and U the bytes of the memory. If no pair shared bytes, the set
 * would need W bytes; each pair that shares bytes saves at most the smaller of its two sizes. So
 * with D = W - U > 0, and x = 1 for each pair that shares bytes (else 0),
 *
 *     sum over the paying pairs of min(size, size, D) * x >= D.
 *
 * The set charges each paying pair a part of the pair's cost, in proportion to the term min(size,
 * size, D). If the factor of proportion is f, the set proves that the reuse cost is at least f * D.
 * Several sets may charge the same pair, as long as the charges do not exceed its cost: then the
 * proved costs add up (they are a feasible solution of the dual linear program). Sets are grown at
 * random from a pair that still has cost left to charge. Forbidden pairs and large buffers are
 * preferred, and buffers that the set does not need are removed at the end. All sums are exact, in
 * units of 2^-20 of a cost.
 *
 * Cost: O(attempts * n * members), n^2 numbers of memory.
 * Source: clique inequalities; dual ascent for covering problems (Erlenkotter 1978).
 */
#include "plan/search/search.h"

#define CLIQUES_SHIFT 20u /* fractional bits: sums are exact in units of 2^-20 of a cost */
/* limit of the sum of costs, so that sums with fractional bits fit in 64 bits */
#define CLIQUES_COST_MAX ((uint64_t)1 << 40)
/* entry of `table` for a pair of buffers that may share bytes at no cost */
#define CLIQUES_NONE UINT32_MAX
#define CLIQUES_FORBIDDEN (UINT32_MAX - 1)
/* number of passes, each of which computes a bound independently; the largest bound is returned */
#define CLIQUES_PASSES 4u
#define CLIQUES_MEMBERS 64u /* limit of the number of buffers in a set */

__extension__ typedef unsigned __int128 cliques_wide;

typedef struct cliques {
    tn_run *run;
    const tn__cliques *given;
    /* [count * count], for each pair of buffers CLIQUES_NONE, CLIQUES_FORBIDDEN, or the number of a
     * paying pair */
    uint32_t *table;
    uint64_t *cost; /* [paying], cost of each paying pair, in units */
    /* [paying], part of each paying pair's cost that no set has charged yet, in units */
    uint64_t *left;
    uint32_t *ends[2]; /* [paying] */
    uint32_t paying;
    /* [count], buffers that may still join the set: those that may not share bytes, or pay for
     * sharing, with every member */
    uint32_t *found;
    uint32_t *charges; /* [count], number of members with which each buffer forms a paying pair */
    uint32_t found_count;
    uint32_t member[CLIQUES_MEMBERS];
    uint32_t member_count;
    uint64_t bytes; /* sum of the sizes of the buffers in the set */
    tn__random random;
} cliques;

static uint32_t *cliques_at(const cliques *state, uint32_t a, uint32_t b) {
    return &state->table[(size_t)a * state->given->count + b];
}

static bool cliques_fill(cliques *state) {
    const tn__cliques *given = state->given;
    size_t n = given->count;
    state->table = tn__run_scratch(state->run, n * n, sizeof *state->table);
    state->cost = tn__run_scratch(state->run, given->pair_count, sizeof *state->cost);
    state->left = tn__run_scratch(state->run, given->pair_count, sizeof *state->left);
    state->found = tn__run_scratch(state->run, n, sizeof *state->found);
    state->charges = tn__run_scratch(state->run, n, sizeof *state->charges);
    for (int k = 0; k < 2; k++)
        state->ends[k] = tn__run_scratch(state->run, given->pair_count, sizeof(uint32_t));
    if (!state->table || !state->cost || !state->left || !state->found || !state->charges ||
        !state->ends[0] || !state->ends[1])
        return false;
    memset(state->table, 0xff, n * n * sizeof *state->table);
    for (size_t i = 0; i < given->pair_count; i++) {
        const tn__clique_pair *pair = &given->pairs[i];
        uint32_t *at = cliques_at(state, pair->a, pair->b);
        if (*at == CLIQUES_FORBIDDEN) continue;
        if (pair->cost == TN__CLIQUE_HARD) {
            *at = CLIQUES_FORBIDDEN;
        } else if (*at == CLIQUES_NONE) {
            *at = state->paying;
            state->ends[0][state->paying] = pair->a;
            state->ends[1][state->paying] = pair->b;
            state->cost[state->paying++] = pair->cost << CLIQUES_SHIFT;
        } else {
            state->cost[*at] += pair->cost << CLIQUES_SHIFT;
        }
        *cliques_at(state, pair->b, pair->a) = *at;
    }
    return true;
}

static bool cliques_joins(const cliques *state, uint32_t a, uint32_t b) {
    uint32_t pair = *cliques_at(state, a, b);
    return pair == CLIQUES_FORBIDDEN || (pair != CLIQUES_NONE && state->left[pair] > 0);
}

static void cliques_add(cliques *state, uint32_t body) {
    uint32_t kept = 0;
    state->member[state->member_count++] = body;
    state->bytes += state->given->bodies[body].size;
    for (uint32_t i = 0; i < state->found_count; i++) {
        uint32_t other = state->found[i];
        if (other == body || !cliques_joins(state, body, other)) continue;
        state->charges[other] += *cliques_at(state, body, other) != CLIQUES_FORBIDDEN;
        state->found[kept++] = other;
    }
    state->found_count = kept;
}

/* Removes buffers from the set as long as the sizes of the others add up to more than the memory.
 * Buffers with the most paying pairs are removed first. */
static void cliques_shrink(cliques *state) {
    for (;;) {
        uint32_t worst = CLIQUES_NONE, most = 0;
        for (uint32_t i = 0; i < state->member_count; i++) {
            uint32_t paying = 1;
            if (state->bytes - state->given->bodies[state->member[i]].size <= state->given->usable)
                continue;
            for (uint32_t k = 0; k < state->member_count; k++)
                paying += k != i && *cliques_at(state, state->member[i], state->member[k]) !=
                                        CLIQUES_FORBIDDEN;
            if (paying > most) most = paying, worst = i;
        }
        if (worst == CLIQUES_NONE) return;
        state->bytes -= state->given->bodies[state->member[worst]].size;
        state->member[worst] = state->member[--state->member_count];
    }
}

/* Returns the term of a pair, min(size, size, D): the most bytes that the set saves if the two
 * buffers share memory. */
static uint64_t cliques_term(const cliques *state, uint32_t a, uint32_t b) {
    uint64_t term = state->bytes - state->given->usable;
    if (state->given->bodies[a].size < term) term = state->given->bodies[a].size;
    if (state->given->bodies[b].size < term) term = state->given->bodies[b].size;
    return term;
}

/* Charges the paying pairs of the set, so that it proves a cost of at most `most`; returns the cost
 * that it proves. */
static uint64_t cliques_charge(cliques *state, uint64_t most) {
    uint64_t excess = state->bytes - state->given->usable, proved = most;
    bool pays = false;
    for (int charges = 0; charges < 2; charges++) {
        for (uint32_t i = 1; i < state->member_count; i++) {
            for (uint32_t k = 0; k < i; k++) {
                uint32_t a = state->member[i], b = state->member[k];
                uint32_t pair = *cliques_at(state, a, b);
                uint64_t term = cliques_term(state, a, b);
                if (pair == CLIQUES_FORBIDDEN) continue;
                pays = true;
                cliques_wide limit = (cliques_wide)state->left[pair] * excess / term;
                cliques_wide charge = ((cliques_wide)proved * term + (excess - 1)) / excess;
                if (charges)
                    state->left[pair] -= (uint64_t)charge;
                else if (limit < proved)
                    proved = (uint64_t)limit;
            }
        }
        if (!pays || proved == 0) return 0;
    }
    return proved;
}

/* Grows a set at random from a paying pair and charges the set's paying pairs; returns the cost
 * that the set proves. */
static uint64_t cliques_try(cliques *state, uint64_t most) {
    const tn__cliques *given = state->given;
    uint32_t pair = (uint32_t)tn__random_below(&state->random, state->paying);
    if (state->left[pair] == 0) return 0;
    state->member_count = 0;
    state->bytes = 0;
    state->found_count = given->count;
    for (uint32_t i = 0; i < given->count; i++) {
        state->found[i] = i;
        state->charges[i] = 0;
    }
    cliques_add(state, state->ends[0][pair]);
    cliques_add(state, state->ends[1][pair]);
    while (state->bytes <= given->usable && state->found_count > 0 &&
           state->member_count < CLIQUES_MEMBERS) {
        uint32_t best = CLIQUES_NONE;
        double score = 0;
        for (uint32_t i = 0; i < state->found_count; i++) {
            uint32_t body = state->found[i];
            double noise = (double)(1 + tn__random_below(&state->random, 4));
            double worth = noise * (double)given->bodies[body].size / (1 + state->charges[body]);
            if (best != CLIQUES_NONE && worth <= score) continue;
            best = body;
            score = worth;
        }
        cliques_add(state, best);
    }
    if (state->bytes <= given->usable) return 0;
    cliques_shrink(state);
    return cliques_charge(state, most);
}

tn_status tn__clique_bound(tn_run *run, const tn__cliques *given, uint64_t *bound) {
    cliques state = {.run = run, .given = given, .random = {given->seed}};
    uint64_t sum = 0;
    for (size_t i = 0; i < given->pair_count; i++)
        if (given->pairs[i].cost != TN__CLIQUE_HARD) sum = tn__add_sat(sum, given->pairs[i].cost);
    if (sum == 0 || sum > CLIQUES_COST_MAX || given->count > TN__CLIQUE_BODIES) return TN_OK;
    if (!cliques_fill(&state)) return TN_E_NO_MEMORY;
    for (uint32_t pass = 0; pass < CLIQUES_PASSES && state.paying > 0; pass++) {
        uint64_t proved = 0, part = given->attempts / CLIQUES_PASSES;
        memcpy(state.left, state.cost, state.paying * sizeof *state.left);
        for (uint64_t i = 0; i < part; i++) {
            /* Charges of one set are limited in the first half of every pass but the first, so that
             * several sets can charge a pair. */
            bool early = pass > 0 && i < part / 2;
            proved += cliques_try(&state, early ? (uint64_t)1 << (CLIQUES_SHIFT - 2) : UINT64_MAX);
            TN_TRY(tn__run_work(run, 1));
        }
        uint64_t whole = (proved + (((uint64_t)1 << CLIQUES_SHIFT) - 1)) >> CLIQUES_SHIFT;
        if (whole > *bound) *bound = whole;
    }
    return TN_OK;
}
