/* contrib_quant.c - operators on quantised numbers of ONNX Runtime's domain com.microsoft, in plain
 * loops. Each element is converted to a real number, computed in float32, rounded (ties to even)
 * and saturated.
 *
 * ONNX Runtime computes some of these operators with tables or in integers, so its results may
 * differ by 1 in the last place.
 * Source: docs/ContribOperators.md of ONNX Runtime 1.30.
 */
#include <math.h>

#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/loops/quantise.h"
#include "engine/kernels/loops/slide.h"

#define QUANT_BYTES (TN__TYPE(UINT8) | TN__TYPE(INT8))

/* How bytes represent numbers: real = (byte - zero) * scale. */
typedef struct quant_form {
    float scale;
    int32_t zero;
    tn_dtype dtype;
} quant_form;

static tn_status quant_lacks(const tn_kernel_call *call, uint32_t input) {
    return tn__call_fail(call, TN_E_INVALID, "input %u is not one number", input);
}

/* Reads the scale and the zero point of an operand. Both must be single numbers; the zero point may
 * be omitted. */
static tn_status quant_read(const tn_kernel_call *call, uint32_t scale, uint32_t zero,
                            tn_dtype dtype, quant_form *form) {
    const tn_operand *s = tn__call_input(call, scale), *z = tn__call_input(call, zero);
    if (s == NULL || tn__operand_count(s) != 1) return quant_lacks(call, scale);
    if (z != NULL && tn__operand_count(z) != 1) return quant_lacks(call, zero);
    *form = (quant_form){.scale = (float)tn__operand_float(s, 0),
                         .zero = z != NULL ? (int32_t)tn__operand_int(z, 0) : 0,
                         .dtype = dtype};
    return TN_OK;
}

static float quant_real(const quant_form *form, const void *bytes, uint64_t at) {
    int32_t byte = tn__byte_read(tn__bytes_of(form->dtype), ((const uint8_t *)bytes)[at]);
    return (float)(byte - form->zero) * form->scale;
}

static uint8_t quant_byte(const quant_form *form, float value) {
    return tn__quantise_byte(value / form->scale, form->zero, form->dtype);
}

static bool quant_is_scalar_form(const tn_kernel_setup *setup, uint32_t scale, uint32_t zero) {
    return tn__input_is(setup, scale, TN__TYPE(FLOAT32)) &&
           tn__input_may_be(setup, zero, QUANT_BYTES);
}

/* --- two operands: QLinearAdd, QLinearMul, QLinearWhere --- */

static tn_status quant_broadcasts(const tn_kernel_call *call, const tn_operand *x, uint32_t input) {
    const tn_operand *y = &call->outputs[0];
    bool fits = x->rank <= y->rank;
    for (uint32_t d = 0; fits && d < x->rank; d++) {
        int64_t extent = x->shape[d];
        fits = extent == 1 || extent == y->shape[d + y->rank - x->rank];
    }
    return fits ? TN_OK
                : tn__call_fail(call, TN_E_INVALID, "input %u does not broadcast to the result",
                                input);
}

/* Returns the index of the element of an operand with these strides that belongs to element `at` of
 * the result, with broadcasting. */
static uint64_t quant_place(const tn_operand *y, const int64_t *strides, uint64_t at) {
    uint64_t place = 0;
    for (uint32_t d = y->rank; d-- > 0; at /= (uint64_t)y->shape[d])
        place += at % (uint64_t)y->shape[d] * (uint64_t)strides[d];
    return place;
}

static tn_status quant_run_two(tn_kernel_call *call, bool product) {
    const tn_operand *a = &call->inputs[0], *b = tn__call_input(call, 3), *y = &call->outputs[0];
    quant_form left, right, result;
    int64_t steps[2][TN_RANK_MAX];
    if (b == NULL) return quant_lacks(call, 3);
    TN_TRY(quant_read(call, 1, 2, a->dtype, &left));
    TN_TRY(quant_read(call, 4, 5, b->dtype, &right));
    TN_TRY(quant_read(call, 6, 7, y->dtype, &result));
    TN_TRY(quant_broadcasts(call, a, 0));
    TN_TRY(quant_broadcasts(call, b, 3));
    tn__operand_strides(a, y->rank, steps[0]);
    tn__operand_strides(b, y->rank, steps[1]);
    uint64_t count = tn__operand_count(y);
    for (uint64_t i = 0; i < count; i++) {
        float one = quant_real(&left, a->data, quant_place(y, steps[0], i));
        float other = quant_real(&right, b->data, quant_place(y, steps[1], i));
        ((uint8_t *)y->data)[i] = quant_byte(&result, product ? one * other : one + other);
    }
    return TN_OK;
}
static tn_status quant_run_add(tn_kernel_call *call) { return quant_run_two(call, false); }
static tn_status quant_run_mul(tn_kernel_call *call) { return quant_run_two(call, true); }

