/* live_tree.c - a k-d tree over (first, last): each node stores the extremes of the live ranges of
 * its unplaced buffers and their best rank, and is skipped if it cannot contain a better one.
 *
 * Levels are halved by first and by last in turns. Selection with random pivots finds the halves,
 * so that no input leads to a bad running time. Leaves are small arrays.
 *
 * Cost: a search O(log n) in practice, O(sqrt n) at worst when all ranks are equally good.
 */
#include "plan/skyline/live_tree.h"

#define LIVE_TREE_LEAF 8u       /* a leaf holds fewer than twice this number of buffers */
#define LIVE_TREE_LOOK 1000000u /* number of buffers between two checks of the clock */

#define LIVE_TREE_ARRAYS(X, n, leaves)                                                             \
    X(nodes, 2 * (size_t)(leaves))                                                                 \
    X(least, 2 * (size_t)(leaves))                                                                 \
    X(ranges, n)                                                                                   \
    X(begin, (size_t)(leaves) + 1)                                                                 \
    X(number, n)                                                                                   \
    X(life_of, n)                                                                                  \
    X(leaf_of, n)

void tn__live_tree_release(tn__live_tree *tree) {
    const tn_context *context = &tree->context;
#define TN_X(field, room) tn__free(context, tree->field, (room) * sizeof *tree->field);
    LIVE_TREE_ARRAYS(TN_X, tree->count, tree->leaf_count)
#undef TN_X
}

/* --- making --- */

static uint64_t live_tree_key(const tn__live_tree *tree, uint32_t number, bool by_last) {
    const tn_run_body *body = &tree->bodies[tree->ids[number]];
    return (uint64_t)(by_last ? body->last : body->first) << 32 | number;
}

/* Selection: puts the `nth` smallest of numbers[0 ... count) at index `nth`, and smaller ones
 * before it. The keys of the numbers are distinct. Pivots are random, so that no input leads to a
 * bad running time. */
