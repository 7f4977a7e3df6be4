/* tape.c - records the operators and operands that gradients will need, and computes the gradients.
 *
 * A variable is a tensor for which a gradient is computed: a parameter, or a tensor computed from
 * one. An operator with such an input is added to the tape as an entry. The tape keeps references
 * only to those operands that the operator's gradient rule reads, so other operands are released
 * when their handles are deleted. Operands on the tape may be evicted like all other tensors.
 * Source: Wengert, A simple automatic derivative evaluation program, 1964.
 * Cost: O(operands).
 */
#include "run/eager/interpreter.h"
#include "graph/element.h"
#include "graph/rules/fold.h"

static bool tape_reaches(const tn_eager *eager, tn__eager_item_id id) {
    const tn__eager_item *item = &eager->items[id];
    return item->variable != TN_NONE || item->kind == TN_KIND_PARAMETER;
}

tn_status tn__tape_prepare(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                           uint64_t *wanted, tn_error *error) {
    tn__tape *tape = &eager->tape;
    const tn_context *context = &eager->context;
    uint64_t set = 0, reads;
    for (uint32_t i = 0; i < cached->input_count; i++)
        if ((cached->flows >> i & 1) != 0 && tape_reaches(eager, inputs[i]))
            set |= UINT64_C(1) << i;
    *wanted = set;
    if (set == 0) return TN_OK;
    size_t operands = cached->input_count + cached->output_count;
    if (!tn__reserve(context, &tape->entries, &tape->entry_room, tape->entry_count + 1,
                     sizeof *tape->entries) ||
        !tn__reserve(context, &tape->operands, &tape->operand_room, tape->operand_count + operands,
                     sizeof *tape->operands) ||
        !tn__reserve(context, &tape->variable, &tape->variable_room,
                     tape->variable_count + operands, sizeof *tape->variable))
        return tn__no_memory(error, "the tape");
    return tn__op_cache_reads(&eager->op_cache, cached, set, &reads, &reads, error);
}

/* Returns the variable of an item; makes one if it does not exist yet. */
static uint32_t tape_variable(tn_eager *eager, tn__eager_item_id id) {
    tn__tape *tape = &eager->tape;
    tn__eager_item *item = &eager->items[id];
    if (item->variable == TN_NONE) {
        item->variable = (uint32_t)tape->variable_count;
        tape->variable[tape->variable_count++] = id;
    }
    return item->variable;
}

static void tape_operand(tn_eager *eager, tn__eager_item_id id, bool varies, bool read) {
    tn__tape *tape = &eager->tape;
    read = read && id != TN_NONE;
    tape->operands[tape->operand_count++] = (tn__taped){
        .variable = varies ? tape_variable(eager, id) : TN_NONE, .item = read ? id : TN_NONE};
    if (read) tn__eager_item_hold(eager, id);
}

void tn__tape_add(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                  const tn__eager_item_id *outputs, uint64_t wanted) {
    tn__tape *tape = &eager->tape;
    uint64_t read_in = 0, read_out = 0;
    /* cannot fail, because tn__tape_prepare has computed these sets */
    (void)tn__op_cache_reads(&eager->op_cache, cached, wanted, &read_in, &read_out, NULL);
    tape->entries[tape->entry_count++] =
        (tn__tape_entry){.cached = cached, .first = tape->operand_count};
    for (uint32_t i = 0; i < cached->input_count; i++)
        tape_operand(eager, inputs[i], (wanted >> i & 1) != 0, (read_in >> i & 1) != 0);
    for (uint32_t k = 0; k < cached->output_count; k++)
        tape_operand(eager, outputs[k], tn__cached_op_differs(&eager->op_cache, cached, k),
                     (read_out >> k & 1) != 0);
}

