/* foreign.c - a plan of another tool: joins its values into buffers, verifies it, and makes it a
 * problem.
 *
 * A tool places two values at one offset on purpose if an operator works in place, a tensor is a
 * view, or a loop carries a value. Such values form one buffer, with their live ranges as sections.
 * In XLA a value is freed after all values of the same step are allocated, except at the same
 * offset: there one live range may end at the step in which the other begins. Values at one offset
 * that overlap for longer are not joined, so that the verifier finds them. The same holds for
 * ExecuTorch, but a view may begin anywhere within the live range of the value that it views, and
 * so may a value of equal size: the exporter may have declared it in place, which the file does not
 * show.
 *
 * Cost: O(n log n) for n values.
 */
#include "interop/foreign/foreign.h"

#include "io/import/kinds.h"

#include <inttypes.h>
#include <stdio.h>

/* limits of the inferred alignment: the largest one that each tool is known to use */
#define FOREIGN_ALIGNMENT_XLA 512u
#define FOREIGN_ALIGNMENT_PTE 16u

const char *tn_foreign_use_name(uint32_t use) {
    static const char *const names[] = {
#define TN_X(name, word) word,
        TN_FOREIGN_USE_TABLE(TN_X)
#undef TN_X
    };
    return use < TN_FOREIGN_USE_COUNT ? names[use] : "";
}

/* --- building --- */

