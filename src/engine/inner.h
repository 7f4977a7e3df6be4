/* inner.h - a kernel made for operands in the order of their shapes, run on operands that lie
 * channels last: they are moved to scratch and back around it. The reference for formats, and what
 * runs where oneDNN lacks an operator; the scratch is planned like any other.
 */
#ifndef TN_ENGINE_INNER_H
#define TN_ENGINE_INNER_H

#include "engine/kernel.h"

/* Finds and prepares a plain kernel for `op`, whose operands are those of setup->op from the first
 * on (it may have fewer), and states its scratch. The lists of `op` are copied.
 * `apart`: outputs are computed in scratch, whatever their format.
 * Errors: E_UNSUPPORTED (there is none), E_NO_MEMORY. */
tn_status tn__inner_prepare(tn_kernel_setup *setup, const tn_op *op, bool apart);
/* Runs it, then `finish` (may be NULL) over the elements of output 0, in the order of its shape;
 * `summand`, in that order too, is an input to be added before, or TN_NONE. */
tn_status tn__inner_run_with(tn_kernel_call *call, uint32_t summand,
                             void (*finish)(const tn_op *op, float *elements, uint64_t count));
tn_status tn__inner_run(tn_kernel_call *call);
void tn__inner_release(const tn_context *context, void *state);

/* Moves elements between the two orders. `to` and `from` have the same shape. */
void tn__inner_reorder(const tn_operand *from, void *to, bool to_last);

#endif
