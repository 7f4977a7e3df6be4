/* contrib.c - operators of ONNX Runtime's domain com.microsoft around attention, in plain loops and
 * float32: normalisations with a residual, activations with a bias, products with packed weights,
 * tables that are quantised in blocks, embeddings, fused products and convolutions.
 *
 * Packed weights stay packed: a row of them is expanded in scratch for as long as it is multiplied.
 * Source: docs/ContribOperators.md of ONNX Runtime 1.30.
 */
#include <math.h>

#include "engine/kernels/box.h"
#include "engine/kernels/expand.h"
#include "engine/kernels/gelu.h"
#include "engine/kernels/inner.h"
#include "engine/kernels/product.h"

static tn_status contrib_bad(const tn_kernel_call *call, uint32_t input) {
    return tn__call_fail(call, TN_E_INVALID, "the shape of input %u does not fit the others",
                         input);
}

/* --- normalisations: Skip(Simplified)LayerNormalization, EmbedLayerNormalization --- */

/* One row: (x - mean) / deviation * gamma + beta, or without the mean. y may be x. */
static void contrib_norm(const float *x, float *y, uint64_t count, const float *gamma,
                         const float *beta, double epsilon, bool centred, double found[2]) {
    double mean = 0, square = 0;
    for (uint64_t i = 0; i < count && centred; i++) mean += (double)x[i];
    if (count > 0) mean /= (double)count;
    for (uint64_t i = 0; i < count; i++) {
        double apart = (double)x[i] - mean;
        square += apart * apart;
    }
    double inverse = 1 / sqrt(square / (double)(count > 0 ? count : 1) + epsilon);
    for (uint64_t i = 0; i < count; i++) {
        double value = ((double)x[i] - mean) * inverse * (double)gamma[i];
        y[i] = (float)(value + (beta != NULL ? (double)beta[i] : 0));
    }
    found[0] = mean;
    found[1] = inverse;
}

static const float *contrib_floats(const tn_kernel_call *call, uint32_t input) {
    const tn_operand *x = tn__call_input(call, input);
    return x != NULL ? x->data : NULL;
}

/* The skip connection has the shape of the input, or is repeated over the batch. */
static tn_status contrib_run_any_skip(tn_kernel_call *call, bool centred) {
    const tn_operand *x = &call->inputs[0], *skip = &call->inputs[1];
    const tn_operand *sum_to = tn__call_output(call, 3);
    uint32_t bias_at = centred ? 4 : 3;
    if (x->rank < 2 || x->rank > 3) return contrib_bad(call, 0);
    uint64_t hidden = (uint64_t)x->shape[x->rank - 1], count = tn__operand_count(x);
    uint64_t rows = hidden > 0 ? count / hidden : 0, repeats = tn__operand_count(skip);
    if (repeats == 0 ? count != 0 : count % repeats != 0 || (hidden > 0 && repeats % hidden != 0))
        return contrib_bad(call, 1);
    TN_TRY(tn__check_count(call, 2, hidden));
    TN_TRY(tn__check_count(call, bias_at, hidden));
    if (centred) TN_TRY(tn__check_count(call, 3, hidden));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 3, x->rank, x->shape));
    TN_TRY(tn__check_scratch(call, hidden * sizeof(float)));
    const float *bias = contrib_floats(call, bias_at),
                *beta = centred ? contrib_floats(call, 3) : NULL;
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-12), found[2];
    float *row = call->workspace;
    for (uint32_t i = 1; i < 3; i++)
        if (tn__call_output(call, i) != NULL && tn__operand_count(tn__call_output(call, i)) != rows)
            return tn__call_fail(call, TN_E_INVALID, "output %u has not one number for each row",
                                 i);
    for (uint64_t r = 0; r < rows; r++) {
        const float *from = (const float *)x->data + r * hidden;
        const float *more = (const float *)skip->data + r * hidden % repeats;
        for (uint64_t i = 0; i < hidden; i++)
            row[i] = from[i] + more[i] + (bias != NULL ? bias[i] : 0);
        /* the sum before the norm: output 0 may lie over the input and output 3 over the skip */
        if (sum_to != NULL) memcpy((float *)sum_to->data + r * hidden, row, hidden * sizeof *row);
        contrib_norm(row, (float *)call->outputs[0].data + r * hidden, hidden,
                     contrib_floats(call, 2), beta, epsilon, centred, found);
        for (uint32_t i = 1; i < 3; i++) {
            const tn_operand *to = tn__call_output(call, i);
            if (to != NULL) ((float *)to->data)[r] = (float)found[i - 1];
        }
    }
    return TN_OK;
}
static tn_status contrib_run_skip(tn_kernel_call *call) { return contrib_run_any_skip(call, true); }
static tn_status contrib_run_skip_simple(tn_kernel_call *call) {
    return contrib_run_any_skip(call, false);
}

static bool contrib_accepts_skip(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 4 | 8 | 16, 2 | 4 | 8);
}

static uint64_t contrib_workspace_row(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    return x == NULL || x->rank == 0 ? 0 : tn__mul_sat(4, (uint64_t)x->shape[x->rank - 1]);
}

static tn_status contrib_row_of(const tn_kernel_call *call, uint32_t table, int64_t at,
                                uint64_t hidden, const float **row) {
    const tn_operand *x = &call->inputs[table];
    if (x->rank != 2 || (uint64_t)x->shape[1] != hidden) return contrib_bad(call, table);
    if (at < 0 || at >= x->shape[0]) return tn__call_bad_index(call, at, 0, x->shape[0]);
    *row = (const float *)x->data + (uint64_t)at * hidden;
    return TN_OK;
}

