/* work_budget.c - chooses values to recompute instead of keeping them, within a work budget: a
 * limit on the work that repeats add.
 *
 *     conv -> x -> BatchNorm -> b -> Relu -> y     kept: x, which the gradient of BatchNorm reads
 *     recomputed: b', y' from x, before their reader
 *
 * A sweep evicts one live range after the other while the work budget lasts, and records after how
 * many evictions the estimated peak was lowest; a second sweep stops there. Sweeps that prefer long
 * idle intervals, and sweeps that do not, are tried. Since a sweep only estimates the peak, the
 * judge measures each resulting schedule. The schedule with the lowest peak wins; the previous
 * schedule is also a candidate, so the peak never rises.
 *
 * A recomputed value may be idle again, for example the input of a normalisation between its repeat
 * and its gradient. A sweep cannot evict values that it recomputes, so further rounds start from
 * the result with the remaining work, while that helps. A second variant of the search therefore
 * makes only half of the evictions in each sweep, and the better result of both variants is taken.
 *
 * Cost: a round is at most six sweeps. Source: Chen et al. 2016, "Training deep nets with sublinear
 * memory cost", section 4; Rota Bulo, Porzi, Kontschieder 2018 (in-place activated batch
 * normalisation, checkpoint variant).
 */
#include "fit/budget/algorithms/work_budget.h"

#include <math.h>

#include "base/heap.h"
#include "base/range_tree.h"

/* number of ways in which keys prefer long idle intervals: not at all, in proportion to the length,
 * or to its square root */
#define BUDGET_REACHES 3u

/* One live range of a value in a schedule, from the run that makes it to its last reader. With
 * repeats a value has several live ranges, which tn__dag.reads cannot express. `leave` and `back`
 * are the two consecutive accesses that are furthest apart; between them the value may be evicted,
 * and recomputed before its reader at `back`. Positions are indices of actions. */
typedef struct budget_range {
    uint64_t bytes;
    /* the value, and the job that makes it; TN_NONE: the value exists from the start */
    uint32_t value, maker;
    uint32_t made, end;
    /* positions of the accesses around the longest idle interval; equal if there is no idle
     * interval */
    uint32_t leave, back;
    /* the live range that gives its memory to this one if it ends where this one begins; TN_NONE:
     * no such live range */
    uint32_t source;
    /* the previous live range of the same value; TN_NONE: this is its first one */
    uint32_t earlier;
    bool fixed; /* the value must be live at the end, so this live range cannot be evicted */
    bool can;   /* the job that makes the value may be repeated, so the value can be recomputed */
} budget_range;

/* The decisions of a sweep: which live ranges are evicted, and the action before which each is
 * recomputed. */
typedef struct budget_choice {
    bool *recompute; /* [ranges] */
    /* [ranges] position of the action after which readers read the recomputed value */
    uint32_t *leave;
    uint32_t *at;   /* [ranges] */
    uint64_t work;  /* cost of all repeats that the choices need */
    uint64_t peak;  /* lowest estimated peak after any number of the choices */
    uint32_t count; /* number of choices made */
    /* number of choices, from the first on, after which the estimated peak was lowest */
    uint32_t best;
} budget_choice;

typedef struct budget_ranges {
    const tn__dag *dag;
    const tn__schedule *schedule; /* the schedule to read; all of its actions are runs (TN__RUN) */
    /* [jobs] whether the job may be repeated; NULL: every job that can be repeated may be */
    const bool *may;
    tn_error *error;
    tn__arena arena; /* memory of all lists below */
    budget_range *ranges;
    uint32_t range_count;
    uint32_t *latest; /* [values] the newest live range of the value; TN_NONE: no live range yet */
    uint32_t *first_run; /* [jobs] position of the job's first run; TN_NONE: it has not run yet */
} budget_ranges;

typedef struct step_entry {
    double key;
    uint32_t body;
} step_entry;

typedef struct step_tree {
    tn__range_tree bytes; /* the bytes in use at each step, with their maximum */
    uint32_t width;       /* number of leaves of the tree, a power of two */
    /* [2 * width] position in `entries` and number of entries of each node's heap */
    uint32_t *first, *count;
    step_entry *entries;
} step_tree;

/* --- segment trees over the steps ------------------------------------------------------------- */

