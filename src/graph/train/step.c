/* step.c - tn_train: makes the graph of a training step from a model and options.
 *
 * The model is copied as it works in training. Then loss, backward pass and updates are appended in
 * this order, which is also the order of a program that keeps the order of the graph; the folder
 * `program` finds other orders. Inference gives the shapes of new tensors; a check at the end
 * compares the shape of every gradient with that of its parameter.
 */
#include <math.h>

#include "graph/train/frame.h"

/* --- options --- */

static double train_number(double value, double otherwise) {
    return value == 0 ? otherwise : value;
}

tn_train_options tn__train_options(const tn_train_options *given) {
    tn_train_options all = TN_TRAIN_OPTIONS_INIT, *to = &all;
    tn__options(to, sizeof *to, given);
    to->momentum = train_number(to->momentum, 0.9);
    to->beta1 = train_number(to->beta1, 0.9);
    to->beta2 = train_number(to->beta2, 0.999);
    to->epsilon = train_number(to->epsilon, 1e-8);
    to->loss_scale = train_number(to->loss_scale, 1);
    to->batch_norm_momentum = train_number(to->batch_norm_momentum, 0.1);
    if (to->micro_batches == 0) to->micro_batches = 1;
    return all;
}

tn_status tn__train_check_numbers(const tn_train_options *to, tn_error *error) {
    bool shares = to->momentum > 0 && to->momentum < 1 && to->beta1 > 0 && to->beta1 < 1 &&
                  to->beta2 > 0 && to->beta2 < 1 && to->batch_norm_momentum > 0 &&
                  to->batch_norm_momentum <= 1;
    if (!shares) TN_FAIL(error, TN_E_INVALID, "momentum, beta1 and beta2 must lie between 0 and 1");
    if (!(to->epsilon > 0 && isfinite(to->epsilon) && to->loss_scale > 0 &&
          isfinite(to->loss_scale) && isfinite(to->weight_decay)))
        TN_FAIL(error, TN_E_INVALID,
                "epsilon and loss_scale must be positive, weight_decay a number");
    return TN_OK;
}

static tn_status train_options(tn__train *it, const tn_train_options *given) {
    it->options = tn__train_options(given);
    const tn_train_options *to = &it->options;
    if ((unsigned)to->loss >= TN_LOSS_COUNT || (unsigned)to->optimizer >= TN_OPTIMIZER_COUNT)
        TN_FAIL(it->error, TN_E_UNKNOWN, "there is no such loss or optimizer");
    TN_TRY(tn__train_check_numbers(to, it->error));
    if (to->dtype != TN_UNDEFINED && to->dtype != TN_FLOAT32 && to->dtype != TN_FLOAT16 &&
        to->dtype != TN_BFLOAT16)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "activations can be float32, float16 or bfloat16, not %s",
                tn_dtype_name(to->dtype));
    TN_TRY(tn__train_scale_check(it));
    return tn__train_shard_check(it);
}

/* --- results --- */

static tn_status train_list(tn__train *it) {
    uint32_t count = 0;
    for (tn_tensor_id id = 0; id < it->tensors; id++) count += it->trained[id];
    it->made.parameters = tn__arena_array(&it->arena, count, sizeof *it->made.parameters);
    it->made.sharded = tn__arena_array(&it->arena, count, sizeof *it->made.sharded);
    it->number = tn__arena_array(&it->arena, it->tensors, sizeof *it->number);
    if (it->made.parameters == NULL || it->made.sharded == NULL || it->number == NULL)
        return tn__no_memory(it->error, "the list of parameters");
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        it->number[id] = it->trained[id] ? it->made.parameter_count : TN_NONE;
        if (!it->trained[id]) continue;
        it->made.parameters[it->made.parameter_count++] = (tn_trained){.parameter = id,
                                                                       .gradient = TN_NONE,
                                                                       .state = {TN_NONE, TN_NONE},
                                                                       .sum = TN_NONE,
                                                                       .shard = TN_NONE};
    }
    return TN_OK;
}

static bool train_is_sharded(const tn__train *it, tn_tensor_id id) {
    uint32_t number = it->number[id];
    return number != TN_NONE && it->made.parameters[number].shard != TN_NONE;
}

static bool train_is_loss(const tn__train *it, tn_tensor_id id) {
    for (uint32_t r = 0; r < it->rounds; r++)
        if (it->round_list[r].loss == id || it->round_list[r].correct == id) return true;
    return false;
}

/* Sets inputs in the order of train.h, and outputs: loss, correct predictions, the kept outputs,
 * then gradients. */
