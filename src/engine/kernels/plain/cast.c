/* cast.c - Cast and CastLike: convert each element to another type; see convert.h. */
#include "engine/kernels/blocks.h"

static tn_status cast_run(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    TN_TRY(tn__call_expect(call, to->dtype, tn__operand_count(from)));
    tn__convert(from->dtype, from->data, to->dtype, to->data, tn__operand_count(to));
    return TN_OK;
}

static const tn_kernel cast_kernels[] = {
    {.type = "Cast", .accepts = tn__elementwise_accepts, .run = cast_run},
    {.type = "CastLike", .accepts = tn__elementwise_accepts, .run = cast_run},
};

TN_KERNEL_FAMILY(cast, "");
