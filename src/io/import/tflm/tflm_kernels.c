/* tflm_kernels.c - the memory that TensorFlow Lite Micro's kernels request.
 *
 * A kernel requests three kinds of memory: the builtin options as a C struct, persistent buffers
 * (the kernel's own data, the multipliers of each channel), scratch while the kernel runs. Structs
 * are described by their fields, so that one table serves every target; the ABI determines their
 * layout.
 *
 * A kernel library may replace a kernel, its data and its scratch: tflm_cmsis.c, tflm_esp.c.
 * Structs and requests also differ between revisions of the runtime. Custom operators and operators
 * that are in no table count 0 bytes, or TFLM_UNKNOWN persistent bytes in the upper estimate.
 *
 * Source: builtin_op_data.h and kernels/ of tflite-micro, 2022 to 2026. docs/microcontrollers.md
 * compares with measured figures.
 */
#include "io/import/tflm/tflm.h"

#define TFLM_UNKNOWN 256u
/* revision since which FULLY_CONNECTED has a scale for each channel */
#define KERNELS_DENSE_CHANNELS 20240927u
/* revision since which MEAN and SUM keep their indices in scratch memory */
#define KERNELS_REDUCE_INDICES 20260116u

/* --- structs ------------------------------------------------------------------------------------
 */

static bool kernels_is_cortex(tn_micro_target target) {
    return target == TN_MICRO_CORTEX_M || target == TN_MICRO_CORTEX_M_HELIUM ||
           target == TN_MICRO_CORTEX_M_SCALAR;
}

static uint64_t kernels_field(tn_micro_target target, char kind) {
    bool wide = target == TN_MICRO_X86_64;
    switch (kind) {
    case 'p':
    case 'z':
        return wide ? 8 : 4;
    case 'd':
        return 8;
    case 'e': /* compilers for arm-none-eabi take the shortest type for an enum */
        return kernels_is_cortex(target) ? 1 : 4;
    case 'h':
        return 2;
    case 'b':
        return 1;
    default:
        return 4;
    }
}

uint64_t tn__tflm_struct(tn_micro_target target, const char *fields, uint64_t *alignment) {
    uint64_t size = 0, most = 1, repeat = 0;
    for (; *fields; fields++) {
        if (*fields >= '0' && *fields <= '9') {
            repeat = 10 * repeat + (uint64_t)(*fields - '0');
            continue;
        }
        uint64_t field = kernels_field(target, *fields);
        if (!tn__align_up(size, field, &size)) return 0;
        size += field * (repeat ? repeat : 1);
        repeat = 0;
        if (field > most) most = field;
    }
    if (alignment) *alignment = most;
    return tn__align_up(size, most, &size) ? size : 0;
}

/* --- the table of operators --- */

typedef struct kernels_row {
    const char *type;
    /* description of the fields of the operator's builtin options; "": no fields */
    const char *options;
    const char *data; /* description of the fields of the kernel's own data; "": no fields */
    /* description of the largest data over all versions of the run time; NULL: `data` holds for all
     * versions */
    const char *most;
    /* descriptions of the data (and the largest data) that kernels of CMSIS-NN and ESP-NN keep
     * instead; NULL: they keep that of `data` */
    const char *cmsis, *most_cmsis, *esp;
    /* first revision of the run time in which CMSIS-NN's kernels use `cmsis` */
    uint32_t cmsis_since;
    /* first revisions of the run time for which `later_options`, and `later` with `later_cmsis`,
     * apply */
    uint32_t options_since, since;
    const char *later_options, *later, *later_cmsis;
} kernels_row;

/* clang-format off */
#define KERNELS_LSTM "bi3i2iie100i30i4i"
#define KERNEL(type_, options_, data_, most_)                                                       \
    {.type = type_, .options = options_, .data = data_, .most = most_}
#define KERNEL_BUT(type_, options_, data_, most_, ...)                                              \
    {.type = type_, .options = options_, .data = data_, .most = most_, __VA_ARGS__}
