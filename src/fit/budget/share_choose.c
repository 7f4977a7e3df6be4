/* share_choose.c - chooses live ranges to evict so that the worst act needs less.
 *
 * Repeatedly, at the act with the most bytes, the cheapest idle live range is evicted. Its key is
 * the work divided by its bytes; depending on `reach`, also by the number of acts for which it is
 * idle, or by the root of this number. Its maker is repeated before the next reader, and its inputs
 * must be live by then. An input
 *
 *     is still live          nothing to do
 *     is evicted, too        recomputed that early
 *     small, or nearly so    stays until then
 *     ended long ago         recomputed as an intermediate: more jobs, a chain
 *
 * A chain costs the work of all its jobs, and no job runs more than twice in a round. The sweep
 * ends when no idle live range at the worst act can be evicted with the remaining work. Values that
 * are recomputed earlier may raise other acts; therefore the peak after every choice is noted, and
 * the caller may use the choices up to the best one.
 *
 * The bytes of acts are in a tree with the maximum on top. Idle live ranges are stored in the nodes
 * of a second tree that cover their idle interval, least cost first; the nodes above an act thus
 * contain all that are idle there. Costs change with evictions; they are computed again when a live
 * range is taken out, and it is stored again if it is no longer the least. The bytes are an
 * estimate (in-place, chains): share.c asks the judge. Cost: O((acts + operands) log^2 acts),
 * chains of at most CHOOSE_CHAIN jobs. Source: Chen et al. 2016, and dynamic tensor
 * rematerialisation (Kirisame et al. 2021: cost over bytes and idle time); here, all uses are
 * known.
 */
#include <math.h>

#include "fit/budget/share.h"
#include "fit/budget/share_tree.h"

#define CHOOSE_CHAIN 48u /* jobs: limits the work of one look at a live range */

/* How one input of a repeat becomes available. */
typedef enum choose_kind { CHOOSE_MAKE, CHOOSE_EARLIER, CHOOSE_LONGER, CHOOSE_READ } choose_kind;
typedef struct choose_item {
    uint32_t life;
    choose_kind kind;
} choose_item;

typedef struct choose_plan {
    choose_item items[CHOOSE_CHAIN];
    uint32_t count;
    uint32_t at; /* before this operator */
    uint64_t work;
    double held; /* bytes times steps for which items stay live for this */
} choose_plan;

typedef struct choose_state {
    tn__share *it;
    tn__share_choice *choice;
    tn__arena arena; /* the lists below */
    tn__share_tree tree;
    uint32_t *end;   /* [lives] current end */
    uint32_t *asked; /* [lives] first position after `leave` at which a repeat reads it */
    bool *runs;      /* [acts] the job that ran there is repeated */
    uint32_t reach;
} choose_state;

/* --- the cost of recomputing --- */

static bool choose_has(const choose_plan *plan, uint32_t life) {
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->items[i].life == life) return true;
    return false;
}

static bool choose_add(choose_plan *plan, uint32_t life, choose_kind kind) {
    if (plan->count == CHOOSE_CHAIN) return false;
    plan->items[plan->count++] = (choose_item){life, kind};
    return true;
}

static double choose_area(const choose_state *s, uint32_t life, uint32_t first, uint32_t last) {
    return (double)s->it->lives[life].bytes * (double)(last - first);
}

/* Decides how a live range that a repeat reads becomes available. */
static bool choose_source(const choose_state *s, choose_plan *plan, uint32_t id) {
    const tn__share_life *life = &s->it->lives[id];
    uint32_t at = plan->at, end = s->end[id];
    bool again = s->choice->again[id];
    if (choose_has(plan, id) || life->fixed) return true;
    if (again && at > s->choice->leave[id] && at < s->choice->at[id]) {
        plan->held += choose_area(s, id, at, s->choice->at[id]);
        return choose_add(plan, id, CHOOSE_EARLIER);
    }
    if (at <= end) return choose_add(plan, id, CHOOSE_READ);
    bool small = life->bytes <= s->it->lives[plan->items[0].life].bytes / 64;
    double area = choose_area(s, id, end, at);
    if (again || !life->can || small || 16 * area < plan->held) {
        plan->held += area;
        return choose_add(plan, id, CHOOSE_LONGER);
    }
    return choose_add(plan, id, CHOOSE_MAKE);
}

