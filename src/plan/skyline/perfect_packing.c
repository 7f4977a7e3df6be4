/* perfect_packing.c - reconstructs a perfect packing: undoes the cuts from which it was made,
 * smallest pieces first.
 *
 *   +-----+---+    Two buffers of equal size, one of which begins when the other ends, are likely
 *   |  A  | B |    to be halves of one that was cut: sizes of many digits seldom agree by chance.
 *   +--+--+---+    Joined they are a larger buffer, which may match another one in the same way,
 *   |  |      |    until one block is the whole packing. If several buffers have equal live
 *   +--+------+    ranges, the sum of their sizes may match (sums, below); five buffers can form
 *                  a wheel (wheels, below).
 *
 * The same happens in a network whenever one tensor ends at the step at which another tensor of its
 * size begins, so that memory is handed over without loss. If the buffers were not made by cuts,
 * blocks that match by chance may be worse than separate buffers; so the result is one plan among
 * others, never the only one.
 *
 * Steps wait in queues, one per level of permitted matches. A new block puts the steps at its ends
 * back into the queue of the lowest level. A block that was joined by chance keeps its parts from
 * their true other halves. So at the end some blocks are taken apart and joined in another order,
 * and a journal undoes a try that leaves more blocks than before.
 *
 * Cost: O(n log n) if few buffers begin at a step; about 140 bytes per buffer.
 * Source: new here; the repair is a large neighbourhood search (Shaw 1998).
 */
#include "plan/skyline/perfect_packing.h"

#include "base/sorted.h"

#define PACKING_NONE TN__PACKING_NONE
/* number of levels of permitted matches (pairs, wheels, then sums of more blocks); higher levels
 * permit more */
#define PACKING_LEVELS 7u
/* limit of the number of blocks with equal live ranges in a sum, at the levels with a limit */
#define PACKING_PARTS 3u
#define PACKING_WHEELS 1u     /* the level at which wheels of five blocks are searched */
#define PACKING_EFFORT 20000u /* limit of the sums of block sizes that are computed, per buffer */
/* limit of the sums of block sizes that are computed, for all buffers together */
#define PACKING_EFFORT_MAX 1500000000u
/* joining ends after pairs and wheels unless these joined 1/16 of the buffers */
#define PACKING_HOPE 16u
/* a step counts as full if at most 1/1024 of the lower bound is free at it */
#define PACKING_FULL_GAP 1024u
#define PACKING_FULL_STEPS 16u /* a packing counts as perfect if all steps but 1/16 are full */
/* number of sums that cost as much as placing a buffer, which is one unit of work */
#define PACKING_UNIT 100u
#define PACKING_LOOK 100000u /* number of sums between two checks of the clock */
/* limits of the blocks that a repair try takes apart: without those inside them, and with those */
#define PACKING_APART 3u
#define PACKING_APART_ALL 64u
/* in a repair try, each block to take apart after the first is the one nearest to the previous
 * block out of this number of random blocks */
#define PACKING_NEAR 8u
/* repair ends after PACKING_STALE tries per remaining block, and PACKING_STALE_LEAST more, without
 * progress */
#define PACKING_STALE 4u
#define PACKING_STALE_LEAST 100u
#define PACKING_SKIP 8u /* during repair, one match in eight, chosen at random, is not joined */
/* cost of a repair try, counted as computed sums, in addition to those that it computes */
#define PACKING_TRY_EFFORT 8u

/* --- the state: steps that wait, lists at a step, the journal --- */

/* one block or several of equal live ranges, which end (or begin) at the current step, and the sum
 * of their sizes */
typedef struct packing_sum {
    uint64_t size;
    uint32_t place, count; /* range of state->members with the blocks of the sum */
    bool whole;            /* the sum contains all separate blocks that have its live range */
} packing_sum;

/* one side of the current step: the sums of blocks that end there, or of blocks that begin there */
typedef struct packing_side {
    packing_sum *sums;
    tn__sort_item *order; /* indices into `sums`, sorted by the size of the sum */
    size_t sum_room, order_room;
    uint32_t count;
} packing_side;

typedef struct packing_queue { /* a queue of time steps */
    uint32_t *steps;
    size_t head, count, room; /* entries [head, count) of `steps` wait in the queue */
} packing_queue;

/* an entry of the journal: one change of a block, which packing_undo reverts */
typedef struct packing_deed {
    /* Block `id` was joined into block `parent`, or was separated from it if `left` is set. With
     * parent = NONE, block `id` itself was made, or taken apart if `left` is set. */
    uint32_t id, parent;
    uint64_t delta;
    bool left;
} packing_deed;

