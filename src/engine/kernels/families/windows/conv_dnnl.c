/* conv_dnnl.c - convolutions, transposed convolutions and gradients of weights by oneDNN, with
 * fused operations. (The gradient of an input is a transposed convolution.)
 *
 * The kernel first asks oneDNN for an implementation that uses the formats of the operands, with
 * weights in any format, because they are packed once. If the only such implementation packs on the
 * heap while it runs (usual for channels first), oneDNN may choose the formats of input and output
 * as well. Reorders then copy the operands through scratch memory. This needs more scratch, but all
 * of it is planned.
 *
 * Variants with less scratch (tn_kernel.ways) divide the convolution into pieces that run one after
 * the other and share their scratch. A piece is first some of the images, then some rows of one
 * image. Rows of the input that two pieces need are read twice. The arithmetic of each output
 * element does not change.
 *
 * On AVX2, transposed convolutions (gradients of inputs) and gradients of weights are slow with
 * channels last. In all variants, they are divided into pieces that fit into a core's cache and are
 * copied into faster formats.
 *
 * If the operator of domain "tenure" has a summand (its fourth input), the primitive adds its
 * result to the destination. The summand is therefore copied to the destination first, unless the
 * plan has placed the output at the summand's address.
 */
#include "engine/kernels/dnnl.h"

/* How a convolution is divided into images * rows pieces. The pieces of an image are adjacent. */
typedef struct piece_parts {
    tn__dnnl_window window; /* window of the whole convolution */
    bool transposed;
    uint32_t images, rows;
} piece_parts;
/* total size of the operands of a piece, chosen so that they stay in a core's cache */
#define PIECE_BYTES (UINT64_C(2) << 20)
#define PIECES_MAX 128u
typedef struct conv_piece { /* One piece: a few images, or a few rows of one image. */
    tn__dnnl_window window;
    dnnl_memory_desc_t x, y;     /* descriptors of the piece in the formats of the operands */
    uint64_t x_offset, y_offset; /* bytes */
    /* Whether the piece has no images or no rows. The size of pieces is rounded up, so the last
     * pieces may be empty: 5 rows in 4 pieces are 2, 2, 1 and 0 rows. */
    bool empty;
} conv_piece;

/* Computes the range [first, last) of part number `part` if `count` is divided into equal parts. */
static void piece_part(int64_t count, uint32_t parts, uint32_t part, int64_t *first,
                       int64_t *last) {
    int64_t length = (count + parts - 1) / parts;
    *first = (int64_t)part * length < count ? (int64_t)part * length : count;
    *last = *first + length < count ? *first + length : count;
}

static tn_status piece_view(const tn__dnnl *library, const tn_tensor *tensor,
                            const int64_t first[2], const int64_t last[2], dnnl_memory_desc_t *desc,
                            uint64_t *offset) {
    int64_t shape[TN_RANK_MAX], strides[TN_RANK_MAX], elements;
    tn__dnnl_strides(tensor, strides);
    memcpy(shape, tensor->shape, tensor->rank * sizeof *shape);
    shape[0] = last[0] - first[0];
    shape[2] = last[1] - first[1];
    elements = first[0] * strides[0] + first[1] * strides[2];
    *offset = (uint64_t)elements * (tn_dtype_bits(tensor->dtype) / 8);
    return tn__dnnl_strided(library, tensor->dtype, tensor->rank, shape, strides, desc);
}

/* Divides a convolution into about `count` pieces: first by images, then by the rows of each
 * image. */
static void piece_cut(piece_parts *parts, const tn_tensor *y, uint64_t count) {
    uint64_t images = (uint64_t)y->shape[0];
    if (count == 0) count = 1;
    parts->images = (uint32_t)(count < images ? count : images);
    parts->rows = (uint32_t)(count / parts->images);
    if (parts->rows > (uint64_t)y->shape[2]) parts->rows = 1;
}

/* Computes the input rows [*first, *last) that the output rows [from, to) read, and the padding
 * before and after them. `there`: rows of the input. Returns false if the output rows read only
 * padding. */
