/* bias_gelu.c - GELU of x + row, and its gradient, in one pass: the sum is never a tensor. The
 * result has the same bits as Add, Gelu and GeluGrad in plain loops.
 *
 * oneDNN has the forward one (dnnl/fused.c), and no gradient of a sum without the sum. In place: an
 * element is read before its place is written.
 */
#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"
#include "engine/kernels/gelu.h"

typedef struct bias_rows {
    uint64_t rows, width;
    const float *dy, *x, *row; /* dy NULL: forward */
    float *to;
    bool by_tanh;
} bias_rows;

#define BIAS_LOOPS(name, value, slope)                                                             \
    TN_WIDE static void bias_##name(uint64_t width, const float *x, const float *row, float *to) { \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < width; i++) to[i] = value(x[i] + row[i]);                         \
    }                                                                                              \
    TN_WIDE static void bias_##name##_grad(uint64_t width, const float *dy, const float *x,        \
                                           const float *row, float *to) {                          \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < width; i++) to[i] = dy[i] * slope(x[i] + row[i]);                 \
    }
BIAS_LOOPS(erf, tn__geluf, tn__gelu_slopef)
BIAS_LOOPS(tanh, tn__gelu_tanhf, tn__gelu_tanh_slopef)

static tn_status bias_read(tn_kernel_call *call, uint32_t at, bias_rows *job) {
    const tn_operand *x = &call->inputs[at], *row = &call->inputs[at + 1];
    if (x->rank == 0) return tn__call_fail(call, TN_E_INVALID, "an input without dimensions");
    *job = (bias_rows){.width = (uint64_t)x->shape[x->rank - 1],
                       .x = x->data,
                       .row = row->data,
                       .to = call->outputs[0].data};
    TN_TRY(tn__check_count(call, at + 1, job->width));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    job->rows = tn__operand_span(x, 0, x->rank - 1);
    job->by_tanh = strcmp(tn__attr_string(call->op, "approximate", "none"), "tanh") == 0;
    return TN_OK;
}

static tn_status bias_run(tn_kernel_call *call) {
    bias_rows job;
    TN_TRY(bias_read(call, 0, &job));
    for (uint64_t r = 0, at = 0; r < job.rows; r++, at += job.width)
        (job.by_tanh ? bias_tanh : bias_erf)(job.width, job.x + at, job.row, job.to + at);
    return TN_OK;
}

static tn_status bias_run_grad(tn_kernel_call *call) {
    bias_rows job;
    TN_TRY(bias_read(call, 1, &job));
    TN_TRY(tn__check_shape(call, 0, call->inputs[1].rank, call->inputs[1].shape));
    job.dy = call->inputs[0].data;
    for (uint64_t r = 0, at = 0; r < job.rows; r++, at += job.width)
        (job.by_tanh ? bias_tanh_grad : bias_erf_grad)(job.width, job.dy + at, job.x + at, job.row,
                                                       job.to + at);
    return TN_OK;
}

static bool bias_accepts(const tn_kernel_setup *setup) {
    uint64_t all = setup->op->input_count == 3 ? 7 : 3;
    return tn__types_agree(setup, TN__TYPE(FLOAT32), all, 0);
}

static const tn_kernel bias_gelu_kernels[] = {
    {.type = "BiasGelu", .accepts = bias_accepts, .run = bias_run},
    {.type = "BiasGeluGrad", .accepts = bias_accepts, .run = bias_run_grad},
};

TN_KERNEL_FAMILY(bias_gelu, "tenure");
