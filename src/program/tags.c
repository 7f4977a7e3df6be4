/* tags.c - the allocation pass with use counts and a queue of free tags, reported step by step.
 *
 *     B = f(A)      B: a new tag
 *     C = f(B)      C: another, since B is still live: F reads it
 *     F = f(B)      F: a third; B's live range ends, its tag goes to the queue
 *     E = f(C)      E: takes B's tag from the queue; C's live range ends
 *     G = F + E     G: in place, over an input that is not read again
 *
 * A tag is memory without a fixed size: it grows to the largest tensor that gets it. Live ranges
 * that share a buffer (views, in-place) share its tag, which is free when the last of them has
 * ended. Graph inputs are the caller's memory and get no tag.
 *
 * Cost:   O((live ranges + operands) log n).
 * Source: MXNet, "Optimizing memory consumption in deep learning", 2015.
 */
#include "program/program.h"

#define TAGS_OUTSIDE UINT32_MAX

typedef struct tags_last { /* the last live range of a buffer; entries are sorted by its end */
    uint32_t last, buffer;
    tn_tensor_id tensor;
} tags_last;

typedef struct tags_state {
    const tn_program *program;
    const tn_graph *graph;
    const tn_problem *problem;
    const tn_life *ranges;
    uint32_t range_count, buffer_count;
    tn__lists uses; /* the steps that use each tensor */
    /* [tensors] number of the step, plus one, at which the tensor was last reported */
    uint32_t *reported;
    uint32_t *tag; /* [buffers] the buffer's tag; TAGS_OUTSIDE: the buffer is the caller's memory */
    uint8_t *has_tag; /* [buffers] 1: the buffer has a tag, TAGS_OUTSIDE included */
    /* [buffers] the last live range of each buffer, sorted by last step, then by buffer */
    tags_last *ends;
    uint64_t *size; /* [tags] bytes of the largest buffer that has had the tag */
    /* [buffers] free tags. The queue never wraps, because a buffer frees its tag only once */
    uint32_t *queue;
    uint32_t queue_first, queue_last, tag_count;
    bool (*event)(void *self, const tn_tag_event *event);
    void *self;
    tn_error *error;
} tags_state;

static tn_status tags_report(tags_state *state, tn_tag_event event) {
    event.bytes = event.tag == TAGS_OUTSIDE ? 0 : state->size[event.tag];
    if (event.tag == TAGS_OUTSIDE) event.tag = TN_NONE;
    if (state->event(state->self, &event)) return TN_OK;
    TN_FAIL(state->error, TN_E_STOPPED, "stopped at step %u by the caller", event.step);
}

static const tn_instruction *tags_list(const tags_state *state) {
    return tn_program_instructions(state->program);
}

/* Returns the form of the operator that runs at a step; its op is NULL if the step runs no
 * operator. */
static tn_op_form tags_form(const tags_state *state, uint32_t step) {
    const tn_instruction *it = &tags_list(state)[step];
    if (it->op == TN_NONE) return (tn_op_form){0};
    return tn_op_form_of(state->graph, it->op, it->again);
}

/* Returns the number of steps after this one that read the tensor. */
static uint32_t tags_left(const tags_state *state, tn_tensor_id tensor, uint32_t step) {
    return state->uses.first[tensor + 1] - tn__lists_after(&state->uses, tensor, step);
}

static tn_op_id tags_op(const tags_state *state, uint32_t step) {
    return tags_list(state)[step].op;
}

static tn_status tags_keep(tags_state *state, uint32_t step, tn_tensor_id tensor) {
    uint32_t left = tags_left(state, tensor, step);
    if (left == 0 || tn_tensor_is_static(tn_graph_tensor(state->graph, tensor))) return TN_OK;
    return tags_report(state, (tn_tag_event){.kind = TN_TAG_KEPT,
                                             .step = step,
                                             .op = tags_op(state, step),
                                             .tensor = tensor,
                                             .tag = TAGS_OUTSIDE,
                                             .other = TN_NONE,
                                             .uses = left});
}

/* Returns an input of the operator that is read again later, which is the reason that the output
 * needs a new tag; TN_NONE if there is no such input. */
static tn_tensor_id tags_reason(const tags_state *state, const tn_life *range) {
    if (range->op == TN_NONE) return TN_NONE;
    bool again = tags_list(state)[range->first].again;
    tn_op_form form = tn_op_form_of(state->graph, range->op, again);
    for (uint32_t i = 0; i < form.input_count; i++) {
        tn_tensor_id input = tn_op_form_input(&form, i);
        if (input != TN_NONE && tags_left(state, input, range->first) > 0 &&
            !tn_tensor_is_static(tn_graph_tensor(state->graph, input)))
            return input;
    }
    return TN_NONE;
}

/* Handles the begin of a live range. Its buffer has a tag already, gets a new one, or is the
 * caller's memory. */
