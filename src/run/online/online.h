/* online.h - the internals of a run within a budget that is met while it runs.
 *
 * Decision. The first iteration runs in passive mode: the engine allocates from a pool and evicts
 * buffers when the pool is full (engine/on_demand.h). It measures the time of each operator. With
 * these times as costs, the pass "capuchin" makes a program with swaps and recomputed operators,
 * which later iterations run (guided). The trace of each guided iteration gives feedback: a copy
 * back that ends after its reader began to wait is late. The next program differs from the one
 * before only in the positions of late copies back. It is verified as every program, it is planned,
 * and it is used only if its layout is within the budget.
 *
 *   online.c    iterations: passive, measured, guided; static memory from engine to engine
 *   triggers.c  in-triggers: late copies back in a trace, and earlier places for them
 */
#ifndef TN_RUN_ONLINE_H
#define TN_RUN_ONLINE_H

#include <tenure/online.h>

#include "base/base.h"

typedef struct tn__trigger { /* a copy back of the running program */
    uint32_t arrival; /* signal that the copy gives when it has ended; it identifies the copy */
    /* in the last iteration: the time from the beginning of the reader's wait to the end of the
     * copy, and the time of the copy */
    double late_s, copy_s;
    bool late, blocked; /* late: in the last iteration; blocked: the copy cannot begin earlier */
} tn__trigger;

typedef struct tn__timed { /* an instruction, with the time when it ran */
    tn_instruction it;
    double start_s, end_s;
} tn__timed;

typedef struct tn__triggers {
    const tn_context *context;
    /* [count] instructions of the running program, with their times in the last iteration */
    tn__timed *list;
    /* [count] the same instructions, with late copies back moved to an earlier position */
    tn__timed *next;
    uint32_t count;
    tn__trigger *all; /* [trigger_count] the copies back */
    uint32_t trigger_count;
} tn__triggers;

/* Lists the copies back of a program. Errors: E_NO_MEMORY. */
tn_status tn__triggers_make(tn__triggers *triggers, const tn_program *program,
                            const tn_context *context, tn_error *error);
/* Frees the lists of `triggers`; an object of zeros is accepted. */
void tn__triggers_release(tn__triggers *triggers);

/* Reads the times of all instructions from the trace of an iteration, and finds the copies back
 * that were late. Returns their number. */
uint32_t tn__triggers_read(tn__triggers *triggers, const tn_trace *trace);

/* Moves a late copy back to an earlier position in `next`. Returns false if it is blocked.
 * from  out: the instruction on stream 0 after which the copy began before the move
 * to    out: the instruction on stream 0 after which it begins now */
bool tn__triggers_move(tn__triggers *triggers, tn__trigger *trigger, uint32_t *from, uint32_t *to);

/* tn__triggers_begin copies the running program to `next`; tn__triggers_take makes `next` the
 * running program. */
void tn__triggers_begin(tn__triggers *triggers);
void tn__triggers_take(tn__triggers *triggers);
/* Makes a program of the instructions in `next`. Errors: those of tn_program_from. */
tn_status tn__triggers_program(const tn__triggers *triggers, const tn_graph *graph,
                               tn_program **program, tn_error *error);

#endif
