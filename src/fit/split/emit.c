/* emit.c - tn_graph_split: adds the operators for the tiles of regions, in the order of execution.
 *
 * For each tile, each operator of the region reads its operands: the tile of a tensor that the
 * region has just computed, or a part of a whole tensor. Such a part is made by an operator
 * tenure.Part, which is a view if the part is contiguous. Elements of a tensor that the next tile
 * needs as well are copied after the last reader in this tile, so that the rest of the tensor can
 * be released. The copy is then joined with the elements that the next tile computes. At the end,
 * the tiles of each result are joined along the first axis; if two axes are cut, tiles are first
 * joined into rows.
 *
 * Cost: O(operators * tiles).
 */
#include "fit/split/region.h"

#include <stdio.h>

#include "fit/split/trace.h"
#include "graph/takes.h"

/* A part of a whole tensor, which all readers in one tile share. */
typedef struct emit_taken {
    tn_tensor_id from, made;
    split_span spans[TN_SPLIT_AXES];
    uint32_t axes[TN_SPLIT_AXES]; /* axes of the tensor that `spans` refer to */
} emit_taken;

typedef struct emit_tiles {
    split_region *region;
    tn__draft *draft;
    /* records the origin of operators and tensors; NULL: the caller does not need it */
    emit_trace *trace;
    /* the operator for which a tile is being made; TN_NONE: there is no such operator */
    tn_op_id source;
    tn_op_id before; /* the operator of the graph before which the new operators are placed */
    uint32_t part[TN_SPLIT_AXES];
    uint32_t number;   /* number of the current tile, from 1 */
    tn_tensor_id *now; /* [tensors of the region] the new tensor that holds the current tile */
    /* [tensors of the region] the tensor that holds the elements kept from the current tile for the
     * next one */
    tn_tensor_id *kept;
    /* [tensors of the region][tiles along the first axis] the tensors that hold the tiles of
     * results */
    tn_tensor_id *pieces;
    emit_taken *taken;
    uint32_t taken_count, taken_room;
} emit_tiles;

/* For a window of TensorFlow Lite: how many elements it computes along height and width, and the
 * first of them that belongs to the tile. */
typedef struct emit_raw {
    int64_t count[2], first[2];
} emit_raw;

/* --- draft ------------------------------------------------------------------------------------ */

static tn_status emit_no_memory(const emit_tiles *emit) {
    return tn__no_memory(emit->draft->error, "a split graph");
}

static const tn_tensor *emit_tensor(const emit_tiles *emit, tn_tensor_id id) {
    return tn__draft_tensor_of(emit->draft, id);
}

/* Adds a tensor with the type and format of `id`, but another shape. */
static tn_status emit_like(emit_tiles *emit, tn_tensor_id id, const int64_t *shape,
                           tn_tensor_id *made) {
    const tn_tensor like = *emit_tensor(emit, id);
    char name[200];
    snprintf(name, sizeof name, "%.150s/%u", like.name, emit->number);
    TN_TRY(tn__draft_add_tensor(emit->draft, name, like.dtype, like.rank, shape, made));
    emit->draft->tensors[*made].tensor.format = like.format;
    return tn__trace_tensor(emit->trace, *made, id) ? TN_OK : emit_no_memory(emit);
}

static tn_status emit_add(emit_tiles *emit, const tn_op *op) {
    char name[200], *text;
    tn_op_id id;
    TN_TRY(tn__draft_add_op(emit->draft, emit->before, op, &id));
    snprintf(name, sizeof name, "%.150s/%u", op->name, emit->number);
    text = tn__arena_string(&emit->draft->arena, name, strlen(name));
    if (text == NULL || !tn__trace_op(emit->trace, id, emit->source, emit->before))
        return emit_no_memory(emit);
    emit->draft->ops[id].op.name = text;
    return TN_OK;
}

/* Adds an operator that takes the elements from `starts` to `ends` along some axes of a tensor. */
static tn_status emit_part(emit_tiles *emit, tn_tensor_id from, const int64_t *axes,
                           const int64_t *starts, const int64_t *ends, uint32_t count, bool copy,
                           tn_tensor_id *made) {
    tn_op_id source = emit->source;
    /* if origins are recorded, the graph is written for a runtime that has no views, so parts are
     * copied */
    copy = copy || emit->trace != NULL;
    /* copies the struct, because adding a tensor may move the array of tensors */
    const tn_tensor tensor = *emit_tensor(emit, from);
    int64_t shape[TN_RANK_MAX], yes = 1;
    for (uint32_t d = 0; d < tensor.rank; d++) shape[d] = tensor.shape[d];
    for (uint32_t i = 0; i < count; i++) shape[axes[i]] = ends[i] - starts[i];
    const tn_attr attrs[] = {
        {.name = "axes", .type = TN_ATTR_INTS, .count = count, .ints = axes},
        {.name = "starts", .type = TN_ATTR_INTS, .count = count, .ints = starts},
        {.name = "ends", .type = TN_ATTR_INTS, .count = count, .ints = ends},
        {.name = "copy", .type = TN_ATTR_INT, .count = 1, .ints = &yes},
    };
    bool folds = emit->region->slices && tn_tensor_is_constant(&tensor);
    TN_TRY(emit_like(emit, from, shape, made));
    tn_op op = {.name = tensor.name,
                .type = folds ? "Slice" : "Part",
                .domain = folds ? "" : "tenure",
                .version = 1,
                .inputs = &from,
                .outputs = made,
                .input_count = 1,
                .output_count = 1};
    op.attrs =
        tn__draft_attrs(emit->draft, &(tn_op){0}, attrs, copy && !folds ? 4 : 3, &op.attr_count);
    if (op.attrs == NULL) return emit_no_memory(emit);
    emit->source = TN_NONE;
    tn_status status = emit_add(emit, &op);
    emit->source = source;
    return status;
}

