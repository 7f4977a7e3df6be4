/* pool_dnnl.c - pooling by oneDNN, over windows and over whole images, and the gradients.
 *
 * Averages that count padding are accepted only if every window ends inside the padding that the
 * attributes state, because ONNX does not count the padding that ceil_mode adds.
 *
 * oneDNN's maximum pool stores the window index of each maximum for its gradient. MaxPoolTrain
 * outputs these indices as a map (graph/rules/window.h), which MaxPoolMapGrad reads. MaxPoolGrad
 * has no map: it repeats the pool in scratch memory directly before the gradient, with the same
 * result.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/dnnl.h"
#include "graph/rules/window.h"

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

/* Whether every window contains an input element, which oneDNN requires. */
static bool pool_meets(const tn__dnnl_window *window) {
    for (uint32_t i = 0; i < window->spatial; i++) {
        int64_t reach = (window->kernel[i] - 1) * (window->dilation[i] + 1) + 1;
        if (window->begin[i] >= reach || window->end[i] >= reach) return false;
    }
    return true;
}

/* Reads the window of a pool from the attributes. `wide` is the larger operand, `narrow` the pooled
 * one. Errors: E_UNSUPPORTED (oneDNN cannot express the window). */
static tn_status pool_window(const tn_kernel_setup *setup, const tn_tensor *wide,
                             const tn_tensor *narrow, tn__dnnl_window *window) {
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(setup->op, "kernel_shape", &count);
    bool fits = kernel != NULL && count == wide->rank - 2 &&
                tn__dnnl_window_of(setup->op, wide, narrow, kernel, false, window) &&
                pool_meets(window);
    return fits ? TN_OK : TN_E_UNSUPPORTED;
}

static tn_status pool_average_kind(const tn_kernel_setup *setup, const tn__dnnl_window *window,
                                   dnnl_alg_kind_t *kind) {
    bool counts = tn__attr_int(setup->op, "count_include_pad", 0) != 0;
    *kind = counts ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
    return counts && !window->exact ? TN_E_UNSUPPORTED : TN_OK;
}

static tn_status pool_max(tn_kernel_setup *setup, tn__dnnl_work *work) {
    tn__dnnl_window window;
    TN_TRY(pool_window(setup, tn__setup_input(setup, 0), tn__setup_output(setup, 0), &window));
    return pool_build(setup, work, dnnl_pooling_max, &window);
}

static tn_status pool_average(tn_kernel_setup *setup, tn__dnnl_work *work) {
    dnnl_alg_kind_t kind;
    tn__dnnl_window window;
    TN_TRY(pool_window(setup, tn__setup_input(setup, 0), tn__setup_output(setup, 0), &window));
    TN_TRY(pool_average_kind(setup, &window, &kind));
    return pool_build(setup, work, kind, &window);
}

/* Builds a pool over a whole image. */
static tn_status pool_whole(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    tn__dnnl_window window = {.spatial = x->rank - 2};
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        window.kernel[i] = x->shape[i + 2];
        window.stride[i] = 1;
    }
    return pool_build(setup, work, (dnnl_alg_kind_t)setup->kernel->kind, &window);
}

/* --- gradients: dy, x -> dx; dy -> dx --- */

static bool pool_grad_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *x = tn__setup_input(setup, 1);
    const tn_tensor *dx = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && dy != NULL && dx != NULL && dx->rank >= 3 && dx->rank <= 5 &&
           dy->rank == dx->rank &&
           (x == NULL || (x->dtype == dx->dtype && x->rank == dx->rank && x->bytes == dx->bytes));
}

/* The forward and the backward primitive of a pool. */
typedef struct pool_primitives {
    dnnl_memory_desc_t x, dx, dy;
    dnnl_primitive_desc_t forward, backward;
} pool_primitives;

static tn_status pool_grad_choose(const tn__dnnl *library, const tn__dnnl_window *window,
                                  dnnl_alg_kind_t kind, pool_primitives *pool) {
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

/* Adds a step that repeats the pool in scratch memory, to get the indices that the gradient
 * needs. */
static tn_status pool_grad_again(tn__dnnl_work *work, const tn__dnnl *library,
                                 pool_primitives *pool, dnnl_memory_desc_t *winners,
                                 tn__dnnl_at *at) {
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

static tn_status pool_grad_build(tn__dnnl_work *work, const tn__dnnl *library,
                                 pool_primitives *pool, bool max) {
    dnnl_memory_desc_t winners;
    tn__dnnl_at at = {0};
    if (max) TN_TRY(pool_grad_again(work, library, pool, &winners, &at));
    dnnl_primitive_desc_t backward = pool->backward;
    pool->backward = NULL;
    TN_TRY(tn__dnnl_step(work, backward, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &pool->dy, TN__DNNL_IN(0)));
    if (max) TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WORKSPACE, &winners, at));
    return tn__dnnl_bind(work, DNNL_ARG_DIFF_SRC, &pool->dx, TN__DNNL_OUT(0));
}

