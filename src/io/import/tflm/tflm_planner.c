/* tflm_planner.c - reimplements the planner inside TensorFlow Lite Micro.
 *
 * Every tensor without constant data, and every scratch buffer, gets a live range in scopes: one
 * scope for the start of a subgraph, one for each operator. Both ends are included. The subgraphs
 * that an operator names in IF, WHILE and CALL_ONCE have scopes of their own within the operator's.
 * Inputs are live from the subgraph's start, outputs to its end. An unused tensor is live "before
 * the start" and takes memory there.
 *
 * Then buffers are placed. Those with an offset in the model's plan are placed there. Then the
 * others are placed, the largest first and the later one first among equals, each in the lowest gap
 * between buffers that are live at the same time. Sizes are rounded up to 16. This decides whether
 * a planned model runs in the arena that its plan promises. So it follows the run time's rules and
 * shares no code with our planners; tests compare it with the planner `tflm-greedy` and with a
 * third implementation in Python.
 *
 * Cost: O(operators + buffers^2), as in the run time; more than TFLM_PLANNED_MAX buffers are an
 * error.
 * Source: tflite-micro's micro_allocation_info.cc, greedy_memory_planner.cc.
 */
#include "io/import/tflm/tflm.h"

#define ONLINE_NEVER (-1)

typedef struct online_buffer {
    uint64_t bytes; /* size, rounded up to the alignment */
    int64_t first, last, offset;
    uint64_t tensor; /* number of the tensor in the file; larger numbers are scratch buffers */
    uint32_t index;  /* position in the order in which the run time adds buffers */
} online_buffer;

typedef struct online_life {
    int64_t first, last;
} online_life;

/* --- lives --------------------------------------------------------------------------------------
 */

typedef struct online_frame {
    uint32_t subgraph;
    uint64_t op, op_end;
    uint32_t calls[2];
    /* number of subgraphs that the current operator runs, and index of the next one */
    uint32_t call_count, call;
    bool is_inside; /* true: the current operator has begun */
    int64_t start;  /* scope in which the operator began */
} online_frame;

typedef struct online_walk {
    tflm_model *model;
    online_life *lives; /* [tensors + scratch] live range of each */
    int64_t scope;
    online_frame frames[TFLITE_DEPTH_MAX + 2];
    uint32_t depth;
} online_walk;

static void online_create(online_walk *walk, uint32_t subgraph, const tn__flat_vector *list) {
    const tflite_plan *plan = walk->model->plan;
    for (uint32_t i = 0; i < list->count; i++) {
        int32_t tensor = tn__flat_int32(list, i);
        if (tensor < 0) continue;
        online_life *life = &walk->lives[plan->first[subgraph] + (uint32_t)tensor];
        life->first = life->last = walk->scope;
    }
}

static void online_use(online_walk *walk, uint32_t subgraph, const tn__flat_vector *list) {
    const tflite_plan *plan = walk->model->plan;
    for (uint32_t i = 0; i < list->count; i++) {
        int32_t tensor = tn__flat_int32(list, i);
        if (tensor >= 0) walk->lives[plan->first[subgraph] + (uint32_t)tensor].last = walk->scope;
    }
}

static void online_enter(online_walk *walk, uint32_t subgraph) {
    const tflm_model *model = walk->model;
    tn__flat_table graph = tn__flat_item(&model->plan->subgraphs, subgraph);
    tn__flat_vector inputs = tn__flat_list(&graph, TFLITE_GRAPH_INPUTS);
    tn__flat_vector outputs = tn__flat_list(&graph, TFLITE_GRAPH_OUTPUTS);
    online_create(walk, subgraph, &inputs);
    online_create(walk, subgraph, &outputs);
    walk->frames[walk->depth++] = (online_frame){.subgraph = subgraph,
                                                 .op = model->first_op[subgraph],
                                                 .op_end = model->first_op[subgraph + 1]};
}

