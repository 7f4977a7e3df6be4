/* io.h - what the files of plan/io share with reports. */
#ifndef TN_PLAN_IO_H
#define TN_PLAN_IO_H

#include <tenure/plan.h>

#include "base/base.h"

/* Adds to `text` what tn_problem_save_csv writes: the same columns, `offset` last unless layout is
 * NULL. Whether memory ran out is in text->failed.
 * Errors: E_INVALID when a name cannot stand in the CSV. */
tn_status tn__csv_render(const tn_problem *problem, const tn_layout *layout, tn__text *text,
                         tn_error *error);

#endif
