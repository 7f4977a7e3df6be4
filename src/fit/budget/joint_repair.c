/* joint_repair.c - chooses values to evict where a line is above the budget. From left to right, at
 * each run above the budget: among the live values that are idle there, the one with the lowest
 * cost per freed byte (and step) is evicted. It is recomputed right before its next read. Each
 * input of that repeat
 *
 *     is live            nothing to do
 *     stays longer       if it fits, or is far smaller, or a later repair may make room
 *     is recomputed      with its own inputs in turn: a chain
 *
 * Live ranges need no bookkeeping: an evicted value ends at its last read before the repeat. Cost:
 * O(live values + chains) for each victim.
 */
#include "fit/budget/joint_repair.h"

#include <math.h>

#define REPAIR_LOOKS 24u /* victims whose chains are planned */

typedef struct repair_idle {
    uint32_t value, touch; /* idle from this touch to the next one */
} repair_idle;

typedef struct repair_gap { /* keys at which a victim would not be live */
    uint32_t value, first, last;
} repair_gap;

/* --- set-up --------------------------------------------------------------------------------- */

/* Approximate logarithm of a positive number; equal on every machine. */
static float repair_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    double fraction = (double)(bits & (((uint64_t)1 << 52) - 1)) * 0x1p-52;
    double exponent = (double)(int64_t)(bits >> 52) - 1023;
    return (float)(exponent + fraction * (1.3465 - 0.3465 * fraction));
}

static bool repair_makes(const tn__work *work, uint32_t job, uint32_t value) {
    uint32_t count;
    const uint32_t *output = tn__job_outputs(work, job, true, &count);
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        if (work->values[output[i]].flags & TN__VALUE_HELD) return false;
        found |= output[i] == value;
    }
    return found;
}

bool tn__repair_room(tn__repair *repair, tn__line *line, uint64_t budget, tn__arena *arena) {
    const tn__work *work = line->work;
    size_t values = (size_t)work->value_count + 1, jobs = (size_t)work->job_count + 1;
    *repair = (tn__repair){.line = line, .work = work, .budget = budget, .at = TN_NONE, .ban = 1};
    repair->cost_limit = UINT64_MAX;
    repair->can = tn__arena_array(arena, values, sizeof *repair->can);
    repair->banned = tn__arena_array(arena, values, sizeof *repair->banned);
    repair->place = tn__arena_array(arena, values, sizeof *repair->place);
    repair->idle = tn__arena_array(arena, values, sizeof *repair->idle);
    repair->cost_of = tn__arena_array(arena, values, sizeof *repair->cost_of);
    repair->bulk_of = tn__arena_array(arena, values, sizeof *repair->bulk_of);
    repair->seen = tn__arena_array(arena, jobs, sizeof *repair->seen);
    repair->chain = tn__arena_array(arena, REPAIR_CHAIN, sizeof *repair->chain);
    repair->best_chain = tn__arena_array(arena, REPAIR_CHAIN, sizeof *repair->best_chain);
    if (repair->can == NULL || repair->banned == NULL || repair->place == NULL ||
        repair->idle == NULL || repair->seen == NULL || repair->chain == NULL ||
        repair->best_chain == NULL || repair->cost_of == NULL || repair->bulk_of == NULL)
        return false;
    memset(repair->place, 0xff, values * sizeof *repair->place);
    for (uint32_t v = 0; v < work->value_count; v++) {
        uint32_t maker = work->values[v].maker;
        if (maker == TN_NONE || !(work->jobs[maker].flags & TN__JOB_REPEATS)) continue;
        repair->can[v] = work->values[v].bytes > 0 && repair_makes(work, maker, v);
        repair->cost_of[v] = repair_log((double)work->jobs[maker].again_cost + 1e-3);
        repair->bulk_of[v] = repair_log((double)work->values[v].bytes);
    }
    return true;
}

/* --- the cost of recomputing a value -------------------------------------------------------- */

