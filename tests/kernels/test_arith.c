/* Element-wise operators against definitions in double: random shapes of rank 0 to 6, all patterns
 * of broadcasting, all types, empty tensors, in place.
 */
#include "numbers.h"

static const tn_dtype arith_reals[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16};
static const tn_dtype arith_types[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16,
                                       TN_UINT8,   TN_INT8,    TN_UINT16,  TN_INT16,
                                       TN_UINT32,  TN_INT32,   TN_UINT64,  TN_INT64};
enum { ARITH_TYPES = sizeof arith_types / sizeof *arith_types };

/* --- one input --- */

static double arith_abs(double x) { return fabs(x); }
static double arith_neg(double x) { return -x; }
static double arith_sign(double x) { return (x > 0) - (x < 0); }
static double arith_inverse(double x) { return 1 / x; }
static double arith_relu(double x) { return x > 0 ? x : 0; }
static double arith_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double arith_elu(double x) { return x > 0 ? x : 0.75 * expm1(x); }
static double arith_celu(double x) { return x > 0 ? x : 0.75 * expm1(x / 0.75); }
static double arith_selu(double x) {
    return 1.05070102214813232421875 * (x > 0 ? x : 1.67326319217681884765625 * expm1(x));
}
static double arith_leaky(double x) { return x < 0 ? 0.75 * x : x; }
static double arith_thresholded(double x) { return x > 0.75 ? x : 0; }
static double arith_hard_sigmoid(double x) { return fmax(0, fmin(1, 0.75 * x + 0.5)); }
static double arith_hard_swish(double x) { return x * fmax(0, fmin(1, x / 6 + 0.5)); }
static double arith_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double arith_softsign(double x) { return x / (1 + fabs(x)); }
static double arith_shrink(double x) { return x < -0.5 ? x : x > 0.5 ? x : 0; }
static double arith_gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }
static double arith_mish(double x) { return x * tanh(arith_softplus(x)); }

typedef struct arith_function {
    const char *type;
    double (*exact)(double x);
    double least, most;
    double absolute; /* what cancellation may cost, of float32 */
    bool alpha;      /* attribute alpha = 0.75 */
    bool whole;      /* integers, too */
} arith_function;

static const arith_function arith_functions[] = {
    {"Abs", arith_abs, -100, 100, 0, false, true},
    {"Acos", acos, -1, 1, 0, false, false},
    {"Acosh", acosh, 1, 50, 0, false, false},
    {"Asin", asin, -1, 1, 0, false, false},
    {"Asinh", asinh, -50, 50, 0, false, false},
    {"Atan", atan, -50, 50, 0, false, false},
    {"Atanh", atanh, -1, 1, 0, false, false},
    {"Ceil", ceil, -50, 50, 0, false, false},
    {"Celu", arith_celu, -10, 10, 0, true, false},
    {"Cos", cos, -50, 50, 0, false, false},
    {"Cosh", cosh, -9, 9, 0, false, false},
    {"Elu", arith_elu, -10, 10, 0, true, false},
    {"Erf", erf, -5, 5, 0, false, false},
    {"Exp", exp, -9, 9, 0, false, false},
    {"Floor", floor, -50, 50, 0, false, false},
    {"Gelu", arith_gelu, -8, 8, 1e-6, false, false},
    {"HardSigmoid", arith_hard_sigmoid, -4, 4, 1e-7, true, false},
    {"HardSwish", arith_hard_swish, -4, 4, 1e-6, false, false},
    {"LeakyRelu", arith_leaky, -50, 50, 0, true, false},
    {"Log", log, 0, 50, 0, false, false},
    {"Mish", arith_mish, -20, 50, 0, false, false},
    {"Neg", arith_neg, -50, 50, 0, false, false},
    {"Reciprocal", arith_inverse, 0.01, 50, 0, false, false},
    {"Relu", arith_relu, -100, 100, 0, false, true},
    {"Round", rint, -50, 50, 0, false, false},
    {"Selu", arith_selu, -10, 10, 0, false, false},
    {"Shrink", arith_shrink, -2, 2, 0, false, false},
    {"Sigmoid", arith_sigmoid, -9, 9, 0, false, false},
    {"Sign", arith_sign, -50, 50, 0, false, true},
    {"Sin", sin, -50, 50, 0, false, false},
    {"Sinh", sinh, -9, 9, 0, false, false},
    {"Softplus", arith_softplus, -9, 50, 0, false, false},
    {"Softsign", arith_softsign, -50, 50, 0, false, false},
    {"Sqrt", sqrt, 0, 100, 0, false, false},
    {"Tan", tan, -1.5, 1.5, 0, false, false},
    {"Tanh", tanh, -20, 20, 0, false, false},
    {"ThresholdedRelu", arith_thresholded, -50, 50, 0, true, false},
};

