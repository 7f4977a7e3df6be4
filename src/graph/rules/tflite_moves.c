/* tflite_moves.c - shapes of operators that move elements; values of operators that compute shapes.
 *
 * Values are tracked from SHAPE through slices, packs and a little arithmetic to the RESHAPE that
 * needs them. The tensors are otherwise ordinary: the operators run each time, and their results
 * are in the arena.
 */
#include "graph/rules/tflite_shapes.h"

/* largest number of elements with tracked values: the extents of a shape */
#define MOVES_VALUES 64u

/* --- contents --- */

static const int64_t *moves_few(const tn_infer *infer, uint32_t index, uint32_t *count) {
    const int64_t *ints = tn__tflite_ints(infer, index, count);
    return ints && *count <= MOVES_VALUES ? ints : NULL;
}

/* Sets the values of output 0 to those of the operand, in its order, if the shape of the output is
 * known. */
static tn_status moves_follow(tn_infer *infer, const int64_t *values, uint32_t count) {
    const tn_tensor *out = tn__output(infer, 0);
    if (!out || tn__elements(out) != count || count == 0 || !tn__is_integer(out->dtype))
        return TN_OK;
    return tn__set_value_ints(infer, 0, values, count);
}

static tn_status moves_same_contents(tn_infer *infer) {
    uint32_t count;
    const int64_t *ints = moves_few(infer, 0, &count);
    return ints ? moves_follow(infer, ints, count) : TN_OK;
}

tn_status tn__tflite_shape(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    TN_TRY(tn__tflite_set(infer, 0, 1, (int64_t[]){in->rank}));
    return moves_follow(infer, in->shape, in->rank);
}
tn_status tn__tflite_rank(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    TN_TRY(tn__tflite_set(infer, 0, 0, NULL));
    return moves_follow(infer, (int64_t[]){in->rank}, 1);
}
tn_status tn__tflite_cast(tn_infer *infer) {
    if (tn__tflite_stated(infer)) return TN_OK;
    TN_TRY(tn__tflite_like_first(infer));
    return moves_same_contents(infer);
}

static bool moves_compute(const char *type, int64_t a, int64_t b, int64_t *result) {
    if (strcmp(type, "ADD") == 0) return !__builtin_add_overflow(a, b, result);
    if (strcmp(type, "SUB") == 0) return !__builtin_sub_overflow(a, b, result);
    if (strcmp(type, "MUL") == 0) return !__builtin_mul_overflow(a, b, result);
    if ((strcmp(type, "DIV") != 0 && strcmp(type, "FLOOR_DIV") != 0) || a < 0 || b <= 0)
        return false;
    *result = a / b;
    return true;
}

/* Computes the values of ADD and similar operators. The operands have one dimension and equal
 * length, or one of them is a single number. */
tn_status tn__tflite_arithmetic(tn_infer *infer) {
    int64_t values[MOVES_VALUES];
    uint32_t m, n;
    if (tn__tflite_stated(infer)) return TN_OK;
    TN_TRY(tn__tflite_broadcast(infer));
    const int64_t *a = moves_few(infer, 0, &m), *b = moves_few(infer, 1, &n);
    if (!a || !b || m == 0 || n == 0 || (m != n && m != 1 && n != 1)) return TN_OK;
    uint32_t count = m > n ? m : n;
    for (uint32_t i = 0; i < count; i++)
        if (!moves_compute(infer->op->type, a[m == 1 ? 0 : i], b[n == 1 ? 0 : i], &values[i]))
            return TN_OK;
    return moves_follow(infer, values, count);
}

/* --- joining --- */

