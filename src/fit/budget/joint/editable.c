/* editable.c - edits a schedule (editable.h). Every change updates the live ranges of the values
 * that it concerns, the bytes at each key, and the log of changes for undo. Cost: O(log keys) for
 * each value that an edited run makes or reads, plus a walk in the list of the value's accesses,
 * which starts at the previous place. */
#include "fit/budget/joint/editable.h"

/* size, in keys, of the largest window in which runs are spread over the keys; if this window is
 * too full, all runs of the schedule get new keys */
#define EDITABLE_WINDOW 4096u

static int64_t editable_bytes(const tn__editable *edit, uint32_t value) {
    return (int64_t)edit->dag->values[value].bytes;
}

static int64_t editable_scratch(const tn__editable *edit, const tn__editable_node *node) {
    return node->job == TN_NONE ? 0 : (int64_t)edit->dag->jobs[node->job].scratch;
}

/* Returns the key for a run that is inserted between the runs with the keys `low` and `high`. It
 * lies closer to the lower key, because later insertions usually follow above it. */
static uint32_t editable_key_after(uint32_t low, uint32_t high) {
    return low + (high - low + 6) / 8;
}

/* Adds bytes to all keys from `first` to `last`; does nothing if first > last. */
static void editable_tree_add(tn__range_tree *tree, uint32_t first, uint32_t last, int64_t bytes) {
    tn__range_tree_add(tree, first, last + 1, bytes);
}

/* --- keys and bytes --------------------------------------------------------------------------- */

/* Assigns the keys of the runs of a schedule, and computes the bytes at each key. Keys are
 * ascending integers with gaps. An insertion takes a free key between its neighbours. If none is
 * left, the runs of a small window of keys are spread evenly; if even a window of EDITABLE_WINDOW
 * keys is too full, all keys are renumbered. Cost: O(window) for a spread, O(runs + touches) for a
 * renumbering. */

/* Adds the bytes of one live range to `leaf`, as differences: added at its first key, subtracted
 * after its last one. The live range begins with `making`, the touch of a run that makes the value,
 * and ends with the last read before the value is made again. */
static void keys_sum_life(tn__editable *edit, uint32_t making, int64_t *leaf) {
    uint32_t last = making;
    while (tn__editable_is_read_next(edit, last)) last = edit->touches[last].next;
    int64_t bytes = editable_bytes(edit, edit->touches[making].value);
    leaf[tn__editable_key(edit, making)] += bytes;
    if (tn__editable_key(edit, last) + 1 < edit->tree.width)
        leaf[tn__editable_key(edit, last) + 1] -= bytes;
}

/* Whether the first output of a run is written over an input with a live range that ends there. */
static bool editable_moves(const tn__editable *edit, const tn__editable_node *node) {
    if (node->job == TN_NONE || node->touch_count == node->input_count) return false;
    uint32_t source = edit->dag->jobs[node->job].inplace;
    if (source == TN_NONE) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t touch = node->touch_first + i;
        if (edit->touches[touch].value == source) return !tn__editable_is_read_next(edit, touch);
    }
    return false;
}

static void keys_sum(tn__editable *edit) {
    tn__range_tree *tree = &edit->tree;
    int64_t *leaf = tree->most + tree->width, at = 0;
    for (uint32_t v = 0; v < edit->dag->value_count; v++)
        for (uint32_t t = edit->first_touch[v]; t != TN_NONE; t = edit->touches[t].next)
            if (edit->touches[t].makes) keys_sum_life(edit, t, leaf);
    for (uint32_t k = 0; k < tree->width; k++) leaf[k] = at += leaf[k];
    for (uint32_t n = TN__EDITABLE_HEAD; n != TN_NONE; n = edit->nodes[n].next) {
        tn__editable_node *node = &edit->nodes[n];
        leaf[node->key] += editable_scratch(edit, node);
        node->moved = editable_moves(edit, node);
        if (node->moved)
            leaf[node->key] -=
                editable_bytes(edit, edit->touches[node->touch_first + node->input_count].value);
    }
    tn__range_tree_sum_up(tree);
}

