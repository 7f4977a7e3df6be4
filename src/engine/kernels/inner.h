/* inner.h - runs a kernel on copies of operands that it cannot use directly. Operands are copied to
 * scratch memory before the kernel runs, and back afterwards; the scratch is planned as for other
 * kernels.
 *
 * There are two uses. A kernel for C order runs on operands that have their channels last; this is
 * the reference for formats, and is used if oneDNN lacks the operator. A kernel for float32 runs on
 * 16-bit floats, which are widened before and rounded once afterwards.
 */
#ifndef TN_KERNELS_INNER_H
#define TN_KERNELS_INNER_H

#include "engine/kernels/kernel.h"

/* Finds and prepares a kernel for C order that runs `op` on the first operands of setup->op, and
 * states its scratch. `op` is setup->op itself, or an operator of ONNX with possibly fewer
 * operands. `apart`: compute all outputs in scratch, whatever their format. Errors: E_UNSUPPORTED
 * (no such kernel), E_NO_MEMORY. */
tn_status tn__inner_prepare(tn_kernel_setup *setup, const tn_op *op, bool apart);
/* Finds and prepares a float32 kernel for setup->op that runs on float32 copies of its 16-bit
 * operands. `library`: use oneDNN's kernels only. Errors as for tn__inner_prepare. */
tn_status tn__inner_prepare_wide(tn_kernel_setup *setup, bool library);
/* Runs a kernel that tn__inner_prepare has prepared. Before the result is copied back, adds input
 * `summand` to it (TN_NONE: none), and then calls `finish` (NULL: none) with all elements of output
 * 0 in C order. */
tn_status tn__inner_run_with(tn_kernel_call *call, uint32_t summand,
                             void (*finish)(const tn_op *op, float *elements, uint64_t count));
tn_status tn__inner_run(tn_kernel_call *call);
void tn__inner_release(const tn_context *context, void *state);

/* Copies elements from C order to channels last, or the other way if `to_last` is false. `to` has
 * the shape of `from`. */
void tn__inner_reorder(const tn_operand *from, void *to, bool to_last);

#endif
