/* train_run.c - a training run from start to end, on one rank or on several. */
#include "base/base.h"
#include "cli/model/input.h"
#include "cli/train/train.h"

#include <signal.h>

/* --- several ranks --- */

/* `tenure train --parallel data=N,tensor=N,pipeline=N` runs on several ranks. Each rank has a part
 * of every batch (data), a part of every layer (tensor), or some of the layers (pipeline). All
 * ranks execute this code; only rank 0 prints, draws and tests. training.c divides the options of
 * the step and the program. Before a rank waits for another one, all ranks agree twice that they
 * can begin: after planning and after opening the engine. An error is therefore printed once, and
 * all ranks end with one exit status. */

bool cli_train_speaks(const cli_train *train) {
    return train->world == NULL || tn_world_rank(train->world) == 0;
}

uint32_t cli_train_ranks(const cli_train *train) {
    return train->world == NULL ? 1 : tn_world_ranks(train->world);
}

static uint32_t train_parts(const cli_train *train) { return train->at.grid.data; }

/* Ranks with different samples add multiples of this number to the seed, so that they draw
 * different random numbers. Ranks that have parts of one model keep a common seed. */
#define RANKS_SEED UINT64_C(0x9e3779b97f4a7c15)

static tn_status train_join(cli_train *train, tn_error *error) {
    tn_train_options *options = &train->training.options;
    if (train->world == NULL) return TN_OK;
    train->at.rank = tn_world_rank(train->world);
    if (!train->divided) train->at.grid.data = tn_world_ranks(train->world);
    TN_TRY(tn_world_grid(train->world, &train->at.grid, error));
    train->opened.exchange = train->options.exchange = tn_world_exchange(train->world);
    train->options.group = cli_ranks_group(&train->at, TN_GRID_DATA);
    train->options.tensor_group = cli_ranks_group(&train->at, TN_GRID_TENSOR);
    train->options.pipeline_group = cli_ranks_group(&train->at, TN_GRID_PIPELINE);
    train->at.step = &train->opened.step;
    train->at.rules = &train->input.rules;
    options->seed += RANKS_SEED * tn_grid_place(&train->at.grid, train->at.rank).data;
    TN_TRY(cli_ranks_step(&train->at, options, error));
    TN_TRY(cli_ranks_join(&train->at, train->world, train->input.import.context, error));
    if (tn_grid_ranks(&train->at.grid) == 1) return TN_OK;
    train->divide =
        (tn_divide){cli_ranks_divide, &train->at, .arranges = train->at.grid.pipeline > 1};
    train->opened.divide = &train->divide;
    return TN_OK;
}

tn_status cli_train_agree(cli_train *train, tn_status status, tn_error *error) {
    return train->world == NULL ? status : tn_world_agree(train->world, status, error);
}

static tn_status train_alike(cli_train *train, tn_error *error) {
    const tn_world_same same = {"picture (-o)", train->pictures.count > 0};
    if (train->world == NULL) return TN_OK;
    TN_TRY(tn_world_compare(train->world, &same, 1, error));
    return tn_world_alike(train->world, tn_setup_program(train->opened.setup), train->opened.seed,
                          error);
}

/* --- several ranks: collecting measurements at the end --- */

tn_status cli_train_measure(cli_train *train, tn_error *error) {
    if (train->world == NULL) return TN_OK;
    const tn_exchange *to = tn_world_exchange(train->world);
    uint32_t ranks = cli_train_ranks(train);
    cli_rank *all = tn__alloc_array(train->input.import.context, ranks, sizeof *all);
    tn_engine_usage usage;
    if (all == NULL) return tn__no_memory(error, "the measurements of ranks");
    tn_engine_measure(train->opened.engine, &usage);
    const tn_world_usage sent = tn_world_measure(train->world);
    all[to->rank] = (cli_rank){.planned = usage.planned_peak,
                               .measured = usage.measured_peak,
                               .statics = usage.static_bytes,
                               .messages = sent.messages,
                               .bytes = sent.bytes,
                               .step_messages = sent.messages - train->begun.messages,
                               .step_bytes = sent.bytes - train->begun.bytes,
                               .direct_bytes = sent.direct_bytes - train->begun.direct_bytes,
                               .talk_s = usage.talk_seconds,
                               .stall_s = usage.stall_seconds,
                               .idle = {-1, -1}};
    tn_status status = to->gather(to->self, 0, &all[to->rank], all, sizeof *all, error);
    train->ranks = all;
    return status;
}

/* --- several ranks: starting the world --- */

