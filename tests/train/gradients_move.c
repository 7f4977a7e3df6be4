/* gradients_move.c - cases of gradients: operators that move elements, by rule or by index, and
 * resampling.
 */
#include "gradients.h"

/* --- movement --- */

static tn_tensor_id build_transpose(net *n, const void *data) {
    shape s = draw_shape(n, 1, 5, 4);
    int64_t perm[8];
    (void)data;
    for (uint32_t d = 0; d < s.rank; d++) perm[d] = d;
    for (uint32_t d = s.rank; d-- > 1;) {
        uint32_t other = (uint32_t)draw(n, 0, d);
        int64_t kept = perm[d];
        perm[d] = perm[other];
        perm[other] = kept;
    }
    if (draw(n, 0, 3)) net_attr_ints(n, "perm", s.rank, perm);
    return net_op(n, "Transpose", NET_LIST(param(n, 0, 1, &s)));
}

static tn_tensor_id build_concat(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 4);
    int64_t axis = draw(n, 0, s.rank - 1);
    tn_tensor_id parts[3];
    (void)data;
    for (uint32_t i = 0; i < 3; i++) {
        s.extent[axis] = draw(n, 1, 4);
        parts[i] = param(n, 0, 1, &s);
    }
    net_attr_int(n, "axis", draw(n, 0, 1) ? axis : axis - s.rank);
    return net_op(n, "Concat", 3, parts);
}

/* One of three parts is not used. */
static tn_tensor_id build_split(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 4);
    int64_t axis = draw(n, 0, s.rank - 1), sizes[3] = {2, draw(n, 1, 3), 2};
    tn_tensor_id parts[3];
    (void)data;
    s.extent[axis] = 4 + sizes[1];
    net_attr_int(n, "axis", axis);
    tn_tensor_id x = param(n, 0, 1, &s);
    net_ops(n, "Split", NET_LIST(x, net_ints(n, 3, sizes)), 3, parts);
    return net_op(n, "Mul", NET_LIST(parts[0], parts[2]));
}

static tn_tensor_id build_slice(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 6);
    int64_t starts[8], ends[8], axes[8], steps_of[8];
    uint32_t count = 0;
    (void)data;
    for (uint32_t d = 0; d < s.rank; d++) {
        if (draw(n, 0, 2) == 0) continue;
        int64_t extent = s.extent[d], first = draw(n, 0, extent - 1);
        bool back = draw(n, 0, 2) == 0;
        axes[count] = draw(n, 0, 1) ? (int64_t)d : (int64_t)d - s.rank;
        starts[count] = draw(n, 0, 1) ? first : first - extent;
        if (back && draw(n, 0, 1)) starts[count] = 1000;
        ends[count] = back ? -100 : draw(n, 0, 1) ? 1000 : draw(n, first + 1, extent);
        steps_of[count++] = back ? -draw(n, 1, 3) : draw(n, 1, 3);
    }
    if (count == 0) {
        starts[0] = 0, ends[0] = 1, axes[0] = 0, steps_of[0] = 1;
        count = 1;
    }
    tn_tensor_id x = param(n, 0, 1, &s);
    return net_op(n, "Slice",
                  NET_LIST(x, net_ints(n, count, starts), net_ints(n, count, ends),
                           net_ints(n, count, axes), net_ints(n, count, steps_of)));
}

static tn_tensor_id build_pad(net *n, const void *data) {
    const char *mode = data;
    bool constant = strcmp(mode, "constant") == 0, reflect = strcmp(mode, "reflect") == 0;
    shape s = draw_shape(n, 1, 4, 5);
    int64_t pads[16];
    for (uint32_t d = 0; d < s.rank; d++) {
        int64_t extent = s.extent[d], most = reflect ? extent - 1 : 3;
        int64_t least = constant && extent > 2 ? -1 : 0;
        pads[d] = draw(n, least, most);
        pads[s.rank + d] = draw(n, least, most);
    }
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_string(n, "mode", mode);
    if (draw(n, 0, 3) == 0) {
        n->version = 2;
        net_attr_ints(n, "pads", 2 * s.rank, pads);
        return net_op(n, "Pad", NET_LIST(x));
    }
    return net_op(n, "Pad", NET_LIST(x, net_ints(n, 2 * s.rank, pads)));
}

static tn_tensor_id build_expand(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 4), t = draw_narrower(n, &s);
    (void)data;
    return net_op(n, "Expand", NET_LIST(param(n, 0, 1, &t), net_ints(n, s.rank, s.extent)));
}

