/* conv.c - convolutions and transposed convolutions by oneDNN, with what follows them.
 *
 * First the formats that the operands have are asked for, with weights in any form (packed at
 * set-up). Where only an implementation that packs on the heap would take those (channels first
 * in general), the library may choose the forms of input and output as well, and reorders through
 * scratch stand around it: more scratch, but all of it planned.
 *
 * A summand (the fourth input of the operator of domain "tenure") is added by the primitive to
 * what is in the destination: it lies there already when the plan put the output on it, and is
 * copied there otherwise.
 */
#include "kernels/dnnl.h"
#include "kernels/dnnl/shared.h"

typedef struct conv_plan {
    const tn_tensor *x, *w, *bias, *summand, *y;
    bool transposed;
    tn__dnnl_window window;
    tn__dnnl_after after;
    dnnl_memory_desc_t x_desc, w_desc, bias_desc, y_desc; /* as the operands are */
} conv_plan;

static bool conv_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *w = tn__setup_input(setup, 1);
    return tn__dnnl_all_fit(setup) && x != NULL && w != NULL && x->rank >= 3 && x->rank <= 5 &&
           w->rank == x->rank && w->format.order != TN_ORDER_NHWC;
}

tn_status tn__dnnl_conv_weights(const tn__dnnl *library, const tn_tensor *w, bool transposed,
                                int64_t group, dnnl_memory_desc_t *desc) {
    int64_t shape[TN_RANK_MAX], strides[TN_RANK_MAX], plain[TN_RANK_MAX];
    uint32_t rank = w->rank;
    if (group < 1 || w->shape[0] % group != 0) return TN_E_UNSUPPORTED;
    tn__dnnl_strides(w, plain);
    for (uint32_t d = 2; d < rank; d++) shape[d + 1] = w->shape[d], strides[d + 1] = plain[d];
    shape[0] = group;
    strides[0] = w->shape[0] / group * plain[0];
    uint32_t out = transposed ? 1 : 0, in = 1 - out;
    shape[1] = out == 0 ? w->shape[0] / group : w->shape[1];
    shape[2] = in == 0 ? w->shape[0] / group : w->shape[1];
    strides[1] = plain[out];
    strides[2] = plain[in];
    uint32_t skip = group == 1 ? 1 : 0;
    return tn__dnnl_strided(library, w->dtype, rank + 1 - skip, shape + skip, strides + skip, desc);
}

static tn_status conv_read(const tn_kernel_setup *setup, bool transposed, conv_plan *plan) {
    const tn__dnnl *library = setup->library;
    *plan = (conv_plan){.x = tn__setup_input(setup, 0),
                        .w = tn__setup_input(setup, 1),
                        .bias = tn__setup_input(setup, 2),
                        .summand = tn__setup_input(setup, 3),
                        .y = tn__setup_output(setup, 0),
                        .transposed = transposed};
    if (!tn__dnnl_window_of(setup->op, plan->x, plan->y, plan->w->shape + 2, transposed,
                            &plan->window))
        return TN_E_UNSUPPORTED;
    TN_TRY(tn__dnnl_after_of(setup->op, &plan->after));
    plan->after.sum = plan->summand != NULL;
    TN_TRY(tn__dnnl_desc(library, plan->x, &plan->x_desc));
    TN_TRY(tn__dnnl_desc(library, plan->y, &plan->y_desc));
    if (plan->bias != NULL) TN_TRY(tn__dnnl_desc(library, plan->bias, &plan->bias_desc));
    return tn__dnnl_conv_weights(library, plan->w, transposed, tn__attr_int(setup->op, "group", 1),
                                 &plan->w_desc);
}

/* The best implementation with operands as they are (`given`), or in any form. */
static tn_status conv_choose(const tn__dnnl *library, const conv_plan *plan, bool given,
                             dnnl_primitive_desc_t *chosen, uint32_t *rank) {
    dnnl_memory_desc_t x = plan->x_desc, w = plan->w_desc, y = plan->y_desc;
    const dnnl_memory_desc_t *bias = plan->bias != NULL ? &plan->bias_desc : NULL;
    const tn__dnnl_window *window = &plan->window;
    TN_TRY(tn__dnnl_any(library, &w));
    if (!given) {
        TN_TRY(tn__dnnl_any(library, &x));
        TN_TRY(tn__dnnl_any(library, &y));
    }
    if (plan->transposed) {
        dnnl_deconvolution_desc_t desc;
        TN_TRY(tn__dnnl_status(library->dnnl_dilated_deconvolution_forward_desc_init(
            &desc, dnnl_forward_inference, dnnl_deconvolution_direct, &x, &w, bias, &y,
            window->stride, window->dilation, window->begin, window->end)));
        return tn__dnnl_choose(library, &desc, &plan->after, chosen, rank);
    }
    dnnl_convolution_desc_t desc;
    TN_TRY(tn__dnnl_status(library->dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, &x, &w, bias, &y, window->stride,
        window->dilation, window->begin, window->end)));
    return tn__dnnl_choose(library, &desc, &plan->after, chosen, rank);
}

