/* test_codecs.c - codecs against their definitions: every form is compared with what a slow reading
 * of the definition gives, and what comes back with what went in.
 */
#include "../support.h"

#include <math.h>

#include "engine/codecs/codec.h"
#include "engine/kernels/kernel.h"

#define COUNT_MAX 3000u

static tn_error failure;

/* A tensor and its form, each with bytes around that nobody may touch. */
typedef struct pair {
    uint32_t plain[COUNT_MAX + 2], back[COUNT_MAX + 2];
    uint8_t code[4 * COUNT_MAX + 64];
    tn__form form;
} pair;

static void fill(pair *it, uint64_t count, uint64_t room) {
    memset(it->code, 0xa5, sizeof it->code);
    memset(it->back, 0x5a, sizeof it->back);
    it->form = (tn__form){.plain = it->plain + 1, .count = count, .code = it->code, .room = room};
}

static tn_status encode(pair *it, tn_codec codec) {
    tn_status status = tn__coder_find(codec)->encode(&it->form, &failure);
    for (size_t i = it->form.room; i < sizeof it->code; i++)
        if (it->code[i] != 0xa5) fail_msg("%s wrote behind its form", tn_codec_name(codec));
    return status;
}

static tn_status decode(pair *it, tn_codec codec) {
    it->form.plain = it->back + 1;
    tn_status status = tn__coder_find(codec)->decode(&it->form, &failure);
    if (it->back[0] != 0x5a5a5a5a || it->back[it->form.count + 1] != 0x5a5a5a5a)
        fail_msg("%s wrote beside its tensor", tn_codec_name(codec));
    return status;
}

/* Any bits; often zeros of both signs, numbers close to small and large ends, NaNs. */
static uint32_t any_bits(tn__random *random, uint64_t zeros_of_8) {
    static const float ends[] = {0.0f,     -0.0f,     1.0f,      -1.0f,     448.0f,   464.0f,
                                 465.0f,   63488.0f,  64512.0f,  65504.0f,  65519.0f, 65520.0f,
                                 1e-8f,    6e-8f,     0.001953f, 0.000977f, 6.1e-5f,  1e-40f,
                                 INFINITY, -INFINITY, NAN};
    if (tn__random_below(random, 8) < zeros_of_8) return 0;
    uint32_t bits = (uint32_t)tn__random_next(random);
    uint64_t kind = tn__random_below(random, 4);
    if (kind == 0) {
        float end = ends[tn__random_below(random, sizeof ends / sizeof *ends)];
        memcpy(&bits, &end, sizeof bits);
    } else if (kind < 3) { /* around 1: where all formats have numbers */
        float number = ldexpf((float)tn__random_below(random, 1u << 24),
                              (int)tn__random_below(random, 40) - 40);
        memcpy(&bits, &number, sizeof bits);
        bits |= (uint32_t)tn__random_below(random, 2) << 31;
    }
    return bits;
}

