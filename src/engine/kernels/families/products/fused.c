/* fused.c - matrix products and convolutions with a fused bias, summand and activations, in plain
 * loops: Conv and MatMul of domain "tenure" (src/graph/ops/domains/tenure.c), FusedConv and
 * FusedGemm of ONNX Runtime.
 *
 * They are the reference for oneDNN's kernels. They support only float32, because rewrites make no
 * other type.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/inner.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/loops/post.h"
#include "engine/kernels/loops/product.h"

/* Whether the operands are float32 and all activations are known. */
static bool fused_accepts(const tn_kernel_setup *setup) {
    tn__post post;
    if (!tn__post_read(setup->op, &post)) return false;
    const tn_tensor *y = tn__setup_output(setup, 0);
    if (y == NULL || y->dtype != TN_FLOAT32) return false;
    for (uint32_t i = 0; i < setup->op->input_count; i++) {
        const tn_tensor *input = tn__setup_input(setup, i);
        if (input != NULL && input->dtype != TN_FLOAT32) return false;
    }
    return true;
}

static void fused_finish(const tn_op *op, float *elements, uint64_t count) {
    tn__post post;
    if (tn__post_read(op, &post)) tn__post_run(&post, elements, count);
}

/* --- Conv --- */

static tn_status fused_prepare_conv(tn_kernel_setup *setup) {
    tn_op op = *setup->op;
    op.domain = "";
    op.version = 11;
    if (op.input_count > 3) op.input_count = 3;
    return tn__inner_prepare(setup, &op, tn__setup_input(setup, 3) != NULL);
}

static tn_status fused_run_conv(tn_kernel_call *call) {
    return tn__inner_run_with(call, tn__call_input(call, 3) != NULL ? 3 : TN_NONE, fused_finish);
}

/* --- MatMul --- */

typedef struct fused_side { /* An operand of a product, after its dimensions are permuted. */
    const tn_operand *operand;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX], strides[TN_RANK_MAX];
} fused_side;

static tn_status fused_read(const tn_kernel_call *call, const tn_operand *operand, const char *name,
                            bool inverse, fused_side *side) {
    uint32_t count;
    const int64_t *perm = tn__attr_ints(call->op, name, &count);
    int64_t strides[TN_RANK_MAX], stride = 1;
    if (perm != NULL && count != operand->rank)
        return tn__call_fail(call, TN_E_INVALID, "attribute %s has %u values", name, count);
    side->operand = operand;
    side->rank = operand->rank;
    for (uint32_t d = operand->rank; d-- > 0;) {
        strides[d] = stride;
        stride *= operand->shape[d];
    }
    for (uint32_t d = 0; d < operand->rank; d++) {
        int64_t at = perm != NULL ? perm[d] : (int64_t)d;
        if (at < 0 || at >= (int64_t)operand->rank)
            return tn__call_fail(call, TN_E_INVALID, "attribute %s is not a permutation", name);
        uint32_t to = inverse ? (uint32_t)at : d, from = inverse ? d : (uint32_t)at;
        side->shape[to] = operand->shape[from];
        side->strides[to] = strides[from];
    }
    return TN_OK;
}

/* Returns the offset in an operand of the matrix for matrix number `batch` of the result. Batch
 * dimensions of the operand may be broadcast. */
static int64_t fused_batch(const fused_side *side, const fused_side *y, uint64_t batch) {
    int64_t at = 0;
    for (uint32_t d = y->rank - 2; d-- > 0;) {
        int64_t index = (int64_t)(batch % (uint64_t)y->shape[d]);
        batch /= (uint64_t)y->shape[d];
        uint32_t missing = y->rank - side->rank;
        if (d >= missing && side->shape[d - missing] != 1) at += index * side->strides[d - missing];
    }
    return at;
}

static void fused_multiply(const tn_kernel_call *call, const fused_side *a, const fused_side *b,
                           const fused_side *y) {
    const float *bias =
        tn__call_input(call, 2) != NULL ? (const float *)call->inputs[2].data : NULL;
    const float *summand =
        tn__call_input(call, 3) != NULL ? (const float *)call->inputs[3].data : NULL;
    double alpha = tn__attr_float(call->op, "alpha", 1);
    bool wide = bias != NULL && tn__operand_count(&call->inputs[2]) > 1;
    const float *left = a->operand->data, *right = b->operand->data;
    float *to = y->operand->data;
    int64_t rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1];
    int64_t inner = a->shape[a->rank - 1];
    uint64_t batches = 1;
    for (uint32_t d = 0; d + 2 < y->rank; d++) batches *= (uint64_t)y->shape[d];
    for (uint64_t n = 0; n < batches; n++) {
        int64_t at_a = fused_batch(a, y, n), at_b = fused_batch(b, y, n);
        int64_t at_y = fused_batch(y, y, n);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                double sum = 0;
                for (int64_t k = 0; k < inner; k++)
                    sum +=
                        (double)
                            left[at_a + i * a->strides[a->rank - 2] + k * a->strides[a->rank - 1]] *
                        (double)
                            right[at_b + k * b->strides[b->rank - 2] + j * b->strides[b->rank - 1]];
                int64_t at = at_y + i * y->strides[y->rank - 2] + j * y->strides[y->rank - 1];
                float value = (float)(alpha * sum);
                if (bias != NULL) value += bias[wide ? j : 0];
                to[at] = summand != NULL ? value + summand[at] : value;
            }
    }
}

