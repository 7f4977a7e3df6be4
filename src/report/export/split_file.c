/* split_file.c - tn_split_file: chooses the regions of a model that run in parts, by the memory
 * that another runtime needs.
 *
 * The search (tn_split_search) predicts live bytes, moved bytes and persistent bytes of operators.
 * It finds the least work for less and less memory, with several weights for persistent bytes. Its
 * answers are the candidates. The most promising ones are written in memory, read again and
 * measured; for TensorFlow Lite Micro the whole arena is measured. With a budget, the result is the
 * candidate within the budget that adds the least work. With a limit of work, it is the smallest
 * candidate. A candidate that cannot be written is skipped.
 *
 * Cost: that of the search, and of measuring at most 3 FILE_TRIES candidates.
 */
#include "report/export/export.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tenure/program.h>
#include <unistd.h>

#define FILE_CANDIDATES 2000u
/* limit of the candidates that are measured, and of those that cannot be written; if none is within
 * the budget, as many are tried again to find the smallest one */
#define FILE_TRIES 100u
/* each answer of the search needs at least 1/256 less memory than the one before */
#define FILE_STEP 256u
/* default cost of a moved byte in operations, for models of small integers */
#define FILE_BYTE_FLOPS 2u
#define FILE_DOUBT 0.25 /* fraction by which predictions may be wrong */

typedef struct file_candidate {
    tn_split_choice choice;
    uint64_t promised; /* bytes */
    size_t place; /* number of the candidate in order of discovery, to decide between equal ones */
} file_candidate;

typedef struct file_state {
    const tn_export_options *asked;
    tn_context context;
    export_source source;
    tn_split_search *search;
    file_candidate *candidates;
    size_t count, room;
    export_candidate whole, best; /* best.regions is 0 until an acceptable candidate is found */
    tn_export_report *report;
    uint64_t least; /* bytes of the smallest candidate that was measured */
    /* bytes of the arena, in the model without splitting, beyond the live tensors */
    uint64_t apart;
    uint32_t byte_flops, tried, refused;
    uint64_t work;    /* remaining units of work; 0: no limit */
    tn_error refusal; /* error of the first candidate that could not be written */
    bool stopped;
    tn_error *error;
} file_state;

static double file_most_work(const file_state *state) {
    return state->asked->share > 0 ? state->asked->share : HUGE_VAL;
}

/* --- candidates --- */

/* Subtracts work from the work limit: one unit per region that the search examined, and one per
 * operator of a measured file. */
static void file_spend(file_state *state, uint64_t work) {
    if (state->asked->work_limit == 0) return;
    state->stopped = state->stopped || work >= state->work;
    state->work = work < state->work ? state->work - work : 1;
}

/* Reports progress. Returns false if the caller asks to stop or if a limit was reached. */
static bool file_go_on(const file_state *state) {
    const tn_context *context = &state->context;
    if (state->stopped) return false;
    if (context->found != NULL)
        context->found(context->self, "split",
                       state->best.regions > 0 ? state->best.bytes : UINT64_MAX, 0);
    return context->progress == NULL || context->progress(context->self, "split", state->tried, 0);
}

static bool file_is_known(const file_state *state, const tn_split_choice *choice) {
    for (size_t i = 0; i < state->count; i++) {
        const tn_split_choice *other = &state->candidates[i].choice;
        if (other->live_bytes == choice->live_bytes && other->kept == choice->kept &&
            other->extra == choice->extra && other->moved == choice->moved)
            return true;
    }
    return false;
}

/* Returns whether persistent bytes of operators are part of the bytes to minimise. */
static bool file_keeps(const file_state *state) {
    return state->source.kept != NULL && !state->asked->head;
}

/* Adds a candidate and takes ownership of the choice. A candidate that is known already is
 * dropped. */
static tn_status file_add(file_state *state, tn_split_choice *choice) {
    bool wanted = choice->count > 0 && !file_is_known(state, choice);
    if (wanted && !tn__reserve(&state->context, &state->candidates, &state->room, state->count + 1,
                               sizeof *state->candidates)) {
        tn_split_choice_release(state->search, choice);
        return tn__no_memory(state->error, "a split model");
    }
    if (!wanted) {
        tn_split_choice_release(state->search, choice);
        return TN_OK;
    }
    uint64_t kept = file_keeps(state) ? choice->kept : 0;
    uint64_t promised = tn__add_sat(tn__add_sat(choice->live_bytes, kept), state->apart);
    state->candidates[state->count] = (file_candidate){*choice, promised, state->count};
    state->count++;
    return TN_OK;
}

