/* train.c - `tenure train`: trains a model in its planned arena. */
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/command_line/combine.h"
#include "cli/model/input.h"
#include "cli/train/train.h"

#include <sys/stat.h>

enum {
    TRAIN_DATA = 400,
    TRAIN_BATCH,
    TRAIN_EPOCHS,
    TRAIN_STEPS,
    TRAIN_LR,
    TRAIN_FALL,
    TRAIN_WARMUP,
    TRAIN_PRUNE,
    TRAIN_PRUNED,
    TRAIN_CHECKPOINT,
    TRAIN_EVERY,
    TRAIN_RESUME,
    TRAIN_SAVE,
    TRAIN_LOG,
    TRAIN_PARALLEL,
    TRAIN_SEQUENCE,
    TRAIN_THREADS,
    TRAIN_ONLINE,
    TRAIN_EXPLAIN,
    TRAIN_JSON
};

#define TRAIN_OPTIONS(X)                                                                           \
    X(TRAIN_DATA, "data", "DATA",                                                                  \
      "training data: fashion-mnist[:DIR], text:FILE, X.npy,Y.npy[:XTEST.npy,YTEST.npy], or "      \
      "INPUT=FILE,...[:INPUT=FILE,...] for each input by its name, and labels=FILE if the loss "   \
      "takes labels (.npy, or idx: .idx, .gz)")                                                    \
    X(TRAIN_BATCH, "batch", "N",                                                                   \
      "samples per step of all ranks together (default: the size in the model for each rank, or "  \
      "64)")                                                                                       \
    X(TRAIN_EPOCHS, "epochs", "N", "number of passes over all samples (default: 1)")               \
    X(TRAIN_STEPS, "steps", "N", "total number of updates, instead of --epochs")                   \
    X(TRAIN_LR, "lr", "RATE", "learning rate (default: 1e-3)")                                     \
    X(TRAIN_FALL, "lr-schedule", "NAME",                                                           \
      "course of the learning rate: constant, or linear or cosine decay to 0 at the last step "    \
      "(default: constant)")                                                                       \
    X(TRAIN_WARMUP, "warmup", "N",                                                                 \
      "number of steps in which the learning rate rises to --lr (default: 0)")                     \
    X(TRAIN_PRUNE, "prune", "SHARE[:begin=N,end=N,every=N]",                                       \
      "prune weights while they are trained: after every so many steps from step begin on, set "   \
      "those of smallest magnitude to zero, until this fraction of each weight is zero at step "   \
      "end; they stay zero (default: 0; begin=0, end at three quarters of all steps, every 32nd "  \
      "part of the steps between)")                                                                \
    X(TRAIN_PRUNED, "prune-weights", "PATTERN",                                                    \
      "with --prune: prune the parameters that match this pattern " CLI_PATTERN                    \
      "; may be repeated "                                                                         \
      "(default: all float32 parameters of two or more extents)")                                  \
    X(TRAIN_CHECKPOINT, "checkpoint", "FILE",                                                      \
      "save the run to this file, so that --resume can continue it")                               \
    X(TRAIN_EVERY, "checkpoint-every", "N", "number of steps between checkpoints (default: 100)")  \
    X(TRAIN_RESUME, "resume", "FILE", "continue from a checkpoint, with bit-identical results")    \
    X(TRAIN_SAVE, "save-model", "FILE",                                                            \
      "write the model with its trained parameters as .onnx at the end; weights that it "          \
      "quantises "                                                                                 \
      "are stored as integers")                                                                    \
    X(TRAIN_LOG, "log", "FILE", "write the loss and the correct answers of each step as .csv")     \
    X(TRAIN_PARALLEL, "parallel", "data=N,tensor=N,pipeline=N",                                    \
      "division among ranks (mpirun -n N): data, each rank has an equal part of every batch; "     \
      "tensor, a part of every layer; pipeline, some of the layers, or interleave=N pieces of "    \
      "them, for --micro-batches in turn (default: all ranks for data, the others 1); serial or "  \
      "safe: see `tenure plan`")                                                                   \
    X(TRAIN_SEQUENCE, "sequence-parallel", NULL,                                                   \
      "also divide normalisations, dropout and residuals among tensor ranks")                      \
    X(TRAIN_THREADS, "ranks-as-threads", NULL,                                                     \
      "run the ranks as threads of this process, without mpirun")                                  \
    X(TRAIN_ONLINE, "online", "POLICY",                                                            \
      "meet --budget while the run goes on, without a search before it: capuchin runs the first "  \
      "step with copies to the host on demand over --link, measures it, and then swaps or "        \
      "recomputes as measured (default: a program is searched before the first step)")             \
    X(TRAIN_EXPLAIN, "explain", NULL,                                                              \
      "with --online: print each decision of the policy and each change of its feedback")          \
    X('o', "output", "FILE",                                                                       \
      "draw a step of all ranks over time, the prediction above the measurement: .html, .svg or "  \
      ".json; may be repeated")                                                                    \
    X(TRAIN_JSON, "json", NULL, "print one JSON object at the end")

