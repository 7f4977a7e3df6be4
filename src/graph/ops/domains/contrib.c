/* contrib.c - operators of ONNX Runtime's domain com.microsoft around attention: normalisations
 * with a residual, activations with a bias, embeddings, products with packed weights, mixtures of
 * experts, and others.
 *
 * Outputs that a run rarely wants (mean, inverse deviation) stand before the residual sum, so their
 * names are usually empty.
 * Source: docs/ContribOperators.md and core/graph/contrib_ops of ONNX Runtime, 2026.
 */
#include "graph/gradients/decompose.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

/* --- normalisations --- */

/* Sets the shapes of a normalisation with a skip connection. The statistics are float32 and have
 * the input's shape with the last axis as 1; the sum has the shape of the input. */
static tn_status contrib_shape_skip(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    TN_TRY(tn__rank_between(infer, 0, 2, 3));
    TN_TRY(tn__extents_agree(infer, 0, -1, 1, -1));
    TN_TRY(tn__extents_agree(infer, 0, -1, 2, -1));
    TN_TRY(tn__shape_first(infer));
    TN_TRY(tn__set_like(infer, 3, x));
    if (!tn__rank_known(x)) return TN_OK;
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = d + 1 < x->rank ? x->shape[d] : 1;
    TN_TRY(tn__set_output(infer, 1, TN_FLOAT32, x->rank, shape));
    return tn__set_output(infer, 2, TN_FLOAT32, x->rank, shape);
}

/* With the sum as an output, output 0 may overwrite the input, and the sum the skip connection
 * unless that is broadcast. Without it, output 0 may overwrite either of them. */
static uint64_t contrib_inplace_skip(tn_infer *infer, uint32_t output) {
    const tn_tensor *x = tn__input(infer, 0), *skip = tn__input(infer, 1);
    bool alike = tn__shape_known(x) && tn__shape_known(skip) && x->rank == skip->rank &&
                 tn__elements(x) == tn__elements(skip);
    if (tn__output(infer, 3) == NULL) return output == 0 ? (alike ? 3 : 1) : 0;
    return output == 0 ? 1 : output == 3 && alike ? 2 : 0;
}

static tn_status contrib_shape_group_skip(tn_infer *infer) {
    TN_TRY(tn__shape_first(infer));
    return tn__set_like(infer, 1, tn__input(infer, 0));
}

/* Sets the shapes of an embedding of ids [B, S] from a word table [V, H]. */
static tn_status contrib_shape_embed(tn_infer *infer) {
    const tn_tensor *ids = tn__input(infer, 0), *words = tn__input(infer, 2);
    if (words == NULL) return tn__infer_fail(infer, "input 2, the word embeddings, is omitted");
    TN_TRY(tn__rank_between(infer, 0, 2, 2));
    TN_TRY(tn__rank_between(infer, 2, 2, 2));
    int64_t y[3] = {tn__extent(ids, 0), tn__extent(ids, 1), tn__extent(words, 1)};
    TN_TRY(tn__set_output(infer, 0, words->dtype, 3, y));
    TN_TRY(tn__set_output(infer, 1, TN_INT32, 1, y));
    return tn__set_output(infer, 2, words->dtype, 3, y);
}

/* --- element-wise operators, and products with weights --- */

static tn_status contrib_shape_broadcast(tn_infer *infer) {
    const tn_tensor *both[2] = {tn__input(infer, 0), tn__input(infer, 1)};
    int64_t shape[TN_RANK_MAX];
    uint32_t rank;
    bool known;
    TN_TRY(tn__broadcast(infer, both, 2, shape, &rank, &known));
    return known ? tn__set_output(infer, 0, both[0]->dtype, rank, shape)
                 : tn__set_dtype(infer, 0, both[0]->dtype);
}

/* Sets the shape of an operator that maps [N, S, D] to [N, S, D / 2]. */
static tn_status contrib_shape_half(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x) || x->rank == 0) return tn__set_dtype(infer, 0, x->dtype);
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    int64_t last = shape[x->rank - 1];
    if (last != TN_DIM_UNKNOWN && last % 2 != 0)
        return tn__infer_fail(infer, "the last extent of '%.60s' is odd", x->name);
    shape[x->rank - 1] = tn__extent_div(last, 2);
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status contrib_shape_dropout(tn_infer *infer) {
    TN_TRY(tn__shape_first(infer));
    return tn__shape_as(infer, 1, 0, TN_BOOL);
}

/* --- products --- */

