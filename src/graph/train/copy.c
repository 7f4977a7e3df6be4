/* copy.c - copies the model, with each operator as it works in training.
 *
 * Tensors keep their ids. Operators that the loss does not need are left out; their outputs stay as
 * tensors of no bytes, so that ids agree. BatchNormalization becomes BatchNormTrain, which writes
 * its running statistics. Dropout becomes DropoutTrain, which draws its mask from a counter.
 * MaxPool becomes MaxPoolTrain, which keeps the index of the maximum in each window instead of its
 * input, unless other operators keep that input. Operators without a gradient rule are replaced by
 * their decomposition, if they have one and gradients flow through them. With mixed precision,
 * operators get the operands that mixed.c chooses. Trained parameters and running statistics are
 * marked as updated, so nothing that depends on them is folded. Parameters that an operator of the
 * model hands out (parameters.c) become parameters.
 */
#include <stdio.h>

#include "graph/rules/window.h"
#include "graph/train/frame.h"

/* --- tensors --- */

/* Whether the model has an operator that defines the tensor, but its copy has none. */
static bool copy_is_gone(const tn__train *it, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(it->model, id);
    return tensor->producer != TN_NONE && tensor->block == 0 && !it->runs[tensor->producer];
}

/* Describes a parameter that an operator of the model returns: its initial data are those of tensor
 * `from`. */
static void copy_parameter(const tn__train *it, tn_tensor_id from, tn_tensor_spec *spec) {
    const tn_tensor *first = tn_graph_tensor(it->model, from);
    spec->kind = TN_KIND_PARAMETER;
    spec->dtype = first->dtype;
    spec->rank = first->rank;
    spec->shape = first->shape;
    spec->payload = first->payload;
    spec->flags = 0;
    if (first->value != NULL) spec->value = *first->value;
}

static tn_status copy_tensor(tn__train *it, tn_tensor_id id) {
    static const int64_t nothing[] = {0};
    tn_tensor_spec spec = tn__graph_spec(it->model, id);
    tn_tensor_id made;
    if (tn__train_lowers(it) && it->is_low[id]) spec.dtype = it->options.dtype;
    if (it->begins[id] != TN_NONE) {
        copy_parameter(it, it->begins[id], &spec);
    } else if (copy_is_gone(it, id)) {
        spec = (tn_tensor_spec){.name = tn_graph_tensor(it->model, id)->name,
                                .dtype = TN_UINT8,
                                .kind = TN_KIND_CONSTANT,
                                .rank = 1,
                                .shape = nothing};
    }
    /* a trained parameter has other values than the file gives, so they are not known */
    if (it->trained[id] && it->evaluates) spec.value = (tn_value){0};
    if (it->trained[id] && !it->evaluates) spec.flags |= TN_TENSOR_UPDATED;
    return tn_graph_add_tensor(it->graph, &spec, &made, it->error);
}

static tn_status copy_blocks(tn__train *it) {
    tn_block_id made;
    for (tn_block_id b = 1; b < tn_graph_block_count(it->model); b++)
        TN_TRY(tn_graph_add_block(it->graph, tn_graph_block(it->model, b)->name, &made, it->error));
    return TN_OK;
}

/* --- operators --- */