static void arith_check_function(tn__random *random, const arith_function *it, tn_dtype dtype,
                                 uint64_t seed) {
    const double alpha = 0.75;
    const tn_attr attr = {.name = "alpha", .type = TN_ATTR_FLOAT, .count = 1, .floats = &alpha};
    int64_t shape[TN_RANK_MAX];
    uint32_t rank = number_shape(random, shape);
    kit_array x = number_array(random, dtype, rank, shape, it->least, it->most), y;
    for (int over = -1; over < 1; over++) {
        tn_error error;
        kit_op op = {.type = it->type,
                     .version = 20,
                     .attrs = &attr,
                     .attr_count = it->alpha,
                     .inputs = (const kit_array *[]){&x},
                     .input_count = 1,
                     .output_count = 1,
                     .over = over};
        kit_ok(kit_run(&op, &y, &error), &error);
        assert_int_equal(kit_count(&y), kit_count(&x));
        double unit = number_unit(dtype), tiny = dtype == TN_FLOAT16 ? 3e-8 : 1e-44;
        double absolute = dtype == TN_FLOAT64 ? it->absolute * 1e-9 : it->absolute;
        for (uint64_t i = 0; i < kit_count(&y); i++) {
            double from = number_get(&x, i), got = number_get(&y, i), want = it->exact(from);
            if (!number_near(got, want, (tn_dtype_bits(dtype) > 16 ? 6 : 3) * unit,
                             absolute + tiny))
                fail_msg("seed %llu: %s of %s %.9g is %.9g, not %.9g", (unsigned long long)seed,
                         it->type, tn_dtype_name(dtype), from, got, want);
        }
        free(y.data);
    }
    free(x.data);
}

static void functions_of_one_element_are_what_they_are_called(void **state) {
    (void)state;
    const uint64_t seed = 21;
    tn__random random = {seed};
    for (size_t f = 0; f < sizeof arith_functions / sizeof *arith_functions; f++)
        for (uint32_t round = 0; round < 4; round++)
            for (uint32_t t = 0; t < (arith_functions[f].whole ? ARITH_TYPES : 4); t++)
                arith_check_function(&random, &arith_functions[f], arith_types[t], seed);
}

static void arith_special(const char *type, const float *x, const float *want, uint32_t count) {
    kit_array in = {.dtype = TN_FLOAT32, .rank = 1, .shape = {count}}, y;
    in.data = kit_copy(x, count * sizeof *x);
    tn_error error;
    kit_op op = {.type = type,
                 .version = 17,
                 .inputs = (const kit_array *[]){&in},
                 .input_count = 1,
                 .output_count = 1,
                 .over = -1};
    kit_ok(kit_run(&op, &y, &error), &error);
    for (uint32_t i = 0; i < count; i++)
        if (!number_near(number_get(&y, i), (double)want[i], 1e-6, 0))
            fail_msg("%s of %g is %g, not %g", type, (double)x[i], number_get(&y, i),
                     (double)want[i]);
    free(in.data);
    free(y.data);
}

static void infinities_and_not_a_numbers_go_where_they_belong(void **state) {
    (void)state;
    const float x[] = {INFINITY, -INFINITY, NAN, 0, 1e-37f, 100, -104};
    arith_special("Exp", x, (float[]){INFINITY, 0, NAN, 1, 1, INFINITY, expf(-104)}, 7);
    arith_special("Tanh", x, (float[]){1, -1, NAN, 0, 1e-37f, 1, -1}, 7);
    arith_special("Erf", x, (float[]){1, -1, NAN, 0, 1.128379e-37f, 1, -1}, 7);
    arith_special("Sigmoid", x, (float[]){1, 0, NAN, 0.5f, 0.5f, 1, expf(-104)}, 7);
    arith_special("Relu", x, (float[]){INFINITY, 0, NAN, 0, 1e-37f, 100, 0}, 7);
    arith_special("Elu", x, (float[]){INFINITY, -1, NAN, 0, 1e-37f, 100, -1}, 7);
    arith_special("HardSigmoid", x, (float[]){1, 0, NAN, 0.5f, 0.5f, 1, 0}, 7);
    arith_special("Round", (float[]){0.5f, 1.5f, 2.5f, -0.5f, -1.5f}, (float[]){0, 2, 2, 0, -2}, 5);
}

