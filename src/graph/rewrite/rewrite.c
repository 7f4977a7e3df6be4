/* rewrite.c - tn_graph_rewrite: makes a draft of the graph, runs every rewrite on it, and makes a
 * graph of the result.
 *
 * Rewrites run one after the other, each over all operators of block 0 in order, so that a pattern
 * may include operators made by an earlier rewrite. After each, operators without readers are
 * removed (except those with side effects), so that counts of readers are correct again.
 *
 * The new graph keeps the order of operators: an operator that replaces others stands in the place
 * of the last of them, and an operator inserted before another stays right before it. Unused
 * tensors are left out; all others keep names, payloads and values.
 * Cost: O(rewrites x operators), and inference.
 */
#include "graph/rewrite/rewrite.h"
#include "graph/store.h"

#include "graph/attr.h"

#define TN_REWRITE(name) extern const tn__rewrite tn__rewrite_##name;
#include "graph/rewrite/rewrites.def"
#undef TN_REWRITE

static const tn__rewrite *const rewrites[] = {
#define TN_REWRITE(name) &tn__rewrite_##name,
#include "graph/rewrite/rewrites.def"
#undef TN_REWRITE
};

/* --- making a draft of a graph --- */

static tn_status rewrite_no_memory(tn__draft *draft) {
    return tn__no_memory(draft->error, "a rewritten graph");
}

static void rewrite_fix(tn__draft *draft, const tn_tensor_id *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] != TN_NONE) draft->tensors[ids[i]].fixed = true;
}

static tn_status rewrite_begin_op(tn__draft *draft, tn_op_id id) {
    tn_op op = *tn_graph_op(draft->graph, id);
    op.inputs = tn__arena_copy(&draft->arena, op.inputs, op.input_count * sizeof *op.inputs);
    op.outputs = tn__arena_copy(&draft->arena, op.outputs, op.output_count * sizeof *op.outputs);
    if (op.inputs == NULL || op.outputs == NULL) return rewrite_no_memory(draft);
    draft->ops[id] =
        (tn__draft_op){.op = op, .rule = tn__rule_of(draft->graph, id), .sub = TN_NONE};
    if (op.block != 0) {
        rewrite_fix(draft, op.inputs, op.input_count);
        return TN_OK;
    }
    for (uint32_t i = 0; i < op.input_count; i++)
        if (op.inputs[i] != TN_NONE) draft->tensors[op.inputs[i]].uses++;
    for (uint32_t i = 0; i < op.attr_count; i++)
        if (op.attrs[i].type == TN_ATTR_TENSOR) draft->tensors[op.attrs[i].tensor].fixed = true;
    return TN_OK;
}

tn_status tn__draft_begin(tn__draft *draft) {
    const tn_graph *graph = draft->graph;
    uint32_t tensors = tn_graph_tensor_count(graph), ops = tn_graph_op_count(graph);
    if (!tn__reserve(&draft->context, &draft->tensors, &draft->tensor_room, tensors + (size_t)1,
                     sizeof *draft->tensors) ||
        !tn__reserve(&draft->context, &draft->ops, &draft->op_room, ops + (size_t)1,
                     sizeof *draft->ops))
        return rewrite_no_memory(draft);
    for (tn_tensor_id id = 0; id < tensors; id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        draft->tensors[id] =
            (tn__draft_tensor){.tensor = *tensor,
                               .producer = tensor->producer,
                               .twin = TN_NONE,
                               .fixed = (tensor->flags & TN_TENSOR_IS_OUTPUT) != 0};
    }
    draft->tensor_count = tensors;
    for (tn_op_id id = 0; id < ops; id++) TN_TRY(rewrite_begin_op(draft, id));
    draft->op_count = ops;
    for (tn_block_id b = 0; b < tn_graph_block_count(graph); b++) {
        const tn_block *block = tn_graph_block(graph, b);
        rewrite_fix(draft, block->outputs, block->output_count);
        for (uint32_t i = 0; i < block->op_count; i++) draft->ops[block->ops[i]].at = i;
    }
    return TN_OK;
}

void tn__draft_end(tn__draft *draft) {
    tn__free(&draft->context, draft->tensors, draft->tensor_room * sizeof *draft->tensors);
    tn__free(&draft->context, draft->ops, draft->op_room * sizeof *draft->ops);
    tn__arena_release(&draft->arena);
}

/* --- the order of the draft's operators; removal of operators without readers --- */

typedef struct rewrite_place {
    uint32_t at, sub;
    tn_op_id id;
} rewrite_place;

static int rewrite_compare(const void *left, const void *right) {
    const rewrite_place *a = left, *b = right;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->sub != b->sub) return a->sub < b->sub ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

/* Lists the operators of a block that have not been removed, in order. *list lies in the draft's
 * memory. */
