/* rotor.c - chains by dynamic programming: finds the cheapest of all schedules in which a stored
 * state stays until it is read. In short chains, it then searches for cheaper schedules that evict
 * stored states.
 *
 * A chain has forward states and backward stages (chain.h). A subproblem is: state s is live, and
 * so is the value that stage v hands on; the stages from v - 1 down to s remain, within m bytes.
 * State 0 is the initial state and needs no bytes. There are two choices:
 *
 *     sweep    a state w between s and v is made and stored; first the stages from w on are run, in
 *              m bytes without those of s, then the stages from s to w
 *     keep     the next state is made and stored together with all values up to it; first the later
 *              stages are run, in m bytes without those, then the stage of s, which needs no repeat
 *
 * One extension of the published dynamic program: a state that is live because its own stage has
 * just run may be kept for the previous stage, which often reads it (`beside`). Without this
 * extension, even two equal layers cost more than necessary.
 *
 * Bytes are counted in at most 500 slots, rounded up. A chain of more than 100 states is divided
 * into 100 sections, at the smallest state near each place of division; with fewer slots there are
 * more sections. A section is kept or passed over as a whole; if it is processed alone, it is
 * divided once more, into 20 sections. If nothing fits, fewer slots and more sections are tried.
 * Cost: O(states^3 * slots), at most twice that of 100 states and 500 slots.
 *
 * The optimal schedule may evict a stored state and recompute it: one or two of a hundred chains
 * gain by this, some of them a few percent. No polynomial dynamic program for this case is known.
 * Therefore chains of up to 63 values are also searched (chain.c) for schedules below the cost
 * found so far: completely for a dozen values, and for more if the budget is large; a work limit
 * stops the search. Backward jobs run once in both cases.
 */
#include "fit/budget/algorithms/chain.h"

enum { ROTOR_SLOTS = 500, ROTOR_MOST = 100, ROTOR_WITHIN = 20, ROTOR_COARSER = 8 };
/* limit for the search after the dynamic program, in units of work: less than half a second */
#define ROTOR_SEARCH 8000000u
#define ROTOR_NEVER (UINT64_MAX / 8)

/* A section of the chain, which is processed as a whole: the states from boundary u of the table to
 * the next boundary. */
typedef struct rotor_block {
    /* bytes of the states between the two boundaries, and bytes of the state at the next
     * boundary */
    uint64_t inner, last;
    /* most bytes at any step while all states of the section are made and kept, without the value
     * that one stage hands to the next */
    uint64_t keep;
    uint64_t back; /* most bytes while any job of the section's stages runs */
    uint64_t cost; /* cost of making all states of the section */
} rotor_block;

typedef struct rotor {
    /* if this table divides one section of another table, that table, which covers the whole chain;
     * otherwise NULL */
    const struct rotor *outer;
    tn__pass_run *run;
    const tn__chain *chain;
    uint64_t unit; /* bytes that one slot of the table stands for */
    uint32_t slots, count;
    uint32_t end;  /* number of the state after the last state of the chain */
    bool none;     /* the table shows that no schedule of this pass is within the budget */
    bool rebuilds; /* the table is filled again to write a schedule; its work was counted before */
    uint32_t *at;  /* [count + 1] the state at each boundary */
    /* [beside][pair of boundaries][slots + 1] the least cost of the subproblem; ROTOR_NEVER: it
     * does not fit */
    uint64_t *table;
    rotor_block *blocks; /* [count] */
    tn__schedule *schedule;
} rotor;

static uint64_t rotor_bytes(const rotor *r, uint32_t state) {
    return state == 0 || state > r->chain->count ? 0 : r->chain->bytes[state - 1];
}

static uint64_t rotor_slots(const rotor *r, uint64_t bytes) {
    return bytes / r->unit + (bytes % r->unit != 0);
}

