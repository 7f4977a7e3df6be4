/* average.c - changes the program of a training step so that gradients are averaged over all
 * data-parallel ranks. Gradients are in buckets, each of which is sent as a whole.
 *
 *     stream 0   ... APPLY bucket.0   APPLY ...   APPLY bucket.1   updates by bucket.0   ...
 *     stream 1              REDUCE bucket.0 ─────────▶ REDUCE bucket.1 ────▶
 *
 * If the optimizer state is divided among the ranks (graph/train/buckets.c), a rank needs only the
 * mean of its own part of a bucket. Then a SCATTER replaces the REDUCE. It writes into the bucket,
 * or, if gradients are divided as well, into a separate tensor, so that the bucket can be released.
 * After the rank has updated its part of the parameters, a GATHER sends this part to all other
 * ranks.
 *
 * A REDUCE begins when its bucket is complete. Later instructions that use the bucket, on any
 * stream, wait for it. Instructions that need its result are held back until the REDUCE of the next
 * bucket is issued, so that the transfer can run while the next bucket is computed. Instructions
 * that depend on a held instruction are held as well; held instructions keep their order. If the
 * program already has several streams (tn_fit adds streams for copies), nothing is held back,
 * because the signals between the streams would have to be considered.
 *
 * Cost: O(instructions + operands), memory O(tensors).
 */
#include <tenure/train.h>
#include "graph/attr.h"
#include "graph/op.h"
#include "run/dist/world.h"

typedef struct average_state {
    const tn_program *program;
    const tn_graph *graph;
    const tn_instruction *from;
    /* `stream`: the stream for transfers; `signal`: the last signal number that is used */
    uint32_t count, group, stream, signal;
    tn_shard shard;
    /* for each bucket (a buffer of several gradients): the section of it that this rank keeps;
     * TN_NONE for other tensors */
    tn_tensor_id *part;
    /* whether instructions may be held back, that is, issued later than in the given program */
    bool holds;
    tn__arena arena;
    tn_error *error;
    tn_instruction *to; /* the instructions of the new program */
    uint32_t made;
    tn_instruction *held;
    uint32_t held_count;
    /* for each instruction of the given program, and for its end: the index in the new program; not
     * valid if instructions may be held back */
    uint32_t *at;
    uint32_t *given; /* for each tensor: the signal of its REDUCE or SCATTER; 0: no signal */
    /* for each tensor, bit s: stream s has waited for the signal of its REDUCE or SCATTER */
    uint64_t *waited;
    /* `reads`: for each tensor, whether a held-back instruction reads it; `defines`: whether a
     * held-back instruction defines or changes it */
    uint8_t *reads, *defines;
} average_state;

static bool average_is_bucket(const average_state *it, const tn_instruction *in) {
    return in->opcode == TN_APPLY && tn__op_has(it->graph, in->op, TN_RULE_SPACED);
}

static bool average_is(const average_state *it, const tn_instruction *in, const char *type) {
    if (in->opcode != TN_APPLY) return false;
    const tn_op *op = tn_graph_op(it->graph, in->op);
    return strcmp(op->type, type) == 0 && strcmp(op->domain, "tenure") == 0;
}

/* Whether the instruction is an optimizer's update of only this rank's range of a tensor; other
 * ranks update the other ranges. */
static bool average_is_update(const average_state *it, const tn_instruction *in) {
    return in->opcode == TN_APPLY && tn__attr(tn_graph_op(it->graph, in->op), "from") != NULL &&
           (tn_op_changes(it->graph, in->op) & 1) != 0;
}

static void average_put(average_state *it, const tn_instruction *in) { it->to[it->made++] = *in; }

/* --- the tensors that an instruction uses --- */

/* Calls `see` for each tensor that an instruction uses. `writes` is true if the instruction
 * defines, changes or releases the tensor. Returns whether a call returned true. */
