/* normalise_dnnl.c - normalisations by oneDNN: batch normalisation (inference, training and its
 * gradient) and layer normalisation.
 *
 * In training, oneDNN computes the mean and the biased variance, and reads both for the gradient.
 * The running statistics are updated here afterwards.
 */
#include "engine/kernels/dnnl.h"

static tn_status norm_bind_each(tn__dnnl_work *work, const dnnl_memory_desc_t *desc,
                                const int *roles, const uint32_t *inputs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(tn__dnnl_bind(work, roles[i], desc, TN__DNNL_IN(inputs[i])));
    return TN_OK;
}

/* --- batch normalisation with given statistics --- */

static bool norm_accepts_batch(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    if (!tn__dnnl_all_fit(setup) || x == NULL || x->rank < 2 || x->rank > 5 ||
        setup->op->input_count != 5 || tn__attr_int(setup->op, "training_mode", 0) != 0 ||
        /* one descriptor describes both x and y, so their formats must be equal */
        tn__attr_int(setup->op, "spatial", 1) != 1 || y == NULL || y->dtype != x->dtype ||
        y->format.order != x->format.order)
        return false;
    /* oneDNN reads scale, shift and statistics as float32, also if x has another type */
    for (uint32_t i = 1; i < 5; i++)
        if (tn__setup_input(setup, i) == NULL || tn__setup_input(setup, i)->dtype != TN_FLOAT32)
            return false;
    for (uint32_t k = 1; k < setup->op->output_count; k++)
        if (tn__setup_output(setup, k) != NULL) return false;
    return true;
}

static tn_status norm_read_batch(tn_kernel_setup *setup, tn__dnnl_work *work) {
    static const int roles[4] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
    static const uint32_t inputs[4] = {1, 2, 3, 4};
    const tn__dnnl *library = setup->library;
    dnnl_memory_desc_t x, channel;
    dnnl_batch_normalization_desc_t desc;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 0), &x));
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 1), &channel));
    TN_TRY(tn__dnnl_status(library->dnnl_batch_normalization_forward_desc_init(
        &desc, dnnl_forward_inference, &x, (float)tn__attr_float(setup->op, "epsilon", 1e-5),
        dnnl_use_scale | dnnl_use_shift | dnnl_use_global_stats)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 6));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &x, TN__DNNL_OUT(0)));
    return norm_bind_each(work, &channel, roles, inputs, 4);
}

/* --- layer normalisation --- */

static bool norm_is_plain(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && x != NULL && y != NULL && x->dtype == y->dtype &&
           x->format.order != TN_ORDER_NHWC && y->format.order != TN_ORDER_NHWC && x->rank > 0;
}

/* Accepts normalisations over the last axis only, so that scale and shift are rows, and without
 * outputs for the statistics. */
static bool norm_accepts_layer(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *scale = tn__setup_input(setup, 1);
    const tn_tensor *shift = tn__setup_input(setup, 2);
    if (!norm_is_plain(setup) || scale == NULL || tn__setup_output(setup, 1) != NULL ||
        tn__setup_output(setup, 2) != NULL)
        return false;
    int64_t axis = tn__attr_int(setup->op, "axis", -1);
    if (axis != -1 && axis + 1 != (int64_t)x->rank) return false;
    int64_t along = x->shape[x->rank - 1];
    return scale->dtype == TN_FLOAT32 && scale->rank == 1 && scale->shape[0] == along &&
           (shift == NULL ||
            (shift->dtype == TN_FLOAT32 && shift->rank == 1 && shift->shape[0] == along)) &&
           tn__attr_int(setup->op, "stash_type", TN_FLOAT32) == TN_FLOAT32;
}

static tn_status norm_read_layer(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *input = tn__setup_input(setup, 0), *shift = tn__setup_input(setup, 2);
    int64_t along = input->shape[input->rank - 1], one = 1;
    unsigned flags = shift != NULL ? dnnl_use_scale | dnnl_use_shift : dnnl_use_scale;
    dnnl_memory_desc_t x, row, statistics;
    dnnl_layer_normalization_desc_t desc;
    dnnl_primitive_desc_t chosen;
    int64_t rows = (int64_t)(input->bytes / (tn_dtype_bits(input->dtype) / 8)) / along;
    TN_TRY(tn__dnnl_rows(library, input, input->rank - 1, input->rank, &x));
    TN_TRY(tn__dnnl_strided(library, TN_FLOAT32, 1, &along, &one, &row));
    TN_TRY(tn__dnnl_strided(library, TN_FLOAT32, 1, &rows, &one, &statistics));
    TN_TRY(tn__dnnl_status(library->dnnl_layer_normalization_forward_desc_init(
        &desc, dnnl_forward_inference, &x, &statistics,
        (float)tn__attr_float(setup->op, "epsilon", 1e-5), flags)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 4));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &x, TN__DNNL_OUT(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SCALE, &row, TN__DNNL_IN(1)));
    if (shift != NULL) TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SHIFT, &row, TN__DNNL_IN(2)));
    return TN_OK;
}

/* --- batch normalisation in training --- */

static bool norm_accepts_own(const tn_kernel_setup *setup) {
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
    return setup->op->output_count == 5 && norm_accepts_own(setup) &&
           tn__setup_input(setup, 1)->dtype == TN_FLOAT32;
}

