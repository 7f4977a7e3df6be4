/* xla_needs.c - which steps and values each step of an XLA program needs, from the text of the
 * module, so that other orders of the same steps can be judged.
 *
 * A step must run after the steps of its operands and of its control predecessors. Communication
 * and random numbers keep their order among each other. An instruction without a buffer of its own
 * (bitcast, get-tuple-element) stands for values of its operands, so its readers read those.
 *
 * The text names more readers than there are: a reader of a tuple counts as a reader of all its
 * elements. A read outside the live range of a value is therefore left out. It cannot be one of
 * XLA's program, or the live range would be longer.
 *
 * Cost: O(operands), and the elements of tuples once for each use of the whole tuple.
 */
#include "interop/foreign/xla_text.h"

#define NEEDS_PAIRS_MAX ((size_t)20000000)
#define NEEDS_NONE UINT32_MAX

typedef struct needs_span { /* the values carried[first] to carried[first + count - 1] */
    uint32_t first, count;
} needs_span;

typedef struct needs_work {
    tn_foreign *foreign;
    const tn__xla_text *text;
    tn__names steps; /* name of an instruction -> its step */
    /* lists of values by instruction: owned[instruction] is the first, next[value] the one after */
    uint32_t *owned, *next;
    needs_span *spans; /* [instructions] the values that a reader of the instruction reads */
    uint32_t *carried;
    size_t carried_count, carried_room;
    bool full; /* true: the limit NEEDS_PAIRS_MAX is exceeded */
} needs_work;

static uint32_t needs_find(const tn__names *names, tn__span name) {
    return name.size > 0 ? tn__names_find(names, (const char *)name.bytes, name.size)
                         : TN__NAMES_NONE;
}

/* --- the values that an instruction stands for --- */

static bool needs_carry(needs_work *work, uint32_t value) {
    if (work->carried_count >= NEEDS_PAIRS_MAX) return work->full = true;
    if (!tn__reserve(&work->foreign->context, &work->carried, &work->carried_room,
                     work->carried_count + 1, sizeof *work->carried))
        return false;
    work->carried[work->carried_count++] = value;
    return true;
}

static bool needs_carry_all(needs_work *work, uint32_t instruction) {
    needs_span span = work->spans[instruction];
    for (uint32_t i = 0; i < span.count && !work->full; i++)
        if (!needs_carry(work, work->carried[span.first + i])) return false;
    return true;
}

/* Returns the instruction that defines operand `number` of an instruction; NEEDS_NONE: there is
 * none. */
static uint32_t needs_operand(const needs_work *work, const tn__xla_instruction *instruction,
                              uint64_t number) {
    tn__span left = instruction->operands, name;
    while (tn__xla_operand(&left, &name)) {
        uint32_t found = needs_find(&work->text->names, name);
        if (found != TN__NAMES_NONE && number-- == 0) return found;
    }
    return NEEDS_NONE;
}

/* Whether the value called `name` is element `index` of a tuple, or lies in it: "while{2,0}" lies
 * in element 2. */
static bool needs_is_element(const char *name, int64_t index) {
    const char *at = strchr(name, '{');
    size_t left = at != NULL ? strlen(++at) : 0;
    int64_t number;
    return left > 0 && tn__take_integer(&at, &left, &number) && number == index;
}

/* Carries the values that "get-tuple-element(%while), index=2" reads: element 2 alone. *found is
 * false if the element cannot be found. */
static bool needs_element(needs_work *work, const tn__xla_instruction *instruction, bool *found) {
    uint32_t source = needs_operand(work, instruction, 0);
    size_t at = tn__xla_find(instruction->rest, "index=");
    *found = false;
    if (source == NEEDS_NONE || at == instruction->rest.size) return true;
    const char *digits = (const char *)instruction->rest.bytes + at + 6;
    size_t left = instruction->rest.size - at - 6;
    int64_t index;
    if (left == 0 || !tn__take_integer(&digits, &left, &index) || index < 0) return true;
    for (uint32_t v = work->owned[source]; v != NEEDS_NONE; v = work->next[v]) {
        if (!needs_is_element(work->foreign->values[v].name, index)) continue;
        *found = true;
        if (!needs_carry(work, v)) return false;
    }
    const tn__xla_instruction *made = &work->text->instructions[source];
    uint32_t operand = tn__span_is(made->op, "tuple") && !*found
                           ? needs_operand(work, made, (uint64_t)index)
                           : NEEDS_NONE;
    if (operand == NEEDS_NONE) return true;
    *found = true;
    return needs_carry_all(work, operand);
}

