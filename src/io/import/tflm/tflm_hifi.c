/* tflm_hifi.c - the scratch that Cadence's NN library requests on a HiFi 3 or HiFi 4.
 *
 * TensorFlow Lite Micro replaces kernels on these processors. Four of them ask the library for
 * their scratch, in place of that of the reference kernel: CONV_2D, DEPTHWISE_CONV_2D, SOFTMAX and
 * TRANSPOSE_CONV. All others ask for what the reference kernels ask for. The rules are the results
 * of the library's getsize functions, restated. They hold for the public source of May 2024. The
 * rules of the archive of September 2025, which the run time downloads now, are not known.
 *
 * Source: foss-xtensa/nnlib-hifi4 (6a9ea45, 2024-05), kernels/xtensa of tflite-micro.
 */
#include "io/import/tflm/tflm.h"

enum {
    HIFI_STATE = 24,           /* bytes of the state of a convolution: six pointers */
    HIFI_DEPTHWISE_STATE = 32, /* bytes of a depthwise convolution's state, a multiple of 8 */
    HIFI_BUS = 8,
    HIFI_CHANNELS = 4 /* channels are filled up to a multiple of this number */
};

static uint64_t hifi_product(uint64_t a, uint64_t b, uint64_t c) {
    return tn__mul_sat(tn__mul_sat(a, b), c);
}

/* The library's macro for sizes of convolutions adds the largest loss by alignment to 8 bytes. */
static uint64_t hifi_loose(uint64_t bytes) { return tn__add_sat(bytes, 7); }

/* Adds rows to a circular buffer until its size is a multiple of `to`. */
static uint64_t hifi_rows(uint64_t bytes, uint64_t row, uint64_t to) {
    for (uint64_t i = 0; i < to && bytes % to != 0; i++) bytes = tn__add_sat(bytes, row);
    return bytes;
}

uint64_t tn__tflm_hifi_conv(const tflm_window *given, uint64_t width) {
    tflm_window w = *given;
    if (w.ih == 1 && w.fh == 1 && w.oh == 1) { /* height and width change places */
        w.ih = given->iw, w.fh = given->fw, w.oh = given->ow, w.sh = given->sw, w.ph = given->pw;
        w.fw = given->fh;
    }
    const uint64_t channels = tn__tflm_up(w.filter_channels, HIFI_CHANNELS);
    const uint64_t reach = tn__add_sat(w.fh, tn__mul_sat(w.oh > 0 ? w.oh - 1 : 0, w.sh));
    const uint64_t high = w.ph + w.ih > reach ? w.ph + w.ih : reach;
    const uint64_t row = hifi_product(w.fw, channels, width);
    uint64_t bytes =
        HIFI_BUS + hifi_loose(HIFI_STATE) + hifi_loose(hifi_rows(tn__mul_sat(high, row), row, 16));
    bytes = tn__add_sat(bytes, HIFI_BUS);
    if (channels == w.filter_channels) return bytes;
    /* a copy of the filter with filled channels */
    uint64_t filter = tn__mul_sat(hifi_product(w.fh, w.fw, channels), tn__mul_sat(w.oc, width));
    return tn__add_sat(bytes, hifi_loose(filter));
}

uint64_t tn__tflm_hifi_depthwise(const tflm_window *w) {
    const uint64_t reach = tn__add_sat(w->fh, tn__mul_sat(w->oh > 0 ? w->oh - 1 : 0, w->sh));
    const uint64_t high = w->ph + w->ih > reach ? w->ph + w->ih : reach;
    const uint64_t channels = tn__tflm_up(tn__mul_sat(w->ic, w->multiplier), HIFI_CHANNELS);
    uint64_t bytes = tn__tflm_up(hifi_product(high, channels, w->fw), 8);
    bytes = tn__add_sat(bytes, tn__tflm_up(hifi_product(w->fh, w->fw, 4), 8));
    return tn__add_sat(bytes, HIFI_DEPTHWISE_STATE);
}

