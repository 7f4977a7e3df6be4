/* svg_charts.c - draws charts: the time of a training iteration against the number of devices, and
 * the value of plans against their bytes. */
#include "report/svg/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* --- speed of a training against the number of devices ---------------------------------------- */

/* Draws three curves over the number of devices, one above the other, and below them how the model
 * is divided among the devices.
 *
 *     seconds   |*.            both axes logarithmic; dashed: ideal speed-up
 *               |  ''*..
 *     share     |**--*----*    of the devices' peak rate
 *     bytes     |-----------   dashed: the memory of a device
 *               |**--*----*
 *     devices    64 128  256
 *     tensor      4   4    8
 */

enum {
    SCALING_WIDTH = 920,
    SCALING_LEFT = 96,
    SCALING_RIGHT = 890,
    SCALING_TOP = 84,
    SCALING_HIGH = 230, /* height of the curve of seconds */
    SCALING_LOW = 120,  /* height of each curve other than that of the seconds */
    SCALING_BETWEEN = 34,
    SCALING_LINE = 15,
    SCALING_ROOM = 44, /* width of a column of numbers below the curves */
    SCALING_INSET = 26 /* distance of the first and the last point from the edges */
};

typedef struct scaling_picture {
    const tn__scaling *it;
    tn__text *text;
    tn__svg_box box;        /* box of the current curve */
    double lowest, highest; /* values at the bottom and at the top of the box */
    bool powers;            /* true if the scale of the values is logarithmic */
    double (*of)(const tn__scaling *, const tn__scaling_row *);
} scaling_picture;

static double scaling_seconds(const tn__scaling *it, const tn__scaling_row *row) {
    (void)it;
    return row->seconds;
}

static double scaling_share(const tn__scaling *it, const tn__scaling_row *row) {
    (void)it;
    return 100 * row->share;
}

static double scaling_bytes(const tn__scaling *it, const tn__scaling_row *row) {
    (void)it;
    return (double)row->bytes;
}

/* Returns the seconds of a row if the speed grew in proportion to the devices, from the first row
 * on. */
static double scaling_ideal(const tn__scaling *it, const tn__scaling_row *row) {
    return it->rows[0].seconds * (double)it->rows[0].devices / (double)row->devices;
}

static double scaling_x(const tn__scaling *it, uint32_t row) {
    double left = SCALING_LEFT + SCALING_INSET, right = SCALING_RIGHT - SCALING_INSET;
    double first = log2((double)it->rows[0].devices);
    double span = log2((double)it->rows[it->count - 1].devices) - first;
    if (span <= 0) return (left + right) / 2;
    return left + (log2((double)it->rows[row].devices) - first) / span * (right - left);
}

static double scaling_y(const scaling_picture *picture, double value) {
    double low = picture->lowest, high = picture->highest;
    if (picture->powers) value = log10(value), low = log10(low), high = log10(high);
    double share = fmin(fmax((value - low) / (high - low), 0), 1);
    return picture->box.bottom - share * (picture->box.bottom - picture->box.top);
}

/* --- a curve --- */

static void scaling_curve(const scaling_picture *picture, const char *style) {
    tn__text *text = picture->text;
    tn__text_printf(text, "<polyline fill=\"none\" %s points=\"", style);
    for (uint32_t r = 0; r < picture->it->count; r++) {
        if (r > 0) tn__text_put(text, " ");
        tn__svg_number(text, scaling_x(picture->it, r));
        tn__text_put(text, ",");
        tn__svg_number(text, scaling_y(picture, picture->of(picture->it, &picture->it->rows[r])));
    }
    tn__text_put(text, "\"/>\n");
}

static void scaling_points(const scaling_picture *picture, const char *colour) {
    tn__text *text = picture->text;
    for (uint32_t r = 0; r < picture->it->count; r++) {
        const tn__scaling_row *row = &picture->it->rows[r];
        char count[TN__WORDS_MAX], bytes[TN__WORDS_MAX];
        tn__text_printf(text, "<circle r=\"3.5\" fill=\"%s\"", colour);
        tn__svg_attribute(text, "cx", scaling_x(picture->it, r));
        tn__svg_attribute(text, "cy", scaling_y(picture, picture->of(picture->it, row)));
        tn__text_printf(text, "><title>%s devices: %.4g s, %.1f %%, %s</title></circle>\n",
                        tn__grouped(row->devices, count), row->seconds, 100 * row->share,
                        tn__words_iec(row->bytes, bytes));
    }
}

