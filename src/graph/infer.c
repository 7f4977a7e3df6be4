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

#include "graph/store.h"

struct infer_frame {
    tn_block_id block;
    uint32_t next;    /* index of the operator to infer */
    uint32_t round;   /* of the control-flow operator at `next` */
    bool lenient;     /* inside a dead branch */
    bool dead_branch; /* the dead branch itself: where an error stops */
};

/* --- merging ---------------------------------------------------------------------------------- */

static const char *infer_shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size) {
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

static tn_status infer_contradiction(tn_infer *infer, const tn_tensor *tensor,
                                     const tn__origin *origin) {
    char found[100], stated[100];
    return tn__infer_fail(
        infer,
        "tensor '%.80s' has shape %s by the rule of %.40s, but the file states "
        "%s; correct the one that is wrong",
        tensor->name, infer_shape_text(tensor->rank, tensor->shape, found, sizeof found),
        infer->op->type, infer_shape_text(origin->rank, origin->shape, stated, sizeof stated));
}

/* Extents: an exact extent of the rule must be what the file states; unknown ones and bounds give
 * way to it. */
static tn_status infer_merge_extents(tn_infer *infer, tn_tensor *tensor, const tn__origin *origin) {
    bool bound = (tensor->flags & TN_TENSOR_BOUND) != 0, all_stated = true, changed = false;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int64_t own = tensor->shape[i], stated = origin->shape[i];
        if (stated == TN_DIM_UNKNOWN) {
            all_stated = false;
        } else if (own != stated) {
            if (own != TN_DIM_UNKNOWN && !bound) return infer_contradiction(infer, tensor, origin);
            changed = true;
        }
    }
    if (bound && all_stated) tensor->flags &= ~(uint32_t)TN_TENSOR_BOUND;
    if (!changed) return TN_OK;
    if (all_stated) {
        tensor->shape = origin->shape;
        return TN_OK;
    }
    int64_t *merged = tn__arena_array(&infer->graph->found, tensor->rank, sizeof *merged);
    if (!merged) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < tensor->rank; i++)
        merged[i] = origin->shape[i] != TN_DIM_UNKNOWN ? origin->shape[i] : tensor->shape[i];
    tensor->shape = merged;
    return TN_OK;
}

static tn_status infer_merge(tn_infer *infer, tn_tensor_id id) {
    tn_tensor *tensor = &infer->graph->tensors[id];
    const tn__origin *origin = &infer->graph->origins[id];
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
        return TN_OK;
    }
    if (tensor->rank != origin->rank) return infer_contradiction(infer, tensor, origin);
    return infer_merge_extents(infer, tensor, origin);
}

/* --- sizes ------------------------------------------------------------------------------------ */

static tn_status infer_size(tn_graph *graph, tn_tensor_id id, tn_error *error) {
    tn_tensor *tensor = &graph->tensors[id];
    uint64_t bytes;
    tensor->bytes = tensor->repeat == 0 ? 0 : TN_SIZE_UNKNOWN; /* an empty sequence */
    if (tensor->repeat == 0 || tensor->repeat == TN_SIZE_UNKNOWN) return TN_OK;
    for (uint32_t i = 0; i < tensor->rank && tensor->rank != TN_RANK_UNKNOWN; i++)
        if (tensor->shape[i] == TN_DIM_UNKNOWN) return TN_OK; /* the common case, without words */
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

static bool infer_is_static(const tn_tensor *tensor) {
    return tensor->kind == TN_KIND_PARAMETER || tensor->kind == TN_KIND_CONSTANT ||
           (tensor->flags & TN_TENSOR_FOLDED);
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
        if (!infer_is_static(&infer->graph->tensors[op->inputs[i]])) return false;
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
        TN_TRY(infer_merge(infer, op->outputs[i]));
        if (!tensor->rank && !(tensor->flags & TN_TENSOR_SEQUENCE))
            tensor->flags &= ~(uint32_t)TN_TENSOR_BOUND; /* a scalar is what it is */
        TN_TRY(infer_size(graph, op->outputs[i], infer->error));
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
            TN_TRY(infer_merge(infer, view->inputs[j]));
            TN_TRY(infer_size(graph, view->inputs[j], infer->error));
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
        if (lenient && error) *error = ignored; /* out of memory */
        return tn__op_where(infer->graph, infer->id, error, status);
    }
    return TN_OK;
}

/* --- the end: is everything known? -------------------------------------------------------------
 */

static bool infer_needs_size(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = &graph->tensors[id];
    return tensor->bytes == TN_SIZE_UNKNOWN && !infer_is_static(tensor) &&
           !graph->blocks[tensor->block].view.dead;
}

static tn_status infer_fail_source(const tn_graph *graph, tn_tensor_id id, tn_error *error) {
    const tn_tensor *tensor = &graph->tensors[id];
    char shape[100] = "of unknown rank";
    if (tensor->rank != TN_RANK_UNKNOWN)
        infer_shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    tn_status status =
        tensor->flags & TN_TENSOR_SEQUENCE || !tn_dtype_bits(tensor->dtype)
            ? tn__fail(error, TN_E_UNKNOWN,
                       "the size of %s '%.80s' cannot be known: it is a sequence, or its elements "
                       "(%s) have no fixed size; plan the part of the model behind it",
                       tn_kind_name(tensor->kind), tensor->name, tn_dtype_name(tensor->dtype))
            : tn__fail(error, TN_E_UNKNOWN,
                       "the size of %s '%.80s' is not known: its shape is %s; give its dimensions "
                       "values",
                       tn_kind_name(tensor->kind), tensor->name, shape);
    return tn__where(error, status, "%s '%.100s'", tn_kind_name(tensor->kind), tensor->name);
}