tn_status tn__tflite_concatenation(tn_infer *infer) {
    const tn_tensor *first = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX], values[MOVES_VALUES];
    uint32_t axis, at = 0;
    if (tn__tflite_stated(infer) || !first) return TN_OK;
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), first->rank, &axis));
    memcpy(shape, first->shape, first->rank * sizeof *shape);
    for (uint32_t i = 1; i < tn__input_count(infer); i++) {
        const tn_tensor *next = tn__tflite_known(infer, i);
        if (!next) return TN_OK;
        if (next->rank != first->rank)
            return tn__infer_fail(infer, "ranks %u and %u", first->rank, next->rank);
        for (uint32_t d = 0; d < first->rank; d++)
            if (d != axis && next->shape[d] != shape[d])
                return tn__infer_fail(infer, "input %u has %lld at axis %u, not %lld", i,
                                      (long long)next->shape[d], d, (long long)shape[d]);
        if (__builtin_add_overflow(shape[axis], next->shape[axis], &shape[axis])) return TN_OK;
    }
    TN_TRY(tn__tflite_set(infer, 0, first->rank, shape));
    for (uint32_t i = 0; i < tn__input_count(infer) && first->rank == 1; i++) {
        uint32_t count;
        const int64_t *ints = moves_few(infer, i, &count);
        if (!ints || at + count > MOVES_VALUES) return TN_OK;
        if (count) memcpy(values + at, ints, count * sizeof *values);
        at += count;
    }
    return first->rank == 1 ? moves_follow(infer, values, at) : TN_OK;
}

tn_status tn__tflite_pack(tn_infer *infer) {
    const tn_tensor *first = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX], values[MOVES_VALUES];
    uint32_t axis, count, inputs = tn__input_count(infer);
    if (tn__tflite_stated(infer) || !first || first->rank + 1 >= TN_RANK_MAX) return TN_OK;
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), first->rank + 1, &axis));
    for (uint32_t d = 0; d <= first->rank; d++)
        shape[d] = d < axis ? first->shape[d] : d == axis ? (int64_t)inputs : first->shape[d - 1];
    TN_TRY(tn__tflite_set(infer, 0, first->rank + 1, shape));
    for (uint32_t i = 0; i < inputs && first->rank == 0; i++) {
        const int64_t *ints = moves_few(infer, i, &count);
        if (!ints || count != 1 || inputs > MOVES_VALUES) return TN_OK;
        values[i] = ints[0];
    }
    return first->rank == 0 && inputs <= MOVES_VALUES ? moves_follow(infer, values, inputs) : TN_OK;
}

/* --- operators that take a part of a tensor or split it --- */

tn_status tn__tflite_unpack(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t axis, rank = 0;
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), in->rank, &axis));
    if (in->shape[axis] != (int64_t)tn__output_count(infer))
        return tn__infer_fail(infer, "%u outputs for an extent of %lld", tn__output_count(infer),
                              (long long)in->shape[axis]);
    for (uint32_t d = 0; d < in->rank; d++)
        if (d != axis) shape[rank++] = in->shape[d];
    for (uint32_t i = 0; i < tn__output_count(infer); i++)
        TN_TRY(tn__tflite_set(infer, i, rank, shape));
    return TN_OK;
}

tn_status tn__tflite_split(tn_infer *infer) { /* inputs of SPLIT: axis, tensor */
    const tn_tensor *in = tn__tflite_known(infer, 1);
    int64_t shape[TN_RANK_MAX];
    uint32_t count, axis, outputs = tn__output_count(infer);
    const int64_t *where = tn__tflite_ints(infer, 0, &count);
    if (tn__tflite_stated(infer) || !in || !where || count != 1 || outputs == 0) return TN_OK;
    TN_TRY(tn__axis(infer, where[0], in->rank, &axis));
    memcpy(shape, in->shape, in->rank * sizeof *shape);
    if (shape[axis] % outputs)
        return tn__infer_fail(infer, "%lld do not split into %u", (long long)shape[axis], outputs);
    shape[axis] /= outputs;
    for (uint32_t i = 0; i < outputs; i++) TN_TRY(tn__tflite_set(infer, i, in->rank, shape));
    return TN_OK;
}

tn_status tn__tflite_split_v(tn_infer *infer) { /* inputs of SPLIT_V: tensor, sizes, axis */
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX], rest;
    uint32_t count, one, axis;
    const int64_t *sizes = tn__tflite_ints(infer, 1, &count),
                  *where = tn__tflite_ints(infer, 2, &one);
    if (tn__tflite_stated(infer) || !in || !sizes || !where || one != 1) return TN_OK;
    TN_TRY(tn__axis(infer, where[0], in->rank, &axis));
    if (count != tn__output_count(infer)) return tn__infer_fail(infer, "%u sizes", count);
    memcpy(shape, in->shape, in->rank * sizeof *shape);
    rest = in->shape[axis];
    for (uint32_t i = 0; i < count; i++)
        if (sizes[i] >= 0 && __builtin_sub_overflow(rest, sizes[i], &rest)) return TN_OK;
    for (uint32_t i = 0; i < count; i++) {
        /* a size of -1 stands for the remaining elements */
        shape[axis] = sizes[i] < 0 ? rest : sizes[i];
        if (shape[axis] < 0) return tn__infer_fail(infer, "parts larger than the whole");
        TN_TRY(tn__tflite_set(infer, i, in->rank, shape));
    }
    return TN_OK;
}

