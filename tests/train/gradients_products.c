/* gradients_products.c - cases of gradients: products, convolutions, pools.
 */
#include "gradients.h"

/* --- products --- */

static tn_tensor_id build_gemm(net *n, const void *data) {
    int64_t rows = draw(n, 1, 5), inner = draw(n, 1, 5), columns = draw(n, 1, 5);
    bool flip_a = draw(n, 0, 1), flip_b = draw(n, 0, 1), old = *(const bool *)data;
    shape a = {.rank = 2, .extent = {flip_a ? inner : rows, flip_a ? rows : inner}};
    shape b = {.rank = 2, .extent = {flip_b ? columns : inner, flip_b ? inner : columns}};
    shape y = {.rank = 2, .extent = {rows, columns}}, c = draw_narrower(n, &y);
    tn_tensor_id in[] = {param(n, 0, 1, &a), param(n, 0, 1, &b), param(n, 0, 1, &c)};
    if (old) n->version = 6;
    if (old) net_attr_int(n, "broadcast", 1);
    net_attr_int(n, "transA", flip_a);
    net_attr_int(n, "transB", flip_b);
    if (draw(n, 0, 1)) net_attr_float(n, "alpha", 0.7);
    if (draw(n, 0, 1)) net_attr_float(n, "beta", -1.3);
    return net_op(n, "Gemm", old || draw(n, 0, 2) ? 3 : 2, in);
}

/* Vectors on either side, batches that are repeated on either side. */
static tn_tensor_id build_matmul(net *n, const void *data) {
    int64_t inner = draw(n, 1, 4);
    shape batch = draw_shape(n, 0, 3, 3), a = {0}, b = {0};
    (void)data;
    for (uint32_t side = 0; side < 2; side++) {
        shape *s = side == 0 ? &a : &b;
        uint32_t cut = (uint32_t)draw(n, 0, batch.rank);
        if (draw(n, 0, 4) == 0) { /* a vector */
            *s = (shape){.rank = 1, .extent = {inner}};
            continue;
        }
        for (uint32_t d = cut; d < batch.rank; d++)
            s->extent[s->rank++] = draw(n, 0, 2) == 0 ? 1 : batch.extent[d];
        s->extent[s->rank++] = side == 0 ? draw(n, 1, 4) : inner;
        s->extent[s->rank++] = side == 0 ? inner : draw(n, 1, 4);
    }
    return net_op(n, "MatMul", NET_LIST(param(n, 0, 1, &a), param(n, 0, 1, &b)));
}

static tn_tensor_id build_own_product(net *n, const void *data) {
    int64_t side = draw(n, 1, 4);
    shape s = {.rank = 3, .extent = {draw(n, 1, 3), side, side}};
    tn_tensor_id x = param(n, 0, 1, &s);
    (void)data;
    return net_op(n, "MatMul", NET_LIST(x, x));
}

/* An equation; letters have extents that are drawn once. */
static tn_tensor_id build_einsum(net *n, const void *data) {
    const char *equation = data;
    int64_t extents[128];
    tn_tensor_id operands[3];
    uint32_t count = 0;
    shape s = {.rank = 0};
    for (uint32_t c = 0; c < 128; c++) extents[c] = draw(n, 1, 4);
    for (const char *c = equation;; c++) {
        bool label = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (label) s.extent[s.rank++] = extents[(int)*c];
        if (label || *c == ' ') continue;
        operands[count++] = param(n, 0, 1, &s);
        s.rank = 0;
        if (*c != ',') break;
    }
    net_attr_string(n, "equation", equation);
    return net_op(n, "Einsum", count, operands);
}

/* A label that 1 stands for in one operand and more in another; an ellipsis on both sides. */
static tn_tensor_id build_einsum_of(net *n, const void *data) {
    static const struct {
        const char *equation;
        shape a, b;
    } all[] = {
        {"...ij,...jk->...ik", {4, {2, 3, 2, 4}}, {4, {2, 3, 4, 3}}},
        {"...ij,...jk->...ik", {4, {2, 1, 2, 4}}, {3, {3, 4, 3}}},
        {"b...i,...i->b...", {3, {2, 3, 4}}, {2, {3, 4}}},
        {"i...,j...", {2, {2, 3}}, {2, {4, 3}}},
        {"ii,i->i", {2, {3, 3}}, {1, {3}}},
        {"iji,jk->ik", {3, {3, 2, 3}}, {2, {2, 4}}},
        {"ij,jj->ij", {2, {2, 3}}, {2, {3, 3}}},
        {"ij,kj->ik", {2, {2, 3}}, {2, {4, 3}}},
    };
    size_t k = *(const size_t *)data;
    tn_tensor_id a = param(n, 0, 1, &all[k].a), b = param(n, 0, 1, &all[k].b);
    net_attr_string(n, "equation", all[k].equation);
    return net_op(n, "Einsum", NET_LIST(a, b));
}

