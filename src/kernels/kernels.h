/* kernels.h - a kernel for every operator of a graph, prepared: what engines read of it. */
#ifndef TN_KERNELS_KERNELS_H
#define TN_KERNELS_KERNELS_H

#include "kernels/cache.h"

struct tn_kernels {
    tn_context context;
    const tn_graph *graph;
    const tn__prepared **of; /* [operators]; NULL: nothing has to run it */
    uint64_t *workspaces;    /* [operators] */
    /* Those that run again by another type (tn_op_form): a graph of these types, each on tensors of
     * its own, NULL where there are none; which operator of it; kernel and scratch of that. */
    tn_graph *again;
    tn_op_id *again_as;            /* [operators] TN_NONE: it has no other type */
    const tn__prepared **again_of; /* [operators] */
    uint64_t *workspaces_again;    /* [operators] of the others as the first time */
    size_t count;
    tn__kernel_cache *cache; /* that they are in */
    tn__arena arena;
};

/* again.c: finds kernels for what runs again by another type, behind those of all operators. */
tn_status tn__kernels_again(tn_kernels *kernels, tn_error *error);

#endif