static bool piece_rows(tn__dnnl_window *window, int64_t from, int64_t to, int64_t there,
                       int64_t *first, int64_t *last) {
    const int64_t reach = (window->kernel[0] - 1) * (window->dilation[0] + 1) + 1;
    const int64_t begin = from * window->stride[0] - window->begin[0];
    const int64_t end = (to - 1) * window->stride[0] - window->begin[0] + reach;
    *first = begin > 0 ? begin : 0;
    *last = end < there ? end : there;
    window->begin[0] = *first - begin;
    window->end[0] = end - *last;
    return *first < *last;
}

/* Computes the input rows of a piece as piece_rows does, for a transposed convolution, where input
 * row i contributes to the output rows from i * stride - begin on. */
static bool piece_rows_back(tn__dnnl_window *window, int64_t from, int64_t to, int64_t there,
                            int64_t *first, int64_t *last) {
    const int64_t stride = window->stride[0], begin = window->begin[0];
    const int64_t reach = (window->kernel[0] - 1) * (window->dilation[0] + 1) + 1;
    const int64_t begins = from + begin - reach + 1, ends = (to - 1 + begin) / stride + 1;
    *first = begins > 0 ? (begins + stride - 1) / stride : 0;
    *last = ends < there ? ends : there;
    window->begin[0] = from + begin - *first * stride;
    window->end[0] = (*last - *first - 1) * stride + reach - window->begin[0] - (to - from);
    return *first < *last && window->begin[0] >= 0;
}

/* Computes piece number `index`: the part of the output that it writes, and the part of the input
 * that it reads. Where the window extends beyond this input, the piece has padding; in a transposed
 * convolution, outputs beyond the piece are dropped. Errors: E_UNSUPPORTED (the piece would read
 * only padding). */
static tn_status piece_of(const tn__dnnl *library, const piece_parts *parts, const tn_tensor *x,
                          const tn_tensor *y, uint32_t index, conv_piece *piece) {
    int64_t from[2], to[2], in_from[2], in_to[2];
    piece_part(y->shape[0], parts->images, index / parts->rows, &from[0], &to[0]);
    piece_part(y->shape[2], parts->rows, index % parts->rows, &from[1], &to[1]);
    *piece = (conv_piece){.window = parts->window};
    piece->empty = from[0] >= to[0] || from[1] >= to[1];
    if (piece->empty) return TN_OK;
    in_from[0] = from[0];
    in_to[0] = to[0];
    in_from[1] = 0;
    in_to[1] = x->shape[2];
    if (parts->rows > 1 && !(parts->transposed ? piece_rows_back : piece_rows)(
                               &piece->window, from[1], to[1], x->shape[2], &in_from[1], &in_to[1]))
        return TN_E_UNSUPPORTED;
    TN_TRY(piece_view(library, x, in_from, in_to, &piece->x, &piece->x_offset));
    return piece_view(library, y, from, to, &piece->y, &piece->y_offset);
}

/* --- convolutions --- */

typedef struct conv_plan {
    const tn_tensor *x, *w, *bias, *summand, *y;
    bool transposed;
    bool blocks; /* whether the pieces are copied into formats that oneDNN chooses */
    tn__dnnl_after after;
    dnnl_memory_desc_t w_desc, bias_desc; /* descriptors of weights and bias in their own formats */
    piece_parts parts;
} conv_plan;

static bool conv_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *w = tn__setup_input(setup, 1);
    return tn__dnnl_all_fit(setup) && x != NULL && w != NULL && x->rank >= 3 && x->rank <= 5 &&
           w->rank == x->rank && w->format.order != TN_ORDER_NHWC;
}

/* Describes the weights to oneDNN: [group, out, in, kernel...], without the first dimension if
 * there is one group. */
static tn_status conv_weights_desc(const tn__dnnl *library, const tn_tensor *w, bool transposed,
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
    return conv_weights_desc(library, plan->w, transposed, tn__attr_int(setup->op, "group", 1),
                             &plan->w_desc);
}

/* Whether pieces should be copied into a format with channels in blocks of eight. With channels
 * last, oneDNN's transposed kernels for AVX2 read all channels of a pixel again for every eight of
 * them, which can take longer than the copies. Kernels for AVX-512 and kernels with a window of one
 * pixel do not have this problem, and forward kernels would gain only as much as the copies
 * cost. */
