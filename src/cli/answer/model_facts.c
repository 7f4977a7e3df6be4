/* model_facts.c - parts of answers that several commands print about a compiled model. */
#include "cli/answer/model_facts.h"
#include "base/base.h"
#include "cli/answer/holders.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- kernels --- */

static const char *pieces_words(const tn_scratch_report *scratch, char text[CLI_PIECES_MAX]) {
    char less[TN_SIZE_TEXT_MAX];
    text[0] = '\0';
    if (scratch != NULL)
        snprintf(text, CLI_PIECES_MAX, "%u operator%s in pieces: %s less", scratch->operators,
                 scratch->operators == 1 ? " runs" : "s run",
                 tn_size_format(scratch->before - scratch->after, less));
    return text;
}

const char *cli_pieces_words(const tn_setup *setup, char text[CLI_PIECES_MAX]) {
    return pieces_words(setup != NULL ? tn_setup_scratch(setup) : NULL, text);
}

static const cli_facts target_kernels_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "library", NULL, "onednn or plain"),
        CLI_FACT(WORD, "isa", NULL, "instruction set of oneDNN"),
        CLI_FACT(COUNT, "threads", NULL, "number of threads"),
        CLI_FACT(YES, "rewritten", NULL, "whether the graph is rewritten for them"),
        CLI_FACT(YES, "fastest", NULL, "whether the fastest kernels were chosen"), CLI_FACTS_END}};
static const cli_facts pieces_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "operators", "in pieces", "number of operators in pieces"),
        CLI_FACT(BYTES, "saved", NULL, "bytes of memory saved"),
        CLI_FACT(SECONDS, "seconds", NULL, "measured additional time of a run, or null"),
        CLI_FACTS_END}};
const cli_facts cli_kernels_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "kernels",
                    "the kernels of this machine that were planned for; null: the graph alone",
                    &target_kernels_facts),
        CLI_FACTS_END}};
const cli_facts cli_kernel_target_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACTS_ALSO(&cli_kernels_facts),
        CLI_FACT_OF(OBJECT, "in_pieces",
                    "operators that run in pieces, to need less scratch memory", &pieces_facts),
        CLI_FACTS_END}};

void cli_kernels_add(cli_answer *answer, const tn_report_kernels *kernels) {
    if (kernels == NULL) {
        cli_add_null(answer, "kernels");
        return;
    }
    cli_answer_open(answer, "kernels");
    cli_add_word(answer, "library", kernels->library);
    cli_add_word(answer, "isa", kernels->isa);
    cli_add(answer, "threads", kernels->threads);
    cli_add(answer, "rewritten", kernels->rewritten);
    cli_add(answer, "fastest", kernels->fastest);
    cli_answer_close(answer);
}

void cli_kernels_line(cli_answer *answer, const tn_report_kernels *kernels) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_whom(&text, kernels);
    cli_add_line(answer, "for", "%s", text.failed ? "" : text.data);
    tn__text_release(&text);
}

void cli_pieces_add(cli_answer *answer, const tn_scratch_report *scratch, double seconds) {
    char pieces[CLI_PIECES_MAX];
    cli_answer_open(answer, "in_pieces");
    cli_add(answer, "operators", scratch->operators);
    cli_add_as(answer, "%s", pieces_words(scratch, pieces));
    if (isfinite(seconds))
        cli_add_more(answer, ", %.3f ms %s", fabs(seconds) * 1e3, seconds < 0 ? "less" : "more");
    cli_add(answer, "saved", scratch->before - scratch->after);
    cli_add_real(answer, "seconds", seconds);
    cli_answer_close(answer);
}

void cli_kernel_target_add(cli_answer *answer, const cli_kernel_target *target,
                           const tn_setup *setup) {
    const tn_scratch_report *scratch = setup != NULL ? tn_setup_scratch(setup) : NULL;
    tn_report_kernels described;
    const tn_report_kernels *kernels = cli_kernel_target_report(target, setup, &described);
    double cost;
    /* the error is ignored: a machine may have too little memory to measure both variants */
    tn_error error;
    cli_kernels_line(answer, kernels);
    cli_kernels_add(answer, kernels);
    if (scratch == NULL) return;
    bool known = tn_setup_pieces_cost(setup, &cost, &error) == TN_OK;
    cli_pieces_add(answer, scratch, known ? cost : NAN);
}

/* --- operators in tiles --- */

double cli_split_extra(const tn_split_report *report) {
    double whole = (double)report->whole.flops;
    return whole > 0 ? (double)report->parts.flops / whole - 1 : 0;
}

