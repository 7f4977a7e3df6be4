/* derived.h - graphs that are made from a given one: with further tensors, and of the forms that
 * recompute operators.
 */
#ifndef TN_GRAPH_DERIVED_H
#define TN_GRAPH_DERIVED_H

#include <tenure/graph.h>

#include "base/base.h"

/* --- further tensors -------------------------------------------------------------------------- */

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

/* --- forms that recompute operators ----------------------------------------------------------- */

/* A graph of the operators that are recomputed by another type, so that kernels and costs can be
 * found for them; otherwise they exist only in programs.
 */

typedef struct tn__repeats {
    tn_context context;
    tn_graph *graph; /* inferred; NULL: no operator has another type */
    /* [operators of the given graph] its form in `graph`; TN_NONE: the operator itself, or not
     * repeated. NULL if `graph` is */
    tn_op_id *of;
    uint32_t count;
} tn__repeats;
/* All operands are inputs there, because this kernel would not find a form that another kernel has
 * packed. Errors: E_NO_MEMORY, those of tn_graph_infer. Cost: O(tensors + operators). */
tn_status tn__repeats_make(const tn_context *context, const tn_graph *graph, tn__repeats *repeats,
                           tn_error *error);
void tn__repeats_release(tn__repeats *repeats); /* fine when it is all zeros */
/* The operator of repeats->graph that repeats `op`; TN_NONE: it repeats itself, or is not
 * repeated. */
static inline tn_op_id tn__repeats_of(const tn__repeats *repeats, tn_op_id op) {
    return repeats->of != NULL ? repeats->of[op] : TN_NONE;
}

#endif
