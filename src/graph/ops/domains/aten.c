/* aten.c - PyTorch's own operators, as torch.fx writes them: "relu_.default", "view.default".
 *
 * Such graphs state every shape, so no rule infers shapes; the rules decide which tensors share
 * memory. Views are aliases by definition, and so is an operator with a name that ends in an
 * underscore before the overload: it changes its first input and returns it. A view that holds all
 * elements lies at offset 0 of its source. The place of any other view depends on strides that are
 * not in the graph, so the view keeps its whole source alive. Source: PyTorch's
 * native_functions.yaml (which operators alias), torch.fx naming.
 */
#include "graph/rules/fold.h"
#include "graph/rules/window.h"

static tn_status aten_shape(tn_infer *infer) {
    (void)infer; /* nothing is inferred, because the file states the shapes */
    return TN_OK;
}

static tn_view aten_view(tn_infer *infer, uint32_t output) {
    tn_tensor_id source = tn__input_count(infer) > 0 ? infer->op->inputs[0] : TN_NONE;
    const tn_tensor *from = tn__input(infer, 0), *to = tn__output(infer, output);
    if (source == TN_NONE || to == NULL) return tn__no_view;
    bool all = from->bytes == to->bytes && from->bytes != TN_SIZE_UNKNOWN;
    return (tn_view){.source = source, .must = true, .whole = !all};
}

static tn_view aten_view_first(tn_infer *infer, uint32_t output) {
    return output == 0 ? aten_view(infer, 0) : tn__no_view;
}

static uint64_t aten_flops_mm(tn_infer *infer) { /* operations of mm(a, b) and bmm(a, b) */
    const tn_tensor *a = tn__input(infer, 0);
    if (!tn__shape_known(a) || a->rank == 0) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(tn__output(infer, 0)),
                         tn__mul_sat(2, (uint64_t)a->shape[a->rank - 1]));
}

static uint64_t aten_flops_addmm(tn_infer *infer) { /* operations of addmm(bias, a, b) */
    const tn_tensor *a = tn__input(infer, 1);
    if (!tn__shape_known(a) || a->rank == 0) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(tn__output(infer, 0)),
                         tn__mul_sat(2, (uint64_t)a->shape[a->rank - 1]) + 1);
}

static uint64_t aten_flops_convolution(tn_infer *infer) {
    const tn_tensor *w = tn__input(infer, 1), *y = tn__output(infer, 0);
    uint64_t taps = tn__elements(w), positions = tn__elements(y);
    if (!tn__shape_known(y) || y->rank < 2 || y->shape[1] <= 0 || taps == TN_SIZE_UNKNOWN)
        return TN_SIZE_UNKNOWN;
    return tn__mul_sat(2 * (positions / (uint64_t)y->shape[1]), taps);
}

static uint64_t aten_flops_unknown(tn_infer *infer) {
    (void)infer;
    return TN_SIZE_UNKNOWN;
}

/* clang-format off */
#define ATEN(name) .type = #name, .inputs_min = 0, .inputs_max = UINT32_MAX, \
    .outputs_max = UINT32_MAX, .shape = aten_shape