uint64_t cli_split_moved(const tn_split_report *report) {
    uint64_t parts = report->parts.bytes_moved, whole = report->whole.bytes_moved;
    return parts > whole ? parts - whole : 0;
}

void cli_split_words(const tn_setup *setup, tn__text *text) {
    const tn_split_report *report = setup != NULL ? tn_setup_splits(setup) : NULL;
    char moved[TN_SIZE_TEXT_MAX];
    if (report == NULL) return;
    tn__text_printf(text, "%u region%s", report->count, report->count == 1 ? "" : "s");
    if (report->again_count > 0)
        tn__text_printf(text, ", %u tensor%s recomputed", report->again_count,
                        report->again_count == 1 ? "" : "s");
    tn__text_printf(text, ": %+.1f %% operations, %s more moved", 100 * cli_split_extra(report),
                    tn_size_format(cli_split_moved(report), moved));
}

static const cli_facts split_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "regions", "in parts", "regions of operators in tiles"),
        CLI_FACT(COUNT, "recomputed", NULL, "recomputed tensors"),
        CLI_FACT(SHARE, "extra_operations", NULL,
                 "additional operations, as a fraction of those of the model without tiles"),
        CLI_FACT(COUNT, "operations", NULL, "operations of the program with tiles"),
        CLI_FACT(BYTES, "more_bytes_moved", NULL,
                 "bytes read and written in addition to those of the program without tiles"),
        CLI_FACT(BYTES, "whole_arena", NULL, "bytes of the arena without tiles"), CLI_FACTS_END}};
const cli_facts cli_split_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "split", "with tiles: the tiles and their cost", &split_facts),
        CLI_FACTS_END}};

void cli_split_add(cli_answer *answer, const tn_setup *setup) {
    const tn_split_report *report = setup != NULL ? tn_setup_splits(setup) : NULL;
    char before[TN_SIZE_TEXT_MAX], after[TN_SIZE_TEXT_MAX];
    uint64_t arena = setup != NULL ? tn_setup_need(setup).arena : 0;
    tn__text words;
    if (report == NULL) return;
    tn__text_init(&words, NULL);
    cli_split_words(setup, &words);
    cli_answer_open(answer, "split");
    cli_add(answer, "regions", report->count);
    cli_add_as(answer, "%s; arena %s, whole %s (%.2f x)", words.failed ? "" : words.data,
               tn_size_format(arena, after), tn_size_format(report->whole_arena, before),
               arena > 0 ? (double)report->whole_arena / (double)arena : 0);
    cli_add(answer, "recomputed", report->again_count);
    cli_add_real(answer, "extra_operations", cli_split_extra(report));
    cli_add(answer, "operations", report->parts.flops);
    cli_add(answer, "more_bytes_moved", cli_split_moved(report));
    cli_add(answer, "whole_arena", report->whole_arena);
    cli_answer_close(answer);
    tn__text_release(&words);
}

/* --- weight streaming --- */

#define STREAM_PS 1e12

static const cli_facts stream_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "fetched_bytes", "streamed", "bytes read from the file in a run"),
        CLI_FACT(COUNT, "fetches", NULL, "reads in a run"),
        CLI_FACT(BYTES, "resident_bytes", NULL, "bytes of weights that stay in memory"),
        CLI_FACT(COUNT, "residents", NULL, "blocks of weights that stay"),
        CLI_FACT(BYTES, "forms_bytes", "packed, folded",
                 "bytes of packed or folded weights in a temporary file during the run"),
        CLI_FACT(REAL, "storage_bytes_per_s", "storage", "speed of the storage"),
        CLI_FACT(SECONDS, "predicted_s", "predicted", "predicted time of a run"),
        CLI_FACT(SECONDS, "predicted_stall_s", NULL, "part of it that waits for the file"),
        CLI_FACT(SECONDS, "resident_s", NULL, "predicted time if all weights stayed"),
        CLI_FACT(SECONDS, "waited_s", "waited", "time that the last run waited for the file"),
        CLI_FACT(SECONDS, "reading_s", NULL, "time that its reads took"), CLI_FACTS_END}};
const cli_facts cli_stream_facts = {
    .rows = (const cli_fact[]){CLI_FACT_OF(OBJECT, "streamed",
                                           "with streaming: weights read during the run",
                                           &stream_facts),
                               CLI_FACTS_END}};

/* timed: whether the time of a run is predicted, which it is not if it depends on the router of a
 * mixture of experts. */
