/* conv.c - convolutions and transposed convolutions by oneDNN, with fused operations.
 *
 * First the kernel asks for the formats that the operands have, with weights in any form (packed at
 * set-up). If only an implementation that packs on the heap takes those (usually for channels
 * first), the library may choose the forms of input and output as well, with reorders through
 * scratch around it: this takes more scratch, but all of it is planned.
 *
 * Other ways with less scratch (kernel.h) run the same in pieces, images first, then rows of each,
 * one after the other through the same scratch. Rows that windows of two pieces need are read
 * twice; the arithmetic of each element stays the same.
 *
 * Transposed convolutions (gradients of inputs) are slow on AVX2 with channels last, like gradients
 * of weights (train_conv.c): in every way, pieces that stay in a core's cache are copied into fast
 * forms.
 *
 * The primitive adds its result to the destination, which must hold the summand (the fourth input
 * of the operator of domain "tenure"): it lies there already if the plan put the output on it, and
 * is copied there otherwise.
 */
#include "engine/kernels/dnnl.h"
#include "engine/kernels/dnnl/shared.h"

#define CONV_PIECES_MAX 128u

typedef struct conv_plan {
    const tn_tensor *x, *w, *bias, *summand, *y;
    bool transposed;
    bool blocks; /* in pieces, in forms that the library chooses */
    tn__dnnl_after after;
    dnnl_memory_desc_t w_desc, bias_desc; /* as the operands are */
    tn__dnnl_parts parts;
} conv_plan;

static bool conv_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *w = tn__setup_input(setup, 1);
    return tn__dnnl_all_fit(setup) && x != NULL && w != NULL && x->rank >= 3 && x->rank <= 5 &&
           w->rank == x->rank && w->format.order != TN_ORDER_NHWC;
}

tn_status tn__dnnl_conv_weights(const tn__dnnl *library, const tn_tensor *w, bool transposed,
                                int64_t group, dnnl_memory_desc_t *desc) {
    int64_t shape[TN_RANK_MAX], strides[TN_RANK_MAX], plain[TN_RANK_MAX];
    uint32_t rank = w->rank;
    if (group < 1 || w->shape[0] % group != 0) return TN_E_UNSUPPORTED;
    tn__dnnl_strides(w, plain);
    for (uint32_t d = 2; d < rank; d++) shape[d + 1] = w->shape[d], strides[d + 1] = plain[d];
    shape[0] = group;
    strides[0] = w->shape[0] / group * plain[0];
    uint32_t out = transposed ? 1 : 0, in = 1 - out;
    shape[1] = out == 0 ? w->shape[0] / group : w->shape[1];
    shape[2] = in == 0 ? w->shape[0] / group : w->shape[1];
    strides[1] = plain[out];
    strides[2] = plain[in];
    uint32_t skip = group == 1 ? 1 : 0;
    return tn__dnnl_strided(library, w->dtype, rank + 1 - skip, shape + skip, strides + skip, desc);
}

static tn_status conv_read(const tn_kernel_setup *setup, bool transposed, conv_plan *plan) {
    const tn__dnnl *library = setup->library;
    *plan = (conv_plan){.x = tn__setup_input(setup, 0),
                        .w = tn__setup_input(setup, 1),
                        .bias = tn__setup_input(setup, 2),
                        .summand = tn__setup_input(setup, 3),
                        .y = tn__setup_output(setup, 0),
                        .transposed = transposed};
    if (!tn__dnnl_window_of(setup->op, plan->x, plan->y, plan->w->shape + 2, transposed,
                            &plan->parts.window))
        return TN_E_UNSUPPORTED;
    TN_TRY(tn__dnnl_after_of(setup->op, &plan->after));
    plan->after.sum = plan->summand != NULL;
    if (plan->bias != NULL) TN_TRY(tn__dnnl_desc(library, plan->bias, &plan->bias_desc));
    plan->parts.transposed = transposed;
    return tn__dnnl_conv_weights(library, plan->w, transposed, tn__attr_int(setup->op, "group", 1),
                                 &plan->w_desc);
}

/* With channels last, the transposed kernels of AVX2 step over all channels of a pixel for each
 * eight of them. This takes up to twice as long as copies with channels in blocks of eight, a few
 * images or rows at a time (a U-Net's training step: 6 % less). Kernels of AVX-512 do not do this,
 * nor do kernels of one pixel; forward kernels gain only as much as copying costs. */