static tn_status emit_join_few(emit_tiles *emit, const char *name, const tn_tensor_id *parts,
                               uint32_t count, uint32_t axis, tn_tensor_id whole) {
    tn_op_id source = emit->source;
    int64_t along = axis;
    const tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &along};
    tn_op op = {.name = name,
                .type = "Concat",
                .domain = "",
                .version = 13,
                .inputs = parts,
                .outputs = &whole,
                .input_count = count,
                .output_count = 1};
    op.attrs = tn__draft_attrs(emit->draft, &(tn_op){0}, &attr, 1, &op.attr_count);
    if (op.attrs == NULL) return emit_no_memory(emit);
    emit->source = TN_NONE;
    tn_status status = emit_add(emit, &op);
    emit->source = source;
    return status;
}

/* TensorFlow Lite Micro joins at most this many tensors. More tensors are joined in groups
 * first. */
#define EMIT_JOIN_MOST 10u

static tn_status emit_join(emit_tiles *emit, const char *name, const tn_tensor_id *parts,
                           uint32_t count, uint32_t axis, tn_tensor_id whole) {
    tn_tensor_id groups[EMIT_JOIN_MOST];
    uint32_t made = 0, size = (count + EMIT_JOIN_MOST - 1) / EMIT_JOIN_MOST;
    if (!tn__split_is_tflite(emit->region) || size < 2 || size > EMIT_JOIN_MOST)
        return emit_join_few(emit, name, parts, count, axis, whole);
    for (uint32_t at = 0; at < count; at += size) {
        uint32_t some = count - at < size ? count - at : size;
        const tn_tensor *part = emit_tensor(emit, parts[at]);
        int64_t shape[TN_RANK_MAX];
        for (uint32_t d = 0; d < part->rank; d++) shape[d] = part->shape[d];
        for (uint32_t i = 1; i < some; i++)
            shape[axis] += emit_tensor(emit, parts[at + i])->shape[axis];
        groups[made] = parts[at];
        if (some > 1) {
            TN_TRY(emit_like(emit, whole, shape, &groups[made]));
            TN_TRY(emit_join_few(emit, name, parts + at, some, axis, groups[made]));
        }
        made++;
    }
    return emit_join_few(emit, name, groups, made, axis, whole);
}

/* --- operands --- */

static split_span emit_need(const emit_tiles *emit, uint32_t cut, uint32_t tensor) {
    return *tn__split_need(emit->region, cut, emit->part[cut], tensor);
}

static tn_status emit_remember(emit_tiles *emit, const emit_taken *taken) {
    const tn_context *context = &emit->draft->context;
    size_t room = emit->taken_room;
    if (!tn__reserve(context, &emit->taken, &room, (size_t)emit->taken_count + 1,
                     sizeof *emit->taken))
        return emit_no_memory(emit);
    emit->taken_room = (uint32_t)room;
    emit->taken[emit->taken_count++] = *taken;
    return TN_OK;
}

/* Takes the box of elements that `needs` describes from a tensor; an equal box that was taken
 * before is used again. Along each cut, the tensor begins with element base[cut]. */
static tn_status emit_take(emit_tiles *emit, tn_tensor_id from, const tn__need *needs,
                           const int64_t *base, tn_tensor_id *made) {
    int64_t axes[TN_SPLIT_AXES], starts[TN_SPLIT_AXES], ends[TN_SPLIT_AXES];
    emit_taken taken = {.from = from};
    uint32_t count = 0;
    const tn_tensor *tensor = emit_tensor(emit, from);
    for (uint32_t c = 0; c < emit->region->axis_count; c++) {
        if (needs[c].axis == TN_NONE) continue;
        int64_t first = needs[c].first - base[c], last = needs[c].last - base[c];
        if (first == 0 && last == tensor->shape[needs[c].axis]) continue;
        axes[count] = needs[c].axis;
        starts[count] = first;
        ends[count++] = last;
        taken.spans[c] = (split_span){first, last};
        taken.axes[c] = needs[c].axis;
    }
    *made = from;
    if (count == 0) return TN_OK;
    for (uint32_t i = 0; i < emit->taken_count; i++)
        if (emit->taken[i].from == from &&
            memcmp(emit->taken[i].spans, taken.spans, sizeof taken.spans) == 0 &&
            memcmp(emit->taken[i].axes, taken.axes, sizeof taken.axes) == 0) {
            *made = emit->taken[i].made;
            return TN_OK;
        }
    TN_TRY(emit_part(emit, from, axes, starts, ends, count, false, made));
    taken.made = *made;
    return emit_remember(emit, &taken);
}

