/* shared_objects.c - the code around every strategy for shared objects: it checks the records,
 * sorts them, sets the limits, calls the strategy and verifies the result.
 *
 * A strategy gets the records sorted by first step, ties in the caller's order. Strategies that go
 * over time rely on that, and a result does not depend on the given order of records of different
 * steps. Every assignment passes tn_objects_verify before it is returned.
 */
#include "plan/sharing/object.h"
#include "plan/problem/problem.h"

#include <inttypes.h>

#define TN_OBJECTS(name) extern const tn_object_strategy tn__##name;
#include "plan/objects.def"
#undef TN_OBJECTS

static const tn_object_strategy *const strategies[] = {
#define TN_OBJECTS(name) &tn__##name,
#include "plan/objects.def"
#undef TN_OBJECTS
};

uint32_t tn_object_strategy_count(void) {
    return (uint32_t)(sizeof strategies / sizeof *strategies);
}
const char *tn_object_strategy_name(uint32_t index) { return strategies[index]->name; }
const char *tn_object_strategy_summary(uint32_t index) { return strategies[index]->summary; }
const char *tn_object_strategy_source(uint32_t index) { return strategies[index]->source; }

const tn_object_strategy *tn__object_strategy_at(uint32_t index) { return strategies[index]; }

const tn_object_strategy *tn__object_strategy_find(const char *name) {
    for (uint32_t i = 0; i < tn_object_strategy_count(); i++)
        if (strcmp(strategies[i]->name, name) == 0) return strategies[i];
    return NULL;
}

uint32_t tn__size_rank(tn_size_kind kind) { return (uint32_t)kind + 1; }

/* --- functions for strategies --- */

uint32_t tn__object_new(tn_object_run *run, uint32_t id) {
    tn_assert(run->object[id] == UINT32_MAX);
    uint32_t object = run->object_count++;
    memcpy(run->size[object], run->records[id].size, sizeof *run->size);
    run->object_bulk[object] = run->bulk[id];
    run->object[id] = object;
    return object;
}

void tn__object_join(tn_object_run *run, uint32_t id, uint32_t object) {
    tn_assert(run->object[id] == UINT32_MAX && object < run->object_count);
    run->object[id] = object;
    if (run->kind != TN_SIZE_BYTES || run->bulk[id] <= run->object_bulk[object]) return;
    run->size[object][0] = run->object_bulk[object] = run->bulk[id];
}

/* Removes all objects of the run, and marks all records as having no object. */
static void objects_clear(tn_object_run *run) {
    for (uint32_t i = 0; i < run->count; i++) run->object[i] = UINT32_MAX;
    run->object_count = 0;
}

static uint64_t objects_total(const tn_object_run *run) {
    /* does not overflow: the total is at most the sum of the sizes of all records, which was
     * checked before */
    uint64_t total = 0;
    for (uint32_t i = 0; i < run->object_count; i++) total += run->object_bulk[i];
    return total;
}