static tn_tensor_id build_tile(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 3);
    int64_t repeats[8];
    (void)data;
    for (uint32_t d = 0; d < s.rank; d++) repeats[d] = draw(n, 1, 3);
    return net_op(n, "Tile", NET_LIST(param(n, 0, 1, &s), net_ints(n, s.rank, repeats)));
}

static tn_tensor_id build_blocks(net *n, const void *data) {
    const char *mode = data;
    int64_t block = draw(n, 1, 3), n0 = draw(n, 1, 2), c = draw(n, 1, 3);
    int64_t h = draw(n, 1, 3), w = draw(n, 1, 3);
    bool deep = *mode != 0;
    shape s = {
        .rank = 4,
        .extent = {n0, deep ? c * block * block : c, deep ? h : h * block, deep ? w : w * block}};
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_int(n, "blocksize", block);
    if (deep) net_attr_string(n, "mode", mode);
    return net_op(n, deep ? "DepthToSpace" : "SpaceToDepth", NET_LIST(x));
}

static tn_tensor_id build_trilu(net *n, const void *data) {
    shape s = draw_shape(n, 2, 4, 5);
    int64_t k = draw(n, -2, 2);
    tn_tensor_id diagonal, x = param(n, 0, 1, &s);
    tn_tensor_spec spec = {
        .dtype = TN_INT64, .kind = TN_KIND_CONSTANT, .value = {.count = 1, .ints = &k}};
    (void)data;
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &diagonal, &n->error));
    net_attr_int(n, "upper", draw(n, 0, 1));
    return net_op(n, "Trilu", draw(n, 0, 1) ? 2 : 1, (const tn_tensor_id[]){x, diagonal});
}

static tn_tensor_id build_shapes(net *n, const void *data) {
    shape s = {.rank = 3, .extent = {draw(n, 1, 4), 1, draw(n, 1, 4)}};
    int64_t one = 1, last[] = {0, -1}, whole[] = {-1};
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    x = net_op(n, "Squeeze", NET_LIST(x, net_ints(n, 1, &one)));
    x = net_op(n, "Unsqueeze", NET_LIST(x, net_ints(n, 2, last)));
    if (draw(n, 0, 1)) return net_op(n, "Flatten", NET_LIST(x));
    return net_op(n, "Reshape", NET_LIST(x, net_ints(n, 1, whole)));
}

/* --- indices --- */

static tn_tensor_id build_gather(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 5), t = draw_shape(n, 0, 2, 4);
    int64_t axis = draw(n, 0, s.rank - 1);
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    tn_tensor_id indices = net_numbers(n, "i", s.extent[axis], t.rank, t.extent);
    if (draw(n, 0, 1)) /* from the end */
        for (uint64_t i = 0; i < n->counts[indices]; i++)
            n->contents[indices][i] -= (double)s.extent[axis];
    net_attr_int(n, "axis", axis);
    return net_op(n, "Gather", NET_LIST(x, indices));
}

static tn_tensor_id build_gather_elements(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 4), t = s;
    int64_t axis = draw(n, 0, s.rank - 1);
    (void)data;
    t.extent[axis] = draw(n, 1, 6);
    tn_tensor_id x = param(n, 0, 1, &s);
    tn_tensor_id indices = net_numbers(n, "i", s.extent[axis], t.rank, t.extent);
    net_attr_int(n, "axis", axis);
    return net_op(n, "GatherElements", NET_LIST(x, indices));
}

static tn_tensor_id build_gather_nd(net *n, const void *data) {
    shape s = draw_shape(n, 2, 3, 4);
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    tn_tensor_id indices = net_numbers(n, "i", s.extent[0], NET_SHAPE(5, 1));
    return net_op(n, "GatherND", NET_LIST(x, indices));
}

/* Indices that are all different: what is written twice has no one gradient. */
static tn_tensor_id build_scatter(net *n, const void *data) {
    const char *how = data;
    int64_t rows = draw(n, 3, 6), columns = draw(n, 1, 4);
    tn_tensor_id x = net_param(n, "x", 1, NET_SHAPE(rows, columns));
    tn_tensor_id u = net_param(n, "u", 1, NET_SHAPE(2, columns));
    int64_t at[8];
    for (int64_t i = 0; i < 2 * columns; i++) at[i] = i < columns ? 2 : 0;
    bool nd = *how != 0 && draw(n, 0, 1) != 0;
    tn_tensor_id list = net_ints(n, (uint32_t)(nd ? 2 : 2 * columns), nd ? (int64_t[]){2, 0} : at);
    int64_t wide[] = {2, nd ? 1 : columns};
    list = net_op(n, "Reshape", NET_LIST(list, net_ints(n, 2, wide)));
    net_attr_string(n, "reduction", how);
    if (*how == 0) n->attr_count--, n->version = 9; /* before it had a reduction */
    return net_op(n,
                  *how == 0 ? "Scatter"
                  : nd      ? "ScatterND"
                            : "ScatterElements",
                  NET_LIST(x, list, u));
}

