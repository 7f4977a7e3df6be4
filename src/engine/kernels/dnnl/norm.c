/* norm.c - normalisations by oneDNN: batch (inference), layer, softmax and its logarithm.
 *
 * Before opset 13 softmax flattens all dimensions from its axis on into one; since then it goes
 * along that axis alone. Either way the tensor is seen as [outer, along, inner].
 */
#include "engine/kernels/dnnl.h"
#include "engine/kernels/dnnl/shared.h"

static tn_status norm_bind_each(tn__dnnl_work *work, const dnnl_memory_desc_t *desc,
                                const int *roles, const uint32_t *inputs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(tn__dnnl_bind(work, roles[i], desc, TN__DNNL_IN(inputs[i])));
    return TN_OK;
}

/* --- batch normalisation --- */

static bool norm_accepts_batch(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    if (!tn__dnnl_all_fit(setup) || x == NULL || x->rank < 2 || x->rank > 5 ||
        setup->op->input_count != 5 || tn__attr_int(setup->op, "training_mode", 0) != 0 ||
        tn__attr_int(setup->op, "spatial", 1) != 1 || y == NULL || y->dtype != x->dtype ||
        y->format.order != x->format.order) /* one descriptor is that of both */
        return false;
    for (uint32_t i = 1; i < 5; i++) /* the library reads them as float32, for every type of x */
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

static tn_status norm_prepare_batch(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, norm_read_batch(setup, work));
}

/* --- layer normalisation --- */

static bool norm_is_plain(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && x != NULL && y != NULL && x->dtype == y->dtype &&
           x->format.order != TN_ORDER_NHWC && y->format.order != TN_ORDER_NHWC && x->rank > 0;
}

/* Along the last axis alone, so that scale and shift are rows; without the statistics. */
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

static tn_status norm_prepare_layer(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, norm_read_layer(setup, work));
}

/* --- softmax --- */

tn_status tn__dnnl_softmax(tn__dnnl_work *work, const tn__dnnl *library,
                           const dnnl_memory_desc_t *rows, dnnl_alg_kind_t kind, tn__dnnl_at from) {
    dnnl_softmax_v2_desc_t desc;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_status(library->dnnl_softmax_v2_forward_desc_init(&desc, dnnl_forward_inference,
                                                                      kind, rows, rows, 1)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 2));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, rows, from));
    return tn__dnnl_bind(work, DNNL_ARG_DST, rows, TN__DNNL_OUT(0));
}

static tn_status norm_read_softmax(tn_kernel_setup *setup, tn__dnnl_work *work,
                                   dnnl_alg_kind_t kind) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *input = tn__setup_input(setup, 0);
    bool flat = setup->version < 13;
    int64_t axis = tn__attr_int(setup->op, "axis", flat ? 1 : -1);
    if (axis < 0) axis += input->rank;
    if (axis < 0 || axis >= (int64_t)input->rank) return TN_E_UNSUPPORTED;
    uint32_t first = (uint32_t)axis, last = flat ? input->rank : first + 1;
    dnnl_memory_desc_t x;
    TN_TRY(tn__dnnl_rows(library, input, first, last, &x));
    return tn__dnnl_softmax(work, library, &x, kind, TN__DNNL_IN(0));
}

static tn_status norm_prepare_softmax(tn_kernel_setup *setup, dnnl_alg_kind_t kind) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, norm_read_softmax(setup, work, kind));
}
static tn_status norm_softmax(tn_kernel_setup *setup) {
    return norm_prepare_softmax(setup, dnnl_softmax_accurate);
}
static tn_status norm_log_softmax(tn_kernel_setup *setup) {
    return norm_prepare_softmax(setup, dnnl_softmax_log);
}

static const tn_kernel dnnl_norm_kernels[] = {
    TN__DNNL_KERNEL("BatchNormalization", norm_accepts_batch, norm_prepare_batch),
    TN__DNNL_KERNEL("LayerNormalization", norm_accepts_layer, norm_prepare_layer),
    TN__DNNL_KERNEL("LogSoftmax", norm_is_plain, norm_log_softmax),
    TN__DNNL_KERNEL("Softmax", norm_is_plain, norm_softmax),
};

TN_KERNEL_LIBRARY(dnnl_norm, "");
