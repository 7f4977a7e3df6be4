/* pipeline.c - makes programs of a pipeline: which operators each stage runs, in which pass, and
 * which tensors it receives.
 *
 *     stage 0   F0 F1 B0 F2 B1 .. U        F, B: forward and backward of a micro-batch
 *     stage 1      F0 B0 F1 B1 .. U        U: updates
 *
 * All stages share one graph, which contains all micro-batches, and each runs some of its
 * operators. The homes (tenure/stages.h) of its results say where an operator belongs; an operator
 * made by a rewrite belongs to the first stage that reads its results. A tensor that one stage
 * makes and another reads is sent, once to each reader, and kept there. So tensors that skip stages
 * or go backwards need no special case.
 *
 * Cost: O(stages x operands + messages).
 */
#include "run/dist/pipeline.h"

#include "graph/op.h"
#include "program/program.h"

/* --- homes of operators --- */

/* Does a pass come before another on every stage? */
static bool pipe_is_before(const tn_home *a, const tn_home *b) {
    if (a->way != b->way) return a->way < b->way;
    if (a->round != b->round) return a->round < b->round;
    return a->way == TN_WAY_FORWARD ? a->part < b->part : a->part > b->part;
}

static const tn_home *pipe_told(const tn__pipe *pipe, const tn_op *op) {
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && op->outputs[k] < pipe->stages->tensors)
            return &pipe->stages->homes[op->outputs[k]];
    return NULL;
}

