/* infer.c - drives shape inference: walks the graph in order, calls the rules, merges their
 * results with the file's statements, folds constants, computes every size, and explains a size
 * that stays unknown.
 *
 * There are three sources, in this order: a rule; the file, if the rule does not know (an unknown
 * operator, a data-dependent extent); an upper bound, which is marked as one. If a rule and the
 * file disagree, the error names both. Tensors that depend on constants alone are folded: they are
 * computed once before the run, so their memory is static.
 *
 * Blocks of control flow are walked with an explicit stack of frames. A branch is dead if a known
 * condition excludes it: it is walked too, but its errors do not count. A branch is also dead if
 * the condition is unknown and inference fails only in this branch: it could not run.
 * Cost: O(tensors + operands + attributes); bodies of loops are walked at most a few times.
 */
#include "graph/infer/infer.h"
#include "graph/rules/fold.h"
#include "graph/store.h"

#include <stdio.h>

/* --- the stack of blocks that are being inferred ---------------------------------------------- */

struct infer_frame {
    tn_block_id block;
    uint32_t next;  /* index of the operator that is inferred next */
    uint32_t round; /* current round of the control-flow operator at `next` */
    /* index of the nearest frame, this one or below, with a block that counts as dead if it fails,
     * so that its error is not an error of the graph. TN_NONE: there is no such frame */
    uint32_t catcher;
};

/* --- inference of one operator --- */

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
    origin->loose = NULL;
    origin->rough = false;
}

/* Clears an output, so that the driver sees which of its properties the rule sets. */
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
    /* trailing inputs may be omitted */
    while (inputs && op->inputs[inputs - 1] == TN_NONE) inputs--;
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

/* Whether the operator's results are static. An operator with only static inputs computes static
 * results, unless it draws random numbers, owns blocks, is never folded (TN_RULE_UNFOLDED), or is
 * an alias by definition (which has no memory of its own). */
static bool infer_folds(tn_infer *infer, const tn_op_rule *rule) {
    const tn_op *op = infer->op;
    bool any = false;
    if (!rule || (rule->flags & (TN_RULE_RANDOM | TN_RULE_UNFOLDED | TN_RULE_CONTROL)))
        return false;
    if (tn__draws(infer->graph, op, rule)) return false;
    if (rule->flags & TN_RULE_CONSTANT) return true;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        if (!tn_tensor_is_constant(&infer->graph->tensors[op->inputs[i]])) return false;
        any = true;
    }
    for (uint32_t i = 0; any && rule->view && i < op->output_count; i++)
        if (rule->view(infer, i).must) return false;
    return any;
}

static tn_status settle_merge(tn_infer *infer, tn_tensor_id id);

/* Completes the rule's decisions: finds bounds, merges the extents that the file states, and
 * computes the sizes. */
static tn_status infer_settle(tn_infer *infer, const tn_op_rule *rule) {
    const tn_op *op = infer->op;
    TN_TRY(tn__loosen_outputs(infer, rule));
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        TN_TRY(settle_merge(infer, op->outputs[i]));
        TN_TRY(tn__settle_size(infer->graph, op->outputs[i], infer->error));
    }
    return TN_OK;
}

/* Whether the last bits of the operator's values may differ from those that its kernel computes. */
static bool infer_is_rough(const tn_infer *infer, const tn_op_rule *rule) {
    const tn_op *op = infer->op;
    bool rough = rule && rule->flags & TN_RULE_ROUGH;
    for (uint32_t i = 0; i < op->input_count && !rough; i++)
        rough = op->inputs[i] != TN_NONE && infer->graph->origins[op->inputs[i]].rough;
    return rough;
}

static tn_status infer_fold(tn_infer *infer, const tn_op_rule *rule) {
    const tn_op *op = infer->op;
    bool draws = tn__draws(infer->graph, op, rule) || (rule && rule->flags & TN_RULE_RANDOM);
    if (rule && rule->fold && !draws) TN_TRY(tn__loosen_fold(infer, rule));
    bool folds = infer_folds(infer, rule), rough = folds && infer_is_rough(infer, rule);
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        /* known values make an output folded, too, but not if the operator must run every time */
        const tn_value *value = infer->graph->tensors[op->outputs[i]].value;
        bool follows = value != NULL && !draws;
        if (folds || follows) tn__set_folded(infer, i);
        infer->graph->origins[op->outputs[i]].rough = rough && value != NULL && value->floats;
    }
    return TN_OK;
}

