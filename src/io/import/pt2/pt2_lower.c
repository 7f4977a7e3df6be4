/* pt2_lower.c - PyTorch's operators as operators of ONNX: arithmetic, products, windows,
 * normalisations, attention.
 *
 * A rule reads the arguments of the node first, and adds operators only if it knows all of them. So
 * a node that cannot be expressed leaves nothing behind and stays PyTorch's operator. A rule may
 * ignore what changes no value: memory formats, deterministic flags, unread results.
 * Source: PyTorch's native_functions.yaml, the operator texts of ONNX.
 */
#include "io/import/pt2/pt2_reader.h"

#include <math.h>

/* --- operands --------------------------------------------------------------------------------- */

/* Returns the node's first operand, which PyTorch's schemas call "self" or "input"; PT2_NONE:
 * none. */
static uint32_t lower_first(const pt2_reader *reader) {
    uint32_t value = tn__pt2_tensor(reader, "self");
    return value != PT2_NONE ? value : tn__pt2_tensor(reader, "input");
}

/* Sets *id to the tensor of an optional operand, or to TN_NONE if `value` is PT2_NONE. */
static tn_status lower_optional(pt2_reader *reader, uint32_t value, tn_tensor_id *id) {
    *id = TN_NONE;
    return value == PT2_NONE ? TN_OK : tn__pt2_use(reader, value, id);
}

tn_status tn__pt2_cast(pt2_reader *reader, uint32_t operand, tn_dtype dtype, tn_tensor_id *id) {
    tn_tensor_id from;
    int64_t to = dtype; /* the numbers of tn_dtype are those of ONNX's element types */
    TN_TRY(tn__pt2_use(reader, operand, &from));
    *id = from;
    if (tn__pt2_value(reader, operand)->dtype == dtype) return TN_OK;
    return tn__pt2_op1(reader, "Cast", PT2_LIST(from), PT2_ATTRS(PT2_INT("to", &to)), PT2_NONE, id);
}

tn_status tn__pt2_reshape(pt2_reader *reader, tn_tensor_id from, uint32_t rank,
                          const int64_t *shape, uint32_t value, tn_tensor_id *id) {
    /* allowzero: an extent of 0 in the shape means 0, not "copy the extent of the input" */
    static const int64_t zeros = 1;
    tn_tensor_id extents;
    TN_TRY(tn__pt2_constant_ints(reader, shape, rank, &extents));
    return tn__pt2_op1(reader, "Reshape", PT2_LIST(from, extents),
                       PT2_ATTRS(PT2_INT("allowzero", &zeros)), value, id);
}

static bool lower_is_float(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}

/* --- element-wise operators with one operand -------------------------------------------------- */

/* Rules that apply one ONNX operator, rule->onnx, to the operand. */
static tn_status lower_unary(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader), y = reader->makes[0];
    tn_tensor_id in, out;
    if (x == PT2_NONE) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_cast(reader, x, tn__pt2_value(reader, y)->dtype, &in));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in), NULL, 0, y, &out);
}

/* Elu, LeakyRelu and the like: one operand and a slope, which is argument "alpha" or
 * "negative_slope" (default: rule->number). */
static tn_status lower_slope(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader);
    bool leaky = strcmp(rule->onnx, "LeakyRelu") == 0;
    double alpha, scale, other;
    tn_tensor_id in, out;
    bool known = tn__pt2_number(reader, leaky ? "negative_slope" : "alpha", rule->number, &alpha) &&
                 tn__pt2_number(reader, "scale", 1, &scale) &&
                 tn__pt2_number(reader, "input_scale", 1, &other) && scale == 1 && other == 1;
    if (x == PT2_NONE || !known) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in), PT2_ATTRS(PT2_FLOAT("alpha", &alpha)),
                       reader->makes[0], &out);
}

/* PyTorch's hardsigmoid is clip(x / 6 + 1/2, 0, 1). */
static tn_status lower_hard_sigmoid(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    static const double sixth = 1.0 / 6;
    uint32_t x = lower_first(reader);
    tn_tensor_id in, out;
    (void)rule;
    if (x == PT2_NONE) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    return tn__pt2_op1(reader, "HardSigmoid", PT2_LIST(in), PT2_ATTRS(PT2_FLOAT("alpha", &sixth)),
                       reader->makes[0], &out);
}

static tn_status lower_softplus(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    double beta, threshold;
    bool usual = tn__pt2_number(reader, "beta", 1, &beta) && beta == 1 &&
                 tn__pt2_number(reader, "threshold", 20, &threshold) && threshold == 20;
    return usual ? lower_unary(reader, rule, done) : TN_OK;
}

static tn_status lower_gelu(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    const char *kind, *form = "none";
    json_t *argument = tn__pt2_argument(reader, "approximate", &kind);
    uint32_t x = lower_first(reader);
    tn_tensor_id in, out;
    if (json_is_string(argument)) form = json_string_value(argument);
    if (x == PT2_NONE || (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in),
                       PT2_ATTRS(PT2_STRING("approximate", &form)), reader->makes[0], &out);
}

static tn_status lower_silu(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader);
    tn_tensor_id in, gate, out;
    (void)rule;
    if (x == PT2_NONE) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_op1(reader, "Sigmoid", PT2_LIST(in), NULL, 0, PT2_NONE, &gate));
    return tn__pt2_op1(reader, "Mul", PT2_LIST(in, gate), NULL, 0, reader->makes[0], &out);
}

static tn_status lower_rsqrt(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader);
    tn_tensor_id in, root, out;
    (void)rule;
    if (x == PT2_NONE) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_op1(reader, "Sqrt", PT2_LIST(in), NULL, 0, PT2_NONE, &root));
    return tn__pt2_op1(reader, "Reciprocal", PT2_LIST(root), NULL, 0, reader->makes[0], &out);
}

