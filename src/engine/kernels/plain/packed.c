/* packed.c - a product with weights of 2, 4 or 8 bits that are read where they are stored
 * (rewrites/packed.c).
 *
 * Weights are those of ONNX's DequantizeLinear: w = (q - zero) * scale, with a scale for the whole
 * matrix, for each row or column, or for each block of either. A few columns of the product are
 * expanded to float32 at a time, and multiplied. They are columns of the matrix, or rows if the
 * file holds it transposed.
 */
#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"
#include "engine/kernels/expand.h"
#include "engine/kernels/product.h"

#define PACKED_COLUMNS 64u /* of the product, expanded at a time */
#define PACKED_WHOLE                                                                               \
    (TN__TYPE(INT8) | TN__TYPE(UINT8) | TN__TYPE(INT4) | TN__TYPE(UINT4) | TN__TYPE(INT2) |        \
     TN__TYPE(UINT2))

typedef struct packed_weights {
    const uint8_t *codes, *zeros; /* zeros NULL: 0 */
    const float *scales;
    uint64_t rows, columns;
    uint32_t bits;
    bool is_signed;
    /* Element (r, c) has scale r / row_block * row_step + c / column_block * column_step. */
    uint64_t row_block, row_step, column_block, column_step;
} packed_weights;

static bool packed_is_transposed(const tn_op *op) { return tn__attr_int(op, "transposed", 0) != 0; }

static int32_t packed_code(const packed_weights *it, const uint8_t *bytes, uint64_t at) {
    return tn__packed_number(bytes, at, it->bits, it->is_signed);
}

static tn_status packed_bad(const tn_kernel_call *call, uint32_t input) {
    return tn__call_fail(call, TN_E_INVALID, "the shape of input %u does not fit the others",
                         input);
}

/* Which scale belongs to which element. */
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
        return count == extent ? TN_OK : packed_bad(call, 2);
    }
    blocks = extent / (uint64_t)block + (extent % (uint64_t)block != 0);
    it->row_block = axis == 0 ? (uint64_t)block : 1;
    it->column_block = axis == 0 ? 1 : (uint64_t)block;
    it->row_step = axis == 0 ? it->columns : blocks;
    it->column_step = 1;
    bool fits = scale->rank == 2 && (uint64_t)scale->shape[axis] == blocks &&
                scale->shape[1 - axis] == w->shape[1 - axis];
    return fits ? TN_OK : packed_bad(call, 2);
}

static tn_status packed_read(const tn_kernel_call *call, packed_weights *it) {
    const tn_operand *w = &call->inputs[1], *zero = tn__call_input(call, 3);
    if (w->rank != 2) return packed_bad(call, 1);
    *it = (packed_weights){.codes = w->data,
                           .zeros = zero != NULL ? zero->data : NULL,
                           .scales = call->inputs[2].data,
                           .rows = (uint64_t)w->shape[0],
                           .columns = (uint64_t)w->shape[1],
                           .bits = tn_dtype_bits(w->dtype),
                           .is_signed =
                               w->dtype == TN_INT8 || w->dtype == TN_INT4 || w->dtype == TN_INT2};
    TN_TRY(tn__check_count(call, 3, tn__operand_count(&call->inputs[2])));
    return packed_read_scales(call, it);
}

static uint64_t packed_which(const packed_weights *it, uint64_t row, uint64_t column) {
    return row / it->row_block * it->row_step + column / it->column_block * it->column_step;
}

static float packed_zero(const packed_weights *it, uint64_t which) {
    return it->zeros != NULL ? (float)packed_code(it, it->zeros, which) : 0;
}

/* Scales and zero points of `count` columns in one row. */
static void packed_forms(const packed_weights *it, uint64_t row, uint64_t first, uint64_t count,
                         float *scales, float *zeros) {
    for (uint64_t c = 0; c < count; c++) {
        uint64_t which = packed_which(it, row, first + c);
        scales[c] = it->scales[which];
        zeros[c] = packed_zero(it, which);
    }
}

/* Bytes with two numbers of 4 bits. `flip` 8: numbers with a sign, else 0. */
TN_WIDE static void packed_halves(const uint8_t *bytes, int32_t flip, const float *scales,
                                  const float *zeros, float *to) {
    int32_t codes[PACKED_COLUMNS];
    for (uint32_t b = 0; b < PACKED_COLUMNS / 2; b++) {
        codes[2 * b] = ((bytes[b] & 15) ^ flip) - flip;
        codes[2 * b + 1] = ((bytes[b] >> 4) ^ flip) - flip;
    }
    for (uint32_t c = 0; c < PACKED_COLUMNS; c++) to[c] = ((float)codes[c] - zeros[c]) * scales[c];
}

