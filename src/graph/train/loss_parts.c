/* loss_parts.c - computes the last product of the model and the loss in parts, and runs each part's
 * backward pass before the next part begins.
 *
 *     h -- Split -- h/0 -- MatMul -- scores/0 -- CrossEntropy -- loss/0 --+
 *               `-- h/1 -- MatMul -- scores/1 -- CrossEntropy -- loss/1 --+-- loss
 *
 * A language model has tens of thousands of scores for each word, so the scores and their gradient
 * are most of the memory of a step. Here they exist only for one part of the words at a time. The
 * backward pass begins with one number that all parts know, so no part waits for another one.
 * Gradients that several parts give for a weight are summed as usual, and the sum is fused into the
 * product that computes them (rewrite: residual). The rules of operators (tn_op_rule.split) decide
 * the operators in the parts: from the scores back to the last product, as long as one operand is
 * data.
 * Cost: O(operators + parts x operators that are cut).
 */
#include <stdio.h>

#include "graph/tiles/split.h"
#include "graph/train/frame.h"

#define PARTS_CHAIN 16u       /* most operators between the product and the scores */
#define PARTS_MOST (1u << 12) /* limit of parts; a graph with more parts takes too long to plan */

typedef tn__part_cut parts_cut;

typedef struct parts_work {
    tn__train *it;
    /* the operators from the one that computes the scores back to the product */
    tn_op_id chain[PARTS_CHAIN];
    uint32_t chain_count;
    /* for each operator of `chain`: the index of its input that is divided */
    uint32_t data[PARTS_CHAIN];
    tn_tensor_id base;
    parts_cut cuts[2];
    uint32_t cut_count;
} parts_work;

/* --- finding the axes along which the scores can be divided --- */

static tn_status parts_fail(const tn__train *it, const char *why) {
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "a loss in parts (`loss_parts`): %s", why);
}

/* The number of operators that run and read a tensor. */
static uint32_t parts_readers(const tn__train *it, tn_tensor_id id) {
    uint32_t count = 0;
    for (tn_op_id op = 0; op < tn_graph_op_count(it->model); op++) {
        const tn_op *reader = tn_graph_op(it->model, op);
        for (uint32_t i = 0; i < reader->input_count && it->runs[op]; i++)
            count += reader->inputs[i] == id;
    }
    return count;
}

/* Whether an operator computes the same results from a part as from the whole tensor. */
static bool parts_may(const tn__train *it, tn_op_id id, uint32_t axis) {
    const tn_op *op = tn_graph_op(it->model, id);
    const tn_op_rule *rule = tn__rule_of(it->model, id);
    if (rule == NULL || op->block != 0 || op->output_count == 0) return false;
    for (uint32_t k = 1; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) return false;
    bool window = rule->part_form == TN__FORM_WINDOW && axis < 2;
    return tn__train_may_repeat(it, id) && (rule->part_form == TN__FORM_SAME || window);
}

/* Whether elements [first, last) of the result depend on as many elements of one operand, and on
 * all elements of the other operands. Finds that operand. */
static bool parts_need(const tn_graph *model, tn_op_id id, tn__tile part, uint32_t *data,
                       tn__need *need) {
    const tn_op *op = tn_graph_op(model, id);
    const tn__tile asked = part;
    *data = TN_NONE;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn__need one;
        if (op->inputs[i] == TN_NONE) continue;
        if (!tn__op_split(model, id, &part, i, &one)) return false;
        if (part.first != asked.first || part.last != asked.last) return false;
        if (one.axis == TN_NONE) continue;
        if (*data != TN_NONE || one.before != 0 || one.after != 0 || one.extra != 0) return false;
        *data = i;
        *need = one;
    }
    return *data != TN_NONE;
}