/* clamp, hardtanh and relu6, all as ONNX's Clip. rule->number is 6 for relu6, which has the bounds
 * 0 and 6. */
static tn_status lower_clip(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    bool clamp = strncmp(reader->base, "clamp", 5) == 0;
    uint32_t x = lower_first(reader), y = reader->makes[0];
    tn_dtype dtype = tn__pt2_value(reader, y)->dtype;
    double least = NAN, most = NAN;
    bool known = tn__pt2_number(reader, clamp ? "min" : "min_val",
                                clamp               ? NAN
                                : rule->number == 6 ? 0
                                                    : -1,
                                &least) &&
                 tn__pt2_number(reader, clamp ? "max" : "max_val",
                                clamp               ? NAN
                                : rule->number == 6 ? 6
                                                    : 1,
                                &most);
    if (x == PT2_NONE || !known) return TN_OK;
    *done = true;
    tn_tensor_id in, low = TN_NONE, high = TN_NONE, out;
    TN_TRY(tn__pt2_cast(reader, x, dtype, &in));
    if (!isnan(least)) TN_TRY(tn__pt2_scalar(reader, dtype, least, &low));
    if (!isnan(most)) TN_TRY(tn__pt2_scalar(reader, dtype, most, &high));
    return tn__pt2_op1(reader, "Clip", PT2_LIST(in, low, high), NULL, 0, y, &out);
}

/* --- element-wise operators with two operands ------------------------------------------------- */

/* Sets *id to operand `name` in the type `dtype`. A number becomes a scalar tensor. The caller has
 * checked with lower_is_operand that the operand is a tensor or a number. */
static tn_status lower_operand(pt2_reader *reader, const char *name, tn_dtype dtype,
                               tn_tensor_id *id) {
    uint32_t value = tn__pt2_tensor(reader, name);
    double number = 0;
    if (value != PT2_NONE) return tn__pt2_cast(reader, value, dtype, id);
    (void)tn__pt2_number(reader, name, 0, &number);
    return tn__pt2_scalar(reader, dtype, number, id);
}

static bool lower_is_operand(pt2_reader *reader, const char *name) {
    const char *kind;
    double number;
    if (tn__pt2_tensor(reader, name) != PT2_NONE) return true;
    return tn__pt2_argument(reader, name, &kind) != NULL &&
           tn__pt2_number(reader, name, 0, &number);
}

/* The type to which both operands of a comparison are converted. It follows PyTorch's type
 * promotion for tensors, and for a tensor and a number. */
static tn_dtype lower_common(pt2_reader *reader, const char *left, const char *right) {
    uint32_t a = tn__pt2_tensor(reader, left), b = tn__pt2_tensor(reader, right);
    tn_dtype first = a != PT2_NONE ? tn__pt2_value(reader, a)->dtype : TN_UNDEFINED;
    tn_dtype second = b != PT2_NONE ? tn__pt2_value(reader, b)->dtype : TN_UNDEFINED;
    const char *kind = "";
    if (a != PT2_NONE && b != PT2_NONE) {
        if (lower_is_float(first) != lower_is_float(second))
            return lower_is_float(first) ? first : second;
        return tn_dtype_bits(first) >= tn_dtype_bits(second) ? first : second;
    }
    tn_dtype tensor = a != PT2_NONE ? first : second;
    (void)tn__pt2_argument(reader, a != PT2_NONE ? right : left, &kind);
    return strcmp(kind, "as_float") == 0 && !lower_is_float(tensor) ? TN_FLOAT32 : tensor;
}

/* add, sub and rsub. Argument "alpha" is a factor of the second operand, of the first one for
 * rsub. */
static tn_status lower_add(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t y = reader->makes[0];
    tn_dtype dtype = tn__pt2_value(reader, y)->dtype;
    bool reversed = strcmp(reader->base, "rsub") == 0 || strcmp(reader->base, "rsub_") == 0;
    double alpha;
    tn_tensor_id a, b, factor, out;
    bool known = lower_is_operand(reader, "self") && lower_is_operand(reader, "other") &&
                 tn__pt2_number(reader, "alpha", 1, &alpha);
    if (!known || dtype == TN_BOOL) return TN_OK;
    *done = true;
    TN_TRY(lower_operand(reader, reversed ? "other" : "self", dtype, &a));
    TN_TRY(lower_operand(reader, reversed ? "self" : "other", dtype, &b));
    if (alpha != 1) {
        TN_TRY(tn__pt2_scalar(reader, dtype, alpha, &factor));
        TN_TRY(tn__pt2_op1(reader, "Mul", PT2_LIST(b, factor), NULL, 0, PT2_NONE, &b));
    }
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(a, b), NULL, 0, y, &out);
}

/* Rules with two operands. rule->number 0: arithmetic in the type of the result. 1: a comparison;
 * its operands are converted to their common type. 2: a logical operator on operands of type
 * bool. */
