/* Resampling, sampling, Col2Im, DeformConv, Einsum and Det against their definitions, element by
 * element. */
#include <math.h>

#include "count.h"
#include "boxes.h"

enum { ROUNDS = 300 };

static void assert_near(uint64_t seed, double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("seed %llu: %.12g, not %.12g", (unsigned long long)seed, value, expected);
}

static double number_at(const kit_array *array, uint64_t index) {
    tn_operand operand = {.data = array->data, .dtype = array->dtype};
    return tn__operand_float(&operand, index);
}

/* --- Resize, as the operator's text has it: along one axis after the other
 * ------------------------ */

typedef struct resize_case {
    const kit_array *in;
    const char *mode, *coordinates, *nearest;
    bool exclude, antialias;
    double a, outside, roi[16];
    int64_t shape[8];
} resize_case;

static double coordinate(const resize_case *of, uint32_t d, double x) {
    double in = (double)of->in->shape[d], out = (double)of->shape[d], scale = out / in;
    double begin = of->roi[d], end = of->roi[of->in->rank + d];
    switch (of->coordinates[0]) {
    case 'h':
        return (x + 0.5) / scale - 0.5;
    case 'p':
        return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case 'a':
        return of->coordinates[1] == 's' ? x / scale : out == 1 ? 0 : x * (in - 1) / (out - 1);
    default:
        return out > 1 ? begin * (in - 1) + x * (end - begin) * (in - 1) / (out - 1)
                       : 0.5 * (begin + end) * (in - 1);
    }
}

static double keys(double a, double s) { /* the kernel of Keys at distance s */
    s = fabs(s);
    if (s <= 1) return (a + 2) * s * s * s - (a + 3) * s * s + 1;
    return s < 2 ? a * s * s * s - 5 * a * s * s + 8 * a * s - 4 * a : 0;
}

static double rounded(const char *how, double x) {
    bool half = x - floor(x) == 0.5;
    if (strcmp(how, "floor") == 0) return floor(x);
    if (strcmp(how, "ceil") == 0) return ceil(x);
    if (half) return strcmp(how, "round_prefer_ceil") == 0 ? ceil(x) : floor(x);
    return floor(x + 0.5);
}

static double resized(const resize_case *of, uint32_t d, const int64_t *out, int64_t *in) {
    if (d == of->in->rank) return number_at(of->in, index_of(of->in, in));
    double last = (double)(of->in->shape[d] - 1), x = coordinate(of, d, (double)out[d]);
    double sum = 0, weights = 0;
    if (of->coordinates[0] == 't' && (x < 0 || x > last)) return NAN;
    double in_extent = last + 1, scale = (double)of->shape[d] / in_extent;
    double stretch = of->antialias && scale < 1 ? scale : 1;
    int reach = (int)ceil((of->mode[0] == 'c' ? 2 : 1) / stretch);
    if (of->mode[0] == 'n') x = rounded(of->nearest, x);
    for (double at = floor(x) - reach; at <= floor(x) + reach; at++) {
        double weight = of->mode[0] == 'c'   ? keys(of->a, stretch * (x - at))
                        : of->mode[0] == 'n' ? (at == x ? 1 : 0)
                                             : fmax(0, 1 - stretch * fabs(x - at));
        if (of->exclude && (at < 0 || at > last)) continue;
        in[d] = (int64_t)fmin(fmax(at, 0), last);
        if (weight != 0) sum += weight * resized(of, d + 1, out, in);
        weights += weight;
    }
    return of->exclude || of->antialias ? sum / weights : sum;
}

