/* train.c - gradients of pools, and products of transposed matrices, by oneDNN.
 *
 * The library's maximum pool remembers the index of each maximum in the forward pass. MaxPoolTrain
 * outputs these as a map (graph/rules/window.h), which MaxPoolMapGrad reads. MaxPoolGrad has no
 * map: the pool is repeated into scratch, right before its gradient, with the same result.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/dnnl.h"
#include "engine/kernels/dnnl/shared.h"
#include "graph/rules/window.h"

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

/* Repeats the pool for the indices that its gradient needs. */
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

/* --- pools with a map: x -> y, map; dy, map -> dx --- */

/* The library's winners are a byte each, and lie as y does. Entries of 4 bits are packed from, and
 * unpacked to, bytes in the order of the shape at the begin of the scratch. */
typedef struct train_map {
    tn__dnnl_window window;
    train_pool pool;
    dnnl_memory_desc_t winners, plain;
    uint64_t outputs;
    bool packed; /* 4 bits */
} train_map;

TN_WIDE static void train_pack(const uint8_t *winners, uint64_t count, uint8_t *map) {
    for (uint64_t i = 0; i < count / 2; i++)
        map[i] = (uint8_t)(winners[2 * i] | winners[2 * i + 1] << 4);
    if (count % 2 != 0) map[count / 2] = winners[count - 1];
}

TN_WIDE static void train_unpack(const uint8_t *map, uint64_t count, uint8_t *winners) {
    for (uint64_t i = 0; i < count / 2; i++) {
        winners[2 * i] = map[i] & 0xf;
        winners[2 * i + 1] = map[i] >> 4;
    }
    if (count % 2 != 0) winners[count - 1] = map[count / 2] & 0xf;
}

static bool train_accepts_map(const tn_kernel_setup *setup, const tn_tensor *wide,
                              const tn_tensor *narrow, const tn_tensor *map) {
    return tn__dnnl_is_fit(wide) && tn__dnnl_is_fit(narrow) && map != NULL &&
           map->dtype == TN_UINT8 && wide->dtype == narrow->dtype && wide->rank >= 3 &&
           wide->rank <= 5 && narrow->rank == wide->rank && setup->op->input_count <= 2;
}
static bool train_accepts_ahead(const tn_kernel_setup *setup) {
    return train_accepts_map(setup, tn__setup_input(setup, 0), tn__setup_output(setup, 0),
                             tn__setup_output(setup, 1));
}
static bool train_accepts_back(const tn_kernel_setup *setup) {
    return train_accepts_map(setup, tn__setup_output(setup, 0), tn__setup_input(setup, 0),
                             tn__setup_input(setup, 1));
}

/* Fills in all but `winners`. */
static tn_status train_read_map(const tn_kernel_setup *setup, const tn_tensor *wide,
                                const tn_tensor *narrow, train_map *it) {
    const tn__dnnl *library = setup->library;
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(setup->op, "kernel_shape", &count);
    dnnl_dims_t strides;
    uint64_t taps = 1;
    if (kernel == NULL || count != wide->rank - 2 ||
        !tn__dnnl_window_of(setup->op, wide, narrow, kernel, false, &it->window) ||
        !tn__dnnl_pool_meets(&it->window))
        return TN_E_UNSUPPORTED;
    for (uint32_t i = 0; i < count; i++) taps = tn__mul_sat(taps, (uint64_t)kernel[i]);
    it->packed = tn__window_map_bits(taps) == 4;
    it->outputs = narrow->bytes / (tn_dtype_bits(narrow->dtype) / 8);
    strides[narrow->rank - 1] = 1;
    for (uint32_t d = narrow->rank - 1; d-- > 0;)
        strides[d] = strides[d + 1] * narrow->shape[d + 1];
    TN_TRY(tn__dnnl_status(library->dnnl_memory_desc_init_by_strides(
        &it->plain, (int)narrow->rank, narrow->shape, dnnl_u8, strides)));
    TN_TRY(tn__dnnl_desc(library, wide, &it->pool.x));
    TN_TRY(tn__dnnl_desc(library, wide, &it->pool.dx));
    return tn__dnnl_desc(library, narrow, &it->pool.dy);
}

/* Windows with more taps than a byte can number have wider indices. */
static tn_status train_winners(const tn__dnnl *library, train_map *it, dnnl_primitive_desc_t of) {
    const dnnl_memory_desc_t *wants = tn__dnnl_wants(library, of, dnnl_query_workspace_md, 0);
    if (wants == NULL || wants->data_type != dnnl_u8) return TN_E_UNSUPPORTED;
    it->winners = *wants;
    return TN_OK;
}

/* Where bytes in the order of the shape are: the map itself, or the begin of the scratch. */
static tn_status train_bytes(tn__dnnl_work *work, const train_map *it, tn__dnnl_at map,
                             tn__dnnl_at *at) {
    *at = map;
    return it->packed ? tn__dnnl_scratch(work, it->outputs, at) : TN_OK;
}

