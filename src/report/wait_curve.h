/* wait_curve.h - draws waits, time or reuse cost of plans against their bytes. */
#ifndef TN_REPORT_WAIT_CURVE_H
#define TN_REPORT_WAIT_CURVE_H

#include "base/base.h"

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