/* The bytes in use at every step, and the values that are idle at a step.
 *
 * Both are segment trees over the steps, stored as arrays: node i has the children 2i and 2i + 1,
 * and the leaf of step s is node width + s. The first tree finds the step with the most bytes,
 * while bytes are added to ranges of steps. In the second tree, an idle value is stored in the
 * O(log steps) nodes that together cover its idle interval, so that all values that are idle at a
 * step are on the path from the step's leaf to the root. Each node keeps its values in a heap,
 * smallest key first. Cost: O(log steps) to add bytes or to find the step with the most, and the
 * same number of heap operations to store an idle value; O(steps) to build the trees.
 */

/* Allocates the trees for `steps` steps. Returns false if memory is exhausted. */
static bool tree_room(step_tree *tree, uint32_t steps, tn__arena *arena) {
    size_t room = tn__range_tree_room(steps);
    int64_t *memory = tn__arena_array(arena, room, sizeof *memory);
    if (memory == NULL) return false;
    tn__range_tree_init(&tree->bytes, steps, memory);
    tree->width = tree->bytes.width;
    size_t nodes = 2 * (size_t)tree->width;
    tree->first = tn__arena_array(arena, nodes, sizeof *tree->first);
    tree->count = tn__arena_array(arena, nodes, sizeof *tree->count);
    return tree->first != NULL && tree->count != NULL;
}

/* Calls a function for each of the nodes that together cover the steps [first, last). */
static void tree_each(const step_tree *tree, uint32_t first, uint32_t last,
                      void (*node)(void *self, uint32_t at), void *self) {
    uint32_t low = first + tree->width, high = last + tree->width;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) node(self, low++);
        if (high & 1) node(self, --high);
    }
}

/* --- heaps --- */

static bool budget_before(const step_entry *a, const step_entry *b) {
    return a->key != b->key ? a->key < b->key : a->body < b->body;
}
TN__HEAP(step_heap, step_entry, budget_before)

/* Allocates the heaps of all nodes. Before the call, `count` of a node is the capacity that its
 * heap needs; the call sets it to 0. Returns false if memory is exhausted. */
static bool tree_heaps(step_tree *tree, tn__arena *arena) {
    size_t total = 0;
    for (uint32_t at = 1; at < 2 * tree->width; at++) {
        tree->first[at] = (uint32_t)total;
        total += tree->count[at];
        tree->count[at] = 0;
        if (total > UINT32_MAX / 2) return false;
    }
    tree->entries = tn__arena_array(arena, total + 1, sizeof *tree->entries);
    return tree->entries != NULL;
}

static void tree_push(step_tree *tree, uint32_t node, step_entry entry) {
    step_heap_push(&tree->entries[tree->first[node]], tree->count[node]++, entry);
}

/* Removes and returns the smallest entry of all nodes from the leaf of a step to the root. Returns
 * false if there is no entry. */
static bool tree_pop(step_tree *tree, uint32_t step, uint32_t *node, step_entry *entry) {
    *node = 0;
    for (uint32_t at = step + tree->width; at > 0; at /= 2)
        if (tree->count[at] > 0 &&
            (*node == 0 ||
             budget_before(&tree->entries[tree->first[at]], &tree->entries[tree->first[*node]])))
            *node = at;
    if (*node == 0) return false;
    *entry = step_heap_pop(&tree->entries[tree->first[*node]], tree->count[*node]--);
    return true;
}

/* --- live ranges of a schedule ---------------------------------------------------------------- */

/* Returns the live range of a value that an action reading it at position `at` sees. */
static uint32_t budget_life_at(const budget_ranges *it, uint32_t value, uint32_t at) {
    uint32_t id = it->latest[value];
    while (id != TN_NONE && it->ranges[id].made >= at && it->ranges[id].maker != TN_NONE)
        id = it->ranges[id].earlier;
    return id;
}

static void budget_define(budget_ranges *it, uint32_t value, uint32_t maker, uint32_t at) {
    const tn__dag_value *facts = &it->dag->values[value];
    it->ranges[it->range_count] = (budget_range){.bytes = facts->bytes,
                                                 .value = value,
                                                 .maker = maker,
                                                 .made = at,
                                                 .end = at,
                                                 .leave = at,
                                                 .back = at,
                                                 .source = TN_NONE,
                                                 .earlier = it->latest[value]};
    it->latest[value] = it->range_count++;
}

static void budget_use(budget_ranges *it, uint32_t value, uint32_t at) {
    budget_range *range = &it->ranges[it->latest[value]];
    if (at - range->end > range->back - range->leave) {
        range->leave = range->end;
        range->back = at;
    }
    range->end = at;
}