static void stream_add_plan(cli_answer *answer, const tn_stream_result *streamed,
                            const tn_engine_usage *usage, bool timed) {
    const double stall = (double)streamed->stall / STREAM_PS;
    const double plain = (double)streamed->plain_time / STREAM_PS;
    char stay[TN_SIZE_TEXT_MAX];
    cli_add(answer, "fetched_bytes", streamed->fetched_bytes);
    cli_add_more(answer, " in %u reads; %s stay, %u blocks", streamed->fetches,
                 tn_size_format(streamed->resident_bytes, stay), streamed->residents);
    cli_add(answer, "fetches", streamed->fetches);
    cli_add(answer, "resident_bytes", streamed->resident_bytes);
    cli_add(answer, "residents", streamed->residents);
    if (usage != NULL && usage->forms_bytes > 0) {
        cli_add(answer, "forms_bytes", usage->forms_bytes);
        cli_add_more(answer, " in a temporary file during the run");
    }
    cli_add_real(answer, "storage_bytes_per_s", streamed->bytes_per_s);
    cli_add_as(answer, "%.2f GB/s", streamed->bytes_per_s / 1e9);
    if (!timed) return;
    cli_add_real(answer, "predicted_s", (double)streamed->time / STREAM_PS);
    cli_add_as(answer, "%.3f ms, of which %.3f ms wait for files; %.3f ms if all weights stayed",
               (double)streamed->time / STREAM_PS * 1e3, stall * 1e3, plain * 1e3);
    cli_add_real(answer, "predicted_stall_s", stall);
    cli_add_real(answer, "resident_s", plain);
}

void cli_stream_add(cli_answer *answer, const tn_setup *setup, const tn_engine_usage *usage) {
    const tn_stream_result *streamed = setup != NULL ? tn_setup_streamed(setup) : NULL;
    if (streamed == NULL) return;
    cli_answer_open(answer, "streamed");
    stream_add_plan(answer, streamed, usage, tn_setup_experts(setup) == NULL);
    if (usage != NULL) {
        cli_add_real(answer, "waited_s", usage->stall_seconds);
        cli_add_as(answer, "%.3f ms of the last run; reading took %.3f ms",
                   usage->stall_seconds * 1e3, usage->fetch_seconds * 1e3);
        cli_add_real(answer, "reading_s", usage->fetch_seconds);
    }
    cli_answer_close(answer);
}

/* --- experts in a cache --- */

#define EXPERTS_PLAN                                                                               \
    CLI_FACT(COUNT, "slots", "experts", "experts that the cache holds at the same time"),          \
        CLI_FACT(COUNT, "experts", NULL, "experts of all mixtures"),                               \
        CLI_FACT(COUNT, "mixtures", NULL, "operators that are mixtures of experts"),               \
        CLI_FACT(BYTES, "expert_bytes", NULL, "bytes of the largest expert"),                      \
        CLI_FACT(BYTES, "cache_bytes", NULL, "bytes of the cache with its tables"),                \
        CLI_FACT(BYTES, "bytes", NULL, "bytes of all experts")
static const cli_facts experts_planned_facts = {
    .width = 18, .rows = (const cli_fact[]){EXPERTS_PLAN, CLI_FACTS_END}};
static const cli_facts experts_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        EXPERTS_PLAN,
        CLI_FACT(BYTES, "forms_bytes", "  in a file",
                 "bytes of weights that no file has as kernels read them; they are in a temporary "
                 "file during the run"),
        CLI_FACT(COUNT, "uses", "expert uses",
                 "experts that operators used in the last run, each once per operator"),
        CLI_FACT(COUNT, "hits", NULL, "those in the cache, or already being read"),
        CLI_FACT(COUNT, "misses", NULL, "the others: read when the router had chosen them"),
        CLI_FACT(BYTES, "read_bytes", "expert reads", "bytes of experts read in the last run"),
        CLI_FACT(COUNT, "reads", NULL, "experts read in the last run, guessed ones included"),
        CLI_FACT(SECONDS, "waited_s", NULL, "time that operators waited for these reads"),
        CLI_FACT(COUNT, "guesses", "guesses",
                 "experts that were guessed for the next mixture in the last run"),
        CLI_FACT(COUNT, "right", NULL, "those that this mixture used"),
        CLI_FACT(COUNT, "withheld", NULL,
                 "guessed experts that were not in the cache and not read, because most of the "
                 "recent guesses were wrong"),
        CLI_FACTS_END}};
#define EXPERTS_SUMMARY "with experts that stay in their file: their cache"
const cli_facts cli_experts_planned_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "experts", EXPERTS_SUMMARY, &experts_planned_facts), CLI_FACTS_END}};
const cli_facts cli_experts_facts = {
    .rows = (const cli_fact[]){CLI_FACT_OF(OBJECT, "experts", EXPERTS_SUMMARY, &experts_facts),
                               CLI_FACTS_END}};

