/* choose.c - chooses the order of operators: plans several candidates and keeps the best.
 *
 * An order only minimises the live bytes that it has counted itself, but the arena is the real
 * cost. So every order is compared with the file's order on the whole program, including control
 * flow, in-place and views. tn_program_create compares peaks of live bytes; tn_program_plan
 * compares planned arenas. The file's order wins ties.
 *
 * Cost: that of the candidates; a candidate is not planned if its lower bound reaches the best
 * arena.
 */
#include "program/program.h"

/* limit of the states that the complete search for one order may visit */
#define CHOOSE_STATES 100000u

typedef struct choose_candidate {
    tn_program *program;
    tn_occupancy *occupancy;
    uint64_t peak; /* peak of live bytes: no arena of this order is smaller */
} choose_candidate;

typedef struct choose_work {
    tn_order_task task;
    const char *name;
    const tn_context *context;
    choose_candidate *candidates; /* [tn_order_count()], the candidates */
    uint32_t count;
    uint32_t *rank;
    uint64_t *inner;
    tn_error *error;
} choose_work;

static void choose_drop(choose_candidate *candidate) {
    tn_occupancy_destroy(candidate->occupancy);
    tn_program_destroy(candidate->program);
    *candidate = (choose_candidate){0};
}

static bool choose_is_same(const tn_program *a, const tn_program *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->instructions[i].op != b->instructions[i].op) return false;
    return true;
}

/* Adds a candidate: the program of one order of the operators. If it equals the program of the
 * file's order, the proof of this order also holds for that one. */
static tn_status choose_add(choose_work *choose, const tn_order *order) {
    choose_candidate made = {0};
    TN_TRY(tn__program_lower(order, &choose->task, &made.program, choose->error));
    if (choose->count > 0 && choose_is_same(choose->candidates[0].program, made.program)) {
        tn_program_order *known = &choose->candidates[0].program->order;
        if (known->peak == 0) *known = made.program->order;
        known->name = "file";
        choose_drop(&made);
        return TN_OK;
    }
    choose->candidates[choose->count++] = made;
    return TN_OK;
}

/* Adds the file's order and the orders that the option's name selects. */
static tn_status choose_gather(choose_work *choose) {
    const tn_order *file = tn__order_find("file"), *order = tn__order_find(choose->name);
    bool all = strcmp(choose->name, "auto") == 0;
    if (order == NULL && !all) {
        char asked[TN__NEAR_TEXT];
        TN_FAIL(choose->error, TN_E_UNKNOWN, "no order is called '%.60s'; %s", choose->name,
                tn__near_of(choose->name, tn_order_count(), tn_order_name,
                            "see `tn_order_name`, or auto, the best of them", asked));
    }
    TN_TRY(choose_add(choose, file));
    if (!all && order == file) return TN_OK;
    TN_TRY(tn__order_inner(&choose->task, &choose->inner, choose->error));
    choose->task.inner = choose->inner;
    if (!all) return choose_add(choose, order);
    for (uint32_t i = 0; i < tn_order_count(); i++) {
        order = tn__order_find(tn_order_name(i));
        if (order != file) TN_TRY(choose_add(choose, order));
    }
    return TN_OK;
}

static tn_status choose_occupy(choose_work *choose, const tn_occupancy_options *options) {
    for (uint32_t i = 0; i < choose->count; i++) {
        choose_candidate *candidate = &choose->candidates[i];
        TN_TRY(
            tn_occupancy_create(candidate->program, options, &candidate->occupancy, choose->error));
        candidate->peak = tn_occupancy_summary(candidate->occupancy).peak_live;
    }
    return TN_OK;
}

/* Computes the rank of every operator: its place in the sequence that the caller gave. */
static tn_status choose_rank(choose_work *choose, const tn_op_id *sequence, uint32_t count) {
    const tn_graph *graph = choose->task.graph;
    uint32_t ops = tn_graph_op_count(graph);
    choose->rank = tn__alloc_array(choose->context, ops, sizeof *choose->rank);
    if (choose->rank == NULL) return tn__no_memory(choose->error, "the order of operators");
    for (uint32_t i = 0; i < ops; i++) choose->rank[i] = TN_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (sequence[i] >= ops)
            TN_FAIL(choose->error, TN_E_INVALID, "the order names operator #%u; there are %u",
                    sequence[i], ops);
        if (choose->rank[sequence[i]] != TN_NONE)
            TN_FAIL(choose->error, TN_E_INVALID, "the order names operator #%u twice", sequence[i]);
        choose->rank[sequence[i]] = i;
    }
    choose->task.rank = choose->rank;
    return TN_OK;
}