static void budget_run(budget_ranges *it, uint32_t job, uint32_t at) {
    const tn__job *facts = &it->dag->jobs[job];
    bool recompute = it->first_run[job] != TN_NONE;
    uint32_t count;
    const uint32_t *list = tn__job_inputs(it->dag, job, recompute, &count);
    for (uint32_t i = 0; i < count; i++) budget_use(it, list[i], at);
    uint32_t source = facts->inplace != TN_NONE ? it->latest[facts->inplace] : TN_NONE;
    list = tn__job_outputs(it->dag, job, recompute, &count);
    for (uint32_t i = 0; i < count; i++) {
        budget_define(it, list[i], job, at);
        if (i == 0) it->ranges[it->range_count - 1].source = source;
    }
    if (!recompute) it->first_run[job] = at;
}

/* Whether a repeat of a job makes a value. */
static bool budget_makes(const tn__dag *dag, uint32_t job, uint32_t value) {
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(dag, job, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (outputs[i] == value) return true;
    return false;
}

static void budget_settle(budget_ranges *it) {
    const tn__dag *dag = it->dag;
    const uint32_t ends = TN__VALUE_HELD | TN__VALUE_KEPT;
    for (uint32_t i = 0; i < it->range_count; i++) {
        budget_range *range = &it->ranges[i];
        bool repeats = range->maker != TN_NONE &&
                       (dag->jobs[range->maker].flags & TN__JOB_REPEATS) != 0 &&
                       (it->may == NULL || it->may[range->maker]);
        range->fixed =
            it->latest[range->value] == i && (dag->values[range->value].flags & ends) != 0;
        range->can = !range->fixed && repeats && budget_makes(dag, range->maker, range->value) &&
                     !(dag->values[range->value].flags & TN__VALUE_HELD);
        if (range->fixed && it->schedule->count > 0) range->end = it->schedule->count - 1;
    }
}

/* Finds the live ranges of a schedule: where each is made, its readers, and its longest idle
 * interval. Errors: E_NO_MEMORY. Cost: O(actions + operands). */
static tn_status read_ranges(budget_ranges *it) {
    const tn__dag *dag = it->dag;
    size_t ranges = dag->value_count;
    for (uint32_t i = 0; i < it->schedule->count; i++)
        ranges += dag->jobs[it->schedule->actions[i].what].output_count;
    it->range_count = 0;
    it->ranges = tn__arena_array(&it->arena, ranges + 1, sizeof *it->ranges);
    it->latest = tn__arena_array(&it->arena, dag->value_count + (size_t)1, sizeof *it->latest);
    it->first_run = tn__arena_array(&it->arena, dag->job_count + (size_t)1, sizeof *it->first_run);
    if (it->ranges == NULL || it->latest == NULL || it->first_run == NULL)
        return tn__no_memory(it->error, "recomputation");
    for (uint32_t j = 0; j < dag->job_count; j++) it->first_run[j] = TN_NONE;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        it->latest[v] = TN_NONE;
        if (dag->values[v].maker == TN_NONE) budget_define(it, v, TN_NONE, 0);
    }
    for (uint32_t i = 0; i < it->schedule->count; i++)
        budget_run(it, it->schedule->actions[i].what, i);
    budget_settle(it);
    return TN_OK;
}

/* --- choice of live ranges to evict ----------------------------------------------------------- */

/* Chooses live ranges to evict, so that the action that needs the most bytes needs fewer.
 *
 * Repeatedly, of the live ranges that are idle at the action with the most bytes, the one with the
 * smallest key is evicted. The key is the work of recomputing it, divided by its bytes; depending
 * on `reach`, it is also divided by the number of actions for which the live range is idle, or by
 * the square root of this number. The job that makes the value is repeated before the next reader,
 * and the inputs of the repeat must be live by then. Each input is treated as follows:
 *
 *     it is still live             nothing to do
 *     it is evicted, too           it is recomputed earlier than planned
 *     it is small, or ended late   it stays live until the repeat
 *     it ended long ago            it is recomputed only for this repeat: a chain of jobs
 *
 * A chain costs the work of all its jobs, and no job runs more than twice in a round. The sweep
 * ends when the remaining work suffices for none of the live ranges that are idle at the worst
 * action. Values that are recomputed earlier may raise the bytes of other actions. Therefore the
 * peak after every choice is recorded, and the caller may use only the choices up to the best one.
 *
 * The bytes of actions are in a segment tree with the maximum at its root. Idle live ranges are
 * stored in the nodes of a second tree that cover their idle interval, smallest key first; the
 * nodes above an action thus contain all live ranges that are idle there. Keys change with
 * evictions: the key of a live range is computed again when it is taken out, and if it has grown,
 * the live range is stored again. The bytes are an estimate (because of in-place outputs and
 * chains), so the judge measures the result of each round. Cost: O((actions + operands) log^2
 * actions), with chains of at most CHOOSE_CHAIN jobs. Source: Chen et al. 2016, and dynamic tensor
 * rematerialisation (Kirisame et al. 2021: cost divided by bytes and idle time); here, all uses are
 * known in advance.
 */