static tn_status infer_op(tn_infer *infer) {
    const tn_op_rule *rule = infer->graph->rules[infer->id];
    struct infer_state *state = infer->state;
    for (uint32_t i = 0; i < infer->op->output_count; i++)
        if (infer->op->outputs[i] != TN_NONE) infer_clear(infer->graph, infer->op->outputs[i]);
    state->saw_bound = false;
    state->axes = NULL;
    if (rule) TN_TRY(infer_check_arity(infer, rule));
    if (state->rebatch != NULL) TN_TRY(tn__rebatch_before(infer, state->rebatch));
    if (rule && rule->shape) TN_TRY(rule->shape(infer));
    TN_TRY(infer_settle(infer, rule));
    if (state->rebatch != NULL) TN_TRY(tn__rebatch_after(infer, state->rebatch));
    return infer_fold(infer, rule);
}

/* --- the walk through operators and blocks --- */

static tn_status infer_push(tn_infer *infer, tn_block_id block, uint32_t catcher) {
    struct infer_state *state = infer->state;
    const tn__graph_block *at = &infer->graph->blocks[block];
    if (!tn__reserve(&infer->graph->context, &state->frames, &state->frame_room,
                     (size_t)state->frame_count + 1, sizeof *state->frames))
        return tn__infer_no_memory(infer);
    if (at->view.dead || at->tried) catcher = state->frame_count;
    state->frames[state->frame_count++] = (struct infer_frame){.block = block, .catcher = catcher};
    return TN_OK;
}

/* Resets the marks of an operator's blocks before the first round. If a loop surrounds the
 * operator, an earlier walk of the inference may have left them. */
static void infer_reset_blocks(tn_infer *infer) {
    for (uint32_t i = 0; i < infer->op->attr_count; i++) {
        if (infer->op->attrs[i].type != TN_ATTR_BLOCK) continue;
        tn__graph_block *block = &infer->graph->blocks[infer->op->attrs[i].block];
        block->view.dead = block->tried = false;
    }
}

/* Returns the error of an operator if all of its blocks have failed: the error of the last one. */
static tn_status infer_check_alive(tn_infer *infer) {
    uint32_t blocks = 0, dead = 0;
    for (uint32_t i = 0; i < infer->op->attr_count; i++) {
        if (infer->op->attrs[i].type != TN_ATTR_BLOCK) continue;
        blocks++;
        dead += infer->graph->blocks[infer->op->attrs[i].block].view.dead;
    }
    if (!blocks || dead < blocks) return TN_OK;
    if (infer->error) *infer->error = infer->state->caught;
    return TN_E_INVALID;
}

/* Starts one round of a control-flow operator: pushes its blocks on the stack so that the first one
 * is on top. */
static tn_status infer_enter(tn_infer *infer, const tn_op_rule *rule, uint32_t round,
                             uint32_t catcher, bool *again) {
    const tn_op *op = infer->op;
    tn_graph *graph = infer->graph;
    /* an operator without a rule runs its blocks once, with the formal inputs that the file
     * states */
    *again = !round;
    if (!round) infer_reset_blocks(infer);
    TN_TRY(infer_check_alive(infer));
    if (rule) {
        if (!round) TN_TRY(infer_check_arity(infer, rule));
        TN_TRY(rule->enter(infer, round, again));
    }
    for (uint32_t i = op->attr_count; *again && i-- > 0;) {
        if (op->attrs[i].type != TN_ATTR_BLOCK) continue;
        const tn_block *view = &graph->blocks[op->attrs[i].block].view;
        for (uint32_t j = 0; j < view->input_count; j++) {
            TN_TRY(settle_merge(infer, view->inputs[j]));
            TN_TRY(tn__settle_size(graph, view->inputs[j], infer->error));
        }
        TN_TRY(infer_push(infer, op->attrs[i].block, catcher));
    }
    return TN_OK;
}

/* The limit of inference steps. A nest of loops may be walked repeatedly until the carried values
 * settle. Models need two or three walks; the limit stops a malicious nest. */
static uint64_t infer_step_limit(const tn_graph *graph) {
    return 100000 + 64 * ((uint64_t)graph->op_count + graph->block_count);
}

