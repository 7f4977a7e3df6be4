/* packed.c - products with weights of 2, 4 or 8 bits, which are stored packed (rewrites/packed.c):
 * PackedMatMul, PackedGather, and MatMulNBits and GatherBlockQuantized of ONNX Runtime.
 *
 * The weights stay packed in memory. Those of PackedMatMul and PackedGather are ONNX's of
 * DequantizeLinear: w = (q - zero) * scale, with one scale for the whole matrix, for each row or
 * column, or for each block of a row or column; q is an integer, or a float of 8 or 4 bits. Scales
 * may have 16 bits. The weights for a few columns of the product at a time are expanded to float32
 * and multiplied. They are columns of the stored matrix, or its rows if it is stored transposed.
 * PackedGather expands the rows that it is asked for.
 * Source: docs/ContribOperators.md of ONNX Runtime 1.30.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/loops/packed_dot.h"
#include "engine/kernels/loops/product.h"
#include "engine/kernels/loops/small_types.h"
#include "engine/kernels/operands.h"

#define PACKED_COLUMNS 64u /* weights are expanded for this many columns of the product at a time */
#define PACKED_WHOLE                                                                               \
    (TN__TYPE(INT8) | TN__TYPE(UINT8) | TN__TYPE(INT4) | TN__TYPE(UINT4) | TN__TYPE(INT2) |        \
     TN__TYPE(UINT2))
#define PACKED_FLOATS                                                                              \
    (TN__TYPE(FLOAT4E2M1) | TN__TYPE(FLOAT8E4M3FN) | TN__TYPE(FLOAT8E4M3FNUZ) |                    \
     TN__TYPE(FLOAT8E5M2) | TN__TYPE(FLOAT8E5M2FNUZ))
#define PACKED_SCALES (TN__TYPE(FLOAT32) | TN__TYPE(FLOAT16) | TN__TYPE(BFLOAT16))

typedef struct packed_weights {
    /* the packed weights and their zero points; `zeros` NULL: all zero points are 0 */
    const uint8_t *codes, *zeros;
    const tn_operand *scales;
    uint64_t rows, columns;
    uint32_t bits;
    bool is_signed;
    bool is_float; /* the codes are those of floats: values[code] is the number */
    float values[256];
    /* Element (r, c) has scale number r / row_block * row_step + c / column_block * column_step. */
    uint64_t row_block, row_step, column_block, column_step;
} packed_weights;

static bool packed_is_transposed(const tn_op *op) { return tn__attr_int(op, "transposed", 0) != 0; }

/* Returns element `at` of a tensor of float32, float16 or bfloat16. */
static inline float packed_real(const tn_operand *operand, uint64_t at) {
    if (operand->dtype == TN_FLOAT32) return ((const float *)operand->data)[at];
    const uint16_t half = ((const uint16_t *)operand->data)[at];
    return operand->dtype == TN_FLOAT16 ? tn__half_to_float(half) : tn__bfloat_to_float(half);
}

/* Returns weight or zero point `at` of packed bytes. */
static float packed_code(const packed_weights *it, const uint8_t *bytes, uint64_t at) {
    int32_t code = tn__packed_number(bytes, at, it->bits, it->is_signed);
    return it->is_float ? it->values[code] : (float)code;
}

/* Finds out from the shape of the scales which elements of the weights share a scale. */
static tn_status packed_read_scales(const tn_kernel_call *call, packed_weights *it) {
    const tn_operand *w = &call->inputs[1], *scale = &call->inputs[2];
    int64_t block = tn__attr_int(call->op, "block_size", 0);
    uint64_t count = tn__operand_count(scale), extent, blocks;
    uint32_t axis;
    it->row_block = it->column_block = UINT64_MAX;
    if (count == 1 && scale->rank < 2) return TN_OK;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 1), 2, &axis));
    if (block < 0) return tn__call_fail(call, TN_E_INVALID, "attribute block_size is negative");
    extent = (uint64_t)w->shape[axis];
    if (block == 0) {
        *(axis == 0 ? &it->row_block : &it->column_block) = 1;
        *(axis == 0 ? &it->row_step : &it->column_step) = 1;
        return count == extent ? TN_OK : tn__call_bad_shape(call, 2);
    }
    blocks = extent / (uint64_t)block + (extent % (uint64_t)block != 0);
    it->row_block = axis == 0 ? (uint64_t)block : 1;
    it->column_block = axis == 0 ? 1 : (uint64_t)block;
    it->row_step = axis == 0 ? it->columns : blocks;
    it->column_step = 1;
    bool fits = scale->rank == 2 && (uint64_t)scale->shape[axis] == blocks &&
                scale->shape[1 - axis] == w->shape[1 - axis];
    return fits ? TN_OK : tn__call_bad_shape(call, 2);
}

