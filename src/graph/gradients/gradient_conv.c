/* gradient_conv.c - gradients of convolutions and pools.
 *
 * With respect to the data, a convolution's gradient is a transposed convolution with the same
 * weights, and vice versa; with respect to the weights it is an operator of its own. Both input and
 * weights are kept. A maximum pool searches the input for the maximum again; if the pool kept the
 * index of the maximum in each window (MaxPoolTrain), its gradient uses that and reads no input.
 * Averages keep nothing.
 */
#include "graph/gradients/gradients.h"

#define CONV_SPATIAL 8u /* limit of spatial dimensions; networks have at most three */

typedef struct conv_window {
    uint32_t spatial;
    int64_t kernel[CONV_SPATIAL], stride[CONV_SPATIAL], dilation[CONV_SPATIAL];
    /* paddings at the begins of the dimensions, then those at the ends */
    int64_t pads[2 * CONV_SPATIAL];
    /* number of elements of each input dimension after the last window */
    int64_t rest[CONV_SPATIAL];
} conv_window;

static const int64_t *conv_ints(const tn_gradient *it, const char *name, uint32_t count) {
    const tn_attr *attr = tn__attr(&it->op, name);
    bool fits = attr != NULL && attr->type == TN_ATTR_INTS && attr->count == count;
    return fits ? attr->ints : NULL;
}

/* Reads the attributes of windows with extents `kernel` that slide over a tensor of extents `wide`
 * and give one of extents `narrow`. Computed paddings (auto_pad) become explicit numbers. */
static tn_status conv_read(tn_gradient *it, uint32_t spatial, const int64_t *kernel,
                           const int64_t *wide, const int64_t *narrow, conv_window *window) {
    if (spatial == 0 || spatial > CONV_SPATIAL)
        return tn__gradient_fail(it, "no gradient for %u spatial dimensions", spatial);
    const int64_t *strides = conv_ints(it, "strides", spatial);
    const int64_t *dilations = conv_ints(it, "dilations", spatial);
    const int64_t *pads = conv_ints(it, "pads", 2 * spatial);
    const char *mode = tn__attr_string(&it->op, "auto_pad", "NOTSET");
    bool same = strncmp(mode, "SAME", 4) == 0 || tn__attr(&it->op, "output_shape") != NULL;
    bool upper = strcmp(mode, "SAME_UPPER") == 0;
    /* only a transposed convolution has the attribute output_padding */
    const int64_t *extra = conv_ints(it, "output_padding", spatial);
    if (strcmp(mode, "VALID") == 0) pads = NULL;
    window->spatial = spatial;
    for (uint32_t d = 0; d < spatial; d++) {
        int64_t stride = strides != NULL ? strides[d] : 1;
        int64_t dilation = dilations != NULL ? dilations[d] : 1;
        int64_t reach = (kernel[d] - 1) * dilation + 1, steps = (narrow[d] - 1) * stride + reach;
        int64_t begin = pads != NULL && !same ? pads[d] : 0;
        int64_t end = pads != NULL && !same ? pads[spatial + d] : 0;
        if (same) {
            int64_t all = steps - wide[d] + (extra != NULL ? extra[d] : 0);
            if (all < 0) all = 0;
            begin = upper ? all / 2 : all - all / 2;
            end = all - begin;
        }
        window->kernel[d] = kernel[d];
        window->stride[d] = stride;
        window->dilation[d] = dilation;
        window->pads[d] = begin;
        window->pads[spatial + d] = end;
        window->rest[d] = wide[d] + begin + end - steps;
    }
    return TN_OK;
}

/* Writes the attributes of windows for another operator; `attrs` has space for 6. */
static uint32_t conv_attrs(const conv_window *window, const int64_t *group, tn_attr *attrs) {
    uint32_t spatial = window->spatial;
    attrs[0] = TN__ATTR_INTS("kernel_shape", window->kernel, spatial);
    attrs[1] = TN__ATTR_INTS("strides", window->stride, spatial);
    attrs[2] = TN__ATTR_INTS("dilations", window->dilation, spatial);
    attrs[3] = TN__ATTR_INTS("pads", window->pads, 2 * spatial);
    if (group == NULL) return 4;
    attrs[4] = TN__ATTR_INT("group", group);
    return 5;
}