static void experts_add_run(cli_answer *answer, const tn_engine_usage *usage) {
    if (usage->forms_bytes > 0) {
        cli_add(answer, "forms_bytes", usage->forms_bytes);
        cli_add_more(answer, " in a temporary file during the run");
    }
    cli_add(answer, "uses", usage->row_uses);
    cli_add_more(answer, " in the last run: %" PRIu64 " hits, %" PRIu64 " misses", usage->row_hits,
                 usage->row_uses - usage->row_hits);
    cli_add(answer, "hits", usage->row_hits);
    cli_add(answer, "misses", usage->row_uses - usage->row_hits);
    cli_add(answer, "read_bytes", usage->row_bytes);
    cli_add_more(answer, " in %" PRIu64 " reads; operators waited %.3f ms for them",
                 usage->row_reads, usage->row_wait_seconds * 1e3);
    cli_add(answer, "reads", usage->row_reads);
    cli_add_real(answer, "waited_s", usage->row_wait_seconds);
    cli_add(answer, "guesses", usage->row_guesses);
    cli_add_more(answer, " experts for the next mixture, %" PRIu64 " of them right",
                 usage->row_right);
    if (usage->row_withheld > 0)
        cli_add_more(answer, "; %" PRIu64 " not read, because recent ones were wrong",
                     usage->row_withheld);
    cli_add(answer, "right", usage->row_right);
    cli_add(answer, "withheld", usage->row_withheld);
}

void cli_experts_add(cli_answer *answer, const tn_setup *setup, const tn_engine_usage *usage) {
    const tn_expert_cache *it = setup != NULL ? tn_setup_experts(setup) : NULL;
    char cache[TN_SIZE_TEXT_MAX], each[TN_SIZE_TEXT_MAX];
    if (it == NULL) return;
    cli_answer_open(answer, "experts");
    cli_add(answer, "slots", it->slots);
    cli_add_more(answer,
                 " of %" PRIu32 " in a cache of %s; one has %s; %" PRIu32 " operators use them",
                 it->experts, tn_size_format(it->cache_bytes, cache),
                 tn_size_format(it->expert_bytes, each), it->operators);
    cli_add(answer, "experts", it->experts);
    cli_add(answer, "mixtures", it->operators);
    cli_add(answer, "expert_bytes", it->expert_bytes);
    cli_add(answer, "cache_bytes", it->cache_bytes);
    cli_add(answer, "bytes", it->bytes);
    if (usage != NULL) experts_add_run(answer, usage);
    cli_answer_close(answer);
}

/* --- operators on streams --- */

const cli_facts cli_streams_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "streams", "streams",
                 "with --streams: number of streams whose kernels run at the same time; 1: one "
                 "kernel runs after the other"),
        CLI_FACT(COUNT, "stream_waits", NULL,
                 "with --streams: how often a stream waits for another one"),
        CLI_FACTS_END}};

void cli_streams_add(cli_answer *answer, const cli_streams *asked, const tn_setup *setup,
                     const tn_engine_usage *usage) {
    tn_program_streams_report report;
    tn_error unused;
    if (asked->count < 2 ||
        tn_program_streams_of(tn_setup_program(setup), NULL, &report, &unused) != TN_OK)
        return;
    cli_add(answer, "streams", usage->kernel_streams > 0 ? usage->kernel_streams : 1);
    if (usage->kernel_streams > 0)
        cli_add_more(answer, ", whose kernels run at the same time; %u waits between them",
                     report.waits);
    else if (report.streams < 2)
        cli_add_more(answer, ": all operators are on one stream");
    else
        cli_add_more(answer,
                     ": one kernel runs after the other, because an option observes single steps, "
                     "or an operator draws random numbers or has sizes that only the run knows");
    cli_add(answer, "stream_waits", report.waits);
}

/* --- errors of lossy codecs --- */

/* largest number of encoded tensors in the table; the JSON has all of them */
#define LOSSES_SHOWN 10u

static int losses_by_error(const void *a, const void *b) {
    const tn_engine_loss *x = a, *y = b;
    return (x->relative < y->relative) - (x->relative > y->relative);
}

void cli_losses_read(cli_losses *losses, const tn_engine *engine) {
    uint32_t count = engine != NULL ? tn_engine_losses(engine, NULL, 0) : 0;
    *losses = (cli_losses){.rows = calloc((size_t)count + 1, sizeof *losses->rows)};
    if (losses->rows == NULL || count == 0) return;
    losses->count = tn_engine_losses(engine, losses->rows, count);
    qsort(losses->rows, losses->count, sizeof *losses->rows, losses_by_error);
}

