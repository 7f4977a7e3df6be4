/* weight_streaming.c - tn_program_stream: weights are read from their file when needed, so that the
 * layout is within a budget.
 *
 * A block is a weight or a group of weights that is read at once. The file has four parts:
 *
 *     uses      finds the blocks that may be read, the steps that use them, and other live memory
 *     choice    chooses the blocks that stay in memory, always or from one use to the next
 *     clock     decides when each read begins, and computes the resulting time
 *     program   writes the instructions for the best choice
 *
 * The choice counts live bytes. If holes make the layout larger than the budget, the choice is made
 * again with a budget that is smaller by the excess. Cost: a choice, a program and a layout for
 * each round.
 */
#include "fit/budget/weight_streaming.h"

#include <tenure/fit.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include <math.h>
#include <stdio.h>

#include "base/heap.h"
#include "fit/budget/costs.h"
#include "program/clock.h"
#include "program/program.h"

/* One use of a block, as found by tn__program_uses. The read before a use is saved if the block is
 * held in memory since the previous use; the read before the first use is saved if the block stays
 * in memory permanently. Uses are sorted by step, then by block. */
typedef struct tn__stream_use {
    uint32_t step, block;
    uint32_t before, next; /* previous and next use of the same block; TN_NONE: no such use */
    bool held;
} tn__stream_use;

/* A read of a block. It serves the uses from step `first` to step `last`, during which the block is
 * held. */
typedef struct tn__stream_fetch {
    uint32_t block, begins; /* the block, and the step before which its read begins */
    /* first and last step that use the block; the block is dropped after `last` */
    uint32_t first, last;
} tn__stream_fetch;

typedef struct tn__stream {
    const tn_program *program;
    const tn_static_block *blocks;
    uint32_t block_count, steps;
    tn__arena arena;
    tn_error *error;
    uint64_t alignment;
    uint64_t *cost;    /* [steps] time of the step in picoseconds */
    uint64_t *live;    /* [steps] bytes of all memory except static memory */
    uint64_t fixed;    /* bytes of blocks that may not be fetched */
    uint64_t *bytes;   /* [blocks] size, rounded up to the alignment */
    uint64_t *reading; /* [blocks] time of a read in picoseconds */
    tn__stream_use *uses;
    uint32_t use_count;
    /* [blocks] the block stays in memory permanently, so it is never read during the run */
    bool *stays;
    /* the following fields are data of one choice */
    uint64_t target; /* bytes that may be live at once */
    uint64_t *held;  /* [steps] bytes of blocks that are in memory during the step */
    uint64_t *start; /* [steps + 1] time at which the step begins, in picoseconds */
    /* [fetch_count] the reads of blocks, in the order in which they are done */
    tn__stream_fetch *fetches;
    uint32_t fetch_count;
    uint64_t time;
    /* the step at which the blocks and other live memory did not fit into the target */
    uint32_t short_step;
} tn__stream;

/* Whether the block of a use is in memory already, so that the use needs no read. */
static inline bool tn__stream_is_there(const tn__stream *stream, const tn__stream_use *use) {
    return use->held || stream->stays[use->block];
}

/* --- blocks, their uses, and other live memory ------------------------------------------------ */

/* Finds the blocks that may be fetched, the steps that read them, and all other live memory.
 *
 * Cost: that of an occupancy, and O(n log n) for n instructions and operands.
 */

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

/* Lists the uses of the blocks that may be fetched, sorted by step and block. */
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

/* Links the uses of each block, and allocates the arrays for a choice. */
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

/* --- reading a program --- */

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