static float number_of(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* --- bits, CSR --- */

static void one_bit_says_whether_an_element_is_above_zero(void **state) {
    static pair it;
    tn__random random = {.state = 1};
    (void)state;
    for (uint64_t round = 0; round < 400; round++) {
        uint64_t count = tn__random_below(&random, round % 4 ? 40 : COUNT_MAX);
        for (uint64_t i = 0; i < count; i++) it.plain[i + 1] = any_bits(&random, 2);
        fill(&it, count, tn_codec_bytes(TN_CODEC_BITS, count, 0));
        assert_int_equal(it.form.room, (count + 7) / 8);
        assert_int_equal(encode(&it, TN_CODEC_BITS), TN_OK);
        assert_int_equal(decode(&it, TN_CODEC_BITS), TN_OK);
        for (uint64_t i = 0; i < count; i++) {
            bool above = number_of(it.plain[i + 1]) > 0;
            assert_int_equal(it.code[i / 8] >> i % 8 & 1, above);
            assert_true(number_of(it.back[i + 1]) == (above ? 1.0f : 0.0f));
        }
    }
}

static void csr_gives_every_bit_back_or_tells_that_it_has_no_room(void **state) {
    static pair it;
    tn__random random = {.state = 2};
    uint32_t sparse = 0, raw = 0, refused = 0;
    (void)state;
    for (uint64_t round = 0; round < 2000; round++) {
        uint64_t count = tn__random_below(&random, round % 4 ? 600 : COUNT_MAX), filled = 0;
        uint64_t zeros = tn__random_below(&random, 9);
        for (uint64_t i = 0; i < count; i++) {
            it.plain[i + 1] = any_bits(&random, zeros);
            filled += it.plain[i + 1] != 0;
        }
        uint64_t need = 16 + 2 * ((count + 255) / 256) + 5 * filled, most = 16 + 4 * count;
        assert_int_equal(tn_codec_bytes(TN_CODEC_CSR, count, filled), need);
        uint64_t room = need + tn__random_below(&random, 3) - 1; /* one too few, just enough */
        if (room > most + 8) room = most - 1 + tn__random_below(&random, 2);
        fill(&it, count, room);
        tn_status status = encode(&it, TN_CODEC_CSR);
        if (status != TN_OK) {
            assert_true(status == TN_E_EXHAUSTED && room < need && room < most);
            refused++;
            continue;
        }
        assert_true(room >= need || room >= most);
        assert_int_equal(it.form.raw, room < need);
        *(room >= need ? &sparse : &raw) += 1;
        assert_int_equal(decode(&it, TN_CODEC_CSR), TN_OK);
        assert_memory_equal(it.plain + 1, it.back + 1, count * 4);
    }
    assert_true(sparse > 100 && raw > 100 && refused > 100);
}

/* Bytes that came from elsewhere: refused, or decoded to something, within the tensor. */
static void a_damaged_csr_form_is_never_followed_outside(void **state) {
    static pair it;
    tn__random random = {.state = 3};
    uint32_t refused = 0;
    (void)state;
    for (uint64_t round = 0; round < 5000; round++) {
        uint64_t count = tn__random_below(&random, 700), filled = 0;
        for (uint64_t i = 0; i < count; i++)
            filled += (it.plain[i + 1] = any_bits(&random, 5)) != 0;
        fill(&it, count, tn_codec_bytes(TN_CODEC_CSR, count, filled));
        assert_int_equal(encode(&it, TN_CODEC_CSR), TN_OK);
        uint64_t wrong = tn__random_below(&random, 30);
        it.code[round % 3 ? tn__random_below(&random, it.form.room) : wrong % it.form.room] ^=
            (uint8_t)(1 + tn__random_below(&random, 255));
        if (round % 16 == 0) it.form.room = tn__random_below(&random, it.form.room);
        tn_status status = decode(&it, TN_CODEC_CSR);
        if (status != TN_OK) assert_int_equal(status, TN_E_INVALID);
        refused += status != TN_OK;
    }
    assert_true(refused > 1000);
}

/* --- small floats --- */

typedef struct format {
    tn_codec codec;
    int exponent, mantissa;
    bool inf;
    double largest;
} format;

static const format formats[] = {{TN_CODEC_FLOAT16, 5, 10, true, 65504},
                                 {TN_CODEC_FLOAT10, 5, 4, true, 63488},
                                 {TN_CODEC_FLOAT8, 4, 3, false, 448}};

/* What a code without its sign is worth, by the definition. */
static double worth(const format *f, uint32_t code) {
    uint32_t mantissa = code & ((1u << f->mantissa) - 1), exponent = code >> f->mantissa;
    int bias = (1 << (f->exponent - 1)) - 1;
    bool top = exponent == (1u << f->exponent) - 1;
    if (f->inf && top) return mantissa == 0 ? (double)INFINITY : (double)NAN;
    if (!f->inf && top && mantissa == (1u << f->mantissa) - 1) return (double)NAN;
    if (exponent == 0) return ldexp(mantissa, 1 - bias - f->mantissa);
    return ldexp(mantissa + (1u << f->mantissa), (int)exponent - bias - f->mantissa);
}

/* The code next to a number, of two the even one; all are tried. */
static uint32_t nearest(const format *f, float number) {
    uint32_t count = 1u << (f->exponent + f->mantissa), best = 0;
    double size = fabs((double)number), least = (double)INFINITY;
    if (isinf(number) ? !f->inf : size > f->largest) size = f->largest;
    for (uint32_t code = 0; code < count; code++) {
        double value = worth(f, code);
        if (isnan(number) ? isnan(value) : isinf(size) ? isinf(value) : false) return code;
        if (isnan(value) || isinf(value) || isnan(number) || isinf(size)) continue;
        double far = fabs(value - size);
        if (far < least || (far == least && code % 2 == 0)) best = code, least = far;
    }
    return best;
}

static uint32_t code_at(const pair *it, tn_codec codec, uint64_t i) {
    uint16_t half;
    uint32_t word;
    if (codec == TN_CODEC_FLOAT8) return it->code[i];
    memcpy(&half, it->code + 2 * i, sizeof half);
    if (codec == TN_CODEC_FLOAT16) return half;
    memcpy(&word, it->code + 4 * (i / 3), sizeof word);
    return word >> 10 * (i % 3) & 0x3ff;
}

static void check_number(const format *f, uint32_t code, uint32_t plain, uint32_t back) {
    uint32_t sign = 1u << (f->exponent + f->mantissa), wanted = nearest(f, number_of(plain));
    double value = worth(f, code & (sign - 1));
    bool nan = isnan(number_of(plain));
    if (nan ? !isnan(value) : (code & (sign - 1)) != wanted)
        fail_msg("%s: %a became code %x, not %x", tn_codec_name(f->codec), (double)number_of(plain),
                 code, wanted);
    assert_int_equal(code >> (f->exponent + f->mantissa), plain >> 31);
    assert_int_equal(back >> 31, plain >> 31);
    if (nan ? !isnan(number_of(back)) : fabs((double)number_of(back)) != value)
        fail_msg("%s: code %x came back as %a", tn_codec_name(f->codec), code,
                 (double)number_of(back));
}

static void small_floats_are_the_nearest_there_are(void **state) {
    static pair it;
    tn__random random = {.state = 4};
    (void)state;
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        const format *f = &formats[k];
        uint64_t rounds = f->codec == TN_CODEC_FLOAT16 ? 12 : 200; /* all 32768 codes are tried */
        for (uint64_t round = 0; round < rounds; round++) {
            uint64_t count = tn__random_below(&random, 200);
            for (uint64_t i = 0; i < count; i++) it.plain[i + 1] = any_bits(&random, 0);
            fill(&it, count, tn_codec_bytes(f->codec, count, 0));
            assert_int_equal(encode(&it, f->codec), TN_OK);
            assert_int_equal(decode(&it, f->codec), TN_OK);
            for (uint64_t i = 0; i < count; i++)
                check_number(f, code_at(&it, f->codec, i), it.plain[i + 1], it.back[i + 1]);
        }
    }
}

