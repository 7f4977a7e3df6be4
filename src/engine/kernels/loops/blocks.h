/* blocks.h - runs elementwise operators with broadcasting as plain loops over runs of elements.
 *
 * A kernel provides a loop over `count` elements, in which each operand advances by one element or
 * not at all (step 1 or 0), and the types in which the loop computes. The functions here merge the
 * dimensions of operands as far as broadcasting allows, divide them into blocks, and copy or
 * convert an operand with another layout or type into a block on the stack. So the loop needs no
 * index arithmetic, and gcc vectorises it. If every operand is contiguous or a single element, the
 * loop runs once over all elements.
 *
 * An output may have the address of an operand of its shape: element i of the output is written
 * after element i of the operand was read, and before any later block is read.
 */
#ifndef TN_KERNELS_BLOCKS_H
#define TN_KERNELS_BLOCKS_H

#include "engine/kernels/convert.h"

/* An operand as seen along the dimensions of the output, after adjacent dimensions are merged. */
typedef struct tn__operand_reader {
    const char *data;
    tn_dtype dtype;
    uint32_t rank;
    /* strides in elements, 0 where the operand is broadcast */
    uint64_t extents[TN_RANK_MAX], strides[TN_RANK_MAX];
} tn__operand_reader;

/* Prepares the reading of an operand. `axis`: the dimension of the output that corresponds to the
 * operand's first dimension; negative: the last dimensions correspond. Errors: E_INVALID if an
 * extent of the operand is neither 1 nor the output's. */
tn_status tn__reader_init(const tn_kernel_call *call, const tn_operand *operand,
                          const tn_operand *output, int64_t axis, tn__operand_reader *reader);
/* Returns the operand's elements for the output elements [first, first + count) in the type
 * `wanted`: the operand's own memory, or a copy in `room`. *step becomes 0 if all of them are one
 * element, else 1. `count` is at most TN__BLOCK, unless no copy and no conversion is needed. */
const void *tn__reader_block(const tn__operand_reader *reader, uint64_t first, size_t count,
                             tn_dtype wanted, tn__block_room *room, size_t *step);

#define TN__BLOCK_INPUTS 3u /* largest number of inputs of a loop; the operator Where has three */
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
    /* the loop uses the first `inputs` inputs of the operator */
    uint32_t inputs;
    tn_dtype load[TN__BLOCK_INPUTS]; /* type in which the loop reads each input */
    /* the type that the loop writes; results are converted from it to the type of the output */
    tn_dtype make;
    /* parameters that are passed to the loop; for TN_LOOP_1, a pointer to two doubles */
    const void *parameters;
    /* whether input 1 begins at dimension `axis` of the output, and not at the last dimensions */
    bool aligned;
    int64_t axis;
} tn__elementwise;
tn_status tn__elementwise_run(tn_kernel_call *call, const tn__elementwise *how);

/* An operator with one input, one output of the input's type, and up to two attributes as
 * parameters. Types without a loop are computed as float64; uint64 is computed as int64 if there is
 * a loop for int64. */
typedef struct tn__unary {
    tn__loop floats, doubles, ints, uints;
    const char *attributes[2];
    double otherwise[2];
} tn__unary;
tn_status tn__unary_run(tn_kernel_call *call, const tn__unary *unary);

/* Whether the loops of this file can run an operator: its operands are numeric, and are all in C
 * order, or all have their channels last and one shape. A function for tn_kernel.accepts. */
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