static void resize_is_a_sum_along_each_axis(void **state) {
    (void)state;
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                              "asymmetric", "tf_crop_and_resize"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
    for (uint64_t seed = 1; seed <= case_count(4 * ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = seed % 2 ? TN_FLOAT64 : TN_FLOAT32,
                        .rank = 1 + (uint32_t)tn__random_below(&random, 3)};
        kit_array roi = {.dtype = TN_FLOAT64, .rank = 1, .shape = {2 * in.rank}}, out;
        double a = tn__random_below(&random, 2) ? -0.75 : -0.5, outside = 7;
        int64_t exclude = (int64_t)tn__random_below(&random, 2);
        int64_t antialias = (int64_t)tn__random_below(&random, 2);
        resize_case of = {.in = &in,
                          .mode = modes[seed % 3],
                          .coordinates = coordinates[tn__random_below(&random, 5)],
                          .nearest = nearest[tn__random_below(&random, 4)],
                          .a = a};
        of.antialias = antialias && of.mode[0] != 'n';
        of.exclude = exclude && (of.mode[0] == 'c' || of.antialias);
        for (uint32_t d = 0; d < in.rank; d++) {
            in.shape[d] = random_in(&random, 1, antialias ? 12 : 6);
            of.shape[d] = random_in(&random, 1, 9);
            of.roi[d] = (double)random_in(&random, -1, 2) / 4;
            of.roi[in.rank + d] = (double)random_in(&random, 2, 5) / 4;
        }
        fill_small(&random, &in, -9, 9);
        roi.data = of.roi;
        kit_array sizes = list_of(of.shape, in.rank);
        tn_attr attrs[] = {
            attr_string("mode", &of.mode),
            attr_string("coordinate_transformation_mode", &of.coordinates),
            attr_string("nearest_mode", &of.nearest),
            attr_int("exclude_outside", &exclude),
            attr_int("antialias", &antialias),
            {.name = "cubic_coeff_a", .type = TN_ATTR_FLOAT, .count = 1, .floats = &a},
            {.name = "extrapolation_value", .type = TN_ATTR_FLOAT, .count = 1, .floats = &outside},
        };
        run_well(seed,
                 &(kit_op){"Resize", 18, attrs, 7, (const kit_array *[]){&in, &roi, NULL, &sizes},
                           4, 1, 0, -1},
                 &out);
        assert_shape(seed, &out, in.rank, of.shape);
        for (uint64_t i = 0; i < kit_count(&out); i++) {
            int64_t place[8], from[8];
            place_of(&out, i, place);
            double expected = resized(&of, 0, place, from);
            if (isnan(expected)) expected = outside;
            if (in.dtype == TN_FLOAT32) /* rounded once */
                assert_true(fabs(number_at(&out, i) - expected) <= 1e-6 * (1 + fabs(expected)));
            else
                assert_near(seed, number_at(&out, i), expected);
        }
        free(in.data);
        free(out.data);
    }
}

static void upsample_by_whole_scales_repeats(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = random_type(&random)}, out;
        double scales[4];
        random_shape(&random, &in, 4, 4);
        fill_random(&random, &in);
        for (uint32_t d = 0; d < 4; d++) scales[d] = (double)random_in(&random, 1, 3);
        tn_attr attr = {.name = "scales", .type = TN_ATTR_FLOATS, .count = 4, .floats = scales};
        run_well(seed, &(kit_op){"Upsample", 7, &attr, 1, (const kit_array *[]){&in}, 1, 1, 0, -1},
                 &out);
        for (uint64_t i = 0; i < kit_count(&out); i++) {
            int64_t place[4];
            place_of(&out, i, place);
            for (uint32_t d = 0; d < 4; d++) place[d] /= (int64_t)scales[d];
            assert_memory_equal(element_of(&out, i), element_of(&in, index_of(&in, place)),
                                tn_dtype_bits(in.dtype) / 8);
        }
        free(in.data);
        free(out.data);
    }
}

/* Tenths are not exact in float32: 20 times 0.7 is 14 all the same. */
static void scales_of_tenths_give_whole_extents(void **state) {
    (void)state;
    for (int64_t tens = 1; tens <= 12; tens++)
        for (int64_t tenths = 1; tenths <= 12; tenths++) {
            double scale = (double)((float)tenths / 10);
            kit_array in = {.dtype = TN_FLOAT32, .rank = 1, .shape = {10 * tens}}, out;
            tn_attr attr = {.name = "scales", .type = TN_ATTR_FLOATS, .count = 1, .floats = &scale};
            in.data = calloc((size_t)(10 * tens), sizeof(float));
            run_well((uint64_t)tenths,
                     &(kit_op){"Upsample", 7, &attr, 1, (const kit_array *[]){&in}, 1, 1, 0, -1},
                     &out);
            assert_shape((uint64_t)tenths, &out, 1, (int64_t[]){tens * tenths});
            free(in.data);
            free(out.data);
        }
}