static tn_status lower_binary(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t y = reader->makes[0];
    tn_dtype dtype = tn__pt2_value(reader, y)->dtype;
    const char *kind,
        *left = strcmp(reader->base, "pow") == 0 && lower_is_operand(reader, "exponent")
                    ? "exponent"
                    : "other";
    tn_tensor_id a, b, out;
    if (!lower_is_operand(reader, "self") || !lower_is_operand(reader, left)) return TN_OK;
    if (tn__pt2_argument(reader, "rounding_mode", &kind) != NULL) return TN_OK;
    if (rule->number == 0 && dtype == TN_BOOL) return TN_OK;
    if (rule->number == 1) dtype = lower_common(reader, "self", left);
    if (rule->number == 2) {
        uint32_t first = tn__pt2_tensor(reader, "self"), second = tn__pt2_tensor(reader, left);
        bool logical = strncmp(reader->base, "logical", 7) == 0;
        bool truth = first != PT2_NONE && tn__pt2_value(reader, first)->dtype == TN_BOOL &&
                     second != PT2_NONE && tn__pt2_value(reader, second)->dtype == TN_BOOL;
        if (!truth && !logical) return TN_OK;
        dtype = TN_BOOL;
    }
    *done = true;
    TN_TRY(lower_operand(reader, "self", dtype, &a));
    TN_TRY(lower_operand(reader, left, dtype, &b));
    bool inverse = strcmp(rule->onnx, "NotEqual") == 0;
    if (!inverse) return tn__pt2_op1(reader, rule->onnx, PT2_LIST(a, b), NULL, 0, y, &out);
    TN_TRY(tn__pt2_op1(reader, "Equal", PT2_LIST(a, b), NULL, 0, PT2_NONE, &a));
    return tn__pt2_op1(reader, "Not", PT2_LIST(a), NULL, 0, y, &out);
}

static tn_status lower_where(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t y = reader->makes[0], mask = tn__pt2_tensor(reader, "condition");
    bool fill = rule->number == 1; /* masked_fill: value where the mask is set, else self */
    const char *yes = fill ? "value" : "self", *no = fill ? "self" : "other";
    tn_dtype dtype = tn__pt2_value(reader, y)->dtype;
    tn_tensor_id condition, a, b, out;
    if (fill) mask = tn__pt2_tensor(reader, "mask");
    if (mask == PT2_NONE || !lower_is_operand(reader, yes) || !lower_is_operand(reader, no))
        return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_cast(reader, mask, TN_BOOL, &condition));
    TN_TRY(lower_operand(reader, yes, dtype, &a));
    TN_TRY(lower_operand(reader, no, dtype, &b));
    return tn__pt2_op1(reader, "Where", PT2_LIST(condition, a, b), NULL, 0, y, &out);
}

/* --- products of matrices --------------------------------------------------------------------- */

/* Returns the matrix that is transposed to `value`, and sets *transposed, if no Transpose operator
 * was added for `value` yet. Otherwise returns `value` itself. */
static uint32_t lower_untransposed(const pt2_reader *reader, uint32_t value, int64_t *transposed) {
    const pt2_value *at = tn__pt2_value(reader, tn__pt2_value(reader, value)->same);
    *transposed = at->id == TN_NONE && at->transposed != PT2_NONE;
    return *transposed ? at->transposed : value;
}

/* Adds a Gemm operator: beta * bias + alpha * a * b. `bias` may be PT2_NONE. If an operand is a
 * transpose for which no operator was added yet, the Gemm itself reads the original transposed. */
static tn_status lower_gemm(pt2_reader *reader, uint32_t a, uint32_t b, uint32_t bias, double alpha,
                            double beta) {
    int64_t trans_a, trans_b;
    tn_tensor_id left, right, addend, out;
    TN_TRY(tn__pt2_use(reader, lower_untransposed(reader, a, &trans_a), &left));
    TN_TRY(tn__pt2_use(reader, lower_untransposed(reader, b, &trans_b), &right));
    TN_TRY(lower_optional(reader, bias, &addend));
    const tn_tensor_id inputs[] = {left, right, addend};
    return tn__pt2_op1(reader, "Gemm", inputs, addend != TN_NONE ? 3 : 2,
                       PT2_ATTRS(PT2_INT("transA", &trans_a), PT2_INT("transB", &trans_b),
                                 PT2_FLOAT("alpha", &alpha), PT2_FLOAT("beta", &beta)),
                       reader->makes[0], &out);
}

static tn_status lower_addmm(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t bias = tn__pt2_tensor(reader, "self"), a = tn__pt2_tensor(reader, "mat1");
    uint32_t b = tn__pt2_tensor(reader, "mat2");
    double alpha, beta;
    (void)rule;
    bool known = tn__pt2_number(reader, "alpha", 1, &alpha) &&
                 tn__pt2_number(reader, "beta", 1, &beta) && bias != PT2_NONE && a != PT2_NONE &&
                 b != PT2_NONE;
    if (!known || !lower_is_float(tn__pt2_value(reader, a)->dtype)) return TN_OK;
    *done = true;
    return lower_gemm(reader, a, b, bias, alpha, beta);
}

/* mm, bmm and matmul: a MatMul, or a Gemm if a matrix is read transposed. */
static tn_status lower_matmul(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t a = tn__pt2_tensor(reader, "self"), b = tn__pt2_tensor(reader, "mat2");
    int64_t trans_a = 0, trans_b = 0;
    tn_tensor_id left, right, out;
    if (b == PT2_NONE) b = tn__pt2_tensor(reader, "other");
    if (a == PT2_NONE || b == PT2_NONE) return TN_OK;
    *done = true;
    bool matrices = tn__pt2_value(reader, a)->rank == 2 && tn__pt2_value(reader, b)->rank == 2 &&
                    lower_is_float(tn__pt2_value(reader, a)->dtype);
    (void)lower_untransposed(reader, a, &trans_a);
    (void)lower_untransposed(reader, b, &trans_b);
    if (matrices && (trans_a || trans_b)) return lower_gemm(reader, a, b, PT2_NONE, 1, 1);
    TN_TRY(tn__pt2_use(reader, a, &left));
    TN_TRY(tn__pt2_use(reader, b, &right));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(left, right), NULL, 0, reader->makes[0], &out);
}

