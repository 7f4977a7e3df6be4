/* stages.c - divides a training step into the parts of a pipeline: operators and tensors.
 *
 * Operators that depend on samples are divided in their order into consecutive parts. The
 * division minimises the work of the part with the most work. Among divisions within an eighth
 * of that minimum it takes the one with the fewest bytes between parts. Work is that of
 * graph/takes.h. Operators that are the same for all micro-batches belong to the first part that
 * reads their results.
 *
 * Every tensor of the step has a home: forward tensors with their operator, gradients with the
 * operator that their rule differentiates, updates with their parameter. Passes that rewrite the
 * step keep these ids, so homes hold for their results, too.
 *
 * Cost: O(parts x operators + operands).
 */
#include "graph/attr.h"
#include "graph/takes.h"
#include "graph/train/frame.h"

/* --- dividing the model into the parts of a pipeline --- */

typedef struct divide_state {
    tn__train *it;
    tn_op_id *ops; /* [count] the operators to divide, in their order */
    uint32_t count, parts;
    /* [count + 1] sum of the work of all operators before each position in the order */
    double *work;
    /* [count + 1] bytes of the tensors that are made before each position in the order and read
     * after it */
    double *crosses;
    /* [(parts + 1) x (count + 1)] fewest bytes sent between stages if the operators before a
     * position are divided into this number of stages */
    double *best;
    /* [(parts + 1) x (count + 1)] position at which the last stage of that division begins */
    uint32_t *from;
    /* [count + 1] positions that may still be the best beginning of the last stage */
    uint32_t *waiting;
} divide_state;

static double divide_work(const tn_graph *graph, tn_op_id id) {
    const tn__machine work = {1, 1.0 / TN__PLAIN_RATIO}; /* the unit of work is one operation */
    /* the start of an operator counts as one operation */
    return tn__op_takes(graph, id, &work, NULL) + 1;
}

/* Whether this number of parts is enough if no part has more work than `most`. */
static bool divide_fits(const divide_state *state, double most) {
    uint32_t parts = 1;
    double begun = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        if (state->work[i + 1] - begun <= most) continue;
        begun = state->work[i];
        if (state->work[i + 1] - begun > most || ++parts > state->parts) return false;
    }
    return true;
}

/* The lowest possible work of the part with the most work. */
static double divide_least(const divide_state *state) {
    double low = 0, high = state->work[state->count];
    for (uint32_t i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(divide_fits(state, middle) ? &high : &low) = middle;
    }
    return high;
}

/* The bytes of a tensor that are sent between two parts. If ranks share a part of the model, each
 * of them sends its share of a tensor that all of them have. */
static double divide_bytes(const tn__train *it, tn_tensor_id id) {
    double bytes = (double)tn_graph_tensor(it->model, id)->bytes;
    bool alike = it->cuts != NULL && id < tn_graph_tensor_count(it->whole) &&
                 tn__train_cut_of(it, id) == NULL;
    return alike ? bytes / it->options.tensor_ranks : bytes;
}

/* Sums the bytes that cross each position: a tensor crosses all positions between its producer and
 * its last reader. */
static tn_status divide_crossing(const divide_state *state) {
    tn__train *it = state->it;
    uint32_t *last = tn__arena_array(&it->arena, it->once, sizeof *last);
    if (last == NULL) return tn__no_memory(it->error, "parts of a pipeline");
    for (uint32_t i = 0; i < state->count; i++) {
        const tn_op *op = tn_graph_op(it->model, state->ops[i]);
        for (uint32_t n = 0; n < op->input_count; n++)
            if (op->inputs[n] != TN_NONE) last[op->inputs[n]] = i;
    }
    for (uint32_t i = 0; i < state->count; i++) {
        const tn_op *op = tn_graph_op(it->model, state->ops[i]);
        for (uint32_t k = 0; k < op->output_count; k++) {
            tn_tensor_id id = op->outputs[k];
            if (id == TN_NONE || last[id] <= i) continue;
            double bytes = divide_bytes(it, id);
            state->crosses[i + 1] += bytes;
            state->crosses[last[id] + 1] -= bytes;
        }
    }
    for (uint32_t i = 0; i < state->count; i++) state->crosses[i + 1] += state->crosses[i];
    return TN_OK;
}

