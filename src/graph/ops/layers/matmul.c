/* matmul.c - products of matrices: MatMul and its quantised variants, Gemm, Einsum, Det.
 *
 * Source: operator texts of ONNX, opsets 1 to 22; numpy.matmul for the shapes.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

/* Checks that the left operand has as many columns as the right one has rows. There is no check if
 * one of the two tensors has upper bounds as extents: then this is only known in a run. */
static tn_status matmul_inner(tn_infer *infer, const tn_tensor *a, int64_t columns,
                              const tn_tensor *b, int64_t rows) {
    bool loose = (a->flags | b->flags) & TN_TENSOR_BOUND;
    if (columns == TN_DIM_UNKNOWN || rows == TN_DIM_UNKNOWN || columns == rows || loose)
        return TN_OK;
    return tn__infer_fail(infer, "'%.60s' has %lld columns and '%.60s' %lld rows", a->name,
                          (long long)columns, b->name, (long long)rows);
}

tn_status tn__shape_product(tn_infer *infer, const tn_tensor *a, const tn_tensor *b,
                            tn_dtype dtype) {
    if (!tn__rank_known(a) || !tn__rank_known(b)) return tn__set_dtype(infer, 0, dtype);
    if (a->rank == 0 || b->rank == 0)
        return tn__infer_fail(infer, "'%.60s' is a scalar", a->rank == 0 ? a->name : b->name);
    /* a vector on the left is taken as a row, a vector on the right as a column; the added
     * dimension of 1 is removed from the result */
    TN_TRY(
        matmul_inner(infer, a, a->shape[a->rank - 1], b, b->shape[b->rank == 1 ? 0 : b->rank - 2]));
    tn_tensor batch_a = *a, batch_b = *b;
    const tn_tensor *batches[2] = {&batch_a, &batch_b};
    int64_t shape[TN_RANK_MAX];
    uint32_t rank;
    bool known;
    batch_a.rank = a->rank > 2 ? a->rank - 2 : 0;
    batch_b.rank = b->rank > 2 ? b->rank - 2 : 0;
    TN_TRY(tn__broadcast(infer, batches, 2, shape, &rank, &known));
    if (!known || rank + 2 > TN_RANK_MAX) return tn__set_dtype(infer, 0, dtype);
    if (a->rank > 1) shape[rank++] = a->shape[a->rank - 2];
    if (b->rank > 1) shape[rank++] = b->shape[b->rank - 1];
    return tn__set_output(infer, 0, dtype, rank, shape);
}

tn_status tn__shape_matmul(tn_infer *infer, uint32_t left, uint32_t right, tn_dtype dtype) {
    return tn__shape_product(infer, tn__input(infer, left), tn__input(infer, right), dtype);
}

static tn_status matmul_shape(tn_infer *infer) {
    return tn__shape_matmul(infer, 0, 1, tn__input(infer, 0)->dtype);
}
static tn_status matmul_shape_integer(tn_infer *infer) {
    return tn__shape_matmul(infer, 0, 1, TN_INT32);
}
static tn_status matmul_shape_qlinear(tn_infer *infer) {
    const tn_tensor *zero = tn__input(infer, 7);
    return tn__shape_matmul(infer, 0, 3, zero != NULL ? zero->dtype : TN_UNDEFINED);
}

static uint64_t matmul_flops(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    if (!tn__shape_known(a) || a->rank == 0) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(tn__output(infer, 0)),
                         tn__mul_sat(2, (uint64_t)a->shape[a->rank - 1]));
}

/* --- Gemm --- */

static tn_status matmul_shape_gemm(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    bool flip_a = tn__attr_int(infer->op, "transA", 0) != 0,
         flip_b = tn__attr_int(infer->op, "transB", 0) != 0;
    if (!tn__rank_known(a) || !tn__rank_known(b)) return tn__set_dtype(infer, 0, a->dtype);
    if (a->rank != 2 || b->rank != 2)
        return tn__infer_fail(infer, "'%.60s' and '%.60s' must be matrices, not of rank %u and %u",
                              a->name, b->name, a->rank, b->rank);
    TN_TRY(matmul_inner(infer, a, a->shape[flip_a ? 0 : 1], b, b->shape[flip_b ? 1 : 0]));
    int64_t shape[2] = {a->shape[flip_a ? 1 : 0], b->shape[flip_b ? 0 : 1]};
    return tn__set_output(infer, 0, a->dtype, 2, shape);
}

static uint64_t matmul_flops_gemm(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    if (!tn__shape_known(a) || a->rank != 2) return TN_SIZE_UNKNOWN;
    int64_t inner = a->shape[tn__attr_int(infer->op, "transA", 0) != 0 ? 0 : 1];
    return tn__count_mul(tn__elements(tn__output(infer, 0)), tn__mul_sat(2, (uint64_t)inner) + 1);
}

static uint64_t matmul_inplace_gemm(tn_infer *infer, uint32_t output) {
    (void)output; /* the product may overwrite C, unless C is broadcast */
    const tn_tensor *c = tn__input(infer, 2);
    return c != NULL ? 1u << 2 : 0;
}

/* --- Einsum --- */

#define EINSUM_LABELS 52u /* the letters a to z and A to Z */

typedef struct einsum_state {
    int64_t extent[EINSUM_LABELS];
    uint32_t uses[EINSUM_LABELS];
    /* extents that the ellipsis stands for, after broadcasting, last dimension first */
    int64_t dots[TN_RANK_MAX];
    uint32_t dot_count;
} einsum_state;

static int einsum_label(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return -1;
}

static bool einsum_meet(int64_t *have, int64_t extent) {
    if (*have == TN_DIM_UNKNOWN || *have == 1) *have = extent == TN_DIM_UNKNOWN ? *have : extent;
    return extent == TN_DIM_UNKNOWN || extent == 1 || *have == extent;
}

