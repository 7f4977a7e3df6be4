/* test_rules.c - every operator that the registry can split, whole and in parts: random shapes,
 * axes and numbers of parts, halos computed again and kept. Plain kernels sum each element in one
 * order whatever the extents are, so results are the same bits. */
#include <tenure/rewrite.h>

#include "fit/split/region.h"
#include "graph/tiles/split.h"
#include "whole.h"

#define CASES 40u /* of each operator; another number as argument, and a seed */

static uint32_t cases = CASES;
static uint32_t seed = 20261123u;

typedef struct bench {
    tn__random random;
    tn_graph *graph;
    tn_tensor_id inputs[8];
    uint32_t input_count, names;
    tn_attr attrs[8];
    uint32_t attr_count;
    int64_t numbers[8][8];
    double reals[8][8];
    uint32_t kept; /* of numbers */
    char text[64];
} bench;

static int64_t draw(bench *at, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}

/* --- operands --- */

static const char *fresh(bench *at, const char *stem) {
    snprintf(at->text, sizeof at->text, "%s%u", stem, at->names++);
    return at->text;
}

static tn_tensor_id floats(bench *at, const char *stem, uint32_t rank, const int64_t *shape) {
    return whole_tensor(at->graph, fresh(at, stem), TN_KIND_INPUT, rank, shape);
}

/* What is drawn as float32, in another type. */
static tn_tensor_id as_type(bench *at, tn_tensor_id from, int64_t dtype) {
    tn_tensor_id made = whole_tensor(at->graph, fresh(at, "cast"), TN_KIND_ACTIVATION, 0, NULL);
    tn_attr to = {.name = "to", .type = TN_ATTR_INT, .count = 1, .ints = &dtype};
    whole_op_in(at->graph, "", "Cast", 13, &from, 1, made, &to, 1);
    return made;
}

static void add_input(bench *at, tn_tensor_id id) { at->inputs[at->input_count++] = id; }

static void add_ints_input(bench *at, const int64_t *ints, uint32_t count) {
    int64_t extent = count;
    tn_tensor_spec spec = {.name = fresh(at, "ints"),
                           .dtype = TN_INT64,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &extent,
                           .value = {.count = count, .ints = ints}};
    tn_tensor_id id;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    add_input(at, id);
}

static void add_scalar(bench *at, double value) {
    tn_tensor_spec spec = {.name = fresh(at, "number"),
                           .dtype = TN_FLOAT32,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 0,
                           .shape = NULL,
                           .value = {.count = 1, .floats = &value}};
    tn_tensor_id id;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    add_input(at, id);
}

static void add_ints(bench *at, const char *name, const int64_t *ints, uint32_t count) {
    int64_t *copy = at->numbers[at->kept++];
    memcpy(copy, ints, count * sizeof *ints);
    at->attrs[at->attr_count++] =
        (tn_attr){.name = name, .type = TN_ATTR_INTS, .count = count, .ints = copy};
}
static void add_int(bench *at, const char *name, int64_t value) {
    add_ints(at, name, &value, 1);
    at->attrs[at->attr_count - 1].type = TN_ATTR_INT;
}
static void add_string(bench *at, const char *name, const char *const *value) {
    at->attrs[at->attr_count++] =
        (tn_attr){.name = name, .type = TN_ATTR_STRING, .count = 1, .strings = value};
}

static uint32_t any_shape(bench *at, uint32_t least, uint32_t most, int64_t *shape) {
    uint32_t rank = (uint32_t)draw(at, least, most);
    for (uint32_t d = 0; d < rank; d++) shape[d] = draw(at, 1, 7);
    return rank;
}

/* --- operators --- */

static void make_each(bench *at, int64_t dtype) {
    int64_t shape[4];
    uint32_t rank = any_shape(at, 1, 4, shape);
    tn_tensor_id x = floats(at, "x", rank, shape);
    add_input(at, dtype == TN_FLOAT32 ? x : as_type(at, x, dtype));
}
static void make_float(bench *at) { make_each(at, TN_FLOAT32); }
static void make_bool(bench *at) { make_each(at, TN_BOOL); }
static void make_int(bench *at) { make_each(at, TN_INT64); }

