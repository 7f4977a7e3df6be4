/* io.h - functions that the files of plan/io share with each other and with reports. */
#ifndef TN_PLAN_IO_H
#define TN_PLAN_IO_H

#include <tenure/plan.h>

#include "base/base.h"

/* Appends to `text` the CSV that tn_problem_save_csv writes: the same columns, `offset` last unless
 * layout is NULL. text->failed says whether memory ran out.
 * Errors: E_INVALID when a name cannot stand in the CSV, E_UNSUPPORTED for pieces that it cannot
 * express (two windows at one time).
 */
tn_status tn__csv_render(const tn_problem *problem, const tn_layout *layout, tn__text *text,
                         tn_error *error);

/* Checks whether tn__csv_render can express the problem, before other work is done: with its
 * errors. */
tn_status tn__csv_can(const tn_problem *problem, tn_error *error);

/* Writes the placements of a layout as the solution of a dsa-problem-v1: with the ids of the
 * buffers and pools of the file that was read; for other problems, with the numbers of bodies and
 * banks. The file is replaced atomically. */
tn_status tn__problem_save_dsa(const tn_problem *problem, const tn_layout *layout, const char *path,
                               tn_error *error);
/* Appends what tn__problem_save_dsa writes. */
void tn__dsa_render(const tn_problem *problem, const tn_layout *layout, tn__text *text);

/* A file being read into `problem`. If a row has an offset, it goes to offsets[row] if the caller
 * wants offsets, and pins the body otherwise. */
typedef struct tn__reading {
    const char *name; /* for messages */
    const char *bytes;
    size_t size;
    tn_problem *problem;
    bool wants_offsets, has_offsets; /* has: set by the reader */
    uint64_t *offsets;
    size_t offset_room;
    tn_error *error;
} tn__reading;

/* Notes the offset of the next body; false if memory is out. */
bool tn__reading_offset(tn__reading *reading, uint64_t offset);

tn_status tn__csv_read(tn__reading *reading);
#ifndef TENURE_MINIMAL
tn_status tn__json_read(tn__reading *reading);
#endif

#endif