static tn_status train_build_ahead(tn__dnnl_work *work, const tn__dnnl *library, train_map *it) {
    dnnl_primitive_desc_t forward = it->pool.forward;
    tn__dnnl_at bytes, winners;
    TN_TRY(train_winners(library, it, forward));
    TN_TRY(train_bytes(work, it, TN__DNNL_OUT(1), &bytes));
    bool same = library->dnnl_memory_desc_equal(&it->winners, &it->plain) != 0;
    winners = bytes;
    if (!same)
        TN_TRY(tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(&it->winners), &winners));
    it->pool.forward = NULL;
    TN_TRY(tn__dnnl_step(work, forward, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &it->pool.x, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &it->pool.dy, TN__DNNL_OUT(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, &it->winners, winners));
    return same ? TN_OK : tn__dnnl_reorder(work, &it->winners, winners, &it->plain, bytes);
}

static tn_status train_build_back(tn__dnnl_work *work, const tn__dnnl *library, train_map *it) {
    dnnl_primitive_desc_t backward = it->pool.backward;
    tn__dnnl_at bytes, winners;
    TN_TRY(train_winners(library, it, it->pool.forward));
    TN_TRY(train_bytes(work, it, TN__DNNL_IN(1), &bytes));
    winners = bytes;
    if (library->dnnl_memory_desc_equal(&it->winners, &it->plain) == 0) {
        TN_TRY(tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(&it->winners), &winners));
        TN_TRY(tn__dnnl_reorder(work, &it->plain, bytes, &it->winners, winners));
    }
    it->pool.backward = NULL;
    TN_TRY(tn__dnnl_step(work, backward, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &it->pool.dy, TN__DNNL_IN(0)));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, &it->winners, winners));
    return tn__dnnl_bind(work, DNNL_ARG_DIFF_SRC, &it->pool.dx, TN__DNNL_OUT(0));
}

static tn_status train_prepare_map(tn_kernel_setup *setup, const tn_tensor *wide,
                                   const tn_tensor *narrow, bool back) {
    const tn__dnnl *library = setup->library;
    tn__dnnl_work *work;
    train_map it = {0};
    TN_TRY(tn__dnnl_begin(setup, &work));
    tn_status status = train_read_map(setup, wide, narrow, &it);
    if (status == TN_OK)
        status = train_choose_pool(library, &it.window, dnnl_pooling_max, &it.pool);
    if (status == TN_OK)
        status =
            back ? train_build_back(work, library, &it) : train_build_ahead(work, library, &it);
    if (it.pool.forward != NULL) library->dnnl_primitive_desc_destroy(it.pool.forward);
    if (it.pool.backward != NULL) library->dnnl_primitive_desc_destroy(it.pool.backward);
    return tn__dnnl_end(setup, work, status);
}
static tn_status train_prepare_ahead(tn_kernel_setup *setup) {
    return train_prepare_map(setup, tn__setup_input(setup, 0), tn__setup_output(setup, 0), false);
}
static tn_status train_prepare_back(tn_kernel_setup *setup) {
    return train_prepare_map(setup, tn__setup_output(setup, 0), tn__setup_input(setup, 0), true);
}

static uint64_t train_map_taps(const tn_kernel_call *call) {
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(call->op, "kernel_shape", &count);
    uint64_t taps = 1;
    for (uint32_t i = 0; i < count; i++) taps *= (uint64_t)kernel[i];
    return taps;
}

static tn_status train_run_ahead(tn_kernel_call *call) {
    TN_TRY(tn__dnnl_run(call));
    if (tn__window_map_bits(train_map_taps(call)) == 4)
        train_pack(call->workspace, tn__operand_count(&call->outputs[0]), call->outputs[1].data);
    return TN_OK;
}

static tn_status train_run_back(tn_kernel_call *call) {
    if (tn__window_map_bits(train_map_taps(call)) == 4)
        train_unpack(call->inputs[1].data, tn__operand_count(&call->inputs[0]), call->workspace);
    return tn__dnnl_run(call);
}

#define TRAIN_MAP(in_type, in_accepts, in_prepare, in_run)                                         \
    {                                                                                              \
        .type = in_type, .accepts = in_accepts, .prepare = in_prepare, .run = in_run,              \
        .release = tn__dnnl_release, .formats = true                                               \
    }

static const tn_kernel dnnl_train_kernels[] = {
    TN__DNNL_KERNEL("AveragePoolGrad", train_accepts_pool, train_average_pool),
    TN__DNNL_KERNEL("MaxPoolGrad", train_accepts_pool, train_max_pool),
    TRAIN_MAP("MaxPoolMapGrad", train_accepts_back, train_prepare_back, train_run_back),
    TRAIN_MAP("MaxPoolTrain", train_accepts_ahead, train_prepare_ahead, train_run_ahead),
    TN__DNNL_KERNEL("TransposedMatMul", tn__dnnl_matmul_accepts, tn__dnnl_matmul_flipped),
};

TN_KERNEL_LIBRARY(dnnl_train, "tenure");
