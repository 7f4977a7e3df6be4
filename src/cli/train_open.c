/* train_open.c - from options to a training run that can take its first step. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train.h"

/* The batch is the first extent of the inputs: as asked for; else the model's own, or 64 where it
 * has only a symbol for it. */
static tn_status open_model(cli_train *train, tn_error *error) {
    cli_input *input = &train->input;
    input->import.batch = (int64_t)train->batch;
    tn_status status = tn_graph_load(input->path, &input->import, &input->graph, error);
    if (status == TN_E_UNKNOWN && train->batch == 0) {
        tn_error first = *error; /* names the symbols, if the batch is not all that is missing */
        input->import.batch = CLI_BATCH_USUAL;
        status = tn_graph_load(input->path, &input->import, &input->graph, error);
        if (status == TN_E_UNKNOWN) *error = first;
    }
    TN_TRY(status);
    const tn_block *block = tn_graph_block(input->graph, 0);
    const tn_tensor *first =
        block->input_count > 0 ? tn_graph_tensor(input->graph, block->inputs[0]) : NULL;
    if (first == NULL || first->rank == 0 || first->shape[0] < 1)
        TN_FAIL(error, TN_E_INVALID, "the model has no input of samples");
    if (train->batch > 0 && first->shape[0] != (int64_t)train->batch)
        TN_FAIL(error, TN_E_INVALID,
                "the model takes %lld samples at once, not %llu; export it with a symbolic batch",
                (long long)first->shape[0], (unsigned long long)train->batch);
    train->batch = (uint64_t)first->shape[0];
    return TN_OK;
}

/* --- arrays --- */

/* What the labels are below, with a loss of classes; else 0. */
static int64_t open_classes(const cli_train *train) {
    const tn_graph *graph = train->input.graph;
    const tn_tensor *scores = tn_graph_tensor(graph, tn_graph_block(graph, 0)->outputs[0]);
    if (train->training.options.loss != TN_LOSS_CROSS_ENTROPY) return 0;
    return scores->shape[tn_loss_axis(scores->rank, scores->shape)];
}

static tn_status open_input(cli_train *train, tn_tensor_id id, tn_error *error) {
    const tn_training *step = &train->session.step;
    const tn_tensor *tensor = tn_graph_tensor(step->graph, id);
    if (tn_tensor_is_static(tensor)) return TN_OK;
    uint32_t at = train->arrays.input_count;
    TN_TRY(cli_array_make(tensor, &train->arrays.inputs[at], error));
    train->arrays.input_count++;
    if (id == step->labels)
        train->labels_at = at;
    else if (id == step->learning_rate)
        train->rate_at = at;
    else if (id == step->step)
        train->step_at = at;
    else if (id == step->micro)
        train->micro_at = at;
    else if (train->sample_at == TN_NONE) {
        train->sample_at = at;
        train->samples = id;
    } else
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the data fills one input of the model, and '%.80s' is another; --value gives it "
                "contents that stay",
                tensor->name);
    return TN_OK;
}

static tn_status open_arrays(cli_train *train, tn_error *error) {
    const tn_training *step = &train->session.step;
    const tn_block *block = tn_graph_block(step->graph, 0);
    cli_arrays *arrays = &train->arrays;
    arrays->inputs = calloc((size_t)block->input_count + 1, sizeof *arrays->inputs);
    train->numbers = calloc(train->batch, sizeof *train->numbers);
    train->order = calloc(train->data.text ? 1 : train->data.train.count, sizeof *train->order);
    if (arrays->inputs == NULL || train->numbers == NULL || train->order == NULL)
        return tn__no_memory(error, "batches");
    train->sample_at = train->labels_at = train->rate_at = train->step_at = train->micro_at =
        train->loss_at = train->correct_at = train->order_epoch = TN_NONE;
    for (uint32_t i = 0; i < block->input_count; i++)
        TN_TRY(open_input(train, block->inputs[i], error));
    TN_TRY(cli_arrays_outputs(step->graph, arrays, error));
    for (uint32_t k = 0; k < block->output_count; k++) {
        if (block->outputs[k] == step->loss) train->loss_at = k;
        if (block->outputs[k] == step->correct) train->correct_at = k;
    }
    if (train->sample_at == TN_NONE || train->labels_at == TN_NONE)
        TN_FAIL(error, TN_E_INVALID, "the model takes no samples, or its loss no labels");
    const tn_tensor *labels = tn_graph_tensor(step->graph, step->labels);
    train->window = labels->bytes * 8 / tn_dtype_bits(labels->dtype) / train->batch;
    return cli_data_check(&train->data, tn_graph_tensor(step->graph, train->samples), labels,
                          open_classes(train), error);
}

/* How many steps there are. */
static tn_status open_steps(cli_train *train, tn_error *error) {
    uint64_t count = train->data.train.count;
    if (train->data.text && count <= train->window)
        TN_FAIL(error, TN_E_INVALID,
                "%.200s has %llu bytes to train on; the model reads %llu and the next one",
                train->data.train.samples_path, (unsigned long long)count,
                (unsigned long long)train->window);
    train->per_epoch = count / (train->batch * (train->data.text ? train->window : 1));
    if (train->per_epoch == 0)
        TN_FAIL(error, TN_E_INVALID, "%llu samples do not fill a batch of %llu",
                (unsigned long long)count, (unsigned long long)train->batch);
    train->total =
        train->steps > 0 ? train->steps : train->epochs * (train->per_epoch / train->micro);
    if (train->total == 0)
        TN_FAIL(error, TN_E_INVALID, "%llu batches in an epoch do not make one update of %u",
                (unsigned long long)train->per_epoch, train->micro);
    return TN_OK;
}

/* --- checkpoints --- */