static tn_status packed_read(const tn_kernel_call *call, packed_weights *it) {
    const tn_operand *w = &call->inputs[1], *zero = tn__call_input(call, 3);
    if (w->rank != 2) return tn__call_bad_shape(call, 1);
    it->codes = w->data;
    it->zeros = zero != NULL ? zero->data : NULL;
    it->scales = &call->inputs[2];
    it->rows = (uint64_t)w->shape[0];
    it->columns = (uint64_t)w->shape[1];
    it->bits = tn_dtype_bits(w->dtype);
    it->is_signed = w->dtype == TN_INT8 || w->dtype == TN_INT4 || w->dtype == TN_INT2;
    it->is_float = tn__is_small_float(w->dtype);
    it->row_step = it->column_step = 0;
    for (uint32_t code = 0; it->is_float && code < 1u << it->bits; code++)
        it->values[code] = (float)tn__small_value(w->dtype, code);
    TN_TRY(tn__check_count(call, 3, tn__operand_count(&call->inputs[2])));
    return packed_read_scales(call, it);
}

static uint64_t packed_which(const packed_weights *it, uint64_t row, uint64_t column) {
    return row / it->row_block * it->row_step + column / it->column_block * it->column_step;
}

static float packed_zero(const packed_weights *it, uint64_t which) {
    return it->zeros != NULL ? packed_code(it, it->zeros, which) : 0;
}

/* Reads the scales and zero points of `count` columns in one row. */
static void packed_forms(const packed_weights *it, uint64_t row, uint64_t first, uint64_t count,
                         float *scales, float *zeros) {
    for (uint64_t c = 0; c < count; c++) {
        uint64_t which = packed_which(it, row, first + c);
        scales[c] = packed_real(it->scales, which);
        zeros[c] = packed_zero(it, which);
    }
}

/* Expands PACKED_COLUMNS weights of 4 bits. `flip` is 8 for signed weights, else 0. */
TN_WIDE static void packed_halves(const uint8_t *bytes, int32_t flip, const float *scales,
                                  const float *zeros, float *to) {
    int32_t codes[PACKED_COLUMNS];
    for (uint32_t b = 0; b < PACKED_COLUMNS / 2; b++) {
        codes[2 * b] = ((bytes[b] & 15) ^ flip) - flip;
        codes[2 * b + 1] = ((bytes[b] >> 4) ^ flip) - flip;
    }
    for (uint32_t c = 0; c < PACKED_COLUMNS; c++) to[c] = ((float)codes[c] - zeros[c]) * scales[c];
}

/* Expands PACKED_COLUMNS weights of 8 bits. `flip` is 128 for signed weights, else 0. */
TN_WIDE static void packed_bytes(const uint8_t *bytes, int32_t flip, const float *scales,
                                 const float *zeros, float *to) {
    for (uint32_t c = 0; c < PACKED_COLUMNS; c++)
        to[c] = ((float)((bytes[c] ^ flip) - flip) - zeros[c]) * scales[c];
}

/* Expands columns [first, first + count) of one row; at most PACKED_COLUMNS. */
static void packed_expand(const packed_weights *it, uint64_t row, uint64_t first, uint64_t count,
                          const float *scales, const float *zeros, float *to) {
    uint64_t at = row * it->columns + first;
    if (it->is_float)
        for (uint64_t c = 0; c < count; c++)
            to[c] = (packed_code(it, it->codes, at + c) - zeros[c]) * scales[c];
    else if (count == PACKED_COLUMNS && it->bits == 8)
        packed_bytes(it->codes + at, it->is_signed ? 128 : 0, scales, zeros, to);
    else if (count == PACKED_COLUMNS && it->bits == 4 && at % 2 == 0)
        packed_halves(it->codes + at / 2, it->is_signed ? 8 : 0, scales, zeros, to);
    else
        for (uint64_t c = 0; c < count; c++)
            to[c] = (packed_code(it, it->codes, at + c) - zeros[c]) * scales[c];
}

/* Expands columns [first, first + count) of all rows to PACKED_COLUMNS floats per row. */
static void packed_expand_columns(const packed_weights *it, uint64_t first, uint64_t count,
                                  float *to) {
    float scales[PACKED_COLUMNS], zeros[PACKED_COLUMNS];
    for (uint64_t r = 0; r < it->rows; r++, to += PACKED_COLUMNS) {
        if (r % it->row_block == 0) packed_forms(it, r, first, count, scales, zeros);
        packed_expand(it, r, first, count, scales, zeros, to);
    }
}

/* Expands all columns of rows [first, first + count), one block with a common scale at a time. */
static void packed_expand_rows(const packed_weights *it, uint64_t first, uint64_t count,
                               float *to) {
    for (uint64_t r = first; r < first + count; r++)
        for (uint64_t c = 0; c < it->columns;) {
            uint64_t left = it->columns - c,
                     some = left < it->column_block ? left : it->column_block;
            uint64_t which = packed_which(it, r, c);
            const float scale = packed_real(it->scales, which), zero = packed_zero(it, which);
            const uint64_t at = r * it->columns + c;
            if (!it->is_float)
                tn__packed_expand(it->codes, at, some, it->bits, it->is_signed, scale, zero, to);
            for (uint64_t i = 0; i < some && it->is_float; i++)
                to[i] = (packed_code(it, it->codes, at + i) - zero) * scale;
            to += some;
            c += some;
        }
}

