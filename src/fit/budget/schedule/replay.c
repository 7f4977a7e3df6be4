/* replay.c - the judge of schedules: checks that a schedule is valid, and measures its memory.
 *
 * The judge walks over the actions once. Each definition of a value begins a live range, and each
 * read extends the current live range of the value. After the walk, all live ranges are known, and
 * the bytes of every action are prefix sums of a list of differences. A value that is being copied
 * to the host (OUT) can be read until the copy is settled. Cost: O(actions + operands).
 *
 *     RUN a   RUN b   OUT a   RUN c   SETTLE a   RUN d   IN a   RUN e(a)
 *     [---------------- a -----------------]            [---- a ----]      device
 *                    [----------------- a ----------------]                host
 */
#include "fit/budget/schedule/schedule_graph.h"

#include <inttypes.h>

/* A live range, as the judge computes it. The judge shares no code with the passes, so that it does
 * not repeat their mistakes. */
typedef struct replay_life {
    uint32_t value; /* the value; TN_NONE: this is the live range of an encoded form */
    uint32_t first, last;
    /* the live range that gives its memory to this one if it ends where this one begins; its bytes
     * then count from the next action on. TN_NONE: no such live range */
    uint32_t source;
} replay_life;

typedef struct replay_value {
    uint32_t life; /* current live range of the value; TN_NONE: the value is not live */
    /* live range of the value's encoded form; TN_NONE: there is no encoded form */
    uint32_t encoded;
    uint32_t leaving; /* the action OUT that is not settled yet; TN_NONE: no such action */
    /* the action OUT that made the copy on the host, and the last IN of this copy; TN_NONE: no such
     * action */
    uint32_t host, host_last;
    uint8_t codec;
} replay_value;

typedef struct replay_state {
    const tn__dag *dag;
    const tn__schedule *schedule;
    replay_value *values;
    replay_life *lives;
    /* [live ranges] bytes of a live range that belongs to an encoded form */
    uint64_t *encoded_bytes;
    bool *ran; /* [jobs] */
    /* [actions + 1] changes of the bytes on the device and on the host before each action */
    int64_t *device, *host;
    uint32_t life_count, next_first;
    tn__replay result;
    tn_error *error;
} replay_state;

static tn_status replay_refuse(const replay_state *s, uint32_t action, const char *what,
                               uint32_t id) {
    TN_FAIL(s->error, TN_E_INVALID, "act %u: %s %u", action, what, id);
}

/* --- live ranges --- */

static uint32_t replay_begin(replay_state *s, uint32_t value, uint32_t action) {
    s->lives[s->life_count] = (replay_life){value, action, action, TN_NONE};
    return s->life_count++;
}

static void replay_define(replay_state *s, uint32_t value, uint32_t action) {
    s->values[value].life = replay_begin(s, value, action);
}

static tn_status replay_read(replay_state *s, uint32_t value, uint32_t action) {
    uint32_t life = s->values[value].life;
    if (life == TN_NONE) return replay_refuse(s, action, "reads what is not there, value", value);
    s->lives[life].last = action;
    return TN_OK;
}

/* --- actions --- */

static tn_status replay_order(const replay_state *s, uint32_t action, uint32_t job) {
    const tn__job *it = &s->dag->jobs[job];
    const uint32_t *after = s->dag->others + it->after_first;
    const uint32_t *limits = s->dag->others + it->limit_first;
    for (uint32_t i = 0; i < it->after_count; i++)
        if (!s->ran[after[i]]) return replay_refuse(s, action, "runs before job", after[i]);
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (limits[i] != job && s->ran[limits[i]])
            return replay_refuse(s, action, "its sources were changed by job", limits[i]);
    if (s->ran[job] && !(it->flags & TN__JOB_REPEATS))
        return replay_refuse(s, action, "may not run again, job", job);
    if (s->dag->is_ordered && !s->ran[job] && job != s->next_first)
        return replay_refuse(s, action, "runs before its turn, job", job);
    return TN_OK;
}

