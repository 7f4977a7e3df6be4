/* make.c - makes the graph of one rank, and copies the rank's part of the data.
 *
 * Tensors keep their ids; cut ones have the extents of a part. Operators on parts get
 * communication around them; other operators are copied. An operator that only reads extents keeps
 * the values of the whole model. Operators that the loss does not need are removed if they read
 * cut tensors; their tensors remain, with no bytes.
 */
#include "graph/gradients/gradient.h"
#include "graph/tensor_parallel/cut.h"

#include <stdio.h>

/* --- the graph of a rank ---------------------------------------------------------------------- */

typedef struct make_state {
    tn__cuts *it;
    tn_graph *graph;
    tn_tensor_id *copies; /* [tensors] result of the tensor's RankCopy; TN_NONE: none yet */
    /* [tensors] results of the tensor's RankGather: [0] for operators on parts, [1] for operators
     * that are the same on all ranks; TN_NONE: none yet */
    tn_tensor_id *wholes[2];
    /* [tensors] the part that was last sliced from the tensor; TN_NONE: none yet */
    tn_tensor_id *slices;
    tn__cut *sliced; /* [tensors] cut of the part in `slices` */
    bool *gone;      /* [tensors] true: the operator that made the tensor was removed */
    tn_op_id *origin;
    size_t origin_room;
    tn_error *error;
} make_state;

static bool make_is_cut(const make_state *state, tn_tensor_id id) {
    return id != TN_NONE && state->it->cuts[id].blocks > 0;
}

static bool make_is_strip(const make_state *state, tn_tensor_id id) {
    return id != TN_NONE && state->it->strips[id].blocks > 0;
}
/* The cut of a tensor of which a rank has only a part; for other tensors a cut without blocks. */
static const tn__cut *make_cut_of(const make_state *state, tn_tensor_id id) {
    return make_is_cut(state, id) ? &state->it->cuts[id] : &state->it->strips[id];
}

/* Adds an operator that works on parts, with the operators around it. */
static tn_status make_part(make_state *state, tn_op_id id);

/* --- the graph as a whole: its tensors, inputs, outputs and operators --- */

static bool make_touches(const make_state *state, const tn_op *op) {
    bool cut = false;
    for (uint32_t i = 0; i < op->input_count; i++) cut = cut || make_is_cut(state, op->inputs[i]);
    for (uint32_t k = 0; k < op->output_count; k++) cut = cut || make_is_cut(state, op->outputs[k]);
    return cut;
}

/* Decides whether the operator is removed. It is if the loss does not need it and one of its
 * tensors is cut or is a result of a removed operator, or if it read the extents of a cut tensor.
 */
static bool make_leaves(make_state *state, tn_op_id id) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    bool touches = make_touches(state, op), reads = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        reads = reads || (op->inputs[i] != TN_NONE && state->gone[op->inputs[i]]);
        reads = reads || make_is_strip(state, op->inputs[i]);
    }
    if (state->it->runs[id]) return touches && tn__cuts_looks(state->it, id);
    if (!touches && !reads) return false;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) state->gone[op->outputs[k]] = true;
    return true;
}

static int64_t make_extent(const make_state *state, const tn_tensor *tensor, const tn__cut *cut,
                           uint32_t axis);

/* Adds the tensors. Cut tensors get the shape of their part, results of removed operators no bytes,
 * and results of operators that read extents become constants. */
static tn_status make_tensors(make_state *state, const bool *leaves) {
    static const int64_t nothing[] = {0};
    tn__cuts *it = state->it;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        tn_tensor_spec spec = tn__graph_spec(it->graph, id);
        tn_tensor_id made;
        int64_t shape[TN_RANK_MAX];
        if (state->gone[id]) {
            spec = (tn_tensor_spec){.name = tensor->name,
                                    .dtype = TN_UINT8,
                                    .kind = TN_KIND_CONSTANT,
                                    .rank = 1,
                                    .shape = nothing};
        } else if (tensor->producer != TN_NONE && leaves[tensor->producer]) {
            spec.kind = TN_KIND_CONSTANT;
            spec.dtype = tensor->dtype;
            spec.rank = tensor->rank;
            spec.shape = tensor->shape;
            spec.value = *tensor->value;
        } else if (make_cut_of(state, id)->blocks > 0) {
            for (uint32_t d = 0; d < tensor->rank; d++)
                shape[d] = make_extent(state, tensor, make_cut_of(state, id), d);
            spec.rank = tensor->rank;
            spec.shape = shape;
            spec.value = (tn_value){0};
        }
        TN_TRY(tn_graph_add_tensor(state->graph, &spec, &made, state->error));
    }
    return TN_OK;
}

