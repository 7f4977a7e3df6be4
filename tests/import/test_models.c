/* test_models.c - every real model loads, and what it declares is what the data's table says.
 *
 * Models come from ../shared/data and, when TENURE_NPM_MODELS names a folder, from the npm packages
 * listed there: those were never looked at while the reader was written. Symbols get their values
 * by their names, found in the reader's own message: so the message says enough to act upon.
 */
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto.h"

/* --- values for what a model leaves open --- */

static int64_t value_for(const char *symbol) {
    if (!strcmp(symbol, "N") || !strcmp(symbol, "batch") || strstr(symbol, "Dimension.0")) return 1;
    if (!strcmp(symbol, "T")) return 16;
    if (!strcmp(symbol, "sequence")) return 512;
    return 320; /* heights and widths */
}

static const int64_t silero_input[] = {1, 512}, silero_state[] = {2, 1, 128};
static const tn_input_shape unnamed[] = {{"input", 2, silero_input}, {"state", 3, silero_state}};

typedef struct answers {
    char names[16][80];
    tn_dim dims[16];
    tn_input_shape shapes[4];
    tn_import_options options;
} answers;

/* Options that give what the message asks for: 'symbols', and inputs of unnamed dimensions. */
static void answer(answers *to, const char *message) {
    *to = (answers){.options = TN_IMPORT_OPTIONS_INIT};
    to->options.dims = to->dims;
    to->options.input_shapes = to->shapes;
    for (const char *at = strchr(message, '\''); at; at = strchr(at + 1, '\'')) {
        const char *end = strchr(at + 1, '\'');
        size_t length = (size_t)(end - at - 1);
        bool is_input = at - message >= 6 && !strncmp(at - 6, "input ", 6);
        if (is_input) {
            for (size_t i = 0; i < sizeof unnamed / sizeof *unnamed; i++)
                if (strlen(unnamed[i].name) == length && !strncmp(unnamed[i].name, at + 1, length))
                    to->shapes[to->options.input_shape_count++] = unnamed[i];
        } else if (to->options.dim_count < 16) {
            char *name = to->names[to->options.dim_count];
            snprintf(name, 80, "%.*s", (int)length, at + 1);
            to->dims[to->options.dim_count++] = (tn_dim){name, value_for(name)};
        }
        at = end;
    }
}

/* Whether the facts beside a model (NAME.json of onnx-2026) say that ONNX Runtime refuses it. Or a
 * size depends on a condition that is an input: an answer that asks for it. */
static bool is_refused(const char *path) {
    char text[2048] = "", name[1024];
    if (strstr(path, "sem_if_ranks.onnx") != NULL) return true;
    if (strstr(path, "/hostile/") != NULL) return true; /* foreign.samples checks the reasons */
    snprintf(name, sizeof name, "%.*s.json", (int)(strlen(path) - strlen(".onnx")), path);
    FILE *file = fopen(name, "r");
    if (file == NULL) return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    return strstr(text, "refused by onnxruntime") != NULL;
}

static tn_graph *load_file(const char *path) {
    tn_graph *graph = NULL;
    tn_error error;
    tn_status status = tn_graph_load(path, NULL, &graph, &error);
    if (status == TN_E_UNKNOWN && !strncmp(error.message, "no value for", 12)) {
        answers given;
        answer(&given, error.message);
        status = tn_graph_load(path, &given.options, &graph, &error);
    }
    if (status != TN_OK && is_refused(path)) return NULL;
    if (status != TN_OK) fail_msg("%s: [%s] %s", path, error.where, error.message);
    return graph;
}

/* --- what must hold for any of them -------------------------------------------------------------
 */

