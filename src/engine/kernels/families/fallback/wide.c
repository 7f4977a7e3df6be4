/* wide.c - runs operators on float16 and bfloat16 for which no kernel exists: with a kernel for
 * float32 on copies (inner.h). Results are rounded once. So every kernel for float32 also supports
 * the 16-bit floats. Kernels with own loops for these types need no copies. */
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