static tn_status rewrite_order(tn__draft *draft, tn_block_id block, rewrite_place **list,
                               uint32_t *count) {
    rewrite_place *made = tn__arena_array(&draft->arena, (size_t)draft->op_count + 1, sizeof *made);
    if (made == NULL) return rewrite_no_memory(draft);
    *count = 0;
    for (tn_op_id id = 0; id < draft->op_count; id++) {
        const tn__draft_op *op = &draft->ops[id];
        if (op->gone || op->op.block != block) continue;
        made[(*count)++] = (rewrite_place){op->at, op->sub, id};
    }
    qsort(made, *count, sizeof *made, rewrite_compare);
    *list = made;
    return TN_OK;
}

/* --- rewriting --- */

static bool rewrite_is_idle(const tn__draft *draft, tn_op_id id) {
    const tn_op *op = &draft->ops[id].op;
    if (op->output_count == 0) return false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        const tn__draft_tensor *tensor = &draft->tensors[op->outputs[k]];
        if (tensor->uses > 0 || tensor->fixed) return false;
    }
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_BLOCK) return false;
    return id >= tn_graph_op_count(draft->graph) ||
           (!tn_op_is_ordered(draft->graph, id) && !tn_op_changes(draft->graph, id));
}

static tn_status rewrite_sweep(tn__draft *draft) {
    rewrite_place *list;
    uint32_t count;
    TN_TRY(rewrite_order(draft, 0, &list, &count));
    for (uint32_t i = count; i-- > 0;)
        if (rewrite_is_idle(draft, list[i].id)) tn__draft_remove(draft, list[i].id);
    return TN_OK;
}

static tn_status rewrite_apply(tn__draft *draft, const tn__rewrite *rewrite) {
    rewrite_place *list;
    uint32_t count;
    if (rewrite->all != NULL) TN_TRY(rewrite->all(draft));
    if (rewrite->each == NULL) return draft->keep_ops ? TN_OK : rewrite_sweep(draft);
    TN_TRY(rewrite_order(draft, 0, &list, &count));
    for (uint32_t i = 0; i < count; i++)
        if (!draft->ops[list[i].id].gone) TN_TRY(rewrite->each(draft, list[i].id));
    return draft->keep_ops ? TN_OK : rewrite_sweep(draft);
}

/* --- making a graph of a draft --- */

typedef struct rewrite_map {
    /* [tensors of the draft] tensor in the new graph; TN_NONE: the tensor is left out */
    tn_tensor_id *tensors;
    bool *named;
} rewrite_map;

static void rewrite_name(const rewrite_map *map, const tn_tensor_id *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] != TN_NONE) map->named[ids[i]] = true;
}

static void rewrite_name_all(const tn__draft *draft, const rewrite_map *map) {
    for (tn_tensor_id id = 0; draft->keep_ids && id < draft->tensor_count; id++)
        map->named[id] = true;
    for (tn_op_id id = 0; id < draft->op_count; id++) {
        const tn_op *op = &draft->ops[id].op;
        if (draft->ops[id].gone) continue;
        rewrite_name(map, op->inputs, op->input_count);
        rewrite_name(map, op->outputs, op->output_count);
        for (uint32_t i = 0; i < op->attr_count; i++)
            if (op->attrs[i].type == TN_ATTR_TENSOR) map->named[op->attrs[i].tensor] = true;
    }
    for (tn_block_id b = 0; b < tn_graph_block_count(draft->graph); b++) {
        const tn_block *block = tn_graph_block(draft->graph, b);
        rewrite_name(map, block->inputs, block->input_count);
        rewrite_name(map, block->outputs, block->output_count);
    }
}

/* Takes type, shape and values as the builder or the file gave them, not as inference found them,
 * because inference will run again and infers the carried values of loops anew. */
static void rewrite_as_given(const tn_graph *graph, tn_tensor_id id, tn_tensor_spec *spec) {
    const tn__origin *given = &graph->origins[id];
    spec->dtype = given->dtype;
    spec->rank = given->rank;
    spec->shape = given->shape;
    spec->flags |= given->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE);
    spec->value = given->value != NULL ? *given->value : (tn_value){0};
}

