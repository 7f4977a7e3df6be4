/* test_embedding.c - tables behind a cache beside plain ones, and everything that can be wrong.
 *
 *     test_embedding_embedding [OPERATIONS [SEED]]
 *
 * OPERATIONS of the random test: 60,000 unless told; 10,000,000 is for by hand.
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "run/embedding/cache.h"

static uint64_t operations = 60000, seed = 1;

/* --- random operations --- */

typedef struct world {
    tn_embedding_table table;
    tn_embedding_options options;
    tn_embedding *e;
    plain now, promised;
    kit_batch batches[3];
    uint32_t tickets[3];
    bool open[3];
    uint64_t note;
    tn__random random;
} world;

static void world_open(world *w) {
    uint64_t note = 0;
    size_t size;
    assert_ok(tn_embedding_open(kit_path(), &w->options, &w->e, &failure));
    assert_ok(tn_embedding_note(w->e, &note, sizeof note, &size, &failure));
    assert_true(w->note == 0 ? size == 0 : size == sizeof note && note == w->note);
}

/* A table of some type, rule, policy and reader, in a cache of 8 to 40 of its 60 rows. */
static void world_create(world *w) {
    static const tn_dtype types[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16};
    const char *readers[] = {"plain", "threads", tn__uring_lacks() == NULL ? "uring" : NULL};
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding_table table = TN_EMBEDDING_TABLE_INIT;
    table.rows = 60;
    table.dim = 1 + (uint32_t)tn__random_below(&w->random, 9);
    table.type = types[tn__random_below(&w->random, 3)];
    table.rule = (tn_embedding_rule)tn__random_below(&w->random, TN_EMBEDDING_RULE_COUNT);
    table.seed = tn__random_next(&w->random);
    table.scale = tn__random_below(&w->random, 4) == 0 ? 0 : 0.5;
    options.policy = tn_embedding_policy_name(
        (uint32_t)tn__random_below(&w->random, tn_embedding_policy_count() - 1));
    options.reader = readers[tn__random_below(&w->random, 3)];
    options.threads = 2;
    options.batch_rows = KIT_ROWS;
    options.batch_count = 3;
    options.unsynced = tn__random_below(&w->random, 8) != 0; /* for time's sake */
    uint32_t slots = 8 + (uint32_t)tn__random_below(&w->random, 33);
    assert_ok(tn_embedding_bytes(&table, &options, slots, &options.cache_bytes, &failure));
    assert_ok(tn_embedding_create(kit_path(), &table, NULL, &failure));
    w->table = table;
    w->options = options;
    w->note = 0;
    world_open(w);
    tn_embedding_facts facts;
    tn_embedding_tell(w->e, &facts);
    assert_true(facts.slots >= slots && facts.table.dim == table.dim);
    plain_open(&w->now, &facts.table);
    plain_open(&w->promised, &facts.table);
    plain_read(&w->now, w->e);
    plain_copy(&w->promised, &w->now);
}

static void world_end(world *w, uint32_t k) {
    if (w->open[k]) assert_ok(tn_embedding_end(w->e, w->tickets[k], &failure));
    w->open[k] = false;
}

static void world_close(world *w) {
    for (uint32_t k = 0; k < 3; k++) world_end(w, k);
    tn_embedding_close(w->e);
    w->e = NULL;
}

static void world_begin(world *w, uint32_t k) {
    if (w->open[k]) return;
    kit_draw(&w->batches[k], w->table.rows, KIT_ROWS, &w->random);
    tn_status status = tn_embedding_begin(w->e, &w->batches[k].batch, &w->tickets[k], &failure);
    w->open[k] = status == TN_OK;
    if (status != TN_OK && status != TN_E_EXHAUSTED) fail_msg("%s\n", failure.message);
}

