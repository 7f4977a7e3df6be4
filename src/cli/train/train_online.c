/* train_online.c - `tenure train --online`: opens the run within a budget that is met while it
 * runs, and adds its iterations to the answer.
 *
 * The model is compiled without a budget, because the library meets the budget only when it knows
 * the times of the first iteration.
 */
#include <stdio.h>

#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/train/train.h"

static void online_line(void *self, const char *line) {
    (void)self;
    fprintf(stderr, "%s\n", line);
}

tn_status cli_train_plan(cli_train *train, tn_error *error) {
    cli_opened_model *opened = &train->opened;
    uint64_t budget = opened->budget;
    if (train->online_policy != NULL) opened->budget = 0;
    tn_status status = cli_opened_model_plan(opened, error);
    opened->budget = budget;
    return status;
}

tn_status cli_train_start(cli_train *train, tn_engine **engine, tn_error *error) {
    cli_opened_model *opened = &train->opened;
    tn_online_options options = TN_ONLINE_OPTIONS_INIT;
    tn_engine_options run = cli_opened_model_engine(opened);
    if (train->online_policy == NULL) {
        TN_TRY(cli_opened_model_start(opened, error));
        *engine = opened->engine;
        return TN_OK;
    }
    const cli_kernel_target target = cli_opened_model_target(opened);
    cli_compile_options_set(&train->input, &target, &train->training, &opened->choices.plan,
                            &train->compile);
    options.context = train->input.import.context;
    options.policy = train->online_policy;
    options.budget = opened->budget;
    options.link_bytes_per_s = opened->link;
    options.setup = &train->compile.setup;
    options.engine = &run;
    if (train->explain) options.explain = online_line;
    TN_TRY(tn_online_create(opened->setup, &options, &train->online, error));
    *engine = tn_online_engine(train->online);
    return TN_OK;
}

/* --- adding the iterations to the answer ------------------------------------------------------ */

static const cli_facts online_iteration_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(YES, "guided", NULL, "false: passive mode, copies on demand"),
        CLI_FACT(SECONDS, "seconds", NULL, "time of the iteration"),
        CLI_FACT(SECONDS, "stall_seconds", NULL, "part of it that waited for copies"),
        CLI_FACT(SECONDS, "make_seconds", NULL, "before it: policy, program and engine"),
        CLI_FACT(BYTES, "out_bytes", NULL, "bytes copied to the host"),
        CLI_FACT(BYTES, "in_bytes", NULL, "bytes copied back"),
        CLI_FACT(COUNT, "evictions", NULL, "passive: buffers that were evicted"),
        CLI_FACT(COUNT, "copies", NULL, "guided: copies back"),
        CLI_FACT(COUNT, "late", NULL, "of these, unfinished at their back-access"),
        CLI_FACT(COUNT, "moved", NULL, "in-triggers that moved earlier before it"), CLI_FACTS_END}};
const cli_facts cli_train_online_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "policy", "online", "the policy of --online"),
        CLI_FACT(BYTES, "budget", "budget", "bytes for arena and weights"),
        CLI_FACT(BYTES, "device_peak", "device peak", "the most bytes on the device at once"),
        CLI_FACT(BYTES, "host_peak", "host peak", "the most bytes of swapped tensors on the host"),
        CLI_FACT(COUNT, "swapped", NULL, "tensors that the policy swaps"),
        CLI_FACT(COUNT, "recomputed", NULL, "tensors that it recomputes"),
        CLI_FACT(COUNT, "settled", NULL, "last iteration with a new program, from 0"),
        CLI_FACT(REAL, "link_bytes_per_s", NULL, "measured speed of the link, the slower way"),
        CLI_FACT_OF(LIST, "iterations", "the first thousand iterations, and the last one",
                    &online_iteration_facts),
        CLI_FACTS_END}};

static void online_add_iteration(cli_answer *answer, const tn_online_iteration *it) {
    cli_answer_open(answer, NULL);
    cli_add(answer, "guided", it->guided);
    cli_add_real(answer, "seconds", it->seconds);
    cli_add_real(answer, "stall_seconds", it->stall_seconds);
    cli_add_real(answer, "make_seconds", it->make_seconds);
    cli_add(answer, "out_bytes", it->out_bytes);
    cli_add(answer, "in_bytes", it->in_bytes);
    cli_add(answer, "evictions", it->evictions);
    cli_add(answer, "copies", it->copies);
    cli_add(answer, "late", it->late);
    cli_add(answer, "moved", it->moved);
    cli_answer_close(answer);
}

static void online_add_lines(cli_answer *answer, const tn_online_iteration *list, uint32_t count,
                             const tn_online_usage *usage) {
    if (count == 0) return;
    cli_add_line(answer, "first step", "passive, %.1f ms, of which %.1f ms waiting for copies",
                 1e3 * list[0].seconds, 1e3 * list[0].stall_seconds);
    if (!usage->guided && count >= 2)
        cli_add_line(answer, "last step",
                     "passive, %.1f ms; the policy found no program within the budget",
                     1e3 * list[count - 1].seconds);
    if (!usage->guided || count < 2) return;
    cli_add_line(answer, "last step",
                 "guided, %.1f ms, of which %.1f ms waiting; %u tensors swapped, %u recomputed; "
                 "no new program after step %llu",
                 1e3 * list[count - 1].seconds, 1e3 * list[count - 1].stall_seconds, usage->swapped,
                 usage->recomputed, (unsigned long long)usage->settled);
}

void cli_train_add_online(cli_answer *answer, const cli_train *train) {
    tn_online_usage usage;
    uint32_t count;
    if (train->online == NULL) return;
    const tn_online_iteration *list = tn_online_iterations(train->online, &count);
    tn_online_measure(train->online, &usage);
    cli_answer_open(answer, "online");
    cli_add_word(answer, "policy", train->online_policy);
    cli_add(answer, "budget", usage.budget);
    cli_add(answer, "device_peak", usage.peak);
    cli_add(answer, "host_peak", usage.host_peak);
    cli_add(answer, "swapped", usage.swapped);
    cli_add(answer, "recomputed", usage.recomputed);
    cli_add(answer, "settled", usage.settled);
    cli_add_real(answer, "link_bytes_per_s", usage.link_bytes_per_s);
    online_add_lines(answer, list, count, &usage);
    cli_answer_open(answer, "iterations");
    for (uint32_t i = 0; i < count; i++) online_add_iteration(answer, &list[i]);
    cli_answer_close(answer);
    cli_answer_close(answer);
}
