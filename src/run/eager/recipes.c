/* recipes.c - prepares operators on operands of known types, each only once (recipes.h).
 *
 * A key is a byte string that distinguishes recipes: names, attributes, numbers of types. It does
 * not say which operands are the same tensor. Inputs are only read, so no result depends on that;
 * apply.c refuses an operator that writes into an input and names the same tensor twice.
 */
#include "run/eager/recipes.h"

#include <stdio.h>

#include "graph/rules/fold.h"
#include "graph/store.h"

void tn__recipes_init(tn__recipes *recipes, const tn_context *context, tn__types *types,
                      tn__kernel_cache *kernels, uint64_t *random) {
    *recipes =
        (tn__recipes){.context = context, .types = types, .kernels = kernels, .random = random};
    tn__arena_init(&recipes->arena, context);
    tn__names_init(&recipes->names, context);
    tn__text_init(&recipes->key, context);
}

void tn__recipes_release(tn__recipes *recipes) {
    for (size_t i = 0; i < recipes->count; i++) tn_graph_destroy(recipes->of[i]->graph);
    tn__free(recipes->context, recipes->of, recipes->room * sizeof(tn__recipe *));
    tn__names_release(&recipes->names);
    tn__text_release(&recipes->key);
    tn__arena_release(&recipes->arena);
}

/* --- keys --- */

static void recipes_key_string(tn__text *key, const char *string) {
    tn__text_add(key, string, strlen(string) + 1);
}

static void recipes_key_attr(tn__text *key, const tn_attr *attr) {
    recipes_key_string(key, attr->name);
    tn__key_number(key, (uint32_t)attr->type);
    tn__key_number(key, attr->count);
    if (attr->type == TN_ATTR_INT || attr->type == TN_ATTR_INTS)
        tn__text_add(key, (const char *)attr->ints, attr->count * sizeof *attr->ints);
    if (attr->type == TN_ATTR_FLOAT || attr->type == TN_ATTR_FLOATS)
        tn__text_add(key, (const char *)attr->floats, attr->count * sizeof *attr->floats);
    for (uint32_t i = 0; i < attr->count; i++)
        if (attr->type == TN_ATTR_STRING || attr->type == TN_ATTR_STRINGS)
            recipes_key_string(key, attr->strings[i]);
}

static void recipes_key(tn__text *key, const tn__ask *ask) {
    key->size = 0;
    key->failed = false;
    recipes_key_string(key, ask->type);
    recipes_key_string(key, ask->domain);
    const uint32_t counts[] = {ask->version,           ask->attr_count,
                               ask->input_count,       ask->output_count,
                               (uint32_t)ask->omitted, (uint32_t)(ask->omitted >> 32)};
    tn__text_add(key, (const char *)counts, sizeof counts);
    for (uint32_t i = 0; i < ask->attr_count; i++) recipes_key_attr(key, &ask->attrs[i]);
    tn__text_add(key, (const char *)ask->inputs, ask->input_count * sizeof *ask->inputs);
}

/* --- the graph of one operator --- */

static tn_status recipes_input(const tn__types *types, tn_graph *graph, uint32_t type,
                               tn_tensor_id *id, tn_error *error) {
    const tn__type *of = tn__type_of(types, type);
    tn_tensor_spec spec = {.name = "operand",
                           .dtype = of->dtype,
                           .kind = of->value != NULL ? TN_KIND_CONSTANT : TN_KIND_INPUT,
                           .rank = of->rank,
                           .shape = of->shape};
    if (of->value != NULL) spec.value = *of->value;
    return tn_graph_add_tensor(graph, &spec, id, error);
}

