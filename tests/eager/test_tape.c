/* test_tape.c - gradients by the tape against differences, training against training without a
 * budget, and what the tape holds.
 */
#include "kit.h"

#include <math.h>

typedef tn_handle (*network)(tn_eager *eager, const tn_handle *p);

/* Each makes a scalar of parameters p[0] [3,4], p[1] [4,3], p[2] [3]. */
static tn_handle ends(tn_eager *eager, tn_handle x) {
    tn_handle flat = kit_op(eager, "Flatten", LIST(x));
    tn_eager_about about;
    check(tn_eager_describe(eager, flat, &about, &failure));
    tn_handle label = kit_put(eager, TN_FLOAT32, TN_KIND_INPUT, NULL, about.rank, about.shape);
    return kit_op(eager, ".MeanSquared", LIST(flat, label));
}

static tn_handle net_products(tn_eager *eager, const tn_handle *p) {
    tn_handle x = kit_op(eager, "MatMul", LIST(p[0], p[1]));
    return ends(eager, kit_op(eager, "Tanh", LIST(kit_op(eager, "Add", LIST(x, p[2])))));
}

static tn_handle net_shared(tn_eager *eager,
                            const tn_handle *p) { /* one operand twice, and again */
    tn_handle x = kit_op(eager, "Mul", LIST(p[0], p[0]));
    tn_handle y = kit_op(eager, "MatMul", LIST(x, p[1])), z = kit_op(eager, "Sin", LIST(y));
    return ends(eager, kit_op(eager, "Add", LIST(kit_op(eager, "Mul", LIST(z, y)), y)));
}

static tn_handle concat(tn_eager *eager, tn_handle a, tn_handle b) {
    const int64_t axis = 1;
    const tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &axis};
    const tn_handle inputs[] = {a, b};
    const tn_eager_call call = {.type = "Concat",
                                .inputs = inputs,
                                .input_count = 2,
                                .output_count = 1,
                                .attrs = &attr,
                                .attr_count = 1};
    tn_handle out;
    check(tn_eager_apply(eager, &call, &out, &failure));
    return out;
}

static tn_handle net_moves(tn_eager *eager, const tn_handle *p) {
    const int64_t to[] = {3, 4};
    tn_handle shape = kit_put(eager, TN_INT64, TN_KIND_CONSTANT, to, SHAPE(2));
    tn_handle x = kit_op(eager, "Mul", LIST(p[1], p[2]));
    tn_handle y = concat(eager, kit_op(eager, "Reshape", LIST(x, shape)), p[0]);
    return ends(eager, kit_op(eager, "Softmax", LIST(kit_op(eager, "Transpose", LIST(y)))));
}

static tn_handle net_split(tn_eager *eager, const tn_handle *p) {
    const int64_t parts[] = {1, 2}, axis = 1;
    const tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &axis};
    tn_handle sizes = kit_put(eager, TN_INT64, TN_KIND_CONSTANT, parts, SHAPE(2));
    const tn_handle inputs[] = {p[1], sizes};
    const tn_eager_call call = {.type = "Split",
                                .inputs = inputs,
                                .input_count = 2,
                                .output_count = 2,
                                .attrs = &attr,
                                .attr_count = 1};
    tn_handle out[2];
    check(tn_eager_apply(eager, &call, out, &failure));
    tn_handle y = concat(eager, kit_op(eager, "Exp", LIST(out[1])), out[1]);
    return ends(eager, kit_op(eager, "MatMul", LIST(p[0], y)));
}

static const network networks[] = {net_products, net_shared, net_moves, net_split};
static const int64_t shapes[3][2] = {{3, 4}, {4, 3}, {3}};
static const uint32_t ranks[3] = {2, 2, 1}, sizes[3] = {12, 12, 3};

