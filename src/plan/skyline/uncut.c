/* uncut.c - undoes the cuts of a perfect packing, from the smallest pieces up.
 *
 *   +-----+---+    Two bodies of equal size, one of which begins when the other ends, are likely to
 *   |  A  | B |    be halves of one that was cut: sizes of many digits seldom agree by chance. Put
 *   +--+--+---+    together they are a larger body, which may fit another one in the same way, and
 *   |  |      |    so on up to the whole. Where several bodies share a life, their sum may be what
 *   +--+------+    agrees: fewest first, since sums agree by chance more often than sizes. Five can
 *                  lie in a wheel, a packing that no cut from side to side makes: around M = [a, b)
 * lie A that ends at a and D that begins there, with size(A) - size(D) = size(M), and B that ends
 * at b and C that begins there, with size(C) - size(B) = size(M); A and B begin together, C and D
 * end together.
 *
 * In a network it is the same wherever a tensor dies as one of its size is born: memory is handed
 * over and nothing is lost. Where bodies were not cut from one, what is put together by chance may
 * be worse than apart; so this is one plan among others, never the only one.
 *
 * Steps wait in lists by how much is allowed to agree; whatever was put together begins anew with
 * the least at its ends.
 * Cost:   O(n log n) where few bodies begin at a step; about 120 bytes a body.
 * Source: ours.
 */
#include "plan/skyline/uncut.h"

#define UNCUT_NONE TN__UNCUT_NONE
#define UNCUT_LEVELS 5u
#define UNCUT_WHEELS 1u              /* the level that looks for wheels */
#define UNCUT_GROUP 10u              /* bodies of one life of which subsets are added up */
#define UNCUT_SUMS 4096u             /* on one side of a step */
#define UNCUT_TRIPLES 20000u         /* looked at for wheels at a step */
#define UNCUT_PART_MAX 64u           /* bodies in a sum */
#define UNCUT_EFFORT 20000u          /* sums for each body, in all ... */
#define UNCUT_EFFORT_MAX 1500000000u /* ... and for all bodies */
#define UNCUT_HOPE 16u     /* one block for so many bodies must be made of two or a wheel */
#define UNCUT_LOOK 100000u /* sums between two looks at the clock */

typedef struct uncut_sum { /* bodies of one life that end (or begin) at the step */
    uint64_t size;
    uint32_t place, count; /* into state.members */
} uncut_sum;

typedef struct uncut_side { /* those that end at a step, or those that begin there */
    uncut_sum sums[UNCUT_SUMS];
    tn__sort_item order[UNCUT_SUMS]; /* by size */
    uint32_t count;
} uncut_side;

typedef struct uncut_state {
    tn_run *run;
    tn__uncut *all;
    uint32_t *starts, *ends; /* [time_count], lists of those that stand */
    uint8_t *clean;          /* [time_count], levels at which nothing more is found */
    uint32_t *waiting[UNCUT_LEVELS];
    size_t waiting_count[UNCUT_LEVELS], waiting_room[UNCUT_LEVELS];
    uncut_side below, above; /* of time: that end, that begin */
    uint32_t *members;       /* of sums */
    size_t member_count, member_room;
    tn__sort_item *line; /* [line_room], those of a step by their other end */
    size_t line_room;
    uint64_t unseen, effort; /* sums since the clock was read, and before */
    bool out_of_memory;
} uncut_state;

static tn__uncut_block *uncut_block(const uncut_state *state, uint32_t id) {
    return &state->all->blocks[id];
}

/* --- lists --- */

static void uncut_wait(uncut_state *state, uint32_t time, uint32_t level) {
    if (level >= UNCUT_LEVELS) return;
    size_t need = state->waiting_count[level] + 1;
    if (!tn__reserve(tn__run_context(state->run), &state->waiting[level],
                     &state->waiting_room[level], need, sizeof(uint32_t))) {
        state->out_of_memory = true;
        return;
    }
    state->waiting[level][state->waiting_count[level]++] = time;
}

static void uncut_dirty(uncut_state *state, uint32_t time) {
    state->clean[time] = 0;
    uncut_wait(state, time, 0);
}

static void uncut_stand(uncut_state *state, uint32_t id) {
    tn__uncut_block *block = uncut_block(state, id);
    block->parent = UNCUT_NONE;
    block->previous_start = block->previous_end = UNCUT_NONE;
    block->next_start = state->starts[block->first];
    block->next_end = state->ends[block->last];
    if (block->next_start != UNCUT_NONE) uncut_block(state, block->next_start)->previous_start = id;
    if (block->next_end != UNCUT_NONE) uncut_block(state, block->next_end)->previous_end = id;
    state->starts[block->first] = state->ends[block->last] = id;
}

