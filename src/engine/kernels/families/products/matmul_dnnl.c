/* matmul_dnnl.c - matrix products by oneDNN: MatMul, Gemm, products of transposed factors, and the
 * product of domain "tenure", which has transposed operands and result, scale, bias, summand and
 * activation.
 *
 * Transposed operands are read directly, with strides. A batch of left matrices and one right
 * matrix are computed as one product with more rows. Weights are packed once, when the engine is
 * created. Only oneDNN's matmul primitive is used, because its inner product primitive packs on the
 * heap while it runs. On AVX2, this primitive is slow if it reads memory at distances that are
 * powers of two; then slices of the operands are first copied to rows of another length.
 */
#include "engine/kernels/dnnl.h"

/* An operand of the product: dimensions [batch..., rows, columns], each with its stride. */
typedef struct matmul_operand {
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX], strides[TN_RANK_MAX];
} matmul_operand;

typedef struct matmul_plan {
    matmul_operand a, b, y;
    uint32_t a_index, b_index;
    /* the bias, which is added after the scale is applied, with broadcasting; NULL: there is no
     * bias */
    const tn_tensor *bias;
    uint32_t bias_index;
    const tn_tensor *summand;
    uint32_t summand_index;
    double scale;
    tn__dnnl_after after;
} matmul_plan;

static bool matmul_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *a = tn__setup_input(setup, 0), *b = tn__setup_input(setup, 1);
    if (!tn__dnnl_all_fit(setup) || a == NULL || b == NULL || a->rank < 2 || b->rank < 2)
        return false;
    for (uint32_t i = 0; i < setup->op->input_count; i++) {
        const tn_tensor *input = tn__setup_input(setup, i);
        if (input != NULL && input->format.order == TN_ORDER_NHWC) return false;
    }
    const tn_tensor *y = tn__setup_output(setup, 0);
    return y != NULL && y->format.order != TN_ORDER_NHWC;
}

/* Describes a tensor with permuted dimensions: dimension d of the operand is dimension perm[d]
 * of the tensor, or the reverse if `inverse` is true. perm NULL: no permutation. */
static bool matmul_operand_of(const tn_tensor *tensor, const int64_t *perm, uint32_t perm_count,
                              bool inverse, matmul_operand *operand) {
    int64_t strides[TN_RANK_MAX];
    uint64_t seen = 0;
    if (perm != NULL && perm_count != tensor->rank) return false;
    operand->dtype = tensor->dtype;
    operand->rank = tensor->rank;
    tn__dnnl_strides(tensor, strides);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        int64_t at = perm != NULL ? perm[d] : (int64_t)d;
        if (at < 0 || at >= (int64_t)tensor->rank || (seen >> at & 1)) return false;
        seen |= UINT64_C(1) << at;
        uint32_t to = inverse ? (uint32_t)at : d, from = inverse ? d : (uint32_t)at;
        operand->shape[to] = tensor->shape[from];
        operand->strides[to] = strides[from];
    }
    return true;
}

/* Adds dimensions of extent 1 in front until the operand has `rank` dimensions. */
static void matmul_pad(matmul_operand *operand, uint32_t rank) {
    uint32_t more = rank - operand->rank;
    int64_t outer = 1;
    for (uint32_t d = 0; d < operand->rank; d++)
        if (operand->shape[d] * operand->strides[d] > outer)
            outer = operand->shape[d] * operand->strides[d];
    for (uint32_t d = operand->rank; d-- > 0;) {
        operand->shape[d + more] = operand->shape[d];
        operand->strides[d + more] = operand->strides[d];
    }
    for (uint32_t d = 0; d < more; d++) operand->shape[d] = 1, operand->strides[d] = outer;
    operand->rank = rank;
}

static void matmul_remove(matmul_operand *operand, uint32_t at) {
    operand->rank--;
    for (uint32_t d = at; d < operand->rank; d++) {
        operand->shape[d] = operand->shape[d + 1];
        operand->strides[d] = operand->strides[d + 1];
    }
}

/* Whether dimensions d and d + 1 can be merged: they are adjacent in memory, or one of them has
 * extent 1, so that its stride does not matter. */
static bool matmul_joins(const matmul_operand *operand, uint32_t d) {
    return operand->shape[d] == 1 || operand->shape[d + 1] == 1 ||
           operand->strides[d] == operand->shape[d + 1] * operand->strides[d + 1];
}