static bool quant_accepts_two(const tn_kernel_setup *setup) {
    return tn__output_is(setup, 0, QUANT_BYTES) && tn__input_is(setup, 0, QUANT_BYTES) &&
           tn__input_is(setup, 3, QUANT_BYTES) && quant_is_scalar_form(setup, 1, 2) &&
           quant_is_scalar_form(setup, 4, 5) && quant_is_scalar_form(setup, 6, 7);
}

static tn_status quant_run_where(tn_kernel_call *call) {
    const tn_operand *condition = &call->inputs[0], *a = tn__call_input(call, 1),
                     *b = tn__call_input(call, 4), *y = &call->outputs[0];
    quant_form left, right, result;
    int64_t steps[3][TN_RANK_MAX];
    TN_TRY(quant_read(call, 2, 3, a->dtype, &left));
    TN_TRY(quant_read(call, 5, 6, b->dtype, &right));
    TN_TRY(quant_read(call, 7, 8, y->dtype, &result));
    TN_TRY(quant_broadcasts(call, condition, 0));
    TN_TRY(quant_broadcasts(call, a, 1));
    TN_TRY(quant_broadcasts(call, b, 4));
    tn__operand_strides(condition, y->rank, steps[0]);
    tn__operand_strides(a, y->rank, steps[1]);
    tn__operand_strides(b, y->rank, steps[2]);
    uint64_t count = tn__operand_count(y);
    for (uint64_t i = 0; i < count; i++) {
        bool yes = ((const uint8_t *)condition->data)[quant_place(y, steps[0], i)] != 0;
        float value = yes ? quant_real(&left, a->data, quant_place(y, steps[1], i))
                          : quant_real(&right, b->data, quant_place(y, steps[2], i));
        ((uint8_t *)y->data)[i] = quant_byte(&result, value);
    }
    return TN_OK;
}

static bool quant_accepts_where(const tn_kernel_setup *setup) {
    return tn__output_is(setup, 0, QUANT_BYTES) && tn__input_is(setup, 0, TN__TYPE(BOOL)) &&
           tn__input_is(setup, 1, QUANT_BYTES) && tn__input_is(setup, 4, QUANT_BYTES) &&
           quant_is_scalar_form(setup, 2, 3) && quant_is_scalar_form(setup, 5, 6) &&
           quant_is_scalar_form(setup, 7, 8);
}

/* --- one operand: QLinearLeakyRelu, QLinearSigmoid, QLinearSoftmax --- */

static tn_status quant_run_one(tn_kernel_call *call, bool sigmoid) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    const float alpha = (float)tn__attr_float(call->op, "alpha", 0.01);
    quant_form from, to;
    TN_TRY(quant_read(call, 1, 2, x->dtype, &from));
    TN_TRY(quant_read(call, 3, 4, y->dtype, &to));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    uint64_t count = tn__operand_count(x);
    for (uint64_t i = 0; i < count; i++) {
        float value = quant_real(&from, x->data, i);
        value = sigmoid ? tn__logisticf(value) : value < 0 ? alpha * value : value;
        ((uint8_t *)y->data)[i] = quant_byte(&to, value);
    }
    return TN_OK;
}
static tn_status quant_run_leaky(tn_kernel_call *call) { return quant_run_one(call, false); }
static tn_status quant_run_sigmoid(tn_kernel_call *call) { return quant_run_one(call, true); }

static bool quant_accepts_one(const tn_kernel_setup *setup) {
    return tn__output_is(setup, 0, QUANT_BYTES) && tn__input_is(setup, 0, QUANT_BYTES) &&
           quant_is_scalar_form(setup, 1, 2) && quant_is_scalar_form(setup, 3, 4);
}

/* Softmax on quantised numbers. Before opset 13, all dimensions from the axis on form one row; the
 * attribute `opset` has the version. */
static tn_status quant_run_softmax(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    bool rows = tn__attr_int(call->op, "opset", 13) < 13;
    quant_form from, to;
    uint32_t axis = 0;
    TN_TRY(quant_read(call, 1, 2, x->dtype, &from));
    TN_TRY(quant_read(call, 3, 4, y->dtype, &to));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", rows ? 1 : -1), x->rank, &axis));
    uint64_t outer = tn__operand_span(x, 0, axis),
             extent = rows ? tn__operand_span(x, axis, x->rank) : (uint64_t)x->shape[axis],
             inner = rows ? 1 : tn__operand_span(x, axis + 1, x->rank);
    for (uint64_t o = 0; o < outer * inner; o++) {
        uint64_t first = o / inner * extent * inner + o % inner;
        float most = -INFINITY;
        double sum = 0;
        for (uint64_t i = 0; i < extent; i++) {
            float value = quant_real(&from, x->data, first + i * inner);
            most = value > most ? value : most;
        }
        for (uint64_t i = 0; i < extent; i++)
            sum += (double)tn__expf(quant_real(&from, x->data, first + i * inner) - most);
        for (uint64_t i = 0; i < extent; i++) {
            float power = tn__expf(quant_real(&from, x->data, first + i * inner) - most);
            ((uint8_t *)y->data)[first + i * inner] = quant_byte(&to, (float)((double)power / sum));
        }
    }
    return TN_OK;
}

