/* tflm_cmsis.c - the scratch that CMSIS-NN's kernels request, by version, core and compiler.
 *
 * The kernels of TensorFlow Lite Micro ask the library's ..._get_buffer_size functions while they
 * prepare, and request nothing if the answer is 0. The rules here are those functions' results,
 * restated. `tests/import/test_micro_kernels.c` compares them with values that the library
 * computed. There are different kernels for three kinds of cores: scalar, with DSP, and with
 * vectors (MVE). Since 7.0.0 the compiler armclang gets other kernels than GCC. Under
 * KERNELS_OPTIMIZED_FOR_SPEED sums of constant weights are persistent.
 *
 * Source: CMSIS-NN 4.1.0, 5.0.0, 6.0.0, 7.0.0 and its main branch of July 2026; kernels/cmsis_nn of
 * tflite-micro of August 2026.
 */
#include "io/import/tflm/tflm.h"

#define CMSIS_5 TFLM_VERSION(5, 0, 0)
#define CMSIS_6 TFLM_VERSION(6, 0, 0)
#define CMSIS_7 TFLM_VERSION(7, 0, 0)
#define CMSIS_MAIN TFLM_VERSION(99, 0, 0)
#define CMSIS_MATMUL 20240909u /* the run time's first revision with a BATCH_MATMUL of CMSIS-NN */
/* number of channels that the vector kernel of DEPTHWISE_CONV_2D copies at once */
#define CMSIS_MVE_CHANNELS 124u
/* with fewer columns than this, CMSIS-NN 5.0.0 uses its fast int16 convolution */
#define CMSIS_FAST_COLUMNS 512u
#define CMSIS_REVERSE_CHANNELS 16u

typedef enum cmsis_core { CMSIS_SCALAR, CMSIS_DSP, CMSIS_MVE } cmsis_core;

static cmsis_core cmsis_core_of(tn_micro_target target) {
    if (target == TN_MICRO_CORTEX_M_HELIUM) return CMSIS_MVE;
    return target == TN_MICRO_CORTEX_M ? CMSIS_DSP : CMSIS_SCALAR;
}

typedef struct cmsis_ask {
    const tflm_build *build;
    cmsis_core core;
    bool wide; /* true: activations are int16 */
    tflm_window w;
} cmsis_ask;

static bool cmsis_from(const cmsis_ask *ask, uint32_t version) {
    return ask->build->version >= version;
}

/* --- CONV_2D --- */

static uint64_t cmsis_columns(const tflm_window *w) {
    return tn__mul_sat(tn__mul_sat(w->fh, w->fw), w->ic);
}

/* The scratch of the general int8 convolution. */
static uint64_t cmsis_general(const cmsis_ask *ask) {
    uint64_t columns = cmsis_columns(&ask->w), unit = 1;
    if (ask->core == CMSIS_MVE)
        unit = cmsis_from(ask, CMSIS_6) ? 16 : 8;
    else if (cmsis_from(ask, CMSIS_5))
        unit = 4;
    return tn__mul_sat(4, tn__tflm_up(columns, unit));
}

/* The scratch of the vector kernel for one row, since 6.0.0: a copy of a padded part of the row. */
static uint64_t cmsis_row(const cmsis_ask *ask) {
    const tflm_window *w = &ask->w;
    int64_t stride = (int64_t)w->sw, pad = (int64_t)w->pw;
    int64_t total = ((int64_t)w->ow - 1) * stride + (int64_t)w->fw - (int64_t)w->iw;
    int64_t odd = total % 2; /* the remainder has the sign of the dividend */
    int64_t right = 0, left = 0;
    if (pad + odd != 0) right = (pad + odd + stride - 1) / stride;
    if (pad + odd != 0 && right < 1) right = 1;
    if (pad != 0) left = (pad + stride - 1) / stride;
    int64_t middle = (int64_t)w->ow - right - left;
    if (middle < 0) return cmsis_general(ask);
    uint64_t filter = tn__mul_sat(w->fw, w->ic), at_left = tn__mul_sat(w->pw, w->ic);
    uint64_t at_right = odd != 0 ? tn__mul_sat((uint64_t)right, w->ic) : at_left;
    uint64_t whole = tn__add_sat(filter, at_left);
    uint64_t part = tn__add_sat(filter - w->ic, at_right);
    return whole > part ? whole : part;
}

