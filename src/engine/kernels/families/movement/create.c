/* create.c - operators that create tensors: Constant, ConstantOfShape, EyeLike, Range, OneHot, the
 * window functions of signal processing, and random numbers.
 *
 * If the value of a Constant is a tensor, its output is a view of that tensor, so a run has nothing
 * to compute.
 * Source: the ONNX specifications of these operators, opsets 1 to 17.
 */
#include <math.h>

#include "engine/kernels/loops/box.h"
#include "graph/rules/range.h"

/* --- Constant --- */

static const tn_attr *create_value(const tn_op *op) {
    static const char *const names[] = {"value", "value_int", "value_ints", "value_float",
                                        "value_floats"};
    const tn_attr *attr = NULL;
    for (uint32_t i = 0; i < sizeof names / sizeof *names && attr == NULL; i++)
        attr = tn__attr(op, names[i]);
    return attr;
}

static tn_status create_constant(tn_kernel_call *call) {
    const tn_attr *attr = create_value(call->op);
    tn_operand *to = &call->outputs[0];
    uint32_t width = tn__width(to->dtype);
    if (attr->type == TN_ATTR_TENSOR) return TN_OK;
    if (tn__operand_count(to) != attr->count)
        return tn__call_fail(call, TN_E_INVALID, "a value of %u elements", attr->count);
    for (uint32_t i = 0; i < attr->count; i++) {
        char *element = (char *)to->data + (uint64_t)i * width;
        if (attr->ints != NULL)
            tn__store_int(to->dtype, element, attr->ints[i]);
        else
            tn__store(to->dtype, element, attr->floats[i]);
    }
    return TN_OK;
}

static bool create_accepts_constant(const tn_kernel_setup *setup) {
    const tn_attr *attr = create_value(setup->op);
    return attr != NULL && tn__accepts_output(setup) &&
           (attr->type == TN_ATTR_TENSOR || attr->ints != NULL || attr->floats != NULL);
}

/* --- ConstantOfShape --- */

static tn_status create_of_shape(tn_kernel_call *call) {
    const tn_attr *attr = tn__attr(call->op, "value");
    tn_operand *to = &call->outputs[0];
    char element[16] = {0};
    int64_t shape[TN_RANK_MAX];
    uint32_t count;
    bool given;
    TN_TRY(tn__call_list(call, 0, NULL, TN_RANK_MAX, shape, &count, &given));
    TN_TRY(tn__call_shape(call, 0, count, shape));
    if (attr != NULL) {
        const tn_value *value = tn__call_attr_value(call, attr);
        if (value->ints != NULL)
            tn__store_int(to->dtype, element, value->ints[0]);
        else
            tn__store(to->dtype, element, value->floats[0]);
    }
    tn__fill(to->data, tn__operand_count(to), tn__width(to->dtype), element);
    return TN_OK;
}

static bool create_accepts_of_shape(const tn_kernel_setup *setup) {
    const tn_attr *attr = tn__attr(setup->op, "value");
    const tn_tensor *to = tn__setup_output(setup, 0);
    if (to == NULL || !tn__is_number(to->dtype) || !tn__accepts_bytes(setup)) return false;
    if (attr == NULL) return true;
    if (attr->type != TN_ATTR_TENSOR) return false;
    const tn_value *value = tn__setup_attr_value(setup, attr);
    return value != NULL && value->count == 1;
}

/* --- EyeLike, OneHot --- */

static tn_status create_eye(tn_kernel_call *call) {
    tn_operand *to = &call->outputs[0];
    int64_t k = tn__attr_int(call->op, "k", 0);
    uint64_t width = tn__width(to->dtype);
    if (call->inputs[0].rank != 2)
        return tn__call_fail(call, TN_E_INVALID, "rank %u, not 2", call->inputs[0].rank);
    TN_TRY(tn__call_shape(call, 0, 2, call->inputs[0].shape));
    int64_t rows = to->shape[0], columns = to->shape[1];
    if (tn__operand_bytes(to) == 0) return TN_OK;
    memset(to->data, 0, tn__operand_bytes(to));
    if (k <= -rows || k >= columns) return TN_OK;
    for (int64_t row = k < 0 ? -k : 0; row < rows && row + k < columns; row++)
        tn__store_int(to->dtype, (char *)to->data + (uint64_t)(row * columns + row + k) * width, 1);
    return TN_OK;
}

/* Runs OneHot. If an index is outside [-depth, depth), all elements of its line get the `off`
 * value. */
static tn_status create_one_hot(tn_kernel_call *call) {
    const tn_operand *indices = &call->inputs[0], *values = &call->inputs[2];
    tn_operand *to = &call->outputs[0];
    uint32_t axis, rank = 0, width = tn__width(values->dtype);
    int64_t shape[TN_RANK_MAX + 1];
    if (tn__operand_count(&call->inputs[1]) != 1 || tn__operand_count(values) != 2)
        return tn__call_fail(call, TN_E_INVALID, "one depth and two values are wanted");
    int64_t depth = tn__operand_int(&call->inputs[1], 0);
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", -1), indices->rank + 1, &axis));
    for (uint32_t d = 0; d <= indices->rank; d++)
        shape[d] = d == axis ? depth : indices->shape[rank++];
    TN_TRY(tn__call_shape(call, 0, indices->rank + 1, shape));
    uint64_t count = tn__operand_count(indices);
    uint64_t inner = tn__operand_span(indices, axis, indices->rank);
    const char *off = values->data, *on = off + width;
    tn__fill(to->data, tn__operand_count(to), width, off);
    for (uint64_t i = 0; i < count; i++) {
        int64_t index = tn__index(indices, i);
        if (index < -depth || index >= depth) continue;
        if (index < 0) index += depth;
        uint64_t at = (i / inner * (uint64_t)depth + (uint64_t)index) * inner + i % inner;
        tn__move((char *)to->data + at * width, on, width);
    }
    return TN_OK;
}

