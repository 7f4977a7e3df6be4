/* range_tree.c - the segment trees of range_tree.h. Additions and queries visit one or two paths
 * between a leaf and the root; tn__range_tree_set and tn__range_tree_get visit the subtree above
 * their leaves as well. */
#include "base/range_tree.h"

#define RANGE_LEAVES_MOST ((uint64_t)1 << 30) /* node numbers have 32 bits */

static int64_t range_larger(int64_t a, int64_t b) { return a > b ? a : b; }

size_t tn__range_tree_room(uint32_t leaves) {
    uint64_t width = 1;
    while (width < leaves) width *= 2;
    bool fits = width <= RANGE_LEAVES_MOST && width <= SIZE_MAX / 4 / sizeof(int64_t);
    return fits ? 4 * (size_t)width : SIZE_MAX;
}

void tn__range_tree_init(tn__range_tree *tree, uint32_t leaves, int64_t *memory) {
    size_t room = tn__range_tree_room(leaves);
    tn_assert(room != SIZE_MAX);
    *tree = (tn__range_tree){(uint32_t)(room / 4), memory, memory + room / 2};
    memset(memory, 0, room * sizeof *memory);
}

void tn__range_tree_sum_up(tn__range_tree *tree) {
    for (uint32_t at = tree->width; at-- > 1;)
        tree->most[at] = range_larger(tree->most[2 * at], tree->most[2 * at + 1]) + tree->added[at];
}

/* Computes the maximums of the ancestors of a node again. */
static void range_mend(tn__range_tree *tree, uint32_t at) {
    for (at /= 2; at > 0; at /= 2)
        tree->most[at] = range_larger(tree->most[2 * at], tree->most[2 * at + 1]) + tree->added[at];
}

void tn__range_tree_add(tn__range_tree *tree, uint32_t first, uint32_t last, int64_t value) {
    if (first >= last || value == 0) return;
    uint32_t low = first + tree->width, high = last + tree->width;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) {
            tree->most[low] += value;
            tree->added[low++] += value;
        }
        if (high & 1) {
            tree->most[--high] += value;
            tree->added[high] += value;
        }
    }
    range_mend(tree, first + tree->width);
    range_mend(tree, last - 1 + tree->width);
}

int64_t tn__range_tree_most(const tn__range_tree *tree, uint32_t first, uint32_t last) {
    if (first >= last) return INT64_MIN;
    uint32_t low = first + tree->width, high = last - 1 + tree->width;
    int64_t left = tree->most[low], right = tree->most[high];
    while (low / 2 != high / 2) {
        if (!(low & 1)) left = range_larger(left, tree->most[low + 1]);
        if (high & 1) right = range_larger(right, tree->most[high - 1]);
        low /= 2;
        high /= 2;
        left += tree->added[low];
        right += tree->added[high];
    }
    left = range_larger(left, right);
    for (low /= 2; low > 0; low /= 2) left += tree->added[low];
    return left;
}

uint32_t tn__range_tree_top(const tn__range_tree *tree) {
    uint32_t at = 1;
    while (at < tree->width) at = 2 * at + (tree->most[2 * at + 1] > tree->most[2 * at]);
    return at - tree->width;
}

uint32_t tn__range_tree_above(const tn__range_tree *tree, int64_t limit) {
    uint32_t at = 1;
    if (tree->most[1] <= limit) return TN__RANGE_TREE_NONE;
    while (at < tree->width) {
        limit -= tree->added[at];
        at = 2 * at + (tree->most[2 * at] <= limit);
    }
    return at - tree->width;
}

void tn__range_tree_set(tn__range_tree *tree, uint32_t first, uint32_t size,
                        const int64_t *values) {
    uint32_t low = first + tree->width, top = low / size;
    int64_t above = 0;
    for (uint32_t at = top / 2; at > 0; at /= 2) above += tree->added[at];
    for (uint32_t i = 0; i < size; i++) {
        tree->most[low + i] = values[i] - above;
        tree->added[low + i] = 0;
    }
    for (; size > 1; size /= 2) {
        low /= 2;
        for (uint32_t at = low; at < low + size / 2; at++) {
            tree->most[at] = range_larger(tree->most[2 * at], tree->most[2 * at + 1]);
            tree->added[at] = 0;
        }
    }
    range_mend(tree, top);
}

/* Reads leaves: passes the additions of upper nodes down, level by level. Each level is processed
 * from its end, because two children are written where their parent was read. */
void tn__range_tree_get(const tn__range_tree *tree, uint32_t first, uint32_t size,
                        int64_t *values) {
    uint32_t top = (first + tree->width) / size;
    values[0] = 0;
    for (uint32_t at = top / 2; at > 0; at /= 2) values[0] += tree->added[at];
    for (uint32_t count = 1; count < size; count *= 2, top *= 2)
        for (uint32_t i = count; i-- > 0;)
            values[2 * i] = values[2 * i + 1] = values[i] + tree->added[top + i];
    for (uint32_t i = 0; i < size; i++) values[i] += tree->most[top + i];
}

void tn__range_max_init(uint64_t *tree, uint32_t leaves) {
    for (size_t at = leaves; at-- > 1;)
        tree[at] = tree[2 * at] > tree[2 * at + 1] ? tree[2 * at] : tree[2 * at + 1];
}
