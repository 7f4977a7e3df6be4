/* trainer.c - sets up a training run from a model, or over an engine that is open and runs the
 * graph of the training step; tests the trained model. */
#include "run/trainer/trainer.h"
#include "graph/train/frame.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* --- arrays --- */

static tn_status trainer_array(tn__arena *arena, const tn_tensor *tensor, tn_array *array,
                               tn_error *error) {
    if (tensor->bytes == TN_SIZE_UNKNOWN || tensor->rank > TN_RANK_MAX)
        TN_FAIL(error, TN_E_UNKNOWN, "the size of '%.80s' is not known", tensor->name);
    *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *array->shape);
    array->data = tn__arena_alloc(arena, tensor->bytes);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an input or an output");
}

/* Allocates in the arena an array with zeroed contents for each output of the graph. */
static tn_status trainer_outputs(tn__arena *arena, const tn_graph *graph, tn_array **outputs,
                                 tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    tn_array *made = tn__arena_array(arena, block->output_count, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "outputs");
    for (uint32_t k = 0; k < block->output_count; k++)
        TN_TRY(trainer_array(arena, tn_graph_tensor(graph, block->outputs[k]), &made[k], error));
    *outputs = made;
    return TN_OK;
}

void tn__trainer_reset(const tn_graph *graph, tn_array *outputs) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t k = 0; k < block->output_count; k++)
        outputs[k].bytes = tn_graph_tensor(graph, block->outputs[k])->bytes;
}

uint32_t tn_training_inputs(const tn_training *training, uint32_t round, tn_tensor_id *ids) {
    const tn_block *block = tn_graph_block(training->graph, 0);
    const tn_stages *stages = training->stages;
    uint32_t count = 0;
    for (uint32_t i = 0; i < (stages != NULL ? stages->input_count : block->input_count); i++) {
        tn_tensor_id id = stages != NULL ? stages->round[round].inputs[i] : block->inputs[i];
        bool own = id == training->labels || id == training->learning_rate ||
                   id == training->step || id == training->micro;
        if (id == TN_NONE || own || tn_tensor_is_static(tn_graph_tensor(training->graph, id)))
            continue;
        if (ids != NULL) ids[count] = id;
        count++;
    }
    return count;
}

/* Makes the arrays of all inputs that are not static. places: [tensors] out, the index in `inputs`
 * of the array of each tensor; TN_NONE: it has none. */
static tn_status trainer_inputs(tn_trainer *trainer, uint32_t *places, tn_error *error) {
    const tn_graph *graph = trainer->training->graph;
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (tn_tensor_is_static(tensor)) continue;
        uint32_t at = trainer->input_count++;
        places[block->inputs[i]] = at;
        TN_TRY(trainer_array(&trainer->arena, tensor, &trainer->inputs[at], error));
    }
    return TN_OK;
}

/* Finds the arrays of each micro-batch. */
static tn_status trainer_rounds(tn_trainer *trainer, const uint32_t *places, tn_error *error) {
    const tn_training *step = trainer->training;
    uint32_t count = tn_training_inputs(step, 0, NULL);
    trainer->sample_count = count;
    trainer->samples = tn__arena_array(&trainer->arena, count + (size_t)1, sizeof(tn_array));
    if (trainer->samples == NULL) return tn__no_memory(error, "inputs");
    for (uint32_t r = 0; r < trainer->round_count; r++) {
        tn__round_at *round = &trainer->rounds[r];
        tn_tensor_id labels = step->stages != NULL ? step->stages->round[r].labels : step->labels;
        round->samples = tn__arena_array(&trainer->arena, count + (size_t)1, sizeof(uint32_t));
        if (round->samples == NULL) return tn__no_memory(error, "inputs");
        (void)tn_training_inputs(step, r, round->samples);
        for (uint32_t k = 0; k < count; k++) round->samples[k] = places[round->samples[k]];
        round->labels = labels != TN_NONE ? places[labels] : TN_NONE;
        round->loss = round->correct = TN_NONE;
    }
    return TN_OK;
}

