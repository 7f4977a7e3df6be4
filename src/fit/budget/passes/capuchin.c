/* capuchin.c - swaps and recomputes values, guided by the times at which tensors are accessed.
 *
 * First the passive mode of the paper is used: swapping on demand, which needs no knowledge of the
 * future. The paper then measures an execution; here the accesses of a run and their times are the
 * idle intervals of the schedule graph, on a time axis made of its costs. The policy then repeats
 * the following step: it looks at the job that is most above the budget, and chooses one idle
 * interval that contains it, by two numbers:
 *
 *     FT    free time of a swap: from the end of the copy out to the start of the copy back. If FT
 *           >= 0, compute hides both copies; such intervals are chosen first, the largest FT first
 *     MSPS  memory saving per second of recomputation: bytes saved per unit of time, including the
 *           time for all sources that are evicted by then. If no interval is hidden, the one with
 *           the largest MSPS is compared, per byte, with the swap that makes compute wait least
 *
 * A choice changes the costs of other choices, because a source may now be evicted; therefore costs
 * are computed anew for each choice. A copy back starts at the last job that leaves enough time for
 * it (its in-trigger), but not before memory was above the budget for the last time. Compute waits
 * for a copy out only where its memory is needed. Then comes guided execution with feedback: the
 * schedule is timed, and if a value arrives late, its in-trigger is moved ahead by a twentieth of
 * the time of its copy, as long as that helps.
 *
 * The policy runs three times (with swaps and recomputation, and with each alone), and the fastest
 * result within the budget is kept. This is necessary because FT considers the queue of copies out,
 * but not later uses of the link. Cost: O(choices * (actions + idle intervals)). Source: Peng et
 * al., "Capuchin" (2020).
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/sorted.h"
#include "fit/budget/algorithms/idle.h"

/* The times of copies in both directions of the host link, on the time axis of a run without
 * waits. */
typedef struct tn__capuchin_clock {
    tn__idles *gaps;
    /* the last job at which memory would be above the budget if all values were kept; copies back
     * begin after it */
    uint32_t window_last;
    uint64_t *lead; /* [idle intervals] additional time by which the copy back starts earlier */
    /* [idle intervals] the job before which compute waits for the copy out at the latest */
    uint32_t *settle_by;
    uint32_t *trigger_from; /* [idle intervals] the first job at which the copy back may start */
    tn__sort_item *order;   /* [swap_count] swapped idle intervals in the order of `leave` */
    tn__sort_item *returns; /* [swap_count] swapped idle intervals in the order of `back` */
    uint64_t *busy; /* [swap_count] time at which each copy out ends, in the order of `order` */
    /* [swap_count] latest time at which each copy back may start so that its reader does not wait,
     * in the order of `returns` */
    uint64_t *due;
    uint32_t swap_count;
} tn__capuchin_clock;

/* --- times of copies if compute waits for none ------------------------------------------------ */

/* Computes the times of copies out and back if compute waits for none of them.
 *
 * Each direction of the host link is a resource of the clock (a lane of program/clock.h). A copy
 * out begins after the value's last access, or after the previous copy out. Copies back are placed
 * as late as possible: each ends before its value is read and before the next copy back begins.
 * Cost: O(idle intervals + jobs); O(log idle intervals) to look up one free time.
 */

/* Allocates the clock in the arena of the run. Errors: E_NO_MEMORY. */
static tn_status capuchin_clock_make(tn__capuchin_clock *clock, tn__idles *gaps) {
    tn__arena *arena = gaps->run->arena;
    size_t count = (size_t)gaps->count + 1;
    clock->gaps = gaps;
    clock->lead = tn__arena_array(arena, count, sizeof *clock->lead);
    clock->settle_by = tn__arena_array(arena, count, sizeof *clock->settle_by);
    clock->trigger_from = tn__arena_array(arena, count, sizeof *clock->trigger_from);
    clock->order = tn__arena_array(arena, count, sizeof *clock->order);
    clock->returns = tn__arena_array(arena, count, sizeof *clock->returns);
    clock->busy = tn__arena_array(arena, count, sizeof *clock->busy);
    clock->due = tn__arena_array(arena, count, sizeof *clock->due);
    if (clock->lead == NULL || clock->settle_by == NULL || clock->trigger_from == NULL ||
        clock->order == NULL || clock->returns == NULL || clock->busy == NULL || clock->due == NULL)
        return tn__no_memory(gaps->run->error, "capuchin");
    return TN_OK;
}