/* --- QLinearConcat --- */

static tn_status quant_run_concat(tn_kernel_call *call) {
    const tn_operand *y = &call->outputs[0];
    quant_form to, from;
    uint32_t axis = 0;
    int64_t before = 0;
    TN_TRY(quant_read(call, 0, 1, y->dtype, &to));
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), y->rank, &axis));
    uint64_t outer = tn__operand_span(y, 0, axis), inner = tn__operand_span(y, axis + 1, y->rank);
    for (uint32_t k = 2; k < call->input_count; k += 3) {
        const tn_operand *x = tn__call_input(call, k);
        if (x == NULL || x->rank != y->rank) return quant_lacks(call, k);
        TN_TRY(quant_read(call, k + 1, k + 2, x->dtype, &from));
        for (uint32_t d = 0; d < y->rank; d++)
            if (d == axis ? x->shape[d] > y->shape[d] - before : x->shape[d] != y->shape[d])
                return tn__call_fail(call, TN_E_INVALID, "input %u does not fit the result", k);
        uint64_t part = (uint64_t)x->shape[axis] * inner, whole = (uint64_t)y->shape[axis] * inner;
        for (uint64_t o = 0; o < outer; o++)
            for (uint64_t i = 0; i < part; i++)
                ((uint8_t *)y->data)[o * whole + (uint64_t)before * inner + i] =
                    quant_byte(&to, quant_real(&from, x->data, o * part + i));
        before += x->shape[axis];
    }
    return before == y->shape[axis]
               ? TN_OK
               : tn__call_fail(call, TN_E_INVALID, "the inputs do not fill it");
}

static bool quant_accepts_concat(const tn_kernel_setup *setup) {
    bool good = tn__output_is(setup, 0, QUANT_BYTES) && quant_is_scalar_form(setup, 0, 1) &&
                setup->op->input_count > 2;
    for (uint32_t k = 2; good && k < setup->op->input_count; k += 3)
        good = tn__input_is(setup, k, QUANT_BYTES) && quant_is_scalar_form(setup, k + 1, k + 2);
    return good;
}

/* --- pools --- */

/* How an image is stored: numbers of channels and pixels, and the distances between channels,
 * pixels and images. */
typedef struct quant_image {
    /* `channels`, `area`: numbers of channels and pixels. `channel`, `place`, `entry`: distances
     * between channels, pixels and images, in elements. */
    uint64_t channels, area, channel, place, entry;
} quant_image;

static tn_status quant_image_of(const tn_kernel_call *call, const tn_operand *x, bool last,
                                quant_image *image) {
    if (x->rank < 3) return tn__call_fail(call, TN_E_INVALID, "an image has rank %u", x->rank);
    uint32_t at = last ? x->rank - 1 : 1;
    image->channels = (uint64_t)x->shape[at];
    image->area = last ? tn__operand_span(x, 1, x->rank - 1) : tn__operand_span(x, 2, x->rank);
    image->channel = last ? 1 : image->area;
    image->place = last ? image->channels : 1;
    image->entry = image->channels * image->area;
    return TN_OK;
}

static tn_status quant_run_global(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    quant_form from, to;
    quant_image image;
    TN_TRY(quant_read(call, 1, 2, x->dtype, &from));
    TN_TRY(quant_read(call, 3, 4, y->dtype, &to));
    TN_TRY(quant_image_of(call, x, tn__attr_int(call->op, "channels_last", 0) != 0, &image));
    uint64_t batch = (uint64_t)x->shape[0];
    if (tn__operand_count(y) != batch * image.channels)
        return tn__call_fail(call, TN_E_INVALID, "the result has not one number for each channel");
    for (uint64_t n = 0; n < batch; n++)
        for (uint64_t c = 0; c < image.channels; c++) {
            double sum = 0;
            for (uint64_t p = 0; p < image.area; p++)
                sum += (double)quant_real(&from, x->data,
                                          n * image.entry + c * image.channel + p * image.place);
            ((uint8_t *)y->data)[n * image.channels + c] =
                quant_byte(&to, (float)(sum / (double)image.area));
        }
    return TN_OK;
}

/* The window of an average pool. */
typedef struct quant_window {
    uint32_t spatial;
    int64_t extent[8], kernel[8], stride[8], begin[8], end[8];
    bool padded; /* whether an average counts elements of the padding */
} quant_window;

