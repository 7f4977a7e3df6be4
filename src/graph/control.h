/* control.h - what the operators that own blocks share (ops/branch.c, ops/loop.c, ops/scan.c).
 *
 * What an iteration carries to the next starts as the initial value; an extent that the body
 * changes is widened to unknown and the body is inferred again, until nothing changes. Each round
 * loses at least one known extent, so that ends.
 */
#ifndef TN_GRAPH_CONTROL_H
#define TN_GRAPH_CONTROL_H

#include "graph/op.h"

/* The block of an attribute. Errors: E_INVALID when it is missing. */
tn_status tn__control_body(tn_infer *infer, const char *name, tn_block_id *block);
/* Errors: E_INVALID when the block has another number of inputs, or fewer outputs. */
tn_status tn__control_check(tn_infer *infer, const tn_block *body, uint64_t inputs,
                            uint64_t outputs);
const tn_tensor *tn__control_tensor(const tn_infer *infer, tn_tensor_id id);

/* Type, shape and repeat of `like` for an output, with bounds at `axes`. */
tn_status tn__control_set(tn_infer *infer, uint32_t index, const tn_tensor *like, uint64_t axes);
/* The same with one more extent at `axis`: what a loop collects. */
tn_status tn__control_collect(tn_infer *infer, uint32_t index, const tn_tensor *like, uint64_t axes,
                              uint32_t axis, int64_t extent);

/* Widens a formal until it holds what the body hands to the next iteration. */
tn_status tn__control_widen(tn_infer *infer, tn_tensor_id formal, tn_tensor_id next, bool *changed);
/* A change travels through all that is carried in as many rounds as there are; a formal whose
 * extents the file states would be widened for ever, so later rounds are not asked for. */
bool tn__control_settled(uint32_t round, uint32_t carried);
/* A formal of the loop's own making: a scalar, unless the file says otherwise. */
tn_status tn__control_scalar(tn_infer *infer, tn_tensor_id formal, tn_dtype dtype);

#endif
