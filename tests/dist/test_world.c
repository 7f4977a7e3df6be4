/* test_world.c - ranks that are threads: random calls against what one process computes, and worlds
 * that end: every rank with the same words. */
#include "count.h"
#include "support.h"

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

#include <tenure/dist.h>

#include "base/base.h"

#define RANKS_MOST 8u

/* --- random calls --- */

typedef struct calls { /* what all ranks agree on: a list of calls follows from the seed */
    uint64_t seed;
    uint32_t ranks, count;
} calls;

static double value_of(uint64_t seed, uint32_t rank, uint64_t index) {
    tn__random random = {.state = seed * 977 + rank * 131071 + index};
    return (double)tn__random_below(&random, 2000001) / 1000 - 1000;
}

static void put(void *data, tn_dtype dtype, uint64_t at, double value) {
    if (dtype == TN_FLOAT32) ((float *)data)[at] = (float)value;
    if (dtype == TN_FLOAT64) ((double *)data)[at] = value;
    if (dtype == TN_INT32) ((int32_t *)data)[at] = (int32_t)value;
    if (dtype == TN_INT64) ((int64_t *)data)[at] = (int64_t)value;
}

/* The sum by the tree that dist.h promises, recursively: not the loop that is tested. */
static double tree(const double *values, uint32_t count, tn_dtype dtype) {
    if (count == 1) return values[0];
    uint32_t left = 1;
    while (2 * left < count) left *= 2;
    double sum = tree(values, left, dtype) + tree(values + left, count - left, dtype);
    return dtype == TN_FLOAT32 ? (double)(float)sum : sum;
}

static double expected(uint64_t seed, const uint32_t *ranks, uint32_t count, uint64_t index,
                       tn_dtype dtype, tn_reduction reduction) {
    double values[RANKS_MOST], most = -INFINITY;
    uint8_t one[8];
    for (uint32_t m = 0; m < count; m++) {
        put(one, dtype, 0, value_of(seed, ranks[m], index));
        values[m] = dtype == TN_FLOAT32   ? (double)*(float *)(void *)one
                    : dtype == TN_FLOAT64 ? *(double *)(void *)one
                    : dtype == TN_INT32   ? *(int32_t *)(void *)one
                                          : (double)*(int64_t *)(void *)one;
        if (values[m] > most) most = values[m];
    }
    double sum = tree(values, count, dtype);
    if (reduction == TN_REDUCTION_MAX) return most;
    if (reduction == TN_REDUCTION_SUM) return sum;
    return dtype == TN_FLOAT32 ? (double)((float)sum / (float)count) : sum / count;
}

static tn_status same(const void *data, tn_dtype dtype, uint64_t at, double value, const char *what,
                      tn_error *error) {
    uint8_t wanted[8];
    size_t width = tn_dtype_bits(dtype) / 8;
    put(wanted, dtype, 0, value);
    if (memcmp((const uint8_t *)data + at * width, wanted, width) == 0) return TN_OK;
    TN_FAIL(error, TN_E_INTERNAL, "%s: element %llu is not %.17g", what, (unsigned long long)at,
            value);
}

typedef struct call { /* one of the list */
    uint64_t seed, count;
    uint32_t group, members, ranks[RANKS_MOST], mine, root;
    tn_dtype dtype;
    tn_reduction reduction;
    void *data, *other; /* room for all members' parts */
} call;

static void fill(const call *it, void *data, uint32_t rank, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) put(data, it->dtype, i, value_of(it->seed, rank, i));
}

static tn_status do_reduce(const tn_exchange *to, const call *it, tn_error *error) {
    fill(it, it->data, to->rank, it->count);
    TN_TRY(to->reduce(to->self, it->group, it->data, it->count, it->dtype, it->reduction, error));
    for (uint64_t i = 0; i < it->count; i++)
        TN_TRY(same(it->data, it->dtype, i,
                    expected(it->seed, it->ranks, it->members, i, it->dtype, it->reduction),
                    "reduce", error));
    return TN_OK;
}

static tn_status do_scatter(const tn_exchange *to, const call *it, bool apart, tn_error *error) {
    uint64_t width = tn_dtype_bits(it->dtype) / 8, first = it->mine * it->count;
    void *part = apart ? it->other : (uint8_t *)it->data + first * width;
    fill(it, it->data, to->rank, it->count * it->members);
    TN_TRY(to->scatter(to->self, it->group, it->data, part, it->count, it->dtype, it->reduction,
                       error));
    for (uint64_t i = 0; i < it->count; i++)
        TN_TRY(same(part, it->dtype, i,
                    expected(it->seed, it->ranks, it->members, first + i, it->dtype, it->reduction),
                    "scatter", error));
    return TN_OK;
}