static tn_status pool_grad_read(tn_kernel_setup *setup, tn__dnnl_work *work, bool max) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *dy = tn__setup_input(setup, 0), *dx = tn__setup_output(setup, 0);
    const tn_tensor *x = max ? tn__setup_input(setup, 1) : dx;
    dnnl_alg_kind_t kind = dnnl_pooling_max;
    tn__dnnl_window window;
    pool_primitives pool = {0};
    if (x == NULL) return TN_E_UNSUPPORTED;
    TN_TRY(pool_window(setup, dx, dy, &window));
    if (!max) TN_TRY(pool_average_kind(setup, &window, &kind));
    TN_TRY(tn__dnnl_desc(library, x, &pool.x));
    TN_TRY(tn__dnnl_desc(library, dx, &pool.dx));
    TN_TRY(tn__dnnl_desc(library, dy, &pool.dy));
    tn_status status = pool_grad_choose(library, &window, kind, &pool);
    if (status == TN_OK) status = pool_grad_build(work, library, &pool, max);
    if (pool.forward != NULL) library->dnnl_primitive_desc_destroy(pool.forward);
    if (pool.backward != NULL) library->dnnl_primitive_desc_destroy(pool.backward);
    return status;
}

static tn_status pool_grad_average(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return pool_grad_read(setup, work, false);
}
static tn_status pool_grad_max(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return pool_grad_read(setup, work, true);
}

/* --- pools with a map: x -> y, map; dy, map -> dx --- */

/* The map of a maximum pool and oneDNN's form of it. oneDNN's indices (`winners`) are one byte
 * each, in the format of y. A map with entries of 4 bits is packed from bytes in C order, which are
 * at the beginning of the scratch memory, and unpacked to them. */
typedef struct pool_grad_map {
    tn__dnnl_window window;
    pool_primitives pool;
    dnnl_memory_desc_t winners, plain;
    uint64_t outputs;
    bool packed; /* whether the entries of the map of maxima have 4 bits; otherwise they have 8 */
} pool_grad_map;

TN_WIDE static void pool_grad_pack(const uint8_t *winners, uint64_t count, uint8_t *map) {
    for (uint64_t i = 0; i < count / 2; i++)
        map[i] = (uint8_t)(winners[2 * i] | winners[2 * i + 1] << 4);
    if (count % 2 != 0) map[count / 2] = winners[count - 1];
}

TN_WIDE static void pool_grad_unpack(const uint8_t *map, uint64_t count, uint8_t *winners) {
    for (uint64_t i = 0; i < count / 2; i++) {
        winners[2 * i] = map[i] & 0xf;
        winners[2 * i + 1] = map[i] >> 4;
    }
    if (count % 2 != 0) winners[count - 1] = map[count / 2] & 0xf;
}

static bool pool_grad_accepts_map(const tn_kernel_setup *setup, const tn_tensor *wide,
                                  const tn_tensor *narrow, const tn_tensor *map) {
    return tn__dnnl_is_fit(wide) && tn__dnnl_is_fit(narrow) && map != NULL &&
           map->dtype == TN_UINT8 && wide->dtype == narrow->dtype && wide->rank >= 3 &&
           wide->rank <= 5 && narrow->rank == wide->rank && setup->op->input_count <= 2;
}
static bool pool_grad_accepts_ahead(const tn_kernel_setup *setup) {
    return pool_grad_accepts_map(setup, tn__setup_input(setup, 0), tn__setup_output(setup, 0),
                                 tn__setup_output(setup, 1));
}
static bool pool_grad_accepts_back(const tn_kernel_setup *setup) {
    return pool_grad_accepts_map(setup, tn__setup_output(setup, 0), tn__setup_input(setup, 0),
                                 tn__setup_input(setup, 1));
}

