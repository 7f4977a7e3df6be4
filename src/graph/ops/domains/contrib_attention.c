/* contrib_attention.c - attention of ONNX Runtime's domain com.microsoft: the operators that its
 * optimizer and the model builder of onnxruntime-genai write, with caches and positions.
 *
 * One buffer may serve as "past" and "present" cache: the operator then appends the new keys and
 * values to those in the buffer, so outputs 1 and 2 may overwrite the pasts if the bytes are equal.
 * Hidden sizes are [batch, length, heads * size]; caches are [batch, heads, length, size]. Source:
 * docs/ContribOperators.md and core/graph/contrib_ops/bert_defs.cc of ONNX Runtime, 2026.
 */
#include "graph/gradients/decompose.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

enum { CONTRIB_HEADS_MAX = 1 << 24 };

static tn_status contrib_heads(tn_infer *infer, const char *name, int64_t *heads) {
    return tn__attr_count(infer, name, 0, 1, CONTRIB_HEADS_MAX, heads);
}

/* Operations of attention over `keys` keys: two multiply-adds per score and element of a head,
 * hence output elements x keys x 4. */
static uint64_t contrib_flops_over(tn_infer *infer, int64_t keys) {
    if (keys == TN_DIM_UNKNOWN || keys < 0) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(tn__output(infer, 0)), tn__mul_sat(4, (uint64_t)keys));
}

/* --- Attention, QAttention: one weight matrix gives queries, keys and values --- */

/* Sets the shapes of self-attention; `past_at` is the index of the input with the past. */
static tn_status contrib_self(tn_infer *infer, uint32_t past_at, tn_dtype dtype) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    const tn_tensor *past = tn__input(infer, past_at);
    uint32_t count;
    const int64_t *sizes = tn__attr_ints(infer->op, "qkv_hidden_sizes", &count);
    int64_t heads;
    TN_TRY(contrib_heads(infer, "num_heads", &heads));
    TN_TRY(tn__rank_between(infer, 0, 3, 3));
    TN_TRY(tn__rank_between(infer, 1, 2, 2));
    TN_TRY(tn__rank_between(infer, past_at, 5, 5));
    TN_TRY(tn__extents_agree(infer, 0, 2, 1, 0));
    if (sizes != NULL && (count != 3 || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1))
        return tn__infer_fail(infer, "attribute qkv_hidden_sizes needs three positive values");
    int64_t columns = tn__extent_or(tn__extent(w, 1), tn__extent(tn__input(infer, 2), 0));
    int64_t hidden = sizes != NULL ? sizes[2] : tn__extent_div(columns, 3);
    int64_t size = tn__extent_or(tn__extent_div(sizes != NULL ? sizes[1] : hidden, heads),
                                 tn__extent(past, 4));
    bool shared = tn__attr_int(infer->op, "past_present_share_buffer", 0) != 0;
    int64_t length = tn__extent(x, 1), before = past != NULL ? tn__extent(past, 3) : 0;
    int64_t y[3] = {tn__extent(x, 0), length, hidden};
    int64_t present[5] = {2, tn__extent(x, 0), heads,
                          shared && past != NULL ? before : tn__extent_add(before, length), size};
    TN_TRY(tn__set_output(infer, 0, dtype, 3, y));
    return tn__set_output(infer, 1, past != NULL ? past->dtype : dtype, 5, present);
}

static tn_status contrib_shape_attention(tn_infer *infer) {
    return contrib_self(infer, 4, tn__input(infer, 0)->dtype);
}
static tn_status contrib_shape_qattention(tn_infer *infer) {
    return contrib_self(infer, 8, tn__input(infer, 3)->dtype);
}
static tn_status contrib_shape_masked_self(tn_infer *infer) {
    const tn_tensor *past = tn__input(infer, 4);
    TN_TRY(contrib_self(infer, 4, tn__input(infer, 0)->dtype));
    return past != NULL ? tn__set_like(infer, 1, past) : TN_OK;
}

static uint64_t contrib_inplace_past_4(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 ? 1u << 4 : 0;
}
static uint64_t contrib_inplace_past_8(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 ? 1u << 8 : 0;
}

