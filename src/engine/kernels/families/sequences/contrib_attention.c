/* contrib_attention.c - attention operators of ONNX Runtime's domain com.microsoft in plain loops
 * (attend.h), in float32: GroupQueryAttention, MultiHeadAttention, Attention, QAttention,
 * RotaryEmbedding.
 *
 * If the plan has placed a present KV cache at the address of its past, only the new rows are
 * written. Options that no model builder uses are refused, with their name, before anything is
 * computed.
 * Source: docs/ContribOperators.md of ONNX Runtime 1.30. Details that it does not state were
 * determined by running ONNX Runtime.
 */
#include <math.h>

#include "engine/kernels/loops/attend.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/loops/product.h"

static tn_status contrib_lacks(const tn_kernel_call *call, const char *what) {
    return tn__call_fail(call, TN_E_UNSUPPORTED, "%s is not supported", what);
}

static float contrib_scale(const tn_op *op, uint64_t size) {
    double scale = tn__attr_float(op, "scale", 0);
    return (float)(scale != 0 ? scale : 1 / sqrt((double)(size > 0 ? size : 1)));
}

/* Describes the part of attention_bias, [B or 1, H or 1, S, T], that is for one batch entry. */
static tn_status contrib_bias(const tn_kernel_call *call, uint32_t input, uint64_t b,
                              const uint64_t extents[4], tn__attend_bias *bias) {
    const tn_operand *x = tn__call_input(call, input);
    *bias = (tn__attend_bias){0};
    if (x == NULL) return TN_OK;
    if (x->rank != 4) return tn__call_bad_shape(call, input);
    for (uint32_t d = 0; d < 4; d++)
        if ((uint64_t)x->shape[d] != extents[d] && (d > 1 || x->shape[d] != 1))
            return tn__call_bad_shape(call, input);
    uint64_t plane = extents[2] * extents[3];
    uint64_t entry = x->shape[0] == 1 ? 0 : b * (uint64_t)x->shape[1] * plane;
    *bias = (tn__attend_bias){.data = (const float *)x->data + entry,
                              .head = x->shape[1] == 1 ? 0 : plane,
                              .row = extents[3],
                              .key = 1,
                              .keys = extents[3]};
    return TN_OK;
}

/* --- RotaryEmbedding: its inputs have another order than in ONNX, and one start position may serve
 * all batch entries --- */

/* Finds the row of the cosine and sine tables for token t of batch entry b. */
static tn_status contrib_position(const tn_kernel_call *call, const tn_operand *ids, uint64_t b,
                                  uint64_t t, uint64_t length, uint64_t rows, uint64_t *position) {
    bool one = tn__operand_count(ids) == 1;
    int64_t at = tn__index(ids, one ? 0 : b * length + t);
    if (one && (at < 0 || at > INT64_MAX - (int64_t)t))
        return tn__call_bad_index(call, at, 0, (int64_t)rows);
    if (one) at += (int64_t)t;
    if (at < 0 || (uint64_t)at >= rows) return tn__call_bad_index(call, at, 0, (int64_t)rows);
    *position = (uint64_t)at;
    return TN_OK;
}

static tn_status contrib_run_rotary(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *ids = &call->inputs[1], *cosines = &call->inputs[2];
    int64_t heads = tn__attr_int(call->op, "num_heads", 0);
    int64_t rotated = tn__attr_int(call->op, "rotary_embedding_dim", 0);
    bool flat = x->rank == 3, interleaved = tn__attr_int(call->op, "interleaved", 0) != 0;
    if (tn__attr_int(call->op, "is_packed_batching", 0) != 0)
        return contrib_lacks(call, "attribute is_packed_batching");
    if (x->rank != 3 && x->rank != 4) return tn__call_bad_shape(call, 0);
    if (cosines->rank != 2) return tn__call_bad_shape(call, 2);
    TN_TRY(tn__check_shape(call, 3, 2, cosines->shape));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    int64_t half = cosines->shape[1], last = x->shape[x->rank - 1];
    if (!flat) heads = x->shape[1];
    if (flat && heads <= 0) heads = half > 0 ? last / (2 * half) : 0;
    if (heads < 1 || (flat && last % heads != 0)) return tn__call_bad_shape(call, 0);
    uint64_t size = (uint64_t)(flat ? last / heads : last),
             length = (uint64_t)x->shape[flat ? 1 : 2];
    if (half < 0 || (uint64_t)half > size / 2 || (rotated > 0 && rotated / 2 != half))
        return tn__call_bad_shape(call, 2);
    uint64_t batch = (uint64_t)x->shape[0];
    if (tn__operand_count(ids) != 1 && tn__operand_count(ids) != batch * length)
        return tn__call_bad_shape(call, 1);
    tn__operand_copy(&call->outputs[0], x);
    for (uint64_t b = 0; b < batch; b++) {
        tn__attend_side y =
            tn__attend_side_of(&call->outputs[0], flat, b, (uint64_t)heads, length, size);
        for (uint64_t t = 0; t < length; t++) {
            uint64_t at;
            TN_TRY(contrib_position(call, ids, b, t, length, (uint64_t)cosines->shape[0], &at));
            const float *c = (const float *)cosines->data + at * (uint64_t)half;
            const float *s = (const float *)call->inputs[3].data + at * (uint64_t)half;
            for (uint64_t h = 0; h < (uint64_t)heads; h++) {
                float *row = y.data + h * y.head + t * y.row;
                tn__rotate(row, row, c, s, (uint64_t)half, interleaved);
            }
        }
    }
    return TN_OK;
}