/* --- two inputs --- */

static double arith_add(double x, double y) { return x + y; }
static double arith_sub(double x, double y) { return x - y; }
static double arith_mul(double x, double y) { return x * y; }
static double arith_div(double x, double y) { return x / y; }
static double arith_modulo(double x, double y) { return x - y * floor(x / y); }
static double arith_equal(double x, double y) { return x == y; }
static double arith_less(double x, double y) { return x < y; }
static double arith_less_equal(double x, double y) { return x <= y; }
static double arith_greater(double x, double y) { return x > y; }
static double arith_greater_equal(double x, double y) { return x >= y; }
static double arith_and(double x, double y) { return (double)((int64_t)x & (int64_t)y); }
static double arith_or(double x, double y) { return (double)((int64_t)x | (int64_t)y); }
static double arith_xor(double x, double y) { return (double)((int64_t)x ^ (int64_t)y); }
static double arith_prelu(double x, double y) { return x < 0 ? x * y : x; }

typedef enum arith_domain { ARITH_ALL, ARITH_REAL, ARITH_WHOLE, ARITH_BOOL } arith_domain;
typedef struct arith_pair {
    const char *type;
    double (*exact)(double x, double y);
    arith_domain domain;
    double least; /* of the second operand */
    bool to_bool;
} arith_pair;

static const arith_pair arith_pairs[] = {
    {"Add", arith_add, ARITH_ALL, -5, false},
    {"Sub", arith_sub, ARITH_ALL, -5, false},
    {"Mul", arith_mul, ARITH_ALL, -5, false},
    {"Div", arith_div, ARITH_ALL, 1, false},
    {"Mod", arith_modulo, ARITH_WHOLE, 1, false},
    {"Pow", pow, ARITH_ALL, 0, false},
    {"Equal", arith_equal, ARITH_ALL, -5, true},
    {"Less", arith_less, ARITH_ALL, -5, true},
    {"LessOrEqual", arith_less_equal, ARITH_ALL, -5, true},
    {"Greater", arith_greater, ARITH_ALL, -5, true},
    {"GreaterOrEqual", arith_greater_equal, ARITH_ALL, -5, true},
    {"BitwiseAnd", arith_and, ARITH_WHOLE, -5, false},
    {"BitwiseOr", arith_or, ARITH_WHOLE, -5, false},
    {"BitwiseXor", arith_xor, ARITH_WHOLE, -5, false},
    {"And", arith_and, ARITH_BOOL, 0, true},
    {"Or", arith_or, ARITH_BOOL, 0, true},
    {"Xor", arith_xor, ARITH_BOOL, 0, true},
    {"PRelu", arith_prelu, ARITH_REAL, -5, false},
};

static bool arith_has(const arith_pair *it, tn_dtype dtype) {
    if (it->domain == ARITH_BOOL) return dtype == TN_BOOL;
    if (it->domain == ARITH_ALL) return dtype != TN_BOOL;
    return dtype != TN_BOOL && number_is_real(dtype) == (it->domain == ARITH_REAL);
}

/* As the type holds it: integers cut towards zero and wrapped. */
static double arith_as(tn_dtype dtype, double value) {
    if (number_is_real(dtype) || dtype == TN_BOOL) return value;
    double range = ldexp(1, (int)tn_dtype_bits(dtype)), cut = trunc(value);
    if (number_is_unsigned(dtype)) return cut - range * floor(cut / range);
    return cut - range * floor(cut / range + 0.5);
}

