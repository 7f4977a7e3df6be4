/* train_conv.c - the gradient of a convolution's weights by oneDNN. (That of its input is a
 * transposed convolution: dnnl/conv.c.)
 *
 * As with convolutions, the kernel first asks for the operands' own formats, with the weights'
 * gradient in any form. If only an implementation that packs on the heap takes those, the library
 * chooses the forms of all three, with reorders through planned scratch around it. The gradient is
 * written in the order of its shape, because optimizers and checkpoints read that.
 *
 * If kernels are slow with channels last (AVX2), pieces are copied into a fast form, and their
 * gradients are added up in an order that follows from shapes alone.
 */
#include "engine/kernels/dnnl.h"
#include "engine/kernels/dnnl/shared.h"

#define BACK_PIECES_MAX 128u

typedef struct back_plan {
    const tn_tensor *x_tensor, *dy_tensor;
    tn__dnnl_parts parts;
    dnnl_memory_desc_t x, dw, dy; /* as the operands are */
} back_plan;

static bool back_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *x = tn__setup_input(setup, 1);
    const tn_tensor *dw = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && dy != NULL && x != NULL && dw != NULL && x->rank >= 3 &&
           x->rank <= 5 && dy->rank == x->rank && dw->rank == x->rank &&
           dw->format.order != TN_ORDER_NHWC;
}

/* oneDNN (2.6, and 3.12 according to its issues) has a kernel for convolutions of one pixel with a
 * stride, channels last, that steps through its scratchpad by whole blocks of 16 channels but asks
 * only for the room of the existing ones: with fewer than 16 it writes beyond its end. Such layers
 * are small; our own loops run them. */
static bool back_overruns(const tn_tensor *dw, const tn__dnnl_window *window) {
    bool point = true, strides = false;
    for (uint32_t d = 2; d < dw->rank; d++) {
        point = point && dw->shape[d] == 1;
        strides = strides || window->stride[d - 2] > 1;
    }
    return point && strides && dw->shape[1] < 16;
}

static tn_status back_read(const tn_kernel_setup *setup, back_plan *plan) {
    const tn__dnnl *library = setup->library;
    const tn_tensor *dy = tn__setup_input(setup, 0), *x = tn__setup_input(setup, 1);
    const tn_tensor *dw = tn__setup_output(setup, 0);
    int64_t group = tn__attr_int(setup->op, "group", 1);
    if (group < 1 || x->shape[0] != dy->shape[0] || dw->shape[0] != dy->shape[1] ||
        x->shape[1] % group != 0 || dy->shape[1] % group != 0 ||
        dw->shape[1] != x->shape[1] / group ||
        !tn__dnnl_window_of(setup->op, x, dy, dw->shape + 2, false, &plan->parts.window) ||
        back_overruns(dw, &plan->parts.window))
        return TN_E_UNSUPPORTED;
    plan->x_tensor = x;
    plan->dy_tensor = dy;
    TN_TRY(tn__dnnl_desc(library, x, &plan->x));
    TN_TRY(tn__dnnl_desc(library, dy, &plan->dy));
    return tn__dnnl_conv_weights(library, dw, false, group, &plan->dw);
}

/* dw: its form, or NULL for any. */
static tn_status back_choose(const tn__dnnl *library, const back_plan *plan,
                             const tn__dnnl_piece *piece, bool given,
                             const dnnl_memory_desc_t *wanted, dnnl_primitive_desc_t *chosen,
                             uint32_t *rank) {
    const tn__dnnl_window *window = &piece->window;
    dnnl_memory_desc_t x = piece->x, dw = plan->dw, dy = piece->y;
    dnnl_convolution_desc_t ahead, desc;
    dnnl_primitive_desc_t forward;
    if (wanted != NULL)
        dw = *wanted;
    else
        TN_TRY(tn__dnnl_any(library, &dw));
    if (!given) {
        TN_TRY(tn__dnnl_any(library, &x));
        TN_TRY(tn__dnnl_any(library, &dy));
    }
    TN_TRY(tn__dnnl_status(library->dnnl_dilated_convolution_forward_desc_init(
        &ahead, dnnl_forward_training, dnnl_convolution_direct, &x, &dw, NULL, &dy, window->stride,
        window->dilation, window->begin, window->end)));
    TN_TRY(tn__dnnl_status(library->dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, &x, &dw, NULL, &dy, window->stride, window->dilation,
        window->begin, window->end)));
    TN_TRY(tn__dnnl_choose(library, &ahead, NULL, &forward, NULL));
    tn_status status = tn__dnnl_choose_back(library, &desc, NULL, forward, chosen, rank);
    library->dnnl_primitive_desc_destroy(forward);
    return status;
}

