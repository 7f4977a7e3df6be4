/* Every operator of the registry with operands, attributes and contents that make no sense: no
 * crash, no undefined behaviour, an error with words, and facts that hold whatever was inferred. */
#include <tenure/program.h>
#include "kit.h"

static const char *const int_names[] = {"axis",
                                        "keepdims",
                                        "allowzero",
                                        "to",
                                        "dtype",
                                        "blocksize",
                                        "group",
                                        "batch_dims",
                                        "start",
                                        "end",
                                        "k",
                                        "num_outputs",
                                        "num_scan_inputs",
                                        "new_axis",
                                        "exclusive",
                                        "noop_with_empty_axes",
                                        "ceil_mode",
                                        "hidden_size",
                                        "layout",
                                        "transA",
                                        "transB",
                                        "num_heads",
                                        "select_last_index",
                                        "storage_order",
                                        "training_mode",
                                        "center_point_box",
                                        "output_height",
                                        "output_width",
                                        "sampling_ratio",
                                        "onesided",
                                        "size",
                                        "p",
                                        "linear_before_reset",
                                        "fmod",
                                        "sorted",
                                        "upper"};
static const char *const list_names[] = {
    "axes",           "perm",         "shape",           "starts",           "ends",
    "split",          "pads",         "strides",         "dilations",        "kernel_shape",
    "output_padding", "output_shape", "scan_input_axes", "scan_output_axes", "value_ints",
    "paddings"};
static const char *const text_names[][3] = {
    {"mode", "linear", "cubic"},         {"auto_pad", "SAME_UPPER", "VALID"},
    {"reduction", "none", "add"},        {"direction", "bidirectional", "LEFT"},
    {"equation", "ij,jk->ik", "...i->"}, {"coordinate_transformation_mode", "asymmetric", "?"}};

static int64_t random_number(tn__random *random) {
    static const int64_t odd[] = {0,       -1, INT64_MAX, INT64_MIN, INT32_MAX,
                                  1 << 20, 64, 65,        -64,       INT64_C(1) << 40};
    return tn__random_below(random, 5) ? (int64_t)tn__random_below(random, 7) - 2
                                       : odd[tn__random_below(random, 10)];
}

static uint32_t random_shape(tn__random *random, int64_t *shape, bool small) {
    uint32_t rank = (uint32_t)tn__random_below(random, 6);
    if (!tn__random_below(random, 300)) rank = TN_RANK_MAX;
    for (uint32_t d = 0; d < rank; d++) {
        shape[d] = (int64_t)tn__random_below(random, rank > 6 ? 2 : 5);
        if (!small && !tn__random_below(random, 12)) shape[d] = TN_DIM_UNKNOWN;
        if (!small && !tn__random_below(random, 40)) shape[d] = INT64_C(1) << 20;
        if (!small && !tn__random_below(random, 300)) shape[d] = INT64_MAX;
    }
    return rank;
}

static tn_tensor_id random_operand(test_kit *kit, tn__random *random) {
    static const tn_dtype types[] = {TN_FLOAT32, TN_INT64, TN_INT64,  TN_BOOL,   TN_INT32,
                                     TN_UINT8,   TN_INT4,  TN_STRING, TN_FLOAT16};
    int64_t shape[TN_RANK_MAX], ints[64];
    double floats[64];
    tn_dtype dtype = types[tn__random_below(random, 9)];
    uint64_t sort = tn__random_below(random, 8);
    if (sort == 0) return TN_NONE;
    if (sort < 4) { /* contents known: shapes, axes, indices */
        int64_t count = (int64_t)tn__random_below(random, 6);
        uint32_t rank = tn__random_below(random, 4) ? 1 : 0;
        for (int i = 0; i < 64; i++) floats[i] = (double)(ints[i] = random_number(random));
        bool real = dtype == TN_FLOAT32 || dtype == TN_FLOAT16;
        if (dtype == TN_STRING) dtype = TN_INT64;
        return kit_constant(kit, dtype, rank, &count, real ? NULL : ints, real ? floats : NULL);
    }
    uint32_t rank = random_shape(random, shape, false);
    if (sort == 7 && tn__random_below(random, 2)) rank = TN_RANK_UNKNOWN;
    tn_tensor_spec spec = {.name = "in",
                           .kind = TN_KIND_INPUT,
                           .dtype = dtype,
                           .rank = rank,
                           .shape = shape,
                           .flags = tn__random_below(random, 8) ? 0 : TN_TENSOR_BOUND};
    if (!tn__random_below(random, 20)) spec.flags |= TN_TENSOR_SEQUENCE;
    tn_tensor_id id = TN_NONE;
    kit_check(kit, tn_graph_add_tensor(kit->graph, &spec, &id, &kit->error));
    return id;
}