/* --- one row of x, as when a decoder makes a token: nothing is expanded --- */

enum {
    PACKED_STRIP = 512, /* columns of the product that are computed together */
    PACKED_SHARED = 8,  /* least number of matrix rows that share their scales */
    PACKED_TERMS = 64   /* terms of a sum before it is scaled and added to the total */
};

/* The columns of a strip. With weights of 4 bits the even columns come first, then the odd ones:
 * the order of the low and high halves of bytes. */
typedef struct packed_strip {
    float sums[PACKED_STRIP], scales[PACKED_STRIP], zeros[PACKED_STRIP];
} packed_strip;

/* Adds the products of x and one matrix row to the sums. `flip` is 8 for signed weights of 4 bits,
 * 128 for signed weights of 8 bits, else 0. */
TN_WIDE static void packed_add_halves(const uint8_t *bytes, uint64_t count, uint8_t flip, float x,
                                      const float *zeros, float *sums) {
    const float *odd_zeros = zeros + count;
    float *odd = sums + count;
    TN_APART
    for (uint64_t i = 0; i < count; i++) {
        sums[i] += x * ((float)(int8_t)(((bytes[i] & 15) ^ flip) - flip) - zeros[i]);
        odd[i] += x * ((float)(int8_t)(((bytes[i] >> 4) ^ flip) - flip) - odd_zeros[i]);
    }
}

TN_WIDE static void packed_add_bytes(const uint8_t *bytes, uint64_t count, int32_t flip, float x,
                                     const float *zeros, float *sums) {
    TN_APART
    for (uint64_t i = 0; i < count; i++)
        sums[i] += x * ((float)((bytes[i] ^ flip) - flip) - zeros[i]);
}

static bool packed_is_narrow(const packed_weights *it) {
    const uint64_t shared = it->row_block < it->rows ? it->row_block : it->rows;
    return !it->is_float && shared >= PACKED_SHARED &&
           (it->column_block == 1 || it->column_block >= it->columns) &&
           (it->bits == 8 || (it->bits == 4 && it->columns % 2 == 0));
}

/* Puts numbers of adjacent columns in the order of a strip. */
TN_WIDE static void packed_order(const float *from, uint64_t count, bool halves, float *to) {
    const uint64_t half = count / 2;
    if (halves)
        for (uint64_t i = 0; i < half; i++) {
            to[i] = from[2 * i];
            to[half + i] = from[2 * i + 1];
        }
    else
        for (uint64_t i = 0; i < count; i++) to[i] = from[i];
}

/* Reads the scales and zero points of a strip, for the matrix rows that share those of `row`. */
static void packed_strip_forms(const packed_weights *it, uint64_t row, uint64_t first,
                               uint64_t count, packed_strip *strip) {
    const uint64_t which = packed_which(it, row, first), step = it->column_block == 1;
    if (step == 1 && it->scales->dtype == TN_FLOAT32)
        memcpy(strip->sums, (const float *)it->scales->data + which, count * sizeof(float));
    else
        for (uint64_t c = 0; c < count; c++)
            strip->sums[c] = packed_real(it->scales, which + c * step);
    packed_order(strip->sums, count, it->bits == 4, strip->scales);
    for (uint64_t c = 0; c < count; c++)
        strip->sums[c] = it->zeros != NULL ? packed_zero(it, which + c * step) : 0;
    packed_order(strip->sums, count, it->bits == 4, strip->zeros);
    for (uint64_t c = 0; c < count; c++) strip->sums[c] = 0;
}

TN_WIDE static void packed_scale(const packed_strip *strip, uint64_t count, bool halves, float *y) {
    const uint64_t half = count / 2;
    const float *sums = strip->sums, *scales = strip->scales;
    if (halves)
        for (uint64_t i = 0; i < half; i++) {
            y[2 * i] += sums[i] * scales[i];
            y[2 * i + 1] += sums[half + i] * scales[half + i];
        }
    else
        for (uint64_t i = 0; i < count; i++) y[i] += sums[i] * scales[i];
}

/* Computes columns [first, first + count) of one row of the product. Up to PACKED_TERMS matrix rows
 * that share their scales are summed, then scaled together. */
static void packed_narrow(const packed_weights *it, uint64_t first, uint64_t count, const float *x,
                          const float *bias, packed_strip *strip, float *y) {
    const uint64_t half = count / 2, shared = it->row_block < it->rows ? it->row_block : it->rows;
    const bool halves = it->bits == 4;
    for (uint64_t c = 0; c < count; c++) y[c] = bias != NULL ? bias[first + c] : 0;
    for (uint64_t from = 0, to = 0; from < it->rows; from = to) {
        to = it->rows < from + PACKED_TERMS ? it->rows : from + PACKED_TERMS;
        if (to > from - from % shared + shared) to = from - from % shared + shared;
        packed_strip_forms(it, from, first, count, strip);
        for (uint64_t r = from; r < to; r++) {
            const uint8_t *bytes = it->codes + (r * it->columns + first) * it->bits / 8;
            if (halves)
                packed_add_halves(bytes, half, it->is_signed ? 8 : 0, x[r], strip->zeros,
                                  strip->sums);
            else
                packed_add_bytes(bytes, count, it->is_signed ? 128 : 0, x[r], strip->zeros,
                                 strip->sums);
        }
        packed_scale(strip, count, halves, y);
    }
}

