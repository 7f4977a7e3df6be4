/* happens.h - the partial order of the instructions of a program: which instructions are over when
 * another one starts. */
#ifndef TN_PROGRAM_HAPPENS_H
#define TN_PROGRAM_HAPPENS_H

#include "program/program.h"

/* The order as chains: every instruction is one event of one chain. Its clock counts the events
 * of each chain that come before it. */
typedef struct tn__happens {
    const tn_context *context;
    uint32_t count, chain_count;
    uint32_t *chain, *index; /* [count] the chain of each instruction, and its place in the chain */
    uint32_t *width;  /* [count] number of chains when the clock of this instruction was made */
    uint32_t **clock; /* [count][width] the clocks; chains that were opened later count as 0 */
    /* [count] the APPLY that ends the control flow around the instruction, or the instruction
     * itself */
    uint32_t *exit;
    tn__arena arena;
} tn__happens;

typedef enum tn__happens_by {
    /* instructions are ordered only by the data and effects that they have in common, whatever
     * their streams are */
    TN__BY_GRAPH,
    /* the instructions of each stream are ordered, and a wait comes after its signal */
    TN__BY_STREAMS
} tn__happens_by;

/* tn__happens_create returns E_UNSUPPORTED if the clocks need more than `most` numbers of four
 * bytes. Callers that cannot go on without the order pass TN__HAPPENS_MAX. Callers for which the
 * order is optional (a figure of a report) pass a bound that grows with the program: 64 MiB, and 1
 * KiB for each instruction. */
#define TN__HAPPENS_MAX ((size_t)1 << 27)
#define TN__HAPPENS_FREE ((size_t)1 << 24)
#define TN__HAPPENS_EACH 256u
tn_status tn__happens_create(const tn_program *program, tn__happens_by by, size_t most,
                             tn__happens *happens, tn_error *error);
/* frees the memory of an order; a zeroed struct is accepted */
void tn__happens_release(tn__happens *happens);

static inline uint32_t tn__happens_seen(const tn__happens *happens, uint32_t step, uint32_t chain) {
    return chain < happens->width[step] ? happens->clock[step][chain] : 0;
}
/* Whether `a` is known to be over when `b` starts. */
static inline bool tn__happens_before(const tn__happens *happens, uint32_t a, uint32_t b) {
    return tn__happens_seen(happens, b, happens->chain[a]) > happens->index[a];
}

#endif
