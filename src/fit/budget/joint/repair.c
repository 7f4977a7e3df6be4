/* repair.c - chooses values to evict where a schedule is above the budget, and removes repeats that
 * are not needed.
 *
 * At each run above the budget, from the first to the last, one of the live values that are idle
 * there is evicted: the one with the lowest cost per freed byte (and step). It is recomputed
 * directly before its next read. Each input of that repeat is treated as follows:
 *
 *     it is live           nothing to do
 *     it stays longer      if it fits, or is far smaller, or a later repair may free memory for it
 *     it is recomputed     with its own inputs in turn; the repeats form a chain
 *
 * Live ranges need no bookkeeping: the live range of an evicted value ends with its last read
 * before the repeat. Cost: O(live values + chains) for each evicted value.
 */
#include "fit/budget/joint/joint.h"

#include <math.h>

/* --- eviction --------------------------------------------------------------------------------- */

/* number of idle values, those with the lowest keys, for which a chain of repeats is planned before
 * one of them is evicted */
#define REPAIR_LOOKS 24u

typedef struct repair_idle {
    /* a value that is idle (live, but not accessed) from this touch to its next one */
    uint32_t value, touch;
} repair_idle;

/* range of keys (positions in the schedule) at which the evicted value would not be live */
typedef struct repair_gap {
    uint32_t value, first, last;
} repair_gap;

/* --- set-up --------------------------------------------------------------------------------- */

/* Returns an approximate binary logarithm of a positive number. The result is equal on every
 * machine. */
static float repair_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    double fraction = (double)(bits & (((uint64_t)1 << 52) - 1)) * 0x1p-52;
    double exponent = (double)(int64_t)(bits >> 52) - 1023;
    return (float)(exponent + fraction * (1.3465 - 0.3465 * fraction));
}

static bool repair_makes(const tn__dag *dag, uint32_t job, uint32_t value) {
    uint32_t count;
    const uint32_t *output = tn__job_outputs(dag, job, true, &count);
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        if (dag->values[output[i]].flags & TN__VALUE_HELD) return false;
        found |= output[i] == value;
    }
    return found;
}

bool tn__repair_room(tn__repair *repair, tn__editable *edit, uint64_t budget, tn__arena *arena) {
    const tn__dag *dag = edit->dag;
    size_t values = (size_t)dag->value_count + 1, jobs = (size_t)dag->job_count + 1;
    *repair = (tn__repair){.edit = edit, .dag = dag, .budget = budget, .at = TN_NONE, .ban = 1};
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
    for (uint32_t v = 0; v < dag->value_count; v++) {
        uint32_t maker = dag->values[v].maker;
        if (maker == TN_NONE || !(dag->jobs[maker].flags & TN__JOB_REPEATS)) continue;
        repair->can[v] = dag->values[v].bytes > 0 && repair_makes(dag, maker, v);
        repair->cost_of[v] = repair_log((double)dag->jobs[maker].recompute_cost + 1e-3);
        repair->bulk_of[v] = repair_log((double)dag->values[v].bytes);
    }
    return true;
}

/* --- the cost of recomputing a value ---------------------------------------------------------- */

/* Whether a repeat of a job may run at a key, which is a place in the schedule: no job that
 * overwrites its inputs has run before. */
static bool repair_may_run(const tn__repair *r, uint32_t job, uint32_t key) {
    const tn__job *it = &r->dag->jobs[job];
    const uint32_t *limits = r->dag->others + it->limit_first;
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (limits[i] != job && r->edit->nodes[TN__EDITABLE_FIRST + limits[i]].key < key)
            return false;
    return true;
}

/* Whether the budget suffices for `bytes` more bytes at all keys from `first` to `last`. */
static bool repair_fits(const tn__repair *r, uint32_t first, uint32_t last, uint64_t bytes) {
    if (first > last) return true;
    return tn__editable_tree_most(&r->edit->tree, first, last) + (int64_t)bytes <=
           (int64_t)r->budget;
}

