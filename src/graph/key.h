/* key.h - decides whether two operators are alike, so that the result of preparing or measuring one
 * of them applies to the other. */
#ifndef TN_GRAPH_KEY_H
#define TN_GRAPH_KEY_H

#include <tenure/graph.h>

#include "base/base.h"

/* Decides whether kernels may read known values before they run: integers, and up to 8
 * floating-point numbers. Other values do not affect how an operator is run best. Operators that
 * differ only in those share preparation (engine/kernels/cache.h) and measurements. */
#define TN__VALUE_FLOATS 8u
static inline bool tn__value_is_read(const tn_value *value) {
    return value->ints != NULL || value->count <= TN__VALUE_FLOATS;
}

/* Appends everything that a kernel of this operator may depend on to `key`. */
void tn__op_key(tn__text *key, const tn_graph *graph, tn_op_id op);

#endif
