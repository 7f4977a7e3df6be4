/* costs.h - what costs are made of, for the files that make, read, write and measure them. */
#ifndef TN_BUDGET_COSTS_H
#define TN_BUDGET_COSTS_H

#include <tenure/costs.h>

#include "base/base.h"

struct tn_costs {
    tn_context context;
    const tn_graph *graph;
    uint64_t *of, *again; /* [count] */
    uint32_t count;       /* operators of the graph */
    double bytes_per_s;   /* of a copy; 0: not known */
    uint32_t threads;     /* that it was measured with; 0: of a model, or not known */
};

/* Costs of 0 for every operator of the graph. */
tn_status tn__costs_create(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                           tn_error *error);
/* That no number is above TN_COSTS_MOST, nor their sum. file: for messages; NULL: none.
 * Errors: E_INVALID with the node. */
tn_status tn__costs_check(const tn_costs *costs, const char *file, tn_error *error);
/* The costs of a machine that was not measured (graph/takes.h): the same on every machine, and
 * independent of given costs. What is not known costs nothing. Errors: E_NO_MEMORY, those of
 * tn__repeats_make. Cost: O(operators + operands). */
tn_status tn__costs_plain(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                          tn_error *error);

#endif
