/* loss.c - losses and their gradients, for training steps and for ONNX's operators.
 *
 * Sums are in double precision for every type. The largest score is subtracted first, so no
 * exponential overflows.
 * Source: the ONNX specifications, opsets 1 to 17.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/operands.h"

/* --- NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss ---
 *
 * A mean counts only samples that are not ignored, with their weights.
 */

typedef struct loss_job {
    /* scores, labels and class weights; `weight` NULL: all weights are 1 */
    const tn_operand *x, *target, *weight;
    uint64_t classes, inner; /* `inner`: product of the extents after the classes */
    bool softmax; /* whether x has scores; otherwise it has logarithms of probabilities */
    bool ignores;
    int64_t ignored;
} loss_job;

/* Returns the logarithm of the sum of the exponentials of a sample's scores. */
static double loss_total(const loss_job *job, uint64_t first) {
    double most = -INFINITY, sum = 0;
    if (!job->softmax) return 0;
    for (uint64_t c = 0; c < job->classes; c++) {
        double value = tn__real_get(job->x, first + c * job->inner);
        if (value > most || isnan(value)) most = value;
    }
    for (uint64_t c = 0; c < job->classes; c++)
        sum += exp(tn__real_get(job->x, first + c * job->inner) - most);
    return most + log(sum);
}

static tn_status loss_onnx_read(tn_kernel_call *call, bool softmax, loss_job *job) {
    const tn_operand *x = &call->inputs[0], *target = &call->inputs[1];
    if (x->rank < 2 || target->rank != x->rank - 1)
        return tn__call_fail(call, TN_E_INVALID, "an input of rank %u, targets of rank %u", x->rank,
                             target->rank);
    for (uint32_t d = 0; d < target->rank; d++)
        if (target->shape[d] != x->shape[d == 0 ? 0 : d + 1])
            return tn__call_fail(call, TN_E_INVALID, "dimension %u of the targets is %lld", d,
                                 (long long)target->shape[d]);
    *job = (loss_job){.x = x,
                      .target = target,
                      .weight = tn__call_input(call, 2),
                      .classes = (uint64_t)x->shape[1],
                      .inner = tn__operand_span(x, 2, x->rank),
                      .softmax = softmax,
                      .ignores = tn__attr(call->op, "ignore_index") != NULL,
                      .ignored = tn__attr_int(call->op, "ignore_index", 0)};
    TN_TRY(tn__check_result(call, 1, x->rank, x->shape));
    return tn__check_count(call, 2, job->classes);
}

static tn_status loss_onnx_run(tn_kernel_call *call, bool softmax) {
    const char *reduction = tn__attr_string(call->op, "reduction", "mean");
    tn_operand *y = tn__call_output(call, 0), *logarithms = tn__call_output(call, 1);
    bool none = strcmp(reduction, "none") == 0, mean = strcmp(reduction, "mean") == 0;
    double sum = 0, weights = 0;
    loss_job job = {0};
    TN_TRY(loss_onnx_read(call, softmax, &job));
    if (!none && !mean && strcmp(reduction, "sum") != 0)
        return tn__call_fail(call, TN_E_INVALID, "the reduction '%.40s' is unknown", reduction);
    TN_TRY(tn__check_result(call, 0, none ? job.target->rank : 0, job.target->shape));
    uint64_t count = tn__operand_count(job.target);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t first = i / job.inner * job.classes * job.inner + i % job.inner;
        int64_t class = tn__operand_int(job.target, i);
        double total = loss_total(&job, first), loss = 0;
        for (uint64_t c = 0; c < job.classes && logarithms != NULL; c++)
            tn__real_set(logarithms, first + c * job.inner,
                         tn__real_get(job.x, first + c * job.inner) - total);
        if (!job.ignores || class != job.ignored) {
            if (class < 0 || (uint64_t) class >= job.classes)
                return tn__call_fail(call, TN_E_INVALID, "target %lld of %llu classes",
                                     (long long)class, (unsigned long long)job.classes);
            double weight = job.weight != NULL ? tn__real_get(job.weight, (uint64_t) class) : 1;
            loss = (total - tn__real_get(job.x, first + (uint64_t) class * job.inner)) * weight;
            weights += weight;
        }
        sum += loss;
        if (none && y != NULL) tn__real_set(y, i, loss);
    }
    if (!none && y != NULL) tn__real_set(y, 0, mean ? sum / weights : sum);
    return TN_OK;
}

