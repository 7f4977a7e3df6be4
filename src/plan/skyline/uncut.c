/* uncut.c - undoes the cuts of a perfect packing, from the smallest pieces up.
 *
 *   +-----+---+    Two bodies of equal size, one of which begins when the other ends, are likely to
 *   |  A  | B |    be halves of one that was cut: sizes of many digits seldom agree by chance. Put
 *   +--+--+---+    together they are a larger body, which may fit another one in the same way, and
 *   |  |      |    so on up to the whole. Where several bodies share a life, their sum may be what
 *   +--+------+    agrees (uncut_sums.c); five can lie in a wheel (uncut_wheels.c).
 *
 * The same happens in a network whenever a tensor dies at the step at which one of its size begins:
 * memory is handed over without loss. If bodies were not cut from one, blocks that fit by chance
 * may be worse than separate bodies; so this is one plan among others, never the only one.
 *
 * Steps wait in queues, one per level of permitted matches; a new block puts the steps at its ends
 * back into the lowest level. A block joined by chance keeps its parts from their true halves: so
 * at the end some blocks are taken apart and joined in another order, and the journal undoes a try
 * that leaves more blocks than before.
 * Cost:   O(n log n) if few bodies begin at a step; about 140 bytes per body.
 * Source: ours; the repair is a large neighbourhood search (Shaw 1998).
 */
#include "plan/skyline/uncut_state.h"

#define UNCUT_NONE TN__UNCUT_NONE
#define UNCUT_WHEELS 1u              /* the level that looks for wheels */
#define UNCUT_EFFORT 20000u          /* sums per body, in total ... */
#define UNCUT_EFFORT_MAX 1500000000u /* ... and for all bodies */
#define UNCUT_HOPE 16u       /* at least 1/16 of the bodies must be joined by pairs or wheels */
#define UNCUT_FULL_GAP 1024u /* free fraction of the bound ... */
#define UNCUT_FULL_STEPS 16u /* ... at all steps but 1/16: a perfect packing */
#define UNCUT_UNIT 100u      /* sums that cost as much as placing a body: a unit of work */
#define UNCUT_LOOK 100000u   /* sums between two checks of the clock */
#define UNCUT_APART 3u       /* limit of blocks taken apart at once, with the blocks in them ... */
#define UNCUT_APART_ALL 64u
#define UNCUT_NEAR 8u  /* ... each after the first is the nearest of this number */
#define UNCUT_STALE 4u /* tries per remaining block without fewer blocks, until repair ends */
#define UNCUT_STALE_LEAST 100u
#define UNCUT_SKIP 8u       /* during repair, one match in eight is skipped */
#define UNCUT_TRY_EFFORT 8u /* cost of a try in addition to its sums */

typedef struct tn__uncut_state uncut_state;

static tn__uncut_block *uncut_block(const tn__uncut *uncut, uint32_t id) {
    return &uncut->blocks[id];
}

/* --- lists --- */

static void uncut_wait(tn__uncut *uncut, uint32_t time, uint32_t level) {
    if (level >= TN__UNCUT_LEVELS) return;
    tn__uncut_queue *queue = &uncut->state->waiting[level];
    if (queue->head > queue->count / 2 && queue->count == queue->room) {
        queue->count -= queue->head;
        memmove(queue->steps, queue->steps + queue->head, queue->count * sizeof *queue->steps);
        queue->head = 0;
    }
    if (!tn__reserve(tn__run_context(uncut->run), &queue->steps, &queue->room, queue->count + 1,
                     sizeof *queue->steps)) {
        uncut->state->out_of_memory = true;
        return;
    }
    queue->steps[queue->count++] = time;
}

static void uncut_dirty(tn__uncut *uncut, uint32_t time) {
    if (uncut->state->clean[time] == 0) return; /* it is already waiting */
    uncut->state->clean[time] = 0;
    uncut_wait(uncut, time, 0);
}