static void packed_run_narrow(const packed_weights *it, const float *x, const float *bias,
                              float *y) {
    packed_strip strip;
    for (uint64_t first = 0; first < it->columns; first += PACKED_STRIP) {
        uint64_t left = it->columns - first, count = left < PACKED_STRIP ? left : PACKED_STRIP;
        packed_narrow(it, first, count, x, bias, &strip, y + first);
    }
}

/* --- a few rows of x and a matrix that is stored transposed: each column of the product is the dot
 * product of x and a stored row --- */

enum { PACKED_TURNED = 4 }; /* most rows of x; more are faster with expanded weights */

/* Returns how many numbers of a stored row form a block with one scale for tn__packed_dot: the
 * weights' own blocks, or parts of longer ones. 0: the weights cannot be read in this way. */
static uint64_t packed_dot_block(const packed_weights *it) {
    const uint64_t least = 2 * TN__DOT_BYTES;
    uint64_t block = it->column_block < it->columns ? it->column_block : it->columns;
    if (it->is_float || (it->bits != 4 && it->bits != 8)) return 0;
    if (block == 0 || block % least != 0 || it->columns % block != 0) return 0;
    if (block <= TN__DOT_BLOCK) return block;
    uint64_t part = TN__DOT_BLOCK;
    while (block % part != 0) part /= 2; /* `least` divides it */
    return part;
}

static void packed_run_turned(const packed_weights *it, uint64_t block, uint64_t rows,
                              const float *x, const float *bias, float *workspace, float *y) {
    const uint64_t blocks = it->columns / block;
    const uint8_t sign = it->is_signed ? (it->bits == 4 ? 8 : 128) : 0;
    float *scales = workspace + rows * it->columns, *zeros = scales + blocks;
    for (uint64_t r = 0; r < rows && it->bits == 4; r++)
        tn__packed_pair(x + r * it->columns, it->columns, block, workspace + r * it->columns);
    const float *given = it->bits == 4 ? workspace : x;
    for (uint64_t n = 0; n < it->rows; n++) {
        for (uint64_t b = 0; b < blocks; b++) {
            uint64_t which = packed_which(it, n, b * block);
            scales[b] = packed_real(it->scales, which);
            zeros[b] = packed_zero(it, which);
        }
        const tn__packed_row row = {.bytes = it->codes + n * it->columns * it->bits / 8,
                                    .scales = scales,
                                    .zeros = it->zeros != NULL ? zeros : NULL,
                                    .blocks = blocks,
                                    .block = block,
                                    .bits = it->bits,
                                    .flip = sign,
                                    .shift = sign};
        for (uint64_t r = 0; r < rows; r++)
            y[r * it->rows + n] =
                tn__packed_dot(&row, given + r * it->columns) + (bias != NULL ? bias[n] : 0);
    }
}

static tn_status packed_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *bias = tn__call_input(call, 4);
    packed_weights it;
    int64_t shape[TN_RANK_MAX];
    TN_TRY(packed_read(call, &it));
    bool turned = packed_is_transposed(call->op);
    uint64_t inner = turned ? it.columns : it.rows, columns = turned ? it.rows : it.columns;
    TN_TRY(tn__check_count(call, 4, columns));
    if (x->rank < 2 || (uint64_t)x->shape[x->rank - 1] != inner) return tn__call_bad_shape(call, 0);
    memcpy(shape, x->shape, x->rank * sizeof *shape);
    shape[x->rank - 1] = (int64_t)columns;
    TN_TRY(tn__check_result(call, 0, x->rank, shape));
    TN_TRY(tn__check_scratch(call, PACKED_COLUMNS * inner * sizeof(float)));
    float *panel = call->workspace, *y = call->outputs[0].data;
    const uint64_t rows = tn__operand_span(x, 0, x->rank - 1);
    if (rows == 1 && !turned && packed_is_narrow(&it)) {
        packed_run_narrow(&it, x->data, bias != NULL ? bias->data : NULL, y);
        return TN_OK;
    }
    if (rows <= PACKED_TURNED && turned && packed_dot_block(&it) != 0) {
        packed_run_turned(&it, packed_dot_block(&it), rows, x->data,
                          bias != NULL ? bias->data : NULL, panel, y);
        return TN_OK;
    }
    for (uint64_t n = 0; n < columns; n += PACKED_COLUMNS) {
        uint64_t count = columns - n < PACKED_COLUMNS ? columns - n : PACKED_COLUMNS;
        (turned ? packed_expand_rows : packed_expand_columns)(&it, n, count, panel);
        tn__product product = {.rows = rows,
                               .columns = count,
                               .inner = inner,
                               .a = x->data,
                               .b = panel,
                               .addend = bias != NULL ? (const float *)bias->data + n : NULL,
                               .c = y + n,
                               .a_row = inner,
                               .a_inner = 1,
                               .b_inner = turned ? 1 : PACKED_COLUMNS,
                               .b_column = turned ? inner : 1,
                               .c_row = columns,
                               .addend_column = 1,
                               .scale = 1,
                               .addend_scale = 1};
        tn__product_run(&product, TN_FLOAT32);
    }
    return TN_OK;
}