struct tn__packing_state {
    /* [time_count], heads of the lists of blocks that are in no other block, by first and by last
     * step */
    uint32_t *starts, *ends;
    /* [time_count], number of lowest levels at which the step has no more matches; the step waits
     * in the queue of that level */
    uint8_t *clean;
    packing_queue waiting[PACKING_LEVELS];
    /* the two sides of the current step: sums of blocks that end there, and of blocks that begin
     * there */
    packing_side below, above;
    uint32_t *members; /* the blocks of all sums of the current step, one sum after the other */
    size_t member_count, member_room;
    /* [line_room], the blocks that begin (or end) at the current step, sorted by their other end */
    tn__sort_item *line;
    size_t line_room;
    /* [unused_count], numbers of blocks that were taken apart; new blocks reuse them */
    uint32_t *unused;
    uint32_t unused_count, used;
    packing_deed *journal;
    size_t journal_count, journal_room;
    bool notes; /* whether changes are recorded in the journal */
    tn__random random;
    /* during repair, one match in `skip` is not joined, at random; 0: every match is joined */
    uint32_t skip;
    /* number of computed sums and visited blocks since the last check of the clock */
    uint64_t unseen;
    bool out_of_memory;
};

typedef struct tn__packing_state packing_state;

static tn__packing_block *packing_block(const tn__packing *packing, uint32_t id) {
    return &packing->blocks[id];
}

/* --- lists --- */

static void packing_wait(tn__packing *packing, uint32_t time, uint32_t level) {
    if (level >= PACKING_LEVELS) return;
    packing_queue *queue = &packing->state->waiting[level];
    if (queue->head > queue->count / 2 && queue->count == queue->room) {
        queue->count -= queue->head;
        memmove(queue->steps, queue->steps + queue->head, queue->count * sizeof *queue->steps);
        queue->head = 0;
    }
    if (!tn__reserve(tn__run_context(packing->run), &queue->steps, &queue->room, queue->count + 1,
                     sizeof *queue->steps)) {
        packing->state->out_of_memory = true;
        return;
    }
    queue->steps[queue->count++] = time;
}

static void packing_dirty(tn__packing *packing, uint32_t time) {
    /* the step is already in the queue of the lowest level */
    if (packing->state->clean[time] == 0) return;
    packing->state->clean[time] = 0;
    packing_wait(packing, time, 0);
}

/* Marks the block as separate (in no other block), and enters it into the lists by first and by
 * last step. */
static void packing_stand(tn__packing *packing, uint32_t id) {
    tn__packing_block *block = packing_block(packing, id);
    packing_state *state = packing->state;
    block->parent = PACKING_NONE;
    block->previous_start = block->previous_end = PACKING_NONE;
    block->next_start = state->starts[block->first];
    block->next_end = state->ends[block->last];
    if (block->next_start != PACKING_NONE)
        packing_block(packing, block->next_start)->previous_start = id;
    if (block->next_end != PACKING_NONE) packing_block(packing, block->next_end)->previous_end = id;
    state->starts[block->first] = state->ends[block->last] = id;
    block->place = packing->standing_count;
    packing->standing[packing->standing_count++] = id;
}

/* Removes a block from the lists of separate blocks, because it becomes part of another block or is
 * taken apart. */
static void packing_fall(tn__packing *packing, uint32_t id) {
    tn__packing_block *block = packing_block(packing, id);
    uint32_t *before = &packing->state->starts[block->first], moved;
    if (block->previous_start != PACKING_NONE)
        before = &packing_block(packing, block->previous_start)->next_start;
    *before = block->next_start;
    if (block->next_start != PACKING_NONE)
        packing_block(packing, block->next_start)->previous_start = block->previous_start;
    before = &packing->state->ends[block->last];
    if (block->previous_end != PACKING_NONE)
        before = &packing_block(packing, block->previous_end)->next_end;
    *before = block->next_end;
    if (block->next_end != PACKING_NONE)
        packing_block(packing, block->next_end)->previous_end = block->previous_end;
    moved = packing->standing[--packing->standing_count];
    packing->standing[block->place] = moved;
    packing_block(packing, moved)->place = block->place;
}

static void packing_note_deed(tn__packing *packing, packing_deed deed) {
    packing_state *state = packing->state;
    if (!state->notes) return;
    if (tn__reserve(tn__run_context(packing->run), &state->journal, &state->journal_room,
                    state->journal_count + 1, sizeof *state->journal))
        state->journal[state->journal_count++] = deed;
    else
        state->out_of_memory = true;
}

/* --- joining and taking apart --- */

