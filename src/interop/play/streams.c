/* streams.c - implements the functions of tn__stream_fences with a device's streams and fences. */
#include "interop/play/streams.h"

/* The index of a number, or where it belongs. */
static uint32_t streams_find(const tn__play_streams *streams, uint32_t number) {
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

uint32_t tn__play_streams_place(const tn__play_streams *streams, uint32_t number) {
    return streams_find(streams, number);
}

static tn_status streams_number(tn__play_streams *streams, const tn_pool_event *events,
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

tn_status tn__play_streams_open(tn__play_streams *streams, const tn_context *context,
                                tn_device *device, const tn_pool_event *events, uint64_t count,
                                tn_error *error) {
    *streams = (tn__play_streams){.context = context, .device = device};
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

void tn__play_streams_close(tn__play_streams *streams) {
    tn_fence_destroy(streams->crossing);
    tn_stream_destroy(streams->here);
    for (uint32_t i = 0; i < streams->count && streams->streams != NULL; i++)
        tn_stream_destroy(streams->streams[i]);
    tn__free(streams->context, streams->streams, TN_PLAY_STREAMS_MAX * sizeof(tn_stream *));
    tn__free(streams->context, streams->numbers, TN_PLAY_STREAMS_MAX * sizeof *streams->numbers);
}

tn_status tn__play_streams_cross(tn__play_streams *streams, uint32_t from, uint32_t to,
                                 tn_error *error) {
    TN_TRY(tn_fence_record(streams->crossing, streams->streams[from], error));
    return tn_fence_wait(streams->crossing, streams->streams[to], error);
}

tn_status tn__play_streams_wait(tn__play_streams *streams, tn_error *error) {
    tn_status first = TN_OK;
    for (uint32_t i = 0; i < streams->count; i++) {
        if (streams->streams[i] == NULL) break; /* opening them failed */
        tn_status status = tn_stream_wait(streams->streams[i], first == TN_OK ? error : NULL);
        if (first == TN_OK) first = status;
    }
    return first;
}

/* --- ways --- */

static tn_stream *streams_of(tn__play_streams *streams, void *handle) {
    return streams->streams[(uintptr_t)handle];
}

static bool streams_create(void *self, void **event) {
    tn__play_streams *streams = self;
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
    tn__play_streams *streams = self;
    streams->waits++;
    return tn_fence_wait(event, streams_of(streams, stream), NULL) == TN_OK;
}

static bool streams_finish(void *self, void *stream) {
    return tn_stream_wait(streams_of(self, stream), NULL) == TN_OK;
}

static tn_status streams_reach(void *self, void *event, tn_error *error) {
    tn__play_streams *streams = self;
    return tn_fence_wait(event, streams->here, error);
}

static tn_status streams_settle(void *self, tn_error *error) {
    return tn__play_streams_wait(self, error);
}

const tn__stream_fences_ways tn__play_ways = {
    .create = streams_create,
    .destroy = streams_destroy,
    .record = streams_record,
    .wait = streams_wait,
    .finish = streams_finish,
    .reach = streams_reach,
    .settle = streams_settle,
};