static void open_keep(cli_train *train, tn_tensor_id id, cli_role role) {
    if (id == TN_NONE) return;
    train->roles[train->kept_count] = role;
    train->kept[train->kept_count++] = id;
}

/* Parameters that no gradient reaches keep what they have: worth a word, or an error. */
static tn_status open_reached(const cli_train *train, tn_error *error) {
    const tn_training *step = &train->session.step;
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
    cli_note(note);
    return TN_OK;
}

static tn_status open_kept(cli_train *train, tn_error *error) {
    const tn_training *step = &train->session.step;
    size_t room = 4 * (size_t)step->parameter_count + step->statistic_count + 2;
    train->kept = calloc(room, sizeof *train->kept);
    train->roles = calloc(room, sizeof *train->roles);
    if (train->kept == NULL || train->roles == NULL) return tn__no_memory(error, "a checkpoint");
    for (uint32_t i = 0; i < step->parameter_count; i++) {
        open_keep(train, step->parameters[i].parameter, CLI_ROLE_PARAMETER);
        open_keep(train, step->parameters[i].state[0], CLI_ROLE_STATE);
        open_keep(train, step->parameters[i].state[1], CLI_ROLE_STATE);
        open_keep(train, step->parameters[i].sum, CLI_ROLE_STATE);
    }
    for (uint32_t i = 0; i < step->statistic_count; i++)
        open_keep(train, step->statistics[i], CLI_ROLE_STATISTIC);
    open_keep(train, step->loss_scale, CLI_ROLE_STATE);
    return TN_OK;
}

static cli_progress_of_run open_progress(const cli_train *train) {
    const tn_train_options *options = &train->training.options;
    return (cli_progress_of_run){
        .step = train->done,
        .seed = train->session.seed,
        .batch = train->batch,
        .micro_batches = train->micro,
        .samples = train->data.train.count,
        .optimizer = (uint32_t)options->optimizer,
        .dtype = (uint32_t)(options->dtype != TN_UNDEFINED ? options->dtype : TN_FLOAT32)};
}

tn_status cli_train_save(cli_train *train, tn_error *error) {
    cli_progress_of_run run = open_progress(train);
    double start = cli_clock();
    TN_TRY(cli_checkpoint_save(train->checkpoint, train->session.engine, train->session.graph,
                               train->kept, train->roles, train->kept_count, &run,
                               &train->save_bytes, error));
    train->save_seconds += cli_clock() - start;
    train->saved++;
    return TN_OK;
}

static tn_status open_resumed(cli_train *train, tn_error *error) {
    cli_checkpoint checkpoint;
    cli_progress_of_run run = open_progress(train);
    const tn_graph *graph = train->session.graph;
    TN_TRY(cli_checkpoint_open(train->resume, &checkpoint, error));
    tn_status status =
        cli_checkpoint_restore(&checkpoint, train->session.engine, graph, train->kept, train->roles,
                               train->kept_count, &run, error);
    if (status == TN_OK && train->session.check)
        status = cli_checkpoint_restore(&checkpoint, train->naive.engine, graph, train->kept,
                                        train->roles, train->kept_count, &run, error);
    cli_checkpoint_close(&checkpoint);
    train->first = train->done = run.step;
    return status;
}

/* --- the log --- */

/* Begins anew; of a run that goes on, the rows before the checkpoint stay. */
static tn_status open_log(cli_train *train, tn_error *error) {
    char row[128];
    tn__text rows;
    if (train->log_path == NULL) return TN_OK;
    FILE *was = train->resume != NULL ? fopen(train->log_path, "r") : NULL;
    tn__text_init(&rows, NULL);
    tn__text_put(&rows, "step,loss,correct\n");
    while (was != NULL && fgets(row, sizeof row, was) != NULL)
        if (row[0] >= '0' && row[0] <= '9' && strtoull(row, NULL, 10) < train->first)
            tn__text_put(&rows, row);
    if (was != NULL) fclose(was);
    train->log = rows.failed ? NULL : fopen(train->log_path, "w");
    if (train->log != NULL) fwrite(rows.data, 1, rows.size, train->log);
    bool failed = rows.failed;
    tn__text_release(&rows);
    if (failed) return tn__no_memory(error, "the log");
    if (train->log == NULL)
        TN_FAIL(error, TN_E_IO, "cannot write %.200s: %s", train->log_path, strerror(errno));
    return TN_OK;
}

/* --- the whole --- */

tn_status cli_train_open(cli_train *train, tn_error *error) {
    cli_session *session = &train->session;
    uint32_t micro = train->training.options.micro_batches;
    train->micro = micro > 0 ? micro : 1;
    train->training.options.seed = session->seed;
    session->training = &train->training;
    TN_TRY(cli_data_load(train->data_path, &train->data, error));
    TN_TRY(open_model(train, error));
    TN_TRY(cli_session_plan(session, error));
    TN_TRY(open_arrays(train, error));
    TN_TRY(open_steps(train, error));
    TN_TRY(open_reached(train, error));
    TN_TRY(open_kept(train, error));
    TN_TRY(cli_session_open_trace(session, 1, error));
    TN_TRY(cli_session_open(session, error));
    if (session->check) TN_TRY(cli_session_naive(session, &train->naive, error));
    if (train->resume != NULL) TN_TRY(open_resumed(train, error));
    return open_log(train, error);
}

void cli_train_close(cli_train *train) {
    cli_session_close(&train->naive);
    cli_session_close(&train->session);
    cli_arrays_release(&train->arrays);
    free(train->numbers);
    free(train->order);
    free(train->kept);
    free(train->roles);
    if (train->log != NULL) fclose(train->log);
    cli_data_release(&train->data);
    cli_input_release(&train->input);
}