/* Marks the block as not part of another. */
static void uncut_stand(tn__uncut *uncut, uint32_t id) {
    tn__uncut_block *block = uncut_block(uncut, id);
    uncut_state *state = uncut->state;
    block->parent = UNCUT_NONE;
    block->previous_start = block->previous_end = UNCUT_NONE;
    block->next_start = state->starts[block->first];
    block->next_end = state->ends[block->last];
    if (block->next_start != UNCUT_NONE) uncut_block(uncut, block->next_start)->previous_start = id;
    if (block->next_end != UNCUT_NONE) uncut_block(uncut, block->next_end)->previous_end = id;
    state->starts[block->first] = state->ends[block->last] = id;
    block->place = uncut->standing_count;
    uncut->standing[uncut->standing_count++] = id;
}

/* Unmarks it. */
static void uncut_fall(tn__uncut *uncut, uint32_t id) {
    tn__uncut_block *block = uncut_block(uncut, id);
    uint32_t *before = &uncut->state->starts[block->first], moved;
    if (block->previous_start != UNCUT_NONE)
        before = &uncut_block(uncut, block->previous_start)->next_start;
    *before = block->next_start;
    if (block->next_start != UNCUT_NONE)
        uncut_block(uncut, block->next_start)->previous_start = block->previous_start;
    before = &uncut->state->ends[block->last];
    if (block->previous_end != UNCUT_NONE)
        before = &uncut_block(uncut, block->previous_end)->next_end;
    *before = block->next_end;
    if (block->next_end != UNCUT_NONE)
        uncut_block(uncut, block->next_end)->previous_end = block->previous_end;
    moved = uncut->standing[--uncut->standing_count];
    uncut->standing[block->place] = moved;
    uncut_block(uncut, moved)->place = block->place;
}

static void uncut_note_deed(tn__uncut *uncut, tn__uncut_deed deed) {
    uncut_state *state = uncut->state;
    if (!state->notes) return;
    if (tn__reserve(tn__run_context(uncut->run), &state->journal, &state->journal_room,
                    state->journal_count + 1, sizeof *state->journal))
        state->journal[state->journal_count++] = deed;
    else
        state->out_of_memory = true;
}

/* --- joining and taking apart --- */

static void uncut_link(tn__uncut *uncut, uint32_t id, uint32_t parent, uint64_t delta) {
    tn__uncut_block *block = uncut_block(uncut, id);
    uncut_fall(uncut, id);
    block->parent = parent;
    block->delta = delta;
    block->next_part = uncut_block(uncut, parent)->first_part;
    uncut_block(uncut, parent)->first_part = id;
}

void tn__uncut_put(tn__uncut *uncut, uint32_t id, uint32_t parent, uint64_t delta) {
    uncut_link(uncut, id, parent, delta);
    uncut_note_deed(uncut, (tn__uncut_deed){.id = id, .parent = parent});
}

uint32_t tn__uncut_new(tn__uncut *uncut, uint64_t size, uint32_t first, uint32_t last) {
    uncut_state *state = uncut->state;
    uint32_t id = state->unused_count > 0 ? state->unused[--state->unused_count] : state->used++;
    *uncut_block(uncut, id) =
        (tn__uncut_block){.size = size, .first = first, .last = last, .first_part = UNCUT_NONE};
    uncut_stand(uncut, id);
    uncut_note_deed(uncut, (tn__uncut_deed){.id = id, .parent = UNCUT_NONE});
    uncut_dirty(uncut, first);
    uncut_dirty(uncut, last);
    return id;
}

/* Separates a block into its parts. The steps at which the parts begin and end are queued for
 * joining again. */
static void uncut_take_apart(tn__uncut *uncut, uint32_t id) {
    uint32_t part = uncut_block(uncut, id)->first_part;
    uncut_fall(uncut, id);
    while (part != UNCUT_NONE) {
        tn__uncut_block *block = uncut_block(uncut, part);
        uint32_t next = block->next_part;
        uncut_note_deed(
            uncut, (tn__uncut_deed){.id = part, .parent = id, .delta = block->delta, .left = true});
        uncut_stand(uncut, part);
        uncut_dirty(uncut, block->first);
        uncut_dirty(uncut, block->last);
        part = next;
    }
    uncut_note_deed(uncut, (tn__uncut_deed){.id = id, .parent = UNCUT_NONE, .left = true});
}

