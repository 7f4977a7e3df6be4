/* trace.c - recorded lookups: reads them from a text file, or draws them at random by popularity,
 * and replays them.
 *
 * Ranks of popularity are drawn from a Zipf distribution by rejection-inversion: the area below the
 * density is inverted in closed form, and the small difference to the discrete distribution is
 * rejected. This needs no table, and O(1) per draw for any number of rows. Ranks are then mapped to
 * rows by a multiplication modulo the number of rows, so that popular rows are not adjacent.
 * Source: Hormann, Derflinger: Rejection-inversion to generate variates from monotone discrete
 * distributions, 1996.
 */
#include "run/embedding/trace.h"
#include "engine/rows/policy.h"

#include <inttypes.h>
#include <math.h>

const uint32_t *tn_embedding_trace_rows(const tn_embedding_trace *trace, uint64_t *count) {
    *count = trace->count;
    return trace->rows;
}

void tn_embedding_trace_destroy(tn_embedding_trace *trace) {
    if (trace == NULL) return;
    tn_context context = trace->context;
    tn__free(&context, trace->rows, trace->room * sizeof *trace->rows);
    tn__free(&context, trace, sizeof *trace);
}

static tn_embedding_trace *trace_make(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_embedding_trace *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made != NULL) made->context = context;
    return made;
}

static tn_status trace_finish(tn_embedding_trace *made, tn_status status,
                              tn_embedding_trace **trace) {
    if (status == TN_OK)
        *trace = made;
    else
        tn_embedding_trace_destroy(made);
    return status;
}

/* --- text --- */

static tn_status trace_line(tn_embedding_trace *trace, const char *line, size_t size,
                            tn_error *error) {
    int64_t row = -1;
    while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == ' ')) size--;
    if (size == 0 || line[0] == '#') return TN_OK;
    if (!tn__take_integer(&line, &size, &row) || size > 0 || row < 0)
        TN_FAIL(error, TN_E_INVALID, "a line must be a row number, from 0 up");
    if (row >= TN_EMBEDDING_ROWS_MAX)
        TN_FAIL(error, TN_E_INVALID, "row %" PRId64 ": a table has at most 2^32 - 2 rows", row);
    if (!tn__reserve(&trace->context, &trace->rows, &trace->room, trace->count + 1,
                     sizeof *trace->rows))
        return tn__no_memory(error, "recorded lookups");
    trace->rows[trace->count++] = (uint32_t)row;
    return TN_OK;
}

static tn_status trace_read(tn_embedding_trace *trace, const tn__file *file, const char *path,
                            tn_error *error) {
    const char *at = (const char *)file->bytes, *end = at + file->size;
    for (uint64_t number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        tn_status status = trace_line(trace, at, (size_t)(stop - at), error);
        if (status != TN_OK) return tn__where(error, status, "%s:%" PRIu64, path, number);
        at = stop + 1;
    }
    if (trace->count > 0) return TN_OK;
    return tn__where(error, tn__fail(error, TN_E_INVALID, "no row numbers are in it"), "%s", path);
}

tn_status tn_embedding_trace_load(const char *path, const tn_context *context,
                                  tn_embedding_trace **trace, tn_error *error) {
    tn__file file;
    tn_embedding_trace *made = trace_make(context);
    if (made == NULL) return tn__no_memory(error, "recorded lookups");
    tn_status status = tn__file_map_most(path, made->context.read_limit, &file, error);
    if (status == TN_OK) {
        status = trace_read(made, &file, path, error);
        tn__file_unmap(&file);
    }
    return trace_finish(made, status, trace);
}

/* --- drawn --- */

typedef struct trace_zipf {
    double exponent;
    double first, last; /* range of areas, from which a number is drawn */
    /* a rank that is at most this far above its draw is accepted without further computation */
    double near;
    uint64_t rows, factor;
    tn__random random;
} trace_zipf;

