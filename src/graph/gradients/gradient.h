/* gradient.h - the functions that gradient rules are written with.
 *
 * A rule belongs to an operator's entry (tn_op_rule.gradient). It gets the operator and the
 * gradients of its outputs, and adds operators that compute the gradients of those inputs that want
 * one. The tensors that the backward pass reads are kept: Relu's rule reads its output, Add's rule
 * reads nothing.
 *
 *     tn_status tn__gradient_relu(tn_gradient *it) { // dx = dy where y > 0
 *         return tn__gradient_own(it, "ReluGrad", TN__LIST(it->given[0], it->op.outputs[0]), NULL,
 *                                 0, &it->found[0]);
 *     }
 *
 * Every gradient has the shape and the element type of its tensor. Shapes of all tensors of the
 * model are known when rules run. Shapes of tensors that rules add are unknown until the next
 * inference; a rule derives them from the tensors that they are gradients of. Adding operators
 * moves the arrays that tn_graph_tensor and tn_graph_op point into, so copy needed values first
 * (`it->op` is a copy; its lists stay). Operators of ONNX's domain that rules add are of the newest
 * version. Operators that ONNX lacks are in domain "tenure": graph/ops/training/train.c.
 */
#ifndef TN_GRAPH_GRADIENT_H
#define TN_GRAPH_GRADIENT_H

#include "graph/op.h"

typedef struct tn_gradient {
    tn_graph *graph; /* the graph that is being extended */
    tn_op op;
    tn_op_id id;
    uint32_t version; /* version of the operator's domain; UINT32_MAX if the file gives none */
    /* [op.output_count] gradients of the outputs; TN_NONE: nothing depends on that output */
    const tn_tensor_id *given;
    const bool *wanted; /* [op.input_count] true: the input needs a gradient */
    /* [op.input_count] gradients of the inputs, which the rule sets; TN_NONE at first */
    tn_tensor_id *found;
    tn_error *error;
} tn_gradient;

/* A list of operands and its length, for the functions below. */
#define TN__LIST(...)                                                                              \
    (const tn_tensor_id[]){__VA_ARGS__},                                                           \
        (uint32_t)(sizeof((const tn_tensor_id[]){__VA_ARGS__}) / sizeof(tn_tensor_id))

/* --- reading --- */

/* whether input `input` needs a gradient; false if there is no such input */
bool tn__gradient_wants(const tn_gradient *it, uint32_t input);
/* the gradient of output `output`; TN_NONE if there is no such output, or no gradient of it */
tn_tensor_id tn__gradient_given(const tn_gradient *it, uint32_t output);
/* input `input`; TN_NONE if it is omitted */
tn_tensor_id tn__gradient_in(const tn_gradient *it, uint32_t input);
/* Returns a copy of the tensor of an input; its rank is TN_RANK_UNKNOWN if the operand is
 * omitted. */
tn_tensor tn__gradient_input(const tn_gradient *it, uint32_t input);
tn_tensor tn__gradient_output(const tn_gradient *it, uint32_t output);
/* The values of a small integer input (axes, shapes); NULL if they are unknown. */
const int64_t *tn__gradient_ints_of(const tn_gradient *it, uint32_t input, uint32_t *count);

/* --- adding --- */

/* An integer attribute that points to `value`, which must outlive it. */
#define TN__ATTR_INT(text, value)                                                                  \
    ((tn_attr){.name = text, .type = TN_ATTR_INT, .count = 1, .ints = (value)})
#define TN__ATTR_INTS(text, values, number)                                                        \
    ((tn_attr){.name = text, .type = TN_ATTR_INTS, .count = (number), .ints = (values)})
#define TN__ATTR_FLOAT(text, value)                                                                \
    ((tn_attr){.name = text, .type = TN_ATTR_FLOAT, .count = 1, .floats = (value)})
#define TN__ATTR_STRING(text, value)                                                               \
    ((tn_attr){.name = text, .type = TN_ATTR_STRING, .count = 1, .strings = (value)})

/* Adds an operator of ONNX's domain with one output of kind gradient. */
tn_status tn__gradient_op(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                          uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                          tn_tensor_id *output);
/* Adds an operator of domain "tenure" with one output of kind gradient. */
tn_status tn__gradient_own(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                           uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                           tn_tensor_id *output);
/* Adds an operator of domain "tenure" with several outputs of kind gradient. */
tn_status tn__gradient_many(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            tn_tensor_id *outputs, uint32_t output_count);

/* Adds an operator of domain "tenure" with several outputs of kind gradient. Outputs that are not
 * wanted are omitted: they become TN_NONE. */
tn_status tn__gradient_some(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            const bool *wanted, tn_tensor_id *outputs, uint32_t output_count);

/* Add small constants: a list of int64, an int64 scalar, a scalar of a floating type. */
tn_status tn__gradient_list(tn_gradient *it, const int64_t *values, uint32_t count,
                            tn_tensor_id *id);
tn_status tn__gradient_integer(tn_gradient *it, int64_t value, tn_tensor_id *id);
tn_status tn__gradient_number(tn_gradient *it, tn_dtype dtype, double value, tn_tensor_id *id);

/* Computes the gradient of input `input` from `gradient`, which has the shape of output `output`,
 * to which the input was broadcast: sums over the repetitions. Sets found[input]. */
tn_status tn__gradient_unbroadcast(tn_gradient *it, uint32_t output, uint32_t input,
                                   tn_tensor_id gradient);
/* Reshapes `gradient` to the shape of input `input`, which has the same number of elements. Sets
 * found[input]. */
tn_status tn__gradient_reshaped(tn_gradient *it, uint32_t input, tn_tensor_id gradient);
/* Adds two gradients of one tensor; either may be TN_NONE. */
tn_status tn__gradient_sum(tn_gradient *it, tn_tensor_id a, tn_tensor_id b, tn_tensor_id *sum);

/* Whether the gradient rule of LSTM, GRU and RNN supports this operator (gradient_recurrent.c). */
bool tn__gradient_recurrent_fits(const tn_gradient *it);

/* Returns E_UNSUPPORTED for an operator that has a gradient rule, if the rule does not cover this
 * case. The error's `where` names the node. */
tn_status tn__gradient_fail(tn_gradient *it, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