static tn_status lower_baddbmm(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t bias = tn__pt2_tensor(reader, "self"), a = tn__pt2_tensor(reader, "batch1");
    uint32_t b = tn__pt2_tensor(reader, "batch2");
    double alpha, beta;
    tn_tensor_id addend, left, right, product, out;
    (void)rule;
    bool known = tn__pt2_number(reader, "alpha", 1, &alpha) && alpha == 1 &&
                 tn__pt2_number(reader, "beta", 1, &beta) && beta == 1;
    if (!known || bias == PT2_NONE || a == PT2_NONE || b == PT2_NONE) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, bias, &addend));
    TN_TRY(tn__pt2_use(reader, a, &left));
    TN_TRY(tn__pt2_use(reader, b, &right));
    TN_TRY(tn__pt2_op1(reader, "MatMul", PT2_LIST(left, right), NULL, 0, PT2_NONE, &product));
    return tn__pt2_op1(reader, "Add", PT2_LIST(product, addend), NULL, 0, reader->makes[0], &out);
}

/* linear(x, w, b) as one Gemm. An x of another rank than 2 is reshaped to a matrix, and the product
 * is reshaped back. */
static tn_status lower_linear(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    static const int64_t yes = 1;
    uint32_t x = tn__pt2_tensor(reader, "input"), w = tn__pt2_tensor(reader, "weight");
    uint32_t bias = tn__pt2_tensor(reader, "bias"), y = reader->makes[0];
    tn_tensor_id in, weight, addend, product, out;
    (void)rule;
    if (x == PT2_NONE || w == PT2_NONE) return TN_OK;
    const pt2_value *data = tn__pt2_value(reader, x), *to = tn__pt2_value(reader, y);
    if (data->rank == 0 || tn__pt2_value(reader, w)->rank != 2 || !lower_is_float(data->dtype))
        return TN_OK;
    int64_t rows = 1;
    for (uint32_t d = 0; d + 1 < data->rank; d++)
        if (__builtin_mul_overflow(rows, data->shape[d], &rows)) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_use(reader, w, &weight));
    TN_TRY(lower_optional(reader, bias, &addend));
    const int64_t flat[] = {rows, data->shape[data->rank - 1]};
    if (data->rank != 2) TN_TRY(tn__pt2_reshape(reader, in, 2, flat, PT2_NONE, &in));
    const tn_tensor_id inputs[] = {in, weight, addend};
    TN_TRY(tn__pt2_op1(reader, "Gemm", inputs, addend != TN_NONE ? 3 : 2,
                       PT2_ATTRS(PT2_INT("transB", &yes)), data->rank == 2 ? y : PT2_NONE,
                       &product));
    if (data->rank == 2) return TN_OK;
    return tn__pt2_reshape(reader, product, to->rank, to->shape, y, &out);
}

/* --- windows ---------------------------------------------------------------------------------- */

#define LOWER_AXES 3u /* most spatial dimensions of a convolution or pooling */

/* Reads argument `name`, which has one number per spatial axis. A single number counts for all
 * axes; an absent argument gives `otherwise`. Returns false for any other count. */
static bool lower_axes(pt2_reader *reader, const char *name, uint32_t axes, int64_t otherwise,
                       int64_t *values) {
    int64_t given[TN_RANK_MAX];
    uint32_t count;
    if (!tn__pt2_ints(reader, name, given, &count)) return false;
    if (count > 1 && count != axes) return false;
    for (uint32_t d = 0; d < axes; d++)
        values[d] = count == 0 ? otherwise : given[count == 1 ? 0 : d];
    return true;
}

typedef struct lower_window {
    uint32_t axes;
    int64_t kernel[LOWER_AXES], strides[LOWER_AXES], dilations[LOWER_AXES], extra[LOWER_AXES];
    int64_t pads[2 * LOWER_AXES];
} lower_window;

static bool lower_read_window(pt2_reader *reader, uint32_t x, bool pool, lower_window *window) {
    const pt2_value *data = tn__pt2_value(reader, x);
    int64_t pads[LOWER_AXES];
    if (data->rank < 3 || data->rank > 2 + LOWER_AXES) return false;
    window->axes = data->rank - 2;
    if (pool && !lower_axes(reader, "kernel_size", window->axes, 1, window->kernel)) return false;
    bool known = lower_axes(reader, "stride", window->axes, pool ? -1 : 1, window->strides) &&
                 lower_axes(reader, "padding", window->axes, 0, pads) &&
                 lower_axes(reader, "dilation", window->axes, 1, window->dilations) &&
                 lower_axes(reader, "output_padding", window->axes, 0, window->extra);
    for (uint32_t d = 0; d < window->axes && known; d++) {
        if (window->strides[d] < 0) window->strides[d] = window->kernel[d];
        window->pads[d] = window->pads[window->axes + d] = pads[d];
    }
    return known;
}

