/* dnnl_shared.h - what kernels of oneDNN do for ONNX's operators and for those of domain "tenure"
 * alike. */
#ifndef TN_ENGINE_KERNELS_DNNL_SHARED_H
#define TN_ENGINE_KERNELS_DNNL_SHARED_H

#include "engine/dnnl.h"

bool tn__dnnl_conv_accepts(const tn_kernel_setup *setup);
tn_status tn__dnnl_conv_prepare(tn_kernel_setup *setup);
bool tn__dnnl_matmul_accepts(const tn_kernel_setup *setup);
tn_status tn__dnnl_matmul_prepare(tn_kernel_setup *setup);
/* One activation by itself, with its parameters. */
tn_status tn__dnnl_each_prepare(tn_kernel_setup *setup, const tn__dnnl_after *after);

#endif
