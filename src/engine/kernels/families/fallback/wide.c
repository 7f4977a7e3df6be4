/* wide.c - runs operators on 16-bit floats without another kernel: by a kernel for float32 on
 * copies (inner.h), rounded once. So every kernel for float32 also serves float16 and bfloat16;
 * kernels with loops of their own for these types save the copies. */
#include "engine/kernels/inner.h"

static tn_status wide_prepare(tn_kernel_setup *setup) {
    return tn__inner_prepare_wide(setup, false);
}

static const tn_kernel wide_kernels[] = {
    {.type = "*",
     .prepare = wide_prepare,
     .run = tn__inner_run,
     .release = tn__inner_release,
     .formats = true},
};

TN_KERNEL_FAMILY(wide, "*");
