/* op_cache.c - stores each type of tensor once, and prepares each operator once for operands of
 * given types (op_cache.h).
 *
 * The key of a cached operator is a string of bytes: its name, its attributes and the numbers of
 * its operands' types. It does not state which operands are the same tensor. No result depends on
 * that if inputs are only read, and apply.c refuses an operator that writes into an input and has
 * this tensor as another input too.
 */
#include "run/eager/op_cache.h"
#include "engine/kernels/kernel.h"
#include "graph/element.h"
#include "graph/rules/fold.h"
#include "graph/store.h"

#include <stdio.h>

/* --- types ------------------------------------------------------------------------------------ */

/* Stores each type of tensor once (op_cache.h). Cost: O(rank + known elements) per lookup. */

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

/* Stores the data of an immediate, as values for shape rules and as bytes for kernels. */
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

/* --- operators -------------------------------------------------------------------------------- */

void tn__op_cache_init(tn__op_cache *cache, const tn_context *context, tn__types *types,
                       tn__kernel_cache *kernels, uint64_t *random) {
    *cache =
        (tn__op_cache){.context = context, .types = types, .kernels = kernels, .random = random};
    tn__arena_init(&cache->arena, context);
    tn__names_init(&cache->names, context);
    tn__text_init(&cache->key, context);
}

void tn__op_cache_release(tn__op_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) tn_graph_destroy(cache->of[i]->graph);
    tn__free(cache->context, cache->of, cache->room * sizeof(tn__cached_op *));
    tn__names_release(&cache->names);
    tn__text_release(&cache->key);
    tn__arena_release(&cache->arena);
}

/* --- keys --- */

static void op_cache_key_string(tn__text *key, const char *string) {
    tn__text_add(key, string, strlen(string) + 1);
}

static void op_cache_key_attr(tn__text *key, const tn_attr *attr) {
    op_cache_key_string(key, attr->name);
    tn__key_number(key, (uint32_t)attr->type);
    tn__key_number(key, attr->count);
    if (attr->type == TN_ATTR_INT || attr->type == TN_ATTR_INTS)
        tn__text_add(key, (const char *)attr->ints, attr->count * sizeof *attr->ints);
    if (attr->type == TN_ATTR_FLOAT || attr->type == TN_ATTR_FLOATS)
        tn__text_add(key, (const char *)attr->floats, attr->count * sizeof *attr->floats);
    for (uint32_t i = 0; i < attr->count; i++)
        if (attr->type == TN_ATTR_STRING || attr->type == TN_ATTR_STRINGS)
            op_cache_key_string(key, attr->strings[i]);
}

static void op_cache_key(tn__text *key, const tn__ask *ask) {
    key->size = 0;
    key->failed = false;
    op_cache_key_string(key, ask->type);
    op_cache_key_string(key, ask->domain);
    const uint32_t counts[] = {ask->version,           ask->attr_count,
                               ask->input_count,       ask->output_count,
                               (uint32_t)ask->omitted, (uint32_t)(ask->omitted >> 32)};
    tn__text_add(key, (const char *)counts, sizeof counts);
    for (uint32_t i = 0; i < ask->attr_count; i++) op_cache_key_attr(key, &ask->attrs[i]);
    tn__text_add(key, (const char *)ask->inputs, ask->input_count * sizeof *ask->inputs);
}

/* --- the graph of one operator --- */

/* Adds input `i` of an operator. Messages call it by its number, because the name of a tensor is no
 * part of the key. */
static tn_status op_cache_input(const tn__types *types, tn_graph *graph, uint32_t i, uint32_t type,
                                tn_tensor_id *id, tn_error *error) {
    const tn__type *of = tn__type_of(types, type);
    char name[24];
    snprintf(name, sizeof name, "input %u", i);
    tn_tensor_spec spec = {.name = name,
                           .dtype = of->dtype,
                           .kind = of->value != NULL ? TN_KIND_CONSTANT : TN_KIND_INPUT,
                           .rank = of->rank,
                           .shape = of->shape};
    if (of->value != NULL) spec.value = *of->value;
    return tn_graph_add_tensor(graph, &spec, id, error);
}