/* Whether inputs 1 to 3 are packed weights, their scales and zero points. */
static bool packed_accepts_weights(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 1, PACKED_WHOLE | PACKED_FLOATS) &&
           tn__input_is(setup, 2, PACKED_SCALES) &&
           (tn__setup_input(setup, 3) == NULL ||
            tn__input_type(setup, 3) == tn__input_type(setup, 1));
}

static bool packed_accepts(const tn_kernel_setup *setup) {
    return packed_accepts_weights(setup) && tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 16, 0);
}

/* --- PackedGather --- */

static tn_status packed_run_gather(tn_kernel_call *call) {
    const tn_operand *indices = &call->inputs[0];
    tn_operand *y = &call->outputs[0];
    const uint64_t count = tn__operand_count(indices), width = tn__element_size(y->dtype);
    packed_weights it;
    float scales[PACKED_COLUMNS], zeros[PACKED_COLUMNS], row[PACKED_COLUMNS];
    int64_t shape[TN_RANK_MAX];
    TN_TRY(packed_read(call, &it));
    if (indices->rank >= TN_RANK_MAX) return tn__call_bad_shape(call, 0);
    memcpy(shape, indices->shape, indices->rank * sizeof *shape);
    shape[indices->rank] = (int64_t)it.columns;
    TN_TRY(tn__check_result(call, 0, indices->rank + 1, shape));
    char *to = y->data;
    for (uint64_t i = 0; i < count; i++) {
        int64_t at = tn__index(indices, i);
        if (at < -(int64_t)it.rows || at >= (int64_t)it.rows)
            return tn__call_bad_index(call, at, 0, (int64_t)it.rows);
        if (at < 0) at += (int64_t)it.rows;
        for (uint64_t c = 0; c < it.columns; c += PACKED_COLUMNS) {
            uint64_t left = it.columns - c, some = left < PACKED_COLUMNS ? left : PACKED_COLUMNS;
            packed_forms(&it, (uint64_t)at, c, some, scales, zeros);
            packed_expand(&it, (uint64_t)at, c, some, scales, zeros, row);
            tn__convert(TN_FLOAT32, row, y->dtype, to, some);
            to += some * width;
        }
    }
    return TN_OK;
}

static bool packed_accepts_gather(const tn_kernel_setup *setup) {
    return packed_accepts_weights(setup) && tn__input_is(setup, 0, TN__TYPES_INDEX) &&
           tn__output_is(setup, 0, PACKED_SCALES);
}

static uint64_t packed_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *w = tn__setup_input(setup, 1);
    uint32_t inner = packed_is_transposed(setup->op) ? 1 : 0;
    if (w == NULL || w->rank != 2 || w->shape[inner] < 0) return 0;
    return tn__mul_sat(PACKED_COLUMNS * sizeof(float), (uint64_t)w->shape[inner]);
}

/* --- MatMulNBits, GatherBlockQuantized: weights in blocks of few bits --- */

/* Returns element `at` of packed unsigned integers; the first element of a byte is in its lowest
 * bits. */
static int32_t packed_bits(const uint8_t *bytes, uint64_t at, uint32_t bits) {
    return tn__packed_number(bytes, at, bits, false);
}

typedef struct packed_nbits {
    uint64_t columns, inner, block, blocks, block_bytes, zero_bytes;
    uint32_t bits;
    const uint8_t *weights, *zeros;
    const tn_operand *real_zeros, *scales;
    /* for each index along K: the block whose scale applies; NULL: block k / block_size applies to
     * index k */
    const int32_t *groups;
} packed_nbits;

/* Reads the input that assigns a block to each index along K. It has K entries, or entries for
 * complete blocks. */
static tn_status packed_read_groups(const tn_kernel_call *call, packed_nbits *it) {
    const tn_operand *groups = tn__call_input(call, 4);
    if (groups == NULL) return TN_OK;
    uint64_t count = tn__operand_count(groups);
    if (count != it->inner && count != it->blocks * it->block) return tn__call_bad_shape(call, 4);
    it->groups = groups->data;
    for (uint64_t k = 0; k < it->inner; k++)
        if (it->groups[k] < 0 || (uint64_t)it->groups[k] >= it->blocks)
            return tn__call_bad_index(call, it->groups[k], 0, (int64_t)it->blocks);
    return TN_OK;
}