static bool average_touch(average_state *it, const tn_instruction *in,
                          bool (*see)(average_state *it, tn_tensor_id id, bool writes)) {
    bool any = false;
    if (in->opcode == TN_APPLY) {
        tn_op_form form = tn_op_form_of(it->graph, in->op, in->again);
        for (uint32_t i = 0; i < form.input_count; i++) {
            tn_tensor_id id = tn_op_form_input(&form, i);
            if (id != TN_NONE) any |= see(it, id, i < 64 && (form.changes >> i & 1));
        }
        for (uint32_t k = 0; k < form.output_count; k++)
            if (form.op->outputs[k] != TN_NONE) any |= see(it, form.op->outputs[k], true);
        return any;
    }
    tn_effects does = tn_instruction_effects(in);
    const tn_tensor_id writes[] = {does.changes, does.defines, does.releases};
    if (does.reads != TN_NONE) any |= see(it, does.reads, false);
    for (uint32_t i = 0; i < 3; i++)
        if (writes[i] != TN_NONE) any |= see(it, writes[i], true);
    return any;
}

/* --- holding instructions back --- */

static bool average_is_held_by(average_state *it, tn_tensor_id id, bool writes) {
    return it->given[id] != 0 || it->defines[id] || (writes && it->reads[id]);
}

static bool average_note(average_state *it, tn_tensor_id id, bool writes) {
    it->reads[id] = 1;
    if (writes) it->defines[id] = 1;
    return true;
}

/* --- waiting --- */

static void average_wait(average_state *it, tn_instruction *in, uint32_t signal) {
    tn_instruction wait = TN_INSTRUCTION_INIT;
    bool own = in->opcode == TN_APPLY || in->opcode == TN_WAIT;
    if (in->wait == 0 && own) {
        in->wait = signal;
        return;
    }
    wait.opcode = TN_WAIT;
    wait.stream = in->stream;
    wait.wait = signal;
    average_put(it, &wait);
}

/* Makes an instruction wait for the REDUCE of a bucket (a buffer of several gradients) that it
 * uses, if its stream has not waited for it yet. */
static void average_wait_for(average_state *it, tn_instruction *in, tn_tensor_id id) {
    uint64_t mine = UINT64_C(1) << in->stream;
    if (id == TN_NONE || it->given[id] == 0 || (it->waited[id] & mine)) return;
    it->waited[id] |= mine;
    average_wait(it, in, it->given[id]);
}

/* Adds a GATHER that sends the updated range of a parameter to all ranks. */
static void average_spread(average_state *it, const tn_instruction *update) {
    tn_instruction gather = TN_INSTRUCTION_INIT;
    gather.opcode = TN_GATHER;
    gather.tensor = tn_graph_op(it->graph, update->op)->inputs[0];
    gather.stream = it->stream;
    gather.wait = update->signal;
    gather.group = it->group;
    average_put(it, &gather);
}

static void average_emit(average_state *it, const tn_instruction *from) {
    tn_instruction in = *from;
    if (in.opcode == TN_APPLY) {
        tn_op_form form = tn_op_form_of(it->graph, in.op, in.again);
        for (uint32_t i = 0; i < form.input_count; i++)
            average_wait_for(it, &in, tn_op_form_input(&form, i));
    } else {
        tn_effects does = tn_instruction_effects(&in);
        average_wait_for(it, &in, does.reads);
        average_wait_for(it, &in, does.releases);
    }
    if (average_is_update(it, &in)) {
        if (in.signal == 0) in.signal = ++it->signal;
        average_put(it, &in);
        average_spread(it, &in);
    } else {
        average_put(it, &in);
    }
}

/* --- buckets --- */

static void average_let_go(average_state *it, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) average_emit(it, &it->held[i]);
    it->held_count -= count;
    memmove(it->held, it->held + count, it->held_count * sizeof *it->held);
    size_t tensors = tn_graph_tensor_count(it->graph);
    memset(it->reads, 0, tensors);
    memset(it->defines, 0, tensors);
}