/* --- begin and end of both calls --- */

static tn_status choose_begin(choose_work *choose, const tn_graph *graph,
                              const tn_program_options *given, const tn_occupancy_options *memory,
                              bool whole, tn_error *error) {
    tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
    *choose = (choose_work){.context = tn_graph_context(graph), .error = error};
    choose->task.whole = whole;
    tn__options(&options, sizeof options, given);
    if (memory == NULL) memory = options.memory;
    TN_TRY(tn__occupancy_options(memory, &choose->task.memory, error));
    choose->task.graph = graph;
    choose->task.state_limit = CHOOSE_STATES;
    choose->name = options.order != NULL ? options.order : "file";
    choose->candidates =
        tn__alloc_array(choose->context, tn_order_count(), sizeof *choose->candidates);
    if (choose->candidates == NULL) return tn__no_memory(error, "the order of operators");
    if (options.sequence == NULL) return choose_gather(choose);
    TN_TRY(choose_rank(choose, options.sequence, options.sequence_count));
    return choose_add(choose, &tn__order_sequence);
}

static void choose_end(choose_work *choose) {
    size_t ops = tn_graph_op_count(choose->task.graph);
    for (uint32_t i = 0; i < choose->count; i++) choose_drop(&choose->candidates[i]);
    tn__free(choose->context, choose->candidates, tn_order_count() * sizeof *choose->candidates);
    if (choose->rank != NULL) tn__free(choose->context, choose->rank, ops * sizeof *choose->rank);
    if (choose->inner != NULL)
        tn__free(choose->context, choose->inner, ops * sizeof *choose->inner);
}

/* Returns the candidate with the lowest peak of those not taken yet; the file's order wins ties.
 * NULL: all are taken. */
static choose_candidate *choose_least(choose_work *choose) {
    choose_candidate *best = NULL;
    for (uint32_t i = 0; i < choose->count; i++) {
        choose_candidate *candidate = &choose->candidates[i];
        if (candidate->program == NULL) continue;
        if (best == NULL || candidate->peak < best->peak) best = candidate;
    }
    return best;
}

tn_status tn_program_create(const tn_graph *graph, const tn_program_options *options,
                            tn_program **program, tn_error *error) {
    choose_work choose;
    tn_status status = choose_begin(&choose, graph, options, NULL, false, error);
    if (status == TN_OK && choose.count > 1) {
        tn_occupancy_options memory = choose.task.memory;
        if (memory.inplace == TN_INPLACE_CLAIMED) memory.inplace = TN_INPLACE_CHOOSE;
        status = choose_occupy(&choose, &memory);
    }
    if (status == TN_OK) {
        choose_candidate *best = choose_least(&choose);
        *program = best->program;
        best->program = NULL;
    }
    choose_end(&choose);
    return status;
}

tn_status tn__program_ordered(const tn_graph *graph, const tn_program_options *options,
                              tn_program **program, tn_error *error) {
    choose_work choose;
    tn_status status = choose_begin(&choose, graph, options, NULL, true, error);
    if (status == TN_OK) {
        choose_candidate *named = &choose.candidates[choose.count - 1];
        *program = named->program;
        named->program = NULL;
    }
    choose_end(&choose);
    return status;
}

/* Compares two layouts by traffic time, if the planner chooses a memory bank for each buffer: first
 * the bytes in banks of unknown speed, then the seconds in the other banks. */
