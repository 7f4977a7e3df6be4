/* lives.c - a k-d tree over (first, last): each node stores the extremes and the best remaining
 * rank below it, and is skipped if it cannot contain a better one.
 *
 * Levels are halved by first and by last in turns; selection with random pivots finds the halves,
 * so that no input is a bad one. Leaves are small arrays.
 * Cost: a search O(log n) in practice, O(sqrt n) at worst when all ranks are equally good.
 */
#include "plan/skyline/lives.h"

#define LIVES_LEAF 8u       /* bodies */
#define LIVES_LOOK 1000000u /* bodies between two checks of the clock */

#define LIVES_ARRAYS(X, n, leaves)                                                                 \
    X(nodes, 2 * (size_t)(leaves))                                                                 \
    X(least, 2 * (size_t)(leaves))                                                                 \
    X(lives, n)                                                                                    \
    X(begin, (size_t)(leaves) + 1)                                                                 \
    X(number, n)                                                                                   \
    X(life_of, n)                                                                                  \
    X(leaf_of, n)

void tn__lives_release(tn__lives *lives) {
    const tn_context *context = &lives->context;
#define TN_X(field, room) tn__free(context, lives->field, (room) * sizeof *lives->field);
    LIVES_ARRAYS(TN_X, lives->count, lives->leaf_count)
#undef TN_X
}

/* --- making --- */

static uint64_t lives_key(const tn__lives *lives, uint32_t number, bool by_last) {
    const tn_run_body *body = &lives->bodies[lives->ids[number]];
    return (uint64_t)(by_last ? body->last : body->first) << 32 | number;
}

/* Puts the `nth` smallest of numbers[0 ... count) in its place, with smaller ones before it. Keys
 * are distinct; pivots are random, so that no input is a bad one. */
static void lives_select(const tn__lives *lives, uint32_t *numbers, uint32_t count, uint32_t nth,
                         bool by_last, tn__random *random) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t chosen = low + (uint32_t)tn__random_below(random, high - low);
        uint32_t pivot_number = numbers[chosen];
        numbers[chosen] = numbers[high - 1];
        uint64_t pivot = lives_key(lives, pivot_number, by_last);
        uint32_t at = low;
        for (uint32_t i = low; i + 1 < high; i++) {
            uint32_t number = numbers[i];
            bool less = lives_key(lives, number, by_last) < pivot;
            numbers[i] = numbers[at];
            numbers[at] = number;
            at += less;
        }
        numbers[high - 1] = numbers[at];
        numbers[at] = pivot_number;
        if (at == nth) return;
        if (at < nth)
            low = at + 1;
        else
            high = at;
    }
}

/* Halves all ranges of a level, by first and by last in turns, down to the leaves. begin[] holds
 * the ranges of the current level at a stride. False: the run is to stop. */
static bool lives_divide(tn__lives *lives, tn_run *run) {
    tn__random random = {.state = lives->count};
    bool by_last = false;
    uint32_t unseen = 0;
    lives->begin[0] = 0;
    lives->begin[lives->leaf_count] = lives->count;
    for (uint32_t stride = lives->leaf_count; stride > 1; stride /= 2, by_last = !by_last) {
        for (uint32_t at = 0; at < lives->leaf_count; at += stride) {
            uint32_t low = lives->begin[at], high = lives->begin[at + stride];
            uint32_t middle = low + (high - low) / 2;
            lives->begin[at + stride / 2] = middle;
            if (middle > low)
                lives_select(lives, lives->number + low, high - low, middle - low, by_last,
                             &random);
            unseen += high - low;
            if (unseen < LIVES_LOOK) continue;
            if (run != NULL && !tn__run_goes_on(run)) return false;
            unseen = 0;
        }
    }
    return true;
}

static void lives_fill(tn__lives *lives) {
    for (uint32_t i = 0; i < lives->count; i++) {
        const tn_run_body *body = &lives->bodies[lives->ids[lives->number[i]]];
        lives->lives[i] = (tn__skyline_life){body->first, body->last, TN__LIVES_NONE};
        lives->life_of[lives->number[i]] = i;
    }
    for (uint32_t leaf = 0; leaf < lives->leaf_count; leaf++) {
        uint64_t *least = &lives->least[lives->leaf_count + leaf];
        *least = UINT64_MAX;
        for (uint32_t i = lives->begin[leaf]; i < lives->begin[leaf + 1]; i++) {
            uint64_t size = lives->bodies[lives->ids[lives->number[i]]].size;
            lives->leaf_of[lives->number[i]] = leaf;
            *least = size < *least ? size : *least;
        }
    }
    for (uint32_t at = lives->leaf_count - 1; at >= 1; at--) {
        uint64_t a = lives->least[2 * at], b = lives->least[2 * at + 1];
        lives->least[at] = a < b ? a : b;
    }
}