static bool conv_wants_blocks(const tn_kernel_setup *setup, const conv_plan *plan) {
    bool point = true;
    for (uint32_t d = 2; d < plan->w->rank; d++) point = point && plan->w->shape[d] == 1;
    return plan->transposed && !point && plan->summand == NULL &&
           plan->x->format.order == TN_ORDER_NHWC && plan->y->format.order == TN_ORDER_NHWC &&
           plan->x->dtype == TN_FLOAT32 && plan->y->dtype == TN_FLOAT32 &&
           tn__attr_int(setup->op, "group", 1) == 1 &&
           strcmp(tn__dnnl_isa(setup->library), "avx2") == 0;
}

/* --- pieces --- */

/* How a way cuts: images first, which costs nothing, then the rows of each. */
static tn_status conv_cut(conv_plan *plan, uint32_t way) {
    int64_t images = plan->y->shape[0], rows = plan->y->shape[2];
    int64_t pieces = INT64_C(1) << way;
    if (plan->blocks) {
        uint64_t count = (plan->x->bytes + plan->y->bytes) / TN__DNNL_PIECE_BYTES;
        if (count == 0) count = 1;
        if (count << way > CONV_PIECES_MAX && way > 0) return TN_E_UNSUPPORTED;
        count <<= way;
        tn__dnnl_parts_cut(&plan->parts, plan->y,
                           count < CONV_PIECES_MAX ? count : CONV_PIECES_MAX);
        return TN_OK;
    }
    plan->parts.images = (uint32_t)(pieces < images ? pieces : images);
    plan->parts.rows = (uint32_t)((pieces + plan->parts.images - 1) / plan->parts.images);
    if (way == 0) return TN_OK;
    bool cuts_rows = plan->parts.rows > 1;
    if ((cuts_rows && (plan->transposed || plan->parts.rows / 2 >= rows)) ||
        (uint64_t)plan->parts.images * plan->parts.rows > CONV_PIECES_MAX)
        return TN_E_UNSUPPORTED;
    return TN_OK;
}

/* --- choosing --- */

/* The best implementation of a piece with operands as they are (`given`), or in any form. Weights
 * have the form that is `wanted`; NULL: any. */
static tn_status conv_choose(const tn__dnnl *library, const conv_plan *plan,
                             const tn__dnnl_piece *piece, bool given,
                             const dnnl_memory_desc_t *wanted, dnnl_primitive_desc_t *chosen,
                             uint32_t *rank) {
    dnnl_memory_desc_t x = piece->x, w = plan->w_desc, y = piece->y;
    const dnnl_memory_desc_t *bias = plan->bias != NULL ? &plan->bias_desc : NULL;
    const tn__dnnl_window *window = &piece->window;
    if (wanted != NULL)
        w = *wanted;
    else
        TN_TRY(tn__dnnl_any(library, &w));
    if (!given) {
        TN_TRY(tn__dnnl_any(library, &x));
        TN_TRY(tn__dnnl_any(library, &y));
    }
    if (plan->transposed) {
        dnnl_deconvolution_desc_t desc;
        TN_TRY(tn__dnnl_status(library->dnnl_dilated_deconvolution_forward_desc_init(
            &desc, dnnl_forward_inference, dnnl_deconvolution_direct, &x, &w, bias, &y,
            window->stride, window->dilation, window->begin, window->end)));
        return tn__dnnl_choose(library, &desc, &plan->after, chosen, rank);
    }
    dnnl_convolution_desc_t desc;
    TN_TRY(tn__dnnl_status(library->dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, &x, &w, bias, &y, window->stride,
        window->dilation, window->begin, window->end)));
    return tn__dnnl_choose(library, &desc, &plan->after, chosen, rank);
}

/* Chooses for the first piece; the others follow its forms. */
static tn_status conv_pick(const tn__dnnl *library, const conv_plan *plan,
                           const tn__dnnl_piece *piece, dnnl_primitive_desc_t *chosen,
                           bool *given) {
    dnnl_primitive_desc_t any;
    uint32_t rank = 0, any_rank = 0;
    *given = !plan->blocks;
    if (plan->blocks) {
        tn_status blocked = conv_choose(library, plan, piece, false, NULL, chosen, &rank);
        return blocked == TN_OK && rank < 2 ? TN_E_UNSUPPORTED : blocked;
    }
    tn_status status = conv_choose(library, plan, piece, true, NULL, chosen, &rank);
    if (status == TN_E_NO_MEMORY || (status == TN_OK && rank == 2)) return status;
    tn_status other = conv_choose(library, plan, piece, false, NULL, &any, &any_rank);
    if (other != TN_OK) return status;
    if (status == TN_OK && any_rank <= rank) {
        library->dnnl_primitive_desc_destroy(any);
        return TN_OK;
    }
    if (status == TN_OK) library->dnnl_primitive_desc_destroy(*chosen);
    *chosen = any;
    *given = false;
    return TN_OK;
}

