/* infer.c - the driver of shape inference: walks the graph in order, calls the rules, merges what
 * they decide with what the file states, folds what is constant, and computes every size.
 *
 * Three sources of truth, in this order: a rule; what the file states, where the rule does not know
 * (an unknown operator, a data-dependent extent); an upper bound, which is marked as one. A rule
 * and the file that disagree are an error that names both. What depends on constants alone is
 * folded: it is computed once before the run, so its memory is static.
 *
 * Blocks of control flow are walked with an explicit stack of frames. A branch whose condition is
 * known to exclude it is dead: it is walked too, but its errors are its own.
 * Cost: O(tensors + operands + attributes); bodies of loops are walked at most a few times.
 */
#include <stdio.h>

#include "graph/fold.h"
#include "graph/store.h"

struct infer_frame {
    tn_block_id block;
    uint32_t next;    /* index of the operator to infer */
    uint32_t round;   /* of the control-flow operator at `next` */
    bool lenient;     /* inside a dead branch */
    bool dead_branch; /* the dead branch itself: where an error stops */
};

/* --- one operator ----------------------------------------------------------------------------- */

static void infer_reset(tn_graph *graph, tn_tensor_id id) {
    tn_tensor *tensor = &graph->tensors[id];
    tn__origin *origin = &graph->origins[id];
    tensor->dtype = origin->dtype;
    tensor->kind = origin->kind;
    tensor->flags = origin->flags;
    tensor->rank = origin->rank;
    tensor->shape = origin->shape;
    tensor->value = origin->value;
    tensor->repeat = origin->flags & TN_TENSOR_SEQUENCE ? TN_SIZE_UNKNOWN : 1;
    tensor->bytes = TN_SIZE_UNKNOWN;
    origin->bound = NULL;
}

/* Outputs start empty, so that what the rule leaves open can be told from what it decides. */
static void infer_clear(tn_graph *graph, tn_tensor_id id) {
    tn_tensor *tensor = &graph->tensors[id];
    infer_reset(graph, id);
    tensor->dtype = TN_UNDEFINED;
    tensor->rank = TN_RANK_UNKNOWN;
    tensor->shape = NULL;
    tensor->flags &= ~(uint32_t)(TN_TENSOR_STATED | TN_TENSOR_BOUND);
}

static tn_status infer_check_arity(tn_infer *infer, const tn_op_rule *rule) {
    const tn_op *op = infer->op;
    uint32_t inputs = op->input_count, outputs = op->output_count;
    while (inputs && op->inputs[inputs - 1] == TN_NONE) inputs--; /* omitted at the end */
    while (outputs && op->outputs[outputs - 1] == TN_NONE) outputs--;
    if (inputs < rule->inputs_min || inputs > rule->inputs_max)
        return tn__infer_fail(infer, "%u inputs; %.40s takes %u to %u", inputs, op->type,
                              rule->inputs_min, rule->inputs_max);
    if (outputs > rule->outputs_max)
        return tn__infer_fail(infer, "%u outputs; %.40s has at most %u", outputs, op->type,
                              rule->outputs_max);
    for (uint32_t i = 0; i < rule->inputs_min; i++)
        if (op->inputs[i] == TN_NONE)
            return tn__infer_fail(infer, "input %u is omitted; %.40s needs it", i, op->type);
    return TN_OK;
}

/* An operator whose inputs are all static computes something static, unless it draws random
 * numbers, owns blocks, or is an alias by definition (then it has no memory of its own anyway). */
static bool infer_folds(tn_infer *infer, const tn_op_rule *rule) {
    const tn_op *op = infer->op;
    bool any = false;
    if (!rule || (rule->flags & (TN_RULE_RANDOM | TN_RULE_CONTROL))) return false;
    if (rule->flags & TN_RULE_CONSTANT) return true;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        if (!tn__is_static(&infer->graph->tensors[op->inputs[i]])) return false;
        any = true;
    }
    for (uint32_t i = 0; any && rule->view && i < op->output_count; i++)
        if (rule->view(infer, i).must) return false;
    return any;
}