static bool conv_wants_blocks(const tn_kernel_setup *setup, const conv_plan *plan) {
    bool point = true;
    for (uint32_t d = 2; d < plan->w->rank; d++) point = point && plan->w->shape[d] == 1;
    return plan->transposed && !point && plan->summand == NULL &&
           plan->x->format.order == TN_ORDER_NHWC && plan->y->format.order == TN_ORDER_NHWC &&
           plan->x->dtype == TN_FLOAT32 && plan->y->dtype == TN_FLOAT32 &&
           tn__attr_int(setup->op, "group", 1) == 1 &&
           strcmp(tn__dnnl_isa(setup->library), "avx2") == 0;
}

/* Chooses the number of pieces for variant `way`, which is twice that of the variant before. Images
 * are divided first, because this costs nothing, then the rows of each image. */
static tn_status conv_cut(conv_plan *plan, uint32_t way) {
    int64_t images = plan->y->shape[0], rows = plan->y->shape[2];
    int64_t pieces = INT64_C(1) << way;
    if (plan->blocks) {
        uint64_t count = (plan->x->bytes + plan->y->bytes) / PIECE_BYTES;
        if (count == 0) count = 1;
        if (count << way > PIECES_MAX && way > 0) return TN_E_UNSUPPORTED;
        count <<= way;
        piece_cut(&plan->parts, plan->y, count < PIECES_MAX ? count : PIECES_MAX);
        return TN_OK;
    }
    plan->parts.images = (uint32_t)(pieces < images ? pieces : images);
    plan->parts.rows = (uint32_t)((pieces + plan->parts.images - 1) / plan->parts.images);
    if (way == 0) return TN_OK;
    bool cuts_rows = plan->parts.rows > 1;
    if ((cuts_rows && (plan->transposed || plan->parts.rows / 2 >= rows)) ||
        (uint64_t)plan->parts.images * plan->parts.rows > PIECES_MAX)
        return TN_E_UNSUPPORTED;
    return TN_OK;
}

/* Finds the best implementation for a piece. `given`: input and output have the formats of the
 * operands; otherwise oneDNN chooses them. `wanted`: format of the weights; NULL: oneDNN chooses
 * it. */