static void world_sums(world *w, uint32_t k) {
    float got[KIT_ROWS * 9], expected[KIT_ROWS * 9];
    if (!w->open[k]) return;
    const tn_embedding_batch *batch = &w->batches[k].batch;
    assert_ok(tn_embedding_sums(w->e, w->tickets[k], got, &failure));
    plain_sums(&w->now, batch, expected);
    assert_memory_equal(got, expected, batch->bag_count * w->table.dim * sizeof *got);
}

static void world_update(world *w, uint32_t k) {
    float gradients[KIT_ROWS * 9];
    tn_embedding_step step = {.rate = 0.05f, .epsilon = 1e-6f};
    if (!w->open[k]) return;
    for (uint32_t i = 0; i < KIT_ROWS * 9; i++) gradients[i] = kit_number(&w->random);
    assert_ok(tn_embedding_update(w->e, w->tickets[k], gradients, &step, &failure));
    plain_update(&w->now, &w->batches[k].batch, gradients, &step);
}

static void world_put(world *w, uint32_t k) {
    float values[KIT_ROWS * 9];
    uint32_t dim = w->table.dim;
    if (!w->open[k]) return;
    const tn_embedding_batch *batch = &w->batches[k].batch;
    for (uint32_t i = 0; i < KIT_ROWS * 9; i++) values[i] = kit_number(&w->random);
    assert_ok(tn_embedding_put(w->e, w->tickets[k], values, &failure));
    for (uint32_t i = 0; i < batch->row_count; i++)
        for (uint32_t d = 0; d < dim; d++) {
            size_t at = (size_t)batch->rows[i] * dim + d;
            w->now.values[at] = plain_round(w->now.table.type, values[i * dim + d]);
            w->now.state[at] = 0;
        }
}

static void world_checkpoint(world *w) {
    w->note++;
    assert_ok(tn_embedding_checkpoint(w->e, &w->note, sizeof w->note, &failure));
    plain_copy(&w->promised, &w->now);
}

static void world_reopen(world *w) {
    world_close(w);
    world_open(w);
    plain_copy(&w->now, &w->promised);
}

static void world_step(world *w) {
    uint32_t k = (uint32_t)tn__random_below(&w->random, 3);
    uint64_t what = tn__random_below(&w->random, 100);
    if (what < 35)
        world_begin(w, k);
    else if (what < 55)
        world_sums(w, k);
    else if (what < 72)
        world_update(w, k);
    else if (what < 74)
        world_put(w, k);
    else if (what < 98)
        world_end(w, k);
    else if (what < 99 || w->note == 0)
        world_checkpoint(w);
    else if (tn__random_below(&w->random, 4) == 0)
        world_reopen(w);
    const char *wrong = tn__residents_check(&w->e->r);
    if (wrong != NULL) fail_msg("%s\n", wrong);
}

static void random_operations_are_those_of_a_plain_table(void **state) {
    (void)state;
    enum { RUNS = 60 };
    world w = {.random = {seed}};
    for (uint32_t run = 0; run < RUNS; run++) {
        kit_remove(kit_path());
        world_create(&w);
        for (uint64_t i = 0; i < operations / RUNS; i++) world_step(&w);
        for (uint32_t k = 0; k < 3; k++) world_end(&w, k);
        plain_compare(&w.now, w.e);
        world_close(&w);
        plain_close(&w.now);
        plain_close(&w.promised);
    }
    kit_remove(kit_path());
}

/* --- first values, holes --- */

static tn_embedding_table small_table(uint64_t rows, uint32_t dim) {
    tn_embedding_table table = TN_EMBEDDING_TABLE_INIT;
    table.rows = rows;
    table.dim = dim;
    table.scale = 0.25;
    table.seed = 3;
    return table;
}

static tn_embedding *open_small(const tn_embedding_table *table, uint64_t cache, bool create) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e;
    options.cache_bytes = cache;
    if (create) {
        kit_remove(kit_path());
        assert_ok(tn_embedding_create(kit_path(), table, NULL, &failure));
    }
    assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
    return e;
}

