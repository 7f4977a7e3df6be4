/* Types of 8 bits and fewer: their ends as the specifications print them, every code there and
 * back, rounding against a search of all codes, Cast and the quantising operators on them.
 */
#include <math.h>

#include "nn.h"

#include "engine/kernels/loops/small_types.h"

typedef struct small_type {
    tn_dtype dtype;
    double largest, smallest; /* magnitudes */
    uint32_t largest_code, one_code;
    bool has_nan, has_infinity, unsigned_zero;
} small_type;

/* From the tables of float8 and float4 in ONNX's documents. */
static const small_type small_types[] = {
    {TN_FLOAT8E4M3FN, 448, 0x1p-9, 0x7e, 0x38, true, false, false},
    {TN_FLOAT8E4M3FNUZ, 240, 0x1p-10, 0x7f, 0x40, true, false, true},
    {TN_FLOAT8E5M2, 57344, 0x1p-16, 0x7b, 0x3c, true, true, false},
    {TN_FLOAT8E5M2FNUZ, 57344, 0x1p-17, 0x7f, 0x40, true, false, true},
    {TN_FLOAT4E2M1, 6, 0.5, 0x7, 0x2, false, false, false},
};
enum { SMALL_TYPES = sizeof small_types / sizeof *small_types };

static const tn__small_options saturates = {.saturate = true}, overflows = {.saturate = false};

static uint32_t code_count(tn_dtype dtype) { return 1u << tn_dtype_bits(dtype); }

static void codes_have_the_published_values(void **state) {
    (void)state;
    for (uint32_t t = 0; t < SMALL_TYPES; t++) {
        const small_type *type = &small_types[t];
        const uint32_t codes = code_count(type->dtype);
        uint32_t nans = 0, infinities = 0;
        assert_true(tn__is_small(type->dtype) && tn__is_small_float(type->dtype));
        assert_true(tn__small_value(type->dtype, type->largest_code) == type->largest);
        assert_true(tn__small_value(type->dtype, type->one_code) == 1);
        assert_true(tn__small_value(type->dtype, 1) == type->smallest);
        for (uint32_t code = 0; code < codes; code++) {
            double value = tn__small_value(type->dtype, code);
            nans += isnan(value) != 0;
            infinities += isinf(value) != 0;
            if (isnan(value)) continue;
            assert_true(isinf(value) || fabs(value) <= type->largest);
            assert_int_equal(tn__small_round_to(type->dtype, value, overflows), code);
            /* magnitudes grow with their codes */
            if (code > 0 && code < codes / 2)
                assert_true(fabs(value) > fabs(tn__small_value(type->dtype, code - 1)));
        }
        assert_int_equal(infinities, type->has_infinity ? 2 : 0);
        assert_int_equal(nans, !type->has_nan        ? 0
                               : type->has_infinity  ? 6
                               : type->unsigned_zero ? 1
                                                     : 2);
    }
    assert_true(tn__small_value(TN_FLOAT8E8M0, 0) == 0x1p-127);
    assert_true(tn__small_value(TN_FLOAT8E8M0, 254) == 0x1p127);
    assert_true(isnan(tn__small_value(TN_FLOAT8E8M0, 255)));
    for (uint32_t code = 0; code < 16; code++) {
        assert_true(tn__small_value(TN_UINT4, code) == code);
        assert_true(tn__small_value(TN_INT4, code) == (int32_t)code - (code > 7 ? 16 : 0));
        assert_true(tn__small_value(TN_INT2, code & 3) ==
                    (int32_t)(code & 3) - ((code & 3) > 1 ? 4 : 0));
    }
}

/* The nearest finite number of a type, the one with an even code of two. */
static uint32_t nearest(const small_type *type, double value) {
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t code = 0; code <= type->largest_code; code++) {
        double away = fabs(tn__small_value(type->dtype, code) - fabs(value));
        if (away < least || (away == least && code % 2 == 0)) {
            least = away;
            best = code;
        }
    }
    return best;
}