/* The subgraphs that the run time enters for an operator, in the order in which it enters them. */
static uint32_t online_calls(const tflm_model *model, const tflm_op *op, uint32_t calls[2]) {
    const char *type = op->code->type;
    uint32_t count = strcmp(type, "IF") == 0 || strcmp(type, "WHILE") == 0 ? 2
                     : strcmp(type, "CALL_ONCE") == 0                      ? 1
                                                                           : 0;
    tn__flat_table options = tn__flat_child(&op->table, TFLITE_OP_OPTIONS);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t subgraph = options.bytes ? tn__flat_uint(&options, i, 4, 0) : 0;
        if (subgraph >= model->plan->subgraphs.count) return 0;
        calls[i] = (uint32_t)subgraph;
    }
    return count;
}

static void online_leave_op(online_walk *walk, online_frame *frame) {
    const tflm_op *op = &walk->model->ops[frame->op];
    uint64_t tensors = walk->model->plan->first[walk->model->plan->subgraphs.count];
    online_use(walk, frame->subgraph, &op->inputs);
    online_use(walk, frame->subgraph, &op->outputs);
    for (uint32_t i = 0; i < op->scratch_count; i++)
        walk->lives[tensors + op->first_scratch + i] = (online_life){frame->start, walk->scope};
    frame->is_inside = false;
    frame->op++;
}

/* Takes one step of the walk: into an operator, into one of its subgraphs, or out of either. The
 * subgraphs of an imported model do not call themselves, and the importer has limited their
 * number. */
static void online_step(online_walk *walk) {
    online_frame *frame = &walk->frames[walk->depth - 1];
    if (frame->op == frame->op_end) {
        tn__flat_table graph = tn__flat_item(&walk->model->plan->subgraphs, frame->subgraph);
        tn__flat_vector outputs = tn__flat_list(&graph, TFLITE_GRAPH_OUTPUTS);
        online_use(walk, frame->subgraph, &outputs);
        walk->depth--;
        return;
    }
    const tflm_op *op = &walk->model->ops[frame->op];
    if (!frame->is_inside) {
        walk->scope++;
        online_create(walk, frame->subgraph, &op->outputs);
        frame->is_inside = true;
        frame->start = walk->scope;
        frame->call = 0;
        frame->call_count = online_calls(walk->model, op, frame->calls);
    }
    if (frame->call < frame->call_count && walk->depth <= TFLITE_DEPTH_MAX) {
        walk->scope++;
        online_enter(walk, frame->calls[frame->call++]);
        return;
    }
    online_leave_op(walk, frame);
}

/* --- places --------------------------------------------------------------------------------------
 */

static int online_largest_first(const void *a, const void *b) {
    const online_buffer *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->index > y->index ? -1 : x->index < y->index;
}

/* Finds the lowest gap between the placed buffers that are live at the same time. `placed` is
 * sorted by offset; equal offsets are in the order of placement. */
static int64_t online_gap(const online_buffer *const *placed, size_t count,
                          const online_buffer *wanted) {
    int64_t candidate = 0;
    for (size_t i = 0; i < count; i++) {
        const online_buffer *other = placed[i];
        if (other->first > wanted->last || wanted->first > other->last) continue;
        if (other->offset - candidate >= (int64_t)wanted->bytes) break;
        int64_t end = other->offset + (int64_t)other->bytes;
        if (end > candidate) candidate = end;
    }
    return candidate;
}

