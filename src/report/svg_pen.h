/* svg_pen.h - draws lines, words and axes in SVG.
 *
 * Numbers are written as hundredths in integers: independent of the locale, the same bytes
 * everywhere.
 */
#ifndef TN_REPORT_SVG_PEN_H
#define TN_REPORT_SVG_PEN_H

#include "report/format.h"

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

#endif
