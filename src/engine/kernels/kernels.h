/* kernels.h - the prepared kernel of every operator of a graph, as engines read it. */
#ifndef TN_KERNELS_KERNELS_H
#define TN_KERNELS_KERNELS_H

#include "engine/kernels/cache.h"
#include "graph/derived.h"

struct tn_kernels {
    tn_context context;
    const tn_graph *graph;
    const tn__prepared **of; /* [operators]; NULL: nothing has to run it */
    uint64_t *workspaces;    /* [operators] */
    tn__repeats again;       /* those that run again by another type, their kernels and scratch: */
    const tn__prepared **again_of; /* [operators] */
    uint64_t *workspaces_again;    /* [operators] of the others as the first time */
    size_t count;
    tn__kernel_cache *cache; /* that they are in */
    tn__arena arena;
};

#endif