static tn_status trainer_arrays(tn_trainer *trainer, tn_error *error) {
    const tn_training *step = trainer->training;
    const tn_block *block = tn_graph_block(step->graph, 0);
    uint32_t tensors = tn_graph_tensor_count(step->graph);
    trainer->round_count = step->stages != NULL ? step->stages->rounds : 1;
    trainer->inputs = tn__arena_array(&trainer->arena, block->input_count, sizeof(tn_array));
    trainer->rounds =
        tn__arena_array(&trainer->arena, trainer->round_count, sizeof *trainer->rounds);
    uint32_t *places = tn__arena_array(&trainer->arena, tensors, sizeof *places);
    if (trainer->inputs == NULL || trainer->rounds == NULL || places == NULL)
        return tn__no_memory(error, "inputs");
    for (tn_tensor_id id = 0; id < tensors; id++) places[id] = TN_NONE;
    TN_TRY(trainer_inputs(trainer, places, error));
    TN_TRY(trainer_rounds(trainer, places, error));
    trainer->rate_at = step->learning_rate != TN_NONE ? places[step->learning_rate] : TN_NONE;
    trainer->step_at = step->step != TN_NONE ? places[step->step] : TN_NONE;
    trainer->micro_at = step->micro != TN_NONE ? places[step->micro] : TN_NONE;
    TN_TRY(trainer_outputs(&trainer->arena, step->graph, &trainer->outputs, error));
    trainer->output_count = block->output_count;
    for (uint32_t k = 0; k < block->output_count; k++) {
        if (block->outputs[k] == step->loss) trainer->rounds[0].loss = k;
        if (block->outputs[k] == step->correct) trainer->rounds[0].correct = k;
        for (uint32_t r = 1; r < trainer->round_count; r++) {
            const tn_round *round = &step->stages->round[r];
            if (block->outputs[k] == round->loss) trainer->rounds[r].loss = k;
            if (block->outputs[k] == round->correct) trainer->rounds[r].correct = k;
        }
    }
    return TN_OK;
}

tn_array *tn__trainer_samples(tn_trainer *trainer, const tn__round_at *round) {
    for (uint32_t k = 0; k < trainer->sample_count; k++)
        trainer->samples[k] = trainer->inputs[round->samples[k]];
    return trainer->samples;
}

tn_array *tn__trainer_labels(tn_trainer *trainer, const tn__round_at *round) {
    return round->labels != TN_NONE ? &trainer->inputs[round->labels] : NULL;
}

/* --- the data source and the number of steps --- */

/* Returns the number of classes, which all labels must be less than; 0 for a loss function without
 * classes. */
static int64_t trainer_classes(const tn_trainer *trainer, const tn_tensor *scores) {
    if (trainer->loss != TN_LOSS_CROSS_ENTROPY || scores->rank == 0) return 0;
    return scores->shape[tn_loss_axis(scores->rank, scores->shape)];
}

static tn_status trainer_batches(tn_trainer *trainer, const tn_tensor *scores, tn_error *error) {
    const tn_training *step = trainer->training;
    tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
    uint32_t count = trainer->sample_count;
    if (count == 0) TN_FAIL(error, TN_E_INVALID, "the model takes no samples");
    tn_tensor *inputs = tn__arena_array(&trainer->arena, count, sizeof *inputs);
    tn_tensor_id *ids = tn__arena_array(&trainer->arena, count, sizeof *ids);
    if (inputs == NULL || ids == NULL) return tn__no_memory(error, "inputs");
    (void)tn_training_inputs(step, 0, ids);
    for (uint32_t k = 0; k < count; k++) inputs[k] = *tn_graph_tensor(step->graph, ids[k]);
    options.context = &trainer->context;
    options.input_count = count;
    options.classes = trainer_classes(trainer, scores);
    options.seed = trainer->options.seed;
    options.part = trainer->part;
    options.parts = trainer->state.parts;
    return tn_batches_create(trainer->options.data, inputs,
                             step->labels != TN_NONE ? tn_graph_tensor(step->graph, step->labels)
                                                     : NULL,
                             &options, &trainer->batches, error);
}

static tn_status trainer_source(tn_trainer *trainer, const tn_tensor *scores, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    const tn__round_at *round = &trainer->rounds[0];
    tn_trainer_state *state = &trainer->state;
    if ((options->data != NULL) == (options->fill != NULL))
        TN_FAIL(error, TN_E_INVALID, "a run learns from `data` or from `fill`");
    if (options->data != NULL) TN_TRY(trainer_batches(trainer, scores, error));
    state->batch = 1;
    if (trainer->sample_count > 0 && trainer->inputs[round->samples[0]].rank > 0)
        state->batch = (uint64_t)trainer->inputs[round->samples[0]].shape[0];
    if (round->labels != TN_NONE && state->batch > 0) {
        const tn_array *labels = &trainer->inputs[round->labels];
        state->labels = labels->bytes * 8 / tn_dtype_bits(labels->dtype) / state->batch;
    }
    trainer->scored = trainer->loss == TN_LOSS_CROSS_ENTROPY && scores->dtype == TN_FLOAT32;
    return TN_OK;
}