static bool objects_has_edge(const tn_edges *edges, uint32_t from, uint32_t to) {
    uint32_t low = edges->begin[from], high = edges->begin[from + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (edges->target[middle] == to) return true;
        if (edges->target[middle] < to)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

bool tn__object_may_follow(const tn_object_run *run, uint32_t before, uint32_t next) {
    if (run->reallocation == NULL) return true;
    return objects_has_edge(run->reallocation, run->original[before], run->original[next]);
}

#define OBJECTS_LOOK_EVERY 64u /* number of units of work between two checks of the clock */

tn_status tn__object_work(tn_object_run *run, uint64_t units) {
    bool look = run->work / OBJECTS_LOOK_EVERY != (run->work + units) / OBJECTS_LOOK_EVERY;
    run->work += units;
    if (run->work_limit != 0 && run->work > run->work_limit)
        TN_FAIL(run->error, TN_E_STOPPED, "%s: the work limit of %" PRIu64 " is reached",
                run->strategy->name, run->work_limit);
    if (!look) return TN_OK;
    if (run->deadline_s != 0 && tn__clock_s() >= run->deadline_s)
        TN_FAIL(run->error, TN_E_STOPPED, "%s: stopped after %" PRIu64 " units of work",
                run->strategy->name, run->work);
    if (run->context->progress != NULL &&
        !run->context->progress(run->context->self, "objects", run->work, run->work_limit))
        TN_FAIL(run->error, TN_E_STOPPED, "cancelled after %" PRIu64 " units of work", run->work);
    return TN_OK;
}

void *tn__object_scratch(tn_object_run *run, size_t count, size_t item) {
    return tn__arena_array(&run->scratch, count, item);
}

static bool objects_answer_arrays(tn_object_run *run) {
    run->object = tn__object_scratch(run, run->count, sizeof *run->object);
    run->size = tn__object_scratch(run, run->count, sizeof *run->size);
    run->object_bulk = tn__object_scratch(run, run->count, sizeof *run->object_bulk);
    if (run->object == NULL || run->size == NULL || run->object_bulk == NULL) return false;
    objects_clear(run);
    return true;
}

tn_status tn__object_try(tn_object_run *run, const tn_object_strategy *strategy,
                         uint64_t work_limit, bool needed) {
    tn_object_run inner = *run;
    inner.strategy = strategy;
    if (work_limit != 0) inner.work_limit = run->work + work_limit;
    if (run->work_limit != 0 && (work_limit == 0 || inner.work_limit > run->work_limit))
        inner.work_limit = run->work_limit;
    tn__arena_init(&inner.scratch, run->context);
    tn_status status = objects_answer_arrays(&inner) ? strategy->solve(&inner) : TN_E_NO_MEMORY;
    bool first = run->object_count == 0;
    if (status == TN_OK && (first || objects_total(&inner) < objects_total(run))) {
        memcpy(run->object, inner.object, run->count * sizeof *run->object);
        memcpy(run->size, inner.size, inner.object_count * sizeof *run->size);
        memcpy(run->object_bulk, inner.object_bulk, inner.object_count * sizeof(uint64_t));
        run->object_count = inner.object_count;
        run->strategy = inner.strategy;
    }
    run->work = inner.work;
    tn__arena_release(&inner.scratch);
    return status == TN_E_STOPPED && !needed ? TN_OK : status;
}

/* --- preparing --- */

typedef struct objects_key {
    int64_t first;
    uint32_t id;
} objects_key;

static int objects_by_first(const void *a, const void *b) {
    const objects_key *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Computes the bytes or elements of a record; false if there are more than 2^63 - 1. */
static bool objects_bulk(const tn_object_record *record, tn_size_kind kind, uint64_t *bulk) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < tn__size_rank(kind); i++)
        if (!tn__mul(product, record->size[i], &product)) return false;
    *bulk = product;
    return product <= (uint64_t)INT64_MAX;
}

static tn_status objects_check(const tn_object_record *records, uint32_t count, tn_size_kind kind,
                               tn_error *error) {
    uint64_t sum = 0, bulk = 0;
    if ((uint32_t)kind > TN_SIZE_BHWC) TN_FAIL(error, TN_E_INVALID, "no such kind of size");
    if (count == UINT32_MAX) TN_FAIL(error, TN_E_INVALID, "too many records");
    for (uint32_t i = 0; i < count; i++) {
        const tn_object_record *record = &records[i];
        if (record->first >= record->last)
            TN_FAIL(error, TN_E_INVALID,
                    "record %u lives in [%" PRId64 ", %" PRId64 "), which is empty", i,
                    record->first, record->last);
        if (record->alignment != 0 && !tn__is_power_of_two(record->alignment))
            TN_FAIL(error, TN_E_INVALID, "record %u: its alignment is not a power of two", i);
        if (!objects_bulk(record, kind, &bulk) || !tn__add(sum, bulk, &sum) ||
            sum > TN__PLAN_HEIGHT_MAX)
            TN_FAIL(error, TN_E_INVALID, "record %u: the sizes exceed 2^63 - 1 in sum", i);
    }
    return TN_OK;
}

static tn_status objects_check_edges(const tn_edges *edges, uint32_t vertex_count,
                                     tn_error *error) {
    if (edges->vertex_count < vertex_count)
        TN_FAIL(error, TN_E_INVALID, "the graph has %u vertices, there are %u records",
                edges->vertex_count, vertex_count);
    for (uint32_t v = 0; v < edges->vertex_count; v++)
        if (edges->begin[v] > edges->begin[v + 1])
            TN_FAIL(error, TN_E_INVALID, "the lists of the graph overlap at vertex %u", v);
    for (uint32_t i = 0; i < edges->begin[edges->vertex_count]; i++)
        if (edges->target[i] >= edges->vertex_count)
            TN_FAIL(error, TN_E_INVALID, "the graph leads to vertex %u, which there is not",
                    edges->target[i]);
    return TN_OK;
}

static tn_status objects_refuse(const tn_object_strategy *strategy, tn_size_kind kind,
                                const tn_edges *reallocation, tn_error *error) {
    static const char *const kinds[] = {"bytes", "2-vectors", "3-vectors", "shapes"};
    if (!(strategy->features & 1u << kind))
        TN_FAIL(error, TN_E_UNSUPPORTED, "strategy %s is not defined for sizes that are %s",
                strategy->name, kinds[kind]);
    if (reallocation != NULL && !(strategy->features & TN_OBJECTS_REALLOCATION))
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "strategy %s does not know reallocation graphs; use greedy-in-order",
                strategy->name);
    return TN_OK;
}