static tn_status packed_read_nbits(const tn_kernel_call *call, packed_nbits *it) {
    const tn_operand *w = &call->inputs[1], *scales = &call->inputs[2],
                     *zeros = tn__call_input(call, 3);
    int64_t k = tn__attr_int(call->op, "K", 0), n = tn__attr_int(call->op, "N", 0),
            block = tn__attr_int(call->op, "block_size", 0),
            bits = tn__attr_int(call->op, "bits", 4);
    if (k < 1 || n < 1 || k > INT32_MAX || n > INT32_MAX || block < 1 || block > INT32_MAX ||
        (bits != 2 && bits != 4 && bits != 8) || block * bits % 8 != 0)
        return tn__call_fail(call, TN_E_INVALID,
                             "attributes K, N, bits or block_size are out of range");
    *it = (packed_nbits){.columns = (uint64_t)n,
                         .inner = (uint64_t)k,
                         .block = (uint64_t)block,
                         .blocks = (uint64_t)(k / block + (k % block != 0)),
                         .block_bytes = (uint64_t)(block * bits / 8),
                         .bits = (uint32_t)bits,
                         .weights = w->data,
                         .scales = scales};
    it->zero_bytes = (it->blocks * it->bits + 7) / 8;
    if (tn__operand_count(w) != it->columns * it->blocks * it->block_bytes)
        return tn__call_bad_shape(call, 1);
    TN_TRY(tn__check_count(call, 2, it->columns * it->blocks));
    TN_TRY(tn__check_count(call, 5, it->columns));
    TN_TRY(packed_read_groups(call, it));
    if (zeros == NULL) return TN_OK;
    bool packed = zeros->dtype == TN_UINT8;
    TN_TRY(tn__check_count(call, 3, it->columns * (packed ? it->zero_bytes : it->blocks)));
    if (packed)
        it->zeros = zeros->data;
    else
        it->real_zeros = zeros;
    return TN_OK;
}

static float packed_zero_nbits(const packed_nbits *it, uint64_t n, uint64_t group) {
    if (it->zeros != NULL)
        return (float)packed_bits(it->zeros + n * it->zero_bytes, group, it->bits);
    return it->real_zeros != NULL ? packed_real(it->real_zeros, n * it->blocks + group)
                                  : (float)(1 << (it->bits - 1));
}

/* Expands all weights of column n of the product. */
static void packed_expand_nbits(const packed_nbits *it, uint64_t n, float *row) {
    for (uint64_t b = 0; b < it->blocks; b++) {
        const uint8_t *bytes = it->weights + (n * it->blocks + b) * it->block_bytes;
        float zero = packed_zero_nbits(it, n, b),
              scale = packed_real(it->scales, n * it->blocks + b);
        uint64_t first = b * it->block, left = it->inner - first;
        uint64_t count = left < it->block ? left : it->block;
        if (it->groups == NULL)
            tn__packed_expand(bytes, 0, count, it->bits, false, scale, zero, row + first);
        for (uint64_t i = 0; i < count && it->groups != NULL; i++) {
            uint64_t group = (uint64_t)it->groups[first + i];
            zero = packed_zero_nbits(it, n, group),
            scale = packed_real(it->scales, n * it->blocks + group);
            row[first + i] = ((float)packed_bits(bytes, i, it->bits) - zero) * scale;
        }
    }
}

enum {
    NBITS_COLUMNS = 16, /* weights are expanded for this many columns of the product at a time */
    /* up to this many input rows, it is faster to multiply the packed weights directly */
    NBITS_ROWS = 4
};

/* Whether the input is multiplied with the packed weights directly, without expanding them. Each
 * row of the input is then reordered once (tn__packed_pair). */
static bool packed_reads_packed(const packed_nbits *it, uint64_t rows) {
    return rows <= NBITS_ROWS && it->bits == 4 && it->groups == NULL &&
           it->block % (2 * TN__DOT_BYTES) == 0 && it->block <= TN__DOT_BLOCK;
}

static void packed_multiply_packed(const packed_nbits *it, uint64_t rows, const float *a,
                                   const float *bias, float *workspace, float *y) {
    uint64_t padded = it->blocks * it->block;
    float *zeros = workspace + rows * padded, *scales = zeros + it->blocks;
    for (uint64_t r = 0; r < rows; r++)
        tn__packed_pair(a + r * it->inner, it->inner, it->block, workspace + r * padded);
    for (uint64_t n = 0; n < it->columns; n++) {
        const bool usual = it->zeros == NULL && it->real_zeros == NULL;
        for (uint64_t b = 0; b < it->blocks && !usual; b++) zeros[b] = packed_zero_nbits(it, n, b);
        const bool plain = it->scales->dtype == TN_FLOAT32;
        for (uint64_t b = 0; b < it->blocks && !plain; b++)
            scales[b] = packed_real(it->scales, n * it->blocks + b);
        const float *own = (const float *)it->scales->data + n * it->blocks;
        tn__packed_row row = {.bytes = it->weights + n * it->blocks * it->block_bytes,
                              .scales = plain ? own : scales,
                              .zeros = usual ? NULL : zeros,
                              .blocks = it->blocks,
                              .block = it->block,
                              .bits = 4,
                              .shift = usual ? 8 : 0};
        for (uint64_t r = 0; r < rows; r++)
            y[r * it->columns + n] =
                tn__packed_dot(&row, workspace + r * padded) + (bias != NULL ? bias[n] : 0);
    }
}