static tn_status quant_read_window(const tn_kernel_call *call, const tn_operand *x,
                                   const tn_operand *y, bool last, quant_window *window) {
    uint32_t spatial = x->rank - 2, counts[3], first = last ? 1 : 2;
    const int64_t *kernel = tn__attr_ints(call->op, "kernel_shape", &counts[0]);
    const int64_t *strides = tn__attr_ints(call->op, "strides", &counts[1]);
    const int64_t *pads = tn__attr_ints(call->op, "pads", &counts[2]);
    const char *automatic = tn__attr_string(call->op, "auto_pad", "NOTSET");
    if (x->rank < 3 || spatial > 8 || y->rank != x->rank || kernel == NULL ||
        counts[0] != spatial || (strides != NULL && counts[1] != spatial) ||
        (pads != NULL && counts[2] != 2 * spatial))
        return tn__call_fail(call, TN_E_INVALID, "its attributes do not fit an input of rank %u",
                             x->rank);
    if (strcmp(automatic, "NOTSET") != 0 && strcmp(automatic, "VALID") != 0)
        return tn__call_fail(call, TN_E_UNSUPPORTED, "attribute auto_pad is not supported");
    *window = (quant_window){.spatial = spatial,
                             .padded = tn__attr_int(call->op, "count_include_pad", 0) != 0};
    for (uint32_t i = 0; i < spatial; i++) {
        window->extent[i] = x->shape[first + i];
        window->kernel[i] = kernel[i];
        window->stride[i] = strides != NULL ? strides[i] : 1;
        window->begin[i] = pads != NULL ? pads[i] : 0;
        window->end[i] = pads != NULL ? pads[spatial + i] : 0;
        int64_t most = INT32_MAX;
        if (kernel[i] < 1 || kernel[i] > most || window->stride[i] < 1 ||
            window->stride[i] > most || window->begin[i] < 0 || window->begin[i] > most ||
            window->end[i] < 0 || window->end[i] > most || window->extent[i] > most)
            return tn__call_fail(call, TN_E_INVALID, "a window is out of range");
    }
    return TN_OK;
}

/* Returns the average over the window of output element `at`. `shape`: spatial extents of the
 * output; `step`: distance between pixels. */
static double quant_window_mean(const quant_form *from, const uint8_t *bytes, uint64_t step,
                                const quant_window *window, const int64_t *shape, uint64_t at) {
    int64_t low[8], high[8], place[8];
    double sum = 0, taps = 1;
    uint64_t inside = 1;
    for (uint32_t i = window->spatial; i-- > 0; at /= (uint64_t)shape[i]) {
        int64_t start = (int64_t)(at % (uint64_t)shape[i]) * window->stride[i] - window->begin[i];
        int64_t stop = start + window->kernel[i], wall = window->extent[i] + window->end[i];
        taps *= (double)((stop < wall ? stop : wall) - start);
        low[i] = place[i] = start > 0 ? start : 0;
        high[i] = stop < window->extent[i] ? stop : window->extent[i];
        inside = high[i] > low[i] ? inside * (uint64_t)(high[i] - low[i]) : 0;
    }
    for (uint64_t t = 0; t < inside; t++) {
        uint64_t index = 0;
        for (uint32_t i = 0; i < window->spatial; i++)
            index = index * (uint64_t)window->extent[i] + (uint64_t)place[i];
        sum += (double)quant_real(from, bytes, index * step);
        for (uint32_t i = window->spatial; i-- > 0;) {
            if (++place[i] < high[i]) break;
            place[i] = low[i];
        }
    }
    double count = window->padded ? taps : (double)inside;
    return count > 0 ? sum / count : 0;
}

static tn_status quant_run_average(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    bool last = tn__attr_int(call->op, "channels_last", 0) != 0;
    quant_form from, to;
    quant_image in, out;
    quant_window window = {0};
    TN_TRY(quant_read(call, 1, 2, x->dtype, &from));
    TN_TRY(quant_read(call, 3, 4, y->dtype, &to));
    TN_TRY(quant_image_of(call, x, last, &in));
    TN_TRY(quant_image_of(call, y, last, &out));
    TN_TRY(quant_read_window(call, x, y, last, &window));
    if (in.channels != out.channels || x->shape[0] != y->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "the result has other channels");
    for (uint64_t n = 0; n < (uint64_t)x->shape[0]; n++)
        for (uint64_t c = 0; c < in.channels; c++)
            for (uint64_t p = 0; p < out.area; p++) {
                const uint8_t *bytes = (const uint8_t *)x->data + n * in.entry + c * in.channel;
                double mean = quant_window_mean(&from, bytes, in.place, &window,
                                                y->shape + (last ? 1 : 2), p);
                ((uint8_t *)y->data)[n * out.entry + c * out.channel + p * out.place] =
                    quant_byte(&to, (float)mean);
            }
    return TN_OK;
}

/* --- QLinearConv of ONNX Runtime: as ONNX's, but images may have their channels last; weights
 * always have them first --- */

