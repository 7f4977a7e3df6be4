/* kernels.h - a kernel for every operator of a graph, prepared: what engines read of it. */
#ifndef TN_KERNELS_KERNELS_H
#define TN_KERNELS_KERNELS_H

#include "kernels/kernel.h"

/* A kernel that was chosen and prepared for an operator. */
typedef struct tn__prepared {
    const tn_kernel *kernel; /* NULL: nothing runs it */
    void *state;
    uint64_t workspace;
    const char *detail;     /* what the library calls it; NULL: nothing */
    const uint64_t *packed; /* [inputs] or NULL */
} tn__prepared;

struct tn_kernels {
    tn_context context;
    const tn_graph *graph;
    tn__prepared *choices; /* [operators] */
    uint64_t *workspaces;  /* [operators] */
    size_t count;
    uint32_t threads;
    struct tn__dnnl *library; /* NULL: own loops alone */
    tn__arena arena;
};

/* NULL: nothing has to run it. */
const tn__prepared *tn__kernels_of(const tn_kernels *kernels, tn_op_id id);
/* Input `input` of an operator in the form that its kernel wants (packed[input] bytes). */
tn_status tn__kernels_pack(const tn_kernels *kernels, tn_op_id id, uint32_t input,
                           const void *plain, void *packed, tn_error *error);

#endif