/* Operations of the projection and of the scores. */
static uint64_t contrib_flops_self(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    if (!tn__shape_known(x) || !tn__shape_known(w) || x->rank != 3 || w->rank != 2)
        return TN_SIZE_UNKNOWN;
    uint64_t rows = tn__mul_sat((uint64_t)x->shape[0], (uint64_t)x->shape[1]);
    uint64_t projection = tn__mul_sat(tn__mul_sat(2, rows), tn__elements(w));
    uint64_t scores = contrib_flops_over(infer, x->shape[1]);
    return scores == TN_SIZE_UNKNOWN ? scores : tn__add_sat(projection, scores);
}

/* --- MultiHeadAttention: queries, keys and values are separate inputs --- */

typedef struct contrib_multi_extents {
    int64_t batch, queries, keys, heads, size, value_size;
} contrib_multi_extents;

static tn_status contrib_read_multi(tn_infer *infer, contrib_multi_extents *dims) {
    const tn_tensor *q = tn__input(infer, 0), *k = tn__input(infer, 1), *v = tn__input(infer, 2);
    TN_TRY(contrib_heads(infer, "num_heads", &dims->heads));
    TN_TRY(tn__rank_between(infer, 0, 3, 5));
    TN_TRY(tn__rank_between(infer, 1, 3, 5));
    TN_TRY(tn__rank_between(infer, 2, 3, 4));
    dims->batch = tn__extent(q, 0);
    dims->queries = tn__extent(q, 1);
    bool packed = tn__rank_known(q) && q->rank == 5;
    dims->size = packed ? tn__extent(q, 4) : tn__extent_div(tn__extent(q, 2), dims->heads);
    dims->keys = dims->queries;
    dims->value_size = dims->size;
    if (k == NULL) return TN_OK;
    if (!tn__rank_known(k)) {
        dims->keys = dims->value_size = TN_DIM_UNKNOWN;
        return TN_OK;
    }
    dims->keys = tn__extent(k, k->rank == 4 ? 2 : 1);
    if (v != NULL)
        dims->value_size = tn__rank_known(v) && v->rank == 4
                               ? tn__extent(v, 3)
                               : tn__extent_div(tn__extent(v, 2), dims->heads);
    return TN_OK;
}

/* Sets the shapes of the caches after output 0. `shared`: the caches are the buffers of the
 * pasts. */
static tn_status contrib_set_caches(tn_infer *infer, uint32_t past_at, bool shared,
                                    const int64_t *key, const int64_t *value, tn_dtype dtype) {
    for (uint32_t i = 0; i < 2; i++) {
        const tn_tensor *past = tn__input(infer, past_at + i);
        TN_TRY(tn__rank_between(infer, past_at + i, 4, 4));
        if (shared && past != NULL)
            TN_TRY(tn__set_like(infer, 1 + i, past));
        else
            TN_TRY(tn__set_output(infer, 1 + i, past != NULL ? past->dtype : dtype, 4,
                                  i == 0 ? key : value));
    }
    return TN_OK;
}

static tn_status contrib_shape_multi(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *past = tn__input(infer, 6);
    contrib_multi_extents dims;
    TN_TRY(contrib_read_multi(infer, &dims));
    int64_t total = past != NULL ? tn__extent_add(tn__extent(past, 2), dims.keys) : dims.keys;
    int64_t y[3] = {dims.batch, dims.queries, tn__extent_mul(dims.heads, dims.value_size)};
    int64_t key[4] = {dims.batch, dims.heads, total, dims.size};
    int64_t value[4] = {dims.batch, dims.heads, total, dims.value_size};
    int64_t scores[4] = {dims.batch, dims.heads, dims.queries, total};
    TN_TRY(tn__set_output(infer, 0, q->dtype, 3, y));
    TN_TRY(contrib_set_caches(infer, 6, tn__input(infer, 8) != NULL, key, value, q->dtype));
    return tn__set_output(infer, 3, q->dtype, 4, scores);
}

