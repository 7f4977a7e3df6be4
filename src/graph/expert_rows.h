/* expert_rows.h - the experts of a mixture as rows of a cache.
 *
 * The operators MoE and QMoE of domain "com.microsoft" have the weights of all their experts as
 * operands with one entry for each expert. The row of an expert is its entry of each operand, one
 * after the other. Operator MoE of domain "tenure" computes the same results, but the weights stay
 * in their file (TN_TENSOR_IN_FILE), and rows are read into a cache (TN_TENSOR_ROW_CACHE) when the
 * router chooses them. rewrite/experts.c makes a graph with such operators.
 */
#ifndef TN_GRAPH_EXPERTS_H
#define TN_GRAPH_EXPERTS_H

#include "base/base.h"
#include "graph/op.h"

enum { /* inputs of operator MoE of domain "tenure" */
       TN__EXPERTS_X,
       TN__EXPERTS_ROUTER,
       /* the first of the operands with one entry for each expert; their numbers are those of the
        * original operator */
       TN__EXPERTS_FIRST_PART,
       TN__EXPERTS_CACHE = 8,
       /* the scores of the next mixture's router for this mixture's input; may be omitted */
       TN__EXPERTS_GUESS,
       TN__EXPERTS_INPUTS
};
#define TN__EXPERTS_ALIGNMENT 64u /* alignment of each part of a row */

/* The parts of a row: for each input of the operator, the offset of its entry in a row and the
 * bytes of the entry. 0 bytes: the input has no entries for experts. */
typedef struct tn__expert_row {
    uint64_t at[TN__EXPERTS_CACHE], size[TN__EXPERTS_CACHE];
    uint64_t bytes; /* of a row, with all alignment */
    uint32_t experts;
} tn__expert_row;

/* Whether an operator is a mixture with experts that can be rows, or is MoE of domain "tenure"
 * already; *row then has the parts of its rows. Its sizes must be known. */
bool tn__expert_row_of(const tn_graph *graph, const tn_op *op, tn__expert_row *row);

static inline bool tn__op_has_rows(const tn_op *op) { return tn__op_is(op, "tenure.MoE"); }

#endif
