/* threads.c - the transport for ranks that are threads of one process.
 *
 * The first end of a message (send or receive) that is posted is put into a list of the receiving
 * rank. The second end copies the data, directly from the sender's memory to the receiver's. One
 * lock protects everything except the copying.
 *
 * Use: tests, and trying several ranks without a cluster.
 * Cost: a post takes O(messages in the list of the receiving rank).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "run/dist/transport.h"

typedef struct threads_hub {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const tn_world_options *options;
    const tn__world_job *job;
    uint32_t ranks;
    struct threads_end *ends;
    bool failed; /* whether a rank has failed, so that no rank can continue */
    tn_error why;
} threads_hub;

typedef struct threads_end { /* one rank, which is a thread */
    threads_hub *hub;
    uint32_t rank;
    /* messages to this rank of which only one end is posted, in the order of posting */
    tn__transfer *waiting;
    bool over;
    pthread_t thread;
} threads_end;

/* --- failing --- */

/* Records a failure. Only the first one is reported. */
static void threads_fail(threads_hub *hub, const tn_error *why) {
    if (!hub->failed) hub->why = *why;
    hub->failed = true;
    pthread_cond_broadcast(&hub->changed);
}

static tn_status threads_failed(const threads_hub *hub, tn_error *error) {
    if (error != NULL) *error = hub->why;
    return hub->why.status;
}

/* --- meeting --- */

static threads_end *threads_place(const threads_end *end, const tn__transfer *one) {
    return &end->hub->ends[one->sends ? one->peer : end->rank];
}

static bool threads_meet(const tn__transfer *one, const tn__transfer *other) {
    uint32_t from = one->sends ? one->from : one->peer;
    uint32_t others = other->sends ? other->from : other->peer;
    return one->sends != other->sends && from == others && one->kind == other->kind &&
           one->number == other->number;
}

static tn__transfer *threads_take(threads_end *place, const tn__transfer *one) {
    for (tn__transfer **at = &place->waiting; *at != NULL; at = &(*at)->next) {
        tn__transfer *found = *at;
        if (!threads_meet(one, found)) continue;
        *at = found->next;
        return found;
    }
    return NULL;
}

static void threads_append(threads_end *place, tn__transfer *one) {
    tn__transfer **at = &place->waiting;
    while (*at != NULL) at = &(*at)->next;
    one->next = NULL;
    *at = one;
}

/* Copies a message from its send to its receive. The caller must hold the lock; it is released
 * during the copy. */
static void threads_join(threads_hub *hub, tn__transfer *one, tn__transfer *other) {
    const tn__transfer *sends = one->sends ? one : other;
    tn__transfer *takes = one->sends ? other : one;
    if (sends->bytes != takes->bytes) {
        tn_error why = {.status = TN_E_CONFLICT};
        snprintf(why.message, sizeof why.message,
                 "rank %u sends %llu bytes to rank %u, which takes %llu: they are at different "
                 "places of different programs",
                 sends->from, (unsigned long long)sends->bytes, takes->from,
                 (unsigned long long)takes->bytes);
        one->state = other->state = TN__TRANSFER_DONE;
        threads_fail(hub, &why);
        return;
    }
    one->state = other->state = TN__TRANSFER_MOVES;
    pthread_mutex_unlock(&hub->lock);
    memcpy(takes->data, sends->data, (size_t)sends->bytes);
    pthread_mutex_lock(&hub->lock);
    one->state = other->state = TN__TRANSFER_DONE;
    pthread_cond_broadcast(&hub->changed);
}

static tn_status threads_post(void *link, tn__transfer *transfers, uint32_t count,
                              tn_error *error) {
    threads_end *end = link;
    threads_hub *hub = end->hub;
    (void)error;
    pthread_mutex_lock(&hub->lock);
    for (uint32_t i = 0; i < count; i++) {
        transfers[i].from = end->rank;
        transfers[i].state = TN__TRANSFER_WAITS;
    }
    for (uint32_t i = 0; i < count && !hub->failed; i++) {
        tn__transfer *one = &transfers[i];
        threads_end *place = threads_place(end, one);
        tn__transfer *other = threads_take(place, one);
        if (other != NULL)
            threads_join(hub, one, other);
        else
            threads_append(place, one);
    }
    pthread_mutex_unlock(&hub->lock);
    return TN_OK;
}

/* --- waiting --- */

/* Returns the first transfer that is not done, or NULL if all are done. */
static const tn__transfer *threads_open(const tn__transfer *transfers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (transfers[i].state != TN__TRANSFER_DONE) return &transfers[i];
    return NULL;
}

/* Removes transfers from the lists after a failure, and waits for copies that have begun, which are
 * short. */
