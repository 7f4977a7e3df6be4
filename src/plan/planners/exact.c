/* exact.c - complete search: the lowest height, or the proof that none fits.
 *
 * Starts from the best quick plan, so it never ends empty-handed, and then asks search.c again and
 * again "is there a placement within this capacity?". Which order finds one, and for which
 * capacity, cannot be told beforehand: a search that fails in a second may succeed at once in
 * another order or one unit lower. So orders and capacities take turns under a node limit that
 * doubles every round; every second round shuffles the orders a little. The lower bound is tried
 * first: on real networks it is the answer. A capacity that is searched through without a limit is
 * a proof and raises the bound; bound and best plan meet in the optimum.
 *
 * With a capacity given only that one is asked for. Bodies whose conflicts are not simply "above or
 * below" (windows that pass under each other) are planned too, but prove nothing.
 *
 * Cost:   exponential at worst; memory O(bodies + conflicts). For up to some thousand bodies.
 * Source: Moffitt, MiniMalloc, ASPLOS 2023 (orders, doubling limits); ours: the turns of
 * capacities.
 */
#include "plan/planner.h"
#include "plan/search.h"

#define EXACT_BODIES_MAX 8192u
#define EXACT_CONFLICTS_MAX ((uint64_t)1 << 24)
#define EXACT_ROUNDS 48u
#define EXACT_ROUNDS_WITHOUT_PROOF 12u /* where nothing can be proved, the search gives up */
#define EXACT_CAPACITIES 7u

static const char *const exact_orders[] = {"TOW", "TWA", "TAW", "WAT", "OTW"};
#define EXACT_ORDERS (sizeof exact_orders / sizeof *exact_orders)

typedef struct exact_state {
    tn_run *run;
    tn__search_input input;
    tn__search_body *bodies;
    tn__search_piece *pieces;
    tn__search_conflict *conflicts;
    uint32_t *ids; /* [input.count], the run's number of a body of the search */
    tn__search *search;
    uint64_t *found;    /* [input.count], offsets in units */
    uint64_t *offsets;  /* [run count], bytes */
    uint64_t unit;      /* bytes */
    uint64_t low, high; /* units: no plan below low; the best plan is high */
} exact_state;

/* --- the problem in units, with its conflicts --- */

static uint64_t exact_gcd(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* In a left-justified placement every offset is a sum of window bounds, rounded up to alignments,
 * from 0 or a pin: a multiple of what divides all of these. */
static uint64_t exact_unit(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const tn_run_piece *pieces = tn__run_pieces(run);
    uint64_t unit = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        unit = exact_gcd(unit, bodies[i].size);
        if (bodies[i].alignment > 1) unit = exact_gcd(unit, bodies[i].alignment);
        if (tn__run_pinned(run, i)) unit = exact_gcd(unit, tn__run_offset(run, i));
        for (uint32_t k = 0; k < bodies[i].piece_count; k++) {
            const tn_run_piece *piece = &pieces[bodies[i].piece_first + k];
            unit = exact_gcd(exact_gcd(unit, piece->lo), piece->hi);
        }
    }
    return unit > 0 ? unit : 1;
}

static uint64_t exact_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* How far apart two bodies must lie, either way round; false: they never meet in time. A pair of
 * windows that do not meet at equal offsets makes the conflict more than "above or below". */
static bool exact_conflict(exact_state *exact, const tn__search_body *a, const tn__search_body *b,
                           tn__search_conflict *conflict) {
    bool meet = false;
    for (uint32_t i = 0; i < a->piece_count; i++) {
        const tn__search_piece *p = &exact->pieces[a->piece_first + i];
        for (uint32_t k = 0; k < b->piece_count; k++) {
            const tn__search_piece *q = &exact->pieces[b->piece_first + k];
            if (p->first >= q->last || q->first >= p->last) continue;
            bool simple = p->hi > q->lo && q->hi > p->lo;
            if (!simple) exact->input.complete = false;
            if (p->hi > q->lo) conflict->above = exact_max(conflict->above, p->hi - q->lo);
            if (q->hi > p->lo) conflict->below = exact_max(conflict->below, q->hi - p->lo);
            meet = true;
        }
    }
    return meet;
}