static bool contrib_accepts_rotary(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 4 | 8, 0) &&
           tn__input_is(setup, 1, TN__TYPES_INDEX) && tn__attr_float(setup->op, "scale", 1) == 1;
}

/* --- GroupQueryAttention --- */

typedef struct contrib_grouped {
    uint64_t batch, heads, groups, queries, past, total, size, half;
    bool packed, rotates;
} contrib_grouped;

static tn_status contrib_read_group(tn_kernel_call *call, contrib_grouped *dims) {
    const tn_operand *q = &call->inputs[0], *k = tn__call_input(call, 1);
    const tn_operand *past = tn__call_input(call, 3), *present = tn__call_output(call, 1);
    int64_t heads = tn__attr_int(call->op, "num_heads", 0),
            groups = tn__attr_int(call->op, "kv_num_heads", 0);
    *dims = (contrib_grouped){.packed = k == NULL,
                              .rotates = tn__attr_int(call->op, "do_rotary", 0) != 0};
    for (uint32_t i = 12; i < call->input_count; i++)
        if (tn__call_input(call, i) != NULL)
            return contrib_lacks(call, "a scale of the cache or a norm");
    if (tn__attr_int(call->op, "sliding_window_cache", 0) != 0)
        return contrib_lacks(call, "attribute sliding_window_cache");
    if (heads < 1 || groups < 1 || heads % groups != 0 || heads > INT32_MAX)
        return tn__call_fail(call, TN_E_INVALID, "%lld query heads for %lld key heads",
                             (long long)heads, (long long)groups);
    int64_t rows = dims->packed ? heads + 2 * groups : heads;
    if (q->rank != 3 || q->shape[2] % rows != 0) return tn__call_bad_shape(call, 0);
    int64_t size = q->shape[2] / rows;
    const int64_t fresh[3] = {q->shape[0], q->shape[1], groups * size};
    if (!dims->packed) {
        TN_TRY(tn__check_shape(call, 1, 3, fresh));
        if (tn__call_input(call, 2) == NULL) return tn__call_bad_shape(call, 2);
        TN_TRY(tn__check_shape(call, 2, 3, fresh));
    }
    if (present == NULL || tn__call_output(call, 2) == NULL)
        return contrib_lacks(call, "a run without outputs present_key and present_value");
    if (present->rank != 4 || tn__call_output(call, 2)->rank != 4)
        return tn__call_fail(call, TN_E_INVALID, "a cache has not rank 4");
    if ((past == NULL) != (tn__call_input(call, 4) == NULL)) return tn__call_bad_shape(call, 4);
    if (past != NULL && past->rank != 4) return tn__call_bad_shape(call, 3);
    int64_t before = past != NULL ? past->shape[2] : 0;
    const int64_t old[4] = {q->shape[0], groups, before, size};
    TN_TRY(tn__check_shape(call, 3, 4, old));
    TN_TRY(tn__check_shape(call, 4, 4, old));
    int64_t total = before;
    const tn_operand *count = tn__call_input(call, 6);
    if (count == NULL || tn__operand_count(count) != 1) return tn__call_bad_shape(call, 6);
    if (tn__operand_int(count, 0) > total) total = tn__operand_int(count, 0);
    if (total > INT64_MAX / 8) return tn__call_bad_shape(call, 6);
    const int64_t cache[4] = {q->shape[0], groups, total, size};
    const int64_t y[3] = {q->shape[0], q->shape[1], heads * size};
    TN_TRY(tn__check_result(call, 0, 3, y));
    TN_TRY(tn__call_shape(call, 1, 4, cache));
    TN_TRY(tn__call_shape(call, 2, 4, cache));
    TN_TRY(tn__check_count(call, 5, (uint64_t)q->shape[0]));
    if (tn__call_input(call, 5) == NULL) return tn__call_bad_shape(call, 5);
    TN_TRY(tn__check_count(call, 11, (uint64_t)heads));
    dims->batch = (uint64_t)q->shape[0];
    dims->queries = (uint64_t)q->shape[1];
    dims->heads = (uint64_t)heads;
    dims->groups = (uint64_t)groups;
    dims->size = (uint64_t)size;
    dims->past = (uint64_t)before;
    dims->total = (uint64_t)total;
    return TN_OK;
}

static tn_status contrib_read_tables(const tn_kernel_call *call, contrib_grouped *dims) {
    const tn_operand *cosines = tn__call_input(call, 7), *ids = tn__call_input(call, 9);
    if (!dims->rotates) return TN_OK;
    if (cosines == NULL || tn__call_input(call, 8) == NULL || cosines->rank != 2)
        return tn__call_bad_shape(call, 7);
    TN_TRY(tn__check_shape(call, 8, 2, cosines->shape));
    dims->half = (uint64_t)cosines->shape[1];
    if (dims->half > dims->size / 2) return tn__call_bad_shape(call, 7);
    return ids != NULL && tn__operand_count(ids) != 1
               ? tn__check_count(call, 9, dims->batch * dims->queries)
               : TN_OK;
}

/* Applies the rotary embedding, with the position of each token, to the rows of queries or keys
 * from row `first` on. */
