/* pipeline.c - makes the programs of a pipeline: which operators each stage runs, in which pass,
 * and which tensors it receives from other stages.
 *
 *     stage 0   F0 F1 B0 F2 B1 .. U        F, B: forward and backward pass of a micro-batch
 *     stage 1      F0 B0 F1 B1 .. U        U: updates
 *
 * All stages share one graph, which contains all micro-batches; each stage runs some of its
 * operators. The homes (tenure/dist.h) of an operator's results state where it belongs. An operator
 * that a rewrite made has no home; it belongs to the first stage that reads its results. A tensor
 * that one stage computes and another reads is sent once to each stage that reads it, and kept
 * there. So tensors that skip stages, or go from a later stage to an earlier one, need no special
 * case.
 *
 * Cost: O(stages x operands + messages).
 */
#include <tenure/dist.h>
#include <tenure/train.h>

#include "program/pipeline_passes.h"
#include "graph/op.h"
#include "program/program.h"

typedef struct pipeline_message { /* A tensor that one stage sends to another. */
    uint32_t from, to;
    tn_tensor_id tensor;
    uint32_t need; /* the pass of stage `to` before which the message must have been received */
    bool back;     /* whether the tensor is sent in a backward pass */
} pipeline_message;

typedef struct pipeline_op { /* An operator of one stage, in the order of that stage. */
    /* `pass`: number of the pass (forward or backward of a micro-batch) in which the operator runs;
     * `step`: its index in the program of all stages */
    uint32_t pass, step;
} pipeline_op;

typedef struct pipeline {
    const tn_program *program;
    const tn_graph *graph;
    const tn_stages *stages;
    const uint32_t *ranks; /* [count] */
    tn__passes passes;
    uint32_t count;  /* stages */
    uint32_t tensor; /* number of tensor-parallel ranks of each stage; 1: stages are not divided */
    uint32_t part;   /* number of this rank among the tensor-parallel ranks of its stage */
    uint32_t group;  /* group of the ranks of the current stage */
    /* whether each rank sends the whole of a tensor that all ranks of its stage have, instead of a
     * section */
    bool whole_sends;
    const tn_rules *rules; /* rules of the user about tensors that ranks of a stage gather */
    uint32_t slack;        /* number of passes after which a stage waits for the end of a SEND */
    uint32_t pass_count;   /* passes per stage, including one for the updates */
    tn_home *homes;        /* [operators] */
    uint64_t *on;          /* for each operator, bit s: stage s runs it */
    pipeline_op **ops;     /* [count] */
    uint32_t *op_count;    /* [count] */
    /* array of message_count messages, sorted by sender, then in the order of sending */
    pipeline_message *list;
    uint32_t message_count;
    uint32_t *first_of; /* for each tensor: index of its first message; TN_NONE: it is not sent */
    tn__arena arena;
    tn_error *error;
} pipeline;

/* Whether an operator makes parameters out of a shard. Such an operator runs on every stage that
 * reads the parameters, before all passes. */
static bool pipeline_is_shard(const tn_home *home) {
    return home->way == TN_WAY_FORWARD && home->of != TN_NONE;
}
/* Returns the stage that sends an operator's results to stages that do not run the operator. */
static uint32_t pipeline_sender(const pipeline *pipe, tn_op_id id);
/* Whether each rank of a stage sends only a part of this tensor, which all ranks of the stage have
 * in common. The receiving ranks then gather the parts. */
static bool pipeline_in_parts(const pipeline *pipe, tn_tensor_id id);
static tn_status pipeline_emit(pipeline *pipe, uint32_t stage, tn_program **made);

/* --- the program of one stage ----------------------------------------------------------------- */

/* Makes the program of one stage of a pipeline.
 *
 *     stream 0   F0 ─────▶ F1 ──────────▶ B0 ...
 *     to next     └▶ SEND ─────▶ SEND
 *     from next          RECV ──────────┘
 *
 * There is a stream for each combination of neighbour stage, sending or receiving, and forward or
 * backward pass, because a SEND or RECV lasts until the other stage is ready. The tensors that a
 * pass needs from other stages are received during the pass before it, not earlier, to save memory.
 * `slack` passes after a SEND the stage waits for it, so that the tensor's memory can be released.
 * A tensor that all ranks of a stage have in common is sent in parts: each rank sends a part to the
 * rank with its number on the other stage, and the receiving ranks gather the parts when the tensor
 * is first read. So it is sent over the link between the stages once (Narayanan et al., "Efficient
 * Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (2021), section 4.1,
 * scatter/gather).
 * Cost: O(instructions + operands).
 */

