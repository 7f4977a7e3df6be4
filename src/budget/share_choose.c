/* share_choose.c - what to give up so that the worst act needs less.
 *
 * Again and again: at the act that needs most, of the lives that are idle there, the one is given
 * up that costs least work for its bytes; or for these times the acts for which it is idle, or the
 * root of those (`reach`). Its
 * maker runs again before whoever reads it next; what that needs must be there by then:
 *
 *     still there           nothing to do
 *     given up, too         made again that early
 *     small, or nearly so   stays that long
 *     gone since long       made again in between: more jobs, the chain of this one
 *
 * So a chain costs all its work, and in one round nothing runs more than twice. It ends when
 * nothing idle at the worst act can be had for the work that is left. As things that are made
 * again earlier may raise other acts, the bytes of every state are noted, and the caller may have
 * the choice up to the best.
 *
 * The acts' bytes are a tree with the largest on top. Idle lives hang in the nodes of a second
 * tree that make up their stretch, least cost first, so that the nodes above an act have all that
 * are idle there. Costs change with what is given up; they are taken anew when a life comes up, and
 * it is hung back when it is no longer the least.
 * The count is an estimate (in-place, chains): share.c asks the judge.
 * Cost: O((acts + operands) log^2 acts), chains of at most CHOOSE_CHAIN jobs.
 * Source: in the line of Chen et al. 2016 and of dynamic tensor rematerialisation (Kirisame et al.
 * 2021: cost over bytes and idle time), with all uses known.
 */
#include <math.h>

#include "budget/share.h"
#include "budget/share_tree.h"

#define CHOOSE_CHAIN 48u /* jobs: a bound on the work of one look at a life */

/* One thing that making a life again takes. */
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
    double held; /* bytes times steps that the items are there for this */
} choose_plan;

typedef struct choose_state {
    tn__share *it;
    tn__share_choice *choice;
    tn__arena arena; /* the lists below */
    tn__share_tree tree;
    uint32_t *end;   /* [lives] as it is now */
    uint32_t *asked; /* [lives] first position behind `leave` where a copy reads it */
    bool *runs;      /* [acts] what ran there runs again */
    uint32_t reach;
} choose_state;

/* --- what it takes --- */

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

/* What a life that a job reads again takes to be there. */
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

/* Whether a job that runs again at `at` reads memory as it was then. */
static bool choose_is_unchanged(const tn__share *it, uint32_t job, uint32_t at) {
    const tn__job *facts = &it->work->jobs[job];
    const uint32_t *limits = it->work->others + facts->limit_first;
    for (uint32_t i = 0; i < facts->limit_count; i++)
        if (limits[i] != job && it->first_run[limits[i]] < at) return false;
    return true;
}

/* The chain of a life, made again before `at`. False: it cannot be. */
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

/* Where it would be made again. */
static uint32_t choose_when(const choose_state *s, uint32_t id) {
    uint32_t back = s->it->lives[id].back;
    return s->asked[id] < back ? s->asked[id] : back;
}

/* Work per byte (and step) that it saves; negative: it saves nothing, or cannot be. */
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
    tn__share_tree_add(&s->tree, first, last, less ? -bytes : bytes);
}

static void choose_item_commit(choose_state *s, uint32_t at, choose_item item) {
    tn__share_choice *choice = s->choice;
    const tn__share_life *life = &s->it->lives[item.life];
    switch (item.kind) {
    case CHOOSE_MAKE: /* in between: there for one step */
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
    /* Of a chain, what comes first is gone when the last is made: one of them beside the life. */
    if (largest != TN_NONE) choose_change(s, largest, plan->at, plan->at + 1, false);
}

/* --- set-up --- */

/* A job that writes over an operand which ends there needs no bytes of its own yet. */
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
    bool count; /* how much room there must be */
} choose_hang;

static void choose_hang_node(void *self, uint32_t node) {
    choose_hang *hang = self;
    if (hang->count)
        hang->s->tree.count[node]++;
    else
        tn__share_tree_push(&hang->s->tree, node, hang->entry);
}

/* Every life that may be idle, in the nodes of its stretch. */
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
        tn__share_tree_add(&s->tree, p, p + 1,
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

/* Gives up one life that is idle at an act. False: none can be. */
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
    int64_t peak;
    uint32_t step = tn__share_tree_top(&s->tree, &peak);
    choice->peak = (uint64_t)peak;
    choice->best = choice->count = 0;
    while (choice->count < most && choice->peak > target && choose_one(s, step, budget)) {
        choice->count++;
        step = tn__share_tree_top(&s->tree, &peak);
        if ((uint64_t)peak >= choice->peak) continue;
        choice->peak = (uint64_t)peak;
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