static tn_status lower_conv(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader), w = tn__pt2_tensor(reader, "weight");
    uint32_t bias = tn__pt2_tensor(reader, "bias");
    lower_window window;
    int64_t groups, transposed;
    tn_tensor_id inputs[3], out;
    if (x == PT2_NONE || w == PT2_NONE || !lower_read_window(reader, x, false, &window) ||
        !tn__pt2_int(reader, "groups", 1, &groups) ||
        !tn__pt2_int(reader, "transposed", rule->number == 1, &transposed))
        return TN_OK;
    if (tn__pt2_value(reader, w)->rank != window.axes + 2) return TN_OK;
    memcpy(window.kernel, tn__pt2_value(reader, w)->shape + 2, window.axes * sizeof(int64_t));
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &inputs[0]));
    TN_TRY(tn__pt2_use(reader, w, &inputs[1]));
    TN_TRY(lower_optional(reader, bias, &inputs[2]));
    const tn_attr attrs[] = {PT2_INTS("kernel_shape", window.kernel, window.axes),
                             PT2_INTS("strides", window.strides, window.axes),
                             PT2_INTS("pads", window.pads, 2 * window.axes),
                             PT2_INTS("dilations", window.dilations, window.axes),
                             PT2_INT("group", &groups),
                             PT2_INTS("output_padding", window.extra, window.axes)};
    return tn__pt2_op1(reader, transposed ? "ConvTranspose" : "Conv", inputs,
                       inputs[2] != TN_NONE ? 3 : 2, attrs, transposed ? 6 : 5, reader->makes[0],
                       &out);
}

static tn_status lower_pool(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader);
    bool average = strcmp(rule->onnx, "AveragePool") == 0;
    lower_window window;
    int64_t ceil_mode, include, divisor;
    tn_tensor_id in, out;
    if (x == PT2_NONE || !lower_read_window(reader, x, true, &window) ||
        !tn__pt2_int(reader, "ceil_mode", 0, &ceil_mode) ||
        !tn__pt2_int(reader, "count_include_pad", 1, &include) ||
        !tn__pt2_int(reader, "divisor_override", 0, &divisor) || divisor != 0 ||
        tn__pt2_reads_results(reader, 1))
        return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    const tn_attr attrs[] = {PT2_INTS("kernel_shape", window.kernel, window.axes),
                             PT2_INTS("strides", window.strides, window.axes),
                             PT2_INTS("pads", window.pads, 2 * window.axes),
                             PT2_INT("ceil_mode", &ceil_mode),
                             average ? PT2_INT("count_include_pad", &include)
                                     : PT2_INTS("dilations", window.dilations, window.axes)};
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in), attrs, 5, reader->makes[0], &out);
}

/* Adaptive pooling, which states the size of the result. It becomes a global pooling if the result
 * has one element per channel. Otherwise the size of the result must divide the size of the input,
 * and the windows are equal. */
static tn_status lower_adaptive(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader), y = reader->makes[0];
    bool average = strcmp(rule->onnx, "AveragePool") == 0, whole = true;
    int64_t kernel[LOWER_AXES];
    tn_tensor_id in, out;
    if (x == PT2_NONE || tn__pt2_reads_results(reader, 1)) return TN_OK;
    const pt2_value *from = tn__pt2_value(reader, x), *to = tn__pt2_value(reader, y);
    if (from->rank < 3 || from->rank > 2 + LOWER_AXES || to->rank != from->rank) return TN_OK;
    for (uint32_t d = 2; d < from->rank; d++) {
        if (to->shape[d] <= 0 || from->shape[d] % to->shape[d] != 0) return TN_OK;
        kernel[d - 2] = from->shape[d] / to->shape[d];
        whole = whole && to->shape[d] == 1;
    }
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    if (whole)
        return tn__pt2_op1(reader, average ? "GlobalAveragePool" : "GlobalMaxPool", PT2_LIST(in),
                           NULL, 0, y, &out);
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in),
                       PT2_ATTRS(PT2_INTS("kernel_shape", kernel, from->rank - 2),
                                 PT2_INTS("strides", kernel, from->rank - 2)),
                       y, &out);
}

/* --- normalisations --------------------------------------------------------------------------- */

/* All forms of batch normalisation. In training, the functional form returns the new statistics as
 * results 3 and 4. The other forms change their statistics in place, so the outputs of the ONNX
 * operator for the new statistics become tensors that the program does not have. */
static tn_status lower_batch_norm(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    uint32_t x = lower_first(reader), values[4], outputs = 1;
    int64_t training = 0;
    double momentum, eps;
    tn_tensor_id inputs[5], outs[3] = {TN_NONE, TN_NONE, TN_NONE};
    bool known = x != PT2_NONE && tn__pt2_number(reader, "momentum", 0.1, &momentum) &&
                 tn__pt2_number(reader, "eps", 1e-5, &eps) &&
                 (rule->number == 1 || (tn__pt2_int(reader, "training", 0, &training) ||
                                        tn__pt2_int(reader, "train", 0, &training)));
    if (known && rule->number != 1 && training == 0)
        known = tn__pt2_int(reader, "train", 0, &training);
    for (uint32_t i = 0; i < 4 && known; i++) {
        values[i] = tn__pt2_tensor(reader, names[i]);
        known = values[i] != PT2_NONE;
    }
    bool functional = reader->make_count == 5 && training != 0;
    for (uint32_t k = 1; k < reader->make_count && known; k++)
        if (!functional || k < 3)
            known = tn__pt2_value(reader, reader->makes[k])->last <= reader->number;
    if (!known) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &inputs[0]));
    for (uint32_t i = 0; i < 4; i++) TN_TRY(tn__pt2_use(reader, values[i], &inputs[i + 1]));
    TN_TRY(tn__pt2_make(reader, reader->makes[0], &outs[0]));
    for (uint32_t k = 1; k < 3 && training != 0; k++) {
        TN_TRY(functional ? tn__pt2_make(reader, reader->makes[k + 2], &outs[k])
                          : tn__pt2_between(reader, &outs[k]));
        outputs = 3;
    }
    double kept = 1 - momentum;
    return tn__pt2_op(reader, "BatchNormalization", inputs, 5,
                      PT2_ATTRS(PT2_FLOAT("epsilon", &eps), PT2_FLOAT("momentum", &kept),
                                PT2_INT("training_mode", &training)),
                      outs, outputs);
}

