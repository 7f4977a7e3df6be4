/* apart.c - prepares the separations, reserved ranges and reuse costs of one bank for planners.
 *
 * A pair of bodies of the problem becomes an entry of both bodies of the run. A member of a group
 * keeps its own bytes within the group. Left out are pairs whose bodies are in other banks, have no
 * bytes, or belong to one group. Reuse costs of pairs that cannot share bytes are left out, too:
 * plain bodies that meet in time, and separated bodies.
 *
 * Cost: O(n + pairs log pairs).
 */
#include "plan/frame/planner_run.h"

typedef struct apart_map {
    uint32_t *run_id; /* [problem->count], number in the run of each root; UINT32_MAX: not in it */
    size_t room;
} apart_map;

void tn__prepared_release_apart(tn__prepared *p) {
    tn__besides *both[] = {&p->apart, &p->costs};
    for (int i = 0; i < 2; i++) {
        size_t begins = both[i]->begin != NULL ? (size_t)p->count + 1 : 0;
        tn__free(&p->context, both[i]->begin, begins * sizeof *both[i]->begin);
        tn__free(&p->context, both[i]->items, both[i]->item_count * sizeof *both[i]->items);
        *both[i] = (tn__besides){0};
    }
    tn__free(&p->context, p->reserved, p->reserved_room * sizeof *p->reserved);
    p->reserved = NULL;
    p->reserved_room = 0;
}

/* Both entries of a pair; false: it has no effect in this bank. */
static bool apart_entries(const tn__prepared *p, const apart_map *map, const tn_pair *pair,
                          uint32_t ids[2], tn__beside entries[2]) {
    const tn_problem *problem = p->problem;
    tn_body_id of[2] = {pair->a, pair->b};
    uint64_t lo[2], hi[2];
    for (int i = 0; i < 2; i++) {
        const tn_body *body = &problem->bodies[of[i]];
        bool tied = (body->flags & TN_BODY_TIED) != 0;
        ids[i] = map->run_id[tied ? body->leader : of[i]];
        if (ids[i] == UINT32_MAX || body->size == 0) return false;
        lo[i] = tied ? body->delta : 0;
        hi[i] = lo[i] + body->size;
    }
    if (ids[0] == ids[1]) return false;
    for (int i = 0; i < 2; i++)
        entries[i] = (tn__beside){.other = ids[!i],
                                  .cost = pair->cost,
                                  .lo = lo[i],
                                  .hi = hi[i],
                                  .other_lo = lo[!i],
                                  .other_hi = hi[!i]};
    return true;
}

static bool apart_is_plain(const tn__prepared *p, uint32_t id) {
    const tn_run_body *body = &p->bodies[id];
    const tn_run_piece *piece = &p->pieces[body->piece_first];
    return body->piece_count == 1 && piece->lo == 0 && piece->hi == body->size &&
           !(p->problem->bodies[p->ids[id]].flags & TN_BODY_LEADS);
}

/* Whether two plain bodies must not share bytes, because of their live ranges and clocks. */
static bool apart_meet(const tn__prepared *p, uint32_t a, uint32_t b) {
    const tn_run view = {.prepared = p};
    if (!apart_is_plain(p, a) || !apart_is_plain(p, b)) return false;
    return tn__run_pieces_meet(&view, p->bodies[a].piece_first, p->bodies[b].piece_first);
}

static int apart_by_other(const void *a, const void *b) {
    const tn__beside *x = a, *y = b;
    if (x->other != y->other) return x->other < y->other ? -1 : 1;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    return (x->other_lo > y->other_lo) - (x->other_lo < y->other_lo);
}

/* Whether two plain bodies are separated; the lists of p->apart are sorted. */
static bool apart_separated(const tn__prepared *p, uint32_t a, uint32_t b) {
    if (p->apart.begin == NULL || !apart_is_plain(p, a) || !apart_is_plain(p, b)) return false;
    size_t low = p->apart.begin[a], end = p->apart.begin[a + 1], high = end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->apart.items[middle].other < b)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && p->apart.items[low].other == b;
}

static bool apart_counts(const tn__prepared *p, bool costs, const uint32_t ids[2],
                         const tn_pair *pair) {
    if (!costs) return true;
    return pair->cost > 0 && !apart_meet(p, ids[0], ids[1]) && !apart_separated(p, ids[0], ids[1]);
}

