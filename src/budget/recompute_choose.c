/* recompute_choose.c - what to give up so that the worst step needs less.
 *
 * Again and again: at the step that needs most, of the bodies that are idle there, the one is given
 * up that costs least work for its bytes (times the steps for which it is idle, with `reach`). Its
 * maker runs again before whoever reads it next; what that needs must be there by then:
 *
 *     still there           nothing to do
 *     given up, too         made again that early
 *     small, or nearly so   stays that long
 *     gone since long       made again in between: more operators, the chain of this one
 *
 * So a chain costs all its work, and in one round nothing runs more than twice. It ends when
 * nothing idle at the worst step can be had for the work that is left. As things that are made
 * again earlier may raise other steps, the bytes of every state are noted, and the caller may have
 * the choice up to the best.
 *
 * The steps' bytes are a tree with the largest on top. Idle bodies hang in the nodes of a second
 * tree that make up their stretch, least cost first, so that the nodes above a step have all that
 * are idle there. Costs change with what is given up; they are taken anew when a body comes up, and
 * it is hung back when it is no longer the least.
 * The count is an estimate (in-place, chains): recompute.c judges by the occupancy.
 * Cost: O((operators + operands) log^2 operators), chains of at most CHOOSE_CHAIN operators.
 * Source: in the line of Chen et al. 2016 and of dynamic tensor rematerialisation (Kirisame et al.
 * 2021: cost over bytes and idle time), with all uses known.
 */
#include "budget/recompute.h"
#include "budget/share_tree.h"

#define CHOOSE_CHAIN 48u /* operators: a bound on the work of one look at a body */

/* One thing that making a body again takes. */
typedef enum choose_kind { CHOOSE_MAKE, CHOOSE_EARLIER, CHOOSE_LONGER, CHOOSE_READ } choose_kind;
typedef struct choose_item {
    uint32_t body;
    choose_kind kind;
} choose_item;

typedef struct choose_plan {
    choose_item items[CHOOSE_CHAIN];
    uint32_t count;
    uint32_t at; /* before this operator */
    uint64_t work;
    double held; /* bytes times steps that the items are there for this */
} choose_plan;

typedef struct choose_state {
    tn__recompute *it;
    tn__recompute_choice *choice;
    tn__arena arena; /* the lists below */
    tn__share_tree tree;
    uint32_t *end;   /* [bodies] as it is now */
    uint32_t *asked; /* [bodies] first position behind `leave` where a copy reads it */
    bool *runs;      /* [operators] again */
    bool reach;
} choose_state;

/* --- what it takes --- */

static bool choose_has(const choose_plan *plan, uint32_t body) {
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->items[i].body == body) return true;
    return false;
}

static bool choose_add(choose_plan *plan, uint32_t body, choose_kind kind) {
    if (plan->count == CHOOSE_CHAIN) return false;
    plan->items[plan->count++] = (choose_item){body, kind};
    return true;
}

static double choose_area(const choose_state *s, uint32_t body, uint32_t first, uint32_t last) {
    return (double)s->it->bodies[body].bytes * (double)(last - first);
}

/* What a body that an operator reads again takes to be there. */
static bool choose_source(const choose_state *s, choose_plan *plan, uint32_t id) {
    const tn__recompute_body *body = &s->it->bodies[id];
    uint32_t at = plan->at, end = s->end[id];
    bool again = s->choice->again[id];
    if (choose_has(plan, id) || body->fixed) return true;
    if (again && at > s->choice->leave[id] && at < s->choice->at[id]) {
        plan->held += choose_area(s, id, at, s->choice->at[id]);
        return choose_add(plan, id, CHOOSE_EARLIER);
    }
    if (at <= end) return choose_add(plan, id, CHOOSE_READ);
    bool small = body->bytes <= s->it->bodies[plan->items[0].body].bytes / 64;
    double area = choose_area(s, id, end, at);
    if (again || !body->can || small || 16 * area < plan->held) {
        plan->held += area;
        return choose_add(plan, id, CHOOSE_LONGER);
    }
    return choose_add(plan, id, CHOOSE_MAKE);
}

/* Whether an operator that runs again at `at` would read a parameter as it was then. */
static bool choose_is_unchanged(const tn__recompute *it, tn_op_id id, uint32_t at) {
    uint32_t count = tn_graph_op(it->graph, id)->input_count;
    for (uint32_t i = 0; i < count; i++) {
        tn_tensor_id input = tn__recompute_input(it, id, i);
        if (input == TN_NONE || it->first_change[input] == TN_NONE) continue;
        if (it->first_change[input] < at && it->last_change[input] > it->place[id]) return false;
    }
    return true;
}