/* Every number of a format, what lies just in the middle of two, and its neighbours. */
static void ties_go_to_the_even_code_and_numbers_stay(void **state) {
    static pair it;
    (void)state;
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        const format *f = &formats[k];
        uint32_t count = 1u << (f->exponent + f->mantissa);
        for (uint32_t code = 0; code + 1 < count && worth(f, code + 1) <= f->largest; code++) {
            double low = worth(f, code), high = worth(f, code + 1);
            float here = (float)low, middle = (float)((low + high) / 2);
            const float numbers[] = {here, middle, nextafterf(middle, 0),
                                     nextafterf(middle, 1e30f)};
            const uint32_t wanted[] = {code, code + code % 2, code, code + 1};
            memcpy(it.plain + 1, numbers, sizeof numbers);
            fill(&it, 4, tn_codec_bytes(f->codec, 4, 0));
            assert_int_equal(encode(&it, f->codec), TN_OK);
            assert_int_equal(decode(&it, f->codec), TN_OK);
            for (uint32_t i = 0; i < 4; i++)
                if (code_at(&it, f->codec, i) != wanted[i])
                    fail_msg("%s: %a became %x, not %x", tn_codec_name(f->codec),
                             (double)numbers[i], code_at(&it, f->codec, i), wanted[i]);
            assert_true(number_of(it.back[1]) == here);
        }
    }
}

