/* sublinear.c - training in segments: only the values between two segments are kept; a segment is
 * recomputed when a backward operator first reads one of its values.
 *
 *     forward  a a a A b b b B c c c C turn     backward  (c c c) ... (b b b) ... (a a a) ...
 *
 * The turn is the job after which the most values wait for a reader. A segment may end at a job
 * before the turn if, after this job, only its own output is read later. First, every k-th of these
 * jobs ends a segment, with k the square root of their number. Then ends are chosen by bytes: a
 * segment ends as soon as it has made more bytes than a threshold. The threshold is searched around
 * the geometric mean of the kept bytes and the bytes of the largest segment.
 *
 * If the budget is larger than necessary, the last jobs before the turn keep all their values, as
 * many jobs as fit (found by bisection). Their values are the first to be released after the turn,
 * so they are not live while earlier segments are recomputed.
 *
 * The pass needs no costs and little time. It keeps or recomputes the values of a segment together.
 * The pass `joint` decides for each value and is better; this pass shows the technique of other
 * tools. Cost: O(plans * (jobs + operands)): a dozen ways to divide, each planned O(log jobs)
 * times.
 */
#include "fit/budget/pass.h"

enum { SUBLINEAR_ROUNDS = 3, SUBLINEAR_GRID = 6 };

typedef struct sublinear {
    tn__pass_run *run;
    const tn__dag *dag;
    uint32_t turn; /* the job at which the forward pass ends */
    /* [end_count] the jobs at which a segment may end: after such a job, only its own output is
     * read later */
    uint32_t *ends;
    uint32_t end_count;
    /* in the current plan, the job from which on all values are kept, up to the turn (the end of
     * the forward pass) */
    uint32_t kept_from;
    bool *may_end;     /* [jobs] */
    uint32_t *segment; /* [jobs] number of the job's segment in the current plan */
    bool *is_end;      /* [jobs] whether a segment ends at the job in the current plan */
    bool *gone;        /* [values] */
    tn__schedule schedule;
    tn__replay replay; /* the judge's measurements of the current plan */
} sublinear;

static uint32_t sublinear_last_reader(const tn__dag *dag, uint32_t value, uint32_t before) {
    uint32_t after = tn__lists_after(&dag->readers, value, before);
    return after > dag->readers.first[value] ? dag->readers.items[after - 1]
                                             : dag->values[value].maker;
}

/* Finds the turn, the first job after which the most values wait for a reader. `changes` is scratch
 * memory: +1 for each begin and -1 for each end of a live range. */
static void sublinear_find_turn(sublinear *s, int64_t *changes) {
    const tn__dag *dag = s->dag;
    int64_t waiting = 0, most = -1;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        const tn__dag_value *it = &dag->values[v];
        if (it->maker == TN_NONE || (it->flags & (TN__VALUE_HELD | TN__VALUE_KEPT))) continue;
        changes[it->maker]++;
        changes[sublinear_last_reader(dag, v, dag->job_count)]--;
    }
    for (uint32_t j = 0; j < dag->job_count; j++) {
        waiting += changes[j];
        if (waiting <= most) continue;
        most = waiting;
        s->turn = j;
    }
}

/* Finds the jobs before the turn after which only their own outputs are read later. */
static void sublinear_find_ends(sublinear *s, int64_t *changes) {
    const tn__dag *dag = s->dag;
    int64_t going = 0;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        const tn__dag_value *it = &dag->values[v];
        if (it->maker == TN_NONE || it->maker >= s->turn) continue;
        uint32_t last = sublinear_last_reader(dag, v, s->turn);
        if (last <= it->maker + 1) continue;
        changes[it->maker + 1]++;
        changes[last]--;
    }
    for (uint32_t j = 0; j < s->turn; j++) {
        going += changes[j];
        if (going > 0 || dag->jobs[j].output_count == 0) continue;
        s->may_end[j] = true;
        s->ends[s->end_count++] = j;
    }
}

