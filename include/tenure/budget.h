/* budget.h - recomputation within a work budget: less memory for more work.
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
#ifndef TENURE_BUDGET_H
#define TENURE_BUDGET_H

#include <tenure/costs.h>
#include <tenure/graph.h>
#include <tenure/program.h>
#include <tenure/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_recompute_options {
    size_t struct_size;
    const tn_context *context;
    /* Work budget: the most work to add, as a share of the work of one run: 0.1 is a tenth. The
     * work of an operator is its arithmetic or its memory traffic, whichever takes longer. 0:
     * nothing is recomputed. */
    double share;
    /* Recompute only operators that are limited by memory traffic (normalisations, activations,
     * concatenations), not products and convolutions. */
    bool cheap;
    const char *only;        /* operator types, separated by commas, to recompute; NULL: all */
    uint32_t flops_per_byte; /* operations in the time of moving one byte; 0 = 8 */
    const struct tn_occupancy_options *memory; /* how bytes are counted; NULL: defaults */
    /* Rules that the program obeys, whatever `share` is. NULL: none */
    const tn_rules *rules;
} tn_recompute_options;
#define TN_RECOMPUTE_OPTIONS_INIT                                                                  \
    TN_INIT(tn_recompute_options, TN_SET(struct_size, sizeof(tn_recompute_options)))

typedef struct tn_recompute_report {
    uint32_t operators;     /* operators that run a second time */
    double share;           /* added work, as a share of the work of one run */
    uint64_t flops;         /* added operations */
    uint64_t before, after; /* live bytes at the peak step, in program order */
} tn_recompute_report;

/* Makes a program with a lower peak and the same results bit by bit. Some tensors are dropped after
 * their last early use and recomputed right before the next one; in a training step these are
 * tensors that the forward pass keeps for the backward pass (train.h). The repeated operators run
 * later than the first time, some in another form (instruction.h), and can run more than twice. If
 * no choice lowers the peak, the program is a copy.
 *
 * program     made by tn_program_create, or the program of one of several ranks (dist.h), where
 *             communication keeps its place; its graph must outlive the new program
 * recomputed  out
 * report      out, may be NULL; bytes are for the program's own order
 *
 * Errors: E_INVALID (`share` is negative or not a number; a rule, as in tn_fit), E_UNSUPPORTED (a
 * program that already recomputes or copies), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: two occupancies (liveness analyses); O((operators + operands) log operators), at most about
 * thirty times. */
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
 *      "operators": [{"cost": 3, "again": 3, "inputs": [0], "outputs": [1, 2], "scratch": 0,
 *                     "repeats": true, "after": [0], "inplace": 0, "name": "conv"}, ...]}
 *
 * with any number of outputs. Only `bytes` of a value and `cost` of an operator are required. A
 * value without an operator exists from the start; a kept value exists at the end; a held value
 * always exists. An operator can be repeated (at the cost `again`) unless `repeats` is false, and
 * runs after those in `after`. Its first output can be written over the input `inplace`, which has
 * the same size, if that is not read later. Other members are ignored.
 *
 * Or a log of a recorded run (evict.h, docs/eager.md), to plan that run ahead. Costs are its
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
/* Like tn_fit_problem_load, from memory; `name` is used in messages. */
TN_API TN_CHECKED tn_status tn_fit_problem_load_memory(const char *name, const void *bytes,
                                                       size_t size, const tn_context *context,
                                                       tn_graph **graph, tn_costs **costs,
                                                       tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
