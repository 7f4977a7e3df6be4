/* train.c - gradients of pools, and products of transposed matrices, by oneDNN.
 *
 * The library's maximum pool remembers in the forward pass which element won. Ours remembers
 * nothing between the passes: the pool is run again into scratch, right before its gradient.
 */
#include "kernels/dnnl.h"
#include "kernels/dnnl/shared.h"

/* --- pools: dy, x -> dx; dy -> dx --- */

static bool train_accepts_pool(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *x = tn__setup_input(setup, 1);
    const tn_tensor *dx = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && dy != NULL && dx != NULL && dx->rank >= 3 && dx->rank <= 5 &&
           dy->rank == dx->rank &&
           (x == NULL || (x->dtype == dx->dtype && x->rank == dx->rank && x->bytes == dx->bytes));
}

/* The two primitives of a pool. */
typedef struct train_pool {
    dnnl_memory_desc_t x, dx, dy;
    dnnl_primitive_desc_t forward, backward;
} train_pool;

static tn_status train_choose_pool(const tn__dnnl *library, const tn__dnnl_window *window,
                                   dnnl_alg_kind_t kind, train_pool *pool) {
    dnnl_pooling_v2_desc_t ahead, desc;
    TN_TRY(tn__dnnl_status(library->dnnl_pooling_v2_forward_desc_init(
        &ahead, dnnl_forward_training, kind, &pool->x, &pool->dy, window->stride, window->kernel,
        window->dilation, window->begin, window->end)));
    TN_TRY(tn__dnnl_status(library->dnnl_pooling_v2_backward_desc_init(
        &desc, kind, &pool->dx, &pool->dy, window->stride, window->kernel, window->dilation,
        window->begin, window->end)));
    TN_TRY(tn__dnnl_choose(library, &ahead, NULL, &pool->forward, NULL));
    return tn__dnnl_choose_back(library, &desc, NULL, pool->forward, &pool->backward, NULL);
}

/* Runs the pool again for what its gradient wants to know. */
static tn_status train_again(tn__dnnl_work *work, const tn__dnnl *library, train_pool *pool,
                             dnnl_memory_desc_t *winners, tn__dnnl_at *at) {
    tn__dnnl_at y;
    const dnnl_memory_desc_t *wants =
        tn__dnnl_wants(library, pool->forward, dnnl_query_workspace_md, 0);
    if (wants == NULL) return TN_E_UNSUPPORTED;
    *winners = *wants;
    TN_TRY(tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(winners), at));
    TN_TRY(tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(&pool->dy), &y));
    dnnl_primitive_desc_t forward = pool->forward;
    pool->forward = NULL;
    TN_TRY(tn__dnnl_step(work, forward, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &pool->x, TN__DNNL_IN(1)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &pool->dy, y));
    return tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, winners, *at);
}

static tn_status train_build_pool(tn__dnnl_work *work, const tn__dnnl *library, train_pool *pool,
                                  bool max) {
    dnnl_memory_desc_t winners;
    tn__dnnl_at at = {0};
    if (max) TN_TRY(train_again(work, library, pool, &winners, &at));
    dnnl_primitive_desc_t backward = pool->backward;
    pool->backward = NULL;
    TN_TRY(tn__dnnl_step(work, backward, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &pool->dy, TN__DNNL_IN(0)));
    if (max) TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, &winners, at));
    return tn__dnnl_bind(work, DNNL_ARG_DIFF_SRC, &pool->dx, TN__DNNL_OUT(0));
}

static tn_status train_read_pool(tn_kernel_setup *setup, tn__dnnl_work *work, bool max) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *dy = tn__setup_input(setup, 0), *dx = tn__setup_output(setup, 0);
    const tn_tensor *x = max ? tn__setup_input(setup, 1) : dx;
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(setup->op, "kernel_shape", &count);
    dnnl_alg_kind_t kind = dnnl_pooling_max;
    tn__dnnl_window window;
    train_pool pool = {0};
    if (x == NULL || kernel == NULL || count != dx->rank - 2 ||
        !tn__dnnl_window_of(setup->op, dx, dy, kernel, false, &window) ||
        !tn__dnnl_pool_meets(&window))
        return TN_E_UNSUPPORTED;
    bool padding = tn__attr_int(setup->op, "count_include_pad", 0) != 0;
    if (!max && padding && !window.exact) return TN_E_UNSUPPORTED;
    if (!max) kind = padding ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
    TN_TRY(tn__dnnl_desc(library, x, &pool.x));
    TN_TRY(tn__dnnl_desc(library, dx, &pool.dx));
    TN_TRY(tn__dnnl_desc(library, dy, &pool.dy));
    tn_status status = train_choose_pool(library, &window, kind, &pool);
    if (status == TN_OK) status = train_build_pool(work, library, &pool, max);
    if (pool.forward != NULL) library->dnnl_primitive_desc_destroy(pool.forward);
    if (pool.backward != NULL) library->dnnl_primitive_desc_destroy(pool.backward);
    return status;
}

static tn_status train_prepare_pool(tn_kernel_setup *setup, bool max) {
    tn__dnnl_work *work;
    TN_TRY(tn__dnnl_begin(setup, &work));
    return tn__dnnl_end(setup, work, train_read_pool(setup, work, max));
}
static tn_status train_average_pool(tn_kernel_setup *setup) {
    return train_prepare_pool(setup, false);
}
static tn_status train_max_pool(tn_kernel_setup *setup) { return train_prepare_pool(setup, true); }

static const tn_kernel dnnl_train_kernels[] = {
    TN__DNNL_KERNEL("AveragePoolGrad", train_accepts_pool, train_average_pool),
    TN__DNNL_KERNEL("MaxPoolGrad", train_accepts_pool, train_max_pool),
    TN__DNNL_KERNEL("TransposedMatMul", tn__dnnl_matmul_accepts, tn__dnnl_matmul_flipped),
};

TN_KERNEL_LIBRARY(dnnl_train, "tenure");
