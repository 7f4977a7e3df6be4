/* train.c - `tenure train`: a model trained in its planned arena.
 *
 * One engine runs the training graph, step after step; its parameters, statistics and optimizer
 * state are all that stays between steps, so a checkpoint of them and the number of the step is the
 * whole run. The order of samples follows from the seed and the step alone.
 */
#include "cli/checkpoint.h"
#include "cli/cli.h"
#include "cli/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

enum {
    TRAIN_DATA = 400,
    TRAIN_BATCH,
    TRAIN_EPOCHS,
    TRAIN_STEPS,
    TRAIN_LOSS,
    TRAIN_OPTIMIZER,
    TRAIN_LR,
    TRAIN_MOMENTUM,
    TRAIN_DECAY,
    TRAIN_FREEZE,
    TRAIN_MICRO,
    TRAIN_DTYPE,
    TRAIN_FUSE,
    TRAIN_RECOMPUTE,
    TRAIN_SEED,
    TRAIN_WEIGHTS,
    TRAIN_THREADS,
    TRAIN_PLAIN,
    TRAIN_PLANNER,
    TRAIN_BUDGET,
    TRAIN_CHECK,
    TRAIN_POISON,
    TRAIN_CHECKPOINT,
    TRAIN_EVERY,
    TRAIN_RESUME,
    TRAIN_LOG,
    TRAIN_TRACE,
    TRAIN_JSON
};

#define TRAIN_OPTIONS(X)                                                                           \
    X(TRAIN_DATA, "data", "WHAT",                                                                  \
      "fashion-mnist[:DIR], text:FILE, or X.npy,Y.npy[:XTEST.npy,YTEST.npy]")                      \
    X(TRAIN_BATCH, "batch", "N", "samples of a step (what the model says, or 64)")                 \
    X(TRAIN_EPOCHS, "epochs", "N", "how often all samples are seen (1)")                           \
    X(TRAIN_STEPS, "steps", "N", "updates in all, instead of epochs")                              \
    X(TRAIN_LOSS, "loss", "NAME", "cross-entropy, mean-squared or output (cross-entropy)")         \
    X(TRAIN_OPTIMIZER, "optimizer", "NAME", "sgd, momentum, adam or adamw (adam)")                 \
    X(TRAIN_LR, "lr", "RATE", "learning rate (1e-3)")                                              \
    X(TRAIN_MOMENTUM, "momentum", "SHARE", "of the momentum optimizer (0.9)")                      \
    X(TRAIN_DECAY, "weight-decay", "SHARE", "of parameters, each step (0)")                        \
    X(TRAIN_FREEZE, "freeze", "PATTERN", "parameters of these names stay; may be repeated")        \
    X(TRAIN_MICRO, "micro-batches", "N", "runs whose gradients are summed for one update (1)")     \
    X(TRAIN_DTYPE, "dtype", "TYPE", "of activations and gradients: f32, bf16 or f16 (f32)")        \
    X(TRAIN_FUSE, "fuse-update", NULL, "update a parameter as soon as its gradient is there")      \
    X(TRAIN_RECOMPUTE, "recompute-cheap", NULL,                                                    \
      "compute activation functions again instead of keeping their results")                       \
    X(TRAIN_SEED, "seed", "N", "of the order of samples and of dropout (0)")                       \
    X(TRAIN_WEIGHTS, "weights", "random:SEED",                                                     \
      "begin anew, with parameters made up (those of the file)")                                   \
    X(TRAIN_THREADS, "threads", "N", "of the kernels; the same number gives the same bits (1)")    \
    X(TRAIN_PLAIN, "plain", NULL, "our own loops alone, without oneDNN")                           \
    X(TRAIN_PLANNER, "planner", "NAME", "one of `tenure list planners` (auto)")                    \
    X(TRAIN_BUDGET, "budget", "SIZE", "bytes for all of it: less is refused (what it needs)")      \
    X(TRAIN_CHECK, "check", "naive", "train without any reuse beside it: every bit the same")      \
    X(TRAIN_POISON, "poison", NULL, "bytes that nothing holds are NaNs, and are looked at")        \
    X(TRAIN_CHECKPOINT, "checkpoint", "FILE", "keep the run there, so that it can go on")          \
    X(TRAIN_EVERY, "checkpoint-every", "N", "steps between checkpoints (100)")                     \
    X(TRAIN_RESUME, "resume", "FILE", "go on from a checkpoint, bit for bit")                      \
    X(TRAIN_LOG, "log", "FILE", "loss and correct answers of each step as .csv")                   \
    X(TRAIN_TRACE, "trace", "FILE", "of the first step: .trace.json or .trace.csv")                \
    X(TRAIN_JSON, "json", NULL, "print one JSON object at the end")

#define TRAIN_FREEZE_MAX 64u
#define TRAIN_BATCH_USUAL 64
#define TRAIN_SEEN 50u /* steps that the loss shown is the mean of */

typedef struct train_side { /* an engine and what it was made of */
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_device *device;
    tn_engine *engine;
} train_side;