static void packing_link(tn__packing *packing, uint32_t id, uint32_t parent, uint64_t delta) {
    tn__packing_block *block = packing_block(packing, id);
    packing_fall(packing, id);
    block->parent = parent;
    block->delta = delta;
    block->next_part = packing_block(packing, parent)->first_part;
    packing_block(packing, parent)->first_part = id;
}

/* Makes the block a part of block `parent`; its lowest byte lies `delta` bytes above that of the
 * parent. */
static void packing_put(tn__packing *packing, uint32_t id, uint32_t parent, uint64_t delta) {
    packing_link(packing, id, parent, delta);
    packing_note_deed(packing, (packing_deed){.id = id, .parent = parent});
}

/* Makes a separate block of the given size and live range, without parts; the caller adds the
 * parts. */
static uint32_t packing_new(tn__packing *packing, uint64_t size, uint32_t first, uint32_t last) {
    packing_state *state = packing->state;
    uint32_t id = state->unused_count > 0 ? state->unused[--state->unused_count] : state->used++;
    *packing_block(packing, id) =
        (tn__packing_block){.size = size, .first = first, .last = last, .first_part = PACKING_NONE};
    packing_stand(packing, id);
    packing_note_deed(packing, (packing_deed){.id = id, .parent = PACKING_NONE});
    packing_dirty(packing, first);
    packing_dirty(packing, last);
    return id;
}

/* Takes a block apart: its parts become separate blocks, and the steps at which they begin and end
 * are queued again. */
static void packing_take_apart(tn__packing *packing, uint32_t id) {
    uint32_t part = packing_block(packing, id)->first_part;
    packing_fall(packing, id);
    while (part != PACKING_NONE) {
        tn__packing_block *block = packing_block(packing, part);
        uint32_t next = block->next_part;
        packing_note_deed(
            packing, (packing_deed){.id = part, .parent = id, .delta = block->delta, .left = true});
        packing_stand(packing, part);
        packing_dirty(packing, block->first);
        packing_dirty(packing, block->last);
        part = next;
    }
    packing_note_deed(packing, (packing_deed){.id = id, .parent = PACKING_NONE, .left = true});
}

/* Undoes all changes of blocks in the journal, the last change first, and empties the journal. */
static void packing_undo(tn__packing *packing) {
    packing_state *state = packing->state;
    while (state->journal_count > 0) {
        packing_deed deed = state->journal[--state->journal_count];
        if (deed.left && deed.parent == PACKING_NONE) {
            packing_block(packing, deed.id)->first_part = PACKING_NONE;
            packing_stand(packing, deed.id);
        } else if (deed.left) {
            packing_link(packing, deed.id, deed.parent, deed.delta);
        } else if (deed.parent != PACKING_NONE) {
            packing_stand(packing, deed.id);
        } else {
            packing_fall(packing, deed.id);
            state->unused[state->unused_count++] = deed.id;
        }
    }
}

/* Accepts all changes in the journal: empties it, and makes the numbers of blocks that were taken
 * apart available for new blocks. */
static void packing_settle(tn__packing *packing) {
    packing_state *state = packing->state;
    for (size_t i = 0; i < state->journal_count; i++)
        if (state->journal[i].left && state->journal[i].parent == PACKING_NONE)
            state->unused[state->unused_count++] = state->journal[i].id;
    state->journal_count = 0;
}

/* --- sums -----------------------------------------------------------------------------------
 *
 * Compares sums of blocks that end at a step with sums of blocks that begin there, because blocks
 * with equal sums are likely to be halves of one block.
 *
 *   |  a  +-----+      Blocks a and b have the same live range, and so have c, d and e. Once all
 *   +-----+  c  |      smaller cuts are undone, a block that was cut at the step leaves only
 *   |     +-----+      groups of one live range on either side: a + b = c + d + e, for any
 *   |  b  |  d  |      number of blocks. Smaller sums of a group are needed if two cuts share a
 *   |     +-----+      step, or if live ranges agree by chance.
 *   |     |  e  |
 *   +-----+-----+
 */
/* limit of the number of blocks with equal live ranges up to which the sums of all their subsets
 * are computed */
#define PACKING_GROUP 10u
#define PACKING_SUMS 8192u /* limit of sums on one side of a step */

static bool packing_note(tn__packing *packing, uint32_t member) {
    struct tn__packing_state *state = packing->state;
    if (!tn__reserve(tn__run_context(packing->run), &state->members, &state->member_room,
                     state->member_count + 1, sizeof *state->members)) {
        state->out_of_memory = true;
        return false;
    }
    state->members[state->member_count++] = member;
    return true;
}

