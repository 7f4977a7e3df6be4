/* graph.c - `tenure estimate` for the graph of a model: the memory of its plan or of a pool, the
 * largest batch, changes that make the model fit, and the answer. */
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/estimate/estimate.h"
#include "report/format.h"

#include <math.h>
#include <stdio.h>

#define GRAPH_CHANGES_MOST 3u
/* if less than this fraction of the limit is free, a runtime may need more than the limit */
#define GRAPH_TIGHT 0.03
/* a network without normalisation operators but with at least this many convolutions probably had
 * its normalisation folded by the exporter */
#define GRAPH_FOLDED 8u

typedef struct graph_job {
    cli_estimate_request *request;
    bool max_batch;
    cli_estimate_result found;
    uint64_t most; /* the largest batch that fits, for --max-batch */
    cli_change changes[GRAPH_CHANGES_MOST];
    uint32_t change_count;
} graph_job;

/* --- the table of facts --- */

static const cli_facts graph_part_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "weights", "  weights", "parameters and constants"),
        CLI_FACT(BYTES, "gradients", "  gradients",
                 "gradients of parameters and of intermediate tensors"),
        CLI_FACT(BYTES, "optimizer_state", "  optimizer_state", "state of the optimizer"),
        CLI_FACT(BYTES, "activations", "  activations", "inputs, outputs and computed tensors"),
        CLI_FACT(BYTES, "workspace", "  workspace", "scratch memory of operators"),
        CLI_FACT(BYTES, "overhead", "  overhead",
                 "fragmentation, rounding, and reserved memory without data"),
        CLI_FACT(BYTES, "runtime", "  runtime", "bytes of the runtime, as given"), CLI_FACTS_END}};
static const cli_facts graph_packed_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "stored", "  stored", "their bytes in the file"),
        CLI_FACT(BYTES, "expanded", "  expanded", "their bytes after DequantizeLinear"),
        CLI_FACT(WORD, "counted", NULL,
                 "the counted bytes: stored, expanded, both, or mixed (not the same for all "
                 "weights)"),
        CLI_FACTS_END}};
static const cli_facts graph_peak_facts = {
    .rows = (const cli_fact[]){CLI_FACT(COUNT, "step", "peak", "step of the program"),
                               CLI_FACT(COUNT, "run", NULL, "run of the program, from 0"),
                               CLI_FACT(WORD, "operator", NULL, "type and name of the operator"),
                               CLI_FACTS_END}};
static const cli_facts graph_phase_facts = {.rows = (const cli_fact[]){
#define TN_X(name, text, meaning) CLI_FACT(BYTES, text, text, meaning),
                                                TN_PHASE_TABLE(TN_X)
#undef TN_X
                                                    CLI_FACTS_END}};
static const cli_facts graph_ranks_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "data", "ranks", "data-parallel ranks"),
        CLI_FACT(COUNT, "tensor", NULL, "tensor-parallel ranks"),
        CLI_FACT(COUNT, "pipeline", NULL, "pipeline stages"),
        CLI_FACT(COUNT, "interleave", NULL, "pieces of a stage"),
        CLI_FACT(WORD, "shard", NULL,
                 "none, optimizer, gradients or parameters: divided among data-parallel ranks"),
        CLI_FACTS_END}};
static const cli_facts graph_stage_facts = {
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_COLUMN(COUNT, "stage"), CLI_FACT(BYTES, "arena", "arena", "bytes of the arena"),
        CLI_FACT(BYTES, "static", "static memory", "bytes outside the arena"), CLI_FACTS_END}};
static const cli_facts graph_device_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "limit", "device", "bytes that it leaves to a program"),
        CLI_FACT(BYTES, "memory", NULL, "bytes of the device by its data sheet"),
        CLI_FACT(BYTES, "usable", NULL, "bytes that its driver offers"),
        CLI_FACT(BYTES, "context", NULL,
                 "bytes of its context, not in `limit`; 0 with --runtime, which replaces them"),
        CLI_FACT(WORD, "name", NULL, "its name in `tenure list hardware`"), CLI_FACTS_END}};
