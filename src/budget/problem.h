/* problem.h - a computation without a model, as its readers leave it: operators of given costs that
 * read and make values of given bytes. problem.c says what becomes of it. */
#ifndef TN_BUDGET_PROBLEM_H
#define TN_BUDGET_PROBLEM_H

#include <tenure/budget.h>

#include "base/base.h"

/* Of a file: more would not fit the ids of a graph with room for what is made of them. */
#define TN__NODES_MOST ((size_t)1 << 26)

typedef struct tn__node_value {
    const char *name; /* NULL: none */
    uint64_t bytes;
    bool kept, held;
    bool made; /* by an operator; found by tn__nodes_check */
} tn__node_value;

typedef struct tn__node {
    const char *name; /* NULL: none */
    uint64_t cost, again_cost, scratch;
    bool once;                  /* it may not run again */
    uint32_t *inputs, *outputs; /* values */
    uint32_t *after;            /* operators */
    uint32_t input_count, output_count, after_count;
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

#endif
