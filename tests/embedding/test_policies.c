/* test_policies.c - every policy beside one that does the same without lists, heaps or index.
 *
 *     test_embedding_policies [NAME]
 *
 * Random runs, in batches that lock their rows; the number of hits must be the same. `belady` is
 * moreover held against all that anybody could do, tried by sets of rows; and nobody may hit more
 * than it does.
 */
#include "../support.h"

#include <tenure/embedding.h>

#include "base/base.h"
#include "run/embedding/trace.h"

enum { ROWS_MAX = 40, SLOTS_MAX = 16, BATCH_MAX = 6, LENGTH_MAX = 4000 };

static const char *only;

typedef struct model_slot {
    uint32_t row; /* UINT32_MAX: none */
    bool locked, fresh, used;
    uint64_t stamp, count, next;
} model_slot;

typedef struct model {
    const char *policy;
    model_slot slots[SLOTS_MAX];
    uint32_t slot_count, hand;
    uint64_t now, uses;
} model;

static bool model_may_go(const model_slot *slot) {
    return slot->row != UINT32_MAX && !slot->locked;
}

/* Whether `a` goes before `b`. */
static bool model_before(const model *m, const model_slot *a, const model_slot *b) {
    if (strcmp(m->policy, "belady") == 0) return a->next > b->next;
    if (strcmp(m->policy, "lfu") == 0 && a->count != b->count) return a->count < b->count;
    return a->stamp < b->stamp;
}

static model_slot *model_clock(model *m) {
    for (;;) {
        model_slot *slot = &m->slots[m->hand];
        m->hand = (m->hand + 1) % m->slot_count;
        if (!model_may_go(slot)) continue;
        if (!slot->used) return slot;
        slot->used = false;
    }
}

static model_slot *model_choose(model *m) {
    model_slot *best = NULL;
    if (strcmp(m->policy, "clock") == 0) return model_clock(m);
    for (uint32_t i = 0; i < m->slot_count; i++) {
        model_slot *slot = &m->slots[i];
        if (model_may_go(slot) && (best == NULL || model_before(m, slot, best))) best = slot;
    }
    return best;
}

static model_slot *model_find(model *m, uint32_t row) {
    for (uint32_t i = 0; i < m->slot_count; i++)
        if (m->slots[i].row == row) return &m->slots[i];
    return NULL;
}

/* Counts are halved; among those that become equal, those that had less go first. */
static void model_halve(model *m) {
    uint64_t orders[SLOTS_MAX] = {0};
    m->uses = 0;
    for (uint32_t i = 0; i < m->slot_count; i++)
        for (uint32_t k = 0; k < m->slot_count; k++) {
            const model_slot *a = &m->slots[i], *b = &m->slots[k];
            orders[i] += b->count < a->count || (b->count == a->count && b->stamp < a->stamp);
        }
    for (uint32_t i = 0; i < m->slot_count; i++) {
        m->slots[i].stamp = m->now + orders[i];
        m->slots[i].count /= 2;
    }
    m->now += m->slot_count;
}

static void model_use(model *m, model_slot *slot, uint64_t next) {
    slot->locked = false;
    slot->stamp = ++m->now;
    slot->count = slot->fresh ? 1 : slot->count < 255 ? slot->count + 1 : 255;
    slot->used = !slot->fresh;
    slot->fresh = false;
    slot->next = next;
    if (++m->uses == 10 * m->slot_count && strcmp(m->policy, "lfu") == 0) model_halve(m);
}

static uint64_t next_use(const uint32_t *rows, uint64_t count, uint64_t after, uint32_t row) {
    for (uint64_t i = after; i < count; i++)
        if (rows[i] == row) return i;
    return UINT64_MAX;
}

/* Hits of different rows; rows that are there are done with first, then those that came. */
static uint64_t model_run(model *m, const uint32_t *rows, uint64_t count, uint32_t batch) {
    uint64_t hits = 0;
    for (uint64_t first = 0; first < count; first += batch) {
        uint64_t end = first + batch < count ? first + batch : count;
        model_slot *order[BATCH_MAX];
        uint32_t held = 0;
        for (uint64_t i = first; i < end; i++) {
            model_slot *slot = model_find(m, rows[i]);
            if (slot == NULL || slot->locked) continue;
            slot->locked = true;
            order[held++] = slot;
            hits++;
        }
        for (uint64_t i = first; i < end; i++) {
            if (model_find(m, rows[i]) != NULL) continue;
            model_slot *slot = model_find(m, UINT32_MAX);
            if (slot == NULL) slot = model_choose(m);
            *slot = (model_slot){.row = rows[i], .locked = true, .fresh = true};
            order[held++] = slot;
        }
        for (uint32_t k = 0; k < held; k++)
            model_use(m, order[k], next_use(rows, count, end, order[k]->row));
    }
    return hits;
}

/* The most hits that any choices give: for each set of rows the least misses to get there. */
static uint64_t best_hits(const uint32_t *rows, uint32_t count, uint32_t row_count, uint32_t slots,
                          uint32_t batch) {
    uint32_t sets = 1u << row_count, least[64], then[64], wanted = 0, all = 0;
    for (uint32_t s = 0; s < sets; s++) least[s] = s == 0 ? 0 : UINT32_MAX;
    for (uint32_t first = 0; first < count; first += batch, wanted = 0) {
        for (uint32_t i = first; i < first + batch && i < count; i++) wanted |= 1u << rows[i];
        all += (uint32_t)__builtin_popcount(wanted);
        for (uint32_t to = 0; to < sets; to++) {
            then[to] = UINT32_MAX;
            if ((to & wanted) != wanted || (uint32_t)__builtin_popcount(to) > slots) continue;
            for (uint32_t from = 0; from < sets; from++) {
                if (least[from] == UINT32_MAX || (to & ~(from | wanted))) continue;
                uint32_t misses = least[from] + (uint32_t)__builtin_popcount(wanted & ~from);
                if (misses < then[to]) then[to] = misses;
            }
        }
        memcpy(least, then, sizeof least);
    }
    uint32_t fewest = UINT32_MAX;
    for (uint32_t s = 0; s < sets; s++)
        if (least[s] < fewest) fewest = least[s];
    return all - fewest;
}

