/* joint_line.c - runs and touches of joint_line.h. */
#include "budget/joint_line.h"

/* --- lives ---------------------------------------------------------------------------------- */

static int64_t line_bytes(const tn__line *line, uint32_t value) {
    return (int64_t)line->work->values[value].bytes;
}

/* Whether the first output of a node takes the memory of an input that ends there. */
static bool line_moves(const tn__line *line, const tn__line_node *node) {
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
    int64_t bytes = line_bytes(line, line->touches[node->touch_first + node->input_count].value);
    tn__line_tree_add(&line->tree, node->key, node->key, moved ? -bytes : bytes);
}

static void line_look_again(tn__line *line, uint32_t touch) {
    uint32_t node = line->touches[touch].node;
    line_set_moved(line, node, line_moves(line, &line->nodes[node]));
}

uint32_t tn__line_before(const tn__line *line, uint32_t value, uint32_t key) {
    uint32_t last = TN_NONE;
    for (uint32_t at = line->first_touch[value]; at != TN_NONE; at = line->touches[at].next) {
        if (tn__line_key(line, at) >= key) break;
        last = at;
    }
    return last;
}

static void line_link(tn__line *line, uint32_t id, uint32_t prev) {
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
    if (touch->next != TN_NONE) line->touches[touch->next].prev = touch->prev;
    if (touch->prev == TN_NONE)
        line->first_touch[touch->value] = touch->next;
    else
        line->touches[touch->prev].next = touch->next;
}

/* A read that is put in or taken out: where it is the last of its life, that is longer by it. */
static void line_count_read(tn__line *line, uint32_t id, bool put) {
    const tn__line_touch *touch = &line->touches[id];
    if (touch->next != TN_NONE && !line->touches[touch->next].makes) return;
    int64_t bytes = line_bytes(line, touch->value);
    tn__line_tree_add(&line->tree, tn__line_key(line, touch->prev) + 1, tn__line_key(line, id),
                      put ? bytes : -bytes);
}

/* A making: from a life that is read later it cuts off the part before it. */
static void line_count_making(tn__line *line, uint32_t id, bool put) {
    const tn__line_touch *touch = &line->touches[id];
    uint32_t key = tn__line_key(line, id);
    int64_t bytes = put ? line_bytes(line, touch->value) : -line_bytes(line, touch->value);
    if (!tn__line_is_read_next(line, id))
        tn__line_tree_add(&line->tree, key, key, bytes);
    else if (touch->prev != TN_NONE && key > 0)
        tn__line_tree_add(&line->tree, tn__line_key(line, touch->prev) + 1, key - 1, -bytes);
}