static tn_status rewrite_add_tensor(tn__draft *draft, tn_graph *graph, tn_tensor_id from,
                                    tn_tensor_id *id) {
    const tn_tensor *tensor = &draft->tensors[from].tensor;
    /* a folded tensor is added as an ordinary result, because inference decides again about
     * folding: if the new graph trains the operands, the result is not folded */
    bool folded = tensor->producer != TN_NONE && tensor->kind == TN_KIND_CONSTANT;
    tn_tensor_spec spec = {.name = tensor->name,
                           .dtype = tensor->dtype,
                           .kind = folded ? TN_KIND_ACTIVATION : tensor->kind,
                           .format = tensor->format,
                           .flags = tensor->flags & (TN_TENSOR_IS_OUTPUT | TN_TENSOR_UPDATED |
                                                     TN_TENSOR_IN_FILE | TN_TENSOR_ROW_CACHE),
                           .rank = tensor->rank,
                           .shape = tensor->shape,
                           .block = tensor->block,
                           .payload = tensor->payload};
    if (tensor->value != NULL && tensor->producer == TN_NONE) spec.value = *tensor->value;
    if (from < tn_graph_tensor_count(draft->graph)) rewrite_as_given(draft->graph, from, &spec);
    return tn_graph_add_tensor(graph, &spec, id, draft->error);
}

/* Adds a tensor that must keep its id although nothing computes it any more. It has no bytes. */
static tn_status rewrite_add_lost(tn__draft *draft, tn_graph *graph, tn_tensor_id from,
                                  tn_tensor_id *id) {
    static const int64_t nothing[] = {0};
    tn_tensor_spec spec = {.name = draft->tensors[from].tensor.name,
                           .dtype = TN_UINT8,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = nothing};
    return tn_graph_add_tensor(graph, &spec, id, draft->error);
}

static tn_status rewrite_add_tensors(tn__draft *draft, tn_graph *graph, rewrite_map *map) {
    for (tn_tensor_id id = 0; id < draft->tensor_count; id++) {
        map->tensors[id] = TN_NONE;
        if (!map->named[id]) continue;
        tn_op_id producer = draft->tensors[id].producer;
        bool made = id < tn_graph_tensor_count(draft->graph) &&
                    tn_graph_tensor(draft->graph, id)->producer != TN_NONE;
        bool lost = made && (producer == TN_NONE || draft->ops[producer].gone);
        TN_TRY((lost ? rewrite_add_lost : rewrite_add_tensor)(draft, graph, id, &map->tensors[id]));
    }
    return TN_OK;
}

static tn_tensor_id *rewrite_ids(tn__draft *draft, const rewrite_map *map, const tn_tensor_id *ids,
                                 uint32_t count) {
    tn_tensor_id *mapped = tn__arena_array(&draft->arena, (size_t)count + 1, sizeof *mapped);
    for (uint32_t i = 0; mapped != NULL && i < count; i++)
        mapped[i] = ids[i] == TN_NONE ? TN_NONE : map->tensors[ids[i]];
    return mapped;
}

static tn_status rewrite_add_op(tn__draft *draft, tn_graph *graph, const rewrite_map *map,
                                tn_op_id id) {
    const tn_op *op = &draft->ops[id].op;
    tn_attr *attrs = tn__arena_array(&draft->arena, (size_t)op->attr_count + 1, sizeof *attrs);
    tn_op_spec spec = {.name = op->name,
                       .type = op->type,
                       .domain = op->domain,
                       .version = op->version,
                       .block = op->block,
                       .inputs = rewrite_ids(draft, map, op->inputs, op->input_count),
                       .outputs = rewrite_ids(draft, map, op->outputs, op->output_count),
                       .attrs = attrs,
                       .input_count = op->input_count,
                       .output_count = op->output_count,
                       .attr_count = op->attr_count};
    if (attrs == NULL || spec.inputs == NULL || spec.outputs == NULL)
        return rewrite_no_memory(draft);
    for (uint32_t i = 0; i < op->attr_count; i++) {
        attrs[i] = op->attrs[i];
        if (attrs[i].type == TN_ATTR_TENSOR) attrs[i].tensor = map->tensors[attrs[i].tensor];
    }
    return tn_graph_add_op(graph, &spec, &draft->ops[id].made, draft->error);
}

/* Adds the blocks, which keep their ids. */
static tn_status rewrite_add_blocks(tn__draft *draft, tn_graph *graph) {
    for (tn_block_id b = 1; b < tn_graph_block_count(draft->graph); b++) {
        tn_block_id id;
        TN_TRY(tn_graph_add_block(graph, tn_graph_block(draft->graph, b)->name, &id, draft->error));
    }
    return TN_OK;
}

static tn_status rewrite_fill_blocks(tn__draft *draft, tn_graph *graph, const rewrite_map *map) {
    for (tn_block_id b = 0; b < tn_graph_block_count(draft->graph); b++) {
        const tn_block *block = tn_graph_block(draft->graph, b);
        rewrite_place *list;
        uint32_t count;
        TN_TRY(rewrite_order(draft, b, &list, &count));
        for (uint32_t i = 0; i < count; i++) TN_TRY(rewrite_add_op(draft, graph, map, list[i].id));
        tn_tensor_id *inputs = rewrite_ids(draft, map, block->inputs, block->input_count);
        tn_tensor_id *outputs = rewrite_ids(draft, map, block->outputs, block->output_count);
        if (inputs == NULL || outputs == NULL) return rewrite_no_memory(draft);
        TN_TRY(tn_graph_set_block_io(graph, b, inputs, block->input_count, outputs,
                                     block->output_count, draft->error));
    }
    return TN_OK;
}