typedef struct emit_lane { /* a stream for messages to or from one stage */
    uint32_t peer;
    bool takes, back;
    uint32_t over; /* signal of a SEND for which a wait is due now; 0: none is due */
} emit_lane;

typedef struct emit_sent {
    uint32_t lane, pass, signal;
    tn_tensor_id of; /* the static tensor of which the sent tensor is a view; TN_NONE: none */
} emit_sent;

typedef struct stage_writer {
    pipeline *pipe;
    uint32_t stage, pass;
    tn_instruction *to;
    uint32_t made, signal;
    /* index of the last operator that was written so far; TN_NONE: no operator was written */
    uint32_t last;
    emit_lane lanes[TN_STREAM_MAX];
    uint32_t lane_count;
    /* for each tensor: the signal of its RECV; 0: not received, or already waited for */
    uint32_t *given;
    uint8_t *there;   /* for each input of the graph: whether its PUT was issued */
    uint8_t *fetched; /* for each tensor: whether it is an output of the graph */
    /* messages to this stage (take_count indices), sorted by `need`, then in the order of
     * sending */
    uint32_t *takes;
    uint32_t take_count, taken;
    emit_sent *sent; /* array of sent_count SENDs; the first `over` have been waited for */
    uint32_t sent_count, over;
} stage_writer;

static tn_instruction *emit_add(stage_writer *it, tn_opcode opcode, tn_tensor_id tensor) {
    tn_instruction *made = &it->to[it->made++];
    *made = (tn_instruction)TN_INSTRUCTION_INIT;
    made->opcode = opcode;
    made->tensor = tensor;
    return made;
}

static uint32_t emit_rank(const stage_writer *it, uint32_t stage) {
    return it->pipe->ranks != NULL ? it->pipe->ranks[stage] : stage;
}

static tn_status emit_find_lane(stage_writer *it, uint32_t peer, bool takes, bool back,
                                uint32_t *lane) {
    for (uint32_t i = 0; i < it->lane_count; i++) {
        const emit_lane *one = &it->lanes[i];
        *lane = i;
        if (one->peer == peer && one->takes == takes && one->back == back) return TN_OK;
    }
    *lane = it->lane_count++;
    if (*lane + 2 >= TN_STREAM_MAX)
        TN_FAIL(it->pipe->error, TN_E_UNSUPPORTED,
                "stage %u communicates with more stages than there are streams for", it->stage);
    it->lanes[*lane] = (emit_lane){.peer = peer, .takes = takes, .back = back};
    return TN_OK;
}

static uint32_t emit_signal_of(stage_writer *it, uint32_t step) {
    if (it->to[step].signal == 0) it->to[step].signal = ++it->signal;
    return it->to[step].signal;
}

/* Returns the static tensor of which this tensor is a view (for example a rank's part of a
 * parameter), or the gathered tensor of a shard. Returns TN_NONE for other tensors. */
static tn_tensor_id emit_static_of(const pipeline *pipe, tn_tensor_id id) {
    const tn_graph *graph = pipe->graph;
    while (id != TN_NONE && !tn_tensor_is_static(tn_graph_tensor(graph, id))) {
        tn_op_id from = tn_graph_tensor(graph, id)->producer;
        tn_tensor_id source = TN_NONE;
        for (uint32_t k = 0; from != TN_NONE && k < tn_graph_op(graph, from)->output_count; k++)
            if (tn_graph_op(graph, from)->outputs[k] == id)
                source = tn_op_view(graph, from, k).source;
        if (source == TN_NONE && from != TN_NONE && pipeline_is_shard(&pipe->homes[from]))
            return id;
        id = source;
    }
    return id;
}

static void emit_wait(stage_writer *it, uint32_t signal) {
    if (signal != 0) emit_add(it, TN_WAIT, TN_NONE)->wait = signal;
}

/* --- messages --- */