/* Sets inputs and outputs of the graph. If the scores are cut, they replace the output that is
 * computed from them alone. */
static tn_status make_io(make_state *state) {
    tn__cuts *it = state->it;
    for (tn_block_id b = 0; b < tn_graph_block_count(it->graph); b++) {
        const tn_block *block = tn_graph_block(it->graph, b);
        tn_tensor_id *outputs =
            tn__arena_array(it->arena, (size_t)block->output_count + 1, sizeof *outputs);
        if (outputs == NULL) return tn__no_memory(state->error, "outputs");
        for (uint32_t k = 0; k < block->output_count; k++) {
            outputs[k] = block->outputs[k];
            if (b == 0 && outputs[k] == it->shaped && make_is_cut(state, it->scores))
                outputs[k] = it->scores;
        }
        TN_TRY(tn_graph_set_block_io(state->graph, b, block->inputs, block->input_count, outputs,
                                     block->output_count, state->error));
    }
    return TN_OK;
}

static tn_status make_strip(make_state *state, tn_op_id id);

static tn_status make_whole(make_state *state, tn_op_id id);

static tn_status make_ops(make_state *state, const bool *leaves) {
    tn__cuts *it = state->it;
    for (tn_block_id b = tn_graph_block_count(it->graph); b-- > 0;) {
        const tn_block *block = tn_graph_block(it->graph, b);
        for (uint32_t i = 0; i < block->op_count; i++) {
            tn_op_id id = block->ops[i];
            if (leaves[id]) continue;
            if (it->stripped[id])
                TN_TRY(make_strip(state, id));
            else
                TN_TRY(make_touches(state, tn_graph_op(it->graph, id)) ? make_part(state, id)
                                                                       : make_whole(state, id));
        }
    }
    return TN_OK;
}

/* Checks that every tensor of the new graph has the extents that its cut requires. */
static tn_status make_check(const make_state *state) {
    const tn__cuts *it = state->it;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        const tn_tensor *old = tn_graph_tensor(it->graph, id);
        const tn_tensor *now = tn_graph_tensor(state->graph, id);
        bool same = state->gone[id] || now->rank == old->rank;
        if (state->gone[id] || old->rank > TN_RANK_MAX) continue;
        for (uint32_t d = 0; d < old->rank && same; d++)
            same = now->shape[d] == make_extent(state, old, make_cut_of(state, id), d);
        if (!same)
            TN_FAIL(state->error, TN_E_INTERNAL, "a rank's '%.80s' has another shape than its part",
                    old->name);
    }
    return TN_OK;
}

static tn_status make_all(make_state *state) {
    tn__cuts *it = state->it;
    uint32_t tensors = tn_graph_tensor_count(it->graph), ops = tn_graph_op_count(it->graph);
    tn_block_id made;
    bool *leaves = tn__arena_array(it->arena, (size_t)ops + 1, sizeof *leaves);
    state->copies = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->copies);
    for (int way = 0; way < 2; way++)
        state->wholes[way] =
            tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->wholes[way]);
    state->slices = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->slices);
    state->sliced = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->sliced);
    state->gone = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->gone);
    if (!leaves || !state->copies || !state->slices || !state->sliced || !state->gone ||
        !state->wholes[0] || !state->wholes[1])
        return tn__no_memory(state->error, "parts of a model");
    for (uint32_t t = 0; t < tensors; t++) {
        state->copies[t] = state->slices[t] = TN_NONE;
        state->wholes[0][t] = state->wholes[1][t] = TN_NONE;
    }
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (uint32_t i = 0; i < block->op_count; i++)
        leaves[block->ops[i]] = make_leaves(state, block->ops[i]);
    for (tn_block_id b = 1; b < tn_graph_block_count(it->graph); b++)
        TN_TRY(tn_graph_add_block(state->graph, tn_graph_block(it->graph, b)->name, &made,
                                  state->error));
    TN_TRY(make_tensors(state, leaves));
    TN_TRY(make_io(state));
    TN_TRY(make_ops(state, leaves));
    TN_TRY(tn_graph_infer(state->graph, state->error));
    return make_check(state);
}

