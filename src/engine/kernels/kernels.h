/* kernels.h - the prepared kernel of every operator of a graph, for the engine. */
#ifndef TN_KERNELS_KERNELS_H
#define TN_KERNELS_KERNELS_H

#include "engine/kernels/cache.h"
#include "graph/derived.h"

struct tn_kernels {
    tn_context context;
    const tn_graph *graph;
    const tn__prepared **of; /* for each operator: its kernel; NULL: no kernel runs it */
    uint64_t *workspaces;    /* [operators] scratch bytes of the kernel */
    /* the operators that are recomputed with another operator type, as a graph of their own */
    tn__repeats again;
    const tn__prepared **again_of; /* [operators] kernel for recomputing by another type, or NULL */
    uint64_t *workspaces_again;    /* for each operator: scratch bytes when it is recomputed */
    size_t count;
    tn__kernel_cache *cache; /* the cache that owns the kernels */
    tn__arena arena;
};

#endif
