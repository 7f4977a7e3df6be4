/* Convolutions and pools in plain loops against their definitions, element by element. */
#include "count.h"
#include "nn.h"

/* --- random windows --- */

typedef struct window {
    uint32_t spatial;
    int64_t kernel[3], stride[3], dilation[3], begin[3], end[3], input[3];
    const char *automatic; /* NULL: pads are given */
} window;

static void window_draw(tn__random *random, window *w) {
    static const char *const names[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    w->spatial = (uint32_t)nn_in(random, 1, 3);
    w->automatic = nn_often(random, 3) ? NULL : names[tn__random_below(random, 3)];
    for (uint32_t d = 0; d < w->spatial; d++) {
        bool last = d + 1 == w->spatial;
        w->kernel[d] = nn_in(random, 1, 4);
        w->stride[d] = nn_often(random, 3) ? 1 : nn_in(random, 1, 3);
        w->dilation[d] = nn_often(random, 3) ? 1 : nn_in(random, 1, 3);
        w->begin[d] = nn_often(random, 2) ? 0 : nn_in(random, 0, w->kernel[d] - 1);
        w->end[d] = nn_often(random, 2) ? 0 : nn_in(random, 0, w->kernel[d] - 1);
        int64_t least = (w->kernel[d] - 1) * w->dilation[d] + 1; /* it fits without padding */
        w->input[d] = least + nn_in(random, 0, last && !nn_often(random, 4) ? 150 : 6);
    }
}

static void window_attrs(nn_op *op, const window *w, bool dilations) {
    int64_t pads[6];
    for (uint32_t d = 0; d < w->spatial; d++) {
        pads[d] = w->begin[d];
        pads[w->spatial + d] = w->end[d];
    }
    nn_ints(op, "kernel_shape", w->spatial, w->kernel);
    nn_ints(op, "strides", w->spatial, w->stride);
    if (dilations) nn_ints(op, "dilations", w->spatial, w->dilation);
    if (w->automatic != NULL)
        nn_string(op, "auto_pad", w->automatic);
    else
        nn_ints(op, "pads", 2 * w->spatial, pads);
}

/* The padding that auto_pad means, by its definition in the operators' text. */
static void window_pad(window *w, const kit_array *output) {
    for (uint32_t d = 0; d < w->spatial && w->automatic != NULL; d++) {
        int64_t total = (output->shape[2 + d] - 1) * w->stride[d] +
                        (w->kernel[d] - 1) * w->dilation[d] + 1 - w->input[d];
        if (total < 0 || strcmp(w->automatic, "VALID") == 0) total = 0;
        w->begin[d] = strcmp(w->automatic, "SAME_UPPER") == 0 ? total / 2 : total - total / 2;
        w->end[d] = total - w->begin[d];
    }
}

/* Tap number `tap` of the window. */
static void window_tap(const window *w, int64_t tap, int64_t *at) {
    for (uint32_t d = w->spatial; d-- > 0; tap /= w->kernel[d]) at[d] = tap % w->kernel[d];
}
static int64_t window_taps(const window *w) {
    int64_t taps = 1;
    for (uint32_t d = 0; d < w->spatial; d++) taps *= w->kernel[d];
    return taps;
}

/* --- convolutions --- */

typedef struct conv_want { /* sums, and sums of magnitudes */
    double *sum, *size;
} conv_want;

/* Adds what one pair of channel and filter contributes: each input meets each output that some tap
 * brings it to. A transposed convolution goes from inputs to outputs, a plain one the other way. */
static void conv_pair(const window *w, bool transposed, const kit_array *x, int64_t image,
                      int64_t channel, const kit_array *y, int64_t filter, const double *weights,
                      double zero, conv_want *want) {
    const kit_array *from = transposed ? x : y, *to = transposed ? y : x;
    int64_t at[5], other[5], tap_at[3], area = 1;
    for (uint32_t d = 0; d < w->spatial; d++) area *= from->shape[2 + d];
    for (int64_t i = 0; i < area; i++)
        for (int64_t tap = 0; tap < window_taps(w); tap++) {
            nn_position(from, (uint64_t)i, at);
            window_tap(w, tap, tap_at);
            at[0] = other[0] = image;
            at[1] = transposed ? channel : filter;
            other[1] = transposed ? filter : channel;
            for (uint32_t d = 0; d < w->spatial; d++)
                other[2 + d] = at[2 + d] * w->stride[d] + tap_at[d] * w->dilation[d] - w->begin[d];
            int64_t place = nn_place(to, other), here = nn_place(from, at);
            if (place < 0) continue;
            int64_t out = transposed ? place : here, in = transposed ? here : place;
            double term = (number_get(x, (uint64_t)in) - zero) * weights[tap];
            want->sum[out] += term;
            want->size[out] += fabs(term);
        }
}

typedef struct conv_case {
    window w;
    bool transposed;
    int64_t batch, group, channels, filters; /* of a group */
} conv_case;

static double conv_zero_of(const nn_op *op, uint32_t input, int64_t filter) {
    const kit_array *zero = input < op->input_count ? op->inputs[input] : NULL;
    return zero == NULL ? 0 : number_get(zero, kit_count(zero) == 1 ? 0 : (uint64_t)filter);
}

/* All sums without bias; the caller frees them. */
static conv_want conv_expect(const nn_op *op, const conv_case *c, uint32_t weights,
                             uint32_t input_zero, uint32_t weights_zero) {
    const kit_array *x = op->inputs[0], *w = op->inputs[weights], *y = &op->outputs[0];
    size_t count = (size_t)kit_count(y);
    conv_want want = {calloc(count + 1, sizeof(double)), calloc(count + 1, sizeof(double))};
    int64_t taps = window_taps(&c->w);
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t g = 0; g < c->group; g++)
            for (int64_t f = 0; f < c->filters; f++)
                for (int64_t k = 0; k < c->channels; k++) {
                    double values[64];
                    int64_t filter = g * c->filters + f, channel = g * c->channels + k;
                    int64_t at =
                        c->transposed ? channel * c->filters + f : filter * c->channels + k;
                    for (int64_t t = 0; t < taps; t++)
                        values[t] = number_get(w, (uint64_t)(at * taps + t)) -
                                    conv_zero_of(op, weights_zero, filter);
                    conv_pair(&c->w, c->transposed, x, n, channel, y, filter, values,
                              conv_zero_of(op, input_zero, 0), &want);
                }
    return want;
}

