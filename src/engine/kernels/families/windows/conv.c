/* conv.c - convolutions in plain loops: Conv, ConvTranspose, ConvInteger, QLinearConv, and the
 * gradient of the weights. (The gradient of the input is a transposed convolution.)
 *
 * The convolutions are computed directly, without a rearranged copy of the input, so most need no
 * scratch memory. The loops are in conv_loops.h, the geometry in slide.h. A transposed convolution
 * also computes each output from all its inputs, so that every output is written once. 16-bit
 * floats are summed in float32, 8-bit integers in int32.
 * Source: the ONNX specifications of these operators, opsets 1 to 17.
 */
#include "engine/kernels/loops/quantise.h"
#include "engine/kernels/loops/slide.h"

typedef struct conv_job {
    const tn_kernel_call *call;
    tn__slide slide;
    /* `channels`, `filters`: input and output channels of one group */
    uint64_t batch, groups, channels, filters;
    uint64_t filter_step, channel_step, group_step; /* strides of the weights, in elements */
    const void *input, *weights;
    const tn_operand *bias; /* the bias, a value for each filter; NULL: no bias */
    tn_operand *output;
    /* the fields from here on are for 8-bit operands */
    tn__byte_coding of_input, of_weights;
    int32_t input_zero;
    /* zero points and scales of the weights; NULL: all zero points are 0, or there is no scale */
    const tn_operand *weights_zero, *weights_scale;
    float input_scale, output_scale;
    int32_t output_zero;
} conv_job;

/* A part of the output of one image that is computed together: a part of one line, for a few
 * filters. */
typedef struct conv_tile {
    /* index of the first element of the image's channels in the input, of the tile's weights, and
     * of the tile in the output */
    uint64_t input, weights, output;
    /* `filter`: first filter, counted over all groups; `filters`: number of filters */
    uint64_t filter, filters;
    uint64_t line, first, count;
} conv_tile;

/* --- conversion of sums to elements of the output, with bias or quantisation --- */

static void conv_float_store(const conv_job *job, uint64_t filter, uint64_t at, uint64_t count,
                             const float *sums) {
    float *to = (float *)job->output->data + at;
    float bias = job->bias != NULL ? ((const float *)job->bias->data)[filter] : 0;
    for (uint64_t i = 0; i < count; i++) to[i] = sums[i] + bias;
}

static void conv_double_store(const conv_job *job, uint64_t filter, uint64_t at, uint64_t count,
                              const double *sums) {
    double *to = (double *)job->output->data + at;
    double bias = job->bias != NULL ? ((const double *)job->bias->data)[filter] : 0;
    for (uint64_t i = 0; i < count; i++) to[i] = sums[i] + bias;
}

static void conv_half_store(const conv_job *job, uint64_t filter, uint64_t at, uint64_t count,
                            const float *sums) {
    double bias = job->bias != NULL ? tn__operand_float(job->bias, filter) : 0;
    for (uint64_t i = 0; i < count; i++) tn__real_set(job->output, at + i, (double)sums[i] + bias);
}

static uint64_t conv_which(const tn_operand *operand, uint64_t filter) {
    return tn__operand_count(operand) == 1 ? 0 : filter;
}

static uint32_t conv_byte_shift(const conv_job *job, uint64_t filter) {
    const tn_operand *zero = job->weights_zero;
    return zero != NULL ? (uint32_t)tn__operand_int(zero, conv_which(zero, filter)) : 0;
}

static void conv_byte_store(const conv_job *job, uint64_t filter, uint64_t at, uint64_t count,
                            const uint32_t *sums) {
    if (job->weights_scale == NULL) {
        memcpy((uint32_t *)job->output->data + at, sums, count * sizeof *sums);
        return;
    }
    uint32_t bias = job->bias != NULL ? ((const uint32_t *)job->bias->data)[filter] : 0;
    float scale =
        (float)tn__operand_float(job->weights_scale, conv_which(job->weights_scale, filter));
    float factor = job->input_scale * scale / job->output_scale;
    for (uint64_t i = 0; i < count; i++)
        ((uint8_t *)job->output->data)[at + i] = tn__quantise_byte(
            (float)(int32_t)(sums[i] + bias) * factor, job->output_zero, job->output->dtype);
}