static packing_sum *packing_add(tn__packing *packing, packing_side *side) {
    const tn_context *context = tn__run_context(packing->run);
    size_t need = (size_t)side->count + 1;
    if (!tn__reserve(context, &side->sums, &side->sum_room, need, sizeof *side->sums) ||
        !tn__reserve(context, &side->order, &side->order_room, need, sizeof *side->order)) {
        packing->state->out_of_memory = true;
        return NULL;
    }
    packing_sum *sum = &side->sums[side->count++];
    *sum = (packing_sum){.place = (uint32_t)packing->state->member_count};
    return sum;
}

static void packing_take(tn__packing *packing, packing_sum *sum, uint32_t id) {
    sum->size = tn__add_sat(sum->size, packing->blocks[id].size);
    sum->count++;
    packing_note(packing, id);
}

/* Adds the sums of single blocks, of subsets of at most `most` blocks (within the two limits
 * above), and of all blocks, of line[0 ... count). These blocks have equal live ranges. */
static void packing_add_group(tn__packing *packing, packing_side *side, const tn__sort_item *line,
                              uint32_t count, uint32_t most) {
    packing_sum *sum;
    for (uint32_t i = 0; i < count; i++)
        if ((sum = packing_add(packing, side)) != NULL) {
            packing_take(packing, sum, line[i].id);
            sum->whole = count == 1;
        }
    uint32_t masks =
        /* the subset of all blocks is left out here because it is added below */
        most > 1 && count <= PACKING_GROUP ? (1u << count) - 1 : 0;
    for (uint32_t mask = 1; mask < masks && side->count < PACKING_SUMS; mask++) {
        uint32_t bits = (uint32_t)__builtin_popcount(mask);
        if (bits < 2 || bits > most || (sum = packing_add(packing, side)) == NULL) continue;
        for (uint32_t i = 0; i < count; i++)
            if (mask >> i & 1) packing_take(packing, sum, line[i].id);
    }
    if (count < 2 || (sum = packing_add(packing, side)) == NULL) return;
    for (uint32_t i = 0; i < count; i++) packing_take(packing, sum, line[i].id);
    sum->whole = true;
}

/* Lists the separate blocks that end (or begin) at a step in line[], sorted by their other end;
 * *count receives their number. Returns false if memory is exhausted. */
static bool packing_line(tn__packing *packing, uint32_t time, bool ending, size_t *count) {
    struct tn__packing_state *state = packing->state;
    uint32_t at = ending ? state->ends[time] : state->starts[time];
    for (*count = 0; at != TN__PACKING_NONE; ++*count) {
        const tn__packing_block *block = &packing->blocks[at];
        if (!tn__reserve(tn__run_context(packing->run), &state->line, &state->line_room, *count + 1,
                         sizeof *state->line))
            return false;
        state->line[*count] = (tn__sort_item){ending ? block->first : block->last, at};
        at = ending ? block->next_end : block->next_start;
    }
    state->unseen += *count;
    return tn__sort_items(tn__run_context(packing->run), state->line, *count);
}

/* Computes the sums of sizes (packing_add_group) of the blocks that end at a step (`ending`), or of
 * those that begin there. Returns false if memory is exhausted. */
static bool packing_gather(tn__packing *packing, packing_side *side, uint32_t time, uint32_t most,
                           bool ending) {
    struct tn__packing_state *state = packing->state;
    size_t count;
    side->count = 0;
    if (!packing_line(packing, time, ending, &count)) return false;
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && state->line[to].key == state->line[from].key;) to++;
        packing_add_group(packing, side, state->line + from, (uint32_t)(to - from), most);
    }
    for (uint32_t i = 0; i < side->count; i++)
        side->order[i] = (tn__sort_item){side->sums[i].size, i};
    state->unseen += side->count;
    return !state->out_of_memory &&
           tn__sort_items(tn__run_context(packing->run), side->order, side->count);
}

static bool packing_stands(const tn__packing *packing, const packing_sum *sum) {
    for (uint32_t i = 0; i < sum->count; i++)
        if (packing->blocks[packing->state->members[sum->place + i]].parent != TN__PACKING_NONE)
            return false;
    return true;
}

static void packing_pile(tn__packing *packing, const packing_sum *sum, uint32_t parent) {
    uint64_t delta = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        uint32_t id = packing->state->members[sum->place + i];
        packing_put(packing, id, parent, delta);
        delta += packing->blocks[id].size;
    }
}

static bool packing_unite(tn__packing *packing, const packing_sum *a, const packing_sum *b) {
    struct tn__packing_state *state = packing->state;
    if (!packing_stands(packing, a) || !packing_stands(packing, b)) return false;
    if (state->skip > 0 && tn__random_below(&state->random, state->skip) == 0) return false;
    uint32_t first = packing->blocks[state->members[a->place]].first;
    uint32_t last = packing->blocks[state->members[b->place]].last;
    uint32_t made = packing_new(packing, a->size, first, last);
    packing_pile(packing, a, made);
    packing_pile(packing, b, made);
    return true;
}