/* largest number of items in a plan for one live range, which limits the cost of computing a key */
#define CHOOSE_CHAIN 48u

/* How an input of a repeat becomes available: it is recomputed only for the repeat (MAKE),
 * recomputed earlier than planned (EARLIER), kept live for longer, or live anyway. */
typedef enum choose_kind { CHOOSE_MAKE, CHOOSE_EARLIER, CHOOSE_LONGER, CHOOSE_READ } choose_kind;
typedef struct choose_item {
    uint32_t range;
    choose_kind kind;
} choose_item;

typedef struct choose_plan {
    choose_item items[CHOOSE_CHAIN];
    uint32_t count;
    uint32_t at; /* position of the action before which this value is recomputed */
    uint64_t work;
    /* bytes times steps for which the inputs of the repeats stay live longer because of this
     * plan */
    double held;
} choose_plan;

typedef struct choice_state {
    budget_ranges *it;
    budget_choice *choice;
    tn__arena arena; /* memory of the lists below */
    step_tree tree;
    uint32_t *end; /* [ranges] position at which the live range ends now */
    /* [ranges] first position after `leave` at which a repeat reads the evicted live range */
    uint32_t *asked;
    bool *runs; /* [actions] whether the job that ran at this position will be repeated */
    uint32_t reach;
} choice_state;

/* --- the cost of recomputing --- */

static bool choose_has(const choose_plan *plan, uint32_t range) {
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->items[i].range == range) return true;
    return false;
}

static bool choose_add(choose_plan *plan, uint32_t range, choose_kind kind) {
    if (plan->count == CHOOSE_CHAIN) return false;
    plan->items[plan->count++] = (choose_item){range, kind};
    return true;
}

static double choose_area(const choice_state *s, uint32_t range, uint32_t first, uint32_t last) {
    return (double)s->it->ranges[range].bytes * (double)(last - first);
}

/* Decides how a live range that a repeat reads becomes available, and appends the necessary repeats
 * to the plan. Returns false if the plan has too many items. */
static bool choose_source(const choice_state *s, choose_plan *plan, uint32_t id) {
    const budget_range *range = &s->it->ranges[id];
    uint32_t at = plan->at, end = s->end[id];
    bool recompute = s->choice->recompute[id];
    if (choose_has(plan, id) || range->fixed) return true;
    if (recompute && at > s->choice->leave[id] && at < s->choice->at[id]) {
        plan->held += choose_area(s, id, at, s->choice->at[id]);
        return choose_add(plan, id, CHOOSE_EARLIER);
    }
    if (at <= end) return choose_add(plan, id, CHOOSE_READ);
    bool small = range->bytes <= s->it->ranges[plan->items[0].range].bytes / 64;
    double area = choose_area(s, id, end, at);
    if (recompute || !range->can || small || 16 * area < plan->held) {
        plan->held += area;
        return choose_add(plan, id, CHOOSE_LONGER);
    }
    return choose_add(plan, id, CHOOSE_MAKE);
}

/* Whether a repeat of a job before position `at` reads its inputs with unchanged contents: no job
 * that overwrites them has run yet. */
static bool choose_is_unchanged(const budget_ranges *it, uint32_t job, uint32_t at) {
    const tn__job *facts = &it->dag->jobs[job];
    const uint32_t *limits = it->dag->others + facts->limit_first;
    for (uint32_t i = 0; i < facts->limit_count; i++)
        if (limits[i] != job && it->first_run[limits[i]] < at) return false;
    return true;
}

/* Plans the recomputation of a live range before position `at`, with all inputs that it needs.
 * Returns false if that is impossible. */