static tn_status back_pick(const tn__dnnl *library, const back_plan *plan,
                           dnnl_primitive_desc_t *chosen) {
    const tn__dnnl_piece whole = {.window = plan->parts.window, .x = plan->x, .y = plan->dy};
    dnnl_primitive_desc_t any;
    uint32_t rank = 0, any_rank = 0;
    tn_status status = back_choose(library, plan, &whole, true, NULL, chosen, &rank);
    if (status == TN_E_NO_MEMORY || (status == TN_OK && rank == 2)) return status;
    tn_status other = back_choose(library, plan, &whole, false, NULL, &any, &any_rank);
    if (other != TN_OK) return status;
    dnnl_primitive_desc_t worse = any;
    if (status != TN_OK || any_rank > rank) {
        worse = status == TN_OK ? *chosen : NULL;
        *chosen = any;
    }
    if (worse != NULL) library->dnnl_primitive_desc_destroy(worse);
    return TN_OK;
}

/* An input in the form that is wanted: itself, or a copy in scratch. */
static tn_status back_input(tn__dnnl_work *work, const tn__dnnl *library, uint32_t index,
                            const dnnl_memory_desc_t *has, const dnnl_memory_desc_t *wants,
                            tn__dnnl_at *at) {
    *at = TN__DNNL_IN(index);
    if (library->dnnl_memory_desc_equal(has, wants)) return TN_OK;
    TN_TRY(tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(wants), at));
    return tn__dnnl_reorder(work, has, TN__DNNL_IN(index), wants, *at);
}

static tn_status back_build(tn__dnnl_work *work, const tn__dnnl *library, const back_plan *plan,
                            dnnl_primitive_desc_t chosen) {
    dnnl_memory_desc_t x = *tn__dnnl_wants(library, chosen, dnnl_query_src_md, 0);
    dnnl_memory_desc_t dy = *tn__dnnl_wants(library, chosen, dnnl_query_diff_dst_md, 0);
    dnnl_memory_desc_t dw = *tn__dnnl_wants(library, chosen, dnnl_query_diff_weights_md, 0);
    tn__dnnl_at x_at, dy_at, dw_at = TN__DNNL_OUT(0);
    tn_status status = back_input(work, library, 1, &plan->x, &x, &x_at);
    if (status == TN_OK) status = back_input(work, library, 0, &plan->dy, &dy, &dy_at);
    if (status == TN_OK && !library->dnnl_memory_desc_equal(&plan->dw, &dw))
        status = tn__dnnl_scratch(work, library->dnnl_memory_desc_get_size(&dw), &dw_at);
    if (status != TN_OK) {
        library->dnnl_primitive_desc_destroy(chosen);
        return status;
    }
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, x_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &dy, dy_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_WEIGHTS, &dw, dw_at));
    return dw_at.place == TN__DNNL_SCRATCH
               ? tn__dnnl_reorder(work, &dw, dw_at, &plan->dw, TN__DNNL_OUT(0))
               : TN_OK;
}

/* --- in pieces --- */

/* With channels last, the kernels of AVX2 step over all channels of a pixel for each eight of them.
 * This takes up to 3.5 times as long as copies with channels in blocks of eight, a few images or
 * rows at a time. Kernels of AVX-512 do not do this, nor do kernels of one pixel. */
static bool back_in_pieces(const tn_kernel_setup *setup, const back_plan *plan) {
    const tn_tensor *dw = tn__setup_output(setup, 0);
    bool point = true;
    for (uint32_t d = 2; d < dw->rank; d++) point = point && dw->shape[d] == 1;
    return !point && plan->x_tensor->format.order == TN_ORDER_NHWC &&
           plan->dy_tensor->format.order == TN_ORDER_NHWC && dw->dtype == TN_FLOAT32 &&
           plan->x_tensor->dtype == TN_FLOAT32 && tn__attr_int(setup->op, "group", 1) == 1 &&
           strcmp(tn__dnnl_isa(setup->library), "avx2") == 0;
}

