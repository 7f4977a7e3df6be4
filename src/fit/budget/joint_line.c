/* joint_line.c - inserts and removes the runs and touches of joint_line.h. Every change updates the
 * live ranges of the touched values, the bytes at each key, and the log of changes for undo. Cost:
 * O(log keys) for each touch, plus the walk in the list of touches from the last position. */
#include "fit/budget/joint_parts.h"

/* --- live ranges ---------------------------------------------------------------------------- */

/* Whether the first output of a node takes the memory of an input that ends there. */
bool tn__line_moves(const tn__line *line, const tn__line_node *node) {
    if (node->job == TN_NONE || node->touch_count == node->input_count) return false;
    uint32_t source = line->work->jobs[node->job].inplace;
    if (source == TN_NONE) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t touch = node->touch_first + i;
        if (line->touches[touch].value == source) return !tn__line_is_read_next(line, touch);
    }
    return false;
}

static void line_set_moved(tn__line *line, uint32_t id, bool moved) {
    tn__line_node *node = &line->nodes[id];
    if (moved == node->moved) return;
    node->moved = moved;
    int64_t bytes =
        tn__line_bytes(line, line->touches[node->touch_first + node->input_count].value);
    tn__line_tree_add(&line->tree, node->key, node->key, moved ? -bytes : bytes);
}

static void line_look_again(tn__line *line, uint32_t touch) {
    uint32_t node = line->touches[touch].node;
    line_set_moved(line, node, tn__line_moves(line, &line->nodes[node]));
}

/* The search starts where the previous one for this value ended, because consecutive calls are
 * mostly near each other and touch lists can grow long. */
uint32_t tn__line_before(const tn__line *line, uint32_t value, uint32_t key) {
    uint32_t at = line->near_touch[value];
    while (at != TN_NONE && tn__line_key(line, at) >= key) at = line->touches[at].prev;
    uint32_t next = at != TN_NONE ? line->touches[at].next : line->first_touch[value];
    for (; next != TN_NONE && tn__line_key(line, next) < key; next = line->touches[next].next)
        at = next;
    return line->near_touch[value] = at;
}

void tn__line_link(tn__line *line, uint32_t id, uint32_t prev) {
    tn__line_touch *touch = &line->touches[id];
    touch->prev = prev;
    touch->next = prev == TN_NONE ? line->first_touch[touch->value] : line->touches[prev].next;
    if (touch->next != TN_NONE) line->touches[touch->next].prev = id;
    if (prev == TN_NONE)
        line->first_touch[touch->value] = id;
    else
        line->touches[prev].next = id;
}

static void line_unlink(tn__line *line, uint32_t id) {
    tn__line_touch *touch = &line->touches[id];
    if (line->near_touch[touch->value] == id) line->near_touch[touch->value] = touch->prev;
    if (touch->next != TN_NONE) line->touches[touch->next].prev = touch->prev;
    if (touch->prev == TN_NONE)
        line->first_touch[touch->value] = touch->next;
    else
        line->touches[touch->prev].next = touch->next;
}

/* Counts a read that is inserted or removed: if it is the last read of its live range, the range
 * changes its length. */
static void line_count_read(tn__line *line, uint32_t id, bool put) {
    const tn__line_touch *touch = &line->touches[id];
    if (touch->next != TN_NONE && !line->touches[touch->next].makes) return;
    int64_t bytes = tn__line_bytes(line, touch->value);
    tn__line_tree_add(&line->tree, tn__line_key(line, touch->prev) + 1, tn__line_key(line, id),
                      put ? bytes : -bytes);
}

/* Counts a making. If a later read follows, it splits the existing live range, and the part before
 * the making is freed. */
static void line_count_making(tn__line *line, uint32_t id, bool put) {
    const tn__line_touch *touch = &line->touches[id];
    uint32_t key = tn__line_key(line, id);
    int64_t bytes = put ? tn__line_bytes(line, touch->value) : -tn__line_bytes(line, touch->value);
    if (!tn__line_is_read_next(line, id))
        tn__line_tree_add(&line->tree, key, key, bytes);
    else if (touch->prev != TN_NONE && key > 0)
        tn__line_tree_add(&line->tree, tn__line_key(line, touch->prev) + 1, key - 1, -bytes);
}

