/* recompute_emit.c - the graph with operators that run again, as a choice says.
 *
 * Operators are walked in order. Before the one at a position stand the copies that are due there,
 * in the order of their originals. An operator reads what was made again when it stands behind the
 * position up to which the first contents are kept. Views of what was made again are taken again
 * when somebody reads them, as they cost nothing.
 * Cost: O((operators + operands) log operators).
 */
#include "budget/recompute.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct emit_due { /* an operator that runs again */
    uint32_t at, place;
    tn_op_id op;
} emit_due;

typedef struct emit_state {
    tn__recompute *it;
    const tn__recompute_choice *choice;
    tn__draft draft;
    tn_tensor_id *made; /* [tensors] again; TN_NONE: not (yet) */
    tn_op_id *copied;   /* [operators of the draft behind those of the graph] */
    emit_due *dues;
    uint32_t due_count;
} emit_state;

static int emit_compare(const void *left, const void *right) {
    const emit_due *a = left, *b = right;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Every operator once, at the earliest position that one of its outputs is due. */
static tn_status emit_list(emit_state *s) {
    tn__recompute *it = s->it;
    uint32_t ops = tn_graph_op_count(it->graph);
    uint32_t *at = tn__arena_array(&s->draft.arena, (size_t)ops + 1, sizeof *at);
    s->dues = tn__arena_array(&s->draft.arena, (size_t)ops + 1, sizeof *s->dues);
    if (at == NULL || s->dues == NULL) return tn__no_memory(it->error, "recomputation");
    for (tn_op_id id = 0; id < ops; id++) at[id] = TN_NONE;
    for (uint32_t b = 0; b < it->body_count; b++) {
        tn_op_id maker = it->bodies[b].maker;
        if (s->choice->again[b] && s->choice->at[b] < at[maker]) at[maker] = s->choice->at[b];
    }
    for (tn_op_id id = 0; id < ops; id++)
        if (at[id] != TN_NONE) s->dues[s->due_count++] = (emit_due){at[id], it->place[id], id};
    qsort(s->dues, s->due_count, sizeof *s->dues, emit_compare);
    return TN_OK;
}

/* A copy of an operator, on these inputs. */
static tn_status emit_copy(emit_state *s, tn_op_id id, tn_op_id before,
                           const tn_tensor_id *inputs) {
    const tn_op *op = tn_graph_op(s->it->graph, id);
    const char *other = tn__recompute_type(s->it, id);
    uint32_t count = other != NULL ? 1 : op->output_count;
    tn_tensor_id *outputs =
        tn__arena_array(&s->draft.arena, (size_t)op->output_count + 1, sizeof *outputs);
    tn_op_id made;
    char name[200];
    if (outputs == NULL) return tn__no_memory(s->it->error, "recomputation");
    for (uint32_t k = 0; k < count; k++) {
        tn_tensor_id like = op->outputs[k];
        outputs[k] = TN_NONE;
        if (like == TN_NONE) continue;
        const tn_tensor tensor = *tn__draft_tensor_of(&s->draft, like);
        snprintf(name, sizeof name, "%.180s.again", tensor.name);
        TN_TRY(tn__draft_add_tensor(&s->draft, name, tensor.dtype, tensor.rank, tensor.shape,
                                    &outputs[k]));
        s->draft.tensors[outputs[k]].tensor.format = tensor.format;
        s->made[like] = outputs[k];
    }
    tn_op copy = *op;
    if (other != NULL) copy.type = other; /* with what was found */
    copy.inputs = inputs;
    copy.outputs = outputs;
    copy.output_count = count;
    TN_TRY(tn__draft_add_op(&s->draft, before, &copy, &made));
    s->copied[made - tn_graph_op_count(s->it->graph)] = id;
    return TN_OK;
}

/* Whether who stands at a position reads this as it was made again. */
static bool emit_is_again(const emit_state *s, tn_tensor_id id, uint32_t position) {
    if (id == TN_NONE || s->it->body[id] == TN_NONE) return false;
    uint32_t body = s->it->body[id];
    return s->choice->again[body] && position > s->choice->leave[body];
}

/* Views from what was made again to `id`, right before an operator. */
static tn_status emit_views(emit_state *s, tn_tensor_id id, tn_op_id before) {
    const tn_graph *graph = s->it->graph;
    while (s->made[id] == TN_NONE) {
        tn_tensor_id at = id, source;
        tn_op_id producer;
        uint32_t output = 0;
        for (;;) { /* the view that is next to what there is */
            producer = tn_graph_tensor(graph, at)->producer;
            const tn_op *op = tn_graph_op(graph, producer);
            for (output = 0; op->outputs[output] != at;) output++;
            source = tn_op_view(graph, producer, output).source;
            if (source == TN_NONE)
                TN_FAIL(s->it->error, TN_E_INTERNAL, "'%.80s' was not computed again",
                        tn_graph_tensor(graph, id)->name);
            if (s->made[source] != TN_NONE) break;
            at = source;
        }
        const tn_op *op = tn_graph_op(graph, producer);
        tn_tensor_id *inputs =
            tn__arena_copy(&s->draft.arena, op->inputs, op->input_count * sizeof *inputs);
        if (inputs == NULL) return tn__no_memory(s->it->error, "recomputation");
        for (uint32_t i = 0; i < op->input_count; i++)
            if (inputs[i] == source) inputs[i] = s->made[source];
        TN_TRY(emit_copy(s, producer, before, inputs));
    }
    return TN_OK;
}

/* The inputs of an operator when it stands at `position`, before operator `before` or as it. */
static tn_status emit_inputs(emit_state *s, tn_op_id id, bool copy, uint32_t position,
                             tn_op_id before, tn_tensor_id *inputs) {
    const tn_op *op = tn_graph_op(s->it->graph, id);
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = copy ? tn__recompute_input(s->it, id, i) : op->inputs[i];
        if (!emit_is_again(s, inputs[i], position)) continue;
        TN_TRY(emit_views(s, inputs[i], before));
        inputs[i] = s->made[inputs[i]];
    }
    return TN_OK;
}