static void check_sizes(const tn_graph *graph, const char *path) {
    for (tn_tensor_id i = 0; i < tn_graph_tensor_count(graph); i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, i);
        if (tensor->bytes != TN_SIZE_UNKNOWN || tn_graph_block(graph, tensor->block)->dead)
            continue;
        bool is_attribute = tensor->kind == TN_KIND_CONSTANT; /* a string, perhaps */
        bool is_nowhere = tensor->kind == TN_KIND_ACTIVATION && tensor->flags & TN_TENSOR_FOLDED;
        if (!is_attribute && !is_nowhere) fail_msg("%s: size of '%s'", path, tensor->name);
    }
    const tn_block *block = tn_graph_block(graph, 0);
    assert_true(block->output_count > 0);
    for (uint32_t i = 0; i < block->output_count; i++)
        assert_true(tn_graph_tensor(graph, block->outputs[i])->bytes != TN_SIZE_UNKNOWN);
}

static uint32_t load_folder(const char *folder) {
    DIR *directory = opendir(folder);
    uint32_t count = 0;
    if (!directory) return 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[1000];
        struct stat facts;
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "node_modules")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &facts) != 0) continue;
        if (S_ISDIR(facts.st_mode)) {
            count += load_folder(path);
        } else if (tn_import_recognises(path)) {
            tn_graph *graph = load_file(path);
            if (graph != NULL && !is_refused(path)) check_sizes(graph, path);
            tn_graph_destroy(graph);
            count++;
        }
    }
    closedir(directory);
    return count;
}

static void every_model_of_the_shared_data_loads(void **state) {
    (void)state;
    uint32_t count = load_folder(TENURE_SOURCE_DIR "/../shared/data");
    if (!count) printf("SKIP: the shared data is not there\n");
    printf("%u models\n", count);
}

static void every_model_of_the_packages_loads(void **state) {
    (void)state;
    const char *folder = getenv("TENURE_NPM_MODELS");
    if (!folder || !*folder) {
        printf("SKIP: TENURE_NPM_MODELS names no folder\n");
        return;
    }
    uint32_t count = load_folder(folder);
    assert_true(count > 0);
    printf("%u models\n", count);
}

/* --- the table of the data: nodes and bytes of weights --- */

static uint64_t parameter_bytes(const tn_graph *graph) {
    uint64_t sum = 0;
    for (tn_tensor_id i = 0; i < tn_graph_tensor_count(graph); i++)
        if (tn_graph_tensor(graph, i)->kind == TN_KIND_PARAMETER)
            sum += tn_graph_tensor(graph, i)->bytes;
    return sum;
}

/* What Constant nodes and their like hold in the file: the table counts some of it. */
static uint64_t attribute_bytes(const tn_graph *graph) {
    uint64_t sum = 0;
    for (tn_op_id i = 0; i < tn_graph_op_count(graph); i++) {
        const tn_op *op = tn_graph_op(graph, i);
        for (uint32_t j = 0; j < op->attr_count; j++)
            if (op->attrs[j].type == TN_ATTR_TENSOR)
                sum += tn_graph_tensor(graph, op->attrs[j].tensor)->bytes;
    }
    return sum;
}

/* A row "| `name` | size | nodes[+nodes in subgraphs] | opset | weights | ..." of folder's table.
 */
static bool check_row(const char *folder, const char *row) {
    char name[100], path[600];
    unsigned long long size, weights;
    unsigned nodes, inner = 0;
    if (sscanf(row, "| `%99[^`]` | %llu | %u", name, &size, &nodes) != 3) return false;
    if (!strstr(name, ".onnx")) return false;
    (void)sscanf(row, "| `%*[^`]` | %*u | %*u+%u in subgraphs", &inner);
    const char *cell = row;
    for (int i = 0; i < 5; i++) cell = strchr(cell, '|') + 1;
    weights = strtoull(cell, NULL, 10);
    snprintf(path, sizeof path, "%s/../shared/data/%s/%s", TENURE_SOURCE_DIR, folder, name);
    tn_graph *graph = load_file(path);
    uint64_t least = parameter_bytes(graph), most = least + attribute_bytes(graph);
    if (weights < least || weights > most)
        fail_msg("%s: %llu to %llu bytes of weights, the table says %llu", name,
                 (unsigned long long)least, (unsigned long long)most, weights);
    if (tn_graph_block(graph, 0)->op_count != nodes || tn_graph_op_count(graph) != nodes + inner)
        fail_msg("%s: %u + %u nodes, the table says %u + %u", name,
                 tn_graph_block(graph, 0)->op_count,
                 tn_graph_op_count(graph) - tn_graph_block(graph, 0)->op_count, nodes, inner);
    tn_graph_destroy(graph);
    return true;
}