static tn_status trainer_steps(tn_trainer *trainer, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    tn_trainer_state *state = &trainer->state;
    uint64_t epochs = options->epochs > 0 ? options->epochs : 1;
    state->total = options->steps;
    if (options->data == NULL && options->steps == 0)
        TN_FAIL(error, TN_E_INVALID, "how many steps? `fill` has no epochs");
    if (options->steps > 0) return TN_OK;
    uint64_t per_epoch = tn_batches_per_epoch(trainer->batches);
    state->total = tn__mul_sat(epochs, per_epoch / state->micro_batches);
    if (state->total == 0)
        TN_FAIL(error, TN_E_INVALID, "%llu batches in an epoch do not make one update of %u",
                (unsigned long long)per_epoch, state->micro_batches);
    return TN_OK;
}

/* --- checkpoints --- */

/* Reports parameters that no gradient reaches, because they never change. Fails if no gradient
 * reaches any parameter. */
static tn_status trainer_reached(const tn_trainer *trainer, tn_error *error) {
    const tn_training *step = trainer->training;
    uint32_t lost = 0, example = 0;
    for (uint32_t i = step->parameter_count; i-- > 0;) {
        if (step->parameters[i].gradient != TN_NONE) continue;
        lost++;
        example = i;
    }
    if (lost == 0) return TN_OK;
    const char *name = tn_graph_tensor(step->graph, step->parameters[example].parameter)->name;
    if (lost == step->parameter_count)
        TN_FAIL(error, TN_E_INVALID, "no gradient reaches any parameter; '%.80s' is the first",
                name);
    char note[200];
    snprintf(note, sizeof note, "no gradient reaches %u of %u parameters, '%.80s' first", lost,
             step->parameter_count, name);
    if (trainer->context.log != NULL) trainer->context.log(trainer->context.self, note);
    return TN_OK;
}

/* Checks that all parameters have different names, because a checkpoint and its readers distinguish
 * them by name. */
static tn_status trainer_named(tn_trainer *trainer, tn_error *error) {
    const tn__keeping *keeping = &trainer->keeping;
    for (uint32_t i = 0; i < keeping->count; i++) {
        const char *name = keeping->list[i].name;
        uint32_t other = TN__NAMES_NONE;
        if (keeping->list[i].role == TN_ROLE_STATE) continue;
        if (!tn__names_add(&trainer->names, name, strlen(name), i, &other))
            return tn__no_memory(error, "names of parameters");
        if (other != TN__NAMES_NONE || name[0] == '\0')
            TN_FAIL(error, TN_E_INVALID, "there are two parameters '%.80s', or one without a name",
                    name);
    }
    return TN_OK;
}

/* On the first rank, loads the checkpoint to resume from. *from: set to NULL for a new run, and on
 * other ranks. */
static tn_status trainer_resume(tn_trainer *trainer, tn_checkpoint **from, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    const char *path = options->resume;
    *from = NULL;
    if (!tn__trainer_leads(trainer)) return TN_OK;
    if ((path != NULL || options->go_on) && options->checkpoint != NULL)
        tn__new_file_sweep(options->checkpoint);
    if (options->go_on && options->checkpoint != NULL && access(options->checkpoint, F_OK) == 0)
        path = options->checkpoint;
    if (path == NULL) return TN_OK;
    TN_TRY(tn_checkpoint_open(path, &trainer->context, from, error));
    TN_TRY(tn__checkpoint_suits(*from, &trainer->keeping, &trainer->is, error));
    trainer->state.first = trainer->state.done = tn_checkpoint_of_run(*from)->step;
    return TN_OK;
}

/* Sets the state of this and all other ranks to the contents of the checkpoint, or, in a new run,
 * to those of the first rank. */