/* Adds a tensor of ones as the scale of a normalisation that has none, because ONNX requires
 * one. */
static tn_status lower_ones(pt2_reader *reader, uint32_t x, const int64_t *shape, uint32_t rank,
                            tn_tensor_id *id) {
    tn_tensor_id extents, one;
    TN_TRY(tn__pt2_constant_ints(reader, shape, rank, &extents));
    TN_TRY(tn__pt2_scalar(reader, tn__pt2_value(reader, x)->dtype, 1, &one));
    return tn__pt2_op1(reader, "Expand", PT2_LIST(one, extents), NULL, 0, PT2_NONE, id);
}

/* layer_norm and rms_norm, which normalise over the last dimensions, as many as "normalized_shape"
 * has. */
static tn_status lower_layer_norm(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader), w = tn__pt2_tensor(reader, "weight");
    uint32_t bias = tn__pt2_tensor(reader, "bias"), count;
    bool layer = strcmp(rule->onnx, "LayerNormalization") == 0;
    int64_t shape[TN_RANK_MAX], axis;
    double eps;
    tn_tensor_id inputs[3], out;
    if (x == PT2_NONE || !tn__pt2_ints(reader, "normalized_shape", shape, &count) || count == 0 ||
        !tn__pt2_number(reader, "eps", layer ? 1e-5 : 1.1920928955078125e-07, &eps) ||
        tn__pt2_reads_results(reader, 1) || count > tn__pt2_value(reader, x)->rank)
        return TN_OK;
    *done = true;
    axis = -(int64_t)count;
    TN_TRY(tn__pt2_use(reader, x, &inputs[0]));
    TN_TRY(w != PT2_NONE ? tn__pt2_use(reader, w, &inputs[1])
                         : lower_ones(reader, x, shape, count, &inputs[1]));
    TN_TRY(lower_optional(reader, bias, &inputs[2]));
    return tn__pt2_op1(reader, rule->onnx, inputs, inputs[2] != TN_NONE ? 3 : 2,
                       PT2_ATTRS(PT2_INT("axis", &axis), PT2_FLOAT("epsilon", &eps)),
                       reader->makes[0], &out);
}

/* group_norm and instance_norm. Only calls with scale and bias are expanded, because ONNX requires
 * both. */
static tn_status lower_group_norm(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader), w = tn__pt2_tensor(reader, "weight");
    uint32_t bias = tn__pt2_tensor(reader, "bias");
    bool group = strcmp(rule->onnx, "GroupNormalization") == 0;
    int64_t groups = 1;
    double eps;
    tn_tensor_id in, scale, addend, out;
    bool known = x != PT2_NONE && w != PT2_NONE && bias != PT2_NONE &&
                 tn__pt2_number(reader, "eps", 1e-5, &eps) && !tn__pt2_reads_results(reader, 1);
    if (known && group)
        known = tn__pt2_int(reader, reader->base[0] == 'n' ? "group" : "num_groups", 1, &groups);
    if (known && !group) known = tn__pt2_tensor(reader, "running_mean") == PT2_NONE;
    if (!known) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_use(reader, x, &in));
    TN_TRY(tn__pt2_use(reader, w, &scale));
    TN_TRY(tn__pt2_use(reader, bias, &addend));
    const tn_attr attrs[] = {PT2_FLOAT("epsilon", &eps), PT2_INT("num_groups", &groups)};
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in, scale, addend), attrs, group ? 2 : 1,
                       reader->makes[0], &out);
}

static tn_status lower_softmax(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    uint32_t x = lower_first(reader), y = reader->makes[0];
    int64_t axis;
    tn_tensor_id in, out;
    if (x == PT2_NONE || !tn__pt2_int(reader, "dim", -1, &axis)) return TN_OK;
    *done = true;
    TN_TRY(tn__pt2_cast(reader, x, tn__pt2_value(reader, y)->dtype, &in));
    return tn__pt2_op1(reader, rule->onnx, PT2_LIST(in), PT2_ATTRS(PT2_INT("axis", &axis)), y,
                       &out);
}

/* --- attention -------------------------------------------------------------------------------- */

/* Adds a causal mask for scores of rows x columns: -infinity above the diagonal, 0 elsewhere. Its
 * operands are constants, so constant folding can compute it before the run. */
static tn_status lower_causal(pt2_reader *reader, tn_dtype dtype, int64_t rows, int64_t columns,
                              tn_tensor_id *id) {
    static const int64_t upper = 1;
    const int64_t shape[] = {rows, columns};
    tn_tensor_id extents, low, first;
    TN_TRY(tn__pt2_constant_ints(reader, shape, 2, &extents));
    TN_TRY(tn__pt2_scalar(reader, dtype, -INFINITY, &low));
    TN_TRY(tn__pt2_op1(reader, "Expand", PT2_LIST(low, extents), NULL, 0, PT2_NONE, id));
    TN_TRY(tn__pt2_constant_ints(reader, &upper, 1, &first));
    TN_TRY(tn__pt2_reshape(reader, first, 0, NULL, PT2_NONE, &first));
    return tn__pt2_op1(reader, "Trilu", PT2_LIST(*id, first), PT2_ATTRS(PT2_INT("upper", &upper)),
                       PT2_NONE, id);
}

