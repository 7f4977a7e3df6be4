/* test_objects.c - shared objects: the peer's tables, and every strategy against an own judge.
 *
 * The tables are the facts of TensorFlow Lite's unit tests (memory_management, both ends of a life
 * inclusive there); `test_objects NAME` tests one strategy (its file's name).
 */
#include "count.h"
#include "kit.h"

#include <tenure/objects.h>

#include "plan/sharing/object.h"

static const char *only;

static bool is_wanted(const char *name) {
    char file[64];
    size_t i = 0;
    for (; name[i] != '\0' && i + 1 < sizeof file; i++) file[i] = name[i] == '-' ? '_' : name[i];
    file[i] = '\0';
    return only == NULL || strcmp(only, file) == 0;
}
/* Tests of what strategies share run with one of them. */
static bool runs_shared(void) { return only == NULL || strcmp(only, "naive") == 0; }

/* --- the tables --- */

#define ROW(first_step, last_step, ...)                                                            \
    { .size = {__VA_ARGS__}, .first = first_step, .last = (last_step) + 1 }

static const tn_object_record one_record[] = {ROW(0, 1, 16)};
static const tn_object_record chain[] = {ROW(0, 1, 16), ROW(1, 2, 8), ROW(2, 3, 64), ROW(3, 4, 32),
                                         ROW(4, 5, 8)};
static const tn_object_record complex_records[] = {ROW(0, 1, 32), ROW(1, 4, 32), ROW(2, 5, 8),
                                                   ROW(3, 5, 16), ROW(4, 5, 8),  ROW(5, 7, 64),
                                                   ROW(6, 8, 8),  ROW(7, 8, 8),  ROW(8, 9, 16)};
static const tn_object_record shapes[] = {
    ROW(0, 1, 1, 1, 2, 8),  ROW(1, 2, 1, 1, 2, 8),  ROW(2, 4, 1, 1, 1, 16),
    ROW(3, 5, 1, 1, 2, 8),  ROW(4, 5, 1, 1, 8, 2),  ROW(5, 7, 1, 1, 2, 8),
    ROW(6, 8, 1, 16, 1, 1), ROW(7, 8, 16, 1, 1, 1), ROW(8, 9, 1, 1, 1, 16)};
static const tn_object_record pairs[] = {ROW(0, 1, 2, 8), ROW(1, 2, 2, 8), ROW(2, 4, 1, 12),
                                         ROW(3, 5, 2, 8), ROW(4, 5, 8, 2), ROW(5, 7, 2, 8),
                                         ROW(6, 8, 1, 8), ROW(7, 8, 2, 8), ROW(8, 9, 4, 1)};
static const tn_object_record triples[] = {
    ROW(0, 1, 1, 2, 8), ROW(1, 2, 4, 3, 2), ROW(2, 4, 1, 1, 1),
    ROW(3, 5, 2, 4, 1), ROW(4, 5, 2, 2, 2), ROW(5, 7, 8, 1, 2),
    ROW(6, 8, 1, 2, 1), ROW(7, 8, 1, 1, 1), ROW(8, 9, 2, 2, 2)};

typedef struct expected {
    const char *strategy;
    tn_size_kind kind;
    const tn_object_record *records;
    uint32_t count;
    uint32_t ids[9];
    uint32_t object_count;
    uint64_t sizes[9][4];
} expected;

#define OF(array) array, sizeof(array) / sizeof *(array)