static uint64_t *rotor_row(const rotor *r, uint32_t beside, uint32_t u, uint32_t v) {
    size_t pairs = (size_t)r->count * (r->count + 1) / 2, pair = (size_t)v * (v - 1) / 2 + u;
    return r->table + (beside * pairs + pair) * (r->slots + 1);
}

/* Returns the bytes that are live because of the stages after boundary v: the value that the stage
 * handed on, and with `beside` also the state at v. */
static uint64_t rotor_beside(const rotor *r, uint32_t v, uint32_t beside) {
    if (r->at[v] == r->end) return 0;
    uint64_t handed = r->chain->stages[r->at[v] - 1].bytes_in;
    return handed + (beside ? rotor_bytes(r, r->at[v]) : 0);
}

/* --- boundaries of sections --- */

static void rotor_choose_boundaries(rotor *r, uint32_t first, uint32_t end) {
    const uint32_t length = end - first;
    r->at[0] = first;
    r->at[r->count] = end;
    for (uint32_t i = 1; i < r->count; i++) {
        uint32_t low = first + (uint32_t)((uint64_t)i * length / r->count);
        uint32_t high = first + (uint32_t)((uint64_t)(i + 1) * length / r->count);
        r->at[i] = low;
        for (uint32_t s = low + 1; s < high; s++)
            if (rotor_bytes(r, s) < rotor_bytes(r, r->at[i])) r->at[i] = s;
    }
}

static uint64_t rotor_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Returns the most bytes at any step while the states from first + 1 to last are made and kept;
 * *cost receives the cost of making them. */
static uint64_t rotor_keep(const rotor *r, uint32_t first, uint32_t last, uint64_t *cost) {
    uint64_t bytes = rotor_bytes(r, first), worst = bytes;
    *cost = 0;
    for (uint32_t s = first + 1; s <= last; s++) {
        bytes += rotor_bytes(r, s);
        worst = rotor_max(worst, bytes + r->chain->scratch[s - 1]);
        *cost += r->chain->costs[s - 1];
    }
    return worst;
}

static void rotor_measure_block(rotor *r, uint32_t u) {
    uint32_t first = r->at[u], last = r->at[u + 1];
    rotor_block *it = &r->blocks[u];
    uint64_t bytes = rotor_bytes(r, first);
    for (uint32_t s = first; s < last; s++) {
        const tn__stage *stage = &r->chain->stages[s];
        uint64_t next = stage->reads_next ? rotor_bytes(r, s + 1) : 0;
        if (s > first) bytes += rotor_bytes(r, s);
        if (stage->job_count > 0) it->back = rotor_max(it->back, bytes + next + stage->bytes);
    }
    it->inner = bytes - rotor_bytes(r, first);
    it->last = rotor_bytes(r, last);
    if (last < r->end) it->keep = rotor_keep(r, first, last, &it->cost);
}

/* --- the table of the dynamic program --- */

/* Returns the last state that a section must make itself when its stages run after all later
 * stages. */
static uint32_t rotor_own_last(const rotor *r, uint32_t u, uint32_t beside) {
    uint32_t last = r->at[u + 1];
    bool reads = r->chain->stages[last - 1].reads_next;
    return reads && !beside ? last : last - 1;
}

/* Returns the slots that a section needs if all its states are made and kept. *cost is the cost of
 * making them. */
static uint64_t rotor_whole(const rotor *r, uint32_t u, uint32_t beside, uint64_t *cost) {
    uint64_t bytes = rotor_keep(r, r->at[u], rotor_own_last(r, u, beside), cost);
    return rotor_slots(r, rotor_max(bytes + rotor_beside(r, u + 1, beside), r->blocks[u].back));
}

static void rotor_fill_block(rotor *r, uint32_t u, uint32_t beside) {
    uint64_t *row = rotor_row(r, beside, u, u + 1), cost;
    for (uint64_t m = rotor_whole(r, u, beside, &cost); m <= r->slots; m++)
        row[m] = cost < row[m] ? cost : row[m];
}

