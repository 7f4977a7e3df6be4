/* bind.c - replaces a graph's parameters and constants by tensors of a weight file, by name. */
#include <stdio.h>

#include "io/weights/weights.h"

/* Whether every value of type `from` is also a value of type `to`: float16 and bfloat16 are subsets
 * of float32, and all of these are subsets of float64. */
static bool bind_widens(tn_dtype from, tn_dtype to) {
    bool half = from == TN_FLOAT16 || from == TN_BFLOAT16;
    return from == to || (half && to == TN_FLOAT32) ||
           ((half || from == TN_FLOAT32) && to == TN_FLOAT64);
}

static bool bind_same_shape(const tn_weight *weight, const tn_tensor *tensor) {
    bool same = weight->rank == tensor->rank;
    for (uint32_t d = 0; same && d < weight->rank; d++) same = weight->shape[d] == tensor->shape[d];
    return same;
}

static bool bind_wants(const tn_tensor *tensor) {
    bool kind = tensor->kind == TN_KIND_PARAMETER || tensor->kind == TN_KIND_CONSTANT;
    return kind && tensor->producer == TN_NONE && *tensor->name != '\0';
}

static void bind_shape(char *text, size_t room, const int64_t *shape, uint32_t rank) {
    size_t used = (size_t)snprintf(text, room, "[");
    for (uint32_t d = 0; d < rank && used + 24 < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d > 0 ? ", " : "",
                                 (long long)shape[d]);
    snprintf(text + used, room - used, "]");
}

static tn_status bind_check(const tn_weight *weight, const tn_tensor *tensor, tn_error *error) {
    tn_dtype dtype = tn_weight_type_dtype(weight->type);
    if (!bind_same_shape(weight, tensor)) {
        char theirs[160], ours[160];
        bind_shape(theirs, sizeof theirs, weight->shape, weight->rank);
        bind_shape(ours, sizeof ours, tensor->shape, tensor->rank);
        TN_FAIL(error, TN_E_INVALID, "'%.80s' is %s in the file of weights, but %s in the model",
                tensor->name, theirs, ours);
    }
    if (weight->bytes == NULL || !bind_widens(dtype, tensor->dtype))
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "'%.80s' is stored as %s, which does not become the model's %s without loss",
                tensor->name, tn_weight_type_name(weight->type), tn_dtype_name(tensor->dtype));
    return TN_OK;
}

tn_status tn_weights_bind(const tn_weights *weights, tn_graph *graph, uint32_t *taken,
                          tn_error *error) {
    uint32_t found = 0;
    bool changed = false;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        const tn_weight *weight =
            bind_wants(tensor) ? tn_weights_find(weights, tensor->name) : NULL;
        if (weight == NULL) continue;
        TN_TRY(bind_check(weight, tensor, error));
        found++;
        if (tensor->kind == TN_KIND_PARAMETER && tensor->value == NULL) continue;
        tn_tensor_spec spec = {.dtype = tensor->dtype,
                               .kind = TN_KIND_PARAMETER,
                               .format = tensor->format,
                               .flags = tensor->flags,
                               .rank = tensor->rank,
                               .shape = tensor->shape};
        TN_TRY(tn_graph_set_tensor(graph, id, &spec, error));
        changed = true;
    }
    if (taken != NULL) *taken = found;
    if (found == 0)
        TN_FAIL(error, TN_E_INVALID,
                "none of its %zu tensors (the first is '%.80s') bears the name of a weight of the "
                "model; export the model with the names of its parameters",
                weights->count, weights->count > 0 ? weights->tensors[0].name : "");
    return changed ? tn_graph_infer(graph, error) : TN_OK;
}

/* --- contents --- */

static double bind_number(tn_dtype dtype, const uint8_t *at) {
    float number;
    uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8;
    if (dtype == TN_FLOAT32)
        memcpy(&number, at, 4);
    else if (dtype == TN_BFLOAT16)
        memcpy(&number, &(uint32_t){bits << 16}, 4);
    else {
        uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023, sign = (bits & 0x8000u) << 16;
        if (exponent == 31) {
            memcpy(&number, &(uint32_t){sign | 0x7f800000u | fraction << 13}, 4);
            return (double)number;
        }
        double size = exponent == 0 ? (double)fraction * 0x1p-24
                                    : (double)(1024 + fraction) *
                                          ((double)(UINT64_C(1) << exponent) * 0x1p-25);
        return sign != 0 ? -size : size;
    }
    return (double)number;
}

bool tn_weights_fill(const tn_weights *weights, const tn_tensor *tensor, void *bytes,
                     uint64_t size) {
    const tn_weight *weight = tn_weights_find(weights, tensor->name);
    if (weight == NULL || weight->bytes == NULL || !bind_same_shape(weight, tensor)) return false;
    tn_dtype from = tn_weight_type_dtype(weight->type), to = tensor->dtype;
    if (!bind_widens(from, to) || tn__mul_sat(weight->elements, tn_dtype_bits(to)) / 8 != size)
        return false;
    if (from == to) {
        if (size > 0) memcpy(bytes, weight->bytes, size);
        return true;
    }
    uint32_t width = tn_dtype_bits(from) / 8;
    for (uint64_t i = 0; i < weight->elements; i++) {
        double number = bind_number(from, weight->bytes + i * width);
        if (to == TN_FLOAT32)
            memcpy((uint8_t *)bytes + 4 * i, &(float){(float)number}, 4);
        else
            memcpy((uint8_t *)bytes + 8 * i, &number, 8);
    }
    return true;
}

bool tn_weights_where(const tn_weights *weights, const tn_tensor *tensor, tn_file_range *range) {
    const tn_weight *weight = tn_weights_find(weights, tensor->name);
    if (weight == NULL || weight->bytes == NULL || !bind_same_shape(weight, tensor)) return false;
    if (tn_weight_type_dtype(weight->type) != tensor->dtype || weight->size != tensor->bytes)
        return false;
    tn_file_range made = {.size = weight->size};
    for (size_t i = 0; i < weights->file_count; i++) {
        if (!tn__file_where(&weights->files[i], weight->bytes, made.size, &made.path, &made.offset))
            continue;
        *range = made;
        return true;
    }
    return false;
}