static conv_case conv_draw(tn__random *random, bool transposed) {
    conv_case c = {.transposed = transposed,
                   .batch = nn_in(random, 1, 2),
                   .group = nn_often(random, 2) ? 1 : nn_in(random, 1, 3),
                   .channels = nn_in(random, 1, 5),
                   .filters = nn_in(random, 1, 11)};
    window_draw(random, &c.w);
    return c;
}

static void conv_shapes(const conv_case *c, int64_t *x, int64_t *w) {
    x[0] = c->batch;
    x[1] = c->group * c->channels;
    w[0] = c->transposed ? x[1] : c->group * c->filters;
    w[1] = c->transposed ? c->filters : c->channels;
    for (uint32_t d = 0; d < c->w.spatial; d++) {
        x[2 + d] = c->w.input[d];
        w[2 + d] = c->w.kernel[d];
    }
}

static int64_t conv_filter_of(const kit_array *y, uint64_t i) {
    int64_t position[5];
    nn_position(y, i, position);
    return position[1];
}

static void conv_compare(const nn_op *op, conv_want *want, uint64_t seed) {
    const kit_array *y = &op->outputs[0], *bias = op->input_count > 2 ? op->inputs[2] : NULL;
    for (uint64_t i = 0; i < kit_count(y); i++) {
        double more = bias != NULL ? number_get(bias, (uint64_t)conv_filter_of(y, i)) : 0;
        nn_near(op, 0, i, want->sum[i] + more, want->size[i] + fabs(more), seed);
    }
    free(want->sum);
    free(want->size);
}