static const expected tables[] = {
    {"naive", TN_SIZE_BYTES, OF(one_record), {0}, 1, {{16}}},
    {"equality", TN_SIZE_BYTES, OF(one_record), {0}, 1, {{16}}},
    {"greedy-in-order", TN_SIZE_BYTES, OF(one_record), {0}, 1, {{16}}},
    {"min-cost-flow", TN_SIZE_BYTES, OF(one_record), {0}, 1, {{16}}},
    {"greedy-by-breadth", TN_SIZE_BYTES, OF(one_record), {0}, 1, {{16}}},
    {"greedy-by-size", TN_SIZE_BYTES, OF(one_record), {0}, 1, {{16}}},

    {"naive", TN_SIZE_BYTES, OF(chain), {0, 1, 2, 3, 4}, 5, {{16}, {8}, {64}, {32}, {8}}},
    {"equality", TN_SIZE_BYTES, OF(chain), {0, 1, 2, 3, 1}, 4, {{16}, {8}, {64}, {32}}},
    {"min-cost-flow", TN_SIZE_BYTES, OF(chain), {0, 1, 0, 1, 0}, 2, {{64}, {32}}},
    {"greedy-in-order", TN_SIZE_BYTES, OF(chain), {0, 1, 0, 1, 0}, 2, {{64}, {32}}},
    {"greedy-by-breadth", TN_SIZE_BYTES, OF(chain), {0, 1, 0, 1, 0}, 2, {{64}, {32}}},
    {"greedy-by-size", TN_SIZE_BYTES, OF(chain), {0, 1, 0, 1, 0}, 2, {{64}, {32}}},
    {"greedy-best", TN_SIZE_BYTES, OF(chain), {0, 1, 0, 1, 0}, 2, {{64}, {32}}},

    {"naive",
     TN_SIZE_BYTES,
     OF(complex_records),
     {0, 1, 2, 3, 4, 5, 6, 7, 8},
     9,
     {{32}, {32}, {8}, {16}, {8}, {64}, {8}, {8}, {16}}},
    {"equality",
     TN_SIZE_BYTES,
     OF(complex_records),
     {0, 1, 2, 3, 4, 5, 4, 2, 3},
     6,
     {{32}, {32}, {8}, {16}, {8}, {64}}},
    {"min-cost-flow",
     TN_SIZE_BYTES,
     OF(complex_records),
     {0, 1, 2, 0, 3, 1, 3, 2, 0},
     4,
     {{32}, {64}, {8}, {8}}},
    {"greedy-in-order",
     TN_SIZE_BYTES,
     OF(complex_records),
     {0, 1, 0, 2, 3, 1, 3, 2, 0},
     4,
     {{32}, {64}, {16}, {8}}},
    {"greedy-by-breadth",
     TN_SIZE_BYTES,
     OF(complex_records),
     {0, 4, 2, 1, 3, 0, 2, 3, 1},
     5,
     {{64}, {16}, {8}, {8}, {32}}},
    {"greedy-by-size",
     TN_SIZE_BYTES,
     OF(complex_records),
     {1, 0, 2, 1, 3, 0, 1, 2, 0},
     4,
     {{64}, {32}, {8}, {8}}},
    {"greedy-best",
     TN_SIZE_BYTES,
     OF(complex_records),
     {1, 0, 2, 1, 3, 0, 1, 2, 0},
     4,
     {{64}, {32}, {8}, {8}}},

    {"naive",
     TN_SIZE_BHWC,
     OF(shapes),
     {0, 1, 2, 3, 4, 5, 6, 7, 8},
     9,
     {{1, 1, 2, 8},
      {1, 1, 2, 8},
      {1, 1, 1, 16},
      {1, 1, 2, 8},
      {1, 1, 8, 2},
      {1, 1, 2, 8},
      {1, 16, 1, 1},
      {16, 1, 1, 1},
      {1, 1, 1, 16}}},
    {"equality",
     TN_SIZE_BHWC,
     OF(shapes),
     {0, 1, 2, 1, 3, 0, 4, 5, 2},
     6,
     {{1, 1, 2, 8}, {1, 1, 2, 8}, {1, 1, 1, 16}, {1, 1, 8, 2}, {1, 16, 1, 1}, {16, 1, 1, 1}}},

    {"naive",
     TN_SIZE_VECTOR2,
     OF(pairs),
     {0, 1, 2, 3, 4, 5, 6, 7, 8},
     9,
     {{2, 8}, {2, 8}, {1, 12}, {2, 8}, {8, 2}, {2, 8}, {1, 8}, {2, 8}, {4, 1}}},
    {"equality",
     TN_SIZE_VECTOR2,
     OF(pairs),
     {0, 1, 2, 0, 3, 1, 4, 0, 5},
     6,
     {{2, 8}, {2, 8}, {1, 12}, {8, 2}, {1, 8}, {4, 1}}},
    {"greedy-in-order",
     TN_SIZE_VECTOR2,
     OF(pairs),
     {0, 1, 2, 0, 3, 1, 2, 0, 3},
     4,
     {{2, 8}, {2, 8}, {1, 12}, {8, 2}}},

    {"naive",
     TN_SIZE_VECTOR3,
     OF(triples),
     {0, 1, 2, 3, 4, 5, 6, 7, 8},
     9,
     {{1, 2, 8},
      {4, 3, 2},
      {1, 1, 1},
      {2, 4, 1},
      {2, 2, 2},
      {8, 1, 2},
      {1, 2, 1},
      {1, 1, 1},
      {2, 2, 2}}},
    {"equality",
     TN_SIZE_VECTOR3,
     OF(triples),
     {0, 1, 2, 3, 4, 5, 6, 2, 4},
     7,
     {{1, 2, 8}, {4, 3, 2}, {1, 1, 1}, {2, 4, 1}, {2, 2, 2}, {8, 1, 2}, {1, 2, 1}}},
    {"greedy-in-order",
     TN_SIZE_VECTOR3,
     OF(triples),
     {0, 1, 0, 2, 1, 3, 2, 0, 1},
     4,
     {{1, 2, 8}, {4, 3, 2}, {2, 4, 1}, {8, 1, 2}}},
};

static tn_objects_options options_for(const char *strategy, tn_size_kind kind) {
    tn_objects_options options = TN_OBJECTS_OPTIONS_INIT;
    options.strategy = strategy;
    options.kind = kind;
    return options;
}

