/* stream_emit.c - writes a schedule of reads as instructions.
 *
 * A FETCH is on a stream of its own, at the step where it begins, after all earlier steps. A reader
 * of the tensor waits for the newest read that it needs, and thereby for all earlier ones. A DROP
 * follows the last use. Cost: O(instructions + fetches), sorted.
 */
#include "fit/budget/stream.h"

typedef struct stream_state {
    const tn__stream *stream;
    tn_instruction *made;
    uint32_t count, room, signals, file; /* instructions and signals used so far; the stream for
                                          * reads */
    uint32_t newest;                     /* newest instruction on stream 0; TN_NONE */
    uint32_t next;                       /* the next fetch */
    uint32_t waited;                     /* number of fetches that stream 0 knows to be complete */
    uint32_t *given;                     /* [fetches] their signals */
    tn__sort_item *use, *drop;           /* fetches sorted by first use, and by last use */
    uint32_t next_use, next_drop;
} stream_state;

static void stream_add(stream_state *state, tn_instruction it) {
    if (it.stream == 0) state->newest = state->count;
    state->made[state->count++] = it;
}

static uint32_t stream_signal(stream_state *state, uint32_t at) {
    if (state->made[at].signal == 0) state->made[at].signal = ++state->signals;
    return state->made[at].signal;
}

static void stream_fetch(stream_state *state, uint32_t index) {
    const tn__stream *stream = state->stream;
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = TN_FETCH;
    it.tensor = stream->blocks[stream->fetches[index].block].tensor;
    it.stream = state->file;
    if (state->newest != TN_NONE) it.wait = stream_signal(state, state->newest);
    it.signal = state->given[index] = ++state->signals;
    stream_add(state, it);
}

static void stream_drop(stream_state *state, uint32_t index) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = TN_DROP;
    it.tensor = state->stream->blocks[state->stream->fetches[index].block].tensor;
    stream_add(state, it);
}

/* Reads end in order. */
static void stream_wait(stream_state *state, uint32_t index, tn_instruction *it) {
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

static void stream_step(stream_state *state, uint32_t step) {
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

static tn_status stream_open(stream_state *state, tn__arena *arena) {
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

tn_status tn__stream_emit(tn__stream *stream, tn_program **program) {
    stream_state state = {.stream = stream, .newest = TN_NONE};
    uint32_t encoded_count;
    (void)tn_program_encoded(stream->program, &encoded_count);
    if (encoded_count > 0)
        TN_FAIL(stream->error, TN_E_UNSUPPORTED,
                "what keeps tensors encoded is not streamed as well");
    tn__arena scratch;
    tn__arena_init(&scratch, stream->arena.context);
    tn_status status = stream_open(&state, &scratch);
    for (uint32_t s = 0; s < stream->steps && status == TN_OK; s++) stream_step(&state, s);
    if (status == TN_OK)
        status = tn_program_from(tn_program_graph(stream->program), state.made, state.count, NULL,
                                 0, program, stream->error);
    tn__arena_release(&scratch);
    return status;
}