static tn_status objects_order(tn_object_run *run, const tn_object_record *given) {
    uint32_t count = run->count;
    objects_key *keys = tn__object_scratch(run, count, sizeof *keys);
    tn_object_record *records = tn__object_scratch(run, count, sizeof *records);
    uint32_t *original = tn__object_scratch(run, count, sizeof *original);
    uint64_t *bulk = tn__object_scratch(run, count, sizeof *bulk);
    if (keys == NULL || records == NULL || original == NULL || bulk == NULL ||
        !objects_answer_arrays(run))
        return tn__no_memory(run->error, "an assignment of objects");
    for (uint32_t i = 0; i < count; i++) keys[i] = (objects_key){given[i].first, i};
    qsort(keys, count, sizeof *keys, objects_by_first);
    for (uint32_t i = 0; i < count; i++) {
        original[i] = keys[i].id;
        records[i] = given[keys[i].id];
        bool known = objects_bulk(&records[i], run->kind, &bulk[i]);
        tn_assert(known);
        (void)known;
    }
    run->records = records;
    run->original = original;
    run->bulk = bulk;
    return TN_OK;
}

/* --- handing over --- */

/* Allocates one block for the sizes of objects and for the object of each record. The block comes
 * from malloc, because the result outlives the context's allocator. */
static tn_status objects_create(uint32_t record_count, uint32_t object_count, tn_objects *objects,
                                tn_error *error) {
    size_t bytes = (size_t)object_count * sizeof *objects->size +
                   ((size_t)record_count + 1) * sizeof *objects->object;
    char *block = calloc(1, bytes);
    if (block == NULL) return tn__no_memory(error, "an assignment of objects");
    *objects = (tn_objects){
        .size = (void *)block, .record_count = record_count, .object_count = object_count};
    objects->object = (void *)(block + (size_t)object_count * sizeof *objects->size);
    return TN_OK;
}

void tn_objects_release(tn_objects *objects) {
    if (objects == NULL) return;
    free(objects->size);
    *objects = (tn_objects){0};
}

static tn_status objects_take(const tn_object_run *run, const tn_object_record *records,
                              uint64_t bound, tn_objects *objects) {
    TN_TRY(objects_create(run->count, run->object_count, objects, run->error));
    for (uint32_t i = 0; i < run->count; i++) objects->object[run->original[i]] = run->object[i];
    if (run->object_count > 0)
        memcpy(objects->size, run->size, run->object_count * sizeof *run->size);
    objects->kind = run->kind;
    objects->total = objects_total(run);
    objects->lower_bound = bound;
    objects->verdict = objects->total == bound ? TN_VERDICT_OPTIMAL : TN_VERDICT_FEASIBLE;
    objects->strategy = run->strategy->name;
    objects->work = run->work;
    tn_error why = {0};
    tn_status status = tn_objects_verify(records, run->count, run->reallocation, objects, &why);
    if (status == TN_OK && bound > objects->total)
        status = tn__fail(run->error, TN_E_INTERNAL, "the bound of objects is above their total");
    else if (status == TN_E_CONFLICT)
        status = tn__fail(run->error, TN_E_INTERNAL,
                          "strategy %s made an assignment that is not valid: %.200s",
                          run->strategy->name, why.message);
    else if (status != TN_OK)
        status = tn__fail(run->error, status, "%s", why.message);
    if (status != TN_OK) tn_objects_release(objects);
    return status;
}

