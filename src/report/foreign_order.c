/* foreign_order.c - the live bytes that another order of the steps of an XLA program would need.
 *
 * The search uses the model of program/order/order.h. Each step is a node of the model, except that
 * the steps of a loop's or branch's computations form one node with the step that calls them. Each
 * buffer of the planned arena is an item of the model: its first step makes it, and all steps that
 * read it use it. The end of its live range in the dump also counts as a use, so in XLA's own order
 * no live range of the model is shorter than that of XLA.
 *
 * Other orders keep the decisions of XLA: values that share a buffer on purpose keep their order,
 * and so do values that share bytes of the arenas of parameters and outputs. Therefore each order
 * that is found is valid. A lower bound holds for orders that keep these decisions.
 *
 * Cost: that of the search (program/orders/memory.c), and for an arena of parameters or outputs the
 * square of its buffers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "interop/foreign/foreign.h"
#include "program/order/order.h"
#include "report/foreign_order.h"

/* limit of states of the complete search, as in the search for orders of a graph */
#define REORDER_STATES 100000u
#define REORDER_STEPS_MAX 500000
/* most buffers in an arena of parameters or outputs; in a larger one nothing is searched */
#define REORDER_SHARING_MAX 200u

typedef struct reorder_pair {
    uint32_t a, b;
} reorder_pair;

typedef struct reorder_pairs {
    reorder_pair *rows;
    size_t count, room;
} reorder_pairs;

typedef struct reorder_work {
    const tn_foreign *foreign;
    tn__order_model model;
    uint32_t *node;       /* [steps] */
    uint32_t *node_steps; /* [nodes] number of steps in the node */
    uint64_t *read_at;    /* [values + 1] where the steps that read each value begin in `reads` */
    uint32_t *reads;      /* the steps that read a value, sorted by value */
    /* [steps + 2] changes of live bytes from step to step, of buffers that only one node uses */
    uint64_t *inner;
    reorder_pairs edges;   /* pairs of nodes: a runs before b */
    reorder_pairs touches; /* pairs of an item and a node that makes or uses it */
    tn__order_item *items; /* items of the model, in the order of the buffers */
    size_t item_count, item_room;
    uint32_t arena;
    const char *missing;
    tn_error *error;
} reorder_work;

static tn_status reorder_no_memory(const reorder_work *work) {
    return tn__no_memory(work->error, "the order of a program");
}

static tn_status reorder_add(reorder_work *work, reorder_pairs *pairs, uint32_t a, uint32_t b) {
    if (!tn__reserve(&work->foreign->context, &pairs->rows, &pairs->room, pairs->count + 1,
                     sizeof *pairs->rows))
        return reorder_no_memory(work);
    pairs->rows[pairs->count++] = (reorder_pair){a, b};
    return TN_OK;
}

