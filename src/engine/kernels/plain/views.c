/* views.c - operators that give the same bytes another shape.
 *
 * If the plan laid the output on the input, there is no work.
 */
#include "engine/kernels/box.h"

static tn_status views_run(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint64_t count = tn__operand_count(from), wanted = tn__operand_count(to);
    if (count != wanted || from->dtype != to->dtype)
        return tn__call_fail(call, TN_E_INVALID, "%llu elements of %s are not %llu of %s",
                             (unsigned long long)count, tn_dtype_name(from->dtype),
                             (unsigned long long)wanted, tn_dtype_name(to->dtype));
    TN_TRY(tn__call_shape(call, 0, to->rank, to->shape));
    tn__operand_copy(to, from);
    return TN_OK;
}

/* The same bits under another type. */
static tn_status views_run_bits(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint64_t bytes = tn__operand_bytes(from);
    if (bytes != tn__operand_bytes(to))
        return tn__call_fail(call, TN_E_INVALID, "%s and %s have other widths",
                             tn_dtype_name(from->dtype), tn_dtype_name(to->dtype));
    TN_TRY(tn__call_shape(call, 0, to->rank, to->shape));
    if (to->data != from->data && bytes > 0) memcpy(to->data, from->data, bytes);
    return TN_OK;
}

#define VIEWS(name)                                                                                \
    { .type = #name, .accepts = tn__accepts_output, .run = views_run }
static const tn_kernel views_kernels[] = {
    {.type = "BitCast", .accepts = tn__accepts_output, .run = views_run_bits},
    VIEWS(Flatten),
    VIEWS(Identity),
    VIEWS(Reshape),
    VIEWS(Squeeze),
    VIEWS(Unsqueeze),
};

TN_KERNEL_FAMILY(views, "");