/* The block becomes part of `parent`. */
static void uncut_join(uncut_state *state, uint32_t id, uint32_t parent, uint64_t delta) {
    tn__uncut_block *block = uncut_block(state, id);
    if (block->previous_start != UNCUT_NONE)
        uncut_block(state, block->previous_start)->next_start = block->next_start;
    else
        state->starts[block->first] = block->next_start;
    if (block->next_start != UNCUT_NONE)
        uncut_block(state, block->next_start)->previous_start = block->previous_start;
    if (block->previous_end != UNCUT_NONE)
        uncut_block(state, block->previous_end)->next_end = block->next_end;
    else
        state->ends[block->last] = block->next_end;
    if (block->next_end != UNCUT_NONE)
        uncut_block(state, block->next_end)->previous_end = block->previous_end;
    block->parent = parent;
    block->delta = delta;
}

static uint32_t uncut_new(uncut_state *state, uint64_t size, uint32_t first, uint32_t last) {
    uint32_t id = state->all->count++; /* at most one for two that it takes in */
    *uncut_block(state, id) = (tn__uncut_block){.size = size, .first = first, .last = last};
    uncut_stand(state, id);
    uncut_dirty(state, first);
    uncut_dirty(state, last);
    return id;
}

/* --- sums that agree --- */

static bool uncut_note(uncut_state *state, uint32_t member) {
    if (!tn__reserve(tn__run_context(state->run), &state->members, &state->member_room,
                     state->member_count + 1, sizeof *state->members)) {
        state->out_of_memory = true;
        return false;
    }
    state->members[state->member_count++] = member;
    return true;
}

/* Adds the sum of line[from + each bit of `mask`]. */
static void uncut_add(uncut_state *state, uncut_side *side, size_t from, uint32_t mask) {
    if (side->count == UNCUT_SUMS) return;
    uncut_sum sum = {.place = (uint32_t)state->member_count};
    for (uint32_t i = 0; mask >> i != 0; i++) {
        if (!(mask >> i & 1)) continue;
        uint32_t id = state->line[from + i].id;
        sum.size = tn__add_sat(sum.size, uncut_block(state, id)->size);
        sum.count++;
        if (!uncut_note(state, id)) return;
    }
    side->order[side->count] = (tn__sort_item){sum.size, side->count};
    side->sums[side->count++] = sum;
}

/* Sums of at most `most` of the bodies line[from, from + count), which share a life. */
static void uncut_add_group(uncut_state *state, uncut_side *side, size_t from, uint32_t count,
                            uint32_t most) {
    for (uint32_t i = 0; i < count && count > UNCUT_GROUP; i++) uncut_add(state, side, from + i, 1);
    if (count > UNCUT_GROUP) return;
    for (uint32_t mask = 1; mask >> count == 0; mask++) {
        uint32_t bits = (uint32_t)__builtin_popcount(mask);
        if (bits <= most || (most > 2 && bits == count)) uncut_add(state, side, from, mask);
    }
}

/* All sums of one side of a step. */
static bool uncut_gather(uncut_state *state, uncut_side *side, uint32_t time, uint32_t most,
                         bool ending) {
    size_t count = 0;
    uint32_t at = ending ? state->ends[time] : state->starts[time];
    side->count = 0;
    while (at != UNCUT_NONE) {
        const tn__uncut_block *block = uncut_block(state, at);
        if (!tn__reserve(tn__run_context(state->run), &state->line, &state->line_room, count + 1,
                         sizeof *state->line))
            return false;
        state->line[count++] = (tn__sort_item){ending ? block->first : block->last, at};
        at = ending ? block->next_end : block->next_start;
    }
    if (!tn__sort_items(tn__run_context(state->run), state->line, count)) return false;
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && state->line[to].key == state->line[from].key;) to++;
        uncut_add_group(state, side, from, (uint32_t)(to - from), most);
    }
    state->unseen += side->count + count;
    return tn__sort_items(tn__run_context(state->run), side->order, side->count);
}

static bool uncut_stands(const uncut_state *state, const uncut_sum *sum) {
    for (uint32_t i = 0; i < sum->count; i++)
        if (uncut_block(state, state->members[sum->place + i])->parent != UNCUT_NONE) return false;
    return true;
}

static void uncut_pile(uncut_state *state, const uncut_sum *sum, uint32_t parent) {
    uint64_t delta = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        uint32_t id = state->members[sum->place + i];
        uncut_join(state, id, parent, delta);
        delta += uncut_block(state, id)->size;
    }
}