static void arith_check_pair(tn__random *random, const arith_pair *it, tn_dtype dtype,
                             uint64_t seed) {
    int64_t shape[TN_RANK_MAX], own[2][TN_RANK_MAX];
    uint32_t rank = number_shape(random, shape), ranks[2];
    uint32_t whole = (uint32_t)tn__random_below(random, 3); /* which operand is not broadcast */
    kit_array x[2], y;
    if (it->domain == ARITH_REAL) whole = 0; /* PRelu broadcasts its slope alone */
    bool powers = strcmp(it->type, "Pow") == 0;
    for (uint32_t k = 0; k < 2; k++) {
        ranks[k] = rank;
        memcpy(own[k], shape, sizeof shape);
        if (k != whole) ranks[k] = number_broadcast(random, rank, shape, own[k]);
        double least = k ? it->least : powers && number_is_real(dtype) ? 0.5 : -5;
        x[k] = number_array(random, dtype, ranks[k], own[k], least, 5);
    }
    for (int over = -1; over < 2; over++) {
        tn_error error;
        kit_op op = {.type = it->type,
                     .version = 18,
                     .inputs = (const kit_array *[]){&x[0], &x[1]},
                     .input_count = 2,
                     .output_count = 1,
                     .over = -1};
        if (over >= 0) { /* where the rule allows it */
            tn_graph *graph = kit_graph(&op);
            bool allowed = tn_op_inplace(graph, 0, 0) >> over & 1;
            tn_graph_destroy(graph);
            if (!allowed) continue;
            op.over = over;
        }
        kit_ok(kit_run(&op, &y, &error), &error);
        assert_int_equal(y.dtype, it->to_bool ? TN_BOOL : dtype);
        for (uint64_t i = 0; i < kit_count(&y); i++) {
            double a = number_get(&x[0], number_place(&x[0], &y, i));
            double b = number_get(&x[1], number_place(&x[1], &y, i));
            double want = arith_as(y.dtype, it->exact(a, b)), got = number_get(&y, i);
            if (!number_near(got, want, 2 * number_unit(y.dtype), dtype == TN_FLOAT16 ? 3e-8 : 0))
                fail_msg("seed %llu: %s of %s %.9g and %.9g is %.9g, not %.9g (over %d)",
                         (unsigned long long)seed, it->type, tn_dtype_name(dtype), a, b, got, want,
                         over);
        }
        free(y.data);
    }
    free(x[0].data);
    free(x[1].data);
}

static void pairs_broadcast_and_wrap(void **state) {
    (void)state;
    const uint64_t seed = 22;
    tn__random random = {seed};
    for (size_t p = 0; p < sizeof arith_pairs / sizeof *arith_pairs; p++)
        for (uint32_t round = 0; round < 12; round++)
            for (uint32_t t = 0; t <= ARITH_TYPES; t++) {
                tn_dtype dtype = t < ARITH_TYPES ? arith_types[t] : TN_BOOL;
                if (arith_has(&arith_pairs[p], dtype))
                    arith_check_pair(&random, &arith_pairs[p], dtype, seed);
            }
}

/* A pair of one element each; the result. */
static int64_t arith_of_ints(const char *type, tn_dtype dtype, const void *a, const void *b,
                             const tn_attr *attr) {
    kit_array x = {.dtype = dtype, .data = (void *)(uintptr_t)a}, y = x, z;
    y.data = (void *)(uintptr_t)b;
    tn_error error;
    kit_op op = {.type = type,
                 .version = 14,
                 .inputs = (const kit_array *[]){&x, &y},
                 .input_count = 2,
                 .output_count = 1,
                 .attrs = attr,
                 .attr_count = attr != NULL,
                 .over = -1};
    kit_ok(kit_run(&op, &z, &error), &error);
    tn_operand operand = kit_operand(&z);
    int64_t result = tn__operand_int(&operand, 0);
    free(z.data);
    return result;
}