static uint64_t contrib_flops_multi(tn_infer *infer) {
    tn_error unused;
    tn_infer quiet = *infer;
    contrib_multi_extents dims;
    quiet.error = &unused;
    if (contrib_read_multi(&quiet, &dims) != TN_OK) return TN_SIZE_UNKNOWN;
    const tn_tensor *past = tn__input(infer, 6);
    return contrib_flops_over(infer, past != NULL ? tn__extent_add(tn__extent(past, 2), dims.keys)
                                                  : dims.keys);
}

/* Sets the shapes of one step of a decoder. If there is an input `value`, it decides the hidden
 * size. */
static tn_status contrib_shape_masked_multi(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *v = tn__input(infer, 2), *past = tn__input(infer, 5);
    int64_t heads;
    TN_TRY(contrib_heads(infer, "num_heads", &heads));
    TN_TRY(tn__rank_between(infer, 0, 3, 5));
    bool packed = tn__rank_known(q) && q->rank == 5, flat = tn__rank_known(v) && v->rank == 3;
    int64_t size = packed ? tn__extent(q, 4) : tn__extent_div(tn__extent(q, 2), heads);
    int64_t value_size = v == NULL ? size
                         : flat    ? tn__extent_div(tn__extent(v, 2), heads)
                                   : tn__extent(v, 3);
    bool shared = tn__attr_int(infer->op, "past_present_share_buffer", 0) != 0;
    int64_t total = tn__extent_add(tn__extent(past, 2), 1);
    int64_t y[3] = {tn__extent(q, 0), tn__extent(q, 1), tn__extent_mul(heads, value_size)};
    int64_t key[4] = {tn__extent(q, 0), heads, total, size};
    int64_t value[4] = {tn__extent(q, 0), heads, total, value_size};
    TN_TRY(tn__set_output(infer, 0, q->dtype, 3, y));
    TN_TRY(contrib_set_caches(infer, 5, shared, key, value, q->dtype));
    return tn__set_dtype(infer, 3, q->dtype);
}

static uint64_t contrib_inplace_past_6(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 || output == 2 ? 1u << (5 + output) : 0;
}
static uint64_t contrib_inplace_past_5(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 || output == 2 ? 1u << (4 + output) : 0;
}
static uint64_t contrib_inplace_past_3(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 || output == 2 ? 1u << (2 + output) : 0;
}

/* --- GroupQueryAttention: several heads of queries share a head of keys and values --- */

typedef struct contrib_group_extents {
    int64_t batch, queries, heads, groups, size, past, total;
    bool packed, bound; /* bound: `total` is an upper bound */
} contrib_group_extents;

/* Reads the extents of grouped attention. Exporters compute the number of keys from the extents of
 * a mask, as a value. If it is unknown, the upper bound is the past plus all new keys. */
static tn_status contrib_read_group(tn_infer *infer, contrib_group_extents *dims) {
    const tn_tensor *q = tn__input(infer, 0), *past = tn__input(infer, 3);
    uint32_t count;
    const int64_t *total = tn__value_ints(infer, 6, &count);
    *dims = (contrib_group_extents){.packed = tn__input(infer, 1) == NULL};
    TN_TRY(contrib_heads(infer, "num_heads", &dims->heads));
    TN_TRY(contrib_heads(infer, "kv_num_heads", &dims->groups));
    if (dims->heads % dims->groups != 0)
        return tn__infer_fail(infer, "%lld query heads are no multiple of %lld key heads",
                              (long long)dims->heads, (long long)dims->groups);
    for (uint32_t i = 0; i < 3; i++) TN_TRY(tn__rank_between(infer, i, 3, 3));
    for (uint32_t i = 3; i < 5; i++) TN_TRY(tn__rank_between(infer, i, 4, 4));
    dims->batch = tn__extent(q, 0);
    dims->queries = tn__extent(q, 1);
    int64_t rows = dims->packed ? dims->heads + 2 * dims->groups : dims->heads;
    dims->size = tn__extent_or(tn__extent_div(tn__extent(q, 2), rows),
                               tn__extent_div(tn__extent(tn__input(infer, 1), 2), dims->groups));
    dims->past = past != NULL ? tn__extent(past, 2) : 0;
    int64_t sum = tn__extent_add(dims->past, dims->queries);
    bool window = tn__attr_int(infer->op, "sliding_window_cache", 0) != 0;
    if (window && past != NULL)
        dims->total = dims->past;
    else if (total != NULL && count == 1 && dims->past != TN_DIM_UNKNOWN && total[0] >= 0)
        dims->total = total[0] > dims->past ? total[0] : dims->past;
    else
        dims->total = sum, dims->bound = past != NULL;
    return TN_OK;
}