/* A piece has at least as many bytes as the gradient, which is added up once for each of them. */
static void back_cut(const tn_kernel_setup *setup, back_plan *plan) {
    uint64_t bytes = plan->x_tensor->bytes + plan->dy_tensor->bytes;
    uint64_t goal = tn__setup_output(setup, 0)->bytes;
    if (goal < TN__DNNL_PIECE_BYTES) goal = TN__DNNL_PIECE_BYTES;
    uint64_t count = bytes / goal;
    tn__dnnl_parts_cut(&plan->parts, plan->dy_tensor,
                       count < BACK_PIECES_MAX ? count : BACK_PIECES_MAX);
}

/* A step: `sum` += `part`, of that many bytes of float32 each. */
static tn_status back_add(tn__dnnl_work *work, const tn__dnnl *library, uint64_t bytes,
                          tn__dnnl_at sum, tn__dnnl_at part) {
    const int64_t count = (int64_t)(bytes / sizeof(float)), one = 1;
    dnnl_memory_desc_t all;
    dnnl_binary_desc_t desc;
    dnnl_primitive_desc_t chosen;
    TN_TRY(tn__dnnl_strided(library, TN_FLOAT32, 1, &count, &one, &all));
    TN_TRY(
        tn__dnnl_status(library->dnnl_binary_desc_init(&desc, dnnl_binary_add, &all, &all, &all)));
    TN_TRY(tn__dnnl_choose(library, &desc, NULL, &chosen, NULL));
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC_0, &all, sum));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC_1, &all, part));
    return tn__dnnl_bind(work, DNNL_ARG_DST, &all, sum);
}

typedef struct back_copies { /* copies of each piece, and places for the largest of them */
    dnnl_primitive_desc_t of[BACK_PIECES_MAX];
    dnnl_memory_desc_t dw;
    uint64_t x_bytes, dy_bytes;
    tn__dnnl_at x, dy, sum, part;
} back_copies;

static void back_larger(const tn__dnnl *library, dnnl_primitive_desc_t chosen, dnnl_query_t what,
                        uint64_t *bytes) {
    uint64_t size = library->dnnl_memory_desc_get_size(tn__dnnl_wants(library, chosen, what, 0));
    if (size > *bytes) *bytes = size;
}

/* On failure the caller destroys the objects made so far. */
static tn_status back_choose_all(tn__dnnl_work *work, const tn__dnnl *library,
                                 const back_plan *plan, back_copies *copies) {
    const uint32_t pieces = plan->parts.images * plan->parts.rows;
    for (uint32_t i = 0; i < pieces; i++) {
        dnnl_primitive_desc_t *chosen = &copies->of[i];
        tn__dnnl_piece piece;
        uint32_t rank = 0;
        TN_TRY(
            tn__dnnl_piece_of(library, &plan->parts, plan->x_tensor, plan->dy_tensor, i, &piece));
        if (piece.empty) continue;
        TN_TRY(
            back_choose(library, plan, &piece, false, i > 0 ? &copies->dw : NULL, chosen, &rank));
        if (rank < 2) return TN_E_UNSUPPORTED;
        if (i == 0) copies->dw = *tn__dnnl_wants(library, *chosen, dnnl_query_diff_weights_md, 0);
        back_larger(library, *chosen, dnnl_query_src_md, &copies->x_bytes);
        back_larger(library, *chosen, dnnl_query_diff_dst_md, &copies->dy_bytes);
    }
    uint64_t bytes = library->dnnl_memory_desc_get_size(&copies->dw);
    TN_TRY(tn__dnnl_scratch(work, copies->x_bytes, &copies->x));
    TN_TRY(tn__dnnl_scratch(work, copies->dy_bytes, &copies->dy));
    TN_TRY(tn__dnnl_scratch(work, bytes, &copies->sum));
    return pieces > 1 ? tn__dnnl_scratch(work, bytes, &copies->part) : TN_OK;
}

