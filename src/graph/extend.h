/* extend.h - a graph and some tensors that no operator knows. */
#ifndef TN_GRAPH_EXTEND_H
#define TN_GRAPH_EXTEND_H

#include <tenure/graph.h>

#include "base/base.h"

typedef struct tn__extra {
    const char *name;
    uint64_t bytes; /* of uint8 */
} tn__extra;

/* The given graph, inferred, whose ids it keeps, and `extras` behind its tensors: activations
 * without a producer. Names, shapes and lists stay those of the given graph, which outlives it; it
 * is only read. Errors: E_INVALID (more than 2^32 tensors, or bytes than 2^63), E_NO_MEMORY.
 * Cost: O(tensors + operators), copies of the tables. */
tn_status tn__graph_extend(const tn_graph *given, const tn__extra *extras, uint32_t count,
                           tn_graph **extended, tn_error *error);

#endif
