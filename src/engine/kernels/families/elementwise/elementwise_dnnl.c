/* elementwise_dnnl.c - elementwise operators by oneDNN: activations, operators on two operands with
 * broadcasting, and gradients of activations.
 *
 * Only the memory layout matters for these operators. Shapes are therefore put into the order of
 * memory first, and adjacent dimensions that are both broadcast, or both not, are merged. oneDNN
 * supports the remaining cases as a tensor with one value per channel, or as rows with one common
 * row.
 */
#include "engine/kernels/dnnl.h"

/* --- operators with one operand --- */

static bool each_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    if (!tn__dnnl_is_fit(x) || !tn__dnnl_is_fit(y) || x->dtype != y->dtype || x->bytes != y->bytes)
        return false;
    return (x->format.order == TN_ORDER_NHWC) == (y->format.order == TN_ORDER_NHWC);
}

/* Builds a sequence of activations on all elements, described as one row, because their order does
 * not matter. */
static tn_status each_build(const tn_kernel_setup *setup, tn__dnnl_work *work,
                            const tn__dnnl_after *after) {
    const tn__dnnl *library = setup->library;
    tn__dnnl_after others = {0};
    dnnl_memory_desc_t x;
    dnnl_eltwise_desc_t desc;
    dnnl_primitive_desc_t chosen;
    dnnl_alg_kind_t kind;
    float alpha, beta;
    if (after->post_count == 0 || !tn__dnnl_activation(&after->post[0], &kind, &alpha, &beta))
        return TN_E_UNSUPPORTED;
    for (uint32_t i = 1; i < after->post_count; i++) others.post[i - 1] = after->post[i];
    others.post_count = after->post_count - 1;
    TN_TRY(tn__dnnl_flat(library, tn__setup_input(setup, 0), &x));
    TN_TRY(tn__dnnl_status(library->dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_inference,
                                                                   kind, &x, alpha, beta)));
    TN_TRY(tn__dnnl_choose(library, &desc, &others, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 2));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(0)));
    return tn__dnnl_bind(work, DNNL_ARG_DST, &x, TN__DNNL_OUT(0));
}

tn_status tn__dnnl_times(tn__dnnl_work *work, const tn__dnnl *library, const tn_tensor *like,
                         double factor, tn__dnnl_at from, tn__dnnl_at to) {
    dnnl_memory_desc_t all;
    dnnl_eltwise_desc_t desc;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_flat(library, like, &all));
    TN_TRY(tn__dnnl_status(library->dnnl_eltwise_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_eltwise_linear, &all, (float)factor, 0)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 2));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &all, from));
    return tn__dnnl_bind(work, DNNL_ARG_DST, &all, to);
}

/* Builds one activation, which oneDNN may know by another name than the operator's type. */
static tn_status each_one(const tn_kernel_setup *setup, tn__dnnl_work *work, const char *activation,
                          double alpha) {
    tn__dnnl_after after = {.post_count = 1};
    after.post[0] = (tn__dnnl_post){.activation = activation, .alpha = alpha};
    return each_build(setup, work, &after);
}
static tn_status each_plain(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return each_one(setup, work, setup->op->type, 0);
}
static tn_status each_leaky(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return each_one(setup, work, "LeakyRelu", tn__attr_float(setup->op, "alpha", 0.01));
}
static tn_status each_elu(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return each_one(setup, work, "Elu", tn__attr_float(setup->op, "alpha", 1));
}
static tn_status each_swish(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return each_one(setup, work, "Swish", 1);
}
static bool each_is_tanh(const tn_kernel_setup *setup) {
    return strcmp(tn__attr_string(setup->op, "approximate", "none"), "tanh") == 0;
}
static tn_status each_gelu(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return each_one(setup, work, each_is_tanh(setup) ? "GeluTanh" : "Gelu", 0);
}

/* Reads a bound of Clip. Returns false if it is an input that is not known before the run. */
static bool each_bound(const tn_kernel_setup *setup, uint32_t index, const char *name,
                       double *bound) {
    const tn_value *value = tn__setup_value(setup, index);
    *bound = tn__attr_float(setup->op, name, *bound);
    if (tn__setup_input(setup, index) == NULL) return true;
    if (value == NULL || value->count != 1 || value->floats == NULL) return false;
    *bound = value->floats[0];
    return true;
}

static tn_status each_clip(tn_kernel_setup *setup, tn__dnnl_work *work) {
    tn__dnnl_after after = {.post_count = 1};
    double low = -3.402823466e38, high = 3.402823466e38;
    if (!each_bound(setup, 1, "min", &low) || !each_bound(setup, 2, "max", &high) || low > high)
        return TN_E_UNSUPPORTED;
    after.post[0] = (tn__dnnl_post){"Clip", low, high};
    return each_build(setup, work, &after);
}