tn_status tn__tflite_slice(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t m, n;
    const int64_t *begin = tn__tflite_ints(infer, 1, &m), *size = tn__tflite_ints(infer, 2, &n);
    if (tn__tflite_stated(infer) || !in || !begin || !size) return TN_OK;
    if (m != in->rank || n != in->rank) return tn__infer_fail(infer, "%u and %u extents", m, n);
    for (uint32_t d = 0; d < in->rank; d++) {
        bool inside = begin[d] >= 0 && begin[d] <= in->shape[d];
        shape[d] = inside && size[d] == -1 ? in->shape[d] - begin[d] : size[d];
        if (!inside || shape[d] < 0 || shape[d] > in->shape[d] - begin[d])
            return tn__infer_fail(infer, "axis %u of %lld is cut at %lld, %lld long", d,
                                  (long long)in->shape[d], (long long)begin[d],
                                  (long long)shape[d]);
    }
    return tn__tflite_set(infer, 0, in->rank, shape);
}

/* Clamps a begin or end of a strided slice as Python does. */
static int64_t moves_clamp(int64_t at, int64_t extent, int64_t step) {
    if (at < 0) at = at < -extent ? -1 : at + extent;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    return at < low ? low : at > high ? high : at;
}

typedef struct moves_cut {
    const int64_t *begin, *end, *step;
    uint32_t count;
    int64_t begin_mask, end_mask, ellipsis, fresh, shrink;
    bool is_offset; /* true: ends are relative to the begins */
} moves_cut;

static bool moves_bit(int64_t mask, uint32_t i) { return i < 63 && (mask >> i & 1); }

static tn_status moves_cut_axis(tn_infer *infer, const moves_cut *cut, uint32_t i, int64_t extent,
                                int64_t *from, int64_t *length) {
    int64_t step = cut->step[i], end = cut->end[i];
    if (step == 0 || step == INT64_MIN)
        return tn__infer_fail(infer, "a step of %lld", (long long)step);
    if (cut->is_offset && __builtin_add_overflow(cut->begin[i], end, &end)) end = INT64_MAX;
    *from = moves_bit(cut->begin_mask, i) ? (step > 0 ? 0 : extent - 1)
                                          : moves_clamp(cut->begin[i], extent, step);
    int64_t to =
        moves_bit(cut->end_mask, i) ? (step > 0 ? extent : -1) : moves_clamp(end, extent, step);
    if (moves_bit(cut->shrink, i)) {
        *length = 1;
        return TN_OK;
    }
    int64_t span = step > 0 ? to - *from : *from - to, stride = step > 0 ? step : -step;
    *length = span <= 0 ? 0 : (span - 1) / stride + 1;
    return TN_OK;
}

