/* test_parameters.c - what is a parameter and what only looks like it, and what of a model's end is
 * part of the loss.
 */
#include "steps.h"

/* Makes the training graph and tells what is trained, as " name name". */
static const char *trained_names(net *n, const tn_train_options *options) {
    static char names[600];
    tn_training training;
    size_t at = 0;
    names[0] = 0;
    net_ok(n, tn_train(n->graph, options, &training, &n->error));
    for (uint32_t i = 0; i < training.parameter_count; i++)
        at += (size_t)snprintf(
            names + at, sizeof names - at, " %s",
            tn_graph_tensor(training.graph, training.parameters[i].parameter)->name);
    tn_training_release(&training);
    return names;
}

/* An Identity whose node and output have these names. */
static tn_tensor_id identity(net *n, tn_tensor_id x, const char *node, const char *name) {
    tn_tensor_id y = net_tensor(n, name, TN_KIND_ACTIVATION, TN_UNDEFINED, TN_RANK_UNKNOWN, NULL);
    tn_op_spec spec = {.name = node,
                       .type = "Identity",
                       .version = n->version,
                       .inputs = &x,
                       .input_count = 1,
                       .outputs = &y,
                       .output_count = 1};
    net_ok(n, tn_graph_add_op(n->graph, &spec, NULL, &n->error));
    return y;
}

/* Two layers whose weights are one initializer in the file. */
static void two_layers(net *n, const char *node) {
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(3, 4));
    tn_tensor_id w = net_param(n, "first.weight", 1, NET_SHAPE(4, 4));
    x = net_op(n, "Tanh", NET_LIST(net_op(n, "MatMul", NET_LIST(x, w))));
    net_output(n, net_op(n, "MatMul", NET_LIST(x, identity(n, w, node, "second.weight"))));
}

static void what_an_exporter_merged_is_parted_again(void **state) {
    const setting plain = {.poison = true};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    options.optimizer = TN_OPTIMIZER_NONE;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        net n;
        steps s;
        net_open(&n, TN_FLOAT64, seed);
        two_layers(&n, "Identity_0");
        assert_string_equal(trained_names(&n, &options), " first.weight second.weight");
        for (uint32_t i = 0; i < NET_TENSORS; i++) { /* contents: by payload in a file */
            if (i >= tn_graph_tensor_count(n.graph)) break;
            if (strcmp(tn_graph_tensor(n.graph, i)->name, "second.weight") != 0) continue;
            n.contents[i] = malloc(16 * sizeof(double));
            for (int k = 0; k < 16; k++) n.contents[i][k] = 0.1 * k;
        }
        steps_open(&s, &n, &options, &plain);
        double *labels = steps_draw_labels(&s, 0);
        steps_check_gradients(&s, 1e-6, "parted", seed);
        free(labels);
        steps_close(&s);
        net_close(&n);
    }
}

static void any_other_identity_is_the_same_parameter(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        net n;
        net_open(&n, TN_FLOAT64, seed);
        two_layers(&n, "tie");
        assert_string_equal(trained_names(&n, &options), " first.weight");
        steps_check_net(&n, TN_LOSS_MEAN_SQUARED, 0, "tied", seed);
        net_close(&n);
    }
}

/* The payload of what was merged is that of what stayed, and inference sees the same parameters. */
static void parted_parameters_begin_with_the_same_bytes(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    tn_graph *evaluation;
    net n;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_open(&n, TN_FLOAT32, 1);
    two_layers(&n, "Identity_7");
    tn_tensor_id w = 1;
    tn_tensor now = *tn_graph_tensor(n.graph, w);
    tn_tensor_spec spec = {.dtype = now.dtype,
                           .kind = now.kind,
                           .rank = now.rank,
                           .shape = now.shape,
                           .payload = {.offset = 77, .size = 64}};
    assert_string_equal(now.name, "first.weight");
    net_ok(&n, tn_graph_set_tensor(n.graph, w, &spec, &n.error));
    net_ok(&n, tn_graph_infer(n.graph, &n.error));
    net_ok(&n, tn_train(n.graph, &options, &training, &n.error));
    net_ok(&n, tn_train_model(n.graph, &options, &evaluation, &n.error));
    for (uint32_t i = 0; i < 2; i++) {
        tn_tensor_id id = training.parameters[i].parameter;
        assert_int_equal(tn_graph_tensor(training.graph, id)->payload.offset, 77);
        assert_int_equal(tn_graph_tensor(evaluation, id)->payload.offset, 77);
        assert_int_equal(tn_graph_tensor(evaluation, id)->kind, TN_KIND_PARAMETER);
        assert_string_equal(tn_graph_tensor(evaluation, id)->name,
                            tn_graph_tensor(training.graph, id)->name);
    }
    assert_int_equal(tn_graph_op_count(evaluation), tn_graph_op_count(n.graph) - 1);
    assert_int_equal(tn_graph_block(evaluation, 0)->output_count, 1);
    tn_graph_destroy(evaluation);
    tn_training_release(&training);
    net_close(&n);
}

