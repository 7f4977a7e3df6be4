/* timeline_ranks.c - combines the predictions of single ranks into one in which ranks wait for each
 * other.
 *
 * The simulation of a single rank assumes that all other ranks are always ready. Here all ranks go
 * through their lists of steps at the same time, each with a clock of its own (program/clock.h).
 * The rules are those of tn_simulate. A thread goes through the list, hands the steps of other
 * streams to these streams, and continues. Each stream executes its steps one after the other. A
 * transfer link executes one copy at a time in the order of the list. Steps wait for signals. A
 * call begins when all its members have reached it. Calls are matched by their order: the k-th call
 * of a group, or the k-th message with a tag from one rank to another. The span of a call begins
 * when the rank reached it, as in a real run. If some calls have no match, the predictions are left
 * unchanged.
 *
 * Cost: O(calls x ranks x streams + instructions log instructions).
 */
#include "report/timeline/timeline.h"

#include "base/sorted.h"
#include "program/clock.h"

#define MEET_NONE UINT32_MAX
#define MEET_LATER UINT64_MAX /* a time that has not been computed yet */
#define MEET_PS 1e12

typedef struct meet_call { /* one call in which several ranks take part */
    uint32_t members, came;
    /* time at which the last member reached the call; the longest duration of any member */
    uint64_t at, takes;
} meet_call;

typedef struct meet_stream { /* the list of steps that a stream got and has not executed yet */
    uint32_t first;          /* first step of the stream's list; MEET_NONE if the list is empty */
    uint32_t last;
} meet_stream;

typedef struct meet_rank {
    tn__line_run *run;
    tn__clock clock;  /* stream 0 of the clock is the thread that goes through the list of steps */
    uint32_t next;    /* the step that the rank's walk over the list reaches next */
    uint64_t *came;   /* [steps] time at which the rank reached each step */
    uint64_t *end;    /* [steps] time at which each step ended */
    uint64_t *handed; /* [steps] time at which each step was handed to its stream */
    uint32_t *after;  /* [steps] the next step in the list of the step's stream, or MEET_NONE */
    uint32_t *before; /* [steps] the previous step that uses the same transfer link, or MEET_NONE */
    uint32_t *call;   /* [steps] index of the call to which the step belongs, or MEET_NONE */
    meet_stream streams[TN_STREAM_MAX];
    /* signals of the rank, sorted by number; id is the step that gives the signal */
    tn__sort_item *signals;
    size_t signal_count;
} meet_rank;

typedef struct meet_state {
    tn_timeline *line;
    tn__arena arena;
    meet_rank *ranks;
    meet_call *calls;
    uint32_t call_count;
    tn_error *error;
} meet_state;

/* --- matching the calls of ranks --- */

typedef struct meet_place { /* a step that is part of a call */
    uint64_t key[3];
    uint32_t rank, step, turn; /* turn: number of the step among the rank's steps with this key */
} meet_place;