typedef struct train_arguments {
    cli_input input;
    tn_train_options options;
    tn_plan_options plan;
    const char *freeze[TRAIN_FREEZE_MAX];
    const char *data_path, *checkpoint, *resume, *log_path, *trace_path;
    uint64_t batch, epochs, steps, every, budget, weights_seed, seed;
    uint32_t threads;
    double rate;
    bool weights_made_up, plain, check, poison, json;
    /* what was made */
    cli_data data;
    tn_contents *contents, *fresh; /* of the file; made up, for what is trained */
    tn_training training;
    tn_kernels *kernels;
    tn_program *program;
    train_side planned, naive;
    uint64_t weights; /* static bytes */
    tn_trace *trace;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    uint32_t sample_at, labels_at, rate_at, step_at, micro_at; /* among inputs */
    uint32_t loss_at, correct_at;                              /* among outputs */
    uint64_t labels_of_batch;
    uint64_t *numbers;
    uint32_t *order, order_epoch;
    tn__text log;
    tn_tensor_id *kept; /* what a checkpoint holds */
    uint32_t kept_count;
    /* what came out */
    uint64_t done, trained_samples;
    double last_loss, last_accuracy, test_accuracy, seconds;
    bool has_test;
} train_arguments;

static const struct argp_option train_options[] = {TRAIN_OPTIONS(CLI_OPTION){0}};

static double train_real(struct argp_state *state, const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > 1e9)
        argp_error(state, "--%s: '%s' is no number from 0 up", option, text);
    return value;
}

static uint64_t train_count(struct argp_state *state, const char *option, const char *text) {
    uint64_t value = cli_number(state, option, text);
    if (value < 1 || value > UINT32_MAX) argp_error(state, "--%s: from 1 up", option);
    return value;
}

static void train_set_dtype(struct argp_state *state, train_arguments *arguments,
                            const char *text) {
    if (strcmp(text, "f32") == 0)
        arguments->options.dtype = TN_UNDEFINED;
    else if (strcmp(text, "bf16") == 0)
        arguments->options.dtype = TN_BFLOAT16;
    else if (strcmp(text, "f16") == 0)
        arguments->options.dtype = TN_FLOAT16;
    else
        argp_error(state, "--dtype: '%s' is none of f32, bf16, f16", text);
}

static error_t train_parse_model(int key, char *value, struct argp_state *state) {
    train_arguments *arguments = state->input;
    tn_train_options *options = &arguments->options;
    switch (key) {
    case TRAIN_LOSS:
        options->loss = tn_loss_find(value);
        if (options->loss == TN_LOSS_COUNT) argp_error(state, "--loss: there is no '%s'", value);
        return 0;
    case TRAIN_OPTIMIZER:
        options->optimizer = tn_optimizer_find(value);
        if (options->optimizer == TN_OPTIMIZER_COUNT || options->optimizer == TN_OPTIMIZER_NONE)
            argp_error(state, "--optimizer: '%s' is none of sgd, momentum, adam, adamw", value);
        return 0;
    case TRAIN_MOMENTUM:
        options->momentum = train_real(state, "momentum", value);
        return 0;
    case TRAIN_DECAY:
        options->weight_decay = train_real(state, "weight-decay", value);
        return 0;
    case TRAIN_FREEZE:
        if (options->freeze_count == TRAIN_FREEZE_MAX) argp_error(state, "--freeze: more than 64");
        arguments->freeze[options->freeze_count++] = value;
        options->freeze = arguments->freeze;
        return 0;
    case TRAIN_MICRO:
        options->micro_batches = (uint32_t)train_count(state, "micro-batches", value);
        return 0;
    case TRAIN_DTYPE:
        train_set_dtype(state, arguments, value);
        return 0;
    case TRAIN_FUSE:
        options->fuse_update = true;
        return 0;
    case TRAIN_RECOMPUTE:
        options->recompute_cheap = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t train_parse_run(int key, char *value, struct argp_state *state) {
    train_arguments *arguments = state->input;
    switch (key) {
    case TRAIN_DATA:
        arguments->data_path = value;
        return 0;
    case TRAIN_BATCH:
        arguments->batch = train_count(state, "batch", value);
        return 0;
    case TRAIN_EPOCHS:
        arguments->epochs = train_count(state, "epochs", value);
        return 0;
    case TRAIN_STEPS:
        arguments->steps = train_count(state, "steps", value);
        return 0;
    case TRAIN_LR:
        arguments->rate = train_real(state, "lr", value);
        return 0;
    case TRAIN_SEED:
        arguments->seed = arguments->options.seed = cli_number(state, "seed", value);
        return 0;
    case TRAIN_WEIGHTS:
        if (strncmp(value, "random", 6) != 0 || (value[6] != '\0' && value[6] != ':'))
            argp_error(state, "--weights: '%s' should read random:SEED", value);
        arguments->weights_made_up = true;
        arguments->weights_seed = value[6] ? cli_number(state, "weights", value + 7) : 0;
        return 0;
    case TRAIN_THREADS:
        arguments->threads = (uint32_t)train_count(state, "threads", value);
        if (arguments->threads > 1024) argp_error(state, "--threads: from 1 to 1024");
        return 0;
    case TRAIN_PLAIN:
        arguments->plain = true;
        return 0;
    case TRAIN_PLANNER:
        arguments->plan.planner = value;
        return 0;
    case TRAIN_BUDGET:
        arguments->budget = cli_size(state, "budget", value);
        return 0;
    case TRAIN_CHECK:
        if (strcmp(value, "naive") != 0) argp_error(state, "--check: '%s' is not naive", value);
        arguments->check = true;
        return 0;
    case TRAIN_POISON:
        arguments->poison = true;
        return 0;
    case TRAIN_CHECKPOINT:
        arguments->checkpoint = value;
        return 0;
    case TRAIN_EVERY:
        arguments->every = train_count(state, "checkpoint-every", value);
        return 0;
    case TRAIN_RESUME:
        arguments->resume = value;
        return 0;
    case TRAIN_LOG:
        arguments->log_path = value;
        return 0;
    case TRAIN_TRACE:
        arguments->trace_path = value;
        if (!tn__has_suffix(value, ".trace.json") && !tn__has_suffix(value, ".trace.csv"))
            argp_error(state, "--trace: no format for '%s'; there are .trace.json and .trace.csv",
                       value);
        return 0;
    case TRAIN_JSON:
        arguments->json = true;
        return 0;
    default:
        return train_parse_model(key, value, state);
    }
}

static error_t train_parse(int key, char *value, struct argp_state *state) {
    train_arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->input;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->input.path != NULL) argp_error(state, "one model, not '%s' too", value);
        arguments->input.path = value;
        return 0;
    case ARGP_KEY_END:
        if (arguments->input.path == NULL) argp_error(state, "which model?");
        if (arguments->data_path == NULL) argp_error(state, "which data? give --data");
        if (arguments->trace_path != NULL && arguments->poison)
            argp_error(state, "--trace and --poison do not go together");
        return 0;
    default:
        return train_parse_run(key, value, state);
    }
}