/* Empties the tape. Items that still exist have no variable afterwards. */
static void tape_clear(tn_eager *eager) {
    tn__tape *tape = &eager->tape;
    for (size_t v = 0; v < tape->variable_count; v++) {
        tn__eager_item *item = &eager->items[tape->variable[v]];
        if (item->refs > 0 && item->variable == v) item->variable = TN_NONE;
    }
    for (size_t i = 0; i < tape->operand_count; i++)
        tn__eager_item_drop(eager, tape->operands[i].item);
    tape->entry_count = tape->operand_count = tape->variable_count = 0;
}

void tn__tape_release(tn_eager *eager) {
    tn__tape *tape = &eager->tape;
    const tn_context *context = &eager->context;
    tn__free(context, tape->entries, tape->entry_room * sizeof *tape->entries);
    tn__free(context, tape->operands, tape->operand_room * sizeof *tape->operands);
    tn__free(context, tape->variable, tape->variable_room * sizeof *tape->variable);
    tn__free(context, tape->gradient, tape->gradient_room * sizeof *tape->gradient);
    tn__free(context, tape->is_sum, tape->sum_room * sizeof *tape->is_sum);
    tn__free(context, tape->local, tape->local_room * sizeof *tape->local);
}

void tn_eager_tape(tn_eager *eager, bool on) { eager->tape.on = on && !eager->options.no_tape; }

void tn_eager_forget(tn_eager *eager) { tape_clear(eager); }

/* --- the backward pass ------------------------------------------------------------------------ */

/* The backward pass: visits the entries of the tape from the last to the first, and computes the
 * gradients of each entry's inputs.
 *
 * When an entry is visited, all entries that read its outputs have been visited, so the gradients
 * of the outputs are complete. These gradients, and the operands that the tape kept for the entry,
 * are released at the last step that reads them. Gradients of one variable are added in the order
 * of the tape. The operators of the backward pass run through the eviction core, so their results
 * may be evicted and recomputed. Gradients of parameters are an exception, because recomputing one
 * would run the whole tape again. They are never evicted, and they are summed by writing over the
 * sum.
 * Source: Linnainmaa 1970; Griewank, Walther, Evaluating Derivatives, chapter 3.
 */

/* --- one entry of the tape --- */

/* Fills the local tensors of an entry. The references of the tape, and the gradients of the
 * outputs, move to them. */
static tn_status backward_locals(tn_eager *eager, const tn__tape_entry *entry,
                                 const tn__differential *it, tn_error *error) {
    tn__tape *tape = &eager->tape;
    const tn__cached_op *cached = entry->cached;
    uint32_t operands = cached->input_count + cached->output_count;
    tn__taped *taped = &tape->operands[entry->first];
    if (!tn__reserve(&eager->context, &tape->local, &tape->local_room, it->local_count,
                     sizeof *tape->local))
        return tn__no_memory(error, "gradients");
    memset(tape->local, 0xff, it->local_count * sizeof *tape->local);
    for (uint32_t i = 0; i < operands; i++) {
        tape->local[i] = taped[i].item;
        taped[i].item = TN_NONE;
    }
    for (uint32_t k = 0; k < cached->output_count; k++) {
        uint32_t variable = taped[cached->input_count + k].variable;
        if (variable == TN_NONE) continue;
        tape->local[operands + k] = tape->gradient[variable];
        tape->gradient[variable] = TN_NONE;
    }
    return TN_OK;
}

/* Releases the local tensors that are read last by this step. `step` TN_NONE: those that are never
 * read. */
static void backward_drop(tn_eager *eager, const tn__differential *it, uint32_t step) {
    for (uint32_t l = 0; l < it->local_count; l++) {
        if (it->last[l] != step || eager->tape.local[l] == TN_NONE) continue;
        tn__eager_item_drop(eager, eager->tape.local[l]);
        eager->tape.local[l] = TN_NONE;
    }
}