static tn_status conv_pick(const tn__dnnl *library, const conv_plan *plan,
                           dnnl_primitive_desc_t *chosen) {
    dnnl_primitive_desc_t any;
    uint32_t rank = 0, any_rank = 0;
    tn_status status = conv_choose(library, plan, true, chosen, &rank);
    if (status == TN_E_NO_MEMORY || (status == TN_OK && rank == 2)) return status;
    tn_status other = conv_choose(library, plan, false, &any, &any_rank);
    if (other != TN_OK) return status;
    if (status == TN_OK && any_rank <= rank) {
        library->dnnl_primitive_desc_destroy(any);
        return TN_OK;
    }
    if (status == TN_OK) library->dnnl_primitive_desc_destroy(*chosen);
    *chosen = any;
    return TN_OK;
}

/* Where an operand is in the form that the primitive wants: itself, or scratch. */
static tn_status conv_place(tn__dnnl_work *work, const tn__dnnl *library,
                            const dnnl_memory_desc_t *has, const dnnl_memory_desc_t *wants,
                            tn__dnnl_at *at) {
    if (library->dnnl_memory_desc_equal(has, wants)) return TN_OK;
    return tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(wants), at);
}

static tn_status conv_build(tn_kernel_setup *setup, tn__dnnl_work *work, conv_plan *plan,
                            dnnl_primitive_desc_t chosen) {
    const tn__dnnl *library = setup->library;
    const dnnl_memory_desc_t *wants_x = tn__dnnl_wants(library, chosen, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t *wants_y = tn__dnnl_wants(library, chosen, dnnl_query_dst_md, 0);
    const dnnl_memory_desc_t *wants_w = tn__dnnl_wants(library, chosen, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t x = *wants_x, y = *wants_y, w = *wants_w; /* `chosen` goes with its step */
    tn__dnnl_at x_at = TN__DNNL_IN(0), y_at = TN__DNNL_OUT(0), w_at;
    tn_status status;
    TN_TRY_DONE(conv_place(work, library, &plan->x_desc, &x, &x_at));
    TN_TRY_DONE(conv_place(work, library, &plan->y_desc, &y, &y_at));
    if (x_at.place == TN__DNNL_SCRATCH)
        TN_TRY_DONE(tn__dnnl_reorder(work, &plan->x_desc, TN__DNNL_IN(0), &x, x_at));
    if (plan->summand != NULL && y_at.place == TN__DNNL_SCRATCH) {
        dnnl_memory_desc_t summand;
        TN_TRY_DONE(tn__dnnl_desc(library, plan->summand, &summand));
        TN_TRY_DONE(tn__dnnl_reorder(work, &summand, TN__DNNL_IN(3), &y, y_at));
    } else if (plan->summand != NULL) {
        tn__dnnl_accumulate(work, 3);
    }
    TN_TRY_DONE(tn__dnnl_weights(setup, work, 1, &plan->w_desc, &w, &w_at));
    status = tn__dnnl_step(work, chosen, 4);
    chosen = NULL;
    if (status != TN_OK) goto done;
    TN_TRY_DONE(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, x_at));
    TN_TRY_DONE(tn__dnnl_bind(work, DNNL_ARG_WEIGHTS, &w, w_at));
    TN_TRY_DONE(tn__dnnl_bind(work, DNNL_ARG_DST, &y, y_at));
    if (plan->bias != NULL)
        TN_TRY_DONE(tn__dnnl_bind(work, DNNL_ARG_BIAS, &plan->bias_desc, TN__DNNL_IN(2)));
    if (y_at.place == TN__DNNL_SCRATCH)
        status = tn__dnnl_reorder(work, &y, y_at, &plan->y_desc, TN__DNNL_OUT(0));
done:
    if (chosen != NULL) library->dnnl_primitive_desc_destroy(chosen);
    return status;
}

static tn_status conv_prepare_as(tn_kernel_setup *setup, bool transposed) {
    tn__dnnl_work *work;
    conv_plan plan;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_begin(setup, &work));
    tn_status status = conv_read(setup, transposed, &plan);
    if (status == TN_OK) status = conv_pick(setup->library, &plan, &chosen);
    if (status == TN_OK) status = conv_build(setup, work, &plan, chosen);
    return tn__dnnl_end(setup, work, status);
}

tn_status tn__dnnl_conv_prepare(tn_kernel_setup *setup) { return conv_prepare_as(setup, false); }
bool tn__dnnl_conv_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *summand = tn__setup_input(setup, 3), *y = tn__setup_output(setup, 0);
    return conv_accepts(setup) &&
           (summand == NULL ||
            (y != NULL && summand->bytes == y->bytes && summand->rank == y->rank &&
             memcmp(summand->shape, y->shape, y->rank * sizeof *y->shape) == 0 &&
             summand->format.order == y->format.order));
}

static tn_status conv_prepare_transposed(tn_kernel_setup *setup) {
    return conv_prepare_as(setup, true);
}

static const tn_kernel dnnl_conv_kernels[] = {
    TN__DNNL_KERNEL("Conv", conv_accepts, tn__dnnl_conv_prepare),
    TN__DNNL_KERNEL("ConvTranspose", conv_accepts, conv_prepare_transposed),
};

TN_KERNEL_LIBRARY(dnnl_conv, "");