/* Makes what the current tile needs of input `input` of operator `at`; *made becomes this tensor.
 * It is TN_NONE if the operator omits the input, or if the tile needs no element of it
 * (*left_out). */
static tn_status emit_input(emit_tiles *emit, uint32_t at, uint32_t input, tn__need *needs,
                            bool *left_out, tn_tensor_id *made) {
    const split_region *region = emit->region;
    tn_tensor_id id = tn_graph_op(region->graph, region->ops[at].id)->inputs[input];
    int64_t base[TN_SPLIT_AXES] = {0};
    *left_out = false;
    *made = TN_NONE;
    if (id == TN_NONE) return TN_OK;
    uint32_t tensor = tn__split_local(region, id);
    bool cut = tn__split_is_cut(region, tensor);
    for (uint32_t c = 0; c < region->axis_count; c++) {
        tn__tile part;
        if (!tn__split_part_need(region, at, input, c, emit->part[c], &part, &needs[c]))
            TN_FAIL(emit->draft->error, TN_E_INTERNAL, "a part that was possible is not");
        if (needs[c].axis != TN_NONE && needs[c].first == needs[c].last) *left_out = true;
        if (cut) base[c] = emit_need(emit, c, tensor).first;
    }
    if (*left_out) return TN_OK;
    return emit_take(emit, cut ? emit->now[tensor] : id, needs, base, made);
}

/* --- windows of TensorFlow Lite --------------------------------------------------------------- */

/* Makes tiles of the windows of TensorFlow Lite, in one of three ways
 * (graph/tiles/split_window.c). */

/* Finds what the tile needs of input 0 along one axis: the need of a cut, or if the axis is not
 * cut, the need of the whole output. */
static tn_status tflite_need(const emit_tiles *emit, uint32_t at, uint32_t axis,
                             const tn__need *needs, tn__need *need) {
    const split_region *region = emit->region;
    tn_op_id id = region->ops[at].id;
    const tn_op *op = tn_graph_op(region->graph, id);
    const split_tensor *result = &region->tensors[tn__split_result(region, at)];
    tn__tile part = {axis, 0, tn_graph_tensor(region->graph, op->outputs[0])->shape[axis]};
    for (uint32_t c = 0; c < region->axis_count; c++)
        if (result->axis[c] == axis) {
            *need = needs[c];
            return TN_OK;
        }
    if (tn__op_split(region->graph, id, &part, 0, need)) return TN_OK;
    TN_FAIL(emit->draft->error, TN_E_INVALID, "the padding of '%.80s' is not known", op->name);
}

static tn_status tflite_no_memory(const emit_tiles *emit) {
    return tn__no_memory(emit->draft->error, "a split graph");
}

static tn_status tflite_add_pad(emit_tiles *emit, tn_tensor_id from, const int64_t pads[8],
                                tn_tensor_id *made) {
    const tn_tensor x = *tn__draft_tensor_of(emit->draft, from);
    int64_t shape[4];
    tn_op_id source = emit->source;
    const tn_attr attr = {.name = "paddings", .type = TN_ATTR_INTS, .count = 8, .ints = pads};
    for (uint32_t d = 0; d < 4; d++) shape[d] = x.shape[d] + pads[2 * d] + pads[2 * d + 1];
    TN_TRY(emit_like(emit, from, shape, made));
    tn_op op = {.name = x.name,
                .type = "PAD",
                .domain = "tflite",
                .version = 1,
                .inputs = &from,
                .outputs = made,
                .input_count = 1,
                .output_count = 1};
    op.attrs = tn__draft_attrs(emit->draft, &(tn_op){0}, &attr, 1, &op.attr_count);
    if (op.attrs == NULL) return tflite_no_memory(emit);
    emit->source = TN_NONE;
    tn_status status = emit_add(emit, &op);
    emit->source = source;
    return status;
}

/* Sets the padding of an operator to VALID, because explicit padding was added before it. */
static tn_status tflite_set_valid(emit_tiles *emit, tn_op *op) {
    int64_t valid = 1;
    const tn_attr attr = {.name = "padding", .type = TN_ATTR_INT, .count = 1, .ints = &valid};
    op->attrs = tn__draft_attrs(emit->draft, op, &attr, 1, &op->attr_count);
    return op->attrs != NULL ? TN_OK : tflite_no_memory(emit);
}