static tn_status backward_step(tn_eager *eager, const tn__differential *it, uint32_t number,
                               tn_error *error) {
    const tn__differential_step *step = &it->steps[number];
    tn__eager_item_id inputs[TN__OPERANDS_MOST], outputs[TN__OPERANDS_MOST];
    for (uint32_t i = 0; i < step->cached->input_count; i++)
        inputs[i] = step->inputs[i] == TN_NONE ? TN_NONE : eager->tape.local[step->inputs[i]];
    for (uint32_t d = 0; d < step->cached->data_input_count; d++)
        if (inputs[step->cached->data_inputs[d]] == TN_NONE)
            TN_FAIL(error, TN_E_INTERNAL, "the tape has not kept what %.60s reads",
                    step->cached->op->type);
    TN_TRY(tn__apply(eager, step->cached, inputs, outputs, error));
    for (uint32_t k = 0; k < step->cached->output_count; k++)
        if (step->outputs[k] != TN_NONE) eager->tape.local[step->outputs[k]] = outputs[k];
    backward_drop(eager, it, number);
    /* release outputs that no step reads */
    for (uint32_t k = 0; k < step->cached->output_count; k++) {
        uint32_t local = step->outputs[k];
        if (local == TN_NONE || it->last[local] != TN_NONE) continue;
        tn__eager_item_drop(eager, eager->tape.local[local]);
        eager->tape.local[local] = TN_NONE;
    }
    return TN_OK;
}

/* Whether the variable belongs to a parameter that still exists. */
static bool backward_is_kept(const tn_eager *eager, uint32_t variable) {
    const tn__eager_item *item = &eager->items[eager->tape.variable[variable]];
    return item->refs > 0 && item->variable == variable && item->kind == TN_KIND_PARAMETER;
}

static tn_status backward_keep(tn_eager *eager, tn__eager_item_id id, tn_error *error) {
    uint32_t tensor = eager->items[id].tensor;
    return tensor != TN_NONE ? tn__evict_keep(eager->memory.core, tensor, error) : TN_OK;
}

/* Adds a gradient to the sum of a variable. The reference to `found` moves to the variable. */
static tn_status backward_sum(tn_eager *eager, uint32_t variable, tn__eager_item_id found,
                              tn_error *error) {
    tn__eager_item_id *sum = &eager->tape.gradient[variable], added;
    bool kept = backward_is_kept(eager, variable);
    if (*sum == TN_NONE) {
        *sum = found;
        eager->tape.is_sum[variable] = false;
        return kept ? backward_keep(eager, found, error) : TN_OK;
    }
    if (kept && eager->tape.is_sum[variable] &&
        eager->items[found].type == eager->items[*sum].type) {
        tn_status in_place = tn__apply_sum(eager, *sum, found, error);
        tn__eager_item_drop(eager, found);
        return in_place;
    }
    const tn__eager_item_id terms[] = {*sum, found};
    tn__ask ask = {.type = "Add", .domain = "", .input_count = 2, .output_count = 1};
    tn_status status = tn__apply_named(eager, &ask, terms, &added, error);
    tn__eager_item_drop(eager, found);
    if (status != TN_OK) return status;
    tn__eager_item_drop(eager, *sum);
    eager->tape.gradient[variable] = added;
    eager->tape.is_sum[variable] = true;
    return kept ? backward_keep(eager, added, error) : TN_OK;
}

/* Returns a gradient as an item with a reference of its own. It may be an immediate. */
static tn_status backward_found(tn_eager *eager, const tn__differential *it, uint32_t local,
                                tn__eager_item_id *found, tn_error *error) {
    *found = eager->tape.local[local];
    if (*found != TN_NONE) {
        tn__eager_item_hold(eager, *found);
        return TN_OK;
    }
    return tn__eager_item_make(eager, TN_NONE, it->known[local], found, error);
}

static tn_status backward_run(tn_eager *eager, const tn__tape_entry *entry,
                              const tn__differential *it, tn_error *error) {
    backward_drop(eager, it, TN_NONE);
    for (uint32_t s = 0; s < it->step_count; s++) TN_TRY(backward_step(eager, it, s, error));
    for (uint32_t i = 0; i < entry->cached->input_count; i++) {
        tn__eager_item_id found;
        if (it->found[i] == TN_NONE || (it->wanted >> i & 1) == 0) continue;
        TN_TRY(backward_found(eager, it, it->found[i], &found, error));
        TN_TRY(backward_sum(eager, eager->tape.operands[entry->first + i].variable, found, error));
    }
    return TN_OK;
}