/* Takes the next step: infers one operator, starts one round of blocks, or ends a block. */
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
    if (enters || tn__op_has_blocks(infer->op)) {
        bool again;
        uint32_t round = frame->round++;
        TN_TRY(infer_enter(infer, enters ? rule : NULL, round, frame->catcher, &again));
        if (again) return TN_OK; /* the operator is visited again when the blocks are done */
    }
    TN_TRY(infer_op(infer));
    state->frames[depth].next++;
    state->frames[depth].round = 0;
    return TN_OK;
}

/* Handles an error in a branch that may fail: the branch is left as it is and counts as dead. If
 * the branch was tried because its condition is unknown, it could not run with these shapes, so the
 * other branch is taken. Returns false for other errors: memory is full, a feature is not
 * supported, or no branch around may fail. */
static bool infer_catch(tn_infer *infer, tn_status status) {
    struct infer_state *state = infer->state;
    uint32_t catcher = state->frames[state->frame_count - 1].catcher;
    if (status == TN_E_NO_MEMORY || status == TN_E_UNSUPPORTED || catcher == TN_NONE) return false;
    state->frame_count = catcher; /* drops the block's frame and all frames inside the block */
    (void)tn__op_where(infer->graph, infer->id, &state->caught, status);
    infer->graph->blocks[state->frames[catcher].block].view.dead = true;
    return true;
}

static tn_status infer_walk(tn_infer *infer, tn_error *error) {
    struct infer_state *state = infer->state;
    TN_TRY(infer_push(infer, 0, TN_NONE));
    while (state->frame_count) {
        bool caught = state->frames[state->frame_count - 1].catcher != TN_NONE;
        infer->error = caught ? &state->caught : error;
        tn_status status = infer_step(infer);
        state->scratch_used = 0;
        if (state->overflowed) {
            tn__arena_release(&state->overflow);
            tn__arena_init(&state->overflow, &infer->graph->context);
            state->overflowed = false;
        }
        if (status == TN_OK || infer_catch(infer, status)) continue;
        /* the error was not caught: memory is full, a feature is not supported, or the operator is
         * in no branch that may fail */
        if (caught && error) *error = state->caught;
        return tn__op_where(infer->graph, infer->id, error, status);
    }
    return TN_OK;
}

/* --- tn_graph_infer: passes over the graph until nothing changes --- */

static tn_block_id infer_dead_around(const tn_graph *graph, tn_block_id block) {
    while (block && !graph->blocks[block].view.dead) block = tn__block_parent(graph, block);
    return block;
}

/* Logs the branches that are left out because they failed; then marks all blocks inside dead
 * branches as dead. */
static void infer_spread_dead(tn_graph *graph) {
    char line[200];
    for (tn_block_id block = 1; block < graph->block_count && graph->context.log; block++) {
        const tn_block *view = &graph->blocks[block].view;
        if (!graph->blocks[block].tried || !view->dead ||
            infer_dead_around(graph, graph->ops[view->owner].block))
            continue;
        snprintf(line, sizeof line, "a branch of %.60s '%.80s' does not fit these shapes: left out",
                 graph->ops[view->owner].type, graph->ops[view->owner].name);
        graph->context.log(graph->context.self, line);
    }
    for (tn_block_id block = 1; block < graph->block_count; block++)
        if (infer_dead_around(graph, block)) graph->blocks[block].view.dead = true;
}

/* Restores the facts given by the builder, then computes the sizes of tensors without producers. */
static tn_status infer_start(tn_graph *graph, tn_error *error) {
    static const int64_t no_ints[1];
    static const double no_floats[1];
    static const tn_value empty_ints = {0, no_ints, NULL}, empty_floats = {0, NULL, no_floats};
    tn__arena_release(&graph->found);
    tn__arena_init(&graph->found, &graph->context);
    for (tn_block_id block = 0; block < graph->block_count; block++)
        graph->blocks[block].view.dead = false;
    for (uint32_t id = 0; id < graph->tensor_count; id++) {
        tn_tensor *tensor = &graph->tensors[id];
        infer_reset(graph, id);
        if (tensor->producer != TN_NONE) continue;
        tn_status status = tn__settle_size(graph, id, error);
        if (status != TN_OK)
            return tn__where(error, status, "%s '%.100s'", tn_kind_name(tensor->kind),
                             tensor->name);
        if (tensor->flags & TN_TENSOR_BOUND) TN_TRY(tn__loosen(graph, id, NULL, error));
        if (tn_tensor_is_constant(tensor) && !tensor->value && tn__elements(tensor) == 0)
            tensor->value = tn__is_integer(tensor->dtype) ? &empty_ints : &empty_floats;
    }
    return TN_OK;
}

