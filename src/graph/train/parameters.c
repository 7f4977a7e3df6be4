/* parameters.c - separates the parameters of a model from constants that look like parameters, and
 * finds the operators that have to run to train them.
 *
 * A file stores weights and constants alike as initializers, so their readers decide:
 *
 *   - PyTorch's exporter merges parameters with equal data (all scales of normalisations that
 *     were never trained, say): one stays, the others become nodes "Identity_<n>" of it. Each of
 *     those is a parameter again, with data of its own that begins equal. Any other Identity of
 *     a parameter is the same parameter, and their gradients are summed.
 *   - Weights that a file makes by ConstantOfShape (models saved without weights) are
 *     parameters in operands that are always weights: convolution, product, normalisation, cell.
 *   - A single element that nothing but elementwise arithmetic reads is a number of a formula (the
 *     0.5 of a GELU), unless its name is a path of identifiers, "block.0.gamma", as PyTorch and
 *     people name parameters, without a word "const" or "constant"; "onnx::Mul_7",
 *     "const_fold_opt__3", "463" are not such names. Where only fills with such a number,
 *     whatever its name is.
 *   - Arithmetic on values from the inputs that have not met a parameter yet is preprocessing:
 *     values per channel there (mean, deviation) are constants. If a model has no other candidates,
 *     they are its parameters.
 *   - A tensor larger than a row that is added to scores before a Softmax is a mask: -1e9 where
 *     attention must not look. Learned biases of attention are gathered from a table first.
 *
 * Patterns of tn_train_options.train overrule the last three. Cost: O(operands).
 */
#include "graph/rules/fold.h"
#include "graph/train/frame.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- parameters and constants ----------------------------------------------------------------- */

bool tn__train_is_parameter(const tn__train *it, tn_tensor_id id) {
    return tn_graph_tensor(it->model, id)->kind == TN_KIND_PARAMETER || it->begins[id] != TN_NONE;
}

/* --- parameters that an operator of the model returns --- */

/* "Identity_12" */
static bool parameters_is_merged(const tn__train *it, const tn_op *op) {
    static const char name[] = "Identity_";
    const char *number = op->name + sizeof name - 1;
    if (!tn__op_is(op, "Identity") || strncmp(op->name, name, sizeof name - 1) != 0) return false;
    size_t digits = strspn(number, "0123456789");
    const tn_tensor *y = tn_graph_tensor(it->model, op->outputs[0]);
    return digits > 0 && number[digits] == 0 && tn__is_float(y->dtype) &&
           !(y->flags & TN_TENSOR_IS_OUTPUT) && tn__train_is_parameter(it, op->inputs[0]);
}

/* Whether a weight was made by ConstantOfShape before the run, because the file has no data for
 * it. */
static bool parameters_is_left_out(const tn__train *it, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(it->model, id);
    if (tensor->producer == TN_NONE || tensor->block != 0 || !tn__is_float(tensor->dtype) ||
        !tn__shape_known(tensor) || tensor->flags & TN_TENSOR_IS_OUTPUT)
        return false;
    const tn_op *op = tn_graph_op(it->model, tensor->producer);
    return tn__op_is(op, "ConstantOfShape") && tn_tensor_is_constant(tensor);
}

static void parameters_handed_out(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (uint32_t p = 0; p < block->op_count; p++) {
        const tn_op *op = tn_graph_op(it->model, block->ops[p]);
        const tn_op_rule *rule = it->model->rules[block->ops[p]];
        for (uint32_t i = 0; rule != NULL && i < op->input_count && i < 64; i++)
            if (rule->weights >> i & 1 && op->inputs[i] != TN_NONE &&
                parameters_is_left_out(it, op->inputs[i]))
                it->begins[op->inputs[i]] = op->inputs[i];
        if (!parameters_is_merged(it, op)) continue;
        tn_tensor_id first = it->begins[op->inputs[0]];
        it->begins[op->outputs[0]] = first != TN_NONE ? first : op->inputs[0];
    }
}

/* --- constants that look like parameters --- */

/* The length of the first word of `name`. A word consists of letters and ends where an upper-case
 * letter follows a lower-case one: 5 for "ConstNode". */
static size_t parameters_word(const char *name) {
    size_t length = 0;
    while (isalpha((unsigned char)name[length]) &&
           !(length > 0 && isupper((unsigned char)name[length]) &&
             islower((unsigned char)name[length - 1])))
        length++;
    return length;
}

