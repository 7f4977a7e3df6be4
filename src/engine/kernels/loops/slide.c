/* slide.c - windows that slide over the spatial dimensions of convolutions and pools.
 *
 * All coordinates are computed in int64 and stay below 2^62 in magnitude: extents are at most 2^40,
 * and their products with strides and dilations are checked once, when the window is read.
 * Source: the ONNX specifications of Conv, ConvTranspose and MaxPool.
 */
#include "engine/kernels/loops/slide.h"

#define SLIDE_LIMIT (INT64_C(1) << 40)

/* --- attributes --- */

static tn_status slide_list(const tn_kernel_call *call, const char *name, uint32_t spatial,
                            int64_t *values) {
    uint32_t count;
    const int64_t *given = tn__attr_ints(call->op, name, &count);
    if (given != NULL && count != spatial)
        return tn__call_fail(call, TN_E_INVALID,
                             "attribute %s has %u values for %u spatial dimensions", name, count,
                             spatial);
    for (uint32_t d = 0; d < spatial; d++) {
        if (given != NULL) values[d] = given[d];
        if (values[d] < 1 || values[d] > INT32_MAX)
            return tn__call_fail(call, TN_E_INVALID, "attribute %s holds %lld", name,
                                 (long long)values[d]);
    }
    return TN_OK;
}

static tn_status slide_pads(const tn_kernel_call *call, tn__slide *slide) {
    uint32_t count;
    const int64_t *pads = tn__attr_ints(call->op, "pads", &count);
    const char *automatic = tn__attr_string(call->op, "auto_pad", "NOTSET");
    if (strncmp(automatic, "SAME", 4) == 0 || strcmp(automatic, "VALID") == 0 || pads == NULL)
        return TN_OK;
    if (count != 2 * slide->spatial)
        return tn__call_fail(call, TN_E_INVALID,
                             "attribute pads has %u values for %u spatial dimensions", count,
                             slide->spatial);
    for (uint32_t d = 0; d < slide->spatial; d++) {
        slide->begin[d] = pads[d];
        slide->end[d] = pads[slide->spatial + d];
        if (pads[d] < -INT32_MAX || pads[d] > INT32_MAX || slide->end[d] < -INT32_MAX ||
            slide->end[d] > INT32_MAX)
            return tn__call_fail(call, TN_E_INVALID, "attribute pads holds a value out of range");
    }
    return TN_OK;
}

/* Computes padding from the extents, for auto_pad SAME_* and for the attribute output_shape of a
 * transposed convolution. If the total padding is odd, the larger part is at the end with
 * SAME_UPPER, else at the beginning. */
static tn_status slide_same(const tn_kernel_call *call, tn__slide *slide) {
    const char *automatic = tn__attr_string(call->op, "auto_pad", "NOTSET");
    bool upper = strcmp(automatic, "SAME_UPPER") == 0;
    bool given = slide->transposed && tn__attr(call->op, "output_shape") != NULL;
    if (!given && strncmp(automatic, "SAME", 4) != 0) return TN_OK;
    uint32_t count;
    const int64_t *extra = tn__attr_ints(call->op, "output_padding", &count);
    for (uint32_t d = 0; d < slide->spatial; d++) {
        int64_t reach = (slide->kernel[d] - 1) * slide->dilation[d] + 1;
        int64_t wide = slide->transposed ? slide->input[d] : slide->output[d];
        int64_t narrow = slide->transposed ? slide->output[d] : slide->input[d];
        int64_t total = (wide - 1) * slide->stride[d] + reach - narrow;
        if (slide->transposed && d < count && extra[d] >= 0 && extra[d] < SLIDE_LIMIT)
            total += extra[d];
        if (total < 0) total = 0;
        slide->begin[d] = upper ? total / 2 : total - total / 2;
        slide->end[d] = total - slide->begin[d];
    }
    return TN_OK;
}

/* --- reading --- */

static tn_status slide_extents(const tn_kernel_call *call, tn__slide *slide) {
    slide->input_area = slide->output_area = slide->taps = slide->lines = slide->rows = 1;
    for (uint32_t d = 0; d < slide->spatial; d++) {
        int64_t reach, way, wide = slide->transposed ? slide->input[d] : slide->output[d];
        if (slide->kernel[d] < 0 || slide->kernel[d] > SLIDE_LIMIT ||
            slide->input[d] > SLIDE_LIMIT || slide->output[d] > SLIDE_LIMIT ||
            __builtin_mul_overflow(slide->kernel[d], slide->dilation[d], &reach) ||
            __builtin_mul_overflow(wide, slide->stride[d], &way) || reach > INT64_MAX / 4 ||
            way > INT64_MAX / 4 || !tn__mul(slide->taps, (uint64_t)slide->kernel[d], &slide->taps))
            return tn__call_fail(call, TN_E_INVALID, "spatial dimension %u is out of range", d);
        bool last = d + 1 == slide->spatial;
        slide->input_area *= (uint64_t)slide->input[d];
        slide->output_area *= (uint64_t)slide->output[d];
        slide->lines *= last ? 1 : (uint64_t)slide->output[d];
        slide->rows *= last ? 1 : (uint64_t)slide->kernel[d];
    }
    return TN_OK;
}