static tn_status loss_run_likelihood(tn_kernel_call *call) { return loss_onnx_run(call, false); }
static tn_status loss_run_softmax(tn_kernel_call *call) { return loss_onnx_run(call, true); }

static bool loss_onnx_accepts(const tn_kernel_setup *setup) {
    tn_dtype dtype = tn__input_type(setup, 0);
    uint64_t same = dtype < TN_DTYPE_COUNT ? UINT64_C(1) << dtype : 0;
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 1, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 2, same) && tn__output_may_be(setup, 0, same) &&
           tn__output_may_be(setup, 1, same);
}

/* --- CrossEntropy: the mean over samples of log(sum of exp(scores)) - score of the label ---
 *
 * `correct` counts the samples in which the label has the highest score; among equal scores the
 * first one counts, as in argmax. The gradient is (softmax - 1 at the label) / samples. It may
 * overwrite the scores, because a sample is read before it is written.
 */

/* The scores of a sample: `classes` elements that are `step` elements apart. */
typedef struct loss_sample {
    uint64_t first, step, classes;
    int64_t label;
} loss_sample;

typedef struct loss_shape {
    uint64_t samples, classes, inner;
} loss_shape;

static tn_status loss_read(const tn_kernel_call *call, loss_shape *frame) {
    const tn_operand *x = &call->inputs[0];
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 1), x->rank, &axis));
    frame->classes = (uint64_t)x->shape[axis];
    frame->inner = tn__operand_span(x, axis + 1, x->rank);
    frame->samples = tn__operand_span(x, 0, axis) * frame->inner;
    return tn__check_count(call, 1, frame->samples);
}

/* Finds the scores and the label of sample `i`. If this rank has only some of the classes, the
 * label is counted from the rank's first class. */
static tn_status loss_at(const tn_kernel_call *call, const loss_shape *frame, uint64_t i,
                         loss_sample *sample) {
    int64_t label = tn__operand_int(&call->inputs[1], i);
    int64_t whole = tn__attr_int(call->op, "whole", (int64_t)frame->classes);
    *sample =
        (loss_sample){.step = frame->inner,
                      .classes = frame->classes,
                      .first = i / frame->inner * frame->classes * frame->inner + i % frame->inner,
                      .label = label - tn__attr_int(call->op, "first", 0)};
    if (label >= 0 && label < whole) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID,
                         "label %llu is class %lld, but the scores have %lld classes",
                         (unsigned long long)i, (long long)label, (long long)whole);
}

static double loss_score(const tn_operand *x, const loss_sample *sample, uint64_t class) {
    return tn__real_get(x, sample->first + class * sample->step);
}

/* Loads a tile of the scores of a sample: the classes from `c` on. Returns how many were loaded. */
static uint64_t loss_tile(const tn_operand *x, const loss_sample *sample, uint64_t c,
                          double *scores) {
    uint64_t left = sample->classes - c, count = left < TN__REAL_TILE ? left : TN__REAL_TILE;
    tn__real_load(x, sample->first + c * sample->step, sample->step, count, scores);
    return count;
}

/* Replaces the values by exp(values - less). The float32 exponential is used unless x is float64,
 * because it is precise enough for all other types. */