/* Merges dimensions d and d + 1; the result is dimension d + 1. */
static void matmul_join(matmul_operand *operand, uint32_t d) {
    if (operand->shape[d + 1] == 1) operand->strides[d + 1] = operand->strides[d];
    operand->shape[d + 1] *= operand->shape[d];
}

/* Removes batch dimensions of extent 1, and merges batch dimensions that are adjacent in all three
 * operands. If there is a single right matrix, the batch of the left operand is merged with its
 * rows. */
static void matmul_simplify(matmul_operand *a, matmul_operand *b, matmul_operand *y) {
    for (uint32_t d = 0; y->rank > 2 && d + 2 < y->rank;) {
        bool last = d + 3 == y->rank;
        bool ones = a->shape[d] == 1 && b->shape[d] == 1;
        bool rows = last && b->shape[d] == 1 && a->shape[d] == y->shape[d] && matmul_joins(a, d) &&
                    matmul_joins(y, d);
        bool same = !last && a->shape[d] == b->shape[d] && a->shape[d + 1] == b->shape[d + 1] &&
                    matmul_joins(a, d) && matmul_joins(b, d) && matmul_joins(y, d);
        bool left = !last && b->shape[d] == 1 && b->shape[d + 1] == 1 &&
                    a->shape[d] == y->shape[d] && a->shape[d + 1] == y->shape[d + 1] &&
                    matmul_joins(a, d) && matmul_joins(y, d);
        if (!ones && !rows && !same && !left) {
            d++;
            continue;
        }
        if (!ones) {
            matmul_join(a, d);
            matmul_join(y, d);
            if (same) matmul_join(b, d);
        }
        matmul_remove(a, d);
        matmul_remove(b, d);
        matmul_remove(y, d);
        d = 0;
    }
}

static tn_status matmul_desc(const tn__dnnl *library, const matmul_operand *operand,
                             dnnl_memory_desc_t *desc) {
    return tn__dnnl_strided(library, operand->dtype, operand->rank, operand->shape,
                            operand->strides, desc);
}

/* Describes a tensor that is added to a product, such as a bias or a residual, for oneDNN. `whole`
 * is the result as a tensor, `y` the result in the dimensions that oneDNN gets. Errors:
 * E_UNSUPPORTED (the tensor is neither of the result's shape nor one row, one column or one
 * number). */
static tn_status matmul_addend(const tn__dnnl *library, const tn_tensor *tensor,
                               const tn_tensor *whole, const matmul_operand *y,
                               dnnl_memory_desc_t *desc) {
    int64_t shape[TN_RANK_MAX], strides[TN_RANK_MAX], columns = y->shape[y->rank - 1];
    bool row = true, one = true, column;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (tensor->shape[d] == 1) continue;
        one = false;
        if (d + 1 < tensor->rank) row = false;
    }
    for (uint32_t d = 0; d < y->rank; d++) shape[d] = 1, strides[d] = columns;
    strides[y->rank - 1] = 1;
    column = y->rank == 2 && tensor->rank == 2 && tensor->shape[1] == 1;
    if (tensor->dtype == whole->dtype && tensor->bytes == whole->bytes &&
        tensor->rank == whole->rank)
        return matmul_desc(library, y, desc);
    if (row && !one)
        shape[y->rank - 1] = columns;
    else if (column && !one)
        shape[0] = y->shape[0], strides[0] = 1;
    else if (!one)
        return TN_E_UNSUPPORTED;
    return tn__dnnl_strided(library, tensor->dtype, y->rank, shape, strides, desc);
}

static bool matmul_is_row(const tn_tensor *tensor) {
    for (uint32_t d = 0; d + 1 < tensor->rank; d++)
        if (tensor->shape[d] != 1) return false;
    return tensor->rank > 0;
}

/* One way to describe the product to oneDNN, with the best implementation for it. */
typedef struct matmul_form {
    matmul_operand a, b, y;
    dnnl_memory_desc_t a_desc, b_desc, y_desc, bias_desc, add_desc;
    bool has_bias, has_add;
    bool dense; /* whether operands are copied to dense scratch memory, and the result back */
    tn__dnnl_after after;
    dnnl_primitive_desc_t chosen;
    uint32_t rank; /* rating of the implementation (tn__dnnl_rank_of) */
} matmul_form;