/* Computes the bias gradient: the sum over all dimensions except the channels. */
static tn_status conv_bias(tn_gradient *it, uint32_t input) {
    if (!tn__gradient_wants(it, input)) return TN_OK;
    tn_tensor y = tn__gradient_output(it, 0);
    int64_t axes[TN_RANK_MAX], keep = 0;
    uint32_t count = 0;
    tn_tensor_id list;
    for (uint32_t d = 0; d < y.rank; d++)
        if (d != 1) axes[count++] = d;
    TN_TRY(tn__gradient_list(it, axes, count, &list));
    return tn__gradient_op(it, "ReduceSum", TN__LIST(it->given[0], list),
                           &TN__ATTR_INT("keepdims", &keep), 1, &it->found[input]);
}

static tn_status conv_weights(tn_gradient *it, const conv_window *window, const int64_t *group,
                              tn_tensor_id narrow, tn_tensor_id wide) {
    tn_tensor w = tn__gradient_input(it, 1);
    tn_attr attrs[6];
    uint32_t count = conv_attrs(window, group, attrs);
    attrs[count++] = TN__ATTR_INTS("shape", w.shape, w.rank);
    return tn__gradient_own(it, "ConvGradWeights", TN__LIST(narrow, wide), attrs, count,
                            &it->found[1]);
}

tn_status tn__gradient_conv(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0), w = tn__gradient_input(it, 1);
    tn_tensor y = tn__gradient_output(it, 0);
    int64_t group = tn__attr_int(&it->op, "group", 1);
    conv_window window;
    tn_attr attrs[6];
    TN_TRY(conv_read(it, x.rank - 2, w.shape + 2, x.shape + 2, y.shape + 2, &window));
    TN_TRY(conv_bias(it, 2));
    if (it->wanted[1]) TN_TRY(conv_weights(it, &window, &group, it->given[0], it->op.inputs[0]));
    if (!it->wanted[0]) return TN_OK;
    uint32_t count = conv_attrs(&window, &group, attrs);
    attrs[count++] = TN__ATTR_INTS("output_padding", window.rest, window.spatial);
    return tn__gradient_op(it, "ConvTranspose", TN__LIST(it->given[0], it->op.inputs[1]), attrs,
                           count, &it->found[0]);
}

tn_status tn__gradient_conv_transpose(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0), w = tn__gradient_input(it, 1);
    tn_tensor y = tn__gradient_output(it, 0);
    int64_t group = tn__attr_int(&it->op, "group", 1);
    conv_window window;
    tn_attr attrs[6];
    TN_TRY(conv_read(it, x.rank - 2, w.shape + 2, y.shape + 2, x.shape + 2, &window));
    for (uint32_t d = 0; d < window.spatial; d++)
        if (window.rest[d] < 0 || window.rest[d] >= window.stride[d])
            return tn__gradient_fail(it, "no gradient where the output is larger than its windows");
    TN_TRY(conv_bias(it, 2));
    if (it->wanted[1]) TN_TRY(conv_weights(it, &window, &group, it->op.inputs[0], it->given[0]));
    if (!it->wanted[0]) return TN_OK;
    uint32_t count = conv_attrs(&window, &group, attrs);
    return tn__gradient_op(it, "Conv", TN__LIST(it->given[0], it->op.inputs[1]), attrs, count,
                           &it->found[0]);
}

/* The gradient of Col2Im, which adds, copies. */
tn_status tn__gradient_col2im(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    tn_attr attrs[10];
    uint32_t count = 0;
    if (!it->wanted[0]) return TN_OK;
    for (uint32_t i = 0; i < it->op.attr_count && count < 9; i++) attrs[count++] = it->op.attrs[i];
    attrs[count++] = TN__ATTR_INTS("shape", x.shape, x.rank);
    return tn__gradient_own(it, "Col2ImGrad", TN__LIST(it->given[0], it->op.inputs[2]), attrs,
                            count, &it->found[0]);
}

/* --- pools --- */

static tn_status conv_pool_window(tn_gradient *it, conv_window *window) {
    tn_tensor x = tn__gradient_input(it, 0), y = tn__gradient_output(it, 0);
    const int64_t *kernel = conv_ints(it, "kernel_shape", x.rank - 2);
    if (kernel == NULL) return tn__gradient_fail(it, "attribute kernel_shape is missing");
    return conv_read(it, x.rank - 2, kernel, x.shape + 2, y.shape + 2, window);
}

