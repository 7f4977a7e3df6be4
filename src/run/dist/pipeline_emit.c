/* pipeline_emit.c - makes the program of one stage of a pipeline.
 *
 *     stream 0   F0 ─────▶ F1 ──────────▶ B0 ...
 *     to next     └▶ SEND ─────▶ SEND
 *     from next          RECV ──────────┘
 *
 * There is a stream for each neighbour, direction and way (forward, backward), because a call lasts
 * until the other end is ready. The tensors that a pass needs from other stages are received during
 * the previous pass, not earlier, to save memory. Two passes after a SEND the stage waits for it,
 * and its memory is free. A tensor that all ranks of a stage have in common is sent in parts: each
 * rank sends one to the rank with the same part of the model. The receivers gather it when it is
 * first read. So it crosses the link between stages once.
 * Source of that: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters
 * Using Megatron-LM" (2021), section 4.1, scatter/gather.
 * Cost: O(instructions + operands).
 */
#include "run/dist/pipeline.h"

typedef struct emit_lane { /* a stream */
    uint32_t peer;
    bool takes, back;
    uint32_t over; /* signal of a SEND to wait for now; 0: none */
} emit_lane;

typedef struct emit_sent {
    uint32_t lane, pass, signal;
    tn_tensor_id of; /* the static tensor of which it is a view; TN_NONE */
} emit_sent;

typedef struct emit_state {
    tn__pipe *pipe;
    uint32_t stage, pass;
    tn_instruction *to;
    uint32_t made, signal;
    uint32_t last; /* the last operator so far; TN_NONE: none */
    emit_lane lanes[TN_STREAM_MAX];
    uint32_t lane_count;
    uint32_t *given;  /* [tensors] the signal of its RECV; 0: not received, or already waited for */
    uint8_t *there;   /* [tensors] inputs of the graph that were PUT */
    uint8_t *fetched; /* [tensors] outputs of the graph */
    /* [take_count] messages to this stage, by `need`, then in the order of sending */
    uint32_t *takes;
    uint32_t take_count, taken;
    emit_sent *sent; /* [sent_count] SENDs to wait for; the first `over` are done */
    uint32_t sent_count, over;
} emit_state;

static tn_instruction *emit_add(emit_state *it, tn_opcode opcode, tn_tensor_id tensor) {
    tn_instruction *made = &it->to[it->made++];
    *made = (tn_instruction)TN_INSTRUCTION_INIT;
    made->opcode = opcode;
    made->tensor = tensor;
    return made;
}

static uint32_t emit_rank(const emit_state *it, uint32_t stage) {
    return it->pipe->ranks != NULL ? it->pipe->ranks[stage] : stage;
}

static tn_status emit_find_lane(emit_state *it, uint32_t peer, bool takes, bool back,
                                uint32_t *lane) {
    for (uint32_t i = 0; i < it->lane_count; i++) {
        const emit_lane *one = &it->lanes[i];
        *lane = i;
        if (one->peer == peer && one->takes == takes && one->back == back) return TN_OK;
    }
    *lane = it->lane_count++;
    if (*lane + 2 >= TN_STREAM_MAX)
        TN_FAIL(it->pipe->error, TN_E_UNSUPPORTED,
                "stage %u talks to more others than there are streams for", it->stage);
    it->lanes[*lane] = (emit_lane){.peer = peer, .takes = takes, .back = back};
    return TN_OK;
}

static uint32_t emit_signal_of(emit_state *it, uint32_t step) {
    if (it->to[step].signal == 0) it->to[step].signal = ++it->signal;
    return it->to[step].signal;
}

/* The static tensor of which this is a view, such as a rank's part of a parameter; or the gathered
 * whole of a shard. */
static tn_tensor_id emit_static_of(const tn__pipe *pipe, tn_tensor_id id) {
    const tn_graph *graph = pipe->graph;
    while (id != TN_NONE && !tn_tensor_is_static(tn_graph_tensor(graph, id))) {
        tn_op_id from = tn_graph_tensor(graph, id)->producer;
        tn_tensor_id source = TN_NONE;
        for (uint32_t k = 0; from != TN_NONE && k < tn_graph_op(graph, from)->output_count; k++)
            if (tn_graph_op(graph, from)->outputs[k] == id)
                source = tn_op_view(graph, from, k).source;
        if (source == TN_NONE && from != TN_NONE && tn__pipe_is_shard(&pipe->homes[from]))
            return id;
        id = source;
    }
    return id;
}

static void emit_wait(emit_state *it, uint32_t signal) {
    if (signal != 0) emit_add(it, TN_WAIT, TN_NONE)->wait = signal;
}

