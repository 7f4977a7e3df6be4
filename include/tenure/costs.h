/* costs.h - how long each operator takes: what time is planned with.
 *
 *     tn_graph *graph;
 *     tn_costs *costs;
 *     tn_error error;
 *     int64_t shape[] = {1000};
 *     tn_tensor_id ids[2];
 *     tn_op_id op;
 *     tn_tensor_spec x = {.name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .rank = 1,
 *                         .shape = shape};
 *     tn_tensor_spec y = {.name = "y", .kind = TN_KIND_OUTPUT};
 *     tn_op_spec relu = {.type = "Relu", .inputs = &ids[0], .input_count = 1, .outputs = &ids[1],
 *                        .output_count = 1};
 *     tn_costs_model device = TN_COSTS_MODEL_INIT;
 *     device.flops_per_s = 19.5e12, device.bytes_per_s = 2e12;
 *     if (tn_graph_create(NULL, &graph, &error) ||
 *         tn_graph_add_tensor(graph, &x, &ids[0], &error) ||
 *         tn_graph_add_tensor(graph, &y, &ids[1], &error) ||
 *         tn_graph_add_op(graph, &relu, &op, &error) || tn_graph_infer(graph, &error) ||
 *         tn_costs_create_model(graph, &device, &costs, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     printf("%llu ps\n", (unsigned long long)tn_costs_of(costs, op)); // 8,000 bytes: 4000 ps
 *     tn_costs_destroy(costs);
 *     tn_graph_destroy(graph);
 *
 * Costs are of one graph: as it runs, behind every rewrite. They come from a model of a device,
 * from measuring on this machine (measure.h), from a file that either was written to, or from the
 * caller. What nobody has to run costs nothing: folded operators, and those whose outputs are views
 * of what they read; nor does an operator with blocks, beside those in them.
 *
 * Units: picoseconds, as integers, so that sums are the same in any order; or whatever a caller's
 * own numbers count.
 * Threads: costs are only read once they are made, by any number.
 */
#ifndef TENURE_COSTS_H
#define TENURE_COSTS_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_costs tn_costs;

#define TN_COSTS_PER_S UINT64_C(1000000000000) /* of the unit in a second */
/* No operator costs more: some 20 hours. Of numbers that are given, in a file or by a caller, all
 * operators together cost no more, each once: so that sums do not overflow where each runs again a
 * hundred times. */
#define TN_COSTS_MOST (UINT64_C(1) << 56)

/* A device by two rates: an operator takes as long as its arithmetic or its traffic, whichever is
 * longer (tn_op_cost); where no rule knows its arithmetic, its traffic. Both 0: a machine that
 * nobody has measured, which does eight operations while a byte moves. */
typedef struct tn_costs_model {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the costs */
    double flops_per_s;        /* multiply-add = 2 */
    double bytes_per_s;        /* of its memory */
} tn_costs_model;
#define TN_COSTS_MODEL_INIT TN_INIT(tn_costs_model, TN_SET(struct_size, sizeof(tn_costs_model)))

/* The graph, inferred, outlives the costs.
 * Errors: E_INVALID (one rate that is 0, or one that is negative, no number or without end; a cost
 * above TN_COSTS_MOST, with its node), E_UNKNOWN (a size, with its node), E_NO_MEMORY.
 * Cost: O(operators + operands). Source: Williams, Waterman, Patterson, "Roofline" (2009). */
TN_API TN_CHECKED tn_status tn_costs_create_model(const tn_graph *graph,
                                                  const tn_costs_model *model, tn_costs **costs,
                                                  tn_error *error);

/* Numbers of the caller's own, of any unit; they are copied.
 *
 * of     [operators] together at most TN_COSTS_MOST
 * again  [operators] of the repeat form (tn_costs_again_of); NULL: as `of`
 * count  operators of the graph, or E_INVALID
 * bytes_per_s  as tn_costs_bytes_per_s; 0: not known
 *
 * The graph outlives the costs. Errors: E_INVALID (a number, or the sum up to it, above
 * TN_COSTS_MOST, with its node; a rate that is negative, no number or without end), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_costs_given(const tn_context *context, const tn_graph *graph,
                                           const uint64_t *of, const uint64_t *again,
                                           uint32_t count, double bytes_per_s, tn_costs **costs,
                                           tn_error *error);
TN_API void tn_costs_destroy(tn_costs *costs); /* NULL is fine */

/* Costs as a file (JSON, "tenure-costs"), for each operator by what it is: type, attributes,
 * shapes, element types. Of operators that are alike the larger one is written. "-": standard
 * output. Errors: E_IO, E_NO_MEMORY. Cost: O(operators + operands). */
TN_API TN_CHECKED tn_status tn_costs_write(const tn_costs *costs, const char *path,
                                           tn_error *error);
/* And read for a graph, which outlives them: every operator that runs must be there; more may be.
 * Errors: E_INVALID (bad JSON with the byte; a number that is none, negative or, as the sum of
 * those of the graph, above TN_COSTS_MOST; an operator that is there twice; the first operator that
 * is missing: costs of another model, batch or type), E_IO, E_UNSUPPORTED (a build without JSON),
 * E_NO_MEMORY. Cost: O(bytes + operators). */
TN_API TN_CHECKED tn_status tn_costs_read(const char *path, const tn_context *context,
                                          const tn_graph *graph, tn_costs **costs, tn_error *error);
/* name  for messages */
TN_API TN_CHECKED tn_status tn_costs_read_memory(const char *name, const void *bytes, size_t size,
                                                 const tn_context *context, const tn_graph *graph,
                                                 tn_costs **costs, tn_error *error);

TN_API const tn_graph *tn_costs_graph(const tn_costs *costs);
/* What an operator takes when it runs. */
TN_API uint64_t tn_costs_of(const tn_costs *costs, tn_op_id op);
/* And when it runs once more. Where an operator writes into what it reads, another one stands in,
 * which computes the first output alone of what the first run found (normalisation of a batch by
 * the statistics there are): of such an operator that one's cost, of others the same. */
TN_API uint64_t tn_costs_again_of(const tn_costs *costs, tn_op_id op);
/* Both of all operators, [operators]; they live as long as the costs. */
TN_API const uint64_t *tn_costs_list(const tn_costs *costs);
TN_API const uint64_t *tn_costs_again_list(const tn_costs *costs);
/* Bytes that a plain copy moves in a second (one byte read and one written count as one): what
 * encoding and decoding are reckoned with. 0: not known. */
TN_API double tn_costs_bytes_per_s(const tn_costs *costs);
/* That they were measured with; 0: of a model, or not known. */
TN_API uint32_t tn_costs_threads(const tn_costs *costs);
/* Of every operator that is not in a block that never runs, once; UINT64_MAX where that overflows.
 */
TN_API uint64_t tn_costs_total(const tn_costs *costs);

#ifdef __cplusplus
}
#endif
#endif