/* Returns Capuchin's FT (free time) of an idle interval that is not swapped yet, if the copies of
 * the swapped intervals come first. If positive, it is the time between the two copies; if
 * negative, the time for which compute would wait. */
static int64_t capuchin_ft(const tn__capuchin_clock *clock, uint32_t index) {
    const tn__idle *gap = &clock->gaps->list[index];
    const uint64_t *starts = clock->gaps->starts;
    uint32_t before = (uint32_t)tn__sorted_find(clock->order, clock->swap_count, gap->leave);
    uint32_t behind = (uint32_t)tn__sorted_find(clock->returns, clock->swap_count, gap->back);
    tn__lane out = {.at = before > 0 ? clock->busy[before - 1] : 0};
    uint64_t end = tn__lane_put(&out, starts[gap->leave + 1], tn__idles_out(clock->gaps, gap));
    uint64_t due = behind < clock->swap_count ? clock->due[behind] : UINT64_MAX;
    double by = (double)(starts[gap->back] < due ? starts[gap->back] : due);
    double ft = by - (double)tn__idles_in(clock->gaps, gap) - (double)end;
    return ft > -9e18 ? (int64_t)ft : INT64_MIN / 2;
}

static tn_status clock_list(tn__capuchin_clock *clock) {
    const tn__idles *gaps = clock->gaps;
    clock->swap_count = 0;
    for (uint32_t g = 0; g < gaps->count; g++) {
        if (gaps->list[g].how != TN__IDLE_SWAP) continue;
        clock->order[clock->swap_count] = (tn__sort_item){gaps->list[g].leave, g};
        clock->returns[clock->swap_count++] = (tn__sort_item){gaps->list[g].back, g};
    }
    const tn_context *context = &gaps->run->context;
    if (!tn__sort_items(context, clock->order, clock->swap_count) ||
        !tn__sort_items(context, clock->returns, clock->swap_count))
        return tn__no_memory(gaps->run->error, "swaps");
    return TN_OK;
}

static uint32_t clock_clip(uint32_t job, uint32_t least, uint32_t most) {
    if (job > most) job = most;
    return job < least ? least : job;
}

static void clock_settle(tn__capuchin_clock *clock) {
    const tn__idles *gaps = clock->gaps;
    tn__lane out = {0};
    for (uint32_t i = 0; i < clock->swap_count; i++) {
        uint32_t index = clock->order[i].id;
        tn__idle *gap = &gaps->list[index];
        clock->busy[i] = tn__lane_put(&out, gaps->starts[gap->leave + 1], tn__idles_out(gaps, gap));
        uint32_t settle = tn__clock_step(gaps->starts, gaps->run->dag->job_count, out.at);
        if (settle > clock->settle_by[index]) settle = clock->settle_by[index];
        gap->settle = clock_clip(settle, gap->leave + 1, gap->back);
    }
}

static void clock_trigger(tn__capuchin_clock *clock) {
    const tn__idles *gaps = clock->gaps;
    tn__lane in = {.at = UINT64_MAX};
    for (uint32_t i = clock->swap_count; i-- > 0;) {
        uint32_t index = clock->returns[i].id;
        tn__idle *gap = &gaps->list[index];
        uint64_t ahead = tn__add_sat(tn__idles_in(gaps, gap), clock->lead[index]);
        tn__lane_put_before(&in, gaps->starts[gap->back], ahead);
        clock->due[i] = in.at;
        uint32_t job =
            tn__clock_step(gaps->starts, gaps->run->dag->job_count, tn__add_sat(in.at, 1));
        job = job > 0 ? job - 1 : 0; /* takes the last job that starts at or before this time */
        uint32_t least = gap->settle;
        if (gap->back > clock->window_last && least <= clock->window_last)
            least = clock->window_last + 1;
        if (clock->trigger_from[index] > least) least = clock->trigger_from[index];
        gap->trigger = clock_clip(job, least < gap->back ? least : gap->back, gap->back);
    }
}

