/* train_each.c - gradients of activations and of softmax by oneDNN.
 *
 * An activation's gradient is computed from the forward operator's output or input, as
 * graph/gradients/unary_gradients.def states; the library supports both. Gradients that it defines
 * differently from ONNX are left to our own loops (train/each.c, train/rows.c).
 */
#include "engine/kernels/dnnl.h"
#include "engine/kernels/dnnl/shared.h"

typedef struct each_kind {
    dnnl_alg_kind_t ahead, back;
    double alpha; /* default of the attribute */
    bool output;  /* the second operand is the forward operator's output */
} each_kind;

static bool each_same_order(const tn_tensor *a, const tn_tensor *b) {
    return (a->format.order == TN_ORDER_NHWC) == (b->format.order == TN_ORDER_NHWC);
}

static bool each_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *value = tn__setup_input(setup, 1);
    const tn_tensor *dx = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && dy != NULL && value != NULL && dx != NULL &&
           dy->dtype == value->dtype && dx->dtype == value->dtype && dy->bytes == value->bytes &&
           dx->bytes == value->bytes && each_same_order(dy, value) && each_same_order(dx, value);
}

/* All elements in a row: the order does not matter. */
static tn_status each_read(tn_kernel_setup *setup, tn__dnnl_work *work, const each_kind *kind) {
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

static tn_status each_prepare(tn_kernel_setup *setup, const each_kind *kind) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, each_read(setup, work, kind));
}

#define EACH(Type, ...)                                                                            \
    static tn_status each_prepare_##Type(tn_kernel_setup *setup) {                                 \
        static const each_kind kind = {__VA_ARGS__};                                               \
        return each_prepare(setup, &kind);                                                         \
    }
EACH(Abs, dnnl_eltwise_abs, dnnl_eltwise_abs, 0, false)
EACH(Elu, dnnl_eltwise_elu, dnnl_eltwise_elu_use_dst_for_bwd, 1, true)
EACH(HardSwish, dnnl_eltwise_hardswish, dnnl_eltwise_hardswish, 0, false)
EACH(Mish, dnnl_eltwise_mish, dnnl_eltwise_mish, 0, false)
EACH(Relu, dnnl_eltwise_relu, dnnl_eltwise_relu_use_dst_for_bwd, 0, true)
EACH(Sigmoid, dnnl_eltwise_logistic, dnnl_eltwise_logistic_use_dst_for_bwd, 0, true)
EACH(Sqrt, dnnl_eltwise_sqrt, dnnl_eltwise_sqrt_use_dst_for_bwd, 0, true)
EACH(Swish, dnnl_eltwise_swish, dnnl_eltwise_swish, 1, false)
EACH(Tanh, dnnl_eltwise_tanh, dnnl_eltwise_tanh_use_dst_for_bwd, 0, true)

static tn_status each_prepare_Gelu(tn_kernel_setup *setup) {
    bool by_tanh = strcmp(tn__attr_string(setup->op, "approximate", "none"), "tanh") == 0;
    dnnl_alg_kind_t form = by_tanh ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf;
    return each_prepare(setup, &(each_kind){form, form, 0, false});
}

/* --- softmax and its logarithm: dy, y -> dx --- */

static bool each_accepts_softmax(const tn_kernel_setup *setup) {
    return each_accepts(setup) && tn__setup_input(setup, 1)->format.order != TN_ORDER_NHWC &&
           tn__setup_input(setup, 1)->rank > 0;
}

static tn_status each_read_softmax(tn_kernel_setup *setup, tn__dnnl_work *work,
                                   dnnl_alg_kind_t kind) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *y = tn__setup_input(setup, 1);
    bool flat = tn__attr_int(setup->op, "flat", 0) != 0;
    int64_t axis = tn__attr_int(setup->op, "axis", -1);
    const double alpha = tn__attr_float(setup->op, "alpha", 1);
    dnnl_memory_desc_t rows;
    dnnl_softmax_v2_desc_t ahead, desc;
    dnnl_primitive_desc_t forward, chosen;
    if (axis < 0) axis += y->rank;
    if (axis < 0 || axis >= (int64_t)y->rank) return TN_E_UNSUPPORTED;
    TN_TRY(tn__dnnl_rows(library, y, (uint32_t)axis, flat ? y->rank : (uint32_t)axis + 1, &rows));
    TN_TRY(tn__dnnl_status(library->dnnl_softmax_v2_forward_desc_init(&ahead, dnnl_forward_training,
                                                                      kind, &rows, &rows, 1)));
    TN_TRY(tn__dnnl_status(
        library->dnnl_softmax_v2_backward_desc_init(&desc, kind, &rows, &rows, &rows, 1)));
    TN_TRY(tn__dnnl_choose(library, &ahead, NULL, &forward, NULL));
    tn_status status = tn__dnnl_choose_back(library, &desc, NULL, forward, &chosen, NULL);
    library->dnnl_primitive_desc_destroy(forward);
    if (status != TN_OK) return status;
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &rows, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &rows, TN__DNNL_IN(1)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_SRC, &rows, TN__DNNL_OUT(0)));
    return alpha == 1 ? TN_OK
                      : tn__dnnl_times(work, library, y, alpha, TN__DNNL_OUT(0), TN__DNNL_OUT(0));
}

static tn_status each_prepare_softmax_as(tn_kernel_setup *setup, dnnl_alg_kind_t kind) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, each_read_softmax(setup, work, kind));
}
static tn_status each_prepare_softmax(tn_kernel_setup *setup) {
    return each_prepare_softmax_as(setup, dnnl_softmax_accurate);
}
static tn_status each_prepare_log_softmax(tn_kernel_setup *setup) {
    return each_prepare_softmax_as(setup, dnnl_softmax_log);
}

static const tn_kernel dnnl_train_each_kernels[] = {
    TN__DNNL_KERNEL("AbsGrad", each_accepts, each_prepare_Abs),
    TN__DNNL_KERNEL("EluGrad", each_accepts, each_prepare_Elu),
    TN__DNNL_KERNEL("GeluGrad", each_accepts, each_prepare_Gelu),
    TN__DNNL_KERNEL("HardSwishGrad", each_accepts, each_prepare_HardSwish),
    TN__DNNL_KERNEL("LogSoftmaxGrad", each_accepts_softmax, each_prepare_log_softmax),
    TN__DNNL_KERNEL("MishGrad", each_accepts, each_prepare_Mish),
    TN__DNNL_KERNEL("ReluGrad", each_accepts, each_prepare_Relu),
    TN__DNNL_KERNEL("SigmoidGrad", each_accepts, each_prepare_Sigmoid),
    TN__DNNL_KERNEL("SoftmaxGrad", each_accepts_softmax, each_prepare_softmax),
    TN__DNNL_KERNEL("SqrtGrad", each_accepts, each_prepare_Sqrt),
    TN__DNNL_KERNEL("SwishGrad", each_accepts, each_prepare_Swish),
    TN__DNNL_KERNEL("TanhGrad", each_accepts, each_prepare_Tanh),
};

TN_KERNEL_LIBRARY(dnnl_train_each, "tenure");