/* Returns the bytes of scratch memory for expanded weights, or for reordered rows of the input,
 * zero points and scales, whichever is larger. */
static uint64_t packed_nbits_scratch(uint64_t inner, uint64_t blocks, uint64_t block) {
    uint64_t expanded = tn__mul_sat(NBITS_COLUMNS * sizeof(float), inner),
             packed = tn__mul_sat(sizeof(float), tn__mul_sat(blocks, NBITS_ROWS * block + 2));
    return expanded > packed ? expanded : packed;
}

static tn_status packed_run_nbits(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *bias = tn__call_input(call, 5);
    packed_nbits it = {0};
    TN_TRY(packed_read_nbits(call, &it));
    int64_t shape[TN_RANK_MAX];
    if (a->rank == 0 || (uint64_t)a->shape[a->rank - 1] != it.inner)
        return tn__call_bad_shape(call, 0);
    memcpy(shape, a->shape, a->rank * sizeof *shape);
    shape[a->rank - 1] = (int64_t)it.columns;
    TN_TRY(tn__check_result(call, 0, a->rank, shape));
    TN_TRY(tn__check_scratch(call, packed_nbits_scratch(it.inner, it.blocks, it.block)));
    uint64_t rows = tn__operand_count(a) / it.inner;
    float *expanded = call->workspace, *y = call->outputs[0].data;
    if (packed_reads_packed(&it, rows)) {
        packed_multiply_packed(&it, rows, a->data, bias != NULL ? bias->data : NULL, expanded, y);
        return TN_OK;
    }
    for (uint64_t n = 0; n < it.columns; n += NBITS_COLUMNS) {
        uint64_t some = it.columns - n < NBITS_COLUMNS ? it.columns - n : NBITS_COLUMNS;
        for (uint64_t c = 0; c < some; c++)
            packed_expand_nbits(&it, n + c, expanded + c * it.inner);
        tn__product product = {.rows = rows,
                               .columns = some,
                               .inner = it.inner,
                               .a = a->data,
                               .b = expanded,
                               .addend = bias != NULL ? (const float *)bias->data + n : NULL,
                               .c = y + n,
                               .a_row = it.inner,
                               .a_inner = 1,
                               .b_inner = 1,
                               .b_column = it.inner,
                               .c_row = it.columns,
                               .addend_column = 1,
                               .scale = 1,
                               .addend_scale = 1};
        tn__product_run(&product, TN_FLOAT32);
    }
    return TN_OK;
}

static bool packed_accepts_nbits(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 32, 0) &&
           tn__input_is(setup, 1, TN__TYPE(UINT8)) && tn__input_is(setup, 2, PACKED_SCALES) &&
           tn__input_may_be(setup, 4, TN__TYPE(INT32)) &&
           tn__input_may_be(setup, 3, TN__TYPE(UINT8) | PACKED_SCALES);
}

static uint64_t packed_workspace_nbits(const tn_kernel_setup *setup) {
    int64_t k = tn__attr_int(setup->op, "K", 0), block = tn__attr_int(setup->op, "block_size", 0);
    if (k < 1 || block < 1 || block > INT32_MAX) return 0;
    return packed_nbits_scratch((uint64_t)k, (uint64_t)(k / block + (k % block != 0)),
                                (uint64_t)block);
}

typedef struct packed_table {
    uint64_t extent[TN_RANK_MAX]; /* extents of the data, counted in unpacked elements */
    uint32_t rank, gather, quantise, bits;
    uint64_t block, blocks;
    bool is_signed;
} packed_table;

static tn_status packed_read_table(const tn_kernel_call *call, packed_table *it) {
    const tn_operand *data = &call->inputs[0], *scales = &call->inputs[2];
    int64_t bits = tn__attr_int(call->op, "bits", 4),
            block = tn__attr_int(call->op, "block_size", 128);
    *it = (packed_table){.rank = data->rank, .is_signed = data->dtype == TN_INT4};
    if (data->dtype != TN_UINT8) bits = 4;
    if ((bits != 2 && bits != 4 && bits != 8) || block < 1)
        return tn__call_fail(call, TN_E_INVALID, "attributes bits or block_size are out of range");
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "gather_axis", 0), data->rank, &it->gather));
    TN_TRY(
        tn__call_axis(call, tn__attr_int(call->op, "quantize_axis", 1), data->rank, &it->quantise));
    it->bits = (uint32_t)bits;
    it->block = (uint64_t)block;
    for (uint32_t d = 0; d < data->rank; d++) it->extent[d] = (uint64_t)data->shape[d];
    if (data->dtype == TN_UINT8 && bits < 8) {
        if (it->gather == data->rank - 1) return tn__call_bad_shape(call, 0);
        it->extent[data->rank - 1] *= (uint64_t)(8 / bits);
    }
    if (scales->rank != data->rank) return tn__call_bad_shape(call, 2);
    uint64_t along = it->extent[it->quantise];
    it->blocks = along / it->block + (along % it->block != 0);
    for (uint32_t d = 0; d < data->rank; d++)
        if ((uint64_t)scales->shape[d] != (d == it->quantise ? it->blocks : it->extent[d]))
            return tn__call_bad_shape(call, 2);
    return TN_OK;
}