static void integers_at_their_ends_neither_trap_nor_lose_digits(void **state) {
    (void)state;
    const int64_t zero = 0, minus = -1, least = INT64_MIN, most = INT64_MAX, less = INT64_MAX - 1;
    const int32_t least32 = INT32_MIN, minus32 = -1, seven = -7, three = 3;
    const uint64_t large = UINT64_MAX, half = UINT64_MAX / 2, two = 2, wide = 64;
    const char left_text[] = "LEFT", right_text[] = "RIGHT";
    const char *left[] = {left_text}, *right[] = {right_text};
    const int64_t one = 1;
    tn_attr shift = {.name = "direction", .type = TN_ATTR_STRING, .count = 1, .strings = left};
    tn_attr as_c = {.name = "fmod", .type = TN_ATTR_INT, .count = 1, .ints = &one};
    assert_int_equal(arith_of_ints("Div", TN_INT64, &most, &zero, NULL), 0);
    assert_true(arith_of_ints("Div", TN_INT64, &least, &minus, NULL) == INT64_MIN);
    assert_int_equal(arith_of_ints("Div", TN_INT32, &least32, &minus32, NULL), INT32_MIN);
    assert_int_equal(arith_of_ints("Div", TN_INT32, &seven, &three, NULL), -2);
    assert_int_equal(arith_of_ints("Mod", TN_INT32, &seven, &three, NULL), 2);
    assert_int_equal(arith_of_ints("Mod", TN_INT32, &seven, &three, &as_c), -1);
    assert_int_equal(arith_of_ints("Mod", TN_INT64, &least, &minus, NULL), 0);
    assert_int_equal(arith_of_ints("Mod", TN_INT64, &least, &zero, NULL), 0);
    assert_true((uint64_t)arith_of_ints("Div", TN_UINT64, &large, &two, NULL) == half);
    assert_int_equal(arith_of_ints("Less", TN_INT64, &less, &most, NULL), 1);
    assert_int_equal(arith_of_ints("Equal", TN_INT64, &less, &most, NULL), 0);
    assert_int_equal(arith_of_ints("Greater", TN_UINT64, &large, &half, NULL), 1);
    assert_true((uint64_t)arith_of_ints("Max", TN_UINT64, &large, &half, NULL) == large);
    assert_true((uint64_t)arith_of_ints("Clip", TN_UINT64, &large, &two, NULL) == large);
    assert_int_equal(arith_of_ints("BitShift", TN_UINT64, &large, &wide, &shift), 0);
    shift.strings = right;
    assert_true((uint64_t)arith_of_ints("BitShift", TN_UINT64, &large, &one, &shift) == half);
    assert_int_equal(arith_of_ints("Pow", TN_INT64, &minus, &most, NULL), -1);
    assert_int_equal(arith_of_ints("Pow", TN_INT64, &most, &minus, NULL), 0);
}

static void pow_takes_an_exponent_of_another_type(void **state) {
    (void)state;
    const uint64_t seed = 23;
    tn__random random = {seed};
    for (uint32_t i = 0; i < ARITH_TYPES * ARITH_TYPES; i++) {
        tn_dtype base = arith_types[i / ARITH_TYPES], power = arith_types[i % ARITH_TYPES];
        int64_t shape[] = {5, 130}, row[] = {130};
        kit_array x = number_array(&random, base, 2, shape, 1, 4);
        kit_array e = number_array(&random, power, i % 3 == 0 ? 0 : 1, row, 0, 4), y;
        tn_error error;
        kit_op op = {.type = "Pow",
                     .version = 15,
                     .inputs = (const kit_array *[]){&x, &e},
                     .input_count = 2,
                     .output_count = 1,
                     .over = -1};
        kit_ok(kit_run(&op, &y, &error), &error);
        for (uint64_t k = 0; k < kit_count(&y); k++) {
            double a = number_get(&x, k), b = number_get(&e, number_place(&e, &y, k));
            double want = arith_as(base, pow(a, b)), got = number_get(&y, k);
            if (!number_near(got, want, 3 * number_unit(base), 0))
                fail_msg("seed %llu: %s %g to %s %g is %g, not %g", (unsigned long long)seed,
                         tn_dtype_name(base), a, tn_dtype_name(power), b, got, want);
        }
        free(x.data);
        free(e.data);
        free(y.data);
    }
}

/* --- three inputs, and many --- */

static void where_chooses_and_broadcasts(void **state) {
    (void)state;
    const uint64_t seed = 24;
    tn__random random = {seed};
    for (uint32_t round = 0; round < 200; round++) {
        tn_dtype dtype = arith_types[round % ARITH_TYPES];
        int64_t shape[TN_RANK_MAX], own[TN_RANK_MAX];
        uint32_t rank = number_shape(&random, shape),
                 whole = (uint32_t)tn__random_below(&random, 3);
        kit_array x[3], y;
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t its = rank;
            memcpy(own, shape, sizeof own);
            if (k != whole) its = number_broadcast(&random, rank, shape, own);
            x[k] = number_array(&random, k ? dtype : TN_BOOL, its, own, -100, 100);
        }
        tn_error error;
        kit_op op = {.type = "Where",
                     .version = 16,
                     .inputs = (const kit_array *[]){&x[0], &x[1], &x[2]},
                     .input_count = 3,
                     .output_count = 1,
                     .over = round % 2 && whole ? (int)whole : -1};
        kit_ok(kit_run(&op, &y, &error), &error);
        for (uint64_t i = 0; i < kit_count(&y); i++) {
            uint32_t from = number_get(&x[0], number_place(&x[0], &y, i)) != 0 ? 1 : 2;
            double want = number_get(&x[from], number_place(&x[from], &y, i));
            if (number_get(&y, i) != want)
                fail_msg("seed %llu, round %u: element %llu is %g, not %g",
                         (unsigned long long)seed, round, (unsigned long long)i, number_get(&y, i),
                         want);
        }
        for (uint32_t k = 0; k < 3; k++) free(x[k].data);
        free(y.data);
    }
}

