/* experts.h - makes a graph in which experts of mixtures are rows of a cache
 * (graph/expert_rows.h). */
#ifndef TN_REWRITE_EXPERTS_H
#define TN_REWRITE_EXPERTS_H

#include "graph/expert_rows.h"

/* All mixtures of a graph with experts that can be rows. */
typedef struct tn__experts {
    uint32_t operators;
    uint32_t rows;      /* number of experts of all these operators */
    uint32_t most;      /* largest number of experts of one operator */
    uint32_t chosen;    /* largest number of experts that a token uses in one operator */
    uint64_t row_bytes; /* bytes of the largest row */
    uint64_t bytes;     /* bytes of all rows */
} tn__experts;

/* Finds the mixtures. `operators` 0: no mixture was found. Errors: E_NO_MEMORY. */
tn_status tn__experts_find(const tn_graph *graph, const tn_context *context, tn__experts *experts,
                           tn_error *error);

/* Makes a graph in which these mixtures read their experts into one cache of `slots` rows, which
 * needs `cache_bytes` bytes. All other operators stay, and tensors keep their names and payloads.
 * If the scores of a mixture's router are computed from the mixture's input and constants, the
 * same operators are added before the previous mixture, with that one's input: they guess the next
 * choice early enough to read it ahead. Errors: E_NO_MEMORY, those of tn_graph_infer. */
tn_status tn__experts_graph(const tn_graph *graph, uint32_t slots, uint64_t cache_bytes,
                            const tn_context *context, tn_graph **made, tn_error *error);

#endif
