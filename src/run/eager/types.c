/* types.c - stores each type of tensor once (types.h). Cost: O(rank + known elements) per
 * lookup. */
#include "run/eager/types.h"

#include <stdio.h>

#include "engine/kernels/kernel.h"
#include "graph/element.h"
#include "graph/rules/fold.h"

void tn__types_init(tn__types *types, const tn_context *context) {
    *types = (tn__types){0};
    tn__arena_init(&types->arena, context);
    tn__names_init(&types->names, context);
    tn__text_init(&types->key, context);
}

void tn__types_release(tn__types *types) {
    tn__free(types->arena.context, types->of, types->room * sizeof *types->of);
    tn__names_release(&types->names);
    tn__text_release(&types->key);
    tn__arena_release(&types->arena);
}

static void types_key(tn__text *key, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                      const tn_value *value) {
    key->size = 0;
    key->failed = false;
    tn__key_number(key, (uint32_t)dtype | (value != NULL ? 0x100 : 0));
    tn__key_number(key, rank);
    tn__text_add(key, (const char *)shape, rank * sizeof *shape);
    if (value == NULL) return;
    const void *contents = value->ints != NULL ? (const void *)value->ints : value->floats;
    tn__text_add(key, contents, value->count * sizeof(int64_t));
}

/* Stores the known data, both as values and as kernels read it. */
static bool types_fill(tn__types *types, tn__type *made, const tn_value *value) {
    tn_value *kept = tn__arena_copy(&types->arena, value, sizeof *value);
    made->data = tn__arena_alloc(&types->arena, (size_t)made->bytes);
    if (kept == NULL || made->data == NULL) return false;
    size_t size = value->count * sizeof(int64_t);
    if (value->ints != NULL) kept->ints = tn__arena_copy(&types->arena, value->ints, size);
    if (value->floats != NULL) kept->floats = tn__arena_copy(&types->arena, value->floats, size);
    made->value = kept;
    if (kept->ints == NULL && kept->floats == NULL) return false;
    if (value->count == 0) return true;
    const tn_tensor like = {.dtype = made->dtype, .value = kept};
    return tn__tensor_fill(&like, made->data, made->bytes);
}

static tn_status types_add(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                           const tn_value *value, uint32_t *type, tn_error *error) {
    tn__type *made = tn__arena_alloc(&types->arena, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "types of tensors");
    made->dtype = dtype;
    made->rank = rank;
    tn_status status = tn_tensor_size(dtype, (tn_format){0}, rank, shape, &made->bytes, error);
    if (status == TN_E_UNKNOWN) status = TN_E_INVALID;
    TN_TRY(status);
    made->shape = tn__arena_copy(&types->arena, shape, rank * sizeof *shape);
    const char *key = tn__arena_copy(&types->arena, types->key.data, types->key.size);
    if (made->shape == NULL || key == NULL || (value != NULL && !types_fill(types, made, value)) ||
        !tn__reserve(types->arena.context, &types->of, &types->room, types->count + 1,
                     sizeof *types->of) ||
        !tn__names_add(&types->names, key, types->key.size, (uint32_t)types->count, NULL))
        return tn__no_memory(error, "types of tensors");
    types->of[types->count] = made;
    *type = (uint32_t)types->count++;
    return TN_OK;
}

tn_status tn__types_find(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                         const tn_value *value, uint32_t *type, tn_error *error) {
    types_key(&types->key, dtype, rank, shape, value);
    if (types->key.failed) return tn__no_memory(error, "types of tensors");
    uint32_t at = tn__names_find(&types->names, types->key.data, types->key.size);
    if (at == TN__NAMES_NONE) return types_add(types, dtype, rank, shape, value, type, error);
    *type = at;
    return TN_OK;
}

tn_status tn__types_immediate(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                              const void *data, uint32_t *type, tn_error *error) {
    int64_t ints[TN__IMMEDIATE_MOST];
    double floats[TN__IMMEDIATE_MOST];
    uint64_t bytes;
    TN_TRY(tn_tensor_size(dtype, (tn_format){0}, rank, shape, &bytes, error));
    uint32_t width = tn_dtype_bits(dtype) / 8;
    bool is_float = tn__is_float(dtype);
    if (width == 0 || (!is_float && !tn__is_integer(dtype)) || bytes / width > TN__IMMEDIATE_MOST)
        TN_FAIL(error, TN_E_INVALID,
                "a constant has at most %u elements, of integers, bool or a floating type; put "
                "others as inputs",
                TN__IMMEDIATE_MOST);
    tn_operand operand = {
        .data = (void *)(uintptr_t)data, .dtype = dtype, .rank = 0, .room = bytes};
    uint32_t count = (uint32_t)(bytes / width);
    for (uint32_t i = 0; i < count; i++)
        if (is_float)
            floats[i] = tn__operand_float(&operand, i);
        else
            ints[i] = tn__operand_int(&operand, i);
    const tn_value value = {
        .count = count, .ints = is_float ? NULL : ints, .floats = is_float ? floats : NULL};
    return tn__types_find(types, dtype, rank, shape, &value, type, error);
}

tn_status tn__types_of_tensor(tn__types *types, const tn_tensor *tensor, uint32_t *type,
                              tn_error *error) {
    const tn_value *value = tensor->value;
    if (value != NULL && value->count > TN__IMMEDIATE_MOST) value = NULL;
    return tn__types_find(types, tensor->dtype, tensor->rank, tensor->shape, value, type, error);
}

const char *tn__type_text(const tn__type *type, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s[", tn_dtype_name(type->dtype));
    for (uint32_t d = 0; d < type->rank && used + 24 < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d ? "," : "",
                                 (long long)type->shape[d]);
    if (used + 2 < size) snprintf(text + used, size - used, "]");
    return text;
}
