/* attention.c - attention, its caches and positions, and recurrences that replace it: Attention,
 * RotaryEmbedding, LinearAttention, CausalConvWithState.
 *
 * A tensor of heads is [batch, heads, length, size], or [batch, length, heads * size] with the
 * number of heads as an attribute. Keys and values of earlier calls ("past") stand before the new
 * ones in the output ("present"). Without a past, `present` is a view of the new keys and values.
 * Attributes are read in any operator set, because the window of Attention was added to opset 25
 * after its release. Source: operator texts of ONNX, opsets 23 to 28.
 */
#include "graph/gradients/decompose.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

enum { ATTENTION_HEADS_MAX = 1 << 24 };

/* --- Attention --- */

typedef struct attention_extents {
    /* number of heads of queries (heads), and of keys and values (groups) */
    int64_t batch, heads, groups;
    int64_t queries, keys, total; /* lengths: number of queries, of new keys, and of all keys */
    int64_t size, value_size;     /* sizes of a head of queries and keys, and of a head of values */
    bool flat;                    /* true: tensors of rank 3 */
} attention_extents;

static tn_status attention_read_heads(tn_infer *infer, attention_extents *dims) {
    const tn_tensor *q = tn__input(infer, 0), *k = tn__input(infer, 1), *v = tn__input(infer, 2);
    if (!dims->flat) {
        dims->heads = tn__extent(q, 1);
        dims->groups = tn__extent_or(tn__extent(k, 1), tn__extent(v, 1));
        dims->size = tn__extent_or(tn__extent(q, 3), tn__extent(k, 3));
        dims->value_size = tn__extent(v, 3);
        dims->queries = tn__extent(q, 2);
        dims->keys = tn__extent_or(tn__extent(k, 2), tn__extent(v, 2));
        TN_TRY(tn__extents_agree(infer, 1, 1, 2, 1));
        TN_TRY(tn__extents_agree(infer, 1, 2, 2, 2));
        return tn__extents_agree(infer, 0, 3, 1, 3);
    }
    TN_TRY(tn__attr_count(infer, "q_num_heads", 0, 1, ATTENTION_HEADS_MAX, &dims->heads));
    TN_TRY(tn__attr_count(infer, "kv_num_heads", 0, 1, ATTENTION_HEADS_MAX, &dims->groups));
    dims->size = tn__extent_or(tn__extent_div(tn__extent(q, 2), dims->heads),
                               tn__extent_div(tn__extent(k, 2), dims->groups));
    dims->value_size = tn__extent_div(tn__extent(v, 2), dims->groups);
    dims->queries = tn__extent(q, 1);
    dims->keys = tn__extent_or(tn__extent(k, 1), tn__extent(v, 1));
    return tn__extents_agree(infer, 1, 1, 2, 1);
}

static tn_status attention_read(tn_infer *infer, attention_extents *dims) {
    const tn_tensor *q = tn__input(infer, 0), *past = tn__input(infer, 4);
    *dims = (attention_extents){.flat = q->rank == 3};
    if (q->rank != 3 && q->rank != 4)
        return tn__infer_fail(infer, "'%.60s' has rank %u; queries have rank 3 or 4", q->name,
                              q->rank);
    for (uint32_t i = 1; i < 3; i++) TN_TRY(tn__rank_between(infer, i, q->rank, q->rank));
    if ((past == NULL) != (tn__input(infer, 5) == NULL))
        return tn__infer_fail(infer, "past_key and past_value must be given together");
    if (tn__input(infer, 6) != NULL &&
        (past != NULL || tn__output(infer, 1) != NULL || tn__output(infer, 2) != NULL))
        return tn__infer_fail(infer, "nonpad_kv_seqlen excludes past_key, past_value, present_key "
                                     "and present_value");
    TN_TRY(tn__rank_between(infer, 4, 4, 4));
    TN_TRY(tn__rank_between(infer, 5, 4, 4));
    TN_TRY(tn__extents_agree(infer, 0, 0, 1, 0));
    dims->batch = tn__extent_or(tn__extent(q, 0), tn__extent(tn__input(infer, 1), 0));
    TN_TRY(attention_read_heads(infer, dims));
    if (dims->heads != TN_DIM_UNKNOWN && dims->groups != TN_DIM_UNKNOWN &&
        (dims->groups < 1 || dims->heads % dims->groups != 0))
        return tn__infer_fail(infer, "%lld query heads are no multiple of %lld key heads",
                              (long long)dims->heads, (long long)dims->groups);
    dims->total = past != NULL ? tn__extent_add(tn__extent(past, 2), dims->keys) : dims->keys;
    return TN_OK;
}

