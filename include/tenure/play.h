/* play.h - device replay: replays a recorded allocation trace on a device with real memory,
 * synchronised streams, and data that are written and read back.
 *
 *     tn_device *device;
 *     tn_pool_trace *trace;
 *     tn_pool_options pool = TN_POOL_OPTIONS_INIT;
 *     tn_play_options options = TN_PLAY_OPTIONS_INIT;
 *     tn_play_answer answer;
 *     tn_error error;
 *     const char rows[] = "action,id,size\nalloc,a,6000\nalloc,b,100\nfree,a,\n";
 *     pool.pool = "best-fit";
 *     options.pool = &pool; // NULL: each block is allocated from the device
 *     if (tn_pool_trace_load_memory("rows", rows, sizeof rows - 1, NULL, &trace, &error) ||
 *         tn_device_create(NULL, &device, &error) ||
 *         tn_play(device, trace, &options, &answer, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     printf("%llu bytes of the device, %llu blocks written and read back\n",
 *            (unsigned long long)answer.taken, (unsigned long long)answer.marked);
 *     tn_device_destroy(device);
 *     tn_pool_trace_destroy(trace);
 *     // 6144 bytes of the device, 2 blocks written and read back
 *
 * A pool divides one block of the device. The trace is first replayed with work on the device,
 * which is not timed: each block is marked at both ends on its stream when it is allocated, and the
 * stream that frees it reads the marks back. Before bytes move from one stream to another, the
 * second stream waits for an event recorded at the free, as libtenure_torch.so does. A wrong mark
 * means that a block was reused too early (E_INTERNAL) or that the device loses bytes. Then the
 * requests alone are replayed and timed.
 *
 * Alignments are relative to the start of the pool's block, which has the device's alignment.
 */
#ifndef TENURE_PLAY_H
#define TENURE_PLAY_H

#include <tenure/device.h>
#include <tenure/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TN_PLAY_STREAMS_MAX = 1024 }; /* streams of a trace */

typedef struct tn_play_options {
    size_t struct_size;
    const tn_context *context; /* NULL: the default */
    /* Technique, alignment and plan; its `context` and `settle` are ignored. capacity: limit of the
     * device memory to take; 0: only the device's own limit. NULL: no pool; each request is
     * allocated from the device */
    const tn_pool_options *pool;
    uint32_t rounds; /* to time; 0: up to ten (fewer for more than 100,000 events), as many as start
                      * within two seconds */
} tn_play_options;
#define TN_PLAY_OPTIONS_INIT TN_INIT(tn_play_options, TN_SET(struct_size, sizeof(tn_play_options)))

typedef struct tn_play_answer {
    bool fits;
    tn_error failure;      /* if it does not fit: the error of the pool or the device */
    uint64_t taken;        /* peak of device bytes taken, without the device's own overhead */
    uint64_t marked;       /* blocks that were written and read back */
    uint64_t waits;        /* waits of one stream for another, in the round with work */
    uint32_t streams;      /* of the trace */
    uint32_t rounds;       /* timed */
    double request_s;      /* wall time per allocation or free in the fastest round */
    tn_pool_lesson lesson; /* of all rounds */
} tn_play_answer;

/* Replays a trace. The pool's block is the smallest one that suffices, found by trials without the
 * device. Blocks that the trace does not free are freed at the end of each round. A free on another
 * stream than the allocation (RMM) ends the use on both.
 *
 * Errors: E_UNKNOWN (technique), E_INVALID (bad pool options; a trace with more than
 * TN_PLAY_STREAMS_MAX streams), E_IO (the device fails), E_INTERNAL (a wrong mark, see above),
 * E_NO_MEMORY (of the host). Lack of device memory is not an error: see `fits`.
 * Cost: O(events) per round and per range tried; 80 bytes of host memory per block.
 */
TN_API TN_CHECKED tn_status tn_play(tn_device *device, const tn_pool_trace *trace,
                                    const tn_play_options *options, tn_play_answer *answer,
                                    tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
