/* pt2_move.c - PyTorch's operators that move elements, reduce or create, as operators of ONNX.
 *
 * The program states the size of every result, so views, squeezes and flattenings of all kinds are
 * one Reshape. Operators that return the data of their operand (detach, contiguous, clone) add no
 * operator, because all tensors of the graph are dense and are written once.
 */
#include "io/import/pt2/pt2_reader.h"

#include <math.h>

static uint32_t move_first(const pt2_reader *reader) {
    uint32_t value = tn__pt2_tensor(reader, "self");
    return value != PT2_NONE ? value : tn__pt2_tensor(reader, "input");
}

/* Sets *found to `axis`, counted from the front; a negative axis counts from the back. Returns
 * false if the axis is outside of the rank. */
static bool move_axis(int64_t axis, uint32_t rank, uint32_t *found) {
    int64_t from = axis < 0 ? axis + rank : axis;
    *found = (uint32_t)from;
    return from >= 0 && from < rank;
}

static bool move_is_alike(const pt2_value *a, const pt2_value *b) {
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

/* --- operators that keep all elements: reshapes and transpositions ---------------------------- */

/* Rules for operators with a result that is the operand itself, or a Cast of it if the types
 * differ. */
static tn_status move_same(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0];
    int64_t to;
    tn_tensor_id in, out;
    (void)rule;
    if (x == PT2_NONE || !move_is_alike(tn__pt2_value(reader, x), tn__pt2_value(reader, y)))
        return TN_OK;
    *done = true;
    to = tn__pt2_value(reader, y)->dtype;
    if (tn__pt2_value(reader, x)->dtype == tn__pt2_value(reader, y)->dtype)
        return tn__pt2_same(reader, y, x);
    TN_TRY(tn__pt2_use(reader, x, &in));
    return tn__pt2_op1(reader, "Cast", PT2_LIST(in), PT2_ATTRS(PT2_INT("to", &to)), y, &out);
}

static tn_status move_dropout(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader);
    int64_t train;
    double ratio;
    tn_tensor_id in, chance, trains, out;
    if (x == PT2_NONE || !tn__pt2_int(reader, "train", 1, &train) ||
        !tn__pt2_number(reader, "p", 0.5, &ratio) || tn__pt2_reads_results(reader, 1))
        return TN_OK;
    if (train == 0 || ratio == 0) return move_same(reader, rule, done);
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_scalar(reader, TN_FLOAT32, ratio, &chance));
    TN_TRY(tn__pt2_scalar(reader, TN_BOOL, 1, &trains));
    return tn__pt2_op1(reader, "Dropout", PT2_LIST(in, chance, trains), NULL, 0, reader->makes[0],
                       &out);
}

static bool move_count(const pt2_value *value, int64_t *count) {
    *count = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        if (__builtin_mul_overflow(*count, value->shape[d], count)) return false;
    return true;
}

static tn_status move_reshape(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0];
    int64_t before, after;
    tn_tensor_id in, out;
    (void)rule;
    if (x == PT2_NONE) return TN_OK;
    const pt2_value *from = tn__pt2_value(reader, x), *to = tn__pt2_value(reader, y);
    bool same = from->dtype == to->dtype && move_count(from, &before) && move_count(to, &after) &&
                /* view.dtype, which reads the bits as another type, has no rule, so element types
                 * must be equal */
                before == after;
    if (!same) return TN_OK;
    *done = true;
    if (move_is_alike(from, to)) return tn__pt2_same(reader, y, x);
    TN_TRY(tn__pt2_use(reader, x, &in));
    return tn__pt2_reshape(reader, in, to->rank, to->shape, y, &out);
}

/* --- transpositions --------------------------------------------------------------------------- */

/* The result is `x` with its axes in another order. For a matrix, no Transpose operator is added
 * yet: a matrix product can read the original transposed, and tn__pt2_use adds the Transpose for
 * any other reader. */
