/* fuzz_costs.c - any bytes as a file of costs, for a graph of a few operators.
 *
 * What must hold: costs for all of them in range, or an error with a message and nothing made.
 */
#include <stdlib.h>

#include <tenure/search.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* x -> Relu -> Relu (alike) -> Tanh */
static tn_graph *costs_graph(void) {
    static const char *const types[] = {"Relu", "Relu", "Tanh"};
    tn_graph *graph = NULL;
    tn_tensor_id ids[4];
    int64_t extent = 4;
    fuzz_must(tn_graph_create(NULL, &graph, NULL) == TN_OK);
    for (int i = 0; i < 4; i++) {
        tn_tensor_spec spec = {.name = "t", .dtype = TN_FLOAT32, .rank = 1, .shape = &extent};
        spec.kind = i == 0 ? TN_KIND_INPUT : i == 3 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION;
        fuzz_must(tn_graph_add_tensor(graph, &spec, &ids[i], NULL) == TN_OK);
    }
    for (int i = 0; i < 3; i++) {
        tn_op_spec op = {.type = types[i],
                         .inputs = &ids[i],
                         .input_count = 1,
                         .outputs = &ids[i + 1],
                         .output_count = 1};
        fuzz_must(tn_graph_add_op(graph, &op, NULL, NULL) == TN_OK);
    }
    fuzz_must(tn_graph_infer(graph, NULL) == TN_OK);
    return graph;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_graph *graph = costs_graph();
    tn_costs *costs = NULL;
    tn_error error = {0};
    tn_status status = tn_costs_read_memory("c.json", bytes, size, NULL, graph, &costs, &error);
    if (status != TN_OK) {
        fuzz_must(costs == NULL && error.message[0] != '\0' && error.where[0] != '\0');
    } else {
        fuzz_accept();
        for (tn_op_id id = 0; id < 3; id++)
            fuzz_must(tn_costs_of(costs, id) <= TN_COSTS_MOST &&
                      tn_costs_again_of(costs, id) <= TN_COSTS_MOST);
        fuzz_must(tn_costs_of(costs, 0) == tn_costs_of(costs, 1));
        fuzz_must(tn_costs_bytes_per_s(costs) >= 0);
        tn_costs_destroy(costs);
    }
    tn_graph_destroy(graph);
    return 0;
}