static const char train_doc[] =
    "Trains MODEL, an ordinary .onnx, in one arena of exactly the planned size.\v"
    "Examples:\n"
    "  tenure train cnn.onnx --data fashion-mnist --batch 64 --epochs 2 --optimizer adam --lr "
    "1e-3\n"
    "  tenure train cnn.onnx --data x.npy,y.npy --steps 1000 --checkpoint run.ck\n"
    "  tenure train cnn.onnx --data x.npy,y.npy --steps 2000 --checkpoint run.ck --resume run.ck\n"
    "  tenure train lm.onnx --data text:book.txt --batch 16 --steps 500 --weights random:1\n\n"
    "Exit status: 0 trained; 1 the budget is too small, or the plan was broken; 2 bad usage or "
    "input, or a loss that is no number; 4 internal error.";

/* --- the model --- */

/* The batch is the first extent of the inputs: as asked for; else the model's own, or 64 where it
 * has only a symbol for it. */
static tn_status train_load(train_arguments *arguments, tn_error *error) {
    cli_input *input = &arguments->input;
    input->import.batch = (int64_t)arguments->batch;
    tn_status status = tn_graph_load(input->path, &input->import, &input->graph, error);
    if (status == TN_E_UNKNOWN && arguments->batch == 0) {
        tn_error first = *error; /* names the symbols, if the batch is not all that is missing */
        input->import.batch = TRAIN_BATCH_USUAL;
        status = tn_graph_load(input->path, &input->import, &input->graph, error);
        if (status == TN_E_UNKNOWN) *error = first;
    }
    TN_TRY(status);
    const tn_block *block = tn_graph_block(input->graph, 0);
    const tn_tensor *first =
        block->input_count > 0 ? tn_graph_tensor(input->graph, block->inputs[0]) : NULL;
    if (first == NULL || first->rank == 0)
        TN_FAIL(error, TN_E_INVALID, "the model has no input of samples");
    if (arguments->batch > 0 && first->shape[0] != (int64_t)arguments->batch)
        TN_FAIL(error, TN_E_INVALID,
                "the model takes %lld samples at once, not %llu; export it with a symbolic batch",
                (long long)first->shape[0], (unsigned long long)arguments->batch);
    arguments->batch = (uint64_t)first->shape[0];
    if (arguments->weights_made_up)
        TN_TRY(tn_contents_generate(NULL, input->graph, arguments->weights_seed,
                                    input->import.context, &arguments->fresh, error));
    return tn_contents_open(input->path, input->import.context, &arguments->contents, error);
}

static tn_status train_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                            uint64_t size, tn_error *error) {
    train_arguments *arguments = self;
    bool trained = (tn_graph_tensor(graph, tensor)->flags & TN_TENSOR_UPDATED) != 0;
    tn_contents *from =
        trained && arguments->fresh != NULL ? arguments->fresh : arguments->contents;
    return tn_contents_read(from, graph, tensor, bytes, size, error);
}

/* --- engines --- */

static tn_status train_engine(train_arguments *arguments, train_side *side, bool planned,
                              tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    device.context = options.context = arguments->input.import.context;
    device.capacity = planned ? arguments->budget : 0;
    options.read = train_read;
    options.self = arguments;
    options.seed = arguments->seed;
    options.poison = planned && arguments->poison;
    options.trace = planned ? arguments->trace : NULL;
    TN_TRY(tn_device_create(&device, &side->device, error));
    return tn_engine_create(side->occupancy, &side->layout, arguments->kernels, side->device,
                            &options, &side->engine, error);
}

static void train_memory(const train_arguments *arguments, tn_occupancy_options *memory) {
    *memory = arguments->input.occupancy_options;
    memory->struct_size = sizeof *memory;
    memory->alignment = arguments->input.alignment;
    memory->workspaces = tn_kernels_workspaces(arguments->kernels);
}