/* Whether a job that is repeated at `at` reads memory with unchanged contents. */
static bool choose_is_unchanged(const tn__share *it, uint32_t job, uint32_t at) {
    const tn__job *facts = &it->work->jobs[job];
    const uint32_t *limits = it->work->others + facts->limit_first;
    for (uint32_t i = 0; i < facts->limit_count; i++)
        if (limits[i] != job && it->first_run[limits[i]] < at) return false;
    return true;
}

/* Plans the chain of a live range that is recomputed before `at`. False: impossible. */
static bool choose_plan_of(const choose_state *s, uint32_t id, uint32_t at, choose_plan *plan) {
    const tn__share *it = s->it;
    *plan = (choose_plan){.count = 1, .at = at, .items = {{id, CHOOSE_MAKE}}};
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->items[i].kind != CHOOSE_MAKE && plan->items[i].kind != CHOOSE_EARLIER) continue;
        const tn__share_life *life = &it->lives[plan->items[i].life];
        uint32_t count;
        if (!life->can || !choose_is_unchanged(it, life->maker, at)) return false;
        if (plan->items[i].kind == CHOOSE_MAKE && !s->runs[life->made])
            plan->work = tn__add_sat(plan->work, it->work->jobs[life->maker].again_cost);
        if (i > 0 && plan->items[i].kind == CHOOSE_MAKE) plan->held += (double)life->bytes;
        const uint32_t *inputs = tn__job_inputs(it->work, life->maker, true, &count);
        for (uint32_t k = 0; k < count; k++)
            if (!choose_source(s, plan, tn__share_life_at(it, inputs[k], at))) return false;
    }
    return true;
}

/* The position at which it would be recomputed. */
static uint32_t choose_when(const choose_state *s, uint32_t id) {
    uint32_t back = s->it->lives[id].back;
    return s->asked[id] < back ? s->asked[id] : back;
}

/* Work per byte (and step) saved; negative: saves nothing, or is impossible. */
static double choose_key(const choose_state *s, uint32_t id, choose_plan *plan) {
    uint32_t at = choose_when(s, id), leave = s->it->lives[id].leave;
    if (s->choice->again[id] || at <= leave + 1 || !choose_plan_of(s, id, at, plan)) return -1;
    double steps = (double)(at - leave - 1);
    double saved = (double)s->it->lives[id].bytes * steps - plan->held;
    if (saved <= 0) return -1;
    double savings[] = {saved / steps, saved, saved / sqrt(steps)};
    return (double)plan->work / savings[s->reach];
}

/* --- choosing --- */

static void choose_change(choose_state *s, uint32_t life, uint32_t first, uint32_t last,
                          bool less) {
    int64_t bytes = (int64_t)s->it->lives[life].bytes;
    tn__range_tree_add(&s->tree.bytes, first, last, less ? -bytes : bytes);
}

static void choose_item_commit(choose_state *s, uint32_t at, choose_item item) {
    tn__share_choice *choice = s->choice;
    const tn__share_life *life = &s->it->lives[item.life];
    switch (item.kind) {
    case CHOOSE_MAKE: /* an intermediate, live for one step */
        choice->again[item.life] = true;
        choice->leave[item.life] = s->end[item.life];
        choice->at[item.life] = s->end[item.life] = at;
        s->runs[life->made] = true;
        break;
    case CHOOSE_EARLIER:
        choose_change(s, item.life, at, choice->at[item.life], false);
        choice->at[item.life] = at;
        break;
    case CHOOSE_LONGER:
        choose_change(s, item.life, s->end[item.life] + 1, at + 1, false);
        s->end[item.life] = at;
        break;
    case CHOOSE_READ:
        break;
    }
    if (at > life->leave && at < s->asked[item.life]) s->asked[item.life] = at;
}

static void choose_commit(choose_state *s, const choose_plan *plan) {
    uint32_t id = plan->items[0].life, largest = TN_NONE;
    const tn__share_life *lives = s->it->lives;
    s->choice->again[id] = true;
    s->choice->leave[id] = lives[id].leave;
    s->choice->at[id] = plan->at;
    s->choice->work = tn__add_sat(s->choice->work, plan->work);
    s->runs[lives[id].made] = true;
    choose_change(s, id, lives[id].leave + 1, plan->at, true);
    for (uint32_t i = 1; i < plan->count; i++) {
        choose_item item = plan->items[i];
        bool more = largest == TN_NONE || lives[item.life].bytes > lives[largest].bytes;
        if (item.kind == CHOOSE_MAKE && more) largest = item.life;
        choose_item_commit(s, plan->at, item);
    }
    /* In a chain, the first intermediates have ended when the last one is made: only one of them is
     * counted in addition to the live range. */
    if (largest != TN_NONE) choose_change(s, largest, plan->at, plan->at + 1, false);
}