static bool needs_stand(needs_work *work, uint32_t number) {
    const tn__xla_instruction *instruction = &work->text->instructions[number];
    needs_span *span = &work->spans[number];
    tn__span left = instruction->operands, name;
    bool own = false, found = false;
    span->first = (uint32_t)work->carried_count;
    for (uint32_t v = work->owned[number]; v != NEEDS_NONE; v = work->next[v]) {
        own = true;
        if (!needs_carry(work, v)) return false;
    }
    if (!own && tn__span_is(instruction->op, "get-tuple-element") &&
        !needs_element(work, instruction, &found))
        return false;
    /* a reader of this instruction also reads the values of its operands */
    bool holds = !own || tn__span_is(instruction->op, "tuple");
    while (holds && !found && tn__xla_operand(&left, &name)) {
        uint32_t operand = needs_find(&work->text->names, name);
        if (operand != TN__NAMES_NONE && operand < number && !needs_carry_all(work, operand))
            return false;
    }
    span->count = (uint32_t)work->carried_count - span->first;
    return true;
}

/* --- pairs --- */

static bool needs_add(needs_work *work, tn__foreign_pair **pairs, size_t *count, size_t *room,
                      uint32_t step, uint32_t what) {
    if (*count >= NEEDS_PAIRS_MAX) return work->full = true;
    if (!tn__reserve(&work->foreign->context, pairs, room, *count + 1, sizeof **pairs))
        return false;
    (*pairs)[(*count)++] = (tn__foreign_pair){step, what};
    return true;
}

/* Records that step `before` must run before `step`. A pair that contradicts the order in the file
 * is left out. */
static bool needs_after(needs_work *work, uint32_t step, uint32_t before) {
    tn__foreign_needs *needs = &work->foreign->needs;
    return before >= step ||
           needs_add(work, &needs->after, &needs->after_count, &needs->after_room, step, before);
}

static bool needs_read(needs_work *work, uint32_t step, uint32_t value) {
    tn__foreign_needs *needs = &work->foreign->needs;
    const tn_foreign_value *it = &work->foreign->values[value];
    if ((int64_t)step < it->first || (int64_t)step >= it->last) return true;
    return needs_add(work, &needs->reads, &needs->read_count, &needs->read_room, step, value);
}

static bool needs_operands(needs_work *work, uint32_t step, tn__span list, bool reads) {
    tn__span name;
    while (tn__xla_operand(&list, &name)) {
        uint32_t operand = needs_find(&work->text->names, name);
        uint32_t before = needs_find(&work->steps, name);
        if (before != TN__NAMES_NONE && !needs_after(work, step, before)) return false;
        if (operand == TN__NAMES_NONE || !reads) continue;
        needs_span span = work->spans[operand];
        for (uint32_t i = 0; i < span.count && !work->full; i++)
            if (!needs_read(work, step, work->carried[span.first + i])) return false;
    }
    return true;
}

/* Returns the list of names in "control-predecessors={%a, %b}"; empty if there is none. */
static tn__span needs_control(const tn__xla_instruction *instruction) {
    static const char words[] = "control-predecessors={";
    size_t at = tn__xla_find(instruction->rest, words);
    if (at == instruction->rest.size) return (tn__span){0};
    tn__span list = {instruction->rest.bytes + at + sizeof words - 1,
                     instruction->rest.size - at - (sizeof words - 1)};
    list.size = tn__xla_find(list, "}");
    return list;
}

/* Whether an instruction must keep its order relative to others of this kind: communication, random
 * numbers, and calls with side effects. */