/* Copies the description of a tensor and exchanges its last two axes if `flip` is set. */
static tn_tensor contrib_flipped(const tn_tensor *tensor, bool flip, int64_t *shape) {
    tn_tensor result = *tensor;
    if (!flip || !tn__rank_known(tensor) || tensor->rank < 2) return result;
    memcpy(shape, tensor->shape, tensor->rank * sizeof *shape);
    shape[tensor->rank - 2] = tensor->shape[tensor->rank - 1];
    shape[tensor->rank - 1] = tensor->shape[tensor->rank - 2];
    result.shape = shape;
    return result;
}

static tn_status contrib_shape_product(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    int64_t left[TN_RANK_MAX], right[TN_RANK_MAX];
    if (tn__attr_int(infer->op, "transBatchA", 0) || tn__attr_int(infer->op, "transBatchB", 0))
        TN_FAIL(
            infer->error, TN_E_UNSUPPORTED,
            "attributes transBatchA and transBatchB are not supported; save the model at a lower "
            "level of optimisation");
    tn_tensor x = contrib_flipped(a, tn__attr_int(infer->op, "transA", 0) != 0, left);
    tn_tensor y = contrib_flipped(b, tn__attr_int(infer->op, "transB", 0) != 0, right);
    return tn__shape_product(infer, &x, &y, a->dtype);
}

static uint64_t contrib_flops_product(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    if (!tn__shape_known(a) || a->rank < 2) return TN_SIZE_UNKNOWN;
    int64_t inner = a->shape[a->rank - (tn__attr_int(infer->op, "transA", 0) != 0 ? 2 : 1)];
    return tn__count_mul(tn__elements(tn__output(infer, 0)), tn__mul_sat(2, (uint64_t)inner));
}

static tn_status contrib_shape_gemm(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    tn_dtype dtype;
    TN_TRY(tn__rank_between(infer, 0, 2, 2));
    TN_TRY(tn__rank_between(infer, 1, 2, 2));
    TN_TRY(tn__attr_dtype(infer, "dtype", a->dtype, &dtype)); /* GemmFloat8 */
    bool flip_a = tn__attr_int(infer->op, "transA", 0) != 0,
         flip_b = tn__attr_int(infer->op, "transB", 0) != 0;
    TN_TRY(tn__extents_agree(infer, 0, flip_a ? 0 : 1, 1, flip_b ? 1 : 0));
    int64_t shape[2] = {tn__extent(a, flip_a ? 1 : 0), tn__extent(b, flip_b ? 0 : 1)};
    return tn__set_output(infer, 0, dtype, 2, shape);
}

static tn_status contrib_shape_matmul(tn_infer *infer) {
    return tn__shape_matmul(infer, 0, 1, tn__input(infer, 0)->dtype);
}

/* Sets an output to the shape of input A with its last extent, K, replaced by `columns`. */
static tn_status contrib_project(tn_infer *infer, uint32_t output, const char *inner,
                                 const char *columns) {
    const tn_tensor *a = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX], k = TN_DIM_UNKNOWN, n;
    if (inner != NULL) TN_TRY(tn__attr_count(infer, inner, 0, 1, INT64_MAX, &k));
    TN_TRY(tn__attr_count(infer, columns, 0, 1, INT64_MAX, &n));
    if (!tn__rank_known(a)) return tn__set_dtype(infer, output, a->dtype);
    if (a->rank == 0) return tn__infer_fail(infer, "'%.60s' is a scalar", a->name);
    int64_t last = a->shape[a->rank - 1];
    if (last != TN_DIM_UNKNOWN && k != TN_DIM_UNKNOWN && last != k &&
        (a->flags & TN_TENSOR_BOUND) == 0)
        return tn__infer_fail(infer, "'%.60s' has %lld columns and the weights have %lld rows",
                              a->name, (long long)last, (long long)k);
    for (uint32_t d = 0; d + 1 < a->rank; d++) shape[d] = a->shape[d];
    shape[a->rank - 1] = n;
    return tn__set_output(infer, output, a->dtype, a->rank, shape);
}

/* Sets the shape of a product with weights of `bits` bits, quantised in blocks along K. The packed
 * shape of the weights must hold K x N elements. */