static bool norm_accepts_grad(const tn_kernel_setup *setup) {
    return setup->op->output_count == 3 && norm_accepts_own(setup) &&
           tn__setup_input(setup, 1)->dtype == tn__setup_input(setup, 0)->dtype &&
           tn__setup_input(setup, 1)->format.order == tn__setup_input(setup, 0)->format.order;
}

static tn_status norm_forward(const tn__dnnl *library, const dnnl_memory_desc_t *x, double epsilon,
                              unsigned more, dnnl_primitive_desc_t *chosen) {
    const unsigned flags = dnnl_use_scale | dnnl_use_shift | more;
    dnnl_batch_normalization_desc_t desc;
    TN_TRY(tn__dnnl_status(library->dnnl_batch_normalization_forward_desc_init(
        &desc, dnnl_forward_training, x, (float)epsilon, flags)));
    return tn__dnnl_choose(library, &desc, NULL, chosen, NULL);
}

/* Reserves scratch memory in which oneDNN stores which elements Relu passed. Only oneDNN's own
 * gradient of Relu would read it; ours reads the output, so the memory is not kept. */
static tn_status norm_room_for_signs(tn__dnnl_work *work, const tn__dnnl *library,
                                     const_dnnl_primitive_desc_t chosen, dnnl_memory_desc_t *signs,
                                     tn__dnnl_at *at) {
    const dnnl_memory_desc_t *wants =
        library->dnnl_primitive_desc_query_md(chosen, dnnl_query_workspace_md, 0);
    if (wants == NULL) return TN_E_UNSUPPORTED;
    *signs = *wants;
    return tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(signs), at);
}

/* Builds BatchNormTrain, which writes the statistics of the batch, or BatchNormApply, which reads
 * them. Otherwise both use the same primitive, so they compute the same bits. */
static tn_status norm_build_own(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn__dnnl *library = setup->library;
    const bool relu = tn__attr_int(setup->op, "relu", 0) != 0;
    const bool applies = setup->op->output_count == 1;
    const unsigned more = (relu ? dnnl_fuse_norm_relu : 0) | (applies ? dnnl_use_global_stats : 0);
    tn__dnnl_at at = {0};
    dnnl_memory_desc_t x, channel, signs;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 0), &x));
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 1), &channel));
    TN_TRY(norm_forward(library, &x, tn__attr_float(setup->op, "epsilon", 1e-5), more, &chosen));
    tn_status status = relu ? norm_room_for_signs(work, library, chosen, &signs, &at) : TN_OK;
    if (status != TN_OK) {
        library->dnnl_primitive_desc_destroy(chosen);
        return status;
    }
    TN_TRY(tn__dnnl_step(work, chosen, 7));
    if (relu) TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, &signs, at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &x, TN__DNNL_OUT(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SCALE, &channel, TN__DNNL_IN(1)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SHIFT, &channel, TN__DNNL_IN(2)));
    TN_TRY(
        tn__dnnl_bind(work, DNNL_ARG_MEAN, &channel, applies ? TN__DNNL_IN(3) : TN__DNNL_OUT(3)));
    return tn__dnnl_bind(work, DNNL_ARG_VARIANCE, &channel,
                         applies ? TN__DNNL_IN(4) : TN__DNNL_OUT(4));
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

static bool norm_accepts_apply(const tn_kernel_setup *setup) {
    return setup->op->output_count == 1 && norm_accepts_own(setup) &&
           tn__setup_input(setup, 1)->dtype == TN_FLOAT32;
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
    TN_TRY(norm_forward(library, &x, (double)epsilon, 0, &forward));
    tn_status status = tn__dnnl_choose_back(library, &desc, NULL, forward, &chosen, NULL);
    library->dnnl_primitive_desc_destroy(forward);
    TN_TRY(status);
    TN_TRY(tn__dnnl_step(work, chosen, 9));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(1)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SCALE, &channel, TN__DNNL_IN(2)));
    /* oneDNN requires a shift, but does not read it; any memory will do. */
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SHIFT, &channel, TN__DNNL_IN(2)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_MEAN, &channel, TN__DNNL_IN(3)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_VARIANCE, &channel, TN__DNNL_IN(4)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_SRC, &x, TN__DNNL_OUT(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_SCALE, &channel, TN__DNNL_OUT(1)));
    return tn__dnnl_bind(work, DNNL_ARG_DIFF_SHIFT, &channel, TN__DNNL_OUT(2));
}

static const tn_kernel normalise_dnnl_kernels[] = {
    TN__DNNL_KERNEL("BatchNormalization", norm_accepts_batch, norm_read_batch),
    TN__DNNL_KERNEL("LayerNormalization", norm_accepts_layer, norm_read_layer),
    TN__DNNL_OWN("BatchNormApply", norm_accepts_apply, norm_build_own),
    TN__DNNL_OWN("BatchNormGrad", norm_accepts_grad, norm_read_grad),
    {.domain = "tenure",
     .type = "BatchNormTrain",
     .accepts = norm_accepts_train,
     .prepare = tn__dnnl_prepare,
     .build = norm_build_own,
     .run = norm_run_train,
     .release = tn__dnnl_release,
     .formats = true},
};

TN_KERNEL_LIBRARY(normalise, "");