/* Whether "const" or "constant" is a word of the name: "Const", "a.constant_1", not
 * "reconstruction". */
static bool parameters_says_constant(const char *name) {
    while (*name != 0) {
        size_t length = parameters_word(name);
        if ((length == 5 || length == 8) && strncasecmp(name, "constant", length) == 0) return true;
        name += length > 0 ? length : 1;
    }
    return false;
}

/* Whether the name looks like "a.b_1.c", without a word "const" in it. */
static bool parameters_is_path(const char *name) {
    bool starts = true;
    uint32_t length = 0;
    for (const char *c = name; *c != 0; c++) {
        bool letter = isalpha((unsigned char)*c) || *c == '_';
        if (!letter && *c != '.' && !isdigit((unsigned char)*c)) return false;
        if (starts && (*c == '.' || (length == 0 && !letter))) return false;
        starts = *c == '.';
        length++;
    }
    return length > 0 && !starts && !parameters_says_constant(name);
}

/* Whether at most one extent is larger than 1. */
static bool parameters_is_row(const tn_tensor *tensor) {
    uint32_t wide = 0;
    for (uint32_t d = 0; d < tensor->rank; d++) wide += tensor->shape[d] != 1;
    return wide <= 1;
}

/* Facts about tensors, found while visiting the operators from the inputs to the loss. */
typedef struct parameters_marks {
    bool *from;  /* true: the tensor depends on an input */
    bool *acted; /* true: the tensor depends on a parameter that counts as a variable */
    /* true: the tensor is a parameter, and none of the constants described at the top of this
     * file */
    bool *variable;
    bool *scores; /* true: the tensor is a sum that a Softmax reads, or a term of such a sum */
} parameters_marks;

/* Marks the sums that a Softmax reads, and their terms. */
static void parameters_mark_scores(const tn__train *it, const tn_op *softmax, bool *scores) {
    tn_tensor_id id = softmax->inputs[0];
    while (id != TN_NONE && !scores[id]) {
        tn_op_id maker = tn_graph_tensor(it->model, id)->producer;
        const tn_op *add = maker == TN_NONE ? NULL : tn_graph_op(it->model, maker);
        if (add == NULL || !tn__op_is(add, "Add")) return;
        scores[id] = true;
        id = add->inputs[tn__train_is_parameter(it, add->inputs[0]) ? 1 : 0];
    }
}

/* Whether the other operands come from the inputs, and no parameter has been combined with them. */
static bool parameters_meets_inputs(const tn_op *op, uint32_t input,
                                    const parameters_marks *marks) {
    bool any = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (i == input || op->inputs[i] == TN_NONE) continue;
        if (marks->acted[op->inputs[i]]) return false;
        any = any || marks->from[op->inputs[i]];
    }
    return any;
}

static bool parameters_is_constant(const tn__train *it, tn_op_id id, uint32_t input,
                                   const parameters_marks *marks) {
    const tn_op *op = tn_graph_op(it->model, id);
    const tn_tensor *tensor = tn_graph_tensor(it->model, op->inputs[input]);
    if (!tn__op_has(it->model, id, TN_RULE_ARITHMETIC)) return false;
    bool fills = tn__op_is(op, "Where");
    if (tn__elements(tensor) == 1 && (fills || !parameters_is_path(tensor->name))) return true;
    if (marks->scores[op->outputs[0]] && !parameters_is_row(tensor)) return true;
    return parameters_is_row(tensor) && parameters_meets_inputs(op, input, marks);
}

static void parameters_look(const tn__train *it, tn_op_id by, parameters_marks *marks) {
    const tn_op *op = tn_graph_op(it->model, by);
    bool from = false, acted = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id id = op->inputs[i];
        if (id == TN_NONE) continue;
        bool read = tn__train_is_parameter(it, id) &&
                    tn__train_flows(it->model, op, it->model->rules[by], i);
        bool variable = read && !parameters_is_constant(it, by, i, marks);
        if (variable) marks->variable[id] = true;
        acted = acted || variable || marks->acted[id];
        from = from || marks->from[id];
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        marks->from[op->outputs[k]] = from;
        marks->acted[op->outputs[k]] = acted;
    }
}

static bool parameters_is_named(const tn__train *it, const char *name) {
    for (uint32_t i = 0; i < it->options.train_count; i++)
        if (tn__glob(it->options.train[i], name)) return true;
    return false;
}