static tn_status contrib_shape_group(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *past = tn__input(infer, 3);
    contrib_group_extents dims;
    TN_TRY(contrib_read_group(infer, &dims));
    int64_t y[3] = {dims.batch, dims.queries, tn__extent_mul(dims.heads, dims.size)};
    int64_t size = past != NULL ? tn__extent_or(tn__extent(past, 3), dims.size) : dims.size;
    int64_t cache[4] = {dims.batch, dims.groups, dims.total, size};
    int64_t scores[4] = {dims.batch, dims.heads, dims.queries, dims.total};
    TN_TRY(tn__set_output(infer, 0, q->dtype, 3, y));
    for (uint32_t i = 1; i < 3; i++) {
        const tn_tensor *before = tn__input(infer, 2 + i);
        TN_TRY(tn__set_output(infer, i, before != NULL ? before->dtype : q->dtype, 4, cache));
        if (dims.bound && dims.total != TN_DIM_UNKNOWN) tn__set_bound_axis(infer, i, 2);
    }
    return tn__set_output(infer, 3, q->dtype, 4, scores);
}

static uint64_t contrib_flops_group(tn_infer *infer) {
    tn_error unused;
    tn_infer quiet = *infer;
    contrib_group_extents dims;
    quiet.error = &unused;
    if (contrib_read_group(&quiet, &dims) != TN_OK) return TN_SIZE_UNKNOWN;
    return contrib_flops_over(infer, dims.total);
}

/* Sets the shapes of SparseAttention; its caches share their buffers with the pasts. */
static tn_status contrib_shape_sparse(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0);
    int64_t heads, groups;
    TN_TRY(contrib_heads(infer, "num_heads", &heads));
    TN_TRY(contrib_heads(infer, "kv_num_heads", &groups));
    TN_TRY(tn__rank_between(infer, 0, 3, 3));
    int64_t rows = tn__input(infer, 1) == NULL ? heads + 2 * groups : heads;
    int64_t y[3] = {tn__extent(q, 0), tn__extent(q, 1),
                    tn__extent_mul(heads, tn__extent_div(tn__extent(q, 2), rows))};
    TN_TRY(tn__set_output(infer, 0, q->dtype, 3, y));
    for (uint32_t i = 1; i < 3; i++)
        if (tn__input(infer, 2 + i) != NULL)
            TN_TRY(tn__set_like(infer, i, tn__input(infer, 2 + i)));
    return TN_OK;
}

/* --- attention over packed batches: the tokens of all sequences follow each other --- */

static tn_status contrib_shape_packed(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    uint32_t count;
    const int64_t *sizes = tn__attr_ints(infer->op, "qkv_hidden_sizes", &count);
    TN_TRY(tn__rank_between(infer, 0, 2, 2));
    TN_TRY(tn__rank_between(infer, 1, 2, 2));
    int64_t y[2] = {tn__extent(x, 0),
                    sizes != NULL && count == 3 ? sizes[2] : tn__extent_div(tn__extent(w, 1), 3)};
    return tn__set_output(infer, 0, x->dtype, 2, y);
}

static tn_status contrib_shape_packed_multi(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *v = tn__input(infer, 2);
    TN_TRY(tn__rank_between(infer, 0, 2, 4));
    bool packed = tn__rank_known(q) && q->rank == 4;
    int64_t hidden = packed      ? tn__extent_mul(tn__extent(q, 1), tn__extent(q, 3))
                     : v != NULL ? tn__extent(v, 1)
                                 : tn__extent(q, 1);
    return tn__set_output(infer, 0, q->dtype, 2, (int64_t[]){tn__extent(q, 0), hidden});
}

