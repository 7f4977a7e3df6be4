/* move.c - operators that copy elements to other positions (Transpose, DepthToSpace, SpaceToDepth,
 * Expand, Tile, ReverseSequence, Trilu, Reorder), and operators that only change the shape or type
 * (Reshape and similar, Shape, Size).
 *
 * Most of them are one copy between two memories with strides (box.h), for which the operator only
 * computes the strides. Expand and Tile read with stride 0 along repeated dimensions. If the plan
 * has placed an output at the address of its input, a change of shape needs no copy.
 * Source: the ONNX specifications, opsets 1 to 21 (Shape has `start` and `end` from opset 15).
 */
#include "engine/kernels/inner.h"
#include "engine/kernels/loops/box.h"

static tn_status move_copy(tn_kernel_call *call, tn__walk *box) {
    const tn_operand *from = &call->inputs[0];
    return tn__box_copy(call, box, tn__width(from->dtype), call->outputs[0].data, from->data);
}

/* --- Transpose --- */

static tn_status move_transpose(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    uint32_t count, rank = from->rank, axis;
    const int64_t *perm = tn__attr_ints(call->op, "perm", &count);
    int64_t strides[TN_RANK_MAX], shape[TN_RANK_MAX];
    uint64_t seen = 0;
    tn__walk box = {.rank = rank};
    if (perm != NULL && count != rank)
        return tn__call_fail(call, TN_E_INVALID, "'perm' has %u entries for rank %u", count, rank);
    tn__dense_strides(from, strides);
    for (uint32_t d = 0; d < rank; d++) {
        axis = rank - 1 - d;
        if (perm != NULL) TN_TRY(tn__call_axis(call, perm[d], rank, &axis));
        if (seen >> axis & 1)
            return tn__call_fail(call, TN_E_INVALID, "'perm' names axis %u twice", axis);
        seen |= UINT64_C(1) << axis;
        box.extent[d] = shape[d] = from->shape[axis];
        box.stride[1][d] = strides[axis];
    }
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    tn__dense_strides(&call->outputs[0], box.stride[0]);
    return move_copy(call, &box);
}

/* --- DepthToSpace, SpaceToDepth ---
 *
 * They convert between [N, C, H b, W b] (space) and [N, C b b, H, W] (depth), for block size b. The
 * copy has six dimensions: n, c, y in the block, x in the block, h, w. Each has a stride in the
 * space tensor and one in the depth tensor. The channel in the depth tensor is c b b + y b + x in
 * mode CRD, and (y b + x) C + c otherwise.
 */

static tn_status move_blocks(tn_kernel_call *call, bool to_space) {
    const tn_operand *from = &call->inputs[0];
    int64_t b = tn__attr_int(call->op, "blocksize", 0);
    bool crd = to_space && strcmp(tn__attr_string(call->op, "mode", "DCR"), "CRD") == 0;
    if (from->rank != 4 || b < 1 || b > 65535)
        return tn__call_fail(call, TN_E_INVALID, "blocksize %lld, rank %u", (long long)b,
                             from->rank);
    int64_t n = from->shape[0], c = from->shape[1], h = from->shape[2], w = from->shape[3];
    if (to_space ? c % (b * b) != 0 : h % b != 0 || w % b != 0)
        return tn__call_fail(call, TN_E_INVALID, "extents are not multiples of blocksize %lld",
                             (long long)b);
    if (to_space)
        c /= b * b;
    else
        h /= b, w /= b;
    int64_t space[4] = {n, c, h * b, w * b}, deep[4] = {n, c * b * b, h, w};
    TN_TRY(tn__call_shape(call, 0, 4, to_space ? space : deep));
    int64_t e = tn__width(from->dtype), plane = h * w * e, wide = w * b * e;
    int64_t channel = crd ? b * b * plane : plane, part = crd ? plane : c * plane;
    int64_t extent[6] = {n, c, h, b, w, b};
    int64_t in_space[6] = {c * h * b * wide, h * b * wide, b * wide, wide, b * e, e};
    int64_t in_deep[6] = {c * b * b * plane, channel, w * e, b * part, e, part};
    tn__walk box = {0};
    for (uint32_t d = 0; d < 6; d++)
        tn__walk_add(&box, extent[d], to_space ? in_space[d] : in_deep[d],
                     to_space ? in_deep[d] : in_space[d]);
    return move_copy(call, &box);
}