static const struct argp_option train_options[] = {TRAIN_OPTIONS(CLI_OPTION){0}};

static void train_parse_parallel(cli_train *train, const char *value, struct argp_state *state) {
    bool safe = strcmp(value, "safe") == 0;
    tn_error error = {0};
    if (safe || strcmp(value, "serial") == 0) {
        train->input.occupancy_options.parallel = safe ? TN_PARALLEL_SAFE : TN_PARALLEL_SERIAL;
        return;
    }
    if (tn_grid_parse(value, &train->at.grid, &error) != TN_OK)
        cli_misuse(state, "--parallel: %s; or serial, or safe", error.message);
    train->divided = true;
}

/* Parses SHARE[:begin=N,end=N,every=N]. */
static void train_parse_prune(cli_train *train, const char *value, struct argp_state *state) {
    static const char *const names[] = {"begin", "end", "every"};
    tn_prune_schedule *prune = &train->prune;
    uint64_t *const numbers[] = {&prune->begin, &prune->end, &prune->every};
    size_t length = strcspn(value, ":");
    char part[64];
    *prune = (tn_prune_schedule){.pattern_count = prune->pattern_count};
    snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part - 1),
             value);
    prune->share = cli_share(state, "prune", part);
    if (!(prune->share < 1))
        cli_misuse(state, "--prune: the fraction must be at least 0 and below 1");
    for (const char *at = value + length; *at != '\0'; at += length) {
        size_t i = 0, name = strcspn(++at, "=");
        length = strcspn(at, ",");
        while (i < 3 && (strlen(names[i]) != name || strncmp(names[i], at, name) != 0)) i++;
        if (i == 3 || name >= length)
            cli_misuse(state, "--prune: '%s' is not begin=N, end=N or every=N", at);
        snprintf(part, sizeof part, "%.*s", (int)(length - name - 1), at + name + 1);
        *numbers[i] = i == 0 ? cli_range(state, "prune", part, 0, UINT32_MAX)
                             : cli_count(state, "prune", part, UINT32_MAX);
    }
    if (prune->end > 0 && prune->begin > prune->end)
        cli_misuse(state, "--prune: begin=%llu is after end=%llu", (unsigned long long)prune->begin,
                   (unsigned long long)prune->end);
}