static tn_status contrib_turn(const tn_kernel_call *call, const contrib_grouped *dims, uint64_t b,
                              uint64_t before, tn__attend_side at, uint64_t first, uint64_t heads) {
    const tn_operand *cosines = tn__call_input(call, 7), *ids = tn__call_input(call, 9);
    bool interleaved = tn__attr_int(call->op, "rotary_interleaved", 0) != 0;
    for (uint64_t t = 0; t < dims->queries; t++) {
        uint64_t position = before + t, rows = (uint64_t)cosines->shape[0];
        if (ids != NULL) TN_TRY(contrib_position(call, ids, b, t, dims->queries, rows, &position));
        if (position >= rows) return tn__call_bad_index(call, (int64_t)position, 0, (int64_t)rows);
        const float *c = (const float *)cosines->data + position * dims->half;
        const float *s = (const float *)call->inputs[8].data + position * dims->half;
        for (uint64_t h = 0; h < heads; h++) {
            float *row = at.data + h * at.head + (first + t) * at.row;
            tn__rotate(row, row, c, s, dims->half, interleaved);
        }
    }
    return TN_OK;
}

/* Describes the rows of the queries, keys or values of batch entry b. They are an input, or a part
 * of an input that has all three. */
static tn__attend_side contrib_fresh(const tn_kernel_call *call, const contrib_grouped *dims,
                                     uint64_t b, uint32_t which) {
    uint64_t size = dims->size, heads = which == 0 ? dims->heads : dims->groups;
    if (!dims->packed)
        return tn__attend_side_of(&call->inputs[which], true, b, heads, dims->queries, size);
    uint64_t row = (dims->heads + 2 * dims->groups) * size;
    uint64_t skip = which == 0   ? 0
                    : which == 1 ? dims->heads * size
                                 : (dims->heads + dims->groups) * size;
    return (tn__attend_side){(float *)call->inputs[0].data + b * dims->queries * row + skip, size,
                             row};
}

/* Prepares one batch entry: copies its new keys and values to its caches, after `before` rows, and
 * rotates queries and keys. */
static tn_status contrib_group_entry(const tn_kernel_call *call, const contrib_grouped *dims,
                                     uint64_t b, tn__attend *it) {
    int64_t keys = tn__operand_int(&call->inputs[5], b), s = (int64_t)dims->queries;
    int64_t all = tn__operand_int(tn__call_input(call, 6), 0);
    /* In a prompt, a batch entry may have fewer than `s` queries; the rows after its end are
     * padding. */
    bool prompt = all == s;
    int64_t before = prompt ? 0 : keys + 1 - s;
    if (keys < 0 || before < 0 || (uint64_t)(before + s) > dims->total ||
        (uint64_t)before > dims->past)
        return tn__call_fail(
            call, TN_E_INVALID,
            "seqlens_k holds %lld: %lld new rows do not fit behind a past of %llu in "
            "a cache of %llu",
            (long long)keys, (long long)s, (unsigned long long)dims->past,
            (unsigned long long)dims->total);
    tn__attend_side cache[2];
    for (uint32_t i = 0; i < 2; i++) {
        const tn_operand *past = tn__call_input(call, 3 + i);
        cache[i] = tn__attend_side_of(&call->outputs[1 + i], false, b, dims->groups, dims->total,
                                      dims->size);
        if (past != NULL)
            tn__attend_copy(
                cache[i], 0,
                tn__attend_side_of(past, false, b, dims->groups, dims->past, dims->size),
                dims->groups, dims->past, dims->size);
        tn__attend_copy(cache[i], (uint64_t)before, contrib_fresh(call, dims, b, 1 + i),
                        dims->groups, dims->queries, dims->size);
        /* the rest of the cache becomes zeros instead of uninitialised bytes */
        for (uint64_t h = 0; h < dims->groups && dims->past < dims->total; h++)
            for (uint64_t r = (uint64_t)(before + s); r < dims->total; r++)
                if (r >= dims->past)
                    memset(cache[i].data + h * cache[i].head + r * cache[i].row, 0,
                           dims->size * sizeof(float));
    }
    it->q = contrib_fresh(call, dims, b, 0);
    if (dims->rotates) {
        uint64_t room = tn__attend_scratch(dims->queries, dims->total) / sizeof(float);
        tn__attend_side own = {(float *)call->workspace + room, dims->size,
                               dims->heads * dims->size};
        tn__attend_copy(own, 0, it->q, dims->heads, dims->queries, dims->size);
        TN_TRY(contrib_turn(call, dims, b, (uint64_t)before, own, 0, dims->heads));
        TN_TRY(contrib_turn(call, dims, b, (uint64_t)before, cache[0], (uint64_t)before,
                            dims->groups));
        it->q = own;
    }
    it->k = cache[0];
    it->v = cache[1];
    it->offset = before;
    it->seen = (uint64_t)(before + s);
    return TN_OK;
}

