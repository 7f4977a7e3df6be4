/* online.h - the internals of a run within a budget that is met while it runs.
 *
 * Decision. Two mechanisms that exist are joined, and neither was changed: the walk of the engine
 * with a pool (passive mode, engine/on_demand.h), and a program with swaps and repeats that the
 * pass "capuchin" makes of costs. What is new is the way between them. The costs are the times that
 * the first iteration measured, and the feedback does not come from a simulation, but from the
 * trace of the iteration that just ran: a copy back that ends after its reader began to wait is
 * late. A later program differs from the one before only in the places of late copies back. It is
 * verified as every program, it is planned, and it is used only if its layout is within the budget.
 *
 *   online.c    iterations: passive, measured, guided; static memory from engine to engine
 *   triggers.c  in-triggers: late copies back in a trace, and earlier places for them
 */
#ifndef TN_RUN_ONLINE_H
#define TN_RUN_ONLINE_H

#include <tenure/online.h>

#include "base/base.h"

typedef struct tn__trigger { /* a copy back of the running program */
    uint32_t arrival;        /* the signal of its end, which identifies it */
    double late_s, copy_s;   /* of the last iteration: from the back-access to its end; its time */
    bool late, blocked;      /* blocked: it cannot begin earlier */
} tn__trigger;

typedef struct tn__timed { /* an instruction, and when it ran */
    tn_instruction it;
    double start_s, end_s;
} tn__timed;

typedef struct tn__triggers {
    const tn_context *context;
    tn__timed *list; /* [count] the running program, with the times of the last iteration */
    tn__timed *next; /* [count] the same with earlier triggers */
    uint32_t count;
    tn__trigger *all; /* [trigger_count] */
    uint32_t trigger_count;
} tn__triggers;

/* Lists the copies back of a program. Errors: E_NO_MEMORY. */
tn_status tn__triggers_make(tn__triggers *triggers, const tn_program *program,
                            const tn_context *context, tn_error *error);
void tn__triggers_release(tn__triggers *triggers); /* accepts zeros */

/* Reads the trace of an iteration: times of all instructions, and which copies back were late.
 * Returns the number of late ones. */
uint32_t tn__triggers_read(tn__triggers *triggers, const tn_trace *trace);

/* Moves a late copy back in `next`. False: it is blocked.
 * from, to  out: the instructions on stream 0 after which it begins, before and now */
bool tn__triggers_move(tn__triggers *triggers, tn__trigger *trigger, uint32_t *from, uint32_t *to);

/* `next` begins as the running program; `take` makes it the running one. */
void tn__triggers_begin(tn__triggers *triggers);
void tn__triggers_take(tn__triggers *triggers);
/* Makes a program of `next`. Errors: those of tn_program_from. */
tn_status tn__triggers_program(const tn__triggers *triggers, const tn_graph *graph,
                               tn_program **program, tn_error *error);

#endif
