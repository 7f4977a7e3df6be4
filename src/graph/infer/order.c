/* order.c - puts the operators of every block into a topological order, and checks scopes.
 *
 * A block keeps its file order if that is valid, which one pass over the operands shows. Otherwise
 * it is sorted by Kahn's algorithm with a heap on file positions: this gives the first of all valid
 * orders by file position, so the result depends on nothing else. A control-flow operator stands
 * for everything inside its blocks: it reads all outside tensors that they read. There is no
 * recursion: nesting is climbed owner by owner, at most NEST_MAX levels.
 * Cost: O(operands x nesting), plus O(n log n) for blocks out of order.
 * Source: A. B. Kahn, Topological sorting of large networks, CACM 5(11), 1962.
 */
#include "base/heap.h"
#include "graph/store.h"

/* limit of nesting depth, far above any model, so that a malicious file cannot make the climb
 * long */
#define NEST_MAX 256u

typedef struct order_edge {
    tn_op_id from, to;
} order_edge;

typedef struct order_work {
    tn_graph *graph;
    tn_error *error;
    tn__arena arena;    /* owns all lists except the edges, which grow */
    uint32_t *position; /* [ops] position in the block's list */
    bool *unsorted;     /* [blocks] true: the block is out of order */
    bool any_unsorted;
    order_edge *edges; /* edges of all blocks; collected only if a block is out of order */
    size_t edge_room, edge_count;
    uint32_t *start; /* [ops + 1] begin of the successors of each operator in `next` */
    tn_op_id *next;
    uint32_t *waiting; /* [ops] number of predecessors that have not been placed */
} order_work;

tn_status tn__op_where(const tn_graph *graph, tn_op_id op, tn_error *error, tn_status status) {
    const tn_op *at = &graph->ops[op];
    if (*at->name) return tn__where(error, status, "node '%.100s' (%.60s)", at->name, at->type);
    return tn__where(error, status, "node #%u (%.60s)", op, at->type);
}

/* Checks that every block except the main one belongs to an operator, owner by owner up to the main
 * block. */
static tn_status order_check_nesting(const tn_graph *graph, tn_error *error) {
    for (tn_block_id block = 1; block < graph->block_count; block++) {
        tn_block_id at = block;
        for (uint32_t depth = 0; at != 0; depth++) {
            tn_block_id above = tn__block_parent(graph, at);
            if (above == TN_NONE)
                TN_FAIL(error, TN_E_INVALID, "block %u ('%.100s') belongs to no operator", at,
                        graph->blocks[at].view.name);
            if (depth == NEST_MAX)
                TN_FAIL(error, TN_E_INVALID,
                        "block %u ('%.100s') is nested deeper than %u levels, or inside itself",
                        block, graph->blocks[block].view.name, NEST_MAX);
            at = above;
        }
    }
    return TN_OK;
}

static bool order_is_source(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = &graph->tensors[id];
    tn_kind kind = graph->origins[id].kind;
    if (tensor->producer != TN_NONE || graph->origins[id].formal) return true;
    return kind != TN_KIND_ACTIVATION && kind != TN_KIND_OUTPUT && kind != TN_KIND_WORKSPACE;
}

/* Finds the operator that represents a reader of `id` in the block where `id` is defined. That is
 * `reader` itself, or the control-flow operator around it; TN_NONE: the reader is the list of
 * outputs of that block. Errors: E_INVALID (`id` is not in scope, or nothing computes it). */
static tn_status order_reader(const order_work *work, tn_tensor_id id, tn_block_id block,
                              tn_op_id *reader) {
    const tn_graph *graph = work->graph;
    const tn_tensor *tensor = &graph->tensors[id];
    tn_block_id inner = block;
    tn_op_id first = *reader;
    while (block != tensor->block && block != 0) {
        *reader = graph->blocks[block].view.owner;
        block = graph->ops[*reader].block;
    }
    tn_status status = TN_OK;
    if (block != tensor->block)
        status = tn__fail(work->error, TN_E_INVALID,
                          "tensor '%.100s' belongs to block '%.60s', which is not around the block "
                          "'%.60s' that reads it",
                          tensor->name, graph->blocks[tensor->block].view.name,
                          graph->blocks[inner].view.name);
    else if (!order_is_source(graph, id))
        status = tn__fail(work->error, TN_E_INVALID,
                          "tensor '%.100s' is read, but nothing computes it; add its producer, or "
                          "make it an input or a parameter",
                          tensor->name);
    if (status == TN_OK) return TN_OK;
    if (first != TN_NONE) return tn__op_where(graph, first, work->error, status);
    return tn__where(work->error, status, "outputs of graph '%.100s'",
                     graph->blocks[inner].view.name);
}