static void rotor_try_keep(rotor *r, uint32_t u, uint32_t v, uint32_t beside) {
    const rotor_block *block = &r->blocks[u];
    uint64_t *row = rotor_row(r, beside, u, v), *rest = rotor_row(r, beside, u + 1, v);
    uint64_t kept = rotor_slots(r, rotor_bytes(r, r->at[u]) + block->inner);
    uint64_t need = rotor_max(block->keep + rotor_beside(r, v, beside), block->back);
    for (uint64_t m = rotor_max(rotor_slots(r, need), kept); m <= r->slots; m++)
        if (block->cost + rest[m - kept] < row[m]) row[m] = block->cost + rest[m - kept];
}

/* Tries every boundary w as the state to store next ("sweep"). The bytes and the cost of making the
 * states up to w are continued from one w to the next. */
static void rotor_try_sweeps(rotor *r, uint32_t u, uint32_t v, uint32_t beside) {
    uint64_t *restrict row = rotor_row(r, beside, u, v);
    uint64_t start = rotor_bytes(r, r->at[u]), kept = rotor_slots(r, start), worst = 0, cost = 0;
    uint32_t state = r->at[u];
    for (uint32_t w = u + 1; w < v; w++) {
        for (; state < r->at[w]; state++) {
            uint64_t from = state == r->at[u] ? 0 : rotor_bytes(r, state);
            uint64_t step = from + rotor_bytes(r, state + 1) + r->chain->scratch[state];
            worst = rotor_max(worst, step);
            cost += r->chain->costs[state];
        }
        const uint64_t *restrict behind = rotor_row(r, beside, w, v);
        const uint64_t *restrict before = rotor_row(r, 1, u, w);
        uint64_t need = rotor_slots(r, start + worst + rotor_beside(r, v, beside));
        for (uint64_t m = rotor_max(need, kept); m <= r->slots; m++) {
            uint64_t sum = cost + behind[m - kept] + before[m];
            row[m] = sum < row[m] ? sum : row[m];
        }
    }
}

static void rotor_fill_pair(rotor *r, uint32_t u, uint32_t v, uint32_t beside) {
    uint64_t *row = rotor_row(r, beside, u, v), *none = rotor_row(r, 0, u, v);
    for (uint32_t m = 0; !beside && m <= r->slots; m++) row[m] = ROTOR_NEVER;
    if (beside) memcpy(row, none, (r->slots + 1) * sizeof *row);
    if (v == u + 1) {
        rotor_fill_block(r, u, beside);
        return;
    }
    rotor_try_keep(r, u, v, beside);
    rotor_try_sweeps(r, u, v, beside);
}

static tn_status rotor_fill_within(rotor *r, uint32_t u);

static tn_status rotor_fill(rotor *r) {
    for (uint32_t length = 1; length <= r->count; length++)
        for (uint32_t u = 0; u + length <= r->count; u++) {
            uint64_t looks = (uint64_t)length * r->slots / 16 + 1;
            TN_TRY(tn__pass_work(r->run, r->rebuilds ? 0 : looks));
            rotor_fill_pair(r, u, u + length, 0);
            rotor_fill_pair(r, u, u + length, 1);
            if (length == 1) TN_TRY(rotor_fill_within(r, u));
        }
    return TN_OK;
}

static size_t rotor_room(const rotor *r) {
    return (size_t)r->count * (r->count + 1) * (r->slots + 1);
}

/* Allocates and fills the table for the states from `first` to `end`, divided into at most `most`
 * sections. */
static tn_status rotor_open(rotor *r, uint32_t first, uint32_t end, uint32_t most) {
    const tn_context *context = &r->run->context;
    r->count = end - first < most ? end - first : most;
    r->at = tn__alloc(context, (r->count + 1) * sizeof *r->at);
    r->blocks = tn__alloc(context, r->count * sizeof *r->blocks);
    r->table = tn__alloc(context, rotor_room(r) * sizeof *r->table);
    if (r->at == NULL || r->blocks == NULL || r->table == NULL)
        return tn__no_memory(r->run->error, "the table of a chain");
    memset(r->blocks, 0, r->count * sizeof *r->blocks);
    rotor_choose_boundaries(r, first, end);
    for (uint32_t u = 0; u < r->count; u++) rotor_measure_block(r, u);
    return rotor_fill(r);
}