static tn_status each_hard(tn_kernel_setup *setup, tn__dnnl_work *work) {
    tn__dnnl_after after = {.post_count = 2};
    after.post[0] = (tn__dnnl_post){"Linear", tn__attr_float(setup->op, "alpha", 0.2),
                                    tn__attr_float(setup->op, "beta", 0.5)};
    after.post[1] = (tn__dnnl_post){"Clip", 0, 1};
    return each_build(setup, work, &after);
}

/* --- operators with two operands --- */

typedef struct each_pair {
    /* `dtype`: type of the output and of the first operand; `narrow`: type of the second operand */
    tn_dtype dtype, narrow;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX]; /* shape of the output, in the order of memory */
    /* for each dimension: whether the second operand has its extent; otherwise it is broadcast */
    bool wide[TN_RANK_MAX];
} each_pair;

static bool each_accepts_pair(const tn_kernel_setup *setup) {
    const tn_tensor *y = tn__setup_output(setup, 0);
    return setup->op->input_count == 2 && tn__dnnl_all_fit(setup) && y != NULL &&
           tn__setup_input(setup, 0) != NULL && tn__setup_input(setup, 1) != NULL;
}

/* Whether `tensor` has the type, the shape and the format of `y`. */
static bool each_same(const tn_tensor *tensor, const tn_tensor *y) {
    return tensor->dtype == y->dtype && tensor->rank == y->rank && tensor->bytes == y->bytes &&
           (tensor->rank == 0 ||
            memcmp(tensor->shape, y->shape, y->rank * sizeof *y->shape) == 0) &&
           (tensor->format.order == TN_ORDER_NHWC) == (y->format.order == TN_ORDER_NHWC);
}

/* Finds along which dimensions the second operand is broadcast to `y`, in the order of y's memory.
 * Returns false if the two have different orders. */
static bool each_align(const tn_tensor *narrow, const tn_tensor *y, each_pair *pair) {
    bool last = y->format.order == TN_ORDER_NHWC && y->rank > 2;
    uint32_t wide_count = 0;
    pair->rank = y->rank;
    pair->dtype = y->dtype;
    pair->narrow = narrow->dtype;
    for (uint32_t at = 0; at < y->rank; at++) {
        uint32_t d = !last || at == 0 ? at : at + 1 == y->rank ? 1 : at + 1;
        int64_t extent =
            d + narrow->rank >= y->rank ? narrow->shape[d + narrow->rank - y->rank] : 1;
        pair->shape[at] = y->shape[d];
        pair->wide[at] = extent != 1 && y->shape[d] != 1;
        if (pair->wide[at]) wide_count++;
    }
    bool same_order = (narrow->format.order == TN_ORDER_NHWC) == last && narrow->rank == y->rank;
    return wide_count <= 1 || same_order || (!last && narrow->format.order != TN_ORDER_NHWC);
}

static void each_merge(each_pair *pair) {
    uint32_t kept = 0;
    for (uint32_t d = 0; d < pair->rank; d++) {
        if (pair->shape[d] == 1) continue;
        if (kept > 0 && pair->wide[kept - 1] == pair->wide[d]) {
            pair->shape[kept - 1] *= pair->shape[d];
            continue;
        }
        pair->shape[kept] = pair->shape[d];
        pair->wide[kept] = pair->wide[d];
        kept++;
    }
    pair->rank = kept;
}

static tn_status each_describe(const tn__dnnl *library, const each_pair *pair,
                               dnnl_memory_desc_t *wide, dnnl_memory_desc_t *narrow) {
    int64_t shape[TN_RANK_MAX], other[TN_RANK_MAX], strides[TN_RANK_MAX], steps[TN_RANK_MAX];
    int64_t stride = 1, step = 1;
    /* If there is one value per row, describe the rows as channels, with a batch of 1 in front. */
    uint32_t front = pair->rank == 2 && pair->wide[0] ? 1 : 0, rank = pair->rank + front;
    if (rank == 0)
        return tn__dnnl_strided(library, pair->dtype, 0, NULL, NULL, wide) == TN_OK
                   ? tn__dnnl_strided(library, pair->narrow, 0, NULL, NULL, narrow)
                   : TN_E_UNSUPPORTED;
    for (uint32_t d = rank; d-- > 0;) {
        bool made_up = d < front;
        shape[d] = made_up ? 1 : pair->shape[d - front];
        other[d] = !made_up && pair->wide[d - front] ? shape[d] : 1;
        strides[d] = stride;
        steps[d] = step;
        stride *= shape[d];
        step *= other[d];
    }
    TN_TRY(tn__dnnl_strided(library, pair->dtype, rank, shape, strides, wide));
    return tn__dnnl_strided(library, pair->narrow, rank, other, steps, narrow);
}