static void line_put_touch(tn__line *line, uint32_t id) {
    tn__line_touch *touch = &line->touches[id];
    uint32_t prev = tn__line_before(line, touch->value, tn__line_key(line, id));
    line_link(line, id, prev);
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

/* --- keys ----------------------------------------------------------------------------------- */

static int64_t line_scratch(const tn__line *line, const tn__line_node *node) {
    return node->job == TN_NONE ? 0 : (int64_t)line->work->jobs[node->job].scratch;
}

/* A life that begins with this touch, from the making to the last read; as differences. */
static void line_sum_life(tn__line *line, uint32_t making, int64_t *leaf) {
    uint32_t last = making;
    while (tn__line_is_read_next(line, last)) last = line->touches[last].next;
    int64_t bytes = line_bytes(line, line->touches[making].value);
    leaf[tn__line_key(line, making)] += bytes;
    if (tn__line_key(line, last) + 1 < line->tree.width)
        leaf[tn__line_key(line, last) + 1] -= bytes;
}

static void line_sum(tn__line *line) {
    tn__line_tree *tree = &line->tree;
    int64_t *leaf = tree->most + tree->width, at = 0;
    memset(tree->most, 0, 2 * (size_t)tree->width * sizeof *tree->most);
    memset(tree->both, 0, 2 * (size_t)tree->width * sizeof *tree->both);
    for (uint32_t v = 0; v < line->work->value_count; v++)
        for (uint32_t t = line->first_touch[v]; t != TN_NONE; t = line->touches[t].next)
            if (line->touches[t].makes) line_sum_life(line, t, leaf);
    for (uint32_t k = 0; k < tree->width; k++) leaf[k] = at += leaf[k];
    for (uint32_t n = TN__LINE_HEAD; n != TN_NONE; n = line->nodes[n].next) {
        tn__line_node *node = &line->nodes[n];
        leaf[node->key] += line_scratch(line, node);
        node->moved = line_moves(line, node);
        if (node->moved)
            leaf[node->key] -=
                line_bytes(line, line->touches[node->touch_first + node->input_count].value);
    }
    for (uint32_t i = tree->width - 1; i > 0; i--)
        tree->most[i] =
            tree->most[2 * i] > tree->most[2 * i + 1] ? tree->most[2 * i] : tree->most[2 * i + 1];
}

#define LINE_GAP 6u /* keys to a run, at least half of that */

/* All keys anew. The head has that of the first run: what is there from the start is there then. */
static bool line_number(tn__line *line) {
    size_t need = (size_t)line->linked_count * LINE_GAP + 8;
    uint32_t width = 16;
    while (width < need) width *= 2;
    if (!tn__reserve(&line->context, &line->tree.most, &line->most_room, 2 * (size_t)width,
                     sizeof *line->tree.most) ||
        !tn__reserve(&line->context, &line->tree.both, &line->both_room, 2 * (size_t)width,
                     sizeof *line->tree.both))
        return false;
    line->tree.width = width;
    uint32_t step = (width - 2) / (line->linked_count + 1), key = 0;
    line->nodes[TN__LINE_HEAD].key = 0;
    for (uint32_t n = line->nodes[TN__LINE_HEAD].next; n != TN_NONE; n = line->nodes[n].next) {
        line->nodes[n].key = key;
        key += step;
    }
    line->nodes[TN__LINE_TAIL].key = width - 1;
    line_sum(line);
    return true;
}

#define LINE_WINDOW 4096u /* keys; beyond that all are given anew */

/* --- putting in and taking out -------------------------------------------------------------- */

static void line_chain(tn__line *line, uint32_t id, uint32_t next) {
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

/* Of what a node touches and nobody reads after it. */
static int64_t line_ending(const tn__line *line, const tn__line_node *node) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < node->touch_count; i++)
        if (!tn__line_is_read_next(line, node->touch_first + i))
            bytes += line_bytes(line, line->touches[node->touch_first + i].value);
    return bytes;
}

/* Bytes behind a node: of what is read later. What the head makes is there with the first run. */
static int64_t line_behind(const tn__line *line, uint32_t id) {
    const tn__line_node *node = &line->nodes[id];
    int64_t bytes = tn__line_tree_most(&line->tree, node->key, node->key);
    bytes -= line_scratch(line, node) + line_ending(line, node);
    if (node->prev == TN__LINE_HEAD) bytes -= line_ending(line, &line->nodes[TN__LINE_HEAD]);
    if (node->moved)
        bytes += line_bytes(line, line->touches[node->touch_first + node->input_count].value);
    return bytes;
}

/* Spreads the nodes from `id` on over the keys of a window, which begins with a node's key. */
static void line_spread(tn__line *line, uint32_t id, uint32_t count, uint32_t low, uint32_t size) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t key = low + (uint32_t)((uint64_t)i * size / count);
        uint32_t end = low + (uint32_t)((uint64_t)(i + 1) * size / count);
        int64_t here = tn__line_tree_most(&line->tree, line->nodes[id].key, line->nodes[id].key);
        int64_t behind = line_behind(line, id);
        for (uint32_t k = key; k < end; k++) line->spread[k - low] = k == key ? here : behind;
        line->spread_keys[i] = key;
        id = line->nodes[id].next;
    }
}

/* More keys between neighbours: in the smallest window that is not too full, nodes are spread. */
static bool line_make_room(tn__line *line, uint32_t before) {
    uint32_t size = 16, low = 0, first = before, last = before, count = 1;
    for (; size <= LINE_WINDOW && size < line->tree.width; size *= 2) {
        low = line->nodes[before].key & ~(size - 1);
        while (first > TN__LINE_TAIL && line->nodes[line->nodes[first].prev].key >= low &&
               line->nodes[first].prev != TN__LINE_HEAD) {
            first = line->nodes[first].prev;
            count++;
        }
        while (line->nodes[last].next != TN_NONE &&
               line->nodes[line->nodes[last].next].key < low + size) {
            last = line->nodes[last].next;
            count++;
        }
        if (first != before && 2 * count <= size) break;
    }
    if (size > LINE_WINDOW || size >= line->tree.width) return line_number(line);
    line_spread(line, first, count, low, size);
    for (uint32_t i = 0; i < count; i++, first = line->nodes[first].next)
        line->nodes[first].key = line->spread_keys[i];
    tn__line_tree_set(&line->tree, low, size, line->spread);
    return true;
}