/* Whether a repeat at `key` makes the next repeat of the same job unnecessary, because its output
 * fits into memory until then. */
static bool repair_is_moved(const tn__repair *r, uint32_t value, uint32_t touch, uint32_t key) {
    uint32_t next = r->edit->touches[touch].next;
    if (next == TN_NONE || !r->edit->nodes[r->edit->touches[next].node].recompute) return false;
    return repair_fits(r, key, tn__editable_key(r->edit, next), r->dag->values[value].bytes);
}

/* Whether `bytes` more bytes fit at all keys from `first` to `last` if the value of `gap` is not
 * live at the keys of `gap`. */
static bool repair_fits_beside(const tn__repair *r, const repair_gap *gap, uint32_t first,
                               uint32_t last, uint64_t bytes) {
    uint32_t from = first > gap->first ? first : gap->first,
             to = last < gap->last ? last : gap->last;
    uint64_t free = r->dag->values[gap->value].bytes;
    if (from > to) return repair_fits(r, first, last, bytes);
    return tn__editable_tree_most(&r->edit->tree, from, to) + (int64_t)bytes + (int64_t)r->stays <=
               (int64_t)r->budget + (int64_t)free &&
           (first == from || repair_fits(r, first, from - 1, bytes)) &&
           (last == to || repair_fits(r, to + 1, last, bytes));
}

/* Whether `bytes` more bytes fit at the node above the budget if the value `victim` is evicted. */
static bool repair_fits_here(const tn__repair *r, uint32_t victim, uint64_t bytes) {
    return r->takes + (int64_t)bytes + (int64_t)r->stays <=
           (int64_t)r->budget + (int64_t)r->dag->values[victim].bytes;
}

/* Decides how an input of a planned repeat becomes available at `key`, and adds the job that
 * recomputes it to the chain, if necessary. Returns false if that is impossible. */
static bool repair_need(tn__repair *r, uint32_t value, const repair_gap *gap, uint32_t key,
                        uint64_t *cost) {
    const tn__editable *edit = r->edit;
    const tn__dag_value *it = &r->dag->values[value];
    uint32_t last = tn__editable_before(edit, value, key);
    r->effort++;
    if (last == TN_NONE) return false;
    if (tn__editable_is_read_next(edit, last)) return true;
    if (it->maker != TN_NONE && r->seen[it->maker] == r->stamp) return true;
    uint32_t from = tn__editable_key(edit, last) + 1;
    bool settled = tn__editable_is_settled(edit, last);
    bool across =
        /* whether the keys include the node above the budget, where no more bytes fit unless the
         * victim is evicted */
        from <= r->here && r->here <= key;
    bool beside = !across || repair_fits_here(r, gap->value, it->bytes);
    if (!settled && !across && repair_fits(r, from, key, it->bytes)) return true;
    if (!settled && beside && repair_fits_beside(r, gap, from, key, it->bytes)) {
        r->stays += it->bytes;
        r->lost += (double)it->bytes;
        return true;
    }
    if (!settled && r->weights.hopes && from > r->here) return true;
    bool small = !settled && it->bytes * r->weights.lengthen < r->dag->values[gap->value].bytes;
    bool can = r->can[value] && r->chain_count < REPAIR_CHAIN && repair_may_run(r, it->maker, key);
    if (settled && !can) return false;
    if (!can || (small && r->weights.lengthen > 0)) {
        r->lost += (double)it->bytes;
        return can || r->lost < (double)r->dag->values[gap->value].bytes;
    }
    r->seen[it->maker] = r->stamp;
    r->chain[r->chain_count++] = it->maker;
    if (!repair_is_moved(r, value, last, key))
        *cost = tn__add_sat(*cost, r->dag->jobs[it->maker].recompute_cost);
    return true;
}

