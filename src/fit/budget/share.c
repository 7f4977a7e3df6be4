/* share.c - chooses values to recompute instead of keeping them, within a work budget.
 *
 *   share_read.c    when each live range is needed
 *   share_choose.c  which live ranges to evict, cheapest first at the worst act
 *
 *     conv -> x -> BatchNorm -> b -> Relu -> y     kept: x, which the gradient of BatchNorm reads
 *                                                  recomputed: b', y' from x, before their reader
 *
 * A sweep evicts one live range after the other while the work budget lasts, and notes after how
 * many evictions its peak was lowest; a second sweep stops there. Sweeps with different preference
 * for long idle intervals are tried. Sweeps only estimate the peak, so their schedules are judged.
 * The schedule with the lowest peak wins; the previous schedule is one of the candidates, so the
 * peak never rises. A recomputed value may be idle again (the input of a normalisation, between the
 * repeat and its gradient). Therefore further rounds start from the result with the remaining work,
 * while that helps. A sweep cannot evict recomputed values before the next round. A second variant
 * of the search therefore makes only half of the evictions in each sweep, and the better result of
 * both is taken. Cost: a round is at most six sweeps. Source: Chen et al. 2016, "Training deep nets
 * with sublinear memory cost", section 4; Rota Bulo, Porzi, Kontschieder 2018 (in-place activated
 * batch normalisation, checkpoint variant).
 */
#include "fit/budget/share.h"

#define SHARE_ROUNDS 12 /* limits the time if small gains continue */
#define SHARE_PARTS 2u  /* variants of the search: whole sweeps, and half sweeps */

typedef struct share_state {
    const tn__work *work;
    const tn__share_goal *goal;
    tn__schedule *schedule, next, better;
    tn__replay replay, better_replay; /* of schedule, of better; peaks as the goal measures them */
    bool improved;                    /* `better` contains a better schedule */
    uint32_t parts;                   /* a round uses the first 1/parts of each sweep */
    tn_error *error;
} share_state;

/* --- from a choice to a schedule --- */

typedef struct share_due { /* a job that is repeated before an act */
    uint32_t at, job;
} share_due;

static int share_compare(const void *left, const void *right) {
    const share_due *a = left, *b = right;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return a->job < b->job ? -1 : a->job > b->job;
}

/* Lists every repeat once, at the earliest position at which one of its outputs is needed. */
static tn_status share_list(tn__share *it, const tn__share_choice *choice, share_due **dues,
                            uint32_t *count) {
    uint32_t acts = it->schedule->count;
    uint32_t *at = tn__arena_array(&it->arena, (size_t)acts + 1, sizeof *at);
    *dues = tn__arena_array(&it->arena, (size_t)acts + 1, sizeof **dues);
    if (at == NULL || *dues == NULL) return tn__no_memory(it->error, "recomputation");
    for (uint32_t i = 0; i < acts; i++) at[i] = TN_NONE;
    for (uint32_t i = 0; i < it->life_count; i++)
        if (choice->again[i] && choice->at[i] < at[it->lives[i].made])
            at[it->lives[i].made] = choice->at[i];
    *count = 0;
    for (uint32_t i = 0; i < acts; i++)
        if (at[i] != TN_NONE) (*dues)[(*count)++] = (share_due){at[i], it->schedule->acts[i].what};
    qsort(*dues, *count, sizeof **dues, share_compare);
    return TN_OK;
}

static tn_status share_emit(tn__share *it, const tn__share_choice *choice, tn__schedule *next) {
    share_due *dues;
    uint32_t count = 0, due = 0;
    TN_TRY(share_list(it, choice, &dues, &count));
    next->count = 0;
    for (uint32_t i = 0; i < it->schedule->count; i++) {
        for (; due < count && dues[due].at == i; due++) {
            bool twice = due > 0 && share_compare(&dues[due], &dues[due - 1]) == 0;
            tn__act act = {.kind = TN__RUN, .what = dues[due].job};
            if (!twice) TN_TRY(tn__schedule_add(next, act, it->error));
        }
        TN_TRY(tn__schedule_add(next, it->schedule->acts[i], it->error));
    }
    return TN_OK;
}

/* --- rounds --- */

/* Within the target, less work is better; otherwise, fewer bytes. */
static bool share_is_better(const share_state *s, const tn__replay *a, const tn__replay *b) {
    bool in = a->peak <= s->goal->target, other = b->peak <= s->goal->target;
    if (in != other) return in;
    if (in) return a->cost < b->cost;
    return a->peak < b->peak;
}

