/* Reductions, ArgMax, CumSum and the softmax family against sums in long double over all axes one
 * by one: random shapes and sets of axes, all types, long sums, in place where that is allowed.
 */
#include "numbers.h"

static const tn_dtype reduce_types[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, TN_INT32,
                                        TN_INT64,   TN_UINT32,  TN_UINT64,  TN_INT8,     TN_UINT8};
enum { REDUCE_TYPES = sizeof reduce_types / sizeof *reduce_types };

typedef enum reduce_kind {
    REDUCE_IS_SUM,
    REDUCE_IS_MEAN,
    REDUCE_IS_L1,
    REDUCE_IS_L2,
    REDUCE_IS_SQUARES,
    REDUCE_IS_LOG,
    REDUCE_IS_LOG_EXP,
    REDUCE_IS_MAX,
    REDUCE_IS_MIN,
    REDUCE_IS_PRODUCT,
    REDUCE_KINDS
} reduce_kind;
static const char *const reduce_names[REDUCE_KINDS] = {
    "ReduceSum",    "ReduceMean",      "ReduceL1",  "ReduceL2",  "ReduceSumSquare",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd"};

/* The result that element `i` of x goes into, when the axes of `set` are reduced. */
static uint64_t reduce_target(const kit_array *x, uint64_t set, uint64_t i) {
    uint64_t target = 0, stride = 1;
    for (uint32_t d = x->rank; d-- > 0;) {
        uint64_t extent = (uint64_t)x->shape[d], at = i % extent;
        i /= extent;
        if (set >> d & 1) continue;
        target += at * stride;
        stride *= extent;
    }
    return target;
}

typedef struct reduce_total {
    long double value;
    uint64_t count;
} reduce_total;

static long double reduce_start(reduce_kind kind) {
    return kind == REDUCE_IS_MAX       ? -(long double)INFINITY
           : kind == REDUCE_IS_MIN     ? (long double)INFINITY
           : kind == REDUCE_IS_PRODUCT ? 1
                                       : 0;
}

static void reduce_take(reduce_kind kind, reduce_total *total, double x) {
    long double v = x;
    total->count++;
    switch (kind) {
    case REDUCE_IS_L1:
        total->value += fabsl(v);
        break;
    case REDUCE_IS_L2:
    case REDUCE_IS_SQUARES:
        total->value += v * v;
        break;
    case REDUCE_IS_LOG_EXP:
        total->value += expl(v);
        break;
    case REDUCE_IS_MAX:
        total->value = fmaxl(total->value, v);
        break;
    case REDUCE_IS_MIN:
        total->value = fminl(total->value, v);
        break;
    case REDUCE_IS_PRODUCT:
        total->value *= v;
        break;
    default:
        total->value += v;
    }
}

static double reduce_end(reduce_kind kind, const reduce_total *total) {
    return kind == REDUCE_IS_MEAN ? (double)(total->value / total->count)
           : kind == REDUCE_IS_L2 ? (double)sqrtl(total->value)
           : kind == REDUCE_IS_LOG || kind == REDUCE_IS_LOG_EXP ? (double)logl(total->value)
                                                                : (double)total->value;
}

static void reduce_compare(reduce_kind kind, const kit_array *x, const kit_array *y, uint64_t set,
                           uint64_t seed, uint32_t round) {
    uint64_t count = kit_count(y);
    reduce_total *totals = calloc(count + 1, sizeof *totals);
    assert_non_null(totals);
    for (uint64_t i = 0; i < count; i++) totals[i].value = reduce_start(kind);
    for (uint64_t i = 0; i < kit_count(x); i++)
        reduce_take(kind, &totals[reduce_target(x, set, i)], number_get(x, i));
    for (uint64_t i = 0; i < count; i++) {
        double want = reduce_end(kind, &totals[i]), got = number_get(y, i);
        if (!number_is_real(y->dtype)) want = trunc(want + (want > 0 ? 1e-9 : -1e-9));
        /* what a sum of numbers of both signs may lose, of 60 in size */
        double absolute = y->dtype == TN_FLOAT64 ? 1e-12 : 1e-5;
        if (!number_near(got, want, 4 * number_unit(y->dtype), absolute))
            fail_msg("seed %llu, round %u: %s of %s, result %llu of %llu is %.9g, not %.9g",
                     (unsigned long long)seed, round, reduce_names[kind], tn_dtype_name(x->dtype),
                     (unsigned long long)i, (unsigned long long)count, got, want);
    }
    free(totals);
}

/* Numbers whose results fit the type. */
static void reduce_range(reduce_kind kind, tn_dtype dtype, double *least, double *most) {
    bool positive = kind == REDUCE_IS_LOG || number_is_unsigned(dtype);
    *least = kind == REDUCE_IS_PRODUCT ? 0.99 : positive ? 0 : -2;
    *most = kind == REDUCE_IS_PRODUCT ? 1.01 : positive ? 2.5 : 3;
    if (kind == REDUCE_IS_PRODUCT && !number_is_real(dtype)) *least = 1, *most = 2;
    if (kind == REDUCE_IS_LOG && !number_is_real(dtype)) *least = 1;
}

static void reductions_over_any_axes_are_right(void **state) {
    (void)state;
    const uint64_t seed = 31;
    tn__random random = {seed};
    for (uint32_t round = 0; round < 1500; round++) {
        reduce_kind kind = (reduce_kind)(round % REDUCE_KINDS);
        tn_dtype dtype = reduce_types[round / REDUCE_KINDS % REDUCE_TYPES];
        int64_t shape[TN_RANK_MAX], axes[TN_RANK_MAX], keep = round / 3 & 1;
        uint32_t rank = number_shape(&random, shape), count = 0;
        double least, most;
        uint64_t set = 0;
        reduce_range(kind, dtype, &least, &most);
        kit_array x = number_array(&random, dtype, rank, shape, least, most), y;
        if (tn_dtype_bits(dtype) == 8 || kit_count(&x) == 0) { /* sums would wrap */
            free(x.data);
            continue;
        }
        for (uint32_t d = 0; d < rank; d++)
            if (tn__random_below(&random, 2)) {
                axes[count++] = tn__random_below(&random, 2) ? d : (int64_t)d - (int64_t)rank;
                set |= 1ull << d;
            }
        if (count == 0) set = UINT64_MAX;
        bool input = round / 7 & 1;
        kit_array list = {
            .dtype = TN_INT64, .rank = 1, .shape = {count}, .data = axes, .constant = true};
        tn_attr attrs[] = {{"keepdims", TN_ATTR_INT, 1, .ints = &keep},
                           {"axes", TN_ATTR_INTS, count, .ints = axes}};
        kit_op op = {.type = reduce_names[kind],
                     .version = input ? 18 : 11,
                     .inputs = (const kit_array *[]){&x, &list},
                     .input_count = input && count ? 2 : 1,
                     .output_count = 1,
                     .attrs = attrs,
                     .attr_count = input || count == 0 ? 1 : 2,
                     .over = -1};
        tn_error error;
        kit_ok(kit_run(&op, &y, &error), &error);
        reduce_compare(kind, &x, &y, set, seed, round);
        free(x.data);
        free(y.data);
    }
}

static kit_array reduce_all_of(const char *type, kit_array *x) {
    kit_array y;
    tn_error error;
    kit_op op = {.type = type,
                 .version = 11,
                 .inputs = (const kit_array *[]){x},
                 .input_count = 1,
                 .output_count = 1,
                 .over = -1};
    kit_ok(kit_run(&op, &y, &error), &error);
    return y;
}

static void a_million_terms_keep_their_digits(void **state) {
    (void)state;
    tn__random random = {32};
    for (uint32_t turn = 0; turn < 2; turn++) { /* a run; rows upon each other */
        int64_t shape[] = {turn ? 1000000 : 1, turn ? 1 : 1000000, 1};
        int64_t axis = 0, pair[] = {500000, 2};
        kit_array x = number_array(&random, TN_FLOAT32, turn ? 2 : 3, turn ? pair : shape, 0, 1);
        tn_attr attr = {"axes", TN_ATTR_INTS, 1, .ints = &axis};
        long double sums[2] = {0}, powers[2] = {0};
        for (uint64_t i = 0; i < 1000000; i++) {
            sums[turn ? i % 2 : 0] += (long double)((float *)x.data)[i];
            powers[turn ? i % 2 : 0] += expl((long double)((float *)x.data)[i]);
        }
        for (uint32_t kind = 0; kind < 2; kind++) {
            kit_array y;
            tn_error error;
            kit_op op = {.type = kind ? "ReduceLogSumExp" : "ReduceSum",
                         .version = 11,
                         .inputs = (const kit_array *[]){&x},
                         .input_count = 1,
                         .output_count = 1,
                         .attrs = &attr,
                         .attr_count = turn,
                         .over = -1};
            kit_ok(kit_run(&op, &y, &error), &error);
            for (uint64_t i = 0; i < kit_count(&y); i++) {
                double want = kind ? (double)logl(powers[i]) : (double)sums[i];
                assert_true(number_near(number_get(&y, i), want, 2e-7, 0));
            }
            free(y.data);
        }
        free(x.data);
    }
}

static void of_nothing_there_is_the_neutral_number(void **state) {
    (void)state;
    const double wants[REDUCE_KINDS] = {0,
                                        (double)NAN,
                                        0,
                                        0,
                                        0,
                                        -(double)INFINITY,
                                        -(double)INFINITY,
                                        -(double)INFINITY,
                                        (double)INFINITY,
                                        1};
    for (uint32_t kind = 0; kind < REDUCE_KINDS; kind++) {
        kit_array x = {.dtype = TN_FLOAT32, .rank = 2, .shape = {3, 0}};
        kit_array y = reduce_all_of(reduce_names[kind], &x);
        assert_true(number_near(number_get(&y, 0), wants[kind], 0, 0));
        free(y.data);
    }
    kit_array x = {.dtype = TN_INT32, .rank = 1, .shape = {0}};
    kit_array least = reduce_all_of("ReduceMin", &x), most = reduce_all_of("ReduceMax", &x);
    assert_true(number_get(&least, 0) == INT32_MAX && number_get(&most, 0) == INT32_MIN);
    free(least.data);
    free(most.data);
}

static void large_exponents_do_not_overflow(void **state) {
    (void)state;
    float large[] = {1000, 1000}, none[] = {-INFINITY, -INFINITY};
    kit_array x = {.dtype = TN_FLOAT32, .rank = 1, .shape = {2}, .data = large};
    kit_array y = reduce_all_of("ReduceLogSumExp", &x);
    assert_true(number_near(number_get(&y, 0), 1000 + log(2), 1e-7, 0));
    free(y.data);
    x.data = none;
    y = reduce_all_of("ReduceLogSumExp", &x);
    assert_true(number_get(&y, 0) == -(double)INFINITY);
    free(y.data);
}

static void no_axes_and_noop_is_the_input(void **state) {
    (void)state;
    tn__random random = {33};
    const int64_t shape[] = {3, 5}, one = 1;
    kit_array x = number_array(&random, TN_FLOAT32, 2, shape, -5, 5), y;
    tn_attr attr = {"noop_with_empty_axes", TN_ATTR_INT, 1, .ints = &one};
    tn_error error;
    kit_op op = {.type = "ReduceSum",
                 .version = 13,
                 .inputs = (const kit_array *[]){&x},
                 .input_count = 1,
                 .output_count = 1,
                 .attrs = &attr,
                 .attr_count = 1,
                 .over = -1};
    kit_ok(kit_run(&op, &y, &error), &error);
    assert_memory_equal(x.data, y.data, kit_bytes(&x));
    free(x.data);
    free(y.data);
}

/* --- along one axis --- */

typedef struct reduce_line { /* x seen as [outer, extent, inner] */
    uint64_t outer, extent, inner;
} reduce_line;

static reduce_line reduce_lines(const kit_array *x, uint32_t axis, uint32_t end) {
    reduce_line line = {1, 1, 1};
    for (uint32_t d = 0; d < x->rank; d++) {
        uint64_t *part = d < axis ? &line.outer : d < end ? &line.extent : &line.inner;
        *part *= (uint64_t)x->shape[d];
    }
    return line;
}

static void argmax_finds_the_first_or_the_last(void **state) {
    (void)state;
    const uint64_t seed = 34;
    tn__random random = {seed};
    for (uint32_t round = 0; round < 600; round++) {
        int64_t shape[TN_RANK_MAX], last = round >> 1 & 1, axis;
        bool smallest = round & 1;
        uint32_t rank = number_shape(&random, shape);
        tn_dtype dtype = reduce_types[round % REDUCE_TYPES];
        kit_array x = number_array(&random, dtype, rank, shape, -4, 4), y;
        if (rank == 0 || kit_count(&x) == 0) {
            free(x.data);
            continue;
        }
        for (uint64_t i = 0; i < kit_count(&x); i++) /* equals */
            if (tn__random_below(&random, 2)) number_set(&x, i, floor(number_get(&x, i)));
        axis = (int64_t)tn__random_below(&random, rank);
        tn_attr attrs[] = {{"axis", TN_ATTR_INT, 1, .ints = &axis},
                           {"select_last_index", TN_ATTR_INT, 1, .ints = &last}};
        kit_op op = {.type = smallest ? "ArgMin" : "ArgMax",
                     .version = 13,
                     .attrs = attrs,
                     .attr_count = 2,
                     .inputs = (const kit_array *[]){&x},
                     .input_count = 1,
                     .output_count = 1,
                     .over = -1};
        tn_error error;
        kit_ok(kit_run(&op, &y, &error), &error);
        reduce_line line = reduce_lines(&x, (uint32_t)axis, (uint32_t)axis + 1);
        for (uint64_t i = 0; i < line.outer * line.inner; i++) {
            uint64_t base = i / line.inner * line.extent * line.inner + i % line.inner, want = 0;
            for (uint64_t k = 1; k < line.extent; k++) {
                double best = number_get(&x, base + want * line.inner);
                double it = number_get(&x, base + k * line.inner);
                if (smallest ? it < best || (last && it == best)
                             : it > best || (last && it == best))
                    want = k;
            }
            if (((int64_t *)y.data)[i] != (int64_t)want)
                fail_msg("seed %llu, round %u: %s of %s, result %llu is %lld, not %llu",
                         (unsigned long long)seed, round, op.type, tn_dtype_name(dtype),
                         (unsigned long long)i, (long long)((int64_t *)y.data)[i],
                         (unsigned long long)want);
        }
        free(x.data);
        free(y.data);
    }
}

static void argmax_finds_not_a_numbers(void **state) {
    (void)state;
    float values[] = {1, 7, 5, NAN, 9, NAN}; /* as rows of two: columns 1 5 9 and 7 NAN NAN */
    for (uint32_t kind = 0; kind < 4; kind++) {
        const int64_t axis = kind < 2 ? 0 : 1;
        kit_array x = {.dtype = TN_FLOAT32, .rank = 1, .shape = {6, 1}, .data = values}, y;
        if (kind >= 2) x.rank = 3, x.shape[0] = 1, x.shape[1] = 3, x.shape[2] = 2;
        tn_attr attr = {"axis", TN_ATTR_INT, 1, .ints = &axis};
        kit_op op = {.type = kind & 1 ? "ArgMin" : "ArgMax",
                     .version = 13,
                     .attrs = &attr,
                     .attr_count = 1,
                     .inputs = (const kit_array *[]){&x},
                     .input_count = 1,
                     .output_count = 1,
                     .over = -1};
        tn_error error;
        kit_ok(kit_run(&op, &y, &error), &error);
        const int64_t *places = y.data;
        if (kind < 2) /* the first */
            assert_int_equal(places[0], 3);
        else
            assert_true(places[0] == (kind & 1 ? 0 : 2) && places[1] == 1);
        free(y.data);
    }
}

static void cumsum_goes_both_ways(void **state) {
    (void)state;
    const uint64_t seed = 35;
    tn__random random = {seed};
    for (uint32_t round = 0; round < 400; round++) {
        int64_t shape[TN_RANK_MAX], exclusive = round & 1, reverse = round >> 1 & 1, axis;
        uint32_t rank = number_shape(&random, shape);
        tn_dtype dtype = reduce_types[round % 8];
        if (rank == 0) continue;
        kit_array x = number_array(&random, dtype, rank, shape, -1, 3), y;
        uint32_t at = (uint32_t)tn__random_below(&random, rank);
        axis = round & 4 ? at : (int64_t)at - (int64_t)rank;
        kit_array where = {.dtype = TN_INT64, .data = &axis, .constant = true};
        tn_attr attrs[] = {{"exclusive", TN_ATTR_INT, 1, .ints = &exclusive},
                           {"reverse", TN_ATTR_INT, 1, .ints = &reverse}};
        kit_op op = {.type = "CumSum",
                     .version = 14,
                     .attrs = attrs,
                     .attr_count = 2,
                     .inputs = (const kit_array *[]){&x, &where},
                     .input_count = 2,
                     .output_count = 1,
                     .over = -1};
        tn_error error;
        kit_ok(kit_run(&op, &y, &error), &error);
        reduce_line line = reduce_lines(&x, at, at + 1);
        for (uint64_t i = 0; i < line.outer * line.inner && line.extent > 0; i++) {
            uint64_t base = i / line.inner * line.extent * line.inner + i % line.inner;
            double sum = 0;
            for (uint64_t k = 0; k < line.extent; k++) {
                uint64_t element = base + (reverse ? line.extent - 1 - k : k) * line.inner;
                double before = sum, want;
                sum += number_get(&x, element);
                want = exclusive ? before : sum;
                if (!number_near(number_get(&y, element), want, 2 * number_unit(dtype), 1e-10))
                    fail_msg("seed %llu, round %u: %g, not %g", (unsigned long long)seed, round,
                             number_get(&y, element), want);
            }
        }
        free(x.data);
        free(y.data);
    }
}

/* --- the softmax family --- */

static void softmax_compare(const kit_array *x, const kit_array *y, reduce_line line, uint32_t kind,
                            uint64_t seed, uint32_t round) {
    for (uint64_t i = 0; i < line.outer * line.inner; i++) {
        uint64_t base = i / line.inner * line.extent * line.inner + i % line.inner, first = 0;
        long double most = -(long double)INFINITY, sum = 0;
        for (uint64_t k = 0; k < line.extent; k++)
            if ((long double)number_get(x, base + k * line.inner) > most)
                most = (long double)number_get(x, base + k * line.inner), first = k;
        for (uint64_t k = 0; k < line.extent; k++)
            sum += expl((long double)number_get(x, base + k * line.inner) - most);
        for (uint64_t k = 0; k < line.extent; k++) {
            uint64_t at = base + k * line.inner;
            long double less = (long double)number_get(x, at) - most;
            double want = kind == 0   ? (double)(expl(less) / sum)
                          : kind == 1 ? (double)(less - logl(sum))
                                      : k == first;
            double unit = number_unit(y->dtype), absolute = y->dtype == TN_FLOAT16 ? 3e-8 : 1e-44;
            if (kind == 1) absolute = 4 * unit;
            /* differences are rounded, too; of float64 so are the sums */
            double relative = ((y->dtype == TN_FLOAT64 ? 64 : 4) - (double)less) * unit;
            if (!number_near(number_get(y, at), want, relative, absolute))
                fail_msg("seed %llu, round %u: element %llu is %.9g, not %.9g",
                         (unsigned long long)seed, round, (unsigned long long)at, number_get(y, at),
                         want);
        }
    }
}

static void softmax_of_both_versions_is_right_in_place_too(void **state) {
    (void)state;
    static const char *const names[] = {"Softmax", "LogSoftmax", "Hardmax"};
    const uint64_t seed = 36;
    tn__random random = {seed};
    for (uint32_t round = 0; round < 900; round++) {
        uint32_t kind = round % 3;
        tn_dtype dtype = reduce_types[round / 3 % 4];
        int64_t shape[TN_RANK_MAX], axis;
        uint32_t rank = number_shape(&random, shape);
        if (rank == 0) continue;
        bool old = round / 12 & 1, given = round / 24 & 1;
        uint32_t at = old ? 1 : rank - 1;
        if (given) at = (uint32_t)tn__random_below(&random, rank);
        if (at >= rank) continue;
        axis = round & 1 && !old ? (int64_t)at - (int64_t)rank : at;
        kit_array x = number_array(&random, dtype, rank, shape, -20, 20), y;
        tn_attr attr = {"axis", TN_ATTR_INT, 1, .ints = &axis};
        kit_op op = {.type = names[kind],
                     .version = old ? 11 : 13,
                     .attrs = &attr,
                     .attr_count = given,
                     .inputs = (const kit_array *[]){&x},
                     .input_count = 1,
                     .output_count = 1,
                     .over = round / 48 & 1 ? 0 : -1};
        tn_error error;
        kit_ok(kit_run(&op, &y, &error), &error);
        softmax_compare(&x, &y, reduce_lines(&x, at, old ? rank : at + 1), kind, seed, round);
        free(x.data);
        free(y.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_over_any_axes_are_right),
        cmocka_unit_test(a_million_terms_keep_their_digits),
        cmocka_unit_test(of_nothing_there_is_the_neutral_number),
        cmocka_unit_test(large_exponents_do_not_overflow),
        cmocka_unit_test(no_axes_and_noop_is_the_input),
        cmocka_unit_test(argmax_finds_the_first_or_the_last),
        cmocka_unit_test(argmax_finds_not_a_numbers),
        cmocka_unit_test(cumsum_goes_both_ways),
        cmocka_unit_test(softmax_of_both_versions_is_right_in_place_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