static void rotor_close(rotor *r) {
    const tn_context *context = &r->run->context;
    tn__free(context, r->at, (r->count + 1) * sizeof *r->at);
    tn__free(context, r->blocks, r->count * sizeof *r->blocks);
    tn__free(context, r->table, rotor_room(r) * sizeof *r->table);
}

/* Returns the number of sections with which the cost of the table stays the same: fewer slots allow
 * more sections. */
static uint32_t rotor_places(uint32_t slots) {
    uint64_t most = ROTOR_MOST, cost = (uint64_t)ROTOR_MOST * ROTOR_MOST * ROTOR_MOST * ROTOR_SLOTS;
    while ((most + 1) * (most + 1) * (most + 1) * ((uint64_t)slots + 1) <= cost) most++;
    return (uint32_t)most;
}

/* Whether a section is divided once more: only a section of the table for the whole chain, with
 * more than one state. */
static bool rotor_divides(const rotor *r, uint32_t u) {
    return r->outer == NULL && r->at[u + 1] - r->at[u] > 1;
}

static tn_status rotor_open_within(rotor *within, rotor *r, uint32_t u, bool rebuilds) {
    *within = (rotor){.run = r->run,
                      .chain = r->chain,
                      .unit = r->unit,
                      .slots = r->slots,
                      .end = r->end,
                      .schedule = r->schedule,
                      .rebuilds = rebuilds,
                      .outer = r};
    return rotor_open(within, r->at[u], r->at[u + 1], ROTOR_WITHIN);
}

static tn_status rotor_fill_within(rotor *r, uint32_t u) {
    rotor within;
    if (!rotor_divides(r, u)) return TN_OK;
    tn_status status = rotor_open_within(&within, r, u, false);
    for (uint32_t beside = 0; beside < 2 && status == TN_OK; beside++) {
        const uint64_t *found = rotor_row(&within, beside, 0, within.count);
        uint64_t *row = rotor_row(r, beside, u, u + 1);
        for (uint32_t m = 0; m <= r->slots; m++)
            if (found[m] < row[m]) row[m] = found[m];
    }
    rotor_close(&within);
    return status;
}

/* --- the schedule --- */

typedef struct rotor_task {
    /* boundaries of the subproblem; v == u: only the stages of section u are left to run */
    uint32_t u, v, beside;
    uint64_t m;
} rotor_task;

static tn_status rotor_make(rotor *r, uint32_t first, uint32_t last) {
    return last <= first ? TN_OK : tn__chain_run(r->schedule, first, last - first, r->run->error);
}

static tn_status rotor_back(rotor *r, uint32_t u) {
    for (uint32_t s = r->at[u + 1]; s-- > r->at[u];) {
        const tn__stage *stage = &r->chain->stages[s];
        TN_TRY(tn__chain_run(r->schedule, stage->job_first, stage->job_count, r->run->error));
    }
    return TN_OK;
}

/* Whether the least cost of a subproblem comes from the choice "keep" (all states up to the next
 * boundary are stored). *kept receives the slots of the kept states. */
static bool rotor_keeps(const rotor *r, rotor_task t, uint64_t *kept) {
    const rotor_block *block = &r->blocks[t.u];
    uint64_t need = rotor_max(block->keep + rotor_beside(r, t.v, t.beside), block->back);
    *kept = rotor_slots(r, rotor_bytes(r, r->at[t.u]) + block->inner);
    if (t.m < rotor_slots(r, need) || t.m < *kept) return false;
    return block->cost + rotor_row(r, t.beside, t.u + 1, t.v)[t.m - *kept] ==
           rotor_row(r, t.beside, t.u, t.v)[t.m];
}

