/* replay_snapshot.c - writes a replay as a memory snapshot, with each block at the address that a
 * pool chose. */
#include <stdlib.h>

#include "base/base.h"
#include "cli/replay.h"

#define SNAPSHOT_HALF (TN_POOL_CAPACITY_MAX / 2)
#define SNAPSHOT_GAP (1ull << 20)

typedef struct snapshot_replay {
    tn_pool *pool;
    const tn_pool_trace *trace;
    tn_snapshot_use *uses; /* [events] */
    uint64_t *ids;         /* [blocks] */
    uint64_t end;          /* end of the highest block in the lower half of the range */
    uint64_t high,
        high_end; /* the lowest block in the upper half, which two-ended fills from the end */
} snapshot_replay;

/* The time is the event number in microseconds, because traces have no other time. */
static tn_status snapshot_event(snapshot_replay *replay, const tn_pool_event *event,
                                uint64_t number, tn_error *error) {
    tn_snapshot_use *use = &replay->uses[number];
    *use = (tn_snapshot_use){.frees = event->frees,
                             .block = event->block,
                             .stream = event->stream,
                             .at_s = (double)number * 1e-6};
    if (event->frees) return tn_pool_free(replay->pool, replay->ids[event->block], error);
    const tn_pool_label *label = tn_pool_trace_label(replay->trace, event->label);
    tn_pool_request request = {.size = event->size,
                               .alignment = event->alignment,
                               .stream = event->stream,
                               .flags = event->flags};
    tn_allocation block;
    TN_TRY(tn_pool_alloc(replay->pool, &request, &block, error));
    replay->ids[event->block] = block.id;
    use->address = block.offset;
    use->size = event->size;
    use->held = block.size;
    use->name = label->name;
    use->kind = label->kind;
    use->op = use->type = label->op;
    uint64_t end = block.offset + block.size;
    if (block.offset < SNAPSHOT_HALF) {
        if (end > replay->end) replay->end = end;
    } else {
        if (block.offset < replay->high) replay->high = block.offset;
        if (end > replay->high_end) replay->high_end = end;
    }
    return TN_OK;
}

/* An unlimited range has 2^61 bytes between its halves, which are removed. */
static void snapshot_close(snapshot_replay *replay, uint64_t count) {
    if (replay->high_end == 0) return;
    uint64_t base = (replay->end + SNAPSHOT_GAP) / SNAPSHOT_GAP * SNAPSHOT_GAP;
    for (uint64_t i = 0; i < count; i++) {
        tn_snapshot_use *use = &replay->uses[i];
        if (use->address >= SNAPSHOT_HALF) use->address = base + (use->address - replay->high);
    }
    replay->end = base + (replay->high_end - replay->high);
}

tn_status cli_replay_snapshot(const tn_pool_trace *trace, const tn_pool_options *options,
                              const char *path, tn_error *error) {
    uint64_t count;
    const tn_pool_event *events = tn_pool_trace_events(trace, &count);
    snapshot_replay replay = {.trace = trace, .high = UINT64_MAX};
    replay.uses = calloc((size_t)count + 1, sizeof *replay.uses);
    replay.ids = calloc((size_t)tn_pool_trace_block_count(trace) + 1, sizeof *replay.ids);
    tn_status status =
        replay.uses == NULL || replay.ids == NULL ? tn__no_memory(error, "a replay") : TN_OK;
    if (status == TN_OK) status = tn_pool_create(options, &replay.pool, error);
    for (uint64_t i = 0; i < count && status == TN_OK; i++)
        status = snapshot_event(&replay, &events[i], i, error);
    snapshot_close(&replay, count);
    if (status == TN_OK)
        status = tn_snapshot_write(replay.uses, count, replay.end, options->context, path, error);
    tn_pool_destroy(replay.pool);
    free(replay.ids);
    free(replay.uses);
    return status;
}
