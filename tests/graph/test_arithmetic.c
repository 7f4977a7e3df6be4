/* Broadcasting and followed arithmetic against brute force; exactness of integers and float32. */
#include <math.h>

#include "kit.h"

#define MOST 512

__extension__ typedef __int128 wide;

typedef struct operand {
    uint32_t rank, count;
    int64_t shape[8], ints[MOST];
    double floats[MOST];
} operand;

/* --- broadcasting --- */

/* Extent d of the result counted from the right, -1 for a contradiction: numpy's rule, said anew.
 */
static int64_t expected_extent(const operand *operands, uint32_t count, uint32_t from_right) {
    int64_t extent = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (from_right >= operands[i].rank) continue;
        int64_t own = operands[i].shape[operands[i].rank - 1 - from_right];
        if (own == 1) continue;
        if (extent != 1 && extent != own) return -1;
        extent = own;
    }
    return extent;
}

static void broadcasting_agrees_with_numpys_rule(void **state) {
    (void)state;
    static operand operands[3];
    int contradictions = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        tn__random random = {seed};
        test_kit kit = kit_open();
        uint32_t count = 1 + (uint32_t)tn__random_below(&random, 3), rank = 0;
        tn_tensor_id inputs[3];
        int64_t common[8];
        for (uint32_t d = 0; d < 8; d++) common[d] = (int64_t)tn__random_below(&random, 4);
        for (uint32_t i = 0; i < count; i++) {
            operands[i].rank = (uint32_t)tn__random_below(&random, 5);
            for (uint32_t d = 0; d < operands[i].rank; d++) {
                operands[i].shape[d] = common[operands[i].rank - d];
                if (!tn__random_below(&random, 3)) operands[i].shape[d] = 1;
                if (!tn__random_below(&random, 12)) operands[i].shape[d] = 5;
            }
            if (operands[i].rank > rank) rank = operands[i].rank;
            inputs[i] = kit_input(&kit, "in", TN_FLOAT32, operands[i].rank, operands[i].shape);
        }
        tn_tensor_id out = kit_op(&kit, "Sum", count, inputs);
        bool good = true;
        int64_t shape[8];
        for (uint32_t d = 0; d < rank; d++)
            good &= (shape[d] = expected_extent(operands, count, rank - 1 - d)) >= 0;
        if (good) {
            kit_infer(&kit);
            kit_assert_shape(&kit, out, rank, shape);
        } else {
            contradictions++;
            kit_infer_fails(&kit, TN_E_INVALID);
            assert_non_null(strstr(kit.error.message, "broadcast"));
            assert_non_null(strstr(kit.error.where, "Sum"));
        }
        kit_close(&kit);
    }
    assert_true(contradictions > 100);
}