static uint32_t rotor_split(const rotor *r, rotor_task t) {
    uint64_t start = rotor_bytes(r, r->at[t.u]), kept = rotor_slots(r, start), worst = 0, cost = 0;
    uint32_t state = r->at[t.u], w = t.u + 1;
    for (; w < t.v; w++) {
        for (; state < r->at[w]; state++) {
            uint64_t from = state == r->at[t.u] ? 0 : rotor_bytes(r, state);
            worst = rotor_max(worst, from + rotor_bytes(r, state + 1) + r->chain->scratch[state]);
            cost += r->chain->costs[state];
        }
        uint64_t need = rotor_slots(r, start + worst + rotor_beside(r, t.v, t.beside));
        if (t.m < need || t.m < kept) continue;
        if (cost + rotor_row(r, t.beside, w, t.v)[t.m - kept] + rotor_row(r, 1, t.u, w)[t.m] ==
            rotor_row(r, t.beside, t.u, t.v)[t.m])
            break;
    }
    return w;
}

static tn_status rotor_rebuild(rotor *r, uint32_t beside, uint64_t slots);

/* Writes the part of the schedule for one section: as a whole if that has the least cost, otherwise
 * divided once more. */
static tn_status rotor_rebuild_block(rotor *r, rotor_task t) {
    uint64_t cost;
    bool fits = rotor_whole(r, t.u, t.beside, &cost) <= t.m;
    if (!rotor_divides(r, t.u) || (fits && cost == rotor_row(r, t.beside, t.u, t.v)[t.m])) {
        TN_TRY(rotor_make(r, r->at[t.u], rotor_own_last(r, t.u, t.beside)));
        return rotor_back(r, t.u);
    }
    rotor within;
    tn_status status = rotor_open_within(&within, r, t.u, true);
    if (status == TN_OK) status = rotor_rebuild(&within, t.beside, t.m);
    rotor_close(&within);
    return status;
}

/* Writes the schedule from the table with a list of tasks. Each task is replaced by at most two
 * smaller ones, so the list needs few entries per boundary. */
static tn_status rotor_rebuild_all(rotor *r, rotor_task *tasks) {
    uint32_t count = 1;
    uint64_t kept = 0;
    while (count > 0) {
        rotor_task t = tasks[--count];
        if (t.u == t.v) {
            TN_TRY(rotor_back(r, t.u));
            continue;
        }
        if (t.beside && rotor_row(r, 0, t.u, t.v)[t.m] == rotor_row(r, 1, t.u, t.v)[t.m])
            t.beside = 0;
        if (t.v == t.u + 1) {
            TN_TRY(rotor_rebuild_block(r, t));
        } else if (rotor_keeps(r, t, &kept)) {
            TN_TRY(rotor_make(r, r->at[t.u], r->at[t.u + 1]));
            tasks[count++] = (rotor_task){t.u, t.u, 0, 0};
            tasks[count++] = (rotor_task){t.u + 1, t.v, t.beside, t.m - kept};
        } else {
            uint32_t w = rotor_split(r, t);
            kept = rotor_slots(r, rotor_bytes(r, r->at[t.u]));
            TN_TRY(rotor_make(r, r->at[t.u], r->at[w]));
            tasks[count++] = (rotor_task){t.u, w, 1, t.m};
            tasks[count++] = (rotor_task){w, t.v, t.beside, t.m - kept};
        }
    }
    return TN_OK;
}

static tn_status rotor_rebuild(rotor *r, uint32_t beside, uint64_t slots) {
    const size_t room = (2 * (size_t)r->count + 4) * sizeof(rotor_task);
    rotor_task *tasks = tn__alloc(&r->run->context, room);
    if (tasks == NULL) return tn__no_memory(r->run->error, "a schedule");
    tasks[0] = (rotor_task){0, r->count, beside, slots};
    tn_status status = rotor_rebuild_all(r, tasks);
    tn__free(&r->run->context, tasks, room);
    return status;
}

