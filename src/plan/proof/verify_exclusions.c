/* verify_exclusions.c - finds overlaps of live pieces in a problem in which some buffers are never
 * live at the same time.
 *
 * The sweep of verify.c relies on live pieces being disjoint. Here pieces of two excluded buffers
 * may hold the same bytes, so each new piece is compared with all live pieces that it overlaps. A
 * tree over the pieces in order of their lowest byte keeps, for each range of them, the highest end
 * of a live piece; it leads from one overlapping piece to the next. Each piece found is that of an
 * excluded buffer, or a conflict, which ends the sweep after its step. A piece whose live range has
 * ended stays in the tree until a new one overlaps it.
 *
 * Cost: O((n + k) log n) for n pieces and k overlaps of excluded ones.
 */
#include "plan/proof/verify_piece.h"

typedef struct excluding {
    const tn__verify_piece *pieces;
    const tn__exclusions *exclusions;
    tn__sort_item *by_byte; /* [count], the pieces in order of their lowest byte */
    uint32_t *place;        /* [count], the place of each piece in `by_byte` */
    /* [2 * leaves], node i has the children 2 i and 2 i + 1; the leaf of place p is leaves + p */
    uint64_t *reach;
    uint32_t count, leaves;
} excluding;

static void excluding_set(excluding *state, uint32_t place, uint64_t reach) {
    uint32_t node = state->leaves + place;
    state->reach[node] = reach;
    while ((node /= 2) > 0) {
        uint64_t left = state->reach[2 * node], right = state->reach[2 * node + 1];
        state->reach[node] = left > right ? left : right;
    }
}

/* Returns the first place from `place` on whose live piece ends above `byte`; UINT32_MAX: none. */
static uint32_t excluding_next(const excluding *state, uint32_t place, uint64_t byte) {
    if (place >= state->leaves) return UINT32_MAX;
    uint32_t node = state->leaves + place;
    do {
        while (node % 2 == 0) node /= 2;
        if (state->reach[node] > byte) {
            while (node < state->leaves) {
                node *= 2;
                node += state->reach[node] <= byte;
            }
            return node - state->leaves;
        }
        node++;
    } while ((node & (node - 1)) != 0);
    return UINT32_MAX;
}

/* Compares a piece with all live pieces that hold one of its bytes. */
static void excluding_compare(excluding *state, const tn__verify_piece *piece, tn_conflict *found) {
    for (uint32_t at = excluding_next(state, 0, piece->lo); at < state->count;
         at = excluding_next(state, at + 1, piece->lo)) {
        const tn__verify_piece *other = &state->pieces[state->by_byte[at].id];
        if (other->lo >= piece->hi) return;
        if (other->last <= piece->first) {
            excluding_set(state, at, 0);
            continue;
        }
        if (other->body == piece->body ||
            tn__excluded(state->exclusions, other->body, piece->body))
            continue;
        bool swap = other->body > piece->body;
        tn__verify_consider(
            found, &(tn_conflict){.reason = TN_CONFLICT_OVERLAP,
                                  .a = swap ? piece->body : other->body,
                                  .b = swap ? other->body : piece->body,
                                  .step = piece->first,
                                  .lo = piece->lo > other->lo ? piece->lo : other->lo,
                                  .hi = piece->hi < other->hi ? piece->hi : other->hi});
    }
}

static bool excluding_make(const tn_context *context, excluding *state) {
    uint32_t count = state->count;
    for (state->leaves = 1; state->leaves < count;) state->leaves *= 2;
    state->by_byte = tn__alloc_array(context, count, sizeof *state->by_byte);
    state->place = tn__alloc_array(context, count, sizeof *state->place);
    state->reach = tn__alloc_array(context, 2 * (size_t)state->leaves, sizeof *state->reach);
    if (state->by_byte == NULL || state->place == NULL || state->reach == NULL) return false;
    for (uint32_t i = 0; i < count; i++)
        state->by_byte[i] = (tn__sort_item){state->pieces[i].lo, i};
    if (!tn__sort_items(context, state->by_byte, count)) return false;
    for (uint32_t i = 0; i < count; i++) state->place[state->by_byte[i].id] = i;
    return true;
}

bool tn__verify_excluding(const tn_context *context, const tn__verify_piece *pieces, uint32_t count,
                          const tn__exclusions *exclusions, tn_conflict *found) {
    excluding state = {.pieces = pieces, .count = count, .exclusions = exclusions};
    bool made = excluding_make(context, &state);
    for (uint32_t i = 0; i < count && made; i++) {
        if (found->reason != TN_CONFLICT_NONE && pieces[i].first > found->step) break;
        excluding_compare(&state, &pieces[i], found);
        excluding_set(&state, state.place[i], pieces[i].hi);
    }
    tn__free(context, state.by_byte, (size_t)count * sizeof *state.by_byte);
    tn__free(context, state.place, (size_t)count * sizeof *state.place);
    tn__free(context, state.reach, 2 * (size_t)state.leaves * sizeof *state.reach);
    return made;
}
