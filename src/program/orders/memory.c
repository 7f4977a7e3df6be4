/* memory.c - finds an order with the lowest memory at its worst step.
 *
 * The objective is the peak of live bytes, after views and in-place (order.h). The search has four
 * stages:
 *
 *   start    three orders: the file's, a greedy one, and merged hills and valleys. In each, steps
 *            that free at least the bytes they make move forward, and steps that make at least
 *            the bytes they free move back.
 *   cuts     the minimum cut of the worst step gives the best set of nodes to run before it. That
 *            set moves to the front. The value of the cut is a lower bound, too. This is repeated
 *            while the steps above the bound get fewer or lower; a fixed number of moves may make
 *            the order worse in between.
 *   beam     if a gap is left, a beam search keeps the best states of each step.
 *   exact    a complete search for orders below the best peak so far visits up to a limit of
 *            states.
 *
 * The search ends as soon as the peak equals the bound: no other order has a lower peak (proved).
 * On real networks this is nearly always the case at once.
 *
 * Cost: near-linear in operands for the start; a maximum flow per cut, counted in arcs against a
 * limit that grows with the block; beam and exact search count states. All limits count work,
 * never time. Source: submodular cuts as lower bounds and moves: ours. Downsets as states: Kahn &
 * Saks, 1984. The complete search is a bottleneck form of Dijkstra's. Early updates: MODeL
 * (Steiner et al., ICML 2023).
 */
#include "program/order/order.h"

/* limit of the sum of all bytes: differences then fit into int64, and arcs of infinite capacity are
 * larger */
#define MEMORY_BYTES_MAX (UINT64_MAX / 8)
/* number of moves (of the nodes of a cut) in a row that may bring no improvement */
#define MEMORY_PATIENCE 20u
/* limit of the cuts that are computed to raise the bound if a gap is left */
#define MEMORY_CUTS 64u
#define MEMORY_LOOKS 10000000u    /* number of steps that each search may visit */
#define MEMORY_BEAM 2000u         /* maximum number of states per step of a beam */
#define MEMORY_BEAMS 4u           /* number of beams that run one after the other */
#define MEMORY_GREEDY_MAX 200000u /* operators */

typedef struct memory_state {
    tn__order_model model;
    tn__order_walk walk;
    uint64_t state_limit; /* limit of the states that the complete search may visit */
    /* true: among orders with the best peak, one with low memory at other steps is preferred */
    bool lean;
    uint32_t *best, *order, *spare; /* [nodes] the best order, the current one, working memory */
    uint8_t *inside;
    uint64_t *costs;
    uint64_t peak, bound; /* peak of the best order, and the lower bound of all orders */
    uint64_t work;        /* number of arcs that computations of minimum cuts may still visit */
} memory_state;

/* --- the best order and the end --- */

static bool memory_done(const memory_state *memory) { return memory->peak <= memory->bound; }

/* Records `order` as the best if its peak is lower. */
static void memory_offer(memory_state *memory) {
    uint64_t peak = tn__order_costs(&memory->walk, memory->order, memory->costs);
    if (peak >= memory->peak) return;
    memory->peak = peak;
    memcpy(memory->best, memory->order, memory->model.count * sizeof *memory->best);
}

static uint32_t memory_worst(const memory_state *memory) {
    uint32_t worst = 0;
    for (uint32_t i = 1; i < memory->model.count; i++)
        if (memory->costs[i] > memory->costs[worst]) worst = i;
    return worst;
}

/* --- cuts --- */

/* Sums, over all steps of the current order, the live bytes above the lower bound. */
static double memory_excess(const memory_state *memory) {
    double excess = 0;
    for (uint32_t i = 0; i < memory->model.count; i++)
        if (memory->costs[i] > memory->bound) excess += (double)(memory->costs[i] - memory->bound);
    return excess;
}

/* Reorders the current order: the nodes of `inside` first, then `node`, then all others; each part
 * keeps its order. */