static tn_status tags_begin(tags_state *state, const tn_life *range) {
    uint32_t buffer = range->body, step = range->first;
    const tn_opcode_facts *facts = tn_opcode_facts_of(tags_list(state)[step].opcode);
    uint64_t size = tn_problem_body(state->problem, buffer)->size;
    tn_tag_event event = {
        .step = step, .op = tags_op(state, step), .tensor = range->tensor, .other = range->source};
    if (state->has_tag[buffer]) {
        event.kind = range->share == TN_SHARE_INPLACE ? TN_TAG_INPLACE : TN_TAG_VIEW;
        /* an output of an If continues in the buffer of its live range in the other branch, which
         * is a live range of the same tensor */
        if (event.other == TN_NONE) event.other = range->tensor;
    } else if (facts->blocks == TN_BLOCKS_CALLER) {
        event.kind = TN_TAG_OUTSIDE;
        state->tag[buffer] = TAGS_OUTSIDE;
    } else if (state->queue_first < state->queue_last) {
        event.kind = TN_TAG_TAKEN;
        state->tag[buffer] = state->queue[state->queue_first++];
    } else {
        event.kind = TN_TAG_NEW;
        event.other = tags_reason(state, range);
        if (event.other != TN_NONE) event.uses = tags_left(state, event.other, step);
        state->tag[buffer] = state->tag_count++;
    }
    state->has_tag[buffer] = 1;
    event.tag = state->tag[buffer];
    if (event.tag != TAGS_OUTSIDE && size > state->size[event.tag]) state->size[event.tag] = size;
    return tags_report(state, event);
}

static tn_status tags_finish(tags_state *state, const tags_last *end) {
    uint32_t tag = state->tag[end->buffer];
    if (tag == TAGS_OUTSIDE) return TN_OK;
    state->queue[state->queue_last++] = tag;
    return tags_report(state, (tn_tag_event){.kind = TN_TAG_FREED,
                                             .step = end->last - 1,
                                             .op = tags_op(state, end->last - 1),
                                             .tensor = end->tensor,
                                             .tag = tag,
                                             .other = TN_NONE});
}

static int tags_end_order(const void *a, const void *b) {
    const tags_last *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static tn_status tags_walk(tags_state *state) {
    uint32_t steps = tn_program_count(state->program), range = 0, end = 0;
    for (uint32_t i = 0; i < state->buffer_count; i++) state->ends[i].buffer = i;
    for (uint32_t i = 0; i < state->range_count; i++) {
        tags_last *last = &state->ends[state->ranges[i].body];
        if (state->ranges[i].is_static || state->ranges[i].last < last->last) continue;
        last->last = state->ranges[i].last;
        last->tensor = state->ranges[i].tensor;
    }
    qsort(state->ends, state->buffer_count, sizeof *state->ends, tags_end_order);
    /* passes over static memory, which has no tag */
    while (end < state->buffer_count && state->ends[end].last == 0) end++;
    for (uint32_t step = 0; step < steps; step++) {
        for (; range < state->range_count && state->ranges[range].first == step; range++)
            if (!state->ranges[range].is_static) TN_TRY(tags_begin(state, &state->ranges[range]));
        tn_op_form form = tags_form(state, step);
        for (uint32_t i = 0; i < form.input_count; i++) {
            tn_tensor_id input = tn_op_form_input(&form, i);
            if (input == TN_NONE || state->reported[input] == step + 1) continue;
            /* an operator may read the tensor twice: the tensor is reported once */
            state->reported[input] = step + 1;
            TN_TRY(tags_keep(state, step, input));
        }
        for (; end < state->buffer_count && state->ends[end].last == step + 1; end++)
            TN_TRY(tags_finish(state, &state->ends[end]));
    }
    return TN_OK;
}

static tn_status tags_run(tags_state *state, tn__arena *arena) {
    size_t tensors = tn_graph_tensor_count(state->graph), buffers = state->buffer_count;
    state->reported = tn__arena_array(arena, tensors, sizeof *state->reported);
    TN_TRY(tn__program_uses(state->program, arena, &state->uses, state->error));
    state->tag = tn__arena_array(arena, buffers, sizeof *state->tag);
    state->has_tag = tn__arena_array(arena, buffers, sizeof *state->has_tag);
    state->ends = tn__arena_array(arena, buffers, sizeof *state->ends);
    state->size = tn__arena_array(arena, buffers, sizeof *state->size);
    state->queue = tn__arena_array(arena, buffers, sizeof *state->queue);
    if (!state->reported || !state->tag || !state->has_tag || !state->ends || !state->size ||
        !state->queue)
        return tn__no_memory(state->error, "tags");
    return tags_walk(state);
}

tn_status tn_occupancy_tags(const tn_occupancy *occupancy,
                            bool (*event)(void *self, const tn_tag_event *event), void *self,
                            tn_tag_summary *summary, tn_error *error) {
    const tn_program *program = tn_occupancy_program(occupancy);
    const tn_problem *problem = tn_occupancy_problem(occupancy);
    tags_state state = {.program = program,
                        .graph = tn_program_graph(program),
                        .problem = problem,
                        .ranges = tn_occupancy_lives(occupancy),
                        .range_count = tn_occupancy_life_count(occupancy),
                        .buffer_count = tn_problem_count(problem),
                        .event = event,
                        .self = self,
                        .error = error};
    tn__arena arena;
    tn__arena_init(&arena, &program->context);
    tn_status status = tags_run(&state, &arena);
    if (status == TN_OK && summary != NULL) {
        *summary = (tn_tag_summary){.tag_count = state.tag_count};
        for (uint32_t i = 0; i < state.tag_count; i++)
            summary->bytes = tn__add_sat(summary->bytes, state.size[i]);
    }
    tn__arena_release(&arena);
    return status;
}
