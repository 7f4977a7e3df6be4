/* onnx_function.c - inlines model-local functions where they are called.
 *
 * A call gets a scope of its own that sees no outer names: the formal inputs are the caller's
 * tensors, the formal outputs are the tensors that the call defines, and attribute references look
 * into the calling node. The body's nodes become operators of the caller's block.
 *
 * Nested calls can multiply: 20 functions that each call the next one twice are a million nodes
 * from a kilobyte. So every call is charged with the bytes that are read again for it, against an
 * allowance of ONNX_EXPANSION_MIN plus ONNX_EXPANSION_FACTOR times the file. Real exports read
 * their functions a few dozen times, and memory stays within a constant times file + allowance.
 */
#include "io/import/onnx/onnx_reader.h"

#define ONNX_CALL_COST 64u   /* cost of a call with an empty body: that of its scope */
#define ONNX_PREFIX_MAX 256u /* limit of a prefix; a longer one is not extended */

/* Takes bytes from the allowance for reading functions repeatedly. */
static tn_status onnx_charge(onnx_reader *reader, uint64_t bytes) {
    if (bytes > reader->expansion)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "calls of functions expand this model to more than %u times its size",
                ONNX_EXPANSION_FACTOR);
    reader->expansion -= bytes;
    return TN_OK;
}

/* --- the table of the model's functions, and their calls --- */

/* Writes the key of a function to scratch slot 0: domain, name and overload with a NUL between
 * them. */
static tn__text *onnx_function_key(onnx_reader *reader, tn__span domain, tn__span name,
                                   tn__span overload) {
    tn__text *key = &reader->text[0];
    key->size = 0;
    tn__span parts[] = {domain, name, overload};
    for (uint32_t i = 0; i < 3; i++) {
        if (parts[i].size) tn__text_add(key, (const char *)parts[i].bytes, parts[i].size);
        tn__text_add(key, "", 1);
    }
    return key->failed ? NULL : key;
}

/* Reads a function's own operator sets: it may have been written for other versions than the
 * model. */
static tn_status onnx_function_opset(onnx_reader *reader, tn__span message,
                                     onnx_function *function) {
    if (function->opset_count == ONNX_OPSETS_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "a function imports more than %u operator sets", ONNX_OPSETS_MAX);
    if (!tn__reserve(reader->importer->context, &reader->opsets, &reader->opset_room,
                     reader->opset_count + 1, sizeof *reader->opsets))
        return tn__onnx_no_memory(reader);
    TN_TRY(tn__onnx_opset(reader, message, &reader->opsets[reader->opset_count]));
    reader->opset_count++;
    function->opset_count++;
    return TN_OK;
}

tn_status tn__onnx_function_add(onnx_reader *reader, tn__span message) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_function_schema);
    tn__field field;
    onnx_function function = {.message = message, .opset_first = reader->opset_count};
    TN_TRY(tn__onnx_check_size(reader, message));
    while (tn__wire_next(&wire, &field)) {
        switch (field.number) {
        case ONNX_FUNCTION_NAME:
            function.name = field.span;
            break;
        case ONNX_FUNCTION_DOMAIN:
            function.domain = tn__onnx_domain(field.span);
            break;
        case ONNX_FUNCTION_OVERLOAD:
            function.overload = field.span;
            break;
        case ONNX_FUNCTION_INPUT:
            function.input_count++;
            break;
        case ONNX_FUNCTION_OUTPUT:
            function.output_count++;
            break;
        case ONNX_FUNCTION_OPSET:
            TN_TRY(onnx_function_opset(reader, field.span, &function));
            break;
        default:
            break;
        }
    }
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    tn__text *key = onnx_function_key(reader, function.domain, function.name, function.overload);
    char *kept = key ? tn__arena_string(&reader->arena, key->data, key->size) : NULL;
    uint32_t existing;
    if (!kept ||
        !tn__reserve(reader->importer->context, &reader->functions, &reader->function_room,
                     reader->function_count + 1, sizeof *reader->functions) ||
        !tn__names_add(&reader->function_names, kept, key->size, (uint32_t)reader->function_count,
                       &existing))
        return tn__onnx_no_memory(reader);
    if (existing != TN__NAMES_NONE) {
        tn_status status = tn__fail(reader->importer->error, TN_E_INVALID,
                                    "two functions have this domain, name and overload");
        return tn__onnx_where(reader, status, "function", function.name);
    }
    reader->functions[reader->function_count++] = function;
    return TN_OK;
}

