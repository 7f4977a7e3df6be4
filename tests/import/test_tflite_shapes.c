/* Shape rules of TensorFlow Lite's operators against the shapes that real files state: all that
 * operators compute is forgotten, and must come out again. And single operators, against shapes
 * worked out by hand. */
#include "proto.h"

#include <dirent.h>

#include <tenure/graph.h>

#define SHARED TENURE_SOURCE_DIR "/../shared/data/tflite"

static tn_error failure;

static void must(tn_status status) {
    if (status != TN_OK) fail_msg("%s: %s", failure.where, failure.message);
}

/* Operators without a rule: their shapes stay. */
static bool keeps_its_shape(const tn_op *op) {
    static const char *const types[] = {"IF", "WHILE", "CALL", "READ_VARIABLE",
                                        "STABLEHLO_COMPOSITE"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(op->type, types[i]) == 0) return true;
    return strncmp(op->type, "CUSTOM:", 7) == 0;
}

/* The same graph without the shapes of what operators compute; *forgotten counts them. */
static tn_graph *forget(const tn_graph *graph, uint32_t *forgotten) {
    tn_graph *copy;
    tn_block_id block;
    tn_tensor_id added;
    must(tn_graph_create(NULL, &copy, &failure));
    for (tn_block_id b = 1; b < tn_graph_block_count(graph); b++)
        must(tn_graph_add_block(copy, tn_graph_block(graph, b)->name, &block, &failure));
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const tn_tensor *from = tn_graph_tensor(graph, id);
        tn_tensor_spec spec = {.name = from->name,
                               .dtype = from->dtype,
                               .kind = from->kind,
                               .rank = from->rank,
                               .shape = from->shape,
                               .block = from->block};
        if (from->producer != TN_NONE && !keeps_its_shape(tn_graph_op(graph, from->producer))) {
            spec.rank = TN_RANK_UNKNOWN;
            spec.shape = NULL;
            ++*forgotten;
        } else if (from->value) {
            spec.value = *from->value;
        }
        must(tn_graph_add_tensor(copy, &spec, &added, &failure));
    }
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *from = tn_graph_op(graph, id);
        tn_op_spec spec = {.name = from->name,
                           .type = from->type,
                           .domain = from->domain,
                           .version = from->version,
                           .block = from->block,
                           .inputs = from->inputs,
                           .outputs = from->outputs,
                           .attrs = from->attrs,
                           .input_count = from->input_count,
                           .output_count = from->output_count,
                           .attr_count = from->attr_count};
        must(tn_graph_add_op(copy, &spec, NULL, &failure));
    }
    for (tn_block_id b = 0; b < tn_graph_block_count(graph); b++) {
        const tn_block *from = tn_graph_block(graph, b);
        must(tn_graph_set_block_io(copy, b, from->inputs, from->input_count, from->outputs,
                                   from->output_count, &failure));
    }
    return copy;
}

static void compare(const tn_graph *graph, const tn_graph *again, const char *name) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const tn_tensor *a = tn_graph_tensor(graph, id), *b = tn_graph_tensor(again, id);
        const char *type = a->producer == TN_NONE ? "" : tn_graph_op(graph, a->producer)->type;
        if (a->rank != b->rank) fail_msg("%s: '%s' (%s) has rank %u", name, a->name, type, b->rank);
        for (uint32_t d = 0; d < a->rank; d++)
            if (a->shape[d] != b->shape[d])
                fail_msg("%s: axis %u of '%s' (%s) is %lld, not %lld", name, d, a->name, type,
                         (long long)b->shape[d], (long long)a->shape[d]);
    }
}

static uint32_t check_file(const char *folder, const char *name) {
    char path[900];
    size_t length = strlen(name);
    uint32_t forgotten = 0;
    tn_graph *graph;
    if (length < 7 || strcmp(name + length - 7, ".tflite") != 0) return 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(tn_graph_load(path, NULL, &graph, &failure));
    tn_graph *again = forget(graph, &forgotten);
    tn_status status = tn_graph_infer(again, &failure);
    if (status != TN_OK) fail_msg("%s: %s: %s", name, failure.where, failure.message);
    compare(graph, again, name);
    tn_graph_destroy(again);
    tn_graph_destroy(graph);
    return forgotten;
}