static tn_status contrib_run_embed(tn_kernel_call *call) {
    const tn_operand *ids = &call->inputs[0], *segments = tn__call_input(call, 1),
                     *words = tn__call_input(call, 2), *mask = tn__call_input(call, 7),
                     *positions = tn__call_input(call, 8);
    const tn_operand *counts = tn__call_output(call, 1), *sums = tn__call_output(call, 2);
    if (ids->rank != 2 || words->rank != 2) return contrib_bad(call, 0);
    uint64_t batch = (uint64_t)ids->shape[0], length = (uint64_t)ids->shape[1],
             hidden = (uint64_t)words->shape[1], count = batch * length;
    const int64_t y[3] = {ids->shape[0], ids->shape[1], words->shape[1]};
    TN_TRY(tn__check_result(call, 0, 3, y));
    TN_TRY(tn__check_result(call, 1, 1, y));
    TN_TRY(tn__check_result(call, 2, 3, y));
    TN_TRY(tn__check_count(call, 1, count));
    TN_TRY(tn__check_count(call, 5, hidden));
    TN_TRY(tn__check_count(call, 6, hidden));
    TN_TRY(tn__check_count(call, 7, count));
    if (positions != NULL && tn__operand_count(positions) != length)
        TN_TRY(tn__check_count(call, 8, count));
    if ((segments == NULL) != (tn__call_input(call, 4) == NULL)) return contrib_bad(call, 4);
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-12), found[2];
    for (uint64_t t = 0; t < count; t++) {
        const float *word = NULL, *place = NULL, *segment = NULL;
        uint64_t at = positions != NULL && tn__operand_count(positions) == count ? t : t % length;
        int64_t position = positions != NULL ? tn__operand_int(positions, at) : (int64_t)at;
        float *to = (float *)call->outputs[0].data + t * hidden;
        TN_TRY(contrib_row_of(call, 2, tn__operand_int(ids, t), hidden, &word));
        TN_TRY(contrib_row_of(call, 3, position, hidden, &place));
        if (segments != NULL)
            TN_TRY(contrib_row_of(call, 4, tn__operand_int(segments, t), hidden, &segment));
        for (uint64_t i = 0; i < hidden; i++)
            to[i] = word[i] + place[i] + (segment != NULL ? segment[i] : 0);
        if (sums != NULL) memcpy((float *)sums->data + t * hidden, to, hidden * sizeof *to);
        contrib_norm(to, to, hidden, contrib_floats(call, 5), contrib_floats(call, 6), epsilon,
                     true, found);
    }
    for (uint64_t b = 0; b < batch && counts != NULL; b++) {
        int32_t seen = 0;
        for (uint64_t t = 0; t < length && mask != NULL; t++)
            seen += tn__operand_int(mask, b * length + t) == 1;
        ((int32_t *)counts->data)[b] = seen;
    }
    return TN_OK;
}

static bool contrib_accepts_embed(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 4 | 8 | 16 | 32 | 64, 4) &&
           tn__input_is(setup, 0, TN__TYPES_INDEX) && tn__input_is(setup, 2, TN__TYPE(FLOAT32)) &&
           tn__input_is(setup, 3, TN__TYPE(FLOAT32)) && tn__input_is(setup, 5, TN__TYPE(FLOAT32)) &&
           tn__input_is(setup, 6, TN__TYPE(FLOAT32)) &&
           tn__input_may_be(setup, 1, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 7, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 8, TN__TYPES_INDEX) &&
           tn__output_may_be(setup, 1, TN__TYPE(INT32));
}

/* --- activations --- */

typedef enum contrib_curve { CURVE_GELU, CURVE_FAST_GELU, CURVE_QUICK } contrib_curve;

static tn_status contrib_run_curve(tn_kernel_call *call, contrib_curve curve) {
    const tn_operand *x = &call->inputs[0], *bias = tn__call_input(call, 1);
    const float *from = x->data, alpha = (float)tn__attr_float(call->op, "alpha", 1.702f);
    float *to = call->outputs[0].data;
    uint64_t count = tn__operand_count(x), repeats = bias != NULL ? tn__operand_count(bias) : 1;
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    if (bias != NULL && (x->rank == 0 || repeats != (uint64_t)x->shape[x->rank - 1]))
        return contrib_bad(call, 1);
    const float *more = bias != NULL ? bias->data : NULL;
    for (uint64_t i = 0; i < count; i++) {
        float value = from[i] + (more != NULL ? more[i % repeats] : 0);
        to[i] = curve == CURVE_GELU        ? tn__geluf(value)
                : curve == CURVE_FAST_GELU ? tn__gelu_tanhf(value)
                                           : value * tn__logisticf(alpha * value);
    }
    return TN_OK;
}
static tn_status contrib_run_gelu(tn_kernel_call *call) {
    return contrib_run_curve(call, CURVE_GELU);
}
static tn_status contrib_run_fast_gelu(tn_kernel_call *call) {
    return contrib_run_curve(call, CURVE_FAST_GELU);
}
static tn_status contrib_run_quick(tn_kernel_call *call) {
    return contrib_run_curve(call, CURVE_QUICK);
}

