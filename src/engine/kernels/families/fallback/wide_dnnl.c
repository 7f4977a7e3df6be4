/* wide_dnnl.c - runs matrix products and convolutions of 16-bit floats with oneDNN's kernels for
 * float32, on copies (inner.h). This is used if oneDNN has no kernel for the type: float16 on every
 * machine, bfloat16 without AVX-512. Our own loops need no copies, but are many times slower.
 * Operators that only copy elements or compute them one by one are left to our own loops. */
#include "engine/kernels/inner.h"

static tn_status wide_prepare(tn_kernel_setup *setup) {
    return tn__inner_prepare_wide(setup, true);
}

#define WIDE(name)                                                                                 \
    {                                                                                              \
        .type = name, .prepare = wide_prepare, .run = tn__inner_run, .release = tn__inner_release, \
        .formats = true                                                                            \
    }

static const tn_kernel wide_dnnl_kernels[] = {
    WIDE("Conv"), WIDE("ConvGradWeights"), WIDE("ConvTranspose"),
    WIDE("Gemm"), WIDE("MatMul"),          WIDE("TransposedMatMul"),
};

TN_KERNEL_LIBRARY(wide, "*");