static bool uncut_unite(uncut_state *state, const uncut_sum *a, const uncut_sum *b) {
    if (!uncut_stands(state, a) || !uncut_stands(state, b)) return false;
    uint32_t first = uncut_block(state, state->members[a->place])->first;
    uint32_t last = uncut_block(state, state->members[b->place])->last;
    uint32_t made = uncut_new(state, a->size, first, last);
    uncut_pile(state, a, made);
    uncut_pile(state, b, made);
    return true;
}

/* Where sums of both sides agree, their bodies are put together; `alone`: only where no third one
 * agrees. Fewest bodies first. */
static bool uncut_match(uncut_state *state, uint32_t total, bool alone) {
    const uncut_side *low = &state->below, *high = &state->above;
    bool any = false;
    for (uint32_t i = 0, k = 0, to_i, to_k; i < low->count && k < high->count;) {
        uint64_t a = low->order[i].key, b = high->order[k].key;
        for (to_i = i; to_i < low->count && low->order[to_i].key == a;) to_i++;
        for (to_k = k; to_k < high->count && high->order[to_k].key == b;) to_k++;
        bool clear = !alone || (to_i - i == 1 && to_k - k == 1);
        for (uint32_t x = i; x < to_i && a == b && clear; x++)
            for (uint32_t y = k; y < to_k; y++) {
                const uncut_sum *p = &low->sums[low->order[x].id];
                const uncut_sum *q = &high->sums[high->order[y].id];
                if (p->count + q->count <= total) any |= uncut_unite(state, p, q);
            }
        if (a <= b) i = to_i;
        if (b <= a) k = to_k;
    }
    return any;
}

static bool uncut_sums(uncut_state *state, uint32_t time, uint32_t most, bool alone) {
    state->member_count = 0;
    if (!uncut_gather(state, &state->below, time, most, true) ||
        !uncut_gather(state, &state->above, time, most, false)) {
        state->out_of_memory = true;
        return false;
    }
    for (uint32_t total = 2; total <= 2 * most; total++)
        if (uncut_match(state, total, alone)) return true;
    return most > 2 && uncut_match(state, UNCUT_PART_MAX, alone);
}

/* --- wheels --- */

/* B ends and C begins where M ends: B begins with A, C ends with D, C is larger by M. */
static bool uncut_close_wheel(uncut_state *state, const uint32_t adm[3]) {
    const tn__uncut_block *a = uncut_block(state, adm[0]), *d = uncut_block(state, adm[1]);
    const tn__uncut_block *m = uncut_block(state, adm[2]);
    for (uint32_t b = state->ends[m->last]; b != UNCUT_NONE; b = uncut_block(state, b)->next_end) {
        if (uncut_block(state, b)->first != a->first) continue;
        uint64_t size = uncut_block(state, b)->size;
        uint32_t c = state->starts[m->last];
        while (c != UNCUT_NONE && (uncut_block(state, c)->last != d->last ||
                                   uncut_block(state, c)->size != size + m->size))
            c = uncut_block(state, c)->next_start;
        if (c == UNCUT_NONE) continue;
        uint64_t low = a->size, step = d->size;
        uint32_t made = uncut_new(state, low + size, a->first, d->last);
        uncut_join(state, adm[0], made, 0);
        uncut_join(state, b, made, low);
        uncut_join(state, adm[1], made, 0);
        uncut_join(state, adm[2], made, step);
        uncut_join(state, c, made, step);
        return true;
    }
    return false;
}

/* A ends and D begins where M does; D outlives M. */
static bool uncut_wheel_around(uncut_state *state, uint32_t m, uint32_t *tries) {
    const tn__uncut_block *middle = uncut_block(state, m);
    uint32_t time = middle->first;
    for (uint32_t d = state->starts[time]; d != UNCUT_NONE; d = uncut_block(state, d)->next_start) {
        if (uncut_block(state, d)->last <= middle->last) continue;
        uint64_t size = middle->size + uncut_block(state, d)->size;
        for (uint32_t a = state->ends[time]; a != UNCUT_NONE; a = uncut_block(state, a)->next_end) {
            if (++*tries > UNCUT_TRIPLES) return false;
            if (uncut_block(state, a)->size == size &&
                uncut_close_wheel(state, (uint32_t[]){a, d, m}))
                return true;
        }
    }
    return false;
}

/* Any part of a wheel may have come last; each lies at a step at which the middle begins or ends.
 */
static bool uncut_wheel(uncut_state *state, uint32_t time) {
    uint32_t tries = 0;
    bool found = false;
    for (uint32_t m = state->starts[time]; m != UNCUT_NONE && !found;
         m = uncut_block(state, m)->next_start)
        found = uncut_wheel_around(state, m, &tries);
    for (uint32_t m = state->ends[time]; m != UNCUT_NONE && !found;
         m = uncut_block(state, m)->next_end)
        found = uncut_wheel_around(state, m, &tries);
    state->unseen += tries;
    return found;
}