/* --- set-up --- */

/* A job that overwrites an operand which ends there needs no bytes of its own yet. */
static bool choose_is_inplace(const tn__share *it, uint32_t id) {
    const tn__share_life *life = &it->lives[id];
    return life->source != TN_NONE && it->lives[life->source].end == life->made;
}

static tn_status choose_room(choose_state *s) {
    const tn__share *it = s->it;
    size_t lives = (size_t)it->life_count + 1;
    s->end = tn__arena_array(&s->arena, lives, sizeof *s->end);
    s->asked = tn__arena_array(&s->arena, lives, sizeof *s->asked);
    s->runs = tn__arena_array(&s->arena, it->schedule->count + (size_t)1, 1);
    if (!tn__share_tree_room(&s->tree, it->schedule->count, &s->arena) || s->end == NULL ||
        s->asked == NULL || s->runs == NULL)
        return tn__no_memory(it->error, "recomputation");
    return TN_OK;
}

typedef struct choose_hang {
    choose_state *s;
    tn__share_entry entry;
    bool count; /* only counts the room that is needed */
} choose_hang;

static void choose_hang_node(void *self, uint32_t node) {
    choose_hang *hang = self;
    if (hang->count)
        hang->s->tree.count[node]++;
    else
        tn__share_tree_push(&hang->s->tree, node, hang->entry);
}

/* Stores every live range that may be idle in the nodes that cover its interval. */
static void choose_hang_all(choose_state *s, bool count) {
    const tn__share *it = s->it;
    choose_plan plan;
    for (uint32_t b = 0; b < it->life_count; b++) {
        const tn__share_life *life = &it->lives[b];
        if (!life->can || life->back <= life->leave + 1) continue;
        choose_hang hang = {s, {count ? 0 : choose_key(s, b, &plan), b}, count};
        if (hang.entry.key < 0) continue;
        tn__share_tree_each(&s->tree, life->leave + 1, life->back, choose_hang_node, &hang);
    }
}

static tn_status choose_begin(choose_state *s) {
    const tn__share *it = s->it;
    for (uint32_t p = 0; p < it->schedule->count; p++)
        tn__range_tree_add(&s->tree.bytes, p, p + 1,
                           (int64_t)it->work->jobs[it->schedule->acts[p].what].scratch);
    for (uint32_t b = 0; b < it->life_count; b++) {
        const tn__share_life *life = &it->lives[b];
        s->end[b] = life->end;
        s->asked[b] = TN_NONE;
        choose_change(s, b, life->made + choose_is_inplace(it, b), life->end + 1, false);
    }
    choose_hang_all(s, true);
    if (!tn__share_tree_heaps(&s->tree, &s->arena))
        return tn__no_memory(it->error, "recomputation");
    choose_hang_all(s, false);
    return TN_OK;
}

/* --- the choice --- */

/* Evicts one live range that is idle at an act. False: none can be evicted. */
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

static void choose_run(choose_state *s, uint64_t budget, uint64_t target, uint32_t most) {
    tn__share_choice *choice = s->choice;
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

tn_status tn__share_choice_room(tn__share *it, tn__share_choice *choice) {
    size_t lives = (size_t)it->life_count + 1;
    choice->again = tn__arena_array(&it->arena, lives, sizeof *choice->again);
    choice->leave = tn__arena_array(&it->arena, lives, sizeof *choice->leave);
    choice->at = tn__arena_array(&it->arena, lives, sizeof *choice->at);
    if (choice->again == NULL || choice->leave == NULL || choice->at == NULL)
        return tn__no_memory(it->error, "recomputation");
    return TN_OK;
}

tn_status tn__share_choose(tn__share *it, uint64_t budget, uint64_t target, uint32_t reach,
                           uint32_t most, tn__share_choice *choice) {
    choose_state state = {.it = it, .choice = choice, .reach = reach};
    tn__arena_init(&state.arena, it->arena.context);
    memset(choice->again, 0, it->life_count * sizeof *choice->again);
    choice->work = 0;
    tn_status status = choose_room(&state);
    if (status == TN_OK) status = choose_begin(&state);
    if (status == TN_OK) choose_run(&state, budget, target, most);
    tn__arena_release(&state.arena);
    return status;
}
