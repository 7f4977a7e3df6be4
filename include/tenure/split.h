/* split.h - splits operators into parts, so that tensors between them never exist as a whole.
 *
 *     // ... graph: from tn_graph_load, then tn_graph_rewrite with no_formats
 *     tn_split_region bands = {.first = 0, .last = 11, .axes = {2}, .parts = {7, 1}};
 *     if (tn_graph_split(graph, &bands, 1, NULL, &split, &error)) // seven bands of rows
 *         return 2;
 *
 * A region is a run of operators in graph order, including branches, residuals and concatenations.
 * Its result is computed part by part: for each part, every operator computes only the elements
 * that later operators need. Windows of neighbouring parts overlap (a halo); the halo is recomputed
 * by each part, or kept from the part before. Tensors that cannot be split (inputs of an operator
 * that reduces along the axis, operands that are needed whole) are computed whole before the first
 * part.
 *
 * Results are the same to the bit if the kernels sum each element in an order that does not depend
 * on the extents. oneDNN may choose another order for other extents; results then differ by float32
 * rounding.
 * Units: bytes, operations (multiply-add = 2).
 * Threads: graphs are only read.
 */
#ifndef TENURE_SPLIT_H
#define TENURE_SPLIT_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_SPLIT_AXES 2u

typedef struct tn_split_region {
    tn_op_id first, last;          /* of block 0; the region includes the operators between them */
    uint32_t axes[TN_SPLIT_AXES];  /* axes of output 0 of `last` */
    uint32_t parts[TN_SPLIT_AXES]; /* number of parts along each axis; 0 and 1: not split */
    bool keep;   /* halos are kept from part to part (one axis only); else they are recomputed */
    bool slices; /* slices of constants become constants of their own, so that each can be streamed
                  * separately (stream.h); else the constant stays whole and is sliced in a run */
} tn_split_region;

/* Makes a graph in which the given regions run in parts. Regions must not overlap. Tensors with
 * readers outside a region keep names and data. New operators take the region's place, part by
 * part. All parts share the weights. The result is inferred.
 *
 * graph    inferred; payloads of the result refer to the file of `graph`
 * regions  [count]
 * context  NULL: that of the graph
 *
 * Errors: E_INVALID (a region that cannot be split; the message names the operator: the axis is not
 * independent in the last operator, more parts than elements, a result with readers before it is
 * complete), those of tn_graph_infer, E_NO_MEMORY.
 * Cost: O(operators x parts). Source: Alwani et al., "Fused-layer CNN accelerators" (MICRO 2016);
 * Lin et al., "MCUNetV2" (NeurIPS 2021); Zhao et al., "AutoChunk" (ICLR 2024). */
TN_API TN_CHECKED tn_status tn_graph_split(const tn_graph *graph, const tn_split_region *regions,
                                           uint32_t count, const tn_context *context,
                                           tn_graph **split, tn_error *error);

/* A tensor that is recomputed right before its late readers instead of being kept. A place is the
 * position of an operator of block 0 in graph order. */
typedef struct tn_split_again {
    tn_tensor_id tensor;
    uint32_t from;   /* place of the first operator that is recomputed */
    uint32_t before; /* place of the first reader of the recomputed tensor */
} tn_split_again;

/* Makes a graph in which these tensors are recomputed, inferred. `again[0]` refers to `graph`, each
 * later entry to the graph after the entry before it. The caller destroys the result, which may
 * outlive `graph`.
 *
 * again    [count], count above 0
 *
 * Errors: E_INVALID (an id or a place that is not in the graph, operators with side effects), those
 * of tn_graph_infer, E_NO_MEMORY. Cost: O(count (operators + operands)). */
TN_API TN_CHECKED tn_status tn_graph_split_again(const tn_graph *graph, const tn_split_again *again,
                                                 uint32_t count, tn_graph **made, tn_error *error);

/* --- the search for regions --------------------------------------------------------------- */

/* The candidate regions of a graph with their bytes and work: computed once, searched for many
 * budgets. */
typedef struct tn_split_search tn_split_search;