static tn_status stream_open(tn__stream *stream, const tn_program *program, const tn_costs *costs,
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

static void stream_close(tn__stream *stream) { tn__arena_release(&stream->arena); }

/* Returns a lower bound on the bytes of any choice: the largest step if only the blocks that the
 * step reads are in memory. *step: that step. */
static uint64_t stream_least(const tn__stream *stream, uint32_t *step) {
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

/* --- times of the reads of one choice --------------------------------------------------------- */

/* Decides when each read of a choice begins, and computes the time of the run with the clock
 * (program/clock.h).
 *
 * tn_simulate cannot do this, because it only times reads that already have a place among the
 * instructions. Here the place of a read depends on the times of the steps before it, so these
 * times are stored. The program of the best choice is written with the places that were found, and
 * simulated.
 *
 * Reads follow each other on one stream, in the order in which they are needed. For this order it
 * is optimal to begin each read at the first moment with enough free memory after the previous
 * read: a later begin only leaves less memory to later reads. A read also begins no earlier than
 * the file is free, so that no memory is occupied by a read that waits. In this example, steps a to
 * d run, and "d's" is the read of the weights of d:
 *
 *     compute   [ a ][  b  ][ c ]······[   d   ]      ····: waits for d's
 *     file         [ b's ][ c's ][  d's  ]
 *
 * Cost: O(steps + uses), and at most O(steps) for each read.
 */

static bool clock_hold(tn__stream *stream, uint32_t first, uint32_t last, uint64_t bytes) {
    for (uint32_t s = first; s <= last; s++) {
        stream->held[s] = tn__add_sat(stream->held[s], bytes);
        if (tn__add_sat(stream->held[s], stream->live[s]) <= stream->target) continue;
        stream->short_step = s;
        return false;
    }
    return true;
}

static bool clock_residents(tn__stream *stream) {
    uint64_t bytes = stream->fixed;
    for (uint32_t b = 0; b < stream->block_count; b++)
        if (stream->stays[b]) bytes = tn__add_sat(bytes, stream->bytes[b]);
    for (uint32_t s = 0; s < stream->steps; s++) stream->held[s] = 0;
    return stream->steps == 0 || clock_hold(stream, 0, stream->steps - 1, bytes);
}

static bool clock_has_room(const tn__stream *stream, uint32_t step, uint64_t bytes) {
    return tn__add_sat(tn__add_sat(stream->held[step], stream->live[step]), bytes) <=
           stream->target;
}

/* Returns the step of the last use that is served by the read for `use`: the block is held until
 * then. */
static uint32_t clock_last(const tn__stream *stream, uint32_t use) {
    uint32_t next = stream->uses[use].next;
    while (next != TN_NONE && stream->uses[next].held) {
        use = next;
        next = stream->uses[use].next;
    }
    return stream->uses[use].step;
}

/* Runs the steps before `step` that have not run yet on the clock; *at is the next step to run. */
static void clock_run_to(tn__stream *stream, tn__clock *clock, uint32_t *at, uint32_t step) {
    for (; *at < step; (*at)++)
        stream->start[*at + 1] =
            tn__clock_put(clock, TN__LANE_COMPUTE, TN_NONE, (tn__lane){0}, stream->cost[*at], *at)
                .at;
}

/* Places the read for one use. It begins as early as possible, but not before step *newest, at
 * which the previous read begins. Returns false if the block does not fit into the target. */
static bool clock_fetch(tn__stream *stream, tn__clock *clock, uint32_t use, uint32_t *at,
                        uint32_t *newest) {
    const tn__lane *file = &clock->lanes[TN__LANE_FROM_STORAGE];
    uint32_t block = stream->uses[use].block, first = stream->uses[use].step;
    uint64_t bytes = stream->bytes[block];
    tn__stream_fetch fetch = {block, first, first, clock_last(stream, use)};
    clock_run_to(stream, clock, at, first);
    while (fetch.begins > *newest && stream->start[fetch.begins] > file->at &&
           clock_has_room(stream, fetch.begins - 1, bytes))
        fetch.begins--;
    if (!clock_hold(stream, fetch.begins, fetch.last, bytes)) return false;
    *newest = fetch.begins;
    const tn__lane ready = {.at = stream->start[fetch.begins]};
    tn__lane_wait(&clock->lanes[TN__LANE_COMPUTE],
                  tn__clock_put(clock, TN__LANE_FROM_STORAGE, TN_NONE, ready,
                                stream->reading[block], fetch.begins));
    stream->start[first] = clock->lanes[TN__LANE_COMPUTE].at;
    stream->fetches[stream->fetch_count++] = fetch;
    return true;
}

/* Places all reads of a choice, and computes the time of the run. Returns false if the choice needs
 * more bytes than the target. */
static bool stream_clock(tn__stream *stream) {
    tn__clock clock = {0};
    uint32_t at = 0, newest = 0;
    stream->fetch_count = 0;
    if (!clock_residents(stream)) return false;
    stream->start[0] = 0;
    for (uint32_t u = 0; u < stream->use_count; u++)
        if (!tn__stream_is_there(stream, &stream->uses[u]) &&
            !clock_fetch(stream, &clock, u, &at, &newest))
            return false;
    clock_run_to(stream, &clock, &at, stream->steps);
    stream->time = stream->start[stream->steps];
    return true;
}

/* --- blocks that stay or are held ------------------------------------------------------------- */

/* Chooses the blocks that stay in memory, permanently or from one use to the next.
 *
 * A candidate is one use of a block. Holding the block for it saves one read, and occupies its
 * bytes during some steps. The benefit of a candidate is the reduction of the run time, found by
 * placing all reads again with it. The candidate with the best benefit per byte and step is taken,
 * until no candidate helps or fits. The benefit of a candidate seldom rises when others are taken.
 * Therefore candidates are kept in a heap by the benefit that was last computed, and only the
 * benefit of the top candidate is computed again. A last round computes all of them once more.
 *
 * If only file reads determine the time, every held byte has the same benefit. Small blocks then
 * come first, because each read has a latency. Of equal blocks, the one that is needed first comes
 * first, because no compute can overlap with its read. Cost: mostly O(uses) placements of all
 * reads. Source: Minoux 1978 (lazy greedy).
 */

typedef struct pick_item {
    double worth; /* benefit in picoseconds per byte and step, when it was last computed */
    uint32_t use;
} pick_item;

typedef struct pick_state {
    tn__stream *stream;
    pick_item *heap;
    uint32_t count;
    uint64_t time; /* time of the run with the uses that are held now */
} pick_state;

/* --- the heap: highest benefit first; among equals, the earlier use first --- */

static bool pick_before(const pick_item *a, const pick_item *b) {
    return a->worth != b->worth ? a->worth > b->worth : a->use < b->use;
}

TN__HEAP(pick_heap, pick_item, pick_before)

/* --- candidates --- */

static void pick_set(tn__stream *stream, uint32_t at, bool held) {
    tn__stream_use *use = &stream->uses[at];
    if (use->before == TN_NONE)
        stream->stays[use->block] = held;
    else
        use->held = held;
}

/* Returns the bytes of a candidate times the steps during which they are held: from the previous
 * use to this one, or all steps for a block that stays permanently. */
static double pick_cost(const tn__stream *stream, uint32_t at) {
    const tn__stream_use *use = &stream->uses[at];
    uint32_t steps =
        use->before == TN_NONE ? stream->steps : use->step - stream->uses[use->before].step;
    return (double)stream->bytes[use->block] * (double)steps;
}

/* Returns the time of the run if this candidate is also held; UINT64_MAX if it does not fit. */
static uint64_t pick_try(pick_state *state, uint32_t at) {
    tn__stream *stream = state->stream;
    pick_set(stream, at, true);
    uint64_t time = stream_clock(stream) ? stream->time : UINT64_MAX;
    pick_set(stream, at, false);
    return time;
}

static double pick_worth(const pick_state *state, uint32_t at, uint64_t time) {
    if (time >= state->time) return 0;
    double cost = pick_cost(state->stream, at);
    return (double)(state->time - time) / (cost > 0 ? cost : 1);
}

/* --- rounds --- */

static void pick_fill(pick_state *state) {
    const tn__stream *stream = state->stream;
    state->count = 0;
    for (uint32_t u = 0; u < stream->use_count; u++) {
        if (tn__stream_is_there(stream, &stream->uses[u])) continue;
        uint64_t time = pick_try(state, u);
        double worth = time != UINT64_MAX ? pick_worth(state, u, time) : 0;
        if (worth > 0) state->heap[state->count++] = (pick_item){worth, u};
    }
    for (uint32_t i = state->count / 2; i-- > 0;)
        pick_heap_sink(state->heap, state->count, i, state->heap[i]);
}

/* Takes candidates from the heap until none helps or fits; returns whether any was taken. */
static bool pick_round(pick_state *state) {
    const tn__stream *stream = state->stream;
    bool any = false;
    pick_fill(state);
    while (state->count > 0) {
        pick_item *top = &state->heap[0];
        bool there = tn__stream_is_there(stream, &stream->uses[top->use]);
        uint64_t time = there ? UINT64_MAX : pick_try(state, top->use);
        double worth = time != UINT64_MAX ? pick_worth(state, top->use, time) : 0;
        if (worth <= 0) {
            pick_heap_pop(state->heap, state->count--);
            continue;
        }
        bool stale = worth < top->worth;
        top->worth = worth;
        uint32_t use = top->use;
        if (stale) pick_heap_sink(state->heap, state->count, 0, *top);
        if (stale && state->heap[0].use != use) continue;
        pick_set(state->stream, use, true);
        state->time = time;
        any = true;
        pick_heap_pop(state->heap, state->count--);
    }
    return any;
}

/* Takes the remaining candidates that fit and do not make the run slower. They have no benefit at
 * the given speeds, but still save reads. */
static void pick_rest(pick_state *state) {
    const tn__stream *stream = state->stream;
    for (uint32_t u = 0; u < stream->use_count; u++) {
        if (tn__stream_is_there(stream, &stream->uses[u]) || pick_try(state, u) > state->time)
            continue;
        pick_set(state->stream, u, true);
    }
}

/* --- starts --- */

typedef struct pick_best {
    /* the best choice so far: [blocks] which blocks stay permanently, [uses] for which uses a block
     * is held */
    bool *stays, *held;
    /* time of the run, and bytes that it reads; UINT64_MAX: no choice was kept yet */
    uint64_t time, read;
} pick_best;

static void pick_clear(tn__stream *stream) {
    for (uint32_t b = 0; b < stream->block_count; b++) stream->stays[b] = false;
    for (uint32_t u = 0; u < stream->use_count; u++) stream->uses[u].held = false;
}

static uint64_t pick_read(const tn__stream *stream) {
    uint64_t read = 0;
    for (uint32_t f = 0; f < stream->fetch_count; f++)
        read = tn__add_sat(read, stream->bytes[stream->fetches[f].block]);
    return read;
}

/* Keeps the current choice if it is faster than the best so far, or as fast with fewer bytes
 * read. */
static void pick_keep(tn__stream *stream, pick_best *best) {
    if (!stream_clock(stream)) return;
    uint64_t read = pick_read(stream);
    if (stream->time > best->time || (stream->time == best->time && read >= best->read)) return;
    best->time = stream->time;
    best->read = read;
    memcpy(best->stays, stream->stays, stream->block_count * sizeof *best->stays);
    for (uint32_t u = 0; u < stream->use_count; u++) best->held[u] = stream->uses[u].held;
}

/* Sorts the blocks that may stay permanently by descending size. */
static tn_status pick_order(tn__stream *stream, tn__sort_item **order, uint32_t *count) {
    *order = tn__arena_array(&stream->arena, (size_t)stream->use_count + 1, sizeof **order);
    *count = 0;
    if (*order == NULL) return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t u = 0; u < stream->use_count; u++)
        if (stream->uses[u].before == TN_NONE)
            (*order)[(*count)++] = (tn__sort_item){
                UINT64_MAX - stream->bytes[stream->uses[u].block], stream->uses[u].block};
    if (!tn__sort_items(stream->arena.context, *order, *count))
        return tn__no_memory(stream->error, "what is fetched");
    return TN_OK;
}

/* Chooses the uses for which a block is held in memory instead of being read again, the most useful
 * first, within the target. *found is false if even a choice without held uses exceeds the target.
 * A large block that is read repeatedly occupies memory each time, so keeping it permanently may be
 * better even if other blocks have a higher benefit per byte. Therefore the choice is made several
 * times, with the largest 0, 1, 2, 4 and 8 blocks kept from the beginning, and the best result is
 * taken. */
static tn_status stream_choose(tn__stream *stream, bool *found) {
    static const uint32_t starts[] = {0, 1, 2, 4, 8};
    pick_state state = {.stream = stream};
    pick_best best = {.time = UINT64_MAX, .read = UINT64_MAX};
    tn__sort_item *order;
    uint32_t count;
    size_t uses = (size_t)stream->use_count + 1, blocks = (size_t)stream->block_count + 1;
    pick_clear(stream);
    *found = stream_clock(stream);
    if (!*found) return TN_OK;
    state.heap = tn__arena_array(&stream->arena, uses, sizeof *state.heap);
    best.stays = tn__arena_array(&stream->arena, blocks, sizeof *best.stays);
    best.held = tn__arena_array(&stream->arena, uses, sizeof *best.held);
    if (state.heap == NULL || best.stays == NULL || best.held == NULL)
        return tn__no_memory(stream->error, "what is fetched");
    TN_TRY(pick_order(stream, &order, &count));
    for (size_t i = 0; i < sizeof starts / sizeof *starts && starts[i] <= count; i++) {
        pick_clear(stream);
        for (uint32_t k = 0; k < starts[i]; k++) stream->stays[order[k].id] = true;
        if (!stream_clock(stream)) break;
        state.time = stream->time;
        while (pick_round(&state)) {
        }
        pick_rest(&state);
        pick_keep(stream, &best);
    }
    memcpy(stream->stays, best.stays, stream->block_count * sizeof *best.stays);
    for (uint32_t u = 0; u < stream->use_count; u++) stream->uses[u].held = best.held[u];
    *found = stream_clock(stream);
    return TN_OK;
}

/* --- instructions ----------------------------------------------------------------------------- */

/* Writes the placed reads as instructions.
 *
 * A FETCH is on a stream of its own. It is written at the step where the read begins, after all
 * earlier steps. A step that reads the tensor waits for the newest FETCH that it needs, and thereby
 * for all earlier ones. A DROP follows the last use of a block. Cost: O(n log n) for n instructions
 * and fetches.
 */

typedef struct stream_program {
    const tn__stream *stream;
    tn_instruction *made;
    /* capacity of `made`; numbers of instructions and signals so far; the stream of file reads */
    uint32_t count, room, signals, file;
    uint32_t newest; /* the newest instruction written to stream 0; TN_NONE: no instruction yet */
    uint32_t next;   /* number of the fetch (read of a block) that is written next */
    /* number of fetches that stream 0 has waited for, directly or by waiting for a later one */
    uint32_t waited;
    uint32_t *given; /* [fetches] the signal of each fetch */
    /* fetches in the order of their first use, and in the order of their last use */
    tn__sort_item *use, *drop;
    uint32_t next_use, next_drop;
} stream_program;

static void stream_add(stream_program *state, tn_instruction it) {
    if (it.stream == 0) state->newest = state->count;
    state->made[state->count++] = it;
}

static uint32_t stream_signal(stream_program *state, uint32_t at) {
    if (state->made[at].signal == 0) state->made[at].signal = ++state->signals;
    return state->made[at].signal;
}

static void stream_fetch(stream_program *state, uint32_t index) {
    const tn__stream *stream = state->stream;
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = TN_FETCH;
    it.tensor = stream->blocks[stream->fetches[index].block].tensor;
    it.stream = state->file;
    if (state->newest != TN_NONE) it.wait = stream_signal(state, state->newest);
    it.signal = state->given[index] = ++state->signals;
    stream_add(state, it);
}

static void stream_drop(stream_program *state, uint32_t index) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = TN_DROP;
    it.tensor = state->stream->blocks[state->stream->fetches[index].block].tensor;
    stream_add(state, it);
}

