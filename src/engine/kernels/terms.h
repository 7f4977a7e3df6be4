/* terms.h - multiplies rows of a sparse matrix (graph/rules/sparse_weights.h) by adjacent columns.
 *
 * The caller lays the other operand out so that the inputs of one weight at positions p, p + 1, ...
 * are contiguous; a table has the place for each column of the matrix. Then every value costs one
 * table lookup and, for each 64 positions, a few vector operations.
 */
#ifndef TN_KERNELS_TERMS_H
#define TN_KERNELS_TERMS_H

#include "engine/kernels/kernel.h"
#include "graph/rules/sparse_weights.h"

#define TN__TERMS_MOST 64u /* terms that are summed up before they are added to a sum of sums */
#define TN__TERMS_TILE 64u /* positions that are computed together */

/* A matrix as its three lists say. */
typedef struct tn__terms_matrix {
    tn__sparse form;
    const float *values;
    const void *places;
    const uint32_t *starts;
} tn__terms_matrix;

/* Reads inputs first, first + 1, first + 2 of the call, and the attributes rows, columns, bits. For
 * any data in them, all terms then lie within the lists and the matrix. E_INVALID. */
tn_status tn__terms_read(const tn_kernel_call *call, uint32_t first, tn__terms_matrix *matrix);

/* Some terms of a row: values, and where the table says that their columns begin. */
typedef struct tn__terms {
    uint32_t count;
    const float *values;
    uint64_t at[TN__TERMS_MOST];
} tn__terms;

/* Where a row goes on. */
typedef struct tn__terms_cursor {
    uint64_t row, block; /* of form.bits 1: the byte of the row */
    uint64_t next;       /* value */
    uint64_t left;       /* bits before that byte that are still to come */
} tn__terms_cursor;

static inline tn__terms_cursor tn__terms_begin(const tn__terms_matrix *matrix, uint64_t row) {
    uint64_t blocks = tn__sparse_blocks(&matrix->form);
    return (tn__terms_cursor){.row = row, .next = matrix->starts[row * blocks]};
}
/* The next terms; `table` [columns]. False: the row is done. */
bool tn__terms_next(const tn__terms_matrix *matrix, tn__terms_cursor *cursor, const uint64_t *table,
                    tn__terms *terms);

/* sums[i] += the terms at `from` + i, for i in [0, count); reads nothing beyond those. */
void tn__terms_add(const tn__terms *terms, const float *from, uint64_t count, float *sums);
/* The sum of the terms at one position. */
float tn__terms_sum(const tn__terms *terms, const float *from);

#endif
