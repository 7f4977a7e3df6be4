/* rebatch.c - another batch for a graph that was exported with one written into its constants.
 *
 * Exporters that trace a model write the shape of a Reshape down as they saw it, batch included. A
 * reshape keeps the order of elements, which decides where the batch goes: in the input it is the
 * slowest part of axis a, with P elements' blocks before it; in the output it is then the slowest
 * part of the axis before which there are P as well. Extents of 1 leave several such axes; the
 * batch then stays at a, or goes to the only one that has its extent. Else it is not certain, and
 * refused.
 *
 * Where the batch lies is found by inference itself: shapes with the new batch are compared with
 * those of the reference, axis by axis. Cost: O(operands) beyond inference.
 */
#include "graph/rebatch.h"

#include <stdio.h>

#include "graph/store.h"

/* The axis that carries the batch; TN_NONE: no axis differs. False: several differ, or by another
 * factor, or ranks do. */
static bool rebatch_axis(const tn__rebatch *it, const tn_tensor *was, const tn_tensor *is,
                         uint32_t *axis) {
    *axis = TN_NONE;
    if (was->rank == TN_RANK_UNKNOWN || is->rank != was->rank) return false;
    for (uint32_t d = 0; d < is->rank; d++) {
        if (is->shape[d] == was->shape[d]) continue;
        if (*axis != TN_NONE || was->shape[d] < 1 || was->shape[d] % it->from != 0) return false;
        if (is->shape[d] / it->to != was->shape[d] / it->from || is->shape[d] % it->to != 0)
            return false;
        *axis = d;
    }
    return true;
}

static uint64_t rebatch_before(const tn_tensor *tensor, uint32_t axis) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < axis; d++) count = tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    return count;
}

/* Where the output carries what axis `from` of the input does. False: not certain. */
static bool rebatch_goal(const tn__rebatch *it, const tn_tensor *input, uint32_t from,
                         const tn_tensor *output, uint32_t *goal) {
    uint64_t before = rebatch_before(input, from);
    uint32_t pure = 0, only = 0, merged = TN_NONE;
    bool stays = false;
    for (uint32_t d = 0; d < output->rank; d++) {
        if (rebatch_before(output, d) != before) continue;
        if (output->shape[d] == it->from) {
            stays = stays || d == from;
            only = d;
            pure++;
        } else if (output->shape[d] > 0 && output->shape[d] % it->from == 0 && merged == TN_NONE)
            merged = d;
    }
    *goal = stays ? from : pure == 1 ? only : merged;
    return stays || pure == 1 || (pure == 0 && merged != TN_NONE);
}

static void rebatch_words(char *text, size_t room, const int64_t *shape, uint32_t count) {
    size_t used = (size_t)snprintf(text, room, "[");
    for (uint32_t d = 0; d < count && used + 24 < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d > 0 ? "," : "",
                                 (long long)shape[d]);
    snprintf(text + used, room - used, "]");
}

static const tn_tensor *rebatch_was(const tn__rebatch *it, tn_tensor_id id) {
    return id < tn_graph_tensor_count(it->reference) ? tn_graph_tensor(it->reference, id) : NULL;
}

static bool rebatch_is(const tn_infer *infer, const char *type) {
    return strcmp(infer->op->type, type) == 0 && *infer->op->domain == '\0';
}

/* --- a constant shape --- */

/* Whether the constant, as it is, gives what is wanted: -1 and 0 follow what is reshaped. */
static bool rebatch_follows(const tn_infer *infer, const tn_value *target, const tn_tensor *input,
                            const int64_t *wanted) {
    bool copies = tn__attr_int(infer->op, "allowzero", 0) == 0;
    for (uint32_t d = 0; d < target->count; d++) {
        int64_t extent = target->ints[d];
        if (extent == 0 && copies) extent = d < input->rank ? input->shape[d] : -2;
        if (extent != -1 && extent != wanted[d]) return false;
    }
    return true;
}

/* A copy of the constant for this operator alone: others may read it, too. */
static tn_status rebatch_change(tn_infer *infer, tn__rebatch *it, const tn_value *target,
                                const int64_t *wanted) {
    tn_graph *graph = infer->graph;
    const tn_tensor *shape = &graph->tensors[infer->op->inputs[1]];
    char name[200], was[100];
    int64_t extents[TN_RANK_MAX], count = target->count;
    tn_tensor_id id;
    for (uint32_t d = 0; d < target->count; d++)
        extents[d] = target->ints[d] == -1 ? -1 : wanted[d];
    snprintf(name, sizeof name, "%.120s (batch %lld, for %u)", shape->name, (long long)it->to,
             infer->id);
    tn_tensor_spec spec = {.name = name,
                           .dtype = TN_INT64,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &count,
                           .value = {.count = target->count, .ints = extents}};
    rebatch_words(was, sizeof was, target->ints, target->count);
    if (it->changed++ == 0)
        snprintf(it->first, sizeof it->first, "%s of '%.60s'", was, infer->op->name);
    TN_TRY(tn_graph_add_tensor(graph, &spec, &id, infer->error));
    TN_TRY(tn__settle_size(graph, id, infer->error));
    ((tn_tensor_id *)(uintptr_t)infer->op->inputs)[1] = id;
    return TN_OK;
}

