/* svg.h - functions that draw pictures: lines, text and axes in SVG, the parts that show a fit, and
 * charts of curves.
 *
 * Numbers are written as integers of hundredths. The output therefore does not depend on the
 * locale, and is identical on all machines.
 */
#ifndef TN_REPORT_SVG_H
#define TN_REPORT_SVG_H

#include "base/base.h"
#include "report/format.h"

/* --- svg_pen.c: lines, words and axes --- */

typedef struct tn__svg_box { /* a rectangle of the drawing; y grows downwards */
    double left, right, top, bottom;
} tn__svg_box;

void tn__svg_number(tn__text *text, double value);
/* Adds an XML attribute, such as ` x="12.5"`. */
void tn__svg_attribute(tn__text *text, const char *name, double value);
void tn__svg_line(tn__text *text, double x1, double y1, double x2, double y2, const char *style);
void tn__svg_words(tn__text *text, double x, double y, const char *style, const char *words);
void tn__svg_frame(tn__text *text, const tn__svg_box *box);

/* Returns the x coordinate of a time in a box whose width shows the times [first, last). */
double tn__svg_time(const tn__svg_box *box, int64_t first, int64_t last, int64_t at);
/* Draws a time axis. Its labels are whole numbers, 1, 2 or 5 times a power of ten apart. */
void tn__svg_time_axis(tn__text *text, const tn__svg_box *box, int64_t first, int64_t last);
/* Draws an axis of bytes from 0 to `size`, beginning at `base` in a box that shows `whole` bytes.
 * The labels are a power of two apart, so that short texts such as "1.5 MiB" are exact. */
void tn__svg_byte_axis(tn__text *text, const tn__svg_box *box, double base, double size,
                       double whole);

/* --- svg_fit.c: the parts of the picture that show a fit --- */

/* tn__svg_fate_patterns defines the patterns with which decisions are filled, so that they can be
 * distinguished without colour. tn__svg_fate_fill adds the fill of a decision, such as
 * "url(#recomputed)", or "#b4bac3" for tensors that are kept. */
void tn__svg_fate_patterns(tn__text *text);
void tn__svg_fate_fill(tn__text *text, tn_fate fate);
/* Draws a legend of the decisions that occur. */
void tn__svg_fates(tn__text *text, const tn_fate_totals *totals, double x, double y);
/* Draws the curve of memory against time in a box: the budget, the points, the bound, and the
 * program of the fit. Draws nothing if the fit has no points. */
void tn__svg_trade(tn__text *text, const tn__svg_box *box, const tn_report_fit *fit);
/* Adds one line for people with the memory and time of the fitted program, at most 200 bytes. */
void tn__svg_fit_words(tn__text *text, const tn_report_fit *fit);

/* --- svg_charts.c: the speed of a training against the number of devices --- */

typedef struct tn__scaling_row {
    uint64_t devices, tensor, pipeline, data, interleave;
    /* seconds per iteration; fraction of the devices' peak rate that is used */
    double seconds, share;
    uint64_t bytes; /* bytes on the device that needs most memory */
} tn__scaling_row;

typedef struct tn__scaling {
    const char *input, *device;
    uint64_t memory;             /* memory of one device in bytes; 0: unknown */
    const tn__scaling_row *rows; /* [count] the rows in ascending order of `devices` */
    uint32_t count;              /* number of rows, at least 1 */
} tn__scaling;

tn_status tn__scaling_write(const tn__scaling *scaling, const char *path, tn_error *error);

/* --- svg_charts.c: waits, time or reuse cost of plans against their bytes --- */

typedef struct tn__wait_point {
    /* `bound`: no plan within `capacity` has a lower value */
    uint64_t capacity, bytes, value, bound;
} tn__wait_point;

typedef struct tn__wait_curve {
    const char *input, *what; /* `what` describes the value in words */
    /* [count] the points in rising order of the capacity; at least one point */
    const tn__wait_point *points;
    uint32_t count;
} tn__wait_curve;

/* Writes the chart as an .svg file, or as an .html page that contains it. Errors: E_UNSUPPORTED for
 * any other suffix. */
tn_status tn__wait_curve_write(const tn__wait_curve *curve, const char *path, tn_error *error);

#endif