/* Joins blocks that end at a step with blocks that begin there, where the sums of their sizes are
 * equal, and returns whether any were joined. The two sums have at most `total` blocks together.
 * `alone`: two sums are joined only if no third sum is equal. `whole`: one of the two sums must
 * contain all blocks that have its live range. */
static bool packing_match(tn__packing *packing, uint32_t total, bool alone, bool whole) {
    const packing_side *low = &packing->state->below, *high = &packing->state->above;
    bool any = false;
    for (uint32_t i = 0, k = 0, to_i, to_k; i < low->count && k < high->count;) {
        uint64_t a = low->order[i].key, b = high->order[k].key;
        for (to_i = i; to_i < low->count && low->order[to_i].key == a;) to_i++;
        for (to_k = k; to_k < high->count && high->order[to_k].key == b;) to_k++;
        bool clear = !alone || (to_i - i == 1 && to_k - k == 1);
        for (uint32_t x = i; x < to_i && a == b && clear; x++)
            for (uint32_t y = k; y < to_k; y++, packing->state->unseen++) {
                const packing_sum *p = &low->sums[low->order[x].id];
                const packing_sum *q = &high->sums[high->order[y].id];
                bool fits = tn__add_sat(p->count, q->count) <= total;
                if (fits && (!whole || p->whole || q->whole)) any |= packing_unite(packing, p, q);
            }
        if (a <= b) i = to_i;
        if (b <= a) k = to_k;
    }
    return any;
}

/* Joins blocks that end at a step with blocks that begin there if the sums of their sizes are
 * equal; returns whether any were joined. Each sum has up to `most` blocks, or all blocks of one
 * live range. `alone`: two sums are joined only if no third sum is equal. */
static bool packing_sums(tn__packing *packing, uint32_t time, uint32_t most, bool alone) {
    struct tn__packing_state *state = packing->state;
    if (state->starts[time] == TN__PACKING_NONE || state->ends[time] == TN__PACKING_NONE)
        return false;
    state->member_count = 0;
    if (!packing_gather(packing, &state->below, time, most, true) ||
        !packing_gather(packing, &state->above, time, most, false)) {
        state->out_of_memory = true;
        return false;
    }
    for (uint32_t total = 2; total <= 2 * most && most <= PACKING_PARTS; total++)
        if (packing_match(packing, total, alone, false)) return true;
    return packing_match(packing, UINT32_MAX, alone, true);
}

static void packing_release_sums(tn__packing *packing) {
    const tn_context *context = tn__run_context(packing->run);
    packing_side *sides[] = {&packing->state->below, &packing->state->above};
    for (size_t i = 0; i < 2; i++) {
        tn__free(context, sides[i]->sums, sides[i]->sum_room * sizeof *sides[i]->sums);
        tn__free(context, sides[i]->order, sides[i]->order_room * sizeof *sides[i]->order);
    }
}

/* --- wheels ---------------------------------------------------------------------------------
 *
 * Finds five blocks in a wheel, a packing that cuts from side to side cannot make.
 *
 *   +-----+--+     The middle block M is live in [a, b). A ends at a, D begins at a, and A is
 *   |  B  |  |     larger than D by the size of M. B ends at b, C begins at b, and C is larger
 *   +--+--+ C|     than B by the size of M. A and B begin together, C and D end together.
 *   |  |M |  |
 *   |A +--+--+     D and C with a common end are searched first, because ends agree by chance
 *   |  |  D  |     less often than sizes or beginnings.
 *   +--+-----+
 *      a  b
 */
#define PACKING_TRIES 2000000u /* limit of the blocks that the search for wheels visits per step */

typedef struct packing_parts {
    uint32_t a, b, c, d, m;
} packing_parts;

static void packing_close_wheel(tn__packing *packing, packing_parts parts) {
    const tn__packing_block *blocks = packing->blocks;
    uint64_t low = blocks[parts.a].size, step = blocks[parts.d].size;
    uint32_t made = packing_new(packing, low + blocks[parts.b].size, blocks[parts.a].first,
                                blocks[parts.d].last);
    packing_put(packing, parts.a, made, 0);
    packing_put(packing, parts.b, made, low);
    packing_put(packing, parts.d, made, 0);
    packing_put(packing, parts.m, made, step);
    packing_put(packing, parts.c, made, step);
}

/* Counts a block that was visited in the search for wheels. Returns false if the limit for this
 * step, `most`, is reached. */
static bool packing_look(tn__packing *packing, uint64_t most) {
    return ++packing->state->unseen < most;
}

