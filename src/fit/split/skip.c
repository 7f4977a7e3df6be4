/* skip.c - chooses a tensor to recompute for its late readers, and builds the graph with the copies
 * of operators.
 *
 * A skip connection is read soon after it is made and again much later. It is live in between, so
 * tiles for the operators in between do not help. Instead, the operators that make it may run a
 * second time directly before the late reader. Both ends are then ordinary sequences of operators,
 * which can run in tiles, and the skip connection never exists as a whole. It is a choice where
 * recomputation begins: a walk from the tensor to the front sums, place by place, the operations of
 * the copied operators and the bytes that must stay live for them.
 *
 * An operator is not recomputed if it writes into operands, is random or has blocks. If any
 * operator of the graph writes into its operands or must keep its order with others, nothing is
 * recomputed.
 *
 * Cost: O(tensors + operands) to choose, plus a walk to the front for each tensor that waits, which
 * ends at the operator that makes the first tensor that the copy needs. The graph with copies costs
 * O(tensors + operands), and its shapes are inferred again. Source: Chen et al., "Training deep
 * nets with sublinear memory cost" (2016), for the idea; here it is applied to inference, and to
 * tiles.
 */
#include "fit/split/skip.h"

#include <stdio.h>

#include "graph/rewrite/rewrite.h"
#include "graph/takes.h"

/* limit for the number of recomputed operators, because a region must contain them */
#define SKIP_LENGTH 60u
/* least number of operators during which a tensor waits, if it is to be recomputed; a shorter wait
 * fits into a region */
#define SKIP_GAP 8u

typedef struct skip_walk {
    const split_model *model;
    /* [tensors] equal to `turn` if a recomputed operator reads the tensor, or if it is the tensor
     * to recompute */
    uint32_t *wanted;
    uint32_t *taken; /* [places] equal to `turn` if the operator is recomputed */
    uint32_t turn;   /* number of the current walk to the front of the graph, from 1 */
    /* number of wanted tensors that are made at an earlier place than the one that the walk has
     * reached */
    uint32_t ahead;
    tn_tensor_id root;
    uint32_t before;
    uint64_t stays; /* bytes that would stay live only for the recomputation */
    uint64_t flops;
    uint32_t count;
} skip_walk;

static const tn_op *skip_op(const split_model *model, uint32_t place) {
    return tn_graph_op(model->order.graph, model->order.ops[place]);
}

/* --- the needs of a copy --- */

static uint64_t skip_stays(const skip_walk *walk, tn_tensor_id id) {
    const split_life *life = &walk->model->lives[walk->model->lives[id].root];
    if (life->first == TN_NONE) return 0;
    bool there = life->root != walk->root && life->last >= walk->before;
    return there ? 0 : life->bytes;
}

static void skip_want(skip_walk *walk, tn_tensor_id id) {
    const split_order *order = &walk->model->order;
    if (id == TN_NONE || walk->wanted[id] == walk->turn) return;
    const tn_tensor *tensor = tn_graph_tensor(order->graph, id);
    if (tn_tensor_is_static(tensor)) return;
    walk->wanted[id] = walk->turn;
    if (tensor->producer != TN_NONE && order->place[tensor->producer] != TN_NONE) walk->ahead++;
    walk->stays = tn__add_sat(walk->stays, skip_stays(walk, id));
}

static bool skip_wants(const skip_walk *walk, tn_tensor_id id) {
    return id != TN_NONE && walk->wanted[id] == walk->turn;
}

static bool skip_makes(const skip_walk *walk, const tn_op *op) {
    bool any = false;
    for (uint32_t k = 0; k < op->output_count; k++) any = any || skip_wants(walk, op->outputs[k]);
    return any;
}

static bool skip_may(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    const char *form = tn_op_form_of(graph, id, true).type;
    if (!tn_op_may_repeat(graph, id) || form == NULL || strcmp(form, op->type) != 0) return false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(graph, op->outputs[k]);
        if (!tn__shape_known(tensor) || tensor->repeat != 1 ||
            (tensor->flags & (TN_TENSOR_SEQUENCE | TN_TENSOR_BOUND)) != 0)
            return false;
    }
    return true;
}

/* Moves the walk one place to the front: an operator there that makes a wanted tensor is
 * recomputed, so its inputs are wanted. Returns false if the walk must end here. */
