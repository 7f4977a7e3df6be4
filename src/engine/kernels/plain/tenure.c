/* tenure.c - the operators of domain "tenure" (src/graph/ops/tenure.c) in plain loops: the
 * reference for oneDNN's kernels. Only float32, because rewrites make no other type. */
#include <math.h>

#include "engine/kernels/box.h"
#include "engine/kernels/inner.h"
#include "engine/kernels/post.h"

/* float32, and activations that are known. */
static bool tenure_accepts(const tn_kernel_setup *setup) {
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

static void tenure_finish(const tn_op *op, float *elements, uint64_t count) {
    tn__post post;
    if (tn__post_read(op, &post)) tn__post_run(&post, elements, count);
}

/* --- Conv --- */

static tn_status tenure_prepare_conv(tn_kernel_setup *setup) {
    tn_op op = *setup->op;
    op.domain = "";
    op.version = 11;
    if (op.input_count > 3) op.input_count = 3;
    return tn__inner_prepare(setup, &op, tn__setup_input(setup, 3) != NULL);
}

static tn_status tenure_run_conv(tn_kernel_call *call) {
    return tn__inner_run_with(call, tn__call_input(call, 3) != NULL ? 3 : TN_NONE, tenure_finish);
}

/* --- MatMul --- */

typedef struct tenure_side { /* an operand as the product sees it */
    const tn_operand *operand;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX], strides[TN_RANK_MAX];
} tenure_side;

static tn_status tenure_read(const tn_kernel_call *call, const tn_operand *operand,
                             const char *name, bool inverse, tenure_side *side) {
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

/* Where batch number `batch` of the result begins in an operand, which may repeat. */
static int64_t tenure_batch(const tenure_side *side, const tenure_side *y, uint64_t batch) {
    int64_t at = 0;
    for (uint32_t d = y->rank - 2; d-- > 0;) {
        int64_t index = (int64_t)(batch % (uint64_t)y->shape[d]);
        batch /= (uint64_t)y->shape[d];
        uint32_t missing = y->rank - side->rank;
        if (d >= missing && side->shape[d - missing] != 1) at += index * side->strides[d - missing];
    }
    return at;
}

static void tenure_multiply(const tn_kernel_call *call, const tenure_side *a, const tenure_side *b,
                            const tenure_side *y) {
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
        int64_t at_a = tenure_batch(a, y, n), at_b = tenure_batch(b, y, n);
        int64_t at_y = tenure_batch(y, y, n);
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

static tn_status tenure_run_matmul(tn_kernel_call *call) {
    tenure_side a, b, y;
    TN_TRY(tenure_read(call, &call->inputs[0], "perm_a", false, &a));
    TN_TRY(tenure_read(call, &call->inputs[1], "perm_b", false, &b));
    TN_TRY(tenure_read(call, &call->outputs[0], "perm_y", true, &y));
    tenure_multiply(call, &a, &b, &y);
    tenure_finish(call->op, call->outputs[0].data, tn__operand_count(&call->outputs[0]));
    return TN_OK;
}

/* --- Part --- */

static tn_status tenure_run_part(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint32_t count, others;
    const int64_t *axes = tn__attr_ints(call->op, "axes", &count);
    const int64_t *starts = tn__attr_ints(call->op, "starts", &others);
    const char *first = from->data;
    tn__walk box;
    (void)tn__box_of(&box, to->shape, to, from, 0);
    if (tn__walk_is_empty(&box)) return TN_OK;
    for (uint32_t i = 0; i < count && i < others; i++) {
        uint32_t place = tn__box_of(&box, to->shape, to, from, (uint32_t)axes[i]);
        first += starts[i] * box.stride[1][place];
    }
    return tn__box_copy(call, &box, tn__width(from->dtype), to->data, first);
}

/* --- Reorder, Swish --- */

static tn_status tenure_run_reorder(tn_kernel_call *call) {
    tn_operand *to = &call->outputs[0];
    const tn_operand *from = &call->inputs[0];
    bool last = to->format.order == TN_ORDER_NHWC;
    if (to->data == from->data) return TN_OK; /* the same bytes, by definition */
    if (last == (from->format.order == TN_ORDER_NHWC))
        tn__operand_copy(to, from);
    else
        tn__inner_reorder(from, to->data, last);
    return TN_OK;
}

static bool tenure_accepts_reorder(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    return x != NULL && tn_dtype_bits(x->dtype) % 8 == 0 && x->format.block == 0;
}

static tn_status tenure_run_swish(tn_kernel_call *call) {
    tn_operand *to = &call->outputs[0];
    const float *from = call->inputs[0].data;
    uint64_t count = tn__operand_count(to);
    for (uint64_t i = 0; i < count; i++) ((float *)to->data)[i] = from[i] / (1 + expf(-from[i]));
    return TN_OK;
}

static const tn_kernel tenure_kernels[] = {
    {.type = "Conv",
     .accepts = tenure_accepts,
     .prepare = tenure_prepare_conv,
     .run = tenure_run_conv,
     .release = tn__inner_release,
     .formats = true},
    {.type = "MatMul", .accepts = tenure_accepts, .run = tenure_run_matmul},
    {.type = "Part", .accepts = tn__accepts_one_format, .run = tenure_run_part, .formats = true},
    {.type = "Reorder",
     .accepts = tenure_accepts_reorder,
     .run = tenure_run_reorder,
     .formats = true},
    {.type = "Swish", .accepts = tenure_accepts, .run = tenure_run_swish, .formats = true},
};

TN_KERNEL_FAMILY(tenure, "tenure");
