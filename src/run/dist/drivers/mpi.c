/* mpi.c - the transport for ranks that are processes, started by Open MPI's mpirun.
 *
 * One thread, the helper, makes all calls of MPI. Open MPI makes progress only inside its calls, so
 * the helper allows messages to move while the rank computes. Other threads append transfers to a
 * list and wait until the helper reports them as done. The helper sleeps for some microseconds
 * between its rounds, because a machine may have fewer cores than ranks.
 *
 * Heartbeats: every rank regularly sends a heartbeat to the next rank. A rank that receives no
 * heartbeat for `silence_s`, that waits longer than `patience_s`, or that fails, sends a notice to
 * all others. The lowest rank that still runs reports the error to the user and ends the job with
 * MPI_Abort, because messages that have begun cannot be cancelled. If no message has begun (all
 * ranks agreed that they cannot start), the ranks exit normally after a last notice (MPI_BYE).
 *
 * Cost: a message, and a sleep of the helper; some 50 us each way.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "run/dist/transport.h"
#include "run/dist/mpi/shim.h"

#define MPI_SLEEP_NS 20000
#define MPI_IDLE_S 0.02  /* seconds between checks for notices while no message is in progress */
#define MPI_NOTICE_S 0.5 /* seconds for notices to be sent before the job is aborted */
#define MPI_BYE_S 5.0    /* seconds after a failure in which other ranks can end normally */
/* Limit for MPI_Init, in which every rank waits for all others: the environment variable
 * TENURE_START_S, or MPI_START_S, plus MPI_START_EACH_S for each rank. */
#define MPI_START_S 20.0
#define MPI_START_EACH_S 0.01
#define MPI_START_MOST_S 86400.0

typedef enum mpi_sort { MPI_BEAT, MPI_FAILED, MPI_BYE } mpi_sort;

typedef struct mpi_notice {
    mpi_sort sort;
    /* `silent`: no heartbeat of this rank arrives; TN_NONE: no rank is silent */
    uint32_t from, silent;
    tn_error why;
} mpi_notice;

typedef struct mpi_out { /* A notice to one rank. `busy`: it is still being sent. */
    mpi_notice notice;
    void *request;
    bool busy;
} mpi_out;

typedef struct mpi_link {
    const tn_world_options *options;
    const tn__world_job *job;
    const tn__shim *shim;
    pthread_mutex_t lock; /* protects the fields that the helper and other threads use */
    pthread_cond_t changed;
    uint32_t rank, ranks;
    /* `ready`: MPI is initialised; `over`: this rank's job has ended; `failed`: no rank can
     * continue */
    bool ready, over, failed;
    tn_error why;
    uint32_t silent;
    tn__transfer *posted, *posted_last;
    /* The fields from here on are used by the helper only. */
    tn__transfer *active; /* transfers that have been posted and are not complete */
    mpi_notice in;
    void *in_request;
    /* 2 * ranks entries: a heartbeat for each rank, then another notice for each rank */
    mpi_out *outs;
    /* for each other rank: whether its last notice has arrived; for this rank: whether the last
     * notice was sent */
    bool *gone;
    /* `heard`: when the last heartbeat arrived; `beat`: when the last one was sent; `closed`: when
     * the failure was found */
    double heard, beat, closed;
    double looked;    /* time of the last check for heartbeats */
    bool is_reported; /* whether the failure was reported to other ranks and to the user */
    int status;       /* exit status of the job after a failure */
    pthread_t thread;
} mpi_link;

extern const tn__link_driver tn__link_mpi;

/* --- loading the library tenure-mpi.so --- */

static const tn__shim *mpi_open(const char *path) {
    /* RTLD_GLOBAL, because Open MPI's own plug-ins need the library's symbols */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const tn__shim *shim = library != NULL ? dlsym(library, TN__SHIM_SYMBOL) : NULL;
    return shim != NULL && shim->version == TN__SHIM_VERSION ? shim : NULL;
}

/* Finds the file that contains this code. For a program that was found through PATH, the dynamic
 * linker knows only a name without a folder, which would be looked up in the current folder. In
 * that case the path of the running program is used. */
