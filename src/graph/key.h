/* key.h - decides when two operators are alike: results of preparing or measuring one hold for the
 * other. */
#ifndef TN_GRAPH_KEY_H
#define TN_GRAPH_KEY_H

#include <tenure/graph.h>

#include "base/base.h"

/* Whether kernels may read known values before they run: integers, and a few floating-point
 * numbers. Other values do not affect how an operator is run best, and operators that differ only
 * in them share preparation (engine/kernels/cache.h) and measurements. */
#define TN__VALUE_FLOATS 8u
static inline bool tn__value_is_read(const tn_value *value) {
    return value->ints != NULL || value->count <= TN__VALUE_FLOATS;
}

/* Appends to `key` all that a kernel of this operator may depend on. */
void tn__op_key(tn__text *key, const tn_graph *graph, tn_op_id op);

#endif