typedef struct conv_choice { /* kernels of each piece, and scratch for the largest of them */
    dnnl_primitive_desc_t of[CONV_PIECES_MAX];
    bool x_copied, y_copied, y_lies; /* by some piece; some piece's result where it belongs */
    tn__dnnl_at x_at, y_at;
} conv_choice;

/* The place of an operand in the form that a piece wants: itself, or `bytes` of scratch. */
static bool conv_is_copied(const tn__dnnl *library, const dnnl_memory_desc_t *has,
                           const dnnl_memory_desc_t *wants, uint64_t *bytes) {
    if (library->dnnl_memory_desc_equal(has, wants)) return false;
    uint64_t size = library->dnnl_memory_desc_get_size(wants);
    if (size > *bytes) *bytes = size;
    return true;
}

/* On failure the caller destroys the objects made so far. */
static tn_status conv_choose_all(const tn__dnnl *library, const conv_plan *plan,
                                 tn__dnnl_work *work, conv_choice *choice) {
    uint64_t x_bytes = 0, y_bytes = 0;
    dnnl_memory_desc_t weights;
    bool given = true;
    for (uint32_t i = 0; i < plan->parts.images * plan->parts.rows; i++) {
        tn__dnnl_piece piece;
        TN_TRY(tn__dnnl_piece_of(library, &plan->parts, plan->x, plan->y, i, &piece));
        if (piece.empty) continue;
        TN_TRY(i == 0 ? conv_pick(library, plan, &piece, &choice->of[i], &given)
                      : conv_choose(library, plan, &piece, given, &weights, &choice->of[i], NULL));
        if (i == 0) weights = *tn__dnnl_wants(library, choice->of[i], dnnl_query_weights_md, 0);
        const dnnl_memory_desc_t *x = tn__dnnl_wants(library, choice->of[i], dnnl_query_src_md, 0);
        const dnnl_memory_desc_t *y = tn__dnnl_wants(library, choice->of[i], dnnl_query_dst_md, 0);
        bool x_copied = conv_is_copied(library, &piece.x, x, &x_bytes);
        bool y_copied = conv_is_copied(library, &piece.y, y, &y_bytes);
        choice->x_copied = choice->x_copied || x_copied;
        choice->y_copied = choice->y_copied || y_copied;
        choice->y_lies = choice->y_lies || !y_copied;
    }
    if (choice->x_copied) TN_TRY(tn__dnnl_scratch(work, x_bytes, &choice->x_at));
    if (choice->y_copied) TN_TRY(tn__dnnl_scratch(work, y_bytes, &choice->y_at));
    return TN_OK;
}

/* --- steps --- */

/* The steps of a piece: reorders around it where it has forms of its own. */
static tn_status conv_add_piece(tn__dnnl_work *work, const tn__dnnl *library, const conv_plan *plan,
                                conv_choice *choice, uint32_t index, tn__dnnl_at w_at) {
    dnnl_primitive_desc_t *chosen = &choice->of[index];
    tn__dnnl_piece piece;
    TN_TRY(tn__dnnl_piece_of(library, &plan->parts, plan->x, plan->y, index, &piece));
    if (piece.empty) return TN_OK;
    /* the descriptor goes with its step */
    dnnl_memory_desc_t x = *tn__dnnl_wants(library, *chosen, dnnl_query_src_md, 0);
    dnnl_memory_desc_t y = *tn__dnnl_wants(library, *chosen, dnnl_query_dst_md, 0);
    dnnl_memory_desc_t w = *tn__dnnl_wants(library, *chosen, dnnl_query_weights_md, 0);
    uint64_t unused = 0;
    bool copies_x = conv_is_copied(library, &piece.x, &x, &unused);
    bool copies_y = conv_is_copied(library, &piece.y, &y, &unused);
    const tn__dnnl_at in = {TN__DNNL_INPUT, 0, piece.x_offset};
    const tn__dnnl_at out = {TN__DNNL_OUTPUT, 0, piece.y_offset};
    const tn__dnnl_at summand = {TN__DNNL_INPUT, 3, piece.y_offset};
    const tn__dnnl_at x_at = copies_x ? choice->x_at : in, y_at = copies_y ? choice->y_at : out;
    if (copies_x) TN_TRY(tn__dnnl_reorder(work, &piece.x, in, &x, x_at));
    if (copies_y && plan->summand != NULL)
        TN_TRY(tn__dnnl_reorder(work, &piece.y, summand, &y, y_at));
    dnnl_primitive_desc_t step = *chosen;
    *chosen = NULL;
    TN_TRY(tn__dnnl_step(work, step, 4));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_SRC, &x, x_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_WEIGHTS, &w, w_at));
    TN_TRY(tn__dnnl_bind(work, DNNL_ARG_DST, &y, y_at));
    if (plan->bias != NULL)
        TN_TRY(tn__dnnl_bind(work, DNNL_ARG_BIAS, &plan->bias_desc, TN__DNNL_IN(2)));
    return copies_y ? tn__dnnl_reorder(work, &y, y_at, &piece.y, out) : TN_OK;
}

