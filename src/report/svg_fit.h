/* svg_fit.h - what a fit adds to the picture. */
#ifndef TN_REPORT_SVG_FIT_H
#define TN_REPORT_SVG_FIT_H

#include "report/svg_pen.h"

/* Patterns to fill with: "url(#recomputed)" and so on, so that a fate can be told without colour;
 * "#b4bac3" for what is kept. */
void tn__svg_fate_patterns(tn__text *text);
void tn__svg_fate_fill(tn__text *text, tn_fate fate);
/* A legend of the fates that there are. */
void tn__svg_fates(tn__text *text, const tn_fate_totals *totals, double x, double y);
/* The curve of memory against time in a box: budget, points, bound, and this program. Nothing
 * without points. */
void tn__svg_trade(tn__text *text, const tn__svg_box *box, const tn_report_fit *fit);
/* One line for people: what the fit takes and how long, at most 200 bytes. */
void tn__svg_fit_words(tn__text *text, const tn_report_fit *fit);

#endif
