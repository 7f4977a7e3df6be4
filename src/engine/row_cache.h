/* row_cache.h - rows of static tensors that stay in files: a cache of a fixed number of rows.
 *
 * Operators of domain "tenure" that have rows (graph/expert_rows.h) ask for them during a run. The
 * cache, with all its tables, lies in one static tensor of the plan (TN_TENSOR_ROW_CACHE), so it
 * counts as memory of the device like any other static tensor.
 */
#ifndef TN_ENGINE_ROW_CACHE_H
#define TN_ENGINE_ROW_CACHE_H

#include "engine/kernels/kernel.h"
#include "memory/device/ranges.h"
#include "engine/rows/policy.h"
#include "engine/rows/row_io.h"

/* The rows of one operator: their numbers, and the file range of each part of the first row. */
typedef struct tn__row_source {
    uint32_t first, count;
    tn__expert_row row;
    struct {
        const tn__ranges *file;
        uint64_t offset;
        const char *name; /* of the tensor, for messages */
    } parts[TN__EXPERTS_CACHE];
    int32_t score; /* as tn__row_cache.score, of guesses for this operator */
    bool judged;   /* such a guess has been judged */
} tn__row_source;

enum { /* the batches of rows that may be locked at the same time: two that kernels use, so that one
        * is read during the use of the other, and the guess */
       TN__ROW_BATCH_GUESS = 2,
       TN__ROW_BATCHES
};

typedef struct tn__row_cache {
    tn__row_source *sources; /* [source_count] in ascending order of their rows */
    uint32_t source_count;
    tn__residents r;
    tn__row_io io;
    uint8_t *rows; /* [slots] */
    uint64_t row_bytes;
    uint8_t *pending; /* [slots] number of parts that are still being read */
    /* [slots] with a limited rate, the time before which the row is not there */
    double *due;
    tn__hold holds[TN__ROW_BATCHES];
    bool held[TN__ROW_BATCHES];
    /* [most] the rows of the newest guess; the first `guess_absent` were not in the cache */
    uint32_t *guess;
    uint32_t guess_count, guess_absent, most;
    int32_t score;      /* how often guesses were right lately (row_cache.c) */
    double bytes_per_s; /* limit of the reading rate; 0: none */
    double free_at;     /* with a limit: time at which the last read so far is over */
    bool keeps_pages;   /* bytes that were read stay in the page cache */
    bool is_open;
    tn_kernel_rows access; /* the functions for kernels */
    /* statistics of the current or last run */
    uint64_t uses, hits, reads, read_bytes, guesses, right, withheld;
    double waited_s;
} tn__row_cache;

/* Bytes of the static tensor for a cache of `slots` rows of at most `row_bytes` bytes. `most`: the
 * largest number of rows of one operator. TN_SIZE_UNKNOWN: more than 2^64. */
uint64_t tn__row_cache_bytes(uint32_t slots, uint64_t row_bytes, uint32_t most);

struct tn_engine;
/* Opens the cache of an engine's program, if an operator of it has rows: the engine's store and
 * static memory must be filled. Errors: E_NO_MEMORY, E_UNSUPPORTED (no reader). */
tn_status tn__row_cache_open(struct tn_engine *engine);
/* Waits for all reads, and ends the reader; accepts a struct of zeros. */
void tn__row_cache_close(tn__row_cache *cache);
void tn__row_cache_start(tn__row_cache *cache); /* resets the statistics, before a run */

#endif