/* Undoes all actions since the journal was begun, from the last to the first. */
static void uncut_undo(tn__uncut *uncut) {
    uncut_state *state = uncut->state;
    while (state->journal_count > 0) {
        tn__uncut_deed deed = state->journal[--state->journal_count];
        if (deed.left && deed.parent == UNCUT_NONE) {
            uncut_block(uncut, deed.id)->first_part = UNCUT_NONE;
            uncut_stand(uncut, deed.id);
        } else if (deed.left) {
            uncut_link(uncut, deed.id, deed.parent, deed.delta);
        } else if (deed.parent != UNCUT_NONE) {
            uncut_stand(uncut, deed.id);
        } else {
            uncut_fall(uncut, deed.id);
            state->unused[state->unused_count++] = deed.id;
        }
    }
}

/* Makes blocks that were taken apart available for reuse. */
static void uncut_settle(tn__uncut *uncut) {
    uncut_state *state = uncut->state;
    for (size_t i = 0; i < state->journal_count; i++)
        if (state->journal[i].left && state->journal[i].parent == UNCUT_NONE)
            state->unused[state->unused_count++] = state->journal[i].id;
    state->journal_count = 0;
}

/* --- all steps --- */

static bool uncut_step(tn__uncut *uncut, uint32_t time, uint32_t level) {
    static const struct {
        uint32_t most;
        bool alone;
    } rules[TN__UNCUT_LEVELS] = {{1, true},          {0, true},  {2, true},          {3, true},
                                 {UINT32_MAX, true}, {3, false}, {UINT32_MAX, false}};
    if (level == UNCUT_WHEELS) return tn__uncut_wheel(uncut, time);
    return tn__uncut_sums(uncut, time, rules[level].most, rules[level].alone);
}

/* Hardly any two sizes agree: these bodies were not cut, and sums would agree by chance only. */
static bool uncut_is_hopeless(const tn__uncut *uncut) {
    return uncut->body_count - uncut->standing_count < uncut->body_count / UNCUT_HOPE;
}

/* Whether to continue; otherwise sets *status. */
static bool uncut_goes_on(tn__uncut *uncut, uint64_t effort_max, tn_status *status) {
    uncut_state *state = uncut->state;
    *status = state->out_of_memory ? TN_E_NO_MEMORY : TN_OK;
    if (state->out_of_memory) return false;
    if (state->unseen < UNCUT_LOOK) return true;
    uncut->effort += state->unseen;
    *status = tn__run_work(uncut->run, state->unseen / UNCUT_UNIT);
    state->unseen = 0;
    return *status == TN_OK && uncut->effort <= effort_max;
}

static bool uncut_next(tn__uncut *uncut, uint32_t *time, uint32_t *level) {
    for (*level = 0; *level < TN__UNCUT_LEVELS; ++*level) {
        tn__uncut_queue *queue = &uncut->state->waiting[*level];
        while (queue->head < queue->count) {
            *time = queue->steps[queue->head++];
            /* otherwise it waits at another level */
            if (uncut->state->clean[*time] == *level) return true;
        }
        queue->head = queue->count = 0;
    }
    return false;
}

static tn_status uncut_run(tn__uncut *uncut, uint64_t effort_max) {
    uint32_t time, level;
    tn_status status = TN_OK;
    while (uncut_next(uncut, &time, &level)) {
        if (level > UNCUT_WHEELS && uncut_is_hopeless(uncut)) return TN_OK;
        bool found = uncut_step(uncut, time, level);
        uncut->state->clean[time] = found ? 0 : (uint8_t)(level + 1);
        uncut_wait(uncut, time, uncut->state->clean[time]);
        if (!uncut_goes_on(uncut, effort_max, &status)) return status;
    }
    return TN_OK;
}

/* --- repair --- */

