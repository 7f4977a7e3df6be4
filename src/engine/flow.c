/* flow.c - control flow: builds tables of the operators with regions (If, Loop, Scan) and of the
 * steps at which they may begin, and implements the beginning, each iteration and the end of these
 * operators. */
#include <stdio.h>

#include "engine/engine.h"
#include "graph/op.h"

static int flow_region_order(const void *a, const void *b) {
    const tn_region *x = a, *y = b;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

/* Whether the engine can run an operator with regions: it must be an operator of ONNX, and the
 * registry must describe how its operands correspond to those of its blocks. */
static bool flow_is_known(const tn__flow *flow, const tn_region *region) {
    const tn_op *op = tn_graph_op(flow->graph, region->op);
    const tn_op_rule *rule = tn__rule_of(flow->graph, region->op);
    if (rule == NULL || op->domain[0] != 0) return false;
    if (rule->flags & TN_RULE_ONCE) return true;
    return rule->turns != NULL &&
           !rule->turns(op, tn_graph_block(flow->graph, region->block)).batch;
}

static tn_status flow_collect(tn__flow *flow, const tn_program *program) {
    const tn_instruction *instructions = tn_program_instructions(program);
    uint32_t r = 0;
    while (r < flow->region_count) {
        tn__control *control = &flow->controls[flow->control_count];
        const tn_op *op = tn_graph_op(flow->graph, flow->regions[r].op);
        if (!flow_is_known(flow, &flow->regions[r])) {
            tn__fail(flow->executor->error, TN_E_UNSUPPORTED, "nothing runs %s of opset %u",
                     op->type, op->version);
            return tn__where(flow->executor->error, TN_E_UNSUPPORTED, "node '%.60s'", op->name);
        }
        *control = (tn__control){.op = flow->regions[r].op,
                                 .entry = flow->regions[r].first,
                                 .first_region = r,
                                 .ran = TN_NONE};
        while (r < flow->region_count && flow->regions[r].op == control->op) {
            control->region_count++;
            r++;
        }
        flow->control_of[control->op] = flow->control_count++;
    }
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        if (instructions[s].opcode != TN_APPLY) continue;
        uint32_t c = flow->control_of[instructions[s].op];
        if (c != TN_NONE) flow->controls[c].own = s;
    }
    return TN_OK;
}

/* Fills flow->entering: the operators with regions, sorted by the step at which they may begin. At
 * equal steps an outer operator precedes an inner one, that is, the operator that ends later is
 * first. */
static void flow_sort(tn__flow *flow, uint32_t steps) {
    uint32_t *at = flow->entering_at;
    for (uint32_t c = 0; c < flow->control_count; c++) at[flow->controls[c].entry + 1]++;
    for (uint32_t s = 0; s <= steps; s++) at[s + 1] += at[s];
    for (uint32_t c = 0; c < flow->control_count; c++) {
        const tn__control *control = &flow->controls[c];
        /* insertion sort, because few operators begin at the same step */
        uint32_t slot = at[control->entry];
        while (flow->entering[slot] != TN_NONE) slot++;
        for (; slot > at[control->entry] &&
               flow->controls[flow->entering[slot - 1]].own < control->own;
             slot--)
            flow->entering[slot] = flow->entering[slot - 1];
        flow->entering[slot] = c;
    }
}

tn_status tn__flow_make(tn__flow *flow, const tn_program *program, tn__executor *executor,
                        tn__arena *arena) {
    uint32_t ops = tn_graph_op_count(executor->graph), steps = tn_program_count(program);
    uint32_t count = tn_program_region_count(program);
    *flow = (tn__flow){.executor = executor, .graph = executor->graph, .region_count = count};
    flow->regions =
        tn__arena_copy(arena, tn_program_regions(program), count * sizeof *flow->regions);
    flow->controls = tn__arena_array(arena, count, sizeof *flow->controls);
    flow->entering = tn__arena_array(arena, (size_t)count + 1, sizeof *flow->entering);
    flow->entering_at = tn__arena_array(arena, (size_t)steps + 2, sizeof *flow->entering_at);
    flow->control_of = tn__arena_array(arena, ops, sizeof *flow->control_of);
    flow->frames = tn__arena_array(arena, (size_t)count + 1, sizeof *flow->frames);
    if (flow->regions == NULL || flow->controls == NULL || flow->entering == NULL ||
        flow->entering_at == NULL || flow->control_of == NULL || flow->frames == NULL)
        return tn__no_memory(executor->error, "control flow");
    for (uint32_t i = 0; i < ops; i++) flow->control_of[i] = TN_NONE;
    for (uint32_t i = 0; i <= count; i++) flow->entering[i] = TN_NONE;
    if (count == 0) return TN_OK;
    qsort(flow->regions, count, sizeof *flow->regions, flow_region_order);
    TN_TRY(flow_collect(flow, program));
    flow_sort(flow, steps);
    return TN_OK;
}

