/* attention.c - Attention and RotaryEmbedding of ONNX in plain loops (attend.h), in float32.
 *
 * The keys and values of earlier calls (the past) and the new ones become one sequence, in the
 * output `present` or, if that output is not wanted, in scratch memory. Without a past, the inputs
 * are read directly.
 * Source: the ONNX specifications, opsets 23 to 25.
 */
#include <math.h>

#include "engine/kernels/loops/attend.h"
#include "engine/kernels/loops/box.h"

typedef struct attention_shape {
    uint64_t batch, heads, groups, queries, keys, past, total, size, value_size;
    bool flat;
} attention_shape;

/* --- shapes --- */

static bool attention_heads(const tn_operand *x, bool flat, uint64_t heads, uint64_t *size) {
    uint64_t last = (uint64_t)x->shape[x->rank - 1];
    *size = flat ? (heads > 0 ? last / heads : 0) : last;
    return !flat ? (uint64_t)x->shape[1] == heads : heads > 0 && last % heads == 0;
}

static tn_status attention_read(const tn_kernel_call *call, attention_shape *dims) {
    const tn_operand *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
    const tn_operand *past[2] = {tn__call_input(call, 4), tn__call_input(call, 5)};
    *dims = (attention_shape){.flat = q->rank == 3};
    if (q->rank != 3 && q->rank != 4) return tn__call_bad_shape(call, 0);
    if (k->rank != q->rank || k->shape[0] != q->shape[0]) return tn__call_bad_shape(call, 1);
    if (v->rank != q->rank || v->shape[0] != q->shape[0]) return tn__call_bad_shape(call, 2);
    uint32_t along = dims->flat ? 1 : 2;
    int64_t heads = dims->flat ? tn__attr_int(call->op, "q_num_heads", 0) : q->shape[1];
    int64_t groups = dims->flat ? tn__attr_int(call->op, "kv_num_heads", 0) : k->shape[1];
    if (heads < 1 || groups < 1 || heads % groups != 0)
        return tn__call_fail(call, TN_E_INVALID, "%lld query heads for %lld key heads",
                             (long long)heads, (long long)groups);
    uint64_t size;
    dims->batch = (uint64_t)q->shape[0];
    dims->heads = (uint64_t)heads;
    dims->groups = (uint64_t)groups;
    dims->queries = (uint64_t)q->shape[along];
    dims->keys = (uint64_t)k->shape[along];
    if (!attention_heads(q, dims->flat, dims->heads, &dims->size))
        return tn__call_bad_shape(call, 0);
    if (!attention_heads(k, dims->flat, dims->groups, &size) || size != dims->size)
        return tn__call_bad_shape(call, 1);
    if (!attention_heads(v, dims->flat, dims->groups, &dims->value_size) ||
        v->shape[along] != k->shape[along])
        return tn__call_bad_shape(call, 2);
    if ((past[0] == NULL) != (past[1] == NULL)) return tn__call_bad_shape(call, 4);
    if (past[0] != NULL) {
        if (past[0]->rank != 4) return tn__call_bad_shape(call, 4);
        const int64_t before = past[0]->shape[2];
        const int64_t key[4] = {q->shape[0], groups, before, (int64_t)dims->size};
        const int64_t value[4] = {q->shape[0], groups, before, (int64_t)dims->value_size};
        TN_TRY(tn__check_shape(call, 4, 4, key));
        TN_TRY(tn__check_shape(call, 5, 4, value));
        dims->past = (uint64_t)before;
    }
    dims->total = dims->past + dims->keys;
    return TN_OK;
}

static tn_status attention_check_outputs(const tn_kernel_call *call, const attention_shape *dims) {
    int64_t b = (int64_t)dims->batch, h = (int64_t)dims->heads, g = (int64_t)dims->groups,
            s = (int64_t)dims->queries, t = (int64_t)dims->total, d = (int64_t)dims->value_size;
    const int64_t flat[3] = {b, s, h * d}, whole[4] = {b, h, s, d}, scores[4] = {b, h, s, t};
    const int64_t key[4] = {b, g, t, (int64_t)dims->size}, value[4] = {b, g, t, d};
    TN_TRY(tn__check_result(call, 0, dims->flat ? 3 : 4, dims->flat ? flat : whole));
    TN_TRY(tn__check_result(call, 1, 4, key));
    TN_TRY(tn__check_result(call, 2, 4, value));
    return tn__check_result(call, 3, 4, scores);
}

