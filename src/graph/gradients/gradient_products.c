/* gradient_products.c - gradients of products of matrices and of Einsum.
 *
 * If one matrix serves a whole batch (a linear layer), the batch is folded into the rows, so its
 * gradient is one product, which also sums over the batch.
 */
#include "graph/gradients/gradients.h"

#include <stdio.h>

/* --- gradients of matrix products and of Einsum ----------------------------------------------- */

/* Gradient of Gemm: y = alpha a' b' + beta c, where a' and b' may be transposed. */

static tn_status matmul_gemm(tn_gradient *it, tn_tensor_id a, tn_tensor_id b, int64_t flip_a,
                             int64_t flip_b, double alpha, tn_tensor_id *output) {
    const tn_attr attrs[] = {TN__ATTR_INT("transA", &flip_a), TN__ATTR_INT("transB", &flip_b),
                             TN__ATTR_FLOAT("alpha", &alpha)};
    return tn__gradient_op(it, "Gemm", TN__LIST(a, b), attrs, 3, output);
}

tn_status tn__gradient_gemm(tn_gradient *it) {
    tn_tensor_id dy = it->given[0], a = it->op.inputs[0], b = it->op.inputs[1];
    int64_t flip_a = tn__attr_int(&it->op, "transA", 0) != 0;
    int64_t flip_b = tn__attr_int(&it->op, "transB", 0) != 0;
    double alpha = tn__attr_float(&it->op, "alpha", 1), beta = tn__attr_float(&it->op, "beta", 1);
    if (it->wanted[1])
        TN_TRY(flip_b ? matmul_gemm(it, dy, a, 1, flip_a, alpha, &it->found[1])
                      : matmul_gemm(it, a, dy, !flip_a, 0, alpha, &it->found[1]));
    if (it->wanted[0])
        TN_TRY(flip_a ? matmul_gemm(it, b, dy, flip_b, 1, alpha, &it->found[0])
                      : matmul_gemm(it, dy, b, 0, !flip_b, alpha, &it->found[0]));
    if (!tn__gradient_wants(it, 2)) return TN_OK;
    TN_TRY(tn__gradient_unbroadcast(it, 0, 2, dy));
    if (beta == 1) return TN_OK;
    tn_tensor_id factor, sum = it->found[2];
    TN_TRY(tn__gradient_number(it, tn__gradient_input(it, 2).dtype, beta, &factor));
    return tn__gradient_op(it, "Mul", TN__LIST(sum, factor), NULL, 0, &it->found[2]);
}

/* MatMul */

/* Reshapes a tensor to a matrix [rows, columns]: the last dimension gives the columns, all others
 * the rows. */
static tn_status matmul_flat(tn_gradient *it, tn_tensor_id id, uint32_t rank, int64_t columns,
                             tn_tensor_id *flat) {
    const int64_t shape[] = {-1, columns};
    tn_tensor_id list;
    *flat = id;
    if (rank == 2) return TN_OK;
    TN_TRY(tn__gradient_list(it, shape, 2, &list));
    return tn__gradient_op(it, "Reshape", TN__LIST(id, list), NULL, 0, flat);
}

/* Gradient of the product of a tensor a [..., n, k] with one matrix b [k, m]. */
static tn_status matmul_linear(tn_gradient *it) {
    tn_tensor a = tn__gradient_input(it, 0), b = tn__gradient_input(it, 1);
    tn_tensor_id dy, x, product;
    TN_TRY(matmul_flat(it, it->given[0], a.rank, b.shape[1], &dy));
    if (it->wanted[1]) {
        TN_TRY(matmul_flat(it, it->op.inputs[0], a.rank, b.shape[0], &x));
        TN_TRY(matmul_gemm(it, x, dy, 1, 0, 1, &it->found[1]));
    }
    if (!it->wanted[0]) return TN_OK;
    TN_TRY(matmul_gemm(it, dy, it->op.inputs[1], 0, 1, 1, &product));
    it->found[0] = product;
    return a.rank == 2 ? TN_OK : tn__gradient_reshaped(it, 0, product);
}