tn_status tn__recipe_graph(const tn__types *types, tn_graph *graph, const tn__ask *ask,
                           tn_tensor_id *ids, tn_error *error) {
    const tn_tensor_spec made = {.name = "result", .rank = TN_RANK_UNKNOWN};
    for (uint32_t i = 0; i < ask->input_count; i++) {
        ids[i] = TN_NONE;
        if (ask->inputs[i] != TN_NONE)
            TN_TRY(recipes_input(types, graph, ask->inputs[i], &ids[i], error));
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

/* --- what its outputs are --- */

static tn_status recipes_refuse(const tn__recipe *it, tn_error *error, const char *what) {
    tn__fail(error, TN_E_UNSUPPORTED, "%s", what);
    return tn__where(error, TN_E_UNSUPPORTED, "operator %.60s", it->op->type);
}

/* Finds the input in whose memory the output lies, if there is one. */
static tn_status recipes_view(const tn__recipe *it, uint32_t output, tn__result *result,
                              tn_error *error) {
    tn_view view = tn_op_view(it->graph, 0, output);
    for (uint32_t i = 0; i < it->input_count && view.source != TN_NONE; i++) {
        if (it->op->inputs[i] != view.source) continue;
        bool immediate = tn_graph_tensor(it->graph, view.source)->kind == TN_KIND_CONSTANT;
        if (view.whole && view.must)
            return recipes_refuse(it, error, "it is a view at a place that nobody knows");
        if (view.whole || immediate) return TN_OK;
        result->view_of = i;
        result->offset = view.offset;
        result->handed = (it->changes >> i & 1) != 0;
        return TN_OK;
    }
    return TN_OK;
}

/* Whether inference knows the data of all outputs. */
static bool recipes_known(const tn__recipe *it) {
    for (uint32_t k = 0; k < it->output_count; k++) {
        if (it->op->outputs[k] == TN_NONE) continue;
        const tn_value *value = tn_graph_tensor(it->graph, it->op->outputs[k])->value;
        if (value == NULL || value->count > TN__IMMEDIATE_MOST) return false;
    }
    return it->changes == 0 && !it->random;
}

static tn_status recipes_results(tn__recipes *recipes, tn__recipe *it, tn_error *error) {
    tn__result *results = tn__arena_array(&recipes->arena, it->output_count, sizeof *results);
    bool known = recipes_known(it);
    if (results == NULL) return tn__no_memory(error, "an operator");
    for (uint32_t k = 0; k < it->output_count; k++) {
        tn_tensor_id id = it->op->outputs[k];
        results[k] = (tn__result){.type = TN_NONE, .view_of = TN_NONE};
        if (id == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        if ((tensor->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) != 0)
            return recipes_refuse(it, error,
                                  "extents of its outputs depend on contents of its inputs; where "
                                  "these are few and known, put them as constants");
        results[k].known = known;
        if (known)
            TN_TRY(tn__types_of_tensor(recipes->types, tensor, &results[k].type, error));
        else
            TN_TRY(tn__types_find(recipes->types, tensor->dtype, tensor->rank, tensor->shape, NULL,
                                  &results[k].type, error));
        if (!known) TN_TRY(recipes_view(it, k, &results[k], error));
    }
    it->results = results;
    return TN_OK;
}

/* Lists the operands for the core: without omitted ones and immediates. */
static tn_status recipes_data(tn__recipes *recipes, tn__recipe *it, tn_error *error) {
    uint32_t number[TN__OPERANDS_MOST];
    it->data_inputs = tn__arena_array(&recipes->arena, it->input_count, sizeof(uint32_t));
    it->data_outputs = tn__arena_array(&recipes->arena, it->output_count, sizeof(uint32_t));
    it->data_as = tn__arena_array(&recipes->arena, it->output_count, sizeof *it->data_as);
    if (it->data_inputs == NULL || it->data_outputs == NULL || it->data_as == NULL)
        return tn__no_memory(error, "an operator");
    for (uint32_t i = 0; i < it->input_count; i++) {
        if (it->inputs[i] == TN_NONE) continue;
        if (tn__type_of(recipes->types, it->inputs[i])->value != NULL) continue;
        number[i] = it->data_input_count;
        it->data_inputs[it->data_input_count++] = i;
    }
    for (uint32_t k = 0; k < it->output_count; k++) {
        const tn__result *result = &it->results[k];
        if (result->type == TN_NONE || result->known || (k == 0 && it->again != NULL)) continue;
        it->data_as[it->data_output_count] = (tn__evict_output){
            .bytes = tn__type_of(recipes->types, result->type)->bytes,
            .alias = result->view_of == TN_NONE ? TN__EVICT_NONE : number[result->view_of],
            .shift = result->offset,
            .overwrites = result->handed};
        it->data_outputs[it->data_output_count++] = k;
    }
    return TN_OK;
}

/* Whether anything is left to compute: an output that is neither known nor a view of an input. */
static bool recipes_runs(const tn__recipe *it) {
    if (it->changes != 0 || tn_op_is_ordered(it->graph, 0)) return true;
    for (uint32_t k = 0; k < it->output_count; k++)
        if (it->results[k].type != TN_NONE && !it->results[k].known &&
            it->results[k].view_of == TN_NONE)
            return true;
    return false;
}

/* --- the call --- */

static tn_status recipes_operands(tn__recipes *recipes, const tn_graph *graph,
                                  const tn_tensor_id *ids, uint32_t count, tn_operand **operands,
                                  tn_error *error) {
    tn_operand *made = tn__arena_array(&recipes->arena, count, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an operator");
    for (uint32_t i = 0; i < count; i++) {
        made[i].omitted = ids[i] == TN_NONE;
        if (made[i].omitted) continue;
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        made[i].room = tensor->bytes;
        made[i].dtype = tensor->dtype;
        made[i].rank = tensor->rank;
        made[i].shape =
            tn__arena_copy(&recipes->arena, tensor->shape, tensor->rank * sizeof *tensor->shape);
        if (made[i].shape == NULL) return tn__no_memory(error, "an operator");
    }
    *operands = made;
    return TN_OK;
}

static tn_status recipes_call(tn__recipes *recipes, tn__recipe *it, tn_error *error) {
    tn_operand *inputs, *outputs;
    const tn_op *op = it->op;
    TN_TRY(tn__kernel_cache_find(recipes->kernels, it->graph, 0, &it->prepared, error));
    TN_TRY(recipes_operands(recipes, it->graph, op->inputs, op->input_count, &inputs, error));
    TN_TRY(recipes_operands(recipes, it->graph, op->outputs, op->output_count, &outputs, error));
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (it->inputs[i] == TN_NONE) continue;
        const tn__type *type = tn__type_of(recipes->types, it->inputs[i]);
        if (type->value != NULL) inputs[i].data = type->data;
        bool packed = it->prepared->packed != NULL && it->prepared->packed[i] != 0;
        if (packed) return recipes_refuse(it, error, "its kernel wants a constant packed");
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
                                .random = recipes->random};
    return TN_OK;
}

/* --- facts --- */

static void recipes_facts(const tn__recipes *recipes, tn__recipe *it) {
    const uint32_t once = TN_RULE_CONTROL | TN_RULE_ORDERED;
    uint64_t fixed = it->rule != NULL ? it->rule->no_gradient : 0;
    it->changes = tn_op_changes(it->graph, 0);
    it->random = tn__op_has(it->graph, 0, TN_RULE_RANDOM);
    it->repeats = it->rule != NULL && (it->rule->flags & once) == 0 && it->changes == 0;
    for (uint32_t i = 0; i < it->input_count; i++)
        if (it->inputs[i] != TN_NONE && (fixed >> i & 1) == 0 &&
            tn__is_float(tn__type_of(recipes->types, it->inputs[i])->dtype))
            it->flows |= UINT64_C(1) << i;
}

/* Finds the operator that recomputes output 0, if the rule names one and all tensors that it reads
 * exist. */
static tn_status recipes_again(tn__recipes *recipes, tn__recipe *it, tn_error *error) {
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
    return tn__recipes_find(recipes, &ask, &it->again, error);
}

/* --- making --- */

static tn_status recipes_check(const tn__ask *ask, tn_error *error) {
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

static tn_status recipes_graph(tn__recipes *recipes, tn__recipe *it, const tn__ask *ask,
                               tn_error *error) {
    tn_tensor_id ids[2 * TN__OPERANDS_MOST];
    TN_TRY(tn__recipe_graph(recipes->types, it->graph, ask, ids, error));
    tn_status status = tn_graph_infer(it->graph, error);
    if (status == TN_E_UNKNOWN) {
        if (tn__rule_of(it->graph, 0) == NULL)
            tn__fail(error, TN_E_INVALID,
                     "there is no operator '%.60s' in domain '%.60s'; see `tenure list operators`",
                     ask->type, ask->domain);
        else
            tn__fail(error, TN_E_INVALID,
                     "shapes that follow from contents of an input: put it as a constant");
        return tn__where(error, TN_E_INVALID, "operator %.60s", ask->type);
    }
    it->op = tn_graph_op(it->graph, 0);
    it->rule = tn__rule_of(it->graph, 0);
    return status;
}

static tn_status recipes_make(tn__recipes *recipes, tn__recipe *it, const tn__ask *ask,
                              tn_error *error) {
    it->input_count = ask->input_count;
    it->output_count = ask->output_count;
    it->inputs =
        tn__arena_copy(&recipes->arena, ask->inputs, ask->input_count * sizeof *ask->inputs);
    if (it->inputs == NULL) return tn__no_memory(error, "an operator");
    TN_TRY(recipes_graph(recipes, it, ask, error));
    recipes_facts(recipes, it);
    TN_TRY(recipes_results(recipes, it, error));
    TN_TRY(recipes_again(recipes, it, error));
    TN_TRY(recipes_data(recipes, it, error));
    return recipes_runs(it) ? recipes_call(recipes, it, error) : TN_OK;
}

/* Reserves room for a new entry first, so that nothing fails after the recipe is made. The key is
 * copied, because making one recipe may ask for another. */
static tn_status recipes_add(tn__recipes *recipes, const tn__ask *ask, tn__recipe **recipe,
                             tn_error *error) {
    size_t size = recipes->key.size;
    tn__recipe *made = tn__arena_alloc(&recipes->arena, sizeof *made);
    const char *key = tn__arena_copy(&recipes->arena, recipes->key.data, size);
    if (made == NULL || key == NULL) return tn__no_memory(error, "operators");
    TN_TRY(recipes_check(ask, error));
    TN_TRY(tn_graph_create(recipes->context, &made->graph, error));
    tn_status status = recipes_make(recipes, made, ask, error);
    if (status == TN_OK &&
        (!tn__reserve(recipes->context, &recipes->of, &recipes->room, recipes->count + 1,
                      sizeof(tn__recipe *)) ||
         !tn__names_add(&recipes->names, key, size, (uint32_t)recipes->count, NULL)))
        status = tn__no_memory(error, "operators");
    if (status != TN_OK) {
        tn_graph_destroy(made->graph);
        return status;
    }
    recipes->of[recipes->count++] = made;
    *recipe = made;
    return TN_OK;
}

tn_status tn__recipes_find(tn__recipes *recipes, const tn__ask *ask, tn__recipe **recipe,
                           tn_error *error) {
    recipes_key(&recipes->key, ask);
    if (recipes->key.failed) return tn__no_memory(error, "operators");
    uint32_t at = tn__names_find(&recipes->names, recipes->key.data, recipes->key.size);
    if (at == TN__NAMES_NONE) return recipes_add(recipes, ask, recipe, error);
    *recipe = recipes->of[at];
    return TN_OK;
}
