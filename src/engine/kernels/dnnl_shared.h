/* dnnl_shared.h - what kernels of oneDNN do for ONNX's operators and for those of domain "tenure"
 * alike. */
#ifndef TN_ENGINE_KERNELS_DNNL_SHARED_H
#define TN_ENGINE_KERNELS_DNNL_SHARED_H

#include "engine/dnnl.h"

bool tn__dnnl_conv_accepts(const tn_kernel_setup *setup);
tn_status tn__dnnl_conv_prepare(tn_kernel_setup *setup);
/* The weights of a convolution (transposed: of a transposed one) of `group` groups as the library
 * sees them: [group, out, in, kernel...], or without `group` when there is one. */
tn_status tn__dnnl_conv_weights(const tn__dnnl *library, const tn_tensor *w, bool transposed,
                                int64_t group, dnnl_memory_desc_t *desc);
/* Whether each window meets the input, which the library's pools want. */
bool tn__dnnl_pool_meets(const tn__dnnl_window *window);
bool tn__dnnl_matmul_accepts(const tn_kernel_setup *setup);
tn_status tn__dnnl_matmul_prepare(tn_kernel_setup *setup);
tn_status tn__dnnl_matmul_flipped(tn_kernel_setup *setup); /* TransposedMatMul */
/* One activation by itself, with its parameters. */
tn_status tn__dnnl_each_prepare(tn_kernel_setup *setup, const tn__dnnl_after *after);

#endif
