/* wait_curve.c - draws the value of plans against their bytes: a line of stairs, because a plan is
 * valid in every larger memory, too; dashed: the lower bound.
 */
#include "report/wait_curve.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "report/svg_pen.h"

enum { WAIT_WIDTH = 760, WAIT_HEIGHT = 360, WAIT_ROWS = 4 };

typedef struct wait_picture {
    const tn__wait_curve *curve;
    tn__text *text;
    tn__svg_box box;
    double least, most, highest; /* bytes; the value at the top */
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