/* --- GridSample --- */

typedef struct picture {
    const double *pixels;
    int64_t extent[2];
    const char *padding;
    bool align;
} picture;

static double pixel(const picture *of, double y, double x) {
    double at[2] = {y, x};
    for (int d = 0; d < 2; d++) {
        double last = (double)(of->extent[d] - 1);
        if (of->padding[0] == 'b') at[d] = fmin(fmax(at[d], 0), last);
        while (of->padding[0] == 'r' && (at[d] < 0 || at[d] > last)) {
            double edge = of->align ? 0 : 0.5;
            at[d] = at[d] < 0 ? -2 * edge - at[d] : 2 * (last + edge) - at[d];
        }
        if (at[d] < 0 || at[d] > last) return 0;
    }
    return of->pixels[(int64_t)at[0] * of->extent[1] + (int64_t)at[1]];
}

static double sampled(const picture *of, const char *mode, const double *grid) {
    double at[2], sum = 0;
    for (int d = 0; d < 2; d++) {
        double extent = (double)of->extent[d], g = grid[1 - d];
        at[d] = of->align ? (g + 1) / 2 * (extent - 1) : ((g + 1) * extent - 1) / 2;
        double last = extent - 1, edge = of->align ? 0 : 0.5;
        if (mode[0] == 'n') at[d] = nearbyint(at[d]);
        if (of->padding[0] == 'b' && strcmp(mode, "bicubic") != 0)
            at[d] = fmin(fmax(at[d], 0), last);
        while (of->padding[0] == 'r' && (at[d] < -edge || at[d] > last + edge))
            at[d] = at[d] < -edge ? -2 * edge - at[d] : 2 * (last + edge) - at[d];
    }
    if (mode[0] == 'n') return pixel(of, nearbyint(at[0]), nearbyint(at[1]));
    int reach = strcmp(mode, "bicubic") == 0 ? 2 : 1;
    for (double y = floor(at[0]) + 1 - reach; y <= floor(at[0]) + reach; y++)
        for (double x = floor(at[1]) + 1 - reach; x <= floor(at[1]) + reach; x++) {
            double weight = reach == 2 ? keys(-0.75, at[0] - y) * keys(-0.75, at[1] - x)
                                       : (1 - fabs(at[0] - y)) * (1 - fabs(at[1] - x));
            sum += weight * pixel(of, y, x);
        }
    return sum;
}

static void grid_sample_reads_between_pixels(void **state) {
    (void)state;
    static const char *const modes[] = {"bilinear", "nearest", "bicubic"};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    for (uint64_t seed = 1; seed <= case_count(2 * ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = TN_FLOAT64, .rank = 4, .shape = {2, 2}}, out;
        kit_array grid = {.dtype = TN_FLOAT64, .rank = 4, .shape = {2, 3, 2, 2}};
        int64_t align = (int64_t)tn__random_below(&random, 2);
        const char *mode = modes[seed % 3], *padding = paddings[tn__random_below(&random, 3)];
        in.shape[2] = random_in(&random, 2, 5);
        in.shape[3] = random_in(&random, 2, 5);
        fill_small(&random, &in, -9, 9);
        fill_small(&random, &grid, -13, 13);
        double *points = grid.data;
        for (uint64_t i = 0; i < kit_count(&grid); i++) points[i] /= 8.5;
        tn_attr attrs[] = {attr_string("mode", &mode), attr_string("padding_mode", &padding),
                           attr_int("align_corners", &align)};
        run_well(
            seed,
            &(kit_op){"GridSample", 16, attrs, 3, (const kit_array *[]){&in, &grid}, 2, 1, 0, -1},
            &out);
        for (uint64_t i = 0; i < kit_count(&out); i++) {
            uint64_t plane = i / 6, batch = plane / 2, point = batch * 6 + i % 6;
            picture of = {(const double *)in.data + plane * (uint64_t)(in.shape[2] * in.shape[3]),
                          {in.shape[2], in.shape[3]},
                          padding,
                          align != 0};
            assert_near(seed, ((const double *)out.data)[i],
                        sampled(&of, mode, points + 2 * point));
        }
        free(in.data);
        free(grid.data);
        free(out.data);
    }
}

