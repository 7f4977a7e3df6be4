/* train_each.c - the operators that compute gradients element by element, one for each row of
 * graph/gradients/unary_gradients.def.
 *
 * The result has the shape of the operands and may overwrite either one, because each element is
 * read before its place is written.
 */
#include "graph/rules/fold.h"

static tn_status train_each_shape(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 1));
}

#define X(Type, rule, reads, cost)                                                                 \
    {.type = #Type "Grad",                                                                         \
     .inputs_min = 2,                                                                              \
     .inputs_max = 2,                                                                              \
     .outputs_max = 1,                                                                             \
     .shape = train_each_shape,                                                                    \
     .flops_per = cost,                                                                            \
     .inplace = 3},
static const tn_op_rule train_each_rules[] = {
#include "graph/gradients/unary_gradients.def"
};
#undef X

TN_OP_FAMILY(train_each, "tenure");