/* Operands of which some extents are 1, or missing. */
static void make_many(bench *at, uint32_t count, const int64_t *dtypes) {
    int64_t shape[4], own[4];
    uint32_t rank = any_shape(at, 1, 4, shape);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t less = i > 0 ? (uint32_t)draw(at, 0, rank) : 0;
        if (draw(at, 0, 1)) less = 0;
        for (uint32_t d = less; d < rank; d++) own[d - less] = draw(at, 0, 3) == 0 ? 1 : shape[d];
        tn_tensor_id x = floats(at, "x", rank - less, own);
        add_input(at, dtypes[i] == TN_FLOAT32 ? x : as_type(at, x, dtypes[i]));
    }
}
static void make_pair(bench *at) { make_many(at, 2, (int64_t[]){TN_FLOAT32, TN_FLOAT32}); }
static void make_bool_pair(bench *at) { make_many(at, 2, (int64_t[]){TN_BOOL, TN_BOOL}); }
static void make_uint_pair(bench *at) { make_many(at, 2, (int64_t[]){TN_UINT32, TN_UINT32}); }
static void make_int_pair(bench *at) { make_many(at, 2, (int64_t[]){TN_INT64, TN_INT64}); }
static void make_three(bench *at) {
    make_many(at, 3, (int64_t[]){TN_FLOAT32, TN_FLOAT32, TN_FLOAT32});
}
static void make_where(bench *at) {
    make_many(at, 3, (int64_t[]){TN_BOOL, TN_FLOAT32, TN_FLOAT32});
}
static void make_prelu(bench *at) {
    int64_t shape[4], slope[4];
    uint32_t rank = any_shape(at, 1, 4, shape);
    for (uint32_t d = 0; d < rank; d++) slope[d] = draw(at, 0, 1) ? shape[d] : 1;
    add_input(at, floats(at, "x", rank, shape));
    add_input(at, floats(at, "x", rank, slope));
}
static void make_shift(bench *at) {
    static const char *const left = "LEFT";
    add_string(at, "direction", &left);
    make_uint_pair(at);
}
static void make_clip(bench *at) {
    make_float(at);
    add_scalar(at, -0.3);
    add_scalar(at, 0.4);
}
static void make_cast(bench *at) {
    make_float(at);
    add_int(at, "to", TN_FLOAT16);
}
static void make_cast_like(bench *at) {
    make_float(at);
    int64_t one = 1;
    add_input(at, as_type(at, floats(at, "x", 1, &one), TN_INT32));
}
/* SwiGLU broadcasts nothing. */
static void make_alike(bench *at) {
    int64_t shape[4];
    uint32_t rank = any_shape(at, 1, 4, shape);
    for (uint32_t i = 0; i < 2; i++) add_input(at, floats(at, "x", rank, shape));
}
static void make_bit_cast(bench *at) {
    static const int64_t from[] = {TN_FLOAT32, TN_INT8, TN_FLOAT16};
    static const int64_t to[] = {TN_INT32, TN_UINT8, TN_BFLOAT16};
    int64_t k = draw(at, 0, 2);
    make_each(at, from[k]);
    add_int(at, "to", to[k]);
}

/* A window over `spatial` axes: attributes; false: it does not fit. */
static void add_window(bench *at, uint32_t spatial, bool kernel, const int64_t *taps,
                       const int64_t *extent, bool dilates, bool pads_less) {
    static const char *const upper = "SAME_UPPER", *const lower = "SAME_LOWER";
    int64_t strides[3], dilations[3], pads[6];
    for (uint32_t i = 0; i < spatial; i++) {
        strides[i] = draw(at, 1, 3);
        dilations[i] = dilates ? draw(at, 1, 2) : 1;
        int64_t reach = (taps[i] - 1) * dilations[i];
        if (reach + 1 > extent[i]) dilations[i] = 1, reach = taps[i] - 1;
        int64_t most = pads_less ? taps[i] - 1 : reach;
        pads[i] = draw(at, 0, most);
        pads[spatial + i] = draw(at, 0, most);
    }
    if (kernel) add_ints(at, "kernel_shape", taps, spatial);
    add_ints(at, "strides", strides, spatial);
    if (dilates) add_ints(at, "dilations", dilations, spatial);
    int64_t how = draw(at, 0, 4);
    if (how < 3)
        add_ints(at, "pads", pads, 2 * spatial);
    else
        add_string(at, "auto_pad", how == 3 ? &upper : &lower);
}

static void make_conv(bench *at, bool fused, bool quantised) {
    uint32_t spatial = (uint32_t)draw(at, 1, 2), rank = spatial + 2;
    int64_t group = draw(at, 0, 2) == 0 ? draw(at, 2, 3) : 1;
    int64_t in = group * draw(at, 1, 3), out = group * draw(at, 1, 4);
    int64_t x[4] = {draw(at, 1, 3), in}, w[4] = {out, in / group};
    for (uint32_t i = 0; i < spatial; i++) {
        x[2 + i] = draw(at, 5, 14);
        w[2 + i] = draw(at, 1, 4);
    }
    add_input(at, floats(at, "x", rank, x));
    if (quantised) at->inputs[0] = as_type(at, at->inputs[0], TN_INT8);
    tn_tensor_id weights = whole_tensor(at->graph, fresh(at, "w"), TN_KIND_PARAMETER, rank, w);
    add_input(at, quantised ? as_type(at, weights, TN_INT8) : weights);
    if (!quantised && draw(at, 0, 1))
        add_input(at, whole_tensor(at->graph, fresh(at, "b"), TN_KIND_PARAMETER, 1, &out));
    if (group != 1) add_int(at, "group", group);
    add_window(at, spatial, fused, w + 2, x + 2, true, false);
}
static void make_conv_plain(bench *at) { make_conv(at, false, false); }
static void make_conv_fused(bench *at) { make_conv(at, true, false); }
static void make_conv_integer(bench *at) { make_conv(at, false, true); }