/* How `count` numbers combine, in the types' own arithmetic from the left. */
static double arith_combine(const char *type, tn_dtype dtype, const double *values,
                            uint32_t count) {
    double result = values[0];
    for (uint32_t k = 1; k < count; k++) {
        double sum = result + values[k];
        if (strcmp(type, "Max") == 0)
            result = fmax(result, values[k]);
        else if (strcmp(type, "Min") == 0)
            result = fmin(result, values[k]);
        else
            result = dtype == TN_FLOAT64 ? sum : number_is_real(dtype) ? (double)(float)sum : sum;
    }
    return strcmp(type, "Mean") == 0 ? result / count : arith_as(dtype, result);
}

static void many_inputs_combine_from_the_left_wherever_the_output_lies(void **state) {
    (void)state;
    static const char *const types[] = {"Sum", "Max", "Min", "Mean"};
    const uint64_t seed = 25;
    tn__random random = {seed};
    for (uint32_t round = 0; round < 240; round++) {
        const char *type = types[round % 4];
        tn_dtype dtype =
            round % 4 == 3 ? arith_reals[round / 4 % 4] : arith_types[round / 4 % ARITH_TYPES];
        uint32_t count = 1 + (uint32_t)tn__random_below(&random, 12);
        uint32_t whole = (uint32_t)tn__random_below(&random, count);
        int64_t shape[TN_RANK_MAX], own[TN_RANK_MAX];
        uint32_t rank = number_shape(&random, shape);
        kit_array x[12], y;
        const kit_array *inputs[12];
        for (uint32_t k = 0; k < count; k++) {
            uint32_t its = rank;
            memcpy(own, shape, sizeof own);
            if (k != whole) its = number_broadcast(&random, rank, shape, own);
            x[k] = number_array(&random, dtype, its, own, -9, 9);
            inputs[k] = &x[k];
        }
        tn_error error;
        kit_op op = {.type = type,
                     .version = 13,
                     .inputs = inputs,
                     .input_count = count,
                     .output_count = 1,
                     .over = round % 8 < 4 ? (int)whole : -1};
        kit_ok(kit_run(&op, &y, &error), &error);
        for (uint64_t i = 0; i < kit_count(&y); i++) {
            double values[12], want, got = number_get(&y, i);
            for (uint32_t k = 0; k < count; k++)
                values[k] = number_get(&x[k], number_place(&x[k], &y, i));
            want = arith_combine(type, dtype, values, count);
            if (!number_near(got, want, number_unit(dtype), 1e-44))
                fail_msg("seed %llu, round %u: %s of %u %s is %.9g, not %.9g",
                         (unsigned long long)seed, round, type, count, tn_dtype_name(dtype), got,
                         want);
        }
        for (uint32_t k = 0; k < count; k++) free(x[k].data);
        free(y.data);
    }
}

/* --- older operator sets --- */

static void old_operators_align_the_second_operand_at_an_axis(void **state) {
    (void)state;
    tn__random random = {26};
    const int64_t shape[] = {2, 3, 4, 5}, middle[] = {3, 4}, one = 1;
    const tn_attr attrs[] = {{.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &one},
                             {.name = "broadcast", .type = TN_ATTR_INT, .count = 1, .ints = &one}};
    kit_array a = number_array(&random, TN_FLOAT32, 4, shape, -5, 5);
    kit_array b = number_array(&random, TN_FLOAT32, 2, middle, -5, 5), y;
    tn_error error;
    kit_op op = {.type = "Mul",
                 .version = 6,
                 .attrs = attrs,
                 .attr_count = 2,
                 .inputs = (const kit_array *[]){&a, &b},
                 .input_count = 2,
                 .output_count = 1,
                 .over = 0};
    kit_ok(kit_run(&op, &y, &error), &error);
    for (uint64_t i = 0; i < 120; i++)
        assert_true(number_get(&y, i) ==
                    (double)(float)(number_get(&a, i) * number_get(&b, i / 5 % 12)));
    free(y.data);
    op.attr_count = 0; /* axis absent: {3, 4} does not go with {4, 5} */
    assert_int_equal(kit_run(&op, &y, &error), TN_E_INVALID);
    free(y.data);
    free(a.data);
    free(b.data);
}