/* Adds one part: finds the best begin for each end, with at most `most` work in between. Candidates
 * are kept in the order of their positions; the best one is first. */
static void divide_add(const divide_state *state, uint32_t part, double most) {
    size_t row = state->count + 1;
    const double *before = state->best + (part - 1) * row;
    double *best = state->best + part * row;
    uint32_t first = 0, last = 0, *waiting = state->waiting;
    best[0] = INFINITY;
    for (uint32_t i = 1; i <= state->count; i++) {
        double bytes = before[i - 1] + state->crosses[i - 1];
        while (last > first &&
               before[waiting[last - 1]] + state->crosses[waiting[last - 1]] >= bytes)
            last--;
        waiting[last++] = i - 1;
        while (first < last && state->work[i] - state->work[waiting[first]] > most) first++;
        best[i] = INFINITY;
        if (first == last) continue;
        best[i] = before[waiting[first]] + state->crosses[waiting[first]];
        state->from[part * row + i] = waiting[first];
    }
}

static void divide_take(const divide_state *state) {
    size_t row = state->count + 1;
    uint32_t end = state->count;
    for (uint32_t part = state->parts; part > 0; part--) {
        uint32_t begin = state->from[part * row + end];
        for (uint32_t i = begin; i < end; i++) state->it->part_of[state->ops[i]] = part - 1;
        end = begin;
    }
}

static tn_status divide_all(divide_state *state) {
    size_t row = (size_t)state->count + 1;
    TN_TRY(divide_crossing(state));
    for (uint32_t i = 0; i < state->count; i++)
        state->work[i + 1] = state->work[i] + divide_work(state->it->model, state->ops[i]);
    double most = divide_least(state) * 1.125;
    for (size_t i = 1; i < row; i++) state->best[i] = INFINITY;
    for (uint32_t part = 1; part <= state->parts; part++) divide_add(state, part, most);
    divide_take(state);
    return TN_OK;
}

static tn_status divide_room(divide_state *state) {
    tn__train *it = state->it;
    size_t row = (size_t)state->count + 1, cells = row * (state->parts + 1);
    state->work = tn__arena_array(&it->arena, row, sizeof *state->work);
    state->crosses = tn__arena_array(&it->arena, row, sizeof *state->crosses);
    state->best = tn__arena_array(&it->arena, cells, sizeof *state->best);
    state->from = tn__arena_array(&it->arena, cells, sizeof *state->from);
    state->waiting = tn__arena_array(&it->arena, row, sizeof *state->waiting);
    bool all = state->work != NULL && state->crosses != NULL && state->best != NULL &&
               state->from != NULL && state->waiting != NULL;
    return all ? TN_OK : tn__no_memory(it->error, "parts of a pipeline");
}

/* --- operators whose results all micro-batches share --- */

bool tn__train_is_shared(const tn__train *it, const tn_op *op) {
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) return it->shared[op->outputs[k]];
    return false;
}

/* Assigns shared operators to the first part that reads their results; readers come later in the
 * order. */
static tn_status stages_share(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    uint32_t *first = tn__arena_array(&it->arena, it->once, sizeof *first);
    if (first == NULL) return tn__no_memory(it->error, "parts of a pipeline");
    for (tn_tensor_id id = 0; id < it->once; id++) first[id] = TN_NONE;
    for (uint32_t p = block->op_count; p-- > 0;) {
        const tn_op *op = tn_graph_op(it->model, block->ops[p]);
        uint32_t part = TN_NONE;
        if (!it->runs[block->ops[p]]) continue;
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE && first[op->outputs[k]] < part)
                part = first[op->outputs[k]];
        if (!tn__train_is_shared(it, op)) part = it->part_of[block->ops[p]];
        if (part == TN_NONE) part = 0;
        it->part_of[block->ops[p]] = part;
        for (uint32_t i = 0; i < op->input_count; i++)
            if (op->inputs[i] != TN_NONE && part < first[op->inputs[i]])
                first[op->inputs[i]] = part;
    }
    return TN_OK;
}

