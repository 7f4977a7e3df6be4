/* changes.c - finds changes of options that make a model fit. They are proposed in this order:
 * changes that cost nothing, changes that cost time, changes that alter results, and last a smaller
 * batch. */
#include "base/base.h"
#include "cli/estimate/estimate.h"
#include "cli/model/input.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- the table of changes to try --- */

typedef bool (*estimate_change)(cli_estimate_request *request, const cli_estimate_result *found,
                                char text[64]);

static bool change_plan(cli_estimate_request *request, const cli_estimate_result *found,
                        char text[64]) {
    (void)found;
    if (request->options.pool == NULL) return false;
    request->options.pool = NULL;
    snprintf(text, 64, "a planned arena, no --pool");
    return true;
}

static bool change_policies(cli_estimate_request *request, const cli_estimate_result *found,
                            char text[64]) {
    (void)found;
    if (request->options.alloc == TN_ALLOC_ON_DEMAND &&
        request->options.release == TN_RELEASE_ON_DEATH)
        return false;
    request->options.alloc = TN_ALLOC_ON_DEMAND;
    request->options.release = TN_RELEASE_ON_DEATH;
    snprintf(text, 64, "--alloc-policy demand --release-policy death");
    return true;
}

static bool change_order(cli_estimate_request *request, const cli_estimate_result *found,
                         char text[64]) {
    (void)found;
    if (request->pytorch ||
        (request->input.order != NULL && strcmp(request->input.order, "file") != 0))
        return false;
    request->input.order = "memory";
    snprintf(text, 64, "--order memory");
    return true;
}

static bool change_concat(cli_estimate_request *request, const cli_estimate_result *found,
                          char text[64]) {
    if (request->pytorch || !found->joins || request->input.occupancy_options.fuse_concat)
        return false;
    request->input.occupancy_options.fuse_concat = true;
    snprintf(text, 64, "--fuse-concat");
    return true;
}

static bool change_update(cli_estimate_request *request, const cli_estimate_result *found,
                          char text[64]) {
    (void)found;
    if (!request->train || request->pytorch || request->training.options.fuse_update) return false;
    request->training.options.fuse_update = true;
    snprintf(text, 64, "--fuse-update");
    return true;
}

/* Fits the program to the limit as a budget, by recomputation and other techniques. This is the
 * only change with a predicted time. */
static bool change_fit(cli_estimate_request *request, const cli_estimate_result *found,
                       char text[64]) {
    bool again = request->training.recompute > 0 || request->training.recompute_cheap;
    uint64_t budget = request->limit - request->options.runtime;
    (void)found;
    if (request->limit <= request->options.runtime || request->options.pool != NULL ||
        request->pytorch || again || request->fit > 0 ||
        tn__has_suffix(request->input.path, ".tflite"))
        return false;
    request->fit = budget;
    if (budget % (UINT64_C(1) << 20) == 0)
        snprintf(text, 64, "--budget %" PRIu64 "MiB", budget >> 20);
    else
        snprintf(text, 64, "--budget %" PRIu64, budget);
    return true;
}

static bool change_recompute(cli_estimate_request *request, const cli_estimate_result *found,
                             char text[64]) {
    (void)found;
    if (!request->train || request->pytorch || request->training.recompute_cheap) return false;
    request->training.recompute_cheap = true;
    snprintf(text, 64, "--recompute-cheap");
    return true;
}

static bool change_share(cli_estimate_request *request, const cli_estimate_result *found,
                         char text[64]) {
    (void)found;
    if (!request->train || request->pytorch || request->training.recompute > 0 ||
        request->training.recompute_cheap)
        return false;
    request->training.recompute = 0.33; /* limit of the extra work, as a fraction */
    snprintf(text, 64, "--recompute-work 0.33");
    return true;
}

static bool change_dtype(cli_estimate_request *request, const cli_estimate_result *found,
                         char text[64]) {
    (void)found;
    bool wide = request->training.options.dtype == TN_UNDEFINED ||
                request->training.options.dtype == TN_FLOAT32;
    if (!request->train || request->pytorch || !wide) return false;
    request->training.options.dtype = TN_BFLOAT16;
    snprintf(text, 64, "--dtype bf16");
    return true;
}

