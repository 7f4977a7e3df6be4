/* split_move.c - splits normalisations along other axes than the normalised ones, and operators
 * that move elements: an axis of the result is one of the input's, or runs through several
 * inputs. */
#include "graph/fold.h"
#include "graph/tiles/split.h"

/* --- normalisations --- */

/* The axis in attribute `axis` of something of input 0's rank; false: it is wrong. */
static bool move_axis(const tn_infer *infer, int64_t otherwise, uint32_t rank, uint32_t *axis) {
    int64_t at = tn__attr_int(infer->op, "axis", otherwise);
    if (at < 0) at += rank;
    *axis = (uint32_t)at;
    return at >= 0 && at < (int64_t)rank;
}

/* Input 0 along the axis; the other inputs are rows of the channels, and need the same channels. */
static bool move_channels(tn__part *part, uint32_t input, tn__need *need) {
    if (input == 0) return tn__need_same(need, part->axis, part);
    return part->axis == 1 ? tn__need_same(need, 0, part) : tn__need_all(need);
}

bool tn__split_batch_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    bool trains = tn__attr_int(infer->op, "training_mode", 0) != 0 ||
                  (infer->version < 7 && tn__attr_int(infer->op, "is_test", 0) == 0);
    if (trains || tn__output(infer, 1) != NULL || tn__attr_int(infer->op, "spatial", 1) == 0)
        return false;
    return move_channels(part, input, need);
}

bool tn__split_layer_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    if (!move_axis(infer, -1, tn__input(infer, 0)->rank, &axis) || part->axis >= axis) return false;
    return input == 0 ? tn__need_same(need, part->axis, part)
                      : tn__split_each(infer, part, input, need);
}

bool tn__split_instance_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    (void)infer;
    return part->axis < 2 && move_channels(part, input, need);
}

/* Neighbouring channels are summed over. */
bool tn__split_local_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    (void)infer;
    (void)input;
    return part->axis != 1 && tn__need_same(need, part->axis, part);
}

bool tn__split_batch(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    return part->axis == 0 && tn__split_first(infer, part, input, need);
}

bool tn__split_axis_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    if (!move_axis(infer, -1, tn__input(infer, 0)->rank, &axis) || part->axis == axis) return false;
    return tn__split_first(infer, part, input, need);
}

/* Before opset 13 all axes from `axis` on are one row. */
bool tn__split_softmax(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    bool flat = infer->version < 13;
    if (!move_axis(infer, flat ? 1 : -1, tn__input(infer, 0)->rank, &axis)) return false;
    if (flat ? part->axis >= axis : part->axis == axis) return false;
    return tn__split_first(infer, part, input, need);
}

bool tn__split_masked_softmax(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    if (part->axis + 1 == tn__output(infer, 0)->rank) return false;
    return tn__split_each(infer, part, input, need);
}

/* Scale and zero point are one number, or one per element of `axis`. */
bool tn__split_quantize(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *own = tn__input(infer, input);
    uint32_t axis;
    if (input == 0) return tn__need_same(need, part->axis, part);
    if (own->rank == 0 || (own->rank == 1 && own->shape[0] == 1)) return tn__need_all(need);
    if (own->rank != 1 || !move_axis(infer, 1, x->rank, &axis)) return false;
    return part->axis == axis ? tn__need_same(need, 0, part) : tn__need_all(need);
}

/* --- what moves elements --- */

bool tn__split_concat(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
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

bool tn__split_transpose(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    uint32_t count, rank = tn__input(infer, 0)->rank;
    const int64_t *perm = tn__attr_ints(infer->op, "perm", &count);
    (void)input;
    if (perm != NULL && count != rank) return false;
    return tn__need_same(need, perm != NULL ? (uint32_t)perm[part->axis] : rank - 1 - part->axis,
                         part);
}

/* Whether Slice or Pad changes the axis: it is in one of their lists. */
static bool move_is_named(const tn_infer *infer, uint32_t input, uint32_t axis) {
    uint32_t count, rank = tn__input(infer, 0)->rank;
    const int64_t *axes;
    if (!tn__list(infer, input, "axes", &axes, &count)) return true;
    if (axes == NULL) return true; /* all axes, or the first `count` */
    for (uint32_t i = 0; i < count; i++)
        if (axes[i] == (int64_t)axis || axes[i] + (int64_t)rank == (int64_t)axis) return true;
    return false;
}

/* Pads without a list of axes are for all: along this one they are 0. */
static bool move_is_unpadded(const tn_infer *infer, uint32_t axis) {
    uint32_t count, rank = tn__input(infer, 0)->rank;
    const int64_t *pads;
    const char *name = tn__attr(infer->op, "paddings") ? "paddings" : "pads";
    if (strcmp(infer->op->type, "Pad") != 0 || tn__input(infer, 3) != NULL) return false;
    return tn__list(infer, 1, name, &pads, &count) && pads != NULL && count == 2 * rank &&
           pads[axis] == 0 && pads[rank + axis] == 0;
}

bool tn__split_untouched(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    if (move_is_named(infer, 3, part->axis) && !move_is_unpadded(infer, part->axis)) return false;
    return tn__split_first(infer, part, input, need);
}

/* Input 1 is the shape. */
bool tn__split_expand(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    return input == 0 ? tn__split_each(infer, part, input, need) : tn__need_all(need);
}

/* Split: along other axes than its own. */
bool tn__split_outputs(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    uint32_t axis;
    if (!move_axis(infer, 0, tn__input(infer, 0)->rank, &axis) || part->axis == axis) return false;
    return tn__split_first(infer, part, input, need);
}

bool tn__split_gather(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *data = tn__input(infer, 0), *indices = tn__input(infer, 1);
    uint32_t axis;
    if (!move_axis(infer, 0, data->rank, &axis)) return false;
    bool inside = part->axis >= axis && part->axis < axis + indices->rank;
    if (inside != (input == 1)) return tn__need_all(need);
    if (inside) return tn__need_same(need, part->axis - axis, part);
    return tn__need_same(need, part->axis < axis ? part->axis : part->axis - indices->rank + 1,
                         part);
}

/* A table of which a part is looked up in gives zeros for the rest. */
bool tn__sums_gather(tn_infer *infer, uint32_t input, uint32_t *axis) {
    if (input != 0) return true;
    return move_axis(infer, 0, tn__input(infer, 0)->rank, axis);
}

/* A part of whole blocks. */
static bool move_blocks(tn_infer *infer, tn__part *part, int64_t block) {
    int64_t extent = tn__output(infer, 0)->shape[part->axis];
    if (block < 1 || extent % block != 0) return false;
    part->first -= part->first % block;
    part->last += (block - part->last % block) % block;
    return true;
}

bool tn__split_to_space(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    int64_t block = tn__attr_int(infer->op, "blocksize", 0);
    (void)input;
    if (part->axis == 0) return tn__need_same(need, 0, part);
    if (part->axis == 1 || !move_blocks(infer, part, block)) return false;
    return tn__need_range(need, part->axis, part->first / block, part->last / block);
}

bool tn__split_to_depth(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    int64_t block = tn__attr_int(infer->op, "blocksize", 0);
    (void)input;
    if (part->axis == 1 || block < 1) return false;
    if (part->axis == 0) return tn__need_same(need, 0, part);
    return tn__need_range(need, part->axis, part->first * block, part->last * block);
}

/* Resizing by scales that are given: along an axis that keeps its extent, or to the nearest element
 * where each becomes a block of its own. */
bool tn__split_resize(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
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