static void check_folder(const char *folder) {
    DIR *directory = opendir(folder);
    uint32_t files = 0, tensors = 0;
    if (!directory) {
        printf("SKIP: %s is not there\n", folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(directory));) {
        uint32_t found = check_file(folder, entry->d_name);
        tensors += found;
        files += found > 0;
    }
    closedir(directory);
    printf("%s: %u shapes of %u files come out again\n", folder, tensors, files);
}

static void every_shape_that_real_files_state_follows_from_the_rules(void **state) {
    (void)state;
    const char *more = getenv("TENURE_NPM_TFLITE"); /* further folders, with colons between */
    check_folder(SHARED);
    check_folder(TENURE_SOURCE_DIR "/examples/models");
    while (more && *more) {
        char folder[600];
        size_t length = strcspn(more, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)length, more);
        check_folder(folder);
        more += length + (more[length] == ':');
    }
}

/* --- one operator --- */

typedef struct one {
    const char *type;
    const char *inputs[4]; /* shapes "1,2"; with contents "=1,2" */
    const char *attrs;     /* "name=1 name=2" */
    const char *output;    /* shape; NULL: an error; "?": not known */
} one;

static uint32_t numbers(const char *text, int64_t *to) {
    uint32_t count = 0;
    for (const char *at = text; *at; at += strcspn(at, ","), at += *at == ',')
        to[count++] = strtoll(at, NULL, 10);
    return count;
}

static tn_status infer_one(const one *it, int64_t *shape, uint32_t *rank) {
    tn_graph *graph;
    tn_tensor_id ids[5];
    tn_attr attrs[8];
    int64_t values[8];
    char names[8][40];
    uint32_t inputs = 0, count = 0;
    must(tn_graph_create(NULL, &graph, &failure));
    for (; inputs < 4 && it->inputs[inputs]; inputs++) {
        const char *text = it->inputs[inputs];
        int64_t extents[16], length;
        tn_tensor_spec spec = {.name = "i", .dtype = TN_INT32, .kind = TN_KIND_INPUT};
        if (*text == '=') {
            spec.kind = TN_KIND_PARAMETER;
            spec.value.count = numbers(text + 1, extents);
            spec.value.ints = extents;
            length = spec.value.count;
            spec.shape = &length;
            spec.rank = 1;
        } else {
            spec.rank = numbers(text, extents);
            spec.shape = extents;
        }
        must(tn_graph_add_tensor(graph, &spec, &ids[inputs], &failure));
    }
    tn_tensor_spec out = {.name = "o", .dtype = TN_INT32, .rank = TN_RANK_UNKNOWN};
    must(tn_graph_add_tensor(graph, &out, &ids[inputs], &failure));
    for (const char *at = it->attrs; at && *at; count++) {
        size_t name = strcspn(at, "=");
        snprintf(names[count], sizeof names[count], "%.*s", (int)name, at);
        char *end;
        values[count] = strtoll(at + name + 1, &end, 10);
        attrs[count] = (tn_attr){
            .name = names[count], .type = TN_ATTR_INT, .count = 1, .ints = &values[count]};
        at = end + (*end == ' ');
    }
    tn_op_spec op = {.type = it->type,
                     .domain = "tflite",
                     .inputs = ids,
                     .input_count = inputs,
                     .outputs = ids + inputs,
                     .output_count = 1,
                     .attrs = attrs,
                     .attr_count = count};
    must(tn_graph_add_op(graph, &op, NULL, &failure));
    tn_status status = tn_graph_infer(graph, &failure);
    const tn_tensor *found = tn_graph_tensor(graph, ids[inputs]);
    *rank = found->rank;
    if (status == TN_OK) memcpy(shape, found->shape, found->rank * sizeof *shape);
    tn_graph_destroy(graph);
    return status;
}

