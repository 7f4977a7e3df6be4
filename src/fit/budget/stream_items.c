/* stream_items.c - finds the blocks that may be fetched, their readers, and the other live memory.
 *
 * Cost: O(instructions + operands, sorted), and that of an occupancy.
 */
#include "fit/budget/stream.h"

#include "program/clock.h"
#include "program/program.h"

#include <math.h>

#include <tenure/trace.h>

#define STREAM_ALIGNMENT 64u
#define STREAM_PS 1e12

/* --- time and bytes --- */

static tn_status items_costs(tn__stream *stream, const tn_costs *costs) {
    const tn_instruction *list = tn_program_instructions(stream->program);
    stream->cost = tn__arena_array(&stream->arena, stream->steps, sizeof *stream->cost);
    if (stream->cost == NULL) return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t s = 0; s < stream->steps; s++)
        if (list[s].opcode == TN_APPLY)
            stream->cost[s] = list[s].again ? tn_costs_again_of(costs, list[s].op)
                                            : tn_costs_of(costs, list[s].op);
    return TN_OK;
}

static tn_status items_live(tn__stream *stream, const tn_stream_options *options) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_occupancy *occupancy;
    tn__options(&memory, sizeof memory, options->memory);
    memory.struct_size = sizeof memory;
    memory.statics = NULL;
    memory.static_count = 0;
    stream->alignment = memory.alignment != 0 ? memory.alignment : STREAM_ALIGNMENT;
    stream->live = tn__arena_array(&stream->arena, stream->steps, sizeof *stream->live);
    uint64_t(*kinds)[TN_KIND_COUNT] = tn__arena_array(&stream->arena, stream->steps, sizeof *kinds);
    if (stream->live == NULL || kinds == NULL)
        return tn__no_memory(stream->error, "what is fetched");
    TN_TRY(tn_occupancy_create(stream->program, &memory, &occupancy, stream->error));
    tn_status status = tn_occupancy_live(occupancy, kinds, stream->error);
    tn_occupancy_destroy(occupancy);
    for (uint32_t s = 0; s < stream->steps && status == TN_OK; s++)
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
            stream->live[s] = tn__add_sat(stream->live[s], kinds[s][kind]);
    return status;
}

static tn_status items_blocks(tn__stream *stream, const tn_stream_options *options) {
    size_t room = (size_t)stream->block_count + 1;
    stream->bytes = tn__arena_array(&stream->arena, room, sizeof *stream->bytes);
    stream->reading = tn__arena_array(&stream->arena, room, sizeof *stream->reading);
    if (stream->bytes == NULL || stream->reading == NULL)
        return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t b = 0; b < stream->block_count; b++) {
        uint64_t bytes = TN_SIZE_UNKNOWN;
        (void)tn__align_up(stream->blocks[b].bytes, stream->alignment, &bytes);
        stream->bytes[b] = bytes;
        stream->reading[b] =
            tn__add_sat(tn__lane_bytes(stream->blocks[b].bytes, options->bytes_per_s / STREAM_PS),
                        (uint64_t)round(options->latency_s * STREAM_PS));
        if (!options->may[b]) stream->fixed = tn__add_sat(stream->fixed, bytes);
    }
    return TN_OK;
}

/* --- uses --- */

/* The uses of the blocks that may be fetched, by step and block. */
static tn_status items_uses(tn__stream *stream, const uint8_t *may) {
    size_t count = 0;
    tn__lists of;
    TN_TRY(tn__program_uses(stream->program, &stream->arena, &of, stream->error));
    for (uint32_t b = 0; b < stream->block_count; b++)
        if (may[b]) count += tn__lists_count(&of, stream->blocks[b].tensor);
    tn__sort_item *items = tn__arena_array(&stream->arena, count + 1, sizeof *items);
    stream->uses = tn__arena_array(&stream->arena, count + 1, sizeof *stream->uses);
    if (items == NULL || stream->uses == NULL)
        return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t b = 0; b < stream->block_count; b++) {
        const uint32_t *first = &of.first[may[b] ? stream->blocks[b].tensor : 0];
        for (uint32_t u = first[0]; may[b] && u < first[1]; u++)
            items[stream->use_count++] = (tn__sort_item){of.items[u], b};
    }
    if (!tn__sort_items(stream->arena.context, items, stream->use_count))
        return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t u = 0; u < stream->use_count; u++)
        stream->uses[u] = (tn__stream_use){.step = (uint32_t)items[u].key, .block = items[u].id};
    return TN_OK;
}

/* Links the uses of each block, and allocates the room for a choice. */
static tn_status items_links(tn__stream *stream) {
    size_t uses = (size_t)stream->use_count + 1, blocks = (size_t)stream->block_count + 1;
    uint32_t *newest = tn__arena_array(&stream->arena, blocks, sizeof *newest);
    stream->stays = tn__arena_array(&stream->arena, blocks, sizeof *stream->stays);
    stream->held = tn__arena_array(&stream->arena, stream->steps, sizeof *stream->held);
    stream->start =
        tn__arena_array(&stream->arena, (size_t)stream->steps + 1, sizeof *stream->start);
    stream->fetches = tn__arena_array(&stream->arena, uses, sizeof *stream->fetches);
    if (newest == NULL || stream->stays == NULL || stream->held == NULL || stream->start == NULL ||
        stream->fetches == NULL)
        return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t b = 0; b < stream->block_count; b++) newest[b] = TN_NONE;
    for (uint32_t u = 0; u < stream->use_count; u++) {
        tn__stream_use *use = &stream->uses[u];
        use->before = newest[use->block];
        use->next = TN_NONE;
        if (use->before != TN_NONE) stream->uses[use->before].next = u;
        newest[use->block] = u;
    }
    return TN_OK;
}

/* --- the whole --- */

static tn_status items_check(const tn_program *program, const tn_stream_options *options,
                             tn_error *error) {
    if (!(isfinite(options->bytes_per_s) && options->bytes_per_s > 0))
        TN_FAIL(error, TN_E_INVALID, "%g bytes a second is no speed of a file",
                options->bytes_per_s);
    if (!(options->latency_s >= 0 && options->latency_s <= 1e6))
        TN_FAIL(error, TN_E_INVALID, "a latency of %g s", options->latency_s);
    if (tn_program_region_count(program) > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "this network has control flow: its weights are not streamed");
    return TN_OK;
}

tn_status tn__stream_open(tn__stream *stream, const tn_program *program, const tn_costs *costs,
                          const tn_stream_options *options, tn_error *error) {
    *stream = (tn__stream){.program = program,
                           .blocks = options->blocks,
                           .block_count = options->block_count,
                           .steps = tn_program_count(program),
                           .error = error};
    tn__arena_init(&stream->arena, options->context);
    TN_TRY(items_check(program, options, error));
    TN_TRY(items_costs(stream, costs));
    TN_TRY(items_live(stream, options));
    TN_TRY(items_blocks(stream, options));
    TN_TRY(items_uses(stream, options->may));
    return items_links(stream);
}

void tn__stream_close(tn__stream *stream) { tn__arena_release(&stream->arena); }

uint64_t tn__stream_least(const tn__stream *stream, uint32_t *step) {
    uint64_t most = 0;
    *step = 0;
    for (uint32_t s = 0, u = 0; s < stream->steps; s++) {
        uint64_t bytes = tn__add_sat(stream->fixed, stream->live[s]);
        for (; u < stream->use_count && stream->uses[u].step == s; u++)
            bytes = tn__add_sat(bytes, stream->bytes[stream->uses[u].block]);
        if (bytes <= most) continue;
        most = bytes;
        *step = s;
    }
    return most;
}