static void memory_partition(memory_state *memory, uint32_t node) {
    uint32_t at = 0, count = memory->model.count;
    for (uint32_t i = 0; i < count; i++)
        if (memory->inside[memory->order[i]]) memory->spare[at++] = memory->order[i];
    memory->spare[at++] = node;
    for (uint32_t i = 0; i < count; i++)
        if (!memory->inside[memory->order[i]] && memory->order[i] != node)
            memory->spare[at++] = memory->order[i];
    memcpy(memory->order, memory->spare, count * sizeof *memory->order);
}

static void memory_settle(memory_state *memory) {
    tn__order_early(&memory->walk, memory->order, memory->spare, memory->bound);
    tn__order_late(&memory->walk, memory->order, memory->spare, memory->bound);
}

/* Computes the minimum cut of the worst step, and moves the nodes that should run before that step
 * to the front of the current order. Returns false if memory or the work limit runs out, or if the
 * cut proves that the best order is optimal. */
static bool memory_move(memory_state *memory, bool largest) {
    uint32_t node = memory->order[memory_worst(memory)];
    uint64_t bound;
    if (!tn__order_cut(&memory->model, node, largest, memory->inside, &bound, &memory->work))
        return false;
    if (bound > memory->bound) memory->bound = bound;
    if (memory_done(memory)) return false;
    memory_partition(memory, node);
    memory_settle(memory);
    return true;
}

/* Makes moves, beginning with `order`, until MEMORY_PATIENCE moves have brought no improvement. */
static void memory_descend(memory_state *memory) {
    double least = 0;
    uint32_t patience = 0;
    memory_settle(memory);
    memory_offer(memory);
    for (uint32_t turn = 0; !memory_done(memory) && patience < MEMORY_PATIENCE; turn++) {
        if (!memory_move(memory, turn % 2 != 0)) return;
        uint64_t before = memory->peak;
        memory_offer(memory);
        double excess = memory_excess(memory);
        bool better = memory->peak < before || turn == 0 || excess < least;
        if (better) least = excess;
        patience = better ? 0 : patience + 1;
    }
}

static void memory_file_order(memory_state *memory) {
    for (uint32_t i = 0; i < memory->model.count; i++) memory->order[i] = i;
}

/* --- bounds --- */

/* The bytes that a node needs in every order: its inputs and outputs exist while it runs. */
static uint64_t memory_needs(const memory_state *memory, uint32_t node) {
    const tn__order_model *model = &memory->model;
    uint64_t bytes = model->scratch[node], taken = 0;
    for (uint32_t k = model->used_at[node]; k < model->used_at[node + 1]; k++)
        bytes += model->items[model->used[k]].bytes;
    for (uint32_t i = model->made_at[node]; i < model->made_at[node + 1]; i++)
        bytes += model->items[i].bytes;
    for (uint32_t t = model->take_at[node]; t < model->take_at[node + 1]; t++)
        if (t == model->take_at[node] || model->takes[t].output != model->takes[t - 1].output)
            taken += model->takes[t].bytes;
    return bytes - taken;
}

/* Computes the minimum cut of one node, only to raise the lower bound. */
static void memory_raise(memory_state *memory, uint32_t node) {
    uint64_t bound;
    if (tn__order_cut(&memory->model, node, false, memory->inside, &bound, &memory->work) &&
        bound > memory->bound)
        memory->bound = bound;
}

/* Begins with the file's order. Computes a first bound from the cuts of its worst step and of the
 * node that needs the most bytes. */
static void memory_first_bound(memory_state *memory) {
    uint32_t most = 0;
    memory_file_order(memory);
    memory->peak = UINT64_MAX;
    memory->bound = memory->model.floor;
    memory_offer(memory);
    memory_raise(memory, memory->best[memory_worst(memory)]);
    for (uint32_t p = 1; p < memory->model.count; p++)
        if (memory_needs(memory, p) > memory_needs(memory, most)) most = p;
    if (!memory_done(memory)) memory_raise(memory, most);
}