static bool change_momentum(cli_estimate_request *request, const cli_estimate_result *found,
                            char text[64]) {
    (void)found;
    bool larger = request->training.options.optimizer == TN_OPTIMIZER_ADAM ||
                  request->training.options.optimizer == TN_OPTIMIZER_ADAMW;
    if (!request->train || !larger) return false;
    request->training.options.optimizer = TN_OPTIMIZER_MOMENTUM;
    snprintf(text, 64, "--optimizer momentum");
    return true;
}

static bool change_sgd(cli_estimate_request *request, const cli_estimate_result *found,
                       char text[64]) {
    (void)found;
    if (!request->train || request->training.options.optimizer == TN_OPTIMIZER_SGD ||
        request->training.options.optimizer == TN_OPTIMIZER_NONE)
        return false;
    request->training.options.optimizer = TN_OPTIMIZER_SGD;
    snprintf(text, 64, "--optimizer sgd");
    return true;
}

/* All changes, cheapest first. Changes of one family set the same option, so a list has at most one
 * change of each family. Family 0 means that a change belongs to no family. */
static const struct {
    estimate_change apply;
    uint32_t family;
} estimate_cheap_first[] = {{change_plan, 0},      {change_policies, 0}, {change_order, 0},
                            {change_concat, 0},    {change_update, 0},   {change_fit, 1},
                            {change_recompute, 1}, {change_share, 1},    {change_dtype, 0},
                            {change_momentum, 2},  {change_sgd, 2}};
#define ESTIMATE_CHANGES (sizeof estimate_cheap_first / sizeof *estimate_cheap_first)
#define ESTIMATE_LIST_MOST 4u    /* largest number of changes in one list */
#define ESTIMATE_LIST_TRIES 200u /* largest number of lists that are tried */

/* --- limits --- */

bool cli_limits_go_on(cli_limits *limits) {
    limits->reached = limits->reached || (limits->limited && limits->work == 0) || cli_is_late();
    return !limits->reached;
}

void cli_limits_spend(cli_limits *limits, uint64_t work) {
    limits->work = work < limits->work ? limits->work - work : 0;
}

void cli_limits_skip(cli_limits *limits, const char *what) {
    tn__text_printf(&limits->skipped, "%s%s", limits->skipped.size > 0 ? ", " : "", what);
}

/* Estimates one change within the remaining time and work. If a limit is reached, the change is
 * recorded as not tried and TN_E_STOPPED is returned. */
static tn_status estimate_limited(const cli_estimate_request *request, const char *text,
                                  cli_estimate_result *found) {
    cli_estimate_request trial = *request;
    tn_error unused; /* the error is ignored: a change that is not possible is not proposed */
    cli_limits *limits = request->limits;
    *found = (cli_estimate_result){0};
    if (limits == NULL) return cli_estimate_within(&trial, found, &unused);
    tn_status status = TN_E_STOPPED;
    if (cli_limits_go_on(limits)) {
        trial.choices.plan.work_limit = limits->limited ? limits->work : 0;
        status = cli_estimate_within(&trial, found, &unused);
        cli_limits_spend(limits, found->work);
        (void)cli_limits_go_on(limits);
    }
    if (limits->reached) cli_limits_skip(limits, text);
    return limits->reached ? TN_E_STOPPED : status;
}

static bool estimate_try(const cli_estimate_request *request, const char *text,
                         cli_change *change) {
    cli_estimate_request trial = *request;
    cli_estimate_result found;
    trial.output_count = 0;
    trial.tries = true;
    if (estimate_limited(&trial, text, &found) != TN_OK || !found.fits) return false;
    *change = (cli_change){
        .total = found.estimate.total, .priced = found.fitted, .more_time = found.more_time};
    snprintf(change->text, sizeof change->text, "%s", text);
    return true;
}