static tn_status move_transposed(pt2_reader *reader, uint32_t x, const int64_t *order,
                                 uint32_t rank) {
    uint32_t y = reader->makes[0];
    pt2_value *made = &reader->values[y];
    tn_tensor_id in, out;
    bool still = true;
    for (uint32_t d = 0; d < rank; d++) still = still && order[d] == d;
    if (still) return tn__pt2_same(reader, y, x);
    if (rank == 2 && made->same == y) {
        TN_TRY(tn__pt2_use(reader, x, &in));
        made->transposed = x;
        return TN_OK;
    }
    TN_TRY(tn__pt2_use(reader, x, &in));
    return tn__pt2_op1(reader, "Transpose", PT2_LIST(in), PT2_ATTRS(PT2_INTS("perm", order, rank)),
                       y, &out);
}

/* permute. With rule->number 1: t, numpy_T and similar operators, which reverse all axes. */
static tn_status move_permute(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), count, axis;
    int64_t given[TN_RANK_MAX], order[TN_RANK_MAX];
    uint64_t seen = 0;
    if (x == PT2_NONE || !tn__pt2_ints(reader, "dims", given, &count)) return TN_OK;
    uint32_t rank = tn__pt2_value(reader, x)->rank;
    if (rule->number == 0 && count != rank) return TN_OK;
    for (uint32_t d = 0; d < rank; d++) {
        if (!move_axis(rule->number == 1 ? rank - 1 - d : given[d], rank, &axis)) return TN_OK;
        order[d] = axis;
        seen |= UINT64_C(1) << axis;
    }
    if (rank < 64 && seen != (UINT64_C(1) << rank) - 1) return TN_OK;
    *done = true;
    return move_transposed(reader, x, order, rank);
}

/* transpose(dim0, dim1) and swapaxes(axis0, axis1); mT has no such arguments and swaps the last
 * two. */
static tn_status move_transpose(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), a, b;
    bool axes = strcmp(reader->base, "swapaxes") == 0;
    int64_t first, second, order[TN_RANK_MAX];
    if (x == PT2_NONE || !tn__pt2_int(reader, axes ? "axis0" : "dim0", -2, &first) ||
        !tn__pt2_int(reader, axes ? "axis1" : "dim1", -1, &second))
        return TN_OK;
    uint32_t rank = tn__pt2_value(reader, x)->rank;
    (void)rule;
    if (rank == 0 || !move_axis(first, rank, &a) || !move_axis(second, rank, &b)) return TN_OK;
    for (uint32_t d = 0; d < rank; d++) order[d] = d;
    order[a] = b;
    order[b] = a;
    *done = true;
    return move_transposed(reader, x, order, rank);
}

/* --- operators that repeat, join and cut tensors ---------------------------------------------- */

static tn_status move_expand(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0];
    tn_tensor_id in, extents, out;
    (void)rule;
    if (x == PT2_NONE) return TN_OK;
    const pt2_value *to = tn__pt2_value(reader, y);
    *done = true;
    if (move_is_alike(tn__pt2_value(reader, x), to)) return tn__pt2_same(reader, y, x);
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_constant_ints(reader, to->shape, to->rank, &extents));
    return tn__pt2_op1(reader, "Expand", PT2_LIST(in, extents), NULL, 0, y, &out);
}

static tn_status move_repeat(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0], count;
    int64_t times[TN_RANK_MAX], shape[TN_RANK_MAX];
    tn_tensor_id in, list, out;
    (void)rule;
    if (x == PT2_NONE || !tn__pt2_ints(reader, "repeats", times, &count)) return TN_OK;
    const pt2_value *from = tn__pt2_value(reader, x);
    if (count < from->rank || count == 0) return TN_OK;
    for (uint32_t d = 0; d < count; d++)
        shape[d] = d < count - from->rank ? 1 : from->shape[d - (count - from->rank)];
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    if (count != from->rank) TN_TRY(tn__pt2_reshape(reader, in, count, shape, PT2_NONE, &in));
    TN_TRY(tn__pt2_constant_ints(reader, times, count, &list));
    return tn__pt2_op1(reader, "Tile", PT2_LIST(in, list), NULL, 0, y, &out);
}