static void a_convolution_is_the_sum_over_its_taps(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(250, 25); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "Conv", .version = 11};
        conv_case c = conv_draw(&random, false);
        int64_t x[5], w[5], filters = c.group * c.filters;
        tn_dtype dtype = nn_real(&random);
        conv_shapes(&c, x, w);
        nn_input(&op, &random, 0, dtype, 2 + c.w.spatial, x, -1, 1);
        nn_input(&op, &random, 1, dtype, 2 + c.w.spatial, w, -1, 1);
        if (nn_often(&random, 2)) nn_input(&op, &random, 2, dtype, 1, &filters, -1, 1);
        window_attrs(&op, &c.w, true);
        nn_int(&op, "group", c.group);
        nn_run_well(&op, -1);
        window_pad(&c.w, &op.outputs[0]);
        conv_want want = conv_expect(&op, &c, 1, UINT32_MAX, UINT32_MAX);
        conv_compare(&op, &want, seed);
        nn_clear(&op);
    }
}

/* Padding of a transposed convolution whose output is given, or follows from auto_pad. */
static void conv_pad_transposed(window *w, const kit_array *y, const int64_t *extra) {
    for (uint32_t d = 0; d < w->spatial; d++) {
        int64_t total = w->stride[d] * (w->input[d] - 1) + extra[d] +
                        (w->kernel[d] - 1) * w->dilation[d] + 1 - y->shape[2 + d];
        bool upper = w->automatic != NULL && strcmp(w->automatic, "SAME_UPPER") == 0;
        if (total < 0) total = 0;
        w->begin[d] = upper ? total / 2 : total - total / 2;
    }
}

static void a_transposed_convolution_spreads_its_inputs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(250, 25); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "ConvTranspose", .version = 11};
        conv_case c = conv_draw(&random, true);
        int64_t x[5], w[5], filters = c.group * c.filters, extra[3] = {0}, given[3];
        tn_dtype dtype = nn_real(&random);
        bool valid = c.w.automatic != NULL && strcmp(c.w.automatic, "VALID") == 0;
        bool stated = c.w.automatic == NULL && !nn_often(&random, 4);
        conv_shapes(&c, x, w);
        for (uint32_t d = 0; d < c.w.spatial; d++) {
            int64_t reach = (c.w.kernel[d] - 1) * c.w.dilation[d];
            extra[d] = nn_in(&random, 0, c.w.stride[d] - 1);
            if (valid || stated) c.w.begin[d] = c.w.end[d] = 0;
            given[d] = (c.w.input[d] - 1) * c.w.stride[d] + 1 + nn_in(&random, 0, reach);
        }
        nn_input(&op, &random, 0, dtype, 2 + c.w.spatial, x, -1, 1);
        nn_input(&op, &random, 1, dtype, 2 + c.w.spatial, w, -1, 1);
        if (nn_often(&random, 2)) nn_input(&op, &random, 2, dtype, 1, &filters, -1, 1);
        window_attrs(&op, &c.w, true);
        nn_ints(&op, "output_padding", c.w.spatial, extra);
        if (stated) nn_ints(&op, "output_shape", c.w.spatial, given);
        nn_int(&op, "group", c.group);
        nn_run_well(&op, -1);
        if (stated || (c.w.automatic != NULL && !valid))
            conv_pad_transposed(&c.w, &op.outputs[0], extra);
        conv_want want = conv_expect(&op, &c, 1, UINT32_MAX, UINT32_MAX);
        conv_compare(&op, &want, seed);
        nn_clear(&op);
    }
}