void products(void **state) {
    static const char *const equations[] = {
        "ij,jk->ik",    "bij,bjk->bik", "bhqd, bhkd -> bhqk", "ij->ji", "ij->", "i,j->ij",
        "ij,ik,jl->kl", "ij,jk",        "abc,cd->ad",         "ba,ca",  "i,i->"};
    (void)state;
    for (uint64_t seed = 1; seed <= 5 * SEEDS; seed++) {
        check(build_gemm, &(bool){false}, "Gemm", seed);
        check(build_gemm, &(bool){true}, "Gemm 6", seed);
        check(build_matmul, NULL, "MatMul", seed);
        check(build_own_product, NULL, "MatMul of itself", seed);
    }
    EACH_SEED(seed) {
        for (size_t i = 0; i < sizeof equations / sizeof *equations; i++)
            check(build_einsum, equations[i], equations[i], seed);
        for (size_t i = 0; i < 8; i++) check(build_einsum_of, &i, "Einsum", seed);
    }
}

/* --- windows --- */

typedef struct window {
    uint32_t spatial;
    int64_t kernel[3], stride[3], dilation[3], pads[6], extent[3];
    const char *automatic; /* auto_pad, or NULL */
} window;

/* Windows that fit at least once. */
static window draw_window(net *n, uint32_t most, bool dilated) {
    static const char *const modes[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    window w = {.spatial = (uint32_t)draw(n, 1, most)};
    if (draw(n, 0, 2) == 0) w.automatic = modes[draw(n, 0, 2)];
    for (uint32_t d = 0; d < w.spatial; d++) {
        w.kernel[d] = draw(n, 1, 3);
        w.stride[d] = draw(n, 1, 3);
        w.dilation[d] = dilated && w.automatic == NULL ? draw(n, 1, 2) : 1;
        int64_t reach = (w.kernel[d] - 1) * w.dilation[d] + 1;
        w.pads[d] = w.automatic == NULL ? draw(n, 0, w.kernel[d] - 1) : 0;
        w.pads[w.spatial + d] = w.automatic == NULL ? draw(n, 0, w.kernel[d] - 1) : 0;
        w.extent[d] = reach + draw(n, 0, 3);
    }
    return w;
}

static void window_attrs(net *n, const window *w, bool kernel) {
    if (kernel) net_attr_ints(n, "kernel_shape", w->spatial, w->kernel);
    net_attr_ints(n, "strides", w->spatial, w->stride);
    net_attr_ints(n, "dilations", w->spatial, w->dilation);
    if (w->automatic != NULL)
        net_attr_string(n, "auto_pad", w->automatic);
    else
        net_attr_ints(n, "pads", 2 * w->spatial, w->pads);
}

static shape window_input(net *n, const window *w, int64_t channels) {
    shape s = {.rank = 2 + w->spatial, .extent = {draw(n, 1, 2), channels}};
    for (uint32_t d = 0; d < w->spatial; d++) s.extent[d + 2] = w->extent[d];
    return s;
}

static tn_tensor_id build_conv(net *n, const void *data) {
    bool turned = *(const bool *)data; /* ConvTranspose */
    int64_t groups = draw(n, 1, 3), in = groups * draw(n, 1, 2), each = draw(n, 1, 2);
    window w = draw_window(n, 3, true);
    shape x = window_input(n, &w, in), b = {.rank = 1, .extent = {groups * each}};
    shape k = {.rank = 2 + w.spatial,
               .extent = {turned ? in : groups * each, turned ? each : in / groups}};
    for (uint32_t d = 0; d < w.spatial; d++) k.extent[d + 2] = w.kernel[d];
    tn_tensor_id list[] = {param(n, 0, 1, &x), param(n, 0, 0.5, &k), param(n, 0, 1, &b)};
    window_attrs(n, &w, draw(n, 0, 1) != 0);
    net_attr_int(n, "group", groups);
    if (turned && draw(n, 0, 1)) {
        int64_t more[3];
        for (uint32_t d = 0; d < w.spatial; d++) more[d] = draw(n, 0, w.stride[d] - 1);
        net_attr_ints(n, "output_padding", w.spatial, more);
    }
    return net_op(n, turned ? "ConvTranspose" : "Conv", draw(n, 0, 1) ? 3 : 2, list);
}

/* Paddings that follow from the output's extents. */
static tn_tensor_id build_conv_transpose_to(net *n, const void *data) {
    window w = draw_window(n, 2, true);
    shape x = window_input(n, &w, 2), k = {.rank = 2 + w.spatial, .extent = {2, 3}};
    int64_t to[3];
    (void)data;
    for (uint32_t d = 0; d < w.spatial; d++) {
        int64_t most = (w.extent[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
        k.extent[d + 2] = w.kernel[d];
        to[d] = draw(n, most - 2 > 0 ? most - 2 : 1, most);
    }
    tn_tensor_id list[] = {param(n, 0, 1, &x), param(n, 0, 0.5, &k)};
    net_attr_ints(n, "strides", w.spatial, w.stride);
    net_attr_ints(n, "dilations", w.spatial, w.dilation);
    net_attr_ints(n, "output_shape", w.spatial, to);
    if (draw(n, 0, 1)) net_attr_string(n, "auto_pad", draw(n, 0, 1) ? "SAME_UPPER" : "SAME_LOWER");
    return net_op(n, "ConvTranspose", 2, list);
}

static tn_tensor_id build_pool(net *n, const void *data) {
    const char *type = data;
    bool average = strcmp(type, "AveragePool") == 0, norm = strcmp(type, "LpPool") == 0;
    window w = draw_window(n, 3, true);
    shape s = window_input(n, &w, draw(n, 1, 3));
    tn_tensor_id outputs[2], x = param(n, 0, 1, &s);
    for (uint32_t d = 0; d < w.spatial && average; d++) /* a window of padding alone is 0 / 0 */
        if (w.dilation[d] > 1) w.pads[d] = w.pads[w.spatial + d] = 0;
    window_attrs(n, &w, true);
    if (w.automatic == NULL) net_attr_int(n, "ceil_mode", draw(n, 0, 1));
    if (average) net_attr_int(n, "count_include_pad", draw(n, 0, 1));
    if (norm) net_attr_int(n, "p", draw(n, 1, 3));
    if (average || norm || draw(n, 0, 1)) return net_op(n, type, NET_LIST(x));
    net_attr_int(n, "storage_order", draw(n, 0, 1));
    net_ops(n, type, NET_LIST(x), 2, outputs); /* with indices */
    return outputs[0];
}

static tn_tensor_id build_unpool(net *n, const void *data) {
    static const int64_t two[] = {2, 2};
    shape s = {.rank = 4, .extent = {draw(n, 1, 2), draw(n, 1, 2), 4, 6}};
    tn_tensor_id outputs[2], x = param(n, 0, 1, &s);
    (void)data;
    net_attr_ints(n, "kernel_shape", 2, two);
    net_attr_ints(n, "strides", 2, two);
    net_ops(n, "MaxPool", NET_LIST(x), 2, outputs);
    net_attr_ints(n, "kernel_shape", 2, two);
    net_attr_ints(n, "strides", 2, two);
    return net_op(n, "MaxUnpool", NET_LIST(outputs[0], outputs[1]));
}

static tn_tensor_id build_global_pool(net *n, const void *data) {
    shape s = draw_shape(n, 3, 5, 4);
    tn_tensor_id x = param(n, 0, 1, &s);
    if (strcmp(data, "GlobalLpPool") == 0) net_attr_int(n, "p", draw(n, 1, 3));
    return net_op(n, data, NET_LIST(x));
}

void windows(void **state) {
    static const char *const pools[] = {"AveragePool", "MaxPool", "LpPool"};
    static const char *const wholes[] = {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"};
    (void)state;
    for (uint64_t seed = 1; seed <= 8 * SEEDS; seed++) {
        check(build_conv, &(bool){false}, "Conv", seed);
        check(build_conv, &(bool){true}, "ConvTranspose", seed);
        check(build_conv_transpose_to, NULL, "ConvTranspose to a shape", seed);
        for (size_t i = 0; i < 3; i++) check(build_pool, pools[i], pools[i], seed);
    }
    EACH_SEED(seed) {
        for (size_t i = 0; i < 3; i++) check(build_global_pool, wholes[i], wholes[i], seed);
        check(build_unpool, NULL, "MaxUnpool", seed);
    }
}
