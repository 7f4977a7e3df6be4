/* snapshot.h - recorded runs of other programs: memory snapshots of PyTorch, and the replay of a
 * trace on a device.
 */
#ifndef TENURE_SNAPSHOT_H
#define TENURE_SNAPSHOT_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/snapshot.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/engine.h>
#include <tenure/plan.h>
#include <tenure/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- snapshot -------------------------------------------------------------------------------- */

/* Reads PyTorch's memory snapshots without Python and names the holders of memory.
 *
 *     tn_snapshot *snapshot;
 *     tn_snapshot_lives *lives;
 *     tn_snapshot_group lines[3];
 *     tn_error error;
 *     if (tn_snapshot_load("examples/snapshots/out_of_memory.pickle", NULL, &snapshot, &error) ||
 *         tn_snapshot_live(snapshot, 0, &lives, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message),
 *                tn_status_exit_code(error.status);
 *     uint64_t peak = tn_snapshot_facts_of(lives)->peak_time;
 *     uint32_t count = tn_snapshot_groups(lives, peak, TN_SNAPSHOT_BY_LINE, lines, 3);
 *     for (uint32_t i = 0; i < count && i < 3; i++)
 *         printf("%llu %s\n", (unsigned long long)lines[i].bytes, lines[i].name);
 *     tn_snapshot_lives_destroy(lives);
 *     tn_snapshot_destroy(snapshot);
 *
 * `torch.cuda.memory._dump_snapshot(path)` writes a pickle: the segments of the caching allocator,
 * block by block, and a ring buffer of the last requests with the stack of each. A pickle is a
 * program; this reader accepts only opcodes that build data, so nothing in a file is ever executed
 * (docs/snapshots.md). It also reads the segment lists of old versions, without requests.
 *
 * Time counts the events of one device: at time t the first t events have happened. Time 0 is the
 * start of the ring buffer, and the number of events is now. A `tn_snapshot_life` (the live range
 * of a block) is [first, last) in this time.
 *
 * Units: bytes, microseconds.
 * Threads: any number of threads may read one snapshot or its live ranges.
 */

typedef struct tn_snapshot tn_snapshot;

typedef enum tn_snapshot_action {
    TN_SNAPSHOT_ALLOC,
    TN_SNAPSHOT_FREE_REQUESTED, /* the program freed the block; other streams may still use it */
    TN_SNAPSHOT_FREE_COMPLETED, /* the block can be used again from this event on */
    TN_SNAPSHOT_SEGMENT_ALLOC,  /* the allocator takes memory from the device for a segment */
    TN_SNAPSHOT_SEGMENT_FREE,
    /* the allocator takes memory from the device for an expandable segment */
    TN_SNAPSHOT_SEGMENT_MAP,
    TN_SNAPSHOT_SEGMENT_UNMAP,
    TN_SNAPSHOT_OOM,   /* the device was out of memory: a request for `size` bytes failed */
    TN_SNAPSHOT_OTHER, /* markers that move no memory */
} tn_snapshot_action;

typedef struct tn_snapshot_event {
    /* address of the block or segment; for OOM: the bytes that were free on the device */
    uint64_t address;
    uint64_t size;   /* requested bytes; for segments: bytes taken from the device */
    int64_t time_us; /* time in microseconds since 1970; 0: not recorded */
    uint32_t stack;  /* number of the stack, for tn_snapshot_stack; 0: there is no stack */
    uint16_t stream; /* number of the stream, for tn_snapshot_stream */
    uint8_t action;  /* kind of the event, a tn_snapshot_action */
    /* number of the category, for tn_snapshot_category, if the file has one; 0: no category */
    uint8_t category;
} tn_snapshot_event;

/* A frame of a stack. The strings are valid as long as the snapshot. */
typedef struct tn_snapshot_frame {
    const char *function, *file;
    int64_t line;
} tn_snapshot_frame;

typedef enum tn_snapshot_state {
    TN_SNAPSHOT_INACTIVE,
    TN_SNAPSHOT_ALLOCATED,
    TN_SNAPSHOT_PENDING_FREE, /* the block was freed by the program, but a stream still uses it */
} tn_snapshot_state;

/* A block, which is a section of a segment. The blocks of a segment lie end to end from its address
 * on. */
typedef struct tn_snapshot_block {
    uint64_t address, size;
    uint64_t requested; /* bytes requested by the current allocation, or by the last one */
    /* number of the stack of the allocation that requested these bytes; 0: there is no stack */
    uint32_t stack;
    uint32_t state; /* state of the block, a tn_snapshot_state */
} tn_snapshot_block;

