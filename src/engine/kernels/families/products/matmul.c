/* matmul.c - matrix products in plain loops: MatMul, Gemm, products of transposed factors, and the
 * 8-bit operators MatMulInteger and QLinearMatMul.
 *
 * Real types and integers of 32 and 64 bits use product.h, with one product per matrix of the
 * batch. If the right factor is a single matrix, one product has the rows of all left matrices.
 * 8-bit integers are multiplied here, in tiles of 64 columns, because their zero points may differ
 * by row and column.
 * Source: the ONNX specifications, opsets 1 to 17; numpy.matmul for batches.
 */
#include "engine/kernels/loops/product.h"
#include "engine/kernels/loops/quantise.h"

/* --- batches of matrices --- */

typedef struct matmul_frame {
    uint64_t batch, rows, inner, columns;
    uint32_t rank; /* number of batch dimensions */
    /* extents of the batch; strides of a and b along it, counted in matrices */
    int64_t extent[TN_RANK_MAX], a_step[TN_RANK_MAX], b_step[TN_RANK_MAX];
} matmul_frame;

static tn_status matmul_frame_read(const tn_kernel_call *call, const tn_operand *a,
                                   const tn_operand *b, matmul_frame *frame) {
    int64_t shape[TN_RANK_MAX];
    if (a->rank == 0 || b->rank == 0)
        return tn__call_fail(call, TN_E_INVALID, "a factor is a scalar");
    tn_operand left = *a, right = *b;
    left.rank = a->rank > 2 ? a->rank - 2 : 0;
    right.rank = b->rank > 2 ? b->rank - 2 : 0;
    uint32_t rank = left.rank > right.rank ? left.rank : right.rank, at = rank;
    *frame = (matmul_frame){.batch = 1, .rank = rank, .rows = 1, .columns = 1};
    tn__operand_strides(&left, rank, frame->a_step);
    tn__operand_strides(&right, rank, frame->b_step);
    for (uint32_t d = 0; d < rank; d++) {
        int64_t l = d + left.rank >= rank ? left.shape[d + left.rank - rank] : 1;
        int64_t r = d + right.rank >= rank ? right.shape[d + right.rank - rank] : 1;
        if (l != r && l != 1 && r != 1)
            return tn__call_fail(call, TN_E_INVALID, "batches of %lld and %lld do not agree",
                                 (long long)l, (long long)r);
        shape[d] = frame->extent[d] = l == 1 ? r : l;
        frame->batch *= (uint64_t)shape[d];
    }
    frame->inner = (uint64_t)a->shape[a->rank - 1];
    if (b->shape[b->rank == 1 ? 0 : b->rank - 2] != a->shape[a->rank - 1])
        return tn__call_fail(call, TN_E_INVALID, "%lld columns meet %lld rows",
                             (long long)a->shape[a->rank - 1],
                             (long long)b->shape[b->rank == 1 ? 0 : b->rank - 2]);
    if (a->rank > 1) frame->rows = (uint64_t)(shape[at++] = a->shape[a->rank - 2]);
    if (b->rank > 1) frame->columns = (uint64_t)(shape[at++] = b->shape[b->rank - 1]);
    return tn__check_result(call, 0, at, shape);
}

/* Matrix `at` of the result is the product of a matrix of a and a matrix of b. Finds the numbers of
 * these two matrices. */
static void matmul_frame_at(const matmul_frame *frame, uint64_t at, uint64_t *a, uint64_t *b) {
    *a = *b = 0;
    for (uint32_t d = frame->rank; d-- > 0; at /= (uint64_t)frame->extent[d]) {
        uint64_t here = at % (uint64_t)frame->extent[d];
        *a += here * (uint64_t)frame->a_step[d];
        *b += here * (uint64_t)frame->b_step[d];
    }
}

/* --- MatMul --- */

static bool matmul_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__PRODUCT_TYPES, 3, 0);
}