tn_status tn__tflite_strided_slice(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX], values[MOVES_VALUES], from = 0, length = 0;
    uint32_t b, e, s, rank = 0, axis = 0, few;
    moves_cut cut = {.begin = tn__tflite_ints(infer, 1, &b),
                     .end = tn__tflite_ints(infer, 2, &e),
                     .step = tn__tflite_ints(infer, 3, &s),
                     .begin_mask = tn__attr_int(infer->op, "begin_mask", 0),
                     .end_mask = tn__attr_int(infer->op, "end_mask", 0),
                     .ellipsis = tn__attr_int(infer->op, "ellipsis_mask", 0),
                     .fresh = tn__attr_int(infer->op, "new_axis_mask", 0),
                     .shrink = tn__attr_int(infer->op, "shrink_axis_mask", 0),
                     .is_offset = tn__attr_int(infer->op, "offset", 0) != 0};
    if (tn__tflite_stated(infer) || !in || !cut.begin || !cut.end || !cut.step) return TN_OK;
    if (b != e || b != s || b > TN_RANK_MAX)
        return tn__infer_fail(infer, "%u, %u, %u entries", b, e, s);
    cut.count = b;
    uint32_t used = 0; /* number of input axes that the entries from here on use */
    for (uint32_t i = 0; i < b; i++)
        used += !moves_bit(cut.fresh, i) && !moves_bit(cut.ellipsis, i);
    for (uint32_t i = 0; i < b; i++) {
        if (moves_bit(cut.ellipsis, i)) {
            for (; axis < in->rank && in->rank - axis > used && rank < TN_RANK_MAX; axis++)
                shape[rank++] = in->shape[axis];
            continue;
        }
        if (rank == TN_RANK_MAX) return tn__infer_fail(infer, "too many dimensions");
        if (moves_bit(cut.fresh, i)) {
            shape[rank++] = 1;
            continue;
        }
        if (axis >= in->rank) return tn__infer_fail(infer, "%u entries for rank %u", b, in->rank);
        TN_TRY(moves_cut_axis(infer, &cut, i, in->shape[axis], &from, &length));
        if (!moves_bit(cut.shrink, i)) shape[rank++] = length;
        axis++;
        used--;
    }
    for (; axis < in->rank && rank < TN_RANK_MAX; axis++) shape[rank++] = in->shape[axis];
    TN_TRY(tn__tflite_set(infer, 0, rank, shape));
    const int64_t *ints = moves_few(infer, 0, &few);
    if (!ints || in->rank != 1 || b != 1 || cut.fresh || cut.ellipsis) return TN_OK;
    if (length > (int64_t)few) return TN_OK;
    for (int64_t i = 0; i < length; i++) {
        int64_t at = from + i * cut.step[0];
        if (at < 0 || at >= (int64_t)few) return TN_OK;
        values[i] = ints[at];
    }
    return moves_follow(infer, values, (uint32_t)length);
}

/* --- operators that keep all elements: reshapes and transpositions --- */

tn_status tn__tflite_reshape(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint64_t product = 1, elements = tn__elements(in);
    uint32_t count = 0, open = TN_NONE;
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    const int64_t *wanted = tn__input(infer, 1) ? tn__tflite_ints(infer, 1, &count)
                                                : tn__attr_ints(infer->op, "new_shape", &count);
    if (!wanted || count > TN_RANK_MAX) return TN_OK;
    for (uint32_t d = 0; d < count; d++) {
        shape[d] = wanted[d];
        if (wanted[d] < -1 || (wanted[d] == -1 && open != TN_NONE))
            return tn__infer_fail(infer, "extent %u is %lld", d, (long long)wanted[d]);
        if (wanted[d] == -1)
            open = d;
        else
            product = tn__mul_sat(product, (uint64_t)wanted[d]);
    }
    if (open != TN_NONE && product > 0 && elements % product == 0)
        shape[open] = (int64_t)(elements / product);
    else if (open != TN_NONE || product != elements)
        return tn__infer_fail(infer, "%llu elements do not fill a shape of %llu that is constant",
                              (unsigned long long)elements, (unsigned long long)product);
    TN_TRY(tn__tflite_set(infer, 0, count, shape));
    return moves_same_contents(infer);
}

tn_status tn__tflite_squeeze(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t count = 0, rank = 0;
    uint64_t gone = 0;
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    const int64_t *axes = tn__attr_ints(infer->op, "squeeze_dims", &count);
    for (uint32_t i = 0; axes && i < count; i++) {
        uint32_t axis;
        TN_TRY(tn__axis(infer, axes[i], in->rank, &axis));
        if (in->shape[axis] != 1)
            return tn__infer_fail(infer, "axis %u has %lld, not 1", axis,
                                  (long long)in->shape[axis]);
        gone |= UINT64_C(1) << axis;
    }
    for (uint32_t d = 0; d < in->rank; d++)
        if (count ? !(gone >> d & 1) : in->shape[d] != 1) shape[rank++] = in->shape[d];
    TN_TRY(tn__tflite_set(infer, 0, rank, shape));
    return moves_same_contents(infer);
}

tn_status tn__tflite_expand_dims(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t count, axis;
    const int64_t *where = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !in || !where || count != 1 || in->rank + 1 >= TN_RANK_MAX)
        return TN_OK;
    TN_TRY(tn__axis(infer, where[0], in->rank + 1, &axis));
    for (uint32_t d = 0; d <= in->rank; d++)
        shape[d] = d < axis ? in->shape[d] : d == axis ? 1 : in->shape[d - 1];
    TN_TRY(tn__tflite_set(infer, 0, in->rank + 1, shape));
    return moves_same_contents(infer);
}

