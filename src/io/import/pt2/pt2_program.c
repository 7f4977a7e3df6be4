/* pt2_program.c - the values of a program: types and sizes, the node that makes and the last node
 * that reads each, and which values share one storage.
 *
 * Two values share a storage if an operator is a view, or changes its operand in place. The
 * operators that are views by definition are those of graph/ops/domains/aten.c. Others are views
 * only for some operands: for example reshape, if the strides of its operand allow it, and
 * contiguous, if nothing must be copied. The program states the strides of every value, so such
 * cases are decided as PyTorch decides them.
 * Cost: O(values + operands).
 */
#include "io/import/pt2/pt2_reader.h"

#include "graph/op.h"

#include <stdio.h>

/* --- values ----------------------------------------------------------------------------------- */

/* Element types by the number of torch's ScalarType in programs of schema 8. */
static const struct {
    int number;
    tn_dtype dtype;
} program_types[] = {
    {1, TN_UINT8},          {2, TN_INT8},          {3, TN_INT16},       {4, TN_INT32},
    {5, TN_INT64},          {6, TN_FLOAT16},       {7, TN_FLOAT32},     {8, TN_FLOAT64},
    {9, TN_UINT32}, /* a complex number of two 16-bit halves has the size of a uint32 */
    {10, TN_COMPLEX64},     {11, TN_COMPLEX128},   {12, TN_BOOL},       {13, TN_BFLOAT16},
    {28, TN_UINT16},        {29, TN_FLOAT8E4M3FN}, {30, TN_FLOAT8E5M2}, {31, TN_FLOAT8E4M3FNUZ},
    {32, TN_FLOAT8E5M2FNUZ}};
#define PROGRAM_STRIDED 7

static tn_status program_type(const pt2_reader *reader, json_t *meta, tn_dtype *dtype) {
    json_t *number = json_object_get(meta, "dtype"), *layout = json_object_get(meta, "layout");
    if (json_is_integer(layout) && json_integer_value(layout) != PROGRAM_STRIDED)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED, "layout %lld; only strided tensors are read",
                (long long)json_integer_value(layout));
    for (size_t i = 0; i < sizeof program_types / sizeof *program_types; i++) {
        if (!json_is_integer(number) || program_types[i].number != json_integer_value(number))
            continue;
        *dtype = program_types[i].dtype;
        return TN_OK;
    }
    TN_FAIL(reader->error, TN_E_UNSUPPORTED, "element type %lld is not known",
            (long long)json_integer_value(number));
}

static tn_status program_extents(pt2_reader *reader, json_t *list, uint32_t rank, bool sizes,
                                 const int64_t **made) {
    int64_t *extents = tn__arena_array(&reader->arena, rank + 1u, sizeof *extents);
    if (extents == NULL) return tn__no_memory(reader->error, "the values");
    for (uint32_t d = 0; d < rank; d++) {
        TN_TRY(tn__pt2_size(reader, json_array_get(list, d), &extents[d]));
        if (extents[d] != TN_DIM_UNKNOWN && extents[d] < 0)
            TN_FAIL(reader->error, TN_E_INVALID, "%s %lld of dimension %u",
                    sizes ? "size" : "stride", (long long)extents[d], d);
    }
    *made = extents;
    return TN_OK;
}

/* Sets the strides of a dense tensor in row-major order. */
static tn_status program_dense(pt2_reader *reader, pt2_value *value) {
    int64_t *strides = tn__arena_array(&reader->arena, value->rank + 1u, sizeof *strides), step = 1;
    if (strides == NULL) return tn__no_memory(reader->error, "the values");
    for (uint32_t d = value->rank; d-- > 0;) {
        strides[d] = step;
        if (value->shape[d] == TN_DIM_UNKNOWN ||
            __builtin_mul_overflow(step, value->shape[d], &step))
            step = INT64_MAX;
    }
    value->strides = strides;
    return TN_OK;
}