static tn_status do_gather(const tn_exchange *to, const call *it, bool apart, tn_error *error) {
    uint64_t width = tn_dtype_bits(it->dtype) / 8, bytes = it->count * width;
    uint8_t *part = apart ? it->other : (uint8_t *)it->data + it->mine * bytes;
    fill(it, part, to->rank, it->count);
    TN_TRY(to->gather(to->self, it->group, part, it->data, bytes, error));
    for (uint32_t m = 0; m < it->members; m++)
        for (uint64_t i = 0; i < it->count; i++)
            TN_TRY(same((uint8_t *)it->data + m * bytes, it->dtype, i,
                        value_of(it->seed, it->ranks[m], i), "gather", error));
    return TN_OK;
}

static tn_status do_broadcast(const tn_exchange *to, const call *it, tn_error *error) {
    uint64_t width = tn_dtype_bits(it->dtype) / 8;
    fill(it, it->data, to->rank, it->count);
    TN_TRY(to->broadcast(to->self, it->group, it->root, it->data, it->count * width, error));
    for (uint64_t i = 0; i < it->count; i++)
        TN_TRY(same(it->data, it->dtype, i, value_of(it->seed, it->ranks[it->root], i), "broadcast",
                    error));
    return TN_OK;
}

/* A message round the group: even members send first. */
static tn_status do_ring(const tn_exchange *to, const call *it, tn_error *error) {
    uint64_t bytes = it->count * (tn_dtype_bits(it->dtype) / 8);
    uint32_t next = it->ranks[(it->mine + 1) % it->members];
    uint32_t before = it->ranks[(it->mine + it->members - 1) % it->members];
    if (it->members == 1) return TN_OK;
    fill(it, it->data, to->rank, it->count);
    if (it->mine % 2 == 0) TN_TRY(to->send(to->self, next, it->group, it->data, bytes, error));
    TN_TRY(to->recv(to->self, before, it->group, it->other, bytes, error));
    if (it->mine % 2 != 0) TN_TRY(to->send(to->self, next, it->group, it->data, bytes, error));
    for (uint64_t i = 0; i < it->count; i++)
        TN_TRY(same(it->other, it->dtype, i, value_of(it->seed, before, i), "ring", error));
    return TN_OK;
}

static tn_status do_one(const tn_exchange *to, call *it, uint32_t which, tn_error *error) {
    switch (which) {
    case 0:
        return do_reduce(to, it, error);
    case 1:
    case 2:
        return do_scatter(to, it, which == 1, error);
    case 3:
    case 4:
        return do_gather(to, it, which == 3, error);
    case 5:
        return do_broadcast(to, it, error);
    default:
        return do_ring(to, it, error);
    }
}

/* Group 1: every second rank, last first; 0: all. */
static void choose(call *it, const tn_exchange *to, uint32_t group) {
    it->group = group;
    it->members = 0;
    it->mine = TN_NONE;
    for (uint32_t r = 0; r < to->ranks; r++) {
        uint32_t rank = group == 0 ? r : to->ranks - 1 - r;
        if (group == 1 && r % 2 != 0) continue;
        if (rank == to->rank) it->mine = it->members;
        it->ranks[it->members++] = rank;
    }
}

static tn_status make_calls(tn_world *world, const calls *list, call *it, tn_error *error) {
    static const tn_dtype types[] = {TN_FLOAT32, TN_FLOAT64, TN_INT32, TN_INT64};
    const tn_exchange *to = tn_world_exchange(world);
    tn__random random = {.state = list->seed};
    choose(it, to, 1);
    TN_TRY(tn_world_group(world, 1, it->ranks, it->members, error));
    for (uint32_t c = 0; c < list->count; c++) {
        bool large = tn__random_below(&random, 12) == 0;
        choose(it, to, (uint32_t)tn__random_below(&random, 2));
        it->seed = list->seed * 1000 + c;
        it->dtype = types[tn__random_below(&random, 4)];
        it->reduction = (tn_reduction)tn__random_below(&random, TN_REDUCTION_COUNT);
        if (!to->reduces(to->self, it->dtype, it->reduction)) it->reduction = TN_REDUCTION_SUM;
        it->count = tn__random_below(&random, large ? 90000 : 40);
        it->root = (uint32_t)tn__random_below(&random, it->members);
        uint32_t which = (uint32_t)tn__random_below(&random, 7);
        if (it->mine != TN_NONE) TN_TRY(do_one(to, it, which, error));
    }
    return TN_OK;
}