static bool choose_is_faster(const tn_problem *problem, const tn_layout *a, const tn_layout *b) {
    uint64_t unknown[2] = {0, 0};
    double seconds[2] = {0, 0};
    const tn_layout *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        for (tn_bank_id bank = 0; bank < both[i]->bank_count; bank++) {
            double speed = tn_problem_bank(problem, bank)->bytes_per_s;
            if (speed > 0)
                seconds[i] += (double)both[i]->bank_traffic[bank] / speed;
            else if (bank > 0)
                unknown[i] = tn__add_sat(unknown[i], both[i]->bank_traffic[bank]);
        }
    }
    if (unknown[0] != unknown[1]) return unknown[0] < unknown[1];
    if (seconds[0] < seconds[1] || seconds[0] > seconds[1]) return seconds[0] < seconds[1];
    return a->peak < b->peak;
}

/* Plans the candidates in order of their peak until no further candidate can be better than the
 * best. */
static tn_status choose_plan(choose_work *choose, const tn_plan_options *options,
                             choose_candidate *best, tn_layout *layout) {
    tn_status first = TN_OK;
    tn_error why = {0};
    for (choose_candidate *next; (next = choose_least(choose)) != NULL;) {
        tn_layout found;
        tn_error said = {0};
        choose_candidate candidate = *next;
        *next = (choose_candidate){0};
        bool choice = choose->task.memory.bank_count > 1;
        bool pays = best->program == NULL || choice || candidate.peak < layout->peak;
        tn_status status =
            pays ? tn_plan(tn_occupancy_problem(candidate.occupancy), options, &found, &said)
                 : TN_OK;
        bool better = pays && status == TN_OK;
        if (better && best->program != NULL)
            better = choice
                         ? choose_is_faster(tn_occupancy_problem(best->occupancy), &found, layout)
                         : found.peak < layout->peak;
        if (better) {
            if (best->program != NULL) tn_layout_release(layout);
            choose_drop(best);
            *best = candidate;
            *layout = found;
        } else {
            if (pays && status == TN_OK) tn_layout_release(&found);
            choose_drop(&candidate);
        }
        if (status == TN_OK || first != TN_OK) continue;
        first = status;
        why = said;
        if (status != TN_E_INFEASIBLE && status != TN_E_STOPPED)
            return tn__fail_as(choose->error, status, &said);
    }
    return best->program != NULL ? TN_OK : tn__fail_as(choose->error, first, &why);
}

/* Plans the best candidate again if the options ask for another objective than bytes, by which
 * candidates are compared. */
static tn_status choose_replan(tn_occupancy *occupancy, const tn_plan_options *options,
                               tn_layout *layout, tn_error *error) {
    tn_layout made;
    if (options == NULL || options->objective == TN_OBJECTIVE_BYTES) return TN_OK;
    TN_TRY(tn__occupancy_prepare(occupancy, options->objective, error));
    TN_TRY(tn_plan(tn_occupancy_problem(occupancy), options, &made, error));
    tn_layout_release(layout);
    *layout = made;
    return TN_OK;
}

tn_status tn_program_plan(const tn_graph *graph, const tn_program_options *options,
                          const tn_occupancy_options *occupancy_options,
                          const tn_plan_options *plan_options, tn_program **program,
                          tn_occupancy **occupancy, tn_layout *layout, tn_error *error) {
    choose_work choose;
    choose_candidate best = {0};
    tn_layout found = {0};
    tn_plan_options asked = TN_PLAN_OPTIONS_INIT, bytes;
    tn__options(&asked, sizeof asked, plan_options);
    asked.struct_size = sizeof asked;
    bytes = asked;
    bytes.objective = TN_OBJECTIVE_BYTES;
    tn_status status = choose_begin(&choose, graph, options, occupancy_options, false, error);
    if (status == TN_OK) status = choose_occupy(&choose, &choose.task.memory);
    if (status == TN_OK) status = choose_plan(&choose, &bytes, &best, &found);
    if (status == TN_OK) status = choose_replan(best.occupancy, &asked, &found, error);
    if (status == TN_OK)
        status = tn_plan_loosen(best.occupancy, &choose.task.memory, &asked, &found, error);
    choose_end(&choose);
    if (status != TN_OK) {
        if (best.program != NULL) tn_layout_release(&found);
        choose_drop(&best);
        return status;
    }
    *program = best.program;
    *occupancy = best.occupancy;
    *layout = found;
    return TN_OK;
}
