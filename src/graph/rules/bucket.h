/* bucket.h - computes where tensors lie in a bucket: one after the other, each at a multiple of 64
 * bytes. */
#ifndef TN_GRAPH_BUCKET_H
#define TN_GRAPH_BUCKET_H

#include "base/base.h"

/* The alignment of tensors in a bucket. It equals the alignment in arenas, so that a tensor can be
 * computed in its place in the bucket. */
#define TN__BUCKET_ALIGNMENT 64u

/* The bytes of `count` elements, rounded up so that the next tensor is aligned; TN_SIZE_UNKNOWN on
 * overflow. */
static inline uint64_t tn__bucket_bytes(uint64_t count, uint64_t width) {
    uint64_t bytes;
    return tn__mul(count, width, &bytes) && tn__align_up(bytes, TN__BUCKET_ALIGNMENT, &bytes)
               ? bytes
               : TN_SIZE_UNKNOWN;
}

/* The size of a bucket with `bytes` bytes of tensors and that divides into `parts` equal, aligned
 * parts; TN_SIZE_UNKNOWN on overflow. */
static inline uint64_t tn__bucket_whole(uint64_t bytes, uint64_t parts) {
    uint64_t unit = parts * TN__BUCKET_ALIGNMENT;
    if (bytes > TN_SIZE_UNKNOWN - unit) return TN_SIZE_UNKNOWN;
    return (bytes + unit - 1) / unit * unit;
}

#endif