/* What the rule decided becomes final: bounds are marked, the file has its say. */
static tn_status infer_settle(tn_infer *infer, const tn_op_rule *rule) {
    tn_graph *graph = infer->graph;
    const tn_op *op = infer->op;
    bool bound = infer->state->saw_bound;
    for (uint32_t i = 0; i < op->input_count && !bound; i++)
        bound = op->inputs[i] != TN_NONE && rule && !(rule->flags & TN_RULE_SHAPE_ONLY) &&
                (graph->tensors[op->inputs[i]].flags & TN_TENSOR_BOUND);
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        tn_tensor *tensor = &graph->tensors[op->outputs[i]];
        if (bound && tensor->rank != TN_RANK_UNKNOWN) tensor->flags |= TN_TENSOR_BOUND;
        TN_TRY(tn__settle_merge(infer, op->outputs[i]));
        if (!tensor->rank && !(tensor->flags & TN_TENSOR_SEQUENCE))
            tensor->flags &= ~(uint32_t)TN_TENSOR_BOUND; /* a scalar is what it is */
        TN_TRY(tn__settle_size(graph, op->outputs[i], infer->error));
    }
    return TN_OK;
}

static tn_status infer_fold(tn_infer *infer, const tn_op_rule *rule) {
    tn_graph *graph = infer->graph;
    const tn_op *op = infer->op;
    struct infer_state *state = infer->state;
    state->saw_bound = false;
    for (uint32_t i = 0; i < op->input_count; i++) /* extents are what such a rule reads */
        if (op->inputs[i] != TN_NONE && rule && (rule->flags & TN_RULE_SHAPE_ONLY))
            state->saw_bound |= (graph->tensors[op->inputs[i]].flags & TN_TENSOR_BOUND) != 0;
    if (rule && rule->fold && !(rule->flags & TN_RULE_RANDOM)) TN_TRY(rule->fold(infer));
    bool folds = infer_folds(infer, rule);
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        if (folds || graph->tensors[op->outputs[i]].value) tn__set_folded(infer, i);
    }
    return TN_OK;
}

static tn_status infer_op(tn_infer *infer) {
    const tn_op_rule *rule = infer->graph->rules[infer->id];
    struct infer_state *state = infer->state;
    for (uint32_t i = 0; i < infer->op->output_count; i++)
        if (infer->op->outputs[i] != TN_NONE) infer_clear(infer->graph, infer->op->outputs[i]);
    state->saw_bound = false;
    if (rule) TN_TRY(infer_check_arity(infer, rule));
    if (rule && rule->shape) TN_TRY(rule->shape(infer));
    TN_TRY(infer_settle(infer, rule));
    return infer_fold(infer, rule);
}

/* --- the walk -----------------------------------------------------------------------------------
 */

static tn_status infer_push(tn_infer *infer, tn_block_id block, bool lenient) {
    struct infer_state *state = infer->state;
    if (!tn__reserve(&infer->graph->context, &state->frames, &state->frame_room,
                     (size_t)state->frame_count + 1, sizeof *state->frames))
        return tn__infer_no_memory(infer);
    bool dead = infer->graph->blocks[block].view.dead;
    state->frames[state->frame_count++] = (struct infer_frame){
        .block = block, .lenient = lenient || dead, .dead_branch = dead && !lenient};
    return TN_OK;
}

static bool infer_owns_blocks(const tn_op *op) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_BLOCK) return true;
    return false;
}

/* One round of a control-flow operator: its blocks go on the stack, the first one on top. */
static tn_status infer_enter(tn_infer *infer, const tn_op_rule *rule, uint32_t round, bool lenient,
                             bool *again) {
    const tn_op *op = infer->op;
    tn_graph *graph = infer->graph;
    *again = !round; /* without a rule: once, with the formal inputs that the file states */
    if (rule) {
        if (!round) TN_TRY(infer_check_arity(infer, rule));
        TN_TRY(rule->enter(infer, round, again));
    }
    for (uint32_t i = op->attr_count; *again && i-- > 0;) {
        if (op->attrs[i].type != TN_ATTR_BLOCK) continue;
        const tn_block *view = &graph->blocks[op->attrs[i].block].view;
        for (uint32_t j = 0; j < view->input_count; j++) {
            TN_TRY(tn__settle_merge(infer, view->inputs[j]));
            TN_TRY(tn__settle_size(graph, view->inputs[j], infer->error));
        }
        TN_TRY(infer_push(infer, op->attrs[i].block, lenient));
    }
    return TN_OK;
}