static tn_status ranks_one(void *self, tn_world *world, tn_error *error) {
    cli_train *given = self, train = *given;
    tn_context context = *given->input.import.context;
    bool speaks = tn_world_rank(world) == 0;
    if (!speaks) {
        context.log = NULL;
        context.progress = NULL;
        train.opened.traces.count = 0;
        train.log_path = NULL;
    }
    train.world = world;
    train.opened.input = &train.input;
    train.input.import.context = train.opened.choices.plan.context = &context;
    tn_status status = train.run(&train, error);
    if (speaks || !given->threads_as_ranks) given->signal = train.signal;
    cli_train_close(&train);
    return status;
}

static int ranks_print(void *self, tn_status status, const tn_error *error) {
    (void)self;
    (void)status;
    return cli_fail(error);
}

bool cli_train_has_ranks(const cli_train *train) {
    return train->divided || train->threads_as_ranks || cli_ranks_started();
}

int cli_train_world(cli_train *train) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error = {0};
    options.context = train->input.import.context;
    options.driver = train->threads_as_ranks ? "threads" : NULL;
    options.ranks = train->divided ? tn_grid_ranks(&train->at.grid) : 0;
    options.tell = ranks_print;
    if (!train->threads_as_ranks && getenv("OMPI_COMM_WORLD_SIZE") == NULL && options.ranks > 1) {
        tn__fail(&error, TN_E_INVALID,
                 "%u ranks are requested, but only one process runs; start them with `mpirun -n %u "
                 "tenure ...`, or add --ranks-as-threads",
                 options.ranks, options.ranks);
        return cli_fail(&error);
    }
    return tn_status_exit_code(tn_world_run(&options, ranks_one, train, &error));
}

/* --- opening a run --- */

/* Sets *share to the number of samples per step of one rank. A batch that cannot be divided equally
 * is an error. */
static tn_status run_share(const cli_train *train, uint64_t batch, int64_t *share,
                           tn_error *error) {
    uint32_t parts = train_parts(train);
    *share = (int64_t)(batch / parts);
    if (batch % parts == 0) return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "a batch of %llu cannot be divided equally among %u ranks; choose a multiple",
            (unsigned long long)batch, parts);
}

/* Loads the model with the batch size of one rank, which is the first dimension of the inputs. That
 * is --batch divided among the data-parallel ranks. Without --batch it is the size in the model, or
 * CLI_BATCH_USUAL divided among them if that is a symbol. */
static tn_status run_load(cli_train *train, tn_error *error) {
    cli_input *input = &train->input;
    TN_TRY(run_share(train, train->batch, &input->import.batch, error));
    int64_t share = input->import.batch;
    tn_status status = tn_graph_load(input->path, &input->import, &input->graph, error);
    if (status == TN_E_UNKNOWN && train->batch == 0) {
        /* the first error is kept, because it names all unknown symbols of the model */
        tn_error first = *error;
        TN_TRY(run_share(train, CLI_BATCH_USUAL, &input->import.batch, error));
        status = tn_graph_load(input->path, &input->import, &input->graph, error);
        if (status == TN_E_UNKNOWN) *error = first;
    }
    TN_TRY(status);
    const tn_block *block = tn_graph_block(input->graph, 0);
    const tn_tensor *first =
        block->input_count > 0 ? tn_graph_tensor(input->graph, block->inputs[0]) : NULL;
    if (first == NULL || first->rank == 0 || first->shape[0] < 1)
        TN_FAIL(error, TN_E_INVALID, "the model has no input for samples");
    if (train->batch > 0 && first->shape[0] != share)
        TN_FAIL(error, TN_E_INVALID,
                "the model has a fixed batch of %lld, not %lld; export it with a symbolic batch",
                (long long)first->shape[0], (long long)share);
    train->batch = (uint64_t)first->shape[0];
    return TN_OK;
}

static tn_status run_trace(void *self, tn_engine *engine, tn_error *error) {
    tn_engine_usage usage;
    const cli_train *train = self;
    tn_engine_measure(engine, &usage);
    return usage.run_count == 1 ? cli_opened_model_write_trace(&train->opened, error) : TN_OK;
}

static volatile sig_atomic_t run_signal; /* the signal that this process has received, or 0 */

static bool run_step(void *self, const tn_trainer_state *state) {
    cli_train *train = self;
    cli_train_log(train);
    if (state->done < state->total) train->signal = run_signal;
    if (train->signal == 0) cli_train_show(train);
    return train->signal == 0;
}

