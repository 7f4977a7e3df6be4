/* foreign_order.h - the live bytes that another order of the steps of an XLA program would need. */
#ifndef TN_REPORT_FOREIGN_ORDER_H
#define TN_REPORT_FOREIGN_ORDER_H

#include <tenure/foreign.h>

typedef struct tn__foreign_order {
    const char *missing;   /* why the rest is unknown, static; NULL: it is known */
    uint64_t given, found; /* live bytes of the given order and of the best one that was found */
    uint64_t bound;        /* no order that keeps XLA's sharing needs less; only with `exact` */
    bool exact;            /* true: the model has the live bytes of the dump in the given order */
} tn__foreign_order;

/* Searches for an order with fewer live bytes. Errors: E_NO_MEMORY. */
tn_status tn__foreign_reorder(const tn_foreign *foreign, tn__foreign_order *order, tn_error *error);
/* A sentence about it, for people. */
enum { TN__FOREIGN_ORDER_TEXT = 300 };
void tn__foreign_order_text(const tn_foreign *foreign, const tn__foreign_order *order, char *text);

#endif
