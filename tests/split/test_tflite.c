/* test_tflite.c - every operator of TensorFlow Lite that the registry can split, whole and in
 * parts, by a reference that knows who is made of what (tflite_reference.h): random shapes, axes
 * and numbers of parts, halos computed again and kept. */
#include <tenure/rewrite.h>

#include "graph/tiles/split.h"
#include "tflite_reference.h"

#define CASES 60u /* of each operator; another number as argument, and a seed */

static uint32_t cases = CASES;
static uint32_t seed = 20261127u;

typedef struct bench {
    tn__random random;
    tn_dtype inner; /* of inputs; 0: TN_INT8 */
    tn_graph *graph;
    const char *type;
    tn_tensor_id inputs[8];
    uint32_t input_count, names;
    tn_attr attrs[8];
    int64_t numbers[8];
    uint32_t attr_count, rank;
    int64_t shape[4]; /* of what comes out */
} bench;

static int64_t draw(bench *at, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}

static tn_tensor_id tensor(bench *at, tn_kind kind, uint32_t rank, const int64_t *shape) {
    char name[24];
    tn_tensor_id id;
    bool inner = at->inner != TN_UNDEFINED && kind != TN_KIND_PARAMETER;
    tn_tensor_spec spec = {.name = name,
                           .dtype = inner ? at->inner : TN_INT8,
                           .kind = kind,
                           .rank = rank,
                           .shape = shape};
    snprintf(name, sizeof name, "t%u", at->names++);
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    return id;
}

static void add_input(bench *at, uint32_t rank, const int64_t *shape) {
    at->inputs[at->input_count++] = tensor(at, TN_KIND_INPUT, rank, shape);
}
static void add_weights(bench *at, uint32_t rank, const int64_t *shape) {
    at->inputs[at->input_count++] = tensor(at, TN_KIND_PARAMETER, rank, shape);
}
static void add_ints(bench *at, const int64_t *ints, uint32_t count, uint32_t columns) {
    int64_t shape[2] = {columns > 0 ? count / columns : count, columns};
    char name[24];
    tn_tensor_spec spec = {.name = name,
                           .dtype = TN_INT32,
                           .kind = TN_KIND_CONSTANT,
                           .rank = columns > 0 ? 2 : 1,
                           .shape = shape,
                           .value = {.count = count, .ints = ints}};
    snprintf(name, sizeof name, "ints%u", at->names++);
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &at->inputs[at->input_count++], NULL),
                     TN_OK);
}
static void add_int(bench *at, const char *name, int64_t value) {
    int64_t *number = &at->numbers[at->attr_count];
    *number = value;
    at->attrs[at->attr_count++] =
        (tn_attr){.name = name, .type = TN_ATTR_INT, .count = 1, .ints = number};
}
static void gives(bench *at, uint32_t rank, const int64_t *shape) {
    at->rank = rank;
    if (rank > 0) memcpy(at->shape, shape, rank * sizeof *shape);
}

/* --- operators --- */

static void make_one(bench *at) {
    int64_t shape[4];
    uint32_t rank = (uint32_t)draw(at, 1, 4);
    for (uint32_t d = 0; d < rank; d++) shape[d] = draw(at, 1, 7);
    add_input(at, rank, shape);
    gives(at, rank, shape);
}

static void make_many(bench *at, uint32_t count) {
    int64_t own[4];
    make_one(at);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t less = (uint32_t)draw(at, 0, at->rank - 1);
        for (uint32_t d = less; d < at->rank; d++)
            own[d - less] = draw(at, 0, 3) == 0 ? 1 : at->shape[d];
        add_input(at, at->rank - less, own);
    }
}
static void make_two(bench *at) { make_many(at, 2); }
static void make_three(bench *at) { make_many(at, 3); }

