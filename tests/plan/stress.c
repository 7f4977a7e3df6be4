/* stress.c - very many small problems with everything at once, judged by brute force.
 *
 *     build/tests/stress [--seed FIRST] [--count N] [--seconds S] [--jobs N] [--planner NAME]
 *
 * Problem number i is made from seed FIRST + i alone: `--seed I --count 1` replays one. For each,
 * `auto`, `exact`, `scale` and a handful of the other planners are asked, with or without a
 * capacity; then
 *   - what they return is looked at pair by pair (kit.h) and must keep every constraint;
 *   - "optimal" must be the height, "infeasible" the verdict, that trying all offsets gives;
 *   - a layout with one offset changed must be refused by the verifier exactly if the judge does.
 * The first wrong answers are printed with their seeds; the exit status is 1 then.
 */
#include "kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRESS_BANKS 2u
#define STRESS_HEIGHT 64 /* bytes; brute force looks no higher */
#define STRESS_ROOTS 12u
#define STRESS_NODES 400000u
#define STRESS_FAILURES_MAX 10u

typedef struct stress_tally {
    uint64_t problems, answers, optimal, infeasible, refused, stopped, brute, failures;
} stress_tally;

typedef struct stress {
    uint64_t seed, last, stride;
    double until_s; /* 0: no limit */
    const char *planner;
    stress_tally tally;
    /* the present problem */
    uint64_t now;
    tn_problem *problem;
    uint64_t capacity;                 /* of bank 0; 0: none */
    int64_t optimum[STRESS_BANKS];     /* -1: not known; INT64_MAX: no layout at all */
    uint64_t capacities[STRESS_BANKS]; /* that hold; 0: none */
    /* ties with streams: where members of a group overlap, the library lets the clocks of what they
     * become cover all of them (plan.h); kit.h looks at each member, and so allows a little more */
    bool coarse;
} stress;

static void stress_fail(stress *all, const char *planner, const char *what) {
    all->tally.failures++;
    fprintf(stderr, "seed %" PRIu64 ", planner %s: %s\n", all->now, planner, what);
}

/* --- trying all offsets ------------------------------------------------------------------------
 *
 * Of each bank by itself. Bodies move with their leader; which distances between two leaders are
 * forbidden is asked of the judge once, for all distances that can occur. */

typedef struct stress_root {
    tn_body_id id;
    int64_t size;      /* to the highest end of its group */
    int64_t alignment; /* of it and of all that are tied to it: deltas are multiples */
    int64_t pin;       /* -1: free */
} stress_root;

typedef struct stress_brute {
    const tn_problem *problem;
    stress_root roots[STRESS_ROOTS];
    uint32_t count;
    bool forbidden[STRESS_ROOTS][STRESS_ROOTS][2 * STRESS_HEIGHT + 1];
    int64_t at[STRESS_ROOTS];
    uint64_t nodes;
} stress_brute;

static bool stress_gather(stress_brute *brute, tn_bank_id bank) {
    const tn_problem *problem = brute->problem;
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++) {
        const tn_body *body = tn_problem_body(problem, id);
        if (body->bank != bank) continue;
        tn_body_id root = kit_root(problem, id);
        uint32_t at = 0;
        while (at < brute->count && brute->roots[at].id != root) at++;
        if (at == STRESS_ROOTS) return false;
        if (at == brute->count)
            brute->roots[brute->count++] = (stress_root){.id = root, .alignment = 1, .pin = -1};
        stress_root *group = &brute->roots[at];
        int64_t delta = body->flags & TN_BODY_TIED ? (int64_t)body->delta : 0;
        int64_t end = body->size > 0 ? delta + (int64_t)body->size : 0;
        if (end > group->size) group->size = end;
        if ((int64_t)body->alignment > group->alignment)
            group->alignment = (int64_t)body->alignment;
        if (body->flags & TN_BODY_PINNED) group->pin = (int64_t)body->offset;
        if (group->size > STRESS_HEIGHT || group->pin > STRESS_HEIGHT) return false;
    }
    uint32_t count = 0; /* what has no bytes may be anywhere */
    for (uint32_t i = 0; i < brute->count; i++)
        if (brute->roots[i].size > 0) brute->roots[count++] = brute->roots[i];
    brute->count = count;
    return true;
}