tn_status tn__cached_op_graph(const tn__types *types, tn_graph *graph, const tn__ask *ask,
                              tn_tensor_id *ids, tn_error *error) {
    const tn_tensor_spec made = {.name = "result", .rank = TN_RANK_UNKNOWN};
    for (uint32_t i = 0; i < ask->input_count; i++) {
        ids[i] = TN_NONE;
        if (ask->inputs[i] != TN_NONE)
            TN_TRY(op_cache_input(types, graph, i, ask->inputs[i], &ids[i], error));
    }
    tn_tensor_id *outputs = ids + ask->input_count;
    for (uint32_t k = 0; k < ask->output_count; k++) {
        outputs[k] = TN_NONE;
        if ((ask->omitted >> k & 1) == 0)
            TN_TRY(tn_graph_add_tensor(graph, &made, &outputs[k], error));
    }
    const tn_op_spec spec = {.name = ask->type,
                             .type = ask->type,
                             .domain = ask->domain,
                             .version = ask->version,
                             .inputs = ids,
                             .outputs = outputs,
                             .attrs = ask->attrs,
                             .input_count = ask->input_count,
                             .output_count = ask->output_count,
                             .attr_count = ask->attr_count};
    return tn_graph_add_op(graph, &spec, NULL, error);
}

/* --- the outputs of a cached operator --- */

static tn_status op_cache_refuse(const tn__cached_op *it, tn_error *error, const char *what) {
    tn__fail(error, TN_E_UNSUPPORTED, "%s", what);
    return tn__where(error, TN_E_UNSUPPORTED, "operator %.60s", it->op->type);
}

/* Finds the input of which an output is a view, if there is one. */
static tn_status op_cache_view(const tn__cached_op *it, uint32_t output, tn__result *result,
                               tn_error *error) {
    tn_view view = tn_op_view(it->graph, 0, output);
    for (uint32_t i = 0; i < it->input_count && view.source != TN_NONE; i++) {
        if (it->op->inputs[i] != view.source) continue;
        bool immediate = tn_graph_tensor(it->graph, view.source)->kind == TN_KIND_CONSTANT;
        if (view.whole && view.must)
            return op_cache_refuse(it, error, "it is a view at an unknown place");
        if (view.whole || immediate) return TN_OK;
        result->view_of = i;
        result->offset = view.offset;
        result->handed = (it->changes >> i & 1) != 0;
        return TN_OK;
    }
    return TN_OK;
}

/* Whether the data of all outputs are known from inference. */
static bool op_cache_known(const tn__cached_op *it) {
    for (uint32_t k = 0; k < it->output_count; k++) {
        if (it->op->outputs[k] == TN_NONE) continue;
        const tn_value *value = tn_graph_tensor(it->graph, it->op->outputs[k])->value;
        if (value == NULL || value->count > TN__IMMEDIATE_MOST) return false;
    }
    return it->changes == 0 && !it->random;
}

#define OP_CACHE_UNKNOWN                                                                           \
    "the shape of its result is not known; if it follows from the contents of an input, put this " \
    "as a constant"

static bool op_cache_is_unknown(const tn_tensor *tensor) {
    bool is_unknown = tensor->rank == TN_RANK_UNKNOWN || tensor->dtype == TN_UNDEFINED;
    for (uint32_t d = 0; d < tensor->rank && !is_unknown; d++)
        is_unknown = tensor->shape[d] == TN_DIM_UNKNOWN;
    return is_unknown;
}

