/* update.c - adds optimizers as operators that update parameter and state in place.
 *
 * An update reads the parameter, its gradient and its state, and returns parameter and state as
 * views of themselves, so nothing is allocated. Other readers of the parameter come before it
 * (tn_op_rule.changes) in every order of the program. Micro-batches: Accumulate adds a gradient to
 * a static sum, and the first micro-batch overwrites the sum; updates do nothing before the last
 * micro-batch.
 */
#include <stdio.h>

#include "graph/train/frame.h"

tn_status tn__train_scalar(tn__train *it, const char *name, tn_dtype dtype, tn_tensor_id *id) {
    tn_tensor_spec spec = {.name = name, .dtype = dtype, .kind = TN_KIND_INPUT};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

tn_status tn__train_op(tn__train *it, const char *name, const char *type,
                       const tn_tensor_id *inputs, uint32_t input_count,
                       const tn_tensor_id *outputs, uint32_t output_count, const tn_attr *attrs,
                       uint32_t attr_count) {
    tn_op_spec spec = {.name = name,
                       .type = type,
                       .domain = "tenure",
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count,
                       .attrs = attrs,
                       .attr_count = attr_count};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

tn_status tn__train_inputs(tn__train *it) {
    tn_optimizer optimizer = it->options.optimizer;
    if (optimizer != TN_OPTIMIZER_NONE)
        TN_TRY(tn__train_scalar(it, "learning_rate", TN_FLOAT32, &it->made.learning_rate));
    bool counts = optimizer == TN_OPTIMIZER_ADAM || optimizer == TN_OPTIMIZER_ADAMW;
    if (counts && it->made.step == TN_NONE)
        TN_TRY(tn__train_scalar(it, "step", TN_INT64, &it->made.step));
    if (tn__train_runs(it) > 1 && it->made.micro == TN_NONE)
        TN_TRY(tn__train_scalar(it, "micro", TN_INT64, &it->made.micro));
    return TN_OK;
}

/* What an update changes: a parameter, or this rank's part of a shard (parameters that ranks divide
 * among each other). */
typedef struct update_what {
    tn_tensor_id parameter, *gradient, *state, *sum;
    /* the shard of which this rank's part is updated; NULL: a parameter is updated */
    const tn_sharded *shard;
} update_what;

/* Adds a static tensor of optimizer state for the updated object; it is zero at first. */
static tn_status update_state(tn__train *it, const update_what *of, const char *what, tn_kind kind,
                              tn_tensor_id *id) {
    const tn_tensor like = *tn_graph_tensor(it->graph, of->parameter);
    int64_t part = 0;
    char name[200];
    snprintf(name, sizeof name, "%.180s.%s", like.name, what);
    tn_tensor_spec spec = {.name = name,
                           .dtype = like.dtype,
                           .kind = kind,
                           .flags = TN_TENSOR_UPDATED,
                           .rank = like.rank,
                           .shape = like.shape};
    if (of->shard != NULL) {
        part = (int64_t)(of->shard->part_bytes / (tn_dtype_bits(like.dtype) / 8));
        spec.shape = &part;
    }
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

typedef struct update_op {
    const char *type;
    tn_tensor_id inputs[8], outputs[4];
    tn_attr attrs[9];
    uint32_t input_count, output_count, attr_count;
} update_op;

typedef struct update_numbers { /* values of the attributes of an update */
    double scale;
    int64_t micro, nesterov, apart;
    int64_t from; /* index of the first element that is updated, if `part` is set */
    bool part;    /* true: only as many elements are updated as the gradient has */
    bool adam;
} update_numbers;

/* Adds an operand that the update changes and returns. */
static tn_status update_changes(tn__train *it, update_op *op, tn_tensor_id id) {
    char name[200];
    snprintf(name, sizeof name, "%.180s.new", tn_graph_tensor(it->graph, id)->name);
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    op->inputs[op->input_count++] = id;
    return tn_graph_add_tensor(it->graph, &spec, &op->outputs[op->output_count++], it->error);
}

static tn_status update_add(tn__train *it, const update_op *op, tn_tensor_id parameter) {
    const char *name = tn_graph_tensor(it->graph, parameter)->name;
    return tn__train_op(it, name, op->type, op->inputs, op->input_count, op->outputs,
                        op->output_count, op->attrs, op->attr_count);
}

static tn_status update_accumulate(tn__train *it, const update_what *of) {
    update_op op = {.type = "Accumulate"};
    TN_TRY(update_state(it, of, "sum", TN_KIND_GRADIENT, of->sum));
    TN_TRY(update_changes(it, &op, *of->sum));
    op.inputs[op.input_count++] = *of->gradient;
    op.inputs[op.input_count++] = it->made.micro;
    TN_TRY(update_add(it, &op, of->parameter));
    *of->gradient = op.outputs[0];
    return TN_OK;
}

static void update_attrs(const tn__train *it, update_op *op, const update_numbers *numbers) {
    const tn_train_options *options = &it->options;
    op->attrs[op->attr_count++] = TN__ATTR_FLOAT("scale", &numbers->scale);
    op->attrs[op->attr_count++] = TN__ATTR_FLOAT("weight_decay", &options->weight_decay);
    if (numbers->micro > 1)
        op->attrs[op->attr_count++] = TN__ATTR_INT("micro_batches", &numbers->micro);
    if (numbers->part) op->attrs[op->attr_count++] = TN__ATTR_INT("from", &numbers->from);
    if (options->optimizer == TN_OPTIMIZER_MOMENTUM) {
        op->attrs[op->attr_count++] = TN__ATTR_FLOAT("momentum", &options->momentum);
        op->attrs[op->attr_count++] = TN__ATTR_INT("nesterov", &numbers->nesterov);
    }
    if (!numbers->adam) return;
    op->attrs[op->attr_count++] = TN__ATTR_FLOAT("beta1", &options->beta1);
    op->attrs[op->attr_count++] = TN__ATTR_FLOAT("beta2", &options->beta2);
    op->attrs[op->attr_count++] = TN__ATTR_FLOAT("epsilon", &options->epsilon);
    op->attrs[op->attr_count++] = TN__ATTR_INT("decay_apart", &numbers->apart);
}

static update_numbers update_number(const tn__train *it, const update_what *of) {
    const tn_train_options *options = &it->options;
    bool apart = options->optimizer == TN_OPTIMIZER_ADAMW;
    update_numbers numbers = {.scale = options->dynamic_loss_scale ? 1 : 1 / options->loss_scale,
                              .micro = tn__train_runs(it),
                              .nesterov = options->nesterov,
                              .apart = apart,
                              .adam = apart || options->optimizer == TN_OPTIMIZER_ADAM};
    numbers.part = of->shard != NULL && of->shard->whole == of->shard->parameters;
    if (!numbers.part) return numbers;
    tn_dtype dtype = tn_graph_tensor(it->graph, of->parameter)->dtype;
    numbers.from = (int64_t)(of->shard->from / (tn_dtype_bits(dtype) / 8));
    return numbers;
}

static tn_status update_step(tn__train *it, const update_what *of) {
    const update_numbers numbers = update_number(it, of);
    bool adam = numbers.adam, adapts = it->options.dynamic_loss_scale;
    uint32_t states = adam ? 2 : it->options.optimizer == TN_OPTIMIZER_MOMENTUM;
    static const char *const types[] = {"SgdStep", "MomentumStep", "AdamStep"};
    update_op op = {.type = types[states]};
    TN_TRY(update_changes(it, &op, of->parameter));
    op.inputs[op.input_count++] = *of->gradient;
    for (uint32_t s = 0; s < states; s++) {
        const char *what = !adam ? "velocity" : s == 0 ? "moment1" : "moment2";
        TN_TRY(update_state(it, of, what, TN_KIND_OPTIMIZER_STATE, &of->state[s]));
        TN_TRY(update_changes(it, &op, of->state[s]));
    }
    op.inputs[op.input_count++] = it->made.learning_rate;
    if (adam) op.inputs[op.input_count++] = it->made.step;
    if (numbers.micro > 1 || adapts) op.inputs[op.input_count++] = it->made.micro;
    if (adapts) op.inputs[op.input_count++] = it->factor;
    update_attrs(it, &op, &numbers);
    return update_add(it, &op, of->parameter);
}

/* --- updates of a parameter, and of a shard (parameters that ranks divide among each other) --- */

static update_what update_parameter(tn_trained *trained) {
    return (update_what){trained->parameter, &trained->gradient, trained->state, &trained->sum,
                         NULL};
}

static update_what update_shard(tn_sharded *shard) {
    return (update_what){shard->parameters, &shard->gradient, shard->state, &shard->sum, shard};
}

tn_status tn__train_complete(tn__train *it, uint32_t parameter) {
    tn_trained *trained = &it->made.parameters[parameter];
    const update_what of = update_parameter(trained);
    trained->gradient = it->gradient[trained->parameter];
    bool summed = trained->gradient != TN_NONE && trained->shard == TN_NONE;
    return summed && tn__train_runs(it) > 1 ? update_accumulate(it, &of) : TN_OK;
}

tn_status tn__train_update(tn__train *it, uint32_t parameter) {
    tn_trained *trained = &it->made.parameters[parameter];
    const update_what of = update_parameter(trained);
    bool nothing = trained->gradient == TN_NONE || trained->shard != TN_NONE ||
                   it->options.optimizer == TN_OPTIMIZER_NONE;
    return nothing ? TN_OK : update_step(it, &of);
}

tn_status tn__train_complete_shard(tn__train *it, uint32_t shard) {
    const update_what of = update_shard(&it->made.sharded[shard]);
    return tn__train_runs(it) > 1 ? update_accumulate(it, &of) : TN_OK;
}

tn_status tn__train_update_shard(tn__train *it, uint32_t shard) {
    const update_what of = update_shard(&it->made.sharded[shard]);
    return update_step(it, &of);
}
