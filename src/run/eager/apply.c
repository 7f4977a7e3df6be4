/* apply.c - applies one operator to items (interpreter.h). Commands, gradients and updates all use
 * it.
 *
 * All steps that may fail come first. After the eviction core has run the operator, only
 * bookkeeping follows, for which memory was reserved before. So a failure changes nothing.
 */
#include "run/eager/interpreter.h"

/* Refuses an operator that writes into a tensor without a fixed address, or that has the written
 * tensor as another input too. */
static tn_status apply_check_written(const tn_eager *eager, const tn__cached_op *cached,
                                     const tn__eager_item_id *inputs, tn_error *error) {
    for (uint32_t i = 0; i < cached->input_count; i++) {
        if ((cached->changes >> i & 1) == 0) continue;
        if (!tn__eager_item_is_fixed(&eager->items[inputs[i]]))
            TN_FAIL(error, TN_E_INVALID,
                    "%.60s writes into its input %u: put that as a parameter, optimizer state or "
                    "gradient",
                    cached->op->type, i);
        for (uint32_t j = 0; j < cached->input_count; j++)
            if (j != i && inputs[j] == inputs[i])
                TN_FAIL(error, TN_E_INVALID, "%.60s writes into its input %u and reads it as %u",
                        cached->op->type, i, j);
    }
    return TN_OK;
}

/* Makes an item that was written into refer to the new tensor, which has the new data. */
static void apply_hand_back(tn_eager *eager, tn__eager_item_id id, uint32_t tensor) {
    tn__eager_item *item = &eager->items[id];
    tn__evict_release(eager->memory.core, item->tensor);
    item->tensor = tensor;
}

/* Makes items for the outputs `tensors` of an operator. Memory for the items was reserved
 * before. */
static void apply_outputs(tn_eager *eager, const tn__cached_op *cached,
                          const tn__eager_item_id *inputs, const uint32_t *tensors,
                          tn__eager_item_id *outputs) {
    for (uint32_t d = 0, k = 0; k < cached->output_count; k++) {
        const tn__result *result = &cached->results[k];
        outputs[k] = TN_NONE;
        if (result->type == TN_NONE || (k == 0 && cached->again != NULL)) continue;
        uint32_t tensor = result->known ? TN_NONE : tensors[d++];
        if (result->handed)
            apply_hand_back(eager, inputs[result->view_of], tensor);
        else
            (void)tn__eager_item_make(eager, tensor, result->type, &outputs[k], NULL);
    }
}

static tn_status apply_run(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                           tn__eager_item_id *outputs, tn_error *error) {
    uint32_t from[TN__OPERANDS_MOST], tensors[TN__OPERANDS_MOST];
    for (uint32_t i = 0; i < cached->data_input_count; i++)
        from[i] = eager->items[inputs[cached->data_inputs[i]]].tensor;
    if (cached->data_output_count > 0)
        TN_TRY(tn__eager_memory_apply(eager, cached, from, tensors, error));
    apply_outputs(eager, cached, inputs, tensors, outputs);
    return TN_OK;
}

/* --- operators whose output 0 is computed by a second operator --- */

/* Copies of the tensors that an operator writes into, one after the other in memory. */
typedef struct apply_kept {
    uint8_t *bytes;
    uint64_t size;
} apply_kept;

static uint64_t apply_kept_size(const tn_eager *eager, const tn__cached_op *cached,
                                uint32_t input) {
    bool changes = (cached->changes >> input & 1) != 0;
    return changes ? tn__type_of(&eager->types, cached->inputs[input])->bytes : 0;
}

static tn_status apply_keep(tn_eager *eager, const tn__cached_op *cached,
                            const tn__eager_item_id *inputs, apply_kept *kept, tn_error *error) {
    for (uint32_t i = 0; i < cached->input_count; i++)
        kept->size += apply_kept_size(eager, cached, i);
    kept->bytes = tn__alloc(&eager->context, (size_t)kept->size);
    if (kept->bytes == NULL)
        return tn__no_memory(error, "a copy of the tensor that an operator writes into");
    uint8_t *at = kept->bytes;
    for (uint32_t i = 0; i < cached->input_count; i++) {
        uint64_t size = apply_kept_size(eager, cached, i);
        if (size == 0) continue;
        TN_TRY(tn__eager_memory_get(eager, eager->items[inputs[i]].tensor, at, size, error));
        at += size;
    }
    return TN_OK;
}

static void apply_put_back(tn_eager *eager, const tn__cached_op *cached,
                           const tn__eager_item_id *inputs, const apply_kept *kept) {
    const uint8_t *at = kept->bytes;
    for (uint32_t i = 0; i < cached->input_count; i++) {
        uint64_t size = apply_kept_size(eager, cached, i);
        if (size == 0) continue;
        tn__eager_memory_put_back(eager, eager->items[inputs[i]].tensor, at, size);
        at += size;
    }
}

