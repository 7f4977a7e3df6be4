/* embedding.c - what do caches of embedding rows hit, and how many lookups a second do they serve?
 *
 *     build/bench/embedding [--rows N] [--lookups N] [--cache BYTES] [--batch N] [--folder DIR]
 *                           [--reader NAME] [--written] [--train]
 *
 * A table of N (10^8) rows of 64 float32 in a cache of 256 MiB; lookups (10^7) drawn by Zipf's law
 * with exponents 0.8, 1.0 and 1.2, in batches of 2,048, the next of which is begun before the sums
 * of the one before are taken. Hits are of lookups and of the different rows of each batch; "bound"
 * is the share of Belady's hits; "cpu us" is processor time of a lookup, which other work on the
 * machine does not lengthen as it does the other. Before each run the kernel's pages of the file
 * are dropped.
 *
 * Rows that were never written are holes of the file, which the kernel reads without a disk. With
 * --written every row is written first (give fewer: the file is as large as it says), so that a
 * miss is a read of the disk. With --train each batch is also updated (adagrad), with a checkpoint
 * at the end, behind a run that is not told, so that all rows of it are on the disk. The files are
 * removed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tenure/embedding.h>

#include "base/base.h"

enum {
    DIM = 64,
    WRITE_ROWS = 4096,
    WRITE_CHECKPOINT = 256 /* writes, so that the journal is short */
};

typedef struct bench {
    uint64_t rows, lookups, cache;
    uint32_t batch;
    const char *folder, *reader;
    bool written, trains;
    char path[512];
    float *sums;
    tn_error error;
} bench;

static void bench_check(const bench *b, tn_status status) {
    if (status == TN_OK) return;
    fprintf(stderr, "embedding: %s: %s\n", b->error.where, b->error.message);
    exit(1);
}

static void bench_remove(const bench *b) {
    static const char *const suffixes[] = {"", ".journal", ".checkpoint"};
    char name[600];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", b->path, suffixes[i]);
        (void)unlink(name);
    }
}

static void bench_drop_pages(const bench *b) {
    int file = open(b->path, O_RDONLY);
    if (file < 0) return;
    (void)fdatasync(file);
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
}

static tn_embedding *bench_open(bench *b, const char *policy) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e;
    options.cache_bytes = b->cache;
    options.policy = policy;
    options.reader = b->reader;
    options.batch_rows = b->batch > WRITE_ROWS ? b->batch : WRITE_ROWS;
    bench_check(b, tn_embedding_open(b->path, &options, &e, &b->error));
    return e;
}

static void bench_create(bench *b) {
    tn_embedding_table table = TN_EMBEDDING_TABLE_INIT;
    table.rows = b->rows;
    table.dim = DIM;
    table.scale = 0.01;
    table.rule = b->trains ? TN_EMBEDDING_ADAGRAD : TN_EMBEDDING_SGD;
    bench_check(b, tn_embedding_create(b->path, &table, NULL, &b->error));
    if (!b->written) return;
    static float values[WRITE_ROWS * DIM];
    static uint32_t rows[WRITE_ROWS];
    tn_embedding *e = bench_open(b, "lru");
    for (uint64_t first = 0; first < b->rows; first += WRITE_ROWS) {
        uint32_t ticket, count = 0;
        for (; count < WRITE_ROWS && first + count < b->rows; count++)
            rows[count] = (uint32_t)first + count;
        for (uint32_t i = 0; i < count * DIM; i++) values[i] = (float)(first + i) * 1e-6f;
        tn_embedding_batch batch = {.rows = rows, .row_count = count, .bag_count = count};
        bench_check(b, tn_embedding_begin(e, &batch, &ticket, &b->error));
        bench_check(b, tn_embedding_put(e, ticket, values, &b->error));
        bench_check(b, tn_embedding_end(e, ticket, &b->error));
        if (first / WRITE_ROWS % WRITE_CHECKPOINT == WRITE_CHECKPOINT - 1)
            bench_check(b, tn_embedding_checkpoint(e, NULL, 0, &b->error));
    }
    bench_check(b, tn_embedding_checkpoint(e, NULL, 0, &b->error));
    tn_embedding_close(e);
}

static tn_embedding_batch bench_batch(const bench *b, const uint32_t *rows, uint64_t at) {
    uint32_t count = b->lookups - at < b->batch ? (uint32_t)(b->lookups - at) : b->batch;
    return (tn_embedding_batch){.rows = rows + at, .row_count = count, .bag_count = count};
}

/* Of this process and what the kernel does for it. */
static double bench_processor_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of the whole run. */
static double bench_run(bench *b, tn_embedding *e, const uint32_t *rows) {
    tn_embedding_step step = {.rate = 0.01f, .epsilon = 1e-8f};
    uint32_t ticket, next = 0;
    double start = tn__clock_s();
    tn_embedding_batch batch = bench_batch(b, rows, 0);
    bench_check(b, tn_embedding_begin(e, &batch, &ticket, &b->error));
    for (uint64_t at = 0; at < b->lookups; at += b->batch, ticket = next) {
        if (at + b->batch < b->lookups) {
            batch = bench_batch(b, rows, at + b->batch);
            bench_check(b, tn_embedding_begin(e, &batch, &next, &b->error));
        }
        bench_check(b, tn_embedding_sums(e, ticket, b->sums, &b->error));
        if (b->trains) bench_check(b, tn_embedding_update(e, ticket, b->sums, &step, &b->error));
        bench_check(b, tn_embedding_end(e, ticket, &b->error));
    }
    if (b->trains) bench_check(b, tn_embedding_checkpoint(e, NULL, 0, &b->error));
    return tn__clock_s() - start;
}

