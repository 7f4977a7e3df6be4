/* test_gradients.c - every gradient rule by itself: float64 against central differences, and
 * float32 against float64, on random shapes and attributes.
 */
#include "gradients.h"

/* --- which operators a case was seen of --- */

typedef struct listed {
    const char *type, *domain;
    bool has_gradient, seen;
} listed;

static listed rules[1000];
static uint32_t rule_count;

static void see_ops(const tn_graph *graph, const char *domain) {
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        for (uint32_t k = 0; k < rule_count; k++)
            if (strcmp(op->domain, domain) == 0 && strcmp(rules[k].domain, domain) == 0 &&
                strcmp(rules[k].type, op->type) == 0)
                rules[k].seen = true;
    }
}

/* Of our own domain also what the training copy has instead: losses, batch normalisation. */
static void see(const tn_graph *model, const tn_graph *training) {
    assert_true(tn_op_rule_count() < sizeof rules / sizeof *rules);
    for (; rule_count < tn_op_rule_count(); rule_count++)
        rules[rule_count] = (listed){.type = tn_op_rule_type(rule_count),
                                     .domain = tn_op_rule_domain(rule_count),
                                     .has_gradient = tn_op_rule_has_gradient(rule_count)};
    see_ops(model, "ai.onnx");
    see_ops(model, "");
    see_ops(model, "com.microsoft");
    see_ops(training, "tenure");
}

/* A rule without a case proves nothing. Cells have a test of their own (test_recurrent), and so has
 * what only works with other ranks (dist/test_tensor). */
static void every_rule_has_a_case(void **state) {
    static const char *const elsewhere[] = {"GRU",       "LSTM",       "RNN",
                                            "ClassLoss", "GatherPart", "RankCopy",
                                            "RankSum",   "RankGather", "RankScatter"};
    uint32_t absent = 0;
    (void)state;
    for (uint32_t k = 0; k < rule_count; k++) {
        bool tested = rules[k].seen || !rules[k].has_gradient;
        for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
            tested = tested || strcmp(rules[k].type, elsewhere[i]) == 0;
        if (!tested) printf("no case: %s (%s)\n", rules[k].type, rules[k].domain);
        absent += !tested;
    }
    assert_true(rule_count > 200);
    assert_int_equal(absent, 0);
}

/* docs/gradients.md: each operator of ONNX stands once, with or without, as the registry has it. */
static void the_lists_of_the_documents_are_the_registry(void **state) {
    static const char *const parts[] = {"## With a gradient", "## Flat", "## Without a gradient"};
    FILE *file = fopen(TENURE_SOURCE_DIR "/docs/gradients.md", "r");
    char line[400];
    uint32_t part = 0, told[sizeof rules / sizeof *rules] = {0};
    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        for (uint32_t k = 0; k < 3; k++)
            if (strncmp(line, parts[k], strlen(parts[k])) == 0) part = k + 1;
        /* lists begin with a name; sentences may name operators again */
        for (char *at = line; *line == '`' && at != NULL && *at == '`'; at = strchr(at, '`')) {
            char *end = strchr(at + 1, '`');
            if (end == NULL) break;
            *end = 0;
            for (uint32_t k = 0; k < rule_count; k++)
                if (rules[k].domain[0] == 0 || strcmp(rules[k].domain, "ai.onnx") == 0)
                    if (strcmp(rules[k].type, at + 1) == 0) told[k] = told[k] == 0 ? part : 9;
            at = end + 1;
        }
    }
    fclose(file);
    for (uint32_t k = 0; k < rule_count; k++) {
        bool onnx = rules[k].domain[0] == 0 || strcmp(rules[k].domain, "ai.onnx") == 0;
        bool right = rules[k].has_gradient ? told[k] == 1 || told[k] == 2 : told[k] == 3;
        if (onnx && !right)
            fail_msg("%s stands in part %u of docs/gradients.md", rules[k].type, told[k]);
    }
}

/* --- the check --- */

typedef struct trial {
    net n;
    steps s;
    double *labels;
} trial;