/* --- DeformConv, Col2Im, AffineGrid --- */

/* The image between pixels, 0 outside. */
static double between(const double *pixels, int64_t height, int64_t width, double y, double x) {
    double sum = 0;
    for (int64_t i = 0; i < height; i++)
        for (int64_t j = 0; j < width; j++)
            sum += fmax(0, 1 - fabs(y - (double)i)) * fmax(0, 1 - fabs(x - (double)j)) *
                   pixels[i * width + j];
    return sum;
}

static void deform_conv_reads_where_the_offsets_say(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 30); seed++) {
        tn__random random = {seed};
        int64_t group = random_in(&random, 1, 2), moved = random_in(&random, 1, 2);
        int64_t k[2], stride[2], dilation[2], pads[4], c = 2 * random_in(&random, 1, 2);
        kit_array x = {.dtype = TN_FLOAT64, .rank = 4, .shape = {2, c}}, out;
        kit_array w = {.dtype = TN_FLOAT64, .rank = 4, .shape = {2 * group, c / group}};
        kit_array offset = {.dtype = TN_FLOAT64, .rank = 4, .shape = {2}};
        kit_array mask = {.dtype = TN_FLOAT64, .rank = 4, .shape = {2}};
        kit_array bias = {.dtype = TN_FLOAT64, .rank = 1, .shape = {2 * group}};
        bool masked = tn__random_below(&random, 2), biased = tn__random_below(&random, 2);
        for (int d = 0; d < 2; d++) {
            k[d] = w.shape[2 + d] = random_in(&random, 1, 3);
            stride[d] = random_in(&random, 1, 2);
            dilation[d] = random_in(&random, 1, 2);
            pads[d] = random_in(&random, 0, 2);
            pads[2 + d] = random_in(&random, 0, 2);
            x.shape[2 + d] = (k[d] - 1) * dilation[d] + random_in(&random, 1, 3);
            int64_t room = x.shape[2 + d] + pads[d] + pads[2 + d] - (k[d] - 1) * dilation[d] - 1;
            offset.shape[2 + d] = mask.shape[2 + d] = room / stride[d] + 1;
        }
        int64_t taps = k[0] * k[1], height = offset.shape[2], width = offset.shape[3];
        mask.shape[1] = moved * taps;
        offset.shape[1] = 2 * moved * taps;
        fill_small(&random, &x, -9, 9);
        fill_small(&random, &w, -9, 9);
        fill_small(&random, &offset, -9, 9);
        fill_small(&random, &mask, -3, 3);
        fill_small(&random, &bias, -9, 9);
        double *offsets = offset.data;
        for (uint64_t i = 0; i < kit_count(&offset); i++) offsets[i] /= 4;
        tn_attr attrs[] = {attr_int("group", &group), attr_int("offset_group", &moved),
                           attr_ints("strides", stride, 2), attr_ints("pads", pads, 4),
                           attr_ints("dilations", dilation, 2)};
        kit_op op = {
            "DeformConv",
            22,
            attrs,
            5,
            (const kit_array *[]){&x, &w, &offset, biased ? &bias : NULL, masked ? &mask : NULL},
            5,
            1,
            0,
            -1};
        run_well(seed, &op, &out);
        assert_shape(seed, &out, 4, (int64_t[]){2, 2 * group, height, width});
        for (uint64_t i = 0; i < kit_count(&out); i++) {
            int64_t at[4], area = height * width;
            place_of(&out, i, at);
            int64_t first = at[1] / 2 * (c / group), point = at[2] * width + at[3];
            double sum = biased ? ((const double *)bias.data)[at[1]] : 0;
            for (int64_t j = first; j < first + c / group; j++)
                for (int64_t t = 0; t < taps; t++) {
                    int64_t entry = (at[0] * moved + j / (c / moved)) * taps + t;
                    double y0 = (double)(at[2] * stride[0] - pads[0] + t / k[1] * dilation[0]);
                    double x0 = (double)(at[3] * stride[1] - pads[1] + t % k[1] * dilation[1]);
                    const double *plane =
                        (const double *)x.data + (at[0] * c + j) * x.shape[2] * x.shape[3];
                    double seen = between(plane, x.shape[2], x.shape[3],
                                          y0 + offsets[2 * entry * area + point],
                                          x0 + offsets[(2 * entry + 1) * area + point]);
                    if (masked) seen *= ((const double *)mask.data)[entry * area + point];
                    sum += seen *
                           ((const double *)w.data)[(at[1] * (c / group) + j - first) * taps + t];
                }
            assert_near(seed, ((const double *)out.data)[i], sum);
        }
        free(out.data);
        offset.shape[1]--; /* an offset short: the file contradicts itself */
        tn_error error;
        assert_int_equal(kit_run(&op, &out, &error), TN_E_INVALID);
        free(out.data);
        free(x.data);
        free(w.data);
        free(offset.data);
        free(mask.data);
        free(bias.data);
    }
}

