/* Spectra against the sum that defines them. */
#include "count.h"
#include "nn.h"

#define TURN 6.283185307179586476925

/* A length: mostly small, of every kind of factor; now and then a larger one. */
static int64_t length_draw(tn__random *random) {
    return nn_often(random, 4) ? nn_in(random, 1, 40) : nn_in(random, 41, 300);
}

static int64_t *input_length(nn_op *op, tn__random *random, uint32_t index, int64_t value) {
    nn_input(op, random, index, TN_INT64, 0, NULL, 0, 1);
    op->arrays[index].constant = true;
    *(int64_t *)op->arrays[index].data = value;
    return op->arrays[index].data;
}

/* Part `part` of number `k` of line `line` of [outer, length, inner, parts]; 0 beyond. */
static double dft_get(const kit_array *x, int64_t inner, int64_t length, int64_t line, int64_t k,
                      int64_t part) {
    int64_t parts = x->shape[x->rank - 1], outer = line / inner;
    if (k >= length || part >= parts) return 0;
    return number_get(x,
                      (uint64_t)((((outer * length + k) * inner) + line % inner) * parts + part));
}

static void a_spectrum_is_the_sum_that_defines_it(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(250, 25); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "DFT", .version = 17};
        bool complex_input = nn_often(&random, 2), inverse = !nn_often(&random, 3);
        bool onesided = !inverse && !complex_input && nn_often(&random, 2);
        int64_t axis = nn_in(&random, 0, 2), given = length_draw(&random), n = given;
        int64_t shape[4] = {nn_in(&random, 1, 3), nn_in(&random, 1, 3), nn_in(&random, 1, 3),
                            1 + complex_input};
        shape[axis] = given;
        tn_dtype dtype = nn_often(&random, 2) ? TN_FLOAT32 : TN_FLOAT64;
        nn_input(&op, &random, 0, dtype, 4, shape, -1, 1);
        if (!nn_often(&random, 3)) input_length(&op, &random, 1, n = length_draw(&random));
        nn_int(&op, "axis", axis);
        nn_int(&op, "inverse", inverse);
        nn_int(&op, "onesided", onesided);
        nn_run_well(&op, -1);
        int64_t inner = 1, lines = shape[0] * shape[1] * shape[2] / given;
        int64_t results = onesided ? n / 2 + 1 : n, taken = given < n ? given : n;
        for (int64_t d = axis + 1; d < 3; d++) inner *= shape[d];
        assert_int_equal(op.outputs[0].shape[axis], results);
        for (int64_t i = 0; i < lines * results; i++) {
            int64_t line = i / results, k = i % results;
            double sum[2] = {0};
            for (int64_t j = 0; j < taken; j++) {
                double angle = (inverse ? TURN : -TURN) * (double)(k * j % n) / (double)n;
                double real = dft_get(op.inputs[0], inner, given, line, j, 0);
                double imaginary = dft_get(op.inputs[0], inner, given, line, j, 1);
                sum[0] += real * cos(angle) - imaginary * sin(angle);
                sum[1] += real * sin(angle) + imaginary * cos(angle);
            }
            for (int64_t part = 0; part < 2; part++) {
                int64_t outer = line / inner;
                int64_t at = (((outer * results + k) * inner) + line % inner) * 2 + part;
                double scale = inverse ? (double)n : 1;
                nn_near(&op, 0, (uint64_t)at, sum[part] / scale, 4 + sqrt((double)n), seed);
            }
        }
        nn_clear(&op);
    }
}

/* Opset 20: half of a spectrum back to real numbers. */
static void half_a_spectrum_comes_back_real(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        tn__random random = {seed};
        nn_op to = {.type = "DFT", .version = 20}, back = {.type = "DFT", .version = 20};
        int64_t shape[3] = {2, 2 * nn_in(&random, 1, 60), 1};
        nn_input(&to, &random, 0, TN_FLOAT64, 3, shape, -1, 1);
        nn_int(&to, "onesided", 1);
        nn_run_well(&to, -1);
        back.inputs[0] = &to.outputs[0];
        back.input_count = 1;
        nn_int(&back, "onesided", 1);
        nn_int(&back, "inverse", 1);
        nn_run_well(&back, -1);
        assert_int_equal(kit_count(&back.outputs[0]), kit_count(to.inputs[0]));
        for (uint64_t i = 0; i < kit_count(to.inputs[0]); i++)
            assert_true(number_near(number_get(&back.outputs[0], i), number_get(to.inputs[0], i), 0,
                                    1e-13));
        nn_clear(&back);
        nn_clear(&to);
    }
}

