/* key.h - when two operators are alike: whoever runs or measures one knows the other. */
#ifndef TN_GRAPH_KEY_H
#define TN_GRAPH_KEY_H

#include <tenure/graph.h>

#include "base/base.h"

/* Whether kernels, before they run, may look at contents that are known: integers, and a few
 * floating numbers. Others say nothing about how an operator is best run, and operators that differ
 * in them alone share what is prepared (kernels/cache.h) and what was measured. */
#define TN__VALUE_FLOATS 8u
static inline bool tn__value_is_read(const tn_value *value) {
    return value->ints != NULL || value->count <= TN__VALUE_FLOATS;
}

/* All that a kernel of this operator may depend on, as bytes behind those of `key`. */
void tn__op_key(tn__text *key, const tn_graph *graph, tn_op_id op);

#endif
