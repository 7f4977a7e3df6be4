/* uncut_wheels.c - finds five blocks in a wheel, a packing that cuts from side to side cannot make.
 *
 *  +-----+--+     Around M = [a, b) lie A that ends at a and D that begins there, A larger by M,
 * and |  B  |  |     B that ends at b and C that begins there, C larger by M. A and B begin
 * together,
 *  +--+--+ C|     C and D end together.
 *  |  |M |  |
 *  |A +--+--+     D and C of one end are looked for first: ends agree by chance less often than
 *  |  |  D  |     anything else here.
 *  +--+-----+
 *     a  b
 */
#include "plan/skyline/uncut_state.h"

#include "base/sorted.h"

#define UNCUT_TRIES 2000000u /* limit of blocks visited at a step */

typedef struct uncut_parts {
    uint32_t a, b, c, d, m;
} uncut_parts;

static void uncut_close_wheel(tn__uncut *uncut, uncut_parts parts) {
    const tn__uncut_block *blocks = uncut->blocks;
    uint64_t low = blocks[parts.a].size, step = blocks[parts.d].size;
    uint32_t made = tn__uncut_new(uncut, low + blocks[parts.b].size, blocks[parts.a].first,
                                  blocks[parts.d].last);
    tn__uncut_put(uncut, parts.a, made, 0);
    tn__uncut_put(uncut, parts.b, made, low);
    tn__uncut_put(uncut, parts.d, made, 0);
    tn__uncut_put(uncut, parts.m, made, step);
    tn__uncut_put(uncut, parts.c, made, step);
}

/* Counts a visit. False: the limit at this step is reached. */
static bool uncut_look(tn__uncut *uncut, uint64_t most) { return ++uncut->state->unseen < most; }

/* M, C and D are known: finds A by its size, B by A and C. */
static bool uncut_close(tn__uncut *uncut, uncut_parts parts, uint64_t most) {
    const tn__uncut_block *blocks = uncut->blocks, *m = &blocks[parts.m];
    const tn__uncut_block *c = &blocks[parts.c], *d = &blocks[parts.d];
    if (parts.d == parts.m || c->size <= m->size) return false;
    uint64_t of_a = tn__add_sat(m->size, d->size), of_b = c->size - m->size;
    uint32_t *ends = uncut->state->ends;
    for (uint32_t a = ends[m->first]; a != TN__UNCUT_NONE; a = blocks[a].next_end) {
        if (!uncut_look(uncut, most)) return false;
        if (blocks[a].size != of_a) continue;
        for (uint32_t b = ends[m->last]; b != TN__UNCUT_NONE; b = blocks[b].next_end) {
            if (!uncut_look(uncut, most)) return false;
            if (blocks[b].size != of_b || blocks[b].first != blocks[a].first || b == parts.m)
                continue;
            parts.a = a;
            parts.b = b;
            uncut_close_wheel(uncut, parts);
            return true;
        }
    }
    return false;
}

/* line[count] are blocks that begin at one end of M, the list from `other` those at its other
 * end. */
static bool uncut_around(tn__uncut *uncut, uint32_t m, uint32_t other, size_t count, bool at_end,
                         uint64_t most) {
    const tn__sort_item *line = uncut->state->line;
    for (; other != TN__UNCUT_NONE; other = uncut->blocks[other].next_start) {
        uint32_t last = uncut->blocks[other].last;
        if (!uncut_look(uncut, most)) return false;
        if (last <= uncut->blocks[m].last) continue;
        for (size_t i = tn__sorted_find(line, count, last); i < count && line[i].key == last; i++) {
            if (!uncut_look(uncut, most)) return false;
            uncut_parts parts = {
                .m = m, .c = at_end ? line[i].id : other, .d = at_end ? other : line[i].id};
            if (uncut_close(uncut, parts, most)) return true;
        }
    }
    return false;
}

/* Any part may have been made last; each begins or ends where the middle does. */
bool tn__uncut_wheel(tn__uncut *uncut, uint32_t time) {
    struct tn__uncut_state *state = uncut->state;
    const tn__uncut_block *blocks = uncut->blocks;
    size_t count;
    if (!tn__uncut_line(uncut, time, false, &count)) {
        state->out_of_memory = true;
        return false;
    }
    uint64_t most = state->unseen + UNCUT_TRIES;
    for (uint32_t m = state->starts[time]; m != TN__UNCUT_NONE && state->unseen < most;
         m = blocks[m].next_start)
        if (uncut_around(uncut, m, state->starts[blocks[m].last], count, false, most)) return true;
    for (uint32_t m = state->ends[time]; m != TN__UNCUT_NONE && state->unseen < most;
         m = blocks[m].next_end)
        if (uncut_around(uncut, m, state->starts[blocks[m].first], count, true, most)) return true;
    return false;
}