static tn_status contrib_shape_nbits(tn_infer *infer) {
    const tn_tensor *w = tn__input(infer, 1);
    int64_t bits, block, k, n, blocks, size = TN_DIM_UNKNOWN;
    TN_TRY(tn__attr_count(infer, "bits", 4, 1, 8, &bits));
    TN_TRY(tn__attr_count(infer, "block_size", 0, 1, INT32_MAX, &block));
    TN_TRY(contrib_project(infer, 0, "K", "N"));
    k = tn__attr_int(infer->op, "K", 0);
    n = tn__attr_int(infer->op, "N", 0);
    blocks = tn__extent_div_up(k, block);
    size = tn__extent_mul(tn__extent_mul(n, blocks), tn__extent_div_up(block * bits, 8));
    uint64_t there = tn__elements(w);
    if (w->dtype == TN_UINT8 && there != TN_SIZE_UNKNOWN && size != TN_DIM_UNKNOWN &&
        there < (uint64_t)size)
        return tn__infer_fail(infer,
                              "'%.60s' has %llu bytes; %lld x %lld weights of %lld bits in "
                              "blocks of %lld take %lld",
                              w->name, (unsigned long long)there, (long long)n, (long long)k,
                              (long long)bits, (long long)block, (long long)size);
    return TN_OK;
}

static uint64_t contrib_flops_nbits(tn_infer *infer) {
    int64_t k = tn__attr_int(infer->op, "K", 0);
    return tn__count_mul(tn__elements(tn__output(infer, 0)),
                         tn__mul_sat(2, k > 0 ? (uint64_t)k : 0));
}

static tn_status contrib_shape_bnb(tn_infer *infer) {
    bool flipped = tn__attr_int(infer->op, "transB", 1) != 0;
    return contrib_project(infer, 0, flipped ? "K" : "N", flipped ? "N" : "K");
}

static tn_status contrib_shape_nbits_mlp(tn_infer *infer) {
    TN_TRY(contrib_project(infer, 0, "K", "N"));
    return tn__set_like(infer, 1, tn__input(infer, 0));
}

static tn_status contrib_shape_nbits_qkv(tn_infer *infer) {
    TN_TRY(contrib_project(infer, 0, "K", "Nq"));
    TN_TRY(contrib_project(infer, 1, "K", "Nkv"));
    TN_TRY(contrib_project(infer, 2, "K", "Nkv"));
    return tn__set_like(infer, 3, tn__input(infer, 0));
}

/* Sets the shape of a product with weights [N, K], or [N, K / 2] if a byte holds two weights. */
static tn_status contrib_shape_rows(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *w = tn__input(infer, 1);
    int64_t shape[TN_RANK_MAX];
    TN_TRY(tn__rank_between(infer, 1, 2, 2));
    if (!tn__rank_known(a) || a->rank == 0) return tn__set_dtype(infer, 0, a->dtype);
    for (uint32_t d = 0; d + 1 < a->rank; d++) shape[d] = a->shape[d];
    shape[a->rank - 1] = tn__extent(w, 0);
    return tn__set_output(infer, 0, a->dtype, a->rank, shape);
}

/* Sets the shape of a product with weights; their shape is given as a value. */
static tn_status contrib_shape_fpq4(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    uint32_t count;
    const int64_t *shape_b = tn__value_ints(infer, 2, &count);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(a) || a->rank == 0 || shape_b == NULL || count != 2)
        return tn__set_dtype(infer, 0, a->dtype);
    for (uint32_t d = 0; d + 1 < a->rank; d++) shape[d] = a->shape[d];
    shape[a->rank - 1] = shape_b[1];
    return tn__set_output(infer, 0, a->dtype, a->rank, shape);
}

/* --- tables --- */

/* Sets the shape as Gather does; a byte of the table holds 8 / bits elements along the last
 * axis. */
static tn_status contrib_shape_gather_blocks(tn_infer *infer) {
    const tn_tensor *data = tn__input(infer, 0), *indices = tn__input(infer, 1),
                    *scales = tn__input(infer, 2);
    int64_t shape[2 * TN_RANK_MAX], bits, whole[TN_RANK_MAX];
    uint32_t axis, rank = 0;
    TN_TRY(tn__attr_count(infer, "bits", 4, 1, 8, &bits));
    if (!tn__rank_known(data) || !tn__rank_known(indices))
        return tn__set_dtype(infer, 0, scales->dtype);
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "gather_axis", 0), data->rank, &axis));
    for (uint32_t d = 0; d < data->rank; d++) whole[d] = data->shape[d];
    if (data->dtype == TN_UINT8 && data->rank > 0 && (bits == 1 || bits == 2 || bits == 4))
        whole[data->rank - 1] = tn__extent_mul(whole[data->rank - 1], 8 / bits);
    for (uint32_t d = 0; d < axis; d++) shape[rank++] = whole[d];
    for (uint32_t d = 0; d < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (uint32_t d = axis + 1; d < data->rank; d++) shape[rank++] = whole[d];
    return tn__set_output(infer, 0, scales->dtype, rank, shape);
}