/* Halves are what the kernels have for them, but for what is finite and too large. */
static void float16_agrees_with_the_kernels(void **state) {
    static pair it;
    tn__random random = {.state = 5};
    (void)state;
    for (uint64_t round = 0; round < 500; round++) {
        for (uint32_t i = 0; i < 1000; i++) it.plain[i + 1] = any_bits(&random, 0);
        fill(&it, 1000, 2000);
        assert_int_equal(encode(&it, TN_CODEC_FLOAT16), TN_OK);
        for (uint32_t i = 0; i < 1000; i++) {
            float number = number_of(it.plain[i + 1]);
            if (isnan(number) || (fabsf(number) >= 65520 && !isinf(number))) continue;
            assert_int_equal(code_at(&it, TN_CODEC_FLOAT16, i), tn__float_to_half(number));
        }
    }
}

/* --- losses --- */

typedef struct loss {
    double largest, squares, of_squares;
} loss;

/* One element at a time, from what went in and what came back. */
static loss loss_of(const pair *it, uint64_t count) {
    loss sum = {0};
    for (uint64_t i = 1; i <= count; i++) {
        double x = number_of(it->plain[i]), y = number_of(it->back[i]);
        if (isnan(x) || (isinf(x) && x == y)) continue;
        if (fabs(x - y) > sum.largest) sum.largest = fabs(x - y);
        sum.squares += (x - y) * (x - y);
        if (!isinf(x)) sum.of_squares += x * x;
    }
    return sum;
}

static void assert_close(double a, double b) {
    if (!(a == b || fabs(a - b) <= 1e-6 * fabs(b))) fail_msg("%g is not %g", a, b);
}

/* Any numbers; in odd rounds such that every format has neighbours within half of its last bit. */
static void losses_are_those_of_the_elements(void **state) {
    static const tn_codec lossy[] = {TN_CODEC_FLOAT16, TN_CODEC_FLOAT10, TN_CODEC_FLOAT8};
    static const double half_bit[] = {1.0 / 2048, 1.0 / 32, 1.0 / 16};
    static pair it;
    tn__random random = {.state = 6};
    uint32_t lost = 0;
    (void)state;
    for (uint64_t round = 0; round < 600; round++) {
        uint64_t k = round % 3, count = tn__random_below(&random, COUNT_MAX);
        bool normal = round % 2 == 1;
        for (uint64_t i = 0; i < count; i++) {
            float number = 0.1f + (float)tn__random_below(&random, 1u << 24) / (1u << 18);
            if (normal)
                memcpy(&it.plain[i + 1], &number, sizeof number);
            else
                it.plain[i + 1] = any_bits(&random, 2);
        }
        tn__difference found;
        fill(&it, count, tn_codec_bytes(lossy[k], count, 0));
        assert_int_equal(encode(&it, lossy[k]), TN_OK);
        assert_int_equal(
            tn__coder_measure(tn__coder_find(lossy[k]), lossy[k], &it.form, &found, &failure),
            TN_OK);
        assert_int_equal(decode(&it, lossy[k]), TN_OK);
        loss expected = loss_of(&it, count);
        assert_close(found.largest, expected.largest);
        assert_close(found.squares, expected.squares);
        assert_close(found.of_squares, expected.of_squares);
        if (normal)
            assert_true(found.squares <= half_bit[k] * half_bit[k] * found.of_squares * 1.000001);
        lost += found.squares > 0;
    }
    assert_true(lost > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bit_says_whether_an_element_is_above_zero),
        cmocka_unit_test(csr_gives_every_bit_back_or_tells_that_it_has_no_room),
        cmocka_unit_test(a_damaged_csr_form_is_never_followed_outside),
        cmocka_unit_test(small_floats_are_the_nearest_there_are),
        cmocka_unit_test(ties_go_to_the_even_code_and_numbers_stay),
        cmocka_unit_test(float16_agrees_with_the_kernels),
        cmocka_unit_test(losses_are_those_of_the_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