/* Plans the chain of repeats that makes an idle value available again before its next read. Returns
 * the cost of the chain; UINT64_MAX if it is impossible or costs more than `most`. */
static uint64_t repair_plan(tn__repair *r, const repair_idle *idle, uint64_t most) {
    uint32_t next = r->edit->touches[idle->touch].next, key = tn__editable_key(r->edit, next);
    repair_gap gap = {idle->value, tn__editable_key(r->edit, idle->touch) + 1, key - 1};
    uint32_t maker = r->dag->values[idle->value].maker;
    uint64_t cost = r->dag->jobs[maker].recompute_cost;
    r->stamp++;
    r->lost = 0;
    r->stays = 0;
    r->chain[0] = maker;
    r->chain_count = 1;
    r->seen[maker] = r->stamp;
    if (!repair_may_run(r, maker, key)) return UINT64_MAX;
    for (uint32_t i = 0; i < r->chain_count && cost <= most; i++) {
        uint32_t inputs;
        const uint32_t *input = tn__job_inputs(r->dag, r->chain[i], true, &inputs);
        for (uint32_t k = 0; k < inputs; k++)
            if (!repair_need(r, input[k], &gap, key, &cost)) return UINT64_MAX;
    }
    return cost <= most ? cost : UINT64_MAX;
}

/* --- idle values ------------------------------------------------------------------------------ */

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

/* Updates the set of idle values (live, but not accessed by the node) when the repair moves over
 * one node. */
static void repair_pass_node(tn__repair *r, uint32_t id) {
    const tn__editable_node *node = &r->edit->nodes[id];
    for (uint32_t i = 0; i < node->touch_count; i++) {
        uint32_t touch = node->touch_first + i;
        if (tn__editable_is_read_next(r->edit, touch))
            repair_idle_add(r, r->edit->touches[touch].value, touch);
        else
            repair_idle_drop(r, r->edit->touches[touch].value);
    }
    r->effort += node->touch_count;
}

static void repair_scan(tn__repair *r, uint32_t key) {
    while (r->idle_count > 0) repair_idle_drop(r, r->idle[r->idle_count - 1].value);
    for (uint32_t v = 0; v < r->dag->value_count; v++) {
        if (!r->can[v]) continue;
        uint32_t touch = tn__editable_before(r->edit, v, key);
        if (touch != TN_NONE && tn__editable_is_read_next(r->edit, touch))
            repair_idle_add(r, v, touch);
    }
    r->effort += r->dag->value_count / 4;
}

/* Moves to the node with this key, which is above the budget; `idle` then has the values that are
 * live before it. Returns the node, or TN_NONE. */
static uint32_t repair_go(tn__repair *r, uint32_t key) {
    tn__editable *edit = r->edit;
    uint32_t steps = 0, at = r->at;
    if (at != TN_NONE && edit->nodes[at].key < key)
        for (; at != TN_NONE && steps < r->dag->value_count / 2 + 8; steps++) {
            uint32_t next = edit->nodes[at].next;
            if (next == TN_NONE || edit->nodes[next].key > key) break;
            repair_pass_node(r, at);
            at = next;
            if (edit->nodes[at].key == key) return r->at = at;
        }
    repair_scan(r, key);
    for (at = TN__EDITABLE_HEAD; at != TN_NONE && edit->nodes[at].key < key;)
        at = edit->nodes[at].next;
    return r->at = at;
}

/* --- choosing ------------------------------------------------------------------------------- */

/* Returns the logarithm of cost / (bytes^bulk * steps^reach), with the exponents of the weights,
 * plus the effect of the advice. `cost` and `bytes` are logarithms already. */
static float repair_key(const tn__repair *r, const repair_idle *idle, float cost, float bytes) {
    const tn__editable *edit = r->edit;
    uint32_t next = edit->touches[idle->touch].next;
    float key = cost - r->weights.bulk * bytes;
    if (r->weights.reach > 0) {
        uint32_t steps = tn__editable_key(edit, next) - tn__editable_key(edit, idle->touch);
        key -= r->weights.reach * repair_log((double)steps);
    }
    return r->row != NULL ? key + r->weights.advised * (float)r->row[idle->value] : key;
}