const cli_facts cli_estimate_facts = {
    .name = "estimate",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model"),
        CLI_FACT(YES, "train", NULL, "whether a training step was estimated"),
        CLI_FACT(WORD, "training_of", "training", "with --train: tenure or pytorch; else null"),
        CLI_FACTS_ALSO(&cli_kernel_target_facts),
        CLI_FACT_BRIEF(BYTES, "total", "total", "@",
                       "peak bytes of arena, static memory and runtime; per rank, and of the "
                       "largest stage"),
        CLI_FACT_OF(OBJECT, "parts", "the bytes at the peak; their sum is `total`",
                    &graph_part_facts),
        CLI_FACT_OF(OBJECT, "packed_weights", "with quantised weights: their sizes",
                    &graph_packed_facts),
        CLI_FACT_OF(OBJECT, "peak", "the peak step", &graph_peak_facts),
        CLI_FACT(WORD, "pool", "pool", "with --pool: its name"),
        CLI_FACT(BYTES, "requested", "  requested", "with --pool: peak of the requested bytes"),
        CLI_FACT(BYTES, "allocated", "  allocated",
                 "with --pool: peak of the requests as the pool rounds them"),
        CLI_FACT(BYTES, "arena", "arena", "bytes of the arena; with --pool the reserved bytes"),
        CLI_FACT(BYTES, "static", NULL,
                 "bytes outside the arena: weights, optimizer state and constants"),
        CLI_FACT_OF(OBJECT, "phases",
                    "peak bytes of each phase; null: the program has no such phase, or its peak is "
                    "unknown",
                    &graph_phase_facts),
        CLI_FACT(REAL, "more_time", "fitted",
                 "with --budget, if activations are recomputed or moved: predicted extra time, as "
                 "a fraction"),
        CLI_FACT(BYTES, "host_bytes", "host", "host bytes for swapped tensors"),
        CLI_FACT(COUNT, "batch", "batch", "batch size of all ranks; 0: no batch dimension"),
        CLI_FACT(COUNT, "parameters", NULL, "number of parameters"),
        CLI_FACT_OF(OBJECT, "ranks", "with several ranks: their numbers", &graph_ranks_facts),
        CLI_FACT_OF(LIST, "stages", "with several pipeline stages: each of them",
                    &graph_stage_facts),
        CLI_FACT_OF(OBJECT, "device", "the device of --device", &graph_device_facts),
        CLI_FACT(YES, "fits", "fits", "whether it fits the device"),
        CLI_FACT_BRIEF(COUNT, "max_batch", "largest batch", ", largest batch @",
                       "with --max-batch: the largest batch that fits"),
        CLI_FACT_BRIEF(WORD, "verdict", NULL, ", @", "fits, tight or does not fit"),
        CLI_FACTS_ALSO(&cli_changes_facts),
        CLI_FACTS_END}};

/* --- words --- */

/* Returns the batch size of all ranks together for a batch size per rank. */
static uint64_t graph_all(const graph_job *job, uint64_t batch) {
    return tn__mul_sat(batch, job->request->ranks.grid.data);
}

/* Returns whether the model fits, but so tightly that a run may exceed the limit. */
static bool graph_is_tight(const graph_job *job) {
    double total = (double)job->found.estimate.total, limit = (double)job->request->limit;
    return job->found.fits && total > limit * (1 - GRAPH_TIGHT);
}

/* Returns whether the chosen kernels expand all quantised weights before the run. */
static bool graph_expands_all(const cli_estimate_result *found) {
    return found->expands == found->packed.fused + found->packed.apart;
}

/* Returns a word for the bytes of quantised weights that the estimate counts: the stored form, the
 * expanded form, both, or a mixture. */
static const char *graph_counted(const cli_estimate_result *found) {
    if (found->for_kernels)
        return found->expands == 0 ? "stored" : graph_expands_all(found) ? "expanded" : "mixed";
    return found->packed.apart == 0 ? "stored" : found->packed.fused == 0 ? "both" : "mixed";
}

static const char *graph_counted_why(const cli_estimate_result *found) {
    if (found->for_kernels && found->expands == 0)
        return "not counted: these kernels read the stored weights";
    if (found->for_kernels)
        return graph_expands_all(found)
                   ? "counted: these kernels expand the weights once, before the run"
                   : "counted for the weights that these kernels expand once, before the run";
    if (found->packed.apart == 0)
        return "not counted: no copy is needed if the runtime reads stored weights in MatMul";
    return found->packed.fused == 0
               ? "also counted: no operator reads these weights in their stored form"
               : "also counted for weights that no MatMul reads in their stored form";
}

static const char *graph_stored_why(const cli_estimate_result *found) {
    if (!found->for_kernels || found->expands == 0) return "counted";
    return graph_expands_all(found) ? "not counted"
                                    : "counted for weights that these kernels read so";
}

/* --- adding the facts to the answer --- */

/* Adds whether training is estimated, and for which runtime, Tenure or PyTorch. The numbers of
 * different runtimes cannot be compared. */
