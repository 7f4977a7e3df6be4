/* io.h - functions of the readers and writers in plan/io, which reports use too. */
#ifndef TN_PLAN_IO_H
#define TN_PLAN_IO_H

#include <tenure/plan.h>

#include "base/base.h"

/* Appends to `text` the CSV that tn_problem_save_csv writes, with the column `offset` last unless
 * layout is NULL. text->failed says whether memory ran out. Returns E_INVALID if a name cannot be
 * written in CSV, and E_UNSUPPORTED for pieces that CSV cannot express (two windows at one
 * time). */
tn_status tn__csv_render(const tn_problem *problem, const tn_layout *layout, tn__text *text,
                         tn_error *error);

/* Checks whether tn__csv_render can express the problem, before other work is done; returns the
 * errors of tn__csv_render. */
tn_status tn__csv_can(const tn_problem *problem, tn_error *error);

/* Writes the placements of a layout as a dsa-solution-v1, with the ids of the buffers and pools of the
 * file that was read, its profile, instance and fingerprint. For other problems, these members are
 * left out, and the numbers of buffers and banks are written. The file is replaced atomically. */
tn_status tn__problem_save_dsa(const tn_problem *problem, const tn_layout *layout, const char *path,
                               tn_error *error);
/* Appends to `text` the solution that tn__problem_save_dsa writes. */
void tn__dsa_render(const tn_problem *problem, const tn_layout *layout, tn__text *text);

/* A file being read into `problem`. The offset of a row goes to offsets[row] if the caller wants
 * offsets; otherwise it pins the buffer. */
typedef struct tn__reading {
    const char *name; /* name of the file, for messages */
    const char *bytes;
    size_t size;
    tn_problem *problem;
    bool wants_offsets, has_offsets; /* has_offsets: set by the reader when a row has an offset */
    uint64_t *offsets;
    size_t offset_room;
    tn_error *error;
} tn__reading;

/* Stores the offset of the next buffer; false if memory is exhausted. */
bool tn__reading_offset(tn__reading *reading, uint64_t offset);

tn_status tn__csv_read(tn__reading *reading);
#ifndef TENURE_MINIMAL
tn_status tn__json_read(tn__reading *reading);
/* Reads the placements of a solution for `problem` into offsets and banks [count]. */
tn_status tn__json_read_solution(const tn_problem *problem, const char *name, const void *bytes,
                                 size_t size, uint64_t *offsets, tn_bank_id *banks,
                                 tn_error *error);
#endif

#endif