tn_status tn__pt2_meta(pt2_reader *reader, json_t *meta, pt2_value *value) {
    json_t *sizes = json_object_get(meta, "sizes"), *strides = json_object_get(meta, "strides");
    json_t *device = json_object_get(json_object_get(meta, "device"), "type");
    if (!json_is_array(sizes) || json_array_size(sizes) > TN_RANK_MAX)
        TN_FAIL(reader->error, TN_E_INVALID, "no sizes, or more than %u dimensions", TN_RANK_MAX);
    value->rank = (uint32_t)json_array_size(sizes);
    value->device = json_is_string(device) ? json_string_value(device) : "";
    TN_TRY(program_type(reader, meta, &value->dtype));
    TN_TRY(program_extents(reader, sizes, value->rank, true, &value->shape));
    bool given = json_is_array(strides) && json_array_size(strides) == value->rank;
    if (!given) return program_dense(reader, value);
    return program_extents(reader, strides, value->rank, false, &value->strides);
}

tn_status tn__pt2_values(pt2_reader *reader) {
    json_t *tensors = json_object_get(reader->graph, "tensor_values"), *meta;
    const char *name;
    if (!json_is_object(tensors) || json_object_size(tensors) > UINT32_MAX / 2)
        TN_FAIL(reader->error, TN_E_INVALID, "it does not list its tensors");
    if (!tn__reserve(reader->importer->context, &reader->values, &reader->value_room,
                     json_object_size(tensors) + 1, sizeof *reader->values))
        return tn__no_memory(reader->error, "the values");
    json_object_foreach(tensors, name, meta) {
        uint32_t number = reader->value_count;
        pt2_value *value = &reader->values[number];
        *value = (pt2_value){.name = name,
                             .shown = name,
                             .kind = TN_KIND_ACTIVATION,
                             .root = number,
                             .same = number,
                             .peer = PT2_NONE,
                             .transposed = PT2_NONE,
                             .id = TN_NONE};
        tn_status status = tn__pt2_meta(reader, meta, value);
        if (status != TN_OK) return tn__where(reader->error, status, "tensor '%.100s'", name);
        if (!tn__names_add(&reader->names, name, strlen(name), number, NULL))
            return tn__no_memory(reader->error, "the values");
        reader->value_count++;
    }
    return TN_OK;
}

uint32_t tn__pt2_find(const pt2_reader *reader, const char *name) {
    return name == NULL ? PT2_NONE : tn__names_find(&reader->names, name, strlen(name));
}

/* --- operands and results of the current node ------------------------------------------------- */

tn_status tn__pt2_where(const pt2_reader *reader, tn_status status) {
    return tn__where(reader->error, status, "node %u '%.60s' (%.60s)", reader->number - 1,
                     reader->name, reader->target);
}

static tn_status program_push(pt2_reader *reader, json_t *tensor, bool makes) {
    const char *name = json_string_value(json_object_get(tensor, "name"));
    uint32_t value = tn__pt2_find(reader, name);
    if (value == PT2_NONE)
        TN_FAIL(reader->error, TN_E_INVALID, "'%.80s' is not in the list of tensors",
                name != NULL ? name : "");
    uint32_t **list = makes ? &reader->makes : &reader->reads;
    size_t *room = makes ? &reader->make_room : &reader->read_room;
    uint32_t *count = makes ? &reader->make_count : &reader->read_count;
    if (!tn__reserve(reader->importer->context, list, room, (size_t)*count + 1, sizeof **list))
        return tn__no_memory(reader->error, "the operands of a node");
    (*list)[(*count)++] = value;
    return TN_OK;
}

static tn_status program_push_list(pt2_reader *reader, json_t *list, bool makes) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i);
        json_t *optional = json_object_get(item, "as_tensor");
        if (json_is_array(item)) {
            for (size_t k = 0; k < json_array_size(item); k++)
                TN_TRY(program_push(reader, json_array_get(item, k), makes));
        } else if (optional != NULL || json_object_get(item, "name") != NULL) {
            TN_TRY(program_push(reader, optional != NULL ? optional : item, makes));
        }
    }
    return TN_OK;
}