/* --- masks --- */

/* Computes the strides of the mask, which is broadcast to [batch, heads, queries, keys]. If it has
 * fewer keys, the remaining keys are masked; *keys is their number in the mask. */
static tn_status attention_mask(const tn_kernel_call *call, const attention_shape *dims,
                                int64_t strides[4], uint64_t *keys) {
    const tn_operand *mask = tn__call_input(call, 3);
    const uint64_t extents[4] = {dims->batch, dims->heads, dims->queries, dims->total};
    memset(strides, 0, 4 * sizeof *strides);
    *keys = dims->total;
    if (mask == NULL) return TN_OK;
    if (mask->rank > 4 || mask->rank == 0) return tn__call_bad_shape(call, 3);
    uint64_t step = 1;
    for (uint32_t d = mask->rank; d-- > 0;) {
        uint32_t at = 4 - mask->rank + d;
        uint64_t extent = (uint64_t)mask->shape[d];
        bool shorter = at == 3 && extent < extents[3] && (extent != 1 || call->version >= 24);
        if (extent != extents[at] && extent != 1 && !shorter) return tn__call_bad_shape(call, 3);
        strides[at] = extent == 1 && !shorter ? 0 : (int64_t)step;
        if (shorter) *keys = extent;
        step *= extent;
    }
    return TN_OK;
}

/* --- running Attention, and RotaryEmbedding --- */

/* Finds the keys (which = 0) or values (1) of one batch entry: in the input, or copied to the place
 * after the past rows, in `present` or scratch memory. */
static tn__attend_side attention_sequence(const tn_kernel_call *call, const attention_shape *dims,
                                          uint64_t b, uint32_t which, float *scratch) {
    const tn_operand *fresh = &call->inputs[1 + which], *past = tn__call_input(call, 4 + which);
    const tn_operand *present = tn__call_output(call, 1 + which);
    uint64_t size = which == 0 ? dims->size : dims->value_size, total = dims->total;
    tn__attend_side from = tn__attend_side_of(fresh, dims->flat, b, dims->groups, dims->keys, size);
    if (past == NULL && present == NULL) return from;
    tn__attend_side to = {scratch, total * size, size};
    if (present != NULL) to.data = (float *)present->data + b * dims->groups * total * size;
    if (past != NULL) {
        tn__attend_side old = tn__attend_side_of(past, false, b, dims->groups, dims->past, size);
        tn__attend_copy(to, 0, old, dims->groups, dims->past, size);
    }
    tn__attend_copy(to, dims->past, from, dims->groups, dims->keys, size);
    return to;
}

static tn_status attention_seen(const tn_kernel_call *call, const attention_shape *dims, uint64_t b,
                                tn__attend *it) {
    const tn_operand *nonpad = tn__call_input(call, 6);
    it->seen = dims->total;
    it->offset = (int64_t)dims->past;
    if (nonpad == NULL) return TN_OK;
    int64_t count = tn__operand_int(nonpad, b);
    if (count < 0 || (uint64_t)count > dims->total)
        return tn__call_fail(call, TN_E_INVALID, "nonpad_kv_seqlen holds %lld for %llu keys",
                             (long long)count, (unsigned long long)dims->total);
    it->seen = (uint64_t)count;
    it->offset = count - (int64_t)dims->queries;
    return TN_OK;
}