static tn_status infer_all(tn_graph *graph, tn__rebatch *rebatch, tn_error *error) {
    TN_TRY(infer_start(graph, error));
    struct infer_state state = {.steps_left = infer_step_limit(graph), .rebatch = rebatch};
    tn_infer infer = {.graph = graph, .error = error, .state = &state};
    tn__arena_init(&state.overflow, &graph->context);
    state.scratch = tn__alloc(&graph->context, TN__SCRATCH_SIZE);
    tn_status status =
        state.scratch ? infer_walk(&infer, error) : tn__no_memory(error, "shape inference");
    tn__free(&graph->context, state.scratch, TN__SCRATCH_SIZE);
    tn__free(&graph->context, state.frames, state.frame_room * sizeof *state.frames);
    tn__arena_release(&state.overflow);
    return status;
}

static tn_status explain_unknown(const tn_graph *graph, tn_error *error);

/* Forgets values if their last bits may differ from those that a kernel computes. The operators
 * that computed them stay folded, so the engine computes the data. */
static void infer_forget_rough(tn_graph *graph) {
    for (tn_tensor_id id = 0; id < graph->tensor_count; id++)
        if (graph->origins[id].rough) graph->tensors[id].value = NULL;
}

static tn_status infer_end(tn_graph *graph, tn_error *error) {
    infer_spread_dead(graph);
    infer_forget_rough(graph);
    return explain_unknown(graph, error);
}

tn_status tn_graph_infer(tn_graph *graph, tn_error *error) {
    TN_TRY(tn__graph_order(graph, error));
    TN_TRY(infer_all(graph, NULL, error));
    return infer_end(graph, error);
}

tn_status tn__graph_infer_rebatched(tn_graph *graph, tn__rebatch *rebatch, tn_error *error) {
    /* each pass makes at least one permanent change; models need few passes */
    enum { TIMES_MOST = 1000 };
    size_t tensors = tn_graph_tensor_count(rebatch->reference), ops = graph->op_count;
    bool *notes = tn__alloc_array(&graph->context, tensors + ops + 1, sizeof *notes);
    if (notes == NULL) return tn__no_memory(error, "another batch");
    memset(notes, 0, tensors + ops + 1);
    rebatch->inner = notes;
    rebatch->inward = notes + tensors;
    rebatch->tensors = (uint32_t)tensors;
    tn_status status = tn__graph_order(graph, error);
    for (uint32_t times = 0; status == TN_OK && times < TIMES_MOST; times++) {
        rebatch->again = false;
        memset(rebatch->inner, 0, tensors);
        status = infer_all(graph, rebatch, error);
        if (!rebatch->again || status == TN_E_NO_MEMORY) break;
        status = TN_OK;
    }
    tn__free(&graph->context, notes, (tensors + ops + 1) * sizeof *notes);
    if (status == TN_OK && rebatch->again)
        status = tn__fail(error, TN_E_INVALID, "its batch could not be followed");
    return status == TN_OK ? infer_end(graph, error) : status;
}

/* --- merging the results of a rule with the shapes that the file states ----------------------- */

/* Makes a rule's decision final: merges the file's statements and computes the size.
 *
 * An exact extent of a rule must equal the file's statement, or the error names both, unless rules
 * win (tn__graph_rules_win); unknown extents and upper bounds are replaced by the file's. Cost:
 * O(rank).
 */

/* Writes a shape such as "[1,?,224]" into `text`; a longer text is cut off. */
static const char *shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t i = 0; i < rank && used < size; i++) {
        const char *comma = i ? "," : "";
        int more = shape[i] == TN_DIM_UNKNOWN
                       ? snprintf(text + used, size - used, "%s?", comma)
                       : snprintf(text + used, size - used, "%s%lld", comma, (long long)shape[i]);
        used += (size_t)more;
    }
    if (used < size) snprintf(text + used, size - used, "]");
    return text;
}