static tn_status rotor_solve_in(rotor *r, uint64_t bytes, uint32_t most) {
    uint32_t end = r->chain->count + 1;
    bool kept = false;
    while (end > 1 && r->chain->stages[end - 1].job_count == 0) end--;
    r->unit = bytes / most + (bytes % most != 0);
    if (r->unit == 0) r->unit = 1;
    r->slots = (uint32_t)(bytes / r->unit);
    r->end = end;
    r->schedule->count = 0;
    tn_status status = rotor_open(r, 0, end, rotor_places(r->slots));
    r->none = status == TN_OK && rotor_row(r, 0, 0, r->count)[r->slots] >= ROTOR_NEVER;
    if (r->none) status = TN_E_STOPPED;
    if (status == TN_OK) status = rotor_rebuild(r, 0, r->slots);
    if (status == TN_OK) status = tn__pass_offer(r->run, r->schedule, &kept);
    rotor_close(r);
    return status;
}

/* Fills the table and offers its schedule. If nothing fits, the chain may have more states than
 * sections; then fewer slots, with more sections, are tried. */
static tn_status rotor_solve_slots(rotor *r) {
    const uint64_t bytes = r->run->budget - r->chain->base;
    tn_status status = rotor_solve_in(r, bytes, ROTOR_SLOTS);
    bool few = r->slots < ROTOR_SLOTS / ROTOR_COARSER || r->chain->count <= ROTOR_MOST;
    if (!r->none || few) return status;
    return rotor_solve_in(r, bytes, ROTOR_SLOTS / ROTOR_COARSER);
}

/* Searches a short chain for schedules that evict stored states and recompute them. */
static tn_status rotor_search(rotor *r) {
    tn__pass_run *run = r->run;
    uint64_t ceiling = 0;
    bool kept;
    for (uint32_t i = 0; i < r->chain->count; i++) ceiling += r->chain->costs[i];
    ceiling = run->has_best ? ceiling + run->found.cost - run->dag->cost : UINT64_MAX / 4;
    r->schedule->count = 0;
    TN_TRY(tn__chain_search(run, r->chain, ceiling, ROTOR_SEARCH, r->schedule));
    return tn__pass_offer(run, r->schedule, &kept);
}

static tn_status rotor_solve_both(rotor *r) {
    tn_status status = rotor_solve_slots(r);
    if (status == TN_OK || status == TN_E_STOPPED) status = rotor_search(r);
    if (status != TN_E_INFEASIBLE && status != TN_E_STOPPED) return status;
    /* the search found nothing cheaper, or its work limit stopped it */
    if (r->run->has_best) return TN_OK;
    return TN_E_STOPPED;
}

static tn_status rotor_solve(tn__pass_run *run) {
    tn__schedule schedule;
    tn__chain chain;
    TN_TRY(tn__chain_of(run->dag, run->arena, &chain, run->error));
    if (!(run->allow & TN__ALLOW_RECOMPUTE)) return TN_E_STOPPED;
    if (chain.base > run->budget) return TN_E_STOPPED;
    rotor *r = tn__arena_alloc(run->arena, sizeof *r);
    if (r == NULL) return tn__no_memory(run->error, "a chain");
    *r = (rotor){.run = run, .chain = &chain, .schedule = &schedule};
    tn__schedule_init(&schedule, &run->context);
    tn_status status = rotor_solve_both(r);
    tn__schedule_release(&schedule);
    return status;
}

const tn_pass tn__pass_rotor = {
    .name = "rotor",
    .summary = "chains with any costs and sizes: dynamic programming, and search for short ones",
    .source = "Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova 2019 (rotor), one case more; A* "
              "(Hart, Nilsson, Raphael 1968)",
    .features = TN__PASS_RECOMPUTES | TN__PASS_BUDGETS | TN__PASS_CHAIN,
    .solve = rotor_solve,
};
