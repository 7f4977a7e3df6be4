/* Random commands, and after each what the policy `live` says of some candidates beside the same
 * found anew from nothing: who waits for what, and what was dropped around a storage. The policy
 * keeps its sums and finds anew those that a change has stirred; here nothing is kept. (Where a
 * sample of candidates does, sums may be old, and are not looked at here.)
 */
#include "../support.h"

#include "memory/evict/policy.h"

#define HELD_MOST 60u
#define STEPS 4000u
#define WALK_MOST 500u /* beyond so many storages the policy's sums end */

typedef struct player {
    tn__evict *evict;
    tn__random random;
    uint32_t held[HELD_MOST];
    uint32_t held_count;
    bool *live, *met; /* [storage] */
    uint64_t checks, dropped_around, waiting, unwanted, exhausted, cut;
} player;

static uint32_t below(player *p, uint32_t end) {
    return (uint32_t)tn__random_below(&p->random, end);
}

/* --- from nothing --- */

static bool is_dropped(const tn__evict *e, uint32_t storage) {
    return e->storages[storage].state == TN__DROPPED;
}

static bool can_run(const tn__evict_op *op) {
    return (op->flags & (TN__OP_VACANT | TN__OP_LOST)) == 0;
}

/* Calls `look` for every edge between two storages; again and again, as long as it finds news. */
typedef bool (*look_at_edge)(player *p, uint32_t from, uint32_t to);
static void look_at_all(player *p, look_at_edge look) {
    const tn__evict *e = p->evict;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < e->op_count; i++) {
            const tn__evict_op *op = &e->ops[i];
            uint32_t pairs = can_run(op) ? op->input_count * op->output_count : 0;
            for (uint32_t k = 0; k < pairs; k++) {
                uint32_t from = tn__op_inputs(op)[k / op->output_count];
                uint32_t to = tn__op_outputs(op)[k % op->output_count];
                any = look(p, e->tensors[from].storage, e->tensors[to].storage) || any;
            }
        }
    }
}

static bool hears_of_live(player *p, uint32_t from, uint32_t to) {
    if (!p->live[to] || p->live[from] || !is_dropped(p->evict, from)) return false;
    return p->live[from] = true;
}

static bool meets_before(player *p, uint32_t from, uint32_t to) {
    if (!p->met[to] || p->met[from] || !is_dropped(p->evict, from)) return false;
    return p->met[from] = true;
}

static bool meets_behind(player *p, uint32_t from, uint32_t to) {
    if (!p->met[from] || p->met[to] || !p->live[to]) return false;
    return p->met[to] = true;
}

static void find_live(player *p) {
    const tn__evict *e = p->evict;
    for (uint32_t s = 0; s < e->storage_count; s++)
        p->live[s] = is_dropped(e, s) && !e->storages[s].is_vacant && e->storages[s].outside > 0;
    look_at_all(p, hears_of_live);
}

/* Cost of what is met from a storage, and how many. */
static double sum_of(player *p, uint32_t storage, look_at_edge look, uint32_t *count) {
    const tn__evict *e = p->evict;
    double sum = 0;
    for (uint32_t s = 0; s < e->storage_count; s++) p->met[s] = s == storage;
    look_at_all(p, look);
    for (uint32_t s = 0; s < e->storage_count; s++) {
        if (!p->met[s] || s == storage) continue;
        sum += (double)e->storages[s].cost;
        *count += 1;
    }
    return sum;
}

static bool somebody_waits;
static uint32_t asked;
static bool waits_for_asked(player *p, uint32_t from, uint32_t to) {
    somebody_waits = somebody_waits || (from == asked && p->live[to]);
    return false;
}

/* With a limit that may be above or below it: the cost, or more than the limit if it is more. */
static void check_limit(player *p, uint32_t storage, double want, uint64_t seed) {
    tn__evict *e = p->evict;
    double limit = below(p, 2 * (uint32_t)want + 2);
    double got = e->policy->cost_within(e, storage, limit);
    if (got > limit ? want <= limit : got != want)
        fail_msg("seed %llu, check %llu: storage %u costs %.1f, within %.0f the policy says %.1f",
                 (unsigned long long)seed, (unsigned long long)p->checks, storage, want, limit,
                 got);
    p->cut += got > limit;
}

static void check(player *p, uint32_t storage, uint64_t seed) {
    tn__evict *e = p->evict;
    uint32_t count = 0;
    double before = sum_of(p, storage, meets_before, &count);
    double behind = sum_of(p, storage, meets_behind, &count);
    double all = (double)e->storages[storage].cost + before / 2 + behind;
    uint64_t want = (uint64_t)all;
    if (count > WALK_MOST) return;
    asked = storage;
    somebody_waits = e->storages[storage].outside > 0;
    look_at_all(p, waits_for_asked);
    for (uint32_t i = below(p, 3); somebody_waits && i > 0; i--) check_limit(p, storage, all, seed);
    uint64_t got = e->policy->cost(e, storage);
    if (got != want)
        fail_msg("seed %llu, check %llu: around storage %u are %llu, the policy says %llu",
                 (unsigned long long)seed, (unsigned long long)p->checks, storage,
                 (unsigned long long)want, (unsigned long long)got);
    if ((e->policy->score(e, storage) == 0) == somebody_waits)
        fail_msg("seed %llu, check %llu: for storage %u %s waits", (unsigned long long)seed,
                 (unsigned long long)p->checks, storage, somebody_waits ? "somebody" : "nobody");
    p->checks++;
    p->dropped_around += count > 1;
    p->waiting += e->storages[storage].outside == 0 && somebody_waits;
    p->unwanted += !somebody_waits;
}