static tn_status fused_run_matmul(tn_kernel_call *call) {
    fused_side a, b, y;
    TN_TRY(fused_read(call, &call->inputs[0], "perm_a", false, &a));
    TN_TRY(fused_read(call, &call->inputs[1], "perm_b", false, &b));
    TN_TRY(fused_read(call, &call->outputs[0], "perm_y", true, &y));
    fused_multiply(call, &a, &b, &y);
    fused_finish(call->op, call->outputs[0].data, tn__operand_count(&call->outputs[0]));
    return TN_OK;
}

/* --- FusedConv, FusedGemm: ONNX's operator, then an activation --- */

typedef enum fused_contrib_after {
    AFTER_NONE,
    AFTER_RELU,
    AFTER_LEAKY,
    AFTER_TANH,
    AFTER_SIGMOID,
    AFTER_CLIP,
    AFTER_HARD_SIGMOID,
    AFTER_UNKNOWN
} fused_contrib_after;

static fused_contrib_after fused_contrib_after_of(const tn_op *op) {
    static const char *const names[] = {"",        "Relu", "LeakyRelu",  "Tanh",
                                        "Sigmoid", "Clip", "HardSigmoid"};
    const char *name = tn__attr_string(op, "activation", "");
    for (uint32_t i = 0; i < AFTER_UNKNOWN; i++)
        if (strcmp(name, names[i]) == 0) return (fused_contrib_after)i;
    return AFTER_UNKNOWN;
}

static void fused_finish_contrib(const tn_op *op, float *elements, uint64_t count) {
    uint32_t given;
    const double *list = tn__attr_floats(op, "activation_params", &given);
    fused_contrib_after after = fused_contrib_after_of(op);
    float alpha =
        (float)tn__attr_float(op, "activation_alpha", after == AFTER_HARD_SIGMOID ? 0.2 : 0.01);
    float beta = (float)tn__attr_float(op, "activation_beta", 0.5);
    if (list != NULL && given > 0) alpha = (float)list[0];
    if (list != NULL && given > 1) beta = (float)list[1];
    for (uint64_t i = 0; i < count; i++) {
        float x = elements[i], moved = alpha * x + beta;
        switch (after) {
        case AFTER_RELU:
            elements[i] = x > 0 ? x : 0;
            break;
        case AFTER_LEAKY:
            elements[i] = x > 0 ? x : alpha * x;
            break;
        case AFTER_TANH:
            elements[i] = tn__tanhf(x);
            break;
        case AFTER_SIGMOID:
            elements[i] = tn__logisticf(x);
            break;
        case AFTER_CLIP:
            elements[i] = x < alpha ? alpha : x > beta ? beta : x;
            break;
        case AFTER_HARD_SIGMOID:
            elements[i] = moved < 0 ? 0 : moved > 1 ? 1 : moved;
            break;
        default:
            break;
        }
    }
}

static tn_status fused_prepare_contrib(tn_kernel_setup *setup) {
    bool conv = strcmp(setup->op->type, "FusedConv") == 0;
    tn_op op = *setup->op;
    op.type = conv ? "Conv" : "Gemm";
    op.domain = "";
    op.version = 13;
    if (op.input_count > 3) op.input_count = 3;
    return tn__inner_prepare(setup, &op, tn__setup_input(setup, 3) != NULL);
}

static tn_status fused_run_contrib(tn_kernel_call *call) {
    return tn__inner_run_with(call, tn__call_input(call, 3) != NULL ? 3 : TN_NONE,
                              fused_finish_contrib);
}

static bool fused_accepts_contrib(const tn_kernel_setup *setup) {
    uint32_t given;
    bool clip = fused_contrib_after_of(setup->op) == AFTER_CLIP;
    (void)tn__attr_floats(setup->op, "activation_params", &given);
    return fused_contrib_after_of(setup->op) != AFTER_UNKNOWN && (!clip || given == 2) &&
           tn__types_agree(setup, TN__TYPE(FLOAT32), 15, 0);
}

static const tn_kernel fused_kernels[] = {
    {.domain = "tenure",
     .type = "Conv",
     .accepts = fused_accepts,
     .prepare = fused_prepare_conv,
     .run = fused_run_conv,
     .release = tn__inner_release,
     .formats = true},
    {.domain = "tenure", .type = "MatMul", .accepts = fused_accepts, .run = fused_run_matmul},
    {.domain = "com.microsoft",
     .type = "FusedConv",
     .accepts = fused_accepts_contrib,
     .prepare = fused_prepare_contrib,
     .run = fused_run_contrib,
     .release = tn__inner_release},
    {.domain = "com.microsoft",
     .type = "FusedGemm",
     .accepts = fused_accepts_contrib,
     .prepare = fused_prepare_contrib,
     .run = fused_run_contrib,
     .release = tn__inner_release},
};

TN_KERNEL_FAMILY(fused, "");
