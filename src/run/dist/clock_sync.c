/* clock_sync.c - estimates the clock of rank 0 on every other rank, and the speed of messages.
 *
 * Rank 0 asks each other rank for its time, several times, and uses the answer that came back
 * fastest. The other clock was read between question and answer, so the middle of that interval is
 * wrong by at most half its length. If the difference of the clocks is smaller than that, both are
 * assumed to be one clock, and times are not shifted.
 * Source: Cristian, "Probabilistic clock synchronization" (1989).
 */
#include <math.h>

#include "run/dist/world.h"

#define CLOCK_ROUNDS 16u
#define CLOCK_TAG 0x636c6bu /* tag of the messages: any number, because no program is running */
#define CLOCK_SMALL 1u      /* number of elements in the small message */
#define CLOCK_LARGE (1u << 18)
#define CLOCK_TRIES 5u

static double clock_now(void *self) {
    (void)self;
    return tn__clock_s();
}

static tn_status clock_number(uint32_t rank, double seconds, tn_error *error) {
    if (isfinite(seconds)) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "rank %u sent a time that is no number", rank);
}

static tn_status clock_ask(const tn_exchange *to, uint32_t peer, double (*clock)(void *self),
                           void *self, tn_error *error) {
    double shift_s = 0, least = INFINITY;
    for (uint32_t i = 0; i < CLOCK_ROUNDS; i++) {
        double asked = clock(self), theirs = 0;
        TN_TRY(to->send(to->self, peer, CLOCK_TAG, &asked, sizeof asked, error));
        TN_TRY(to->recv(to->self, peer, CLOCK_TAG, &theirs, sizeof theirs, error));
        TN_TRY(clock_number(peer, theirs, error));
        double heard = clock(self);
        if (heard - asked >= least) continue;
        least = heard - asked;
        shift_s = (asked + heard) / 2 - theirs;
    }
    if (fabs(shift_s) <= least / 2) shift_s = 0;
    return to->send(to->self, peer, CLOCK_TAG, &shift_s, sizeof shift_s, error);
}

static tn_status clock_answer(const tn_exchange *to, double (*clock)(void *self), void *self,
                              double *shift_s, tn_error *error) {
    for (uint32_t i = 0; i < CLOCK_ROUNDS; i++) {
        double asked;
        TN_TRY(to->recv(to->self, 0, CLOCK_TAG, &asked, sizeof asked, error));
        double mine = clock(self);
        TN_TRY(to->send(to->self, 0, CLOCK_TAG, &mine, sizeof mine, error));
    }
    TN_TRY(to->recv(to->self, 0, CLOCK_TAG, shift_s, sizeof *shift_s, error));
    return clock_number(0, *shift_s, error);
}

tn_status tn__world_clock(tn_world *world, double (*clock)(void *self), void *self, double *shift_s,
                          tn_error *error) {
    const tn_exchange *to = &world->exchange;
    double shift = 0;
    if (world->rank != 0) {
        TN_TRY(clock_answer(to, clock, self, &shift, error));
    } else {
        for (uint32_t peer = 1; peer < world->ranks; peer++)
            TN_TRY(clock_ask(to, peer, clock, self, error));
    }
    *shift_s = shift;
    return TN_OK;
}

tn_status tn_world_clock(tn_world *world, double *shift_s, tn_error *error) {
    return tn__world_clock(world, clock_now, NULL, shift_s, error);
}

/* --- speed --- */

/* Measures the median time of a few reductions, after a first one that is not counted. */
static tn_status clock_reduce(const tn_exchange *to, float *data, uint32_t count, double *seconds,
                              tn_error *error) {
    double took[CLOCK_TRIES];
    for (uint32_t i = 0; i <= CLOCK_TRIES; i++) {
        double begun = tn__clock_s();
        TN_TRY(to->reduce(to->self, 0, data, count, TN_FLOAT32, TN_REDUCTION_SUM, error));
        double own = tn__clock_s() - begun;
        uint32_t at = i > 0 ? i - 1 : 0; /* insert the measured time into the sorted list */
        for (; at > 0 && took[at - 1] > own; at--) took[at] = took[at - 1];
        took[at] = own;
    }
    *seconds = took[CLOCK_TRIES / 2];
    return TN_OK;
}

tn_status tn_world_measure_link(tn_world *world, tn_world_rates *rates, tn_error *error) {
    const tn_exchange *to = &world->exchange;
    double small = 0, large = 0;
    tn_world_rates made = {0};
    if (world->ranks > 1) {
        float *data = tn__alloc_array(&world->context, CLOCK_LARGE, sizeof *data);
        if (data == NULL) return tn__no_memory(error, "the messages that measure the speed");
        tn_status status = clock_reduce(to, data, CLOCK_SMALL, &small, error);
        if (status == TN_OK) status = clock_reduce(to, data, CLOCK_LARGE, &large, error);
        tn__free(&world->context, data, CLOCK_LARGE * sizeof *data);
        TN_TRY(status);
        made.latency_s = small;
        made.bytes_per_s = large > small ? CLOCK_LARGE * sizeof *data / (large - small) : 0;
        TN_TRY(to->broadcast(to->self, 0, 0, &made, sizeof made, error));
    }
    *rates = made;
    return TN_OK;
}
