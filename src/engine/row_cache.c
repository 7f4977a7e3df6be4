/* row_cache.c - reads rows of static tensors from files into a cache when a kernel asks for them.
 *
 * A kernel visits all rows that it needs in one call (tn_kernel_rows). Those in the cache are
 * locked, and the missing ones are read in the background in the order in which the kernel uses
 * them, so the kernel waits only for the row that comes next. If they do not fit into the cache at
 * once, half of the cache is read while the other half is used. After the needed rows, those that
 * the next operator will probably need are read (the guess) as far as the cache has room. The next
 * visit finds them in the cache or on their way.
 *
 *     router     [1]              [2]
 *     kernel     ····[ row 3 ][ row 7 ]   [ row 12 ]····[ row 17 ]
 *     file       [ 3 ][ 7 ][ 12 ][ 14 ]      [ 17 ]           (12 and 14: the guess)
 *
 * Which rows are in the cache follows from the order of visits alone, not from times, so the counts
 * are the same in every run. A guess that is wrong costs its read: the next visit waits for it,
 * because its slots cannot be reused before. So guesses are judged: each row that was guessed for
 * an operator, and was not in the cache, adds 1 to the operator's score if the operator used it,
 * and subtracts 1 if not. With a score below 0 such rows are not read, only judged. The score stays
 * within -ROWS_SCORE and ROWS_SCORE, so a few visits change the decision. As long as no guess for
 * an operator has been judged, the common score of all operators decides.
 *
 * If the read of a part fails, the calling thread reads it once more, for the error's path and
 * byte.
 * Cost of a visit: O(rows), and their reads.
 */
#include "engine/row_cache.h"

#include <fcntl.h>

#include "engine/engine.h"
#include "graph/expert_rows.h"

/* number of reads that may be in progress at the same time */
#define ROWS_DEPTH 64u
/* limit of the score of guesses, in rows */
#define ROWS_SCORE 16

/* --- the memory of a cache --- */

/* The offset of each part of the cache in its tensor. */
typedef struct rows_division {
    uint64_t slots, index, state, pending, due, holds, guess, transfers, reader, rows, total;
} rows_division;

static uint64_t rows_take(rows_division *it, uint64_t bytes) {
    uint64_t at = it->total;
    if (!tn__align_up(tn__add_sat(at, bytes), TN__EXPERTS_ALIGNMENT, &it->total))
        it->total = TN_SIZE_UNKNOWN;
    return at;
}

/* The larger state of both readers, so that a plan is the same with both. */
static uint64_t rows_reader_bytes(void) {
    uint64_t ring = tn__row_reader_uring.bytes(ROWS_DEPTH);
    uint64_t threads = tn__row_reader_threads.bytes(ROWS_DEPTH);
    return ring > threads ? ring : threads;
}

static rows_division rows_divide(uint32_t slots, uint64_t row_bytes, uint32_t most) {
    const tn__row_policy *policy = tn__row_policy_find(NULL, NULL);
    rows_division it = {0};
    it.slots = rows_take(&it, tn__mul_sat(slots, sizeof(tn__slot)));
    it.index = rows_take(&it, tn__mul_sat(tn__index_count(slots), sizeof(tn__entry)));
    it.state = rows_take(&it, tn__policy_bytes(policy, slots));
    it.pending = rows_take(&it, slots);
    it.due = rows_take(&it, tn__mul_sat(slots, sizeof(double)));
    it.holds = rows_take(&it, tn__mul_sat(most, 2 * TN__ROW_BATCHES * sizeof(uint32_t)));
    it.guess = rows_take(&it, tn__mul_sat(most, sizeof(uint32_t)));
    it.transfers = rows_take(&it, ROWS_DEPTH * sizeof(tn__row_transfer));
    it.reader = rows_take(&it, rows_reader_bytes());
    it.rows = rows_take(&it, tn__mul_sat(slots, row_bytes));
    return it;
}

uint64_t tn__row_cache_bytes(uint32_t slots, uint64_t row_bytes, uint32_t most) {
    return rows_divide(slots, row_bytes, most).total;
}