void cli_losses_release(cli_losses *losses) {
    free(losses->rows);
    *losses = (cli_losses){0};
}

static const cli_facts loss_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", "tensor", "name of the tensor"),
        CLI_FACT(WORD, "codec", "codec", "float16, float10 or float8"),
        CLI_FACT(BYTES, "bytes", "bytes", "bytes of the tensor"),
        CLI_FACT(BYTES, "form_bytes", "encoded", "bytes of its encoded form"),
        CLI_FACT(COUNT, "measured", "measured", "number of times that the error was measured"),
        CLI_FACT(COUNT, "kept", "kept",
                 "of these: how often it was above --max-error, so that the tensor was kept on the "
                 "host unencoded"),
        CLI_FACT(REAL, "largest", "largest difference",
                 "largest difference of an element; null: it is infinite"),
        CLI_FACT(SHARE, "relative", "relative error",
                 "norm of the difference / norm of the tensor, the largest that was measured; "
                 "null: it is infinite"),
        CLI_FACTS_END}};
const cli_facts cli_losses_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "losses",
                    "with lossy codecs: the error of each encoded tensor, the largest first; "
                    "measured in every 16th run from the first, with --max-error in every run",
                    &loss_facts),
        CLI_FACTS_END}};

void cli_losses_add(cli_answer *answer, const cli_losses *losses) {
    if (losses->count == 0) return;
    const tn_engine_loss *worst = &losses->rows[0];
    uint64_t kept = 0;
    for (uint32_t i = 0; i < losses->count; i++) kept += losses->rows[i].kept;
    cli_add_line(answer, "lossy forms", "%u tensor%s, relative error at most %.3g %%%s",
                 losses->count, losses->count == 1 ? "" : "s", 100 * worst->relative,
                 kept > 0 ? " (kept on the host where above --max-error)" : "");
    cli_answer_open(answer, "losses");
    for (uint32_t i = 0; i < losses->count; i++) {
        const tn_engine_loss *it = &losses->rows[i];
        if (i >= LOSSES_SHOWN && cli_answer_table(answer) != NULL) break;
        cli_answer_open(answer, NULL);
        cli_add_word(answer, "name", it->name);
        cli_add_word(answer, "codec", tn_codec_name(it->codec));
        cli_add(answer, "bytes", it->bytes);
        cli_add(answer, "form_bytes", it->form_bytes);
        cli_add(answer, "measured", it->measured);
        cli_add(answer, "kept", it->kept);
        cli_add_real(answer, "largest", it->largest);
        cli_add_real(answer, "relative", it->relative);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

void cli_engine_losses_add(cli_answer *answer, const tn_engine *engine) {
    cli_losses losses;
    cli_losses_read(&losses, engine);
    cli_losses_add(answer, &losses);
    cli_losses_release(&losses);
}

/* --- pruning --- */

/* Returns the sums of the facts of all pruned weights. */
static tn_pruned pruned_total(const tn_pruning *pruning) {
    tn_pruned all = {0};
    for (uint32_t i = 0; i < pruning->count; i++) {
        const tn_pruned *at = &pruning->weights[i];
        all.elements += at->elements;
        all.kept += at->kept;
        all.norm += at->norm;
        all.lost += at->lost;
        all.bytes += at->bytes;
        all.stored += at->stored;
    }
    return all;
}

static double pruned_error(const tn_pruned *at) {
    return at->norm > 0 ? sqrt(at->lost / at->norm) : 0;
}
static double pruned_zeros(const tn_pruned *at) {
    return at->elements > 0 ? 1 - (double)at->kept / (double)at->elements : 0;
}

/* Returns the name that a pruned weight has in the model file. */
static const char *pruned_name(const cli_opened_model *opened, const tn_pruned *at) {
    const tn_graph *graph = opened->input->graph;
    return tn_graph_tensor(graph, tn_graph_op(graph, at->op)->inputs[1])->name;
}

static const char *pruned_form(const tn_pruned *at) {
    return at->bits == 0 ? "dense" : at->bits == 1 ? "bits" : at->bits == 8 ? "8-bit" : "16-bit";
}

static const cli_facts pruned_weight_facts = {
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "elements", "elements", "number of elements"),
        CLI_FACT(COUNT, "zeros", "zeros", "number of elements that are zero"),
        CLI_FACT(REAL, "error", "error", "norm of the change / norm of the weight"),
        CLI_FACT(BYTES, "bytes", "bytes", "bytes before pruning"),
        CLI_FACT(BYTES, "stored", "stored", "bytes as they are stored"),
        CLI_FACT(WORD, "places", "places",
                 "how the places of the values are stored: dense, bits, 8-bit or "
                 "16-bit"),
        CLI_FACT(WORD, "name", "weight", "name in the file"), CLI_FACTS_END}};
