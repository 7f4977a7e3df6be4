/* simulate.c - `tenure simulate`: replays a recorded run of operators in less memory, with several
 * eviction policies. */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/model/file_kind.h"
#include "report/svg/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIMULATE_POLICIES_MAX = 32, SIMULATE_BUDGETS_MAX = 128 };

typedef struct simulate_result {
    uint64_t budget;
    tn_evict_outcome outcome;
} simulate_result;

typedef struct simulate_found {
    const char *path;
    const char *policies[SIMULATE_POLICIES_MAX];
    uint32_t policy_count;
    uint64_t budgets[SIMULATE_BUDGETS_MAX]; /* rising */
    uint32_t budget_count;
    bool addresses;
    uint64_t plain_peak;
    tn_evict_least least;
    const tn_evict_log_facts *facts;
    simulate_result *runs; /* [policy_count][budget_count] the result of each replay */
} simulate_found;

static inline const simulate_result *simulate_at(const simulate_found *found, uint32_t policy,
                                                 uint32_t budget) {
    return &found->runs[(size_t)policy * found->budget_count + budget];
}

/* --- names --- */

static const char *simulate_end_name(tn_evict_end end) {
    return end == TN_EVICT_DONE ? "done" : end == TN_EVICT_FULL ? "full" : "over";
}

static double answer_share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

/* --- the answer: the table of its facts --- */