static tn_status settle_contradiction(tn_infer *infer, const tn_tensor *tensor,
                                      tn__origin *origin) {
    char found[100], stated[100], line[400];
    if (infer->graph->rules_win && tensor->block == 0) {
        const tn_context *context = &infer->graph->context;
        snprintf(line, sizeof line,
                 "tensor '%.80s' has shape %s by the rule of %.40s; the file states %s, which is "
                 "ignored",
                 tensor->name, shape_text(tensor->rank, tensor->shape, found, sizeof found),
                 infer->op->type, shape_text(origin->rank, origin->shape, stated, sizeof stated));
        if (context->log) context->log(context->self, line);
        origin->rank = TN_RANK_UNKNOWN;
        origin->shape = NULL;
        return TN_OK;
    }
    return tn__infer_fail(
        infer,
        "tensor '%.80s' has shape %s by the rule of %.40s, but the file states "
        "%s; correct the one that is wrong",
        tensor->name, shape_text(tensor->rank, tensor->shape, found, sizeof found), infer->op->type,
        shape_text(origin->rank, origin->shape, stated, sizeof stated));
}

/* Extents: an exact extent of the rule must equal the file's; unknown ones and bounds are replaced
 * by the file's, and are exact then, unless the file's extent is itself a bound. */
static tn_status settle_extents(tn_infer *infer, tn_tensor_id id) {
    tn_tensor *tensor = &infer->graph->tensors[id];
    tn__origin *origin = &infer->graph->origins[id];
    const int64_t *low = tn__is_loose(infer->graph, id) ? origin->loose->low : tensor->shape;
    bool changed = false, stated_bound = origin->flags & TN_TENSOR_BOUND;
    int64_t merged[TN_RANK_MAX], least[TN_RANK_MAX];
    for (uint32_t d = 0; d < tensor->rank; d++) {
        int64_t own = tensor->shape[d], stated = origin->shape[d];
        bool open = own == TN_DIM_UNKNOWN || low[d] != own;
        if (stated != TN_DIM_UNKNOWN && stated != own && !open)
            return settle_contradiction(infer, tensor, origin);
        bool takes = stated != TN_DIM_UNKNOWN && open;
        changed |= takes;
        merged[d] = takes ? stated : own;
        least[d] = takes ? (stated_bound ? 0 : stated) : low[d];
    }
    if (!changed) return TN_OK;
    int64_t *copy = tn__arena_array(&infer->graph->found, tensor->rank, sizeof *copy);
    if (!copy) return tn__infer_no_memory(infer);
    memcpy(copy, merged, tensor->rank * sizeof *copy);
    tensor->shape = copy;
    return tn__loosen(infer->graph, id, least, infer->error);
}

/* Merges the inferred facts of a tensor with the file's statements. */
static tn_status settle_merge(tn_infer *infer, tn_tensor_id id) {
    tn_tensor *tensor = &infer->graph->tensors[id];
    tn__origin *origin = &infer->graph->origins[id];
    if (tensor->dtype == TN_UNDEFINED) tensor->dtype = origin->dtype;
    if (origin->dtype != TN_UNDEFINED && tensor->dtype != origin->dtype)
        return tn__infer_fail(
            infer,
            "tensor '%.80s' has type %s by the rule of %.40s, but the file states "
            "%s; correct the one that is wrong",
            tensor->name, tn_dtype_name(tensor->dtype), infer->op->type,
            tn_dtype_name(origin->dtype));
    if (origin->rank == TN_RANK_UNKNOWN) return TN_OK;
    if (tensor->rank == TN_RANK_UNKNOWN) {
        tensor->rank = origin->rank;
        tensor->shape = origin->shape;
        tensor->flags |= TN_TENSOR_STATED;
        return tn__loosen(infer->graph, id, origin->flags & TN_TENSOR_BOUND ? NULL : origin->shape,
                          infer->error);
    }
    if (tensor->rank != origin->rank) return settle_contradiction(infer, tensor, origin);
    return settle_extents(infer, id);
}

