/* svg_pen.c - draws lines, text and axes in SVG. */
#include <math.h>
#include <stdio.h>

#include "report/svg/svg.h"

void tn__svg_number(tn__text *text, double value) {
    int64_t hundredths = llround(value * 100);
    if (hundredths < 0) tn__text_put(text, "-");
    uint64_t amount = hundredths < 0 ? (uint64_t)-hundredths : (uint64_t)hundredths;
    tn__words_integer(text, amount / 100);
    if (amount % 100 == 0) return;
    char digits[3] = {'.', (char)('0' + amount / 10 % 10), (char)('0' + amount % 10)};
    tn__text_add(text, digits, amount % 10 ? 3 : 2);
}

void tn__svg_attribute(tn__text *text, const char *name, double value) {
    tn__text_put(text, " ");
    tn__text_put(text, name);
    tn__text_put(text, "=\"");
    tn__svg_number(text, value);
    tn__text_put(text, "\"");
}

void tn__svg_line(tn__text *text, double x1, double y1, double x2, double y2, const char *style) {
    tn__text_put(text, "<line");
    tn__svg_attribute(text, "x1", x1);
    tn__svg_attribute(text, "y1", y1);
    tn__svg_attribute(text, "x2", x2);
    tn__svg_attribute(text, "y2", y2);
    tn__text_printf(text, " %s/>\n", style);
}

void tn__svg_words(tn__text *text, double x, double y, const char *style, const char *words) {
    tn__text_put(text, "<text");
    tn__svg_attribute(text, "x", x);
    tn__svg_attribute(text, "y", y);
    tn__text_printf(text, " %s>", style);
    tn__text_xml(text, words);
    tn__text_put(text, "</text>\n");
}

void tn__svg_frame(tn__text *text, const tn__svg_box *box) {
    tn__text_put(text, "<rect fill=\"none\" stroke=\"#b9c0c9\"");
    tn__svg_attribute(text, "x", box->left);
    tn__svg_attribute(text, "y", box->top);
    tn__svg_attribute(text, "width", box->right - box->left);
    tn__svg_attribute(text, "height", box->bottom - box->top);
    tn__text_put(text, "/>\n");
}

/* --- time --- */

double tn__svg_time(const tn__svg_box *box, int64_t first, int64_t last, int64_t at) {
    double span = (double)((uint64_t)last - (uint64_t)first);
    double since = (double)((uint64_t)at - (uint64_t)first);
    return box->left + (span > 0 ? since / span : 0) * (box->right - box->left);
}

/* Returns the smallest of the steps 1, 2, 5, 10, 20, ... at which labels are at least `room` apart
 * on an axis that shows `span` on a length of `width`. */
static uint64_t svg_pen_step(uint64_t span, double width, double room) {
    uint64_t step = 1;
    for (int i = 0; step < span && (double)step / (double)span * width < room; i++)
        /* The next step does not overflow, because `step` is a small fraction of `span`. */
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

void tn__svg_time_axis(tn__text *text, const tn__svg_box *box, int64_t first, int64_t last) {
    char label[24];
    int width = snprintf(label, sizeof label, "%lld", (long long)first);
    int other = snprintf(label, sizeof label, "%lld", (long long)last);
    double room = (width > other ? width : other) * 6.5 + 30;
    uint64_t span = (uint64_t)last - (uint64_t)first;
    uint64_t step = svg_pen_step(span, box->right - box->left, room);
    /* the remainder of `first` by `step`, for positive and negative `first`, to find the first
     * multiple of `step` */
    uint64_t below = first >= 0 ? (uint64_t)first % step : (step - -(uint64_t)first % step) % step;
    for (uint64_t at = below ? step - below : 0; at <= span; at += step) {
        int64_t time = (int64_t)((uint64_t)first + at);
        double x = tn__svg_time(box, first, last, time);
        double half = 3.3 * snprintf(label, sizeof label, "%lld", (long long)time);
        tn__svg_line(text, x, box->top, x, box->bottom, "stroke=\"#eceff3\"");
        tn__svg_words(text, fmin(x, box->right + 13 - half), box->bottom + 15,
                      "text-anchor=\"middle\"", label);
        if (span - at < step) return; /* the loop ends here, because at + step might overflow */
    }
}

/* --- bytes --- */

/* Writes a size such as "1.5 MiB". The text is exact, because sizes at ticks have few binary
 * digits. */
static void svg_pen_bytes(double bytes, char text[TN__WORDS_MAX]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    while (unit < 6 && bytes >= 1024 && fmod(bytes / 128, 1) == 0) {
        bytes /= 1024;
        unit++;
    }
    int64_t thousandths = (int64_t)(bytes * 1000);
    int length = snprintf(text, TN__WORDS_MAX, "%lld.%03lld", (long long)(thousandths / 1000),
                          (long long)(thousandths % 1000));
    while (text[length - 1] == '0') length--;
    if (text[length - 1] == '.') length--;
    snprintf(text + length, (size_t)(TN__WORDS_MAX - length), " %s", units[unit]);
}

void tn__svg_byte_axis(tn__text *text, const tn__svg_box *box, double base, double size,
                       double whole) {
    double scale = (box->bottom - box->top) / whole;
    double step = exp2(fmax(0, ceil(log2(34 / scale))));
    /* no labels, because they would overlap those of the bank below */
    if (base > 0 && size * scale < 14) return;
    for (double tick = 0; tick <= size; tick += step) {
        char label[TN__WORDS_MAX];
        double y = box->bottom - (base + tick) * scale;
        svg_pen_bytes(tick, label);
        tn__svg_line(text, box->left, y, box->right, y, "stroke=\"#eceff3\"");
        tn__svg_words(text, box->left - 7, y + 3.5, "text-anchor=\"end\"", label);
    }
}