/* Some of them, so that others are asked for the first time when much has changed. */
static void check_some(player *p, uint64_t seed) {
    tn__evict *e = p->evict;
    size_t room = e->storage_count + 1;
    p->live = realloc(p->live, room * sizeof *p->live);
    p->met = realloc(p->met, room * sizeof *p->met);
    find_live(p);
    for (uint32_t s = 0; s < e->storage_count; s++)
        if (!e->storages[s].is_vacant && tn__is_candidate(e, s) && below(p, 3) == 0)
            check(p, s, seed);
    assert_null(tn__evict_check(e));
}

/* --- commands --- */

static void release(player *p, uint32_t which) {
    tn__evict_release(p->evict, p->held[which]);
    p->held[which] = p->held[--p->held_count];
}

static void ended(player *p, tn_status status, const tn_error *error) {
    if (status == TN_E_EXHAUSTED) {
        p->exhausted++;
        for (int i = 0; i < 3 && p->held_count > 0; i++) release(p, below(p, p->held_count));
    } else if (status != TN_OK) {
        fail_msg("%s", error->message);
    }
}

static uint32_t storage_of(const player *p, uint32_t tensor) {
    return tn__evict_storage_of(p->evict, tensor);
}

/* An operator of up to three operands and results. A view is of the first operand; the others are
 * older than what it shares, as nothing can be made from itself. */
static void apply(player *p) {
    uint32_t inputs[3], results[3];
    tn__evict_output outputs[3];
    tn_error error;
    tn__evict_call call = {.cost = 1 + below(p, 1000), .inputs = inputs, .outputs = outputs};
    call.input_count = p->held_count > 0 ? below(p, 4) : 0;
    call.output_count = 1 + below(p, 2) + (below(p, 8) == 0);
    call.flags = below(p, 40) == 0 ? TN__EVICT_ONCE : 0;
    for (uint32_t i = 0; i < call.input_count; i++) inputs[i] = p->held[below(p, p->held_count)];
    bool may_share = call.input_count > 0;
    const tn__evict_storage *storages = p->evict->storages;
    for (uint32_t i = 1; i < call.input_count; i++)
        may_share = may_share && (storage_of(p, inputs[i]) == storage_of(p, inputs[0]) ||
                                  storages[storage_of(p, inputs[i])].made_at <
                                      storages[storage_of(p, inputs[0])].made_at);
    for (uint32_t o = 0; o < call.output_count; o++) {
        outputs[o] = (tn__evict_output){.bytes = 8 + 8 * below(p, 30), .alias = TN__EVICT_NONE};
        if (may_share && below(p, 3) == 0) outputs[o] = (tn__evict_output){.alias = 0};
        if (outputs[o].alias == 0 && call.output_count == 1 && below(p, 10) == 0)
            outputs[o].overwrites = true;
    }
    tn_status status = tn__evict_apply(p->evict, &call, results, &error);
    ended(p, status, &error);
    for (uint32_t o = 0; status == TN_OK && o < call.output_count; o++)
        p->held[p->held_count++] = results[o];
    if (status == TN_OK && outputs[0].overwrites) /* what was there may only be released */
        for (uint32_t h = p->held_count; h-- > 0;)
            if (p->evict->tensors[p->held[h]].is_lost) release(p, h);
}

static void step(player *p) {
    tn_error error;
    uint32_t what = below(p, 100), made;
    if (p->held_count + 4 > HELD_MOST || (what < 36 && p->held_count > 0)) {
        release(p, below(p, p->held_count));
    } else if (what < 40) {
        tn__evict_value value = {.bytes = 8 + 8 * below(p, 10), .pinned = below(p, 4) == 0};
        tn_status status = tn__evict_constant(p->evict, &value, &made, &error);
        ended(p, status, &error);
        if (status == TN_OK) p->held[p->held_count++] = made;
    } else if (what < 75 || p->held_count == 0) {
        apply(p);
    } else {
        made = p->held[below(p, p->held_count)];
        tn_status status = tn__evict_want(p->evict, made, &error);
        if (status == TN_OK) tn__evict_unlock(p->evict, made);
        ended(p, status, &error);
    }
}

static void run(uint64_t seed) {
    player p = {.random = {seed}};
    tn_error error;
    tn__evict_options options = {.policy = "live",
                                 .budget = 1024 + 1024 * (seed % 3),
                                 .addresses = (seed & 1) != 0,
                                 .alignment = 8,
                                 .seed = seed};
    assert_int_equal(tn__evict_create(&options, &p.evict, &error), TN_OK);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(&p);
        if (below(&p, 4) == 0) check_some(&p, seed);
    }
    printf("seed %llu: %llu checks, %llu with several dropped around, %llu that only others wait "
           "for, %llu that nobody does; full %llu times\n",
           (unsigned long long)seed, (unsigned long long)p.checks,
           (unsigned long long)p.dropped_around, (unsigned long long)p.waiting,
           (unsigned long long)p.unwanted, (unsigned long long)p.exhausted);
    assert_true(p.checks > 500 && p.dropped_around > 100 && p.waiting > 5 && p.unwanted > 5);
    assert_true(p.cut > 100);
    while (p.held_count > 0) release(&p, 0);
    tn__evict_destroy(p.evict);
    free(p.live);
    free(p.met);
}

static void sums_are_those_found_anew(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) run(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_those_found_anew)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