static tn_status rebatch_unsure(tn_infer *infer, const tn_tensor *input) {
    return tn__infer_fail(
        infer, "it is not certain which extent of this shape is the batch of '%.80s'", input->name);
}

/* The shape that a Reshape has to give; false: what it reads has no batch, or nobody knows. */
static tn_status rebatch_wanted(tn_infer *infer, const tn__rebatch *it, int64_t *wanted,
                                bool *known) {
    const tn_op *op = infer->op;
    const tn_tensor *is = &infer->graph->tensors[op->inputs[0]];
    const tn_tensor *was = rebatch_was(it, op->inputs[0]), *gave = rebatch_was(it, op->outputs[0]);
    uint32_t axis, goal;
    *known = false;
    if (was == NULL || gave == NULL || gave->rank == TN_RANK_UNKNOWN) return TN_OK;
    if (is->rank == TN_RANK_UNKNOWN || (is->flags & TN_TENSOR_BOUND) != 0) return TN_OK;
    if (!rebatch_axis(it, was, is, &axis)) return rebatch_unsure(infer, is);
    if (axis == TN_NONE) return TN_OK;
    if (!rebatch_goal(it, was, axis, gave, &goal)) return rebatch_unsure(infer, is);
    for (uint32_t d = 0; d < gave->rank; d++) {
        wanted[d] = gave->shape[d];
        if (wanted[d] == TN_DIM_UNKNOWN) return TN_OK;
    }
    if (__builtin_mul_overflow(wanted[goal] / it->from, it->to, &wanted[goal]))
        return rebatch_unsure(infer, is);
    *known = true;
    return TN_OK;
}

static bool rebatch_reshapes(const tn_infer *infer) {
    const tn_op *op = infer->op;
    return op->block == 0 && rebatch_is(infer, "Reshape") && op->input_count == 2 &&
           op->output_count == 1 && op->inputs[0] != TN_NONE && op->inputs[1] != TN_NONE &&
           op->outputs[0] != TN_NONE;
}

/* A shape that the graph computes may follow the batch by itself: it is another then. */
static bool rebatch_is_written(const tn_infer *infer, const tn__rebatch *it) {
    const tn_value *is = infer->graph->tensors[infer->op->inputs[1]].value;
    const tn_tensor *tensor = rebatch_was(it, infer->op->inputs[1]);
    const tn_value *was = tensor != NULL ? tensor->value : NULL;
    return is != NULL && was != NULL && is->ints != NULL && was->ints != NULL &&
           is->count == was->count && is->count <= TN_RANK_MAX &&
           memcmp(is->ints, was->ints, is->count * sizeof *is->ints) == 0;
}

tn_status tn__rebatch_before(tn_infer *infer, tn__rebatch *rebatch) {
    int64_t wanted[TN_RANK_MAX];
    bool known;
    if (!rebatch_reshapes(infer) || !rebatch_is_written(infer, rebatch)) return TN_OK;
    TN_TRY(rebatch_wanted(infer, rebatch, wanted, &known));
    if (!known) return TN_OK;
    const tn_value *target = infer->graph->tensors[infer->op->inputs[1]].value;
    const tn_tensor *input = &infer->graph->tensors[infer->op->inputs[0]];
    if (rebatch_follows(infer, target, input, wanted)) return TN_OK;
    return rebatch_change(infer, rebatch, target, wanted);
}

/* --- what else takes a batch out of what it reads --- */

static bool rebatch_cuts(const tn_infer *infer) {
    static const char *const types[] = {"Slice",    "Gather",  "GatherND", "Resize",
                                        "Upsample", "Reshape", "Crop"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (rebatch_is(infer, types[i])) return true;
    return false;
}

tn_status tn__rebatch_after(tn_infer *infer, const tn__rebatch *rebatch) {
    const tn_op *op = infer->op;
    uint32_t axis;
    bool cuts = op->block == 0 && rebatch_cuts(infer) && op->input_count > 0 &&
                op->output_count > 0 && op->inputs[0] != TN_NONE && op->outputs[0] != TN_NONE;
    if (!cuts) return TN_OK;
    const tn_tensor *was = rebatch_was(rebatch, op->inputs[0]);
    const tn_tensor *gave = rebatch_was(rebatch, op->outputs[0]);
    const tn_tensor *is = &infer->graph->tensors[op->inputs[0]];
    if (was == NULL || gave == NULL || !rebatch_axis(rebatch, was, is, &axis) || axis == TN_NONE)
        return TN_OK;
    if (rebatch_axis(rebatch, gave, &infer->graph->tensors[op->outputs[0]], &axis) &&
        axis != TN_NONE)
        return TN_OK;
    return tn__infer_fail(infer, "it takes a batch of %lld out of '%.80s', whatever that has",
                          (long long)rebatch->from, is->name);
}
