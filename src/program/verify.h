/* verify.h - the parts of tn_program_verify. They share the table of opcodes with the rest of the
 * room and no code: what lifetimes, clocks and planners believe is judged by something else. */
#ifndef TN_PROGRAM_VERIFY_H
#define TN_PROGRAM_VERIFY_H

#include "program/program.h"

#define VERIFY_NONE UINT32_MAX

typedef struct verify_state {
    const tn_graph *graph;
    const tn_instruction *instructions;
    const tn_region *regions;
    uint32_t count, region_count, tensor_count;
    tn_error *error;
    tn__arena arena; /* of the call */
} verify_state;

/* "instruction 12 (swap_in), tensor 'x'" into error->where; tensor may be TN_NONE. */
tn_status tn__verify_where(const verify_state *verify, tn_status status, uint32_t step,
                           tn_tensor_id tensor);
#define VERIFY_FAIL(verify, step, tensor, ...)                                                     \
    return tn__verify_where(verify, tn__fail((verify)->error, TN_E_INVALID, __VA_ARGS__), step,    \
                            tensor)

/* verify.c: every field of every instruction, each by itself. */
tn_status tn__verify_fields(const verify_state *verify);

#endif