static void tflite_plain(const emit_tiles *emit, uint32_t at, emit_raw *raw) {
    const split_region *region = emit->region;
    uint32_t result = tn__split_result(region, at);
    const split_tensor *tensor = &region->tensors[result];
    for (uint32_t i = 0; i < 2; i++) {
        raw->first[i] = 0;
        raw->count[i] = tn_graph_tensor(region->graph, tensor->id)->shape[1 + i];
        for (uint32_t c = 0; c < region->axis_count; c++) {
            split_span made = *tn__split_made(region, c, emit->part[c], result);
            if (tensor->axis[c] == 1 + i) raw->count[i] = made.last - made.first;
        }
    }
}

/* Finds how many outputs a window with padding SAME computes over the elements of its input along
 * one axis, and the first of them that belongs to the tile. */
static tn_status tflite_over(const emit_tiles *emit, uint32_t at, const tn__band *band, uint32_t i,
                             const tn__need *need, emit_raw *raw) {
    const split_region *region = emit->region;
    uint32_t result = tn__split_result(region, at);
    tn__band_made made;
    int64_t from = 0;
    for (uint32_t c = 0; c < region->axis_count; c++)
        if (region->tensors[result].axis[c] == 1 + i)
            from = tn__split_made(region, c, emit->part[c], result)->first;
    if (!tn__band_over(band, i, need->first, need->last, &made))
        TN_FAIL(emit->draft->error, TN_E_INTERNAL, "a part that was possible is not");
    raw->first[i] = from - made.base;
    raw->count[i] = made.count;
    return TN_OK;
}

/* Changes operator `at` into the form that the tile needs. `needs`: the need of input 0 for each
 * cut. May replace inputs[0] by a padded copy. */
static tn_status tflite_band(emit_tiles *emit, uint32_t at, const tn__need *needs, tn_op *op,
                             tn_tensor_id *inputs, emit_raw *raw) {
    tn__band band;
    int64_t pads[8] = {0};
    bool any = false;
    if (!tn__band_read(emit->region->graph, emit->region->ops[at].id, &band))
        TN_FAIL(emit->draft->error, TN_E_INTERNAL, "a part that was possible is not");
    tflite_plain(emit, at, raw);
    if (band.way == TN__BAND_EXACT) return TN_OK;
    for (uint32_t i = 0; i < 2; i++) {
        tn__need need;
        TN_TRY(tflite_need(emit, at, 1 + i, needs, &need));
        pads[2 + 2 * i] = need.before;
        pads[3 + 2 * i] = need.after;
        any = any || need.before > 0 || need.after > 0;
        if (band.way == TN__BAND_CROP) TN_TRY(tflite_over(emit, at, &band, i, &need, raw));
    }
    if (band.way == TN__BAND_CROP) return TN_OK;
    if (any) TN_TRY(tflite_add_pad(emit, inputs[0], pads, &inputs[0]));
    return tflite_set_valid(emit, op);
}

static tn_status tflite_pad(emit_tiles *emit, uint32_t at, const tn__need *needs, tn_op *op) {
    int64_t pads[2 * TN_RANK_MAX] = {0};
    uint32_t rank = tn_graph_tensor(emit->region->graph, op->outputs[0])->rank;
    for (uint32_t d = 0; d < rank; d++) {
        tn__need need;
        TN_TRY(tflite_need(emit, at, d, needs, &need));
        pads[2 * d] = need.before;
        pads[2 * d + 1] = need.after;
    }
    const tn_attr attr = {
        .name = "paddings", .type = TN_ATTR_INTS, .count = 2 * rank, .ints = pads};
    op->attrs = tn__draft_attrs(emit->draft, op, &attr, 1, &op->attr_count);
    op->input_count = 1;
    return op->attrs != NULL ? TN_OK : tflite_no_memory(emit);
}

/* --- one operator --- */

static bool emit_made(const emit_tiles *emit, uint32_t at, split_span *spans) {
    uint32_t result = tn__split_result(emit->region, at);
    bool any = true;
    for (uint32_t c = 0; c < emit->region->axis_count; c++) {
        spans[c] = *tn__split_made(emit->region, c, emit->part[c], result);
        any = any && spans[c].first < spans[c].last;
    }
    return any;
}