static void trial_open(trial *t, tn_dtype dtype, builder build, const void *data, uint64_t seed) {
    /* of float32 every second case by oneDNN, where it has kernels */
    const setting how = {.poison = true, .library = dtype == TN_FLOAT32 && seed % 2 == 0};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    options.loss = TN_LOSS_MEAN_SQUARED;
    options.optimizer = TN_OPTIMIZER_NONE;
    net_open(&t->n, dtype, seed);
    t->n.version = 21;
    net_output(&t->n, build(&t->n, data));
    steps_open(&t->s, &t->n, &options, &how);
    see(t->n.graph, t->s.graph);
    t->labels = steps_draw_labels(&t->s, 0);
    steps_run(&t->s);
}

static void trial_close(trial *t) {
    free(t->labels);
    steps_close(&t->s);
    net_close(&t->n);
}

void check(builder build, const void *data, const char *what, uint64_t seed) {
    trial wide, narrow;
    trial_open(&wide, TN_FLOAT64, build, data, seed);
    trial_open(&narrow, TN_FLOAT32, build, data, seed);
    for (uint32_t p = 0; p < wide.s.training.parameter_count; p++) {
        const tn_trained *trained = &wide.s.training.parameters[p];
        assert_true(trained->gradient != TN_NONE);
        const tn_array *a = steps_output(&wide.s, trained->gradient);
        const tn_array *b = steps_output(&narrow.s, narrow.s.training.parameters[p].gradient);
        uint64_t count = a->bytes / sizeof(double);
        double scale = 0.03; /* what is 0 but for rounding stays small */
        for (uint64_t i = 0; i < count; i++)
            if (fabs(steps_get(a->dtype, a->data, i)) > scale)
                scale = fabs(steps_get(a->dtype, a->data, i));
        for (uint64_t i = 0; i < count; i++) {
            double x = steps_get(a->dtype, a->data, i), y = steps_get(b->dtype, b->data, i);
            if (!(fabs(x - y) <= 3e-5 * scale))
                fail_msg("%s, seed %llu: d parameter %u [%llu] is %.9g in float64, %.9g in float32",
                         what, (unsigned long long)seed, p, (unsigned long long)i, x, y);
        }
    }
    steps_check_gradients(&wide.s, 1e-6, what, seed);
    trial_close(&wide);
    trial_close(&narrow);
}

/* --- short types --- */

/* Gradients of 1 that are summed a thousand times: in bfloat16, one by one, they would stop at 256.
 */
static void an_embedding_in_halves_sums_all_its_words(void **state) {
    (void)state;
    EACH_SEED(seed) {
        double found[2][60];
        for (int k = 0; k < 2; k++) {
            net n;
            steps s;
            tn_train_options options = TN_TRAIN_OPTIONS_INIT;
            const setting how = {.poison = true};
            options.loss = TN_LOSS_OUTPUT;
            options.optimizer = TN_OPTIMIZER_NONE;
            net_open(&n, TN_FLOAT32, seed);
            tn_tensor_id words = net_param(&n, "words", 1, NET_SHAPE(4, 3, 5));
            tn_tensor_id x = words, indices = net_numbers(&n, "i", 3, NET_SHAPE(3000));
            if (k == 1) {
                net_attr_int(&n, "to", TN_BFLOAT16);
                x = net_op(&n, "Cast", NET_LIST(x));
            }
            net_attr_int(&n, "axis", 1);
            x = net_op(&n, "Gather", NET_LIST(x, indices));
            if (k == 1) {
                net_attr_int(&n, "to", TN_FLOAT32);
                x = net_op(&n, "Cast", NET_LIST(x));
            }
            net_attr_int(&n, "keepdims", 0);
            net_output(&n, net_op(&n, "ReduceSum", NET_LIST(x)));
            steps_open(&s, &n, &options, &how);
            steps_run(&s);
            const tn_array *array = steps_output(&s, s.training.parameters[0].gradient);
            for (uint64_t i = 0; i < 60; i++) found[k][i] = steps_get(array->dtype, array->data, i);
            steps_close(&s);
            net_close(&n);
        }
        for (uint32_t i = 0; i < 60; i++)
            if (!(fabs(found[0][i] - found[1][i]) <= found[0][i] / 256))
                fail_msg("seed %llu: element %u is %g in bfloat16, %g in float32",
                         (unsigned long long)seed, i, found[1][i], found[0][i]);
    }
}