static tn_status lower_scores(pt2_reader *reader, uint32_t q, uint32_t k, uint32_t mask,
                              bool causal, double scale, tn_tensor_id *scores) {
    const pt2_value *query = tn__pt2_value(reader, q), *key = tn__pt2_value(reader, k);
    uint32_t rank = query->rank;
    int64_t order[TN_RANK_MAX];
    tn_tensor_id a, b, other;
    for (uint32_t d = 0; d < rank; d++) order[d] = d;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    TN_TRY(tn__pt2_use(reader, q, &a));
    TN_TRY(tn__pt2_use(reader, k, &b));
    TN_TRY(tn__pt2_op1(reader, "Transpose", PT2_LIST(b), PT2_ATTRS(PT2_INTS("perm", order, rank)),
                       PT2_NONE, &b));
    TN_TRY(tn__pt2_op1(reader, "MatMul", PT2_LIST(a, b), NULL, 0, PT2_NONE, scores));
    TN_TRY(tn__pt2_scalar(reader, query->dtype, scale, &other));
    TN_TRY(tn__pt2_op1(reader, "Mul", PT2_LIST(*scores, other), NULL, 0, PT2_NONE, scores));
    if (causal) {
        TN_TRY(lower_causal(reader, query->dtype, query->shape[rank - 2], key->shape[rank - 2],
                            &other));
        return tn__pt2_op1(reader, "Add", PT2_LIST(*scores, other), NULL, 0, PT2_NONE, scores);
    }
    if (mask == PT2_NONE) return TN_OK;
    TN_TRY(tn__pt2_use(reader, mask, &other));
    if (tn__pt2_value(reader, mask)->dtype != TN_BOOL)
        return tn__pt2_op1(reader, "Add", PT2_LIST(*scores, other), NULL, 0, PT2_NONE, scores);
    TN_TRY(tn__pt2_scalar(reader, query->dtype, -INFINITY, &a));
    return tn__pt2_op1(reader, "Where", PT2_LIST(other, *scores, a), NULL, 0, PT2_NONE, scores);
}

/* scaled_dot_product_attention and its form for CPUs: softmax(scale * query * key^T + mask) *
 * value. */
static tn_status lower_attention(pt2_reader *reader, const pt2_rule *rule, bool *done) {
    static const int64_t last = -1;
    uint32_t q = tn__pt2_tensor(reader, "query"), k = tn__pt2_tensor(reader, "key");
    uint32_t v = tn__pt2_tensor(reader, "value"), mask = tn__pt2_tensor(reader, "attn_mask");
    int64_t causal, grouped;
    double dropout, scale;
    tn_tensor_id scores, values, out;
    (void)rule;
    if (q == PT2_NONE || k == PT2_NONE || v == PT2_NONE || tn__pt2_reads_results(reader, 1) ||
        !tn__pt2_int(reader, "is_causal", 0, &causal) ||
        !tn__pt2_int(reader, "enable_gqa", 0, &grouped) || grouped != 0 ||
        !tn__pt2_number(reader, "dropout_p", 0, &dropout) || dropout != 0)
        return TN_OK;
    const pt2_value *query = tn__pt2_value(reader, q);
    uint32_t rank = query->rank;
    if (rank < 2 || tn__pt2_value(reader, k)->rank != rank || query->shape[rank - 1] <= 0 ||
        (causal != 0 && mask != PT2_NONE) ||
        !tn__pt2_number(reader, "scale", 1 / sqrt((double)query->shape[rank - 1]), &scale))
        return TN_OK;
    *done = true;
    TN_TRY(lower_scores(reader, q, k, mask, causal != 0, scale, &scores));
    TN_TRY(tn__pt2_op1(reader, "Softmax", PT2_LIST(scores), PT2_ATTRS(PT2_INT("axis", &last)),
                       PT2_NONE, &scores));
    TN_TRY(tn__pt2_use(reader, v, &values));
    return tn__pt2_op1(reader, "MatMul", PT2_LIST(scores, values), NULL, 0, reader->makes[0], &out);
}

/* --- the table of rules ----------------------------------------------------------------------- */