static tn_status conv_pool(tn_gradient *it, const char *type, bool counts) {
    tn_tensor x = tn__gradient_input(it, 0);
    int64_t padding = tn__attr_int(&it->op, "count_include_pad", 0);
    conv_window window;
    tn_attr attrs[6];
    TN_TRY(conv_pool_window(it, &window));
    uint32_t count = conv_attrs(&window, NULL, attrs);
    if (!counts)
        return tn__gradient_own(it, type, TN__LIST(it->given[0], it->op.inputs[0]), attrs, count,
                                &it->found[0]);
    attrs[count++] = TN__ATTR_INT("count_include_pad", &padding);
    attrs[count++] = TN__ATTR_INTS("shape", x.shape, x.rank);
    return tn__gradient_own(it, type, TN__LIST(it->given[0]), attrs, count, &it->found[0]);
}

tn_status tn__gradient_max_pool(tn_gradient *it) {
    if (it->given[0] == TN_NONE) return TN_OK;
    return conv_pool(it, "MaxPoolGrad", false);
}

/* Gradient of a MaxPoolTrain. If its input x is the result of a Relu, the pool's output is above 0
 * exactly if the maximum is. In this case Relu's gradient is applied here, to the smaller tensor
 * that is kept anyway, and Relu's own rule omits it, so x is not kept. */
tn_status tn__gradient_max_pool_train(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    tn_tensor_id dy = it->given[0];
    conv_window window;
    tn_attr attrs[6];
    if (dy == TN_NONE) return TN_OK;
    TN_TRY(conv_pool_window(it, &window));
    uint32_t count = conv_attrs(&window, NULL, attrs);
    attrs[count++] = TN__ATTR_INTS("shape", x.shape, x.rank);
    if (tn__attr_int(&it->op, "relu", 0) != 0)
        TN_TRY(tn__gradient_own(it, "ReluGrad", TN__LIST(dy, it->op.outputs[0]), NULL, 0, &dy));
    return tn__gradient_own(it, "MaxPoolMapGrad", TN__LIST(dy, it->op.outputs[1]), attrs, count,
                            &it->found[0]);
}

tn_status tn__gradient_average_pool(tn_gradient *it) {
    return conv_pool(it, "AveragePoolGrad", true);
}

/* Gradient of GlobalMaxPool: that of a pool with one window that covers all spatial dimensions. */
tn_status tn__gradient_global_max_pool(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    return tn__gradient_own(it, "MaxPoolGrad", TN__LIST(it->given[0], it->op.inputs[0]),
                            &TN__ATTR_INTS("kernel_shape", x.shape + 2, x.rank - 2), 1,
                            &it->found[0]);
}

tn_status tn__gradient_global_average_pool(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    double area = 1;
    for (uint32_t d = 2; d < x.rank; d++) area *= (double)x.shape[d];
    tn_tensor_id shape, factor, part;
    TN_TRY(tn__gradient_number(it, x.dtype, 1 / area, &factor));
    TN_TRY(tn__gradient_op(it, "Mul", TN__LIST(it->given[0], factor), NULL, 0, &part));
    TN_TRY(tn__gradient_list(it, x.shape, x.rank, &shape));
    return tn__gradient_op(it, "Expand", TN__LIST(part, shape), NULL, 0, &it->found[0]);
}

/* --- pools that compute norms: y = (sum |x|^p)^(1/p), dx = sign(x) |x|^(p-1) sum of dy / y^(p-1)
 * --- */

/* Computes the tensor `id` raised to the power p - 1; for p = 2 that is the tensor itself. */
static tn_status conv_raised(tn_gradient *it, tn_tensor_id id, double p, tn_tensor_id *raised) {
    tn_tensor_id less;
    *raised = id;
    if (p == 2) return TN_OK;
    TN_TRY(tn__gradient_number(it, tn__gradient_input(it, 0).dtype, p - 1, &less));
    return tn__gradient_op(it, "Pow", TN__LIST(id, less), NULL, 0, raised);
}

/* Computes dy / y^(p-1), and 0 where y is 0. */
static tn_status conv_norm_share(tn_gradient *it, double p, tn_tensor_id *share) {
    tn_tensor_id zero, none, root, part;
    TN_TRY(tn__gradient_number(it, tn__gradient_input(it, 0).dtype, 0, &zero));
    TN_TRY(tn__gradient_op(it, "Equal", TN__LIST(it->op.outputs[0], zero), NULL, 0, &none));
    TN_TRY(conv_raised(it, it->op.outputs[0], p, &root));
    TN_TRY(tn__gradient_op(it, "Div", TN__LIST(it->given[0], root), NULL, 0, &part));
    return tn__gradient_op(it, "Where", TN__LIST(none, zero, part), NULL, 0, share);
}