/* cat; with rule->number 1: stack, which joins along a new axis. cat ignores empty tensors of rank
 * 1, as PyTorch does. */
static tn_status move_cat(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t y = reader->makes[0], axis, count = 0;
    const pt2_value *to = tn__pt2_value(reader, y);
    bool stack = rule->number == 1;
    int64_t given, shape[TN_RANK_MAX];
    tn_tensor_id out;
    if (!tn__pt2_int(reader, "dim", 0, &given) || !move_axis(given, to->rank, &axis) ||
        reader->read_count == 0)
        return TN_OK;
    tn_tensor_id *ids = tn__arena_array(&reader->arena, reader->read_count, sizeof *ids);
    if (ids == NULL) return tn__no_memory(reader->error, "the model");
    *done = true;
    memcpy(shape, to->shape, to->rank * sizeof *shape);
    shape[axis] = 1;
    for (uint32_t i = 0; i < reader->read_count; i++) {
        const pt2_value *from = tn__pt2_value(reader, reader->reads[i]);
        if (!stack && from->rank == 1 && to->rank != 1 && from->shape[0] == 0) continue;
        TN_TRY(tn__pt2_cast(reader, reader->reads[i], to->dtype, &ids[count]));
        if (stack)
            TN_TRY(tn__pt2_reshape(reader, ids[count], to->rank, shape, PT2_NONE, &ids[count]));
        count++;
    }
    int64_t along = axis;
    return tn__pt2_op1(reader, "Concat", ids, count, PT2_ATTRS(PT2_INT("axis", &along)), y, &out);
}

/* --- cutting ---------------------------------------------------------------------------------- */

static tn_status move_cut(pt2_reader *reader, uint32_t x, uint32_t axis, int64_t start, int64_t end,
                          int64_t step) {
    int64_t along = axis;
    tn_tensor_id in, lists[4], out;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_constant_ints(reader, &start, 1, &lists[0]));
    TN_TRY(tn__pt2_constant_ints(reader, &end, 1, &lists[1]));
    TN_TRY(tn__pt2_constant_ints(reader, &along, 1, &lists[2]));
    TN_TRY(tn__pt2_constant_ints(reader, &step, 1, &lists[3]));
    return tn__pt2_op1(reader, "Slice", PT2_LIST(in, lists[0], lists[1], lists[2], lists[3]), NULL,
                       0, reader->makes[0], &out);
}

/* slice(dim, start, end, step), and with rule->number 1 narrow(dim, start, length). */
static tn_status move_slice(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0], axis;
    int64_t dim, start, end, step, length;
    bool narrow = rule->number == 1;
    if (x == PT2_NONE || !tn__pt2_int(reader, "dim", 0, &dim) ||
        !tn__pt2_int(reader, "start", 0, &start) || !tn__pt2_int(reader, "end", INT64_MAX, &end) ||
        !tn__pt2_int(reader, "step", 1, &step) || !tn__pt2_int(reader, "length", 0, &length))
        return TN_OK;
    const pt2_value *from = tn__pt2_value(reader, x);
    if (step < 1 || !move_axis(dim, from->rank, &axis)) return TN_OK;
    if (narrow && start < 0 && start >= -from->shape[axis]) start += from->shape[axis];
    if (narrow && (start < 0 || __builtin_add_overflow(start, length, &end))) return TN_OK;
    *done = true;
    if (move_is_alike(from, tn__pt2_value(reader, y)) && step == 1)
        return tn__pt2_same(reader, y, x);
    return move_cut(reader, x, axis, start, end, step);
}

/* select(dim, index) as a Gather with a scalar index, which is the form that ONNX exporters
 * write. */
