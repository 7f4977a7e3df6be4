/* extend.h - extends a graph by tensors without operators. */
#ifndef TN_GRAPH_EXTEND_H
#define TN_GRAPH_EXTEND_H

#include <tenure/graph.h>

#include "base/base.h"

typedef struct tn__extra {
    const char *name;
    uint64_t bytes; /* of uint8 */
} tn__extra;

/* The given graph, inferred, with its ids, and `extras` after its tensors: activations without a
 * producer. Names, shapes and lists are those of the given graph, which must outlive it; it is only
 * read. Errors: E_INVALID (more than 2^32 tensors or 2^63 bytes), E_NO_MEMORY.
 * Cost: O(tensors + operators), copies of the tables.
 */
tn_status tn__graph_extend(const tn_graph *given, const tn__extra *extras, uint32_t count,
                           tn_graph **extended, tn_error *error);

#endif