static uint32_t uncut_distance(const tn__uncut *uncut, uint32_t a, uint32_t b) {
    const tn__uncut_block *x = uncut_block(uncut, a), *y = uncut_block(uncut, b);
    uint32_t of_first = x->first > y->first ? x->first - y->first : y->first - x->first;
    uint32_t of_last = x->last > y->last ? x->last - y->last : y->last - x->last;
    uint32_t gap = x->first > y->last   ? x->first - y->last
                   : y->first > x->last ? y->first - x->last
                                        : 0;
    return gap + (of_first < of_last ? of_first : of_last);
}

/* A random separate block made of others; near to `other` if that is given. */
static uint32_t uncut_choose(tn__uncut *uncut, uint32_t other) {
    uint32_t best = UNCUT_NONE, least = UINT32_MAX;
    for (uint32_t i = 0; i < UNCUT_NEAR; i++) {
        uint64_t place = tn__random_below(&uncut->state->random, uncut->standing_count);
        uint32_t id = uncut->standing[place];
        if (uncut_block(uncut, id)->first_part == UNCUT_NONE) continue;
        if (other == UNCUT_NONE) return id;
        uint32_t distance = uncut_distance(uncut, id, other);
        if (distance < least) best = id;
        if (distance < least) least = distance;
    }
    return best;
}

static void uncut_take_some_apart(tn__uncut *uncut) {
    tn__random *random = &uncut->state->random;
    uint32_t id = UNCUT_NONE, apart = 0;
    for (uint64_t left = 1 + tn__random_below(random, UNCUT_APART); left > 0; left--) {
        id = uncut_choose(uncut, id);
        if (id == UNCUT_NONE) return;
        for (uint32_t at = id; at != UNCUT_NONE && apart < UNCUT_APART_ALL; apart++) {
            uint32_t inner = UNCUT_NONE, part = uncut_block(uncut, at)->first_part;
            for (; part != UNCUT_NONE; part = uncut_block(uncut, part)->next_part)
                if (uncut_block(uncut, part)->first_part != UNCUT_NONE &&
                    tn__random_below(random, 2) == 0)
                    inner = part;
            uncut_take_apart(uncut, at);
            at = tn__random_below(random, 2) == 0 ? inner : UNCUT_NONE; /* and so on */
        }
    }
}

/* Shuffles the steps that wait at the beginning. */
static void uncut_shuffle(tn__uncut *uncut) {
    tn__uncut_queue *queue = &uncut->state->waiting[0];
    for (size_t left = queue->count - queue->head; left > 1; left--) {
        size_t at = queue->head + (size_t)tn__random_below(&uncut->state->random, left);
        uint32_t *last = &queue->steps[queue->head + left - 1], swap = *last;
        *last = queue->steps[at];
        queue->steps[at] = swap;
    }
}

tn_status tn__uncut_mend(tn__uncut *uncut, uint64_t effort) {
    uncut_state *state = uncut->state;
    tn_status status = TN_OK;
    if (uncut_is_hopeless(uncut)) return TN_OK;
    state->skip = UNCUT_SKIP;
    state->notes = true;
    for (uint64_t stale = 0; uncut->standing_count > 1 && status == TN_OK; stale++) {
        uint32_t before = uncut->standing_count;
        if (stale > UNCUT_STALE * (uint64_t)before + UNCUT_STALE_LEAST) break;
        uncut_take_some_apart(uncut);
        uncut_shuffle(uncut);
        status = uncut_run(uncut, UINT64_MAX);
        if (uncut->standing_count > before || status != TN_OK)
            uncut_undo(uncut);
        else
            uncut_settle(uncut);
        if (uncut->standing_count < before) stale = 0;
        state->unseen += UNCUT_TRY_EFFORT;
        if (status == TN_OK && !uncut_goes_on(uncut, effort, &status)) break;
    }
    state->notes = false;
    state->skip = 0;
    return status;
}

/* --- the whole --- */