/* For every element of the columns, its place in the image. */
static void col2im_adds_columns_to_their_places(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        uint32_t axes = 1 + (uint32_t)tn__random_below(&random, 3);
        int64_t image[3], block[3], stride[3], dilation[3], pads[6], steps[3];
        int64_t taps = 1, blocks = 1, c = random_in(&random, 1, 2);
        for (uint32_t d = 0; d < axes; d++) {
            block[d] = random_in(&random, 1, 3);
            stride[d] = random_in(&random, 1, 4);
            dilation[d] = random_in(&random, 1, 3);
            pads[d] = random_in(&random, 0, 4);
            pads[axes + d] = random_in(&random, 0, 4);
            int64_t reach = (block[d] - 1) * dilation[d] + 1;
            int64_t least = reach - pads[d] - pads[axes + d];
            image[d] = random_in(&random, least > 1 ? least : 1, (least > 1 ? least : 1) + 4);
            steps[d] = (image[d] + pads[d] + pads[axes + d] - reach) / stride[d] + 1;
            taps *= block[d];
            blocks *= steps[d];
        }
        kit_array columns = {.dtype = seed % 2 ? TN_FLOAT64 : TN_FLOAT32,
                             .rank = 3,
                             .shape = {2, c * taps, blocks}},
                  out;
        kit_array image_list = list_of(image, axes), block_list = list_of(block, axes);
        fill_small(&random, &columns, -9, 9);
        tn_attr attrs[] = {attr_ints("strides", stride, axes), attr_ints("pads", pads, 2 * axes),
                           attr_ints("dilations", dilation, axes)};
        kit_op op = {
            "Col2Im", 18, attrs, 3, (const kit_array *[]){&columns, &image_list, &block_list},
            3,        1,  0,     -1};
        run_well(seed, &op, &out);
        int64_t shape[5] = {2, c, image[0], image[1], image[2]};
        assert_shape(seed, &out, axes + 2, shape);
        double *sums = calloc((size_t)kit_count(&out), sizeof *sums);
        assert_non_null(sums);
        for (uint64_t i = 0; i < kit_count(&columns); i++) {
            int64_t at[3];
            place_of(&columns, i, at);
            int64_t tap = at[1] % taps, step = at[2], index[5] = {at[0], at[1] / taps};
            bool inside = true;
            for (uint32_t d = axes; d-- > 0;) {
                index[2 + d] = step % steps[d] * stride[d] + tap % block[d] * dilation[d] - pads[d];
                inside = inside && index[2 + d] >= 0 && index[2 + d] < image[d];
                step /= steps[d];
                tap /= block[d];
            }
            if (inside) sums[index_of(&out, index)] += number_at(&columns, i);
        }
        for (uint64_t i = 0; i < kit_count(&out); i++)
            assert_near(seed, number_at(&out, i), sums[i]);
        free(sums);
        free(out.data);
        free(columns.data);
    }
}