/* Normalisations whose scales, biases and statistics were all equal. */
static void a_merged_normalisation_trains(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    net n;
    (void)state;
    net_open(&n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(2, 3, 4, 4));
    tn_tensor_id ones = net_param(&n, "bn1.weight", 1, NET_SHAPE(3));
    tn_tensor_id zeros = net_param(&n, "bn1.bias", 1, NET_SHAPE(3));
    tn_tensor_id mean = identity(&n, zeros, "Identity_0", "bn1.running_mean");
    tn_tensor_id variance = identity(&n, ones, "Identity_1", "bn1.running_var");
    x = net_op(&n, "BatchNormalization", NET_LIST(x, ones, zeros, mean, variance));
    tn_tensor_id scale = identity(&n, ones, "Identity_2", "bn2.weight");
    tn_tensor_id bias = identity(&n, zeros, "Identity_3", "bn2.bias");
    mean = identity(&n, zeros, "Identity_4", "bn2.running_mean");
    variance = identity(&n, ones, "Identity_5", "bn2.running_var");
    x = net_op(&n, "BatchNormalization", NET_LIST(x, scale, bias, mean, variance));
    net_output(&n, x);
    assert_string_equal(trained_names(&n, &options), " bn1.weight bn1.bias bn2.weight bn2.bias");
    net_ok(&n, tn_train(n.graph, &options, &training, &n.error));
    assert_int_equal(training.statistic_count, 4);
    tn_training_release(&training);
    net_close(&n);
}

/* --- constants of a formula --- */

static void numbers_of_a_formula_are_no_parameters(void **state) {
    static const struct {
        const char *name;
        bool trained;
    } all[] = {{"gamma", true},         {"block.0.scale", true}, {"_x1", true},
               {"463", false},          {"onnx::Mul_7", false},  {"const_fold_opt__3", false},
               {"a/Constant_0", false}, {"Const", false},        {"model/mul/y:0", false},
               {"a..b", false},         {"a.", false},           {"", false},
               {"constant_1", false},   {"a.CONSTANT", false},   {"_tensor_constant0", false},
               {"myConst.x", false},    {"ConstNode_2", false},  {"reconstruction.alpha", true},
               {"constraint", true},    {"inconstant.b", true},  {"const1", false},
               {"Reconst.b", true},     {"a.constancy", true}};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint32_t rank = 0; rank < 3; rank++) {
            net n;
            char expected[80] = " w";
            const int64_t ones[] = {1, 1};
            net_open(&n, TN_FLOAT64, 1);
            tn_tensor_id x = net_input(&n, "x", NET_SHAPE(2, 3));
            tn_tensor_id w = net_param(&n, "w", 1, NET_SHAPE(3, 4));
            tn_tensor_id a = net_param(&n, all[i].name, 1, rank, ones);
            x = net_op(&n, "Mul", NET_LIST(net_op(&n, "MatMul", NET_LIST(x, w)), a));
            net_output(&n, x);
            if (all[i].trained) snprintf(expected, sizeof expected, " w %s", all[i].name);
            assert_string_equal(trained_names(&n, &options), expected);
            steps_check_net(&n, TN_LOSS_MEAN_SQUARED, 0, all[i].name, 1);
            const char *const pattern = all[i].name; /* by name after all */
            options.train = &pattern;
            options.train_count = 1;
            snprintf(expected, sizeof expected, " w %s", all[i].name);
            assert_string_equal(trained_names(&n, &options), expected);
            options.train_count = 0;
            net_close(&n);
        }
}