tn_status tn__foreign_create(const tn_context *context, const char *tool, const char *form,
                             tn_foreign **foreign, tn_error *error) {
    tn_context whole = tn__context(context);
    tn_foreign *made = tn__alloc(&whole, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a plan");
    *made = (tn_foreign){.context = whole};
    tn__arena_init(&made->texts, &made->context);
    made->facts.tool = tool;
    made->facts.form = form;
    made->facts.module = "";
    made->facts.modules = 1;
    made->needs.missing = "the dump has no text of the module";
    *foreign = made;
    return TN_OK;
}

void tn_foreign_destroy(tn_foreign *foreign) {
    if (foreign == NULL) return;
    const tn_context context = foreign->context;
    const size_t values = foreign->value_room;
    tn__free(&context, foreign->arenas, foreign->arena_room * sizeof *foreign->arenas);
    tn__free(&context, foreign->values, values * sizeof *foreign->values);
    tn__free(&context, foreign->operands, foreign->operand_room * sizeof *foreign->operands);
    tn__free(&context, foreign->marks, foreign->mark_room);
    tn__free(&context, (void *)(uintptr_t)foreign->steps,
             foreign->step_room * sizeof *foreign->steps);
    tn__free(&context, foreign->bodies, foreign->body_room * sizeof *foreign->bodies);
    tn__free(&context, foreign->order, foreign->order_room * sizeof *foreign->order);
    tn__free(&context, foreign->owner, foreign->order_room * sizeof *foreign->owner);
    tn__free(&context, foreign->needs.after,
             foreign->needs.after_room * sizeof *foreign->needs.after);
    tn__free(&context, foreign->needs.reads,
             foreign->needs.read_room * sizeof *foreign->needs.reads);
    tn__free(&context, foreign->needs.inner, foreign->needs.inner_room);
    tn__arena_release(&foreign->texts);
    tn__file_unmap(&foreign->file);
    tn__free(&context, foreign, sizeof *foreign);
}

bool tn__foreign_add_arena(tn_foreign *foreign, const tn_foreign_arena *arena) {
    uint32_t count = foreign->facts.arena_count;
    if (!tn__reserve(&foreign->context, &foreign->arenas, &foreign->arena_room, (size_t)count + 1,
                     sizeof *foreign->arenas))
        return false;
    foreign->arenas[count] = *arena;
    foreign->facts.arena_count = count + 1;
    return true;
}

bool tn__foreign_add_value(tn_foreign *foreign, const tn_foreign_value *value) {
    uint32_t count = foreign->facts.value_count;
    if (!tn__reserve(&foreign->context, &foreign->values, &foreign->value_room, (size_t)count + 1,
                     sizeof *foreign->values))
        return false;
    foreign->values[count] = *value;
    foreign->values[count].buffer = UINT32_MAX;
    foreign->facts.value_count = count + 1;
    return true;
}

bool tn__foreign_add_step(tn_foreign *foreign, const char *name) {
    uint32_t count = foreign->facts.step_count;
    if (!tn__reserve(&foreign->context, &foreign->steps, &foreign->step_room, (size_t)count + 1,
                     sizeof *foreign->steps))
        return false;
    foreign->steps[count] = name;
    foreign->facts.step_count = count + 1;
    return true;
}

char *tn__foreign_text(tn_foreign *foreign, tn__span text) {
    return tn__arena_string(&foreign->texts, (const char *)text.bytes, text.size);
}

/* --- joining --- */

typedef struct foreign_place { /* the sort key of a value */
    uint32_t arena, value;
    uint64_t offset;
    int64_t first, last;
} foreign_place;

static int foreign_place_order(const void *a, const void *b) {
    const foreign_place *x = a, *y = b;
    if (x->arena != y->arena) return x->arena < y->arena ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static bool foreign_is(const tn_foreign *foreign, uint32_t value, uint8_t mark) {
    return foreign->marks != NULL && (foreign->marks[value] & mark) != 0;
}

/* Whether a value joins the buffer of the values before it at the same offset. */
static bool foreign_joins(const tn_foreign *foreign, const foreign_body *body,
                          const foreign_place *place) {
    if (body->arena != place->arena || body->offset != place->offset) return false;
    if (body->is_alone || foreign_is(foreign, place->value, TN__FOREIGN_ALONE)) return false;
    bool is_same = foreign->marks != NULL && foreign->values[place->value].size == body->size;
    if (foreign_is(foreign, place->value, TN__FOREIGN_APART) && (!is_same || body->is_mixed))
        return false;
    if (is_same || foreign_is(foreign, place->value, TN__FOREIGN_VIEW))
        return place->first < body->end;
    return place->first == body->end - 1;
}

/* Whether the text of an instruction's operands contains the name of `value`. */
static bool foreign_reads(tn__span operands, const char *value) {
    size_t length = strcspn(value, "{");
    for (size_t at = 0; at + length <= operands.size && length > 0; at++) {
        const char *text = (const char *)operands.bytes + at;
        static const char inner[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_.-";
        bool begins = at == 0 || strchr(inner, text[-1]) == NULL;
        bool ends = at + length == operands.size || strchr(inner, text[length]) == NULL;
        if (begins && ends && memcmp(text, value, length) == 0) return true;
    }
    return false;
}

static void foreign_note_join(tn_foreign *foreign, uint32_t value, uint32_t before) {
    foreign->facts.joined++;
    if (foreign->operands != NULL &&
        foreign_reads(foreign->operands[value], foreign->values[before].name))
        foreign->facts.joined_seen++;
}

/* Assigns each value, in the order of the sorted places, to a buffer. */
static tn_status foreign_join(tn_foreign *foreign, const foreign_place *places, uint32_t count,
                              tn_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const foreign_place *place = &places[i];
        tn_foreign_value *value = &foreign->values[place->value];
        foreign_body *body =
            foreign->body_count > 0 ? &foreign->bodies[foreign->body_count - 1] : NULL;
        foreign->order[i] = place->value;
        if (body == NULL || !foreign_joins(foreign, body, place)) {
            if (!tn__reserve(&foreign->context, &foreign->bodies, &foreign->body_room,
                             foreign->body_count + 1, sizeof *foreign->bodies))
                return tn__no_memory(error, "buffers");
            bool planned = foreign->arenas[place->arena].use == TN_FOREIGN_PLANNED;
            body = &foreign->bodies[foreign->body_count++];
            *body = (foreign_body){.arena = place->arena,
                                   .start = i,
                                   .offset = place->offset,
                                   .end = place->last,
                                   .is_alone = foreign_is(foreign, place->value, TN__FOREIGN_ALONE),
                                   .buffer = planned ? foreign->facts.buffer_count++ : UINT32_MAX};
        } else {
            foreign_note_join(foreign, place->value, foreign->order[i - 1]);
        }
        if (body->count > 0 && value->size != body->size) body->is_mixed = true;
        body->count++;
        if (value->size > body->size) body->size = value->size;
        if (place->last > body->end) body->end = place->last;
        foreign->owner[place->value] = (uint32_t)foreign->body_count - 1;
        value->buffer = body->buffer;
    }
    return TN_OK;
}

static tn_status foreign_make_bodies(tn_foreign *foreign, tn_error *error) {
    const tn_context *context = &foreign->context;
    uint32_t values = foreign->facts.value_count, count = 0;
    size_t room = (size_t)values + 1;
    foreign->order = tn__alloc_array(context, room, sizeof *foreign->order);
    foreign->owner = tn__alloc_array(context, room, sizeof *foreign->owner);
    foreign_place *places = tn__alloc_array(context, room, sizeof *places);
    foreign->order_room = room;
    if (foreign->order == NULL || foreign->owner == NULL || places == NULL) {
        tn__free(context, places, room * sizeof *places);
        return tn__no_memory(error, "buffers");
    }
    for (uint32_t i = 0; i < values; i++) {
        const tn_foreign_value *value = &foreign->values[i];
        foreign->owner[i] = UINT32_MAX;
        if (value->size > 0)
            places[count++] =
                (foreign_place){value->arena, i, value->offset, value->first, value->last};
    }
    qsort(places, count, sizeof *places, foreign_place_order);
    tn_status status = foreign_join(foreign, places, count, error);
    tn__free(context, places, room * sizeof *places);
    return status;
}

/* --- problems --- */

/* Adds a buffer to the problem, with a section for each of its values. `alignment` 0: the problem
 * only measures the plan, so nothing is pinned. */
static tn_status foreign_add_body(const tn_foreign *foreign, const foreign_body *body,
                                  uint64_t alignment, tn_bank_id bank, tn_problem *problem,
                                  tn_error *error) {
    tn_piece one, *pieces = &one;
    size_t size = body->count * sizeof *pieces;
    uint32_t flags = 0;
    if (body->count > 1) pieces = tn__alloc(&foreign->context, size);
    if (pieces == NULL) return tn__no_memory(error, "a buffer");
    for (uint32_t i = 0; i < body->count; i++) {
        uint32_t number = foreign->order[body->start + i];
        const tn_foreign_value *value = &foreign->values[number];
        if (alignment != 0 && foreign_is(foreign, number, TN__FOREIGN_FIXED))
            flags = TN_BODY_PINNED;
        pieces[i] = (tn_piece){.first = value->first, .last = value->last, .hi = value->size};
    }
    const tn_body made = {.size = body->size,
                          .alignment = alignment,
                          .offset = body->offset,
                          .flags = flags,
                          .bank = bank,
                          .pieces = pieces,
                          .piece_count = body->count,
                          .name = foreign->values[foreign->order[body->start]].name};
    tn_status status = tn_problem_add(problem, &made, NULL, error);
    if (pieces != &one) tn__free(&foreign->context, pieces, size);
    return status;
}

/* The buffers [from, to) of one arena. */
typedef struct foreign_range {
    uint32_t from, to;
} foreign_range;

static foreign_range foreign_next(const tn_foreign *foreign, uint32_t from) {
    foreign_range range = {from, from};
    while (range.to < foreign->body_count &&
           foreign->bodies[range.to].arena == foreign->bodies[from].arena)
        range.to++;
    return range;
}

static tn_status foreign_arena_problem(const tn_foreign *foreign, foreign_range range,
                                       tn_problem **problem, tn_error *error) {
    tn_problem *made;
    tn_status status = TN_OK;
    TN_TRY(tn_problem_create(&foreign->context, &made, error));
    for (uint32_t i = range.from; i < range.to && status == TN_OK; i++)
        status = foreign_add_body(foreign, &foreign->bodies[i], 0, 0, made, error);
    if (status == TN_OK)
        *problem = made;
    else
        tn_problem_destroy(made);
    return status;
}

static tn_status foreign_bound(tn_foreign *foreign, foreign_range range, tn_error *error) {
    tn_foreign_arena *arena = &foreign->arenas[foreign->bodies[range.from].arena];
    tn_problem *problem;
    int64_t step;
    TN_TRY(foreign_arena_problem(foreign, range, &problem, error));
    tn_status status = tn_problem_lower_bound(problem, 0, &arena->live, &arena->step, error);
    if (status == TN_OK) status = tn_problem_set_alignment(problem, arena->alignment, error);
    if (status == TN_OK) status = tn_problem_lower_bound(problem, 0, &arena->bound, &step, error);
    tn_problem_destroy(problem);
    return status;
}

static tn_status foreign_bounds(tn_foreign *foreign, tn_error *error) {
    tn_foreign_facts *facts = &foreign->facts;
    foreign_range range;
    for (uint32_t at = 0; at < foreign->body_count && facts->has_lives; at = range.to) {
        range = foreign_next(foreign, at);
        const tn_foreign_arena *arena = &foreign->arenas[foreign->bodies[at].arena];
        if (arena->use != TN_FOREIGN_PLANNED) continue;
        TN_TRY(foreign_bound(foreign, range, error));
        facts->live = tn__add_sat(facts->live, arena->live);
        facts->bound = tn__add_sat(facts->bound, arena->bound);
    }
    return TN_OK;
}

/* Infers the alignment of each arena from its offsets, and sums up the arenas by use. */
static tn_status foreign_align(tn_foreign *foreign, tn_error *error) {
    tn_foreign_facts *facts = &foreign->facts;
    for (uint32_t i = 0; i < facts->arena_count; i++)
        foreign->arenas[i].alignment =
            foreign->marks != NULL ? FOREIGN_ALIGNMENT_PTE : FOREIGN_ALIGNMENT_XLA;
    for (uint32_t i = 0; i < facts->value_count; i++) {
        const tn_foreign_value *value = &foreign->values[i];
        tn_foreign_arena *arena = &foreign->arenas[value->arena];
        while (value->offset % arena->alignment != 0) arena->alignment /= 2;
        facts->without_life += value->has_no_life;
    }
    for (uint32_t i = 0; i < facts->arena_count; i++) {
        uint64_t *bytes = &facts->bytes[foreign->arenas[i].use];
        if (!tn__add(*bytes, foreign->arenas[i].size, bytes))
            TN_FAIL(error, TN_E_INVALID, "the arenas have more than 2^64 bytes in all");
    }
    facts->planned = facts->bytes[TN_FOREIGN_PLANNED];
    return TN_OK;
}

tn_status tn__foreign_finish(tn_foreign *foreign, tn_error *error) {
    TN_TRY(foreign_align(foreign, error));
    TN_TRY(foreign_make_bodies(foreign, error));
    tn__free(&foreign->context, foreign->operands,
             foreign->operand_room * sizeof *foreign->operands);
    foreign->operands = NULL; /* the operands point into a file that the reader closes */
    return foreign_bounds(foreign, error);
}

static tn_status foreign_check_lives(const tn_foreign *foreign, tn_error *error) {
    if (foreign->facts.has_lives) return TN_OK;
    TN_FAIL(
        error, TN_E_UNSUPPORTED,
        "the dump has no live ranges, so only its sums are known; make it of a module that has a "
        "schedule, with xla_dump_buffer_assignment_analysis=true in XLA_FLAGS");
}

/* Fills in the problem and the offsets, with one bank for each planned arena. A plan with one
 * planned arena uses the default bank, which gets the arena's name. */
static tn_status foreign_fill(const tn_foreign *foreign, tn_problem *problem, uint64_t *offsets,
                              tn_error *error) {
    tn_bank_id bank = 0;
    for (uint32_t i = 0, arena = UINT32_MAX; i < foreign->body_count; i++) {
        const foreign_body *body = &foreign->bodies[i];
        if (body->buffer == UINT32_MAX) continue;
        if (body->arena != arena) {
            const tn_bank made = {.name = foreign->arenas[body->arena].name};
            bank += arena != UINT32_MAX;
            arena = body->arena;
            TN_TRY(tn_problem_set_bank(problem, bank, &made, error));
        }
        TN_TRY(foreign_add_body(foreign, body, foreign->arenas[arena].alignment, bank, problem,
                                error));
        offsets[body->buffer] = body->offset;
    }
    return TN_OK;
}

tn_status tn_foreign_problem(const tn_foreign *foreign, tn_problem **problem, uint64_t **offsets,
                             tn_error *error) {
    tn_problem *made;
    TN_TRY(foreign_check_lives(foreign, error));
    TN_TRY(tn_problem_create(&foreign->context, &made, error));
    size_t size = (size_t)foreign->facts.buffer_count * sizeof(uint64_t);
    uint64_t *places = tn__alloc(&foreign->context, size);
    tn_status status = places != NULL ? foreign_fill(foreign, made, places, error)
                                      : tn__no_memory(error, "offsets");
    if (status != TN_OK || offsets == NULL) {
        tn__free(&foreign->context, places, size);
        places = NULL;
    }
    if (status != TN_OK) {
        tn_problem_destroy(made);
        return status;
    }
    if (offsets != NULL) *offsets = places;
    *problem = made;
    return TN_OK;
}

/* --- verifying --- */

/* Finds the value of a buffer that is live at a step and extends to byte `lo`; if there are
 * several, the last one. */
static uint32_t foreign_value_at(const tn_foreign *foreign, const foreign_body *body, int64_t step,
                                 uint64_t lo) {
    uint32_t found = foreign->order[body->start];
    for (uint32_t i = 0; i < body->count; i++) {
        const tn_foreign_value *value = &foreign->values[foreign->order[body->start + i]];
        if (value->first <= step && step < value->last && value->offset + value->size > lo)
            found = foreign->order[body->start + i];
    }
    return found;
}

static tn_status foreign_check_arena(const tn_foreign *foreign, foreign_range range,
                                     tn_conflict *conflict, tn_error *error) {
    tn_problem *problem;
    tn_layout layout = {0};
    uint32_t count = range.to - range.from;
    TN_TRY(foreign_arena_problem(foreign, range, &problem, error));
    uint64_t *offsets = tn__alloc_array(&foreign->context, count, sizeof *offsets);
    tn_status status = offsets != NULL ? TN_OK : tn__no_memory(error, "offsets");
    for (uint32_t i = 0; i < count && status == TN_OK; i++)
        offsets[i] = foreign->bodies[range.from + i].offset;
    if (status == TN_OK) status = tn_layout_from_offsets(problem, offsets, &layout, error);
    if (status == TN_OK) status = tn_layout_verify(problem, &layout, conflict, error);
    tn_layout_release(&layout);
    tn__free(&foreign->context, offsets, count * sizeof *offsets);
    tn_problem_destroy(problem);
    return status;
}

static tn_status foreign_conflict_fail(const tn_foreign *foreign, const tn_foreign_conflict *found,
                                       tn_error *error) {
    TN_FAIL(error, TN_E_CONFLICT,
            "'%.100s' and '%.100s' share bytes [%" PRIu64 ", %" PRIu64 ") of %.40s at step %" PRId64
            " (%.60s)",
            foreign->values[found->a].name, foreign->values[found->b].name, found->lo, found->hi,
            foreign->arenas[found->arena].name, found->step, tn_foreign_step(foreign, found->step));
}

tn_status tn_foreign_verify(const tn_foreign *foreign, tn_foreign_conflict *conflict,
                            tn_error *error) {
    tn_foreign_conflict first = {.step = INT64_MAX};
    bool found = false;
    foreign_range range;
    TN_TRY(foreign_check_lives(foreign, error));
    for (uint32_t at = 0; at < foreign->body_count; at = range.to) {
        tn_conflict one = {0};
        range = foreign_next(foreign, at);
        if (range.to - range.from < 2) continue;
        tn_status status = foreign_check_arena(foreign, range, &one, error);
        if (status != TN_OK && status != TN_E_CONFLICT) return status;
        if (status == TN_OK || one.step > first.step ||
            (one.step == first.step && one.lo >= first.lo && found))
            continue;
        const foreign_body *a = &foreign->bodies[range.from + one.a];
        const foreign_body *b = &foreign->bodies[range.from + one.b];
        first = (tn_foreign_conflict){.a = foreign_value_at(foreign, a, one.step, one.lo),
                                      .b = foreign_value_at(foreign, b, one.step, one.lo),
                                      .arena = a->arena,
                                      .step = one.step,
                                      .lo = one.lo,
                                      .hi = one.hi};
        found = true;
    }
    if (conflict != NULL) *conflict = first;
    if (found) return foreign_conflict_fail(foreign, &first, error);
    if (foreign->facts.doubt != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "unknown whether this plan is valid: %.300s",
                foreign->facts.doubt);
    return TN_OK;
}

/* --- reading --- */

const tn_foreign_facts *tn_foreign_facts_of(const tn_foreign *foreign) { return &foreign->facts; }

const tn_foreign_arena *tn_foreign_arenas(const tn_foreign *foreign, uint32_t *count) {
    *count = foreign->facts.arena_count;
    return foreign->arenas;
}

const tn_foreign_value *tn_foreign_values(const tn_foreign *foreign, uint32_t *count) {
    *count = foreign->facts.value_count;
    return foreign->values;
}

const char *tn_foreign_step(const tn_foreign *foreign, int64_t step) {
    return step >= 0 && step < foreign->facts.step_count ? foreign->steps[step] : "";
}

static bool foreign_is_live(const tn_foreign_value *value, int64_t step) {
    return value->first <= step && step < value->last;
}

/* Finds the largest live value of a buffer; UINT32_MAX if none is live. */
static uint32_t foreign_holder(const tn_foreign *foreign, const foreign_body *body, int64_t step) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < body->count; i++) {
        uint32_t value = foreign->order[body->start + i];
        if (foreign_is_live(&foreign->values[value], step) &&
            (found == UINT32_MAX || foreign->values[value].size > foreign->values[found].size))
            found = value;
    }
    return found;
}

