/* make.c - the graph of one rank.
 *
 * Tensors keep their ids; cut ones have the extents of a part. Operators on parts are what they
 * were, but where extents are operands or attributes of theirs. Around them:
 *
 *     whole and differentiated   RankCopy before it: the ranks' gradients are summed up
 *     whole, a part is needed    Slice
 *     a summand                  RankSum behind it, then what is to be added once
 *
 * What looks at extents alone keeps what it saw of the whole. Operators that nobody needs for the
 * loss are left out where they read what is cut; their tensors stay as ones of no bytes.
 */
#include <stdio.h>

#include "graph/gradient.h"
#include "cut/cut.h"

typedef struct make_state {
    tn__cuts *it;
    tn_graph *graph;
    tn_tensor_id *copies; /* [tensors] what a RankCopy hands out; TN_NONE */
    tn_tensor_id *slices; /* [tensors] the part of a whole one; TN_NONE; */
    tn__cut *sliced;      /* and which */
    bool *gone;           /* [tensors] nobody defines it any more */
    tn_op_id *origin;
    size_t origin_room;
    tn_error *error;
} make_state;

static bool make_is_cut(const make_state *state, tn_tensor_id id) {
    return id != TN_NONE && state->it->cuts[id].blocks > 0;
}

/* --- adding --- */

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
    int64_t length = count;
    tn_tensor_spec spec = {.dtype = TN_INT64,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &length,
                           .value = {.count = count, .ints = values}};
    return tn_graph_add_tensor(state->graph, &spec, id, state->error);
}

/* An operator of one output that is given. */
static tn_status make_op(make_state *state, const char *domain, const char *type,
                         const tn_tensor_id *inputs, uint32_t count, const tn_attr *attr,
                         tn_tensor_id output) {
    tn_op_spec spec = {.type = type,
                       .domain = domain,
                       .name = tn_graph_tensor(state->graph, output)->name,
                       .inputs = inputs,
                       .input_count = count,
                       .outputs = &output,
                       .output_count = 1,
                       .attrs = attr,
                       .attr_count = attr != NULL};
    return make_add(state, &spec, TN_NONE);
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

/* The rank's part of what is whole. */
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
    if (state->it->depends[id]) TN_TRY(make_copy(state, id, made));
    return cut->blocks > 0 ? make_slice(state, id, *made, cut, made) : TN_OK;
}

/* --- operators on parts --- */

static int64_t make_extent(const make_state *state, const tn_tensor *tensor, const tn__cut *cut,
                           uint32_t axis) {
    bool part = cut->blocks > 0 && cut->axis == axis;
    return tensor->shape[axis] / (part ? state->it->ranks : 1);
}

/* The extents of the result, where they are an operand. */
static tn_status make_extents(make_state *state, const tn_op *op, const tn__cut *cut,
                              tn_tensor_id *list) {
    const tn_tensor *y = tn_graph_tensor(state->it->graph, op->outputs[0]);
    int64_t shape[TN_RANK_MAX];
    for (uint32_t d = 0; d < y->rank; d++) shape[d] = make_extent(state, y, cut, d);
    return make_list(state, shape, y->rank, list);
}

/* Sizes of the pieces of Split, where they are stated. */
static tn_status make_sizes(make_state *state, const tn_op *op, const tn__link *link,
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

/* The operator that computes a part of a sum, where that is another one. */
static tn_status make_sums_as(make_state *state, const tn_op *op, const char *type,
                              const tn__link *link, tn_op_spec *spec) {
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

/* What has to be added once, in a shape that broadcasts: a bias of channels has its axis second. */
static tn_status make_bias(make_state *state, tn_op_id id, tn_tensor_id bias, tn_tensor_id *made) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    const tn_tensor *y = tn_graph_tensor(state->it->graph, op->outputs[0]);
    const tn_tensor *own = tn_graph_tensor(state->it->graph, bias);
    int64_t shape[TN_RANK_MAX];
    tn_tensor_id inputs[] = {bias, TN_NONE};
    *made = bias;
    if (!tn__op_has(state->it->graph, id, TN_RULE_CONV) || own->rank != 1) return TN_OK;
    for (uint32_t d = 0; d < y->rank; d++) shape[d] = d == 1 ? own->shape[0] : 1;
    TN_TRY(make_list(state, shape, y->rank, &inputs[1]));
    TN_TRY(make_tensor(state, bias, "row", made));
    return make_op(state, "", "Reshape", inputs, 2, NULL, *made);
}

/* Behind an operator whose result, `part`, is a summand of `whole`. */
static tn_status make_sum(make_state *state, tn_op_id id, const tn__link *link, tn_tensor_id part,
                          tn_tensor_id whole) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    tn_tensor_id sum = whole, bias = TN_NONE;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (link->once[i]) bias = op->inputs[i];
    if (bias != TN_NONE) TN_TRY(make_tensor(state, whole, "sum", &sum));
    TN_TRY(make_op(state, "tenure", "RankSum", &part, 1, NULL, sum));
    if (bias == TN_NONE) return TN_OK;
    TN_TRY(make_bias(state, id, bias, &bias));
    const tn_tensor_id terms[] = {sum, bias};
    return make_op(state, "", "Add", terms, 2, NULL, whole);
}

/* Asks how the operator takes the cuts that its operands have. */
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