static uint64_t cmsis_conv_int8(const cmsis_ask *ask) {
    const tflm_window *w = &ask->w;
    bool grouped = cmsis_from(ask, CMSIS_MAIN) && w->filter_channels != w->ic;
    bool is_pointwise = w->fh == 1 && w->fw == 1 && w->ph == 0 && w->pw == 0;
    if (is_pointwise && !w->dilated && !grouped) {
        bool fast = ask->core == CMSIS_DSP && ask->build->armclang && w->sh == 1 && w->sw == 1;
        return fast && cmsis_from(ask, CMSIS_7) ? tn__mul_sat(4, w->ic) : 0;
    }
    bool is_row = w->ih == 1 && w->fh == 1 && !w->dilated && tn__mul_sat(w->sw, w->ic) % 4 == 0;
    if (!is_row || grouped || ask->core != CMSIS_MVE) return cmsis_general(ask);
    return cmsis_from(ask, CMSIS_6) ? cmsis_row(ask) : 0;
}

static uint64_t cmsis_conv_int16(const cmsis_ask *ask) {
    uint64_t columns = cmsis_columns(&ask->w);
    if (cmsis_from(ask, CMSIS_6) && ask->core == CMSIS_MVE)
        return tn__mul_sat(8, tn__tflm_up(columns, 8));
    if (cmsis_from(ask, CMSIS_6)) return tn__mul_sat(4, columns);
    if (ask->core != CMSIS_DSP || columns >= CMSIS_FAST_COLUMNS || ask->w.dilated) return 0;
    return tn__mul_sat(4, columns);
}

/* --- DEPTHWISE_CONV_2D --- */

/* The scratch of a DEPTHWISE_CONV_2D that becomes a convolution, on a core with vectors and for one
 * input channel. The run time leaves the stride undefined when it calls the size function, so this
 * is the larger of both results if `most`, otherwise the smaller one. */
static uint64_t cmsis_as_conv(const cmsis_ask *ask, bool most) {
    cmsis_ask one = *ask;
    uint64_t filter = tn__mul_sat(tn__mul_sat(ask->w.fh, ask->w.fw), ask->w.oc);
    one.w.filter_channels = 1;
    uint64_t bytes = cmsis_conv_int8(&one), general = cmsis_general(&one);
    bool is_row = one.w.ih == 1 && one.w.fh == 1 && !one.w.dilated;
    bool is_pointwise = one.w.fh == 1 && one.w.fw == 1 && one.w.ph == 0 && one.w.pw == 0;
    if (is_row && !is_pointwise) {
        /* with this stride, the kernel counts the convolution as one of a single row */
        one.w.sw = 4;
        uint64_t row = cmsis_conv_int8(&one);
        uint64_t high = general > row ? general : row, low = general < row ? general : row;
        bytes = most ? high : low;
    }
    return tn__add_sat(bytes, filter);
}

static uint64_t cmsis_depthwise(const cmsis_ask *ask, bool packed, bool most) {
    const tflm_window *w = &ask->w;
    uint64_t window = tn__mul_sat(w->fh, w->fw), limit = ask->build->armclang ? 8 : 1;
    /* a convolution on int16 runs in the reference kernel, which needs no scratch */
    if (ask->wide) return 0;
    if (!packed && ask->core == CMSIS_MVE && cmsis_from(ask, CMSIS_7) && w->ic == 1 &&
        w->oc > limit)
        return cmsis_as_conv(ask, most);
    if (w->ic != w->oc || w->batch != 1 || w->dilated) return 0;
    bool vectors = ask->core == CMSIS_MVE && (!packed || cmsis_from(ask, CMSIS_6));
    if (vectors) return tn__mul_sat(4 * CMSIS_MVE_CHANNELS, window);
    if (packed) return tn__mul_sat(tn__mul_sat(2, window), w->ic);
    if (ask->core != CMSIS_DSP || (w->fh == 3 && w->fw == 3 && w->ph <= 1 && w->pw <= 1)) return 0;
    return tn__mul_sat(tn__mul_sat(2, window), w->ic);
}