static void single_operators_have_the_shapes_that_were_worked_out(void **state) {
    (void)state;
    static const one all[] = {
        {"CONV_2D", {"2,7,7,3", "8,3,3,3"}, "padding=0 stride_h=2 stride_w=2", "2,4,4,8"},
        {"CONV_2D", {"2,7,7,3", "8,3,3,3"}, "padding=1 stride_h=2 stride_w=1", "2,3,5,8"},
        {"CONV_2D", {"1,9,9,3", "8,3,3,3"}, "padding=1 dilation_h_factor=3", "1,3,7,8"},
        {"CONV_2D", {"1,2,9,3", "8,3,3,3"}, "padding=1", NULL},
        {"CONV_2D", {"1,2,9,3", "8,3,3,3"}, "stride_h=0", NULL},
        {"DEPTHWISE_CONV_2D", {"1,8,8,3", "1,3,3,6"}, "stride_w=2 stride_h=2", "1,4,4,6"},
        {"CONV_3D",
         {"1,8,8,8,3", "3,3,3,3,5"},
         "padding=1 stride_d=1 stride_h=1 stride_w=1",
         "1,6,6,6,5"},
        {"TRANSPOSE_CONV", {"=1,8,8,4", "4,3,3,2", "1,4,4,2"}, "", "1,8,8,4"},
        {"TRANSPOSE_CONV", {"=1,8,8,4", "4,3,3,2", "2,4,4,2"}, "", NULL},
        {"MAX_POOL_2D",
         {"1,9,9,3"},
         "padding=1 stride_h=2 stride_w=2 filter_height=3 filter_width=2",
         "1,4,4,3"},
        {"FULLY_CONNECTED", {"2,4,6", "5,12"}, "", "4,5"},
        {"FULLY_CONNECTED", {"2,4,6", "5,6"}, "keep_num_dims=1", "2,4,5"},
        {"FULLY_CONNECTED", {"2,5", "5,6"}, "", NULL},
        {"BATCH_MATMUL", {"7,1,2,3", "5,3,4"}, "", "7,5,2,4"},
        {"BATCH_MATMUL", {"3,2", "4,3"}, "adj_x=1 adj_y=1", "2,4"},
        {"ADD", {"2,1,3", "4,1"}, "", "2,4,3"},
        {"SELECT_V2", {"2,1", "1,3", "1"}, "", "2,3"},
        {"MEAN", {"2,3,4", "=-1,0"}, "keep_dims=0", "3"},
        {"MEAN", {"2,3,4", "=1"}, "keep_dims=1", "2,1,4"},
        {"ARG_MAX", {"2,3,4", "=-1"}, "", "2,3"},
        {"SVDF", {"2,10", "8,10", "8,5"}, "rank=2", "2,4"},
        {"CONCATENATION", {"2,3", "2,5"}, "axis=-1", "2,8"},
        {"CONCATENATION", {"2,3", "3,5"}, "axis=-1", NULL},
        {"PACK", {"2,3", "2,3"}, "axis=1", "2,2,3"},
        {"UNPACK", {"1,3"}, "axis=0", "3"},
        {"SPLIT", {"=1", "2,6"}, "", "2,6"},
        {"SPLIT_V", {"2,6", "=-1", "=1"}, "", "2,6"},
        {"SLICE", {"4,5", "=1,0", "=2,-1"}, "", "2,5"},
        {"SLICE", {"4,5", "=3,0", "=2,-1"}, "", NULL},
        {"STRIDED_SLICE", {"10,5", "=1,0", "=8,0", "=3,1"}, "end_mask=2", "3,5"},
        {"STRIDED_SLICE",
         {"10,5", "=-1,0", "=0,1", "=-3,1"},
         "begin_mask=0 end_mask=1 shrink_axis_mask=2",
         "4"},
        {"STRIDED_SLICE",
         {"4,5,6", "=0,2", "=0,3", "=1,1"},
         "ellipsis_mask=1 shrink_axis_mask=2",
         "4,5"},
        {"STRIDED_SLICE",
         {"4,5", "=0,0,0", "=0,0,0", "=1,1,1"},
         "begin_mask=7 end_mask=7 new_axis_mask=2",
         "4,1,5"},
        {"STRIDED_SLICE", {"4,5", "=0", "=2", "=0"}, "", NULL},
        {"RESHAPE", {"2,6", "=-1,4"}, "", "3,4"},
        {"RESHAPE", {"2,6", "=5,-1"}, "", NULL},
        {"RESHAPE", {"2,6", "=1,6"}, "", NULL},
        {"SQUEEZE", {"1,2,1,3"}, "", "2,3"},
        {"EXPAND_DIMS", {"2,3", "=-1"}, "", "2,3,1"},
        {"TRANSPOSE", {"2,3,4", "=2,0,1"}, "", "4,2,3"},
        {"PAD", {"2,3", "=1,1,0,2"}, "", "4,5"},
        {"TILE", {"2,3", "=2,1"}, "", "4,3"},
        {"BROADCAST_TO", {"3", "=2,3"}, "", "2,3"},
        {"FILL", {"=2,3", "1"}, "", "2,3"},
        {"RANGE", {"=2", "=9", "=3"}, "", "3"},
        {"RANGE", {"=9", "=2", "=-3"}, "", "3"},
        {"GATHER", {"5,6,7", "2,3"}, "axis=1", "5,2,3,7"},
        {"GATHER", {"5,6,7", "5,3"}, "axis=1 batch_dims=1", "5,3,7"},
        {"GATHER_ND", {"5,6,7", "4,2"}, "", "4,7"},
        {"ONE_HOT", {"2,3", "=9", "1", "1"}, "axis=-1", "2,3,9"},
        {"TOPK_V2", {"2,30", "=5"}, "", "2,5"},
        {"RESIZE_BILINEAR", {"1,4,4,3", "=8,6"}, "", "1,8,6,3"},
        {"SPACE_TO_DEPTH", {"1,4,6,3"}, "block_size=2", "1,2,3,12"},
        {"DEPTH_TO_SPACE", {"1,2,3,12"}, "block_size=2", "1,4,6,3"},
        {"SPACE_TO_BATCH_ND", {"1,4,6,3", "=2,2", "=0,0,1,1"}, "", "4,2,4,3"},
        {"BATCH_TO_SPACE_ND", {"4,2,4,3", "=2,2", "=0,0,1,1"}, "", "1,4,6,3"},
        {"SHAPE", {"4,2,4,3"}, "", "4"},
        {"EMBEDDING_LOOKUP", {"7", "100,16"}, "", "7,16"},
        {"MATRIX_DIAG", {"2,3"}, "", "2,3,3"},
        {"BROADCAST_ARGS", {"=2,1", "=5,1,3"}, "", "3"},
        {"UNIDIRECTIONAL_SEQUENCE_RNN", {"2,9,5", "7,5", "7,7"}, "", "2,9,7"},
        {"WHERE", {"2,3"}, "", "?"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t found[TN_RANK_MAX], expected[16];
        uint32_t rank;
        tn_status status = infer_one(&all[i], found, &rank);
        tn_status wanted = all[i].output == NULL             ? TN_E_INVALID
                           : strcmp(all[i].output, "?") == 0 ? TN_E_UNKNOWN
                                                             : TN_OK;
        if (status != wanted)
            fail_msg("case %zu, %s: %s, %s", i, all[i].type, tn_status_name(status),
                     failure.message);
        if (status != TN_OK) continue;
        uint32_t count = numbers(all[i].output, expected);
        if (rank != count || memcmp(found, expected, count * sizeof *found) != 0)
            fail_msg("case %zu, %s: rank %u, first extent %lld, not %s", i, all[i].type, rank,
                     rank ? (long long)found[0] : 0, all[i].output);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_that_real_files_state_follows_from_the_rules),
        cmocka_unit_test(single_operators_have_the_shapes_that_were_worked_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