typedef struct tn_snapshot_segment {
    /* address of the segment, and the bytes that it took from the device */
    uint64_t address, total;
    /* numbers as stored in the file: bytes of blocks in use; bytes of blocks in use or pending
     * free; bytes requested */
    uint64_t allocated, active, requested;
    bool requested_told; /* whether the file has `requested` (old files do not) */
    bool large, expandable;
    uint32_t device, stack;
    uint16_t stream;
    uint32_t first_block, block_count; /* range of the segment's blocks in tn_snapshot_blocks */
} tn_snapshot_segment;

/* Reads a file, or bytes with a name for messages: pickle protocols 2 to 5, with the dict of today
 * or the bare list of segments of old versions; or a trace of PyTorch's profiler with memory events
 * (JSON), whose devices have no segments. The file may be compressed by gzip.
 *
 * Errors: E_IO; E_INVALID with the byte (truncated, not a pickle, an opcode that would run code, a
 * field of the wrong type, not a snapshot); E_UNSUPPORTED (a count above any real snapshot's);
 * E_NO_MEMORY. Cost: O(size). */
TN_API TN_CHECKED tn_status tn_snapshot_load(const char *path, const tn_context *context,
                                             tn_snapshot **snapshot, tn_error *error);
TN_API TN_CHECKED tn_status tn_snapshot_load_memory(const char *name, const void *bytes,
                                                    size_t size, const tn_context *context,
                                                    tn_snapshot **snapshot, tn_error *error);
/* Destroys a snapshot; NULL has no effect. */
TN_API void tn_snapshot_destroy(tn_snapshot *snapshot);

/* Returns the number of devices. Devices are numbered from 0, as in PyTorch; some may have neither
 * segments nor events. */
TN_API uint32_t tn_snapshot_device_count(const tn_snapshot *snapshot);
/* Returns the events of a device, the oldest first. */
TN_API const tn_snapshot_event *tn_snapshot_events(const tn_snapshot *snapshot, uint32_t device,
                                                   uint64_t *count);
/* Return the segments of all devices in file order, and all their blocks. */
TN_API const tn_snapshot_segment *tn_snapshot_segments(const tn_snapshot *snapshot,
                                                       uint32_t *count);
TN_API const tn_snapshot_block *tn_snapshot_blocks(const tn_snapshot *snapshot, uint32_t *count);
/* Fills frames[room] with the innermost frames of a stack and returns the number of all. */
TN_API uint32_t tn_snapshot_stack(const tn_snapshot *snapshot, uint32_t stack,
                                  tn_snapshot_frame *frames, uint32_t room);
/* Returns the number of stacks, including stack 0. */
TN_API uint32_t tn_snapshot_stack_count(const tn_snapshot *snapshot);
/* Returns PyTorch's number of a stream: 0 is the default stream. */
TN_API uint64_t tn_snapshot_stream(const tn_snapshot *snapshot, uint16_t stream);
TN_API const char *tn_snapshot_category(const tn_snapshot *snapshot, uint8_t category);

/* --- live ranges: the holders of memory at each time -------------------------------------- */

typedef struct tn_snapshot_lives tn_snapshot_lives;

/* The category of a block: guessed from the stacks of its allocation and free, unless the file has
 * one. The names are those of PyTorch's profiler, which follows data and does not guess. */
#define TN_SNAPSHOT_GUESS_TABLE(X)                                                                 \
    X(UNKNOWN, "unknown")                                                                          \
    X(PARAMETER, "parameter")                                                                      \
    X(OPTIMIZER_STATE, "optimizer_state")                                                          \
    X(INPUT, "input")                                                                              \
    X(TEMPORARY, "temporary")                                                                      \
    X(ACTIVATION, "activation")                                                                    \
    X(GRADIENT, "gradient")
typedef enum tn_snapshot_guess {
#define TN_SNAPSHOT_GUESS(name, text) TN_SNAPSHOT_##name,
    TN_SNAPSHOT_GUESS_TABLE(TN_SNAPSHOT_GUESS)
#undef TN_SNAPSHOT_GUESS
        TN_SNAPSHOT_GUESS_COUNT
} tn_snapshot_guess;
TN_API const char *tn_snapshot_guess_name(uint32_t guess);

typedef struct tn_snapshot_life {
    uint64_t address, size; /* address and requested bytes of the block */
    uint32_t first, last;   /* live range of the block in event times: [first, last) */
    /* stacks of the allocation and of the free; 0: there is no stack, or the block was not freed */
    uint32_t stack, freed;
    uint16_t stream;
    uint8_t guess; /* category inferred from the stacks, a tn_snapshot_guess */
    /* number of the category (tn_snapshot_category) if the file has one, otherwise 0 */
    uint8_t category;
    /* whether the block was live before the ring buffer began; whether it is live at the end */
    bool before, after;
    /* whether, at the end, the block was freed by the program but another stream still uses it */
    bool waiting;
    uint32_t asked; /* time at which the program freed the block; 0: not recorded */
} tn_snapshot_life;

