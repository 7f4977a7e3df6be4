/* recommend.c - a small recommendation model (after DLRM) whose tables do not fit in memory.
 *
 *     recommend [FOLDER [STEPS]]
 *
 * Three tables of 20,000, 8,000 and 2,000 rows of 16 numbers, as one of 30,000 rows: 3.8 MB with
 * what Adagrad keeps, trained in a cache of 512 KiB. Each sample asks for rows by Zipf's law: one
 * of two tables, a bag of up to three of the third. A small network of one hidden layer on the dot
 * products of the three and four plain numbers tells whether it was a click.
 *
 * The same is done with every row in a plain array, by loops that are written out here: the losses
 * must be the same numbers, bit for bit. Half way the cache is closed without a word, and opened
 * again: training goes on from the checkpoint before.
 */
#define TENURE_EXPERIMENTAL
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/embedding.h>

enum { DIM = 16, PLAIN = 4, IN = 3 + PLAIN, HIDDEN = 8, BATCH = 64, PLACES = 5 * BATCH };
enum { ROWS_0 = 20000, ROWS_1 = 8000, ROWS_2 = 2000, ROWS = ROWS_0 + ROWS_1 + ROWS_2 };

static tn_error error;

static void must(tn_status status) {
    if (status == TN_OK) return;
    fprintf(stderr, "%s: %s\n", error.where, error.message);
    exit(tn_status_exit_code(status));
}

/* --- samples, drawn --- */

typedef struct samples {
    uint32_t rows[PLACES], bags[3 * BATCH], count;
    float plain[BATCH][PLAIN], click[BATCH];
} samples;

static tn_embedding_trace *traces[3]; /* popular rows of each table */
static const uint32_t table_rows[3] = {ROWS_0, ROWS_1, ROWS_2};

static uint32_t draw(uint32_t table, uint64_t number) {
    uint64_t count;
    const uint32_t *rows = tn_embedding_trace_rows(traces[table], &count);
    return rows[number % count] + (table > 0 ? ROWS_0 : 0) + (table > 1 ? ROWS_1 : 0);
}

static void draw_samples(uint64_t step, samples *s) {
    s->count = 0;
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t at = step * BATCH + i;
        for (uint32_t table = 0; table < 3; table++) {
            uint32_t rows = table < 2 ? 1 : 1 + (uint32_t)(at % 3);
            s->bags[3 * i + table] = s->count;
            for (uint32_t k = 0; k < rows; k++) s->rows[s->count++] = draw(table, 3 * at + k);
        }
        uint32_t liked = s->rows[s->bags[3 * i]] % 7, kind = s->rows[s->bags[3 * i + 1]] % 5;
        s->click[i] = liked > kind ? 1.0f : 0.0f;
        for (uint32_t k = 0; k < PLAIN; k++)
            s->plain[i][k] = (float)((at * (k + 3)) % 11) / 11 - 0.5f;
    }
}

static tn_embedding_batch batch_of(const samples *s) {
    return (tn_embedding_batch){
        .rows = s->rows, .row_count = s->count, .bags = s->bags, .bag_count = 3 * BATCH};
}

/* --- the network: forward, backward, update; gradients of the sums come out --- */

typedef struct network {
    float w1[HIDDEN][IN], b1[HIDDEN], w2[HIDDEN], b2;
    uint64_t step;
} network;

static void network_open(network *n) {
    memset(n, 0, sizeof *n);
    for (uint32_t h = 0; h < HIDDEN; h++) {
        n->w2[h] = (float)(h * 5 % 7) / 7 - 0.4f;
        for (uint32_t i = 0; i < IN; i++) n->w1[h][i] = (float)((h * 31 + i * 17) % 13) / 13 - 0.5f;
    }
}

static float dot(const float *a, const float *b) {
    float sum = 0;
    for (uint32_t d = 0; d < DIM; d++) sum += a[d] * b[d];
    return sum;
}

