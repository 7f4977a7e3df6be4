/* einsum.c - Einsum and Det.
 *
 * A label of an Einsum equation is a dimension with one stride per operand: 0 if the operand does
 * not have the label, and the sum of both strides if it has the label twice (a diagonal). Axes
 * under an ellipsis get labels of their own. For every element of the output, the products of one
 * element per operand are summed over the labels that the output does not have. Sums are in
 * float64, or in 64-bit integers that wrap around.
 *
 * Det uses elimination with partial pivoting, in a float64 copy in scratch memory.
 * Cost:   Einsum O(product of all extents); Det O(n^3).
 * Source: the ONNX specifications, opsets 11 to 12.
 */
#include <ctype.h>
#include <math.h>

#include "engine/kernels/loops/box.h"

enum { EINSUM_OPERANDS = 16, EINSUM_LABELS = 52 + TN_RANK_MAX };

typedef struct einsum_plan {
    /* `dots`: number of axes that an ellipsis in the equation stands for */
    uint32_t operands, dots;
    /* extent of each label; -1: the equation does not use the label */
    int64_t extent[EINSUM_LABELS];
    /* strides of each operand along each label, in elements */
    int64_t stride[EINSUM_OPERANDS][EINSUM_LABELS];
    /* `order`: first the output's labels, then the labels that are summed; `outer`: number of the
     * output's labels; `all`: number of all labels */
    uint32_t order[EINSUM_LABELS], outer, all;
} einsum_plan;

/* Returns the number of a letter's label, 0 to 51. Labels from 52 on are the axes under the
 * ellipsis, counted from the last axis. */
static uint32_t einsum_letter(char c) {
    return islower((unsigned char)c) ? (uint32_t)(c - 'a') : (uint32_t)(c - 'A') + 26;
}

/* Counts the letters of a term of the equation, and finds out whether it has an ellipsis. */
static tn_status einsum_count(const tn_kernel_call *call, const char *term, size_t length,
                              uint32_t *letters, bool *dots) {
    *letters = 0;
    *dots = false;
    for (size_t i = 0; i < length; i++) {
        if (term[i] == ' ') continue;
        if (isalpha((unsigned char)term[i])) {
            ++*letters;
        } else if (term[i] == '.' && !*dots && length - i >= 3 &&
                   strncmp(term + i, "...", 3) == 0) {
            *dots = true;
            i += 2;
        } else {
            return tn__call_fail(call, TN_E_INVALID, "character '%c' in the equation", term[i]);
        }
    }
    return TN_OK;
}

static tn_status einsum_add_label(const tn_kernel_call *call, einsum_plan *plan, uint32_t operand,
                                  uint32_t label, int64_t extent, int64_t stride) {
    int64_t *own = &plan->extent[label];
    if (*own >= 0 && *own != extent && extent != 1 && *own != 1)
        return tn__call_fail(call, TN_E_INVALID, "a label has extents %lld and %lld",
                             (long long)*own, (long long)extent);
    if (*own < 0 || *own == 1) *own = extent;
    if (extent != 1) plan->stride[operand][label] += stride;
    return TN_OK;
}

static tn_status einsum_operand(const tn_kernel_call *call, einsum_plan *plan, uint32_t index,
                                const char *term, size_t length) {
    const tn_operand *operand = &call->inputs[index];
    uint32_t letters, axis = 0;
    bool dots;
    int64_t strides[TN_RANK_MAX], stride = 1;
    TN_TRY(einsum_count(call, term, length, &letters, &dots));
    if (dots ? operand->rank < letters : operand->rank != letters)
        return tn__call_fail(call, TN_E_INVALID, "operand %u of rank %u has %u labels", index,
                             operand->rank, letters);
    for (uint32_t d = operand->rank; d-- > 0; stride *= operand->shape[d]) strides[d] = stride;
    uint32_t hidden = operand->rank - letters;
    if (dots && hidden > plan->dots) plan->dots = hidden;
    for (size_t i = 0; i < length; i++) {
        if (isalpha((unsigned char)term[i])) {
            TN_TRY(einsum_add_label(call, plan, index, einsum_letter(term[i]), operand->shape[axis],
                                    strides[axis]));
            axis++;
        } else if (term[i] == '.') {
            for (uint32_t k = hidden; k-- > 0; axis++)
                TN_TRY(einsum_add_label(call, plan, index, 52 + k, operand->shape[axis],
                                        strides[axis]));
            i += 2;
        }
    }
    return TN_OK;
}

static void einsum_dots(einsum_plan *plan) {
    for (uint32_t k = plan->dots; k-- > 0;) plan->order[plan->outer++] = 52 + k;
}