/* Makes the graph of one rank, when all cuts have been chosen. */
static tn_status make_graph(tn__cuts *it) {
    make_state state = {.it = it, .error = it->error};
    TN_TRY(tn_graph_create(it->context, &state.graph, it->error));
    tn_status status = make_all(&state);
    if (status == TN_OK) {
        uint32_t count = tn_graph_op_count(state.graph);
        it->origin = tn__arena_copy(it->arena, state.origin, count * sizeof *it->origin);
        if (it->origin == NULL) status = tn__no_memory(it->error, "parts of a model");
    }
    if (status == TN_OK)
        it->made = state.graph;
    else
        tn_graph_destroy(state.graph);
    tn__free(it->context, state.origin, state.origin_room * sizeof *state.origin);
    return status;
}

tn_status tn__cuts_graph(tn__cuts *it) {
    tn_status status = tn__cuts_classes(it);
    if (status == TN_OK) status = tn__cuts_choose(it);
    if (status == TN_OK) status = tn__cuts_strip(it);
    tn__free(it->context, it->found, it->found_room * sizeof *it->found);
    it->found = NULL;
    return status == TN_OK ? make_graph(it) : status;
}

/* --- one operator on parts -------------------------------------------------------------------- */

/* Makes one operator that works on parts.
 *
 * The operator itself is unchanged, except that extents in its operands or attributes are adjusted.
 * Around it are added:
 *
 *     operand whole, differentiated     RankCopy before it: sums the ranks' gradients
 *     operand whole, a part is needed   Slice
 *     result a partial sum              RankSum after it, then the operand that is added once
 *
 * and for sequence parallelism (strip.c)
 *
 *     operand cut, all is needed        RankGather
 *     result a partial sum              RankScatter instead of RankSum
 */

/* --- adding --- */

/* Adds an operator. `origin` is the operator of the model that it comes from, or TN_NONE. */
static tn_status make_add(make_state *state, const tn_op_spec *spec, tn_op_id origin) {
    tn_op_id id;
    TN_TRY(tn_graph_add_op(state->graph, spec, &id, state->error));
    if (!tn__reserve(state->it->context, &state->origin, &state->origin_room, (size_t)id + 1,
                     sizeof *state->origin))
        return tn__no_memory(state->error, "parts of a model");
    state->origin[id] = origin;
    return TN_OK;
}

static tn_status make_tensor(make_state *state, tn_tensor_id like, const char *what,
                             tn_tensor_id *id) {
    char name[220];
    snprintf(name, sizeof name, "%.180s.%s", tn_graph_tensor(state->it->graph, like)->name, what);
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(state->graph, &spec, id, state->error);
}

static tn_status make_list(make_state *state, const int64_t *values, uint32_t count,
                           tn_tensor_id *id) {
    return tn__graph_add_list(state->graph, values, count, id, state->error);
}

/* Adds an operator with one output, which exists already. */
static tn_status make_op_with(make_state *state, const char *domain, const char *type,
                              const tn_tensor_id *inputs, uint32_t count, const tn_attr *attrs,
                              uint32_t attr_count, tn_tensor_id output) {
    tn_op_spec spec = {.type = type,
                       .domain = domain,
                       .name = tn_graph_tensor(state->graph, output)->name,
                       .inputs = inputs,
                       .input_count = count,
                       .outputs = &output,
                       .output_count = 1,
                       .attrs = attrs,
                       .attr_count = attr_count};
    return make_add(state, &spec, TN_NONE);
}

static tn_status make_op(make_state *state, const char *domain, const char *type,
                         const tn_tensor_id *inputs, uint32_t count, const tn_attr *attr,
                         tn_tensor_id output) {
    return make_op_with(state, domain, type, inputs, count, attr, attr != NULL, output);
}

