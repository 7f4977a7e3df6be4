/* tflm_esp.c - the scratch that ESP-NN's kernels request, by version and chip.
 *
 * Of the kernels that esp-tflite-micro replaces, CONV_2D, DEPTHWISE_CONV_2D and SOFTMAX ask the
 * library for their scratch, on int8 alone, in addition to that of the reference kernel. The
 * library has variants: for the ESP32-S3, for the ESP32-P4 (since 1.1.0), and a generic one for all
 * other chips, whose convolutions need nothing. Batches and dilation do not count. The rules are
 * the results of its esp_nn_get_..._scratch_size functions, restated.
 * `tests/import/test_micro_kernels.c` compares them with values that the library computed.
 *
 * Source: esp-nn 1.0.0 to 1.2.3, esp-tflite-micro 1.2.0 to 1.4.0.
 */
#include "io/import/tflm/tflm.h"

#define ESP_1_1_0 TFLM_VERSION(1, 1, 0)
#define ESP_1_2_0_1 (TFLM_VERSION(1, 2, 0) + 1)
#define ESP_1_2_1 TFLM_VERSION(1, 2, 1)
#define ESP_1_2_3 TFLM_VERSION(1, 2, 3)
#define ESP_S3_WHOLE 40960u /* a padded input of up to this size is copied as a whole */
#define ESP_S3_WIDE 49152u  /* limit of the size of filter and input, with two bytes per element */
#define ESP_P4_TILE 32768u  /* from this size of scratch on, the P4 works in tiles */

typedef struct esp_ask {
    uint32_t version;
    tflm_window w;
    uint64_t window; /* fh * fw, the number of taps */
} esp_ask;

static uint64_t esp_product(uint64_t a, uint64_t b, uint64_t c) {
    return tn__mul_sat(tn__mul_sat(a, b), c);
}
static uint64_t esp_sum(uint64_t a, uint64_t b, uint64_t c) {
    return tn__add_sat(tn__add_sat(a, b), c);
}
static uint64_t esp_less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* --- CONV_2D --- */

/* The bytes of a copy of the input with padding at all sides; 0 without padding. */
static uint64_t esp_padded(const tflm_window *w) {
    if (w->pw == 0 && w->ph == 0) return 0;
    return esp_product(w->iw + 2 * w->pw, w->ih + 2 * w->ph, w->ic);
}

static uint64_t esp_pointwise(const esp_ask *ask, uint64_t margin) {
    const tflm_window *w = &ask->w;
    uint64_t channels = tn__tflm_up(w->ic, 8), image = tn__mul_sat(w->ih, w->iw);
    uint64_t bytes = tn__add_sat(tn__mul_sat(channels, w->oc), margin);
    if (image >= 8) bytes = tn__add_sat(bytes, tn__mul_sat(16, channels));
    if (w->ic % 8 != 0) bytes = tn__add_sat(bytes, tn__mul_sat(image, channels));
    return bytes;
}

/* The bytes of the filter with channels rounded up to multiples of 16, the padded input, and sums
 * of the filter. */
static uint64_t esp_aligned(const esp_ask *ask, uint64_t margin) {
    const tflm_window *w = &ask->w;
    uint64_t filter = esp_product(ask->window, tn__tflm_up(w->ic, 16), w->oc);
    return esp_sum(tn__add_sat(esp_padded(w), filter), tn__mul_sat(4, w->oc), margin);
}

static bool esp_is_pointwise(const tflm_window *w) {
    return w->fh == 1 && w->fw == 1 && w->ph == 0 && w->pw == 0 && w->sh == 1 && w->sw == 1;
}

/* The scratch of the S3's convolution. Since 1.2.1 it depends on the size of a row of the window;
 * older versions only distinguish windows of one element. */
static uint64_t esp_conv_s3(const esp_ask *ask) {
    const tflm_window *w = &ask->w;
    uint64_t margin = ask->version >= ESP_1_2_3 ? 64 : 32;
    if (ask->version < ESP_1_2_1)
        return esp_is_pointwise(w) ? esp_pointwise(ask, 32) : esp_aligned(ask, 32);
    if (esp_is_pointwise(w)) return esp_pointwise(ask, margin);
    uint64_t row = tn__mul_sat(w->fw, w->ic), columns = tn__mul_sat(row, w->fh);
    if (row < 16 && columns >= 16) {
        uint64_t filter = tn__mul_sat(w->oc, tn__tflm_up(columns, 16));
        return esp_sum(tn__add_sat(tn__mul_sat(4, w->oc), filter), tn__tflm_up(columns, 16),
                       32 + margin);
    }
    uint64_t rows = esp_product(tn__tflm_up(row, 16), w->fh, w->oc);
    uint64_t right = esp_less(tn__add_sat(tn__mul_sat(w->ow, w->sw), w->fw - 1), w->iw);
    uint64_t bottom = esp_less(tn__add_sat(tn__mul_sat(w->oh, w->sh), w->fh - 1), w->ih);
    uint64_t copy = 0;
    if (right || bottom)
        copy = esp_product(tn__add_sat(w->iw, right), tn__add_sat(w->ih, bottom), w->ic);
    return esp_sum(esp_aligned(ask, margin), rows, copy);
}

