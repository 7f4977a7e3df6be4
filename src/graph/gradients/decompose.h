/* decompose.h - operators that training replaces by others.
 *
 * An operator without a gradient rule may have a decomposition (tn_op_rule.decompose): plain
 * operators that compute the same outputs, each of which has a gradient rule. The training graph
 * gets these operators instead, if gradients flow through the operator. A model that is not trained
 * keeps the operator.
 *
 * Like gradient rules, a decomposition adds operators of the newest version of ONNX's domain.
 * Adding operators moves the arrays of the graph, so copy needed values first.
 */
#ifndef TN_GRAPH_DECOMPOSE_H
#define TN_GRAPH_DECOMPOSE_H

#include "graph/gradients/gradient.h"

typedef struct tn_decompose {
    tn_graph *graph;       /* the training graph, to which operators are added */
    const tn_op *op;       /* the operator to replace, with its operands and outputs in `graph` */
    const tn_graph *model; /* the model, in which all shapes are known */
    const tn_op *was;      /* the operator in the model */
    tn_op_id id;           /* number of the operator in the model */
    tn_dtype dtype;        /* element type of the operands */
    tn_error *error;
} tn_decompose;

/* Returns operand `input` of the operator as a tensor of the model; NULL: the operand is
 * omitted. */
const tn_tensor *tn__decompose_input(const tn_decompose *it, uint32_t input);
/* Returns operand `input` as a tensor of the training graph; TN_NONE: the operand is omitted. */
tn_tensor_id tn__decompose_in(const tn_decompose *it, uint32_t input);
/* Returns output `output` as a tensor of the training graph; TN_NONE: nothing reads the output. */
tn_tensor_id tn__decompose_out(const tn_decompose *it, uint32_t output);

/* Adds an operator of ONNX's domain. For an entry TN_NONE of `outputs` a new tensor is made; any
 * other entry is a tensor that exists and that the operator writes. */
tn_status tn__decompose_add(tn_decompose *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            tn_tensor_id *outputs, uint32_t output_count);
/* Add an operator with one or with two inputs, and a new tensor *y for its output. */
tn_status tn__decompose_one(tn_decompose *it, const char *type, tn_tensor_id a,
                            const tn_attr *attrs, uint32_t attr_count, tn_tensor_id *y);
tn_status tn__decompose_two(tn_decompose *it, const char *type, tn_tensor_id a, tn_tensor_id b,
                            tn_tensor_id *y);
/* Adds an Identity from `from` to output `output` of the replaced operator; does nothing if nothing
 * reads this output. */
tn_status tn__decompose_give(tn_decompose *it, uint32_t output, tn_tensor_id from);

/* Add a constant: a scalar of type `dtype`, an int64 scalar, or a list of int64. */
tn_status tn__decompose_number(tn_decompose *it, double number, tn_tensor_id *id);
tn_status tn__decompose_integer(tn_decompose *it, int64_t number, tn_tensor_id *id);
tn_status tn__decompose_list(tn_decompose *it, const int64_t *list, uint32_t count,
                             tn_tensor_id *id);

/* Add an operator that only changes shape or order: Reshape, Transpose, Split into `parts` tensors
 * along an axis, Unsqueeze. */
tn_status tn__decompose_reshape(tn_decompose *it, tn_tensor_id from, const int64_t *shape,
                                uint32_t rank, tn_tensor_id *y);
tn_status tn__decompose_transpose(tn_decompose *it, tn_tensor_id from, const int64_t *perm,
                                  uint32_t rank, tn_tensor_id *y);
tn_status tn__decompose_split(tn_decompose *it, tn_tensor_id from, int64_t axis,
                              const int64_t *sizes, uint32_t parts, tn_tensor_id *y);
tn_status tn__decompose_unsqueeze(tn_decompose *it, tn_tensor_id from, int64_t axis,
                                  tn_tensor_id *y);

/* Fails with E_UNSUPPORTED: the operator has a decomposition, but not for this combination of
 * operands or attributes. */
tn_status tn__decompose_fail(tn_decompose *it, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- functions that decompose one operator type each (decompositions.c, decompose_attention.c) */

#define TN__DECOMPOSE(name) tn_status tn__decompose_##name(tn_decompose *it)

TN__DECOMPOSE(swiglu);
TN__DECOMPOSE(simplified_layer_norm);
TN__DECOMPOSE(causal_conv);
/* operators of domain com.microsoft */
TN__DECOMPOSE(bias_gelu);
TN__DECOMPOSE(fast_gelu);
TN__DECOMPOSE(gelu);
TN__DECOMPOSE(quick_gelu);
TN__DECOMPOSE(skip_layer_norm);
TN__DECOMPOSE(skip_simplified_layer_norm);
/* defined in decompose_attention.c */
TN__DECOMPOSE(attention);
TN__DECOMPOSE(rotary);
TN__DECOMPOSE(contrib_rotary);

#endif