static double loss_of(network net, float numbers[3][12]) {
    tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10, .plain = true});
    tn_handle p[3];
    for (uint32_t i = 0; i < 3; i++)
        p[i] = kit_put(eager, TN_FLOAT32, TN_KIND_PARAMETER, numbers[i], ranks[i], shapes[i]);
    float loss;
    kit_get(eager, net(eager, p), &loss, sizeof loss);
    tn_eager_destroy(eager);
    return (double)loss;
}

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++) {
        float numbers[3][12];
        tn__random random = {.state = n + 1};
        for (uint32_t i = 0; i < 36; i++)
            numbers[i / 12][i % 12] = (float)tn__random_below(&random, 1000) / 600 - 0.8f;
        tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10, .poison = true});
        tn_handle p[3], d[3];
        for (uint32_t i = 0; i < 3; i++)
            p[i] = kit_put(eager, TN_FLOAT32, TN_KIND_PARAMETER, numbers[i], ranks[i], shapes[i]);
        tn_handle loss = networks[n](eager, p);
        check(tn_eager_backward(eager, loss, p, 3, d, &failure));
        for (uint32_t i = 0; i < 3; i++) {
            float found[12] = {0};
            if (d[i] != TN_HANDLE_NONE) kit_get(eager, d[i], found, sizes[i] * sizeof *found);
            for (uint32_t j = 0; j < sizes[i]; j++) {
                const float was = numbers[i][j], step = 0.01f;
                numbers[i][j] = was + step;
                double more = loss_of(networks[n], numbers);
                numbers[i][j] = was - step;
                double less = loss_of(networks[n], numbers);
                numbers[i][j] = was;
                double want = (more - less) / (2 * (double)step);
                if (fabs(want - (double)found[j]) > 2e-3 + 0.02 * fabs(want))
                    fail_msg("network %zu, parameter %u[%u]: %g, by differences %g", n, i, j,
                             (double)found[j], want);
            }
        }
        assert_int_equal(tn_eager_backward(eager, loss, p, 3, d, &failure), TN_E_INVALID);
        check(tn_eager_check(eager, &failure));
        tn_eager_destroy(eager);
    }
}

/* A deep network with shared weights, handles deleted as soon as they can be. */
/* The gradient of the loss is one item more: the array of items grows at some of these numbers. */
static void a_backward_pass_works_with_any_number_of_handles(void **state) {
    (void)state;
    for (uint32_t more = 0; more < 80; more++) {
        tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10});
        tn_handle w = kit_floats(eager, TN_KIND_PARAMETER, 1, SHAPE(3)), d;
        float got[3];
        tn_handle loss = kit_op(eager, "ReduceSum", LIST(w));
        for (uint32_t i = 0; i < more; i++) (void)kit_floats(eager, TN_KIND_INPUT, i, SHAPE(1));
        check(tn_eager_backward(eager, loss, &w, 1, &d, &failure));
        kit_get(eager, d, got, sizeof got);
        for (int i = 0; i < 3; i++) assert_true(got[i] == 1);
        tn_eager_destroy(eager);
    }
}

/* If all gradients g are equal, Adam's corrected moments are g and g * g: each step has the size
 * of the rate. */
static void adam_corrects_its_moments(void **state) {
    (void)state;
    tn_eager *eager = kit_open((tn_eager_options){.budget = 64 << 10});
    const float start[] = {1, 2, 3}, gradient[] = {0.5f, -8, 0.01f};
    float got[3];
    tn_handle w = kit_put(eager, TN_FLOAT32, TN_KIND_PARAMETER, start, SHAPE(3)), d;
    tn_eager_optimizer *adam;
    tn_eager_optimizer_options options = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    options.optimizer = TN_OPTIMIZER_ADAM;
    check(tn_eager_optimizer_create(eager, &options, &w, 1, &adam, &failure));
    for (int step = 1; step <= 5; step++) {
        d = kit_put(eager, TN_FLOAT32, TN_KIND_INPUT, gradient, SHAPE(3));
        check(tn_eager_optimizer_step(adam, &d, 0.1, &failure));
        kit_get(eager, w, got, sizeof got);
        for (int i = 0; i < 3; i++) {
            float want = start[i] - 0.1f * (float)step * (gradient[i] < 0 ? -1 : 1);
            if (!(fabsf(got[i] - want) < 1e-5f))
                fail_msg("step %d: %g instead of %g", step, (double)got[i], (double)want);
        }
    }
    tn_eager_optimizer_destroy(adam);
    tn_eager_destroy(eager);
}