typedef struct quant_conv {
    quant_form from, to;
    quant_image in, out;
    tn__slide slide;
    uint64_t group_channels, group_filters;
    const tn_operand *weights, *scale, *zero, *bias;
} quant_conv;

/* Describes an image as if its channels preceded its pixels. `shape` receives the extents. */
static tn_operand quant_channels_first(const tn_operand *x, bool last, int64_t *shape) {
    tn_operand image = *x;
    image.shape = shape;
    for (uint32_t d = 0; d < x->rank; d++)
        shape[d] = !last || d == 0 ? x->shape[d] : x->shape[d == 1 ? x->rank - 1 : d - 1];
    return image;
}

static tn_status quant_read_conv(const tn_kernel_call *call, quant_conv *it) {
    const tn_operand *x = &call->inputs[0], *w = &call->inputs[3], *y = &call->outputs[0];
    bool last = tn__attr_int(call->op, "channels_last", 0) != 0;
    int64_t group = tn__attr_int(call->op, "group", 1);
    *it = (quant_conv){.weights = w,
                       .scale = &call->inputs[4],
                       .zero = &call->inputs[5],
                       .bias = tn__call_input(call, 8)};
    TN_TRY(quant_read(call, 1, 2, x->dtype, &it->from));
    TN_TRY(quant_read(call, 6, 7, y->dtype, &it->to));
    TN_TRY(quant_image_of(call, x, last, &it->in));
    if (w->rank != x->rank || y->rank != x->rank)
        return tn__call_fail(call, TN_E_INVALID, "an input of rank %u for weights of rank %u",
                             x->rank, w->rank);
    TN_TRY(quant_image_of(call, y, last, &it->out));
    int64_t extents[2][TN_RANK_MAX];
    tn_operand input = quant_channels_first(x, last, extents[0]),
               output = quant_channels_first(y, last, extents[1]);
    TN_TRY(tn__slide_read(call, &input, w->shape + 2, &output, false, &it->slide));
    if (group < 1 || it->out.channels != (uint64_t)w->shape[0] || w->shape[0] % group != 0 ||
        it->in.channels != (uint64_t)w->shape[1] * (uint64_t)group || y->shape[0] != x->shape[0])
        return tn__call_fail(call, TN_E_INVALID,
                             "%llu channels and %llu filters for weights of %lld by %lld in %lld "
                             "groups",
                             (unsigned long long)it->in.channels,
                             (unsigned long long)it->out.channels, (long long)w->shape[0],
                             (long long)w->shape[1], (long long)group);
    it->group_channels = (uint64_t)w->shape[1];
    it->group_filters = it->out.channels / (uint64_t)group;
    /* scale and zero point of the weights have one number, or one for each filter; the bias has one
     * for each filter */
    const uint32_t each[] = {4, 5, 8};
    for (uint32_t i = 0; i < 3; i++) {
        const tn_operand *operand = tn__call_input(call, each[i]);
        if (operand != NULL && (i == 2 || tn__operand_count(operand) != 1))
            TN_TRY(tn__check_count(call, each[i], it->out.channels));
    }
    return TN_OK;
}

/* Finds the input pixel that element `tap` of the window reads at an output position. Returns false
 * if it is padding. */
static bool quant_meets(const tn__slide *slide, const int64_t *position, uint64_t tap,
                        uint64_t *place) {
    uint64_t step = 1;
    *place = 0;
    for (uint32_t d = slide->spatial; d-- > 0;) {
        int64_t at = position[d] * slide->stride[d] - slide->begin[d] +
                     (int64_t)(tap % (uint64_t)slide->kernel[d]) * slide->dilation[d];
        if (at < 0 || at >= slide->input[d]) return false;
        *place += (uint64_t)at * step;
        step *= (uint64_t)slide->input[d];
        tap /= (uint64_t)slide->kernel[d];
    }
    return true;
}

/* Returns the sum of products for one output element, as a 32-bit integer that wraps around. */
static uint32_t quant_conv_sum(const quant_conv *it, const uint8_t *image, uint64_t filter,
                               const int64_t *position) {
    const uint8_t *weights = (const uint8_t *)it->weights->data;
    tn__byte_coding of_input = tn__bytes_of(it->from.dtype),
                    of_weights = tn__bytes_of(it->weights->dtype);
    uint64_t first = filter / it->group_filters * it->group_channels;
    int32_t zero =
        (int32_t)tn__operand_int(it->zero, tn__operand_count(it->zero) == 1 ? 0 : filter);
    uint32_t sum = 0;
    for (uint64_t tap = 0; tap < it->slide.taps; tap++) {
        uint64_t place;
        if (!quant_meets(&it->slide, position, tap, &place)) continue;
        for (uint64_t c = 0; c < it->group_channels; c++) {
            uint64_t from = (first + c) * it->in.channel + place * it->in.place,
                     weight = (filter * it->group_channels + c) * it->slide.taps + tap;
            sum += (uint32_t)((tn__byte_read(of_input, image[from]) - it->from.zero) *
                              (tn__byte_read(of_weights, weights[weight]) - zero));
        }
    }
    return sum;
}