static void numbers_round_to_the_nearest(void **state) {
    (void)state;
    tn__random random = {7};
    for (uint32_t t = 0; t < SMALL_TYPES; t++) {
        const small_type *type = &small_types[t];
        const uint32_t sign = code_count(type->dtype) / 2;
        for (uint32_t i = 0; i < 20000; i++) {
            uint32_t a = (uint32_t)tn__random_below(&random, type->largest_code);
            double low = tn__small_value(type->dtype, a),
                   high = tn__small_value(type->dtype, a + 1);
            double value =
                i % 3 == 0 ? (low + high) / 2
                : i % 3 == 1
                    ? low + (high - low) * ((double)tn__random_below(&random, 1u << 30) * 0x1p-30)
                    : nextafter((low + high) / 2, i % 2 ? 0 : INFINITY);
            uint32_t want = nearest(type, value), got;
            bool negative = i % 5 == 0;
            got = tn__small_round_to(type->dtype, negative ? -value : value, saturates);
            if (negative && !(want == 0 && type->unsigned_zero)) want |= sign;
            if (got != want)
                fail_msg("%s: %.17g becomes 0x%02x, not 0x%02x", tn_dtype_name(type->dtype), value,
                         got, want);
        }
    }
}

/* The tables of the operator Cast. */
static void what_does_not_fit_follows_the_tables(void **state) {
    static const double large[] = {1e6, INFINITY};
    (void)state;
    for (uint32_t t = 0; t < SMALL_TYPES; t++) {
        const small_type *type = &small_types[t];
        const uint32_t sign = code_count(type->dtype) / 2;
        for (uint32_t k = 0; k < 4; k++) {
            double value = k < 2 ? large[k] : -large[k - 2];
            uint32_t got = tn__small_round_to(type->dtype, value, saturates);
            assert_int_equal(got, type->largest_code | (k < 2 ? 0 : sign));
            double over =
                tn__small_value(type->dtype, tn__small_round_to(type->dtype, value, overflows));
            if (type->has_infinity)
                assert_true(over == (k < 2 ? (double)INFINITY : -(double)INFINITY));
            else
                assert_true(type->has_nan ? isnan(over) : fabs(over) == type->largest);
        }
        double nan = tn__small_value(type->dtype, tn__small_round_to(type->dtype, NAN, saturates));
        assert_true(type->has_nan ? isnan(nan) : nan == 0);
        uint32_t zero = tn__small_round_to(type->dtype, -0.0, saturates);
        assert_int_equal(zero, type->unsigned_zero ? 0 : sign);
    }
}

static void powers_of_two_round_by_mode(void **state) {
    static const struct {
        double value;
        uint32_t up, down, nearest;
    } cases[] = {{1, 127, 127, 127},      {1.1, 128, 127, 127},    {1.5, 128, 127, 128},
                 {1.4999, 128, 127, 127}, {0.124, 124, 123, 124},  {4, 129, 129, 129},
                 {0x1p-127, 0, 0, 0},     {0x1p127, 254, 254, 254}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t want[] = {cases[i].up, cases[i].down, cases[i].nearest};
        for (uint32_t round = 0; round < 3; round++) {
            tn__small_options options = {.saturate = i % 2 != 0, .round = (tn__small_round)round};
            assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, cases[i].value, options),
                             want[round]);
        }
    }
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, 0, saturates), 0);
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, 0x1p-140, saturates), 0);
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, INFINITY, saturates), 254);
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, 0x1.8p127, saturates), 254);
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, NAN, saturates), 255);
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, 0, overflows), 255);
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, INFINITY, overflows), 255);
    assert_int_equal(tn__small_round_to(TN_FLOAT8E8M0, 0x1.8p127, overflows), 255);
}

/* --- operators --- */

static const tn_dtype narrow[] = {
    TN_FLOAT8E4M3FN, TN_FLOAT8E4M3FNUZ, TN_FLOAT8E5M2, TN_FLOAT8E5M2FNUZ, TN_FLOAT4E2M1,
    TN_FLOAT8E8M0,   TN_INT4,           TN_UINT4,      TN_INT2,           TN_UINT2};
static const tn_dtype wide[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16, TN_INT8, TN_INT64};
enum { NARROW = sizeof narrow / sizeof *narrow, WIDE = sizeof wide / sizeof *wide };

static double read_narrow(const kit_array *array, uint64_t i) {
    return tn__small_value(array->dtype, tn__small_code(array->dtype, array->data, i));
}

