/* control.h - inference that operators with blocks share (ops/branch.c, ops/loop.c, ops/scan.c).
 *
 * A carried value starts as the initial value. If the body changes an extent (or the length of a
 * sequence), inference assumes that it grows by the same amount in each iteration: with a known
 * number of iterations, the extent gets its value before the last one, and the body is inferred
 * again. If it then grows by the same amount, the assumption holds; inside the body the extent is
 * an upper bound, because earlier iterations see less. Any other change makes the extent unknown,
 * and the body is inferred again until nothing changes. Each such round loses a known extent, so
 * the rounds end.
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
/* The same with one more extent at `axis`: a value that a loop collects. */
tn_status tn__control_collect(tn_infer *infer, uint32_t index, const tn_tensor *like, uint64_t axes,
                              uint32_t axis, int64_t extent);

typedef struct tn__carried {  /* one value from iteration to iteration */
    const tn_tensor *initial; /* the operator's input */
    /* an input of the body, and the output that becomes it in the next iteration */
    tn_tensor_id formal, next;
    int64_t trips; /* iterations, TN_DIM_UNKNOWN: not known */
    bool exact;    /* no fewer than that */
} tn__carried;

/* Widens the formal until it holds the value that the body passes on; then sets *changed. Rounds
 * count from 1. */
tn_status tn__control_widen(tn_infer *infer, const tn__carried *carried, uint32_t round,
                            bool *changed);
/* The value after the last iteration. */
tn_status tn__control_last(tn_infer *infer, uint32_t index, const tn__carried *carried);
/* A change passes through all carried values in as many rounds as there are values. A formal whose
 * extents the file states would be widened forever, so later rounds are not counted. */
bool tn__control_settled(uint32_t round, uint32_t carried);
/* A formal of the loop's own making: a scalar, unless the file says otherwise. */
tn_status tn__control_scalar(tn_infer *infer, tn_tensor_id formal, tn_dtype dtype);

#endif