static bool stress_groups_meet(const stress_brute *brute, tn_body_id a, tn_body_id b,
                               int64_t distance) {
    const tn_problem *problem = brute->problem;
    for (tn_body_id i = 0; i < tn_problem_count(problem); i++) {
        if (kit_root(problem, i) != a) continue;
        const tn_body *x = tn_problem_body(problem, i);
        uint64_t at_i = 2 * STRESS_HEIGHT + (x->flags & TN_BODY_TIED ? x->delta : 0);
        for (tn_body_id k = 0; k < tn_problem_count(problem); k++) {
            if (kit_root(problem, k) != b) continue;
            const tn_body *y = tn_problem_body(problem, k);
            uint64_t at_k =
                (uint64_t)(2 * STRESS_HEIGHT + distance) + (y->flags & TN_BODY_TIED ? y->delta : 0);
            if (kit_bodies_meet(problem, i, at_i, k, at_k)) return true;
        }
    }
    return false;
}

static bool stress_is_free(const stress_brute *brute, uint32_t which) {
    for (uint32_t i = 0; i < which; i++)
        if (brute->forbidden[i][which][brute->at[which] - brute->at[i] + STRESS_HEIGHT])
            return false;
    return true;
}

/* Counts through all offsets like the hands of a clock. 1: fits, 0: does not, -1: too many. */
static int stress_fits(stress_brute *brute, int64_t height) {
    uint32_t depth = 0;
    if (brute->count == 0) return 1;
    brute->at[0] = -1;
    for (;;) {
        const stress_root *root = &brute->roots[depth];
        int64_t *at = &brute->at[depth];
        if (++brute->nodes > STRESS_NODES) return -1;
        int64_t next = *at < 0 ? 0 : *at + root->alignment;
        if (root->pin >= 0) next = *at < 0 ? root->pin : height + 1;
        *at = next;
        if (next + root->size > height) {
            if (depth-- == 0) return 0;
            continue;
        }
        if (!stress_is_free(brute, depth)) continue;
        if (++depth == brute->count) return 1;
        brute->at[depth] = -1;
    }
}

/* The least height of a bank; -1: not known, INT64_MAX: its pins meet. */
static int64_t stress_optimum(const tn_problem *problem, tn_bank_id bank) {
    static stress_brute brute;
    brute.problem = problem;
    brute.count = 0;
    brute.nodes = 0;
    if (!stress_gather(&brute, bank)) return -1;
    for (uint32_t a = 0; a < brute.count; a++)
        for (uint32_t b = a + 1; b < brute.count; b++)
            for (int64_t d = -STRESS_HEIGHT; d <= STRESS_HEIGHT; d++)
                brute.forbidden[a][b][d + STRESS_HEIGHT] =
                    stress_groups_meet(&brute, brute.roots[a].id, brute.roots[b].id, d);
    for (uint32_t a = 0; a < brute.count; a++)
        for (uint32_t b = a + 1; b < brute.count; b++)
            if (brute.roots[a].pin >= 0 && brute.roots[b].pin >= 0 &&
                brute.forbidden[a][b][brute.roots[b].pin - brute.roots[a].pin + STRESS_HEIGHT])
                return INT64_MAX;
    for (int64_t height = 0; height <= STRESS_HEIGHT; height++) {
        int fits = stress_fits(&brute, height);
        if (fits != 0) return fits > 0 ? height : -1;
    }
    return -1;
}

/* --- one answer --- */

static bool stress_is_within(const stress *all, const tn_layout *layout) {
    for (tn_body_id id = 0; id < layout->body_count; id++) {
        const tn_body *body = tn_problem_body(all->problem, id);
        uint64_t capacity = all->capacities[body->bank];
        uint64_t end = layout->offset[id] + body->size;
        if (body->size > 0 && end > layout->bank_peak[body->bank]) return false;
        if (body->size > 0 && capacity != 0 && end > capacity) return false;
    }
    return true;
}