static tn_status contrib_shape_gather_nd(tn_infer *infer) {
    const tn_tensor *data = tn__input(infer, 0), *indices = tn__input(infer, 1);
    int64_t shape[2 * TN_RANK_MAX], depth = tn__extent(indices, -1);
    uint32_t rank = 0;
    if (!tn__rank_known(data) || !tn__rank_known(indices) || depth == TN_DIM_UNKNOWN)
        return tn__set_dtype(infer, 0, data->dtype);
    if (depth > (int64_t)data->rank)
        return tn__infer_fail(infer, "indices of %lld numbers for '%.60s' of rank %u",
                              (long long)depth, data->name, data->rank);
    for (uint32_t d = 0; d + 1 < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (uint32_t d = (uint32_t)depth; d < data->rank; d++) shape[rank++] = data->shape[d];
    return tn__set_output(infer, 0, data->dtype, rank, shape);
}

static tn_status contrib_shape_torch_embedding(tn_infer *infer) {
    const tn_tensor *table = tn__input(infer, 0), *ids = tn__input(infer, 1);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(ids) || ids->rank + 1 > TN_RANK_MAX)
        return tn__set_dtype(infer, 0, table->dtype);
    for (uint32_t d = 0; d < ids->rank; d++) shape[d] = ids->shape[d];
    shape[ids->rank] = tn__extent(table, 1);
    return tn__set_output(infer, 0, table->dtype, ids->rank + 1, shape);
}

/* --- experts --- */

uint64_t tn__flops_experts(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *first = tn__input(infer, 2);
    int64_t used = tn__attr_int(infer->op, "k", 1);
    if (!tn__shape_known(x) || !tn__shape_known(first) || first->rank != 3 || used < 1)
        return TN_SIZE_UNKNOWN;
    /* about 3 products of hidden x intermediate elements for each chosen expert */
    uint64_t each = tn__mul_sat(tn__elements(x), tn__mul_sat(3, (uint64_t)first->shape[1]));
    return tn__mul_sat(each, (uint64_t)used);
}

/* --- others --- */

static tn_status contrib_shape_expand_dims(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count, axis;
    const int64_t *at = tn__value_ints(infer, 1, &count);
    int64_t shape[TN_RANK_MAX + 1];
    if (!tn__rank_known(x) || at == NULL || count != 1) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(tn__axis(infer, at[0], x->rank + 1, &axis));
    for (uint32_t d = 0; d < x->rank; d++) shape[d < axis ? d : d + 1] = x->shape[d];
    shape[axis] = 1;
    return tn__set_output(infer, 0, x->dtype, x->rank + 1, shape);
}

/* Sets the shape of the distances between the rows of A [M, K] and B [N, K]. */
static tn_status contrib_shape_distance(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    TN_TRY(tn__rank_between(infer, 0, 2, 2));
    TN_TRY(tn__rank_between(infer, 1, 2, 2));
    TN_TRY(tn__extents_agree(infer, 0, 1, 1, 1));
    return tn__set_output(infer, 0, a->dtype, 2, (int64_t[]){tn__extent(a, 0), tn__extent(b, 0)});
}

/* clang-format off */
#define CONTRIB(name, least, most, outputs, rule) .type = #name, .inputs_min = least, \
    .inputs_max = most, .outputs_max = outputs, .shape = rule
#define CONTRIB_EACH(name, most, cost) CONTRIB(name, 1, most, 1, tn__shape_first), \
    .flops_per = cost, .inplace = 1, .split = tn__split_each