bool tn__repair_may_run(const tn__repair *r, uint32_t job, uint32_t key) {
    const tn__job *it = &r->work->jobs[job];
    const uint32_t *limits = r->work->others + it->limit_first;
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (limits[i] != job && r->line->nodes[TN__LINE_FIRST + limits[i]].key < key) return false;
    return true;
}

bool tn__repair_fits(const tn__repair *r, uint32_t first, uint32_t last, uint64_t bytes) {
    if (first > last) return true;
    return tn__line_tree_most(&r->line->tree, first, last) + (int64_t)bytes <= (int64_t)r->budget;
}

/* Whether a run of the job at `key` replaces its next repeat, because the output can stay until
 * then. */
static bool repair_is_moved(const tn__repair *r, uint32_t value, uint32_t touch, uint32_t key) {
    uint32_t next = r->line->touches[touch].next;
    if (next == TN_NONE || !r->line->nodes[r->line->touches[next].node].again) return false;
    return tn__repair_fits(r, key, tn__line_key(r->line, next), r->work->values[value].bytes);
}

/* Whether a value fits over these keys if the victim is not live in its gap. */
static bool repair_fits_beside(const tn__repair *r, const repair_gap *gap, uint32_t first,
                               uint32_t last, uint64_t bytes) {
    uint32_t from = first > gap->first ? first : gap->first,
             to = last < gap->last ? last : gap->last;
    uint64_t free = r->work->values[gap->value].bytes;
    if (from > to) return tn__repair_fits(r, first, last, bytes);
    return tn__line_tree_most(&r->line->tree, from, to) + (int64_t)bytes + (int64_t)r->stays <=
               (int64_t)r->budget + (int64_t)free &&
           (first == from || tn__repair_fits(r, first, from - 1, bytes)) &&
           (last == to || tn__repair_fits(r, to + 1, last, bytes));
}

/* Whether it fits at the node above the budget if the victim is evicted. */
static bool repair_fits_here(const tn__repair *r, uint32_t victim, uint64_t bytes) {
    return r->takes + (int64_t)bytes + (int64_t)r->stays <=
           (int64_t)r->budget + (int64_t)r->work->values[victim].bytes;
}

/* Decides how one input of the chain becomes available, and adds its cost. */
static bool repair_need(tn__repair *r, uint32_t value, const repair_gap *gap, uint32_t key,
                        uint64_t *cost) {
    const tn__line *line = r->line;
    const tn__value *it = &r->work->values[value];
    uint32_t last = tn__line_before(line, value, key);
    r->effort++;
    if (last == TN_NONE) return false;
    if (tn__line_is_read_next(line, last)) return true;
    if (it->maker != TN_NONE && r->seen[it->maker] == r->stamp) return true;
    uint32_t from = tn__line_key(line, last) + 1;
    bool settled = tn__line_is_settled(line, last);
    bool across =
        from <= r->here && r->here <= key; /* nothing fits there, unless the victim is evicted */
    bool beside = !across || repair_fits_here(r, gap->value, it->bytes);
    if (!settled && !across && tn__repair_fits(r, from, key, it->bytes)) return true;
    if (!settled && beside && repair_fits_beside(r, gap, from, key, it->bytes)) {
        r->stays += it->bytes;
        r->lost += (double)it->bytes;
        return true;
    }
    if (!settled && r->taste.hopes && from > r->here) return true;
    bool small = !settled && it->bytes * r->taste.lengthen < r->work->values[gap->value].bytes;
    bool can =
        r->can[value] && r->chain_count < REPAIR_CHAIN && tn__repair_may_run(r, it->maker, key);
    if (settled && !can) return false;
    if (!can || (small && r->taste.lengthen > 0)) {
        r->lost += (double)it->bytes;
        return can || r->lost < (double)r->work->values[gap->value].bytes;
    }
    r->seen[it->maker] = r->stamp;
    r->chain[r->chain_count++] = it->maker;
    if (!repair_is_moved(r, value, last, key))
        *cost = tn__add_sat(*cost, r->work->jobs[it->maker].again_cost);
    return true;
}