/* One element that is a weight all the same: a slope, a bias of one channel. */
static void a_weight_of_one_element_is_trained(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_open(&n, TN_FLOAT64, 1);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(2, 3, 4, 4));
    tn_tensor_id w = net_param(&n, "1", 1, NET_SHAPE(1, 3, 3, 3));
    tn_tensor_id b = net_param(&n, "2", 1, NET_SHAPE(1));
    tn_tensor_id slope = net_param(&n, "3", 1, NET_SHAPE(1));
    x = net_op(&n, "PRelu", NET_LIST(net_op(&n, "Conv", NET_LIST(x, w, b)), slope));
    net_output(&n, x);
    assert_string_equal(trained_names(&n, &options), " 1 2 3");
    net_close(&n);
}

static void a_mask_is_not_trained(void **state) {
    static const char *const names[] = {"mask"};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    for (int k = 0; k < 3; k++) { /* 1: named by the user; 2: scores that no Softmax reads */
        net n;
        net_open(&n, TN_FLOAT64, 1);
        tn_tensor_id x = net_input(&n, "x", NET_SHAPE(2, 4, 3));
        tn_tensor_id w = net_param(&n, "w", 1, NET_SHAPE(3, 4));
        tn_tensor_id bias = net_param(&n, "bias", 1, NET_SHAPE(4));
        tn_tensor_id mask = net_param(&n, "mask", 1, NET_SHAPE(4, 4));
        options.train = names;
        options.train_count = k == 1;
        x = net_op(&n, "MatMul", NET_LIST(x, w));
        x = net_op(&n, "Add", NET_LIST(mask, net_op(&n, "Add", NET_LIST(x, bias))));
        net_output(&n, net_op(&n, k == 2 ? "Relu" : "Softmax", NET_LIST(x)));
        assert_string_equal(trained_names(&n, &options), k == 0 ? " w bias" : " w bias mask");
        net_close(&n);
    }
}

static void preprocessing_is_not_trained(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    for (int k = 0; k < 2; k++) { /* and where there is nothing else, it is no preprocessing */
        net n;
        net_open(&n, TN_FLOAT64, 1);
        tn_tensor_id x = net_input(&n, "x", NET_SHAPE(2, 3, 4, 4));
        tn_tensor_id mean = net_param(&n, "mean", 1, NET_SHAPE(1, 3, 1, 1));
        tn_tensor_id deviation = net_given(&n, "std", TN_KIND_PARAMETER, 2, 1, NET_SHAPE(3, 1, 1));
        tn_tensor_id w = net_param(&n, "w", 1, NET_SHAPE(2, 3, 1, 1));
        tn_tensor_id after = net_param(&n, "after", 1, NET_SHAPE(1, 2, 1, 1));
        x = net_op(&n, "Sub", NET_LIST(x, mean));
        x = net_op(&n, "Div", NET_LIST(x, deviation));
        if (k == 0) x = net_op(&n, "Conv", NET_LIST(x, w));
        if (k == 0) x = net_op(&n, "Add", NET_LIST(x, after));
        net_output(&n, x);
        assert_string_equal(trained_names(&n, &options), k == 0 ? " w after" : " mean std");
        steps_check_net(&n, TN_LOSS_MEAN_SQUARED, 0, "preprocessing", 1);
        net_close(&n);
    }
}

/* Weights that a file leaves out, and a state that is no weight. */
static void weights_made_on_the_spot_are_parameters(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    int64_t wide[] = {3, 5};
    net n;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_open(&n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(2, 3));
    tn_tensor_id w = net_op(&n, "ConstantOfShape", NET_LIST(net_ints(&n, 2, wide)));
    wide[0] = 2;
    tn_tensor_id zeros = net_op(&n, "ConstantOfShape", NET_LIST(net_ints(&n, 2, wide)));
    x = net_op(&n, "Add", NET_LIST(net_op(&n, "MatMul", NET_LIST(x, w)), zeros));
    net_output(&n, x);
    net_ok(&n, tn_train(n.graph, &options, &training, &n.error));
    assert_int_equal(training.parameter_count, 1);
    assert_int_equal(training.parameters[0].parameter, w);
    assert_int_equal(tn_graph_tensor(training.graph, w)->kind, TN_KIND_PARAMETER);
    tn_training_release(&training);
    net_close(&n);
}

/* --- normalisation by statistics that are given --- */