static void emit_part(const stage_writer *it, tn_instruction *made) {
    if (!pipeline_in_parts(it->pipe, made->tensor)) return;
    made->part = it->pipe->part;
    made->parts = it->pipe->tensor;
}

static tn_status emit_take(stage_writer *it, const pipeline_message *one) {
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

static tn_status emit_send(stage_writer *it, tn_tensor_id tensor, uint32_t step) {
    const pipeline *pipe = it->pipe;
    uint32_t lane, m = pipe->first_of[tensor];
    for (; m < pipe->message_count && pipe->list[m].tensor == tensor; m++) {
        const pipeline_message *one = &pipe->list[m];
        /* another stage computes the tensor as well, and that stage sends it */
        if (one->from != it->stage) return TN_OK;
        TN_TRY(emit_find_lane(it, one->to, false, one->back, &lane));
        uint32_t wait = emit_signal_of(it, step);
        tn_instruction *made = emit_add(it, TN_SEND, tensor);
        made->stream = lane + 1;
        made->peer = emit_rank(it, one->to);
        made->tag = tensor;
        emit_part(it, made);
        made->wait = wait;
        made->signal = ++it->signal;
        /* no wait is added, because the operator that reads the tensor may be the last one of its
         * stage */
        bool last = one->need == pipe->pass_count - 1;
        if (last) continue;
        it->sent[it->sent_count++] =
            (emit_sent){lane, it->pass, made->signal, emit_static_of(pipe, tensor)};
    }
    return TN_OK;
}

/* Called before a pass. Issues the RECVs for the next pass, and then waits for SENDs that are
 * `slack` passes old. The order matters: instructions after a WAIT do not start until the SEND has
 * ended, and the other stage may be unable to receive before it has sent what this stage
 * receives. */
static tn_status emit_begin(stage_writer *it) {
    const pipeline *pipe = it->pipe;
    for (; it->over < it->sent_count; it->over++) {
        const emit_sent *one = &it->sent[it->over];
        if (one->pass + pipe->slack > it->pass) break;
        it->lanes[one->lane].over = one->signal;
    }
    for (; it->taken < it->take_count; it->taken++) {
        const pipeline_message *one = &pipe->list[it->takes[it->taken]];
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

/* Waits for a tensor from another stage. If each rank of this stage has received a section of it,
 * adds a GATHER of the sections. */
static void emit_there(stage_writer *it, tn_tensor_id id) {
    if (it->given[id] == 0) return;
    emit_wait(it, it->given[id]);
    it->given[id] = 0;
    if (pipeline_in_parts(it->pipe, id)) emit_add(it, TN_GATHER, id)->group = it->pipe->group;
}

/* Prepares the inputs of an operator: waits for those from other stages, and issues a PUT for each
 * input of the graph that is read for the first time. */
static void emit_inputs(stage_writer *it, const tn_op *op) {
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

/* Waits for SENDs of tensors that the operator changes, for example an update directly after the
 * pass that sent a view of a parameter. */
static void emit_changes(stage_writer *it, tn_op_id id) {
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

/* Whether an operator computes nothing, because its results are views of static tensors or of a
 * shard. Programs for ranks that divide the shard create these views elsewhere. */
static bool emit_is_given(const pipeline *pipe, const tn_op *op) {
    bool given = op->output_count > 0;
    for (uint32_t k = 0; k < op->output_count && given; k++)
        given = op->outputs[k] != TN_NONE && emit_static_of(pipe, op->outputs[k]) != TN_NONE;
    return given;
}

static tn_status emit_op(stage_writer *it, const tn_instruction *from) {
    const pipeline *pipe = it->pipe;
    const tn_op *op = tn_graph_op(pipe->graph, from->op);
    emit_inputs(it, op);
    emit_changes(it, from->op);
    uint32_t step = it->made;
    it->to[it->made++] = *from;
    if (!emit_is_given(pipe, op)) it->last = step;
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id id = op->outputs[k];
        if (id == TN_NONE) continue;
        bool first = pipeline_sender(pipe, from->op) == it->stage;
        if (it->fetched[id] && first) (void)emit_add(it, TN_GET, id);
        if (pipe->first_of[id] != TN_NONE) TN_TRY(emit_send(it, id, step));
    }
    return TN_OK;
}

static tn_status emit_all(stage_writer *it) {
    const pipeline *pipe = it->pipe;
    const tn_instruction *list = tn_program_instructions(pipe->program);
    const pipeline_op *ops = pipe->ops[it->stage];
    uint32_t at = 0;
    for (it->pass = 0; it->pass < pipe->pass_count; it->pass++) {
        TN_TRY(emit_begin(it));
        for (; at < pipe->op_count[it->stage] && ops[at].pass == it->pass; at++)
            TN_TRY(emit_op(it, &list[ops[at].step]));
    }
    return TN_OK;
}

/* --- one stage as a whole --- */

static int emit_order(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sorts the messages to this stage by the pass that needs them. */
static tn_status emit_takes(stage_writer *it, tn__arena *arena) {
    const pipeline *pipe = it->pipe;
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

static tn_status emit_room(stage_writer *it, tn__arena *arena) {
    const pipeline *pipe = it->pipe;
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

static tn_status pipeline_emit(pipeline *pipe, uint32_t stage, tn_program **made) {
    stage_writer it = {.pipe = pipe, .stage = stage, .last = TN_NONE};
    tn__arena arena;
    tn__arena_init(&arena, tn_graph_context(pipe->graph));
    tn_status status = emit_room(&it, &arena);
    if (status == TN_OK) status = emit_all(&it);
    if (status == TN_OK)
        status = tn_program_from(pipe->graph, it.to, it.made, NULL, 0, made, pipe->error);
    tn__arena_release(&arena);
    return status;
}

/* --- the stages of a pipeline ----------------------------------------------------------------- */

/* --- homes of operators --- */

/* Whether a pass precedes another one on every stage. */
static bool pipe_is_before(const tn_home *a, const tn_home *b) {
    if (a->way != b->way) return a->way < b->way;
    if (a->round != b->round) return a->round < b->round;
    return a->way == TN_WAY_FORWARD ? a->part < b->part : a->part > b->part;
}

static const tn_home *pipe_stated(const pipeline *pipe, const tn_op *op) {
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && op->outputs[k] < pipe->stages->tensors)
            return &pipe->stages->homes[op->outputs[k]];
    return NULL;
}

/* Finds the home of each operator. Visits operators from the last to the first, because the
 * operators that read a result come after the one that computes it. */
static tn_status pipe_homes(pipeline *pipe) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    uint32_t tensors = tn_graph_tensor_count(pipe->graph);
    tn_home *first = tn__arena_array(&pipe->arena, tensors, sizeof *first);
    uint8_t *read = tn__arena_array(&pipe->arena, tensors, 1);
    if (first == NULL || read == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t s = tn_program_count(pipe->program); s-- > 0;) {
        if (list[s].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(pipe->graph, list[s].op);
        const tn_home *stated = pipe_stated(pipe, op);
        tn_home home = {.of = TN_NONE};
        bool any = false;
        for (uint32_t k = 0; k < op->output_count && stated == NULL; k++) {
            tn_tensor_id id = op->outputs[k];
            if (id == TN_NONE || !read[id]) continue;
            if (!any || pipe_is_before(&first[id], &home)) home = first[id];
            any = true;
        }
        if (stated != NULL) home = *stated;
        pipe->homes[list[s].op] = home;
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_tensor_id id = op->inputs[i];
            if (id == TN_NONE || (read[id] && !pipe_is_before(&home, &first[id]))) continue;
            first[id] = home;
            read[id] = 1;
        }
    }
    return TN_OK;
}

static uint64_t pipe_stages_of(const pipeline *pipe, const tn_home *home) {
    uint64_t on = 0, parts = UINT64_C(1) << home->part;
    if (home->of != TN_NONE) parts = pipe->stages->homes[home->of].readers;
    for (uint32_t part = 0; part < pipe->stages->parts; part++)
        if (parts >> part & 1) on |= UINT64_C(1) << part % pipe->count;
    return on;
}

/* Checks that every stage that reads a static tensor also updates it, if it is updated at all.
 * Otherwise an operator of that stage, for example one that a rewrite merged across a stage
 * boundary, would always read the initial values. */
static tn_status pipe_check_kept(const pipeline *pipe, tn_op_id id) {
    const tn_op *op = tn_graph_op(pipe->graph, id);
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id in = op->inputs[i];
        const tn_tensor *tensor = in == TN_NONE ? NULL : tn_graph_tensor(pipe->graph, in);
        if (tensor == NULL || !(tensor->flags & TN_TENSOR_UPDATED) || !tn_tensor_is_static(tensor))
            continue;
        tn_home kept = {.of = in};
        bool read = in < pipe->stages->tensors && pipe->stages->homes[in].readers != 0;
        bool there = read ? (pipe->on[id] & ~pipe_stages_of(pipe, &kept)) == 0
                          /* the tensor is optimizer state, which is on the stages of its
                           * parameter */
                          : pipe->homes[id].of != TN_NONE;
        if (!there)
            TN_FAIL(pipe->error, TN_E_UNSUPPORTED,
                    "operator '%.80s' (%.40s) reads '%.80s' on a stage that does not update it, as "
                    "if it was put together from parts of several stages: leave the step as "
                    "tn_train makes it (no_rewrite)",
                    op->name, op->type, tensor->name);
    }
    return TN_OK;
}

static uint32_t pipeline_sender(const pipeline *pipe, tn_op_id id) {
    uint32_t stage = 0;
    while (!(pipe->on[id] >> stage & 1)) stage++;
    return stage;
}

/* --- passes --- */

/* Fills `number`, which has parts x rounds x 2 entries, with the position of each pass on its
 * stage. */
static void pipe_number(const pipeline *pipe, uint32_t *number) {
    for (uint32_t s = 0; s < pipe->count; s++)
        for (uint32_t k = 0; k + 1 < pipe->pass_count; k++) {
            tn__pass pass = tn__passes_kth(&pipe->passes, s, k);
            number[(pass.part * pipe->passes.rounds + pass.round) * 2 + pass.backward] = k;
        }
}

static int pipe_order(const void *a, const void *b) {
    const pipeline_op *x = a, *y = b;
    if (x->pass != y->pass) return x->pass < y->pass ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Lists the operators of a stage, sorted by pass. An operator that reads a result of its own stage
 * is never in an earlier pass than that result; rewrites could otherwise cause this. */
static tn_status pipe_stage(pipeline *pipe, uint32_t stage, const uint32_t *number,
                            uint32_t *pass_of) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    uint32_t steps = tn_program_count(pipe->program), count = 0;
    pipeline_op *ops = tn__arena_array(&pipe->arena, (size_t)steps + 1, sizeof *ops);
    if (ops == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t s = 0; s < steps; s++) {
        if (list[s].opcode != TN_APPLY || !(pipe->on[list[s].op] >> stage & 1)) continue;
        const tn_op *op = tn_graph_op(pipe->graph, list[s].op);
        const tn_home *home = &pipe->homes[list[s].op];
        uint64_t at = home->part * pipe->passes.rounds + home->round;
        uint32_t pass = number[at * 2 + (home->way == TN_WAY_BACKWARD)];
        if (home->way == TN_WAY_UPDATE) pass = pipe->pass_count - 1;
        if (pipeline_is_shard(home)) pass = 0;
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_op_id from = op->inputs[i] == TN_NONE
                                ? TN_NONE
                                : tn_graph_tensor(pipe->graph, op->inputs[i])->producer;
            bool own = from != TN_NONE && (pipe->on[from] >> stage & 1);
            if (own && pass_of[from] > pass) pass = pass_of[from];
        }
        pass_of[list[s].op] = pass;
        ops[count++] = (pipeline_op){pass, s};
    }
    if (count > 0) qsort(ops, count, sizeof *ops, pipe_order);
    pipe->ops[stage] = ops;
    pipe->op_count[stage] = count;
    return TN_OK;
}

static tn_status pipe_passes(pipeline *pipe) {
    size_t numbers = (size_t)pipe->stages->parts * pipe->stages->rounds * 2;
    uint32_t ops = tn_graph_op_count(pipe->graph);
    uint32_t *number = tn__arena_array(&pipe->arena, numbers, sizeof *number);
    uint32_t *pass_of = tn__arena_array(&pipe->arena, ops, sizeof *pass_of);
    if (number == NULL || pass_of == NULL) return tn__no_memory(pipe->error, "a pipeline");
    pipe_number(pipe, number);
    for (uint32_t s = 0; s < pipe->count; s++) TN_TRY(pipe_stage(pipe, s, number, pass_of));
    return TN_OK;
}

/* --- messages --- */

/* For each tensor, sets bit s of wanted[] for each stage s that reads the tensor but does not
 * compute it. *count becomes the number of such bits. */
static tn_status pipe_wanted(pipeline *pipe, uint64_t *wanted, size_t *count) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    for (uint32_t s = 0; s < tn_program_count(pipe->program); s++) {
        if (list[s].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(pipe->graph, list[s].op);
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_tensor_id id = op->inputs[i];
            if (id == TN_NONE || tn_tensor_is_static(tn_graph_tensor(pipe->graph, id))) continue;
            tn_op_id from = tn_graph_tensor(pipe->graph, id)->producer;
            if (from == TN_NONE) continue;
            uint64_t more = pipe->on[list[s].op] & ~pipe->on[from] & ~wanted[id];
            wanted[id] |= more;
            for (; more != 0; more &= more - 1) ++*count;
        }
    }
    return TN_OK;
}

static void pipe_send(pipeline *pipe, uint32_t stage, tn_op_id id, const uint64_t *wanted) {
    const tn_op *op = tn_graph_op(pipe->graph, id);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id tensor = op->outputs[k];
        if (tensor == TN_NONE || wanted[tensor] == 0) continue;
        pipe->first_of[tensor] = pipe->message_count;
        for (uint32_t to = 0; to < pipe->count; to++)
            if (wanted[tensor] >> to & 1)
                pipe->list[pipe->message_count++] =
                    (pipeline_message){.from = stage,
                                       .to = to,
                                       .tensor = tensor,
                                       .need = TN_NONE,
                                       .back = pipe->homes[id].way != TN_WAY_FORWARD};
    }
}

static pipeline_message *pipe_find(pipeline *pipe, tn_tensor_id tensor, uint32_t to) {
    uint32_t m = tensor == TN_NONE ? TN_NONE : pipe->first_of[tensor];
    for (; m < pipe->message_count && pipe->list[m].tensor == tensor; m++)
        if (pipe->list[m].to == to) return &pipe->list[m];
    return NULL;
}

/* Determines the pass that needs each message. Between two stages, messages of one direction are
 * received in the order in which they are sent, so a message is needed no later than those sent
 * after it. */
static tn_status pipe_needs(pipeline *pipe) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    for (uint32_t s = 0; s < pipe->count; s++)
        for (uint32_t n = 0; n < pipe->op_count[s]; n++) {
            const pipeline_op *at = &pipe->ops[s][n];
            const tn_op *op = tn_graph_op(pipe->graph, list[at->step].op);
            for (uint32_t i = 0; i < op->input_count; i++) {
                pipeline_message *one = pipe_find(pipe, op->inputs[i], s);
                if (one != NULL && at->pass < one->need) one->need = at->pass;
            }
        }
    size_t lanes = (size_t)pipe->count * 2;
    uint32_t *least = tn__arena_array(&pipe->arena, lanes, sizeof *least);
    if (least == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t m = pipe->message_count, from = TN_NONE; m-- > 0;) {
        pipeline_message *one = &pipe->list[m];
        if (one->from != from) memset(least, 0xff, lanes * sizeof *least);
        from = one->from;
        uint32_t *lane = &least[one->to * 2 + one->back];
        if (one->need > *lane) one->need = *lane;
        *lane = one->need;
    }
    return TN_OK;
}