static void parameters_constants(tn__train *it, parameters_marks *marks) {
    const tn_block *block = tn_graph_block(it->model, 0);
    bool none = true;
    for (uint32_t i = 0; i < block->input_count; i++)
        marks->from[block->inputs[i]] = !tn__train_is_parameter(it, block->inputs[i]);
    for (uint32_t p = 0; p < block->op_count; p++) {
        const tn_op *op = tn_graph_op(it->model, block->ops[p]);
        if (tn__op_is(op, "Softmax")) parameters_mark_scores(it, op, marks->scores);
    }
    for (uint32_t p = 0; p < block->op_count; p++) {
        tn_op_id id = block->ops[p];
        if (it->runs[id]) parameters_look(it, id, marks);
    }
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        if (!tn__train_is_parameter(it, id)) continue;
        if (parameters_is_named(it, tn_graph_tensor(it->model, id)->name))
            marks->variable[id] = true;
        none = none && !marks->variable[id];
    }
    for (tn_tensor_id id = 0; id < it->tensors; id++)
        it->constant[id] = !marks->variable[id] && !none;
}

/* Computes the list `begins`: for each parameter that an operator of the model returns, the tensor
 * with its initial data. */
static tn_status train_parameters(tn__train *it) {
    it->begins = tn__arena_array(&it->arena, it->tensors, sizeof *it->begins);
    if (it->begins == NULL) return tn__no_memory(it->error, "the list of parameters");
    for (tn_tensor_id id = 0; id < it->tensors; id++) it->begins[id] = TN_NONE;
    parameters_handed_out(it);
    return TN_OK;
}

/* Computes `constant`, the parameters of the file that are constants of a formula. Reads `runs`, so
 * that must be computed first. */
static tn_status train_constants(tn__train *it) {
    parameters_marks marks = {
        .from = tn__arena_array(&it->arena, it->tensors, sizeof *marks.from),
        .acted = tn__arena_array(&it->arena, it->tensors, sizeof *marks.acted),
        .variable = tn__arena_array(&it->arena, it->tensors, sizeof *marks.variable),
        .scores = tn__arena_array(&it->arena, it->tensors, sizeof *marks.scores)};
    it->constant = tn__arena_array(&it->arena, it->tensors, sizeof *it->constant);
    if (!marks.from || !marks.acted || !marks.variable || !marks.scores || it->constant == NULL)
        return tn__no_memory(it->error, "the list of parameters");
    parameters_constants(it, &marks);
    return TN_OK;
}

/* --- which operators run, and which parameters are trained ------------------------------------ */

/* Finds the parameters to train, and the operators that have to run for it.
 *
 * The walk goes backward from the loss: an operator runs if a needed tensor depends on it. If the
 * graph has blocks, almost all operators run, because blocks read tensors of any operator around
 * them. Then every parameter of floating type that a running operator reads as a variable is
 * trained, unless it is a constant of the formula (parameters.c) or a pattern excludes it.
 * Cost: O(operands).
 */

/* --- finding the scores, and the operators that run --- */

/* The product of the extents from dimension `first` on. */
static uint64_t choose_span(const tn_tensor *tensor, uint32_t first) {
    uint64_t span = 1;
    for (uint32_t d = first; d < tensor->rank; d++)
        span = tn__mul_sat(span, (uint64_t)tensor->shape[d]);
    return span;
}

/* Whether a Softmax of `x` normalises over the axis that the loss takes as classes for an output of
 * the shape of `y`. */
static bool choose_is_of_classes(const tn_op *op, const tn_tensor *x, const tn_tensor *y) {
    /* before opset 13 all axes from `axis` on form one row */
    const bool old = op->version != 0 && op->version < 13;
    uint32_t classes = tn_loss_axis(y->rank, y->shape);
    int64_t axis = tn__attr_int(op, "axis", old ? 1 : -1);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis > x->rank || y->rank < 2) return false;
    uint64_t inner = old ? 1 : choose_span(x, (uint32_t)axis + 1);
    return choose_span(x, (uint32_t)axis) / (inner == 0 ? 1 : inner) ==
               (uint64_t)y->shape[classes] &&
           inner == choose_span(y, classes + 1);
}

/* Finds the scores. A Softmax or LogSoftmax becomes part of the cross-entropy, even if shape
 * changes follow it. */
