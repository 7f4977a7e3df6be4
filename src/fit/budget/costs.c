/* costs.c - the table of costs: for each operator the cost of its first run and of a repeat.
 *
 * costs_model.c, costs_json.c, fit/setup/measure.c or the caller supplies the numbers. Cost:
 * O(operators).
 */
#include "fit/budget/costs.h"

#include <math.h>

tn_status tn__costs_create(const tn_context *given, const tn_graph *graph, tn_costs **costs,
                           tn_error *error) {
    tn_context context = tn__context(given);
    uint32_t count = tn_graph_op_count(graph);
    tn_costs *made = tn__alloc_array(&context, 1, sizeof *made);
    uint64_t *numbers = tn__alloc_array(&context, 2 * (size_t)count, sizeof *numbers);
    if (made == NULL || numbers == NULL) {
        tn__free(&context, made, sizeof *made);
        tn__free(&context, numbers, 2 * (size_t)count * sizeof *numbers);
        return tn__no_memory(error, "costs");
    }
    *made = (tn_costs){.context = context,
                       .graph = graph,
                       .of = numbers,
                       .again = numbers + count,
                       .count = count};
    *costs = made;
    return TN_OK;
}

void tn_costs_destroy(tn_costs *costs) {
    if (costs == NULL) return;
    tn_context context = costs->context;
    tn__free(&context, costs->of, 2 * (size_t)costs->count * sizeof *costs->of);
    tn__free(&context, costs, sizeof *costs);
}

/* --- costs given by the caller --- */

static tn_status costs_check(const tn_costs *costs, const uint64_t *numbers, const char *file,
                             tn_error *error) {
    uint64_t sum = 0;
    for (tn_op_id id = 0; id < costs->count; id++) {
        sum = tn__add_sat(sum, numbers[id]);
        if (sum <= TN_COSTS_MOST) continue;
        const tn_op *op = tn_graph_op(costs->graph, id);
        tn__fail(error, TN_E_INVALID, "a cost of %llu; all together may cost 2^56 at most",
                 (unsigned long long)numbers[id]);
        return tn__where(error, TN_E_INVALID, "%s%snode '%.60s' (%.30s)", file != NULL ? file : "",
                         file != NULL ? ": " : "", op->name, op->type);
    }
    return TN_OK;
}

tn_status tn__costs_check(const tn_costs *costs, const char *file, tn_error *error) {
    TN_TRY(costs_check(costs, costs->of, file, error));
    return costs_check(costs, costs->again, file, error);
}

tn_status tn_costs_given(const tn_context *context, const tn_graph *graph, const uint64_t *of,
                         const uint64_t *again, uint32_t count, double bytes_per_s,
                         tn_costs **costs, tn_error *error) {
    if (count != tn_graph_op_count(graph))
        TN_FAIL(error, TN_E_INVALID, "%u costs for a graph of %u operators", count,
                tn_graph_op_count(graph));
    if (!isfinite(bytes_per_s) || bytes_per_s < 0)
        TN_FAIL(error, TN_E_INVALID, "%g bytes a second is not a rate", bytes_per_s);
    tn_costs *made;
    TN_TRY(tn__costs_create(context, graph, &made, error));
    if (count > 0) {
        memcpy(made->of, of, count * sizeof *of);
        memcpy(made->again, again != NULL ? again : of, count * sizeof *of);
    }
    made->bytes_per_s = bytes_per_s;
    tn_status status = tn__costs_check(made, NULL, error);
    if (status == TN_OK)
        *costs = made;
    else
        tn_costs_destroy(made);
    return status;
}

/* --- queries --- */

const tn_graph *tn_costs_graph(const tn_costs *costs) { return costs->graph; }

uint64_t tn_costs_of(const tn_costs *costs, tn_op_id op) {
    return op < costs->count ? costs->of[op] : 0;
}

uint64_t tn_costs_again_of(const tn_costs *costs, tn_op_id op) {
    return op < costs->count ? costs->again[op] : 0;
}

const uint64_t *tn_costs_list(const tn_costs *costs) { return costs->of; }
const uint64_t *tn_costs_again_list(const tn_costs *costs) { return costs->again; }
double tn_costs_bytes_per_s(const tn_costs *costs) { return costs->bytes_per_s; }

uint32_t tn_costs_threads(const tn_costs *costs) { return costs->threads; }

uint64_t tn_costs_total(const tn_costs *costs) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < costs->count; i++) total = tn__add_sat(total, costs->of[i]);
    return total;
}

/* --- time of a program --- */

tn_status tn__costs_simulate(const tn_costs *costs, const tn_program *program,
                             const tn_simulate_options *given, tn_simulation *simulation,
                             tn_error *error) {
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    options.struct_size = sizeof options;
    options.costs = tn_costs_list(costs);
    options.again = tn_costs_again_list(costs);
    if (options.codec_bytes_per_s == 0) options.codec_bytes_per_s = tn_costs_bytes_per_s(costs);
    return tn_simulate(program, &options, simulation, error);
}
