/* softmax_dnnl.c - softmax, its logarithm, the masked softmax of attention, and gradients by
 * oneDNN.
 *
 * Before opset 13, softmax merges all dimensions from its axis on; since then it uses the axis
 * alone. In both cases the tensor is described as [outer, along, inner].
 */
#include "engine/kernels/dnnl.h"

static bool softmax_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && x != NULL && y != NULL && x->dtype == y->dtype &&
           x->format.order != TN_ORDER_NHWC && y->format.order != TN_ORDER_NHWC && x->rank > 0;
}

/* Adds a step that computes a softmax along the middle one of the dimensions of tn__dnnl_rows. */
static tn_status softmax_step(tn__dnnl_work *work, const tn__dnnl *library,
                              const dnnl_memory_desc_t *rows, dnnl_alg_kind_t kind,
                              tn__dnnl_at from) {
    dnnl_softmax_v2_desc_t desc;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_status(library->dnnl_softmax_v2_forward_desc_init(&desc, dnnl_forward_inference,
                                                                      kind, rows, rows, 1)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 2));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, rows, from));
    return tn__dnnl_bind(work, DNNL_ARG_DST, rows, TN__DNNL_OUT(0));
}

static tn_status softmax_build(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *input = tn__setup_input(setup, 0);
    bool flat = setup->version < 13;
    int64_t axis = tn__attr_int(setup->op, "axis", flat ? 1 : -1);
    if (axis < 0) axis += input->rank;
    if (axis < 0 || axis >= (int64_t)input->rank) return TN_E_UNSUPPORTED;
    uint32_t first = (uint32_t)axis, last = flat ? input->rank : first + 1;
    dnnl_memory_desc_t x;
    TN_TRY(tn__dnnl_rows(library, input, first, last, &x));
    return softmax_step(work, library, &x, (dnnl_alg_kind_t)setup->kernel->kind, TN__DNNL_IN(0));
}

/* --- MaskedSoftmax: alpha x + mask is written to the result, where softmax replaces it --- */

static bool softmax_accepts_masked(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && x != NULL && y != NULL && x->rank > 0 &&
           x->bytes == y->bytes && x->format.order != TN_ORDER_NHWC &&
           y->format.order != TN_ORDER_NHWC && tn__setup_input(setup, 1) != NULL;
}

static tn_status softmax_build_masked(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *x = tn__setup_input(setup, 0);
    const double alpha = tn__attr_float(setup->op, "alpha", 1);
    tn__dnnl_at at = TN__DNNL_IN(0);
    dnnl_memory_desc_t rows;
    if (alpha != 1) {
        TN_TRY(tn__dnnl_times(work, library, x, alpha, at, TN__DNNL_OUT(0)));
        at = TN__DNNL_OUT(0);
    }
    TN_TRY(tn__dnnl_pair(setup, work, dnnl_binary_add, 0, at, NULL));
    TN_TRY(tn__dnnl_rows(library, x, x->rank - 1, x->rank, &rows));
    return softmax_step(work, library, &rows, dnnl_softmax_accurate, TN__DNNL_OUT(0));
}

/* --- gradients: dy, y -> dx --- */

static bool softmax_accepts_grad(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *y = tn__setup_input(setup, 1);
    const tn_tensor *dx = tn__setup_output(setup, 0);
    if (!tn__dnnl_all_fit(setup) || dy == NULL || y == NULL || dx == NULL) return false;
    return dy->dtype == y->dtype && dx->dtype == y->dtype && dy->bytes == y->bytes &&
           dx->bytes == y->bytes && dy->format.order != TN_ORDER_NHWC &&
           dx->format.order != TN_ORDER_NHWC &&
           tn__setup_input(setup, 1)->format.order != TN_ORDER_NHWC &&
           tn__setup_input(setup, 1)->rank > 0;
}

static tn_status softmax_build_grad(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const dnnl_alg_kind_t kind = (dnnl_alg_kind_t)setup->kernel->kind;
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

static const tn_kernel softmax_dnnl_kernels[] = {
    TN__DNNL_KERNEL_AS("LogSoftmax", softmax_accepts, softmax_build, .kind = dnnl_softmax_log),
    TN__DNNL_KERNEL_AS("Softmax", softmax_accepts, softmax_build, .kind = dnnl_softmax_accurate),
    TN__DNNL_OWN("MaskedSoftmax", softmax_accepts_masked, softmax_build_masked),
    TN__DNNL_OWN_AS("LogSoftmaxGrad", softmax_accepts_grad, softmax_build_grad,
                    .kind = dnnl_softmax_log),
    TN__DNNL_OWN_AS("SoftmaxGrad", softmax_accepts_grad, softmax_build_grad,
                    .kind = dnnl_softmax_accurate),
};

TN_KERNEL_LIBRARY(softmax, "");