static void affine_grids_are_matrices_times_places(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        uint32_t axes = 2 + (uint32_t)tn__random_below(&random, 2);
        int64_t size[5] = {2, 3}, shape[5] = {2}, align = (int64_t)tn__random_below(&random, 2);
        for (uint32_t d = 0; d < axes; d++) size[2 + d] = shape[1 + d] = random_in(&random, 2, 5);
        shape[1 + axes] = axes;
        kit_array theta = {.dtype = TN_FLOAT64, .rank = 3, .shape = {2, axes, axes + 1}}, out;
        kit_array sizes = list_of(size, axes + 2);
        fill_small(&random, &theta, -9, 9);
        tn_attr attr = attr_int("align_corners", &align);
        kit_op op = {
            "AffineGrid", 20, &attr, 1, (const kit_array *[]){&theta, &sizes}, 2, 1, 0, -1};
        run_well(seed, &op, &out);
        assert_shape(seed, &out, axes + 2, shape);
        for (uint64_t i = 0; i < kit_count(&out); i++) {
            int64_t at[5];
            place_of(&out, i, at);
            const double *row =
                (const double *)theta.data + (at[0] * axes + at[1 + axes]) * (axes + 1);
            double sum = row[axes];
            for (uint32_t d = 0; d < axes; d++) { /* -1 and 1: outermost centres, or edges */
                double extent = (double)shape[1 + d], place = (double)at[1 + d];
                sum += row[axes - 1 - d] *
                       (align ? -1 + place * 2 / (extent - 1) : -1 + (place + 0.5) * 2 / extent);
            }
            assert_near(seed, ((const double *)out.data)[i], sum);
        }
        free(out.data);
        theta.shape[tn__random_below(&random, 3)]--; /* a matrix of another size */
        tn_error error;
        assert_int_equal(kit_run(&op, &out, &error), TN_E_INVALID);
        free(out.data);
        free(theta.data);
    }
}

/* --- regions --- */

static void regions_of_a_level_picture_are_level(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        kit_array in = {.dtype = TN_FLOAT64, .rank = 4, .shape = {3, 1, 8, 8}}, out;
        kit_array rois = {.dtype = TN_FLOAT64, .rank = 2, .shape = {4, 4}};
        kit_array batch = {.dtype = TN_INT64, .rank = 1, .shape = {4}};
        int64_t rows = random_in(&random, 1, 4), ratio = random_in(&random, 0, 3);
        fill_small(&random, &in, 0, 0);
        for (int64_t i = 0; i < 192; i++) ((double *)in.data)[i] = (double)(i / 64) + 1;
        fill_small(&random, &rois, 0, 3);
        for (int64_t i = 0; i < 4; i++)
            for (int64_t d = 2; d < 4; d++)
                ((double *)rois.data)[4 * i + d] += ((double *)rois.data)[4 * i + d - 2] + 1;
        fill_small(&random, &batch, 0, 2);
        tn_attr attrs[] = {attr_int("output_height", &rows), attr_int("sampling_ratio", &ratio)};
        kit_op op = {"RoiAlign", 16, attrs, 2, (const kit_array *[]){&in, &rois, &batch},
                     3,          1,  0,     -1};
        run_well(seed, &op, &out);
        for (uint64_t i = 0; i < kit_count(&out); i++)
            assert_near(seed, ((const double *)out.data)[i],
                        (double)((const int64_t *)batch.data)[i / (uint64_t)rows] + 1);
        free(out.data);
        ((int64_t *)batch.data)[2] = 3;
        tn_error error;
        assert_int_equal(kit_run(&op, &out, &error), TN_E_INVALID);
        free(in.data);
        free(rois.data);
        free(batch.data);
        free(out.data);
    }
}

