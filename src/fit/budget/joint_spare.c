/* joint_spare.c - removes repeats from a line: unnecessary ones, or one with all repeats that only
 * served it. Cost: O(operands of the run * log keys) for each removal. */
#include "fit/budget/joint_repair.h"

/* Whether the readers of a repeat could use the earlier copy of its output. They cannot if that
 * went to the host. */
bool tn__repair_may_take(const tn__repair *r, uint32_t node) {
    const tn__line_node *it = &r->line->nodes[node];
    for (uint32_t i = it->input_count; it->again && i < it->touch_count; i++) {
        uint32_t touch = it->touch_first + i, prev = r->line->touches[touch].prev;
        if (tn__line_is_read_next(r->line, touch) && tn__line_is_settled(r->line, prev))
            return false;
    }
    return it->again;
}

bool tn__repair_spare(tn__repair *r, uint32_t node) {
    if (!tn__repair_may_take(r, node)) return false;
    uint32_t mark = tn__line_mark(r->line);
    const tn__line_node *it = &r->line->nodes[node];
    uint32_t key = it->key;
    int64_t before = tn__line_peak(r->line);
    bool fits = true;
    for (uint32_t i = it->input_count; i < it->touch_count && fits; i++) {
        uint32_t touch = it->touch_first + i;
        if (!tn__line_is_read_next(r->line, touch)) continue;
        uint32_t prev = r->line->touches[touch].prev;
        uint64_t bytes = r->work->values[r->line->touches[touch].value].bytes;
        fits = key == 0 || tn__repair_fits(r, tn__line_key(r->line, prev) + 1, key - 1, bytes);
    }
    r->effort += it->touch_count;
    if (!fits) return false;
    tn__line_take(r->line, node);
    int64_t limit = before > (int64_t)r->budget ? before : (int64_t)r->budget;
    if (tn__line_peak(r->line) <= limit) return true;
    tn__line_undo(r->line, mark);
    return false;
}

static bool spare_is_read(const tn__line *line, const tn__line_node *node) {
    for (uint32_t i = node->input_count; i < node->touch_count; i++)
        if (tn__line_is_read_next(line, node->touch_first + i)) return true;
    return false;
}

/* The repeat that made an input of a node; TN_NONE: the first run did. */
static uint32_t spare_source(const tn__line *line, uint32_t touch) {
    while (touch != TN_NONE && !line->touches[touch].makes) touch = line->touches[touch].prev;
    if (touch == TN_NONE || !line->nodes[line->touches[touch].node].again) return TN_NONE;
    return line->touches[touch].node;
}

void tn__repair_drop(tn__repair *r, uint32_t node) {
    tn__line *line = r->line;
    uint32_t count = 1;
    r->chain[0] = node;
    for (uint32_t i = 0; i < count; i++) {
        tn__line_node it = line->nodes[r->chain[i]];
        if (!it.linked || (i > 0 && spare_is_read(line, &it))) continue;
        if (!tn__repair_may_take(r, r->chain[i])) continue;
        for (uint32_t k = 0; k < it.input_count && count < REPAIR_CHAIN; k++) {
            uint32_t source = spare_source(line, it.touch_first + k);
            if (source != TN_NONE) r->chain[count++] = source;
        }
        r->effort += it.touch_count;
        tn__line_take(line, r->chain[i]);
    }
}

bool tn__repair_trim(tn__repair *r) {
    const tn__line *line = r->line;
    size_t room = (size_t)line->linked_count + 1;
    tn__sort_item *items = tn__alloc_array(&line->context, room, sizeof *items);
    uint32_t count = 0;
    if (items == NULL) return false;
    for (uint32_t n = line->nodes[TN__LINE_TAIL].prev; n != TN__LINE_HEAD; n = line->nodes[n].prev)
        if (line->nodes[n].again)
            items[count++] = (tn__sort_item){~r->work->jobs[line->nodes[n].job].again_cost, n};
    bool sorted = tn__sort_items(&line->context, items, count);
    for (uint32_t i = 0; i < count && sorted && !line->failed; i++)
        tn__repair_spare(r, items[i].id);
    tn__free(&line->context, items, room * sizeof *items);
    return sorted && !line->failed;
}