static bool choose_plan_of(const choice_state *s, uint32_t id, uint32_t at, choose_plan *plan) {
    const budget_ranges *it = s->it;
    *plan = (choose_plan){.count = 1, .at = at, .items = {{id, CHOOSE_MAKE}}};
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->items[i].kind != CHOOSE_MAKE && plan->items[i].kind != CHOOSE_EARLIER) continue;
        const budget_range *range = &it->ranges[plan->items[i].range];
        uint32_t count;
        if (!range->can || !choose_is_unchanged(it, range->maker, at)) return false;
        if (plan->items[i].kind == CHOOSE_MAKE && !s->runs[range->made])
            plan->work = tn__add_sat(plan->work, it->dag->jobs[range->maker].recompute_cost);
        if (i > 0 && plan->items[i].kind == CHOOSE_MAKE) plan->held += (double)range->bytes;
        const uint32_t *inputs = tn__job_inputs(it->dag, range->maker, true, &count);
        for (uint32_t k = 0; k < count; k++)
            if (!choose_source(s, plan, budget_life_at(it, inputs[k], at))) return false;
    }
    return true;
}

/* Returns the position before which a live range would be recomputed if it were evicted: its next
 * reader, or an earlier repeat that reads it. */
static uint32_t choose_when(const choice_state *s, uint32_t id) {
    uint32_t back = s->it->ranges[id].back;
    return s->asked[id] < back ? s->asked[id] : back;
}

/* Returns the key of a live range, the smallest of which is evicted first: the work of recomputing
 * it per byte saved (`reach` 0), per byte and step (1), or per byte and square root of the steps
 * (2). A negative result means that eviction saves nothing or is impossible. */
static double choose_key(const choice_state *s, uint32_t id, choose_plan *plan) {
    uint32_t at = choose_when(s, id), leave = s->it->ranges[id].leave;
    if (s->choice->recompute[id] || at <= leave + 1 || !choose_plan_of(s, id, at, plan)) return -1;
    double steps = (double)(at - leave - 1);
    double saved = (double)s->it->ranges[id].bytes * steps - plan->held;
    if (saved <= 0) return -1;
    double savings[] = {saved / steps, saved, saved / sqrt(steps)};
    return (double)plan->work / savings[s->reach];
}

/* --- choosing --- */

static void choose_change(choice_state *s, uint32_t range, uint32_t first, uint32_t last,
                          bool less) {
    int64_t bytes = (int64_t)s->it->ranges[range].bytes;
    tn__range_tree_add(&s->tree.bytes, first, last, less ? -bytes : bytes);
}

static void choose_item_commit(choice_state *s, uint32_t at, choose_item item) {
    budget_choice *choice = s->choice;
    const budget_range *range = &s->it->ranges[item.range];
    switch (item.kind) {
    case CHOOSE_MAKE: /* a value that is recomputed only for one repeat is live for one step */
        choice->recompute[item.range] = true;
        choice->leave[item.range] = s->end[item.range];
        choice->at[item.range] = s->end[item.range] = at;
        s->runs[range->made] = true;
        break;
    case CHOOSE_EARLIER:
        choose_change(s, item.range, at, choice->at[item.range], false);
        choice->at[item.range] = at;
        break;
    case CHOOSE_LONGER:
        choose_change(s, item.range, s->end[item.range] + 1, at + 1, false);
        s->end[item.range] = at;
        break;
    case CHOOSE_READ:
        break;
    }
    if (at > range->leave && at < s->asked[item.range]) s->asked[item.range] = at;
}

static void choose_commit(choice_state *s, const choose_plan *plan) {
    uint32_t id = plan->items[0].range, largest = TN_NONE;
    const budget_range *ranges = s->it->ranges;
    s->choice->recompute[id] = true;
    s->choice->leave[id] = ranges[id].leave;
    s->choice->at[id] = plan->at;
    s->choice->work = tn__add_sat(s->choice->work, plan->work);
    s->runs[ranges[id].made] = true;
    choose_change(s, id, ranges[id].leave + 1, plan->at, true);
    for (uint32_t i = 1; i < plan->count; i++) {
        choose_item item = plan->items[i];
        bool more = largest == TN_NONE || ranges[item.range].bytes > ranges[largest].bytes;
        if (item.kind == CHOOSE_MAKE && more) largest = item.range;
        choose_item_commit(s, plan->at, item);
    }
    /* When the last intermediate of a chain is made, the first ones have ended. Therefore only the
     * largest one is counted in addition to the live range. */
    if (largest != TN_NONE) choose_change(s, largest, plan->at, plan->at + 1, false);
}

/* --- set-up --- */

/* Whether an output takes over the memory of an operand whose live range ends with this action, so
 * that it needs no additional bytes. */
static bool choose_is_inplace(const budget_ranges *it, uint32_t id) {
    const budget_range *range = &it->ranges[id];
    return range->source != TN_NONE && it->ranges[range->source].end == range->made;
}

