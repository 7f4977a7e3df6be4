/* emit_tflite.c - makes parts of TensorFlow Lite's windows (graph/tiles/split_window.c explains the
 * three ways). */
#include "fit/split/emit.h"

/* The need along one axis of input 0: that of a cut, or the whole axis. */
static tn_status tflite_need(const emit_state *emit, uint32_t at, uint32_t axis,
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

static tn_status tflite_no_memory(const emit_state *emit) {
    return tn__no_memory(emit->draft->error, "a split graph");
}

static tn_status tflite_add_pad(emit_state *emit, tn_tensor_id from, const int64_t pads[8],
                                tn_tensor_id *made) {
    const tn_tensor x = *tn__draft_tensor_of(emit->draft, from);
    int64_t shape[4];
    tn_op_id source = emit->source;
    const tn_attr attr = {.name = "paddings", .type = TN_ATTR_INTS, .count = 8, .ints = pads};
    for (uint32_t d = 0; d < 4; d++) shape[d] = x.shape[d] + pads[2 * d] + pads[2 * d + 1];
    TN_TRY(tn__emit_like(emit, from, shape, made));
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
    tn_status status = tn__emit_add(emit, &op);
    emit->source = source;
    return status;
}

/* VALID: the padding has already been added. */
static tn_status tflite_set_valid(emit_state *emit, tn_op *op) {
    int64_t valid = 1;
    const tn_attr attr = {.name = "padding", .type = TN_ATTR_INT, .count = 1, .ints = &valid};
    op->attrs = tn__draft_attrs(emit->draft, op, &attr, 1, &op->attr_count);
    return op->attrs != NULL ? TN_OK : tflite_no_memory(emit);
}

static void tflite_plain(const emit_state *emit, uint32_t at, emit_raw *raw) {
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

/* SAME over the elements of the need: finds the offset at which the part begins. */
static tn_status tflite_over(const emit_state *emit, uint32_t at, const tn__band *band, uint32_t i,
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

tn_status tn__emit_band(emit_state *emit, uint32_t at, const tn__need *needs, tn_op *op,
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

tn_status tn__emit_pad(emit_state *emit, uint32_t at, const tn__need *needs, tn_op *op) {
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