/* Raises the bound by the cuts of nodes with a step above it; only these can raise it. The worst of
 * them are tried first. */
static void memory_raise_more(memory_state *memory) {
    tn__order_costs(&memory->walk, memory->best, memory->costs);
    for (uint32_t turn = 0; turn < MEMORY_CUTS && !memory_done(memory); turn++) {
        uint32_t worst = memory_worst(memory);
        if (memory->costs[worst] <= memory->bound) return;
        memory_raise(memory, memory->best[worst]);
        memory->costs[worst] = 0;
    }
}

/* --- the search --- */

/* Offers a starting order as the best, and improves it by the moves of memory_descend. */
static void memory_start(memory_state *memory) {
    memory_offer(memory);
    memory_descend(memory);
}

static tn_status memory_starts(memory_state *memory, tn_error *error) {
    memory_start(memory);
    if (memory_done(memory) || memory->model.count > MEMORY_GREEDY_MAX) return TN_OK;
    if (!tn__order_greedy(&memory->walk, memory->order, memory->bound))
        return tn__no_memory(error, "the order of operators");
    memory_start(memory);
    if (memory_done(memory)) return TN_OK;
    if (!tn__order_segments(&memory->walk, memory->order, MEMORY_LOOKS))
        return tn__no_memory(error, "the order of operators");
    memory_start(memory);
    memory_raise_more(memory);
    return TN_OK;
}

/* Searches by beam below the best order's peak and improves the result by moves, as long as that
 * helps. */
static tn_status memory_beam(memory_state *memory, tn_error *error) {
    uint64_t ready = tn__order_width(&memory->walk, memory->best);
    uint64_t width = MEMORY_LOOKS / (memory->model.count * ready * (ready + 4));
    if (width > MEMORY_BEAM) width = MEMORY_BEAM;
    for (uint32_t turn = 0; turn < MEMORY_BEAMS && width >= 2 && !memory_done(memory); turn++) {
        tn__order_result result = {.peak = memory->peak, .bound = memory->bound};
        TN_TRY(tn__order_beam(&memory->walk, memory->best, &result, (uint32_t)width, MEMORY_LOOKS,
                              error));
        if (result.peak == memory->peak) return TN_OK;
        memory->peak = result.peak;
        memcpy(memory->order, memory->best, memory->model.count * sizeof *memory->order);
        memory_descend(memory);
    }
    return TN_OK;
}

static tn_status memory_exact(memory_state *memory, uint64_t share, tn_error *error) {
    uint64_t states = memory->state_limit / share;
    tn__order_result result = {.peak = memory->peak, .bound = memory->bound};
    if (states == 0 || memory_done(memory)) return TN_OK;
    TN_TRY(
        tn__order_exact(&memory->walk, memory->best, &result, states, MEMORY_LOOKS / share, error));
    memory->peak = result.peak;
    memory->bound = result.bound;
    return TN_OK;
}

/* Tries to prove or improve the best order: by a complete search with a tenth of its limits, then
 * by beam search, then by a complete search with all of them. */
static tn_status memory_close(memory_state *memory, tn_error *error) {
    TN_TRY(memory_exact(memory, 10, error));
    TN_TRY(memory_beam(memory, error));
    return memory_exact(memory, 1, error);
}

/* Among orders with the best peak, chooses one with low memory at other steps, too. A budget below
 * the peak then makes the budget passes free large tensors earlier. */
static void memory_lean(memory_state *memory) {
    memcpy(memory->order, memory->best, memory->model.count * sizeof *memory->order);
    tn__order_early(&memory->walk, memory->order, memory->spare, memory->peak);
    tn__order_late(&memory->walk, memory->order, memory->spare, memory->peak);
    memcpy(memory->best, memory->order, memory->model.count * sizeof *memory->best);
}

static tn_status memory_search(memory_state *memory, tn_error *error) {
    memory_first_bound(memory);
    if (!memory_done(memory)) TN_TRY(memory_starts(memory, error));
    if (!memory_done(memory)) TN_TRY(memory_close(memory, error));
    if (memory->lean) memory_lean(memory);
    return TN_OK;
}