static void unknown_extents_broadcast_as_far_as_they_can(void **state) {
    (void)state;
    const int64_t u = TN_DIM_UNKNOWN;
    const int64_t cases[][3] = {{u, 1, u}, {u, u, u}, {u, 5, 5}, {1, u, u}, {0, u, 0}, {7, 7, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_kit kit = kit_open();
        tn_tensor_id a = kit_input(&kit, "a", TN_FLOAT32, 1, &cases[i][0]);
        tn_tensor_id b = kit_input(&kit, "b", TN_FLOAT32, 1, &cases[i][1]);
        tn_tensor_id out = kit_op(&kit, "Add", KIT_LIST(a, b));
        tn_status status = tn_graph_infer(kit.graph, &kit.error);
        bool known = cases[i][0] != u && cases[i][1] != u;
        assert_int_equal(status, known ? TN_OK : TN_E_UNKNOWN);
        kit_assert_shape(&kit, out, 1, &cases[i][2]);
        kit_close(&kit);
    }
}

/* --- contents --- */

static const struct {
    tn_dtype dtype;
    int64_t low, high;
} widths[] = {{TN_INT8, INT8_MIN, INT8_MAX},    {TN_UINT8, 0, UINT8_MAX},
              {TN_INT16, INT16_MIN, INT16_MAX}, {TN_UINT16, 0, UINT16_MAX},
              {TN_INT32, INT32_MIN, INT32_MAX}, {TN_UINT32, 0, UINT32_MAX},
              {TN_INT64, INT64_MIN, INT64_MAX}};

/* The value of the type's width that is congruent, by stepping in 128 bits. */
static int64_t wrapped(wide value, int64_t low, int64_t high) {
    wide size = (wide)high - low + 1;
    value = (value - low) % size;
    return (int64_t)((value < 0 ? value + size : value) + low);
}

typedef struct integer_op {
    const char *type;
    wide (*compute)(wide a, wide b);
    bool truth; /* of a comparison */
} integer_op;

static wide plus(wide a, wide b) { return a + b; }
static wide minus(wide a, wide b) { return a - b; }
static wide times(wide a, wide b) { return a * b; }
static wide over(wide a, wide b) { return a / b; }
static wide modulo(wide a, wide b) {
    wide rest = a % b;
    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}
static wide least(wide a, wide b) { return a < b ? a : b; }
static wide most(wide a, wide b) { return a > b ? a : b; }
static wide equal(wide a, wide b) { return a == b; }
static wide greater(wide a, wide b) { return a > b; }
static wide less_or_equal(wide a, wide b) { return a <= b; }
static const integer_op integer_ops[] = {
    {"Add", plus, false},       {"Sub", minus, false},
    {"Mul", times, false},      {"Div", over, false},
    {"Mod", modulo, false},     {"Min", least, false},
    {"Max", most, false},       {"Equal", equal, true},
    {"Greater", greater, true}, {"LessOrEqual", less_or_equal, true}};

static void integers_are_exact_and_wrap_as_their_type_does(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        tn__random random = {seed};
        test_kit kit = kit_open();
        const integer_op *op = &integer_ops[tn__random_below(&random, 10)];
        uint32_t width = (uint32_t)tn__random_below(&random, 7);
        int64_t low = widths[width].low, high = widths[width].high, a[3], b[1], expected[3];
        int64_t three = 3;
        for (int i = 0; i < 4; i++) {
            int64_t *to = i < 3 ? &a[i] : b;
            switch (tn__random_below(&random, 4)) {
            case 0:
                *to = wrapped((int64_t)tn__random_next(&random), low, high);
                break;
            case 1:
                *to = tn__random_below(&random, 2) ? low : high;
                break;
            default:
                *to = wrapped((int64_t)tn__random_below(&random, 40) - 20, low, high);
            }
        }
        bool divides = op->compute == over || op->compute == modulo;
        if (divides && !b[0]) b[0] = 3;
        bool truth = op->truth;
        for (int i = 0; i < 3; i++) {
            wide exact = op->compute(a[i], b[0]);
            expected[i] = truth ? (int64_t)exact : wrapped(exact, low, high);
        }
        tn_tensor_id x = kit_constant(&kit, widths[width].dtype, 1, &three, a, NULL);
        tn_tensor_id y = kit_constant(&kit, widths[width].dtype, 0, NULL, b, NULL);
        tn_tensor_id out = kit_op(&kit, op->type, KIT_LIST(x, y));
        kit_infer(&kit);
        assert_int_equal(kit_at(&kit, out)->dtype, truth ? TN_BOOL : widths[width].dtype);
        for (int i = 0; i < 3; i++)
            if (kit_at(&kit, out)->value->ints[i] != expected[i])
                fail_msg("seed %llu: %s of %lld and %lld is %lld, not %lld",
                         (unsigned long long)seed, op->type, (long long)a[i], (long long)b[0],
                         (long long)kit_at(&kit, out)->value->ints[i], (long long)expected[i]);
        kit_close(&kit);
    }
}

