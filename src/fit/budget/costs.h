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
    uint32_t count;           /* number of operators of the graph */
    double bytes_per_s;       /* rate of copies in device memory; 0: unknown */
    /* number of threads that ran the measured operators; 0: costs from a model, or unknown */
    uint32_t threads;
};

/* Creates costs of 0 for every operator of the graph. */
tn_status tn__costs_create(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                           tn_error *error);
/* Checks that no cost, and no sum of costs, is above TN_COSTS_MOST. `file` is named in messages
 * (NULL: no file). Errors: E_INVALID with the node. */
tn_status tn__costs_check(const tn_costs *costs, const char *file, tn_error *error);
/* Creates the costs of a standard machine that was not measured (graph/takes.h). They are equal on
 * every machine, and do not depend on given costs. Operators with unknown work cost nothing.
 * Errors: E_NO_MEMORY, those of tn__repeats_make. Cost: O(operators + operands). */
tn_status tn__costs_plain(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                          tn_error *error);
/* Calls tn_simulate with these costs. `given` has the speed of the host link and all other options.
 * Its costs are replaced, and the speed of codecs is filled in if it is missing. */
tn_status tn__costs_simulate(const tn_costs *costs, const tn_program *program,
                             const tn_simulate_options *given, tn_simulation *simulation,
                             tn_error *error);

#endif