/* --- TRANSPOSE_CONV --- */

/* Adds the scratch requests of the kernel: one before 7.0.0, two since then. The second one may
 * have 0 bytes, but still gets a handle. */
static void cmsis_transposed(const tflm_model *model, const tflm_op *op, const cmsis_ask *ask,
                             tflm_need *need) {
    const tflm_tensor *filter = tn__tflm_input(model, op, 1), *in = tn__tflm_input(model, op, 2);
    const tflm_tensor *out = tn__tflm_output(model, op, 0);
    uint64_t sw = tn__tflm_option(op, 1, 4, 1), sh = tn__tflm_option(op, 2, 4, 1);
    cmsis_ask as = *ask;
    as.w = (tflm_window){.fh = tn__tflm_extent(filter, 1),
                         .fw = tn__tflm_extent(filter, 2),
                         .ic = tn__tflm_extent(in, 3)};
    uint64_t window = tn__mul_sat(as.w.fh, as.w.fw), oc = tn__tflm_extent(out, 3);
    uint64_t ih = tn__tflm_extent(in, 1), iw = tn__tflm_extent(in, 2);
    if (!cmsis_from(ask, CMSIS_7)) {
        uint64_t image = tn__mul_sat(tn__mul_sat(ih, iw), oc);
        tn__tflm_scratch(need, tn__mul_sat(tn__mul_sat(4, window), image));
        return;
    }
    if (sw <= 2 && sh <= 2 && as.w.ic > CMSIS_REVERSE_CHANNELS) {
        tn__tflm_scratch(need, cmsis_general(&as));
        tn__tflm_scratch(need, tn__mul_sat(tn__mul_sat(window, as.w.ic), oc));
        return;
    }
    uint64_t wide = as.w.fw > sh ? as.w.fw : sh, high = as.w.fh > sh ? as.w.fh : sh;
    uint64_t row = tn__add_sat(tn__mul_sat(iw > 0 ? iw - 1 : 0, sw), wide);
    tn__tflm_scratch(need, tn__mul_sat(tn__mul_sat(4, high), tn__mul_sat(row, oc)));
    tn__tflm_scratch(need, 0);
}

/* --- FULLY_CONNECTED, SVDF, BATCH_MATMUL, LSTM --- */

static void cmsis_dense(const tflm_model *model, const tflm_op *op, const cmsis_ask *ask,
                        tflm_need *need) {
    const tflm_tensor *filter = tn__tflm_input(model, op, 1), *bias = tn__tflm_input(model, op, 2);
    const tflm_tensor *out = tn__tflm_output(model, op, 0);
    uint64_t channels = tn__tflm_last_extent(out), depth = tn__tflm_last_extent(filter);
    if (ask->wide || (filter != NULL && filter->dtype == TN_INT4)) return;
    if (out != NULL && out->rank > 2 && depth % 4 == 0 && cmsis_from(ask, CMSIS_5)) {
        bool per_channel = filter != NULL && filter->channels > 1;
        if (!per_channel) tn__tflm_scratch(need, tn__mul_sat(8, channels));
        if (ask->core == CMSIS_DSP && ask->build->armclang && cmsis_from(ask, CMSIS_7))
            tn__tflm_scratch(need, tn__mul_sat(4, depth));
        return;
    }
    if (ask->core != CMSIS_MVE || !cmsis_from(ask, CMSIS_5)) return;
    bool constant = filter != NULL && filter->is_constant && (bias == NULL || bias->is_constant);
    if (constant && !ask->build->small)
        tn__tflm_buffer(need, tn__mul_sat(4, channels));
    else
        tn__tflm_scratch(need, tn__mul_sat(4, channels));
}

static void cmsis_svdf(const tflm_model *model, const tflm_op *op, const cmsis_ask *ask,
                       tflm_need *need) {
    uint64_t filters = tn__tflm_extent(tn__tflm_input(model, op, 1), 0);
    tn__tflm_reference(model, op, need);
    if (ask->core != CMSIS_MVE || !cmsis_from(ask, CMSIS_5)) return;
    if (ask->build->small)
        tn__tflm_scratch(need, tn__mul_sat(4, filters));
    else
        tn__tflm_buffer(need, tn__mul_sat(4, filters));
}

