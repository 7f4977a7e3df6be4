/* views.c - operators that give the same bytes another shape.
 *
 * Where the plan laid the output on the input there is nothing to do.
 */
#include "engine/kernel.h"

static tn_status views_run(tn_kernel_call *call) {
    tn__operand_copy(&call->outputs[0], &call->inputs[0]);
    return TN_OK;
}

static const tn_kernel views_kernels[] = {
    {.type = "Flatten", .run = views_run},   {.type = "Identity", .run = views_run},
    {.type = "Reshape", .run = views_run},   {.type = "Squeeze", .run = views_run},
    {.type = "Unsqueeze", .run = views_run},
};

TN_KERNEL_FAMILY(views, "");
