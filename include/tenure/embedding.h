/* embedding.h - tables of rows that are larger than memory: the rows in use in a slab of a given
 * size, all of them in a file.
 *
 *     tn_embedding_table table = TN_EMBEDDING_TABLE_INIT;
 *     tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
 *     tn_embedding *users;
 *     tn_error error;
 *     const uint32_t rows[] = {7, 999999, 7}, bags[] = {0, 1}; // two bags: row 7; 999999 and 7
 *     tn_embedding_batch batch = {.rows = rows, .row_count = 3, .bags = bags, .bag_count = 2};
 *     float sums[2 * 64];
 *     table.rows = 1000000;
 *     table.dim = 64;
 *     options.cache_bytes = 1 << 20; // of the 256 MB that the table has
 *     if (tn_embedding_create("users.rows", &table, NULL, &error) ||
 *         tn_embedding_open("users.rows", &options, &users, &error) ||
 *         tn_embedding_lookup(users, &batch, sums, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     tn_embedding_close(users);
 *     remove("users.rows");
 *
 * A step of training: `begin` the next batch, which locks its rows and starts to read those that
 * are not there; then `sums`, `update` and `end` of the batch before it. Sums are computed when
 * they are asked for, so a batch begun early sees every update in between: results are, bit for
 * bit, those of a table that is wholly in memory.
 *
 * What is promised: `checkpoint` is all or nothing. Whatever ends the process, or the machine, the
 * next `open` finds the table as the last checkpoint left it, with the bytes that were given to it:
 * what was written since is undone by TABLE.journal. That holds for `close`, too.
 *
 * Numbers: a sum adds rows in the order of the batch, in float32; of a row that stands in a batch
 * several times the gradients are added first, in that order, and then it is updated once.
 *
 * Units: bytes, rows.
 * Threads: one thread at a time uses an open table; reading and writing go on beside it. One
 * process at a time has a table open for writing, or several for reading.
 */
#ifndef TENURE_EMBEDDING_H
#define TENURE_EMBEDDING_H

#include <tenure/graph.h>
#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_EMBEDDING_ROWS_MAX 4294967294u /* 2^32 - 2 */
#define TN_EMBEDDING_DIM_MAX 65536u
#define TN_EMBEDDING_OPEN_MAX 8u      /* batches that are open at once */
#define TN_EMBEDDING_SAMPLE_MAX 4096u /* residents that `sampled` looks at */

/* How rows are updated; what that keeps of each row stands beside it: X(name, text). */
/* clang-format off */
#define TN_EMBEDDING_RULE_TABLE(X)                                                             \
    X(SGD, "sgd")                     /* w -= rate g; nothing kept */                          \
    X(ADAGRAD, "adagrad")             /* s += g g; w -= rate g / (sqrt(s) + epsilon) */        \
    X(ROWWISE_ADAGRAD, "rowwise-adagrad") /* one s for the row: s += mean(g g) */
/* clang-format on */
typedef enum tn_embedding_rule {
#define TN_X(name, text) TN_EMBEDDING_##name,
    TN_EMBEDDING_RULE_TABLE(TN_X)
#undef TN_X
        TN_EMBEDDING_RULE_COUNT
} tn_embedding_rule;
TN_API const char *tn_embedding_rule_name(tn_embedding_rule rule);

typedef struct tn_embedding_table {
    size_t struct_size;     /* sizeof(tn_embedding_table) */
    uint64_t rows;          /* from 1 to TN_EMBEDDING_ROWS_MAX */
    uint32_t dim;           /* numbers of a row, from 1 to TN_EMBEDDING_DIM_MAX */
    tn_dtype type;          /* of them: float32 (0 means that), float16 or bfloat16 */
    tn_embedding_rule rule; /* state is float32 */
    uint64_t seed;          /* of the first values */
    double scale;           /* which lie evenly in [-scale, scale]; 0: all are 0 */
} tn_embedding_table;
#define TN_EMBEDDING_TABLE_INIT                                                                    \
    TN_INIT(tn_embedding_table, TN_SET(struct_size, sizeof(tn_embedding_table)))