static void a_division_by_zero_leaves_contents_unknown(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id seven = kit_scalar(&kit, 7), zero = kit_scalar(&kit, 0);
    tn_tensor_id quotient = kit_op(&kit, "Div", KIT_LIST(seven, zero));
    tn_tensor_id rest = kit_op(&kit, "Mod", KIT_LIST(seven, zero));
    kit_infer(&kit);
    assert_null(kit_at(&kit, quotient)->value);
    assert_null(kit_at(&kit, rest)->value);
    assert_true(kit_at(&kit, rest)->flags & TN_TENSOR_FOLDED); /* static all the same */
    kit_close(&kit);
}

static void float32_is_rounded_after_every_operation(void **state) {
    (void)state;
    static const char *const types[] = {"Add", "Sub", "Mul", "Div"};
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        tn__random random = {seed};
        test_kit kit = kit_open();
        float a = (float)ldexp((double)tn__random_below(&random, 1u << 24), -12);
        float b = (float)ldexp((double)(1 + tn__random_below(&random, 1u << 24)), -9);
        uint32_t which = (uint32_t)tn__random_below(&random, 4);
        volatile float sum = which == 0 ? a + b : which == 1 ? a - b : which == 2 ? a * b : a / b;
        volatile float root = sqrtf(a);
        double da = a, db = b;
        tn_tensor_id x = kit_constant(&kit, TN_FLOAT32, 0, NULL, NULL, &da);
        tn_tensor_id y = kit_constant(&kit, TN_FLOAT32, 0, NULL, NULL, &db);
        tn_tensor_id out = kit_op(&kit, types[which], KIT_LIST(x, y));
        tn_tensor_id down = kit_op(&kit, "Floor", KIT_LIST(out));
        kit_attr_int(&kit, "to", TN_INT64);
        tn_tensor_id whole = kit_op(&kit, "Cast", KIT_LIST(down));
        tn_tensor_id square = kit_op(&kit, "Sqrt", KIT_LIST(x));
        kit_infer(&kit);
        assert_true(kit_at(&kit, out)->value->floats[0] == (double)sum);
        assert_true(kit_at(&kit, square)->value->floats[0] == (double)root);
        int64_t floored = (int64_t)floorf(sum);
        kit_assert_ints(&kit, whole, 1, &floored);
        kit_close(&kit);
    }
}

