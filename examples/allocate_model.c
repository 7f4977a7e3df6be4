/* allocate_model.c - addresses for the tensors of a model file, for a program that runs it itself.
 *
 *     cc allocate_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenure/run.h>

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: allocate_model MODEL\n"), 2;
    tn_error error;
    tn_graph *graph = NULL;
    uint64_t arena, *offsets = NULL;
    tn_status status = tn_graph_load(arguments[1], NULL, &graph, &error);
    if (status == TN_OK) {
        offsets = (uint64_t *)malloc(tn_graph_tensor_count(graph) * sizeof *offsets);
        if (offsets == NULL) return 4;
        status = tn_graph_allocate(graph, NULL, offsets, &arena, &error);
    }
    if (status == TN_OK) printf("arena: %llu bytes\n", (unsigned long long)arena);
    for (tn_tensor_id t = 0; status == TN_OK && t < tn_graph_tensor_count(graph); t++)
        if (offsets[t] != TN_SIZE_UNKNOWN)
            printf("%-40.40s at %8llu\n", tn_graph_tensor(graph, t)->name,
                   (unsigned long long)offsets[t]);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    free(offsets);
    tn_graph_destroy(graph);
    return tn_status_exit_code(status);
}
