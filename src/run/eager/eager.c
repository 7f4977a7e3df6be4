/* eager.c - the commands of the interpreter (tenure/eager.h), such as put, apply, del and get. It
 * also manages the items to which handles refer. */
#include "run/eager/interpreter.h"

#include <stdio.h>

/* --- tensors of handles ----------------------------------------------------------------------- */

/* Manages items and handles (interpreter.h).
 *
 * A handle has 28 bits for the number of an item and 36 bits for the count of uses of that number.
 * Every interpreter starts this count at another value, so a handle of another interpreter is
 * refused. Numbers are reused, so a loop that deletes its tensors needs a bounded number of items.
 * Cost: O(1).
 */

#define ITEM_BITS 28u
#define ITEM_MOST ((uint32_t)1 << ITEM_BITS)
#define ITEM_USES ((UINT64_C(1) << 36) - 1)

tn_status tn__eager_items_reserve(tn_eager *eager, uint32_t count, tn_error *error) {
    size_t need = (size_t)eager->item_count + count;
    if (need >= ITEM_MOST ||
        !tn__reserve(&eager->context, &eager->items, &eager->item_room, need, sizeof *eager->items))
        return tn__no_memory(error, "handles");
    return TN_OK;
}

tn_status tn__eager_item_make(tn_eager *eager, uint32_t tensor, uint32_t type,
                              tn__eager_item_id *id, tn_error *error) {
    tn__eager_item_id at = eager->free_item;
    if (at == TN_NONE) {
        TN_TRY(tn__eager_items_reserve(eager, 1, error));
        at = eager->item_count++;
        eager->items[at] = (tn__eager_item){.uses = eager->first_use};
    }
    tn__eager_item *item = &eager->items[at];
    if (eager->free_item == at) eager->free_item = item->next;
    *item = (tn__eager_item){.uses = (item->uses + 1) & ITEM_USES,
                             .tensor = tensor,
                             .type = type,
                             .variable = TN_NONE,
                             .refs = 1,
                             .recorded = TN_NONE,
                             .name = ""};
    *id = at;
    return TN_OK;
}

void tn__eager_item_hold(tn_eager *eager, tn__eager_item_id id) { eager->items[id].refs++; }

void tn__eager_item_drop(tn_eager *eager, tn__eager_item_id id) {
    if (id == TN_NONE) return;
    tn__eager_item *item = &eager->items[id];
    if (--item->refs > 0) return;
    tn__record_release(eager, id);
    if (item->tensor != TN_NONE) tn__evict_release(eager->memory.core, item->tensor);
    item->next = eager->free_item;
    eager->free_item = id;
}

tn_handle tn__eager_item_open(tn_eager *eager, tn__eager_item_id id) {
    tn__eager_item *item = &eager->items[id];
    item->open = true;
    eager->open_count++;
    return item->uses << ITEM_BITS | id;
}

tn_status tn__eager_item_of(const tn_eager *eager, tn_handle handle, const char *what,
                            tn__eager_item_id *id, tn_error *error) {
    uint32_t at = (uint32_t)(handle & (ITEM_MOST - 1));
    uint64_t uses = handle >> ITEM_BITS;
    bool known = at < eager->item_count && handle != TN_HANDLE_NONE;
    const tn__eager_item *item = known ? &eager->items[at] : NULL;
    if (known && item->refs > 0 && item->open && item->uses == uses) {
        *id = at;
        return TN_OK;
    }
    if (handle == TN_HANDLE_NONE)
        tn__fail(error, TN_E_INVALID, "there is no handle");
    else if (known && ((uses - eager->first_use) & ITEM_USES) != 0 &&
             ((item->uses - uses) & ITEM_USES) <= ((item->uses - eager->first_use) & ITEM_USES))
        tn__fail(error, TN_E_INVALID, "the handle was deleted before");
    else
        tn__fail(error, TN_E_INVALID, "the handle is of another interpreter");
    return tn__where(error, TN_E_INVALID, "%.100s", what);
}

/* Returns a copy of a name, which is stored once. Returns "" for NULL, and NULL if out of
 * memory. */