static tn_embedding_replayed bench_bound(bench *b, const tn_embedding_trace *trace,
                                         uint32_t slots) {
    tn_embedding_replay_options options = TN_EMBEDDING_REPLAY_OPTIONS_INIT;
    tn_embedding_replayed bound;
    options.policy = "belady";
    options.slots = slots;
    options.batch = b->batch;
    bench_check(b, tn_embedding_replay(trace, &options, &bound, &b->error));
    return bound;
}

/* The bound has as many rows as the policy with the most. */
static uint32_t bench_most_slots(bench *b) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < tn_embedding_policy_count(); i++) {
        tn_embedding_facts facts;
        if (strcmp(tn_embedding_policy_name(i), "belady") == 0) continue;
        tn_embedding *e = bench_open(b, tn_embedding_policy_name(i));
        tn_embedding_tell(e, &facts);
        if (facts.slots > most) most = facts.slots;
        tn_embedding_close(e);
    }
    return most;
}

static void bench_policy(bench *b, double exponent, const char *policy, const uint32_t *rows,
                         const tn_embedding_replayed *bound) {
    tn_embedding_facts facts;
    bench_drop_pages(b);
    tn_embedding *e = bench_open(b, policy);
    double busy = bench_processor_s();
    double seconds = bench_run(b, e, rows);
    busy = bench_processor_s() - busy;
    tn_embedding_tell(e, &facts);
    printf("  %4.1f  %-8s %9u  %8.3f %%  %8.3f %%  %7.4f  %11.0f  %6.2f  %6.1f %%  %10llu  %s\n",
           exponent, policy, facts.slots, 100 * (double)facts.lookup_hits / (double)facts.lookups,
           100 * (double)facts.hits / (double)facts.distinct,
           (double)facts.lookup_hits / (double)bound->lookup_hits, (double)b->lookups / seconds,
           1e6 * busy / (double)b->lookups, 100 * facts.waited_s / seconds,
           (unsigned long long)facts.written, facts.reader);
    fflush(stdout);
    tn_embedding_close(e);
}

static void bench_exponent(bench *b, double exponent) {
    tn_embedding_zipf zipf = {
        .exponent = exponent, .rows = b->rows, .lookups = b->lookups, .seed = 1};
    tn_embedding_trace *trace;
    uint64_t count;
    bench_check(b, tn_embedding_trace_zipf(&zipf, NULL, &trace, &b->error));
    const uint32_t *rows = tn_embedding_trace_rows(trace, &count);
    uint32_t most = bench_most_slots(b);
    tn_embedding_replayed bound = bench_bound(b, trace, most);
    printf("  %4.1f  %-8s %9u  %8.3f %%  %8.3f %%  %7.4f  (%llu different rows)\n", exponent,
           "belady", most, 100 * (double)bound.lookup_hits / (double)bound.lookups,
           100 * (double)bound.hits / (double)bound.distinct, 1.0, (unsigned long long)bound.cold);
    if (b->trains) { /* so that every policy finds the same rows on the disk */
        tn_embedding *e = bench_open(b, "lru");
        (void)bench_run(b, e, rows);
        tn_embedding_close(e);
    }
    for (uint32_t i = 0; i < tn_embedding_policy_count(); i++)
        if (strcmp(tn_embedding_policy_name(i), "belady") != 0)
            bench_policy(b, exponent, tn_embedding_policy_name(i), rows, &bound);
    tn_embedding_trace_destroy(trace);
}

static void bench_words(bench *b, int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : "0";
        if (strcmp(words[i], "--written") == 0) {
            b->written = true;
            continue;
        }
        if (strcmp(words[i], "--train") == 0) {
            b->trains = true;
            continue;
        }
        i++;
        if (strcmp(words[i - 1], "--rows") == 0) b->rows = (uint64_t)strtod(value, NULL);
        if (strcmp(words[i - 1], "--lookups") == 0) b->lookups = (uint64_t)strtod(value, NULL);
        if (strcmp(words[i - 1], "--cache") == 0) b->cache = strtoull(value, NULL, 10);
        if (strcmp(words[i - 1], "--batch") == 0) b->batch = (uint32_t)strtoul(value, NULL, 10);
        if (strcmp(words[i - 1], "--folder") == 0) b->folder = value;
        if (strcmp(words[i - 1], "--reader") == 0) b->reader = value;
    }
}

int main(int count, char **words) {
    bench b = {.rows = 100000000,
               .lookups = 10000000,
               .cache = UINT64_C(256) << 20,
               .batch = 2048,
               .folder = "."};
    bench_words(&b, count, words);
    snprintf(b.path, sizeof b.path, "%s/bench-%ld.rows", b.folder, (long)getpid());
    b.sums = malloc((size_t)b.batch * DIM * sizeof *b.sums);
    if (b.sums == NULL || b.lookups == 0 || b.batch == 0) return 1;
    bench_create(&b);
    printf("%llu rows of %d float32, %s; %llu lookups in batches of %u; a cache of %llu bytes%s\n",
           (unsigned long long)b.rows, DIM, b.written ? "all written" : "holes until updated",
           (unsigned long long)b.lookups, b.batch, (unsigned long long)b.cache,
           b.trains ? "; updated by adagrad, a checkpoint at the end" : "");
    printf(
        "  Zipf  policy      slots     lookups    different    bound    lookups/s  cpu us  waiting"
        "     written  reader\n");
    static const double exponents[] = {0.8, 1.0, 1.2};
    for (uint32_t i = 0; i < 3; i++) bench_exponent(&b, exponents[i]);
    bench_remove(&b);
    free(b.sums);
    return 0;
}