static void the_tables_of_tensorflow_lite_are_reproduced(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        const expected *table = &tables[t];
        tn_objects_options options = options_for(table->strategy, table->kind);
        tn_objects objects;
        if (!is_wanted(table->strategy)) continue;
        assert_ok(tn_objects_plan(table->records, table->count, &options, &objects, &failure));
        for (uint32_t i = 0; i < table->count; i++)
            if (objects.object[i] != table->ids[i])
                fail_msg("table %zu, %s: record %u has object %u, not %u\n", t, table->strategy, i,
                         objects.object[i], table->ids[i]);
        assert_int_equal(objects.object_count, table->object_count);
        assert_memory_equal(objects.size, table->sizes, table->object_count * sizeof *objects.size);
        tn_objects_release(&objects);
    }
}

static void no_records_need_no_objects(void **state) {
    (void)state;
    for (uint32_t s = 0; s < tn_object_strategy_count(); s++) {
        tn_objects_options options = options_for(tn_object_strategy_name(s), TN_SIZE_BYTES);
        tn_objects objects;
        assert_ok(tn_objects_plan(NULL, 0, &options, &objects, &failure));
        assert_int_equal(objects.object_count, 0);
        assert_int_equal(objects.total, 0);
        tn_objects_release(&objects);
    }
}

/* Defined for bytes all of them; vectors: three; shapes: two. `auto` asks whoever is. */
static void kinds_that_a_strategy_is_not_defined_for_are_refused(void **state) {
    (void)state;
    static const char *const vectors[] = {"auto", "naive", "equality", "greedy-in-order"};
    for (uint32_t s = 0; s < tn_object_strategy_count(); s++) {
        const char *name = tn_object_strategy_name(s);
        for (tn_size_kind kind = TN_SIZE_BYTES; kind <= TN_SIZE_BHWC; kind++) {
            bool defined = kind == TN_SIZE_BYTES;
            for (size_t i = 0; i < (kind == TN_SIZE_BHWC ? 3 : 4); i++)
                defined = defined || strcmp(vectors[i], name) == 0;
            tn_objects_options options = options_for(name, kind);
            tn_objects objects = {0};
            tn_status status = tn_objects_plan(shapes, 9, &options, &objects, &failure);
            assert_int_equal(status, defined ? TN_OK : TN_E_UNSUPPORTED);
            assert_true(defined || objects.object == NULL);
            tn_objects_release(&objects);
        }
    }
    tn_objects_options nobody = options_for("nobody", TN_SIZE_BYTES);
    tn_objects objects;
    assert_int_equal(tn_objects_plan(chain, 5, &nobody, &objects, &failure), TN_E_UNKNOWN);
}

static void objects_lie_end_to_end(void **state) {
    (void)state;
    uint64_t sizes[6][TN_SIZE_RANK_MAX] = {{16}, {8}, {32}, {32}, {4}, {16}};
    uint32_t ids[] = {2, 0, 2, 1, 3, 3, 1, 5};
    static const uint64_t wanted[] = {24, 0, 24, 16, 56, 56, 16, 92};
    tn_object_record records[8] = {{.alignment = 0}};
    uint64_t offsets[8], total;
    tn_objects objects = {
        .object = ids, .size = sizes, .record_count = 8, .object_count = 6, .kind = TN_SIZE_BYTES};
    assert_ok(tn_objects_offsets(records, &objects, offsets, &total, &failure));
    assert_memory_equal(offsets, wanted, sizeof wanted);
    assert_int_equal(total, 108);
    records[4].alignment = 64; /* object 3 then begins at 64, and all after it later */
    assert_ok(tn_objects_offsets(records, &objects, offsets, &total, &failure));
    assert_int_equal(offsets[5], 64);
    assert_int_equal(offsets[7], 100);
    assert_int_equal(total, 116);
    objects = (tn_objects){.kind = TN_SIZE_BYTES};
    assert_ok(tn_objects_offsets(records, &objects, offsets, &total, &failure));
    assert_int_equal(total, 0);
}

static void check_profile(const tn_object_record *records, uint32_t count, int64_t step,
                          const uint32_t *wanted, uint32_t wanted_count) {
    uint32_t profile[9], found;
    tn_objects_profile(records, count, TN_SIZE_BYTES, step, profile, &found);
    assert_int_equal(found, wanted_count);
    assert_memory_equal(profile, wanted, wanted_count * sizeof *wanted);
}

