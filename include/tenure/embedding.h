/* embedding.h - embedding tables larger than memory: all rows are in a file, the rows in use are in
 * a cache of a fixed size.
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
 *     options.cache_bytes = 1 << 20; // the table has 256 MB
 *     if (tn_embedding_create("users.rows", &table, NULL, &error) ||
 *         tn_embedding_open("users.rows", &options, &users, &error) ||
 *         tn_embedding_lookup(users, &batch, sums, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     tn_embedding_close(users);
 *     remove("users.rows");
 *
 * A training step begins the next batch, which locks its rows and starts to read the missing ones.
 * Then it calls `sums`, `update` and `end` for the previous batch. Sums are computed when they are
 * requested, so a batch that was begun early sees every update in between. Results are bit for bit
 * those of a table that is entirely in memory.
 *
 * A checkpoint is all or nothing. If the process or the machine stops, the next `open` finds the
 * table and the note of the last checkpoint; later changes are undone with TABLE.journal. Closing a
 * table makes no checkpoint.
 *
 * Numbers: a sum adds rows in the order of the batch, in float32. If a row occurs several times in
 * a batch, its gradients are first added in that order, and then the row is updated once.
 *
 * The cache is one block of memory (the slab); rows in it are residents.
 * Units: bytes, rows.
 * Threads: one thread at a time uses an open table; reads and writes continue in the background. A
 * table is open in one process for writing, or in several for reading.
 */
#ifndef TENURE_EMBEDDING_H
#define TENURE_EMBEDDING_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/embedding.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_EMBEDDING_ROWS_MAX 4294967294u /* largest number of rows of a table: 2^32 - 2 */
#define TN_EMBEDDING_DIM_MAX 65536u
#define TN_EMBEDDING_OPEN_MAX 8u /* largest number of batches that are open at once */
/* largest number of residents that the policy `sampled` compares */
#define TN_EMBEDDING_SAMPLE_MAX 4096u

/* Update rules with the state that each keeps per row: X(name, text). */
/* clang-format off */
#define TN_EMBEDDING_RULE_TABLE(X)                                                             \
    X(SGD, "sgd")                     /* w -= rate g; no state */                              \
    X(ADAGRAD, "adagrad")             /* s += g g; w -= rate g / (sqrt(s) + epsilon) */        \
    X(ROWWISE_ADAGRAD, "rowwise-adagrad") /* one s per row: s += mean(g g) */
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
    uint64_t rows;          /* number of rows, from 1 to TN_EMBEDDING_ROWS_MAX */
    uint32_t dim;           /* number of elements per row, from 1 to TN_EMBEDDING_DIM_MAX */
    tn_dtype type;          /* element type: float32 (also for 0), float16 or bfloat16 */
    tn_embedding_rule rule; /* update rule; its state is float32 */
    uint64_t seed;          /* seed of the initial values */
    double scale;           /* initial values are uniform in [-scale, scale]; 0: all are 0 */
} tn_embedding_table;
#define TN_EMBEDDING_TABLE_INIT                                                                    \
    TN_INIT(tn_embedding_table, TN_SET(struct_size, sizeof(tn_embedding_table)))

/* Creates a table. The file needs no disk space except its first page: a row is stored when it is
 * first updated. Until then its values are computed from `seed` and its number.
 *
 * Errors: E_INVALID (shape, type), E_IO (the file exists, or TABLE.checkpoint or TABLE.journal
 * exists). */
TN_API TN_CHECKED tn_status tn_embedding_create(const char *path, const tn_embedding_table *table,
                                                const tn_context *context, tn_error *error);

/* --- open ------------------------------------------------------------------------------- */

typedef struct tn_embedding tn_embedding;

