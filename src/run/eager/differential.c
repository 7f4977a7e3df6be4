/* differential.c - turns the gradients of one operator into a list of operators (steps) on local
 * tensors, called a differential.
 *
 * The operator's gradient rule (graph/gradients/gradient.h) is applied in a graph that contains
 * only this operator. Each operator that the rule adds becomes a step. A step can be a cached
 * operator itself, because the types of its operands follow from those of the operator. Tensors
 * with known data (axes, shapes) become immediates, and operators that compute only immediates are
 * omitted. So the rule is applied once for all equal operators of a tape.
 * Cost: type inference of a few operators, once.
 */
#include "graph/rules/fold.h"
#include "graph/gradients/gradient.h"
#include "run/eager/op_cache.h"

/* The state while a differential is made. */
typedef struct differential_work {
    tn__op_cache *cache;
    tn__cached_op *cached;
    tn_graph *graph;
    tn__differential *made;
    tn_tensor_id given[TN__OPERANDS_MOST], found[TN__OPERANDS_MOST];
    bool wanted[TN__OPERANDS_MOST];
    uint32_t *local; /* for each tensor of the graph: the number of its local tensor */
    tn_error *error;
} differential_work;

/* --- the graph in which the gradient rule is applied --- */

static tn_status differential_begin(differential_work *it) {
    const tn__cached_op *cached = it->cached;
    tn_tensor_id ids[2 * TN__OPERANDS_MOST];
    tn__ask ask = {.type = cached->op->type,
                   .domain = cached->op->domain,
                   .version = cached->op->version,
                   .attr_count = cached->op->attr_count,
                   .attrs = cached->op->attrs,
                   .input_count = cached->input_count,
                   .output_count = cached->output_count,
                   .inputs = cached->inputs};
    for (uint32_t k = 0; k < cached->output_count; k++)
        if (cached->results[k].type == TN_NONE) ask.omitted |= UINT64_C(1) << k;
    TN_TRY(tn__cached_op_graph(it->cache->types, it->graph, &ask, ids, it->error));
    return tn_graph_infer(it->graph, it->error);
}

static tn_status differential_given(differential_work *it) {
    for (uint32_t k = 0; k < it->cached->output_count; k++) {
        it->given[k] = TN_NONE;
        if ((it->made->given >> k & 1) == 0) continue;
        const tn__type *type = tn__type_of(it->cache->types, it->cached->results[k].type);
        const tn_tensor_spec spec = {.name = "d",
                                     .dtype = type->dtype,
                                     .kind = TN_KIND_INPUT,
                                     .rank = type->rank,
                                     .shape = type->shape};
        TN_TRY(tn_graph_add_tensor(it->graph, &spec, &it->given[k], it->error));
    }
    return TN_OK;
}

static tn_status differential_ask(differential_work *it) {
    const tn_op_rule *rule = it->cached->rule;
    if (rule == NULL || rule->gradient == NULL)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "%.60s has no gradient, but lies between what gradients are wanted of and the loss",
                it->cached->op->type);
    tn_gradient ask = {.graph = it->graph,
                       .op = *tn_graph_op(it->graph, 0),
                       .given = it->given,
                       .wanted = it->wanted,
                       .found = it->found,
                       .error = it->error};
    ask.version = ask.op.version != 0 ? ask.op.version : UINT32_MAX;
    for (uint32_t i = 0; i < it->cached->input_count; i++) {
        it->wanted[i] = (it->made->wanted >> i & 1) != 0;
        it->found[i] = TN_NONE;
    }
    TN_TRY(rule->gradient(&ask));
    return tn_graph_infer(it->graph, it->error);
}

/* --- locals --- */

static void differential_number(differential_work *it, const tn_tensor_id *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] != TN_NONE) it->local[ids[i]] = it->made->local_count;
        it->made->local_count++;
    }
}

static bool differential_is_known(const tn_tensor *tensor) {
    return tensor->value != NULL && tensor->value->count <= TN__IMMEDIATE_MOST;
}

/* Numbers the local tensors: first the operator's operands and the gradients of its outputs, then
 * all others, including immediates. */
