/* train_norm.c - batch normalisation by the statistics of the batch, and its gradient, by oneDNN.
 *
 * The library computes mean and biased variance, and reads them for the gradient; the running
 * statistics are computed here afterwards.
 */
#include "engine/kernels/dnnl.h"

static bool norm_accepts(const tn_kernel_setup *setup) {
    const tn_op *op = setup->op;
    if (!tn__dnnl_all_fit(setup) || op->input_count != 5) return false;
    for (uint32_t i = 0; i < 5; i++)
        if (op->inputs[i] == TN_NONE) return false;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] == TN_NONE) return false;
    const tn_tensor *first = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    for (uint32_t k = 1; k < op->output_count; k++)
        if (tn__setup_output(setup, k)->dtype != TN_FLOAT32) return false;
    for (uint32_t i = 2; i < 5; i++)
        if (tn__setup_input(setup, i)->dtype != TN_FLOAT32) return false;
    return first->dtype == y->dtype && first->rank >= 2 && first->rank <= 5 &&
           first->format.order == y->format.order;
}

static bool norm_accepts_train(const tn_kernel_setup *setup) {
    return setup->op->output_count == 5 && norm_accepts(setup) &&
           tn__setup_input(setup, 1)->dtype == TN_FLOAT32;
}

static bool norm_accepts_grad(const tn_kernel_setup *setup) {
    return setup->op->output_count == 3 && norm_accepts(setup) &&
           tn__setup_input(setup, 1)->dtype == tn__setup_input(setup, 0)->dtype &&
           tn__setup_input(setup, 1)->format.order == tn__setup_input(setup, 0)->format.order;
}

static tn_status norm_forward(const tn__dnnl *library, const dnnl_memory_desc_t *x, double epsilon,
                              bool relu, dnnl_primitive_desc_t *chosen) {
    const unsigned flags = dnnl_use_scale | dnnl_use_shift;
    dnnl_batch_normalization_desc_t desc;
    TN_TRY(tn__dnnl_status(library->dnnl_batch_normalization_forward_desc_init(
        &desc, dnnl_forward_training, x, (float)epsilon,
        relu ? flags | dnnl_fuse_norm_relu : flags)));
    return tn__dnnl_choose(library, &desc, NULL, chosen, NULL);
}

/* --- forward: x, scale, bias, mean, variance -> y, mean, variance, those of the batch --- */

/* With Relu the library writes down which elements passed. Its own gradient would read that; ours
 * looks at the output, so the scratch is forgotten. */
static tn_status norm_room_for_signs(tn__dnnl_work *work, const tn__dnnl *library,
                                     const_dnnl_primitive_desc_t chosen, dnnl_memory_desc_t *signs,
                                     tn__dnnl_at *at) {
    const dnnl_memory_desc_t *wants =
        library->dnnl_primitive_desc_query_md(chosen, dnnl_query_workspace_md, 0);
    if (wants == NULL) return TN_E_UNSUPPORTED;
    *signs = *wants;
    return tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(signs), at);
}

static tn_status norm_read_train(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn__dnnl *library = setup->library;
    const bool relu = tn__attr_int(setup->op, "relu", 0) != 0;
    tn__dnnl_at at = {0};
    dnnl_memory_desc_t signs;
    dnnl_memory_desc_t x, channel;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 0), &x));
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 1), &channel));
    TN_TRY(norm_forward(library, &x, tn__attr_float(setup->op, "epsilon", 1e-5), relu, &chosen));
    tn_status status = relu ? norm_room_for_signs(work, library, chosen, &signs, &at) : TN_OK;
    if (status != TN_OK) {
        library->dnnl_primitive_desc_destroy(chosen);
        return status;
    }
    TN_TRY(tn__dnnl_step(work, chosen, 7));
    if (relu) TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, &signs, at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SCALE, &channel, TN__DNNL_IN(1)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SHIFT, &channel, TN__DNNL_IN(2)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &x, TN__DNNL_OUT(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_MEAN, &channel, TN__DNNL_OUT(3)));
    return tn__dnnl_bind(work, DNNL_ARG_VARIANCE, &channel, TN__DNNL_OUT(4));
}

static tn_status norm_prepare_train(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, norm_read_train(setup, work));
}

static tn_status norm_run_train(tn_kernel_call *call) {
    TN_TRY(tn__dnnl_run(call));
    double share = tn__attr_float(call->op, "momentum", 0.1);
    uint64_t channels = tn__operand_count(&call->inputs[1]);
    double n = (double)(tn__operand_count(&call->inputs[0]) / channels);
    const float *means = call->outputs[3].data, *variances = call->outputs[4].data;
    float *mean = call->outputs[1].data, *variance = call->outputs[2].data;
    for (uint64_t c = 0; c < channels; c++) {
        double biased = (double)variances[c], unbiased = n > 1 ? biased * n / (n - 1) : biased;
        mean[c] = (float)((1 - share) * (double)mean[c] + share * (double)means[c]);
        variance[c] = (float)((1 - share) * (double)variance[c] + share * unbiased);
    }
    return TN_OK;
}

