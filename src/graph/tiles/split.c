/* split.c - tn__op_split, and the tile rules of operators that need no window: element-wise
 * operators, products, normalisations, and operators that move elements.
 *
 * The checks that every answer must pass are made here once, as facts.c does for views.
 * Cost: that of the rule, O(inputs) at most.
 */
#include "graph/rules/fold.h"
#include "graph/store.h"
#include "graph/tiles/split.h"

/* --- element-wise operators ------------------------------------------------------------------- */

/* --- the question: which elements of each input a part of an operator needs --- */

static bool split_is_exact(const tn_tensor *tensor) {
    return tn__shape_known(tensor) && tensor->format.block == 0 && tensor->repeat == 1 &&
           (tensor->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) == 0;
}

/* Whether all outputs that are present have this axis, with equal extents, and the part lies inside
 * it. */
static bool split_in_common(const tn_infer *infer, const tn__tile *part) {
    const tn_tensor *y = tn__output(infer, 0);
    if (!split_is_exact(y) || part->axis >= y->rank) return false;
    for (uint32_t k = 1; k < tn__output_count(infer); k++) {
        const tn_tensor *other = tn__output(infer, k);
        if (other == NULL) continue;
        if (!split_is_exact(other) || part->axis >= other->rank ||
            other->shape[part->axis] != y->shape[part->axis])
            return false;
    }
    return part->first >= 0 && part->first < part->last && part->last <= y->shape[part->axis];
}

/* The rule of one input looks at all inputs, so the work for an operator grows with the square of
 * their number. An operator with more inputs than this is computed as a whole. */
#define SPLIT_INPUTS_MOST 1024u

/* Checks that an operator may be divided and that all of its operands are known; prepares `infer`
 * for its rules. */
static bool split_begin(const tn_graph *graph, tn_op_id id, tn_infer *infer) {
    const tn_op_rule *rule = graph->rules[id];
    const tn_op *op = &graph->ops[id];
    const uint32_t never = TN_RULE_CONTROL | TN_RULE_ORDERED | TN_RULE_CHANGES;
    if (rule == NULL || (rule->flags & never) != 0) return false;
    if (tn__op_has_blocks(op) || op->input_count < rule->inputs_min) return false;
    if (op->input_count > SPLIT_INPUTS_MOST) return false;
    /* every rule reads input 0, also of operators whose file states the shape without it */
    if (op->input_count == 0 || op->inputs[0] == TN_NONE) return false;
    /* the cast is safe: rules that answer questions do not write */
    *infer = (tn_infer){.graph = (tn_graph *)(uintptr_t)graph,
                        .op = op,
                        .id = id,
                        .version = op->version ? op->version : UINT32_MAX};
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] == TN_NONE ? i < rule->inputs_min : !split_is_exact(tn__input(infer, i)))
            return false;
    return true;
}

/* Calls the rule for one input of an operator that split_begin has accepted. */
static bool split_input(tn_infer *infer, const tn_op_rule *rule, tn__tile *part, uint32_t input,
                        tn__need *need) {
    *need = (tn__need){.axis = TN_NONE};
    if (!split_in_common(infer, part) || input >= infer->op->input_count) return false;
    const tn_tensor *x = tn__input(infer, input);
    if (x == NULL) return true;
    if (!rule->split(infer, part, input, need) || !split_in_common(infer, part)) return false;
    if (need->before < 0 || need->after < 0) return false;
    if (need->axis == TN_NONE) return true;
    if (need->axis >= x->rank || need->first < 0 || need->last > x->shape[need->axis]) return false;
    bool may_be_empty = (rule->flags & TN_RULE_JOINS) != 0;
    return may_be_empty ? need->first <= need->last : need->first < need->last;
}

bool tn__op_split(const tn_graph *graph, tn_op_id op, tn__tile *part, uint32_t input,
                  tn__need *need) {
    tn_infer infer;
    *need = (tn__need){.axis = TN_NONE};
    const tn_op_rule *rule = graph->rules[op];
    if (rule == NULL || rule->split == NULL || !split_begin(graph, op, &infer)) return false;
    return split_input(&infer, rule, part, input, need);
}