static void make_conv_qlinear(bench *at) {
    tn_tensor_id x, w;
    make_conv(at, false, true);
    x = at->inputs[0];
    w = at->inputs[1];
    at->input_count = 0;
    for (uint32_t i = 0; i < 3; i++) { /* x, w, y: each with scale and zero point */
        if (i < 2) add_input(at, i == 0 ? x : w);
        add_scalar(at, 0.05);
        tn_tensor_id zero = floats(at, "zero", 0, NULL);
        add_input(at, as_type(at, zero, TN_INT8));
    }
}

static void make_conv_transpose(bench *at) {
    uint32_t spatial = (uint32_t)draw(at, 1, 2), rank = spatial + 2;
    int64_t x[4] = {draw(at, 1, 2), draw(at, 1, 3)}, w[4] = {x[1], draw(at, 1, 3)};
    int64_t strides[2], pads[4] = {0}, extra[2];
    for (uint32_t i = 0; i < spatial; i++) {
        x[2 + i] = draw(at, 3, 8);
        w[2 + i] = draw(at, 1, 4);
        strides[i] = draw(at, 1, 3);
        pads[i] = draw(at, 0, (w[2 + i] - 1) / 2);
        pads[spatial + i] = draw(at, 0, (w[2 + i] - 1) / 2);
        extra[i] = draw(at, 0, strides[i] - 1);
    }
    add_input(at, floats(at, "x", rank, x));
    add_input(at, whole_tensor(at->graph, fresh(at, "w"), TN_KIND_PARAMETER, rank, w));
    add_ints(at, "strides", strides, spatial);
    add_ints(at, "pads", pads, 2 * spatial);
    if (draw(at, 0, 1)) add_ints(at, "output_padding", extra, spatial);
}

static void make_pool(bench *at, bool average) {
    uint32_t spatial = (uint32_t)draw(at, 1, 2), rank = spatial + 2;
    int64_t x[4] = {draw(at, 1, 3), draw(at, 1, 3)}, taps[2];
    for (uint32_t i = 0; i < spatial; i++) {
        x[2 + i] = draw(at, 5, 14);
        taps[i] = draw(at, 1, 4);
    }
    add_input(at, floats(at, "x", rank, x));
    add_window(at, spatial, true, taps, x + 2, false, true);
    if (draw(at, 0, 1)) add_int(at, "ceil_mode", 1);
    if (average && draw(at, 0, 1)) add_int(at, "count_include_pad", 1);
}
static void make_max_pool(bench *at) { make_pool(at, false); }
static void make_average_pool(bench *at) { make_pool(at, true); }

static void make_image(bench *at) {
    int64_t shape[4] = {draw(at, 1, 4), draw(at, 1, 6), draw(at, 1, 6), draw(at, 1, 6)};
    add_input(at, floats(at, "x", 4, shape));
}
static void add_rows(bench *at, uint32_t count, int64_t extent, const char *stem) {
    for (uint32_t i = 0; i < count; i++)
        add_input(at, whole_tensor(at->graph, fresh(at, stem), TN_KIND_PARAMETER, 1, &extent));
}
static int64_t extent_of(const bench *at, uint32_t input, uint32_t axis) {
    return tn_graph_tensor(at->graph, at->inputs[input])->shape[axis];
}
static void make_batch_norm(bench *at) {
    make_image(at);
    add_rows(at, 4, extent_of(at, 0, 1), "var");
}
static void make_instance_norm(bench *at) {
    make_image(at);
    add_rows(at, 2, extent_of(at, 0, 1), "row");
}
static void make_group_norm(bench *at) {
    int64_t shape[3] = {draw(at, 2, 4), 4, draw(at, 1, 5)};
    add_input(at, floats(at, "x", 3, shape));
    add_rows(at, 2, 4, "row");
    add_int(at, "num_groups", 2);
}
static void make_lrn(bench *at) {
    make_image(at);
    add_int(at, "size", 3);
}
static void make_layer_norm(bench *at) {
    make_image(at);
    add_rows(at, (uint32_t)draw(at, 1, 2), extent_of(at, 0, 3), "row");
}
static void make_rms_norm(bench *at) {
    make_image(at);
    add_rows(at, 1, extent_of(at, 0, 3), "row");
}
/* x [B, C, L], weights [C, 1, taps], bias, and the taps - 1 columns before. */
static void make_causal(bench *at) {
    int64_t x[3] = {draw(at, 2, 6), draw(at, 1, 5), draw(at, 1, 7)};
    int64_t w[3] = {x[1], 1, draw(at, 2, 4)}, past[3] = {x[0], x[1], w[2] - 1};
    add_input(at, floats(at, "x", 3, x));
    add_input(at, whole_tensor(at->graph, fresh(at, "w"), TN_KIND_PARAMETER, 3, w));
    if (draw(at, 0, 1))
        add_rows(at, 1, x[1], "row");
    else
        add_input(at, TN_NONE);
    if (draw(at, 0, 1)) add_input(at, floats(at, "past", 3, past));
}
static void make_along(bench *at) { /* attribute axis */
    make_image(at);
    add_int(at, "axis", draw(at, -4, 3));
}
static void make_quantize(bench *at) {
    make_image(at);
    if (draw(at, 0, 1)) {
        add_scalar(at, 0.1);
        return;
    }
    add_rows(at, 1, extent_of(at, 0, 2), "var");
    add_int(at, "axis", 2);
}
static void make_dequantize(bench *at) {
    make_quantize(at);
    at->inputs[0] = as_type(at, at->inputs[0], TN_INT8);
}
/* Element by element, of 8 bits: x and y, each with scale and zero point. */
static void make_qlinear(bench *at) {
    make_each(at, TN_INT8);
    for (uint32_t i = 0; i < 2; i++) {
        add_scalar(at, i == 0 ? 0.5 : 0.05);
        add_input(at, as_type(at, floats(at, "zero", 0, NULL), TN_INT8));
    }
}