static void roi_pool_takes_the_largest_of_each_cell(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        int64_t cells[2] = {random_in(&random, 1, 3), random_in(&random, 1, 3)};
        int64_t h = random_in(&random, 1, 3), w = random_in(&random, 1, 3); /* pixels of a cell */
        int64_t height = cells[0] * h + 2, width = cells[1] * w + 2;
        kit_array in = {.dtype = TN_FLOAT32, .rank = 4, .shape = {1, 2, height, width}}, out;
        float roi[5] = {0, 1, 1, (float)(width - 2), (float)(height - 2)};
        kit_array rois = {.dtype = TN_FLOAT32, .rank = 2, .shape = {1, 5}, .data = roi};
        fill_small(&random, &in, -99, 99);
        tn_attr attr = attr_ints("pooled_shape", cells, 2);
        run_well(
            seed,
            &(kit_op){"MaxRoiPool", 1, &attr, 1, (const kit_array *[]){&in, &rois}, 2, 1, 0, -1},
            &out);
        for (uint64_t i = 0; i < kit_count(&out); i++) {
            int64_t place[4], from[4];
            double most = -INFINITY;
            place_of(&out, i, place);
            memcpy(from, place, sizeof from);
            for (int64_t k = 0; k < h * w; k++) {
                from[2] = 1 + place[2] * h + k / w;
                from[3] = 1 + place[3] * w + k % w;
                most = fmax(most, (double)((const float *)in.data)[index_of(&in, from)]);
            }
            assert_near(seed, (double)((const float *)out.data)[i], most);
        }
        free(in.data);
        free(out.data);
    }
}

/* --- Einsum --- */

enum { LABELS = 5 };

typedef struct summation {
    int64_t extent[LABELS], place[LABELS];
    char terms[4][8]; /* of operands, then of the output */
} summation;

static uint64_t labelled(const summation *of, const char *term) {
    uint64_t at = 0;
    for (; *term != 0; term++)
        at = at * (uint64_t)of->extent[*term - 'a'] + (uint64_t)of->place[*term - 'a'];
    return at;
}

static void einsum_sums_over_what_the_output_lacks(void **state) {
    (void)state;
    static double expected[4096];
    for (uint64_t seed = 1; seed <= case_count(2 * ROUNDS, 40); seed++) {
        tn__random random = {seed};
        summation of = {0};
        uint32_t operands = 1 + (uint32_t)tn__random_below(&random, 3);
        kit_array in[3], out;
        const kit_array *inputs[3] = {&in[0], &in[1], &in[2]};
        char equation[64] = "", written[2] = "", used[LABELS + 1] = "";
        tn_dtype dtype = seed % 3 == 0 ? TN_FLOAT32 : seed % 3 == 1 ? TN_FLOAT64 : TN_INT32;
        for (uint32_t d = 0; d < LABELS; d++) of.extent[d] = random_in(&random, 1, 3);
        for (uint32_t k = 0; k < operands; k++) {
            in[k] = (kit_array){.dtype = dtype};
            for (uint64_t more = tn__random_below(&random, 4); more > 0; more--) {
                *written = (char)('a' + tn__random_below(&random, LABELS)); /* repeats, too */
                in[k].shape[in[k].rank++] = of.extent[*written - 'a'];
                strcat(of.terms[k], written);
                if (strchr(used, *written) == NULL) strcat(used, written);
            }
            strcat(strcat(equation, k ? "," : ""), of.terms[k]);
            fill_small(&random, &in[k], -3, 3);
        }
        for (const char *label = used; *label != 0; label++)
            if (tn__random_below(&random, 2)) of.terms[3][strlen(of.terms[3])] = *label;
        strcat(strcat(equation, "->"), of.terms[3]);
        memset(expected, 0, sizeof expected);
        for (uint64_t i = 0, more = 1; more; i++) { /* all places of the labels in use */
            uint64_t rest = i;
            double product = 1;
            for (const char *label = used; *label != 0; label++) {
                of.place[*label - 'a'] = (int64_t)(rest % (uint64_t)of.extent[*label - 'a']);
                rest /= (uint64_t)of.extent[*label - 'a'];
            }
            if (rest > 0 || (*used == 0 && i > 0)) break;
            for (uint32_t k = 0; k < operands; k++) {
                tn_operand operand = {.data = in[k].data, .dtype = dtype};
                product *= tn__operand_float(&operand, labelled(&of, of.terms[k]));
            }
            expected[labelled(&of, of.terms[3])] += product;
        }
        const char *text = equation;
        tn_attr attr = attr_string("equation", &text);
        run_well(seed, &(kit_op){"Einsum", 12, &attr, 1, inputs, operands, 1, 0, -1}, &out);
        assert_int_equal(out.rank, strlen(of.terms[3]));
        tn_operand operand = {.data = out.data, .dtype = dtype};
        for (uint64_t i = 0; i < kit_count(&out); i++)
            assert_near(seed, tn__operand_float(&operand, i), expected[i]);
        for (uint32_t k = 0; k < operands; k++) free(in[k].data);
        free(out.data);
    }
}

