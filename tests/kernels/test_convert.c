/* Element types into each other: every float16, random numbers against definitions, Cast. */
#include "numbers.h"

#include "engine/kernels/convert.h"

static const tn_dtype convert_types[] = {TN_UINT8,    TN_INT8,    TN_UINT16, TN_INT16, TN_UINT32,
                                         TN_INT32,    TN_UINT64,  TN_INT64,  TN_BOOL,  TN_FLOAT16,
                                         TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
enum { CONVERT_TYPES = sizeof convert_types / sizeof *convert_types };

static void every_float16_and_bfloat16_reads_as_it_is_defined(void **state) {
    (void)state;
    static uint16_t halves[65536], back[65536];
    static float floats[65536];
    for (uint32_t type = 0; type < 2; type++) {
        tn_dtype dtype = type == 0 ? TN_FLOAT16 : TN_BFLOAT16;
        for (uint32_t i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
        tn__convert(dtype, halves, TN_FLOAT32, floats, 65536);
        tn__convert(TN_FLOAT32, floats, dtype, back, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            double want = type == 0 ? number_of_bits(i, 5, 10) : number_of_bits(i, 8, 7);
            float scalar =
                type == 0 ? tn__half_to_float((uint16_t)i) : tn__bfloat_to_float((uint16_t)i);
            if (isnan(want)) {
                assert_true(isnan(floats[i]) && isnan(scalar));
                assert_true(
                    isnan(type == 0 ? tn__half_to_float(back[i]) : tn__bfloat_to_float(back[i])));
                continue;
            }
            if ((double)floats[i] != want || (double)scalar != want || back[i] != i ||
                !signbit(floats[i]) != !signbit(want))
                fail_msg("%s 0x%04x reads as %a and goes back to 0x%04x", tn_dtype_name(dtype), i,
                         (double)floats[i], back[i]);
        }
    }
}

/* A random number that is likely near a place where rounding turns. */
static double convert_tricky(tn__random *random, int fraction_bits) {
    uint64_t bits = tn__random_next(random);
    double value = ldexp((double)(bits & 0xfff) + 1, (int)(bits >> 12 & 63) - 40 + fraction_bits);
    if (bits >> 20 & 1)
        value += ldexp(value, -11 - (int)(bits >> 24 & 31)) * ((double)(bits >> 30 & 3) - 1);
    return bits >> 21 & 1 ? -value : value;
}

static void numbers_round_once_to_16_bits(void **state) {
    (void)state;
    const uint64_t seed = 5;
    tn__random random = {seed};
    for (uint32_t i = 0; i < 400000; i++) {
        double value = convert_tricky(&random, i & 7);
        float narrow = (float)value;
        int64_t whole = (int64_t)(tn__random_next(&random) >> (i & 63));
        if (i & 64)
            whole = (int64_t)((1ull << (7 + i % 56)) + (1ull << (i % 47))) + (int64_t)(i % 3) - 1;
        uint16_t got[3], of_float[2];
        tn__convert(TN_FLOAT64, &value, TN_FLOAT16, &got[0], 1);
        tn__convert(TN_FLOAT64, &value, TN_BFLOAT16, &got[1], 1);
        tn__convert(TN_INT64, &whole, TN_BFLOAT16, &got[2], 1);
        tn__convert(TN_FLOAT32, &narrow, TN_FLOAT16, &of_float[0], 1);
        tn__convert(TN_FLOAT32, &narrow, TN_BFLOAT16, &of_float[1], 1);
        if (got[0] != number_to_bits(value, 5, 10) || got[1] != number_to_bits(value, 8, 7) ||
            of_float[0] != number_to_bits((double)narrow, 5, 10) ||
            of_float[1] != number_to_bits((double)narrow, 8, 7))
            fail_msg("seed %llu, round %u: %a becomes 0x%04x, 0x%04x, as float 0x%04x, 0x%04x",
                     (unsigned long long)seed, i, value, got[0], got[1], of_float[0], of_float[1]);
        int64_t exact =
            whole; /* the definition on a number that double holds, and ties beside it */
        if (exact < (1ll << 53) && got[2] != number_to_bits((double)exact, 8, 7))
            fail_msg("seed %llu, round %u: %lld becomes 0x%04x", (unsigned long long)seed, i,
                     (long long)whole, got[2]);
    }
}

static void integers_beside_a_tie_of_bfloat16_round_to_their_side(void **state) {
    (void)state;
    int64_t tie = (INT64_C(257) << 54), numbers[3] = {tie - 1, tie, tie + 1}; /* 1.00000001b */
    uint16_t got[3];
    tn__convert(TN_INT64, numbers, TN_BFLOAT16, got, 3);
    uint16_t low = (uint16_t)number_to_bits(ldexp(256, 54), 8, 7), high = (uint16_t)(low + 1);
    assert_int_equal(got[0], low);
    assert_int_equal(got[1], low); /* even */
    assert_int_equal(got[2], high);
}

static void numbers_that_do_not_fit_end_at_the_ends(void **state) {
    (void)state;
    const double doubles[] = {1e30, -1e30, (double)NAN, 0x1p63, 1.5e19, 300.7, -1.5};
    int64_t longs[7];
    uint64_t unsigneds[7];
    uint8_t bytes[7];
    int32_t ints[7];
    tn__convert(TN_FLOAT64, doubles, TN_INT64, longs, 7);
    tn__convert(TN_FLOAT64, doubles, TN_UINT64, unsigneds, 7);
    tn__convert(TN_FLOAT64, doubles, TN_UINT8, bytes, 7);
    tn__convert(TN_FLOAT64, doubles, TN_INT32, ints, 7);
    assert_true(longs[0] == INT64_MAX && longs[1] == INT64_MIN && longs[2] == 0);
    assert_true(longs[3] == INT64_MAX && longs[5] == 300 && longs[6] == -1);
    assert_true(unsigneds[0] == UINT64_MAX && unsigneds[1] == 0 && unsigneds[2] == 0);
    assert_true(unsigneds[3] == UINT64_C(1) << 63 &&
                unsigneds[4] == UINT64_C(15000000000000000000));
    const uint16_t wide = 0x5f40; /* bfloat16 1.5 * 2^63 */
    tn__convert(TN_BFLOAT16, &wide, TN_UINT64, unsigneds, 1);
    assert_true(unsigneds[0] == UINT64_C(3) << 62);
    assert_true(bytes[0] == 255 && bytes[1] == 0 && bytes[2] == 0 && bytes[5] == 44 &&
                bytes[6] == 255);
    assert_true(ints[0] == INT32_MAX && ints[1] == INT32_MIN && ints[2] == 0 && ints[5] == 300);
}

static double convert_round(tn_dtype dtype, double value) {
    if (dtype == TN_FLOAT16) return number_of_bits(number_to_bits(value, 5, 10), 5, 10);
    if (dtype == TN_BFLOAT16) return number_of_bits(number_to_bits(value, 8, 7), 8, 7);
    if (dtype == TN_FLOAT32) return (double)(float)value;
    if (dtype == TN_BOOL) return value != 0;
    return number_is_real(dtype) ? value : trunc(value);
}

static void cast_takes_every_type_to_every_other(void **state) {
    (void)state;
    const uint64_t seed = 11;
    tn__random random = {seed};
    for (uint32_t i = 0; i < CONVERT_TYPES * CONVERT_TYPES; i++) {
        tn_dtype from = convert_types[i / CONVERT_TYPES], to = convert_types[i % CONVERT_TYPES];
        int64_t shape[] = {3, 411}, number = to;
        double least = number_is_unsigned(to) ? 0 : -100;
        kit_array x = number_array(&random, from, 2, shape, least, 100), y;
        tn_attr attr = {.name = "to", .type = TN_ATTR_INT, .count = 1, .ints = &number};
        for (int over = -1; over < 1; over++) {
            if (over == 0 && tn_dtype_bits(from) != tn_dtype_bits(to)) continue;
            kit_op op = {.type = "Cast",
                         .version = 13,
                         .attrs = &attr,
                         .attr_count = 1,
                         .inputs = (const kit_array *[]){&x},
                         .input_count = 1,
                         .output_count = 1,
                         .over = over};
            tn_error error;
            kit_ok(kit_run(&op, &y, &error), &error);
            for (uint64_t k = 0; k < kit_count(&y); k++)
                if (number_get(&y, k) != convert_round(to, number_get(&x, k)))
                    fail_msg("seed %llu: %s %g to %s gives %g", (unsigned long long)seed,
                             tn_dtype_name(from), number_get(&x, k), tn_dtype_name(to),
                             number_get(&y, k));
            free(y.data);
        }
        free(x.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_float16_and_bfloat16_reads_as_it_is_defined),
        cmocka_unit_test(numbers_round_once_to_16_bits),
        cmocka_unit_test(integers_beside_a_tie_of_bfloat16_round_to_their_side),
        cmocka_unit_test(numbers_that_do_not_fit_end_at_the_ends),
        cmocka_unit_test(cast_takes_every_type_to_every_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