/* Makes an instruction wait for a fetch, unless its stream already waited for this fetch or a later
 * one: fetches end in the order of their numbers. */
static void stream_wait(stream_program *state, uint32_t index, tn_instruction *it) {
    if (index < state->waited) return;
    state->waited = index + 1;
    if (it->wait == 0 && it->stream == 0) {
        it->wait = state->given[index];
        return;
    }
    tn_instruction wait = TN_INSTRUCTION_INIT;
    wait.opcode = TN_WAIT;
    wait.stream = it->stream;
    wait.wait = state->given[index];
    stream_add(state, wait);
}

static void stream_step(stream_program *state, uint32_t step) {
    const tn__stream *stream = state->stream;
    tn_instruction it = tn_program_instructions(stream->program)[step];
    uint32_t newest = TN_NONE, fetches = stream->fetch_count;
    while (state->next < fetches && stream->fetches[state->next].begins == step)
        stream_fetch(state, state->next++);
    for (; state->next_use < fetches && state->use[state->next_use].key == step; state->next_use++)
        newest = state->use[state->next_use].id;
    if (newest != TN_NONE) stream_wait(state, newest, &it);
    stream_add(state, it);
    for (; state->next_drop < fetches && state->drop[state->next_drop].key == step;
         state->next_drop++)
        stream_drop(state, state->drop[state->next_drop].id);
}

