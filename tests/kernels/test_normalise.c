/* Normalisations, losses and Dropout in plain loops against their definitions. */
#include "count.h"
#include "nn.h"

typedef struct moments {
    double mean, variance, count;
} moments;

/* Of the elements that lie with `at` in one slice, which runs along the axes of the bit set. */
static moments measure(const kit_array *x, const int64_t *at, uint64_t axes) {
    moments sum = {0}, m = {0};
    for (uint64_t i = 0; i < 2 * kit_count(x); i++) {
        int64_t position[6];
        bool same = true, second = i >= kit_count(x);
        double value = number_get(x, i % kit_count(x));
        nn_position(x, i % kit_count(x), position);
        for (uint32_t d = 0; d < x->rank; d++)
            same = same && ((axes >> d & 1) != 0 || position[d] == at[d]);
        if (!same) continue;
        if (!second) sum.mean += value, sum.count++;
        if (second) sum.variance += pow(value - sum.mean / sum.count, 2);
    }
    m.mean = sum.mean / sum.count;
    m.variance = sum.variance / sum.count;
    m.count = sum.count;
    return m;
}

static void shape_draw(tn__random *random, int64_t *shape, uint32_t rank) {
    for (uint32_t d = 0; d < rank; d++) shape[d] = nn_in(random, 1, d == rank - 1 ? 20 : 4);
}

static void batch_normalisation_uses_or_takes_statistics(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(120, 12); seed++) {
        tn__random random = {seed};
        bool trains = !nn_often(&random, 2);
        nn_op op = {.type = "BatchNormalization", .version = 15};
        int64_t shape[4], position[4];
        uint32_t rank = (uint32_t)nn_in(&random, 2, 4);
        tn_dtype dtype = nn_real(&random);
        shape_draw(&random, shape, rank);
        nn_input(&op, &random, 0, dtype, rank, shape, -2, 5);
        for (uint32_t i = 1; i < 5; i++)
            nn_input(&op, &random, i, i < 3 ? dtype : TN_FLOAT32, 1, &shape[1], i == 4 ? 0.5 : -1,
                     2);
        nn_float(&op, "epsilon", 0.001);
        nn_float(&op, "momentum", 0.75);
        if (trains) nn_int(&op, "training_mode", 1);
        op.output_count = trains ? 3 : 1;
        nn_run_well(&op, nn_often(&random, 2) ? 0 : -1);
        for (uint64_t i = 0; i < kit_count(op.inputs[0]); i++) {
            nn_position(op.inputs[0], i, position);
            uint64_t c = (uint64_t)position[1];
            double given[2] = {number_get(op.inputs[3], c), number_get(op.inputs[4], c)};
            moments m = {.mean = given[0], .variance = given[1]};
            if (trains) m = measure(op.inputs[0], position, ~UINT64_C(2));
            double factor = number_get(op.inputs[1], c) / sqrt(m.variance + 0.001);
            double value = number_get(op.inputs[0], i);
            nn_near(&op, 0, i, (value - m.mean) * factor + number_get(op.inputs[2], c),
                    9 * fabs(factor) + 3, seed);
            if (!trains) continue;
            nn_near(&op, 1, c, 0.75 * given[0] + 0.25 * m.mean, 1, seed);
            nn_near(&op, 2, c, 0.75 * given[1] + 0.25 * m.variance, 1, seed);
        }
        nn_clear(&op);
    }
}