static tn_status contrib_shape_paged(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0);
    int64_t heads, groups;
    TN_TRY(contrib_heads(infer, "num_heads", &heads));
    TN_TRY(contrib_heads(infer, "kv_num_heads", &groups));
    TN_TRY(tn__rank_between(infer, 0, 2, 2));
    int64_t rows = tn__input(infer, 1) == NULL ? heads + 2 * groups : heads;
    int64_t hidden = tn__extent_mul(heads, tn__extent_div(tn__extent(q, 1), rows));
    TN_TRY(tn__set_output(infer, 0, q->dtype, 2, (int64_t[]){tn__extent(q, 0), hidden}));
    for (uint32_t i = 1; i < 3; i++) {
        if (tn__input(infer, 2 + i) == NULL)
            return tn__infer_fail(infer, "input %u, a cache, is omitted", 2 + i);
        TN_TRY(tn__set_like(infer, i, tn__input(infer, 2 + i)));
    }
    return TN_OK;
}

/* Outputs 1 and 2, the caches, are by definition views of the input caches. */
static tn_view contrib_view_paged(tn_infer *infer, uint32_t output) {
    if (output != 1 && output != 2) return tn__no_view;
    tn_view view = tn__view_input(infer, 2 + output, 0);
    view.must = true;
    return view;
}

/* Sets the shape of DecoderAttention: query [S, B, H]. The caches grow or are absent, so only their
 * type is set. */
static tn_status contrib_shape_decoder(tn_infer *infer) {
    TN_TRY(tn__set_like(infer, 0, tn__input(infer, 0)));
    for (uint32_t i = 1; i < 3; i++) TN_TRY(tn__set_dtype(infer, i, tn__input(infer, 0)->dtype));
    return TN_OK;
}

/* --- positions --- */

static tn_status contrib_shape_rotary(tn_infer *infer) {
    int64_t heads, rotated;
    TN_TRY(tn__rank_between(infer, 0, 2, 4)); /* packed batches have shape [tokens, hidden] */
    TN_TRY(tn__attr_count(infer, "num_heads", 0, 0, CONTRIB_HEADS_MAX, &heads));
    TN_TRY(tn__attr_count(infer, "rotary_embedding_dim", 0, 0, INT32_MAX, &rotated));
    if (rotated > 0 && heads == 0)
        return tn__infer_fail(infer,
                              "attribute num_heads is missing; rotary_embedding_dim needs it");
    return tn__shape_first(infer);
}

static tn_status contrib_shape_gemma(tn_infer *infer) {
    TN_TRY(tn__set_like(infer, 0, tn__input(infer, 1)));
    return tn__set_like(infer, 1, tn__input(infer, 3));
}

/* Sets the shape of a relative position bias: a table [buckets, heads] and two lengths give [1,
 * heads, queries, keys]. */
static tn_status contrib_shape_relative(tn_infer *infer) {
    const tn_tensor *table = tn__input(infer, 0);
    int64_t shape[4] = {1, tn__extent(table, 1), TN_DIM_UNKNOWN, TN_DIM_UNKNOWN};
    for (uint32_t i = 1; i < 3; i++) {
        uint32_t count;
        const int64_t *length = tn__value_ints(infer, i, &count);
        if (length != NULL && count == 1) shape[1 + i] = length[0];
    }
    return tn__set_output(infer, 0, table->dtype, 4, shape);
}

static tn_status contrib_shape_gated_relative(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *bias = tn__input(infer, 2);
    int64_t heads, length = tn__extent(bias, 2);
    TN_TRY(contrib_heads(infer, "num_heads", &heads));
    int64_t batch =
        tn__rank_known(x) && x->rank == 3 ? x->shape[0] : tn__extent(tn__input(infer, 6), 0);
    return tn__set_output(infer, 0, x->dtype, 4, (int64_t[]){batch, heads, length, length});
}

/* --- recurrences like those of ONNX, with additional options --- */

/* Sets the shape of a state. If the attribute `state_window` W is above 0, it holds the states of
 * the last W tokens along a leading axis. */