static float network_sample(network *n, const float *plain, float click, const float *sums,
                            float *gradients, network *change) {
    static const uint32_t pairs[3][2] = {{0, 1}, {0, 2}, {1, 2}};
    float in[IN], hidden[HIDDEN], score = n->b2, back[IN] = {0};
    for (uint32_t p = 0; p < 3; p++)
        in[p] = dot(sums + pairs[p][0] * DIM, sums + pairs[p][1] * DIM);
    memcpy(in + 3, plain, PLAIN * sizeof *in);
    for (uint32_t h = 0; h < HIDDEN; h++) {
        hidden[h] = n->b1[h];
        for (uint32_t i = 0; i < IN; i++) hidden[h] += n->w1[h][i] * in[i];
        if (hidden[h] < 0) hidden[h] = 0;
        score += n->w2[h] * hidden[h];
    }
    float chance = 1 / (1 + expf(-score)), off = (chance - click) / BATCH;
    change->b2 += off;
    for (uint32_t h = 0; h < HIDDEN; h++) {
        float at = hidden[h] > 0 ? off * n->w2[h] : 0;
        change->w2[h] += off * hidden[h];
        change->b1[h] += at;
        for (uint32_t i = 0; i < IN; i++) {
            change->w1[h][i] += at * in[i];
            back[i] += at * n->w1[h][i];
        }
    }
    memset(gradients, 0, 3 * DIM * sizeof *gradients);
    for (uint32_t p = 0; p < 3; p++)
        for (uint32_t d = 0; d < DIM; d++) {
            gradients[pairs[p][0] * DIM + d] += back[p] * sums[pairs[p][1] * DIM + d];
            gradients[pairs[p][1] * DIM + d] += back[p] * sums[pairs[p][0] * DIM + d];
        }
    return logf((click > 0 ? chance : 1 - chance) + 1e-7f) / -BATCH;
}

static float network_step(network *n, const samples *s, const float *sums, float *gradients) {
    network change = {.step = 0};
    float loss = 0, rate = 0.1f;
    for (uint32_t i = 0; i < BATCH; i++)
        loss += network_sample(n, s->plain[i], s->click[i], sums + (size_t)i * 3 * DIM,
                               gradients + (size_t)i * 3 * DIM, &change);
    for (uint32_t h = 0; h < HIDDEN; h++) {
        for (uint32_t i = 0; i < IN; i++) n->w1[h][i] -= rate * change.w1[h][i];
        n->b1[h] -= rate * change.b1[h];
        n->w2[h] -= rate * change.w2[h];
    }
    n->b2 -= rate * change.b2;
    n->step++;
    return loss;
}

/* --- rows behind a cache --- */

static const tn_embedding_step adagrad = {.rate = 0.05f, .epsilon = 1e-8f};

static tn_embedding *open_table(const char *path, network *n) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_embedding *e;
    size_t size;
    options.cache_bytes = 512 << 10;
    options.batch_rows = PLACES;
    must(tn_embedding_open(path, &options, &e, &error));
    must(tn_embedding_note(e, n, sizeof *n, &size, &error)); /* the network of the checkpoint */
    return e;
}

/* Trains up to a step; the rows of the next batch are on their way while this one is computed. */
static void train_cached(tn_embedding *e, network *n, uint64_t until, float *losses) {
    static samples s[2];
    static float sums[3 * BATCH * DIM], gradients[3 * BATCH * DIM];
    tn_embedding_batch batches[2];
    uint32_t tickets[2] = {0, 0};
    for (uint64_t at = n->step; at <= until; at++) {
        uint32_t next = at % 2, now = 1 - next;
        if (at < until) {
            draw_samples(at, &s[next]);
            batches[next] = batch_of(&s[next]);
            must(tn_embedding_begin(e, &batches[next], &tickets[next], &error));
        }
        if (at == n->step) continue; /* the first has none before it */
        must(tn_embedding_sums(e, tickets[now], sums, &error));
        losses[at - 1] = network_step(n, &s[now], sums, gradients);
        must(tn_embedding_update(e, tickets[now], gradients, &adagrad, &error));
        must(tn_embedding_end(e, tickets[now], &error));
        if (n->step % 50 == 0) must(tn_embedding_checkpoint(e, n, sizeof *n, &error));
    }
}

/* --- rows in a plain array --- */

static void plain_sums(float (*rows)[DIM], const samples *s, float *sums) {
    for (uint32_t bag = 0; bag < 3 * BATCH; bag++) {
        uint32_t end = bag + 1 < 3 * BATCH ? s->bags[bag + 1] : s->count;
        for (uint32_t d = 0; d < DIM; d++) {
            float sum = 0;
            for (uint32_t i = s->bags[bag]; i < end; i++) sum += rows[s->rows[i]][d];
            sums[bag * DIM + d] = sum;
        }
    }
}

