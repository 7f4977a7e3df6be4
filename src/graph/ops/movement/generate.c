/* generate.c - operators that generate tensors: random numbers, windows, spectra, counts.
 *
 * Random numbers are never folded, because two runs differ. For text only shapes are inferred.
 * Source: operator texts of ONNX, opsets 1 to 22.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"

/* --- random --- */

static tn_status generate_shape_random(tn_infer *infer) {
    uint32_t rank;
    const int64_t *shape = tn__attr_ints(infer->op, "shape", &rank);
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "dtype", TN_FLOAT32, &dtype));
    if (shape == NULL || rank > TN_RANK_MAX)
        return tn__infer_fail(infer, "attribute shape is missing");
    return tn__set_output(infer, 0, dtype, rank, shape);
}

static tn_status generate_shape_like(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "dtype", x->dtype, &dtype));
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, dtype);
    return tn__set_output(infer, 0, dtype, x->rank, x->shape);
}

static tn_status generate_shape_multinomial(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[2] = {TN_DIM_UNKNOWN, tn__attr_int(infer->op, "sample_size", 1)};
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "dtype", TN_INT32, &dtype));
    if (tn__rank_known(x) && x->rank == 2) shape[0] = x->shape[0];
    if (shape[1] < 0) return tn__infer_fail(infer, "attribute sample_size is negative");
    return tn__set_output(infer, 0, dtype, 2, shape);
}

/* --- signals --- */

static tn_status generate_output_type(tn_infer *infer, tn_dtype *dtype) {
    return tn__attr_dtype(infer, "output_datatype", TN_FLOAT32, dtype);
}

static tn_status generate_shape_window(tn_infer *infer) {
    uint32_t count;
    const int64_t *size = tn__value_ints(infer, 0, &count);
    int64_t shape[1] = {size != NULL && count == 1 ? size[0] : TN_DIM_UNKNOWN};
    tn_dtype dtype;
    TN_TRY(generate_output_type(infer, &dtype));
    if (shape[0] != TN_DIM_UNKNOWN && shape[0] < 0)
        return tn__infer_fail(infer, "the size is negative");
    return tn__set_output(infer, 0, dtype, 1, shape);
}

static tn_status generate_shape_mel(tn_infer *infer) {
    uint32_t count;
    const int64_t *bins = tn__value_ints(infer, 0, &count);
    int64_t shape[2] = {TN_DIM_UNKNOWN, bins != NULL && count == 1 ? bins[0] : TN_DIM_UNKNOWN};
    const int64_t *length = tn__value_ints(infer, 1, &count);
    tn_dtype dtype;
    TN_TRY(generate_output_type(infer, &dtype));
    if (length != NULL && count == 1) shape[0] = length[0] / 2 + 1;
    if ((shape[0] != TN_DIM_UNKNOWN && shape[0] < 0) ||
        (shape[1] != TN_DIM_UNKNOWN && shape[1] < 0))
        return tn__infer_fail(infer, "a size is negative");
    return tn__set_output(infer, 0, dtype, 2, shape);
}

/* Reads the axis of a DFT: an attribute before opset 20, an input since. */
static tn_status generate_dft_axis(tn_infer *infer, uint32_t rank, uint32_t *axis, bool *known) {
    uint32_t count;
    const int64_t *given = infer->version < 20 ? NULL : tn__value_ints(infer, 2, &count);
    *known = infer->version < 20 || tn__input(infer, 2) == NULL || given != NULL;
    if (!*known) return TN_OK;
    int64_t otherwise = infer->version < 20 ? tn__attr_int(infer->op, "axis", 1) : -2;
    return tn__axis(infer, given != NULL ? given[0] : otherwise, rank, axis);
}