tn_status tn__dnnl_pair(tn_kernel_setup *setup, tn__dnnl_work *work, dnnl_alg_kind_t kind,
                        uint32_t first, tn__dnnl_at at, const tn__dnnl_after *after) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *y = tn__setup_output(setup, 0);
    each_pair pair;
    dnnl_memory_desc_t wide, narrow;
    dnnl_binary_desc_t desc;
    dnnl_primitive_desc_t chosen;
    if (!each_align(tn__setup_input(setup, 1 - first), y, &pair)) return TN_E_UNSUPPORTED;
    each_merge(&pair);
    TN_TRY(each_describe(library, &pair, &wide, &narrow));
    TN_TRY(tn__dnnl_status(library->dnnl_binary_desc_init(&desc, kind, &wide, &narrow, &wide)));
    TN_TRY(tn__dnnl_choose(library, &desc, after, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC_0, &wide, at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC_1, &narrow, TN__DNNL_IN(1 - first)));
    return tn__dnnl_bind(work, DNNL_ARG_DST, &wide, TN__DNNL_OUT(0));
}

/* Builds an operator on two operands; the kernel's row has the algorithm of oneDNN. The operands
 * can be exchanged if the algorithm is an addition or a multiplication. */
static tn_status each_pair_build(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn_tensor *y = tn__setup_output(setup, 0);
    const dnnl_alg_kind_t kind = (dnnl_alg_kind_t)setup->kernel->kind;
    bool commutes = kind == dnnl_binary_add || kind == dnnl_binary_mul;
    uint32_t first = each_same(tn__setup_input(setup, 0), y) ? 0 : 1;
    if (first == 1 && (!commutes || !each_same(tn__setup_input(setup, 1), y)))
        return TN_E_UNSUPPORTED;
    return tn__dnnl_pair(setup, work, kind, first, TN__DNNL_IN(first), NULL);
}

/* --- BiasGelu, Swish of domain "tenure" --- */

static bool each_accepts_swish(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_is_fit(x) && tn__dnnl_is_fit(y) && x->dtype == y->dtype &&
           x->bytes == y->bytes && x->format.order == y->format.order;
}

static bool each_accepts_bias(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && x != NULL && y != NULL && x->bytes == y->bytes &&
           x->format.order == y->format.order && tn__setup_input(setup, 1) != NULL;
}

static tn_status each_bias(tn_kernel_setup *setup, tn__dnnl_work *work) {
    tn__dnnl_after after = {.post_count = 1};
    after.post[0].activation = each_is_tanh(setup) ? "GeluTanh" : "Gelu";
    return tn__dnnl_pair(setup, work, dnnl_binary_add, 0, TN__DNNL_IN(0), &after);
}

/* --- gradients ---
 *
 * The gradient of an activation is computed from the output or the input of the forward operator,
 * as graph/gradients/unary_gradients.def states. oneDNN supports both. Gradients that oneDNN
 * defines differently from ONNX are left to our own loops (unary.c).
 */

typedef struct gradient_kind {
    const char *type;
    dnnl_alg_kind_t ahead, back;
    double alpha; /* default value of the attribute alpha */
    /* whether the second operand of the gradient is the output of the forward operator; otherwise
     * it is the input */
    bool output;
} gradient_kind;

static const gradient_kind gradient_kinds[] = {
    {"AbsGrad", dnnl_eltwise_abs, dnnl_eltwise_abs, 0, false},
    {"EluGrad", dnnl_eltwise_elu, dnnl_eltwise_elu_use_dst_for_bwd, 1, true},
    {"HardSwishGrad", dnnl_eltwise_hardswish, dnnl_eltwise_hardswish, 0, false},
    {"MishGrad", dnnl_eltwise_mish, dnnl_eltwise_mish, 0, false},
    {"ReluGrad", dnnl_eltwise_relu, dnnl_eltwise_relu_use_dst_for_bwd, 0, true},
    {"SigmoidGrad", dnnl_eltwise_logistic, dnnl_eltwise_logistic_use_dst_for_bwd, 0, true},
    {"SqrtGrad", dnnl_eltwise_sqrt, dnnl_eltwise_sqrt_use_dst_for_bwd, 0, true},
    {"SwishGrad", dnnl_eltwise_swish, dnnl_eltwise_swish, 1, false},
    {"TanhGrad", dnnl_eltwise_tanh, dnnl_eltwise_tanh_use_dst_for_bwd, 0, true},
};

static bool gradient_same_order(const tn_tensor *a, const tn_tensor *b) {
    return (a->format.order == TN_ORDER_NHWC) == (b->format.order == TN_ORDER_NHWC);
}

