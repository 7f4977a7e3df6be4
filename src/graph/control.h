/* control.h - what the operators that own blocks share (ops/branch.c, ops/loop.c, ops/scan.c).
 *
 * What an iteration carries to the next starts as the initial value. An extent (or the length of a
 * sequence) that the body changes is tried as one that grows by the same amount each time: with a
 * known number of iterations it gets the value before the last one, and the body is inferred again.
 * If it then grows by the same amount, that was right; inside the body it is an upper bound, as
 * earlier iterations see less. Any other change makes it unknown, and the body is inferred again,
 * until nothing changes. Each such round loses a known extent, so that ends.
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

typedef struct tn__carried {   /* one value from iteration to iteration */
    const tn_tensor *initial;  /* the operator's input */
    tn_tensor_id formal, next; /* of the body: an input, and the output that follows it */
    int64_t trips;             /* iterations, TN_DIM_UNKNOWN: not known */
    bool exact;                /* no fewer than that */
} tn__carried;

/* Widens the formal until it holds what the body hands on; sets *changed then. Rounds count from 1.
 */
tn_status tn__control_widen(tn_infer *infer, const tn__carried *carried, uint32_t round,
                            bool *changed);
/* The value after the last iteration. */
tn_status tn__control_last(tn_infer *infer, uint32_t index, const tn__carried *carried);
/* A change travels through all that is carried in as many rounds as there are; a formal whose
 * extents the file states would be widened for ever, so later rounds are not asked for. */
bool tn__control_settled(uint32_t round, uint32_t carried);
/* A formal of the loop's own making: a scalar, unless the file says otherwise. */
tn_status tn__control_scalar(tn_infer *infer, tn_tensor_id formal, tn_dtype dtype);

#endif