/* Completes a wheel (drawn above) of which the blocks M, C and D are known: finds A by its size,
 * then B by its size and by the step at which A begins. Returns whether it found both and joined
 * the five blocks. */
static bool packing_close(tn__packing *packing, packing_parts parts, uint64_t most) {
    const tn__packing_block *blocks = packing->blocks, *m = &blocks[parts.m];
    const tn__packing_block *c = &blocks[parts.c], *d = &blocks[parts.d];
    if (parts.d == parts.m || c->size <= m->size) return false;
    uint64_t of_a = tn__add_sat(m->size, d->size), of_b = c->size - m->size;
    uint32_t *ends = packing->state->ends;
    for (uint32_t a = ends[m->first]; a != TN__PACKING_NONE; a = blocks[a].next_end) {
        if (!packing_look(packing, most)) return false;
        if (blocks[a].size != of_a) continue;
        for (uint32_t b = ends[m->last]; b != TN__PACKING_NONE; b = blocks[b].next_end) {
            if (!packing_look(packing, most)) return false;
            if (blocks[b].size != of_b || blocks[b].first != blocks[a].first || b == parts.m)
                continue;
            parts.a = a;
            parts.b = b;
            packing_close_wheel(packing, parts);
            return true;
        }
    }
    return false;
}

/* Searches for a wheel with middle block `m`, and returns whether one was found and joined.
 * line[count] are the blocks that begin at one end of M, sorted by their last step; the list from
 * `other` contains the blocks that begin at M's other end. */
static bool packing_around(tn__packing *packing, uint32_t m, uint32_t other, size_t count,
                           bool at_end, uint64_t most) {
    const tn__sort_item *line = packing->state->line;
    for (; other != TN__PACKING_NONE; other = packing->blocks[other].next_start) {
        uint32_t last = packing->blocks[other].last;
        if (!packing_look(packing, most)) return false;
        if (last <= packing->blocks[m].last) continue;
        for (size_t i = tn__sorted_find(line, count, last); i < count && line[i].key == last; i++) {
            if (!packing_look(packing, most)) return false;
            packing_parts parts = {
                .m = m, .c = at_end ? line[i].id : other, .d = at_end ? other : line[i].id};
            if (packing_close(packing, parts, most)) return true;
        }
    }
    return false;
}

/* Searches for a wheel of five blocks whose middle block begins or ends at `time`. It finds every
 * wheel: each of the five blocks begins or ends at an end of the middle block, so the block that
 * was made last has queued one of these steps. */
static bool packing_wheel(tn__packing *packing, uint32_t time) {
    struct tn__packing_state *state = packing->state;
    const tn__packing_block *blocks = packing->blocks;
    size_t count;
    if (!packing_line(packing, time, false, &count)) {
        state->out_of_memory = true;
        return false;
    }
    uint64_t most = state->unseen + PACKING_TRIES;
    for (uint32_t m = state->starts[time]; m != TN__PACKING_NONE && state->unseen < most;
         m = blocks[m].next_start)
        if (packing_around(packing, m, state->starts[blocks[m].last], count, false, most))
            return true;
    for (uint32_t m = state->ends[time]; m != TN__PACKING_NONE && state->unseen < most;
         m = blocks[m].next_end)
        if (packing_around(packing, m, state->starts[blocks[m].first], count, true, most))
            return true;
    return false;
}

/* --- all steps --- */

static bool packing_step(tn__packing *packing, uint32_t time, uint32_t level) {
    static const struct {
        uint32_t most;
        bool alone;
    } rules[PACKING_LEVELS] = {{1, true},          {0, true},  {2, true},          {3, true},
                               {UINT32_MAX, true}, {3, false}, {UINT32_MAX, false}};
    if (level == PACKING_WHEELS) return packing_wheel(packing, time);
    return packing_sums(packing, time, rules[level].most, rules[level].alone);
}

/* Whether hardly any blocks were joined: then the buffers were not made by cuts, and sums would be
 * equal only by chance. */
static bool packing_is_hopeless(const tn__packing *packing) {
    return packing->body_count - packing->standing_count < packing->body_count / PACKING_HOPE;
}

/* Returns whether the search may continue. If not, *status is the reason: a limit of the run,
 * memory, or TN_OK if `effort_max` is used up. */
static bool packing_goes_on(tn__packing *packing, uint64_t effort_max, tn_status *status) {
    packing_state *state = packing->state;
    *status = state->out_of_memory ? TN_E_NO_MEMORY : TN_OK;
    if (state->out_of_memory) return false;
    if (state->unseen < PACKING_LOOK) return true;
    packing->effort += state->unseen;
    *status = tn__run_work(packing->run, state->unseen / PACKING_UNIT);
    state->unseen = 0;
    return *status == TN_OK && packing->effort <= effort_max;
}