static tn_status attention_shape(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *k = tn__input(infer, 1), *v = tn__input(infer, 2);
    attention_extents dims;
    if (!tn__rank_known(q)) {
        TN_TRY(tn__set_dtype(infer, 0, q->dtype));
        TN_TRY(tn__set_dtype(infer, 1, k->dtype));
        TN_TRY(tn__set_dtype(infer, 2, v->dtype));
        return tn__set_dtype(infer, 3, q->dtype);
    }
    TN_TRY(attention_read(infer, &dims));
    int64_t whole[4] = {dims.batch, dims.heads, dims.queries, dims.value_size};
    int64_t flat[3] = {dims.batch, dims.queries, tn__extent_mul(dims.heads, dims.value_size)};
    int64_t key[4] = {dims.batch, dims.groups, dims.total, dims.size};
    int64_t value[4] = {dims.batch, dims.groups, dims.total, dims.value_size};
    int64_t scores[4] = {dims.batch, dims.heads, dims.queries, dims.total};
    TN_TRY(tn__set_output(infer, 0, q->dtype, dims.flat ? 3 : 4, dims.flat ? flat : whole));
    TN_TRY(tn__set_output(infer, 1, k->dtype, 4, key));
    TN_TRY(tn__set_output(infer, 2, v->dtype, 4, value));
    return tn__set_output(infer, 3, q->dtype, 4, scores);
}

/* Operations of attention: two products, and a softmax of the scores. */
static uint64_t attention_flops(tn_infer *infer) {
    tn_error unused;
    tn_infer quiet = *infer;
    attention_extents dims;
    quiet.error = &unused;
    if (!tn__rank_known(tn__input(infer, 0)) || attention_read(&quiet, &dims) != TN_OK)
        return TN_SIZE_UNKNOWN;
    int64_t scores = tn__extent_mul(tn__extent_mul(dims.batch, dims.heads),
                                    tn__extent_mul(dims.queries, dims.total));
    int64_t each =
        tn__extent_add(tn__extent_mul(2, tn__extent_add(dims.size, dims.value_size)), 12);
    int64_t flops = tn__extent_mul(scores, each);
    return flops == TN_DIM_UNKNOWN || flops < 0 ? TN_SIZE_UNKNOWN : (uint64_t)flops;
}

/* Without a past, the new keys and values are the present ones: outputs 1 and 2 are views of them,
 * if they have rank 4. */
static tn_view attention_view(tn_infer *infer, uint32_t output) {
    const tn_tensor *from = output == 1 || output == 2 ? tn__input(infer, output) : NULL;
    bool same = from != NULL && tn__input(infer, 4) == NULL && tn__rank_known(from) &&
                from->rank == 4 && tn__output(infer, output) != NULL &&
                tn__output(infer, output)->dtype == from->dtype;
    return same ? tn__view_input(infer, output, 0) : tn__no_view;
}

/* --- RotaryEmbedding --- */

static tn_status attention_shape_rotary(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t heads, rotated;
    TN_TRY(tn__rank_between(infer, 0, 3, 4));
    TN_TRY(tn__attr_count(infer, "num_heads", 0, 0, ATTENTION_HEADS_MAX, &heads));
    TN_TRY(tn__attr_count(infer, "rotary_embedding_dim", 0, 0, INT32_MAX, &rotated));
    if (tn__rank_known(x) && x->rank == 3 && heads == 0)
        return tn__infer_fail(infer, "attribute num_heads is missing; an input of rank 3 needs it");
    return tn__shape_first(infer);
}

/* --- recurrences --- */

/* Sets the shapes of CausalConvWithState: x [B, C, L], weights [C, 1, k]. The state holds the last
 * k - 1 columns. */
static tn_status attention_shape_causal(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1), *past = tn__input(infer, 3);
    TN_TRY(tn__rank_between(infer, 0, 3, 3));
    TN_TRY(tn__rank_between(infer, 1, 3, 3));
    TN_TRY(tn__rank_between(infer, 3, 3, 3));
    TN_TRY(tn__extents_agree(infer, 0, 1, 1, 0));
    TN_TRY(tn__shape_first(infer));
    int64_t taps = tn__extent(w, 2);
    if (taps == 0) return tn__infer_fail(infer, "'%.60s' has no taps", w->name);
    int64_t state[3] = {tn__extent(x, 0), tn__extent_or(tn__extent(x, 1), tn__extent(w, 0)),
                        tn__extent_or(tn__extent_add(taps, -1), tn__extent(past, 2))};
    return tn__set_output(infer, 1, past != NULL ? past->dtype : x->dtype, 3, state);
}