static void line_put_touch(tn__line *line, uint32_t id) {
    tn__line_touch *touch = &line->touches[id];
    uint32_t prev = tn__line_before(line, touch->value, tn__line_key(line, id));
    tn__line_link(line, id, prev);
    if (touch->makes)
        line_count_making(line, id, true);
    else
        line_count_read(line, id, true);
    if (prev != TN_NONE) line_look_again(line, prev);
}

static void line_take_touch(tn__line *line, uint32_t id) {
    tn__line_touch *touch = &line->touches[id];
    if (touch->makes)
        line_count_making(line, id, false);
    else
        line_count_read(line, id, false);
    line_unlink(line, id);
    if (touch->prev != TN_NONE) line_look_again(line, touch->prev);
}

/* --- insertion and removal ------------------------------------------------------------------ */

void tn__line_chain(tn__line *line, uint32_t id, uint32_t next) {
    tn__line_node *node = &line->nodes[id];
    node->next = next;
    node->prev = line->nodes[next].prev;
    line->nodes[node->prev].next = line->nodes[next].prev = id;
    node->linked = true;
    line->linked_count++;
}

static void line_unchain(tn__line *line, uint32_t id) {
    tn__line_node *node = &line->nodes[id];
    line->nodes[node->prev].next = node->next;
    line->nodes[node->next].prev = node->prev;
    node->linked = false;
    line->linked_count--;
}

static void line_put_node(tn__line *line, uint32_t id, uint32_t before) {
    if (line->failed || !tn__line_give_key(line, before)) {
        line->failed = true;
        return;
    }
    tn__line_node *node = &line->nodes[id];
    uint32_t low = line->nodes[line->nodes[before].prev].key, high = line->nodes[before].key;
    node->key = tn__line_key_after(low, high);
    tn__line_chain(line, id, before);
    tn__line_tree_add(&line->tree, node->key, node->key, tn__line_scratch(line, node));
    for (uint32_t i = 0; i < node->touch_count; i++) line_put_touch(line, node->touch_first + i);
    line_set_moved(line, id, tn__line_moves(line, node));
    if (node->job != TN_NONE)
        line->cost = tn__add_sat(line->cost, line->work->jobs[node->job].again_cost);
}

static void line_take_node(tn__line *line, uint32_t id) {
    tn__line_node *node = &line->nodes[id];
    if (line->failed) return;
    line_set_moved(line, id, false);
    for (uint32_t i = node->touch_count; i-- > 0;) line_take_touch(line, node->touch_first + i);
    tn__line_tree_add(&line->tree, node->key, node->key, -tn__line_scratch(line, node));
    line_unchain(line, id);
    if (node->job != TN_NONE) line->cost -= line->work->jobs[node->job].again_cost;
}

/* Moves the start of the live ranges that begin with a first run. A run that is removed while its
 * readers stay is still counted from its old key on. */
static void line_move_lives(tn__line *line, const tn__line_node *node, uint32_t old) {
    for (uint32_t i = node->input_count; i < node->touch_count; i++) {
        uint32_t touch = node->touch_first + i;
        int64_t bytes = tn__line_bytes(line, line->touches[touch].value);
        if (!tn__line_is_read_next(line, touch) || line->touches[touch].prev != TN_NONE) continue;
        if (node->key < old)
            tn__line_tree_add(&line->tree, node->key, old - 1, bytes);
        else if (old < node->key)
            tn__line_tree_add(&line->tree, old, node->key - 1, -bytes);
    }
}