static bool contrib_accepts_curve(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2, 0) &&
           tn__input_is(setup, 0, TN__TYPE(FLOAT32));
}

/* --- FusedMatMul --- */

static tn_status contrib_run_product(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
    bool flip_a = tn__attr_int(call->op, "transA", 0) != 0,
         flip_b = tn__attr_int(call->op, "transB", 0) != 0;
    if (a->rank < 2) return contrib_bad(call, 0);
    if (b->rank < 2) return contrib_bad(call, 1);
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    uint64_t rows = (uint64_t)a->shape[a->rank - (flip_a ? 1 : 2)],
             inner = (uint64_t)a->shape[a->rank - (flip_a ? 2 : 1)],
             columns = (uint64_t)b->shape[b->rank - (flip_b ? 2 : 1)];
    int64_t shape[TN_RANK_MAX];
    if (inner != (uint64_t)b->shape[b->rank - (flip_b ? 1 : 2)]) return contrib_bad(call, 1);
    for (uint32_t d = 0; d + 2 < rank; d++) {
        int64_t left = d + a->rank < rank ? 1 : a->shape[d + a->rank - rank];
        int64_t right = d + b->rank < rank ? 1 : b->shape[d + b->rank - rank];
        if (left != right && left != 1 && right != 1) return contrib_bad(call, 1);
        shape[d] = left == 1 ? right : left;
    }
    shape[rank - 2] = (int64_t)rows;
    shape[rank - 1] = (int64_t)columns;
    TN_TRY(tn__check_result(call, 0, rank, shape));
    tn__walk walk = {.rank = rank - 2};
    int64_t step[2] = {(int64_t)(rows * inner), (int64_t)(inner * columns)};
    for (uint32_t d = rank - 2; d-- > 0;) {
        int64_t left = d + a->rank < rank ? 1 : a->shape[d + a->rank - rank];
        int64_t right = d + b->rank < rank ? 1 : b->shape[d + b->rank - rank];
        walk.extent[d] = shape[d];
        walk.stride[0][d] = left == 1 ? 0 : step[0];
        walk.stride[1][d] = right == 1 ? 0 : step[1];
        step[0] *= left;
        step[1] *= right;
    }
    float *to = y->data;
    if (tn__operand_count(y) == 0) return TN_OK;
    do {
        tn__product product = {.rows = rows,
                               .columns = columns,
                               .inner = inner,
                               .a = (const float *)a->data + walk.at[0],
                               .b = (const float *)b->data + walk.at[1],
                               .c = to,
                               .a_row = flip_a ? 1 : inner,
                               .a_inner = flip_a ? rows : 1,
                               .b_inner = flip_b ? 1 : columns,
                               .b_column = flip_b ? inner : 1,
                               .c_row = columns,
                               .scale = tn__attr_float(call->op, "alpha", 1)};
        tn__product_run(&product, TN_FLOAT32);
        to += rows * columns;
    } while (tn__walk_next(&walk));
    return TN_OK;
}

static bool contrib_accepts_product(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 3, 0);
}

/* --- FusedConv, FusedGemm: ONNX's operator, then an activation --- */

typedef enum contrib_after {
    AFTER_NONE,
    AFTER_RELU,
    AFTER_LEAKY,
    AFTER_TANH,
    AFTER_SIGMOID,
    AFTER_CLIP,
    AFTER_HARD_SIGMOID,
    AFTER_UNKNOWN
} contrib_after;

static contrib_after contrib_after_of(const tn_op *op) {
    static const char *const names[] = {"",        "Relu", "LeakyRelu",  "Tanh",
                                        "Sigmoid", "Clip", "HardSigmoid"};
    const char *name = tn__attr_string(op, "activation", "");
    for (uint32_t i = 0; i < AFTER_UNKNOWN; i++)
        if (strcmp(name, names[i]) == 0) return (contrib_after)i;
    return AFTER_UNKNOWN;
}

static void contrib_finish(const tn_op *op, float *elements, uint64_t count) {
    uint32_t given;
    const double *list = tn__attr_floats(op, "activation_params", &given);
    contrib_after after = contrib_after_of(op);
    float alpha =
        (float)tn__attr_float(op, "activation_alpha", after == AFTER_HARD_SIGMOID ? 0.2 : 0.01);
    float beta = (float)tn__attr_float(op, "activation_beta", 0.5);
    if (list != NULL && given > 0) alpha = (float)list[0];
    if (list != NULL && given > 1) beta = (float)list[1];
    for (uint64_t i = 0; i < count; i++) {
        float x = elements[i], moved = alpha * x + beta;
        switch (after) {
        case AFTER_RELU:
            elements[i] = x > 0 ? x : 0;
            break;
        case AFTER_LEAKY:
            elements[i] = x > 0 ? x : alpha * x;
            break;
        case AFTER_TANH:
            elements[i] = tn__tanhf(x);
            break;
        case AFTER_SIGMOID:
            elements[i] = tn__logisticf(x);
            break;
        case AFTER_CLIP:
            elements[i] = x < alpha ? alpha : x > beta ? beta : x;
            break;
        case AFTER_HARD_SIGMOID:
            elements[i] = moved < 0 ? 0 : moved > 1 ? 1 : moved;
            break;
        default:
            break;
        }
    }
}