static tn_status train_io(tn__train *it) {
    const tn_block *block = tn_graph_block(it->graph, 0), *model = tn_graph_block(it->model, 0);
    const tn_training *made = &it->made;
    const tn_tensor_id own[] = {made->labels, made->learning_rate, made->step, made->micro};
    bool gradients = it->options.output_gradients || it->options.optimizer == TN_OPTIMIZER_NONE;
    size_t most = (size_t)block->output_count + made->parameter_count + 2 * (size_t)it->rounds;
    tn_tensor_id *inputs =
        tn__arena_array(&it->arena, (size_t)model->input_count + it->rounds + 4, sizeof *inputs);
    tn_tensor_id *outputs = tn__arena_array(&it->arena, most, sizeof *outputs);
    uint32_t input_count = 0, output_count = 0;
    if (inputs == NULL || outputs == NULL) return tn__no_memory(it->error, "inputs and outputs");
    /* parameters of a shard are no inputs, because the operator BucketParts makes them from the
     * shard */
    for (uint32_t i = 0; i < model->input_count; i++)
        if (!train_is_sharded(it, model->inputs[i])) inputs[input_count++] = model->inputs[i];
    for (uint32_t i = 0; i < 4; i++)
        if (own[i] != TN_NONE) inputs[input_count++] = own[i];
    for (uint32_t r = 1; r < it->rounds; r++)
        if (it->round_list[r].labels != TN_NONE) inputs[input_count++] = it->round_list[r].labels;
    for (uint32_t r = 0; r < it->rounds; r++) {
        const tn_round *round = &it->round_list[r];
        outputs[output_count++] = round->loss;
        if (round->correct != TN_NONE) outputs[output_count++] = round->correct;
    }
    for (uint32_t k = 0; k < block->output_count; k++)
        if (!train_is_loss(it, block->outputs[k])) outputs[output_count++] = block->outputs[k];
    for (uint32_t i = 0; i < made->parameter_count && gradients; i++)
        if (made->parameters[i].gradient != TN_NONE)
            outputs[output_count++] = made->parameters[i].gradient;
    return tn_graph_set_block_io(it->graph, 0, inputs, input_count, outputs, output_count,
                                 it->error);
}

static tn_status train_check(const tn__train *it) {
    for (uint32_t i = 0; i < it->made.parameter_count; i++) {
        const tn_trained *trained = &it->made.parameters[i];
        if (trained->gradient == TN_NONE) continue;
        const tn_tensor *parameter = tn_graph_tensor(it->graph, trained->parameter);
        const tn_tensor *gradient = tn_graph_tensor(it->graph, trained->gradient);
        bool same = gradient->rank == parameter->rank;
        for (uint32_t d = 0; same && d < parameter->rank; d++)
            same = gradient->shape[d] == parameter->shape[d];
        if (!same)
            TN_FAIL(it->error, TN_E_INTERNAL, "the gradient of '%.80s' has another shape than it",
                    parameter->name);
    }
    return TN_OK;
}

static int train_id_order(const void *a, const void *b) {
    tn_tensor_id x = *(const tn_tensor_id *)a, y = *(const tn_tensor_id *)b;
    return (x > y) - (x < y);
}

/* Copies the lists out of the arena into the result. */
static tn_status train_hand_out(tn__train *it, tn_training *training) {
    tn_training made = it->made;
    size_t parameters = made.parameter_count, statistics = made.statistic_count;
    size_t sharded = made.sharded_count;
    made.parameters = tn__alloc_array(it->context, parameters, sizeof *made.parameters);
    made.statistics = tn__alloc_array(it->context, statistics, sizeof *made.statistics);
    made.sharded = tn__alloc_array(it->context, sharded, sizeof *made.sharded);
    if (made.parameters == NULL || made.statistics == NULL || made.sharded == NULL) {
        tn__free(it->context, made.parameters, parameters * sizeof *made.parameters);
        tn__free(it->context, made.statistics, statistics * sizeof *made.statistics);
        tn__free(it->context, made.sharded, sharded * sizeof *made.sharded);
        return tn__no_memory(it->error, "the list of parameters");
    }
    memcpy(made.parameters, it->made.parameters, parameters * sizeof *made.parameters);
    if (sharded > 0) memcpy(made.sharded, it->made.sharded, sharded * sizeof *made.sharded);
    if (statistics > 0) {
        memcpy(made.statistics, it->made.statistics, statistics * sizeof *made.statistics);
        qsort(made.statistics, statistics, sizeof *made.statistics, train_id_order);
    }
    made.graph = it->graph;
    *training = made;
    return TN_OK;
}

