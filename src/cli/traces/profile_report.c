/* profile_report.c - `tenure report` of bytes by allocation site: who holds the memory of JAX's
 * devices, and the largest nodes of a session of ONNX Runtime. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/traces/profile.h"
#include "cli/command_line/combine.h"
#include "interop/profile/profile.h"

/* --- the table of facts --- */

#define PROFILE_COLUMNS                                                                            \
    CLI_FACT(BYTES, "bytes", "bytes", "its bytes"),                                                \
        CLI_FACT(SHARE, "share", "share", "the same / bytes of all"),                              \
        CLI_FACT(COUNT, "blocks", "blocks", "number of its buffers or executables")

static const cli_facts profile_kind_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){PROFILE_COLUMNS,
                               CLI_FACT(WORD, "name", "kind", "the kind: buffer or executable"),
                               CLI_FACTS_END}};
static const cli_facts profile_device_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        PROFILE_COLUMNS, CLI_FACT(WORD, "name", "device", "name of the device"), CLI_FACTS_END}};
static const cli_facts profile_line_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        PROFILE_COLUMNS, CLI_FACT(WORD, "name", "line", "file, line and function"),
        CLI_COLUMN(WORD, "called from"),
        CLI_FACT_OF(LIST, "stack",
                    "stack of its largest sample, the innermost frame first: file, line and "
                    "function of each",
                    NULL),
        CLI_FACTS_END}};
const cli_facts cli_profile_facts = {
    .name = "memory-profile",
    .indent = 2,
    .width = 10,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the file"),
        CLI_FACT(WORD, "tool", "tool", "the tool that wrote the file"),
        CLI_FACT_BRIEF(COUNT, "samples", "samples", "@ samples", "number of samples"),
        CLI_FACT(COUNT, "blocks", "blocks", "number of buffers and executables"),
        CLI_FACT_BRIEF(BYTES, "bytes", "bytes", ", @", "their bytes"),
        CLI_FACT_OF(LIST, "kinds", "bytes by kind", &profile_kind_facts),
        CLI_FACT_OF(LIST, "devices", "bytes by device, without executables, which have none",
                    &profile_device_facts),
        CLI_FACT(COUNT, "line_count", NULL, "number of source lines that hold memory"),
        CLI_FACT_OF(LIST, "lines", "the `--top` largest of them", &profile_line_facts),
        CLI_FACTS_END}};

static const cli_facts node_row_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "outputs", "outputs", "the most bytes of its outputs"),
        CLI_FACT(BYTES, "scratch", "scratch", "the most bytes of its temporary allocations"),
        CLI_FACT(BYTES, "inputs", "inputs", "the most bytes of its inputs"),
        CLI_FACT(BYTES, "initializers", "initializers", "bytes of its initializers"),
        CLI_FACT(WORD, "name", "node", "its name"), CLI_FACTS_END}};
const cli_facts cli_node_stats_facts = {
    .name = "node-stats",
    .indent = 2,
    .width = 14,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the file"),
        CLI_FACT(WORD, "tool", "tool", "the tool that wrote the file"),
        CLI_FACT_BRIEF(COUNT, "nodes", "nodes", "@ nodes", "number of nodes"),
        CLI_FACT(BYTES, "outputs", "outputs", "sum of the outputs of all nodes"),
        CLI_FACT(BYTES, "scratch", "scratch", "sum of the temporary allocations of all nodes"),
        CLI_FACT(BYTES, "initializers", "initializers", "sum of the initializers of all nodes"),
        CLI_FACT_BRIEF(BYTES, "largest", "largest node", ", the largest one with @",
                       "outputs and scratch of the largest node: no order and no plan takes less"),
        CLI_FACT_OF(LIST, "largest_nodes", "the `--top` largest of them by outputs and scratch",
                    &node_row_facts),
        CLI_FACTS_END}};

/* --- a profile --- */