static tn_status contrib_run_group(tn_kernel_call *call) {
    const tn_operand *sinks = tn__call_input(call, 11);
    contrib_grouped dims;
    TN_TRY(contrib_read_group(call, &dims));
    TN_TRY(contrib_read_tables(call, &dims));
    uint64_t own = dims.rotates ? dims.queries * dims.heads * dims.size * sizeof(float) : 0;
    TN_TRY(tn__check_scratch(call, tn__attend_scratch(dims.queries, dims.total) + own));
    int64_t window = tn__attr_int(call->op, "local_window_size", -1);
    tn__attend it = {.heads = dims.heads,
                     .groups = dims.groups,
                     .queries = dims.queries,
                     .keys = dims.total,
                     .size = dims.size,
                     .value_size = dims.size,
                     .scale = contrib_scale(call->op, dims.size),
                     .softcap = (float)tn__attr_float(call->op, "softcap", 0),
                     .causal = true,
                     .left = window > 0 ? window - 1 : -1,
                     .right = -1,
                     .unseen = -INFINITY,
                     .sinks = sinks != NULL ? sinks->data : NULL,
                     .smooth = tn__attr_int(call->op, "smooth_softmax", 0) == 1,
                     .scratch = call->workspace};
    const uint64_t extents[4] = {dims.batch, dims.heads, dims.queries, dims.total};
    for (uint64_t b = 0; b < dims.batch; b++) {
        TN_TRY(contrib_group_entry(call, &dims, b, &it));
        TN_TRY(contrib_bias(call, 10, b, extents, &it.bias[0]));
        it.y = tn__attend_side_of(&call->outputs[0], true, b, dims.heads, dims.queries, dims.size);
        tn__attend_run(&it);
    }
    return TN_OK;
}

static bool contrib_accepts_group(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 4 | 8 | 16 | 128 | 256 | 1024 | 2048,
                           2 | 4) &&
           tn__input_is(setup, 5, TN__TYPES_INDEX) && tn__input_is(setup, 6, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 9, TN__TYPES_INDEX) && tn__setup_output(setup, 3) == NULL;
}

static uint64_t contrib_workspace_group(const tn_kernel_setup *setup) {
    const tn_tensor *q = tn__setup_input(setup, 0), *present = tn__setup_output(setup, 1);
    if (q == NULL || q->rank != 3 || present == NULL || present->rank != 4) return 0;
    uint64_t bytes = tn__attend_scratch((uint64_t)q->shape[1], (uint64_t)present->shape[2]);
    uint64_t own = tn__mul_sat(4, tn__mul_sat((uint64_t)q->shape[1], (uint64_t)q->shape[2]));
    return tn__attr_int(setup->op, "do_rotary", 0) != 0 ? tn__add_sat(bytes, own) : bytes;
}

/* --- MultiHeadAttention --- */

typedef struct contrib_headed {
    uint64_t batch, heads, queries, keys, past, total, size, value_size;
} contrib_headed;

static tn_status contrib_read_multi(const tn_kernel_call *call, contrib_headed *dims) {
    const tn_operand *q = &call->inputs[0], *k = tn__call_input(call, 1),
                     *v = tn__call_input(call, 2);
    const tn_operand *past = tn__call_input(call, 6);
    int64_t heads = tn__attr_int(call->op, "num_heads", 0);
    if (tn__call_input(call, 8) != NULL || tn__call_input(call, 9) != NULL)
        return contrib_lacks(call, "input past_sequence_length or cache_indirection");
    if (q->rank != 3 || k == NULL || v == NULL || (k->rank != 3 && k->rank != 4))
        return contrib_lacks(call, "a packed operand");
    if (v->rank != k->rank || k->shape[0] != q->shape[0] || v->shape[0] != q->shape[0])
        return tn__call_bad_shape(call, 2);
    if (heads < 1 || q->shape[2] % heads != 0) return tn__call_bad_shape(call, 0);
    int64_t size = q->shape[2] / heads, length = k->shape[k->rank == 3 ? 1 : 2], value_size;
    if (k->rank == 3) {
        if (k->shape[2] != q->shape[2]) return tn__call_bad_shape(call, 1);
        if (v->shape[2] % heads != 0 || v->shape[1] != length) return tn__call_bad_shape(call, 2);
        value_size = v->shape[2] / heads;
    } else {
        value_size = v->shape[3];
        if (k->shape[1] != heads || k->shape[3] != size) return tn__call_bad_shape(call, 1);
        if (v->shape[1] != heads || v->shape[2] != length) return tn__call_bad_shape(call, 2);
    }
    if ((past == NULL) != (tn__call_input(call, 7) == NULL)) return tn__call_bad_shape(call, 7);
    if (past != NULL && past->rank != 4) return tn__call_bad_shape(call, 6);
    int64_t before = past != NULL ? past->shape[2] : 0, b = q->shape[0], total = before + length;
    const int64_t old_key[4] = {b, heads, before, size},
                  old_value[4] = {b, heads, before, value_size};
    const int64_t key[4] = {b, heads, total, size}, value[4] = {b, heads, total, value_size};
    const int64_t y[3] = {b, q->shape[1], heads * value_size};
    TN_TRY(tn__check_shape(call, 6, 4, old_key));
    TN_TRY(tn__check_shape(call, 7, 4, old_value));
    TN_TRY(tn__check_result(call, 0, 3, y));
    TN_TRY(tn__check_result(call, 1, 4, key));
    TN_TRY(tn__check_result(call, 2, 4, value));
    TN_TRY(tn__check_count(call, 3, (uint64_t)(2 * heads * size + heads * value_size)));
    *dims = (contrib_headed){.batch = (uint64_t)b,
                             .heads = (uint64_t)heads,
                             .queries = (uint64_t)q->shape[1],
                             .keys = (uint64_t)length,
                             .past = (uint64_t)before,
                             .total = (uint64_t)total,
                             .size = (uint64_t)size,
                             .value_size = (uint64_t)value_size};
    return TN_OK;
}