/* Sets `settle` and `trigger` of all swapped idle intervals: the jobs at which compute waits for
 * the copy out, and at which the copy back starts. Errors: E_NO_MEMORY. Cost: O(idle intervals +
 * jobs). */
static tn_status capuchin_place(tn__capuchin_clock *clock) {
    TN_TRY(clock_list(clock));
    clock_settle(clock);
    clock_trigger(clock);
    return TN_OK;
}

/* --- passive mode ----------------------------------------------------------------------------- */

/* Swaps values on demand, the least recently accessed value first.
 *
 * Of the future, only whether a value is accessed again is known. This is the mode of a first run
 * in the paper, and the result if the policies find no schedule. It is slow, because compute waits
 * for each copy. Cost: O(jobs * values). Source: Peng et al., "Capuchin" (2020), passive mode.
 */

typedef struct passive_state {
    const tn__pass_run *run;
    const tn__idles *gaps;
    tn__schedule *schedule;
    bool *here, *host; /* [values] */
    /* [values] 1 + the last job that accessed the value so far; 0: no job has accessed it */
    uint32_t *touched;
    uint64_t used;
    bool possible;
} passive_state;

static tn_status passive_action(passive_state *s, tn__action_kind kind, uint32_t what) {
    return tn__schedule_add(s->schedule, (tn__action){.kind = (uint8_t)kind, .what = what},
                            s->run->error);
}

static bool passive_may_go(const passive_state *s, uint32_t value, uint32_t job) {
    const tn__dag_value *it = &s->run->dag->values[value];
    uint32_t last = tn__dag_last(s->run->dag, value);
    bool copies = (it->flags & (TN__VALUE_COPIES | TN__VALUE_HELD)) == TN__VALUE_COPIES;
    return copies && s->here[value] && it->bytes > 0 && s->touched[value] != job + 1 &&
           last != TN_NONE && last > job;
}

/* Copies values to the host and evicts them, the least recently accessed first, until `bytes` more
 * bytes fit. A value with a copy on the host is not copied again. Sets s->possible to false if too
 * few values can be evicted. */
static tn_status passive_room(passive_state *s, uint64_t bytes, uint32_t job) {
    const tn__dag *dag = s->run->dag;
    while (tn__add_sat(s->used, bytes) > s->run->budget) {
        uint32_t oldest = TN_NONE;
        for (uint32_t v = 0; v < dag->value_count; v++)
            if (passive_may_go(s, v, job) &&
                (oldest == TN_NONE || s->touched[v] < s->touched[oldest]))
                oldest = v;
        if (oldest == TN_NONE) {
            s->possible = false;
            return TN_OK;
        }
        if (!s->host[oldest]) {
            TN_TRY(passive_action(s, TN__OUT, oldest));
            TN_TRY(passive_action(s, TN__SETTLE, oldest));
        }
        s->host[oldest] = true;
        s->here[oldest] = false;
        s->used -= dag->values[oldest].bytes;
    }
    return TN_OK;
}

/* Ends the live ranges of those of the given values that no later job accesses. */
static void passive_end(passive_state *s, uint32_t job, const uint32_t *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const tn__dag_value *it = &s->run->dag->values[value[i]];
        uint32_t last = tn__dag_last(s->run->dag, value[i]);
        bool stays = (it->flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) != 0;
        bool later = last != TN_NONE && last > job;
        if (stays || later || !s->here[value[i]]) continue;
        s->here[value[i]] = false;
        s->used -= it->bytes;
    }
}