/* number of keys that a renumbering provides for each run; because of rounding, a run gets at least
 * half as many */
#define EDITABLE_GAP 8u
/* number of keys that a window must have for each of its runs; with fewer, its free keys would soon
 * be used up again, so a larger window is tried */
#define EDITABLE_ROOM 4u

/* Gives all runs new keys, and recomputes the bytes at each key. Returns false if memory is
 * exhausted. The head of the list has the key of the first run, because the values that exist from
 * the start are live then. */
static bool editable_number(tn__editable *edit) {
    size_t need = (size_t)edit->linked_count * EDITABLE_GAP + 8;
    uint32_t keys = need < UINT32_MAX ? (uint32_t)need : UINT32_MAX;
    if (keys < 16) keys = 16;
    size_t room = tn__range_tree_room(keys);
    if (room == SIZE_MAX || !tn__reserve(&edit->context, &edit->tree_memory, &edit->tree_room, room,
                                         sizeof *edit->tree_memory))
        return false;
    tn__range_tree_init(&edit->tree, keys, edit->tree_memory);
    uint32_t width = edit->tree.width;
    uint32_t step = (width - 2) / (edit->linked_count + 1), key = 0;
    edit->nodes[TN__EDITABLE_HEAD].key = 0;
    for (uint32_t n = edit->nodes[TN__EDITABLE_HEAD].next; n != TN_NONE; n = edit->nodes[n].next) {
        edit->nodes[n].key = key;
        key += step;
    }
    edit->nodes[TN__EDITABLE_TAIL].key = width - 1;
    keys_sum(edit);
    return true;
}

/* Returns the bytes of the values that are live for the last time during a run: the run makes or
 * reads them, and no later run reads them. */
static int64_t keys_ending(const tn__editable *edit, const tn__editable_node *node) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < node->touch_count; i++)
        if (!tn__editable_is_read_next(edit, node->touch_first + i))
            bytes += editable_bytes(edit, edit->touches[node->touch_first + i].value);
    return bytes;
}

/* Returns the bytes that are live after a run, given the bytes during it: those of the values that
 * later runs read. Values of the head that no run reads end with the first run. */
static int64_t keys_behind(const tn__editable *edit, uint32_t id, int64_t bytes) {
    const tn__editable_node *node = &edit->nodes[id];
    bytes -= editable_scratch(edit, node) + keys_ending(edit, node);
    if (node->prev == TN__EDITABLE_HEAD)
        bytes -= keys_ending(edit, &edit->nodes[TN__EDITABLE_HEAD]);
    if (node->moved)
        bytes += editable_bytes(edit, edit->touches[node->touch_first + node->input_count].value);
    return bytes;
}

/* A window of keys over which consecutive runs are spread evenly. */
typedef struct keys_window {
    uint32_t first, count; /* nodes */
    uint32_t low, size;    /* keys */
    uint32_t at; /* index, within the window, of the run before which free keys are needed */
} keys_window;

/* Returns the new key of the i-th run of a window. Half of the keys are left free before the run
 * `at`, because one insertion is usually followed by more at that place. */
static uint32_t keys_of(const keys_window *w, uint32_t i) {
    uint32_t half = w->size / 2;
    if (i == w->count) return w->low + w->size;
    return w->low + (uint32_t)((uint64_t)i * half / w->count) + (i >= w->at ? half : 0);
}

static void keys_spread(tn__editable *edit, const keys_window *w) {
    uint32_t id = w->first;
    tn__range_tree_get(&edit->tree, w->low, w->size, edit->old);
    for (uint32_t i = 0; i < w->count; i++, id = edit->nodes[id].next) {
        uint32_t key = keys_of(w, i), end = keys_of(w, i + 1);
        int64_t here = edit->old[edit->nodes[id].key - w->low];
        int64_t behind = keys_behind(edit, id, here);
        edit->spread[key - w->low] = here;
        for (uint32_t k = key + 1; k < end; k++) edit->spread[k - w->low] = behind;
        edit->spread_keys[i] = key;
    }
    id = w->first;
    for (uint32_t i = 0; i < w->count; i++, id = edit->nodes[id].next)
        edit->nodes[id].key = edit->spread_keys[i];
    tn__range_tree_set(&edit->tree, w->low, w->size, edit->spread);
}

