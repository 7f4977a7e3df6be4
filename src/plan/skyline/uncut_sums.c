/* uncut_sums.c - compares sums of blocks that end at a step with sums of blocks that begin there:
 * blocks with equal sums are likely to be halves of one.
 *
 *   |  a  +-----+      a and b share a life, so do c, d and e. A block cut at the step leaves
 *   +-----+  c  |      only groups of one life on either side, once all smaller cuts in them are
 *   |     +-----+      undone: a + b = c + d + e, for any number of blocks. Smaller sums of a
 *   |  b  |  d  |      group are needed if two cuts share a step, or a life by chance.
 *   |     +-----+
 *   |     |  e  |
 *   +-----+-----+
 */
#include "plan/skyline/uncut_state.h"

#define UNCUT_GROUP 10u  /* limit of blocks of one life for which subsets are added up */
#define UNCUT_SUMS 8192u /* sums of several blocks, on one side of a step */

static bool uncut_note(tn__uncut *uncut, uint32_t member) {
    struct tn__uncut_state *state = uncut->state;
    if (!tn__reserve(tn__run_context(uncut->run), &state->members, &state->member_room,
                     state->member_count + 1, sizeof *state->members)) {
        state->out_of_memory = true;
        return false;
    }
    state->members[state->member_count++] = member;
    return true;
}

static tn__uncut_sum *uncut_add(tn__uncut *uncut, tn__uncut_side *side) {
    const tn_context *context = tn__run_context(uncut->run);
    size_t need = (size_t)side->count + 1;
    if (!tn__reserve(context, &side->sums, &side->sum_room, need, sizeof *side->sums) ||
        !tn__reserve(context, &side->order, &side->order_room, need, sizeof *side->order)) {
        uncut->state->out_of_memory = true;
        return NULL;
    }
    tn__uncut_sum *sum = &side->sums[side->count++];
    *sum = (tn__uncut_sum){.place = (uint32_t)uncut->state->member_count};
    return sum;
}

static void uncut_take(tn__uncut *uncut, tn__uncut_sum *sum, uint32_t id) {
    sum->size = tn__add_sat(sum->size, uncut->blocks[id].size);
    sum->count++;
    uncut_note(uncut, id);
}

/* Adds the sums of at most `most` of the blocks line[from, from + count), which share a life, and
 * the sum of all. */
static void uncut_add_group(tn__uncut *uncut, tn__uncut_side *side, const tn__sort_item *line,
                            uint32_t count, uint32_t most) {
    tn__uncut_sum *sum;
    for (uint32_t i = 0; i < count; i++)
        if ((sum = uncut_add(uncut, side)) != NULL) {
            uncut_take(uncut, sum, line[i].id);
            sum->whole = count == 1;
        }
    uint32_t masks =
        most > 1 && count <= UNCUT_GROUP ? (1u << count) - 1 : 0; /* all but the last */
    for (uint32_t mask = 1; mask < masks && side->count < UNCUT_SUMS; mask++) {
        uint32_t bits = (uint32_t)__builtin_popcount(mask);
        if (bits < 2 || bits > most || (sum = uncut_add(uncut, side)) == NULL) continue;
        for (uint32_t i = 0; i < count; i++)
            if (mask >> i & 1) uncut_take(uncut, sum, line[i].id);
    }
    if (count < 2 || (sum = uncut_add(uncut, side)) == NULL) return;
    for (uint32_t i = 0; i < count; i++) uncut_take(uncut, sum, line[i].id);
    sum->whole = true;
}

bool tn__uncut_line(tn__uncut *uncut, uint32_t time, bool ending, size_t *count) {
    struct tn__uncut_state *state = uncut->state;
    uint32_t at = ending ? state->ends[time] : state->starts[time];
    for (*count = 0; at != TN__UNCUT_NONE; ++*count) {
        const tn__uncut_block *block = &uncut->blocks[at];
        if (!tn__reserve(tn__run_context(uncut->run), &state->line, &state->line_room, *count + 1,
                         sizeof *state->line))
            return false;
        state->line[*count] = (tn__sort_item){ending ? block->first : block->last, at};
        at = ending ? block->next_end : block->next_start;
    }
    state->unseen += *count;
    return tn__sort_items(tn__run_context(uncut->run), state->line, *count);
}