uint32_t tn_foreign_holders(const tn_foreign *foreign, uint32_t arena, int64_t step,
                            uint32_t *values, uint32_t room) {
    size_t most = foreign->body_count + 1;
    tn__sort_item *items = tn__alloc_array(&foreign->context, most, sizeof *items);
    uint32_t count = 0;
    for (size_t i = 0; i < foreign->body_count && items != NULL; i++) {
        uint32_t value = foreign->bodies[i].arena == arena
                             ? foreign_holder(foreign, &foreign->bodies[i], step)
                             : UINT32_MAX;
        if (value == UINT32_MAX) continue;
        items[count++] = (tn__sort_item){UINT64_MAX - foreign->values[value].size, value};
    }
    if (items != NULL && !tn__sort_items(&foreign->context, items, count)) count = 0;
    for (uint32_t i = 0; i < count && i < room; i++) values[i] = items[i].id;
    tn__free(&foreign->context, items, most * sizeof *items);
    return count;
}

/* --- files --- */

bool tn_foreign_recognises(const char *path) {
    return tn__has_suffix(path, ".pte") || tn__xla_recognises(path);
}

static tn_status foreign_load_pte(const char *path, const tn_foreign_options *options,
                                  tn_foreign **foreign, tn_error *error) {
    tn__file file;
    const tn_context context = tn__context(options->context);
    TN_TRY(tn__file_map_most(path, context.read_limit, &file, error));
    tn__span bytes = {file.bytes, file.size};
    const tn__file_kind *kind = tn__file_kind_of(bytes);
    bool other = kind != NULL && (kind->suffix == NULL || strcmp(kind->suffix, ".pte") != 0);
    tn_status status = other
                           ? tn__where(error, tn__file_kind_refuse(kind, ".pte", error), "%s", path)
                           : tn__pte_read(path, bytes, options->module, &context, foreign, error);
    if (status == TN_OK)
        (*foreign)->file = file;
    else
        tn__file_unmap(&file);
    return status;
}