static tn_status move_depth_to_space(tn_kernel_call *call) { return move_blocks(call, true); }
static tn_status move_space_to_depth(tn_kernel_call *call) { return move_blocks(call, false); }

/* --- Expand, Tile --- */

static tn_status move_expand(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    int64_t target[TN_RANK_MAX], shape[TN_RANK_MAX], strides[TN_RANK_MAX];
    uint32_t count;
    bool given;
    TN_TRY(tn__call_list(call, 1, NULL, TN_RANK_MAX, target, &count, &given));
    uint32_t rank = count > from->rank ? count : from->rank;
    tn__walk box = {.rank = rank};
    tn__dense_strides(from, strides);
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t missing = rank - from->rank, absent = rank - count;
        int64_t own = d >= missing ? from->shape[d - missing] : 1;
        int64_t wanted = d >= absent ? target[d - absent] : 1;
        if (own != wanted && own != 1 && wanted != 1)
            return tn__call_fail(call, TN_E_INVALID, "extent %lld does not expand to %lld",
                                 (long long)own, (long long)wanted);
        box.extent[d] = shape[d] = own == 1 ? wanted : own;
        box.stride[1][d] = own == 1 ? 0 : strides[d - missing];
    }
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    tn__dense_strides(&call->outputs[0], box.stride[0]);
    return move_copy(call, &box);
}

/* Reads the repeats of Tile for each axis. Before opset 6, Tile has two scalar inputs instead: the
 * number of repeats, and the axis. */
static tn_status move_repeats(const tn_kernel_call *call, int64_t *repeats) {
    uint32_t rank = call->inputs[0].rank, count, axis;
    bool given;
    TN_TRY(tn__call_list(call, 1, NULL, TN_RANK_MAX, repeats, &count, &given));
    if (tn__call_input(call, 2) != NULL && count == 1) {
        int64_t along, times = repeats[0];
        TN_TRY(tn__call_list(call, 2, NULL, 1, &along, &count, &given));
        TN_TRY(tn__call_axis(call, count ? along : 0, rank, &axis));
        for (uint32_t d = 0; d < rank; d++) repeats[d] = d == axis ? times : 1;
        count = rank;
    }
    if (count != rank)
        return tn__call_fail(call, TN_E_INVALID, "%u repeats for rank %u", count, rank);
    return TN_OK;
}

static tn_status move_tile(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    int64_t repeats[TN_RANK_MAX], shape[TN_RANK_MAX], in[TN_RANK_MAX], out[TN_RANK_MAX];
    TN_TRY(move_repeats(call, repeats));
    for (uint32_t d = 0; d < from->rank; d++)
        if (repeats[d] < 0 || __builtin_mul_overflow(from->shape[d], repeats[d], &shape[d]))
            return tn__call_fail(call, TN_E_INVALID, "repeat %u is %lld", d, (long long)repeats[d]);
    TN_TRY(tn__call_shape(call, 0, from->rank, shape));
    tn__dense_strides(from, in);
    tn__dense_strides(&call->outputs[0], out);
    tn__walk box = {0};
    for (uint32_t d = 0; d < from->rank; d++) {
        tn__walk_add(&box, repeats[d], out[d] * from->shape[d], 0);
        tn__walk_add(&box, from->shape[d], out[d], in[d]);
    }
    return move_copy(call, &box);
}

/* --- ReverseSequence --- */