static tn_status generate_shape_dft(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t axis = 0, count;
    bool known, onesided = tn__attr_int(infer->op, "onesided", 0) != 0;
    bool inverse = tn__attr_int(infer->op, "inverse", 0) != 0;
    if (!tn__rank_known(x) || x->rank < 2) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(generate_dft_axis(infer, x->rank, &axis, &known));
    if (!known) return tn__set_output(infer, 0, x->dtype, x->rank, tn__unknown_extents);
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    const int64_t *length = tn__value_ints(infer, 1, &count);
    if (tn__input(infer, 1) != NULL)
        shape[axis] = length != NULL && count == 1 && length[0] >= 0 ? length[0] : TN_DIM_UNKNOWN;
    if (onesided && inverse && tn__input(infer, 1) == NULL && shape[axis] != TN_DIM_UNKNOWN)
        shape[axis] = shape[axis] > 0 ? 2 * (shape[axis] - 1) : 0;
    if (onesided && !inverse && shape[axis] != TN_DIM_UNKNOWN) shape[axis] = shape[axis] / 2 + 1;
    /* the last dimension holds the real and the imaginary part */
    shape[x->rank - 1] = onesided && inverse ? 1 : 2;
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status generate_shape_stft(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *window = tn__input(infer, 2);
    uint32_t step_count, length_count;
    const int64_t *step = tn__value_ints(infer, 1, &step_count);
    const int64_t *given = tn__value_ints(infer, 3, &length_count);
    int64_t shape[4] = {TN_DIM_UNKNOWN, TN_DIM_UNKNOWN, TN_DIM_UNKNOWN, 2}, length = TN_DIM_UNKNOWN;
    if (given != NULL && length_count == 1)
        length = given[0];
    else if (tn__input(infer, 3) == NULL && tn__rank_known(window) && window->rank == 1)
        length = window->shape[0];
    if (tn__rank_known(x) && x->rank > 1) shape[0] = x->shape[0];
    if (length != TN_DIM_UNKNOWN) {
        if (length < 1) return tn__infer_fail(infer, "the frame length is below 1");
        shape[2] = tn__attr_int(infer->op, "onesided", 1) != 0 ? length / 2 + 1 : length;
        bool all = tn__rank_known(x) && x->rank > 1 && x->shape[1] >= length && step != NULL &&
                   step_count == 1 && step[0] > 0;
        if (all) shape[1] = (x->shape[1] - length) / step[0] + 1;
    }
    return tn__set_output(infer, 0, x->dtype, 4, shape);
}

/* --- text --- */

/* Sets the shape of word counts: one column per n-gram. */
static tn_status generate_shape_counts(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count;
    const int64_t *columns = tn__attr_ints(infer->op, "ngram_indexes", &count);
    int64_t shape[2] = {TN_DIM_UNKNOWN, 0};
    if (!tn__rank_known(x) || x->rank < 1 || x->rank > 2)
        return tn__set_dtype(infer, 0, TN_FLOAT32);
    for (uint32_t i = 0; i < count; i++)
        if (columns[i] >= shape[1] && columns[i] < INT32_MAX) shape[1] = columns[i] + 1;
    shape[0] = x->shape[0];
    return tn__set_output(infer, 0, TN_FLOAT32, x->rank, shape + (2 - x->rank));
}

static tn_status generate_shape_text(tn_infer *infer) {
    /* only the type is set: how many words remain without the stop words depends on the data */
    return tn__set_dtype(infer, 0, TN_STRING);
}

/* clang-format off */
#define GENERATE(name, least, most, rule) .type = #name, .inputs_min = least, .inputs_max = most, \
    .outputs_max = 1, .shape = rule, .flops_per = 4
static const tn_op_rule generate_rules[] = {
    {GENERATE(Bernoulli, 1, 1, generate_shape_like), .flags = TN_RULE_RANDOM,
     .gradient = tn__gradient_flat},
    {GENERATE(BlackmanWindow, 1, 1, generate_shape_window), .monotone = 1},
    {GENERATE(DFT, 1, 3, generate_shape_dft)},
    {GENERATE(HammingWindow, 1, 1, generate_shape_window), .monotone = 1},
    {GENERATE(HannWindow, 1, 1, generate_shape_window), .monotone = 1},
    {GENERATE(MelWeightMatrix, 5, 5, generate_shape_mel), .monotone = 3},
    {GENERATE(Multinomial, 1, 1, generate_shape_multinomial), .flags = TN_RULE_RANDOM},
    {GENERATE(RandomNormal, 0, 0, generate_shape_random), .flags = TN_RULE_RANDOM},
    {GENERATE(RandomNormalLike, 1, 1, generate_shape_like), .flags = TN_RULE_RANDOM,
     .gradient = tn__gradient_flat},
    {GENERATE(RandomUniform, 0, 0, generate_shape_random), .flags = TN_RULE_RANDOM},
    {GENERATE(RandomUniformLike, 1, 1, generate_shape_like), .flags = TN_RULE_RANDOM,
     .gradient = tn__gradient_flat},
    {GENERATE(STFT, 2, 4, generate_shape_stft)},
    {GENERATE(StringNormalizer, 1, 1, generate_shape_text)},
    {GENERATE(TfIdfVectorizer, 1, 1, generate_shape_counts)},
};
/* clang-format on */

TN_OP_FAMILY(generate, "");
