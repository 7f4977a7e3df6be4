/* simulate_tell.c - prints the results of `tenure simulate` as text and JSON. */
#include "cli/simulate.h"

#include <inttypes.h>

const char *simulate_end_name(tn_evict_end end) {
    return end == TN_EVICT_DONE ? "done" : end == TN_EVICT_FULL ? "full" : "over";
}

static double tell_share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

/* --- the facts --- */

/* X(unit, field of tn_evict_counts, label, meaning), in the order of the table. */
/* clang-format off */
#define SIMULATE_COUNTS(X)                                                                         \
    X(NS, plain_cost, NULL, "nanoseconds of the operators of the run, each once")                  \
    X(COUNT, remade_ops, "recomputed", "operators that ran again")                                 \
    X(NS, remade_cost, "| operators, ", "nanoseconds of these operators")                          \
    X(BYTES, peak_bytes, "peak", "most bytes of tensors at once")                                  \
    X(BYTES, reach_bytes, "highest byte", "with --addresses: the end of the highest tensor")       \
    X(COUNT, drop_count, "dropped", "tensors that left memory: evicted or unreferenced")           \
    X(BYTES, dropped_bytes, "|, ", "bytes of these tensors")                                       \
    X(COUNT, swap_count, "to the host", "copies to the host")                                      \
    X(BYTES, swapped_bytes, "|, ", "bytes of these copies")                                        \
    X(COUNT, fetch_count, "|; back ", "copies back from the host")                                 \
    X(BYTES, fetched_bytes, "|, ", "bytes of the copies back")                                     \
    X(NS, swap_cost, NULL, "nanoseconds of all copies")                                            \
    X(COUNT, move_count, "moved", "moves within the arena")                                        \
    X(BYTES, moved_bytes, "|, ", "bytes of these moves")                                           \
    X(NS, move_cost, NULL, "nanoseconds of these moves")                                           \
    X(COUNT, hole_count, "holes", "times that enough bytes were free but not contiguous")          \
    X(BYTES, hole_bytes, "| times enough bytes were free but not contiguous; evicted for it: ",    \
      "bytes that were evicted for it")                                                            \
    X(BYTES, host_peak_bytes, NULL, "most bytes on the host at once")                              \
    X(COUNT, restart_count, NULL, "times that locked operands were released to make room")         \
    X(COUNT, spent_count, NULL, "released values that nothing refers to or can recompute")         \
    X(BYTES, spent_bytes, NULL, "bytes of these values")                                           \
    X(COUNT, search_count, "searched", "searches for a tensor to evict")                           \
    X(COUNT, evaluation_count, "| times, ", "candidates that were compared")                       \
    X(COUNT, access_count, "| candidates, ", "records that were read for it")
/* clang-format on */

static const cli_facts simulate_run_facts = {
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "budget", "budget", "the budget"),
        CLI_FACT(SHARE, "share", "|, ", "`budget` / `plain_peak`"),
        CLI_FACT(WORD, "end", NULL,
                 "done; full (nothing evictable was left); or over (stopped at --overhead-max)"),
        CLI_FACT(COUNT, "line", "ended at line", "if not done: the line of the log"),
        CLI_FACT(BYTES, "needed", NULL, "of full: a budget that is enough for this operator"),
        CLI_FACT(WORD, "message", "does not fit", "of full: the tensors that hold the memory"),
        CLI_FACT(NS, "cost", "time", "of done: nanoseconds of the run"),
        CLI_FACT(REAL, "overhead",
                 "|, relative to the plain time: ", "of done: `cost` / plain cost"),
#define TN_X(unit, field, label, help) CLI_FACT(unit, #field, label, help),
        SIMULATE_COUNTS(TN_X)
#undef TN_X
            CLI_FACT(SECONDS, "search_s", "| records, ", "seconds of these searches"),
        CLI_FACTS_END}};
static const cli_facts simulate_policy_facts = {
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "policy", "policy", "name of the policy"),
        CLI_FACT_OF(LIST, "runs", "one for each budget, in rising order", &simulate_run_facts),
        CLI_FACTS_END}};
const cli_facts simulate_facts = {
    .name = "simulation",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the log"),
        CLI_FACT(YES, "addresses", NULL, "whether tensors have addresses in one arena"),
        CLI_FACT(COUNT, "operators", "operators", "operators of the recorded run"),
        CLI_FACT(NS, "plain_cost", "|, ", "nanoseconds of the run without evictions"),
        CLI_FACT(COUNT, "values", NULL, "its values, including views and constants"),
        CLI_FACT(BYTES, "plain_peak", "plain peak", "peak of the run without evictions"),
        CLI_FACT(COUNT, "constants", NULL, "its constants"),
        CLI_FACT(BYTES, "constant_bytes", "  of it constants", "bytes of the constants"),
        CLI_FACT(BYTES, "least", "lower bound",
                 "no policy needs less, unless it copies tensors to the host"),
        CLI_FACT_OF(LIST, "policies", "the results of each policy", &simulate_policy_facts),
        CLI_FACTS_END}};

/* --- one run --- */

static void tell_counts(cli_answer *answer, const tn_evict_counts *counts) {
#define TN_X(unit, field, label, help) cli_tell_if(answer, #field, counts->field);
    SIMULATE_COUNTS(TN_X)
#undef TN_X
    cli_tell_real(answer, "search_s", counts->search_s);
}