static void live_tree_select(const tn__live_tree *tree, uint32_t *numbers, uint32_t count,
                             uint32_t nth, bool by_last, tn__random *random) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t chosen = low + (uint32_t)tn__random_below(random, high - low);
        uint32_t pivot_number = numbers[chosen];
        numbers[chosen] = numbers[high - 1];
        uint64_t pivot = live_tree_key(tree, pivot_number, by_last);
        uint32_t at = low;
        for (uint32_t i = low; i + 1 < high; i++) {
            uint32_t number = numbers[i];
            bool less = live_tree_key(tree, number, by_last) < pivot;
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

/* Sorts the live ranges into the leaves: halves the ranges of every level, by first and by last
 * step in turns. begin[] holds the ranges of the current level at multiples of its stride. Returns
 * false if the run must stop. */
static bool live_tree_divide(tn__live_tree *tree, tn_run *run) {
    tn__random random = {.state = tree->count};
    bool by_last = false;
    uint32_t unseen = 0;
    tree->begin[0] = 0;
    tree->begin[tree->leaf_count] = tree->count;
    for (uint32_t stride = tree->leaf_count; stride > 1; stride /= 2, by_last = !by_last) {
        for (uint32_t at = 0; at < tree->leaf_count; at += stride) {
            uint32_t low = tree->begin[at], high = tree->begin[at + stride];
            uint32_t middle = low + (high - low) / 2;
            tree->begin[at + stride / 2] = middle;
            if (middle > low)
                live_tree_select(tree, tree->number + low, high - low, middle - low, by_last,
                                 &random);
            unseen += high - low;
            if (unseen < LIVE_TREE_LOOK) continue;
            if (run != NULL && !tn__run_goes_on(run)) return false;
            unseen = 0;
        }
    }
    return true;
}

static void live_tree_fill(tn__live_tree *tree) {
    for (uint32_t i = 0; i < tree->count; i++) {
        const tn_run_body *body = &tree->bodies[tree->ids[tree->number[i]]];
        tree->ranges[i] = (tn__skyline_life){body->first, body->last, TN__LIVE_TREE_NONE};
        tree->life_of[tree->number[i]] = i;
    }
    for (uint32_t leaf = 0; leaf < tree->leaf_count; leaf++) {
        uint64_t *least = &tree->least[tree->leaf_count + leaf];
        *least = UINT64_MAX;
        for (uint32_t i = tree->begin[leaf]; i < tree->begin[leaf + 1]; i++) {
            uint64_t size = tree->bodies[tree->ids[tree->number[i]]].size;
            tree->leaf_of[tree->number[i]] = leaf;
            *least = size < *least ? size : *least;
        }
    }
    for (uint32_t at = tree->leaf_count - 1; at >= 1; at--) {
        uint64_t a = tree->least[2 * at], b = tree->least[2 * at + 1];
        tree->least[at] = a < b ? a : b;
    }
}

bool tn__live_tree_create(tn__live_tree *tree, const tn__live_tree_input *input) {
    const tn_context *context = input->context;
    uint32_t count = input->count;
    *tree = (tn__live_tree){.context = *context,
                            .bodies = input->bodies,
                            .ids = input->ids,
                            .count = count,
                            .leaf_count = 1};
    while (tree->leaf_count < count / LIVE_TREE_LEAF) tree->leaf_count *= 2;
    bool all = true;
#define TN_X(field, room)                                                                          \
    tree->field = tn__alloc_array(context, room, sizeof *tree->field);                             \
    all = all && tree->field != NULL;
    LIVE_TREE_ARRAYS(TN_X, count, tree->leaf_count)
#undef TN_X
    if (!all) return false;
    for (uint32_t i = 0; i < count; i++) tree->number[i] = i;
    if (!live_tree_divide(tree, input->run)) return false;
    live_tree_fill(tree);
    return true;
}

/* --- the tree --- */

static void live_tree_pull_leaf(tn__live_tree *tree, uint32_t leaf) {
    tn__live_tree_node node = {TN__LIVE_TREE_NONE, UINT32_MAX, 0, UINT32_MAX, 0};
    for (uint32_t i = tree->begin[leaf]; i < tree->begin[leaf + 1]; i++) {
        const tn__skyline_life *life = &tree->ranges[i];
        if (life->rank == TN__LIVE_TREE_NONE) continue;
        if (life->rank < node.best) node.best = life->rank;
        if (life->first < node.first_min) node.first_min = life->first;
        if (life->first > node.first_max) node.first_max = life->first;
        if (life->last < node.last_min) node.last_min = life->last;
        if (life->last > node.last_max) node.last_max = life->last;
    }
    tree->nodes[tree->leaf_count + leaf] = node;
}

static uint32_t live_tree_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t live_tree_max(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Recomputes a node's extremes and best rank from its children; returns whether the node
 * changed. */
static bool live_tree_pull(tn__live_tree_node *nodes, uint32_t at) {
    const tn__live_tree_node *a = &nodes[2 * at], *b = &nodes[2 * at + 1];
    tn__live_tree_node node = {
        live_tree_min(a->best, b->best), live_tree_min(a->first_min, b->first_min),
        live_tree_max(a->first_max, b->first_max), live_tree_min(a->last_min, b->last_min),
        live_tree_max(a->last_max, b->last_max)};
    if (memcmp(&node, &nodes[at], sizeof node) == 0) return false;
    nodes[at] = node;
    return true;
}

void tn__live_tree_reset(tn__live_tree *tree, const uint32_t *order) {
    for (uint32_t rank = 0; rank < tree->count; rank++)
        tree->ranges[tree->life_of[order[rank]]].rank = rank;
    for (uint32_t leaf = 0; leaf < tree->leaf_count; leaf++) live_tree_pull_leaf(tree, leaf);
    for (uint32_t at = tree->leaf_count - 1; at >= 1; at--) live_tree_pull(tree->nodes, at);
}

void tn__live_tree_remove(tn__live_tree *tree, uint32_t number) {
    uint32_t leaf = tree->leaf_of[number], at = tree->leaf_count + leaf;
    tree->ranges[tree->life_of[number]].rank = TN__LIVE_TREE_NONE;
    live_tree_pull_leaf(tree, leaf);
    while (at > 1 && live_tree_pull(tree->nodes, at / 2)) at /= 2;
}

static bool live_tree_misses(const tn__live_tree_node *node, const tn__live_tree_box *box) {
    return node->first_max < box->first_min || node->first_min > box->first_max ||
           node->last_max < box->last_min || node->last_min > box->last_max;
}

uint32_t tn__live_tree_find(const tn__live_tree *tree, tn__live_tree_box box, uint32_t best) {
    uint32_t stack[66], depth = 0; /* the nodes to visit: at most two per level of the tree */
    stack[depth++] = 1;
    while (depth > 0) {
        uint32_t at = stack[--depth];
        const tn__live_tree_node *node = &tree->nodes[at];
        if (node->best >= best || live_tree_misses(node, &box)) continue;
        if (box.room != 0 && tree->least[at] > box.room) continue;
        /* puts the child with the better rank on top of the stack, so that it is searched first */
        if (at < tree->leaf_count) {
            bool left = tree->nodes[2 * at].best < tree->nodes[2 * at + 1].best;
            stack[depth++] = 2 * at + left;
            stack[depth++] = 2 * at + !left;
            continue;
        }
        uint32_t leaf = at - tree->leaf_count;
        for (uint32_t i = tree->begin[leaf]; i < tree->begin[leaf + 1]; i++) {
            const tn__skyline_life *life = &tree->ranges[i];
            if (life->rank < best && life->first >= box.first_min && life->first <= box.first_max &&
                life->last >= box.last_min && life->last <= box.last_max &&
                (box.room == 0 || tree->bodies[tree->ids[tree->number[i]]].size <= box.room))
                best = life->rank;
        }
    }
    return best;
}
