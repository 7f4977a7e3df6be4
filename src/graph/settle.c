/* settle.c - makes a rule's decision final: merges the file's statements and computes the size.
 *
 * An exact extent of a rule must equal the file's statement, or the error names both, unless rules
 * win (settle.h); unknown extents and upper bounds are replaced by the file's. Cost: O(rank).
 */
#include <stdio.h>

#include "graph/settle.h"
#include "graph/store.h"

const char *tn__shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t i = 0; i < rank && used < size; i++) {
        const char *comma = i ? "," : "";
        int more = shape[i] == TN_DIM_UNKNOWN
                       ? snprintf(text + used, size - used, "%s?", comma)
                       : snprintf(text + used, size - used, "%s%lld", comma, (long long)shape[i]);
        used += (size_t)more;
    }
    if (used < size) snprintf(text + used, size - used, "]");
    return text;
}

static tn_status settle_contradiction(tn_infer *infer, const tn_tensor *tensor,
                                      tn__origin *origin) {
    char found[100], stated[100], line[400];
    if (infer->graph->rules_win && tensor->block == 0) {
        const tn_context *context = &infer->graph->context;
        snprintf(line, sizeof line,
                 "tensor '%.80s' has shape %s by the rule of %.40s; the file states %s, which is "
                 "ignored",
                 tensor->name, tn__shape_text(tensor->rank, tensor->shape, found, sizeof found),
                 infer->op->type,
                 tn__shape_text(origin->rank, origin->shape, stated, sizeof stated));
        if (context->log) context->log(context->self, line);
        origin->rank = TN_RANK_UNKNOWN;
        origin->shape = NULL;
        return TN_OK;
    }
    return tn__infer_fail(
        infer,
        "tensor '%.80s' has shape %s by the rule of %.40s, but the file states "
        "%s; correct the one that is wrong",
        tensor->name, tn__shape_text(tensor->rank, tensor->shape, found, sizeof found),
        infer->op->type, tn__shape_text(origin->rank, origin->shape, stated, sizeof stated));
}

/* Extents: an exact extent of the rule must equal the file's; unknown ones and bounds are replaced
 * by the file's, and are exact then, unless the file's extent is itself a bound. */
static tn_status settle_extents(tn_infer *infer, tn_tensor_id id) {
    tn_tensor *tensor = &infer->graph->tensors[id];
    tn__origin *origin = &infer->graph->origins[id];
    const int64_t *low = tn__is_loose(infer->graph, id) ? origin->loose->low : tensor->shape;
    bool changed = false, stated_bound = origin->flags & TN_TENSOR_BOUND;
    int64_t merged[TN_RANK_MAX], least[TN_RANK_MAX];
    for (uint32_t d = 0; d < tensor->rank; d++) {
        int64_t own = tensor->shape[d], stated = origin->shape[d];
        bool open = own == TN_DIM_UNKNOWN || low[d] != own;
        if (stated != TN_DIM_UNKNOWN && stated != own && !open)
            return settle_contradiction(infer, tensor, origin);
        bool takes = stated != TN_DIM_UNKNOWN && open;
        changed |= takes;
        merged[d] = takes ? stated : own;
        least[d] = takes ? (stated_bound ? 0 : stated) : low[d];
    }
    if (!changed) return TN_OK;
    int64_t *copy = tn__arena_array(&infer->graph->found, tensor->rank, sizeof *copy);
    if (!copy) return tn__infer_no_memory(infer);
    memcpy(copy, merged, tensor->rank * sizeof *copy);
    tensor->shape = copy;
    return tn__loosen(infer->graph, id, least, infer->error);
}

tn_status tn__settle_merge(tn_infer *infer, tn_tensor_id id) {
    tn_tensor *tensor = &infer->graph->tensors[id];
    tn__origin *origin = &infer->graph->origins[id];
    if (tensor->dtype == TN_UNDEFINED) tensor->dtype = origin->dtype;
    if (origin->dtype != TN_UNDEFINED && tensor->dtype != origin->dtype)
        return tn__infer_fail(
            infer,
            "tensor '%.80s' has type %s by the rule of %.40s, but the file states "
            "%s; correct the one that is wrong",
            tensor->name, tn_dtype_name(tensor->dtype), infer->op->type,
            tn_dtype_name(origin->dtype));
    if (origin->rank == TN_RANK_UNKNOWN) return TN_OK;
    if (tensor->rank == TN_RANK_UNKNOWN) {
        tensor->rank = origin->rank;
        tensor->shape = origin->shape;
        tensor->flags |= TN_TENSOR_STATED;
        return tn__loosen(infer->graph, id, origin->flags & TN_TENSOR_BOUND ? NULL : origin->shape,
                          infer->error);
    }
    if (tensor->rank != origin->rank) return settle_contradiction(infer, tensor, origin);
    return settle_extents(infer, id);
}

tn_status tn__settle_size(tn_graph *graph, tn_tensor_id id, tn_error *error) {
    tn_tensor *tensor = &graph->tensors[id];
    uint64_t bytes;
    tensor->bytes = tensor->repeat == 0 ? 0 : TN_SIZE_UNKNOWN; /* an empty sequence */
    if (tensor->repeat == 0 || tensor->repeat == TN_SIZE_UNKNOWN) return TN_OK;
    for (uint32_t i = 0; i < tensor->rank && tensor->rank != TN_RANK_UNKNOWN; i++)
        if (tensor->shape[i] == TN_DIM_UNKNOWN) return TN_OK; /* the common case, without words */
    tn_error detail;
    tn_status status =
        tn_tensor_size(tensor->dtype, tensor->format, tensor->rank, tensor->shape, &bytes, &detail);
    if (status == TN_E_UNKNOWN) return TN_OK;
    if (status != TN_OK)
        TN_FAIL(error, status, "the size of tensor '%.80s' cannot be represented: %.200s",
                tensor->name, detail.message);
    if (!tn__mul(bytes, tensor->repeat, &tensor->bytes) || tensor->bytes == TN_SIZE_UNKNOWN) {
        tensor->bytes = TN_SIZE_UNKNOWN;
        TN_FAIL(error, TN_E_INVALID, "the size of sequence '%.80s' overflows 64 bits",
                tensor->name);
    }
    return TN_OK;
}

void tn__graph_rules_win(tn_graph *graph) { graph->rules_win = true; }