/* --- running If, Loop and Scan ---
 *
 * The memory of these operators follows liveness.c. The results of a branch of an If are copied to
 * the operator's outputs when the branch ends. In a loop, the values that are carried between
 * iterations are in the formal inputs of the loop's block. After the last iteration the results are
 * copied from the tensors that the block returned. Gathered values are written to the operator's
 * outputs from the first iteration on. A region without instructions runs all its iterations at
 * once, here.
 *
 * Source: the ONNX specifications of If and Loop (opsets 1 to 21) and of Scan (opsets 9 to 21).
 */

/* bytes of each value that are copied at a time; a stack buffer for 64 values takes 4 KiB */
#define CONTROL_CHUNK 64u

static const tn_op *control_op(const tn__flow *flow, const tn__control *control) {
    return tn_graph_op(flow->graph, control->op);
}
static const tn_block *control_block(const tn__flow *flow, uint32_t region) {
    return tn_graph_block(flow->graph, flow->regions[region].block);
}

/* --- copies of tensors together with their extents; the results of an If --- */

static tn_status control_shape(tn__flow *flow, tn_tensor_id to, const int64_t *shape,
                               uint32_t rank) {
    tn_operand *operand = &flow->executor->operands[to];
    if (operand->rank != rank)
        TN_FAIL(flow->executor->error, TN_E_INVALID, "'%.60s' has rank %u here, %u was expected",
                tn_graph_tensor(flow->graph, to)->name, rank, operand->rank);
    if (rank > 0) memcpy(operand->shape, shape, rank * sizeof *shape);
    if (tn__operand_bytes(operand) > operand->room)
        TN_FAIL(flow->executor->error, TN_E_INVALID,
                "'%.60s' grows to %llu bytes, %llu are planned for it",
                tn_graph_tensor(flow->graph, to)->name,
                (unsigned long long)tn__operand_bytes(operand), (unsigned long long)operand->room);
    return TN_OK;
}

static tn_status control_copy(tn__flow *flow, tn_tensor_id to, tn_tensor_id from) {
    if (to == TN_NONE || from == TN_NONE || to == from) return TN_OK;
    TN_TRY(control_shape(flow, to, flow->executor->operands[from].shape,
                         flow->executor->operands[from].rank));
    tn__operand_copy(&flow->executor->operands[to], &flow->executor->operands[from]);
    return TN_OK;
}

/* --- If --- */

static tn_status control_branch(tn__flow *flow, tn__control *control, uint32_t *region) {
    const tn_op *op = control_op(flow, control);
    bool yes = tn__operand_int(&flow->executor->operands[op->inputs[0]], 0) != 0;
    const tn_attr *attr = tn__attr(op, yes ? "then_branch" : "else_branch");
    *region = TN_NONE;
    for (uint32_t r = 0; r < control->region_count; r++)
        if (flow->regions[control->first_region + r].block == attr->block)
            *region = control->first_region + r;
    if (*region == TN_NONE)
        TN_FAIL(flow->executor->error, TN_E_INVALID,
                "the condition takes the branch that cannot run");
    control->ran = *region;
    return TN_OK;
}

static tn_status control_branch_results(tn__flow *flow, const tn__control *control) {
    const tn_op *op = control_op(flow, control);
    const tn_block *block = control_block(flow, control->ran);
    for (uint32_t k = 0; k < op->output_count; k++)
        TN_TRY(control_copy(flow, op->outputs[k], block->outputs[k]));
    return TN_OK;
}

/* --- iterations of Loop and Scan --- */

/* How the operands of a Loop or Scan correspond to those of its block. */
typedef struct control_loop {
    const tn_op *op;
    const tn_block *body;
    uint32_t carried; /* number of values that are carried between iterations */
    /* index of the first carried value: among the block's inputs, and among the operator's */
    uint32_t formal, given;
    uint32_t next;   /* index of the first carried value among the block's outputs */
    uint32_t sliced; /* Scan: number of inputs of which each iteration reads one slice */
} control_loop;

static control_loop control_loop_of(const tn__flow *flow, const tn__control *control) {
    control_loop loop = {.op = control_op(flow, control),
                         .body = control_block(flow, control->first_region)};
    tn__loop_values turns = tn__rule_of(flow->graph, control->op)->turns(loop.op, loop.body);
    loop.carried = turns.carried;
    loop.formal = turns.formal;
    loop.given = turns.given;
    loop.next = turns.next;
    loop.sliced = turns.sliced;
    return loop;
}