/* Adds the answers of the search for less and less memory. A persistent byte counts as `weight`
 * operations. */
static tn_status file_walk(file_state *state, double weight) {
    uint64_t live = tn_split_whole(state->search);
    while (live > 0 && state->count < FILE_CANDIDATES) {
        tn_split_choice choice;
        tn_error unused;
        state->stopped = !file_go_on(state);
        if (state->stopped) return TN_OK;
        tn_status status = tn_split_weighing(state->search, live, weight, &choice, &unused);
        if (status == TN_E_EXHAUSTED) return TN_OK;
        if (status != TN_OK) return tn__no_memory(state->error, "a split model");
        uint64_t next = choice.live_bytes - choice.live_bytes / FILE_STEP;
        live = next < live ? next : live;
        live = live > 0 ? live - 1 : 0;
        TN_TRY(file_add(state, &choice));
    }
    return TN_OK;
}

/* Searches several times. Each time a persistent byte counts as another number of operations, from
 * 0 to far more than the model has per byte. */
static tn_status file_candidates(file_state *state) {
    double even =
        state->whole.bytes > 0 ? (double)state->whole.flops / (double)state->whole.bytes : 0;
    const double weights[] = {0, even / 16, even, 16 * even, 4096 * even};
    bool keeps = state->source.kept != NULL;
    for (size_t i = 0; i < (keeps ? sizeof weights / sizeof *weights : 1) && !state->stopped; i++)
        TN_TRY(file_walk(state, weights[i]));
    return TN_OK;
}

/* --- measuring candidates --- */

static bool file_will_do(const file_state *state, const export_candidate *candidate) {
    return candidate->work <= file_most_work(state) &&
           (state->asked->budget == 0 || candidate->bytes <= state->asked->budget);
}

static void file_keep(file_state *state, export_candidate *candidate) {
    if (candidate->bytes < state->least) {
        state->least = candidate->bytes;
        memcpy(state->report->binding, candidate->binding, sizeof candidate->binding);
    }
    bool less = candidate->bytes != state->best.bytes
                    ? candidate->bytes < state->best.bytes
                    : candidate->arena.total < state->best.arena.total;
    bool better = file_will_do(state, candidate) && candidate->bytes < state->whole.bytes &&
                  (state->best.regions == 0 || less);
    if (better) {
        tn__export_release(&state->best);
        state->best = *candidate;
        *candidate = (export_candidate){0};
    }
    tn__export_release(candidate);
}

/* Measures a candidate. One that cannot be written counts as refused. If the caller stopped the
 * measuring, the candidate counts as not tried. */
static tn_status file_try(file_state *state, const tn_split_choice *choice) {
    export_candidate candidate;
    tn_status status = tn__export_measure(&state->source, choice, state->asked, state->byte_flops,
                                          &candidate, state->error);
    state->stopped = status == TN_E_STOPPED;
    file_spend(state, tn_graph_op_count(state->source.graph));
    if (status == TN_E_UNSUPPORTED || status == TN_E_INVALID || status == TN_E_UNKNOWN ||
        /* candidates with sizes that cannot be inferred are also skipped */
        status == TN_E_CONFLICT) {
        if (state->refused++ == 0 && state->error != NULL) state->refusal = *state->error;
        return TN_OK;
    }
    if (status != TN_OK) return status == TN_E_STOPPED ? TN_OK : status;
    state->tried++;
    file_keep(state, &candidate);
    return TN_OK;
}