static error_t train_parse_run(int key, char *value, struct argp_state *state) {
    cli_train *train = state->input;
    switch (key) {
    case TRAIN_DATA:
        train->data_path = value;
        return 0;
    case TRAIN_BATCH:
        train->batch = cli_count(state, "batch", value, UINT32_MAX);
        return 0;
    case TRAIN_EPOCHS:
        train->options.epochs = cli_count(state, "epochs", value, UINT32_MAX);
        return 0;
    case TRAIN_STEPS:
        train->options.steps = cli_count(state, "steps", value, UINT32_MAX);
        return 0;
    case TRAIN_LR:
        train->rate = cli_real(state, "lr", value);
        return 0;
    case TRAIN_FALL:
        train->options.schedule = tn_schedule_find(value);
        if (train->options.schedule == TN_SCHEDULE_COUNT)
            (void)CLI_CHOICE(state, "lr-schedule", value, "constant", "linear", "cosine");
        return 0;
    case TRAIN_WARMUP:
        train->options.warmup = cli_count(state, "warmup", value, UINT32_MAX);
        return 0;
    case TRAIN_PRUNE:
        train_parse_prune(train, value, state);
        return 0;
    case TRAIN_PRUNED:
        if (train->prune.pattern_count == CLI_FREEZE_MAX)
            cli_misuse(state, "--prune-weights: at most 64 patterns are supported");
        train->prune_patterns[train->prune.pattern_count++] = value;
        return 0;
    case TRAIN_CHECKPOINT:
        cli_path_once(state, "--checkpoint", &train->options.checkpoint, value);
        return 0;
    case TRAIN_EVERY:
        train->options.checkpoint_every = cli_count(state, "checkpoint-every", value, UINT32_MAX);
        return 0;
    case TRAIN_RESUME:
        train->options.resume = cli_standard_value(state, "--resume", value);
        return 0;
    case TRAIN_SAVE:
        cli_check_folder(state, "--save-model", value);
        cli_path_once(state, "--save-model", &train->model_path, value);
        return 0;
    case TRAIN_LOG:
        cli_path_once(state, "--log", &train->log_path, value);
        return 0;
    case TRAIN_PARALLEL:
        train_parse_parallel(train, value, state);
        return 0;
    case TRAIN_SEQUENCE:
        train->at.sequence = true;
        return 0;
    case TRAIN_THREADS:
        train->threads_as_ranks = true;
        return 0;
    case TRAIN_ONLINE:
        (void)CLI_CHOICE(state, "online", value, "capuchin");
        train->online_policy = value;
        return 0;
    case TRAIN_EXPLAIN:
        train->explain = true;
        return 0;
    case 'o':
        CLI_PATHS_ADD(state, "-o", value, &train->pictures, ".html", ".svg", ".json");
        return 0;
    case TRAIN_JSON:
        train->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Notes every file of --data as an input, so that no output may replace it. The parts of the value
 * are files, or NAME=FILE; parts that are no files have no effect. */
static void train_note_data(struct argp_state *state, const char *value) {
    char *parts = strdup(value), *rest = parts;
    /* without memory the files are not protected; the training fails soon anyway */
    for (char *part; rest != NULL && (part = strsep(&rest, ",:")) != NULL;) {
        char *equals = strchr(part, '=');
        const char *file = equals != NULL ? equals + 1 : part;
        (void)cli_standard_value(state, "--data", file);
        cli_note_input(part);
        cli_note_input(file);
    }
}

/* Refuses standard output for a file, because the table is printed there. */
static void train_check_standard(struct argp_state *state, const char *option, const char *path) {
    if (path != NULL && path[0] == '-' && (path[1] == '\0' || path[1] == '.'))
        cli_misuse(state, "%s: standard output has the table; give the name of a file", option);
}

/* Checks before a long training what would fail at its end. */
static void train_check_save(const cli_train *train, struct argp_state *state) {
    struct stat model, to;
    if (!tn__has_suffix(train->model_path, ".onnx"))
        cli_misuse(state, "--save-model: '%s' does not end in .onnx", train->model_path);
    if (train->options.checkpoint != NULL &&
        strcmp(train->options.checkpoint, train->model_path) == 0)
        cli_misuse(state, "--save-model: %s is the file of --checkpoint; choose another one",
                   train->model_path);
    if (!tn__has_suffix(train->input.path, ".onnx"))
        cli_misuse(state, "--save-model: only .onnx models can be written, and %s is none",
                   cli_shown_path(train->input.path));
    if (stat(train->input.path, &model) == 0 && stat(train->model_path, &to) == 0 &&
        model.st_dev == to.st_dev && model.st_ino == to.st_ino)
        cli_misuse(state, "--save-model: %s is the model itself; choose another file",
                   cli_shown_path(train->model_path));
}

static error_t train_parse(int key, char *value, struct argp_state *state) {
    cli_train *train = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &train->input;
        state->child_inputs[1] = &train->training;
        state->child_inputs[2] = &train->opened;
        state->child_inputs[3] = &train->at;
        state->child_inputs[4] = &train->input.streams;
        return 0;
    case ARGP_KEY_ARG:
        cli_input_take(&train->input, state, "model", value);
        return 0;
    case ARGP_KEY_END:
        if (train->input.path == NULL) cli_misuse(state, "which model?");
        if (train->data_path == NULL) cli_misuse(state, "no training data given; add --data");
        train_note_data(state, train->data_path);
        train_check_standard(state, "--checkpoint", train->options.checkpoint);
        train_check_standard(state, "--log", train->log_path);
        train_check_standard(state, "--save-model", train->model_path);
        if (train->model_path != NULL) train_check_save(train, state);
        if (train->training.options.optimizer == TN_OPTIMIZER_NONE)
            cli_misuse(state,
                       "--optimizer: none cannot train a model; use sgd, momentum, adam or adamw");
        cli_ranks_conditions(&train->at, cli_train_has_ranks(train));
        cli_condition_set(CLI_IF_SINGLE_PROCESS, !cli_ranks_started());
        return 0;
    default:
        return train_parse_run(key, value, state);
    }
}

static const char train_doc[] =
    "Trains MODEL, an ordinary .onnx file, in one arena of exactly the planned size.\v"
    "Examples:\n"
    "  tenure train cnn.onnx --data fashion-mnist --batch 64 --epochs 2 --optimizer adam --lr "
    "1e-3\n"
    "  tenure train cnn.onnx --data fashion-mnist --epochs 5 --lr 2e-3 --lr-schedule cosine\n"
    "  tenure train cnn.onnx --data x.npy,y.npy --steps 1000 --checkpoint run.ck\n"
    "  tenure train cnn.onnx --data x.npy,y.npy --steps 2000 --checkpoint run.ck --resume run.ck\n"
    "  tenure train pair.onnx --data left=a.npy,right=b.npy --loss output --freeze 'teacher.*'\n"
    "  tenure train lm.onnx --data text:book.txt --batch 16 --steps 500 --weights random:1\n"
    "  tenure train quantised.onnx --data x.npy,y.npy --steps 1000 --save-model int8.onnx\n"
    "  tenure train cnn.onnx --data x.npy,y.npy --steps 1000 --prune 90%:begin=100,end=800\n"
    "  tenure train cnn.onnx --data x.npy,y.npy --budget 64MiB --link 4GB/s --online capuchin\n"
    "  mpirun -n 4 tenure train cnn.onnx --data fashion-mnist --batch 64 --parallel data=4\n"
    "  mpirun -n 4 tenure train lm.onnx --data text:book.txt --batch 16 --parallel "
    "data=2,tensor=2\n"
    "  mpirun -n 4 tenure train lm.onnx --data text:book.txt --parallel data=4 --shard "
    "parameters\n"
    "  mpirun -n 4 tenure train lm.onnx --data text:book.txt --batch 16 --micro-batches 8 "
    "--parallel data=2,pipeline=2\n"
    "  tenure train lm.onnx --data text:book.txt --parallel data=2,tensor=2 --ranks-as-threads -o "
    "ranks.html\n\n"
    "Exit status: 0 trained; 1 the budget is too small, or the run violated the plan; 2 bad usage "
    "or input, or the loss is not a number; 4 internal error; 129, 130, 140, 143, 152 stopped by "
    "SIGHUP, SIGINT, SIGUSR2, SIGTERM or SIGXCPU, after a step and its checkpoint.";

static tn_status train_model(cli_train *train, tn_error *error) {
    TN_TRY(cli_train_open(train, error));
    cli_train_print_cut(train);
    const tn_trainer_state *state = train->state;
    if (state->done >= state->total && !train->json && cli_train_speaks(train)) {
        cli_prefix(CLI_NOTE);
        fprintf(stderr, "%s is at step %llu of %llu; no steps are left to train\n",
                train->options.resume, (unsigned long long)state->done,
                (unsigned long long)state->total);
    }
    TN_TRY(cli_train_all(train, error));
    TN_TRY(cli_train_measure(train, error));
    TN_TRY(cli_train_picture(train, error));
    if (train->signal == 0) TN_TRY(cli_train_test(train, error));
    if (train->signal == 0) TN_TRY(cli_train_save(train, error));
    if (!cli_train_speaks(train)) return TN_OK;
    if (train->signal != 0)
        cli_train_print_stopped(train);
    else
        TN_TRY(cli_train_print(train, error));
    return cli_train_end_log(train, error);
}

static const struct argp_child train_children[] = {
    {&cli_input_train_argp, 0, "Reading the model:", 0}, {&cli_training_argp, 0, "Training:", 0},
    {&cli_opened_model_argp, 0, "Running it:", 0},       {&cli_ranks_argp, 0, "Several ranks:", 0},
    {&cli_streams_argp, 0, "Streams and groups:", 0},    {0}};
static const struct argp train_parser = {train_options,  train_parse, "MODEL", train_doc,
                                         train_children, 0,           0};

static int train_run(int count, char **words) {
    tn_context context = cli_context();
    cli_train train = {
        .rate = 1e-3,
        .at = CLI_RANKS_INIT,
        .run = train_model,
        .input = {.import = TN_IMPORT_OPTIONS_INIT},
        .training = CLI_TRAINING_INIT,
        .opened = {.choices = CLI_CHOICES_INIT},
    };
    tn_error error = {0};
    train.opened.input = &train.input;
    train.input.import.context = train.opened.choices.plan.context = &context;
    cli_parse(&cli_command_train, count, words, &train);
    cli_context_read(&context);
    int code;
    if (cli_train_has_ranks(&train)) {
        code = cli_train_world(&train);
    } else {
        code = train_model(&train, &error) == TN_OK ? 0 : cli_fail(&error);
        if (code != 0) cli_claims_holders(&train.opened.answer);
    }
    if (code == 0 && train.signal != 0)
        /* the exit status that a shell reports for a process ended by this signal */
        code = 128 + train.signal;
    cli_train_close(&train);
    return cli_finish(code);
}

const cli_command cli_command_train = {
    .name = "train",
    .summary = "train a model in its planned arena",
    .first = "data batch epochs optimizer lr budget checkpoint resume threads json",
    .answers = (const cli_facts *const[]){&cli_train_facts, NULL},
    .parser = &train_parser,
    .has_ranks = true,
    .run = train_run,
};
