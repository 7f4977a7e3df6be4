/* skip.h - recomputes a tensor that waits long for a late reader.
 *
 *     skip ----------------------------> Concat      skip is live during everything in between
 *     skip -> ...   Conv' -> skip' ----> Concat      the copy skip' is not, and can run in tiles
 */
#ifndef TN_SPLIT_SKIP_H
#define TN_SPLIT_SKIP_H

#include <tenure/rewrite.h>

#include "fit/split/price.h"

typedef struct split_skip {
    tn_tensor_id tensor;
    uint32_t from; /* place of the first recomputed operator */
    /* place of the first reader of the copy; the recomputed operators run directly before it */
    uint32_t before;
    uint64_t flops; /* operations of the recomputed operators */
} split_skip;

/* Chooses a tensor that waits across the places from `first` to `last`, and where its recomputation
 * begins: the choice that saves the most bytes per operation, and at least `least` bytes. *found is
 * false if there is no such tensor.
 *
 *   first  TN_NONE: use the place at which the tensors that wait have the most bytes
 *
 * Cost: O(tensors that wait * (tensors + operands)).
 */
tn_status tn__skip_choose(const split_model *model, uint32_t first, uint32_t last, uint64_t least,
                          split_skip *skip, bool *found, tn_error *error);

/* Builds and infers the graph in which late readers read a copy of the recomputed tensor.
 *
 *   sources  out, in `arena`: [operators of the new graph] the operator of the given graph that it
 *            is, or of which it is a copy
 */
tn_status tn__skip_graph(const split_model *model, const split_skip *skip,
                         const tn_context *context, tn__arena *arena, tn_graph **made,
                         tn_op_id **sources, tn_error *error);

#endif