/* Facts about a device, and the consistency of its events with its segments. */
typedef struct tn_snapshot_facts {
    uint64_t event_count, life_count, before_count;
    /* requested bytes of the blocks that were live before the ring buffer began */
    uint64_t before_bytes;
    /* the time at which requested bytes first reach their peak, and the peak in bytes */
    uint64_t peak_time, peak_requested;
    uint64_t reserved_peak; /* peak of the bytes of segments, over all times */
    /* requested bytes and bytes of segments at the end of the events */
    uint64_t requested, reserved;
    uint64_t oom_count;
    /* numbers of inconsistencies: allocations at an address in use; blocks that differ from the
     * events in state or size; segments with sums that differ from their blocks; segment events
     * that are impossible */
    uint64_t wrong_requests, wrong_blocks, wrong_segments, wrong_device;
    /* a description of the first inconsistency; "" if there is no inconsistency */
    char first_wrong[160];
    /* bytes and blocks within `requested` that, at the end, the program had freed and another
     * stream still used */
    uint64_t waiting_bytes, waiting_count;
} tn_snapshot_facts;

/* Computes the live ranges of a device from its events. A block that is freed without an allocation
 * in the ring buffer, or in use without one, was live before it. Errors: E_INVALID (device),
 * E_NO_MEMORY. Cost: O(events + blocks). */
TN_API TN_CHECKED tn_status tn_snapshot_live(const tn_snapshot *snapshot, uint32_t device,
                                             tn_snapshot_lives **lives, tn_error *error);
/* Destroys live ranges; NULL has no effect. */
TN_API void tn_snapshot_lives_destroy(tn_snapshot_lives *lives);
TN_API const tn_snapshot_life *tn_snapshot_life_at(const tn_snapshot_lives *lives, uint64_t *count);
TN_API const tn_snapshot_facts *tn_snapshot_facts_of(const tn_snapshot_lives *lives);
/* Returns the requested bytes in use, and the bytes of segments, at a time. Cost: O(time). */
TN_API void tn_snapshot_bytes_at(const tn_snapshot_lives *lives, uint64_t time, uint64_t *requested,
                                 uint64_t *reserved);
/* Lists the times of failed allocations: the event of a time is events[time - 1]. Fills
 * times[room]; returns the number of all. */
TN_API uint32_t tn_snapshot_ooms(const tn_snapshot_lives *lives, uint64_t *times, uint32_t room);

typedef enum tn_snapshot_by {
    TN_SNAPSHOT_BY_LINE, /* the innermost line outside PyTorch, such as "model.py:42 forward" */
    /* the forward functions around the line, such as "model.py:42 > conv.py:463", outermost
     * first */
    TN_SNAPSHOT_BY_MODULE,
    TN_SNAPSHOT_BY_CATEGORY, /* the category: from the file, or guessed */
} tn_snapshot_by;

typedef struct tn_snapshot_group {
    const char *name; /* name of the group; valid as long as the live ranges */
    uint64_t bytes;   /* requested bytes of the blocks in the group */
    uint64_t count;   /* number of blocks in the group */
    uint32_t stack;   /* number of the stack of the largest block */
} tn_snapshot_group;

/* Lists the holders of memory at a time, in groups. Fills groups[room] with the largest and returns
 * the number of all; returns 0 also if memory runs out. Cost: O(lives). */
TN_API uint32_t tn_snapshot_groups(const tn_snapshot_lives *lives, uint64_t time, tn_snapshot_by by,
                                   tn_snapshot_group *groups, uint32_t room);
/* Lists the blocks that are pending free at the end, grouped by the line that freed them. Fills
 * groups[room] with the largest and returns the number of all; returns 0 also if memory runs
 * out. */
TN_API uint32_t tn_snapshot_waiting(const tn_snapshot_lives *lives, tn_snapshot_group *groups,
                                    uint32_t room);
/* Returns the name of the group of a live range; valid as long as the live ranges. */
TN_API const char *tn_snapshot_group_of(const tn_snapshot_lives *lives, uint64_t life,
                                        tn_snapshot_by by);

/* A free section of a segment at the end of the events. */
typedef struct tn_snapshot_hole {
    uint32_t segment; /* number of the segment in tn_snapshot_segments */
    uint64_t offset, size;
} tn_snapshot_hole;
/* Why free bytes of segments cannot serve a request. hard: the bytes lie between blocks in use.
 * soft: they are whole segments, which cannot merge. stream: they belong to a stream that has no
 * block in use. */
