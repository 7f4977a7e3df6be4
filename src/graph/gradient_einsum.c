/* gradient_einsum.c - the gradient of an Einsum is an Einsum: what is given in the place of the
 * operand, "ij,jk->ik" by its first operand "ik,jk->ij". Keeps the other operands.
 *
 * A label of the operand that stands nowhere else was summed over by itself: there the gradient is
 * the same everywhere, and expanded.
 */
#include <stdio.h>

#include "graph/gradients.h"

#define EINSUM_LENGTH 256u

typedef struct einsum_terms {
    char text[EINSUM_LENGTH]; /* without blanks; terms end with 0 */
    const char **term;        /* [count] of the operands */
    uint32_t count;
    char output[EINSUM_LENGTH];
} einsum_terms;

static bool einsum_is_label(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* Without "->": every label that stands once, in the order of the alphabet. */
static void einsum_implicit(const char *text, char *output) {
    size_t count = 0;
    for (char c = 'A'; c <= 'z'; c++) {
        const char *at = strchr(text, c);
        if (einsum_is_label(c) && at != NULL && strchr(at + 1, c) == NULL) output[count++] = c;
    }
    output[count] = 0;
}

static tn_status einsum_read(tn_gradient *it, einsum_terms *terms) {
    const char *equation = tn__gradient_string(it, "equation", "");
    size_t length = 0;
    if (strlen(equation) >= EINSUM_LENGTH || strchr(equation, '.') != NULL)
        return tn__gradient_fail(it, "no gradient for an equation with an ellipsis, or this long");
    for (const char *c = equation; *c != 0; c++)
        if (*c != ' ') terms->text[length++] = *c;
    terms->text[length] = 0;
    char *arrow = strstr(terms->text, "->");
    if (arrow != NULL) {
        strcpy(terms->output, arrow + 2);
        *arrow = 0;
    } else {
        einsum_implicit(terms->text, terms->output);
    }
    uint32_t count = 0;
    terms->term[count++] = terms->text;
    for (char *c = terms->text; *c != 0; c++) {
        if (*c != ',') continue;
        *c = 0;
        if (count < terms->count) terms->term[count] = c + 1;
        count++;
    }
    if (count != terms->count)
        return tn__gradient_fail(it, "%u terms for %u operands", count, terms->count);
    return TN_OK;
}

/* Labels stand once in a term, and an operand's extents are all those of the output and the others:
 * no diagonals, nothing repeated. */
static tn_status einsum_check(tn_gradient *it, const einsum_terms *terms) {
    int64_t extents[128];
    for (uint32_t c = 0; c < 128; c++) extents[c] = -1;
    for (uint32_t i = 0; i <= terms->count; i++) {
        const char *term = i < terms->count ? terms->term[i] : terms->output;
        tn_tensor tensor =
            i < terms->count ? tn__gradient_input(it, i) : tn__gradient_output(it, 0);
        if (strlen(term) != tensor.rank)
            return tn__gradient_fail(it, "the term '%.60s' is not of rank %u", term, tensor.rank);
        for (uint32_t d = 0; d < tensor.rank; d++) {
            int64_t *extent = &extents[(unsigned char)term[d] & 127];
            if (!einsum_is_label(term[d]) || strchr(term + d + 1, term[d]) != NULL)
                return tn__gradient_fail(it, "no gradient for the term '%.60s'", term);
            if (*extent >= 0 && *extent != tensor.shape[d])
                return tn__gradient_fail(it, "no gradient where label '%c' is repeated", term[d]);
            *extent = tensor.shape[d];
        }
    }
    return TN_OK;
}

static bool einsum_elsewhere(const einsum_terms *terms, uint32_t input, char label) {
    if (strchr(terms->output, label) != NULL) return true;
    for (uint32_t i = 0; i < terms->count; i++)
        if (i != input && strchr(terms->term[i], label) != NULL) return true;
    return false;
}

/* "output,others->labels" */
static void einsum_equation(const einsum_terms *terms, uint32_t input, const char *labels,
                            char *equation, size_t size) {
    int at = snprintf(equation, size, "%s", terms->output);
    for (uint32_t i = 0; i < terms->count; i++)
        if (i != input) at += snprintf(equation + at, size - (size_t)at, ",%s", terms->term[i]);
    snprintf(equation + at, size - (size_t)at, "->%s", labels);
}

static tn_status einsum_operand(tn_gradient *it, const einsum_terms *terms, uint32_t input,
                                tn_tensor_id *operands) {
    tn_tensor x = tn__gradient_input(it, input);
    char labels[TN_RANK_MAX + 1], equation[3 * EINSUM_LENGTH];
    const char *text = equation;
    int64_t narrow[TN_RANK_MAX];
    uint32_t known = 0, count = 0;
    for (uint32_t d = 0; d < x.rank; d++) {
        bool shared = einsum_elsewhere(terms, input, terms->term[input][d]);
        narrow[d] = shared ? x.shape[d] : 1;
        if (shared) labels[known++] = terms->term[input][d];
    }
    labels[known] = 0;
    einsum_equation(terms, input, labels, equation, sizeof equation);
    operands[count++] = it->given[0];
    for (uint32_t i = 0; i < terms->count; i++)
        if (i != input) operands[count++] = it->op.inputs[i];
    tn_tensor_id made, list;
    TN_TRY(tn__gradient_op(it, "Einsum", operands, count, &TN__ATTR_STRING("equation", &text), 1,
                           &made));
    it->found[input] = made;
    if (known == x.rank) return TN_OK;
    TN_TRY(tn__gradient_list(it, narrow, x.rank, &list));
    TN_TRY(tn__gradient_op(it, "Reshape", TN__LIST(made, list), NULL, 0, &made));
    x = tn__gradient_input(it, input);
    TN_TRY(tn__gradient_list(it, x.shape, x.rank, &list));
    return tn__gradient_op(it, "Expand", TN__LIST(made, list), NULL, 0, &it->found[input]);
}

tn_status tn__gradient_einsum(tn_gradient *it) {
    const tn_context *context = tn_graph_context(it->graph);
    uint32_t count = it->op.input_count;
    einsum_terms terms = {.count = count};
    terms.term = tn__alloc_array(context, count, sizeof *terms.term);
    tn_tensor_id *operands = tn__alloc_array(context, count + 1u, sizeof *operands);
    tn_status status = terms.term == NULL || operands == NULL
                           ? tn__no_memory(it->error, "a gradient")
                           : einsum_read(it, &terms);
    if (status == TN_OK) status = einsum_check(it, &terms);
    for (uint32_t i = 0; i < count && status == TN_OK; i++)
        if (it->wanted[i]) status = einsum_operand(it, &terms, i, operands);
    tn__free(context, operands, (count + 1u) * sizeof *operands);
    tn__free(context, terms.term, count * sizeof *terms.term);
    return status;
}