/* Sets all fields of `it` except `winners`. */
static tn_status pool_grad_read_map(const tn_kernel_setup *setup, const tn_tensor *wide,
                                    const tn_tensor *narrow, pool_grad_map *it) {
    const tn__dnnl *library = setup->library;
    dnnl_dims_t strides;
    uint64_t taps = 1;
    TN_TRY(pool_window(setup, wide, narrow, &it->window));
    for (uint32_t i = 0; i < it->window.spatial; i++)
        taps = tn__mul_sat(taps, (uint64_t)it->window.kernel[i]);
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

/* Sets `winners`. Errors: E_UNSUPPORTED (oneDNN needs more than a byte per index, because the
 * window has too many elements). */
static tn_status pool_grad_winners(const tn__dnnl *library, pool_grad_map *it,
                                   dnnl_primitive_desc_t of) {
    const dnnl_memory_desc_t *wants = tn__dnnl_wants(library, of, dnnl_query_workspace_md, 0);
    if (wants == NULL || wants->data_type != dnnl_u8) return TN_E_UNSUPPORTED;
    it->winners = *wants;
    return TN_OK;
}

/* Finds the memory of the indices as bytes in C order: the map itself, or scratch memory if the map
 * is packed. */
static tn_status pool_grad_bytes(tn__dnnl_work *work, const pool_grad_map *it, tn__dnnl_at map,
                                 tn__dnnl_at *at) {
    *at = map;
    return it->packed ? tn__dnnl_scratch(work, it->outputs, at) : TN_OK;
}

static tn_status pool_grad_build_ahead(tn__dnnl_work *work, const tn__dnnl *library,
                                       pool_grad_map *it) {
    dnnl_primitive_desc_t forward = it->pool.forward;
    tn__dnnl_at bytes, winners;
    TN_TRY(pool_grad_winners(library, it, forward));
    TN_TRY(pool_grad_bytes(work, it, TN__DNNL_OUT(1), &bytes));
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

static tn_status pool_grad_build_back(tn__dnnl_work *work, const tn__dnnl *library,
                                      pool_grad_map *it) {
    dnnl_primitive_desc_t backward = it->pool.backward;
    tn__dnnl_at bytes, winners;
    TN_TRY(pool_grad_winners(library, it, it->pool.forward));
    TN_TRY(pool_grad_bytes(work, it, TN__DNNL_IN(1), &bytes));
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

static tn_status pool_grad_build_map(tn_kernel_setup *setup, tn__dnnl_work *work, bool back) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *in = tn__setup_input(setup, 0), *out = tn__setup_output(setup, 0);
    pool_grad_map it = {0};
    tn_status status = pool_grad_read_map(setup, back ? out : in, back ? in : out, &it);
    if (status == TN_OK) status = pool_grad_choose(library, &it.window, dnnl_pooling_max, &it.pool);
    if (status == TN_OK)
        status = (back ? pool_grad_build_back : pool_grad_build_ahead)(work, library, &it);
    if (it.pool.forward != NULL) library->dnnl_primitive_desc_destroy(it.pool.forward);
    if (it.pool.backward != NULL) library->dnnl_primitive_desc_destroy(it.pool.backward);
    return status;
}
static tn_status pool_grad_map_ahead(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return pool_grad_build_map(setup, work, false);
}
static tn_status pool_grad_map_back(tn_kernel_setup *setup, tn__dnnl_work *work) {
    return pool_grad_build_map(setup, work, true);
}

static uint64_t pool_grad_map_taps(const tn_kernel_call *call) {
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(call->op, "kernel_shape", &count);
    uint64_t taps = 1;
    for (uint32_t i = 0; i < count; i++) taps *= (uint64_t)kernel[i];
    return taps;
}

static tn_status pool_grad_run_ahead(tn_kernel_call *call) {
    TN_TRY(tn__dnnl_run(call));
    if (tn__window_map_bits(pool_grad_map_taps(call)) == 4)
        pool_grad_pack(call->workspace, tn__operand_count(&call->outputs[0]),
                       call->outputs[1].data);
    return TN_OK;
}

static tn_status pool_grad_run_back(tn_kernel_call *call) {
    if (tn__window_map_bits(pool_grad_map_taps(call)) == 4)
        pool_grad_unpack(call->inputs[1].data, tn__operand_count(&call->inputs[0]),
                         call->workspace);
    return tn__dnnl_run(call);
}

#define POOL_MAP(in_type, in_accepts, in_build, in_run)                                            \
    {                                                                                              \
        .domain = "tenure", .type = in_type, .accepts = in_accepts, .prepare = tn__dnnl_prepare,   \
        .build = in_build, .run = in_run, .release = tn__dnnl_release, .formats = true             \
    }

static const tn_kernel pool_dnnl_kernels[] = {
    TN__DNNL_KERNEL("AveragePool", pool_accepts, pool_average),
    TN__DNNL_KERNEL_AS("GlobalAveragePool", pool_accepts, pool_whole,
                       .kind = dnnl_pooling_avg_exclude_padding),
    TN__DNNL_KERNEL_AS("GlobalMaxPool", pool_accepts, pool_whole, .kind = dnnl_pooling_max),
    TN__DNNL_KERNEL("MaxPool", pool_accepts, pool_max),
    TN__DNNL_OWN("AveragePoolGrad", pool_grad_accepts, pool_grad_average),
    TN__DNNL_OWN("MaxPoolGrad", pool_grad_accepts, pool_grad_max),
    POOL_MAP("MaxPoolMapGrad", pool_grad_accepts_back, pool_grad_map_back, pool_grad_run_back),
    POOL_MAP("MaxPoolTrain", pool_grad_accepts_ahead, pool_grad_map_ahead, pool_grad_run_ahead),
};

TN_KERNEL_LIBRARY(pool, "");