/* --- quantised and back --- */

static tn_tensor_id whole_numbers(net *n, tn_dtype dtype, uint32_t count, const int64_t *values) {
    int64_t extent = count;
    tn_tensor_id id;
    tn_tensor_spec spec = {.dtype = dtype,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &extent,
                           .value = {.count = count, .ints = values}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    return id;
}

static double quantised(double x, double scale, int64_t zero, const int64_t range[2],
                        bool *inside) {
    double place = (double)nearbyintf((float)x / (float)scale) + (double)zero;
    *inside = place >= (double)range[0] && place <= (double)range[1];
    if (place < (double)range[0]) place = (double)range[0];
    if (place > (double)range[1]) place = (double)range[1];
    return (place - (double)zero) * (double)(float)scale;
}

/* The loss is the sum of c times the quantised x: its gradient by x is c within the range of the
 * stored type, and 0 outside. One scale, or one for each of five columns; the zero points and
 * scales of both operators are the same tensors, or others with the same contents. */
static void rounding_passes_gradients_within_the_range(void **state) {
    static const struct {
        tn_dtype dtype;
        int64_t range[2];
    } types[] = {
        {TN_INT8, {-128, 127}}, {TN_UINT8, {0, 255}}, {TN_INT4, {-8, 7}}, {TN_UINT16, {0, 65535}}};
    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        const tn_dtype dtype = types[seed % 4].dtype;
        const int64_t *range = types[seed % 4].range;
        const setting how = {.poison = true};
        const uint32_t count = seed % 3 == 0 ? 5 : 1;
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        net n;
        steps s;
        double scales[5];
        int64_t zeros[5];
        options.loss = TN_LOSS_OUTPUT;
        options.optimizer = TN_OPTIMIZER_NONE;
        options.keep_outputs = true;
        net_open(&n, TN_FLOAT32, seed);
        n.version = 21;
        double width = (double)(range[1] - range[0]);
        for (uint32_t k = 0; k < 5; k++) { /* x is from -4 to 4, and some of it outside */
            scales[k] = 6 / width * (1 + 0.2 * net_draw(&n));
            zeros[k] = range[0] + (int64_t)(width * (0.5 + 0.2 * net_draw(&n)));
        }
        tn_tensor_id x = net_param(&n, "x", 4, NET_SHAPE(8, 5));
        tn_tensor_id c = net_input(&n, "c", NET_SHAPE(8, 5)), scale[2], zero[2], q;
        for (uint32_t k = 0; k < 2; k++) {
            bool shared = k == 1 && seed % 2 == 0;
            scale[k] = shared ? scale[0] : floats(&n, count, scales);
            zero[k] = shared ? zero[0] : whole_numbers(&n, dtype, count, zeros);
        }
        if (count > 1) net_attr_int(&n, "axis", 1);
        q = net_op(&n, "QuantizeLinear", NET_LIST(x, scale[0], zero[0]));
        if (count > 1) net_attr_int(&n, "axis", 1);
        tn_tensor_id y = net_op(&n, "DequantizeLinear", NET_LIST(q, scale[1], zero[1]));
        net_attr_int(&n, "keepdims", 0);
        net_output(&n, net_op(&n, "ReduceSum", NET_LIST(net_op(&n, "Mul", NET_LIST(y, c)))));
        steps_open(&s, &n, &options, &how);
        see(n.graph, s.training.graph);
        double loss = steps_run(&s), sum = 0;
        const tn_array *gradient = steps_output(&s, s.training.parameters[0].gradient);
        uint32_t outside = 0;
        for (uint32_t i = 0; i < 40; i++) {
            bool inside;
            uint32_t k = count > 1 ? i % 5 : 0;
            sum += n.contents[c][i] *
                   quantised((float)n.contents[x][i], scales[k], zeros[k], range, &inside);
            double expected = inside ? (double)(float)n.contents[c][i] : 0;
            double found = steps_get(gradient->dtype, gradient->data, i);
            outside += !inside;
            if (found != expected)
                fail_msg("seed %llu: d x[%u] is %g, not %g", (unsigned long long)seed, i, found,
                         expected);
        }
        assert_true(outside > 0 && outside < 40);
        assert_true(fabs(loss - sum) <= 1e-4 * (1 + fabs(sum)));
        steps_close(&s);
        net_close(&n);
    }
}

