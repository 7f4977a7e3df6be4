/* resample.h - finds the input coordinates that contribute to each output coordinate of a
 * resampling: for Resize and Upsample, forward and backward. */
#ifndef TN_KERNELS_RESAMPLE_H
#define TN_KERNELS_RESAMPLE_H

#include "engine/kernels/box.h"

enum { TN__RESAMPLE_TAPS = 4 };

typedef enum tn__resample_kind {
    TN__RESAMPLE_NEAREST,
    TN__RESAMPLE_LINEAR,
    TN__RESAMPLE_CUBIC
} tn__resample_kind;

typedef struct tn__resample_axis {
    uint32_t taps;
    bool same;       /* every coordinate is itself */
    int64_t *source; /* [extent][taps] input coordinates; -1: outside, extrapolated */
    double *weight;  /* [extent][taps] */
} tn__resample_axis;

typedef struct tn__resample {
    tn__resample_kind mode;
    const char *coordinates, *nearest;
    bool simple, exclude;   /* simple: Upsample, and Resize before opset 11 */
    bool crops;             /* tf_crop_and_resize: the only way to lie outside */
    const tn_operand *from; /* the tensor that is resampled, or one of its shape */
    double cubic, outside;
    int64_t shape[TN_RANK_MAX];
    double scale[TN_RANK_MAX], length[TN_RANK_MAX]; /* length: the output's, perhaps a fraction */
    /* bounds of the region, for tf_crop_and_resize */
    double begin[TN_RANK_MAX], end[TN_RANK_MAX];
    tn__resample_axis axis[TN_RANK_MAX];
} tn__resample;

/* False: an unknown mode. */
bool tn__resample_mode(const tn_op *op, tn__resample_kind *mode);
/* From the operator's attributes, and scales or sizes (NULL: none). simple: as before opset 11. */
tn_status tn__resample_read(tn_kernel_call *call, const tn_operand *from, bool simple,
                            const tn_operand *scales, const tn_operand *sizes, tn__resample *plan);
/* The region of interest, relative: all begins, then all ends. */
tn_status tn__resample_region(const tn_kernel_call *call, tn__resample *plan);
/* Makes the tables of all axes in the workspace; `*row` is the rest of it: one row of sums. A table
 * of nearest places has weights of 1. */
tn_status tn__resample_tables(tn_kernel_call *call, tn__resample *plan, double **row);
uint64_t tn__resample_bytes(const tn_tensor *to); /* of that workspace */

#endif