/* Converts a mask of keys to numbers that are added to scores: 0 for a key that is seen, `filter`
 * for a masked key. The mask has lengths ([B]), ends and then begins ([2 * B]), or 0 for masked
 * keys ([B, T] or [B, S, T]). Writes one row for all queries, or one row for each. */
static tn_status contrib_mask(const tn_kernel_call *call, uint32_t input, uint64_t b,
                              uint64_t queries, uint64_t keys, uint64_t batch, float *numbers,
                              tn__attend_bias *bias) {
    const tn_operand *mask = tn__call_input(call, input);
    const float filter = (float)tn__attr_float(call->op, "mask_filter_value", -10000);
    *bias = (tn__attend_bias){0};
    if (mask == NULL) return TN_OK;
    bool lengths = mask->rank == 1 && (uint64_t)mask->shape[0] == batch;
    bool ends = mask->rank == 1 && (uint64_t)mask->shape[0] == 2 * batch;
    bool whole = mask->rank == 3;
    if (mask->rank == 4) return contrib_lacks(call, "a mask of rank 4");
    if (mask->rank == 1 && !lengths && !ends) return contrib_lacks(call, "this form of a mask");
    if ((mask->rank == 2 || whole) &&
        ((uint64_t)mask->shape[0] != batch || (uint64_t)mask->shape[mask->rank - 1] != keys ||
         (whole && (uint64_t)mask->shape[1] != queries)))
        return tn__call_bad_shape(call, input);
    for (uint64_t i = 0; i < (whole ? queries : 1); i++)
        for (uint64_t j = 0; j < keys; j++) {
            bool seen;
            if (mask->rank == 1)
                seen = (int64_t)j < tn__operand_int(mask, b) &&
                       (!ends || (int64_t)j >= tn__operand_int(mask, batch + b));
            else
                seen =
                    tn__operand_int(mask, (whole ? (b * queries + i) * keys : b * keys) + j) != 0;
            numbers[i * keys + j] = seen ? 0 : filter;
        }
    *bias = (tn__attend_bias){.data = numbers, .row = whole ? keys : 0, .key = 1, .keys = keys};
    return TN_OK;
}

static void contrib_add_bias(tn__attend_side to, const float *bias, uint64_t heads, uint64_t rows,
                             uint64_t size) {
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t e = 0; e < size; e++)
                to.data[h * to.head + r * to.row + e] += bias[h * size + e];
}

/* Returns the bytes of scratch memory after the scores: a mask, then queries, keys and values of
 * one batch entry. */
static uint64_t contrib_multi_scratch(const contrib_headed *dims) {
    uint64_t numbers = tn__mul_sat(dims->queries, dims->total);
    numbers =
        tn__add_sat(numbers, tn__mul_sat(tn__mul_sat(dims->heads, dims->queries), dims->size));
    uint64_t row = tn__add_sat(dims->size, dims->value_size);
    numbers = tn__add_sat(numbers, tn__mul_sat(tn__mul_sat(dims->heads, dims->total), row));
    return tn__mul_sat(numbers, sizeof(float));
}

/* Finds the keys (which = 0) or values (1) of one batch entry: in the input, or, with their bias
 * added, after the past rows in `present` or scratch memory. */
static tn__attend_side contrib_sequence(const tn_kernel_call *call, const contrib_headed *dims,
                                        uint64_t b, uint32_t which, float *scratch) {
    const tn_operand *fresh = &call->inputs[1 + which], *past = tn__call_input(call, 6 + which);
    const tn_operand *present = tn__call_output(call, 1 + which), *bias = tn__call_input(call, 3);
    uint64_t size = which == 0 ? dims->size : dims->value_size;
    tn__attend_side from =
        tn__attend_side_of(fresh, fresh->rank == 3, b, dims->heads, dims->keys, size);
    if (past == NULL && present == NULL && bias == NULL) return from;
    tn__attend_side to = {scratch, dims->total * size, size};
    if (present != NULL) to.data = (float *)present->data + b * dims->heads * dims->total * size;
    if (past != NULL)
        tn__attend_copy(to, 0, tn__attend_side_of(past, false, b, dims->heads, dims->past, size),
                        dims->heads, dims->past, size);
    tn__attend_copy(to, dims->past, from, dims->heads, dims->keys, size);
    if (bias != NULL) {
        tn__attend_side added = {to.data + dims->past * to.row, to.head, to.row};
        uint64_t skip = dims->heads * dims->size * (1 + which);
        contrib_add_bias(added, (const float *)bias->data + skip, dims->heads, dims->keys, size);
    }
    return to;
}