static tn_status train_plan(train_arguments *arguments, tn_error *error) {
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_occupancy_options memory;
    tn_program_options order = TN_PROGRAM_OPTIONS_INIT;
    char need[TN_SIZE_TEXT_MAX];
    kernels.context = arguments->input.import.context;
    kernels.threads = arguments->threads;
    kernels.plain = arguments->plain;
    TN_TRY(tn_train(arguments->input.graph, &arguments->options, &arguments->training, error));
    TN_TRY(tn_kernels_create(arguments->training.graph, &kernels, &arguments->kernels, error));
    train_memory(arguments, &memory);
    order.order = arguments->input.order;
    order.memory = &memory;
    train_side *side = &arguments->planned;
    TN_TRY(tn_program_plan(arguments->training.graph, &order, &memory, &arguments->plan,
                           &arguments->program, &side->occupancy, &side->layout, error));
    arguments->weights = tn_engine_static_bytes(side->occupancy, arguments->kernels);
    uint64_t total = tn__add_sat(side->layout.peak, arguments->weights);
    if (arguments->budget > 0 && total > arguments->budget)
        TN_FAIL(error, TN_E_EXHAUSTED, "the budget is too small; %s would do",
                tn_size_format(total, need));
    return TN_OK;
}

/* The same steps with memory of its own for every tensor. */
static tn_status train_open_naive(train_arguments *arguments, tn_error *error) {
    tn_occupancy_options memory;
    train_side *side = &arguments->naive;
    if (!arguments->check) return TN_OK;
    train_memory(arguments, &memory);
    memory.inplace = TN_INPLACE_NONE;
    memory.no_views = true;
    memory.fuse_concat = false;
    TN_TRY(tn_occupancy_create(arguments->program, &memory, &side->occupancy, error));
    TN_TRY(cli_layout_without_reuse(tn_occupancy_problem(side->occupancy), &side->layout, error));
    return train_engine(arguments, side, false, error);
}

static tn_status train_open(train_arguments *arguments, tn_error *error) {
    if (arguments->trace_path != NULL)
        TN_TRY(tn_trace_create(arguments->input.import.context,
                               4 * (uint64_t)tn_program_count(arguments->program) +
                                   4 * (uint64_t)tn_graph_tensor_count(arguments->training.graph) +
                                   64,
                               &arguments->trace, error));
    TN_TRY(train_engine(arguments, &arguments->planned, true, error));
    return train_open_naive(arguments, error);
}

/* --- arrays and what is kept --- */

static tn_status train_array(const tn_graph *graph, tn_tensor_id id, tn_array *array,
                             tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array->data = calloc(1, tensor->bytes + 1);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an input or an output");
}

static tn_status train_make_arrays(train_arguments *arguments, tn_error *error) {
    const tn_training *training = &arguments->training;
    const tn_block *block = tn_graph_block(training->graph, 0);
    arguments->inputs = calloc((size_t)block->input_count + 1, sizeof *arguments->inputs);
    arguments->outputs = calloc((size_t)block->output_count + 1, sizeof *arguments->outputs);
    arguments->numbers = calloc(arguments->batch, sizeof *arguments->numbers);
    arguments->order = calloc(arguments->data.train.count + 1, sizeof *arguments->order);
    if (arguments->inputs == NULL || arguments->outputs == NULL || arguments->numbers == NULL ||
        arguments->order == NULL)
        return tn__no_memory(error, "batches");
    arguments->sample_at = arguments->labels_at = arguments->rate_at = arguments->step_at =
        arguments->micro_at = arguments->loss_at = arguments->correct_at = TN_NONE;
    arguments->order_epoch = TN_NONE;
    for (uint32_t i = 0; i < block->input_count; i++) {
        tn_tensor_id id = block->inputs[i];
        if (tn_tensor_is_static(tn_graph_tensor(training->graph, id))) continue;
        uint32_t at = arguments->input_count;
        TN_TRY(train_array(training->graph, id, &arguments->inputs[at], error));
        arguments->input_count++;
        if (id == training->labels)
            arguments->labels_at = at;
        else if (id == training->learning_rate)
            arguments->rate_at = at;
        else if (id == training->step)
            arguments->step_at = at;
        else if (id == training->micro)
            arguments->micro_at = at;
        else if (arguments->sample_at == TN_NONE)
            arguments->sample_at = at;
    }
    for (uint32_t k = 0; k < block->output_count; k++) {
        TN_TRY(train_array(training->graph, block->outputs[k], &arguments->outputs[k], error));
        arguments->output_count++;
        if (block->outputs[k] == training->loss) arguments->loss_at = k;
        if (block->outputs[k] == training->correct) arguments->correct_at = k;
    }
    if (arguments->sample_at == TN_NONE || arguments->labels_at == TN_NONE)
        TN_FAIL(error, TN_E_INVALID, "the model takes no samples, or its loss no labels");
    const tn_array *labels = &arguments->inputs[arguments->labels_at];
    arguments->labels_of_batch = labels->bytes * 8 / tn_dtype_bits(labels->dtype);
    return TN_OK;
}

static void train_keep(train_arguments *arguments, tn_tensor_id id) {
    if (id != TN_NONE) arguments->kept[arguments->kept_count++] = id;
}