/* Returns the advice for the first advised job that runs at `key` or later; NULL if there is no
 * such job. */
static const int8_t *repair_row(const tn__repair *r, uint32_t key) {
    const tn__bound_advice *advice = r->advice;
    if (advice == NULL || r->weights.advised <= 0) return NULL;
    for (uint32_t i = 0; i < advice->count; i++)
        if (r->edit->nodes[TN__EDITABLE_FIRST + advice->jobs[i]].key >= key) return advice->rows[i];
    return NULL;
}

/* Returns the logarithm of the bytes of a value that count in its key: bytes above the excess count
 * very little, unless the weights say that all count. The arguments are logarithms, too. */
static float repair_bulk(const tn__repair *r, float bytes, float excess) {
    if (r->weights.whole || bytes <= excess) return bytes;
    return excess + (bytes - excess) * 0.02f;
}

static float repair_noise(tn__repair *r) {
    if (r->weights.noise <= 0) return 0;
    return r->weights.noise * (float)(tn__random_next(&r->random) >> 40) * 0x1p-24f;
}

/* Whether an idle value can be evicted at this node: the node does not access it, it is not banned,
 * and it is not being copied to or from the host. */
static bool repair_is_idle(const tn__repair *r, const repair_idle *idle, uint32_t node) {
    if (r->banned[idle->value] == r->ban || r->edit->touches[idle->touch].node == node)
        return false;
    if (!tn__editable_is_read_next(r->edit, idle->touch)) return false;
    uint32_t next = r->edit->touches[idle->touch].next;
    bool comes = r->edit->nodes[r->edit->touches[idle->touch].node].job == TN_NONE &&
                 r->edit->touches[idle->touch].node > TN__EDITABLE_TAIL;
    if (comes || tn__editable_is_settled(r->edit, next)) return false;
    return tn__editable_key(r->edit, next) > r->edit->nodes[node].key;
}

typedef struct repair_look {
    float key;
    uint32_t at;
} repair_look;

/* Finds the REPAIR_LOOKS idle values with the lowest keys. These keys are estimates, because only
 * the cost of the value's own maker counts, without a chain. */
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

/* Returns the key of an idle value with the cost of the whole chain of repeats that makes it
 * available again; the chain is left in `chain`. */
static float repair_full_key(tn__repair *r, const repair_idle *idle, float excess) {
    uint64_t cost = repair_plan(r, idle, UINT64_MAX - 1);
    double bytes = (double)r->dag->values[idle->value].bytes - r->lost;
    if (cost == UINT64_MAX || bytes <= 0) return INFINITY;
    float bulk = repair_bulk(r, repair_log(bytes), excess);
    return repair_key(r, idle, repair_log((double)cost + 1e-3), bulk);
}

/* Chooses the value to evict at a node, and leaves its chain of repeats in best_chain. Returns its
 * index in `idle`; TN_NONE if no value can be evicted. */