static bool sublinear_repeats(const sublinear *s, uint32_t job) {
    const tn__job *it = &s->dag->jobs[job];
    uint32_t count;
    const uint32_t *output = tn__job_outputs(s->dag, job, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (s->dag->values[output[i]].flags & TN__VALUE_HELD) return false;
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (s->dag->others[it->limit_first + i] <= s->turn) return false;
    return (it->flags & TN__JOB_REPEATS) && it->recompute_output_count == it->output_count;
}

/* --- a plan --- */

static tn_status sublinear_add(sublinear *s, uint32_t job) {
    return tn__schedule_add(&s->schedule, (tn__action){.kind = TN__RUN, .what = job},
                            s->run->error);
}

static bool sublinear_goes(const sublinear *s, uint32_t job) {
    return job < s->kept_from && !s->is_end[job] && sublinear_repeats(s, job);
}

/* Writes the repeat of a job's segment before the job `by`. Jobs of the segment that may no longer
 * be repeated keep their values instead. */
static tn_status sublinear_recompute(sublinear *s, uint32_t job, uint32_t by) {
    uint32_t first = job, count;
    while (first > 0 && s->segment[first - 1] == s->segment[job]) first--;
    for (uint32_t j = first; j < s->turn && s->segment[j] == s->segment[job]; j++) {
        const tn__job *it = &s->dag->jobs[j];
        bool late = false;
        for (uint32_t i = 0; i < it->limit_count; i++)
            late = late || s->dag->others[it->limit_first + i] < by;
        if (!sublinear_goes(s, j) || late) continue;
        const uint32_t *output = tn__job_outputs(s->dag, j, true, &count);
        for (uint32_t i = 0; i < count; i++) s->gone[output[i]] = false;
        TN_TRY(sublinear_add(s, j));
    }
    return TN_OK;
}

/* Writes the schedule in which segments end as `is_end` says, measures it, and offers it to the
 * run. */
static tn_status sublinear_plan(sublinear *s, bool *kept) {
    const tn__dag *dag = s->dag;
    uint32_t segment = 0, count;
    s->schedule.count = 0;
    memset(s->gone, 0, dag->value_count * sizeof *s->gone);
    for (uint32_t j = 0; j < dag->job_count; j++) {
        const uint32_t *input = tn__job_inputs(dag, j, false, &count);
        for (uint32_t i = 0; j > s->turn && i < count; i++)
            if (s->gone[input[i]]) TN_TRY(sublinear_recompute(s, dag->values[input[i]].maker, j));
        TN_TRY(sublinear_add(s, j));
        s->segment[j] = segment;
        if (s->is_end[j]) segment++;
        const uint32_t *output = tn__job_outputs(dag, j, false, &count);
        for (uint32_t i = 0; i < count; i++) s->gone[output[i]] = sublinear_goes(s, j);
    }
    TN_TRY(tn__pass_work(s->run, s->schedule.count));
    TN_TRY(tn__replay_schedule(dag, &s->schedule, &s->replay, NULL, s->run->error));
    return tn__pass_offer(s->run, &s->schedule, kept);
}

/* Plans the segments that `is_end` describes. Then keeps the values of as many jobs before the turn
 * as the budget allows. */
static tn_status sublinear_try(sublinear *s, bool *kept) {
    s->kept_from = s->turn;
    TN_TRY(sublinear_plan(s, kept));
    if (s->replay.peak > s->run->budget) return TN_OK;
    /* Bisection. The schedule is within the budget if the jobs from `fits` up to the turn keep
     * their values instead of recomputing them in the backward pass; `fits` becomes as low as
     * possible. */
    uint32_t above = 0, fits = s->turn;
    while (above < fits) {
        s->kept_from = above + (fits - above) / 2;
        TN_TRY(sublinear_plan(s, kept));
        if (s->replay.peak <= s->run->budget)
            fits = s->kept_from;
        else
            above = s->kept_from + 1;
    }
    return TN_OK;
}

/* --- where segments end --- */

static uint64_t sublinear_root(uint64_t of) {
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit > 0; bit /= 2)
        if ((root + bit) * (root + bit) <= of) root += bit;
    return root;
}