static tn_status make_part(make_state *state, tn_op_id id) {
    tn__cuts *it = state->it;
    const tn_op *op = tn_graph_op(it->graph, id);
    const tn_op_rule *rule = tn__rule_of(it->graph, id);
    const tn__link *link = &it->link;
    tn_op_spec spec = tn__graph_op_spec(op);
    tn_tensor_id part = op->outputs[0];
    tn_tensor_id *inputs = tn__arena_array(it->arena, op->input_count + 1u, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(state->error, "parts of a model");
    if (!make_link(it, id))
        TN_FAIL(state->error, TN_E_INTERNAL, "'%.80s' (%.40s) has no parts", op->name, op->type);
    spec.inputs = inputs;
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = TN_NONE;
        if (!link->once[i])
            TN_TRY(make_operand(state, op->inputs[i], &link->inputs[i], &inputs[i]));
    }
    if (rule->part_form == TN__FORM_EXTENTS && op->input_count > 1)
        TN_TRY(make_extents(state, op, &link->outputs[0], &inputs[1]));
    if (tn__op_is(op, "Split")) TN_TRY(make_sizes(state, op, link, &spec, inputs));
    while (spec.input_count > 0 && inputs[spec.input_count - 1] == TN_NONE) spec.input_count--;
    if (!link->sums) return make_add(state, &spec, id);
    if (rule->sums_as != NULL) TN_TRY(make_sums_as(state, op, rule->sums_as, link, &spec));
    TN_TRY(make_tensor(state, op->outputs[0], "summand", &part));
    spec.outputs = &part;
    TN_TRY(make_add(state, &spec, id));
    return make_sum(state, id, link, part, op->outputs[0]);
}

/* --- the whole --- */

static bool make_touches(const make_state *state, const tn_op *op) {
    bool cut = false;
    for (uint32_t i = 0; i < op->input_count; i++) cut = cut || make_is_cut(state, op->inputs[i]);
    for (uint32_t k = 0; k < op->output_count; k++) cut = cut || make_is_cut(state, op->outputs[k]);
    return cut;
}

/* Operators that are left out: of those that nobody needs, what reads parts, or what is left out;
 * and what looked at a part's extents. */
static bool make_leaves(make_state *state, tn_op_id id) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    bool touches = make_touches(state, op), reads = false;
    for (uint32_t i = 0; i < op->input_count; i++)
        reads = reads || (op->inputs[i] != TN_NONE && state->gone[op->inputs[i]]);
    if (state->it->runs[id]) return touches && tn__cuts_looks(state->it, id);
    if (!touches && !reads) return false;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) state->gone[op->outputs[k]] = true;
    return true;
}

/* A tensor as its part is; what is left out is nothing, and what looked at extents is constant. */
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
        } else if (make_is_cut(state, id)) {
            for (uint32_t d = 0; d < tensor->rank; d++)
                shape[d] = make_extent(state, tensor, &it->cuts[id], d);
            spec.rank = tensor->rank;
            spec.shape = shape;
            spec.value = (tn_value){0};
        }
        TN_TRY(tn_graph_add_tensor(state->graph, &spec, &made, state->error));
    }
    return TN_OK;
}

/* Scores that are cut stand for the output that is made of them alone. */
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

static tn_status make_ops(make_state *state, const bool *leaves) {
    tn__cuts *it = state->it;
    for (tn_block_id b = tn_graph_block_count(it->graph); b-- > 0;) {
        const tn_block *block = tn_graph_block(it->graph, b);
        for (uint32_t i = 0; i < block->op_count; i++) {
            const tn_op *op = tn_graph_op(it->graph, block->ops[i]);
            tn_op_spec spec = tn__graph_op_spec(op);
            if (leaves[block->ops[i]]) continue;
            TN_TRY(make_touches(state, op) ? make_part(state, block->ops[i])
                                           : make_add(state, &spec, block->ops[i]));
        }
    }
    return TN_OK;
}

/* Every tensor has the extents that its cut leaves. */
static tn_status make_check(const make_state *state) {
    const tn__cuts *it = state->it;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        const tn_tensor *old = tn_graph_tensor(it->graph, id);
        const tn_tensor *now = tn_graph_tensor(state->graph, id);
        bool same = state->gone[id] || now->rank == old->rank;
        if (state->gone[id] || old->rank > TN_RANK_MAX) continue;
        for (uint32_t d = 0; d < old->rank && same; d++)
            same = now->shape[d] == make_extent(state, old, &it->cuts[id], d);
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
    state->slices = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->slices);
    state->sliced = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->sliced);
    state->gone = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->gone);
    if (!leaves || !state->copies || !state->slices || !state->sliced || !state->gone)
        return tn__no_memory(state->error, "parts of a model");
    for (uint32_t t = 0; t < tensors; t++) state->copies[t] = state->slices[t] = TN_NONE;
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

tn_status tn__cuts_make(tn__cuts *it) {
    make_state state = {.it = it, .error = it->error};
    TN_TRY(tn_graph_create(it->context, &state.graph, it->error));
    tn_status status = make_all(&state);
    if (status == TN_OK) {
        it->made = state.graph;
        uint32_t count = tn_graph_op_count(it->made);
        it->origin = tn__arena_copy(it->arena, state.origin, count * sizeof *it->origin);
        if (it->origin == NULL) status = tn__no_memory(it->error, "parts of a model");
    } else {
        tn_graph_destroy(state.graph);
    }
    tn__free(it->context, state.origin, state.origin_room * sizeof *state.origin);
    return status;
}

tn_status tn__cuts_graph(tn__cuts *it) {
    tn_status status = tn__cuts_classes(it);
    if (status == TN_OK) status = tn__cuts_choose(it);
    tn__free(it->context, it->found, it->found_room * sizeof *it->found);
    it->found = NULL;
    return status == TN_OK ? tn__cuts_make(it) : status;
}