static const cli_facts pruned_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "elements", NULL, "number of elements of all pruned weights"),
        CLI_FACT(COUNT, "zeros", NULL, "number of elements that are zero"),
        CLI_FACT(REAL, "error", NULL, "norm of the change / norm of the weights"),
        CLI_FACT(BYTES, "bytes", NULL, "bytes before pruning"),
        CLI_FACT(BYTES, "stored", NULL, "bytes as they are stored"),
        CLI_FACT_OF(LIST, "weights", "the pruned weights", &pruned_weight_facts), CLI_FACTS_END}};
const cli_facts cli_pruned_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "pruned", "with --prune: its effect on the weights", &pruned_facts),
        CLI_FACTS_END}};

static void pruned_add(cli_answer *answer, const tn_pruned *at) {
    cli_add(answer, "elements", at->elements);
    cli_add(answer, "zeros", at->elements - at->kept);
    cli_add_as(answer, "%.2f %%", 100 * pruned_zeros(at));
    cli_add_real(answer, "error", pruned_error(at));
    cli_add(answer, "bytes", at->bytes);
    cli_add(answer, "stored", at->stored);
}

void cli_pruned_add(cli_answer *answer, const cli_opened_model *opened) {
    const tn_pruning *pruning = &opened->pruning;
    char before[TN_SIZE_TEXT_MAX], after[TN_SIZE_TEXT_MAX];
    if (opened->prune == 0) return;
    const tn_pruned all = pruned_total(pruning);
    if (pruning->count > 0) {
        cli_add_line(answer, "pruned",
                     "%.2f %% of %" PRIu64 " elements of %u weights are zero, relative error %.3g",
                     100 * pruned_zeros(&all), all.elements, pruning->count, pruned_error(&all));
        cli_add_line(answer, "", "from %s to %s", tn_size_format(all.bytes, before),
                     tn_size_format(all.stored, after));
    }
    cli_answer_open(answer, "pruned");
    pruned_add(answer, &all);
    cli_answer_open(answer, "weights");
    for (uint32_t i = 0; i < pruning->count; i++) {
        cli_answer_open(answer, NULL);
        pruned_add(answer, &pruning->weights[i]);
        cli_add_word(answer, "places", pruned_form(&pruning->weights[i]));
        cli_add_word(answer, "name", pruned_name(opened, &pruning->weights[i]));
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
    cli_answer_close(answer);
}

/* --- how a budget was met; results of --check and --poison --- */

/* Returns how many operators the program recomputes. Views are not counted, because they compute
 * nothing. */
static uint32_t fitted_repeats(const tn_fit_result *fitted) {
    const tn_graph *graph = tn_program_graph(fitted->program);
    const tn_instruction *list = tn_program_instructions(fitted->program);
    bool *ran = calloc((size_t)tn_graph_op_count(graph) + 1, sizeof *ran);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_program_count(fitted->program) && ran != NULL; i++) {
        if (list[i].opcode != TN_APPLY) continue;
        count += ran[list[i].op] && tn_op_view(graph, list[i].op, 0).source == TN_NONE;
        ran[list[i].op] = true;
    }
    free(ran);
    return count;
}

static const cli_facts fitted_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "pass", "fitted", "the pass that found the program"),
        CLI_FACT(BYTES, "plain_bytes", NULL, "bytes before fitting"),
        CLI_FACT(COUNT, "recomputed", NULL, "number of recomputed operators"),
        CLI_FACT(COUNT, "swapped", NULL, "number of tensors that are copied to the host and back"),
        CLI_FACT(COUNT, "encoded", NULL, "number of tensors that are kept encoded"),
        CLI_FACT(COUNT, "time", NULL, "predicted time, in picoseconds"),
        CLI_FACT(COUNT, "plain_time", NULL, "predicted time before fitting"), CLI_FACTS_END}};
const cli_facts cli_fitted_facts = {
    .rows = (const cli_fact[]){CLI_FACT_OF(OBJECT, "fitted",
                                           "if the program was changed to meet the budget: how",
                                           &fitted_facts),
                               CLI_FACTS_END}};

/* Returns ", N tensors DONE" in `text`, or nothing if N is 0. */
static const char *fitted_tensors(char text[64], uint32_t count, const char *done) {
    text[0] = '\0';
    if (count > 0) snprintf(text, 64, ", %u tensor%s %s", count, count == 1 ? "" : "s", done);
    return text;
}