#define ATEN_VIEW(name) ATEN(name), .view = aten_view
#define ATEN_EACH(name, over) ATEN(name), .flops_per = 1, .inplace = over
static const tn_op_rule aten_rules[] = {
    {ATEN_VIEW(_conj)},
    {ATEN_VIEW(_neg_view)},
    {ATEN_VIEW(_reshape_alias)},
    {ATEN_EACH(_softmax, 1)},
    {ATEN_EACH(_softmax_backward_data, 3)},
    {ATEN_VIEW(_unsafe_view)},
    {ATEN_EACH(abs, 1)},
    {ATEN_EACH(add, 3)},
    {ATEN(addmm), .flops = aten_flops_addmm, .flags = TN_RULE_MATMUL_LIKE},
    {ATEN_VIEW(adjoint)},
    {ATEN_VIEW(alias)},
    {ATEN_VIEW(align_to)},
    {ATEN_VIEW(as_strided)},
    {ATEN(bmm), .flops = aten_flops_mm, .flags = TN_RULE_MATMUL_LIKE},
    {ATEN_VIEW(broadcast_to)},
    {ATEN(cat), .flags = TN_RULE_JOINS, .flops = aten_flops_unknown},
    {ATEN_VIEW(chunk)},
    {ATEN_VIEW(conj)},
    {ATEN(convolution), .flops = aten_flops_convolution, .flags = TN_RULE_CONV_LIKE},
    {ATEN_VIEW(detach)},
    {ATEN_VIEW(diagonal)},
    {ATEN_EACH(div, 3)},
    {ATEN_VIEW(dsplit)},
    {ATEN_EACH(exp, 1)},
    {ATEN_VIEW(expand)},
    {ATEN_VIEW(expand_as)},
    {ATEN_EACH(gelu, 1)},
    {ATEN_EACH(gelu_backward, 3)},
    {ATEN_EACH(hardtanh_backward, 3)},
    {ATEN_VIEW(hsplit)},
    {ATEN_VIEW(imag)},
    {ATEN_VIEW(lift_fresh)},
    {ATEN_VIEW(linalg_diagonal)},
    {ATEN_VIEW(mH)},
    {ATEN_VIEW(mT)},
    {ATEN_VIEW(matrix_H)},
    {ATEN(mm), .flops = aten_flops_mm, .flags = TN_RULE_MATMUL_LIKE},
    {ATEN_VIEW(moveaxis)},
    {ATEN_VIEW(movedim)},
    {ATEN_EACH(mul, 3)},
    {ATEN_VIEW(narrow)},
    {ATEN_EACH(neg, 1)},
    {ATEN_VIEW(numpy_T)},
    {ATEN_VIEW(permute)},
    {ATEN_VIEW(positive)},
    {ATEN_VIEW(real)},
    {ATEN_EACH(relu, 1)},
    {ATEN_EACH(rsqrt, 1)},
    {ATEN_VIEW(select)},
    {ATEN_EACH(sigmoid, 1)},
    {ATEN_EACH(sigmoid_backward, 3)},
    {ATEN_VIEW(slice)},
    {ATEN_VIEW(split)},
    {ATEN_VIEW(split_with_sizes)},
    {ATEN_EACH(sqrt, 1)},
    {ATEN_VIEW(squeeze)},
    {ATEN_EACH(sub, 3)},
    {ATEN_VIEW(swapaxes)},
    {ATEN_VIEW(swapdims)},
    {ATEN_VIEW(t)},
    {ATEN_EACH(tanh, 1)},
    {ATEN_EACH(tanh_backward, 3)},
    {ATEN_VIEW(tensor_split)},
    {ATEN_EACH(threshold_backward, 3)},
    {ATEN_VIEW(transpose)},
    {ATEN_VIEW(unbind)},
    {ATEN_VIEW(unflatten)},
    {ATEN_VIEW(unfold)},
    {ATEN_VIEW(unsqueeze)},
    {ATEN_VIEW(view)},
    {ATEN_VIEW(view_as)},
    {ATEN_VIEW(view_as_complex)},
    {ATEN_VIEW(view_as_real)},
    {ATEN_VIEW(vsplit)},
};
/* clang-format on */

static const tn_op_rule aten_changing = {
    .type = "*_",
    .inputs_max = UINT32_MAX,
    .outputs_max = UINT32_MAX,
    .shape = aten_shape,
    .flops_per = 1,
    .view = aten_view_first,
    .flags = TN_RULE_CHANGES,
};

static const tn_op_rule aten_other = {
    .type = "*",
    .inputs_max = UINT32_MAX,
    .outputs_max = UINT32_MAX,
    .shape = aten_shape,
    .flops = aten_flops_unknown,
    .flags = TN_RULE_RANDOM, /* the operator is not known to be pure, so it is never folded */
};

/* Whether the name is that of an in-place operator: `relu_` writes into its input, and so does
 * `__iand__`, but not `__and__`. */
static bool aten_changes(const char *type, size_t length) {
    if (length < 2 || type[length - 1] != '_') return false;
    return type[length - 2] != '_' || (length > 5 && strncmp(type, "__i", 3) == 0);
}

/* Finds the rule of a type such as "add.Tensor": that of all in-place operators for an in-place
 * type, otherwise the entry for the type without its overload, or else the rule of all other
 * operators. */
static const tn_op_rule *aten_match(const char *type) {
    size_t length = strcspn(type, ".");
    if (aten_changes(type, length)) return &aten_changing;
    for (size_t low = 0, high = sizeof aten_rules / sizeof *aten_rules; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(type, aten_rules[middle].type, length);
        if (order == 0) order = aten_rules[middle].type[length] == '\0' ? 0 : -1;
        if (order == 0) return &aten_rules[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return &aten_other;
}

const tn_op_family tn__ops_aten = {
    .name = "aten",
    .domain = "aten",
    .rules = aten_rules,
    .rule_count = sizeof aten_rules / sizeof *aten_rules,
    .match = aten_match,
};