static void graph_add_training(cli_answer *answer, const graph_job *job) {
    const cli_estimate_request *request = job->request;
    const cli_estimate_result *found = &job->found;
    cli_add(answer, "train", request->train);
    if (!request->train) {
        cli_add_null(answer, "training_of");
        return;
    }
    cli_add_word(answer, "training_of", request->pytorch ? "pytorch" : "tenure");
    cli_add_as(
        answer, "%s",
        request->pytorch ? "eager PyTorch; without --as pytorch: Tenure's planned arena"
        : request->options.pool != NULL
            ? "from a pool; with --as pytorch: eager PyTorch"
            : "in Tenure's planned arena, as in `tenure train`; with --as pytorch: eager PyTorch");
    if (!found->normalises && found->convolutions >= GRAPH_FOLDED)
        cli_add_line(answer, "note",
                     "%u convolutions but no normalisation: an export for inference folds it away, "
                     "and real training then needs more memory; export in training mode",
                     found->convolutions);
}

static void graph_add_target(cli_answer *answer, const graph_job *job) {
    const cli_estimate_result *found = &job->found;
    if (job->request->pytorch) {
        cli_add_null(answer, "kernels");
        return;
    }
    const tn_report_kernels *kernels = found->for_kernels ? &found->kernels : NULL;
    cli_kernels_line(answer, kernels);
    cli_kernels_add(answer, kernels);
    if (found->pieces.operators > 0) cli_pieces_add(answer, &found->pieces, NAN);
}

static void graph_add_packed(cli_answer *answer, const cli_estimate_result *found) {
    if (found->packed.fused + found->packed.apart == 0) return;
    cli_answer_open(answer, "packed_weights");
    cli_add(answer, "stored", found->packed.stored);
    cli_add_more(answer, " in DequantizeLinear, %s", graph_stored_why(found));
    cli_add(answer, "expanded", found->packed.expanded);
    cli_add_more(answer, ", %s", graph_counted_why(found));
    cli_add_word(answer, "counted", graph_counted(found));
    cli_answer_close(answer);
}

static void graph_add_bytes(cli_answer *answer, const cli_estimate_result *found) {
    const tn_estimate *it = &found->estimate;
    cli_add(answer, "total", it->total);
    cli_answer_open(answer, "parts");
    for (uint32_t part = 0; part < TN_PART_COUNT; part++)
        cli_add_if(answer, tn_part_name((tn_part)part), it->part[part]);
    cli_answer_close(answer);
    graph_add_packed(answer, found);
    cli_answer_open(answer, "peak");
    cli_add(answer, "step", it->peak_step);
    cli_add_as(answer, "step %u of %u, %s%s", it->peak_step, found->steps, found->peak_op,
               it->peak_run > 0 ? ", of a later run" : "");
    cli_add(answer, "run", it->peak_run);
    cli_add_word(answer, "operator", found->peak_op);
    cli_answer_close(answer);
}

static void graph_add_places(cli_answer *answer, const char *pool, const tn_estimate *it) {
    if (pool != NULL) {
        cli_add_word(answer, "pool", pool);
        cli_add(answer, "requested", it->requested);
        cli_add(answer, "allocated", it->allocated);
    }
    cli_add(answer, "arena", it->arena);
    if (pool != NULL) cli_add_more(answer, ", reserved by the pool");
    cli_add(answer, "static", it->fixed);
    cli_answer_open(answer, "phases");
    for (uint32_t phase = 0; phase < TN_PHASE_COUNT; phase++)
        if (it->phase[phase] != TN_SIZE_UNKNOWN)
            cli_add(answer, tn_phase_name((tn_phase)phase), it->phase[phase]);
        else
            cli_add_null(answer, tn_phase_name((tn_phase)phase));
    cli_answer_close(answer);
}

static void graph_add_fitted(cli_answer *answer, const cli_estimate_result *found) {
    if (!found->fitted) return;
    cli_add_real(answer, "more_time", found->more_time);
    cli_add_as(answer, "%+.1f %% time predicted", 100 * found->more_time);
    cli_add_brief(answer, ", %+.1f %% time predicted", 100 * found->more_time);
    cli_add_if(answer, "host_bytes", found->host);
    cli_add_more(answer, ", for swapped tensors");
}

