/* random.c - random numbers: RandomNormal, RandomUniform, their -Like forms, Bernoulli,
 * Multinomial.
 *
 * Number i of a run is a mix of a start and i (splitmix64), so results depend only on the start:
 * the attribute `seed`, or else the run's own counter, which continues after the numbers drawn
 * before.
 *
 * Source: operator texts of ONNX, opsets 1 to 15; normal numbers: G. E. P. Box, M. E. Muller, A
 * note on the generation of random normal deviates, 1958.
 */
#include "engine/kernels/box.h"

#include <math.h>

static tn__random random_begin(const tn_kernel_call *call) {
    tn__random random = {call->random != NULL ? *call->random : 0};
    if (tn__attr(call->op, "seed") != NULL) {
        double seed = tn__attr_float(call->op, "seed", 0);
        memcpy(&random.state, &seed, sizeof seed);
    }
    return random;
}

static void random_end(const tn_kernel_call *call, tn__random random) {
    if (tn__attr(call->op, "seed") == NULL && call->random != NULL) *call->random = random.state;
}

/* Uniform in [0, 1): 53 bits. */
static double random_unit(tn__random *random) {
    return (double)(tn__random_next(random) >> 11) * 0x1p-53;
}

static double random_normal(tn__random *random) {
    static const double turn = 6.283185307179586476925;
    double radius = sqrt(-2 * log(1 - random_unit(random)));
    return radius * cos(turn * random_unit(random));
}

static tn_status random_fill(tn_kernel_call *call, bool normal) {
    tn_operand *to = &call->outputs[0];
    double a = normal ? tn__attr_float(call->op, "mean", 0) : tn__attr_float(call->op, "low", 0);
    double b =
        normal ? tn__attr_float(call->op, "scale", 1) : tn__attr_float(call->op, "high", 1) - a;
    uint32_t width = tn__width(to->dtype);
    if (call->input_count > 0)
        TN_TRY(tn__call_shape(call, 0, call->inputs[0].rank, call->inputs[0].shape));
    tn__random random = random_begin(call);
    uint64_t count = tn__operand_count(to);
    for (uint64_t i = 0; i < count; i++) {
        double drawn = normal ? random_normal(&random) : random_unit(&random);
        tn__store(to->dtype, (char *)to->data + i * width, a + b * drawn);
    }
    random_end(call, random);
    return TN_OK;
}

static tn_status random_fill_normal(tn_kernel_call *call) { return random_fill(call, true); }
static tn_status random_fill_uniform(tn_kernel_call *call) { return random_fill(call, false); }

static tn_status random_bernoulli(tn_kernel_call *call) {
    const tn_operand *chances = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint32_t width = tn__width(to->dtype);
    TN_TRY(tn__call_shape(call, 0, chances->rank, chances->shape));
    tn__random random = random_begin(call);
    uint64_t count = tn__operand_count(chances);
    for (uint64_t i = 0; i < count; i++)
        tn__store_int(to->dtype, (char *)to->data + i * width,
                      random_unit(&random) < tn__operand_float(chances, i));
    random_end(call, random);
    return TN_OK;
}

/* A class of a row of logarithms of weights, by walking along the sum of the weights. */
static int64_t random_class(const tn_operand *logs, uint64_t row, uint64_t classes, double most,
                            double aim) {
    double sum = 0;
    int64_t last = 0;
    for (uint64_t c = 0; c < classes; c++) {
        double weight = exp(tn__operand_float(logs, row * classes + c) - most);
        sum += weight;
        if (weight > 0) last = (int64_t)c;
        if (aim < sum) break;
    }
    return last;
}

static tn_status random_multinomial(tn_kernel_call *call) {
    const tn_operand *logs = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint32_t width = tn__width(to->dtype);
    if (logs->rank != 2 || logs->shape[1] < 1)
        return tn__call_fail(call, TN_E_INVALID, "weights must be [batch, classes]");
    int64_t shape[2] = {logs->shape[0], tn__attr_int(call->op, "sample_size", 1)};
    TN_TRY(tn__call_shape(call, 0, 2, shape));
    uint64_t classes = (uint64_t)logs->shape[1];
    tn__random random = random_begin(call);
    char *out = to->data;
    for (uint64_t row = 0; row < (uint64_t)shape[0]; row++) {
        double most = -INFINITY, sum = 0;
        for (uint64_t c = 0; c < classes; c++)
            most = fmax(most, tn__operand_float(logs, row * classes + c));
        for (uint64_t c = 0; c < classes; c++)
            sum += exp(tn__operand_float(logs, row * classes + c) - most);
        for (int64_t i = 0; i < shape[1]; i++, out += width)
            tn__store_int(to->dtype, out,
                          random_class(logs, row, classes, most, sum * random_unit(&random)));
    }
    random_end(call, random);
    return TN_OK;
}

static bool random_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *to = tn__setup_output(setup, 0);
    return to != NULL && tn__is_number(to->dtype) && tn__accepts_bytes(setup);
}

#define DRAW(name, function)                                                                       \
    { .type = #name, .accepts = random_accepts, .run = function }
static const tn_kernel random_kernels[] = {
    DRAW(Bernoulli, random_bernoulli),        DRAW(Multinomial, random_multinomial),
    DRAW(RandomNormal, random_fill_normal),   DRAW(RandomNormalLike, random_fill_normal),
    DRAW(RandomUniform, random_fill_uniform), DRAW(RandomUniformLike, random_fill_uniform),
};

TN_KERNEL_FAMILY(random, "");