/* --- tn_train --- */

static tn_status train_make(tn__train *it, tn_training *training) {
    tn_tensor_id seed = TN_NONE;
    TN_TRY(tn__train_inline(it));
    TN_TRY(tn__train_choose(it));
    TN_TRY(tn__train_cut(it));
    TN_TRY(tn__train_rounds(it));
    TN_TRY(tn__train_loss_parts(it));
    TN_TRY(tn__train_lower(it));
    TN_TRY(tn__train_copy(it));
    TN_TRY(tn_graph_infer(it->graph, it->error));
    TN_TRY(train_list(it));
    TN_TRY(tn__train_loss(it, &seed));
    TN_TRY(tn__train_inputs(it));
    TN_TRY(tn__train_parts_together(it));
    TN_TRY(tn__train_backward(it, seed));
    TN_TRY(train_io(it));
    if (tn__train_lowers(it)) TN_TRY(tn__train_recompute(it));
    TN_TRY(tn__train_parts_apart(it));
    if (tn__train_shards(it)) TN_TRY(tn__train_shard_end(it));
    TN_TRY(tn_graph_infer(it->graph, it->error));
    TN_TRY(train_check(it));
    TN_TRY(tn__train_parts(it));
    TN_TRY(tn__train_stages(it));
    return train_hand_out(it, training);
}

static tn__train train_begin(const tn_graph *graph, tn_error *error) {
    return (tn__train){.model = graph,
                       .context = tn_graph_context(graph),
                       .error = error,
                       .rounds = 1,
                       .home = {.of = TN_NONE},
                       .tensors = tn_graph_tensor_count(graph),
                       .made = {.labels = TN_NONE,
                                .learning_rate = TN_NONE,
                                .step = TN_NONE,
                                .micro = TN_NONE,
                                .loss_scale = TN_NONE,
                                .loss = TN_NONE,
                                .correct = TN_NONE}};
}

/* Makes a copy of the model for inference: all operators run, except those that only return
 * parameters. */
static tn_status train_model(tn__train *it) {
    TN_TRY(tn__train_inline(it));
    TN_TRY(tn__train_choose(it));
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model); id++) {
        const tn_op *op = tn_graph_op(it->model, id);
        it->runs[id] = op->output_count == 0 || op->outputs[0] == TN_NONE ||
                       it->begins[op->outputs[0]] == TN_NONE;
    }
    TN_TRY(tn__train_copy(it));
    return tn_graph_infer(it->graph, it->error);
}

tn_status tn_train_model(const tn_graph *graph, const tn_train_options *options, tn_graph **model,
                         tn_error *error) {
    tn__train it = train_begin(graph, error);
    it.evaluates = true;
    TN_TRY(train_options(&it, options));
    tn__arena_init(&it.arena, it.context);
    tn_status status = train_model(&it);
    if (status == TN_OK)
        *model = it.graph;
    else
        tn_graph_destroy(it.graph);
    tn_graph_destroy(it.inlined);
    tn__arena_release(&it.arena);
    return status;
}

tn_status tn_train(const tn_graph *graph, const tn_train_options *options, tn_training *training,
                   tn_error *error) {
    tn__train it = train_begin(graph, error);
    TN_TRY(train_options(&it, options));
    tn__arena_init(&it.arena, it.context);
    tn_status status = train_make(&it, training);
    if (status != TN_OK) {
        tn__stages_destroy(it.context, it.made.stages);
        tn_graph_destroy(it.graph);
        tn__parts_destroy(it.context, it.made.parts);
    }
    tn_graph_destroy(it.repeated);
    tn__free(it.context, it.homes, it.home_room * sizeof *it.homes);
    tn_graph_destroy(it.inlined);
    tn_graph_destroy(it.divided);
    tn_graph_destroy(it.part);
    tn__arena_release(&it.arena);
    return status;
}

void tn_training_release(tn_training *training) {
    if (training == NULL || training->graph == NULL) return;
    tn_context context = *tn_graph_context(training->graph);
    tn__free(&context, training->parameters,
             training->parameter_count * sizeof *training->parameters);
    tn__free(&context, training->statistics,
             training->statistic_count * sizeof *training->statistics);
    tn__parts_destroy(&context, training->parts);
    tn__stages_destroy(&context, training->stages);
    tn__free(&context, training->sharded, training->sharded_count * sizeof *training->sharded);
    tn_graph_destroy(training->graph);
    *training = (tn_training){0};
}
