/* gradient.h - the functions that gradient rules are written with.
 *
 * A rule belongs to an operator's entry (tn_op_rule.gradient). It gets the operator and the
 * gradients of its outputs, and adds operators that compute the gradients of those inputs that want
 * one. The tensors that the backward pass reads are kept: Relu's rule reads its output, Add's rule
 * reads nothing.
 *
 *     static tn_status unary_gradient_relu(tn_gradient *it) { // dx = dy where y > 0
 *         return tn__gradient_own(it, "ReluGrad", TN__LIST(it->given[0], it->op.outputs[0]), NULL,
 * 0, &it->found[0]);
 *     }
 *
 * Promises: a gradient has the shape and the element type of its tensor. Shapes of all tensors of
 * the model are known when rules run. Shapes of tensors that rules add are unknown until the next
 * inference; a rule derives them from the tensors that they are gradients of. Adding operators
 * moves the arrays that tn_graph_tensor and tn_graph_op point into, so copy needed values first
 * (`it->op` is a copy; its lists stay). Operators of ONNX's domain that rules add are of the newest
 * version. Operators that ONNX lacks are in domain "tenure": ops/train.c.
 */
#ifndef TN_GRAPH_GRADIENT_H
#define TN_GRAPH_GRADIENT_H

#include "graph/op.h"

typedef struct tn_gradient {
    tn_graph *graph; /* being extended */
    tn_op op;
    tn_op_id id;
    uint32_t version;          /* version of the operator's domain; UINT32_MAX: not given */
    const tn_tensor_id *given; /* [op.output_count] gradients; TN_NONE: nothing depends on it */
    const bool *wanted;        /* [op.input_count] */
    tn_tensor_id *found;       /* [op.input_count], TN_NONE at first: for the rule to fill */
    tn_error *error;
} tn_gradient;

/* A list of operands and its length, for the functions below. */
#define TN__LIST(...)                                                                              \
    (const tn_tensor_id[]){__VA_ARGS__},                                                           \
        (uint32_t)(sizeof((const tn_tensor_id[]){__VA_ARGS__}) / sizeof(tn_tensor_id))

/* --- reading --- */

bool tn__gradient_wants(const tn_gradient *it, uint32_t input); /* false beyond the inputs, too */
tn_tensor_id tn__gradient_given(const tn_gradient *it, uint32_t output); /* TN_NONE beyond them */
tn_tensor_id tn__gradient_in(const tn_gradient *it, uint32_t input);     /* TN_NONE: omitted */
/* By value; rank TN_RANK_UNKNOWN where the operand is omitted. */
tn_tensor tn__gradient_input(const tn_gradient *it, uint32_t input);
tn_tensor tn__gradient_output(const tn_gradient *it, uint32_t output);
/* The contents of a small integer input (axes, shapes), or NULL. */
const int64_t *tn__gradient_ints_of(const tn_gradient *it, uint32_t input, uint32_t *count);

/* --- adding --- */

/* An attribute that borrows `value`. */
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
/* The same in domain "tenure". */
tn_status tn__gradient_own(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                           uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                           tn_tensor_id *output);
/* The same with several outputs, of kind gradient. */
tn_status tn__gradient_many(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            tn_tensor_id *outputs, uint32_t output_count);

/* The same without those outputs that are not wanted: TN_NONE. */
tn_status tn__gradient_some(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            const bool *wanted, tn_tensor_id *outputs, uint32_t output_count);

/* Small constants: a list of int64, an int64 scalar, a scalar of a floating type. */
tn_status tn__gradient_list(tn_gradient *it, const int64_t *values, uint32_t count,
                            tn_tensor_id *id);
tn_status tn__gradient_integer(tn_gradient *it, int64_t value, tn_tensor_id *id);
tn_status tn__gradient_number(tn_gradient *it, tn_dtype dtype, double value, tn_tensor_id *id);

/* The gradient of input `input`, from `gradient` of the shape of output `output`, to which the
 * input was broadcast: sums over the repetitions. Sets found[input]. */
tn_status tn__gradient_unbroadcast(tn_gradient *it, uint32_t output, uint32_t input,
                                   tn_tensor_id gradient);
/* `gradient` in the shape of input `input`, which has as many elements. Sets found[input]. */
tn_status tn__gradient_reshaped(tn_gradient *it, uint32_t input, tn_tensor_id gradient);
/* The sum of two gradients of one tensor; either may be TN_NONE. */
tn_status tn__gradient_sum(tn_gradient *it, tn_tensor_id a, tn_tensor_id b, tn_tensor_id *sum);

/* Whether the rule of LSTM, GRU and RNN takes this one (gradient_recurrent.c). */
bool tn__gradient_recurrent_fits(const tn_gradient *it);

/* E_UNSUPPORTED: there is a rule, but not for this case. `where` names the node. */
tn_status tn__gradient_fail(tn_gradient *it, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