typedef struct tn_embedding_options {
    size_t struct_size;        /* sizeof(tn_embedding_options) */
    const tn_context *context; /* services of the caller; NULL: defaults; must outlive the table */
    /* Bytes of the one block of memory for everything that grows with rows or batches: rows, their
     * index, the state of the policy, open batches, queues of reads and writes, the buffer of the
     * journal. Other memory is outside of the block: the paths of the three files; the note while a
     * checkpoint is written or read; thread stacks; queues of the kernel and its page cache of the
     * file, which the kernel reclaims when it needs memory. */
    uint64_t cache_bytes;
    const char *policy; /* name of the eviction policy; NULL: "lfu" */
    /* name of the reader: "uring", "threads", or "plain" (reads synchronously); NULL: the first
     * that is available. */
    const char *reader;
    /* number of threads of the reader "threads": 0 means 4; at most 64 are used */
    uint32_t threads;
    /* Largest number of row numbers in a batch; 0: as many as an eighth of the cache can store, at
     * most 65,536. */
    uint32_t batch_rows;
    uint32_t batch_count; /* largest number of open batches, up to TN_EMBEDDING_OPEN_MAX; 0: 2 */
    uint32_t sample;      /* number of residents that the policy `sampled` compares; 0: 16 */
    uint64_t seed;        /* seed of the samples that the policy `sampled` draws */
    bool read_only;
    /* If true, the kernel decides when writes reach the disk. The table then survives the end of
     * the process, but not of the machine. */
    bool unsynced;
} tn_embedding_options;
#define TN_EMBEDDING_OPTIONS_INIT                                                                  \
    TN_INIT(tn_embedding_options, TN_SET(struct_size, sizeof(tn_embedding_options)))

/* Opens a table. Changes after its last checkpoint are undone first.
 *
 * Errors: E_IO (a file that cannot be opened or read, or is in use), E_INVALID (not a table;
 * truncated; damaged, with the byte; cache_bytes too small, with the least that suffices),
 * E_UNKNOWN (policy, reader), E_UNSUPPORTED (a policy that needs to know the future; a reader that
 * is not available; read_only with changes to undo), E_NO_MEMORY.
 * Cost: changes to undo are read and written once. */
TN_API TN_CHECKED tn_status tn_embedding_open(const char *path, const tn_embedding_options *options,
                                              tn_embedding **embedding, tn_error *error);
/* Closes a table; NULL has no effect. Changes after the last checkpoint are undone when the table
 * is next opened. */
TN_API void tn_embedding_close(tn_embedding *embedding);

/* Computes the cache_bytes that suffice for `rows` rows of a table at once. Errors: those of the
 * shape and of the options; more rows than the table has. */
TN_API TN_CHECKED tn_status tn_embedding_bytes(const tn_embedding_table *table,
                                               const tn_embedding_options *options, uint32_t rows,
                                               uint64_t *bytes, tn_error *error);

/* Computes the number of rows that fit a cache of options.cache_bytes; 0: not even one row. Errors:
 * those of the shape and of the options. */
TN_API TN_CHECKED tn_status tn_embedding_room(const tn_embedding_table *table,
                                              const tn_embedding_options *options, uint32_t *rows,
                                              tn_error *error);

/* --- batches ------------------------------------------------------------------------------ */

typedef struct tn_embedding_batch {
    const uint32_t *rows; /* [row_count] the numbers of the rows to look up */
    uint32_t row_count;
    /* [bag_count]: index in `rows` of the start of each bag, starting with 0 and not decreasing.
     * The last bag ends with `rows`; a bag may be empty. NULL: each row is a bag, and bag_count is
     * row_count. */
    const uint32_t *bags;
    uint32_t bag_count;
    const float *weights; /* [row_count] factor of each row in its sum; NULL: 1 */
    bool mean; /* true: each sum is divided by the number of rows in its bag (0 for an empty bag) */
} tn_embedding_batch;

typedef struct tn_embedding_step {
    float rate, epsilon; /* learning rate, and epsilon of adagrad */
} tn_embedding_step;