static tn_status conv_build(tn_kernel_setup *setup, tn__dnnl_work *work, const conv_plan *plan) {
    const tn__dnnl *library = setup->library;
    conv_choice choice = {.x_copied = false};
    tn__dnnl_at w_at;
    tn_status status;
    TN_TRY_DONE(conv_choose_all(library, plan, work, &choice));
    const dnnl_memory_desc_t w = *tn__dnnl_wants(library, choice.of[0], dnnl_query_weights_md, 0);
    TN_TRY_DONE(tn__dnnl_weights(setup, work, 1, &plan->w_desc, &w, &w_at));
    if (plan->summand != NULL && choice.y_lies) tn__dnnl_accumulate(work, 3);
    for (uint32_t i = 0; i < plan->parts.images * plan->parts.rows; i++)
        TN_TRY_DONE(conv_add_piece(work, library, plan, &choice, i, w_at));
done:
    for (uint32_t i = 0; i < CONV_PIECES_MAX; i++)
        if (choice.of[i] != NULL) library->dnnl_primitive_desc_destroy(choice.of[i]);
    return status;
}

static tn_status conv_prepare_in(tn_kernel_setup *setup, bool transposed, bool blocks) {
    tn__dnnl_work *work;
    conv_plan plan;
    TN_TRY(tn__dnnl_begin(setup, &work));
    tn_status status = conv_read(setup, transposed, &plan);
    plan.blocks = blocks;
    if (status == TN_OK && blocks && !conv_wants_blocks(setup, &plan)) status = TN_E_UNSUPPORTED;
    if (status == TN_OK) status = conv_cut(&plan, setup->way);
    if (status == TN_OK) status = conv_build(setup, work, &plan);
    return tn__dnnl_end(setup, work, status);
}

/* Whether the first way of a transposed one is in blocks: then all are, as all have the same bits.
 */
static tn_status conv_in_blocks(tn_kernel_setup *setup, bool *blocks) {
    const uint32_t way = setup->way;
    setup->way = 0;
    tn_status status = conv_prepare_in(setup, true, true);
    setup->way = way;
    *blocks = status == TN_OK;
    if (status != TN_OK) return status == TN_E_UNSUPPORTED ? TN_OK : status;
    if (way == 0) return TN_OK;
    tn__dnnl_release(setup->context, setup->state);
    setup->state = NULL;
    for (uint32_t i = 0; setup->packed != NULL && i < setup->op->input_count; i++)
        setup->packed[i] = setup->forms[i] = 0;
    return TN_OK;
}

static tn_status conv_prepare_as(tn_kernel_setup *setup, bool transposed) {
    bool blocks = false;
    if (transposed) TN_TRY(conv_in_blocks(setup, &blocks));
    return blocks && setup->way == 0 ? TN_OK : conv_prepare_in(setup, transposed, blocks);
}

tn_status tn__dnnl_conv_prepare(tn_kernel_setup *setup) { return conv_prepare_as(setup, false); }
bool tn__dnnl_conv_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *summand = tn__setup_input(setup, 3), *y = tn__setup_output(setup, 0);
    return conv_accepts(setup) &&
           (summand == NULL ||
            (y != NULL && summand->bytes == y->bytes && summand->rank == y->rank &&
             memcmp(summand->shape, y->shape, y->rank * sizeof *y->shape) == 0 &&
             summand->format.order == y->format.order));
}

static tn_status conv_prepare_transposed(tn_kernel_setup *setup) {
    return conv_prepare_as(setup, true);
}

static const tn_kernel dnnl_conv_kernels[] = {
    TN__DNNL_KERNEL_OF("Conv", conv_accepts, tn__dnnl_conv_prepare, TN__DNNL_CONV_WAYS),
    TN__DNNL_KERNEL_OF("ConvTranspose", conv_accepts, conv_prepare_transposed, TN__DNNL_CONV_WAYS),
};

TN_KERNEL_LIBRARY(dnnl_conv, "");