/* Spreads the runs of the smallest window of keys that is not too full, so that there are free keys
 * before the run `before`. Returns false if memory is exhausted. */
static bool keys_make_room(tn__editable *edit, uint32_t before) {
    uint32_t size = 16, low = 0, first = before, last = before, count = 1, at = 0;
    for (; size <= EDITABLE_WINDOW && size < edit->tree.width; size *= 2) {
        low = edit->nodes[before].key & ~(size - 1);
        while (first > TN__EDITABLE_TAIL && edit->nodes[edit->nodes[first].prev].key >= low &&
               edit->nodes[first].prev != TN__EDITABLE_HEAD) {
            first = edit->nodes[first].prev;
            count++;
            at++;
        }
        while (edit->nodes[last].next != TN_NONE &&
               edit->nodes[edit->nodes[last].next].key < low + size) {
            last = edit->nodes[last].next;
            count++;
        }
        if (first != before && EDITABLE_ROOM * count <= size) break;
    }
    if (size > EDITABLE_WINDOW || size >= edit->tree.width) return editable_number(edit);
    keys_spread(edit, &(keys_window){first, count, low, size, at});
    return true;
}

/* Makes sure that a key is free between a run and the previous one. Returns false if memory is
 * exhausted. */
static bool editable_give_key(tn__editable *edit, uint32_t before) {
    uint32_t low = edit->nodes[edit->nodes[before].prev].key;
    if (edit->nodes[before].key - low >= 2) return true;
    return keys_make_room(edit, before);
}

/* --- runs and touches ------------------------------------------------------------------------- */

/* --- live ranges --- */

static void editable_set_moved(tn__editable *edit, uint32_t id, bool moved) {
    tn__editable_node *node = &edit->nodes[id];
    if (moved == node->moved) return;
    node->moved = moved;
    int64_t bytes =
        editable_bytes(edit, edit->touches[node->touch_first + node->input_count].value);
    editable_tree_add(&edit->tree, node->key, node->key, moved ? -bytes : bytes);
}

static void editable_look_again(tn__editable *edit, uint32_t touch) {
    uint32_t node = edit->touches[touch].node;
    editable_set_moved(edit, node, editable_moves(edit, &edit->nodes[node]));
}

/* The search starts from the result of the previous search for this value, because consecutive
 * calls are mostly for places near each other, and lists of touches can be long. */
uint32_t tn__editable_before(const tn__editable *edit, uint32_t value, uint32_t key) {
    uint32_t at = edit->near_touch[value];
    while (at != TN_NONE && tn__editable_key(edit, at) >= key) at = edit->touches[at].prev;
    uint32_t next = at != TN_NONE ? edit->touches[at].next : edit->first_touch[value];
    for (; next != TN_NONE && tn__editable_key(edit, next) < key; next = edit->touches[next].next)
        at = next;
    return edit->near_touch[value] = at;
}

/* Inserts a touch (a run that makes or reads a value) into the list of its value, after the touch
 * `prev`, or at the begin if `prev` is TN_NONE. */
static void editable_link(tn__editable *edit, uint32_t id, uint32_t prev) {
    tn__editable_touch *touch = &edit->touches[id];
    touch->prev = prev;
    touch->next = prev == TN_NONE ? edit->first_touch[touch->value] : edit->touches[prev].next;
    if (touch->next != TN_NONE) edit->touches[touch->next].prev = id;
    if (prev == TN_NONE)
        edit->first_touch[touch->value] = id;
    else
        edit->touches[prev].next = id;
}

static void editable_unlink(tn__editable *edit, uint32_t id) {
    tn__editable_touch *touch = &edit->touches[id];
    if (edit->near_touch[touch->value] == id) edit->near_touch[touch->value] = touch->prev;
    if (touch->next != TN_NONE) edit->touches[touch->next].prev = touch->prev;
    if (touch->prev == TN_NONE)
        edit->first_touch[touch->value] = touch->next;
    else
        edit->touches[touch->prev].next = touch->next;
}

