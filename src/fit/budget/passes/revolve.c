/* revolve.c - binomial checkpointing: the fewest forward steps for a chain of equal states, of
 * which a given number can be stored.
 *
 * A chain of l states is visited backwards. The first state is live, and c states (slots) are
 * stored at one time. If the binomial coefficient C(c + r, c) is at least l, no state needs to be
 * made more than r times. The next state to store, at the distance j, is chosen so that both parts
 * of the chain satisfy this condition: the part after it with r and c - 1, the part before it with
 * r - 1 and c.
 *
 *     |-------- j --------|-- l - j --|
 *     stored              stored      the right part is visited first, then the left part
 *
 * Costs and bytes matter only through c, which is the largest number of slots within the budget.
 * The schedule is optimal for chains of equal costs and sizes. Cost: O(runs * log n) for n states.
 */
#include "fit/budget/algorithms/chain.h"

/* Returns the binomial coefficient C(c + r, c), or `most` if it is larger. It is the length of the
 * longest chain that c slots and r runs of each state suffice for. */
static uint64_t revolve_reach(uint64_t c, uint64_t r, uint64_t most) {
    __extension__ typedef unsigned __int128 wide;
    wide reach = 1;
    for (uint64_t i = 1; i <= (c < r ? c : r); i++) {
        reach = reach * ((c < r ? r : c) + i) / i;
        if (reach >= most) return most;
    }
    return (uint64_t)reach;
}

uint64_t tn__revolve_split(uint64_t length, uint64_t slots) {
    uint64_t c = slots, r = 0;
    while (revolve_reach(c, r, length) < length) r++;
    uint64_t before = revolve_reach(c, r - 1, length), behind = revolve_reach(c - 1, r - 1, length);
    return before < length - behind ? before : length - behind;
}

typedef struct revolve_part {
    uint64_t first, length, slots;
} revolve_part;

/* Returns the forward steps for a part of the chain of which only one state is stored: every state
 * is made again from the first one. */
static uint64_t revolve_steps_of(revolve_part part) { return part.length * (part.length - 1) / 2; }

uint64_t tn__revolve_steps(const tn_context *context, uint64_t length, uint64_t slots) {
    revolve_part *parts = NULL;
    size_t room = 0, count = 0;
    uint64_t steps = 0;
    if (!tn__reserve(context, &parts, &room, 1, sizeof *parts)) return UINT64_MAX;
    parts[count++] = (revolve_part){0, length, slots};
    while (count > 0) {
        revolve_part part = parts[--count];
        if (part.length < 2 || part.slots < 2) {
            steps += part.length < 2 ? 0 : revolve_steps_of(part);
            continue;
        }
        uint64_t split = tn__revolve_split(part.length, part.slots);
        steps += split;
        if (!tn__reserve(context, &parts, &room, count + 2, sizeof *parts)) {
            steps = UINT64_MAX;
            break;
        }
        parts[count++] = (revolve_part){part.first, split, part.slots};
        parts[count++] = (revolve_part){part.first + split, part.length - split, part.slots - 1};
    }
    tn__free(context, parts, room * sizeof *parts);
    return steps;
}

/* --- translation to jobs: state s is f(s - 1), state 0 is the initial state --- */

typedef struct revolve_make {
    tn__pass_run *run;
    const tn__chain *chain;
    tn__schedule *schedule;
    revolve_part *parts;
    size_t room, count;
} revolve_make;

/* Runs the backward stage of a live state. If the stage also reads the next state, that state is
 * made first. */
static tn_status revolve_back(revolve_make *m, uint64_t state) {
    const tn__stage *stage = &m->chain->stages[state];
    if (stage->reads_next) TN_TRY(tn__chain_run(m->schedule, (uint32_t)state, 1, m->run->error));
    return tn__chain_run(m->schedule, stage->job_first, stage->job_count, m->run->error);
}

static tn_status revolve_part_back(revolve_make *m, revolve_part part) {
    for (uint64_t s = part.length; s-- > 0;) {
        TN_TRY(tn__pass_work(m->run, s + 1));
        TN_TRY(tn__chain_run(m->schedule, (uint32_t)part.first, (uint32_t)s, m->run->error));
        TN_TRY(revolve_back(m, part.first + s));
    }
    return TN_OK;
}

static tn_status revolve_next(revolve_make *m) {
    revolve_part part = m->parts[--m->count];
    if (part.length < 2 || part.slots < 2) return revolve_part_back(m, part);
    uint64_t split = tn__revolve_split(part.length, part.slots);
    TN_TRY(tn__pass_work(m->run, split));
    TN_TRY(tn__chain_run(m->schedule, (uint32_t)part.first, (uint32_t)split, m->run->error));
    if (!tn__reserve(&m->run->context, &m->parts, &m->room, m->count + 2, sizeof *m->parts))
        return tn__no_memory(m->run->error, "a schedule");
    m->parts[m->count++] = (revolve_part){part.first, split, part.slots};
    m->parts[m->count++] = (revolve_part){part.first + split, part.length - split, part.slots - 1};
    return TN_OK;
}

/* Returns the number of states that must be made: states above the highest stage with jobs are not
 * read. */
static uint64_t revolve_states(const tn__chain *chain) {
    uint64_t states = (uint64_t)chain->count + 1;
    while (states > 1 && chain->stages[states - 1].job_count == 0) states--;
    return states;
}

static tn_status revolve_offer(tn__pass_run *run, const tn__chain *chain, uint64_t slots,
                               bool *fits) {
    tn__schedule schedule;
    tn__replay replay = {0};
    bool kept;
    tn__schedule_init(&schedule, &run->context);
    revolve_make make = {.run = run, .chain = chain, .schedule = &schedule};
    tn_status status = TN_OK;
    if (!tn__reserve(&run->context, &make.parts, &make.room, 1, sizeof *make.parts))
        status = tn__no_memory(run->error, "a schedule");
    else
        make.parts[make.count++] = (revolve_part){0, revolve_states(chain), slots};
    while (status == TN_OK && make.count > 0) status = revolve_next(&make);
    if (status == TN_OK)
        status = tn__replay_schedule(run->dag, &schedule, &replay, NULL, run->error);
    *fits = status == TN_OK && replay.peak <= run->budget;
    if (*fits) status = tn__pass_offer(run, &schedule, &kept);
    tn__free(&run->context, make.parts, make.room * sizeof *make.parts);
    tn__schedule_release(&schedule);
    return status;
}

static tn_status revolve_solve(tn__pass_run *run) {
    tn__chain chain;
    TN_TRY(tn__chain_of(run->dag, run->arena, &chain, run->error));
    if (!(run->allow & TN__ALLOW_RECOMPUTE)) return TN_E_STOPPED;
    /* bisection over the number of slots (stored states): `low` slots are within the budget, `high`
     * slots are not */
    uint64_t low = 0, high = revolve_states(&chain) + 1;
    while (high - low > 1) {
        uint64_t slots = low + (high - low) / 2;
        bool fits = false;
        TN_TRY(revolve_offer(run, &chain, slots, &fits));
        *(fits ? &low : &high) = slots;
    }
    if (low > 0) return TN_OK;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_revolve = {
    .name = "revolve",
    .summary = "chains: binomial checkpointing; optimal for equal costs and sizes",
    .source = "Griewank, Walther 2000 (revolve)",
    .features = TN__PASS_RECOMPUTES | TN__PASS_BUDGETS | TN__PASS_CHAIN,
    .solve = revolve_solve,
};