static tn_status contrib_prepare_fused(tn_kernel_setup *setup) {
    bool conv = strcmp(setup->op->type, "FusedConv") == 0;
    tn_op op = *setup->op;
    op.type = conv ? "Conv" : "Gemm";
    op.domain = "";
    op.version = 13;
    if (op.input_count > 3) op.input_count = 3;
    return tn__inner_prepare(setup, &op, tn__setup_input(setup, 3) != NULL);
}

static tn_status contrib_run_fused(tn_kernel_call *call) {
    return tn__inner_run_with(call, tn__call_input(call, 3) != NULL ? 3 : TN_NONE, contrib_finish);
}

static bool contrib_accepts_fused(const tn_kernel_setup *setup) {
    uint32_t given;
    bool clip = contrib_after_of(setup->op) == AFTER_CLIP;
    (void)tn__attr_floats(setup->op, "activation_params", &given);
    return contrib_after_of(setup->op) != AFTER_UNKNOWN && (!clip || given == 2) &&
           tn__types_agree(setup, TN__TYPE(FLOAT32), 15, 0);
}

/* --- weights in blocks of few bits: MatMulNBits, GatherBlockQuantized --- */

/* Element `at` of packed bits, the lowest first. */
static int32_t contrib_bits(const uint8_t *bytes, uint64_t at, uint32_t bits) {
    uint64_t first = at * bits;
    return bytes[first / 8] >> (first % 8) & ((1 << bits) - 1);
}

typedef struct contrib_packed {
    uint64_t columns, inner, block, blocks, block_bytes, zero_bytes;
    uint32_t bits;
    const uint8_t *weights, *zeros;
    const float *real_zeros, *scales;
    const int32_t *groups; /* of each row of the weights; NULL: its block */
} contrib_packed;

/* A group for each of K, or for each place of all blocks. */
static tn_status contrib_read_groups(const tn_kernel_call *call, contrib_packed *it) {
    const tn_operand *groups = tn__call_input(call, 4);
    if (groups == NULL) return TN_OK;
    uint64_t count = tn__operand_count(groups);
    if (count != it->inner && count != it->blocks * it->block) return contrib_bad(call, 4);
    it->groups = groups->data;
    for (uint64_t k = 0; k < it->inner; k++)
        if (it->groups[k] < 0 || (uint64_t)it->groups[k] >= it->blocks)
            return tn__call_bad_index(call, it->groups[k], 0, (int64_t)it->blocks);
    return TN_OK;
}

static tn_status contrib_read_packed(const tn_kernel_call *call, contrib_packed *it) {
    const tn_operand *w = &call->inputs[1], *scales = &call->inputs[2],
                     *zeros = tn__call_input(call, 3);
    int64_t k = tn__attr_int(call->op, "K", 0), n = tn__attr_int(call->op, "N", 0),
            block = tn__attr_int(call->op, "block_size", 0),
            bits = tn__attr_int(call->op, "bits", 4);
    if (k < 1 || n < 1 || k > INT32_MAX || n > INT32_MAX || block < 1 || block > INT32_MAX ||
        (bits != 2 && bits != 4 && bits != 8) || block * bits % 8 != 0)
        return tn__call_fail(call, TN_E_INVALID,
                             "attributes K, N, bits or block_size are out of range");
    *it = (contrib_packed){.columns = (uint64_t)n,
                           .inner = (uint64_t)k,
                           .block = (uint64_t)block,
                           .blocks = (uint64_t)(k / block + (k % block != 0)),
                           .block_bytes = (uint64_t)(block * bits / 8),
                           .bits = (uint32_t)bits,
                           .weights = w->data,
                           .scales = scales->data};
    it->zero_bytes = (it->blocks * it->bits + 7) / 8;
    if (tn__operand_count(w) != it->columns * it->blocks * it->block_bytes)
        return contrib_bad(call, 1);
    TN_TRY(tn__check_count(call, 2, it->columns * it->blocks));
    TN_TRY(tn__check_count(call, 5, it->columns));
    TN_TRY(contrib_read_groups(call, it));
    if (zeros == NULL) return TN_OK;
    bool packed = zeros->dtype == TN_UINT8;
    TN_TRY(tn__check_count(call, 3, it->columns * (packed ? it->zero_bytes : it->blocks)));
    if (packed)
        it->zeros = zeros->data;
    else
        it->real_zeros = zeros->data;
    return TN_OK;
}

static float contrib_zero(const contrib_packed *it, uint64_t n, uint64_t group) {
    if (it->zeros != NULL)
        return (float)contrib_bits(it->zeros + n * it->zero_bytes, group, it->bits);
    return it->real_zeros != NULL ? it->real_zeros[n * it->blocks + group]
                                  : (float)(1 << (it->bits - 1));
}

/* Row n of the weights, expanded. */
static void contrib_expand(const contrib_packed *it, uint64_t n, float *row) {
    for (uint64_t b = 0; b < it->blocks; b++) {
        const uint8_t *bytes = it->weights + (n * it->blocks + b) * it->block_bytes;
        float zero = contrib_zero(it, n, b), scale = it->scales[n * it->blocks + b];
        uint64_t first = b * it->block, left = it->inner - first;
        uint64_t count = left < it->block ? left : it->block;
        if (it->groups == NULL)
            tn__packed_expand(bytes, 0, count, it->bits, false, scale, zero, row + first);
        for (uint64_t i = 0; i < count && it->groups != NULL; i++) {
            uint64_t group = (uint64_t)it->groups[first + i];
            zero = contrib_zero(it, n, group), scale = it->scales[n * it->blocks + group];
            row[first + i] = ((float)contrib_bits(bytes, i, it->bits) - zero) * scale;
        }
    }
}