static void a_large_table_takes_no_disk_until_it_is_written(void **state) {
    (void)state;
    tn_embedding_table table = small_table(100000000, 64);
    tn_embedding *e = open_small(&table, 1 << 20, true);
    uint32_t rows[] = {0, 99999999, 50000000, 99999999};
    float sums[4 * 64], again[4 * 64], gradients[4 * 64] = {0};
    tn_embedding_batch batch = {.rows = rows, .row_count = 4, .bag_count = 4};
    tn_embedding_step step = {.rate = 1};
    struct stat facts;
    double mean = 0;
    assert_ok(tn_embedding_lookup(e, &batch, sums, &failure));
    for (uint32_t i = 0; i < 192; i++) {
        assert_true(sums[i] >= -0.25f && sums[i] <= 0.25f);
        mean += (double)sums[i] / 192;
    }
    assert_true(fabs(mean) < 0.05 && sums[0] != sums[64] && sums[0] != sums[1]);
    assert_memory_equal(sums + 64, sums + 192, 64 * sizeof *sums);
    uint32_t ticket;
    gradients[64] = 1; /* one number of row 99999999 */
    assert_ok(tn_embedding_begin(e, &batch, &ticket, &failure));
    assert_ok(tn_embedding_update(e, ticket, gradients, &step, &failure));
    assert_ok(tn_embedding_end(e, ticket, &failure));
    assert_ok(tn_embedding_checkpoint(e, NULL, 0, &failure));
    tn_embedding_close(e);
    e = open_small(&table, 1 << 16, false);
    assert_ok(tn_embedding_lookup(e, &batch, again, &failure));
    sums[64] -= 1;
    sums[192] -= 1;
    assert_memory_equal(sums, again, sizeof sums);
    assert_int_equal(stat(kit_path(), &facts), 0);
    assert_true(facts.st_size == 4096 + 100000000LL * 256 && facts.st_blocks * 512 < 1 << 20);
    tn_embedding_close(e);
    kit_remove(kit_path());
}

static void the_slab_is_all_the_memory_there_is(void **state) {
    (void)state;
    tn_embedding_table table = small_table(5000, 16);
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e;
    tn_embedding_facts facts;
    float sums[16];
    options.context = &context;
    options.cache_bytes = 100000;
    kit_remove(kit_path());
    assert_ok(tn_embedding_create(kit_path(), &table, &context, &failure));
    assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
    size_t paths = 3 * strlen(kit_path()) + strlen(".journal.checkpoint") + 3;
    assert_int_equal(memory.held, 100000 + paths);
    uint64_t requests = memory.requests;
    for (uint32_t row = 0; row < 5000; row++) {
        tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
        assert_ok(tn_embedding_lookup(e, &batch, sums, &failure));
    }
    assert_int_equal(memory.requests, requests);
    tn_embedding_tell(e, &facts);
    assert_true(facts.resident == facts.slots && facts.slots > 500);
    assert_true(facts.slots * (facts.row_bytes + sizeof(tn__slot)) < 100000);
    tn_embedding_close(e);
    assert_int_equal(memory.held, 0);
    kit_remove(kit_path());
}