static tn_status op_cache_results(tn__op_cache *cache, tn__cached_op *it, tn_error *error) {
    tn__result *results = tn__arena_array(&cache->arena, it->output_count, sizeof *results);
    bool known = op_cache_known(it);
    if (results == NULL) return tn__no_memory(error, "an operator");
    for (uint32_t k = 0; k < it->output_count; k++) {
        tn_tensor_id id = it->op->outputs[k];
        results[k] = (tn__result){.type = TN_NONE, .view_of = TN_NONE};
        if (id == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        if ((tensor->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) != 0)
            return op_cache_refuse(it, error,
                                   "extents of its outputs depend on contents of its inputs; where "
                                   "these are few and known, put them as constants");
        if (op_cache_is_unknown(tensor)) {
            tn__fail(error, TN_E_INVALID, OP_CACHE_UNKNOWN);
            return tn__where(error, TN_E_INVALID, "operator %.60s", it->op->type);
        }
        results[k].known = known;
        if (known)
            TN_TRY(tn__types_of_tensor(cache->types, tensor, &results[k].type, error));
        else
            TN_TRY(tn__types_find(cache->types, tensor->dtype, tensor->rank, tensor->shape, NULL,
                                  &results[k].type, error));
        if (!known) TN_TRY(op_cache_view(it, k, &results[k], error));
    }
    it->results = results;
    return TN_OK;
}

/* Lists the operands that the eviction core manages: those that are neither omitted nor
 * immediates. */
static tn_status op_cache_data(tn__op_cache *cache, tn__cached_op *it, tn_error *error) {
    uint32_t number[TN__OPERANDS_MOST];
    it->data_inputs = tn__arena_array(&cache->arena, it->input_count, sizeof(uint32_t));
    it->data_outputs = tn__arena_array(&cache->arena, it->output_count, sizeof(uint32_t));
    it->data_as = tn__arena_array(&cache->arena, it->output_count, sizeof *it->data_as);
    if (it->data_inputs == NULL || it->data_outputs == NULL || it->data_as == NULL)
        return tn__no_memory(error, "an operator");
    for (uint32_t i = 0; i < it->input_count; i++) {
        if (it->inputs[i] == TN_NONE) continue;
        if (tn__type_of(cache->types, it->inputs[i])->value != NULL) continue;
        number[i] = it->data_input_count;
        it->data_inputs[it->data_input_count++] = i;
    }
    for (uint32_t k = 0; k < it->output_count; k++) {
        const tn__result *result = &it->results[k];
        if (result->type == TN_NONE || result->known || (k == 0 && it->again != NULL)) continue;
        it->data_as[it->data_output_count] = (tn__evict_output){
            .bytes = tn__type_of(cache->types, result->type)->bytes,
            .alias = result->view_of == TN_NONE ? TN__EVICT_NONE : number[result->view_of],
            .shift = result->offset,
            .overwrites = result->handed};
        it->data_outputs[it->data_output_count++] = k;
    }
    return TN_OK;
}

/* Whether the operator has something to compute: it writes into an input, or has an output that is
 * neither known nor a view of an input. */
static bool op_cache_runs(const tn__cached_op *it) {
    if (it->changes != 0 || tn_op_is_ordered(it->graph, 0)) return true;
    for (uint32_t k = 0; k < it->output_count; k++)
        if (it->results[k].type != TN_NONE && !it->results[k].known &&
            it->results[k].view_of == TN_NONE)
            return true;
    return false;
}

/* --- preparing the call of the kernel --- */

static tn_status op_cache_operands(tn__op_cache *cache, const tn_graph *graph,
                                   const tn_tensor_id *ids, uint32_t count, tn_operand **operands,
                                   tn_error *error) {
    tn_operand *made = tn__arena_array(&cache->arena, count, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an operator");
    for (uint32_t i = 0; i < count; i++) {
        made[i].omitted = ids[i] == TN_NONE;
        if (made[i].omitted) continue;
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        made[i].room = tensor->bytes;
        made[i].dtype = tensor->dtype;
        made[i].rank = tensor->rank;
        made[i].shape =
            tn__arena_copy(&cache->arena, tensor->shape, tensor->rank * sizeof *tensor->shape);
        if (made[i].shape == NULL) return tn__no_memory(error, "an operator");
    }
    *operands = made;
    return TN_OK;
}

static tn_status op_cache_call(tn__op_cache *cache, tn__cached_op *it, tn_error *error) {
    tn_operand *inputs, *outputs;
    const tn_op *op = it->op;
    TN_TRY(tn__kernel_cache_find(cache->kernels, it->graph, 0, &it->prepared, error));
    TN_TRY(op_cache_operands(cache, it->graph, op->inputs, op->input_count, &inputs, error));
    TN_TRY(op_cache_operands(cache, it->graph, op->outputs, op->output_count, &outputs, error));
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (it->inputs[i] == TN_NONE) continue;
        const tn__type *type = tn__type_of(cache->types, it->inputs[i]);
        if (type->value != NULL) inputs[i].data = type->data;
        bool packed = it->prepared->packed != NULL && it->prepared->packed[i] != 0;
        if (packed) return op_cache_refuse(it, error, "its kernel wants a constant packed");
    }
    it->scratch = it->prepared->workspace;
    if (it->again != NULL) {
        it->aside = (it->scratch + 63) / 64 * 64;
        it->scratch = tn__add_sat(it->aside, outputs[0].room);
    }
    it->call = (tn_kernel_call){.graph = it->graph,
                                .op = op,
                                .version = op->version ? op->version : UINT32_MAX,
                                .input_count = op->input_count,
                                .output_count = op->output_count,
                                .inputs = inputs,
                                .outputs = outputs,
                                .workspace_bytes = it->prepared->workspace,
                                .state = it->prepared->state,
                                .random = cache->random};
    return TN_OK;
}

/* --- facts --- */

static void op_cache_facts(const tn__op_cache *cache, tn__cached_op *it) {
    const uint32_t once = TN_RULE_CONTROL | TN_RULE_ORDERED;
    uint64_t fixed = it->rule != NULL ? it->rule->no_gradient : 0;
    it->changes = tn_op_changes(it->graph, 0);
    it->random = tn__op_draws(it->graph, 0);
    it->repeats = it->rule != NULL && (it->rule->flags & once) == 0 && it->changes == 0;
    for (uint32_t i = 0; i < it->input_count; i++)
        if (it->inputs[i] != TN_NONE && (fixed >> i & 1) == 0 &&
            tn__is_float(tn__type_of(cache->types, it->inputs[i])->dtype))
            it->flows |= UINT64_C(1) << i;
}

/* Finds the operator that can recompute output 0, if the operator's rule names one and all tensors
 * that it reads exist. */
static tn_status op_cache_again(tn__op_cache *cache, tn__cached_op *it, tn_error *error) {
    tn_op_form form = tn_op_form_of(it->graph, 0, true);
    if (it->changes == 0 || form.type == NULL || form.output_count != 1 ||
        it->results[0].type == TN_NONE || it->results[0].view_of != TN_NONE)
        return TN_OK;
    uint32_t inputs[TN__OPERANDS_MOST];
    for (uint32_t i = 0; i < form.input_count; i++)
        inputs[i] = (form.found >> i & 1) != 0 ? it->results[i].type : it->inputs[i];
    const tn__ask ask = {.type = form.type,
                         .domain = it->op->domain,
                         .version = it->op->version,
                         .attr_count = it->op->attr_count,
                         .attrs = it->op->attrs,
                         .input_count = form.input_count,
                         .output_count = 1,
                         .inputs = inputs};
    it->again_found = (uint32_t)form.found;
    return tn__op_cache_find(cache, &ask, &it->again, error);
}

/* --- making --- */

static tn_status op_cache_check(const tn__ask *ask, tn_error *error) {
    if (ask->input_count > TN__OPERANDS_MOST || ask->output_count > TN__OPERANDS_MOST)
        TN_FAIL(error, TN_E_UNSUPPORTED, "%.60s with more than %u operands", ask->type,
                TN__OPERANDS_MOST);
    for (uint32_t i = 0; i < ask->attr_count; i++)
        if (ask->attrs[i].type == TN_ATTR_TENSOR || ask->attrs[i].type == TN_ATTR_BLOCK)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "attribute %.60s of %.60s is a %s, which only a graph can hold",
                    ask->attrs[i].name, ask->type,
                    ask->attrs[i].type == TN_ATTR_BLOCK ? "block" : "tensor");
    return TN_OK;
}