static bool skip_step(skip_walk *walk, uint32_t place) {
    const tn_op *op = skip_op(walk->model, place);
    if (!skip_makes(walk, op)) return true;
    if (!skip_may(walk->model->order.graph, walk->model->order.ops[place])) return false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (!skip_wants(walk, op->outputs[k])) continue;
        walk->stays -= skip_stays(walk, op->outputs[k]);
        walk->ahead--;
    }
    for (uint32_t i = 0; i < op->input_count; i++) skip_want(walk, op->inputs[i]);
    walk->taken[place] = walk->turn;
    walk->flops = tn__add_sat(walk->flops, walk->model->flops[place]);
    return ++walk->count <= SKIP_LENGTH;
}

static void skip_begin(skip_walk *walk, tn_tensor_id tensor, uint32_t before) {
    walk->turn++;
    walk->root = walk->model->lives[tensor].root;
    walk->before = before;
    walk->stays = walk->flops = walk->count = walk->ahead = 0;
    skip_want(walk, tensor);
}

static tn_status skip_open(const split_model *model, tn__arena *arena, skip_walk *walk,
                           tn_error *error) {
    size_t tensors = tn_graph_tensor_count(model->order.graph);
    *walk = (skip_walk){.model = model};
    walk->wanted = tn__arena_array(arena, tensors + 1, sizeof *walk->wanted);
    walk->taken = tn__arena_array(arena, (size_t)model->order.op_count + 1, sizeof *walk->taken);
    return walk->wanted != NULL && walk->taken != NULL ? TN_OK
                                                       : tn__no_memory(error, "a split graph");
}

/* --- choosing the tensor --- */

/* The longest wait of a tensor, in places: from its definition or a reader to its next reader. It
 * is empty if it is shorter than SKIP_GAP, or if the tensor's memory is used meanwhile. */
typedef struct skip_gap {
    uint32_t from, to;
} skip_gap;

static bool skip_is_made(const split_order *order, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(order->graph, id);
    return tensor->block == 0 && tensor->producer != TN_NONE && !tn_tensor_is_static(tensor) &&
           order->place[tensor->producer] != TN_NONE && order->last[id] != TN_NONE &&
           order->last[id] < order->op_count;
}

/* The last uses of the memory that several tensors share: the latest use of all, and the latest use
 * of any other tensor than this one. */
typedef struct skip_last {
    tn_tensor_id tensor; /* the tensor with the latest use; TN_NONE: no tensor uses the memory */
    uint32_t place, other;
    bool has_other;
} skip_last;

static void skip_use(skip_last *last, tn_tensor_id id, uint32_t place) {
    bool later = last->tensor == TN_NONE || place > last->place;
    uint32_t second = later ? last->place : place;
    if (last->tensor != TN_NONE && (!last->has_other || second > last->other)) {
        last->other = second;
        last->has_other = true;
    }
    if (later) *last = (skip_last){id, place, last->other, last->has_other};
}

/* Finds the last uses of the memory of each root. *lasts: [tensors], at the index of the root. */
static tn_status skip_lasts(const split_model *model, tn__arena *arena, skip_last **lasts,
                            tn_error *error) {
    const split_order *order = &model->order;
    uint32_t tensors = tn_graph_tensor_count(order->graph);
    skip_last *list = tn__arena_array(arena, (size_t)tensors + 1, sizeof *list);
    if (list == NULL) return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tensors; id++) list[id].tensor = TN_NONE;
    for (tn_tensor_id id = 0; id < tensors; id++)
        if (model->lives[id].first != TN_NONE && order->last[id] != TN_NONE)
            skip_use(&list[model->lives[id].root], id, order->last[id]);
    *lasts = list;
    return TN_OK;
}

/* Whether no other tensor uses the memory of a tensor while it waits. */
static bool skip_frees(const split_model *model, const skip_last *lasts, tn_tensor_id id,
                       uint32_t from) {
    const skip_last *last = &lasts[model->lives[id].root];
    if (last->tensor == TN_NONE) return true;
    if (last->tensor != id) return last->place <= from;
    return !last->has_other || last->other <= from;
}

static void skip_see(skip_gap *gaps, uint32_t *seen, tn_tensor_id id, uint32_t place) {
    if (place - seen[id] > gaps[id].to - gaps[id].from) gaps[id] = (skip_gap){seen[id], place};
    seen[id] = place;
}

