/* kernels.h - a kernel for every operator of a graph, prepared: what engines read of it. */
#ifndef TN_KERNELS_KERNELS_H
#define TN_KERNELS_KERNELS_H

#include "kernels/kernel.h"

typedef struct tn__kernel_choice {
    const tn_kernel *kernel; /* NULL: nothing runs it */
    void *state;
    uint64_t workspace;
    const char *detail;     /* what the library calls it; NULL: nothing */
    const uint64_t *packed; /* [inputs] or NULL */
} tn__kernel_choice;

struct tn_kernels {
    tn_context context;
    const tn_graph *graph;
    tn__kernel_choice *choices; /* [operators] */
    uint64_t *workspaces;       /* [operators] */
    size_t count;
    uint32_t threads;
    struct tn__dnnl *library; /* NULL: own loops alone */
    tn__arena arena;
};

void tn__kernel_setup_of(const tn_kernels *kernels, tn_op_id id, tn_kernel_setup *setup,
                         tn_error *error);

#endif
