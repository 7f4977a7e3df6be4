/* blocks.h - runs element-wise operators with broadcasting as plain loops over runs of elements.
 *
 * A kernel gives a loop over `count` elements, in which operands advance by one element or stay
 * (step 1 or 0), and the types in which it computes. Here operands are collapsed to as few
 * dimensions as broadcasting allows and cut into blocks; an operand with another layout or type is
 * copied or converted into a block on the stack. So a loop has no index arithmetic, and gcc
 * vectorises it. If all operands are whole or single elements, the loop runs once over everything.
 *
 * In place: element i of the output is written after element i of each operand of the same shape
 * was read, and before any later block is read.
 */
#ifndef TN_KERNELS_BLOCKS_H
#define TN_KERNELS_BLOCKS_H

#include "engine/kernels/convert.h"

/* An operand against the extents of the output, collapsed. */
typedef struct tn__operand_reader {
    const char *data;
    tn_dtype dtype;
    uint32_t rank;
    uint64_t extents[TN_RANK_MAX], strides[TN_RANK_MAX]; /* strides in elements */
} tn__operand_reader;

/* `axis`: the dimension of the output that corresponds to the operand's first one; below zero: the
 * last dimensions correspond. Errors: E_INVALID if an extent is neither 1 nor the output's. */
tn_status tn__reader_init(const tn_kernel_call *call, const tn_operand *operand,
                          const tn_operand *output, int64_t axis, tn__operand_reader *reader);
/* Elements [first, first + count) of the output's as `wanted`, in place or in `room`; *step 0 when
 * all are one element. count <= TN__BLOCK unless they are one run of that type already. */
const void *tn__reader_block(const tn__operand_reader *reader, uint64_t first, size_t count,
                             tn_dtype wanted, tn__block_room *room, size_t *step);

#define TN__BLOCK_INPUTS 3u /* Where has three */
typedef struct tn__loop_block {
    uint64_t count;
    void *to;
    const void *from[TN__BLOCK_INPUTS];
    size_t step[TN__BLOCK_INPUTS];
    const void *parameters;
} tn__loop_block;
typedef void (*tn__loop)(const tn__loop_block *block);

typedef struct tn__elementwise {
    tn__loop loop;
    /* number of inputs of the call that are used, from the first on */
    uint32_t inputs;
    tn_dtype load[TN__BLOCK_INPUTS]; /* types that the loop reads */
    /* type that the loop writes, before conversion to the output's type */
    tn_dtype make;
    const void *parameters; /* handed to the loop; double[2] for TN_LOOP_1 */
    bool aligned;           /* input 1 begins at dimension `axis` of the output */
    int64_t axis;
} tn__elementwise;
tn_status tn__elementwise_run(tn_kernel_call *call, const tn__elementwise *how);

/* One input, one output of the same type, up to two attributes as parameters. Types without a loop
 * of their own compute as float64; uint64 as int64 when there is no loop for it. */
typedef struct tn__unary {
    tn__loop floats, doubles, ints, uints;
    const char *attributes[2];
    double otherwise[2];
} tn__unary;
tn_status tn__unary_run(tn_kernel_call *call, const tn__unary *unary);

/* Whether operands are numbers, and in an order in which such loops find equal elements: all plain
 * or all channels last with one shape. For `accepts`. */
bool tn__elementwise_accepts(const tn_kernel_setup *setup);

/* --- loops; `x`, `y` and `z` are the elements, `p` the parameters --- */

#define TN_LOOP_1(name, type, result, expression)                                                  \
    static void name(const tn__loop_block *block) {                                                \
        const type *a = block->from[0];                                                            \
        double p[2] = {0, 0};                                                                      \
        result *to = block->to;                                                                    \
        const uint64_t count = block->count;                                                       \
        if (block->parameters != NULL) memcpy(p, block->parameters, sizeof p);                     \
        (void)p;                                                                                   \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            const type x = a[i];                                                                   \
            to[i] = (result)(expression);                                                          \
        }                                                                                          \
    }

#define TN_LOOP_2(name, type, result, expression)                                                  \
    static void name(const tn__loop_block *block) {                                                \
        const type *a = block->from[0], *b = block->from[1];                                       \
        result *to = block->to;                                                                    \
        const uint64_t count = block->count;                                                       \
        if (block->step[0] && block->step[1]) {                                                    \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const type x = a[i], y = b[i];                                                     \
                to[i] = (result)(expression);                                                      \
            }                                                                                      \
        } else if (block->step[0]) {                                                               \
            const type y = *b;                                                                     \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const type x = a[i];                                                               \
                to[i] = (result)(expression);                                                      \
            }                                                                                      \
        } else {                                                                                   \
            const type x = *a;                                                                     \
            const size_t step = block->step[1];                                                    \
            if (step == 0) {                                                                       \
                const type y = *b;                                                                 \
                const result z = (result)(expression);                                             \
                for (uint64_t i = 0; i < count; i++) to[i] = z;                                    \
                return;                                                                            \
            }                                                                                      \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const type y = b[i];                                                               \
                to[i] = (result)(expression);                                                      \
            }                                                                                      \
        }                                                                                          \
    }

#endif