/* Sets the shapes of LinearAttention: q [B, S, Hq * D], k [B, S, Hk * D], v [B, S, Hk * Dv], state
 * [B, Hk, D, Dv]. */
static tn_status attention_shape_linear(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *k = tn__input(infer, 1), *v = tn__input(infer, 2);
    const tn_tensor *past = tn__input(infer, 3);
    int64_t heads, groups;
    for (uint32_t i = 0; i < 3; i++) TN_TRY(tn__rank_between(infer, i, 3, 3));
    TN_TRY(tn__rank_between(infer, 3, 4, 4));
    TN_TRY(tn__attr_count(infer, "q_num_heads", 0, 1, ATTENTION_HEADS_MAX, &heads));
    TN_TRY(tn__attr_count(infer, "kv_num_heads", 0, 1, ATTENTION_HEADS_MAX, &groups));
    if (heads % groups != 0)
        return tn__infer_fail(infer, "%lld query heads are no multiple of %lld key heads",
                              (long long)heads, (long long)groups);
    int64_t size = tn__extent_or(tn__extent_div(tn__extent(k, 2), groups),
                                 tn__extent_div(tn__extent(q, 2), heads));
    int64_t value_size =
        tn__extent_or(tn__extent_div(tn__extent(v, 2), groups), tn__extent(past, 3));
    int64_t y[3] = {tn__extent(q, 0), tn__extent(q, 1), tn__extent_mul(heads, value_size)};
    int64_t state[4] = {tn__extent(q, 0), groups, size, value_size};
    TN_TRY(tn__set_output(infer, 0, q->dtype, 3, y));
    return tn__set_output(infer, 1, past != NULL ? past->dtype : q->dtype, 4, state);
}

/* The new state may overwrite the old one. */
static uint64_t attention_inplace_state(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 1 ? 1u << 3 : 0;
}

/* Operations per token and head: decay of the state, a product with the state, its update, another
 * product. */
static uint64_t attention_flops_linear(tn_infer *infer) {
    const tn_tensor *y = tn__output(infer, 0), *k = tn__input(infer, 1);
    if (y == NULL || !tn__rank_known(k) || k->rank != 3 || k->shape[2] < 0) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(y), tn__mul_sat(6, (uint64_t)k->shape[2]));
}

static uint64_t attention_flops_causal(tn_infer *infer) {
    const tn_tensor *w = tn__input(infer, 1);
    if (!tn__rank_known(w) || w->rank != 3 || w->shape[2] < 0) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(tn__output(infer, 0)), tn__mul_sat(2, (uint64_t)w->shape[2]));
}

/* These operators are only divided along the batch. Along the sequence, a part would need the state
 * of a convolution or of linear attention, which comes from the parts before it. */
static bool attention_split_batch(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    (void)infer;
    if (part->axis != 0) return false;
    return input == 1 || input == 2 ? tn__need_all(need) : tn__need_same(need, 0, part);
}

/* clang-format off */
static const tn_op_rule attention_rules[] = {
    {.type = "Attention", .inputs_min = 3, .inputs_max = 7, .outputs_max = 4,
     .shape = attention_shape, .flops = attention_flops, .view = attention_view,
     .no_gradient = 64, .decompose = tn__decompose_attention, .flags = TN_RULE_MATMUL_LIKE},
    {.type = "CausalConvWithState", .inputs_min = 2, .inputs_max = 4, .outputs_max = 2,
     .shape = attention_shape_causal, .flops = attention_flops_causal, .weights = 2 | 4,
     .decompose = tn__decompose_causal_conv, .split = attention_split_batch, .flags = TN_RULE_CONV_LIKE},
    {.type = "LinearAttention", .inputs_min = 3, .inputs_max = 6, .outputs_max = 2,
     .shape = attention_shape_linear, .flops = attention_flops_linear,
     .inplace_of = attention_inplace_state, .flags = TN_RULE_MATMUL_LIKE},
    {.type = "RotaryEmbedding", .inputs_min = 3, .inputs_max = 4, .outputs_max = 1,
     .shape = attention_shape_rotary, .flops_per = 3, .inplace = 1, .no_gradient = 2 | 4 | 8,
     .decompose = tn__decompose_rotary},
};
/* clang-format on */

TN_OP_FAMILY(attention, "");