enum {
    CONTRIB_COLUMNS = 16, /* rows of the weights that are expanded at once */
    CONTRIB_ROWS = 4      /* rows of the input for which expanding would take longer than reading */
};

/* Whether the rows of the input can be multiplied with the packed weights. Each row of the input is
 * prepared once. */
static bool contrib_reads_packed(const contrib_packed *it, uint64_t rows) {
    return rows <= CONTRIB_ROWS && it->bits == 4 && it->groups == NULL &&
           it->block % (2 * TN__DOT_BYTES) == 0;
}

static void contrib_multiply_packed(const contrib_packed *it, uint64_t rows, const float *a,
                                    const float *bias, float *workspace, float *y) {
    uint64_t padded = it->blocks * it->block;
    float *zeros = workspace + rows * padded;
    for (uint64_t r = 0; r < rows; r++)
        tn__packed_pair(a + r * it->inner, it->inner, it->block, workspace + r * padded);
    for (uint64_t n = 0; n < it->columns; n++) {
        for (uint64_t b = 0; b < it->blocks; b++) zeros[b] = contrib_zero(it, n, b);
        tn__packed_row row = {.bytes = it->weights + n * it->blocks * it->block_bytes,
                              .scales = it->scales + n * it->blocks,
                              .zeros = zeros,
                              .blocks = it->blocks,
                              .block = it->block};
        for (uint64_t r = 0; r < rows; r++)
            y[r * it->columns + n] =
                tn__packed_dot(&row, workspace + r * padded) + (bias != NULL ? bias[n] : 0);
    }
}

/* Bytes for expanded rows of the weights, or for prepared rows of the input and zero points. */
static uint64_t contrib_nbits_scratch(uint64_t inner, uint64_t blocks, uint64_t block) {
    uint64_t expanded = tn__mul_sat(CONTRIB_COLUMNS * sizeof(float), inner),
             packed = tn__mul_sat(sizeof(float), tn__mul_sat(blocks, CONTRIB_ROWS * block + 1));
    return expanded > packed ? expanded : packed;
}

static tn_status contrib_run_nbits(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *bias = tn__call_input(call, 5);
    contrib_packed it = {0};
    TN_TRY(contrib_read_packed(call, &it));
    int64_t shape[TN_RANK_MAX];
    if (a->rank == 0 || (uint64_t)a->shape[a->rank - 1] != it.inner) return contrib_bad(call, 0);
    memcpy(shape, a->shape, a->rank * sizeof *shape);
    shape[a->rank - 1] = (int64_t)it.columns;
    TN_TRY(tn__check_result(call, 0, a->rank, shape));
    TN_TRY(tn__check_scratch(call, contrib_nbits_scratch(it.inner, it.blocks, it.block)));
    uint64_t rows = tn__operand_count(a) / it.inner;
    float *expanded = call->workspace, *y = call->outputs[0].data;
    if (contrib_reads_packed(&it, rows)) {
        contrib_multiply_packed(&it, rows, a->data, bias != NULL ? bias->data : NULL, expanded, y);
        return TN_OK;
    }
    for (uint64_t n = 0; n < it.columns; n += CONTRIB_COLUMNS) {
        uint64_t some = it.columns - n < CONTRIB_COLUMNS ? it.columns - n : CONTRIB_COLUMNS;
        for (uint64_t c = 0; c < some; c++) contrib_expand(&it, n + c, expanded + c * it.inner);
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

static bool contrib_accepts_nbits(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 4 | 32, 0) &&
           tn__input_is(setup, 1, TN__TYPE(UINT8)) && tn__input_may_be(setup, 4, TN__TYPE(INT32)) &&
           tn__input_may_be(setup, 3, TN__TYPE(UINT8) | TN__TYPE(FLOAT32));
}

static uint64_t contrib_workspace_nbits(const tn_kernel_setup *setup) {
    int64_t k = tn__attr_int(setup->op, "K", 0), block = tn__attr_int(setup->op, "block_size", 0);
    if (k < 1 || block < 1 || block > INT32_MAX) return 0;
    return contrib_nbits_scratch((uint64_t)k, (uint64_t)(k / block + (k % block != 0)),
                                 (uint64_t)block);
}

typedef struct contrib_table {
    uint64_t extent[TN_RANK_MAX]; /* extents of the data, unpacked */
    uint32_t rank, gather, quantise, bits;
    uint64_t block, blocks;
    bool is_signed;
} contrib_table;

static tn_status contrib_read_table(const tn_kernel_call *call, contrib_table *it) {
    const tn_operand *data = &call->inputs[0], *scales = &call->inputs[2];
    int64_t bits = tn__attr_int(call->op, "bits", 4),
            block = tn__attr_int(call->op, "block_size", 128);
    *it = (contrib_table){.rank = data->rank, .is_signed = data->dtype == TN_INT4};
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
        if (it->gather == data->rank - 1) return contrib_bad(call, 0);
        it->extent[data->rank - 1] *= (uint64_t)(8 / bits);
    }
    if (scales->rank != data->rank) return contrib_bad(call, 2);
    uint64_t along = it->extent[it->quantise];
    it->blocks = along / it->block + (along % it->block != 0);
    for (uint32_t d = 0; d < data->rank; d++)
        if ((uint64_t)scales->shape[d] != (d == it->quantise ? it->blocks : it->extent[d]))
            return contrib_bad(call, 2);
    return TN_OK;
}