static bool mpi_file(char file[PATH_MAX]) {
    Dl_info here;
    if (dladdr((const void *)&tn__link_mpi, &here) == 0 || here.dli_fname == NULL) return false;
    if (strchr(here.dli_fname, '/') != NULL)
        return snprintf(file, PATH_MAX, "%s", here.dli_fname) < PATH_MAX;
    ssize_t length = readlink("/proc/self/exe", file, PATH_MAX - 1);
    if (length <= 0) return false;
    file[length] = '\0';
    return strchr(file, '/') != NULL;
}

/* Loads tenure-mpi.so, which is in a folder next to this code, in a build tree or where it was
 * installed. Returns NULL if it cannot be loaded. */
static const tn__shim *mpi_find(void) {
    static const char *const places[] = {"", "../", "tenure/", "../" TENURE_LIBDIR "/tenure/"};
    char path[PATH_MAX], file[PATH_MAX];
    if (!mpi_file(file)) return NULL;
    int folder = (int)(strrchr(file, '/') - file) + 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(path, sizeof path, "%.*s%stenure-mpi.so", folder, file, places[i]);
        const tn__shim *shim = length > 0 && (size_t)length < sizeof path ? mpi_open(path) : NULL;
        if (shim != NULL) return shim;
    }
    return NULL;
}

/* --- failing --- */

/* Records a failure; only the first one is reported. The caller must hold the lock. */
static void mpi_fail(mpi_link *link, const tn_error *why, uint32_t silent) {
    if (!link->failed) {
        link->why = *why;
        link->silent = silent;
    }
    link->failed = true;
    pthread_cond_broadcast(&link->changed);
}

static void mpi_fail_words(mpi_link *link, tn_status status, const char *words) {
    tn_error why = {.status = status};
    snprintf(why.message, sizeof why.message, "%s", words);
    pthread_mutex_lock(&link->lock);
    mpi_fail(link, &why, TN_NONE);
    pthread_mutex_unlock(&link->lock);
}

static bool mpi_has_failed(mpi_link *link) {
    pthread_mutex_lock(&link->lock);
    bool failed = link->failed;
    pthread_mutex_unlock(&link->lock);
    return failed;
}

/* Checks the result of a call of MPI. If the call failed, reports MPI's error message and returns
 * false. */
static bool mpi_good(mpi_link *link, int code, const char *what) {
    char words[200], text[300];
    if (code == 0) return true;
    link->shim->words(code, words, sizeof words);
    snprintf(text, sizeof text, "rank %u, %s: %s", link->rank, what, words);
    mpi_fail_words(link, TN_E_IO, text);
    return false;
}

/* --- transfers --- */

static tn_status mpi_post(void *self, tn__transfer *transfers, uint32_t count, tn_error *error) {
    mpi_link *link = self;
    for (uint32_t i = 0; i < count; i++)
        if (transfers[i].number > INT_MAX)
            TN_FAIL(error, TN_E_UNSUPPORTED, "MPI has no tag or group of number %u",
                    transfers[i].number);
    pthread_mutex_lock(&link->lock);
    for (uint32_t i = 0; i < count; i++) {
        tn__transfer *one = &transfers[i];
        one->from = link->rank;
        one->state = TN__TRANSFER_WAITS;
        one->next = NULL;
        *(link->posted_last != NULL ? &link->posted_last->next : &link->posted) = one;
        link->posted_last = one;
    }
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    return TN_OK;
}

static const tn__transfer *mpi_waits(const tn__transfer *transfers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (transfers[i].state != TN__TRANSFER_DONE) return &transfers[i];
    return NULL;
}

/* Waits until all transfers are done. After a failure it returns only when no message is in
 * progress, because MPI would still write to the caller's memory. If all ranks have agreed on the
 * failure, messages complete normally; otherwise the helper aborts the job. */
static tn_status mpi_wait(void *self, tn__transfer *transfers, uint32_t count, tn_error *error) {
    mpi_link *link = self;
    struct timespec until = tn__link_until(link->options->patience_s);
    const tn__transfer *open;
    pthread_mutex_lock(&link->lock);
    while ((open = mpi_waits(transfers, count)) != NULL) {
        if (link->failed) {
            pthread_cond_wait(&link->changed, &link->lock);
        } else if (pthread_cond_timedwait(&link->changed, &link->lock, &until) == ETIMEDOUT &&
                   mpi_waits(transfers, count) != NULL) {
            tn_error why = {.status = TN_E_STOPPED};
            snprintf(why.message, sizeof why.message, "rank %u has waited %.0f s for rank %u",
                     link->rank, link->options->patience_s, open->peer);
            mpi_fail(link, &why, TN_NONE);
        }
    }
    tn_status status = link->failed ? link->why.status : TN_OK;
    if (link->failed && error != NULL) *error = link->why;
    pthread_mutex_unlock(&link->lock);
    return status;
}