static tn_status train_list_kept(train_arguments *arguments, tn_error *error) {
    const tn_training *training = &arguments->training;
    size_t room = 4 * (size_t)training->parameter_count + training->statistic_count + 1;
    arguments->kept = calloc(room, sizeof *arguments->kept);
    if (arguments->kept == NULL) return tn__no_memory(error, "a checkpoint");
    for (uint32_t i = 0; i < training->parameter_count; i++) {
        const tn_trained *trained = &training->parameters[i];
        train_keep(arguments, trained->parameter);
        train_keep(arguments, trained->state[0]);
        train_keep(arguments, trained->state[1]);
        train_keep(arguments, trained->sum);
    }
    for (uint32_t i = 0; i < training->statistic_count; i++)
        train_keep(arguments, training->statistics[i]);
    return TN_OK;
}

static cli_progress_of_run train_progress(const train_arguments *arguments) {
    uint32_t micro = arguments->options.micro_batches;
    return (cli_progress_of_run){.step = arguments->done,
                                 .seed = arguments->seed,
                                 .batch = arguments->batch,
                                 .micro_batches = micro > 0 ? micro : 1,
                                 .optimizer = (uint32_t)arguments->options.optimizer,
                                 .dtype = (uint32_t)arguments->options.dtype};
}

static tn_status train_save(train_arguments *arguments, tn_error *error) {
    cli_progress_of_run run = train_progress(arguments);
    return cli_checkpoint_save(arguments->checkpoint, arguments->planned.engine,
                               arguments->training.graph, arguments->kept, arguments->kept_count,
                               &run, error);
}

static tn_status train_resume(train_arguments *arguments, tn_error *error) {
    cli_progress_of_run run = train_progress(arguments);
    if (arguments->resume == NULL) return TN_OK;
    TN_TRY(cli_checkpoint_load(arguments->resume, arguments->planned.engine,
                               arguments->training.graph, arguments->kept, arguments->kept_count,
                               &run, error));
    if (arguments->check)
        TN_TRY(cli_checkpoint_load(arguments->resume, arguments->naive.engine,
                                   arguments->training.graph, arguments->kept,
                                   arguments->kept_count, &run, error));
    arguments->done = run.step;
    return TN_OK;
}

/* --- steps --- */

static void train_rooms(train_arguments *arguments) {
    const tn_graph *graph = arguments->training.graph;
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t k = 0; k < arguments->output_count; k++)
        arguments->outputs[k].bytes = tn_graph_tensor(graph, block->outputs[k])->bytes;
}

static double train_loss(const train_arguments *arguments) {
    float loss;
    memcpy(&loss, arguments->outputs[arguments->loss_at].data, sizeof loss);
    return (double)loss;
}

static int64_t train_correct(const train_arguments *arguments) {
    int64_t correct = 0;
    if (arguments->correct_at != TN_NONE)
        memcpy(&correct, arguments->outputs[arguments->correct_at].data, sizeof correct);
    return correct;
}

static tn_status train_run_once(train_arguments *arguments, tn_error *error) {
    train_rooms(arguments);
    TN_TRY(tn_engine_run(arguments->planned.engine, arguments->inputs, arguments->input_count,
                         arguments->outputs, arguments->output_count, error));
    if (!arguments->check) return TN_OK;
    double loss = train_loss(arguments);
    train_rooms(arguments);
    TN_TRY(tn_engine_run(arguments->naive.engine, arguments->inputs, arguments->input_count,
                         arguments->outputs, arguments->output_count, error));
    double naive = train_loss(arguments);
    if (memcmp(&loss, &naive, sizeof loss) != 0)
        TN_FAIL(error, TN_E_CONFLICT,
                "step %llu: the loss is %.9g in the planned arena and %.9g without reuse; please "
                "report it",
                (unsigned long long)arguments->done, loss, naive);
    return TN_OK;
}

/* One update: one run, or as many as there are micro-batches. */
static tn_status train_step(train_arguments *arguments, uint64_t per_epoch, double *loss,
                            int64_t *correct, tn_error *error) {
    uint32_t micro = arguments->options.micro_batches > 0 ? arguments->options.micro_batches : 1;
    uint64_t window = arguments->labels_of_batch / arguments->batch;
    *loss = 0;
    *correct = 0;
    for (int64_t m = 0; m < (int64_t)micro; m++) {
        uint64_t run = arguments->done * micro + (uint64_t)m;
        cli_data_batch(&arguments->data, arguments->seed, (uint32_t)(run / per_epoch),
                       run % per_epoch, (uint32_t)arguments->batch, window, arguments->order,
                       &arguments->order_epoch, arguments->numbers);
        TN_TRY(cli_data_fill(&arguments->data, &arguments->data.train, arguments->numbers,
                             (uint32_t)arguments->batch, &arguments->inputs[arguments->sample_at],
                             &arguments->inputs[arguments->labels_at], error));
        if (arguments->rate_at != TN_NONE)
            memcpy(arguments->inputs[arguments->rate_at].data, &(float){(float)arguments->rate}, 4);
        if (arguments->step_at != TN_NONE)
            memcpy(arguments->inputs[arguments->step_at].data, &arguments->done, 8);
        if (arguments->micro_at != TN_NONE)
            memcpy(arguments->inputs[arguments->micro_at].data, &m, 8);
        TN_TRY(train_run_once(arguments, error));
        *loss += train_loss(arguments) / micro;
        *correct += train_correct(arguments);
    }
    if (!isfinite(*loss))
        TN_FAIL(error, TN_E_INVALID,
                "the loss of step %llu is no number; try a lower --lr, or look for samples that "
                "are none",
                (unsigned long long)arguments->done);
    return TN_OK;
}