/* Makes a table. The file takes no room on the disk but for its first page: a row takes its place
 * when it is first updated, and until then has values that are made of `seed` and its number.
 *
 * Errors: E_INVALID (shape, type), E_IO (there is such a file, or one of another run beside it). */
TN_API TN_CHECKED tn_status tn_embedding_create(const char *path, const tn_embedding_table *table,
                                                const tn_context *context, tn_error *error);

/* --- open ------------------------------------------------------------------------------- */

typedef struct tn_embedding tn_embedding;

typedef struct tn_embedding_options {
    size_t struct_size;        /* sizeof(tn_embedding_options) */
    const tn_context *context; /* NULL or outlives the table */
    /* Bytes of the one block that holds everything that grows with rows or batches: rows, their
     * index, what the policy knows of them, open batches, queues of reading and writing, the
     * journal's buffer. Memory beside it: the paths of the three files; while a checkpoint is made
     * or its note is read, that note; stacks of threads, the kernel's queues, and its cache of the
     * file, which it takes back when it needs memory. */
    uint64_t cache_bytes;
    const char *policy;  /* who goes; NULL: "lfu" */
    const char *reader;  /* "uring", "threads", "plain" (waits at once); NULL: the first there is */
    uint32_t threads;    /* of "threads"; 0: 4, more than 64: 64 */
    uint32_t batch_rows; /* row numbers of a batch at most; 0: what an eighth of the slab has room
                          * for, at most 65,536 */
    uint32_t batch_count; /* open at once, up to TN_EMBEDDING_OPEN_MAX; 0: 2 */
    uint32_t sample;      /* residents that `sampled` looks at; 0: 16 */
    uint64_t seed;        /* of those that it draws */
    bool read_only;
    /* Leaves it to the kernel when what was written reaches the disk: the end of the process is
     * survived, the end of the machine is not. */
    bool unsynced;
} tn_embedding_options;
#define TN_EMBEDDING_OPTIONS_INIT                                                                  \
    TN_INIT(tn_embedding_options, TN_SET(struct_size, sizeof(tn_embedding_options)))

/* Opens a table; what was written after its last checkpoint is undone first.
 *
 * Errors: E_IO (a file that cannot be opened, read, or is in use), E_INVALID (no table; cut short;
 * damaged, with the byte; too few cache_bytes, with the least that would do), E_UNKNOWN (policy,
 * reader), E_UNSUPPORTED (a policy that knows the future; a reader that is not there; read_only and
 * something is to be undone), E_NO_MEMORY.
 * Cost: what is undone is read and written once. */
TN_API TN_CHECKED tn_status tn_embedding_open(const char *path, const tn_embedding_options *options,
                                              tn_embedding **embedding, tn_error *error);
/* NULL is fine. What was not checkpointed is undone when the table is opened next. */
TN_API void tn_embedding_close(tn_embedding *embedding);

/* The bytes of cache that hold `rows` rows of such a table at once.
 * Errors: those of the shape and of the options; more rows than the table has. */
TN_API TN_CHECKED tn_status tn_embedding_bytes(const tn_embedding_table *table,
                                               const tn_embedding_options *options, uint32_t rows,
                                               uint64_t *bytes, tn_error *error);

/* How many rows a cache of options.cache_bytes has room for; 0: not one.
 * Errors: those of the shape and of the options. */
TN_API TN_CHECKED tn_status tn_embedding_room(const tn_embedding_table *table,
                                              const tn_embedding_options *options, uint32_t *rows,
                                              tn_error *error);

/* --- batches ------------------------------------------------------------------------------ */