static void random_attributes(test_kit *kit, tn__random *random, int64_t lists[4][8]) {
    for (uint32_t i = (uint32_t)tn__random_below(random, 4); i > 0; i--)
        kit_attr_int(kit, int_names[tn__random_below(random, sizeof int_names / sizeof *int_names)],
                     random_number(random));
    for (uint32_t i = (uint32_t)tn__random_below(random, 3); i > 0; i--) {
        size_t count = tn__random_below(random, 6);
        for (size_t j = 0; j < count; j++) lists[i][j] = random_number(random);
        kit_attr_ints(kit,
                      list_names[tn__random_below(random, sizeof list_names / sizeof *list_names)],
                      count, lists[i]);
    }
    if (!tn__random_below(random, 3)) {
        uint64_t which = tn__random_below(random, 6);
        kit_attr_string(kit, text_names[which][0],
                        text_names[which][1 + tn__random_below(random, 2)]);
    }
}

/* What must hold of every operator, inferred or not. */
static void check_facts(const test_kit *kit, tn_op_id id) {
    const tn_op *op = tn_graph_op(kit->graph, id);
    (void)tn_op_cost(kit->graph, id);
    (void)tn_op_workspace(kit->graph, id);
    for (uint32_t i = 0; i < op->output_count; i++) {
        tn_view view = tn_op_view(kit->graph, id, i);
        uint64_t inplace = tn_op_inplace(kit->graph, id, i);
        if (op->outputs[i] == TN_NONE) continue;
        const tn_tensor *output = kit_at(kit, op->outputs[i]);
        for (uint32_t d = 0; output->rank != TN_RANK_UNKNOWN && d < output->rank; d++)
            assert_true(output->shape[d] >= 0 || output->shape[d] == TN_DIM_UNKNOWN);
        if (view.source != TN_NONE && !view.whole)
            assert_true(view.offset + output->bytes <= kit_at(kit, view.source)->bytes);
        for (uint32_t k = 0; k < op->input_count && k < 64; k++)
            if (inplace >> k & 1)
                assert_int_equal(kit_at(kit, op->inputs[k])->bytes, output->bytes);
        if (output->value) {
            uint64_t count = 1;
            for (uint32_t d = 0; d < output->rank; d++) count *= (uint64_t)output->shape[d];
            assert_int_equal(output->value->count, count);
        }
    }
}

static void no_operand_makes_an_operator_crash(void **state) {
    (void)state;
    uint32_t rules = tn_op_rule_count(), inferred = 0;
    for (uint64_t seed = 1; seed <= 60 * rules; seed++) {
        tn__random random = {seed};
        test_kit kit = kit_open();
        uint32_t rule = (uint32_t)(seed % rules),
                 outputs = 1 + (uint32_t)tn__random_below(&random, 3);
        uint32_t inputs = (uint32_t)tn__random_below(&random, 6);
        tn_tensor_id in[8], out[4];
        int64_t lists[4][8];
        for (uint32_t i = 0; i < inputs; i++) in[i] = random_operand(&kit, &random);
        for (uint32_t i = 0; i < outputs; i++)
            out[i] = i && !tn__random_below(&random, 4) ? TN_NONE : kit_open_tensor(&kit, "out");
        random_attributes(&kit, &random, lists);
        tn_op_spec spec = {.name = "it",
                           .type = tn_op_rule_type(rule),
                           .domain = tn_op_rule_domain(rule),
                           .version = (uint32_t)tn__random_below(&random, 22),
                           .inputs = in,
                           .outputs = out,
                           .attrs = kit.attrs,
                           .input_count = inputs,
                           .output_count = outputs,
                           .attr_count = kit.attr_count};
        tn_op_id id;
        kit_check(&kit, tn_graph_add_op(kit.graph, &spec, &id, &kit.error));
        if (out[0] != TN_NONE) kit_op(&kit, "Shape", KIT_LIST(out[0])); /* and one after it */
        tn_status status = tn_graph_infer(kit.graph, &kit.error);
        inferred += status == TN_OK;
        if (status != TN_OK &&
            (status == TN_E_INTERNAL || !kit.error.message[0] || !kit.error.where[0]))
            fail_msg("seed %llu, %s: %s without words: '%s'", (unsigned long long)seed, spec.type,
                     tn_status_name(status), kit.error.message);
        check_facts(&kit, id);
        kit_close(&kit);
    }
    assert_true(inferred > rules); /* some made sense after all */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_operand_makes_an_operator_crash)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