static uint32_t repair_choose(tn__repair *r, uint32_t node) {
    repair_look looks[REPAIR_LOOKS];
    float best_key = INFINITY, excess = repair_log((double)(r->takes - (int64_t)r->budget));
    r->here = r->edit->nodes[node].key;
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

/* Sorts the jobs of the chain in the order of their first runs. */
static void repair_sort_chain(const tn__repair *r) {
    uint32_t *chain = r->best_chain;
    for (uint32_t i = 1; i < r->best_count; i++) {
        uint32_t job = chain[i], at = i;
        uint32_t key = r->edit->nodes[TN__EDITABLE_FIRST + job].key;
        for (; at > 0 && r->edit->nodes[TN__EDITABLE_FIRST + chain[at - 1]].key > key; at--)
            chain[at] = chain[at - 1];
        chain[at] = job;
    }
}

/* Removes later repeats of jobs in the chain that a newly inserted repeat makes unnecessary. */
static void repair_spare_next(tn__repair *r, uint32_t id) {
    uint32_t first = r->edit->nodes[id].touch_first;
    for (uint32_t i = r->edit->nodes[id].input_count; i < r->edit->nodes[id].touch_count; i++) {
        uint32_t touch = first + i;
        while (tn__editable_is_read_next(r->edit, touch)) touch = r->edit->touches[touch].next;
        uint32_t next = r->edit->touches[touch].next;
        if (next == TN_NONE) continue;
        uint32_t node = r->edit->touches[next].node;
        if (r->edit->nodes[node].recompute) tn__repair_spare(r, node);
    }
}

/* Adds the inputs of an inserted repeat to the idle values, because some of them now stay live
 * longer. */
static void repair_idle_inputs(tn__repair *r, uint32_t job, uint32_t key) {
    uint32_t inputs;
    const uint32_t *input = tn__job_inputs(r->dag, job, true, &inputs);
    for (uint32_t k = 0; k < inputs; k++) {
        uint32_t touch = tn__editable_before(r->edit, input[k], key);
        if (touch != TN_NONE && tn__editable_is_read_next(r->edit, touch))
            repair_idle_add(r, input[k], touch);
    }
}

/* Evicts the idle value with index `at` by inserting its chain of repeats before its next read.
 * Meanwhile, `seen` contains the new nodes of the chain's jobs. Returns false if memory is
 * exhausted. */
static bool repair_give_up(tn__repair *r, uint32_t at, uint32_t node) {
    tn__editable *edit = r->edit;
    uint32_t value = r->idle[at].value;
    uint32_t before = edit->touches[edit->touches[r->idle[at].touch].next].node;
    repair_sort_chain(r);
    for (uint32_t i = 0; i < r->best_count; i++) {
        uint32_t id = tn__editable_put(edit, r->best_chain[i], before);
        if (id == TN_NONE) return false;
        r->seen[r->best_chain[i]] = id;
    }
    for (uint32_t i = 0; i < r->best_count; i++) {
        uint32_t job = r->best_chain[i];
        repair_spare_next(r, r->seen[job]);
        repair_idle_inputs(r, job, edit->nodes[node].key);
        r->seen[job] = 0;
    }
    repair_idle_drop(r, value);
    r->effort += 16 * (uint64_t)r->best_count;
    return true;
}

bool tn__repair_run(tn__repair *r) {
    uint32_t most = 40 * r->dag->job_count + 1000;
    r->at = TN_NONE;
    for (uint32_t round = 0; round < most; round++) {
        uint32_t key = tn__range_tree_above(&r->edit->tree, (int64_t)r->budget);
        if (key == TN_NONE) return true;
        uint32_t node = r->at;
        if (node == TN_NONE || r->edit->nodes[node].key != key) node = repair_go(r, key);
        if (node == TN_NONE || r->edit->nodes[node].key != key) return false;
        r->takes = tn__editable_tree_most(&r->edit->tree, key, key);
        uint32_t at = repair_choose(r, node);
        if (at == TN_NONE || !repair_give_up(r, at, node) || r->edit->failed) return false;
        if (r->edit->cost > r->cost_limit) return false;
    }
    return false;
}

/* --- removal of repeats ----------------------------------------------------------------------- */

/* Removes repeats from a schedule: unnecessary ones, or one repeat with all those that were needed
 * only for it. Cost: O(operands of the run * log keys) for each removal. */

/* Whether a repeat can be removed, so that its readers read the older version of its outputs
 * instead. That is impossible if the older version was copied to the host. */
bool tn__repair_may_take(const tn__repair *r, uint32_t node) {
    const tn__editable_node *it = &r->edit->nodes[node];
    for (uint32_t i = it->input_count; it->recompute && i < it->touch_count; i++) {
        uint32_t touch = it->touch_first + i, prev = r->edit->touches[touch].prev;
        if (tn__editable_is_read_next(r->edit, touch) && tn__editable_is_settled(r->edit, prev))
            return false;
    }
    return it->recompute;
}

bool tn__repair_spare(tn__repair *r, uint32_t node) {
    if (!tn__repair_may_take(r, node)) return false;
    uint32_t mark = tn__editable_mark(r->edit);
    const tn__editable_node *it = &r->edit->nodes[node];
    uint32_t key = it->key;
    int64_t before = tn__editable_peak(r->edit);
    bool fits = true;
    for (uint32_t i = it->input_count; i < it->touch_count && fits; i++) {
        uint32_t touch = it->touch_first + i;
        if (!tn__editable_is_read_next(r->edit, touch)) continue;
        uint32_t prev = r->edit->touches[touch].prev;
        uint64_t bytes = r->dag->values[r->edit->touches[touch].value].bytes;
        fits = key == 0 || repair_fits(r, tn__editable_key(r->edit, prev) + 1, key - 1, bytes);
    }
    r->effort += it->touch_count;
    if (!fits) return false;
    tn__editable_take(r->edit, node);
    int64_t limit = before > (int64_t)r->budget ? before : (int64_t)r->budget;
    if (tn__editable_peak(r->edit) <= limit) return true;
    tn__editable_undo(r->edit, mark);
    return false;
}

static bool spare_is_read(const tn__editable *edit, const tn__editable_node *node) {
    for (uint32_t i = node->input_count; i < node->touch_count; i++)
        if (tn__editable_is_read_next(edit, node->touch_first + i)) return true;
    return false;
}

/* Returns the repeat that made an input of a node; TN_NONE if a first run made it. */
static uint32_t spare_source(const tn__editable *edit, uint32_t touch) {
    while (touch != TN_NONE && !edit->touches[touch].makes) touch = edit->touches[touch].prev;
    if (touch == TN_NONE || !edit->nodes[edit->touches[touch].node].recompute) return TN_NONE;
    return edit->touches[touch].node;
}

void tn__repair_drop(tn__repair *r, uint32_t node) {
    tn__editable *edit = r->edit;
    uint32_t count = 1;
    r->chain[0] = node;
    for (uint32_t i = 0; i < count; i++) {
        tn__editable_node it = edit->nodes[r->chain[i]];
        if (!it.linked || (i > 0 && spare_is_read(edit, &it))) continue;
        if (!tn__repair_may_take(r, r->chain[i])) continue;
        for (uint32_t k = 0; k < it.input_count && count < REPAIR_CHAIN; k++) {
            uint32_t source = spare_source(edit, it.touch_first + k);
            if (source != TN_NONE) r->chain[count++] = source;
        }
        r->effort += it.touch_count;
        tn__editable_take(edit, r->chain[i]);
    }
}

bool tn__repair_trim(tn__repair *r) {
    const tn__editable *edit = r->edit;
    size_t room = (size_t)edit->linked_count + 1;
    tn__sort_item *items = tn__alloc_array(&edit->context, room, sizeof *items);
    uint32_t count = 0;
    if (items == NULL) return false;
    for (uint32_t n = edit->nodes[TN__EDITABLE_TAIL].prev; n != TN__EDITABLE_HEAD;
         n = edit->nodes[n].prev)
        if (edit->nodes[n].recompute)
            items[count++] = (tn__sort_item){~r->dag->jobs[edit->nodes[n].job].recompute_cost, n};
    bool sorted = tn__sort_items(&edit->context, items, count);
    for (uint32_t i = 0; i < count && sorted && !edit->failed; i++)
        tn__repair_spare(r, items[i].id);
    tn__free(&edit->context, items, room * sizeof *items);
    return sorted && !edit->failed;
}