static tn_status share_replay(const share_state *s, const tn__schedule *schedule,
                              tn__replay *replay) {
    TN_TRY(tn__replay_schedule(s->work, schedule, replay, NULL, s->error));
    if (s->goal->bytes == NULL) return TN_OK;
    return s->goal->bytes(s->goal->self, schedule, &replay->peak);
}

/* Judges the schedule of a choice, and keeps it if it is the best. */
static tn_status share_judge(share_state *s, tn__share *it, const tn__share_choice *choice) {
    tn__replay replay;
    TN_TRY(share_emit(it, choice, &s->next));
    TN_TRY(share_replay(s, &s->next, &replay));
    bool dear = replay.cost - s->work->cost > s->goal->added;
    const tn__replay *best = s->improved ? &s->better_replay : &s->replay;
    if (dear || !share_is_better(s, &replay, best)) return TN_OK;
    s->better_replay = replay;
    s->improved = true;
    return tn__schedule_copy(&s->better, &s->next, s->error);
}

/* Makes the choices of a sweep up to the lowest peak, or a part of them. */
static tn_status share_search(share_state *s, tn__share *it, uint32_t reach,
                              tn__share_choice *choice) {
    uint64_t left = s->goal->added - (s->replay.cost - s->work->cost);
    TN_TRY(tn__share_choose(it, left, s->goal->target, reach, UINT32_MAX, choice));
    if (choice->best == 0) return TN_OK;
    uint32_t most = (choice->best + s->parts - 1) / s->parts;
    if (most < choice->count)
        TN_TRY(tn__share_choose(it, left, s->goal->target, reach, most, choice));
    return share_judge(s, it, choice);
}

static tn_status share_round(share_state *s) {
    tn__share it = {
        .work = s->work, .schedule = s->schedule, .may = s->goal->may, .error = s->error};
    tn__share_choice choice = {0};
    tn__arena_init(&it.arena, &s->schedule->context);
    s->improved = false;
    tn_status status = tn__share_read(&it);
    if (status == TN_OK) status = tn__share_choice_room(&it, &choice);
    for (uint32_t reach = 0; reach < TN__SHARE_REACHES && status == TN_OK; reach++)
        status = share_search(s, &it, reach, &choice);
    tn__arena_release(&it.arena);
    if (status != TN_OK || !s->improved) return status;
    s->replay = s->better_replay;
    return tn__schedule_copy(s->schedule, &s->better, s->error);
}

/* Runs rounds while they help. */
static tn_status share_descend(share_state *s) {
    s->improved = true;
    for (int round = 0; round < SHARE_ROUNDS; round++) {
        bool spent = s->replay.cost - s->work->cost >= s->goal->added;
        if (!s->improved || spent || s->replay.peak <= s->goal->target) break;
        TN_TRY(share_round(s));
    }
    return TN_OK;
}

/* Runs one variant from the schedule `from`; *schedule is replaced by a better result. */
static tn_status share_way(share_state *s, const tn__schedule *from, const tn__replay *replay,
                           tn__schedule *schedule, tn__replay *best) {
    s->replay = *replay;
    TN_TRY(tn__schedule_copy(s->schedule, from, s->error));
    TN_TRY(share_descend(s));
    if (!share_is_better(s, &s->replay, best)) return TN_OK;
    *best = s->replay;
    return tn__schedule_copy(schedule, s->schedule, s->error);
}

static tn_status share_ways(share_state *s, tn__schedule *schedule, tn__replay *best) {
    tn__schedule from;
    tn__replay first;
    TN_TRY(share_replay(s, schedule, &first));
    *best = first;
    tn__schedule_init(&from, &schedule->context);
    tn_status status = tn__schedule_copy(&from, schedule, s->error);
    for (s->parts = 1; s->parts <= SHARE_PARTS && status == TN_OK; s->parts *= 2)
        status = share_way(s, &from, &first, schedule, best);
    tn__schedule_release(&from);
    return status;
}

tn_status tn__share_lower(const tn__work *work, const tn__share_goal *goal, tn__schedule *schedule,
                          tn__replay *replay, tn_error *error) {
    tn__schedule way;
    share_state state = {.work = work, .goal = goal, .schedule = &way, .error = error};
    tn__schedule_init(&way, &schedule->context);
    tn__schedule_init(&state.next, &schedule->context);
    tn__schedule_init(&state.better, &schedule->context);
    tn_status status = share_ways(&state, schedule, replay);
    tn__schedule_release(&way);
    tn__schedule_release(&state.next);
    tn__schedule_release(&state.better);
    return status;
}