static tn_status matmul_describe_bias(const tn_kernel_setup *setup, const matmul_plan *plan,
                                      matmul_form *form) {
    const tn_tensor *y = tn__setup_output(setup, 0), *bias = plan->bias;
    if (bias == NULL) return TN_OK;
    /* oneDNN multiplies its own bias by the scale; with a scale, the bias must be an addend. */
    bool own = plan->scale == 1 && matmul_is_row(bias) &&
               bias->shape[bias->rank - 1] == form->y.shape[form->y.rank - 1];
    form->has_bias = own;
    form->has_add = !own;
    if (!own) form->after.add = &form->add_desc;
    return matmul_addend(setup->library, bias, y, &form->y,
                         own ? &form->bias_desc : &form->add_desc);
}

/* Finds the best implementation for a description of the product. Errors: E_UNSUPPORTED (oneDNN has
 * no implementation). */
static tn_status matmul_ask(const tn_kernel_setup *setup, const matmul_plan *plan,
                            matmul_form *form) {
    const tn__dnnl *library = setup->library;
    dnnl_matmul_desc_t desc;
    TN_TRY(matmul_desc(library, &form->a, &form->a_desc));
    TN_TRY(matmul_desc(library, &form->b, &form->b_desc));
    TN_TRY(matmul_desc(library, &form->y, &form->y_desc));
    dnnl_memory_desc_t b = form->b_desc;
    if (tn__setup_is_static(setup, plan->b_index)) TN_TRY(tn__dnnl_any(library, &b));
    form->after = plan->after;
    form->after.scale = plan->scale;
    form->after.sum = plan->summand != NULL;
    TN_TRY(matmul_describe_bias(setup, plan, form));
    TN_TRY(tn__dnnl_status(library->dnnl_matmul_desc_init(
        &desc, &form->a_desc, &b, form->has_bias ? &form->bias_desc : NULL, &form->y_desc)));
    return tn__dnnl_choose(library, &desc, &form->after, &form->chosen, &form->rank);
}

static bool matmul_make_dense(matmul_operand *operand) {
    int64_t stride = 1;
    bool changed = false;
    for (uint32_t d = operand->rank; d-- > 0;) {
        changed = changed || (operand->strides[d] != stride && operand->shape[d] != 1);
        operand->strides[d] = stride;
        stride *= operand->shape[d];
    }
    return changed;
}

/* Makes description number `which` of the operands; returns false if it does not apply. 0: as they
 * are in memory. 1: with an additional first dimension of 1, because oneDNN supports [1, batch,
 * rows, columns] with exchanged middle dimensions, but not [batch, rows, columns] with exchanged
 * first dimensions. 2: copied to dense memory. */
static bool matmul_next_form(const matmul_plan *plan, uint32_t which, matmul_form *form) {
    *form = (matmul_form){.a = plan->a, .b = plan->b, .y = plan->y};
    if (which == 0) return true;
    if (which == 1 && form->y.rank == 3) {
        matmul_pad(&form->a, 4);
        matmul_pad(&form->b, 4);
        matmul_pad(&form->y, 4);
        return true;
    }
    if (which == 1) return false;
    bool a = matmul_make_dense(&form->a), b = matmul_make_dense(&form->b);
    bool y = matmul_make_dense(&form->y);
    form->dense = true;
    return (a || b || y) && !(y && plan->summand != NULL);
}

static tn_status matmul_pick(const tn_kernel_setup *setup, const matmul_plan *plan,
                             matmul_form *best) {
    matmul_form form;
    best->rank = 0;
    for (uint32_t which = 0; which < 3 && best->rank < 2; which++) {
        if (!matmul_next_form(plan, which, &form)) continue;
        tn_status status = matmul_ask(setup, plan, &form);
        if (status == TN_E_UNSUPPORTED) continue;
        if (status == TN_OK && form.rank <= best->rank) {
            setup->library->dnnl_primitive_desc_destroy(form.chosen);
            continue;
        }
        if (best->rank > 0) setup->library->dnnl_primitive_desc_destroy(best->chosen);
        best->rank = 0;
        if (status != TN_OK) return status;
        *best = form;
    }
    return best->rank > 0 ? TN_OK : TN_E_UNSUPPORTED;
}

/* Chooses the memory that the primitive uses for an operand: the operand itself, or dense scratch
 * memory. */
static tn_status matmul_place(tn__dnnl_work *work, const matmul_form *form,
                              const dnnl_memory_desc_t *lies, const dnnl_memory_desc_t *wanted,
                              const tn__dnnl *library, tn__dnnl_at *at) {
    if (!form->dense || library->dnnl_memory_desc_equal(lies, wanted)) return TN_OK;
    return tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(wanted), at);
}