tn_status tn__tflite_transpose(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t count;
    const int64_t *order = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !in || !order) return TN_OK;
    if (count != in->rank) return tn__infer_fail(infer, "%u axes for rank %u", count, in->rank);
    for (uint32_t d = 0; d < count; d++) {
        uint32_t axis;
        TN_TRY(tn__axis(infer, order[d], in->rank, &axis));
        shape[d] = in->shape[axis];
    }
    return tn__tflite_set(infer, 0, count, shape);
}

/* --- operators that add or repeat elements --- */

/* Sets the shape of PAD, PADV2 and MIRROR_PAD. Their paddings are pairs: before and after each
 * axis. */
tn_status tn__tflite_pad(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t count;
    const int64_t *pads = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !in || !pads) return TN_OK;
    if (count != 2 * in->rank)
        return tn__infer_fail(infer, "%u paddings for rank %u", count, in->rank);
    for (uint32_t d = 0; d < in->rank; d++)
        if (__builtin_add_overflow(in->shape[d], pads[2 * d], &shape[d]) ||
            __builtin_add_overflow(shape[d], pads[2 * d + 1], &shape[d]) || shape[d] < 0)
            return tn__infer_fail(infer, "the paddings of axis %u", d);
    return tn__tflite_set(infer, 0, in->rank, shape);
}

tn_status tn__tflite_tile(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t count;
    const int64_t *times = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !in || !times) return TN_OK;
    if (count != in->rank) return tn__infer_fail(infer, "%u factors for rank %u", count, in->rank);
    for (uint32_t d = 0; d < count; d++)
        if (__builtin_mul_overflow(in->shape[d], times[d], &shape[d]) || shape[d] < 0)
            return tn__infer_fail(infer, "the factor of axis %u is %lld", d, (long long)times[d]);
    return tn__tflite_set(infer, 0, count, shape);
}

/* Sets output 0 to the shape that the values of input `index` give. */
static tn_status moves_by(tn_infer *infer, uint32_t index) {
    uint32_t count;
    const int64_t *shape = tn__tflite_ints(infer, index, &count);
    if (tn__tflite_stated(infer) || !shape || count > TN_RANK_MAX) return TN_OK;
    for (uint32_t d = 0; d < count; d++)
        if (shape[d] < 0) return tn__infer_fail(infer, "extent %u is %lld", d, (long long)shape[d]);
    return tn__tflite_set(infer, 0, count, shape);
}
tn_status tn__tflite_by_first(tn_infer *infer) { return moves_by(infer, 0); }
tn_status tn__tflite_by_second(tn_infer *infer) { return moves_by(infer, 1); }
tn_status tn__tflite_by_third(tn_infer *infer) { return moves_by(infer, 2); }

tn_status tn__tflite_range(tn_infer *infer) {
    uint32_t a, b, c;
    const int64_t *from = tn__tflite_ints(infer, 0, &a), *to = tn__tflite_ints(infer, 1, &b);
    const int64_t *step = tn__tflite_ints(infer, 2, &c);
    int64_t span;
    if (tn__tflite_stated(infer) || !from || !to || !step || a != 1 || b != 1 || c != 1)
        return TN_OK;
    if (step[0] == 0 || step[0] == INT64_MIN || __builtin_sub_overflow(to[0], from[0], &span) ||
        span == INT64_MIN)
        return tn__infer_fail(infer, "a step of %lld", (long long)step[0]);
    int64_t count = span / step[0] + (span % step[0] != 0);
    return tn__tflite_set(infer, 0, 1, (int64_t[]){count < 0 ? 0 : count});
}

/* --- operators that select elements by index --- */