static void backward_give_up(tn_eager *eager, const tn__tape_entry *entry) {
    size_t count = entry->cached->input_count + entry->cached->output_count;
    tn__taped *taped = &eager->tape.operands[entry->first];
    for (size_t i = 0; i < count; i++) {
        tn__eager_item_drop(eager, taped[i].item);
        taped[i].item = TN_NONE;
    }
}

static tn_status backward_visit(tn_eager *eager, const tn__tape_entry *entry, tn_error *error) {
    const tn__cached_op *cached = entry->cached;
    const tn__taped *taped = &eager->tape.operands[entry->first];
    const tn__differential *it;
    uint64_t given = 0, wanted = 0;
    for (uint32_t i = 0; i < cached->input_count; i++)
        if (taped[i].variable != TN_NONE) wanted |= UINT64_C(1) << i;
    for (uint32_t k = 0; k < cached->output_count; k++) {
        uint32_t variable = taped[cached->input_count + k].variable;
        if (variable != TN_NONE && eager->tape.gradient[variable] != TN_NONE)
            given |= UINT64_C(1) << k;
    }
    if (given == 0) {
        backward_give_up(eager, entry);
        return TN_OK;
    }
    TN_TRY(tn__op_cache_differential(&eager->op_cache, entry->cached, given, wanted, &it, error));
    TN_TRY(backward_locals(eager, entry, it, error));
    tn_status status = backward_run(eager, entry, it, error);
    for (uint32_t l = 0; l < it->local_count; l++) tn__eager_item_drop(eager, eager->tape.local[l]);
    return status;
}

/* --- the backward pass as a whole --- */

static tn_status backward_check(const tn_eager *eager, tn_handle loss, const tn_handle *of,
                                uint32_t count, tn__eager_item_id *id, tn_error *error) {
    tn__eager_item_id item;
    TN_TRY(tn__eager_item_of(eager, loss, "loss", id, error));
    const tn__type *type = tn__eager_item_type(eager, *id);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < type->rank; d++) elements *= (uint64_t)type->shape[d];
    char text[120];
    if (elements != 1 || !tn__is_float(type->dtype))
        TN_FAIL(error, TN_E_INVALID, "a loss has one element of a floating type; this is %s",
                tn__type_text(type, text, sizeof text));
    if (eager->items[*id].variable == TN_NONE)
        TN_FAIL(
            error, TN_E_INVALID,
            "the loss is not on the tape: no parameter leads to it, the tape was off, or it was "
            "run backwards before");
    for (uint32_t i = 0; i < count; i++) {
        TN_TRY(tn__eager_item_of(eager, of[i], "gradients of", &item, error));
        if (eager->items[item].kind != TN_KIND_PARAMETER)
            TN_FAIL(error, TN_E_INVALID, "gradients are of parameters; number %u is no parameter",
                    i);
    }
    return TN_OK;
}

static tn_status backward_room(tn_eager *eager, tn_error *error) {
    tn__tape *tape = &eager->tape;
    if (!tn__reserve(&eager->context, &tape->gradient, &tape->gradient_room, tape->variable_count,
                     sizeof *tape->gradient) ||
        !tn__reserve(&eager->context, &tape->is_sum, &tape->sum_room, tape->variable_count,
                     sizeof *tape->is_sum))
        return tn__no_memory(error, "gradients");
    memset(tape->gradient, 0xff, tape->variable_count * sizeof *tape->gradient);
    return TN_OK;
}

