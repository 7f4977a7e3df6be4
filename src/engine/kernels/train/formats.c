/* formats.c - training's operators on tensors that lie channels last: by the plain kernel of
 * each, between two moves (inner.h). */
#include "engine/kernels/inner.h"

static bool formats_is_last(const tn_tensor *tensor) {
    return tensor != NULL && tensor->format.order == TN_ORDER_NHWC && tensor->format.block == 0 &&
           (tensor->flags & TN_TENSOR_BOUND) == 0;
}

static bool formats_accepts(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < setup->op->input_count; i++)
        if (formats_is_last(tn__setup_input(setup, i))) return true;
    return formats_is_last(tn__setup_output(setup, 0));
}

static tn_status formats_prepare(tn_kernel_setup *setup) {
    return tn__inner_prepare(setup, setup->op, false);
}

#define FORMATS(name)                                                                              \
    {                                                                                              \
        .type = name, .accepts = formats_accepts, .prepare = formats_prepare,                      \
        .run = tn__inner_run, .release = tn__inner_release, .formats = true                        \
    }

static const tn_kernel train_formats_kernels[] = {
    FORMATS("AveragePoolGrad"), FORMATS("BatchNormApply"),  FORMATS("BatchNormGrad"),
    FORMATS("BatchNormTrain"),  FORMATS("ConvGradWeights"), FORMATS("MaxPoolGrad"),
    FORMATS("MaxPoolMapGrad"),  FORMATS("MaxPoolTrain"),    FORMATS("ReluGrad"),
};

TN_KERNEL_FAMILY(train_formats, "tenure");
