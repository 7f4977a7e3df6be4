/* attr.h - reads the attributes of an operator, for rules, rewrites, kernels and gradients alike.
 *
 * Each function takes a default, which it returns if the operator has no attribute of that name, or
 * one of another type.
 * Cost: O(attributes of the operator).
 */
#ifndef TN_GRAPH_ATTR_H
#define TN_GRAPH_ATTR_H

#include <tenure/graph.h>

/* returns NULL if the operator has no attribute of that name */
const tn_attr *tn__attr(const tn_op *op, const char *name);
int64_t tn__attr_int(const tn_op *op, const char *name, int64_t otherwise);
double tn__attr_float(const tn_op *op, const char *name, double otherwise);
const char *tn__attr_string(const tn_op *op, const char *name, const char *otherwise);
/* Returns the integers of an attribute and sets *count; NULL with *count 0 if the attribute is
 * absent. An empty list that is present is not NULL, and a single number counts as a list of one.
 * The integers belong to the operator. */
const int64_t *tn__attr_ints(const tn_op *op, const char *name, uint32_t *count);
const double *tn__attr_floats(const tn_op *op, const char *name, uint32_t *count);
/* Whether an attribute may have different values on ranks that hold parts of one model. */
typedef enum tn__attr_ranks {
    TN__ATTR_SAME,   /* never */
    TN__ATTR_MAY,    /* may differ between ranks: a random number, or where a rank's part begins */
    TN__ATTR_OF_RANK /* differs between ranks: it says which part the rank has */
} tn__attr_ranks;
tn__attr_ranks tn__attr_of_ranks(const tn_op *op, const char *name);
/* Whether one of the operator's attributes is a block, as in If, Loop and Scan. */
bool tn__op_has_blocks(const tn_op *op);

#endif