static void profile_add_row(cli_answer *answer, const tn__profile *profile,
                            const tn__profile_group *group) {
    cli_add(answer, "bytes", group->bytes);
    cli_add_real(answer, "share",
                 profile->bytes > 0 ? (double)group->bytes / (double)profile->bytes : 0);
    cli_add(answer, "blocks", group->count);
    cli_add_word(answer, "name", group->name);
}

/* Adds the stack of a sample: the table gets only the next callers, the JSON the whole stack. */
static tn_status profile_add_stack(cli_answer *answer, const tn__profile *profile,
                                   const tn__profile_group *group, tn_error *error) {
    enum { CALLERS = 3 };
    const tn__profile_sample *sample = &profile->samples[group->sample];
    uint32_t inner = sample->frame_count > 0 ? tn__profile_outside(profile, sample) : 0;
    tn__text callers, frame, stack;
    tn__text_init(&callers, NULL);
    tn__text_init(&frame, NULL);
    tn__text_init(&stack, NULL);
    tn__text_put(&callers, "");
    tn__text_put(&stack, "[");
    for (uint32_t i = 0; i < sample->frame_count; i++) {
        frame.size = 0;
        tn__profile_place(&profile->places[profile->frames[sample->first + i]], &frame);
        if (frame.failed) break;
        if (i > 0) tn__text_put(&stack, ",");
        tn__text_json(&stack, frame.data);
        if (i > inner && i <= inner + CALLERS)
            tn__text_printf(&callers, "%s%s", i > inner + 1 ? " < " : "", frame.data);
    }
    tn__text_put(&stack, "]");
    bool fits = !callers.failed && !frame.failed && !stack.failed;
    if (fits) {
        cli_add_cell(answer, "called from", "%s", callers.data);
        cli_add_json(answer, "stack", stack.data);
    }
    tn__text_release(&callers);
    tn__text_release(&frame);
    tn__text_release(&stack);
    return fits ? TN_OK : tn__no_memory(error, "the stacks of a profile");
}

/* Adds one list of groups, at most the `top` largest. Lists of kinds and devices leave out the
 * group without a name. */
static tn_status profile_add_groups(cli_answer *answer, const tn__profile *profile,
                                    tn__profile_by by, uint32_t top, tn_error *error) {
    static const char *const keys[] = {"lines", "kinds", "devices"};
    tn__profile_group *groups = NULL;
    uint32_t count = 0, shown = 0;
    tn__arena names;
    tn__arena_init(&names, NULL);
    tn_status status = tn__profile_groups(profile, by, &names, &groups, &count, error);
    if (status == TN_OK && by == TN__PROFILE_BY_LINE) cli_add(answer, "line_count", count);
    if (status == TN_OK) {
        cli_add_gap(answer);
        cli_answer_open(answer, keys[by]);
    }
    for (uint32_t i = 0; i < count && shown < top && status == TN_OK; i++) {
        if (by != TN__PROFILE_BY_LINE && groups[i].name[0] == 0) continue;
        shown++;
        cli_answer_open(answer, NULL);
        profile_add_row(answer, profile, &groups[i]);
        if (by == TN__PROFILE_BY_LINE)
            status = profile_add_stack(answer, profile, &groups[i], error);
        cli_answer_close(answer);
    }
    if (groups != NULL) cli_answer_close(answer);
    if (by == TN__PROFILE_BY_LINE && count > shown && status == TN_OK)
        cli_add_line(answer, "and", "%" PRIu32 " more", count - shown);
    tn__free(&profile->context, groups, ((size_t)count + 1) * sizeof *groups);
    tn__arena_release(&names);
    return status;
}

static tn_status profile_print(const cli_report *report, const tn__profile *profile) {
    cli_answer answer;
    tn_status status = TN_OK;
    cli_answer_begin(&answer, &cli_profile_facts, report->json);
    cli_add_word(&answer, "input", cli_shown_path(report->path));
    cli_add_word(&answer, "tool", profile->tool);
    cli_add(&answer, "samples", profile->sample_count);
    cli_add(&answer, "blocks", profile->blocks);
    cli_add(&answer, "bytes", profile->bytes);
    static const tn__profile_by all[] = {TN__PROFILE_BY_KIND, TN__PROFILE_BY_DEVICE,
                                         TN__PROFILE_BY_LINE};
    for (uint32_t i = 0; i < 3 && status == TN_OK && !cli_tone_asked().brief; i++)
        status = profile_add_groups(&answer, profile, all[i], i == 2 ? report->top : UINT32_MAX,
                                    report->error);
    if (status == TN_OK) return cli_answer_end(&answer, report->error);
    cli_answer_release(&answer);
    return status;
}