static tn_status conv_choose(const tn__dnnl *library, const conv_plan *plan,
                             const conv_piece *piece, bool given, const dnnl_memory_desc_t *wanted,
                             dnnl_primitive_desc_t *chosen, uint32_t *rank) {
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

/* Chooses the implementation of the first piece, and whether operands keep their formats. All other
 * pieces use the same formats. */
static tn_status conv_pick(const tn__dnnl *library, const conv_plan *plan, const conv_piece *piece,
                           dnnl_primitive_desc_t *chosen, bool *given) {
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

/* The chosen implementation of each piece, and scratch memory for copies of the largest piece. */
typedef struct conv_choice {
    dnnl_primitive_desc_t of[PIECES_MAX];
    /* `x_copied`, `y_copied`: whether any piece copies its input or its output; `y_lies`: whether
     * any piece writes its output directly */
    bool x_copied, y_copied, y_lies;
    tn__dnnl_at x_at, y_at;
} conv_choice;

/* Whether an operand must be copied because a piece needs another format. Then raises *bytes to the
 * size of the copy. */
static bool conv_is_copied(const tn__dnnl *library, const dnnl_memory_desc_t *has,
                           const dnnl_memory_desc_t *wants, uint64_t *bytes) {
    if (library->dnnl_memory_desc_equal(has, wants)) return false;
    uint64_t size = library->dnnl_memory_desc_get_size(wants);
    if (size > *bytes) *bytes = size;
    return true;
}

/* Chooses the implementations of all pieces and reserves scratch memory for copies. If it fails,
 * the caller destroys the descriptors in `choice`. */
static tn_status conv_choose_all(const tn__dnnl *library, const conv_plan *plan,
                                 tn__dnnl_work *work, conv_choice *choice) {
    uint64_t x_bytes = 0, y_bytes = 0;
    dnnl_memory_desc_t weights;
    bool given = true;
    for (uint32_t i = 0; i < plan->parts.images * plan->parts.rows; i++) {
        conv_piece piece;
        TN_TRY(piece_of(library, &plan->parts, plan->x, plan->y, i, &piece));
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

/* Adds the steps of a piece: its primitive, and reorders before and after it if formats differ. */
static tn_status conv_add_piece(tn__dnnl_work *work, const tn__dnnl *library, const conv_plan *plan,
                                conv_choice *choice, uint32_t index, tn__dnnl_at w_at) {
    dnnl_primitive_desc_t *chosen = &choice->of[index];
    conv_piece piece;
    TN_TRY(piece_of(library, &plan->parts, plan->x, plan->y, index, &piece));
    if (piece.empty) return TN_OK;
    /* the descriptors are copied, because they are destroyed with the step to which they belong */
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
    for (uint32_t i = 0; i < PIECES_MAX; i++)
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

/* Determines whether a transposed convolution runs in blocks, by preparing its fastest variant. All
 * variants must do as the fastest one does, because all must compute the same bits. */
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

static tn_status conv_prepare(tn_kernel_setup *setup) { return conv_prepare_as(setup, false); }
static bool conv_accepts_fused(const tn_kernel_setup *setup) {
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

/* --- the gradient of the weights ---
 *
 * As for convolutions, the kernel first asks for the formats of the operands, with the gradient in
 * any format. If the only such implementation packs on the heap, oneDNN chooses all three formats,
 * and reorders copy the operands through planned scratch memory. The gradient is written in C
 * order, because optimizers and checkpoints read it.
 *
 * If kernels are slow with channels last (AVX2), pieces are copied into a faster format. The
 * gradients of the pieces are added in an order that depends only on the shapes, so results are
 * reproducible.
 */

typedef struct back_plan {
    const tn_tensor *x_tensor, *dy_tensor;
    piece_parts parts;
    dnnl_memory_desc_t x, dw, dy; /* descriptors of the operands in their own formats */
} back_plan;

static bool back_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *dy = tn__setup_input(setup, 0), *x = tn__setup_input(setup, 1);
    const tn_tensor *dw = tn__setup_output(setup, 0);
    return tn__dnnl_all_fit(setup) && dy != NULL && x != NULL && dw != NULL && x->rank >= 3 &&
           x->rank <= 5 && dy->rank == x->rank && dw->rank == x->rank &&
           dw->format.order != TN_ORDER_NHWC;
}

/* Whether oneDNN would write beyond its scratchpad. It has a kernel for a window of one pixel with
 * a stride and channels last that uses its scratchpad in blocks of 16 channels, but requests only
 * one byte per channel. With fewer than 16 channels it overruns. This affects version 2.6, and 3.12
 * according to its issues. Such layers are small, so our own loops run them. */
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
    return conv_weights_desc(library, dw, false, group, &plan->dw);
}

/* Finds the best implementation. `given`: x and dy have the formats of the operands; otherwise
 * oneDNN chooses them. `wanted`: format of the gradient of the weights; NULL: oneDNN chooses it. */
static tn_status back_choose(const tn__dnnl *library, const back_plan *plan,
                             const conv_piece *piece, bool given, const dnnl_memory_desc_t *wanted,
                             dnnl_primitive_desc_t *chosen, uint32_t *rank) {
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
    const conv_piece whole = {.window = plan->parts.window, .x = plan->x, .y = plan->dy};
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

/* Makes an input available in the format that an implementation needs: passes the input itself, or
 * adds a step that copies it to scratch memory. */
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

/* Whether the gradient is computed in pieces that are copied into a format with channels in blocks
 * of eight. With channels last, oneDNN's kernels for AVX2 read all channels of a pixel again for
 * every eight of them, which can take much longer than the copies. Kernels for AVX-512 and kernels
 * with a window of one pixel do not have this problem. */
static bool back_in_pieces(const tn_kernel_setup *setup, const back_plan *plan) {
    const tn_tensor *dw = tn__setup_output(setup, 0);
    bool point = true;
    for (uint32_t d = 2; d < dw->rank; d++) point = point && dw->shape[d] == 1;
    return !point && plan->x_tensor->format.order == TN_ORDER_NHWC &&
           plan->dy_tensor->format.order == TN_ORDER_NHWC && dw->dtype == TN_FLOAT32 &&
           plan->x_tensor->dtype == TN_FLOAT32 && tn__attr_int(setup->op, "group", 1) == 1 &&
           strcmp(tn__dnnl_isa(setup->library), "avx2") == 0;
}

/* Chooses the number of pieces. A piece is at least as large as the gradient, because every piece
 * adds to the whole gradient. */
static void back_cut(const tn_kernel_setup *setup, back_plan *plan) {
    uint64_t bytes = plan->x_tensor->bytes + plan->dy_tensor->bytes;
    uint64_t goal = tn__setup_output(setup, 0)->bytes;
    if (goal < PIECE_BYTES) goal = PIECE_BYTES;
    uint64_t count = bytes / goal;
    piece_cut(&plan->parts, plan->dy_tensor, count < PIECES_MAX ? count : PIECES_MAX);
}

/* Adds a step that computes `sum` += `part` for this number of bytes of float32. */
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

/* The chosen implementation of each piece, and scratch memory for copies of the largest piece. */
typedef struct back_copies {
    dnnl_primitive_desc_t of[PIECES_MAX];
    dnnl_memory_desc_t dw;
    uint64_t x_bytes, dy_bytes;
    tn__dnnl_at x, dy, sum, part;
} back_copies;

static void back_larger(const tn__dnnl *library, dnnl_primitive_desc_t chosen, dnnl_query_t what,
                        uint64_t *bytes) {
    uint64_t size = library->dnnl_memory_desc_get_size(tn__dnnl_wants(library, chosen, what, 0));
    if (size > *bytes) *bytes = size;
}

/* Chooses the implementations of all pieces and reserves scratch memory. If it fails, the caller
 * destroys the descriptors in `copies`. */
static tn_status back_choose_all(tn__dnnl_work *work, const tn__dnnl *library,
                                 const back_plan *plan, back_copies *copies) {
    const uint32_t pieces = plan->parts.images * plan->parts.rows;
    for (uint32_t i = 0; i < pieces; i++) {
        dnnl_primitive_desc_t *chosen = &copies->of[i];
        conv_piece piece;
        uint32_t rank = 0;
        TN_TRY(piece_of(library, &plan->parts, plan->x_tensor, plan->dy_tensor, i, &piece));
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
    conv_piece piece;
    tn__dnnl_at x_at, dy_at;
    TN_TRY(piece_of(library, &plan->parts, plan->x_tensor, plan->dy_tensor, index, &piece));
    if (piece.empty) return TN_OK;
    const dnnl_memory_desc_t x = *tn__dnnl_wants(library, chosen, dnnl_query_src_md, 0);
    const dnnl_memory_desc_t dy = *tn__dnnl_wants(library, chosen, dnnl_query_diff_dst_md, 0);
    const tn__dnnl_at x_from = {TN__DNNL_INPUT, 1, piece.x_offset};
    const tn__dnnl_at dy_from = {TN__DNNL_INPUT, 0, piece.y_offset};
    TN_TRY(back_copy(work, library, &piece.x, x_from, &x, copies->x, &x_at));
    TN_TRY(back_copy(work, library, &piece.y, dy_from, &dy, copies->dy, &dy_at));
    copies->of[index] = NULL; /* the step owns the copy from now on */
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
    for (uint32_t i = 0; i < PIECES_MAX; i++)
        if (copies.of[i] != NULL) library->dnnl_primitive_desc_destroy(copies.of[i]);
    return status;
}

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

#define CONV_WAYS 6u /* number of variants; each has twice as many pieces as the one before */
#define CONV_ROW(in_domain, in_type, in_accepts, in_prepare, in_ways)                              \
    {                                                                                              \
        .domain = in_domain, .type = in_type, .accepts = in_accepts, .prepare = in_prepare,        \
        .run = tn__dnnl_run, .pack = tn__dnnl_pack, .release = tn__dnnl_release, .formats = true,  \
        .ways = in_ways                                                                            \
    }
static const tn_kernel conv_dnnl_kernels[] = {
    CONV_ROW("", "Conv", conv_accepts, conv_prepare, CONV_WAYS),
    CONV_ROW("", "ConvTranspose", conv_accepts, conv_prepare_transposed, CONV_WAYS),
    CONV_ROW("tenure", "Conv", conv_accepts_fused, conv_prepare, CONV_WAYS),
    CONV_ROW("tenure", "ConvGradWeights", back_accepts, back_prepare, 0),
};

TN_KERNEL_LIBRARY(conv, "");