/* --- the helper thread: transfers --- */

static void mpi_sizes(mpi_link *link, const tn__transfer *one, int bytes) {
    char text[200];
    snprintf(text, sizeof text,
             "rank %u sends %d bytes to rank %u, which takes %llu: they are at different places of "
             "different programs",
             one->peer, bytes, one->from, (unsigned long long)one->bytes);
    mpi_fail_words(link, TN_E_CONFLICT, text);
}

static int mpi_kind(const tn__transfer *one) {
    return one->kind == TN__MESSAGE_TAGGED ? TN__SHIM_TAGGED : TN__SHIM_GROUP;
}

/* Appends the posted transfers to the active ones, in order, and starts the sends. */
static bool mpi_begin(mpi_link *link) {
    tn__transfer **end = &link->active;
    pthread_mutex_lock(&link->lock);
    tn__transfer *list = link->posted;
    link->posted = link->posted_last = NULL;
    pthread_mutex_unlock(&link->lock);
    while (*end != NULL) end = &(*end)->next;
    *end = list;
    for (tn__transfer *one = list; one != NULL; one = one->next) {
        one->begun = one->sends;
        one->request = tn__alloc(link->job->context, link->shim->request_bytes);
        if (one->request == NULL)
            mpi_fail_words(link, TN_E_NO_MEMORY, "out of memory: a message");
        else if (one->sends)
            (void)mpi_good(link,
                           link->shim->post(true, mpi_kind(one), (int)one->peer, (int)one->number,
                                            one->data, (int)one->bytes, one->request),
                           "a message");
    }
    return list != NULL;
}

/* Whether this receive is the next one for messages of its rank, kind and number. An earlier
 * receive must get its message first. */
static bool mpi_is_next(const mpi_link *link, const tn__transfer *one) {
    for (const tn__transfer *at = link->active; at != one; at = at->next)
        if (!at->begun && at->peer == one->peer && at->kind == one->kind &&
            at->number == one->number)
            return false;
    return true;
}

/* Starts a receive if its message has arrived. Returns whether it was started. */
static bool mpi_match(mpi_link *link, tn__transfer *one) {
    bool there = false;
    int bytes = 0;
    if (!mpi_is_next(link, one)) return false;
    int code = link->shim->match(mpi_kind(one), (int)one->peer, (int)one->number, one->data,
                                 (int)one->bytes, &there, &bytes, one->request);
    if (!mpi_good(link, code, "a message") || !there) return false;
    one->begun = (uint64_t)bytes == one->bytes;
    if (!one->begun) mpi_sizes(link, one, bytes);
    return one->begun;
}

/* Whether a transfer is complete. After an error of MPI, no transfer completes. */
static bool mpi_done(mpi_link *link, tn__transfer *one) {
    bool done = false;
    int count;
    if (!one->begun && !mpi_match(link, one)) return false;
    return mpi_good(link, link->shim->test(one->request, &done, &count), "a message") && done;
}

/* Completes active transfers and wakes the threads that wait for them. It also runs after a
 * failure, because other ranks may not know of the failure yet and may wait for messages of this
 * rank. */
static bool mpi_progress(mpi_link *link) {
    bool any = false;
    for (tn__transfer **at = &link->active; *at != NULL;) {
        tn__transfer *one = *at;
        if (!mpi_done(link, one)) {
            at = &one->next;
            continue;
        }
        any = true;
        *at = one->next;
        tn__free(link->job->context, one->request, link->shim->request_bytes);
        pthread_mutex_lock(&link->lock);
        one->state = TN__TRANSFER_DONE;
        pthread_cond_broadcast(&link->changed);
        pthread_mutex_unlock(&link->lock);
    }
    return any;
}

/* --- the helper thread: notices --- */

static bool mpi_listen(mpi_link *link) {
    return mpi_good(link,
                    link->shim->post(false, TN__SHIM_CONTROL, -1, 0, &link->in, sizeof link->in,
                                     link->in_request),
                    "a notice");
}