static void an_ellipsis_broadcasts_and_an_arrow_may_be_implied(void **state) {
    (void)state;
    tn__random random = {5};
    kit_array a = {.dtype = TN_FLOAT64, .rank = 4, .shape = {2, 1, 3, 4}}, implied, written;
    kit_array b = {.dtype = TN_FLOAT64, .rank = 3, .shape = {5, 4, 2}};
    const char *equations[] = {"...ij,...jk", "... i j, ... j k -> ... i k"};
    fill_small(&random, &a, -3, 3);
    fill_small(&random, &b, -3, 3);
    for (int i = 0; i < 2; i++) {
        tn_attr attr = attr_string("equation", &equations[i]);
        run_well(0, &(kit_op){"Einsum", 12, &attr, 1, (const kit_array *[]){&a, &b}, 2, 1, 0, -1},
                 i ? &written : &implied);
    }
    assert_shape(0, &implied, 4, (int64_t[]){2, 5, 3, 2});
    assert_memory_equal(implied.data, written.data, kit_bytes(&implied));
    const double *x = a.data, *y = b.data, *out = implied.data;
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t k = i % 2, row = i / 2 % 3, m = i / 6 % 5, n = i / 30;
        double sum = 0;
        for (uint64_t j = 0; j < 4; j++) sum += x[(n * 3 + row) * 4 + j] * y[(m * 4 + j) * 2 + k];
        assert_near(0, out[i], sum);
    }
    free(a.data);
    free(b.data);
    free(implied.data);
    free(written.data);
}

/* --- Det --- */

static double determinant(const double *m, int64_t n, uint32_t columns) { /* by the first row */
    double sum = 0, sign = 1;
    if (n == 0) return 1;
    for (uint32_t c = 0; columns >> c; c++) {
        if (!(columns >> c & 1)) continue;
        sum += sign * m[c] * determinant(m + 5, n - 1, columns & ~(1u << c));
        sign = -sign;
    }
    return sum;
}

static void det_agrees_with_the_expansion_by_rows(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(ROUNDS, 40); seed++) {
        tn__random random = {seed};
        int64_t n = random_in(&random, 0, 5);
        kit_array in = {.dtype = TN_FLOAT64, .rank = 3, .shape = {3, n, n}}, out;
        fill_small(&random, &in, -2, 2);
        run_well(seed, &(kit_op){"Det", 11, NULL, 0, (const kit_array *[]){&in}, 1, 1, 0, -1},
                 &out);
        for (int64_t k = 0; k < 3; k++) {
            double rows[25] = {0};
            for (int64_t i = 0; i < n * n; i++)
                rows[i / n * 5 + i % n] = ((const double *)in.data)[k * n * n + i];
            assert_near(seed, ((const double *)out.data)[k], determinant(rows, n, (1u << n) - 1));
        }
        free(in.data);
        free(out.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resize_is_a_sum_along_each_axis),
        cmocka_unit_test(upsample_by_whole_scales_repeats),
        cmocka_unit_test(scales_of_tenths_give_whole_extents),
        cmocka_unit_test(deform_conv_reads_where_the_offsets_say),
        cmocka_unit_test(col2im_adds_columns_to_their_places),
        cmocka_unit_test(affine_grids_are_matrices_times_places),
        cmocka_unit_test(grid_sample_reads_between_pixels),
        cmocka_unit_test(regions_of_a_level_picture_are_level),
        cmocka_unit_test(roi_pool_takes_the_largest_of_each_cell),
        cmocka_unit_test(einsum_sums_over_what_the_output_lacks),
        cmocka_unit_test(an_ellipsis_broadcasts_and_an_arrow_may_be_implied),
        cmocka_unit_test(det_agrees_with_the_expansion_by_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