/* An operand as a matrix or a batch of matrices. A vector gets an additional dimension of 1. */
typedef struct matmul_matrix {
    tn_tensor_id id;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX];
} matmul_matrix;

static tn_status matmul_wide(tn_gradient *it, tn_tensor_id id, const tn_tensor *own, bool row,
                             bool column, matmul_matrix *side) {
    tn_tensor_id list;
    uint32_t from = own->rank;
    *side = (matmul_matrix){.id = id, .rank = own->rank + row + column};
    if (side->rank > TN_RANK_MAX) return tn__gradient_fail(it, "too many dimensions");
    for (uint32_t d = side->rank; d-- > 0;) {
        bool one = (column && d + 1 == side->rank) || (row && d + 2 == side->rank);
        side->shape[d] = one ? 1 : own->shape[--from];
    }
    if (!row && !column) return TN_OK;
    TN_TRY(tn__gradient_list(it, side->shape, side->rank, &list));
    return tn__gradient_op(it, "Reshape", TN__LIST(id, list), NULL, 0, &side->id);
}

/* Sums over the batch dimensions along which the input was repeated, and sets the input's
 * gradient. */
static tn_status matmul_settle(tn_gradient *it, uint32_t input, const matmul_matrix *own,
                               const matmul_matrix *y, tn_tensor_id product) {
    int64_t axes[TN_RANK_MAX], keep = 0;
    uint32_t count = 0;
    for (uint32_t d = 0; d + 2 < y->rank; d++)
        if (d + own->rank < y->rank ||
            (own->shape[d + own->rank - y->rank] == 1 && y->shape[d] != 1))
            axes[count++] = d;
    it->found[input] = product;
    bool vector = own->id != it->op.inputs[input];
    if (count == 0) return vector ? tn__gradient_reshaped(it, input, product) : TN_OK;
    tn_tensor_id list, sum;
    TN_TRY(tn__gradient_list(it, axes, count, &list));
    TN_TRY(tn__gradient_op(it, "ReduceSum", TN__LIST(product, list),
                           &TN__ATTR_INT("keepdims", &keep), 1, &sum));
    return tn__gradient_reshaped(it, input, sum);
}

static tn_status matmul_batched(tn_gradient *it) {
    const int64_t yes = 1, no = 0;
    const tn_attr left[] = {TN__ATTR_INT("trans_a", &yes), TN__ATTR_INT("trans_b", &no)};
    const tn_attr right[] = {TN__ATTR_INT("trans_a", &no), TN__ATTR_INT("trans_b", &yes)};
    tn_tensor a = tn__gradient_input(it, 0), b = tn__gradient_input(it, 1);
    tn_tensor out = tn__gradient_output(it, 0);
    bool row = a.rank == 1, column = b.rank == 1;
    matmul_matrix x, w, y;
    tn_tensor_id product;
    TN_TRY(matmul_wide(it, it->op.inputs[0], &a, row, false, &x));
    TN_TRY(matmul_wide(it, it->op.inputs[1], &b, false, column, &w));
    TN_TRY(matmul_wide(it, it->given[0], &out, row, column, &y));
    if (it->wanted[1]) {
        TN_TRY(tn__gradient_own(it, "TransposedMatMul", TN__LIST(x.id, y.id), left, 2, &product));
        TN_TRY(matmul_settle(it, 1, &w, &y, product));
    }
    if (!it->wanted[0]) return TN_OK;
    TN_TRY(tn__gradient_own(it, "TransposedMatMul", TN__LIST(y.id, w.id), right, 2, &product));
    return matmul_settle(it, 0, &x, &y, product);
}

tn_status tn__gradient_matmul(tn_gradient *it) {
    tn_tensor a = tn__gradient_input(it, 0), b = tn__gradient_input(it, 1);
    return a.rank > 1 && b.rank == 2 ? matmul_linear(it) : matmul_batched(it);
}

/* --- Einsum ----------------------------------------------------------------------------------- */