/* Adds a RankScatter or RankGather for parts of this cut. */
static tn_status make_rank(make_state *state, const char *type, tn_tensor_id from,
                           const tn__cut *cut, bool alike, tn_tensor_id to) {
    const tn__cuts *it = state->it;
    int64_t axis = cut->axis, ranks = it->ranks, rank = it->rank, one = 1;
    const tn_attr attrs[] = {TN__ATTR_INT("axis", &axis), TN__ATTR_INT("ranks", &ranks),
                             TN__ATTR_INT("rank", &rank), TN__ATTR_INT("alike", &one)};
    return make_op_with(state, "tenure", type, &from, 1, attrs, alike ? 4 : 3, to);
}

/* --- operands --- */

static tn_status make_copy(make_state *state, tn_tensor_id id, tn_tensor_id *made) {
    if (state->copies[id] == TN_NONE) {
        tn_tensor_id copy;
        TN_TRY(make_tensor(state, id, "ranks", &copy));
        TN_TRY(make_op(state, "tenure", "RankCopy", &id, 1, NULL, copy));
        state->copies[id] = copy;
    }
    *made = state->copies[id];
    return TN_OK;
}

/* Gathers the parts of all ranks, for an operator that works on a part on each rank, or, if
 * `alike`, for one that is the same on all ranks. */
static tn_status make_gathered(make_state *state, tn_tensor_id id, bool alike, tn_tensor_id *made) {
    tn_tensor_id *whole = &state->wholes[alike][id];
    if (*whole == TN_NONE) {
        tn_tensor_id all;
        TN_TRY(make_tensor(state, id, alike ? "all" : "whole", &all));
        TN_TRY(make_rank(state, "RankGather", id, &state->it->strips[id], alike, all));
        *whole = all;
    }
    *made = *whole;
    return TN_OK;
}

static tn_status make_piece(make_state *state, tn_tensor_id id, tn_tensor_id from, int64_t axis,
                            int64_t first, int64_t size, tn_tensor_id *piece) {
    const int64_t last = first + size;
    tn_tensor_id inputs[] = {from, TN_NONE, TN_NONE, TN_NONE};
    TN_TRY(make_list(state, &first, 1, &inputs[1]));
    TN_TRY(make_list(state, &last, 1, &inputs[2]));
    TN_TRY(make_list(state, &axis, 1, &inputs[3]));
    TN_TRY(make_tensor(state, id, "part", piece));
    return make_op(state, "", "Slice", inputs, 4, NULL, *piece);
}

/* Slices the rank's part from a whole tensor. */
static tn_status make_slice(make_state *state, tn_tensor_id id, tn_tensor_id from,
                            const tn__cut *cut, tn_tensor_id *made) {
    const tn__cuts *it = state->it;
    const tn_tensor *whole = tn_graph_tensor(it->graph, id);
    if (state->slices[id] != TN_NONE && tn__cut_same(&state->sliced[id], cut)) {
        *made = state->slices[id];
        return TN_OK;
    }
    tn_tensor_id *pieces = tn__arena_array(it->arena, cut->blocks, sizeof *pieces);
    if (pieces == NULL) return tn__no_memory(state->error, "parts of a model");
    int64_t axis = cut->axis, at = 0;
    for (uint32_t b = 0; b < cut->blocks; b++) {
        int64_t size = cut->sizes != NULL ? cut->sizes[b] : whole->shape[axis] / cut->blocks;
        int64_t part = size / it->ranks;
        TN_TRY(make_piece(state, id, from, axis, at + it->rank * part, part, &pieces[b]));
        at += size;
    }
    *made = pieces[0];
    if (cut->blocks > 1) {
        const tn_attr attr = TN__ATTR_INT("axis", &axis);
        TN_TRY(make_tensor(state, id, "parts", made));
        TN_TRY(make_op(state, "", "Concat", pieces, cut->blocks, &attr, *made));
    }
    state->slices[id] = *made;
    state->sliced[id] = *cut;
    return TN_OK;
}

static tn_status make_operand(make_state *state, tn_tensor_id id, const tn__cut *cut,
                              tn_tensor_id *made) {
    *made = id;
    if (id == TN_NONE || make_is_cut(state, id)) return TN_OK;
    if (make_is_strip(state, id)) return make_gathered(state, id, false, made);
    if (state->it->depends[id]) TN_TRY(make_copy(state, id, made));
    return cut->blocks > 0 ? make_slice(state, id, *made, cut, made) : TN_OK;
}

/* --- adjusting an operator to the parts of its operands --- */