/* Finds the smallest number of first layers that must be frozen for the model to fit. */
static bool estimate_freeze(const cli_estimate_request *request, const cli_estimate_result *found,
                            cli_change *change) {
    char patterns[CLI_LAYERS_MAX][40], text[sizeof change->text] = "";
    cli_estimate_request trial = *request;
    tn_train_options *training = &trial.training.options;
    if (!request->train || request->pytorch || training->freeze_count > 0) return false;
    for (uint32_t i = 0; i < found->layer_count; i++) {
        size_t used = strlen(text);
        int more;
        snprintf(patterns[i], sizeof patterns[i], "%.36s*", found->layers[i]);
        more = snprintf(text + used, sizeof text - used, "%s--freeze '%.38s'", i > 0 ? " " : "",
                        patterns[i]);
        if (more < 0 || (size_t)more >= sizeof text - used) return false;
        trial.training.freeze[training->freeze_count++] = patterns[i];
        if (estimate_try(&trial, text, change)) return true;
    }
    return false;
}

static bool estimate_smaller_batch(const cli_estimate_request *request,
                                   const cli_estimate_result *found, cli_change *change) {
    uint64_t batch = 0;
    tn_error unused;
    char text[64];
    cli_estimate_request trial = *request;
    if (found->batch < 2 || !tn__has_suffix(request->input.path, ".onnx") ||
        cli_estimate_max_batch(request, &batch, &unused) != TN_OK || batch == 0 ||
        batch >= found->batch)
        return false;
    trial.batch = batch;
    snprintf(text, sizeof text, "--batch %" PRIu64, batch * request->ranks.grid.data);
    return estimate_try(&trial, text, change);
}

/* Applies the changes in the bit set `set`. Returns false if one of them changes nothing or if two
 * belong to one family. */
static bool estimate_apply(cli_estimate_request *request, const cli_estimate_result *found,
                           uint32_t set, char text[sizeof((cli_change *)0)->text]) {
    const size_t room = sizeof((cli_change *)0)->text;
    uint32_t families = 0;
    char one[64];
    text[0] = '\0';
    for (uint32_t i = 0; i < ESTIMATE_CHANGES; i++) {
        size_t used = strlen(text);
        if ((set >> i & 1) == 0) continue;
        uint32_t family = estimate_cheap_first[i].family;
        if (family > 0 && (families >> family & 1) != 0) return false;
        families |= 1u << family;
        if (!estimate_cheap_first[i].apply(request, found, one)) return false;
        snprintf(text + used, room - used, "%s%s", used > 0 ? " " : "", one);
    }
    return true;
}

static bool estimate_try_set(const cli_estimate_request *request, const cli_estimate_result *found,
                             uint32_t set, cli_change *change) {
    char text[sizeof change->text];
    cli_estimate_request trial = *request;
    return estimate_apply(&trial, found, set, text) && estimate_try(&trial, text, change);
}

/* Finds the shortest list of changes that makes the model fit, if no single change is enough. Among
 * lists of equal length it finds the cheapest. It tries lists of two changes, then of three and so
 * on, with cheap changes first. Fitting to a budget is excluded from lists, because it is a search
 * itself. */
static bool estimate_shortest(const cli_estimate_request *request, const cli_estimate_result *found,
                              cli_change *change) {
    uint32_t tries = 0;
    for (int length = 2; length <= (int)ESTIMATE_LIST_MOST; length++)
        for (uint32_t set = 0; set < 1u << ESTIMATE_CHANGES; set++) {
            char text[sizeof change->text];
            cli_estimate_request trial = *request;
            if (__builtin_popcount(set) != length || !estimate_apply(&trial, found, set, text) ||
                trial.fit != request->fit)
                continue;
            if (++tries > ESTIMATE_LIST_TRIES) return false;
            if (estimate_try(&trial, text, change)) return true;
        }
    return false;
}

/* Adds the single changes, or else the shortest list of changes, then frozen layers. The last place
 * is reserved for a smaller batch if one fits. */
uint32_t cli_estimate_changes(const cli_estimate_request *request, const cli_estimate_result *found,
                              cli_change *changes, uint32_t room) {
    uint32_t count = 0;
    cli_change batch;
    bool smaller = estimate_smaller_batch(request, found, &batch);
    for (uint32_t i = 0; i < ESTIMATE_CHANGES && count + smaller < room; i++)
        count += estimate_try_set(request, found, 1u << i, &changes[count]);
    if (count == 0 && count + smaller < room)
        count += estimate_shortest(request, found, &changes[count]);
    if (count + smaller < room) count += estimate_freeze(request, found, &changes[count]);
    if (smaller) changes[count++] = batch;
    return count;
}