/* --- all steps --- */

static bool uncut_step(uncut_state *state, uint32_t time, uint32_t level) {
    static const uint32_t most[UNCUT_LEVELS] = {1, 1, 2, 3, 3};
    if (level == UNCUT_WHEELS) return uncut_wheel(state, time);
    if (state->starts[time] == UNCUT_NONE || state->ends[time] == UNCUT_NONE) return false;
    return uncut_sums(state, time, most[level], level + 1 < UNCUT_LEVELS);
}

/* Hardly any two sizes agree: no packing was cut here, and sums would agree by chance alone. */
static bool uncut_is_hopeless(const uncut_state *state) {
    return (state->all->count - state->all->body_count) < state->all->body_count / UNCUT_HOPE;
}

static tn_status uncut_run(uncut_state *state) {
    for (uint32_t level = 0; level < UNCUT_LEVELS;) {
        if (state->waiting_count[level] == 0) {
            level++;
            continue;
        }
        if (level > UNCUT_WHEELS && uncut_is_hopeless(state)) return TN_OK;
        uint32_t time = state->waiting[level][--state->waiting_count[level]];
        if (state->clean[time] != level) continue; /* it waits elsewhere */
        if (state->unseen >= UNCUT_LOOK && !tn__run_goes_on(state->run))
            return tn__run_work(state->run, 0);
        if (state->unseen >= UNCUT_LOOK) {
            state->effort += state->unseen;
            state->unseen = 0;
            if (state->effort > UNCUT_EFFORT_MAX ||
                state->effort > UNCUT_EFFORT * ((uint64_t)state->all->body_count + 1000))
                return TN_OK; /* crowded steps: what there is will do */
        }
        if (uncut_step(state, time, level)) {
            uncut_dirty(state, time);
            level = 0;
        } else {
            state->clean[time] = (uint8_t)(level + 1);
            uncut_wait(state, time, level + 1);
        }
        if (state->out_of_memory) return TN_E_NO_MEMORY;
    }
    return TN_OK;
}

/* All steps wait, in the order of time or, from turn 1 on, in one by chance. */
static void uncut_wait_all(uncut_state *state, uint32_t times, uint32_t turn) {
    tn__random random = {.state = tn__run_seed(state->run) + turn};
    for (uint32_t t = 0; t < times; t++) uncut_wait(state, t, 0);
    for (uint32_t left = times; left > 1 && turn > 0 && !state->out_of_memory; left--) {
        uint32_t at = (uint32_t)tn__random_below(&random, left), *all = state->waiting[0];
        uint32_t swap = all[at];
        all[at] = all[left - 1];
        all[left - 1] = swap;
    }
}

tn_status tn__uncut_make(tn_run *run, const uint32_t *ids, uint32_t count, uint32_t turn,
                         tn__uncut *uncut) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const tn_context *context = tn__run_context(run);
    uint32_t times = tn__run_time_count(run);
    uncut_state *state = tn__run_scratch(run, 1, sizeof *state);
    *uncut = (tn__uncut){.body_count = count, .count = count};
    uncut->blocks = tn__run_scratch(run, 2 * (size_t)count, sizeof *uncut->blocks);
    if (state == NULL || uncut->blocks == NULL) return TN_E_NO_MEMORY;
    *state = (uncut_state){.run = run, .all = uncut};
    state->starts = tn__run_scratch(run, times, sizeof *state->starts);
    state->ends = tn__run_scratch(run, times, sizeof *state->ends);
    state->clean = tn__run_scratch(run, times, sizeof *state->clean);
    if (!state->starts || !state->ends || !state->clean) return TN_E_NO_MEMORY;
    memset(state->starts, 0xff, times * sizeof *state->starts);
    memset(state->ends, 0xff, times * sizeof *state->ends);
    for (uint32_t i = 0; i < count; i++) {
        const tn_run_body *body = &bodies[ids[i]];
        uncut->blocks[i] =
            (tn__uncut_block){.size = body->size, .first = body->first, .last = body->last};
        uncut_stand(state, i);
    }
    uncut_wait_all(state, times, turn);
    tn_status status = state->out_of_memory ? TN_E_NO_MEMORY : uncut_run(state);
    for (uint32_t level = 0; level < UNCUT_LEVELS; level++)
        tn__free(context, state->waiting[level],
                 state->waiting_room[level] * sizeof *state->waiting[level]);
    tn__free(context, state->members, state->member_room * sizeof *state->members);
    tn__free(context, state->line, state->line_room * sizeof *state->line);
    return status;
}