static tn_status matmul_run(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *b = &call->inputs[1];
    tn_operand *y = &call->outputs[0];
    uint64_t size = tn_dtype_bits(a->dtype) / 8;
    matmul_frame frame;
    TN_TRY(matmul_frame_read(call, a, b, &frame));
    if (b->rank <= 2) { /* one right matrix: treat the rows of all left matrices as one matrix */
        frame.rows *= frame.batch;
        frame.batch = 1;
    }
    for (uint64_t i = 0; i < frame.batch; i++) {
        uint64_t at_a = 0, at_b = 0;
        if (b->rank > 2) matmul_frame_at(&frame, i, &at_a, &at_b);
        tn__product product = {.rows = frame.rows,
                               .columns = frame.columns,
                               .inner = frame.inner,
                               .a = (const char *)a->data + at_a * frame.rows * frame.inner * size,
                               .b = (const char *)b->data +
                                    at_b * frame.inner * frame.columns * size,
                               .c = (char *)y->data + i * frame.rows * frame.columns * size,
                               .a_row = frame.inner,
                               .a_inner = 1,
                               .b_inner = frame.columns,
                               .b_column = 1,
                               .c_row = frame.columns,
                               .scale = 1,
                               .addend_scale = 1};
        tn__product_run(&product, y->dtype);
    }
    return TN_OK;
}

/* --- Gemm --- */

static bool matmul_accepts_gemm(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__PRODUCT_TYPES, 7, 0);
}

static tn_status matmul_run_gemm(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *b = &call->inputs[1], *c = tn__call_input(call, 2);
    tn_operand *y = &call->outputs[0];
    bool flip_a = tn__attr_int(call->op, "transA", 0) != 0;
    bool flip_b = tn__attr_int(call->op, "transB", 0) != 0;
    int64_t steps[2] = {0, 0};
    if (a->rank != 2 || b->rank != 2 || a->shape[!flip_a] != b->shape[flip_b])
        return tn__call_fail(call, TN_E_INVALID, "the factors are not matrices that fit");
    int64_t shape[2] = {a->shape[flip_a], b->shape[!flip_b]};
    TN_TRY(tn__check_result(call, 0, 2, shape));
    /* C may be broadcast to the shape of the product, but not the other way round */
    if (c != NULL) {
        bool fits = c->rank <= 2;
        for (uint32_t d = 0; fits && d < c->rank; d++)
            fits = c->shape[d] == 1 || c->shape[d] == shape[d + 2 - c->rank];
        if (!fits) return tn__call_fail(call, TN_E_INVALID, "C cannot be broadcast to the product");
        tn__operand_strides(c, 2, steps);
    }
    tn__product product = {.rows = (uint64_t)shape[0],
                           .columns = (uint64_t)shape[1],
                           .inner = (uint64_t)a->shape[!flip_a],
                           .a = a->data,
                           .b = b->data,
                           .c = y->data,
                           .a_row = flip_a ? 1 : (uint64_t)a->shape[1],
                           .a_inner = flip_a ? (uint64_t)a->shape[1] : 1,
                           .b_inner = flip_b ? 1 : (uint64_t)b->shape[1],
                           .b_column = flip_b ? (uint64_t)b->shape[1] : 1,
                           .c_row = (uint64_t)shape[1],
                           .addend_row = (uint64_t)steps[0],
                           .addend_column = (uint64_t)steps[1],
                           .scale = tn__attr_float(call->op, "alpha", 1),
                           .addend_scale = tn__attr_float(call->op, "beta", 1)};
    if (c != NULL && product.addend_scale != 0) product.addend = c->data;
    tn__product_run(&product, y->dtype);
    return TN_OK;
}

/* --- bytes --- */

/* number of columns for which sums are computed together, so that these sums stay in a cache */
#define MATMUL_TILE 64u

typedef struct matmul_factor { /* describes a factor of a quantised product, or its result */
    const tn_operand *data, *scale, *zero;
} matmul_factor;

typedef struct matmul_bytes {
    const tn_kernel_call *call;
    matmul_frame frame;
    /* the two factors and the result; if y.scale is NULL, the result is the int32 sums */
    matmul_factor a, b, y;
} matmul_bytes;

