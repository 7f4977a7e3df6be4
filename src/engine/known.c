/* known.c - tracks which steps each stream knows to be finished, from the program's signals alone.
 *
 * Every stream has a row with one entry per other stream: how far that stream is known to have
 * come. A signal carries the row of its giver to the stream that waits for it. A blocking
 * instruction passes its row on to the next one of its kind. Only poison uses these rows, so they
 * share nothing with the clocks that made the plan (program/happens.h) and check them
 * independently.
 *
 * Cost: O(streams) per step.
 * Source: vector clocks: Fidge 1988, Mattern 1989.
 */
#include "engine/streams.h"

typedef struct tn__known {
    const tn_instruction *instructions;
    uint32_t width; /* streams */
    uint32_t at;    /* current step of the walk */
    /* [width][width] the first stream knows that the second has finished all steps below this */
    uint32_t *row;
    uint32_t *given;  /* [signals][width] */
    uint32_t *called; /* [TN_OPCODE_COUNT][width] */
    /* [steps] row of `given` that the step gives; TN_NONE: it gives no signal */
    uint32_t *given_at;
    /* [steps] the step that gives the signal that this one waits for; TN_NONE: it waits for no
     * signal */
    const uint32_t *giver;
    size_t given_count;
} tn__known;

tn_status tn__known_make(tn__streams *streams, const uint32_t *giver, tn__arena *arena) {
    uint32_t steps = tn_program_count(streams->program);
    tn__known *known = tn__arena_alloc(arena, sizeof *known);
    if (known == NULL) return tn__no_memory(streams->executor->error, "what is known to be over");
    known->instructions = tn_program_instructions(streams->program);
    known->given_at = tn__arena_array(arena, steps, sizeof *known->given_at);
    if (known->given_at == NULL)
        return tn__no_memory(streams->executor->error, "what is known to be over");
    for (uint32_t s = 0; s < steps; s++) {
        const tn_instruction *it = &known->instructions[s];
        if (it->stream >= known->width) known->width = it->stream + 1;
        known->given_at[s] = it->signal != 0 ? (uint32_t)known->given_count++ : TN_NONE;
    }
    size_t width = known->width;
    known->giver = giver;
    known->row = tn__arena_array(arena, width * width, sizeof *known->row);
    known->called = tn__arena_array(arena, TN_OPCODE_COUNT * width, sizeof *known->called);
    known->given = tn__arena_array(arena, known->given_count * width, sizeof *known->given);
    if (known->row == NULL || known->called == NULL || known->given == NULL)
        return tn__no_memory(streams->executor->error, "what is known to be over");
    streams->known = known;
    return TN_OK;
}

void tn__known_start(tn__streams *streams) {
    tn__known *known = streams->known;
    if (known == NULL) return;
    size_t width = known->width;
    memset(known->row, 0, width * width * sizeof *known->row);
    memset(known->called, 0, TN_OPCODE_COUNT * width * sizeof *known->called);
    known->at = TN_NONE;
}

static void known_merge(uint32_t *into, const uint32_t *from, uint32_t width) {
    for (uint32_t s = 0; s < width; s++)
        if (from[s] > into[s]) into[s] = from[s];
}

/* The walk leaves its step: the step's own stream knows that, and so do the streams that it
 * signals. */
static void known_leave(tn__known *known) {
    const tn_instruction *it = &known->instructions[known->at];
    uint32_t *row = known->row + (size_t)it->stream * known->width;
    row[it->stream] = known->at + 1;
    if (known->given_at[known->at] != TN_NONE)
        memcpy(known->given + (size_t)known->given_at[known->at] * known->width, row,
               known->width * sizeof *row);
    if (tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_CALLER)
        known_merge(known->called + (size_t)it->opcode * known->width, row, known->width);
}

void tn__known_arrive(tn__streams *streams, uint32_t step) {
    tn__known *known = streams->known;
    if (known == NULL) return;
    if (known->at != TN_NONE) known_leave(known);
    known->at = step;
    const tn_instruction *it = &known->instructions[step];
    uint32_t *row = known->row + (size_t)it->stream * known->width;
    if (known->giver[step] != TN_NONE)
        known_merge(row, known->given + (size_t)known->given_at[known->giver[step]] * known->width,
                    known->width);
    if (tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_CALLER)
        known_merge(row, known->called + (size_t)it->opcode * known->width, known->width);
}

bool tn__known_over(const tn__streams *streams, uint32_t item) {
    const tn__known *known = streams->known;
    const tn__item *of = &streams->items[item];
    uint32_t stream = known->instructions[known->at].stream;
    return known->row[(size_t)stream * known->width + of->stream] > of->step;
}