static void scaling_name(const scaling_picture *picture, const char *words) {
    tn__svg_words(picture->text, SCALING_LEFT, picture->box.top - 7,
                  "font-weight=\"600\" fill=\"#1b1f24\"", words);
    tn__svg_frame(picture->text, &picture->box);
}

static void scaling_tick(const scaling_picture *picture, double value, const char *label) {
    double y = scaling_y(picture, value);
    tn__svg_line(picture->text, picture->box.left, y, picture->box.right, y, "stroke=\"#eceff3\"");
    tn__svg_words(picture->text, picture->box.left - 7, y + 3.5, "text-anchor=\"end\"", label);
}

/* Moves the box below the curve that was drawn last. */
static void scaling_next(scaling_picture *picture, double height) {
    picture->box.top = picture->box.bottom + SCALING_BETWEEN;
    picture->box.bottom = picture->box.top + height;
    picture->powers = false;
}

/* --- the curves of seconds, rate and bytes --- */

static void scaling_draw_seconds(scaling_picture *picture) {
    const tn__scaling *it = picture->it;
    double least = it->rows[0].seconds, most = least;
    for (uint32_t r = 0; r < it->count; r++) {
        least = fmin(least, fmin(it->rows[r].seconds, scaling_ideal(it, &it->rows[r])));
        most = fmax(most, it->rows[r].seconds);
    }
    int from = (int)floor(log10(least)), to = (int)ceil(log10(most));
    picture->powers = true;
    picture->lowest = pow(10, from);
    picture->highest = pow(10, to > from ? to : from + 1);
    for (int e = from; e <= to; e++) {
        char label[40];
        snprintf(label, sizeof label, "%.*f s", e < 0 ? -e : 0, pow(10, e));
        scaling_tick(picture, pow(10, e), label);
    }
    scaling_name(picture, "seconds an iteration; dashed: as many times faster as there are more");
    picture->of = scaling_ideal;
    scaling_curve(picture, "stroke=\"#8a93a0\" stroke-dasharray=\"4 3\"");
    picture->of = scaling_seconds;
    scaling_curve(picture, "stroke=\"#0b5cad\" stroke-width=\"1.6\"");
    scaling_points(picture, "#0b5cad");
}

static void scaling_draw_share(scaling_picture *picture) {
    scaling_next(picture, SCALING_LOW);
    picture->lowest = 0;
    picture->highest = 100;
    for (int tick = 0; tick <= 100; tick += 25) {
        char label[16];
        snprintf(label, sizeof label, "%d %%", tick);
        scaling_tick(picture, tick, label);
    }
    scaling_name(picture, "share of the devices' rate");
    picture->of = scaling_share;
    scaling_curve(picture, "stroke=\"#009e73\" stroke-width=\"1.6\"");
    scaling_points(picture, "#009e73");
}

static void scaling_draw_bytes(scaling_picture *picture) {
    const tn__scaling *it = picture->it;
    double most = (double)it->memory;
    for (uint32_t r = 0; r < it->count; r++) most = fmax(most, (double)it->rows[r].bytes);
    scaling_next(picture, SCALING_LOW);
    picture->lowest = 0;
    picture->highest = fmax(most * 1.05, 1);
    tn__svg_byte_axis(picture->text, &picture->box, 0, picture->highest, picture->highest);
    scaling_name(picture, "bytes of the device that has most; dashed: its memory");
    if (it->memory > 0) {
        double y = scaling_y(picture, (double)it->memory);
        tn__svg_line(picture->text, picture->box.left, y, picture->box.right, y,
                     "stroke=\"#b3003c\" stroke-dasharray=\"4 3\"");
    }
    picture->of = scaling_bytes;
    scaling_curve(picture, "stroke=\"#d55e00\" stroke-width=\"1.6\"");
    scaling_points(picture, "#d55e00");
}

/* --- text below and above the curves --- */

/* Draws the numbers of each row below its point. A row is left out if the next column would overlap
 * it; the last row always has its numbers. */