static tn_status replay_run(replay_state *s, uint32_t action, uint32_t job) {
    const tn__dag *dag = s->dag;
    uint32_t inputs, outputs;
    if (job >= dag->job_count) return replay_refuse(s, action, "no such job", job);
    bool recompute = s->ran[job];
    const tn__job *it = &dag->jobs[job];
    const uint32_t *input = tn__job_inputs(dag, job, recompute, &inputs);
    const uint32_t *output = tn__job_outputs(dag, job, recompute, &outputs);
    TN_TRY(replay_order(s, action, job));
    uint32_t source = it->inplace != TN_NONE ? s->values[it->inplace].life : TN_NONE;
    for (uint32_t i = 0; i < inputs; i++) TN_TRY(replay_read(s, input[i], action));
    for (uint32_t k = 0; k < outputs; k++) {
        if (recompute && (dag->values[output[k]].flags & TN__VALUE_HELD))
            return replay_refuse(s, action, "is held and made again, value", output[k]);
        if (s->values[output[k]].leaving != TN_NONE)
            return replay_refuse(s, action, "is made again while it is copied, value", output[k]);
        replay_define(s, output[k], action);
        if (k == 0) s->lives[s->values[output[k]].life].source = source;
    }
    s->device[action] += (int64_t)it->scratch;
    s->device[action + 1] -= (int64_t)it->scratch;
    s->result.cost = tn__add_sat(s->result.cost, recompute ? it->recompute_cost : it->cost);
    s->next_first += !recompute && dag->is_ordered;
    s->ran[job] = true;
    return TN_OK;
}

static void replay_leave_host(replay_state *s, uint32_t value) {
    replay_value *it = &s->values[value];
    if (it->host == TN_NONE) return;
    uint32_t last = it->host_last == TN_NONE ? it->host : it->host_last;
    s->host[it->host] += (int64_t)s->dag->values[value].bytes;
    s->host[last + 1] -= (int64_t)s->dag->values[value].bytes;
    it->host = it->host_last = TN_NONE;
}

static tn_status replay_out(replay_state *s, uint32_t action, uint32_t value) {
    replay_value *it = &s->values[value];
    uint32_t flags = s->dag->values[value].flags;
    if (!(flags & TN__VALUE_COPIES) || (flags & TN__VALUE_HELD))
        return replay_refuse(s, action, "may not be copied, value", value);
    if (it->leaving != TN_NONE) return replay_refuse(s, action, "is copied already, value", value);
    TN_TRY(replay_read(s, value, action));
    replay_leave_host(s, value);
    it->leaving = it->host = action;
    s->result.out_bytes = tn__add_sat(s->result.out_bytes, s->dag->values[value].bytes);
    return TN_OK;
}

static tn_status replay_settle(replay_state *s, uint32_t action, uint32_t value) {
    replay_value *it = &s->values[value];
    if (it->leaving == TN_NONE)
        return replay_refuse(s, action, "is not being copied, value", value);
    TN_TRY(replay_read(s, value, action));
    it->life = it->leaving = TN_NONE;
    return TN_OK;
}

static tn_status replay_in(replay_state *s, uint32_t action, uint32_t value) {
    replay_value *it = &s->values[value];
    if (it->host == TN_NONE || it->leaving != TN_NONE)
        return replay_refuse(s, action, "is not on the host, value", value);
    it->host_last = action;
    replay_define(s, value, action);
    s->result.in_bytes = tn__add_sat(s->result.in_bytes, s->dag->values[value].bytes);
    return TN_OK;
}

static tn_status replay_encode(replay_state *s, uint32_t action, const tn__action *it) {
    replay_value *value = &s->values[it->what];
    if (s->dag->values[it->what].flags & TN__VALUE_HELD)
        return replay_refuse(s, action, "is held and encoded, value", it->what);
    TN_TRY(replay_read(s, it->what, action));
    value->encoded = replay_begin(s, TN_NONE, action);
    value->codec = it->codec;
    s->encoded_bytes[value->encoded] = it->bytes;
    return TN_OK;
}

static tn_status replay_decode(replay_state *s, uint32_t action, const tn__action *it) {
    replay_value *value = &s->values[it->what];
    if (value->encoded == TN_NONE || value->codec != it->codec)
        return replay_refuse(s, action, "has no such encoded form, value", it->what);
    if (value->leaving != TN_NONE)
        return replay_refuse(s, action, "is decoded while it is copied, value", it->what);
    s->lives[value->encoded].last = action;
    replay_define(s, it->what, action);
    return TN_OK;
}

static tn_status replay_action(replay_state *s, uint32_t action) {
    const tn__action *it = &s->schedule->actions[action];
    if (it->kind == TN__RUN) return replay_run(s, action, it->what);
    if (it->what >= s->dag->value_count) return replay_refuse(s, action, "no such value", it->what);
    switch (it->kind) {
    case TN__OUT:
        return replay_out(s, action, it->what);
    case TN__SETTLE:
        return replay_settle(s, action, it->what);
    case TN__IN:
        return replay_in(s, action, it->what);
    case TN__ENCODE:
        return replay_encode(s, action, it);
    case TN__DECODE:
        return replay_decode(s, action, it);
    default:
        return replay_refuse(s, action, "no such act", it->kind);
    }
}