bool tn__uncut_is_full(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t steps = tn__run_time_count(run);
    uint64_t *load = tn__run_scratch(run, steps, sizeof *load), sum = 0, full = 0;
    uint64_t bound = tn__run_lower_bound(run);
    if (load == NULL || steps < 2) return false;
    for (uint32_t i = 0; i < tn__run_count(run); i++) { /* modulo 2^64: the sums are right */
        load[bodies[i].first] += bodies[i].size;
        load[bodies[i].last] -= bodies[i].size;
    }
    for (uint32_t t = 0; t + 1 < steps; t++) {
        sum += load[t];
        full += sum >= bound - bound / UNCUT_FULL_GAP;
    }
    return full >= (steps - 1) - (steps - 1) / UNCUT_FULL_STEPS;
}

tn_status tn__uncut_join(tn__uncut *uncut, uint32_t turn) {
    uncut_state *state = uncut->state;
    state->random.state = tn__run_seed(uncut->run) + turn;
    for (uint32_t t = 0; t < tn__run_time_count(uncut->run); t++) uncut_dirty(uncut, t);
    if (turn > 0) uncut_shuffle(uncut);
    if (state->out_of_memory) return TN_E_NO_MEMORY;
    uint64_t most = UNCUT_EFFORT * ((uint64_t)uncut->body_count + 1000);
    return uncut_run(uncut, uncut->effort + (most < UNCUT_EFFORT_MAX ? most : UNCUT_EFFORT_MAX));
}

void tn__uncut_reset(tn__uncut *uncut) {
    uncut_state *state = uncut->state;
    size_t times = tn__run_time_count(uncut->run);
    memset(state->starts, 0xff, times * sizeof *state->starts);
    memset(state->ends, 0xff, times * sizeof *state->ends);
    memset(state->clean, 0xff, times);
    for (uint32_t level = 0; level < TN__UNCUT_LEVELS; level++)
        state->waiting[level].head = state->waiting[level].count = 0;
    state->used = uncut->body_count;
    state->unused_count = uncut->standing_count = 0;
    for (uint32_t i = 0; i < uncut->body_count; i++) uncut_stand(uncut, i);
}

tn_status tn__uncut_create(tn_run *run, const uint32_t *ids, uint32_t count, tn__uncut *uncut) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t times = tn__run_time_count(run);
    uncut_state *state = tn__run_scratch(run, 1, sizeof *state);
    *uncut = (tn__uncut){.run = run, .body_count = count, .state = state};
    size_t spare =
        (size_t)count + UNCUT_APART_ALL; /* made of others, plus those just taken apart */
    uncut->blocks = tn__run_scratch(run, count + spare, sizeof *uncut->blocks);
    uncut->standing = tn__run_scratch(run, (size_t)count + 1, sizeof *uncut->standing);
    if (state == NULL || uncut->blocks == NULL || uncut->standing == NULL) return TN_E_NO_MEMORY;
    state->starts = tn__run_scratch(run, times, sizeof *state->starts);
    state->ends = tn__run_scratch(run, times, sizeof *state->ends);
    state->clean = tn__run_scratch(run, times, sizeof *state->clean);
    state->unused = tn__run_scratch(run, spare, sizeof *state->unused);
    if (!state->starts || !state->ends || !state->clean || !state->unused) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const tn_run_body *body = &bodies[ids[i]];
        uncut->blocks[i] = (tn__uncut_block){
            .size = body->size, .first = body->first, .last = body->last, .first_part = UNCUT_NONE};
    }
    tn__uncut_reset(uncut);
    return TN_OK;
}

void tn__uncut_release(tn__uncut *uncut) {
    const tn_context *context = tn__run_context(uncut->run);
    uncut_state *state = uncut->state;
    if (state == NULL) return;
    for (uint32_t level = 0; level < TN__UNCUT_LEVELS; level++)
        tn__free(context, state->waiting[level].steps,
                 state->waiting[level].room * sizeof *state->waiting[level].steps);
    tn__free(context, state->members, state->member_room * sizeof *state->members);
    tn__free(context, state->line, state->line_room * sizeof *state->line);
    tn__free(context, state->journal, state->journal_room * sizeof *state->journal);
    tn__uncut_release_sums(uncut);
}