/* --- Range --- */

static int64_t create_range_count(const tn_kernel_call *call, tn_dtype in) {
    const tn_operand *from = call->inputs;
    if (tn__is_real(from[0].dtype))
        return tn__range_floats(in, tn__operand_float(&from[0], 0), tn__operand_float(&from[1], 0),
                                tn__operand_float(&from[2], 0));
    return tn__range_ints(tn__operand_int(&from[0], 0), tn__operand_int(&from[1], 0),
                          tn__operand_int(&from[2], 0));
}

static tn_status create_range(tn_kernel_call *call) {
    const tn_operand *inputs = call->inputs;
    tn_dtype dtype = inputs[0].dtype;
    uint32_t width = tn__width(dtype);
    for (uint32_t i = 0; i < 3; i++)
        if (tn__operand_count(&inputs[i]) != 1 || inputs[i].dtype != dtype)
            return tn__call_fail(call, TN_E_INVALID, "three scalars of one type are wanted");
    if (tn__operand_float(&inputs[2], 0) == 0)
        return tn__call_fail(call, TN_E_INVALID, "the delta is 0");
    tn_dtype in = tn__range_in(call->op, dtype);
    int64_t count = create_range_count(call, in);
    if (count < 0)
        return tn__call_fail(call, TN_E_INVALID, "the number of elements is out of range");
    TN_TRY(tn__call_shape(call, 0, 1, &count));
    double start = tn__operand_float(&inputs[0], 0), delta = tn__operand_float(&inputs[2], 0);
    uint64_t first = (uint64_t)tn__operand_int(&inputs[0], 0);
    uint64_t step = (uint64_t)tn__operand_int(&inputs[2], 0);
    char *to = call->outputs[0].data;
    for (int64_t i = 0; i < count; i++, to += width) {
        if (tn__is_real(dtype))
            tn__store(dtype, to, tn__range_at(in, start, delta, i));
        else
            tn__store_int(dtype, to, (int64_t)(first + (uint64_t)i * step));
    }
    return TN_OK;
}

/* --- window functions: a - b cos x + c cos 2x --- */

static tn_status create_window(tn_kernel_call *call, double a, double b, double c) {
    static const double turn = 6.283185307179586476925;
    tn_operand *to = &call->outputs[0];
    bool periodic = tn__attr_int(call->op, "periodic", 1) != 0;
    int64_t size = 0;
    uint32_t count, width = tn__width(to->dtype);
    bool given;
    TN_TRY(tn__call_list(call, 0, NULL, 1, &size, &count, &given));
    TN_TRY(tn__call_shape(call, 0, 1, &size));
    double span = (double)(periodic || size < 2 ? size : size - 1);
    for (int64_t i = 0; i < size; i++) {
        double x = turn * (double)i / span;
        tn__store(to->dtype, (char *)to->data + (uint64_t)i * width,
                  a - b * cos(x) + c * cos(2 * x));
    }
    return TN_OK;
}

static tn_status create_hann(tn_kernel_call *call) { return create_window(call, 0.5, 0.5, 0); }
static tn_status create_blackman(tn_kernel_call *call) {
    return create_window(call, 0.42, 0.5, 0.08);
}
static tn_status create_hamming(tn_kernel_call *call) {
    return create_window(call, 25.0 / 46, 21.0 / 46, 0);
}

static bool create_accepts_number(const tn_kernel_setup *setup) {
    const tn_tensor *to = tn__setup_output(setup, 0);
    return to != NULL && tn__is_number(to->dtype) && tn__accepts_bytes(setup);
}

#define MADE(name, condition, function)                                                            \
    { .type = #name, .accepts = condition, .run = function }

/* --- RandomNormal, RandomUniform, their ...Like forms, Bernoulli, Multinomial ---
 *
 * Random number i is a hash (splitmix64) of a start value and i, so results depend only on the
 * start value. The start value is the attribute `seed`. Without it, the counter of the run is used,
 * which continues after the numbers that earlier operators have drawn.
 * Source: the ONNX specifications, opsets 1 to 15. Normal numbers: G. E. P. Box, M. E. Muller, A
 * note on the generation of random normal deviates, 1958.
 */

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

/* Returns a random number that is uniform in [0, 1), with 53 bits. */
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

/* Draws a class from a row of logarithms of weights: the first class at which the sum of the
 * weights up to it exceeds `aim`. */
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

static const tn_kernel create_kernels[] = {
    MADE(BlackmanWindow, create_accepts_number, create_blackman),
    MADE(Constant, create_accepts_constant, create_constant),
    MADE(ConstantOfShape, create_accepts_of_shape, create_of_shape),
    MADE(EyeLike, create_accepts_number, create_eye),
    MADE(HammingWindow, create_accepts_number, create_hamming),
    MADE(HannWindow, create_accepts_number, create_hann),
    MADE(OneHot, tn__accepts_bytes, create_one_hot),
    MADE(Range, tn__accepts_numbers, create_range),
    DRAW(Bernoulli, random_bernoulli),
    DRAW(Multinomial, random_multinomial),
    DRAW(RandomNormal, random_fill_normal),
    DRAW(RandomNormalLike, random_fill_normal),
    DRAW(RandomUniform, random_fill_uniform),
    DRAW(RandomUniformLike, random_fill_uniform),
};

TN_KERNEL_FAMILY(create, "");
