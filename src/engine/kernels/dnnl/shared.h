/* shared.h - functions of oneDNN's kernels for ONNX's operators and for those of domain
 * "tenure". */
#ifndef TN_KERNELS_DNNL_SHARED_H
#define TN_KERNELS_DNNL_SHARED_H

#include "engine/kernels/dnnl.h"

#define TN__DNNL_CONV_WAYS 6u /* each cuts into twice as many pieces as the one before */
bool tn__dnnl_conv_accepts(const tn_kernel_setup *setup);
tn_status tn__dnnl_conv_prepare(tn_kernel_setup *setup);
/* The weights of a convolution (or a transposed one) with `group` groups as the library sees them:
 * [group, out, in, kernel...], without `group` if it is 1. */
tn_status tn__dnnl_conv_weights(const tn__dnnl *library, const tn_tensor *w, bool transposed,
                                int64_t group, dnnl_memory_desc_t *desc);
/* dnnl_pieces.c. A convolution is cut into images * rows pieces; those of an image follow each
 * other. */
typedef struct tn__dnnl_parts {
    tn__dnnl_window window; /* window of the whole convolution */
    bool transposed;
    uint32_t images, rows;
} tn__dnnl_parts;
#define TN__DNNL_PIECE_BYTES (UINT64_C(2) << 20) /* that stay in a core's cache */
/* `count` pieces: images first, then the rows of each. */
void tn__dnnl_parts_cut(tn__dnnl_parts *parts, const tn_tensor *y, uint64_t count);
typedef struct tn__dnnl_piece { /* some rows of some images */
    tn__dnnl_window window;
    dnnl_memory_desc_t x, y;     /* as the operands are */
    uint64_t x_offset, y_offset; /* bytes */
    bool empty;                  /* the last ones, where parts do not go up in it */
} tn__dnnl_piece;
/* Piece `index`, from 0: the output rows that it makes and the input rows that it reads. Rows that
 * a window reaches beyond those are padding, or cut off for a transposed convolution.
 * Errors: E_UNSUPPORTED (it would read only padding).
 */
tn_status tn__dnnl_piece_of(const tn__dnnl *library, const tn__dnnl_parts *parts,
                            const tn_tensor *x, const tn_tensor *y, uint32_t index,
                            tn__dnnl_piece *piece);
/* Whether each window meets the input, which the library's pools want. */
bool tn__dnnl_pool_meets(const tn__dnnl_window *window);
bool tn__dnnl_matmul_accepts(const tn_kernel_setup *setup);
tn_status tn__dnnl_matmul_prepare(tn_kernel_setup *setup);
tn_status tn__dnnl_matmul_flipped(tn_kernel_setup *setup); /* TransposedMatMul */
/* A step: output 0 = input `first`, which may lie at `at` instead and has the output's shape,
 * combined with the other input, which broadcasts to it, and then `post` (NULL: none).
 * E_UNSUPPORTED: the library has no such form. */
tn_status tn__dnnl_pair(tn_kernel_setup *setup, tn__dnnl_work *work, dnnl_alg_kind_t kind,
                        uint32_t first, tn__dnnl_at at, const tn__dnnl_after *after);
/* A step: as many elements as `like` has, times a factor. */
tn_status tn__dnnl_times(tn__dnnl_work *work, const tn__dnnl *library, const tn_tensor *like,
                         double factor, tn__dnnl_at from, tn__dnnl_at to);
/* A step: softmax (`kind`) along the middle dimension of tn__dnnl_rows. */
tn_status tn__dnnl_softmax(tn__dnnl_work *work, const tn__dnnl *library,
                           const dnnl_memory_desc_t *rows, dnnl_alg_kind_t kind, tn__dnnl_at from);
/* A single activation with its parameters. */
tn_status tn__dnnl_each_prepare(tn_kernel_setup *setup, const tn__dnnl_after *after);

#endif