static float contrib_table_at(const tn_kernel_call *call, const contrib_table *it, uint64_t at) {
    const tn_operand *zeros = tn__call_input(call, 3);
    uint64_t scale = 0, rest = at, step = 1;
    for (uint32_t d = it->rank; d-- > 0; rest /= it->extent[d]) { /* the place of its scale */
        uint64_t place = rest % it->extent[d];
        bool along = d == it->quantise;
        scale += (along ? place / it->block : place) * step;
        step *= along ? it->blocks : it->extent[d];
    }
    int32_t value = contrib_bits(call->inputs[0].data, at, it->bits);
    int32_t zero = call->inputs[0].dtype == TN_UINT8 ? 1 << (it->bits - 1) : 0;
    if (zeros != NULL) { /* packed along the last axis, each row for itself */
        uint64_t row = it->quantise == it->rank - 1 ? it->blocks : it->extent[it->rank - 1];
        uint64_t bytes = (row * it->bits + 7) / 8;
        zero = call->inputs[0].dtype == TN_UINT8
                   ? contrib_bits((const uint8_t *)zeros->data + scale / row * bytes, scale % row,
                                  it->bits)
                   : contrib_bits(zeros->data, scale, it->bits);
    }
    if (it->is_signed) {
        value = value >= 8 ? value - 16 : value;
        zero = zero >= 8 ? zero - 16 : zero;
    }
    return (float)(value - zero) * ((const float *)call->inputs[2].data)[scale];
}

static tn_status contrib_run_table(tn_kernel_call *call) {
    const tn_operand *indices = &call->inputs[1], *zeros = tn__call_input(call, 3);
    contrib_table it = {0};
    TN_TRY(contrib_read_table(call, &it));
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
        return contrib_bad(call, 3);
    float *y = call->outputs[0].data;
    int64_t extent = (int64_t)it.extent[it.gather];
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t i = 0; i < count; i++) {
            int64_t at = tn__index(indices, i);
            if (at < 0 && at >= -extent) at += extent;
            bool inside = at >= 0 && at < extent; /* outside: zeros */
            uint64_t from = inside ? (o * (uint64_t)extent + (uint64_t)at) * inner : 0;
            for (uint64_t e = 0; e < inner; e++)
                *y++ = inside ? contrib_table_at(call, &it, from + e) : 0;
        }
    return TN_OK;
}

static bool contrib_accepts_table(const tn_kernel_setup *setup) {
    uint64_t packed = TN__TYPE(UINT8) | TN__TYPE(UINT4) | TN__TYPE(INT4);
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 4, 0) && tn__input_is(setup, 0, packed) &&
           tn__input_is(setup, 1, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 3, TN__TYPE(UINT8) | TN__TYPE(UINT4) | TN__TYPE(INT4)) &&
           (tn__setup_input(setup, 3) == NULL ||
            tn__input_type(setup, 3) == tn__input_type(setup, 0));
}

/* --- experts: MoE and QMoE --- */

typedef struct contrib_experts {
    uint64_t tokens, hidden, experts, inner, wide, chosen; /* wide: rows of the first weights */
    int64_t bits, block;                                   /* bits 0: float32 */
    int64_t fusion;
    bool swiglu;
    uint32_t second; /* the input that holds the second weights */
} contrib_experts;

static tn_status contrib_read_experts(const tn_kernel_call *call, bool packed,
                                      contrib_experts *it) {
    const tn_operand *x = &call->inputs[0], *router = &call->inputs[1], *first = &call->inputs[2];
    const char *curve = tn__attr_string(call->op, "activation_type", "relu");
    *it = (contrib_experts){.second = packed ? 5 : 4,
                            .swiglu = strcmp(curve, "swiglu") == 0,
                            .fusion = tn__attr_int(call->op, "swiglu_fusion", 0)};
    const tn_operand *second = tn__call_input(call, it->second);
    int64_t chosen = tn__attr_int(call->op, "k", 1);
    if (x->rank < 2 || router->rank != 2 || x->shape[x->rank - 1] < 1) return contrib_bad(call, 0);
    if (second == NULL || second->rank != 3 || first->rank != 3)
        return contrib_bad(call, it->second);
    for (uint32_t i = packed ? 8 : 6; i < call->input_count; i++)
        if (tn__call_input(call, i) != NULL)
            return tn__call_fail(call, TN_E_UNSUPPORTED, "input %u is not supported", i);
    it->bits = packed ? tn__attr_int(call->op, "expert_weight_bits", 4) : 0;
    it->block = packed ? tn__attr_int(call->op, "block_size", 0) : 0;
    if (packed && it->bits != 2 && it->bits != 4 && it->bits != 8)
        return tn__call_fail(call, TN_E_INVALID, "attribute expert_weight_bits is out of range");
    if (it->block < 0 || it->block > INT32_MAX)
        return tn__call_fail(call, TN_E_INVALID, "attribute block_size is out of range");
    int64_t pack = it->bits > 0 ? 8 / it->bits : 1;
    it->hidden = (uint64_t)x->shape[x->rank - 1];
    it->tokens = tn__operand_count(x) / it->hidden;
    it->experts = (uint64_t)router->shape[1];
    it->wide = (uint64_t)first->shape[1];
    it->inner = it->swiglu && it->fusion != 0 ? it->wide / 2 : it->wide;
    it->chosen = chosen > 0 ? (uint64_t)chosen : 0;
    if (it->swiglu && it->fusion == 0)
        return tn__call_fail(call, TN_E_UNSUPPORTED, "swiglu with weights apart is not supported");
    const int64_t one[3] = {router->shape[1], first->shape[1], (int64_t)it->hidden / pack};
    const int64_t two[3] = {router->shape[1], (int64_t)it->hidden, (int64_t)it->inner / pack};
    if (it->chosen < 1 || it->chosen > it->experts || it->hidden % (uint64_t)pack != 0 ||
        it->inner % (uint64_t)pack != 0 || (it->swiglu && it->wide % 2 != 0) ||
        (uint64_t)router->shape[0] != it->tokens)
        return contrib_bad(call, 1);
    TN_TRY(tn__check_shape(call, 2, 3, one));
    TN_TRY(tn__check_shape(call, it->second, 3, two));
    TN_TRY(tn__check_count(call, it->second - 1, it->experts * it->wide));
    TN_TRY(tn__check_count(call, packed ? 7 : 5, it->experts * it->hidden));
    if (packed) {
        uint64_t blocks[2] = {1, 1};
        if (it->block > 0) {
            blocks[0] = it->hidden / (uint64_t)it->block;
            blocks[1] = it->inner / (uint64_t)it->block;
            if (it->hidden % (uint64_t)it->block != 0 || it->inner % (uint64_t)it->block != 0)
                return contrib_bad(call, 3);
        }
        if (tn__call_input(call, 3) == NULL || tn__call_input(call, 6) == NULL)
            return contrib_bad(call, 3);
        TN_TRY(tn__check_count(call, 3, it->experts * it->wide * blocks[0]));
        TN_TRY(tn__check_count(call, 6, it->experts * it->hidden * blocks[1]));
    }
    return tn__check_result(call, 0, x->rank, x->shape);
}