static void slices_are_normalised_by_their_own_statistics(void **state) {
    (void)state;
    static const char *const types[] = {"InstanceNormalization", "GroupNormalization"};
    for (uint64_t seed = 1; seed <= case_count(120, 12); seed++) {
        tn__random random = {seed};
        bool by_group = !nn_often(&random, 2);
        nn_op op = {.type = types[by_group], .version = by_group ? 21 : 6};
        int64_t groups = nn_in(&random, 1, 3), each = by_group ? nn_in(&random, 1, 3) : 1;
        int64_t shape[4] = {2, groups * each, nn_in(&random, 1, 5), nn_in(&random, 2, 20)};
        int64_t split[5] = {2, groups, each, shape[2], shape[3]}, position[5];
        tn_dtype dtype = nn_real(&random);
        nn_input(&op, &random, 0, dtype, 4, shape, -2, 5);
        nn_input(&op, &random, 1, dtype, 1, &shape[1], -1, 2);
        nn_input(&op, &random, 2, dtype, 1, &shape[1], -1, 2);
        if (by_group) nn_int(&op, "num_groups", groups);
        nn_run_well(&op, nn_often(&random, 2) ? 0 : -1);
        kit_array x = *op.inputs[0];
        x.rank = 5;
        memcpy(x.shape, split, sizeof split);
        for (uint64_t i = 0; i < kit_count(&x); i++) {
            nn_position(&x, i, position);
            moments m = measure(&x, position, 4 | 8 | 16);
            uint64_t c = (uint64_t)(position[1] * each + position[2]);
            double factor = number_get(op.inputs[1], c) / sqrt(m.variance + (double)1e-5f);
            nn_near(&op, 0, i, (number_get(&x, i) - m.mean) * factor + number_get(op.inputs[2], c),
                    9 * fabs(factor) + 3, seed);
        }
        nn_clear(&op);
    }
}

static void layer_normalisation_covers_the_axes_from_its_own_on(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(150, 15); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "LayerNormalization", .version = 17};
        uint32_t rank = (uint32_t)nn_in(&random, 1, 4), own_rank;
        int64_t shape[4], own[4], position[4];
        uint32_t axis = (uint32_t)tn__random_below(&random, rank);
        tn_dtype dtype = nn_real(&random);
        shape_draw(&random, shape, rank);
        shape[rank - 1]++;
        nn_input(&op, &random, 0, dtype, rank, shape, -2, 5);
        own_rank = number_broadcast(&random, rank - axis, shape + axis, own);
        nn_input(&op, &random, 1, dtype, own_rank, own, -1, 2);
        own_rank = number_broadcast(&random, rank - axis, shape + axis, own);
        if (nn_often(&random, 2)) nn_input(&op, &random, 2, dtype, own_rank, own, -1, 2);
        nn_int(&op, "axis", (int64_t)axis - (nn_often(&random, 2) ? (int64_t)rank : 0));
        op.output_count = nn_often(&random, 2) ? 1 : 3;
        nn_run_well(&op, nn_often(&random, 2) ? 0 : -1);
        for (uint64_t i = 0; i < kit_count(op.inputs[0]); i++) {
            nn_position(op.inputs[0], i, position);
            moments m = measure(op.inputs[0], position, ~UINT64_C(0) << axis);
            uint64_t slice = i / (uint64_t)m.count;
            double inverse = 1 / sqrt(m.variance + (double)1e-5f), more = 0;
            double scale = number_get(op.inputs[1], number_place(op.inputs[1], op.inputs[0], i));
            if (op.inputs[2] != NULL)
                more = number_get(op.inputs[2], number_place(op.inputs[2], op.inputs[0], i));
            nn_near(&op, 0, i, (number_get(op.inputs[0], i) - m.mean) * inverse * scale + more,
                    9 * fabs(scale * inverse) + 3, seed);
            if (op.output_count == 1) continue;
            nn_near(&op, 1, slice, m.mean, 2, seed);
            nn_near(&op, 2, slice, inverse, inverse, seed);
        }
        nn_clear(&op);
    }
}

static void mean_and_variance_are_taken_over_any_axes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "MeanVarianceNormalization", .version = 13};
        int64_t shape[4], axes[4], position[4];
        uint32_t count = 0;
        uint64_t mask = seed % 16 == 0 ? 13 : seed % 16;
        shape_draw(&random, shape, 4);
        shape[3]++;
        for (uint32_t d = 0; d < 4; d++)
            if ((mask >> d & 1) != 0) axes[count++] = (int64_t)d - (nn_often(&random, 2) ? 4 : 0);
        nn_input(&op, &random, 0, TN_FLOAT32, 4, shape, -2, 5);
        if (seed % 16 != 0) nn_ints(&op, "axes", count, axes);
        nn_run_well(&op, nn_often(&random, 2) ? 0 : -1);
        for (uint64_t i = 0; i < kit_count(op.inputs[0]); i++) {
            nn_position(op.inputs[0], i, position);
            moments m = measure(op.inputs[0], position, mask);
            double deviation = sqrt(m.variance);
            if (deviation < 0.01) continue; /* a few elements that hardly differ */
            nn_near(&op, 0, i, (number_get(op.inputs[0], i) - m.mean) / (deviation + 1e-9),
                    9 / deviation, seed);
        }
        nn_clear(&op);
    }
}

