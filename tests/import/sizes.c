/* sizes.c - prints every tensor of a loaded model, for tests/import/tflite.py to compare.
 *
 *     import_sizes MODEL
 *
 * A line each, in the order of blocks and of tensors: block, kind, "folded" or "-", element type,
 * extents, bytes, name. Then the operators: block, type, names of inputs and outputs.
 */
#include <stdio.h>

#include <tenure/graph.h>

static const char *name_of(const tn_graph *graph, tn_tensor_id id) {
    return id == TN_NONE ? "" : tn_graph_tensor(graph, id)->name;
}

static void print_tensor(const tn_tensor *tensor) {
    printf("tensor\t%u\t%s\t%s\t%s\t", tensor->block, tn_kind_name(tensor->kind),
           tensor->flags & TN_TENSOR_FOLDED ? "folded" : "-", tn_dtype_name(tensor->dtype));
    for (uint32_t i = 0; tensor->rank != TN_RANK_UNKNOWN && i < tensor->rank; i++)
        printf("%s%lld", i ? "," : "", (long long)tensor->shape[i]);
    if (tensor->bytes == TN_SIZE_UNKNOWN)
        printf("\t?");
    else
        printf("\t%llu", (unsigned long long)tensor->bytes);
    printf("\t%s\n", tensor->name);
}

int main(int argc, char **argv) {
    tn_graph *graph;
    tn_error error;
    if (argc != 2) return 2;
    if (tn_graph_load(argv[1], NULL, &graph, &error) != TN_OK) {
        fprintf(stderr, "%s [%s] %s\n", tn_status_name(error.status), error.where, error.message);
        return 3;
    }
    for (tn_tensor_id i = 0; i < tn_graph_tensor_count(graph); i++)
        print_tensor(tn_graph_tensor(graph, i));
    for (tn_op_id i = 0; i < tn_graph_op_count(graph); i++) {
        const tn_op *op = tn_graph_op(graph, i);
        printf("op\t%u\t%s", op->block, op->type);
        for (uint32_t k = 0; k < op->input_count; k++)
            printf("\t<%s", name_of(graph, op->inputs[k]));
        for (uint32_t k = 0; k < op->output_count; k++)
            printf("\t>%s", name_of(graph, op->outputs[k]));
        printf("\n");
    }
    tn_graph_destroy(graph);
    return 0;
}
