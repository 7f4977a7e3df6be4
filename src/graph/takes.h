/* takes.h - the time of an operator on a machine that is described by two rates: the one rule.
 *
 * Arithmetic and traffic overlap, so that the longer of the two is what an operator takes (a
 * roofline). It knows neither of caches nor of what a kernel reaches of the rates: right for
 * comparing plans, not for telling seconds.
 * Source: Williams, Waterman, Patterson, "Roofline" (2009).
 */
#ifndef TN_GRAPH_TAKES_H
#define TN_GRAPH_TAKES_H

#include <tenure/graph.h>

typedef struct tn__machine {
    double operations, bytes; /* in a unit of time */
} tn__machine;

/* A machine that nobody has measured. Of plans that are compared the ratio alone decides. */
#define TN__PLAIN_RATIO 8u /* operations while a byte moves */
#define TN__PLAIN_BYTES_PER_S 10e9
#define TN__PLAIN_STORAGE_PER_S 1e9 /* bytes of a file */
#define TN__PLAIN_MACHINE                                                                          \
    (tn__machine) {                                                                                \
        TN__PLAIN_RATIO *TN__PLAIN_BYTES_PER_S, TN__PLAIN_BYTES_PER_S                              \
    } /* of a second */

/* Whether anybody has to run the operator: not what is folded, nor where all outputs are views of
 * what it reads, nor one with blocks, beside the operators in them. */
bool tn__op_runs(const tn_graph *graph, tn_op_id op);
/* Units of time; of what nobody runs 0. Where no rule knows the arithmetic: the traffic; where the
 * traffic is not known (`known` false): the arithmetic. NULL: nobody asks. Cost: O(operands). */
double tn__op_takes(const tn_graph *graph, tn_op_id op, const tn__machine *machine, bool *known);

#endif