/* clang-format off */
static const pt2_rule lower_rules[] = {
    {"_adaptive_avg_pool2d", lower_adaptive, "AveragePool", 0},
    {"_log_softmax", lower_softmax, "LogSoftmax", 0},
    {"_native_batch_norm_legit", lower_batch_norm, NULL, 0},
    {"_native_batch_norm_legit_functional", lower_batch_norm, NULL, 0},
    {"_native_batch_norm_legit_no_training", lower_batch_norm, NULL, 1},
    {"_scaled_dot_product_flash_attention_for_cpu", lower_attention, NULL, 0},
    {"_softmax", lower_softmax, "Softmax", 0},
    {"abs", lower_unary, "Abs", 0},
    {"acos", lower_unary, "Acos", 0},
    {"adaptive_avg_pool1d", lower_adaptive, "AveragePool", 0},
    {"adaptive_avg_pool2d", lower_adaptive, "AveragePool", 0},
    {"adaptive_avg_pool3d", lower_adaptive, "AveragePool", 0},
    {"adaptive_max_pool2d", lower_adaptive, "MaxPool", 0},
    {"add", lower_add, "Add", 0},
    {"addmm", lower_addmm, NULL, 0},
    {"asin", lower_unary, "Asin", 0},
    {"atan", lower_unary, "Atan", 0},
    {"avg_pool1d", lower_pool, "AveragePool", 0},
    {"avg_pool2d", lower_pool, "AveragePool", 0},
    {"avg_pool3d", lower_pool, "AveragePool", 0},
    {"baddbmm", lower_baddbmm, NULL, 0},
    {"batch_norm", lower_batch_norm, NULL, 0},
    {"bitwise_and", lower_binary, "And", 2},
    {"bitwise_or", lower_binary, "Or", 2},
    {"bitwise_xor", lower_binary, "Xor", 2},
    {"bmm", lower_matmul, "MatMul", 0},
    {"ceil", lower_unary, "Ceil", 0},
    {"clamp", lower_clip, NULL, 0},
    {"clamp_max", lower_clip, NULL, 0},
    {"clamp_min", lower_clip, NULL, 0},
    {"conv1d", lower_conv, NULL, 0},
    {"conv2d", lower_conv, NULL, 0},
    {"conv3d", lower_conv, NULL, 0},
    {"conv_transpose1d", lower_conv, NULL, 1},
    {"conv_transpose2d", lower_conv, NULL, 1},
    {"conv_transpose3d", lower_conv, NULL, 1},
    {"convolution", lower_conv, NULL, 0},
    {"cos", lower_unary, "Cos", 0},
    {"cosh", lower_unary, "Cosh", 0},
    {"div", lower_binary, "Div", 0},
    {"elu", lower_slope, "Elu", 1},
    {"eq", lower_binary, "Equal", 1},
    {"erf", lower_unary, "Erf", 0},
    {"exp", lower_unary, "Exp", 0},
    {"floor", lower_unary, "Floor", 0},
    {"ge", lower_binary, "GreaterOrEqual", 1},
    {"gelu", lower_gelu, "Gelu", 0},
    {"group_norm", lower_group_norm, "GroupNormalization", 0},
    {"gt", lower_binary, "Greater", 1},
    {"hardsigmoid", lower_hard_sigmoid, NULL, 0},
    {"hardswish", lower_unary, "HardSwish", 0},
    {"hardtanh", lower_clip, NULL, 0},
    {"instance_norm", lower_group_norm, "InstanceNormalization", 0},
    {"layer_norm", lower_layer_norm, "LayerNormalization", 0},
    {"le", lower_binary, "LessOrEqual", 1},
    {"leaky_relu", lower_slope, "LeakyRelu", 0.01},
    {"linear", lower_linear, NULL, 0},
    {"log", lower_unary, "Log", 0},
    {"log_softmax", lower_softmax, "LogSoftmax", 0},
    {"logical_and", lower_binary, "And", 2},
    {"logical_not", lower_unary, "Not", 0},
    {"logical_or", lower_binary, "Or", 2},
    {"logical_xor", lower_binary, "Xor", 2},
    {"lt", lower_binary, "Less", 1},
    {"masked_fill", lower_where, NULL, 1},
    {"matmul", lower_matmul, "MatMul", 0},
    {"max_pool1d", lower_pool, "MaxPool", 0},
    {"max_pool2d", lower_pool, "MaxPool", 0},
    {"max_pool2d_with_indices", lower_pool, "MaxPool", 0},
    {"max_pool3d", lower_pool, "MaxPool", 0},
    {"maximum", lower_binary, "Max", 0},
    {"minimum", lower_binary, "Min", 0},
    {"mish", lower_unary, "Mish", 0},
    {"mm", lower_matmul, "MatMul", 0},
    {"mul", lower_binary, "Mul", 0},
    {"native_batch_norm", lower_batch_norm, NULL, 0},
    {"native_group_norm", lower_group_norm, "GroupNormalization", 0},
    {"native_layer_norm", lower_layer_norm, "LayerNormalization", 0},
    {"ne", lower_binary, "NotEqual", 1},
    {"neg", lower_unary, "Neg", 0},
    {"pow", lower_binary, "Pow", 0},
    {"reciprocal", lower_unary, "Reciprocal", 0},
    {"relu", lower_unary, "Relu", 0},
    {"relu6", lower_clip, NULL, 6},
    {"rms_norm", lower_layer_norm, "RMSNormalization", 0},
    {"round", lower_unary, "Round", 0},
    {"rsqrt", lower_rsqrt, NULL, 0},
    {"rsub", lower_add, "Sub", 0},
    {"scaled_dot_product_attention", lower_attention, NULL, 0},
    {"selu", lower_unary, "Selu", 0},
    {"sigmoid", lower_unary, "Sigmoid", 0},
    {"sign", lower_unary, "Sign", 0},
    {"silu", lower_silu, NULL, 0},
    {"sin", lower_unary, "Sin", 0},
    {"sinh", lower_unary, "Sinh", 0},
    {"softmax", lower_softmax, "Softmax", 0},
    {"softplus", lower_softplus, "Softplus", 0},
    {"sqrt", lower_unary, "Sqrt", 0},
    {"sub", lower_add, "Sub", 0},
    {"tan", lower_unary, "Tan", 0},
    {"tanh", lower_unary, "Tanh", 0},
    {"where", lower_where, NULL, 0},
};
/* clang-format on */

static const pt2_rule *lower_find(const char *base) {
    size_t low = 0, high = sizeof lower_rules / sizeof *lower_rules;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(lower_rules[middle].name, base);
        if (order == 0) return &lower_rules[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return tn__pt2_move_rule(base);
}

tn_status tn__pt2_lower(pt2_reader *reader, bool *done) {
    char base[sizeof reader->base];
    size_t length = strlen(reader->base);
    *done = false;
    if (strcmp(reader->domain, "aten") != 0 || reader->make_count == 0) return TN_OK;
    const char *overload = strchr(reader->type, '.');
    /* an overload such as add.out writes its result into an operand, so it has no rule */
    if (overload != NULL && strstr(overload, "out") != NULL) return TN_OK;
    /* An in-place operator ("add_") has the rule of its functional form ("add"). Its result is a
     * new tensor, which stands for the changed operand from then on. */
    memcpy(base, reader->base, length + 1);
    if (length > 1 && base[length - 1] == '_' && base[0] != '_') base[length - 1] = '\0';
    const pt2_rule *rule = lower_find(base);
    return rule != NULL ? rule->lower(reader, rule, done) : TN_OK;
}
