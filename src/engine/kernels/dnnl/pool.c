/* pool.c - pooling by oneDNN, over windows and over all of an image.
 *
 * Averages that count padding are accepted only if every window ends inside the padding of the
 * attributes: ONNX does not count padding that ceil_mode adds.
 */
#include "engine/kernels/dnnl.h"
#include "engine/kernels/dnnl/shared.h"

static bool pool_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    return setup->op->input_count == 1 && tn__dnnl_all_fit(setup) && x != NULL && y != NULL &&
           x->rank >= 3 && x->rank <= 5 && y->rank == x->rank && tn__setup_output(setup, 1) == NULL;
}

static tn_status pool_build(tn_kernel_setup *setup, tn__dnnl_work *work, dnnl_alg_kind_t kind,
                            const tn__dnnl_window *window) {
    const tn__dnnl *library = setup->library;
    dnnl_memory_desc_t x, y;
    dnnl_pooling_v2_desc_t desc;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_desc(library, tn__setup_input(setup, 0), &x));
    TN_TRY(tn__dnnl_desc(library, tn__setup_output(setup, 0), &y));
    TN_TRY(tn__dnnl_status(library->dnnl_pooling_v2_forward_desc_init(
        &desc, dnnl_forward_inference, kind, &x, &y, window->stride, window->kernel,
        window->dilation, window->begin, window->end)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 2));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, TN__DNNL_IN(0)));
    return tn__dnnl_bind(work, DNNL_ARG_DST, &y, TN__DNNL_OUT(0));
}

bool tn__dnnl_pool_meets(const tn__dnnl_window *window) {
    for (uint32_t i = 0; i < window->spatial; i++) {
        int64_t reach = (window->kernel[i] - 1) * (window->dilation[i] + 1) + 1;
        if (window->begin[i] >= reach || window->end[i] >= reach) return false;
    }
    return true;
}

static tn_status pool_read(tn_kernel_setup *setup, tn__dnnl_work *work, bool average) {
    const tn_tensor *x = tn__setup_input(setup, 0), *y = tn__setup_output(setup, 0);
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(setup->op, "kernel_shape", &count);
    tn__dnnl_window window;
    dnnl_alg_kind_t kind = dnnl_pooling_max;
    if (kernel == NULL || count != x->rank - 2 ||
        !tn__dnnl_window_of(setup->op, x, y, kernel, false, &window) ||
        !tn__dnnl_pool_meets(&window))
        return TN_E_UNSUPPORTED;
    if (average) {
        bool counts = tn__attr_int(setup->op, "count_include_pad", 0) != 0;
        if (counts && !window.exact) return TN_E_UNSUPPORTED;
        kind = counts ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
    }
    return pool_build(setup, work, kind, &window);
}

static tn_status pool_prepare(tn_kernel_setup *setup, bool average) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, pool_read(setup, work, average));
}

static tn_status pool_prepare_whole(tn_kernel_setup *setup, bool average) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    tn__dnnl_window window = {.spatial = x->rank - 2};
    tn__dnnl_work *work;
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        window.kernel[i] = x->shape[i + 2];
        window.stride[i] = 1;
    }
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work,
                        pool_build(setup, work,
                                   average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max,
                                   &window));
}

static tn_status pool_average(tn_kernel_setup *setup) { return pool_prepare(setup, true); }
static tn_status pool_max(tn_kernel_setup *setup) { return pool_prepare(setup, false); }
static tn_status pool_whole_average(tn_kernel_setup *setup) {
    return pool_prepare_whole(setup, true);
}
static tn_status pool_whole_max(tn_kernel_setup *setup) { return pool_prepare_whole(setup, false); }

static const tn_kernel dnnl_pool_kernels[] = {
    TN__DNNL_KERNEL("AveragePool", pool_accepts, pool_average),
    TN__DNNL_KERNEL("GlobalAveragePool", pool_accepts, pool_whole_average),
    TN__DNNL_KERNEL("GlobalMaxPool", pool_accepts, pool_whole_max),
    TN__DNNL_KERNEL("MaxPool", pool_accepts, pool_max),
};

TN_KERNEL_LIBRARY(dnnl_pool, "");