static tn_status infer_fail_output(const tn_graph *graph, tn_op_id op, tn_tensor_id id,
                                   tn_error *error) {
    const tn_tensor *tensor = &graph->tensors[id];
    const char *type = graph->ops[op].type, *domain = graph->ops[op].domain;
    const char *dot = *domain ? "." : "";
    char shape[80] = "no shape";
    tn_status status = TN_E_UNKNOWN;
    if (tensor->rank != TN_RANK_UNKNOWN)
        infer_shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    if (tensor->dtype != TN_UNDEFINED && !tn_dtype_bits(tensor->dtype))
        tn__fail(error, status,
                 "the size of tensor '%.80s' cannot be known: elements of type %s have no fixed "
                 "size; plan the part of the model behind it",
                 tensor->name, tn_dtype_name(tensor->dtype));
    else if (tensor->flags & TN_TENSOR_SEQUENCE)
        tn__fail(
            error, status,
            "the size of sequence '%.80s' cannot be known: %s elements of %s; plan the part of "
            "the model behind it",
            tensor->name, tensor->repeat == TN_SIZE_UNKNOWN ? "an unknown number of" : "its",
            shape);
    else if (!graph->rules[op])
        tn__fail(error, status,
                 "the size of tensor '%.80s' cannot be known: there is no rule for operator "
                 "%.40s%s%.40s, and the file states %s of type %s for it; state both in the file "
                 "(value_info)",
                 tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype));
    else
        tn__fail(
            error, status,
            "the size of tensor '%.80s' cannot be known: operator %.40s%s%.40s gives %s of type "
            "%s, as it depends on data, and the file states no more; state the shape in the "
            "file (value_info)",
            tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype));
    return tn__op_where(graph, op, error, status);
}

/* The first operator in order with an unknown result, preferably one whose inputs are known. */
static tn_status infer_check_known(const tn_graph *graph, tn_error *error) {
    tn_op_id first = TN_NONE;
    tn_tensor_id which = TN_NONE;
    for (uint32_t id = 0; id < graph->tensor_count; id++)
        if (graph->tensors[id].producer == TN_NONE && !graph->origins[id].formal &&
            infer_needs_size(graph, id) && graph->tensors[id].kind != TN_KIND_ACTIVATION &&
            graph->tensors[id].kind != TN_KIND_OUTPUT)
            return infer_fail_source(graph, id, error);
    for (tn_block_id block = 0; block < graph->block_count; block++) {
        const tn_block *view = &graph->blocks[block].view;
        for (uint32_t i = 0; i < view->op_count; i++) {
            const tn_op *op = &graph->ops[view->ops[i]];
            tn_tensor_id unknown = TN_NONE;
            for (uint32_t j = op->output_count; j-- > 0;)
                if (op->outputs[j] != TN_NONE && infer_needs_size(graph, op->outputs[j]))
                    unknown = op->outputs[j];
            if (unknown == TN_NONE) continue;
            bool root = true;
            for (uint32_t j = 0; j < op->input_count && root; j++)
                root = op->inputs[j] == TN_NONE ||
                       graph->tensors[op->inputs[j]].bytes != TN_SIZE_UNKNOWN;
            if (root) return infer_fail_output(graph, view->ops[i], unknown, error);
            if (first == TN_NONE) first = view->ops[i], which = unknown;
        }
    }
    if (first != TN_NONE) return infer_fail_output(graph, first, which, error);
    for (uint32_t id = 0; id < graph->tensor_count; id++)
        if (graph->origins[id].formal && infer_needs_size(graph, id))
            return infer_fail_output(graph, graph->blocks[graph->tensors[id].block].view.owner, id,
                                     error);
    return TN_OK;
}

/* What lies inside a dead branch is dead as well. */
static void infer_spread_dead(tn_graph *graph) {
    for (tn_block_id block = 1; block < graph->block_count; block++) {
        tn_block_id at = block;
        while (at && !graph->blocks[at].view.dead) at = tn__block_parent(graph, at);
        if (at) graph->blocks[block].view.dead = true;
    }
}

/* --- the call -----------------------------------------------------------------------------------
 */

/* Back to what the builder said; then sizes of what no operator computes. */
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
        tn_status status = infer_size(graph, id, error);
        if (status != TN_OK)
            return tn__where(error, status, "%s '%.100s'", tn_kind_name(tensor->kind),
                             tensor->name);
        if (infer_is_static(tensor) && !tensor->value && tn__elements(tensor) == 0)
            tensor->value = tensor->dtype == TN_FLOAT32 || tensor->dtype == TN_FLOAT64 ||
                                    tensor->dtype == TN_FLOAT16 || tensor->dtype == TN_BFLOAT16
                                ? &empty_floats
                                : &empty_ints;
    }
    return TN_OK;
}

tn_status tn_graph_infer(tn_graph *graph, tn_error *error) {
    TN_TRY(tn__graph_order(graph, error));
    TN_TRY(infer_start(graph, error));
    struct infer_state state = {.steps_left = infer_step_limit(graph)};
    tn_infer infer = {.graph = graph, .error = error, .state = &state};
    tn__arena_init(&state.overflow, &graph->context);
    state.scratch = tn__alloc(&graph->context, TN__SCRATCH_SIZE);
    tn_status status =
        state.scratch ? infer_walk(&infer, error) : tn__no_memory(error, "shape inference");
    tn__free(&graph->context, state.scratch, TN__SCRATCH_SIZE);
    tn__free(&graph->context, state.frames, state.frame_room * sizeof *state.frames);
    tn__arena_release(&state.overflow);
    if (status != TN_OK) return status;
    infer_spread_dead(graph);
    return infer_check_known(graph, error);
}
