/* dump.c - prints a loaded model line by line, for tests/import/oracle.py to compare.
 *
 *     import_dump MODEL [NAME=VALUE]...
 *
 * Exit status 3 when the model does not load; the reason is on standard error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/graph.h>

static const char *name_of(const tn_graph *graph, tn_tensor_id id) {
    return id == TN_NONE ? "" : tn_graph_tensor(graph, id)->name;
}

static void print_names(const tn_graph *graph, const char *label, const tn_tensor_id *ids,
                        uint32_t count) {
    printf("\t%s", label);
    for (uint32_t i = 0; i < count; i++) printf("|%s", name_of(graph, ids[i]));
}

static void print_value(const tn_value *value) {
    if (!value || !value->count) return;
    printf(" =");
    for (uint32_t i = 0; i < value->count; i++) {
        if (value->ints)
            printf(" %lld", (long long)value->ints[i]);
        else
            printf(" %.9g", value->floats[i]);
    }
}

static void print_tensor(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    printf("%s[", tn_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < tensor->rank; i++)
        printf("%s%lld", i ? "," : "", (long long)tensor->shape[i]);
    printf("] %llu", (unsigned long long)tensor->bytes);
    print_value(tensor->value);
}

static void print_attr(const tn_graph *graph, const tn_attr *attr) {
    printf("\t%s:", attr->name);
    for (uint32_t i = 0; i < attr->count; i++) {
        if (attr->type == TN_ATTR_INT || attr->type == TN_ATTR_INTS)
            printf(" %lld", (long long)attr->ints[i]);
        else if (attr->type == TN_ATTR_FLOAT || attr->type == TN_ATTR_FLOATS)
            printf(" %.9g", attr->floats[i]);
        else if (attr->type == TN_ATTR_STRING || attr->type == TN_ATTR_STRINGS)
            printf(" '%s'", attr->strings[i]);
        else if (attr->type == TN_ATTR_BLOCK)
            printf(" block %u", attr->block);
        else {
            printf(" tensor ");
            print_tensor(graph, attr->tensor);
        }
    }
}

static void print_block(const tn_graph *graph, tn_block_id id) {
    const tn_block *block = tn_graph_block(graph, id);
    printf("block %u", id);
    print_names(graph, "in", block->inputs, block->input_count);
    print_names(graph, "out", block->outputs, block->output_count);
    printf("\n");
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, t);
        if (tensor->block != id || tensor->kind != TN_KIND_PARAMETER) continue;
        printf("param %s ", tensor->name);
        print_tensor(graph, t);
        printf("\n");
    }
    for (tn_op_id o = 0; o < tn_graph_op_count(graph); o++) {
        const tn_op *op = tn_graph_op(graph, o);
        if (op->block != id) continue;
        printf("op %s\t%s\t%u\t%s", op->type, op->domain, op->version, op->name);
        print_names(graph, "in", op->inputs, op->input_count);
        print_names(graph, "out", op->outputs, op->output_count);
        for (uint32_t i = 0; i < op->attr_count; i++) print_attr(graph, &op->attrs[i]);
        printf("\n");
    }
}

int main(int argc, char **argv) {
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    tn_dim dims[64];
    tn_error error;
    tn_graph *graph;
    if (argc < 2) return 2;
    options.dims = dims;
    for (int i = 2; i < argc && options.dim_count < 64; i++) {
        char *equals = strrchr(argv[i], '=');
        if (!equals) return 2;
        *equals = 0;
        dims[options.dim_count++] = (tn_dim){argv[i], strtoll(equals + 1, NULL, 10)};
    }
    tn_status status = tn_graph_load(argv[1], &options, &graph, &error);
    if (status != TN_OK) {
        fprintf(stderr, "%s [%s] %s\n", tn_status_name(status), error.where, error.message);
        return 3;
    }
    for (tn_block_id b = 0; b < tn_graph_block_count(graph); b++) print_block(graph, b);
    tn_graph_destroy(graph);
    return 0;
}
