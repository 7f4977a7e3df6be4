/* tape.c - records the operators and operands that gradients will need.
 *
 * A variable is a tensor that gradients flow to: a parameter, or a tensor computed from one. An
 * operator with such an input becomes an entry. The tape holds only those of its operands that its
 * gradient rule reads, so other operands are freed as soon as their handles are deleted. Held
 * operands may be evicted like any other tensor.
 * Source: Wengert, A simple automatic derivative evaluation program, 1964.
 * Cost: O(operands).
 */
#include "run/eager/interpreter.h"

static bool tape_reaches(const tn_eager *eager, tn__item_id id) {
    const tn__item *item = &eager->items[id];
    return item->variable != TN_NONE || item->kind == TN_KIND_PARAMETER;
}

tn_status tn__tape_prepare(tn_eager *eager, tn__recipe *recipe, const tn__item_id *inputs,
                           uint64_t *wanted, tn_error *error) {
    tn__tape *tape = &eager->tape;
    const tn_context *context = &eager->context;
    uint64_t set = 0, reads;
    for (uint32_t i = 0; i < recipe->input_count; i++)
        if ((recipe->flows >> i & 1) != 0 && tape_reaches(eager, inputs[i]))
            set |= UINT64_C(1) << i;
    *wanted = set;
    if (set == 0) return TN_OK;
    size_t operands = recipe->input_count + recipe->output_count;
    if (!tn__reserve(context, &tape->entries, &tape->entry_room, tape->entry_count + 1,
                     sizeof *tape->entries) ||
        !tn__reserve(context, &tape->operands, &tape->operand_room, tape->operand_count + operands,
                     sizeof *tape->operands) ||
        !tn__reserve(context, &tape->variable, &tape->variable_room,
                     tape->variable_count + operands, sizeof *tape->variable))
        return tn__no_memory(error, "the tape");
    return tn__recipes_reads(&eager->recipes, recipe, set, &reads, &reads, error);
}

/* The item's variable; makes one if it is missing. */
static uint32_t tape_variable(tn_eager *eager, tn__item_id id) {
    tn__tape *tape = &eager->tape;
    tn__item *item = &eager->items[id];
    if (item->variable == TN_NONE) {
        item->variable = (uint32_t)tape->variable_count;
        tape->variable[tape->variable_count++] = id;
    }
    return item->variable;
}

static void tape_operand(tn_eager *eager, tn__item_id id, bool varies, bool read) {
    tn__tape *tape = &eager->tape;
    read = read && id != TN_NONE;
    tape->operands[tape->operand_count++] = (tn__taped){
        .variable = varies ? tape_variable(eager, id) : TN_NONE, .item = read ? id : TN_NONE};
    if (read) tn__item_hold(eager, id);
}

void tn__tape_add(tn_eager *eager, tn__recipe *recipe, const tn__item_id *inputs,
                  const tn__item_id *outputs, uint64_t wanted) {
    tn__tape *tape = &eager->tape;
    uint64_t read_in = 0, read_out = 0;
    /* cannot fail: the sets were found before */
    (void)tn__recipes_reads(&eager->recipes, recipe, wanted, &read_in, &read_out, NULL);
    tape->entries[tape->entry_count++] =
        (tn__tape_entry){.recipe = recipe, .first = tape->operand_count};
    for (uint32_t i = 0; i < recipe->input_count; i++)
        tape_operand(eager, inputs[i], (wanted >> i & 1) != 0, (read_in >> i & 1) != 0);
    for (uint32_t k = 0; k < recipe->output_count; k++)
        tape_operand(eager, outputs[k], tn__recipe_differs(&eager->recipes, recipe, k),
                     (read_out >> k & 1) != 0);
}

/* Remaining items stop being variables. */
void tn__tape_clear(tn_eager *eager) {
    tn__tape *tape = &eager->tape;
    for (size_t v = 0; v < tape->variable_count; v++) {
        tn__item *item = &eager->items[tape->variable[v]];
        if (item->refs > 0 && item->variable == v) item->variable = TN_NONE;
    }
    for (size_t i = 0; i < tape->operand_count; i++) tn__item_drop(eager, tape->operands[i].item);
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

void tn_eager_forget(tn_eager *eager) { tn__tape_clear(eager); }