/* Updates the bytes at the keys for a read that is inserted (`put`) or removed. Only the last read
 * of a live range changes the range's length. */
static void editable_count_read(tn__editable *edit, uint32_t id, bool put) {
    const tn__editable_touch *touch = &edit->touches[id];
    if (touch->next != TN_NONE && !edit->touches[touch->next].makes) return;
    int64_t bytes = editable_bytes(edit, touch->value);
    editable_tree_add(&edit->tree, tn__editable_key(edit, touch->prev) + 1,
                      tn__editable_key(edit, id), put ? bytes : -bytes);
}

/* Updates the bytes at the keys for a touch that makes a value and is inserted (`put`) or removed.
 * If a later read follows, an inserted one splits the existing live range, and frees the value's
 * memory between the last access before it and itself. */
static void editable_count_making(tn__editable *edit, uint32_t id, bool put) {
    const tn__editable_touch *touch = &edit->touches[id];
    uint32_t key = tn__editable_key(edit, id);
    int64_t bytes = put ? editable_bytes(edit, touch->value) : -editable_bytes(edit, touch->value);
    if (!tn__editable_is_read_next(edit, id))
        editable_tree_add(&edit->tree, key, key, bytes);
    else if (touch->prev != TN_NONE && key > 0)
        editable_tree_add(&edit->tree, tn__editable_key(edit, touch->prev) + 1, key - 1, -bytes);
}

static void editable_put_touch(tn__editable *edit, uint32_t id) {
    tn__editable_touch *touch = &edit->touches[id];
    uint32_t prev = tn__editable_before(edit, touch->value, tn__editable_key(edit, id));
    editable_link(edit, id, prev);
    if (touch->makes)
        editable_count_making(edit, id, true);
    else
        editable_count_read(edit, id, true);
    if (prev != TN_NONE) editable_look_again(edit, prev);
}

static void editable_take_touch(tn__editable *edit, uint32_t id) {
    tn__editable_touch *touch = &edit->touches[id];
    if (touch->makes)
        editable_count_making(edit, id, false);
    else
        editable_count_read(edit, id, false);
    editable_unlink(edit, id);
    if (touch->prev != TN_NONE) editable_look_again(edit, touch->prev);
}

/* --- insertion and removal --- */

/* Inserts a run into the list of runs before another one, without its touches. */
static void editable_chain(tn__editable *edit, uint32_t id, uint32_t next) {
    tn__editable_node *node = &edit->nodes[id];
    node->next = next;
    node->prev = edit->nodes[next].prev;
    edit->nodes[node->prev].next = edit->nodes[next].prev = id;
    node->linked = true;
    edit->linked_count++;
}

static void editable_unchain(tn__editable *edit, uint32_t id) {
    tn__editable_node *node = &edit->nodes[id];
    edit->nodes[node->prev].next = node->next;
    edit->nodes[node->next].prev = node->prev;
    node->linked = false;
    edit->linked_count--;
}

static void editable_put_node(tn__editable *edit, uint32_t id, uint32_t before) {
    if (edit->failed || !editable_give_key(edit, before)) {
        edit->failed = true;
        return;
    }
    tn__editable_node *node = &edit->nodes[id];
    uint32_t low = edit->nodes[edit->nodes[before].prev].key, high = edit->nodes[before].key;
    node->key = editable_key_after(low, high);
    editable_chain(edit, id, before);
    editable_tree_add(&edit->tree, node->key, node->key, editable_scratch(edit, node));
    for (uint32_t i = 0; i < node->touch_count; i++)
        editable_put_touch(edit, node->touch_first + i);
    editable_set_moved(edit, id, editable_moves(edit, node));
    if (node->job != TN_NONE)
        edit->cost = tn__add_sat(edit->cost, edit->dag->jobs[node->job].recompute_cost);
}