/* The gradient of an Einsum is an Einsum with the given gradient in place of the operand:
 * "ij,jk->ik" by its first operand is "ik,jk->ij". The other operands are kept.
 *
 * An ellipsis is first replaced by labels of its own. If a label occurs only in this operand, it
 * was summed over: the gradient is constant along it, and is expanded. A dimension of extent 1 that
 * was repeated is summed over. If an operand has a label twice (a diagonal), the second becomes a
 * label of its own, tied to the first by a unit matrix: "ii->i" by "i,iA->iA".
 */

/* limit for the length of an equation; exporters write about twenty characters */
#define EINSUM_LENGTH 512u
#define EINSUM_LABELS 52u /* the letters a to z and A to Z */

typedef struct einsum_terms {
    char text[EINSUM_LENGTH]; /* the equation without blanks; each term ends with a 0 character */
    size_t used;
    const char **term; /* [count] the terms of the operands, then the term of the output */
    uint32_t count;
    int64_t extent[128]; /* extent of each label; 0: the label is not used */
} einsum_terms;

static bool einsum_is_label(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* The k-th of all possible labels. */
static char einsum_label(uint32_t k) { return (char)(k < 26 ? 'A' + k : 'a' + (k - 26)); }

/* Returns a label that no term uses yet, or 0 if all labels are used. */
static char einsum_fresh(einsum_terms *terms, const char *equation, int64_t extent) {
    for (uint32_t k = 0; k < EINSUM_LABELS; k++) {
        char c = einsum_label(k);
        if (strchr(equation, c) != NULL || terms->extent[(int)c] != 0) continue;
        terms->extent[(int)c] = extent;
        return c;
    }
    return 0;
}

static bool einsum_put(einsum_terms *terms, char c) {
    if (terms->used + 1 >= EINSUM_LENGTH) return false;
    terms->text[terms->used++] = c;
    return true;
}

/* The number of dimensions that the ellipsis of a term stands for in a tensor of this rank; -1 if
 * the term does not fit the rank. */
static int64_t einsum_hidden(const char *term, size_t length, uint32_t rank) {
    uint32_t labels = 0, dots = 0;
    for (size_t i = 0; i < length; i++) {
        labels += einsum_is_label(term[i]);
        dots += term[i] == '.';
    }
    if (dots == 3 && labels <= rank) return (int64_t)rank - labels;
    return dots == 0 && labels == rank ? 0 : -1;
}

/* Copies a term of `length` characters and replaces its ellipsis by the last labels of `hidden`. */
static bool einsum_copy(einsum_terms *terms, const char *term, size_t length, const char *hidden,
                        int64_t own) {
    size_t all = strlen(hidden);
    bool fits = true;
    for (size_t i = 0; i < length; i++) {
        if (einsum_is_label(term[i])) fits = fits && einsum_put(terms, term[i]);
        if (term[i] != '.' || i + 2 >= length || term[i + 1] != '.' || term[i + 2] != '.') continue;
        for (size_t k = all - (size_t)own; k < all; k++)
            fits = fits && einsum_put(terms, hidden[k]);
    }
    return fits && einsum_put(terms, 0);
}

/* Writes the output term of an equation without "->": first the ellipsis, then all labels that
 * occur exactly once, in alphabetical order. */
static void einsum_implicit(const char *equation, char *output) {
    size_t count = 0;
    if (strchr(equation, '.') != NULL)
        for (; count < 3; count++) output[count] = '.';
    for (uint32_t k = 0; k < EINSUM_LABELS; k++) {
        const char *at = strchr(equation, einsum_label(k));
        if (at != NULL && strchr(at + 1, *at) == NULL) output[count++] = *at;
    }
    output[count] = 0;
}

static tn_status einsum_read(tn_gradient *it, einsum_terms *terms) {
    const char *equation = tn__attr_string(&it->op, "equation", "");
    const char *arrow = strstr(equation, "->"), *end = arrow != NULL ? arrow : strchr(equation, 0);
    char hidden[TN_RANK_MAX + 1] = {0}, implicit[EINSUM_LABELS + 4];
    int64_t own[TN_RANK_MAX + 1] = {0}, most = 0;
    uint32_t count = 0;
    if (terms->count > TN_RANK_MAX) return tn__gradient_fail(it, "too many operands");
    /* the first pass finds the length of the ellipses, the second writes the terms */
    for (int pass = 0; pass < 2; pass++) {
        const char *from = equation;
        for (count = 0; from <= end; count++) {
            const char *to = memchr(from, ',', (size_t)(end - from));
            if (to == NULL) to = end;
            if (count >= terms->count) return tn__gradient_fail(it, "more terms than operands");
            uint32_t rank = tn__gradient_input(it, count).rank;
            if (pass == 0) own[count] = einsum_hidden(from, (size_t)(to - from), rank);
            if (own[count] < 0) return tn__gradient_fail(it, "term %u does not fit", count);
            if (own[count] > most) most = own[count];
            terms->term[count] = terms->text + terms->used;
            if (pass == 1 && !einsum_copy(terms, from, (size_t)(to - from), hidden, own[count]))
                return tn__gradient_fail(it, "the equation is too long");
            from = to + 1;
        }
        for (int64_t k = 0; pass == 0 && k < most; k++)
            if ((hidden[k] = einsum_fresh(terms, equation, 1)) == 0)
                return tn__gradient_fail(it, "there are not enough labels");
    }
    if (count != terms->count)
        return tn__gradient_fail(it, "%u terms for %u operands", count, terms->count);
    einsum_implicit(equation, implicit);
    const char *output = arrow != NULL ? arrow + 2 : implicit;
    terms->term[count] = terms->text + terms->used;
    return einsum_copy(terms, output, strlen(output), hidden, most)
               ? TN_OK
               : tn__gradient_fail(it, "the equation is too long");
}

/* Finds the extent of each label: the largest extent among the operands, since an extent of 1 is
 * repeated. */
static tn_status einsum_extents(tn_gradient *it, einsum_terms *terms) {
    const char *output = terms->term[terms->count];
    for (uint32_t i = 0; i < terms->count; i++) {
        tn_tensor tensor = tn__gradient_input(it, i);
        if (strlen(terms->term[i]) != tensor.rank)
            return tn__gradient_fail(it, "the term '%.60s' is not of rank %u", terms->term[i],
                                     tensor.rank);
        for (uint32_t d = 0; d < tensor.rank; d++) {
            int64_t *extent = &terms->extent[(int)terms->term[i][d]];
            if (*extent == 0 || tensor.shape[d] != 1) *extent = tensor.shape[d];
        }
    }
    for (const char *c = output; *c != 0; c++)
        if (strchr(c + 1, *c) != NULL || strlen(output) != tn__gradient_output(it, 0).rank)
            return tn__gradient_fail(it, "no gradient for the output '%.60s'", output);
    return TN_OK;
}

static bool einsum_elsewhere(const einsum_terms *terms, uint32_t input, char label) {
    for (uint32_t i = 0; i <= terms->count; i++)
        if (i != input && strchr(terms->term[i], label) != NULL) return true;
    return false;
}

typedef struct einsum_made { /* the Einsum that computes a gradient */
    char terms[2 * EINSUM_LENGTH], labels[TN_RANK_MAX + 1];
    tn_tensor_id *operands;
    uint32_t operand_count, known;
    int64_t narrow[TN_RANK_MAX];
} einsum_made;

static tn_status einsum_diagonal(tn_gradient *it, einsum_terms *terms, einsum_made *made,
                                 char label, uint32_t d) {
    const int64_t shape[] = {made->narrow[d], made->narrow[d]};
    char *equation = strchr(made->terms, 0);
    tn_tensor_id zero, list, like;
    char fresh = einsum_fresh(terms, "", shape[0]);
    if (fresh == 0) return tn__gradient_fail(it, "there are not enough labels");
    TN_TRY(tn__gradient_number(it, tn__gradient_output(it, 0).dtype, 0, &zero));
    TN_TRY(tn__gradient_list(it, shape, 2, &list));
    TN_TRY(tn__gradient_op(it, "Expand", TN__LIST(zero, list), NULL, 0, &like));
    TN_TRY(tn__gradient_op(it, "EyeLike", TN__LIST(like), NULL, 0,
                           &made->operands[made->operand_count++]));
    snprintf(equation, sizeof made->terms - (size_t)(equation - made->terms), ",%c%c", label,
             fresh);
    made->labels[made->known++] = fresh;
    return TN_OK;
}

/* Finds the dimensions of an operand that an Einsum can compute, and the terms of that Einsum. */
static tn_status einsum_terms_of(tn_gradient *it, einsum_terms *terms, uint32_t input,
                                 einsum_made *made) {
    const char *term = terms->term[input];
    tn_tensor x = tn__gradient_input(it, input);
    int at = snprintf(made->terms, sizeof made->terms, "%s", terms->term[terms->count]);
    made->operands[made->operand_count++] = it->given[0];
    for (uint32_t i = 0; i < terms->count; i++) {
        if (i == input) continue;
        at += snprintf(made->terms + at, sizeof made->terms - (size_t)at, ",%s", terms->term[i]);
        made->operands[made->operand_count++] = it->op.inputs[i];
    }
    for (uint32_t d = 0; d < x.rank; d++) {
        bool again = memchr(term, term[d], d) != NULL, whole = x.shape[d] != 1;
        made->narrow[d] = x.shape[d];
        whole = whole || terms->extent[(int)term[d]] == 1;
        if (again && whole && !einsum_elsewhere(terms, input, term[d]))
            return tn__gradient_fail(it, "no gradient for the trace '%.60s'", term);
        if (again && whole)
            TN_TRY(einsum_diagonal(it, terms, made, term[d], d));
        else if (!again && whole && einsum_elsewhere(terms, input, term[d]))
            made->labels[made->known++] = term[d];
        else
            made->narrow[d] = 1;
    }
    made->labels[made->known] = 0;
    return TN_OK;
}

static tn_status einsum_operand(tn_gradient *it, einsum_terms *terms, uint32_t input,
                                tn_tensor_id *operands) {
    tn_tensor x = tn__gradient_input(it, input);
    einsum_made made = {.operands = operands};
    char equation[sizeof made.terms + sizeof made.labels + 4];
    const char *text = equation;
    tn_tensor_id gradient, list;
    TN_TRY(einsum_terms_of(it, terms, input, &made));
    snprintf(equation, sizeof equation, "%s->%s", made.terms, made.labels);
    TN_TRY(tn__gradient_op(it, "Einsum", operands, made.operand_count,
                           &TN__ATTR_STRING("equation", &text), 1, &gradient));
    it->found[input] = gradient;
    if (made.known == x.rank) return TN_OK;
    TN_TRY(tn__gradient_list(it, made.narrow, x.rank, &list));
    TN_TRY(tn__gradient_op(it, "Reshape", TN__LIST(gradient, list), NULL, 0, &gradient));
    TN_TRY(tn__gradient_list(it, x.shape, x.rank, &list));
    return tn__gradient_op(it, "Expand", TN__LIST(gradient, list), NULL, 0, &it->found[input]);
}

tn_status tn__gradient_einsum(tn_gradient *it) {
    const tn_context *context = tn_graph_context(it->graph);
    uint32_t count = it->op.input_count, room = count + TN_RANK_MAX + 1;
    einsum_terms terms = {.count = count};
    terms.term = tn__alloc_array(context, count + 1u, sizeof *terms.term);
    tn_tensor_id *operands = tn__alloc_array(context, room, sizeof *operands);
    tn_status status = terms.term == NULL || operands == NULL
                           ? tn__no_memory(it->error, "a gradient")
                           : einsum_read(it, &terms);
    if (status == TN_OK) status = einsum_extents(it, &terms);
    for (uint32_t i = 0; i < count && status == TN_OK; i++)
        if (it->wanted[i]) status = einsum_operand(it, &terms, i, operands);
    tn__free(context, operands, room * sizeof *operands);
    tn__free(context, terms.term, (count + 1u) * sizeof *terms.term);
    return status;
}
