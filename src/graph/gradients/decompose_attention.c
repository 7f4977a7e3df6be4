/* decompose_attention.c - Attention and RotaryEmbedding as products, a soft maximum and views, for
 * training.
 *
 * B is the batch, H the number of query heads, G the number of key heads, S the number of queries
 * and D the size of a head. The H / G query heads that share a key head become rows of one product:
 * [B, H, S, D] is read as [B, G, (H / G) S, D], so keys and values are not repeated. A masked key
 * gets the score ATTENTION_UNSEEN, for which the soft maximum is exactly 0. The result of a query
 * that is masked from all keys is 0.
 * Source: operator texts of ONNX, opsets 23 to 25; docs/ContribOperators.md of ONNX Runtime.
 */
#include <math.h>
#include <string.h>

#include "graph/gradients/decompose.h"

#define ATTENTION_UNSEEN (-1e30)

typedef struct attention_parts {
    int64_t batch, heads, groups, queries, keys, past, total, size, value_size;
    bool flat; /* true: queries, keys and values have rank 3: [batch, length, heads * size] */
    tn_tensor_id q, k, v; /* queries [B, G, rows, D], keys [B, G, T, D], values [B, G, T, Dv] */
    /* bias: added to scores; sees: bool, whether a query may use a key; TN_NONE: no such operand */
    tn_tensor_id bias, sees;
    bool may_be_blind; /* true: some query may be masked from all keys */
} attention_parts;

/* --- shapes --- */

static tn_status attention_read(tn_decompose *it, attention_parts *a) {
    const tn_tensor *q = tn__decompose_input(it, 0), *k = tn__decompose_input(it, 1),
                    *v = tn__decompose_input(it, 2), *past = tn__decompose_input(it, 4);
    if (tn__decompose_in(it, 6) != TN_NONE)
        return tn__decompose_fail(it, "no gradient with nonpad_kv_seqlen");
    if (tn__decompose_out(it, 3) != TN_NONE)
        return tn__decompose_fail(it, "no gradient if output 3, the scores, is wanted");
    bool known = tn__shape_known(q) && tn__shape_known(k) && tn__shape_known(v) &&
                 (past == NULL || tn__shape_known(past));
    if (!known)
        return tn__decompose_fail(it, "no gradient if the shapes of queries, keys or values are "
                                      "unknown before the run");
    *a = (attention_parts){.flat = q->rank == 3, .bias = TN_NONE, .sees = TN_NONE};
    uint32_t along = a->flat ? 1 : 2;
    a->batch = q->shape[0];
    a->heads = a->flat ? tn__attr_int(it->op, "q_num_heads", 1) : q->shape[1];
    a->groups = a->flat ? tn__attr_int(it->op, "kv_num_heads", 1) : k->shape[1];
    if (a->heads < 1 || a->groups < 1 || a->heads % a->groups != 0)
        return tn__decompose_fail(it, "%lld query heads are no multiple of %lld key heads",
                                  (long long)a->heads, (long long)a->groups);
    a->queries = q->shape[along];
    a->keys = k->shape[along];
    a->size = a->flat ? q->shape[2] / a->heads : q->shape[3];
    a->value_size = a->flat ? v->shape[2] / a->groups : v->shape[3];
    a->past = past != NULL ? past->shape[2] : 0;
    a->total = a->past + a->keys;
    return TN_OK;
}

/* Brings an operand to shape [B, heads, length, size]; it has this shape or, if flat, [B, length,
 * heads * size]. */
static tn_status attention_heads(tn_decompose *it, const attention_parts *a, tn_tensor_id from,
                                 int64_t heads, int64_t length, int64_t size, tn_tensor_id *y) {
    static const int64_t perm[] = {0, 2, 1, 3};
    const int64_t shape[] = {a->batch, length, heads, size};
    *y = from;
    if (!a->flat) return TN_OK;
    TN_TRY(tn__decompose_reshape(it, from, shape, 4, y));
    return tn__decompose_transpose(it, *y, perm, 4, y);
}

/* Makes the keys (`which` 0) or values (1) of all positions: those of earlier calls (past), then
 * those of this call. They are also the operator's output present. */