static tn_status skip_gaps(const split_model *model, tn__arena *arena, skip_gap **gaps,
                           tn_error *error) {
    const split_order *order = &model->order;
    uint32_t tensors = tn_graph_tensor_count(order->graph);
    skip_gap *list = tn__arena_array(arena, (size_t)tensors + 1, sizeof *list);
    uint32_t *seen = tn__arena_array(arena, (size_t)tensors + 1, sizeof *seen);
    skip_last *lasts = NULL;
    if (list == NULL || seen == NULL) return tn__no_memory(error, "a split graph");
    TN_TRY(skip_lasts(model, arena, &lasts, error));
    for (uint32_t p = 0; p < order->op_count; p++) {
        const tn_op *op = skip_op(model, p);
        for (uint32_t i = 0; i < op->input_count; i++)
            if (op->inputs[i] != TN_NONE) skip_see(list, seen, op->inputs[i], p);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) seen[op->outputs[k]] = p;
    }
    for (tn_tensor_id id = 0; id < tensors; id++) {
        bool waits = list[id].to - list[id].from >= SKIP_GAP && skip_is_made(order, id);
        if (!waits || !skip_frees(model, lasts, id, list[id].from)) list[id] = (skip_gap){0, 0};
    }
    *gaps = list;
    return TN_OK;
}

/* Finds the place at which the tensors that wait have the most bytes. */
static tn_status skip_fullest(const split_model *model, const skip_gap *gaps, tn__arena *arena,
                              uint32_t *place, tn_error *error) {
    uint32_t places = model->order.op_count, tensors = tn_graph_tensor_count(model->order.graph);
    int64_t *change = tn__arena_array(arena, (size_t)places + 1, sizeof *change);
    int64_t now = 0, most = 0;
    if (change == NULL) return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tensors; id++) {
        if (gaps[id].to == 0) continue;
        int64_t bytes = (int64_t)model->lives[model->lives[id].root].bytes;
        change[gaps[id].from + 1] += bytes;
        change[gaps[id].to] -= bytes;
    }
    for (uint32_t p = 0; p < places; p++) {
        now += change[p];
        if (now <= most) continue;
        most = now;
        *place = p;
    }
    return TN_OK;
}

/* Returns the bytes saved per operation by recomputing a tensor, for the best begin of the
 * recomputation; 0 if it is not possible. */
static double skip_worth(skip_walk *walk, tn_tensor_id id, uint64_t least, split_skip *skip) {
    const split_model *model = walk->model;
    const tn_tensor *tensor = tn_graph_tensor(model->order.graph, id);
    uint64_t bytes = model->lives[walk->root].bytes;
    double best = 0;
    for (uint32_t p = model->order.place[tensor->producer] + 1; walk->ahead > 0 && p-- > 0;) {
        uint32_t before = walk->count;
        if (!skip_step(walk, p)) break;
        if (walk->count == before || walk->stays >= bytes || bytes - walk->stays < least) continue;
        /* the work includes writing the copy of the tensor to memory */
        double work = (double)tn__work_added(walk->flops, bytes, TN__PLAIN_RATIO);
        double worth = (double)(bytes - walk->stays) / work;
        if (worth <= best) continue;
        best = worth;
        *skip = (split_skip){id, p, walk->before, walk->flops};
    }
    return best;
}

static bool skip_has_effects(const split_order *order) {
    for (uint32_t p = 0; p < order->op_count; p++)
        if (tn_op_changes(order->graph, order->ops[p]) != 0 ||
            tn_op_is_ordered(order->graph, order->ops[p]))
            return true;
    return false;
}

tn_status tn__skip_choose(const split_model *model, uint32_t first, uint32_t last, uint64_t least,
                          split_skip *skip, bool *found, tn_error *error) {
    const split_order *order = &model->order;
    skip_gap *gaps = NULL;
    tn__arena arena;
    skip_walk walk;
    double best = 0;
    *found = false;
    if (skip_has_effects(order)) return TN_OK;
    tn__arena_init(&arena, tn_graph_context(order->graph));
    tn_status status = skip_open(model, &arena, &walk, error);
    if (status == TN_OK) status = skip_gaps(model, &arena, &gaps, error);
    if (status == TN_OK && first == TN_NONE)
        status = skip_fullest(model, gaps, &arena, &first, error), last = first;
    for (tn_tensor_id id = 0; status == TN_OK && id < tn_graph_tensor_count(order->graph); id++) {
        split_skip at;
        if (gaps[id].from >= last || gaps[id].to <= last) continue;
        bool inside = order->place[tn_graph_tensor(order->graph, id)->producer] >= first;
        /* the tensor is made before the range of places and read inside it, so it must be live
         * there */
        if (gaps[id].from >= first && !inside) continue;
        skip_begin(&walk, id, gaps[id].to);
        double worth = skip_worth(&walk, id, least, &at);
        if (worth <= best) continue;
        best = worth;
        *skip = at;
        *found = true;
    }
    tn__arena_release(&arena);
    return status;
}