/* The counts of a replay, each as X(unit, field of tn_evict_counts, label, meaning), in the order
 * of the table. */
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
static const cli_facts simulate_facts = {
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

/* --- the answer: one replay --- */

static void answer_counts(cli_answer *answer, const tn_evict_counts *counts) {
#define TN_X(unit, field, label, help) cli_add_if(answer, #field, counts->field);
    SIMULATE_COUNTS(TN_X)
#undef TN_X
    cli_add_real(answer, "search_s", counts->search_s);
}

static void answer_run(cli_answer *answer, const simulate_found *found,
                       const simulate_result *run) {
    const tn_evict_outcome *outcome = &run->outcome;
    bool is_done = outcome->end == TN_EVICT_DONE;
    cli_answer_open(answer, NULL);
    cli_add(answer, "budget", run->budget);
    cli_add_real(answer, "share", answer_share(run->budget, found->plain_peak));
    cli_add_word(answer, "end", simulate_end_name(outcome->end));
    if (is_done) {
        cli_add(answer, "cost", outcome->cost);
        cli_add_real(answer, "overhead", outcome->overhead);
    } else {
        cli_add(answer, "line", outcome->line);
    }
    if (outcome->end == TN_EVICT_OVER)
        cli_add_more(answer, ", after %.4g of the plain time", outcome->overhead);
    if (outcome->end == TN_EVICT_FULL) {
        cli_add(answer, "needed", outcome->needed);
        cli_add_word(answer, "message", outcome->message);
    }
    if (is_done || cli_answer_table(answer) == NULL) answer_counts(answer, &outcome->counts);
    cli_answer_close(answer);
}

static void answer_policies(cli_answer *answer, const simulate_found *found) {
    cli_answer_open(answer, "policies");
    for (uint32_t p = 0; p < found->policy_count; p++) {
        cli_answer_open(answer, NULL);
        cli_add_word(answer, "policy", found->policies[p]);
        cli_answer_open(answer, "runs");
        for (uint32_t b = 0; b < found->budget_count; b++)
            answer_run(answer, found, simulate_at(found, p, b));
        cli_answer_close(answer);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

/* --- the answer: all replays --- */

/* Prints a table with a row for each budget and a column for each policy. */
static void answer_table(const simulate_found *found, tn__text *out) {
    tn__text_printf(out, "%16s  share", "budget");
    for (uint32_t p = 0; p < found->policy_count; p++)
        tn__text_printf(out, " %9s", found->policies[p]);
    tn__text_printf(out, "\n");
    for (uint32_t b = 0; b < found->budget_count; b++) {
        tn__text_printf(out, "%16" PRIu64 " %5.1f%%", found->budgets[b],
                        100 * answer_share(found->budgets[b], found->plain_peak));
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

/* Adds one line: the smallest budget in which any policy finishes the run, and the fastest policy
 * in that budget. */
static void answer_briefly(cli_answer *answer, const simulate_found *found) {
    for (uint32_t b = 0; b < found->budget_count; b++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t p = 0; p < found->policy_count; p++) {
            const tn_evict_outcome *outcome = &simulate_at(found, p, b)->outcome;
            if (outcome->end == TN_EVICT_DONE &&
                (best == UINT32_MAX || outcome->cost < simulate_at(found, best, b)->outcome.cost))
                best = p;
        }
        if (best == UINT32_MAX) continue;
        cli_add_brief(answer, "%" PRIu64 " of %" PRIu64 " bytes, %.4f of the plain time, %s",
                      found->budgets[b], found->plain_peak,
                      simulate_at(found, best, b)->outcome.overhead, found->policies[best]);
        return;
    }
    cli_add_brief(answer, "no budget is enough; the plain peak is %" PRIu64 " bytes",
                  found->plain_peak);
}

static tn_status simulate_print(const simulate_found *found, bool json, tn_error *error) {
    const tn_evict_least *least = &found->least;
    char sizes[3][TN_SIZE_TEXT_MAX];
    cli_answer answer;
    cli_answer_begin(&answer, &simulate_facts, json);
    answer_briefly(&answer, found);
    cli_add_word(&answer, "input", cli_shown_path(found->path));
    cli_add(&answer, "addresses", found->addresses);
    cli_add(&answer, "operators", found->facts->op_count);
    cli_add(&answer, "plain_cost", found->facts->plain_cost);
    cli_add(&answer, "values", found->facts->tensor_count);
    cli_add(&answer, "plain_peak", found->plain_peak);
    cli_add(&answer, "constants", found->facts->constant_count);
    cli_add(&answer, "constant_bytes", found->facts->constant_bytes);
    cli_add(&answer, "least", least->bytes);
    cli_add_more(&answer, ": constants %s, not recomputable %s, %s %s",
                 tn_size_format(least->pinned, sizes[0]), tn_size_format(least->held, sizes[1]),
                 least->name != NULL ? least->name : "the end",
                 tn_size_format(least->working, sizes[2]));
    tn__text *table = cli_answer_table(&answer);
    if (table != NULL && (found->policy_count > 1 || found->budget_count > 1))
        answer_table(found, table);
    else
        answer_policies(&answer, found);
    return cli_answer_end(&answer, error);
}

/* --- the picture: overhead against budget, one line per policy, as SVG, HTML or CSV --- */

/* The line of a policy covers the budgets in which the policy finished the run; the line has a gap
 * at a budget in which it did not. The lowest line at a budget belongs to the best policy there. */

enum { PICTURE_WIDTH = 1000, PICTURE_HEIGHT = 500, PICTURE_LEGEND = 836 };
static const tn__svg_box picture_box = {70, 810, 54, 430};

/* The colours of Okabe and Ito, which most people can distinguish. If there are more policies than
 * colours, the colours repeat with dashed lines. */
static const char *const picture_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#000000", "#56b4e9"};
enum { PICTURE_COLOURS = sizeof picture_colours / sizeof *picture_colours };

typedef struct picture_scale {
    /* smallest and largest budget; the overheads drawn are from 1 to `most` */
    double budget_first, budget_last, most;
} picture_scale;

static picture_scale picture_measure(const simulate_found *found) {
    picture_scale scale = {(double)found->budgets[0],
                           (double)found->budgets[found->budget_count - 1], 1.02};
    for (uint32_t p = 0; p < found->policy_count; p++)
        for (uint32_t b = 0; b < found->budget_count; b++) {
            const tn_evict_outcome *outcome = &simulate_at(found, p, b)->outcome;
            if (outcome->end == TN_EVICT_DONE && outcome->overhead > scale.most)
                scale.most = outcome->overhead;
        }
    scale.most += (scale.most - 1) * 0.04;
    /* widened, so that a single budget is drawn in the middle */
    if (scale.budget_last <= scale.budget_first) {
        scale.budget_first *= 0.9;
        scale.budget_last = scale.budget_last * 1.1 + 1;
    }
    return scale;
}

static double picture_x(const picture_scale *scale, uint64_t budget) {
    double part =
        ((double)budget - scale->budget_first) / (scale->budget_last - scale->budget_first);
    return picture_box.left + part * (picture_box.right - picture_box.left);
}
static double picture_y(const picture_scale *scale, double overhead) {
    return picture_box.bottom -
           (picture_box.bottom - picture_box.top) * (overhead - 1) / (scale->most - 1);
}

/* Returns the distance between grid lines: 1, 2 or 5 times a power of ten, so that `span` has a few
 * lines. */
static double picture_step(double span) {
    double step = 0.001;
    while (step * 6 < span) {
        if (step * 12 >= span) return step * 2;
        if (step * 30 >= span) return step * 5;
        step *= 10;
    }
    return step;
}

static void picture_axes(const simulate_found *found, const picture_scale *scale, tn__text *text) {
    char words[TN_SIZE_TEXT_MAX];
    double step = picture_step(scale->most - 1);
    tn__svg_frame(text, &picture_box);
    for (int i = 0; 1 + i * step < scale->most; i++) {
        double y = picture_y(scale, 1 + i * step);
        tn__svg_line(text, picture_box.left, y, picture_box.right, y, "stroke=\"#ddd\"");
        snprintf(words, sizeof words, "%.3g", 1 + i * step);
        tn__svg_words(text, picture_box.left - 8, y + 4, "text-anchor=\"end\" fill=\"#555\"",
                      words);
    }
    uint32_t every = (found->budget_count + 9) / 10;
    for (uint32_t b = 0; b < found->budget_count; b += every) {
        double x = picture_x(scale, found->budgets[b]);
        tn__svg_line(text, x, picture_box.bottom, x, picture_box.bottom + 5, "stroke=\"#555\"");
        tn_size_format(found->budgets[b], words);
        words[strcspn(words, "(")] = '\0';
        tn__svg_words(text, x, picture_box.bottom + 19, "text-anchor=\"middle\" fill=\"#555\"",
                      words);
        if (found->plain_peak == 0) continue;
        snprintf(words, sizeof words, "%.0f %%",
                 100 * (double)found->budgets[b] / (double)found->plain_peak);
        tn__svg_words(text, x, picture_box.bottom + 33, "text-anchor=\"middle\" fill=\"#555\"",
                      words);
    }
}

static void picture_line(const simulate_found *found, const picture_scale *scale, uint32_t policy,
                         tn__text *text) {
    const char *colour = picture_colours[policy % PICTURE_COLOURS];
    bool is_down = false;
    tn__text_put(text, "<path d=\"");
    for (uint32_t b = 0; b < found->budget_count; b++) {
        const simulate_result *run = simulate_at(found, policy, b);
        bool is_done = run->outcome.end == TN_EVICT_DONE;
        if (is_done) {
            tn__text_put(text, is_down ? "L" : "M");
            tn__svg_number(text, picture_x(scale, run->budget));
            tn__text_put(text, " ");
            tn__svg_number(text, picture_y(scale, run->outcome.overhead));
        }
        is_down = is_done;
    }
    tn__text_printf(text, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\"%s/>\n", colour,
                    policy >= PICTURE_COLOURS ? " stroke-dasharray=\"6 3\"" : "");
    for (uint32_t b = 0; b < found->budget_count; b++) {
        const simulate_result *run = simulate_at(found, policy, b);
        if (run->outcome.end != TN_EVICT_DONE) continue;
        tn__text_printf(text, "<circle r=\"2.6\" fill=\"%s\"", colour);
        tn__svg_attribute(text, "cx", picture_x(scale, run->budget));
        tn__svg_attribute(text, "cy", picture_y(scale, run->outcome.overhead));
        tn__text_printf(text, "><title>%s: %" PRIu64 " bytes, %.4f</title></circle>\n",
                        found->policies[policy], run->budget, run->outcome.overhead);
    }
}

static void picture_legend(const simulate_found *found, uint32_t policy, tn__text *text) {
    double y = picture_box.top + 12 + 30 * policy;
    char words[96] = "did not finish in any budget";
    for (uint32_t b = 0; b < found->budget_count; b++) {
        const simulate_result *run = simulate_at(found, policy, b);
        if (run->outcome.end != TN_EVICT_DONE) continue;
        snprintf(words, sizeof words, "from %.0f %% on",
                 100 * (double)run->budget /
                     (double)(found->plain_peak + (found->plain_peak == 0)));
        break;
    }
    char style[96];
    snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"3\"%s",
             picture_colours[policy % PICTURE_COLOURS],
             policy >= PICTURE_COLOURS ? " stroke-dasharray=\"6 3\"" : "");
    tn__svg_line(text, PICTURE_LEGEND, y - 4, PICTURE_LEGEND + 20, y - 4, style);
    tn__svg_words(text, PICTURE_LEGEND + 28, y, "font-weight=\"600\"", found->policies[policy]);
    tn__svg_words(text, PICTURE_LEGEND + 28, y + 13, "fill=\"#555\"", words);
}

static void picture_svg(const simulate_found *found, tn__text *text) {
    picture_scale scale = picture_measure(found);
    double legend_end = picture_box.top + 30 * (found->policy_count + 1);
    int height = legend_end > PICTURE_HEIGHT ? (int)legend_end : PICTURE_HEIGHT;
    tn__text_printf(text,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                    "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
                    "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
                    PICTURE_WIDTH, height, PICTURE_WIDTH, height, PICTURE_WIDTH, height);
    tn__svg_words(text, picture_box.left, 24, "font-size=\"15\" font-weight=\"600\"",
                  found->addresses ? "Time against memory, in one arena"
                                   : "Time against memory, by bytes alone");
    tn__svg_words(text, picture_box.left, 42, "fill=\"#555\"", found->path);
    picture_axes(found, &scale, text);
    for (uint32_t p = 0; p < found->policy_count; p++) picture_line(found, &scale, p, text);
    for (uint32_t p = 0; p < found->policy_count; p++) picture_legend(found, p, text);
    tn__svg_words(
        text, (picture_box.left + picture_box.right) / 2, picture_box.bottom + 52,
        "fill=\"#555\" text-anchor=\"middle\"",
        "budget, and its fraction of the plain peak; times are relative to the plain run");
    tn__text_put(text, "</svg>\n");
}

/* --- the page: the picture, and its numbers --- */

static void page_table(const simulate_found *found, tn__text *text) {
    tn__text_put(text, "<table>\n<tr><th>budget</th><th>of the plain peak</th>");
    for (uint32_t p = 0; p < found->policy_count; p++)
        tn__text_printf(text, "<th>%s</th>", found->policies[p]);
    tn__text_put(text, "</tr>\n");
    for (uint32_t b = 0; b < found->budget_count; b++) {
        tn__text_printf(text, "<tr><td>%" PRIu64 "</td><td>%.1f %%</td>", found->budgets[b],
                        100 * (double)found->budgets[b] /
                            (double)(found->plain_peak + (found->plain_peak == 0)));
        for (uint32_t p = 0; p < found->policy_count; p++) {
            const tn_evict_outcome *outcome = &simulate_at(found, p, b)->outcome;
            if (outcome->end == TN_EVICT_DONE)
                tn__text_printf(text, "<td>%.4f</td>", outcome->overhead);
            else
                tn__text_printf(text, "<td class=\"no\">%s</td>", simulate_end_name(outcome->end));
        }
        tn__text_put(text, "</tr>\n");
    }
    tn__text_put(text, "</table>\n");
}

static void picture_page(const simulate_found *found, tn__text *text) {
    tn__text_put(text, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n<title>");
    tn__text_xml(text, found->path);
    tn__text_put(text,
                 "</title>\n<style>body{font:14px/1.5 sans-serif;margin:2em auto;max-width:1000px;"
                 "padding:0 1em;color:#222;background:#fff}svg{max-width:100%;height:auto}"
                 "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;"
                 "text-align:right;border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}"
                 ".no{color:#767676}</style>\n");
    picture_svg(found, text);
    page_table(found, text);
    tn__text_printf(text,
                    "<p>%u operators, %.6f s, peak %" PRIu64 " bytes, of which %" PRIu64
                    " are constants. <i>full</i>: no tensor was left to evict; <i>over</i>: "
                    "stopped because it took too long.</p>\n</html>\n",
                    found->facts->op_count, (double)found->facts->plain_cost / 1e9,
                    found->plain_peak, found->facts->constant_bytes);
}

static void picture_csv(const simulate_found *found, tn__text *text) {
    tn__text_put(text, "policy,budget,end,overhead,remade_cost,drop_count,hole_bytes,moved_bytes,"
                       "swapped_bytes,peak_bytes\n");
    for (uint32_t p = 0; p < found->policy_count; p++)
        for (uint32_t b = 0; b < found->budget_count; b++) {
            const simulate_result *run = simulate_at(found, p, b);
            const tn_evict_counts *counts = &run->outcome.counts;
            bool is_done = run->outcome.end == TN_EVICT_DONE;
            tn__text_printf(text, "%s,%" PRIu64 ",%s,", found->policies[p], run->budget,
                            simulate_end_name(run->outcome.end));
            if (is_done) tn__text_printf(text, "%.9f", run->outcome.overhead);
            tn__text_printf(
                text, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                counts->remade_cost, counts->drop_count, counts->hole_bytes, counts->moved_bytes,
                counts->swapped_bytes, counts->peak_bytes);
        }
}

/* Writes the results to a .html, .svg or .csv file, which the suffix of the path selects. */
static tn_status simulate_write(const simulate_found *found, const char *path, tn_error *error) {
    tn__text text;
    tn__text_init(&text, NULL);
    if (tn__has_suffix(path, ".csv"))
        picture_csv(found, &text);
    else if (tn__has_suffix(path, ".svg"))
        picture_svg(found, &text);
    else
        picture_page(found, &text);
    tn_status status = text.failed ? tn__no_memory(error, "a picture")
                                   : tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

/* --- the options of `tenure simulate` --- */

enum {
    SIMULATE_POLICY = 400,
    SIMULATE_BUDGET,
    SIMULATE_SWEEP,
    SIMULATE_ADDRESSES,
    SIMULATE_ALIGNMENT,
    SIMULATE_LINK,
    SIMULATE_HOST,
    SIMULATE_MOVES,
    SIMULATE_MOST,
    SIMULATE_SAMPLE,
    SIMULATE_SEED,
    SIMULATE_JSON
};

#define SIMULATE_OPTIONS(X)                                                                        \
    X(SIMULATE_POLICY, "policy", "NAME,...",                                                       \
      "eviction policy: names of `tenure list policies`, or all (default: the first)")             \
    X(SIMULATE_BUDGET, "budget", "SIZE",                                                           \
      "memory in bytes, or as a fraction of the plain peak such as 0.5; may be a list (default: "  \
      "0.5)")                                                                                      \
    X(SIMULATE_SWEEP, "sweep", NULL, "use budgets of 0.1, 0.2, ..., 1.0 of the plain peak")        \
    X(SIMULATE_ADDRESSES, "addresses", NULL,                                                       \
      "place tensors at addresses in one arena: evictions must free a contiguous range")           \
    X(SIMULATE_ALIGNMENT, "alignment", "SIZE",                                                     \
      "with --addresses: alignment of tensors in bytes (default: 64)")                             \
    X(SIMULATE_LINK, "link", "SIZE/s",                                                             \
      "allow swapping to the host, at this speed in each direction (default: no swapping)")        \
    X(SIMULATE_HOST, "host", "SIZE",                                                               \
      "bytes of host memory for swapped tensors (default: no limit)")                              \
    X(SIMULATE_MOVES, "moves", "SIZE/s", "speed of moves within the arena (default: 100GB/s)")     \
    X(SIMULATE_MOST, "overhead-max", "TIMES",                                                      \
      "stop if the run takes more than N times the plain time (default: 2)")                       \
    X(SIMULATE_SAMPLE, "sample", NULL, "compare only sqrt(n) random candidates of n")              \
    X(SIMULATE_SEED, "seed", "N", "seed of random choices (default: 0)")                           \
    X('o', "output", "FILE", "write a picture or a table, .html, .svg or .csv; may be repeated")   \
    X(SIMULATE_JSON, "json", NULL, "print one JSON object instead of the table")

typedef struct simulate_arguments {
    simulate_found found;
    const char *budgets;
    cli_paths outputs;
    bool json, sweep;
    tn_evict_options options;
} simulate_arguments;

static const struct argp_option simulate_options[] = {SIMULATE_OPTIONS(CLI_OPTION){0}};

static void simulate_add_policy(simulate_found *found, const char *name, size_t size,
                                struct argp_state *state) {
    for (uint32_t i = 0; i < tn_evict_policy_count(); i++) {
        const char *known = tn_evict_policy_name(i);
        if (strlen(known) != size || memcmp(known, name, size) != 0) continue;
        for (uint32_t k = 0; k < found->policy_count; k++)
            if (found->policies[k] == known) return;
        if (found->policy_count < SIMULATE_POLICIES_MAX)
            found->policies[found->policy_count++] = known;
        return;
    }
    cli_misuse(state, "--policy: there is no policy '%.*s'; see `tenure list policies`", (int)size,
               name);
}

static void simulate_take_policies(simulate_found *found, const char *words,
                                   struct argp_state *state) {
    if (strcmp(words, "all") == 0) {
        for (uint32_t i = 0; i < tn_evict_policy_count(); i++)
            simulate_add_policy(found, tn_evict_policy_name(i), strlen(tn_evict_policy_name(i)),
                                state);
        return;
    }
    for (;; words++) {
        size_t size = strcspn(words, ",");
        simulate_add_policy(found, words, size, state);
        words += size;
        if (*words == '\0') return;
    }
}

static error_t simulate_parse(int key, char *value, struct argp_state *state) {
    simulate_arguments *arguments = state->input;
    tn_evict_options *options = &arguments->options;
    switch (key) {
    case SIMULATE_POLICY:
        simulate_take_policies(&arguments->found, value, state);
        return 0;
    case SIMULATE_BUDGET:
        arguments->budgets = value;
        return 0;
    case SIMULATE_SWEEP:
        arguments->sweep = true;
        return 0;
    case SIMULATE_ADDRESSES:
        options->addresses = arguments->found.addresses = true;
        return 0;
    case SIMULATE_ALIGNMENT:
        options->alignment = cli_size(state, "alignment", value);
        return 0;
    case SIMULATE_LINK:
        options->link_bytes_per_s = (uint64_t)cli_speed(state, "link", value);
        return 0;
    case SIMULATE_HOST:
        options->host_bytes = cli_size(state, "host", value);
        return 0;
    case SIMULATE_MOVES:
        options->move_bytes_per_s = (uint64_t)cli_speed(state, "moves", value);
        return 0;
    case SIMULATE_MOST:
        options->overhead_max = cli_real(state, "overhead-max", value);
        return 0;
    case SIMULATE_SAMPLE:
        options->sample = true;
        return 0;
    case SIMULATE_SEED:
        options->seed = cli_number(state, "seed", value);
        return 0;
    case 'o':
        CLI_PATHS_ADD(state, "-o", value, &arguments->outputs, ".html", ".svg", ".csv");
        return 0;
    case SIMULATE_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->found.path != NULL)
            cli_misuse(state, "give only one log; '%s' is a second one", value);
        arguments->found.path = value;
        cli_note_input(value);
        cli_refuse_kind(state, value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->found.path == NULL)
            cli_misuse(state, "no log given; pass the file of a recorded run");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- budgets --- */

static void simulate_add_budget(simulate_found *found, uint64_t budget) {
    uint32_t at = found->budget_count;
    if (at == SIMULATE_BUDGETS_MAX) return;
    for (; at > 0 && found->budgets[at - 1] > budget; at--)
        found->budgets[at] = found->budgets[at - 1];
    found->budgets[at] = budget;
    found->budget_count++;
}

/* Adds one budget of --budget. A number with a decimal point and without a unit is a fraction of
 * the plain peak. Anything else is a size in bytes. */
static tn_status simulate_take_budget(simulate_found *found, const char *word, tn_error *error) {
    char *end;
    uint64_t bytes;
    double share = strtod(word, &end);
    if (strchr(word, '.') != NULL && *end == '\0' && end != word) {
        if (!(share > 0 && share <= 8))
            TN_FAIL(
                error, TN_E_INVALID,
                "--budget: a fraction of the plain peak must be above 0 and at most 8, not %.40s",
                word);
        simulate_add_budget(found, (uint64_t)((double)found->plain_peak * share));
        return TN_OK;
    }
    TN_TRY(tn_size_parse(word, &bytes, error));
    simulate_add_budget(found, bytes);
    return TN_OK;
}

static tn_status simulate_take_budgets(simulate_arguments *arguments, tn_error *error) {
    simulate_found *found = &arguments->found;
    const char *words = arguments->budgets != NULL ? arguments->budgets : "0.5";
    for (uint32_t i = 1; arguments->sweep && i <= 10; i++)
        simulate_add_budget(found, (uint64_t)((double)found->plain_peak * (i / 10.0)));
    while (!arguments->sweep) {
        char word[64];
        size_t size = strcspn(words, ",");
        snprintf(word, sizeof word, "%.*s", (int)(size < 63 ? size : 63), words);
        TN_TRY(simulate_take_budget(found, word, error));
        if (words[size] == '\0') break;
        words += size + 1;
    }
    return TN_OK;
}

static tn_status simulate_work(simulate_arguments *arguments, tn_evict_log **log, tn_error *error) {
    simulate_found *found = &arguments->found;
    TN_TRY(tn_evict_log_load(arguments->options.context, found->path, log, error));
    found->facts = tn_evict_log_about(*log);
    TN_TRY(tn_evict_plain_peak(*log, &found->plain_peak, error));
    TN_TRY(tn_evict_plain_least(*log, &found->least, error));
    TN_TRY(simulate_take_budgets(arguments, error));
    found->runs = calloc((size_t)found->policy_count * found->budget_count, sizeof *found->runs);
    if (found->runs == NULL) return tn__no_memory(error, "the answers");
    for (uint32_t p = 0; p < found->policy_count; p++)
        for (uint32_t b = 0; b < found->budget_count; b++) {
            simulate_result *run = &found->runs[(size_t)p * found->budget_count + b];
            arguments->options.policy = found->policies[p];
            arguments->options.budget = run->budget = found->budgets[b];
            TN_TRY(tn_evict_simulate(*log, &arguments->options, &run->outcome, error));
        }
    return TN_OK;
}

/* Returns the exit status: 1 if for some budget of --budget no policy finishes the run, else 0. */
static int simulate_code(const simulate_arguments *arguments) {
    const simulate_found *found = &arguments->found;
    for (uint32_t b = 0; !arguments->sweep && b < found->budget_count; b++) {
        bool is_done = false;
        for (uint32_t p = 0; p < found->policy_count; p++)
            is_done = is_done || simulate_at(found, p, b)->outcome.end == TN_EVICT_DONE;
        if (!is_done) return tn_status_exit_code(TN_E_EXHAUSTED);
    }
    return 0;
}

static tn_status simulate_write_file(const void *self, const char *path, tn_error *error) {
    return simulate_write(self, path, error);
}

static int simulate_print_answer(const simulate_arguments *arguments, tn_error *error) {
    tn_status status = TN_OK;
    cli_progress_end();
    status = cli_paths_write(&arguments->outputs, simulate_write_file, &arguments->found, error);
    if (status == TN_OK) status = simulate_print(&arguments->found, arguments->json, error);
    if (status != TN_OK) return cli_fail(error);
    if (!arguments->json) cli_paths_print(&arguments->outputs);
    return simulate_code(arguments);
}

static const char simulate_doc[] =
    "Replays LOG, a recorded run of operators, in less memory than it used. Evicted tensors are "
    "recomputed when they are needed again. LOG has the line format of DTR's simulator, or comes "
    "from `python3 -m tenure.record`.\v"
    "Examples:\n"
    "  tenure simulate run.log --budget 0.5\n"
    "  tenure simulate run.log --policy all --sweep -o sweep.html\n"
    "  tenure simulate run.log --policy window,dte,dtr --budget 4GiB --addresses\n\n"
    "Exit status: 0 done, 1 no policy can finish in some budget, 2 bad usage or input, 4 internal "
    "error.";

static const struct argp simulate_parser = {
    simulate_options, simulate_parse, "LOG", simulate_doc, NULL, 0, 0};

static int simulate_run_command(int count, char **words) {
    tn_error error = {0};
    tn_evict_log *log = NULL;
    simulate_arguments arguments = {.options = TN_EVICT_OPTIONS_INIT};
    tn_context context = cli_context();
    arguments.options.context = &context;
    arguments.options.overhead_max = 2;
    arguments.options.time_search = true;
    cli_parse(&cli_command_simulate, count, words, &arguments);
    cli_context_read(&context);
    if (arguments.found.policy_count == 0)
        arguments.found.policies[arguments.found.policy_count++] = tn_evict_policy_name(0);
    int code = simulate_work(&arguments, &log, &error) == TN_OK
                   ? simulate_print_answer(&arguments, &error)
                   : cli_fail(&error);
    free(arguments.found.runs);
    tn_evict_log_destroy(log);
    return cli_finish(code);
}

const cli_command cli_command_simulate = {
    .name = "simulate",
    .summary = "replay recorded operators in less memory, and compare eviction policies",
    .first = "policy budget sweep addresses output json",
    .answers = (const cli_facts *const[]){&simulate_facts, NULL},
    .parser = &simulate_parser,
    .run = simulate_run_command,
};
