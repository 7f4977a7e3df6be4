/* Our own exp, expm1, tanh, logistic function and erf against the C library's in double. */
#include "support.h"

#include <math.h>

#include "engine/kernels/loops/approximate.h"

static double approximate_logistic(double x) { return 1 / (1 + exp(-x)); }

typedef struct approximate_case {
    const char *name;
    float (*ours)(float x);
    double (*exact)(double x);
    double units; /* in the last place */
} approximate_case;

static float approximate_exp(float x) { return tn__expf(x); }
static float approximate_expm1(float x) { return x <= 88 ? tn__expm1f(x) : expm1f(x); }
static float approximate_tanh(float x) { return tn__tanhf(x); }
static float approximate_sigmoid(float x) { return tn__logisticf(x); }
static float approximate_erf(float x) { return tn__erff(x); }

static float approximate_log1p(float x) { return x >= 0 && x <= 1 ? tn__log1pf(x) : log1pf(x); }

static const approximate_case approximate_cases[] = {
    {"exp", approximate_exp, exp, 1.0},
    {"expm1", approximate_expm1, expm1, 1.7},
    {"tanh", approximate_tanh, tanh, 2.5},
    {"logistic", approximate_sigmoid, approximate_logistic, 2.3},
    {"log1p", approximate_log1p, log1p, 2.0},
    {"erf", approximate_erf, erf, 3.0},
};

/* Distance in units of the last place of a float32 near `want`. */
static double approximate_distance(float got, double want) {
    int exponent;
    if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
    if (got == (float)want) return 0;
    if (isinf(got) || isinf((float)want)) return HUGE_VAL;
    (void)frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static void all_are_within_the_stated_error_for_floats_of_all_sizes(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof approximate_cases / sizeof *approximate_cases; c++) {
        const approximate_case *it = &approximate_cases[c];
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009) {
            float x = tn__float_of_bits((uint32_t)bits), got = it->ours(x);
            double want = it->exact((double)x);
            if (approximate_distance(got, want) > it->units)
                fail_msg("%s(%a) is %a, not %a", it->name, (double)x, (double)got, want);
        }
        assert_true(isnan(it->ours(NAN)));
    }
}

static void erf_is_within_2e_minus_7(void **state) {
    (void)state;
    for (int i = -600000; i <= 600000; i++) {
        float x = (float)i / 1e5f;
        assert_true(fabs((double)tn__erff(x) - erf((double)x)) < 2e-7);
    }
}

/* Of all sizes: beyond where the density ends, too, with numbers that it would not outweigh. */
static void the_slope_of_gelu_is_within_2e_minus_7(void **state) {
    double most = 0;
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009) {
        float x = tn__float_of_bits((uint32_t)bits), got = tn__gelu_slopef(x);
        double wide = (double)x, density = exp(-0.5 * wide * wide) * TN__GELU_DENSITY;
        double want = 0.5 * erfc(-wide * TN__GELU_ROOT) + (density > 0 ? wide * density : 0);
        if (!isfinite(x)) continue;
        double apart = fabs((double)got - want);
        if (!(apart < 2e-7)) fail_msg("at %a: %a, not %a", wide, (double)got, want);
        if (apart > most) most = apart;
    }
    assert_true(isnan(tn__gelu_slopef(NAN)));
    print_message("at most %g apart\n", most);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_within_the_stated_error_for_floats_of_all_sizes),
        cmocka_unit_test(erf_is_within_2e_minus_7),
        cmocka_unit_test(the_slope_of_gelu_is_within_2e_minus_7),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
