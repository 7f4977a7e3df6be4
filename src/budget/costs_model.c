/* costs_model.c - costs of a device that is known by two rates.
 *
 * A roofline: arithmetic and traffic overlap, so that the longer of the two is what an operator
 * takes. It knows neither of caches nor of what a kernel reaches of the rates: right for comparing
 * plans of a device that is not at hand, not for telling seconds.
 * Cost: O(operators + operands).
 * Source: Williams, Waterman, Patterson, "Roofline" (2009).
 */
#include "budget/costs.h"

#include "graph/repeats.h"

#include <math.h>

typedef struct model_rates {
    double flops_per_s, bytes_per_s;
} model_rates;

static tn_status model_fail(const tn_graph *graph, tn_op_id id, tn_status status, tn_error *error) {
    const tn_op *op = tn_graph_op(graph, id);
    return tn__where(error, status, "node '%.60s' (%.30s)", op->name, op->type);
}

static tn_status model_cost(const tn_graph *graph, tn_op_id id, const model_rates *rates,
                            uint64_t *picoseconds, tn_error *error) {
    tn_cost cost = tn_op_cost(graph, id);
    *picoseconds = 0;
    if (!tn__costs_runs(graph, id)) return TN_OK;
    if (cost.bytes_moved == TN_SIZE_UNKNOWN) {
        tn__fail(error, TN_E_UNKNOWN, "how many bytes this operator moves is not known");
        return model_fail(graph, id, TN_E_UNKNOWN, error);
    }
    double flops = cost.flops == TN_SIZE_UNKNOWN ? 0 : (double)cost.flops / rates->flops_per_s;
    double seconds = fmax(flops, (double)cost.bytes_moved / rates->bytes_per_s);
    double units = fmax(round(seconds * (double)TN_COSTS_PER_S), 1);
    if (!(units <= (double)TN_COSTS_MOST)) {
        tn__fail(error, TN_E_INVALID, "%g s for one operator; the most is %g", seconds,
                 (double)(TN_COSTS_MOST / TN_COSTS_PER_S));
        return model_fail(graph, id, TN_E_INVALID, error);
    }
    *picoseconds = (uint64_t)units;
    return TN_OK;
}

static tn_status model_fill(tn_costs *costs, const tn__repeats *repeats, const model_rates *rates,
                            tn_error *error) {
    for (tn_op_id id = 0; id < costs->count; id++) {
        TN_TRY(model_cost(costs->graph, id, rates, &costs->of[id], error));
        costs->again[id] = costs->of[id];
        if (repeats->graph == NULL || repeats->of[id] == TN_NONE) continue;
        TN_TRY(model_cost(repeats->graph, repeats->of[id], rates, &costs->again[id], error));
    }
    return TN_OK;
}

static tn_status model_rate(double rate, const char *what, tn_error *error) {
    if (isfinite(rate) && rate > 0) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "a device of %g %s a second; it must be above 0", rate, what);
}

tn_status tn_costs_create_model(const tn_graph *graph, const tn_costs_model *model,
                                tn_costs **costs, tn_error *error) {
    tn_costs_model asked = TN_COSTS_MODEL_INIT;
    tn__options(&asked, sizeof asked, model);
    model_rates rates = {asked.flops_per_s, asked.bytes_per_s};
    tn__repeats repeats;
    tn_costs *made;
    TN_TRY(model_rate(rates.flops_per_s, "operations", error));
    TN_TRY(model_rate(rates.bytes_per_s, "bytes", error));
    TN_TRY(tn__repeats_make(asked.context, graph, &repeats, error));
    tn_status status = tn__costs_create(asked.context, graph, &made, error);
    if (status == TN_OK) {
        made->bytes_per_s = rates.bytes_per_s / 2; /* a copy reads and writes */
        status = model_fill(made, &repeats, &rates, error);
        if (status == TN_OK)
            *costs = made;
        else
            tn_costs_destroy(made);
    }
    tn__repeats_release(&repeats);
    return status;
}