/* Lists the pairs by body: counts, then fills, then sorts each list. */
static bool apart_list(tn__prepared *p, const apart_map *map, const tn_pair *pairs, size_t count,
                       bool costs, tn__besides *out) {
    uint32_t ids[2];
    tn__beside entries[2];
    tn__besides made = {.begin =
                            tn__alloc_array(&p->context, (size_t)p->count + 1, sizeof *made.begin)};
    if (made.begin == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        if (!apart_entries(p, map, &pairs[i], ids, entries) ||
            !apart_counts(p, costs, ids, &pairs[i]))
            continue;
        made.begin[ids[0]]++;
        made.begin[ids[1]]++;
        made.item_count += 2;
    }
    made.items = tn__alloc(&p->context, made.item_count * sizeof *made.items);
    if (made.items == NULL) {
        tn__free(&p->context, made.begin, ((size_t)p->count + 1) * sizeof *made.begin);
        return false;
    }
    size_t at = 0; /* begin[i] becomes the end of list i, and then its begin */
    for (uint32_t i = 0; i < p->count; i++) made.begin[i] = at += made.begin[i];
    made.begin[p->count] = at;
    for (size_t i = count; i-- > 0;) {
        if (!apart_entries(p, map, &pairs[i], ids, entries) ||
            !apart_counts(p, costs, ids, &pairs[i]))
            continue;
        for (int k = 0; k < 2; k++) made.items[--made.begin[ids[k]]] = entries[k];
    }
    for (uint32_t i = 0; i < p->count; i++)
        if (made.begin[i + 1] - made.begin[i] > 1)
            qsort(made.items + made.begin[i], made.begin[i + 1] - made.begin[i], sizeof *made.items,
                  apart_by_other);
    *out = made;
    return true;
}

static bool apart_fill(tn__prepared *p, const apart_map *map) {
    const tn_problem *problem = p->problem;
    memset(map->run_id, 0xff, map->room * sizeof *map->run_id);
    for (uint32_t i = 0; i < p->count; i++) map->run_id[p->ids[i]] = i;
    if (problem->separation_count > 0 &&
        !apart_list(p, map, problem->separations, problem->separation_count, false, &p->apart))
        return false;
    size_t count = problem->reuse_cost_count;
    const tn_pair *costs = problem->reuse_costs;
    if (p->judge != NULL) costs = tn__judge_pairs(p->judge, &count);
    return count == 0 || apart_list(p, map, costs, count, true, &p->costs);
}

tn_status tn__prepare_apart(tn__prepared *p, tn_bank_id which, tn_error *error) {
    const tn_problem *problem = p->problem;
    bool made = true;
    if (problem->reserved_count > 0) {
        p->reserved_room = problem->reserved_count;
        p->reserved = tn__alloc(&p->context, p->reserved_room * sizeof *p->reserved);
        made = p->reserved != NULL;
        if (made) p->reserved_count = tn__reserved_of(problem, which, p->reserved);
    }
    if (p->judge != NULL) tn__judge_bind(p->judge, p);
    if (made && (problem->separation_count > 0 || problem->reuse_cost_count > 0 || p->judge)) {
        apart_map map = {.room = problem->count};
        map.run_id = tn__alloc(&p->context, map.room * sizeof *map.run_id);
        made = map.run_id != NULL && apart_fill(p, &map);
        tn__free(&p->context, map.run_id, map.room * sizeof *map.run_id);
    }
    if (!made) return tn__no_memory(error, "the pairs of a bank");
    if (p->reserved_count > 0 || p->apart.item_count > 0) p->needs |= TN_PLANS_APART;
    return TN_OK;
}

uint64_t tn__prepared_above_reserved(const tn__prepared *p, const tn_run_body *body,
                                     uint64_t offset) {
    uint64_t start;
    if (!tn__align_up(offset, body->alignment, &start)) return UINT64_MAX;
    for (uint32_t i = 0; i < p->reserved_count && body->size > 0; i++) {
        if (p->reserved[i].last <= start) continue;
        if (p->reserved[i].first >= tn__add_sat(start, body->size)) break;
        if (!tn__align_up(p->reserved[i].last, body->alignment, &start)) return UINT64_MAX;
    }
    return start;
}

uint64_t tn__prepared_cost(const tn__prepared *p, const uint64_t *offset) {
    uint64_t sum = 0;
    if (p->judge != NULL) return tn__judge_value(p->judge, offset);
    if (p->costs.begin == NULL) return 0;
    for (uint32_t i = 0; i < p->count; i++) {
        for (size_t k = p->costs.begin[i]; k < p->costs.begin[i + 1]; k++) {
            const tn__beside *pair = &p->costs.items[k];
            if (pair->other < i) continue; /* it counts once */
            uint64_t mine = offset[i], theirs = offset[pair->other];
            if (mine + pair->lo < theirs + pair->other_hi &&
                theirs + pair->other_lo < mine + pair->hi)
                sum = tn__add_sat(sum, pair->cost);
        }
    }
    return sum;
}