static void editable_take_node(tn__editable *edit, uint32_t id) {
    tn__editable_node *node = &edit->nodes[id];
    if (edit->failed) return;
    editable_set_moved(edit, id, false);
    for (uint32_t i = node->touch_count; i-- > 0;) editable_take_touch(edit, node->touch_first + i);
    editable_tree_add(&edit->tree, node->key, node->key, -editable_scratch(edit, node));
    editable_unchain(edit, id);
    if (node->job != TN_NONE) edit->cost -= edit->dag->jobs[node->job].recompute_cost;
}

/* Corrects the begins of the live ranges of values that a moved first run makes. While the run was
 * out of the list, the bytes of values with readers were still counted from its old key on. */
static void editable_move_lives(tn__editable *edit, const tn__editable_node *node, uint32_t old) {
    for (uint32_t i = node->input_count; i < node->touch_count; i++) {
        uint32_t touch = node->touch_first + i;
        int64_t bytes = editable_bytes(edit, edit->touches[touch].value);
        if (!tn__editable_is_read_next(edit, touch) || edit->touches[touch].prev != TN_NONE)
            continue;
        if (node->key < old)
            editable_tree_add(&edit->tree, node->key, old - 1, bytes);
        else if (old < node->key)
            editable_tree_add(&edit->tree, old, node->key - 1, -bytes);
    }
}

static void editable_move_node(tn__editable *edit, uint32_t id, uint32_t before) {
    tn__editable_node *node = &edit->nodes[id];
    if (edit->failed || !editable_give_key(edit, before)) {
        edit->failed = true;
        return;
    }
    uint32_t old = node->key, low = edit->nodes[edit->nodes[before].prev].key;
    editable_set_moved(edit, id, false);
    for (uint32_t i = node->touch_count; i-- > 0;) editable_take_touch(edit, node->touch_first + i);
    editable_tree_add(&edit->tree, old, old, -editable_scratch(edit, node));
    editable_unchain(edit, id);
    node->key = editable_key_after(low, edit->nodes[before].key);
    editable_chain(edit, id, before);
    editable_tree_add(&edit->tree, node->key, node->key, editable_scratch(edit, node));
    for (uint32_t i = 0; i < node->touch_count; i++)
        editable_put_touch(edit, node->touch_first + i);
    editable_move_lives(edit, node, old);
    editable_set_moved(edit, id, editable_moves(edit, node));
}

static bool editable_note(tn__editable *edit, uint32_t node, uint32_t next,
                          tn__editable_deed deed) {
    if (!tn__reserve(&edit->context, &edit->changes, &edit->change_room,
                     (size_t)edit->change_count + 1, sizeof *edit->changes)) {
        edit->failed = true;
        return false;
    }
    edit->changes[edit->change_count++] = (tn__editable_change){node, next, (uint8_t)deed};
    return true;
}

/* Makes a run of a job with its touches (the values it reads and makes), without inserting it into
 * the list. Returns TN_NONE if memory is exhausted. */
static uint32_t editable_make_node(tn__editable *edit, uint32_t job, bool recompute) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(edit->dag, job, recompute, &inputs);
    const uint32_t *output = tn__job_outputs(edit->dag, job, recompute, &outputs);
    size_t need = (size_t)edit->touch_count + inputs + outputs;
    if (need >= TN_NONE || edit->node_count >= TN_NONE / 2 ||
        !tn__reserve(&edit->context, &edit->nodes, &edit->node_room, (size_t)edit->node_count + 1,
                     sizeof *edit->nodes) ||
        !tn__reserve(&edit->context, &edit->touches, &edit->touch_room, need,
                     sizeof *edit->touches))
        return TN_NONE;
    uint32_t id = edit->node_count++;
    edit->nodes[id] = (tn__editable_node){.job = job,
                                          .touch_first = edit->touch_count,
                                          .touch_count = inputs + outputs,
                                          .input_count = inputs,
                                          .recompute = recompute};
    for (uint32_t i = 0; i < inputs + outputs; i++)
        edit->touches[edit->touch_count++] = (tn__editable_touch){
            id, i < inputs ? input[i] : output[i - inputs], TN_NONE, TN_NONE, i >= inputs};
    return id;
}