/* --- loops --- */

#define CONV_SAME(job, value) (value)
#define CONV_NOTHING(job, filter) 0

#define CONV(name) conv_float_##name
#define CONV_TYPE float
#define CONV_SUM float
#define CONV_DIRECT true
#define CONV_READ CONV_SAME
#define CONV_WEIGHT CONV_SAME
#define CONV_SHIFT CONV_NOTHING
#define CONV_STORE conv_float_store
#include "engine/kernels/families/windows/conv_loops.h"

#define CONV(name) conv_double_##name
#define CONV_TYPE double
#define CONV_SUM double
#define CONV_DIRECT true
#define CONV_READ CONV_SAME
#define CONV_WEIGHT CONV_SAME
#define CONV_SHIFT CONV_NOTHING
#define CONV_STORE conv_double_store
#include "engine/kernels/families/windows/conv_loops.h"

#define CONV_HALF(job, value) tn__half_to_float(value)
#define CONV(name) conv_half_##name
#define CONV_TYPE uint16_t
#define CONV_SUM float
#define CONV_DIRECT false
#define CONV_READ CONV_HALF
#define CONV_WEIGHT CONV_HALF
#define CONV_SHIFT CONV_NOTHING
#define CONV_STORE conv_half_store
#include "engine/kernels/families/windows/conv_loops.h"

#define CONV_BFLOAT(job, value) tn__bfloat_to_float(value)
#define CONV(name) conv_bfloat_##name
#define CONV_TYPE uint16_t
#define CONV_SUM float
#define CONV_DIRECT false
#define CONV_READ CONV_BFLOAT
#define CONV_WEIGHT CONV_BFLOAT
#define CONV_SHIFT CONV_NOTHING
#define CONV_STORE conv_half_store
#include "engine/kernels/families/windows/conv_loops.h"

/* elements are read as unsigned, because sums may wrap around */
#define CONV_READ_BYTE(job, value)                                                                 \
    (uint32_t)(tn__byte_read((job)->of_input, value) - (job)->input_zero)
#define CONV_WEIGHT_BYTE(job, value) (uint32_t) tn__byte_read((job)->of_weights, value)
#define CONV(name) conv_byte_##name
#define CONV_TYPE uint8_t
#define CONV_SUM uint32_t
#define CONV_DIRECT false
#define CONV_READ CONV_READ_BYTE
#define CONV_WEIGHT CONV_WEIGHT_BYTE
#define CONV_SHIFT conv_byte_shift
#define CONV_STORE conv_byte_store
#include "engine/kernels/families/windows/conv_loops.h"

static void conv_tile_run(const conv_job *job, tn_dtype dtype, const conv_tile *tile) {
    switch (dtype) {
    case TN_FLOAT32:
        conv_float_tile(job, tile);
        break;
    case TN_FLOAT64:
        conv_double_tile(job, tile);
        break;
    case TN_FLOAT16:
        conv_half_tile(job, tile);
        break;
    case TN_BFLOAT16:
        conv_bfloat_tile(job, tile);
        break;
    default:
        conv_byte_tile(job, tile);
    }
}

#define CONV_AT_ONCE 8u /* number of filters of a tile, which are computed together */

/* Computes all lines of the output for a few filters of one image. */
static void conv_filters_run(const conv_job *job, tn_dtype dtype, conv_tile tile) {
    uint64_t width = (uint64_t)job->slide.output[job->slide.spatial - 1], output = tile.output;
    for (tile.line = 0; tile.line < job->slide.lines; tile.line++)
        for (tile.first = 0; tile.first < width; tile.first += TN__SLIDE_TILE) {
            tile.count = width - tile.first < TN__SLIDE_TILE ? width - tile.first : TN__SLIDE_TILE;
            tile.output = output + tile.line * width + tile.first;
            conv_tile_run(job, dtype, &tile);
        }
}

