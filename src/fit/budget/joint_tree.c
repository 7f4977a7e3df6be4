/* joint_tree.c - a segment tree of the bytes over keys: node i has children 2i and 2i + 1, key k is
 * node width + k. Each query and addition costs O(log keys); reading or writing a range of keys at
 * once also costs O(size). */
#include "fit/budget/joint_line.h"

static int64_t tree_larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void tree_mend(tn__line_tree *tree, uint32_t at) {
    for (at /= 2; at > 0; at /= 2)
        tree->most[at] = tree_larger(tree->most[2 * at], tree->most[2 * at + 1]) + tree->both[at];
}

void tn__line_tree_add(tn__line_tree *tree, uint32_t first, uint32_t last, int64_t bytes) {
    if (first > last || bytes == 0) return;
    uint32_t low = first + tree->width, high = last + tree->width + 1;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) {
            tree->most[low] += bytes;
            tree->both[low++] += bytes;
        }
        if (high & 1) {
            tree->most[--high] += bytes;
            tree->both[high] += bytes;
        }
    }
    tree_mend(tree, first + tree->width);
    tree_mend(tree, last + tree->width);
}

int64_t tn__line_tree_most(const tn__line_tree *tree, uint32_t first, uint32_t last) {
    uint32_t low = first + tree->width, high = last + tree->width;
    int64_t left = tree->most[low], right = tree->most[high];
    if (first > last) return INT64_MIN;
    while (low / 2 != high / 2) {
        if (!(low & 1)) left = tree_larger(left, tree->most[low + 1]);
        if (high & 1) right = tree_larger(right, tree->most[high - 1]);
        low /= 2;
        high /= 2;
        left += tree->both[low];
        right += tree->both[high];
    }
    left = tree_larger(left, right);
    for (low /= 2; low > 0; low /= 2) left += tree->both[low];
    return left;
}

void tn__line_tree_set(tn__line_tree *tree, uint32_t first, uint32_t size, const int64_t *bytes) {
    uint32_t low = first + tree->width, top = low / size;
    int64_t above = 0;
    for (uint32_t at = top / 2; at > 0; at /= 2) above += tree->both[at];
    for (uint32_t i = 0; i < size; i++) {
        tree->most[low + i] = bytes[i] - above;
        tree->both[low + i] = 0;
    }
    for (; size > 1; size /= 2) {
        low /= 2;
        for (uint32_t at = low; at < low + size / 2; at++) {
            tree->most[at] = tree_larger(tree->most[2 * at], tree->most[2 * at + 1]);
            tree->both[at] = 0;
        }
    }
    tree_mend(tree, top);
}

/* Passes the additions of the upper nodes down level by level. Each level is processed from the
 * end, because two children are written where one parent was read. */
void tn__line_tree_get(const tn__line_tree *tree, uint32_t first, uint32_t size, int64_t *bytes) {
    uint32_t top = (first + tree->width) / size;
    bytes[0] = 0;
    for (uint32_t at = top / 2; at > 0; at /= 2) bytes[0] += tree->both[at];
    for (uint32_t count = 1; count < size; count *= 2, top *= 2)
        for (uint32_t i = count; i-- > 0;)
            bytes[2 * i] = bytes[2 * i + 1] = bytes[i] + tree->both[top + i];
    for (uint32_t i = 0; i < size; i++) bytes[i] += tree->most[top + i];
}

uint32_t tn__line_tree_above(const tn__line_tree *tree, int64_t limit) {
    uint32_t at = 1;
    if (tree->most[1] <= limit) return TN_NONE;
    while (at < tree->width) {
        limit -= tree->both[at];
        at = 2 * at + (tree->most[2 * at] <= limit);
    }
    return at - tree->width;
}
