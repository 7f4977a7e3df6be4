/* shapes.c - prints the type and shape of every tensor of block 0 of each model named; for
 * conformance.py. */
#include <stdio.h>

#include <tenure/graph.h>

int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        tn_graph *graph;
        tn_error error;
        printf("model\t%s\n", paths[i]);
        if (tn_graph_load(paths[i], NULL, &graph, &error) != TN_OK) {
            printf("error\t%s\t%s\n", tn_status_name(error.status), error.message);
            continue;
        }
        for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
            const tn_tensor *tensor = tn_graph_tensor(graph, id);
            if (tensor->block != 0 || tensor->rank == TN_RANK_UNKNOWN) continue;
            printf("%s\t%s\t%s\t", tensor->flags & TN_TENSOR_BOUND ? "bound" : "shape",
                   tensor->name, tn_dtype_name(tensor->dtype));
            for (uint32_t d = 0; d < tensor->rank; d++)
                printf("%lld,",
                       tensor->shape[d] == TN_DIM_UNKNOWN ? -1LL : (long long)tensor->shape[d]);
            printf("\n");
        }
        tn_graph_destroy(graph);
    }
    return 0;
}