static tn_status choose_room(choice_state *s) {
    const budget_ranges *it = s->it;
    size_t ranges = (size_t)it->range_count + 1;
    s->end = tn__arena_array(&s->arena, ranges, sizeof *s->end);
    s->asked = tn__arena_array(&s->arena, ranges, sizeof *s->asked);
    s->runs = tn__arena_array(&s->arena, it->schedule->count + (size_t)1, 1);
    if (!tree_room(&s->tree, it->schedule->count, &s->arena) || s->end == NULL ||
        s->asked == NULL || s->runs == NULL)
        return tn__no_memory(it->error, "recomputation");
    return TN_OK;
}

typedef struct choose_hang {
    choice_state *s;
    step_entry entry;
    bool count; /* true: only count the entries that each node's heap will get */
} choose_hang;

static void choose_hang_node(void *self, uint32_t node) {
    choose_hang *hang = self;
    if (hang->count)
        hang->s->tree.count[node]++;
    else
        tree_push(&hang->s->tree, node, hang->entry);
}

/* Stores every live range that may be evicted in the heaps of the tree nodes that cover its idle
 * interval. */
static void choose_hang_all(choice_state *s, bool count) {
    const budget_ranges *it = s->it;
    choose_plan plan;
    for (uint32_t b = 0; b < it->range_count; b++) {
        const budget_range *range = &it->ranges[b];
        if (!range->can || range->back <= range->leave + 1) continue;
        choose_hang hang = {s, {count ? 0 : choose_key(s, b, &plan), b}, count};
        if (hang.entry.key < 0) continue;
        tree_each(&s->tree, range->leave + 1, range->back, choose_hang_node, &hang);
    }
}

static tn_status choose_begin(choice_state *s) {
    const budget_ranges *it = s->it;
    for (uint32_t p = 0; p < it->schedule->count; p++)
        tn__range_tree_add(&s->tree.bytes, p, p + 1,
                           (int64_t)it->dag->jobs[it->schedule->actions[p].what].scratch);
    for (uint32_t b = 0; b < it->range_count; b++) {
        const budget_range *range = &it->ranges[b];
        s->end[b] = range->end;
        s->asked[b] = TN_NONE;
        choose_change(s, b, range->made + choose_is_inplace(it, b), range->end + 1, false);
    }
    choose_hang_all(s, true);
    if (!tree_heaps(&s->tree, &s->arena)) return tn__no_memory(it->error, "recomputation");
    choose_hang_all(s, false);
    return TN_OK;
}

/* --- the choice --- */

/* Evicts, of the live ranges that are idle at an action, the one with the smallest key that the
 * remaining work allows to recompute. Returns false if the remaining work allows no
 * recomputation. */
static bool choose_one(choice_state *s, uint32_t step, uint64_t budget) {
    step_entry entry;
    uint32_t node;
    choose_plan plan;
    while (tree_pop(&s->tree, step, &node, &entry)) {
        double key = choose_key(s, entry.body, &plan);
        if (key < 0 || plan.at <= step || plan.work > budget - s->choice->work) continue;
        if (key > entry.key * 1.0001) {
            entry.key = key;
            tree_push(&s->tree, node, entry);
            continue;
        }
        choose_commit(s, &plan);
        return true;
    }
    return false;
}

static void choose_run(choice_state *s, uint64_t budget, uint64_t target, uint32_t most) {
    budget_choice *choice = s->choice;
    uint32_t step = tn__range_tree_top(&s->tree.bytes);
    choice->peak = (uint64_t)tn__range_tree_peak(&s->tree.bytes);
    choice->best = choice->count = 0;
    while (choice->count < most && choice->peak > target && choose_one(s, step, budget)) {
        choice->count++;
        step = tn__range_tree_top(&s->tree.bytes);
        uint64_t peak = (uint64_t)tn__range_tree_peak(&s->tree.bytes);
        if (peak >= choice->peak) continue;
        choice->peak = peak;
        choice->best = choice->count;
    }
}

/* Allocates the lists of a choice (the decisions of one sweep). choose_ranges can fill it several
 * times. */
static tn_status choice_room(budget_ranges *it, budget_choice *choice) {
    size_t ranges = (size_t)it->range_count + 1;
    choice->recompute = tn__arena_array(&it->arena, ranges, sizeof *choice->recompute);
    choice->leave = tn__arena_array(&it->arena, ranges, sizeof *choice->leave);
    choice->at = tn__arena_array(&it->arena, ranges, sizeof *choice->at);
    if (choice->recompute == NULL || choice->leave == NULL || choice->at == NULL)
        return tn__no_memory(it->error, "recomputation");
    return TN_OK;
}