static tn_status matmul_build(tn_kernel_setup *setup, tn__dnnl_work *work, const matmul_plan *plan,
                              const matmul_form *form, const dnnl_memory_desc_t *wants) {
    const tn__dnnl *library = setup->library;
    dnnl_primitive_desc_t chosen = form->chosen;
    dnnl_memory_desc_t a, b, y; /* descriptors of the operands in their own memory */
    const tn__dnnl_at a_lies = TN__DNNL_IN(plan->a_index);
    tn__dnnl_at a_at = a_lies, b_at = TN__DNNL_IN(plan->b_index), y_at = TN__DNNL_OUT(0);
    tn_status status;
    TN_TRY_DONE(matmul_desc(library, &plan->a, &a));
    TN_TRY_DONE(matmul_desc(library, &plan->b, &b));
    TN_TRY_DONE(matmul_desc(library, &plan->y, &y));
    TN_TRY_DONE(matmul_place(work, form, &a, &form->a_desc, library, &a_at));
    TN_TRY_DONE(matmul_place(work, form, &y, &form->y_desc, library, &y_at));
    if (a_at.place == TN__DNNL_SCRATCH)
        TN_TRY_DONE(tn__dnnl_reorder(work, &a, a_lies, &form->a_desc, a_at));
    TN_TRY_DONE(tn__dnnl_weights(setup, work, plan->b_index, form->dense ? &b : &form->b_desc,
                                 wants, &b_at));
    if (plan->summand != NULL) tn__dnnl_accumulate(work, plan->summand_index);
    status = tn__dnnl_step(work, chosen, 5);
    chosen = NULL;
    if (status != TN_OK) goto done;
    TN_TRY_DONE(tn__dnnl_bind(work, DNNL_ARG_SRC, &form->a_desc, a_at));
    TN_TRY_DONE(tn__dnnl_bind(work, DNNL_ARG_WEIGHTS, wants, b_at));
    TN_TRY_DONE(tn__dnnl_bind(work, DNNL_ARG_DST, &form->y_desc, y_at));
    if (form->has_bias)
        TN_TRY_DONE(
            tn__dnnl_bind(work, DNNL_ARG_BIAS, &form->bias_desc, TN__DNNL_IN(plan->bias_index)));
    if (form->has_add)
        TN_TRY_DONE(
            tn__dnnl_bind(work, TN__DNNL_ARG_ADD, &form->add_desc, TN__DNNL_IN(plan->bias_index)));
    if (y_at.place == TN__DNNL_SCRATCH)
        status = tn__dnnl_reorder(work, &form->y_desc, y_at, &y, TN__DNNL_OUT(0));
done:
    if (chosen != NULL) library->dnnl_primitive_desc_destroy(chosen);
    return status;
}

static void matmul_exchange(matmul_operand *operand) {
    const uint32_t r = operand->rank - 2, c = operand->rank - 1;
    const int64_t rows = operand->shape[r], stride = operand->strides[r];
    operand->shape[r] = operand->shape[c], operand->strides[r] = operand->strides[c];
    operand->shape[c] = rows, operand->strides[c] = stride;
}

/* If the columns of the result are contiguous and its rows are not, computes the transposed product
 * y' = b' a'; its rows are contiguous. */
static void matmul_flip_roles(const tn_kernel_setup *setup, matmul_plan *plan) {
    const matmul_operand *y = &plan->y, a = plan->a;
    if (y->strides[y->rank - 1] == 1 || y->strides[y->rank - 2] != 1 || plan->bias != NULL ||
        tn__setup_is_static(setup, 0) || tn__setup_is_static(setup, 1))
        return;
    plan->a = plan->b;
    plan->b = a;
    plan->a_index = 1;
    plan->b_index = 0;
    matmul_exchange(&plan->a);
    matmul_exchange(&plan->b);
    matmul_exchange(&plan->y);
}

/* --- slices --- */

#define MATMUL_SLICE 256 /* largest number of columns or rows in a slice */
/* largest size of a slice, so that it stays in a core's cache */
#define MATMUL_SLICE_BYTES (INT64_C(2) << 20)
#define MATMUL_GAP ((int64_t)(64 / sizeof(float))) /* number of float32 elements in a cache line */
#define MATMUL_SLICES_MAX 1024