/* `from` is the answer of the search for the budget. Its result, if it belongs to this setup,
 * compares the program with the plan of the graph without tiles. The setup's own result compares it
 * with the plan of the graph with tiles. */
void cli_fitted_add(cli_answer *answer, const tn_setup *setup, const tn_fit_answer *from) {
    const tn_fit_result *fitted = setup != NULL ? tn_setup_fitted(setup) : NULL;
    char plain[TN_SIZE_TEXT_MAX];
    if (fitted == NULL) return;
    if (from->setup == setup) fitted = &from->result;
    uint32_t again = fitted_repeats(fitted);
    char swaps[64], codes[64];
    tn_fate_totals totals = {0};
    if (tn_fit_fates(tn_setup_occupancy(setup), &totals, NULL) != TN_OK)
        totals = (tn_fate_totals){0}; /* no memory: an answer without these counts */
    double more =
        fitted->plain_time > 0 ? (double)fitted->time / (double)fitted->plain_time - 1 : 0;
    cli_answer_open(answer, "fitted");
    cli_add_word(answer, "pass", fitted->pass);
    cli_add_as(answer, "by %s from %s: %u operator%s recomputed%s%s, %+.1f %% time predicted",
               fitted->pass, tn_size_format(fitted->plain_bytes, plain), again,
               again == 1 ? "" : "s",
               fitted_tensors(swaps, totals.tensors[TN_FATE_SWAPPED], "swapped"),
               fitted_tensors(codes, totals.tensors[TN_FATE_ENCODED], "encoded"), 100 * more);
    cli_add(answer, "plain_bytes", fitted->plain_bytes);
    cli_add(answer, "recomputed", again);
    cli_add(answer, "swapped", totals.tensors[TN_FATE_SWAPPED]);
    cli_add(answer, "encoded", totals.tensors[TN_FATE_ENCODED]);
    cli_add(answer, "time", fitted->time);
    cli_add(answer, "plain_time", fitted->plain_time);
    cli_answer_close(answer);
}

static const cli_facts check_naive_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "naive", "check naive",
                 "equal: every bit equals that of a run in which no tensors share memory"),
        CLI_FACTS_END}};
const cli_facts cli_check_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "check", "with --check: the comparison", &check_naive_facts),
        CLI_FACT(WORD, "poison", "poison", "with --poison: clean"), CLI_FACTS_END}};

void cli_check_add(cli_answer *answer, const cli_opened_model *opened) {
    if (opened->check) {
        cli_answer_open(answer, "check");
        cli_add_word(answer, "naive", "equal");
        cli_add_as(answer, "every bit equal without reuse");
        cli_answer_close(answer);
    }
    if (opened->poison) cli_add_word(answer, "poison", "clean");
}

/* --- claims and hints of tn_fit_graph, as JSON and as options to give --- */

static const cli_facts claims_one_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "techniques", "the set of techniques that the claim is about", NULL),
        CLI_FACT(WORD, "verdict", NULL,
                 "fits, infeasible (proved), not_found, stopped or not_tried"),
        CLI_FACT(BYTES, "bytes", NULL, "bytes of the smallest program found"),
        CLI_FACT(COUNT, "time", NULL, "its predicted time, in picoseconds"),
        CLI_FACT(BYTES, "bytes_bound", NULL, "no program of these techniques takes less"),
        CLI_FACT(WORD, "why", NULL, "why the set was not tried, or not to the end"),
        CLI_FACTS_END}};
static const cli_facts claims_hint_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "with", "techniques to allow in addition", NULL),
        CLI_FACT(YES, "within_budget", NULL, "whether that meets the budget"),
        CLI_FACT(BYTES, "bytes", NULL, "bytes that the program then takes"),
        CLI_FACT(SHARE, "more_time", NULL, "its additional time as a fraction; absent: unknown"),
        CLI_FACTS_END}};
const cli_facts cli_claims_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "scope", "the techniques that were allowed", NULL),
        CLI_FACT(YES, "ruled", NULL,
                 "whether the claims are only about programs that obey the rules (--keep, ...)"),
        CLI_FACT_OF(LIST, "claims", "proofs and programs found, by set of techniques",
                    &claims_one_facts),
        CLI_FACT_OF(LIST, "not_tried", "techniques that were not allowed", NULL),
        CLI_FACT_OF(LIST, "would_fit", "programs found with further techniques",
                    &claims_hint_facts),
        CLI_FACTS_END}};