static tn_status move_select(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), axis;
    int64_t dim, index;
    tn_tensor_id in, at, out;
    (void)rule;
    if (x == PT2_NONE || !tn__pt2_int(reader, "dim", 0, &dim) ||
        !tn__pt2_int(reader, "index", 0, &index) ||
        !move_axis(dim, tn__pt2_value(reader, x)->rank, &axis))
        return TN_OK;
    *done = true;
    int64_t along = axis;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_scalar(reader, TN_INT64, (double)index, &at));
    return tn__pt2_op1(reader, "Gather", PT2_LIST(in, at), PT2_ATTRS(PT2_INT("axis", &along)),
                       reader->makes[0], &out);
}

/* split, chunk and similar operators: the sizes of the sections are those of the results in the
 * program. With rule->number 1: unbind, whose results do not have the axis that is split. */
static tn_status move_split(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), axis, count = reader->make_count;
    bool unbind = rule->number == 1;
    int64_t dim;
    tn_tensor_id in, list;
    if (x == PT2_NONE || !tn__pt2_int(reader, "dim", 0, &dim) ||
        !move_axis(dim, tn__pt2_value(reader, x)->rank, &axis))
        return TN_OK;
    int64_t *sizes = tn__arena_array(&reader->arena, count, sizeof *sizes), along = axis;
    tn_tensor_id *ids = tn__arena_array(&reader->arena, count, sizeof *ids);
    if (sizes == NULL || ids == NULL) return tn__no_memory(reader->error, "the model");
    for (uint32_t k = 0; k < count; k++) {
        const pt2_value *to = tn__pt2_value(reader, reader->makes[k]);
        if (to->rank + unbind != tn__pt2_value(reader, x)->rank) return TN_OK;
        sizes[k] = unbind ? 1 : to->shape[axis];
    }
    if (count > TN_VALUE_MAX) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_constant_ints(reader, sizes, count, &list));
    for (uint32_t k = 0; k < count; k++)
        TN_TRY(unbind ? tn__pt2_between(reader, &ids[k])
                      : tn__pt2_make(reader, reader->makes[k], &ids[k]));
    TN_TRY(tn__pt2_op(reader, "Split", PT2_LIST(in, list), PT2_ATTRS(PT2_INT("axis", &along)), ids,
                      count));
    for (uint32_t k = 0; unbind && k < count; k++) {
        const pt2_value *to = tn__pt2_value(reader, reader->makes[k]);
        tn_tensor_id out;
        TN_TRY(tn__pt2_reshape(reader, ids[k], to->rank, to->shape, reader->makes[k], &out));
    }
    return TN_OK;
}

/* --- operators that read elements by index ---------------------------------------------------- */

/* embedding(weight, indices), index_select(self, dim, index), gather(self, dim, index). */
static tn_status move_gather(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = tn__pt2_tensor(reader, "weight"), i = tn__pt2_tensor(reader, "indices"), axis;
    int64_t dim;
    tn_tensor_id in, at, out;
    if (x == PT2_NONE) x = move_first(reader);
    if (i == PT2_NONE) i = tn__pt2_tensor(reader, "index");
    if (x == PT2_NONE || i == PT2_NONE || !tn__pt2_int(reader, "dim", 0, &dim) ||
        !move_axis(dim, tn__pt2_value(reader, x)->rank, &axis))
        return TN_OK;
    *done = true;
    int64_t along = axis;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_use(reader, i, &at));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in, at), PT2_ATTRS(PT2_INT("axis", &along)),
                       reader->makes[0], &out);
}

/* index.Tensor as x[i], where i is one tensor of integers that selects along the first axis. Other
 * forms have no rule. */