static const kernels_row kernels_rows[] = {
    KERNEL("ABS", "", "4i2e", "4ib2e"),
    KERNEL_BUT("ADD", "eb", "b15i", NULL, .cmsis = "b14i"),
    KERNEL("ADD_N", "", "12i", NULL),
    KERNEL("ARG_MAX", "e", "", NULL),
    KERNEL("ARG_MIN", "e", "", NULL),
    KERNEL("ASSIGN_VARIABLE", "", "", NULL),
    KERNEL_BUT("AVERAGE_POOL_2D", "e4ie4i", "8i", NULL, .cmsis = "9i"),
    KERNEL_BUT("BATCH_MATMUL", "3b", "4p", NULL, .cmsis = "4p5i", .cmsis_since = 20240909),
    KERNEL("BATCH_TO_SPACE_ND", "", "", NULL),
    KERNEL("BROADCAST_ARGS", "", "", NULL),
    KERNEL("BROADCAST_TO", "", "", NULL),
    KERNEL("CALL_ONCE", "i", "ib", NULL),
    KERNEL("CAST", "2e", "", NULL),
    KERNEL("CEIL", "", "", NULL),
    KERNEL("CONCATENATION", "ie", "b2phii", NULL),
    KERNEL_BUT("CONV_2D", "eiieii", "9i2p3i", NULL, .options_since = 20230914, .later_options = "eiieiie", .cmsis = "9i2p4i", .esp = "9i2p4i"),
    KERNEL("COS", "", "", NULL),
    KERNEL("CUMSUM", "2b", "6i", NULL),
    KERNEL_BUT("DEPTHWISE_CONV_2D", "eiiieii", "9i2p3i", NULL, .cmsis = "9i2p4i", .esp = "9i2p4i"),
    KERNEL("DEPTH_TO_SPACE", "i", "", NULL),
    KERNEL("DEQUANTIZE", "", "di3i", NULL),
    KERNEL("DIV", "e", "7i", NULL),
    KERNEL("ELU", "", "64i", NULL),
    KERNEL("EQUAL", "", "6i", NULL),
    KERNEL("EXP", "", "", NULL),
    KERNEL("EXPAND_DIMS", "", "", NULL),
    KERNEL("FILL", "", "", NULL),
    KERNEL("FLOOR", "", "", NULL),
    KERNEL("FLOOR_DIV", "", "", NULL),
    KERNEL("FLOOR_MOD", "", "", NULL),
    KERNEL_BUT("FULLY_CONNECTED", "ee2b", "9i", NULL, .options_since = 20230914,
     .later_options = "ee2be", .cmsis = "9i2ip3i", .since = 20240927, .later = "9i2pb",
     .later_cmsis = "9i2pb2ip3i"),
    KERNEL("GATHER", "2i", "", NULL),
    KERNEL("GATHER_ND", "", "", NULL),
    KERNEL("GREATER", "", "6i", NULL),
    KERNEL("GREATER_EQUAL", "", "6i", NULL),
    KERNEL("HARD_SWISH", "", "4h2ih", NULL),
    KERNEL("IF", "2i", "2i", NULL),
    KERNEL("L2_NORMALIZATION", "e", "i", NULL),
    KERNEL("L2_POOL_2D", "e4ie4i", "8i", NULL),
    KERNEL("LEAKY_RELU", "i", "6i", NULL),
    KERNEL("LESS", "", "6i", NULL),
    KERNEL("LESS_EQUAL", "", "6i", NULL),
    KERNEL("LOG", "", "", NULL),
    KERNEL("LOGICAL_AND", "", "", NULL),
    KERNEL("LOGICAL_NOT", "", "", NULL),
    KERNEL("LOGICAL_OR", "", "", NULL),
    KERNEL("LOGISTIC", "", "4i", NULL),
    KERNEL("LOG_SOFTMAX", "", "8i2p", NULL),
    KERNEL("MAXIMUM", "", "", NULL),
    KERNEL_BUT("MAX_POOL_2D", "e4ie4i", "8i", NULL, .cmsis = "9i"),
    KERNEL_BUT("MEAN", "b", "10i", NULL, .since = 20260116, .later = "11i"),
    KERNEL("MINIMUM", "", "", NULL),
    KERNEL("MIRROR_PAD", "e", "4i", NULL),
    KERNEL("MUL", "e", "9i", NULL),
    KERNEL("NEG", "", "", NULL),
    KERNEL("NOT_EQUAL", "", "6i", NULL),
    KERNEL("PACK", "2i", "", NULL),
    KERNEL("PAD", "", "b5ib5iei", NULL),
    KERNEL("PADV2", "", "b5ib5iei", NULL),
    KERNEL("PRELU", "", "7i", "9i"),
    KERNEL("QUANTIZE", "", "id3i", NULL),
    KERNEL("READ_VARIABLE", "", "", NULL),
    KERNEL("REDUCE_ALL", "b", "11i", NULL),
    KERNEL_BUT("REDUCE_MAX", "b", "10i", NULL, .since = 20260116, .later = "11i"),
    KERNEL_BUT("REDUCE_MIN", "b", "10i", NULL, .since = 20260116, .later = "11i"),
    KERNEL("RELU", "", "6i", NULL),
    KERNEL("RELU6", "", "2b", "6i"),
    KERNEL("RESHAPE", "9i", "", NULL),
    KERNEL("RESIZE_BILINEAR", "2b", "", NULL),
    KERNEL("RESIZE_NEAREST_NEIGHBOR", "2b", "", NULL),
    KERNEL("ROUND", "", "", NULL),
    KERNEL("RSQRT", "", "4i2e", "4ib2e"),
    KERNEL("SELECT", "", "b", NULL),
    KERNEL("SELECT_V2", "", "b", NULL),
    KERNEL("SHAPE", "e", "", NULL),
    KERNEL("SIN", "", "", NULL),
    KERNEL("SLICE", "", "", NULL),
    KERNEL_BUT("SOFTMAX", "i", "d7i5p", NULL, .cmsis = "d7i5p2i", .esp = "d7i5pi"),
    KERNEL("SPACE_TO_BATCH_ND", "", "i", NULL),
    KERNEL("SPACE_TO_DEPTH", "i", "", NULL),
    KERNEL("SPLIT", "i", "", NULL),
    KERNEL("SPLIT_V", "i", "", NULL),
    KERNEL("SQRT", "", "", NULL),
    KERNEL("SQUARE", "", "", NULL),
    KERNEL("SQUARED_DIFFERENCE", "", "b13i", NULL),
    KERNEL("SQUEEZE", "9i", "", NULL),
    KERNEL("STRIDED_SLICE", "5ib", "b5ib5ib5i6h", NULL),
    KERNEL("SUB", "eb", "b15i", NULL),
    KERNEL_BUT("SUM", "b", "10i", NULL, .since = 20260116, .later = "11i"),
    KERNEL_BUT("SVDF", "ieb", "9i", NULL, .cmsis = "9ip"),
    KERNEL("TANH", "", "4i", NULL),
    KERNEL("TRANSPOSE", "", "", NULL),
    KERNEL_BUT("TRANSPOSE_CONV", "eiie", "e24i2i2p", NULL, .options_since = 20230914, .later_options = "eiiee"),
    KERNEL_BUT("UNIDIRECTIONAL_SEQUENCE_LSTM", "e2i3b", KERNELS_LSTM, "bi3i2iie150i60i12i", .cmsis = KERNELS_LSTM "30i25p", .most_cmsis = "bi3i2iie150i60i12i30i25p"),
    KERNEL("UNPACK", "2i", "", NULL),
    KERNEL("VAR_HANDLE", "2p", "i", NULL),
    KERNEL("WHILE", "2i", "2ib", NULL),
    KERNEL("ZEROS_LIKE", "", "", NULL),
    KERNEL("ethos-u", "", "3i", NULL),
};
/* clang-format on */