uint32_t tn__editable_put(tn__editable *edit, uint32_t job, uint32_t before) {
    uint32_t id = edit->spare[job];
    if (id != TN_NONE)
        edit->spare[job] = edit->nodes[id].next;
    else
        id = editable_make_node(edit, job, true);
    if (id == TN_NONE || !editable_note(edit, id, before, TN__EDITABLE_PUT)) {
        edit->failed = true;
        return TN_NONE;
    }
    editable_put_node(edit, id, before);
    return edit->failed ? TN_NONE : id;
}

uint32_t tn__editable_put_copy(tn__editable *edit, uint32_t value, uint32_t before, bool comes) {
    if (!tn__reserve(&edit->context, &edit->nodes, &edit->node_room, (size_t)edit->node_count + 1,
                     sizeof *edit->nodes) ||
        !tn__reserve(&edit->context, &edit->touches, &edit->touch_room,
                     (size_t)edit->touch_count + 1, sizeof *edit->touches) ||
        !editable_note(edit, edit->node_count, before, TN__EDITABLE_PUT)) {
        edit->failed = true;
        return TN_NONE;
    }
    uint32_t id = edit->node_count++;
    edit->nodes[id] = (tn__editable_node){
        .job = TN_NONE, .touch_first = edit->touch_count, .touch_count = 1, .input_count = !comes};
    edit->touches[edit->touch_count++] = (tn__editable_touch){id, value, TN_NONE, TN_NONE, comes};
    editable_put_node(edit, id, before);
    return edit->failed ? TN_NONE : id;
}

/* Keeps a removed repeat, so that a later insertion of its job can use it. */
static void editable_put_by(tn__editable *edit, uint32_t id) {
    tn__editable_node *node = &edit->nodes[id];
    if (node->job == TN_NONE) return;
    node->next = edit->spare[node->job];
    edit->spare[node->job] = id;
}

void tn__editable_take(tn__editable *edit, uint32_t node) {
    uint32_t next = edit->nodes[node].next;
    if (editable_note(edit, node, next, TN__EDITABLE_TAKEN)) editable_take_node(edit, node);
}

void tn__editable_move(tn__editable *edit, uint32_t node, uint32_t before) {
    uint32_t next = edit->nodes[node].next;
    if (before == node || before == next) return;
    if (editable_note(edit, node, next, TN__EDITABLE_MOVED)) editable_move_node(edit, node, before);
}

void tn__editable_undo(tn__editable *edit, uint32_t mark) {
    while (edit->change_count > mark && !edit->failed) {
        tn__editable_change change = edit->changes[--edit->change_count];
        if (change.deed == TN__EDITABLE_TAKEN) {
            editable_put_node(edit, change.node, change.next);
        } else if (change.deed == TN__EDITABLE_MOVED) {
            editable_move_node(edit, change.node, change.next);
        } else {
            editable_take_node(edit, change.node);
            editable_put_by(edit, change.node);
        }
    }
}

void tn__editable_forget(tn__editable *edit) {
    for (uint32_t i = 0; i < edit->change_count; i++) {
        uint32_t node = edit->changes[i].node;
        bool taken = edit->changes[i].deed == TN__EDITABLE_TAKEN;
        if (taken && !edit->nodes[node].linked) editable_put_by(edit, node);
    }
    edit->change_count = 0;
}

/* --- a whole schedule, in and out ------------------------------------------------------------- */

/* Creates an editable schedule from a schedule graph, writes it as a list of actions, and reads it
 * from such a list. Cost: O(jobs + operands) to create it, O(actions + operands) to write or read
 * it. */

