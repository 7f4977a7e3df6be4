/* takes.h - the time of an operator on a machine with two known rates. Estimates of operators use
 * this rule: tn__op_takes for an operator of a graph, tn__takes for one that is known by its sizes
 * alone, tn__work_added for the changes of a graph in operations instead of time.
 *
 * Arithmetic and memory traffic overlap, so an operator takes the longer of the two (a
 * roofline). The rule ignores caches and the efficiency of kernels: use it to compare plans, not
 * to predict seconds.
 *
 * Source: Williams, Waterman, Patterson, "Roofline" (2009).
 */
#ifndef TN_GRAPH_TAKES_H
#define TN_GRAPH_TAKES_H

#include <tenure/graph.h>

#include "base/base.h"

typedef struct tn__machine {
    /* rates of the machine: operations, and moved bytes, per unit of time */
    double operations, bytes;
} tn__machine;

/* A machine without measured rates. For comparisons of plans only the ratio of the rates
 * matters. */
#define TN__PLAIN_RATIO 8u /* operations in the time of moving one byte */
#define TN__PLAIN_BYTES_PER_S 10e9
#define TN__PLAIN_STORAGE_PER_S 1e9 /* bytes per second that a file delivers */
#define TN__PLAIN_MACHINE                                                                          \
    (tn__machine) {                                                                                \
        TN__PLAIN_RATIO *TN__PLAIN_BYTES_PER_S, TN__PLAIN_BYTES_PER_S                              \
    } /* seconds are the unit of time */

/* The time of an operator of known operations and bytes. */
static inline double tn__takes(double operations, double bytes, const tn__machine *machine) {
    const double traffic = bytes > 0 ? bytes / machine->bytes : 0;
    const double work = operations > 0 ? operations / machine->operations : 0;
    return work > traffic ? work : traffic;
}

/* The additional work of a graph in tiles, in operations. Tiles repeat operations, and they add
 * copies, which are operators without arithmetic. A copied byte counts as `byte_operations`
 * operations. Because the work is counted in operations, it can be compared with the work of the
 * whole graph on any machine. */
static inline uint64_t tn__work_added(uint64_t operations, uint64_t bytes,
                                      uint32_t byte_operations) {
    return tn__add_sat(operations, tn__mul_sat(bytes, byte_operations));
}

/* Whether the operator runs at all. False if it is folded, if all outputs are views of its inputs,
 * if it lies in a block that never runs, or if it has blocks (the operators inside run instead). */
bool tn__op_runs(const tn_graph *graph, tn_op_id op);
/* The time of an operator in units; 0 for an operator that does not run. If no rule gives the
 * operations, only the bytes count; if the bytes are unknown (`known` false), only the operations.
 * `known` may be NULL. Cost: O(operands). */
double tn__op_takes(const tn_graph *graph, tn_op_id op, const tn__machine *machine, bool *known);

#endif
