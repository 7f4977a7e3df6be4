/* gradient_einsum.c - the gradient of an Einsum is an Einsum with the given gradient in place of
 * the operand: "ij,jk->ik" by its first operand is "ik,jk->ij". The other operands are kept.
 *
 * An ellipsis is first replaced by labels of its own. If a label occurs only in this operand, it
 * was summed over: the gradient is constant along it, and is expanded. A dimension of extent 1 that
 * was repeated is summed over. If an operand has a label twice (a diagonal), the second becomes a
 * label of its own, tied to the first by a unit matrix: "ii->i" by "i,iA->iA".
 */
#include <stdio.h>

#include "graph/gradients/gradients.h"

#define EINSUM_LENGTH 512u /* limit of an equation; exporters write about twenty characters */
#define EINSUM_LABELS 52u  /* a to z, A to Z */

typedef struct einsum_terms {
    char text[EINSUM_LENGTH]; /* without blanks; terms end with 0 */
    size_t used;
    const char **term; /* [count] terms of the operands, then that of the output */
    uint32_t count;
    int64_t extent[128]; /* extent of a label; 0: the label is not used */
} einsum_terms;

static bool einsum_is_label(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* The k-th of all possible labels. */
static char einsum_label(uint32_t k) { return (char)(k < 26 ? 'A' + k : 'a' + (k - 26)); }

/* A label that no term has yet, or 0. */
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

/* How many dimensions the ellipsis of a term stands for, in a tensor of this rank; -1: the term
 * does not fit. */
static int64_t einsum_hidden(const char *term, size_t length, uint32_t rank) {
    uint32_t labels = 0, dots = 0;
    for (size_t i = 0; i < length; i++) {
        labels += einsum_is_label(term[i]);
        dots += term[i] == '.';
    }
    if (dots == 3 && labels <= rank) return (int64_t)rank - labels;
    return dots == 0 && labels == rank ? 0 : -1;
}

/* Copies a term of `length` characters; the labels of an ellipsis are the last of `hidden`. */
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

/* Without "->": the ellipsis, then every label that stands once, in the order of the alphabet. */
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
    for (int pass = 0; pass < 2; pass++) { /* how long ellipses are; then the terms */
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

/* The extents of labels: the largest, as 1 is repeated. */
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

typedef struct einsum_made { /* the Einsum that gives a gradient */
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

/* What of the operand's dimensions the Einsum gives, and by which terms. */
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