/* A key between its neighbours. False: out of memory. */
static bool line_give_key(tn__line *line, uint32_t before) {
    uint32_t low = line->nodes[line->nodes[before].prev].key;
    if (line->nodes[before].key - low >= 2) return true;
    return line_make_room(line, before);
}

static void line_put_node(tn__line *line, uint32_t id, uint32_t before) {
    if (line->failed || !line_give_key(line, before)) {
        line->failed = true;
        return;
    }
    tn__line_node *node = &line->nodes[id];
    uint32_t low = line->nodes[line->nodes[before].prev].key, high = line->nodes[before].key;
    node->key = low + (high - low + 2) / 3;
    line_chain(line, id, before);
    tn__line_tree_add(&line->tree, node->key, node->key, line_scratch(line, node));
    for (uint32_t i = 0; i < node->touch_count; i++) line_put_touch(line, node->touch_first + i);
    line_set_moved(line, id, line_moves(line, node));
    if (node->job != TN_NONE)
        line->cost = tn__add_sat(line->cost, line->work->jobs[node->job].again_cost);
}

static void line_take_node(tn__line *line, uint32_t id) {
    tn__line_node *node = &line->nodes[id];
    if (line->failed) return;
    line_set_moved(line, id, false);
    for (uint32_t i = node->touch_count; i-- > 0;) line_take_touch(line, node->touch_first + i);
    tn__line_tree_add(&line->tree, node->key, node->key, -line_scratch(line, node));
    line_unchain(line, id);
    if (node->job != TN_NONE) line->cost -= line->work->jobs[node->job].again_cost;
}

/* The lives that begin with a first run: from where it stands now. What was taken out with the
 * readers left in is still counted from the old key on. */
static void line_move_lives(tn__line *line, const tn__line_node *node, uint32_t old) {
    for (uint32_t i = node->input_count; i < node->touch_count; i++) {
        uint32_t touch = node->touch_first + i;
        int64_t bytes = line_bytes(line, line->touches[touch].value);
        if (!tn__line_is_read_next(line, touch) || line->touches[touch].prev != TN_NONE) continue;
        if (node->key < old)
            tn__line_tree_add(&line->tree, node->key, old - 1, bytes);
        else if (old < node->key)
            tn__line_tree_add(&line->tree, old, node->key - 1, -bytes);
    }
}

static void line_move_node(tn__line *line, uint32_t id, uint32_t before) {
    tn__line_node *node = &line->nodes[id];
    if (line->failed || !line_give_key(line, before)) {
        line->failed = true;
        return;
    }
    uint32_t old = node->key, low = line->nodes[line->nodes[before].prev].key;
    line_set_moved(line, id, false);
    for (uint32_t i = node->touch_count; i-- > 0;) line_take_touch(line, node->touch_first + i);
    tn__line_tree_add(&line->tree, old, old, -line_scratch(line, node));
    line_unchain(line, id);
    node->key = low + (line->nodes[before].key - low + 2) / 3;
    line_chain(line, id, before);
    tn__line_tree_add(&line->tree, node->key, node->key, line_scratch(line, node));
    for (uint32_t i = 0; i < node->touch_count; i++) line_put_touch(line, node->touch_first + i);
    line_move_lives(line, node, old);
    line_set_moved(line, id, line_moves(line, node));
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

/* A node with the touches of a job. */
static uint32_t line_make_node(tn__line *line, uint32_t job, bool again) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(line->work, job, again, &inputs);
    const uint32_t *output = tn__job_outputs(line->work, job, again, &outputs);
    size_t need = (size_t)line->touch_count + inputs + outputs;
    if (need >= TN_NONE || line->node_count >= TN_NONE / 2 ||
        !tn__reserve(&line->context, &line->nodes, &line->node_room, (size_t)line->node_count + 1,
                     sizeof *line->nodes) ||
        !tn__reserve(&line->context, &line->touches, &line->touch_room, need,
                     sizeof *line->touches))
        return TN_NONE;
    uint32_t id = line->node_count++;
    line->nodes[id] = (tn__line_node){.job = job,
                                      .touch_first = line->touch_count,
                                      .touch_count = inputs + outputs,
                                      .input_count = inputs,
                                      .again = again};
    for (uint32_t i = 0; i < inputs + outputs; i++)
        line->touches[line->touch_count++] = (tn__line_touch){
            id, i < inputs ? input[i] : output[i - inputs], TN_NONE, TN_NONE, i >= inputs};
    return id;
}