/* The extent of the rank's part along an axis of a tensor with this cut. */
static int64_t make_extent(const make_state *state, const tn_tensor *tensor, const tn__cut *cut,
                           uint32_t axis) {
    bool part = cut->blocks > 0 && cut->axis == axis;
    return tensor->shape[axis] / (part ? state->it->ranks : 1);
}

/* Replaces an operand that holds the extents of the result by the extents of the rank's part. */
static tn_status make_extents(make_state *state, const tn_op *op, const tn__cut *cut,
                              tn_tensor_id *list) {
    const tn_tensor *y = tn_graph_tensor(state->it->graph, op->outputs[0]);
    int64_t shape[TN_RANK_MAX];
    for (uint32_t d = 0; d < y->rank; d++) shape[d] = make_extent(state, y, cut, d);
    return make_list(state, shape, y->rank, list);
}

/* Replaces the operand that holds the sizes of a Split by the sizes of the rank's parts. */
static tn_status make_sizes(make_state *state, const tn_op *op, const tn__op_cuts *link,
                            tn_op_spec *spec, tn_tensor_id *inputs) {
    tn__cuts *it = state->it;
    int64_t *sizes = tn__arena_array(it->arena, op->output_count, sizeof *sizes);
    tn_attr *attrs = tn__arena_copy(it->arena, op->attrs, op->attr_count * sizeof *attrs);
    if (sizes == NULL || attrs == NULL) return tn__no_memory(state->error, "parts of a model");
    uint32_t axis = link->outputs[0].axis;
    for (uint32_t k = 0; k < op->output_count; k++)
        sizes[k] =
            make_extent(state, tn_graph_tensor(it->graph, op->outputs[k]), &link->outputs[k], axis);
    for (uint32_t a = 0; a < op->attr_count; a++)
        if (strcmp(attrs[a].name, "split") == 0) attrs[a].ints = sizes;
    spec->attrs = attrs;
    if (op->input_count < 2 || op->inputs[1] == TN_NONE) return TN_OK;
    return make_list(state, sizes, op->output_count, &inputs[1]);
}

/* Makes the operator that computes a part of a sum, if that is another operator type. */
static tn_status make_sums_as(make_state *state, const tn_op *op, const char *type,
                              const tn__op_cuts *link, tn_op_spec *spec) {
    tn__cuts *it = state->it;
    tn_attr *attrs = tn__arena_array(it->arena, op->attr_count + 2u, sizeof *attrs);
    int64_t *numbers = tn__arena_array(it->arena, 2, sizeof *numbers);
    if (attrs == NULL || numbers == NULL) return tn__no_memory(state->error, "parts of a model");
    for (uint32_t i = 0; i < op->input_count; i++)
        if (link->inputs[i].blocks > 0)
            numbers[1] = tn_graph_tensor(it->graph, op->inputs[i])->shape[link->inputs[i].axis];
    numbers[0] = it->rank * (numbers[1] / it->ranks);
    for (uint32_t a = 0; a < op->attr_count; a++) attrs[a] = op->attrs[a];
    attrs[op->attr_count] = TN__ATTR_INT("first", &numbers[0]);
    attrs[op->attr_count + 1] = TN__ATTR_INT("whole", &numbers[1]);
    spec->type = type;
    spec->domain = "tenure";
    spec->version = 0;
    spec->attrs = attrs;
    spec->attr_count = op->attr_count + 2;
    return TN_OK;
}

/* Shapes the bias so that it broadcasts against the sum of all ranks' parts, to which it is added
 * once, not by each rank. Only the bias of a convolution is reshaped: its channels belong to the
 * second axis. `model` is the bias in the graph of the model. */
static tn_status make_bias(make_state *state, tn_op_id id, tn_tensor_id model, tn_tensor_id bias,
                           tn_tensor_id *made) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    const tn_tensor *y = tn_graph_tensor(state->it->graph, op->outputs[0]);
    const tn_tensor *own = tn_graph_tensor(state->it->graph, model);
    int64_t shape[TN_RANK_MAX];
    tn_tensor_id inputs[] = {bias, TN_NONE};
    *made = bias;
    if (!tn__op_has(state->it->graph, id, TN_RULE_CONV) || own->rank != 1) return TN_OK;
    for (uint32_t d = 0; d < y->rank; d++) shape[d] = d == 1 ? own->shape[0] : 1;
    TN_TRY(make_list(state, shape, y->rank, &inputs[1]));
    TN_TRY(make_tensor(state, model, "row", made));
    return make_op(state, "", "Reshape", inputs, 2, NULL, *made);
}

