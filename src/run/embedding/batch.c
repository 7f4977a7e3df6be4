/* batch.c - the operations of a batch: lock its rows, sum them, update them, release them.
 *
 * A position of a batch names a row. For an update, the positions that name the same row form a
 * linked list, in order. Their gradients are added along the list into one row of scratch memory,
 * and the row is updated once. This needs one integer per position, for gradients of any size.
 */
#include "run/embedding/cache.h"

#include <inttypes.h>
#include <math.h>

#include "engine/kernels/convert.h"

#define BATCH_AHEAD 4u /* number of rows by which the prefetch is ahead of the sum */

/* --- tickets --- */

/* Finds the open batch with a ticket number. Fails if no open batch has this number, or if the
 * table is broken. */
static tn_status cache_ticket(tn_embedding *e, uint32_t number, tn__ticket **ticket,
                              tn_error *error) {
    if (e->is_broken) {
        if (error != NULL) *error = e->broken;
        return e->broken.status;
    }
    if (number >= e->batch_count || !e->tickets[number].is_open)
        TN_FAIL(error, TN_E_INVALID, "no open batch has the ticket %u", number);
    *ticket = &e->tickets[number];
    return TN_OK;
}

static tn_status batch_check(const tn_embedding *e, const tn_embedding_batch *batch,
                             tn_error *error) {
    if (batch->row_count > e->batch_rows)
        TN_FAIL(error, TN_E_INVALID,
                "a batch of %u row numbers; this table was opened for batches of %u (batch_rows)",
                batch->row_count, e->batch_rows);
    for (uint32_t i = 0; i < batch->row_count; i++)
        if (batch->rows[i] >= e->table.rows)
            TN_FAIL(error, TN_E_INVALID,
                    "place %u of the batch asks for row %u; the table has rows 0 to %" PRIu64, i,
                    batch->rows[i], e->table.rows - 1);
    if (batch->bags == NULL && batch->bag_count != batch->row_count)
        TN_FAIL(error, TN_E_INVALID, "without bags each of the %u rows is one, not %u",
                batch->row_count, batch->bag_count);
    for (uint32_t i = 0; batch->bags != NULL && i < batch->bag_count; i++)
        if (batch->bags[i] > batch->row_count || batch->bags[i] < (i > 0 ? batch->bags[i - 1] : 0))
            TN_FAIL(error, TN_E_INVALID,
                    "bag %u begins at place %u: bags begin one after the other, within the %u "
                    "places of the batch",
                    i, batch->bags[i], batch->row_count);
    if (batch->bags != NULL && (batch->bag_count == 0 ? batch->row_count > 0 : batch->bags[0] > 0))
        TN_FAIL(error, TN_E_INVALID, "the first bag begins at place 0 of the batch");
    return TN_OK;
}

/* --- beginning and ending a batch --- */

static tn_status batch_going(void *self, uint32_t slot, tn_error *error) {
    tn_embedding *e = self;
    if (!(e->r.slots[slot].flags & TN__SLOT_DIRTY)) return TN_OK;
    return tn__move_out(e, slot, error);
}

/* A step of a heap sort, with which batch_distinct counts the distinct rows of a batch in memory
 * that the batch already has. */
static void batch_sift(uint32_t *heap, uint32_t root, uint32_t count) {
    for (uint64_t child; (child = 2 * (uint64_t)root + 1) < count; root = (uint32_t)child) {
        if (child + 1 < count && heap[child + 1] > heap[child]) child++;
        if (heap[root] >= heap[child]) return;
        uint32_t lesser = heap[root];
        heap[root] = heap[child];
        heap[child] = lesser;
    }
}

static uint32_t batch_distinct(const tn_embedding_batch *batch, uint32_t *heap) {
    uint32_t count = batch->row_count, distinct = 0, last = TN__ROW_NONE;
    memcpy(heap, batch->rows, count * sizeof *heap);
    for (uint32_t root = count / 2; root-- > 0;) batch_sift(heap, root, count);
    for (; count > 0; count--) {
        distinct += heap[0] != last;
        last = heap[0];
        heap[0] = heap[count - 1];
        batch_sift(heap, 0, count - 1);
    }
    return distinct;
}