typedef struct tn_embedding_batch {
    const uint32_t *rows; /* [row_count] */
    uint32_t row_count;
    /* [bag_count]: where in `rows` each bag begins; from 0, and none before the last. The last one
     * ends with `rows`; a bag may be empty. NULL: each row is a bag, and bag_count is row_count. */
    const uint32_t *bags;
    uint32_t bag_count;
    const float *weights; /* [row_count]: of each row in its sum; NULL: 1 */
    bool mean;            /* sums are divided by the rows of their bag (0 of an empty one) */
} tn_embedding_batch;

typedef struct tn_embedding_step {
    float rate, epsilon; /* epsilon: of adagrad */
} tn_embedding_step;

/* Locks the rows of a batch in the slab and starts to read those that are not there. The batch's
 * arrays must stay until `end`. ticket: names the batch until then.
 *
 * Errors: E_INVALID (a row that the table does not have, bags that fall, too many rows, too many
 * open batches), E_EXHAUSTED (more different rows than the slab has room for beside those that are
 * locked; the message tells the bytes that would do), E_IO (rows that had to be written back). On
 * failure nothing is locked.
 * Cost: O(row_count), no memory. */
TN_API TN_CHECKED tn_status tn_embedding_begin(tn_embedding *embedding,
                                               const tn_embedding_batch *batch, uint32_t *ticket,
                                               tn_error *error);
/* sums  [bag_count x dim]. Waits for the rows. Errors: E_INVALID (ticket), E_IO (with the byte). */
TN_API TN_CHECKED tn_status tn_embedding_sums(tn_embedding *embedding, uint32_t ticket, float *sums,
                                              tn_error *error);
/* Updates the rows by the table's rule: gradients [bag_count x dim] are those of the sums.
 * Errors: as `sums`; E_UNSUPPORTED (read_only). When the journal cannot be written, the table
 * answers every later call with that error: open it again, at the last checkpoint. */
TN_API TN_CHECKED tn_status tn_embedding_update(tn_embedding *embedding, uint32_t ticket,
                                                const float *gradients,
                                                const tn_embedding_step *step, tn_error *error);
/* Writes rows: values [row_count x dim], rounded to the table's type; of a row that is there
 * several times the last counts. What the rule keeps becomes 0. Errors: as `update`. */
TN_API TN_CHECKED tn_status tn_embedding_put(tn_embedding *embedding, uint32_t ticket,
                                             const float *values, tn_error *error);
/* Waits for what is still being read, and unlocks the rows. Errors: E_INVALID (ticket). */
TN_API TN_CHECKED tn_status tn_embedding_end(tn_embedding *embedding, uint32_t ticket,
                                             tn_error *error);
/* begin, sums and end. */
TN_API TN_CHECKED tn_status tn_embedding_lookup(tn_embedding *embedding,
                                                const tn_embedding_batch *batch, float *sums,
                                                tn_error *error);

/* --- checkpoints -------------------------------------------------------------------------- */

/* Writes all that has changed, and makes it, with `note` [size] (what else the run needs: the step,
 * other weights), what the next `open` finds. Either all of it or none. Batches may be open.
 *
 * Errors: E_IO; E_UNSUPPORTED (read_only). When the table itself cannot be written, as `update`. */
TN_API TN_CHECKED tn_status tn_embedding_checkpoint(tn_embedding *embedding, const void *note,
                                                    size_t size, tn_error *error);
/* The note of the last checkpoint: its size, and its bytes where they fit `room`. Size 0: none.
 * Errors: E_IO, E_INVALID (damaged; larger than room: only where bytes is not NULL). */
TN_API TN_CHECKED tn_status tn_embedding_note(const tn_embedding *embedding, void *bytes,
                                              size_t room, size_t *size, tn_error *error);

/* --- what there is ------------------------------------------------------------------------ */