TN_WIDE static void loss_powers(const tn_operand *x, uint64_t count, double less, double *values) {
    if (x->dtype == TN_FLOAT64) {
        for (uint64_t i = 0; i < count; i++) values[i] = exp(values[i] - less);
        return;
    }
    for (uint64_t i = 0; i < count; i++) values[i] = (double)tn__expf((float)(values[i] - less));
}

/* Returns the class with the largest score, and the logarithm of the sum of exponentials in
 * *total. */
static uint64_t loss_most(const tn_operand *x, const loss_sample *sample, double *total) {
    uint64_t best = 0, count;
    double most = -INFINITY, sum = 0, scores[TN__REAL_TILE];
    for (uint64_t c = 0; c < sample->classes; c += count) {
        count = loss_tile(x, sample, c, scores);
        for (uint64_t k = 0; k < count; k++)
            if (scores[k] > most || (isnan(scores[k]) && !isnan(most))) {
                most = scores[k];
                best = c + k;
            }
    }
    for (uint64_t c = 0; c < sample->classes; c += count) {
        count = loss_tile(x, sample, c, scores);
        loss_powers(x, count, most, scores);
        for (uint64_t k = 0; k < count; k++) sum += scores[k];
    }
    *total = most + log(sum);
    return best;
}

static tn_status loss_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    tn_operand *correct = tn__call_output(call, 1);
    double sum = 0;
    int64_t hits = 0;
    loss_shape frame;
    loss_sample sample;
    TN_TRY(loss_read(call, &frame));
    for (uint64_t i = 0; i < frame.samples; i++) {
        double total;
        TN_TRY(loss_at(call, &frame, i, &sample));
        hits += loss_most(x, &sample, &total) == (uint64_t)sample.label;
        sum += total - loss_score(x, &sample, (uint64_t)sample.label);
    }
    tn__real_set(&call->outputs[0], 0, sum / (double)frame.samples);
    if (correct != NULL) *(int64_t *)correct->data = hits;
    return TN_OK;
}

/* Writes the gradient of one sample: (softmax - 1 at the label) * factor. `total`: the logarithm of
 * the sum of the exponentials of its scores. */
static void loss_share(const tn_kernel_call *call, const loss_sample *sample, double total,
                       double factor) {
    const tn_operand *x = &call->inputs[0];
    double shares[TN__REAL_TILE];
    for (uint64_t c = 0, count; c < sample->classes; c += count) {
        count = loss_tile(x, sample, c, shares);
        loss_powers(x, count, total, shares);
        for (uint64_t k = 0; k < count; k++)
            tn__real_set(&call->outputs[0], sample->first + (c + k) * sample->step,
                         (shares[k] - ((int64_t)(c + k) == sample->label)) * factor);
    }
}

static tn_status loss_run_grad(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    loss_shape frame;
    loss_sample sample;
    TN_TRY(loss_read(call, &frame));
    TN_TRY(tn__check_count(call, 2, 1));
    double factor = tn__real_get(&call->inputs[2], 0) / (double)frame.samples;
    for (uint64_t i = 0; i < frame.samples; i++) {
        double total;
        TN_TRY(loss_at(call, &frame, i, &sample));
        loss_most(x, &sample, &total);
        loss_share(call, &sample, total, factor);
    }
    return TN_OK;
}

/* --- cross-entropy if each rank has the scores of some of the classes (graph/ops/training/ranks.c)
 * --- */

enum { LOSS_SUM, LOSS_OF_LABEL, LOSS_BEFORE, LOSS_SUMS };

static tn_status loss_run_most(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    loss_shape frame;
    TN_TRY(loss_read(call, &frame));
    TN_TRY(tn__call_expect(call, TN_FLOAT64, frame.samples));
    double *to = call->outputs[0].data, scores[TN__REAL_TILE];
    for (uint64_t i = 0; i < frame.samples; i++) {
        loss_sample sample = {.step = frame.inner,
                              .classes = frame.classes,
                              .first =
                                  i / frame.inner * frame.classes * frame.inner + i % frame.inner};
        to[i] = -INFINITY;
        for (uint64_t c = 0, count; c < frame.classes; c += count) {
            count = loss_tile(x, &sample, c, scores);
            for (uint64_t k = 0; k < count; k++)
                if (!(scores[k] <= to[i]) && !isnan(to[i])) to[i] = scores[k];
        }
    }
    return TN_OK;
}

