/* tflite_kernels.c - the memory that TensorFlow Lite Micro's kernels request.
 *
 * Three kinds: the builtin options as a C struct, persistent buffers (the kernel's own data, the
 * multipliers of each channel), scratch while the kernel runs. Structs are described by their
 * fields, so that one table serves every target; the ABI determines their layout.
 *
 * A kernel library may replace a kernel: CMSIS-NN's request 16 more persistent bytes (measured: 80
 * bytes for six operators), and scratch that depends on the core (counted for the upper estimate,
 * not for the lower one). Operators in no table, and custom ones, count 0 bytes here, or
 * MICRO_UNKNOWN persistent bytes in the upper estimate.
 *
 * Source: builtin_op_data.h and kernels/ of tflite-micro, 2022 to 2026; CMSIS-NN's get_buffer_size
 * functions. docs/microcontrollers.md compares with measured figures.
 */
#include "import/tflite_micro.h"

#define MICRO_UNKNOWN 256u

/* --- structs ------------------------------------------------------------------------------------
 */

static uint64_t kernels_field(tn_micro_target target, char kind) {
    bool wide = target == TN_MICRO_X86_64;
    switch (kind) {
    case 'p':
    case 'z':
        return wide ? 8 : 4;
    case 'd':
        return 8;
    case 'e': /* arm-none-eabi's compilers take the shortest type for an enum */
        return wide ? 4 : 1;
    case 'h':
        return 2;
    case 'b':
        return 1;
    default:
        return 4;
    }
}

