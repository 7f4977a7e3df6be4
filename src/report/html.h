/* html.h - the state of a page that is being written, which the files that write its data share.
 *
 *   formats/html.c   strings, template
 *   html_data.c      a plan as columns; its steps: phases, roles, readers, times of a run; a fit
 */
#ifndef TN_REPORT_HTML_H
#define TN_REPORT_HTML_H

#include "report/format.h"

typedef struct tn__html_page {
    tn__text *text;
    tn__scene scene;
    tn__curve curve;
    tn__text fit;    /* JSON of a fit, rendered before the page because rendering it may fail */
    tn__names names; /* maps a string to its index in `strings` */
    const char **strings; /* [string_count] the strings, by number */
    size_t string_count, string_room;
    /* [item_count] name, type and shape of each item, as indices in `strings` */
    uint32_t *item_name, *item_type, *item_shape;
    uint32_t *item_note; /* [item_count] text of each item's mark, as an index in `strings` */
    /* [step_count] type and name of each step's operator, as indices in `strings` */
    uint32_t *step_type, *step_name;
    uint32_t kind_number[TN__KIND_COUNT]; /* index of each kind in the list of kinds that occur */
    uint32_t role_number[TN__ROLE_COUNT]; /* index of each role in the list of roles that occur */
    tn__uses uses;                        /* the readers of the items of a model */
    tn__run_times run;                    /* times of a run; `reach` is NULL if there was no run */
    bool measured; /* true if the run was measured, false if it was simulated */
} tn__html_page;

/* Fills the template of a page: each `{{name}}` in `file` is replaced by the text that `fill` adds
 * for that name. The file ends with a NUL. */
typedef void (*tn__html_filler)(void *self, const char *name, size_t length, tn__text *text);
void tn__html_template(tn__text *text, const unsigned char *file, tn__html_filler fill, void *self);
bool tn__html_is(const char *name, size_t length, const char *wanted);

/* Adds the data of the page as one JSON object. */
void tn__html_data(tn__html_page *page);

typedef uint64_t (*tn__html_get)(const tn__html_page *page, size_t row);

/* Finds the readers of each item, and the times at which a run reached each step. */
tn_status tn__html_step_make(tn__html_page *page, tn_error *error);

#endif