static void threads_abandon(threads_end *end, tn__transfer *transfers, uint32_t count) {
    threads_hub *hub = end->hub;
    for (uint32_t i = 0; i < count; i++) {
        tn__transfer **at = &threads_place(end, &transfers[i])->waiting;
        while (*at != NULL && *at != &transfers[i]) at = &(*at)->next;
        if (*at != NULL) *at = transfers[i].next;
        while (transfers[i].state == TN__TRANSFER_MOVES)
            pthread_cond_wait(&hub->changed, &hub->lock);
    }
}

/* Records the failure that the other end of a transfer is never posted: its rank has ended
 * (`over`), or has not posted it within the time limit. */
static void threads_alone(threads_end *end, const tn__transfer *open, bool over) {
    tn_error why = {.status = over ? TN_E_CONFLICT : TN_E_STOPPED};
    if (over)
        snprintf(why.message, sizeof why.message,
                 "rank %u has ended, and rank %u waits for it: they run different programs",
                 open->peer, end->rank);
    else
        snprintf(why.message, sizeof why.message, "rank %u has waited %.0f s for rank %u",
                 end->rank, end->hub->options->patience_s, open->peer);
    threads_fail(end->hub, &why);
}

static tn_status threads_wait(void *link, tn__transfer *transfers, uint32_t count,
                              tn_error *error) {
    threads_end *end = link;
    threads_hub *hub = end->hub;
    struct timespec until = tn__link_until(hub->options->patience_s);
    const tn__transfer *open;
    tn_status status = TN_OK;
    pthread_mutex_lock(&hub->lock);
    while ((open = threads_open(transfers, count)) != NULL && !hub->failed) {
        bool waits = open->state == TN__TRANSFER_WAITS;
        if (waits && hub->ends[open->peer].over)
            threads_alone(end, open, true);
        else if (pthread_cond_timedwait(&hub->changed, &hub->lock, &until) == ETIMEDOUT &&
                 open->state == TN__TRANSFER_WAITS)
            threads_alone(end, open, false);
    }
    if (hub->failed) {
        threads_abandon(end, transfers, count);
        status = threads_failed(hub, error);
    }
    pthread_mutex_unlock(&hub->lock);
    return status;
}

/* --- ranks --- */

static void *threads_rank(void *self) {
    threads_end *end = self;
    threads_hub *hub = end->hub;
    tn_error error = {0}, why = {0};
    tn_status status = tn__world_rank(hub->job, end, end->rank, hub->ranks, &error);
    pthread_mutex_lock(&hub->lock);
    end->over = true;
    error.status = status;
    if (status != TN_OK && !hub->failed) {
        /* the ranks agreed on this error, which already names a rank */
        bool named = strncmp(error.where, "rank ", 5) == 0;
        tn__world_words(end->rank, &error, &why);
        threads_fail(hub, named ? &error : &why);
    }
    pthread_cond_broadcast(&hub->changed);
    pthread_mutex_unlock(&hub->lock);
    return NULL;
}

static tn_status threads_start(threads_hub *hub, tn_error *error) {
    uint32_t started = 0;
    while (started < hub->ranks) {
        threads_end *end = &hub->ends[started];
        *end = (threads_end){.hub = hub, .rank = started};
        started++;
    }
    for (started = 0; started < hub->ranks; started++)
        if (pthread_create(&hub->ends[started].thread, NULL, threads_rank, &hub->ends[started]))
            break;
    /* make the ranks that run fail, so that they do not wait for ranks that never start */
    if (started < hub->ranks) {
        tn_error why = {.status = TN_E_NO_MEMORY};
        snprintf(why.message, sizeof why.message, "no thread for rank %u", started);
        pthread_mutex_lock(&hub->lock);
        threads_fail(hub, &why);
        pthread_mutex_unlock(&hub->lock);
    }
    for (uint32_t r = 0; r < started; r++) pthread_join(hub->ends[r].thread, NULL);
    return hub->failed ? threads_failed(hub, error) : TN_OK;
}

static tn_status threads_run(const tn_world_options *options, const tn__world_job *job, bool *began,
                             tn_error *error) {
    threads_hub hub = {
        .options = options, .job = job, .ranks = options->ranks > 0 ? options->ranks : 1};
    pthread_condattr_t monotonic;
    hub.ends = tn__alloc_array(job->context, hub.ranks, sizeof *hub.ends);
    if (hub.ends == NULL) return tn__no_memory(error, "ranks");
    *began = true;
    pthread_mutex_init(&hub.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&hub.changed, &monotonic);
    tn_status status = threads_start(&hub, error);
    if (status != TN_OK && options->tell != NULL) (void)options->tell(options->self, status, error);
    pthread_cond_destroy(&hub.changed);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_destroy(&hub.lock);
    tn__free(job->context, hub.ends, hub.ranks * sizeof *hub.ends);
    return status;
}

const tn__link_driver tn__link_threads = {.name = "threads",
                                          .summary = "threads of one process",
                                          .run = threads_run,
                                          .post = threads_post,
                                          .wait = threads_wait};