static tn_status attention_sequence(tn_decompose *it, const attention_parts *a, uint32_t which,
                                    tn_tensor_id *y) {
    static const int64_t along = 2;
    const tn_attr axis = TN__ATTR_INT("axis", &along);
    tn_tensor_id past = tn__decompose_in(it, 4 + which);
    int64_t size = which == 0 ? a->size : a->value_size;
    TN_TRY(attention_heads(it, a, tn__decompose_in(it, 1 + which), a->groups, a->keys, size, y));
    if (past != TN_NONE) {
        tn_tensor_id both = TN_NONE;
        TN_TRY(tn__decompose_add(it, "Concat", TN__LIST(past, *y), &axis, 1, &both, 1));
        *y = both;
    }
    return tn__decompose_give(it, 1 + which, *y);
}

/* --- masks: which keys a query may use --- */

/* Makes the integers first to first + count - 1 as a row (axis 0) or a column (axis 1). */
static tn_status attention_range(tn_decompose *it, int64_t first, int64_t count, int64_t axis,
                                 tn_tensor_id *y) {
    tn_tensor_id from, to, by, list = TN_NONE;
    TN_TRY(tn__decompose_integer(it, first, &from));
    TN_TRY(tn__decompose_integer(it, first + count, &to));
    TN_TRY(tn__decompose_integer(it, 1, &by));
    TN_TRY(tn__decompose_add(it, "Range", TN__LIST(from, to, by), NULL, 0, &list, 1));
    return tn__decompose_unsqueeze(it, list, axis, y);
}

static tn_status attention_and(tn_decompose *it, attention_parts *a, tn_tensor_id sees) {
    if (a->sees != TN_NONE) return tn__decompose_two(it, "And", a->sees, sees, &a->sees);
    a->sees = sees;
    return TN_OK;
}

/* Adds the masks of is_causal and of the windows. Query i has position p = past + i. It sees key j
 * if j <= p (causal), j >= p - left and j <= p + right. */
static tn_status attention_window(tn_decompose *it, attention_parts *a) {
    int64_t left = tn__attr_int(it->op, "left_window_size", -1);
    int64_t right = tn__attr_int(it->op, "right_window_size", -1);
    bool causal = tn__attr_int(it->op, "is_causal", 0) != 0;
    tn_tensor_id position, key, sees;
    if (causal && right != 0) right = 0;
    if (left < 0 && right < 0) return TN_OK;
    TN_TRY(attention_range(it, 0, a->total, 0, &key));
    if (right >= 0) {
        TN_TRY(attention_range(it, a->past + right, a->queries, 1, &position));
        TN_TRY(tn__decompose_two(it, "LessOrEqual", key, position, &sees));
        TN_TRY(attention_and(it, a, sees));
    }
    if (left < 0) return TN_OK;
    a->may_be_blind = a->past + a->queries > a->total;
    TN_TRY(attention_range(it, a->past - left, a->queries, 1, &position));
    TN_TRY(tn__decompose_two(it, "GreaterOrEqual", key, position, &sees));
    return attention_and(it, a, sees);
}

/* Adds operand attn_mask: booleans say which keys a query sees; numbers are added to scores, and
 * -inf means that the key is not seen. */
static tn_status attention_mask(tn_decompose *it, attention_parts *a) {
    const tn_tensor *mask = tn__decompose_input(it, 3);
    tn_tensor_id id = tn__decompose_in(it, 3), never, sees;
    if (mask == NULL) return TN_OK;
    if (!tn__shape_known(mask) || mask->rank < 1 || mask->shape[mask->rank - 1] != a->total)
        return tn__decompose_fail(it,
                                  "no gradient if the mask's last extent is not known to be "
                                  "the number of keys, %lld",
                                  (long long)a->total);
    a->may_be_blind = true;
    if (mask->dtype == TN_BOOL) return attention_and(it, a, id);
    a->bias = id;
    TN_TRY(tn__decompose_number(it, -INFINITY, &never));
    TN_TRY(tn__decompose_two(it, "Greater", id, never, &sees));
    return attention_and(it, a, sees);
}

/* --- probabilities and the result of attention; rotary embedding --- */

