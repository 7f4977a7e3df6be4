/* dnnl_pieces.c - a convolution in pieces: some rows of some images each, and the rows of the input
 * that their windows see. */
#include "kernels/dnnl.h"

#ifdef TENURE_DNNL
#include "kernels/dnnl/shared.h"

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

tn_status tn__dnnl_piece_of(const tn__dnnl *library, const tn__dnnl_parts *parts,
                            const tn_tensor *x, const tn_tensor *y, uint32_t index,
                            tn__dnnl_piece *piece) {
    const tn__dnnl_window *whole = &parts->window;
    int64_t from[2], to[2], in_from[2], in_to[2];
    piece_part(y->shape[0], parts->images, index / parts->rows, &from[0], &to[0]);
    piece_part(y->shape[2], parts->rows, index % parts->rows, &from[1], &to[1]);
    *piece = (tn__dnnl_piece){.window = *whole};
    piece->empty = from[0] >= to[0] || from[1] >= to[1];
    if (piece->empty) return TN_OK;
    in_from[0] = from[0];
    in_to[0] = to[0];
    in_from[1] = 0;
    in_to[1] = x->shape[2];
    if (parts->rows > 1) {
        int64_t reach = (whole->kernel[0] - 1) * (whole->dilation[0] + 1) + 1;
        int64_t begin = from[1] * whole->stride[0] - whole->begin[0];
        int64_t end = (to[1] - 1) * whole->stride[0] - whole->begin[0] + reach;
        in_from[1] = begin > 0 ? begin : 0;
        if (end < in_to[1]) in_to[1] = end;
        if (in_from[1] >= in_to[1]) return TN_E_UNSUPPORTED; /* padding alone */
        piece->window.begin[0] = in_from[1] - begin;
        piece->window.end[0] = end - in_to[1];
    }
    TN_TRY(piece_view(library, x, in_from, in_to, &piece->x, &piece->x_offset));
    return piece_view(library, y, from, to, &piece->y, &piece->y_offset);
}

#endif