/* Returns the index of the scale or zero point for a row (or column) of a matrix. There may be one
 * for everything, one per row, or one per row of every matrix. */
static uint64_t matmul_which(const tn_operand *operand, uint64_t matrix, uint64_t lines,
                             uint64_t line) {
    uint64_t count = tn__operand_count(operand);
    return count == 1 ? 0 : count == lines ? line : matrix * lines + line;
}
static int32_t matmul_zero(const tn_operand *zero, uint64_t matrix, uint64_t lines, uint64_t line) {
    return zero == NULL ? 0
                        : (int32_t)tn__operand_int(zero, matmul_which(zero, matrix, lines, line));
}
static float matmul_scale(const tn_operand *scale, uint64_t matrix, uint64_t lines, uint64_t line) {
    return (float)tn__operand_float(scale, matmul_which(scale, matrix, lines, line));
}

static tn_status matmul_which_check(const tn_kernel_call *call, const tn_operand *operand,
                                    const tn_operand *data, uint64_t lines) {
    if (operand == NULL) return TN_OK;
    uint64_t count = tn__operand_count(operand);
    uint64_t matrices = data->rank > 2 ? tn__operand_span(data, 0, data->rank - 2) : 1;
    if (count == 1 || count == lines || count == lines * matrices) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "%llu scales or zero points for %llu rows or columns",
                         (unsigned long long)count, (unsigned long long)lines);
}

static void matmul_bytes_store(const matmul_bytes *job, uint64_t at, uint64_t at_a, uint64_t at_b,
                               uint64_t row, uint64_t column, uint64_t count,
                               const uint32_t *sums) {
    const matmul_frame *frame = &job->frame;
    uint64_t to = (at * frame->rows + row) * frame->columns + column;
    if (job->y.scale == NULL) {
        memcpy((uint32_t *)job->y.data->data + to, sums, count * sizeof *sums);
        return;
    }
    float left = matmul_scale(job->a.scale, at_a, frame->rows, row);
    float result = matmul_scale(job->y.scale, at, frame->rows, row);
    int32_t zero = matmul_zero(job->y.zero, at, frame->rows, row);
    for (uint64_t j = 0; j < count; j++) {
        float right = matmul_scale(job->b.scale, at_b, frame->columns, column + j);
        float value = (float)(int32_t)sums[j] * (left * right / result);
        ((uint8_t *)job->y.data->data)[to + j] = tn__quantise_byte(value, zero, job->y.data->dtype);
    }
}

static void matmul_bytes_tile(const matmul_bytes *job, uint64_t at, uint64_t column,
                              uint64_t count) {
    const matmul_frame *frame = &job->frame;
    tn__byte_coding of_a = tn__bytes_of(job->a.data->dtype),
                    of_b = tn__bytes_of(job->b.data->dtype);
    uint64_t at_a, at_b;
    int32_t zeros[MATMUL_TILE];
    matmul_frame_at(frame, at, &at_a, &at_b);
    const uint8_t *a = (const uint8_t *)job->a.data->data + at_a * frame->rows * frame->inner;
    const uint8_t *b = (const uint8_t *)job->b.data->data + at_b * frame->inner * frame->columns;
    for (uint64_t j = 0; j < count; j++)
        zeros[j] = of_b.bias + matmul_zero(job->b.zero, at_b, frame->columns, column + j);
    for (uint64_t i = 0; i < frame->rows; i++) {
        /* the sums are unsigned, so that they wrap around as int32 does, without undefined
         * behaviour */
        uint32_t sums[MATMUL_TILE] = {0};
        int32_t zero = matmul_zero(job->a.zero, at_a, frame->rows, i);
        for (uint64_t k = 0; k < frame->inner; k++) {
            const uint8_t *row = b + k * frame->columns + column;
            int32_t factor = tn__byte_read(of_a, a[i * frame->inner + k]) - zero;
            for (uint64_t j = 0; j < count; j++)
                sums[j] += (uint32_t)(factor * ((int32_t)(row[j] ^ of_b.flip) - zeros[j]));
        }
        matmul_bytes_store(job, at, at_a, at_b, i, column, count, sums);
    }
}