static void plain_update(float (*rows)[DIM], float (*kept)[DIM], const samples *s,
                         const float *gradients) {
    static float g[ROWS][DIM];
    for (uint32_t bag = 0; bag < 3 * BATCH; bag++) {
        uint32_t end = bag + 1 < 3 * BATCH ? s->bags[bag + 1] : s->count;
        for (uint32_t i = s->bags[bag]; i < end; i++)
            for (uint32_t d = 0; d < DIM; d++) g[s->rows[i]][d] += gradients[bag * DIM + d];
    }
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t row = s->rows[i];
        for (uint32_t d = 0; d < DIM; d++) { /* of a row that is done already, g is 0 */
            kept[row][d] += g[row][d] * g[row][d];
            if (g[row][d] != 0)
                rows[row][d] -= adagrad.rate * g[row][d] / (sqrtf(kept[row][d]) + adagrad.epsilon);
            g[row][d] = 0;
        }
    }
}

static void train_plain(float (*rows)[DIM], uint64_t steps, float *losses) {
    static float kept[ROWS][DIM], sums[3 * BATCH * DIM], gradients[3 * BATCH * DIM];
    static samples s;
    network n;
    network_open(&n);
    for (uint64_t at = 0; at < steps; at++) {
        draw_samples(at, &s);
        plain_sums(rows, &s, sums);
        losses[at] = network_step(&n, &s, sums, gradients);
        plain_update(rows, kept, &s, gradients);
    }
}

/* --- both --- */

static void read_rows(tn_embedding *e, float (*rows)[DIM]) {
    for (uint32_t row = 0; row < ROWS; row++) {
        tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
        must(tn_embedding_lookup(e, &batch, rows[row], &error));
    }
}

int main(int count, char **words) {
    static float rows[ROWS][DIM];
    char path[512];
    uint64_t steps = count > 2 ? strtoull(words[2], NULL, 10) : 400; /* from 1 on */
    float *cached = calloc(steps + 1, sizeof *cached), *plain = calloc(steps + 1, sizeof *plain);
    tn_embedding_table table = TN_EMBEDDING_TABLE_INIT;
    tn_embedding_facts facts;
    network n;
    if (cached == NULL || plain == NULL || steps == 0) return 4;
    snprintf(path, sizeof path, "%s/recommend-%ld.rows", count > 1 ? words[1] : ".",
             (long)getpid());
    for (uint32_t t = 0; t < 3; t++)
        must(tn_embedding_trace_zipf(
            &(tn_embedding_zipf){
                .exponent = 1.05, .rows = table_rows[t], .lookups = 1 << 20, .seed = t},
            NULL, &traces[t], &error));
    table.rows = ROWS;
    table.dim = DIM;
    table.rule = TN_EMBEDDING_ADAGRAD;
    table.scale = 0.1;
    must(tn_embedding_create(path, &table, NULL, &error));

    network_open(&n);
    tn_embedding *e = open_table(path, &n);
    read_rows(e, rows); /* what the plain array begins with */
    train_cached(e, &n, steps / 2 + 7, cached);
    tn_embedding_close(e); /* as if it had been killed: the checkpoint before counts */
    network_open(&n);
    e = open_table(path, &n);
    printf("resumed at step %llu of %llu\n", (unsigned long long)n.step, (unsigned long long)steps);
    train_cached(e, &n, steps, cached);
    tn_embedding_tell(e, &facts);
    tn_embedding_close(e);
    train_plain(rows, steps, plain);

    printf("loss %.6f at the start, %.6f at the end\n", (double)cached[0],
           (double)cached[steps - 1]);
    printf("%u of %u rows in %llu bytes: %.1f %% of lookups hit, %llu rows written back\n",
           facts.slots, ROWS, (unsigned long long)facts.cache_bytes,
           100 * (double)facts.lookup_hits / (double)facts.lookups,
           (unsigned long long)facts.written);
    bool same = memcmp(cached, plain, steps * sizeof *plain) == 0;
    printf("%s\n",
           same ? "each loss is that of the plain array, bit for bit" : "FAILED: losses differ");
    static const char *const suffixes[] = {"", ".checkpoint", ".journal"};
    for (uint32_t i = 0; i < 3; i++) {
        char name[540];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)remove(name);
    }
    for (uint32_t t = 0; t < 3; t++) tn_embedding_trace_destroy(traces[t]);
    free(cached);
    free(plain);
    return same ? 0 : 1;
}