/* Follows an axis of the scores back to the input of the last product. */
static bool parts_follow(parts_work *state, uint32_t axis, parts_cut *cut) {
    const tn__train *it = state->it;
    tn_tensor_id at = it->scores;
    uint32_t along = axis, count = 0;
    for (;; count++) {
        const tn_tensor *tensor = tn_graph_tensor(it->model, at);
        uint32_t readers = parts_readers(it, at), data;
        tn__need need;
        if (tensor->producer == TN_NONE || count == PARTS_CHAIN) return false;
        if (readers > (at == it->scores ? 0u : 1u)) return false;
        tn__tile all = {along, 0, tensor->shape[along]}, half = {along, 0, 1};
        if (!parts_may(it, tensor->producer, along) ||
            !parts_need(it->model, tensor->producer, half, &data, &need) || need.first != 0 ||
            need.last != 1 || !parts_need(it->model, tensor->producer, all, &data, &need) ||
            need.last != all.last)
            return false;
        at = tn_graph_op(it->model, tensor->producer)->inputs[data];
        if (tn_tensor_is_static(tn_graph_tensor(it->model, at))) return false;
        state->chain[count] = tensor->producer;
        state->data[count] = data;
        along = need.axis;
        if (tn__op_has(it->model, tensor->producer, TN_RULE_CONV | TN_RULE_MATMUL)) break;
    }
    state->chain_count = count + 1;
    state->base = at;
    *cut = (parts_cut){.axis = axis, .base_axis = along};
    return true;
}

/* Cuts the first axis that can be cut into the requested number of parts; if it has fewer elements,
 * cuts the next axis as well. */
static tn_status parts_choose(parts_work *state) {
    tn__train *it = state->it;
    const tn_tensor *scores = tn_graph_tensor(it->model, it->scores);
    bool classes = it->options.loss == TN_LOSS_CROSS_ENTROPY;
    uint32_t left = it->options.loss_parts;
    uint32_t axis = classes ? tn_loss_axis(scores->rank, scores->shape) : TN_NONE;
    for (uint32_t d = 0; d < scores->rank && left > 1 && state->cut_count < 2; d++) {
        parts_cut *cut = &state->cuts[state->cut_count];
        if (d == axis || scores->shape[d] < 2 || !parts_follow(state, d, cut)) continue;
        cut->extent = scores->shape[d];
        cut->count = cut->extent < (int64_t)left ? (uint32_t)cut->extent : left;
        left = (left + cut->count - 1) / cut->count;
        state->cut_count++;
    }
    if (state->cut_count == 0)
        return parts_fail(it, "the scores are not made by a product that could be cut along the "
                              "samples");
    return TN_OK;
}

static tn_status parts_check(const tn__train *it) {
    const tn_tensor *scores = tn_graph_tensor(it->model, it->scores);
    const tn_tensor *shaped = tn_graph_tensor(it->model, it->shaped);
    if (it->options.loss == TN_LOSS_OUTPUT)
        return parts_fail(it, "the model's own output is the loss, and what it is made of is the "
                              "model's business");
    if (tn__train_is_whole(it) || it->cuts != NULL)
        return parts_fail(it, "not where ranks share the model");
    if (it->options.loss_parts > PARTS_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "a loss in at most %u parts, not %u", PARTS_MOST,
                it->options.loss_parts);
    bool same = tn__shape_known(scores) && scores->rank == shaped->rank;
    for (uint32_t d = 0; same && d < scores->rank; d++) same = scores->shape[d] == shaped->shape[d];
    if (!same) return parts_fail(it, "the scores change their shape behind a softmax");
    return TN_OK;
}

/* --- the model with its last product in parts --- */

static int64_t parts_begin(const parts_cut *cut, uint32_t part) {
    return cut->extent / cut->count * part + cut->extent % cut->count * part / cut->count;
}