static tn_status objects_bound(tn_object_run *run, const tn_object_record *records,
                               uint64_t *bound) {
    uint64_t *maximums = tn__object_scratch(run, run->count, sizeof *maximums);
    uint32_t found;
    if (maximums == NULL) return tn__no_memory(run->error, "the bound of objects");
    TN_TRY(tn_objects_maximums(records, run->count, run->kind, run->context, maximums, &found,
                               run->error));
    *bound = 0;
    for (uint32_t i = 0; i < found; i++) *bound += maximums[i];
    return TN_OK;
}

tn_status tn__objects_plan_with(const tn_object_strategy *strategy, const tn_object_record *records,
                                uint32_t count, const tn_objects_options *options,
                                tn_objects *objects, tn_error *error) {
    tn_objects_options own = TN_OBJECTS_OPTIONS_INIT;
    tn__options(&own, sizeof own, options);
    TN_TRY(objects_check(records, count, own.kind, error));
    TN_TRY(objects_refuse(strategy, own.kind, own.reallocation, error));
    if (own.reallocation != NULL) TN_TRY(objects_check_edges(own.reallocation, count, error));
    double start = tn__clock_s();
    tn_context context = tn__context(own.context);
    tn_object_run run = {.count = count,
                         .kind = own.kind,
                         .reallocation = own.reallocation,
                         .strategy = strategy,
                         .context = &context,
                         .work_limit = own.work_limit,
                         .deadline_s = own.timeout_s > 0 ? start + own.timeout_s : 0,
                         .error = error};
    tn_objects made = {0};
    uint64_t bound = 0;
    tn__arena_init(&run.scratch, &context);
    tn_status status = objects_order(&run, records);
    if (status == TN_OK) status = objects_bound(&run, records, &bound);
    if (status == TN_OK && count > 0) status = strategy->solve(&run);
    if (status == TN_E_NO_MEMORY) tn__no_memory(error, "a strategy for objects");
    if (status == TN_OK) status = objects_take(&run, records, bound, &made);
    tn__arena_release(&run.scratch);
    if (status != TN_OK) return status;
    made.seconds = tn__clock_s() - start;
    *objects = made;
    return TN_OK;
}

tn_status tn_objects_plan(const tn_object_record *records, uint32_t count,
                          const tn_objects_options *options, tn_objects *objects, tn_error *error) {
    const char *name = options != NULL && options->strategy != NULL ? options->strategy : "auto";
    const tn_object_strategy *strategy = tn__object_strategy_find(name);
    if (strategy == NULL) {
        char asked[TN__NEAR_TEXT];
        TN_FAIL(error, TN_E_UNKNOWN, "no strategy for objects is called '%.60s'; %s", name,
                tn__near_of(name, tn_object_strategy_count(), tn_object_strategy_name,
                            "see `tn_object_strategy_name`", asked));
    }
    return tn__objects_plan_with(strategy, records, count, options, objects, error);
}

/* --- objects as offsets --- */

tn_status tn_objects_offsets(const tn_object_record *records, const tn_objects *objects,
                             uint64_t *offsets, uint64_t *total, tn_error *error) {
    if (objects->kind != TN_SIZE_BYTES)
        TN_FAIL(error, TN_E_UNSUPPORTED, "objects of vectors have no size in bytes");
    size_t count = objects->object_count;
    uint64_t *alignment = calloc(2 * count + 1, sizeof *alignment), *begin = alignment + count;
    if (alignment == NULL) return tn__no_memory(error, "the offsets of objects");
    for (uint32_t i = 0; i < objects->record_count; i++)
        if (records[i].alignment > alignment[objects->object[i]])
            alignment[objects->object[i]] = records[i].alignment;
    uint64_t top = 0;
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++) {
        fits = tn__align_up(top, alignment[i] > 0 ? alignment[i] : 1, &begin[i]) &&
               tn__add(begin[i], objects->size[i][0], &top) && top <= TN__PLAN_HEIGHT_MAX;
    }
    for (uint32_t i = 0; fits && i < objects->record_count; i++)
        offsets[i] = begin[objects->object[i]];
    free(alignment);
    if (!fits) TN_FAIL(error, TN_E_INVALID, "the objects end beyond 2^63 - 1 bytes");
    if (total != NULL) *total = top;
    return TN_OK;
}