tn_status tn__tflite_gather(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0), *ids = tn__tflite_known(infer, 1);
    int64_t shape[TN_RANK_MAX], values[MOVES_VALUES];
    uint32_t axis, batch, rank = 0, m, n;
    if (tn__tflite_stated(infer) || !in || !ids) return TN_OK;
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), in->rank, &axis));
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "batch_dims", 0), ids->rank + 1, &batch));
    if (batch > axis || in->rank + ids->rank > TN_RANK_MAX)
        return tn__infer_fail(infer, "%u batch dimensions before axis %u", batch, axis);
    for (uint32_t d = 0; d < axis; d++) shape[rank++] = in->shape[d];
    for (uint32_t d = batch; d < ids->rank; d++) shape[rank++] = ids->shape[d];
    for (uint32_t d = axis + 1; d < in->rank; d++) shape[rank++] = in->shape[d];
    TN_TRY(tn__tflite_set(infer, 0, rank, shape));
    const int64_t *from = moves_few(infer, 0, &m), *at = moves_few(infer, 1, &n);
    if (!from || !at || in->rank != 1) return TN_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (at[i] < 0 || at[i] >= (int64_t)m) return TN_OK;
        values[i] = from[at[i]];
    }
    return moves_follow(infer, values, n);
}

tn_status tn__tflite_gather_nd(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0), *ids = tn__tflite_known(infer, 1);
    int64_t shape[TN_RANK_MAX];
    uint32_t rank = 0;
    if (tn__tflite_stated(infer) || !in || !ids) return TN_OK;
    if (ids->rank == 0 || ids->shape[ids->rank - 1] > (int64_t)in->rank ||
        in->rank + ids->rank > TN_RANK_MAX)
        return tn__infer_fail(infer, "indices of rank %u into rank %u", ids->rank, in->rank);
    for (uint32_t d = 0; d + 1 < ids->rank; d++) shape[rank++] = ids->shape[d];
    for (uint32_t d = (uint32_t)ids->shape[ids->rank - 1]; d < in->rank; d++)
        shape[rank++] = in->shape[d];
    return tn__tflite_set(infer, 0, rank, shape);
}

tn_status tn__tflite_one_hot(tn_infer *infer) {
    const tn_tensor *ids = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX], where = tn__attr_int(infer->op, "axis", -1);
    uint32_t count, axis;
    const int64_t *depth = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !ids || !depth || count != 1 || ids->rank + 1 >= TN_RANK_MAX)
        return TN_OK;
    TN_TRY(tn__axis(infer, where, ids->rank + 1, &axis));
    if (depth[0] < 0) return tn__infer_fail(infer, "a depth of %lld", (long long)depth[0]);
    for (uint32_t d = 0; d <= ids->rank; d++)
        shape[d] = d < axis ? ids->shape[d] : d == axis ? depth[0] : ids->shape[d - 1];
    return tn__tflite_set(infer, 0, ids->rank + 1, shape);
}

tn_status tn__tflite_top(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t count;
    const int64_t *k = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !in || !k || count != 1 || in->rank == 0) return TN_OK;
    if (k[0] < 0) return tn__infer_fail(infer, "the %lld largest", (long long)k[0]);
    memcpy(shape, in->shape, in->rank * sizeof *shape);
    shape[in->rank - 1] = k[0];
    TN_TRY(tn__tflite_set(infer, 0, in->rank, shape));
    return tn__tflite_set(infer, 1, in->rank, shape);
}

/* NON_MAX_SUPPRESSION_V4, V5: all outputs except the last, the number of boxes, have as many
 * entries as input 2, the limit of boxes, says. */
tn_status tn__tflite_suppression(tn_infer *infer) {
    uint32_t count, last = tn__output_count(infer);
    const int64_t *most = tn__tflite_ints(infer, 2, &count);
    if (tn__tflite_stated(infer) || !most || count != 1 || most[0] < 0) return TN_OK;
    for (uint32_t i = 0; i + 1 < last; i++) TN_TRY(tn__tflite_set(infer, i, 1, most));
    return last ? tn__tflite_set(infer, last - 1, 0, NULL) : TN_OK;
}

/* --- operators that move elements between space, depth and batch: [batch, height, width, channels]
 * --- */

tn_status tn__tflite_resize(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    uint32_t count;
    const int64_t *size = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !in || !size) return TN_OK;
    if (in->rank != 4 || count != 2 || size[0] < 0 || size[1] < 0)
        return tn__infer_fail(infer, "rank %u and %u extents", in->rank, count);
    return tn__tflite_set(infer, 0, 4, (int64_t[]){in->shape[0], size[0], size[1], in->shape[3]});
}