static int file_by_work(const void *left, const void *right) {
    const file_candidate *a = left, *b = right;
    if (a->choice.work != b->choice.work) return a->choice.work < b->choice.work ? -1 : 1;
    if (a->promised != b->promised) return a->promised < b->promised ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static int file_by_bytes(const void *left, const void *right) {
    const file_candidate *a = left, *b = right;
    if (a->promised != b->promised) return a->promised < b->promised ? -1 : 1;
    if (a->choice.work != b->choice.work) return a->choice.work < b->choice.work ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Returns whether a candidate may be acceptable, according to the prediction and its
 * uncertainty. */
static bool file_may_do(const file_state *state, const file_candidate *candidate) {
    uint64_t budget = state->asked->budget;
    double doubt = 1 + FILE_DOUBT;
    return candidate->choice.work <= doubt * file_most_work(state) &&
           (budget == 0 || (double)candidate->promised <= doubt * (double)budget);
}

/* Measures the candidates. With a budget it goes in order of additional work and ends at the first
 * candidate within the budget. Otherwise it goes in order of predicted bytes and ends when no later
 * candidate can be smaller. */
static tn_status file_try_all(file_state *state) {
    bool budget = state->asked->budget > 0;
    if (state->count > 0)
        qsort(state->candidates, state->count, sizeof *state->candidates,
              budget ? file_by_work : file_by_bytes);
    for (size_t i = 0; i < state->count && state->tried < FILE_TRIES && state->refused < FILE_TRIES;
         i++) {
        const file_candidate *candidate = &state->candidates[i];
        bool small = state->best.regions > 0 &&
                     (double)candidate->promised > (1 + FILE_DOUBT) * (double)state->best.bytes;
        if (!file_may_do(state, candidate)) continue;
        if (!budget && small) break;
        TN_TRY(file_try(state, &candidate->choice));
        if (state->stopped || (budget && state->best.regions > 0)) break;
        state->stopped = !file_go_on(state);
        if (state->stopped) break;
    }
    return TN_OK;
}

/* If no candidate is within the budget, finds the smallest one, for the error message. */
static tn_status file_try_least(file_state *state) {
    uint32_t most = state->tried + state->refused + FILE_TRIES;
    if (state->best.regions > 0 || state->stopped || state->count == 0) return TN_OK;
    qsort(state->candidates, state->count, sizeof *state->candidates, file_by_bytes);
    for (size_t i = 0; i < state->count && state->tried + state->refused < most; i++) {
        const file_candidate *candidate = &state->candidates[i];
        if ((double)candidate->promised > (1 + FILE_DOUBT) * (double)state->least) break;
        if (candidate->choice.work > file_most_work(state)) continue;
        TN_TRY(file_try(state, &candidate->choice));
        state->stopped = state->stopped || !file_go_on(state);
        if (state->stopped) break;
    }
    return TN_OK;
}

static tn_status file_search(file_state *state) {
    tn_split_options options = TN_SPLIT_OPTIONS_INIT;
    options.context = &state->context;
    options.copies = true;
    options.byte_flops = state->byte_flops;
    options.workspaces = state->source.workspaces;
    options.kept = state->source.kept;
    options.move_kept = state->source.move_kept;
    options.work_limit = state->work = state->asked->work_limit;
    TN_TRY(tn_split_search_create(state->source.graph, &options, &state->search, state->error));
    file_spend(state, tn_split_work(state->search));
    state->apart = file_keeps(state) ? state->whole.arena.tail : 0;
    tn_status status = file_candidates(state);
    if (status == TN_OK && !state->stopped) status = file_try_all(state);
    if (status == TN_OK) status = file_try_least(state);
    for (size_t i = 0; i < state->count; i++)
        tn_split_choice_release(state->search, &state->candidates[i].choice);
    tn__free(&state->context, state->candidates, state->room * sizeof *state->candidates);
    tn_split_search_destroy(state->search);
    return status;
}

/* --- answers --- */

static void file_tell(file_state *state, const export_candidate *taken) {
    tn_export_report *report = state->report;
    report->whole = state->whole.bytes;
    report->whole_arena = state->whole.arena;
    report->whole_flops = state->whole.flops;
    report->whole_ops = state->whole.ops;
    report->whole_bytes = state->source.file.size;
    report->parts = taken->bytes;
    report->arena = taken->arena;
    report->flops = taken->flops;
    report->moved = taken->moved;
    report->work = taken->work;
    report->regions = taken->regions;
    report->ops = taken->ops;
    report->file_bytes = taken->image.size;
    report->tried = state->tried;
    report->stopped = state->stopped;
    if (taken->regions > 0 || state->least == state->whole.bytes)
        memcpy(report->binding, taken->binding, sizeof taken->binding);
}

static tn_status file_fail(file_state *state) {
    char least[TN_SIZE_TEXT_MAX], budget[TN_SIZE_TEXT_MAX];
    file_tell(state, &state->whole);
    state->report->parts = state->least;
    if (state->stopped)
        TN_FAIL(state->error, TN_E_STOPPED, "the search was stopped before anything would do");
    if (state->tried == 0 && state->refused > 0) {
        state->refusal.status = TN_E_UNSUPPORTED;
        if (state->error != NULL) *state->error = state->refusal;
        return TN_E_UNSUPPORTED;
    }
    if (state->asked->budget == 0)
        TN_FAIL(state->error, TN_E_EXHAUSTED,
                "in parts it needs no less than as it is, %s, for so little work",
                tn_size_format(state->whole.bytes, least));
    TN_FAIL(state->error, TN_E_EXHAUSTED,
            "no parts were found that keep to %s%s; the least found is %s",
            tn_size_format(state->asked->budget, budget),
            state->asked->share > 0 ? " for so little work" : "",
            tn_size_format(state->least, least));
}

/* --- files --- */

/* Checks that a file can be created in the folder of `output`, because the file is written under a
 * temporary name there and then renamed. */
static tn_status file_check_folder(const char *output, tn_error *error) {
    char folder[EXPORT_FOLDER_MAX];
    /* writing the file later reports the error */
    if (!tn__export_folder(output, folder)) return TN_OK;
    if (access(folder, W_OK | X_OK) == 0) return TN_OK;
    TN_FAIL(error, TN_E_IO, "cannot write '%.200s': its folder: %s", output, strerror(errno));
}

/* Checks the arguments and the output before anything is computed. */
static tn_status file_check(const char *output, const tn_export_options *asked, tn_error *error) {
    struct stat to;
    if (asked->budget == 0 && !(asked->share > 0))
        TN_FAIL(error, TN_E_INVALID, "a model in parts needs a budget, or a share of work");
    if (output == NULL) return TN_OK;
    bool exists = stat(output, &to) == 0;
    if (output[0] != '-' && (!exists || S_ISREG(to.st_mode)))
        TN_TRY(file_check_folder(output, error));
    return TN_OK;
}

static tn_status file_write(file_state *state, const char *output) {
    const export_candidate *taken = state->best.regions > 0 ? &state->best : &state->whole;
    file_tell(state, taken);
    if (output == NULL) return TN_OK;
    return tn__file_write(output, taken->image.data, taken->image.size, state->error);
}

static tn_status file_run(file_state *state, const char *output) {
    tn_split_choice none = {0};
    TN_TRY(tn__export_measure(&state->source, &none, state->asked, state->byte_flops, &state->whole,
                              state->error));
    state->least = state->whole.bytes;
    bool fits = state->asked->budget > 0 && state->whole.bytes <= state->asked->budget;
    if (!fits) TN_TRY(file_search(state));
    if (!fits && state->best.regions == 0) return file_fail(state);
    return file_write(state, output);
}

tn_status tn_split_file(const char *path, const char *output, const tn_export_options *options,
                        tn_export_report *report, tn_error *error) {
    tn_export_options asked = TN_EXPORT_OPTIONS_INIT;
    tn_export_report told = {0};
    tn__options(&asked, sizeof asked, options);
    file_state state = {.asked = &asked,
                        .context = tn__context(asked.context),
                        .report = &told,
                        .byte_flops = asked.byte_flops > 0 ? asked.byte_flops : FILE_BYTE_FLOPS,
                        .error = error};
    TN_TRY(file_check(output, &asked, error));
    tn_status status = tn__export_open(&state.source, path, &state.context, &asked, error);
    if (status == TN_OK) status = tn__export_beside(&state.source, output, error);
    if (status == TN_OK) status = file_run(&state, output);
    if (status == TN_OK || status == TN_E_EXHAUSTED) *report = told;
    tn__export_release(&state.whole);
    tn__export_release(&state.best);
    tn__export_close(&state.source);
    return status;
}