static tn_status op_cache_graph(tn__op_cache *cache, tn__cached_op *it, const tn__ask *ask,
                                tn_error *error) {
    tn_tensor_id ids[2 * TN__OPERANDS_MOST];
    TN_TRY(tn__cached_op_graph(cache->types, it->graph, ask, ids, error));
    tn_status status = tn_graph_infer(it->graph, error);
    if (status == TN_E_UNKNOWN) {
        if (tn__rule_of(it->graph, 0) == NULL)
            tn__fail(error, TN_E_INVALID,
                     "there is no operator '%.60s' in domain '%.60s'; see `tn_op_rule_type`",
                     ask->type, ask->domain);
        else
            tn__fail(error, TN_E_INVALID, OP_CACHE_UNKNOWN);
        return tn__where(error, TN_E_INVALID, "operator %.60s", ask->type);
    }
    it->op = tn_graph_op(it->graph, 0);
    it->rule = tn__rule_of(it->graph, 0);
    return status;
}

static tn_status op_cache_make(tn__op_cache *cache, tn__cached_op *it, const tn__ask *ask,
                               tn_error *error) {
    it->input_count = ask->input_count;
    it->output_count = ask->output_count;
    it->inputs = tn__arena_copy(&cache->arena, ask->inputs, ask->input_count * sizeof *ask->inputs);
    if (it->inputs == NULL) return tn__no_memory(error, "an operator");
    TN_TRY(op_cache_graph(cache, it, ask, error));
    op_cache_facts(cache, it);
    TN_TRY(op_cache_results(cache, it, error));
    TN_TRY(op_cache_again(cache, it, error));
    TN_TRY(op_cache_data(cache, it, error));
    return op_cache_runs(it) ? op_cache_call(cache, it, error) : TN_OK;
}

