/* derived.h - makes graphs from a given graph: one with additional tensors, and one of the operator
 * types that recompute operators. */
#ifndef TN_GRAPH_DERIVED_H
#define TN_GRAPH_DERIVED_H

#include <tenure/graph.h>

#include "base/base.h"

/* --- graphs with additional tensors ----------------------------------------------------------- */

typedef struct tn__extra {
    const char *name;
    /* bytes of the additional tensor, that is, the number of its elements, which are uint8 */
    uint64_t bytes;
} tn__extra;

/* Makes a copy of an inferred graph that keeps its ids and has `extras` after its tensors:
 * activations without a producer. Names, shapes and lists are shared with the given graph, which is
 * only read and must outlive the copy. Errors: E_INVALID (more than 2^32 tensors or 2^63 bytes),
 * E_NO_MEMORY. Cost: O(tensors + operators) for copies of the tables. */
tn_status tn__graph_extend(const tn_graph *given, const tn__extra *extras, uint32_t count,
                           tn_graph **extended, tn_error *error);

/* --- the graph of the operator types that recompute other operators --------------------------- */

/* A graph of the operators that are recomputed by another operator type, made so that kernels and
 * costs can be found for them. Otherwise these operators exist only in programs. */

typedef struct tn__repeats {
    tn_context context;
    tn_graph *graph; /* an inferred graph; NULL: no operator is recomputed by another type */
    /* [operators of the given graph] the operator of `graph` that recomputes it; TN_NONE: it
     * recomputes itself, or is not recomputed. NULL if `graph` is NULL */
    tn_op_id *of;
    uint32_t count;
} tn__repeats;
/* Makes the graph of the operators that are recomputed by another type. All of its operands are
 * inputs, even weights: a kernel must not expect a form of them that another kernel has packed.
 * Errors: E_NO_MEMORY, those of tn_graph_infer. Cost: O(tensors + operators). */
tn_status tn__repeats_make(const tn_context *context, const tn_graph *graph, tn__repeats *repeats,
                           tn_error *error);
void tn__repeats_release(tn__repeats *repeats); /* releases memory; accepts a struct of zeros */
/* The operator of repeats->graph that recomputes `op`; TN_NONE: `op` recomputes itself, or is not
 * recomputed. */
static inline tn_op_id tn__repeats_of(const tn__repeats *repeats, tn_op_id op) {
    return repeats->of != NULL ? repeats->of[op] : TN_NONE;
}

#endif