bool tn__op_splits(const tn_graph *graph, tn_op_id id, uint32_t axis) {
    tn_infer infer;
    const tn_op_rule *rule = graph->rules[id];
    const tn_op *op = &graph->ops[id];
    if (op->output_count == 0 || op->outputs[0] == TN_NONE || op->input_count == 0) return false;
    const tn_tensor *y = &graph->tensors[op->outputs[0]];
    if (!split_is_exact(y) || axis >= y->rank) return false;
    if (rule == NULL || rule->split == NULL || !split_begin(graph, id, &infer)) return false;
    bool cut = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn__tile part = {axis, 0, y->shape[axis]};
        tn__need need;
        if (!split_input(&infer, rule, &part, i, &need)) return false;
        cut = cut || need.axis != TN_NONE;
    }
    return cut;
}

bool tn__op_sums(const tn_graph *graph, tn_op_id id, uint32_t input, uint32_t *axis) {
    tn_infer infer;
    const tn_op_rule *rule = graph->rules[id];
    *axis = TN__SUM_WHOLE;
    if (rule == NULL || rule->sums == NULL || !split_begin(graph, id, &infer)) return false;
    if (!split_is_exact(tn__output(&infer, 0)) || input >= infer.op->input_count) return false;
    const tn_tensor *x = tn__input(&infer, input);
    if (x == NULL) return true;
    if (!rule->sums(&infer, input, axis)) return false;
    return *axis == TN__SUM_WHOLE || *axis == TN__SUM_ONCE || *axis < x->rank;
}

/* --- rules of element-wise operators --- */

bool tn__split_each(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, input), *y = tn__output(infer, 0);
    /* before opset 7, operands of lower rank are aligned at an attribute, so the operator is not
     * divided */
    bool old = infer->version < 7 && *infer->op->domain == '\0';
    if (x->rank > y->rank || (old && x->rank != y->rank && tn__elements(x) != 1)) return false;
    uint32_t missing = y->rank - x->rank;
    if (part->axis < missing || x->shape[part->axis - missing] == 1) return tn__need_all(need);
    if (x->shape[part->axis - missing] != y->shape[part->axis]) return false;
    return tn__need_same(need, part->axis - missing, part);
}

bool tn__split_first(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *y = tn__output(infer, 0);
    if (input > 0) return tn__need_all(need);
    if (x->rank != y->rank || x->shape[part->axis] != y->shape[part->axis]) return false;
    return tn__need_same(need, part->axis, part);
}

/* --- reshapes --- */

static uint64_t split_before(const tn_tensor *tensor, uint32_t axis) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < axis; d++) count = tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    return count;
}

bool tn__split_reshape(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *y = tn__output(infer, 0);
    uint64_t before = split_before(y, part->axis);
    if (input > 0) return tn__need_all(need);
    for (uint32_t d = 0; d < x->rank; d++)
        if (x->shape[d] == y->shape[part->axis] && split_before(x, d) == before)
            return tn__need_same(need, d, part);
    return false;
}

/* --- products --------------------------------------------------------------------------------- */

/* Splits products of matrices: by rows of the left operand, columns of the right one, or matrices
 * of a batch. The axis that is summed over is not an axis of the result: parts along it add up. */

/* Handles an axis of the batch. The operand has rank `rank`, and the first `batch` axes of the
 * result count matrices; `axis` is one of these. */
static bool product_batch(const tn_tensor *operand, uint32_t axis, uint32_t batch,
                          const uint32_t *place, const tn__tile *part, tn__need *need) {
    uint32_t own = operand->rank - 2;
    if (axis + own < batch) return tn__need_all(need);
    uint32_t at = axis + own - batch;
    uint32_t real = place != NULL ? place[at] : at;
    if (operand->shape[real] == 1) return tn__need_all(need);
    return tn__need_same(need, real, part);
}

bool tn__split_matmul(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1), *y = tn__output(infer, 0);
    const tn_tensor *own = input == 0 ? a : b;
    if (a->rank < 2 || b->rank < 2 || y->rank < 2) return false;
    if (part->axis + 2 < y->rank)
        return product_batch(own, part->axis, y->rank - 2, NULL, part, need);
    /* 0: rows, which belong to a; 1: columns, which belong to b */
    uint32_t side = part->axis + 2 - y->rank;
    return side == input ? tn__need_same(need, own->rank - 2 + side, part) : tn__need_all(need);
}

