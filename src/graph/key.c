/* key.c - writes an operator as a byte string, its key.
 *
 * The key contains everything that a kernel's `accepts`, `prepare` and `workspace` may read of an
 * operator: numbers in as few bytes as they need, lists after their length. Equal keys mean equal
 * operators. Names of nodes and tensors are left out, and so are tensor values that no kernel reads
 * (tn__value_is_read). The key includes which operands are the same tensor.
 * Cost: O(attributes + operands + contents).
 */
#include "graph/key.h"

/* Appends a number as groups of seven bits, the least significant group first. */
static void key_number(tn__text *key, uint64_t number) {
    char bytes[10];
    size_t count = 0;
    for (; number >= 0x80; number >>= 7) bytes[count++] = (char)(0x80 | (number & 0x7f));
    bytes[count++] = (char)number;
    tn__text_add(key, bytes, count);
}

/* Appends a signed number so that small numbers of either sign need few bytes. */
static void key_signed(tn__text *key, int64_t number) {
    key_number(key, (uint64_t)number << 1 ^ (uint64_t)(number >> 63));
}

static void key_ints(tn__text *key, const int64_t *ints, uint32_t count) {
    key_number(key, count);
    for (uint32_t i = 0; i < count; i++) key_signed(key, ints[i]);
}

static void key_floats(tn__text *key, const double *floats, uint32_t count) {
    key_number(key, count);
    tn__text_add(key, (const char *)floats, count * sizeof *floats);
}

static void key_string(tn__text *key, const char *string) {
    size_t length = strlen(string);
    key_number(key, length);
    tn__text_add(key, string, length);
}

/* --- operands --- */

static void key_value(tn__text *key, const tn_value *value) {
    bool read = value != NULL && tn__value_is_read(value);
    key_number(key, read ? value->ints != NULL ? 1 : 2 : 0);
    if (read && value->ints != NULL) key_ints(key, value->ints, value->count);
    if (read && value->ints == NULL) key_floats(key, value->floats, value->count);
}

static void key_tensor(tn__text *key, const tn_tensor *tensor) {
    const uint32_t flags =
        TN_TENSOR_BOUND | TN_TENSOR_FOLDED | TN_TENSOR_SEQUENCE | TN_TENSOR_UPDATED;
    key_number(key, tensor->dtype);
    key_number(key, tensor->format.order);
    key_number(key, tensor->format.block);
    key_number(key, tensor->flags & flags);
    key_number(key, (tn_tensor_is_static(tensor) ? 1 : 0) |
                        (tn_tensor_is_constant(tensor) ? 2 : 0) |
                        (tensor->bytes == TN_SIZE_UNKNOWN ? 4 : 0));
    key_number(key, tensor->repeat);
    if (tensor->rank == TN_RANK_UNKNOWN)
        key_number(key, TN_RANK_UNKNOWN);
    else
        key_ints(key, tensor->shape, tensor->rank);
    key_value(key, tensor->value);
}

static tn_tensor_id key_operand(const tn_op *op, uint32_t index) {
    return index < op->input_count ? op->inputs[index] : op->outputs[index - op->input_count];
}

static void key_operands(tn__text *key, const tn_graph *graph, const tn_op *op) {
    key_number(key, op->input_count);
    key_number(key, op->output_count);
    for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
        tn_tensor_id id = key_operand(op, i);
        uint32_t first = 0;
        while (key_operand(op, first) != id) first++;
        /* 0: the operand is omitted; otherwise the number of the first operand that is the same
         * tensor. If that is this operand itself, the description of the tensor follows */
        key_number(key, id == TN_NONE ? 0 : first + 1u);
        if (id != TN_NONE && first == i) key_tensor(key, tn_graph_tensor(graph, id));
    }
}

/* --- attributes --- */

static void key_attr(tn__text *key, const tn_graph *graph, const tn_attr *attr) {
    key_string(key, attr->name);
    key_number(key, attr->type);
    switch (attr->type) {
    case TN_ATTR_INT:
    case TN_ATTR_INTS:
        key_ints(key, attr->ints, attr->count);
        break;
    case TN_ATTR_FLOAT:
    case TN_ATTR_FLOATS:
        key_floats(key, attr->floats, attr->count);
        break;
    case TN_ATTR_STRING:
    case TN_ATTR_STRINGS:
        key_number(key, attr->count);
        for (uint32_t i = 0; i < attr->count; i++) key_string(key, attr->strings[i]);
        break;
    case TN_ATTR_TENSOR:
        key_tensor(key, tn_graph_tensor(graph, attr->tensor));
        break;
    case TN_ATTR_BLOCK: /* operators with blocks never come here, because no kernel runs them */
        key_number(key, attr->block);
        break;
    }
}

void tn__op_key(tn__text *key, const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    key_string(key, op->domain);
    key_string(key, op->type);
    key_number(key, op->version);
    key_number(key, op->attr_count);
    for (uint32_t i = 0; i < op->attr_count; i++) key_attr(key, graph, &op->attrs[i]);
    key_operands(key, graph, op);
}