/* Records the tensors of one argument of a node as results of the node if `makes` is true,
 * otherwise as its operands. */
static tn_status program_argument(pt2_reader *reader, json_t *argument, bool makes) {
    json_t *of;
    if (json_object_get(argument, "as_graph") != NULL)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED,
                "it runs a graph of its own, which is not read; export the model without control "
                "flow and without torch.no_grad inside");
    if ((of = json_object_get(argument, "as_tensor")) != NULL)
        return program_push(reader, of, makes);
    if ((of = json_object_get(argument, "as_optional_tensor")) != NULL) {
        json_t *tensor = json_object_get(of, "as_tensor");
        return tensor != NULL ? program_push(reader, tensor, makes) : TN_OK;
    }
    if ((of = json_object_get(argument, "as_tensors")) != NULL ||
        (of = json_object_get(argument, "as_optional_tensors")) != NULL ||
        (of = json_object_get(argument, "as_nested_tensors")) != NULL)
        return program_push_list(reader, of, makes);
    return TN_OK;
}

/* Splits the node's target: "torch.ops.aten.add.Tensor" has domain "aten", type "add.Tensor" and
 * base "add". */
static void program_names(pt2_reader *reader) {
    const char *target = reader->target;
    bool ops = strncmp(target, "torch.ops.", 10) == 0;
    const char *rest = ops ? target + 10 : target, *dot = strchr(rest, '.');
    size_t length = ops && dot != NULL ? (size_t)(dot - rest) : 0;
    if (length >= sizeof reader->domain) length = 0;
    snprintf(reader->domain, sizeof reader->domain, "%.*s", length > 0 ? (int)length : 5,
             length > 0 ? rest : "torch");
    reader->type = length > 0 ? rest + length + 1 : rest;
    snprintf(reader->base, sizeof reader->base, "%.*s",
             (int)(strcspn(reader->type, ".") < sizeof reader->base - 1 ? strcspn(reader->type, ".")
                                                                        : sizeof reader->base - 1),
             reader->type);
}

tn_status tn__pt2_enter(pt2_reader *reader, uint32_t index) {
    json_t *node = json_array_get(json_object_get(reader->graph, "nodes"), index);
    json_t *inputs = json_object_get(node, "inputs"), *outputs = json_object_get(node, "outputs");
    const char *target = json_string_value(json_object_get(node, "target"));
    reader->node = node;
    reader->number = index + 1;
    reader->temporaries = 0;
    reader->read_count = reader->make_count = 0;
    reader->name = reader->target = "";
    if (target == NULL) TN_FAIL(reader->error, TN_E_INVALID, "node %u has no target", index);
    reader->target = target;
    program_names(reader);
    for (size_t i = 0; i < json_array_size(inputs); i++)
        TN_TRY(program_argument(reader, json_object_get(json_array_get(inputs, i), "arg"), false));
    for (size_t i = 0; i < json_array_size(outputs); i++)
        TN_TRY(program_argument(reader, json_array_get(outputs, i), true));
    const char *name = json_string_value(json_object_get(node, "name"));
    reader->name = name != NULL             ? name
                   : reader->make_count > 0 ? reader->values[reader->makes[0]].name
                                            : reader->base;
    return TN_OK;
}

/* --- storages --------------------------------------------------------------------------------- */

/* Whether `to` can be a view of `from` with exactly the strides that the program states for `to`.
 * As in PyTorch, dimensions of `from` that are contiguous with each other form a run, and the
 * extents of `to` must divide the runs. */