static tn_status attention_run(tn_kernel_call *call) {
    const tn_operand *mask = tn__call_input(call, 3), *scores = tn__call_output(call, 3);
    attention_shape dims;
    int64_t steps[4], stage = tn__attr_int(call->op, "qk_matmul_output_mode", 0);
    uint64_t masked;
    if (stage < TN__ATTEND_RAW || stage > TN__ATTEND_PROBABLE)
        return tn__call_fail(call, TN_E_INVALID, "attribute qk_matmul_output_mode is %lld",
                             (long long)stage);
    TN_TRY(attention_read(call, &dims));
    TN_TRY(attention_check_outputs(call, &dims));
    TN_TRY(attention_mask(call, &dims, steps, &masked));
    TN_TRY(tn__check_count(call, 6, dims.batch));
    uint64_t base = tn__attend_scratch(dims.queries, dims.total) / sizeof(float);
    uint64_t keys = dims.groups * dims.total * dims.size;
    bool kept = tn__call_input(call, 4) == NULL;
    uint64_t more =
        kept ? 0
             : (tn__call_output(call, 1) == NULL ? keys : 0) +
                   (tn__call_output(call, 2) == NULL ? dims.groups * dims.total * dims.value_size
                                                     : 0);
    TN_TRY(tn__check_scratch(call, (base + more) * sizeof(float)));
    tn__attend it = {.heads = dims.heads,
                     .groups = dims.groups,
                     .queries = dims.queries,
                     .keys = dims.total,
                     .size = dims.size,
                     .value_size = dims.value_size,
                     .scale = (float)tn__attr_float(call->op, "scale", 1 / sqrt((double)dims.size)),
                     .softcap = (float)tn__attr_float(call->op, "softcap", 0),
                     .causal = tn__attr_int(call->op, "is_causal", 0) != 0,
                     .left = tn__attr_int(call->op, "left_window_size", -1),
                     .right = tn__attr_int(call->op, "right_window_size", -1),
                     .unseen = -INFINITY,
                     .stage = (uint32_t)stage,
                     .scratch = call->workspace};
    float *spare = (float *)call->workspace + base;
    for (uint64_t b = 0; b < dims.batch; b++) {
        it.q =
            tn__attend_side_of(&call->inputs[0], dims.flat, b, dims.heads, dims.queries, dims.size);
        it.y = tn__attend_side_of(&call->outputs[0], dims.flat, b, dims.heads, dims.queries,
                                  dims.value_size);
        it.k = attention_sequence(call, &dims, b, 0, spare);
        it.v = attention_sequence(call, &dims, b, 1,
                                  spare + (tn__call_output(call, 1) == NULL ? keys : 0));
        TN_TRY(attention_seen(call, &dims, b, &it));
        if (mask != NULL) {
            uint64_t width = mask->dtype == TN_BOOL ? 1 : sizeof(float);
            it.bias[0] =
                (tn__attend_bias){.data = (const char *)mask->data + b * (uint64_t)steps[0] * width,
                                  .is_mask = mask->dtype == TN_BOOL,
                                  .head = (uint64_t)steps[1],
                                  .row = (uint64_t)steps[2],
                                  .key = (uint64_t)steps[3],
                                  .keys = masked};
        }
        uint64_t each = dims.heads * dims.queries * dims.total;
        it.scores = scores != NULL ? (float *)scores->data + b * each : NULL;
        tn__attend_run(&it);
    }
    return TN_OK;
}

static bool attention_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 4 | 16 | 32, 2 | 4 | 8) &&
           tn__input_may_be(setup, 3, TN__TYPE(FLOAT32) | TN__TYPE(BOOL)) &&
           tn__input_may_be(setup, 6, TN__TYPES_INDEX) &&
           tn__attr_float(setup->op, "scale", 1) != 0;
}

/* Returns the bytes of scratch memory. The shapes of the graph from which they follow may be upper
 * bounds. */
static uint64_t attention_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *q = tn__setup_input(setup, 0), *k = tn__setup_input(setup, 1),
                    *v = tn__setup_input(setup, 2), *past = tn__setup_input(setup, 4),
                    *past_v = tn__setup_input(setup, 5);
    if (q == NULL || k == NULL || v == NULL || q->rank < 3 || k->rank != q->rank ||
        v->rank != q->rank || q->rank > 4)
        return 0;
    uint32_t along = q->rank == 3 ? 1 : 2;
    uint64_t keys = (uint64_t)k->shape[along];
    bool old = past != NULL && past->rank == 4 && past_v != NULL && past_v->rank == 4;
    if (old) keys = tn__add_sat(keys, (uint64_t)past->shape[2]);
    uint64_t bytes = tn__attend_scratch((uint64_t)q->shape[along], keys);
    for (uint32_t i = 0; i < 2 && old; i++) {
        const tn_tensor *before = i == 0 ? past : past_v;
        uint64_t row = tn__mul_sat((uint64_t)before->shape[1], (uint64_t)before->shape[3]);
        if (tn__setup_output(setup, 1 + i) == NULL)
            bytes = tn__add_sat(bytes, tn__mul_sat(4, tn__mul_sat(row, keys)));
    }
    return bytes;
}