/* Reads the labels of the output, which are written after "->". */
static tn_status einsum_written(const tn_kernel_call *call, einsum_plan *plan, const char *term) {
    uint32_t letters;
    bool dots;
    TN_TRY(einsum_count(call, term, strlen(term), &letters, &dots));
    if (letters > 52) return tn__call_fail(call, TN_E_INVALID, "an output of %u labels", letters);
    for (; *term != 0; term++) {
        if (isalpha((unsigned char)*term)) {
            uint32_t label = einsum_letter(*term);
            for (uint32_t i = 0; i < plan->outer; i++)
                if (plan->order[i] == label)
                    return tn__call_fail(call, TN_E_INVALID, "the output has '%c' twice", *term);
            if (plan->extent[label] < 0)
                return tn__call_fail(call, TN_E_INVALID, "no operand has '%c'", *term);
            plan->order[plan->outer++] = label;
        } else if (*term == '.') {
            einsum_dots(plan);
            term += 2;
        }
    }
    return TN_OK;
}

/* Chooses the labels of the output if the equation has no "->": those of the ellipsis, then each
 * letter that occurs once, in the order A to Z, a to z. */
static void einsum_implied(einsum_plan *plan, const char *equation) {
    uint32_t seen[52] = {0};
    einsum_dots(plan);
    for (; *equation != 0; equation++)
        if (isalpha((unsigned char)*equation)) seen[einsum_letter(*equation)]++;
    for (uint32_t i = 0; i < 52; i++) {
        uint32_t label = (i + 26) % 52;
        if (seen[label] == 1) plan->order[plan->outer++] = label;
    }
}

static tn_status einsum_read(const tn_kernel_call *call, einsum_plan *plan) {
    const char *equation = tn__attr_string(call->op, "equation", "");
    const char *arrow = strstr(equation, "->"), *term = equation;
    const char *end = arrow != NULL ? arrow : equation + strlen(equation);
    plan->operands = call->input_count;
    for (uint32_t i = 0; i < EINSUM_LABELS; i++) plan->extent[i] = -1;
    for (uint32_t k = 0; k < call->input_count; k++) {
        const char *comma = memchr(term, ',', (size_t)(end - term));
        if ((comma == NULL) != (k + 1 == call->input_count))
            return tn__call_fail(call, TN_E_INVALID, "the equation is not for %u operands",
                                 call->input_count);
        TN_TRY(tn__call_same_type(call, 0, k));
        TN_TRY(einsum_operand(call, plan, k, term, (size_t)((comma ? comma : end) - term)));
        term = comma != NULL ? comma + 1 : end;
    }
    if (arrow != NULL)
        TN_TRY(einsum_written(call, plan, arrow + 2));
    else
        einsum_implied(plan, equation);
    plan->all = plan->outer;
    for (uint32_t label = 0; label < EINSUM_LABELS; label++) {
        bool out = plan->extent[label] < 0;
        for (uint32_t i = 0; i < plan->outer && !out; i++) out = plan->order[i] == label;
        if (!out) plan->order[plan->all++] = label;
    }
    return TN_OK;
}

/* A sum of products: `real` for real types, `whole` for integer types. */
typedef struct einsum_sum {
    double real;
    uint64_t whole;
} einsum_sum;

static void einsum_run_of(const tn_kernel_call *call, const einsum_plan *plan, const int64_t *at,
                          uint32_t label, einsum_sum *sum) {
    tn_dtype dtype = call->inputs[0].dtype;
    int64_t count = label == TN_NONE ? 1 : plan->extent[label];
    bool real = tn__is_real(dtype), two = plan->operands == 2 && dtype == TN_FLOAT32;
    if (two && label != TN_NONE) {
        const float *a = (const float *)call->inputs[0].data + at[0];
        const float *b = (const float *)call->inputs[1].data + at[1];
        int64_t step_a = plan->stride[0][label], step_b = plan->stride[1][label];
        for (int64_t i = 0; i < count; i++)
            sum->real += (double)a[i * step_a] * (double)b[i * step_b];
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        einsum_sum product = {1, 1};
        for (uint32_t k = 0; k < plan->operands; k++) {
            int64_t place = at[k] + (label == TN_NONE ? 0 : i * plan->stride[k][label]);
            if (real)
                product.real *= tn__operand_float(&call->inputs[k], (uint64_t)place);
            else
                product.whole *= (uint64_t)tn__operand_int(&call->inputs[k], (uint64_t)place);
        }
        sum->real += product.real;
        sum->whole += product.whole;
    }
}

/* Moves to the next combination of the labels order[first] to order[last - 1], and updates the
 * position `at` in each operand. Returns false after the last combination. */