tn_status tn__settle_size(tn_graph *graph, tn_tensor_id id, tn_error *error) {
    tn_tensor *tensor = &graph->tensors[id];
    uint64_t bytes;
    tensor->bytes = tensor->repeat == 0 ? 0 : TN_SIZE_UNKNOWN; /* an empty sequence has no bytes */
    if (tensor->repeat == 0 || tensor->repeat == TN_SIZE_UNKNOWN) return TN_OK;
    for (uint32_t i = 0; i < tensor->rank && tensor->rank != TN_RANK_UNKNOWN; i++)
        /* an extent is unknown, so the size is too, and tn_tensor_size is not called */
        if (tensor->shape[i] == TN_DIM_UNKNOWN) return TN_OK;
    tn_error detail;
    tn_status status =
        tn_tensor_size(tensor->dtype, tensor->format, tensor->rank, tensor->shape, &bytes, &detail);
    if (status == TN_E_UNKNOWN) return TN_OK;
    if (status != TN_OK)
        TN_FAIL(error, status, "the size of tensor '%.80s' cannot be represented: %.200s",
                tensor->name, detail.message);
    if (!tn__mul(bytes, tensor->repeat, &tensor->bytes) || tensor->bytes == TN_SIZE_UNKNOWN) {
        tensor->bytes = TN_SIZE_UNKNOWN;
        TN_FAIL(error, TN_E_INVALID, "the size of sequence '%.80s' overflows 64 bits",
                tensor->name);
    }
    return TN_OK;
}

void tn__graph_rules_win(tn_graph *graph) { graph->rules_win = true; }

/* --- the cause of an unknown size ------------------------------------------------------------- */

/* After inference: finds an unknown size, and the input or operator that causes it.
 *
 * It names an input without a size, else the first operator in order with a result of unknown size
 * and known inputs, because later unknown sizes only follow from that.
 * Cost: O(operands).
 */

static bool explain_needs_size(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = &graph->tensors[id];
    return tensor->bytes == TN_SIZE_UNKNOWN && !tn_tensor_is_static(tensor) &&
           !graph->blocks[tensor->block].view.dead;
}

static tn_status explain_source(const tn_graph *graph, tn_tensor_id id, tn_error *error) {
    const tn_tensor *tensor = &graph->tensors[id];
    char shape[100] = "of unknown rank";
    if (tensor->rank != TN_RANK_UNKNOWN)
        shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    tn_status status =
        tensor->flags & TN_TENSOR_SEQUENCE || !tn_dtype_bits(tensor->dtype)
            ? tn__fail(error, TN_E_UNKNOWN,
                       "the size of %s '%.80s' cannot be known: it is a sequence, or its elements "
                       "(%s) have no fixed size; plan the part of the model after it",
                       tn_kind_name(tensor->kind), tensor->name, tn_dtype_name(tensor->dtype))
            : tn__fail(error, TN_E_UNKNOWN,
                       "the size of %s '%.80s' is not known: its shape is %s; give its dimensions "
                       "values",
                       tn_kind_name(tensor->kind), tensor->name, shape);
    return tn__where(error, status, "%s '%.100s'", tn_kind_name(tensor->kind), tensor->name);
}

/* --- the graph input on which an unknown size depends --- */

#define EXPLAIN_FEW 16u /* most elements of a tensor that counts as small: extents, a count */
/* most operators that are visited in the search for the input that a size depends on */
#define EXPLAIN_STEPS 64u

/* Whether a tensor is a graph input of a few integers (or a condition) with unknown values. */
static bool explain_is_number(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = &graph->tensors[id];
    uint64_t count = 1;
    bool whole = tensor->dtype == TN_INT64 || tensor->dtype == TN_INT32 || tensor->dtype == TN_BOOL;
    if (tensor->producer != TN_NONE || tensor->kind != TN_KIND_INPUT || tensor->value != NULL)
        return false;
    if (!whole || tensor->rank == TN_RANK_UNKNOWN || tensor->rank > 1) return false;
    if (tensor->rank == 1) count = (uint64_t)tensor->shape[0];
    return tensor->bytes != TN_SIZE_UNKNOWN && count <= EXPLAIN_FEW;
}

/* Finds a graph input with unknown values that the operator's result depends on. The search goes
 * backwards from the operands, nearest first; TN_NONE: no such input. */
static tn_tensor_id explain_number(const tn_graph *graph, tn_op_id op) {
    tn_op_id queue[EXPLAIN_STEPS] = {op};
    uint32_t count = 1;
    for (uint32_t at = 0; at < count; at++) {
        const tn_op *it = &graph->ops[queue[at]];
        for (uint32_t i = 0; i < it->input_count; i++) {
            tn_tensor_id id = it->inputs[i];
            if (id == TN_NONE) continue;
            if (explain_is_number(graph, id)) return id;
            tn_op_id producer = graph->tensors[id].producer;
            bool known = producer == TN_NONE || count == EXPLAIN_STEPS;
            for (uint32_t k = 0; k < count && !known; k++) known = queue[k] == producer;
            if (!known) queue[count++] = producer;
        }
    }
    return TN_NONE;
}