/* Combines the partial sums `part` into `whole`. */
static tn_status make_sum(make_state *state, tn_op_id id, const tn__op_cuts *link,
                          tn_tensor_id part, tn_tensor_id whole) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    tn_tensor_id sum = whole, bias = TN_NONE;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (link->once[i]) bias = op->inputs[i];
    bool strip = make_is_strip(state, whole);
    if (bias != TN_NONE) TN_TRY(make_tensor(state, whole, "sum", &sum));
    if (strip)
        TN_TRY(make_rank(state, "RankScatter", part, &state->it->strips[whole], false, sum));
    else
        TN_TRY(make_op(state, "tenure", "RankSum", &part, 1, NULL, sum));
    if (bias == TN_NONE) return TN_OK;
    /* the bias in the model; with a sequence-parallel cut, each rank adds it to its own part */
    tn_tensor_id own = bias;
    if (strip && state->it->depends[bias]) TN_TRY(make_copy(state, own, &bias));
    TN_TRY(make_bias(state, id, own, bias, &bias));
    const tn_tensor_id terms[] = {sum, bias};
    return make_op(state, "", "Add", terms, 2, NULL, whole);
}

/* Finds with operand_parts.c how the operator works with the cuts of its operands; returns false if
 * it does not. */
static bool make_link(tn__cuts *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && it->cuts[op->outputs[k]].blocks > 0)
            return tn__cuts_link(it, id, true, k, it->cuts[op->outputs[k]]);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && it->cuts[op->inputs[i]].blocks > 0)
            return tn__cuts_link(it, id, false, i, it->cuts[op->inputs[i]]);
    return false;
}

static bool make_link_strip(tn__cuts *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && it->strips[op->inputs[i]].blocks > 0)
            return tn__cuts_link(it, id, false, i, it->strips[op->inputs[i]]);
    return false;
}

/* Adjusts extents in the operands and attributes of the operator, as `link` requires. */
static tn_status make_form(make_state *state, tn_op_id id, tn_op_spec *spec, tn_tensor_id *inputs) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    const tn__op_cuts *link = &state->it->link;
    spec->inputs = inputs;
    if (tn__rule_of(state->it->graph, id)->part_form == TN__FORM_EXTENTS && op->input_count > 1)
        TN_TRY(make_extents(state, op, &link->outputs[0], &inputs[1]));
    if (tn__op_is(op, "Split")) TN_TRY(make_sizes(state, op, link, spec, inputs));
    while (spec->input_count > 0 && inputs[spec->input_count - 1] == TN_NONE) spec->input_count--;
    return TN_OK;
}

static tn_status make_part(make_state *state, tn_op_id id) {
    tn__cuts *it = state->it;
    const tn_op *op = tn_graph_op(it->graph, id);
    const tn_op_rule *rule = tn__rule_of(it->graph, id);
    const tn__op_cuts *link = &it->link;
    tn_op_spec spec = tn__graph_op_spec(op);
    tn_tensor_id part = op->outputs[0];
    tn_tensor_id *inputs = tn__arena_array(it->arena, op->input_count + 1u, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(state->error, "parts of a model");
    if (!make_link(it, id))
        TN_FAIL(state->error, TN_E_INTERNAL, "'%.80s' (%.40s) has no parts", op->name, op->type);
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = TN_NONE;
        if (!link->once[i])
            TN_TRY(make_operand(state, op->inputs[i], &link->inputs[i], &inputs[i]));
    }
    TN_TRY(make_form(state, id, &spec, inputs));
    if (!link->sums) return make_add(state, &spec, id);
    if (rule->sums_as != NULL) TN_TRY(make_sums_as(state, op, rule->sums_as, link, &spec));
    TN_TRY(make_tensor(state, op->outputs[0], "summand", &part));
    spec.outputs = &part;
    TN_TRY(make_add(state, &spec, id));
    return make_sum(state, id, link, part, op->outputs[0]);
}

/* Makes an operator that works on sequence-parallel parts. Its other operands are whole, and each
 * rank slices the part that it needs from them. */