static tn_tensor_id choose_scores(const tn__train *it, tn_tensor_id output) {
    const tn_tensor *y = tn_graph_tensor(it->model, output);
    tn_tensor_id at = output;
    if (it->options.loss != TN_LOSS_CROSS_ENTROPY || !tn__shape_known(y)) return output;
    for (;;) {
        const tn_tensor *tensor = tn_graph_tensor(it->model, at);
        if (tensor->producer == TN_NONE || tensor->block != 0) return output;
        const tn_op *op = tn_graph_op(it->model, tensor->producer);
        bool soft = tn__op_is(op, "Softmax") || tn__op_is(op, "LogSoftmax");
        const tn_tensor *x = op->input_count > 0 && op->inputs[0] != TN_NONE
                                 ? tn_graph_tensor(it->model, op->inputs[0])
                                 : NULL;
        if (x == NULL || !tn__shape_known(x)) return output;
        if (soft) return choose_is_of_classes(op, x, y) ? op->inputs[0] : output;
        if (!tn__op_has(it->model, tensor->producer, TN_RULE_RESHAPES)) return output;
        at = op->inputs[0];
    }
}

static void choose_read(tn__train *it, tn_tensor_id id) {
    if (id != TN_NONE) it->read[id] = true;
}

/* Whether an operator's output is itself a parameter: such an operator does nothing in training. */
static bool choose_hands_out(const tn__train *it, const tn_op *op) {
    return op->output_count == 1 && op->outputs[0] != TN_NONE &&
           it->begins[op->outputs[0]] != TN_NONE;
}

static void choose_runs(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model); id++) {
        const tn_op *op = tn_graph_op(it->model, id);
        for (uint32_t k = 0; k < op->input_count; k++)
            if (op->inputs[k] != TN_NONE && !choose_hands_out(it, op)) it->uses[op->inputs[k]]++;
    }
    bool all = false;
    for (tn_block_id b = 1; b < tn_graph_block_count(it->model); b++)
        all = all || tn_graph_block(it->model, b)->owner != TN_NONE;
    for (uint32_t p = 0; p < it->part_count; p++) choose_read(it, it->parts[p]);
    for (uint32_t r = 0; r < it->rounds && it->part_count == 0; r++)
        choose_read(it, tn__train_in_round(it, it->scores, r));
    for (uint32_t k = 0; k < block->output_count && it->options.keep_outputs; k++)
        choose_read(it, block->outputs[k]);
    for (uint32_t i = block->op_count; i-- > 0;) {
        const tn_op *op = tn_graph_op(it->model, block->ops[i]);
        bool runs = all;
        for (uint32_t k = 0; k < op->output_count; k++)
            runs = runs || (op->outputs[k] != TN_NONE && it->read[op->outputs[k]]);
        runs = runs && !choose_hands_out(it, op);
        it->runs[block->ops[i]] = runs;
        for (uint32_t k = 0; k < op->input_count && runs; k++) choose_read(it, op->inputs[k]);
        for (uint32_t k = 0; k < op->attr_count && runs; k++)
            if (op->attrs[k].type == TN_ATTR_TENSOR) choose_read(it, op->attrs[k].tensor);
    }
}

/* --- trained parameters --- */

bool tn__train_flows(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule,
                     uint32_t input) {
    if (op->inputs[input] == TN_NONE) return false;
    uint64_t fixed = rule != NULL ? rule->no_gradient : 0;
    if (input < 64 && (fixed >> input & 1)) return false;
    return tn__is_float(tn_graph_tensor(graph, op->inputs[input])->dtype);
}

static bool choose_freezes(const tn__train *it, const char *name, bool *used) {
    bool frozen = false;
    for (uint32_t i = 0; i < it->options.freeze_count; i++) {
        if (!tn__glob(it->options.freeze[i], name)) continue;
        used[i] = frozen = true;
    }
    return frozen;
}

#define CHOOSE_SHOWN 3u /* most parameters that a message names */

static tn_status choose_fail_unmatched(const tn__train *it, const char *pattern) {
    char names[CHOOSE_SHOWN * 48] = "";
    uint32_t count = 0;
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        if (!tn__train_is_parameter(it, id) || count++ >= CHOOSE_SHOWN) continue;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s'%.40s'", count > 1 ? ", " : "",
                 tn_graph_tensor(it->model, id)->name);
    }
    TN_FAIL(it->error, TN_E_INVALID, "no parameter matches '%.100s' of `freeze`; %s%s%s", pattern,
            count > 0 ? "parameters are " : "there are none", names,
            count > CHOOSE_SHOWN ? " and others" : "");
}

