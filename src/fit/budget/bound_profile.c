/* bound_profile.c - selects the jobs that are worth examining: those at which the most bytes must
 * be live or recomputed.
 *
 * In a fixed order, these are the values made up to a job and read after it. If first runs may be
 * reordered, only a value that an ancestor (or the job) makes and a descendant (or the end) reads
 * is certain to be live across it. This is counted for 64 jobs at a time with one bit per job,
 * starting with the jobs that need the most bytes in the fixed order. Cost: O(jobs + operands), and
 * the same for every 64 jobs.
 */
#include "fit/budget/bound.h"

typedef struct profile {
    const tn__work *work;
    uint64_t *bytes;         /* [jobs] */
    uint64_t *above, *below; /* [jobs] bits of the jobs of which it is an ancestor, or a
                              * descendant */
    tn__sort_item *items;    /* [jobs] sorted by the bytes in the fixed order, most first */
} profile;

static void profile_list(profile *p) {
    const tn__work *work = p->work;
    memset(p->bytes, 0, ((size_t)work->job_count + 1) * sizeof *p->bytes);
    for (uint32_t v = 0; v < work->value_count; v++) {
        const tn__value *it = &work->values[v];
        uint32_t first = it->maker == TN_NONE ? 0 : it->maker, last = first;
        if (tn__lists_count(&work->reads, v) > 0) last = tn__lists_last(&work->reads, v);
        if (it->flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) last = work->job_count - 1;
        p->bytes[first] += it->bytes;
        p->bytes[last + 1] -= it->bytes;
    }
    for (uint32_t j = 1; j < work->job_count; j++) p->bytes[j] += p->bytes[j - 1];
}

/* --- first runs in any order ---------------------------------------------------------------- */

/* The i-th job that must have run before; TN_NONE: there is no further one. */
static uint32_t profile_from(const tn__work *work, uint32_t job, uint32_t i) {
    const tn__job *it = &work->jobs[job];
    if (i >= it->input_count) return work->others[it->after_first + i - it->input_count];
    return work->values[work->operands[it->input_first + i]].maker;
}

static void profile_spread(profile *p) {
    const tn__work *work = p->work;
    for (uint32_t j = work->job_count; j-- > 0;)
        for (uint32_t i = 0; i < work->jobs[j].input_count + work->jobs[j].after_count; i++) {
            uint32_t from = profile_from(work, j, i);
            if (from != TN_NONE) p->above[from] |= p->above[j];
        }
    for (uint32_t j = 0; j < work->job_count; j++)
        for (uint32_t i = 0; i < work->jobs[j].input_count + work->jobs[j].after_count; i++) {
            uint32_t from = profile_from(work, j, i);
            if (from != TN_NONE) p->below[j] |= p->below[from];
        }
}

/* The jobs among the 64 across which a value is live, or of which it is an operand. */
static uint64_t profile_crosses(const profile *p, uint32_t v, uint64_t all) {
    const tn__lists *reads = &p->work->reads;
    const tn__value *value = &p->work->values[v];
    if (value->flags & (TN__VALUE_KEPT | TN__VALUE_HELD))
        return value->maker == TN_NONE ? all : p->above[value->maker];
    uint64_t read = 0;
    for (uint32_t i = reads->first[v]; i < reads->first[v + 1]; i++)
        read |= p->below[reads->items[i]];
    return value->maker == TN_NONE ? read : read & p->above[value->maker];
}

static void profile_cross(profile *p, const tn__sort_item *items, uint32_t count) {
    const tn__work *work = p->work;
    uint64_t all = count == 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
    memset(p->above, 0, work->job_count * sizeof *p->above);
    memset(p->below, 0, work->job_count * sizeof *p->below);
    for (uint32_t i = 0; i < count; i++) {
        p->above[items[i].id] = p->below[items[i].id] = (uint64_t)1 << i;
        p->bytes[items[i].id] = 0;
    }
    profile_spread(p);
    for (uint32_t v = 0; v < work->value_count; v++)
        for (uint64_t left = profile_crosses(p, v, all); left; left &= left - 1)
            p->bytes[items[__builtin_ctzll(left)].id] += work->values[v].bytes;
}

static uint64_t profile_operands(const tn__work *work) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < work->job_count; j++)
        sum += work->jobs[j].input_count + work->jobs[j].after_count;
    return sum;
}

/* Covers as many jobs as the effort allows; the profile of the others is 0. */
static bool profile_any_order(profile *p, uint64_t effort, const tn_context *context) {
    uint32_t jobs = p->work->job_count, done = 0;
    uint64_t each = profile_operands(p->work) + p->work->value_count;
    for (uint32_t j = 0; j < jobs; j++) p->items[j] = (tn__sort_item){~p->bytes[j], j};
    if (!tn__sort_items(context, p->items, jobs)) return false;
    for (uint64_t spent = 0; done < jobs && spent <= effort; spent += each) {
        uint32_t count = jobs - done < 64 ? jobs - done : 64;
        profile_cross(p, p->items + done, count);
        done += count;
    }
    for (; done < jobs; done++) p->bytes[p->items[done].id] = 0;
    return true;
}

uint64_t *tn__bound_profile(const tn__work *work, bool is_ordered, uint64_t effort,
                            tn__arena *arena, const tn_context *context) {
    profile p = {.work = work};
    size_t jobs = (size_t)work->job_count + 1;
    p.bytes = tn__arena_array(arena, jobs, sizeof *p.bytes);
    if (p.bytes == NULL) return NULL;
    profile_list(&p);
    if (is_ordered) return p.bytes;
    p.above = tn__arena_array(arena, jobs, sizeof *p.above);
    p.below = tn__arena_array(arena, jobs, sizeof *p.below);
    p.items = tn__arena_array(arena, jobs, sizeof *p.items);
    if (p.above == NULL || p.below == NULL || p.items == NULL) return NULL;
    return profile_any_order(&p, effort, context) ? p.bytes : NULL;
}
