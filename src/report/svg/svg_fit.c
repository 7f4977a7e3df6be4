/* svg_fit.c - draws the parts of a picture that show a fit: fills that distinguish decisions
 * without colour, and the curve of memory against time. The axes of the curve are bytes, and time
 * as a multiple of the time before fitting. */
#include "report/svg/svg.h"

#include <math.h>
#include <stdio.h>

typedef struct svg_trade {
    tn__text *text;
    const tn__svg_box *box;
    const tn_report_fit *fit;
    double least, most;     /* bytes */
    double lowest, highest; /* times */
} svg_trade;

void tn__svg_fate_patterns(tn__text *text) {
    static const char *const marks[TN_FATE_COUNT] = {
        [TN_FATE_RECOMPUTED] = "<path d=\"M-1 7L7 -1M5 7L7 5M-1 1L1 -1\" stroke=\"#000\" "
                               "stroke-opacity=\".3\"/>",
        [TN_FATE_SWAPPED] = "<path d=\"M0 3H6\" stroke=\"#000\" stroke-opacity=\".3\"/>",
        [TN_FATE_ENCODED] = "<path d=\"M1 1h1.6v1.6h-1.6zM4 4h1.6v1.6h-1.6z\" fill=\"#000\" "
                            "fill-opacity=\".35\"/>"};
    tn__text_put(text, "<defs>\n");
    for (uint32_t fate = TN_FATE_KEPT + 1; fate < TN_FATE_COUNT; fate++)
        tn__text_printf(text,
                        "<pattern id=\"%s\" width=\"6\" height=\"6\" "
                        "patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" "
                        "fill=\"%s\"/>%s</pattern>\n",
                        tn_fate_name((tn_fate)fate), tn__words_fate_colour((tn_fate)fate),
                        marks[fate]);
    tn__text_put(text, "</defs>\n");
}

void tn__svg_fate_fill(tn__text *text, tn_fate fate) {
    if (fate == TN_FATE_KEPT)
        tn__text_printf(text, "fill=\"%s\"", tn__words_fate_colour(fate));
    else
        tn__text_printf(text, "fill=\"url(#%s)\"", tn_fate_name(fate));
}

void tn__svg_fates(tn__text *text, const tn_fate_totals *totals, double x, double y) {
    for (uint32_t fate = 0; fate < TN_FATE_COUNT; fate++) {
        if (totals->tensors[fate] == 0) continue;
        char words[96], iec[TN__WORDS_MAX];
        snprintf(words, sizeof words, "%s: %u tensors, %s", tn_fate_name((tn_fate)fate),
                 totals->tensors[fate], tn__words_iec(totals->bytes[fate], iec));
        tn__text_put(text, "<rect width=\"14\" height=\"12\" rx=\"2\" ");
        tn__svg_fate_fill(text, (tn_fate)fate);
        tn__svg_attribute(text, "x", x);
        tn__svg_attribute(text, "y", y - 10);
        tn__text_put(text, "/>\n");
        tn__svg_words(text, x + 19, y, "fill=\"#1b1f24\"", words);
        x += 34 + 6.3 * (double)strlen(words);
    }
}

void tn__svg_fit_words(tn__text *text, const tn_report_fit *fit) {
    const tn_fit_result *it = fit->result;
    char bytes[TN__WORDS_MAX], plain[TN__WORDS_MAX];
    double ratio = it->plain_time > 0 ? (double)it->time / (double)it->plain_time : 1;
    tn__text_printf(text, "%s instead of %s on the device, in ", tn__words_iec(it->bytes, bytes),
                    tn__words_iec(it->plain_bytes, plain));
    if (fit->work) {
        tn__text_printf(text, "parts, for %.4f of the work", ratio);
        return;
    }
    tn__words_time(text, fit, it->time);
    tn__text_printf(text, ", %.4f of the time (pass %.40s)", ratio, it->pass ? it->pass : "");
}

/* --- scales --- */

static void svg_span(svg_trade *trade) {
    const tn_report_fit *fit = trade->fit;
    const tn_fit_result *it = fit->result;
    trade->least = trade->most = (double)it->bytes;
    trade->lowest = fmin((double)it->plain_time, (double)it->time);
    trade->highest = fmax((double)it->plain_time, (double)it->time);
    if (fit->budget > 0) {
        trade->least = fmin(trade->least, (double)fit->budget);
        trade->most = fmax(trade->most, (double)fit->budget);
    }
    for (uint32_t i = 0; i < fit->point_count; i++) {
        const tn_report_point *point = &fit->points[i];
        trade->least = fmin(trade->least, (double)point->bytes);
        trade->most = fmax(trade->most, (double)point->bytes);
        trade->highest = fmax(trade->highest, (double)point->time);
        if (point->time_bound > 0) trade->lowest = fmin(trade->lowest, (double)point->time_bound);
    }
    double wide = fmax((trade->most - trade->least) * 0.05, 1);
    double tall = fmax((trade->highest - trade->lowest) * 0.1, trade->highest * 0.02 + 1e-9);
    trade->least -= wide, trade->most += wide;
    trade->lowest -= tall, trade->highest += tall;
}