static void mpi_hear(mpi_link *link) {
    mpi_notice *in = &link->in;
    bool done = false;
    int count = 0;
    while (mpi_good(link, link->shim->test(link->in_request, &done, &count), "a notice") && done) {
        if (in->from == (link->rank + link->ranks - 1) % link->ranks) link->heard = tn__clock_s();
        if (in->sort == MPI_BYE && in->from < link->ranks) link->gone[in->from] = true;
        if (in->sort == MPI_FAILED) {
            tn__world_received(&in->why);
            pthread_mutex_lock(&link->lock);
            mpi_fail(link, &in->why, in->silent);
            pthread_mutex_unlock(&link->lock);
        }
        if (!mpi_listen(link)) return;
    }
}

static void mpi_say(mpi_link *link, mpi_out *out, uint32_t to, const mpi_notice *notice) {
    bool done = true;
    int count = 0;
    if (out->busy) (void)link->shim->test(out->request, &done, &count);
    out->busy = !done;
    /* a notice is still being sent to this rank, so the new one is dropped */
    if (out->busy) return;
    out->notice = *notice;
    out->busy = link->shim->post(true, TN__SHIM_CONTROL, (int)to, 0, &out->notice,
                                 sizeof out->notice, out->request) == 0;
}

static void mpi_say_all(mpi_link *link, mpi_sort sort) {
    mpi_notice notice = {.sort = sort, .from = link->rank, .silent = TN_NONE};
    pthread_mutex_lock(&link->lock);
    if (sort == MPI_FAILED) {
        notice.why = link->why;
        notice.silent = link->silent;
    }
    pthread_mutex_unlock(&link->lock);
    for (uint32_t r = 0; r < link->ranks; r++) {
        mpi_out *out = &link->outs[link->ranks + r];
        while (r != link->rank && out->busy && r != notice.silent) {
            bool done = false;
            int count;
            if (link->shim->test(out->request, &done, &count) != 0 || done) out->busy = false;
        }
        if (r != link->rank && r != notice.silent) mpi_say(link, out, r, &notice);
    }
}

static void mpi_beat(mpi_link *link) {
    double now = tn__clock_s();
    uint32_t next = (link->rank + 1) % link->ranks;
    uint32_t before = (link->rank + link->ranks - 1) % link->ranks;
    const mpi_notice sign = {.sort = MPI_BEAT, .from = link->rank, .silent = TN_NONE};
    if (link->ranks == 1) return;
    /* this process was suspended, so missing heartbeats mean nothing */
    if (now - link->looked > link->options->silence_s / 2) link->heard = now;
    link->looked = now;
    if (now - link->beat >= link->options->silence_s / 10 && !link->gone[next]) {
        mpi_say(link, &link->outs[next], next, &sign);
        link->beat = now;
    }
    if (now - link->heard <= link->options->silence_s || link->gone[before]) return;
    tn_error why = {.status = TN_E_STOPPED};
    snprintf(why.message, sizeof why.message, "rank %u gives no sign of life since %.0f s", before,
             now - link->heard);
    pthread_mutex_lock(&link->lock);
    mpi_fail(link, &why, before);
    pthread_mutex_unlock(&link->lock);
}

/* --- the helper thread: the end of the job --- */

static bool mpi_speaks(const mpi_link *link) { return link->rank == (link->silent == 0 ? 1 : 0); }

/* Reports the failure to all other ranks. One rank also reports it to the user, before any rank
 * exits, because mpirun ends the other ranks when one process exits with an error. */
static void mpi_report(mpi_link *link) {
    const tn_world_options *options = link->options;
    int code = tn_status_exit_code(link->why.status);
    link->is_reported = true;
    link->closed = tn__clock_s();
    mpi_say_all(link, MPI_FAILED);
    if (mpi_speaks(link) && options->tell != NULL)
        code = options->tell(options->self, link->why.status, &link->why);
    link->status = code > 0 && code < 126 ? code : 4;
}

/* Ends a job that cannot end normally, after a delay in which the rank that reports to the user can
 * do this. */
static void mpi_abort(mpi_link *link) {
    struct timespec grace = {.tv_sec = (time_t)MPI_BYE_S};
    if (!mpi_speaks(link)) nanosleep(&grace, NULL);
    link->shim->abort(link->status);
}

static bool mpi_all_gone(const mpi_link *link) {
    for (uint32_t r = 0; r < link->ranks; r++)
        if (r != link->rank && !link->gone[r]) return false;
    return true;
}