static const char *eager_name(tn_eager *eager, const char *name) {
    if (name == NULL || name[0] == '\0') return "";
    size_t length = strlen(name);
    uint32_t at = tn__names_find(&eager->names, name, length);
    if (at == TN__NAMES_NONE) {
        size_t count = eager->names.count;
        char *kept = tn__arena_string(&eager->arena, name, length);
        if (kept == NULL ||
            !tn__reserve(&eager->context, &eager->kept, &eager->kept_room, count + 1,
                         sizeof kept) ||
            !tn__names_add(&eager->names, kept, length, (uint32_t)count, NULL))
            return NULL;
        eager->kept[at = (uint32_t)count] = kept;
    }
    return eager->kept[at];
}

/* --- commands --------------------------------------------------------------------------------- */

#define EAGER_ONNX_NEWEST 21u /* operators follow this operator set if the caller states no other */

/* --- creating and destroying an interpreter --- */

static tn_status eager_open(tn_eager *eager, tn_error *error) {
    const tn_eager_options *options = &eager->options;
    TN_TRY(tn__kernel_cache_create(&eager->context, options->threads, options->plain,
                                   &eager->kernels, error));
    tn__op_cache_init(&eager->op_cache, &eager->context, &eager->types, eager->kernels,
                      &eager->random);
    return tn__eager_memory_open(eager, error);
}

tn_status tn_eager_create(const tn_eager_options *options, tn_eager **eager, tn_error *error) {
    tn_eager_options asked = TN_EAGER_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context = tn__context(asked.context);
    tn_eager *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an interpreter");
    made->context = context;
    made->options = asked;
    made->random = asked.seed;
    made->free_item = TN_NONE;
    made->tape.on = !asked.no_tape;
    made->record.on = asked.record;
    tn__random first = {.state = (uint64_t)(uintptr_t)made ^ asked.seed << 1};
    made->first_use = tn__random_next(&first) >> 28 | 1;
    tn__arena_init(&made->arena, &made->context);
    tn__names_init(&made->names, &made->context);
    tn__types_init(&made->types, &made->context);
    tn_status status = eager_open(made, error);
    if (status == TN_OK)
        *eager = made;
    else
        tn_eager_destroy(made);
    return tn__where(error, status, "interpreter");
}

void tn_eager_destroy(tn_eager *eager) {
    if (eager == NULL) return;
    tn_context context = eager->context;
    tn__eager_memory_close(eager);
    tn__tape_release(eager);
    tn__record_close(eager);
    if (eager->kernels != NULL) tn__op_cache_release(&eager->op_cache);
    tn__kernel_cache_release(eager->kernels);
    tn__types_release(&eager->types);
    tn__names_release(&eager->names);
    tn__arena_release(&eager->arena);
    tn__free(&context, eager->kept, eager->kept_room * sizeof *eager->kept);
    tn__free(&context, eager->items, eager->item_room * sizeof *eager->items);
    tn__free(&context, eager, sizeof *eager);
}

/* --- put --- */

static tn_status eager_put_type(tn_eager *eager, const tn_eager_data *data, uint32_t *type,
                                tn_error *error) {
    if (data->rank > TN_RANK_MAX)
        TN_FAIL(error, TN_E_INVALID, "rank %u is above %u", data->rank, TN_RANK_MAX);
    if (data->rank > 0 && data->shape == NULL)
        TN_FAIL(error, TN_E_INVALID, "rank %u without a shape", data->rank);
    if ((uint32_t)data->kind >= TN_KIND_COUNT)
        TN_FAIL(error, TN_E_INVALID, "there is no kind %u", (uint32_t)data->kind);
    if (data->kind != TN_KIND_CONSTANT)
        return tn__types_find(&eager->types, data->dtype, data->rank, data->shape, NULL, type,
                              error);
    if (data->data == NULL) TN_FAIL(error, TN_E_INVALID, "a constant without contents");
    return tn__types_immediate(&eager->types, data->dtype, data->rank, data->shape, data->data,
                               type, error);
}