static void line_move_node(tn__line *line, uint32_t id, uint32_t before) {
    tn__line_node *node = &line->nodes[id];
    if (line->failed || !tn__line_give_key(line, before)) {
        line->failed = true;
        return;
    }
    uint32_t old = node->key, low = line->nodes[line->nodes[before].prev].key;
    line_set_moved(line, id, false);
    for (uint32_t i = node->touch_count; i-- > 0;) line_take_touch(line, node->touch_first + i);
    tn__line_tree_add(&line->tree, old, old, -tn__line_scratch(line, node));
    line_unchain(line, id);
    node->key = tn__line_key_after(low, line->nodes[before].key);
    tn__line_chain(line, id, before);
    tn__line_tree_add(&line->tree, node->key, node->key, tn__line_scratch(line, node));
    for (uint32_t i = 0; i < node->touch_count; i++) line_put_touch(line, node->touch_first + i);
    line_move_lives(line, node, old);
    line_set_moved(line, id, tn__line_moves(line, node));
}

static bool line_note(tn__line *line, uint32_t node, uint32_t next, tn__line_deed deed) {
    if (!tn__reserve(&line->context, &line->changes, &line->change_room,
                     (size_t)line->change_count + 1, sizeof *line->changes)) {
        line->failed = true;
        return false;
    }
    line->changes[line->change_count++] = (tn__line_change){node, next, (uint8_t)deed};
    return true;
}

uint32_t tn__line_put(tn__line *line, uint32_t job, uint32_t before) {
    uint32_t id = line->spare[job];
    if (id != TN_NONE)
        line->spare[job] = line->nodes[id].next;
    else
        id = tn__line_make_node(line, job, true);
    if (id == TN_NONE || !line_note(line, id, before, TN__LINE_PUT)) {
        line->failed = true;
        return TN_NONE;
    }
    line_put_node(line, id, before);
    return line->failed ? TN_NONE : id;
}

uint32_t tn__line_put_copy(tn__line *line, uint32_t value, uint32_t before, bool comes) {
    if (!tn__reserve(&line->context, &line->nodes, &line->node_room, (size_t)line->node_count + 1,
                     sizeof *line->nodes) ||
        !tn__reserve(&line->context, &line->touches, &line->touch_room,
                     (size_t)line->touch_count + 1, sizeof *line->touches) ||
        !line_note(line, line->node_count, before, TN__LINE_PUT)) {
        line->failed = true;
        return TN_NONE;
    }
    uint32_t id = line->node_count++;
    line->nodes[id] = (tn__line_node){
        .job = TN_NONE, .touch_first = line->touch_count, .touch_count = 1, .input_count = !comes};
    line->touches[line->touch_count++] = (tn__line_touch){id, value, TN_NONE, TN_NONE, comes};
    line_put_node(line, id, before);
    return line->failed ? TN_NONE : id;
}

/* Stores the node for a later insertion. */
static void line_put_by(tn__line *line, uint32_t id) {
    tn__line_node *node = &line->nodes[id];
    if (node->job == TN_NONE) return;
    node->next = line->spare[node->job];
    line->spare[node->job] = id;
}

void tn__line_take(tn__line *line, uint32_t node) {
    uint32_t next = line->nodes[node].next;
    if (line_note(line, node, next, TN__LINE_TAKEN)) line_take_node(line, node);
}

void tn__line_move(tn__line *line, uint32_t node, uint32_t before) {
    uint32_t next = line->nodes[node].next;
    if (before == node || before == next) return;
    if (line_note(line, node, next, TN__LINE_MOVED)) line_move_node(line, node, before);
}

void tn__line_undo(tn__line *line, uint32_t mark) {
    while (line->change_count > mark && !line->failed) {
        tn__line_change change = line->changes[--line->change_count];
        if (change.deed == TN__LINE_TAKEN) {
            line_put_node(line, change.node, change.next);
        } else if (change.deed == TN__LINE_MOVED) {
            line_move_node(line, change.node, change.next);
        } else {
            line_take_node(line, change.node);
            line_put_by(line, change.node);
        }
    }
}

void tn__line_forget(tn__line *line) {
    for (uint32_t i = 0; i < line->change_count; i++) {
        uint32_t node = line->changes[i].node;
        bool taken = line->changes[i].deed == TN__LINE_TAKEN;
        if (taken && !line->nodes[node].linked) line_put_by(line, node);
    }
    line->change_count = 0;
}
