/* drop.c - keeps the floor over time: the highest end of all dropped buffers in any range of steps,
 * in O(log steps).
 *
 * The floor never falls, so "raise a range to a value" and "highest value in a range" need no lazy
 * propagation. A node of a binary tree over time keeps the value that its whole range was raised
 * to, and the highest value below the node. A query visits the nodes that make up the range, and
 * their ancestors.
 *
 * If buffers are dropped in the order of their offsets in a valid plan, none ends up higher than in
 * that plan. This is the push-down compaction of MegEngine (longest paths over the relation "lies
 * below") without building the graph.
 */
#include "plan/skyline/drop.h"

struct tn__drop {
    tn_context context;
    uint32_t leaf_count;
    /* [2 * leaf_count], the floor's height to which the node's whole range of steps was raised */
    uint64_t *all;
    /* [2 * leaf_count], the highest floor in the node's range, without heights stored in `all` of
     * its ancestors */
    uint64_t *top;
};

tn__drop *tn__drop_create(const tn_context *context, uint32_t time_count) {
    tn__drop *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return NULL;
    *made = (tn__drop){.context = *context, .leaf_count = 1};
    while (made->leaf_count < time_count) made->leaf_count *= 2;
    made->all = tn__alloc_array(context, 2 * (size_t)made->leaf_count, sizeof *made->all);
    made->top = tn__alloc_array(context, 2 * (size_t)made->leaf_count, sizeof *made->top);
    if (made->all != NULL && made->top != NULL) return made;
    tn__drop_destroy(made);
    return NULL;
}

void tn__drop_destroy(tn__drop *drop) {
    if (drop == NULL) return;
    tn_context context = drop->context;
    tn__free(&context, drop->all, 2 * (size_t)drop->leaf_count * sizeof *drop->all);
    tn__free(&context, drop->top, 2 * (size_t)drop->leaf_count * sizeof *drop->top);
    tn__free(&context, drop, sizeof *drop);
}

void tn__drop_reset(tn__drop *drop) {
    memset(drop->all, 0, 2 * (size_t)drop->leaf_count * sizeof *drop->all);
    memset(drop->top, 0, 2 * (size_t)drop->leaf_count * sizeof *drop->top);
}

static uint64_t drop_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t drop_highest(const tn__drop *drop, uint32_t first, uint32_t last) {
    uint64_t found = 0;
    uint32_t low = drop->leaf_count + first, high = drop->leaf_count + last;
    for (uint32_t a = low, b = high; a < b; a /= 2, b /= 2) {
        if (a & 1) found = drop_max(found, drop->top[a++]);
        if (b & 1) found = drop_max(found, drop->top[--b]);
    }
    for (uint32_t a = low, b = high - 1; a >= 1; a /= 2, b /= 2)
        found = drop_max(found, drop_max(drop->all[a], drop->all[b]));
    return found;
}

static void drop_lift(tn__drop *drop, uint32_t at, uint64_t level) {
    drop->all[at] = drop_max(drop->all[at], level);
    drop->top[at] = drop_max(drop->top[at], level);
}

static void drop_raise(tn__drop *drop, uint32_t first, uint32_t last, uint64_t level) {
    uint32_t low = drop->leaf_count + first, high = drop->leaf_count + last;
    for (uint32_t a = low, b = high; a < b; a /= 2, b /= 2) {
        if (a & 1) drop_lift(drop, a++, level);
        if (b & 1) drop_lift(drop, --b, level);
    }
    for (uint32_t a = low / 2, b = (high - 1) / 2; a >= 1; a /= 2, b /= 2) {
        drop->top[a] = drop_max(drop->top[a], level);
        drop->top[b] = drop_max(drop->top[b], level);
    }
}

uint64_t tn__drop_offset(const tn__drop *drop, const tn_run_body *body,
                         const tn_run_piece *pieces) {
    uint64_t offset = 0, mask = body->alignment - 1;
    for (uint32_t i = 0; i < body->piece_count; i++) {
        const tn_run_piece *piece = &pieces[body->piece_first + i];
        uint64_t floor = drop_highest(drop, piece->first, piece->last);
        if (floor > piece->lo) offset = drop_max(offset, floor - piece->lo);
    }
    return (offset + mask) & ~mask;
}

void tn__drop_raise(tn__drop *drop, const tn_run_body *body, const tn_run_piece *pieces,
                    uint64_t offset) {
    for (uint32_t i = 0; i < body->piece_count; i++) {
        const tn_run_piece *piece = &pieces[body->piece_first + i];
        drop_raise(drop, piece->first, piece->last, offset + piece->hi);
    }
}