static void nodes_and_weights_are_those_of_the_table(void **state) {
    (void)state;
    FILE *table = fopen(TENURE_SOURCE_DIR "/../shared/data/README.md", "r");
    if (!table) {
        printf("SKIP: the shared data is not there\n");
        return;
    }
    static char line[4000];
    char folder[100] = "";
    uint32_t count = 0;
    while (fgets(line, sizeof line, table)) {
        (void)sscanf(line, "## %99[^/\n]", folder);
        count += check_row(folder, line);
    }
    fclose(table);
    assert_true(count > 20);
}

/* --- weights in the file -------------------------------------------------------------------------
 */

enum { LARGE_COUNT = 250, LARGE_SIZE = 2 << 20 };

/* The header of initializer i, without its payload. */
static proto large_head(int i) {
    char name[16];
    proto head = {0};
    snprintf(name, sizeof name, "w%d", i);
    proto tensor = onnx_tensor(name, FLOAT, "524288", NULL, 0);
    proto_tag(&tensor, 9, 2);
    proto_varint(&tensor, LARGE_SIZE);
    proto_tag(&head, GRAPH_INITIALIZER, 2);
    proto_varint(&head, tensor.size + LARGE_SIZE);
    proto_raw(&head, tensor.data, tensor.size);
    free(tensor.data);
    return head;
}

/* A file of 524 MB whose payloads are holes; false where the disk does not take it. */
static bool large_write(FILE *file) {
    proto start = {0}, graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    uint64_t size = graph.size;
    for (int i = 0; i < LARGE_COUNT; i++) {
        proto head = large_head(i);
        size += head.size + LARGE_SIZE;
        free(head.data);
    }
    proto_int(&start, 1, 8);
    proto_sub(&start, 8, onnx_opset("", 17));
    proto_tag(&start, 7, 2);
    proto_varint(&start, size);
    proto_raw(&start, graph.data, graph.size);
    bool fine = fwrite(start.data, 1, start.size, file) == start.size;
    free(start.data);
    free(graph.data);
    for (int i = 0; fine && i < LARGE_COUNT; i++) {
        proto head = large_head(i);
        fine = fwrite(head.data, 1, head.size, file) == head.size &&
               fseek(file, LARGE_SIZE, SEEK_CUR) == 0;
        free(head.data);
    }
    return fine && fflush(file) == 0 && ftruncate(fileno(file), ftell(file)) == 0;
}

static void weights_in_the_file_are_not_read(void **state) {
    (void)state;
    FILE *file = tmpfile();
    if (!file || !large_write(file)) {
        printf("SKIP: no room for a large file\n");
        if (file) fclose(file);
        return;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    tn_graph *graph = NULL;
    tn_error error;
    if (tn_graph_load(path, NULL, &graph, &error) != TN_OK)
        fail_msg("[%s] %s", error.where, error.message);
    getrusage(RUSAGE_SELF, &after);
    assert_true(parameter_bytes(graph) == (uint64_t)LARGE_COUNT * LARGE_SIZE);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 * 1024); /* kB: an eighth of the file */
    tn_graph_destroy(graph);
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_of_the_shared_data_loads),
        cmocka_unit_test(every_model_of_the_packages_loads),
        cmocka_unit_test(nodes_and_weights_are_those_of_the_table),
        cmocka_unit_test(weights_in_the_file_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