static tn_status quant_run_conv(tn_kernel_call *call) {
    quant_conv it;
    int64_t position[TN__SLIDE_MAX];
    TN_TRY(quant_read_conv(call, &it));
    for (uint64_t n = 0; n < (uint64_t)call->inputs[0].shape[0]; n++)
        for (uint64_t p = 0; p < it.out.area; p++) {
            tn__slide_position(&it.slide, p, position);
            for (uint64_t f = 0; f < it.out.channels; f++) {
                const uint8_t *image = (const uint8_t *)call->inputs[0].data + n * it.in.entry;
                uint32_t sum = quant_conv_sum(&it, image, f, position);
                if (it.bias != NULL) sum += ((const uint32_t *)it.bias->data)[f];
                uint64_t which = tn__operand_count(it.scale) == 1 ? 0 : f;
                float factor =
                    it.from.scale * (float)tn__operand_float(it.scale, which) / it.to.scale;
                ((uint8_t *)call->outputs[0]
                     .data)[n * it.out.entry + f * it.out.channel + p * it.out.place] =
                    tn__quantise_byte((float)(int32_t)sum * factor, it.to.zero, it.to.dtype);
            }
        }
    return TN_OK;
}

static bool quant_accepts_conv(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, QUANT_BYTES) && tn__input_is(setup, 3, QUANT_BYTES) &&
           tn__input_is(setup, 5, QUANT_BYTES) && tn__input_is(setup, 4, TN__TYPE(FLOAT32)) &&
           quant_is_scalar_form(setup, 1, 2) && quant_is_scalar_form(setup, 6, 7) &&
           tn__input_may_be(setup, 8, TN__TYPE(INT32)) && tn__output_is(setup, 0, QUANT_BYTES);
}

/* --- products --- */

/* A factor of a matrix product: its values, scales and zero points. There is one scale and zero
 * point, or one for each column. */
typedef struct quant_side {
    const tn_operand *values, *scale, *zero;
} quant_side;

static tn_status quant_check_side(const tn_kernel_call *call, const quant_side *side,
                                  uint64_t columns, uint32_t input) {
    uint64_t scales = tn__operand_count(side->scale),
             zeros = side->zero != NULL ? tn__operand_count(side->zero) : 1;
    if ((scales == 1 || scales == columns) && (zeros == 1 || zeros == columns)) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "the scales of input %u are not one for each column",
                         input);
}

static int64_t quant_zero(const quant_side *side, uint64_t column) {
    if (side->zero == NULL) return 0;
    return tn__operand_int(side->zero, tn__operand_count(side->zero) == 1 ? 0 : column);
}
static double quant_scale(const quant_side *side, uint64_t column) {
    return tn__operand_float(side->scale, tn__operand_count(side->scale) == 1 ? 0 : column);
}

/* Describes products of matrices of a and b; b is a single matrix, or has one matrix for each
 * matrix of a. */
typedef struct quant_product {
    quant_side a, b;
    uint64_t batch, rows, inner, columns;
    uint64_t b_batch, a_row, a_inner, b_inner, b_column; /* steps */
} quant_product;

static tn_status quant_read_product(const tn_kernel_call *call, quant_product *it) {
    const tn_operand *a = it->a.values, *b = it->b.values;
    int64_t shape[TN_RANK_MAX];
    if (a->rank < 1 || b->rank < 2)
        return tn__call_fail(call, TN_E_INVALID, "an operand is no matrix");
    it->inner = (uint64_t)a->shape[a->rank - 1];
    it->columns = (uint64_t)b->shape[b->rank - 1];
    if ((uint64_t)b->shape[b->rank - 2] != it->inner)
        return tn__call_fail(call, TN_E_INVALID, "%llu columns meet %lld rows",
                             (unsigned long long)it->inner, (long long)b->shape[b->rank - 2]);
    uint64_t matrices = tn__operand_span(b, 0, b->rank - 2);
    bool alike = b->rank == a->rank && b->rank > 2;
    for (uint32_t d = 0; alike && d + 2 < a->rank; d++) alike = a->shape[d] == b->shape[d];
    if (matrices != 1 && !alike)
        return tn__call_fail(call, TN_E_UNSUPPORTED, "batches that broadcast are not supported");
    it->rows = alike ? (uint64_t)a->shape[a->rank - 2] : tn__operand_span(a, 0, a->rank - 1);
    it->batch = alike ? matrices : 1;
    it->b_batch = it->inner * it->columns;
    it->a_row = it->inner;
    it->a_inner = it->b_column = 1;
    it->b_inner = it->columns;
    memcpy(shape, a->shape, a->rank * sizeof *shape);
    shape[a->rank - 1] = (int64_t)it->columns;
    TN_TRY(quant_check_side(call, &it->b, it->columns, 1));
    if (a->rank == 1 || b->rank > a->rank)
        return tn__call_fail(call, TN_E_UNSUPPORTED, "a vector is not supported");
    return tn__check_result(call, 0, a->rank, shape);
}