static void old_prelu_has_a_slope_for_each_channel(void **state) {
    (void)state;
    tn__random random = {28};
    const int64_t shape[] = {2, 3, 7, 3}, channels[] = {3};
    kit_array x = number_array(&random, TN_FLOAT32, 4, shape, -5, 5), y;
    kit_array slope = number_array(&random, TN_FLOAT32, 1, channels, -5, 5);
    for (uint32_t version = 6; version <= 7; version++) {
        tn_error error;
        kit_op op = {.type = "PRelu",
                     .version = version,
                     .inputs = (const kit_array *[]){&x, &slope},
                     .input_count = 2,
                     .output_count = 1,
                     .over = -1};
        kit_ok(kit_run(&op, &y, &error), &error);
        for (uint64_t i = 0; i < kit_count(&y); i++) {
            double from = number_get(&x, i);
            double its = number_get(&slope, version == 6 ? i / 21 % 3 : i % 3);
            assert_true(number_get(&y, i) == (from < 0 ? (double)(float)(from * its) : from));
        }
        free(y.data);
    }
    free(x.data);
    free(slope.data);
}

static void clip_takes_bounds_of_both_kinds(void **state) {
    (void)state;
    tn__random random = {27};
    const int64_t shape[] = {3, 700};
    for (uint32_t t = 0; t < ARITH_TYPES; t++)
        for (uint32_t kind = 0; kind < 8; kind++) {
            tn_dtype dtype = arith_types[t];
            bool has_low = kind & 1, has_high = kind & 2, old = kind & 4;
            if (old && !number_is_real(dtype)) continue;
            const double low = 2, high = 7;
            tn_attr attrs[2];
            uint32_t attr_count = 0;
            if (old && has_low)
                attrs[attr_count++] = (tn_attr){"min", TN_ATTR_FLOAT, 1, .floats = &low};
            if (old && has_high)
                attrs[attr_count++] = (tn_attr){"max", TN_ATTR_FLOAT, 1, .floats = &high};
            kit_array x = number_array(&random, dtype, 2, shape, -10, 10), y;
            kit_array lows = number_array(&random, dtype, 0, NULL, 2, 2);
            kit_array highs = number_array(&random, dtype, 0, NULL, 7, 7);
            const kit_array *inputs[] = {&x, has_low ? &lows : NULL, has_high ? &highs : NULL};
            kit_op op = {.type = "Clip",
                         .version = old ? 6 : 13,
                         .attrs = attrs,
                         .attr_count = attr_count,
                         .inputs = inputs,
                         .input_count = old ? 1 : 3,
                         .output_count = 1,
                         .over = 0};
            tn_error error;
            kit_ok(kit_run(&op, &y, &error), &error);
            for (uint64_t i = 0; i < kit_count(&y); i++) {
                double want = number_get(&x, i);
                if (has_low && want < low) want = low;
                if (has_high && want > high) want = high;
                assert_true(number_get(&y, i) == want);
            }
            free(x.data), free(y.data), free(lows.data), free(highs.data);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_element_are_what_they_are_called),
        cmocka_unit_test(infinities_and_not_a_numbers_go_where_they_belong),
        cmocka_unit_test(pairs_broadcast_and_wrap),
        cmocka_unit_test(integers_at_their_ends_neither_trap_nor_lose_digits),
        cmocka_unit_test(pow_takes_an_exponent_of_another_type),
        cmocka_unit_test(where_chooses_and_broadcasts),
        cmocka_unit_test(many_inputs_combine_from_the_left_wherever_the_output_lies),
        cmocka_unit_test(old_operators_align_the_second_operand_at_an_axis),
        cmocka_unit_test(old_prelu_has_a_slope_for_each_channel),
        cmocka_unit_test(clip_takes_bounds_of_both_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