/* --- messages --- */

static void emit_part(const emit_state *it, tn_instruction *made) {
    if (!tn__pipe_in_parts(it->pipe, made->tensor)) return;
    made->part = it->pipe->part;
    made->parts = it->pipe->tensor;
}

static tn_status emit_take(emit_state *it, const tn__message *one) {
    uint32_t lane;
    TN_TRY(emit_find_lane(it, one->from, true, one->back, &lane));
    uint32_t wait = it->last != TN_NONE ? emit_signal_of(it, it->last) : 0;
    tn_instruction *made = emit_add(it, TN_RECV, one->tensor);
    made->stream = lane + 1;
    made->peer = emit_rank(it, one->from);
    made->tag = one->tensor;
    emit_part(it, made);
    made->wait = wait;
    made->signal = it->given[one->tensor] = ++it->signal;
    return TN_OK;
}

static tn_status emit_send(emit_state *it, tn_tensor_id tensor, uint32_t step) {
    const tn__pipe *pipe = it->pipe;
    uint32_t lane, m = pipe->first_of[tensor];
    for (; m < pipe->message_count && pipe->list[m].tensor == tensor; m++) {
        const tn__message *one = &pipe->list[m];
        if (one->from != it->stage) return TN_OK; /* another stage has it too, and sends it */
        TN_TRY(emit_find_lane(it, one->to, false, one->back, &lane));
        uint32_t wait = emit_signal_of(it, step);
        tn_instruction *made = emit_add(it, TN_SEND, tensor);
        made->stream = lane + 1;
        made->peer = emit_rank(it, one->to);
        made->tag = tensor;
        emit_part(it, made);
        made->wait = wait;
        made->signal = ++it->signal;
        /* its reader may be the very last operator */
        bool last = one->need == pipe->pass_count - 1;
        if (last) continue;
        it->sent[it->sent_count++] =
            (emit_sent){lane, it->pass, made->signal, emit_static_of(pipe, tensor)};
    }
    return TN_OK;
}

/* Before a pass: first receives the tensors of the next pass, then waits for SENDs of some passes
 * ago. The order matters: instructions after a WAIT do not start, and the other end may be unable
 * to send before this stage has received. */
static tn_status emit_begin(emit_state *it) {
    const tn__pipe *pipe = it->pipe;
    for (; it->over < it->sent_count; it->over++) {
        const emit_sent *one = &it->sent[it->over];
        if (one->pass + pipe->slack > it->pass) break;
        it->lanes[one->lane].over = one->signal;
    }
    for (; it->taken < it->take_count; it->taken++) {
        const tn__message *one = &pipe->list[it->takes[it->taken]];
        if (one->need > it->pass + 1) break;
        TN_TRY(emit_take(it, one));
    }
    for (uint32_t i = 0; i < it->lane_count; i++) {
        emit_wait(it, it->lanes[i].over);
        it->lanes[i].over = 0;
    }
    return TN_OK;
}

/* --- operators --- */

/* Waits for a tensor from another stage; gathers the parts that arrived at the other ranks of this
 * stage. */
static void emit_there(emit_state *it, tn_tensor_id id) {
    if (it->given[id] == 0) return;
    emit_wait(it, it->given[id]);
    it->given[id] = 0;
    if (tn__pipe_in_parts(it->pipe, id)) emit_add(it, TN_GATHER, id)->group = it->pipe->group;
}

/* Also issues a PUT for each input of the graph that is read for the first time. */
static void emit_inputs(emit_state *it, const tn_op *op) {
    const tn_graph *graph = it->pipe->graph;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id id = op->inputs[i];
        if (id == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        emit_there(it, id);
        if (tensor->producer != TN_NONE || it->there[id] || tn_tensor_is_static(tensor)) continue;
        it->there[id] = 1;
        (void)emit_add(it, TN_PUT, id);
    }
}

/* A tensor that the operator changes may still be being sent, for example by an update right after
 * the pass: waits for those SENDs. */
static void emit_changes(emit_state *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->pipe->graph, id);
    uint64_t changes = tn_op_changes(it->pipe->graph, id);
    for (uint32_t i = 0; i < op->input_count && i < 64 && changes >> i != 0; i++)
        for (uint32_t k = it->over; k < it->sent_count && (changes >> i & 1) != 0; k++) {
            emit_sent *one = &it->sent[k];
            if (one->of == TN_NONE || one->of != op->inputs[i]) continue;
            emit_wait(it, one->signal);
            one->of = TN_NONE;
        }
}