static void stress_judge_layout(stress *all, const char *planner, const tn_layout *layout) {
    char what[160];
    if (!kit_is_valid(all->problem, layout->offset))
        stress_fail(all, planner, "the layout is not valid");
    if (!stress_is_within(all, layout))
        stress_fail(all, planner, "a body ends above the peak or the capacity");
    bool known = true;
    uint64_t optimum = 0;
    for (uint32_t bank = 0; bank < layout->bank_count; bank++) {
        known = known && all->optimum[bank] >= 0 && all->optimum[bank] != INT64_MAX;
        if (known) optimum += (uint64_t)all->optimum[bank];
        if (all->optimum[bank] == INT64_MAX)
            stress_fail(all, planner, "a layout, but the pins meet");
    }
    if (!known) return;
    snprintf(what, sizeof what, "peak %" PRIu64 ", bound %" PRIu64 ", %s; brute force: %" PRIu64,
             layout->peak, layout->lower_bound, tn_verdict_name(layout->verdict), optimum);
    bool claims_too_much = layout->lower_bound > optimum ||
                           (layout->verdict == TN_VERDICT_OPTIMAL && layout->peak != optimum);
    if (layout->peak < optimum || (claims_too_much && !all->coarse))
        stress_fail(all, planner, what);
}

/* One offset changed: the verifier and the judge must agree. */
static void stress_judge_verifier(stress *all, tn_layout *layout, tn__random *random) {
    if (layout->body_count == 0) return;
    uint32_t id = (uint32_t)kit_below(random, layout->body_count);
    layout->offset[id] += 1 + kit_below(random, 8);
    for (uint32_t bank = 0; bank < layout->bank_count; bank++) layout->bank_peak[bank] += 8;
    const tn_body *body = tn_problem_body(all->problem, id);
    uint64_t capacity = tn_problem_bank(all->problem, body->bank)->capacity;
    bool within = body->size == 0 || capacity == 0 || layout->offset[id] + body->size <= capacity;
    bool valid = kit_is_valid(all->problem, layout->offset) && within;
    bool accepted = tn_layout_verify(all->problem, layout, NULL, &failure) == TN_OK;
    if (accepted != valid && (accepted || !all->coarse))
        stress_fail(all, "(verify)", valid ? failure.message : "accepts what is not valid");
}

/* No layout fits: is that so? */
static void stress_judge_infeasible(stress *all, const char *planner) {
    bool known = true, fits = true;
    for (uint32_t bank = 0; bank < tn_problem_bank_count(all->problem); bank++) {
        int64_t optimum = all->optimum[bank];
        known = known && optimum >= 0;
        if (optimum == INT64_MAX || (optimum >= 0 && all->capacities[bank] != 0 &&
                                     (uint64_t)optimum > all->capacities[bank]))
            fits = false;
    }
    if (known && fits && !all->coarse)
        stress_fail(all, planner, "infeasible, but brute force finds a layout");
}

static void stress_ask(stress *all, const char *planner, tn__random *random) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout layout = {0};
    options.planner = planner;
    options.capacity = all->capacity;
    options.seed = kit_below(random, 4);
    options.work_limit = 500 + kit_below(random, 4000);
    tn_status status = tn_plan(all->problem, &options, &layout, &failure);
    all->tally.answers++;
    if (status == TN_OK) {
        all->tally.optimal += layout.verdict == TN_VERDICT_OPTIMAL;
        stress_judge_layout(all, planner, &layout);
        stress_judge_verifier(all, &layout, random);
    } else if (status == TN_E_INFEASIBLE) {
        all->tally.infeasible++;
        stress_judge_infeasible(all, planner);
    } else if (status == TN_E_UNSUPPORTED) {
        all->tally.refused++;
    } else if (status == TN_E_STOPPED) {
        all->tally.stopped++;
    } else {
        stress_fail(all, planner, failure.message);
    }
    tn_layout_release(&layout);
}

/* --- one problem --- */

static const char *const stress_always[] = {"auto", "exact", "scale"};

static bool stress_is_asked(const stress *all, const char *planner, tn__random *random) {
    if (all->planner != NULL) return strcmp(planner, all->planner) == 0;
    for (size_t i = 0; i < sizeof stress_always / sizeof *stress_always; i++)
        if (strcmp(planner, stress_always[i]) == 0) return true;
    return kit_below(random, 5) == 0;
}