/* Reports that the cache is too small for a batch. The message states the cache size that would
 * suffice. */
static tn_status batch_refuse(tn_embedding *e, const tn_embedding_batch *batch, uint32_t *scratch,
                              tn_error *error) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    char text[TN_SIZE_TEXT_MAX] = "more";
    uint32_t distinct = batch_distinct(batch, scratch);
    uint64_t bytes, rows = (uint64_t)distinct + e->r.locked;
    options.policy = e->facts.policy;
    options.reader = e->facts.reader;
    options.batch_rows = e->batch_rows;
    options.batch_count = e->batch_count;
    if (rows > e->table.rows) rows = e->table.rows;
    if (tn_embedding_bytes(&e->table, &options, (uint32_t)rows, &bytes, NULL) == TN_OK)
        (void)tn_size_format(bytes, text);
    TN_FAIL(error, TN_E_EXHAUSTED,
            "a batch with %u different rows does not fit: the cache has room for %u, and "
            "open batches have locked %u of them; a cache of %s would do",
            distinct, e->r.slot_count, e->r.locked, text);
}

static tn_status batch_hold(tn_embedding *e, uint32_t number, tn_error *error) {
    tn__ticket *ticket = &e->tickets[number];
    const tn_embedding_batch *batch = &ticket->batch;
    tn__movers movers = {e, batch_going};
    tn__hold *hold = &ticket->hold;
    hold->row_count = batch->row_count;
    tn_status status = tn__residents_hold(&e->r, number, batch->rows, hold, &movers, error);
    if (status == TN_E_EXHAUSTED) return batch_refuse(e, batch, hold->distinct, error);
    TN_TRY(status);
    ticket->is_open = true;
    e->facts.lookups += hold->row_count;
    e->facts.lookup_hits += hold->lookup_hits;
    e->facts.distinct += hold->distinct_count;
    e->facts.hits += hold->hits;
    return TN_OK;
}

static void batch_read(tn_embedding *e, const tn__hold *hold) {
    for (uint32_t i = hold->hits; i < hold->distinct_count; i++) tn__move_in(e, hold->distinct[i]);
    if (tn__row_io_is_busy(&e->io)) tn__row_io_start(&e->io);
}

tn_status tn_embedding_begin(tn_embedding *e, const tn_embedding_batch *batch, uint32_t *ticket,
                             tn_error *error) {
    uint32_t number = 0;
    TN_TRY(batch_check(e, batch, error));
    while (number < e->batch_count && e->tickets[number].is_open) number++;
    if (number == e->batch_count)
        TN_FAIL(error, TN_E_INVALID, "%u batches are open already (batch_count)", e->batch_count);
    TN_TRY(tn__move_settle(e, error));
    e->tickets[number].batch = *batch;
    tn_status status = batch_hold(e, number, error);
    if (status != TN_OK) {
        /* start the writes of evicted rows, which make slots free */
        if (tn__row_io_is_busy(&e->io)) tn__row_io_start(&e->io);
        return status;
    }
    batch_read(e, &e->tickets[number].hold);
    *ticket = number;
    return TN_OK;
}

tn_status tn_embedding_end(tn_embedding *e, uint32_t number, tn_error *error) {
    if (number >= e->batch_count || !e->tickets[number].is_open)
        TN_FAIL(error, TN_E_INVALID, "no open batch has the ticket %u", number);
    tn__ticket *ticket = &e->tickets[number];
    /* A failure to read rows is ignored, because the caller got that error when it asked for the
     * sums. */
    (void)tn__move_await(e, ticket, NULL);
    tn__residents_let(&e->r, number, &ticket->hold, NULL);
    ticket->is_open = false;
    return TN_OK;
}

/* --- bags --- */

static uint32_t batch_bag_end(const tn_embedding_batch *batch, uint32_t bag) {
    return bag + 1 < batch->bag_count ? batch->bags[bag + 1] : batch->row_count;
}

/* Returns the bag to which a position belongs: the last one that begins at the position or before
 * it. */