/* The chain of a body, made again before `at`. False: it cannot be. */
static bool choose_plan_of(const choose_state *s, uint32_t id, uint32_t at, choose_plan *plan) {
    const tn__recompute *it = s->it;
    *plan = (choose_plan){.count = 1, .at = at, .items = {{id, CHOOSE_MAKE}}};
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->items[i].kind != CHOOSE_MAKE && plan->items[i].kind != CHOOSE_EARLIER) continue;
        const tn__recompute_body *body = &it->bodies[plan->items[i].body];
        const tn_op *op = tn_graph_op(it->graph, body->maker);
        if (!body->can || !choose_is_unchanged(it, body->maker, at)) return false;
        if (plan->items[i].kind == CHOOSE_MAKE && !s->runs[body->maker])
            plan->work = tn__add_sat(plan->work, it->work[body->maker]);
        if (i > 0 && plan->items[i].kind == CHOOSE_MAKE) plan->held += (double)body->bytes;
        for (uint32_t k = 0; k < op->input_count; k++) {
            tn_tensor_id input = tn__recompute_input(it, body->maker, k);
            if (input == TN_NONE || it->body[input] == TN_NONE) continue;
            if (!choose_source(s, plan, it->body[input])) return false;
        }
    }
    return true;
}

/* Where it would be made again. */
static uint32_t choose_when(const choose_state *s, uint32_t id) {
    uint32_t back = s->it->bodies[id].back;
    return s->asked[id] < back ? s->asked[id] : back;
}

/* Work per byte (and step) that it saves; negative: it saves nothing, or cannot be. */
static double choose_key(const choose_state *s, uint32_t id, choose_plan *plan) {
    uint32_t at = choose_when(s, id), leave = s->it->bodies[id].leave;
    if (s->choice->again[id] || at <= leave + 1 || !choose_plan_of(s, id, at, plan)) return -1;
    double steps = (double)(at - leave - 1);
    double saved = (double)s->it->bodies[id].bytes * steps - plan->held;
    if (saved <= 0) return -1;
    return (double)plan->work / (s->reach ? saved : saved / steps);
}

/* --- choosing --- */

static void choose_change(choose_state *s, uint32_t body, uint32_t first, uint32_t last,
                          bool less) {
    int64_t bytes = (int64_t)s->it->bodies[body].bytes;
    tn__share_tree_add(&s->tree, first, last, less ? -bytes : bytes);
}

static void choose_item_commit(choose_state *s, uint32_t at, choose_item item) {
    tn__recompute_choice *choice = s->choice;
    const tn__recompute_body *body = &s->it->bodies[item.body];
    switch (item.kind) {
    case CHOOSE_MAKE: /* in between: there for one step */
        choice->again[item.body] = true;
        choice->leave[item.body] = s->end[item.body];
        choice->at[item.body] = s->end[item.body] = at;
        s->runs[body->maker] = true;
        break;
    case CHOOSE_EARLIER:
        choose_change(s, item.body, at, choice->at[item.body], false);
        choice->at[item.body] = at;
        break;
    case CHOOSE_LONGER:
        choose_change(s, item.body, s->end[item.body] + 1, at + 1, false);
        s->end[item.body] = at;
        break;
    case CHOOSE_READ:
        break;
    }
    if (at > body->leave && at < s->asked[item.body]) s->asked[item.body] = at;
}

static void choose_commit(choose_state *s, const choose_plan *plan) {
    uint32_t id = plan->items[0].body, largest = TN_NONE;
    const tn__recompute_body *bodies = s->it->bodies;
    s->choice->again[id] = true;
    s->choice->leave[id] = bodies[id].leave;
    s->choice->at[id] = plan->at;
    s->choice->work = tn__add_sat(s->choice->work, plan->work);
    s->runs[bodies[id].maker] = true;
    choose_change(s, id, bodies[id].leave + 1, plan->at, true);
    for (uint32_t i = 1; i < plan->count; i++) {
        choose_item item = plan->items[i];
        bool more = largest == TN_NONE || bodies[item.body].bytes > bodies[largest].bytes;
        if (item.kind == CHOOSE_MAKE && more) largest = item.body;
        choose_item_commit(s, plan->at, item);
    }
    /* Of a chain, what comes first is gone when the last is made: one of them beside the body. */
    if (largest != TN_NONE) choose_change(s, largest, plan->at, plan->at + 1, false);
}

/* --- set-up --- */

/* An operator that may write over an operand which ends there needs no bytes of its own yet. */
static bool choose_is_inplace(const tn__recompute *it, uint32_t id) {
    const tn__recompute_body *body = &it->bodies[id];
    if (body->maker == TN_NONE) return false;
    const tn_op *op = tn_graph_op(it->graph, body->maker);
    if (op->outputs[0] == TN_NONE || it->body[op->outputs[0]] != id) return false;
    uint64_t may = tn_op_inplace(it->graph, body->maker, 0);
    for (uint32_t i = 0; i < op->input_count && i < 64; i++) {
        if (!(may >> i & 1) || op->inputs[i] == TN_NONE) continue;
        uint32_t source = it->body[op->inputs[i]];
        if (source != TN_NONE && it->bodies[source].end == body->made &&
            it->bodies[source].maker != TN_NONE && it->bodies[source].bytes == body->bytes)
            return true;
    }
    return false;
}

