/* skip.h - recomputes a tensor that waits long for a late reader.
 *
 *     skip ----------------------------> Concat      skip is live during everything in between
 *     skip -> ...   Conv' -> skip' ----> Concat      its copy is not, and can be computed in parts
 */
#ifndef TN_SPLIT_SKIP_H
#define TN_SPLIT_SKIP_H

#include <tenure/rewrite.h>

#include "fit/split/price.h"

typedef struct split_skip {
    tn_tensor_id tensor;
    uint32_t from;   /* place of the first recomputed operator */
    uint32_t before; /* place of the first reader of the copy; the recomputed operators run right
                      * before it */
    uint64_t flops;  /* operations of the recomputed operators */
} split_skip;

/* Chooses a tensor that waits across places `first` to `last`, and the start of its recomputation:
 * the most bytes per operation, at least `least` bytes. *found false: no tensor qualifies.
 *
 *   first  TN_NONE: across the place at which the most bytes wait
 *
 * Cost: O(waiting tensors x (tensors + operands)).
 */
tn_status tn__skip_choose(const split_model *model, uint32_t first, uint32_t last, uint64_t least,
                          split_skip *skip, bool *found, tn_error *error);

/* The inferred graph in which late readers read the copy of every recomputed tensor.
 *
 *   sources  out, in `arena`: [operators of it] the operator of the graph that it is or copies
 */
tn_status tn__skip_graph(const split_model *model, const split_skip *skip,
                         const tn_context *context, tn__arena *arena, tn_graph **made,
                         tn_op_id **sources, tn_error *error);

#endif