typedef struct tn_embedding_facts {
    tn_embedding_table table;
    const char *policy, *reader;
    uint64_t cache_bytes;          /* as given */
    uint64_t row_bytes;            /* of a row with its state, in the file and in the slab */
    uint32_t slots;                /* rows that the slab has room for */
    uint32_t batch_rows;           /* of a batch, at most */
    uint32_t resident;             /* rows that are there */
    uint64_t checkpoints;          /* of the table, ever */
    uint64_t undone;               /* changes taken back when it was opened */
    uint64_t lookups, lookup_hits; /* row numbers of batches; those that were there at `begin` */
    uint64_t distinct, hits;       /* the same, each row of a batch counted once */
    uint64_t written;              /* rows that were written back */
    double waited_s;               /* for rows that were being read or written */
} tn_embedding_facts;
TN_API void tn_embedding_tell(const tn_embedding *embedding, tn_embedding_facts *facts);

/* Names and one-line summaries of the policies, for lists and --help. */
TN_API uint32_t tn_embedding_policy_count(void);
TN_API const char *tn_embedding_policy_name(uint32_t index);
TN_API const char *tn_embedding_policy_summary(uint32_t index);
TN_API const char *tn_embedding_policy_source(uint32_t index);

/* --- recorded lookups --------------------------------------------------------------------- */

typedef struct tn_embedding_trace tn_embedding_trace;

/* Reads row numbers, one on a line; empty lines and those that begin with # are skipped.
 * Errors: E_IO, E_INVALID (with the line), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_embedding_trace_load(const char *path, const tn_context *context,
                                                    tn_embedding_trace **trace, tn_error *error);

typedef struct tn_embedding_zipf {
    double exponent; /* from 0 (all rows alike) to 10: row of rank k is drawn as k^-exponent */
    uint64_t rows;   /* ranks are spread over the rows */
    uint64_t lookups;
    uint64_t seed;
} tn_embedding_zipf;
/* Draws lookups. Errors: E_INVALID, E_NO_MEMORY. Source: Hormann, Derflinger: rejection-inversion,
 * 1996. */
TN_API TN_CHECKED tn_status tn_embedding_trace_zipf(const tn_embedding_zipf *zipf,
                                                    const tn_context *context,
                                                    tn_embedding_trace **trace, tn_error *error);
TN_API void tn_embedding_trace_destroy(tn_embedding_trace *trace); /* NULL is fine */
/* The row numbers; they live as long as the trace. */
TN_API const uint32_t *tn_embedding_trace_rows(const tn_embedding_trace *trace, uint64_t *count);

typedef struct tn_embedding_replay_options {
    size_t struct_size;        /* sizeof(tn_embedding_replay_options) */
    const tn_context *context; /* of the memory that this takes, and of progress */
    const char *policy;        /* of all that there are; NULL: "lfu" */
    uint32_t slots;            /* rows that there is room for */
    uint32_t batch;            /* lookups that lock their rows together; 0: 1 */
    uint32_t sample;           /* of `sampled`; 0: 16 */
    uint64_t seed;
} tn_embedding_replay_options;
#define TN_EMBEDDING_REPLAY_OPTIONS_INIT                                                           \
    TN_INIT(tn_embedding_replay_options, TN_SET(struct_size, sizeof(tn_embedding_replay_options)))

typedef struct tn_embedding_replayed {
    uint64_t lookups, lookup_hits; /* as in tn_embedding_facts */
    uint64_t distinct, hits;
    /* Distinct rows of the run, which nobody hits the first time; of policies that see the future,
     * else 0. */
    uint64_t cold;
} tn_embedding_replayed;

/* What a policy would hit in a recorded run, without a table.
 *
 * Errors: E_UNKNOWN (policy), E_INVALID (no slots), E_EXHAUSTED (a batch has more different rows
 * than slots), E_STOPPED, E_NO_MEMORY.
 * Cost: O(1) a lookup, with belady O(log slots). */
TN_API TN_CHECKED tn_status tn_embedding_replay(const tn_embedding_trace *trace,
                                                const tn_embedding_replay_options *options,
                                                tn_embedding_replayed *replayed, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