static bool program_viewable(const pt2_value *from, const pt2_value *to) {
    int64_t run = 1, seen = 1, next, base = from->rank > 0 ? from->strides[from->rank - 1] : 1;
    uint32_t t = to->rank;
    for (uint32_t d = 0; d < from->rank; d++)
        if (from->shape[d] == 0) return true;
    for (uint32_t d = from->rank > 0 ? from->rank : 1; d-- > 0;) {
        int64_t extent = from->rank > 0 ? from->shape[d] : 1;
        if (__builtin_mul_overflow(run, extent, &run) || __builtin_mul_overflow(run, base, &next))
            return false;
        if (d > 0 && (from->shape[d - 1] == 1 || from->strides[d - 1] == next)) continue;
        while (t > 0 && (seen < run || to->shape[t - 1] == 1)) {
            t--;
            bool fits = to->shape[t] == 1 ||
                        (!__builtin_mul_overflow(seen, base, &next) && to->strides[t] == next);
            if (!fits || __builtin_mul_overflow(seen, to->shape[t], &seen)) return false;
        }
        if (seen != run) return false;
        if (d > 0) base = from->strides[d - 1];
        run = seen = 1;
    }
    return t == 0;
}

/* Operators that return their operand, or a view of it, if they have nothing to compute. Otherwise
 * their result has a storage of its own. */
static const char *const program_maybe[] = {"_autocast_to_full_precision",
                                            "_autocast_to_reduced_precision",
                                            "_grad_sum_to_size",
                                            "_sparse_broadcast_to",
                                            "atleast_1d",
                                            "atleast_2d",
                                            "atleast_3d",
                                            "coalesce",
                                            "contiguous",
                                            "cpu",
                                            "cuda",
                                            "flatten",
                                            "pin_memory",
                                            "ravel",
                                            "reshape",
                                            "reshape_as",
                                            "resolve_conj",
                                            "resolve_neg",
                                            "sum_to_size",
                                            "to",
                                            "type_as"};
/* Operators that always return views, although PyTorch's schemas do not say so. */
static const char *const program_always[] = {"unsafe_chunk", "unsafe_split",
                                             "unsafe_split_with_sizes"};
static const char *const program_drops[] = {"alpha_dropout", "dropout", "feature_alpha_dropout",
                                            "feature_dropout"};
#define PROGRAM_HAS(list, name) program_has(list, sizeof(list) / sizeof *(list), name)

static bool program_has(const char *const *list, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0) return true;
    return false;
}

pt2_alias tn__pt2_alias(const pt2_reader *reader, uint32_t output) {
    if (strcmp(reader->domain, "aten") != 0 || reader->read_count == 0) return PT2_NEW;
    const tn_op_rule *rule = tn__op_rule("aten", reader->type);
    if (rule != NULL && (rule->flags & TN_RULE_CHANGES)) return output == 0 ? PT2_CHANGES : PT2_NEW;
    if (output >= reader->make_count) return PT2_NEW;
    if (rule != NULL && rule->view != NULL) return PT2_VIEW;
    const pt2_value *from = &reader->values[reader->reads[0]];
    const pt2_value *to = &reader->values[reader->makes[output]];
    if (PROGRAM_HAS(program_always, reader->base)) return PT2_SHARES;
    if (PROGRAM_HAS(program_maybe, reader->base))
        return from->dtype == to->dtype && strcmp(from->device, to->device) == 0 &&
                       program_viewable(from, to)
                   ? PT2_SHARES
                   : PT2_NEW;
    if (PROGRAM_HAS(program_drops, reader->base)) {
        const char *kind = NULL;
        json_t *train = tn__pt2_argument(reader, "train", &kind);
        return json_is_false(train) ? PT2_SHARES : PT2_NEW;
    }
    return PT2_NEW;
}

/* --- uses ------------------------------------------------------------------------------------- */

static void program_read(pt2_reader *reader, uint32_t value, uint32_t when) {
    pt2_value *root = &reader->values[reader->values[value].same];
    if (reader->values[value].last < when) reader->values[value].last = when;
    if (root->last < when) root->last = when;
}