static tn_status trainer_start(tn_trainer *trainer, tn_error *error) {
    tn_checkpoint *from;
    tn_engine *twin = trainer->options.twin;
    tn_error why = {0};
    tn_status status = trainer_resume(trainer, &from, &why);
    why.status = status;
    if (tn__trainer_communicates(trainer))
        status = tn__trainer_spread(trainer, from, &why, error);
    else if (status != TN_OK && error != NULL)
        *error = why;
    else if (status == TN_OK && from != NULL) {
        status = tn__checkpoint_restore(from, trainer->engine, &trainer->keeping, error);
        if (status == TN_OK && twin != NULL)
            status = tn__checkpoint_restore(from, twin, &trainer->keeping, error);
    }
    tn_checkpoint_close(from);
    return status;
}

/* --- creating a trainer --- */

static tn_status trainer_options(tn_trainer *trainer, tn_error *error) {
    tn_trainer_options *options = &trainer->options;
    const tn_train_options train = tn__train_options(options->train);
    const bool adam = train.optimizer == TN_OPTIMIZER_ADAM || train.optimizer == TN_OPTIMIZER_ADAMW;
    const bool momentum = train.optimizer == TN_OPTIMIZER_MOMENTUM;
    if (!isfinite(options->rate))
        TN_FAIL(error, TN_E_INVALID, "a learning rate of %g is not finite", options->rate);
    if ((unsigned)options->schedule >= TN_SCHEDULE_COUNT)
        TN_FAIL(error, TN_E_UNKNOWN, "there is no such schedule");
    if ((options->checkpoint != NULL || options->resume != NULL) && tn__trainer_is_lone(trainer))
        return tn__trainer_lone(error);
    if (options->checkpoint_every == 0) options->checkpoint_every = 100;
    if (options->checkpoint != NULL) {
        const char *path = options->checkpoint;
        options->checkpoint = tn__arena_string(&trainer->arena, path, strlen(path));
        if (options->checkpoint == NULL) return tn__no_memory(error, "a checkpoint");
    }
    trainer->state.micro_batches = train.micro_batches;
    trainer->loss = train.loss;
    trainer->output = train.output;
    trainer->is = (tn_checkpoint_run){
        .seed = options->seed,
        .micro_batches = trainer->state.micro_batches,
        .samples = options->data != NULL ? tn_data_count(options->data) : 0,
        .optimizer = (uint32_t)train.optimizer,
        .loss = (uint32_t)train.loss,
        .output = train.output,
        .dtype = (uint32_t)(train.dtype != TN_UNDEFINED ? train.dtype : TN_FLOAT32),
        .dropout_seed = train.seed != 0 ? train.seed : options->seed,
        .momentum = momentum ? train.momentum : 0,
        .beta1 = adam ? train.beta1 : 0,
        .beta2 = adam ? train.beta2 : 0,
        .epsilon = adam ? train.epsilon : 0,
        .weight_decay = train.weight_decay,
        .loss_scale = train.dynamic_loss_scale ? 0 : train.loss_scale,
        .batch_norm_momentum = train.batch_norm_momentum,
        .nesterov = momentum && train.nesterov};
    return TN_OK;
}

/* Sets up the run over its training graph and engine. Before the call, only `context`, `training`
 * and `engine` of the trainer are set, and the fields that tn_trainer_open sets. */
static tn_status trainer_begin(tn_trainer *trainer, const tn_graph *model,
                               const tn_trainer_options *options, tn_error *error) {
    const tn_block *block = tn_graph_block(model, 0);
    trainer->options = *options;
    if (trainer->contents.read == NULL) trainer->contents = options->contents;
    TN_TRY(trainer_options(trainer, error));
    TN_TRY(tn__trainer_find_part(trainer, error));
    if (trainer->output >= block->output_count)
        TN_FAIL(error, TN_E_INVALID, "the model has no output %u", trainer->output);
    const tn_tensor *scores = tn_graph_tensor(model, block->outputs[trainer->output]);
    TN_TRY(trainer_arrays(trainer, error));
    TN_TRY(trainer_source(trainer, scores, error));
    TN_TRY(trainer_steps(trainer, error));
    TN_TRY(trainer_reached(trainer, error));
    TN_TRY(tn__keeping_make(trainer->training, &trainer->context, &trainer->arena,
                            &trainer->keeping, error));
    trainer->keeping.exchange = trainer->options.exchange;
    trainer->keeping.group = trainer->options.tensor_group;
    trainer->keeping.part = trainer->tensor_rank;
    trainer->keeping.stage_group = trainer->options.pipeline_group;
    trainer->keeping.data_group = trainer->options.group;
    if (trainer->stages > 1)
        tn__keeping_stage(&trainer->keeping, trainer->training->stages, trainer->stages,
                          trainer->stage);
    TN_TRY(trainer_named(trainer, error));
    TN_TRY(tn__masks_make(trainer, error));
    const tn_prune_schedule *prune = tn__masks_schedule(trainer);
    trainer->is.prune_share = prune->share;
    trainer->is.prune_begin = prune->begin;
    trainer->is.prune_end = prune->end;
    trainer->is.prune_every = prune->every;
    trainer->options.prune = NULL; /* valid only during the call */
    trainer->is.batch = trainer->state.batch * trainer->state.parts;
    trainer->state.counts = trainer->rounds[0].correct != TN_NONE;
    double rate = trainer->options.rate;
    trainer->rate = (tn_rate){.rate = rate == 0  ? 1e-3
                                      : rate < 0 ? 0
                                                 : rate,
                              .schedule = trainer->options.schedule,
                              .warmup = trainer->options.warmup,
                              .total = trainer->state.total};
    TN_TRY(trainer_start(trainer, error));
    return tn__masks_start(trainer, error);
}

