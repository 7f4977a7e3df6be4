/* play.c - replays the requests of a trace on a device, from one block that a pool divides or from
 * the device's own allocator.
 *
 * The pool first runs without the device, to find the range that it needs. Some pools reserve their
 * least only if they may choose the range, and need a little more in a range of that size.
 */
#include <tenure/play.h>

#include <inttypes.h>

#include "interop/play/streams.h"

enum {
    PLAY_ROUNDS = 10, /* timed rounds; fewer for a long trace */
    PLAY_EVENTS = 1000000,
    PLAY_TRIES = 24, /* of a range, each an eighth larger than the last */
    PLAY_LEAST = 4096,
    PLAY_MARK = sizeof(uint64_t),
};
#define PLAY_SECONDS 2.0 /* no round begins later, unless the number of rounds was given */

typedef struct play_block {
    uint64_t id;             /* from the pool */
    tn_address address;      /* on the device */
    uint64_t size, given;    /* bytes that were requested, and that the pool allocated */
    uint64_t marks[2];       /* written to the first and last bytes */
    uint64_t back[2];        /* read back from there */
    uint32_t stream;         /* its place */
    bool is_had, was_marked; /* allocated now; marked in a round with work */
} play_block;

typedef struct play {
    tn_context context;
    tn_device *device;
    tn_pool_options options; /* for the pool */
    const tn_pool_event *events;
    uint64_t event_count;
    uint32_t block_count;
    bool has_pool, is_dry, has_work; /* dry: without the device; work: blocks are marked */
    bool is_refused;                 /* the last failure was for lack of memory */
    tn_pool *pool;
    tn_address base; /* of the pool's range */
    play_block *blocks;
    tn__play_streams streams;
    tn__stream_fences turns;
    uint64_t now, taken; /* device bytes: now, and at the peak */
} play;

/* --- the bytes of a block --- */

static uint64_t play_mark_size(const play_block *block) {
    return block->size < PLAY_MARK ? block->size : PLAY_MARK;
}

static bool play_has_end(const play_block *block) { return block->size >= 2 * PLAY_MARK; }

static tn_status play_write(play *it, play_block *block, tn_error *error) {
    tn_stream *stream = it->streams.streams[block->stream];
    block->marks[0] = ((uint64_t)(block - it->blocks) + 1) * 0x9e3779b97f4a7c15u;
    block->marks[1] = ~block->marks[0];
    block->was_marked = true;
    TN_TRY(tn_device_put(stream, block->address, &block->marks[0], play_mark_size(block), error));
    if (!play_has_end(block)) return TN_OK;
    tn_address end = block->address + block->size - PLAY_MARK;
    return tn_device_put(stream, end, &block->marks[1], PLAY_MARK, error);
}

/* Reads the marks of a block on the stream that frees it. If another stream allocated the block,
 * the freeing stream first waits for that stream, as the recorded program did. */
static tn_status play_read(play *it, play_block *block, uint32_t place, tn_error *error) {
    tn_stream *stream = it->streams.streams[place];
    if (place != block->stream)
        TN_TRY(tn__play_streams_cross(&it->streams, block->stream, place, error));
    TN_TRY(tn_device_get(stream, &block->back[0], block->address, play_mark_size(block), error));
    if (!play_has_end(block)) return TN_OK;
    tn_address end = block->address + block->size - PLAY_MARK;
    return tn_device_get(stream, &block->back[1], end, PLAY_MARK, error);
}