/* --- memory --- */

/* Rules that ask for memory of their own, and some that do not. */
static tn_tensor_id build_all_sorts(net *n) {
    shape s = {.rank = 3, .extent = {2, 6, 4}}, t = {.rank = 1, .extent = {4}};
    int64_t sizes[] = {2, 1, 3}, repeats[] = {1, 2, 1};
    tn_tensor_id parts[3], x = param(n, 0, 1, &s), y = param(n, 0, 1, &s);
    net_attr_string(n, "equation", "bij,bkj->bik");
    x = net_op(n, "Einsum", NET_LIST(x, y));
    net_attr_int(n, "axis", 1);
    net_ops(n, "Split", NET_LIST(x, net_ints(n, 3, sizes)), 3, parts);
    net_attr_int(n, "axis", 2);
    x = net_op(n, "Concat", NET_LIST(parts[2], parts[2]));
    net_attr_int(n, "axis", -1);
    x = net_op(n, "Softmax", NET_LIST(net_op(n, "Max", NET_LIST(x, number(n, 0.1)))));
    x = net_op(n, "Tile", NET_LIST(x, net_ints(n, 3, repeats)));
    y = net_op(n, "LayerNormalization", NET_LIST(y, param(n, 1, 0.2, &t)));
    return net_op(n, "Add", NET_LIST(net_op(n, "ReduceMean", NET_LIST(x)), y));
}

static void no_memory_at_any_moment_leaks_nothing(void **state) {
    faulty memory = {0};
    const tn_context context = faulty_context(&memory);
    net n = {.dtype = TN_FLOAT64, .version = 18, .random = {.state = 3}};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_status status = TN_E_NO_MEMORY;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_ok(&n, tn_graph_create(&context, &n.graph, &n.error));
    net_output(&n, build_all_sorts(&n));
    size_t before = memory.held;
    for (uint64_t fail_at = 1; status != TN_OK; fail_at++) {
        tn_training training;
        memory.requests = 0;
        memory.fail_at = fail_at;
        status = tn_train(n.graph, &options, &training, &n.error);
        if (status == TN_OK) tn_training_release(&training);
        if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(memory.held, before);
    }
    net_close(&n);
    assert_int_equal(memory.held, 0);
}

/* Batch statistics and a mask that a counter draws, under a loss of classes. */
static void what_training_puts_instead_is_right(void **state) {
    (void)state;
    EACH_SEED(seed) {
        net n;
        net_open(&n, TN_FLOAT64, seed);
        n.version = 13;
        tn_tensor_id x = net_param(&n, "x", 1, NET_SHAPE(4, 3, 2, 2));
        x = net_batch_norm(&n, net_op(&n, "Dropout", NET_LIST(x)), 3);
        net_output(&n, net_op(&n, "GlobalAveragePool", NET_LIST(x)));
        steps_check_net(&n, TN_LOSS_CROSS_ENTROPY, 3, "training", seed);
        const setting plain = {.poison = true};
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        steps s;
        steps_open(&s, &n, &options, &plain);
        see(n.graph, s.graph);
        steps_close(&s);
        net_close(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_element_from_one),
        cmocka_unit_test(clips_and_steps),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(casts),
        cmocka_unit_test(reductions),
        cmocka_unit_test(normalisations),
        cmocka_unit_test(movement),
        cmocka_unit_test(indices),
        cmocka_unit_test(resampled),
        cmocka_unit_test(sampled),
        cmocka_unit_test(products),
        cmocka_unit_test(windows),
        cmocka_unit_test(losses),
        cmocka_unit_test(decomposed),
        cmocka_unit_test(linear_attention),
        cmocka_unit_test(rounding_passes_gradients_within_the_range),
        cmocka_unit_test(what_training_puts_instead_is_right),
        cmocka_unit_test(every_rule_has_a_case),
        cmocka_unit_test(the_lists_of_the_documents_are_the_registry),
        cmocka_unit_test(an_embedding_in_halves_sums_all_its_words),
        cmocka_unit_test(no_memory_at_any_moment_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
