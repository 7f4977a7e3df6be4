/* decompose.h - operators that training replaces by others.
 *
 * An operator without a gradient rule may have a decomposition (tn_op_rule.decompose): plain
 * operators that compute the same outputs, each of which has a gradient rule. The training graph
 * gets these operators instead, if gradients flow through the operator. A model that only runs
 * keeps the operator.
 *
 * Like gradient rules, a decomposition adds operators of the newest version of ONNX's domain.
 * Adding operators moves the arrays of the graph, so copy needed values first.
 */
#ifndef TN_GRAPH_DECOMPOSE_H
#define TN_GRAPH_DECOMPOSE_H

#include "graph/gradients/gradient.h"

typedef struct tn_decompose {
    tn_graph *graph;       /* the training graph, which is being extended */
    const tn_op *op;       /* the operator, with its operands and outputs in `graph` */
    const tn_graph *model; /* the model, in which all shapes are known */
    const tn_op *was;      /* the operator in the model */
    tn_op_id id;           /* the same */
    tn_dtype dtype;        /* element type of the operands */
    tn_error *error;
} tn_decompose;

/* An operand in the model; NULL: omitted. */
const tn_tensor *tn__decompose_input(const tn_decompose *it, uint32_t input);
/* The operand's id in the training graph; TN_NONE: omitted. */
tn_tensor_id tn__decompose_in(const tn_decompose *it, uint32_t input);
/* The output's id in the training graph; TN_NONE: nobody reads it. */
tn_tensor_id tn__decompose_out(const tn_decompose *it, uint32_t output);

/* Adds an operator of ONNX's domain. An output that is TN_NONE becomes a new tensor; another one is
 * written by the new operator. */
tn_status tn__decompose_add(tn_decompose *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            tn_tensor_id *outputs, uint32_t output_count);
/* Adds an operator with one input, and one with two inputs; `y` is a new tensor. */
tn_status tn__decompose_one(tn_decompose *it, const char *type, tn_tensor_id a,
                            const tn_attr *attrs, uint32_t attr_count, tn_tensor_id *y);
tn_status tn__decompose_two(tn_decompose *it, const char *type, tn_tensor_id a, tn_tensor_id b,
                            tn_tensor_id *y);
/* Adds an Identity that writes the operator's output `output`, if it is wanted. */
tn_status tn__decompose_give(tn_decompose *it, uint32_t output, tn_tensor_id from);

/* Constants: a scalar of type `dtype`, an int64 scalar, an int64 list. */
tn_status tn__decompose_number(tn_decompose *it, double number, tn_tensor_id *id);
tn_status tn__decompose_integer(tn_decompose *it, int64_t number, tn_tensor_id *id);
tn_status tn__decompose_list(tn_decompose *it, const int64_t *list, uint32_t count,
                             tn_tensor_id *id);

/* Views of `from`: another shape, other places of the axes, `parts` parts along an axis. */
tn_status tn__decompose_reshape(tn_decompose *it, tn_tensor_id from, const int64_t *shape,
                                uint32_t rank, tn_tensor_id *y);
tn_status tn__decompose_transpose(tn_decompose *it, tn_tensor_id from, const int64_t *perm,
                                  uint32_t rank, tn_tensor_id *y);
tn_status tn__decompose_split(tn_decompose *it, tn_tensor_id from, int64_t axis,
                              const int64_t *sizes, uint32_t parts, tn_tensor_id *y);
tn_status tn__decompose_unsqueeze(tn_decompose *it, tn_tensor_id from, int64_t axis,
                                  tn_tensor_id *y);

/* E_UNSUPPORTED: there is a decomposition, but not for this form of the operator. */
tn_status tn__decompose_fail(tn_decompose *it, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- the decompositions (decompositions.c, decompose_attention.c) --- */

#define TN__DECOMPOSE(name) tn_status tn__decompose_##name(tn_decompose *it)

TN__DECOMPOSE(swiglu);
TN__DECOMPOSE(simplified_layer_norm);
TN__DECOMPOSE(causal_conv);
/* of domain com.microsoft */
TN__DECOMPOSE(bias_gelu);
TN__DECOMPOSE(fast_gelu);
TN__DECOMPOSE(gelu);
TN__DECOMPOSE(quick_gelu);
TN__DECOMPOSE(skip_layer_norm);
TN__DECOMPOSE(skip_simplified_layer_norm);
/* decompose_attention.c */
TN__DECOMPOSE(attention);
TN__DECOMPOSE(rotary);
TN__DECOMPOSE(contrib_rotary);

#endif