static void conv_job_run(conv_job *job, tn_dtype dtype) {
    if (!job->slide.transposed && tn__slide_is_flat(&job->slide))
        /* all output rows are treated as one long line instead of many short ones */
        tn__slide_flat(&job->slide, job->slide.output_area);
    for (uint64_t n = 0; n < job->batch; n++)
        for (uint64_t g = 0; g < job->groups; g++)
            for (uint64_t f = 0; f < job->filters; f += CONV_AT_ONCE) {
                uint64_t filter = g * job->filters + f;
                conv_tile tile = {
                    .input = (n * job->groups + g) * job->channels * job->slide.input_area,
                    .weights = g * job->group_step + f * job->filter_step,
                    .output = (n * job->groups * job->filters + filter) * job->slide.output_area,
                    .filter = filter,
                    .filters = job->filters - f < CONV_AT_ONCE ? job->filters - f : CONV_AT_ONCE};
                conv_filters_run(job, dtype, tile);
            }
}

/* --- reading the operands of a convolution --- */

static tn_status conv_read(tn_kernel_call *call, uint32_t weights, uint32_t bias, bool transposed,
                           conv_job *job) {
    const tn_operand *x = &call->inputs[0], *w = &call->inputs[weights];
    tn_operand *y = &call->outputs[0];
    int64_t group = tn__attr_int(call->op, "group", 1);
    if (x->rank < 3 || w->rank != x->rank || y->rank != x->rank)
        return tn__call_fail(call, TN_E_INVALID, "an input of rank %u for weights of rank %u",
                             x->rank, w->rank);
    *job = (conv_job){.call = call, .input = x->data, .weights = w->data, .output = y};
    TN_TRY(tn__slide_read(call, x, w->shape + 2, y, transposed, &job->slide));
    /* the first two extents of the weights: filters, channels; transposed: channels, filters */
    int64_t outer = w->shape[0], inner = w->shape[1];
    int64_t channels = x->shape[1], filters = y->shape[1];
    if (group < 1 || outer % group != 0 || (transposed ? channels : filters) != outer ||
        (transposed ? filters : channels) / group != inner ||
        (transposed ? filters : channels) % group != 0 || y->shape[0] != x->shape[0])
        return tn__call_fail(call, TN_E_INVALID,
                             "%lld channels and %lld filters for weights of %lld by %lld in %lld "
                             "groups",
                             (long long)channels, (long long)filters, (long long)outer,
                             (long long)inner, (long long)group);
    job->batch = (uint64_t)x->shape[0];
    job->groups = (uint64_t)group;
    job->channels = (uint64_t)(channels / group);
    job->filters = (uint64_t)(filters / group);
    job->filter_step = job->slide.taps * (transposed ? 1 : job->channels);
    job->channel_step = job->slide.taps * (transposed ? job->filters : 1);
    job->group_step = job->slide.taps * job->channels * job->filters;
    job->bias = tn__call_input(call, bias);
    return tn__check_count(call, bias, (uint64_t)filters);
}

static bool conv_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 7, 0);
}

static tn_status conv_run(tn_kernel_call *call) {
    conv_job job;
    TN_TRY(conv_read(call, 1, 2, false, &job));
    conv_job_run(&job, call->inputs[0].dtype);
    return TN_OK;
}

static tn_status conv_run_transpose(tn_kernel_call *call) {
    conv_job job;
    TN_TRY(conv_read(call, 1, 2, true, &job));
    conv_job_run(&job, call->inputs[0].dtype);
    return TN_OK;
}

/* --- bytes --- */

/* Checks that an input has one element, or one element per filter. */
static tn_status conv_check_each(const conv_job *job, uint32_t index) {
    const tn_operand *operand = tn__call_input(job->call, index);
    if (operand == NULL || tn__operand_count(operand) == 1) return TN_OK;
    return tn__check_count(job->call, index, job->groups * job->filters);
}