static void train_show(const train_arguments *arguments, uint64_t total, double loss,
                       double accuracy, double start, uint64_t first) {
    if (arguments->json || !isatty(STDERR_FILENO)) return;
    double passed = cli_clock() - start;
    double speed =
        passed > 0
            ? (double)(arguments->done - first) * (double)arguments->batch *
                  (arguments->options.micro_batches > 0 ? arguments->options.micro_batches : 1) /
                  passed
            : 0;
    char memory[TN_SIZE_TEXT_MAX];
    fprintf(stderr,
            "\rstep %" PRIu64 "/%" PRIu64 "  loss %.4f  accuracy %.1f %%  %.0f samples/s  %s ",
            arguments->done, total, loss, 100 * accuracy, speed,
            tn_size_format(arguments->planned.layout.peak + arguments->weights, memory));
}

static tn_status train_all(train_arguments *arguments, tn_error *error) {
    uint32_t micro = arguments->options.micro_batches > 0 ? arguments->options.micro_batches : 1;
    uint64_t window = arguments->labels_of_batch / arguments->batch;
    uint64_t count = arguments->data.train.count;
    if (arguments->data.text && count <= window)
        TN_FAIL(error, TN_E_INVALID, "the text has %llu bytes; the model reads %llu at once",
                (unsigned long long)count, (unsigned long long)window);
    uint64_t per_epoch = count / (arguments->batch * (arguments->data.text ? window : 1));
    if (per_epoch == 0)
        TN_FAIL(error, TN_E_INVALID, "%llu samples do not fill a batch of %llu",
                (unsigned long long)count, (unsigned long long)arguments->batch);
    uint64_t total =
        arguments->steps > 0 ? arguments->steps : arguments->epochs * (per_epoch / micro);
    uint64_t first = arguments->done;
    double start = cli_clock(), shown = 0, mean_loss = 0, mean_accuracy = 0;
    double labels = (double)arguments->labels_of_batch * micro;
    while (arguments->done < total) {
        double loss;
        int64_t correct;
        TN_TRY(train_step(arguments, per_epoch, &loss, &correct, error));
        double share = arguments->done == first ? 1 : 2.0 / (TRAIN_SEEN + 1);
        mean_loss += share * (loss - mean_loss);
        mean_accuracy += share * ((double)correct / labels - mean_accuracy);
        if (arguments->log_path != NULL)
            tn__text_printf(&arguments->log, "%" PRIu64 ",%.9g,%" PRId64 "\n", arguments->done,
                            loss, correct);
        arguments->done++;
        if (arguments->checkpoint != NULL && arguments->done % arguments->every == 0)
            TN_TRY(train_save(arguments, error));
        if (cli_clock() - shown > 0.1) {
            shown = cli_clock();
            train_show(arguments, total, mean_loss, mean_accuracy, start, first);
        }
    }
    arguments->seconds = cli_clock() - start;
    arguments->trained_samples = (arguments->done - first) * arguments->batch * micro;
    arguments->last_loss = mean_loss;
    arguments->last_accuracy = mean_accuracy;
    if (isatty(STDERR_FILENO) && !arguments->json) fputs("\r\033[K", stderr);
    if (arguments->checkpoint != NULL && arguments->done % arguments->every != 0)
        TN_TRY(train_save(arguments, error));
    return TN_OK;
}

/* --- how good it is --- */

static tn_status train_read_trained(void *self, const tn_graph *graph, tn_tensor_id tensor,
                                    void *bytes, uint64_t size, tn_error *error) {
    train_arguments *arguments = self; /* ids of the model are ids of the training graph */
    const tn_tensor *trained = tn_graph_tensor(arguments->training.graph, tensor);
    if (tn_graph_tensor(graph, tensor)->kind == TN_KIND_PARAMETER &&
        (trained->flags & TN_TENSOR_UPDATED) != 0 &&
        tn_engine_get_static(arguments->planned.engine, tensor, bytes, size, NULL) == TN_OK)
        return TN_OK;
    return tn_contents_read(arguments->contents, graph, tensor, bytes, size, error);
}

/* Scores of one sample or place: whether the label has the highest. Classes are the last axis of
 * rank 2 and 3, axis 1 above. */
static uint64_t train_count_right(const tn_array *scores, const tn_array *labels,
                                  uint64_t label_count) {
    uint32_t axis = scores->rank <= 3 ? scores->rank - 1 : 1;
    uint64_t classes = (uint64_t)scores->shape[axis], inner = 1, right = 0;
    for (uint32_t d = axis + 1; d < scores->rank; d++) inner *= (uint64_t)scores->shape[d];
    const float *values = scores->data;
    for (uint64_t i = 0; i < label_count; i++) {
        const float *at = values + (i / inner) * classes * inner + i % inner;
        uint64_t best = 0;
        for (uint64_t c = 1; c < classes; c++)
            if (at[c * inner] > at[best * inner]) best = c;
        right += best == (uint64_t)((const int64_t *)labels->data)[i];
    }
    return right;
}