uint32_t tn__line_put(tn__line *line, uint32_t job, uint32_t before) {
    uint32_t id = line->spare[job];
    if (id != TN_NONE)
        line->spare[job] = line->nodes[id].next;
    else
        id = line_make_node(line, job, true);
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

/* To those that may be put in again. */
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

/* --- the whole ------------------------------------------------------------------------------ */

static bool line_make_end(tn__line *line, bool tail) {
    const tn__work *work = line->work;
    uint32_t id = line->node_count++, count = 0;
    for (uint32_t v = 0; v < work->value_count; v++) {
        bool kept = work->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD);
        if (tail ? !kept : work->values[v].maker != TN_NONE) continue;
        if (!tn__reserve(&line->context, &line->touches, &line->touch_room,
                         (size_t)line->touch_count + 1, sizeof *line->touches))
            return false;
        line->touches[line->touch_count++] = (tn__line_touch){id, v, TN_NONE, TN_NONE, !tail};
        count++;
    }
    line->nodes[id] = (tn__line_node){.job = TN_NONE,
                                      .touch_first = line->touch_count - count,
                                      .touch_count = count,
                                      .input_count = tail ? count : 0,
                                      .linked = true};
    return true;
}

/* Links what stands at the end of all lists so far. */
static void line_append(tn__line *line, uint32_t id, uint32_t *last) {
    tn__line_node *node = &line->nodes[id];
    for (uint32_t i = 0; i < node->touch_count; i++) {
        tn__line_touch *touch = &line->touches[node->touch_first + i];
        line_link(line, node->touch_first + i, last[touch->value]);
        last[touch->value] = node->touch_first + i;
    }
}

static tn_status line_fill(tn__line *line, const uint32_t *order, uint32_t *last) {
    const tn__work *work = line->work;
    if (!tn__reserve(&line->context, &line->nodes, &line->node_room, (size_t)work->job_count + 2,
                     sizeof *line->nodes) ||
        !line_make_end(line, false) || !line_make_end(line, true))
        return tn__no_memory(line->error, "a schedule");
    line->nodes[TN__LINE_HEAD].next = TN__LINE_TAIL;
    line->nodes[TN__LINE_TAIL].next = line->nodes[TN__LINE_HEAD].prev = TN_NONE;
    line->nodes[TN__LINE_TAIL].prev = TN__LINE_HEAD;
    line->linked_count = 2;
    for (uint32_t j = 0; j < work->job_count; j++)
        if (line_make_node(line, j, false) == TN_NONE)
            return tn__no_memory(line->error, "a schedule");
    line_append(line, TN__LINE_HEAD, last);
    for (uint32_t i = 0; i < work->job_count; i++) {
        uint32_t id = TN__LINE_FIRST + (order != NULL ? order[i] : i);
        line_chain(line, id, TN__LINE_TAIL);
        line_append(line, id, last);
    }
    line_append(line, TN__LINE_TAIL, last);
    line->cost = work->cost;
    return line_number(line) ? TN_OK : tn__no_memory(line->error, "a schedule");
}