static tn_status conv_bytes(tn_kernel_call *call, uint32_t weights, uint32_t input_zero,
                            uint32_t weights_zero, conv_job *job) {
    const tn_operand *zero = tn__call_input(call, input_zero);
    job->of_input = tn__bytes_of(call->inputs[0].dtype);
    job->of_weights = tn__bytes_of(call->inputs[weights].dtype);
    job->weights_zero = tn__call_input(call, weights_zero);
    TN_TRY(tn__check_count(call, input_zero, 1));
    TN_TRY(conv_check_each(job, weights_zero));
    job->input_zero = zero != NULL ? (int32_t)tn__operand_int(zero, 0) : 0;
    return TN_OK;
}

static bool conv_accepts_integer(const tn_kernel_setup *setup) {
    return tn__output_is(setup, 0, TN__TYPE(INT32)) && tn__input_is(setup, 0, TN__TYPES_BYTE) &&
           tn__input_is(setup, 1, TN__TYPES_BYTE) && tn__input_may_be(setup, 2, TN__TYPES_BYTE) &&
           tn__input_may_be(setup, 3, TN__TYPES_BYTE);
}

static tn_status conv_run_integer(tn_kernel_call *call) {
    conv_job job;
    TN_TRY(conv_read(call, 1, UINT32_MAX, false, &job));
    TN_TRY(conv_bytes(call, 1, 2, 3, &job));
    conv_job_run(&job, TN_UINT8);
    return TN_OK;
}

static bool conv_accepts_qlinear(const tn_kernel_setup *setup) {
    /* inputs: data, scale and zero point of x and of w; scale and zero point of y */
    for (uint32_t i = 0; i < 8; i++) {
        bool scale = i == 1 || i == 4 || i == 6;
        if (!tn__input_is(setup, i, scale ? TN__TYPES_REAL : TN__TYPES_BYTE)) return false;
    }
    return tn__input_may_be(setup, 8, TN__TYPE(INT32)) && tn__output_is(setup, 0, TN__TYPES_BYTE);
}

static tn_status conv_run_qlinear(tn_kernel_call *call) {
    const uint32_t single[] = {1, 6, 7};
    conv_job job;
    TN_TRY(conv_read(call, 3, 8, false, &job));
    TN_TRY(conv_bytes(call, 3, 2, 5, &job));
    TN_TRY(conv_check_each(&job, 4));
    for (uint32_t i = 0; i < 3; i++) TN_TRY(tn__check_count(call, single[i], 1));
    job.weights_scale = &call->inputs[4];
    job.input_scale = (float)tn__operand_float(&call->inputs[1], 0);
    job.output_scale = (float)tn__operand_float(&call->inputs[6], 0);
    job.output_zero = (int32_t)tn__operand_int(&call->inputs[7], 0);
    conv_job_run(&job, TN_UINT8);
    return TN_OK;
}

/* --- the gradient of the weights ---
 *
 * The gradient of one weight is the inner product of the output's gradient and the inputs with
 * which the weight was multiplied. It is summed line by line in double precision.
 */

typedef struct conv_weights {
    const tn_operand *dy, *x;
    tn_operand *dw;
    tn__slide slide;
    /* `channels`, `filters`: input and output channels of one group */
    uint64_t batch, groups, channels, filters;
    double *sums; /* [taps] gradients of the weights that connect one channel with one filter */
} conv_weights;