/* Plans the chain that recomputes a value at `key`; returns its cost. UINT64_MAX: impossible, or
 * above `most`. */
static uint64_t repair_plan(tn__repair *r, const repair_idle *idle, uint64_t most) {
    uint32_t next = r->line->touches[idle->touch].next, key = tn__line_key(r->line, next);
    repair_gap gap = {idle->value, tn__line_key(r->line, idle->touch) + 1, key - 1};
    uint32_t maker = r->work->values[idle->value].maker;
    uint64_t cost = r->work->jobs[maker].again_cost;
    r->stamp++;
    r->lost = 0;
    r->stays = 0;
    r->chain[0] = maker;
    r->chain_count = 1;
    r->seen[maker] = r->stamp;
    if (!tn__repair_may_run(r, maker, key)) return UINT64_MAX;
    for (uint32_t i = 0; i < r->chain_count && cost <= most; i++) {
        uint32_t inputs;
        const uint32_t *input = tn__job_inputs(r->work, r->chain[i], true, &inputs);
        for (uint32_t k = 0; k < inputs; k++)
            if (!repair_need(r, input[k], &gap, key, &cost)) return UINT64_MAX;
    }
    return cost <= most ? cost : UINT64_MAX;
}

/* --- idle values ---------------------------------------------------------------------------- */

static void repair_idle_add(tn__repair *r, uint32_t value, uint32_t touch) {
    if (!r->can[value]) return;
    if (r->place[value] == TN_NONE) r->place[value] = r->idle_count++;
    r->idle[r->place[value]] = (repair_idle){value, touch};
}

static void repair_idle_drop(tn__repair *r, uint32_t value) {
    uint32_t at = r->place[value];
    if (at == TN_NONE) return;
    repair_idle last = r->idle[--r->idle_count];
    r->idle[at] = last;
    r->place[last.value] = at;
    r->place[value] = TN_NONE;
}

/* Updates the idle values for the step past a node. */
static void repair_pass_node(tn__repair *r, uint32_t id) {
    const tn__line_node *node = &r->line->nodes[id];
    for (uint32_t i = 0; i < node->touch_count; i++) {
        uint32_t touch = node->touch_first + i;
        if (tn__line_is_read_next(r->line, touch))
            repair_idle_add(r, r->line->touches[touch].value, touch);
        else
            repair_idle_drop(r, r->line->touches[touch].value);
    }
    r->effort += node->touch_count;
}

static void repair_scan(tn__repair *r, uint32_t key) {
    while (r->idle_count > 0) repair_idle_drop(r, r->idle[r->idle_count - 1].value);
    for (uint32_t v = 0; v < r->work->value_count; v++) {
        if (!r->can[v]) continue;
        uint32_t touch = tn__line_before(r->line, v, key);
        if (touch != TN_NONE && tn__line_is_read_next(r->line, touch)) repair_idle_add(r, v, touch);
    }
    r->effort += r->work->value_count / 4;
}

/* Moves to the node at a key that is above the budget; `idle` then holds the values that are live
 * before it. */
static uint32_t repair_go(tn__repair *r, uint32_t key) {
    tn__line *line = r->line;
    uint32_t steps = 0, at = r->at;
    if (at != TN_NONE && line->nodes[at].key < key)
        for (; at != TN_NONE && steps < r->work->value_count / 2 + 8; steps++) {
            uint32_t next = line->nodes[at].next;
            if (next == TN_NONE || line->nodes[next].key > key) break;
            repair_pass_node(r, at);
            at = next;
            if (line->nodes[at].key == key) return r->at = at;
        }
    repair_scan(r, key);
    for (at = TN__LINE_HEAD; at != TN_NONE && line->nodes[at].key < key;) at = line->nodes[at].next;
    return r->at = at;
}

/* --- choosing ------------------------------------------------------------------------------- */