static tn_status passive_job(passive_state *s, uint32_t job) {
    const tn__dag *dag = s->run->dag;
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(dag, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(dag, job, false, &outputs);
    uint64_t need = dag->jobs[job].scratch;
    for (uint32_t i = 0; i < inputs; i++) s->touched[input[i]] = job + 1;
    for (uint32_t k = 0; k < outputs; k++) s->touched[output[k]] = job + 1;
    for (uint32_t k = 0; k < outputs; k++) need = tn__add_sat(need, dag->values[output[k]].bytes);
    for (uint32_t i = 0; i < inputs; i++)
        if (!s->here[input[i]]) need = tn__add_sat(need, dag->values[input[i]].bytes);
    TN_TRY(passive_room(s, need, job));
    for (uint32_t i = 0; i < inputs && s->possible; i++) {
        if (s->here[input[i]]) continue;
        TN_TRY(passive_action(s, TN__IN, input[i]));
        s->here[input[i]] = true;
        s->used += dag->values[input[i]].bytes;
    }
    for (uint32_t k = 0; k < outputs; k++) {
        s->here[output[k]] = true;
        s->used += dag->values[output[k]].bytes;
    }
    TN_TRY(passive_action(s, TN__RUN, job));
    passive_end(s, job, input, inputs);
    passive_end(s, job, output, outputs);
    return TN_OK;
}

/* Begins with the values that exist from the start; those that no job reads are not counted. */
static void passive_begin(passive_state *s) {
    const tn__dag *dag = s->run->dag;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        bool read = tn__dag_last(dag, v) != TN_NONE ||
                    (dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) != 0;
        s->here[v] = dag->values[v].maker == TN_NONE && read;
        if (s->here[v]) s->used = tn__add_sat(s->used, dag->values[v].bytes);
    }
}

/* Swapping on demand. If a job does not find room, the least recently accessed values are copied to
 * the host at once; evicted inputs are copied back at once.
 * possible  out: false if a job still does not find room
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs values). */
static tn_status passive_run(tn__idles *gaps, tn__schedule *schedule, bool *possible) {
    const tn__pass_run *run = gaps->run;
    size_t values = (size_t)run->dag->value_count + 1;
    passive_state s = {.run = run, .gaps = gaps, .schedule = schedule, .possible = true};
    s.here = tn__arena_array(run->arena, values, sizeof *s.here);
    s.host = tn__arena_array(run->arena, values, sizeof *s.host);
    s.touched = tn__arena_array(run->arena, values, sizeof *s.touched);
    if (s.here == NULL || s.host == NULL || s.touched == NULL)
        return tn__no_memory(run->error, "what is swapped");
    schedule->count = 0;
    passive_begin(&s);
    for (uint32_t j = 0; j < run->dag->job_count && s.possible; j++) {
        TN_TRY(passive_job(&s, j));
        TN_TRY(tn__pass_work(gaps->run, 4));
    }
    *possible = s.possible;
    return TN_OK;
}

/* --- policy ----------------------------------------------------------------------------------- */

#define CAPUCHIN_FEEDBACK 40 /* limit for the rounds of feedback */

typedef struct capuchin_state {
    tn__pass_run *run;
    tn__idles gaps;
    tn__capuchin_clock clock;
    tn__schedule schedule;
    /* TN__ALLOW_SWAP and TN__ALLOW_RECOMPUTE, as far as the current policy uses them */
    uint32_t allow;
    uint64_t *profile; /* [jobs] bytes that would be live during each job if all values were kept */
    /* [idle intervals] time for which a reader waited for the copy back, in the last timed run */
    uint64_t *late;
    tn__text said;  /* explanations of the policy that made the kept schedule */
    uint32_t worst; /* the job during which the current schedule needs the most bytes */
    tn__replay found;
} capuchin_state;

static uint64_t capuchin_bytes(const capuchin_state *s, uint32_t gap) {
    return s->run->dag->values[s->gaps.list[gap].value].bytes;
}

/* --- the schedule of the choices --- */

/* Returns the first job that has not run before the action with this index. Jobs have their first
 * runs in the order of their numbers. */
static uint32_t capuchin_job_of(const capuchin_state *s, uint32_t action) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < action; i++)
        if (s->schedule.actions[i].kind == TN__RUN && s->schedule.actions[i].what == next) next++;
    return next;
}

static tn_status capuchin_build(capuchin_state *s, bool *possible) {
    TN_TRY(capuchin_place(&s->clock));
    TN_TRY(tn__idles_schedule(&s->gaps, &s->schedule, possible));
    if (!*possible) return TN_OK;
    TN_TRY(tn__replay_schedule(s->run->dag, &s->schedule, &s->found, NULL, s->run->error));
    s->worst = capuchin_job_of(s, s->found.peak_action);
    return tn__pass_work(s->run, s->schedule.count + s->gaps.count);
}