/* A row of weights times a vector: row `row` of all experts' rows, `count` elements. */
static float contrib_expert_dot(const tn_kernel_call *call, const contrib_experts *it, bool second,
                                uint64_t row, uint64_t count, const float *x) {
    const tn_operand *w = &call->inputs[second ? it->second : 2];
    double sum = 0;
    if (it->bits == 0) {
        const float *at = (const float *)w->data + row * count;
        for (uint64_t i = 0; i < count; i++) sum += (double)at[i] * (double)x[i];
        return (float)sum;
    }
    const uint8_t *bytes = (const uint8_t *)w->data + row * (count * (uint64_t)it->bits / 8);
    const float *scales = call->inputs[second ? 6 : 3].data;
    uint64_t block = it->block > 0 ? (uint64_t)it->block : count, blocks = count / block;
    float zero = (float)(1 << (it->bits - 1));
    for (uint64_t i = 0; i < count; i++) {
        float scale = scales[row * blocks + i / block];
        sum += (double)(((float)contrib_bits(bytes, i, (uint32_t)it->bits) - zero) * scale) *
               (double)x[i];
    }
    return (float)sum;
}

static float contrib_activate(const tn_kernel_call *call, const contrib_experts *it,
                              const float *wide, uint64_t i) {
    const char *curve = tn__attr_string(call->op, "activation_type", "relu");
    if (it->swiglu) {
        float alpha = (float)tn__attr_float(call->op, "activation_alpha", 1),
              beta = (float)tn__attr_float(call->op, "activation_beta", 0),
              limit = (float)tn__attr_float(call->op, "swiglu_limit", (double)INFINITY);
        bool apart = it->fusion == 2;
        float g = wide[apart ? i : 2 * i], l = wide[apart ? it->inner + i : 2 * i + 1];
        g = g < limit ? g : limit;
        l = l < limit ? (l > -limit ? l : -limit) : limit;
        return g * tn__logisticf(alpha * g) * (l + beta);
    }
    float value = wide[i];
    if (strcmp(curve, "silu") == 0) return value * tn__logisticf(value);
    if (strcmp(curve, "gelu") == 0) return tn__geluf(value);
    if (strcmp(curve, "identity") == 0) return value;
    return value > 0 ? value : 0;
}

/* The chosen experts of one token, best first, and their shares. */
static void contrib_route(const tn_kernel_call *call, const contrib_experts *it, uint64_t token,
                          float *shares, float *left) {
    const float *router = (const float *)call->inputs[1].data + token * it->experts;
    double sum = 0, kept = 0;
    float most = -INFINITY;
    for (uint64_t e = 0; e < it->experts; e++) most = router[e] > most ? router[e] : most;
    for (uint64_t e = 0; e < it->experts; e++) {
        left[e] = expf(router[e] - most);
        sum += (double)left[e];
        shares[e] = 0;
    }
    for (uint64_t k = 0; k < it->chosen; k++) {
        uint64_t best = it->experts;
        for (uint64_t e = 0; e < it->experts; e++)
            if (left[e] >= 0 && (best == it->experts || left[e] > left[best])) best = e;
        if (best == it->experts) break; /* not-a-numbers alone are left */
        shares[best] = (float)((double)left[best] / sum);
        kept += (double)shares[best];
        left[best] = -1;
    }
    if (tn__attr_int(call->op, "normalize_routing_weights", 0) != 0 && kept > 0)
        for (uint64_t e = 0; e < it->experts; e++) shares[e] = (float)((double)shares[e] / kept);
}

