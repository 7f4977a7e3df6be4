/* dnnl_pieces.c - a convolution in pieces: some rows of some images each, and the rows of the input
 * that their windows see. */
#include "engine/kernels/dnnl.h"

#ifdef TENURE_DNNL
#include "engine/kernels/dnnl/shared.h"

/* [first, last) of `count`, cut into pieces as long as each other. */
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

void tn__dnnl_parts_cut(tn__dnnl_parts *parts, const tn_tensor *y, uint64_t count) {
    uint64_t images = (uint64_t)y->shape[0];
    if (count == 0) count = 1;
    parts->images = (uint32_t)(count < images ? count : images);
    parts->rows = (uint32_t)(count / parts->images);
    if (parts->rows > (uint64_t)y->shape[2]) parts->rows = 1;
}

/* The rows of the input for rows [from, to) of the output: *first to *last, and the window's
 * padding there. False: only padding. */
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

/* The same of a transposed one: input row i reaches output rows i * stride - begin and on. */
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

tn_status tn__dnnl_piece_of(const tn__dnnl *library, const tn__dnnl_parts *parts,
                            const tn_tensor *x, const tn_tensor *y, uint32_t index,
                            tn__dnnl_piece *piece) {
    int64_t from[2], to[2], in_from[2], in_to[2];
    piece_part(y->shape[0], parts->images, index / parts->rows, &from[0], &to[0]);
    piece_part(y->shape[2], parts->rows, index % parts->rows, &from[1], &to[1]);
    *piece = (tn__dnnl_piece){.window = parts->window};
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

#endif