static tn_status eager_put(tn_eager *eager, const tn_eager_data *data, tn__eager_item_id *id,
                           tn_error *error) {
    uint32_t type, tensor = TN_NONE;
    const char *name = eager_name(eager, data->name);
    const tn__eager_item like = {.kind = data->kind};
    if (name == NULL) return tn__no_memory(error, "a name");
    TN_TRY(eager_put_type(eager, data, &type, error));
    TN_TRY(tn__eager_items_reserve(eager, 1, error));
    TN_TRY(tn__record_reserve(eager, error));
    if (data->kind != TN_KIND_CONSTANT)
        TN_TRY(tn__eager_memory_put(eager, data->data, tn__type_of(&eager->types, type)->bytes,
                                    tn__eager_item_is_fixed(&like), name, &tensor, error));
    TN_TRY(tn__eager_item_make(eager, tensor, type, id, error));
    eager->items[*id].kind = data->kind;
    eager->items[*id].name = name;
    return TN_OK;
}

tn_status tn__put(tn_eager *eager, const tn_eager_data *data, tn__eager_item_id *id,
                  tn_error *error) {
    tn_status status = eager_put(eager, data, id, error);
    if (status != TN_OK)
        return tn__where(error, status, "put '%.100s'", data->name != NULL ? data->name : "");
    tn__record_put(eager, *id);
    return TN_OK;
}

tn_status tn_eager_put(tn_eager *eager, const tn_eager_data *data, tn_handle *handle,
                       tn_error *error) {
    tn__eager_item_id id = TN_NONE;
    TN_TRY(tn__put(eager, data, &id, error));
    *handle = tn__eager_item_open(eager, id);
    return TN_OK;
}

/* --- apply --- */

static tn_status eager_inputs(const tn_eager *eager, const tn_eager_call *call,
                              tn__eager_item_id *inputs, tn_error *error) {
    char what[80];
    if (call->type == NULL) TN_FAIL(error, TN_E_INVALID, "an operator without a type");
    if (call->input_count > TN__OPERANDS_MOST || call->output_count > TN__OPERANDS_MOST)
        TN_FAIL(error, TN_E_UNSUPPORTED, "%.60s with more than %u operands", call->type,
                TN__OPERANDS_MOST);
    for (uint32_t i = 0; i < call->input_count; i++) {
        inputs[i] = TN_NONE;
        if (call->inputs[i] == TN_HANDLE_NONE) continue;
        if (tn__eager_item_of(eager, call->inputs[i], "", &inputs[i], NULL) == TN_OK) continue;
        snprintf(what, sizeof what, "%.60s, input %u", call->type, i);
        return tn__eager_item_of(eager, call->inputs[i], what, &inputs[i], error);
    }
    return TN_OK;
}

static bool eager_has_contents(const tn_attr *attr) {
    bool is_list =
        attr->type == TN_ATTR_INTS || attr->type == TN_ATTR_FLOATS || attr->type == TN_ATTR_STRINGS;
    const void *of = attr->ints;
    if (attr->type == TN_ATTR_TENSOR || attr->type == TN_ATTR_BLOCK)
        return true; /* attributes of this kind are refused later */
    if (attr->type == TN_ATTR_FLOAT || attr->type == TN_ATTR_FLOATS) of = attr->floats;
    if (attr->type == TN_ATTR_STRING || attr->type == TN_ATTR_STRINGS) {
        of = attr->strings;
        for (uint32_t i = 0; of != NULL && i < attr->count; i++)
            if (attr->strings[i] == NULL) return false;
    }
    return is_list ? of != NULL || attr->count == 0 : of != NULL && attr->count == 1;
}

/* Checks the structures that the caller has passed, without looking at tensors. */
static tn_status eager_check(const tn_eager_call *call, tn_error *error) {
    if (call->output_count == 0) TN_FAIL(error, TN_E_INVALID, "an operator without outputs");
    bool is_onnx = call->domain == NULL || call->domain[0] == '\0';
    if (is_onnx && call->version > EAGER_ONNX_NEWEST)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "operator set %u is not known; %u is the newest, and meant by 0", call->version,
                EAGER_ONNX_NEWEST);
    for (uint32_t i = 0; i < call->attr_count; i++) {
        const tn_attr *attr = &call->attrs[i];
        if (attr->name == NULL || attr->name[0] == '\0')
            TN_FAIL(error, TN_E_INVALID, "attribute %u has no name", i);
        if ((uint32_t)attr->type > TN_ATTR_BLOCK)
            TN_FAIL(error, TN_E_INVALID, "attribute %.60s is of no type: %u", attr->name,
                    (uint32_t)attr->type);
        if (!eager_has_contents(attr))
            TN_FAIL(error, TN_E_INVALID, "attribute %.60s has no contents", attr->name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(call->attrs[j].name, attr->name) == 0)
                TN_FAIL(error, TN_E_INVALID, "attribute %.60s is there twice", attr->name);
    }
    return TN_OK;
}