static tn_status profile_work(const cli_report *report, const uint8_t *bytes, size_t size) {
    tn__profile *profile;
    TN_TRY(tn__pprof_read(report->path, bytes, size, &report->context, &profile, report->error));
    cli_progress_end();
    tn_status status = profile_print(report, profile);
    tn__profile_destroy(profile);
    return status;
}

/* --- nodes --- */

static tn_status node_stats_print(const cli_report *report, const tn__node_stats *stats) {
    uint64_t outputs = 0, scratch = 0, initializers = 0;
    cli_answer answer;
    for (size_t i = 0; i < stats->count; i++) {
        outputs = tn__add_sat(outputs, stats->rows[i].outputs);
        scratch = tn__add_sat(scratch, stats->rows[i].scratch);
        initializers = tn__add_sat(initializers, stats->rows[i].initializers);
    }
    cli_answer_begin(&answer, &cli_node_stats_facts, report->json);
    cli_add_word(&answer, "input", cli_shown_path(report->path));
    cli_add_word(&answer, "tool", "ONNX Runtime node memory statistics");
    cli_add(&answer, "nodes", stats->count);
    cli_add(&answer, "outputs", outputs);
    cli_add(&answer, "scratch", scratch);
    cli_add(&answer, "initializers", initializers);
    cli_add(&answer, "largest", tn__add_sat(stats->rows[0].outputs, stats->rows[0].scratch));
    if (!cli_tone_asked().brief) {
        cli_add_line(&answer, "live ranges",
                     "not in this file, so only sums are known; `tenure plan MODEL.onnx` has them");
        cli_add_gap(&answer);
        cli_answer_open(&answer, "largest_nodes");
        for (size_t i = 0; i < stats->count && i < report->top; i++) {
            cli_answer_open(&answer, NULL);
            cli_add(&answer, "outputs", stats->rows[i].outputs);
            cli_add(&answer, "scratch", stats->rows[i].scratch);
            cli_add(&answer, "inputs", stats->rows[i].inputs);
            cli_add(&answer, "initializers", stats->rows[i].initializers);
            cli_add_word(&answer, "name", stats->rows[i].name);
            cli_answer_close(&answer);
        }
        cli_answer_close(&answer);
    }
    return cli_answer_end(&answer, report->error);
}

static tn_status node_stats_work(const cli_report *report, const uint8_t *bytes, size_t size) {
    tn__node_stats *stats;
    TN_TRY(tn__node_stats_read(report->path, bytes, size, &report->context, &stats, report->error));
    cli_progress_end();
    tn_status status = node_stats_print(report, stats);
    tn__node_stats_destroy(stats);
    return status;
}

/* --- both --- */

static bool profile_is_node_stats(const char *path, const uint8_t *bytes, size_t size) {
    return tn__node_stats_recognises(bytes, size) || tn__has_suffix(path, ".csv");
}

bool cli_profile_recognises(const char *path, const uint8_t *bytes, size_t size) {
    return tn__pprof_recognises(path, bytes, size) || profile_is_node_stats(path, bytes, size);
}

int cli_profile_report(cli_report *report, const uint8_t *bytes, size_t size) {
    tn_status status;
    cli_condition_set(CLI_IF_SUMS, true);
    cli_combine_check(NULL);
    if (profile_is_node_stats(report->path, bytes, size))
        status = node_stats_work(report, bytes, size);
    else
        status = profile_work(report, bytes, size);
    return status == TN_OK ? 0 : cli_fail(report->error);
}