#define PROFILE(records, count, step, ...)                                                         \
    check_profile(records, count, step, (const uint32_t[]){__VA_ARGS__},                           \
                  sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void profiles_and_positional_maximums_are_those_of_the_peer(void **state) {
    (void)state;
    uint64_t maximums[9];
    uint32_t found;
    PROFILE(one_record, 1, 0, 0);
    PROFILE(one_record, 1, 1, 0);
    PROFILE(chain, 5, 0, 0);
    PROFILE(chain, 5, 1, 0, 1);
    PROFILE(chain, 5, 2, 2, 1);
    PROFILE(chain, 5, 3, 2, 3);
    PROFILE(chain, 5, 4, 3, 4);
    PROFILE(chain, 5, 5, 4);
    PROFILE(complex_records, 9, 0, 0);
    PROFILE(complex_records, 9, 1, 0, 1);
    PROFILE(complex_records, 9, 2, 1, 2);
    PROFILE(complex_records, 9, 3, 1, 3, 2);
    PROFILE(complex_records, 9, 4, 1, 3, 2, 4);
    PROFILE(complex_records, 9, 5, 5, 3, 2, 4);
    PROFILE(complex_records, 9, 6, 5, 6);
    PROFILE(complex_records, 9, 7, 5, 6, 7);
    PROFILE(complex_records, 9, 8, 8, 6, 7);
    PROFILE(complex_records, 9, 9, 8);
    assert_ok(tn_objects_maximums(NULL, 0, TN_SIZE_BYTES, NULL, maximums, &found, &failure));
    assert_int_equal(found, 0);
    assert_ok(tn_objects_maximums(one_record, 1, TN_SIZE_BYTES, NULL, maximums, &found, &failure));
    assert_int_equal(found, 1);
    assert_int_equal(maximums[0], 16);
    assert_ok(tn_objects_maximums(chain, 5, TN_SIZE_BYTES, NULL, maximums, &found, &failure));
    assert_int_equal(found, 2);
    assert_memory_equal(maximums, ((uint64_t[]){64, 32}), 16);
    assert_ok(
        tn_objects_maximums(complex_records, 9, TN_SIZE_BYTES, NULL, maximums, &found, &failure));
    assert_int_equal(found, 4);
    assert_memory_equal(maximums, ((uint64_t[]){64, 32, 8, 8}), 32);
}

/* --- reallocation graphs --- */

static void check_reallocation(const tn_edges *uses, const uint32_t *begin,
                               const uint32_t *target) {
    tn_edges graph;
    assert_ok(tn_reallocation_graph(uses, NULL, &graph, &failure));
    assert_int_equal(graph.vertex_count, uses->vertex_count);
    assert_memory_equal(graph.begin, begin, (uses->vertex_count + 1) * sizeof *begin);
    if (begin[uses->vertex_count] > 0)
        assert_memory_equal(graph.target, target, begin[uses->vertex_count] * sizeof *target);
    tn_edges_release(NULL, &graph);
}

static void reallocation_graphs_are_those_of_the_peer(void **state) {
    (void)state;
    static const uint32_t zeros[3] = {0, 0, 0};
    check_reallocation(&(tn_edges){0, zeros, zeros}, zeros, zeros);
    check_reallocation(&(tn_edges){2, (uint32_t[]){0, 1, 1}, (uint32_t[]){1}}, zeros, zeros);
    check_reallocation(&(tn_edges){5, (uint32_t[]){0, 1, 2, 3, 4, 4}, (uint32_t[]){1, 2, 3, 4}},
                       (uint32_t[]){0, 3, 5, 7, 9, 12},
                       (uint32_t[]){2, 3, 4, 3, 4, 0, 4, 0, 1, 0, 1, 2});
    static const uint32_t uses_begin[] = {0, 1, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 14};
    static const uint32_t uses_target[] = {1, 2, 3, 4, 7, 5, 7, 6, 7, 8, 9, 10, 10, 11};
    static const uint32_t begin[] = {0, 10, 15, 20, 27, 32, 38, 44, 50, 58, 66, 74, 84};
    static const uint32_t target[] = {
        2, 3, 4, 5,  6,  7,  8,  9,  10, 11, /* 0 */
        7, 8, 9, 10, 11,                     /* 1 */
        0, 8, 9, 10, 11,                     /* 2 */
        0, 6, 7, 8,  9,  10, 11,             /* 3 */
        0, 8, 9, 10, 11,                     /* 4 */
        0, 7, 8, 9,  10, 11,                 /* 5 */
        0, 3, 8, 9,  10, 11,                 /* 6 */
        0, 1, 3, 5,  10, 11,                 /* 7 */
        0, 1, 2, 3,  4,  5,  6,  11,         /* 8 */
        0, 1, 2, 3,  4,  5,  6,  11,         /* 9 */
        0, 1, 2, 3,  4,  5,  6,  7,          /* 10 */
        0, 1, 2, 3,  4,  5,  6,  7,  8,  9,  /* 11 */
    };
    check_reallocation(&(tn_edges){12, uses_begin, uses_target}, begin, target);
}

static void a_reallocation_graph_limits_who_follows_whom(void **state) {
    (void)state;
    /* a chain in which only the last may take over, and from the first alone */
    tn_edges graph = {5, (uint32_t[]){0, 1, 1, 1, 1, 2}, (uint32_t[]){4, 0}};
    tn_objects_options options = options_for("greedy-in-order", TN_SIZE_BYTES);
    tn_objects objects;
    options.reallocation = &graph;
    assert_ok(tn_objects_plan(chain, 5, &options, &objects, &failure));
    static const uint32_t wanted[] = {0, 1, 2, 3, 0};
    assert_memory_equal(objects.object, wanted, sizeof wanted);
    objects.object[3] = 1; /* lives would not meet, but the graph forbids it */
    objects.size[1][0] = 32;
    objects.total += 24;
    assert_ok(tn_objects_verify(chain, 5, NULL, &objects, &failure));
    assert_int_equal(tn_objects_verify(chain, 5, &graph, &objects, &failure), TN_E_CONFLICT);
    tn_objects_release(&objects);
    options.strategy = "greedy-by-size";
    assert_int_equal(tn_objects_plan(chain, 5, &options, &objects, &failure), TN_E_UNSUPPORTED);
}

/* --- by property --- */

static void random_records(uint64_t seed, tn_object_record *records, uint32_t count,
                           tn_size_kind kind) {
    tn__random random = {.state = seed};
    for (uint32_t i = 0; i < count; i++) {
        tn_object_record *record = &records[i];
        *record = (tn_object_record){.first = (int64_t)kit_below(&random, 30) - 5};
        record->last = record->first + 1 + (int64_t)kit_below(&random, 12);
        for (uint32_t k = 0; k <= (uint32_t)kind; k++)
            record->size[k] = kit_below(&random, kind == TN_SIZE_BYTES ? 60 : 4) + (kind > 0);
    }
}

/* By the definition alone, pair by pair. */
static bool is_valid(const tn_object_record *records, uint32_t count, const tn_objects *objects) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < objects->object_count; i++) {
        uint64_t product = 1;
        for (uint32_t k = 0; k <= (uint32_t)objects->kind; k++) product *= objects->size[i][k];
        total += product;
    }
    for (uint32_t a = 0; a < count; a++) {
        if (objects->object[a] >= objects->object_count) return false;
        for (uint32_t k = 0; k <= (uint32_t)objects->kind; k++) {
            uint64_t there = objects->size[objects->object[a]][k];
            if (there < records[a].size[k]) return false;
            if (objects->kind == TN_SIZE_BHWC && there != records[a].size[k]) return false;
        }
        for (uint32_t b = 0; b < a; b++)
            if (objects->object[a] == objects->object[b] && records[a].first < records[b].last &&
                records[b].first < records[a].last)
                return false;
    }
    return total == objects->total;
}