static tn_status matmul_bytes_run(matmul_bytes *job) {
    const matmul_frame *frame = &job->frame;
    TN_TRY(matmul_frame_read(job->call, job->a.data, job->b.data, &job->frame));
    TN_TRY(matmul_which_check(job->call, job->a.zero, job->a.data, frame->rows));
    TN_TRY(matmul_which_check(job->call, job->a.scale, job->a.data, frame->rows));
    TN_TRY(matmul_which_check(job->call, job->b.zero, job->b.data, frame->columns));
    TN_TRY(matmul_which_check(job->call, job->b.scale, job->b.data, frame->columns));
    TN_TRY(matmul_which_check(job->call, job->y.zero, job->y.data, frame->rows));
    TN_TRY(matmul_which_check(job->call, job->y.scale, job->y.data, frame->rows));
    for (uint64_t i = 0; i < frame->batch; i++)
        for (uint64_t j = 0; j < frame->columns; j += MATMUL_TILE)
            matmul_bytes_tile(job, i, j,
                              frame->columns - j < MATMUL_TILE ? frame->columns - j : MATMUL_TILE);
    return TN_OK;
}

static bool matmul_accepts_integer(const tn_kernel_setup *setup) {
    return tn__output_is(setup, 0, TN__TYPE(INT32)) && tn__input_is(setup, 0, TN__TYPES_BYTE) &&
           tn__input_is(setup, 1, TN__TYPES_BYTE) && tn__input_may_be(setup, 2, TN__TYPES_BYTE) &&
           tn__input_may_be(setup, 3, TN__TYPES_BYTE);
}

static tn_status matmul_run_integer(tn_kernel_call *call) {
    matmul_bytes job = {.call = call,
                        .a = {&call->inputs[0], NULL, tn__call_input(call, 2)},
                        .b = {&call->inputs[1], NULL, tn__call_input(call, 3)},
                        .y = {.data = &call->outputs[0]}};
    return matmul_bytes_run(&job);
}

static bool matmul_accepts_qlinear(const tn_kernel_setup *setup) {
    /* inputs: data, scale and zero point of a and of b; scale and zero point of y */
    for (uint32_t i = 0; i < 8; i++) {
        bool scale = i == 1 || i == 4 || i == 6;
        if (!tn__input_is(setup, i, scale ? TN__TYPES_REAL : TN__TYPES_BYTE)) return false;
    }
    return tn__output_is(setup, 0, TN__TYPES_BYTE);
}

static tn_status matmul_run_qlinear(tn_kernel_call *call) {
    const tn_operand *in = call->inputs;
    matmul_bytes job = {.call = call,
                        .a = {&in[0], &in[1], &in[2]},
                        .b = {&in[3], &in[4], &in[5]},
                        .y = {&call->outputs[0], &in[6], &in[7]}};
    return matmul_bytes_run(&job);
}

/* --- transposed factors: gradients of products, and FusedMatMul --- */

/* Computes one product per matrix of the result. `flip_a`, `flip_b`: the factor is stored
 * transposed. */
static void matmul_flipped(const tn_kernel_call *call, bool flip_a, bool flip_b, double scale) {
    const tn_operand *a = &call->inputs[0], *b = &call->inputs[1];
    const tn_operand *y = &call->outputs[0];
    int64_t step_a[TN_RANK_MAX], step_b[TN_RANK_MAX];
    tn_operand left = *a, right = *b;
    left.rank -= 2;
    right.rank -= 2;
    uint32_t rank = y->rank - 2;
    tn__operand_strides(&left, rank, step_a);
    tn__operand_strides(&right, rank, step_b);
    uint64_t rows = (uint64_t)y->shape[rank], columns = (uint64_t)y->shape[rank + 1];
    uint64_t inner = (uint64_t)a->shape[a->rank - (flip_a ? 2 : 1)];
    uint64_t size = tn_dtype_bits(y->dtype) / 8, batch = tn__operand_span(y, 0, rank);
    for (uint64_t i = 0; i < batch; i++) {
        uint64_t left_at = 0, right_at = 0, rest = i;
        for (uint32_t d = rank; d-- > 0; rest /= (uint64_t)y->shape[d]) {
            left_at += rest % (uint64_t)y->shape[d] * (uint64_t)step_a[d];
            right_at += rest % (uint64_t)y->shape[d] * (uint64_t)step_b[d];
        }
        tn__product product = {.rows = rows,
                               .columns = columns,
                               .inner = inner,
                               .a = (const char *)a->data + left_at * rows * inner * size,
                               .b = (const char *)b->data + right_at * inner * columns * size,
                               .c = (char *)y->data + i * rows * columns * size,
                               .a_row = flip_a ? 1 : inner,
                               .a_inner = flip_a ? rows : 1,
                               .b_inner = flip_b ? 1 : columns,
                               .b_column = flip_b ? inner : 1,
                               .c_row = columns,
                               .scale = scale,
                               .addend_scale = 1};
        tn__product_run(&product, y->dtype);
    }
}