/* Whether all ranks have ended. Also does what is due before: reports a failure, sends a last
 * notice when this rank's job has ended, and aborts the job if it cannot end after a failure. */
static bool mpi_ends(mpi_link *link) {
    double now = tn__clock_s();
    pthread_mutex_lock(&link->lock);
    bool failed = link->failed, over = link->over;
    pthread_mutex_unlock(&link->lock);
    if (failed && !link->is_reported) mpi_report(link);
    if (failed && now - link->closed > MPI_NOTICE_S && link->active != NULL) mpi_abort(link);
    if (over && !link->gone[link->rank]) {
        link->gone[link->rank] = true;
        mpi_say_all(link, MPI_BYE);
    }
    if (failed && now - link->closed > MPI_BYE_S) mpi_abort(link);
    return over && mpi_all_gone(link);
}

/* Sleeps for some microseconds while messages are in progress, otherwise until a transfer is
 * posted, at most for MPI_IDLE_S. */
static void mpi_rest(mpi_link *link) {
    struct timespec nap = {.tv_nsec = MPI_SLEEP_NS}, until = tn__link_until(MPI_IDLE_S);
    if (link->active != NULL) {
        nanosleep(&nap, NULL);
        return;
    }
    pthread_mutex_lock(&link->lock);
    if (link->posted == NULL && !link->over)
        pthread_cond_timedwait(&link->changed, &link->lock, &until);
    bool over = link->over;
    pthread_mutex_unlock(&link->lock);
    if (over) nanosleep(&nap, NULL);
}

static bool mpi_outs_busy(mpi_link *link) {
    bool busy = false;
    for (uint32_t i = 0; i < 2 * link->ranks; i++) {
        bool done = true;
        int count;
        if (link->outs[i].busy && link->shim->test(link->outs[i].request, &done, &count) != 0)
            done = true;
        link->outs[i].busy = link->outs[i].busy && !done;
        busy |= link->outs[i].busy;
    }
    return busy;
}

static bool mpi_room(mpi_link *link) {
    const tn_context *context = link->job->context;
    uint8_t *requests =
        tn__alloc_array(context, 2 * (size_t)link->ranks + 1, link->shim->request_bytes);
    link->outs = tn__alloc_array(context, 2 * (size_t)link->ranks, sizeof *link->outs);
    link->gone = tn__alloc_array(context, link->ranks, sizeof *link->gone);
    link->in_request = requests;
    if (requests == NULL || link->outs == NULL || link->gone == NULL) return false;
    for (uint32_t i = 0; i < 2 * link->ranks; i++)
        link->outs[i].request = requests + (i + 1) * link->shim->request_bytes;
    return true;
}

static void mpi_release(mpi_link *link) {
    const tn_context *context = link->job->context;
    tn__free(context, link->in_request, (2 * (size_t)link->ranks + 1) * link->shim->request_bytes);
    tn__free(context, link->outs, 2 * (size_t)link->ranks * sizeof *link->outs);
    tn__free(context, link->gone, link->ranks * sizeof *link->gone);
}

static bool mpi_start(mpi_link *link) {
    int rank = 0, ranks = 1;
    bool serial = true;
    bool good = mpi_good(link, link->shim->start(&rank, &ranks, &serial), "MPI_Init_thread");
    link->rank = (uint32_t)rank;
    link->ranks = (uint32_t)ranks;
    if (good && !serial)
        mpi_fail_words(link, TN_E_UNSUPPORTED, "this MPI may not be called by a thread of its own");
    if (good && !mpi_room(link)) mpi_fail_words(link, TN_E_NO_MEMORY, "out of memory: ranks");
    link->heard = link->beat = link->looked = tn__clock_s();
    good = good && !mpi_has_failed(link) && mpi_listen(link);
    pthread_mutex_lock(&link->lock);
    link->ready = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    return good;
}

static void *mpi_helper(void *self) {
    mpi_link *link = self;
    if (!mpi_start(link)) return NULL;
    while (!mpi_ends(link)) {
        bool any = mpi_begin(link);
        any = mpi_progress(link) || any;
        mpi_hear(link);
        mpi_beat(link);
        if (!any) mpi_rest(link);
    }
    while (mpi_outs_busy(link)) mpi_hear(link);
    (void)link->shim->cancel(link->in_request);
    (void)link->shim->finish();
    return NULL;
}

