/* events.c - implements the functions of tn__stream_fences with CUDA events. Errors that were
 * worked around are cleared in the runtime, because PyTorch asks it for the last error. Source:
 * CUDA Runtime API, stream and event management. */
#include "interop/torch/events.h"

static bool events_worked(const tn__cuda *cuda, int status) {
    if (status != TN__CUDA_OK) (void)cuda->cudaGetLastError();
    return status == TN__CUDA_OK;
}

static bool events_create(void *self, void **event) {
    const tn__cuda *cuda = self;
    return events_worked(cuda, cuda->cudaEventCreateWithFlags(event, TN__CUDA_EVENT_UNTIMED));
}

static void events_destroy(void *self, void *event) {
    const tn__cuda *cuda = self;
    (void)cuda->cudaEventDestroy(event);
}

/* May fail for a stream of another device. */
static bool events_record(void *self, void *event, void *stream) {
    const tn__cuda *cuda = self;
    return events_worked(cuda, cuda->cudaEventRecord(event, stream));
}

static bool events_wait(void *self, void *event, void *stream) {
    const tn__cuda *cuda = self;
    return events_worked(cuda, cuda->cudaStreamWaitEvent(stream, event, 0));
}

static bool events_finish(void *self, void *stream) {
    const tn__cuda *cuda = self;
    return events_worked(cuda, cuda->cudaStreamSynchronize(stream));
}

static tn_status events_reach(void *self, void *event, tn_error *error) {
    const tn__cuda *cuda = self;
    int status = cuda->cudaEventSynchronize(event);
    return tn__cuda_status(cuda, status, "waiting for who had a block", error);
}

static tn_status events_settle(void *self, tn_error *error) {
    const tn__cuda *cuda = self;
    int status = cuda->cudaDeviceSynchronize();
    return tn__cuda_status(cuda, status, "waiting for the device", error);
}

static const tn__stream_fences_ways events_ways = {
    .create = events_create,
    .destroy = events_destroy,
    .record = events_record,
    .wait = events_wait,
    .finish = events_finish,
    .reach = events_reach,
    .settle = events_settle,
};

void tn__events_turns(tn__stream_fences *turns, const tn_context *context, const tn__cuda *cuda) {
    tn__stream_fences_init(turns, context, &events_ways, (void *)(uintptr_t)cuda);
}