static void a_cache_of_one_row_works(void **state) {
    (void)state;
    tn_embedding_table table = small_table(50, 8);
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e;
    tn_embedding_facts facts;
    uint32_t row, ticket, two[] = {1, 2};
    float gradient[8] = {1, 1, 1, 1, 1, 1, 1, 1}, before[8], after[8];
    tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
    tn_embedding_step step = {.rate = 0.5f};
    uint64_t least;
    kit_remove(kit_path());
    assert_ok(tn_embedding_create(kit_path(), &table, NULL, &failure));
    options.batch_rows = 2;
    assert_ok(tn_embedding_bytes(&table, &options, 1, &least, &failure));
    options.cache_bytes = least - 1;
    assert_int_equal(tn_embedding_open(kit_path(), &options, &e, &failure), TN_E_INVALID);
    options.cache_bytes = least;
    assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
    tn_embedding_tell(e, &facts);
    assert_int_equal(facts.slots, 1);
    for (row = 0; row < 50; row++) {
        assert_ok(tn_embedding_lookup(e, &batch, before, &failure));
        assert_ok(tn_embedding_begin(e, &batch, &ticket, &failure));
        assert_ok(tn_embedding_update(e, ticket, gradient, &step, &failure));
        assert_ok(tn_embedding_end(e, ticket, &failure));
        uint32_t kept = row;
        row = (row + 1) % 50;
        assert_ok(tn_embedding_lookup(e, &batch, after, &failure)); /* row goes */
        row = kept;
        assert_ok(tn_embedding_lookup(e, &batch, after, &failure));
        for (uint32_t d = 0; d < 8; d++) assert_true(after[d] == before[d] - 0.5f);
    }
    tn_embedding_batch wide = {.rows = two, .row_count = 2, .bag_count = 2};
    assert_int_equal(tn_embedding_begin(e, &wide, &ticket, &failure), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "would do"));
    tn_embedding_close(e);
    /* what the message tells does */
    assert_ok(tn_embedding_bytes(&table, &options, 2, &options.cache_bytes, &failure));
    assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
    assert_ok(tn_embedding_begin(e, &wide, &ticket, &failure));
    tn_embedding_close(e);
    kit_remove(kit_path());
}

/* --- what is wrong is told --- */

static void refused(tn_status expected, const char *what, tn_status got) {
    if (got != expected || strstr(failure.message, what) == NULL)
        fail_msg("%s '%s', not '%s'\n", tn_status_name(got), failure.message, what);
}

static void bad_batches_are_refused(void **state) {
    (void)state;
    tn_embedding_table table = small_table(50, 4);
    tn_embedding *e = open_small(&table, 20000, true);
    uint32_t rows[] = {0, 50, 1}, falling[] = {0, 2, 1}, late[] = {1, 2}, ticket = 0;
    float sums[12];
    tn_embedding_batch batch = {.rows = rows, .row_count = 3, .bag_count = 3};
    refused(TN_E_INVALID, "place 1 of the batch asks for row 50",
            tn_embedding_begin(e, &batch, &ticket, &failure));
    rows[1] = 49;
    batch.bag_count = 2;
    refused(TN_E_INVALID, "each of the 3 rows", tn_embedding_begin(e, &batch, &ticket, &failure));
    batch.bags = falling;
    batch.bag_count = 3;
    refused(TN_E_INVALID, "bag 2", tn_embedding_begin(e, &batch, &ticket, &failure));
    batch.bags = late;
    batch.bag_count = 2;
    refused(TN_E_INVALID, "first bag", tn_embedding_begin(e, &batch, &ticket, &failure));
    batch.row_count = 1 << 20;
    refused(TN_E_INVALID, "batches of", tn_embedding_begin(e, &batch, &ticket, &failure));
    refused(TN_E_INVALID, "ticket 0", tn_embedding_sums(e, 0, sums, &failure));
    refused(TN_E_INVALID, "ticket 7", tn_embedding_end(e, 7, &failure));
    assert_null(tn__residents_check(&e->r));
    assert_int_equal(e->r.locked, 0);
    batch = (tn_embedding_batch){.rows = rows, .row_count = 3, .bag_count = 3};
    assert_ok(tn_embedding_begin(e, &batch, &ticket, &failure));
    assert_ok(tn_embedding_begin(e, &batch, &ticket, &failure));
    refused(TN_E_INVALID, "2 batches are open", tn_embedding_begin(e, &batch, &ticket, &failure));
    batch.row_count = batch.bag_count = 0;
    assert_ok(tn_embedding_end(e, 1, &failure));
    assert_ok(tn_embedding_lookup(e, &batch, NULL, &failure));
    tn_embedding_close(e);
    kit_remove(kit_path());
}