static tn_status contrib_set_state(tn_infer *infer, tn_dtype dtype, uint32_t rank,
                                   const int64_t *state) {
    int64_t window, shape[6];
    TN_TRY(tn__attr_count(infer, "state_window", 0, 0, INT32_MAX, &window));
    if (window == 0) return tn__set_output(infer, 1, dtype, rank, state);
    shape[0] = window;
    for (uint32_t d = 0; d < rank; d++) shape[d + 1] = state[d];
    return tn__set_output(infer, 1, dtype, rank + 1, shape);
}

static tn_status contrib_shape_causal(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1), *past = tn__input(infer, 3);
    int64_t dims, dilation;
    TN_TRY(tn__attr_count(infer, "ndim", 1, 1, 3, &dims));
    TN_TRY(tn__attr_count(infer, "dilation", 1, 1, INT32_MAX, &dilation));
    TN_TRY(tn__rank_between(infer, 0, (uint32_t)dims + 2, (uint32_t)dims + 2));
    TN_TRY(tn__shape_first(infer));
    tn_dtype dtype = past != NULL ? past->dtype : x->dtype;
    bool last = tn__attr_int(infer->op, "channels_last", 0) != 0;
    /* with several spatial dimensions the shape of the state is not documented, so it stays
     * unknown */
    if (dims != 1) return tn__set_dtype(infer, 1, dtype);
    int64_t length = tn__extent_mul(tn__extent_add(tn__extent(w, -1), -1), dilation);
    int64_t channels = tn__extent(x, last ? 2 : 1);
    int64_t state[3] = {tn__extent(x, 0), last ? length : channels, last ? channels : length};
    return contrib_set_state(infer, dtype, 3, state);
}

static tn_status contrib_shape_linear(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *k = tn__input(infer, 1), *v = tn__input(infer, 2);
    const tn_tensor *past = tn__input(infer, 3);
    int64_t heads, groups;
    for (uint32_t i = 0; i < 3; i++) TN_TRY(tn__rank_between(infer, i, 3, 3));
    TN_TRY(contrib_heads(infer, "q_num_heads", &heads));
    TN_TRY(contrib_heads(infer, "kv_num_heads", &groups));
    int64_t size = tn__extent_div(tn__extent(k, 2), groups);
    int64_t value_size = tn__extent_div(tn__extent(v, 2), groups);
    int64_t most =
        /* the number of heads of the values, if they have more heads than the queries */
        heads > groups ? heads : groups;
    int64_t y[3] = {tn__extent(q, 0), tn__extent(q, 1), tn__extent_mul(most, value_size)};
    int64_t state[4] = {tn__extent(q, 0), groups, tn__extent_or(size, tn__extent(past, 2)),
                        tn__extent_or(value_size, tn__extent(past, 3))};
    TN_TRY(tn__set_output(infer, 0, q->dtype, 3, y));
    return contrib_set_state(infer, past != NULL ? past->dtype : q->dtype, 4, state);
}

/* Sets the shapes of a delta rule: q, k [tokens, Hq, D] and v [tokens, Hv, Dv], or [batch, length,
 * ...] in place of tokens. The state is [batch, Hv, Dv, D] and always float32. */
static tn_status contrib_shape_delta(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *v = tn__input(infer, 2),
                    *state = tn__input(infer, 6);
    int64_t capacity;
    TN_TRY(tn__rank_between(infer, 0, 3, 4));
    TN_TRY(tn__attr_count(infer, "state_update_capacity", 0, 0, 8, &capacity));
    if (!tn__rank_known(q)) return tn__set_dtype(infer, 0, q->dtype);
    for (uint32_t i = 1; i < 3; i++) TN_TRY(tn__rank_between(infer, i, q->rank, q->rank));
    int64_t heads = tn__extent(q, -2), values = tn__extent(v, -2), y[4], batch;
    bool known = heads != TN_DIM_UNKNOWN && values != TN_DIM_UNKNOWN;
    for (uint32_t d = 0; d + 2 < q->rank; d++) y[d] = q->shape[d];
    y[q->rank - 2] = !known ? TN_DIM_UNKNOWN : heads > values ? heads : values;
    y[q->rank - 1] = tn__extent(v, -1);
    TN_TRY(tn__set_output(infer, 0, q->dtype, q->rank, y));
    batch = state != NULL ? tn__extent(state, 0)
                          : tn__extent_add(tn__extent(tn__input(infer, 3), 0), -1);
    int64_t last[4] = {batch, values, tn__extent(v, -1), tn__extent(q, -1)};
    TN_TRY(tn__set_output(infer, 1, TN_FLOAT32, 4, last));
    int64_t keys = tn__extent_mul(tn__extent(tn__input(infer, 1), -2), tn__extent(q, -1));
    int64_t row = tn__extent_add(values, tn__extent_add(keys, tn__extent_mul(values, last[2])));
    return tn__set_output(infer, 2, TN_FLOAT32, 2,
                          (int64_t[]){batch, tn__extent_mul(capacity, row)});
}

