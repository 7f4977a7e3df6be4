/* recompute.c - tn_budget_recompute: which tensors to compute again instead of keeping them.
 *
 *   recompute_read.c    when each tensor is needed, what its operator costs
 *   recompute_choose.c  what to give up, cheapest first at the worst step
 *   recompute_emit.c    the graph with these operators twice
 *
 *     conv -> x -> BatchNorm -> b -> Relu -> y     kept: x, which the gradient of BatchNorm reads
 *                                                  again: b', y' from x, right before their reader
 *
 * A sweep gives up one body after the other while the work allowed lasts, and tells after how many
 * its peak was lowest; a second one stops there. That is done with and without a preference for
 * what is idle for long. Sweeps only estimate, so what they choose is built and measured as an
 * occupancy; the lowest peak wins, the graph as it was among the candidates: the peak never rises.
 * What was made again may be idle in its turn (the input of a normalisation, between that and its
 * gradient), so the whole is done anew on the result, with the work that is left, while that helps.
 * Cost: a round is four sweeps at most, and two inferences and occupancies. Source: Chen et al.
 * 2016, "Training deep nets with sublinear memory cost", section 4; Rota Bulo, Porzi, Kontschieder
 * 2018 (in-place activated batch normalisation, checkpoint variant).
 */
#include "budget/recompute.h"

#include <math.h>

#define RECOMPUTE_ROUNDS 3 /* each infers the graph anew: a bound on the time where gains go on */

typedef struct recompute_best {
    tn__recompute_made made;
    uint64_t peak; /* measured */
    uint64_t work;
} recompute_best;

static tn_status recompute_peak(const tn__recompute *it, const tn__recompute_made *made,
                                uint64_t *peak) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program_options file = TN_PROGRAM_OPTIONS_INIT;
    tn_program *program;
    tn_occupancy *occupancy;
    const tn_occupancy_options *given = it->options.memory;
    tn__options(&memory, sizeof memory, given);
    memory.workspaces = made->workspaces;
    TN_TRY(tn_program_create(made->graph, &file, &program, it->error));
    tn_status status = tn_occupancy_create(program, &memory, &occupancy, it->error);
    if (status == TN_OK) {
        *peak = tn_occupancy_summary(occupancy).peak_live;
        tn_occupancy_destroy(occupancy);
    }
    tn_program_destroy(program);
    return status;
}

/* Builds a choice and measures it; keeps it when it is the best. */
static tn_status recompute_judge(tn__recompute *it, const tn__recompute_choice *choice,
                                 recompute_best *best) {
    tn__recompute_made made;
    uint64_t peak = UINT64_MAX;
    TN_TRY(tn__recompute_emit(it, choice, &made));
    tn_status status = recompute_peak(it, &made, &peak);
    if (status != TN_OK || peak >= best->peak) {
        tn_graph_destroy(made.graph);
        return status;
    }
    tn_graph_destroy(best->made.graph);
    *best = (recompute_best){made, peak, choice->work};
    return TN_OK;
}

/* The state with the lowest peak on the way of choices. */
static tn_status recompute_search(tn__recompute *it, bool reach, uint64_t budget,
                                  tn__recompute_choice *choice, recompute_best *best) {
    TN_TRY(tn__recompute_choose(it, budget, reach, UINT32_MAX, choice));
    if (choice->best == 0) return TN_OK;
    if (choice->best < choice->count)
        TN_TRY(tn__recompute_choose(it, budget, reach, choice->best, choice));
    return recompute_judge(it, choice, best);
}

/* One round: what to run again in the best graph so far. */
static tn_status recompute_round(tn__recompute *it, uint64_t budget, recompute_best *best) {
    recompute_best better = {.peak = best->peak};
    tn__recompute_choice choice = {0};
    tn_status status = tn__recompute_choice_room(it, &choice);
    for (int reach = 0; reach < 2 && status == TN_OK; reach++)
        status = recompute_search(it, reach, budget, &choice, &better);
    if (better.made.graph == NULL) return status;
    better.work += best->work;
    better.made.operators += best->made.operators;
    better.made.flops = tn__add_sat(better.made.flops, best->made.flops);
    tn_graph_destroy(best->made.graph);
    *best = better;
    return status;
}

static tn_status recompute_run(tn__recompute *it, recompute_best *best,
                               tn_recompute_report *report) {
    tn__recompute_choice nothing = {0};
    TN_TRY(tn__recompute_read(it));
    TN_TRY(tn__recompute_choice_room(it, &nothing));
    best->peak = UINT64_MAX;
    TN_TRY(recompute_judge(it, &nothing, best)); /* a copy */
    report->before = best->peak;
    double total = (double)it->total, most = it->options.share * total;
    uint64_t budget = most < 1e18 ? (uint64_t)most : (uint64_t)1e18;
    for (int round = 0; round < RECOMPUTE_ROUNDS && best->work < budget; round++) {
        uint64_t before = best->peak;
        it->graph = best->made.graph;
        it->workspaces = best->made.workspaces;
        TN_TRY(tn__recompute_read(it));
        TN_TRY(recompute_round(it, budget - best->work, best));
        if (best->peak == before) break;
    }
    report->after = best->peak;
    report->operators = best->made.operators;
    report->flops = best->made.flops;
    report->share = total > 0 ? (double)best->work / total : 0;
    return TN_OK;
}

static tn_status recompute_options(tn__recompute *it, const tn_recompute_options *options) {
    it->options = (tn_recompute_options)TN_RECOMPUTE_OPTIONS_INIT;
    tn__options(&it->options, sizeof it->options, options);
    if (!(it->options.share >= 0 && isfinite(it->options.share)))
        TN_FAIL(it->error, TN_E_INVALID, "the share of work that is added must be 0 or more");
    if (it->options.flops_per_byte == 0) it->options.flops_per_byte = 8;
    return TN_OK;
}

tn_status tn_budget_recompute(const tn_graph *graph, const tn_recompute_options *options,
                              tn_graph **recomputed, tn_recompute_report *report, tn_error *error) {
    tn__recompute it = {.graph = graph, .error = error};
    tn_recompute_report told = {0};
    recompute_best best = {0};
    TN_TRY(recompute_options(&it, options));
    if (it.options.memory != NULL) it.workspaces = it.options.memory->workspaces;
    tn_context context = tn__context(it.options.context);
    tn__arena_init(&it.arena, &context);
    tn_status status = recompute_run(&it, &best, &told);
    tn__arena_release(&it.arena);
    if (status != TN_OK) {
        tn_graph_destroy(best.made.graph);
        return status;
    }
    *recomputed = best.made.graph;
    if (report != NULL) *report = told;
    return TN_OK;
}