static float quant_dot(const quant_product *it, uint64_t matrix, uint64_t row, uint64_t column) {
    const tn__byte_coding left = tn__bytes_of(it->a.values->dtype),
                          right = tn__bytes_of(it->b.values->dtype);
    const uint8_t *a =
        (const uint8_t *)it->a.values->data + matrix * it->rows * it->inner + row * it->a_row;
    const uint8_t *b =
        (const uint8_t *)it->b.values->data + matrix * it->b_batch + column * it->b_column;
    int64_t zero_a = quant_zero(&it->a, 0), zero_b = quant_zero(&it->b, column), sum = 0;
    for (uint64_t k = 0; k < it->inner; k++)
        sum += (tn__byte_read(left, a[k * it->a_inner]) - zero_a) *
               (tn__byte_read(right, b[k * it->b_inner]) - zero_b);
    return (float)((double)sum * quant_scale(&it->a, 0) * quant_scale(&it->b, column));
}

static tn_status quant_run_product(const tn_kernel_call *call, const quant_product *it,
                                   const tn_operand *bias) {
    float *y = call->outputs[0].data;
    if (bias != NULL && tn__operand_count(bias) != it->columns)
        return tn__call_fail(call, TN_E_INVALID, "the bias has not one number for each column");
    for (uint64_t m = 0; m < it->batch; m++)
        for (uint64_t r = 0; r < it->rows; r++)
            for (uint64_t c = 0; c < it->columns; c++) {
                float value = quant_dot(it, m, r, c);
                if (bias != NULL) value += ((const float *)bias->data)[c];
                *y++ = value;
            }
    return TN_OK;
}

static tn_status quant_run_matmul(tn_kernel_call *call) {
    quant_product it = {.a = {&call->inputs[0], &call->inputs[2], tn__call_input(call, 4)},
                        .b = {&call->inputs[1], &call->inputs[3], tn__call_input(call, 5)}};
    TN_TRY(tn__check_count(call, 2, 1));
    TN_TRY(tn__check_count(call, 4, 1));
    TN_TRY(quant_read_product(call, &it));
    return quant_run_product(call, &it, tn__call_input(call, 6));
}

static bool quant_accepts_matmul(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 4 | 8 | 64, 0) &&
           tn__input_is(setup, 0, QUANT_BYTES) && tn__input_is(setup, 1, QUANT_BYTES) &&
           tn__input_may_be(setup, 4, QUANT_BYTES) && tn__input_may_be(setup, 5, QUANT_BYTES);
}

/* DynamicQuantizeMatMul: A is first quantised to uint8 over its whole range, as
 * DynamicQuantizeLinear does. */
static tn_status quant_run_dynamic(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    const float *values = x->data;
    uint64_t count = tn__operand_count(x);
    float least = 0, most = 0;
    TN_TRY(tn__check_scratch(call, count));
    for (uint64_t i = 0; i < count; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    float scale = (most - least) / 255;
    if (!(scale > 0)) scale = 1;
    uint8_t zero = (uint8_t)tn__quantise(-least / scale, 0, 0, 255), *bytes = call->workspace;
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = tn__quantise_byte(values[i] / scale, zero, TN_UINT8);
    tn_operand quantised = *x, scales = {.data = &scale, .dtype = TN_FLOAT32},
               zeros = {.data = &zero, .dtype = TN_UINT8};
    quantised.data = bytes;
    quantised.dtype = TN_UINT8;
    quant_product it = {.a = {&quantised, &scales, &zeros},
                        .b = {&call->inputs[1], &call->inputs[2], tn__call_input(call, 3)}};
    TN_TRY(quant_read_product(call, &it));
    return quant_run_product(call, &it, tn__call_input(call, 4));
}

static bool quant_accepts_dynamic(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 4 | 16, 0) &&
           tn__input_is(setup, 1, QUANT_BYTES) && tn__input_may_be(setup, 3, QUANT_BYTES);
}

static uint64_t quant_workspace_dynamic(const tn_kernel_setup *setup) {
    return tn__setup_count(tn__setup_input(setup, 0));
}

/* QGemm: the result is quantised if it has a scale, and real otherwise. C is int32 with the scale
 * sA * sB, the product of the scales of A and B. */
