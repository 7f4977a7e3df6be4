/* feed.c - manages transfers and their readers (feed.h); contains the reader "plain", which runs
 * each transfer at once.
 */
#include "run/embedding/feed.h"

#include <errno.h>
#include <unistd.h>

/* --- one transfer --- */

/* Counts the result of a call; a count of 0 is the end of the file, or a full disk. */
bool tn__haul_goes_on(tn__haul *it, ssize_t count, int reason) {
    if (count < 0 && (reason == EINTR || reason == EAGAIN)) return true;
    if (count < 0)
        it->failure = reason;
    else if (count == 0)
        it->failure = it->writes ? ENOSPC : -1;
    else
        it->done += (uint32_t)count;
    return it->failure == 0 && it->done < it->size;
}

void tn__haul_run(int file, tn__haul *it) {
    ssize_t count;
    do {
        char *at = it->data + it->done;
        size_t left = it->size - it->done;
        off_t offset = (off_t)(it->offset + it->done);
        count = it->writes ? pwrite(file, at, left, offset) : pread(file, at, left, offset);
    } while (tn__haul_goes_on(it, count, errno));
}

/* --- lists of them --- */

tn_status tn__feed_open(tn__feed *io, uint32_t threads, tn_error *error) {
    io->vacant = TN__HAUL_NONE;
    for (uint32_t i = io->depth; i-- > 0;) tn__feed_give(io, i);
    return io->reader->open(io, threads, error);
}

void tn__feed_give(tn__feed *io, uint32_t transfer) {
    io->transfers[transfer].next = io->vacant;
    io->vacant = transfer;
}

uint32_t tn__feed_take(tn__feed *io) {
    uint32_t transfer = io->vacant;
    if (transfer != TN__HAUL_NONE) io->vacant = io->transfers[transfer].next;
    return transfer;
}

void tn__feed_begin(tn__feed *io, uint32_t transfer) {
    tn__haul *it = &io->transfers[transfer];
    it->done = 0;
    it->failure = 0;
    if (it->writes)
        io->writing++;
    else
        io->reading++;
    io->reader->begin(io, transfer);
}

void tn__feed_start(tn__feed *io) {
    if (io->reader->start != NULL) io->reader->start(io);
}

uint32_t tn__feed_finish(tn__feed *io) {
    uint32_t transfer = io->reader->finish(io);
    if (io->transfers[transfer].writes)
        io->writing--;
    else
        io->reading--;
    return transfer;
}

/* --- plain --- */

typedef struct plain_state {
    uint32_t done; /* list */
} plain_state;

static uint64_t plain_bytes(uint32_t depth) {
    (void)depth;
    return sizeof(plain_state);
}

static tn_status plain_open(tn__feed *io, uint32_t threads, tn_error *error) {
    plain_state *state = io->state;
    (void)threads;
    (void)error;
    state->done = TN__HAUL_NONE;
    return TN_OK;
}

static void plain_begin(tn__feed *io, uint32_t transfer) {
    plain_state *state = io->state;
    tn__haul_run(io->file, &io->transfers[transfer]);
    io->transfers[transfer].next = state->done;
    state->done = transfer;
}

static uint32_t plain_finish(tn__feed *io) {
    plain_state *state = io->state;
    uint32_t transfer = state->done;
    state->done = io->transfers[transfer].next;
    return transfer;
}

static void plain_close(tn__feed *io) { (void)io; }

static const tn__feeder feed_reader_plain = {.name = "plain",
                                             .summary =
                                                 "one row after the other, in the same thread",
                                             .bytes = plain_bytes,
                                             .open = plain_open,
                                             .begin = plain_begin,
                                             .finish = plain_finish,
                                             .close = plain_close};

/* --- which --- */

static const tn__feeder *const feed_readers[] = {&tn__feeder_uring, &tn__feeder_threads,
                                                 &feed_reader_plain};

tn_status tn__feeder_find(const char *name, const tn__feeder **reader, tn_error *error) {
    bool may_be_uring = name == NULL || strcmp(name, tn__feeder_uring.name) == 0;
    const char *lacks = may_be_uring ? tn__uring_lacks() : NULL;
    if (name == NULL) {
        *reader = lacks == NULL ? &tn__feeder_uring : &tn__feeder_threads;
        return TN_OK;
    }
    for (uint32_t i = 0; i < sizeof feed_readers / sizeof *feed_readers; i++) {
        if (strcmp(feed_readers[i]->name, name) != 0) continue;
        if (feed_readers[i] == &tn__feeder_uring && lacks != NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED, "io_uring cannot be used: %s", lacks);
        *reader = feed_readers[i];
        return TN_OK;
    }
    TN_FAIL(error, TN_E_UNKNOWN, "there is no reader '%.60s'; it is uring, threads or plain", name);
}