static tn_status move_index(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    static const int64_t front = 0;
    const char *kind;
    json_t *indices = tn__pt2_argument(reader, "indices", &kind);
    uint32_t x = move_first(reader);
    tn_tensor_id in, at, out;
    (void)rule;
    if (x == PT2_NONE || json_array_size(indices) != 1 || reader->read_count != 2 ||
        tn__pt2_value(reader, x)->rank == 0)
        return TN_OK;
    tn_dtype dtype = tn__pt2_value(reader, reader->reads[1])->dtype;
    /* indexing with a mask of booleans has no rule, so the node stays PyTorch's */
    if (dtype != TN_INT64 && dtype != TN_INT32) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_use(reader, reader->reads[1], &at));
    return tn__pt2_op1(reader, "Gather", PT2_LIST(in, at), PT2_ATTRS(PT2_INT("axis", &front)),
                       reader->makes[0], &out);
}

/* --- padding ---------------------------------------------------------------------------------- */

/* pad. PyTorch lists the pads as (front, back) pairs from the last dimension on; ONNX lists the
 * front pads of all dimensions, then all back pads. */
static tn_status move_pad(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0], count;
    const char *kind, *mode = "constant";
    json_t *argument = tn__pt2_argument(reader, "mode", &kind);
    int64_t given[TN_RANK_MAX], pads[2 * TN_RANK_MAX] = {0};
    double fill;
    tn_tensor_id in, list, value, out;
    (void)rule;
    if (json_is_string(argument)) mode = json_string_value(argument);
    if (strcmp(mode, "replicate") == 0) mode = "edge";
    bool known =
        strcmp(mode, "constant") == 0 || strcmp(mode, "reflect") == 0 || strcmp(mode, "edge") == 0;
    if (x == PT2_NONE || !known || !tn__pt2_ints(reader, "pad", given, &count) ||
        !tn__pt2_number(reader, "value", 0, &fill))
        return TN_OK;
    const pt2_value *from = tn__pt2_value(reader, x);
    if (count % 2 != 0 || count / 2 > from->rank) return TN_OK;
    for (uint32_t i = 0; i < count / 2; i++) {
        pads[from->rank - 1 - i] = given[2 * i];
        pads[2 * from->rank - 1 - i] = given[2 * i + 1];
    }
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_constant_ints(reader, pads, 2 * from->rank, &list));
    TN_TRY(tn__pt2_scalar(reader, from->dtype, fill, &value));
    return tn__pt2_op1(reader, "Pad", PT2_LIST(in, list, value),
                       PT2_ATTRS(PT2_STRING("mode", &mode)), y, &out);
}

/* --- reductions ------------------------------------------------------------------------------- */

/* Rules that reduce over the axes of argument "dim", or over all axes if it is absent. */
static tn_status move_reduce(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0], count, axis;
    int64_t axes[TN_RANK_MAX], keep;
    tn_tensor_id in, list, out;
    if (x == PT2_NONE || !tn__pt2_ints(reader, "dim", axes, &count) ||
        !tn__pt2_int(reader, "keepdim", 0, &keep) || reader->make_count != 1)
        return TN_OK;
    const pt2_value *from = tn__pt2_value(reader, x);
    for (uint32_t i = 0; i < count; i++) {
        if (!move_axis(axes[i], from->rank, &axis)) return TN_OK;
        axes[i] = axis;
    }
    if (from->rank == 0) return TN_OK;
    for (uint32_t d = 0; count == 0 && d < from->rank; d++) axes[d] = d;
    if (count == 0) count = from->rank;
    *done = true;
    TN_TRY(tn__pt2_cast(reader, x, tn__pt2_value(reader, y)->dtype, &in));
    TN_TRY(tn__pt2_constant_ints(reader, axes, count, &list));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in, list),
                       PT2_ATTRS(PT2_INT("keepdims", &keep)), y, &out);
}

