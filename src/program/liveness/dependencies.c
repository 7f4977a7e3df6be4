/* dependencies.c - lists the dependencies that a layout adds to a program by sharing memory, and
 * finds layouts that add fewer.
 *
 * A sweep visits the live ranges in the order of their definition and keeps the last holder of
 * every byte. A live range that writes takes bytes from their holders, and every user of a holder
 * must be over before. If the graph has no path that guarantees this order, the layout adds a
 * dependency. Views write nothing: their readers count as readers of the viewed live range. A
 * concatenation without copies does not overwrite the inputs that lie in it: from then on they
 * count as views of it.
 *
 * The address range is cut at each begin and end of a live range. A bit set marks where a section
 * with one holder begins. A live range replaces the sections that it covers and leaves at most one
 * more, so all visits together meet O(live ranges) sections.
 */
#include "base/sorted.h"
#include "program/liveness/liveness.h"
#include "program/program.h"

#include <string.h>

/* --- dependencies of a layout ----------------------------------------------------------------- */

typedef struct deps_pair {
    /* while pairs are collected, numbers of steps: `before` must be over when `after` starts */
    uint32_t before, after;
} deps_pair;

typedef struct deps_item { /* a live range that writes, at its address in the layout */
    uint32_t range;
    tn_bank_id bank;
    uint64_t lo, hi;
} deps_item;

typedef struct deps_state {
    const tn_occupancy *occupancy;
    const tn_layout *layout;
    const tn_context *context;
    tn_error *error;
    tn__happens happens;
    /* [ranges] for a live range that writes: the newest of its views, the head of a list;
     * RANGE_NONE: no view */
    uint32_t *viewers;
    uint32_t *chain; /* [ranges] next view in the list that begins with `viewers` */
    /* [ranges] whether a live range that writes has become part of a concatenation, so that it now
     * counts as a view */
    bool *under;
    deps_item *items;
    uint32_t item_count;
    uint64_t *cuts;
    uint32_t cut_count;
    /* [cuts] index in `items` of the live range that holds the section which begins at this cut */
    uint32_t *holder;
    uint64_t *starts; /* bits */
    size_t words, ranges;
    deps_pair *pairs;
    size_t pair_count, pair_room;
} deps_state;

/* --- sections of one holder --- */

static bool deps_starts(const deps_state *deps, uint32_t cut) {
    return (deps->starts[cut / 64] >> (cut % 64) & 1) != 0;
}

/* Returns the cut that begins the section containing `cut`; it exists because cut 0 always begins a
 * section. */
static uint32_t deps_below(const deps_state *deps, uint32_t cut) {
    size_t word = cut / 64;
    uint64_t bits = deps->starts[word] & (~0ull >> (63 - cut % 64));
    while (bits == 0) bits = deps->starts[--word];
    return (uint32_t)(word * 64) + 63 - (uint32_t)__builtin_clzll(bits);
}