/* How a product is divided into slices: which operands are copied, and how many rows and columns a
 * slice has. */
typedef struct matmul_slices {
    bool copies_a, copies_b;
    int64_t rows, columns;
    tn__dnnl_at a_at, b_at;
} matmul_slices;

/* Whether terms of the sum that are this many elements apart are in few sets of the cache. */
static bool matmul_step_is_bad(int64_t elements) { return elements % 512 == 0; }

/* Whether the product should be computed in slices that are copied. oneDNN's kernels for AVX2 do
 * not pack operands if an extent of the result is small (in its gemm_driver: 1 / rows + 1 / columns
 * above about 0.0038). They then take much longer if the terms of a sum are a power of two
 * apart. */
static bool matmul_wants_slices(const tn_kernel_setup *setup, const matmul_plan *plan,
                                matmul_slices *slices) {
    const matmul_operand *a = &plan->a, *b = &plan->b, *y = &plan->y;
    if (y->rank != 2 || strcmp(tn__dnnl_isa(setup->library), "avx2") != 0 ||
        a->dtype != TN_FLOAT32 || b->dtype != TN_FLOAT32 || y->dtype != TN_FLOAT32 ||
        plan->bias != NULL || plan->summand != NULL || tn__setup_is_static(setup, 0) ||
        tn__setup_is_static(setup, 1) || y->strides[1] != 1)
        return false;
    const int64_t m = y->shape[0], n = y->shape[1], k = a->shape[1];
    if (m < 64 || n < 64 || k < 64 || 1.0 / (double)m + 1.0 / (double)n < 0.0038) return false;
    slices->copies_a = a->strides[0] == 1 && matmul_step_is_bad(a->strides[1]);
    slices->copies_b = b->strides[1] == 1 && matmul_step_is_bad(b->strides[0]);
    int64_t slice = MATMUL_SLICE_BYTES / (int64_t)sizeof(float) / k / 64 * 64;
    /* the sums are so long that even a small slice would not stay in the cache */
    if (slice == 0) return false;
    slice = slice > MATMUL_SLICE ? MATMUL_SLICE : slice;
    slices->rows = slices->copies_a && slice < m ? slice : m;
    slices->columns = slices->copies_b && slice < n ? slice : n;
    return (slices->copies_a || slices->copies_b) &&
           ((m - 1) / slices->rows + 1) * ((n - 1) / slices->columns + 1) <= MATMUL_SLICES_MAX;
}

static matmul_operand matmul_slice(const matmul_operand *whole, uint32_t along, int64_t length) {
    matmul_operand slice = *whole;
    slice.shape[along] = length;
    return slice;
}

/* Makes a slice of an operand available: rows (along 0) or columns (along 1), directly, or copied
 * to `copy` by a step that is added. */
static tn_status matmul_take(tn__dnnl_work *work, const tn__dnnl *library,
                             const matmul_operand *slice, uint32_t along, bool copies,
                             tn__dnnl_at lies, tn__dnnl_at copy, dnnl_memory_desc_t *desc,
                             tn__dnnl_at *at) {
    matmul_operand copied = *slice;
    dnnl_memory_desc_t there;
    TN_TRY(matmul_desc(library, slice, desc));
    *at = lies;
    if (!copies) return TN_OK;
    copied.strides[1 - along] = slice->shape[along] + MATMUL_GAP;
    TN_TRY(matmul_desc(library, &copied, &there));
    TN_TRY(tn__dnnl_reorder(work, desc, lies, &there, copy));
    *desc = there;
    *at = copy;
    return TN_OK;
}

static tn__dnnl_at matmul_at(tn__dnnl_place place, uint32_t index, int64_t elements) {
    return (tn__dnnl_at){place, index, (uint64_t)elements * sizeof(float)};
}

/* Adds the product of a slice of rows, which `a` describes, and the slice of columns that begins at
 * `column`. */
