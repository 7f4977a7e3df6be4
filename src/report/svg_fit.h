/* svg_fit.h - the parts of the picture that show a fit. */
#ifndef TN_REPORT_SVG_FIT_H
#define TN_REPORT_SVG_FIT_H

#include "report/svg_pen.h"

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

#endif