static void make_matmul_operands(bench *at, int64_t *a, int64_t *b, uint32_t *ranks) {
    int64_t inner = draw(at, 1, 6), batch[2] = {draw(at, 1, 3), draw(at, 1, 4)};
    ranks[0] = (uint32_t)draw(at, 2, 4);
    ranks[1] = (uint32_t)draw(at, 2, 4);
    for (uint32_t d = 0; d + 2 < ranks[0]; d++)
        a[d] = draw(at, 0, 3) == 0 ? 1 : batch[d + 4 - ranks[0]];
    for (uint32_t d = 0; d + 2 < ranks[1]; d++)
        b[d] = draw(at, 0, 3) == 0 ? 1 : batch[d + 4 - ranks[1]];
    a[ranks[0] - 2] = draw(at, 1, 8);
    a[ranks[0] - 1] = b[ranks[1] - 2] = inner;
    b[ranks[1] - 1] = draw(at, 1, 8);
}
static void make_matmul(bench *at) {
    int64_t a[4], b[4];
    uint32_t ranks[2];
    make_matmul_operands(at, a, b, ranks);
    add_input(at, floats(at, "a", ranks[0], a));
    add_input(at, floats(at, "b", ranks[1], b));
}
static void make_gemm(bench *at) {
    int64_t m = draw(at, 1, 7), k = draw(at, 1, 7), n = draw(at, 1, 7), left = draw(at, 0, 1);
    int64_t right = draw(at, 0, 1), a[2] = {left ? k : m, left ? m : k};
    int64_t b[2] = {right ? n : k, right ? k : n}, c[2] = {draw(at, 0, 1) ? m : 1, n};
    add_int(at, "transA", left);
    add_int(at, "transB", right);
    add_input(at, floats(at, "a", 2, a));
    add_input(at, floats(at, "b", 2, b));
    if (draw(at, 0, 2)) add_input(at, floats(at, "c", draw(at, 0, 1) ? 2 : 0, c));
}
/* Operands and result transposed at random. */
static void make_fused_matmul(bench *at) {
    int64_t m = draw(at, 1, 6), k = draw(at, 1, 6), n = draw(at, 1, 6), h = draw(at, 1, 4);
    int64_t a[3] = {h, m, k}, b[3] = {h, k, n}, y[3] = {h, m, n};
    static const int64_t perms[3][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}};
    static const char *const names[3] = {"perm_a", "perm_b", "perm_y"};
    int64_t *shapes[2] = {a, b};
    for (uint32_t i = 0; i < 2; i++) { /* perm[d] is where dimension d of the product lies */
        const int64_t *perm = perms[draw(at, 0, 2)];
        int64_t shape[3];
        for (uint32_t d = 0; d < 3; d++) shape[perm[d]] = shapes[i][d];
        add_ints(at, names[i], perm, 3);
        add_input(at, floats(at, "x", 3, shape));
    }
    const int64_t *perm = perms[draw(at, 0, 2)];
    int64_t moved[3];
    for (uint32_t d = 0; d < 3; d++) moved[d] = y[perm[d]];
    add_ints(at, names[2], perm, 3);
    add_rows(at, 1, n, "bias");
    if (draw(at, 0, 1)) add_input(at, floats(at, "summand", 3, moved));
}
static void make_masked(bench *at) {
    make_image(at);
    int64_t mask[2] = {draw(at, 0, 1) ? extent_of(at, 0, 2) : 1, extent_of(at, 0, 3)};
    add_input(at, floats(at, "mask", 2, mask));
}
static void make_bias_gelu(bench *at) {
    make_image(at);
    add_rows(at, 1, extent_of(at, 0, 3), "row");
}