static tn_status choose_ranges(budget_ranges *it, uint64_t budget, uint64_t target, uint32_t reach,
                               uint32_t most, budget_choice *choice) {
    choice_state state = {.it = it, .choice = choice, .reach = reach};
    tn__arena_init(&state.arena, it->arena.context);
    memset(choice->recompute, 0, it->range_count * sizeof *choice->recompute);
    choice->work = 0;
    tn_status status = choose_room(&state);
    if (status == TN_OK) status = choose_begin(&state);
    if (status == TN_OK) choose_run(&state, budget, target, most);
    tn__arena_release(&state.arena);
    return status;
}

/* --- sweeps and rounds ------------------------------------------------------------------------ */

#define BUDGET_ROUNDS 12 /* limit for the rounds of a search, because late rounds gain little */
/* number of variants of the search: with whole sweeps, and with half of each sweep */
#define BUDGET_PARTS 2u

typedef struct budget_state {
    const tn__dag *dag;
    const tn__work_budget *goal;
    tn__schedule *schedule, next, better;
    /* the judge's measurements of `schedule` and of `better` */
    tn__replay replay, better_replay;
    /* whether this round has found a schedule, `better`, that is better than `schedule` */
    bool improved;
    uint32_t parts; /* a round uses the first part of each sweep: 1 / parts of its evictions */
    tn_error *error;
} budget_state;

/* --- from a choice to a schedule --- */

typedef struct budget_due { /* a job that is repeated before the action `at` */
    uint32_t at, job;
} budget_due;

static int budget_compare(const void *left, const void *right) {
    const budget_due *a = left, *b = right;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return a->job < b->job ? -1 : a->job > b->job;
}

/* Lists each repeat once, at the earliest position at which one of its outputs is needed. */
static tn_status budget_list(budget_ranges *it, const budget_choice *choice, budget_due **dues,
                             uint32_t *count) {
    uint32_t actions = it->schedule->count;
    uint32_t *at = tn__arena_array(&it->arena, (size_t)actions + 1, sizeof *at);
    *dues = tn__arena_array(&it->arena, (size_t)actions + 1, sizeof **dues);
    if (at == NULL || *dues == NULL) return tn__no_memory(it->error, "recomputation");
    for (uint32_t i = 0; i < actions; i++) at[i] = TN_NONE;
    for (uint32_t i = 0; i < it->range_count; i++)
        if (choice->recompute[i] && choice->at[i] < at[it->ranges[i].made])
            at[it->ranges[i].made] = choice->at[i];
    *count = 0;
    for (uint32_t i = 0; i < actions; i++)
        if (at[i] != TN_NONE)
            (*dues)[(*count)++] = (budget_due){at[i], it->schedule->actions[i].what};
    qsort(*dues, *count, sizeof **dues, budget_compare);
    return TN_OK;
}

static tn_status budget_emit(budget_ranges *it, const budget_choice *choice, tn__schedule *next) {
    budget_due *dues;
    uint32_t count = 0, due = 0;
    TN_TRY(budget_list(it, choice, &dues, &count));
    next->count = 0;
    for (uint32_t i = 0; i < it->schedule->count; i++) {
        for (; due < count && dues[due].at == i; due++) {
            bool twice = due > 0 && budget_compare(&dues[due], &dues[due - 1]) == 0;
            tn__action action = {.kind = TN__RUN, .what = dues[due].job};
            if (!twice) TN_TRY(tn__schedule_add(next, action, it->error));
        }
        TN_TRY(tn__schedule_add(next, it->schedule->actions[i], it->error));
    }
    return TN_OK;
}

/* --- rounds --- */

/* Whether result a is better than b. A result with a peak within the target is better than one
 * above it. If both are within the target, less work is better; otherwise fewer bytes are. */
static bool budget_is_better(const budget_state *s, const tn__replay *a, const tn__replay *b) {
    bool in = a->peak <= s->goal->target, other = b->peak <= s->goal->target;
    if (in != other) return in;
    if (in) return a->cost < b->cost;
    return a->peak < b->peak;
}

static tn_status budget_replay(const budget_state *s, const tn__schedule *schedule,
                               tn__replay *replay) {
    TN_TRY(tn__replay_schedule(s->dag, schedule, replay, NULL, s->error));
    if (s->goal->bytes == NULL) return TN_OK;
    return s->goal->bytes(s->goal->self, schedule, &replay->peak);
}