/* Makes a trainer that has only a context. Returns NULL if memory is exhausted. */
static tn_trainer *trainer_make(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_trainer *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return NULL;
    made->context = context;
    tn__arena_init(&made->arena, &made->context);
    tn__names_init(&made->names, &made->context);
    return made;
}

tn_status tn_trainer_create(const tn_graph *model, const tn_training *training, tn_engine *engine,
                            const tn_trainer_options *given, tn_trainer **trainer,
                            tn_error *error) {
    tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    tn_trainer *made = trainer_make(options.context);
    if (made == NULL) return tn__no_memory(error, "a trainer");
    made->training = training;
    made->engine = engine;
    tn_status status = trainer_begin(made, model, &options, error);
    if (status == TN_OK)
        *trainer = made;
    else
        tn_trainer_destroy(made);
    return status;
}

void tn_trainer_destroy(tn_trainer *trainer) {
    if (trainer == NULL) return;
    tn_context context = trainer->context;
    tn__trainer_forget(trainer);
    tn_batches_destroy(trainer->batches);
    tn_session_close(trainer->session);
    tn_training_release(&trainer->made);
    tn_graph_destroy(trainer->rewritten);
    tn_graph_destroy(trainer->model);
    tn__names_release(&trainer->names);
    tn__arena_release(&trainer->arena);
    tn__free(&context, trainer, sizeof *trainer);
}

const tn_trainer_state *tn_trainer_at(const tn_trainer *trainer) { return &trainer->state; }
tn_engine *tn_trainer_engine(tn_trainer *trainer) { return trainer->engine; }
const tn_training *tn_trainer_training(const tn_trainer *trainer) { return trainer->training; }

bool tn_trainer_read(tn_trainer *trainer, const char *name, void *bytes, uint64_t size) {
    uint32_t at = tn__names_find(&trainer->names, name, strlen(name));
    if (at == TN__NAMES_NONE || trainer->keeping.list[at].bytes != size) return false;
    const tn__keep *keep = &trainer->keeping.list[at];
    if (!keep->apart && keep->cut == NULL && !keep->staged)
        return tn__keep_get(keep, trainer->engine, bytes, NULL) == TN_OK;
    if (trainer->gathered == NULL || trainer->gathered[at] == NULL) return false;
    memcpy(bytes, trainer->gathered[at], (size_t)size);
    return true;
}

/* --- the model on test samples ---------------------------------------------------------------- */

/* Scores a trained model on the test samples. */

typedef struct test_sums {
    double loss; /* sum of the losses over the labels, in nats */
    uint64_t right, seen;
} test_sums;

