/* swaps.c - keeps swapped-out tensors on a separate device, and models the link to it.
 *
 * The threads of our streams make the copies, on streams of that device that work in the calling
 * thread. A link may be slower than the machine's (tn_engine_options.swap_bytes_per_s). It has one
 * lane in each direction, and a lane carries one copy at a time: a copy books its lane when it
 * begins, and ends no earlier than its booking.
 * Cost: that of the device's copy.
 */
#include "engine/streams.h"

tn_status tn__swaps_open(tn__host *host, const tn_engine_options *options,
                         const tn_context *context, tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    double speed = options->swap_bytes_per_s;
    if (!(speed >= 0 && speed <= 1e18))
        TN_FAIL(error, TN_E_INVALID, "a link has from 0 to 1e18 bytes per second, not %g", speed);
    device.device = options->swap_device;
    device.context = context;
    if (pthread_mutex_init(&host->lock, NULL) != 0)
        return tn__no_memory(error, "the lock of a link");
    tn_status status = tn_device_create(&device, &host->device, error);
    if (status != TN_OK) {
        pthread_mutex_destroy(&host->lock);
        return status;
    }
    host->bytes_per_s = speed;
    return tn_device_alloc(host->device, host->size, &host->address, error);
}

void tn__swaps_close(tn__host *host) {
    if (host->device == NULL) return;
    tn_device_destroy(host->device); /* also frees the memory that was taken on it */
    pthread_mutex_destroy(&host->lock);
}

/* When a copy that begins now will end. */
static double swaps_book(tn__host *host, bool out, uint64_t bytes) {
    if (host->bytes_per_s <= 0) return 0;
    pthread_mutex_lock(&host->lock);
    double now = tn__clock_s(), *is_free = &host->free_s[out];
    *is_free = (*is_free > now ? *is_free : now) + (double)bytes / host->bytes_per_s;
    double end = *is_free;
    pthread_mutex_unlock(&host->lock);
    return end;
}

tn_status tn__swaps_copy(void *self, tn_error *error) {
    const tn__item *item = self;
    tn__streams *streams = item->streams;
    tn__host *host = &streams->host;
    tn_opcode opcode = tn_program_instructions(streams->program)[item->step].opcode;
    bool out = tn_opcode_facts_of(opcode)->link == TN_LINK_TO_HOST;
    tn_stream *stream = host->streams[item->stream];
    tn_address there = host->address + host->offset[item - streams->items];
    double end = swaps_book(host, out, item->bytes);
    TN_TRY(out ? tn_device_put(stream, there, item->data, item->bytes, error)
               : tn_device_get(stream, item->data, there, item->bytes, error));
    tn__clock_sleep_until(end);
    return TN_OK;
}
