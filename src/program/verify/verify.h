/* verify.h - the parts of tn_program_verify.
 *
 * The verifier shares the table of opcodes with the other files of the folder `program`, but no
 * code. So an independent implementation judges the results of lifetimes, clocks and planners.
 */
#ifndef TN_PROGRAM_VERIFY_H
#define TN_PROGRAM_VERIFY_H

#include "program/program.h"

/* a number that stands for no step, region or rank; as a step, it means "before the program
 * starts" */
#define VERIFY_NONE UINT32_MAX

typedef struct verify_state {
    const tn_program *program;
    const tn_graph *graph;
    const tn_instruction *instructions;
    const tn_region *regions;
    uint32_t count, region_count, tensor_count;
    /* this program's rank among several programs; VERIFY_NONE: there is only one program */
    uint32_t rank;
    tn_error *error;
    tn__arena arena; /* memory of arrays that are freed at the end of the check */

    /* verify.c */
    uint32_t *region_at; /* [steps] the innermost region around the step, or VERIFY_NONE */
    /* [regions] the innermost region around the region, or VERIFY_NONE; not set if it is empty */
    uint32_t *around;
    uint32_t *own;   /* [regions] the APPLY of the operator to which the region belongs */
    uint32_t *of_op; /* [operators] first region of the operator, or VERIFY_NONE */
    uint32_t *next;  /* [regions] next region of the same operator, or VERIFY_NONE */
    /* [sorted_count] regions that have instructions, sorted by first step, outer regions before
     * inner ones */
    uint32_t *sorted;
    uint32_t sorted_count;

    /* verify.c */
    uint32_t *index; /* [steps] number of earlier steps on the stream of this step */
    /* [steps][stream_count] for each stream, the number of its steps that are over when this step
     * starts */
    uint32_t **over;
    /* [steps] the step that gives the signal for which this step waits, or VERIFY_NONE */
    uint32_t *waited;
    uint32_t stream_count;
    /* the following field is set by verify_walk.c and read by verify_ranks.c */
    /* [steps] for a GATHER of a tensor of which only one part is on this rank: the number of parts;
     * otherwise 0 */
    uint32_t *brings;
} verify_state;

/* Writes "instruction 12 (swap_in), tensor 'x'" into error->where; tensor may be TN_NONE. */
tn_status tn__verify_where(const verify_state *verify, tn_status status, uint32_t step,
                           tn_tensor_id tensor);
#define VERIFY_FAIL(verify, step, tensor, ...)                                                     \
    return tn__verify_where(verify, tn__fail((verify)->error, TN_E_INVALID, __VA_ARGS__), step,    \
                            tensor)
tn_status tn__verify_no_memory(const verify_state *verify);

/* Starts a check of one program, with an arena from which the check allocates; the caller releases
 * that arena. */
void tn__verify_begin(verify_state *verify, const tn_program *program, uint32_t rank,
                      tn_error *error);
tn_status tn__verify_program(verify_state *verify);
/* verify_walk.c: checks that every tensor exists when it is needed. */
tn_status tn__verify_walk(verify_state *verify);

/* verify_ranks.c: checks that messages and collectives keep their order. */
tn_status tn__verify_messages(verify_state *verify);

/* Whether step `a` is known to be over when step `b` starts. A step counts as over for itself,
 * since it sees its own effects. */
static inline bool tn__verify_is_over(const verify_state *verify, uint32_t a, uint32_t b) {
    if (a == VERIFY_NONE || a == b) return true;
    uint32_t stream = verify->instructions[a].stream;
    if (stream == verify->instructions[b].stream) return verify->index[a] < verify->index[b];
    return verify->over[b][stream] > verify->index[a];
}

#endif