/* Defines a result of the current node: it gets its own storage, or shares that of the first
 * operand. */
static tn_status program_define(pt2_reader *reader, uint32_t output) {
    uint32_t number = reader->makes[output];
    pt2_value *value = &reader->values[number];
    if (value->known)
        TN_FAIL(reader->error, TN_E_INVALID, "'%.80s' is %s already", value->name,
                value->given ? "an input" : "made by another node");
    value->known = true;
    value->made = reader->number;
    pt2_alias alias = tn__pt2_alias(reader, output);
    if (alias == PT2_NEW) return TN_OK;
    const pt2_value *from = &reader->values[reader->reads[0]];
    pt2_value *root = &reader->values[from->root];
    value->root = from->root;
    if (alias != PT2_CHANGES) {
        value->peer = root->peer;
        root->peer = number;
        return TN_OK;
    }
    value->same = from->same;
    root->changed = true;
    if (!tn__reserve(reader->importer->context, &reader->changes, &reader->change_room,
                     reader->change_count + 1, sizeof *reader->changes))
        return tn__no_memory(reader->error, "the values");
    reader->changes[reader->change_count++] = (pt2_change){reader->number, value->same};
    return TN_OK;
}

static tn_status program_node(pt2_reader *reader) {
    for (uint32_t i = 0; i < reader->read_count; i++) {
        if (!reader->values[reader->reads[i]].known)
            TN_FAIL(reader->error, TN_E_INVALID, "it reads '%.80s', which no node before it makes",
                    reader->values[reader->reads[i]].name);
        program_read(reader, reader->reads[i], reader->number);
    }
    for (uint32_t k = 0; k < reader->make_count; k++) TN_TRY(program_define(reader, k));
    return TN_OK;
}

static tn_status program_results(pt2_reader *reader) {
    json_t *outputs = json_object_get(reader->graph, "outputs");
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        json_t *tensor = json_object_get(json_array_get(outputs, i), "as_tensor");
        if (tensor == NULL) continue;
        const char *name = json_string_value(json_object_get(tensor, "name"));
        uint32_t value = tn__pt2_find(reader, name);
        if (value == PT2_NONE || !reader->values[value].known)
            TN_FAIL(reader->error, TN_E_INVALID, "output '%.80s' is made by no node",
                    name != NULL ? name : "");
        reader->values[value].output = true;
        program_read(reader, value, PT2_LAST);
    }
    return TN_OK;
}

/* Returns whether every in-place operator can become an ordinary one: no later node may read the
 * old data or a view of it. The search is bounded; beyond the bound the answer is false. */
bool tn__pt2_functional(const pt2_reader *reader) {
    uint64_t left = 64 * ((uint64_t)reader->value_count + 1024);
    for (size_t i = 0; i < reader->change_count; i++) {
        const pt2_change *change = &reader->changes[i];
        uint32_t root = reader->values[change->value].root;
        if (reader->values[root].given && root != change->value) return false;
        for (uint32_t at = root; at != PT2_NONE; at = reader->values[at].peer) {
            const pt2_value *peer = &reader->values[at];
            bool later = peer->made < change->node && peer->last > change->node;
            if (left-- == 0 || (at != change->value && later)) return false;
        }
    }
    return true;
}

tn_status tn__pt2_uses(pt2_reader *reader) {
    json_t *nodes = json_object_get(reader->graph, "nodes");
    if (!json_is_array(nodes) || json_array_size(nodes) > UINT32_MAX / 2)
        TN_FAIL(reader->error, TN_E_INVALID, "it has no list of nodes");
    for (uint32_t i = 0; i < json_array_size(nodes); i++) {
        tn_status status = tn__pt2_enter(reader, i);
        if (status == TN_OK) status = program_node(reader);
        if (status != TN_OK) return tn__pt2_where(reader, status);
    }
    return program_results(reader);
}