static void loss_add_parts(const tn_operand *x, const loss_sample *sample, double most,
                           double *sums) {
    double scores[TN__REAL_TILE];
    for (uint64_t c = 0, count; c < sample->classes; c += count) {
        count = loss_tile(x, sample, c, scores);
        for (uint64_t k = 0; k < count; k++) {
            bool before = (int64_t)(c + k) < sample->label;
            sums[LOSS_BEFORE] += before && scores[k] == most;
            if ((int64_t)(c + k) == sample->label) sums[LOSS_OF_LABEL] = scores[k] - most;
        }
        loss_powers(x, count, most, scores);
        for (uint64_t k = 0; k < count; k++) sums[LOSS_SUM] += scores[k];
    }
}

static tn_status loss_run_sums(tn_kernel_call *call) {
    const double *most = call->inputs[2].data;
    loss_shape frame;
    loss_sample sample;
    TN_TRY(loss_read(call, &frame));
    TN_TRY(tn__check_count(call, 1, frame.samples));
    TN_TRY(tn__check_count(call, 2, frame.samples));
    TN_TRY(tn__call_expect(call, TN_FLOAT64, LOSS_SUMS * frame.samples));
    double *sums = call->outputs[0].data;
    for (uint64_t i = 0; i < frame.samples; i++, sums += LOSS_SUMS) {
        TN_TRY(loss_at(call, &frame, i, &sample));
        memset(sums, 0, LOSS_SUMS * sizeof *sums);
        loss_add_parts(&call->inputs[0], &sample, most[i], sums);
    }
    return TN_OK;
}

static tn_status loss_run_parts(tn_kernel_call *call) {
    const double *sums = call->inputs[3].data;
    tn_operand *correct = tn__call_output(call, 1);
    double sum = 0;
    int64_t hits = 0;
    loss_shape frame;
    TN_TRY(loss_read(call, &frame));
    TN_TRY(tn__check_count(call, 3, LOSS_SUMS * frame.samples));
    for (uint64_t i = 0; i < frame.samples; i++, sums += LOSS_SUMS) {
        hits += sums[LOSS_OF_LABEL] == 0 && sums[LOSS_BEFORE] == 0;
        sum += log(sums[LOSS_SUM]) - sums[LOSS_OF_LABEL];
    }
    tn__real_set(&call->outputs[0], 0, sum / (double)frame.samples);
    if (correct != NULL) *(int64_t *)correct->data = hits;
    return TN_OK;
}

static tn_status loss_run_parts_grad(tn_kernel_call *call) {
    const double *most = call->inputs[2].data, *sums = call->inputs[3].data;
    loss_shape frame;
    loss_sample sample;
    TN_TRY(loss_read(call, &frame));
    TN_TRY(tn__check_count(call, 2, frame.samples));
    TN_TRY(tn__check_count(call, 3, LOSS_SUMS * frame.samples));
    TN_TRY(tn__check_count(call, 4, 1));
    double factor = tn__real_get(&call->inputs[4], 0) / (double)frame.samples;
    for (uint64_t i = 0; i < frame.samples; i++) {
        double total = most[i] + log(sums[i * LOSS_SUMS + LOSS_SUM]);
        TN_TRY(loss_at(call, &frame, i, &sample));
        loss_share(call, &sample, total, factor);
    }
    return TN_OK;
}

/* --- mean of squared differences --- */

