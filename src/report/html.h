/* html.h - one page in the making: what the files that write its data share.
 *
 *   formats/html.c   strings, template
 *   html_data.c      a plan as columns
 *   html_step.c      what a model's steps add: phases, roles, who reads what, when a run was where
 *   html_fit.c       what a fit adds
 */
#ifndef TN_REPORT_HTML_H
#define TN_REPORT_HTML_H

#include "report/format.h"

typedef struct tn__html_page {
    tn__text *text;
    tn__scene scene;
    tn__curve curve;
    tn__text fit;         /* rendered before, as it may fail */
    tn__names names;      /* string -> its number in strings */
    const char **strings; /* [string_count] */
    size_t string_count, string_room;
    uint32_t *item_name, *item_type, *item_shape; /* [item_count], numbers of strings */
    uint32_t *item_note;                          /* the same of marks */
    uint32_t *step_type, *step_name;              /* [step_count] */
    uint32_t kind_number[TN__KIND_COUNT];         /* place in the list of kinds that occur */
    uint32_t role_number[TN__ROLE_COUNT];         /* and of roles */
    tn__uses uses;                                /* of a model */
    tn__link run;                                 /* reach NULL: there was no run */
    bool measured;                                /* and whether it was more than a simulation */
} tn__html_page;

/* A page's template: `{{name}}` is what `fill` adds for that name. The file ends with a NUL. */
typedef void (*tn__html_filler)(void *self, const char *name, size_t length, tn__text *text);
void tn__html_template(tn__text *text, const unsigned char *file, tn__html_filler fill, void *self);
bool tn__html_is(const char *name, size_t length, const char *wanted);

/* Adds one JSON object. */
void tn__html_data(tn__html_page *page);
/* An integer that a JavaScript number cannot hold exactly is a string. */
void tn__html_integer(tn__text *text, uint64_t value);

typedef uint64_t (*tn__html_get)(const tn__html_page *page, size_t row);
/* Adds `,"name":` and a column; what is TN_NONE is -1 where it is optional. */
void tn__html_column(const tn__html_page *page, const char *name, size_t count, tn__html_get get,
                     bool optional);

/* Finds who reads what, and when a run came to each step. */
tn_status tn__html_step_make(tn__html_page *page, tn_error *error);
void tn__html_step(const tn__html_page *page);
/* Columns of items; roles number themselves first. */
void tn__html_roles(tn__html_page *page);
void tn__html_item_steps(const tn__html_page *page, size_t count);

#endif
