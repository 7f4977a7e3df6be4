/* search.h - the searches that tn_fit_graph combines, one by one, and the costs of operators.
 */
#ifndef TENURE_SEARCH_H
#define TENURE_SEARCH_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/search.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/fit.h>
#include <tenure/graph.h>
#include <tenure/plan.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- costs ----------------------------------------------------------------------------------- */

/* Costs: the time that each operator takes, for planning.
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
 * device model, from measurements on this machine (engine.h), from a file written by
 * tn_costs_write, or from the caller. Operators that do not run cost nothing: folded operators, and
 * operators with only views of their inputs as outputs. A control-flow operator costs nothing in
 * addition to the operators in its blocks.
 *
 * Units: picoseconds, as integers, so that sums are the same in any order; or the unit of the
 * caller's numbers.
 * Threads: any number of threads may read costs.
 */

typedef struct tn_costs tn_costs;

#define TN_COSTS_PER_S UINT64_C(1000000000000) /* number of cost units in a second */
/* The largest cost of an operator: about 20 hours. For costs from a file or from the caller this
 * number also limits the sum over all operators, so that sums do not overflow even if each operator
 * runs a hundred times. */
#define TN_COSTS_MOST (UINT64_C(1) << 56)

/* A device model with two rates (roofline): an operator takes the time of its arithmetic or of its
 * memory traffic, whichever is longer (tn_op_cost). If its arithmetic is not known, only the
 * traffic counts. Both rates 0: a machine that was not measured, with eight operations per byte
 * moved. */