static bool gradient_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *value = tn__setup_input(setup, 1);
    const tn_tensor *dx = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && dy != NULL && value != NULL && dx != NULL &&
           dy->dtype == value->dtype && dx->dtype == value->dtype && dy->bytes == value->bytes &&
           dx->bytes == value->bytes && gradient_same_order(dy, value) &&
           gradient_same_order(dx, value);
}

/* Builds a gradient on all elements, described as one row, because their order does not matter. */
static tn_status gradient_read(const tn_kernel_setup *setup, tn__dnnl_work *work,
                               const gradient_kind *kind) {
    const tn__dnnl *library = setup->library;
    const float alpha = (float)tn__attr_float(setup->op, "alpha", kind->alpha);
    dnnl_memory_desc_t all;
    dnnl_eltwise_desc_t ahead, desc;
    dnnl_primitive_desc_t forward, chosen;
    TN_TRY(tn__dnnl_flat(library, tn__setup_input(setup, 0), &all));
    TN_TRY(tn__dnnl_status(library->dnnl_eltwise_forward_desc_init(&ahead, dnnl_forward_training,
                                                                   kind->ahead, &all, alpha, 0)));
    TN_TRY(tn__dnnl_status(
        library->dnnl_eltwise_backward_desc_init(&desc, kind->back, &all, &all, alpha, 0)));
    TN_TRY(tn__dnnl_choose(library, &ahead, NULL, &forward, NULL));
    tn_status status = tn__dnnl_choose_back(library, &desc, NULL, forward, &chosen, NULL);
    library->dnnl_primitive_desc_destroy(forward);
    if (status != TN_OK) return status;
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &all, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, kind->output ? DNNL_ARG_DST : DNNL_ARG_SRC, &all, TN__DNNL_IN(1)));
    return tn__dnnl_bind(work, DNNL_ARG_DIFF_SRC, &all, TN__DNNL_OUT(0));
}

static tn_status gradient_build(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const gradient_kind *kind = gradient_kinds;
    while (strcmp(kind->type, setup->op->type) != 0) kind++;
    return gradient_read(setup, work, kind);
}

static tn_status gradient_gelu(tn_kernel_setup *setup, tn__dnnl_work *work) {
    dnnl_alg_kind_t form = each_is_tanh(setup) ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf;
    return gradient_read(setup, work, &(gradient_kind){"GeluGrad", form, form, 0, false});
}

static const tn_kernel elementwise_dnnl_kernels[] = {
    TN__DNNL_KERNEL("Abs", each_accepts, each_plain),
    TN__DNNL_KERNEL_AS("Add", each_accepts_pair, each_pair_build, .kind = dnnl_binary_add),
    TN__DNNL_KERNEL("Clip", each_accepts, each_clip),
    TN__DNNL_KERNEL_AS("Div", each_accepts_pair, each_pair_build, .kind = dnnl_binary_div),
    TN__DNNL_KERNEL("Elu", each_accepts, each_elu),
    TN__DNNL_KERNEL("Exp", each_accepts, each_plain),
    TN__DNNL_KERNEL("Gelu", each_accepts, each_gelu),
    TN__DNNL_KERNEL("HardSigmoid", each_accepts, each_hard),
    TN__DNNL_KERNEL("HardSwish", each_accepts, each_plain),
    TN__DNNL_KERNEL("LeakyRelu", each_accepts, each_leaky),
    TN__DNNL_KERNEL("Log", each_accepts, each_plain),
    TN__DNNL_KERNEL("Mish", each_accepts, each_plain),
    TN__DNNL_KERNEL_AS("Mul", each_accepts_pair, each_pair_build, .kind = dnnl_binary_mul),
    TN__DNNL_KERNEL("Relu", each_accepts, each_plain),
    TN__DNNL_KERNEL("Sigmoid", each_accepts, each_plain),
    TN__DNNL_KERNEL("Softplus", each_accepts, each_plain),
    TN__DNNL_KERNEL("Sqrt", each_accepts, each_plain),
    TN__DNNL_KERNEL_AS("Sub", each_accepts_pair, each_pair_build, .kind = dnnl_binary_sub),
    TN__DNNL_KERNEL_AS("Sum", each_accepts_pair, each_pair_build, .kind = dnnl_binary_add),
    TN__DNNL_KERNEL("Tanh", each_accepts, each_plain),
    TN__DNNL_OWN("BiasGelu", each_accepts_bias, each_bias),
    TN__DNNL_OWN("Swish", each_accepts_swish, each_swish),
    TN__DNNL_OWN("AbsGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("EluGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("GeluGrad", gradient_accepts, gradient_gelu),
    TN__DNNL_OWN("HardSwishGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("MishGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("ReluGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("SigmoidGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("SqrtGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("SwishGrad", gradient_accepts, gradient_build),
    TN__DNNL_OWN("TanhGrad", gradient_accepts, gradient_build),
};

TN_KERNEL_LIBRARY(elementwise, "");