static tn_status choose_room(choose_state *s) {
    const tn__recompute *it = s->it;
    size_t bodies = (size_t)it->body_count + 1;
    s->end = tn__arena_array(&s->arena, bodies, sizeof *s->end);
    s->asked = tn__arena_array(&s->arena, bodies, sizeof *s->asked);
    s->runs = tn__arena_array(&s->arena, (size_t)tn_graph_op_count(it->graph) + 1, 1);
    if (!tn__share_tree_room(&s->tree, it->count, &s->arena) || s->end == NULL ||
        s->asked == NULL || s->runs == NULL)
        return tn__no_memory(it->error, "recomputation");
    return TN_OK;
}

typedef struct choose_hang {
    choose_state *s;
    tn__share_entry entry;
    bool count; /* how much room there must be */
} choose_hang;

static void choose_hang_node(void *self, uint32_t node) {
    choose_hang *hang = self;
    if (hang->count)
        hang->s->tree.count[node]++;
    else
        tn__share_tree_push(&hang->s->tree, node, hang->entry);
}

/* Every body that may be idle, in the nodes of its stretch. */
static void choose_hang_all(choose_state *s, bool count) {
    const tn__recompute *it = s->it;
    choose_plan plan;
    for (uint32_t b = 0; b < it->body_count; b++) {
        const tn__recompute_body *body = &it->bodies[b];
        if (!body->can || body->back <= body->leave + 1) continue;
        choose_hang hang = {s, {count ? 0 : choose_key(s, b, &plan), b}, count};
        if (hang.entry.key < 0) continue;
        tn__share_tree_each(&s->tree, body->leave + 1, body->back, choose_hang_node, &hang);
    }
}

static tn_status choose_begin(choose_state *s) {
    const tn__recompute *it = s->it;
    for (uint32_t p = 0; p < it->count; p++)
        tn__share_tree_add(&s->tree, p, p + 1, (int64_t)it->scratch[it->order[p]]);
    for (uint32_t b = 0; b < it->body_count; b++) {
        const tn__recompute_body *body = &it->bodies[b];
        s->end[b] = body->end;
        s->asked[b] = TN_NONE;
        choose_change(s, b, body->made + choose_is_inplace(it, b), body->end + 1, false);
    }
    choose_hang_all(s, true);
    if (!tn__share_tree_heaps(&s->tree, &s->arena))
        return tn__no_memory(it->error, "recomputation");
    choose_hang_all(s, false);
    return TN_OK;
}

/* --- the choice --- */

/* Gives up one body that is idle at a step. False: none can be. */
static bool choose_one(choose_state *s, uint32_t step, uint64_t budget) {
    tn__share_entry entry;
    uint32_t node;
    choose_plan plan;
    while (tn__share_tree_pop(&s->tree, step, &node, &entry)) {
        double key = choose_key(s, entry.body, &plan);
        if (key < 0 || plan.at <= step || plan.work > budget - s->choice->work) continue;
        if (key > entry.key * 1.0001) {
            entry.key = key;
            tn__share_tree_push(&s->tree, node, entry);
            continue;
        }
        choose_commit(s, &plan);
        return true;
    }
    return false;
}

static void choose_run(choose_state *s, uint64_t budget, uint32_t most) {
    tn__recompute_choice *choice = s->choice;
    int64_t peak;
    uint32_t step = tn__share_tree_top(&s->tree, &peak);
    choice->peak = (uint64_t)peak;
    choice->best = choice->count = 0;
    while (choice->count < most && choose_one(s, step, budget)) {
        choice->count++;
        step = tn__share_tree_top(&s->tree, &peak);
        if ((uint64_t)peak >= choice->peak) continue;
        choice->peak = (uint64_t)peak;
        choice->best = choice->count;
    }
}

tn_status tn__recompute_choice_room(tn__recompute *it, tn__recompute_choice *choice) {
    size_t bodies = (size_t)it->body_count + 1;
    choice->again = tn__arena_array(&it->arena, bodies, sizeof *choice->again);
    choice->leave = tn__arena_array(&it->arena, bodies, sizeof *choice->leave);
    choice->at = tn__arena_array(&it->arena, bodies, sizeof *choice->at);
    if (choice->again == NULL || choice->leave == NULL || choice->at == NULL)
        return tn__no_memory(it->error, "recomputation");
    return TN_OK;
}

tn_status tn__recompute_choose(tn__recompute *it, uint64_t budget, bool reach, uint32_t most,
                               tn__recompute_choice *choice) {
    choose_state state = {.it = it, .choice = choice, .reach = reach};
    tn__arena_init(&state.arena, it->arena.context);
    memset(choice->again, 0, it->body_count * sizeof *choice->again);
    choice->work = 0;
    tn_status status = choose_room(&state);
    if (status == TN_OK) status = choose_begin(&state);
    if (status == TN_OK) choose_run(&state, budget, most);
    tn__arena_release(&state.arena);
    return status;
}