static bool ends_make_end(tn__editable *edit, bool tail) {
    const tn__dag *dag = edit->dag;
    uint32_t id = edit->node_count++, count = 0;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        bool kept = dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD);
        if (tail ? !kept : dag->values[v].maker != TN_NONE) continue;
        if (!tn__reserve(&edit->context, &edit->touches, &edit->touch_room,
                         (size_t)edit->touch_count + 1, sizeof *edit->touches))
            return false;
        edit->touches[edit->touch_count++] = (tn__editable_touch){id, v, TN_NONE, TN_NONE, !tail};
        count++;
    }
    edit->nodes[id] = (tn__editable_node){.job = TN_NONE,
                                          .touch_first = edit->touch_count - count,
                                          .touch_count = count,
                                          .input_count = tail ? count : 0,
                                          .linked = true};
    return true;
}

/* Appends the touches of a run to the lists of the values that it reads and makes; `last` has the
 * last touch of each value. */
static void ends_append(tn__editable *edit, uint32_t id, uint32_t *last) {
    tn__editable_node *node = &edit->nodes[id];
    for (uint32_t i = 0; i < node->touch_count; i++) {
        tn__editable_touch *touch = &edit->touches[node->touch_first + i];
        editable_link(edit, node->touch_first + i, last[touch->value]);
        last[touch->value] = node->touch_first + i;
    }
}

static tn_status ends_fill(tn__editable *edit, const uint32_t *order, uint32_t *last) {
    const tn__dag *dag = edit->dag;
    if (!tn__reserve(&edit->context, &edit->nodes, &edit->node_room, (size_t)dag->job_count + 2,
                     sizeof *edit->nodes) ||
        !ends_make_end(edit, false) || !ends_make_end(edit, true))
        return tn__no_memory(edit->error, "a schedule");
    edit->nodes[TN__EDITABLE_HEAD].next = TN__EDITABLE_TAIL;
    edit->nodes[TN__EDITABLE_TAIL].next = edit->nodes[TN__EDITABLE_HEAD].prev = TN_NONE;
    edit->nodes[TN__EDITABLE_TAIL].prev = TN__EDITABLE_HEAD;
    edit->linked_count = 2;
    for (uint32_t j = 0; j < dag->job_count; j++)
        if (editable_make_node(edit, j, false) == TN_NONE)
            return tn__no_memory(edit->error, "a schedule");
    ends_append(edit, TN__EDITABLE_HEAD, last);
    for (uint32_t i = 0; i < dag->job_count; i++) {
        uint32_t id = TN__EDITABLE_FIRST + (order != NULL ? order[i] : i);
        editable_chain(edit, id, TN__EDITABLE_TAIL);
        ends_append(edit, id, last);
    }
    ends_append(edit, TN__EDITABLE_TAIL, last);
    edit->cost = dag->cost;
    return editable_number(edit) ? TN_OK : tn__no_memory(edit->error, "a schedule");
}

tn_status tn__editable_init(tn__editable *edit, const tn__dag *dag, const tn_context *context,
                            const uint32_t *order, tn_error *error) {
    *edit = (tn__editable){.dag = dag, .context = *context, .error = error};
    size_t values = (size_t)dag->value_count + 1, jobs = (size_t)dag->job_count + 1;
    edit->first_touch = tn__alloc_array(context, values, sizeof *edit->first_touch);
    edit->near_touch = tn__alloc_array(context, values, sizeof *edit->near_touch);
    edit->spare = tn__alloc_array(context, jobs, sizeof *edit->spare);
    edit->old = tn__alloc_array(context, EDITABLE_WINDOW, sizeof *edit->old);
    edit->spread = tn__alloc_array(context, EDITABLE_WINDOW, sizeof *edit->spread);
    edit->spread_keys = tn__alloc_array(context, EDITABLE_WINDOW, sizeof *edit->spread_keys);
    uint32_t *last = tn__alloc_array(context, values, sizeof *last);
    tn_status status = TN_OK;
    if (edit->first_touch == NULL || edit->near_touch == NULL || edit->spare == NULL ||
        edit->old == NULL || edit->spread == NULL || edit->spread_keys == NULL || last == NULL) {
        status = tn__no_memory(error, "a schedule");
    } else {
        memset(edit->first_touch, 0xff, values * sizeof *edit->first_touch);
        memset(edit->near_touch, 0xff, values * sizeof *edit->near_touch);
        memset(edit->spare, 0xff, jobs * sizeof *edit->spare);
        memset(last, 0xff, values * sizeof *last);
        status = ends_fill(edit, order, last);
    }
    tn__free(context, last, values * sizeof *last);
    if (status != TN_OK) tn__editable_release(edit);
    return status;
}