static tn_status contrib_run_multi(tn_kernel_call *call) {
    const tn_operand *bias = tn__call_input(call, 3);
    contrib_headed dims;
    TN_TRY(contrib_read_multi(call, &dims));
    uint64_t base = tn__attend_scratch(dims.queries, dims.total);
    TN_TRY(tn__check_scratch(call, tn__add_sat(base, contrib_multi_scratch(&dims))));
    float *mask = (float *)call->workspace + base / sizeof(float);
    float *own = mask + dims.queries * dims.total;
    float *keys = own + dims.heads * dims.queries * dims.size;
    float *values = keys + dims.heads * dims.total * dims.size;
    tn__attend it = {.heads = dims.heads,
                     .groups = dims.heads,
                     .queries = dims.queries,
                     .keys = dims.total,
                     .size = dims.size,
                     .value_size = dims.value_size,
                     .scale = contrib_scale(call->op, dims.size),
                     .seen = dims.total,
                     .causal = tn__attr_int(call->op, "unidirectional", 0) != 0,
                     .offset = (int64_t)dims.past,
                     .left = -1,
                     .right = -1,
                     .unseen = -INFINITY,
                     .scratch = call->workspace};
    const uint64_t extents[4] = {dims.batch, dims.heads, dims.queries, dims.total};
    for (uint64_t b = 0; b < dims.batch; b++) {
        it.q = tn__attend_side_of(&call->inputs[0], true, b, dims.heads, dims.queries, dims.size);
        it.y = tn__attend_side_of(&call->outputs[0], true, b, dims.heads, dims.queries,
                                  dims.value_size);
        it.k = contrib_sequence(call, &dims, b, 0, keys);
        it.v = contrib_sequence(call, &dims, b, 1, values);
        if (bias != NULL) {
            tn__attend_side moved = {own, dims.size, dims.heads * dims.size};
            tn__attend_copy(moved, 0, it.q, dims.heads, dims.queries, dims.size);
            contrib_add_bias(moved, bias->data, dims.heads, dims.queries, dims.size);
            it.q = moved;
        }
        TN_TRY(contrib_mask(call, 4, b, dims.queries, dims.total, dims.batch, mask, &it.bias[0]));
        TN_TRY(contrib_bias(call, 5, b, extents, &it.bias[1]));
        tn__attend_run(&it);
    }
    return TN_OK;
}

static bool contrib_accepts_multi(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 4 | 8 | 32 | 64 | 128, 2 | 4) &&
           tn__input_may_be(setup, 4, TN__TYPES_INDEX) && tn__setup_output(setup, 3) == NULL;
}

static uint64_t contrib_workspace_multi(const tn_kernel_setup *setup) {
    const tn_tensor *q = tn__setup_input(setup, 0), *k = tn__setup_input(setup, 1),
                    *v = tn__setup_input(setup, 2), *past = tn__setup_input(setup, 6);
    int64_t heads = tn__attr_int(setup->op, "num_heads", 0);
    if (q == NULL || k == NULL || v == NULL || heads < 1 || q->rank != 3 || k->rank < 3 ||
        v->rank != k->rank || k->rank > 4)
        return 0;
    contrib_headed dims = {.heads = (uint64_t)heads,
                           .queries = (uint64_t)q->shape[1],
                           .keys = (uint64_t)k->shape[k->rank == 3 ? 1 : 2],
                           .size = (uint64_t)(q->shape[2] / heads),
                           .value_size =
                               (uint64_t)(v->rank == 3 ? v->shape[2] / heads : v->shape[3])};
    dims.total = dims.keys;
    if (past != NULL && past->rank == 4)
        dims.total = tn__add_sat(dims.total, (uint64_t)past->shape[2]);
    return tn__add_sat(tn__attend_scratch(dims.queries, dims.total), contrib_multi_scratch(&dims));
}

/* --- Attention and QAttention, which first multiply the input with the weights of queries, keys
 * and values --- */

typedef struct contrib_self {
    uint64_t batch, length, inner, heads, past, total, size, value_size, columns;
    uint32_t past_at, mask_at;
} contrib_self;

static tn_status contrib_read_self(const tn_kernel_call *call, contrib_self *dims) {
    const tn_operand *x = &call->inputs[0], *w = &call->inputs[1];
    const tn_operand *past = tn__call_input(call, dims->past_at);
    uint32_t count;
    const int64_t *sizes = tn__attr_ints(call->op, "qkv_hidden_sizes", &count);
    int64_t heads = tn__attr_int(call->op, "num_heads", 0);
    if (x->rank != 3) return tn__call_bad_shape(call, 0);
    if (w->rank != 2 || w->shape[0] != x->shape[2]) return tn__call_bad_shape(call, 1);
    if (tn__attr_int(call->op, "do_rotary", 0) != 0)
        return contrib_lacks(call, "attribute do_rotary");
    if (tn__attr_int(call->op, "past_present_share_buffer", 0) != 0)
        return contrib_lacks(call, "attribute past_present_share_buffer");
    int64_t third = w->shape[1] / 3, key = third, value = third;
    if (sizes != NULL && count == 3) key = sizes[0], value = sizes[2];
    if (heads < 1 || key < 1 || value < 1 || key > INT32_MAX || value > INT32_MAX ||
        key % heads != 0 || value % heads != 0 || w->shape[1] != 2 * key + value ||
        (sizes != NULL && count == 3 && sizes[1] != key))
        return tn__call_fail(call, TN_E_INVALID, "%lld columns do not make %lld heads",
                             (long long)w->shape[1], (long long)heads);
    int64_t before = 0, size = key / heads, b = x->shape[0], s = x->shape[1];
    if (past != NULL) {
        if (past->rank != 5 || size * heads != value)
            return tn__call_bad_shape(call, dims->past_at);
        const int64_t old[5] = {2, b, heads, past->shape[3], size};
        TN_TRY(tn__check_shape(call, dims->past_at, 5, old));
        before = past->shape[3];
    }
    const int64_t y[3] = {b, s, value}, present[5] = {2, b, heads, before + s, size};
    TN_TRY(tn__check_result(call, 0, 3, y));
    TN_TRY(tn__check_result(call, 1, 5, present));
    TN_TRY(tn__check_count(call, 2, (uint64_t)w->shape[1]));
    dims->batch = (uint64_t)b;
    dims->length = (uint64_t)s;
    dims->inner = (uint64_t)x->shape[2];
    dims->heads = (uint64_t)heads;
    dims->past = (uint64_t)before;
    dims->total = (uint64_t)(before + s);
    dims->size = (uint64_t)size;
    dims->value_size = (uint64_t)(value / heads);
    dims->columns = (uint64_t)w->shape[1];
    return TN_OK;
}