static tn_status pipe_messages(pipeline *pipe) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    uint32_t tensors = tn_graph_tensor_count(pipe->graph);
    size_t count = 0;
    uint64_t *wanted = tn__arena_array(&pipe->arena, tensors, sizeof *wanted);
    pipe->first_of = tn__arena_array(&pipe->arena, tensors, sizeof *pipe->first_of);
    if (wanted == NULL || pipe->first_of == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t i = 0; i < tensors; i++) pipe->first_of[i] = TN_NONE;
    TN_TRY(pipe_wanted(pipe, wanted, &count));
    pipe->list = tn__arena_array(&pipe->arena, count + 1, sizeof *pipe->list);
    if (pipe->list == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t s = 0; s < pipe->count; s++)
        for (uint32_t n = 0; n < pipe->op_count[s]; n++) {
            tn_op_id id = list[pipe->ops[s][n].step].op;
            if (pipeline_sender(pipe, id) == s) pipe_send(pipe, s, id, wanted);
        }
    return pipe_needs(pipe);
}

/* --- the pipeline as a whole --- */

static tn_status pipe_check(const pipeline *pipe, const tn_program_pipeline_options *options) {
    const tn_stages *stages = pipe->stages;
    uint32_t encoded;
    bool plain = tn_program_region_count(pipe->program) == 0;
    (void)tn_program_encoded(pipe->program, &encoded);
    for (uint32_t s = 0; s < tn_program_count(pipe->program); s++) {
        const tn_instruction *it = &tn_program_instructions(pipe->program)[s];
        bool known = it->opcode == TN_PUT || it->opcode == TN_APPLY || it->opcode == TN_GET;
        plain = plain && known && it->stream == 0 && !it->again;
    }
    if (!plain || encoded > 0)
        TN_FAIL(pipe->error, TN_E_UNSUPPORTED,
                "a program with control flow, or that a budget or recomputing has changed, is not "
                "divided among the stages of a pipeline");
    if (options->stage >= pipe->count || stages->parts % pipe->count != 0)
        TN_FAIL(pipe->error, TN_E_INVALID,
                "%u parts of a model are not the same for %u stages, of "
                "which this is %u",
                stages->parts, pipe->count, options->stage);
    if (stages->parts > pipe->count && stages->rounds % pipe->count != 0)
        TN_FAIL(pipe->error, TN_E_INVALID,
                "%u micro-batches do not divide among %u stages, which have several pieces each",
                stages->rounds, pipe->count);
    if (options->tensor_rank != stages->tensor_rank || pipe->tensor != stages->tensor_ranks)
        TN_FAIL(pipe->error, TN_E_INVALID,
                "the step is of rank %u of %u with parts of a stage, not of %u of %u (tensor_rank, "
                "tensor_ranks)",
                stages->tensor_rank, stages->tensor_ranks, options->tensor_rank, pipe->tensor);
    if (pipe->tensor > TN_GRID_MOST || (pipe->tensor > 1 && pipe->ranks == NULL))
        TN_FAIL(pipe->error, TN_E_INVALID,
                "%u ranks with parts of each stage: which are those of the other stages?",
                pipe->tensor);
    return TN_OK;
}