/* Casts numbers up to 3, which every type has or rounds to, and back. */
static void casts_go_there_and_back(void **state) {
    (void)state;
    for (uint32_t k = 0; k < NARROW * WIDE; k++) {
        const tn_dtype small = narrow[k % NARROW], large = wide[k / NARROW];
        tn__random random = {k + 1};
        const int64_t shape[] = {8 * nn_in(&random, 1, 150)};
        nn_op there = {.type = "Cast", .version = 25}, back = {.type = "Cast", .version = 25};
        nn_int(&there, "to", small);
        nn_input(&there, &random, 0, large, 1, shape, -3, 3);
        nn_run_well(&there, -1);
        assert_int_equal(there.outputs[0].dtype, small);
        nn_int(&back, "to", large);
        back.inputs[0] = &there.outputs[0];
        back.input_count = 1;
        nn_run_well(&back, -1);
        for (int64_t i = 0; i < shape[0]; i++) {
            double given = number_get(&there.arrays[0], (uint64_t)i);
            double kept = read_narrow(&there.outputs[0], (uint64_t)i);
            double want = given;
            if (tn__is_small_float(small)) {
                want = tn__small_value(small, tn__small_round_to(small, given, saturates));
            } else {
                int64_t modulus = 1 << tn_dtype_bits(small), whole = (int64_t)given % modulus;
                if (whole < 0) whole += modulus;
                want = tn__small_value(small, (uint32_t)whole);
            }
            if (kept != want)
                fail_msg("%s to %s: %g became %g, not %g", tn_dtype_name(large),
                         tn_dtype_name(small), given, kept, want);
            double last = number_get(&back.outputs[0], (uint64_t)i);
            double whole = large == TN_INT8 || large == TN_INT64 ? trunc(kept) : kept;
            /* 2^-127 is less than float16 and bfloat16 can hold */
            if (last != whole && !(fabs(kept) < 0x1p-24 && fabs(last - kept) < 0x1p-24))
                fail_msg("%s to %s: %g came back as %g", tn_dtype_name(small), tn_dtype_name(large),
                         kept, last);
        }
        back.inputs[0] = NULL;
        nn_clear(&back);
        nn_clear(&there);
    }
}

/* A matrix with a scale for each block of three columns, quantised and back. The scales are powers
 * of two, so a float8e8m0 holds them, too. */
static void quantised_floats_have_a_scale_for_each_block(void **state) {
    (void)state;
    for (uint32_t t = 0; t < 2 * SMALL_TYPES; t++) {
        const tn_dtype small = small_types[t % SMALL_TYPES].dtype;
        const bool power = t >= SMALL_TYPES;
        const int64_t shape[] = {4, 6}, blocks[] = {4, 2};
        tn__random random = {t + 1};
        nn_op there = {.type = "QuantizeLinear", .version = 25},
              back = {.type = "DequantizeLinear", .version = 25};
        nn_int(&there, "axis", 1);
        nn_int(&there, "block_size", 3);
        nn_int(&there, "output_dtype", small);
        nn_input(&there, &random, 0, TN_FLOAT32, 2, shape, -9, 9);
        kit_array *scale = nn_input(&there, &random, 1, TN_FLOAT32, 2, blocks, 0, 1);
        float scales[8];
        uint8_t codes[8];
        for (uint32_t i = 0; i < 8; i++) {
            codes[i] = (uint8_t)(126 + i % 4);
            scales[i] = (float)ldexp(1, (int)codes[i] - 127);
        }
        memcpy(scale->data, scales, sizeof scales);
        if (power) scale->dtype = TN_FLOAT8E8M0, memcpy(scale->data, codes, sizeof codes);
        nn_run_well(&there, -1);
        nn_int(&back, "axis", 1);
        nn_int(&back, "block_size", 3);
        if (power) nn_int(&back, "output_dtype", TN_FLOAT32);
        back.inputs[0] = &there.outputs[0];
        back.inputs[1] = scale;
        back.input_count = 2;
        nn_run_well(&back, -1);
        for (uint64_t i = 0; i < 24; i++) {
            double by = (double)scales[i / 6 * 2 + i % 6 / 3];
            double given = number_get(&there.arrays[0], i) / by;
            double want = tn__small_value(small, tn__small_round_to(small, given, saturates));
            double kept = read_narrow(&there.outputs[0], i), last = number_get(&back.outputs[0], i);
            if (kept != want || last != want * by)
                fail_msg("%s, element %llu: %g is stored as %g and read as %g",
                         tn_dtype_name(small), (unsigned long long)i, given, kept, last);
        }
        nn_clear(&back);
        nn_clear(&there);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_have_the_published_values),
        cmocka_unit_test(numbers_round_to_the_nearest),
        cmocka_unit_test(what_does_not_fit_follows_the_tables),
        cmocka_unit_test(powers_of_two_round_by_mode),
        cmocka_unit_test(casts_go_there_and_back),
        cmocka_unit_test(quantised_floats_have_a_scale_for_each_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
