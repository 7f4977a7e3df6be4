/* costs.h - the representation of costs, for the files that make, read, write and measure them. */
#ifndef TN_BUDGET_COSTS_H
#define TN_BUDGET_COSTS_H

#include <tenure/program.h>
#include <tenure/search.h>

#include "base/base.h"

struct tn_costs {
    tn_context context;
    const tn_graph *graph;
    uint64_t *of, *recompute; /* [count] */
    uint32_t count;           /* operators of the graph */
    double bytes_per_s;       /* copy rate; 0: unknown */
    uint32_t threads; /* number of threads in the measurement; 0: modelled costs, or unknown */
};

/* Costs of 0 for every operator of the graph. */
tn_status tn__costs_create(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                           tn_error *error);
/* Checks that no number and no sum is above TN_COSTS_MOST. file: for messages; NULL: no file.
 * Errors: E_INVALID with the node. */
tn_status tn__costs_check(const tn_costs *costs, const char *file, tn_error *error);
/* Costs of an unmeasured machine (graph/takes.h): equal on every machine, and independent of any
 * given costs. Operators with unknown work cost nothing. Errors: E_NO_MEMORY, those of
 * tn__repeats_make. Cost: O(operators + operands). */
tn_status tn__costs_plain(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                          tn_error *error);
/* tn_simulate with these costs. `given` has the links and all other options; its costs are filled
 * in, and the rate of codecs if it has none. */
tn_status tn__costs_simulate(const tn_costs *costs, const tn_program *program,
                             const tn_simulate_options *given, tn_simulation *simulation,
                             tn_error *error);

#endif