bool tn__lives_create(tn__lives *lives, const tn__lives_input *input) {
    const tn_context *context = input->context;
    uint32_t count = input->count;
    *lives = (tn__lives){.context = *context,
                         .bodies = input->bodies,
                         .ids = input->ids,
                         .count = count,
                         .leaf_count = 1};
    while (lives->leaf_count < count / LIVES_LEAF) lives->leaf_count *= 2;
    bool all = true;
#define TN_X(field, room)                                                                          \
    lives->field = tn__alloc_array(context, room, sizeof *lives->field);                           \
    all = all && lives->field != NULL;
    LIVES_ARRAYS(TN_X, count, lives->leaf_count)
#undef TN_X
    if (!all) return false;
    for (uint32_t i = 0; i < count; i++) lives->number[i] = i;
    if (!lives_divide(lives, input->run)) return false;
    lives_fill(lives);
    return true;
}

/* --- the tree --- */

static void lives_pull_leaf(tn__lives *lives, uint32_t leaf) {
    tn__lives_node node = {TN__LIVES_NONE, UINT32_MAX, 0, UINT32_MAX, 0};
    for (uint32_t i = lives->begin[leaf]; i < lives->begin[leaf + 1]; i++) {
        const tn__skyline_life *life = &lives->lives[i];
        if (life->rank == TN__LIVES_NONE) continue;
        if (life->rank < node.best) node.best = life->rank;
        if (life->first < node.first_min) node.first_min = life->first;
        if (life->first > node.first_max) node.first_max = life->first;
        if (life->last < node.last_min) node.last_min = life->last;
        if (life->last > node.last_max) node.last_max = life->last;
    }
    lives->nodes[lives->leaf_count + leaf] = node;
}

static uint32_t lives_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t lives_max(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Returns whether the node changed. */
static bool lives_pull(tn__lives_node *nodes, uint32_t at) {
    const tn__lives_node *a = &nodes[2 * at], *b = &nodes[2 * at + 1];
    tn__lives_node node = {lives_min(a->best, b->best), lives_min(a->first_min, b->first_min),
                           lives_max(a->first_max, b->first_max),
                           lives_min(a->last_min, b->last_min),
                           lives_max(a->last_max, b->last_max)};
    if (memcmp(&node, &nodes[at], sizeof node) == 0) return false;
    nodes[at] = node;
    return true;
}

void tn__lives_reset(tn__lives *lives, const uint32_t *order) {
    for (uint32_t rank = 0; rank < lives->count; rank++)
        lives->lives[lives->life_of[order[rank]]].rank = rank;
    for (uint32_t leaf = 0; leaf < lives->leaf_count; leaf++) lives_pull_leaf(lives, leaf);
    for (uint32_t at = lives->leaf_count - 1; at >= 1; at--) lives_pull(lives->nodes, at);
}

void tn__lives_remove(tn__lives *lives, uint32_t number) {
    uint32_t leaf = lives->leaf_of[number], at = lives->leaf_count + leaf;
    lives->lives[lives->life_of[number]].rank = TN__LIVES_NONE;
    lives_pull_leaf(lives, leaf);
    while (at > 1 && lives_pull(lives->nodes, at / 2)) at /= 2;
}

static bool lives_misses(const tn__lives_node *node, const tn__lives_box *box) {
    return node->first_max < box->first_min || node->first_min > box->first_max ||
           node->last_max < box->last_min || node->last_min > box->last_max;
}

uint32_t tn__lives_find(const tn__lives *lives, tn__lives_box box, uint32_t best) {
    uint32_t stack[66], depth = 0; /* two per level */
    stack[depth++] = 1;
    while (depth > 0) {
        uint32_t at = stack[--depth];
        const tn__lives_node *node = &lives->nodes[at];
        if (node->best >= best || lives_misses(node, &box)) continue;
        if (box.room != 0 && lives->least[at] > box.room) continue;
        if (at < lives->leaf_count) { /* the better child on top */
            bool left = lives->nodes[2 * at].best < lives->nodes[2 * at + 1].best;
            stack[depth++] = 2 * at + left;
            stack[depth++] = 2 * at + !left;
            continue;
        }
        uint32_t leaf = at - lives->leaf_count;
        for (uint32_t i = lives->begin[leaf]; i < lives->begin[leaf + 1]; i++) {
            const tn__skyline_life *life = &lives->lives[i];
            if (life->rank < best && life->first >= box.first_min && life->first <= box.first_max &&
                life->last >= box.last_min && life->last <= box.last_max &&
                (box.room == 0 || lives->bodies[lives->ids[lives->number[i]]].size <= box.room))
                best = life->rank;
        }
    }
    return best;
}