/* Writes the schedule of a choice, measures it with the judge, and keeps it if it is the best so
 * far. */
static tn_status budget_judge(budget_state *s, budget_ranges *it, const budget_choice *choice) {
    tn__replay replay;
    TN_TRY(budget_emit(it, choice, &s->next));
    TN_TRY(budget_replay(s, &s->next, &replay));
    bool dear = replay.cost - s->dag->cost > s->goal->added;
    const tn__replay *best = s->improved ? &s->better_replay : &s->replay;
    if (dear || !budget_is_better(s, &replay, best)) return TN_OK;
    s->better_replay = replay;
    s->improved = true;
    return tn__schedule_copy(&s->better, &s->next, s->error);
}

/* Runs one sweep, takes its choices up to the lowest estimated peak (or only a part of these), and
 * judges the resulting schedule. */
static tn_status budget_search(budget_state *s, budget_ranges *it, uint32_t reach,
                               budget_choice *choice) {
    uint64_t left = s->goal->added - (s->replay.cost - s->dag->cost);
    TN_TRY(choose_ranges(it, left, s->goal->target, reach, UINT32_MAX, choice));
    if (choice->best == 0) return TN_OK;
    uint32_t most = (choice->best + s->parts - 1) / s->parts;
    if (most < choice->count) TN_TRY(choose_ranges(it, left, s->goal->target, reach, most, choice));
    return budget_judge(s, it, choice);
}

static tn_status budget_round(budget_state *s) {
    budget_ranges it = {
        .dag = s->dag, .schedule = s->schedule, .may = s->goal->may, .error = s->error};
    budget_choice choice = {0};
    tn__arena_init(&it.arena, &s->schedule->context);
    s->improved = false;
    tn_status status = read_ranges(&it);
    if (status == TN_OK) status = choice_room(&it, &choice);
    for (uint32_t reach = 0; reach < BUDGET_REACHES && status == TN_OK; reach++)
        status = budget_search(s, &it, reach, &choice);
    tn__arena_release(&it.arena);
    if (status != TN_OK || !s->improved) return status;
    s->replay = s->better_replay;
    return tn__schedule_copy(s->schedule, &s->better, s->error);
}

/* Runs rounds as long as they improve the schedule. */
static tn_status budget_descend(budget_state *s) {
    s->improved = true;
    for (int round = 0; round < BUDGET_ROUNDS; round++) {
        bool spent = s->replay.cost - s->dag->cost >= s->goal->added;
        if (!s->improved || spent || s->replay.peak <= s->goal->target) break;
        TN_TRY(budget_round(s));
    }
    return TN_OK;
}

/* Runs one variant of the search (whole sweeps, or parts of them) from the schedule `from`.
 * *schedule is replaced if the result is better. */
static tn_status budget_way(budget_state *s, const tn__schedule *from, const tn__replay *replay,
                            tn__schedule *schedule, tn__replay *best) {
    s->replay = *replay;
    TN_TRY(tn__schedule_copy(s->schedule, from, s->error));
    TN_TRY(budget_descend(s));
    if (!budget_is_better(s, &s->replay, best)) return TN_OK;
    *best = s->replay;
    return tn__schedule_copy(schedule, s->schedule, s->error);
}

static tn_status budget_ways(budget_state *s, tn__schedule *schedule, tn__replay *best) {
    tn__schedule from;
    tn__replay first;
    TN_TRY(budget_replay(s, schedule, &first));
    *best = first;
    tn__schedule_init(&from, &schedule->context);
    tn_status status = tn__schedule_copy(&from, schedule, s->error);
    for (s->parts = 1; s->parts <= BUDGET_PARTS && status == TN_OK; s->parts *= 2)
        status = budget_way(s, &from, &first, schedule, best);
    tn__schedule_release(&from);
    return status;
}

tn_status tn__work_budget_lower(const tn__dag *dag, const tn__work_budget *goal,
                                tn__schedule *schedule, tn__replay *replay, tn_error *error) {
    tn__schedule way;
    budget_state state = {.dag = dag, .goal = goal, .schedule = &way, .error = error};
    tn__schedule_init(&way, &schedule->context);
    tn__schedule_init(&state.next, &schedule->context);
    tn__schedule_init(&state.better, &schedule->context);
    tn_status status = budget_ways(&state, schedule, replay);
    tn__schedule_release(&way);
    tn__schedule_release(&state.next);
    tn__schedule_release(&state.better);
    return status;
}