static tn_status parts_tensor(tn__train *it, const char *name, uint32_t number, tn_tensor_id *id) {
    char text[200];
    snprintf(text, sizeof text, "%.180s/%u", name, number);
    tn_tensor_spec spec = {.name = text, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

/* Splits one tensor along one cut into its parts, numbered from `number` on. */
static tn_status parts_split(tn__train *it, const char *name, tn_tensor_id whole,
                             const parts_cut *cut, uint32_t axis, uint32_t number,
                             tn_tensor_id *made) {
    int64_t along = axis;
    int64_t *sizes = tn__arena_array(&it->arena, cut->count, sizeof *sizes);
    tn_tensor_id inputs[] = {whole, TN_NONE};
    if (sizes == NULL) return tn__no_memory(it->error, "a loss in parts");
    for (uint32_t p = 0; p < cut->count; p++) {
        sizes[p] = parts_begin(cut, p + 1) - parts_begin(cut, p);
        TN_TRY(parts_tensor(it, name, number + p, &made[p]));
    }
    TN_TRY(tn__graph_add_list(it->graph, sizes, cut->count, &inputs[1], it->error));
    const tn_attr attr = TN__ATTR_INT("axis", &along);
    tn_op_spec spec = {.name = name,
                       .type = "Split",
                       .version = 13,
                       .inputs = inputs,
                       .input_count = 2,
                       .outputs = made,
                       .output_count = cut->count,
                       .attrs = &attr,
                       .attr_count = 1};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

/* Splits a tensor along both cuts into all parts; the second cut is made within the parts of the
 * first. `axes` holds the axes of the tensor. */
static tn_status parts_divide(tn__train *it, const parts_cut *cuts, uint32_t cut_count,
                              const uint32_t *axes, const char *name, tn_tensor_id whole,
                              tn_tensor_id *made) {
    if (cut_count == 1) return parts_split(it, name, whole, &cuts[0], axes[0], 0, made);
    tn_tensor_id *first = tn__arena_array(&it->arena, cuts[0].count, sizeof *first);
    if (first == NULL) return tn__no_memory(it->error, "a loss in parts");
    TN_TRY(parts_split(it, name, whole, &cuts[0], axes[0], 0, first));
    for (uint32_t p = 0; p < cuts[0].count; p++)
        TN_TRY(parts_split(it, name, first[p], &cuts[1], axes[1], p * cuts[1].count,
                           made + (size_t)p * cuts[1].count));
    return TN_OK;
}

static tn_status parts_join(tn__train *it, const char *name, const tn_tensor_id *parts,
                            uint32_t count, uint32_t axis, tn_tensor_id whole) {
    int64_t along = axis;
    const tn_attr attr = TN__ATTR_INT("axis", &along);
    tn_op_spec spec = {.name = name,
                       .type = "Concat",
                       .version = 13,
                       .inputs = parts,
                       .input_count = count,
                       .outputs = &whole,
                       .output_count = 1,
                       .attrs = &attr,
                       .attr_count = 1};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

/* Joins the parts to the scores as the model has them, for readers of all scores, such as a kept
 * output. */
static tn_status parts_whole(parts_work *state, const tn_tensor_id *parts) {
    tn__train *it = state->it;
    const parts_cut *cuts = state->cuts;
    const char *name = tn_graph_tensor(it->model, it->scores)->name;
    if (state->cut_count == 1)
        return parts_join(it, name, parts, cuts[0].count, cuts[0].axis, it->scores);
    tn_tensor_id *rows = tn__arena_array(&it->arena, cuts[0].count, sizeof *rows);
    if (rows == NULL) return tn__no_memory(it->error, "a loss in parts");
    for (uint32_t p = 0; p < cuts[0].count; p++) {
        TN_TRY(parts_tensor(it, name, p, &rows[p]));
        TN_TRY(parts_join(it, name, parts + (size_t)p * cuts[1].count, cuts[1].count, cuts[1].axis,
                          rows[p]));
    }
    return parts_join(it, name, rows, cuts[0].count, cuts[0].axis, it->scores);
}

/* Makes the operators of one part. *at is the part of the product's input on entry, and the part of
 * the scores on return. */
static tn_status parts_one(parts_work *state, uint32_t number, tn_tensor_id *at) {
    tn__train *it = state->it;
    for (uint32_t c = state->chain_count; c-- > 0;) {
        const tn_op *op = tn_graph_op(it->model, state->chain[c]);
        tn_tensor_id *inputs =
            tn__arena_copy(&it->arena, op->inputs, op->input_count * sizeof *inputs);
        tn_tensor_id made;
        char name[200];
        if (inputs == NULL) return tn__no_memory(it->error, "a loss in parts");
        TN_TRY(parts_tensor(it, tn_graph_tensor(it->model, op->outputs[0])->name, number, &made));
        inputs[state->data[c]] = *at;
        tn_op_spec spec = tn__graph_op_spec(op);
        snprintf(name, sizeof name, "%.180s/%u", op->name, number);
        spec.name = name;
        spec.inputs = inputs;
        spec.outputs = &made;
        spec.output_count = 1;
        TN_TRY(tn_graph_add_op(it->graph, &spec, NULL, it->error));
        *at = made;
    }
    return TN_OK;
}

static tn_status parts_all(parts_work *state) {
    tn__train *it = state->it;
    const uint32_t axes[2] = {state->cuts[0].base_axis, state->cuts[1].base_axis};
    parts_cut cuts[2] = {state->cuts[0], state->cuts[1]};
    TN_TRY(parts_divide(it, cuts, state->cut_count, axes,
                        tn_graph_tensor(it->model, state->base)->name, state->base,
                        it->part_bases));
    for (uint32_t p = 0; p < it->part_count; p++) {
        it->parts[p] = it->part_bases[p];
        TN_TRY(parts_one(state, p, &it->parts[p]));
    }
    return parts_whole(state, it->parts);
}

static bool parts_is_cut(const parts_work *state, tn_op_id id) {
    for (uint32_t c = 0; c < state->chain_count; c++)
        if (state->chain[c] == id) return true;
    return false;
}

static tn_status parts_graph(parts_work *state) {
    tn__train *it = state->it;
    tn_tensor_id made;
    TN_TRY(tn_graph_create(it->context, &it->graph, it->error));
    for (tn_block_id b = 1; b < tn_graph_block_count(it->model); b++)
        TN_TRY(tn_graph_add_block(it->graph, tn_graph_block(it->model, b)->name, &made, it->error));
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        tn_tensor_spec spec = tn__graph_spec(it->model, id);
        TN_TRY(tn_graph_add_tensor(it->graph, &spec, &made, it->error));
    }
    for (tn_block_id b = 0; b < tn_graph_block_count(it->model); b++) {
        const tn_block *block = tn_graph_block(it->model, b);
        TN_TRY(tn_graph_set_block_io(it->graph, b, block->inputs, block->input_count,
                                     block->outputs, block->output_count, it->error));
    }
    for (tn_block_id b = tn_graph_block_count(it->model); b-- > 0;) {
        const tn_block *block = tn_graph_block(it->model, b);
        for (uint32_t i = 0; i < block->op_count; i++) {
            const tn_op *op = tn_graph_op(it->model, block->ops[i]);
            if (block->ops[i] == state->chain[0]) TN_TRY(parts_all(state));
            if (!parts_is_cut(state, block->ops[i])) TN_TRY(tn__train_copy_op(it, op, b));
        }
    }
    return tn_graph_infer(it->graph, it->error);
}

tn_status tn__train_loss_parts(tn__train *it) {
    parts_work state = {.it = it};
    if (it->options.loss_parts < 2) return TN_OK;
    TN_TRY(parts_check(it));
    TN_TRY(parts_choose(&state));
    it->part_count = state.cuts[0].count * (state.cut_count > 1 ? state.cuts[1].count : 1);
    it->parts = tn__arena_array(&it->arena, it->part_count, sizeof *it->parts);
    it->part_bases = tn__arena_array(&it->arena, it->part_count, sizeof *it->part_bases);
    it->part_cuts = tn__arena_copy(&it->arena, state.cuts, sizeof state.cuts);
    it->part_cut_count = state.cut_count;
    if (it->parts == NULL || it->part_bases == NULL || it->part_cuts == NULL)
        return tn__no_memory(it->error, "a loss in parts");
    TN_TRY(parts_graph(&state));
    it->model = it->divided = it->graph;
    it->graph = NULL;
    it->tensors = tn_graph_tensor_count(it->model);
    return tn__train_choose(it);
}

/* --- the loss of each part --- */

/* Adds an operator with two operands, of ONNX's domain. */
static tn_status parts_op(tn__train *it, const char *type, tn_tensor_id left, tn_tensor_id right,
                          tn_tensor_id to) {
    const tn_tensor_id inputs[] = {left, right};
    tn_op_spec spec = {.name = "loss",
                       .type = type,
                       .version = 14,
                       .inputs = inputs,
                       .input_count = 2,
                       .outputs = &to,
                       .output_count = 1};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

/* Makes tensor `to` the sum of all parts. */
static tn_status parts_sum(tn__train *it, const char *name, const tn_tensor_id *parts,
                           tn_tensor_id to) {
    tn_tensor_id sum = parts[0];
    for (uint32_t p = 1; p < it->part_count; p++) {
        tn_tensor_id next = to;
        if (p + 1 < it->part_count) TN_TRY(parts_tensor(it, name, it->part_count + p, &next));
        TN_TRY(parts_op(it, "Add", sum, parts[p], next));
        sum = next;
    }
    return TN_OK;
}

/* The number of samples in a part, divided by the number of all samples. */
static double parts_share(const tn__train *it, uint32_t part) {
    const parts_cut *cuts = it->part_cuts;
    uint32_t inner = it->part_cut_count > 1 ? cuts[1].count : 1,
             at[2] = {part / inner, part % inner};
    double share = 1;
    for (uint32_t c = 0; c < it->part_cut_count; c++)
        share *= (double)(parts_begin(&cuts[c], at[c] + 1) - parts_begin(&cuts[c], at[c])) /
                 (double)cuts[c].extent;
    return share;
}

static tn_status parts_weigh(tn__train *it, uint32_t part, tn_tensor_id *loss) {
    double share = parts_share(it, part);
    bool wide = tn_graph_tensor(it->model, it->scores)->dtype == TN_FLOAT64;
    tn_tensor_id weight, mean = *loss;
    TN_TRY(
        tn__graph_add_number(it->graph, wide ? TN_FLOAT64 : TN_FLOAT32, share, &weight, it->error));
    TN_TRY(parts_tensor(it, "loss.share", part, loss));
    return parts_op(it, "Mul", mean, weight, *loss);
}

/* Adds the weighted loss of each part, and their sums. */
tn_status tn__train_loss_of_parts(tn__train *it, const char *type, const tn_attr *axis) {
    const parts_cut *cuts = it->part_cuts;
    uint32_t axes[2], count = it->part_count,
                      classes = axis != NULL ? (uint32_t)axis->ints[0] : TN_NONE;
    tn_tensor_id *lists = tn__arena_array(&it->arena, 3 * (size_t)count, sizeof *lists);
    if (lists == NULL) return tn__no_memory(it->error, "a loss in parts");
    tn_tensor_id *labels = lists, *losses = labels + count, *correct = losses + count;
    for (uint32_t c = 0; c < it->part_cut_count; c++)
        axes[c] = cuts[c].axis - (classes < cuts[c].axis);
    TN_TRY(parts_divide(it, cuts, it->part_cut_count, axes, "labels", it->made.labels, labels));
    for (uint32_t p = 0; p < count; p++) {
        const tn_tensor_id inputs[] = {it->parts[p], labels[p]};
        TN_TRY(parts_tensor(it, "loss", p, &losses[p]));
        TN_TRY(parts_tensor(it, "correct", p, &correct[p]));
        const tn_tensor_id outputs[] = {losses[p], correct[p]};
        TN_TRY(tn__train_op(it, "loss", type, inputs, 2, outputs, axis != NULL ? 2 : 1, axis,
                            axis != NULL));
        TN_TRY(parts_weigh(it, p, &losses[p]));
    }
    TN_TRY(parts_sum(it, "loss", losses, it->made.loss));
    return axis != NULL ? parts_sum(it, "correct", correct, it->made.correct) : TN_OK;
}

/* --- the order of operators, part by part --- */

/* The part that an operator of the forward pass belongs to; TN_NONE: to no part. Operators that
 * read several parts get the number after the last part. */
static uint32_t parts_of(const tn__train *it, const tn_op *op) {
    uint32_t of = TN_NONE;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t one = op->inputs[i] == TN_NONE ? TN_NONE : it->piece_of[op->inputs[i]];
        if (one == TN_NONE) continue;
        of = of == TN_NONE || of == one ? one : it->part_count;
    }
    return of;
}

static tn_status parts_mark(tn__train *it, const tn_op_id *ops, uint32_t count, uint32_t *of) {
    uint32_t tensors = tn_graph_tensor_count(it->graph);
    it->part_tensors = tensors;
    it->piece_of = tn__arena_array(&it->arena, tensors, sizeof *it->piece_of);
    if (it->piece_of == NULL) return tn__no_memory(it->error, "a loss in parts");
    for (tn_tensor_id id = 0; id < tensors; id++) it->piece_of[id] = TN_NONE;
    for (uint32_t p = 0; p < it->part_count; p++) it->piece_of[it->part_bases[p]] = p;
    for (uint32_t i = 0; i < count; i++) {
        const tn_op *op = tn_graph_op(it->graph, ops[i]);
        of[i] = parts_of(it, op);
        for (uint32_t k = 0; k < op->output_count && of[i] != TN_NONE; k++)
            if (op->outputs[k] != TN_NONE) it->piece_of[op->outputs[k]] = of[i];
    }
    return TN_OK;
}

tn_status tn__train_parts_together(tn__train *it) {
    uint32_t count = tn_graph_block(it->graph, 0)->op_count, groups = it->part_count + 2;
    if (it->part_count == 0) return TN_OK;
    tn_op_id *list = it->graph->blocks[0].ops;
    tn_op_id *ops = tn__arena_copy(&it->arena, list, count * sizeof *ops);
    uint32_t *of = tn__arena_array(&it->arena, count, sizeof *of);
    uint32_t *next = tn__arena_array(&it->arena, (size_t)groups + 1, sizeof *next);
    it->part_first = tn__arena_array(&it->arena, (size_t)groups + 1, sizeof *it->part_first);
    if (ops == NULL || of == NULL || next == NULL || it->part_first == NULL)
        return tn__no_memory(it->error, "a loss in parts");
    TN_TRY(parts_mark(it, ops, count, of));
    for (uint32_t i = 0; i < count; i++) next[(of[i] == TN_NONE ? 0 : of[i] + 1) + 1]++;
    for (uint32_t g = 0; g < groups; g++) next[g + 1] += next[g];
    memcpy(it->part_first, next, ((size_t)groups + 1) * sizeof *next);
    for (uint32_t i = 0; i < count; i++) list[next[of[i] == TN_NONE ? 0 : of[i] + 1]++] = ops[i];
    return TN_OK;
}

typedef struct parts_list {
    const tn_op_id *ops; /* the operators in their original order */
    tn_op_id *to;
    uint32_t count;
    bool *there; /* [parts + 1] true: the operators of this part have been listed */
} parts_list;

/* Lists the operators of one part, unless they have been listed. Operators that read several parts
 * come after all parts. */
static void parts_put(const tn__train *it, parts_list *list, uint32_t part) {
    for (uint32_t p = 0; part == it->part_count && p < part; p++) parts_put(it, list, p);
    if (list->there[part]) return;
    list->there[part] = true;
    for (uint32_t i = it->part_first[part + 1]; i < it->part_first[part + 2]; i++)
        list->to[list->count++] = list->ops[i];
}

tn_status tn__train_parts_apart(tn__train *it) {
    uint32_t count = tn_graph_block(it->graph, 0)->op_count;
    if (it->part_count == 0) return TN_OK;
    parts_list list = {.to = it->graph->blocks[0].ops, .count = it->part_first[1]};
    list.ops = tn__arena_copy(&it->arena, list.to, count * sizeof *list.ops);
    list.there = tn__arena_array(&it->arena, (size_t)it->part_count + 1, sizeof *list.there);
    if (list.ops == NULL || list.there == NULL) return tn__no_memory(it->error, "a loss in parts");
    for (uint32_t i = it->forward_ops; i < count; i++) {
        const tn_op *op = tn_graph_op(it->graph, list.ops[i]);
        for (uint32_t k = 0; k < op->input_count; k++) {
            tn_tensor_id id = op->inputs[k];
            if (id != TN_NONE && id < it->part_tensors && it->piece_of[id] != TN_NONE)
                parts_put(it, &list, it->piece_of[id]);
        }
        list.to[list.count++] = list.ops[i];
    }
    parts_put(it, &list, it->part_count);
    return TN_OK;
}
