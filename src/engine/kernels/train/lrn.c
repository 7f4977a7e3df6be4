/* lrn.c - the gradient of LRN, which divides each element by a function of its neighbours among the
 * channels: y = x s^-beta with s = bias + alpha / size * (sum of squares in the window).
 *
 *     dx_i = dy_i s_i^-beta - 2 alpha beta / size * x_i * sum of dy_c x_c s_c^(-beta - 1)
 *
 * over the channels c in whose window i lies. The sums s are computed again, for a tile of places
 * at a time, so nothing is kept but the input. Scratch: two numbers per channel and place of a
 * tile.
 * Cost: O(elements x size).
 */
#include <math.h>

#include "engine/kernels/check.h"

typedef struct lrn_job {
    const tn_operand *dy, *x;
    tn_operand *dx;
    double alpha, beta, bias; /* alpha: over the size */
    uint64_t channels, area, before, after;
    double *sums, *parts; /* [channels][TN__REAL_TILE] */
} lrn_job;

/* Sums of the windows, and the contribution of each output to its window. */
static void lrn_measure(const lrn_job *job, uint64_t first, uint64_t count) {
    double x[TN__REAL_TILE], dy[TN__REAL_TILE];
    for (uint64_t i = 0; i < job->channels * TN__REAL_TILE; i++) job->sums[i] = job->bias;
    for (uint64_t c = 0; c < job->channels; c++) {
        /* first channel with c in its window */
        uint64_t from = c > job->after ? c - job->after : 0;
        uint64_t to = job->channels - c > job->before ? c + job->before + 1 : job->channels;
        tn__real_load(job->x, first + c * job->area, 1, count, x);
        for (uint64_t o = from; o < to; o++)
            for (uint64_t k = 0; k < count; k++)
                job->sums[o * TN__REAL_TILE + k] += job->alpha * x[k] * x[k];
    }
    for (uint64_t c = 0; c < job->channels; c++) {
        tn__real_load(job->x, first + c * job->area, 1, count, x);
        tn__real_load(job->dy, first + c * job->area, 1, count, dy);
        for (uint64_t k = 0; k < count; k++)
            job->parts[c * TN__REAL_TILE + k] =
                dy[k] * x[k] * pow(job->sums[c * TN__REAL_TILE + k], -job->beta - 1);
    }
}

static void lrn_tile(const lrn_job *job, uint64_t first, uint64_t count) {
    double x[TN__REAL_TILE], dy[TN__REAL_TILE];
    lrn_measure(job, first, count);
    for (uint64_t c = 0; c < job->channels; c++) {
        uint64_t from = c > job->after ? c - job->after : 0;
        uint64_t to = job->channels - c > job->before ? c + job->before + 1 : job->channels;
        double back[TN__REAL_TILE] = {0};
        for (uint64_t o = from; o < to; o++)
            for (uint64_t k = 0; k < count; k++) back[k] += job->parts[o * TN__REAL_TILE + k];
        tn__real_load(job->x, first + c * job->area, 1, count, x);
        tn__real_load(job->dy, first + c * job->area, 1, count, dy);
        for (uint64_t k = 0; k < count; k++)
            dy[k] = dy[k] * pow(job->sums[c * TN__REAL_TILE + k], -job->beta) -
                    2 * job->alpha * job->beta * x[k] * back[k];
        tn__real_store(job->dx, first + c * job->area, count, dy);
    }
}

static tn_status lrn_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[1];
    int64_t size = tn__attr_int(call->op, "size", 0);
    if (x->rank < 2 || size < 1)
        return tn__call_fail(call, TN_E_INVALID, "attribute size or the rank is out of range");
    TN_TRY(tn__check_shape(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    lrn_job job = {.dy = &call->inputs[0],
                   .x = x,
                   .dx = &call->outputs[0],
                   .alpha = tn__attr_float(call->op, "alpha", (double)1e-4f) / (double)size,
                   .beta = tn__attr_float(call->op, "beta", 0.75),
                   .bias = tn__attr_float(call->op, "bias", 1),
                   .channels = (uint64_t)x->shape[1],
                   .area = tn__operand_span(x, 2, x->rank),
                   .before = (uint64_t)(size - 1) / 2,
                   .sums = call->workspace};
    job.after = (uint64_t)size - 1 - job.before;
    job.parts = job.sums + job.channels * TN__REAL_TILE;
    TN_TRY(tn__check_scratch(
        call, tn__mul_sat(job.channels, 2 * TN__REAL_TILE * (uint64_t)sizeof(double))));
    for (uint64_t n = 0; n < (uint64_t)x->shape[0]; n++)
        for (uint64_t i = 0; i < job.area; i += TN__REAL_TILE)
            lrn_tile(&job, n * job.channels * job.area + i,
                     job.area - i < TN__REAL_TILE ? job.area - i : TN__REAL_TILE);
    return TN_OK;
}

static bool lrn_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

static uint64_t lrn_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 1);
    if (x->rank < 2 || x->shape[1] < 0) return 0;
    return tn__mul_sat((uint64_t)x->shape[1], 2 * TN__REAL_TILE * (uint64_t)sizeof(double));
}

static const tn_kernel train_lrn_kernels[] = {
    {.type = "LRNGrad", .accepts = lrn_accepts, .workspace = lrn_workspace, .run = lrn_run},
};

TN_KERNEL_FAMILY(train_lrn, "tenure");
