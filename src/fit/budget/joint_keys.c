/* joint_keys.c - assigns the keys of a line, and computes the bytes at each key. Keys are integers
 * with gaps. An insertion takes a free key between its neighbours; if none is left, the nodes of a
 * small window of keys are spread evenly, and only beyond LINE_WINDOW all keys are renumbered.
 * Cost: O(window) for a spread, O(runs + touches) for a renumbering. */
#include "fit/budget/joint_parts.h"

/* Adds the live range that begins with this touch, from the making to the last read, as
 * differences. */
static void keys_sum_life(tn__line *line, uint32_t making, int64_t *leaf) {
    uint32_t last = making;
    while (tn__line_is_read_next(line, last)) last = line->touches[last].next;
    int64_t bytes = tn__line_bytes(line, line->touches[making].value);
    leaf[tn__line_key(line, making)] += bytes;
    if (tn__line_key(line, last) + 1 < line->tree.width)
        leaf[tn__line_key(line, last) + 1] -= bytes;
}

static void keys_sum(tn__line *line) {
    tn__range_tree *tree = &line->tree;
    int64_t *leaf = tree->most + tree->width, at = 0;
    for (uint32_t v = 0; v < line->work->value_count; v++)
        for (uint32_t t = line->first_touch[v]; t != TN_NONE; t = line->touches[t].next)
            if (line->touches[t].makes) keys_sum_life(line, t, leaf);
    for (uint32_t k = 0; k < tree->width; k++) leaf[k] = at += leaf[k];
    for (uint32_t n = TN__LINE_HEAD; n != TN_NONE; n = line->nodes[n].next) {
        tn__line_node *node = &line->nodes[n];
        leaf[node->key] += tn__line_scratch(line, node);
        node->moved = tn__line_moves(line, node);
        if (node->moved)
            leaf[node->key] -=
                tn__line_bytes(line, line->touches[node->touch_first + node->input_count].value);
    }
    tn__range_tree_sum_up(tree);
}

#define LINE_GAP 8u  /* keys per run after renumbering; at least half of that */
#define LINE_ROOM 4u /* per run in a spread window: with fewer, room soon runs out again */

/* Renumbers all keys. The head has the key of the first run, because the values that exist from the
 * start are live then. */
bool tn__line_number(tn__line *line) {
    size_t need = (size_t)line->linked_count * LINE_GAP + 8;
    uint32_t keys = need < UINT32_MAX ? (uint32_t)need : UINT32_MAX;
    if (keys < 16) keys = 16;
    size_t room = tn__range_tree_room(keys);
    if (room == SIZE_MAX || !tn__reserve(&line->context, &line->tree_memory, &line->tree_room, room,
                                         sizeof *line->tree_memory))
        return false;
    tn__range_tree_init(&line->tree, keys, line->tree_memory);
    uint32_t width = line->tree.width;
    uint32_t step = (width - 2) / (line->linked_count + 1), key = 0;
    line->nodes[TN__LINE_HEAD].key = 0;
    for (uint32_t n = line->nodes[TN__LINE_HEAD].next; n != TN_NONE; n = line->nodes[n].next) {
        line->nodes[n].key = key;
        key += step;
    }
    line->nodes[TN__LINE_TAIL].key = width - 1;
    keys_sum(line);
    return true;
}

/* Bytes of the values that a node touches and no later node reads. */
static int64_t keys_ending(const tn__line *line, const tn__line_node *node) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < node->touch_count; i++)
        if (!tn__line_is_read_next(line, node->touch_first + i))
            bytes += tn__line_bytes(line, line->touches[node->touch_first + i].value);
    return bytes;
}

/* From the bytes at a node, computes the bytes after it, which belong to values that are read
 * later. Values made by the head count at the first run. */
static int64_t keys_behind(const tn__line *line, uint32_t id, int64_t bytes) {
    const tn__line_node *node = &line->nodes[id];
    bytes -= tn__line_scratch(line, node) + keys_ending(line, node);
    if (node->prev == TN__LINE_HEAD) bytes -= keys_ending(line, &line->nodes[TN__LINE_HEAD]);
    if (node->moved)
        bytes += tn__line_bytes(line, line->touches[node->touch_first + node->input_count].value);
    return bytes;
}

/* Nodes to be spread over a window of keys, which begins at the key of a node. */
typedef struct keys_window {
    uint32_t first, count; /* nodes */
    uint32_t low, size;    /* keys */
    uint32_t at;           /* index of the node before which room is needed */
} keys_window;

/* Half of the keys lie before the node `at`, because one insertion is usually followed by more at
 * the same place. */
static uint32_t keys_of(const keys_window *w, uint32_t i) {
    uint32_t half = w->size / 2;
    if (i == w->count) return w->low + w->size;
    return w->low + (uint32_t)((uint64_t)i * half / w->count) + (i >= w->at ? half : 0);
}

static void keys_spread(tn__line *line, const keys_window *w) {
    uint32_t id = w->first;
    tn__range_tree_get(&line->tree, w->low, w->size, line->old);
    for (uint32_t i = 0; i < w->count; i++, id = line->nodes[id].next) {
        uint32_t key = keys_of(w, i), end = keys_of(w, i + 1);
        int64_t here = line->old[line->nodes[id].key - w->low];
        int64_t behind = keys_behind(line, id, here);
        line->spread[key - w->low] = here;
        for (uint32_t k = key + 1; k < end; k++) line->spread[k - w->low] = behind;
        line->spread_keys[i] = key;
    }
    id = w->first;
    for (uint32_t i = 0; i < w->count; i++, id = line->nodes[id].next)
        line->nodes[id].key = line->spread_keys[i];
    tn__range_tree_set(&line->tree, w->low, w->size, line->spread);
}

/* Spreads the nodes of the smallest window that is not too full, to get more keys between
 * neighbours. */
static bool keys_make_room(tn__line *line, uint32_t before) {
    uint32_t size = 16, low = 0, first = before, last = before, count = 1, at = 0;
    for (; size <= LINE_WINDOW && size < line->tree.width; size *= 2) {
        low = line->nodes[before].key & ~(size - 1);
        while (first > TN__LINE_TAIL && line->nodes[line->nodes[first].prev].key >= low &&
               line->nodes[first].prev != TN__LINE_HEAD) {
            first = line->nodes[first].prev;
            count++;
            at++;
        }
        while (line->nodes[last].next != TN_NONE &&
               line->nodes[line->nodes[last].next].key < low + size) {
            last = line->nodes[last].next;
            count++;
        }
        if (first != before && LINE_ROOM * count <= size) break;
    }
    if (size > LINE_WINDOW || size >= line->tree.width) return tn__line_number(line);
    keys_spread(line, &(keys_window){first, count, low, size, at});
    return true;
}

/* A free key between a node and the one before it. False: out of memory. */
bool tn__line_give_key(tn__line *line, uint32_t before) {
    uint32_t low = line->nodes[line->nodes[before].prev].key;
    if (line->nodes[before].key - low >= 2) return true;
    return keys_make_room(line, before);
}