static const kernels_row *kernels_find(const char *type) {
    size_t low = 0, high = sizeof kernels_rows / sizeof *kernels_rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(type, kernels_rows[middle].type);
        if (order == 0) return &kernels_rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* --- operands ------------------------------------------------------------------------------------
 */

static const tflm_tensor *kernels_operand(const tflm_model *model, const tflm_op *op,
                                          const tn__flat_vector *list, uint32_t index) {
    if (index >= list->count) return NULL;
    int32_t tensor = tn__flat_int32(list, index);
    if (tensor < 0) return NULL;
    return &model->tensors[model->plan->first[op->subgraph] + (uint32_t)tensor];
}
const tflm_tensor *tn__tflm_input(const tflm_model *model, const tflm_op *op, uint32_t index) {
    return kernels_operand(model, op, &op->inputs, index);
}
const tflm_tensor *tn__tflm_output(const tflm_model *model, const tflm_op *op, uint32_t index) {
    return kernels_operand(model, op, &op->outputs, index);
}

uint64_t tn__tflm_extent(const tflm_tensor *tensor, uint32_t axis) {
    return tensor && axis < tensor->rank && tensor->shape[axis] > 0 ? (uint64_t)tensor->shape[axis]
                                                                    : 0;
}
static uint64_t kernels_elements(const tflm_tensor *tensor) {
    return tensor ? tensor->elements : 0;
}
static bool kernels_is(const tflm_tensor *tensor, tn_dtype dtype) {
    return tensor && tensor->dtype == dtype;
}
bool tn__tflm_named(const tflm_op *op, const char *type) {
    return strcmp(op->code->type, type) == 0;
}
uint64_t tn__tflm_up(uint64_t value, uint64_t to) {
    uint64_t up;
    return tn__align_up(value, to, &up) ? up : UINT64_MAX;
}

void tn__tflm_buffer(tflm_need *need, uint64_t bytes) {
    if (bytes && need->buffer_count < TFLM_BUFFERS_MAX) need->buffers[need->buffer_count++] = bytes;
}
void tn__tflm_scratch(tflm_need *need, uint64_t bytes) {
    if (need->scratch_count < TFLM_SCRATCH_MAX) need->scratch[need->scratch_count++] = bytes;
}

uint64_t tn__tflm_last_extent(const tflm_tensor *tensor) {
    return tensor && tensor->rank > 0 ? tn__tflm_extent(tensor, tensor->rank - 1) : 1;
}

/* Reads an integer of the builtin options. */
uint64_t tn__tflm_option(const tflm_op *op, uint32_t field, uint32_t bytes, uint64_t otherwise) {
    tn__flat_table options = tn__flat_child(&op->table, TFLITE_OP_OPTIONS);
    return options.bytes ? tn__flat_uint(&options, field, bytes, otherwise) : otherwise;
}

/* --- windows --- */

#define KERNELS_EXTENT_MAX ((uint64_t)INT32_MAX)

static uint64_t kernels_bounded(const tflm_tensor *tensor, uint32_t axis) {
    uint64_t extent = tn__tflm_extent(tensor, axis);
    return extent > KERNELS_EXTENT_MAX ? KERNELS_EXTENT_MAX : extent ? extent : 1;
}

static uint64_t kernels_stride(const tflm_op *op, uint32_t field) {
    uint64_t stride = tn__tflm_option(op, field, 4, 1);
    return stride == 0 || stride > KERNELS_EXTENT_MAX ? 1 : stride;
}

/* The padding as the run time computes it: half of the extent by which the windows of all outputs
 * exceed the input. */
static uint64_t kernels_padding(uint64_t in, uint64_t filter, uint64_t out, uint64_t stride,
                                uint64_t dilation) {
    uint64_t reach = tn__add_sat(tn__mul_sat(out - 1, stride), tn__mul_sat(filter - 1, dilation));
    uint64_t need = tn__add_sat(reach, 1), padding = need > in ? (need - in) / 2 : 0;
    return padding > KERNELS_EXTENT_MAX ? KERNELS_EXTENT_MAX : padding;
}

tflm_window tn__tflm_window(const tflm_model *model, const tflm_op *op) {
    const tflm_tensor *in = tn__tflm_input(model, op, 0), *out = tn__tflm_output(model, op, 0);
    const tflm_tensor *filter = tn__tflm_input(model, op, 1);
    bool depthwise = tn__tflm_named(op, "DEPTHWISE_CONV_2D");
    tflm_window w = {.batch = kernels_bounded(in, 0),
                     .ih = kernels_bounded(in, 1),
                     .iw = kernels_bounded(in, 2),
                     .ic = kernels_bounded(in, 3),
                     .fh = kernels_bounded(filter, 1),
                     .fw = kernels_bounded(filter, 2),
                     .filter_channels = kernels_bounded(filter, 3),
                     .oh = kernels_bounded(out, 1),
                     .ow = kernels_bounded(out, 2),
                     .oc = kernels_bounded(out, 3),
                     .sw = kernels_stride(op, 1),
                     .sh = kernels_stride(op, 2)};
    w.multiplier = depthwise ? tn__tflm_option(op, 3, 4, 0) : 1;
    uint64_t dw = kernels_stride(op, depthwise ? 5 : 4), dh = kernels_stride(op, depthwise ? 6 : 5);
    w.dilated = dw != 1 || dh != 1;
    w.pw = kernels_padding(w.iw, w.fw, w.ow, w.sw, dw);
    w.ph = kernels_padding(w.ih, w.fh, w.oh, w.sh, dh);
    return w;
}

/* --- persistent buffers --- */

/* Adds a multiplier and a shift for each channel. */
static void kernels_channels(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tflm_tensor *filter = tn__tflm_input(model, op, 1);
    uint64_t channels = 0;
    bool whole = kernels_is(tn__tflm_input(model, op, 0), TN_FLOAT32);
    if (whole && model->build->kernels == TN_MICRO_CMSIS_NN && !model->options->most &&
        !tn__tflm_named(op, "TRANSPOSE_CONV"))
        /* the lower estimate is that of the newest version of CMSIS-NN, in which kernels keep
         * multipliers and shifts only for integer data */
        return;
    if (tn__tflm_named(op, "CONV_2D") || tn__tflm_named(op, "TRANSPOSE_CONV"))
        channels = tn__tflm_extent(filter, 0);
    else if (tn__tflm_named(op, "DEPTHWISE_CONV_2D"))
        channels = tn__tflm_extent(filter, 3);
    else if (tn__tflm_named(op, "FULLY_CONNECTED") && filter && filter->channels > 1 &&
             model->build->runtime >= KERNELS_DENSE_CHANNELS)
        channels = tn__tflm_extent(filter, 0);
    tn__tflm_buffer(need, tn__mul_sat(4, channels));
    tn__tflm_buffer(need, tn__mul_sat(4, channels));
}

/* Adds the memory for a matrix that the kernel transposes: a tensor struct, its extents, its
 * elements. */
static void kernels_transposed(const tflm_model *model, const tflm_tensor *tensor,
                               tflm_need *need) {
    if (tensor == NULL) return;
    tn__tflm_buffer(need, TN__TFLM_SIZE(model->options->target, "2pe"));
    tn__tflm_buffer(need, 4 + 4 * (uint64_t)tensor->rank);
    tn__tflm_buffer(need, tensor->bytes);
}

static void kernels_matmul(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tflm_tensor *left = tn__tflm_input(model, op, 0);
    if (kernels_is(left, TN_INT8) || kernels_is(left, TN_INT16)) tn__tflm_buffer(need, 7 * 4);
    if (tn__tflm_option(op, 0, 1, 0) != 0) kernels_transposed(model, left, need);
    if (tn__tflm_option(op, 1, 1, 0) == 0)
        kernels_transposed(model, tn__tflm_input(model, op, 1), need);
}

/* --- scratch of the reference kernels --- */

static void kernels_reduce(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tflm_tensor *in = tn__tflm_input(model, op, 0), *axes = tn__tflm_input(model, op, 1);
    bool sums = tn__tflm_named(op, "MEAN") || tn__tflm_named(op, "SUM");
    if (sums && (kernels_is(in, TN_INT8) || kernels_is(in, TN_UINT8) || kernels_is(in, TN_INT16)))
        tn__tflm_scratch(need, tn__mul_sat(4, kernels_elements(tn__tflm_output(model, op, 0))));
    if (sums && model->build->runtime < KERNELS_REDUCE_INDICES) return;
    tn__tflm_scratch(need, 4 * (uint64_t)(in ? in->rank : 0));
    tn__tflm_scratch(need, tn__mul_sat(4, kernels_elements(axes)));
}

void tn__tflm_reference(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tflm_tensor *in = tn__tflm_input(model, op, 0), *out = tn__tflm_output(model, op, 0);
    const tflm_tensor *second = tn__tflm_input(model, op, 1);
    if (tn__tflm_named(op, "SVDF")) {
        tn__tflm_scratch(need, tn__mul_sat(4 * tn__tflm_extent(in, 0), tn__tflm_extent(second, 0)));
        if (kernels_is(in, TN_INT8)) tn__tflm_scratch(need, tn__mul_sat(4, kernels_elements(out)));
    } else if (tn__tflm_named(op, "CONV_2D") || tn__tflm_named(op, "DEPTHWISE_CONV_2D") ||
               tn__tflm_named(op, "FULLY_CONNECTED")) {
        if (kernels_is(second, TN_INT4)) tn__tflm_scratch(need, kernels_elements(second));
    } else if (tn__tflm_named(op, "TRANSPOSE_CONV")) {
        const tflm_tensor *image = tn__tflm_input(model, op, 2),
                          *bias = tn__tflm_input(model, op, 3);
        if (kernels_is(image, TN_INT8))
            tn__tflm_scratch(need, tn__mul_sat(4, kernels_elements(out)));
        if (kernels_is(image, TN_INT16))
            tn__tflm_scratch(need, tn__mul_sat(8, kernels_elements(out)));
        if (kernels_is(image, TN_INT16) && kernels_is(bias, TN_INT16))
            tn__tflm_scratch(need, tn__mul_sat(8, kernels_elements(bias)));
    } else if (tn__tflm_named(op, "MEAN") || tn__tflm_named(op, "SUM") ||
               strncmp(op->code->type, "REDUCE_", 7) == 0) {
        kernels_reduce(model, op, need);
    } else if (tn__tflm_named(op, "MIRROR_PAD")) {
        for (uint32_t i = 0; i < 2; i++) tn__tflm_scratch(need, 4 * (uint64_t)(in ? in->rank : 0));
    } else if (tn__tflm_named(op, "ADD_N")) {
        uint64_t pointer = TN__TFLM_SIZE(model->options->target, "p");
        tn__tflm_scratch(need, tn__mul_sat(pointer, op->inputs.count));
    } else if (tn__tflm_named(op, "ethos-u")) {
        uint64_t operands = tn__add_sat(op->inputs.count, op->outputs.count);
        tn__tflm_scratch(need, tn__mul_sat(8, operands));
        tn__tflm_scratch(need, tn__mul_sat(TN__TFLM_SIZE(model->options->target, "z"), operands));
    } else if (tn__tflm_named(op, "UNIDIRECTIONAL_SEQUENCE_LSTM")) {
        const tflm_tensor *cell = tn__tflm_input(model, op, 19);
        for (uint32_t i = 0; i < 4; i++) tn__tflm_scratch(need, cell ? cell->bytes : 0);
    }
}

/* --- the memory of one operator --- */

static const char *kernels_options(const tflm_build *build, const kernels_row *row) {
    return row->later_options && build->runtime >= row->options_since ? row->later_options
                                                                      : row->options;
}

/* The description of a kernel's own data in a build. */
static const char *kernels_data(const tflm_build *build, const kernels_row *row, bool most) {
    bool later = row->later && build->runtime >= row->since;
    if (build->kernels == TN_MICRO_CMSIS_NN && row->cmsis && build->runtime >= row->cmsis_since) {
        if (later && row->later_cmsis) return row->later_cmsis;
        return most && row->most_cmsis ? row->most_cmsis : row->cmsis;
    }
    if (build->kernels == TN_MICRO_ESP_NN && row->esp) return row->esp;
    if (later) return row->later;
    return most && row->most ? row->most : row->data;
}

static bool kernels_replaced(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    switch (model->build->kernels) {
    case TN_MICRO_CMSIS_NN:
        return tn__tflm_cmsis(model, op, need);
    case TN_MICRO_ESP_NN:
        return tn__tflm_esp(model, op, need);
    default:
        return false;
    }
}

void tn__tflm_need(const tflm_model *model, const tflm_op *op, tflm_need *need) {
    const tn_micro_options *options = model->options;
    const kernels_row *row = kernels_find(op->code->type);
    *need = (tflm_need){.options_alignment = 1, .is_known = row != NULL};
    if (row == NULL) {
        if (options->most) tn__tflm_buffer(need, TFLM_UNKNOWN);
        return;
    }
    need->options = tn__tflm_struct(options->target, kernels_options(model->build, row),
                                    &need->options_alignment);
    tn__tflm_buffer(need,
                    TN__TFLM_SIZE(options->target, kernels_data(model->build, row, options->most)));
    kernels_channels(model, op, need);
    if (tn__tflm_named(op, "BATCH_MATMUL")) kernels_matmul(model, op, need);
    if (tn__tflm_named(op, "SOFTMAX") && kernels_is(tn__tflm_input(model, op, 0), TN_INT16))
        for (uint32_t i = 0; i < 2; i++) tn__tflm_buffer(need, 2 * 513);
    if (!kernels_replaced(model, op, need)) tn__tflm_reference(model, op, need);
}