static void halves_are_rounded_as_their_types_are(void **state) {
    (void)state;
    const struct {
        tn_dtype dtype;
        double from, to;
    } cases[] = {
        {TN_FLOAT16, 1.0 + 1.0 / 2048, 1.0},
        {TN_FLOAT16, 1.0 + 3.0 / 2048, 1.0 + 2.0 / 1024},
        {TN_FLOAT16, 65519, 65504},
        {TN_FLOAT16, 65520, HUGE_VAL},
        {TN_FLOAT16, 0x1p-24, 0x1p-24},
        {TN_FLOAT16, 0x1p-26, 0},
        {TN_BFLOAT16, 257, 256},
        {TN_BFLOAT16, 259, 260},
        {TN_BFLOAT16, -257, -256},
        {TN_FLOAT64, 0.1, 0.1},
        {TN_FLOAT32, 0.1, (double)0.1f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_kit kit = kit_open();
        tn_tensor_id x = kit_constant(&kit, TN_FLOAT64, 0, NULL, NULL, &cases[i].from);
        kit_attr_int(&kit, "to", cases[i].dtype);
        tn_tensor_id out = kit_op(&kit, "Cast", KIT_LIST(x));
        kit_infer(&kit);
        if (kit_at(&kit, out)->value->floats[0] != cases[i].to)
            fail_msg("case %zu: %a, not %a", i, kit_at(&kit, out)->value->floats[0], cases[i].to);
        kit_close(&kit);
    }
}

/* --- broadcasting of contents -------------------------------------------------------------------
 */

static void contents_broadcast_element_by_element(void **state) {
    (void)state;
    static operand x[3];
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        tn__random random = {seed};
        test_kit kit = kit_open();
        uint32_t rank = (uint32_t)tn__random_below(&random, 4), count = 1;
        int64_t shape[8], expected[MOST];
        tn_tensor_id inputs[3];
        for (uint32_t d = 0; d < rank; d++) {
            shape[d] = 1 + (int64_t)tn__random_below(&random, 4);
            count *= (uint32_t)shape[d];
        }
        for (uint32_t k = 0; k < 3; k++) { /* one keeps the whole shape, others have ones or less */
            x[k].rank = k == 0 ? rank : (uint32_t)tn__random_below(&random, rank + 1);
            x[k].count = 1;
            for (uint32_t d = 0; d < x[k].rank; d++) {
                int64_t full = shape[d + rank - x[k].rank];
                x[k].shape[d] = k && tn__random_below(&random, 2) ? 1 : full;
                x[k].count *= (uint32_t)x[k].shape[d];
            }
            for (uint32_t i = 0; i < x[k].count; i++)
                x[k].ints[i] = (int64_t)tn__random_below(&random, k ? 100 : 2);
            inputs[k] =
                kit_constant(&kit, k ? TN_INT64 : TN_BOOL, x[k].rank, x[k].shape, x[k].ints, NULL);
        }
        for (uint32_t i = 0; i < count; i++) {
            int64_t got[3];
            for (uint32_t k = 0; k < 3; k++) {
                uint32_t rest = i, index = 0, step = 1;
                for (uint32_t d = rank; d-- > 0; rest /= (uint32_t)shape[d]) {
                    if (d < rank - x[k].rank) continue;
                    int64_t own = x[k].shape[d - (rank - x[k].rank)];
                    if (own != 1) index += step * (rest % (uint32_t)shape[d]);
                    step *= (uint32_t)own;
                }
                got[k] = x[k].ints[index];
            }
            expected[i] = got[0] ? got[1] : got[2];
        }
        tn_tensor_id out = kit_op(&kit, "Where", 3, inputs);
        kit_infer(&kit);
        kit_assert_shape(&kit, out, rank, shape);
        kit_assert_ints(&kit, out, count, expected);
        kit_close(&kit);
    }
}

static void ranges_have_as_many_elements_as_steps(void **state) {
    (void)state;
    for (int64_t start = -4; start <= 4; start++)
        for (int64_t limit = -4; limit <= 4; limit++)
            for (int64_t delta = -3; delta <= 3; delta++) {
                if (!delta) continue;
                int64_t expected[16];
                uint32_t count = 0;
                for (int64_t i = start; delta > 0 ? i < limit : i > limit; i += delta)
                    expected[count++] = i;
                for (int floats = 0; floats < 2; floats++) {
                    test_kit kit = kit_open();
                    double f[3] = {(double)start, (double)limit, (double)delta};
                    int64_t n[3] = {start, limit, delta};
                    tn_tensor_id in[3];
                    for (int i = 0; i < 3; i++)
                        in[i] = floats ? kit_constant(&kit, TN_FLOAT32, 0, NULL, NULL, &f[i])
                                       : kit_constant(&kit, TN_INT64, 0, NULL, &n[i], NULL);
                    tn_tensor_id out = kit_op(&kit, "Range", 3, in);
                    kit_attr_int(&kit, "to", TN_INT64);
                    tn_tensor_id whole = kit_op(&kit, "Cast", KIT_LIST(out));
                    kit_infer(&kit);
                    kit_assert_shape(&kit, out, KIT_SHAPE(count));
                    kit_assert_ints(&kit, whole, count, expected);
                    kit_close(&kit);
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcasting_agrees_with_numpys_rule),
        cmocka_unit_test(unknown_extents_broadcast_as_far_as_they_can),
        cmocka_unit_test(integers_are_exact_and_wrap_as_their_type_does),
        cmocka_unit_test(a_division_by_zero_leaves_contents_unknown),
        cmocka_unit_test(float32_is_rounded_after_every_operation),
        cmocka_unit_test(halves_are_rounded_as_their_types_are),
        cmocka_unit_test(contents_broadcast_element_by_element),
        cmocka_unit_test(ranges_have_as_many_elements_as_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
