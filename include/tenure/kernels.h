/* kernels.h - what runs each operator: chosen and prepared before memory is planned.
 *
 *     // ... graph: of tn_graph_load or tn_graph_rewrite
 *     if (tn_kernels_create(graph, NULL, &kernels, &error)) // who runs each, and its scratch
 *         return 2;
 *     memory.workspaces = tn_kernels_workspaces(kernels);   // which is part of the plan
 *
 * Operators that are alike share what was prepared.
 * Threads: kernels may be read by several threads at once once they are made, and be `with` to
 * others meanwhile.
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
    const tn_context *context; /* NULL or outlives the kernels */
    uint32_t threads;          /* of oneDNN; 0 = 1. Kernels are chosen and sized for it */
    bool plain;                /* our own loops alone, without oneDNN */
    /* NULL, or kernels of another graph: what was prepared for them is used again where operators
     * are alike (the same model recomputed, or at another order). `threads` and `plain` are theirs.
     * They need not outlive the new ones; their context has to. */
    const tn_kernels *with;
    /* NULL, or [operator count] bytes of scratch that each may take: where the fastest way to run
     * one takes more, one that takes less is looked for (a convolution in pieces), and of those
     * within the first; where none is, the one with the least. Read only during the call */
    const uint64_t *scratch;
} tn_kernels_options;
#define TN_KERNELS_OPTIONS_INIT                                                                    \
    TN_INIT(tn_kernels_options, TN_SET(struct_size, sizeof(tn_kernels_options)))

/* Chooses and prepares a kernel for every operator that will run, the folded ones too.
 * The graph must outlive the kernels. Errors: E_UNSUPPORTED (an operator, or its element types,
 * that no kernel has, with its node), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_kernels_create(const tn_graph *graph,
                                              const tn_kernels_options *options,
                                              tn_kernels **kernels, tn_error *error);
TN_API void tn_kernels_destroy(tn_kernels *kernels); /* NULL is fine; after the engines */
/* [operator count] scratch bytes, for tn_occupancy_options.workspaces; lives with the kernels. */
TN_API const uint64_t *tn_kernels_workspaces(const tn_kernels *kernels);
/* The same of operators that run again by another type (tn_op_form_of); of the others as the first
 * time. For tn_occupancy_options.workspaces_again. */
TN_API const uint64_t *tn_kernels_workspaces_again(const tn_kernels *kernels);
/* The family of the kernel that runs an operator ("conv", "dnnl_conv"); "" for none. */
TN_API const char *tn_kernels_name(const tn_kernels *kernels, tn_op_id op);
/* What oneDNN calls what it runs ("brgconv:avx512_core"); "" for our own loops. */
TN_API const char *tn_kernels_detail(const tn_kernels *kernels, tn_op_id op);
/* In how small pieces an operator runs for the sake of its scratch: 0 is the fastest way, 1, 2, ...
 * take less and less of it. */
TN_API uint32_t tn_kernels_way(const tn_kernels *kernels, tn_op_id op);
/* The instruction set that oneDNN runs them with: "sse41", "avx", "avx2", "avx512" (that of the
 * processor, or less where ONEDNN_MAX_CPU_ISA says so); "": it does not run any. */
TN_API const char *tn_kernels_isa(const tn_kernels *kernels);
/* Whether oneDNN is there; if not, why and what to install in `error`.
 *
 * text  NULL, or takes its version and the instruction set that it uses here:
 *       "oneDNN 2.6.3, avx2" */
#define TN_LIBRARY_TEXT_MAX 48
TN_API bool tn_kernels_library(char text[TN_LIBRARY_TEXT_MAX], tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