static tn_status differential_locals(differential_work *it) {
    const tn_op *op = tn_graph_op(it->graph, 0);
    tn__arena *arena = &it->cache->arena;
    uint32_t tensors = tn_graph_tensor_count(it->graph);
    uint32_t room = tensors + op->input_count + 2 * op->output_count;
    it->local = tn__alloc_array(it->cache->context, tensors, sizeof *it->local);
    uint32_t *known = tn__arena_array(arena, room, sizeof *known);
    uint32_t *last = tn__arena_array(arena, room, sizeof *last);
    if (it->local == NULL || known == NULL || last == NULL)
        return tn__no_memory(it->error, "gradients");
    memset(it->local, 0xff, tensors * sizeof *it->local);
    memset(known, 0xff, room * sizeof *known);
    memset(last, 0xff, room * sizeof *last);
    differential_number(it, op->inputs, op->input_count);
    differential_number(it, op->outputs, op->output_count);
    differential_number(it, it->given, op->output_count);
    for (tn_tensor_id t = 0; t < tensors; t++) {
        if (it->local[t] == TN_NONE) it->local[t] = it->made->local_count++;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, t);
        if (differential_is_known(tensor))
            TN_TRY(tn__types_of_tensor(it->cache->types, tensor, &known[it->local[t]], it->error));
    }
    it->made->known = known;
    it->made->last = last;
    return TN_OK;
}

/* --- steps --- */

static bool differential_needless(const differential_work *it, const tn_op *op) {
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            !differential_is_known(tn_graph_tensor(it->graph, op->outputs[k])))
            return false;
    return true;
}

static tn_status differential_list(differential_work *it, const tn_tensor_id *ids, uint32_t count,
                                   const uint32_t **list) {
    uint32_t *made = tn__arena_array(&it->cache->arena, count, sizeof *made);
    if (made == NULL) return tn__no_memory(it->error, "gradients");
    for (uint32_t i = 0; i < count; i++) made[i] = ids[i] == TN_NONE ? TN_NONE : it->local[ids[i]];
    *list = made;
    return TN_OK;
}

static tn_status differential_cached(differential_work *it, const tn_op *op,
                                     tn__cached_op **cached) {
    uint32_t types[TN__OPERANDS_MOST];
    tn__ask ask = {.type = op->type,
                   .domain = op->domain,
                   .version = op->version,
                   .attr_count = op->attr_count,
                   .attrs = op->attrs,
                   .input_count = op->input_count,
                   .output_count = op->output_count,
                   .inputs = types};
    for (uint32_t i = 0; i < op->input_count && i < TN__OPERANDS_MOST; i++) {
        types[i] = TN_NONE;
        if (op->inputs[i] != TN_NONE)
            TN_TRY(tn__types_of_tensor(it->cache->types, tn_graph_tensor(it->graph, op->inputs[i]),
                                       &types[i], it->error));
    }
    for (uint32_t k = 0; k < op->output_count && k < TN__OPERANDS_MOST; k++)
        if (op->outputs[k] == TN_NONE) ask.omitted |= UINT64_C(1) << k;
    return tn__op_cache_find(it->cache, &ask, cached, it->error);
}

/* Records that a step reads local tensors, and which of the operator's own operands are among them.
 * Steps are visited in order, so `last` has the last step that reads a tensor. */
static void differential_reads(differential_work *it, const uint32_t *locals, uint32_t count,
                               uint32_t step) {
    uint32_t inputs = it->cached->input_count, outputs = it->cached->output_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t local = locals[i];
        if (local == TN_NONE) continue;
        it->made->last[local] = step;
        if (local < inputs)
            it->made->reads_inputs |= UINT64_C(1) << local;
        else if (local < inputs + outputs)
            it->made->reads_outputs |= UINT64_C(1) << (local - inputs);
    }
}

