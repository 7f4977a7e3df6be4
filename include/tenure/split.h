/* split.h - operators run in parts, so that tensors between them never exist whole: Graph to Graph.
 *
 *     // ... graph: of tn_graph_load, then tn_graph_rewrite with no_formats
 *     tn_split_region bands = {.first = 0, .last = 11, .axes = {2}, .parts = {7, 1}};
 *     if (tn_graph_split(graph, &bands, 1, NULL, &split, &error)) // seven bands of rows
 *         return 2;
 *
 * A region is a run of operators in the order of the graph, branches, residuals and concatenations
 * included. Its result is computed part by part: for each part in turn, every operator computes
 * what the parts behind it need. Neighbours of a window overlap (a halo); it is computed again by
 * each part, or kept from the part before. What a part cannot be made of (an operator that reduces
 * along the axis, an operand that is needed whole) is computed whole before the first part.
 *
 * Results are the same to the bit where kernels sum each element in the same order whatever the
 * extents are; oneDNN may choose otherwise for other extents, then within float32 noise.
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
    tn_op_id first, last;          /* operators of block 0; those between them in its order, too */
    uint32_t axes[TN_SPLIT_AXES];  /* of output 0 of `last` */
    uint32_t parts[TN_SPLIT_AXES]; /* along each; 0 and 1: not cut */
    bool keep; /* halos are kept from part to part; needs one axis. Else they are computed again */
    bool slices; /* parts of constants are constants of their own, so that each may come and go by
                  * itself (stream.h). Else they are there once, and parts are taken in a run */
} tn_split_region;

/* A graph in which the regions, which do not overlap, run in parts, inferred. Tensors that others
 * read keep names and contents; new operators follow each other part by part where the region was.
 * Weights are shared by all parts.
 *
 * graph    inferred; payloads of the result mean the file that it was read from
 * regions  [count]
 * context  NULL: that of the graph
 * Errors: E_INVALID with the operator (a region that cannot be cut so: an axis that the last
 * operator is not independent along, more parts than there are elements, a result that other
 * operators read before it is whole), those of tn_graph_infer, E_NO_MEMORY.
 * Cost: O(operators x parts). Source: Alwani et al., "Fused-layer CNN accelerators" (MICRO 2016);
 * Lin et al., "MCUNetV2" (NeurIPS 2021); Zhao et al., "AutoChunk" (ICLR 2024). */
TN_API TN_CHECKED tn_status tn_graph_split(const tn_graph *graph, const tn_split_region *regions,
                                           uint32_t count, const tn_context *context,
                                           tn_graph **split, tn_error *error);

/* A tensor that is recomputed right before its late readers instead of being kept for them. Places
 * count the operators of block 0 in the order of the graph. */
typedef struct tn_split_again {
    tn_tensor_id tensor;
    uint32_t from;   /* place of the first operator that runs a second time */
    uint32_t before; /* place of the first reader of the copy */
} tn_split_again;

/* The graph in which these tensors are recomputed, inferred: `again[0]` of `graph`, each other one
 * of the graph that the one before it makes. The caller destroys the result, which outlives
 * `graph`.
 *
 * again    [count], count above 0
 * Errors: E_INVALID (an id or a place that the graph does not have, operators with side effects),
 * those of tn_graph_infer, E_NO_MEMORY. Cost: O(count (operators + operands)). */
TN_API TN_CHECKED tn_status tn_graph_split_again(const tn_graph *graph, const tn_split_again *again,
                                                 uint32_t count, tn_graph **made, tn_error *error);

/* --- which regions ------------------------------------------------------------------------ */

/* Regions of a graph with what each would need and cost: found once, asked for many budgets. */
typedef struct tn_split_search tn_split_search;