tn_status tn_foreign_load(const char *path, const tn_foreign_options *options, tn_foreign **foreign,
                          tn_error *error) {
    tn_foreign_options whole = TN_FOREIGN_OPTIONS_INIT;
    tn_foreign *made = NULL;
    if (options != NULL) tn__options(&whole, sizeof whole, options);
    TN_TRY(tn__has_suffix(path, ".pte") ? foreign_load_pte(path, &whole, &made, error)
                                        : tn__xla_load(path, &whole, &made, error));
    *foreign = made;
    return TN_OK;
}

/* --- writing --- */

/* Computes the bytes of each arena with the new offsets. Bytes that the old plan kept free above
 * its highest buffer are kept, because delegates may read them. `ends` [arenas] must be zeroed. */
static void foreign_sizes(const tn_foreign *foreign, const uint64_t *offsets, uint64_t *sizes,
                          uint64_t *ends) {
    for (size_t k = 0; k < foreign->body_count; k++) {
        const foreign_body *body = &foreign->bodies[k];
        uint64_t before = body->offset + body->size;
        uint64_t after = tn__add_sat(offsets[body->buffer], body->size);
        if (before > ends[body->arena]) ends[body->arena] = before;
        if (after > sizes[body->arena]) sizes[body->arena] = after;
    }
    for (uint32_t i = 0; i < foreign->facts.arena_count; i++)
        sizes[i] = tn__add_sat(sizes[i], foreign->arenas[i].size - ends[i]);
}