/* Called after all streams are done. */
static tn_status play_compare(const play *it, uint64_t *marked, tn_error *error) {
    uint64_t wrong = 0, first = 0;
    *marked = 0;
    for (uint32_t i = 0; i < it->block_count; i++) {
        const play_block *block = &it->blocks[i];
        if (!block->was_marked) continue;
        (*marked)++;
        if (memcmp(&block->marks[0], &block->back[0], (size_t)play_mark_size(block)) == 0 &&
            (!play_has_end(block) || block->marks[1] == block->back[1]))
            continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return TN_OK;
    TN_FAIL(error, TN_E_INTERNAL,
            "%" PRIu64 " of %" PRIu64 " blocks did not hold what was written to them while they "
            "were in use; the first is block %" PRIu64 " of the trace",
            wrong, *marked, first);
}

/* --- requests --- */

static tn_status play_refuse(play *it, tn_status status, bool is_room) {
    it->is_refused = is_room;
    return status;
}

static tn_status play_get_part(play *it, const tn_pool_event *event, play_block *block,
                               tn_error *error) {
    tn_pool_request request = {.size = event->size,
                               .alignment = event->alignment,
                               .stream = event->stream,
                               .flags = event->flags};
    tn_allocation got;
    tn_status status = tn_pool_alloc(it->pool, &request, &got, error);
    if (status != TN_OK) return play_refuse(it, status, status == TN_E_EXHAUSTED);
    if (!it->is_dry && got.size > 0)
        status = tn__stream_fences_take(&it->turns, got.offset, got.offset + got.size,
                                        tn__play_handle(block->stream), error);
    if (status != TN_OK) {
        TN_TRY(tn_pool_free(it->pool, got.id, NULL));
        return status;
    }
    block->id = got.id;
    block->given = got.size;
    block->address = it->base + got.offset;
    return TN_OK;
}

static tn_status play_get_own(play *it, play_block *block, tn_error *error) {
    block->address = 0;
    tn_status status = tn_device_alloc(it->device, block->size, &block->address, error);
    if (status != TN_OK)
        return play_refuse(it, status, status == TN_E_EXHAUSTED || status == TN_E_NO_MEMORY);
    it->now += block->size;
    if (it->now > it->taken) it->taken = it->now;
    return TN_OK;
}

static tn_status play_get(play *it, const tn_pool_event *event, tn_error *error) {
    play_block *block = &it->blocks[event->block];
    block->size = event->size;
    block->stream = tn__play_streams_place(&it->streams, event->stream);
    TN_TRY(it->has_pool ? play_get_part(it, event, block, error) : play_get_own(it, block, error));
    block->is_had = true;
    return it->has_work && block->size > 0 ? play_write(it, block, error) : TN_OK;
}

static tn_status play_give_part(play *it, play_block *block, uint32_t stream, tn_error *error) {
    void *used[] = {tn__play_handle(block->stream), tn__play_handle(stream)};
    uint64_t offset = block->address - it->base;
    if (!it->is_dry && block->given > 0)
        tn__stream_fences_give(&it->turns, offset, offset + block->given, used,
                               block->stream != stream ? 2 : 1);
    block->is_had = false;
    return tn_pool_free(it->pool, block->id, error);
}

/* Queued work may still use the block, and a device does not wait on its own. */
static tn_status play_give_own(play *it, play_block *block, uint32_t stream, tn_error *error) {
    tn_status status = tn_stream_wait(it->streams.streams[block->stream], error);
    if (status == TN_OK && stream != block->stream)
        status = tn_stream_wait(it->streams.streams[stream], error);
    if (status != TN_OK) return status; /* it is still allocated */
    tn_device_free(it->device, block->address);
    block->is_had = false;
    it->now -= block->size;
    return TN_OK;
}

static tn_status play_give(play *it, play_block *block, uint32_t stream, tn_error *error) {
    if (it->has_work && block->size > 0) TN_TRY(play_read(it, block, stream, error));
    return it->has_pool ? play_give_part(it, block, stream, error)
                        : play_give_own(it, block, stream, error);
}

/* Blocks that the trace never frees are freed at the end. `requests` receives the number of
 * requests. */
static tn_status play_round(play *it, uint64_t *requests, tn_error *error) {
    *requests = it->event_count;
    for (uint64_t i = 0; i < it->event_count; i++) {
        const tn_pool_event *event = &it->events[i];
        tn_status status =
            event->frees ? play_give(it, &it->blocks[event->block],
                                     tn__play_streams_place(&it->streams, event->stream), error)
                         : play_get(it, event, error);
        if (status != TN_OK) return tn__where(error, status, "event %" PRIu64, i);
    }
    for (uint32_t i = 0; i < it->block_count; i++) {
        if (!it->blocks[i].is_had) continue;
        TN_TRY(play_give(it, &it->blocks[i], it->blocks[i].stream, error));
        (*requests)++;
    }
    return TN_OK;
}

/* --- the range of a pool --- */

static tn_status play_make_pool(play *it, uint64_t capacity, tn_error *error) {
    it->options.capacity = capacity;
    tn_status status = tn_pool_create(&it->options, &it->pool, error);
    return play_refuse(it, status, status == TN_E_EXHAUSTED);
}

/* All rounds with the pool but without the device, including the one with work; *reserved receives
 * the peak of the pool's reserved bytes. */
static tn_status play_try(play *it, uint64_t capacity, uint32_t rounds, uint64_t *reserved,
                          tn_error *error) {
    uint64_t requests;
    tn_pool_usage usage;
    it->is_dry = true;
    it->is_refused = false;
    tn_status status = play_make_pool(it, capacity, error);
    for (uint64_t i = 0; i <= rounds && status == TN_OK; i++)
        status = play_round(it, &requests, error);
    if (status == TN_OK) {
        tn_pool_measure(it->pool, &usage);
        *reserved = usage.reserved_peak;
    }
    tn_pool_destroy(it->pool);
    it->pool = NULL;
    it->is_dry = false;
    for (uint32_t i = 0; i < it->block_count; i++) it->blocks[i].is_had = false;
    return status;
}

/* The smallest range that suffices. `bound`, if not 0, is known to suffice. */
static tn_status play_find_range(play *it, uint32_t rounds, uint64_t *range, tn_error *error) {
    uint64_t bound = it->options.capacity, again;
    TN_TRY(play_try(it, bound, rounds, range, error));
    tn_status status = TN_E_EXHAUSTED;
    for (uint32_t i = 0; i < PLAY_TRIES && status == TN_E_EXHAUSTED; i++) {
        if (i > 0) *range = tn__add_sat(*range, *range / 8);
        if (*range < PLAY_LEAST) *range = PLAY_LEAST;
        if (bound != 0 && *range >= bound) return *range = bound, TN_OK;
        status = play_try(it, *range, rounds, &again, error);
    }
    return status;
}

static tn_status play_take_range(play *it, uint32_t rounds, tn_error *error) {
    uint64_t range = 0;
    TN_TRY(play_find_range(it, rounds, &range, error));
    it->is_refused = false; /* smaller ones may have been refused */
    tn_status status = tn_device_alloc(it->device, range, &it->base, error);
    if (status != TN_OK)
        return play_refuse(it, status, status == TN_E_EXHAUSTED || status == TN_E_NO_MEMORY);
    it->taken = range;
    return play_make_pool(it, range, error);
}

/* --- the whole --- */

static tn_status play_work(play *it, tn_play_answer *answer, tn_error *error) {
    uint64_t requests;
    it->has_work = true;
    tn_status status = play_round(it, &requests, error);
    it->has_work = false;
    TN_TRY(status);
    TN_TRY(tn__play_streams_wait(&it->streams, error));
    answer->waits = it->streams.waits;
    return play_compare(it, &answer->marked, error);
}

static tn_status play_time(play *it, uint32_t rounds, bool all, tn_play_answer *answer,
                           tn_error *error) {
    uint64_t requests;
    double begin = tn__clock_s(), best = 0;
    uint32_t done = 0;
    while (done < rounds && (all || done == 0 || tn__clock_s() - begin < PLAY_SECONDS)) {
        double start = tn__clock_s();
        TN_TRY(play_round(it, &requests, error));
        double seconds = tn__clock_s() - start;
        TN_TRY(tn__play_streams_wait(&it->streams, error));
        if (done++ == 0 || seconds < best) best = seconds;
        answer->request_s = requests > 0 ? best / (double)requests : 0;
    }
    answer->rounds = done;
    return TN_OK;
}

static uint32_t play_rounds(const play *it, const tn_play_options *options) {
    uint64_t rounds = PLAY_EVENTS / (it->event_count + 1);
    if (options->rounds != 0) return options->rounds;
    return rounds > PLAY_ROUNDS ? PLAY_ROUNDS : rounds > 0 ? (uint32_t)rounds : 1;
}

static tn_status play_all(play *it, const tn_play_options *options, tn_play_answer *answer,
                          tn_error *error) {
    uint32_t rounds = play_rounds(it, options);
    it->blocks = tn__alloc_array(&it->context, it->block_count, sizeof *it->blocks);
    if (it->blocks == NULL) return tn__no_memory(error, "the blocks of a trace");
    TN_TRY(tn__play_streams_open(&it->streams, &it->context, it->device, it->events,
                                 it->event_count, error));
    answer->streams = it->streams.count;
    if (it->has_pool) TN_TRY(play_take_range(it, rounds, error));
    TN_TRY(play_work(it, answer, error));
    TN_TRY(play_time(it, rounds, options->rounds != 0, answer, error));
    if (it->has_pool) tn_pool_learned(it->pool, &answer->lesson);
    return TN_OK;
}

static void play_close(play *it) {
    (void)tn__play_streams_wait(&it->streams, NULL);
    tn__stream_fences_release(&it->turns);
    tn__play_streams_close(&it->streams);
    for (uint32_t i = 0; i < it->block_count && it->blocks != NULL && !it->has_pool; i++)
        if (it->blocks[i].is_had) tn_device_free(it->device, it->blocks[i].address);
    tn_device_free(it->device, it->base);
    tn_pool_destroy(it->pool);
    tn__free(&it->context, it->blocks, it->block_count * sizeof *it->blocks);
}

tn_status tn_play(tn_device *device, const tn_pool_trace *trace, const tn_play_options *given,
                  tn_play_answer *answer, tn_error *error) {
    tn_play_options options = TN_PLAY_OPTIONS_INIT;
    tn_play_answer found = {.fits = true};
    play it = {.device = device, .options = TN_POOL_OPTIONS_INIT};
    tn__options(&options, sizeof options, given);
    it.context = tn__context(options.context);
    it.has_pool = options.pool != NULL;
    tn__options(&it.options, sizeof it.options, options.pool);
    it.options.context = &it.context;
    it.options.settle = NULL; /* turns know which stream waits for which */
    it.events = tn_pool_trace_events(trace, &it.event_count);
    it.block_count = tn_pool_trace_block_count(trace);
    it.streams.context = &it.context;
    tn__stream_fences_init(&it.turns, &it.context, &tn__play_ways, &it.streams);
    tn_error failure = {0};
    tn_status status = play_all(&it, &options, &found, &failure);
    found.taken = it.taken;
    play_close(&it);
    if (status != TN_OK && !it.is_refused) {
        if (error != NULL) *error = failure;
        return status;
    }
    found.fits = status == TN_OK;
    if (!found.fits) found.failure = failure;
    *answer = found;
    return TN_OK;
}