static void make_concat(bench *at) {
    int64_t shape[4], axis;
    uint32_t rank = any_shape(at, 1, 4, shape), count = (uint32_t)draw(at, 1, 4);
    axis = draw(at, 0, (int64_t)rank - 1);
    for (uint32_t i = 0; i < count; i++) {
        shape[axis] = draw(at, 1, 5);
        add_input(at, floats(at, "x", rank, shape));
    }
    add_int(at, "axis", draw(at, 0, 1) ? axis : axis - (int64_t)rank);
}
static void make_transpose(bench *at) {
    static const int64_t perms[3][4] = {{0, 2, 1, 3}, {3, 1, 0, 2}, {2, 3, 1, 0}};
    make_image(at);
    if (draw(at, 0, 3)) add_ints(at, "perm", perms[draw(at, 0, 2)], 4);
}
static void make_reshape(bench *at) {
    int64_t s[4] = {draw(at, 1, 3), draw(at, 1, 6), draw(at, 2, 4), draw(at, 2, 4)};
    int64_t to[3][3] = {{s[0], s[1], -1}, {s[0] * s[1], s[2], s[3]}, {-1, s[2] * s[3], 1}};
    add_input(at, floats(at, "x", 4, s));
    add_ints_input(at, to[draw(at, 0, 2)], 3);
}
static void make_squeeze(bench *at) {
    int64_t s[4] = {draw(at, 1, 3), 1, draw(at, 1, 6), draw(at, 1, 4)}, axis = 1;
    add_input(at, floats(at, "x", 4, s));
    add_ints_input(at, &axis, 1);
}
static void make_unsqueeze(bench *at) {
    int64_t axis = draw(at, 0, 2);
    make_float(at);
    if (tn_graph_tensor(at->graph, at->inputs[0])->rank < 2) axis = 0;
    add_ints_input(at, &axis, 1);
}
static void make_flatten(bench *at) {
    make_image(at);
    add_int(at, "axis", draw(at, 0, 3));
}
static void make_slice(bench *at) {
    int64_t axis, from, to;
    make_image(at);
    axis = draw(at, 0, 3);
    from = draw(at, 0, extent_of(at, 0, (uint32_t)axis) - 1);
    to = draw(at, from + 1, extent_of(at, 0, (uint32_t)axis));
    add_ints_input(at, &from, 1);
    add_ints_input(at, &to, 1);
    add_ints_input(at, &axis, 1);
}
static void make_split(bench *at) { /* its first output alone */
    make_image(at);
    int64_t axis = draw(at, 0, 3), extent = extent_of(at, 0, (uint32_t)axis);
    add_int(at, "axis", axis);
    add_ints_input(at, &extent, 1);
}
static void make_pad(bench *at) {
    int64_t pads[8] = {0};
    make_image(at);
    for (uint32_t i = 0; i < 8; i++) pads[i] = i % 4 == 2 ? draw(at, 0, 2) : 0;
    add_ints_input(at, pads, 8);
}
static void make_expand(bench *at) {
    int64_t s[3] = {draw(at, 1, 4), 1, draw(at, 1, 4)}, to[4] = {2, s[0], draw(at, 1, 5), s[2]};
    add_input(at, floats(at, "x", 3, s));
    add_ints_input(at, to, 4);
}
static void make_gather(bench *at) {
    int64_t shape[3] = {draw(at, 4, 6), draw(at, 4, 6), draw(at, 4, 6)}; /* indices are -3 to 3 */
    int64_t index[2] = {draw(at, 1, 4), draw(at, 1, 5)};
    add_input(at, floats(at, "x", 3, shape));
    add_input(at, as_type(at, floats(at, "index", (uint32_t)draw(at, 0, 2), index), TN_INT64));
    add_int(at, "axis", draw(at, 0, 2));
}
/* From channels last to the order of the shape; y is in that. */
static void make_reorder(bench *at) {
    int64_t s[4] = {draw(at, 1, 3), draw(at, 1, 9), draw(at, 1, 7), draw(at, 1, 7)};
    tn_tensor_spec spec = {.name = fresh(at, "x"),
                           .dtype = TN_FLOAT32,
                           .kind = TN_KIND_INPUT,
                           .rank = 4,
                           .shape = s,
                           .format.order = TN_ORDER_NHWC};
    tn_tensor_id id;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    add_input(at, id);
}
static void make_to_space(bench *at) {
    int64_t s[4] = {draw(at, 1, 3), 8, draw(at, 1, 4), draw(at, 1, 4)};
    add_input(at, floats(at, "x", 4, s));
    add_int(at, "blocksize", 2);
}
static void make_to_depth(bench *at) {
    int64_t s[4] = {draw(at, 1, 3), 2, 3 * draw(at, 1, 3), 3 * draw(at, 1, 3)};
    add_input(at, floats(at, "x", 4, s));
    add_int(at, "blocksize", 3);
}
static void add_scales(bench *at) {
    double *scales = at->reals[0];
    int64_t four = 4;
    scales[0] = scales[1] = 1;
    scales[2] = (double)draw(at, 1, 3);
    scales[3] = (double)draw(at, 1, 2);
    tn_tensor_spec spec = {.name = fresh(at, "scales"),
                           .dtype = TN_FLOAT32,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &four,
                           .value = {.count = 4, .floats = scales}};
    tn_tensor_id id;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    add_input(at, id);
}
static void make_upsample(bench *at) {
    make_image(at);
    add_scales(at);
}
static void make_resize(bench *at) {
    static const char *const places[] = {"half_pixel", "asymmetric", "align_corners"};
    static const char *const rounds[] = {"round_prefer_floor", "floor", "ceil"};
    static const char *const modes[] = {"nearest", "linear"};
    make_image(at);
    add_input(at, TN_NONE);
    add_scales(at);
    add_string(at, "coordinate_transformation_mode", &places[draw(at, 0, 2)]);
    add_string(at, "nearest_mode", &rounds[draw(at, 0, 2)]);
    add_string(at, "mode", &modes[draw(at, 0, 1)]);
}
static void make_reduce(bench *at) {
    int64_t axes[2] = {draw(at, 0, 1), draw(at, -2, -1)};
    make_image(at);
    add_ints_input(at, axes, (uint32_t)draw(at, 1, 2));
    add_int(at, "keepdims", draw(at, 0, 1));
}