/* Stores the names of the outputs of a call; names[k] is "" if output k has no name. */
static tn_status eager_names(tn_eager *eager, const tn_eager_call *call, const char **names,
                             tn_error *error) {
    for (uint32_t k = 0; k < call->output_count; k++) {
        names[k] = eager_name(eager, call->names != NULL ? call->names[k] : NULL);
        if (names[k] == NULL) return tn__no_memory(error, "a name");
    }
    return TN_OK;
}

/* Gives an output its name, also in the recording and in the messages of the eviction core. */
static void eager_name_output(tn_eager *eager, tn__eager_item_id id, const char *name) {
    if (id == TN_NONE || name[0] == '\0') return;
    tn__eager_item *item = &eager->items[id];
    item->name = name;
    if (item->recorded != TN_NONE) eager->record.values[item->recorded].name = name;
    if (item->tensor != TN_NONE) tn__eager_memory_label(eager, item->tensor, name);
}

static tn_status eager_apply(tn_eager *eager, const tn_eager_call *call, tn__eager_item_id *outputs,
                             tn_error *error) {
    const char *names[TN__OPERANDS_MOST];
    tn__eager_item_id inputs[TN__OPERANDS_MOST];
    tn__cached_op *cached;
    uint64_t wanted = 0;
    TN_TRY(eager_inputs(eager, call, inputs, error));
    TN_TRY(eager_check(call, error));
    TN_TRY(eager_names(eager, call, names, error));
    tn__ask ask = {.type = call->type,
                   .domain = call->domain != NULL ? call->domain : "",
                   .version = call->version,
                   .attr_count = call->attr_count,
                   .input_count = call->input_count,
                   .output_count = call->output_count,
                   .attrs = call->attrs};
    TN_TRY(tn__cached_op_on(eager, &ask, inputs, &cached, error));
    if (eager->tape.on) TN_TRY(tn__tape_prepare(eager, cached, inputs, &wanted, error));
    TN_TRY(tn__apply(eager, cached, inputs, outputs, error));
    if (wanted != 0) tn__tape_add(eager, cached, inputs, outputs, wanted);
    for (uint32_t k = 0; k < call->output_count; k++)
        eager_name_output(eager, outputs[k], names[k]);
    return TN_OK;
}

tn_status tn_eager_apply(tn_eager *eager, const tn_eager_call *call, tn_handle *outputs,
                         tn_error *error) {
    tn__eager_item_id made[TN__OPERANDS_MOST];
    tn_status status = eager_apply(eager, call, made, error);
    if (status != TN_OK)
        return tn__where(error, status, "operator %.60s", call->type != NULL ? call->type : "");
    for (uint32_t k = 0; k < call->output_count; k++)
        outputs[k] = made[k] == TN_NONE ? TN_HANDLE_NONE : tn__eager_item_open(eager, made[k]);
    return TN_OK;
}

/* --- the commands del, get and set --- */

tn_status tn_eager_del(tn_eager *eager, tn_handle handle, tn_error *error) {
    tn__eager_item_id id = TN_NONE;
    if (handle == TN_HANDLE_NONE) return TN_OK;
    TN_TRY(tn__eager_item_of(eager, handle, "del", &id, error));
    eager->items[id].open = false;
    eager->open_count--;
    tn__eager_item_drop(eager, id);
    return TN_OK;
}

typedef tn_status eager_free(tn__evict *core, uint32_t tensor, tn_error *error);

static tn_status eager_go(tn_eager *eager, tn_handle handle, eager_free *how, const char *what,
                          tn_error *error) {
    tn__eager_item_id id = TN_NONE;
    TN_TRY(tn__eager_item_of(eager, handle, what, &id, error));
    const tn__eager_item *item = &eager->items[id];
    if (item->tensor == TN_NONE)
        TN_FAIL(error, TN_E_UNSUPPORTED, "a constant that rules know takes no memory");
    return how(eager->memory.core, item->tensor, error);
}