/* Rows that are locked and those of the batch are, together, more than the table has: both are told
 * as they are. */
static void a_refusal_tells_the_rows_of_the_batch(void **state) {
    (void)state;
    enum { LOCKED = 20, WANTED = 35 };
    tn_embedding_table table = small_table(50, 4);
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e;
    uint32_t rows[WANTED], ticket;
    for (uint32_t i = 0; i < WANTED; i++) rows[i] = 49 - i;
    tn_embedding_batch batch = {.rows = rows, .row_count = LOCKED, .bag_count = LOCKED};
    kit_remove(kit_path());
    assert_ok(tn_embedding_create(kit_path(), &table, NULL, &failure));
    options.batch_rows = WANTED;
    assert_ok(tn_embedding_bytes(&table, &options, 30, &options.cache_bytes, &failure));
    assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
    assert_ok(tn_embedding_begin(e, &batch, &ticket, &failure));
    batch.row_count = batch.bag_count = WANTED;
    refused(TN_E_EXHAUSTED, "a batch with 35 different rows",
            tn_embedding_begin(e, &batch, &ticket, &failure));
    assert_non_null(strstr(failure.message, "room for 30, and open batches have locked 20"));
    tn_embedding_close(e);
    kit_remove(kit_path());
}

static void bad_options_are_refused(void **state) {
    (void)state;
    tn_embedding_table table = small_table(50, 4);
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e, *other;
    kit_remove(kit_path());
    assert_int_equal(tn_embedding_open(kit_path(), &options, &e, &failure), TN_E_IO);
    table.rows = 0;
    refused(TN_E_INVALID, "rows", tn_embedding_create(kit_path(), &table, NULL, &failure));
    table.rows = 1ull << 32;
    refused(TN_E_INVALID, "rows", tn_embedding_create(kit_path(), &table, NULL, &failure));
    table = small_table(50, 0);
    refused(TN_E_INVALID, "numbers", tn_embedding_create(kit_path(), &table, NULL, &failure));
    table = small_table(50, 4);
    table.type = TN_INT8;
    refused(TN_E_INVALID, "float32", tn_embedding_create(kit_path(), &table, NULL, &failure));
    table = small_table(50, 4);
    table.scale = NAN;
    refused(TN_E_INVALID, "scale", tn_embedding_create(kit_path(), &table, NULL, &failure));
    table = small_table(50, 4);
    assert_ok(tn_embedding_create(kit_path(), &table, NULL, &failure));
    refused(TN_E_IO, "there is such a file",
            tn_embedding_create(kit_path(), &table, NULL, &failure));
    refused(TN_E_INVALID, "at least", tn_embedding_open(kit_path(), &options, &e, &failure));
    options.cache_bytes = 20000;
    options.policy = "lruu";
    refused(TN_E_UNKNOWN, "'lru'", tn_embedding_open(kit_path(), &options, &e, &failure));
    options.policy = "belady";
    refused(TN_E_UNSUPPORTED, "recorded", tn_embedding_open(kit_path(), &options, &e, &failure));
    options.policy = NULL;
    options.reader = "aio";
    refused(TN_E_UNKNOWN, "threads", tn_embedding_open(kit_path(), &options, &e, &failure));
    options.reader = NULL;
    options.batch_count = 9;
    refused(TN_E_INVALID, "at once", tn_embedding_open(kit_path(), &options, &e, &failure));
    options.batch_count = 0;
    assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
    assert_int_equal(fcntl(e->file, F_GETFL) & O_NONBLOCK, 0); /* reads wait, whoever does them */
    refused(TN_E_IO, "open already", tn_embedding_open(kit_path(), &options, &other, &failure));
    tn_embedding_close(e);
    options.read_only = true;
    assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
    assert_ok(tn_embedding_open(kit_path(), &options, &other, &failure));
    refused(TN_E_UNSUPPORTED, "reading", tn_embedding_checkpoint(e, NULL, 0, &failure));
    refused(TN_E_UNSUPPORTED, "reading", tn_embedding_put(e, 0, NULL, &failure));
    tn_embedding_close(e);
    tn_embedding_close(other);
    kit_remove(kit_path());
}

