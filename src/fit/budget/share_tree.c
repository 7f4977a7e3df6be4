/* share_tree.c - the segment trees of share_tree.h, as arrays: node i has children 2i and 2i + 1,
 * step s is node width + s. Cost: O(log steps) for each operation. */
#include "fit/budget/share_tree.h"

bool tn__share_tree_room(tn__share_tree *tree, uint32_t steps, tn__arena *arena) {
    for (tree->width = 1; tree->width < steps;) tree->width *= 2;
    size_t nodes = 2 * (size_t)tree->width;
    tree->most = tn__arena_array(arena, nodes, sizeof *tree->most);
    tree->added = tn__arena_array(arena, nodes, sizeof *tree->added);
    tree->first = tn__arena_array(arena, nodes, sizeof *tree->first);
    tree->count = tn__arena_array(arena, nodes, sizeof *tree->count);
    return tree->most != NULL && tree->added != NULL && tree->first != NULL && tree->count != NULL;
}

/* --- bytes --- */

void tn__share_tree_each(const tn__share_tree *tree, uint32_t first, uint32_t last,
                         void (*node)(void *self, uint32_t at), void *self) {
    uint32_t low = first + tree->width, high = last + tree->width;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) node(self, low++);
        if (high & 1) node(self, --high);
    }
}

typedef struct share_add {
    tn__share_tree *tree;
    int64_t bytes;
} share_add;

static void share_add_node(void *self, uint32_t at) {
    const share_add *add = self;
    add->tree->most[at] += add->bytes;
    add->tree->added[at] += add->bytes;
}

static void share_mend(tn__share_tree *tree, uint32_t leaf) {
    for (uint32_t at = leaf / 2; at > 0; at /= 2) {
        int64_t left = tree->most[2 * at], right = tree->most[2 * at + 1];
        tree->most[at] = (left > right ? left : right) + tree->added[at];
    }
}

void tn__share_tree_add(tn__share_tree *tree, uint32_t first, uint32_t last, int64_t bytes) {
    share_add add = {tree, bytes};
    if (first >= last) return;
    tn__share_tree_each(tree, first, last, share_add_node, &add);
    share_mend(tree, first + tree->width);
    share_mend(tree, last - 1 + tree->width);
}

uint32_t tn__share_tree_top(const tn__share_tree *tree, int64_t *bytes) {
    uint32_t at = 1;
    *bytes = tree->most[1];
    while (at < tree->width) at = 2 * at + (tree->most[2 * at + 1] > tree->most[2 * at]);
    return at - tree->width;
}

/* --- heaps --- */

static bool share_before(tn__share_entry a, tn__share_entry b) {
    return a.key != b.key ? a.key < b.key : a.body < b.body;
}

bool tn__share_tree_heaps(tn__share_tree *tree, tn__arena *arena) {
    size_t total = 0;
    for (uint32_t at = 1; at < 2 * tree->width; at++) {
        tree->first[at] = (uint32_t)total;
        total += tree->count[at];
        tree->count[at] = 0;
        if (total > UINT32_MAX / 2) return false;
    }
    tree->entries = tn__arena_array(arena, total + 1, sizeof *tree->entries);
    return tree->entries != NULL;
}

void tn__share_tree_push(tn__share_tree *tree, uint32_t node, tn__share_entry entry) {
    tn__share_entry *heap = &tree->entries[tree->first[node]];
    uint32_t at = tree->count[node]++;
    for (; at > 0 && share_before(entry, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
}

static tn__share_entry share_take(tn__share_tree *tree, uint32_t node) {
    tn__share_entry *heap = &tree->entries[tree->first[node]];
    uint32_t count = --tree->count[node], at = 0;
    tn__share_entry top = heap[0], last = heap[count];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && share_before(heap[child + 1], heap[child])) child++;
        if (!share_before(heap[child], last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

bool tn__share_tree_pop(tn__share_tree *tree, uint32_t step, uint32_t *node,
                        tn__share_entry *entry) {
    *node = 0;
    for (uint32_t at = step + tree->width; at > 0; at /= 2)
        if (tree->count[at] > 0 && (*node == 0 || share_before(tree->entries[tree->first[at]],
                                                               tree->entries[tree->first[*node]])))
            *node = at;
    if (*node == 0) return false;
    *entry = share_take(tree, *node);
    return true;
}