static tn_status matmul_add_slice(tn__dnnl_work *work, const tn__dnnl *library,
                                  const matmul_plan *plan, const matmul_slices *slices,
                                  const dnnl_memory_desc_t *a, tn__dnnl_at a_at, int64_t row,
                                  int64_t rows, int64_t column) {
    const int64_t left = plan->y.shape[1] - column;
    const int64_t columns = left < slices->columns ? left : slices->columns;
    const matmul_operand b_slice = matmul_slice(&plan->b, 1, columns);
    matmul_operand y_slice = matmul_slice(&plan->y, 0, rows);
    tn__dnnl_after after = plan->after;
    dnnl_memory_desc_t b, y;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t chosen;
    tn__dnnl_at b_at;
    y_slice.shape[1] = columns;
    after.scale = plan->scale;
    TN_TRY(matmul_take(work, library, &b_slice, 1, slices->copies_b,
                       matmul_at(TN__DNNL_INPUT, plan->b_index, column * plan->b.strides[1]),
                       slices->b_at, &b, &b_at));
    TN_TRY(matmul_desc(library, &y_slice, &y));
    TN_TRY(tn__dnnl_status(library->dnnl_matmul_desc_init(&desc, a, &b, NULL, &y)));
    TN_TRY(tn__dnnl_choose(library, &desc, &after, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, a, a_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WEIGHTS, &b, b_at));
    return tn__dnnl_bind(work, DNNL_ARG_DST, &y,
                         matmul_at(TN__DNNL_OUTPUT, 0, row * plan->y.strides[0] + column));
}

static tn_status matmul_build_slices(tn__dnnl_work *work, const tn__dnnl *library,
                                     const matmul_plan *plan, matmul_slices *slices) {
    const int64_t m = plan->y.shape[0], n = plan->y.shape[1], k = plan->a.shape[1];
    const uint64_t line = (uint64_t)k * sizeof(float);
    if (slices->copies_a)
        TN_TRY(tn__dnnl_scratch(work, line * (uint64_t)(slices->rows + MATMUL_GAP), &slices->a_at));
    if (slices->copies_b)
        TN_TRY(
            tn__dnnl_scratch(work, line * (uint64_t)(slices->columns + MATMUL_GAP), &slices->b_at));
    for (int64_t row = 0; row < m; row += slices->rows) {
        const int64_t rows = m - row < slices->rows ? m - row : slices->rows;
        const matmul_operand a_slice = matmul_slice(&plan->a, 0, rows);
        dnnl_memory_desc_t a;
        tn__dnnl_at a_at;
        TN_TRY(matmul_take(work, library, &a_slice, 0, slices->copies_a,
                           matmul_at(TN__DNNL_INPUT, plan->a_index, row * plan->a.strides[0]),
                           slices->a_at, &a, &a_at));
        for (int64_t column = 0; column < n; column += slices->columns)
            TN_TRY(matmul_add_slice(work, library, plan, slices, &a, a_at, row, rows, column));
    }
    return TN_OK;
}

/* --- reading the operators: MatMul, Gemm, products of transposed factors --- */

/* Builds the product after its operands are described. y may be permuted. */
static tn_status matmul_finish(tn_kernel_setup *setup, tn__dnnl_work *work, matmul_plan *plan) {
    uint32_t rank = plan->y.rank;
    if (plan->scale == 0) return TN_E_UNSUPPORTED; /* below, 0 means: no scale */
    if (plan->a.rank > rank || plan->b.rank > rank) return TN_E_UNSUPPORTED;
    matmul_pad(&plan->a, rank);
    matmul_pad(&plan->b, rank);
    matmul_simplify(&plan->a, &plan->b, &plan->y);
    plan->b_index = 1;
    matmul_flip_roles(setup, plan);
    matmul_slices slices = {.copies_a = false};
    if (matmul_wants_slices(setup, plan, &slices))
        return matmul_build_slices(work, setup->library, plan, &slices);
    matmul_form best;
    TN_TRY(matmul_pick(setup, plan, &best));
    dnnl_memory_desc_t wants =
        *tn__dnnl_wants(setup->library, best.chosen, dnnl_query_weights_md, 0);
    return matmul_build(setup, work, plan, &best, &wants);
}

static tn_status matmul_read(tn_kernel_setup *setup, tn__dnnl_work *work) {
    matmul_plan plan = {.scale = 1};
    (void)matmul_operand_of(tn__setup_input(setup, 0), NULL, 0, false, &plan.a);
    (void)matmul_operand_of(tn__setup_input(setup, 1), NULL, 0, false, &plan.b);
    (void)matmul_operand_of(tn__setup_output(setup, 0), NULL, 0, false, &plan.y);
    return matmul_finish(setup, work, &plan);
}