/* Handles one operand: the first pass notes blocks that are out of order, the second adds the
 * edge. */
static tn_status order_operand(order_work *work, tn_tensor_id id, tn_block_id block,
                               tn_op_id reader, bool gather) {
    if (id == TN_NONE) return TN_OK;
    TN_TRY(order_reader(work, id, block, &reader));
    const tn_tensor *tensor = &work->graph->tensors[id];
    if (tensor->producer == TN_NONE || reader == TN_NONE) return TN_OK;
    if (!gather) {
        if (work->position[tensor->producer] >= work->position[reader]) {
            work->unsorted[tensor->block] = true;
            work->any_unsorted = true;
        }
        return TN_OK;
    }
    if (!work->unsorted[tensor->block]) return TN_OK;
    if (work->edge_count == UINT32_MAX ||
        !tn__reserve(&work->graph->context, &work->edges, &work->edge_room, work->edge_count + 1,
                     sizeof *work->edges))
        return tn__no_memory(work->error, "the order of operators");
    work->edges[work->edge_count++] = (order_edge){tensor->producer, reader};
    return TN_OK;
}

static tn_status order_operands(order_work *work, bool gather) {
    const tn_graph *graph = work->graph;
    for (tn_op_id id = 0; id < graph->op_count; id++) {
        const tn_op *op = &graph->ops[id];
        for (uint32_t i = 0; i < op->input_count; i++)
            TN_TRY(order_operand(work, op->inputs[i], op->block, id, gather));
    }
    for (tn_block_id block = 0; block < graph->block_count; block++) {
        const tn_block *view = &graph->blocks[block].view;
        for (uint32_t i = 0; i < view->output_count; i++)
            TN_TRY(order_operand(work, view->outputs[i], block, TN_NONE, gather));
    }
    return TN_OK;
}

/* Builds the lists of successors from the edges by counting. */
static tn_status order_link(order_work *work) {
    const tn_graph *graph = work->graph;
    work->start = tn__arena_array(&work->arena, (size_t)graph->op_count + 1, sizeof(uint32_t));
    work->waiting = tn__arena_array(&work->arena, graph->op_count, sizeof(uint32_t));
    work->next = tn__arena_array(&work->arena, work->edge_count, sizeof *work->next);
    if (!work->start || !work->waiting || !work->next)
        return tn__no_memory(work->error, "the order of operators");
    for (size_t i = 0; i < work->edge_count; i++) {
        work->start[work->edges[i].from + 1]++;
        work->waiting[work->edges[i].to]++;
    }
    for (uint32_t i = 0; i < graph->op_count; i++) work->start[i + 1] += work->start[i];
    /* The lists are filled from the back: each insertion decrements start[from + 1], which ends at
     * the start of the list of `from`. Afterwards the list of an operator begins at start[op +
     * 1]. */
    for (size_t i = work->edge_count; i-- > 0;)
        work->next[--work->start[work->edges[i].from + 1]] = work->edges[i].to;
    return TN_OK;
}

/* The index of the first successor of `op`: its successors are next[first .. last). */
static uint32_t order_first(const order_work *work, tn_op_id op) { return work->start[op + 1]; }
static uint32_t order_last(const order_work *work, tn_op_id op) {
    return op + 1 < work->graph->op_count ? work->start[op + 2] : (uint32_t)work->edge_count;
}

/* --- sorting a block, with a heap of positions in the file, the smallest first --- */

static bool order_before(const uint32_t *a, const uint32_t *b) { return *a < *b; }
TN__HEAP(order_heap, uint32_t, order_before)

