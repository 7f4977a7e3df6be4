/* inner.h - a kernel run on copies of operands that it does not take as they are: they are moved to
 * scratch and back around it. The scratch is planned like any other.
 *
 * Two sorts: a kernel made for operands in the order of their shapes, on operands that lie channels
 * last (the reference for formats, and what runs where oneDNN lacks an operator); and any kernel
 * for float32, on operands of 16-bit floats, which are widened and rounded once on the way back.
 */
#ifndef TN_KERNELS_INNER_H
#define TN_KERNELS_INNER_H

#include "kernels/kernel.h"

/* Finds and prepares a plain kernel for `op`, whose operands are those of setup->op from the first
 * on (it may have fewer), and states its scratch. `op` is setup->op itself, or of ONNX's domain.
 * `apart`: outputs are computed in scratch, whatever their format.
 * Errors: E_UNSUPPORTED (there is none), E_NO_MEMORY. */
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