static int reorder_pair_order(const void *a, const void *b) {
    const reorder_pair *x = a, *y = b;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

/* Sorts the pairs and removes duplicates. */
static void reorder_sort(reorder_pairs *pairs) {
    size_t kept = 0;
    if (pairs->count > 0) qsort(pairs->rows, pairs->count, sizeof *pairs->rows, reorder_pair_order);
    for (size_t i = 0; i < pairs->count; i++)
        if (i == 0 || reorder_pair_order(&pairs->rows[i], &pairs->rows[kept - 1]) != 0)
            pairs->rows[kept++] = pairs->rows[i];
    pairs->count = kept;
}

/* --- checking that the dump has what the search needs --- */

static void reorder_judge(reorder_work *work) {
    const tn_foreign *foreign = work->foreign;
    const tn_foreign_facts *facts = &foreign->facts;
    uint32_t planned = 0;
    work->missing = foreign->needs.missing;
    for (uint32_t i = 0; i < facts->arena_count; i++) {
        if (foreign->arenas[i].use != TN_FOREIGN_PLANNED || foreign->arenas[i].live == 0) continue;
        planned++;
        work->arena = i;
    }
    if (!facts->has_lives)
        work->missing = "the dump has no live ranges";
    else if (work->missing == NULL && planned != 1)
        work->missing = planned == 0 ? "no arena is planned" : "several arenas are planned";
    else if (work->missing == NULL && facts->step_count > REORDER_STEPS_MAX)
        work->missing = "the program has more than 500,000 instructions";
    else if (work->missing == NULL && facts->step_count == 0)
        work->missing = "the dump lists no instructions";
    else if (work->missing == NULL && foreign->needs.inner[facts->step_count - 1])
        work->missing = "the last instruction is not in the entry computation";
}

/* --- nodes --- */

/* Assigns each step to a node. Steps of inner computations belong to the next step of the entry
 * computation, which calls them. */
static tn_status reorder_nodes(reorder_work *work) {
    const tn_foreign *foreign = work->foreign;
    uint32_t steps = foreign->facts.step_count, node = 0;
    work->node = tn__alloc_array(&foreign->context, (size_t)steps + 1, sizeof *work->node);
    work->node_steps =
        tn__alloc_array(&foreign->context, (size_t)steps + 1, sizeof *work->node_steps);
    work->inner = tn__alloc_array(&foreign->context, (size_t)steps + 2, sizeof *work->inner);
    if (work->node == NULL || work->node_steps == NULL || work->inner == NULL)
        return reorder_no_memory(work);
    for (uint32_t step = 0; step < steps; step++) {
        work->node[step] = node;
        work->node_steps[node]++;
        node += !foreign->needs.inner[step];
    }
    work->model.count = node;
    return TN_OK;
}

/* Lists the steps that read each value. */
static tn_status reorder_reads(reorder_work *work) {
    const tn_foreign *foreign = work->foreign;
    const tn__foreign_needs *needs = &foreign->needs;
    size_t values = (size_t)foreign->facts.value_count + 2;
    work->read_at = tn__alloc_array(&foreign->context, values, sizeof *work->read_at);
    work->reads = tn__alloc_array(&foreign->context, needs->read_count + 1, sizeof *work->reads);
    if (work->read_at == NULL || work->reads == NULL) return reorder_no_memory(work);
    for (size_t i = 0; i < needs->read_count; i++) work->read_at[needs->reads[i].what + 2]++;
    for (size_t v = 2; v < values; v++) work->read_at[v] += work->read_at[v - 1];
    for (size_t i = 0; i < needs->read_count; i++)
        work->reads[work->read_at[needs->reads[i].what + 1]++] = needs->reads[i].step;
    return TN_OK;
}

static uint32_t reorder_node(const reorder_work *work, int64_t step) {
    int64_t last = (int64_t)work->foreign->facts.step_count - 1;
    return work->node[step < 0 ? 0 : step > last ? last : step];
}

static uint32_t reorder_first(const reorder_work *work, uint32_t value) {
    return reorder_node(work, work->foreign->values[value].first);
}

/* --- edges --- */

static tn_status reorder_edge(reorder_work *work, uint32_t before, uint32_t after) {
    return before < after ? reorder_add(work, &work->edges, before, after) : TN_OK;
}

/* Requires that all steps that define or read a value run before a node. */
static tn_status reorder_value_before(reorder_work *work, uint32_t value, uint32_t node) {
    const tn_foreign_value *it = &work->foreign->values[value];
    TN_TRY(reorder_edge(work, reorder_node(work, it->first), node));
    TN_TRY(reorder_edge(work, reorder_node(work, it->last - 1), node));
    for (uint64_t i = work->read_at[value]; i < work->read_at[value + 1]; i++)
        TN_TRY(reorder_edge(work, work->node[work->reads[i]], node));
    return TN_OK;
}

static tn_status reorder_body_before(reorder_work *work, const foreign_body *body, uint32_t node) {
    for (uint32_t i = 0; i < body->count; i++)
        TN_TRY(reorder_value_before(work, work->foreign->order[body->start + i], node));
    return TN_OK;
}

/* Requires that the values of one buffer keep their order. */
static tn_status reorder_chain(reorder_work *work, const foreign_body *body) {
    const uint32_t *order = work->foreign->order + body->start;
    for (uint32_t i = 1; i < body->count; i++)
        TN_TRY(reorder_value_before(work, order[i - 1], reorder_first(work, order[i])));
    return TN_OK;
}

/* Buffers [from, to) of an arena whose places stay: those that share bytes keep their order. */
static tn_status reorder_sharing(reorder_work *work, size_t from, size_t to) {
    const tn_foreign *foreign = work->foreign;
    if (to - from > REORDER_SHARING_MAX) {
        work->missing = "parameters or outputs share an arena with too many values";
        return TN_OK;
    }
    for (size_t i = from; i < to; i++)
        for (size_t k = from; k < to; k++) {
            const foreign_body *a = &foreign->bodies[i], *b = &foreign->bodies[k];
            const tn_foreign_value *first = &foreign->values[foreign->order[b->start]];
            bool meet = a->offset < b->offset + b->size && b->offset < a->offset + a->size;
            if (i == k || !meet || first->has_no_life || a->end > first->first) continue;
            TN_TRY(reorder_body_before(work, a, reorder_first(work, foreign->order[b->start])));
        }
    return TN_OK;
}

static tn_status reorder_edges(reorder_work *work) {
    const tn_foreign *foreign = work->foreign;
    for (size_t i = 0; i < foreign->needs.after_count; i++)
        TN_TRY(reorder_edge(work, work->node[foreign->needs.after[i].what],
                            work->node[foreign->needs.after[i].step]));
    for (size_t at = 0, end; at < foreign->body_count && work->missing == NULL; at = end) {
        for (end = at;
             end < foreign->body_count && foreign->bodies[end].arena == foreign->bodies[at].arena;
             end++)
            TN_TRY(reorder_chain(work, &foreign->bodies[end]));
        bool stays = foreign->bodies[at].arena != work->arena &&
                     foreign->arenas[foreign->bodies[at].arena].use != TN_FOREIGN_THREAD_LOCAL;
        if (stays) TN_TRY(reorder_sharing(work, at, end));
    }
    return TN_OK;
}

/* --- items --- */

static tn_status reorder_touch(reorder_work *work, uint32_t item, uint32_t node, uint32_t *first,
                               uint32_t *last) {
    if (node < *first) *first = node;
    if (node > *last) *last = node;
    return reorder_add(work, &work->touches, item, node);
}

static tn_status reorder_item(reorder_work *work, const foreign_body *body) {
    const tn_foreign *foreign = work->foreign;
    uint32_t number = (uint32_t)work->item_count, first = ORDER_NONE, last = 0;
    int64_t begin = INT64_MAX, end = 0;
    bool always = false;
    size_t touched = work->touches.count;
    for (uint32_t i = 0; i < body->count; i++) {
        uint32_t value = foreign->order[body->start + i];
        const tn_foreign_value *it = &foreign->values[value];
        always = always || it->has_no_life;
        begin = it->first < begin ? it->first : begin;
        end = it->last > end ? it->last : end;
        TN_TRY(reorder_touch(work, number, reorder_node(work, it->first), &first, &last));
        TN_TRY(reorder_touch(work, number, reorder_node(work, it->last - 1), &first, &last));
        for (uint64_t k = work->read_at[value]; k < work->read_at[value + 1]; k++)
            TN_TRY(reorder_touch(work, number, work->node[work->reads[k]], &first, &last));
    }
    bool kept = always || end > (int64_t)foreign->facts.step_count;
    /* only this node uses the buffer, so it counts as scratch memory of the node */
    if (!kept && first == last && work->node_steps[first] > 1) {
        work->touches.count = touched;
        work->inner[begin] += body->size;
        work->inner[end] -= body->size;
        return TN_OK;
    }
    if (!tn__reserve(&foreign->context, &work->items, &work->item_room, work->item_count + 1,
                     sizeof *work->items))
        return reorder_no_memory(work);
    /* The end of a live range counts as a use, even if the text names no reader there. */
    for (size_t i = touched; i < work->touches.count && !always; i++)
        TN_TRY(reorder_edge(work, first, work->touches.rows[i].b));
    work->items[work->item_count++] =
        (tn__order_item){.bytes = body->size, .maker = always ? ORDER_NONE : first, .kept = kept};
    return TN_OK;
}

static tn_status reorder_items(reorder_work *work) {
    const tn_foreign *foreign = work->foreign;
    for (size_t i = 0; i < foreign->body_count; i++)
        if (foreign->bodies[i].arena == work->arena)
            TN_TRY(reorder_item(work, &foreign->bodies[i]));
    reorder_sort(&work->touches);
    reorder_sort(&work->edges);
    return TN_OK;
}

/* --- filling the model of the search --- */

/* sort key of items: the node that makes the item; items that always exist come first */
typedef struct reorder_rank {
    uint32_t maker, item;
} reorder_rank;

static int reorder_rank_order(const void *a, const void *b) {
    const reorder_rank *x = a, *y = b;
    /* ORDER_NONE + 1 is 0, so items that always exist come first */
    uint32_t p = x->maker + 1, q = y->maker + 1;
    if (p != q) return p < q ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Fills the model's items and their users, sorted by the node that makes the item. */
static bool reorder_fill_items(reorder_work *work) {
    tn__order_model *model = &work->model;
    uint32_t count = (uint32_t)work->item_count, used = 0;
    reorder_rank *ranks = tn__arena_array(&model->arena, (size_t)count + 1, sizeof *ranks);
    size_t *touch_at = tn__arena_array(&model->arena, (size_t)count + 2, sizeof *touch_at);
    model->items = tn__arena_array(&model->arena, (size_t)count + 1, sizeof *model->items);
    model->users = tn__arena_array(&model->arena, work->touches.count + 1, sizeof *model->users);
    if (ranks == NULL || touch_at == NULL || model->items == NULL || model->users == NULL)
        return false;
    for (size_t i = 0; i < work->touches.count; i++) touch_at[work->touches.rows[i].a + 1]++;
    for (uint32_t i = 0; i < count; i++) touch_at[i + 1] += touch_at[i];
    for (uint32_t i = 0; i < count; i++) ranks[i] = (reorder_rank){work->items[i].maker, i};
    qsort(ranks, count, sizeof *ranks, reorder_rank_order);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = ranks[i].item;
        tn__order_item *item = &model->items[i];
        *item = work->items[from];
        item->first = used;
        for (size_t k = touch_at[from]; k < touch_at[from + 1]; k++)
            if (work->touches.rows[k].b != item->maker)
                model->users[used++] = work->touches.rows[k].b;
        item->last = used;
    }
    model->item_count = count;
    return true;
}

/* Fills the lists of items that each node makes and uses. */
static bool reorder_fill_uses(reorder_work *work) {
    tn__order_model *model = &work->model;
    size_t nodes = (size_t)model->count + 2;
    uint32_t at = 0, uses = model->item_count > 0 ? model->items[model->item_count - 1].last : 0;
    model->made_at = tn__arena_array(&model->arena, nodes, sizeof *model->made_at);
    model->used_at = tn__arena_array(&model->arena, nodes, sizeof *model->used_at);
    model->take_at = tn__arena_array(&model->arena, nodes, sizeof *model->take_at);
    model->used = tn__arena_array(&model->arena, (size_t)uses + 1, sizeof *model->used);
    if (model->made_at == NULL || model->used_at == NULL || model->take_at == NULL ||
        model->used == NULL)
        return false;
    while (at < model->item_count && model->items[at].maker == ORDER_NONE) at++;
    for (uint32_t p = 0; p < model->count; p++) {
        model->made_at[p] = at;
        while (at < model->item_count && model->items[at].maker == p) at++;
    }
    model->made_at[model->count] = at;
    for (uint32_t i = 0; i < uses; i++) model->used_at[model->users[i] + 2]++;
    for (size_t p = 2; p < nodes; p++) model->used_at[p] += model->used_at[p - 1];
    for (uint32_t i = 0; i < model->item_count; i++)
        for (uint32_t k = model->items[i].first; k < model->items[i].last; k++)
            model->used[model->used_at[model->users[k] + 1]++] = i;
    return true;
}

/* Fills the lists of nodes that run before and after each node, from the sorted pairs. */
static bool reorder_fill_edges(reorder_work *work) {
    tn__order_model *model = &work->model;
    size_t nodes = (size_t)model->count + 2, count = work->edges.count;
    model->before_at = tn__arena_array(&model->arena, nodes, sizeof *model->before_at);
    model->after_at = tn__arena_array(&model->arena, nodes, sizeof *model->after_at);
    model->before = tn__arena_array(&model->arena, count + 1, sizeof *model->before);
    model->after = tn__arena_array(&model->arena, count + 1, sizeof *model->after);
    if (model->before_at == NULL || model->after_at == NULL || model->before == NULL ||
        model->after == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        model->before_at[work->edges.rows[i].b + 2]++;
        model->after_at[work->edges.rows[i].a + 2]++;
    }
    for (size_t p = 2; p < nodes; p++) {
        model->before_at[p] += model->before_at[p - 1];
        model->after_at[p] += model->after_at[p - 1];
    }
    for (size_t i = 0; i < count; i++) {
        reorder_pair edge = work->edges.rows[i];
        model->before[model->before_at[edge.b + 1]++] = edge.a;
        model->after[model->after_at[edge.a + 1]++] = edge.b;
    }
    return true;
}

static bool reorder_fill_sums(reorder_work *work) {
    tn__order_model *model = &work->model;
    uint64_t live = 0;
    model->scratch = tn__arena_array(&model->arena, (size_t)model->count + 1, sizeof(uint64_t));
    if (model->scratch == NULL) return false;
    for (uint32_t step = 0; step < work->foreign->facts.step_count; step++) {
        uint64_t *most = &model->scratch[work->node[step]];
        live += work->inner[step];
        if (live > *most) *most = live;
    }
    for (uint32_t i = 0; i < model->item_count; i++) {
        const tn__order_item *item = &model->items[i];
        model->largest = tn__add_sat(model->largest, item->bytes);
        if (item->maker == ORDER_NONE) model->start = tn__add_sat(model->start, item->bytes);
        if (item->kept) model->floor = tn__add_sat(model->floor, item->bytes);
    }
    for (uint32_t p = 0; p < model->count; p++)
        model->largest = tn__add_sat(model->largest, model->scratch[p]);
    return true;
}

/* --- searching for an order --- */

static tn_status reorder_search(reorder_work *work, tn__foreign_order *answer) {
    const tn_context *context = &work->foreign->context;
    tn__order_model *model = &work->model;
    tn_order_proof proof = {0};
    tn__order_walk walk = {0};
    uint32_t *order = tn__alloc_array(context, (size_t)model->count + 1, sizeof *order);
    bool fits = order != NULL && reorder_fill_items(work) && reorder_fill_uses(work) &&
                reorder_fill_edges(work) && reorder_fill_sums(work) &&
                tn__order_walk_make(&walk, model);
    tn_status status = fits ? TN_OK : reorder_no_memory(work);
    if (status == TN_OK) {
        for (uint32_t i = 0; i < model->count; i++) order[i] = i;
        answer->given = tn__order_costs(&walk, order, NULL);
        status = tn__order_search(model, REORDER_STATES, false, order, &proof, work->error);
    }
    if (status == TN_OK) {
        answer->found = proof.peak;
        answer->bound = proof.bound;
        answer->exact = answer->given == work->foreign->arenas[work->arena].live;
    }
    tn__order_walk_release(&walk);
    tn__free(context, order, order != NULL ? ((size_t)model->count + 1) * sizeof *order : 0);
    return status;
}

static void reorder_release(reorder_work *work) {
    const tn_context *context = &work->foreign->context;
    size_t steps = work->foreign->facts.step_count;
    size_t values = (size_t)work->foreign->facts.value_count + 2;
    tn__free(context, work->node, work->node != NULL ? (steps + 1) * sizeof *work->node : 0);
    tn__free(context, work->node_steps,
             work->node_steps != NULL ? (steps + 1) * sizeof *work->node_steps : 0);
    tn__free(context, work->inner, work->inner != NULL ? (steps + 2) * sizeof *work->inner : 0);
    tn__free(context, work->read_at, work->read_at != NULL ? values * sizeof *work->read_at : 0);
    tn__free(context, work->reads,
             work->reads != NULL ? (work->foreign->needs.read_count + 1) * sizeof *work->reads : 0);
    tn__free(context, work->edges.rows, work->edges.room * sizeof *work->edges.rows);
    tn__free(context, work->touches.rows, work->touches.room * sizeof *work->touches.rows);
    tn__free(context, work->items, work->item_room * sizeof *work->items);
    tn__order_model_release(&work->model);
}

tn_status tn__foreign_reorder(const tn_foreign *foreign, tn__foreign_order *answer,
                              tn_error *error) {
    reorder_work work = {.foreign = foreign, .error = error};
    *answer = (tn__foreign_order){0};
    reorder_judge(&work);
    answer->missing = work.missing;
    if (work.missing != NULL) return TN_OK;
    work.model.context = &foreign->context;
    tn__arena_init(&work.model.arena, &foreign->context);
    tn_status status = reorder_nodes(&work);
    if (status == TN_OK) status = reorder_reads(&work);
    if (status == TN_OK) status = reorder_edges(&work);
    if (status == TN_OK && work.missing == NULL) status = reorder_items(&work);
    answer->missing = work.missing;
    if (status == TN_OK && work.missing == NULL) status = reorder_search(&work, answer);
    reorder_release(&work);
    return status;
}

void tn__foreign_order_text(const tn_foreign *foreign, const tn__foreign_order *order, char *text) {
    const size_t room = TN__FOREIGN_ORDER_TEXT;
    char size[TN_SIZE_TEXT_MAX];
    uint64_t live = tn_foreign_facts_of(foreign)->live;
    if (order->missing != NULL) {
        snprintf(text, room, "unknown: %s", order->missing);
        return;
    }
    if (order->found < live) {
        snprintf(text, room, "%s live; %s", tn_size_format(order->found, size),
                 order->exact && order->found == order->bound
                     ? "no order with the same values in place needs less"
                     : "found, not proved minimal");
        return;
    }
    bool proved = order->exact && order->bound >= live;
    snprintf(text, room, "%s",
             proved ? "no order with the same values in place needs less"
                    : "none with fewer live bytes was found");
}