tn_status tn__train_copy_op(tn__train *it, const tn_op *op, tn_block_id block) {
    tn_op_spec spec = tn__graph_op_spec(op);
    spec.block = block;
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

static tn_status copy_plain(tn__train *it, const tn_op *op) {
    return tn__train_copy_op(it, op, op->block);
}

static tn_status copy_extra(tn__train *it, const tn_op *op, const char *what, tn_tensor_id *id) {
    char name[200];
    const char *own = op->name[0] != '\0' ? op->name : op->type;
    snprintf(name, sizeof name, "%.150s.%s", own, what);
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

static tn_status copy_mark_updated(tn__train *it, tn_tensor_id id) {
    tn_tensor now = *tn_graph_tensor(it->graph, id);
    tn_tensor_spec spec = {.dtype = now.dtype,
                           .kind = now.kind,
                           .format = now.format,
                           .flags = (now.flags | TN_TENSOR_UPDATED) & ~(uint32_t)TN_TENSOR_STATED,
                           .rank = now.rank,
                           .shape = now.shape};
    if (now.value != NULL) spec.value = *now.value;
    return tn_graph_set_tensor(it->graph, id, &spec, it->error);
}

/* Whether the operator may write its running statistics: they must be parameters that no other
 * operator reads. */
static bool copy_owns_statistics(const tn__train *it, const tn_op *op) {
    for (uint32_t i = 3; i < 5; i++)
        if (!tn__train_is_parameter(it, op->inputs[i]) || it->uses[op->inputs[i]] != it->rounds)
            return false;
    return true;
}

/* Whether the tensor is a parameter that is not trained. */
static bool copy_is_frozen(const tn__train *it, tn_tensor_id id) {
    return tn__train_is_parameter(it, id) && !it->trained[id];
}

static bool copy_trains_batch_norm(const tn__train *it, const tn_op *op) {
    bool is_one = tn__op_is(op, "BatchNormalization");
    if (!is_one || op->block != 0 || op->input_count != 5) return false;
    if (tn__attr_int(op, "spatial", 1) == 0) return false;
    for (uint32_t i = 1; i < op->output_count; i++)
        if (op->outputs[i] != TN_NONE && it->read[op->outputs[i]]) return false;
    return !copy_is_frozen(it, op->inputs[1]) && copy_owns_statistics(it, op);
}

/* Finds the statistics that an operator starts from: in one graph, each micro-batch continues from
 * those of the previous micro-batch. */
static tn_status copy_statistics(tn__train *it, const tn_op *op, const tn_tensor_id *made,
                                 tn_tensor_id *inputs) {
    memcpy(inputs, op->inputs, 5 * sizeof *inputs);
    for (uint32_t k = 3; k < 5; k++) {
        tn_tensor_id *latest = &it->latest[op->inputs[k]];
        if (*latest == TN_NONE) {
            TN_TRY(copy_mark_updated(it, op->inputs[k]));
            it->made.statistics[it->made.statistic_count++] = op->inputs[k];
        } else {
            inputs[k] = *latest;
        }
        *latest = made[k - 2];
    }
    return TN_OK;
}

static tn_status copy_batch_norm(tn__train *it, const tn_op *op) {
    double epsilon = tn__attr_float(op, "epsilon", (double)1e-5f);
    double momentum = it->options.batch_norm_momentum;
    tn_tensor_id inputs[5], outputs[5] = {op->outputs[0]};
    static const char *const what[] = {"", "mean", "variance", "batch_mean", "batch_variance"};
    for (uint32_t k = 1; k < 5; k++) TN_TRY(copy_extra(it, op, what[k], &outputs[k]));
    TN_TRY(copy_statistics(it, op, outputs, inputs));
    const tn_attr attrs[] = {TN__ATTR_FLOAT("epsilon", &epsilon),
                             TN__ATTR_FLOAT("momentum", &momentum)};
    return tn__train_op(it, op->name, "BatchNormTrain", inputs, 5, outputs, 5, attrs, 2);
}

/* A Dropout draws random numbers in the step, and a BatchNormalization writes its statistics, also
 * where the model has them in the form for inference. */
bool tn__train_may_repeat(const tn__train *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    return !tn__op_is(op, "Dropout") && !tn__op_is(op, "BatchNormalization") &&
           tn_op_may_repeat(it->model, id);
}

/* Reads the ratio of Dropout; returns false if it is unknown. */
static bool copy_ratio(const tn__train *it, const tn_op *op, double *ratio) {
    tn_tensor_id id = op->input_count > 1 ? op->inputs[1] : TN_NONE;
    *ratio = tn__attr_float(op, "ratio", 0.5);
    if (id == TN_NONE) return true;
    const tn_value *value = tn_graph_tensor(it->model, id)->value;
    if (value == NULL || value->floats == NULL || value->count != 1) return false;
    *ratio = value->floats[0];
    return true;
}

static bool copy_trains_dropout(const tn__train *it, const tn_op *op, double *ratio) {
    bool is_one = tn__op_is(op, "Dropout") && op->block == 0;
    if (!is_one || !copy_ratio(it, op, ratio) || !(*ratio >= 0 && *ratio < 1)) return false;
    return op->output_count < 2 || op->outputs[1] == TN_NONE || !it->read[op->outputs[1]];
}

static tn_status copy_dropout(tn__train *it, const tn_op *op, tn_op_id id, double ratio) {
    if (it->made.step == TN_NONE) TN_TRY(tn__train_scalar(it, "step", TN_INT64, &it->made.step));
    tn_tensor_id inputs[] = {op->inputs[0], it->made.step, TN_NONE};
    TN_TRY(tn__train_micro(it, &inputs[2]));
    int64_t seed = (int64_t)it->options.seed, stream = it->origin != NULL ? it->origin[id] : id;
    int64_t places[3];
    tn_tensor_id outputs[2] = {op->outputs[0], TN_NONE};
    if (it->options.dropout_bits) TN_TRY(copy_extra(it, op, "bits", &outputs[1]));
    const tn_attr attrs[] = {TN__ATTR_FLOAT("ratio", &ratio), TN__ATTR_INT("seed", &seed),
                             TN__ATTR_INT("stream", &stream), TN__ATTR_INTS("places", places, 3)};
    bool cut = tn__train_places(it, op->inputs[0], places);
    return tn__train_op(it, op->name, "DropoutTrain", inputs, inputs[2] == TN_NONE ? 2 : 3, outputs,
                        it->options.dropout_bits ? 2 : 1, attrs, 3 + cut);
}

/* Whether a pool keeps a map of the indices of maxima. It does if gradients flow through it, no
 * other operator needs the pool's input, so that the input can be freed, and the map is small;
 * never with the option keep_pool_inputs. */
static bool copy_maps_pool(const tn__train *it, const tn_op *op) {
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(op, "kernel_shape", &count);
    uint64_t taps = 1;
    if (!tn__op_is(op, "MaxPool") || op->block != 0 || kernel == NULL || count == 0) return false;
    for (uint32_t i = 0; i < count; i++)
        taps = tn__mul_sat(taps, kernel[i] > 0 ? (uint64_t)kernel[i] : 0);
    for (uint32_t k = 1; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) return false;
    return !it->options.keep_pool_inputs && it->depends[op->inputs[0]] &&
           it->uses[op->inputs[0]] == 1 && taps > 0 && tn__window_map_bits(taps) != 0;
}

/* Copies a MaxPool; `made` is the operator with its operands in the copy. */
static tn_status copy_max_pool(tn__train *it, const tn_op *op, const tn_op *made) {
    tn_op_id maker = tn_graph_tensor(it->model, op->inputs[0])->producer;
    int64_t relu = maker != TN_NONE && tn__op_is(tn_graph_op(it->model, maker), "Relu");
    tn_tensor_id outputs[2] = {made->outputs[0]};
    tn_attr *attrs = tn__arena_array(&it->arena, op->attr_count + 1u, sizeof *attrs);
    if (attrs == NULL) return tn__no_memory(it->error, "a maximum pool");
    for (uint32_t i = 0; i < op->attr_count; i++) attrs[i] = op->attrs[i];
    attrs[op->attr_count] = TN__ATTR_INT("relu", &relu);
    TN_TRY(copy_extra(it, op, "map", &outputs[1]));
    return tn__train_op(it, op->name, "MaxPoolTrain", made->inputs, 1, outputs, 2, attrs,
                        op->attr_count + 1);
}

/* Removes the values that the file gives for statistics, because training will change them. */
static tn_status copy_forget(tn__train *it, tn_tensor_id id) {
    tn_tensor now = *tn_graph_tensor(it->graph, id);
    tn_tensor_spec spec = {.dtype = now.dtype,
                           .kind = now.kind,
                           .format = now.format,
                           .flags = now.flags & ~(uint32_t)TN_TENSOR_STATED,
                           .rank = now.rank,
                           .shape = now.shape};
    return tn_graph_set_tensor(it->graph, id, &spec, it->error);
}

/* Copies an operator as it works in inference, even if the file was exported for training. */
static tn_status copy_evaluated(tn__train *it, const tn_op *op) {
    tn_op made = *op;
    double ratio;
    if (copy_trains_dropout(it, op, &ratio)) {
        made.input_count = op->input_count < 2 ? op->input_count : 2;
    } else if (copy_trains_batch_norm(it, op)) {
        tn_attr *attrs = tn__arena_array(&it->arena, op->attr_count + 1u, sizeof *attrs);
        if (attrs == NULL) return tn__no_memory(it->error, "a batch normalisation");
        made.attrs = attrs;
        made.attr_count = 0;
        made.output_count = 1;
        for (uint32_t i = 0; i < op->attr_count; i++)
            if (strcmp(op->attrs[i].name, "training_mode") != 0)
                attrs[made.attr_count++] = op->attrs[i];
        for (uint32_t k = 3; k < 5; k++) TN_TRY(copy_forget(it, op->inputs[k]));
    }
    return copy_plain(it, &made);
}

static bool copy_depends(const tn__train *it, const tn_op *op) {
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && it->depends[op->inputs[i]]) return true;
    return false;
}

/* Adds other operators in place of one without a gradient rule. `decomposed` false: it has no
 * decomposition, or no gradient flows through it. */
static tn_status copy_decomposed(tn__train *it, tn_op_id id, const tn_op *made, bool *decomposed) {
    const tn_op *op = tn_graph_op(it->model, id);
    const tn_op_rule *rule = it->model->rules[id];
    bool unrolls = false;
    *decomposed = rule != NULL && op->block == 0 && copy_depends(it, op) &&
                  (rule->decompose != NULL || (unrolls = tn__train_unrolls(it, op)));
    if (!*decomposed) return TN_OK;
    const tn_tensor *first = tn_graph_tensor(it->model, op->inputs[0]);
    tn_decompose to = {.graph = it->graph,
                       .op = made,
                       .model = it->model,
                       .was = op,
                       .id = id,
                       .dtype = tn__train_lowers(it) && it->works_low[id] ? it->options.dtype
                                                                          : first->dtype,
                       .error = it->error};
    return unrolls ? tn__train_unroll(&to, it) : rule->decompose(&to);
}

static tn_status copy_op(tn__train *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    tn_op made = *op;
    double ratio;
    bool decomposed = false;
    if (it->evaluates) return copy_evaluated(it, op);
    bool norm = copy_trains_batch_norm(it, op), drops = copy_trains_dropout(it, op, &ratio);
    if (tn__train_lowers(it)) TN_TRY(tn__train_lower_op(it, id, &made));
    TN_TRY(copy_decomposed(it, id, &made, &decomposed));
    if (!decomposed)
        TN_TRY(norm                     ? copy_batch_norm(it, &made)
               : drops                  ? copy_dropout(it, &made, id, ratio)
               : copy_maps_pool(it, op) ? copy_max_pool(it, op, &made)
                                        : copy_plain(it, &made));
    return tn__train_lowers(it) ? tn__train_lower_after(it, id, &made) : TN_OK;
}

/* Copies an operator, and assigns the tensors that it makes, or that are added with it, to the
 * operator's part of the pipeline. */
static tn_status copy_home(tn__train *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    const tn_home *home = &it->op_homes[id];
    TN_TRY(tn__train_move(it, *home));
    TN_TRY(copy_op(it, id));
    TN_TRY(tn__train_settle(it));
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) it->homes[op->outputs[k]] = *home;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE) it->homes[op->inputs[i]].readers |= UINT64_C(1) << home->part;
    return TN_OK;
}