static void scaling_columns(const scaling_picture *picture) {
    static const char *const names[] = {"devices", "tensor", "pipeline", "data", "pieces"};
    const tn__scaling *it = picture->it;
    double top = picture->box.bottom + 18;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        tn__svg_words(picture->text, SCALING_LEFT - 7, top + i * SCALING_LINE,
                      "text-anchor=\"end\"", names[i]);
    for (uint32_t r = 0; r < it->count; r++) {
        const tn__scaling_row *row = &it->rows[r];
        const uint64_t numbers[] = {row->devices, row->tensor, row->pipeline, row->data,
                                    row->interleave};
        double x = scaling_x(it, r);
        if (r + 1 < it->count && scaling_x(it, it->count - 1) - x < SCALING_ROOM) continue;
        for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            char digits[TN__WORDS_MAX];
            tn__svg_words(picture->text, x, top + i * SCALING_LINE,
                          i == 0 ? "text-anchor=\"middle\" font-weight=\"600\" fill=\"#1b1f24\""
                                 : "text-anchor=\"middle\"",
                          tn__grouped(numbers[i], digits));
        }
    }
}

static void scaling_head(const scaling_picture *picture, double height) {
    tn__text *text = picture->text;
    const tn__scaling *it = picture->it;
    char words[200], first[TN__WORDS_MAX], last[TN__WORDS_MAX];
    tn__text_printf(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d ",
                    SCALING_WIDTH);
    tn__svg_number(text, height);
    tn__text_put(text, "\" font-family=\"system-ui, Helvetica, Arial, sans-serif\" "
                       "font-size=\"10.5\" fill=\"#5b6470\">\n<title>");
    tn__text_xml(text, it->input);
    tn__text_put(text, "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    tn__svg_words(text, 12, 24, "font-size=\"16\" font-weight=\"600\" fill=\"#1b1f24\"", it->input);
    snprintf(words, sizeof words, "%s to %s of %s, the fastest division of each, predicted",
             tn__grouped(it->rows[0].devices, first),
             tn__grouped(it->rows[it->count - 1].devices, last), it->device);
    tn__svg_words(text, 12, 44, "font-size=\"12\"", words);
}

static void scaling_draw(const tn__scaling *it, tn__text *text) {
    scaling_picture picture = {.it = it, .text = text};
    double height =
        SCALING_TOP + SCALING_HIGH + 2 * (SCALING_BETWEEN + SCALING_LOW) + 18 + 5 * SCALING_LINE;
    picture.box =
        (tn__svg_box){SCALING_LEFT, SCALING_RIGHT, SCALING_TOP, SCALING_TOP + SCALING_HIGH};
    scaling_head(&picture, height);
    scaling_draw_seconds(&picture);
    scaling_draw_share(&picture);
    scaling_draw_bytes(&picture);
    scaling_columns(&picture);
    tn__text_put(text, "</svg>\n");
}