/* Returns the next cut after `cut` that begins a section; cut_count if no later one does. */
static uint32_t deps_above(const deps_state *deps, uint32_t cut) {
    size_t word = (cut + 1) / 64;
    if (cut + 1 >= deps->cut_count) return deps->cut_count;
    uint64_t bits = deps->starts[word] & (~0ull << ((cut + 1) % 64));
    while (bits == 0 && ++word < deps->words) bits = deps->starts[word];
    return bits == 0 ? deps->cut_count : (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(bits);
}

static void deps_set(deps_state *deps, uint32_t cut, bool starts) {
    uint64_t bit = 1ull << (cut % 64);
    if (starts)
        deps->starts[cut / 64] |= bit;
    else
        deps->starts[cut / 64] &= ~bit;
}

static uint32_t deps_cut(const deps_state *deps, uint64_t at) {
    return (uint32_t)tn__sorted_interval(deps->cuts, deps->cut_count, at);
}

/* --- pairs --- */

static bool deps_is_apply(const deps_state *deps, uint32_t step) {
    return tn_program_instructions(deps->occupancy->program)[step].opcode == TN_APPLY;
}

/* Records a dependency between two steps: the layout requires that step `use` is over before step
 * `step` writes, and no path of the graph guarantees it. Steps inside control flow are represented
 * by the APPLY of their operator. */
static tn_status deps_note(deps_state *deps, uint32_t use, uint32_t step) {
    uint32_t before = deps->happens.exit[use], after = deps->happens.exit[step];
    if (before == after || tn__happens_before(&deps->happens, use, step)) return TN_OK;
    if (!deps_is_apply(deps, before) || !deps_is_apply(deps, after)) return TN_OK;
    if (!tn__reserve(deps->context, &deps->pairs, &deps->pair_room, deps->pair_count + 1,
                     sizeof *deps->pairs))
        return tn__no_memory(deps->error, "dependencies");
    deps->pairs[deps->pair_count++] = (deps_pair){before, after};
    return TN_OK;
}

static tn_status deps_note_range(deps_state *deps, const live_range *old, uint32_t step) {
    const range_uses *uses = &deps->occupancy->uses;
    if (old->newest == RANGE_NONE) return deps_note(deps, old->first, step);
    for (uint32_t at = old->newest; at != RANGE_NONE; at = uses->items[at].next)
        TN_TRY(deps_note(deps, uses->items[at].step, step));
    return TN_OK;
}

/* Called when a concatenation finds its input `old` at its place in the output: from now on, `old`
 * and its views count as views of the output. */
static void deps_keep(deps_state *deps, uint32_t old, uint32_t output) {
    if (deps->under[old]) return;
    uint32_t last = old, next = deps->viewers[old];
    deps->under[old] = true;
    deps->viewers[old] = RANGE_NONE;
    deps->chain[old] = next;
    while (deps->chain[last] != RANGE_NONE) last = deps->chain[last];
    deps->chain[last] = deps->viewers[output];
    deps->viewers[output] = old;
}

/* Called when the live range `fresh` overwrites bytes of the live range `old`: records that all
 * users of these bytes, including users of views, must be over before. If `fresh` is a
 * concatenation that contains `old` in its buffer, `old` becomes a view of it instead. */
static tn_status deps_take(deps_state *deps, const deps_item *old, const deps_item *fresh) {
    const live_range *ranges = deps->occupancy->found;
    uint32_t step = ranges[fresh->range].first;
    uint64_t base = deps->layout->offset[ranges[old->range].body];
    if (ranges[fresh->range].share == TN_SHARE_FUSED &&
        ranges[fresh->range].body == ranges[old->range].body) {
        deps_keep(deps, old->range, fresh->range);
        return TN_OK;
    }
    TN_TRY(deps_note_range(deps, &ranges[old->range], step));
    for (uint32_t v = deps->viewers[old->range]; v != RANGE_NONE; v = deps->chain[v]) {
        if (base + ranges[v].lo >= fresh->hi || base + ranges[v].hi <= fresh->lo) continue;
        TN_TRY(deps_note_range(deps, &ranges[v], step));
    }
    return TN_OK;
}

/* --- the sweep --- */

static tn_status deps_visit(deps_state *deps, uint32_t index) {
    const deps_item *item = &deps->items[index];
    uint32_t first = deps_cut(deps, item->lo), last = deps_cut(deps, item->hi), holder = RANGE_NONE;
    uint32_t at = deps_below(deps, first), asked = RANGE_NONE;
    do {
        holder = deps->holder[at];
        /* skips the holder if the previous section had that holder as well */
        if (holder != RANGE_NONE && holder != asked)
            TN_TRY(deps_take(deps, &deps->items[holder], item));
        asked = holder;
        uint32_t next = deps_above(deps, at);
        if (at > first) deps_set(deps, at, false);
        at = next;
    } while (at < last);
    if (!deps_starts(deps, last)) {
        deps_set(deps, last, true);
        deps->holder[last] = holder;
    }
    deps_set(deps, first, true);
    deps->holder[first] = index;
    return TN_OK;
}

static int deps_number_order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Visits the items [first, last), which are all in one memory bank. */
static tn_status deps_sweep(deps_state *deps, uint32_t first, uint32_t last) {
    uint32_t cuts = 0;
    for (uint32_t i = first; i < last; i++) {
        deps->cuts[cuts++] = deps->items[i].lo;
        deps->cuts[cuts++] = deps->items[i].hi;
    }
    qsort(deps->cuts, cuts, sizeof *deps->cuts, deps_number_order);
    deps->cut_count = 0;
    for (uint32_t i = 0; i < cuts; i++)
        if (i == 0 || deps->cuts[i] != deps->cuts[deps->cut_count - 1])
            deps->cuts[deps->cut_count++] = deps->cuts[i];
    memset(deps->starts, 0, deps->words * sizeof *deps->starts);
    for (uint32_t i = 0; i < deps->cut_count; i++) deps->holder[i] = RANGE_NONE;
    deps_set(deps, 0, true);
    for (uint32_t i = first; i < last; i++) TN_TRY(deps_visit(deps, i));
    return TN_OK;
}

/* Sorts by memory bank, then by definition: live ranges are numbered in that order. */
static int deps_item_order(const void *a, const void *b) {
    const deps_item *x = a, *y = b;
    if (x->bank != y->bank) return x->bank < y->bank ? -1 : 1;
    return (x->range > y->range) - (x->range < y->range);
}

/* Lists the live ranges that write, and links each view to the live range whose bytes it shows,
 * through any number of views. */
static void deps_gather(deps_state *deps) {
    const live_range *ranges = deps->occupancy->found;
    for (uint32_t i = 0; i < deps->ranges; i++) deps->viewers[i] = deps->chain[i] = RANGE_NONE;
    /* [ranges] the live range that wrote the bytes which this live range shows. The array lies in
     * the memory of `holder`, which is not used yet. */
    uint32_t *writer = deps->holder;
    for (uint32_t i = 0; i < deps->ranges; i++) {
        const live_range *range = &ranges[i];
        writer[i] = range->share == TN_SHARE_VIEW ? writer[range->taken] : i;
        if (writer[i] != i) {
            deps->chain[i] = deps->viewers[writer[i]];
            deps->viewers[writer[i]] = i;
        } else if (range->lo < range->hi) {
            uint64_t base = deps->layout->offset[range->body];
            deps->items[deps->item_count++] =
                (deps_item){i, deps->layout->bank[range->body], base + range->lo, base + range->hi};
        }
    }
    if (deps->item_count > 0)
        qsort(deps->items, deps->item_count, sizeof *deps->items, deps_item_order);
}

static int deps_pair_order(const void *a, const void *b) {
    const deps_pair *x = a, *y = b;
    if (x->before != y->before) return x->before < y->before ? -1 : 1;
    return (x->after > y->after) - (x->after < y->after);
}

static tn_status deps_collect(deps_state *deps) {
    deps_gather(deps);
    for (uint32_t first = 0, last; first < deps->item_count; first = last) {
        last = first;
        while (last < deps->item_count && deps->items[last].bank == deps->items[first].bank) last++;
        TN_TRY(deps_sweep(deps, first, last));
    }
    size_t kept = 0;
    if (deps->pair_count > 0)
        qsort(deps->pairs, deps->pair_count, sizeof *deps->pairs, deps_pair_order);
    for (size_t i = 0; i < deps->pair_count; i++)
        if (i == 0 || deps_pair_order(&deps->pairs[i], &deps->pairs[kept - 1]) != 0)
            deps->pairs[kept++] = deps->pairs[i];
    deps->pair_count = kept;
    return TN_OK;
}

/* Copies the dependencies for the caller. The list comes from calloc, because it outlives the
 * context of the call. */
static tn_status deps_hand_over(const deps_state *deps, tn_dependency **list, uint64_t *count) {
    const tn_instruction *instructions = tn_program_instructions(deps->occupancy->program);
    if (list != NULL) {
        tn_dependency *made = calloc(deps->pair_count + 1, sizeof *made);
        if (made == NULL) return tn__no_memory(deps->error, "dependencies");
        for (size_t i = 0; i < deps->pair_count; i++)
            made[i] = (tn_dependency){instructions[deps->pairs[i].before].op,
                                      instructions[deps->pairs[i].after].op};
        *list = made;
    }
    *count = deps->pair_count;
    return TN_OK;
}

static tn_status deps_room(deps_state *deps, tn__arena *scratch) {
    size_t n = deps->ranges, cuts = 2 * n + 1;
    bool all = (deps->viewers = tn__arena_array(scratch, n, sizeof *deps->viewers)) &&
               (deps->chain = tn__arena_array(scratch, n, sizeof *deps->chain)) &&
               (deps->under = tn__arena_array(scratch, n, sizeof *deps->under)) &&
               (deps->items = tn__arena_array(scratch, n, sizeof *deps->items)) &&
               (deps->cuts = tn__arena_array(scratch, cuts, sizeof *deps->cuts)) &&
               (deps->holder = tn__arena_array(scratch, cuts, sizeof *deps->holder)) &&
               (deps->starts = tn__arena_array(scratch, deps->words, sizeof *deps->starts));
    return all ? TN_OK : tn__no_memory(deps->error, "dependencies");
}

tn_status tn_plan_dependencies(const tn_occupancy *occupancy, const tn_layout *layout,
                               tn_dependency **list, uint64_t *count, tn_error *error) {
    size_t n = occupancy->count;
    if (layout->body_count != tn_problem_count(occupancy->problem))
        TN_FAIL(error, TN_E_INVALID, "the layout is for %u bodies, the problem has %u",
                layout->body_count, tn_problem_count(occupancy->problem));
    deps_state deps = {.occupancy = occupancy,
                       .layout = layout,
                       .context = &occupancy->context,
                       .error = error,
                       .words = (2 * n + 1) / 64 + 1,
                       .ranges = n};
    tn__arena scratch;
    size_t most =
        TN__HAPPENS_FREE + (size_t)TN__HAPPENS_EACH * tn_program_count(occupancy->program);
    TN_TRY(tn__happens_create(occupancy->program, TN__BY_GRAPH, most, &deps.happens, error));
    tn__arena_init(&scratch, deps.context);
    tn_status status = deps_room(&deps, &scratch);
    if (status == TN_OK) status = deps_collect(&deps);
    if (status == TN_OK) status = deps_hand_over(&deps, list, count);
    tn__free(deps.context, deps.pairs, deps.pair_room * sizeof *deps.pairs);
    tn__arena_release(&scratch);
    tn__happens_release(&deps.happens);
    return status;
}

void tn_dependencies_release(tn_dependency *list) { free(list); }

/* --- layouts with fewer dependencies ---------------------------------------------------------- */

/* Looks for a layout that is as low as the given one but adds fewer dependencies between operators.
 *
 * A layout adds a dependency if an operator writes bytes that another operator used last, and the
 * graph has no path between the two operators: they can then no longer run at the same time. Often
 * an equally low layout adds none. To find it, the search plans the problem in which all operators
 * without a path between them overlap (TN_PARALLEL_SAFE). That problem has the same buffers with
 * more conflicts, so its layouts are valid for the serial problem, too.
 *
 * Cost: that of tn_plan_dependencies; if there are dependencies, also that of tn_occupancy_create
 * and of a plan by the planner `fast`.
 */

#define LOOSEN_BODIES 4096u /* limit of buffers; with more, the search would take too long */

static bool loosen_is_asked(const tn_occupancy_options *memory, const tn_plan_options *plan,
                            const tn_problem *problem) {
    bool usual = plan->planner == NULL || strcmp(plan->planner, "auto") == 0;
    return usual && plan->objective == TN_OBJECTIVE_BYTES &&
           memory->parallel == TN_PARALLEL_SERIAL && tn_problem_bank_count(problem) == 1 &&
           tn_problem_count(problem) <= LOOSEN_BODIES;
}

/* Whether the buffers have the same sizes, alignments and flags in both problems; their conflicts
 * may differ. */
static bool loosen_is_same(const tn_problem *a, const tn_problem *b) {
    if (tn_problem_count(a) != tn_problem_count(b)) return false;
    for (tn_body_id id = 0; id < tn_problem_count(a); id++) {
        const tn_body *x = tn_problem_body(a, id), *y = tn_problem_body(b, id);
        if (x->size != y->size || x->alignment != y->alignment || x->flags != y->flags)
            return false;
    }
    return true;
}

/* Replaces `layout` by the layout of the parallel-safe problem if that one is valid, no higher, and
 * adds fewer than `added` dependencies. */
static tn_status loosen_take(const tn_occupancy *serial, const tn_layout *safe, uint64_t added,
                             tn_layout *layout, tn_error *error) {
    const tn_problem *problem = tn_occupancy_problem(serial);
    tn_layout made;
    tn_error unused;
    uint64_t fewer = added;
    TN_TRY(tn_layout_from_offsets(problem, safe->offset, &made, error));
    bool better =
        made.peak <= layout->peak && tn_layout_verify(problem, &made, NULL, &unused) == TN_OK &&
        tn_plan_dependencies(serial, &made, NULL, &fewer, &unused) == TN_OK && fewer < added;
    if (!better) {
        tn_layout_release(&made);
        return TN_OK;
    }
    made.verdict = made.peak == made.lower_bound ? TN_VERDICT_OPTIMAL : layout->verdict;
    made.lower_bound = layout->lower_bound;
    memcpy(made.bank_lower_bound, layout->bank_lower_bound, sizeof *made.bank_lower_bound);
    made.planner = layout->planner;
    made.seed = layout->seed;
    made.work = layout->work + safe->work;
    made.seconds = layout->seconds + safe->seconds;
    made.timed_out = layout->timed_out;
    tn_layout_release(layout);
    *layout = made;
    return TN_OK;
}

tn_status tn_plan_loosen(const tn_occupancy *serial, const tn_occupancy_options *memory_options,
                         const tn_plan_options *plan_options, tn_layout *layout, tn_error *error) {
    const tn_problem *problem = tn_occupancy_problem(serial);
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_occupancy *occupancy;
    tn_layout safe = {0};
    tn_error unused;
    uint64_t added = 0;
    tn__options(&memory, sizeof memory, memory_options);
    tn__options(&plan, sizeof plan, plan_options);
    memory.struct_size = sizeof memory;
    plan.struct_size = sizeof plan;
    if (!loosen_is_asked(&memory, &plan, problem)) return TN_OK;
    if (tn_plan_dependencies(serial, layout, NULL, &added, &unused) != TN_OK || added == 0)
        return TN_OK;
    memory.parallel = TN_PARALLEL_SAFE;
    plan.planner = "fast";
    plan.capacity = 0;
    plan.enough = layout->peak;
    if (tn_occupancy_create(tn_occupancy_program(serial), &memory, &occupancy, &unused) != TN_OK)
        return TN_OK;
    tn_status status = TN_OK;
    if (loosen_is_same(problem, tn_occupancy_problem(occupancy)) &&
        tn_plan(tn_occupancy_problem(occupancy), &plan, &safe, &unused) == TN_OK)
        status = loosen_take(serial, &safe, added, layout, error);
    tn_layout_release(&safe);
    tn_occupancy_destroy(occupancy);
    return status;
}