static uint32_t batch_bag_of(const tn_embedding_batch *batch, uint32_t place) {
    if (batch->bags == NULL) return place;
    uint32_t low = 0, high = batch->bag_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (batch->bags[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the factor of a row in the sum of its bag. */
static float batch_factor(const tn_embedding_batch *batch, uint32_t place, uint32_t bag) {
    float factor = batch->weights != NULL ? batch->weights[place] : 1;
    if (!batch->mean || batch->bags == NULL) return factor;
    return factor / (float)(batch_bag_end(batch, bag) - batch->bags[bag]);
}

/* --- sums --- */

/* Returns a row as float32: the row itself, or a copy in `room` if the table has another type. */
static const float *batch_floats(const tn_embedding *e, uint32_t slot, float *room) {
    const char *row = tn__cache_row(e, slot);
    if (e->table.type == TN_FLOAT32) return (const float *)(const void *)row;
    tn__convert(e->table.type, row, TN_FLOAT32, room, e->table.dim);
    return room;
}

static void batch_add(float *restrict sum, const float *restrict row, uint32_t dim) {
    for (uint32_t d = 0; d < dim; d++) sum[d] += row[d];
}

static void batch_add_times(float *restrict sum, const float *restrict row, float factor,
                            uint32_t dim) {
    for (uint32_t d = 0; d < dim; d++) sum[d] += factor * row[d];
}

static void batch_divide(float *sum, float by, uint32_t dim) {
    for (uint32_t d = 0; d < dim; d++) sum[d] /= by;
}

static void batch_sum_bag(tn_embedding *e, const tn__ticket *ticket, uint32_t bag, float *sum) {
    const tn_embedding_batch *batch = &ticket->batch;
    uint32_t first = batch->bags != NULL ? batch->bags[bag] : bag, dim = e->table.dim;
    uint32_t end = batch->bags != NULL ? batch_bag_end(batch, bag) : bag + 1;
    memset(sum, 0, dim * sizeof *sum);
    for (uint32_t place = first; place < end; place++) {
        if (place + BATCH_AHEAD < batch->row_count)
            __builtin_prefetch(tn__cache_row(e, ticket->hold.slot_of[place + BATCH_AHEAD]));
        const float *row = batch_floats(e, ticket->hold.slot_of[place], e->scratch);
        if (batch->weights == NULL)
            batch_add(sum, row, dim);
        else
            batch_add_times(sum, row, batch->weights[place], dim);
    }
    if (batch->mean && end - first > 1) batch_divide(sum, (float)(end - first), dim);
}

tn_status tn_embedding_sums(tn_embedding *e, uint32_t number, float *sums, tn_error *error) {
    tn__ticket *ticket = NULL;
    TN_TRY(cache_ticket(e, number, &ticket, error));
    TN_TRY(tn__move_await(e, ticket, error));
    for (uint32_t bag = 0; bag < ticket->batch.bag_count; bag++)
        batch_sum_bag(e, ticket, bag, sums + (size_t)bag * e->table.dim);
    return TN_OK;
}

tn_status tn_embedding_lookup(tn_embedding *e, const tn_embedding_batch *batch, float *sums,
                              tn_error *error) {
    uint32_t ticket;
    TN_TRY(tn_embedding_begin(e, batch, &ticket, error));
    tn_status status = tn_embedding_sums(e, ticket, sums, error);
    tn_status ended = tn_embedding_end(e, ticket, error);
    return status != TN_OK ? status : ended;
}

/* --- updates --- */

/* Called before a row is changed. If the row equals the one in the file, adds it to the journal and
 * marks it as changed. */
static tn_status batch_touch(tn_embedding *e, uint32_t slot, tn_error *error) {
    if (e->r.slots[slot].flags & TN__SLOT_DIRTY) return TN_OK;
    TN_TRY(tn__journal_add(e, slot, error));
    e->r.slots[slot].flags |= TN__SLOT_DIRTY;
    return TN_OK;
}

static tn_status batch_writable(tn_embedding *e, uint32_t number, tn__ticket **ticket,
                                tn_error *error) {
    if (e->read_only) TN_FAIL(error, TN_E_UNSUPPORTED, "the table is open for reading alone");
    TN_TRY(cache_ticket(e, number, ticket, error));
    return tn__move_await(e, *ticket, error);
}

static void batch_chain(tn_embedding *e, const tn__hold *hold) {
    for (uint32_t i = 0; i < hold->distinct_count; i++)
        e->r.slots[hold->distinct[i]].mark = TN__SLOT_NONE;
    for (uint32_t place = hold->row_count; place-- > 0;) {
        tn__slot *slot = &e->r.slots[hold->slot_of[place]];
        e->chain[place] = slot->mark;
        slot->mark = place;
    }
}

/* Sums the gradient of one row over all its positions, into e->scratch. */
static void batch_gradient(tn_embedding *e, const tn__ticket *ticket, uint32_t slot,
                           const float *gradients) {
    const tn_embedding_batch *batch = &ticket->batch;
    uint32_t dim = e->table.dim;
    memset(e->scratch, 0, dim * sizeof *e->scratch);
    for (uint32_t place = e->r.slots[slot].mark; place != TN__SLOT_NONE; place = e->chain[place]) {
        uint32_t bag = batch_bag_of(batch, place);
        const float *gradient = gradients + (size_t)bag * dim;
        float factor = batch_factor(batch, place, bag);
        batch_add_times(e->scratch, gradient, factor, dim);
    }
}

static void batch_adagrad(float *restrict row, float *restrict state, const float *restrict g,
                          const tn_embedding_step *step, uint32_t dim) {
    for (uint32_t d = 0; d < dim; d++) {
        state[d] += g[d] * g[d];
        row[d] -= step->rate * g[d] / (sqrtf(state[d]) + step->epsilon);
    }
}

static float batch_rowwise(float *state, const float *g, const tn_embedding_step *step,
                           uint32_t dim) {
    float sum = 0;
    for (uint32_t d = 0; d < dim; d++) sum += g[d] * g[d];
    *state += sum / (float)dim;
    return step->rate / (sqrtf(*state) + step->epsilon);
}

static void batch_update_row(tn_embedding *e, uint32_t slot, const tn_embedding_step *step) {
    char *bytes = tn__cache_row(e, slot);
    uint32_t dim = e->table.dim;
    bool direct = e->table.type == TN_FLOAT32;
    float *row = direct ? (float *)(void *)bytes : e->second;
    float *state = (float *)(void *)(bytes + e->value_bytes), rate = step->rate;
    if (!direct) tn__convert(e->table.type, bytes, TN_FLOAT32, row, dim);
    if (e->table.rule == TN_EMBEDDING_ADAGRAD) {
        batch_adagrad(row, state, e->scratch, step, dim);
    } else {
        if (e->table.rule == TN_EMBEDDING_ROWWISE_ADAGRAD)
            rate = batch_rowwise(state, e->scratch, step, dim);
        batch_add_times(row, e->scratch, -rate, dim);
    }
    if (!direct) tn__convert(TN_FLOAT32, row, e->table.type, bytes, dim);
}

tn_status tn_embedding_update(tn_embedding *e, uint32_t number, const float *gradients,
                              const tn_embedding_step *step, tn_error *error) {
    tn__ticket *ticket = NULL;
    TN_TRY(batch_writable(e, number, &ticket, error));
    batch_chain(e, &ticket->hold);
    for (uint32_t i = 0; i < ticket->hold.distinct_count; i++) {
        uint32_t slot = ticket->hold.distinct[i];
        TN_TRY(batch_touch(e, slot, error));
        batch_gradient(e, ticket, slot, gradients);
        batch_update_row(e, slot, step);
    }
    return TN_OK;
}

tn_status tn_embedding_put(tn_embedding *e, uint32_t number, const float *values, tn_error *error) {
    tn__ticket *ticket = NULL;
    TN_TRY(batch_writable(e, number, &ticket, error));
    for (uint32_t place = 0; place < ticket->hold.row_count; place++) {
        uint32_t slot = ticket->hold.slot_of[place];
        char *row = tn__cache_row(e, slot);
        TN_TRY(batch_touch(e, slot, error));
        memset(row, 0, e->row_bytes);
        tn__convert(TN_FLOAT32, values + (size_t)place * e->table.dim, e->table.type, row,
                    e->table.dim);
    }
    return TN_OK;
}
