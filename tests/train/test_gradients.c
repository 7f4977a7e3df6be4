/* test_gradients.c - every gradient rule by itself: float64 against central differences, and
 * float32 against float64, on random shapes and attributes.
 */
#include "gradients.h"

/* --- the check --- */

typedef struct trial {
    net n;
    steps s;
    double *labels;
} trial;

static void trial_open(trial *t, tn_dtype dtype, builder build, const void *data, uint64_t seed) {
    const setting how = {.poison = true};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    options.loss = TN_LOSS_MEAN_SQUARED;
    options.optimizer = TN_OPTIMIZER_NONE;
    net_open(&t->n, dtype, seed);
    t->n.version = 21;
    net_output(&t->n, build(&t->n, data));
    steps_open(&t->s, &t->n, &options, &how);
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
        double scale = 1e-3;
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
        cmocka_unit_test(products_and_maxima),
        cmocka_unit_test(an_embedding_in_halves_sums_all_its_words),
        cmocka_unit_test(no_memory_at_any_moment_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