/* --- building the graph --- */

typedef struct skip_copy {
    tn__draft *draft;
    tn_tensor_id *now; /* [tensors of the graph] the copy of the tensor; TN_NONE: no copy */
    tn_op_id before;
} skip_copy;

static tn_status skip_tensor(skip_copy *copy, tn_tensor_id id) {
    const tn_tensor like = *tn__draft_tensor_of(copy->draft, id);
    char name[200];
    snprintf(name, sizeof name, "%.150s/again", like.name);
    TN_TRY(
        tn__draft_add_tensor(copy->draft, name, like.dtype, like.rank, like.shape, &copy->now[id]));
    copy->draft->tensors[copy->now[id]].tensor.format = like.format;
    return TN_OK;
}

static tn_status skip_copy_op(skip_copy *copy, tn_op_id id, tn_op_id *made) {
    tn__draft *draft = copy->draft;
    tn_op op = *tn__draft_op_of(draft, id);
    size_t count = (size_t)op.input_count + op.output_count;
    tn_tensor_id *inputs = tn__arena_array(&draft->arena, count + 1, sizeof *inputs);
    tn_tensor_id *outputs = inputs != NULL ? inputs + op.input_count : NULL;
    char name[200], *text;
    snprintf(name, sizeof name, "%.150s/again", op.name);
    text = tn__arena_string(&draft->arena, name, strlen(name));
    if (inputs == NULL || text == NULL) return tn__no_memory(draft->error, "a split graph");
    for (uint32_t i = 0; i < op.input_count; i++) {
        inputs[i] = op.inputs[i];
        if (inputs[i] != TN_NONE && copy->now[inputs[i]] != TN_NONE)
            inputs[i] = copy->now[inputs[i]];
    }
    for (uint32_t k = 0; k < op.output_count; k++) {
        outputs[k] = TN_NONE;
        if (op.outputs[k] == TN_NONE) continue;
        TN_TRY(skip_tensor(copy, op.outputs[k]));
        outputs[k] = copy->now[op.outputs[k]];
    }
    op.inputs = inputs;
    op.outputs = outputs;
    TN_TRY(tn__draft_add_op(draft, copy->before, &op, made));
    draft->ops[*made].op.name = text;
    return TN_OK;
}

/* Makes all readers from this place on read the copies of the recomputed tensors. */
static void skip_turn(skip_copy *copy, const split_order *order, uint32_t before) {
    for (uint32_t p = before; p < order->op_count; p++) {
        const tn_op *op = tn__draft_op_of(copy->draft, order->ops[p]);
        for (uint32_t i = 0; i < op->input_count; i++)
            if (op->inputs[i] != TN_NONE && copy->now[op->inputs[i]] != TN_NONE)
                tn__draft_set(copy->draft, order->ops[p], i, copy->now[op->inputs[i]]);
    }
}

/* Adds the copies of operators to the draft. *from: [added operators] the operator of which each
 * one is a copy. */
static tn_status skip_fill(tn__draft *draft, const split_model *model, const split_skip *skip,
                           const skip_walk *walk, tn_op_id **from) {
    const split_order *order = &model->order;
    uint32_t tensors = tn_graph_tensor_count(draft->graph);
    skip_copy copy = {.draft = draft, .before = order->ops[skip->before]};
    copy.now = tn__arena_array(&draft->arena, (size_t)tensors + 1, sizeof *copy.now);
    *from = tn__arena_array(&draft->arena, (size_t)walk->count + 1, sizeof **from);
    if (copy.now == NULL || *from == NULL) return tn__no_memory(draft->error, "a split graph");
    for (uint32_t t = 0; t < tensors; t++) copy.now[t] = TN_NONE;
    for (uint32_t p = skip->from; p < skip->before; p++) {
        tn_op_id made;
        if (walk->taken[p] != walk->turn) continue;
        TN_TRY(skip_copy_op(&copy, order->ops[p], &made));
        (*from)[made - tn_graph_op_count(draft->graph)] = order->ops[p];
    }
    skip_turn(&copy, order, skip->before);
    return TN_OK;
}