static tn_tensor_id build_top_k(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 5);
    int64_t axis = draw(n, 0, s.rank - 1), k = draw(n, 1, s.extent[axis]);
    tn_tensor_id outputs[2], x = param(n, 0, 1, &s);
    (void)data;
    net_attr_int(n, "axis", axis);
    net_ops(n, "TopK", NET_LIST(x, net_ints(n, 1, &k)), 2, outputs);
    return outputs[0];
}

static tn_tensor_id build_crop_pad(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 6);
    int64_t sizes[8], axes[8];
    uint32_t count = 0;
    (void)data;
    for (uint32_t d = 0; d < s.rank; d++)
        if (count == 0 || draw(n, 0, 1)) {
            axes[count] = draw(n, 0, 1) ? (int64_t)d : (int64_t)d - s.rank;
            sizes[count++] = draw(n, 1, 7);
        }
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_ints(n, "axes", count, axes);
    return net_op(n, "CenterCropPad", NET_LIST(x, net_ints(n, count, sizes)));
}

static tn_tensor_id build_reversed(net *n, const void *data) {
    shape s = {.rank = 3, .extent = {draw(n, 1, 4), draw(n, 1, 3), 2}};
    bool first = draw(n, 0, 1) != 0; /* batch */
    int64_t lengths[4];
    (void)data;
    for (int64_t b = 0; b < s.extent[!first]; b++) lengths[b] = draw(n, 1, s.extent[first]);
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_int(n, "batch_axis", !first);
    net_attr_int(n, "time_axis", first);
    return net_op(n, "ReverseSequence",
                  NET_LIST(x, net_ints(n, (uint32_t)s.extent[!first], lengths)));
}

void movement(void **state) {
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        check(build_transpose, NULL, "Transpose", seed);
        check(build_concat, NULL, "Concat", seed);
        check(build_split, NULL, "Split", seed);
        check(build_slice, NULL, "Slice", seed);
        for (size_t i = 0; i < 4; i++) check(build_pad, modes[i], modes[i], seed);
        check(build_expand, NULL, "Expand", seed);
        check(build_tile, NULL, "Tile", seed);
        check(build_blocks, "DCR", "DepthToSpace", seed);
        check(build_blocks, "CRD", "DepthToSpace CRD", seed);
        check(build_blocks, "", "SpaceToDepth", seed);
        check(build_trilu, NULL, "Trilu", seed);
        check(build_crop_pad, NULL, "CenterCropPad", seed);
        check(build_reversed, NULL, "ReverseSequence", seed);
        check(build_shapes, NULL, "Squeeze, Unsqueeze, Reshape", seed);
    }
}

void indices(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        check(build_gather, NULL, "Gather", seed);
        check(build_gather_elements, NULL, "GatherElements", seed);
        check(build_gather_nd, NULL, "GatherND", seed);
        check(build_scatter, "none", "Scatter", seed);
        check(build_scatter, "add", "Scatter, add", seed);
        check(build_scatter, "", "Scatter 9", seed);
        check(build_top_k, NULL, "TopK", seed);
    }
}

/* --- resampling --- */

typedef struct resampling {
    const char *mode, *coordinates;
} resampling;

static tn_tensor_id build_resize(net *n, const void *data) {
    const resampling *r = data;
    shape s = draw_shape(n, 4, 4, 4);
    int64_t sizes[4];
    double scales[4] = {1, 1, (double)draw(n, 1, 5) / 2, (double)draw(n, 2, 5) / 2};
    s.extent[2] += 1;
    s.extent[3] += 1;
    for (uint32_t d = 0; d < 4; d++) sizes[d] = d < 2 ? s.extent[d] : draw(n, 1, 7);
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_string(n, "mode", r->mode);
    if (r->coordinates == NULL) {
        n->version = 9;
        if (strcmp(r->mode, "nearest") == 0)
            return net_op(n, "Upsample", NET_LIST(x, floats(n, 4, scales)));
        return net_op(n, "Resize", NET_LIST(x, floats(n, 4, scales)));
    }
    net_attr_string(n, "coordinate_transformation_mode", r->coordinates);
    net_attr_string(n, "nearest_mode", draw(n, 0, 1) ? "floor" : "round_prefer_floor");
    net_attr_int(n, "exclude_outside", draw(n, 0, 1));
    net_attr_int(n, "antialias", draw(n, 0, 1));
    if (draw(n, 0, 1)) return net_op(n, "Resize", NET_LIST(x, TN_NONE, floats(n, 4, scales)));
    return net_op(n, "Resize", NET_LIST(x, TN_NONE, TN_NONE, net_ints(n, 4, sizes)));
}