/* --- starting and running this rank --- */

static double mpi_number(const char *name) {
    const char *value = getenv(name);
    return value != NULL ? fmax(0, strtod(value, NULL)) : 0;
}

static double mpi_start_s(void) {
    double wanted = fmin(mpi_number("TENURE_START_S"), MPI_START_MOST_S);
    return (wanted > 0 ? wanted : MPI_START_S) +
           MPI_START_EACH_S * mpi_number("OMPI_COMM_WORLD_SIZE");
}

/* Ends this rank if MPI_Init does not return in time. The helper is inside MPI_Init, so no notice
 * can be sent; but mpirun ends all ranks when one exits. The lowest rank that still runs should
 * exit first, because it reports the error to the user; so each rank first waits according to its
 * number. */
static void mpi_never_begins(mpi_link *link) {
    const tn_world_options *options = link->options;
    double rank = mpi_number("OMPI_COMM_WORLD_RANK");
    struct timespec grace = {.tv_sec = (time_t)fmin(3 * rank, 9)};
    tn_error why = {.status = TN_E_STOPPED};
    snprintf(why.message, sizeof why.message,
             "not all ranks have begun after %.0f s: one is stopped, or its machine is gone "
             "(TENURE_START_S=60: wait longer)",
             mpi_start_s());
    int code = tn_status_exit_code(why.status);
    nanosleep(&grace, NULL);
    if (options->tell != NULL) code = options->tell(options->self, why.status, &why);
    _exit(code > 0 && code < 126 ? code : 4);
}

/* Waits until MPI is initialised. */
static void mpi_await(mpi_link *link) {
    struct timespec until = tn__link_until(mpi_start_s());
    pthread_mutex_lock(&link->lock);
    while (!link->ready)
        if (pthread_cond_timedwait(&link->changed, &link->lock, &until) == ETIMEDOUT &&
            !link->ready)
            mpi_never_begins(link);
    pthread_mutex_unlock(&link->lock);
}

static tn_status mpi_rank(mpi_link *link, tn_error *error) {
    tn_error why = {0}, words = {0};
    tn_status status = TN_OK;
    mpi_await(link);
    bool failed = mpi_has_failed(link);
    uint32_t wanted = link->options->ranks;
    if (!failed && wanted != 0 && wanted != link->ranks)
        status = tn__fail(&why, TN_E_INVALID, "there are to be %u ranks, and mpirun has started %u",
                          wanted, link->ranks);
    else if (!failed)
        status = tn__world_rank(link->job, link, link->rank, link->ranks, &why);
    why.status = status;
    tn__world_words(link->rank, &why, &words);
    pthread_mutex_lock(&link->lock);
    /* all ranks report this error, so no rank's number is put in front of it */
    bool named = strncmp(why.where, "rank ", 5) == 0 || (wanted != 0 && wanted != link->ranks);
    if (status != TN_OK) mpi_fail(link, named ? &why : &words, TN_NONE);
    link->over = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    pthread_join(link->thread, NULL);
    if (error != NULL && link->failed) *error = link->why;
    return link->failed ? link->why.status : TN_OK;
}

static tn_status mpi_run(const tn_world_options *options, const tn__world_job *job, bool *began,
                         tn_error *error) {
    mpi_link link = {.options = options, .job = job, .silent = TN_NONE};
    pthread_condattr_t monotonic;
    link.shim = mpi_find();
    if (link.shim == NULL)
        TN_FAIL(
            error, TN_E_UNSUPPORTED,
            "this build carries no messages by MPI: install libopenmpi-dev and openmpi-bin, and "
            "build it again");
    pthread_mutex_init(&link.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&link.changed, &monotonic);
    tn_status status = TN_OK;
    if (pthread_create(&link.thread, NULL, mpi_helper, &link) != 0)
        status = tn__no_memory(error, "a thread for messages");
    else
        *began = true, status = mpi_rank(&link, error);
    mpi_release(&link);
    pthread_cond_destroy(&link.changed);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_destroy(&link.lock);
    return status;
}

const tn__link_driver tn__link_mpi = {.name = "mpi",
                                      .summary = "processes that mpirun of Open MPI starts",
                                      .run = mpi_run,
                                      .post = mpi_post,
                                      .wait = mpi_wait};