tn_status tn__scaling_write(const tn__scaling *scaling, const char *path, tn_error *error) {
    tn__text text;
    tn__text_init(&text, NULL);
    scaling_draw(scaling, &text);
    tn_status status = text.failed ? tn__no_memory(error, "the picture of the scaling")
                                   : tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

/* --- chart of waits, time or reuse cost of plans against their bytes -------------------------- */

/* Draws waits, time or reuse cost of plans against their bytes as a step curve, because a plan is
 * valid in every larger memory, too. The lower bound is a dashed curve. */

enum { WAIT_WIDTH = 760, WAIT_HEIGHT = 360, WAIT_ROWS = 4 };

typedef struct wait_picture {
    const tn__wait_curve *curve;
    tn__text *text;
    tn__svg_box box;
    /* least and most bytes of the x axis; value at the top of the y axis */
    double least, most, highest;
} wait_picture;

static double wait_x(const wait_picture *picture, double bytes) {
    const tn__svg_box *box = &picture->box;
    return box->left +
           (bytes - picture->least) / (picture->most - picture->least) * (box->right - box->left);
}

static double wait_y(const wait_picture *picture, double value) {
    const tn__svg_box *box = &picture->box;
    return box->bottom - value / picture->highest * (box->bottom - box->top);
}

static void wait_axes(const wait_picture *picture) {
    char words[64], iec[TN__WORDS_MAX];
    for (int k = 0; k <= WAIT_ROWS; k++) {
        double value = picture->highest * k / WAIT_ROWS, y = wait_y(picture, value);
        double bytes = picture->least + (picture->most - picture->least) * k / WAIT_ROWS;
        snprintf(words, sizeof words, "%.6g", value);
        tn__svg_line(picture->text, picture->box.left, y, picture->box.right, y,
                     "stroke=\"#eceff3\"");
        tn__svg_words(picture->text, picture->box.left - 6, y + 4, "text-anchor=\"end\"", words);
        tn__svg_words(picture->text, wait_x(picture, bytes), picture->box.bottom + 16,
                      "text-anchor=\"middle\"", tn__words_iec((uint64_t)fmax(bytes, 0), iec));
    }
    tn__svg_words(picture->text, picture->box.right, picture->box.bottom + 34,
                  "text-anchor=\"end\"", "bytes of the arena");
}

static void wait_stairs(const wait_picture *picture, bool bound) {
    const tn__wait_curve *curve = picture->curve;
    tn__text_printf(picture->text, "<path fill=\"none\" stroke=\"%s\"%s d=\"",
                    bound ? "#00694b" : "#0b5cad", bound ? " stroke-dasharray=\"5 4\"" : "");
    for (uint32_t i = 0; i < curve->count; i++) {
        const tn__wait_point *point = &curve->points[i];
        tn__text_put(picture->text, i > 0 ? "H" : "M");
        tn__svg_number(picture->text,
                       wait_x(picture, (double)(bound ? point->capacity : point->bytes)));
        tn__text_put(picture->text, i > 0 ? "V" : " ");
        tn__svg_number(picture->text,
                       wait_y(picture, (double)(bound ? point->bound : point->value)));
    }
    tn__text_put(picture->text, "\"/>\n");
}

static void wait_points(const wait_picture *picture) {
    char iec[TN__WORDS_MAX];
    for (uint32_t i = 0; i < picture->curve->count; i++) {
        const tn__wait_point *point = &picture->curve->points[i];
        tn__text_put(picture->text, "<circle fill=\"#0b5cad\" r=\"3\"");
        tn__svg_attribute(picture->text, "cx", wait_x(picture, (double)point->bytes));
        tn__svg_attribute(picture->text, "cy", wait_y(picture, (double)point->value));
        tn__text_printf(picture->text,
                        "><title>%s (%" PRIu64 " bytes): %" PRIu64 ", lower bound %" PRIu64
                        "</title></circle>\n",
                        tn__words_iec(point->bytes, iec), point->bytes, point->value, point->bound);
    }
}

static void wait_draw(const tn__wait_curve *curve, tn__text *text) {
    wait_picture picture = {.curve = curve,
                            .text = text,
                            .box = {.left = 110, .right = 720, .top = 84, .bottom = 300},
                            .least = (double)curve->points[0].bytes,
                            .highest = 1};
    for (uint32_t i = 0; i < curve->count; i++) {
        const tn__wait_point *point = &curve->points[i];
        picture.least = fmin(picture.least, (double)point->bytes);
        picture.most = fmax(picture.most, (double)point->capacity);
        picture.highest = fmax(picture.highest, (double)point->value);
    }
    double wide = fmax((picture.most - picture.least) * 0.05, 1);
    picture.least -= wide;
    picture.most += wide;
    picture.highest *= 1.1;
    tn__text_printf(text,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                    "font-family=\"system-ui, Helvetica, Arial, sans-serif\" font-size=\"11\" "
                    "fill=\"#5b6470\">\n<title>",
                    WAIT_WIDTH, WAIT_HEIGHT);
    tn__text_xml(text, curve->input);
    tn__text_printf(text, " - %s against bytes</title>\n", curve->what);
    tn__text_put(text, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    tn__svg_words(text, 40, 28, "font-size=\"16\" font-weight=\"600\" fill=\"#1b1f24\"",
                  curve->input);
    tn__svg_words(text, 40, 50, "font-size=\"12\"", curve->what);
    tn__svg_words(text, 40, 66, "", "dashed: lower bound of all plans of these buffers");
    wait_axes(&picture);
    wait_stairs(&picture, true);
    wait_stairs(&picture, false);
    wait_points(&picture);
    tn__svg_frame(text, &picture.box);
    tn__text_put(text, "</svg>\n");
}

tn_status tn__wait_curve_write(const tn__wait_curve *curve, const char *path, tn_error *error) {
    bool page = tn__has_suffix(path, ".html");
    if (!page && !tn__has_suffix(path, ".svg"))
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s: a curve is written as .svg or .html", path);
    tn__text text;
    tn__text_init(&text, NULL);
    if (page) {
        tn__text_put(&text, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                            "<title>");
        tn__text_xml(&text, curve->input);
        tn__text_put(&text, "</title></head><body>\n");
    }
    wait_draw(curve, &text);
    if (page) tn__text_put(&text, "</body></html>\n");
    tn_status status = text.failed ? tn__no_memory(error, "the picture of a curve")
                                   : tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}