bool tn__split_gemm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    bool flips = tn__attr_int(infer->op, input == 0 ? "transA" : "transB", 0) != 0;
    if (input == 2) return tn__split_each(infer, part, input, need);
    if (input != part->axis) return tn__need_all(need);
    return tn__need_same(need, flips ? 1 - part->axis : part->axis, part);
}

bool tn__sums_matmul(tn_infer *infer, uint32_t input, uint32_t *axis) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    if (a->rank < 2 || b->rank < 2) return false;
    *axis = input == 0 ? a->rank - 1 : b->rank - 2;
    return true;
}

bool tn__sums_gemm(tn_infer *infer, uint32_t input, uint32_t *axis) {
    bool flips = tn__attr_int(infer->op, input == 0 ? "transA" : "transB", 0) != 0;
    if (input == 2) *axis = TN__SUM_ONCE;
    if (input < 2) *axis = (input == 0) != flips;
    return tn__input(infer, 2) == NULL || tn__attr_float(infer->op, "beta", 1) == 1;
}

/* Finds, for each dimension d of an operand in the product, the axis of the tensor that a
 * transposition makes this dimension. */
static bool product_places(const tn_infer *infer, const char *name, uint32_t rank,
                           uint32_t *place) {
    uint32_t count;
    const int64_t *perm = tn__attr_ints(infer->op, name, &count);
    if (perm != NULL && count != rank) return false;
    for (uint32_t d = 0; d < rank; d++) place[d] = perm != NULL ? (uint32_t)perm[d] : d;
    return true;
}

bool tn__split_fused_matmul(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *y = tn__output(infer, 0), *own = tn__input(infer, input);
    uint32_t place[TN_RANK_MAX];
    if (input == 3) return tn__need_same(need, part->axis, part); /* input 3 is the summand */
    if (!product_places(infer, "perm_y", y->rank, place)) return false;
    uint32_t axis = place[part->axis], side = axis + 2 - y->rank;
    if (input == 2) /* input 2 is a row or a single number */
        return axis + 1 < y->rank || own->rank == 0 || own->shape[own->rank - 1] == 1
                   ? tn__need_all(need)
                   : tn__need_same(need, own->rank - 1, part);
    if (own->rank < 2 || !product_places(infer, input == 0 ? "perm_a" : "perm_b", own->rank, place))
        return false;
    if (axis + 2 < y->rank) return product_batch(own, axis, y->rank - 2, place, part, need);
    return side == input ? tn__need_same(need, place[own->rank - 2 + side], part)
                         : tn__need_all(need);
}

/* --- rules of normalisations and of operators that move elements ------------------------------ */

/* Splits normalisations along other axes than the normalised ones, and operators that move
 * elements: an axis of the result is one of the input's, or runs through several inputs. */

/* --- normalisations --- */

/* Reads the axis in attribute `axis`, for the rank of input 0; returns false if it is invalid. */
static bool move_axis(const tn_infer *infer, int64_t otherwise, uint32_t rank, uint32_t *axis) {
    int64_t at = tn__attr_int(infer->op, "axis", otherwise);
    if (at < 0) at += rank;
    *axis = (uint32_t)at;
    return at >= 0 && at < (int64_t)rank;
}

/* Handles an operator in which input 0 has the axis and the other inputs are vectors over the
 * channels: these need the channels of the part. */
static bool move_channels(tn__tile *part, uint32_t input, tn__need *need) {
    if (input == 0) return tn__need_same(need, part->axis, part);
    return part->axis == 1 ? tn__need_same(need, 0, part) : tn__need_all(need);
}

bool tn__split_batch_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    bool trains = tn__attr_int(infer->op, "training_mode", 0) != 0 ||
                  (infer->version < 7 && tn__attr_int(infer->op, "is_test", 0) == 0);
    if (trains || tn__output(infer, 1) != NULL || tn__attr_int(infer->op, "spatial", 1) == 0)
        return false;
    return move_channels(part, input, need);
}

bool tn__split_layer_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    if (!move_axis(infer, -1, tn__input(infer, 0)->rank, &axis) || part->axis >= axis) return false;
    return input == 0 ? tn__need_same(need, part->axis, part)
                      : tn__split_each(infer, part, input, need);
}