static void convolutions_of_bytes_are_exact(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(150, 15); seed++) {
        tn__random random = {seed};
        bool requantises = nn_often(&random, 2);
        nn_op op = {.type = requantises ? "QLinearConv" : "ConvInteger", .version = 10};
        conv_case c = conv_draw(&random, false);
        int64_t x[5], w[5], one = 1, filters = c.group * c.filters;
        tn_dtype of_x = nn_often(&random, 2) ? TN_UINT8 : TN_INT8;
        tn_dtype of_w = nn_often(&random, 2) ? TN_UINT8 : TN_INT8;
        tn_dtype of_y = nn_often(&random, 2) ? TN_UINT8 : TN_INT8;
        int64_t each = nn_often(&random, 2) ? 1 : filters;
        uint32_t weights = requantises ? 3 : 1, zero = requantises ? 5 : 3;
        conv_shapes(&c, x, w);
        nn_input(&op, &random, 0, of_x, 2 + c.w.spatial, x, -128, 128);
        nn_input(&op, &random, weights, of_w, 2 + c.w.spatial, w, -128, 128);
        nn_input(&op, &random, 2, of_x, requantises, &one, -9, 9);
        nn_input(&op, &random, zero, of_w, 1, &each, -9, 9);
        if (requantises) {
            nn_input(&op, &random, 1, TN_FLOAT32, 0, NULL, 0.01, 0.1);
            nn_input(&op, &random, 4, TN_FLOAT32, 1, &each, 0.01, 0.1);
            nn_input(&op, &random, 6, TN_FLOAT32, 0, NULL, 0.5, 9);
            nn_input(&op, &random, 7, of_y, 0, NULL, -9, 9);
            nn_input(&op, &random, 8, TN_INT32, 1, &filters, -999, 999);
        }
        window_attrs(&op, &c.w, true);
        nn_int(&op, "group", c.group);
        nn_run_well(&op, -1);
        window_pad(&c.w, &op.outputs[0]);
        conv_want want = conv_expect(&op, &c, weights, 2, zero);
        for (uint64_t i = 0; i < kit_count(&op.outputs[0]); i++) {
            double got = number_get(&op.outputs[0], i), exact = want.sum[i];
            int64_t f = conv_filter_of(&op.outputs[0], i);
            if (requantises) {
                double factor = number_get(op.inputs[1], 0) *
                                number_get(op.inputs[4], each == 1 ? 0 : (uint64_t)f) /
                                number_get(op.inputs[6], 0);
                exact = (exact + number_get(op.inputs[8], (uint64_t)f)) * factor +
                        number_get(op.inputs[7], 0);
                exact = fmin(fmax(exact, of_y == TN_INT8 ? -128 : 0), of_y == TN_INT8 ? 127 : 255);
            }
            if (fabs(got - exact) > (requantises ? 0.501 : 0))
                fail_msg("%s, seed %llu: %g instead of %g", op.type, (unsigned long long)seed, got,
                         exact);
        }
        free(want.sum);
        free(want.size);
        nn_clear(&op);
    }
}

/* --- pools --- */

typedef struct pool_want {
    double most, sum, power, size;
    int64_t place, inside, padded; /* of the maximum; taps in the input, taps in the padding too */
} pool_want;

static pool_want pool_expect(const window *w, const kit_array *x, const int64_t *at, double power) {
    pool_want want = {.most = (double)-INFINITY, .place = -1};
    for (int64_t tap = 0; tap < window_taps(w); tap++) {
        int64_t from[5] = {at[0], at[1]}, tap_at[3];
        bool padded = true;
        window_tap(w, tap, tap_at);
        for (uint32_t d = 0; d < w->spatial; d++) {
            from[2 + d] = at[2 + d] * w->stride[d] + tap_at[d] * w->dilation[d] - w->begin[d];
            padded = padded && from[2 + d] < w->input[d] + w->end[d];
        }
        int64_t place = nn_place(x, from);
        want.padded += padded;
        if (place < 0) continue;
        double value = number_get(x, (uint64_t)place);
        want.inside++;
        want.sum += value;
        want.size += fabs(value);
        want.power += pow(fabs(value), power);
        if (value > want.most) want.most = value, want.place = place;
    }
    return want;
}