static tn_status back_copy(tn__dnnl_work *work, const tn__dnnl *library,
                           const dnnl_memory_desc_t *has, tn__dnnl_at from,
                           const dnnl_memory_desc_t *wants, tn__dnnl_at to, tn__dnnl_at *at) {
    *at = from;
    if (library->dnnl_memory_desc_equal(has, wants)) return TN_OK;
    *at = to;
    return tn__dnnl_reorder(work, has, from, wants, to);
}

static tn_status back_piece(tn__dnnl_work *work, const tn__dnnl *library, const back_plan *plan,
                            uint32_t index, back_copies *copies) {
    dnnl_primitive_desc_t chosen = copies->of[index];
    tn__dnnl_piece piece;
    tn__dnnl_at x_at, dy_at;
    TN_TRY(
        tn__dnnl_piece_of(library, &plan->parts, plan->x_tensor, plan->dy_tensor, index, &piece));
    if (piece.empty) return TN_OK;
    const dnnl_memory_desc_t x = *tn__dnnl_wants(library, chosen, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t dy = *tn__dnnl_wants(library, chosen, dnnl_query_diff_dst_md, 0);
    const tn__dnnl_at x_from = {TN__DNNL_INPUT, 1, piece.x_offset};
    const tn__dnnl_at dy_from = {TN__DNNL_INPUT, 0, piece.y_offset};
    TN_TRY(back_copy(work, library, &piece.x, x_from, &x, copies->x, &x_at));
    TN_TRY(back_copy(work, library, &piece.y, dy_from, &dy, copies->dy, &dy_at));
    copies->of[index] = NULL; /* it goes with its step */
    TN_TRY(tn__dnnl_step(work, chosen, 3));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, x_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_DST, &dy, dy_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DIFF_WEIGHTS, &copies->dw,
                         index == 0 ? copies->sum : copies->part));
    if (index == 0) return TN_OK;
    return back_add(work, library, library->dnnl_memory_desc_get_size(&copies->dw), copies->sum,
                    copies->part);
}

static tn_status back_pieces(tn__dnnl_work *work, const tn__dnnl *library, const back_plan *plan) {
    back_copies copies = {.x_bytes = 0};
    tn_status status;
    TN_TRY_DONE(back_choose_all(work, library, plan, &copies));
    for (uint32_t i = 0; i < plan->parts.images * plan->parts.rows; i++)
        TN_TRY_DONE(back_piece(work, library, plan, i, &copies));
    TN_TRY_DONE(tn__dnnl_reorder(work, &copies.dw, copies.sum, &plan->dw, TN__DNNL_OUT(0)));
done:
    for (uint32_t i = 0; i < BACK_PIECES_MAX; i++)
        if (copies.of[i] != NULL) library->dnnl_primitive_desc_destroy(copies.of[i]);
    return status;
}

/* --- */

static tn_status back_whole(tn__dnnl_work *work, const tn__dnnl *library, const back_plan *plan) {
    dnnl_primitive_desc_t chosen;
    TN_TRY(back_pick(library, plan, &chosen));
    return back_build(work, library, plan, chosen);
}

static tn_status back_prepare_as(tn_kernel_setup *setup, bool pieces) {
    tn__dnnl_work *work;
    back_plan plan = {.x_tensor = NULL};
    TN_TRY(tn__dnnl_begin(setup, &work));
    tn_status status = back_read(setup, &plan);
    if (status == TN_OK && pieces && !back_in_pieces(setup, &plan)) status = TN_E_UNSUPPORTED;
    if (status == TN_OK && pieces) back_cut(setup, &plan);
    if (status == TN_OK) status = (pieces ? back_pieces : back_whole)(work, setup->library, &plan);
    return tn__dnnl_end(setup, work, status);
}

static tn_status back_prepare(tn_kernel_setup *setup) {
    tn_status status = back_prepare_as(setup, true);
    return status == TN_E_UNSUPPORTED ? back_prepare_as(setup, false) : status;
}

static const tn_kernel dnnl_train_conv_kernels[] = {
    TN__DNNL_KERNEL("ConvGradWeights", back_accepts, back_prepare),
};

TN_KERNEL_LIBRARY(dnnl_train_conv, "tenure");