static int64_t control_ints(const tn_op *op, const char *name, uint32_t index) {
    uint32_t count;
    const int64_t *ints = tn__attr_ints(op, name, &count);
    return index < count ? ints[index] : 0;
}

/* One slice of a tensor: index `at` along `axis` of `whole`, and the tensor `one` that has the
 * slice alone. */
typedef struct control_slices {
    tn_operand *whole, *one;
    uint32_t axis;
    uint64_t at;
    bool gather; /* true: copies `one` into `whole`; false: copies the slice of `whole` to `one` */
} control_slices;

static void control_slice(const control_slices *it) {
    uint64_t outer = tn__operand_span(it->whole, 0, it->axis);
    uint64_t inner = tn__operand_span(it->whole, it->axis + 1, it->whole->rank) *
                     tn_dtype_bits(it->whole->dtype) / 8;
    uint64_t extent = (uint64_t)it->whole->shape[it->axis];
    for (uint64_t o = 0; o < outer; o++) {
        uint8_t *part = (uint8_t *)it->whole->data + (o * extent + it->at) * inner;
        uint8_t *one = (uint8_t *)it->one->data + o * inner;
        memcpy(it->gather ? part : one, it->gather ? one : part, inner);
    }
}

static tn_status control_axis(tn__flow *flow, int64_t given, uint32_t rank, uint32_t *axis) {
    int64_t at = given < 0 ? given + (int64_t)rank : given;
    if (at < 0 || at >= (int64_t)rank)
        TN_FAIL(flow->executor->error, TN_E_INVALID, "scan axis %lld is outside rank %u",
                (long long)given, rank);
    *axis = (uint32_t)at;
    return TN_OK;
}

/* Copies slices of a Scan's inputs to the inputs of its block, for the next iteration. */
static tn_status control_scan_inputs(tn__flow *flow, const tn__control *control,
                                     const control_loop *loop) {
    for (uint32_t i = 0; i < loop->sliced; i++) {
        control_slices slices = {
            .whole = &flow->executor->operands[loop->op->inputs[loop->carried + i]],
            .one = &flow->executor->operands[loop->body->inputs[loop->carried + i]]};
        TN_TRY(control_axis(flow, control_ints(loop->op, "scan_input_axes", i), slices.whole->rank,
                            &slices.axis));
        bool back = control_ints(loop->op, "scan_input_directions", i) != 0;
        slices.at = back ? control->most - 1 - control->trips : control->trips;
        if ((uint64_t)slices.whole->shape[slices.axis] != control->most)
            TN_FAIL(flow->executor->error, TN_E_INVALID, "scan inputs have different lengths");
        control_slice(&slices);
    }
    return TN_OK;
}

/* Copies the results of an iteration into the outputs of the operator that gather them. */
static tn_status control_gather(tn__flow *flow, const tn__control *control,
                                const control_loop *loop) {
    bool scans = loop->formal == 0;
    for (uint32_t k = loop->carried; k < loop->op->output_count; k++) {
        if (loop->op->outputs[k] == TN_NONE) continue;
        tn_operand *whole = &flow->executor->operands[loop->op->outputs[k]];
        control_slices slices = {.whole = whole,
                                 .one =
                                     &flow->executor->operands[loop->body->outputs[loop->next + k]],
                                 .at = control->trips,
                                 .gather = true};
        uint32_t index = k - loop->carried;
        if (scans) {
            TN_TRY(control_axis(flow, control_ints(loop->op, "scan_output_axes", index),
                                whole->rank, &slices.axis));
            if (control_ints(loop->op, "scan_output_directions", index) != 0)
                slices.at = control->most - 1 - control->trips;
        }
        int64_t shape[TN_RANK_MAX];
        if (slices.one->rank + 1 != whole->rank)
            TN_FAIL(flow->executor->error, TN_E_INVALID, "what a loop gathers changes its rank");
        for (uint32_t d = 0; d < slices.one->rank; d++)
            shape[d < slices.axis ? d : d + 1] = slices.one->shape[d];
        shape[slices.axis] = (int64_t)(scans ? control->most : control->trips + 1);
        for (uint32_t d = 0; d < whole->rank && control->trips > 0; d++)
            if (d != slices.axis && shape[d] != whole->shape[d])
                TN_FAIL(flow->executor->error, TN_E_INVALID,
                        "what a loop gathers in '%.60s' has extent %lld in one turn and %lld in "
                        "the next",
                        tn_graph_tensor(flow->graph, loop->op->outputs[k])->name,
                        (long long)whole->shape[d], (long long)shape[d]);
        TN_TRY(control_shape(flow, loop->op->outputs[k], shape, whole->rank));
        control_slice(&slices);
    }
    return TN_OK;
}