tn_status tn_eager_drop(tn_eager *eager, tn_handle handle, tn_error *error) {
    return tn__where(error, eager_go(eager, handle, tn__evict_drop, "drop", error), "drop");
}

tn_status tn_eager_offload(tn_eager *eager, tn_handle handle, tn_error *error) {
    return tn__where(error, eager_go(eager, handle, tn__evict_offload, "offload", error),
                     "offload");
}

static tn_status eager_check_size(const tn_eager *eager, tn__eager_item_id id, uint64_t size,
                                  tn_error *error) {
    const tn__type *type = tn__eager_item_type(eager, id);
    char text[120];
    if (size != type->bytes)
        TN_FAIL(error, TN_E_INVALID, "%llu bytes for %s, which has %llu", (unsigned long long)size,
                tn__type_text(type, text, sizeof text), (unsigned long long)type->bytes);
    return TN_OK;
}

static tn_status eager_get(tn_eager *eager, tn_handle handle, void *data, uint64_t size,
                           tn_error *error) {
    tn__eager_item_id id = TN_NONE;
    TN_TRY(tn__eager_item_of(eager, handle, "get", &id, error));
    TN_TRY(eager_check_size(eager, id, size, error));
    TN_TRY(tn__record_reserve(eager, error));
    const tn__eager_item *item = &eager->items[id];
    if (item->tensor == TN_NONE)
        memcpy(data, tn__eager_item_type(eager, id)->data, (size_t)size);
    else
        TN_TRY(tn__eager_memory_get(eager, item->tensor, data, size, error));
    tn__record_get(eager, id);
    return TN_OK;
}

tn_status tn_eager_get(tn_eager *eager, tn_handle handle, void *data, uint64_t size,
                       tn_error *error) {
    return tn__where(error, eager_get(eager, handle, data, size, error), "get");
}

static tn_status eager_set(tn_eager *eager, tn_handle handle, const void *data, uint64_t size,
                           tn_error *error) {
    tn__eager_item_id id = TN_NONE;
    TN_TRY(tn__eager_item_of(eager, handle, "set", &id, error));
    TN_TRY(eager_check_size(eager, id, size, error));
    TN_TRY(tn__record_reserve(eager, error));
    tn__eager_item *item = &eager->items[id];
    if (!tn__eager_item_is_fixed(item))
        TN_FAIL(error, TN_E_INVALID,
                "only what lies at a fixed place is set: a parameter, optimizer "
                "state or gradient that was put");
    TN_TRY(tn__eager_memory_set(eager, data, size, &item->tensor, error));
    tn__record_release(eager, id);
    tn__record_put(eager, id);
    return TN_OK;
}

tn_status tn_eager_set(tn_eager *eager, tn_handle handle, const void *data, uint64_t size,
                       tn_error *error) {
    return tn__where(error, eager_set(eager, handle, data, size, error), "set");
}

/* --- queries --- */

tn_status tn_eager_describe(const tn_eager *eager, tn_handle handle, tn_eager_about *about,
                            tn_error *error) {
    tn__eager_item_id id = TN_NONE;
    TN_TRY(tn__eager_item_of(eager, handle, "describe", &id, error));
    const tn__eager_item *item = &eager->items[id];
    const tn__type *type = tn__eager_item_type(eager, id);
    *about = (tn_eager_about){.dtype = type->dtype,
                              .kind = item->tensor == TN_NONE ? TN_KIND_CONSTANT : item->kind,
                              .rank = type->rank,
                              .shape = type->shape,
                              .bytes = type->bytes,
                              .resident = item->tensor != TN_NONE &&
                                          tn__evict_is_there(eager->memory.core, item->tensor)};
    return TN_OK;
}

void tn_eager_count(const tn_eager *eager, tn_eager_counts *counts) {
    *counts = (tn_eager_counts){.budget = eager->memory.size,
                                .handles = eager->open_count,
                                .history = eager->memory.history,
                                .recipes = eager->op_cache.count,
                                .evict = *tn__evict_count(eager->memory.core)};
}

void tn_eager_least(const tn_eager *eager, tn_evict_least *least) { *least = eager->memory.least; }