/* --- runs --- */

static tn_embedding_trace *drawn_trace(uint32_t *rows, uint64_t count) {
    static tn_embedding_trace trace;
    trace.rows = rows;
    trace.count = count;
    return &trace;
}

static tn_embedding_replayed replay(const char *policy, uint32_t *rows, uint64_t count,
                                    uint32_t slots, uint32_t batch) {
    tn_embedding_replay_options options = TN_EMBEDDING_REPLAY_OPTIONS_INIT;
    tn_embedding_replayed replayed;
    tn_error error;
    options.policy = policy;
    options.slots = slots;
    options.batch = batch;
    options.sample = 4096; /* of few slots: all of them */
    if (tn_embedding_replay(drawn_trace(rows, count), &options, &replayed, &error) != TN_OK)
        fail_msg("%s: %s\n", policy, error.message);
    return replayed;
}

static void draw(uint32_t *rows, uint64_t count, uint32_t row_count, tn__random *random) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t a = tn__random_below(random, row_count), b = tn__random_below(random, row_count);
        rows[i] = (uint32_t)(a < b ? a : b); /* the first are asked for more */
    }
}

static void check_policy(const char *policy) {
    static uint32_t rows[LENGTH_MAX];
    tn__random random = {17};
    for (uint32_t run = 0; run < 300; run++) {
        uint32_t slots = 1 + (uint32_t)tn__random_below(&random, SLOTS_MAX);
        uint32_t most = slots < BATCH_MAX ? slots : BATCH_MAX;
        uint32_t batch = 1 + (uint32_t)tn__random_below(&random, most);
        uint32_t row_count = 1 + (uint32_t)tn__random_below(&random, ROWS_MAX);
        uint64_t count = 1 + tn__random_below(&random, run < 290 ? 200 : LENGTH_MAX);
        draw(rows, count, row_count, &random);
        model m = {.policy = policy, .slot_count = slots};
        for (uint32_t i = 0; i < slots; i++) m.slots[i].row = UINT32_MAX;
        uint64_t expected = model_run(&m, rows, count, batch);
        tn_embedding_replayed got = replay(policy, rows, count, slots, batch);
        if (got.hits != expected)
            fail_msg("%s, run %u: %llu hits, not %llu\n", policy, run, (unsigned long long)got.hits,
                     (unsigned long long)expected);
        assert_int_equal(got.lookups, count);
        tn_embedding_replayed bound = replay("belady", rows, count, slots, batch);
        assert_true(got.hits <= bound.hits && bound.distinct == got.distinct);
        assert_true(bound.cold <= bound.distinct - bound.hits);
    }
}

static void each_policy_does_as_its_plain_model(void **state) {
    (void)state;
    uint32_t checked = 0;
    for (uint32_t i = 0; i < tn_embedding_policy_count(); i++) {
        const char *name = tn_embedding_policy_name(i);
        if (only != NULL && strcmp(only, name) != 0) continue;
        checked++;
        check_policy(name);
    }
    assert_true(checked > 0);
}

static void nothing_hits_more_than_belady(void **state) {
    (void)state;
    tn__random random = {5};
    uint32_t rows[14];
    if (only != NULL && strcmp(only, "belady") != 0) return;
    for (uint32_t run = 0; run < 400; run++) {
        uint32_t slots = 1 + (uint32_t)tn__random_below(&random, 4);
        uint32_t batch = 1 + (uint32_t)tn__random_below(&random, slots < 3 ? slots : 3);
        uint32_t row_count = 2 + (uint32_t)tn__random_below(&random, 5);
        uint32_t count = 1 + (uint32_t)tn__random_below(&random, 14);
        for (uint32_t i = 0; i < count; i++)
            rows[i] = (uint32_t)tn__random_below(&random, row_count);
        uint64_t best = best_hits(rows, count, row_count, slots, batch);
        assert_int_equal(replay("belady", rows, count, slots, batch).hits, best);
    }
}

/* Room that no run needs costs nothing. */
static void more_room_than_lookups_changes_nothing(void **state) {
    (void)state;
    tn__random random = {9};
    uint32_t rows[LENGTH_MAX];
    draw(rows, LENGTH_MAX, LENGTH_MAX, &random);
    for (uint32_t i = 0; i < tn_embedding_policy_count(); i++) {
        const char *name = tn_embedding_policy_name(i);
        uint64_t enough = replay(name, rows, LENGTH_MAX, LENGTH_MAX, 1).hits;
        assert_int_equal(replay(name, rows, LENGTH_MAX, UINT32_MAX, 1).hits, enough);
        assert_int_equal(replay(name, rows, LENGTH_MAX, UINT32_MAX - 300, 1).hits, enough);
    }
}

int main(int count, char **words) {
    if (count > 1) only = words[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_does_as_its_plain_model),
        cmocka_unit_test(nothing_hits_more_than_belady),
        cmocka_unit_test(more_room_than_lookups_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