/* Computes output 0 with the operator that can recompute it, from the other outputs of `cached`. If
 * it fails, releases these outputs. */
static tn_status apply_again(tn_eager *eager, const tn__cached_op *cached,
                             const tn__eager_item_id *inputs, tn__eager_item_id *outputs,
                             tn_error *error) {
    tn__eager_item_id from[TN__OPERANDS_MOST];
    for (uint32_t i = 0; i < cached->again->input_count; i++)
        from[i] = (cached->again_found >> i & 1) != 0 ? outputs[i] : inputs[i];
    tn_status status = apply_run(eager, cached->again, from, &outputs[0], error);
    for (uint32_t k = 1; k < cached->output_count && status != TN_OK; k++)
        tn__eager_item_drop(eager, outputs[k]);
    return status;
}

/* Applies an operator and a second one, which computes output 0 of the first. The second operator
 * may lack memory that the first one had; then the tensors that the first one wrote into get their
 * old data back. */
static tn_status apply_in_parts(tn_eager *eager, tn__cached_op *cached,
                                const tn__eager_item_id *inputs, tn__eager_item_id *outputs,
                                tn_error *error) {
    apply_kept kept = {0};
    tn_status status = apply_keep(eager, cached, inputs, &kept, error);
    if (status == TN_OK) status = apply_run(eager, cached, inputs, outputs, error);
    if (status == TN_OK) {
        status = apply_again(eager, cached, inputs, outputs, error);
        if (status != TN_OK) apply_put_back(eager, cached, inputs, &kept);
    }
    tn__free(&eager->context, kept.bytes, (size_t)kept.size);
    return status;
}

tn_status tn__apply(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                    tn__eager_item_id *outputs, tn_error *error) {
    if (cached->changes != 0) TN_TRY(apply_check_written(eager, cached, inputs, error));
    TN_TRY(tn__eager_items_reserve(eager, cached->output_count, error));
    TN_TRY(tn__record_reserve(eager, error));
    if (eager->record.on) tn__record_reads(eager, cached, inputs);
    tn_status status =
        (cached->again != NULL ? apply_in_parts : apply_run)(eager, cached, inputs, outputs, error);
    if (eager->record.on && status == TN_OK) tn__record_makes(eager, cached, inputs, outputs);
    if (eager->record.on && status != TN_OK) tn__record_take_back(eager, cached);
    return status;
}

tn_status tn__apply_sum(tn_eager *eager, tn__eager_item_id sum, tn__eager_item_id term,
                        tn_error *error) {
    const tn__eager_item_id terms[] = {sum, term};
    tn__ask ask = {.type = "Add", .domain = "", .input_count = 2, .output_count = 1};
    uint32_t from[] = {eager->items[sum].tensor, eager->items[term].tensor}, made;
    tn__cached_op *cached;
    TN_TRY(tn__cached_op_on(eager, &ask, terms, &cached, error));
    TN_TRY(tn__record_reserve(eager, error));
    /* this cannot fail, because both terms of the addition have the same type */
    tn_assert((tn_op_inplace(cached->graph, 0, 0) & 1) != 0);
    TN_TRY(tn__eager_memory_add(eager, cached, from, &made, error));
    if (eager->record.on) tn__record_reads(eager, cached, terms);
    apply_hand_back(eager, sum, made);
    if (eager->record.on) tn__record_makes(eager, cached, terms, &sum);
    if (eager->record.on) tn__record_onto_first(eager);
    return TN_OK;
}

tn_status tn__cached_op_on(tn_eager *eager, tn__ask *ask, const tn__eager_item_id *inputs,
                           tn__cached_op **cached, tn_error *error) {
    uint32_t types[TN__OPERANDS_MOST];
    if (ask->input_count > TN__OPERANDS_MOST)
        TN_FAIL(error, TN_E_UNSUPPORTED, "%.60s with more than %u inputs", ask->type,
                TN__OPERANDS_MOST);
    for (uint32_t i = 0; i < ask->input_count; i++)
        types[i] = inputs[i] == TN_NONE ? TN_NONE : eager->items[inputs[i]].type;
    ask->inputs = types;
    return tn__op_cache_find(&eager->op_cache, ask, cached, error);
}

tn_status tn__apply_named(tn_eager *eager, tn__ask *ask, const tn__eager_item_id *inputs,
                          tn__eager_item_id *outputs, tn_error *error) {
    tn__cached_op *cached;
    TN_TRY(tn__cached_op_on(eager, ask, inputs, &cached, error));
    return tn__apply(eager, cached, inputs, outputs, error);
}