static tn_status random_calls(void *self, tn_world *world, tn_error *error) {
    const calls *list = self;
    call it = {0};
    if (tn_world_ranks(world) != list->ranks) TN_FAIL(error, TN_E_INTERNAL, "another number");
    it.data = malloc(RANKS_MOST * 90000 * 8);
    it.other = malloc(RANKS_MOST * 90000 * 8);
    tn_status status = make_calls(world, list, &it, error);
    free(it.data);
    free(it.other);
    return status;
}

static void all_calls_give_what_one_process_computes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        calls list = {.seed = seed, .ranks = 1 + (uint32_t)(seed % RANKS_MOST), .count = 40};
        tn_world_options options = TN_WORLD_OPTIONS_INIT;
        tn_error error = {0};
        options.driver = "threads";
        options.ranks = list.ranks;
        if (tn_world_run(&options, random_calls, &list, &error) != TN_OK)
            fail_msg("seed %llu, %u ranks: %s: %s", (unsigned long long)seed, list.ranks,
                     error.where, error.message);
    }
}

/* --- larger than the room for what arrives; and however it is cut --- */

static tn_status cut(void *self, tn_world *world, tn_error *error) {
    const tn_exchange *to = tn_world_exchange(world);
    uint64_t count = 3000001;
    float *whole = malloc(count * sizeof *whole), *parts = malloc(count * sizeof *parts);
    tn_status status = TN_OK;
    (void)self;
    for (uint64_t i = 0; i < count; i++)
        whole[i] = parts[i] = (float)value_of(7, to->rank, i % 999983) * 1e-3f;
    status = to->reduce(to->self, 0, whole, count, TN_FLOAT32, TN_REDUCTION_MEAN, error);
    for (uint64_t at = 0, some; at < count && status == TN_OK; at += some) {
        some = count - at < 77777 ? count - at : 77777;
        status = to->reduce(to->self, 0, parts + at, some, TN_FLOAT32, TN_REDUCTION_MEAN, error);
    }
    if (status == TN_OK && memcmp(whole, parts, count * sizeof *whole) != 0)
        status = tn__fail(error, TN_E_INTERNAL, "other bits");
    free(whole);
    free(parts);
    return status;
}

static void bits_do_not_depend_on_how_tensors_are_put_together(void **state) {
    (void)state;
    for (uint32_t ranks = 3; ranks <= 5; ranks += 2) {
        tn_world_options options = TN_WORLD_OPTIONS_INIT;
        tn_error error = {0};
        options.driver = "threads";
        options.ranks = ranks;
        if (tn_world_run(&options, cut, NULL, &error) != TN_OK)
            fail_msg("%u ranks: %s", ranks, error.message);
    }
}

/* --- worlds that end --- */

typedef struct ending {
    const char *how;
    uint32_t told;    /* how often people were */
    atomic_uint left; /* ranks that have returned */
    tn_status status[RANKS_MOST];
    char words[RANKS_MOST][400];
} ending;

static tn_status end_reduce(const tn_exchange *to, uint64_t count, tn_error *error) {
    double values[8] = {0};
    return to->reduce(to->self, 0, values, count, TN_FLOAT64, TN_REDUCTION_SUM, error);
}

static tn_status end_one(ending *it, tn_world *world, tn_error *error) {
    const tn_exchange *to = tn_world_exchange(world);
    bool odd = to->rank == 2;
    if (strcmp(it->how, "fails") == 0 && odd) TN_FAIL(error, TN_E_IO, "a disk is full");
    if (strcmp(it->how, "ends") == 0 && odd) return TN_OK;
    if (strcmp(it->how, "sleeps") ==
        0) { /* all are there; then one waits until the others have left */
        TN_TRY(tn_world_agree(world, TN_OK, error));
        while (odd && atomic_load(&it->left) < 3) usleep(1000);
    }
    if (strcmp(it->how, "agrees") == 0) {
        tn_status mine = to->rank == 1 || odd
                             ? tn__fail(error, TN_E_EXHAUSTED, "%u has no room", to->rank)
                             : TN_OK;
        return tn_world_agree(world, mine, error);
    }
    if (strcmp(it->how, "compares") == 0) {
        const tn_world_same alike[] = {{"version", 5}, {"model", odd ? 1 : 2}};
        return tn_world_compare(world, alike, 2, error);
    }
    return end_reduce(to, strcmp(it->how, "counts") == 0 && odd ? 8 : 4, error);
}

static tn_status end_on(void *self, tn_world *world, tn_error *error) {
    ending *it = self;
    uint32_t rank = tn_world_rank(world);
    it->status[rank] = end_one(it, world, error);
    atomic_fetch_add(&it->left, 1);
    if (it->status[rank] != TN_OK) snprintf(it->words[rank], 400, "%s", error->message);
    return it->status[rank];
}

static int end_tell(void *self, tn_status status, const tn_error *error) {
    ending *it = self;
    assert_int_equal(status, error->status);
    it->told++;
    return 1;
}