static int64_t pool_column_major(const window *w, int64_t place, int64_t planes_before) {
    int64_t area = 1, result = 0, step = 1, at[3];
    for (uint32_t d = w->spatial; d-- > 0; place /= w->input[d]) at[d] = place % w->input[d];
    for (uint32_t d = 0; d < w->spatial; step *= w->input[d++]) result += at[d] * step;
    for (uint32_t d = 0; d < w->spatial; d++) area *= w->input[d];
    return planes_before * area + result;
}

static void pools_look_through_every_tap(void **state) {
    (void)state;
    static const char *const types[] = {"MaxPool", "AveragePool", "LpPool"};
    for (uint64_t seed = 1; seed <= case_count(400, 40); seed++) {
        tn__random random = {seed};
        uint32_t kind = (uint32_t)tn__random_below(&random, 3);
        nn_op op = {.type = types[kind], .version = kind == 2 ? 18 : 19, .output_count = 1};
        window w;
        window_draw(&random, &w);
        int64_t shape[5] = {nn_in(&random, 1, 2), nn_in(&random, 1, 3), w.input[0], w.input[1],
                            w.input[2]};
        int64_t power = nn_in(&random, 1, 3), position[5];
        bool counts = kind == 1 && !nn_often(&random, 2),
             columns = kind == 0 && !nn_often(&random, 3);
        tn_dtype dtype = kind == 0 && !nn_often(&random, 3) ? TN_INT8 : nn_real(&random);
        nn_input(&op, &random, 0, dtype, 2 + w.spatial, shape, -100, 100);
        window_attrs(&op, &w, true);
        if (kind == 0) op.output_count = 1 + (uint32_t)tn__random_below(&random, 2);
        if (kind == 2) nn_int(&op, "p", power);
        if (counts) nn_int(&op, "count_include_pad", 1);
        if (columns) nn_int(&op, "storage_order", 1);
        if (!nn_often(&random, 2)) nn_int(&op, "ceil_mode", 1);
        nn_run_well(&op, -1);
        const kit_array *y = &op.outputs[0];
        window_pad(&w, y);
        for (uint64_t i = 0; i < kit_count(y); i++) {
            nn_position(y, i, position);
            pool_want want = pool_expect(&w, op.inputs[0], position, (double)power);
            double value = kind == 0   ? want.most
                           : kind == 2 ? pow(want.power, 1 / (double)power)
                                       : want.sum / (double)(counts ? want.padded : want.inside);
            if (kind == 0 && want.inside == 0) continue;
            if (want.inside == 0) value = 0;
            nn_near(&op, 0, i, value, kind == 0 ? 0 : want.size, seed);
            int64_t plane = position[0] * shape[1] + position[1];
            if (op.output_count > 1)
                assert_int_equal(((int64_t *)op.outputs[1].data)[i],
                                 columns ? pool_column_major(&w, want.place, plane) : want.place);
        }
        nn_clear(&op);
    }
}

static void an_unpooled_maximum_is_where_it_came_from(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(60, 10); seed++) {
        tn__random random = {seed};
        nn_op pool = {.type = "MaxPool", .version = 12, .output_count = 2};
        nn_op back = {.type = "MaxUnpool", .version = 11};
        int64_t kernel[2] = {nn_in(&random, 1, 3), nn_in(&random, 1, 3)};
        int64_t shape[4] = {2, 2, kernel[0] * nn_in(&random, 1, 4),
                            kernel[1] * nn_in(&random, 1, 4)};
        nn_input(&pool, &random, 0, TN_FLOAT32, 4, shape, 1, 100);
        nn_ints(&pool, "kernel_shape", 2, kernel);
        nn_ints(&pool, "strides", 2, kernel);
        nn_ints(&back, "kernel_shape", 2, kernel);
        nn_ints(&back, "strides", 2, kernel);
        nn_run_well(&pool, -1);
        for (uint32_t i = 0; i < 2; i++) back.inputs[i] = &pool.outputs[i];
        back.input_count = 2;
        nn_run_well(&back, -1);
        double kept = 0, sum = 0;
        for (uint64_t i = 0; i < kit_count(&back.outputs[0]); i++) {
            double value = number_get(&back.outputs[0], i);
            assert_true(value == 0 || value == number_get(pool.inputs[0], i));
            sum += value;
        }
        for (uint64_t i = 0; i < kit_count(&pool.outputs[0]); i++)
            kept += number_get(&pool.outputs[0], i);
        assert_true(fabs(sum - kept) < 1e-3);
        ((int64_t *)pool.outputs[1].data)[0] = (int64_t)kit_count(pool.inputs[0]);
        free(back.outputs[0].data);
        back.outputs[0].data = NULL;
        nn_refuses(&back, "an index beyond the output");
        nn_clear(&pool);
    }
}