static void graph_add_stages(cli_answer *answer, const graph_job *job) {
    cli_answer_open(answer, "stages");
    for (uint32_t s = 0; s < job->request->ranks.grid.pipeline; s++) {
        cli_answer_open(answer, NULL);
        cli_add_cell(answer, "stage", "%u", s);
        cli_add(answer, "arena", job->found.stages[s].arena);
        cli_add(answer, "static", job->found.stages[s].fixed);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

static void graph_add_ranks(cli_answer *answer, const graph_job *job) {
    const tn_grid *grid = &job->request->ranks.grid;
    const char *shard = tn_shard_name(job->request->ranks.shard);
    bool shares = job->request->ranks.shard != TN_SHARD_NONE, staged = grid->pipeline > 1;
    if (tn_grid_ranks(grid) <= 1) return;
    cli_answer_open(answer, "ranks");
    cli_add(answer, "data", grid->data);
    cli_add_as(answer, "%u, data=%u, tensor=%u", tn_grid_ranks(grid), grid->data, grid->tensor);
    if (staged)
        cli_add_more(answer, ", pipeline=%u, interleave=%u", grid->pipeline, grid->interleave);
    cli_add_more(answer, "%s%s: sizes are per rank%s", shares ? ", shard " : "",
                 shares ? shard : "", staged ? " of the largest stage" : "");
    cli_add(answer, "tensor", grid->tensor);
    cli_add(answer, "pipeline", grid->pipeline);
    cli_add(answer, "interleave", grid->interleave);
    cli_add_word(answer, "shard", shard);
    cli_answer_close(answer);
    if (staged) graph_add_stages(answer, job);
}

static void graph_add_device(cli_answer *answer, const graph_job *job) {
    const tn_hardware *device = job->request->device;
    cli_answer_open(answer, "device");
    cli_add(answer, "limit", job->request->limit);
    if (device != NULL) {
        uint64_t context = device->usable - job->request->limit;
        char memory[TN__WORDS_MAX], part[TN__WORDS_MAX];
        cli_add_more(answer, " of %s, %s", tn__words_iec(device->memory, memory), device->title);
        if (context > 0)
            cli_add_more(answer, ", without %s for the context", tn__words_iec(context, part));
        cli_add(answer, "memory", device->memory);
        cli_add(answer, "usable", device->usable);
        cli_add(answer, "context", context);
        cli_add_word(answer, "name", device->name);
    }
    cli_answer_close(answer);
}

static void graph_add_fit(cli_answer *answer, const graph_job *job) {
    bool fits = job->found.fits, tight = graph_is_tight(job);
    if (job->request->limit == 0) return;
    graph_add_device(answer, job);
    cli_add(answer, "fits", fits);
    if (tight)
        cli_add_as(answer, "tight: %.1f %% is left, and a runtime needs more than the plan",
                   100 * (1 - (double)job->found.estimate.total / (double)job->request->limit));
    if (job->max_batch) cli_add(answer, "max_batch", graph_all(job, job->most));
    cli_add_word(answer, "verdict", !fits ? "does not fit" : tight ? "tight" : "fits");
    if (fits) return;
    if (job->change_count > 0) cli_add_brief(answer, " but with %s", job->changes[0].text);
    cli_changes_add(answer, job->changes, job->change_count);
}

static tn_status graph_print(const graph_job *job, bool json, tn_error *error) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_estimate_facts, json);
    cli_add_word(&answer, "input", cli_shown_path(job->request->input.path));
    graph_add_training(&answer, job);
    graph_add_target(&answer, job);
    graph_add_bytes(&answer, &job->found);
    graph_add_places(&answer, job->request->options.pool, &job->found.estimate);
    graph_add_fitted(&answer, &job->found);
    cli_add_if(&answer, "batch", graph_all(job, job->found.batch));
    cli_add(&answer, "parameters", job->found.parameters);
    graph_add_ranks(&answer, job);
    graph_add_fit(&answer, job);
    return cli_answer_end(&answer, error);
}

/* --- making and printing the estimate --- */

static tn_status graph_find(graph_job *job, tn_error *error) {
    cli_estimate_request *request = job->request;
    /* the estimate is for the largest batch that fits, or for a batch of 1 if none fits */
    if (job->max_batch) {
        TN_TRY(cli_estimate_max_batch(request, &job->most, error));
        request->batch = job->most > 0 ? job->most : 1;
    }
    TN_TRY(cli_estimate(request, &job->found, error));
    if (!job->found.fits)
        job->change_count =
            cli_estimate_changes(request, &job->found, job->changes, GRAPH_CHANGES_MOST);
    return TN_OK;
}

int cli_estimate_graph(cli_estimate_request *request, bool max_batch, bool json, tn_error *error) {
    graph_job job = {.request = request, .max_batch = max_batch};
    if (graph_find(&job, error) != TN_OK) return cli_fail(error);
    cli_progress_end();
    if (graph_print(&job, json, error) != TN_OK) return cli_fail(error);
    bool brief = cli_tone_asked().brief;
    for (uint32_t i = 0; i < request->output_count && !json && !brief; i++)
        printf("wrote %s\n", request->outputs[i]);
    return job.found.fits ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}
