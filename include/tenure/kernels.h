/* kernels.h - chooses and prepares a kernel for each operator, before memory is planned.
 *
 *     // ... graph: of tn_graph_load or tn_graph_rewrite
 *     if (tn_kernels_create(graph, NULL, &kernels, &error)) // chooses the kernels
 *         return 2;
 *     memory.workspaces = tn_kernels_workspaces(kernels); // scratch memory is planned, too
 *
 * Identical operators share their prepared data.
 * Threads: several threads may read kernels at once, and kernels may be `with` of others meanwhile.
 */
#ifndef TENURE_KERNELS_H
#define TENURE_KERNELS_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_kernels tn_kernels;

typedef struct tn_kernels_options {
    size_t struct_size;
    const tn_context *context; /* NULL, or must outlive the kernels */
    uint32_t threads;          /* threads of oneDNN; 0 = 1. Kernels are chosen and sized for it */
    bool plain;                /* use only our own loops, without oneDNN */
    /* NULL, or kernels of another graph. Their prepared data is reused for identical operators (the
     * same model with recomputation or in another order). `threads` and `plain` are taken from
     * them. They need not outlive the new kernels, but their context must. */
    const tn_kernels *with;
    /* NULL, or [operator count] bytes of scratch that each operator may use. If the fastest variant
     * needs more, the first variant within the limit is chosen (for example a convolution in
     * tiles), or the one with the least scratch. Read only during the call. */
    const uint64_t *scratch;
} tn_kernels_options;
#define TN_KERNELS_OPTIONS_INIT                                                                    \
    TN_INIT(tn_kernels_options, TN_SET(struct_size, sizeof(tn_kernels_options)))

/* Chooses and prepares a kernel for every operator that will run, including folded ones. The graph
 * must outlive the kernels. Errors: E_UNSUPPORTED (an operator or its element types without a
 * kernel, with its node), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_kernels_create(const tn_graph *graph,
                                              const tn_kernels_options *options,
                                              tn_kernels **kernels, tn_error *error);
TN_API void tn_kernels_destroy(tn_kernels *kernels); /* NULL is fine; destroy engines first */
/* [operator count] scratch bytes, for tn_occupancy_options.workspaces; they live as long as the
 * kernels. */
TN_API const uint64_t *tn_kernels_workspaces(const tn_kernels *kernels);
/* [operator count] scratch bytes of recomputed operators, for
 * tn_occupancy_options.workspaces_again. They differ from tn_kernels_workspaces for operators that
 * are recomputed by an operator of another type (tn_op_form_of). */
TN_API const uint64_t *tn_kernels_workspaces_again(const tn_kernels *kernels);
/* The family of the kernel of an operator ("conv", "dnnl_conv"); "": no kernel. */
TN_API const char *tn_kernels_name(const tn_kernels *kernels, tn_op_id op);
/* The name of oneDNN's implementation ("brgconv:avx512_core"); "" for our own loops. */
TN_API const char *tn_kernels_detail(const tn_kernels *kernels, tn_op_id op);
/* The variant of the kernel: 0 is the fastest, 1, 2, ... use smaller tiles and less scratch. */
TN_API uint32_t tn_kernels_way(const tn_kernels *kernels, tn_op_id op);
/* The instruction set that oneDNN uses: "sse41", "avx", "avx2", "avx512". It is that of the
 * processor, or the limit of ONEDNN_MAX_CPU_ISA. "": oneDNN runs no operator. */
TN_API const char *tn_kernels_isa(const tn_kernels *kernels);
/* Whether oneDNN is installed. If not, `error` has the reason and the package to install.
 *
 * text  NULL, or receives its version and the instruction set that it uses here: "oneDNN 2.6.3,
 *       avx2" */
#define TN_LIBRARY_TEXT_MAX 48
TN_API bool tn_kernels_library(char text[TN_LIBRARY_TEXT_MAX], tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