void tn__editable_release(tn__editable *edit) {
    const tn_context *context = &edit->context;
    size_t values = (size_t)edit->dag->value_count + 1, jobs = (size_t)edit->dag->job_count + 1;
    tn__free(context, edit->first_touch, values * sizeof *edit->first_touch);
    tn__free(context, edit->near_touch, values * sizeof *edit->near_touch);
    tn__free(context, edit->spare, jobs * sizeof *edit->spare);
    tn__free(context, edit->old, EDITABLE_WINDOW * sizeof *edit->old);
    tn__free(context, edit->spread, EDITABLE_WINDOW * sizeof *edit->spread);
    tn__free(context, edit->spread_keys, EDITABLE_WINDOW * sizeof *edit->spread_keys);
    tn__free(context, edit->nodes, edit->node_room * sizeof *edit->nodes);
    tn__free(context, edit->touches, edit->touch_room * sizeof *edit->touches);
    tn__free(context, edit->changes, edit->change_room * sizeof *edit->changes);
    tn__free(context, edit->tree_memory, edit->tree_room * sizeof *edit->tree_memory);
    *edit = (tn__editable){.dag = edit->dag, .context = edit->context, .error = edit->error};
}

static tn_status ends_write_action(tn__schedule *schedule, uint8_t kind, uint32_t what,
                                   tn_error *error) {
    return tn__schedule_add(schedule, (tn__action){.kind = kind, .what = what}, error);
}

/* Writes the action OUT for each value with a copy to the host that starts after this run has
 * accessed it. */
static tn_status ends_write_outs(const tn__editable *edit, const tn__editable_node *node,
                                 tn__schedule *schedule, tn_error *error) {
    for (uint32_t i = 0; i < node->touch_count; i++) {
        const tn__editable_touch *touch = &edit->touches[node->touch_first + i];
        if (touch->next != TN_NONE && tn__editable_is_settled(edit, touch->next))
            TN_TRY(ends_write_action(schedule, TN__OUT, touch->value, error));
    }
    return TN_OK;
}

tn_status tn__editable_write(const tn__editable *edit, tn__schedule *schedule, tn_error *error) {
    schedule->count = 0;
    for (uint32_t n = TN__EDITABLE_HEAD; n != TN__EDITABLE_TAIL; n = edit->nodes[n].next) {
        const tn__editable_node *node = &edit->nodes[n];
        if (node->job != TN_NONE) {
            TN_TRY(ends_write_action(schedule, TN__RUN, node->job, error));
        } else if (n != TN__EDITABLE_HEAD) {
            const tn__editable_touch *touch = &edit->touches[node->touch_first];
            uint8_t kind = touch->makes ? TN__IN : TN__SETTLE;
            TN_TRY(ends_write_action(schedule, kind, touch->value, error));
        }
        TN_TRY(ends_write_outs(edit, node, schedule, error));
    }
    return TN_OK;
}

tn_status tn__editable_read(tn__editable *edit, const tn__schedule *schedule) {
    uint32_t at = edit->nodes[TN__EDITABLE_HEAD].next;
    while (at != TN__EDITABLE_TAIL) {
        uint32_t next = edit->nodes[at].next;
        if (edit->nodes[at].recompute) tn__editable_take(edit, at);
        at = next;
    }
    at = edit->nodes[TN__EDITABLE_HEAD].next;
    for (uint32_t i = 0; i < schedule->count && !edit->failed; i++) {
        if (schedule->actions[i].kind != TN__RUN) continue;
        uint32_t job = schedule->actions[i].what;
        if (at != TN__EDITABLE_TAIL && edit->nodes[at].job == job)
            at = edit->nodes[at].next;
        else
            tn__editable_put(edit, job, at);
    }
    return edit->failed ? tn__no_memory(edit->error, "a schedule") : TN_OK;
}