static float packed_table_at(const tn_kernel_call *call, const packed_table *it, uint64_t at) {
    const tn_operand *zeros = tn__call_input(call, 3);
    uint64_t scale = 0, rest = at, step = 1;
    /* compute the index of the element's scale */
    for (uint32_t d = it->rank; d-- > 0; rest /= it->extent[d]) {
        uint64_t place = rest % it->extent[d];
        bool along = d == it->quantise;
        scale += (along ? place / it->block : place) * step;
        step *= along ? it->blocks : it->extent[d];
    }
    int32_t value = packed_bits(call->inputs[0].data, at, it->bits);
    int32_t zero = call->inputs[0].dtype == TN_UINT8 ? 1 << (it->bits - 1) : 0;
    if (zeros != NULL) { /* zero points are packed along the last axis; each row begins at a byte */
        uint64_t row = it->quantise == it->rank - 1 ? it->blocks : it->extent[it->rank - 1];
        uint64_t bytes = (row * it->bits + 7) / 8;
        zero = call->inputs[0].dtype == TN_UINT8
                   ? packed_bits((const uint8_t *)zeros->data + scale / row * bytes, scale % row,
                                 it->bits)
                   : packed_bits(zeros->data, scale, it->bits);
    }
    if (it->is_signed) {
        value = value >= 8 ? value - 16 : value;
        zero = zero >= 8 ? zero - 16 : zero;
    }
    return (float)(value - zero) * packed_real(&call->inputs[2], scale);
}

static tn_status packed_run_table(tn_kernel_call *call) {
    const tn_operand *indices = &call->inputs[1], *zeros = tn__call_input(call, 3);
    packed_table it = {0};
    TN_TRY(packed_read_table(call, &it));
    uint64_t outer = 1, inner = 1, count = tn__operand_count(indices), row = 1, rows = 1;
    int64_t shape[2 * TN_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < it.gather; d++)
        outer *= it.extent[d], shape[rank++] = (int64_t)it.extent[d];
    for (uint32_t d = 0; d < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (uint32_t d = it.gather + 1; d < it.rank; d++)
        inner *= it.extent[d], shape[rank++] = (int64_t)it.extent[d];
    TN_TRY(tn__check_result(call, 0, rank, shape));
    for (uint32_t d = 0; d < it.rank; d++) {
        uint64_t extent = d == it.quantise ? it.blocks : it.extent[d];
        if (d + 1 < it.rank)
            rows *= extent;
        else
            row = extent;
    }
    if (zeros != NULL &&
        tn__operand_count(zeros) !=
            (zeros->dtype == TN_UINT8 ? rows * ((row * it.bits + 7) / 8) : rows * row))
        return tn__call_bad_shape(call, 3);
    float *y = call->outputs[0].data;
    int64_t extent = (int64_t)it.extent[it.gather];
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t i = 0; i < count; i++) {
            int64_t at = tn__index(indices, i);
            if (at < 0 && at >= -extent) at += extent;
            bool inside = at >= 0 && at < extent; /* an index outside of the table gives zeros */
            uint64_t from = inside ? (o * (uint64_t)extent + (uint64_t)at) * inner : 0;
            for (uint64_t e = 0; e < inner; e++)
                *y++ = inside ? packed_table_at(call, &it, from + e) : 0;
        }
    return TN_OK;
}

static bool packed_accepts_table(const tn_kernel_setup *setup) {
    uint64_t packed = TN__TYPE(UINT8) | TN__TYPE(UINT4) | TN__TYPE(INT4);
    return tn__output_is(setup, 0, TN__TYPE(FLOAT32)) && tn__input_is(setup, 2, PACKED_SCALES) &&
           tn__input_is(setup, 0, packed) && tn__input_is(setup, 1, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 3, TN__TYPE(UINT8) | TN__TYPE(UINT4) | TN__TYPE(INT4)) &&
           (tn__setup_input(setup, 3) == NULL ||
            tn__input_type(setup, 3) == tn__input_type(setup, 0));
}

static const tn_kernel packed_kernels[] = {
    {.domain = "tenure",
     .type = "PackedGather",
     .accepts = packed_accepts_gather,
     .run = packed_run_gather},
    {.domain = "tenure",
     .type = "PackedMatMul",
     .accepts = packed_accepts,
     .workspace = packed_workspace,
     .run = packed_run,
     .short_inputs = 1u << 2},
    {.domain = "com.microsoft",
     .type = "GatherBlockQuantized",
     .accepts = packed_accepts_table,
     .run = packed_run_table,
     .short_inputs = 1u << 2},
    {.domain = "com.microsoft",
     .type = "MatMulNBits",
     .accepts = packed_accepts_nbits,
     .workspace = packed_workspace_nbits,
     .run = packed_run_nbits,
     .short_inputs = 1u << 2 | 1u << 3},
};

TN_KERNEL_FAMILY(packed, "");