static void stress_problem(stress *all, uint64_t seed) {
    tn__random random = {.state = seed * 0x9e3779b97f4a7c15u + 1};
    bool small = kit_below(&random, 16) != 0;
    uint32_t count = 1 + (uint32_t)kit_below(&random, small ? 8 : 50);
    uint64_t size_max = small ? 1 + kit_below(&random, 6) : 1 + kit_below(&random, 100);
    int64_t steps = 2 + (int64_t)kit_below(&random, 10);
    unsigned what = (unsigned)kit_below(&random, 2 * KIT_PINS_MEET);
    if (kit_below(&random, 4) != 0) what &= ~(unsigned)KIT_PINS_MEET;
    all->now = seed;
    all->problem = kit_random(seed, count, size_max, steps, what);
    all->coarse = (what & KIT_TIES) != 0 && (what & KIT_STREAMS) != 0;
    all->capacity = 0;
    for (uint32_t bank = 0; bank < STRESS_BANKS; bank++) {
        all->optimum[bank] = 0;
        all->capacities[bank] = 0;
        if (bank >= tn_problem_bank_count(all->problem)) continue;
        all->optimum[bank] = small ? stress_optimum(all->problem, bank) : -1;
    }
    all->tally.brute += all->optimum[0] >= 0 && all->optimum[1] >= 0;
    if (kit_below(&random, 2) != 0) { /* at, below or above what can be had */
        uint64_t near = all->optimum[0] >= 0 && all->optimum[0] != INT64_MAX
                            ? (uint64_t)all->optimum[0]
                            : 4 * size_max;
        all->capacity = 1 + near - (near > 0 ? kit_below(&random, 3) : 0);
        all->capacities[0] = all->capacity;
    }
    for (uint32_t i = 0; i < tn_planner_count(); i++)
        if (stress_is_asked(all, tn_planner_name(i), &random))
            stress_ask(all, tn_planner_name(i), &random);
    all->tally.problems++;
    tn_problem_destroy(all->problem);
}

/* --- many --- */

static int stress_run(stress *all) {
    for (uint64_t seed = all->seed; seed < all->last; seed += all->stride) {
        if (all->until_s > 0 && tn__clock_s() >= all->until_s) break;
        if (all->tally.failures >= STRESS_FAILURES_MAX) break;
        stress_problem(all, seed);
    }
    const stress_tally *tally = &all->tally;
    printf("seeds from %" PRIu64 " in steps of %" PRIu64 ": %" PRIu64 " problems (%" PRIu64
           " tried by brute force), %" PRIu64 " answers: %" PRIu64 " optimal, %" PRIu64
           " infeasible, %" PRIu64 " not modelled, %" PRIu64 " stopped; %" PRIu64 " wrong\n",
           all->seed, all->stride, tally->problems, tally->brute, tally->answers, tally->optimal,
           tally->infeasible, tally->refused, tally->stopped, tally->failures);
    return tally->failures > 0 ? 1 : 0;
}

static int stress_jobs(stress *all, uint32_t jobs) {
    int status = 0, wrong = 0;
    fflush(stdout);
    for (uint32_t i = 0; i < jobs; i++) {
        pid_t child = fork();
        if (child != 0) continue;
        all->seed += i;
        all->stride = jobs;
        int result = stress_run(all);
        fflush(stdout);
        _exit(result);
    }
    while (wait(&status) > 0) wrong |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return wrong;
}

int main(int count, char **arguments) {
    static stress all = {.seed = 1, .stride = 1};
    uint64_t problems = 1000000, jobs = 1;
    double seconds = 0;
    for (int i = 1; i < count; i += 2) {
        const char *option = arguments[i], *text = i + 1 < count ? arguments[i + 1] : "";
        uint64_t value = strtoull(text, NULL, 10);
        if (strcmp(option, "--seed") == 0 && i + 1 < count)
            all.seed = value;
        else if (strcmp(option, "--count") == 0 && i + 1 < count)
            problems = value;
        else if (strcmp(option, "--jobs") == 0 && i + 1 < count)
            jobs = value > 0 ? value : 1;
        else if (strcmp(option, "--seconds") == 0 && i + 1 < count)
            seconds = (double)value;
        else if (strcmp(option, "--planner") == 0 && i + 1 < count)
            all.planner = text;
        else
            return puts("stress [--seed N] [--count N] [--seconds N] [--jobs N] [--planner P]"), 2;
    }
    all.last = all.seed + problems;
    all.until_s = seconds > 0 ? tn__clock_s() + seconds : 0;
    return jobs > 1 ? stress_jobs(&all, (uint32_t)jobs) : stress_run(&all);
}