/* --- choosing --- */

typedef struct capuchin_offer {
    uint32_t gap; /* the chosen idle interval; TN_NONE: no idle interval was found */
    tn__idle_how how;
    int64_t ft;
    uint64_t overhead; /* additional time of the run, in the unit of costs */
} capuchin_offer;

/* Whether choice a takes less time per byte than choice b. */
static bool capuchin_cheaper(const capuchin_state *s, const capuchin_offer *a,
                             const capuchin_offer *b) {
    if (b->gap == TN_NONE) return true;
    double x = (double)a->overhead / (double)capuchin_bytes(s, a->gap);
    double y = (double)b->overhead / (double)capuchin_bytes(s, b->gap);
    return x < y;
}

static void capuchin_look(capuchin_state *s, uint32_t index, capuchin_offer *hidden,
                          capuchin_offer *exposed, capuchin_offer *recompute) {
    const tn__idle *gap = &s->gaps.list[index];
    if ((s->allow & TN__ALLOW_SWAP) && (s->run->dag->values[gap->value].flags & TN__VALUE_COPIES)) {
        capuchin_offer swap = {index, TN__IDLE_SWAP, capuchin_ft(&s->clock, index), 0};
        if (swap.ft < 0) swap.overhead = (uint64_t)-swap.ft;
        if (swap.ft >= 0 && (hidden->gap == TN_NONE || swap.ft > hidden->ft)) *hidden = swap;
        if (swap.ft < 0 && capuchin_cheaper(s, &swap, exposed)) *exposed = swap;
    }
    if (!(s->allow & TN__ALLOW_RECOMPUTE)) return;
    capuchin_offer run = {index, TN__IDLE_RECOMPUTE, 0, tn__idles_recompute_cost(&s->gaps, index)};
    if (run.overhead != UINT64_MAX && capuchin_cheaper(s, &run, recompute)) *recompute = run;
}

/* Writes in words how MSPS (bytes saved per second of recomputation) follows from this time to
 * recompute the value of an idle interval. */
static void capuchin_explain_msps(const capuchin_state *s, uint32_t gap, uint64_t takes, char *text,
                                  size_t size) {
    double bytes = (double)capuchin_bytes(s, gap);
    if (takes == UINT64_MAX)
        snprintf(text, size, "it cannot be recomputed");
    else
        snprintf(text, size, "MSPS %.4g bytes a unit of time, takes %" PRIu64,
                 takes > 0 ? bytes / (double)takes : bytes, takes);
}

static void capuchin_explain(capuchin_state *s, const capuchin_offer *offer) {
    char why[200], msps[100];
    bool swaps = offer->how == TN__IDLE_SWAP;
    if (s->run->explain == NULL) return;
    uint64_t takes = swaps ? tn__idles_recompute_cost(&s->gaps, offer->gap) : offer->overhead;
    capuchin_explain_msps(s, offer->gap, takes, msps, sizeof msps);
    if (swaps)
        snprintf(why, sizeof why, "FT %" PRId64 "%s; recomputing it: %s", offer->ft,
                 offer->ft >= 0 ? ", hidden" : ", exposed, and still the least for a byte", msps);
    else
        snprintf(why, sizeof why, "%s", msps);
    tn__idles_explain(&s->gaps, offer->gap, offer->how == TN__IDLE_SWAP ? "swap" : "compute again",
                      why);
}

/* Decides to swap or recompute the value of one more idle interval that contains the job with the
 * most bytes. Returns false if there is no interval to choose. */
static bool capuchin_choose(capuchin_state *s) {
    capuchin_offer hidden = {.gap = TN_NONE}, exposed = hidden, recompute = hidden;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__idle *gap = &s->gaps.list[g];
        if (gap->how == TN__IDLE_KEEP && gap->leave < s->worst && gap->back > s->worst)
            capuchin_look(s, g, &hidden, &exposed, &recompute);
    }
    const capuchin_offer *best = &hidden;
    if (best->gap == TN_NONE) best = recompute.gap != TN_NONE ? &recompute : &exposed;
    if (best == &recompute && exposed.gap != TN_NONE && capuchin_cheaper(s, &exposed, &recompute))
        best = &exposed;
    if (best->gap == TN_NONE) return false;
    s->gaps.list[best->gap].how = best->how;
    capuchin_explain(s, best);
    return true;
}