/* Computes probabilities from the scores [B, H, S, T]: softcap, bias, mask, then the soft
 * maximum. */
static tn_status attention_soften(tn_decompose *it, const attention_parts *a, tn_tensor_id scores,
                                  tn_tensor_id *y) {
    static const int64_t last = -1;
    const tn_attr axis = TN__ATTR_INT("axis", &last);
    double cap = tn__attr_float(it->op, "softcap", 0);
    tn_tensor_id number;
    if (cap > 0) {
        TN_TRY(tn__decompose_number(it, cap, &number));
        TN_TRY(tn__decompose_two(it, "Div", scores, number, &scores));
        TN_TRY(tn__decompose_one(it, "Tanh", scores, NULL, 0, &scores));
        TN_TRY(tn__decompose_two(it, "Mul", scores, number, &scores));
    }
    if (a->bias != TN_NONE) TN_TRY(tn__decompose_two(it, "Add", scores, a->bias, &scores));
    if (a->sees != TN_NONE) {
        tn_tensor_id seen = TN_NONE;
        TN_TRY(tn__decompose_number(it, ATTENTION_UNSEEN, &number));
        TN_TRY(
            tn__decompose_add(it, "Where", TN__LIST(a->sees, scores, number), NULL, 0, &seen, 1));
        scores = seen;
    }
    return tn__decompose_one(it, "Softmax", scores, &axis, 1, y);
}

/* Sets rows of the result to 0 if their query sees no key. */
static tn_status attention_blind(tn_decompose *it, const attention_parts *a, tn_tensor_id *y) {
    static const int64_t last = -1, keep = 1;
    const int64_t to = it->dtype;
    const tn_attr kept = TN__ATTR_INT("keepdims", &keep), cast = TN__ATTR_INT("to", &to);
    tn_tensor_id numbers, list, most = TN_NONE, zero, some, rows = TN_NONE;
    if (!a->may_be_blind) return TN_OK;
    TN_TRY(tn__decompose_one(it, "Cast", a->sees, &cast, 1, &numbers));
    TN_TRY(tn__decompose_list(it, &last, 1, &list));
    TN_TRY(tn__decompose_add(it, "ReduceMax", TN__LIST(numbers, list), &kept, 1, &most, 1));
    TN_TRY(tn__decompose_number(it, 0, &zero));
    TN_TRY(tn__decompose_two(it, "Greater", most, zero, &some));
    TN_TRY(tn__decompose_add(it, "Where", TN__LIST(some, *y, zero), NULL, 0, &rows, 1));
    *y = rows;
    return TN_OK;
}

/* Writes the result, of shape [B, H, S, Dv], to output 0, in the shape of the operator's
 * operands. */
static tn_status attention_result(tn_decompose *it, const attention_parts *a, tn_tensor_id y) {
    static const int64_t perm[] = {0, 2, 1, 3};
    const int64_t shape[] = {a->batch, a->queries, a->heads * a->value_size};
    if (a->flat) {
        TN_TRY(tn__decompose_transpose(it, y, perm, 4, &y));
        TN_TRY(tn__decompose_reshape(it, y, shape, 3, &y));
    }
    return tn__decompose_give(it, 0, y);
}