static tn_status loss_run_squared(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *labels = &call->inputs[1];
    uint64_t count = tn__operand_count(x);
    double sum = 0, a[TN__REAL_TILE], b[TN__REAL_TILE];
    TN_TRY(tn__check_count(call, 1, count));
    for (uint64_t i = 0; i < count; i += TN__REAL_TILE) {
        uint64_t part = count - i < TN__REAL_TILE ? count - i : TN__REAL_TILE;
        tn__real_load(x, i, 1, part, a);
        tn__real_load(labels, i, 1, part, b);
        for (uint64_t k = 0; k < part; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
    }
    tn__real_set(&call->outputs[0], 0, sum / (double)count);
    return TN_OK;
}

static tn_status loss_run_squared_grad(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *labels = &call->inputs[1];
    uint64_t count = tn__operand_count(x);
    double a[TN__REAL_TILE], b[TN__REAL_TILE];
    TN_TRY(tn__check_count(call, 1, count));
    TN_TRY(tn__check_count(call, 2, 1));
    double factor = 2 * tn__real_get(&call->inputs[2], 0) / (double)count;
    for (uint64_t i = 0; i < count; i += TN__REAL_TILE) {
        uint64_t part = count - i < TN__REAL_TILE ? count - i : TN__REAL_TILE;
        tn__real_load(x, i, 1, part, a);
        tn__real_load(labels, i, 1, part, b);
        for (uint64_t k = 0; k < part; k++) a[k] = (a[k] - b[k]) * factor;
        tn__real_store(&call->outputs[0], i, part, a);
    }
    return TN_OK;
}

static bool loss_accepts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 1, TN__TYPES_INDEX) &&
           tn__output_is(setup, 0, TN__TYPES_REAL) &&
           tn__output_may_be(setup, 1, TN__TYPE(INT64)) &&
           tn__input_may_be(setup, 2, TN__TYPES_REAL);
}

static bool loss_accepts_most(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__output_is(setup, 0, TN__TYPE(FLOAT64));
}

static bool loss_accepts_parts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 1, TN__TYPES_INDEX) &&
           tn__input_is(setup, 2, TN__TYPE(FLOAT64)) &&
           tn__input_may_be(setup, 3, TN__TYPE(FLOAT64)) &&
           tn__input_may_be(setup, 4, TN__TYPES_REAL) && tn__output_is(setup, 0, TN__TYPES_REAL) &&
           tn__output_may_be(setup, 1, TN__TYPE(INT64));
}

static bool loss_accepts_squared(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 1, TN__TYPES_REAL) &&
           tn__output_is(setup, 0, TN__TYPES_REAL) && tn__input_may_be(setup, 2, TN__TYPES_REAL);
}

static const tn_kernel loss_kernels[] = {
    {.type = "NegativeLogLikelihoodLoss", .accepts = loss_onnx_accepts, .run = loss_run_likelihood},
    {.type = "SoftmaxCrossEntropyLoss", .accepts = loss_onnx_accepts, .run = loss_run_softmax},
    {.domain = "tenure", .type = "ClassLoss", .accepts = loss_accepts_parts, .run = loss_run_parts},
    {.domain = "tenure",
     .type = "ClassLossGrad",
     .accepts = loss_accepts_parts,
     .run = loss_run_parts_grad},
    {.domain = "tenure", .type = "ClassMax", .accepts = loss_accepts_most, .run = loss_run_most},
    {.domain = "tenure", .type = "ClassSums", .accepts = loss_accepts_parts, .run = loss_run_sums},
    {.domain = "tenure", .type = "CrossEntropy", .accepts = loss_accepts, .run = loss_run},
    {.domain = "tenure", .type = "CrossEntropyGrad", .accepts = loss_accepts, .run = loss_run_grad},
    {.domain = "tenure",
     .type = "MeanSquared",
     .accepts = loss_accepts_squared,
     .run = loss_run_squared},
    {.domain = "tenure",
     .type = "MeanSquaredGrad",
     .accepts = loss_accepts_squared,
     .run = loss_run_squared_grad},
};

TN_KERNEL_FAMILY(loss, "");