static tn_status foreign_check_layout(const tn_foreign *foreign, const tn_layout *layout,
                                      tn_error *error) {
    tn_problem *problem;
    TN_TRY(tn_foreign_problem(foreign, &problem, NULL, error));
    tn_status status = tn_layout_verify(problem, layout, NULL, error);
    tn_problem_destroy(problem);
    return status;
}

tn_status tn__foreign_rewrite(const tn_foreign *foreign, tn__span file, const tn_layout *layout,
                              tn__text *out, tn_error *error) {
    const tn_context *context = &foreign->context;
    TN_TRY(foreign_check_layout(foreign, layout, error));
    if (tn_foreign_verify(foreign, NULL, error) == TN_E_CONFLICT)
        TN_FAIL(error, TN_E_CONFLICT,
                "the old plan is not valid, so its offsets do not show which values are views; "
                "verify the program, and export it again");
    size_t arenas = (size_t)foreign->facts.arena_count + 1;
    uint64_t *sizes = tn__alloc_array(context, 2 * arenas, sizeof *sizes);
    if (sizes == NULL) return tn__no_memory(error, "a plan");
    foreign_sizes(foreign, layout->offset, sizes, sizes + arenas);
    tn_status status = tn__pte_rewrite(foreign, file, layout->offset, sizes, out, error);
    tn__free(context, sizes, 2 * arenas * sizeof *sizes);
    return status;
}

tn_status tn_foreign_rewrite(const tn_foreign *foreign, const tn_layout *layout, const char *path,
                             tn_error *error) {
    tn__text out;
    if (foreign->file.bytes == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "only a plan inside a .pte file can be replaced");
    tn__text_init(&out, &foreign->context);
    tn_status status = tn__foreign_rewrite(
        foreign, (tn__span){foreign->file.bytes, foreign->file.size}, layout, &out, error);
    if (status == TN_OK) status = tn__file_write(path, out.data, out.size, error);
    tn__text_release(&out);
    return status;
}