static tn_status move_reverse(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0], *lengths = &call->inputs[1];
    int64_t batch = tn__attr_int(call->op, "batch_axis", 1),
            time = tn__attr_int(call->op, "time_axis", 0);
    if (from->rank < 2 || (batch != 0 && batch != 1) || time != !batch)
        return tn__call_fail(call, TN_E_INVALID, "the axes of batch and time must be 0 and 1");
    TN_TRY(tn__call_shape(call, 0, from->rank, from->shape));
    if (tn__operand_count(lengths) != (uint64_t)from->shape[batch])
        return tn__call_fail(call, TN_E_INVALID, "%llu lengths for a batch of %lld",
                             (unsigned long long)tn__operand_count(lengths),
                             (long long)from->shape[batch]);
    uint64_t piece = tn__operand_span(from, 2, from->rank) * tn__width(from->dtype);
    int64_t steps = from->shape[time], columns = from->shape[1];
    for (int64_t b = 0; b < from->shape[batch] && piece; b++) {
        int64_t length = tn__index(lengths, (uint64_t)b);
        if (length < 0 || length > steps)
            return tn__call_fail(call, TN_E_INVALID, "length %lld of %lld steps", (long long)length,
                                 (long long)steps);
        for (int64_t t = 0; t < steps; t++) {
            int64_t u = t < length ? length - 1 - t : t;
            int64_t to_at = batch ? t * columns + b : b * columns + t;
            int64_t from_at = batch ? u * columns + b : b * columns + u;
            memcpy((char *)call->outputs[0].data + (uint64_t)to_at * piece,
                   (const char *)from->data + (uint64_t)from_at * piece, piece);
        }
    }
    return TN_OK;
}

/* --- Trilu: each row keeps [first, last); may work in place -------------------------------------
 */

static tn_status move_trilu(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    bool upper = tn__attr_int(call->op, "upper", 1) != 0;
    int64_t k = 0;
    uint32_t count, width = tn__width(from->dtype), rank = from->rank;
    bool given;
    if (rank < 2) return tn__call_fail(call, TN_E_INVALID, "rank %u is below 2", rank);
    TN_TRY(tn__call_list(call, 1, NULL, 1, &k, &count, &given));
    TN_TRY(tn__call_shape(call, 0, rank, from->shape));
    int64_t rows = from->shape[rank - 2], columns = from->shape[rank - 1];
    if (k > columns) k = columns;
    if (k < -rows) k = -rows;
    uint64_t all = columns ? tn__operand_count(from) / (uint64_t)columns : 0;
    char *to = call->outputs[0].data;
    const char *in = from->data;
    uint64_t row_bytes = (uint64_t)columns * width;
    for (uint64_t row = 0; row < all; row++, to += row_bytes, in += row_bytes) {
        int64_t at = (int64_t)(row % (uint64_t)rows) + k + (upper ? 0 : 1);
        uint64_t cut = (uint64_t)(at < 0 ? 0 : at > columns ? columns : at) * width;
        if (to != in) memcpy(to, in, row_bytes);
        memset(upper ? to : to + cut, 0, upper ? cut : row_bytes - cut);
    }
    return TN_OK;
}