/* --- all of them --- */

typedef struct split_subject {
    const char *domain, *type;
    void (*make)(bench *at);
    uint32_t version;
} split_subject;

static const split_subject subjects[] = {
    {"", "Add", make_pair, 14},
    {"", "And", make_bool_pair, 7},
    {"", "AveragePool", make_average_pool, 11},
    {"", "BatchNormalization", make_batch_norm, 9},
    {"", "BitCast", make_bit_cast, 26},
    {"", "BitShift", make_shift, 11},
    {"", "BitwiseAnd", make_uint_pair, 18},
    {"", "BitwiseNot", make_int, 18},
    {"", "BitwiseOr", make_uint_pair, 18},
    {"", "BitwiseXor", make_int_pair, 18},
    {"", "Cast", make_cast, 13},
    {"", "CastLike", make_cast_like, 15},
    {"", "CausalConvWithState", make_causal, 27},
    {"", "Clip", make_clip, 13},
    {"", "Concat", make_concat, 13},
    {"", "Conv", make_conv_plain, 11},
    {"", "ConvInteger", make_conv_integer, 10},
    {"", "ConvTranspose", make_conv_transpose, 11},
    {"", "DepthToSpace", make_to_space, 13},
    {"tenure", "Reorder", make_reorder, 1},
    {"", "DequantizeLinear", make_dequantize, 13},
    {"", "Div", make_pair, 14},
    {"", "Dropout", make_float, 13},
    {"", "Equal", make_int_pair, 13},
    {"", "Expand", make_expand, 13},
    {"", "Flatten", make_flatten, 13},
    {"", "Gather", make_gather, 13},
    {"", "Gemm", make_gemm, 13},
    {"", "GlobalAveragePool", make_image, 1},
    {"", "GlobalLpPool", make_image, 2},
    {"", "GlobalMaxPool", make_image, 1},
    {"", "Greater", make_pair, 13},
    {"", "GreaterOrEqual", make_pair, 16},
    {"", "GroupNormalization", make_group_norm, 21},
    {"", "Hardmax", make_along, 13},
    {"", "InstanceNormalization", make_instance_norm, 6},
    {"", "LRN", make_lrn, 13},
    {"", "LayerNormalization", make_layer_norm, 17},
    {"", "Less", make_pair, 13},
    {"", "LessOrEqual", make_pair, 16},
    {"", "LogSoftmax", make_along, 13},
    {"", "LpNormalization", make_along, 1},
    {"", "LpPool", make_max_pool, 18},
    {"", "MatMul", make_matmul, 13},
    {"", "Max", make_three, 13},
    {"", "MaxPool", make_max_pool, 12},
    {"", "Mean", make_three, 13},
    {"", "Min", make_three, 13},
    {"", "Mod", make_int_pair, 13},
    {"", "Mul", make_pair, 14},
    {"", "Not", make_bool, 1},
    {"", "Or", make_bool_pair, 7},
    {"", "PRelu", make_prelu, 16},
    {"", "Pad", make_pad, 13},
    {"", "Pow", make_pair, 13},
    {"", "QLinearConv", make_conv_qlinear, 10},
    {"", "QuantizeLinear", make_quantize, 13},
    {"", "RMSNormalization", make_rms_norm, 23},
    {"", "ReduceL1", make_reduce, 18},
    {"", "ReduceL2", make_reduce, 18},
    {"", "ReduceLogSum", make_reduce, 18},
    {"", "ReduceLogSumExp", make_reduce, 18},
    {"", "ReduceMax", make_reduce, 18},
    {"", "ReduceMean", make_reduce, 18},
    {"", "ReduceMin", make_reduce, 18},
    {"", "ReduceProd", make_reduce, 18},
    {"", "ReduceSum", make_reduce, 13},
    {"", "ReduceSumSquare", make_reduce, 18},
    {"", "Reshape", make_reshape, 13},
    {"", "Resize", make_resize, 13},
    {"", "SimplifiedLayerNormalization", make_rms_norm, 1},
    {"", "Slice", make_slice, 13},
    {"", "Softmax", make_along, 13},
    {"", "SpaceToDepth", make_to_depth, 13},
    {"", "Split", make_split, 13},
    {"", "Squeeze", make_squeeze, 13},
    {"", "Sub", make_pair, 14},
    {"", "Sum", make_three, 13},
    {"", "SwiGLU", make_alike, 28},
    {"", "Transpose", make_transpose, 13},
    {"", "Unsqueeze", make_unsqueeze, 13},
    {"", "Upsample", make_upsample, 9},
    {"", "Where", make_where, 16},
    {"", "Xor", make_bool_pair, 7},
    {"com.microsoft", "BiasGelu", make_bias_gelu, 1},
    {"com.microsoft", "FastGelu", make_bias_gelu, 1},
    {"com.microsoft", "Gelu", make_float, 1},
    {"com.microsoft", "QLinearLeakyRelu", make_qlinear, 1},
    {"com.microsoft", "QLinearSigmoid", make_qlinear, 1},
    {"com.microsoft", "QuickGelu", make_float, 1},
    {"tenure", "BiasGelu", make_bias_gelu, 1},
    {"tenure", "Conv", make_conv_fused, 1},
    {"tenure", "MaskedSoftmax", make_masked, 1},
    {"tenure", "MatMul", make_fused_matmul, 1},
    {"tenure", "Swish", make_float, 1},
};