typedef struct tn_split_options {
    size_t struct_size;
    const tn_context *context;  /* NULL: that of the graph */
    const uint64_t *workspaces; /* [operators] scratch bytes of their kernels; NULL: by their rules.
                                 * Read only during the call */
    bool copies; /* for run times that gather nothing in place: parts and joins are copies */
    uint32_t byte_flops;  /* operations that take as long as moving a byte; 0: 8 */
    const uint64_t *kept; /* [operators] bytes that each copy of an operator takes for good, beside
                           * what is live; NULL: none. Read only during the call */
    uint64_t move_kept;   /* the same of an operator that only moves elements */
    bool again; /* tensors that wait long for their last readers (a skip connection) may be computed
                 * again for them, in parts; not with `copies` or `kept` */
    uint64_t work_limit; /* regions that are priced; 0: no limit; deterministic */
    double timeout_s;    /* wall clock; 0: no limit. Only ever stops early */
} tn_split_options;
#define TN_SPLIT_OPTIONS_INIT                                                                      \
    TN_INIT(tn_split_options, TN_SET(struct_size, sizeof(tn_split_options)))

/* The least work for a budget. Predicted: what is told of the graph is of its own plan. */
typedef struct tn_split_choice {
    const tn_graph *graph; /* that the regions are of: the one that was asked about, or one of the
                            * search's, in which tensors are computed again; lives as long */
    tn_split_region *regions; /* [count] in the order of `graph` */
    uint32_t count;
    const tn_split_again *again; /* [again_count] which tensors; lives as long as the search */
    uint32_t again_count;        /* tensors that are computed again */
    uint64_t live_bytes;         /* at the worst step */
    uint64_t extra;              /* operations beyond those of the whole graph */
    uint64_t moved; /* bytes that are copied (parts, halos that are kept, joins), and those
                     * that parts read again (weights, keys and values of attention) where a
                     * part with all that it reads is larger than a cache of 1 MiB */
    double
        work; /* share of the graph's operations: `extra`, and `byte_flops` for each byte moved */
    uint64_t kept; /* bytes that the operators more than the graph's take for good */
} tn_split_choice;

/* Errors: E_NO_MEMORY, E_STOPPED (a limit, or `progress`, which is asked operator by operator: the
 * graph as it is has not been searched to its end; graphs in which tensors are computed again are
 * left out then). Cost: for each operator, axis and number of parts O(80 operators x parts); with
 * `again` for at most 8 graphs. */
TN_API TN_CHECKED tn_status tn_split_search_create(const tn_graph *graph,
                                                   const tn_split_options *options,
                                                   tn_split_search **search, tn_error *error);
TN_API void tn_split_search_destroy(tn_split_search *search); /* NULL is fine */
/* Live bytes of the graph as it is. */
TN_API uint64_t tn_split_whole(const tn_split_search *search);
/* Regions that were priced: what `work_limit` counts. Deterministic without `timeout_s`. */
TN_API uint64_t tn_split_work(const tn_split_search *search);
/* The regions of least work that keep live bytes within a budget: a larger budget never takes more.
 *
 * choice  out, to be released
 * Errors: E_EXHAUSTED (no regions do, with what would), E_NO_MEMORY. Cost: O(regions). */
TN_API TN_CHECKED tn_status tn_split_within(const tn_split_search *search, uint64_t budget,
                                            tn_split_choice *choice, tn_error *error);
/* The same, where each byte that is kept for good weighs as much as so many operations. */
TN_API TN_CHECKED tn_status tn_split_weighing(const tn_split_search *search, uint64_t budget,
                                              double weight, tn_split_choice *choice,
                                              tn_error *error);
/* The fewest live bytes for at most so much work more: `share` of the graph's, as `work` above
 * counts it. A larger share never needs more bytes. Errors: E_NO_MEMORY. Cost: O(regions log). */
TN_API TN_CHECKED tn_status tn_split_least(const tn_split_search *search, double share,
                                           tn_split_choice *choice, tn_error *error);
TN_API void tn_split_choice_release(const tn_split_search *search, tn_split_choice *choice);

/* What a graph does in one run: sums of tn_op_cost over the operators that run. Operators of
 * unknown cost count as none. Cost: O(operators). */
TN_API tn_cost tn_graph_work(const tn_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