/* The k-th largest of every step, by sorting each: what the bound claims. */
static uint64_t slow_bound(const tn_object_record *records, uint32_t count, tn_size_kind kind) {
    uint64_t maximums[64] = {0}, sum = 0;
    for (int64_t step = -5; step < 40; step++) {
        uint32_t profile[64], found;
        tn_objects_profile(records, count, kind, step, profile, &found);
        for (uint32_t k = 0; k < found; k++) {
            uint64_t product = 1;
            for (uint32_t d = 0; d <= (uint32_t)kind; d++) product *= records[profile[k]].size[d];
            if (product > maximums[k]) maximums[k] = product;
        }
    }
    for (uint32_t k = 0; k < count; k++) sum += maximums[k];
    return sum;
}

static void every_assignment_is_valid_and_above_the_bound(void **state) {
    (void)state;
    for (uint32_t s = 0; s < tn_object_strategy_count(); s++) {
        const char *name = tn_object_strategy_name(s);
        for (uint64_t seed = 1; seed <= 800 && is_wanted(name); seed++) {
            tn_object_record records[64];
            tn_size_kind kind = (tn_size_kind)(seed % 4);
            uint32_t count = (uint32_t)(seed % 60) + 1;
            tn_objects_options options = options_for(name, kind);
            tn_objects objects, again;
            random_records(seed, records, count, kind);
            tn_status status = tn_objects_plan(records, count, &options, &objects, &failure);
            if (status == TN_E_UNSUPPORTED) continue;
            if (status != TN_OK || !is_valid(records, count, &objects) ||
                objects.total < objects.lower_bound ||
                objects.lower_bound != slow_bound(records, count, kind))
                fail_msg("%s, seed %llu: %s\n", name, (unsigned long long)seed,
                         status != TN_OK ? failure.message : "not valid");
            assert_int_equal(objects.verdict == TN_VERDICT_OPTIMAL,
                             objects.total == objects.lower_bound);
            assert_ok(tn_objects_plan(records, count, &options, &again, &failure));
            assert_memory_equal(objects.object, again.object, count * sizeof(uint32_t));
            assert_int_equal(objects.work, again.work);
            tn_objects_release(&objects);
            tn_objects_release(&again);
        }
    }
}

static void auto_is_never_above_another(void **state) {
    (void)state;
    if (!is_wanted("auto")) return;
    for (uint64_t seed = 1; seed <= case_count(200, 20); seed++) {
        tn_object_record records[50];
        tn_objects best, other;
        random_records(seed, records, 50, TN_SIZE_BYTES);
        assert_ok(tn_objects_plan(records, 50, NULL, &best, &failure));
        for (uint32_t s = 0; s < tn_object_strategy_count(); s++) {
            tn_objects_options options = options_for(tn_object_strategy_name(s), TN_SIZE_BYTES);
            assert_ok(tn_objects_plan(records, 50, &options, &other, &failure));
            assert_true(best.total <= other.total);
            tn_objects_release(&other);
        }
        tn_objects_release(&best);
    }
}

/* What the flow minimises: a new object costs its size, following costs the growth. */
static uint64_t growth(const tn_object_record *records, uint32_t before, uint32_t next) {
    uint64_t have = records[before].size[0], need = records[next].size[0];
    return need > have ? need - have : 0;
}