static tn_status choose_check(const tn__train *it, const bool *used) {
    for (uint32_t i = 0; i < it->options.freeze_count; i++)
        if (!used[i]) return choose_fail_unmatched(it, it->options.freeze[i]);
    for (tn_tensor_id id = 0; id < it->tensors; id++)
        if (it->trained[id]) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID,
            "the loss depends on no parameter that could be trained; are all of them frozen?");
}

static tn_status choose_trained(tn__train *it) {
    bool *used = tn__arena_array(&it->arena, (size_t)it->options.freeze_count + 1, sizeof *used);
    if (used == NULL) return tn__no_memory(it->error, "patterns");
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model); id++) {
        const tn_op *op = tn_graph_op(it->model, id);
        if (!it->runs[id] || op->block != 0) continue;
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_tensor_id input = op->inputs[i];
            if (!tn__train_flows(it->model, op, it->model->rules[id], i)) continue;
            if (tn__train_is_parameter(it, input) && !it->constant[input])
                it->trained[input] = true;
        }
    }
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        const char *name = tn_graph_tensor(it->model, id)->name;
        if (tn__train_is_parameter(it, id) && choose_freezes(it, name, used))
            it->trained[id] = false;
    }
    return choose_check(it, used);
}

/* Marks tensors that depend on a trained parameter, through operands that gradients flow to. */
static void choose_depends(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_tensor_id id = 0; id < it->tensors; id++) it->depends[id] = it->trained[id];
    for (uint32_t p = 0; p < block->op_count; p++) {
        tn_op_id id = block->ops[p];
        const tn_op *op = tn_graph_op(it->model, id);
        bool depends = false;
        for (uint32_t i = 0; i < op->input_count && it->runs[id]; i++)
            depends = depends || (tn__train_flows(it->model, op, it->model->rules[id], i) &&
                                  it->depends[op->inputs[i]]);
        for (uint32_t k = 0; k < op->output_count && depends; k++)
            if (op->outputs[k] != TN_NONE) it->depends[op->outputs[k]] = true;
    }
}

/* Fails if a DequantizeLinear reads a QuantizeLinear of a tensor that depends on a trained
 * parameter. Pairs are FakeQuantize by now (inline.c), so no gradient would pass these two. */
static tn_status choose_pairs(const tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (uint32_t p = 0; p < block->op_count && !it->evaluates; p++) {
        tn_op_id id = block->ops[p];
        const tn_op *op = tn_graph_op(it->model, id);
        if (!tn__op_is_contrib(op, "DequantizeLinear") || !it->runs[id]) continue;
        tn_op_id maker = tn_graph_tensor(it->model, op->inputs[0])->producer;
        const tn_op *from = maker != TN_NONE ? tn_graph_op(it->model, maker) : NULL;
        if (from == NULL || !tn__op_is_contrib(from, "QuantizeLinear")) continue;
        if (!it->depends[from->inputs[0]]) continue;
        tn_status status = tn__fail(it->error, TN_E_UNSUPPORTED,
                                    "no gradient passes this operator and the QuantizeLinear "
                                    "before it, because they are not a pair: integers, with the "
                                    "same scale, zero point, axis and block size; make them one, "
                                    "or freeze what is before them");
        return tn__op_where(it->model, id, it->error, status);
    }
    return TN_OK;
}

tn_status tn__train_choose(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    if (it->options.output >= block->output_count)
        TN_FAIL(it->error, TN_E_INVALID, "the model has %u outputs; there is no output %u",
                block->output_count, it->options.output);
    it->trained = tn__arena_array(&it->arena, it->tensors, sizeof *it->trained);
    it->read = tn__arena_array(&it->arena, it->tensors, sizeof *it->read);
    it->uses = tn__arena_array(&it->arena, it->tensors, sizeof *it->uses);
    it->runs = tn__arena_array(&it->arena, tn_graph_op_count(it->model), sizeof *it->runs);
    it->depends = tn__arena_array(&it->arena, it->tensors, sizeof *it->depends);
    if (!it->trained || !it->read || !it->uses || !it->runs || !it->depends)
        return tn__no_memory(it->error, "a training graph");
    it->shaped = block->outputs[it->options.output];
    it->scores = choose_scores(it, it->shaped);
    TN_TRY(train_parameters(it));
    choose_runs(it);
    TN_TRY(train_constants(it));
    TN_TRY(choose_trained(it));
    choose_depends(it);
    return choose_pairs(it);
}
