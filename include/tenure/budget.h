/* budget.h - less memory for more work: what is computed again instead of being kept.
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

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_recompute_options {
    size_t struct_size;
    const tn_context *context;
    /* At most so much more work, as a share of that of one run: 0.1 is a tenth. Work of an operator
     * is its arithmetic or its traffic, whichever takes longer. 0: nothing is computed again */
    double share;
    bool cheap; /* only operators that move bytes: normalisations, activations, concatenations, not
                 * products and convolutions */
    const char *only;        /* NULL, or types of operators with commas between: these alone */
    uint32_t flops_per_byte; /* operations that take as long as moving one byte; 0 = 8 */
    const struct tn_occupancy_options *memory; /* what bytes are counted with; NULL: defaults */
} tn_recompute_options;
#define TN_RECOMPUTE_OPTIONS_INIT                                                                  \
    TN_INIT(tn_recompute_options, TN_SET(struct_size, sizeof(tn_recompute_options)))

typedef struct tn_recompute_report {
    uint32_t operators;     /* that run a second time */
    double share;           /* of the work of one run, that is added */
    uint64_t flops;         /* that are added */
    uint64_t before, after; /* live bytes at the worst step, in the order of the list */
} tn_recompute_report;

/* A program whose results are the same bit by bit and whose peak is lower, as some tensors are
 * dropped after their last early use and computed again right before the next: in a training step
 * what the forward pass leaves for the backward pass (train.h). Operators of its graph run again,
 * later than the first time, some in the form that repeats them (instruction.h); they may run more
 * than twice. When no choice lowers the peak the program is a copy.
 *
 * program  as tn_program_create makes them, or of one of several ranks (dist.h): what it says to
 *          others stays in its place; its graph outlives what is made
 * report   out, may be NULL; bytes are of the program's own order
 *
 * Errors: E_INVALID (a share that is negative or no number), E_UNSUPPORTED (a program that runs
 * something again, or copies, already), E_UNKNOWN (a size), E_NO_MEMORY.
 * Cost: two occupancies; O((operators + operands) log operators), some thirty times at most. */
TN_API TN_CHECKED tn_status tn_program_recompute(const tn_program *program,
                                                 const tn_recompute_options *options,
                                                 tn_program **recomputed,
                                                 tn_recompute_report *report, tn_error *error);

/* --- problems without a model ------------------------------------------------------------------
 */

/* A computation as JSON, which becomes a graph of opaque operators and their costs:
 *
 *     {"cpu": [3, 1, 4], "ram": [10, 10, 1], "edges": [[0, 1], [1, 2]]}
 *
 * operator i costs cpu[i] and makes one tensor of ram[i] bytes; for an edge [u, v] v reads what u
 * makes. Or
 *
 *     {"values": [{"bytes": 64, "kept": true, "held": false, "name": "x"}, ...],
 *      "operators": [{"cost": 3, "again": 3, "inputs": [0], "outputs": [1, 2], "scratch": 0,
 *                     "repeats": true, "after": [0], "inplace": 0, "name": "conv"}, ...]}
 *
 * with any number of outputs. Of a value only `bytes`, of an operator only `cost` is required. A
 * value that no operator makes is there from the start; a kept one is there at the end; a held one
 * is always there. An operator may run again (at the cost `again`) unless `repeats` is false, and
 * runs behind those in `after`; its first output may be written over the input `inplace`, of as
 * many bytes, where nobody reads that later. Other members are ignored.
 *
 * Or the lines of a recorded run (evict.h, docs/eager.md): what a run was that nobody planned, so
 * that it is planned ahead. Costs are its nanoseconds. What is written in place is another value of
 * the same bytes; views have none, and their time is that of who makes the value.
 *
 * The graph outlives the costs; the caller destroys both.
 * Errors: E_INVALID with the byte, the element, the line or the cycle, E_UNSUPPORTED (more than
 * 2^26 of anything), E_IO, E_NO_MEMORY. Cost: O(bytes). */
TN_API TN_CHECKED tn_status tn_fit_problem_load(const char *path, const tn_context *context,
                                                tn_graph **graph, tn_costs **costs,
                                                tn_error *error);
/* name  for messages */
TN_API TN_CHECKED tn_status tn_fit_problem_load_memory(const char *name, const void *bytes,
                                                       size_t size, const tn_context *context,
                                                       tn_graph **graph, tn_costs **costs,
                                                       tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