/* The logarithm of cost / (bytes and steps, each raised to its exponent). */
static float repair_key(const tn__repair *r, const repair_idle *idle, float cost, float bytes) {
    const tn__line *line = r->line;
    uint32_t next = line->touches[idle->touch].next;
    float key = cost - r->taste.bulk * bytes;
    if (r->taste.reach > 0) {
        uint32_t steps = tn__line_key(line, next) - tn__line_key(line, idle->touch);
        key -= r->taste.reach * repair_log((double)steps);
    }
    return r->row != NULL ? key + r->taste.advised * (float)r->row[idle->value] : key;
}

/* The row of advice for the first of its jobs that is not before `key`. */
static const int8_t *repair_row(const tn__repair *r, uint32_t key) {
    const tn__bound_advice *advice = r->advice;
    if (advice == NULL || r->taste.advised <= 0) return NULL;
    for (uint32_t i = 0; i < advice->count; i++)
        if (r->line->nodes[TN__LINE_FIRST + advice->jobs[i]].key >= key) return advice->rows[i];
    return NULL;
}

/* Bytes above the excess count very little. */
static float repair_bulk(const tn__repair *r, float bytes, float excess) {
    if (r->taste.whole || bytes <= excess) return bytes;
    return excess + (bytes - excess) * 0.02f;
}

static float repair_noise(tn__repair *r) {
    if (r->taste.noise <= 0) return 0;
    return r->taste.noise * (float)(tn__random_next(&r->random) >> 40) * 0x1p-24f;
}

/* Whether the value is still idle at this node: the node does not touch it, and it is not restored
 * in between. */
static bool repair_is_idle(const tn__repair *r, const repair_idle *idle, uint32_t node) {
    if (r->banned[idle->value] == r->ban || r->line->touches[idle->touch].node == node)
        return false;
    if (!tn__line_is_read_next(r->line, idle->touch)) return false;
    uint32_t next = r->line->touches[idle->touch].next;
    bool comes = r->line->nodes[r->line->touches[idle->touch].node].job == TN_NONE &&
                 r->line->touches[idle->touch].node > TN__LINE_TAIL;
    if (comes || tn__line_is_settled(r->line, next)) return false;
    return tn__line_key(r->line, next) > r->line->nodes[node].key;
}

typedef struct repair_look {
    float key;
    uint32_t at;
} repair_look;

/* Finds the REPAIR_LOOKS idle values with the lowest keys if only the cost of their makers
 * counted. */
static uint32_t repair_looks(tn__repair *r, uint32_t node, float excess, repair_look *looks) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->idle_count; i++) {
        const repair_idle *idle = &r->idle[i];
        if (!repair_is_idle(r, idle, node)) continue;
        float bytes = repair_bulk(r, r->bulk_of[idle->value], excess);
        float key = repair_key(r, idle, r->cost_of[idle->value], bytes) + repair_noise(r);
        if (count == REPAIR_LOOKS && key >= looks[count - 1].key) continue;
        uint32_t at = count < REPAIR_LOOKS ? count++ : count - 1;
        for (; at > 0 && key < looks[at - 1].key; at--) looks[at] = looks[at - 1];
        looks[at] = (repair_look){key, i};
    }
    r->effort += r->idle_count;
    return count;
}

/* The key of a victim including its chain, which is left in `chain`. */
static float repair_full_key(tn__repair *r, const repair_idle *idle, float excess) {
    uint64_t cost = repair_plan(r, idle, UINT64_MAX - 1);
    double bytes = (double)r->work->values[idle->value].bytes - r->lost;
    if (cost == UINT64_MAX || bytes <= 0) return INFINITY;
    float bulk = repair_bulk(r, repair_log(bytes), excess);
    return repair_key(r, idle, repair_log((double)cost + 1e-3), bulk);
}

/* Chooses the victim at a node, with its chain in best_chain; TN_NONE: no victim. */
static uint32_t repair_choose(tn__repair *r, uint32_t node) {
    repair_look looks[REPAIR_LOOKS];
    float best_key = INFINITY, excess = repair_log((double)(r->takes - (int64_t)r->budget));
    r->here = r->line->nodes[node].key;
    r->row = repair_row(r, r->here);
    uint32_t count = repair_looks(r, node, excess, looks), best = TN_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (looks[i].key >= best_key) break;
        float key = repair_full_key(r, &r->idle[looks[i].at], excess);
        if (key >= best_key) continue;
        best_key = key;
        best = looks[i].at;
        uint32_t *swap = r->chain;
        r->chain = r->best_chain;
        r->best_chain = swap;
        r->best_count = r->chain_count;
    }
    return best;
}

