/* onnx_flex.c - FlexAttention of ai.onnx.preview with graphs in its attributes.
 *
 *     scores = FlexScores(Q, K) ── score_mod ── Softmax ── prob_mod ── FlexValues(.., V)
 *
 * The graphs compute on all scores and all probabilities, so they cannot stay inside an operator
 * that computes a few rows at a time. Their nodes become operators of the block around the node,
 * between operators that this file adds. Without graphs the operator stays as it is.
 * Source: the ONNX specification, ai.onnx.preview 1.
 */
#include "io/import/onnx/onnx_reader.h"

static bool flex_is(tn__span text, const char *word) {
    return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

bool tn__onnx_flex_joins(const onnx_node *node) {
    return flex_is(node->type, "FlexAttention") && flex_is(node->domain, "ai.onnx.preview");
}

tn_status tn__onnx_flex_tensor(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node,
                               const char *what, tn_tensor_id *id) {
    const char *prefix = tn__onnx_prefix(reader, scope, node);
    tn_tensor_spec spec = {.kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    if (prefix)
        spec.name =
            tn__onnx_text(reader, 0, prefix, (tn__span){(const uint8_t *)what, strlen(what)});
    if (!spec.name) return tn__onnx_no_memory(reader);
    spec.block = scope->block;
    return tn_graph_add_tensor(reader->importer->graph, &spec, id, reader->importer->error);
}

/* Returns the graph that an attribute holds; NULL: none. */
static const onnx_joined *flex_graph(const onnx_reader *reader, const char *attribute) {
    for (uint32_t i = 0; i < reader->joined_count; i++)
        if (strcmp(reader->joined[i].attribute, attribute) == 0) return &reader->joined[i];
    return NULL;
}

static tn_status flex_op(onnx_reader *reader, const tn_op_spec *node, const char *type,
                         tn_tensor_id a, tn_tensor_id b, tn_tensor_id to) {
    const tn_tensor_id inputs[2] = {a, b};
    tn_op_spec spec = {.name = node->name,
                       .type = type,
                       .domain = "tenure",
                       .version = 1,
                       .block = node->block,
                       .inputs = inputs,
                       .input_count = 2,
                       .outputs = &to,
                       .output_count = 1,
                       .attrs = node->attrs,
                       .attr_count = node->attr_count};
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->importer->error);
}

static tn_status flex_softmax(onnx_reader *reader, const tn_op_spec *node, tn_tensor_id from,
                              tn_tensor_id to) {
    static const int64_t last = -1;
    const tn_attr axis = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &last};
    tn_op_spec spec = {.name = node->name,
                       .type = "Softmax",
                       .version = 13,
                       .block = node->block,
                       .inputs = &from,
                       .input_count = 1,
                       .outputs = &to,
                       .output_count = 1,
                       .attrs = &axis,
                       .attr_count = 1};
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->importer->error);
}

tn_status tn__onnx_flex_add(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node,
                            const tn_op_spec *spec) {
    const onnx_joined *score = flex_graph(reader, "score_mod"),
                      *prob = flex_graph(reader, "prob_mod");
    bool fits = spec->input_count == 3 && spec->output_count == 1 &&
                reader->joined_count == (uint32_t)((score != NULL) + (prob != NULL));
    for (uint32_t i = 0; i < 3 && fits; i++) fits = spec->inputs[i] != TN_NONE;
    if (!fits || spec->outputs[0] == TN_NONE) {
        tn_status status = tn__fail(reader->importer->error, TN_E_INVALID,
                                    "it needs three inputs, one output, and graphs in no "
                                    "attributes but score_mod and prob_mod");
        return tn__onnx_node_where(reader, status, scope, node);
    }
    tn_tensor_id q = spec->inputs[0], k = spec->inputs[1], v = spec->inputs[2];
    tn_tensor_id y = spec->outputs[0], scores, probable;
    if (score != NULL)
        scores = score->given;
    else
        TN_TRY(tn__onnx_flex_tensor(reader, scope, node, "scores", &scores));
    if (prob != NULL)
        probable = prob->given;
    else
        TN_TRY(tn__onnx_flex_tensor(reader, scope, node, "probabilities", &probable));
    /* spec->name is scratch memory, which names of other tensors have overwritten */
    tn_op_spec named = *spec;
    named.name = node->name.size ? tn__onnx_text(reader, 0, scope->prefix, node->name) : "";
    if (!named.name) return tn__onnx_no_memory(reader);
    TN_TRY(flex_op(reader, &named, "FlexScores", q, k, scores));
    TN_TRY(flex_softmax(reader, &named, score != NULL ? score->result : scores, probable));
    return flex_op(reader, &named, "FlexValues", prob != NULL ? prob->result : probable, v, y);
}