static tn_status pipe_prepare(pipeline *pipe) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    uint32_t ops = tn_graph_op_count(pipe->graph);
    pipe->homes = tn__arena_array(&pipe->arena, ops, sizeof *pipe->homes);
    pipe->on = tn__arena_array(&pipe->arena, ops, sizeof *pipe->on);
    pipe->ops = tn__arena_array(&pipe->arena, pipe->count, sizeof *pipe->ops);
    pipe->op_count = tn__arena_array(&pipe->arena, pipe->count, sizeof *pipe->op_count);
    if (!pipe->homes || !pipe->on || !pipe->ops || !pipe->op_count)
        return tn__no_memory(pipe->error, "a pipeline");
    TN_TRY(pipe_homes(pipe));
    for (uint32_t s = 0; s < tn_program_count(pipe->program); s++)
        if (list[s].opcode == TN_APPLY)
            pipe->on[list[s].op] = pipe_stages_of(pipe, &pipe->homes[list[s].op]);
    for (uint32_t s = 0; s < tn_program_count(pipe->program); s++)
        if (list[s].opcode == TN_APPLY) TN_TRY(pipe_check_kept(pipe, list[s].op));
    TN_TRY(pipe_passes(pipe));
    return pipe_messages(pipe);
}

static bool pipeline_in_parts(const pipeline *pipe, tn_tensor_id id) {
    const tn_stages *stages = pipe->stages;
    const tn_tensor *tensor = tn_graph_tensor(pipe->graph, id);
    bool alike = stages->alike != NULL && id < stages->tensors && stages->alike[id];
    return pipe->tensor > 1 && !pipe->whole_sends && alike && !(tensor->flags & TN_TENSOR_BOUND) &&
           tensor->bytes % pipe->tensor == 0;
}