static tn_status emit_open(stream_program *state, tn__arena *arena) {
    const tn__stream *stream = state->stream;
    const tn_instruction *list = tn_program_instructions(stream->program);
    size_t room = (size_t)stream->steps + 3 * (size_t)stream->fetch_count + 1;
    size_t fetches = (size_t)stream->fetch_count + 1;
    state->made = tn__arena_array(arena, room, sizeof *state->made);
    state->given = tn__arena_array(arena, fetches, sizeof *state->given);
    state->use = tn__arena_array(arena, fetches, sizeof *state->use);
    state->drop = tn__arena_array(arena, fetches, sizeof *state->drop);
    if (room > UINT32_MAX || !state->made || !state->given || !state->use || !state->drop)
        return tn__no_memory(stream->error, "a program");
    for (uint32_t s = 0; s < stream->steps; s++) {
        if (list[s].stream > state->file) state->file = list[s].stream;
        if (list[s].signal > state->signals) state->signals = list[s].signal;
    }
    if (++state->file >= TN_STREAM_MAX)
        TN_FAIL(stream->error, TN_E_UNSUPPORTED, "the program has no stream left for its files");
    for (uint32_t f = 0; f < stream->fetch_count; f++) {
        state->use[f] = (tn__sort_item){stream->fetches[f].first, f};
        state->drop[f] = (tn__sort_item){stream->fetches[f].last, f};
    }
    if (!tn__sort_items(arena->context, state->use, stream->fetch_count) ||
        !tn__sort_items(arena->context, state->drop, stream->fetch_count))
        return tn__no_memory(stream->error, "a program");
    return TN_OK;
}