/* Reports a cycle. Each operator that was not placed has a predecessor that was not placed, so
 * going back from one to the next repeats eventually and gives a cycle. */
static tn_status order_cycle(order_work *work, const tn_block *view) {
    const tn_graph *graph = work->graph;
    tn_op_id *before = tn__arena_array(&work->arena, graph->op_count, sizeof *before);
    bool *seen = tn__arena_array(&work->arena, graph->op_count, sizeof *seen);
    tn_op_id at = TN_NONE;
    if (!before || !seen) return tn__no_memory(work->error, "the order of operators");
    for (uint32_t i = 0; i < view->op_count; i++) {
        tn_op_id op = view->ops[i];
        if (!work->waiting[op]) continue;
        if (at == TN_NONE) at = op;
        for (uint32_t j = order_first(work, op); j < order_last(work, op); j++)
            before[work->next[j]] = op;
    }
    for (; !seen[at]; at = before[at]) seen[at] = true;
    tn_op_id second = before[at], third = before[second];
    tn_status status = tn__fail(
        work->error, TN_E_INVALID,
        "the graph has a cycle through node '%.60s' (%.30s), which needs '%.60s' (%.30s), which "
        "needs '%.60s' (%.30s); an operator cannot need its own result",
        graph->ops[at].name, graph->ops[at].type, graph->ops[second].name, graph->ops[second].type,
        graph->ops[third].name, graph->ops[third].type);
    return tn__op_where(graph, at, work->error, status);
}

static tn_status order_sort(order_work *work, tn_block_id block) {
    tn_graph *graph = work->graph;
    const tn_block *view = &graph->blocks[block].view;
    uint32_t count = view->op_count, ready = 0, placed = 0;
    uint32_t *heap = tn__arena_array(&work->arena, count, sizeof *heap);
    tn_op_id *sorted = tn__arena_array(&work->arena, count, sizeof *sorted);
    if (!heap || !sorted) return tn__no_memory(work->error, "the order of operators");
    for (uint32_t i = 0; i < count; i++)
        if (!work->waiting[view->ops[i]]) order_heap_push(heap, ready++, i);
    while (ready) {
        tn_op_id op = view->ops[order_heap_pop(heap, ready--)];
        sorted[placed++] = op;
        for (uint32_t i = order_first(work, op); i < order_last(work, op); i++)
            if (--work->waiting[work->next[i]] == 0)
                order_heap_push(heap, ready++, work->position[work->next[i]]);
    }
    if (placed < count) return order_cycle(work, view);
    if (count) memcpy(graph->blocks[block].ops, sorted, count * sizeof *sorted);
    return TN_OK;
}

static tn_status order_blocks(order_work *work) {
    const tn_graph *graph = work->graph;
    work->position = tn__arena_array(&work->arena, graph->op_count, sizeof *work->position);
    work->unsorted = tn__arena_array(&work->arena, graph->block_count, sizeof *work->unsorted);
    if (!work->position || !work->unsorted)
        return tn__no_memory(work->error, "the order of operators");
    for (tn_block_id block = 0; block < graph->block_count; block++) {
        const tn_block *view = &graph->blocks[block].view;
        for (uint32_t i = 0; i < view->op_count; i++) work->position[view->ops[i]] = i;
    }
    TN_TRY(order_operands(work, false));
    if (!work->any_unsorted) return TN_OK;
    TN_TRY(order_operands(work, true));
    TN_TRY(order_link(work));
    for (tn_block_id block = 0; block < graph->block_count; block++)
        if (work->unsorted[block]) TN_TRY(order_sort(work, block));
    return TN_OK;
}

tn_status tn__graph_order(tn_graph *graph, tn_error *error) {
    order_work work = {.graph = graph, .error = error};
    TN_TRY(order_check_nesting(graph, error));
    tn__arena_init(&work.arena, &graph->context);
    tn_status status = order_blocks(&work);
    tn__arena_release(&work.arena);
    tn__free(&graph->context, work.edges, work.edge_room * sizeof *work.edges);
    return status;
}