static void train(const char *policy, uint64_t budget, tn_optimizer optimizer, float *losses,
                  float *weights, tn_eager_counts *counts) {
    tn_eager *eager =
        kit_open((tn_eager_options){.budget = budget, .policy = policy, .poison = true});
    tn_handle p[3], d[3], data = kit_floats(eager, TN_KIND_INPUT, 5, SHAPE(64, 16)), all = data;
    for (uint32_t i = 0; i < 3; i++)
        p[i] = kit_floats(eager, TN_KIND_PARAMETER, i + 1, SHAPE(16, 16));
    tn_handle label = kit_floats(eager, TN_KIND_INPUT, 6, SHAPE(64, 16));
    tn_eager_optimizer *update;
    tn_eager_optimizer_options options = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    options.optimizer = optimizer;
    check(tn_eager_optimizer_create(eager, &options, p, 3, &update, &failure));
    for (uint32_t step = 0; step < 6; step++) {
        tn_handle x = all;
        for (uint32_t layer = 0; layer < 12; layer++) {
            tn_handle y = kit_op(eager, "MatMul", LIST(x, p[layer % 3]));
            if (x != all) kit_del(eager, x);
            x = kit_op(eager, "Tanh", LIST(y));
            kit_del(eager, y);
        }
        tn_handle loss = kit_op(eager, ".MeanSquared", LIST(x, label));
        kit_del(eager, x);
        check(tn_eager_backward(eager, loss, p, 3, d, &failure));
        kit_get(eager, loss, &losses[step], sizeof *losses);
        kit_del(eager, loss);
        check(tn_eager_optimizer_step(update, d, optimizer < TN_OPTIMIZER_ADAM ? 0.05 : 0.01,
                                      &failure));
        check(tn_eager_check(eager, &failure));
    }
    for (uint32_t i = 0; i < 3; i++)
        kit_get(eager, p[i], weights + (size_t)i * 256, 256 * sizeof *weights);
    *counts = kit_count(eager);
    tn_eager_optimizer_destroy(update);
    tn_eager_destroy(eager);
}

static void training_within_a_budget_gives_the_same_bits(void **state) {
    (void)state;
    for (tn_optimizer o = TN_OPTIMIZER_SGD; o < TN_OPTIMIZER_NONE; o++) {
        float want_losses[6], want[768], losses[6], got[768];
        tn_eager_counts plain, counts;
        train(NULL, 8 << 20, o, want_losses, want, &plain);
        assert_true(want_losses[5] < want_losses[0]);
        assert_int_equal(plain.evict.remade_ops, 0);
        assert_int_equal(plain.history, 3); /* that updated what there is */
        assert_int_equal(plain.handles, 5);
        for (uint32_t i = 0; i < tn_evict_policy_count(); i++) {
            uint64_t budget = plain.evict.peak_bytes * 6 / 10;
            train(tn_evict_policy_name(i), budget, o, losses, got, &counts);
            if (memcmp(losses, want_losses, sizeof losses) != 0 ||
                memcmp(got, want, sizeof got) != 0)
                fail_msg("%s, %s: other bits", tn_evict_policy_name(i), tn_optimizer_name(o));
            assert_true(counts.evict.peak_bytes <= budget);
            assert_true(counts.evict.remade_ops + counts.evict.fetch_count > 0);
            assert_int_equal(counts.history, 3);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(training_within_a_budget_gives_the_same_bits),
        cmocka_unit_test(a_backward_pass_works_with_any_number_of_handles),
        cmocka_unit_test(adam_corrects_its_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