/* --- sampling --- */

typedef struct sampling {
    const char *mode, *padding;
} sampling;

/* Coordinates with samples away from the centre and edge of a pixel, where the derivative jumps. */
static tn_tensor_id build_grid_sample(net *n, const void *data) {
    const sampling *how = data;
    uint32_t axes = (uint32_t)draw(n, 1, 3);
    shape s = draw_shape(n, axes + 2, axes + 2, 4), g = draw_shape(n, axes + 2, axes + 2, 3);
    for (uint32_t d = 2; d < s.rank; d++) s.extent[d] += 1;
    g.extent[0] = s.extent[0];
    g.extent[g.rank - 1] = axes;
    net_attr_string(n, "mode", how->mode);
    net_attr_string(n, "padding_mode", how->padding);
    net_attr_int(n, "align_corners", draw(n, 0, 1));
    tn_tensor_id x = param(n, 0, 1, &s);
    return net_op(n, "GridSample", NET_LIST(x, param(n, 0, 1.6, &g)));
}

static tn_tensor_id build_affine_grid(net *n, const void *data) {
    uint32_t axes = (uint32_t)draw(n, 1, 3);
    shape s = {.rank = 3, .extent = {draw(n, 1, 3), axes, axes + 1}};
    int64_t size[5] = {s.extent[0], 2};
    (void)data;
    for (uint32_t d = 0; d < axes; d++) size[2 + d] = draw(n, 1, 4);
    net_attr_int(n, "align_corners", draw(n, 0, 1));
    return net_op(n, "AffineGrid", NET_LIST(param(n, 0, 1, &s), net_ints(n, axes + 2, size)));
}

static tn_tensor_id build_col2im(net *n, const void *data) {
    uint32_t axes = (uint32_t)draw(n, 1, 3);
    int64_t image[3], block[3], strides[3], dilations[3], pads[6], taps = 1, blocks = 1;
    (void)data;
    for (uint32_t d = 0; d < axes; d++) {
        block[d] = draw(n, 1, 3);
        strides[d] = draw(n, 1, 3);
        dilations[d] = draw(n, 1, 2);
        pads[d] = draw(n, 0, 2);
        pads[axes + d] = draw(n, 0, 2);
        image[d] = (block[d] - 1) * dilations[d] + draw(n, 1, 4);
        int64_t reach = (block[d] - 1) * dilations[d] + 1;
        blocks *= (image[d] + pads[d] + pads[axes + d] - reach) / strides[d] + 1;
        taps *= block[d];
    }
    shape s = {.rank = 3, .extent = {draw(n, 1, 2), taps * draw(n, 1, 2), blocks}};
    net_attr_ints(n, "strides", axes, strides);
    net_attr_ints(n, "dilations", axes, dilations);
    net_attr_ints(n, "pads", 2 * axes, pads);
    return net_op(n, "Col2Im",
                  NET_LIST(param(n, 0, 1, &s), net_ints(n, axes, image), net_ints(n, axes, block)));
}

void sampled(void **state) {
    static const sampling all[] = {
        {"linear", "zeros"}, {"linear", "border"},    {"linear", "reflection"},  {"cubic", "zeros"},
        {"cubic", "border"}, {"cubic", "reflection"}, {"nearest", "reflection"},
    };
    (void)state;
    EACH_SEED(seed) {
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            check(build_grid_sample, &all[i], all[i].mode, seed);
        check(build_affine_grid, NULL, "AffineGrid", seed);
        check(build_col2im, NULL, "Col2Im", seed);
    }
}

void resampled(void **state) {
    static const resampling all[] = {
        {"nearest", "half_pixel"}, {"nearest", "asymmetric"},   {"nearest", NULL},
        {"linear", "half_pixel"},  {"linear", "align_corners"}, {"linear", "pytorch_half_pixel"},
        {"linear", NULL},          {"cubic", "half_pixel"},     {"cubic", "align_corners"},
    };
    (void)state;
    EACH_SEED(seed)
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(build_resize, &all[i], all[i].mode, seed);
}
