/* play.h - a recorded run played on a device: real memory, streams that wait for each other, bytes
 * that are written and read back.
 *
 *     tn_device *device;
 *     tn_pool_trace *trace;
 *     tn_pool_options pool = TN_POOL_OPTIONS_INIT;
 *     tn_play_options options = TN_PLAY_OPTIONS_INIT;
 *     tn_play_answer answer;
 *     tn_error error;
 *     const char rows[] = "action,id,size\nalloc,a,6000\nalloc,b,100\nfree,a,\n";
 *     pool.pool = "best-fit";
 *     options.pool = &pool; // NULL: each block is one of the device's own
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
 * A pool divides one block of the device. The trace is played once with work on the device, which
 * is not timed: each block is marked at both ends on its stream when it is had, and the marks are
 * read back by the stream that frees it. Before bytes go from one stream to another the second
 * waits for an event that was recorded when they were freed, as libtenure_torch.so does. A mark
 * that is not what was written there is a block that somebody else had too early: E_INTERNAL, or a
 * device that loses bytes. Then the requests alone are played again and timed.
 *
 * Alignments hold from the start of the pool's block, which lies as the device aligns blocks.
 */
#ifndef TENURE_PLAY_H
#define TENURE_PLAY_H

#include <tenure/device.h>
#include <tenure/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TN_PLAY_STREAMS_MAX = 1024 }; /* of a trace */

typedef struct tn_play_options {
    size_t struct_size;
    const tn_context *context; /* NULL: the default */
    /* Technique, alignment, a plan; its own context and settle are not used. capacity: the most
     * that may be taken of the device, 0: no bound but its own. NULL: no pool, each request is one
     * of the device */
    const tn_pool_options *pool;
    uint32_t rounds; /* that are timed; 0: up to ten, fewer of more than 100,000 events, and as many
                      * as begin within two seconds */
} tn_play_options;
#define TN_PLAY_OPTIONS_INIT TN_INIT(tn_play_options, TN_SET(struct_size, sizeof(tn_play_options)))

typedef struct tn_play_answer {
    bool fits;
    tn_error failure;      /* when it does not: what the pool, or the device, says */
    uint64_t taken;        /* bytes of the device that were had at most; not what it adds to them */
    uint64_t marked;       /* blocks that were written and read back */
    uint64_t waits;        /* of a stream for another, in the round with work */
    uint32_t streams;      /* of the trace */
    uint32_t rounds;       /* that were timed */
    double request_s;      /* of an allocation or a free in the fastest round, by the clock */
    tn_pool_lesson lesson; /* of all rounds */
} tn_play_answer;

/* Plays it. The block that a pool divides is the least that the pool does with, found by trying it
 * without the device. What the trace does not free is freed at the end of each round. A free with a
 * stream of its own (RMM) ends the use on both.
 *
 * Errors: E_UNKNOWN (technique), E_INVALID (what the pool is told; a trace with more than
 * TN_PLAY_STREAMS_MAX streams), E_IO (the device fails), E_INTERNAL (bytes were not what they
 * should be: see above), E_NO_MEMORY of the host. That memory does not fit is no error: `fits`.
 * Cost: O(events) for each round and each range that is tried; 80 bytes of the host for each block.
 */
TN_API TN_CHECKED tn_status tn_play(tn_device *device, const tn_pool_trace *trace,
                                    const tn_play_options *options, tn_play_answer *answer,
                                    tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