static const tn_op_rule contrib_rules[] = {
    {CONTRIB(BiasAdd, 3, 3, 1, tn__shape_first), .flops_per = 2, .inplace = 1},
    {CONTRIB(BiasDropout, 2, 5, 2, contrib_shape_dropout), .flops_per = 3},
    {CONTRIB_EACH(BiasGelu, 2, 16), .decompose = tn__decompose_bias_gelu},
    {CONTRIB(BiasSoftmax, 2, 2, 1, tn__shape_first), .flops_per = 13, .inplace = 1},
    {CONTRIB(BiasSplitGelu, 2, 2, 1, contrib_shape_half), .flops_per = 17},
    {CONTRIB(CDist, 2, 2, 1, contrib_shape_distance)},
    {CONTRIB(ComplexMul, 2, 2, 1, contrib_shape_broadcast), .flops_per = 3},
    {CONTRIB(ComplexMulConj, 2, 2, 1, contrib_shape_broadcast), .flops_per = 3},
    {CONTRIB(EmbedLayerNormalization, 1, 9, 3, contrib_shape_embed), .flops_per = 8,
     .weights = 4 | 8 | 16 | 32 | 64},
    {CONTRIB(ExpandDims, 2, 2, 1, contrib_shape_expand_dims)},
    {CONTRIB_EACH(FastGelu, 2, 16), .decompose = tn__decompose_fast_gelu},
    {CONTRIB(FusedGemm, 2, 3, 1, contrib_shape_gemm), .flops = contrib_flops_product, .weights = 2 | 4,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(FusedMatMul, 2, 2, 1, contrib_shape_product), .flops = contrib_flops_product, .weights = 2,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(FusedMatMulActivation, 2, 2, 1, contrib_shape_product), .flops = contrib_flops_product,
     .weights = 2, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(GatedAdd, 3, 3, 1, tn__shape_first), .flops_per = 2, .inplace = 1},
    {CONTRIB(GatedRMSNorm, 2, 4, 1, tn__shape_first), .flops_per = 8, .inplace = 1, .weights = 2},
    {CONTRIB(GatherBlockQuantized, 3, 4, 1, contrib_shape_gather_blocks), .flops_per = 2,
     .flags = TN_RULE_UNFOLDED},
    {CONTRIB(GatherND, 2, 2, 1, contrib_shape_gather_nd)},
    {CONTRIB_EACH(Gelu, 1, 15), .decompose = tn__decompose_gelu},
    {CONTRIB(GemmFastGelu, 2, 3, 1, contrib_shape_matmul), .flops = contrib_flops_product, .weights = 2 | 4,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(GemmFloat8, 2, 6, 1, contrib_shape_gemm), .flops = contrib_flops_product, .weights = 2 | 4,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(GroupNorm, 3, 3, 1, tn__shape_first), .flops_per = 6, .weights = 2 | 4},
    {CONTRIB(Inverse, 1, 1, 1, tn__shape_first), .flops_per = 1},
    {CONTRIB(MatMulBlockQuantizedFp4Weight, 4, 6, 1, contrib_shape_rows), .weights = 2 | 4 | 8,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MatMulBlockQuantizedFp8Weight, 3, 5, 1, contrib_shape_rows), .weights = 2 | 4,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MatMulBnb4, 3, 3, 1, contrib_shape_bnb), .flops = contrib_flops_nbits, .weights = 2 | 4,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MatMulFpQ4, 3, 3, 1, contrib_shape_fpq4), .weights = 2, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MatMulNBits, 3, 6, 1, contrib_shape_nbits), .flops = contrib_flops_nbits,
     .weights = 2 | 4 | 8 | 16 | 32, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MatMulNBitsMlp, 1, 9, 2, contrib_shape_nbits_mlp), .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MatMulNBitsQkv, 1, 12, 4, contrib_shape_nbits_qkv), .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(MoE, 3, 8, 1, tn__shape_first), .flops = tn__flops_experts, .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(QMoE, 3, 24, 1, tn__shape_first), .flops = tn__flops_experts,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB_EACH(QuickGelu, 1, 14), .decompose = tn__decompose_quick_gelu},
    {CONTRIB(SkipGroupNorm, 4, 5, 2, contrib_shape_group_skip), .flops_per = 7},
    {CONTRIB(SkipLayerNormalization, 3, 5, 4, contrib_shape_skip), .flops_per = 8,
     .inplace_of = contrib_inplace_skip, .weights = 4 | 8 | 16,
     .decompose = tn__decompose_skip_layer_norm},
    {CONTRIB(SkipSimplifiedLayerNormalization, 3, 4, 4, contrib_shape_skip), .flops_per = 6,
     .inplace_of = contrib_inplace_skip, .weights = 4 | 8,
     .decompose = tn__decompose_skip_simplified_layer_norm},
    {CONTRIB(TorchEmbedding, 2, 4, 1, contrib_shape_torch_embedding)},
    {CONTRIB(TransposeMatMul, 2, 2, 1, contrib_shape_product), .flops = contrib_flops_product, .weights = 2,
     .flags = TN_RULE_MATMUL_LIKE},
    {CONTRIB(Trilu, 1, 2, 1, tn__shape_first), .inplace = 1},
};
/* clang-format on */

TN_OP_FAMILY(contrib, "com.microsoft");