static void sublinear_every(sublinear *s) {
    uint64_t step = sublinear_root(s->end_count);
    memset(s->is_end, 0, s->dag->job_count * sizeof *s->is_end);
    for (uint64_t i = step; step > 0 && i <= s->end_count; i += step)
        s->is_end[s->ends[i - 1]] = true;
}

/* Ends a segment as soon as it has made more than `threshold` bytes. *saved: bytes of the kept
 * values; *most: bytes of the largest segment. */
static void sublinear_by_bytes(sublinear *s, uint64_t threshold, uint64_t *saved, uint64_t *most) {
    uint64_t local = 0;
    *saved = *most = 0;
    memset(s->is_end, 0, s->dag->job_count * sizeof *s->is_end);
    for (uint32_t j = 0; j < s->turn; j++) {
        uint64_t made = 0;
        uint32_t count;
        const uint32_t *output = tn__job_outputs(s->dag, j, false, &count);
        for (uint32_t i = 0; i < count; i++) made += s->dag->values[output[i]].bytes;
        local += made;
        if (!s->may_end[j] || local <= threshold) continue;
        s->is_end[j] = true;
        *saved += made;
        *most = local > *most ? local : *most;
        local = 0;
    }
    *most = local > *most ? local : *most;
}

static tn_status sublinear_search(sublinear *s, bool *kept) {
    uint64_t threshold = 0, least = UINT64_MAX, saved, most;
    for (int round = 0; round <= SUBLINEAR_ROUNDS; round++) {
        sublinear_by_bytes(s, threshold, &saved, &most);
        TN_TRY(sublinear_try(s, kept));
        least = most < least ? most : least;
        threshold = sublinear_root(saved / 2) * sublinear_root(most);
    }
    /* the last threshold that is tried is 1.4 times this one, about the square root of 2 */
    uint64_t last = threshold + threshold * 2 / 5;
    for (uint64_t i = 0; i < SUBLINEAR_GRID && least < last; i++) {
        sublinear_by_bytes(s, least + (last - least) / SUBLINEAR_GRID * i, &saved, &most);
        TN_TRY(sublinear_try(s, kept));
    }
    return TN_OK;
}

static tn_status sublinear_begin(sublinear *s) {
    size_t jobs = (size_t)s->dag->job_count + 2;
    tn__arena *arena = s->run->arena;
    int64_t *lives = tn__arena_array(arena, jobs, sizeof *lives);
    int64_t *going = tn__arena_array(arena, jobs, sizeof *going);
    s->ends = tn__arena_array(arena, jobs, sizeof *s->ends);
    s->may_end = tn__arena_array(arena, jobs, sizeof *s->may_end);
    s->segment = tn__arena_array(arena, jobs, sizeof *s->segment);
    s->is_end = tn__arena_array(arena, jobs, sizeof *s->is_end);
    s->gone = tn__arena_array(arena, (size_t)s->dag->value_count + 1, sizeof *s->gone);
    if (lives == NULL || going == NULL || s->ends == NULL || s->may_end == NULL ||
        s->segment == NULL || s->is_end == NULL || s->gone == NULL)
        return tn__no_memory(s->run->error, "segments");
    sublinear_find_turn(s, lives);
    sublinear_find_ends(s, going);
    return TN_OK;
}

static tn_status sublinear_solve(tn__pass_run *run) {
    sublinear s = {.run = run, .dag = run->dag};
    bool kept = false;
    if (!(run->allow & TN__ALLOW_RECOMPUTE)) return TN_E_STOPPED;
    TN_TRY(sublinear_begin(&s));
    tn__schedule_init(&s.schedule, &run->context);
    sublinear_every(&s);
    tn_status status = sublinear_try(&s, &kept);
    if (status == TN_OK) status = sublinear_search(&s, &kept);
    tn__schedule_release(&s.schedule);
    if (status != TN_OK || run->has_best) return status;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_sublinear = {
    .name = "sublinear",
    .summary = "sqrt(n) checkpointing: keeps the ends of segments and recomputes the inside",
    .source = "Chen, Xu, Zhang, Guestrin 2016; the search over thresholds after memonger",
    .features = TN__PASS_RECOMPUTES | TN__PASS_BUDGETS,
    .solve = sublinear_solve,
};