static tn_status run_trainer(cli_train *train, tn_error *error) {
    tn_trainer_options *options = &train->options;
    tn_train_options step;
    TN_TRY(cli_training_options(&train->training, train->input.graph, &step, error));
    options->struct_size = sizeof *options;
    options->context = train->input.import.context;
    options->train = &step; /* read only during the call */
    options->data = train->data;
    options->rate = train->rate > 0 ? train->rate : -1;
    options->seed = train->opened.seed;
    train->prune.patterns = train->prune_patterns;
    options->prune = train->prune.share > 0 ? &train->prune : NULL;
    options->step = run_step;
    options->ran = run_trace;
    options->self = train;
    options->contents = cli_opened_model_contents(&train->opened);
    options->twin = train->opened.check ? train->naive.engine : NULL;
    options->online = train->online;
    TN_TRY(tn_trainer_create(train->input.graph, &train->opened.step, train->engine, options,
                             &train->trainer, error));
    options->train = NULL;
    options->prune = NULL;
    train->state = tn_trainer_at(train->trainer);
    return TN_OK;
}

typedef struct run_filled { /* [inputs that data fills] */
    tn_tensor_id *ids;
    tn_tensor *tensors;
    tn_array *arrays;
} run_filled;

static tn_status run_fill(const cli_train *train, const tn_graph *graph, const tn_array *inputs,
                          uint32_t count, const run_filled *filled, tn_error *error) {
    const tn_training *made = &train->opened.step;
    const tn_block *block = tn_graph_block(graph, 0);
    tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
    tn_batches *batches;
    tn_array labels = {0};
    uint32_t at = 0;
    (void)tn_training_inputs(made, 0, filled->ids);
    for (uint32_t i = 0, k = 0; i < block->input_count; i++) {
        if (tn_tensor_is_static(tn_graph_tensor(graph, block->inputs[i]))) continue;
        if (k < count && block->inputs[i] == filled->ids[k]) filled->arrays[k++] = inputs[at];
        if (block->inputs[i] == made->labels) labels = inputs[at];
        at++;
    }
    for (uint32_t k = 0; k < count; k++)
        filled->tensors[k] = *tn_graph_tensor(graph, filled->ids[k]);
    options.context = train->input.import.context;
    options.seed = train->opened.seed;
    options.input_count = count;
    TN_TRY(tn_batches_create(train->data, filled->tensors,
                             made->labels != TN_NONE ? tn_graph_tensor(graph, made->labels) : NULL,
                             &options, &batches, error));
    tn_batches_fill(batches, 0, filled->arrays, &labels);
    tn_batches_destroy(batches);
    return TN_OK;
}

/* Fills the inputs of a run that counts zeros: the samples and labels of the first batch. All other
 * inputs stay 0. */
static tn_status run_samples(void *self, const tn_graph *graph, tn_array *inputs, uint32_t count,
                             tn_error *error) {
    const cli_train *train = self;
    const tn_context *context = train->input.import.context;
    const tn_training *made = &train->opened.step;
    uint32_t inputs_filled = tn_training_inputs(made, 0, NULL);
    run_filled room;
    if (inputs_filled == 0 || count == 0) return TN_OK;
    room.ids = tn__alloc_array(context, inputs_filled, sizeof *room.ids);
    room.tensors = tn__alloc_array(context, inputs_filled, sizeof *room.tensors);
    room.arrays = tn__alloc_array(context, inputs_filled, sizeof *room.arrays);
    bool has = room.ids != NULL && room.tensors != NULL && room.arrays != NULL;
    tn_status status = has ? run_fill(train, graph, inputs, inputs_filled, &room, error)
                           : tn__no_memory(error, "inputs");
    tn__free(context, room.ids, inputs_filled * sizeof *room.ids);
    tn__free(context, room.tensors, inputs_filled * sizeof *room.tensors);
    tn__free(context, room.arrays, inputs_filled * sizeof *room.arrays);
    return status;
}

static tn_status run_plan(cli_train *train, tn_error *error) {
    TN_TRY(tn_data_load(train->data_path, train->input.import.context, &train->data, error));
    TN_TRY(run_load(train, error));
    return cli_train_plan(train, error);
}

static tn_status run_engine(cli_train *train, tn_error *error) {
    cli_opened_model *opened = &train->opened;
    opened->traced = train->pictures.count > 0;
    TN_TRY(cli_opened_model_open_trace(opened, cli_train_picture_runs(train), error));
    TN_TRY(cli_train_start(train, &train->engine, error));
    return opened->check ? cli_opened_model_naive(opened, &train->naive, error) : TN_OK;
}