/* Whether a value that the block of a loop returned lies in the memory of a carried input that will
 * be overwritten. This is the case if the value is such an input itself, or a view of one. No other
 * tensor can overlap a carried input, because carried inputs are live during the whole loop. */
static bool control_crosses(const tn__flow *flow, const control_loop *loop) {
    for (uint32_t i = 0; i < loop->carried; i++) {
        const tn_operand *from = &flow->executor->operands[loop->body->outputs[loop->next + i]];
        uintptr_t at = (uintptr_t)from->data;
        for (uint32_t j = 0; j < loop->carried; j++) {
            const tn_operand *to = &flow->executor->operands[loop->body->inputs[loop->formal + j]];
            uintptr_t start = (uintptr_t)to->data;
            bool same = i == j && at == start;
            if (!same && at >= start && at - start < to->room) return true;
        }
    }
    return false;
}

/* Assigns the values that the block of a loop returned to the carried inputs, all at the same time.
 * A block may return its own inputs in another order, so a direct copy could overwrite a value
 * before it is read. Therefore the values are copied in chunks: a chunk of every value is read
 * before any is written. A view of a carried input starts at the input's first byte or later, so
 * the bytes that a chunk overwrites have already been read. */
static tn_status control_carry(tn__flow *flow, const control_loop *loop) {
    uint64_t longest = 0;
    if (!control_crosses(flow, loop)) {
        for (uint32_t i = 0; i < loop->carried; i++)
            TN_TRY(control_copy(flow, loop->body->inputs[loop->formal + i],
                                loop->body->outputs[loop->next + i]));
        return TN_OK;
    }
    if (loop->carried > 64)
        TN_FAIL(flow->executor->error, TN_E_UNSUPPORTED,
                "a loop that exchanges more than 64 values from turn to turn");
    int64_t shapes[64][8];
    uint32_t ranks[64];
    uint8_t chunks[64][CONTROL_CHUNK];
    for (uint32_t i = 0; i < loop->carried; i++) {
        const tn_operand *from = &flow->executor->operands[loop->body->outputs[loop->next + i]];
        if (from->rank > 8)
            TN_FAIL(flow->executor->error, TN_E_UNSUPPORTED,
                    "a loop that exchanges values of rank %u", from->rank);
        ranks[i] = from->rank;
        if (from->rank > 0) memcpy(shapes[i], from->shape, from->rank * sizeof *from->shape);
    }
    uint64_t sizes[64];
    for (uint32_t i = 0; i < loop->carried; i++) {
        sizes[i] =
            tn__operand_bytes(&flow->executor->operands[loop->body->outputs[loop->next + i]]);
        longest = sizes[i] > longest ? sizes[i] : longest;
    }
    for (uint64_t at = 0; at < longest; at += CONTROL_CHUNK) {
        for (uint32_t i = 0; i < loop->carried; i++) {
            const uint8_t *from =
                flow->executor->operands[loop->body->outputs[loop->next + i]].data;
            uint64_t left = at < sizes[i] ? sizes[i] - at : 0;
            if (left > 0) memcpy(chunks[i], from + at, left < CONTROL_CHUNK ? left : CONTROL_CHUNK);
        }
        for (uint32_t i = 0; i < loop->carried; i++) {
            const tn_operand *to = &flow->executor->operands[loop->body->inputs[loop->formal + i]];
            uint64_t end = sizes[i] < to->room ? sizes[i] : to->room;
            uint64_t left = at < end ? end - at : 0;
            if (left > 0)
                memcpy((uint8_t *)to->data + at, chunks[i],
                       left < CONTROL_CHUNK ? left : CONTROL_CHUNK);
        }
    }
    for (uint32_t i = 0; i < loop->carried; i++)
        TN_TRY(control_shape(flow, loop->body->inputs[loop->formal + i], shapes[i], ranks[i]));
    return TN_OK;
}

/* Prepares the next iteration: sets counter and condition of a Loop, or copies the slices of a
 * Scan. */
static tn_status control_prepare_turn(tn__flow *flow, const tn__control *control,
                                      const control_loop *loop) {
    if (loop->formal == 0) return control_scan_inputs(flow, control, loop);
    *(int64_t *)flow->executor->operands[loop->body->inputs[0]].data = (int64_t)control->trips;
    *(uint8_t *)flow->executor->operands[loop->body->inputs[1]].data = 1;
    return TN_OK;
}