typedef struct tn_split_options {
    size_t struct_size;
    const tn_context *context;  /* NULL: that of the graph */
    const uint64_t *workspaces; /* [operators] scratch bytes of their kernels; NULL: by the
                                 * operators' rules. Read only during the call */
    bool copies; /* for run times that gather nothing in place: slices and concatenations copy */
    uint32_t byte_flops;  /* operations in the time that one byte moves; 0: 8 */
    const uint64_t *kept; /* [operators] persistent bytes of each copy of an operator, in addition
                           * to live bytes; NULL: none. Read only during the call */
    uint64_t move_kept;   /* the same for an operator that only moves elements */
    bool again; /* the search may also recompute, in parts, tensors with late readers (a skip
                 * connection); not with `copies` or `kept` */
    uint64_t work_limit; /* regions to price; 0: no limit; deterministic */
    double timeout_s;    /* wall clock; 0: no limit. The search can only end earlier */
} tn_split_options;
#define TN_SPLIT_OPTIONS_INIT                                                                      \
    TN_INIT(tn_split_options, TN_SET(struct_size, sizeof(tn_split_options)))

/* A choice of regions. Its numbers are predictions from the graph; a plan may differ. */
typedef struct tn_split_choice {
    const tn_graph *graph; /* the graph that the regions refer to: the one searched, or one owned by
                            * the search in which tensors are recomputed */
    tn_split_region *regions; /* [count] in the order of `graph` */
    uint32_t count;
    const tn_split_again *again; /* [again_count] the recomputed tensors; owned by the search */
    uint32_t again_count;
    uint64_t live_bytes; /* at the peak step */
    uint64_t extra;      /* operations in addition to those of the unsplit graph */
    uint64_t moved; /* bytes copied (slices, kept halos, concatenations), and bytes that parts read
                     * again (weights, keys and values of attention) if a part with all its inputs
                     * exceeds a cache of 1 MiB */
    double
        work; /* extra work as a share of the graph's operations: `extra` + byte_flops * `moved` */
    uint64_t kept; /* persistent bytes of the additional operators */
} tn_split_choice;

/* Finds the candidate regions. Errors: E_NO_MEMORY, E_STOPPED (a limit, or `progress`, which is
 * called per operator, ended the search of the graph itself; graphs with recomputed tensors are
 * left out if a limit ends their search). Cost: for each operator, axis and number of parts
 * O(80 operators x parts); with `again` for at most 8 graphs. */
TN_API TN_CHECKED tn_status tn_split_search_create(const tn_graph *graph,
                                                   const tn_split_options *options,
                                                   tn_split_search **search, tn_error *error);
TN_API void tn_split_search_destroy(tn_split_search *search); /* NULL is fine */
/* Live bytes of the unsplit graph at the peak step. */
TN_API uint64_t tn_split_whole(const tn_split_search *search);
/* Regions that were priced, the unit of `work_limit`. Deterministic without `timeout_s`. */
TN_API uint64_t tn_split_work(const tn_split_search *search);
/* Finds the regions of least work that keep live bytes within a budget. A larger budget never costs
 * more work.
 *
 * choice  out; release with tn_split_choice_release
 *
 * Errors: E_EXHAUSTED (no regions suffice; the message names a sufficient budget), E_NO_MEMORY.
 * Cost: O(regions). */
TN_API TN_CHECKED tn_status tn_split_within(const tn_split_search *search, uint64_t budget,
                                            tn_split_choice *choice, tn_error *error);
/* As tn_split_within, but each persistent byte counts as `weight` operations of work. */
TN_API TN_CHECKED tn_status tn_split_weighing(const tn_split_search *search, uint64_t budget,
                                              double weight, tn_split_choice *choice,
                                              tn_error *error);
/* Finds the fewest live bytes within a work budget: at most `share` of the graph's work as extra
 * work, as in tn_split_choice.work. A larger share never needs more bytes. Errors: E_NO_MEMORY.
 * Cost: O(regions log). */
TN_API TN_CHECKED tn_status tn_split_least(const tn_split_search *search, double share,
                                           tn_split_choice *choice, tn_error *error);
TN_API void tn_split_choice_release(const tn_split_search *search, tn_split_choice *choice);

/* The work of one run of a graph: the sum of tn_op_cost over the operators that run. Operators of
 * unknown cost count as 0. Cost: O(operators). */
TN_API tn_cost tn_graph_work(const tn_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
