/* terms.c - rows of a sparse matrix: reading places, and the loops over positions.
 *
 * Each product and each sum is rounded separately, in the order of the row: results are the same
 * for any vector width, and for any division of positions into tiles.
 */
#include "engine/kernels/terms.h"

#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"

/* --- the lists --- */

tn_status tn__terms_read(const tn_kernel_call *call, uint32_t first, tn__terms_matrix *matrix) {
    int64_t rows = tn__attr_int(call->op, "rows", 0);
    int64_t columns = tn__attr_int(call->op, "columns", 0);
    int64_t bits = tn__attr_int(call->op, "bits", 0);
    if (rows < 1 || columns < 1 || (bits != 1 && bits != 8 && bits != 16))
        return tn__call_fail(call, TN_E_INVALID, "no sparse matrix of %lld by %lld, places of %lld",
                             (long long)rows, (long long)columns, (long long)bits);
    const tn_operand *values = &call->inputs[first];
    *matrix = (tn__terms_matrix){
        .form = {(uint64_t)rows, (uint64_t)columns, tn__operand_count(values), (uint32_t)bits},
        .values = values->data,
        .places = call->inputs[first + 1].data,
        .starts = call->inputs[first + 2].data};
    uint64_t starts = tn__sparse_starts(&matrix->form);
    TN_TRY(tn__check_count(call, first + 1, tn__sparse_places(&matrix->form)));
    TN_TRY(tn__check_count(call, first + 2, starts));
    for (uint64_t i = 0; i < starts; i++)
        if (matrix->starts[i] > (i + 1 < starts ? matrix->starts[i + 1] : matrix->form.kept))
            return tn__call_fail(call, TN_E_INVALID, "start %llu of a sparse matrix is %u",
                                 (unsigned long long)i, matrix->starts[i]);
    return TN_OK;
}

/* Eight bytes of bits of a row, or the remaining ones. */
static uint64_t terms_word(const uint8_t *bytes, uint64_t at, uint64_t width) {
    uint64_t word = 0;
    if (width - at >= sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        return word;
    }
    for (uint64_t i = at; i < width; i++) word |= (uint64_t)bytes[i] << (8 * (i - at));
    return word;
}

/* Bit by bit; no more terms than the row has values. */
static void terms_bits(const tn__terms_matrix *matrix, tn__terms_cursor *cursor,
                       const uint64_t *table, tn__terms *terms) {
    uint64_t columns = matrix->form.columns, width = columns / 8 + (columns % 8 != 0);
    const uint8_t *bytes = (const uint8_t *)matrix->places + cursor->row * width;
    uint32_t most = matrix->starts[cursor->row + 1] - (uint32_t)cursor->next;
    if (most > TN__TERMS_MOST) most = TN__TERMS_MOST;
    while (terms->count < most) {
        for (; cursor->left == 0 && cursor->block < width; cursor->block += 8)
            cursor->left = terms_word(bytes, cursor->block, width);
        if (cursor->left == 0) return;
        uint64_t column = (cursor->block - 8) * 8 + (uint64_t)__builtin_ctzll(cursor->left);
        cursor->left &= cursor->left - 1;
        terms->at[terms->count++] = table[column < columns ? column : columns - 1];
    }
}

/* Places within blocks: the remaining ones of this block, then those of later blocks. */
static void terms_blocks(const tn__terms_matrix *matrix, tn__terms_cursor *cursor,
                         const uint64_t *table, tn__terms *terms) {
    const uint8_t *bytes = matrix->places;
    const uint16_t *words = matrix->places;
    bool wide = matrix->form.bits == 16;
    uint64_t blocks = tn__sparse_blocks(&matrix->form), span = tn__sparse_span(&matrix->form);
    uint64_t last = matrix->form.columns - 1, at = cursor->next;
    while (cursor->block < blocks && terms->count < TN__TERMS_MOST) {
        uint64_t end = matrix->starts[cursor->row * blocks + cursor->block + 1];
        uint64_t first = cursor->block * span, stop = at + (TN__TERMS_MOST - terms->count);
        for (uint64_t to = end < stop ? end : stop; at < to; at++) {
            uint64_t column = first + (wide ? words[at] : bytes[at]);
            terms->at[terms->count++] = table[column < last ? column : last];
        }
        if (at == end) cursor->block++;
    }
}

bool tn__terms_next(const tn__terms_matrix *matrix, tn__terms_cursor *cursor, const uint64_t *table,
                    tn__terms *terms) {
    terms->count = 0;
    terms->values = matrix->values + cursor->next;
    if (matrix->form.bits == 1)
        terms_bits(matrix, cursor, table, terms);
    else
        terms_blocks(matrix, cursor, table, terms);
    cursor->next += terms->count;
    return terms->count > 0;
}

/* --- the loops --- */

/* Vectors by name: sums in arrays gcc keeps in memory, or takes two terms at a time in scalars. */
typedef float terms_vector __attribute__((vector_size(64), aligned(4), may_alias));
#define TERMS_LANES 16u
#define TERMS_VECTORS (TN__TERMS_TILE / TERMS_LANES)

TN_WIDE static void terms_tile(const tn__terms *terms, const float *from, float *sums) {
    terms_vector part[TERMS_VECTORS] = {0}, *to = (terms_vector *)sums;
    for (uint32_t k = 0; k < terms->count; k++) {
        const terms_vector *source = (const terms_vector *)(from + terms->at[k]);
        for (uint32_t i = 0; i < TERMS_VECTORS; i++) part[i] += terms->values[k] * source[i];
    }
    for (uint32_t i = 0; i < TERMS_VECTORS; i++) to[i] += part[i];
}

TN_WIDE static void terms_lanes(const tn__terms *terms, const float *from, float *sums) {
    terms_vector part = {0}, *to = (terms_vector *)sums;
    for (uint32_t k = 0; k < terms->count; k++)
        part += terms->values[k] * *(const terms_vector *)(from + terms->at[k]);
    *to += part;
}

void tn__terms_add(const tn__terms *terms, const float *from, uint64_t count, float *sums) {
    uint64_t p = 0;
    for (; count - p >= TN__TERMS_TILE; p += TN__TERMS_TILE) terms_tile(terms, from + p, sums + p);
    for (; count - p >= TERMS_LANES; p += TERMS_LANES) terms_lanes(terms, from + p, sums + p);
    for (; p < count; p++) sums[p] += tn__terms_sum(terms, from + p);
}

float tn__terms_sum(const tn__terms *terms, const float *from) {
    float sum = 0;
    for (uint32_t k = 0; k < terms->count; k++) sum += terms->values[k] * from[terms->at[k]];
    return sum;
}