static bool packing_next(tn__packing *packing, uint32_t *time, uint32_t *level) {
    for (*level = 0; *level < PACKING_LEVELS; ++*level) {
        packing_queue *queue = &packing->state->waiting[*level];
        while (queue->head < queue->count) {
            *time = queue->steps[queue->head++];
            /* a step with another value of `clean` is in the queue of another level too, and is
             * handled there */
            if (packing->state->clean[*time] == *level) return true;
        }
        queue->head = queue->count = 0;
    }
    return false;
}

static tn_status packing_run(tn__packing *packing, uint64_t effort_max) {
    uint32_t time, level;
    tn_status status = TN_OK;
    while (packing_next(packing, &time, &level)) {
        if (level > PACKING_WHEELS && packing_is_hopeless(packing)) return TN_OK;
        bool found = packing_step(packing, time, level);
        packing->state->clean[time] = found ? 0 : (uint8_t)(level + 1);
        packing_wait(packing, time, packing->state->clean[time]);
        if (!packing_goes_on(packing, effort_max, &status)) return status;
    }
    return TN_OK;
}

/* --- repair --- */

static uint32_t packing_distance(const tn__packing *packing, uint32_t a, uint32_t b) {
    const tn__packing_block *x = packing_block(packing, a), *y = packing_block(packing, b);
    uint32_t of_first = x->first > y->first ? x->first - y->first : y->first - x->first;
    uint32_t of_last = x->last > y->last ? x->last - y->last : y->last - x->last;
    uint32_t gap = x->first > y->last   ? x->first - y->last
                   : y->first > x->last ? y->first - x->last
                                        : 0;
    return gap + (of_first < of_last ? of_first : of_last);
}

/* Chooses a random separate block that has parts: the nearest to block `other` of a few, or any if
 * `other` is PACKING_NONE. Returns PACKING_NONE if it finds none. */
static uint32_t packing_choose(tn__packing *packing, uint32_t other) {
    uint32_t best = PACKING_NONE, least = UINT32_MAX;
    for (uint32_t i = 0; i < PACKING_NEAR; i++) {
        uint64_t place = tn__random_below(&packing->state->random, packing->standing_count);
        uint32_t id = packing->standing[place];
        if (packing_block(packing, id)->first_part == PACKING_NONE) continue;
        if (other == PACKING_NONE) return id;
        uint32_t distance = packing_distance(packing, id, other);
        if (distance < least) best = id;
        if (distance < least) least = distance;
    }
    return best;
}

static void packing_take_some_apart(tn__packing *packing) {
    tn__random *random = &packing->state->random;
    uint32_t id = PACKING_NONE, apart = 0;
    for (uint64_t left = 1 + tn__random_below(random, PACKING_APART); left > 0; left--) {
        id = packing_choose(packing, id);
        if (id == PACKING_NONE) return;
        for (uint32_t at = id; at != PACKING_NONE && apart < PACKING_APART_ALL; apart++) {
            uint32_t inner = PACKING_NONE, part = packing_block(packing, at)->first_part;
            for (; part != PACKING_NONE; part = packing_block(packing, part)->next_part)
                if (packing_block(packing, part)->first_part != PACKING_NONE &&
                    tn__random_below(random, 2) == 0)
                    inner = part;
            packing_take_apart(packing, at);
            /* in half of the cases, one of the block's parts is taken apart as well */
            at = tn__random_below(random, 2) == 0 ? inner : PACKING_NONE;
        }
    }
}

/* Shuffles the steps in the queue of the lowest level. */
static void packing_shuffle(tn__packing *packing) {
    packing_queue *queue = &packing->state->waiting[0];
    for (size_t left = queue->count - queue->head; left > 1; left--) {
        size_t at = queue->head + (size_t)tn__random_below(&packing->state->random, left);
        uint32_t *last = &queue->steps[queue->head + left - 1], swap = *last;
        *last = queue->steps[at];
        queue->steps[at] = swap;
    }
}

tn_status tn__packing_mend(tn__packing *packing, uint64_t effort) {
    packing_state *state = packing->state;
    tn_status status = TN_OK;
    if (packing_is_hopeless(packing)) return TN_OK;
    state->skip = PACKING_SKIP;
    state->notes = true;
    for (uint64_t stale = 0; packing->standing_count > 1 && status == TN_OK; stale++) {
        uint32_t before = packing->standing_count;
        if (stale > PACKING_STALE * (uint64_t)before + PACKING_STALE_LEAST) break;
        packing_take_some_apart(packing);
        packing_shuffle(packing);
        status = packing_run(packing, UINT64_MAX);
        if (packing->standing_count > before || status != TN_OK)
            packing_undo(packing);
        else
            packing_settle(packing);
        if (packing->standing_count < before) stale = 0;
        state->unseen += PACKING_TRY_EFFORT;
        if (status == TN_OK && !packing_goes_on(packing, effort, &status)) break;
    }
    state->notes = false;
    state->skip = 0;
    return status;
}