const onnx_function *tn__onnx_function_find(onnx_reader *reader, const onnx_node *node) {
    if (!reader->function_count) return NULL;
    tn__text *key = onnx_function_key(reader, node->domain, node->type, node->overload);
    uint32_t at = key ? tn__names_find(&reader->function_names, key->data, key->size)
                      /* out of memory: the function counts as not found; the next allocation
                       * reports the error */
                      : TN__NAMES_NONE;
    return at == TN__NAMES_NONE ? NULL : &reader->functions[at];
}

/* --- calls --- */

/* Finds the operands of a call, as many as the function has formal ones. */
static tn_status onnx_call_operands(onnx_reader *reader, const onnx_scope *caller,
                                    const onnx_node *node, onnx_call *call) {
    const onnx_function *function = call->function;
    if (node->input_count > function->input_count || node->output_count > function->output_count)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "it calls a function of %u inputs and %u outputs with %u and %u",
                function->input_count, function->output_count, node->input_count,
                node->output_count);
    size_t all = (size_t)function->input_count + function->output_count;
    tn_tensor_id *ids = tn__arena_array(&reader->arena, all, sizeof *ids);
    if (!ids) return tn__onnx_no_memory(reader);
    TN_TRY(tn__onnx_operands(reader, caller, node));
    for (size_t i = 0; i < all; i++) ids[i] = TN_NONE;
    if (node->input_count) memcpy(ids, reader->ids, node->input_count * sizeof *ids);
    if (node->output_count)
        memcpy(ids + function->input_count, reader->ids + node->input_count,
               node->output_count * sizeof *ids);
    call->inputs = ids;
    call->outputs = ids + function->input_count;
    return TN_OK;
}

/* Gives the formal inputs and outputs their names in the body's scope. */
static tn_status onnx_call_bind(onnx_reader *reader, onnx_scope *body) {
    const onnx_call *call = body->call;
    tn__wire wire = tn__onnx_open(reader, body->body, &tn__onnx_function_schema);
    tn__field field;
    uint32_t input = 0, output = 0;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != ONNX_FUNCTION_INPUT && field.number != ONNX_FUNCTION_OUTPUT) continue;
        onnx_local *local;
        TN_TRY(tn__onnx_local(reader, body, field.span, &local));
        if (field.number == ONNX_FUNCTION_OUTPUT) {
            tn_tensor_id target = call->outputs[output++];
            if (local->target == TN_NONE) local->target = target;
            continue;
        }
        if (local->origin)
            TN_FAIL(reader->importer->error, TN_E_INVALID,
                    "two inputs of the function that it calls have one name");
        local->origin = ONNX_BY_INPUT;
        local->tensor = call->inputs[input++];
    }
    return tn__wire_close(&wire, reader->importer->error);
}

const char *tn__onnx_prefix(onnx_reader *reader, const onnx_scope *caller, const onnx_node *node) {
    tn__span name = node->name.size ? node->name : node->output.size ? node->output : node->type;
    if (strlen(caller->prefix) + name.size > ONNX_PREFIX_MAX) return caller->prefix;
    const char *text = tn__onnx_text(reader, 0, caller->prefix, name);
    if (!text) return NULL;
    tn__text_add(&reader->text[0], "/", 1);
    return reader->text[0].failed
               ? NULL
               : tn__arena_string(&reader->arena, reader->text[0].data, reader->text[0].size);
}

tn_status tn__onnx_call_open(onnx_reader *reader, onnx_scope *caller, const onnx_node *node,
                             const onnx_function *function, onnx_scope **body) {
    if (caller->depth == ONNX_DEPTH_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "subgraphs and functions nest more than %u deep", ONNX_DEPTH_MAX);
    TN_TRY(onnx_charge(reader, ONNX_CALL_COST + function->message.size + node->message.size));
    onnx_call *call = tn__arena_alloc(&reader->arena, sizeof *call);
    const char *prefix = tn__onnx_prefix(reader, caller, node);
    if (!call || !prefix) return tn__onnx_no_memory(reader);
    *call = (onnx_call){.function = function, .node = node->message, .caller = caller};
    TN_TRY(onnx_call_operands(reader, caller, node, call));
    caller->users++;
    onnx_scope from = {.call = call,
                       .holds = caller,
                       .body = function->message,
                       .is_function = true,
                       .block = caller->block,
                       .depth = caller->depth + 1,
                       .prefix = prefix};
    TN_TRY(tn__onnx_scope_create(reader, &from, body));
    TN_TRY(onnx_call_bind(reader, *body));
    TN_TRY(tn__onnx_index_stated(reader, *body));
    return tn__onnx_declare_nodes(reader, *body);
}

