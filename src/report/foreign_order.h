/* foreign_order.h - the live bytes that another order of the steps of an XLA program would need. */
#ifndef TN_REPORT_FOREIGN_ORDER_H
#define TN_REPORT_FOREIGN_ORDER_H

#include <tenure/foreign.h>

typedef struct tn__foreign_order {
    const char *missing; /* static text: why the other fields are unknown; NULL: they are known */
    /* `given`: live bytes of XLA's order; `found`: those of the best order that was found */
    uint64_t given, found;
    /* lower bound of the live bytes of orders that keep XLA's sharing of buffers; only if
     * `exact` */
    uint64_t bound;
    bool exact; /* true: the model has the live bytes of the dump in the given order */
} tn__foreign_order;

/* Searches for an order of the program's steps with fewer live bytes. Errors: E_NO_MEMORY. */
tn_status tn__foreign_reorder(const tn_foreign *foreign, tn__foreign_order *order, tn_error *error);
/* Writes a sentence about the result for people to `text`, which has TN__FOREIGN_ORDER_TEXT
 * bytes. */
enum { TN__FOREIGN_ORDER_TEXT = 300 };
void tn__foreign_order_text(const tn_foreign *foreign, const tn__foreign_order *order, char *text);

#endif