/* Sets the explicit padding of a window in a tile, for all of its axes. */
static tn_status emit_window(emit_tiles *emit, uint32_t at, const tn__need *needs,
                             const tn_attr **attrs, uint32_t *count) {
    const split_region *region = emit->region;
    tn_op_id id = region->ops[at].id;
    const tn_op *op = tn_graph_op(region->graph, id);
    const tn_tensor *y = tn_graph_tensor(region->graph, op->outputs[0]);
    const split_tensor *result = &region->tensors[tn__split_result(region, at)];
    int64_t pads[2 * TN_RANK_MAX] = {0}, extra[TN_RANK_MAX] = {0}, zero = 0;
    static const char *const notset[] = {"NOTSET"};
    uint32_t spatial = y->rank - 2, more_count = 1;
    bool any_extra = false;
    for (uint32_t i = 0; i < spatial; i++) {
        tn__tile part = {2 + i, 0, y->shape[2 + i]};
        tn__need whole;
        const tn__need *need = &whole;
        for (uint32_t c = 0; c < region->axis_count; c++)
            if (result->axis[c] == 2 + i) need = &needs[c];
        if (need == &whole && !tn__op_split(region->graph, id, &part, 0, &whole))
            TN_FAIL(emit->draft->error, TN_E_INVALID, "the padding of '%.80s' is not known",
                    op->name);
        pads[i] = need->before;
        pads[spatial + i] = need->after;
        extra[i] = need->extra;
        any_extra = any_extra || need->extra > 0;
    }
    tn_attr more[4] = {{.name = "pads", .type = TN_ATTR_INTS, .count = 2 * spatial, .ints = pads}};
    if (tn__attr(op, "auto_pad") != NULL)
        more[more_count++] =
            (tn_attr){.name = "auto_pad", .type = TN_ATTR_STRING, .count = 1, .strings = notset};
    if (tn__attr(op, "ceil_mode") != NULL)
        more[more_count++] =
            (tn_attr){.name = "ceil_mode", .type = TN_ATTR_INT, .count = 1, .ints = &zero};
    if (tn__attr(op, "output_padding") != NULL || any_extra)
        more[more_count++] = (tn_attr){
            .name = "output_padding", .type = TN_ATTR_INTS, .count = spatial, .ints = extra};
    *attrs = tn__draft_attrs(emit->draft, op, more, more_count, count);
    return *attrs != NULL ? TN_OK : emit_no_memory(emit);
}

/* Gives an operator the shape of its tile, as a constant input or as an attribute. */
static tn_status emit_extents(emit_tiles *emit, const int64_t *shape, uint32_t rank, tn_op *op,
                              tn_tensor_id *inputs) {
    if (op->input_count < 2) {
        const tn_attr more = {.name = "shape", .type = TN_ATTR_INTS, .count = rank, .ints = shape};
        op->attrs = tn__draft_attrs(emit->draft, op, &more, 1, &op->attr_count);
        return op->attrs != NULL ? TN_OK : emit_no_memory(emit);
    }
    return tn__draft_add_ints(emit->draft, "", shape, rank, &inputs[1]);
}

static void emit_shape(const emit_tiles *emit, uint32_t at, uint32_t output, int64_t *shape) {
    const split_region *region = emit->region;
    tn_tensor_id id = tn_graph_op(region->graph, region->ops[at].id)->outputs[output];
    const split_tensor *tensor = &region->tensors[tn__split_local(region, id)];
    const tn_tensor *whole = tn_graph_tensor(region->graph, id);
    split_span spans[TN_SPLIT_AXES];
    (void)emit_made(emit, at, spans);
    for (uint32_t d = 0; d < whole->rank; d++) shape[d] = whole->shape[d];
    for (uint32_t c = 0; c < region->axis_count; c++)
        shape[tensor->axis[c]] = spans[c].last - spans[c].first;
}

/* Joins the elements that were kept from the previous tile, if any, with those that this tile
 * computes. */
static tn_status emit_with_kept(emit_tiles *emit, uint32_t tensor, tn_tensor_id made) {
    const split_tensor *at = &emit->region->tensors[tensor];
    const tn_tensor *like = emit_tensor(emit, made);
    tn_tensor_id both[2] = {emit->kept[tensor], made};
    int64_t shape[TN_RANK_MAX];
    emit->now[tensor] = made;
    if (emit->kept[tensor] == TN_NONE) return TN_OK;
    emit->kept[tensor] = TN_NONE;
    for (uint32_t d = 0; d < like->rank; d++) shape[d] = like->shape[d];
    shape[at->axis[0]] += emit_tensor(emit, both[0])->shape[at->axis[0]];
    TN_TRY(emit_like(emit, at->id, shape, &emit->now[tensor]));
    return emit_join(emit, emit_tensor(emit, at->id)->name, both, 2, at->axis[0],
                     emit->now[tensor]);
}

/* Adds an operator (a window) that computes more elements than the tile needs, cuts the tile out of
 * its output, and joins it with the elements that were kept from the previous tile. */
static tn_status emit_cut_out(emit_tiles *emit, uint32_t at, tn_op *op, const emit_raw *raw,
                              tn_tensor_id *output) {
    const tn_op *whole = tn_graph_op(emit->region->graph, emit->region->ops[at].id);
    int64_t axes[2], starts[2], ends[2], shape[TN_RANK_MAX];
    tn_tensor_id made;
    uint32_t count = 0;
    emit_shape(emit, at, 0, shape);
    for (uint32_t i = 0; i < 2; i++) {
        if (raw->count[i] == shape[1 + i]) continue;
        axes[count] = 1 + i;
        starts[count] = raw->first[i];
        ends[count++] = raw->first[i] + shape[1 + i];
        shape[1 + i] = raw->count[i];
    }
    TN_TRY(emit_like(emit, whole->outputs[0], shape, &made));
    op->outputs = &made;
    TN_TRY(emit_add(emit, op));
    *output = made;
    if (count > 0) TN_TRY(emit_part(emit, made, axes, starts, ends, count, true, output));
    return emit_with_kept(emit, tn__split_local(emit->region, whole->outputs[0]), *output);
}

