/* formats.c - runs ONNX's operators on tensors with channels last: by the plain kernel of each,
 * between two copies (inner.h). rewrites/formats.c gives such tensors to exactly these
 * operators. */
#include "engine/kernels/inner.h"

static bool formats_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *y = tn__setup_output(setup, 0);
    return y != NULL && y->format.order == TN_ORDER_NHWC && y->format.block == 0 &&
           (y->flags & TN_TENSOR_BOUND) == 0;
}

static tn_status formats_prepare(tn_kernel_setup *setup) {
    return tn__inner_prepare(setup, setup->op, false);
}

#define FORMATS(name)                                                                              \
    {                                                                                              \
        .type = name, .accepts = formats_accepts, .prepare = formats_prepare,                      \
        .run = tn__inner_run, .release = tn__inner_release, .formats = true                        \
    }

static const tn_kernel formats_kernels[] = {
    FORMATS("Abs"),           FORMATS("Add"),
    FORMATS("AveragePool"),   FORMATS("BatchNormalization"),
    FORMATS("Clip"),          FORMATS("Conv"),
    FORMATS("ConvTranspose"), FORMATS("Div"),
    FORMATS("Elu"),           FORMATS("Exp"),
    FORMATS("Gelu"),          FORMATS("GlobalAveragePool"),
    FORMATS("GlobalMaxPool"), FORMATS("HardSigmoid"),
    FORMATS("HardSwish"),     FORMATS("LeakyRelu"),
    FORMATS("MaxPool"),       FORMATS("Mish"),
    FORMATS("Mul"),           FORMATS("Relu"),
    FORMATS("Sigmoid"),       FORMATS("Softplus"),
    FORMATS("Sqrt"),          FORMATS("Sub"),
    FORMATS("Sum"),           FORMATS("Tanh"),
};

TN_KERNEL_FAMILY(formats, "");