static void frames_have_their_own_spectra(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "STFT", .version = 17};
        bool windowed = nn_often(&random, 2), onesided = nn_often(&random, 2);
        int64_t n = nn_in(&random, 1, 30), step = nn_in(&random, 1, 20);
        int64_t shape[3] = {2, n + nn_in(&random, 0, 60), 1};
        nn_input(&op, &random, 0, TN_FLOAT32, 3, shape, -1, 1);
        input_length(&op, &random, 1, step);
        if (windowed) nn_input(&op, &random, 2, TN_FLOAT32, 1, &n, 0, 1);
        if (!windowed || nn_often(&random, 2)) input_length(&op, &random, 3, n);
        nn_int(&op, "onesided", onesided);
        nn_run_well(&op, -1);
        int64_t frames = (shape[1] - n) / step + 1, bins = onesided ? n / 2 + 1 : n;
        assert_int_equal(kit_count(&op.outputs[0]), 2 * frames * bins * 2);
        for (int64_t i = 0; i < 2 * frames * bins; i++) {
            int64_t k = i % bins, frame = i / bins % frames, batch = i / bins / frames;
            double real = 0, imaginary = 0;
            for (int64_t j = 0; j < n; j++) {
                double value =
                    number_get(op.inputs[0], (uint64_t)(batch * shape[1] + frame * step + j));
                if (windowed) value *= number_get(op.inputs[2], (uint64_t)j);
                real += value * cos(TURN * (double)(k * j % n) / (double)n);
                imaginary -= value * sin(TURN * (double)(k * j % n) / (double)n);
            }
            nn_near(&op, 0, 2 * (uint64_t)i, real, 9, seed);
            nn_near(&op, 0, 2 * (uint64_t)i + 1, imaginary, 9, seed);
        }
        nn_clear(&op);
    }
}

static void a_frame_beyond_the_signal_is_refused(void **state) {
    (void)state;
    tn__random random = {1};
    nn_op op = {.type = "DFT", .version = 17};
    nn_input(&op, &random, 0, TN_FLOAT32, 3, (int64_t[]){2, 8, 3}, -1, 1);
    nn_refuses(&op, "numbers of three parts");
    op = (nn_op){.type = "STFT", .version = 17};
    nn_input(&op, &random, 0, TN_FLOAT32, 3, (int64_t[]){1, 20, 1}, -1, 1);
    input_length(&op, &random, 1, 4);
    nn_input(&op, &random, 2, TN_FLOAT32, 1, (int64_t[]){5}, 0, 1);
    input_length(&op, &random, 3, 8);
    nn_refuses(&op, "a window of 5 for frames of 8");
}

/* Triangles: every band rises to 1 and falls, and neighbours share their edges. */
static void bands_of_mel_are_triangles(void **state) {
    (void)state;
    tn__random random = {1};
    nn_op op = {.type = "MelWeightMatrix", .version = 17};
    input_length(&op, &random, 0, 10);
    input_length(&op, &random, 1, 1024);
    input_length(&op, &random, 2, 16000);
    nn_input(&op, &random, 3, TN_FLOAT32, 0, NULL, 100, 100);
    nn_input(&op, &random, 4, TN_FLOAT32, 0, NULL, 7000, 7000);
    nn_run_well(&op, -1);
    int64_t peak_before = -1;
    for (uint64_t band = 0; band < 10; band++) {
        int64_t peak = -1;
        for (uint64_t bin = 0; bin < 513; bin++) {
            double value = number_get(&op.outputs[0], bin * 10 + band);
            assert_true(value >= 0 && value <= 1);
            if (value == 1) peak = (int64_t)bin;
            if (bin == 0) continue;
            double before = number_get(&op.outputs[0], (bin - 1) * 10 + band);
            if (peak < 0) assert_true(value >= before);
            if (peak >= 0 && (int64_t)bin > peak) assert_true(value <= before);
        }
        double hertz =
            700 *
            (pow(10, (2595 * log10(1 + 100.0 / 700) +
                      (double)(band + 1) *
                          (2595 * log10(1 + 7000.0 / 700) - 2595 * log10(1 + 100.0 / 700)) / 12) /
                         2595) -
             1);
        assert_true(fabs((double)peak - hertz * 1025 / 16000) <= 1);
        assert_true(peak > peak_before);
        peak_before = peak;
    }
    nn_clear(&op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spectrum_is_the_sum_that_defines_it),
        cmocka_unit_test(half_a_spectrum_comes_back_real),
        cmocka_unit_test(frames_have_their_own_spectra),
        cmocka_unit_test(a_frame_beyond_the_signal_is_refused),
        cmocka_unit_test(bands_of_mel_are_triangles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
