/* share_tree.c - the segment trees of share_tree.h, as arrays: node i has children 2i and 2i + 1,
 * step s is node width + s. Cost: O(log steps) for each operation. */
#include "fit/budget/share_tree.h"

#include "base/heap.h"

bool tn__share_tree_room(tn__share_tree *tree, uint32_t steps, tn__arena *arena) {
    size_t room = tn__range_tree_room(steps);
    int64_t *memory = tn__arena_array(arena, room, sizeof *memory);
    if (memory == NULL) return false;
    tn__range_tree_init(&tree->bytes, steps, memory);
    tree->width = tree->bytes.width;
    size_t nodes = 2 * (size_t)tree->width;
    tree->first = tn__arena_array(arena, nodes, sizeof *tree->first);
    tree->count = tn__arena_array(arena, nodes, sizeof *tree->count);
    return tree->first != NULL && tree->count != NULL;
}

void tn__share_tree_each(const tn__share_tree *tree, uint32_t first, uint32_t last,
                         void (*node)(void *self, uint32_t at), void *self) {
    uint32_t low = first + tree->width, high = last + tree->width;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) node(self, low++);
        if (high & 1) node(self, --high);
    }
}

/* --- heaps --- */

static bool share_before(const tn__share_entry *a, const tn__share_entry *b) {
    return a->key != b->key ? a->key < b->key : a->body < b->body;
}
TN__HEAP(share_heap, tn__share_entry, share_before)

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
    share_heap_push(&tree->entries[tree->first[node]], tree->count[node]++, entry);
}

bool tn__share_tree_pop(tn__share_tree *tree, uint32_t step, uint32_t *node,
                        tn__share_entry *entry) {
    *node = 0;
    for (uint32_t at = step + tree->width; at > 0; at /= 2)
        if (tree->count[at] > 0 && (*node == 0 || share_before(&tree->entries[tree->first[at]],
                                                               &tree->entries[tree->first[*node]])))
            *node = at;
    if (*node == 0) return false;
    *entry = share_heap_pop(&tree->entries[tree->first[*node]], tree->count[*node]--);
    return true;
}
