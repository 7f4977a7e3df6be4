/* parts.h - a model of which each of several ranks has a part: which part of which tensor.
 *
 *     // ... train.tensor_ranks and .tensor_rank (a tn_train_options) were set
 *     const tn_tensor_part *part = tn_training_part(&training, weights);
 *     if (part != NULL) // this rank has a part of them: read all, keep that
 *         tn_tensor_part_take(part, train.tensor_ranks, train.tensor_rank, whole, mine);
 *
 * A tensor is cut along one axis. Where several matrices lie side by side in it (queries, keys and
 * values in one), each of them is a block that is cut by itself, so that a rank has the same part
 * of each.
 * Units: elements, bytes.
 * Threads: nothing is changed.
 */
#ifndef TENURE_PARTS_H
#define TENURE_PARTS_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_tensor_part {
    tn_tensor_id tensor;   /* static: a parameter, a statistic, state of an optimizer; or a
                            * parameter in a shard (tn_trained.shard) */
    uint32_t axis;         /* along which it is cut */
    uint32_t block_count;  /* 1, or matrices side by side */
    const int64_t *blocks; /* [block_count] their extents along the axis, each a multiple of the
                            * ranks */
    uint32_t rank;         /* of the tensor */
    const int64_t *shape;  /* [rank] of the whole */
    uint64_t bytes;        /* of the whole */
} tn_tensor_part;

/* The part of `rank` out of a whole, or into it: tn_tensor_part.bytes and bytes / ranks.
 *
 * ranks, rank  as the tensor was cut: those of tn_train_options
 * Cost: O(bytes / ranks). */
TN_API void tn_tensor_part_take(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                                const void *whole, void *mine);
TN_API void tn_tensor_part_put(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                               const void *mine, void *whole);

#ifdef __cplusplus
}
#endif
#endif