static tn_status matmul_run_transposed(tn_kernel_call *call) {
    matmul_flipped(call, tn__attr_int(call->op, "trans_a", 0) != 0,
                   tn__attr_int(call->op, "trans_b", 0) != 0, 1);
    return TN_OK;
}

static bool matmul_accepts_transposed(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__PRODUCT_TYPES, 3, 0);
}

static tn_status matmul_run_contrib(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *b = &call->inputs[1];
    bool flip_a = tn__attr_int(call->op, "transA", 0) != 0,
         flip_b = tn__attr_int(call->op, "transB", 0) != 0;
    if (a->rank < 2) return tn__call_bad_shape(call, 0);
    if (b->rank < 2) return tn__call_bad_shape(call, 1);
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    uint64_t rows = (uint64_t)a->shape[a->rank - (flip_a ? 1 : 2)],
             inner = (uint64_t)a->shape[a->rank - (flip_a ? 2 : 1)],
             columns = (uint64_t)b->shape[b->rank - (flip_b ? 2 : 1)];
    int64_t shape[TN_RANK_MAX];
    if (inner != (uint64_t)b->shape[b->rank - (flip_b ? 1 : 2)]) return tn__call_bad_shape(call, 1);
    for (uint32_t d = 0; d + 2 < rank; d++) {
        int64_t left = d + a->rank < rank ? 1 : a->shape[d + a->rank - rank];
        int64_t right = d + b->rank < rank ? 1 : b->shape[d + b->rank - rank];
        if (left != right && left != 1 && right != 1) return tn__call_bad_shape(call, 1);
        shape[d] = left == 1 ? right : left;
    }
    shape[rank - 2] = (int64_t)rows;
    shape[rank - 1] = (int64_t)columns;
    TN_TRY(tn__check_result(call, 0, rank, shape));
    if (tn__operand_count(&call->outputs[0]) > 0)
        matmul_flipped(call, flip_a, flip_b, tn__attr_float(call->op, "alpha", 1));
    return TN_OK;
}

static bool matmul_accepts_contrib(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 3, 0);
}

static const tn_kernel matmul_kernels[] = {
    {.type = "Gemm", .accepts = matmul_accepts_gemm, .run = matmul_run_gemm},
    {.type = "MatMul", .accepts = matmul_accepts, .run = matmul_run},
    {.type = "MatMulInteger", .accepts = matmul_accepts_integer, .run = matmul_run_integer},
    {.type = "QLinearMatMul", .accepts = matmul_accepts_qlinear, .run = matmul_run_qlinear},
    {.domain = "tenure",
     .type = "TransposedMatMul",
     .accepts = matmul_accepts_transposed,
     .run = matmul_run_transposed},
    {.domain = "com.microsoft",
     .type = "FusedMatMul",
     .accepts = matmul_accepts_contrib,
     .run = matmul_run_contrib},
    {.domain = "com.microsoft",
     .type = "TransposeMatMul",
     .accepts = matmul_accepts_contrib,
     .run = matmul_run_contrib},
};

TN_KERNEL_FAMILY(matmul, "");