TN__DECOMPOSE(attention) {
    static const int64_t turned[] = {0, 1, 3, 2};
    attention_parts a;
    TN_TRY(attention_read(it, &a));
    const double scale = tn__attr_float(it->op, "scale", 1 / sqrt((double)a.size));
    const int64_t rows = a.heads / a.groups * a.queries;
    const int64_t grouped[] = {a.batch, a.groups, rows, a.size},
                  softened[] = {a.batch, a.groups, rows, a.total},
                  whole[] = {a.batch, a.heads, a.queries, a.total},
                  result[] = {a.batch, a.heads, a.queries, a.value_size};
    tn_tensor_id factor, keys, scores, y;
    TN_TRY(attention_heads(it, &a, tn__decompose_in(it, 0), a.heads, a.queries, a.size, &a.q));
    TN_TRY(attention_sequence(it, &a, 0, &a.k));
    TN_TRY(attention_sequence(it, &a, 1, &a.v));
    TN_TRY(attention_window(it, &a));
    TN_TRY(attention_mask(it, &a));
    TN_TRY(tn__decompose_number(it, scale, &factor));
    TN_TRY(tn__decompose_two(it, "Mul", a.q, factor, &a.q));
    if (a.heads != a.groups) TN_TRY(tn__decompose_reshape(it, a.q, grouped, 4, &a.q));
    TN_TRY(tn__decompose_transpose(it, a.k, turned, 4, &keys));
    TN_TRY(tn__decompose_two(it, "MatMul", a.q, keys, &scores));
    if (a.heads != a.groups) TN_TRY(tn__decompose_reshape(it, scores, whole, 4, &scores));
    TN_TRY(attention_soften(it, &a, scores, &scores));
    if (a.heads != a.groups) TN_TRY(tn__decompose_reshape(it, scores, softened, 4, &scores));
    TN_TRY(tn__decompose_two(it, "MatMul", scores, a.v, &y));
    if (a.heads != a.groups) TN_TRY(tn__decompose_reshape(it, y, result, 4, &y));
    TN_TRY(attention_blind(it, &a, &y));
    return attention_result(it, &a, y);
}

/* --- RotaryEmbedding --- */

typedef struct rotary_parts {
    /* channels of a head; channels of these that rotate; half of the rotating channels */
    int64_t size, rotated, half;
    bool interleaved; /* true: a pair is channels 2i and 2i + 1; false: channels i and i + half */
    tn_tensor_id cosines, sines;
} rotary_parts;

/* Splits `x`, whose last extent is `rotated`, into the first and the second channels of its
 * pairs. */
static tn_status rotary_pairs(tn_decompose *it, const rotary_parts *r, tn_tensor_id x,
                              tn_tensor_id pairs[2]) {
    const int64_t halves[] = {r->half, r->half}, last = -1, two = 2;
    tn_tensor_id from, to, axes, steps;
    if (!r->interleaved) return tn__decompose_split(it, x, -1, halves, 2, pairs);
    TN_TRY(tn__decompose_list(it, &r->rotated, 1, &to));
    TN_TRY(tn__decompose_list(it, &last, 1, &axes));
    TN_TRY(tn__decompose_list(it, &two, 1, &steps));
    for (int64_t k = 0; k < 2; k++) {
        pairs[k] = TN_NONE;
        TN_TRY(tn__decompose_list(it, &k, 1, &from));
        TN_TRY(tn__decompose_add(it, "Slice", TN__LIST(x, from, to, axes, steps), NULL, 0,
                                 &pairs[k], 1));
    }
    return TN_OK;
}

/* Rotates the pairs: the new ones are first * cos - second * sin and first * sin + second * cos. */
static tn_status rotary_turn(tn_decompose *it, const rotary_parts *r, tn_tensor_id pairs[2]) {
    tn_tensor_id products[4], turned[2];
    TN_TRY(tn__decompose_two(it, "Mul", pairs[0], r->cosines, &products[0]));
    TN_TRY(tn__decompose_two(it, "Mul", pairs[1], r->sines, &products[1]));
    TN_TRY(tn__decompose_two(it, "Mul", pairs[0], r->sines, &products[2]));
    TN_TRY(tn__decompose_two(it, "Mul", pairs[1], r->cosines, &products[3]));
    TN_TRY(tn__decompose_two(it, "Sub", products[0], products[1], &turned[0]));
    TN_TRY(tn__decompose_two(it, "Add", products[2], products[3], &turned[1]));
    memcpy(pairs, turned, sizeof turned);
    return TN_OK;
}

/* Joins pairs to channels, the reverse of rotary_pairs. `shape` is that of the rotated channels and
 * has rank 4. */
static tn_status rotary_join(tn_decompose *it, const rotary_parts *r, tn_tensor_id pairs[2],
                             const int64_t *shape, tn_tensor_id *y) {
    static const int64_t last = -1;
    const tn_attr axis = TN__ATTR_INT("axis", &last);
    for (uint32_t k = 0; k < 2 && r->interleaved; k++)
        TN_TRY(tn__decompose_unsqueeze(it, pairs[k], -1, &pairs[k]));
    *y = TN_NONE;
    TN_TRY(tn__decompose_add(it, "Concat", pairs, 2, &axis, 1, y, 1));
    return r->interleaved ? tn__decompose_reshape(it, *y, shape, 4, y) : TN_OK;
}