tn_status tn__slide_read(const tn_kernel_call *call, const tn_operand *input, const int64_t *kernel,
                         const tn_operand *output, bool transposed, tn__slide *slide) {
    uint32_t spatial = input->rank - 2;
    if (input->rank < 3 || spatial > TN__SLIDE_MAX || output->rank != input->rank)
        return tn__call_fail(call, TN_E_INVALID, "an input of rank %u for an output of rank %u",
                             input->rank, output->rank);
    *slide = (tn__slide){.spatial = spatial, .transposed = transposed};
    for (uint32_t d = 0; d < spatial; d++) {
        slide->stride[d] = slide->dilation[d] = slide->kernel[d] = 1;
        slide->input[d] = input->shape[2 + d];
        slide->output[d] = output->shape[2 + d];
    }
    TN_TRY(slide_list(call, "strides", spatial, slide->stride));
    TN_TRY(slide_list(call, "dilations", spatial, slide->dilation));
    TN_TRY(slide_list(call, "kernel_shape", spatial, slide->kernel));
    for (uint32_t d = 0; d < spatial && kernel != NULL; d++) {
        if (tn__attr(call->op, "kernel_shape") != NULL && slide->kernel[d] != kernel[d])
            return tn__call_fail(call, TN_E_INVALID,
                                 "attribute kernel_shape holds %lld for weights of %lld",
                                 (long long)slide->kernel[d], (long long)kernel[d]);
        slide->kernel[d] = kernel[d];
    }
    TN_TRY(slide_extents(call, slide));
    TN_TRY(slide_pads(call, slide));
    return slide_same(call, slide);
}

void tn__slide_flat(tn__slide *slide, uint64_t count) {
    *slide = (tn__slide){.spatial = 1,
                         .kernel = {1},
                         .stride = {1},
                         .dilation = {1},
                         .input = {(int64_t)count},
                         .output = {(int64_t)count},
                         .input_area = count,
                         .output_area = count,
                         .taps = 1,
                         .lines = 1,
                         .rows = 1};
}

bool tn__slide_is_flat(const tn__slide *slide) {
    for (uint32_t d = 0; d < slide->spatial; d++)
        if (slide->kernel[d] != 1 || slide->stride[d] != 1 || slide->begin[d] != 0 ||
            slide->input[d] != slide->output[d])
            return false;
    return true;
}

/* --- sliding --- */

static int64_t slide_up(int64_t a, int64_t b) { /* Returns a / b rounded up, for b > 0. */
    return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}
static int64_t slide_down(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a - 1) / b) - 1; }

/* Computes the input coordinate that window element `tap` reads for output coordinate `at` in
 * dimension d. Returns false if the element reads nothing there. */
static bool slide_source(const tn__slide *slide, uint32_t d, int64_t at, int64_t tap,
                         int64_t *source) {
    int64_t reach = tap * slide->dilation[d] - slide->begin[d];
    if (slide->transposed) {
        if (at < reach || (at - reach) % slide->stride[d] != 0) return false;
        *source = (at - reach) / slide->stride[d];
    } else {
        *source = at * slide->stride[d] + reach;
    }
    return *source >= 0 && *source < slide->input[d];
}

void tn__slide_position(const tn__slide *slide, uint64_t at, int64_t *position) {
    for (uint32_t d = slide->spatial; d-- > 0; at /= (uint64_t)slide->output[d])
        position[d] = (int64_t)(at % (uint64_t)slide->output[d]);
}

bool tn__slide_find(const tn__slide *slide, uint64_t line, uint64_t *next, tn__slide_rows *rows) {
    uint32_t last = slide->spatial - 1;
    int64_t position[TN__SLIDE_MAX];
    tn__slide_position(slide, line * (uint64_t)slide->output[last], position);
    rows->count = 0;
    for (; *next < slide->rows && rows->count < TN__SLIDE_FOUND; ++*next) {
        uint64_t left = *next, step = (uint64_t)slide->input[last], source = 0;
        bool inside = true;
        for (uint32_t d = last; inside && d-- > 0;) {
            int64_t at, kernel = slide->kernel[d];
            inside = slide_source(slide, d, position[d], (int64_t)(left % (uint64_t)kernel), &at);
            if (inside) source += (uint64_t)at * step;
            step *= (uint64_t)slide->input[d];
            left /= (uint64_t)kernel;
        }
        if (!inside) continue;
        rows->source[rows->count] = source;
        rows->tap[rows->count++] = *next * (uint64_t)slide->kernel[last];
    }
    return rows->count > 0;
}

tn__slide_run tn__slide_meet(const tn__slide *slide, uint64_t tap, uint64_t first, uint64_t count) {
    uint32_t d = slide->spatial - 1;
    int64_t stride = slide->stride[d], input = slide->input[d];
    int64_t reach = (int64_t)tap * slide->dilation[d] - slide->begin[d];
    int64_t least = (int64_t)first, most = (int64_t)(first + count), from, to;
    tn__slide_run run = {.target_step = 1, .source_step = (uint64_t)stride};
    if (slide->transposed) { /* the inputs [from, to) contribute to the outputs [least, most) */
        from = slide_up(least - reach, stride);
        to = slide_down(most - 1 - reach, stride) + 1;
        if (from < 0) from = 0;
        if (to > input) to = input;
        if (from >= to) return run;
        run = (tn__slide_run){.target = (uint64_t)(from * stride + reach - least),
                              .source = (uint64_t)from,
                              .target_step = (uint64_t)stride,
                              .source_step = 1};
    } else {
        from = slide_up(-reach, stride);
        to = slide_down(input - 1 - reach, stride) + 1;
        if (from < least) from = least;
        if (to > most) to = most;
        if (from >= to) return run;
        run.target = (uint64_t)(from - least);
        run.source = (uint64_t)(from * stride + reach);
    }
    run.count = (uint64_t)(to - from);
    return run;
}
