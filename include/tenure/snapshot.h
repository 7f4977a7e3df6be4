/* snapshot.h - who holds the memory of a GPU: PyTorch's memory snapshots, read without Python.
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
 * `torch.cuda.memory._dump_snapshot(path)` writes a pickle: the segments that the caching allocator
 * holds, block by block, and a ring of the last requests, with the stack of each. Pickles are
 * programs; this reader knows the opcodes that make data and refuses all others, so nothing in a
 * file is ever run (docs/snapshots.md). Segments alone, of old versions, are fine as well.
 *
 * Time is counted in events of one device: at time t the first t of them have happened; 0 is before
 * the ring begins, the number of events is now. A life is [first, last) of that.
 *
 * Units: bytes, microseconds.
 * Threads: any number may read one snapshot or its lives.
 */
#ifndef TENURE_SNAPSHOT_H
#define TENURE_SNAPSHOT_H

#include <tenure/plan.h>
#include <tenure/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_snapshot tn_snapshot;

typedef enum tn_snapshot_action {
    TN_SNAPSHOT_ALLOC,
    TN_SNAPSHOT_FREE_REQUESTED, /* by the program; other streams may still use the block */
    TN_SNAPSHOT_FREE_COMPLETED, /* from here on it can be given again */
    TN_SNAPSHOT_SEGMENT_ALLOC,  /* the allocator takes memory from the device */
    TN_SNAPSHOT_SEGMENT_FREE,
    TN_SNAPSHOT_SEGMENT_MAP, /* the same of segments that can grow */
    TN_SNAPSHOT_SEGMENT_UNMAP,
    TN_SNAPSHOT_OOM,   /* out of memory: `size` was wanted */
    TN_SNAPSHOT_OTHER, /* marks that move no memory */
} tn_snapshot_action;

typedef struct tn_snapshot_event {
    uint64_t address; /* of OOM: the bytes that the device had left */
    uint64_t size;    /* requested; of segments: taken */
    int64_t time_us;  /* since 1970; 0: not told */
    uint32_t stack;   /* for tn_snapshot_stack; 0: none */
    uint16_t stream;  /* for tn_snapshot_stream */
    uint8_t action;   /* tn_snapshot_action */
    uint8_t category; /* for tn_snapshot_category, where the file says one; 0: it does not */
} tn_snapshot_event;

typedef struct tn_snapshot_frame { /* strings live as long as the snapshot */
    const char *function, *file;
    int64_t line;
} tn_snapshot_frame;

typedef enum tn_snapshot_state {
    TN_SNAPSHOT_INACTIVE,
    TN_SNAPSHOT_ALLOCATED,
    TN_SNAPSHOT_PENDING_FREE, /* freed by the program, in use by a stream */
} tn_snapshot_state;

/* A part of a segment. Those of a segment lie end to end, from its address on. */
typedef struct tn_snapshot_block {
    uint64_t address, size;
    uint64_t requested; /* of the allocation in it, or of the last one */
    uint32_t stack;     /* of that; 0: none */
    uint32_t state;     /* tn_snapshot_state */
} tn_snapshot_block;

typedef struct tn_snapshot_segment {
    uint64_t address, total; /* bytes taken from the device */
    /* as the file tells: blocks in use, those and what waits to be free, what was asked for */
    uint64_t allocated, active, requested;
    bool requested_told; /* old files do not tell `requested` */
    bool large, expandable;
    uint32_t device, stack;
    uint16_t stream;
    uint32_t first_block, block_count; /* of tn_snapshot_blocks */
} tn_snapshot_segment;

/* Reads a file, or bytes whose name is for messages. Protocols 2 to 5; the dict of today, and the
 * bare list of segments of old. Either may be compressed by gzip.
 *
 * Errors: E_IO; E_INVALID with the byte (truncated, no pickle, an opcode that would run code, a
 * field that is not what it should be, no snapshot); E_UNSUPPORTED (more of something
 * than any snapshot has), E_NO_MEMORY. Cost: O(size). */
TN_API TN_CHECKED tn_status tn_snapshot_load(const char *path, const tn_context *context,
                                             tn_snapshot **snapshot, tn_error *error);
TN_API TN_CHECKED tn_status tn_snapshot_load_memory(const char *name, const void *bytes,
                                                    size_t size, const tn_context *context,
                                                    tn_snapshot **snapshot, tn_error *error);
TN_API void tn_snapshot_destroy(tn_snapshot *snapshot); /* NULL is fine */