tn_status tn__train_divide(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    divide_state state = {.it = it, .parts = it->options.pipeline_parts};
    state.ops = tn__arena_array(&it->arena, block->op_count, sizeof *state.ops);
    it->part_of = tn__arena_array(&it->arena, tn_graph_op_count(it->model), sizeof *it->part_of);
    if (state.ops == NULL || it->part_of == NULL)
        return tn__no_memory(it->error, "parts of a pipeline");
    for (uint32_t p = 0; p < block->op_count; p++) {
        tn_op_id id = block->ops[p];
        bool divided = it->runs[id] && !tn__train_is_shared(it, tn_graph_op(it->model, id));
        if (divided) state.ops[state.count++] = id;
    }
    if (state.count < state.parts)
        TN_FAIL(it->error, TN_E_INVALID,
                "a pipeline of %u parts is more than the model's %u operators can be divided into",
                state.parts, state.count);
    TN_TRY(divide_room(&state));
    TN_TRY(divide_all(&state));
    return stages_share(it);
}

/* --- homes --- */

tn_status tn__train_settle(tn__train *it) {
    uint32_t count = tn_graph_tensor_count(it->graph);
    if (!tn__train_is_whole(it)) return TN_OK;
    if (!tn__reserve(it->context, &it->homes, &it->home_room, (size_t)count + 1, sizeof *it->homes))
        return tn__no_memory(it->error, "parts of a pipeline");
    while (it->home_count < count) it->homes[it->home_count++] = it->home;
    return TN_OK;
}

tn_status tn__train_move(tn__train *it, tn_home home) {
    TN_TRY(tn__train_settle(it));
    it->home = home;
    return TN_OK;
}

tn_home tn__train_home_of(const tn__train *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    for (uint32_t k = 0; k < op->output_count && it->homes != NULL; k++)
        if (op->outputs[k] != TN_NONE) return it->homes[op->outputs[k]];
    return (tn_home){.of = TN_NONE};
}

tn_home tn__train_home_of_parameter(const tn__train *it, uint32_t number, bool at_once) {
    tn_tensor_id id = it->made.parameters[number].parameter;
    if (!tn__train_is_whole(it)) return it->home;
    tn_home home = {.of = id, .way = TN_WAY_UPDATE, .readers = it->homes[id].readers};
    while (home.part + 1 < it->options.pipeline_parts && !(home.readers >> home.part & 1))
        home.part++;
    bool one = (home.readers & (home.readers - 1)) == 0;
    if (at_once && one) home.way = TN_WAY_BACKWARD, home.round = it->rounds - 1;
    return home;
}

/* --- describing the parts for the caller --- */

typedef struct stages_made {
    tn_stages told;
    tn__arena arena;
} stages_made;

static tn_status stages_rounds(const tn__train *it, stages_made *made) {
    const tn_block *block = tn_graph_block(it->model, 0);
    uint32_t once = 0;
    for (uint32_t i = 0; i < block->input_count; i++) once += block->inputs[i] < it->once;
    tn_round *list = tn__arena_copy(&made->arena, it->round_list, it->rounds * sizeof *list);
    tn_tensor_id *inputs = tn__arena_array(&made->arena, (size_t)it->rounds * once, sizeof *inputs);
    if (list == NULL || inputs == NULL) return tn__no_memory(it->error, "micro-batches");
    for (uint32_t r = 0; r < it->rounds; r++) {
        list[r].inputs = inputs;
        for (uint32_t i = 0; i < once; i++) *inputs++ = tn__train_in_round(it, block->inputs[i], r);
    }
    made->told.round = list;
    made->told.input_count = once;
    return TN_OK;
}

static bool stages_says_part(const tn_op *op) {
    bool says = false;
    for (uint32_t i = 0; i < op->attr_count; i++)
        says = says || tn__attr_of_ranks(op, op->attrs[i].name) == TN__ATTR_OF_RANK;
    return says;
}

/* Whether the tensor is a constant that was made for a part of the model or for a gradient: it may
 * hold the position at which a rank's part begins, and so differ between ranks. */
