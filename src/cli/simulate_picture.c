/* simulate_picture.c - overhead against budget, one line per policy, as SVG, HTML or CSV.
 *
 * The line of a policy covers the budgets in which it finished the run; a gap is a budget in which
 * it did not. The lowest line at a budget is the best policy there.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/simulate.h"
#include "report/svg/svg.h"

enum { PICTURE_WIDTH = 1000, PICTURE_HEIGHT = 500, PICTURE_LEGEND = 836 };
static const tn__svg_box picture_box = {70, 810, 54, 430};

/* Okabe and Ito's colours, which most people can distinguish; dashes from the second round on. */
static const char *const picture_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#000000", "#56b4e9"};
enum { PICTURE_COLOURS = sizeof picture_colours / sizeof *picture_colours };

typedef struct picture_scale {
    double budget_first, budget_last, most; /* overheads from 1 to `most` */
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
    if (scale.budget_last <= scale.budget_first) { /* a single budget is drawn in the middle */
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

/* 1, 2 or 5 times a power of ten, for about five grid lines. */
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
        const simulate_run *run = simulate_at(found, policy, b);
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
        const simulate_run *run = simulate_at(found, policy, b);
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
        const simulate_run *run = simulate_at(found, policy, b);
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
            const simulate_run *run = simulate_at(found, p, b);
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

tn_status simulate_write(const simulate_found *found, const char *path, tn_error *error) {
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