static void change_byte(const char *suffix, off_t at) {
    char path[160];
    uint8_t byte = 0;
    snprintf(path, sizeof path, "%s%s", kit_path(), suffix);
    int file = open(path, O_RDWR);
    assert_true(file >= 0 && pread(file, &byte, 1, at) == 1);
    byte ^= 0x20;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

/* Each byte of the heads, changed, is refused; none of it crashes. */
static void damaged_files_are_refused(void **state) {
    (void)state;
    tn_embedding_table table = small_table(50, 4);
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e = open_small(&table, 20000, true), *other;
    uint32_t row = 7, ticket;
    float gradient[4] = {1, 1, 1, 1};
    tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
    options.cache_bytes = 20000;
    assert_ok(tn_embedding_checkpoint(e, "note", 5, &failure));
    assert_ok(tn_embedding_begin(e, &batch, &ticket, &failure));
    assert_ok(tn_embedding_update(e, ticket, gradient, &(tn_embedding_step){.rate = 1}, &failure));
    assert_ok(tn__journal_secure(e, &failure));
    tn_embedding_close(e);
    options.read_only = true;
    refused(TN_E_UNSUPPORTED, "undo", tn_embedding_open(kit_path(), &options, &other, &failure));
    options.read_only = false;
    static const struct {
        const char *suffix;
        off_t size;
    } heads[] = {{"", 56}, {".checkpoint", 45}, {".journal", 40}};
    for (uint32_t f = 0; f < 3; f++)
        for (off_t at = 0; at < heads[f].size; at++) {
            change_byte(heads[f].suffix, at);
            refused(TN_E_INVALID, "", tn_embedding_open(kit_path(), &options, &other, &failure));
            assert_non_null(strstr(failure.where, heads[f].suffix));
            change_byte(heads[f].suffix, at);
        }
    assert_int_equal(truncate(kit_path(), 4096 + 50 * 16 - 1), 0);
    refused(TN_E_INVALID, "cut short: it ends at byte 4895",
            tn_embedding_open(kit_path(), &options, &other, &failure));
    assert_int_equal(truncate(kit_path(), 4096 + 50 * 16 + 1), 0);
    refused(TN_E_INVALID, "followed", tn_embedding_open(kit_path(), &options, &other, &failure));
    assert_int_equal(truncate(kit_path(), 10), 0);
    refused(TN_E_INVALID, "too short", tn_embedding_open(kit_path(), &options, &other, &failure));
    kit_remove(kit_path());
}

static void a_file_that_becomes_shorter_is_told(void **state) {
    (void)state;
    tn_embedding_table table = small_table(50, 4);
    static const char *const readers[] = {"plain", "threads", NULL};
    for (uint32_t k = 0; k < 3; k++) {
        tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
        tn_embedding *e;
        uint32_t row = 40;
        float sums[4];
        tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
        options.cache_bytes = 20000;
        options.reader = readers[k];
        kit_remove(kit_path());
        assert_ok(tn_embedding_create(kit_path(), &table, NULL, &failure));
        assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
        assert_int_equal(truncate(kit_path(), 4096 + 20 * 16), 0);
        refused(TN_E_IO,
                "row 40 is not there: the file has become shorter, and ends before byte "
                "4752",
                tn_embedding_lookup(e, &batch, sums, &failure));
        assert_int_equal(e->r.resident, 0);
        row = 10; /* the others are still there */
        assert_ok(tn_embedding_lookup(e, &batch, sums, &failure));
        assert_null(tn__residents_check(&e->r));
        tn_embedding_close(e);
    }
    kit_remove(kit_path());
}

static tn_status change_row(tn_embedding *e, uint32_t row) {
    static const float gradient[4] = {1, 1, 1, 1};
    tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
    uint32_t ticket;
    TN_TRY(tn_embedding_begin(e, &batch, &ticket, &failure));
    TN_TRY(tn_embedding_update(e, ticket, gradient, &(tn_embedding_step){.rate = 1}, &failure));
    return tn_embedding_end(e, ticket, &failure);
}

/* The system lets nobody write behind row 20, and that is not seen before a row makes room. */
static void a_row_that_cannot_be_written_ends_the_table(void **state) {
    (void)state;
    tn_embedding_table table = small_table(50, 4);
    const char *readers[] = {"plain", "threads", tn__uring_lacks() == NULL ? "uring" : "plain"};
    struct rlimit before, low;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = (struct rlimit){.rlim_cur = 4096 + 20 * 16, .rlim_max = before.rlim_max};
    for (uint32_t k = 0; k < 3; k++) {
        tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
        tn_embedding *e;
        plain was;
        options.reader = readers[k];
        options.batch_rows = 4;
        assert_ok(tn_embedding_bytes(&table, &options, 4, &options.cache_bytes, &failure));
        kit_remove(kit_path());
        assert_ok(tn_embedding_create(kit_path(), &table, NULL, &failure));
        assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
        assert_ok(change_row(e, 2));
        assert_ok(change_row(e, 30));
        assert_ok(tn_embedding_checkpoint(e, NULL, 0, &failure));
        tn_embedding_facts facts;
        tn_embedding_tell(e, &facts);
        plain_open(&was, &facts.table);
        plain_read(&was, e);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        tn_status status = TN_OK;
        for (uint32_t row = 30; row < 45 && status == TN_OK; row++) status = change_row(e, row);
        refused(TN_E_IO, "write byte", status);
        refused(TN_E_IO, strerror(EFBIG), tn_embedding_checkpoint(e, NULL, 0, &failure));
        refused(TN_E_IO, "write byte", change_row(e, 2));
        assert_string_equal(failure.where, kit_path());
        tn_embedding_close(e);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_ok(tn_embedding_open(kit_path(), &options, &e, &failure));
        plain_compare(&was, e);
        tn_embedding_close(e);
        plain_close(&was);
    }
    kit_remove(kit_path());
}

/* --- memory that is not there --- */

static tn_status work(const tn_context *context) {
    tn_embedding_table table = small_table(50, 4);
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding_replay_options replay = TN_EMBEDDING_REPLAY_OPTIONS_INIT;
    tn_embedding_zipf zipf = {.exponent = 1, .rows = 50, .lookups = 100};
    tn_embedding_replayed replayed;
    tn_embedding_trace *trace = NULL;
    tn_embedding *e = NULL;
    options.context = replay.context = context;
    options.cache_bytes = 20000;
    replay.policy = "belady";
    replay.slots = 5;
    kit_remove(kit_path());
    tn_status status = tn_embedding_create(kit_path(), &table, context, &failure);
    if (status == TN_OK) status = tn_embedding_open(kit_path(), &options, &e, &failure);
    if (status == TN_OK) status = tn_embedding_checkpoint(e, "note", 5, &failure);
    if (status == TN_OK) status = tn_embedding_trace_zipf(&zipf, context, &trace, &failure);
    if (status == TN_OK) status = tn_embedding_replay(trace, &replay, &replayed, &failure);
    tn_embedding_trace_destroy(trace);
    tn_embedding_close(e);
    return status;
}

static void every_request_for_memory_may_fail(void **state) {
    (void)state;
    faulty memory = {.fail_at = 1};
    tn_context context = faulty_context(&memory);
    tn_status status;
    while ((status = work(&context)) != TN_OK) {
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(memory.held, 0);
        memory.requests = 0;
        assert_true(++memory.fail_at < 100);
    }
    assert_true(memory.fail_at > 15);
    assert_int_equal(memory.held, 0);
    kit_remove(kit_path());
}

/* --- traces --- */

static void write_text(const char *text) {
    FILE *file = fopen(kit_path(), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void traces_are_read_line_by_line(void **state) {
    (void)state;
    tn_embedding_trace *trace;
    uint64_t count;
    write_text("# rows\n3\r\n\n  \n4294967293\n0");
    assert_ok(tn_embedding_trace_load(kit_path(), NULL, &trace, &failure));
    const uint32_t *rows = tn_embedding_trace_rows(trace, &count);
    assert_true(count == 3 && rows[0] == 3 && rows[1] == 4294967293u && rows[2] == 0);
    tn_embedding_trace_destroy(trace);
    static const char *const bad[] = {"1\n-2\n",  "1\n2x\n",         "1\nx\n",
                                      "1\n1 2\n", "1\n4294967294\n", "1\n99999999999999999999\n"};
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(bad[i]);
        assert_int_equal(tn_embedding_trace_load(kit_path(), NULL, &trace, &failure), TN_E_INVALID);
        assert_non_null(strstr(failure.where, ":2"));
    }
    write_text("# nothing\n");
    refused(TN_E_INVALID, "no row numbers",
            tn_embedding_trace_load(kit_path(), NULL, &trace, &failure));
    kit_remove(kit_path());
}

/* Shares of ranks against the law itself: no rank of the first ten is off by five deviations. */
static void draws_follow_the_law(void **state) {
    (void)state;
    static const double exponents[] = {0, 0.5, 0.8, 1, 1.2, 3};
    enum { ROWS = 1000, DRAWS = 400000 };
    for (uint32_t k = 0; k < 6; k++) {
        tn_embedding_zipf zipf = {
            .exponent = exponents[k], .rows = ROWS, .lookups = DRAWS, .seed = seed};
        tn_embedding_trace *trace;
        static uint64_t seen[ROWS];
        double sum = 0;
        uint64_t count;
        memset(seen, 0, sizeof seen);
        assert_ok(tn_embedding_trace_zipf(&zipf, NULL, &trace, &failure));
        const uint32_t *rows = tn_embedding_trace_rows(trace, &count);
        for (uint64_t i = 0; i < count; i++) seen[rows[i]]++;
        for (uint32_t r = 1; r <= ROWS; r++) sum += pow(r, -exponents[k]);
        for (uint64_t r = 1; r <= ROWS; r += r < 10 ? 1 : 99) {
            double share = pow((double)r, -exponents[k]) / sum;
            double expected = share * DRAWS, deviation = sqrt(expected * (1 - share)) + 1;
            double got = (double)seen[(r - 1) * (2654435761u % ROWS) % ROWS];
            if (fabs(got - expected) > 5 * deviation)
                fail_msg("exponent %g, rank %u: %g, not %g\n", exponents[k], (unsigned)r, got,
                         expected);
        }
        tn_embedding_trace_destroy(trace);
    }
}

int main(int count, char **words) {
    if (count > 1) operations = strtoull(words[1], NULL, 10);
    if (count > 2) seed = strtoull(words[2], NULL, 10);
    printf("operations %llu, seed %llu\n", (unsigned long long)operations,
           (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_are_those_of_a_plain_table),
        cmocka_unit_test(a_large_table_takes_no_disk_until_it_is_written),
        cmocka_unit_test(the_slab_is_all_the_memory_there_is),
        cmocka_unit_test(a_cache_of_one_row_works),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(a_refusal_tells_the_rows_of_the_batch),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(a_file_that_becomes_shorter_is_told),
        cmocka_unit_test(a_row_that_cannot_be_written_ends_the_table),
        cmocka_unit_test(every_request_for_memory_may_fail),
        cmocka_unit_test(traces_are_read_line_by_line),
        cmocka_unit_test(draws_follow_the_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