uint64_t tn__micro_struct(tn_micro_target target, const char *fields, uint64_t *alignment) {
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

/* --- the table ----------------------------------------------------------------------------------
 */

typedef struct kernels_row {
    const char *type;
    const char *options; /* fields of its builtin options; "": none */
    const char *data;    /* fields of its own data; "": none */
    const char *most;    /* if versions differ: the largest; NULL: `data` */
    bool has_cmsis;      /* CMSIS-NN has a kernel of its own */
} kernels_row;

/* clang-format off */
#define KERNELS_CONV "9i2p3i"
#define KERNELS_LSTM "bi3i2iie100i30i4i"
static const kernels_row kernels_rows[] = {
    {"ABS", "", "4i2e", "4ib2e", false},
    {"ADD", "eb", "b15i", NULL, true},
    {"ADD_N", "", "12i", NULL, false},
    {"ARG_MAX", "e", "", NULL, false},
    {"ARG_MIN", "e", "", NULL, false},
    {"ASSIGN_VARIABLE", "", "", NULL, false},
    {"AVERAGE_POOL_2D", "e4ie4i", "8i", NULL, true},
    {"BATCH_MATMUL", "3b", "12i", "2p24i", true},
    {"BATCH_TO_SPACE_ND", "", "", NULL, false},
    {"BROADCAST_ARGS", "", "", NULL, false},
    {"BROADCAST_TO", "", "", NULL, false},
    {"CALL_ONCE", "i", "ib", NULL, false},
    {"CAST", "2e", "", NULL, false},
    {"CEIL", "", "", NULL, false},
    {"CONCATENATION", "ie", "b2phii", NULL, false},
    {"CONV_2D", "eiieiie", KERNELS_CONV, NULL, true},
    {"COS", "", "", NULL, false},
    {"CUMSUM", "2b", "6i", NULL, false},
    {"DEPTHWISE_CONV_2D", "eiiieii", KERNELS_CONV, NULL, true},
    {"DEPTH_TO_SPACE", "i", "", NULL, false},
    {"DEQUANTIZE", "", "di3i", NULL, false},
    {"DIV", "e", "7i", NULL, false},
    {"ELU", "", "64i", NULL, false},
    {"EQUAL", "", "6i", NULL, false},
    {"EXP", "", "", "64i", false},
    {"EXPAND_DIMS", "", "", NULL, false},
    {"FILL", "", "", NULL, false},
    {"FLOOR", "", "", NULL, false},
    {"FLOOR_DIV", "", "", NULL, false},
    {"FLOOR_MOD", "", "", NULL, false},
    {"FULLY_CONNECTED", "ee2be", "9i2pb", NULL, true},
    {"GATHER", "2i", "", NULL, false},
    {"GATHER_ND", "", "", NULL, false},
    {"GREATER", "", "6i", NULL, false},
    {"GREATER_EQUAL", "", "6i", NULL, false},
    {"HARD_SWISH", "", "4h2ih", NULL, false},
    {"IF", "2i", "2i", NULL, false},
    {"L2_NORMALIZATION", "e", "i", NULL, false},
    {"L2_POOL_2D", "e4ie4i", "8i", NULL, false},
    {"LEAKY_RELU", "i", "6i", NULL, false},
    {"LESS", "", "6i", NULL, false},
    {"LESS_EQUAL", "", "6i", NULL, false},
    {"LOG", "", "", "64i", false},
    {"LOGICAL_AND", "", "", NULL, false},
    {"LOGICAL_NOT", "", "", NULL, false},
    {"LOGICAL_OR", "", "", NULL, false},
    {"LOGISTIC", "", "4i", NULL, false},
    {"LOG_SOFTMAX", "", "8i2p", NULL, false},
    {"MAXIMUM", "", "", NULL, true},
    {"MAX_POOL_2D", "e4ie4i", "8i", NULL, true},
    {"MEAN", "b", "8i", "10i", false},
    {"MINIMUM", "", "", NULL, true},
    {"MIRROR_PAD", "e", "4i", NULL, false},
    {"MUL", "e", "9i", NULL, true},
    {"NEG", "", "", NULL, false},
    {"NOT_EQUAL", "", "6i", NULL, false},
    {"PACK", "2i", "", NULL, false},
    {"PAD", "", "b5ib5iei", NULL, true},
    {"PADV2", "", "b5ib5iei", NULL, true},
    {"PRELU", "", "9i", NULL, false},
    {"QUANTIZE", "", "id3i", NULL, false},
    {"READ_VARIABLE", "", "", NULL, false},
    {"REDUCE_MAX", "b", "8i", "10i", false},
    {"REDUCE_MIN", "b", "8i", "10i", false},
    {"RELU", "", "6i", NULL, false},
    {"RELU6", "", "2b", "6i", false},
    {"RESHAPE", "9i", "", NULL, false},
    {"RESIZE_BILINEAR", "2b", "", NULL, false},
    {"RESIZE_NEAREST_NEIGHBOR", "2b", "", NULL, false},
    {"ROUND", "", "", NULL, false},
    {"RSQRT", "", "4i2e", "4ib2e", false},
    {"SELECT", "", "", NULL, false},
    {"SELECT_V2", "", "", NULL, false},
    {"SHAPE", "e", "", NULL, false},
    {"SIN", "", "", NULL, false},
    {"SLICE", "", "", NULL, false},
    {"SOFTMAX", "i", "d7i5p", NULL, true},
    {"SPACE_TO_BATCH_ND", "", "", NULL, false},
    {"SPACE_TO_DEPTH", "i", "", NULL, false},
    {"SPLIT", "i", "", NULL, false},
    {"SPLIT_V", "i", "", NULL, false},
    {"SQRT", "", "", NULL, false},
    {"SQUARE", "", "", NULL, false},
    {"SQUARED_DIFFERENCE", "", "b13i", NULL, false},
    {"SQUEEZE", "9i", "", NULL, false},
    {"STRIDED_SLICE", "5ib", "b5ib5ib5i6h", NULL, false},
    {"SUB", "eb", "b15i", NULL, false},
    {"SUM", "b", "8i", "10i", false},
    {"SVDF", "ieb", "9i", NULL, true},
    {"TANH", "", "4i", NULL, false},
    {"TRANSPOSE", "", "", "7i", true},
    {"TRANSPOSE_CONV", "eiiee", "e24i2i2p", NULL, true},
    {"UNIDIRECTIONAL_SEQUENCE_LSTM", "e2i3b", KERNELS_LSTM, "bi3i2iie150i60i12i", true},
    {"UNPACK", "2i", "", NULL, false},
    {"VAR_HANDLE", "2p", "i", NULL, false},
    {"WHILE", "2i", "2ib", NULL, false},
    {"ZEROS_LIKE", "", "", NULL, false},
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

static const micro_tensor *kernels_operand(const micro_model *model, const micro_op *op,
                                           const tn__flat_vector *list, uint32_t index) {
    if (index >= list->count) return NULL;
    int32_t tensor = tn__flat_int32(list, index);
    if (tensor < 0) return NULL;
    return &model->tensors[model->plan->first[op->subgraph] + (uint32_t)tensor];
}
const micro_tensor *tn__micro_input(const micro_model *model, const micro_op *op, uint32_t index) {
    return kernels_operand(model, op, &op->inputs, index);
}
const micro_tensor *tn__micro_output(const micro_model *model, const micro_op *op, uint32_t index) {
    return kernels_operand(model, op, &op->outputs, index);
}

static uint64_t kernels_extent(const micro_tensor *tensor, uint32_t axis) {
    return tensor && axis < tensor->rank && tensor->shape[axis] > 0 ? (uint64_t)tensor->shape[axis]
                                                                    : 0;
}
static uint64_t kernels_elements(const micro_tensor *tensor) {
    return tensor ? tensor->elements : 0;
}
static bool kernels_is(const micro_tensor *tensor, tn_dtype dtype) {
    return tensor && tensor->dtype == dtype;
}
static bool kernels_named(const micro_op *op, const char *type) {
    return strcmp(op->code->type, type) == 0;
}
static uint64_t kernels_up(uint64_t value, uint64_t to) {
    uint64_t up;
    return tn__align_up(value, to, &up) ? up : value;
}

static void kernels_buffer(micro_need *need, uint64_t bytes) {
    if (bytes && need->buffer_count < MICRO_BUFFERS_MAX)
        need->buffers[need->buffer_count++] = bytes;
}
static void kernels_scratch(micro_need *need, uint64_t bytes) {
    if (need->scratch_count < MICRO_SCRATCH_MAX) need->scratch[need->scratch_count++] = bytes;
}

/* --- persistent buffers --- */

/* A multiplier and a shift for each channel. */
static void kernels_channels(const micro_model *model, const micro_op *op, micro_need *need) {
    const micro_tensor *filter = tn__micro_input(model, op, 1);
    uint64_t channels = 0;
    if (kernels_named(op, "CONV_2D") || kernels_named(op, "TRANSPOSE_CONV"))
        channels = kernels_extent(filter, 0);
    else if (kernels_named(op, "DEPTHWISE_CONV_2D"))
        channels = kernels_extent(filter, 3);
    else if (kernels_named(op, "FULLY_CONNECTED") && filter && filter->channels > 1)
        channels = kernels_extent(filter, 0);
    kernels_buffer(need, tn__mul_sat(4, channels));
    kernels_buffer(need, tn__mul_sat(4, channels));
}

/* --- scratch of the reference kernels --- */

static void kernels_reference(const micro_model *model, const micro_op *op, micro_need *need) {
    const micro_tensor *in = tn__micro_input(model, op, 0), *out = tn__micro_output(model, op, 0);
    const micro_tensor *second = tn__micro_input(model, op, 1);
    if (kernels_named(op, "SVDF")) {
        kernels_scratch(need, tn__mul_sat(4 * kernels_extent(in, 0), kernels_extent(second, 0)));
        if (kernels_is(in, TN_INT8)) kernels_scratch(need, tn__mul_sat(4, kernels_elements(out)));
    } else if (kernels_named(op, "CONV_2D") || kernels_named(op, "DEPTHWISE_CONV_2D") ||
               kernels_named(op, "FULLY_CONNECTED")) {
        if (kernels_is(second, TN_INT4)) kernels_scratch(need, kernels_elements(second));
    } else if (kernels_named(op, "TRANSPOSE_CONV")) {
        const micro_tensor *image = tn__micro_input(model, op, 2),
                           *bias = tn__micro_input(model, op, 3);
        if (kernels_is(image, TN_INT8))
            kernels_scratch(need, tn__mul_sat(4, kernels_elements(out)));
        if (kernels_is(image, TN_INT16))
            kernels_scratch(need, tn__mul_sat(8, kernels_elements(out)));
        if (kernels_is(image, TN_INT16) && kernels_is(bias, TN_INT16))
            kernels_scratch(need, tn__mul_sat(8, kernels_elements(bias)));
    } else if (kernels_named(op, "MEAN") || kernels_named(op, "SUM")) {
        if (kernels_is(in, TN_INT8) || kernels_is(in, TN_UINT8) || kernels_is(in, TN_INT16))
            kernels_scratch(need, tn__mul_sat(4, kernels_elements(out)));
    } else if (kernels_named(op, "REDUCE_MAX") || kernels_named(op, "REDUCE_MIN")) {
        kernels_scratch(need, 4 * (uint64_t)(in ? in->rank : 0));
        kernels_scratch(need, tn__mul_sat(4, kernels_elements(second)));
    } else if (kernels_named(op, "BATCH_MATMUL")) {
        tn__flat_table options = tn__flat_child(&op->table, TFLITE_OP_OPTIONS);
        bool adjoint[2] = {false, false};
        for (uint32_t i = 0; i < 2 && options.bytes; i++)
            adjoint[i] = tn__flat_uint(&options, i, 1, 0) != 0;
        if (adjoint[0] && in) kernels_scratch(need, in->bytes);
        if (!adjoint[1] && second) kernels_scratch(need, second->bytes);
    } else if (kernels_named(op, "UNIDIRECTIONAL_SEQUENCE_LSTM")) {
        const micro_tensor *cell = tn__micro_input(model, op, 19);
        for (uint32_t i = 0; i < 4; i++) kernels_scratch(need, cell ? cell->bytes : 0);
    }
}

/* --- scratch of CMSIS-NN: with the DSP extension, or with Helium; a host has neither ------------
 */

static bool kernels_is_pointwise(const micro_model *model, const micro_op *op) {
    const micro_tensor *in = tn__micro_input(model, op, 0), *out = tn__micro_output(model, op, 0);
    const micro_tensor *filter = tn__micro_input(model, op, 1);
    return kernels_extent(filter, 1) == 1 && kernels_extent(filter, 2) == 1 &&
           kernels_extent(in, 1) == kernels_extent(out, 1) &&
           kernels_extent(in, 2) == kernels_extent(out, 2);
}

/* A faster kernel with scratch is used only if every channel has its own filter. */
static uint64_t kernels_cmsis_depthwise(const micro_model *model, const micro_op *op,
                                        uint64_t window) {
    uint64_t channels = kernels_extent(tn__micro_input(model, op, 0), 3);
    if (channels != kernels_extent(tn__micro_output(model, op, 0), 3)) return 0;
    if (model->options->target == TN_MICRO_CORTEX_M_HELIUM)
        return tn__add_sat(tn__mul_sat(4 * 124, window), 4);
    return tn__mul_sat(tn__mul_sat(2, window), channels);
}

static void kernels_cmsis(const micro_model *model, const micro_op *op, micro_need *need) {
    const micro_tensor *in = tn__micro_input(model, op, 0), *out = tn__micro_output(model, op, 0);
    const micro_tensor *filter = tn__micro_input(model, op, 1);
    bool wide = kernels_is(in, TN_INT16),
         helium = model->options->target == TN_MICRO_CORTEX_M_HELIUM;
    uint64_t window = tn__mul_sat(kernels_extent(filter, 1), kernels_extent(filter, 2)), bytes = 0;
    if (!kernels_is(in, TN_INT8) && !wide) return;
    if (kernels_named(op, "CONV_2D") && !kernels_is_pointwise(model, op)) {
        uint64_t column = kernels_up(tn__mul_sat(window, kernels_extent(filter, 3)), 8);
        bytes = tn__mul_sat(wide ? 8 : 4, column);
    } else if (kernels_named(op, "DEPTHWISE_CONV_2D")) {
        bytes = kernels_cmsis_depthwise(model, op, window);
    } else if (kernels_named(op, "AVERAGE_POOL_2D") && !helium) {
        bytes = tn__mul_sat(4, kernels_extent(in, 3));
    } else if (kernels_named(op, "FULLY_CONNECTED") && helium) {
        bytes = tn__mul_sat(4, kernels_elements(out));
    }
    if (bytes) kernels_scratch(need, bytes);
}

/* --- one operator --- */

void tn__micro_need(const micro_model *model, const micro_op *op, micro_need *need) {
    const tn_micro_options *options = model->options;
    const kernels_row *row = kernels_find(op->code->type);
    *need = (micro_need){.options_alignment = 1, .is_known = row != NULL};
    if (row == NULL) {
        if (options->most) kernels_buffer(need, MICRO_UNKNOWN);
        return;
    }
    need->options = tn__micro_struct(options->target, row->options, &need->options_alignment);
    uint64_t data =
        TN__MICRO_SIZE(options->target, options->most && row->most ? row->most : row->data);
    bool cmsis = options->kernels == TN_MICRO_CMSIS_NN && row->has_cmsis;
    kernels_buffer(need, data + (cmsis ? 16 : 0));
    kernels_channels(model, op, need);
    if (kernels_named(op, "SOFTMAX") && kernels_is(tn__micro_input(model, op, 0), TN_INT16))
        for (uint32_t i = 0; i < 2; i++) kernels_buffer(need, 2 * 513);
    kernels_reference(model, op, need);
    if (cmsis && options->most && options->target != TN_MICRO_X86_64)
        kernels_cmsis(model, op, need);
}