tn_status tn__line_init(tn__line *line, const tn__work *work, const tn_context *context,
                        const uint32_t *order, tn_error *error) {
    *line = (tn__line){.work = work, .context = *context, .error = error};
    size_t values = (size_t)work->value_count + 1, jobs = (size_t)work->job_count + 1;
    line->first_touch = tn__alloc_array(context, values, sizeof *line->first_touch);
    line->spare = tn__alloc_array(context, jobs, sizeof *line->spare);
    line->spread = tn__alloc_array(context, LINE_WINDOW, sizeof *line->spread);
    line->spread_keys = tn__alloc_array(context, LINE_WINDOW, sizeof *line->spread_keys);
    uint32_t *last = tn__alloc_array(context, values, sizeof *last);
    tn_status status = TN_OK;
    if (line->first_touch == NULL || line->spare == NULL || line->spread == NULL ||
        line->spread_keys == NULL || last == NULL) {
        status = tn__no_memory(error, "a schedule");
    } else {
        memset(line->first_touch, 0xff, values * sizeof *line->first_touch);
        memset(line->spare, 0xff, jobs * sizeof *line->spare);
        memset(last, 0xff, values * sizeof *last);
        status = line_fill(line, order, last);
    }
    tn__free(context, last, values * sizeof *last);
    if (status != TN_OK) tn__line_release(line);
    return status;
}

void tn__line_release(tn__line *line) {
    const tn_context *context = &line->context;
    size_t values = (size_t)line->work->value_count + 1, jobs = (size_t)line->work->job_count + 1;
    tn__free(context, line->first_touch, values * sizeof *line->first_touch);
    tn__free(context, line->spare, jobs * sizeof *line->spare);
    tn__free(context, line->spread, LINE_WINDOW * sizeof *line->spread);
    tn__free(context, line->spread_keys, LINE_WINDOW * sizeof *line->spread_keys);
    tn__free(context, line->nodes, line->node_room * sizeof *line->nodes);
    tn__free(context, line->touches, line->touch_room * sizeof *line->touches);
    tn__free(context, line->changes, line->change_room * sizeof *line->changes);
    tn__free(context, line->tree.most, line->most_room * sizeof *line->tree.most);
    tn__free(context, line->tree.both, line->both_room * sizeof *line->tree.both);
}

static tn_status line_write_act(tn__schedule *schedule, uint8_t kind, uint32_t what,
                                tn_error *error) {
    return tn__schedule_add(schedule, (tn__act){.kind = kind, .what = what}, error);
}

/* What leaves for the host as soon as it was touched here. */
static tn_status line_write_outs(const tn__line *line, const tn__line_node *node,
                                 tn__schedule *schedule, tn_error *error) {
    for (uint32_t i = 0; i < node->touch_count; i++) {
        const tn__line_touch *touch = &line->touches[node->touch_first + i];
        if (touch->next != TN_NONE && tn__line_is_settled(line, touch->next))
            TN_TRY(line_write_act(schedule, TN__OUT, touch->value, error));
    }
    return TN_OK;
}

tn_status tn__line_write(const tn__line *line, tn__schedule *schedule, tn_error *error) {
    schedule->count = 0;
    for (uint32_t n = TN__LINE_HEAD; n != TN__LINE_TAIL; n = line->nodes[n].next) {
        const tn__line_node *node = &line->nodes[n];
        if (node->job != TN_NONE) {
            TN_TRY(line_write_act(schedule, TN__RUN, node->job, error));
        } else if (n != TN__LINE_HEAD) {
            const tn__line_touch *touch = &line->touches[node->touch_first];
            uint8_t kind = touch->makes ? TN__IN : TN__SETTLE;
            TN_TRY(line_write_act(schedule, kind, touch->value, error));
        }
        TN_TRY(line_write_outs(line, node, schedule, error));
    }
    return TN_OK;
}

tn_status tn__line_read(tn__line *line, const tn__schedule *schedule) {
    uint32_t at = line->nodes[TN__LINE_HEAD].next;
    while (at != TN__LINE_TAIL) {
        uint32_t next = line->nodes[at].next;
        if (line->nodes[at].again) tn__line_take(line, at);
        at = next;
    }
    at = line->nodes[TN__LINE_HEAD].next;
    for (uint32_t i = 0; i < schedule->count && !line->failed; i++) {
        if (schedule->acts[i].kind != TN__RUN) continue;
        uint32_t job = schedule->acts[i].what;
        if (at != TN__LINE_TAIL && line->nodes[at].job == job)
            at = line->nodes[at].next;
        else
            tn__line_put(line, job, at);
    }
    return line->failed ? tn__no_memory(line->error, "a schedule") : TN_OK;
}