/* --- the functions of perfect_packing.h --- */

bool tn__packing_is_full(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t steps = tn__run_time_count(run);
    uint64_t *load = tn__run_scratch(run, steps, sizeof *load), sum = 0, full = 0;
    uint64_t bound = tn__run_lower_bound(run);
    if (load == NULL || steps < 2) return false;
    /* a negative change wraps modulo 2^64, so the sums of changes are right */
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        load[bodies[i].first] += bodies[i].size;
        load[bodies[i].last] -= bodies[i].size;
    }
    for (uint32_t t = 0; t + 1 < steps; t++) {
        sum += load[t];
        full += sum >= bound - bound / PACKING_FULL_GAP;
    }
    return full >= (steps - 1) - (steps - 1) / PACKING_FULL_STEPS;
}

tn_status tn__packing_join(tn__packing *packing, uint32_t turn) {
    packing_state *state = packing->state;
    state->random.state = tn__run_seed(packing->run) + turn;
    for (uint32_t t = 0; t < tn__run_time_count(packing->run); t++) packing_dirty(packing, t);
    if (turn > 0) packing_shuffle(packing);
    if (state->out_of_memory) return TN_E_NO_MEMORY;
    uint64_t most = PACKING_EFFORT * ((uint64_t)packing->body_count + 1000);
    return packing_run(packing,
                       packing->effort + (most < PACKING_EFFORT_MAX ? most : PACKING_EFFORT_MAX));
}

void tn__packing_reset(tn__packing *packing) {
    packing_state *state = packing->state;
    size_t times = tn__run_time_count(packing->run);
    memset(state->starts, 0xff, times * sizeof *state->starts);
    memset(state->ends, 0xff, times * sizeof *state->ends);
    memset(state->clean, 0xff, times);
    for (uint32_t level = 0; level < PACKING_LEVELS; level++)
        state->waiting[level].head = state->waiting[level].count = 0;
    state->used = packing->body_count;
    state->unused_count = packing->standing_count = 0;
    for (uint32_t i = 0; i < packing->body_count; i++) packing_stand(packing, i);
}

tn_status tn__packing_create(tn_run *run, const uint32_t *ids, uint32_t count,
                             tn__packing *packing) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t times = tn__run_time_count(run);
    packing_state *state = tn__run_scratch(run, 1, sizeof *state);
    *packing = (tn__packing){.run = run, .body_count = count, .state = state};
    size_t spare =
        /* limit of the number of blocks that have parts: each has at least two, and the blocks that
         * were just taken apart keep their numbers */
        (size_t)count + PACKING_APART_ALL;
    packing->blocks = tn__run_scratch(run, count + spare, sizeof *packing->blocks);
    packing->standing = tn__run_scratch(run, (size_t)count + 1, sizeof *packing->standing);
    if (state == NULL || packing->blocks == NULL || packing->standing == NULL)
        return TN_E_NO_MEMORY;
    state->starts = tn__run_scratch(run, times, sizeof *state->starts);
    state->ends = tn__run_scratch(run, times, sizeof *state->ends);
    state->clean = tn__run_scratch(run, times, sizeof *state->clean);
    state->unused = tn__run_scratch(run, spare, sizeof *state->unused);
    if (!state->starts || !state->ends || !state->clean || !state->unused) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const tn_run_body *body = &bodies[ids[i]];
        packing->blocks[i] = (tn__packing_block){.size = body->size,
                                                 .first = body->first,
                                                 .last = body->last,
                                                 .first_part = PACKING_NONE};
    }
    tn__packing_reset(packing);
    return TN_OK;
}

void tn__packing_release(tn__packing *packing) {
    const tn_context *context = tn__run_context(packing->run);
    packing_state *state = packing->state;
    if (state == NULL) return;
    for (uint32_t level = 0; level < PACKING_LEVELS; level++)
        tn__free(context, state->waiting[level].steps,
                 state->waiting[level].room * sizeof *state->waiting[level].steps);
    tn__free(context, state->members, state->member_room * sizeof *state->members);
    tn__free(context, state->line, state->line_room * sizeof *state->line);
    tn__free(context, state->journal, state->journal_room * sizeof *state->journal);
    packing_release_sums(packing);
}