/* Makes the gradient of the loss with respect to itself, which is 1. */
static tn_status backward_seed(tn_eager *eager, tn__eager_item_id loss, tn_error *error) {
    tn__tape *tape = &eager->tape;
    const tn__eager_item item = eager->items[loss]; /* a copy: the array of items may move */
    const double one = 1;
    const tn_tensor like = {.dtype = tn__eager_item_type(eager, loss)->dtype,
                            .value = &(tn_value){.count = 1, .floats = &one}};
    uint8_t bytes[8];
    uint64_t size = tn__eager_item_type(eager, loss)->bytes;
    uint32_t tensor, variable = item.variable;
    (void)tn__tensor_fill(&like, bytes, size);
    TN_TRY(tn__eager_items_reserve(eager, 1, error));
    TN_TRY(tn__record_reserve(eager, error));
    TN_TRY(tn__eager_memory_put(eager, bytes, size, false, "the gradient of the loss", &tensor,
                                error));
    TN_TRY(tn__eager_item_make(eager, tensor, item.type, &tape->gradient[variable], error));
    eager->items[tape->gradient[variable]].name = "d.loss";
    tn__record_put(eager, tape->gradient[variable]);
    return TN_OK;
}

/* Makes a handle for a gradient. If the item has a handle already, because one gradient belongs to
 * several parameters, makes another item first. */
static tn_status backward_hand_out(tn_eager *eager, tn__eager_item_id id, tn_handle *handle,
                                   tn_error *error) {
    const tn__eager_item item = eager->items[id];
    tn__eager_item_id made = id;
    if (item.open) {
        TN_TRY(tn__eager_item_make(eager, item.tensor, item.type, &made, error));
        eager->items[made].recorded = item.recorded;
        if (item.tensor != TN_NONE) tn__evict_retain(eager->memory.core, item.tensor);
    } else {
        tn__eager_item_hold(eager, id);
    }
    *handle = tn__eager_item_open(eager, made);
    return TN_OK;
}

static tn_status backward_walk(tn_eager *eager, const tn_handle *of, uint32_t count,
                               tn_handle *gradients, tn_error *error) {
    tn__tape *tape = &eager->tape;
    for (size_t e = tape->entry_count; e-- > 0;) {
        tn_status status = backward_visit(eager, &tape->entries[e], error);
        if (status != TN_OK)
            return tn__where(error, status, "gradients of operator %zu on the tape, %.60s", e,
                             tape->entries[e].cached->op->type);
    }
    for (uint32_t i = 0; i < count; i++) {
        tn__eager_item_id id;
        TN_TRY(tn__eager_item_of(eager, of[i], "gradients of", &id, error));
        uint32_t variable = eager->items[id].variable;
        if (variable != TN_NONE && tape->gradient[variable] != TN_NONE)
            TN_TRY(backward_hand_out(eager, tape->gradient[variable], &gradients[i], error));
    }
    return TN_OK;
}

tn_status tn_eager_backward(tn_eager *eager, tn_handle loss, const tn_handle *of, uint32_t count,
                            tn_handle *gradients, tn_error *error) {
    tn__tape *tape = &eager->tape;
    tn__eager_item_id id;
    tn_status status = backward_check(eager, loss, of, count, &id, error);
    if (status != TN_OK) return tn__where(error, status, "backward");
    for (uint32_t i = 0; i < count; i++) gradients[i] = TN_HANDLE_NONE;
    status = backward_room(eager, error);
    bool room = status == TN_OK;
    if (status == TN_OK) status = backward_seed(eager, id, error);
    if (status == TN_OK) status = backward_walk(eager, of, count, gradients, error);
    for (size_t v = 0; room && v < tape->variable_count; v++)
        tn__eager_item_drop(eager, tape->gradient[v]);
    tape_clear(eager);
    for (uint32_t i = 0; i < count && status != TN_OK; i++) {
        if (gradients[i] != TN_HANDLE_NONE) (void)tn_eager_del(eager, gradients[i], NULL);
        gradients[i] = TN_HANDLE_NONE;
    }
    return tn__where(error, status, "backward");
}