static bool needs_order(const tn__xla_instruction *instruction) {
    static const char *const begins[] = {"all-",    "reduce-scatter", "collective-", "send",
                                         "recv",    "infeed",         "outfeed",     "rng",
                                         "ragged-", "async-",         "partition-id"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (tn__xla_find(instruction->op, begins[i]) == 0 && instruction->op.size > 0) return true;
    return tn__xla_find(instruction->rest, "has_side_effect=true") < instruction->rest.size;
}

static bool needs_pairs(needs_work *work) {
    tn_foreign *foreign = work->foreign;
    uint32_t ordered = NEEDS_NONE;
    for (uint32_t step = 0; step < foreign->facts.step_count && !work->full; step++) {
        const char *name = foreign->steps[step];
        uint32_t number = tn__names_find(&work->text->names, name, strlen(name));
        foreign->needs.inner[step] = number == TN__NAMES_NONE;
        if (number == TN__NAMES_NONE) continue;
        const tn__xla_instruction *instruction = &work->text->instructions[number];
        foreign->needs.inner[step] = instruction->inner;
        if (!needs_operands(work, step, instruction->operands, true) ||
            !needs_operands(work, step, needs_control(instruction), false))
            return false;
        if (instruction->inner || !needs_order(instruction)) continue;
        if (ordered != NEEDS_NONE && !needs_after(work, step, ordered)) return false;
        ordered = step;
    }
    return true;
}

/* --- the needs of all steps --- */

static bool needs_index(needs_work *work) {
    const tn_foreign *foreign = work->foreign;
    for (size_t i = 0; i < work->text->count; i++) work->owned[i] = NEEDS_NONE;
    for (uint32_t v = foreign->facts.value_count; v-- > 0;) {
        const char *name = foreign->values[v].name;
        tn__span base = {(const uint8_t *)name, strcspn(name, "{")};
        uint32_t owner = needs_find(&work->text->names, base);
        if (owner == TN__NAMES_NONE) continue;
        work->next[v] = work->owned[owner];
        work->owned[owner] = v;
    }
    for (uint32_t step = 0; step < foreign->facts.step_count; step++)
        if (!tn__names_add(&work->steps, foreign->steps[step], strlen(foreign->steps[step]), step,
                           NULL))
            return false;
    for (uint32_t i = 0; i < work->text->count && !work->full; i++)
        if (!needs_stand(work, i)) return false;
    return true;
}

static bool needs_all_known(const tn_foreign *foreign, const tn__xla_text *text) {
    for (uint32_t step = 0; step < foreign->facts.step_count; step++)
        if (tn__names_find(&text->names, foreign->steps[step], strlen(foreign->steps[step])) ==
            TN__NAMES_NONE)
            return false;
    return true;
}

bool tn__xla_needs(tn_foreign *foreign, const tn__xla_text *text) {
    const tn_context *context = &foreign->context;
    size_t count = text->count + 1, value_room = (size_t)foreign->facts.value_count + 1;
    needs_work work = {.foreign = foreign, .text = text};
    if (!needs_all_known(foreign, text)) {
        foreign->needs.missing = "the text of the module does not contain all instructions";
        return true;
    }
    tn__names_init(&work.steps, context);
    work.owned = tn__alloc_array(context, count, sizeof *work.owned);
    work.next = tn__alloc_array(context, value_room, sizeof *work.next);
    work.spans = tn__alloc_array(context, count, sizeof *work.spans);
    foreign->needs.inner_room = (size_t)foreign->facts.step_count + 1;
    foreign->needs.inner = tn__alloc_array(context, foreign->needs.inner_room, 1);
    bool fits = work.owned != NULL && work.next != NULL && work.spans != NULL &&
                foreign->needs.inner != NULL && needs_index(&work) && needs_pairs(&work);
    foreign->needs.missing = work.full ? "the instructions have too many operands" : NULL;
    tn__free(context, work.owned, work.owned != NULL ? count * sizeof *work.owned : 0);
    tn__free(context, work.next, work.next != NULL ? value_room * sizeof *work.next : 0);
    tn__free(context, work.spans, work.spans != NULL ? count * sizeof *work.spans : 0);
    tn__free(context, work.carried, work.carried_room * sizeof *work.carried);
    tn__names_release(&work.steps);
    return fits;
}