/* Bytes; `flip` 128: with a sign, else 0. */
TN_WIDE static void packed_bytes(const uint8_t *bytes, int32_t flip, const float *scales,
                                 const float *zeros, float *to) {
    for (uint32_t c = 0; c < PACKED_COLUMNS; c++)
        to[c] = ((float)((bytes[c] ^ flip) - flip) - zeros[c]) * scales[c];
}

/* Columns [first, first + count) of one row; at most PACKED_COLUMNS. */
static void packed_expand(const packed_weights *it, uint64_t row, uint64_t first, uint64_t count,
                          const float *scales, const float *zeros, float *to) {
    uint64_t at = row * it->columns + first;
    if (count == PACKED_COLUMNS && it->bits == 8)
        packed_bytes(it->codes + at, it->is_signed ? 128 : 0, scales, zeros, to);
    else if (count == PACKED_COLUMNS && it->bits == 4 && at % 2 == 0)
        packed_halves(it->codes + at / 2, it->is_signed ? 8 : 0, scales, zeros, to);
    else
        for (uint64_t c = 0; c < count; c++)
            to[c] = ((float)packed_code(it, it->codes, at + c) - zeros[c]) * scales[c];
}

/* Columns [first, first + count) of all rows, PACKED_COLUMNS floats a row. */
static void packed_expand_columns(const packed_weights *it, uint64_t first, uint64_t count,
                                  float *to) {
    float scales[PACKED_COLUMNS], zeros[PACKED_COLUMNS];
    for (uint64_t r = 0; r < it->rows; r++, to += PACKED_COLUMNS) {
        if (r % it->row_block == 0) packed_forms(it, r, first, count, scales, zeros);
        packed_expand(it, r, first, count, scales, zeros, to);
    }
}

/* Rows [first, first + count), whole, block by block. */
static void packed_expand_rows(const packed_weights *it, uint64_t first, uint64_t count,
                               float *to) {
    for (uint64_t r = first; r < first + count; r++)
        for (uint64_t c = 0; c < it->columns;) {
            uint64_t left = it->columns - c,
                     some = left < it->column_block ? left : it->column_block;
            uint64_t which = packed_which(it, r, c);
            tn__packed_expand(it->codes, r * it->columns + c, some, it->bits, it->is_signed,
                              it->scales[which], packed_zero(it, which), to);
            to += some;
            c += some;
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
    if (x->rank < 2 || (uint64_t)x->shape[x->rank - 1] != inner) return packed_bad(call, 0);
    memcpy(shape, x->shape, x->rank * sizeof *shape);
    shape[x->rank - 1] = (int64_t)columns;
    TN_TRY(tn__check_result(call, 0, x->rank, shape));
    TN_TRY(tn__check_scratch(call, PACKED_COLUMNS * inner * sizeof(float)));
    float *panel = call->workspace, *y = call->outputs[0].data;
    for (uint64_t n = 0; n < columns; n += PACKED_COLUMNS) {
        uint64_t count = columns - n < PACKED_COLUMNS ? columns - n : PACKED_COLUMNS;
        (turned ? packed_expand_rows : packed_expand_columns)(&it, n, count, panel);
        tn__product product = {.rows = tn__operand_span(x, 0, x->rank - 1),
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

static bool packed_accepts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(FLOAT32)) && tn__input_is(setup, 1, PACKED_WHOLE) &&
           tn__input_is(setup, 2, TN__TYPE(FLOAT32)) && tn__input_may_be(setup, 3, PACKED_WHOLE) &&
           tn__input_may_be(setup, 4, TN__TYPE(FLOAT32)) &&
           tn__output_is(setup, 0, TN__TYPE(FLOAT32)) &&
           (tn__setup_input(setup, 3) == NULL ||
            tn__setup_input(setup, 3)->dtype == tn__setup_input(setup, 1)->dtype);
}

static uint64_t packed_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *w = tn__setup_input(setup, 1);
    uint32_t inner = packed_is_transposed(setup->op) ? 1 : 0;
    if (w == NULL || w->rank != 2 || w->shape[inner] < 0) return 0;
    return tn__mul_sat(PACKED_COLUMNS * sizeof(float), (uint64_t)w->shape[inner]);
}

static const tn_kernel packed_kernels[] = {
    {.type = "PackedMatMul",
     .accepts = packed_accepts,
     .workspace = packed_workspace,
     .run = packed_run},
};

TN_KERNEL_FAMILY(packed, "tenure");