static const split_subject *subject_of(const char *domain, const char *type) {
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i].domain, domain) == 0 && strcmp(subjects[i].type, type) == 0)
            return &subjects[i];
    return NULL;
}

/* Whether one input, of which every element gives one of the output, is all that it has. */
static bool is_unary(const char *domain, const char *type) {
    const tn_op_rule *rule = tn__op_rule(domain, type);
    return *domain == '\0' && rule->inputs_max == 1 && rule->inputs_min == 1 &&
           (rule->split == tn__split_each || strcmp(type, "Identity") == 0);
}

/* --- one case --- */

static tn_op_id build(bench *at, const split_subject *subject) {
    tn_error error;
    at->input_count = at->attr_count = at->kept = 0;
    assert_int_equal(tn_graph_create(NULL, &at->graph, NULL), TN_OK);
    subject->make(at);
    tn_tensor_id y = whole_tensor(at->graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at->graph, subject->domain, subject->type, subject->version, at->inputs,
                at->input_count, y, at->attrs, at->attr_count);
    if (tn_graph_infer(at->graph, &error) != TN_OK) { /* a window that does not fit */
        tn_graph_destroy(at->graph);
        return TN_NONE;
    }
    return tn_graph_tensor(at->graph, y)->producer;
}

/* Some axis that the operator can be cut along. */
static bool choose(bench *at, tn_op_id id, tn_split_region *region) {
    const tn_tensor *y = tn_graph_tensor(at->graph, tn_graph_op(at->graph, id)->outputs[0]);
    uint32_t axes[TN_RANK_MAX], count = 0;
    for (uint32_t d = 0; d < y->rank; d++)
        if (y->shape[d] > 1 && tn__op_splits(at->graph, id, d)) axes[count++] = d;
    if (count == 0) return false;
    uint32_t one = (uint32_t)draw(at, 0, (int64_t)count - 1);
    uint32_t two = (uint32_t)draw(at, 0, (int64_t)count - 1);
    *region = (tn_split_region){.first = id, .last = id, .axes = {axes[one], axes[two]}};
    for (uint32_t c = 0; c < 2; c++)
        region->parts[c] = (uint32_t)draw(at, 2, y->shape[region->axes[c]]);
    region->keep = draw(at, 0, 1) == 0;
    if (one == two || region->keep) region->parts[1] = 1;
    return true;
}

/* Operators whose kernel takes a vector of elements at a time along another axis than it sums:
 * which of them go by vectors, and which by the scalar function, depends on the extents. */
static bool differs_by_noise(const char *type, const whole *one, const whole *two) {
    static const char *const types[] = {"LogSoftmax", "Softmax"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i], type) == 0) return whole_difference(one, two) < 1e-6;
    return false;
}

static void compare(const split_subject *subject, const tn_split_region *region, uint32_t number,
                    whole *one, const tn_graph *graph, const tn_graph *split) {
    whole two = *one;
    if (whole_run(one, graph) != TN_OK)
        fail_msg("%s: %s: %s", subject->type, one->error.where, one->error.message);
    if (whole_run(&two, split) != TN_OK)
        fail_msg("%s in parts: %s: %s", subject->type, two.error.where, two.error.message);
    assert_int_equal(one->outputs[0].bytes, two.outputs[0].bytes);
    bool same = memcmp(one->outputs[0].data, two.outputs[0].data, one->outputs[0].bytes) == 0;
    if (!same && differs_by_noise(subject->type, one, &two)) same = true;
    if (!same)
        fail_msg("%s (case %u of seed %u): %u parts of axis %u, %u of %u: other results",
                 subject->type, number, seed, region->parts[0], region->axes[0], region->parts[1],
                 region->axes[1]);
    whole_release(one);
    whole_release(&two);
}