/* --- the same again: x, scale, bias, batch mean, batch variance -> y --- */

static bool norm_accepts_apply(const tn_kernel_setup *setup) {
    return setup->op->output_count == 1 && norm_accepts(setup) &&
           tn__setup_input(setup, 1)->dtype == TN_FLOAT32;
}

/* As in training, but for where the statistics come from: so it is the same code, and bits. */
static tn_status norm_read_apply(tn_kernel_setup *setup, tn__dnnl_work *work) {
    static const int roles[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
    const tn__dnnl *library = setup->library;
    const bool relu = tn__attr_int(setup->op, "relu", 0) != 0;
    unsigned flags = dnnl_use_scale | dnnl_use_shift | dnnl_use_global_stats;
    dnnl_batch_normalization_desc_t desc;
    dnnl_memory_desc_t x, channel, signs;
    dnnl_primitive_desc_t chosen;
    tn__dnnl_at at = {0};
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 0), &x));
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 1), &channel));
    TN_TRY(tn__dnnl_status(library->dnnl_batch_normalization_forward_desc_init(
        &desc, dnnl_forward_training, &x, (float)tn__attr_float(setup->op, "epsilon", 1e-5),
        relu ? flags | dnnl_fuse_norm_relu : flags)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    tn_status status = relu ? norm_room_for_signs(work, library, chosen, &signs, &at) : TN_OK;
    if (status != TN_OK) {
        library->dnnl_primitive_desc_destroy(chosen);
        return status;
    }
    TN_TRY(tn__dnnl_step(work, chosen, 7));
    if (relu) TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, &signs, at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &x, TN__DNNL_OUT(0)));
    for (uint32_t i = 0; i < 4; i++)
        TN_TRY(tn__dnnl_bind(work, roles[i], &channel, TN__DNNL_IN(i + 1)));
    return TN_OK;
}

static tn_status norm_prepare_apply(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, norm_read_apply(setup, work));
}

/* --- backward: dy, x, scale, batch mean, batch variance -> dx, d scale, d bias --- */

static tn_status norm_read_grad(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn__dnnl *library = setup->library;
    dnnl_memory_desc_t x, channel;
    dnnl_batch_normalization_desc_t desc;
    dnnl_primitive_desc_t forward, chosen;
    float epsilon = (float)tn__attr_float(setup->op, "epsilon", 1e-5);
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 1), &x));
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 2), &channel));
    TN_TRY(tn__dnnl_status(library->dnnl_batch_normalization_backward_desc_init(
        &desc, dnnl_backward, &x, &x, epsilon, dnnl_use_scale | dnnl_use_shift)));
    TN_TRY(norm_forward(library, &x, (double)epsilon, false, &forward));
    tn_status status = tn__dnnl_choose_back(library, &desc, NULL, forward, &chosen, NULL);
    library->dnnl_primitive_desc_destroy(forward);
    TN_TRY(status);
    TN_TRY(tn__dnnl_step(work, chosen, 9));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(1)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SCALE, &channel, TN__DNNL_IN(2)));
    /* The library insists on a shift that it does not read. */
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SHIFT, &channel, TN__DNNL_IN(2)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_MEAN, &channel, TN__DNNL_IN(3)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_VARIANCE, &channel, TN__DNNL_IN(4)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_SRC, &x, TN__DNNL_OUT(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_SCALE, &channel, TN__DNNL_OUT(1)));
    return tn__dnnl_bind(work, DNNL_ARG_DIFF_SHIFT, &channel, TN__DNNL_OUT(2));
}

static tn_status norm_prepare_grad(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, norm_read_grad(setup, work));
}

static const tn_kernel dnnl_train_norm_kernels[] = {
    {.type = "BatchNormApply",
     .accepts = norm_accepts_apply,
     .prepare = norm_prepare_apply,
     .run = tn__dnnl_run,
     .release = tn__dnnl_release,
     .formats = true},
    {.type = "BatchNormGrad",
     .accepts = norm_accepts_grad,
     .prepare = norm_prepare_grad,
     .run = tn__dnnl_run,
     .release = tn__dnnl_release,
     .formats = true},
    {.type = "BatchNormTrain",
     .accepts = norm_accepts_train,
     .prepare = norm_prepare_train,
     .run = norm_run_train,
     .release = tn__dnnl_release,
     .formats = true},
};

TN_KERNEL_LIBRARY(dnnl_train_norm, "tenure");