/* Returns the bytes of scratch memory after the scores: the projection of one batch entry, a mask,
 * and the past and new keys and values. */
static uint64_t contrib_self_scratch(const contrib_self *dims) {
    uint64_t numbers = tn__mul_sat(dims->length, tn__add_sat(dims->columns, dims->total));
    uint64_t row = tn__mul_sat(dims->heads, tn__add_sat(dims->size, dims->value_size));
    return tn__mul_sat(tn__add_sat(numbers, tn__mul_sat(dims->total, row)), sizeof(float));
}

static void contrib_project_float(const tn_kernel_call *call, const contrib_self *dims, uint64_t b,
                                  float *to) {
    const tn_operand *bias = tn__call_input(call, 2);
    tn__product product = {.rows = dims->length,
                           .columns = dims->columns,
                           .inner = dims->inner,
                           .a =
                               (const float *)call->inputs[0].data + b * dims->length * dims->inner,
                           .b = call->inputs[1].data,
                           .addend = bias != NULL ? bias->data : NULL,
                           .c = to,
                           .a_row = dims->inner,
                           .a_inner = 1,
                           .b_inner = dims->columns,
                           .b_column = 1,
                           .c_row = dims->columns,
                           .addend_column = 1,
                           .scale = 1,
                           .addend_scale = 1};
    tn__product_run(&product, TN_FLOAT32);
}

/* Computes the projection (x - zx) (w - zw) sx sw + bias of 8-bit operands, where zx, zw are zero
 * points and sx, sw scales. Those of w may be one number, or one for each column. */
static tn_status contrib_project_bytes(const tn_kernel_call *call, const contrib_self *dims,
                                       uint64_t b, float *to) {
    const tn_operand *x = &call->inputs[0], *w = &call->inputs[1], *bias = tn__call_input(call, 2);
    const tn_operand *sx = &call->inputs[3], *sw = &call->inputs[4], *zx = tn__call_input(call, 6),
                     *zw = tn__call_input(call, 7);
    uint64_t scales = tn__operand_count(sw), zeros = zw != NULL ? tn__operand_count(zw) : 1;
    TN_TRY(tn__check_count(call, 3, 1));
    TN_TRY(tn__check_count(call, 6, 1));
    if (scales != 1 && scales != dims->columns) return tn__call_bad_shape(call, 4);
    if (zeros != 1 && zeros != dims->columns) return tn__call_bad_shape(call, 7);
    int64_t zero_x = zx != NULL ? tn__operand_int(zx, 0) : 0;
    for (uint64_t r = 0; r < dims->length; r++)
        for (uint64_t c = 0; c < dims->columns; c++) {
            int64_t sum = 0;
            int64_t zero_w = zw != NULL ? tn__operand_int(zw, zeros == 1 ? 0 : c) : 0;
            for (uint64_t k = 0; k < dims->inner; k++)
                sum += (tn__operand_int(x, (b * dims->length + r) * dims->inner + k) - zero_x) *
                       (tn__operand_int(w, k * dims->columns + c) - zero_w);
            double value =
                (double)sum * tn__operand_float(sx, 0) * tn__operand_float(sw, scales == 1 ? 0 : c);
            if (bias != NULL) value += tn__operand_float(bias, c);
            to[r * dims->columns + c] = (float)value;
        }
    return TN_OK;
}

static tn__attend_side contrib_self_sequence(const tn_kernel_call *call, const contrib_self *dims,
                                             uint64_t b, uint32_t which, tn__attend_side from,
                                             float *scratch) {
    const tn_operand *past = tn__call_input(call, dims->past_at),
                     *present = tn__call_output(call, 1);
    uint64_t size = which == 0 ? dims->size : dims->value_size;
    if (past == NULL && present == NULL) return from;
    tn__attend_side to = {scratch, dims->total * size, size};
    if (present != NULL)
        to.data =
            (float *)present->data + (which * dims->batch + b) * dims->heads * dims->total * size;
    if (past != NULL) {
        tn__attend_side old =
            tn__attend_side_of(past, false, which * dims->batch + b, dims->heads, dims->past, size);
        tn__attend_copy(to, 0, old, dims->heads, dims->past, size);
    }
    tn__attend_copy(to, dims->past, from, dims->heads, dims->length, size);
    return to;
}

