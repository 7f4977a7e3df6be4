/* play_trace.c - what a recorded run takes of a device, by each pool, with streams that wait for
 * each other.
 *
 *     play_trace [TRACE.csv [DEVICE]]
 *
 * DEVICE is one of `tenure list devices`: host, cuda, opencl:1.
 */
#define TENURE_EXPERIMENTAL
#include <tenure/snapshot.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static tn_status play(tn_device *device, const tn_pool_trace *trace, const char *name,
                      tn_error *error) {
    tn_play_options options = TN_PLAY_OPTIONS_INIT;
    tn_pool_options pool = TN_POOL_OPTIONS_INIT;
    tn_play_answer answer;
    pool.pool = name;
    if (name != NULL) options.pool = &pool; /* else each block is one of the device's own */
    tn_status status = tn_play(device, trace, &options, &answer, error);
    if (status != TN_OK) return status;
    printf("%-12s", name != NULL ? name : "no pool");
    if (answer.fits)
        printf(" %12" PRIu64 " bytes, %.0f ns a request, %" PRIu64 " waits\n", answer.taken,
               1e9 * answer.request_s, answer.waits);
    else
        printf(" does not fit: %s\n", answer.failure.message);
    return TN_OK;
}

static tn_status play_all(tn_device *device, const tn_pool_trace *trace, tn_error *error) {
    tn_status status = play(device, trace, NULL, error);
    for (uint32_t i = 0; i < tn_pool_count() && status == TN_OK; i++)
        if (strcmp(tn_pool_name(i), "planned") != 0) /* which wants a plan */
            status = play(device, trace, tn_pool_name(i), error);
    return status;
}

int main(int count, char **arguments) {
    const char *path = count > 1 ? arguments[1] : "examples/traces/two_streams.csv";
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device = NULL;
    tn_pool_trace *trace = NULL;
    tn_error error = {0};
    options.device = count > 2 ? arguments[2] : "host";
    tn_status status = tn_pool_trace_load(path, NULL, &trace, &error);
    if (status == TN_OK) status = tn_device_create(&options, &device, &error);
    if (status == TN_OK) status = play_all(device, trace, &error);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_device_destroy(device);
    tn_pool_trace_destroy(trace);
    return tn_status_exit_code(status);
}