tn_status cli_train_open(cli_train *train, tn_error *error) {
    cli_opened_model *opened = &train->opened;
    train->training.options.seed = opened->seed;
    opened->training = &train->training;
    opened->samples = (cli_samples){run_samples, train};
    TN_TRY(train_join(train, error));
    TN_TRY(cli_train_agree(train, run_plan(train, error), error));
    TN_TRY(train_alike(train, error));
    TN_TRY(cli_train_agree(train, run_engine(train, error), error));
    /* no agreement is needed after run_trainer, because it communicates and so fails on all
     * ranks */
    TN_TRY(run_trainer(train, error));
    if (train->world != NULL) train->begun = tn_world_measure(train->world);
    return cli_train_open_log(train, error);
}

void cli_train_close(cli_train *train) {
    tn_trainer_destroy(train->trainer);
    tn_online_destroy(train->online);
    cli_opened_model_close(&train->naive);
    cli_opened_model_close(&train->opened);
    if (train->log != NULL) fclose(train->log);
    tn_data_destroy(train->data);
    if (train->ranks != NULL)
        tn__free(train->input.import.context, train->ranks,
                 tn_world_ranks(train->world) * sizeof *train->ranks);
    /* with several ranks, each rank has a copy of the input, and the command owns the options in
     * it */
    (train->world != NULL ? cli_input_release_loaded : cli_input_release)(&train->input);
}

/* --- performing the updates, and testing --- */

static void run_stop(int signal) {
    if (!cli_signal_repeats(signal)) run_signal = signal;
}

/* Installs the handlers of signals that stop the training. The first signal stops it after the
 * present step, and a later one ends the process at once. */
static void run_listen(void) {
    cli_on_signal(SIGINT, run_stop);
    cli_on_signal(SIGTERM, run_stop);
    cli_on_signal(SIGHUP, run_stop); /* SIGHUP is sent when the terminal is closed */
    /* SIGXCPU is sent at the soft limit of processor time; at the hard limit the kernel kills the
     * process */
    cli_on_signal(SIGXCPU, run_stop);
    /* SIGUSR2 is sent by job schedulers, and forwarded by mpirun to the ranks */
    cli_on_signal(SIGUSR2, run_stop);
}

tn_status cli_train_all(cli_train *train, tn_error *error) {
    run_listen();
    TN_TRY(tn_trainer_run(train->trainer, error));
    /* the signal came after the last step, so nothing was stopped */
    if (!train->state->stopped) train->signal = 0;
    /* if this rank received no signal, another rank did */
    if (train->state->stopped && train->signal == 0)
        train->signal = run_signal != 0 ? run_signal : SIGTERM;
    cli_train_show_end(train);
    return TN_OK;
}

/* Returns the trained model, not opened: its parameters are those of the trainer, and all others
 * come from the sources of the training, which own them. */
static cli_opened_model run_trained(const cli_train *train, cli_input *input) {
    return (cli_opened_model){.input = input,
                              .trained = train->trainer,
                              .contents = train->opened.contents,
                              .kept = train->opened.kept,
                              .weights = train->opened.weights,
                              .choices = train->opened.choices,
                              .plain = train->opened.plain};
}

tn_status cli_train_test(cli_train *train, tn_error *error) {
    if (!tn_trainer_tests(train->trainer)) return TN_OK;
    TN_TRY(tn_trainer_gather(train->trainer, error));
    if (!cli_train_speaks(train)) return TN_OK;
    cli_input input = train->input;
    /* the rules are for the training step, but the model itself is tested */
    input.rules = (tn_rules){0};
    cli_opened_model opened = run_trained(train, &input);
    cli_train_show_test(train);
    tn_status status = cli_opened_model_plan(&opened, error);
    if (status == TN_OK) status = cli_opened_model_start(&opened, error);
    if (status == TN_OK)
        status =
            tn_trainer_test_on(train->trainer, opened.graph, opened.engine, &train->score, error);
    opened.weights = NULL; /* the training's */
    cli_opened_model_close(&opened);
    cli_train_show_end(train);
    return status;
}

tn_status cli_train_save(cli_train *train, tn_error *error) {
    if (train->model_path == NULL) return TN_OK;
    TN_TRY(tn_trainer_gather(train->trainer, error));
    if (!cli_train_speaks(train)) return TN_OK;
    cli_opened_model opened = run_trained(train, &train->input);
    const tn_contents_of contents = cli_opened_model_contents(&opened);
    return tn_model_write(train->input.path, train->input.graph, &contents, train->model_path,
                          &train->written, error);
}
