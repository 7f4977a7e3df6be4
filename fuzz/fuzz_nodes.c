/* fuzz_nodes.c - any bytes as a computation without a model: read, lowered, its bytes counted. */
#include <stdlib.h>

#include <tenure/search.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_graph *graph = NULL;
    tn_costs *costs = NULL;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_error error = {0};
    if (tn_fit_problem_load_memory("nodes.json", bytes, size, NULL, &graph, &costs, &error)) {
        fuzz_must(graph == NULL && costs == NULL && error.message[0] != '\0' &&
                  error.where[0] != '\0');
        return 0;
    }
    fuzz_accept();
    fuzz_must(tn_costs_graph(costs) == graph);
    fuzz_must(tn_program_create(graph, NULL, &program, &error) == TN_OK);
    if (tn_occupancy_create(program, NULL, &occupancy, &error) == TN_OK) {
        tn_memory_summary summary = tn_occupancy_summary(occupancy);
        fuzz_must(summary.peak_live <= summary.naive);
        tn_occupancy_destroy(occupancy);
    }
    tn_program_destroy(program);
    tn_costs_destroy(costs);
    tn_graph_destroy(graph);
    return 0;
}
