/* move_dnnl.c - copies by oneDNN: transpositions, conversions between channels first and channels
 * last, and the concatenation of channels in channels-last tensors.
 *
 * Concatenations in C order are left to the plain kernel. For these the plan may have placed the
 * inputs inside the output, so that no copy is needed; otherwise one copy per input and row is
 * sufficient.
 */
#include "engine/kernels/dnnl.h"

static bool move_accepts(const tn_kernel_setup *setup) {
    return tn__dnnl_all_fit(setup) && tn__setup_input(setup, 0) != NULL &&
           tn__setup_output(setup, 0) != NULL;
}

/* --- Transpose --- */

/* Accepts a Transpose that moves elements. Without any movement the output is a view and may have
 * the address of the input, which only the plain kernel supports. */
static bool move_accepts_transpose(const tn_kernel_setup *setup) {
    return move_accepts(setup) && tn__setup_view(setup, 0).source == TN_NONE;
}

static tn_status move_read_transpose(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    int64_t strides[TN_RANK_MAX], moved[TN_RANK_MAX];
    dnnl_memory_desc_t from, to;
    uint32_t count;
    const int64_t *perm = tn__attr_ints(setup->op, "perm", &count);
    if (perm != NULL && count != x->rank) return TN_E_UNSUPPORTED;
    tn__dnnl_strides(x, strides);
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t at = perm != NULL ? perm[d] : (int64_t)(x->rank - 1 - d);
        if (at < 0 || at >= (int64_t)x->rank) return TN_E_UNSUPPORTED;
        moved[d] = strides[at];
    }
    TN_TRY(tn__dnnl_strided(library, x->dtype, y->rank, y->shape, moved, &from));
    TN_TRY(tn__dnnl_desc(library, y, &to));
    return tn__dnnl_reorder(work, &from, TN__DNNL_IN(0), &to, TN__DNNL_OUT(0));
}

/* --- Concat --- */

static bool move_accepts_concat(const tn_kernel_setup *setup) {
    const tn_tensor *y = tn__setup_output(setup, 0);
    if (!move_accepts(setup) || y->format.order != TN_ORDER_NHWC || tn__setup_joins(setup))
        return false;
    for (uint32_t i = 0; i < setup->op->input_count; i++)
        if (tn__setup_input(setup, i)->format.order != TN_ORDER_NHWC) return false;
    return true;
}

static tn_status move_bind_concat(tn_kernel_setup *setup, tn__dnnl_work *work, int axis,
                                  dnnl_memory_desc_t *inputs) {
    const tn__dnnl *library = setup->library;
    uint32_t count = setup->op->input_count;
    dnnl_memory_desc_t y;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t desc;
    TN_TRY(tn__dnnl_desc(library, tn__setup_output(setup, 0), &y));
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, i), &inputs[i]));
    TN_TRY(tn__dnnl_attr(library, NULL, &attr));
    tn_status status = tn__dnnl_status(library->dnnl_concat_primitive_desc_create(
        &desc, &y, (int)count, axis, inputs, attr, library->engine));
    library->dnnl_primitive_attr_destroy(attr);
    if (status != TN_OK) return status;
    TN_TRY(tn__dnnl_step(work, desc, count + 1));
    for (uint32_t i = 0; i < count; i++)
        TN_TRY(tn__dnnl_bind(work, DNNL_ARG_MULTIPLE_SRC + (int)i, &inputs[i], TN__DNNL_IN(i)));
    return tn__dnnl_bind(work, DNNL_ARG_DST, &y, TN__DNNL_OUT(0));
}

static tn_status move_build_concat(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn_tensor *y = tn__setup_output(setup, 0);
    int64_t axis = tn__attr_int(setup->op, "axis", 1);
    size_t count = setup->op->input_count;
    if (axis < 0) axis += y->rank;
    if (axis < 0 || axis >= (int64_t)y->rank || count > 1024) return TN_E_UNSUPPORTED;
    dnnl_memory_desc_t *inputs = tn__alloc_array(setup->context, count, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(setup->error, "a kernel");
    tn_status status = move_bind_concat(setup, work, (int)axis, inputs);
    tn__free(setup->context, inputs, count * sizeof *inputs);
    return status;
}

/* --- Reorder --- */

static bool move_accepts_reorder(const tn_kernel_setup *setup) {
    tn_view view = tn__setup_view(setup, 0);
    return tn__dnnl_all_fit(setup) && view.source == TN_NONE;
}

static tn_status move_read_reorder(tn_kernel_setup *setup, tn__dnnl_work *work) {
    dnnl_memory_desc_t from, to;
    TN_TRY(tn__dnnl_desc(setup->library, tn__setup_input(setup, 0), &from));
    TN_TRY(tn__dnnl_desc(setup->library, tn__setup_output(setup, 0), &to));
    return tn__dnnl_reorder(work, &from, TN__DNNL_IN(0), &to, TN__DNNL_OUT(0));
}

static const tn_kernel move_dnnl_kernels[] = {
    TN__DNNL_KERNEL("Concat", move_accepts_concat, move_build_concat),
    TN__DNNL_KERNEL("Transpose", move_accepts_transpose, move_read_transpose),
    TN__DNNL_OWN("Reorder", move_accepts_reorder, move_read_reorder),
};

TN_KERNEL_LIBRARY(move, "");