/* What the search computes from the first answer is what the rule answers for any other part. */
static void check_laws(bench *at, const split_subject *subject, tn_op_id id) {
    const tn_op *op = tn_graph_op(at->graph, id);
    const tn_tensor *y = tn_graph_tensor(at->graph, op->outputs[0]);
    split_order order;
    tn__arena arena;
    tn__arena_init(&arena, NULL);
    assert_int_equal(tn__split_order(at->graph, &arena, &order, NULL), TN_OK);
    for (uint32_t k = 0; k < 64 && y->rank > 0; k++) {
        uint32_t axis = (uint32_t)draw(at, 0, (int64_t)y->rank - 1);
        uint32_t input = (uint32_t)draw(at, 0, (int64_t)op->input_count - 1);
        int64_t first = draw(at, 0, y->shape[axis]), last = draw(at, 0, y->shape[axis] + 1);
        tn__tile asked = {axis, first, last}, known = asked;
        tn__need right = {0}, need = {0};
        bool answers = tn__op_split(at->graph, id, &asked, input, &right);
        bool same = tn__split_ask(&order, id, &known, input, &need) == answers;
        if (same && answers)
            same =
                need.axis == right.axis && need.before == right.before &&
                need.after == right.after && need.extra == right.extra &&
                (need.axis == TN_NONE || (need.first == right.first && need.last == right.last)) &&
                known.first == asked.first && known.last == asked.last;
        if (!same)
            fail_msg("%s (seed %u): [%lld, %lld) of axis %u: another answer about input %u",
                     subject->type, seed, (long long)first, (long long)last, axis, input);
    }
    tn__arena_release(&arena);
}

/* True: there was something to cut. */
static bool try_case(bench *at, const split_subject *subject, uint32_t number) {
    tn_split_region region;
    tn_graph *split;
    tn_error error = {0};
    whole run = {.plain = true, .threads = 1, .seed = number, .spread = 4};
    at->random.state = seed + 7919 * (uint64_t)number;
    tn_op_id id = build(at, subject);
    if (id == TN_NONE) return false;
    check_laws(at, subject, id);
    bool cut = choose(at, id, &region);
    if (cut) {
        tn_status status = tn_graph_split(at->graph, &region, 1, NULL, &split, &error);
        /* A part may read nothing but padding: that is told, and no part is made. */
        cut = status == TN_OK;
        if (!cut && strstr(error.message, "cannot compute one of the parts") == NULL)
            fail_msg("%s (case %u): %s: %s", subject->type, number, error.where, error.message);
    }
    if (cut) {
        compare(subject, &region, number, &run, at->graph, split);
        tn_graph_destroy(split);
    }
    tn_graph_destroy(at->graph);
    return cut;
}

static void an_operator_in_parts_computes_what_it_computes_whole(void **state) {
    bench at = {0};
    uint32_t done = 0, operators = 0;
    (void)state;
    for (uint32_t i = 0; i < tn_op_rule_count(); i++) {
        const char *domain = tn_op_rule_domain(i), *type = tn_op_rule_type(i);
        split_subject unary = {domain, type, make_float, 13};
        const split_subject *subject = subject_of(domain, type);
        if (!tn_op_rule_has_split(i) || strcmp(domain, "tflite") == 0) continue; /* test_tflite.c */
        if (subject == NULL && is_unary(domain, type)) subject = &unary;
        if (subject == NULL) fail_msg("no case for %s", type);
        uint32_t cut = 0;
        /* Some draws have nothing to cut. */
        for (uint32_t k = 0; cut < cases && k < 20 * cases; k++)
            cut += try_case(&at, subject, i * 1009 + k);
        if (cut < cases) fail_msg("%s was cut in %u cases of %u", type, cut, cases);
        done += cut;
        operators++;
    }
    printf("%u operators, %u cases\n", operators, done);
    assert_true(operators > 0 && done == operators * cases);
}

/* Operators that some rule would have to be written for, or that reduce along every axis. */
static void operators_without_a_rule_are_told(void **state) {
    uint32_t without = 0;
    (void)state;
    for (uint32_t i = 0; i < tn_op_rule_count(); i++)
        if (!tn_op_rule_has_split(i) && *tn_op_rule_domain(i) == '\0') {
            printf("%s%s", without++ > 0 ? " " : "no rule: ", tn_op_rule_type(i));
        }
    printf("\n%u of ONNX\n", without);
    assert_true(without < tn_op_rule_count());
}

int main(int count, char **words) {
    if (count > 1) cases = (uint32_t)atoi(words[1]);
    if (count > 2) seed = (uint32_t)atoi(words[2]);
    printf("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_in_parts_computes_what_it_computes_whole),
        cmocka_unit_test(operators_without_a_rule_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
