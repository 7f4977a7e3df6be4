/* contents.c - writes the contents of a model's parameters and constants, for contents.py.
 *
 *     import_contents MODEL [--weights SEED] [DIM=VALUE]...
 *
 * For each tensor that has contents: "name\0type shape size status\n" and, when the status is OK,
 * its bytes. Exit status: 3 when the model does not load.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/graph.h>

/* Where a file is said to hold just these bytes, it does. */
static void check_where(tn_contents *contents, const tn_graph *graph, tn_tensor_id id,
                        const void *bytes) {
    uint64_t size = tn_graph_tensor(graph, id)->bytes;
    tn_file_range range;
    tn_error error;
    bool found;
    if (tn_contents_where(contents, graph, id, &range, &found, &error) != TN_OK) exit(5);
    if (!found) return;
    FILE *file = fopen(range.path, "rb");
    char *there = malloc(size);
    bool same = file != NULL && there != NULL && range.size == size &&
                fseek(file, (long)range.offset, SEEK_SET) == 0 &&
                fread(there, 1, size, file) == size && memcmp(there, bytes, size) == 0;
    if (!same) exit(5);
    free(there);
    fclose(file);
}

static void put_tensor(tn_contents *contents, const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    tn_error error = {0};
    if (tensor->rank == TN_RANK_UNKNOWN || tensor->bytes == TN_SIZE_UNKNOWN) return;
    void *bytes = malloc(tensor->bytes + 1);
    if (bytes == NULL) exit(4);
    tn_status status = tn_contents_read(contents, graph, id, bytes, tensor->bytes, &error);
    fwrite(tensor->name, 1, strlen(tensor->name) + 1, stdout);
    printf("%s ", tn_dtype_name(tensor->dtype));
    for (uint32_t d = 0; d < tensor->rank; d++)
        printf("%s%lld", d != 0 ? "," : "", (long long)tensor->shape[d]);
    printf(" %llu %s\n", (unsigned long long)tensor->bytes, tn_status_name(status));
    if (status == TN_OK) check_where(contents, graph, id, bytes);
    if (status == TN_OK)
        fwrite(bytes, 1, tensor->bytes, stdout);
    else
        fprintf(stderr, "%s: %s\n", error.where, error.message);
    free(bytes);
}

int main(int argc, char **argv) {
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    tn_dim dims[16];
    tn_graph *graph;
    tn_contents *contents;
    tn_error error;
    const char *seed = NULL;
    if (argc < 2) return 2;
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (strcmp(argv[i], "--weights") == 0 && i + 1 < argc) {
            seed = argv[++i];
        } else if (equals != NULL && options.dim_count < 16) {
            *equals = 0;
            dims[options.dim_count++] = (tn_dim){argv[i], atoll(equals + 1)};
        }
    }
    options.dims = dims;
    if (tn_graph_load(argv[1], &options, &graph, &error) != TN_OK) {
        fprintf(stderr, "%s %s: %s\n", tn_status_name(error.status), error.where, error.message);
        return 3;
    }
    tn_status status = seed != NULL ? tn_contents_generate(argv[1], graph, strtoull(seed, NULL, 0),
                                                           NULL, &contents, &error)
                                    : tn_contents_open(argv[1], NULL, &contents, &error);
    if (status != TN_OK) {
        fprintf(stderr, "%s %s: %s\n", tn_status_name(status), error.where, error.message);
        return 3;
    }
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        if (tn_graph_tensor(graph, id)->payload.size != 0) put_tensor(contents, graph, id);
    tn_contents_close(contents);
    tn_graph_destroy(graph);
    return 0;
}
