/* compare.c - comparisons, logic and selection: operators that make or read truth values.
 *
 * Comparisons are exact: 64-bit integers do not pass through floating types. Every comparison with
 * NaN is false. The operator Where copies bytes of any type. Before opset 7 the second operand was
 * aligned at `axis`.
 */
#include "engine/kernels/blocks.h"

/* clang-format off */
#define COMPARE(name, relation)                                                                \
    TN_LOOP_2(compare_float_##name, float, uint8_t, relation)                                  \
    TN_LOOP_2(compare_double_##name, double, uint8_t, relation)                                \
    TN_LOOP_2(compare_int_##name, int64_t, uint8_t, relation)                                  \
    TN_LOOP_2(compare_uint_##name, uint64_t, uint8_t, relation)                                \
    static tn_status compare_run_##name(tn_kernel_call *call) {                                \
        return compare_run(call, (const tn__loop[]){compare_float_##name,                      \
                                                    compare_double_##name,                     \
                                                    compare_int_##name,                        \
                                                    compare_uint_##name});                     \
    }
/* clang-format on */

/* loops: of float32, float64, int64, uint64 */
static tn_status compare_run(tn_kernel_call *call, const tn__loop *loops) {
    tn_dtype type = tn__computed_type(call->inputs[0].dtype);
    uint32_t which = type == TN_FLOAT32 ? 0 : type == TN_FLOAT64 ? 1 : type == TN_INT64 ? 2 : 3;
    return tn__elementwise_run(call,
                               &(tn__elementwise){.loop = loops[which],
                                                  .inputs = 2,
                                                  .load = {type, type},
                                                  .make = TN_BOOL,
                                                  .aligned = call->version < 7,
                                                  .axis = tn__attr_int(call->op, "axis", -1)});
}

COMPARE(Equal, x == y)
COMPARE(Greater, x > y)
COMPARE(GreaterOrEqual, x >= y)
COMPARE(Less, x < y)
COMPARE(LessOrEqual, x <= y)

/* --- logic --- */

TN_LOOP_2(compare_and, uint8_t, uint8_t, (x != 0) & (y != 0))
TN_LOOP_2(compare_or, uint8_t, uint8_t, (x | y) != 0)
TN_LOOP_2(compare_xor, uint8_t, uint8_t, (x != 0) != (y != 0))

#define COMPARE_LOGIC(name, in_loop)                                                               \
    static tn_status compare_run_##name(tn_kernel_call *call) {                                    \
        return tn__elementwise_run(                                                                \
            call, &(tn__elementwise){.loop = in_loop,                                              \
                                     .inputs = 2,                                                  \
                                     .load = {TN_BOOL, TN_BOOL},                                   \
                                     .make = TN_BOOL,                                              \
                                     .aligned = call->version < 7,                                 \
                                     .axis = tn__attr_int(call->op, "axis", -1)});                 \
    }
COMPARE_LOGIC(And, compare_and)
COMPARE_LOGIC(Or, compare_or)
COMPARE_LOGIC(Xor, compare_xor)

/* --- Where --- */

#define COMPARE_WHERE(bits)                                                                        \
    static void compare_where_##bits(const tn__block *block) {                                     \
        const uint8_t *condition = block->from[0];                                                 \
        const uint##bits##_t *a = block->from[1], *b = block->from[2];                             \
        const size_t c = block->step[0], s = block->step[1], t = block->step[2];                   \
        uint##bits##_t *to = block->to;                                                            \
        const uint64_t count = block->count;                                                       \
        if (c && s && t) {                                                                         \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const uint##bits##_t x = a[i], y = b[i];                                           \
                to[i] = condition[i] != 0 ? x : y;                                                 \
            }                                                                                      \
        } else if (c && s) {                                                                       \
            const uint##bits##_t y = *b;                                                           \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const uint##bits##_t x = a[i];                                                     \
                to[i] = condition[i] != 0 ? x : y;                                                 \
            }                                                                                      \
        } else if (c && t) {                                                                       \
            const uint##bits##_t x = *a;                                                           \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const uint##bits##_t y = b[i];                                                     \
                to[i] = condition[i] != 0 ? x : y;                                                 \
            }                                                                                      \
        } else {                                                                                   \
            for (uint64_t i = 0; i < count; i++)                                                   \
                to[i] = condition[i * c] != 0 ? a[i * s] : b[i * t];                               \
        }                                                                                          \
    }
COMPARE_WHERE(8)
COMPARE_WHERE(16)
COMPARE_WHERE(32)
COMPARE_WHERE(64)

static tn_status compare_run_Where(tn_kernel_call *call) {
    tn_dtype type = call->outputs[0].dtype;
    size_t size = tn__element_size(type);
    return tn__elementwise_run(call, &(tn__elementwise){.loop = size == 1   ? compare_where_8
                                                                : size == 2 ? compare_where_16
                                                                : size == 4 ? compare_where_32
                                                                            : compare_where_64,
                                                        .inputs = 3,
                                                        .load = {TN_BOOL, type, type},
                                                        .make = type});
}

#define COMPARE_ENTRY(name)                                                                        \
    { .type = #name, .accepts = tn__elementwise_accepts, .run = compare_run_##name }
/* clang-format off */
static const tn_kernel compare_kernels[] = {
    COMPARE_ENTRY(And), COMPARE_ENTRY(Equal), COMPARE_ENTRY(Greater), COMPARE_ENTRY(GreaterOrEqual),
    COMPARE_ENTRY(Less), COMPARE_ENTRY(LessOrEqual), COMPARE_ENTRY(Or), COMPARE_ENTRY(Where),
    COMPARE_ENTRY(Xor),
};
/* clang-format on */

TN_KERNEL_FAMILY(compare, "");