static tn_status train_test_batches(train_arguments *arguments, tn_engine *engine, tn_array *scores,
                                    uint64_t room, tn_error *error) {
    const cli_set *set = &arguments->data.test;
    uint64_t window = arguments->labels_of_batch / arguments->batch, right = 0, seen = 0;
    tn_array *labels = &arguments->inputs[arguments->labels_at];
    uint64_t stride = arguments->data.text ? window : 1;
    uint64_t last =
        arguments->data.text ? (set->count > window ? set->count - window : 0) : set->count;
    for (uint64_t first = 0; first < last; first += arguments->batch * stride) {
        uint32_t real = 0; /* the last batch is filled up with its first sample, not counted */
        for (uint32_t i = 0; i < arguments->batch; i++) {
            bool there = first + i * stride < last;
            arguments->numbers[i] = there ? first + i * stride : first;
            real += there;
        }
        TN_TRY(cli_data_fill(&arguments->data, set, arguments->numbers, (uint32_t)arguments->batch,
                             &arguments->inputs[arguments->sample_at], labels, error));
        scores->bytes = room;
        TN_TRY(
            tn_engine_run(engine, &arguments->inputs[arguments->sample_at], 1, scores, 1, error));
        right += train_count_right(scores, labels, real * window);
        seen += real * window;
    }
    arguments->has_test = seen > 0;
    arguments->test_accuracy = seen > 0 ? (double)right / (double)seen : 0;
    return TN_OK;
}

/* The model as it is now, in inference, on the samples that were held out. */
static tn_status train_test(train_arguments *arguments, tn_error *error) {
    const tn_graph *graph = arguments->input.graph;
    const tn_block *block = tn_graph_block(graph, 0);
    tn_kernels_options which = TN_KERNELS_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn_kernels *kernels = NULL;
    tn_program *program = NULL;
    train_side side = {0};
    tn_array scores = {0};
    if (arguments->data.test.count == 0 || arguments->options.loss != TN_LOSS_CROSS_ENTROPY ||
        block->output_count != 1)
        return TN_OK;
    which.threads = arguments->threads;
    which.plain = arguments->plain;
    options.read = train_read_trained;
    options.self = arguments;
    tn_status status = tn_kernels_create(graph, &which, &kernels, error);
    if (status == TN_OK) {
        memory.workspaces = tn_kernels_workspaces(kernels);
        status = tn_program_plan(graph, NULL, &memory, NULL, &program, &side.occupancy,
                                 &side.layout, error);
    }
    if (status == TN_OK) status = tn_device_create(NULL, &side.device, error);
    if (status == TN_OK)
        status = tn_engine_create(side.occupancy, &side.layout, kernels, side.device, &options,
                                  &side.engine, error);
    if (status == TN_OK) status = train_array(graph, block->outputs[0], &scores, error);
    if (status == TN_OK && scores.dtype == TN_FLOAT32)
        status = train_test_batches(arguments, side.engine, &scores, scores.bytes, error);
    free(scores.data);
    tn_engine_destroy(side.engine);
    tn_device_destroy(side.device);
    tn_layout_release(&side.layout);
    tn_occupancy_destroy(side.occupancy);
    tn_program_destroy(program);
    tn_kernels_destroy(kernels);
    return status;
}

/* Every bit of what was trained, against the engine without reuse. */
static tn_status train_compare(train_arguments *arguments, tn_error *error) {
    const tn_graph *graph = arguments->training.graph;
    if (!arguments->check) return TN_OK;
    for (uint32_t i = 0; i < arguments->kept_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, arguments->kept[i]);
        uint8_t *both = calloc(2, tensor->bytes + 1);
        if (both == NULL) return tn__no_memory(error, "a comparison");
        tn_status status = tn_engine_get_static(arguments->planned.engine, arguments->kept[i], both,
                                                tensor->bytes, error);
        if (status == TN_OK)
            status = tn_engine_get_static(arguments->naive.engine, arguments->kept[i],
                                          both + tensor->bytes, tensor->bytes, error);
        if (status == TN_OK && memcmp(both, both + tensor->bytes, tensor->bytes) != 0)
            status = tn__fail(error, TN_E_CONFLICT,
                              "'%.80s' differs from what training without reuse gives; please "
                              "report it",
                              tensor->name);
        free(both);
        TN_TRY(status);
    }
    return TN_OK;
}

/* --- telling --- */

static tn_status train_write(train_arguments *arguments, tn_error *error) {
    if (arguments->log_path != NULL) {
        if (arguments->log.failed) return tn__no_memory(error, "the log");
        TN_TRY(
            tn__file_write(arguments->log_path, arguments->log.data, arguments->log.size, error));
    }
    if (arguments->trace_path == NULL) return TN_OK;
    tn_report report = {.struct_size = sizeof report,
                        .input = arguments->input.path,
                        .problem = tn_occupancy_problem(arguments->planned.occupancy),
                        .occupancy = arguments->planned.occupancy,
                        .layout = &arguments->planned.layout,
                        .trace = arguments->trace};
    return tn_report_write(&report, arguments->trace_path, error);
}