static void statistics_of_two_readers_are_given(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        net n;
        net_open(&n, TN_FLOAT64, seed);
        tn_tensor_id x = net_param(&n, "x", 1, NET_SHAPE(2, 3, 2, 3));
        tn_tensor_id scale = net_given(&n, "scale", TN_KIND_PARAMETER, 1, 0.3, NET_SHAPE(3));
        tn_tensor_id bias = net_param(&n, "bias", 1, NET_SHAPE(3));
        tn_tensor_id mean = net_param(&n, "mean", 1, NET_SHAPE(3));
        tn_tensor_id variance = net_given(&n, "variance", TN_KIND_PARAMETER, 1, 0.5, NET_SHAPE(3));
        for (int k = 0; k < 2; k++)
            x = net_op(&n, "BatchNormalization", NET_LIST(x, scale, bias, mean, variance));
        net_output(&n, x);
        steps_check_net(&n, TN_LOSS_MEAN_SQUARED, 0, "given statistics", seed);
        net_close(&n);
    }
}

static void operators_of(const net *n, tn_loss loss, const char *absent, const char *where) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    tn_error error;
    options.loss = loss;
    tn_status status = tn_train(n->graph, &options, &training, &error);
    if (status != TN_OK) fail_msg("%s: %s: %s", where, error.where, error.message);
    for (tn_op_id id = 0; id < tn_graph_op_count(training.graph); id++)
        if (strcmp(tn_graph_op(training.graph, id)->type, absent) == 0)
            fail_msg("%s: %s is there", where, absent);
    tn_training_release(&training);
}

/* --- branches --- */

/* One branch: inner = x op w, in a block of its own. */
static tn_block_id branch(net *n, const char *type, tn_tensor_id x, tn_tensor_id w) {
    tn_block_id block;
    tn_tensor_id inputs[] = {x, w}, y;
    net_ok(n, tn_graph_add_block(n->graph, type, &block, &n->error));
    tn_tensor_spec inner = {
        .name = type, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN, .block = block};
    net_ok(n, tn_graph_add_tensor(n->graph, &inner, &y, &n->error));
    tn_op_spec spec = {.name = type,
                       .type = type,
                       .block = block,
                       .inputs = inputs,
                       .input_count = 2,
                       .outputs = &y,
                       .output_count = 1};
    net_ok(n, tn_graph_add_op(n->graph, &spec, NULL, &n->error));
    net_ok(n, tn_graph_set_block_io(n->graph, block, NULL, 0, &y, 1, &n->error));
    return block;
}

/* x w or x + w, as a condition says that is a constant, or an input. */
static void branching(net *n, bool known, bool yes) {
    const int64_t value = yes;
    tn_tensor_id x = net_param(n, "x", 1, NET_SHAPE(2, 3)), w = net_param(n, "w", 1, NET_SHAPE(3));
    tn_tensor_id condition, y;
    x = net_op(n, "Sin", NET_LIST(x));
    tn_tensor_spec spec = {.name = "condition",
                           .dtype = TN_BOOL,
                           .kind = known ? TN_KIND_CONSTANT : TN_KIND_INPUT,
                           .value = {.count = known, .ints = known ? &value : NULL}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &condition, &n->error));
    n->attrs[0] =
        (tn_attr){.name = "then_branch", .type = TN_ATTR_BLOCK, .block = branch(n, "Mul", x, w)};
    n->attrs[1] =
        (tn_attr){.name = "else_branch", .type = TN_ATTR_BLOCK, .block = branch(n, "Add", x, w)};
    n->attr_count = 2;
    y = net_op(n, "If", NET_LIST(condition));
    net_output(n, net_op(n, "Tanh", NET_LIST(y)));
}

static void a_branch_that_is_known_has_a_gradient(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        net n;
        net_open(&n, TN_FLOAT64, seed);
        branching(&n, true, seed % 2 == 0);
        operators_of(&n, TN_LOSS_MEAN_SQUARED, "If", "a known branch");
        steps_check_net(&n, TN_LOSS_MEAN_SQUARED, 0, "a known branch", seed);
        net_close(&n);
    }
}

/* What blocks read is no operand of their operator: it was lost without a word. */
static void a_branch_that_a_run_decides_is_refused(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    net n;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_open(&n, TN_FLOAT64, 1);
    branching(&n, false, false);
    assert_int_equal(tn_train(n.graph, &options, &training, &n.error), TN_E_UNSUPPORTED);
    assert_non_null(strstr(n.error.where, "If"));
    net_close(&n);
}

/* --- ends of models --- */