/* Locks the rows of a batch in the cache and starts to read the missing ones. The arrays of the
 * batch must stay valid until `end`.
 *
 * ticket  out, identifies the batch until `end`
 *
 * Errors: E_INVALID (a row that the table does not have, decreasing bags, too many rows, too many
 * open batches), E_EXHAUSTED (more different rows than the cache can hold in addition to the locked
 * ones; the message states a sufficient number of bytes), E_IO (writing back rows). On failure
 * nothing is locked.
 * Cost: O(row_count), allocates nothing. */
TN_API TN_CHECKED tn_status tn_embedding_begin(tn_embedding *embedding,
                                               const tn_embedding_batch *batch, uint32_t *ticket,
                                               tn_error *error);
/* Waits for the rows of a batch and computes its sums.
 *
 * sums  out, [bag_count x dim]
 * Errors: E_INVALID (ticket), E_IO (with the byte).
 */
TN_API TN_CHECKED tn_status tn_embedding_sums(tn_embedding *embedding, uint32_t ticket, float *sums,
                                              tn_error *error);
/* Updates the rows of a batch by the table's rule.
 *
 * gradients  [bag_count x dim], of the sums
 * Errors: those of tn_embedding_sums; E_UNSUPPORTED (read_only). If the journal cannot be written,
 * every later call fails with that error; close and open the table to continue from the last
 * checkpoint.
 */
TN_API TN_CHECKED tn_status tn_embedding_update(tn_embedding *embedding, uint32_t ticket,
                                                const float *gradients,
                                                const tn_embedding_step *step, tn_error *error);
/* Writes the rows of a batch and sets their state to 0.
 *
 * values  [row_count x dim], rounded to the table's type; the last ones count for a repeated row
 * Errors: those of tn_embedding_update.
 */
TN_API TN_CHECKED tn_status tn_embedding_put(tn_embedding *embedding, uint32_t ticket,
                                             const float *values, tn_error *error);
/* Ends a batch: waits for its pending reads and unlocks its rows. Errors: E_INVALID (ticket). */
TN_API TN_CHECKED tn_status tn_embedding_end(tn_embedding *embedding, uint32_t ticket,
                                             tn_error *error);
/* Does the work of tn_embedding_begin, _sums and _end in one call. */
TN_API TN_CHECKED tn_status tn_embedding_lookup(tn_embedding *embedding,
                                                const tn_embedding_batch *batch, float *sums,
                                                tn_error *error);

/* --- checkpoints -------------------------------------------------------------------------- */

/* Writes all changes and makes them, together with `note`, the state that the next open finds. It
 * succeeds completely or changes nothing. Batches may be open.
 *
 * note  [size] bytes of other state that the run needs: the step, other weights
 * Errors: E_IO; E_UNSUPPORTED (read_only). If the table itself cannot be written, later calls fail
 * as after tn_embedding_update. */
TN_API TN_CHECKED tn_status tn_embedding_checkpoint(tn_embedding *embedding, const void *note,
                                                    size_t size, tn_error *error);
/* Returns the note of the last checkpoint: its size (0: no note), and its bytes if `bytes` is not
 * NULL.
 * Errors: E_IO, E_INVALID (damaged; with `bytes`, larger than `room`). */
TN_API TN_CHECKED tn_status tn_embedding_note(const tn_embedding *embedding, void *bytes,
                                              size_t room, size_t *size, tn_error *error);

/* --- statistics --- */

typedef struct tn_embedding_facts {
    tn_embedding_table table;
    const char *policy, *reader;
    uint64_t cache_bytes; /* bytes of the cache as given in the options */
    uint64_t row_bytes;   /* bytes of a row with its state, in the file and in the cache */
    uint32_t slots;       /* number of rows that the cache can store */
    uint32_t batch_rows;  /* largest number of row numbers in a batch */
    uint32_t resident;    /* number of rows in the cache */
    uint64_t checkpoints; /* number of checkpoints of the table since its creation */
    uint64_t undone;      /* number of changes that were undone when the table was opened */
    /* row numbers in batches; row numbers that were in the cache at `begin` */
    uint64_t lookups, lookup_hits;
    uint64_t distinct, hits; /* lookups and hits with each row of a batch counted once */
    uint64_t written;        /* number of rows that were written back to the file */
    double waited_s;         /* time that calls waited for reads and writes, in seconds */
} tn_embedding_facts;
/* Returns the description and the counters of an open table. */
TN_API void tn_embedding_tell(const tn_embedding *embedding, tn_embedding_facts *facts);