/* By trying every choice of predecessors. */
static uint64_t least_cost(const tn_object_record *records, uint32_t count, uint32_t next,
                           uint32_t used) {
    if (next == count) return 0;
    uint64_t best = records[next].size[0] + least_cost(records, count, next + 1, used);
    for (uint32_t before = 0; before < count; before++) {
        if (used >> before & 1 || records[before].last > records[next].first) continue;
        uint64_t cost = growth(records, before, next) +
                        least_cost(records, count, next + 1, used | 1u << before);
        if (cost < best) best = cost;
    }
    return best;
}

static void the_flow_costs_the_least_that_any_choice_does(void **state) {
    (void)state;
    if (!is_wanted("min-cost-flow")) return;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn_object_record records[7];
        tn_objects_options options = options_for("min-cost-flow", TN_SIZE_BYTES);
        tn_objects objects;
        uint64_t cost = 0;
        random_records(seed, records, 7, TN_SIZE_BYTES);
        assert_ok(tn_objects_plan(records, 7, &options, &objects, &failure));
        for (uint32_t i = 0; i < 7; i++) { /* the last before it in its object */
            uint32_t before = UINT32_MAX;
            for (uint32_t k = 0; k < 7; k++)
                if (objects.object[k] == objects.object[i] && records[k].first < records[i].first &&
                    (before == UINT32_MAX || records[k].first > records[before].first))
                    before = k;
            cost += before == UINT32_MAX ? records[i].size[0] : growth(records, before, i);
        }
        if (cost != least_cost(records, 7, 0, 0))
            fail_msg("seed %llu: the flow costs %llu\n", (unsigned long long)seed,
                     (unsigned long long)cost);
        tn_objects_release(&objects);
    }
}

static void limits_end_a_strategy_and_say_so(void **state) {
    (void)state;
    if (!is_wanted("min-cost-flow")) return;
    static tn_object_record records[400];
    tn_objects objects = {0};
    random_records(3, records, 400, TN_SIZE_BYTES);
    tn_objects_options options = options_for("min-cost-flow", TN_SIZE_BYTES);
    options.work_limit = 50;
    assert_int_equal(tn_objects_plan(records, 400, &options, &objects, &failure), TN_E_STOPPED);
    options.work_limit = 0;
    options.timeout_s = 1e-9;
    assert_int_equal(tn_objects_plan(records, 400, &options, &objects, &failure), TN_E_STOPPED);
    assert_null(objects.object);
}

/* All objects become free in one step: to sort them in moves n^2 / 4 of them, which a limit must
 * see coming. */
static void objects_freed_at_once_are_work(void **state) {
    (void)state;
    enum { COUNT = 60000 };
    if (!is_wanted("greedy-in-order")) return;
    tn_object_record *records = calloc(COUNT + 1, sizeof *records);
    tn__random random = {.state = 2};
    tn_objects objects = {0};
    assert_non_null(records);
    for (uint32_t i = 0; i <= COUNT; i++)
        records[i] = (tn_object_record){.size = {1 + tn__random_below(&random, 1u << 30)},
                                        .first = i == COUNT,
                                        .last = 1 + (i == COUNT)};
    tn_objects_options options = options_for("greedy-in-order", TN_SIZE_BYTES);
    options.work_limit = 2 * COUNT;
    assert_int_equal(tn_objects_plan(records, COUNT + 1, &options, &objects, &failure),
                     TN_E_STOPPED);
    free(records);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    tn_object_record records[40];
    random_records(9, records, 40, TN_SIZE_BYTES);
    for (uint32_t s = 0; s < tn_object_strategy_count(); s++) {
        tn_objects_options options = options_for(tn_object_strategy_name(s), TN_SIZE_BYTES);
        tn_status status = TN_E_NO_MEMORY;
        if (!is_wanted(options.strategy)) continue;
        for (uint64_t fail_at = 1; status != TN_OK && fail_at < 500; fail_at++) {
            faulty memory = {.fail_at = fail_at};
            tn_context context = faulty_context(&memory);
            tn_objects objects = {0};
            options.context = &context;
            status = tn_objects_plan(records, 40, &options, &objects, &failure);
            assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
            assert_int_equal(memory.held, 0);
            assert_true(status == TN_OK || objects.object == NULL);
            tn_objects_release(&objects);
        }
        assert_int_equal(status, TN_OK);
    }
    tn_status status = runs_shared() ? TN_E_NO_MEMORY : TN_OK;
    for (uint64_t fail_at = 1; status != TN_OK; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_edges uses = {3, (uint32_t[]){0, 1, 2, 2}, (uint32_t[]){1, 2}}, graph = {0};
        status = tn_reallocation_graph(&uses, &context, &graph, &failure);
        assert_int_equal(status, fail_at == 1 ? TN_E_NO_MEMORY : status);
        assert_true(status == TN_OK || (status == TN_E_NO_MEMORY && graph.begin == NULL));
        tn_edges_release(&context, &graph);
        assert_int_equal(memory.held, 0);
        assert_true(fail_at < 20);
    }
}

