/* share.c - what is computed again instead of being kept, for at most so much more work.
 *
 *   share_read.c    when each life is needed
 *   share_choose.c  what to give up, cheapest first at the worst act
 *
 *     conv -> x -> BatchNorm -> b -> Relu -> y     kept: x, which the gradient of BatchNorm reads
 *                                                  again: b', y' from x, right before their reader
 *
 * A sweep gives up one life after the other while the work allowed lasts, and tells after how many
 * its peak was lowest; a second one stops there. That is done with more and less preference
 * for what is idle for long. Sweeps only estimate, so the schedule that they choose is judged; the
 * lowest peak wins, the schedule as it was among the candidates: the peak never rises. What was
 * made again may be idle in its turn (the input of a normalisation, between that and its gradient),
 * so the whole is done anew on the result, with the work that is left, while that helps.
 * A sweep does not see what could be given up of that until the next round, so half of each sweep's
 * way is gone as well, and the better of both ends is taken.
 * Cost: a round is six sweeps at most.
 * Source: Chen et al. 2016, "Training deep nets with sublinear memory cost", section 4; Rota Bulo,
 * Porzi, Kontschieder 2018 (in-place activated batch normalisation, checkpoint variant).
 */
#include "budget/share.h"

#define SHARE_ROUNDS 12 /* a bound on the time where gains go on */
#define SHARE_PARTS 2u  /* ways down: by whole sweeps, by halves */

typedef struct share_state {
    const tn__work *work;
    const tn__share_goal *goal;
    tn__schedule *schedule, next, better;
    tn__replay replay, better_replay; /* of schedule, of better; peaks as the goal counts them */
    bool improved;                    /* there is a better one */
    uint32_t parts;                   /* a round goes the first of so many parts of a sweep */
    tn_error *error;
} share_state;

/* --- a choice as a schedule --- */

typedef struct share_due { /* a job that runs again before an act */
    uint32_t at, job;
} share_due;

static int share_compare(const void *left, const void *right) {
    const share_due *a = left, *b = right;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return a->job < b->job ? -1 : a->job > b->job;
}

/* Every run once, at the earliest position that one of its outputs is due. */
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

/* Within the target the least work, else the fewest bytes. */
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

/* Judges what was chosen; keeps it when it is the best. */
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

/* The state with the lowest peak on the way of choices, or a part of that way. */
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

/* Round after round, while that helps. */
static tn_status share_descend(share_state *s) {
    s->improved = true;
    for (int round = 0; round < SHARE_ROUNDS; round++) {
        bool spent = s->replay.cost - s->work->cost >= s->goal->added;
        if (!s->improved || spent || s->replay.peak <= s->goal->target) break;
        TN_TRY(share_round(s));
    }
    return TN_OK;
}

/* A way down from `from`; *schedule becomes what it leads to where that is better. */
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
