/* joint_ends.c - creates a line from a work, and converts a line to and from a schedule. Cost:
 * O(jobs + operands) for a new line, O(acts + operands) for a schedule. */
#include "fit/budget/joint_parts.h"

/* Makes a node with the touches of a job. */
uint32_t tn__line_make_node(tn__line *line, uint32_t job, bool again) {
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

static bool ends_make_end(tn__line *line, bool tail) {
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

/* Appends a node and its touches at the end of all lists. */
static void ends_append(tn__line *line, uint32_t id, uint32_t *last) {
    tn__line_node *node = &line->nodes[id];
    for (uint32_t i = 0; i < node->touch_count; i++) {
        tn__line_touch *touch = &line->touches[node->touch_first + i];
        tn__line_link(line, node->touch_first + i, last[touch->value]);
        last[touch->value] = node->touch_first + i;
    }
}

static tn_status ends_fill(tn__line *line, const uint32_t *order, uint32_t *last) {
    const tn__work *work = line->work;
    if (!tn__reserve(&line->context, &line->nodes, &line->node_room, (size_t)work->job_count + 2,
                     sizeof *line->nodes) ||
        !ends_make_end(line, false) || !ends_make_end(line, true))
        return tn__no_memory(line->error, "a schedule");
    line->nodes[TN__LINE_HEAD].next = TN__LINE_TAIL;
    line->nodes[TN__LINE_TAIL].next = line->nodes[TN__LINE_HEAD].prev = TN_NONE;
    line->nodes[TN__LINE_TAIL].prev = TN__LINE_HEAD;
    line->linked_count = 2;
    for (uint32_t j = 0; j < work->job_count; j++)
        if (tn__line_make_node(line, j, false) == TN_NONE)
            return tn__no_memory(line->error, "a schedule");
    ends_append(line, TN__LINE_HEAD, last);
    for (uint32_t i = 0; i < work->job_count; i++) {
        uint32_t id = TN__LINE_FIRST + (order != NULL ? order[i] : i);
        tn__line_chain(line, id, TN__LINE_TAIL);
        ends_append(line, id, last);
    }
    ends_append(line, TN__LINE_TAIL, last);
    line->cost = work->cost;
    return tn__line_number(line) ? TN_OK : tn__no_memory(line->error, "a schedule");
}

tn_status tn__line_init(tn__line *line, const tn__work *work, const tn_context *context,
                        const uint32_t *order, tn_error *error) {
    *line = (tn__line){.work = work, .context = *context, .error = error};
    size_t values = (size_t)work->value_count + 1, jobs = (size_t)work->job_count + 1;
    line->first_touch = tn__alloc_array(context, values, sizeof *line->first_touch);
    line->near_touch = tn__alloc_array(context, values, sizeof *line->near_touch);
    line->spare = tn__alloc_array(context, jobs, sizeof *line->spare);
    line->old = tn__alloc_array(context, LINE_WINDOW, sizeof *line->old);
    line->spread = tn__alloc_array(context, LINE_WINDOW, sizeof *line->spread);
    line->spread_keys = tn__alloc_array(context, LINE_WINDOW, sizeof *line->spread_keys);
    uint32_t *last = tn__alloc_array(context, values, sizeof *last);
    tn_status status = TN_OK;
    if (line->first_touch == NULL || line->near_touch == NULL || line->spare == NULL ||
        line->old == NULL || line->spread == NULL || line->spread_keys == NULL || last == NULL) {
        status = tn__no_memory(error, "a schedule");
    } else {
        memset(line->first_touch, 0xff, values * sizeof *line->first_touch);
        memset(line->near_touch, 0xff, values * sizeof *line->near_touch);
        memset(line->spare, 0xff, jobs * sizeof *line->spare);
        memset(last, 0xff, values * sizeof *last);
        status = ends_fill(line, order, last);
    }
    tn__free(context, last, values * sizeof *last);
    if (status != TN_OK) tn__line_release(line);
    return status;
}

void tn__line_release(tn__line *line) {
    const tn_context *context = &line->context;
    size_t values = (size_t)line->work->value_count + 1, jobs = (size_t)line->work->job_count + 1;
    tn__free(context, line->first_touch, values * sizeof *line->first_touch);
    tn__free(context, line->near_touch, values * sizeof *line->near_touch);
    tn__free(context, line->spare, jobs * sizeof *line->spare);
    tn__free(context, line->old, LINE_WINDOW * sizeof *line->old);
    tn__free(context, line->spread, LINE_WINDOW * sizeof *line->spread);
    tn__free(context, line->spread_keys, LINE_WINDOW * sizeof *line->spread_keys);
    tn__free(context, line->nodes, line->node_room * sizeof *line->nodes);
    tn__free(context, line->touches, line->touch_room * sizeof *line->touches);
    tn__free(context, line->changes, line->change_room * sizeof *line->changes);
    tn__free(context, line->tree_memory, line->tree_room * sizeof *line->tree_memory);
    *line = (tn__line){.work = line->work, .context = line->context, .error = line->error};
}

static tn_status ends_write_act(tn__schedule *schedule, uint8_t kind, uint32_t what,
                                tn_error *error) {
    return tn__schedule_add(schedule, (tn__act){.kind = kind, .what = what}, error);
}

/* Writes the OUTs of the values that are copied to the host after their touch here. */
static tn_status ends_write_outs(const tn__line *line, const tn__line_node *node,
                                 tn__schedule *schedule, tn_error *error) {
    for (uint32_t i = 0; i < node->touch_count; i++) {
        const tn__line_touch *touch = &line->touches[node->touch_first + i];
        if (touch->next != TN_NONE && tn__line_is_settled(line, touch->next))
            TN_TRY(ends_write_act(schedule, TN__OUT, touch->value, error));
    }
    return TN_OK;
}

tn_status tn__line_write(const tn__line *line, tn__schedule *schedule, tn_error *error) {
    schedule->count = 0;
    for (uint32_t n = TN__LINE_HEAD; n != TN__LINE_TAIL; n = line->nodes[n].next) {
        const tn__line_node *node = &line->nodes[n];
        if (node->job != TN_NONE) {
            TN_TRY(ends_write_act(schedule, TN__RUN, node->job, error));
        } else if (n != TN__LINE_HEAD) {
            const tn__line_touch *touch = &line->touches[node->touch_first];
            uint8_t kind = touch->makes ? TN__IN : TN__SETTLE;
            TN_TRY(ends_write_act(schedule, kind, touch->value, error));
        }
        TN_TRY(ends_write_outs(line, node, schedule, error));
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
