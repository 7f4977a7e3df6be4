/* copy_speed.c - measures the speed of a device's link by timing copies of one block.
 *
 * Each direction is measured alone, then both at once on two streams, because a device may have one
 * copy engine for both. The best of a few rounds counts, since other work of the machine only makes
 * them slower.
 *
 * Cost: a few copies of `bytes` in each direction.
 */
#include <tenure/engine.h>

#include "base/base.h"

enum { LINK_ROUNDS = 4 }; /* number of rounds; the first is a warm-up */

typedef struct link_case {
    const tn_context *context;
    tn_device *device;
    tn_stream *streams[2];
    tn_address blocks[2];
    uint8_t *here; /* host memory of two blocks, as large as those on the device */
    uint64_t bytes;
} link_case;

static tn_status link_open(link_case *it, tn_error *error) {
    it->here = it->bytes <= SIZE_MAX / 2 ? tn__alloc(it->context, 2 * (size_t)it->bytes) : NULL;
    if (it->here == NULL) return tn__no_memory(error, "what is copied over a link");
    /* writes both blocks before the clock starts, so that no page fault is timed */
    memset(it->here, 1, 2 * (size_t)it->bytes);
    for (uint32_t i = 0; i < 2; i++) {
        TN_TRY(tn_stream_create(it->device, 0, &it->streams[i], error));
        TN_TRY(tn_device_alloc(it->device, it->bytes, &it->blocks[i], error));
    }
    return TN_OK;
}

static void link_close(link_case *it) {
    for (uint32_t i = 0; i < 2; i++) {
        tn_stream_destroy(it->streams[i]);
        tn_device_free(it->device, it->blocks[i]);
    }
    if (it->here != NULL) tn__free(it->context, it->here, 2 * (size_t)it->bytes);
}

/* Measures the seconds of one round of copies. `ways` says which copies are made: 1, to the device;
 * 2, from it; 3, both at once. */
static tn_status link_round(link_case *it, uint32_t ways, double *seconds, tn_error *error) {
    double start = tn__clock_s();
    if (ways & 1u) TN_TRY(tn_device_put(it->streams[0], it->blocks[0], it->here, it->bytes, error));
    if (ways & 2u)
        TN_TRY(
            tn_device_get(it->streams[1], it->here + it->bytes, it->blocks[1], it->bytes, error));
    for (uint32_t i = 0; i < 2; i++) TN_TRY(tn_stream_wait(it->streams[i], error));
    *seconds = tn__clock_s() - start;
    return TN_OK;
}

static tn_status link_rate(link_case *it, uint32_t ways, double *bytes_per_s, tn_error *error) {
    double best = 0;
    for (uint32_t i = 0; i < LINK_ROUNDS; i++) {
        double seconds = 0;
        TN_TRY(link_round(it, ways, &seconds, error));
        if (seconds > 0 && (best <= 0 || seconds < best)) best = seconds;
    }
    *bytes_per_s = best > 0 ? (ways == 3 ? 2.0 : 1.0) * (double)it->bytes / best : 0;
    return TN_OK;
}

tn_status tn_device_measure_link(tn_device *device, uint64_t bytes, const tn_context *context,
                                 tn_device_link *link, tn_error *error) {
    tn_context full = tn__context(context);
    tn_device_link found = {0};
    link_case it = {.context = &full, .device = device, .bytes = bytes};
    if (bytes == 0) TN_FAIL(error, TN_E_INVALID, "a link is measured by copies of some bytes");
    tn_status status = link_open(&it, error);
    if (status == TN_OK) status = link_rate(&it, 1, &found.put_bytes_per_s, error);
    if (status == TN_OK) status = link_rate(&it, 2, &found.get_bytes_per_s, error);
    if (status == TN_OK) status = link_rate(&it, 3, &found.both_bytes_per_s, error);
    link_close(&it);
    if (status == TN_OK) *link = found;
    return status;
}
