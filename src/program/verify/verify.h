/* verify.h - the parts of tn_program_verify.
 *
 * The verifier shares the table of opcodes with the rest of the folder, but no code. So an
 * independent implementation judges the results of lifetimes, clocks and planners.
 */
#ifndef TN_PROGRAM_VERIFY_H
#define TN_PROGRAM_VERIFY_H

#include "program/program.h"

#define VERIFY_NONE UINT32_MAX /* where a step is expected: before the program starts */

typedef struct verify_state {
    const tn_program *program;
    const tn_graph *graph;
    const tn_instruction *instructions;
    const tn_region *regions;
    uint32_t count, region_count, tensor_count;
    uint32_t rank; /* of several programs; VERIFY_NONE: a single program */
    tn_error *error;
    tn__arena arena; /* freed at the end of the call */

    /* verify.c */
    uint32_t *region_at; /* [steps] the innermost region around the step, or VERIFY_NONE */
    uint32_t *around;    /* [regions] the region around it */
    uint32_t *own;       /* [regions] the APPLY of its operator */
    uint32_t *of_op;     /* [operators] its first region */
    uint32_t *next;      /* [regions] the next one of the operator */
    uint32_t *sorted; /* [sorted_count] regions with instructions, by first, outer before inner */
    uint32_t sorted_count;

    /* verify.c */
    uint32_t *index;  /* [steps] number of earlier steps of its stream */
    uint32_t **over;  /* [steps][stream_count] number of steps of each stream that are over when
                       * it starts */
    uint32_t *waited; /* [steps] the step that gives the signal it waits for, or VERIFY_NONE */
    uint32_t stream_count;
    /* verify_walk.c */
    uint32_t *brings; /* [steps] the number of parts that it gathers, when only one part is on
                       * this rank; otherwise 0 */
} verify_state;

/* Writes "instruction 12 (swap_in), tensor 'x'" into error->where; tensor may be TN_NONE. */
tn_status tn__verify_where(const verify_state *verify, tn_status status, uint32_t step,
                           tn_tensor_id tensor);
#define VERIFY_FAIL(verify, step, tensor, ...)                                                     \
    return tn__verify_where(verify, tn__fail((verify)->error, TN_E_INVALID, __VA_ARGS__), step,    \
                            tensor)
tn_status tn__verify_no_memory(const verify_state *verify);

/* Allocates from an arena; the caller of this function releases it. */
void tn__verify_begin(verify_state *verify, const tn_program *program, uint32_t rank,
                      tn_error *error);
tn_status tn__verify_program(verify_state *verify);
/* verify_walk.c: every tensor exists when it is needed. */
tn_status tn__verify_walk(verify_state *verify);

/* verify_ranks.c: messages and collectives keep their order. */
tn_status tn__verify_messages(verify_state *verify);

/* Whether `a` is known to be over when `b` starts. An instruction sees its own effects. */
static inline bool tn__verify_is_over(const verify_state *verify, uint32_t a, uint32_t b) {
    if (a == VERIFY_NONE || a == b) return true;
    uint32_t stream = verify->instructions[a].stream;
    if (stream == verify->instructions[b].stream) return verify->index[a] < verify->index[b];
    return verify->over[b][stream] > verify->index[a];
}

#endif