/* The scratch of the P4's padded convolution if it does not fit as a whole: a tile with as many
 * rows as fit. */
static uint64_t esp_p4_tiles(const esp_ask *ask, uint64_t channels, uint64_t filter) {
    const tflm_window *w = &ask->w;
    uint64_t row = tn__mul_sat(tn__add_sat(w->iw, 2 * w->pw), channels);
    uint64_t fixed = tn__add_sat(tn__mul_sat(4, w->oc), filter), need = tn__mul_sat(w->fh, row);
    uint64_t rows = 1, step = tn__mul_sat(w->sh, row);
    if (fixed < ESP_P4_TILE && need <= ESP_P4_TILE - fixed && step > 0)
        rows = (ESP_P4_TILE - fixed - need) / step + 1;
    if (rows > w->oh) rows = w->oh;
    uint64_t high = esp_sum(tn__mul_sat(esp_less(rows, 1), w->sh), w->fh, 2 * w->ph);
    return esp_sum(tn__mul_sat(high, row), fixed, 32);
}

static uint64_t esp_conv_p4(const esp_ask *ask) {
    const tflm_window *w = &ask->w;
    uint64_t row = tn__mul_sat(w->fw, w->ic), columns = tn__mul_sat(row, w->fh);
    bool pointwise = esp_is_pointwise(w), padded = w->pw != 0 || w->ph != 0;
    if (ask->version < ESP_1_2_3) return pointwise ? esp_pointwise(ask, 32) : esp_aligned(ask, 32);
    if (pointwise && w->ic < 16) return tn__add_sat(tn__mul_sat(20, w->oc), 64);
    if (pointwise) return esp_pointwise(ask, 32);
    if (!padded && row >= 16) return esp_aligned(ask, 32);
    if (columns >= 16) return esp_sum(tn__mul_sat(4, w->oc), columns, 32);
    uint64_t each = tn__tflm_up((16 + w->fw - 1) / w->fw, 16);
    uint64_t filter = esp_product(ask->window, each, w->oc), sums = tn__mul_sat(4, w->oc);
    if (!padded) return esp_sum(tn__add_sat(sums, filter), esp_product(w->iw, w->ih, each), 32);
    if (tn__add_sat(esp_padded(w), sums) <= ESP_P4_TILE) return esp_aligned(ask, 32);
    return row < 16 ? esp_p4_tiles(ask, each, filter) : esp_p4_tiles(ask, w->ic, 0);
}

/* --- DEPTHWISE_CONV_2D of the S3 --- */

/* The scratch of a 3x3 kernel with channels in multiples of 16: the filter, and a copy of the input
 * if it needs padding. */
static uint64_t esp_depthwise_3x3(const esp_ask *ask, uint64_t filter) {
    const tflm_window *w = &ask->w;
    bool padded = w->pw != 0 || w->ph != 0;
    uint64_t right = tn__add_sat(tn__mul_sat(w->ow, w->sw), w->fw - 1);
    uint64_t bottom = tn__add_sat(tn__mul_sat(w->oh, w->sh), w->fh - 1);
    uint64_t wide = padded ? w->iw + 2 * w->pw : right, high = padded ? w->ih + 2 * w->ph : bottom;
    uint64_t copy = esp_product(wide, high, w->ic);
    if (wide == w->iw && high == w->ih) copy = 0;
    if (ask->version >= ESP_1_2_1 && copy > ESP_S3_WHOLE) copy = esp_product(wide, 3, w->ic);
    return esp_sum(filter, copy, 16);
}

/* The scratch of a 3x3 kernel with channels that are filled up to a multiple of 16: copies of
 * filter, input and output. */