static tn_status explain_output(const tn_graph *graph, tn_op_id op, tn_tensor_id id,
                                tn_error *error) {
    const tn_tensor *tensor = &graph->tensors[id];
    const char *type = graph->ops[op].type, *domain = graph->ops[op].domain;
    const char *dot = *domain ? "." : "";
    char shape[80] = "no shape";
    tn_status status = TN_E_UNKNOWN;
    if (tensor->rank != TN_RANK_UNKNOWN)
        shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    if (tensor->dtype != TN_UNDEFINED && !tn_dtype_bits(tensor->dtype))
        tn__fail(error, status,
                 "the size of tensor '%.80s' cannot be known: elements of type %s have no fixed "
                 "size; plan the part of the model after it",
                 tensor->name, tn_dtype_name(tensor->dtype));
    else if (tensor->flags & TN_TENSOR_SEQUENCE)
        tn__fail(
            error, status,
            "the size of sequence '%.80s' cannot be known: %s elements of %s; plan the part of "
            "the model after it",
            tensor->name, tensor->repeat == TN_SIZE_UNKNOWN ? "an unknown number of" : "its",
            shape);
    else if (!graph->rules[op] || !graph->rules[op]->shape)
        tn__fail(error, status,
                 "the size of tensor '%.80s' cannot be known: there is no rule for operator "
                 "%.40s%s%.40s, and the file states %s of type %s for it; state both in the file "
                 "(value_info)",
                 tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype));
    else if (explain_number(graph, op) != TN_NONE)
        tn__fail(error, status,
                 "the size of tensor '%.80s' is not known: operator %.40s%s%.40s gives %s of type "
                 "%s, as it depends on data; give input '%.80s' a value (`values` %.80s=N), or "
                 "state the shape in the file (value_info)",
                 tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype),
                 graph->tensors[explain_number(graph, op)].name,
                 graph->tensors[explain_number(graph, op)].name);
    else
        tn__fail(
            error, status,
            "the size of tensor '%.80s' cannot be known: operator %.40s%s%.40s gives %s of type "
            "%s, as it depends on data, and the file states no more; state the shape in the "
            "file (value_info)",
            tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype));
    return tn__op_where(graph, op, error, status);
}

/* Reports one cause of unknown sizes: a tensor of the model without a known size that no operator
 * computes; otherwise the first operator in order with an unknown result, preferably one with
 * inputs that are all known; otherwise a formal input of a block. */
static tn_status explain_unknown(const tn_graph *graph, tn_error *error) {
    tn_op_id first = TN_NONE;
    tn_tensor_id which = TN_NONE;
    for (uint32_t id = 0; id < graph->tensor_count; id++)
        if (graph->tensors[id].producer == TN_NONE && !graph->origins[id].formal &&
            explain_needs_size(graph, id) && graph->tensors[id].kind != TN_KIND_ACTIVATION &&
            graph->tensors[id].kind != TN_KIND_OUTPUT)
            return explain_source(graph, id, error);
    for (tn_block_id block = 0; block < graph->block_count; block++) {
        const tn_block *view = &graph->blocks[block].view;
        for (uint32_t i = 0; i < view->op_count; i++) {
            const tn_op *op = &graph->ops[view->ops[i]];
            tn_tensor_id unknown = TN_NONE;
            for (uint32_t j = op->output_count; j-- > 0;)
                if (op->outputs[j] != TN_NONE && explain_needs_size(graph, op->outputs[j]))
                    unknown = op->outputs[j];
            if (unknown == TN_NONE) continue;
            bool root = true;
            for (uint32_t j = 0; j < op->input_count && root; j++)
                root = op->inputs[j] == TN_NONE ||
                       graph->tensors[op->inputs[j]].bytes != TN_SIZE_UNKNOWN;
            if (root) return explain_output(graph, view->ops[i], unknown, error);
            if (first == TN_NONE) first = view->ops[i], which = unknown;
        }
    }
    if (first != TN_NONE) return explain_output(graph, first, which, error);
    for (uint32_t id = 0; id < graph->tensor_count; id++)
        if (graph->origins[id].formal && explain_needs_size(graph, id))
            return explain_output(graph, graph->blocks[graph->tensors[id].block].view.owner, id,
                                  error);
    return TN_OK;
}