/* Devices are numbered from 0, as in PyTorch; some may have neither segments nor events. */
TN_API uint32_t tn_snapshot_device_count(const tn_snapshot *snapshot);
/* Events of a device, the oldest first. */
TN_API const tn_snapshot_event *tn_snapshot_events(const tn_snapshot *snapshot, uint32_t device,
                                                   uint64_t *count);
/* Segments of all devices, as in the file, and all their blocks. */
TN_API const tn_snapshot_segment *tn_snapshot_segments(const tn_snapshot *snapshot,
                                                       uint32_t *count);
TN_API const tn_snapshot_block *tn_snapshot_blocks(const tn_snapshot *snapshot, uint32_t *count);
/* Fills frames[room] with the innermost frames of a stack and returns how many there are. */
TN_API uint32_t tn_snapshot_stack(const tn_snapshot *snapshot, uint32_t stack,
                                  tn_snapshot_frame *frames, uint32_t room);
TN_API uint32_t tn_snapshot_stack_count(const tn_snapshot *snapshot); /* stack 0 with them */
/* The number that PyTorch gives a stream: 0 is the default one. */
TN_API uint64_t tn_snapshot_stream(const tn_snapshot *snapshot, uint16_t stream);
TN_API const char *tn_snapshot_category(const tn_snapshot *snapshot, uint8_t category);

/* --- lives: from requests to who holds what, when ---------------------------------------- */

typedef struct tn_snapshot_lives tn_snapshot_lives;

/* What a block is for: guessed from the stacks that asked for it and freed it, unless the file
 * says. The words are those of PyTorch's profiler, which follows data and need not guess. */
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
    uint64_t address, size; /* requested bytes */
    uint32_t first, last;   /* time: live in [first, last) */
    uint32_t stack, freed;  /* stacks of who asked, and of who freed it; 0: none, or not freed */
    uint16_t stream;
    uint8_t guess;      /* tn_snapshot_guess */
    uint8_t category;   /* where the file says one: tn_snapshot_category; else 0 */
    bool before, after; /* it was there before the ring began; it still is now */
    bool waiting;       /* now: the program freed it, and another stream still uses it */
    uint32_t asked;     /* time of that request to free it; 0: none was recorded */
} tn_snapshot_life;

/* What the ring and the segments tell about a device, and whether they tell the same. */
typedef struct tn_snapshot_facts {
    uint64_t event_count, life_count, before_count;
    uint64_t before_bytes;              /* requested, of what was there before the ring began */
    uint64_t peak_time, peak_requested; /* the most requested bytes, first time */
    uint64_t reserved_peak;             /* the most bytes of segments, in all the time */
    uint64_t requested, reserved;       /* now */
    uint64_t oom_count;
    /* what does not agree: allocations at an address in use; blocks in use that the ring leaves
     * free, or the reverse, or of another size; segments that do not hold what their numbers say;
     * requests to the device that cannot have been */
    uint64_t wrong_requests, wrong_blocks, wrong_segments, wrong_device;
    char first_wrong[160]; /* the first of them in words; "" when all agrees */
    /* now: of `requested`, what the program freed and another stream still uses */
    uint64_t waiting_bytes, waiting_count;
} tn_snapshot_facts;

/* Follows the requests of a device. Blocks that are freed without having been allocated in the
 * ring, and those that nobody frees, were there before. Errors: E_INVALID (device), E_NO_MEMORY.
 * Cost: O(events + blocks). */
TN_API TN_CHECKED tn_status tn_snapshot_live(const tn_snapshot *snapshot, uint32_t device,
                                             tn_snapshot_lives **lives, tn_error *error);
TN_API void tn_snapshot_lives_destroy(tn_snapshot_lives *lives); /* NULL is fine */
TN_API const tn_snapshot_life *tn_snapshot_life_at(const tn_snapshot_lives *lives, uint64_t *count);
TN_API const tn_snapshot_facts *tn_snapshot_facts_of(const tn_snapshot_lives *lives);
/* Bytes in use and bytes of segments at a time. Cost: O(time). */
TN_API void tn_snapshot_bytes_at(const tn_snapshot_lives *lives, uint64_t time, uint64_t *requested,
                                 uint64_t *reserved);
/* Where an allocation failed: the event is events[time - 1]. Fills times[room]; returns how many.
 */
TN_API uint32_t tn_snapshot_ooms(const tn_snapshot_lives *lives, uint64_t *times, uint32_t room);