/* Sizes, strides and padding of a window over an image, and what it makes. */
static void make_window(bench *at, const int64_t *image, int64_t filters) {
    static const char *const strides[] = {"stride_h", "stride_w"};
    static const char *const names[2][2] = {{"dilation_h_factor", "dilation_w_factor"},
                                            {"filter_height", "filter_width"}};
    bool pools = strstr(at->type, "POOL") != NULL;
    bool depthwise = strcmp(at->type, "DEPTHWISE_CONV_2D") == 0, valid = draw(at, 0, 2) == 0;
    int64_t taps[2], made[4] = {image[0], 0, 0, filters};
    for (uint32_t i = 0; i < 2; i++) {
        int64_t stride = draw(at, 1, 3), dilation = pools || draw(at, 0, 2) ? 1 : 2;
        taps[i] = draw(at, 1, 4);
        if ((taps[i] - 1) * dilation >= image[1 + i]) dilation = 1;
        int64_t reach = (taps[i] - 1) * dilation + 1;
        made[1 + i] =
            valid ? (image[1 + i] - reach) / stride + 1 : (image[1 + i] + stride - 1) / stride;
        add_int(at, strides[i], stride);
        add_int(at, names[pools][i], pools ? taps[i] : dilation);
    }
    add_int(at, "padding", valid);
    int64_t w[4] = {depthwise ? 1 : filters, taps[0], taps[1], depthwise ? filters : image[3]};
    if (!pools) add_weights(at, 4, w);
    if (!pools && draw(at, 0, 1)) add_weights(at, 1, &filters);
    gives(at, 4, made);
}
static void make_band(bench *at) {
    int64_t image[4] = {draw(at, 1, 2), draw(at, 4, 17), draw(at, 4, 17), draw(at, 1, 4)};
    bool pools = strstr(at->type, "POOL") != NULL;
    bool depthwise = strcmp(at->type, "DEPTHWISE_CONV_2D") == 0;
    add_input(at, 4, image);
    make_window(at, image,
                pools       ? image[3]
                : depthwise ? image[3] * draw(at, 1, 2)
                            : draw(at, 1, 5));
}

static void make_rows(bench *at) {
    make_one(at);
    if (strcmp(at->type, "FULLY_CONNECTED") != 0) return;
    int64_t w[2] = {draw(at, 1, 6), at->shape[at->rank - 1]};
    add_weights(at, 2, w);
    if (draw(at, 0, 1)) add_weights(at, 1, w);
    add_int(at, "keep_num_dims", 1);
    at->shape[at->rank - 1] = w[0];
}

static void make_reduce(bench *at) {
    int64_t x[4] = {draw(at, 1, 4), draw(at, 1, 5), draw(at, 1, 5), draw(at, 1, 4)}, y[4];
    int64_t axes[2] = {draw(at, 0, 1), draw(at, -2, -1)}, keeps = draw(at, 0, 1);
    uint32_t count = (uint32_t)draw(at, 1, 2), rank = 0;
    add_input(at, 4, x);
    add_ints(at, axes, count, 0);
    add_int(at, "keep_dims", keeps);
    for (int64_t d = 0; d < 4; d++) {
        bool gone = d == axes[0] || (count > 1 && d == axes[1] + 4);
        if (!gone || keeps) y[rank++] = gone ? 1 : x[d];
    }
    gives(at, rank, y);
}

static void make_transpose(bench *at) {
    int64_t x[4], y[4], perm[4] = {0, 1, 2, 3};
    for (uint32_t d = 0; d < 4; d++) x[d] = draw(at, 1, 6);
    for (uint32_t d = 3; d > 0; d--) {
        uint32_t other = (uint32_t)draw(at, 0, d);
        int64_t swap = perm[d];
        perm[d] = perm[other];
        perm[other] = swap;
    }
    for (uint32_t d = 0; d < 4; d++) y[d] = x[perm[d]];
    add_input(at, 4, x);
    add_ints(at, perm, 4, 0);
    gives(at, 4, y);
}

static void make_pad(bench *at) {
    int64_t x[4], pads[8], y[4];
    for (uint32_t d = 0; d < 4; d++) {
        x[d] = draw(at, 1, 6);
        pads[2 * d] = draw(at, 0, 2);
        pads[2 * d + 1] = draw(at, 0, 2);
        y[d] = x[d] + pads[2 * d] + pads[2 * d + 1];
    }
    add_input(at, 4, x);
    add_ints(at, pads, 8, 2);
    gives(at, 4, y);
}