/* From the last operator to the first, because an operator's readers come after it. */
static tn_status pipe_homes(tn__pipe *pipe) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    uint32_t tensors = tn_graph_tensor_count(pipe->graph);
    tn_home *first = tn__arena_array(&pipe->arena, tensors, sizeof *first);
    uint8_t *read = tn__arena_array(&pipe->arena, tensors, 1);
    if (first == NULL || read == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t s = tn_program_count(pipe->program); s-- > 0;) {
        if (list[s].opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(pipe->graph, list[s].op);
        const tn_home *told = pipe_told(pipe, op);
        tn_home home = {.of = TN_NONE};
        bool any = false;
        for (uint32_t k = 0; k < op->output_count && told == NULL; k++) {
            tn_tensor_id id = op->outputs[k];
            if (id == TN_NONE || !read[id]) continue;
            if (!any || pipe_is_before(&first[id], &home)) home = first[id];
            any = true;
        }
        if (told != NULL) home = *told;
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

static uint64_t pipe_stages_of(const tn__pipe *pipe, const tn_home *home) {
    uint64_t on = 0, parts = UINT64_C(1) << home->part;
    if (home->of != TN_NONE) parts = pipe->stages->homes[home->of].readers;
    for (uint32_t part = 0; part < pipe->stages->parts; part++)
        if (parts >> part & 1) on |= UINT64_C(1) << part % pipe->count;
    return on;
}

/* A static tensor that changes is updated on the stages where the model reads it. On any other
 * stage an operator would read its initial contents for ever, for example one that a rewrite merged
 * across a cut.
 */
static tn_status pipe_check_kept(const tn__pipe *pipe, tn_op_id id) {
    const tn_op *op = tn_graph_op(pipe->graph, id);
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id in = op->inputs[i];
        const tn_tensor *tensor = in == TN_NONE ? NULL : tn_graph_tensor(pipe->graph, in);
        if (tensor == NULL || !(tensor->flags & TN_TENSOR_UPDATED) || !tn_tensor_is_static(tensor))
            continue;
        tn_home kept = {.of = in};
        bool read = in < pipe->stages->tensors && pipe->stages->homes[in].readers != 0;
        bool there = read ? (pipe->on[id] & ~pipe_stages_of(pipe, &kept)) == 0
                          /* the optimizer's state, next to its parameter */
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

uint32_t tn__pipe_sender(const tn__pipe *pipe, tn_op_id id) {
    uint32_t stage = 0;
    while (!(pipe->on[id] >> stage & 1)) stage++;
    return stage;
}

/* --- passes --- */

/* number: [parts x rounds x 2] the position of each pass on its stage. */
static void pipe_number(const tn__pipe *pipe, uint32_t *number) {
    for (uint32_t s = 0; s < pipe->count; s++)
        for (uint32_t k = 0; k + 1 < pipe->pass_count; k++) {
            tn__pass pass = tn__passes_kth(&pipe->passes, s, k);
            number[(pass.part * pipe->passes.rounds + pass.round) * 2 + pass.backward] = k;
        }
}

static int pipe_order(const void *a, const void *b) {
    const tn__pipe_op *x = a, *y = b;
    if (x->pass != y->pass) return x->pass < y->pass ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Lists the operators of a stage. None comes before an operator of the same stage that it reads,
 * even after a rewrite. */
static tn_status pipe_stage(tn__pipe *pipe, uint32_t stage, const uint32_t *number,
                            uint32_t *pass_of) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    uint32_t steps = tn_program_count(pipe->program), count = 0;
    tn__pipe_op *ops = tn__arena_array(&pipe->arena, (size_t)steps + 1, sizeof *ops);
    if (ops == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t s = 0; s < steps; s++) {
        if (list[s].opcode != TN_APPLY || !(pipe->on[list[s].op] >> stage & 1)) continue;
        const tn_op *op = tn_graph_op(pipe->graph, list[s].op);
        const tn_home *home = &pipe->homes[list[s].op];
        uint64_t at = home->part * pipe->passes.rounds + home->round;
        uint32_t pass = number[at * 2 + (home->way == TN_WAY_BACKWARD)];
        if (home->way == TN_WAY_UPDATE) pass = pipe->pass_count - 1;
        if (tn__pipe_is_shard(home)) pass = 0;
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_op_id from = op->inputs[i] == TN_NONE
                                ? TN_NONE
                                : tn_graph_tensor(pipe->graph, op->inputs[i])->producer;
            bool own = from != TN_NONE && (pipe->on[from] >> stage & 1);
            if (own && pass_of[from] > pass) pass = pass_of[from];
        }
        pass_of[list[s].op] = pass;
        ops[count++] = (tn__pipe_op){pass, s};
    }
    if (count > 0) qsort(ops, count, sizeof *ops, pipe_order);
    pipe->ops[stage] = ops;
    pipe->op_count[stage] = count;
    return TN_OK;
}

static tn_status pipe_passes(tn__pipe *pipe) {
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

/* The stages that read a tensor they do not make: [tensors] bit s. */
static tn_status pipe_wanted(tn__pipe *pipe, uint64_t *wanted, size_t *count) {
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

static void pipe_send(tn__pipe *pipe, uint32_t stage, tn_op_id id, const uint64_t *wanted) {
    const tn_op *op = tn_graph_op(pipe->graph, id);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id tensor = op->outputs[k];
        if (tensor == TN_NONE || wanted[tensor] == 0) continue;
        pipe->first_of[tensor] = pipe->message_count;
        for (uint32_t to = 0; to < pipe->count; to++)
            if (wanted[tensor] >> to & 1)
                pipe->list[pipe->message_count++] =
                    (tn__message){.from = stage,
                                  .to = to,
                                  .tensor = tensor,
                                  .need = TN_NONE,
                                  .back = pipe->homes[id].way != TN_WAY_FORWARD};
    }
}

static tn__message *pipe_find(tn__pipe *pipe, tn_tensor_id tensor, uint32_t to) {
    uint32_t m = tensor == TN_NONE ? TN_NONE : pipe->first_of[tensor];
    for (; m < pipe->message_count && pipe->list[m].tensor == tensor; m++)
        if (pipe->list[m].to == to) return &pipe->list[m];
    return NULL;
}

/* Between two stages, messages in one direction are received in the order in which they are sent.
 * So a message is needed no later than those sent after it. */
static tn_status pipe_needs(tn__pipe *pipe) {
    const tn_instruction *list = tn_program_instructions(pipe->program);
    for (uint32_t s = 0; s < pipe->count; s++)
        for (uint32_t n = 0; n < pipe->op_count[s]; n++) {
            const tn__pipe_op *at = &pipe->ops[s][n];
            const tn_op *op = tn_graph_op(pipe->graph, list[at->step].op);
            for (uint32_t i = 0; i < op->input_count; i++) {
                tn__message *one = pipe_find(pipe, op->inputs[i], s);
                if (one != NULL && at->pass < one->need) one->need = at->pass;
            }
        }
    size_t lanes = (size_t)pipe->count * 2;
    uint32_t *least = tn__arena_array(&pipe->arena, lanes, sizeof *least);
    if (least == NULL) return tn__no_memory(pipe->error, "a pipeline");
    for (uint32_t m = pipe->message_count, from = TN_NONE; m-- > 0;) {
        tn__message *one = &pipe->list[m];
        if (one->from != from) memset(least, 0xff, lanes * sizeof *least);
        from = one->from;
        uint32_t *lane = &least[one->to * 2 + one->back];
        if (one->need > *lane) one->need = *lane;
        *lane = one->need;
    }
    return TN_OK;
}

static tn_status pipe_messages(tn__pipe *pipe) {
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
            if (tn__pipe_sender(pipe, id) == s) pipe_send(pipe, s, id, wanted);
        }
    return pipe_needs(pipe);
}

/* --- the whole --- */

static tn_status pipe_check(const tn__pipe *pipe, const tn_program_pipeline_options *options) {
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

static tn_status pipe_prepare(tn__pipe *pipe) {
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

bool tn__pipe_in_parts(const tn__pipe *pipe, tn_tensor_id id) {
    const tn_stages *stages = pipe->stages;
    const tn_tensor *tensor = tn_graph_tensor(pipe->graph, id);
    bool alike = stages->alike != NULL && id < stages->tensors && stages->alike[id];
    return pipe->tensor > 1 && !pipe->whole_sends && alike && !(tensor->flags & TN_TENSOR_BOUND) &&
           tensor->bytes % pipe->tensor == 0;
}

/* The program of one rank of a stage; if stages are cut, with the collectives among its ranks. */
static tn_status pipe_make(tn__pipe *pipe, uint32_t stage, uint32_t part, uint32_t group,
                           tn_program **made) {
    tn_program *plain;
    pipe->part = part;
    pipe->group = group;
    if (pipe->tensor == 1) return tn__pipe_emit(pipe, stage, made);
    TN_TRY(tn__pipe_emit(pipe, stage, &plain));
    tn_status status = tn_program_join(plain, group, made, pipe->error);
    tn_program_destroy(plain);
    return status;
}

/* Do the programs of all ranks fit together? Makes one for each part of every stage; parts
 * communicate alike. */
static tn_status pipe_verify_once(tn__pipe *pipe, tn_program **all, uint32_t *ranks) {
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

/* A stage that waits for its SEND may block the receiver; then the wait is moved to a later
 * pass. */
static tn_status pipe_verify(tn__pipe *pipe) {
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
    tn__pipe pipe = {.program = program,
                     .graph = tn_program_graph(program),
                     .stages = options.stages,
                     .ranks = options.ranks,
                     .count = options.stage_count,
                     .tensor = options.tensor_ranks > 1 ? options.tensor_ranks : 1,
                     .whole_sends = options.whole_sends,
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