/* Softmax of classes, with shapes that change behind it. */
static void a_last_softmax_is_part_of_the_loss(void **state) {
    static const int64_t whole[] = {4, 5}, planes[] = {4, 5, 1, 1}, last[] = {4, 1, 1, 5};
    static const struct {
        const int64_t *before, *after;
        uint32_t ranks[2], version;
        int64_t axis;
    } all[] = {{whole, whole, {2, 2}, 13, -1}, {whole, whole, {2, 2}, 11, 1},
               {planes, whole, {4, 2}, 13, 1}, {planes, whole, {4, 2}, 11, 1},
               {last, whole, {4, 2}, 13, 3},   {whole, planes, {2, 4}, 13, 1},
               {last, last, {4, 4}, 13, -1},   {planes, planes, {4, 4}, 9, 1},
               {whole, last, {2, 4}, 13, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint32_t log = 0; log < 2; log++) {
            net n;
            char what[40];
            snprintf(what, sizeof what, "case %zu", i);
            net_open(&n, TN_FLOAT64, 1 + i);
            tn_tensor_id x = net_input(&n, "x", NET_SHAPE(4, 6));
            x = net_dense(&n, x, 6, 5);
            x = net_op(&n, "Reshape", NET_LIST(x, net_ints(&n, all[i].ranks[0], all[i].before)));
            n.version = all[i].version;
            net_attr_int(&n, "axis", all[i].axis);
            x = net_op(&n, log ? "LogSoftmax" : "Softmax", NET_LIST(x));
            n.version = 18;
            if (all[i].before != all[i].after)
                x = net_op(&n, "Reshape", NET_LIST(x, net_ints(&n, all[i].ranks[1], all[i].after)));
            net_output(&n, x);
            operators_of(&n, TN_LOSS_CROSS_ENTROPY, log ? "LogSoftmax" : "Softmax", what);
            steps_check_net(&n, TN_LOSS_CROSS_ENTROPY, 5, what, 1);
            net_close(&n);
        }
}

/* Softmax over something else stays. */
static void a_softmax_over_other_axes_stays(void **state) {
    static const struct {
        int64_t shape[4], axis;
        uint32_t rank, version;
    } all[] = {{{3, 4}, 0, 2, 13},
               {{2, 3, 4, 4}, -1, 4, 13},
               {{2, 3, 4, 4}, 1, 4, 11},
               {{2, 3, 4}, 1, 3, 13}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        tn_training training;
        bool there = false;
        net n;
        net_open(&n, TN_FLOAT64, 3);
        tn_tensor_id x = net_param(&n, "x", 1, all[i].rank, all[i].shape);
        n.version = all[i].version;
        net_attr_int(&n, "axis", all[i].axis);
        net_output(&n, net_op(&n, "Softmax", NET_LIST(x)));
        net_ok(&n, tn_train(n.graph, &options, &training, &n.error));
        for (tn_op_id id = 0; id < tn_graph_op_count(training.graph); id++)
            there = there || strcmp(tn_graph_op(training.graph, id)->type, "Softmax") == 0;
        assert_true(there);
        tn_training_release(&training);
        steps_check_net(&n, TN_LOSS_CROSS_ENTROPY, 3, "softmax", i);
        net_close(&n);
    }
}

/* Weights of integers, and an adapter next to them. The scale of the weights does not change. */
static void a_scale_is_no_parameter(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_open(&n, TN_FLOAT32, 1);
    n.version = 21;
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(3, 4));
    tn_tensor_id w = net_tensor(&n, "w", TN_KIND_PARAMETER, TN_INT8, NET_SHAPE(4, 5));
    tn_tensor_id scale = net_param(&n, "w.scale", 1, NET_SHAPE(5));
    net_attr_int(&n, "axis", 1);
    w = net_op(&n, "DequantizeLinear", NET_LIST(w, scale));
    tn_tensor_id adapter = net_param(&n, "adapter", 1, NET_SHAPE(4, 5));
    net_output(&n, net_op(&n, "Add",
                          NET_LIST(net_op(&n, "MatMul", NET_LIST(x, w)),
                                   net_op(&n, "MatMul", NET_LIST(x, adapter)))));
    assert_string_equal(trained_names(&n, &options), " adapter");
    net_close(&n);
}