static void cmsis_lstm(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tflm_tensor *in = tn__tflm_input(model, op, 0), *cell = tn__tflm_input(model, op, 19);
    bool whole = cell != NULL && cell->dtype == TN_INT16;
    uint64_t sum = in != NULL && in->dtype == TN_INT16 ? 8 : 4;
    if (!whole) {
        tn__tflm_reference(model, op, need);
        return;
    }
    for (uint32_t i = 0; i < 3; i++) tn__tflm_scratch(need, cell->bytes);
    for (uint32_t i = 0; i < 8; i++)
        tn__tflm_buffer(need, tn__mul_sat(sum, tn__tflm_last_extent(cell)));
}

uint64_t tn__tflm_cmsis_window(const tflm_build *build, tn_micro_target target, bool depthwise,
                               bool wide, bool packed, bool most, const tflm_window *w) {
    cmsis_ask ask = {.build = build, .core = cmsis_core_of(target), .wide = wide, .w = *w};
    if (depthwise) return cmsis_depthwise(&ask, packed, most);
    return wide ? cmsis_conv_int16(&ask) : cmsis_conv_int8(&ask);
}

static void cmsis_convolution(const tflm_model *model, const tflm_op *op, const cmsis_ask *ask,
                              tflm_need *need) {
    const tflm_tensor *filter = tn__tflm_input(model, op, 1), *bias = tn__tflm_input(model, op, 2);
    bool packed = filter != NULL && filter->dtype == TN_INT4, most = model->options->most;
    bool depthwise = tn__tflm_named(op, "DEPTHWISE_CONV_2D");
    bool fast = bias == NULL || bias->dtype == TN_INT64 || (bias->dtype == TN_INT32 && most);
    tflm_window w = tn__tflm_window(model, op);
    if (packed && !cmsis_from(ask, CMSIS_5)) tn__tflm_scratch(need, filter->elements);
    if (ask->wide && !depthwise && !fast) return;
    uint64_t bytes = tn__tflm_cmsis_window(ask->build, model->options->target, depthwise, ask->wide,
                                           packed, most, &w);
    if (bytes) tn__tflm_scratch(need, bytes);
}

bool tn__tflm_cmsis(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tflm_tensor *in = tn__tflm_input(model, op, 0);
    cmsis_ask ask = {.build = model->build, .core = cmsis_core_of(model->options->target)};
    if (tn__tflm_named(op, "TRANSPOSE_CONV")) in = tn__tflm_input(model, op, 2);
    ask.wide = in != NULL && in->dtype == TN_INT16;
    if (in == NULL || (in->dtype != TN_INT8 && !ask.wide)) return false;
    if (tn__tflm_named(op, "CONV_2D") || tn__tflm_named(op, "DEPTHWISE_CONV_2D")) {
        cmsis_convolution(model, op, &ask, need);
    } else if (tn__tflm_named(op, "AVERAGE_POOL_2D")) {
        uint64_t channels = tn__tflm_extent(in, 3);
        if (ask.core == CMSIS_DSP && channels) tn__tflm_scratch(need, tn__mul_sat(4, channels));
    } else if (tn__tflm_named(op, "FULLY_CONNECTED")) {
        cmsis_dense(model, op, &ask, need);
    } else if (tn__tflm_named(op, "TRANSPOSE_CONV") && !ask.wide && cmsis_from(&ask, CMSIS_5)) {
        cmsis_transposed(model, op, &ask, need);
    } else if (tn__tflm_named(op, "SVDF") && !ask.wide) {
        cmsis_svdf(model, op, &ask, need);
    } else if (tn__tflm_named(op, "UNIDIRECTIONAL_SEQUENCE_LSTM")) {
        cmsis_lstm(model, op, need);
    } else if (tn__tflm_named(op, "BATCH_MATMUL") && ask.core == CMSIS_MVE && !ask.wide &&
               ask.build->runtime >= CMSIS_MATMUL && cmsis_from(&ask, CMSIS_5)) {
        tn__tflm_reference(model, op, need);
        tn__tflm_scratch(need, tn__mul_sat(4, tn__tflm_last_extent(tn__tflm_output(model, op, 0))));
    } else {
        return false;
    }
    return true;
}
