/* learn.c - keeps a ring of requests and searches for a period (learn.h). A context (the last
 * requests) that occurs again proposes a period, and the requests themselves confirm it, so
 * colliding hashes cost only time. */
#include "memory/pool/learn.h"

enum {
    LEARN_CONTEXT = 16, /* number of requests that form a context, by which repetitions are found */
    /* minimum of requests in an iteration; a shorter period is multiplied to reach it */
    LEARN_LEAST = 64,
    LEARN_ROOM = 1 << 10, /* initial number of requests in the ring */
    LEARN_ROOM_MAX = 1 << 18,
    LEARN_SKIPS_MAX = 8 * LEARN_ROOM_MAX
};
/* An odd number, so that multiplication is reversible; from the golden ratio, so that bits
 * spread. */
#define LEARN_FACTOR 0x9e3779b97f4a7c15u

static uint64_t learn_key(const tn__asked *asked) {
    uint64_t z = asked->size * LEARN_FACTOR + asked->stream;
    z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 32;
}

static bool learn_alike(const tn__asked *a, const tn__asked *b) {
    return a->size == b->size && a->stream == b->stream;
}

void tn__learn_close(const tn_context *context, tn__learn *learn) {
    tn__free(context, learn->asked, learn->room * sizeof *learn->asked);
    tn__free(context, learn->seen, learn->room * sizeof *learn->seen);
}

void tn__learn_forget(tn__learn *learn) {
    learn->first = learn->count;
    learn->context = learn->lag = learn->run = learn->enough = 0;
}

/* Makes the ring large enough for one more request: doubles it, up to the size for the longest
 * iteration. If the ring has that size, or memory is out, drops the oldest request instead. False:
 * there is no memory for the first ring. */
static bool learn_room(const tn_context *context, tn__learn *learn) {
    if (learn->count - learn->first < learn->room) return true;
    if (learn->room == LEARN_ROOM_MAX) return learn->first++, true;
    size_t room = learn->room == 0 ? LEARN_ROOM : 2 * learn->room;
    tn__asked *asked = tn__alloc_array(context, room, sizeof *asked);
    uint32_t *seen = tn__alloc_array(context, room, sizeof *seen);
    if (asked == NULL || seen == NULL) {
        tn__free(context, asked, room * sizeof *asked);
        tn__free(context, seen, room * sizeof *seen);
        return learn->room > 0 ? learn->first++, true : false;
    }
    for (uint64_t n = learn->first; n < learn->count; n++)
        asked[n & (room - 1)] = *tn__learn_at(learn, n);
    /* the table of contexts starts empty in the larger ring, because few of the old ones would
     * occur again */
    tn__learn_close(context, learn);
    learn->asked = asked;
    learn->seen = seen;
    learn->room = room;
    return true;
}

/* --- finding the period --- */

static uint64_t learn_factor_of_oldest(void) {
    uint64_t factor = 1;
    for (int i = 0; i < LEARN_CONTEXT; i++) factor *= LEARN_FACTOR;
    return factor;
}

/* Updates the hash of the context, the last LEARN_CONTEXT requests; returns false if there are too
 * few requests yet. */
static bool learn_context(tn__learn *learn) {
    uint64_t last = learn->count - 1, kept = learn->count - learn->first;
    learn->context = learn->context * LEARN_FACTOR + learn_key(tn__learn_at(learn, last));
    if (kept > LEARN_CONTEXT)
        learn->context -=
            learn_factor_of_oldest() * learn_key(tn__learn_at(learn, last - LEARN_CONTEXT));
    return kept >= LEARN_CONTEXT;
}

/* Returns the distance to an earlier occurrence of the last sixteen requests, if position `seen` is
 * one; else 0. */
static uint64_t learn_propose(const tn__learn *learn, uint32_t seen) {
    uint64_t lag = (uint32_t)learn->count - seen;
    if (lag == 0 || lag + LEARN_CONTEXT > learn->count - learn->first) return 0;
    for (uint64_t i = 1; i <= LEARN_CONTEXT; i++)
        if (!learn_alike(tn__learn_at(learn, learn->count - i),
                         tn__learn_at(learn, learn->count - i - lag)))
            return 0;
    return lag;
}

static void learn_follow(tn__learn *learn) {
    uint64_t last = learn->count - 1;
    bool has_context = learn_context(learn);
    uint32_t *seen = &learn->seen[(learn->context * LEARN_FACTOR) >> 32 & (learn->room - 1)];
    bool is_kept = learn->lag != 0 && learn->lag <= last - learn->first;
    if (is_kept && learn_alike(tn__learn_at(learn, last), tn__learn_at(learn, last - learn->lag))) {
        learn->run++;
    } else {
        learn->lag = has_context ? learn_propose(learn, *seen) : 0;
        learn->run = learn->lag != 0 ? LEARN_CONTEXT : 0;
        learn->enough = 0;
    }
    if (has_context) *seen = (uint32_t)learn->count;
}

/* The number of requests in an iteration with the present distance `lag`. */
static uint64_t learn_period(const tn__learn *learn) {
    return (LEARN_LEAST + learn->lag - 1) / learn->lag * learn->lag;
}

bool tn__learn_ready(const tn__learn *learn, uint64_t patience) {
    if (learn->lag == 0 || learn->run < learn->enough) return false;
    uint64_t period = learn_period(learn);
    return learn->run >= patience * period && 2 * period <= learn->count - learn->first;
}

uint64_t tn__learn_period(tn__learn *learn, uint64_t patience) {
    if (!tn__learn_ready(learn, patience)) return 0;
    learn->enough = 2 * learn->run;
    return learn_period(learn);
}

/* --- requests --- */

/* Whether this request is not recorded. A phase of skipped requests starts when the ring is full
 * and no period was found. */
static bool learn_skips(tn__learn *learn) {
    if (learn->skip > 0) {
        learn->skip--;
        return true;
    }
    bool is_full = learn->count - learn->first == LEARN_ROOM_MAX;
    if (!is_full || learn->run > learn->lag / 2) return false;
    learn->skips = learn->skips == 0 ? LEARN_ROOM_MAX : 2 * learn->skips;
    if (learn->skips > LEARN_SKIPS_MAX) learn->skips = LEARN_SKIPS_MAX;
    learn->skip = learn->skips;
    tn__learn_forget(learn);
    return true;
}

uint32_t tn__learn_ask(const tn_context *context, tn__learn *learn, const tn__asked *asked) {
    if (learn_skips(learn) || !learn_room(context, learn)) return TN__LEARN_NONE;
    uint32_t number = (uint32_t)learn->count;
    learn->asked[learn->count++ & (learn->room - 1)] = *asked;
    learn_follow(learn);
    return number;
}

bool tn__learn_knows(const tn__learn *learn, uint32_t number, uint64_t birth, uint64_t *which) {
    uint64_t age = (uint32_t)learn->count - number;
    if (age == 0 || age > learn->count - learn->first) return false;
    *which = learn->count - age;
    return tn__learn_at(learn, *which)->birth == birth;
}

void tn__learn_free(tn__learn *learn, uint32_t number, uint64_t birth) {
    uint64_t which;
    if (tn__learn_knows(learn, number, birth, &which))
        learn->asked[which & (learn->room - 1)].freed = learn->count;
}