static tn_status move_arg(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), axis;
    const char *kind;
    int64_t dim, keep;
    tn_tensor_id in, out;
    if (x == PT2_NONE || tn__pt2_argument(reader, "dim", &kind) == NULL ||
        !tn__pt2_int(reader, "dim", 0, &dim) || !tn__pt2_int(reader, "keepdim", 0, &keep) ||
        !move_axis(dim, tn__pt2_value(reader, x)->rank, &axis))
        return TN_OK;
    *done = true;
    int64_t along = axis;
    TN_TRY(tn__pt2_use(reader, x, &in));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in),
                       PT2_ATTRS(PT2_INT("axis", &along), PT2_INT("keepdims", &keep)),
                       reader->makes[0], &out);
}

static tn_status move_cumsum(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader), y = reader->makes[0];
    int64_t dim;
    tn_tensor_id in, axis, out;
    (void)rule;
    if (x == PT2_NONE || !tn__pt2_int(reader, "dim", 0, &dim)) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_cast(reader, x, tn__pt2_value(reader, y)->dtype, &in));
    TN_TRY(tn__pt2_scalar(reader, TN_INT64, (double)dim, &axis));
    return tn__pt2_op1(reader, "CumSum", PT2_LIST(in, axis), NULL, 0, y, &out);
}

/* tril; with rule->number 1: triu. */
static tn_status move_triangle(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = move_first(reader);
    int64_t diagonal, upper = rule->number == 1;
    tn_tensor_id in, at, out;
    if (x == PT2_NONE || !tn__pt2_int(reader, "diagonal", 0, &diagonal)) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_scalar(reader, TN_INT64, (double)diagonal, &at));
    return tn__pt2_op1(reader, "Trilu", PT2_LIST(in, at), PT2_ATTRS(PT2_INT("upper", &upper)),
                       reader->makes[0], &out);
}

/* --- creating --------------------------------------------------------------------------------- */

/* Adds a tensor of which every element is one number: argument "fill_value", argument "s" of
 * scalar_tensor, or rule->number. */
static tn_status move_full(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t y = reader->makes[0];
    const pt2_value *to = tn__pt2_value(reader, y);
    double number;
    tn_tensor_id one, extents, out;
    bool empty = strstr(reader->base, "empty") != NULL;
    /* an empty tensor that nothing reads, such as scratch memory, needs no operator */
    if (empty && to->last <= reader->number) {
        *done = true;
        return TN_OK;
    }
    bool known = tn__pt2_number(reader, "fill_value", rule->number, &number);
    if (known && strcmp(reader->base, "scalar_tensor") == 0)
        known = tn__pt2_number(reader, "s", 0, &number);
    if (!known) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_scalar(reader, to->dtype, number, &one));
    TN_TRY(tn__pt2_constant_ints(reader, to->shape, to->rank, &extents));
    return tn__pt2_op1(reader, "Expand", PT2_LIST(one, extents), NULL, 0, y, &out);
}

static tn_status move_arange(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t y = reader->makes[0];
    tn_dtype dtype = tn__pt2_value(reader, y)->dtype;
    double start, end, step;
    tn_tensor_id ids[3], out;
    (void)rule;
    if (!tn__pt2_number(reader, "start", 0, &start) || !tn__pt2_number(reader, "end", 0, &end) ||
        !tn__pt2_number(reader, "step", 1, &step))
        return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_scalar(reader, dtype, start, &ids[0]));
    TN_TRY(tn__pt2_scalar(reader, dtype, end, &ids[1]));
    TN_TRY(tn__pt2_scalar(reader, dtype, step, &ids[2]));
    return tn__pt2_op1(reader, "Range", ids, 3, NULL, 0, y, &out);
}

/* --- the table of rules ----------------------------------------------------------------------- */