/* Called if no idle interval is left to choose. It makes compute wait for the first copy out, or
 * delays a copy back, or evicts recomputed sources after use. Returns false if nothing is left to
 * change. */
static bool capuchin_relieve(capuchin_state *s) {
    uint32_t first = TN_NONE, job = s->worst;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__idle *gap = &s->gaps.list[g];
        if (gap->how != TN__IDLE_SWAP || gap->leave >= job || gap->back < job) continue;
        if (job < gap->settle && (first == TN_NONE || gap->leave < s->gaps.list[first].leave))
            first = g;
    }
    if (first != TN_NONE) {
        s->clock.settle_by[first] = job;
        tn__idles_explain(&s->gaps, first, "wait for", "its memory is needed before it is copied");
        return true;
    }
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__idle *gap = &s->gaps.list[g];
        if (gap->how != TN__IDLE_SWAP || gap->trigger > job || gap->back <= job) continue;
        if (gap->leave >= job) continue;
        s->clock.trigger_from[g] = job + 1;
        tn__idles_explain(&s->gaps, g, "fetch later", "there is no room for it so early");
        return true;
    }
    if (!s->gaps.recompute_first) return false;
    /* values recomputed as sources of others do not stay live any more */
    s->gaps.recompute_first = false;
    return true;
}

/* --- the policy, guided execution --- */

/* Called by tn__pass_time when a job waits for a swapped value: records how long it waited. */
static void capuchin_note(void *self, uint32_t value, uint32_t job, uint64_t time) {
    capuchin_state *s = self;
    for (uint32_t g = s->gaps.first[value]; g < s->gaps.first[value + 1]; g++)
        if (s->gaps.list[g].back == job && s->gaps.list[g].how == TN__IDLE_SWAP) s->late[g] = time;
}

static tn_status capuchin_feedback(capuchin_state *s) {
    const tn__pass_watch watch = {capuchin_note, s};
    bool kept, possible = true;
    for (int round = 0; round < CAPUCHIN_FEEDBACK; round++) {
        bool any = false;
        for (uint32_t g = 0; g < s->gaps.count; g++) s->late[g] = 0;
        if (tn__pass_time(s->run, &s->schedule, &watch) == UINT64_MAX)
            return tn__no_memory(s->run->error, "feedback");
        for (uint32_t g = 0; g < s->gaps.count; g++) {
            if (s->late[g] == 0) continue;
            uint64_t copy = tn__idles_in(&s->gaps, &s->gaps.list[g]);
            s->clock.lead[g] = tn__add_sat(s->clock.lead[g], copy / 20 + 1);
            if (round == 0) tn__idles_explain(&s->gaps, g, "fetch earlier", "it came too late");
            any = true;
        }
        if (!any) return TN_OK;
        TN_TRY(capuchin_build(s, &possible));
        if (!possible) return TN_OK;
        TN_TRY(tn__pass_offer(s->run, &s->schedule, &kept));
        /* an earlier copy back made the schedule exceed the budget, so this attempt is not kept */
        if (s->found.peak > s->run->budget) return TN_OK;
    }
    return TN_OK;
}

static void capuchin_clear(capuchin_state *s, uint32_t allow) {
    s->allow = allow;
    s->gaps.recompute_first = true;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        s->gaps.list[g].how = TN__IDLE_KEEP;
        s->clock.lead[g] = 0;
        s->clock.settle_by[g] = UINT32_MAX;
        s->clock.trigger_from[g] = 0;
    }
}

static tn_status capuchin_decide(capuchin_state *s) {
    bool possible, kept;
    TN_TRY(capuchin_build(s, &possible));
    while (possible && s->found.peak > s->run->budget) {
        if (!capuchin_choose(s) && !capuchin_relieve(s)) return TN_OK;
        TN_TRY(capuchin_build(s, &possible));
    }
    if (!possible) return TN_OK;
    TN_TRY(tn__pass_offer(s->run, &s->schedule, &kept));
    return capuchin_feedback(s);
}