static void online_insert(const online_buffer **placed, size_t count, const online_buffer *buffer) {
    size_t at = count;
    while (at > 0 && placed[at - 1]->offset > buffer->offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = buffer;
}

static tn_status online_place(tflm_model *model, online_buffer *buffers, size_t count,
                              uint64_t *head) {
    const online_buffer **placed = tn__arena_array(&model->arena, count + 1, sizeof *placed);
    if (!placed) return tn__no_memory(model->error, "the arena");
    size_t fixed = 0;
    for (size_t i = 0; i < count; i++) { /* buffers with given offsets come first, in their order */
        if (buffers[i].offset < 0) continue;
        online_buffer swap = buffers[fixed];
        buffers[fixed] = buffers[i];
        buffers[i] = swap;
        fixed++;
    }
    qsort(buffers + fixed, count - fixed, sizeof *buffers, online_largest_first);
    *head = 0;
    for (size_t i = 0; i < count; i++) {
        if (i >= fixed) buffers[i].offset = online_gap(placed, i, &buffers[i]);
        uint64_t end = (uint64_t)buffers[i].offset + buffers[i].bytes;
        if (end > INT64_MAX)
            TN_FAIL(model->error, TN_E_UNSUPPORTED, "an arena of more than 2^63 bytes");
        if (end > *head) *head = end;
        online_insert(placed, i, &buffers[i]);
    }
    return TN_OK;
}

/* --- both --- */

/* Whether the planner places a tensor. It does not place constants, nor the handle of a resource
 * variable, which points into the data of its operator, nor a variable tensor without a given
 * offset. */
static bool online_needs(const tflm_tensor *tensor, int64_t offset) {
    if (tensor->handle_of != 0) return false;
    return !tensor->is_constant && tensor->bytes != 0 && (!tensor->is_variable || offset >= 0);
}

static tn_status online_buffers(tflm_model *model, const online_life *lives, const int64_t *offsets,
                                online_buffer **buffers, size_t *count) {
    uint64_t tensors = model->plan->first[model->plan->subgraphs.count];
    *count = model->scratch_count;
    for (uint64_t t = 0; t < tensors; t++) *count += online_needs(&model->tensors[t], offsets[t]);
    if (*count > TFLM_PLANNED_MAX)
        TN_FAIL(model->error, TN_E_UNSUPPORTED,
                "%zu buffers; the run time of microcontrollers is predicted for up to %u", *count,
                TFLM_PLANNED_MAX);
    online_buffer *to = tn__arena_array(&model->arena, *count + 1, sizeof *to);
    if (!to) return tn__no_memory(model->error, "the arena");
    *buffers = to;
    uint32_t index = 0;
    for (uint64_t t = 0; t < tensors + model->scratch_count; t++) {
        bool is_scratch = t >= tensors;
        if (!is_scratch && !online_needs(&model->tensors[t], offsets[t])) continue;
        uint64_t bytes = is_scratch ? model->scratch[t - tensors] : model->tensors[t].bytes;
        if (!tn__align_up(bytes, TFLM_ALIGNMENT, &bytes) || bytes > INT64_MAX / 2)
            TN_FAIL(model->error, TN_E_UNSUPPORTED, "a buffer of more than 2^62 bytes");
        *to++ = (online_buffer){.bytes = bytes,
                                .first = lives[t].first,
                                .last = lives[t].last,
                                .offset = is_scratch ? -1 : offsets[t],
                                .tensor = t,
                                .index = index++};
    }
    return TN_OK;
}

tn_status tn__tflm_online(tflm_model *model, int64_t *offsets, uint64_t *head, uint64_t *planned) {
    uint64_t tensors = model->plan->first[model->plan->subgraphs.count];
    online_walk walk = {.model = model};
    online_buffer *buffers = NULL;
    size_t count = 0, all = (size_t)tensors + model->scratch_count;
    walk.lives = tn__arena_array(&model->arena, all + 1, sizeof *walk.lives);
    if (!walk.lives) return tn__no_memory(model->error, "the arena");
    for (size_t i = 0; i < all; i++) walk.lives[i] = (online_life){ONLINE_NEVER, ONLINE_NEVER};
    online_enter(&walk, 0);
    while (walk.depth) online_step(&walk);
    TN_TRY(online_buffers(model, walk.lives, offsets, &buffers, &count));
    TN_TRY(online_place(model, buffers, count, head));
    for (size_t i = 0; i < count; i++)
        if (buffers[i].tensor < tensors) offsets[buffers[i].tensor] = buffers[i].offset;
    *planned = count;
    return TN_OK;
}