static tn_status make_strip(make_state *state, tn_op_id id) {
    tn__cuts *it = state->it;
    const tn_op *op = tn_graph_op(it->graph, id);
    tn_op_spec spec = tn__graph_op_spec(op);
    tn_tensor_id *inputs = tn__arena_array(it->arena, op->input_count + 1u, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(state->error, "parts of a model");
    if (!make_link_strip(it, id))
        TN_FAIL(state->error, TN_E_INTERNAL, "'%.80s' (%.40s) has no parts", op->name, op->type);
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = op->inputs[i];
        if (!make_is_strip(state, op->inputs[i]))
            TN_TRY(make_operand(state, op->inputs[i], &it->link.inputs[i], &inputs[i]));
    }
    TN_TRY(make_form(state, id, &spec, inputs));
    return make_add(state, &spec, id);
}

/* Adds an operator that works on whole tensors. */
static tn_status make_whole(make_state *state, tn_op_id id) {
    const tn__cuts *it = state->it;
    const tn_op *op = tn_graph_op(it->graph, id);
    tn_op_spec spec = tn__graph_op_spec(op);
    tn_tensor_id *inputs = tn__arena_array(it->arena, op->input_count + 1u, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(state->error, "parts of a model");
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = op->inputs[i];
        if (make_is_strip(state, inputs[i]))
            TN_TRY(make_gathered(state, inputs[i], true, &inputs[i]));
    }
    spec.inputs = inputs;
    return make_add(state, &spec, id);
}

/* --- copying tensor data between a whole tensor and a rank's part ----------------------------- */

/* Copies a rank's part of a cut tensor's data out of the whole tensor, and back into it. */

/* the whole tensor as `outer` rows; each row holds all bytes along the cut axis */
typedef struct parts_rows {
    uint64_t outer, inner, run;
} parts_rows;

static parts_rows parts_of(const tn_tensor_part *part) {
    parts_rows rows = {.outer = 1, .inner = part->bytes};
    for (uint32_t d = 0; d < part->axis; d++) rows.outer *= (uint64_t)part->shape[d];
    rows.run = rows.outer > 0 ? rows.inner / rows.outer : 0;
    rows.inner = part->shape[part->axis] > 0 ? rows.run / (uint64_t)part->shape[part->axis] : 0;
    return rows;
}

static void parts_move(const tn_tensor_part *part, uint32_t ranks, uint32_t rank, uint8_t *whole,
                       uint8_t *mine, bool out) {
    parts_rows rows = parts_of(part);
    for (uint64_t o = 0; o < rows.outer; o++, whole += rows.run) {
        uint64_t at = 0;
        for (uint32_t b = 0; b < part->block_count; b++) {
            uint64_t block = (uint64_t)part->blocks[b] * rows.inner, size = block / ranks;
            uint8_t *from = whole + at + rank * size;
            memcpy(out ? mine : from, out ? from : mine, (size_t)size);
            mine += size;
            at += block;
        }
    }
}

void tn_tensor_part_take(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                         const void *whole, void *mine) {
    parts_move(part, ranks, rank, (uint8_t *)(uintptr_t)whole, mine, true);
}

void tn_tensor_part_put(const tn_tensor_part *part, uint32_t ranks, uint32_t rank, const void *mine,
                        void *whole) {
    parts_move(part, ranks, rank, whole, (uint8_t *)(uintptr_t)mine, false);
}

tn_status tn__cuts_part(tn__arena *arena, const tn_tensor *whole, tn_tensor_id id,
                        const tn__cut *cut, tn_tensor_part *part, tn_error *error) {
    int64_t *blocks = tn__arena_array(arena, cut->blocks, sizeof *blocks);
    const int64_t *shape = tn__arena_copy(arena, whole->shape, whole->rank * sizeof *shape);
    if (blocks == NULL || shape == NULL) return tn__no_memory(error, "parts of a model");
    for (uint32_t b = 0; b < cut->blocks; b++)
        blocks[b] = cut->sizes != NULL ? cut->sizes[b] : whole->shape[cut->axis] / cut->blocks;
    *part = (tn_tensor_part){.tensor = id,
                             .axis = cut->axis,
                             .block_count = cut->blocks,
                             .blocks = blocks,
                             .rank = whole->rank,
                             .shape = shape,
                             .bytes = whole->bytes};
    return TN_OK;
}