/* Reads Gemm: Y = alpha A' B' + beta C, where A' and B' may be transposed. */
static tn_status matmul_read_gemm(tn_kernel_setup *setup, tn__dnnl_work *work) {
    static const int64_t swap[2] = {1, 0};
    bool left = tn__attr_int(setup->op, "transA", 0) != 0;
    bool right = tn__attr_int(setup->op, "transB", 0) != 0;
    matmul_plan plan = {.scale = tn__attr_float(setup->op, "alpha", 1),
                        .bias = tn__setup_input(setup, 2),
                        .bias_index = 2};
    if (plan.bias != NULL && tn__attr_float(setup->op, "beta", 1) != 1) return TN_E_UNSUPPORTED;
    const tn_tensor *y = tn__setup_output(setup, 0);
    if (plan.bias != NULL && plan.bias->dtype == y->dtype && plan.bias->bytes == y->bytes &&
        plan.bias->rank == y->rank) {
        /* the output may have the address of C, so C must be read before the output is written */
        plan.summand = plan.bias;
        plan.summand_index = 2;
        plan.bias = NULL;
    }
    if (!matmul_operand_of(tn__setup_input(setup, 0), left ? swap : NULL, 2, false, &plan.a) ||
        !matmul_operand_of(tn__setup_input(setup, 1), right ? swap : NULL, 2, false, &plan.b) ||
        !matmul_operand_of(tn__setup_output(setup, 0), NULL, 0, false, &plan.y))
        return TN_E_UNSUPPORTED;
    return matmul_finish(setup, work, &plan);
}

/* Reads MatMul of domain "tenure": inputs A, B, bias, summand; attributes alpha, perm_a, perm_b,
 * perm_y. */
static tn_status matmul_read_fused(tn_kernel_setup *setup, tn__dnnl_work *work) {
    const tn_op *op = setup->op;
    uint32_t a, b, y;
    const int64_t *perm_a = tn__attr_ints(op, "perm_a", &a),
                  *perm_b = tn__attr_ints(op, "perm_b", &b);
    const int64_t *perm_y = tn__attr_ints(op, "perm_y", &y);
    matmul_plan plan = {.scale = tn__attr_float(op, "alpha", 1),
                        .bias = tn__setup_input(setup, 2),
                        .bias_index = 2,
                        .summand = tn__setup_input(setup, 3),
                        .summand_index = 3};
    if (!matmul_operand_of(tn__setup_input(setup, 0), perm_a, a, false, &plan.a) ||
        !matmul_operand_of(tn__setup_input(setup, 1), perm_b, b, false, &plan.b) ||
        !matmul_operand_of(tn__setup_output(setup, 0), perm_y, y, true, &plan.y))
        return TN_E_UNSUPPORTED;
    TN_TRY(tn__dnnl_after_of(op, &plan.after));
    return matmul_finish(setup, work, &plan);
}

/* Describes an input. If attribute `name` is not 0, its last two dimensions are exchanged. */
static bool matmul_flip(const tn_kernel_setup *setup, uint32_t index, const char *name,
                        matmul_operand *operand) {
    const tn_tensor *tensor = tn__setup_input(setup, index);
    int64_t perm[TN_RANK_MAX];
    for (uint32_t d = 0; d < tensor->rank; d++) perm[d] = d;
    if (tn__attr_int(setup->op, name, 0) != 0) {
        perm[tensor->rank - 2] = tensor->rank - 1;
        perm[tensor->rank - 1] = tensor->rank - 2;
    }
    return matmul_operand_of(tensor, perm, tensor->rank, false, operand);
}

static tn_status matmul_read_flipped(tn_kernel_setup *setup, tn__dnnl_work *work) {
    matmul_plan plan = {.scale = 1};
    if (!matmul_flip(setup, 0, "trans_a", &plan.a) || !matmul_flip(setup, 1, "trans_b", &plan.b) ||
        !matmul_operand_of(tn__setup_output(setup, 0), NULL, 0, false, &plan.y))
        return TN_E_UNSUPPORTED;
    return matmul_finish(setup, work, &plan);
}

static const tn_kernel matmul_dnnl_kernels[] = {
    TN__DNNL_KERNEL("Gemm", matmul_accepts, matmul_read_gemm),
    TN__DNNL_KERNEL("MatMul", matmul_accepts, matmul_read),
    TN__DNNL_OWN("MatMul", matmul_accepts, matmul_read_fused),
    TN__DNNL_OWN("TransposedMatMul", matmul_accepts, matmul_read_flipped),
};

TN_KERNEL_LIBRARY(matmul, "");