static void bad_records_and_graphs_are_refused(void **state) {
    (void)state;
    tn_objects objects = {0};
    tn_object_record empty = ROW(4, 3, 8), huge[] = {ROW(0, 1, INT64_MAX), ROW(0, 1, 1)};
    tn_object_record crooked = {.size = {8}, .last = 1, .alignment = 3};
    assert_int_equal(tn_objects_plan(&empty, 1, NULL, &objects, &failure), TN_E_INVALID);
    assert_int_equal(tn_objects_plan(huge, 2, NULL, &objects, &failure), TN_E_INVALID);
    assert_int_equal(tn_objects_plan(&crooked, 1, NULL, &objects, &failure), TN_E_INVALID);
    tn_objects_options options = TN_OBJECTS_OPTIONS_INIT;
    tn_edges beyond = {5, (uint32_t[]){0, 1, 1, 1, 1, 1}, (uint32_t[]){5}};
    options.reallocation = &beyond;
    assert_int_equal(tn_objects_plan(chain, 5, &options, &objects, &failure), TN_E_INVALID);
    assert_int_equal(tn_reallocation_graph(&beyond, NULL, &beyond, &failure), TN_E_INVALID);
    tn_edges small = {2, (uint32_t[]){0, 0, 0}, (uint32_t[]){0}};
    options.reallocation = &small;
    assert_int_equal(tn_objects_plan(chain, 5, &options, &objects, &failure), TN_E_INVALID);
    assert_null(objects.object);
}

/* --- saboteurs --- */

static tn_status all_in_one(tn_object_run *run) {
    tn__object_new(run, 0);
    for (uint32_t i = 1; i < run->count; i++) tn__object_join(run, i, 0);
    return TN_OK;
}
static tn_status one_left_out(tn_object_run *run) {
    for (uint32_t i = 1; i < run->count; i++) tn__object_new(run, i);
    return TN_OK;
}
static tn_status too_small(tn_object_run *run) {
    for (uint32_t i = 0; i < run->count; i++) tn__object_new(run, i);
    run->size[2][0] = 0;
    return TN_OK;
}
static tn_status wrong_sum(tn_object_run *run) {
    for (uint32_t i = 0; i < run->count; i++) tn__object_new(run, i);
    run->object_bulk[0] += 1;
    return TN_OK;
}

static void no_saboteur_gets_an_assignment_out(void **state) {
    (void)state;
    static tn_status (*const solves[])(tn_object_run *) = {all_in_one, one_left_out, too_small,
                                                           wrong_sum};
    for (size_t i = 0; i < sizeof solves / sizeof *solves; i++) {
        tn_object_strategy saboteur = {.name = "saboteur", .features = ~0u, .solve = solves[i]};
        tn_objects objects = {0};
        assert_int_equal(tn__objects_plan_with(&saboteur, chain, 5, NULL, &objects, &failure),
                         TN_E_INTERNAL);
        assert_null(objects.object);
    }
}

/* --- problems and files --- */

/* Gaps and windows count as live; pins, ties, banks and, without a graph, streams are refused. */
static void bodies_are_records_when_they_may_lie_anywhere(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8 * (KIT_ALL + 1); seed++) {
        unsigned what = (unsigned)(seed % (KIT_ALL + 1));
        tn_problem *problem = kit_random(seed, 10 + (uint32_t)(seed / 16), 50, 10, what);
        tn_object_record records[64];
        assert_true(tn_problem_count(problem) <= 64);
        uint32_t count = tn_problem_count(problem), pins_or_ties = 0;
        for (uint32_t i = 0; i < count; i++)
            pins_or_ties +=
                (tn_problem_body(problem, i)->flags & (TN_BODY_PINNED | TN_BODY_TIED)) != 0;
        bool refused = pins_or_ties > 0 || tn_problem_bank_count(problem) > 1;
        tn_edges graph;
        tn_status status = tn_problem_records(problem, records, &graph, &failure);
        assert_int_equal(status, refused ? TN_E_UNSUPPORTED : TN_OK);
        if (!refused) {
            uint64_t offsets[64], total;
            tn_objects_options options = TN_OBJECTS_OPTIONS_INIT;
            tn_objects objects;
            bool streams = tn_problem_streams(problem) > 1;
            assert_int_equal(graph.vertex_count, streams ? count : 0);
            if (streams) options.reallocation = &graph;
            assert_ok(tn_objects_plan(records, count, &options, &objects, &failure));
            assert_ok(tn_objects_offsets(records, &objects, offsets, &total, &failure));
            assert_true(kit_is_valid(problem, offsets));
            tn_objects_release(&objects);
            tn_edges_release(NULL, &graph);
            status = tn_problem_records(problem, records, NULL, &failure);
            assert_int_equal(status, streams ? TN_E_UNSUPPORTED : TN_OK);
        }
        tn_problem_destroy(problem);
    }
}

static tn_status load(const char *text, tn_object_record **records, char ***names, uint32_t *count,
                      tn_size_kind *kind) {
    return tn_object_records_load_memory("x.csv", text, strlen(text), NULL, records, names, count,
                                         kind, &failure);
}