static tn_status moves_depth(tn_infer *infer, bool deeper) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t block = tn__attr_int(infer->op, "block_size", 0);
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    if (in->rank != 4 || block < 1 || block > INT16_MAX)
        return tn__infer_fail(infer, "rank %u, blocks of %lld", in->rank, (long long)block);
    int64_t shape[4] = {in->shape[0], in->shape[1], in->shape[2], in->shape[3]};
    bool fits =
        deeper ? shape[1] % block == 0 && shape[2] % block == 0 : shape[3] % (block * block) == 0;
    if (!fits) return tn__infer_fail(infer, "blocks of %lld do not fit", (long long)block);
    bool over = false;
    if (deeper) {
        shape[1] /= block, shape[2] /= block;
        over = __builtin_mul_overflow(shape[3], block * block, &shape[3]);
    } else {
        over = __builtin_mul_overflow(shape[1], block, &shape[1]) ||
               __builtin_mul_overflow(shape[2], block, &shape[2]);
        shape[3] /= block * block;
    }
    if (over) return TN_OK;
    return tn__tflite_set(infer, 0, 4, shape);
}
tn_status tn__tflite_space_to_depth(tn_infer *infer) { return moves_depth(infer, true); }
tn_status tn__tflite_depth_to_space(tn_infer *infer) { return moves_depth(infer, false); }

/* Sets the shape of SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND. Inputs: tensor, block shape, pairs of
 * paddings or crops. */
static tn_status moves_batch(tn_infer *infer, bool to_batch) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t count, pairs;
    const int64_t *block = tn__tflite_ints(infer, 1, &count),
                  *edge = tn__tflite_ints(infer, 2, &pairs);
    if (tn__tflite_stated(infer) || !in || !block || !edge) return TN_OK;
    if (count + 2 > in->rank + 1 || pairs != 2 * count)
        return tn__infer_fail(infer, "%u blocks for rank %u", count, in->rank);
    memcpy(shape, in->shape, in->rank * sizeof *shape);
    for (uint32_t i = 0; i < count; i++) {
        int64_t edges = -1, *extent = &shape[1 + i];
        if (__builtin_add_overflow(edge[2 * i], edge[2 * i + 1], &edges)) edges = -1;
        if (block[i] < 1 || block[i] > INT16_MAX || edges < 0 || edges > INT32_MAX)
            return tn__infer_fail(infer, "a block of %lld", (long long)block[i]);
        int64_t *from = to_batch ? extent : &shape[0];
        if (to_batch && __builtin_add_overflow(*extent, edges, extent)) return TN_OK;
        if (*from % block[i])
            return tn__infer_fail(infer, "%lld is not a multiple of %lld", (long long)*from,
                                  (long long)block[i]);
        *from /= block[i];
        int64_t *to = to_batch ? &shape[0] : extent;
        if (__builtin_mul_overflow(*to, block[i], to)) return TN_OK;
        if (!to_batch) *extent -= edges;
        if (*extent < 0) return tn__infer_fail(infer, "more is cut off than there is");
    }
    return tn__tflite_set(infer, 0, in->rank, shape);
}
tn_status tn__tflite_space_to_batch(tn_infer *infer) { return moves_batch(infer, true); }
tn_status tn__tflite_batch_to_space(tn_infer *infer) { return moves_batch(infer, false); }

/* --- further --- */

tn_status tn__tflite_diagonal(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    if (tn__tflite_stated(infer) || !in || in->rank == 0 || in->rank + 1 >= TN_RANK_MAX)
        return TN_OK;
    memcpy(shape, in->shape, in->rank * sizeof *shape);
    shape[in->rank] = shape[in->rank - 1];
    return tn__tflite_set(infer, 0, in->rank + 1, shape);
}

tn_status tn__tflite_broadcast_args(tn_infer *infer) {
    int64_t values[MOVES_VALUES];
    uint32_t m, n;
    const int64_t *a = moves_few(infer, 0, &m), *b = moves_few(infer, 1, &n);
    if (tn__tflite_stated(infer) || !a || !b) return TN_OK;
    uint32_t count = m > n ? m : n;
    for (uint32_t i = 0; i < count; i++) {
        int64_t x = i + m >= count ? a[i + m - count] : 1,
                y = i + n >= count ? b[i + n - count] : 1;
        values[i] = x == 1 ? y : x;
    }
    TN_TRY(tn__tflite_set(infer, 0, 1, (int64_t[]){count}));
    return moves_follow(infer, values, count);
}