#define PLACES(name, function)                                                                     \
    { .type = #name, .accepts = tn__accepts_bytes, .run = function }

/* --- Reorder: between channels first and channels last --- */

static tn_status move_run_reorder(tn_kernel_call *call) {
    tn_operand *to = &call->outputs[0];
    const tn_operand *from = &call->inputs[0];
    bool last = to->format.order == TN_ORDER_NHWC;
    /* The plan lets the output share the input's address only if both orders have the same
     * bytes. */
    if (to->data == from->data) return TN_OK;
    if (last == (from->format.order == TN_ORDER_NHWC))
        tn__operand_copy(to, from);
    else
        tn__inner_reorder(from, to->data, last);
    return TN_OK;
}

static bool move_accepts_reorder(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    return x != NULL && tn_dtype_bits(x->dtype) % 8 == 0 && x->format.block == 0;
}

/* --- the same bytes under another shape or type --- */

static tn_status views_run(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint64_t count = tn__operand_count(from), wanted = tn__operand_count(to);
    if (count != wanted || from->dtype != to->dtype)
        return tn__call_fail(call, TN_E_INVALID, "%llu elements of %s are not %llu of %s",
                             (unsigned long long)count, tn_dtype_name(from->dtype),
                             (unsigned long long)wanted, tn_dtype_name(to->dtype));
    TN_TRY(tn__call_shape(call, 0, to->rank, to->shape));
    tn__operand_copy(to, from);
    return TN_OK;
}

/* BitCast: copies the bits to an output of another type. */
static tn_status views_run_bits(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint64_t bytes = tn__operand_bytes(from);
    if (bytes != tn__operand_bytes(to))
        return tn__call_fail(call, TN_E_INVALID, "%s and %s have other widths",
                             tn_dtype_name(from->dtype), tn_dtype_name(to->dtype));
    TN_TRY(tn__call_shape(call, 0, to->rank, to->shape));
    if (to->data != from->data && bytes > 0) memcpy(to->data, from->data, bytes);
    return TN_OK;
}

/* OptionalHasElement of an operand that the run gives */
static tn_status views_run_has(tn_kernel_call *call) {
    *(bool *)call->outputs[0].data = tn__call_input(call, 0) != NULL;
    return TN_OK;
}

#define VIEWS(name)                                                                                \
    { .type = #name, .accepts = tn__accepts_output, .run = views_run }

/* --- Shape, Size: the extents of an operand as numbers --- */

static int64_t shapes_limit(const tn_op *op, const char *name, int64_t otherwise, int64_t rank) {
    int64_t at = tn__attr_int(op, name, otherwise);
    if (at < 0) at = at < -rank ? 0 : at + rank;
    return at > rank ? rank : at;
}

static tn_status shapes_shape(tn_kernel_call *call) {
    const tn_operand *input = &call->inputs[0];
    int64_t rank = input->rank, first = shapes_limit(call->op, "start", 0, rank);
    int64_t last = shapes_limit(call->op, "end", rank, rank);
    int64_t count = last > first ? last - first : 0;
    TN_TRY(tn__call_shape(call, 0, 1, &count));
    if (count > 0)
        memcpy(call->outputs[0].data, input->shape + first, (uint64_t)count * sizeof count);
    return TN_OK;
}

static tn_status shapes_size(tn_kernel_call *call) {
    int64_t size = (int64_t)tn__operand_count(&call->inputs[0]);
    TN_TRY(tn__call_shape(call, 0, 0, NULL));
    memcpy(call->outputs[0].data, &size, sizeof size);
    return TN_OK;
}

static const tn_kernel move_kernels[] = {
    PLACES(DepthToSpace, move_depth_to_space),
    PLACES(Expand, move_expand),
    PLACES(ReverseSequence, move_reverse),
    PLACES(SpaceToDepth, move_space_to_depth),
    PLACES(Tile, move_tile),
    PLACES(Transpose, move_transpose),
    PLACES(Trilu, move_trilu),
    {.domain = "tenure",
     .type = "Reorder",
     .accepts = move_accepts_reorder,
     .run = move_run_reorder,
     .formats = true},
    {.type = "BitCast", .accepts = tn__accepts_output, .run = views_run_bits},
    VIEWS(Flatten),
    VIEWS(Identity),
    VIEWS(Optional),
    VIEWS(OptionalGetElement),
    {.type = "OptionalHasElement", .accepts = tn__accepts_output, .run = views_run_has},
    VIEWS(Reshape),
    VIEWS(Squeeze),
    VIEWS(Unsqueeze),
    {.type = "Shape", .accepts = tn__accepts_output, .run = shapes_shape},
    {.type = "Size", .accepts = tn__accepts_output, .run = shapes_size},
};

TN_KERNEL_FAMILY(move, "");