static void records_come_from_csv(void **state) {
    (void)state;
    tn_object_record *records = NULL;
    char **names = NULL;
    uint32_t count = 0;
    tn_size_kind kind = TN_SIZE_BYTES;
    assert_ok(
        load("id,start,end,size\na,0,1,2x8\nb,1,2,1x12\n\nrest", &records, &names, &count, &kind));
    assert_int_equal(count, 2);
    assert_int_equal(kind, TN_SIZE_VECTOR2);
    assert_string_equal(names[1], "b");
    assert_int_equal(records[1].size[1], 12);
    assert_int_equal(records[1].last, 3);
    tn_object_records_release(NULL, records, names, count);
    assert_ok(load("size,lower,upper,id,alignment\n1x2x3x4,-1,2,a,64\n", &records, &names, &count,
                   &kind));
    assert_int_equal(kind, TN_SIZE_BHWC);
    assert_int_equal(records[0].alignment, 64);
    tn_object_records_release(NULL, records, names, count);
    static const char *const bad[] = {
        "",
        "id,lower,upper,size\na,0,1,2x8\nb,0,1,2x8,9\n",
        "id,lower,upper\na,0,1\n",
        "id,lower,upper,size\na,0,1,2x\n",
        "id,lower,upper,size\na,0,1,2x-2\n",
        "id,lower,upper,size\na,0,1,1x1x1x1x1\n",
        "id,lower,upper,size\na,0,1,2x8\nb,0,1,2\n",
        "id,lower,upper,size\na,1,1,2x8\n",
        "id,lower,upper,size\na,0,1,2x8,9\n",
        "id,lower,upper,size,gaps\na,0,1,2x8,\n",
        "id,lower,upper,size,alignment\na,0,1,2x8,3\n",
        "id,lower,upper,size\na,0,9223372036854775808,2x8\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(load(bad[i], &records, &names, &count, &kind), TN_E_INVALID);
    static const char *const unsupported[] = {
        "id,lower,upper,size,gaps\na,0,9,64,2-3\n", "id,lower,upper,size,apart\na,0,9,64,\n",
        "id,lower,upper,size,costs\na,0,9,64,\n", "id,lower,upper,size,reserved\na,0,9,64,\n"};
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        assert_int_equal(load(unsupported[i], &records, &names, &count, &kind), TN_E_UNSUPPORTED);
    for (uint64_t fail_at = 1; fail_at < 20; fail_at++) {
        static const char text[] = "id,lower,upper,size\na,0,1,2x8\nb,0,1,3x4\n";
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_status status = tn_object_records_load_memory("x.csv", text, sizeof text - 1, &context,
                                                         &records, &names, &count, &kind, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        if (status == TN_OK) tn_object_records_release(&context, records, names, count);
        assert_int_equal(memory.held, 0);
    }
}

#define IF_SHARED(test)                                                                            \
    static void test##_once(void **state) {                                                        \
        if (runs_shared()) test(state);                                                            \
    }
IF_SHARED(no_records_need_no_objects)
IF_SHARED(kinds_that_a_strategy_is_not_defined_for_are_refused)
IF_SHARED(objects_lie_end_to_end)
IF_SHARED(profiles_and_positional_maximums_are_those_of_the_peer)
IF_SHARED(reallocation_graphs_are_those_of_the_peer)
IF_SHARED(a_reallocation_graph_limits_who_follows_whom)
IF_SHARED(bad_records_and_graphs_are_refused)
IF_SHARED(no_saboteur_gets_an_assignment_out)
IF_SHARED(bodies_are_records_when_they_may_lie_anywhere)
IF_SHARED(records_come_from_csv)

int main(int count, char **arguments) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_of_tensorflow_lite_are_reproduced),
        cmocka_unit_test(no_records_need_no_objects_once),
        cmocka_unit_test(kinds_that_a_strategy_is_not_defined_for_are_refused_once),
        cmocka_unit_test(objects_lie_end_to_end_once),
        cmocka_unit_test(profiles_and_positional_maximums_are_those_of_the_peer_once),
        cmocka_unit_test(reallocation_graphs_are_those_of_the_peer_once),
        cmocka_unit_test(a_reallocation_graph_limits_who_follows_whom_once),
        cmocka_unit_test(every_assignment_is_valid_and_above_the_bound),
        cmocka_unit_test(auto_is_never_above_another),
        cmocka_unit_test(the_flow_costs_the_least_that_any_choice_does),
        cmocka_unit_test(limits_end_a_strategy_and_say_so),
        cmocka_unit_test(objects_freed_at_once_are_work),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(bad_records_and_graphs_are_refused_once),
        cmocka_unit_test(no_saboteur_gets_an_assignment_out_once),
        cmocka_unit_test(bodies_are_records_when_they_may_lie_anywhere_once),
        cmocka_unit_test(records_come_from_csv_once),
    };
    static const char file[] = "object_"; /* files of strategies are object_NAME.c */
    only = count > 1 ? arguments[1] : NULL;
    if (only != NULL && strncmp(only, file, sizeof file - 1) == 0) only += sizeof file - 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