typedef enum tn_snapshot_by {
    TN_SNAPSHOT_BY_LINE,     /* "model.py:42 forward": innermost line that is not PyTorch's */
    TN_SNAPSHOT_BY_MODULE,   /* "model.py:42 > conv.py:463": its forward functions, from outside */
    TN_SNAPSHOT_BY_CATEGORY, /* as the file says, else guessed */
} tn_snapshot_by;

typedef struct tn_snapshot_group {
    const char *name; /* lives as long as the lives */
    uint64_t bytes;   /* requested */
    uint64_t count;   /* blocks */
    uint32_t stack;   /* of the largest block */
} tn_snapshot_group;

/* Who holds the memory at a time: fills groups[room] with the largest and returns how many there
 * are. 0 when out of memory, too. Cost: O(lives). */
TN_API uint32_t tn_snapshot_groups(const tn_snapshot_lives *lives, uint64_t time, tn_snapshot_by by,
                                   tn_snapshot_group *groups, uint32_t room);
/* Blocks that wait for another stream, now, by the line that freed them: fills groups[room] with
 * the largest and returns how many there are. 0 when out of memory, too. */
TN_API uint32_t tn_snapshot_waiting(const tn_snapshot_lives *lives, tn_snapshot_group *groups,
                                    uint32_t room);
/* The name of the group that a life belongs to; lives as long as the lives. */
TN_API const char *tn_snapshot_group_of(const tn_snapshot_lives *lives, uint64_t life,
                                        tn_snapshot_by by);

/* A stretch of a segment that nobody has, now. */
typedef struct tn_snapshot_hole {
    uint32_t segment; /* of tn_snapshot_segments */
    uint64_t offset, size;
} tn_snapshot_hole;
/* Why free bytes of segments cannot serve a request: they lie between blocks that live (hard), are
 * segments of their own, which do not join (soft), or belong to a stream on which nothing lives
 * (stream). */
typedef struct tn_snapshot_causes {
    uint64_t hard, soft, stream; /* bytes */
} tn_snapshot_causes;
TN_API tn_snapshot_causes tn_snapshot_hole_causes(const tn_snapshot *snapshot, uint32_t device);
/* Fills holes[room] with the largest of a device and returns how many there are. `whole` and
 * `bytes` (may be NULL) receive the sums of those that are whole segments, which could go back to
 * the device, and of all. */
TN_API uint32_t tn_snapshot_holes(const tn_snapshot *snapshot, uint32_t device,
                                  tn_snapshot_hole *holes, uint32_t room, uint64_t *whole,
                                  uint64_t *bytes);

/* --- what else would have done ------------------------------------------------------------- */

/* The requests of a device as a recorded run, for tn_pool_replay: what was there before first, in
 * the order of addresses. Labels: the line, the category, the module. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_snapshot_trace(const tn_snapshot_lives *lives, tn_pool_trace **trace,
                                              tn_error *error);
/* Does with a pool what the program did; empties its cache where the file's own allocator gave
 * segments back. Errors: those of tn_pool_alloc, the pool is then as it was before. */
TN_API TN_CHECKED tn_status tn_snapshot_serve(const tn_snapshot_lives *lives, tn_pool *pool,
                                              tn_error *error);
/* The lives as a problem: a body for each, which begins and ends with it. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_snapshot_problem(const tn_snapshot_lives *lives, uint64_t alignment,
                                                const tn_context *context, tn_problem **problem,
                                                tn_error *error);

/* --- writing one ---------------------------------------------------------------------------- */

/* An allocation or a free of a run of one's own. Words may be NULL. */
typedef struct tn_snapshot_use {
    bool frees;
    uint32_t block;   /* a number of one's own; in use once at a time */
    uint64_t address; /* from 0 on in the arena; TN_SIZE_UNKNOWN: a segment of its own */
    uint64_t size;    /* bytes requested; of a free not read */
    uint64_t held;    /* bytes handed out, at least `size`; 0: `size` */
    uint32_t stream, line;
    double at_s;
    const char *name, *kind; /* of what is held: frames[0], and the category */
    const char *op, *type;   /* who asks: frames[1], its type is the file */
} tn_snapshot_use;

/* Writes what PyTorch's own viewer and `tenure report` read: a pickle of protocol 4 with one
 * device, whose arena of so many bytes (0: none) is one segment. The file appears whole or not at
 * all.
 *
 * Errors: E_INVALID with the use (a block that is in use already, or is freed without; beyond the
 * arena; two at one address), E_IO, E_NO_MEMORY. Cost: O(n log n). */
TN_API TN_CHECKED tn_status tn_snapshot_write(const tn_snapshot_use *uses, uint64_t count,
                                              uint64_t arena, const tn_context *context,
                                              const char *path, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