static tn_status emit_outputs(emit_tiles *emit, uint32_t at, tn_op *op, tn_tensor_id *outputs) {
    const split_region *region = emit->region;
    const tn_op *whole = tn_graph_op(region->graph, region->ops[at].id);
    int64_t shape[TN_RANK_MAX];
    for (uint32_t k = 0; k < whole->output_count; k++) {
        outputs[k] = TN_NONE;
        if (whole->outputs[k] == TN_NONE) continue;
        emit_shape(emit, at, k, shape);
        TN_TRY(emit_like(emit, whole->outputs[k], shape, &outputs[k]));
    }
    op->outputs = outputs;
    TN_TRY(emit_add(emit, op));
    for (uint32_t k = 0; k < whole->output_count; k++)
        if (outputs[k] != TN_NONE)
            TN_TRY(emit_with_kept(emit, tn__split_local(region, whole->outputs[k]), outputs[k]));
    return TN_OK;
}

static tn_status emit_compute(emit_tiles *emit, uint32_t at) {
    const split_region *region = emit->region;
    tn_op_id id = region->ops[at].id;
    tn_op op = *tn_graph_op(region->graph, id);
    const tn_op_rule *rule = tn__rule_of(region->graph, id);
    size_t most = (size_t)op.input_count + op.output_count + 2;
    tn_tensor_id *lists = tn__arena_array(&emit->draft->arena, most, sizeof *lists),
                 *inputs = lists;
    tn__need needs[TN_SPLIT_AXES] = {{0}}, first[TN_SPLIT_AXES] = {{0}};
    int64_t shape[TN_RANK_MAX];
    uint32_t count = 0;
    emit_raw raw;
    if (lists == NULL) return emit_no_memory(emit);
    emit->source = id;
    for (uint32_t i = 0; i < op.input_count; i++) {
        bool left_out;
        TN_TRY(emit_input(emit, at, i, needs, &left_out, &inputs[count]));
        count += !left_out;
        if (i == 0) memcpy(first, needs, sizeof first);
    }
    op.inputs = inputs;
    op.input_count = count;
    bool spatial = false;
    for (uint32_t c = 0; c < region->axis_count; c++)
        spatial = spatial || region->tensors[tn__split_result(region, at)].axis[c] >= 2;
    if (rule->part_form == TN__FORM_WINDOW && spatial)
        TN_TRY(emit_window(emit, at, first, &op.attrs, &op.attr_count));
    emit_shape(emit, at, 0, shape);
    if (rule->part_form == TN__FORM_EXTENTS)
        TN_TRY(emit_extents(emit, shape, tn_graph_tensor(region->graph, op.outputs[0])->rank, &op,
                            inputs));
    if (rule->part_form == TN__FORM_PAD) TN_TRY(tflite_pad(emit, at, first, &op));
    if (rule->part_form == TN__FORM_BAND) {
        TN_TRY(tflite_band(emit, at, first, &op, inputs, &raw));
        return emit_cut_out(emit, at, &op, &raw,
                            inputs + tn_graph_op(region->graph, id)->input_count + 1);
    }
    return emit_outputs(emit, at, &op, inputs + tn_graph_op(region->graph, id)->input_count + 1);
}

/* --- from one tile to the next --- */

/* If elements are kept from tile to tile, copies those of a tensor that both this tile and the next
 * one need. */
static tn_status emit_keep(emit_tiles *emit, uint32_t tensor) {
    const split_region *region = emit->region;
    uint32_t part = emit->part[0];
    if (!region->keep || part + 1 == region->parts[0] || emit->now[tensor] == TN_NONE) return TN_OK;
    split_span here = *tn__split_need(region, 0, part, tensor);
    split_span next = *tn__split_need(region, 0, part + 1, tensor);
    split_span made = *tn__split_made(region, 0, part + 1, tensor);
    int64_t end = made.first < made.last ? made.first : next.last;
    if (next.first >= end || next.first >= here.last) return TN_OK;
    int64_t axis = region->tensors[tensor].axis[0], from = next.first - here.first;
    int64_t to = end - here.first;
    bool all = next.first == here.first && end == here.last;
    split_span now = *tn__split_made(region, 0, part, tensor);
    /* the elements for the next tile are exactly those that were kept for this tile */
    if (all && now.first >= now.last) {
        emit->kept[tensor] = emit->now[tensor];
        return TN_OK;
    }
    return emit_part(emit, emit->now[tensor], &axis, &from, &to, 1, true, &emit->kept[tensor]);
}

/* Keeps elements for the next tile from those tensors that operator `at` is the last to read in
 * this tile. */
static tn_status emit_keep_behind(emit_tiles *emit, uint32_t at) {
    const split_region *region = emit->region;
    for (uint32_t t = 0; region->keep && t < region->tensor_count; t++) {
        const split_tensor *tensor = &region->tensors[t];
        if (tn__split_is_cut(region, t) && tensor->read && tensor->last == at)
            TN_TRY(emit_keep(emit, t));
    }
    return TN_OK;
}