static bool memory_make(memory_state *memory) {
    const tn_context *context = memory->model.context;
    size_t count = memory->model.count;
    memory->best = tn__alloc_array(context, count, sizeof *memory->best);
    memory->order = tn__alloc_array(context, count, sizeof *memory->order);
    memory->spare = tn__alloc_array(context, count, sizeof *memory->spare);
    memory->inside = tn__alloc_array(context, count, sizeof *memory->inside);
    memory->costs = tn__alloc_array(context, count, sizeof *memory->costs);
    memory->work = 200000000 + 2000 * (uint64_t)count;
    return memory->best && memory->order && memory->spare && memory->inside && memory->costs &&
           tn__order_walk_make(&memory->walk, &memory->model);
}

static void memory_release(memory_state *memory) {
    const tn_context *context = memory->model.context;
    size_t count = memory->model.count;
    tn__order_walk_release(&memory->walk);
    tn__free(context, memory->best, count * sizeof *memory->best);
    tn__free(context, memory->order, count * sizeof *memory->order);
    tn__free(context, memory->spare, count * sizeof *memory->spare);
    tn__free(context, memory->inside, count * sizeof *memory->inside);
    tn__free(context, memory->costs, count * sizeof *memory->costs);
}

tn_status tn__order_search(const tn__order_model *model, uint64_t state_limit, bool lean,
                           uint32_t *order, tn_order_proof *proof, tn_error *error) {
    memory_state memory = {.model = *model, .state_limit = state_limit, .lean = lean};
    tn_status status =
        memory_make(&memory) ? TN_OK : tn__no_memory(error, "the order of operators");
    if (status == TN_OK) memory_file_order(&memory);
    if (status == TN_OK && model->count > 0 && model->largest <= MEMORY_BYTES_MAX)
        status = memory_search(&memory, error);
    /* the sum of the sizes is too large for the search, so the file's order is taken */
    else if (status == TN_OK && model->count > 0)
        memcpy(memory.best, memory.order, model->count * sizeof *memory.best);
    if (status == TN_OK) {
        if (model->count > 0) memcpy(order, memory.best, model->count * sizeof *order);
        *proof = (tn_order_proof){memory.peak, memory.bound};
    }
    memory_release(&memory);
    return status;
}

/* Writes the operators of the best order. Operators that are not nodes (folded ones) come first,
 * because they take no step. */
static void memory_write(const tn_order_task *task, const tn__order_model *model,
                         const uint32_t *order, tn_op_id *ops) {
    const tn_block *block = tn_graph_block(task->graph, task->block);
    uint32_t node = 0, at = 0;
    for (uint32_t i = 0; i < block->op_count; i++) {
        bool is_node = node < model->count && model->ops[node] == block->ops[i];
        if (is_node)
            node++;
        else
            ops[at++] = block->ops[i];
    }
    for (uint32_t i = 0; i < model->count; i++) ops[at++] = model->ops[order[i]];
}

static tn_status memory_arrange(const tn_order_task *task, tn_op_id *ops, tn_order_proof *proof,
                                tn_error *error) {
    tn__order_model model;
    uint32_t *order = NULL;
    tn_status status = tn__order_model_make(task, &model, error);
    if (status == TN_OK) {
        order = tn__alloc_array(model.context, model.count, sizeof *order);
        if (order == NULL) status = tn__no_memory(error, "the order of operators");
    }
    if (status == TN_OK)
        status = tn__order_search(&model, task->state_limit, task->whole, order, proof, error);
    if (status == TN_OK) memory_write(task, &model, order, ops);
    tn__free(model.context, order, model.count * sizeof *order);
    tn__order_model_release(&model);
    return status;
}

const tn_order tn__order_memory = {
    .name = "memory",
    .summary = "fewest live bytes at the peak; proved where possible",
    .arrange = memory_arrange,
};