static tn_status copy_ops(tn__train *it) {
    const tn_block *main_block = tn_graph_block(it->model, 0);
    size_t most = 2 * (size_t)main_block->op_count + 1;
    it->made.statistics = tn__arena_array(&it->arena, most, sizeof *it->made.statistics);
    it->latest = tn__arena_array(&it->arena, it->tensors, sizeof *it->latest);
    if (it->made.statistics == NULL || it->latest == NULL)
        return tn__no_memory(it->error, "running statistics");
    for (tn_tensor_id id = 0; id < it->tensors; id++) it->latest[id] = TN_NONE;
    for (tn_block_id b = tn_graph_block_count(it->model); b-- > 0;) {
        const tn_block *block = tn_graph_block(it->model, b);
        for (uint32_t i = 0; i < block->op_count; i++) {
            if (b == 0 && !it->runs[block->ops[i]]) continue;
            TN_TRY(tn__train_is_whole(it) ? copy_home(it, block->ops[i])
                                          : copy_op(it, block->ops[i]));
        }
    }
    return TN_OK;
}

/* Sets inputs and outputs: all inputs of the model, and those outputs that are kept. */
static tn_status copy_io(tn__train *it) {
    for (tn_block_id b = 0; b < tn_graph_block_count(it->model); b++) {
        const tn_block *block = tn_graph_block(it->model, b);
        bool keeps = b > 0 || it->options.keep_outputs || it->evaluates;
        TN_TRY(tn_graph_set_block_io(it->graph, b, block->inputs, block->input_count,
                                     block->outputs, keeps ? block->output_count : 0, it->error));
    }
    return TN_OK;
}

tn_status tn__train_copy(tn__train *it) {
    TN_TRY(tn_graph_create(tn_graph_context(it->model), &it->graph, it->error));
    TN_TRY(copy_blocks(it));
    for (tn_tensor_id id = 0; id < it->tensors; id++) TN_TRY(copy_tensor(it, id));
    TN_TRY(copy_io(it));
    return copy_ops(it);
}