/* Makes the program of one rank of a stage. If stages are divided among ranks, it contains the
 * collectives among the ranks of the stage. */
static tn_status pipe_make(pipeline *pipe, uint32_t stage, uint32_t part, uint32_t group,
                           tn_program **made) {
    tn_program *plain;
    pipe->part = part;
    pipe->group = group;
    if (pipe->tensor == 1) return pipeline_emit(pipe, stage, made);
    TN_TRY(pipeline_emit(pipe, stage, &plain));
    tn_status status = tn_program_join(plain, group, pipe->rules, made, pipe->error);
    tn_program_destroy(plain);
    return status;
}

/* Checks that the programs of all ranks fit together. Makes the programs of one data-parallel
 * replica; the others communicate in the same way. */
static tn_status pipe_verify_once(pipeline *pipe, tn_program **all, uint32_t *ranks) {
    uint32_t made = 0, count = pipe->count * pipe->tensor;
    tn_status status = TN_OK;
    pipe->ranks = ranks;
    while (made < count && status == TN_OK) {
        uint32_t stage = made / pipe->tensor, part = made % pipe->tensor;
        for (uint32_t s = 0; s < pipe->count; s++) ranks[s] = s * pipe->tensor + part;
        status = pipe_make(pipe, stage, part, stage + 1, &all[made]);
        if (status == TN_OK) made++;
    }
    if (status == TN_OK)
        status = tn_programs_verify((const tn_program *const *)all, made, pipe->error);
    for (uint32_t r = 0; r < made; r++) tn_program_destroy(all[r]);
    return status;
}