/* --- eviction ------------------------------------------------------------------------------- */

/* Sorts the chain by the order of first runs. */
static void repair_sort_chain(const tn__repair *r) {
    uint32_t *chain = r->best_chain;
    for (uint32_t i = 1; i < r->best_count; i++) {
        uint32_t job = chain[i], at = i;
        uint32_t key = r->line->nodes[TN__LINE_FIRST + job].key;
        for (; at > 0 && r->line->nodes[TN__LINE_FIRST + chain[at - 1]].key > key; at--)
            chain[at] = chain[at - 1];
        chain[at] = job;
    }
}

/* Removes later repeats that the new run makes unnecessary. */
static void repair_spare_next(tn__repair *r, uint32_t id) {
    uint32_t first = r->line->nodes[id].touch_first;
    for (uint32_t i = r->line->nodes[id].input_count; i < r->line->nodes[id].touch_count; i++) {
        uint32_t touch = first + i;
        while (tn__line_is_read_next(r->line, touch)) touch = r->line->touches[touch].next;
        uint32_t next = r->line->touches[touch].next;
        if (next == TN_NONE) continue;
        uint32_t node = r->line->touches[next].node;
        if (r->line->nodes[node].again) tn__repair_spare(r, node);
    }
}

/* Inputs that stay longer for a repeat are idle from here on. */
static void repair_idle_inputs(tn__repair *r, uint32_t job, uint32_t key) {
    uint32_t inputs;
    const uint32_t *input = tn__job_inputs(r->work, job, true, &inputs);
    for (uint32_t k = 0; k < inputs; k++) {
        uint32_t touch = tn__line_before(r->line, input[k], key);
        if (touch != TN_NONE && tn__line_is_read_next(r->line, touch))
            repair_idle_add(r, input[k], touch);
    }
}

/* During this function, `seen` of the chain's jobs holds their new nodes. */
static bool repair_give_up(tn__repair *r, uint32_t at, uint32_t node) {
    tn__line *line = r->line;
    uint32_t value = r->idle[at].value;
    uint32_t before = line->touches[line->touches[r->idle[at].touch].next].node;
    repair_sort_chain(r);
    for (uint32_t i = 0; i < r->best_count; i++) {
        uint32_t id = tn__line_put(line, r->best_chain[i], before);
        if (id == TN_NONE) return false;
        r->seen[r->best_chain[i]] = id;
    }
    for (uint32_t i = 0; i < r->best_count; i++) {
        uint32_t job = r->best_chain[i];
        repair_spare_next(r, r->seen[job]);
        repair_idle_inputs(r, job, line->nodes[node].key);
        r->seen[job] = 0;
    }
    repair_idle_drop(r, value);
    r->effort += 16 * (uint64_t)r->best_count;
    return true;
}

bool tn__repair_run(tn__repair *r) {
    uint32_t most = 40 * r->work->job_count + 1000;
    r->at = TN_NONE;
    for (uint32_t round = 0; round < most; round++) {
        uint32_t key = tn__range_tree_above(&r->line->tree, (int64_t)r->budget);
        if (key == TN_NONE) return true;
        uint32_t node = r->at;
        if (node == TN_NONE || r->line->nodes[node].key != key) node = repair_go(r, key);
        if (node == TN_NONE || r->line->nodes[node].key != key) return false;
        r->takes = tn__line_tree_most(&r->line->tree, key, key);
        uint32_t at = repair_choose(r, node);
        if (at == TN_NONE || !repair_give_up(r, at, node) || r->line->failed) return false;
        if (r->line->cost > r->cost_limit) return false;
    }
    return false;
}