/* Names, one-line summaries and sources of the policies, for lists and help texts. */
TN_API uint32_t tn_embedding_policy_count(void);
TN_API const char *tn_embedding_policy_name(uint32_t index);
TN_API const char *tn_embedding_policy_summary(uint32_t index);
TN_API const char *tn_embedding_policy_source(uint32_t index);

/* --- recorded lookups --------------------------------------------------------------------- */

typedef struct tn_embedding_trace tn_embedding_trace;

/* Reads a trace of row numbers, one per line. Empty lines and lines that begin with # are skipped.
 * Errors: E_IO, E_INVALID (with the line), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_embedding_trace_load(const char *path, const tn_context *context,
                                                    tn_embedding_trace **trace, tn_error *error);

typedef struct tn_embedding_zipf {
    /* Exponent from 0 (uniform) to 10: the row of rank k has a probability proportional to
     * k^-exponent. */
    double exponent;
    uint64_t rows; /* number of rows; ranks are scattered over them */
    uint64_t lookups;
    uint64_t seed;
} tn_embedding_zipf;
/* Draws lookups from a Zipf distribution. Errors: E_INVALID, E_NO_MEMORY.
 * Source: Hormann, Derflinger: rejection-inversion, 1996. */
TN_API TN_CHECKED tn_status tn_embedding_trace_zipf(const tn_embedding_zipf *zipf,
                                                    const tn_context *context,
                                                    tn_embedding_trace **trace, tn_error *error);
/* Destroys a trace; NULL has no effect. */
TN_API void tn_embedding_trace_destroy(tn_embedding_trace *trace);
/* Returns the row numbers of a trace; they live as long as the trace. */
TN_API const uint32_t *tn_embedding_trace_rows(const tn_embedding_trace *trace, uint64_t *count);

typedef struct tn_embedding_replay_options {
    size_t struct_size;        /* sizeof(tn_embedding_replay_options) */
    const tn_context *context; /* services of the caller for the replay: its memory, and progress */
    const char *policy; /* name of any policy, including those that know the future; NULL: "lfu" */
    uint32_t slots;     /* number of rows that the cache can store */
    uint32_t batch;     /* number of lookups that lock their rows together; 0: 1 */
    uint32_t sample;    /* number of residents that the policy `sampled` compares; 0: 16 */
    uint64_t seed;
} tn_embedding_replay_options;
#define TN_EMBEDDING_REPLAY_OPTIONS_INIT                                                           \
    TN_INIT(tn_embedding_replay_options, TN_SET(struct_size, sizeof(tn_embedding_replay_options)))

typedef struct tn_embedding_replayed {
    uint64_t lookups, lookup_hits; /* numbers with the meaning that tn_embedding_facts gives them */
    uint64_t distinct, hits;
    /* For policies that know the future: distinct rows of the run, each of which misses once. 0 for
     * other policies. */
    uint64_t cold;
} tn_embedding_replayed;

/* Simulates the hits of a policy for recorded lookups, without a table.
 *
 * Errors: E_UNKNOWN (policy), E_INVALID (no slots), E_EXHAUSTED (a batch has more different rows
 * than slots), E_STOPPED, E_NO_MEMORY.
 * Cost: O(1) per lookup; O(log slots) with belady. */
TN_API TN_CHECKED tn_status tn_embedding_replay(const tn_embedding_trace *trace,
                                                const tn_embedding_replay_options *options,
                                                tn_embedding_replayed *replayed, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