static void average_bucket(average_state *it, const tn_instruction *from) {
    tn_instruction made = *from, reduce = TN_INSTRUCTION_INIT;
    if (made.signal == 0) made.signal = ++it->signal;
    average_emit(it, &made);
    reduce.opcode = it->shard == TN_SHARD_NONE ? TN_REDUCE : TN_SCATTER;
    reduce.tensor = tn_graph_op(it->graph, made.op)->outputs[0];
    reduce.stream = it->stream;
    reduce.wait = made.signal;
    reduce.signal = ++it->signal;
    reduce.group = it->group;
    reduce.reduction = TN_REDUCTION_MEAN;
    if (it->shard >= TN_SHARD_GRADIENTS) reduce.other = it->part[reduce.tensor];
    average_put(it, &reduce);
    average_let_go(it, it->held_count);
    tn_tensor_id mean = reduce.other != TN_NONE ? reduce.other : reduce.tensor;
    it->given[mean] = reduce.signal;
    it->waited[mean] = UINT64_C(1) << it->stream;
}

/* Replaces the operator that takes a rank's part out of a bucket. The SCATTER has already written
 * the part, so a stream that would have waited for the operator waits for the SCATTER instead. */
static void average_part(average_state *it, const tn_instruction *in) {
    tn_instruction wait = TN_INSTRUCTION_INIT;
    tn_tensor_id part = tn_graph_op(it->graph, in->op)->outputs[0];
    wait.opcode = TN_WAIT;
    wait.stream = in->stream;
    wait.wait = in->wait;
    if (in->wait != 0) average_put(it, &wait);
    wait.wait = it->given[part];
    wait.signal = in->signal;
    if (in->signal != 0) average_put(it, &wait);
}

static void average_walk(average_state *it) {
    for (uint32_t s = 0; s < it->count; s++) {
        const tn_instruction *in = &it->from[s];
        it->at[s] = it->made;
        if (average_is_bucket(it, in)) {
            if (average_touch(it, in, average_is_held_by)) average_let_go(it, it->held_count);
            average_bucket(it, in);
        } else if (it->shard >= TN_SHARD_GRADIENTS && average_is(it, in, "ShardPart")) {
            average_part(it, in);
        } else if (it->holds && average_touch(it, in, average_is_held_by)) {
            (void)average_touch(it, in, average_note);
            it->held[it->held_count++] = *in;
        } else {
            average_emit(it, in);
        }
    }
    average_let_go(it, it->held_count);
    it->at[it->count] = it->made;
}

/* --- the new program as a whole --- */

/* Changes the regions of control flow to the new indices of their instructions. */
static tn_status average_regions(average_state *it, tn_region **regions) {
    uint32_t count = tn_program_region_count(it->program);
    *regions =
        tn__arena_copy(&it->arena, tn_program_regions(it->program), count * sizeof **regions);
    if (count > 0 && *regions == NULL) return tn__no_memory(it->error, "blocks");
    for (uint32_t r = 0; r < count; r++) {
        (*regions)[r].first = it->at[(*regions)[r].first];
        (*regions)[r].last = it->at[(*regions)[r].last];
    }
    return TN_OK;
}

/* Finds the part of each bucket that this rank keeps. Fails unless the graph was made for
 * it->shard: either all buckets have a part, or none has. */
static tn_status average_parts(average_state *it, uint32_t buckets) {
    uint32_t tensors = tn_graph_tensor_count(it->graph), found = 0;
    it->part = tn__arena_array(&it->arena, tensors, sizeof *it->part);
    if (it->part == NULL) return tn__no_memory(it->error, "a program of several ranks");
    for (uint32_t i = 0; i < tensors; i++) it->part[i] = TN_NONE;
    for (uint32_t s = 0; s < it->count; s++) {
        if (!average_is(it, &it->from[s], "ShardPart")) continue;
        const tn_op *op = tn_graph_op(it->graph, it->from[s].op);
        found += it->part[op->inputs[0]] == TN_NONE;
        it->part[op->inputs[0]] = op->outputs[0];
    }
    if (found == (it->shard == TN_SHARD_NONE ? 0 : buckets)) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID,
            "the step was made for ranks that divide other things among them than '%s' "
            "(tn_train_options.shard)",
            tn_shard_name(it->shard));
}