/* Runs the policy once with the allowed techniques. Its explanations are kept only if the run keeps
 * its schedule. */
static tn_status capuchin_policy(capuchin_state *s, uint32_t allow) {
    tn__text *explain = s->run->explain, said;
    uint64_t before = s->run->has_best ? s->run->time : UINT64_MAX;
    tn__text_init(&said, &s->run->context);
    capuchin_clear(s, allow);
    s->run->explain = explain != NULL ? &said : NULL;
    tn_status status = capuchin_decide(s);
    s->run->explain = explain;
    if (s->run->has_best && s->run->time < before) {
        tn__text swap = s->said;
        s->said = said;
        said = swap;
    }
    tn__text_release(&said);
    return status;
}

/* Computes the bytes during each job if all values are kept, and finds the last job at which they
 * exceed the budget. Offers this schedule to the run; *fits: it is within the budget. */
static tn_status capuchin_measure(capuchin_state *s, bool *fits) {
    bool possible;
    TN_TRY(tn__idles_schedule(&s->gaps, &s->schedule, &possible));
    TN_TRY(tn__replay_schedule(s->run->dag, &s->schedule, &s->found, s->profile, s->run->error));
    /* the schedule that keeps all values has one action for each job */
    for (uint32_t j = 0; j < s->schedule.count; j++)
        if (s->profile[j] > s->run->budget) s->clock.window_last = j;
    return tn__pass_offer(s->run, &s->schedule, fits);
}

static tn_status capuchin_make(capuchin_state *s) {
    tn__arena *arena = s->run->arena;
    TN_TRY(tn__idles_find(s->run, &s->gaps));
    size_t gaps = (size_t)s->gaps.count + 1;
    s->profile = tn__arena_array(arena, (size_t)s->run->dag->job_count + 1, sizeof *s->profile);
    s->late = tn__arena_array(arena, gaps, sizeof *s->late);
    if (s->profile == NULL || s->late == NULL) return tn__no_memory(s->run->error, "capuchin");
    return capuchin_clock_make(&s->clock, &s->gaps);
}

static tn_status capuchin_passive(capuchin_state *s) {
    bool possible = false, kept = false;
    TN_TRY(passive_run(&s->gaps, &s->schedule, &possible));
    if (possible) TN_TRY(tn__pass_offer(s->run, &s->schedule, &kept));
    if (kept && s->run->explain != NULL)
        tn__text_printf(s->run->explain, "%s: on demand it takes %" PRIu64 "\n", s->run->pass->name,
                        s->run->time);
    return TN_OK;
}

static tn_status capuchin_all(capuchin_state *s) {
    const tn__pass_run *run = s->run;
    bool fits, swaps = (run->allow & TN__ALLOW_SWAP) && run->out_rate > 0 && run->in_rate > 0;
    uint32_t recompute = run->allow & TN__ALLOW_RECOMPUTE;
    TN_TRY(capuchin_make(s));
    TN_TRY(capuchin_measure(s, &fits));
    if (fits) return TN_OK;
    if (swaps) TN_TRY(capuchin_passive(s));
    if (swaps && recompute) TN_TRY(capuchin_policy(s, TN__ALLOW_SWAP | recompute));
    if (swaps) TN_TRY(capuchin_policy(s, TN__ALLOW_SWAP));
    return recompute ? capuchin_policy(s, recompute) : TN_OK;
}

static tn_status capuchin_solve(tn__pass_run *run) {
    capuchin_state s = {.run = run};
    tn__schedule_init(&s.schedule, &run->context);
    tn__text_init(&s.said, &run->context);
    tn_status status = capuchin_all(&s);
    if (run->explain != NULL && s.said.data != NULL && !s.said.failed)
        tn__text_put(run->explain, s.said.data);
    tn__text_release(&s.said);
    tn__schedule_release(&s.schedule);
    if (status != TN_OK || run->has_best) return status;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_capuchin = {
    .name = "capuchin",
    .summary = "Capuchin: swaps tensors whose copies computing hides, and recomputes others",
    .source = "Peng et al., Capuchin (2020)",
    .features = TN__PASS_SWAPS | TN__PASS_RECOMPUTES | TN__PASS_BUDGETS,
    .solve = capuchin_solve,
};