static double svg_bytes(const svg_trade *trade, double bytes) {
    const tn__svg_box *box = trade->box;
    double share = (bytes - trade->least) / (trade->most - trade->least);
    return box->left + share * (box->right - box->left);
}

static double svg_time(const svg_trade *trade, double time) {
    const tn__svg_box *box = trade->box;
    double share = (time - trade->lowest) / (trade->highest - trade->lowest);
    return box->bottom - share * (box->bottom - box->top);
}

/* --- drawing --- */

/* Returns the smallest number that is at least `value` and is 1, 2 or 5 times a power of ten. */
static double svg_round(double value) {
    static const double steps[] = {1, 2, 5, 10};
    double unit = pow(10, floor(log10(value)));
    for (int i = 0; i < 3; i++)
        if (steps[i] * unit >= value) return steps[i] * unit;
    return 10 * unit;
}

static void svg_trade_axes(const svg_trade *trade) {
    double plain = fmax((double)trade->fit->result->plain_time, 1);
    double step = svg_round((trade->highest - trade->lowest) / plain / 4);
    char words[64], iec[TN__WORDS_MAX];
    for (double at = ceil(trade->lowest / plain / step) * step; at * plain <= trade->highest;
         at += step) {
        double y = svg_time(trade, at * plain);
        snprintf(words, sizeof words, "x %.6g", at);
        tn__svg_line(trade->text, trade->box->left, y, trade->box->right, y, "stroke=\"#eceff3\"");
        tn__svg_words(trade->text, trade->box->left - 6, y + 4, "text-anchor=\"end\"", words);
    }
    for (int k = 0; k <= 4; k++) {
        double bytes = fmax(trade->least + (trade->most - trade->least) * k / 4, 0);
        double x = svg_bytes(trade, bytes);
        tn__svg_line(trade->text, x, trade->box->bottom, x, trade->box->bottom + 4,
                     "stroke=\"#5b6470\"");
        tn__svg_words(trade->text, x, trade->box->bottom + 16,
                      k == 4 ? "text-anchor=\"end\"" : "text-anchor=\"middle\"",
                      tn__words_iec((uint64_t)bytes, iec));
    }
}

/* Draws the results, or with `bound` true the lower bounds, as a step curve: the result for fewer
 * bytes is valid up to the next point. */
static void svg_stairs(const svg_trade *trade, bool bound) {
    tn__text_printf(trade->text, "<path fill=\"none\" stroke=\"%s\"%s d=\"",
                    bound ? "#00694b" : "#0b5cad", bound ? " stroke-dasharray=\"5 4\"" : "");
    bool begun = false;
    for (uint32_t i = 0; i < trade->fit->point_count; i++) {
        const tn_report_point *point = &trade->fit->points[i];
        uint64_t time = bound ? point->time_bound : point->time;
        if (time == 0) continue;
        tn__text_put(trade->text, begun ? "H" : "M");
        tn__svg_number(trade->text,
                       svg_bytes(trade, (double)(bound ? point->budget : point->bytes)));
        tn__text_put(trade->text, begun ? "V" : " ");
        tn__svg_number(trade->text, svg_time(trade, (double)time));
        begun = true;
    }
    tn__text_put(trade->text, begun ? "\"/>\n" : "M0 0\"/>\n");
}

static void svg_spot(const svg_trade *trade, uint64_t bytes, uint64_t time, double radius,
                     const char *colour) {
    tn__text_printf(trade->text, "<circle fill=\"%s\"", colour);
    tn__svg_attribute(trade->text, "cx", svg_bytes(trade, (double)bytes));
    tn__svg_attribute(trade->text, "cy", svg_time(trade, (double)time));
    tn__svg_attribute(trade->text, "r", radius);
    tn__text_put(trade->text, "/>\n");
}

void tn__svg_trade(tn__text *text, const tn__svg_box *box, const tn_report_fit *fit) {
    svg_trade trade = {.text = text, .box = box, .fit = fit};
    if (fit->point_count == 0) return;
    svg_span(&trade);
    svg_trade_axes(&trade);
    tn__svg_words(text, box->left, box->top - 8, "fill=\"#5b6470\"",
                  fit->work ? "bytes on the device against work, of the model as a whole"
                            : "bytes on the device against time, of the program without fitting; "
                              "dashed: proved to be out of reach below");
    svg_stairs(&trade, true);
    svg_stairs(&trade, false);
    for (uint32_t i = 0; i < fit->point_count; i++)
        svg_spot(&trade, fit->points[i].bytes, fit->points[i].time, 2.5, "#0b5cad");
    if (fit->budget > 0) {
        double x = svg_bytes(&trade, (double)fit->budget);
        tn__svg_line(text, x, box->top, x, box->bottom,
                     "stroke=\"#1b1f24\" stroke-dasharray=\"2 3\"");
        tn__svg_words(text, x + 4, box->top + 12, "fill=\"#1b1f24\"", "budget");
    }
    svg_spot(&trade, fit->result->bytes, fit->result->time, 5, "#b3003c");
    tn__svg_frame(text, box);
}
