/* inner.h - runs a kernel on copies of operands that it cannot take directly: they are copied to
 * scratch before and back afterwards. The scratch is planned like any other.
 *
 * There are two uses. A kernel for operands in the order of their shapes runs on operands with
 * channels last (as the reference for formats, and if oneDNN lacks the operator). Any kernel for
 * float32 runs on operands of 16-bit floats, which are widened, and rounded once on the way back.
 */
#ifndef TN_KERNELS_INNER_H
#define TN_KERNELS_INNER_H

#include "engine/kernels/kernel.h"

/* Finds and prepares a plain kernel for `op`, with the first operands of setup->op (it may have
 * fewer), and states its scratch. `op` is setup->op itself, or of ONNX's domain. `apart`: outputs
 * are computed in scratch, in any format.
 * Errors: E_UNSUPPORTED (no such kernel), E_NO_MEMORY.
 */
tn_status tn__inner_prepare(tn_kernel_setup *setup, const tn_op *op, bool apart);
/* The same for setup->op on float32 copies of its 16-bit floats; `library`: by oneDNN alone. */
tn_status tn__inner_prepare_wide(tn_kernel_setup *setup, bool library);
/* Runs it, then `finish` (may be NULL) over the elements of output 0, in the order of its shape;
 * `summand`, in that order too, is an input to be added before, or TN_NONE. */
tn_status tn__inner_run_with(tn_kernel_call *call, uint32_t summand,
                             void (*finish)(const tn_op *op, float *elements, uint64_t count));
tn_status tn__inner_run(tn_kernel_call *call);
void tn__inner_release(const tn_context *context, void *state);

/* Moves elements between the two orders. `to` and `from` have the same shape. */
void tn__inner_reorder(const tn_operand *from, void *to, bool to_last);

#endif