static tn_status stream_emit(tn__stream *stream, tn_program **program) {
    stream_program state = {.stream = stream, .newest = TN_NONE};
    uint32_t encoded_count;
    (void)tn_program_encoded(stream->program, &encoded_count);
    if (encoded_count > 0)
        TN_FAIL(stream->error, TN_E_UNSUPPORTED,
                "what keeps tensors encoded is not streamed as well");
    tn__arena scratch;
    tn__arena_init(&scratch, stream->arena.context);
    tn_status status = emit_open(&state, &scratch);
    for (uint32_t s = 0; s < stream->steps && status == TN_OK; s++) stream_step(&state, s);
    if (status == TN_OK)
        status = tn_program_from(tn_program_graph(stream->program), state.made, state.count, NULL,
                                 0, program, stream->error);
    tn__arena_release(&scratch);
    return status;
}

/* --- rounds ----------------------------------------------------------------------------------- */

#define STREAM_ROUNDS 16u

/* --- one round --- */

static void stream_take(tn_stream_result *result, tn_stream_result *made) {
    uint32_t rounds = result->rounds;
    tn_stream_release(result);
    *result = *made;
    result->rounds = rounds;
    *made = (tn_stream_result){0};
}

static void stream_count(const tn__stream *stream, tn_stream_result *made) {
    made->fetches = stream->fetch_count;
    for (uint32_t f = 0; f < stream->fetch_count; f++)
        made->fetched_bytes =
            tn__add_sat(made->fetched_bytes, stream->blocks[stream->fetches[f].block].bytes);
    made->resident_bytes = stream->fixed;
    uint8_t *fetched = tn__alloc_array(stream->arena.context, (size_t)stream->block_count + 1, 1);
    for (uint32_t f = 0; f < stream->fetch_count && fetched != NULL; f++)
        fetched[stream->fetches[f].block] = 1;
    for (uint32_t b = 0; b < stream->block_count && fetched != NULL; b++) {
        made->residents += !fetched[b];
        if (stream->stays[b]) made->resident_bytes += stream->bytes[b];
    }
    tn__free(stream->arena.context, fetched, (size_t)stream->block_count + 1);
}