/* A nest of loops may be walked again and again until what they carry settles; models need two or
 * three walks, and a hostile nest is stopped. */
static uint64_t infer_step_limit(const tn_graph *graph) {
    return 100000 + 64 * ((uint64_t)graph->op_count + graph->block_count);
}

/* The next step: one operator, one round of blocks, or the end of a block. */
static tn_status infer_step(tn_infer *infer) {
    tn_graph *graph = infer->graph;
    struct infer_state *state = infer->state;
    if (state->steps_left-- == 0)
        TN_FAIL(infer->error, TN_E_UNSUPPORTED,
                "the shapes inside nested loops did not settle after %llu steps; state the shapes "
                "that the loops carry",
                (unsigned long long)infer_step_limit(graph));
    uint32_t depth = state->frame_count - 1;
    struct infer_frame *frame = &state->frames[depth];
    const tn_block *view = &graph->blocks[frame->block].view;
    if (frame->next == view->op_count) {
        state->frame_count--;
        return TN_OK;
    }
    infer->id = view->ops[frame->next];
    infer->op = &graph->ops[infer->id];
    infer->version = infer->op->version ? infer->op->version : UINT32_MAX;
    const tn_op_rule *rule = graph->rules[infer->id];
    bool enters = rule && rule->enter;
    if (enters || infer_owns_blocks(infer->op)) {
        bool again;
        uint32_t round = frame->round++;
        TN_TRY(infer_enter(infer, enters ? rule : NULL, round, frame->lenient, &again));
        if (again) return TN_OK; /* back here when the blocks are done */
    }
    TN_TRY(infer_op(infer));
    state->frames[depth].next++;
    state->frames[depth].round = 0;
    return TN_OK;
}

/* The other branch of the If that a block belongs to, or TN_NONE when there is no such. */
static tn_block_id infer_sibling(const tn_graph *graph, tn_block_id block) {
    tn_op_id owner = graph->blocks[block].view.owner;
    if (owner == TN_NONE || strcmp(graph->ops[owner].type, "If") != 0) return TN_NONE;
    const tn_op *op = &graph->ops[owner];
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_BLOCK && op->attrs[i].block != block)
            return op->attrs[i].block;
    return TN_NONE;
}

/* Models choose between sampling rates or ranks by an If on a run-time input; with the extents at
 * hand only one branch fits together, and the other could not run. So a branch around a
 * contradiction dies, if its sibling lives: the innermost one, or (second attempt) the outermost.
 */
static bool infer_let_die(tn_infer *infer, tn_status status) {
    struct infer_state *state = infer->state;
    tn_graph *graph = infer->graph;
    tn_block_id chosen = TN_NONE, block = state->frames[state->frame_count - 1].block;
    if (status != TN_E_INVALID) return false;
    for (; block != TN_NONE; block = tn__block_parent(graph, block)) {
        tn_block_id sibling = infer_sibling(graph, block);
        if (sibling == TN_NONE || graph->blocks[sibling].view.dead) continue;
        chosen = block;
        if (!state->outermost) break;
    }
    if (chosen == TN_NONE) return false;
    graph->blocks[chosen].view.dead = graph->blocks[chosen].died = state->any_died = true;
    while (state->frames[--state->frame_count].block != chosen) continue; /* siblings wait below */
    return true;
}

/* A dead branch that does not type is left as it is. */
static bool infer_forgive(struct infer_state *state, tn_status status) {
    if (status == TN_E_NO_MEMORY || status == TN_E_UNSUPPORTED ||
        !state->frames[state->frame_count - 1].lenient)
        return false;
    while (!state->frames[--state->frame_count].dead_branch) continue;
    return true;
}