static void end_world(const char *how, tn_status wanted, const char *words, const char *where) {
    ending it = {.how = how};
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error = {0};
    options.driver = "threads";
    options.ranks = 4;
    options.patience_s = strcmp(how, "sleeps") == 0 ? 2 : 0; /* the others: by themselves */
    options.tell = end_tell;
    options.self = &it;
    assert_int_equal(tn_world_run(&options, end_on, &it, &error), wanted);
    if (strstr(error.message, words) == NULL || strstr(error.where, where) == NULL)
        fail_msg("%s: '%s', '%s'", how, error.where, error.message);
    assert_int_equal(it.told, 1);
    for (uint32_t r = 0; r < 4; r++) /* who waited is told the same */
        if (it.status[r] != TN_OK && strcmp(how, "fails") != 0)
            assert_string_equal(it.words[r], error.message);
}

static void a_world_ends_on_all_ranks_with_one_reason(void **state) {
    (void)state;
    end_world("fails", TN_E_IO, "a disk is full", "rank 2");
    end_world("ends", TN_E_CONFLICT, "rank 2 has ended", "");
    end_world("sleeps", TN_E_STOPPED, "for rank 2", "");
    end_world("agrees", TN_E_EXHAUSTED, "1 has no room", "rank 1");
    end_world("compares", TN_E_CONFLICT, "rank 2 has another model than rank 0", "");
    end_world("counts", TN_E_CONFLICT, "different places", "");
}

static void what_there_is_none_of_is_refused(void **state) {
    (void)state;
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    ending it = {.how = "none"};
    tn_error error = {0};
    options.tell = end_tell;
    options.self = &it;
    options.driver = "pigeons";
    assert_int_equal(tn_world_run(&options, end_on, &it, &error), TN_E_UNKNOWN);
    assert_non_null(strstr(error.message, "pigeons"));
    assert_int_equal(it.told, 1);
    options.driver = "threads";
    options.patience_s = -1;
    assert_int_equal(tn_world_run(&options, end_on, &it, &error), TN_E_INVALID);
    assert_int_equal(tn_world_run(&options, end_on, &it, NULL), TN_E_INVALID);
}

static tn_status bad_groups(void *self, tn_world *world, tn_error *error) {
    const uint32_t twice[] = {0, 0}, far[] = {9};
    const tn_exchange *to = tn_world_exchange(world);
    float one = 1;
    tn_error unused;
    (void)self;
    if (tn_world_group(world, 0, twice, 1, &unused) != TN_E_INVALID ||
        tn_world_group(world, 3, twice, 2, &unused) != TN_E_INVALID ||
        tn_world_group(world, 3, far, 1, &unused) != TN_E_INVALID ||
        tn_world_group(world, 3, far, 0, &unused) != TN_E_INVALID ||
        to->reduce(to->self, 3, &one, 1, TN_FLOAT32, TN_REDUCTION_SUM, &unused) != TN_E_INVALID ||
        to->reduce(to->self, 0, &one, 1, TN_INT8, TN_REDUCTION_SUM, &unused) != TN_E_UNSUPPORTED ||
        to->broadcast(to->self, 0, 1, &one, 4, &unused) != TN_E_INVALID ||
        to->send(to->self, 1, 0, &one, 4, &unused) != TN_E_INVALID)
        TN_FAIL(error, TN_E_INTERNAL, "something was taken that is not there");
    return TN_OK;
}

static void groups_and_calls_that_cannot_be_are_refused(void **state) {
    (void)state;
    tn_error error = {0};
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    options.driver = "threads";
    if (tn_world_run(&options, bad_groups, NULL, &error) != TN_OK) fail_msg("%s", error.message);
}

/* --- out of memory --- */

static void without_memory_a_world_ends_and_leaks_nothing(void **state) {
    (void)state;
    for (uint64_t at = 1;; at += case_step()) {
        calls list = {.seed = 5, .ranks = 3, .count = 6};
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_world_options options = TN_WORLD_OPTIONS_INIT;
        tn_error error = {0};
        options.context = &context;
        options.driver = "threads";
        options.ranks = 3;
        tn_status status = tn_world_run(&options, random_calls, &list, &error);
        assert_int_equal(memory.held, 0);
        if (status == TN_OK && memory.requests < at) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_calls_give_what_one_process_computes),
        cmocka_unit_test(bits_do_not_depend_on_how_tensors_are_put_together),
        cmocka_unit_test(a_world_ends_on_all_ranks_with_one_reason),
        cmocka_unit_test(what_there_is_none_of_is_refused),
        cmocka_unit_test(groups_and_calls_that_cannot_be_are_refused),
        cmocka_unit_test(without_memory_a_world_ends_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