/* Gathers all sums of one side of a step. */
static bool uncut_gather(tn__uncut *uncut, tn__uncut_side *side, uint32_t time, uint32_t most,
                         bool ending) {
    struct tn__uncut_state *state = uncut->state;
    size_t count;
    side->count = 0;
    if (!tn__uncut_line(uncut, time, ending, &count)) return false;
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && state->line[to].key == state->line[from].key;) to++;
        uncut_add_group(uncut, side, state->line + from, (uint32_t)(to - from), most);
    }
    for (uint32_t i = 0; i < side->count; i++)
        side->order[i] = (tn__sort_item){side->sums[i].size, i};
    state->unseen += side->count;
    return !state->out_of_memory &&
           tn__sort_items(tn__run_context(uncut->run), side->order, side->count);
}

static bool uncut_stands(const tn__uncut *uncut, const tn__uncut_sum *sum) {
    for (uint32_t i = 0; i < sum->count; i++)
        if (uncut->blocks[uncut->state->members[sum->place + i]].parent != TN__UNCUT_NONE)
            return false;
    return true;
}

static void uncut_pile(tn__uncut *uncut, const tn__uncut_sum *sum, uint32_t parent) {
    uint64_t delta = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        uint32_t id = uncut->state->members[sum->place + i];
        tn__uncut_put(uncut, id, parent, delta);
        delta += uncut->blocks[id].size;
    }
}

static bool uncut_unite(tn__uncut *uncut, const tn__uncut_sum *a, const tn__uncut_sum *b) {
    struct tn__uncut_state *state = uncut->state;
    if (!uncut_stands(uncut, a) || !uncut_stands(uncut, b)) return false;
    if (state->skip > 0 && tn__random_below(&state->random, state->skip) == 0) return false;
    uint32_t first = uncut->blocks[state->members[a->place]].first;
    uint32_t last = uncut->blocks[state->members[b->place]].last;
    uint32_t made = tn__uncut_new(uncut, a->size, first, last);
    uncut_pile(uncut, a, made);
    uncut_pile(uncut, b, made);
    return true;
}

/* Joins the blocks of equal sums from both sides, up to `total` blocks per match. */
static bool uncut_match(tn__uncut *uncut, uint32_t total, bool alone, bool whole) {
    const tn__uncut_side *low = &uncut->state->below, *high = &uncut->state->above;
    bool any = false;
    for (uint32_t i = 0, k = 0, to_i, to_k; i < low->count && k < high->count;) {
        uint64_t a = low->order[i].key, b = high->order[k].key;
        for (to_i = i; to_i < low->count && low->order[to_i].key == a;) to_i++;
        for (to_k = k; to_k < high->count && high->order[to_k].key == b;) to_k++;
        bool clear = !alone || (to_i - i == 1 && to_k - k == 1);
        for (uint32_t x = i; x < to_i && a == b && clear; x++)
            for (uint32_t y = k; y < to_k; y++, uncut->state->unseen++) {
                const tn__uncut_sum *p = &low->sums[low->order[x].id];
                const tn__uncut_sum *q = &high->sums[high->order[y].id];
                bool fits = tn__add_sat(p->count, q->count) <= total;
                if (fits && (!whole || p->whole || q->whole)) any |= uncut_unite(uncut, p, q);
            }
        if (a <= b) i = to_i;
        if (b <= a) k = to_k;
    }
    return any;
}

bool tn__uncut_sums(tn__uncut *uncut, uint32_t time, uint32_t most, bool alone) {
    struct tn__uncut_state *state = uncut->state;
    if (state->starts[time] == TN__UNCUT_NONE || state->ends[time] == TN__UNCUT_NONE) return false;
    state->member_count = 0;
    if (!uncut_gather(uncut, &state->below, time, most, true) ||
        !uncut_gather(uncut, &state->above, time, most, false)) {
        state->out_of_memory = true;
        return false;
    }
    for (uint32_t total = 2; total <= 2 * most && most <= TN__UNCUT_PARTS; total++)
        if (uncut_match(uncut, total, alone, false)) return true;
    return uncut_match(uncut, UINT32_MAX, alone, true);
}

void tn__uncut_release_sums(tn__uncut *uncut) {
    const tn_context *context = tn__run_context(uncut->run);
    tn__uncut_side *sides[] = {&uncut->state->below, &uncut->state->above};
    for (size_t i = 0; i < 2; i++) {
        tn__free(context, sides[i]->sums, sides[i]->sum_room * sizeof *sides[i]->sums);
        tn__free(context, sides[i]->order, sides[i]->order_room * sizeof *sides[i]->order);
    }
}
