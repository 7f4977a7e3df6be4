/* share_read.c - finds the live ranges of a schedule: their begin, their readers, and their idle
 * interval. Cost: O(acts + operands). */
#include "fit/budget/share.h"

uint32_t tn__share_life_at(const tn__share *it, uint32_t value, uint32_t at) {
    uint32_t id = it->latest[value];
    while (id != TN_NONE && it->lives[id].made >= at && it->lives[id].maker != TN_NONE)
        id = it->lives[id].earlier;
    return id;
}

static void share_define(tn__share *it, uint32_t value, uint32_t maker, uint32_t at) {
    const tn__value *facts = &it->work->values[value];
    it->lives[it->life_count] = (tn__share_life){.bytes = facts->bytes,
                                                 .value = value,
                                                 .maker = maker,
                                                 .made = at,
                                                 .end = at,
                                                 .leave = at,
                                                 .back = at,
                                                 .source = TN_NONE,
                                                 .earlier = it->latest[value]};
    it->latest[value] = it->life_count++;
}

static void share_use(tn__share *it, uint32_t value, uint32_t at) {
    tn__share_life *life = &it->lives[it->latest[value]];
    if (at - life->end > life->back - life->leave) {
        life->leave = life->end;
        life->back = at;
    }
    life->end = at;
}

static void share_run(tn__share *it, uint32_t job, uint32_t at) {
    const tn__job *facts = &it->work->jobs[job];
    bool again = it->first_run[job] != TN_NONE;
    uint32_t count;
    const uint32_t *list = tn__job_inputs(it->work, job, again, &count);
    for (uint32_t i = 0; i < count; i++) share_use(it, list[i], at);
    uint32_t source = facts->inplace != TN_NONE ? it->latest[facts->inplace] : TN_NONE;
    list = tn__job_outputs(it->work, job, again, &count);
    for (uint32_t i = 0; i < count; i++) {
        share_define(it, list[i], job, at);
        if (i == 0) it->lives[it->life_count - 1].source = source;
    }
    if (!again) it->first_run[job] = at;
}

/* Whether a repeat of a job makes a value. */
static bool share_makes(const tn__work *work, uint32_t job, uint32_t value) {
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(work, job, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (outputs[i] == value) return true;
    return false;
}

static void share_settle(tn__share *it) {
    const tn__work *work = it->work;
    const uint32_t ends = TN__VALUE_HELD | TN__VALUE_KEPT;
    for (uint32_t i = 0; i < it->life_count; i++) {
        tn__share_life *life = &it->lives[i];
        bool repeats = life->maker != TN_NONE &&
                       (work->jobs[life->maker].flags & TN__JOB_REPEATS) != 0 &&
                       (it->may == NULL || it->may[life->maker]);
        life->fixed = it->latest[life->value] == i && (work->values[life->value].flags & ends) != 0;
        life->can = !life->fixed && repeats && share_makes(work, life->maker, life->value) &&
                    !(work->values[life->value].flags & TN__VALUE_HELD);
        if (life->fixed && it->schedule->count > 0) life->end = it->schedule->count - 1;
    }
}

tn_status tn__share_read(tn__share *it) {
    const tn__work *work = it->work;
    size_t lives = work->value_count;
    for (uint32_t i = 0; i < it->schedule->count; i++)
        lives += work->jobs[it->schedule->acts[i].what].output_count;
    it->life_count = 0;
    it->lives = tn__arena_array(&it->arena, lives + 1, sizeof *it->lives);
    it->latest = tn__arena_array(&it->arena, work->value_count + (size_t)1, sizeof *it->latest);
    it->first_run = tn__arena_array(&it->arena, work->job_count + (size_t)1, sizeof *it->first_run);
    if (it->lives == NULL || it->latest == NULL || it->first_run == NULL)
        return tn__no_memory(it->error, "recomputation");
    for (uint32_t j = 0; j < work->job_count; j++) it->first_run[j] = TN_NONE;
    for (uint32_t v = 0; v < work->value_count; v++) {
        it->latest[v] = TN_NONE;
        if (work->values[v].maker == TN_NONE) share_define(it, v, TN_NONE, 0);
    }
    for (uint32_t i = 0; i < it->schedule->count; i++) share_run(it, it->schedule->acts[i].what, i);
    share_settle(it);
    return TN_OK;
}