/* Compares the scores of each sample or position with its label, and adds the results to `sums`. */
static void test_judge(const tn_array *scores, const tn_array *labels, uint64_t label_count,
                       test_sums *sums) {
    uint32_t axis = tn_loss_axis(scores->rank, scores->shape);
    uint64_t classes = (uint64_t)scores->shape[axis], inner = 1;
    for (uint32_t d = axis + 1; d < scores->rank; d++) inner *= (uint64_t)scores->shape[d];
    const float *values = scores->data;
    for (uint64_t i = 0; i < label_count; i++) {
        const float *at = values + (i / inner) * classes * inner + i % inner;
        uint64_t best = 0, label = (uint64_t)((const int64_t *)labels->data)[i];
        double sum = 0;
        for (uint64_t c = 1; c < classes; c++)
            if (at[c * inner] > at[best * inner]) best = c;
        for (uint64_t c = 0; c < classes; c++)
            sum += exp((double)at[c * inner] - (double)at[best * inner]);
        sums->right += best == label;
        /* a label out of range adds nothing to the loss, and counts as wrong in the accuracy */
        if (label < classes)
            sums->loss += log(sum) + (double)at[best * inner] - (double)at[label * inner];
    }
    sums->seen += label_count;
}

static uint64_t test_count(const tn_trainer *trainer) {
    bool own = trainer->loss == TN_LOSS_OUTPUT;
    if ((!trainer->scored && !own) || trainer->sample_count == 0 ||
        (!own && trainer->rounds[0].labels == TN_NONE))
        return 0;
    return trainer->batches != NULL ? tn_batches_test_count(trainer->batches)
                                    : trainer->options.test_batches;
}

bool tn_trainer_tests(const tn_trainer *trainer) { return test_count(trainer) > 0; }

/* Fills the test batch `number`. *real: set to the number of its samples that are not padding. */
static tn_status test_fill(tn_trainer *trainer, uint64_t number, uint64_t *real, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    tn_array *samples = tn__trainer_samples(trainer, &trainer->rounds[0]);
    tn_array *labels = tn__trainer_labels(trainer, &trainer->rounds[0]);
    *real = trainer->state.batch;
    if (trainer->batches == NULL)
        return options->fill(options->self, true, number, samples, labels, error);
    *real = tn_batches_fill_test(trainer->batches, number, samples, labels);
    return TN_OK;
}

static tn_status test_batches(tn_trainer *trainer, const tn_graph *graph, tn_engine *engine,
                              tn_array *outputs, test_sums *sums, tn_error *error) {
    uint32_t output_count = tn_graph_block(graph, 0)->output_count;
    bool own = trainer->loss == TN_LOSS_OUTPUT;
    for (uint64_t number = 0; number < test_count(trainer); number++) {
        uint64_t real;
        TN_TRY(test_fill(trainer, number, &real, error));
        /* a loss that the model computes is that of a whole batch, and not of a padded one */
        if (own && real < trainer->state.batch) break;
        tn__trainer_reset(graph, outputs);
        TN_TRY(tn_engine_run(engine, tn__trainer_samples(trainer, &trainer->rounds[0]),
                             trainer->sample_count, outputs, output_count, error));
        if (own) {
            sums->loss += tn__trainer_loss(&outputs[trainer->output]) * (double)real;
            sums->seen += real;
        } else {
            test_judge(&outputs[trainer->output], &trainer->inputs[trainer->rounds[0].labels],
                       real * trainer->state.labels, sums);
        }
    }
    return TN_OK;
}

tn_status tn_trainer_test_on(tn_trainer *trainer, const tn_graph *graph, tn_engine *engine,
                             tn_trainer_score *score, tn_error *error) {
    tn__arena arena;
    tn_array *outputs;
    test_sums sums = {0};
    tn__arena_init(&arena, &trainer->context);
    tn_status status = trainer_outputs(&arena, graph, &outputs, error);
    if (status == TN_OK) status = test_batches(trainer, graph, engine, outputs, &sums, error);
    tn__arena_release(&arena);
    if (status != TN_OK) return status;
    *score = (tn_trainer_score){.labels = sums.seen};
    if (sums.seen == 0) return TN_OK;
    score->counts = trainer->loss == TN_LOSS_CROSS_ENTROPY;
    score->accuracy = (double)sums.right / (double)sums.seen;
    score->loss = sums.loss / (double)sums.seen;
    return TN_OK;
}

/* --- opening from a model --------------------------------------------------------------------- */

/* Opens a training run from a model, and tests the model on the test samples. */

/* Makes the training step from the model. If session.fuse is set, operators are first rewritten to
 * those fused operators that have gradients. */