/* Adds the operators of a rotary embedding. With `ids`, the positions [B, S], the tables have shape
 * [max, half] and are indexed by position. If `ids` is TN_NONE, the tables have shape [B, S,
 * half]. */
static tn_status rotary_decompose(tn_decompose *it, tn_tensor_id ids, tn_tensor_id cosines,
                                  tn_tensor_id sines) {
    static const int64_t last = -1;
    const tn_attr axis = TN__ATTR_INT("axis", &last);
    const tn_tensor *x = tn__decompose_input(it, 0);
    tn_tensor_id *const tables[] = {&cosines, &sines}, from = tn__decompose_in(it, 0);
    if (!tn__shape_known(x))
        return tn__decompose_fail(it, "no gradient if the shape is unknown before the run");
    const bool flat = x->rank == 3;
    const int64_t heads = flat ? tn__attr_int(it->op, "num_heads", 0) : x->shape[1];
    if (x->rank < 3 || x->rank > 4 || heads < 1)
        return tn__decompose_fail(it, "no gradient without the number of heads");
    rotary_parts r = {.size = flat ? x->shape[2] / heads : x->shape[3],
                      .interleaved = tn__attr_int(it->op, "interleaved", 0) != 0};
    r.rotated = tn__attr_int(it->op, "rotary_embedding_dim", 0);
    if (r.rotated <= 0) r.rotated = r.size;
    r.half = r.rotated / 2;
    const int64_t by_row[] = {x->shape[0], x->shape[1], heads, r.size};
    int64_t shape[4] = {x->shape[0], flat ? x->shape[1] : heads, flat ? heads : x->shape[2],
                        r.rotated};
    for (uint32_t k = 0; k < 2; k++) { /* give the tables [B, S, half] an axis for the heads */
        tn_tensor_id table = *tables[k];
        if (ids != TN_NONE) TN_TRY(tn__decompose_two(it, "Gather", table, ids, &table));
        TN_TRY(tn__decompose_unsqueeze(it, table, flat ? 2 : 1, tables[k]));
    }
    r.cosines = cosines;
    r.sines = sines;
    if (flat) TN_TRY(tn__decompose_reshape(it, from, by_row, 4, &from));
    const int64_t sizes[] = {r.rotated, r.size - r.rotated};
    tn_tensor_id parts[2] = {from, TN_NONE}, pairs[2], y;
    if (sizes[1] > 0) TN_TRY(tn__decompose_split(it, from, -1, sizes, 2, parts));
    TN_TRY(rotary_pairs(it, &r, parts[0], pairs));
    TN_TRY(rotary_turn(it, &r, pairs));
    TN_TRY(rotary_join(it, &r, pairs, shape, &y));
    if (sizes[1] > 0) {
        tn_tensor_id both = TN_NONE;
        TN_TRY(tn__decompose_add(it, "Concat", TN__LIST(y, parts[1]), &axis, 1, &both, 1));
        y = both;
    }
    if (flat) TN_TRY(tn__decompose_reshape(it, y, x->shape, 3, &y));
    return tn__decompose_give(it, 0, y);
}

TN__DECOMPOSE(rotary) {
    return rotary_decompose(it, tn__decompose_in(it, 3), tn__decompose_in(it, 1),
                            tn__decompose_in(it, 2));
}

/* RotaryEmbedding of com.microsoft, whose positions come before the tables. Forms with one position
 * for all rows, a scale, or packed batches have no gradient. */
TN__DECOMPOSE(contrib_rotary) {
    const tn_tensor *ids = tn__decompose_input(it, 1);
    double scale = tn__attr_float(it->op, "scale", 1);
    if (ids == NULL || ids->rank != 2 || scale != 1 ||
        tn__attr_int(it->op, "is_packed_batching", 0) != 0)
        return tn__decompose_fail(it, "no gradient for packed batches, scales, or a single "
                                      "position_ids");
    return rotary_decompose(it, tn__decompose_in(it, 1), tn__decompose_in(it, 2),
                            tn__decompose_in(it, 3));
}