static tn_status contrib_run_any_self(tn_kernel_call *call, bool bytes) {
    contrib_self dims = {.past_at = bytes ? 8 : 4, .mask_at = bytes ? 5 : 3};
    TN_TRY(contrib_read_self(call, &dims));
    uint64_t base = tn__attend_scratch(dims.length, dims.total);
    TN_TRY(tn__check_scratch(call, tn__add_sat(base, contrib_self_scratch(&dims))));
    float *projected = (float *)call->workspace + base / sizeof(float);
    float *mask = projected + dims.length * dims.columns;
    float *keys = mask + dims.length * dims.total;
    float *values = keys + dims.heads * dims.total * dims.size;
    tn__attend it = {.heads = dims.heads,
                     .groups = dims.heads,
                     .queries = dims.length,
                     .keys = dims.total,
                     .size = dims.size,
                     .value_size = dims.value_size,
                     .scale = contrib_scale(call->op, dims.size),
                     .seen = dims.total,
                     .causal = tn__attr_int(call->op, "unidirectional", 0) != 0,
                     .offset = (int64_t)dims.past,
                     .left = -1,
                     .right = -1,
                     .unseen = -INFINITY,
                     .scratch = call->workspace};
    const uint64_t extents[4] = {dims.batch, dims.heads, dims.length, dims.total};
    for (uint64_t b = 0; b < dims.batch; b++) {
        if (bytes)
            TN_TRY(contrib_project_bytes(call, &dims, b, projected));
        else
            contrib_project_float(call, &dims, b, projected);
        tn__attend_side part = {projected, dims.size, dims.columns};
        it.q = part;
        part.data += dims.heads * dims.size;
        it.k = contrib_self_sequence(call, &dims, b, 0, part, keys);
        part.data += dims.heads * dims.size;
        part.head = dims.value_size;
        it.v = contrib_self_sequence(call, &dims, b, 1, part, values);
        it.y = tn__attend_side_of(&call->outputs[0], true, b, dims.heads, dims.length,
                                  dims.value_size);
        TN_TRY(contrib_mask(call, dims.mask_at, b, dims.length, dims.total, dims.batch, mask,
                            &it.bias[0]));
        if (!bytes) TN_TRY(contrib_bias(call, 5, b, extents, &it.bias[1]));
        tn__attend_run(&it);
    }
    return TN_OK;
}

static tn_status contrib_run_self(tn_kernel_call *call) {
    return contrib_run_any_self(call, false);
}
static tn_status contrib_run_qself(tn_kernel_call *call) {
    return contrib_run_any_self(call, true);
}

static bool contrib_accepts_self(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 4 | 16 | 32, 2) &&
           tn__input_may_be(setup, 3, TN__TYPES_INDEX) && tn__setup_input(setup, 6) == NULL;
}

static bool contrib_accepts_qself(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 4 | 8 | 16 | 256, 2) &&
           tn__input_is(setup, 0, TN__TYPES_BYTE) && tn__input_is(setup, 1, TN__TYPES_BYTE) &&
           tn__input_may_be(setup, 5, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 6, TN__TYPES_BYTE) && tn__input_may_be(setup, 7, TN__TYPES_BYTE);
}

static uint64_t contrib_workspace_any_self(const tn_kernel_setup *setup, uint32_t past_at) {
    const tn_tensor *x = tn__setup_input(setup, 0), *w = tn__setup_input(setup, 1),
                    *past = tn__setup_input(setup, past_at);
    int64_t heads = tn__attr_int(setup->op, "num_heads", 0);
    if (x == NULL || w == NULL || x->rank != 3 || w->rank != 2 || heads < 1) return 0;
    contrib_self dims = {.length = (uint64_t)x->shape[1],
                         .heads = (uint64_t)heads,
                         .columns = (uint64_t)w->shape[1],
                         .total = (uint64_t)x->shape[1]};
    /* Upper bounds of the head sizes of keys and of values, because the columns of W include
     * queries, keys and values. */
    dims.size = dims.value_size = dims.columns / (uint64_t)heads;
    if (past != NULL && past->rank == 5)
        dims.total = tn__add_sat(dims.total, (uint64_t)past->shape[3]);
    return tn__add_sat(tn__attend_scratch(dims.length, dims.total), contrib_self_scratch(&dims));
}
static uint64_t contrib_workspace_self(const tn_kernel_setup *setup) {
    return contrib_workspace_any_self(setup, 4);
}
static uint64_t contrib_workspace_qself(const tn_kernel_setup *setup) {
    return contrib_workspace_any_self(setup, 8);
}

static const tn_kernel contrib_attention_kernels[] = {
    {.type = "Attention",
     .accepts = contrib_accepts_self,
     .workspace = contrib_workspace_self,
     .run = contrib_run_self},
    {.type = "GroupQueryAttention",
     .accepts = contrib_accepts_group,
     .workspace = contrib_workspace_group,
     .run = contrib_run_group},
    {.type = "MultiHeadAttention",
     .accepts = contrib_accepts_multi,
     .workspace = contrib_workspace_multi,
     .run = contrib_run_multi},
    {.type = "QAttention",
     .accepts = contrib_accepts_qself,
     .workspace = contrib_workspace_qself,
     .run = contrib_run_qself},
    {.type = "RotaryEmbedding", .accepts = contrib_accepts_rotary, .run = contrib_run_rotary},
};

TN_KERNEL_FAMILY(contrib_attention, "com.microsoft");