static tn_status control_loop_begin(tn__flow *flow, tn__control *control) {
    control_loop loop = control_loop_of(flow, control);
    const tn_op *op = loop.op;
    control->trips = 0;
    control->most = UINT64_MAX;
    control->going = true;
    if (loop.formal > 0) {
        if (op->input_count > 0 && op->inputs[0] != TN_NONE) {
            int64_t most = tn__operand_int(&flow->executor->operands[op->inputs[0]], 0);
            control->most = most > 0 ? (uint64_t)most : 0;
        }
        if (op->input_count > 1 && op->inputs[1] != TN_NONE)
            control->going = tn__operand_int(&flow->executor->operands[op->inputs[1]], 0) != 0;
    } else {
        const tn_operand *first = &flow->executor->operands[op->inputs[loop.carried]];
        uint32_t axis = 0;
        TN_TRY(control_axis(flow, control_ints(op, "scan_input_axes", 0), first->rank, &axis));
        control->most = (uint64_t)first->shape[axis];
    }
    for (uint32_t i = 0; i < loop.carried; i++)
        TN_TRY(control_copy(flow, loop.body->inputs[loop.formal + i], op->inputs[loop.given + i]));
    control->going = control->going && control->most > 0;
    if (control->going) return control_prepare_turn(flow, control, &loop);
    /* no iteration runs: outputs that gather one value per iteration have extent 0 */
    for (uint32_t k = loop.carried; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t axis = 0;
        if (loop.formal == 0)
            TN_TRY(control_axis(flow, control_ints(op, "scan_output_axes", k - loop.carried),
                                flow->executor->operands[op->outputs[k]].rank, &axis));
        flow->executor->operands[op->outputs[k]].shape[axis] = 0;
    }
    return TN_OK;
}

/* Ends an iteration: gathers its results, and prepares the next iteration if there is one. */
static tn_status control_loop_turn(tn__flow *flow, tn__control *control) {
    control_loop loop = control_loop_of(flow, control);
    bool going = true;
    if (loop.formal > 0)
        going = tn__operand_int(&flow->executor->operands[loop.body->outputs[0]], 0) != 0;
    TN_TRY(control_gather(flow, control, &loop));
    control->trips++;
    control->going = going && control->trips < control->most;
    if (!control->going) return TN_OK;
    TN_TRY(control_carry(flow, &loop));
    return control_prepare_turn(flow, control, &loop);
}

/* Copies the results of the last iteration to the operator's outputs. They are read from the
 * tensors that the block returned, not from the carried inputs: a value that grows in each
 * iteration may be too large for its input when the last iteration returns it. */
static tn_status control_loop_results(tn__flow *flow, const tn__control *control) {
    control_loop loop = control_loop_of(flow, control);
    const tn_tensor_id *results =
        control->trips > 0 ? loop.body->outputs + loop.next : loop.body->inputs + loop.formal;
    for (uint32_t i = 0; i < loop.carried && i < loop.op->output_count; i++)
        TN_TRY(control_copy(flow, loop.op->outputs[i], results[i]));
    return TN_OK;
}

/* --- functions that the loop over the instructions (walk.c) calls --- */

static bool control_repeats(const tn__flow *flow, const tn__control *control) {
    return flow->regions[control->first_region].repeats;
}

tn_status tn__control_begin(tn__flow *flow, uint32_t index, uint32_t *region) {
    tn__control *control = &flow->controls[index];
    *region = TN_NONE;
    if (!control_repeats(flow, control)) {
        TN_TRY(control_branch(flow, control, region));
        const tn_region *taken = &flow->regions[*region];
        if (taken->first == taken->last) *region = TN_NONE;
        return TN_OK;
    }
    const tn_region *body = &flow->regions[control->first_region];
    TN_TRY(control_loop_begin(flow, control));
    while (control->going && body->first == body->last) TN_TRY(control_loop_turn(flow, control));
    if (control->going) *region = control->first_region;
    return TN_OK;
}

tn_status tn__control_turn(tn__flow *flow, uint32_t index, bool *again) {
    tn__control *control = &flow->controls[index];
    *again = false;
    if (!control_repeats(flow, control)) return control_branch_results(flow, control);
    TN_TRY(control_loop_turn(flow, control));
    *again = control->going;
    return TN_OK;
}

tn_status tn__control_end(tn__flow *flow, uint32_t index) {
    tn__control *control = &flow->controls[index];
    if (control_repeats(flow, control)) return control_loop_results(flow, control);
    const tn_region *taken = &flow->regions[control->ran];
    return taken->first == taken->last ? control_branch_results(flow, control) : TN_OK;
}