static tn_status skip_sources(const tn__draft *draft, const tn_op_id *from, const tn_graph *made,
                              tn__arena *arena, tn_op_id **sources) {
    uint32_t whole = tn_graph_op_count(draft->graph);
    tn_op_id *list = tn__arena_array(arena, (size_t)tn_graph_op_count(made) + 1, sizeof **sources);
    if (list == NULL) return tn__no_memory(draft->error, "a split graph");
    for (tn_op_id id = 0; id < draft->op_count; id++)
        if (!draft->ops[id].gone) list[draft->ops[id].made] = id < whole ? id : from[id - whole];
    *sources = list;
    return TN_OK;
}

tn_status tn__skip_graph(const split_model *model, const split_skip *skip,
                         const tn_context *context, tn__arena *arena, tn_graph **made,
                         tn_op_id **sources, tn_error *error) {
    const tn_graph *graph = model->order.graph;
    tn__draft draft = {.graph = graph, .context = *context, .error = error};
    tn_op_id *from = NULL;
    tn_graph *copy = NULL;
    skip_walk walk;
    tn__arena_init(&draft.arena, &draft.context);
    tn_status status = tn__draft_begin(&draft);
    if (status == TN_OK) status = skip_open(model, &draft.arena, &walk, error);
    if (status == TN_OK) {
        skip_begin(&walk, skip->tensor, skip->before);
        for (uint32_t p = skip->before; p-- > skip->from;) (void)skip_step(&walk, p);
        status = skip_fill(&draft, model, skip, &walk, &from);
    }
    if (status == TN_OK) status = tn__draft_graph(&draft, &copy);
    if (status == TN_OK) status = skip_sources(&draft, from, copy, arena, sources);
    if (status == TN_OK)
        *made = copy;
    else
        tn_graph_destroy(copy);
    tn__draft_end(&draft);
    return status;
}

/* --- recomputed tensors that the caller chose --- */

static tn_status skip_check(const split_order *order, const tn_split_again *it, tn_error *error) {
    if (it->tensor >= tn_graph_tensor_count(order->graph) || it->from >= it->before ||
        it->before >= order->op_count)
        TN_FAIL(error, TN_E_INVALID,
                "tensor %u cannot be recomputed by operators [%u, %u): the graph has %u tensors "
                "and %u operators",
                it->tensor, it->from, it->before, tn_graph_tensor_count(order->graph),
                order->op_count);
    if (skip_has_effects(order))
        TN_FAIL(error, TN_E_INVALID, "operators with side effects are never recomputed");
    return TN_OK;
}

static tn_status skip_apply(const tn_graph *graph, const tn_split_again *it, tn_graph **made,
                            tn_error *error) {
    const tn_split_options options = TN_SPLIT_OPTIONS_INIT;
    const tn_context *context = tn_graph_context(graph);
    const split_skip skip = {.tensor = it->tensor, .from = it->from, .before = it->before};
    split_model model;
    tn_op_id *sources;
    tn__arena arena;
    tn__arena_init(&arena, context);
    tn_status status = tn__split_model(graph, &options, &arena, &model, error);
    if (status == TN_OK) status = skip_check(&model.order, it, error);
    if (status == TN_OK)
        status = tn__skip_graph(&model, &skip, context, &arena, made, &sources, error);
    tn__arena_release(&arena);
    return status;
}

tn_status tn_graph_split_again(const tn_graph *graph, const tn_split_again *skip, uint32_t count,
                               tn_graph **made, tn_error *error) {
    tn_graph *last = NULL;
    if (count == 0) TN_FAIL(error, TN_E_INVALID, "no tensor is named that is to be recomputed");
    for (uint32_t i = 0; i < count; i++) {
        tn_graph *next = NULL;
        tn_status status = skip_apply(last != NULL ? last : graph, &skip[i], &next, error);
        tn_graph_destroy(last);
        if (status != TN_OK) return status;
        last = next;
    }
    *made = last;
    return TN_OK;
}