bool tn__split_instance_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    (void)infer;
    return part->axis < 2 && move_channels(part, input, need);
}

/* LRN: sums over neighbouring channels, so it is not divided along the channels. */
bool tn__split_local_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    (void)infer;
    (void)input;
    return part->axis != 1 && tn__need_same(need, part->axis, part);
}

bool tn__split_batch(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    return part->axis == 0 && tn__split_first(infer, part, input, need);
}

bool tn__split_axis_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    if (!move_axis(infer, -1, tn__input(infer, 0)->rank, &axis) || part->axis == axis) return false;
    return tn__split_first(infer, part, input, need);
}

/* Softmax: before opset 13 all axes from `axis` on form one row. */
bool tn__split_softmax(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    bool flat = infer->version < 13;
    if (!move_axis(infer, flat ? 1 : -1, tn__input(infer, 0)->rank, &axis)) return false;
    if (flat ? part->axis >= axis : part->axis == axis) return false;
    return tn__split_first(infer, part, input, need);
}

bool tn__split_masked_softmax(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    if (part->axis + 1 == tn__output(infer, 0)->rank) return false;
    return tn__split_each(infer, part, input, need);
}

/* QuantizeLinear and DequantizeLinear: scale and zero point are a single number, or have one
 * element per element of `axis`. */
bool tn__split_quantize(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *own = tn__input(infer, input);
    uint32_t axis;
    if (input == 0) return tn__need_same(need, part->axis, part);
    if (own->rank == 0 || (own->rank == 1 && own->shape[0] == 1)) return tn__need_all(need);
    if (own->rank != 1 || !move_axis(infer, 1, x->rank, &axis)) return false;
    return part->axis == axis ? tn__need_same(need, 0, part) : tn__need_all(need);
}

/* --- rules of operators that move elements --- */

bool tn__split_concat(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    int64_t before = 0;
    if (!move_axis(infer, infer->version < 4 ? 1 : 0, tn__output(infer, 0)->rank, &axis))
        return false;
    if (part->axis != axis) return tn__need_same(need, part->axis, part);
    for (uint32_t i = 0; i < input; i++)
        if (tn__input(infer, i) != NULL) before += tn__input(infer, i)->shape[axis];
    int64_t extent = tn__input(infer, input)->shape[axis];
    int64_t first = part->first - before, last = part->last - before;
    first = first < 0 ? 0 : first > extent ? extent : first;
    last = last < first ? first : last > extent ? extent : last;
    return tn__need_range(need, axis, first, last);
}

bool tn__split_transpose(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    uint32_t count, rank = tn__input(infer, 0)->rank;
    const int64_t *perm = tn__attr_ints(infer->op, "perm", &count);
    (void)input;
    if (perm != NULL && count != rank) return false;
    return tn__need_same(need, perm != NULL ? (uint32_t)perm[part->axis] : rank - 1 - part->axis,
                         part);
}

/* Whether a Slice or Pad changes the axis, that is, the axis is in its list of axes. */
static bool move_is_named(const tn_infer *infer, uint32_t input, uint32_t axis) {
    uint32_t count, rank = tn__input(infer, 0)->rank;
    const int64_t *axes;
    if (!tn__list(infer, input, "axes", &axes, &count)) return true;
    /* without a list of axes, all axes or the first `count` are changed, so the axis counts as
     * changed */
    if (axes == NULL) return true;
    for (uint32_t i = 0; i < count; i++)
        if (axes[i] == (int64_t)axis || axes[i] + (int64_t)rank == (int64_t)axis) return true;
    return false;
}

/* Whether a Pad without a list of axes leaves this axis unpadded: its paddings are 0. */
static bool move_is_unpadded(const tn_infer *infer, uint32_t axis) {
    uint32_t count, rank = tn__input(infer, 0)->rank;
    const int64_t *pads;
    const char *name = tn__attr(infer->op, "paddings") ? "paddings" : "pads";
    if (strcmp(infer->op->type, "Pad") != 0 || tn__input(infer, 3) != NULL) return false;
    return tn__list(infer, 1, name, &pads, &count) && pads != NULL && count == 2 * rank &&
           pads[axis] == 0 && pads[rank + axis] == 0;
}