static void global_pools_take_every_element(void **state) {
    (void)state;
    static const char *const types[] = {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"};
    for (uint64_t seed = 1; seed <= case_count(60, 10); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = types[seed % 3], .version = 2};
        int64_t shape[4] = {2, 3, nn_in(&random, 1, 90), nn_in(&random, 1, 5)};
        /* all of half of them are negative: their maximum is not what a sum begins with */
        nn_input(&op, &random, 0, nn_real(&random), 4, shape, -1, seed % 2 ? 1 : -0.125);
        nn_run_well(&op, -1);
        uint64_t area = (uint64_t)(shape[2] * shape[3]);
        for (uint64_t plane = 0; plane < 6; plane++) {
            double most = -2, sum = 0, squares = 0;
            for (uint64_t i = 0; i < area; i++) {
                double value = number_get(op.inputs[0], plane * area + i);
                most = fmax(most, value);
                sum += value;
                squares += value * value;
            }
            double want[] = {most, sum / (double)area, sqrt(squares)};
            nn_near(&op, 0, plane, want[seed % 3], 1, seed);
        }
        nn_clear(&op);
    }
}

static void a_nan_in_a_window_is_its_maximum(void **state) {
    (void)state;
    tn__random random = {1};
    nn_op op = {.type = "MaxPool", .version = 12};
    nn_input(&op, &random, 0, TN_FLOAT32, 3, (int64_t[]){1, 1, 6}, -1, 1);
    nn_ints(&op, "kernel_shape", 1, (int64_t[]){3});
    ((float *)op.arrays[0].data)[1] = NAN;
    nn_run_well(&op, -1);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(isnan(number_get(&op.outputs[0], i)), i < 2);
    nn_clear(&op);
}

static void convolutions_refuse_what_does_not_fit(void **state) {
    (void)state;
    tn__random random = {1};
    for (uint32_t k = 0; k < 2; k++) {
        nn_op op = {.type = k == 0 ? "Conv" : "ConvTranspose", .version = 11};
        nn_input(&op, &random, 0, TN_FLOAT32, 3, (int64_t[]){1, 2, 6}, -1, 1);
        nn_input(&op, &random, 1, TN_FLOAT32, 3, (int64_t[]){2, 2, 3}, -1, 1);
        nn_input(&op, &random, 2, TN_FLOAT32, 1, (int64_t[]){3}, -1, 1);
        nn_refuses(&op, "a bias of another length");
    }
    nn_op op = {.type = "ConvTranspose", .version = 11};
    nn_input(&op, &random, 0, TN_FLOAT32, 3, (int64_t[]){1, 3, 6}, -1, 1);
    nn_input(&op, &random, 1, TN_FLOAT32, 3, (int64_t[]){2, 2, 3}, -1, 1);
    nn_refuses(&op, "weights for other channels");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_is_the_sum_over_its_taps),
        cmocka_unit_test(a_transposed_convolution_spreads_its_inputs),
        cmocka_unit_test(convolutions_of_bytes_are_exact),
        cmocka_unit_test(pools_look_through_every_tap),
        cmocka_unit_test(an_unpooled_maximum_is_where_it_came_from),
        cmocka_unit_test(global_pools_take_every_element),
        cmocka_unit_test(a_nan_in_a_window_is_its_maximum),
        cmocka_unit_test(convolutions_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