static int meet_order(const void *a, const void *b) {
    const meet_place *x = a, *y = b;
    for (int i = 0; i < 3; i++)
        if (x->key[i] != y->key[i]) return x->key[i] < y->key[i] ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static int meet_turns(const void *a, const void *b) {
    const meet_place *x = a, *y = b;
    for (int i = 0; i < 3; i++)
        if (x->key[i] != y->key[i]) return x->key[i] < y->key[i] ? -1 : 1;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool meet_same(const meet_place *a, const meet_place *b) {
    return memcmp(a->key, b->key, sizeof a->key) == 0;
}

/* Returns the key by which calls are matched. For a call of a group it is the group's number. For a
 * message it consists of sender, receiver and tag. */
static meet_place meet_place_of(const tn__line_step *step, uint32_t rank, uint32_t number) {
    uint64_t self = rank, peer = step->peer;
    meet_place place = {.rank = rank, .step = number};
    if (step->call == TN__STEP_GROUP) {
        place.key[1] = step->group;
    } else {
        bool sends = step->call == TN__STEP_SEND;
        place.key[0] = 1 + (sends ? self : peer);
        place.key[1] = sends ? peer : self;
        place.key[2] = step->tag;
    }
    return place;
}

/* Returns the duration in integer units, as tn_simulate computes it; the duration in seconds comes
 * from there. */
static uint64_t meet_takes(const tn__line_step *step) {
    return tn__lane_units(step->duration_s * MEET_PS);
}

static tn_status meet_calls(meet_state *it) {
    size_t count = 0, room = 0;
    for (uint32_t r = 0; r < it->line->count; r++) room += it->ranks[r].run->step_count;
    meet_place *places = tn__arena_array(&it->arena, room + 1, sizeof *places);
    it->calls = tn__arena_array(&it->arena, room + 1, sizeof *it->calls);
    if (places == NULL || it->calls == NULL) return tn__no_memory(it->error, "a time line");
    for (uint32_t r = 0; r < it->line->count; r++) {
        const tn__line_run *run = it->ranks[r].run;
        for (uint32_t s = 0; s < run->step_count; s++)
            if (run->steps[s].call != TN__STEP_ALONE)
                places[count++] = meet_place_of(&run->steps[s], r, s);
    }
    if (count > 0) qsort(places, count, sizeof *places, meet_order);
    for (size_t i = 1; i < count; i++)
        if (meet_same(&places[i], &places[i - 1]) && places[i].rank == places[i - 1].rank)
            places[i].turn = places[i - 1].turn + 1;
    if (count > 0) qsort(places, count, sizeof *places, meet_turns);
    for (size_t i = 0; i < count; i++) {
        bool fresh = i == 0 || !meet_same(&places[i], &places[i - 1]) ||
                     places[i].turn != places[i - 1].turn;
        it->call_count += fresh;
        meet_call *call = &it->calls[it->call_count - 1];
        uint64_t takes = meet_takes(&it->ranks[places[i].rank].run->steps[places[i].step]);
        it->ranks[places[i].rank].call[places[i].step] = it->call_count - 1;
        call->members++;
        if (takes > call->takes) call->takes = takes;
    }
    return TN_OK;
}

/* --- advancing --- */

/* Returns the time at which a rank gave a signal, or MEET_LATER. A signal that no step gives counts
 * as given at the start of the timeline. */
static uint64_t meet_signal(const meet_rank *rank, uint32_t signal) {
    size_t low = tn__sorted_find(rank->signals, rank->signal_count, signal);
    bool found = low < rank->signal_count && rank->signals[low].key == signal;
    return found ? rank->end[rank->signals[low].id] : 0;
}

/* Tries to reach a step at the time `from` or later. Returns false if a step or signal that it
 * waits for has not ended yet. A step that is part of a call joins its call. */
static bool meet_reach(meet_state *it, meet_rank *rank, uint32_t s, uint64_t from) {
    const tn__line_step *step = &rank->run->steps[s];
    const uint32_t before = rank->before[s];
    tn__lane ready = {from, s};
    uint64_t signal = step->wait != 0 ? meet_signal(rank, step->wait) : 0;
    if (signal == MEET_LATER) return false;
    if (before != MEET_NONE && rank->end[before] == MEET_LATER) return false;
    tn__lane_wait(&ready, (tn__lane){signal, s});
    rank->came[s] =
        tn__clock_begin(&rank->clock, step->stream, tn__clock_link((tn_link)step->link), ready).at;
    if (rank->call[s] == MEET_NONE) return true;
    meet_call *call = &it->calls[rank->call[s]];
    if (rank->came[s] > call->at) call->at = rank->came[s];
    call->came++;
    return true;
}

/* Executes a step; all earlier steps of its stream have ended. Returns whether the step has ended,
 * which for a call needs all members of the call. */
static bool meet_do(meet_state *it, meet_rank *rank, uint32_t s, uint64_t from) {
    const tn__line_step *step = &rank->run->steps[s];
    const meet_call *call = rank->call[s] != MEET_NONE ? &it->calls[rank->call[s]] : NULL;
    if (rank->came[s] == MEET_LATER && !meet_reach(it, rank, s, from)) return false;
    if (call != NULL && call->came < call->members) return false;
    const tn__lane begins = {call != NULL ? call->at : rank->came[s], s};
    rank->end[s] = tn__clock_put(&rank->clock, step->stream, tn__clock_link((tn_link)step->link),
                                 begins, call != NULL ? call->takes : meet_takes(step), s)
                       .at;
    return true;
}

static void meet_hand(meet_rank *rank, uint32_t s, uint64_t at) {
    meet_stream *stream = &rank->streams[rank->run->steps[s].stream];
    rank->handed[s] = at;
    if (stream->first == MEET_NONE)
        stream->first = s;
    else
        rank->after[stream->last] = s;
    stream->last = s;
}

/* Advances the list of steps and the streams of one rank as far as possible. Returns whether any
 * step was executed or handed to a stream. */
static bool meet_go(meet_state *it, meet_rank *rank) {
    bool any = false;
    for (; rank->next < rank->run->step_count; rank->next++) {
        const tn__line_step *step = &rank->run->steps[rank->next];
        const meet_stream *stream = &rank->streams[step->stream];
        tn__lane *walk = &rank->clock.lanes[TN__LANE_COMPUTE];
        if (!step->walks) {
            meet_hand(rank, rank->next, walk->at);
        } else {
            bool busy = step->stream != 0 && stream->first != MEET_NONE;
            if (busy || !meet_do(it, rank, rank->next, walk->at)) break;
            tn__lane_wait(walk, (tn__lane){rank->end[rank->next], rank->next});
        }
        any = true;
    }
    for (uint32_t k = 1; k < TN_STREAM_MAX; k++) {
        meet_stream *stream = &rank->streams[k];
        while (stream->first != MEET_NONE &&
               meet_do(it, rank, stream->first, rank->handed[stream->first])) {
            stream->first = rank->after[stream->first];
            any = true;
        }
    }
    return any;
}

/* --- combining the predictions of all ranks --- */

/* Sets before[] of each step to the previous step that uses the same transfer link. */
static void meet_links(meet_rank *rank) {
    uint32_t last[TN__LANE_COUNT];
    for (uint32_t lane = 0; lane < TN__LANE_COUNT; lane++) last[lane] = MEET_NONE;
    for (uint32_t s = 0; s < rank->run->step_count; s++) {
        uint32_t lane = tn__clock_link((tn_link)rank->run->steps[s].link);
        rank->before[s] = lane != TN_NONE ? last[lane] : MEET_NONE;
        if (lane != TN_NONE) last[lane] = s;
    }
}

static tn_status meet_rank_begin(meet_state *it, meet_rank *rank, tn__line_run *run) {
    size_t count = run->step_count + 1;
    *rank = (meet_rank){.run = run};
    rank->came = tn__arena_array(&it->arena, count, sizeof *rank->came);
    rank->end = tn__arena_array(&it->arena, count, sizeof *rank->end);
    rank->handed = tn__arena_array(&it->arena, count, sizeof *rank->handed);
    rank->after = tn__arena_array(&it->arena, count, sizeof *rank->after);
    rank->before = tn__arena_array(&it->arena, count, sizeof *rank->before);
    rank->call = tn__arena_array(&it->arena, count, sizeof *rank->call);
    rank->signals = tn__arena_array(&it->arena, count, sizeof *rank->signals);
    if (!rank->came || !rank->end || !rank->handed || !rank->after || !rank->before ||
        !rank->call || !rank->signals)
        return tn__no_memory(it->error, "a time line");
    for (uint32_t s = 0; s < run->step_count; s++) {
        rank->came[s] = rank->end[s] = MEET_LATER;
        rank->after[s] = rank->call[s] = MEET_NONE;
        if (run->steps[s].signal == 0) continue;
        rank->signals[rank->signal_count++] = (tn__sort_item){run->steps[s].signal, s};
    }
    for (uint32_t k = 0; k < TN_STREAM_MAX; k++) rank->streams[k].first = MEET_NONE;
    meet_links(rank);
    return tn__sort_items(&it->line->context, rank->signals, rank->signal_count)
               ? TN_OK
               : tn__no_memory(it->error, "a time line");
}

static bool meet_is_done(const meet_rank *rank) {
    bool done = rank->next == rank->run->step_count;
    for (uint32_t s = 0; s < rank->run->step_count && done; s++) done = rank->end[s] != MEET_LATER;
    return done;
}

static tn_status meet_end(meet_state *it) {
    for (uint32_t r = 0; r < it->line->count; r++)
        if (!meet_is_done(&it->ranks[r])) return TN_OK;
    for (uint32_t r = 0; r < it->line->count; r++) {
        meet_rank *rank = &it->ranks[r];
        for (size_t i = 0; i < rank->run->count; i++) {
            tn__timeline_span *span = &rank->run->spans[i];
            if (span->step >= rank->run->step_count) continue;
            const uint64_t came = rank->came[span->step], end = rank->end[span->step];
            span->start_s = (double)came / MEET_PS;
            span->duration_s = (double)(end - came) / MEET_PS;
        }
        TN_TRY(tn__line_run_sort(&it->line->context, rank->run, it->error));
    }
    return TN_OK;
}

static tn_status meet_all(meet_state *it) {
    it->ranks = tn__arena_array(&it->arena, it->line->count, sizeof *it->ranks);
    if (it->ranks == NULL) return tn__no_memory(it->error, "a time line");
    for (uint32_t r = 0; r < it->line->count; r++) {
        const tn__line_run *run = &it->line->ranks[r].runs[TN_TIMELINE_PREDICTED];
        if (run->count > 0 && run->step_count == 0) return TN_OK;
    }
    for (uint32_t r = 0; r < it->line->count; r++)
        TN_TRY(meet_rank_begin(it, &it->ranks[r], &it->line->ranks[r].runs[TN_TIMELINE_PREDICTED]));
    TN_TRY(meet_calls(it));
    for (bool any = true; any;) {
        any = false;
        for (uint32_t r = 0; r < it->line->count; r++) any = meet_go(it, &it->ranks[r]) || any;
    }
    return meet_end(it);
}

tn_status tn_timeline_meet(tn_timeline *line, tn_error *error) {
    meet_state it = {.line = line, .error = error};
    tn__arena_init(&it.arena, &line->context);
    tn_status status = meet_all(&it);
    tn__arena_release(&it.arena);
    return status;
}