/* --- RotaryEmbedding --- */

typedef struct rotary_frame {
    uint64_t batch, heads, length, size, half;
    bool flat, interleaved;
} rotary_frame;

static tn_status attention_read_rotary(const tn_kernel_call *call, rotary_frame *frame) {
    const tn_operand *x = &call->inputs[0];
    int64_t heads = tn__attr_int(call->op, "num_heads", 0);
    int64_t rotated = tn__attr_int(call->op, "rotary_embedding_dim", 0);
    *frame = (rotary_frame){.flat = x->rank == 3,
                            .interleaved = tn__attr_int(call->op, "interleaved", 0) != 0};
    if (x->rank != 3 && x->rank != 4) return tn__call_bad_shape(call, 0);
    if (!frame->flat) heads = x->shape[1];
    if (heads < 1 || !attention_heads(x, frame->flat, (uint64_t)heads, &frame->size))
        return tn__call_bad_shape(call, 0);
    frame->batch = (uint64_t)x->shape[0];
    frame->heads = (uint64_t)heads;
    frame->length = (uint64_t)x->shape[frame->flat ? 1 : 2];
    if (rotated < 0 || (uint64_t)rotated > frame->size) return tn__call_bad_shape(call, 0);
    frame->half = (rotated > 0 ? (uint64_t)rotated : frame->size) / 2;
    return tn__check_result(call, 0, x->rank, x->shape);
}

static tn_status attention_run_rotary(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *cosines = &call->inputs[1], *sines = &call->inputs[2],
                     *ids = tn__call_input(call, 3);
    rotary_frame frame;
    TN_TRY(attention_read_rotary(call, &frame));
    const int64_t half = (int64_t)frame.half;
    const int64_t each[3] = {(int64_t)frame.batch, (int64_t)frame.length, half};
    uint64_t rows = frame.batch * frame.length;
    if (ids != NULL) {
        if (cosines->rank != 2) return tn__call_bad_shape(call, 1);
        const int64_t table[2] = {cosines->shape[0], half};
        rows = (uint64_t)table[0];
        for (uint32_t i = 1; i < 3; i++) TN_TRY(tn__check_shape(call, i, 2, table));
        TN_TRY(tn__check_count(call, 3, frame.batch * frame.length));
    } else {
        for (uint32_t i = 1; i < 3; i++) TN_TRY(tn__check_shape(call, i, 3, each));
    }
    tn__operand_copy(&call->outputs[0], x);
    for (uint64_t b = 0; b < frame.batch; b++) {
        tn__attend_side y = tn__attend_side_of(&call->outputs[0], frame.flat, b, frame.heads,
                                               frame.length, frame.size);
        for (uint64_t t = 0; t < frame.length; t++) {
            uint64_t at = b * frame.length + t;
            int64_t position = ids != NULL ? tn__index(ids, at) : (int64_t)at;
            if (position < 0 || (uint64_t)position >= rows)
                return tn__call_bad_index(call, position, 0, (int64_t)rows);
            const float *c = (const float *)cosines->data + (uint64_t)position * frame.half;
            const float *s = (const float *)sines->data + (uint64_t)position * frame.half;
            for (uint64_t h = 0; h < frame.heads; h++) {
                float *row = y.data + h * y.head + t * y.row;
                tn__rotate(row, row, c, s, frame.half, frame.interleaved);
            }
        }
    }
    return TN_OK;
}

static bool attention_accepts_rotary(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 4, 0) &&
           tn__input_may_be(setup, 3, TN__TYPES_INDEX);
}

static const tn_kernel attention_kernels[] = {
    {.type = "Attention",
     .accepts = attention_accepts,
     .workspace = attention_workspace,
     .run = attention_run},
    {.type = "RotaryEmbedding", .accepts = attention_accepts_rotary, .run = attention_run_rotary},
};

TN_KERNEL_FAMILY(attention, "");