/* Stores the elements of a result that this tile adds, for readers outside the region. */
static tn_status emit_piece(emit_tiles *emit, uint32_t tensor) {
    const split_region *region = emit->region;
    tn__need needs[TN_SPLIT_AXES];
    int64_t base[TN_SPLIT_AXES];
    tn_tensor_id piece;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        split_span need = emit_need(emit, c, tensor);
        int64_t from =
            emit->part[c] > 0 ? tn__split_need(region, c, emit->part[c] - 1, tensor)->last : 0;
        needs[c] = (tn__need){.axis = region->tensors[tensor].axis[c], .first = from};
        needs[c].last = need.last;
        base[c] = need.first;
        if (from >= need.last) return TN_OK;
    }
    TN_TRY(emit_take(emit, emit->now[tensor], needs, base, &piece));
    size_t row = (size_t)tensor * region->parts[0] + emit->part[0];
    emit->pieces[row] = piece;
    return TN_OK;
}

static tn_status emit_one(emit_tiles *emit) {
    const split_region *region = emit->region;
    emit->taken_count = 0;
    emit->number++;
    for (uint32_t at = 0; at < region->op_count; at++) {
        const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
        split_span spans[TN_SPLIT_AXES];
        if (!region->ops[at].parts) continue;
        if (emit_made(emit, at, spans))
            TN_TRY(emit_compute(emit, at));
        else
            /* earlier tiles computed all elements of this tile, so no operator is added */
            for (uint32_t k = 0; k < op->output_count; k++) {
                if (op->outputs[k] == TN_NONE) continue;
                uint32_t tensor = tn__split_local(region, op->outputs[k]);
                emit->now[tensor] = emit->kept[tensor];
                emit->kept[tensor] = TN_NONE;
            }
        for (uint32_t k = 0; k < op->output_count; k++) {
            uint32_t tensor =
                op->outputs[k] != TN_NONE ? tn__split_local(region, op->outputs[k]) : TN_NONE;
            if (tensor != TN_NONE && region->tensors[tensor].after)
                TN_TRY(emit_piece(emit, tensor));
        }
        TN_TRY(emit_keep_behind(emit, at));
    }
    return TN_OK;
}

/* --- one region --- */

/* Joins the tiles of one row along the second axis. */
static tn_status emit_row(emit_tiles *emit, const tn_tensor_id *patches, uint32_t count) {
    const split_region *region = emit->region;
    uint32_t tensor = tn__split_result(region, region->op_count - 1);
    const split_tensor *result = &region->tensors[tensor];
    const tn_tensor *whole = tn_graph_tensor(region->graph, result->id);
    int64_t shape[TN_RANK_MAX];
    tn_tensor_id row;
    for (uint32_t d = 0; d < whole->rank; d++) shape[d] = emit_tensor(emit, patches[0])->shape[d];
    shape[result->axis[1]] = whole->shape[result->axis[1]];
    TN_TRY(emit_like(emit, result->id, shape, &row));
    TN_TRY(emit_join(emit, whole->name, patches, count, result->axis[1], row));
    emit->pieces[(size_t)tensor * region->parts[0] + emit->part[0]] = row;
    return TN_OK;
}

static tn_status emit_band(emit_tiles *emit) {
    const split_region *region = emit->region;
    uint32_t across = region->axis_count > 1 ? region->parts[1] : 1, count = 0;
    uint32_t tensor = tn__split_result(region, region->op_count - 1);
    tn_tensor_id *patches = tn__arena_array(&emit->draft->arena, across, sizeof *patches);
    if (patches == NULL) return emit_no_memory(emit);
    tn_tensor_id *piece = &emit->pieces[(size_t)tensor * region->parts[0] + emit->part[0]];
    for (uint32_t i = 0; i < across; i++) {
        emit->part[1] = i;
        *piece = TN_NONE;
        TN_TRY(emit_one(emit));
        if (*piece != TN_NONE) patches[count++] = *piece;
    }
    return across > 1 && count > 0 ? emit_row(emit, patches, count) : TN_OK;
}

static tn_status emit_results(emit_tiles *emit) {
    const split_region *region = emit->region;
    tn_tensor_id *pieces =
        tn__arena_array(&emit->draft->arena, (size_t)region->parts[0] + 1, sizeof *pieces);
    if (pieces == NULL) return emit_no_memory(emit);
    emit->number = 0;
    for (uint32_t t = 0; t < region->tensor_count; t++) {
        const split_tensor *tensor = &region->tensors[t];
        uint32_t count = 0;
        if (!tensor->after || !tn__split_is_cut(region, t)) continue;
        for (uint32_t p = 0; p < region->parts[0]; p++) {
            tn_tensor_id piece = emit->pieces[(size_t)t * region->parts[0] + p];
            if (piece != TN_NONE) pieces[count++] = piece;
        }
        TN_TRY(emit_join(emit, emit_tensor(emit, tensor->id)->name, pieces, count, tensor->axis[0],
                         tensor->id));
    }
    return TN_OK;
}

