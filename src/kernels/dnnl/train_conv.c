/* train_conv.c - the gradient of a convolution's weights by oneDNN. (That of its input is a
 * transposed convolution: dnnl/conv.c.)
 *
 * As with convolutions: first the operands where they lie, the weights' gradient in any form; where
 * only an implementation that packs on the heap would take those, the library chooses the forms of
 * all three, and reorders through planned scratch stand around it. The gradient is handed out in
 * the order of its shape, which is what optimizers and checkpoints read.
 */
#include "kernels/dnnl.h"
#include "kernels/dnnl/shared.h"

typedef struct back_plan {
    tn__dnnl_window window;
    dnnl_memory_desc_t x, dw, dy; /* as the operands are */
} back_plan;

static bool back_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *x = tn__setup_input(setup, 1);
    const tn_tensor *dw = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && dy != NULL && x != NULL && dw != NULL && x->rank >= 3 &&
           x->rank <= 5 && dy->rank == x->rank && dw->rank == x->rank &&
           dw->format.order != TN_ORDER_NHWC;
}

/* oneDNN (2.6, and 3.12 as its issues tell) has a kernel for convolutions of one pixel with a
 * stride, channels last, that steps through its scratchpad by whole blocks of 16 channels but asks
 * for the room of those that there are: with fewer than 16 it writes behind it. Such layers are
 * small; our own loops run them. */
static bool back_overruns(const tn_tensor *dw, const tn__dnnl_window *window) {
    bool point = true, strides = false;
    for (uint32_t d = 2; d < dw->rank; d++) {
        point = point && dw->shape[d] == 1;
        strides = strides || window->stride[d - 2] > 1;
    }
    return point && strides && dw->shape[1] < 16;
}

static tn_status back_read(const tn_kernel_setup *setup, back_plan *plan) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *dy = tn__setup_input(setup, 0), *x = tn__setup_input(setup, 1);
    const tn_tensor *dw = tn__setup_output(setup, 0);
    int64_t group = tn__attr_int(setup->op, "group", 1);
    if (group < 1 || x->shape[0] != dy->shape[0] || dw->shape[0] != dy->shape[1] ||
        x->shape[1] % group != 0 || dy->shape[1] % group != 0 ||
        dw->shape[1] != x->shape[1] / group ||
        !tn__dnnl_window_of(setup->op, x, dy, dw->shape + 2, false, &plan->window) ||
        back_overruns(dw, &plan->window))
        return TN_E_UNSUPPORTED;
    TN_TRY(tn__dnnl_desc(library, x, &plan->x));
    TN_TRY(tn__dnnl_desc(library, dy, &plan->dy));
    return tn__dnnl_conv_weights(library, dw, false, group, &plan->dw);
}

static tn_status back_choose(const tn__dnnl *library, const back_plan *plan, bool given,
                             dnnl_primitive_desc_t *chosen, uint32_t *rank) {
    const tn__dnnl_window *window = &plan->window;
    dnnl_memory_desc_t x = plan->x, dw = plan->dw, dy = plan->dy;
    dnnl_convolution_desc_t ahead, desc;
    dnnl_primitive_desc_t forward;
    TN_TRY(tn__dnnl_any(library, &dw));
    if (!given) {
        TN_TRY(tn__dnnl_any(library, &x));
        TN_TRY(tn__dnnl_any(library, &dy));
    }
    TN_TRY(tn__dnnl_status(library->dnnl_dilated_convolution_forward_desc_init(
        &ahead, dnnl_forward_training, dnnl_convolution_direct, &x, &dw, NULL, &dy, window->stride,
        window->dilation, window->begin, window->end)));
    TN_TRY(tn__dnnl_status(library->dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, &x, &dw, NULL, &dy, window->stride, window->dilation,
        window->begin, window->end)));
    TN_TRY(tn__dnnl_choose(library, &ahead, NULL, &forward, NULL));
    tn_status status = tn__dnnl_choose_back(library, &desc, NULL, forward, chosen, rank);
    library->dnnl_primitive_desc_destroy(forward);
    return status;
}

static tn_status back_pick(const tn__dnnl *library, const back_plan *plan,
                           dnnl_primitive_desc_t *chosen) {
    dnnl_primitive_desc_t any;
    uint32_t rank = 0, any_rank = 0;
    tn_status status = back_choose(library, plan, true, chosen, &rank);
    if (status == TN_E_NO_MEMORY || (status == TN_OK && rank == 2)) return status;
    tn_status other = back_choose(library, plan, false, &any, &any_rank);
    if (other != TN_OK) return status;
    dnnl_primitive_desc_t worse = any;
    if (status != TN_OK || any_rank > rank) {
        worse = status == TN_OK ? *chosen : NULL;
        *chosen = any;
    }
    if (worse != NULL) library->dnnl_primitive_desc_destroy(worse);
    return TN_OK;
}

/* An input in the form that is wanted: itself, or a copy in scratch. */
static tn_status back_input(tn__dnnl_work *work, const tn__dnnl *library, uint32_t index,
                            const dnnl_memory_desc_t *has, const dnnl_memory_desc_t *wants,
                            tn__dnnl_at *at) {
    *at = TN__DNNL_IN(index);
    if (library->dnnl_memory_desc_equal(has, wants)) return TN_OK;
    TN_TRY(tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(wants), at));
    return tn__dnnl_reorder(work, has, TN__DNNL_IN(index), wants, *at);
}

static tn_status back_build(tn__dnnl_work *work, const tn__dnnl *library, const back_plan *plan,
                            dnnl_primitive_desc_t chosen) {
    dnnl_memory_desc_t x = *tn__dnnl_wants(library, chosen, dnnl_query_src_md, 0);
    dnnl_memory_desc_t dy = *tn__dnnl_wants(library, chosen, dnnl_query_diff_dst_md, 0);
    dnnl_memory_desc_t dw = *tn__dnnl_wants(library, chosen, dnnl_query_diff_weights_md, 0);
    tn__dnnl_at x_at, dy_at, dw_at = TN__DNNL_OUT(0);
    tn_status status = back_input(work, library, 1, &plan->x, &x, &x_at);
    if (status == TN_OK) status = back_input(work, library, 0, &plan->dy, &dy, &dy_at);
    if (status == TN_OK && !library->dnnl_memory_desc_equal(&plan->dw, &dw))
        status = tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(&dw), &dw_at);
    if (status != TN_OK) {
        library->dnnl_primitive_desc_destroy(chosen);
        return status;
    }
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, x_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &dy, dy_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_WEIGHTS, &dw, dw_at));
    return dw_at.place == TN__DNNL_SCRATCH
               ? tn__dnnl_reorder(work, &dw, dw_at, &plan->dw, TN__DNNL_OUT(0))
               : TN_OK;
}

static tn_status back_prepare(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    back_plan plan;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_begin(setup, &work));
    tn_status status = back_read(setup, &plan);
    if (status == TN_OK) status = back_pick(setup->library, &plan, &chosen);
    if (status == TN_OK) status = back_build(work, setup->library, &plan, chosen);
    return tn__dnnl_end(setup, work, status);
}

static const tn_kernel dnnl_train_conv_kernels[] = {
    TN__DNNL_KERNEL("ConvGradWeights", back_accepts, back_prepare),
};

TN_KERNEL_LIBRARY(dnnl_train_conv, "tenure");
