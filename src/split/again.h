/* again.h - a tensor that waits long for a late reader is computed again for it.
 *
 *     skip ----------------------------> Concat      it is there through all that comes between
 *     skip -> ...   Conv' -> skip' ----> Concat      its copy is not, and goes in parts
 */
#ifndef TN_SPLIT_AGAIN_H
#define TN_SPLIT_AGAIN_H

#include <tenure/split.h>

#include "split/model.h"

typedef struct split_again {
    tn_tensor_id tensor;
    uint32_t from;   /* place of the first operator that runs again */
    uint32_t before; /* place of the first reader of the copy, right before which they run */
    uint64_t flops;  /* of those that run again */
} split_again;

/* Which tensor that waits behind places `first` to `last` is computed again, and from where: most
 * bytes, no less than `least`, for the operations. *found false: none.
 *
 * first  TN_NONE: behind the place at which most bytes wait
 * Cost: O(tensors that wait x (tensors + operands)). */
tn_status tn__again_choose(const split_model *model, uint32_t first, uint32_t last, uint64_t least,
                           split_again *again, bool *found, tn_error *error);

/* The graph in which the late readers read the copy, of all that is computed again, inferred.
 *
 * sources  out, in `arena`: [operators of it] which operator of the graph each is, or is a copy of
 */
tn_status tn__again_graph(const split_model *model, const split_again *again,
                          const tn_context *context, tn__arena *arena, tn_graph **made,
                          tn_op_id **sources, tn_error *error);

#endif
