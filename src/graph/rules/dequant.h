/* dequant.h - finds weights that are stored in fewer bits than they are computed with, and that a
 * DequantizeLinear of constants expands. */
#ifndef TN_GRAPH_DEQUANT_H
#define TN_GRAPH_DEQUANT_H

#include <tenure/graph.h>

#include "base/base.h"

/* How the result of a DequantizeLinear of constants is stored. */
typedef enum tn__dequant {
    TN__DEQUANT_NOT, /* the tensor is not the result of a DequantizeLinear of constants */
    /* the run time reads the stored weights while it multiplies, so there is no expanded copy */
    TN__DEQUANT_FUSED,
    /* the run time keeps the expanded weights, and perhaps the stored ones, too */
    TN__DEQUANT_APART
} tn__dequant;

/* Bytes and numbers of the weights in a graph that a DequantizeLinear expands. */
typedef struct tn__dequant_sums {
    uint64_t stored;       /* bytes in the file, with scales and zero points */
    uint64_t expanded;     /* bytes of the expanded results */
    uint32_t fused, apart; /* number of results that are fused, and of those that are expanded */
} tn__dequant_sums;

/* Fills how[tensor count] for an inferred graph. Rules of ONNX Runtime 1.30. Weights are read as
 * they are stored when one operator reads them, as its input 1, and that operator becomes
 *
 *     MatMulNBits  if it is a MatMul or a plain Gemm, and the weights are a matrix of 2, 4 or 8
 *                  bits with scales in blocks of a power of two, 16 or more, along axis 0, or with
 *                  one scale for each column
 *     QLinear..    if it is a MatMul, a Gemm, or a Conv with a quantised result, and the weights
 *                  have 8 bits, and its data is dequantised as well
 *
 * Cost: O(operators + operands). */
void tn__graph_dequant(const tn_graph *graph, uint8_t *how);
/* Sums the bytes over the weights that tn__graph_dequant has found. */
tn__dequant_sums tn__graph_dequant_sums(const tn_graph *graph, const uint8_t *how);

#endif