static bool stages_is_bound(const tn__train *it, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
    bool made = id >= it->tensors || tn__train_in_first(it, id) >= tn_graph_tensor_count(it->whole);
    return made && tensor->producer == TN_NONE && tensor->kind == TN_KIND_CONSTANT;
}

/* Whether an operator gives the same result on all ranks: its inputs are the same on all of them,
 * and it neither draws random numbers nor depends on the rank; or it combines the data of all
 * ranks. */
static bool stages_same(const tn__train *it, const bool *alike, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    const uint32_t one = TN_RULE_RANKS_SUM | TN_RULE_RANKS_MAX | TN_RULE_RANKS_WHOLE;
    if (tn__op_has(it->graph, id, one)) return true;
    bool same = !stages_says_part(op) && !tn__op_draws(it->graph, id);
    for (uint32_t i = 0; i < op->input_count && same; i++) {
        tn_tensor_id in = op->inputs[i];
        if (in != TN_NONE) same = alike[in] && !(tn__op_is(op, "Slice") && stages_is_bound(it, in));
    }
    return same;
}

/* Whether the tensor is a trained parameter that is stored in a shard. */
static bool stages_is_of_shard(const tn__train *it, tn_tensor_id id) {
    uint32_t number = id < it->tensors ? it->number[id] : TN_NONE;
    return number != TN_NONE && it->made.parameters[number].shard != TN_NONE;
}

/* Finds the tensors that are equal on all ranks: at first the samples and the tensors that are not
 * divided. */
static tn_status stages_alike(const tn__train *it, stages_made *made) {
    const tn_block *block = tn_graph_block(it->graph, 0);
    if (it->cuts == NULL) return TN_OK;
    bool *alike = tn__arena_array(&made->arena, it->home_count, sizeof *alike);
    if (alike == NULL) return tn__no_memory(it->error, "parts of a pipeline");
    for (tn_tensor_id id = 0; id < it->home_count; id++)
        alike[id] =
            tn_graph_tensor(it->graph, id)->producer == TN_NONE && tn__train_cut_of(it, id) == NULL;
    for (uint32_t p = 0; p < block->op_count; p++) {
        const tn_op *op = tn_graph_op(it->graph, block->ops[p]);
        bool same = stages_same(it, alike, block->ops[p]);
        for (uint32_t k = 0; k < op->output_count; k++) {
            tn_tensor_id id = op->outputs[k];
            if (id == TN_NONE) continue;
            alike[id] = stages_is_of_shard(it, id) ? tn__train_cut_of(it, id) == NULL : same;
        }
    }
    made->told.alike = alike;
    return TN_OK;
}

static tn_status stages_fill(tn__train *it, stages_made *made) {
    TN_TRY(tn__train_settle(it));
    made->told.parts = it->options.pipeline_parts;
    made->told.tensor_ranks = it->options.tensor_ranks > 1 ? it->options.tensor_ranks : 1;
    made->told.tensor_rank = it->options.tensor_ranks > 1 ? it->options.tensor_rank : 0;
    made->told.rounds = it->rounds;
    made->told.homes = tn__arena_copy(&made->arena, it->homes, it->home_count * sizeof *it->homes);
    made->told.tensors = it->home_count;
    if (made->told.homes == NULL) return tn__no_memory(it->error, "parts of a pipeline");
    TN_TRY(stages_alike(it, made));
    return stages_rounds(it, made);
}

tn_status tn__train_stages(tn__train *it) {
    if (!tn__train_is_whole(it)) return TN_OK;
    stages_made *made = tn__alloc_array(it->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(it->error, "parts of a pipeline");
    /* uses its own arena, because the model may be destroyed before the result */
    tn__arena_init(&made->arena, tn_graph_context(it->graph));
    it->made.stages = &made->told;
    return stages_fill(it, made);
}

void tn__stages_destroy(const tn_context *context, const tn_stages *stages) {
    if (stages == NULL) return;
    /* the cast is valid, because the public struct is the first member of stages_made */
    stages_made *made = (stages_made *)(uintptr_t)stages;
    tn__arena_release(&made->arena);
    tn__free(context, made, sizeof *made);
}
