/* lower.h - from a Program to what passes see, and from what they decide to a Program. */
#ifndef TN_BUDGET_LOWER_H
#define TN_BUDGET_LOWER_H

#include <tenure/costs.h>
#include <tenure/program.h>

#include "budget/work.h"

typedef struct tn__work_map tn__work_map; /* what emit needs; in the arena */

/* work_read.c: jobs and values of a program, whose order they keep. fixed_bytes is left 0.
 *
 * costs   NULL: of a machine that nobody has measured (graph/takes.h)
 * memory  alignment and workspaces as the occupancy takes them; NULL: defaults
 * Errors: E_UNSUPPORTED (a program of a pass: copies, encoded forms), E_UNKNOWN (a size),
 * E_NO_MEMORY. Cost: O(instructions + operands). */
tn_status tn__work_read(const tn_program *program, const tn_costs *costs,
                        const tn_occupancy_options *memory, tn__arena *arena, tn__work *work,
                        tn__work_map **map, tn_error *error);
/* The value that a tensor's memory belongs to; TN_NONE: static, or nobody's. */
uint32_t tn__work_value_of(const tn__work_map *map, tn_tensor_id tensor);

/* emit.c: a schedule that tn__replay_schedule accepts, as a program. Errors: E_NO_MEMORY, those of
 * tn_program_from (a mistake of ours). Cost: O(acts + operands). */
tn_status tn__schedule_emit(const tn__work_map *map, const tn__work *work,
                            const tn__schedule *schedule, tn_program **program, tn_error *error);

#endif