static double conv_grad_dot(const tn_operand *a, uint64_t at_a, uint64_t step_a,
                            const tn_operand *b, uint64_t at_b, uint64_t step_b, uint64_t count) {
    double sum = 0, x[TN__SLIDE_TILE], y[TN__SLIDE_TILE];
    if (a->dtype == TN_FLOAT32 && b->dtype == TN_FLOAT32 && step_a == 1) {
        const float *p = (const float *)a->data + at_a, *q = (const float *)b->data + at_b;
        for (uint64_t i = 0; i < count; i++) sum += (double)p[i] * (double)q[i * step_b];
        return sum;
    }
    tn__real_load(a, at_a, step_a, count, x);
    tn__real_load(b, at_b, step_b, count, y);
    for (uint64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* Adds the contributions of one image to the gradients of the weights that connect one channel with
 * one filter. */
static void conv_grad_plane(const conv_weights *job, uint64_t dy, uint64_t x) {
    const tn__slide *slide = &job->slide;
    uint64_t width = (uint64_t)slide->output[slide->spatial - 1];
    uint64_t taps = (uint64_t)slide->kernel[slide->spatial - 1];
    tn__slide_rows rows;
    for (uint64_t line = 0; line < slide->lines; line++) {
        uint64_t next = 0;
        while (tn__slide_find(slide, line, &next, &rows))
            for (uint64_t first = 0; first < width; first += TN__SLIDE_TILE)
                for (uint64_t tap = 0; tap < taps; tap++) {
                    uint64_t count =
                        width - first < TN__SLIDE_TILE ? width - first : TN__SLIDE_TILE;
                    tn__slide_run run = tn__slide_meet(slide, tap, first, count);
                    for (uint32_t r = 0; r < rows.count && run.count > 0; r++)
                        job->sums[rows.tap[r] + tap] += conv_grad_dot(
                            job->dy, dy + line * width + first + run.target, run.target_step,
                            job->x, x + rows.source[r] + run.source, run.source_step, run.count);
                }
    }
}

static tn_status conv_run_weights(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0], *x = &call->inputs[1];
    tn_operand *dw = &call->outputs[0];
    int64_t group = tn__attr_int(call->op, "group", 1);
    conv_weights job = {.dy = dy, .x = x, .dw = dw, .sums = call->workspace};
    if (dw->rank < 3 || dy->rank != dw->rank || x->rank != dw->rank)
        return tn__call_fail(call, TN_E_INVALID, "operands of rank %u and %u for weights of %u",
                             dy->rank, x->rank, dw->rank);
    TN_TRY(tn__slide_read(call, x, dw->shape + 2, dy, false, &job.slide));
    if (group < 1 || dw->shape[0] != dy->shape[1] || dw->shape[1] != x->shape[1] / group ||
        x->shape[1] % group != 0 || dy->shape[1] % group != 0 || x->shape[0] != dy->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "channels or groups do not agree");
    TN_TRY(tn__check_scratch(call, job.slide.taps * sizeof *job.sums));
    uint64_t filters = (uint64_t)dy->shape[1], channels = (uint64_t)dw->shape[1];
    uint64_t each = filters / (uint64_t)group;
    for (uint64_t f = 0; f < filters; f++)
        for (uint64_t c = 0; c < channels; c++) {
            for (uint64_t t = 0; t < job.slide.taps; t++) job.sums[t] = 0;
            for (uint64_t n = 0; n < (uint64_t)x->shape[0]; n++)
                conv_grad_plane(&job, (n * filters + f) * job.slide.output_area,
                                (n * (uint64_t)x->shape[1] + f / each * channels + c) *
                                    job.slide.input_area);
            tn__real_store(dw, (f * channels + c) * job.slide.taps, job.slide.taps, job.sums);
        }
    return TN_OK;
}

static uint64_t conv_workspace_weights(const tn_kernel_setup *setup) {
    const tn_tensor *dw = tn__setup_output(setup, 0);
    uint64_t taps = 1;
    for (uint32_t d = 2; d < dw->rank; d++) taps = tn__mul_sat(taps, (uint64_t)dw->shape[d]);
    return tn__mul_sat(taps, sizeof(double));
}

static bool conv_accepts_weights(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

static const tn_kernel conv_kernels[] = {
    {.type = "Conv", .accepts = conv_accepts, .run = conv_run},
    {.type = "ConvInteger", .accepts = conv_accepts_integer, .run = conv_run_integer},
    {.type = "ConvTranspose", .accepts = conv_accepts, .run = conv_run_transpose},
    {.type = "QLinearConv", .accepts = conv_accepts_qlinear, .run = conv_run_qlinear},
    {.domain = "tenure",
     .type = "ConvGradWeights",
     .accepts = conv_accepts_weights,
     .workspace = conv_workspace_weights,
     .run = conv_run_weights},
};

TN_KERNEL_FAMILY(conv, "");
