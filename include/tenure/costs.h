/* costs.h - costs: the time that each operator takes, for planning.
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
 * Costs belong to one graph in the form in which it runs, after all rewrites. They come from a
 * device model, from measurements on this machine (measure.h), from a file written by
 * tn_costs_write, or from the caller. Operators that do not run cost nothing: folded operators, and
 * operators with only views of their inputs as outputs. A control-flow operator costs nothing in
 * addition to the operators in its blocks.
 *
 * Units: picoseconds, as integers, so that sums are the same in any order; or the unit of the
 * caller's numbers.
 * Threads: any number of threads may read costs.
 */
#ifndef TENURE_COSTS_H
#define TENURE_COSTS_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_costs tn_costs;

#define TN_COSTS_PER_S UINT64_C(1000000000000) /* units in a second */
/* The largest cost of an operator: about 20 hours. For costs from a file or the caller it is also
 * the largest sum over all operators, so that sums do not overflow even if each operator runs a
 * hundred times. */
#define TN_COSTS_MOST (UINT64_C(1) << 56)

/* A device model with two rates (roofline): an operator takes the time of its arithmetic or of its
 * memory traffic, whichever is longer (tn_op_cost). If its arithmetic is not known, only the
 * traffic counts. Both rates 0: a machine that was not measured, with eight operations per byte
 * moved. */
typedef struct tn_costs_model {
    size_t struct_size;
    const tn_context *context; /* NULL, or must outlive the costs */
    double flops_per_s;        /* a multiply-add counts 2 */
    double bytes_per_s;        /* memory bandwidth */
} tn_costs_model;
#define TN_COSTS_MODEL_INIT TN_INIT(tn_costs_model, TN_SET(struct_size, sizeof(tn_costs_model)))

/* Computes costs from a device model. The graph must be inferred and must outlive the costs.
 * Errors: E_INVALID (exactly one rate is 0; a rate that is negative or not finite; a cost above
 * TN_COSTS_MOST, with its node), E_UNKNOWN (a size, with its node), E_NO_MEMORY.
 * Cost: O(operators + operands). Source: Williams, Waterman, Patterson, "Roofline" (2009). */
TN_API TN_CHECKED tn_status tn_costs_create_model(const tn_graph *graph,
                                                  const tn_costs_model *model, tn_costs **costs,
                                                  tn_error *error);

/* Creates costs from the caller's numbers, in any unit; they are copied. The graph must outlive the
 * costs.
 *
 * of           [operators], in total at most TN_COSTS_MOST
 * again        [operators] costs of the repeated form (tn_costs_again_of); NULL: as `of`
 * count        must be the number of operators of the graph
 * bytes_per_s  as in tn_costs_bytes_per_s; 0: not known
 * Errors: E_INVALID (a number, or the sum up to it, above TN_COSTS_MOST, with its node; a rate that
 * is negative or not finite), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_costs_given(const tn_context *context, const tn_graph *graph,
                                           const uint64_t *of, const uint64_t *again,
                                           uint32_t count, double bytes_per_s, tn_costs **costs,
                                           tn_error *error);
TN_API void tn_costs_destroy(tn_costs *costs); /* NULL is fine */

/* Writes costs to a JSON file ("tenure-costs"). An operator is identified by type, attributes,
 * shapes and element types; the larger cost of identical operators is written. `path` "-" is
 * standard output. Errors: E_IO, E_NO_MEMORY. Cost: O(operators + operands). */
TN_API TN_CHECKED tn_status tn_costs_write(const tn_costs *costs, const char *path,
                                           tn_error *error);
/* Reads costs for a graph, which must outlive them. The file must have every operator that runs; it
 * may have more.
 * Errors: E_INVALID (bad JSON, with the byte; a cost that is not a number, negative, or above
 * TN_COSTS_MOST in total; a duplicate operator; a missing operator: the costs are for another
 * model, batch or type), E_IO, E_UNSUPPORTED (a build without JSON), E_NO_MEMORY. Cost: O(bytes +
 * operators). */
TN_API TN_CHECKED tn_status tn_costs_read(const char *path, const tn_context *context,
                                          const tn_graph *graph, tn_costs **costs, tn_error *error);
/* Like tn_costs_read, from memory; `name` is used in messages. */
TN_API TN_CHECKED tn_status tn_costs_read_memory(const char *name, const void *bytes, size_t size,
                                                 const tn_context *context, const tn_graph *graph,
                                                 tn_costs **costs, tn_error *error);

TN_API const tn_graph *tn_costs_graph(const tn_costs *costs);
/* The cost of an operator. */
TN_API uint64_t tn_costs_of(const tn_costs *costs, tn_op_id op);
/* The cost of a repeated run of an operator. An operator that writes into its inputs is repeated by
 * another operator, which computes only the first output from the results of the first run (such as
 * batch normalisation with the stored statistics). The cost of that one is returned; for other
 * operators it is tn_costs_of. */
TN_API uint64_t tn_costs_again_of(const tn_costs *costs, tn_op_id op);
/* Both costs of all operators, [operators]; they live as long as the costs. */
TN_API const uint64_t *tn_costs_list(const tn_costs *costs);
TN_API const uint64_t *tn_costs_again_list(const tn_costs *costs);
/* Bytes per second of a plain copy (one byte read and one written count as one), used for the time
 * of encoding and decoding. 0: not known. */
TN_API double tn_costs_bytes_per_s(const tn_costs *costs);
/* Number of threads used for the measurement; 0: from a model, or not known. */
TN_API uint32_t tn_costs_threads(const tn_costs *costs);
/* The sum over all operators, except those in blocks that never run; UINT64_MAX if it overflows. */
TN_API uint64_t tn_costs_total(const tn_costs *costs);

#ifdef __cplusplus
}
#endif
#endif