uint64_t tn__tflm_hifi_transpose(const tflm_window *w, uint64_t width) {
    if (w->fw > w->iw || w->fh > w->ih || w->sw > w->fw || w->sh > w->fh || w->sw == 0 ||
        w->sh == 0)
        return tn__mul_sat(8, hifi_product(w->oh, w->ow, w->oc));
    /* the filter is divided into sh * sw smaller ones */
    const uint64_t wide = (w->fw + w->sw - 1) / w->sw, tall = (w->fh + w->sh - 1) / w->sh;
    const uint64_t channels = tn__tflm_up(w->ic, HIFI_CHANNELS);
    const uint64_t filter = tn__tflm_up(
        tn__mul_sat(hifi_product(wide, tall, channels), hifi_product(w->oc, w->sw, w->sh)), 8);
    const uint64_t row = hifi_product(wide, channels, width);
    const uint64_t input = hifi_rows(tn__mul_sat(2 * (tall - 1) + w->ih, row), row, 8);
    const uint64_t bytes = tn__add_sat(hifi_loose(HIFI_STATE), tn__add_sat(filter, input));
    return tn__tflm_up(tn__add_sat(bytes, HIFI_BUS), HIFI_CHANNELS);
}

static tn_dtype hifi_type(const tflm_tensor *tensor) {
    return tensor != NULL ? tensor->dtype : TN_UNDEFINED;
}

/* Whether the library runs this convolution; otherwise the reference kernel does. */
static bool hifi_convolves(const tflm_model *model, const tflm_op *op, const tflm_window *w) {
    tn_dtype type = hifi_type(tn__tflm_input(model, op, 0));
    tn_dtype bias = hifi_type(tn__tflm_input(model, op, 2));
    bool fits = bias != TN_UNDEFINED && (type == TN_INT8 || (type == TN_INT16 && bias == TN_INT64));
    return fits && !w->dilated && w->ih >= w->fh && w->iw >= w->fw;
}

/* The extents of a TRANSPOSE_CONV, whose image is operand 2 and whose filter's first extent is the
 * number of results. */
static tflm_window hifi_transposed(const tflm_model *model, const tflm_op *op) {
    const tflm_tensor *image = tn__tflm_input(model, op, 2), *filter = tn__tflm_input(model, op, 1);
    const tflm_tensor *out = tn__tflm_output(model, op, 0);
    return (tflm_window){.ih = tn__tflm_extent(image, 1),
                         .iw = tn__tflm_extent(image, 2),
                         .ic = tn__tflm_extent(image, 3),
                         .fh = tn__tflm_extent(filter, 1),
                         .fw = tn__tflm_extent(filter, 2),
                         .oh = tn__tflm_extent(out, 1),
                         .ow = tn__tflm_extent(out, 2),
                         .oc = tn__tflm_extent(filter, 0),
                         .sw = tn__tflm_option(op, 1, 4, 1),
                         .sh = tn__tflm_option(op, 2, 4, 1)};
}

bool tn__tflm_hifi(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tflm_tensor *in = tn__tflm_input(model, op, 0);
    const tn_dtype filter = hifi_type(tn__tflm_input(model, op, 1));
    if (tn__tflm_named(op, "CONV_2D") || tn__tflm_named(op, "DEPTHWISE_CONV_2D")) {
        tflm_window w = tn__tflm_window(model, op);
        /* weights of 4 bits are unpacked first, as in the reference kernel */
        if (filter == TN_INT4) tn__tflm_reference(model, op, need);
        if (tn__tflm_named(op, "DEPTHWISE_CONV_2D")) {
            if (hifi_type(in) != TN_INT16)
                tn__tflm_scratch(need, w.dilated ? 0 : tn__tflm_hifi_depthwise(&w));
        } else if (hifi_convolves(model, op, &w)) {
            tn__tflm_scratch(need, tn__tflm_hifi_conv(&w, hifi_type(in) == TN_INT8 ? 1 : 2));
        }
        return true;
    }
    if (tn__tflm_named(op, "SOFTMAX")) {
        if (hifi_type(in) == TN_INT8)
            tn__tflm_scratch(need, tn__tflm_up(tn__mul_sat(4, tn__tflm_last_extent(in)), 8));
        return true;
    }
    if (tn__tflm_named(op, "TRANSPOSE_CONV")) {
        const tn_dtype type = hifi_type(tn__tflm_input(model, op, 2));
        const tflm_tensor *bias = tn__tflm_input(model, op, 3);
        tflm_window w = hifi_transposed(model, op);
        if (type != TN_INT8 && type != TN_INT16) return true;
        tn__tflm_scratch(need, tn__tflm_hifi_transpose(&w, type == TN_INT8 ? 1 : 2));
        if (type == TN_INT16 && hifi_type(bias) == TN_INT16)
            tn__tflm_scratch(need, tn__mul_sat(8, bias->elements));
        return true;
    }
    return false;
}
