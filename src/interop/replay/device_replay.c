/* device_replay.c - replays the requests of a trace on a device, with one block that a pool divides
 * or with the device's own allocator.
 *
 * The pool first runs without the device, to find the range that it needs. Some pools reserve their
 * minimum only if the range is not limited, and need a little more in a range of exactly that
 * size.
 */
#include <tenure/snapshot.h>

#include "memory/device/stream_fences.h"

#include <inttypes.h>

/* --- streams of the trace on the device ------------------------------------------------------- */

/* The streams of a trace on a device, and fences between them, which implement the functions of
 * tn__stream_fences. The handle of a stream is its index among the stream numbers of the trace. So
 * the first stream is the default stream, and a trace of one stream records no fences. */

typedef struct replay_streams {
    const tn_context *context;
    tn_device *device;
    uint32_t *numbers; /* [count] stream numbers of the trace, ascending */
    uint32_t count;
    tn_stream **streams; /* [count] */
    tn_stream *here;     /* an inline stream, on which this thread waits for fences */
    tn_fence *crossing;
    uint64_t waits; /* number of waits of one stream for another so far */
} replay_streams;

static inline void *streams_handle(uint32_t place) { return (void *)(uintptr_t)place; }

/* Returns the index of a stream number, or the index at which it must be inserted. */
static uint32_t streams_find(const replay_streams *streams, uint32_t number) {
    uint32_t low = 0, high = streams->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (streams->numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The index of a stream number of the trace. Cost: O(log count). */
static uint32_t streams_place(const replay_streams *streams, uint32_t number) {
    return streams_find(streams, number);
}

static tn_status streams_number(replay_streams *streams, const tn_pool_event *events,
                                uint64_t count, tn_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t number = events[i].stream, at = streams_find(streams, number);
        uint32_t *place = streams->numbers + at;
        if (at < streams->count && *place == number) continue;
        if (streams->count == TN_PLAY_STREAMS_MAX)
            TN_FAIL(error, TN_E_INVALID, "the trace has more than %d streams", TN_PLAY_STREAMS_MAX);
        memmove(place + 1, place, (streams->count - at) * sizeof *place);
        *place = number;
        streams->count++;
    }
    return TN_OK;
}

/* Creates the streams. Errors: E_INVALID (too many streams), E_NO_MEMORY, those of
 * tn_stream_create. Call streams_close in any case. */
static tn_status streams_open(replay_streams *streams, const tn_context *context, tn_device *device,
                              const tn_pool_event *events, uint64_t count, tn_error *error) {
    *streams = (replay_streams){.context = context, .device = device};
    streams->numbers = tn__alloc_array(context, TN_PLAY_STREAMS_MAX, sizeof *streams->numbers);
    streams->streams = tn__alloc_array(context, TN_PLAY_STREAMS_MAX, sizeof(tn_stream *));
    if (streams->numbers == NULL || streams->streams == NULL)
        return tn__no_memory(error, "the streams of a trace");
    TN_TRY(streams_number(streams, events, count, error));
    for (uint32_t i = 0; i < streams->count; i++)
        TN_TRY(tn_stream_create(device, 0, &streams->streams[i], error));
    TN_TRY(tn_fence_create(device, &streams->crossing, error));
    return tn_stream_create(device, TN_STREAM_INLINE, &streams->here, error);
}

/* Waits for the streams and destroys them. */
static void streams_close(replay_streams *streams) {
    tn_fence_destroy(streams->crossing);
    tn_stream_destroy(streams->here);
    for (uint32_t i = 0; i < streams->count && streams->streams != NULL; i++)
        tn_stream_destroy(streams->streams[i]);
    tn__free(streams->context, streams->streams, TN_PLAY_STREAMS_MAX * sizeof(tn_stream *));
    tn__free(streams->context, streams->numbers, TN_PLAY_STREAMS_MAX * sizeof *streams->numbers);
}

/* Makes work queued on stream `to` from now on run after all work queued on stream `from`. This is
 * the program's own synchronisation and is not counted as a wait. */
static tn_status streams_cross(replay_streams *streams, uint32_t from, uint32_t to,
                               tn_error *error) {
    TN_TRY(tn_fence_record(streams->crossing, streams->streams[from], error));
    return tn_fence_wait(streams->crossing, streams->streams[to], error);
}

/* Waits until all streams are done. Returns the first error that any stream had. */
static tn_status streams_wait_all(replay_streams *streams, tn_error *error) {
    tn_status first = TN_OK;
    for (uint32_t i = 0; i < streams->count; i++) {
        /* streams_open failed here, so later streams do not exist */
        if (streams->streams[i] == NULL) break;
        tn_status status = tn_stream_wait(streams->streams[i], first == TN_OK ? error : NULL);
        if (first == TN_OK) first = status;
    }
    return first;
}

/* --- ways --- */

static tn_stream *streams_of(replay_streams *streams, void *handle) {
    return streams->streams[(uintptr_t)handle];
}

static bool streams_create(void *self, void **event) {
    replay_streams *streams = self;
    tn_fence *fence = NULL;
    bool made = tn_fence_create(streams->device, &fence, NULL) == TN_OK;
    *event = fence;
    return made;
}

static void streams_destroy(void *self, void *event) {
    (void)self;
    tn_fence_destroy(event);
}

static bool streams_record(void *self, void *event, void *stream) {
    return tn_fence_record(event, streams_of(self, stream), NULL) == TN_OK;
}

static bool streams_wait(void *self, void *event, void *stream) {
    replay_streams *streams = self;
    streams->waits++;
    return tn_fence_wait(event, streams_of(streams, stream), NULL) == TN_OK;
}

static bool streams_finish(void *self, void *stream) {
    return tn_stream_wait(streams_of(self, stream), NULL) == TN_OK;
}

static tn_status streams_reach(void *self, void *event, tn_error *error) {
    replay_streams *streams = self;
    return tn_fence_wait(event, streams->here, error);
}

static tn_status streams_settle(void *self, tn_error *error) {
    return streams_wait_all(self, error);
}

static const tn__stream_fences_ways streams_ways = {
    .create = streams_create,
    .destroy = streams_destroy,
    .record = streams_record,
    .wait = streams_wait,
    .finish = streams_finish,
    .reach = streams_reach,
    .settle = streams_settle,
};

enum {
    REPLAY_ROUNDS = 10, /* number of timed rounds; fewer for a long trace */
    REPLAY_EVENTS = 1000000,
    REPLAY_TRIES = 24, /* number of ranges that are tried, each an eighth larger than the last */
    REPLAY_LEAST = 4096,
    REPLAY_MARK = sizeof(uint64_t),
};
/* seconds after which no timed round begins, unless the number of rounds was given */
#define REPLAY_SECONDS 2.0

typedef struct replay_block {
    uint64_t id;        /* number of the block in the pool */
    tn_address address; /* address on the device */
    /* size: bytes that the trace requests; given: bytes that the pool allocated for them */
    uint64_t size, given;
    uint64_t marks[2]; /* values written to the first and last bytes */
    uint64_t back[2];  /* values read back from the first and last bytes */
    uint32_t stream;   /* index of the stream that allocated the block */
    /* is_had: allocated now; was_marked: marks were written in a round with work */
    bool is_had, was_marked;
} replay_block;

typedef struct device_replay {
    tn_context context;
    tn_device *device;
    tn_pool_options options; /* options of the pool */
    const tn_pool_event *events;
    uint64_t event_count;
    uint32_t block_count;
    /* is_dry: runs without the device; has_work: blocks are marked */
    bool has_pool, is_dry, has_work;
    bool is_refused; /* true: the last failure was for lack of memory */
    tn_pool *pool;
    tn_address base; /* address of the pool's range */
    replay_block *blocks;
    replay_streams streams;
    tn__stream_fences turns;
    uint64_t now, taken; /* `now`: bytes of the device in use; `taken`: their maximum */
} device_replay;

/* --- marks at both ends of a block --- */

static uint64_t replay_mark_size(const replay_block *block) {
    return block->size < REPLAY_MARK ? block->size : REPLAY_MARK;
}

static bool replay_has_end(const replay_block *block) { return block->size >= 2 * REPLAY_MARK; }

static tn_status replay_write(device_replay *it, replay_block *block, tn_error *error) {
    tn_stream *stream = it->streams.streams[block->stream];
    block->marks[0] = ((uint64_t)(block - it->blocks) + 1) * 0x9e3779b97f4a7c15u;
    block->marks[1] = ~block->marks[0];
    block->was_marked = true;
    TN_TRY(tn_device_put(stream, block->address, &block->marks[0], replay_mark_size(block), error));
    if (!replay_has_end(block)) return TN_OK;
    tn_address end = block->address + block->size - REPLAY_MARK;
    return tn_device_put(stream, end, &block->marks[1], REPLAY_MARK, error);
}

/* Reads the marks of a block on the stream that frees it. If another stream allocated the block,
 * the freeing stream first waits for that stream, as the recorded program did. */
static tn_status replay_read(device_replay *it, replay_block *block, uint32_t place,
                             tn_error *error) {
    tn_stream *stream = it->streams.streams[place];
    if (place != block->stream) TN_TRY(streams_cross(&it->streams, block->stream, place, error));
    TN_TRY(tn_device_get(stream, &block->back[0], block->address, replay_mark_size(block), error));
    if (!replay_has_end(block)) return TN_OK;
    tn_address end = block->address + block->size - REPLAY_MARK;
    return tn_device_get(stream, &block->back[1], end, REPLAY_MARK, error);
}

/* Compares the marks that were read with those that were written. Call it after all streams are
 * done. */
static tn_status replay_compare(const device_replay *it, uint64_t *marked, tn_error *error) {
    uint64_t wrong = 0, first = 0;
    *marked = 0;
    for (uint32_t i = 0; i < it->block_count; i++) {
        const replay_block *block = &it->blocks[i];
        if (!block->was_marked) continue;
        (*marked)++;
        if (memcmp(&block->marks[0], &block->back[0], (size_t)replay_mark_size(block)) == 0 &&
            (!replay_has_end(block) || block->marks[1] == block->back[1]))
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

static tn_status replay_refuse(device_replay *it, tn_status status, bool is_room) {
    it->is_refused = is_room;
    return status;
}

static tn_status replay_get_part(device_replay *it, const tn_pool_event *event, replay_block *block,
                                 tn_error *error) {
    tn_pool_request request = {.size = event->size,
                               .alignment = event->alignment,
                               .stream = event->stream,
                               .flags = event->flags};
    tn_allocation got;
    tn_status status = tn_pool_alloc(it->pool, &request, &got, error);
    if (status != TN_OK) return replay_refuse(it, status, status == TN_E_EXHAUSTED);
    if (!it->is_dry && got.size > 0)
        status = tn__stream_fences_take(&it->turns, got.offset, got.offset + got.size,
                                        streams_handle(block->stream), error);
    if (status != TN_OK) {
        TN_TRY(tn_pool_free(it->pool, got.id, NULL));
        return status;
    }
    block->id = got.id;
    block->given = got.size;
    block->address = it->base + got.offset;
    return TN_OK;
}

static tn_status replay_get_own(device_replay *it, replay_block *block, tn_error *error) {
    block->address = 0;
    tn_status status = tn_device_alloc(it->device, block->size, &block->address, error);
    if (status != TN_OK)
        return replay_refuse(it, status, status == TN_E_EXHAUSTED || status == TN_E_NO_MEMORY);
    it->now += block->size;
    if (it->now > it->taken) it->taken = it->now;
    return TN_OK;
}

static tn_status replay_get(device_replay *it, const tn_pool_event *event, tn_error *error) {
    replay_block *block = &it->blocks[event->block];
    block->size = event->size;
    block->stream = streams_place(&it->streams, event->stream);
    TN_TRY(it->has_pool ? replay_get_part(it, event, block, error)
                        : replay_get_own(it, block, error));
    block->is_had = true;
    return it->has_work && block->size > 0 ? replay_write(it, block, error) : TN_OK;
}

static tn_status replay_give_part(device_replay *it, replay_block *block, uint32_t stream,
                                  tn_error *error) {
    void *used[] = {streams_handle(block->stream), streams_handle(stream)};
    uint64_t offset = block->address - it->base;
    if (!it->is_dry && block->given > 0)
        tn__stream_fences_give(&it->turns, offset, offset + block->given, used,
                               block->stream != stream ? 2 : 1);
    block->is_had = false;
    return tn_pool_free(it->pool, block->id, error);
}

/* Frees a block with the device's own allocator. Queued work may still use it, and a device does
 * not wait on its own, so the stream is waited for. */
static tn_status replay_give_own(device_replay *it, replay_block *block, uint32_t stream,
                                 tn_error *error) {
    tn_status status = tn_stream_wait(it->streams.streams[block->stream], error);
    if (status == TN_OK && stream != block->stream)
        status = tn_stream_wait(it->streams.streams[stream], error);
    if (status != TN_OK) return status; /* the block could not be freed and is still allocated */
    tn_device_free(it->device, block->address);
    block->is_had = false;
    it->now -= block->size;
    return TN_OK;
}

static tn_status replay_give(device_replay *it, replay_block *block, uint32_t stream,
                             tn_error *error) {
    if (it->has_work && block->size > 0) TN_TRY(replay_read(it, block, stream, error));
    return it->has_pool ? replay_give_part(it, block, stream, error)
                        : replay_give_own(it, block, stream, error);
}

/* Replays all requests once; blocks that the trace never frees are freed at the end. *requests
 * receives the number of requests. */
static tn_status replay_round(device_replay *it, uint64_t *requests, tn_error *error) {
    *requests = it->event_count;
    for (uint64_t i = 0; i < it->event_count; i++) {
        const tn_pool_event *event = &it->events[i];
        tn_status status = event->frees
                               ? replay_give(it, &it->blocks[event->block],
                                             streams_place(&it->streams, event->stream), error)
                               : replay_get(it, event, error);
        if (status != TN_OK) return tn__where(error, status, "event %" PRIu64, i);
    }
    for (uint32_t i = 0; i < it->block_count; i++) {
        if (!it->blocks[i].is_had) continue;
        TN_TRY(replay_give(it, &it->blocks[i], it->blocks[i].stream, error));
        (*requests)++;
    }
    return TN_OK;
}

/* --- finding the range that the pool needs --- */

static tn_status replay_make_pool(device_replay *it, uint64_t capacity, tn_error *error) {
    it->options.capacity = capacity;
    tn_status status = tn_pool_create(&it->options, &it->pool, error);
    return replay_refuse(it, status, status == TN_E_EXHAUSTED);
}

/* Runs all rounds with the pool but without the device, including the round with work; *reserved
 * receives the peak of the pool's reserved bytes. */
static tn_status replay_try(device_replay *it, uint64_t capacity, uint32_t rounds,
                            uint64_t *reserved, tn_error *error) {
    uint64_t requests;
    tn_pool_usage usage;
    it->is_dry = true;
    it->is_refused = false;
    tn_status status = replay_make_pool(it, capacity, error);
    for (uint64_t i = 0; i <= rounds && status == TN_OK; i++)
        status = replay_round(it, &requests, error);
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

/* Finds the smallest range that suffices for the pool, at most it->options.capacity (0: no
 * limit). */
static tn_status replay_find_range(device_replay *it, uint32_t rounds, uint64_t *range,
                                   tn_error *error) {
    uint64_t bound = it->options.capacity, again;
    TN_TRY(replay_try(it, bound, rounds, range, error));
    tn_status status = TN_E_EXHAUSTED;
    for (uint32_t i = 0; i < REPLAY_TRIES && status == TN_E_EXHAUSTED; i++) {
        if (i > 0) *range = tn__add_sat(*range, *range / 8);
        if (*range < REPLAY_LEAST) *range = REPLAY_LEAST;
        if (bound != 0 && *range >= bound) return *range = bound, TN_OK;
        status = replay_try(it, *range, rounds, &again, error);
    }
    return status;
}

static tn_status replay_take_range(device_replay *it, uint32_t rounds, tn_error *error) {
    uint64_t range = 0;
    TN_TRY(replay_find_range(it, rounds, &range, error));
    it->is_refused = false; /* smaller ranges may have been refused before */
    tn_status status = tn_device_alloc(it->device, range, &it->base, error);
    if (status != TN_OK)
        return replay_refuse(it, status, status == TN_E_EXHAUSTED || status == TN_E_NO_MEMORY);
    it->taken = range;
    return replay_make_pool(it, range, error);
}

/* --- the replay as a whole --- */

static tn_status replay_work(device_replay *it, tn_play_answer *answer, tn_error *error) {
    uint64_t requests;
    it->has_work = true;
    tn_status status = replay_round(it, &requests, error);
    it->has_work = false;
    TN_TRY(status);
    TN_TRY(streams_wait_all(&it->streams, error));
    answer->waits = it->streams.waits;
    return replay_compare(it, &answer->marked, error);
}

static tn_status replay_time(device_replay *it, uint32_t rounds, bool all, tn_play_answer *answer,
                             tn_error *error) {
    uint64_t requests;
    double begin = tn__clock_s(), best = 0;
    uint32_t done = 0;
    while (done < rounds && (all || done == 0 || tn__clock_s() - begin < REPLAY_SECONDS)) {
        double start = tn__clock_s();
        TN_TRY(replay_round(it, &requests, error));
        double seconds = tn__clock_s() - start;
        TN_TRY(streams_wait_all(&it->streams, error));
        if (done++ == 0 || seconds < best) best = seconds;
        answer->request_s = requests > 0 ? best / (double)requests : 0;
    }
    answer->rounds = done;
    return TN_OK;
}

static uint32_t replay_rounds(const device_replay *it, const tn_play_options *options) {
    uint64_t rounds = REPLAY_EVENTS / (it->event_count + 1);
    if (options->rounds != 0) return options->rounds;
    return rounds > REPLAY_ROUNDS ? REPLAY_ROUNDS : rounds > 0 ? (uint32_t)rounds : 1;
}

static tn_status replay_all(device_replay *it, const tn_play_options *options,
                            tn_play_answer *answer, tn_error *error) {
    uint32_t rounds = replay_rounds(it, options);
    it->blocks = tn__alloc_array(&it->context, it->block_count, sizeof *it->blocks);
    if (it->blocks == NULL) return tn__no_memory(error, "the blocks of a trace");
    TN_TRY(
        streams_open(&it->streams, &it->context, it->device, it->events, it->event_count, error));
    answer->streams = it->streams.count;
    if (it->has_pool) TN_TRY(replay_take_range(it, rounds, error));
    TN_TRY(replay_work(it, answer, error));
    TN_TRY(replay_time(it, rounds, options->rounds != 0, answer, error));
    if (it->has_pool) tn_pool_learned(it->pool, &answer->lesson);
    return TN_OK;
}

static void replay_close(device_replay *it) {
    (void)streams_wait_all(&it->streams, NULL);
    tn__stream_fences_release(&it->turns);
    streams_close(&it->streams);
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
    device_replay it = {.device = device, .options = TN_POOL_OPTIONS_INIT};
    tn__options(&options, sizeof options, given);
    it.context = tn__context(options.context);
    it.has_pool = options.pool != NULL;
    tn__options(&it.options, sizeof it.options, options.pool);
    it.options.context = &it.context;
    it.options.settle = NULL; /* it->turns determines which stream waits for which */
    it.events = tn_pool_trace_events(trace, &it.event_count);
    it.block_count = tn_pool_trace_block_count(trace);
    it.streams.context = &it.context;
    tn__stream_fences_init(&it.turns, &it.context, &streams_ways, &it.streams);
    tn_error failure = {0};
    tn_status status = replay_all(&it, &options, &found, &failure);
    found.taken = it.taken;
    replay_close(&it);
    if (status != TN_OK && !it.is_refused) {
        if (error != NULL) *error = failure;
        return status;
    }
    found.fits = status == TN_OK;
    if (!found.fits) found.failure = failure;
    *answer = found;
    return TN_OK;
}