/* --- the end of a schedule, and the whole check --- */

static tn_status replay_end(replay_state *s) {
    const tn__dag *dag = s->dag;
    uint32_t end = s->schedule->count;
    for (uint32_t j = 0; j < dag->job_count; j++)
        if (!s->ran[j]) return replay_refuse(s, end, "never ran, job", j);
    for (uint32_t v = 0; v < dag->value_count; v++) {
        uint32_t life = s->values[v].life;
        if (s->values[v].leaving != TN_NONE)
            return replay_refuse(s, end, "was never settled, value", v);
        replay_leave_host(s, v);
        if (!(dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD))) continue;
        if (life == TN_NONE) return replay_refuse(s, end, "is not there at the end, value", v);
        /* ends the value's live range after the last action, so that no output takes over its
         * memory */
        s->lives[life].last = end;
    }
    return TN_OK;
}

static void replay_sum(replay_state *s, uint64_t *profile) {
    uint64_t at = 0, host = 0;
    for (uint32_t i = 0; i < s->life_count; i++) {
        const replay_life *life = &s->lives[i];
        uint64_t bytes =
            life->value == TN_NONE ? s->encoded_bytes[i] : s->dag->values[life->value].bytes;
        bool moved = life->source != TN_NONE && s->lives[life->source].last == life->first;
        s->device[life->first + moved] += (int64_t)bytes;
        s->device[life->last + 1] -= (int64_t)bytes;
    }
    for (uint32_t action = 0; action < s->schedule->count; action++) {
        at += (uint64_t)s->device[action];
        host += (uint64_t)s->host[action];
        if (profile != NULL) profile[action] = at;
        if (host > s->result.host_peak) s->result.host_peak = host;
        if (at <= s->result.peak) continue;
        s->result.peak = at;
        s->result.peak_action = action;
    }
}

static tn_status replay_room(replay_state *s, tn__arena *arena) {
    const tn__dag *dag = s->dag;
    size_t actions = (size_t)s->schedule->count + 2, lives = (size_t)dag->value_count + 1;
    for (uint32_t i = 0; i < s->schedule->count; i++) {
        const tn__action *it = &s->schedule->actions[i];
        bool runs = it->kind == TN__RUN && it->what < dag->job_count;
        lives += runs ? (size_t)dag->jobs[it->what].output_count +
                            dag->jobs[it->what].recompute_output_count
                      : 1;
    }
    s->values = tn__arena_array(arena, (size_t)dag->value_count + 1, sizeof *s->values);
    s->lives = tn__arena_array(arena, lives, sizeof *s->lives);
    s->encoded_bytes = tn__arena_array(arena, lives, sizeof *s->encoded_bytes);
    s->ran = tn__arena_array(arena, (size_t)dag->job_count + 1, sizeof *s->ran);
    s->device = tn__arena_array(arena, actions, sizeof *s->device);
    s->host = tn__arena_array(arena, actions, sizeof *s->host);
    if (s->values == NULL || s->lives == NULL || s->encoded_bytes == NULL || s->ran == NULL ||
        s->device == NULL || s->host == NULL)
        return tn__no_memory(s->error, "judging a schedule");
    return TN_OK;
}

static tn_status replay_walk(replay_state *s, uint64_t *profile) {
    const tn__dag *dag = s->dag;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        s->values[v] = (replay_value){TN_NONE, TN_NONE, TN_NONE, TN_NONE, TN_NONE, 0};
        if (dag->values[v].maker == TN_NONE) replay_define(s, v, 0);
    }
    for (uint32_t action = 0; action < s->schedule->count; action++)
        TN_TRY(replay_action(s, action));
    TN_TRY(replay_end(s));
    replay_sum(s, profile);
    return TN_OK;
}

tn_status tn__replay_schedule(const tn__dag *dag, const tn__schedule *schedule, tn__replay *replay,
                              uint64_t *profile, tn_error *error) {
    replay_state state = {.dag = dag, .schedule = schedule, .error = error};
    tn__arena arena;
    tn__arena_init(&arena, &schedule->context);
    tn_status status = replay_room(&state, &arena);
    if (status == TN_OK) status = replay_walk(&state, profile);
    tn__arena_release(&arena);
    *replay = state.result;
    return status;
}