const cli_facts cli_refused_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model"),
        CLI_FACT(YES, "fits", NULL, "false: the budget is not met"),
        CLI_FACT(YES, "proved", NULL, "whether it is proved for the scope"),
        CLI_FACT(BYTES, "budget", NULL, "the budget"),
        CLI_FACT(BYTES, "least_bytes", NULL, "bytes of the smallest program found"),
        CLI_FACTS_ALSO(&cli_claims_facts), CLI_FACTS_END}};

static void claims_add_set(cli_answer *answer, const char *key, uint32_t techniques) {
    char words[TN_TECHNIQUES_TEXT], *at, *rest = words;
    cli_answer_open(answer, key);
    (void)tn_techniques_text(techniques, words);
    while ((at = strsep(&rest, ",")) != NULL)
        if (*at != '\0') cli_add_element(answer, at);
    cli_answer_close(answer);
}

static void claims_add_one(cli_answer *answer, const tn_claim *claim) {
    cli_answer_open(answer, NULL);
    claims_add_set(answer, "techniques", claim->techniques);
    cli_add_word(answer, "verdict", tn_claim_kind_name(claim->kind));
    if (claim->bytes > 0) cli_add(answer, "bytes", claim->bytes);
    if (claim->time > 0) cli_add(answer, "time", claim->time);
    if (claim->bytes_bound > 0) cli_add(answer, "bytes_bound", claim->bytes_bound);
    if (claim->why[0] != '\0') cli_add_word(answer, "why", claim->why);
    cli_answer_close(answer);
}

static void claims_add_hint(cli_answer *answer, const tn_hint *hint) {
    cli_answer_open(answer, NULL);
    claims_add_set(answer, "with", hint->techniques);
    cli_add(answer, "within_budget", hint->fits);
    cli_add(answer, "bytes", hint->bytes);
    if (hint->more_time >= 0) cli_add_real(answer, "more_time", hint->more_time);
    cli_answer_close(answer);
}

void cli_claims_add(cli_answer *answer, const tn_fit_answer *found) {
    if (found->own == NULL) return;
    claims_add_set(answer, "scope", found->allowed);
    cli_add(answer, "ruled", found->ruled);
    cli_answer_open(answer, "claims");
    for (uint32_t i = 0; i < found->claim_count; i++) claims_add_one(answer, &found->claims[i]);
    cli_answer_close(answer);
    claims_add_set(answer, "not_tried", tn_fit_answer_not_tried(found));
    cli_answer_open(answer, "would_fit");
    for (uint32_t i = 0; i < found->hint_count; i++) claims_add_hint(answer, &found->hints[i]);
    cli_answer_close(answer);
}

/* Adds the members about the budget and the claims to the JSON object of a failed command. */
static void claims_add_refused(cli_answer *answer, const tn_fit_answer *found, const char *input,
                               bool proved) {
    cli_add_word(answer, "input", cli_shown_path(input));
    cli_add(answer, "fits", false);
    cli_add(answer, "proved", proved);
    cli_add(answer, "budget", found->budget);
    if (found->least != NULL) cli_add(answer, "least_bytes", tn_setup_need(found->least).total);
    cli_claims_add(answer, found);
}

void cli_claims_put_hints(const tn_fit_answer *answer, const char *command) {
    char words[TN_TECHNIQUES_TEXT];
    for (uint32_t i = 0; i < answer->hint_count; i++) {
        const tn_hint *hint = &answer->hints[i];
        cli_prefix(CLI_NOTE);
        fprintf(stderr, "%s: %s--budget %" PRIu64 " --allow %s\n",
                hint->fits ? "would fit" : "fits with a larger budget", command,
                (hint->fits ? answer->budget : hint->bytes) + answer->apart,
                tn_techniques_text(answer->allowed | hint->techniques, words));
    }
}

int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error) {
    cli_answer members;
    bool refused = error->status == TN_E_INFEASIBLE || error->status == TN_E_EXHAUSTED;
    if (!refused || answer->own == NULL) return cli_fail(error);
    cli_members_begin(&members, &cli_refused_facts);
    claims_add_refused(&members, answer, input, error->status == TN_E_INFEASIBLE);
    int code = cli_fail_with(error, cli_members_text(&members));
    cli_answer_release(&members);
    return code;
}

void cli_claims_holders(const tn_fit_answer *answer) {
    if (answer->setup != NULL || answer->least == NULL) return;
    const tn_setup_needs needs = tn_setup_need(answer->least);
    cli_holders_print_least(tn_setup_occupancy(answer->least), needs.total - needs.arena,
                            answer->least == answer->whole ? "the plan without changes"
                                                           : "the smallest program found");
}