static void what_where_fills_with_is_no_parameter(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_open(&n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(3, 4)),
                 w = net_param(&n, "w", 1, NET_SHAPE(4, 4));
    tn_tensor_id masked = net_op(&n, "Greater", NET_LIST(x, net_input(&n, "y", NET_SHAPE(3, 4))));
    tn_tensor_id fill = net_param(&n, "masked.fill", 1, NET_SHAPE(1));
    x = net_op(&n, "Where", NET_LIST(masked, fill, net_op(&n, "MatMul", NET_LIST(x, w))));
    net_output(&n, net_op(&n, "Where", NET_LIST(masked, net_param(&n, "row", 1, NET_SHAPE(4)), x)));
    assert_string_equal(trained_names(&n, &options), " w row");
    const char *more[] = {"masked.*"};
    options.train = more;
    options.train_count = 1;
    assert_string_equal(trained_names(&n, &options), " w masked.fill row");
    net_close(&n);
}

/* QuantizeLinear of another domain is another operator: it may have no operands at all. */
static void a_pair_is_of_known_domains(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    net n;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_open(&n, TN_FLOAT32, 1);
    n.version = 21;
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(3, 4));
    tn_tensor_id q = net_tensor(&n, "q", TN_KIND_ACTIVATION, TN_INT8, NET_SHAPE(4, 4));
    tn_op_spec spec = {.type = "QuantizeLinear", .domain = "own", .outputs = &q, .output_count = 1};
    net_ok(&n, tn_graph_add_op(n.graph, &spec, NULL, &n.error));
    q = net_op(&n, "DequantizeLinear", NET_LIST(q, net_param(&n, "scale", 1, NET_SHAPE(1))));
    x = net_op(&n, "MatMul", NET_LIST(x, q));
    net_output(&n, net_op(&n, "MatMul", NET_LIST(x, net_param(&n, "w", 1, NET_SHAPE(4, 2)))));
    net_ok(&n, tn_train(n.graph, &options, &training, &n.error));
    for (tn_op_id id = 0; id < tn_graph_op_count(training.graph); id++)
        assert_string_not_equal(tn_graph_op(training.graph, id)->type, "FakeQuantize");
    tn_training_release(&training);
    net_close(&n);
}

static void classes_are_where_they_can_be(void **state) {
    (void)state;
    assert_int_equal(tn_loss_axis(2, (int64_t[]){4, 10}), 1);
    assert_int_equal(tn_loss_axis(3, (int64_t[]){4, 7, 10}), 2);
    assert_int_equal(tn_loss_axis(3, (int64_t[]){4, 10, 1}), 1);
    assert_int_equal(tn_loss_axis(4, (int64_t[]){4, 10, 5, 5}), 1);
    assert_int_equal(tn_loss_axis(4, (int64_t[]){4, 1, 1, 10}), 3);
    assert_int_equal(tn_loss_axis(4, (int64_t[]){4, 1, 1, 1}), 1);
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    net n;
    net_open(&n, TN_FLOAT32, 1);
    net_output(&n, net_dense(&n, net_input(&n, "x", NET_SHAPE(4, 6)), 6, 1));
    assert_int_equal(tn_train(n.graph, &options, &training, &n.error), TN_E_INVALID);
    assert_non_null(strstr(n.error.message, "scores 1 class"));
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_exporter_merged_is_parted_again),
        cmocka_unit_test(any_other_identity_is_the_same_parameter),
        cmocka_unit_test(parted_parameters_begin_with_the_same_bytes),
        cmocka_unit_test(a_merged_normalisation_trains),
        cmocka_unit_test(numbers_of_a_formula_are_no_parameters),
        cmocka_unit_test(a_weight_of_one_element_is_trained),
        cmocka_unit_test(a_mask_is_not_trained),
        cmocka_unit_test(preprocessing_is_not_trained),
        cmocka_unit_test(weights_made_on_the_spot_are_parameters),
        cmocka_unit_test(statistics_of_two_readers_are_given),
        cmocka_unit_test(a_branch_that_is_known_has_a_gradient),
        cmocka_unit_test(a_branch_that_a_run_decides_is_refused),
        cmocka_unit_test(a_last_softmax_is_part_of_the_loss),
        cmocka_unit_test(a_softmax_over_other_axes_stays),
        cmocka_unit_test(a_scale_is_no_parameter),
        cmocka_unit_test(what_where_fills_with_is_no_parameter),
        cmocka_unit_test(a_pair_is_of_known_domains),
        cmocka_unit_test(classes_are_where_they_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