static void norms_and_neighbours_divide(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(120, 12); seed++) {
        tn__random random = {seed};
        bool local = !nn_often(&random, 2);
        nn_op op = {.type = local ? "LRN" : "LpNormalization", .version = local ? 13 : 1};
        int64_t shape[3] = {2, nn_in(&random, 1, 9), nn_in(&random, 1, 90)}, at[3];
        int64_t size = nn_in(&random, 1, 6), power = nn_in(&random, 1, 2);
        int64_t axis = nn_in(&random, -3, 2);
        uint32_t d = (uint32_t)(axis < 0 ? axis + 3 : axis);
        nn_input(&op, &random, 0, nn_real(&random), 3, shape, -2, 5);
        if (local) {
            nn_int(&op, "size", size);
            nn_float(&op, "alpha", 0.5);
            nn_float(&op, "bias", 2);
        } else {
            nn_int(&op, "p", power);
            nn_int(&op, "axis", axis);
        }
        nn_run_well(&op, !local && nn_often(&random, 2) ? 0 : -1);
        for (uint64_t i = 0; i < kit_count(op.inputs[0]); i++) {
            double sum = 0, value = number_get(op.inputs[0], i);
            nn_position(op.inputs[0], i, at);
            uint32_t along = local ? 1 : d;
            int64_t here = at[along];
            for (at[along] = 0; at[along] < shape[along]; at[along]++) {
                double other = number_get(op.inputs[0], (uint64_t)nn_place(op.inputs[0], at));
                int64_t before = (size - 1) / 2, after = size / 2; /* floor, ceil of half */
                if (local && (at[1] < here - before || at[1] > here + after)) continue;
                sum += local || power == 2 ? other * other : fabs(other);
            }
            double by = local        ? pow(2 + 0.5 / (double)size * sum, 0.75)
                        : power == 2 ? sqrt(sum)
                                     : sum;
            nn_near(&op, 0, i, value / by, fabs(value / by), seed);
        }
        nn_clear(&op);
    }
}

/* --- losses --- */

static void losses_weigh_and_ignore(void **state) {
    (void)state;
    static const char *const reductions[] = {"none", "sum", "mean"};
    for (uint64_t seed = 1; seed <= case_count(250, 25); seed++) {
        tn__random random = {seed};
        bool softmax = nn_often(&random, 2), ignores = nn_often(&random, 2);
        nn_op op = {.type = softmax ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
                    .version = 13,
                    .output_count = softmax && nn_often(&random, 2) ? 2 : 1};
        uint32_t rank = (uint32_t)nn_in(&random, 2, 4), reduction = (uint32_t)seed % 3;
        int64_t shape[4], target[4], ignored = nn_often(&random, 2) ? -7 : 0;
        tn_dtype dtype = nn_often(&random, 2) ? TN_FLOAT32 : TN_FLOAT64;
        shape_draw(&random, shape, rank);
        target[0] = shape[0];
        for (uint32_t d = 2; d < rank; d++) target[d - 1] = shape[d];
        nn_input(&op, &random, 0, dtype, rank, shape, -5, 5);
        nn_input(&op, &random, 1, nn_often(&random, 2) ? TN_INT64 : TN_INT32, rank - 1, target, 0,
                 (double)shape[1]);
        if (nn_often(&random, 2)) nn_input(&op, &random, 2, dtype, 1, &shape[1], 0.5, 2);
        if (ignores) nn_int(&op, "ignore_index", ignored);
        nn_string(&op, "reduction", reductions[reduction]);
        uint64_t samples = kit_count(op.inputs[1]), inner = samples / (uint64_t)shape[0];
        if (ignores && samples > 1) number_set(&op.arrays[1], 0, (double)ignored);
        nn_run_well(&op, -1);
        double sum = 0, weights = 0, size = 0;
        for (uint64_t i = 0; i < samples; i++) {
            uint64_t classes = (uint64_t)shape[1];
            uint64_t first = i / inner * classes * inner + i % inner;
            double total = 0, class = number_get(op.inputs[1], i), weight = 0, loss = 0;
            for (uint64_t c = 0; c < classes; c++)
                total += exp(number_get(op.inputs[0], first + c * inner));
            total = softmax ? log(total) : 0;
            for (uint64_t c = 0; c < classes && op.output_count > 1; c++)
                nn_near(&op, 1, first + c * inner,
                        number_get(op.inputs[0], first + c * inner) - total, 9, seed);
            if (!ignores || class != (double)ignored) {
                weight = op.inputs[2] != NULL ? number_get(op.inputs[2], (uint64_t) class) : 1;
                loss =
                    weight * (total - number_get(op.inputs[0], first + (uint64_t) class * inner));
            }
            sum += loss;
            size += fabs(loss);
            weights += weight;
            if (reduction == 0) nn_near(&op, 0, i, loss, 9, seed);
        }
        if (reduction == 1) nn_near(&op, 0, 0, sum, size + 9, seed);
        if (reduction == 2) nn_near(&op, 0, 0, sum / weights, size / weights + 9, seed);
        nn_clear(&op);
    }
}

