/* html.h - the state of one page being written, shared by the files that write its data.
 *
 *   formats/html.c   strings, template
 *   html_data.c      a plan as columns; steps: phases, roles, readers, times of a run; a fit
 */
#ifndef TN_REPORT_HTML_H
#define TN_REPORT_HTML_H

#include "report/format.h"

typedef struct tn__html_page {
    tn__text *text;
    tn__scene scene;
    tn__curve curve;
    tn__text fit;         /* rendered in advance, because it may fail */
    tn__names names;      /* string -> its index in the list of strings */
    const char **strings; /* [string_count] */
    size_t string_count, string_room;
    uint32_t *item_name, *item_type, *item_shape; /* [item_count], indices of strings */
    uint32_t *item_note;                          /* the same for marks */
    uint32_t *step_type, *step_name;              /* [step_count] */
    uint32_t kind_number[TN__KIND_COUNT];         /* index in the list of kinds that occur */
    uint32_t role_number[TN__ROLE_COUNT];         /* and of roles */
    tn__uses uses;                                /* for a model */
    tn__run_times run;                            /* reach NULL: there was no run */
    bool measured;                                /* true: a real run; false: a simulation */
} tn__html_page;

/* A page's template: `{{name}}` is replaced by the output of `fill` for that name. The file ends
 * with a NUL. */
typedef void (*tn__html_filler)(void *self, const char *name, size_t length, tn__text *text);
void tn__html_template(tn__text *text, const unsigned char *file, tn__html_filler fill, void *self);
bool tn__html_is(const char *name, size_t length, const char *wanted);

/* Adds one JSON object. */
void tn__html_data(tn__html_page *page);

typedef uint64_t (*tn__html_get)(const tn__html_page *page, size_t row);

/* Finds the readers of items, and when a run reached each step. */
tn_status tn__html_step_make(tn__html_page *page, tn_error *error);

#endif