static tn_status rewrite_emit(tn__draft *draft, tn_graph *graph) {
    rewrite_map map = {.tensors = tn__arena_array(&draft->arena, (size_t)draft->tensor_count + 1,
                                                  sizeof *map.tensors),
                       .named = tn__arena_array(&draft->arena, (size_t)draft->tensor_count + 1,
                                                sizeof *map.named)};
    if (map.tensors == NULL || map.named == NULL) return rewrite_no_memory(draft);
    rewrite_name_all(draft, &map);
    TN_TRY(rewrite_add_blocks(draft, graph));
    TN_TRY(rewrite_add_tensors(draft, graph, &map));
    TN_TRY(rewrite_fill_blocks(draft, graph, &map));
    return tn_graph_infer(graph, draft->error);
}

tn_status tn__draft_graph(tn__draft *draft, tn_graph **graph) {
    tn_graph *made;
    TN_TRY(tn_graph_create(&draft->context, &made, draft->error));
    tn_status status = rewrite_emit(draft, made);
    if (status == TN_OK)
        *graph = made;
    else
        tn_graph_destroy(made);
    return status;
}

/* --- tn_graph_rewrite: which rewrites run --- */

uint32_t tn_rewrite_count(void) { return sizeof rewrites / sizeof *rewrites; }
const char *tn_rewrite_name(uint32_t index) { return rewrites[index]->name; }
const char *tn_rewrite_summary(uint32_t index) { return rewrites[index]->summary; }

/* Converts the names in `without` to a set with one bit per rewrite. */
static tn_status rewrite_read_names(const char *without, uint64_t *named, tn_error *error) {
    *named = 0;
    while (without != NULL && *without != '\0') {
        size_t length = strcspn(without, ",");
        uint32_t at = 0;
        while (at < tn_rewrite_count() && (strlen(rewrites[at]->name) != length ||
                                           strncmp(rewrites[at]->name, without, length) != 0))
            at++;
        if (at == tn_rewrite_count())
            TN_FAIL(error, TN_E_UNKNOWN, "no rewrite '%.*s'; `tn_rewrite_name` lists them",
                    (int)(length < 40 ? length : 40), without);
        *named |= UINT64_C(1) << at;
        without += length + (without[length] == ',');
    }
    return TN_OK;
}

static bool rewrite_is_asked(const tn__rewrite *rewrite, const tn_rewrite_options *asked) {
    if (rewrite->pruning) return asked->pruning != NULL && asked->pruning->count > 0;
    if (rewrite->weights) return asked->weights_dtype == TN_INT8;
    if (rewrite->formats ? asked->no_formats : asked->no_fuse) return false;
    return asked->use == TN_REWRITE_TO_TRAIN  ? rewrite->before_training
           : asked->use == TN_REWRITE_TRAINED ? rewrite->in_training
                                              : true;
}

tn_status tn_graph_rewrite(const tn_graph *graph, const tn_rewrite_options *options,
                           tn_graph **rewritten, tn_error *error) {
    tn_rewrite_options asked = TN_REWRITE_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn__draft draft = {.graph = graph,
                       .context = tn__context(asked.context),
                       .pruning = asked.pruning,
                       .keep_ids = asked.no_fuse || asked.use == TN_REWRITE_TRAINED,
                       .keep_ops = asked.no_fuse,
                       .error = error};
    uint64_t left_out;
    if ((unsigned)asked.use > TN_REWRITE_TRAINED)
        TN_FAIL(error, TN_E_UNKNOWN, "there is no such use of a graph");
    if (asked.weights_dtype != TN_UNDEFINED &&
        (asked.weights_dtype != TN_INT8 || asked.use != TN_REWRITE_TO_RUN))
        TN_FAIL(error, TN_E_UNSUPPORTED, "weights can be int8, in inference, and nothing else");
    if (asked.pruning != NULL && asked.use != TN_REWRITE_TO_RUN)
        TN_FAIL(error, TN_E_UNSUPPORTED, "weights are pruned in inference alone");
    TN_TRY(rewrite_read_names(asked.without, &left_out, error));
    tn__arena_init(&draft.arena, &draft.context);
    tn_status status = tn__draft_begin(&draft);
    for (uint32_t i = 0; status == TN_OK && i < tn_rewrite_count(); i++)
        if (rewrite_is_asked(rewrites[i], &asked) && !(left_out >> i & 1))
            status = rewrite_apply(&draft, rewrites[i]);
    if (status == TN_OK) status = tn__draft_graph(&draft, rewritten);
    tn__draft_end(&draft);
    return status;
}