static tn_status stream_plan(tn__stream *stream, const tn_stream_options *options,
                             tn_stream_result *made) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn__options(&memory, sizeof memory, options->memory);
    tn__options(&plan, sizeof plan, options->plan);
    memory.struct_size = sizeof memory;
    plan.struct_size = sizeof plan;
    memory.statics = stream->blocks;
    memory.static_count = stream->block_count;
    memory.statics_first = false;
    if (plan.context == NULL) plan.context = options->context;
    TN_TRY(stream_emit(stream, &made->program));
    TN_TRY(tn_occupancy_create(made->program, &memory, &made->occupancy, stream->error));
    TN_TRY(tn_plan(tn_occupancy_problem(made->occupancy), &plan, &made->layout, stream->error));
    made->bytes = made->layout.peak;
    stream_count(stream, made);
    return TN_OK;
}

/* --- time --- */

/* Returns for each tensor the bytes that a fetch of it reads. */
static tn_status stream_bytes(const tn__stream *stream, tn__arena *arena, const uint64_t **bytes) {
    uint32_t tensors = tn_graph_tensor_count(tn_program_graph(stream->program));
    uint64_t *made = tn__arena_array(arena, tensors, sizeof *made);
    if (made == NULL) return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t b = 0; b < stream->block_count; b++)
        made[stream->blocks[b].tensor] = stream->blocks[b].bytes;
    *bytes = made;
    return TN_OK;
}

