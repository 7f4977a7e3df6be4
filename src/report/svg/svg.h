/* svg.h - pictures: lines, words and axes in SVG, the parts that show a fit, and charts of curves.
 *
 * Numbers are written as hundredths in integers: independent of the locale, the same bytes
 * everywhere.
 */
#ifndef TN_REPORT_SVG_H
#define TN_REPORT_SVG_H

#include "base/base.h"
#include "report/format.h"

/* --- svg_pen.c: lines, words and axes --- */

typedef struct tn__svg_box { /* y grows downwards */
    double left, right, top, bottom;
} tn__svg_box;

void tn__svg_number(tn__text *text, double value);
void tn__svg_attribute(tn__text *text, const char *name, double value); /* ` x="12.5"` */
void tn__svg_line(tn__text *text, double x1, double y1, double x2, double y2, const char *style);
void tn__svg_words(tn__text *text, double x, double y, const char *style, const char *words);
void tn__svg_frame(tn__text *text, const tn__svg_box *box);

/* The position of an instant in a box as wide as [first, last). */
double tn__svg_time(const tn__svg_box *box, int64_t first, int64_t last, int64_t at);
/* Labels of whole time units: 1, 2 or 5 times a power of ten apart. */
void tn__svg_time_axis(tn__text *text, const tn__svg_box *box, int64_t first, int64_t last);
/* Labels of bytes [0, size], counted from `base` on, in a box as high as `whole` bytes. They are a
 * power of two apart, so that their short names are exact. */
void tn__svg_byte_axis(tn__text *text, const tn__svg_box *box, double base, double size,
                       double whole);

/* --- svg_fit.c: the parts of the picture that show a fit --- */

/* Patterns to fill with, such as "url(#recomputed)", so that decisions are visible without colour;
 * "#b4bac3" for tensors that are kept. */
void tn__svg_fate_patterns(tn__text *text);
void tn__svg_fate_fill(tn__text *text, tn_fate fate);
/* A legend of the decisions that occur. */
void tn__svg_fates(tn__text *text, const tn_fate_totals *totals, double x, double y);
/* The curve of memory against time in a box: budget, points, bound, and this program. Nothing
 * without points. */
void tn__svg_trade(tn__text *text, const tn__svg_box *box, const tn_report_fit *fit);
/* One line for people: the memory and time of the fitted program, at most 200 bytes. */
void tn__svg_fit_words(tn__text *text, const tn_report_fit *fit);

/* --- svg_charts.c: the speed of a training against the number of devices --- */

typedef struct tn__scaling_row {
    uint64_t devices, tensor, pipeline, data, interleave;
    double seconds, share; /* per iteration; share of the devices' peak rate */
    uint64_t bytes;        /* on the device that has most */
} tn__scaling_row;

typedef struct tn__scaling {
    const char *input, *device;
    uint64_t memory;             /* of a device; 0: unknown */
    const tn__scaling_row *rows; /* in ascending order of devices */
    uint32_t count;              /* 1 or more */
} tn__scaling;

tn_status tn__scaling_write(const tn__scaling *scaling, const char *path, tn_error *error);

/* --- svg_charts.c: waits, time or reuse cost of plans against their bytes --- */

typedef struct tn__wait_point {
    uint64_t capacity, bytes, value, bound; /* bound: no plan within `capacity` has a lower value */
} tn__wait_point;

typedef struct tn__wait_curve {
    const char *input, *what;     /* what: words for the value */
    const tn__wait_point *points; /* [count] by rising capacity; at least one */
    uint32_t count;
} tn__wait_curve;

/* Writes an .svg, or an .html page that contains it. E_UNSUPPORTED: another suffix. */
tn_status tn__wait_curve_write(const tn__wait_curve *curve, const char *path, tn_error *error);

#endif