/* Halves the batch. Returns false if that is not possible. */
static bool change_half(cli_estimate_request *request, const cli_estimate_result *found,
                        char text[64]) {
    if (found->batch < 2 || !tn__has_suffix(request->input.path, ".onnx")) return false;
    request->batch = found->batch / 2;
    snprintf(text, 64, "--batch %" PRIu64, request->batch * request->ranks.grid.data);
    return true;
}

static bool change_inplace(cli_estimate_request *request, const cli_estimate_result *found,
                           char text[64]) {
    (void)found;
    if (request->input.occupancy_options.inplace != TN_INPLACE_NONE || request->pytorch)
        return false;
    request->input.occupancy_options.inplace = TN_INPLACE_CHOOSE;
    snprintf(text, 64, "without --no-inplace");
    return true;
}

static bool change_views(cli_estimate_request *request, const cli_estimate_result *found,
                         char text[64]) {
    (void)found;
    if (!request->input.occupancy_options.no_views) return false;
    request->input.occupancy_options.no_views = false;
    snprintf(text, 64, "without --no-views");
    return true;
}

/* Allows kernels that compute an operator in pieces with less scratch memory. */
static bool change_pieces(cli_estimate_request *request, const cli_estimate_result *found,
                          char text[64]) {
    (void)found;
    if (!request->choices.fastest || request->runner == CLI_RUNNER_NONE) return false;
    request->choices.fastest = false;
    snprintf(text, 64, "without --fastest: operators in pieces");
    return true;
}

uint32_t cli_estimate_each(const cli_estimate_request *request, const cli_estimate_result *found,
                           cli_change *changes, uint32_t room) {
    static const estimate_change others[] = {change_inplace, change_views, change_pieces,
                                             change_half};
    const uint32_t all = ESTIMATE_CHANGES + sizeof others / sizeof *others;
    uint32_t count = 0;
    for (uint32_t i = 0; i < all && count < room; i++) {
        bool last = i >= ESTIMATE_CHANGES;
        estimate_change apply = last ? others[i - ESTIMATE_CHANGES] : estimate_cheap_first[i].apply;
        cli_estimate_request trial = *request;
        char text[64];
        if (!apply(&trial, found, text)) continue;
        /* every change that lowers the total counts as a success */
        trial.limit = found->estimate.total - 1;
        count += estimate_try(&trial, text, &changes[count]);
    }
    return count;
}

uint32_t cli_estimate_fitted(const cli_estimate_request *request, uint64_t budget,
                             cli_change *change) {
    cli_estimate_request trial = *request;
    const cli_estimate_result none = {0};
    char text[64];
    trial.limit = budget;
    if (!change_fit(&trial, &none, text) || !estimate_try(&trial, text, change)) return 0;
    return change->priced;
}

/* --- adding the changes to the answer --- */

static const cli_facts change_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "change", "would fit with", "the changed options"),
        CLI_FACT(BYTES, "total", NULL, "bytes with them"),
        CLI_FACT(REAL, "more_time", NULL, "predicted extra time, as a fraction, where it is known"),
        CLI_FACTS_END}};
const cli_facts cli_changes_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "changes", "if it does not fit: changes that make it fit", &change_facts),
        CLI_FACTS_END}};

void cli_changes_add(cli_answer *answer, const cli_change *changes, uint32_t count) {
    char size[TN_SIZE_TEXT_MAX];
    if (count == 0) cli_add_line(answer, "", "no change that Tenure can suggest makes it fit");
    cli_answer_open(answer, "changes");
    for (uint32_t i = 0; i < count; i++) {
        cli_answer_open(answer, NULL);
        cli_add_word(answer, "change", changes[i].text);
        cli_add_more(answer, ": %s", tn_size_format(changes[i].total, size));
        if (changes[i].priced)
            cli_add_more(answer, ", %+.1f %% time predicted", 100 * changes[i].more_time);
        cli_add(answer, "total", changes[i].total);
        if (changes[i].priced) cli_add_real(answer, "more_time", changes[i].more_time);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}