static uint64_t esp_depthwise_filled(const tflm_window *w) {
    uint64_t channels = tn__tflm_up(w->ic, 16);
    uint64_t right = esp_less(tn__add_sat(tn__mul_sat(w->ow, w->sw), 2), w->iw);
    uint64_t bottom = esp_less(tn__add_sat(tn__mul_sat(w->oh, w->sh), 2), w->ih);
    uint64_t wide = esp_sum(w->iw, 2 * w->pw, right), high = esp_sum(w->ih, 2 * w->ph, bottom);
    uint64_t image =
        tn__add_sat(esp_product(wide, high, channels), esp_product(w->ow, w->oh, channels));
    return esp_sum(tn__mul_sat(9, channels), image, 64);
}

/* The scratch for any number of channels, filled up to a multiple of 8, with two bytes per element;
 * also bias, multiplier and shift of each channel. */
static uint64_t esp_depthwise_any(const esp_ask *ask) {
    const tflm_window *w = &ask->w;
    uint64_t channels = tn__tflm_up(w->ic, 8);
    uint64_t at = tn__tflm_up(tn__mul_sat(2, tn__mul_sat(ask->window, channels)), 16);
    at = tn__add_sat(at, tn__mul_sat(2, esp_product(w->iw, w->ih, channels)));
    at = tn__add_sat(tn__tflm_up(at, 16), esp_product(w->ow, w->oh, channels));
    return esp_sum(tn__tflm_up(at, 16), tn__mul_sat(12, channels), 16);
}

static uint64_t esp_depthwise_s3(const esp_ask *ask) {
    const tflm_window *w = &ask->w;
    uint64_t filter = esp_product(ask->window, w->ic, w->multiplier);
    uint64_t both = tn__mul_sat(2, tn__add_sat(filter, esp_product(w->iw, w->ih, w->ic)));
    bool one = w->multiplier == 1, eights = w->ic % 8 == 0, late = ask->version >= ESP_1_2_1;
    bool is_3x3 = w->fw == 3 && w->fh == 3;
    uint64_t margin = ask->version >= ESP_1_2_0_1 ? 32 : 16;
    if (one && w->ic % 16 == 0 && is_3x3) return esp_depthwise_3x3(ask, filter);
    if (one && eights && is_3x3)
        return late && w->ic >= 12 ? esp_depthwise_filled(w) : tn__add_sat(both, margin);
    if (late && one && eights && both > ESP_S3_WIDE) {
        uint64_t strip = tn__mul_sat(2, esp_product(w->iw, w->fh, w->ic));
        return esp_sum(tn__mul_sat(2, filter), strip, 32);
    }
    if (late && one && eights) return tn__add_sat(both, 32);
    if (late && one && w->ic > 3) return esp_depthwise_any(ask);
    return w->multiplier % 4 == 0 ? tn__add_sat(both, margin) : 32;
}

/* --- the scratch of one operator --- */

uint64_t tn__tflm_esp_window(uint32_t version, tn_micro_target target, bool depthwise,
                             const tflm_window *w) {
    esp_ask ask = {.version = version, .w = *w, .window = tn__mul_sat(w->fh, w->fw)};
    if (target == TN_MICRO_ESP32_S3) return depthwise ? esp_depthwise_s3(&ask) : esp_conv_s3(&ask);
    bool p4 = target == TN_MICRO_ESP32_P4 && version >= ESP_1_1_0;
    return p4 && !depthwise ? esp_conv_p4(&ask) : 0;
}

/* The scratch of SOFTMAX. The kernel passes the first two extents after the batch; the size
 * function uses only the first one. */
static uint64_t esp_softmax(const tflm_model *model, const tflm_op *op) {
    const tflm_tensor *in = tn__tflm_input(model, op, 0), *out = tn__tflm_output(model, op, 0);
    if (out == NULL || out->dtype != TN_INT8) return 0;
    return tn__mul_sat(4, in->rank > 1 ? tn__tflm_extent(in, 1) : tn__tflm_last_extent(in));
}

bool tn__tflm_esp(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    tn_micro_target target = model->options->target;
    const tflm_tensor *in = tn__tflm_input(model, op, 0);
    uint64_t bytes = 0;
    tn__tflm_reference(model, op, need);
    if (in == NULL || in->dtype != TN_INT8) return true;
    if (tn__tflm_named(op, "SOFTMAX")) bytes = esp_softmax(model, op);
    bool conv = tn__tflm_named(op, "CONV_2D"), depthwise = tn__tflm_named(op, "DEPTHWISE_CONV_2D");
    if (conv || depthwise) {
        tflm_window w = tn__tflm_window(model, op);
        bytes = tn__tflm_esp_window(model->build->version, target, depthwise, &w);
    }
    if (bytes) tn__tflm_scratch(need, bytes);
    return true;
}
