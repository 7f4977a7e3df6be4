/* tflite_options.c - the builtin options of operators as attributes, as far as shapes depend on
 * them.
 *
 * Members of a union are verified only as tables (flat.h): scalars are read if they lie inside, and
 * lists are checked here. Names are the schema's.
 */
#include "io/import/tflite_reader.h"

typedef struct options_field {
    const char *name;
    uint8_t field, width; /* width 0: a vector of int32 */
    int8_t otherwise;     /* the schema's default */
} options_field;

#define OPTIONS_FIELDS 6u
typedef struct options_row {
    const char *type;
    options_field fields[OPTIONS_FIELDS];
} options_row;

/* clang-format off */
#define OPTIONS_POOL {{"padding", 0, 1, 0}, {"stride_w", 1, 4, 0}, {"stride_h", 2, 4, 0}, \
    {"filter_width", 3, 4, 0}, {"filter_height", 4, 4, 0}}
#define OPTIONS_REDUCE {{"keep_dims", 0, 1, 0}}
static const options_row options_rows[] = { /* by type */
    {"AVERAGE_POOL_2D", OPTIONS_POOL},
    {"BATCH_MATMUL", {{"adj_x", 0, 1, 0}, {"adj_y", 1, 1, 0}}},
    {"BIDIRECTIONAL_SEQUENCE_LSTM", {{"merge_outputs", 3, 1, 0}}},
    {"BIDIRECTIONAL_SEQUENCE_RNN", {{"merge_outputs", 2, 1, 0}}},
    {"CONCATENATION", {{"axis", 0, 4, 0}}},
    {"CONV_2D", {{"padding", 0, 1, 0}, {"stride_w", 1, 4, 0}, {"stride_h", 2, 4, 0},
                 {"dilation_w_factor", 4, 4, 1}, {"dilation_h_factor", 5, 4, 1}}},
    {"CONV_3D", {{"padding", 0, 1, 0}, {"stride_d", 1, 4, 0}, {"stride_w", 2, 4, 0},
                 {"stride_h", 3, 4, 0}}},
    {"DEPTHWISE_CONV_2D", {{"padding", 0, 1, 0}, {"stride_w", 1, 4, 0}, {"stride_h", 2, 4, 0},
                           {"dilation_w_factor", 5, 4, 1}, {"dilation_h_factor", 6, 4, 1}}},
    {"DEPTH_TO_SPACE", {{"block_size", 0, 4, 0}}},
    {"FULLY_CONNECTED", {{"keep_num_dims", 2, 1, 0}}},
    {"GATHER", {{"axis", 0, 4, 0}, {"batch_dims", 1, 4, 0}}},
    {"L2_POOL_2D", OPTIONS_POOL},
    {"MAX_POOL_2D", OPTIONS_POOL},
    {"MEAN", OPTIONS_REDUCE},
    {"ONE_HOT", {{"axis", 0, 4, 0}}},
    {"PACK", {{"axis", 1, 4, 0}}},
    {"REDUCE_ALL", OPTIONS_REDUCE},
    {"REDUCE_ANY", OPTIONS_REDUCE},
    {"REDUCE_MAX", OPTIONS_REDUCE},
    {"REDUCE_MIN", OPTIONS_REDUCE},
    {"REDUCE_PROD", OPTIONS_REDUCE},
    {"RESHAPE", {{"new_shape", 0, 0, 0}}},
    {"SPACE_TO_DEPTH", {{"block_size", 0, 4, 0}}},
    {"SQUEEZE", {{"squeeze_dims", 0, 0, 0}}},
    {"STRIDED_SLICE", {{"begin_mask", 0, 4, 0}, {"end_mask", 1, 4, 0}, {"ellipsis_mask", 2, 4, 0},
                       {"new_axis_mask", 3, 4, 0}, {"shrink_axis_mask", 4, 4, 0},
                       {"offset", 5, 1, 0}}},
    {"SUM", OPTIONS_REDUCE},
    {"SVDF", {{"rank", 0, 4, 0}}},
    {"UNPACK", {{"axis", 1, 4, 0}}},
};
/* clang-format on */

static const options_row *options_find(const char *type) {
    size_t low = 0, high = sizeof options_rows / sizeof *options_rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(type, options_rows[middle].type);
        if (order == 0) return &options_rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* A list inside a table that was not verified; false: absent, or it reaches outside. */
static bool options_list(const tflite_reader *reader, const tn__flat_table *table, uint32_t field,
                         int64_t *values, uint32_t *count) {
    const uint8_t *start = reader->file.bytes, *end = start + reader->file.size;
    if (!tn__flat_has(table, field)) return false;
    uint64_t slot = tn__little(table->vtable + 4 + 2 * (size_t)field, 2);
    if (slot < 4 || slot + 4 > table->size) return false;
    const uint8_t *at = table->bytes + slot;
    uint64_t offset = tn__little(at, 4), left = (uint64_t)(end - at);
    if (offset == 0 || offset > left || left - offset < 4) return false;
    const uint8_t *list = at + offset;
    uint64_t length = tn__little(list, 4);
    if (length > TN_RANK_MAX || left - offset - 4 < 4 * length) return false;
    for (uint32_t i = 0; i < length; i++)
        values[i] = (int32_t)(uint32_t)tn__little(list + 4 + 4 * (size_t)i, 4);
    *count = (uint32_t)length;
    return true;
}

uint32_t tn__tflite_options(const tflite_reader *reader, const tn__flat_table *op, const char *type,
                            tflite_options *to) {
    const options_row *row = options_find(type);
    tn__flat_table options = tn__flat_child(op, TFLITE_OP_OPTIONS);
    uint32_t count = 0, used = 0;
    if (row == NULL || options.bytes == NULL) return 0;
    for (uint32_t i = 0; i < OPTIONS_FIELDS && row->fields[i].name; i++) {
        const options_field *field = &row->fields[i];
        tn_attr attr = {.name = field->name, .type = TN_ATTR_INT, .count = 1};
        attr.ints = &to->ints[used];
        if (field->width == 0) {
            if (!options_list(reader, &options, field->field, &to->ints[used], &attr.count))
                continue;
            attr.type = TN_ATTR_INTS;
        } else {
            to->ints[used] = tn__flat_int(&options, field->field, field->width, field->otherwise);
        }
        used += attr.count;
        to->attrs[count++] = attr;
    }
    return count;
}
