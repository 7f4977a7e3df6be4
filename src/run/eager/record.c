/* record.c - records the commands that were run (record.h). */
#include "run/eager/interpreter.h"

/* a command adds at most this number of values and entries */
#define RECORD_MOST (2 * TN__OPERANDS_MOST + 2)

tn_status tn__record_reserve(tn_eager *eager, tn_error *error) {
    tn__record *record = &eager->record;
    const tn_context *context = &eager->context;
    if (!record->on) return TN_OK;
    if (!tn__reserve(context, &record->entries, &record->entry_room,
                     record->entry_count + RECORD_MOST, sizeof *record->entries) ||
        !tn__reserve(context, &record->values, &record->value_room,
                     record->value_count + RECORD_MOST, sizeof *record->values) ||
        !tn__reserve(context, &record->operands, &record->operand_room,
                     record->operand_count + RECORD_MOST, sizeof *record->operands))
        return tn__no_memory(error, "the recording");
    return TN_OK;
}

static uint32_t record_value(tn_eager *eager, tn__item_id id, tn_kind kind) {
    tn__record *record = &eager->record;
    tn__item *item = &eager->items[id];
    record->values[record->value_count] =
        (tn__record_value){.type = tn__item_type(eager, id), .name = item->name, .kind = kind};
    item->recorded = (uint32_t)record->value_count++;
    return item->recorded;
}

static void record_add(tn_eager *eager, tn__record_kind kind, uint32_t value) {
    tn__record *record = &eager->record;
    record->entries[record->entry_count++] = (tn__record_entry){.kind = kind, .value = value};
}

void tn__record_put(tn_eager *eager, tn__item_id id) {
    if (!eager->record.on || eager->items[id].tensor == TN_NONE) return;
    record_add(eager, TN__RECORD_PUT, record_value(eager, id, eager->items[id].kind));
}

void tn__record_get(tn_eager *eager, tn__item_id id) {
    if (!eager->record.on || eager->items[id].recorded == TN_NONE) return;
    record_add(eager, TN__RECORD_GET, eager->items[id].recorded);
}

void tn__record_reads(tn_eager *eager, const tn__recipe *recipe, const tn__item_id *inputs) {
    tn__record *record = &eager->record;
    record->entries[record->entry_count++] = (tn__record_entry){
        .kind = TN__RECORD_APPLY, .recipe = recipe, .first = record->operand_count};
    for (uint32_t i = 0; i < recipe->input_count; i++)
        record->operands[record->operand_count++] =
            inputs[i] == TN_NONE ? TN_NONE : eager->items[inputs[i]].recorded;
}

void tn__record_makes(tn_eager *eager, const tn__recipe *recipe, const tn__item_id *inputs,
                      const tn__item_id *outputs) {
    tn__record *record = &eager->record;
    for (uint32_t k = 0; k < recipe->output_count; k++) {
        const tn__result *result = &recipe->results[k];
        uint32_t value = TN_NONE;
        if (result->handed) {
            tn__item_id id = inputs[result->view_of];
            value = record_value(eager, id, eager->items[id].kind);
        } else if (outputs[k] != TN_NONE && eager->items[outputs[k]].tensor != TN_NONE) {
            value = record_value(eager, outputs[k], TN_KIND_ACTIVATION);
        }
        record->operands[record->operand_count++] = value;
    }
}

void tn__record_take_back(tn_eager *eager, const tn__recipe *recipe) {
    eager->record.entry_count--;
    eager->record.operand_count -= recipe->input_count;
}

void tn__record_onto_first(tn_eager *eager) {
    eager->record.entries[eager->record.entry_count - 1].onto_first = true;
}

void tn__record_release(tn_eager *eager, tn__item_id id) {
    if (!eager->record.on || eager->items[id].recorded == TN_NONE) return;
    if (tn__record_reserve(eager, NULL) == TN_OK) /* benign: the log frees the tensor later */
        record_add(eager, TN__RECORD_RELEASE, eager->items[id].recorded);
    eager->items[id].recorded = TN_NONE;
}

void tn__record_close(tn_eager *eager) {
    tn__record *record = &eager->record;
    const tn_context *context = &eager->context;
    tn__free(context, record->entries, record->entry_room * sizeof *record->entries);
    tn__free(context, record->values, record->value_room * sizeof *record->values);
    tn__free(context, record->operands, record->operand_room * sizeof *record->operands);
}

tn_status tn_eager_restart(tn_eager *eager, tn_error *error) {
    tn__record *record = &eager->record;
    record->on = true;
    record->entry_count = record->value_count = record->operand_count = 0;
    for (tn__item_id id = 0; id < eager->item_count; id++) eager->items[id].recorded = TN_NONE;
    for (tn__item_id id = 0; id < eager->item_count; id++) {
        if (eager->items[id].refs == 0) continue;
        tn_status status = tn__record_reserve(eager, error);
        record->on = status == TN_OK;
        if (status != TN_OK) return tn__where(error, status, "restart");
        tn__record_put(eager, id);
    }
    return TN_OK;
}