static tn_status infer_walk(tn_infer *infer, tn_error *error) {
    struct infer_state *state = infer->state;
    tn_error ignored;
    TN_TRY(infer_push(infer, 0, false));
    while (state->frame_count) {
        bool lenient = state->frames[state->frame_count - 1].lenient;
        infer->error = lenient ? &ignored : error;
        ignored.where[0] = 0;
        tn_status status = infer_step(infer);
        state->scratch_used = 0;
        if (state->overflowed) {
            tn__arena_release(&state->overflow);
            tn__arena_init(&state->overflow, &infer->graph->context);
            state->overflowed = false;
        }
        if (status == TN_OK || infer_forgive(state, status)) continue;
        if (infer_let_die(infer, status)) continue;
        if (lenient && error) *error = ignored; /* out of memory */
        return tn__op_where(infer->graph, infer->id, error, status);
    }
    return TN_OK;
}

/* --- the call --------------------------------------------------------------------------------- */

/* What lies inside a dead branch is dead as well. */
static void infer_spread_dead(tn_graph *graph) {
    for (tn_block_id block = 1; block < graph->block_count; block++) {
        tn_block_id at = block;
        while (at && !graph->blocks[at].view.dead) at = tn__block_parent(graph, at);
        if (at) graph->blocks[block].view.dead = true;
    }
}

/* Back to what the builder said; then sizes of what no operator computes. */
static tn_status infer_start(tn_graph *graph, tn_error *error) {
    static const int64_t no_ints[1];
    static const double no_floats[1];
    static const tn_value empty_ints = {0, no_ints, NULL}, empty_floats = {0, NULL, no_floats};
    tn__arena_release(&graph->found);
    tn__arena_init(&graph->found, &graph->context);
    for (tn_block_id block = 0; block < graph->block_count; block++)
        graph->blocks[block].view.dead = graph->blocks[block].died = false;
    for (uint32_t id = 0; id < graph->tensor_count; id++) {
        tn_tensor *tensor = &graph->tensors[id];
        infer_reset(graph, id);
        if (tensor->producer != TN_NONE) continue;
        tn_status status = tn__settle_size(graph, id, error);
        if (status != TN_OK)
            return tn__where(error, status, "%s '%.100s'", tn_kind_name(tensor->kind),
                             tensor->name);
        if (tn__is_static(tensor) && !tensor->value && tn__elements(tensor) == 0)
            tensor->value = tn__is_integer(tensor->dtype) ? &empty_ints : &empty_floats;
    }
    return TN_OK;
}

/* Branches that were left out are told to the caller's log. */
static void infer_tell_dead(const tn_graph *graph) {
    char line[200];
    for (tn_block_id block = 1; block < graph->block_count && graph->context.log; block++) {
        const tn__block *facts = &graph->blocks[block];
        if (!facts->died) continue;
        snprintf(line, sizeof line, "a branch of If '%.80s' does not fit these shapes: left out",
                 graph->ops[facts->view.owner].name);
        graph->context.log(graph->context.self, line);
    }
}

static tn_status infer_attempt(tn_graph *graph, struct infer_state *state, tn_error *error) {
    tn_infer infer = {.graph = graph, .error = error, .state = state};
    TN_TRY(infer_start(graph, error));
    state->steps_left = infer_step_limit(graph);
    state->frame_count = 0;
    TN_TRY(infer_walk(&infer, error));
    infer_spread_dead(graph);
    return tn__explain_unknown(graph, error);
}

tn_status tn_graph_infer(tn_graph *graph, tn_error *error) {
    TN_TRY(tn__graph_order(graph, error));
    struct infer_state state = {0};
    tn__arena_init(&state.overflow, &graph->context);
    state.scratch = tn__alloc(&graph->context, TN__SCRATCH_SIZE);
    tn_status status = state.scratch ? infer_attempt(graph, &state, error)
                                     : tn__no_memory(error, "shape inference");
    if (status == TN_E_UNKNOWN && state.any_died) {
        state.outermost = true;
        status = infer_attempt(graph, &state, error);
    }
    tn__free(&graph->context, state.scratch, TN__SCRATCH_SIZE);
    tn__free(&graph->context, state.frames, state.frame_room * sizeof *state.frames);
    tn__arena_release(&state.overflow);
    if (status == TN_OK) infer_tell_dead(graph);
    return status;
}