static tn_status average_begin(average_state *it, uint32_t *buckets) {
    uint32_t tensors = tn_graph_tensor_count(it->graph), last = 0, updates = 0;
    bool communicates = false;
    for (uint32_t s = 0; s < it->count; s++) {
        const tn_instruction *in = &it->from[s];
        if (in->stream > last) last = in->stream;
        if (in->signal > it->signal) it->signal = in->signal;
        communicates = communicates || tn_opcode_facts_of(in->opcode)->blocks == TN_BLOCKS_PEER;
        *buckets += average_is_bucket(it, in);
        updates += average_is_update(it, in);
    }
    it->stream = last + 1;
    it->holds = last == 0 && tn_program_region_count(it->program) == 0;
    /* a program that communicates may be a pipeline stage without parameters to train, and needs no
     * buckets */
    if (*buckets == 0 && !communicates)
        TN_FAIL(it->error, TN_E_INVALID,
                "there is nothing to be averaged: gradients lie in no buckets "
                "(tn_train_options.bucket_bytes)");
    if (it->stream >= TN_STREAM_MAX || it->signal > UINT32_MAX - 2 * *buckets - updates)
        TN_FAIL(it->error, TN_E_INVALID, "there is no stream left for other ranks");
    TN_TRY(average_parts(it, *buckets));
    size_t room = (size_t)it->count + updates + *buckets * (size_t)(3 + it->stream);
    it->to = tn__arena_array(&it->arena, room, sizeof *it->to);
    it->held = tn__arena_array(&it->arena, (size_t)it->count + 1, sizeof *it->held);
    it->given = tn__arena_array(&it->arena, tensors, sizeof *it->given);
    it->at = tn__arena_array(&it->arena, (size_t)it->count + 1, sizeof *it->at);
    it->waited = tn__arena_array(&it->arena, tensors, sizeof *it->waited);
    it->reads = tn__arena_array(&it->arena, tensors, 1);
    it->defines = tn__arena_array(&it->arena, tensors, 1);
    bool all = it->at && it->to && it->held && it->given && it->waited && it->reads && it->defines;
    return all ? TN_OK : tn__no_memory(it->error, "a program of several ranks");
}

tn_status tn__program_average(const tn_program *program, uint32_t group, tn_shard shard,
                              tn_program **averaged, tn_error *error) {
    uint32_t encoded_count, buckets = 0;
    tn_region *regions = NULL;
    (void)tn_program_encoded(program, &encoded_count);
    if (encoded_count > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "a program that keeps tensors encoded is not made one of several ranks");
    average_state it = {.program = program,
                        .graph = tn_program_graph(program),
                        .from = tn_program_instructions(program),
                        .count = tn_program_count(program),
                        .group = group,
                        .shard = shard,
                        .error = error};
    tn__arena_init(&it.arena, tn_graph_context(it.graph));
    tn_status status = average_begin(&it, &buckets);
    if (status == TN_OK) {
        average_walk(&it);
        status = average_regions(&it, &regions);
    }
    if (status == TN_OK)
        status = tn_program_from(it.graph, it.to, it.made, regions,
                                 tn_program_region_count(program), averaged, error);
    tn__arena_release(&it.arena);
    return status;
}

tn_status tn_program_average(const tn_program *program, uint32_t group, tn_program **averaged,
                             tn_error *error) {
    return tn__program_average(program, group, TN_SHARD_NONE, averaged, error);
}
