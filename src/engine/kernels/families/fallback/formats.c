/* formats.c - runs operators on tensors with channels last: with the C-order kernel of the
 * operator, between two copies (inner.h). These are the operators to which rewrites/formats.c gives
 * such tensors. This family precedes the families of those kernels, because the latter do not check
 * formats. */
#include "engine/kernels/inner.h"

static bool formats_is_last(const tn_tensor *tensor) {
    return tensor != NULL && tensor->format.order == TN_ORDER_NHWC && tensor->format.block == 0 &&
           (tensor->flags & TN_TENSOR_BOUND) == 0;
}

static bool formats_accepts(const tn_kernel_setup *setup) {
    return formats_is_last(tn__setup_output(setup, 0));
}

/* For gradients, an input in channels-last order is sufficient, because some of their outputs have
 * no channels. */
static bool formats_accepts_gradient(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < setup->op->input_count; i++)
        if (formats_is_last(tn__setup_input(setup, i))) return true;
    return formats_is_last(tn__setup_output(setup, 0));
}

static tn_status formats_prepare(tn_kernel_setup *setup) {
    return tn__inner_prepare(setup, setup->op, false);
}

#define FORMATS(in_domain, name, in_accepts)                                                       \
    {                                                                                              \
        .domain = in_domain, .type = name, .accepts = in_accepts, .prepare = formats_prepare,      \
        .run = tn__inner_run, .release = tn__inner_release, .formats = true                        \
    }
#define FORWARD(name) FORMATS("", name, formats_accepts)
#define GRADIENT(name) FORMATS("tenure", name, formats_accepts_gradient)

static const tn_kernel formats_kernels[] = {
    FORWARD("Abs"),
    FORWARD("Add"),
    FORWARD("AveragePool"),
    FORWARD("BatchNormalization"),
    FORWARD("Clip"),
    FORWARD("Conv"),
    FORWARD("ConvTranspose"),
    FORWARD("Div"),
    FORWARD("Elu"),
    FORWARD("Exp"),
    FORWARD("Gelu"),
    FORWARD("GlobalAveragePool"),
    FORWARD("GlobalMaxPool"),
    FORWARD("HardSigmoid"),
    FORWARD("HardSwish"),
    FORWARD("LeakyRelu"),
    FORWARD("MaxPool"),
    FORWARD("Mish"),
    FORWARD("Mul"),
    FORWARD("Relu"),
    FORWARD("Sigmoid"),
    FORWARD("Softplus"),
    FORWARD("Sqrt"),
    FORWARD("Sub"),
    FORWARD("Sum"),
    FORWARD("Tanh"),
    GRADIENT("AveragePoolGrad"),
    GRADIENT("BatchNormApply"),
    GRADIENT("BatchNormGrad"),
    GRADIENT("BatchNormTrain"),
    GRADIENT("ConvGradWeights"),
    GRADIENT("MaxPoolGrad"),
    GRADIENT("MaxPoolMapGrad"),
    GRADIENT("MaxPoolTrain"),
    GRADIENT("ReluGrad"),
};

TN_KERNEL_FAMILY(formats, "");