/* Does the operator do nothing, because its results are views of static tensors? Parameters in a
 * shard are such views; programs for ranks that divide the shard make them elsewhere. */
static bool emit_is_given(const tn__pipe *pipe, const tn_op *op) {
    bool given = op->output_count > 0;
    for (uint32_t k = 0; k < op->output_count && given; k++)
        given = op->outputs[k] != TN_NONE && emit_static_of(pipe, op->outputs[k]) != TN_NONE;
    return given;
}

static tn_status emit_op(emit_state *it, const tn_instruction *from) {
    const tn__pipe *pipe = it->pipe;
    const tn_op *op = tn_graph_op(pipe->graph, from->op);
    emit_inputs(it, op);
    emit_changes(it, from->op);
    uint32_t step = it->made;
    it->to[it->made++] = *from;
    if (!emit_is_given(pipe, op)) it->last = step;
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id id = op->outputs[k];
        if (id == TN_NONE) continue;
        bool first = tn__pipe_sender(pipe, from->op) == it->stage;
        if (it->fetched[id] && first) (void)emit_add(it, TN_GET, id);
        if (pipe->first_of[id] != TN_NONE) TN_TRY(emit_send(it, id, step));
    }
    return TN_OK;
}

static tn_status emit_all(emit_state *it) {
    const tn__pipe *pipe = it->pipe;
    const tn_instruction *list = tn_program_instructions(pipe->program);
    const tn__pipe_op *ops = pipe->ops[it->stage];
    uint32_t at = 0;
    for (it->pass = 0; it->pass < pipe->pass_count; it->pass++) {
        TN_TRY(emit_begin(it));
        for (; at < pipe->op_count[it->stage] && ops[at].pass == it->pass; at++)
            TN_TRY(emit_op(it, &list[ops[at].step]));
    }
    return TN_OK;
}

/* --- the whole --- */

static int emit_order(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sorts the messages to this stage by the pass that needs them. */
static tn_status emit_takes(emit_state *it, tn__arena *arena) {
    const tn__pipe *pipe = it->pipe;
    uint64_t *keys = tn__arena_array(arena, (size_t)pipe->message_count + 1, sizeof *keys);
    it->takes = tn__arena_array(arena, (size_t)pipe->message_count + 1, sizeof *it->takes);
    if (keys == NULL || it->takes == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t m = 0; m < pipe->message_count; m++)
        if (pipe->list[m].to == it->stage)
            keys[it->take_count++] = (uint64_t)pipe->list[m].need << 32 | m;
    if (it->take_count > 0) qsort(keys, it->take_count, sizeof *keys, emit_order);
    for (uint32_t i = 0; i < it->take_count; i++) it->takes[i] = (uint32_t)keys[i];
    return TN_OK;
}

static tn_status emit_room(emit_state *it, tn__arena *arena) {
    const tn__pipe *pipe = it->pipe;
    const tn_block *block = tn_graph_block(pipe->graph, 0);
    uint32_t tensors = tn_graph_tensor_count(pipe->graph);
    size_t lanes = pipe->count < 16 ? 4 * (size_t)pipe->count : TN_STREAM_MAX;
    size_t room = pipe->op_count[it->stage] + 3 * (size_t)pipe->message_count + block->input_count +
                  block->output_count + lanes * pipe->pass_count + 1;
    it->to = tn__arena_array(arena, room, sizeof *it->to);
    it->given = tn__arena_array(arena, tensors, sizeof *it->given);
    it->there = tn__arena_array(arena, tensors, 1);
    it->fetched = tn__arena_array(arena, tensors, 1);
    it->sent = tn__arena_array(arena, (size_t)pipe->message_count + 1, sizeof *it->sent);
    if (!it->sent || !it->to || !it->given || !it->there || !it->fetched)
        return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t s = 0; s < tn_program_count(pipe->program); s++) {
        const tn_instruction *from = &tn_program_instructions(pipe->program)[s];
        if (from->opcode == TN_GET) it->fetched[from->tensor] = 1;
    }
    return emit_takes(it, arena);
}

tn_status tn__pipe_emit(tn__pipe *pipe, uint32_t stage, tn_program **made) {
    emit_state it = {.pipe = pipe, .stage = stage, .last = TN_NONE};
    tn__arena arena;
    tn__arena_init(&arena, tn_graph_context(pipe->graph));
    tn_status status = emit_room(&it, &arena);
    if (status == TN_OK) status = emit_all(&it);
    if (status == TN_OK)
        status = tn_program_from(pipe->graph, it.to, it.made, NULL, 0, made, pipe->error);
    tn__arena_release(&arena);
    return status;
}