bool tn__split_untouched(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    if (move_is_named(infer, 3, part->axis) && !move_is_unpadded(infer, part->axis)) return false;
    return tn__split_first(infer, part, input, need);
}

/* Expand: input 1 is the shape. */
bool tn__split_expand(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    return input == 0 ? tn__split_each(infer, part, input, need) : tn__need_all(need);
}

/* Split: can be divided along axes other than its own. */
bool tn__split_outputs(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    if (!move_axis(infer, 0, tn__input(infer, 0)->rank, &axis) || part->axis == axis) return false;
    return tn__split_first(infer, part, input, need);
}

bool tn__split_gather(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *data = tn__input(infer, 0), *indices = tn__input(infer, 1);
    uint32_t axis;
    if (!move_axis(infer, 0, data->rank, &axis)) return false;
    bool inside = part->axis >= axis && part->axis < axis + indices->rank;
    if (inside != (input == 1)) return tn__need_all(need);
    if (inside) return tn__need_same(need, part->axis - axis, part);
    return tn__need_same(need, part->axis < axis ? part->axis : part->axis - indices->rank + 1,
                         part);
}

/* Gather: a lookup in a part of the table gives zeros for indices outside the part, so that the
 * results of the parts add up. */
bool tn__sums_gather(tn_infer *infer, uint32_t input, uint32_t *axis) {
    if (input != 0) return true;
    return move_axis(infer, 0, tn__input(infer, 0)->rank, axis);
}

/* Enlarges the part to whole blocks. */
static bool move_blocks(tn_infer *infer, tn__tile *part, int64_t block) {
    int64_t extent = tn__output(infer, 0)->shape[part->axis];
    if (block < 1 || extent % block != 0) return false;
    part->first -= part->first % block;
    part->last += (block - part->last % block) % block;
    return true;
}

bool tn__split_to_space(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    int64_t block = tn__attr_int(infer->op, "blocksize", 0);
    (void)input;
    if (part->axis == 0) return tn__need_same(need, 0, part);
    if (part->axis == 1 || !move_blocks(infer, part, block)) return false;
    return tn__need_range(need, part->axis, part->first / block, part->last / block);
}

bool tn__split_to_depth(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    int64_t block = tn__attr_int(infer->op, "blocksize", 0);
    (void)input;
    if (part->axis == 1 || block < 1) return false;
    if (part->axis == 0) return tn__need_same(need, 0, part);
    return tn__need_range(need, part->axis, part->first * block, part->last * block);
}

/* Resize with known scales: can be divided along an axis that keeps its extent, or in mode nearest
 * if each element becomes a block of its own. */
bool tn__split_resize(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *y = tn__output(infer, 0);
    bool upsample = strcmp(infer->op->type, "Upsample") == 0;
    const char *mode = tn__attr_string(infer->op, "mode", "nearest");
    const char *places =
        tn__attr_string(infer->op, "coordinate_transformation_mode",
                        upsample || infer->version < 11 ? "asymmetric" : "half_pixel");
    const char *rounds = tn__attr_string(infer->op, "nearest_mode", "round_prefer_floor");
    if (input > 0) return tn__need_all(need);
    const tn_value *scales = tn__value(infer, upsample || infer->version < 11 ? 1 : 2);
    bool given = tn__attr(infer->op, "scales") != NULL || (scales != NULL && scales->count > 0);
    int64_t from = x->shape[part->axis], to = y->shape[part->axis];
    if (!given || tn__attr(infer->op, "axes") != NULL || tn__input(infer, 3) != NULL ||
        strcmp(places, "tf_crop_and_resize") == 0)
        return false;
    if (scales != NULL && tn__value_at(scales, part->axis) * (double)from != (double)to)
        return false;
    if (from == to) return tn__need_same(need, part->axis, part);
    bool floors = upsample || infer->version < 11 || strcmp(rounds, "floor") == 0;
    bool even = strcmp(places, "asymmetric") == 0 && floors;
    bool centred = strcmp(places, "half_pixel") == 0 && strncmp(rounds, "round_", 6) == 0;
    if (strcmp(mode, "nearest") != 0 || to % from != 0 || !(even || centred)) return false;
    return move_blocks(infer, part, to / from) &&
           tn__need_range(need, part->axis, part->first * from / to, part->last * from / to);
}