static tn_status stream_time(tn__stream *stream, const tn_costs *costs,
                             const tn_stream_options *options, tn_stream_result *result) {
    tn_simulate_options how = TN_SIMULATE_OPTIONS_INIT;
    tn_simulation streamed, plain;
    TN_TRY(stream_bytes(stream, &stream->arena, &how.fetch_bytes));
    how.context = options->context;
    how.from_storage_bytes_per_s = result->bytes_per_s = options->bytes_per_s;
    how.storage_latency_s = options->latency_s;
    TN_TRY(tn__costs_simulate(costs, stream->program, &how, &plain, stream->error));
    result->plain_time = plain.total_ps;
    tn_simulation_release(&plain);
    TN_TRY(tn__costs_simulate(costs, result->program, &how, &streamed, stream->error));
    result->time = streamed.total_ps;
    result->stall = streamed.stall_ps;
    tn_simulation_release(&streamed);
    return TN_OK;
}

/* --- all rounds of a search --- */

/* Fills the facts of a refusal. `laid` is the size of the smallest layout; 0 means that no layout
 * was made, because one step alone needs more bytes than the budget. */
static void stream_refuse(const tn__stream *stream, uint64_t budget, uint64_t least, uint32_t step,
                          uint64_t laid, tn__refusal *refusal) {
    const tn_graph *graph = tn_program_graph(stream->program);
    const tn_instruction *it = &tn_program_instructions(stream->program)[step];
    const tn_op *op = it->op != TN_NONE ? tn_graph_op(graph, it->op) : NULL;
    char size[TN_SIZE_TEXT_MAX];
    *refusal = (tn__refusal){.techniques = TN_FIT_STREAM, .budget = budget, .least = laid};
    snprintf(refusal->step, sizeof refusal->step, "step %u, '%.60s' (%.30s), needs %s at once",
             step, op != NULL ? op->name : "", op != NULL ? op->type : tn_opcode_name(it->opcode),
             tn_size_format(least, size));
}