static tn_status conv_norm_finish(tn_gradient *it, double p, tn_tensor_id sums) {
    tn_tensor_id x = it->op.inputs[0], sign, size, raised, slope;
    if (p == 2) return tn__gradient_op(it, "Mul", TN__LIST(x, sums), NULL, 0, &it->found[0]);
    TN_TRY(tn__gradient_op(it, "Sign", TN__LIST(x), NULL, 0, &sign));
    TN_TRY(tn__gradient_op(it, "Abs", TN__LIST(x), NULL, 0, &size));
    TN_TRY(conv_raised(it, size, p, &raised));
    TN_TRY(tn__gradient_op(it, "Mul", TN__LIST(sign, raised), NULL, 0, &slope));
    return tn__gradient_op(it, "Mul", TN__LIST(slope, sums), NULL, 0, &it->found[0]);
}

static double conv_power(const tn_gradient *it) { /* the attribute p is a float before opset 2 */
    return it->version < 2 ? tn__attr_float(&it->op, "p", 2)
                           : (double)tn__attr_int(&it->op, "p", 2);
}

tn_status tn__gradient_global_lp_pool(tn_gradient *it) {
    double p = conv_power(it);
    tn_tensor_id share;
    TN_TRY(conv_norm_share(it, p, &share));
    /* the share of each window is broadcast over the spatial dimensions */
    return conv_norm_finish(it, p, share);
}

/* Sums for each element the values of all windows that contain it: a transposed convolution with
 * ones, channel by channel. */
static tn_status conv_window_sums(tn_gradient *it, conv_window *window, tn_tensor_id values,
                                  tn_tensor_id *sums) {
    tn_tensor x = tn__gradient_input(it, 0);
    int64_t shape[TN_RANK_MAX] = {x.shape[1], 1}, group = x.shape[1];
    tn_tensor_id one, list, ones;
    tn_attr attrs[6];
    for (uint32_t d = 0; d < window->spatial; d++) {
        shape[d + 2] = window->kernel[d];
        if (window->rest[d] >= 0) continue;
        /* with ceil_mode the last window went beyond the input */
        window->pads[window->spatial + d] -= window->rest[d];
        window->rest[d] = 0;
    }
    TN_TRY(tn__gradient_number(it, x.dtype, 1, &one));
    TN_TRY(tn__gradient_list(it, shape, x.rank, &list));
    TN_TRY(tn__gradient_op(it, "Expand", TN__LIST(one, list), NULL, 0, &ones));
    uint32_t count = conv_attrs(window, &group, attrs);
    attrs[count++] = TN__ATTR_INTS("output_padding", window->rest, window->spatial);
    return tn__gradient_op(it, "ConvTranspose", TN__LIST(values, ones), attrs, count, sums);
}

tn_status tn__gradient_lp_pool(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0), y = tn__gradient_output(it, 0);
    const int64_t *kernel = conv_ints(it, "kernel_shape", x.rank - 2);
    double p = conv_power(it);
    conv_window window;
    tn_tensor_id share, sums;
    if (kernel == NULL) return tn__gradient_fail(it, "attribute kernel_shape is missing");
    TN_TRY(conv_read(it, x.rank - 2, kernel, x.shape + 2, y.shape + 2, &window));
    TN_TRY(conv_norm_share(it, p, &share));
    TN_TRY(conv_window_sums(it, &window, share, &sums));
    return conv_norm_finish(it, p, sums);
}

/* Gradient of MaxUnpool: takes the elements of dy at the positions of the maxima. */
tn_status tn__gradient_max_unpool(tn_gradient *it) {
    static const int64_t whole = -1;
    tn_tensor_id list, flat;
    TN_TRY(tn__gradient_list(it, &whole, 1, &list));
    TN_TRY(tn__gradient_op(it, "Reshape", TN__LIST(it->given[0], list), NULL, 0, &flat));
    return tn__gradient_op(it, "Gather", TN__LIST(flat, it->op.inputs[1]), NULL, 0, &it->found[0]);
}