/* Returns the area below x^-s from 1 to x; trace_inverse returns the x for an area. Both are also
 * accurate near s = 1. */
static double trace_area(const trace_zipf *zipf, double x) {
    double power = 1 - zipf->exponent, log_x = log(x), t = power * log_x;
    return fabs(t) > 1e-8 ? log_x * expm1(t) / t : log_x * (1 + t / 2);
}

static double trace_inverse(const trace_zipf *zipf, double area) {
    double t = area * (1 - zipf->exponent);
    if (t < -1) t = -1;
    return exp(fabs(t) > 1e-8 ? log1p(t) / t * area : area * (1 - t / 2));
}

static double trace_density(const trace_zipf *zipf, double x) {
    return exp(-zipf->exponent * log(x));
}

static uint64_t trace_common(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static tn_status zipf_open(trace_zipf *zipf, const tn_embedding_zipf *wanted, tn_error *error) {
    if (wanted->rows == 0 || wanted->rows > TN_EMBEDDING_ROWS_MAX)
        TN_FAIL(error, TN_E_INVALID, "a table has from 1 to 2^32 - 2 rows, not %" PRIu64,
                wanted->rows);
    if (!(wanted->exponent >= 0 && wanted->exponent <= 10))
        TN_FAIL(error, TN_E_INVALID, "the exponent of Zipf's law is from 0 to 10, not %g",
                wanted->exponent);
    *zipf = (trace_zipf){.exponent = wanted->exponent,
                         .rows = wanted->rows,
                         .random = {wanted->seed ^ UINT64_C(0x7a697066)}};
    zipf->first = trace_area(zipf, 1.5) - 1;
    zipf->last = trace_area(zipf, (double)wanted->rows + 0.5);
    zipf->near = 2 - trace_inverse(zipf, trace_area(zipf, 2.5) - trace_density(zipf, 2));
    zipf->factor = UINT64_C(2654435761) % zipf->rows;
    if (zipf->factor == 0) zipf->factor = 1;
    while (trace_common(zipf->factor, zipf->rows) != 1) zipf->factor++;
    return TN_OK;
}

static uint32_t zipf_next(trace_zipf *zipf) {
    for (;;) {
        double u = (double)(tn__random_next(&zipf->random) >> 11) * 0x1p-53;
        double area = zipf->last + u * (zipf->first - zipf->last), x = trace_inverse(zipf, area);
        double rank = floor(x + 0.5);
        rank = rank < 1 ? 1 : rank > (double)zipf->rows ? (double)zipf->rows : rank;
        if (rank - x > zipf->near &&
            area < trace_area(zipf, rank + 0.5) - trace_density(zipf, rank))
            continue;
        return (uint32_t)((uint64_t)(rank - 1) * zipf->factor % zipf->rows);
    }
}

tn_status tn_embedding_trace_zipf(const tn_embedding_zipf *wanted, const tn_context *context,
                                  tn_embedding_trace **trace, tn_error *error) {
    trace_zipf zipf = {0};
    TN_TRY(zipf_open(&zipf, wanted, error));
    if (wanted->lookups == 0) TN_FAIL(error, TN_E_INVALID, "a run has at least one lookup");
    tn_embedding_trace *made = trace_make(context);
    if (made == NULL) return tn__no_memory(error, "recorded lookups");
    tn_status status = TN_OK;
    made->rows = wanted->lookups <= SIZE_MAX
                     ? tn__alloc_array(&made->context, (size_t)wanted->lookups, sizeof *made->rows)
                     : NULL;
    if (made->rows == NULL)
        status = tn__no_memory(error, "recorded lookups");
    else
        made->room = made->count = (size_t)wanted->lookups;
    for (size_t i = 0; i < made->count; i++) made->rows[i] = zipf_next(&zipf);
    return trace_finish(made, status, trace);
}

/* --- replay ----------------------------------------------------------------------------------- */

/* Counts the hits of a policy in a recorded run, using the index of resident rows without their
 * data.
 *
 * A policy that sees the future gets, for each lookup, the number of the next lookup of its row.
 * These numbers are computed from the end of the run, with a table of the latest lookup seen for
 * each row.
 */

#define REPLAY_SHOWS ((uint64_t)1 << 20) /* number of lookups between two progress reports */

typedef struct replay {
    tn_context context;
    const tn_embedding_trace *trace;
    uint32_t batch;
    tn__residents r;
    tn__hold hold;
    uint64_t *next;       /* for each lookup: the next lookup of its row; NULL: not needed */
    uint64_t *next_of;    /* for each distinct row of a batch: its next lookup */
    uint64_t state_bytes; /* bytes of the policy's state */
    tn_error *error;
} replay;

static tn_status replay_reserve(replay *it) {
    tn__residents *r = &it->r;
    r->index_count = tn__index_count(r->slot_count);
    it->state_bytes = tn__policy_bytes(r->policy, r->slot_count);
    r->slots = tn__alloc_array(&it->context, r->slot_count, sizeof *r->slots);
    r->index = tn__alloc_array(&it->context, r->index_count, sizeof *r->index);
    r->state = tn__alloc_array(&it->context, 1, (size_t)it->state_bytes);
    it->hold.slot_of = tn__alloc_array(&it->context, it->batch, sizeof *it->hold.slot_of);
    it->hold.distinct = tn__alloc_array(&it->context, it->batch, sizeof *it->hold.distinct);
    it->next_of = tn__alloc_array(&it->context, it->batch, sizeof *it->next_of);
    bool done = r->slots != NULL && r->index != NULL && r->state != NULL &&
                it->hold.slot_of != NULL && it->hold.distinct != NULL && it->next_of != NULL;
    return done ? TN_OK : tn__no_memory(it->error, "the rows of a recorded run");
}

static void replay_release(replay *it) {
    tn__residents *r = &it->r;
    tn__free(&it->context, r->slots, r->slot_count * sizeof *r->slots);
    tn__free(&it->context, r->index, r->index_count * sizeof *r->index);
    tn__free(&it->context, r->state, (size_t)it->state_bytes);
    tn__free(&it->context, it->hold.slot_of, it->batch * sizeof *it->hold.slot_of);
    tn__free(&it->context, it->hold.distinct, it->batch * sizeof *it->hold.distinct);
    tn__free(&it->context, it->next_of, it->batch * sizeof *it->next_of);
    tn__free(&it->context, it->next, it->trace->count * sizeof *it->next);
}

/* --- the next lookup of each row --- */

typedef struct replay_last {
    uint32_t row;
    uint64_t seen; /* number of the lookup, plus one; 0: the entry is free */
} replay_last;

static replay_last *replay_find(replay_last *table, uint64_t count, uint32_t row) {
    uint64_t hash = (row + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t place = (hash ^ hash >> 32) & (count - 1);
    while (table[place].seen != 0 && table[place].row != row) place = (place + 1) & (count - 1);
    return &table[place];
}

/* Fills it->next, and counts the distinct rows of the run in *cold. */
static tn_status replay_look_ahead(replay *it, uint64_t *cold) {
    uint64_t count = it->trace->count, room = 16;
    while (room < count + count / 2) room *= 2;
    replay_last *table = tn__alloc_array(&it->context, (size_t)room, sizeof *table);
    if (table == NULL) return tn__no_memory(it->error, "the future of a recorded run");
    it->next = tn__alloc_array(&it->context, (size_t)count, sizeof *it->next);
    for (uint64_t i = count; it->next != NULL && i-- > 0;) {
        replay_last *last = replay_find(table, room, it->trace->rows[i]);
        *cold += last->seen == 0;
        it->next[i] = last->seen == 0 ? TN__ROW_NEVER : last->seen - 1;
        *last = (replay_last){it->trace->rows[i], i + 1};
    }
    tn__free(&it->context, table, (size_t)room * sizeof *table);
    return it->next != NULL ? TN_OK : tn__no_memory(it->error, "the future of a recorded run");
}

/* Sets next_of[k], the position of the next lookup of distinct row k after this batch. If the batch
 * has the row several times, its last occurrence gives that position. */
static void replay_set_next(replay *it, uint64_t first) {
    for (uint32_t k = 0; k < it->hold.distinct_count; k++)
        it->r.slots[it->hold.distinct[k]].mark = k;
    for (uint32_t i = 0; i < it->hold.row_count; i++)
        it->next_of[it->r.slots[it->hold.slot_of[i]].mark] = it->next[first + i];
}

/* --- replaying the lookups --- */

static tn_status replay_batch(replay *it, uint64_t first, tn_embedding_replayed *replayed) {
    tn__hold *hold = &it->hold;
    uint64_t left = it->trace->count - first;
    hold->row_count = left < it->batch ? (uint32_t)left : it->batch;
    tn_status status =
        tn__residents_hold(&it->r, 0, it->trace->rows + first, hold, NULL, it->error);
    if (status == TN_E_EXHAUSTED)
        TN_FAIL(it->error, status,
                "the batch at lookup %" PRIu64 " has more different rows than the %u that there "
                "is room for; give a larger cache, or smaller batches",
                first, it->r.slot_count);
    if (it->next != NULL) replay_set_next(it, first);
    tn__residents_let(&it->r, 0, hold, it->next != NULL ? it->next_of : NULL);
    replayed->lookups += hold->row_count;
    replayed->lookup_hits += hold->lookup_hits;
    replayed->distinct += hold->distinct_count;
    replayed->hits += hold->hits;
    return status;
}

static tn_status replay_all(replay *it, tn_embedding_replayed *replayed) {
    const tn_context *context = &it->context;
    uint64_t shown = 0;
    for (uint64_t first = 0; first < it->trace->count; first += it->batch) {
        TN_TRY(replay_batch(it, first, replayed));
        if (context->progress == NULL || first - shown < REPLAY_SHOWS) continue;
        shown = first;
        if (!context->progress(context->self, it->r.policy->name, first, it->trace->count))
            TN_FAIL(it->error, TN_E_STOPPED, "stopped");
    }
    return TN_OK;
}

tn_status tn_embedding_replay(const tn_embedding_trace *trace,
                              const tn_embedding_replay_options *given,
                              tn_embedding_replayed *replayed, tn_error *error) {
    tn_embedding_replay_options options = TN_EMBEDDING_REPLAY_OPTIONS_INIT;
    tn_embedding_replayed found = {0};
    tn__options(&options, sizeof options, given);
    const tn__row_policy *policy = tn__row_policy_find(options.policy, error);
    if (policy == NULL) return TN_E_UNKNOWN;
    if (options.slots == 0) TN_FAIL(error, TN_E_INVALID, "there must be room for at least one row");
    replay it = {.context = tn__context(options.context),
                 .trace = trace,
                 .batch = options.batch != 0 ? options.batch : 1,
                 .r = {.policy = policy,
                       .slot_count = options.slots,
                       .sample = options.sample != 0 ? options.sample : 16,
                       .random = {options.seed}},
                 .error = error};
    /* a run has at most as many rows as lookups */
    if (it.r.slot_count > trace->count) it.r.slot_count = (uint32_t)trace->count;
    if (it.r.slot_count > TN__SLOTS_MAX) it.r.slot_count = TN__SLOTS_MAX;
    if (it.batch > trace->count) it.batch = (uint32_t)trace->count;
    tn_status status = replay_reserve(&it);
    if (status == TN_OK && policy->sees_future) status = replay_look_ahead(&it, &found.cold);
    if (status == TN_OK) {
        tn__residents_open(&it.r);
        status = replay_all(&it, &found);
    }
    replay_release(&it);
    if (status == TN_OK) *replayed = found;
    return status;
}
