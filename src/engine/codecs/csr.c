/* csr.c - a codec that stores only the elements that are not zero, in rows of 256 elements, so that
 * a column index fits into a byte.
 *
 * header   u32 kind (0 sparse, 1 raw), u32 unused, u64 number of elements that are not zero
 * sparse   u16 per row: number of its elements; then all columns (u8), then all elements
 * raw      all elements, unencoded
 *
 * An element is zero if all its bits are zero. -0.0 and NaNs are therefore stored, and decoding
 * restores every bit. The plan gives the form a fixed number of bytes. If the elements that are not
 * zero need more, but the unencoded tensor fits, the form is raw; otherwise encoding fails. CSR
 * saves memory if fewer than four fifths of the elements are not zero.
 *
 * Cost: two passes over the tensor.
 * Source: Jain et al., "Gist" (2018), sparse storage and dense compute.
 */
#include "engine/codecs/codec.h"
#include "engine/kernels/convert.h"

#include <inttypes.h>

#define CSR_HEADER 16u
#define CSR_WIDTH 256u

enum { CSR_SPARSE, CSR_RAW };

typedef struct csr_parts {
    uint64_t rows, filled;
    uint8_t *counts, *columns, *values; /* addresses of the parts of a form; they are not aligned */
} csr_parts;

static csr_parts csr_parts_of(const tn__form *form, uint64_t filled) {
    csr_parts parts = {.rows = form->count / CSR_WIDTH + (form->count % CSR_WIDTH != 0),
                       .filled = filled};
    parts.counts = form->code + CSR_HEADER;
    parts.columns = parts.counts + 2 * parts.rows;
    parts.values = parts.columns + filled;
    return parts;
}

static uint32_t csr_width(const tn__form *form, uint64_t row) {
    uint64_t left = form->count - row * CSR_WIDTH;
    return left < CSR_WIDTH ? (uint32_t)left : CSR_WIDTH;
}

TN_WIDE static uint64_t csr_count(const uint32_t *from, uint64_t count) {
    uint64_t filled = 0;
    for (uint64_t i = 0; i < count; i++) filled += from[i] != 0;
    return filled;
}

uint64_t tn__csr_filled(const void *plain, uint64_t count) { return csr_count(plain, count); }

/* Stores the elements of one row that are not zero, without a branch: each element is written, and
 * the position advances only if it is not zero. Returns their number. */
static uint32_t csr_pack_row(const uint32_t *from, uint32_t width, uint8_t *columns,
                             uint32_t *values) {
    uint32_t at = 0;
    for (uint32_t c = 0; c < width; c++) {
        columns[at] = (uint8_t)c;
        values[at] = from[c];
        at += from[c] != 0;
    }
    return at;
}

static void csr_pack(const tn__form *form, csr_parts to) {
    uint8_t columns[CSR_WIDTH + 1];
    uint32_t values[CSR_WIDTH + 1];
    for (uint64_t row = 0; row < to.rows; row++) {
        const uint32_t *from = (const uint32_t *)form->plain + row * CSR_WIDTH;
        uint32_t got = csr_pack_row(from, csr_width(form, row), columns, values);
        uint16_t count = (uint16_t)got;
        memcpy(to.counts + 2 * row, &count, sizeof count);
        memcpy(to.columns, columns, got);
        memcpy(to.values, values, 4 * (size_t)got);
        to.columns += got;
        to.values += 4 * (size_t)got;
    }
}

static void csr_write_header(const tn__form *form, uint32_t kind, uint64_t filled) {
    uint32_t head[2] = {kind, 0};
    memcpy(form->code, head, sizeof head);
    memcpy(form->code + sizeof head, &filled, sizeof filled);
}

static tn_status csr_encode(tn__form *form, tn_error *error) {
    uint64_t filled = csr_count(form->plain, form->count);
    uint64_t need = tn_codec_bytes(TN_CODEC_CSR, form->count, filled);
    if (need <= form->room) {
        csr_write_header(form, CSR_SPARSE, filled);
        csr_pack(form, csr_parts_of(form, filled));
        return TN_OK;
    }
    if (form->room < CSR_HEADER || (form->room - CSR_HEADER) / 4 < form->count)
        TN_FAIL(error, TN_E_EXHAUSTED,
                "%" PRIu64 " of %" PRIu64 " elements are not zero; as CSR they take %" PRIu64
                " bytes, and %" PRIu64 " are planned: give it more, or leave it as it is",
                filled, form->count, need, form->room);
    csr_write_header(form, CSR_RAW, filled);
    form->raw = true;
    if (form->count > 0) memcpy(form->code + CSR_HEADER, form->plain, (size_t)form->count * 4);
    return TN_OK;
}

/* Decodes a sparse form. Returns false if a row has more elements than its width, or a column is
 * outside its row. */
static bool csr_unpack(const tn__form *form, csr_parts from) {
    for (uint64_t row = 0; row < from.rows; row++) {
        uint32_t *to = (uint32_t *)form->plain + row * CSR_WIDTH, width = csr_width(form, row);
        uint16_t count;
        memcpy(&count, from.counts + 2 * row, sizeof count);
        if (count > width || count > from.filled) return false;
        memset(to, 0, 4 * (size_t)width);
        for (uint32_t k = 0; k < count; k++) {
            if (from.columns[k] >= width) return false;
            memcpy(&to[from.columns[k]], from.values + 4 * (size_t)k, 4);
        }
        from.columns += count;
        from.values += 4 * (size_t)count;
        from.filled -= count;
    }
    return from.filled == 0;
}

static tn_status csr_decode(const tn__form *form, tn_error *error) {
    uint32_t kind = 0;
    uint64_t filled = 0;
    bool whole = form->room >= CSR_HEADER;
    if (whole) {
        memcpy(&kind, form->code, sizeof kind);
        memcpy(&filled, form->code + 8, sizeof filled);
    }
    if (whole && kind == CSR_RAW && (form->room - CSR_HEADER) / 4 >= form->count) {
        if (form->count > 0) memcpy(form->plain, form->code + CSR_HEADER, (size_t)form->count * 4);
        return TN_OK;
    }
    if (whole && kind == CSR_SPARSE &&
        tn_codec_bytes(TN_CODEC_CSR, form->count, filled) <= form->room &&
        csr_unpack(form, csr_parts_of(form, filled)))
        return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "what is decoded is not a CSR form of %" PRIu64 " elements",
            form->count);
}

const tn__coder tn__coder_csr = {.any_type = true, .encode = csr_encode, .decode = csr_decode};