/* Two passes over all pairs: count, then fill. False: too many, or no memory. */
static bool exact_find_conflicts(exact_state *exact) {
    uint64_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t at = 0;
        for (uint32_t a = 0; a < exact->input.count; a++) {
            tn__search_body *body = &exact->bodies[a];
            body->conflict_first = (uint32_t)at;
            for (uint32_t b = 0; b < exact->input.count; b++) {
                tn__search_conflict conflict = {.other = b};
                const tn__search_body *other = &exact->bodies[b];
                if (a == b || body->first >= other->last || other->first >= body->last) continue;
                if (pass == 0) {
                    at++; /* hulls meet: at most this many */
                } else if (exact_conflict(exact, body, other, &conflict)) {
                    exact->conflicts[at++] = conflict;
                }
            }
            body->conflict_count = (uint32_t)(at - body->conflict_first);
        }
        if (pass > 0) continue;
        total = at;
        if (total > EXACT_CONFLICTS_MAX) return false;
        exact->conflicts = tn__run_scratch(exact->run, (size_t)total, sizeof *exact->conflicts);
        if (exact->conflicts == NULL) return false;
    }
    exact->input.conflicts = exact->conflicts;
    return true;
}

static void exact_fill(exact_state *exact) {
    tn_run *run = exact->run;
    const tn_run_piece *pieces = tn__run_pieces(run);
    uint32_t count = 0, piece_count = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        const tn_run_body *body = &tn__run_bodies(run)[i];
        if (body->size == 0 || body->piece_count == 0) continue;
        uint64_t span = tn__run_span(run, i), unit = exact->unit;
        exact->ids[count] = i;
        exact->bodies[count++] = (tn__search_body){
            .size = body->size / unit,
            .alignment = body->alignment > 1 ? body->alignment / unit : 1,
            .pin = tn__run_pinned(run, i) ? tn__run_offset(run, i) / unit : TN__SEARCH_FREE,
            .span = span,
            .area = tn__mul_sat(span, body->size),
            .first = body->first,
            .last = body->last,
            .piece_first = piece_count,
            .piece_count = body->piece_count};
        for (uint32_t k = 0; k < body->piece_count; k++) {
            const tn_run_piece *piece = &pieces[body->piece_first + k];
            exact->pieces[piece_count++] =
                (tn__search_piece){piece->first, piece->last, piece->lo / unit, piece->hi / unit};
        }
    }
    uint32_t times = tn__run_time_count(run);
    exact->input = (tn__search_input){.count = count,
                                      .slot_count = times > 0 ? times - 1 : 0,
                                      .bodies = exact->bodies,
                                      .pieces = exact->pieces,
                                      .complete = true};
}

/* False: the search cannot be set up (too large, no memory); the quick plan then stands. */
static bool exact_prepare(exact_state *exact) {
    tn_run *run = exact->run;
    uint32_t n = tn__run_count(run), pieces = 0;
    if (n > EXACT_BODIES_MAX) return false;
    for (uint32_t i = 0; i < n; i++) pieces += tn__run_bodies(run)[i].piece_count;
    exact->bodies = tn__run_scratch(run, n, sizeof *exact->bodies);
    exact->pieces = tn__run_scratch(run, pieces, sizeof *exact->pieces);
    exact->ids = tn__run_scratch(run, n, sizeof *exact->ids);
    exact->found = tn__run_scratch(run, n, sizeof *exact->found);
    exact->offsets = tn__run_scratch(run, n, sizeof *exact->offsets);
    if (!exact->bodies || !exact->pieces || !exact->ids || !exact->found || !exact->offsets)
        return false;
    exact->unit = exact_unit(run);
    exact_fill(exact);
    if (!exact_find_conflicts(exact)) return false;
    exact->search = tn__search_create(tn__run_context(run), &exact->input);
    exact->low = (tn__run_lower_bound(run) + exact->unit - 1) / exact->unit;
    exact->high = (tn__run_best(run) + exact->unit - 1) / exact->unit;
    return exact->search != NULL;
}

/* --- asking --- */

static bool exact_go_on(void *self) {
    exact_state *exact = self;
    return tn__run_work(exact->run, TN__SEARCH_POLL) == TN_OK;
}

static void exact_keep(exact_state *exact) {
    for (uint32_t i = 0; i < tn__run_count(exact->run); i++) exact->offsets[i] = 0;
    for (uint32_t i = 0; i < tn__run_count(exact->run); i++)
        if (tn__run_pinned(exact->run, i)) exact->offsets[i] = tn__run_offset(exact->run, i);
    for (uint32_t i = 0; i < exact->input.count; i++)
        exact->offsets[exact->ids[i]] = exact->found[i] * exact->unit;
    tn__run_keep_offsets(exact->run, exact->offsets);
    exact->high = (tn__run_best(exact->run) + exact->unit - 1) / exact->unit;
}