static void a_target_that_is_no_class_is_refused(void **state) {
    (void)state;
    for (int64_t target = -1; target < 4; target += 4) {
        tn__random random = {1};
        nn_op op = {.type = "NegativeLogLikelihoodLoss", .version = 13};
        nn_input(&op, &random, 0, TN_FLOAT32, 2, (int64_t[]){2, 3}, -1, 1);
        nn_input(&op, &random, 1, TN_INT64, 1, (int64_t[]){2}, 0, 1);
        ((int64_t *)op.arrays[1].data)[1] = target;
        nn_refuses(&op, "a target outside of the classes");
    }
}

/* --- Dropout --- */

static void dropout_drops_what_its_mask_says(void **state) {
    (void)state;
    for (uint32_t seeded = 0; seeded < 2; seeded++) {
        tn__random random = {7};
        nn_op op = {.type = "Dropout", .version = 13, .output_count = 2};
        nn_input(&op, &random, 0, TN_FLOAT32, 1, (int64_t[]){20000}, 1, 2);
        nn_input(&op, &random, 1, TN_FLOAT32, 0, NULL, 0.3, 0.3);
        nn_input(&op, &random, 2, TN_BOOL, 0, NULL, 0, 1);
        *(uint8_t *)op.arrays[2].data = 1;
        if (seeded) nn_int(&op, "seed", 5);
        nn_run_well(&op, -1);
        uint64_t kept = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            bool stays = number_get(&op.outputs[1], i) != 0;
            double want = stays ? number_get(op.inputs[0], i) / 0.7 : 0;
            kept += stays;
            assert_true(number_near(number_get(&op.outputs[0], i), want, 1e-6, 0));
        }
        assert_in_range(kept, 13600, 14400); /* 0.7 of them, six deviations */
        nn_clear(&op);
    }
}

static void dropout_outside_of_training_hands_on(void **state) {
    (void)state;
    for (uint32_t version = 7; version < 14; version++) {
        tn__random random = {version};
        nn_op op = {.type = "Dropout", .version = version, .output_count = 2};
        nn_input(&op, &random, 0, TN_FLOAT32, 1, (int64_t[]){50}, 1, 2);
        nn_run_well(&op, -1);
        assert_memory_equal(op.outputs[0].data, op.arrays[0].data, 200);
        for (uint64_t i = 0; i < 50; i++) assert_true(number_get(&op.outputs[1], i) == 1);
        nn_clear(&op);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_normalisation_uses_or_takes_statistics),
        cmocka_unit_test(slices_are_normalised_by_their_own_statistics),
        cmocka_unit_test(layer_normalisation_covers_the_axes_from_its_own_on),
        cmocka_unit_test(mean_and_variance_are_taken_over_any_axes),
        cmocka_unit_test(norms_and_neighbours_divide),
        cmocka_unit_test(losses_weigh_and_ignore),
        cmocka_unit_test(a_target_that_is_no_class_is_refused),
        cmocka_unit_test(dropout_drops_what_its_mask_says),
        cmocka_unit_test(dropout_outside_of_training_hands_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