/* --- reading a row --- */

static tn__row_source *rows_source(const tn__row_cache *cache, uint32_t row) {
    uint32_t low = 0, high = cache->source_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (cache->sources[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return &cache->sources[low];
}

static uint64_t rows_part_at(const tn__row_source *source, uint32_t row, uint32_t part) {
    return source->parts[part].offset + (row - source->first) * source->row.size[part];
}

static uint8_t *rows_slot(const tn__row_cache *cache, uint32_t slot) {
    return cache->rows + slot * cache->row_bytes;
}

/* Called when all parts of a row have been read, or have failed. */
static void rows_arrived(tn__row_cache *cache, uint32_t slot) {
    tn__slot *it = &cache->r.slots[slot];
    const tn__row_source *source = rows_source(cache, it->row);
    it->flags &= (uint8_t)~TN__SLOT_READING;
    for (uint32_t i = 0; i < TN__EXPERTS_CACHE; i++) {
        if (source->row.size[i] == 0) continue;
        if (!cache->keeps_pages)
            tn__ranges_forget(source->parts[i].file, rows_part_at(source, it->row, i),
                              source->row.size[i]);
        if (tn__ranges_is_same(source->parts[i].file, 0, NULL) != TN_OK)
            it->flags |= TN__SLOT_FAILED;
    }
}

/* Waits for one read. */
static void rows_finish(tn__row_cache *cache) {
    tn__row_io_start(&cache->io);
    uint32_t transfer = tn__row_io_finish(&cache->io);
    uint32_t slot = cache->io.transfers[transfer].slot;
    if (cache->io.transfers[transfer].failure != 0) cache->r.slots[slot].flags |= TN__SLOT_FAILED;
    tn__row_io_give(&cache->io, transfer);
    if (--cache->pending[slot] == 0) rows_arrived(cache, slot);
}

static void rows_read(tn__row_cache *cache, uint32_t slot) {
    const uint32_t row = cache->r.slots[slot].row;
    const tn__row_source *source = rows_source(cache, row);
    uint64_t bytes = 0;
    cache->pending[slot] = 0;
    for (uint32_t i = 0; i < TN__EXPERTS_CACHE; i++)
        if (source->row.size[i] > 0) cache->pending[slot]++;
    for (uint32_t i = 0; i < TN__EXPERTS_CACHE; i++) {
        if (source->row.size[i] == 0) continue;
        uint32_t transfer;
        while ((transfer = tn__row_io_take(&cache->io)) == TN__ROW_TRANSFER_NONE)
            rows_finish(cache);
        tn__row_transfer *it = &cache->io.transfers[transfer];
        it->file = source->parts[i].file->descriptor;
        it->data = (char *)rows_slot(cache, slot) + source->row.at[i];
        it->offset = rows_part_at(source, row, i);
        it->size = (uint32_t)source->row.size[i];
        it->slot = slot;
        it->writes = false;
        bytes += source->row.size[i];
        tn__row_io_begin(&cache->io, transfer);
    }
    cache->reads++;
    cache->read_bytes += bytes;
    if (cache->bytes_per_s <= 0) return;
    const double now = tn__clock_s();
    if (cache->free_at < now) cache->free_at = now;
    cache->free_at += (double)bytes / cache->bytes_per_s;
    cache->due[slot] = cache->free_at;
}

/* Reads the parts of a failed row once more in this thread. */
static tn_status rows_retry(tn__row_cache *cache, uint32_t slot, tn_error *error) {
    const uint32_t row = cache->r.slots[slot].row;
    const tn__row_source *source = rows_source(cache, row);
    for (uint32_t i = 0; i < TN__EXPERTS_CACHE; i++) {
        if (source->row.size[i] == 0) continue;
        tn_status status =
            tn__ranges_read(source->parts[i].file, rows_part_at(source, row, i),
                            rows_slot(cache, slot) + source->row.at[i], source->row.size[i], error);
        if (status == TN_OK) continue;
        if (error == NULL) return status;
        char where[sizeof error->where];
        memcpy(where, error->where, sizeof where);
        error->where[0] = 0;
        return tn__where(error, status, "tensor '%.60s', expert %u: %.120s", source->parts[i].name,
                         row - source->first, where);
    }
    cache->r.slots[slot].flags &= (uint8_t)~TN__SLOT_FAILED;
    return TN_OK;
}

/* Waits until a row is in memory. */
static tn_status rows_await(tn__row_cache *cache, uint32_t slot, tn_error *error) {
    const tn__slot *it = &cache->r.slots[slot];
    bool limited = cache->bytes_per_s > 0 && cache->due[slot] > 0;
    if ((it->flags & TN__SLOT_READING) != 0 || limited) {
        double before = tn__clock_s();
        while ((it->flags & TN__SLOT_READING) != 0) rows_finish(cache);
        if (limited) tn__clock_sleep_until(cache->due[slot]);
        cache->due[slot] = 0;
        cache->waited_s += tn__clock_s() - before;
    }
    return (it->flags & TN__SLOT_FAILED) != 0 ? rows_retry(cache, slot, error) : TN_OK;
}

/* --- batches of rows --- */

/* Locks rows, which must fit, and starts to read those that are missing. */
static tn_status rows_hold(tn__row_cache *cache, uint32_t batch, const uint32_t *rows,
                           uint32_t count, tn_error *error) {
    tn__hold *hold = &cache->holds[batch];
    hold->row_count = count;
    tn_status status = tn__residents_hold(&cache->r, batch, rows, hold, NULL, error);
    if (status != TN_OK) return tn__fail(error, TN_E_INTERNAL, "rows do not fit into their cache");
    cache->held[batch] = true;
    for (uint32_t i = hold->hits; i < hold->distinct_count; i++)
        rows_read(cache, hold->distinct[i]);
    if (hold->hits < hold->distinct_count) tn__row_io_start(&cache->io);
    return TN_OK;
}

static void rows_let(tn__row_cache *cache, uint32_t batch) {
    if (!cache->held[batch]) return;
    tn__residents_let(&cache->r, batch, &cache->holds[batch], NULL);
    cache->held[batch] = false;
}

/* Unlocks the rows of the guess. A row that is still being read cannot be unlocked, so all reads of
 * the guess end first. */
static void rows_end_guess(tn__row_cache *cache) {
    const tn__hold *hold = &cache->holds[TN__ROW_BATCH_GUESS];
    if (!cache->held[TN__ROW_BATCH_GUESS]) return;
    double before = tn__clock_s();
    for (uint32_t i = 0; i < hold->distinct_count; i++)
        while ((cache->r.slots[hold->distinct[i]].flags & TN__SLOT_READING) != 0)
            rows_finish(cache);
    cache->waited_s += tn__clock_s() - before;
    rows_let(cache, TN__ROW_BATCH_GUESS);
}

/* Counts those of the first `guesses` rows of the guess that a list has. */
static uint32_t rows_guessed(const tn__row_cache *cache, uint32_t guesses, const uint32_t *rows,
                             uint32_t count) {
    uint32_t right = 0;
    for (uint32_t g = 0; g < guesses; g++)
        for (uint32_t i = 0; i < count; i++) right += rows[i] == cache->guess[g];
    return right;
}

static void rows_add_score(int32_t *score, int64_t change) {
    const int64_t sum = *score + change;
    *score = (int32_t)(sum > ROWS_SCORE ? ROWS_SCORE : sum < -ROWS_SCORE ? -ROWS_SCORE : sum);
}

/* Judges the guess by the rows that the operator uses. */
static void rows_judge(tn__row_cache *cache, const uint32_t *rows, uint32_t count) {
    if (cache->guess_count == 0) return;
    cache->right += rows_guessed(cache, cache->guess_count, rows, count);
    if (cache->guess_absent == 0) return;
    tn__row_source *source = rows_source(cache, cache->guess[0]);
    const int64_t right = rows_guessed(cache, cache->guess_absent, rows, count);
    const int64_t change = 2 * right - (int64_t)cache->guess_absent;
    rows_add_score(&source->score, change);
    rows_add_score(&cache->score, change);
    source->judged = true;
}

/* Locks the first rows of a visit, which may be rows of the guess, and ends the guess. */
static tn_status rows_hold_first(tn__row_cache *cache, const uint32_t *rows, uint32_t count,
                                 tn_error *error) {
    if (cache->held[TN__ROW_BATCH_GUESS]) {
        uint32_t locked = cache->holds[TN__ROW_BATCH_GUESS].distinct_count;
        uint32_t both = rows_guessed(cache, cache->guess_count, rows, count);
        if (locked - both + count > cache->r.slot_count) rows_end_guess(cache);
    }
    TN_TRY(rows_hold(cache, 0, rows, count, error));
    rows_end_guess(cache);
    return TN_OK;
}

/* Takes the rows that `next` will probably use as the guess, first those that are not in the cache.
 * Reads these, if guesses for this operator have been right often enough. */
static tn_status rows_begin_guess(tn__row_cache *cache, const uint32_t *rows, uint32_t count,
                                  uint32_t room, tn_error *error) {
    cache->guess_count = count < room ? count : room;
    cache->guess_absent = 0;
    cache->guesses += cache->guess_count;
    if (cache->guess_count == 0) return TN_OK;
    for (uint32_t round = 0, at = 0; round < 2; round++)
        for (uint32_t i = 0; i < cache->guess_count; i++) {
            const bool is_here = tn__residents_has(&cache->r, rows[i]);
            if (is_here != (round == 1)) continue;
            cache->guess[at++] = rows[i];
            cache->guess_absent += !is_here;
        }
    const tn__row_source *source = rows_source(cache, rows[0]);
    const bool reads = (source->judged ? source->score : cache->score) >= 0;
    if (!reads) cache->withheld += cache->guess_absent;
    return reads ? rows_hold(cache, TN__ROW_BATCH_GUESS, cache->guess, cache->guess_count, error)
                 : TN_OK;
}

/* --- a visit --- */

typedef struct rows_visit {
    const uint32_t *rows;
    uint32_t count, each; /* `each`: number of rows of a batch */
    tn_kernel_row_use *use;
    void *context;
    tn_error *error;
} rows_visit;

static uint32_t visit_size(const rows_visit *visit, uint32_t from) {
    return visit->count - from < visit->each ? visit->count - from : visit->each;
}

static tn_status visit_use(tn__row_cache *cache, const rows_visit *visit, uint32_t batch,
                           uint32_t from) {
    for (uint32_t i = 0; i < visit_size(visit, from); i++) {
        const void *parts[TN__EXPERTS_CACHE] = {NULL};
        uint32_t slot = cache->holds[batch].slot_of[i];
        const tn__row_source *source = rows_source(cache, visit->rows[from + i]);
        TN_TRY(rows_await(cache, slot, visit->error));
        for (uint32_t p = 0; p < TN__EXPERTS_CACHE; p++)
            if (source->row.size[p] > 0) parts[p] = rows_slot(cache, slot) + source->row.at[p];
        TN_TRY(visit->use(visit->context, from + i, parts));
    }
    return TN_OK;
}

/* Locks the batch that begins with row `from`, if there is one. */
static tn_status visit_hold(tn__row_cache *cache, const rows_visit *visit, uint32_t batch,
                            uint32_t from) {
    if (from >= visit->count) return TN_OK;
    TN_TRY(rows_hold(cache, batch, visit->rows + from, visit_size(visit, from), visit->error));
    cache->hits += cache->holds[batch].hits;
    return TN_OK;
}

static tn_status visit_all(tn__row_cache *cache, const rows_visit *visit, const uint32_t *next,
                           uint32_t next_count) {
    const uint32_t slots = cache->r.slot_count, each = visit->each;
    const bool ahead = slots > 1; /* the next batch is read while one is used */
    TN_TRY(rows_hold_first(cache, visit->rows, visit_size(visit, 0), visit->error));
    cache->hits += cache->holds[0].hits;
    cache->guess_count = 0;
    if (visit->count <= each)
        TN_TRY(rows_begin_guess(cache, next, next_count, slots - visit->count, visit->error));
    for (uint32_t from = 0, batch = 0; from < visit->count; from += each, batch ^= ahead) {
        if (ahead) TN_TRY(visit_hold(cache, visit, batch ^ 1, from + each));
        TN_TRY(visit_use(cache, visit, batch, from));
        rows_let(cache, batch);
        if (!ahead) TN_TRY(visit_hold(cache, visit, batch, from + each));
    }
    return TN_OK;
}

static tn_status rows_visit_call(void *self, const uint32_t *rows, uint32_t count,
                                 const uint32_t *next, uint32_t next_count, tn_kernel_row_use *use,
                                 void *context, tn_error *error) {
    tn__row_cache *cache = self;
    const uint32_t slots = cache->r.slot_count, half = slots > 1 ? slots / 2 : 1;
    const rows_visit visit = {rows, count, count <= slots ? count : half, use, context, error};
    if (count == 0) return TN_OK;
    cache->uses += count;
    rows_judge(cache, rows, count);
    tn_status status = visit_all(cache, &visit, next, next_count);
    if (status == TN_OK) return TN_OK;
    while (tn__row_io_is_busy(&cache->io)) rows_finish(cache);
    for (uint32_t batch = 0; batch < TN__ROW_BATCHES; batch++) rows_let(cache, batch);
    cache->guess_count = 0;
    return status;
}

/* --- opening --- */

static tn_status rows_add_source(tn_engine *engine, tn_op_id id) {
    tn__row_cache *cache = &engine->row_cache;
    const tn_graph *graph = engine->executor.graph;
    const tn_op *op = tn_graph_op(graph, id);
    tn__row_source *source = &cache->sources[cache->source_count];
    const int64_t first = tn__attr_int(op, "row", -1);
    if (first < 0 || first >= TN__ROW_NONE || !tn__expert_row_of(graph, op, &source->row))
        TN_FAIL(engine->executor.error, TN_E_INVALID, "'%.80s' has no rows", op->name);
    source->first = (uint32_t)first;
    source->count = source->row.experts;
    for (uint32_t i = 0; i < TN__EXPERTS_CACHE; i++) {
        if (source->row.size[i] == 0) continue;
        const tn__stored *stored = tn__store_find(&engine->store, op->inputs[i]);
        if (stored == NULL)
            TN_FAIL(engine->executor.error, TN_E_INTERNAL, "'%.80s' is in no file",
                    tn_graph_tensor(graph, op->inputs[i])->name);
        source->parts[i].file = &engine->store.files[stored->file];
        source->parts[i].offset = stored->offset;
        source->parts[i].name = tn_graph_tensor(graph, op->inputs[i])->name;
    }
    if (source->count > cache->most) cache->most = source->count;
    if (source->row.bytes > cache->row_bytes) cache->row_bytes = source->row.bytes;
    cache->source_count++;
    return TN_OK;
}

static int rows_by_first(const void *a, const void *b) {
    uint32_t x = ((const tn__row_source *)a)->first, y = ((const tn__row_source *)b)->first;
    return (x > y) - (x < y);
}

static void rows_lay_out(tn__row_cache *cache, uint8_t *memory, uint32_t slots) {
    const rows_division at = rows_divide(slots, cache->row_bytes, cache->most);
    uint32_t *holds = (uint32_t *)(void *)(memory + at.holds);
    memset(memory, 0, (size_t)at.rows); /* the tables */
    cache->r.policy = tn__row_policy_find(NULL, NULL);
    cache->r.state = memory + at.state;
    cache->r.slots = (tn__slot *)(void *)(memory + at.slots);
    cache->r.index = (tn__entry *)(void *)(memory + at.index);
    cache->r.slot_count = slots;
    cache->r.index_count = tn__index_count(slots);
    cache->pending = memory + at.pending;
    cache->due = (double *)(void *)(memory + at.due);
    cache->guess = (uint32_t *)(void *)(memory + at.guess);
    for (uint32_t batch = 0; batch < TN__ROW_BATCHES; batch++) {
        cache->holds[batch].slot_of = holds + (size_t)(2 * batch) * cache->most;
        cache->holds[batch].distinct = holds + (size_t)(2 * batch + 1) * cache->most;
    }
    cache->io.transfers = (tn__row_transfer *)(void *)(memory + at.transfers);
    cache->io.state = memory + at.reader;
    cache->io.depth = ROWS_DEPTH;
    cache->rows = memory + at.rows;
    tn__residents_open(&cache->r);
}

static tn_status rows_open(tn_engine *engine, const tn_op *op) {
    tn__row_cache *cache = &engine->row_cache;
    const tn_graph *graph = engine->executor.graph;
    const tn_tensor *tensor = tn_graph_tensor(graph, op->inputs[TN__EXPERTS_CACHE]);
    uint8_t *memory = engine->executor.operands[op->inputs[TN__EXPERTS_CACHE]].data;
    const int64_t slots = tn__attr_int(op, "slots", 0);
    tn_error *error = engine->executor.error;
    if (slots < 1 || slots > INT32_MAX || memory == NULL ||
        tn__row_cache_bytes((uint32_t)slots, cache->row_bytes, cache->most) > tensor->bytes)
        TN_FAIL(error, TN_E_INVALID, "'%.80s' is no cache of %lld rows", tensor->name,
                (long long)slots);
    rows_lay_out(cache, memory, (uint32_t)slots);
    cache->bytes_per_s = engine->options.storage_bytes_per_s;
    cache->keeps_pages = engine->options.storage_cache;
    cache->access = (tn_kernel_rows){cache, rows_visit_call};
    /* the descriptors were opened with O_NONBLOCK, with which io_uring returns too early */
    for (size_t f = 0; f < engine->store.file_count; f++)
        if (engine->store.files[f].descriptor >= 0)
            (void)fcntl(engine->store.files[f].descriptor, F_SETFL, 0);
    TN_TRY(tn__row_reader_find(NULL, &cache->io.reader, error));
    cache->is_open = true;
    TN_TRY(tn__row_io_open(&cache->io, 0, error));
    engine->executor.rows = &cache->access;
    return TN_OK;
}

tn_status tn__row_cache_open(tn_engine *engine) {
    tn__row_cache *cache = &engine->row_cache;
    const tn_instruction *list = tn_program_instructions(engine->program);
    const tn_graph *graph = engine->executor.graph;
    const tn_op *last = NULL;
    uint32_t count = 0;
    for (uint32_t s = 0; s < tn_program_count(engine->program); s++)
        count += list[s].opcode == TN_APPLY && tn__op_has_rows(tn_graph_op(graph, list[s].op));
    if (count == 0) return TN_OK;
    cache->sources = tn__arena_array(&engine->tables, count, sizeof *cache->sources);
    if (cache->sources == NULL) return tn__no_memory(engine->executor.error, "experts");
    for (uint32_t s = 0; s < tn_program_count(engine->program); s++) {
        if (list[s].opcode != TN_APPLY || !tn__op_has_rows(tn_graph_op(graph, list[s].op)))
            continue;
        last = tn_graph_op(graph, list[s].op);
        TN_TRY(rows_add_source(engine, list[s].op));
    }
    qsort(cache->sources, cache->source_count, sizeof *cache->sources, rows_by_first);
    return rows_open(engine, last);
}

void tn__row_cache_close(tn__row_cache *cache) {
    if (!cache->is_open) return;
    while (tn__row_io_is_busy(&cache->io)) rows_finish(cache);
    cache->io.reader->close(&cache->io);
    cache->is_open = false;
}

void tn__row_cache_start(tn__row_cache *cache) {
    cache->uses = cache->hits = cache->reads = cache->read_bytes = 0;
    cache->guesses = cache->right = cache->withheld = 0;
    cache->waited_s = 0;
}
