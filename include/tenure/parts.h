/* parts.h - describes which part of each tensor a rank has in a tensor-parallel model.
 *
 *     // ... train.tensor_ranks and .tensor_rank (a tn_train_options) were set
 *     const tn_tensor_part *part = tn_training_part(&training, weights);
 *     if (part != NULL) // this rank has a part of them: read all, keep the part
 *         tn_tensor_part_take(part, train.tensor_ranks, train.tensor_rank, whole, mine);
 *
 * A tensor is cut along one axis. If it consists of several matrices side by side (queries, keys
 * and values in one), each of them is a block that is cut separately, so that a rank has the same
 * part of each.
 * Units: elements, bytes.
 * Threads: any number at once; nothing is changed.
 */
#ifndef TENURE_PARTS_H
#define TENURE_PARTS_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_tensor_part {
    tn_tensor_id tensor;   /* static: a parameter, statistic or optimizer state; or a parameter in
                            * a shard (tn_trained.shard) */
    uint32_t axis;         /* the axis that is cut */
    uint32_t block_count;  /* number of matrices side by side; 1: a single one */
    const int64_t *blocks; /* [block_count] their extents along the axis, each a multiple of the
                            * number of ranks */
    uint32_t rank;         /* of the tensor: number of axes */
    const int64_t *shape;  /* [rank] of the whole tensor */
    uint64_t bytes;        /* of the whole tensor */
} tn_tensor_part;

/* Copies the part of `rank` out of the whole tensor (take) or into it (put). `whole` has
 * tn_tensor_part.bytes bytes, `mine` has bytes / ranks.
 *
 * ranks, rank  as in tn_train_options
 * Cost: O(bytes / ranks). */
TN_API void tn_tensor_part_take(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                                const void *whole, void *mine);
TN_API void tn_tensor_part_put(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                               const void *mine, void *whole);

#ifdef __cplusplus
}
#endif
#endif
