/* costs_model.c - costs on a device that is described by two rates, for all operators of a graph.
 *
 * graph/takes.h gives the time of each operator. Cost: O(operators + operands).
 */
#include "fit/budget/costs.h"

#include "graph/derived.h"
#include "graph/takes.h"

#include <math.h>

typedef struct model_rates {
    tn__machine machine;
    bool lax; /* an unknown cost becomes 0, and a cost that is too large becomes the maximum */
} model_rates;

static tn_status model_fail(const tn_graph *graph, tn_op_id id, tn_status status, tn_error *error) {
    const tn_op *op = tn_graph_op(graph, id);
    return tn__where(error, status, "node '%.60s' (%.30s)", op->name, op->type);
}

static tn_status model_cost(const tn_graph *graph, tn_op_id id, const model_rates *rates,
                            uint64_t *picoseconds, tn_error *error) {
    bool known;
    double seconds = tn__op_takes(graph, id, &rates->machine, &known);
    *picoseconds = 0;
    if (!tn__op_runs(graph, id)) return TN_OK;
    if (!known && !rates->lax) {
        tn__fail(error, TN_E_UNKNOWN, "how many bytes this operator moves is not known");
        return model_fail(graph, id, TN_E_UNKNOWN, error);
    }
    double units = fmax(round(seconds * (double)TN_COSTS_PER_S), 1);
    bool fits = units <= (double)TN_COSTS_MOST;
    if (!fits && !rates->lax) {
        tn__fail(error, TN_E_INVALID, "%g s for one operator; the most is %g", seconds,
                 (double)(TN_COSTS_MOST / TN_COSTS_PER_S));
        return model_fail(graph, id, TN_E_INVALID, error);
    }
    *picoseconds = fits ? (uint64_t)units : TN_COSTS_MOST;
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

static tn_status model_create(const tn_context *context, const tn_graph *graph,
                              const model_rates *rates, tn_costs **costs, tn_error *error) {
    tn__repeats repeats;
    tn_costs *made;
    TN_TRY(tn__repeats_make(context, graph, &repeats, error));
    tn_status status = tn__costs_create(context, graph, &made, error);
    if (status == TN_OK) {
        made->bytes_per_s = rates->machine.bytes / 2; /* a copy reads and writes */
        status = model_fill(made, &repeats, rates, error);
        if (status == TN_OK)
            *costs = made;
        else
            tn_costs_destroy(made);
    }
    tn__repeats_release(&repeats);
    return status;
}

tn_status tn_costs_create_model(const tn_graph *graph, const tn_costs_model *model,
                                tn_costs **costs, tn_error *error) {
    tn_costs_model asked = TN_COSTS_MODEL_INIT;
    tn__options(&asked, sizeof asked, model);
    const model_rates plain = {.machine = TN__PLAIN_MACHINE};
    model_rates rates = {.machine = {asked.flops_per_s, asked.bytes_per_s}};
    if (asked.flops_per_s == 0 && asked.bytes_per_s == 0) rates = plain;
    TN_TRY(model_rate(rates.machine.operations, "operations", error));
    TN_TRY(model_rate(rates.machine.bytes, "bytes", error));
    return model_create(asked.context, graph, &rates, costs, error);
}

tn_status tn__costs_plain(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                          tn_error *error) {
    const model_rates plain = {.machine = TN__PLAIN_MACHINE, .lax = true};
    return model_create(context, graph, &plain, costs, error);
}