/* Checks that the programs of all ranks fit together. A stage that waits too early for its SEND may
 * block the receiver; so as long as the check fails, waits are moved to later passes. */
static tn_status pipe_verify(pipeline *pipe) {
    const uint32_t *given = pipe->ranks;
    size_t count = (size_t)pipe->count * pipe->tensor;
    tn_program **all = tn__arena_array(&pipe->arena, count, sizeof *all);
    uint32_t *ranks = tn__arena_array(&pipe->arena, pipe->count, sizeof *ranks);
    if (all == NULL || ranks == NULL) return tn__no_memory(pipe->error, "a pipeline");
    tn_status status = pipe_verify_once(pipe, all, ranks);
    const tn_error first = pipe->error != NULL ? *pipe->error : (tn_error){0};
    while (status == TN_E_INVALID && pipe->slack < pipe->pass_count) {
        pipe->slack *= 2;
        status = pipe_verify_once(pipe, all, ranks);
    }
    if (status == TN_E_INVALID && pipe->error != NULL) *pipe->error = first;
    pipe->ranks = given;
    return status;
}

tn_status tn_program_pipeline(const tn_program *program, const tn_program_pipeline_options *given,
                              tn_program **staged, tn_error *error) {
    tn_program_pipeline_options options = TN_PROGRAM_PIPELINE_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    if (options.stages == NULL || options.stage_count == 0 ||
        (unsigned)options.schedule >= TN_PIPELINE_COUNT)
        TN_FAIL(error, TN_E_INVALID,
                "a pipeline of which step, of how many stages, in what order?");
    uint32_t pieces = options.stages->parts / options.stage_count;
    pipeline pipe = {.program = program,
                     .graph = tn_program_graph(program),
                     .stages = options.stages,
                     .ranks = options.ranks,
                     .count = options.stage_count,
                     .tensor = options.tensor_ranks > 1 ? options.tensor_ranks : 1,
                     .whole_sends = options.whole_sends,
                     .rules = options.rules,
                     .slack = 2,
                     .pass_count = 2 * pieces * options.stages->rounds + 1,
                     .passes = {options.stage_count, pieces, options.stages->rounds,
                                options.schedule == TN_PIPELINE_ALL_AHEAD},
                     .error = error};
    TN_TRY(pipe_check(&pipe, &options));
    tn__arena_init(&pipe.arena, tn_graph_context(pipe.graph));
    tn_status status = pipe_prepare(&pipe);
    if (status == TN_OK) status = pipe_verify(&pipe);
    if (status == TN_OK)
        status = pipe_make(&pipe, options.stage, options.tensor_rank, options.tensor_group, staged);
    tn__arena_release(&pipe.arena);
    return status;
}
