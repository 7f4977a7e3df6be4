/* lower.h - translation from a Program to jobs and values for the passes, and from their schedule
 * back to a Program. */
#ifndef TN_BUDGET_LOWER_H
#define TN_BUDGET_LOWER_H

#include <tenure/costs.h>
#include <tenure/program.h>

#include "fit/budget/work.h"

typedef struct tn__work_map tn__work_map; /* the data that emit.c needs; in the arena */

/* work_read.c: reads the jobs and values of a program, in program order. fixed_bytes is left 0.
 *
 * costs   NULL: the costs of an unmeasured machine (graph/takes.h)
 * memory  alignment and workspaces as for the occupancy; NULL: defaults
 * Errors: E_UNSUPPORTED (the program already contains copies or encoded forms), E_UNKNOWN (a size),
 * E_NO_MEMORY. Cost: O(instructions + operands). */
tn_status tn__work_read(const tn_program *program, const tn_costs *costs,
                        const tn_occupancy_options *memory, tn__arena *arena, tn__work *work,
                        tn__work_map **map, tn_error *error);
/* The value that owns a tensor's memory; TN_NONE: static memory, or a tensor without a value. */
uint32_t tn__work_value_of(const tn__work_map *map, tn_tensor_id tensor);

/* emit.c: writes a schedule that tn__replay_schedule accepts as a program. Errors: E_NO_MEMORY,
 * those of tn_program_from (which would be a mistake of ours). Cost: O(acts + operands). */
tn_status tn__schedule_emit(const tn__work_map *map, const tn__work *work,
                            const tn__schedule *schedule, tn_program **program, tn_error *error);

#endif