static void make_concat(bench *at) {
    int64_t x[4], all = 0;
    uint32_t count = (uint32_t)draw(at, 1, 4), axis = (uint32_t)draw(at, 0, 3);
    for (uint32_t d = 0; d < 4; d++) x[d] = draw(at, 1, 5);
    for (uint32_t i = 0; i < count; i++) {
        x[axis] = draw(at, 1, 4);
        all += x[axis];
        add_input(at, 4, x);
    }
    x[axis] = all;
    add_int(at, "axis", draw(at, 0, 1) ? (int64_t)axis : (int64_t)axis - 4);
    gives(at, 4, x);
}

typedef void make(bench *at);

/* By the rule that answers for it, or by name where that is not enough. */
static make *make_of(const tn_op_rule *rule) {
    static const struct {
        bool (*split)(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
        make *makes;
    } made[] = {{tn__split_first, make_one},
                {tn__split_each, make_two},
                {tn__split_band, make_band},
                {tn__split_tflite_pad, make_pad},
                {tn__split_tflite_concat, make_concat},
                {tn__split_tflite_rows, make_rows},
                {tn__split_tflite_reduce, make_reduce},
                {tn__split_tflite_transpose, make_transpose}};
    if (strcmp(rule->type, "SELECT_V2") == 0) return make_three;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (rule->split == made[i].split) return made[i].makes;
    return NULL;
}

/* --- one case --- */

static tn_op_id add(bench *at) {
    tn_op_id id;
    tn_error error;
    tn_tensor_id y = tensor(at, TN_KIND_OUTPUT, at->rank, at->shape);
    tn_op_spec spec = {.name = at->type,
                       .type = at->type,
                       .domain = "tflite",
                       .version = 1,
                       .inputs = at->inputs,
                       .outputs = &y,
                       .attrs = at->attrs,
                       .input_count = at->input_count,
                       .output_count = 1,
                       .attr_count = at->attr_count};
    assert_int_equal(tn_graph_add_op(at->graph, &spec, &id, NULL), TN_OK);
    if (tn_graph_infer(at->graph, &error) != TN_OK) fail_msg("%s: %s", at->type, error.message);
    return id;
}

static tn_op_id build(bench *at, make *makes) {
    at->input_count = at->attr_count = at->names = 0;
    assert_int_equal(tn_graph_create(NULL, &at->graph, NULL), TN_OK);
    makes(at);
    return add(at);
}

static bool choose(bench *at, tn_op_id id, tn_split_region *region) {
    uint32_t axes[TN_RANK_MAX], count = 0;
    for (uint32_t d = 0; d < at->rank; d++)
        if (at->shape[d] > 1 && tn__op_splits(at->graph, id, d)) axes[count++] = d;
    if (count == 0) return false;
    uint32_t one = (uint32_t)draw(at, 0, count - 1), two = (uint32_t)draw(at, 0, count - 1);
    *region = (tn_split_region){.first = id, .last = id, .axes = {axes[one], axes[two]}};
    for (uint32_t c = 0; c < 2; c++)
        region->parts[c] = (uint32_t)draw(at, 2, at->shape[region->axes[c]]);
    region->keep = draw(at, 0, 1) == 0;
    if (one == two || region->keep) region->parts[1] = 1;
    return true;
}

/* True: there was something to cut. */
static bool try_case(bench *at, make *makes, uint32_t number) {
    tn_split_region region;
    tn_graph *split;
    tn_error error = {0};
    at->random.state = seed + 7919 * (uint64_t)number;
    tn_op_id id = build(at, makes);
    bool cut = choose(at, id, &region);
    if (cut) cut = tn_graph_split(at->graph, &region, 1, NULL, &split, &error) == TN_OK;
    /* A part may read nothing but padding: that is told, and no part is made. */
    if (!cut && error.message[0] != '\0' &&
        strstr(error.message, "cannot compute one of the parts") == NULL)
        fail_msg("%s (case %u): %s: %s", at->type, number, error.where, error.message);
    if (cut) {
        if (!reference_same(at->graph, split, number))
            fail_msg("%s (case %u of seed %u): %u parts of axis %u, %u of %u: other results",
                     at->type, number, seed, region.parts[0], region.axes[0], region.parts[1],
                     region.axes[1]);
        tn_graph_destroy(split);
    }
    tn_graph_destroy(at->graph);
    return cut;
}

static void an_operator_of_tflite_in_parts_computes_what_it_computes_whole(void **state) {
    bench at = {0};
    uint32_t done = 0, operators = 0;
    (void)state;
    for (uint32_t i = 0; i < tn_op_rule_count(); i++) {
        const char *type = tn_op_rule_type(i);
        if (strcmp(tn_op_rule_domain(i), "tflite") != 0 || !tn_op_rule_has_split(i)) continue;
        make *makes = make_of(tn__op_rule("tflite", type));
        if (makes == NULL) fail_msg("no case for %s", type);
        uint32_t cut = 0;
        at.type = type;
        /* Some draws have nothing to cut. */
        for (uint32_t k = 0; cut < cases && k < 20 * cases; k++)
            cut += try_case(&at, makes, i * 1009 + k);
        if (cut < cases) fail_msg("%s was cut in %u cases of %u", type, cut, cases);
        done += cut;
        operators++;
    }
    printf("%u operators, %u cases\n", operators, done);
    assert_true(operators > 0 && done == operators * cases);
}

/* The reference tells operators apart that read one element more or less. */
static void the_reference_sees_a_wrong_element(void **state) {
    bench at = {.type = "MAX_POOL_2D", .random = {seed}};
    tn_graph *right;
    (void)state;
    for (uint32_t k = 0; k < 20; k++) {
        at.random.state = k;
        build(&at, make_band);
        right = at.graph;
        at.random.state = k;
        build(&at, make_band);
        assert_true(reference_same(right, at.graph, k));
        tn_graph_destroy(at.graph);
        at.random.state = k;
        at.type = "AVERAGE_POOL_2D";
        build(&at, make_band);
        assert_false(reference_same(right, at.graph, k));
        at.type = "MAX_POOL_2D";
        tn_graph_destroy(at.graph);
        tn_graph_destroy(right);
    }
}

static void make_hybrid(bench *at) {
    const int64_t image[4] = {2, 9, 9, 3};
    add_input(at, 4, image);
    make_window(at, image, 3);
}

/* Its run time quantises each image by the range of all of it: images are cut from each other. */
static void a_hybrid_convolution_is_cut_along_the_batch_alone(void **state) {
    static const char *const types[] = {"CONV_2D", "DEPTHWISE_CONV_2D"};
    (void)state;
    for (uint32_t k = 0; k < 40; k++) {
        bench at = {.type = types[k % 2], .random = {seed + k}, .inner = TN_FLOAT32};
        tn_error error;
        tn_graph *split;
        tn_op_id id = build(&at, make_hybrid);
        for (uint32_t axis = 0; axis < 4; axis++)
            assert_true(tn__op_splits(at.graph, id, axis) == (axis == 0));
        tn_split_region region = {.first = id, .last = id, .parts = {2, 1}};
        assert_int_equal(tn_graph_split(at.graph, &region, 1, NULL, &split, &error), TN_OK);
        assert_true(reference_same(at.graph, split, k));
        tn_graph_destroy(split);
        tn_graph_destroy(at.graph);
    }
}

typedef enum wrong { WRONG_LACKS_ONE, WRONG_LACKS_REST, WRONG_RANK } wrong;

/* A file states shapes, so an operator can lack inputs that its kernel needs (input k, or all from
 * there on), and its output can have any rank (k + 1). */
static void try_wrong(bench *at, make *makes, wrong kind, uint32_t k) {
    tn_op_id id;
    build(at, makes);
    uint32_t count = kind == WRONG_LACKS_REST ? k : at->input_count;
    if (kind == WRONG_LACKS_ONE) at->inputs[k] = TN_NONE;
    for (; kind == WRONG_RANK && at->rank <= k; at->rank++) at->shape[at->rank] = 4;
    if (kind == WRONG_RANK) at->rank = k + 1;
    tn_tensor_id y = tensor(at, TN_KIND_OUTPUT, at->rank, at->shape);
    tn_op_spec spec = {.name = "wrong",
                       .type = at->type,
                       .domain = "tflite",
                       .version = 1,
                       .inputs = at->inputs,
                       .outputs = &y,
                       .attrs = at->attrs,
                       .input_count = count,
                       .output_count = 1,
                       .attr_count = at->attr_count};
    assert_int_equal(tn_graph_add_op(at->graph, &spec, &id, NULL), TN_OK);
    tn_status inferred = tn_graph_infer(at->graph, NULL);
    assert_true(inferred == TN_OK || inferred == TN_E_INVALID || inferred == TN_E_UNSUPPORTED);
    for (uint32_t axis = 0; axis < at->rank; axis++) {
        tn_graph *split = NULL;
        tn_split_region region = {.first = id, .last = id, .axes = {axis}, .parts = {2, 1}};
        bool cut = tn__op_splits(at->graph, id, axis);
        if (cut && tn_graph_split(at->graph, &region, 1, NULL, &split, NULL) == TN_OK)
            tn_graph_destroy(split);
    }
    tn_graph_destroy(at->graph);
}

static void what_a_file_states_wrongly_is_not_cut(void **state) {
    bench at = {.random = {seed}};
    (void)state;
    for (uint32_t i = 0; i < tn_op_rule_count(); i++) {
        at.type = tn_op_rule_type(i);
        if (strcmp(tn_op_rule_domain(i), "tflite") != 0 || !tn_op_rule_has_split(i)) continue;
        make *makes = make_of(tn__op_rule("tflite", at.type));
        build(&at, makes);
        uint32_t count = at.input_count;
        tn_graph_destroy(at.graph);
        for (uint32_t k = 0; k < count; k++) {
            try_wrong(&at, makes, WRONG_LACKS_ONE, k);
            try_wrong(&at, makes, WRONG_LACKS_REST, k);
        }
        for (uint32_t k = 0; k < 4; k++) try_wrong(&at, makes, WRONG_RANK, k);
    }
}

/* Sizes and strides of a hostile file: an answer, and at once. */
static void windows_of_any_size_are_answered_at_once(void **state) {
    static const int64_t strides[] = {1, 2, 255, 256, 257, INT32_MAX};
    (void)state;
    for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
        bench at = {.type = "AVERAGE_POOL_2D"};
        int64_t extent = INT32_MAX - 7, made = (extent + strides[k] - 1) / strides[k];
        assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
        add_input(&at, 4, (int64_t[]){1, extent, 1, 1});
        add_int(&at, "stride_h", strides[k]);
        add_int(&at, "stride_w", 1);
        add_int(&at, "filter_height", INT32_MAX);
        add_int(&at, "filter_width", 1);
        gives(&at, 4, (int64_t[]){1, made, 1, 1});
        tn_op_id id = add(&at);
        for (int64_t last = 1; last < made; last = 2 * last + 1) {
            tn__tile part = {1, last / 2, last};
            tn__need need;
            bool cut = tn__op_split(at.graph, id, &part, 0, &need);
            assert_true(!cut || (need.first >= 0 && need.last <= extent));
        }
        tn_graph_destroy(at.graph);
    }
}

int main(int count, char **words) {
    if (count > 1) cases = (uint32_t)atoi(words[1]);
    if (count > 2) seed = (uint32_t)atoi(words[2]);
    printf("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_of_tflite_in_parts_computes_what_it_computes_whole),
        cmocka_unit_test(the_reference_sees_a_wrong_element),
        cmocka_unit_test(a_hybrid_convolution_is_cut_along_the_batch_alone),
        cmocka_unit_test(windows_of_any_size_are_answered_at_once),
        cmocka_unit_test(what_a_file_states_wrongly_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