/* One question. E_STOPPED when a limit of the run came; otherwise *better tells of a new plan. */
static tn_status exact_ask(exact_state *exact, tn__search_order order, uint64_t capacity,
                           uint64_t node_limit, bool *better) {
    uint64_t nodes;
    tn__search_poll poll = {exact_go_on, exact};
    tn__search_outcome outcome =
        tn__search_decide(exact->search, order, capacity, node_limit, poll, exact->found, &nodes);
    *better = outcome == TN__SEARCH_FOUND;
    if (outcome == TN__SEARCH_FOUND) exact_keep(exact);
    if (outcome == TN__SEARCH_NONE && exact->input.complete) {
        if (capacity + 1 > exact->low) exact->low = capacity + 1;
        tn__run_raise_bound(exact->run, exact->low * exact->unit);
    }
    if (outcome == TN__SEARCH_NO_MEMORY) return TN_E_STOPPED; /* the best plan so far stands */
    return tn__run_work(exact->run, nodes % TN__SEARCH_POLL);
}

/* The capacities of a round, all in [low, high): the bound, then steps towards the best plan,
 * denser as they come near it. */
static uint32_t exact_capacities(const exact_state *exact, uint64_t capacities[EXACT_CAPACITIES]) {
    uint64_t last = exact->high - 1 - exact->low; /* from low to the capacity just below high */
    uint32_t count = 1;
    capacities[0] = exact->low;
    if (tn__run_has_capacity(exact->run))
        capacities[0] = tn__run_capacity(exact->run) / exact->unit;
    for (uint32_t i = 1; i < EXACT_CAPACITIES && !tn__run_has_capacity(exact->run); i++) {
        uint64_t step = i + 1 < EXACT_CAPACITIES ? last >> i : 0; /* 1/2, 1/4, ... 1/32, 0 */
        uint64_t capacity = exact->low + last - step;
        if (capacity > capacities[count - 1]) capacities[count++] = capacity;
    }
    return count;
}

static bool exact_is_done(const exact_state *exact) {
    if (exact->low >= exact->high) return true;
    if (!tn__run_has_capacity(exact->run)) return false;
    uint64_t capacity = tn__run_capacity(exact->run) / exact->unit;
    return exact->high <= capacity || exact->low > capacity;
}

static tn_status exact_round(exact_state *exact, uint32_t round) {
    uint64_t limit = (uint64_t)2 * (exact->input.count + 8) << (round < 40 ? round : 40);
    uint64_t seed = round % 2 == 0 ? 0 : tn__run_seed(exact->run) * 1000 + round;
    for (uint32_t turn = 0; turn < EXACT_CAPACITIES; turn++) {
        for (size_t i = 0; i < EXACT_ORDERS && !exact_is_done(exact); i++) {
            uint64_t capacities[EXACT_CAPACITIES];
            uint32_t count = exact_capacities(exact, capacities);
            bool better;
            if (turn >= count) return TN_OK;
            TN_TRY(exact_ask(exact, (tn__search_order){exact_orders[i], seed, 2}, capacities[turn],
                             limit, &better));
        }
    }
    return TN_OK;
}

static tn_status exact_solve(tn_run *run) {
    exact_state exact = {.run = run};
    TN_TRY(tn__run_quick_portfolio(run));
    tn_status status = TN_OK;
    bool fits = tn__run_best(run) <= tn__run_capacity(run) && tn__run_has_capacity(run);
    if (fits || tn__run_best(run) <= tn__run_lower_bound(run)) return TN_OK;
    if (exact_prepare(&exact)) {
        uint32_t rounds = exact.input.complete ? EXACT_ROUNDS : EXACT_ROUNDS_WITHOUT_PROOF;
        for (uint32_t round = 0; round < rounds && status == TN_OK && !exact_is_done(&exact);
             round++)
            status = exact_round(&exact, round);
    }
    tn__search_destroy(exact.search);
    return status;
}

const tn_planner tn__planner_exact = {
    .name = "exact",
    .summary = "complete search: the lowest height, proved, or proof that none fits",
    .source = "Moffitt 2023 (MiniMalloc); ours",
    .features = TN_PLANS_ALIGNMENT | TN_PLANS_PINS | TN_PLANS_PIECES,
    .solve = exact_solve,
};