/* Connects a result of a call. A result that the body does not compute itself (an input passed
 * through, or one value for two outputs) is copied by an Identity, because the caller's tensor
 * needs a producer. */
static tn_status onnx_call_result(onnx_reader *reader, const onnx_scope *body, tn__span name,
                                  tn_tensor_id result) {
    const onnx_local *local = tn__onnx_resolve(body, name);
    if (!local || (local->tensor == TN_NONE && result != TN_NONE)) {
        tn_status status = tn__fail(
            reader->importer->error, TN_E_INVALID,
            "this output of function '%.*s' is computed by no node of it",
            (int)(body->call->function->name.size < 80 ? body->call->function->name.size : 80),
            (const char *)body->call->function->name.bytes);
        return tn__onnx_where(reader, status, "output", name);
    }
    if (result == TN_NONE || local->tensor == result) return TN_OK;
    tn_op_spec copy = {.type = "Identity",
                       .block = body->block,
                       .inputs = &local->tensor,
                       .input_count = 1,
                       .outputs = &result,
                       .output_count = 1};
    return tn_graph_add_op(reader->importer->graph, &copy, NULL, reader->importer->error);
}

tn_status tn__onnx_call_close(onnx_reader *reader, onnx_scope *body) {
    tn__wire wire = tn__onnx_open(reader, body->body, &tn__onnx_function_schema);
    tn__field field;
    uint32_t output = 0;
    while (tn__wire_next(&wire, &field))
        if (field.number == ONNX_FUNCTION_OUTPUT)
            TN_TRY(onnx_call_result(reader, body, field.span, body->call->outputs[output++]));
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    tn__onnx_scope_drop(reader, body);
    return TN_OK;
}

/* --- references from a function's body to attributes of its call --- */

/* Reads name and reference of an attribute, not its value. */
static tn_status onnx_attribute_head(onnx_reader *reader, tn__span message, tn__span *name,
                                     tn__span *reference) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_attribute_schema);
    tn__field field;
    *name = *reference = (tn__span){0};
    while (tn__wire_next(&wire, &field)) {
        if (field.number == ONNX_ATTR_NAME) *name = field.span;
        if (field.number == ONNX_ATTR_REF) *reference = field.span;
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* Finds the attribute with that name among the fields `number` of a message; size 0: not found. */
static tn_status onnx_attribute_find(onnx_reader *reader, tn__wire wire, uint32_t number,
                                     tn__span name, tn__span *found, tn__span *reference) {
    tn__field field;
    tn__span head;
    *found = (tn__span){0};
    while (tn__wire_next(&wire, &field)) {
        if (field.number != number) continue;
        TN_TRY(onnx_attribute_head(reader, field.span, &head, reference));
        if (!tn__span_equal(head, name)) continue;
        *found = field.span;
        return TN_OK;
    }
    return tn__wire_close(&wire, reader->importer->error);
}

tn_status tn__onnx_reference(onnx_reader *reader, onnx_scope *scope, tn__span name,
                             tn__span *attribute, onnx_scope **sees) {
    const onnx_call *call = scope->call;
    tn__span reference;
    /* search the calls from inside to outside, at most ONNX_DEPTH_MAX of them */
    for (; call; call = call->caller->call) {
        TN_TRY(onnx_charge(reader, call->node.size + call->function->message.size));
        *sees = call->caller;
        TN_TRY(onnx_attribute_find(reader, tn__onnx_open(reader, call->node, &tn__onnx_node_schema),
                                   ONNX_NODE_ATTRIBUTE, name, attribute, &reference));
        if (attribute->size && reference.size) {
            name = reference;
            continue;
        }
        if (attribute->size) return onnx_charge(reader, attribute->size);
        /* the attribute is a default value of the function, which cannot refer to names of the
         * caller */
        *sees = NULL;
        return onnx_attribute_find(
            reader, tn__onnx_open(reader, call->function->message, &tn__onnx_function_schema),
            ONNX_FUNCTION_DEFAULT, name, attribute, &reference);
    }
    TN_FAIL(reader->importer->error, TN_E_INVALID,
            "it refers to an attribute of a function, but stands in none");
}