static tn_status contrib_run_any_experts(tn_kernel_call *call, bool packed) {
    contrib_experts it = {0};
    TN_TRY(contrib_read_experts(call, packed, &it));
    TN_TRY(tn__check_scratch(call, (2 * it.experts + it.wide + it.inner) * sizeof(float)));
    float *shares = call->workspace, *left = shares + it.experts, *wide = left + it.experts,
          *inner = wide + it.wide;
    const tn_operand *bias[2] = {tn__call_input(call, it.second - 1),
                                 tn__call_input(call, packed ? 7 : 5)};
    for (uint64_t t = 0; t < it.tokens; t++) {
        const float *x = (const float *)call->inputs[0].data + t * it.hidden;
        float *y = (float *)call->outputs[0].data + t * it.hidden;
        contrib_route(call, &it, t, shares, left);
        memset(y, 0, it.hidden * sizeof *y);
        for (uint64_t e = 0; e < it.experts; e++) {
            if (shares[e] == 0) continue;
            for (uint64_t i = 0; i < it.wide; i++) {
                uint64_t row = e * it.wide + i;
                wide[i] = contrib_expert_dot(call, &it, false, row, it.hidden, x);
                if (bias[0] != NULL) wide[i] += ((const float *)bias[0]->data)[row];
            }
            for (uint64_t i = 0; i < it.inner; i++) inner[i] = contrib_activate(call, &it, wide, i);
            for (uint64_t h = 0; h < it.hidden; h++) {
                uint64_t row = e * it.hidden + h;
                float value = contrib_expert_dot(call, &it, true, row, it.inner, inner);
                if (bias[1] != NULL) value += ((const float *)bias[1]->data)[row];
                y[h] += shares[e] * value;
            }
        }
    }
    return TN_OK;
}
static tn_status contrib_run_experts(tn_kernel_call *call) {
    return contrib_run_any_experts(call, false);
}
static tn_status contrib_run_qexperts(tn_kernel_call *call) {
    return contrib_run_any_experts(call, true);
}

static bool contrib_accepts_experts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 63, 0) &&
           tn__attr_int(setup->op, "use_sparse_mixer", 0) == 0;
}
static bool contrib_accepts_qexperts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 8 | 16 | 64 | 128, 0) &&
           tn__input_is(setup, 2, TN__TYPE(UINT8)) && tn__input_is(setup, 5, TN__TYPE(UINT8)) &&
           tn__attr_int(setup->op, "use_sparse_mixer", 0) == 0 &&
           strcmp(tn__attr_string(setup->op, "quant_type", "int"), "int") == 0;
}

static uint64_t contrib_workspace_experts(const tn_kernel_setup *setup) {
    const tn_tensor *router = tn__setup_input(setup, 1), *first = tn__setup_input(setup, 2);
    if (router == NULL || first == NULL || router->rank != 2 || first->rank != 3) return 0;
    uint64_t numbers = tn__add_sat(tn__mul_sat(2, (uint64_t)router->shape[1]),
                                   tn__mul_sat(2, (uint64_t)first->shape[1]));
    return tn__mul_sat(4, numbers);
}

static const tn_kernel contrib_kernels[] = {
    {.type = "BiasGelu", .accepts = contrib_accepts_curve, .run = contrib_run_gelu},
    {.type = "EmbedLayerNormalization", .accepts = contrib_accepts_embed, .run = contrib_run_embed},
    {.type = "FastGelu", .accepts = contrib_accepts_curve, .run = contrib_run_fast_gelu},
    {.type = "FusedConv",
     .accepts = contrib_accepts_fused,
     .prepare = contrib_prepare_fused,
     .run = contrib_run_fused,
     .release = tn__inner_release},
    {.type = "FusedGemm",
     .accepts = contrib_accepts_fused,
     .prepare = contrib_prepare_fused,
     .run = contrib_run_fused,
     .release = tn__inner_release},
    {.type = "FusedMatMul", .accepts = contrib_accepts_product, .run = contrib_run_product},
    {.type = "GatherBlockQuantized", .accepts = contrib_accepts_table, .run = contrib_run_table},
    {.type = "Gelu", .accepts = contrib_accepts_curve, .run = contrib_run_gelu},
    {.type = "MatMulNBits",
     .accepts = contrib_accepts_nbits,
     .workspace = contrib_workspace_nbits,
     .run = contrib_run_nbits},
    {.type = "MoE",
     .accepts = contrib_accepts_experts,
     .workspace = contrib_workspace_experts,
     .run = contrib_run_experts},
    {.type = "QMoE",
     .accepts = contrib_accepts_qexperts,
     .workspace = contrib_workspace_experts,
     .run = contrib_run_qexperts},
    {.type = "QuickGelu", .accepts = contrib_accepts_curve, .run = contrib_run_quick},
    {.type = "SkipLayerNormalization",
     .accepts = contrib_accepts_skip,
     .workspace = contrib_workspace_row,
     .run = contrib_run_skip},
    {.type = "SkipSimplifiedLayerNormalization",
     .accepts = contrib_accepts_skip,
     .workspace = contrib_workspace_row,
     .run = contrib_run_skip_simple},
    {.type = "TransposeMatMul", .accepts = contrib_accepts_product, .run = contrib_run_product},
};

TN_KERNEL_FAMILY(contrib, "com.microsoft");
