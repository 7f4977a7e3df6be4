/* dnnl_fused.c - the operators of domain "tenure" by oneDNN (src/graph/ops/tenure.c). */
#include "engine/dnnl.h"
#include "engine/kernels/dnnl_shared.h"

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

/* --- Reorder --- */

static bool fused_accepts_reorder(const tn_kernel_setup *setup) {
    tn_view view = tn_op_view(setup->graph, setup->id, 0);
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
    TN__DNNL_KERNEL("Conv", tn__dnnl_conv_accepts, tn__dnnl_conv_prepare),
    TN__DNNL_KERNEL("MatMul", tn__dnnl_matmul_accepts, tn__dnnl_matmul_prepare),
    TN__DNNL_KERNEL("Reorder", fused_accepts_reorder, fused_prepare_reorder),
    TN__DNNL_KERNEL("Swish", fused_accepts_swish, fused_prepare_swish),
};

TN_KERNEL_LIBRARY(dnnl_fused, "tenure");
