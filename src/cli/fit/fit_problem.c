/* fit_problem.c - fits a problem, which is a list of operators with costs, without a model. This is
 * the only file of the command that may call tn_fit directly, because a problem has no graph for
 * tn_fit_graph (tools/check-layers). */
#include "base/base.h"
#include "cli/fit/fit.h"

/* Returns the bytes of the static tensors. They are in memory all the time and are not planned. */
static uint64_t fit_held_bytes(const tn_graph *graph) {
    uint64_t bytes = 0;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (tn_tensor_is_static(tensor)) bytes = tn__add_sat(bytes, tensor->bytes);
    }
    return bytes;
}

tn_status cli_fit_open_problem(cli_fit *fit, tn_error *error) {
    TN_TRY(tn_fit_problem_load(fit->problem_path, fit->input.import.context, &fit->nodes,
                               &fit->costs, error));
    TN_TRY(tn_program_create(fit->nodes, NULL, &fit->own, error));
    fit->memory = (tn_occupancy_options)TN_OCCUPANCY_OPTIONS_INIT;
    fit->memory.alignment = 1;
    fit->options.live = true;
    fit->options.fixed_bytes = fit_held_bytes(fit->nodes);
    return TN_OK;
}

/* Returns the index of the fastest point of the curve within the budget, or result_count if there
 * is none. */
static uint32_t fit_point(const cli_fit *fit, uint64_t budget) {
    uint32_t best = fit->result_count;
    for (uint32_t i = 0; i < fit->sweep; i++)
        if (fit->results[i].bytes <= budget &&
            (best == fit->result_count || fit->results[i].time < fit->results[best].time))
            best = i;
    return best;
}

/* Computes the curve if it was requested, then the answer for the budget if there is one. If a
 * limit ends the search for the answer, the best point of the curve is chosen instead. */
tn_status cli_fit_solve_problem(cli_fit *fit, const tn_fit_options *search, tn_error *error) {
    tn_fit_options all = *search, *options = &all;
    options->live = fit->options.live;
    options->fixed_bytes = fit->options.fixed_bytes;
    options->memory = &fit->memory;
    options->plan = &fit->choices.plan;
    options->rules = &fit->input.rules;
    fit->result_count = fit->sweep + (fit->sweep == 0 || options->budget > 0);
    if (fit->sweep > 0)
        TN_TRY(tn_fit_sweep(fit->own, fit->costs, options, fit->sweep, fit->budgets, fit->results,
                            error));
    if (fit->sweep > 0 && options->budget == 0) return TN_OK;
    fit->chosen = fit->sweep;
    fit->budgets[fit->chosen] = options->budget;
    tn_status status = tn_fit(fit->own, fit->costs, options, &fit->results[fit->chosen], error);
    if (status != TN_E_STOPPED || fit->sweep == 0) return status;
    tn_fit_release(&fit->results[fit->chosen]);
    fit->result_count = fit->sweep;
    uint32_t point = fit_point(fit, options->budget);
    fit->chosen = point < fit->sweep ? point : 0;
    return point < fit->sweep ? TN_OK : status;
}