static tn_status stream_rounds(tn__stream *stream, const tn_stream_options *options,
                               tn_stream_result *result, tn__refusal *refusal) {
    uint32_t step;
    uint64_t least = stream_least(stream, &step), laid = UINT64_MAX;
    bool any = options->budget == 0;
    stream->target = any ? least : options->budget;
    for (bool found = true; result->rounds < STREAM_ROUNDS; result->rounds++) {
        tn_stream_result made = {0};
        if (stream->target < least) stream->target = least;
        if (!any && least > options->budget) break;
        TN_TRY(stream_choose(stream, &found));
        if (!found) break;
        tn_status status = stream_plan(stream, options, &made);
        uint64_t bytes = made.bytes;
        if (status == TN_OK && (any || bytes <= options->budget)) {
            stream_take(result, &made);
            return TN_OK;
        }
        tn_stream_release(&made);
        TN_TRY(status);
        if (bytes < laid) laid = bytes;
        if (stream->target == least) break;
        uint64_t beyond = bytes - options->budget, floor = stream->target / 64;
        if (beyond < floor) beyond = floor;
        stream->target = stream->target > beyond ? stream->target - beyond : 0;
    }
    result->bytes = laid != UINT64_MAX ? laid : least;
    stream_refuse(stream, options->budget, least, step, laid != UINT64_MAX ? laid : 0, refusal);
    return TN_E_EXHAUSTED;
}

tn_status tn__stream_seek(const tn_program *program, const tn_costs *costs,
                          const tn_stream_options *given, tn_stream_result *result,
                          tn__refusal *refusal, tn_error *error) {
    tn_stream_options options = TN_STREAM_OPTIONS_INIT;
    tn__stream stream;
    tn__options(&options, sizeof options, given);
    tn_context context = tn__context(
        options.context != NULL ? options.context : tn_graph_context(tn_program_graph(program)));
    options.context = &context;
    *result = (tn_stream_result){0};
    *refusal = (tn__refusal){0};
    tn_status status = stream_open(&stream, program, costs, &options, error);
    if (status == TN_OK) status = stream_rounds(&stream, &options, result, refusal);
    if (status == TN_OK) status = stream_time(&stream, costs, &options, result);
    stream_close(&stream);
    return status;
}

tn_status tn_program_stream(const tn_program *program, const tn_costs *costs,
                            const tn_stream_options *options, tn_stream_result *result,
                            tn_error *error) {
    tn__refusal refusal;
    tn_status status = tn__stream_seek(program, costs, options, result, &refusal, error);
    return tn__refusal_fail(&refusal, status, error);
}

void tn_stream_release(tn_stream_result *result) {
    tn_layout_release(&result->layout);
    tn_occupancy_destroy(result->occupancy);
    tn_program_destroy(result->program);
    *result = (tn_stream_result){0};
}