static tn_status open_model(tn_trainer *trainer, const tn_graph *model,
                            const tn_train_options *train, tn_error *error) {
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    const tn_session_options *session = &trainer->test_options;
    TN_TRY(tn_train_model(model, train, &trainer->model, error));
    if (session->fuse && !session->no_rewrite && !session->plain) {
        rewrite.context = &trainer->context;
        rewrite.use = TN_REWRITE_TO_TRAIN;
        TN_TRY(tn_graph_rewrite(trainer->model, &rewrite, &trainer->rewritten, error));
    }
    const tn_graph *trained = trainer->rewritten != NULL ? trainer->rewritten : trainer->model;
    TN_TRY(tn_train(trained, train, &trainer->made, error));
    trainer->training = &trainer->made;
    return TN_OK;
}

/* Reads the initial contents of a static tensor of the step (a callback of type
 * tn_session_options.read). */
static tn_status open_begin(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                            uint64_t size, tn_error *error) {
    const tn_trainer *trainer = self;
    /* the graph is not needed, because rewriting a graph does not change the ids of its tensors */
    (void)graph;
    return tn_training_read(&trainer->made, id, &trainer->contents, bytes, size, error);
}

static tn_status open_all(tn_trainer *trainer, const tn_graph *model,
                          const tn_trainer_options *options, tn_error *error) {
    tn_session_options *session = &trainer->test_options;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    *session = (tn_session_options)TN_SESSION_OPTIONS_INIT;
    tn__options(session, sizeof *session, options->session);
    session->struct_size = sizeof *session;
    tn__options(&train, sizeof train, options->train);
    train.struct_size = sizeof train;
    if (session->context == NULL) session->context = &trainer->context;
    if (session->seed == 0) session->seed = options->seed;
    if (train.seed == 0) train.seed = options->seed;
    TN_TRY(open_model(trainer, model, &train, error));
    tn_session_options open = *session;
    session->rules = NULL; /* the rules are for the training step, and a test runs the model */
    trainer->contents = (tn_contents_of){session->read, session->self, trainer->model};
    bool parts = trainer->made.parts != NULL || trainer->made.sharded_count > 0;
    if (parts && session->read != NULL) {
        open.read = open_begin;
        open.self = trainer;
    }
    TN_TRY(tn_session_open(trainer->made.graph, &open, &trainer->session, error));
    trainer->engine = tn_session_engine(trainer->session);
    return trainer_begin(trainer, model, options, error);
}

tn_status tn_trainer_open(const tn_graph *model, const tn_trainer_options *given,
                          tn_trainer **trainer, tn_error *error) {
    tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    tn_trainer *made = trainer_make(options.context);
    if (made == NULL) return tn__no_memory(error, "a trainer");
    tn_status status = open_all(made, model, &options, error);
    if (status == TN_OK)
        *trainer = made;
    else
        tn_trainer_destroy(made);
    return status;
}

/* --- testing the model --- */

/* Reads the contents of a tensor for a test: the current value of a parameter, and for other
 * tensors the contents with which training started. */
static tn_status open_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error) {
    tn_trainer *trainer = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    const tn_session_options *options = &trainer->test_options;
    if (tensor->kind == TN_KIND_PARAMETER && tn_trainer_read(trainer, tensor->name, bytes, size))
        return TN_OK;
    if (options->read != NULL) return options->read(options->self, graph, id, bytes, size, error);
    TN_FAIL(error, TN_E_UNKNOWN, "there are no contents of '%.80s'", tensor->name);
}

tn_status tn_trainer_test(tn_trainer *trainer, tn_trainer_score *score, tn_error *error) {
    tn_session *session;
    if (trainer->model == NULL)
        TN_FAIL(error, TN_E_INVALID,
                "this trainer has no model; give tn_trainer_test_on an engine");
    if (tn__trainer_is_divided(trainer) && trainer->gathered == NULL)
        TN_FAIL(error, TN_E_INVALID,
                "each rank has a part of the parameters: tn_trainer_gather brings them together");
    if (!tn_trainer_tests(trainer)) {
        *score = (tn_trainer_score){0};
        return TN_OK;
    }
    tn_session_options options = trainer->test_options;
    options.read = open_read;
    options.self = trainer;
    options.recompute = 0; /* a test has no backward pass, so no activation is recomputed */
    options.divide = NULL; /* each rank tests alone, so the graph is not divided */
    options.exchange = NULL;
    TN_TRY(tn_session_open(trainer->model, &options, &session, error));
    tn_status status =
        tn_trainer_test_on(trainer, trainer->model, tn_session_engine(session), score, error);
    tn_session_close(session);
    return status;
}