typedef struct tn_costs_model {
    size_t struct_size;
    const tn_context *context; /* services of the caller; NULL: defaults; must outlive the costs */
    double flops_per_s;        /* arithmetic rate of the device; a multiply-add counts 2 */
    double bytes_per_s;        /* memory bandwidth of the device */
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
 * again        [operators] costs of the repeated form (tn_costs_again_of); NULL: equal to `of`
 * count        must be the number of operators of the graph
 * bytes_per_s  as in tn_costs_bytes_per_s; 0: not known
 * Errors: E_INVALID (a number, or the sum up to it, above TN_COSTS_MOST, with its node; a rate that
 * is negative or not finite), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_costs_given(const tn_context *context, const tn_graph *graph,
                                           const uint64_t *of, const uint64_t *again,
                                           uint32_t count, double bytes_per_s, tn_costs **costs,
                                           tn_error *error);
TN_API void tn_costs_destroy(tn_costs *costs); /* Destroys costs; NULL has no effect. */

/* Writes costs to a JSON file ("tenure-costs"). An operator is identified by type, attributes,
 * shapes and element types; the larger cost of identical operators is written. `path` "-" is
 * standard output. Errors: E_IO, E_NO_MEMORY. Cost: O(operators + operands). */
TN_API TN_CHECKED tn_status tn_costs_write(const tn_costs *costs, const char *path,
                                           tn_error *error);
/* Reads costs for a graph, which must outlive the costs. The file must have every operator that
 * runs; it may have more. Errors: E_INVALID (bad JSON, with the byte; a cost that is not a number,
 * negative, or above TN_COSTS_MOST in total; a duplicate operator; a missing operator: the costs
 * are for another model, batch or type), E_IO, E_UNSUPPORTED (a build without JSON), E_NO_MEMORY.
 * Cost: O(bytes + operators). */
TN_API TN_CHECKED tn_status tn_costs_read(const char *path, const tn_context *context,
                                          const tn_graph *graph, tn_costs **costs, tn_error *error);
/* Reads costs from memory; otherwise like tn_costs_read. `name` is used in messages. */
TN_API TN_CHECKED tn_status tn_costs_read_memory(const char *name, const void *bytes, size_t size,
                                                 const tn_context *context, const tn_graph *graph,
                                                 tn_costs **costs, tn_error *error);

TN_API const tn_graph *tn_costs_graph(const tn_costs *costs);
/* Returns the cost of an operator. */
TN_API uint64_t tn_costs_of(const tn_costs *costs, tn_op_id op);
/* Returns the cost of a repeated run of an operator. An operator that writes into its inputs is
 * repeated by another operator, which computes only the first output from the results of the first
 * run (such as batch normalisation with the stored statistics); the cost of that operator is
 * returned. For all other operators the result is that of tn_costs_of. */
TN_API uint64_t tn_costs_again_of(const tn_costs *costs, tn_op_id op);
/* Return the costs of all operators, [operators], for a first and for a repeated run; they live as
 * long as the costs. */
TN_API const uint64_t *tn_costs_list(const tn_costs *costs);
TN_API const uint64_t *tn_costs_again_list(const tn_costs *costs);
/* Returns the bytes per second of a plain copy (one byte read and one written count as one), used
 * for the time of encoding and decoding. 0: not known. */
TN_API double tn_costs_bytes_per_s(const tn_costs *costs);
/* Returns the number of threads used for the measurement; 0: the costs come from a model, or the
 * number is not known. */
TN_API uint32_t tn_costs_threads(const tn_costs *costs);
/* Returns the sum of the costs of all operators, except those in blocks that never run; UINT64_MAX
 * if it overflows. */
TN_API uint64_t tn_costs_total(const tn_costs *costs);

/* --- budget ---------------------------------------------------------------------------------- */

/* Recomputation within a work budget: less memory for more work.
 *
 *     // ... program: of tn_program_create, for the graph of tn_train
 *     tn_recompute_options options = TN_RECOMPUTE_OPTIONS_INIT;
 *     options.share = 0.1; // at most a tenth of the work of a run is added
 *     if (tn_program_recompute(program, &options, &less, NULL, &error))
 *         return 2;
 *
 * Units: bytes, operations.
 * Threads: graphs and programs are only read.
 */

typedef struct tn_recompute_options {
    size_t struct_size;
    const tn_context *context;
    /* Work budget: the most work to add, as a share of the work of one run: 0.1 is a tenth. The
     * work of an operator is its arithmetic or its memory traffic, whichever takes longer. 0:
     * nothing is recomputed. */
    double share;
    /* If true, recompute only operators that are limited by memory traffic (normalisations,
     * activations, concatenations), not products and convolutions. */
    bool cheap;
    /* types of the operators that may be recomputed, separated by commas; NULL: all types */
    const char *only;
    uint32_t flops_per_byte; /* number of operations in the time of moving one byte; 0: 8 */
    const struct tn_occupancy_options *memory; /* how bytes are counted; NULL: defaults */
    /* Rules that the program obeys, whatever `share` is. NULL: no rules */
    const tn_rules *rules;
} tn_recompute_options;
#define TN_RECOMPUTE_OPTIONS_INIT                                                                  \
    TN_INIT(tn_recompute_options, TN_SET(struct_size, sizeof(tn_recompute_options)))

typedef struct tn_recompute_report {
    uint32_t operators; /* number of operators that run a second time */
    double share;       /* added work as a share of the work of one run */
    uint64_t flops;     /* number of added operations */
    /* live bytes at the peak step, in program order, before and after the change */
    uint64_t before, after;
} tn_recompute_report;

/* Makes a program with a lower peak and the same results bit by bit. Some tensors are dropped after
 * their last early use and recomputed right before the next one; in a training step these are
 * tensors that the forward pass keeps for the backward pass (train.h). The repeated operators run
 * later than the first time, some in another form (program.h), and can run more than twice.
 * Without rules, the program is a copy if no choice lowers the peak.
 *
 * program     made by tn_program_create, or the program of one of several ranks (dist.h), where
 *             communication keeps its place; its graph must outlive the new program
 * recomputed  out
 * report      out, may be NULL; bytes are for the program's own order
 *
 * Errors: E_INVALID (`share` is negative or not a number; a rule that tn_fit would refuse),
 * E_UNSUPPORTED (a program that already recomputes or copies), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: a bounded number of passes over the program, each O((operators + operands) log^2
 * operators), and a liveness analysis for each schedule that is compared. */
TN_API TN_CHECKED tn_status tn_program_recompute(const tn_program *program,
                                                 const tn_recompute_options *options,
                                                 tn_program **recomputed,
                                                 tn_recompute_report *report, tn_error *error);

/* --- problems without a model --- */

/* Reads a computation from JSON. It becomes a graph of opaque operators with their costs:
 *
 *     {"cpu": [3, 1, 4], "ram": [10, 10, 1], "edges": [[0, 1], [1, 2]]}
 *
 * Operator i costs cpu[i] and makes one tensor of ram[i] bytes. For an edge [u, v], v reads the
 * tensor of u. Or
 *
 *     {"values": [{"bytes": 64, "kept": true, "held": false, "name": "x"}, ...],
 *      "operators": [{"cost": 3, "recompute_cost": 3, "inputs": [0], "outputs": [1, 2],
 *                     "scratch": 0, "repeats": true, "after": [0], "inplace": 0,
 *                     "name": "conv"}, ...]}
 *
 * with any number of outputs. Only `bytes` of a value and `cost` of an operator are required. A
 * value without an operator exists from the start; a kept value exists at the end; a held value
 * always exists. An operator can be repeated (at the cost `recompute_cost`) unless `repeats` is
 * false, and runs after those in `after`. Its first output can be written over the input `inplace`,
 * which has the same size, if that is not read later. Other members are ignored.
 *
 * Or a log of a recorded run (eager.h, docs/eager.md), to plan that run ahead. Costs are its
 * nanoseconds. A tensor that is written in place becomes another value of the same size. Views have
 * no value; their time is added to that of the operator that makes the value.
 *
 * graph  out; must outlive the costs
 * costs  out; destroy both
 * Errors: E_INVALID with the byte, the element, the line or the cycle, E_UNSUPPORTED (more than
 * 2^26 values or operators), E_IO, E_NO_MEMORY. Cost: O(bytes). */
TN_API TN_CHECKED tn_status tn_fit_problem_load(const char *path, const tn_context *context,
                                                tn_graph **graph, tn_costs **costs,
                                                tn_error *error);
/* Reads a computation from memory; otherwise like tn_fit_problem_load. `name` is used in
 * messages. */
TN_API TN_CHECKED tn_status tn_fit_problem_load_memory(const char *name, const void *bytes,
                                                       size_t size, const tn_context *context,
                                                       tn_graph **graph, tn_costs **costs,
                                                       tn_error *error);

/* --- stream ---------------------------------------------------------------------------------- */

/* Weight streaming: plans runs that read some weights from a file to fit a budget.
 *
 *     // ... program: from tn_program_create; costs: from tn_costs_measure or a model; blocks: from
 *     // tn_engine_static_blocks; may: from tn_engine_may_fetch
 *     tn_stream_options options = TN_STREAM_OPTIONS_INIT;
 *     tn_stream_result result;
 *     options.budget = UINT64_C(64) << 20;
 *     options.blocks = blocks, options.block_count = count, options.may = may;
 *     options.bytes_per_s = 2e9;
 *     tn_status status = tn_program_stream(program, costs, &options, &result, &error);
 *     if (status == TN_OK)
 *         printf("%.3f ms, including %.3f ms of waits for the file\n", (double)result.time / 1e9,
 *                (double)result.stall / 1e9);
 *     tn_stream_release(&result);
 *
 * The arena contains everything: static memory that stays (resident), fetched weights while they
 * are present, and all other buffers. A fetched weight occupies memory from the start of its read
 * until its use. Weights are prefetched in the order of use, as early as memory allows. The
 * resident weights are chosen so that the computation waits as little as possible.
 * Units: bytes, picoseconds (search.h).
 * Threads: the program and the costs are only read.
 */

typedef struct tn_stream_options {
    size_t struct_size;
    const tn_context *context; /* services of the caller; NULL: the context of the graph */
    uint64_t budget; /* budget in bytes for the whole arena; 0: as few bytes as possible */
    /* [block_count] blocks of all static memory, in the kernels' layouts */
    const tn_static_block *blocks;
    uint32_t block_count;
    const uint8_t *may;            /* [block_count] not 0: the block may be fetched */
    double bytes_per_s, latency_s; /* read rate of the file, above 0; latency of one read */
    /* how bytes are counted; the library sets the member `statics` itself */
    const tn_occupancy_options *memory;
    const tn_plan_options *plan; /* options for the layouts; NULL: defaults */
} tn_stream_options;
#define TN_STREAM_OPTIONS_INIT                                                                     \
    TN_INIT(tn_stream_options, TN_SET(struct_size, sizeof(tn_stream_options)))

typedef struct tn_stream_result {
    /* the program, with FETCH and DROP instructions; NULL: no program was found */
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout; /* verified layout of the arena */
    /* peak of the layout in bytes; without a program, the smallest peak that was tried */
    uint64_t bytes;
    uint64_t time; /* time of a run, predicted by tn_simulate */
    /* time of a run with all static memory resident, predicted by tn_simulate */
    uint64_t plain_time;
    uint64_t stall;         /* the time within `time` that is spent waiting for files */
    uint64_t fetched_bytes; /* bytes fetched in one run; repeated fetches count each time */
    uint64_t resident_bytes;
    uint32_t fetches, residents; /* number of FETCH instructions; number of resident blocks */
    uint32_t rounds;             /* number of iterations of choice and layout */
    double bytes_per_s;          /* the read rate that was assumed, in bytes per second */
} tn_stream_result;

/* Finds the program within the budget that waits least (heuristic).
 *
 * result  out; release it in every case
 *
 * Errors: E_EXHAUSTED (no program within the budget was found; the message names a sufficient
 * budget, and the operator with the largest operands), E_INVALID (rates), E_UNSUPPORTED (control
 * flow), E_STOPPED (progress), those of tn_plan, E_NO_MEMORY.
 * Cost: mostly O(blocks) predictions of O(steps + blocks) each, and some layouts. */
TN_API TN_CHECKED tn_status tn_program_stream(const tn_program *program, const tn_costs *costs,
                                              const tn_stream_options *options,
                                              tn_stream_result *result, tn_error *error);
/* Releases a result; a zeroed one has no effect. */
TN_API void tn_stream_release(tn_stream_result *result);

/* --- searches within one program ------------------------------------------------------------- */

/* Finds the fastest program within the budget.
 *
 * result  out; must be released, also after an error
 * Errors: E_INFEASIBLE (proved: no program fits), E_EXHAUSTED (none was found), E_STOPPED (a limit
 * was reached before any program was found), E_INVALID (no budget, rates that are not positive,
 * costs of another graph), E_UNKNOWN (a pass), E_UNSUPPORTED (the pass does not model this
 * request), E_NO_MEMORY. Rules: E_INVALID if a pattern matches no operator, if two rules of
 * different kinds match the same operator, or if a rule changes nothing.
 * With E_INFEASIBLE and E_EXHAUSTED the result is the smallest program that was found, and `bytes`
 * its size. Without a limit this size is the same for every budget and all costs (with `live`, for
 * the given costs). Budgets of at least this size succeed, smaller ones fail.
 * Cost: that of the pass and of a plan, about ten times.
 * Source: Jain et al., "Checkmate" (MLSys 2020), for the problem; docs/fit.md for the methods.
 */
TN_API TN_CHECKED tn_status tn_fit(const tn_program *program, const tn_costs *costs,
                                   const tn_fit_options *options, tn_fit_result *result,
                                   tn_error *error);
/* Finds the program with the fewest bytes, without regard to time. `budget` is not read. In all
 * other respects the call is like tn_fit. */
TN_API TN_CHECKED tn_status tn_fit_least(const tn_program *program, const tn_costs *costs,
                                         const tn_fit_options *options, tn_fit_result *result,
                                         tn_error *error);
/* Computes the curve of memory against time for `count` budgets, evenly spaced from the smallest
 * program to the bytes of the given program. A program that was found for a smaller budget is used
 * for a larger one if it is faster there. So a larger budget never has a slower result.
 *
 * budgets  out, [count], rising
 * results  out, [count], each with its program; release each one, also after an error */
TN_API TN_CHECKED tn_status tn_fit_sweep(const tn_program *program, const tn_costs *costs,
                                         const tn_fit_options *options, uint32_t count,
                                         uint64_t *budgets, tn_fit_result *results,
                                         tn_error *error);
/* Releases a result; a zeroed one has no effect. */
TN_API void tn_fit_release(tn_fit_result *result);
/* Repeats the simulation that predicted a result's `time`, and records its steps as events, from 0
 * s on.
 *
 * costs, options  those of the result
 * Errors: those of tn_simulate. */
TN_API TN_CHECKED tn_status tn_fit_trace(const tn_fit_result *result, const tn_costs *costs,
                                         const tn_fit_options *options, tn_trace *trace,
                                         tn_error *error);

/* How a program treats a tensor, as the search decided. */
typedef enum tn_fate {
    TN_FATE_KEPT,
    TN_FATE_RECOMPUTED,
    TN_FATE_SWAPPED,
    TN_FATE_ENCODED,
    TN_FATE_COUNT
} tn_fate;
TN_API const char *tn_fate_name(tn_fate fate);
/* Writes to `fates` the decision about each tensor of the program's graph, a tn_fate. If several
 * apply to a tensor, the last one in the order of tn_fate counts. */
TN_API void tn_program_fates(const tn_program *program, uint8_t *fates);

/* Totals of the tensors that have memory of their own, by decision. Encoded forms are not
 * counted. */
typedef struct tn_fate_totals {
    uint32_t tensors[TN_FATE_COUNT];
    /* bytes of the tensors; each tensor counts once, with its size before encoding */
    uint64_t bytes[TN_FATE_COUNT];
} tn_fate_totals;
/* Computes the totals by decision. Errors: E_NO_MEMORY. Cost: O(live ranges + instructions). */
TN_API TN_CHECKED tn_status tn_fit_fates(const tn_occupancy *occupancy, tn_fate_totals *totals,
                                         tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
