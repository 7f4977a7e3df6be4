/* fused.c - the operators of domain "tenure" by oneDNN (src/graph/ops/tenure.c). */
#include "engine/kernels/dnnl.h"
#include "engine/kernels/dnnl/shared.h"

/* --- Swish --- */

static bool fused_accepts_swish(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_is_fit(x) && tn__dnnl_is_fit(y) && x->dtype == y->dtype &&
           x->bytes == y->bytes && x->format.order == y->format.order;
}

static tn_status fused_prepare_swish(tn_kernel_setup *setup) {
    tn__dnnl_after after = {.post_count = 1};
    after.post[0] = (tn__dnnl_post){"Swish", 1, 0};
    return tn__dnnl_each_prepare(setup, &after);
}

/* --- MaskedSoftmax: scaled, masked and normalised where the result lies --- */

static bool fused_accepts_masked(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && x != NULL && y != NULL && x->rank > 0 &&
           x->bytes == y->bytes && x->format.order != TN_ORDER_NHWC &&
           y->format.order != TN_ORDER_NHWC && tn__setup_input(setup, 1) != NULL;
}

static tn_status fused_read_masked(tn_kernel_setup *setup, tn__dnnl_work *work) {
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
    return tn__dnnl_softmax(work, library, &rows, dnnl_softmax_accurate, TN__DNNL_OUT(0));
}

static tn_status fused_prepare_masked(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, fused_read_masked(setup, work));
}

/* --- BiasGelu --- */

static bool fused_accepts_gelu(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && x != NULL && y != NULL && x->bytes == y->bytes &&
           x->format.order == y->format.order && tn__setup_input(setup, 1) != NULL;
}

static tn_status fused_prepare_gelu(tn_kernel_setup *setup) {
    bool by_tanh = strcmp(tn__attr_string(setup->op, "approximate", "none"), "tanh") == 0;
    tn__dnnl_after after = {.post_count = 1};
    tn__dnnl_work *work;
    after.post[0].activation = by_tanh ? "GeluTanh" : "Gelu";
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work,
                        tn__dnnl_pair(setup, work, dnnl_binary_add, 0, TN__DNNL_IN(0), &after));
}

/* --- Reorder --- */

static bool fused_accepts_reorder(const tn_kernel_setup *setup) {
    tn_view view = tn__setup_view(setup, 0);
    return tn__dnnl_all_fit(setup) && view.source == TN_NONE;
}

static tn_status fused_read_reorder(tn_kernel_setup *setup, tn__dnnl_work *work) {
    dnnl_memory_desc_t from, to;
    TN_TRY(tn__dnnl_desc(setup->library, tn__setup_input(setup, 0), &from));
    TN_TRY(tn__dnnl_desc(setup->library, tn__setup_output(setup, 0), &to));
    return tn__dnnl_reorder(work, &from, TN__DNNL_IN(0), &to, TN__DNNL_OUT(0));
}

static tn_status fused_prepare_reorder(tn_kernel_setup *setup) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, fused_read_reorder(setup, work));
}

static const tn_kernel dnnl_fused_kernels[] = {
    TN__DNNL_KERNEL("BiasGelu", fused_accepts_gelu, fused_prepare_gelu),
    TN__DNNL_KERNEL_OF("Conv", tn__dnnl_conv_accepts, tn__dnnl_conv_prepare, TN__DNNL_CONV_WAYS),
    TN__DNNL_KERNEL("MaskedSoftmax", fused_accepts_masked, fused_prepare_masked),
    TN__DNNL_KERNEL("MatMul", tn__dnnl_matmul_accepts, tn__dnnl_matmul_prepare),
    TN__DNNL_KERNEL("Reorder", fused_accepts_reorder, fused_prepare_reorder),
    TN__DNNL_KERNEL("Swish", fused_accepts_swish, fused_prepare_swish),
};

TN_KERNEL_LIBRARY(dnnl_fused, "tenure");