static uint64_t contrib_inplace_past_delta(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 ? 1u << 6 : 0;
}
static uint64_t contrib_inplace_state(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 ? 1u << 3 : 0;
}

/* clang-format off */
#define CONTRIB(name, least, most, outputs, rule) .type = #name, .inputs_min = least, \
    .inputs_max = most, .outputs_max = outputs, .shape = rule
static const tn_op_rule contrib_attention_rules[] = {
    {CONTRIB(Attention, 2, 7, 2, contrib_shape_attention), .flops = contrib_flops_self,
     .inplace_of = contrib_inplace_past_4, .weights = 2 | 4, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(CausalConvWithState, 2, 6, 2, contrib_shape_causal), .weights = 2 | 4,
     .flags = TN_RULE_CONV_LIKE},
    {CONTRIB(DecoderAttention, 5, 12, 3, contrib_shape_decoder), .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(DecoderMaskedMultiHeadAttention, 1, 11, 4, contrib_shape_masked_multi),
     .inplace_of = contrib_inplace_past_5, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(DecoderMaskedSelfAttention, 2, 9, 2, contrib_shape_masked_self),
     .inplace_of = contrib_inplace_past_4, .weights = 2 | 4, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(GatedDeltaNet, 3, 12, 3, contrib_shape_delta), .inplace_of = contrib_inplace_past_delta,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(GatedRelativePositionBias, 6, 7, 1, contrib_shape_gated_relative)},
    {CONTRIB(GemmaRotaryEmbedding, 5, 5, 2, contrib_shape_gemma), .flops_per = 3},
    {CONTRIB(GroupQueryAttention, 1, 20, 4, contrib_shape_group), .flops = contrib_flops_group,
     .inplace_of = contrib_inplace_past_3, .monotone = 1u << 6, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(LinearAttention, 3, 6, 2, contrib_shape_linear), .inplace_of = contrib_inplace_state,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(LongformerAttention, 1, 8, 1, tn__shape_first), .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MRotaryEmbedding, 4, 4, 1, contrib_shape_rotary), .flops_per = 3, .inplace = 1},
    {CONTRIB(MultiHeadAttention, 1, 10, 4, contrib_shape_multi), .flops = contrib_flops_multi,
     .inplace_of = contrib_inplace_past_6, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(PackedAttention, 3, 6, 1, contrib_shape_packed), .weights = 2 | 4,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(PackedMultiHeadAttention, 1, 7, 1, contrib_shape_packed_multi), .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(PagedAttention, 1, 24, 3, contrib_shape_paged), .changes = 8 | 16,
     .view = contrib_view_paged, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(QAttention, 5, 9, 2, contrib_shape_qattention), .flops = contrib_flops_self,
     .inplace_of = contrib_inplace_past_8, .weights = 2 | 4, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(RelativePositionBias, 3, 3, 1, contrib_shape_relative), .monotone = 2 | 4},
    {CONTRIB(RotaryEmbedding, 4, 4, 1, contrib_shape_rotary), .flops_per = 3, .inplace = 1,
     .no_gradient = 4 | 8, .decompose = tn__decompose_contrib_rotary},
    {CONTRIB(SparseAttention, 1, 12, 3, contrib_shape_sparse),
     .inplace_of = contrib_inplace_past_3, .flags = TN_RULE_MATMUL_LIKE},
};
/* clang-format on */

TN_OP_FAMILY(contrib_attention, "com.microsoft");