static tn_status emit_due_before(emit_state *s, uint32_t position, uint32_t *next) {
    for (; *next < s->due_count && s->dues[*next].at == position; ++*next) {
        tn_op_id id = s->dues[*next].op, before = s->it->order[position];
        const tn_op *op = tn_graph_op(s->it->graph, id);
        tn_tensor_id *inputs =
            tn__arena_array(&s->draft.arena, (size_t)op->input_count + 1, sizeof *inputs);
        if (inputs == NULL) return tn__no_memory(s->it->error, "recomputation");
        TN_TRY(emit_inputs(s, id, true, position, before, inputs));
        TN_TRY(emit_copy(s, id, before, inputs));
    }
    return TN_OK;
}

/* A view, late in the list, of what was made again needs no second one. */
static void emit_keep_view(emit_state *s, const tn_op *op, uint32_t position) {
    for (uint32_t k = 0; k < op->output_count; k++)
        if (emit_is_again(s, op->outputs[k], position) &&
            s->it->bodies[s->it->body[op->outputs[k]]].maker != s->it->order[position])
            s->made[op->outputs[k]] = op->outputs[k];
}

static tn_status emit_walk(emit_state *s) {
    uint32_t next = 0;
    for (uint32_t p = 0; p < s->it->count; p++) {
        tn_op_id id = s->it->order[p];
        const tn_op op = *tn_graph_op(s->it->graph, id);
        TN_TRY(emit_due_before(s, p, &next));
        tn_tensor_id *inputs =
            tn__arena_array(&s->draft.arena, (size_t)op.input_count + 1, sizeof *inputs);
        if (inputs == NULL) return tn__no_memory(s->it->error, "recomputation");
        TN_TRY(emit_inputs(s, id, false, p, id, inputs));
        for (uint32_t i = 0; i < op.input_count; i++)
            if (inputs[i] != op.inputs[i]) tn__draft_set(&s->draft, id, i, inputs[i]);
        emit_keep_view(s, &op, p);
    }
    return TN_OK;
}

/* Scratch of the new operators is that of those they repeat. */
static tn_status emit_facts(emit_state *s, tn__recompute_made *made) {
    const tn__recompute *it = s->it;
    uint32_t ops = tn_graph_op_count(it->graph);
    made->workspaces =
        tn__arena_array(&s->it->arena, (size_t)s->draft.op_count + 1, sizeof *made->workspaces);
    if (made->workspaces == NULL) return tn__no_memory(it->error, "recomputation");
    for (tn_op_id id = 0; id < s->draft.op_count; id++)
        made->workspaces[s->draft.ops[id].made] = it->scratch[id < ops ? id : s->copied[id - ops]];
    made->operators = s->due_count;
    made->flops = 0;
    for (uint32_t i = 0; i < s->due_count; i++)
        made->flops = tn__add_sat(made->flops, tn_op_cost(it->graph, s->dues[i].op).flops);
    return TN_OK;
}

static tn_status emit_graph(emit_state *s, tn__recompute_made *made) {
    size_t tensors = tn_graph_tensor_count(s->it->graph), ops = tn_graph_op_count(s->it->graph);
    TN_TRY(tn__draft_begin(&s->draft));
    s->made = tn__arena_array(&s->draft.arena, tensors + 1, sizeof *s->made);
    s->copied =
        tn__arena_array(&s->draft.arena, ops + 1, sizeof *s->copied); /* each once at most */
    if (s->made == NULL || s->copied == NULL) return tn__no_memory(s->it->error, "recomputation");
    for (size_t i = 0; i < tensors; i++) s->made[i] = TN_NONE;
    TN_TRY(emit_list(s));
    TN_TRY(emit_walk(s));
    TN_TRY(tn__draft_graph(&s->draft, &made->graph));
    tn_status status = emit_facts(s, made);
    if (status != TN_OK) tn_graph_destroy(made->graph);
    return status;
}

tn_status tn__recompute_emit(tn__recompute *it, const tn__recompute_choice *choice,
                             tn__recompute_made *made) {
    emit_state state = {.it = it,
                        .choice = choice,
                        .draft = {.graph = it->graph,
                                  .context = *it->arena.context,
                                  .keep_ids = true,
                                  .keep_ops = true,
                                  .error = it->error}};
    tn__arena_init(&state.draft.arena, &state.draft.context);
    tn_status status = emit_graph(&state, made);
    tn__draft_end(&state.draft);
    return status;
}
