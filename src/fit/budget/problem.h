/* problem.h - a computation without a model, as its readers produce it: operators with given costs
 * that read and make values of given sizes. problem.c turns it into a graph. */
#ifndef TN_BUDGET_PROBLEM_H
#define TN_BUDGET_PROBLEM_H

#include <tenure/budget.h>

#include "base/base.h"

/* Limit for values and for operators of one file. A graph of more would leave too few ids for the
 * tensors and operators that are derived from them. */
#define TN__NODES_MOST ((size_t)1 << 26)

typedef struct tn__node_value {
    const char *name; /* NULL: none */
    uint64_t bytes;
    bool kept, held;
    bool made; /* an operator makes it; set by tn__nodes_check */
} tn__node_value;

typedef struct tn__node {
    const char *name; /* NULL: none */
    uint64_t cost, again_cost, scratch;
    bool once;                  /* may not be repeated */
    uint32_t *inputs, *outputs; /* values */
    uint32_t *after;            /* operators */
    uint32_t input_count, output_count, after_count;
    uint32_t inplace; /* input that the first output may overwrite; TN_NONE */
} tn__node;

typedef struct tn__nodes {
    tn__arena *arena;
    const char *file; /* for messages */
    tn__node_value *values;
    tn__node *nodes;
    uint32_t value_count, node_count;
    tn_error *error;
} tn__nodes;

/* problem_read.c: JSON of either form. Errors: E_INVALID with the byte or the element,
 * E_NO_MEMORY. */
tn_status tn__nodes_read(tn__nodes *it, const void *bytes, size_t size);
/* problem_log.c: lines of a recorded run. Errors: E_INVALID with the line, E_UNSUPPORTED (more than
 * 2^26 of anything), E_NO_MEMORY. */
tn_status tn__nodes_read_log(tn__nodes *it, const tn_context *context, const void *bytes,
                             size_t size);
/* Whether the text begins with a line of a recorded run. */
bool tn__nodes_is_log(const void *bytes, size_t size);

#endif