static tn_status emit_lists(emit_tiles *emit) {
    const split_region *region = emit->region;
    size_t count = region->tensor_count;
    tn__arena *arena = &emit->draft->arena;
    emit->now = tn__arena_array(arena, count + 1, sizeof *emit->now);
    emit->kept = tn__arena_array(arena, count + 1, sizeof *emit->kept);
    emit->pieces = tn__arena_array(arena, count * region->parts[0] + 1, sizeof *emit->pieces);
    if (emit->now == NULL || emit->kept == NULL || emit->pieces == NULL)
        return emit_no_memory(emit);
    for (size_t t = 0; t < count; t++) emit->now[t] = emit->kept[t] = TN_NONE;
    for (size_t i = 0; i < count * region->parts[0]; i++) emit->pieces[i] = TN_NONE;
    return TN_OK;
}

static tn_status emit_region(tn__draft *draft, split_region *region, emit_trace *trace) {
    emit_tiles emit = {.region = region,
                       .draft = draft,
                       .trace = trace,
                       .source = TN_NONE,
                       .before = region->ops[region->op_count - 1].id};
    tn_status status = emit_lists(&emit);
    for (emit.part[0] = 0; status == TN_OK && emit.part[0] < region->parts[0]; emit.part[0]++)
        status = emit_band(&emit);
    if (status == TN_OK) status = emit_results(&emit);
    tn__free(&draft->context, emit.taken, emit.taken_room * sizeof *emit.taken);
    if (status != TN_OK) return status;
    for (uint32_t at = 0; at < region->op_count; at++)
        if (region->ops[at].parts) tn__draft_remove(draft, region->ops[at].id);
    return TN_OK;
}

/* --- the graph --- */

static tn_status emit_check_free(const tn__draft *draft, const split_region *region) {
    for (uint32_t at = 0; at < region->op_count; at++)
        if (draft->ops[region->ops[at].id].gone)
            TN_FAIL(draft->error, TN_E_INVALID, "two regions have operator #%u in common",
                    region->ops[at].id);
    return TN_OK;
}

static tn_status emit_asked(tn__draft *draft, const split_order *order,
                            const tn_split_region *asked, emit_trace *trace) {
    uint32_t ops = tn_graph_op_count(draft->graph);
    split_region region;
    if (asked->first >= ops || asked->last >= ops || order->place[asked->first] == TN_NONE ||
        order->place[asked->last] == TN_NONE ||
        order->place[asked->first] > order->place[asked->last])
        TN_FAIL(draft->error, TN_E_INVALID, "operators #%u to #%u are no region", asked->first,
                asked->last);
    tn_status status = tn__split_begin(order, asked, order->place[asked->first],
                                       order->place[asked->last], &region, draft->error);
    if (status == TN_OK) status = tn__split_ranges(&region);
    if (status == TN_OK) status = emit_check_free(draft, &region);
    if (status == TN_OK) status = emit_region(draft, &region, trace);
    tn__split_end(&region);
    return status;
}

tn_status tn_graph_split(const tn_graph *graph, const tn_split_region *regions, uint32_t count,
                         const tn_context *context, tn_graph **split, tn_error *error) {
    return tn__graph_split(graph, regions, count, context, split, NULL, error);
}

tn_status tn__graph_split(const tn_graph *graph, const tn_split_region *regions, uint32_t count,
                          const tn_context *context, tn_graph **split, tn__split_trace *trace,
                          tn_error *error) {
    tn__draft draft = {.graph = graph,
                       .context = context != NULL ? tn__context(context) : *tn_graph_context(graph),
                       .error = error};
    split_order order;
    emit_trace list = {.context = &draft.context, .graph = graph};
    tn__arena_init(&draft.arena, &draft.context);
    tn_status status = tn__draft_begin(&draft);
    if (status == TN_OK) status = tn__split_order(graph, &draft.arena, &order, error);
    for (uint32_t i = 0; status == TN_OK && i < count; i++)
        status = emit_asked(&draft, &order, &regions[i], trace != NULL ? &list : NULL);
    tn_graph *made = NULL;
    if (status == TN_OK) status = tn__draft_graph(&draft, &made);
    if (status == TN_OK && trace != NULL) status = tn__trace_take(&list, &draft, made, trace);
    if (status == TN_OK)
        *split = made;
    else
        tn_graph_destroy(made);
    tn__trace_end(&list);
    tn__draft_end(&draft);
    return status;
}

tn_cost tn_graph_work(const tn_graph *graph) {
    tn_cost all = {0};
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        if (!tn__op_runs(graph, id)) continue;
        tn_cost cost = tn_op_cost(graph, id);
        if (cost.flops != TN_SIZE_UNKNOWN) all.flops = tn__add_sat(all.flops, cost.flops);
        if (cost.bytes_moved != TN_SIZE_UNKNOWN)
            all.bytes_moved = tn__add_sat(all.bytes_moved, cost.bytes_moved);
    }
    return all;
}