static bool einsum_step(const einsum_plan *plan, uint32_t first, uint32_t last, int64_t *place,
                        int64_t *at) {
    for (uint32_t i = last; i-- > first;) {
        uint32_t label = plan->order[i];
        bool more = ++place[i] < plan->extent[label];
        for (uint32_t k = 0; k < plan->operands; k++)
            at[k] += plan->stride[k][label] * (more ? 1 : 1 - place[i]);
        if (more) return true;
        place[i] = 0;
    }
    return false;
}

static tn_status einsum_run(tn_kernel_call *call) {
    einsum_plan plan = {0};
    int64_t shape[EINSUM_LABELS], place[EINSUM_LABELS] = {0}, at[EINSUM_OPERANDS] = {0};
    bool empty = false, nothing = false;
    TN_TRY(einsum_read(call, &plan));
    for (uint32_t i = 0; i < plan.all; i++) {
        shape[i] = plan.extent[plan.order[i]];
        empty = empty || (i < plan.outer && shape[i] == 0);
        nothing = nothing || (i >= plan.outer && shape[i] == 0);
    }
    TN_TRY(tn__call_shape(call, 0, plan.outer, shape));
    if (empty) return TN_OK;
    tn_operand *to = &call->outputs[0];
    char *out = to->data;
    uint32_t inner = plan.all > plan.outer ? plan.order[plan.all - 1] : TN_NONE;
    uint32_t last = inner == TN_NONE ? plan.all : plan.all - 1;
    do {
        einsum_sum sum = {0, 0};
        if (!nothing) {
            do einsum_run_of(call, &plan, at, inner, &sum);
            while (einsum_step(&plan, plan.outer, last, place, at));
        }
        if (tn__is_real(to->dtype))
            tn__store(to->dtype, out, sum.real);
        else
            tn__store_int(to->dtype, out, (int64_t)sum.whole);
        out += tn__width(to->dtype);
    } while (einsum_step(&plan, 0, plan.outer, place, at));
    return TN_OK;
}

static bool einsum_accepts(const tn_kernel_setup *setup) {
    return setup->op->input_count <= EINSUM_OPERANDS && tn__accepts_numbers(setup);
}

/* --- Det --- */

static double einsum_determinant(double *m, uint64_t n) {
    double result = 1;
    for (uint64_t column = 0; column < n; column++) {
        uint64_t pivot = column;
        for (uint64_t row = column + 1; row < n; row++)
            if (fabs(m[row * n + column]) > fabs(m[pivot * n + column])) pivot = row;
        double head = m[pivot * n + column];
        if (head == 0) return 0;
        result *= pivot == column ? head : -head;
        for (uint64_t i = column; i < n && pivot != column; i++) {
            double other = m[pivot * n + i];
            m[pivot * n + i] = m[column * n + i];
            m[column * n + i] = other;
        }
        for (uint64_t row = column + 1; row < n; row++) {
            double factor = m[row * n + column] / head;
            for (uint64_t i = column + 1; i < n; i++) m[row * n + i] -= factor * m[column * n + i];
        }
    }
    return result;
}

static tn_status einsum_det(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    uint32_t rank = from->rank, width = tn__width(from->dtype);
    if (rank < 2 || from->shape[rank - 1] != from->shape[rank - 2])
        return tn__call_fail(call, TN_E_INVALID, "these are not square matrices");
    TN_TRY(tn__call_shape(call, 0, rank - 2, from->shape));
    uint64_t n = (uint64_t)from->shape[rank - 1], count = tn__operand_span(from, 0, rank - 2);
    TN_TRY(tn__call_scratch(call, tn__mul_sat(n * n, sizeof(double))));
    double *matrix = call->workspace;
    for (uint64_t k = 0; k < count; k++) {
        for (uint64_t i = 0; i < n * n; i++) matrix[i] = tn__operand_float(from, k * n * n + i);
        tn__store(from->dtype, (char *)call->outputs[0].data + k * width,
                  einsum_determinant(matrix, n));
    }
    return TN_OK;
}

static uint64_t einsum_det_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *from = tn__setup_input(setup, 0);
    if (from == NULL || from->rank < 2 || from->rank > TN_RANK_MAX) return 0;
    int64_t n = from->shape[from->rank - 1];
    return n > 0 ? tn__mul_sat(tn__mul_sat((uint64_t)n, (uint64_t)n), sizeof(double)) : 0;
}

static const tn_kernel einsum_kernels[] = {
    {.type = "Det",
     .accepts = tn__accepts_numbers,
     .workspace = einsum_det_workspace,
     .run = einsum_det},
    {.type = "Einsum", .accepts = einsum_accepts, .run = einsum_run},
};

TN_KERNEL_FAMILY(einsum, "");