/* Adds a cached operator. Memory for the entry is reserved first, so that nothing can fail after
 * the operator is made. The key is copied, because making a cached operator may request another
 * one. */
static tn_status op_cache_add(tn__op_cache *cache, const tn__ask *ask, tn__cached_op **cached,
                              tn_error *error) {
    size_t size = cache->key.size;
    tn__cached_op *made = tn__arena_alloc(&cache->arena, sizeof *made);
    const char *key = tn__arena_copy(&cache->arena, cache->key.data, size);
    if (made == NULL || key == NULL) return tn__no_memory(error, "operators");
    TN_TRY(op_cache_check(ask, error));
    TN_TRY(tn_graph_create(cache->context, &made->graph, error));
    tn_status status = op_cache_make(cache, made, ask, error);
    if (status == TN_OK && (!tn__reserve(cache->context, &cache->of, &cache->room, cache->count + 1,
                                         sizeof(tn__cached_op *)) ||
                            !tn__names_add(&cache->names, key, size, (uint32_t)cache->count, NULL)))
        status = tn__no_memory(error, "operators");
    if (status != TN_OK) {
        tn_graph_destroy(made->graph);
        return status;
    }
    cache->of[cache->count++] = made;
    *cached = made;
    return TN_OK;
}

tn_status tn__op_cache_find(tn__op_cache *cache, const tn__ask *ask, tn__cached_op **cached,
                            tn_error *error) {
    op_cache_key(&cache->key, ask);
    if (cache->key.failed) return tn__no_memory(error, "operators");
    uint32_t at = tn__names_find(&cache->names, cache->key.data, cache->key.size);
    if (at == TN__NAMES_NONE) return op_cache_add(cache, ask, cached, error);
    *cached = cache->of[at];
    return TN_OK;
}