static tn_status differential_steps(differential_work *it) {
    const tn_block *block = tn_graph_block(it->graph, 0);
    tn__differential_step *steps =
        tn__arena_array(&it->cache->arena, block->op_count, sizeof *steps);
    if (steps == NULL) return tn__no_memory(it->error, "gradients");
    for (uint32_t p = 0; p < block->op_count; p++) {
        const tn_op *op = tn_graph_op(it->graph, block->ops[p]);
        if (block->ops[p] == 0 || differential_needless(it, op)) continue;
        tn__differential_step *step = &steps[it->made->step_count];
        TN_TRY(differential_cached(it, op, &step->cached));
        TN_TRY(differential_list(it, op->inputs, op->input_count, &step->inputs));
        TN_TRY(differential_list(it, op->outputs, op->output_count, &step->outputs));
        differential_reads(it, step->inputs, op->input_count, it->made->step_count++);
    }
    it->made->steps = steps;
    TN_TRY(differential_list(it, it->found, it->cached->input_count, &it->made->found));
    differential_reads(it, it->made->found, it->cached->input_count, it->made->step_count);
    return TN_OK;
}

/* --- finding or making a differential --- */

static tn_status differential_make(differential_work *it) {
    TN_TRY(differential_begin(it));
    TN_TRY(differential_given(it));
    TN_TRY(differential_ask(it));
    TN_TRY(differential_locals(it));
    return differential_steps(it);
}

tn_status tn__op_cache_differential(tn__op_cache *cache, tn__cached_op *cached, uint64_t given,
                                    uint64_t wanted, const tn__differential **differential,
                                    tn_error *error) {
    for (tn__differential *it = cached->differentials; it != NULL; it = it->next)
        if (it->given == given && it->wanted == wanted) {
            *differential = it;
            return TN_OK;
        }
    differential_work work = {.cache = cache, .cached = cached, .error = error};
    work.made = tn__arena_alloc(&cache->arena, sizeof *work.made);
    if (work.made == NULL) return tn__no_memory(error, "gradients");
    work.made->given = given;
    work.made->wanted = wanted;
    TN_TRY(tn_graph_create(cache->context, &work.graph, error));
    tn_status status = differential_make(&work);
    if (work.local != NULL)
        tn__free(cache->context, work.local,
                 tn_graph_tensor_count(work.graph) * sizeof *work.local);
    tn_graph_destroy(work.graph);
    if (status != TN_OK) return status;
    work.made->next = cached->differentials;
    cached->differentials = work.made;
    *differential = work.made;
    return TN_OK;
}

/* --- reads --- */

bool tn__cached_op_differs(const tn__op_cache *cache, const tn__cached_op *cached,
                           uint32_t output) {
    const tn__result *result = &cached->results[output];
    return result->type != TN_NONE && !result->known && !result->handed &&
           tn__is_float(tn__type_of(cache->types, result->type)->dtype);
}

static tn_status differential_join(tn__op_cache *cache, tn__cached_op *cached, uint64_t given,
                                   tn__differential *all, tn_error *error) {
    const tn__differential *one;
    tn_error refused;
    tn_status status = tn__op_cache_differential(cache, cached, given, all->wanted, &one, &refused);
    if (status == TN_E_NO_MEMORY) return tn__no_memory(error, "gradients");
    /* any other error is ignored here: it is reported when this differential itself is requested */
    if (status != TN_OK) return TN_OK;
    all->reads_inputs |= one->reads_inputs;
    all->reads_outputs |= one->reads_outputs;
    return TN_OK;
}

/* The result is kept in the list of differentials, as one with an empty set `given`. */
tn_status tn__op_cache_reads(tn__op_cache *cache, tn__cached_op *cached, uint64_t wanted,
                             uint64_t *inputs, uint64_t *outputs, tn_error *error) {
    tn__differential *all = cached->differentials;
    while (all != NULL && (all->given != 0 || all->wanted != wanted)) all = all->next;
    if (all == NULL) {
        uint64_t given = 0;
        all = tn__arena_alloc(&cache->arena, sizeof *all);
        if (all == NULL) return tn__no_memory(error, "gradients");
        all->wanted = wanted;
        for (uint32_t k = 0; k < cached->output_count; k++) {
            if (!tn__cached_op_differs(cache, cached, k)) continue;
            given |= UINT64_C(1) << k;
            TN_TRY(differential_join(cache, cached, UINT64_C(1) << k, all, error));
        }
        TN_TRY(differential_join(cache, cached, given, all, error));
        all->next = cached->differentials;
        cached->differentials = all;
    }
    *inputs = all->reads_inputs;
    *outputs = all->reads_outputs;
    return TN_OK;
}