static void train_print(const train_arguments *arguments) {
    tn_engine_usage usage;
    char size[TN_SIZE_TEXT_MAX];
    double speed =
        arguments->seconds > 0 ? (double)arguments->trained_samples / arguments->seconds : 0;
    tn_engine_measure(arguments->planned.engine, &usage);
    if (arguments->json) {
        printf("{\"format\":\"tenure-train\",\"version\":1,\"planned_peak\":%" PRIu64
               ",\"measured_peak\":%" PRIu64 ",\"arena\":%" PRIu64 ",\"weights\":%" PRIu64
               ",\"steps\":%" PRIu64 ",\"loss\":%.9g,\"accuracy\":%.9g",
               usage.planned_peak, usage.measured_peak, usage.arena, usage.static_bytes,
               arguments->done, arguments->last_loss, arguments->last_accuracy);
        if (arguments->has_test) printf(",\"test_accuracy\":%.9g", arguments->test_accuracy);
        if (arguments->check) printf(",\"check\":{\"naive\":\"equal\"}");
        if (arguments->poison) printf(",\"poison\":\"clean\"");
        printf(",\"seconds\":%.6f,\"samples_per_s\":%.3f,\"threads\":%u}\n", arguments->seconds,
               speed, arguments->threads);
        return;
    }
    printf("%-15s %s\n", "planned peak", tn_size_format(usage.planned_peak, size));
    printf("%-15s %s\n", "measured peak", tn_size_format(usage.measured_peak, size));
    printf("%-15s %s\n", "static memory", tn_size_format(usage.static_bytes, size));
    printf("%-15s %" PRIu64 ", %.0f samples/s, %u thread%s\n", "steps", arguments->done, speed,
           arguments->threads, arguments->threads == 1 ? "" : "s");
    printf("%-15s %.4f (mean of the last %u steps)\n", "loss", arguments->last_loss, TRAIN_SEEN);
    if (arguments->correct_at != TN_NONE)
        printf("%-15s %.2f %%\n", "accuracy", 100 * arguments->last_accuracy);
    if (arguments->has_test)
        printf("%-15s %.2f %%\n", "on test samples", 100 * arguments->test_accuracy);
    if (arguments->check) printf("%-15s every bit equal without reuse\n", "check naive");
    if (arguments->poison) printf("%-15s clean\n", "poison");
}

/* --- the whole --- */

static tn_status train_model(train_arguments *arguments, tn_error *error) {
    tn__text_init(&arguments->log, NULL);
    tn__text_put(&arguments->log, "step,loss,correct\n");
    TN_TRY(cli_data_load(arguments->data_path, &arguments->data, error));
    TN_TRY(train_load(arguments, error));
    TN_TRY(train_plan(arguments, error));
    TN_TRY(train_make_arrays(arguments, error));
    TN_TRY(train_list_kept(arguments, error));
    TN_TRY(train_open(arguments, error));
    TN_TRY(train_resume(arguments, error));
    TN_TRY(train_all(arguments, error));
    TN_TRY(train_compare(arguments, error));
    TN_TRY(train_test(arguments, error));
    TN_TRY(train_write(arguments, error));
    train_print(arguments);
    return TN_OK;
}

static void train_side_release(train_side *side) {
    tn_engine_destroy(side->engine);
    tn_device_destroy(side->device);
    tn_layout_release(&side->layout);
    tn_occupancy_destroy(side->occupancy);
}

static void train_release(train_arguments *arguments) {
    train_side_release(&arguments->planned);
    train_side_release(&arguments->naive);
    tn_program_destroy(arguments->program);
    tn_kernels_destroy(arguments->kernels);
    tn_training_release(&arguments->training);
    tn_contents_close(arguments->contents);
    tn_contents_close(arguments->fresh);
    tn_trace_destroy(arguments->trace);
    for (uint32_t i = 0; i < arguments->input_count; i++) free(arguments->inputs[i].data);
    for (uint32_t k = 0; k < arguments->output_count; k++) free(arguments->outputs[k].data);
    free(arguments->inputs);
    free(arguments->outputs);
    free(arguments->numbers);
    free(arguments->order);
    free(arguments->kept);
    tn__text_release(&arguments->log);
    cli_data_release(&arguments->data);
    cli_input_release(&arguments->input);
}

static int train_run(int count, char **words) {
    static const struct argp_child children[] = {{&cli_input_argp, 0, "Reading the model:", 0},
                                                 {0}};
    static const struct argp parser = {train_options, train_parse, "MODEL", train_doc,
                                       children,      0,           0};
    tn_context context = cli_context();
    train_arguments arguments = {
        .epochs = 1,
        .every = 100,
        .rate = 1e-3,
        .threads = 1,
        .input = {.import = TN_IMPORT_OPTIONS_INIT},
        .options = TN_TRAIN_OPTIONS_INIT,
        .plan = TN_PLAN_OPTIONS_INIT,
    };
    tn_error error = {0};
    arguments.options.optimizer = TN_OPTIMIZER_ADAM;
    arguments.input.import.context = arguments.plan.context = &context;
    argp_parse(&parser, count, words, 0, NULL, &arguments);
    int code = train_model(&arguments, &error) == TN_OK ? 0 : cli_fail(&error);
    train_release(&arguments);
    return cli_finish(code);
}

const cli_command cli_command_train = {
    .name = "train",
    .summary = "train a model in its planned arena",
    .run = train_run,
};