/* clang-format off */
static const pt2_rule move_rules[] = {
    {"_reshape_alias", move_reshape, NULL, 0},
    {"_to_copy", move_same, NULL, 0},
    {"_unsafe_view", move_reshape, NULL, 0},
    {"alias", move_same, NULL, 0},
    {"amax", move_reduce, "ReduceMax", 0},
    {"amin", move_reduce, "ReduceMin", 0},
    {"arange", move_arange, NULL, 0},
    {"argmax", move_arg, "ArgMax", 0},
    {"argmin", move_arg, "ArgMin", 0},
    {"broadcast_to", move_expand, NULL, 0},
    {"cat", move_cat, NULL, 0},
    {"chunk", move_split, NULL, 0},
    {"clone", move_same, NULL, 0},
    {"constant_pad_nd", move_pad, NULL, 0},
    {"contiguous", move_same, NULL, 0},
    {"cumsum", move_cumsum, NULL, 0},
    {"detach", move_same, NULL, 0},
    {"dropout", move_dropout, NULL, 0},
    {"embedding", move_gather, "Gather", 0},
    {"empty", move_full, NULL, 0},
    {"empty_like", move_full, NULL, 0},
    {"expand", move_expand, NULL, 0},
    {"expand_as", move_expand, NULL, 0},
    {"flatten", move_reshape, NULL, 0},
    {"full", move_full, NULL, 0},
    {"full_like", move_full, NULL, 0},
    {"gather", move_gather, "GatherElements", 0},
    {"index", move_index, NULL, 0},
    {"index_select", move_gather, "Gather", 0},
    {"lift_fresh", move_same, NULL, 0},
    {"lift_fresh_copy", move_same, NULL, 0},
    {"mT", move_transpose, NULL, 0},
    {"mean", move_reduce, "ReduceMean", 0},
    {"narrow", move_slice, NULL, 1},
    {"native_dropout", move_dropout, NULL, 0},
    {"new_empty", move_full, NULL, 0},
    {"new_full", move_full, NULL, 0},
    {"new_ones", move_full, NULL, 1},
    {"new_zeros", move_full, NULL, 0},
    {"numpy_T", move_permute, NULL, 1},
    {"ones", move_full, NULL, 1},
    {"ones_like", move_full, NULL, 1},
    {"pad", move_pad, NULL, 0},
    {"permute", move_permute, NULL, 0},
    {"prod", move_reduce, "ReduceProd", 0},
    {"ravel", move_reshape, NULL, 0},
    {"repeat", move_repeat, NULL, 0},
    {"reshape", move_reshape, NULL, 0},
    {"reshape_as", move_reshape, NULL, 0},
    {"scalar_tensor", move_full, NULL, 0},
    {"select", move_select, NULL, 0},
    {"slice", move_slice, NULL, 0},
    {"split", move_split, NULL, 0},
    {"split_with_sizes", move_split, NULL, 0},
    {"squeeze", move_reshape, NULL, 0},
    {"stack", move_cat, NULL, 1},
    {"sum", move_reduce, "ReduceSum", 0},
    {"swapaxes", move_transpose, NULL, 0},
    {"swapdims", move_transpose, NULL, 0},
    {"t", move_permute, NULL, 1},
    {"tensor_split", move_split, NULL, 0},
    {"to", move_same, NULL, 0},
    {"transpose", move_transpose, NULL, 0},
    {"tril", move_triangle, NULL, 0},
    {"triu", move_triangle, NULL, 1},
    {"type_as", move_same, NULL, 0},
    {"unbind", move_split, NULL, 1},
    {"unflatten", move_reshape, NULL, 0},
    {"unsafe_chunk", move_split, NULL, 0},
    {"unsafe_split", move_split, NULL, 0},
    {"unsafe_split_with_sizes", move_split, NULL, 0},
    {"unsqueeze", move_reshape, NULL, 0},
    {"view", move_reshape, NULL, 0},
    {"view_as", move_reshape, NULL, 0},
    {"zeros", move_full, NULL, 0},
    {"zeros_like", move_full, NULL, 0},
};
/* clang-format on */

const pt2_rule *tn__pt2_move_rule(const char *base) {
    size_t low = 0, high = sizeof move_rules / sizeof *move_rules;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(move_rules[middle].name, base);
        if (order == 0) return &move_rules[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