static void tell_run(cli_answer *answer, const simulate_found *found, const simulate_run *run) {
    const tn_evict_outcome *outcome = &run->outcome;
    bool is_done = outcome->end == TN_EVICT_DONE;
    cli_answer_open(answer, NULL);
    cli_tell(answer, "budget", run->budget);
    cli_tell_real(answer, "share", tell_share(run->budget, found->plain_peak));
    cli_tell_word(answer, "end", simulate_end_name(outcome->end));
    if (is_done) {
        cli_tell(answer, "cost", outcome->cost);
        cli_tell_real(answer, "overhead", outcome->overhead);
    } else {
        cli_tell(answer, "line", outcome->line);
    }
    if (outcome->end == TN_EVICT_OVER)
        cli_tell_more(answer, ", after %.4g of the plain time", outcome->overhead);
    if (outcome->end == TN_EVICT_FULL) {
        cli_tell(answer, "needed", outcome->needed);
        cli_tell_word(answer, "message", outcome->message);
    }
    if (is_done || cli_answer_table(answer) == NULL) tell_counts(answer, &outcome->counts);
    cli_answer_close(answer);
}

static void tell_policies(cli_answer *answer, const simulate_found *found) {
    cli_answer_open(answer, "policies");
    for (uint32_t p = 0; p < found->policy_count; p++) {
        cli_answer_open(answer, NULL);
        cli_tell_word(answer, "policy", found->policies[p]);
        cli_answer_open(answer, "runs");
        for (uint32_t b = 0; b < found->budget_count; b++)
            tell_run(answer, found, simulate_at(found, p, b));
        cli_answer_close(answer);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

/* --- all runs --- */

/* A row for each budget, a column for each policy. */
static void tell_table(const simulate_found *found, tn__text *out) {
    tn__text_printf(out, "%16s  share", "budget");
    for (uint32_t p = 0; p < found->policy_count; p++)
        tn__text_printf(out, " %9s", found->policies[p]);
    tn__text_printf(out, "\n");
    for (uint32_t b = 0; b < found->budget_count; b++) {
        tn__text_printf(out, "%16" PRIu64 " %5.1f%%", found->budgets[b],
                        100 * tell_share(found->budgets[b], found->plain_peak));
        for (uint32_t p = 0; p < found->policy_count; p++) {
            const tn_evict_outcome *outcome = &simulate_at(found, p, b)->outcome;
            if (outcome->end == TN_EVICT_DONE)
                tn__text_printf(out, " %9.4f", outcome->overhead);
            else
                tn__text_printf(out, " %9s", simulate_end_name(outcome->end));
        }
        tn__text_printf(out, "\n");
    }
}

/* One line: the smallest budget in which any policy finishes, and its fastest policy. */
static void tell_briefly(cli_answer *answer, const simulate_found *found) {
    for (uint32_t b = 0; b < found->budget_count; b++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t p = 0; p < found->policy_count; p++) {
            const tn_evict_outcome *outcome = &simulate_at(found, p, b)->outcome;
            if (outcome->end == TN_EVICT_DONE &&
                (best == UINT32_MAX || outcome->cost < simulate_at(found, best, b)->outcome.cost))
                best = p;
        }
        if (best == UINT32_MAX) continue;
        cli_tell_brief(answer, "%" PRIu64 " of %" PRIu64 " bytes, %.4f of the plain time, %s",
                       found->budgets[b], found->plain_peak,
                       simulate_at(found, best, b)->outcome.overhead, found->policies[best]);
        return;
    }
    cli_tell_brief(answer, "no budget is enough; the plain peak is %" PRIu64 " bytes",
                   found->plain_peak);
}

tn_status simulate_print(const simulate_found *found, bool json, tn_error *error) {
    const tn_evict_least *least = &found->least;
    char sizes[3][TN_SIZE_TEXT_MAX];
    cli_answer answer;
    cli_answer_begin(&answer, &simulate_facts, json);
    tell_briefly(&answer, found);
    cli_tell_word(&answer, "input", cli_shown_path(found->path));
    cli_tell(&answer, "addresses", found->addresses);
    cli_tell(&answer, "operators", found->facts->op_count);
    cli_tell(&answer, "plain_cost", found->facts->plain_cost);
    cli_tell(&answer, "values", found->facts->tensor_count);
    cli_tell(&answer, "plain_peak", found->plain_peak);
    cli_tell(&answer, "constants", found->facts->constant_count);
    cli_tell(&answer, "constant_bytes", found->facts->constant_bytes);
    cli_tell(&answer, "least", least->bytes);
    cli_tell_more(&answer, ": constants %s, not recomputable %s, %s %s",
                  tn_size_format(least->pinned, sizes[0]), tn_size_format(least->held, sizes[1]),
                  least->name != NULL ? least->name : "the end",
                  tn_size_format(least->working, sizes[2]));
    tn__text *table = cli_answer_table(&answer);
    if (table != NULL && (found->policy_count > 1 || found->budget_count > 1))
        tell_table(found, table);
    else
        tell_policies(&answer, found);
    return cli_answer_end(&answer, error);
}