static tn_status quant_run_gemm(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *b = tn__call_input(call, 3),
                     *c = tn__call_input(call, 6), *y = &call->outputs[0];
    bool flip_a = tn__attr_int(call->op, "transA", 0) != 0,
         flip_b = tn__attr_int(call->op, "transB", 0) != 0;
    float alpha = (float)tn__attr_float(call->op, "alpha", 1);
    quant_form form = {.scale = 1};
    if (a->rank != 2 || b->rank != 2)
        return tn__call_fail(call, TN_E_INVALID, "an operand is no matrix");
    quant_product it = {.a = {a, &call->inputs[1], tn__call_input(call, 2)},
                        .b = {b, &call->inputs[4], tn__call_input(call, 5)},
                        .batch = 1,
                        .rows = (uint64_t)a->shape[flip_a ? 1 : 0],
                        .inner = (uint64_t)a->shape[flip_a ? 0 : 1],
                        .columns = (uint64_t)b->shape[flip_b ? 0 : 1]};
    if ((uint64_t)b->shape[flip_b ? 1 : 0] != it.inner)
        return tn__call_fail(call, TN_E_INVALID, "the operands do not fit each other");
    const int64_t shape[2] = {(int64_t)it.rows, (int64_t)it.columns};
    TN_TRY(tn__check_result(call, 0, 2, shape));
    TN_TRY(tn__check_count(call, 1, 1));
    TN_TRY(tn__check_count(call, 2, 1));
    TN_TRY(quant_check_side(call, &it.b, it.columns, 3));
    if (y->dtype != TN_FLOAT32) TN_TRY(quant_read(call, 7, 8, y->dtype, &form));
    int64_t steps[2] = {0, 0};
    if (c != NULL) {
        TN_TRY(quant_broadcasts(call, c, 6));
        tn__operand_strides(c, 2, steps);
    }
    it.a_row = flip_a ? 1 : it.inner;
    it.a_inner = flip_a ? it.rows : 1;
    it.b_column = flip_b ? it.inner : 1;
    it.b_inner = flip_b ? 1 : it.columns;
    for (uint64_t r = 0; r < it.rows; r++)
        for (uint64_t n = 0; n < it.columns; n++) {
            float value = alpha * quant_dot(&it, 0, r, n);
            uint64_t at = r * it.columns + n;
            if (c != NULL) {
                int32_t more =
                    ((const int32_t *)c->data)[r * (uint64_t)steps[0] + n * (uint64_t)steps[1]];
                value +=
                    (float)((double)alpha * more * quant_scale(&it.a, 0) * quant_scale(&it.b, n));
            }
            if (y->dtype == TN_FLOAT32)
                ((float *)y->data)[at] = value;
            else
                ((uint8_t *)y->data)[at] = quant_byte(&form, value);
        }
    return TN_OK;
}

static bool quant_accepts_gemm(const tn_kernel_setup *setup) {
    bool real = tn__output_is(setup, 0, TN__TYPE(FLOAT32)) && tn__setup_input(setup, 7) == NULL;
    bool quantised = tn__output_is(setup, 0, QUANT_BYTES) && quant_is_scalar_form(setup, 7, 8);
    return (real || quantised) && tn__input_is(setup, 0, QUANT_BYTES) &&
           tn__input_is(setup, 3, QUANT_BYTES) && quant_is_scalar_form(setup, 1, 2) &&
           quant_is_scalar_form(setup, 4, 5) && tn__input_may_be(setup, 6, TN__TYPE(INT32));
}

static const tn_kernel contrib_quant_kernels[] = {
    {.type = "DequantizeLinear",
     .accepts = tn__quantise_accepts_from,
     .run = tn__quantise_run_from},
    {.type = "DynamicQuantizeMatMul",
     .accepts = quant_accepts_dynamic,
     .workspace = quant_workspace_dynamic,
     .run = quant_run_dynamic},
    {.type = "MatMulIntegerToFloat", .accepts = quant_accepts_matmul, .run = quant_run_matmul},
    {.type = "QGemm", .accepts = quant_accepts_gemm, .run = quant_run_gemm},
    {.type = "QLinearAdd", .accepts = quant_accepts_two, .run = quant_run_add},
    {.type = "QLinearAveragePool", .accepts = quant_accepts_one, .run = quant_run_average},
    {.type = "QLinearConcat", .accepts = quant_accepts_concat, .run = quant_run_concat},
    {.type = "QLinearConv", .accepts = quant_accepts_conv, .run = quant_run_conv},
    {.type = "QLinearGlobalAveragePool", .accepts = quant_accepts_one, .run = quant_run_global},
    {.type = "QLinearLeakyRelu", .accepts = quant_accepts_one, .run = quant_run_leaky},
    {.type = "QLinearMul", .accepts = quant_accepts_two, .run = quant_run_mul},
    {.type = "QLinearSigmoid", .accepts = quant_accepts_one, .run = quant_run_sigmoid},
    {.type = "QLinearSoftmax", .accepts = quant_accepts_one, .run = quant_run_softmax},
    {.type = "QLinearWhere", .accepts = quant_accepts_where, .run = quant_run_where},
    {.type = "QuantizeLinear", .accepts = tn__quantise_accepts_to, .run = tn__quantise_run_to},
};

TN_KERNEL_FAMILY(contrib_quant, "com.microsoft");