typedef struct tn_snapshot_causes {
    uint64_t hard, soft, stream; /* bytes */
} tn_snapshot_causes;
TN_API tn_snapshot_causes tn_snapshot_hole_causes(const tn_snapshot *snapshot, uint32_t device);
/* Lists the free sections of a device. Fills holes[room] with the largest and returns the number of
 * all. `bytes` (may be NULL) receives the sum of all; `whole` (may be NULL) receives the bytes of
 * whole segments, which could return to the device. */
TN_API uint32_t tn_snapshot_holes(const tn_snapshot *snapshot, uint32_t device,
                                  tn_snapshot_hole *holes, uint32_t room, uint64_t *whole,
                                  uint64_t *bytes);

/* --- replay on other allocators and planners ------------------------------------------------ */

/* Makes a trace for tn_pool_replay from the requests of a device. Blocks that were live before the
 * ring buffer come first, by address. The labels are the line, the category and the module. Errors:
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_snapshot_trace(const tn_snapshot_lives *lives, tn_pool_trace **trace,
                                              tn_error *error);
/* Replays the requests of a device on a pool. Empties the pool's cache where the recorded allocator
 * released segments. Errors: those of tn_pool_alloc; the pool then has its state before the failed
 * request. */
TN_API TN_CHECKED tn_status tn_snapshot_serve(const tn_snapshot_lives *lives, tn_pool *pool,
                                              tn_error *error);
/* Makes a planning problem from the live ranges, with one body for each. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_snapshot_problem(const tn_snapshot_lives *lives, uint64_t alignment,
                                                const tn_context *context, tn_problem **problem,
                                                tn_error *error);

/* --- writing a snapshot ----------------------------------------------------------------------- */

/* An allocation or a free of the caller's own run. Strings may be NULL. */
typedef struct tn_snapshot_use {
    bool frees;
    uint32_t block;   /* the caller's number of the block; may be used again after the free */
    uint64_t address; /* offset in the arena; TN_SIZE_UNKNOWN: the block is a segment of its own */
    uint64_t size;    /* bytes requested; ignored for a free */
    uint64_t held;    /* bytes handed out, at least `size`; 0: equal to `size` */
    uint32_t stream, line;
    double at_s;
    const char *name, *kind; /* name of the tensor, which becomes frames[0], and its category */
    const char *op, *type;   /* the operator, which becomes frames[1], with its type as the file */
} tn_snapshot_use;

/* Writes a snapshot for PyTorch's own viewer and `tenure report`: a pickle of protocol 4 with one
 * device. The arena of `arena` bytes (0: none) is one segment. The file is replaced atomically.
 *
 * Errors: E_INVALID (the message names the use: a block that is allocated while in use or freed
 * while not in use, a block beyond the arena, two blocks at one address), E_IO, E_NO_MEMORY. Cost:
 * O(n log n). */
TN_API TN_CHECKED tn_status tn_snapshot_write(const tn_snapshot_use *uses, uint64_t count,
                                              uint64_t arena, const tn_context *context,
                                              const char *path, tn_error *error);

/* --- play ------------------------------------------------------------------------------------ */

/* Device replay: replays a recorded allocation trace on a device with real memory,
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

enum { TN_PLAY_STREAMS_MAX = 1024 }; /* largest number of streams of a trace */

typedef struct tn_play_options {
    size_t struct_size;
    const tn_context *context; /* services of the caller; NULL: defaults */
    /* Technique, alignment and plan of the pool; `context` and `settle` are ignored. `capacity` is
     * the limit of the device memory to take; 0: only the device's own limit. NULL: no pool; each
     * request is allocated from the device */
    const tn_pool_options *pool;
    /* number of rounds to time; 0: up to ten (fewer for more than 100,000 events), as many as start
     * within two seconds */
    uint32_t rounds;
} tn_play_options;
#define TN_PLAY_OPTIONS_INIT TN_INIT(tn_play_options, TN_SET(struct_size, sizeof(tn_play_options)))

typedef struct tn_play_answer {
    bool fits;
    tn_error failure; /* if the trace does not fit: the error of the pool or the device */
    /* peak of the device bytes that were taken, without the device's own overhead */
    uint64_t taken;
    uint64_t marked;       /* number of blocks that were written and read back */
    uint64_t waits;        /* number of waits of one stream for another, in the round with work */
    uint32_t streams;      /* number of streams of the trace */
    uint32_t rounds;       /* number of rounds that were timed */
    double request_s;      /* wall time per allocation or free in the fastest round */
    tn_pool_lesson lesson; /* the lesson of the pool over all rounds */
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