/* Matches the term of one operand with the dimensions of its tensor: labels are matched from both
 * ends, and the ellipsis stands for the dimensions between. */
static tn_status einsum_term(tn_infer *infer, einsum_state *state, const char *term, size_t length,
                             const tn_tensor *tensor) {
    uint32_t labels = 0, at = 0;
    bool dots = false;
    for (size_t i = 0; i < length; i++) {
        if (term[i] == '.') dots = true;
        labels += einsum_label(term[i]) >= 0;
    }
    if (labels > tensor->rank || (!dots && labels != tensor->rank))
        return tn__infer_fail(infer, "the term '%.*s' does not fit '%.60s' of rank %u", (int)length,
                              term, tensor->name, tensor->rank);
    uint32_t wide = tensor->rank - labels;
    for (size_t i = 0; i < length; i++) {
        int label = einsum_label(term[i]);
        bool good = true;
        if (label >= 0) {
            state->uses[label]++;
            good = einsum_meet(&state->extent[label], tensor->shape[at++]);
        } else if (term[i] == '.' && (i == 0 || term[i - 1] != '.')) {
            for (uint32_t k = 0; k < wide; k++)
                good = good && einsum_meet(&state->dots[wide - 1 - k], tensor->shape[at + k]);
            at += wide;
            if (wide > state->dot_count) state->dot_count = wide;
        }
        if (!good)
            return tn__infer_fail(infer, "extents of a label contradict each other at '%.60s'",
                                  tensor->name);
    }
    return TN_OK;
}

static void einsum_put_dots(const einsum_state *state, int64_t *shape, uint32_t *rank) {
    for (uint32_t k = state->dot_count; k-- > 0 && *rank < TN_RANK_MAX;)
        shape[(*rank)++] = state->dots[k];
}

static tn_status matmul_shape_einsum(tn_infer *infer) {
    const char *equation = tn__attr_string(infer->op, "equation", "");
    const char *arrow = strstr(equation, "->"), *at = equation;
    const char *end = arrow != NULL ? arrow : equation + strlen(equation);
    tn_dtype dtype = tn__input(infer, 0)->dtype;
    einsum_state *state = tn__scratch(infer, 1, sizeof *state);
    if (state == NULL) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < EINSUM_LABELS; i++) state->extent[i] = 1;
    for (uint32_t i = 0; i < TN_RANK_MAX; i++) state->dots[i] = 1;
    for (uint32_t i = 0; i < tn__input_count(infer); i++) {
        const tn_tensor *tensor = tn__input(infer, i);
        const char *comma = at <= end ? memchr(at, ',', (size_t)(end - at)) : NULL;
        size_t length = at <= end ? (size_t)((comma != NULL ? comma : end) - at) : 0;
        if (at > end) return tn__infer_fail(infer, "the equation has fewer terms than inputs");
        if (!tn__shape_known(tensor)) return tn__set_dtype(infer, 0, dtype);
        TN_TRY(einsum_term(infer, state, at, length, tensor));
        at += length + 1;
    }
    int64_t shape[TN_RANK_MAX];
    uint32_t rank = 0;
    for (const char *c = arrow != NULL ? arrow + 2 : ""; *c != '\0' && rank < TN_RANK_MAX; c++) {
        if (*c == '.' && c[-1] != '.') einsum_put_dots(state, shape, &rank);
        if (einsum_label(*c) >= 0 && rank < TN_RANK_MAX)
            shape[rank++] = state->extent[einsum_label(*c)];
    }
    /* for an equation without an output term: the ellipsis, then all labels that occur once, in
     * alphabetical order */
    if (arrow == NULL) {
        einsum_put_dots(state, shape, &rank);
        for (uint32_t i = 0; i < EINSUM_LABELS && rank < TN_RANK_MAX; i++)
            if (state->uses[i] == 1) shape[rank++] = state->extent[i];
    }
    return tn__set_output(infer, 0, dtype, rank, shape);
}

static tn_status matmul_shape_det(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 2) return tn__infer_fail(infer, "'%.60s' is not a matrix", x->name);
    return tn__set_output(infer, 0, x->dtype, x->rank - 2, x->shape);
}

/* clang-format off */
#define MATMUL(name, least, most, rule, cost) .type = #name, .inputs_min = least, \
    .inputs_max = most, .outputs_max = 1, .shape = rule, .flops = cost
static const tn_op_rule matmul_rules[] = {
    {MATMUL(Det, 1, 1, matmul_shape_det, NULL), .flops_per = 1},
    {MATMUL(Einsum, 1, UINT32_MAX, matmul_shape_einsum, NULL), .flops_per = 2,
     .gradient = tn__gradient_einsum, .flags = TN_RULE_MATMUL_LIKE},
    {MATMUL(Gemm, 2, 3, matmul_shape_gemm, matmul_flops_gemm), .weights = 2 | 4,
     .flags = TN_RULE_MATMUL, .inplace_of = matmul_inplace_gemm, .split = tn__split_gemm,
     .sums = tn__sums_gemm,
     .gradient = tn__gradient_gemm},
    {MATMUL(MatMul, 2, 2, matmul_shape, matmul_flops), .weights = 2, .flags = TN_RULE_MATMUL,
     .split = tn__split_matmul, .sums = tn__sums_matmul, .gradient = tn__gradient_matmul},
    {MATMUL(MatMulInteger, 2, 4, matmul_shape_integer, matmul_flops), .flags = TN_RULE_MATMUL_LIKE},
    {MATMUL(QLinearMatMul, 8, 8, matmul_shape_qlinear, matmul_flops), .flags = TN_RULE_MATMUL_LIKE},
};
/* clang-format on */

TN_OP_FAMILY(matmul, "");
