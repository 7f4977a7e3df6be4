/* joint_parts.h - functions shared by the files of the editable schedule: joint_line.c inserts and
 * removes runs, joint_keys.c manages keys and bytes, joint_ends.c creates, writes and reads a whole
 * line.
 */
#ifndef TN_BUDGET_JOINT_PARTS_H
#define TN_BUDGET_JOINT_PARTS_H

#include "fit/budget/joint_line.h"

#define LINE_WINDOW 4096u /* keys; a larger window means that all keys are renumbered */

static inline int64_t tn__line_bytes(const tn__line *line, uint32_t value) {
    return (int64_t)line->work->values[value].bytes;
}
static inline int64_t tn__line_scratch(const tn__line *line, const tn__line_node *node) {
    return node->job == TN_NONE ? 0 : (int64_t)line->work->jobs[node->job].scratch;
}

/* Whether the first output of a node takes the memory of an input that ends there. */
bool tn__line_moves(const tn__line *line, const tn__line_node *node);
/* Inserts a touch after another one of the same value; TN_NONE: as the first. */
void tn__line_link(tn__line *line, uint32_t touch, uint32_t prev);
/* Inserts a node before another one, without its touches. */
void tn__line_chain(tn__line *line, uint32_t node, uint32_t next);
/* Makes a node with the touches of a job; it is not in the list yet. TN_NONE: out of memory. */
uint32_t tn__line_make_node(tn__line *line, uint32_t job, bool again);
/* Renumbers all keys and recomputes all bytes. The head has the key of the first run, because the
 * values that exist from the start are live then. False: out of memory. */
bool tn__line_number(tn__line *line);
/* The key of a run inserted between two keys. It lies closer to the lower key, because more
 * insertions for the same reason usually follow above it. */
static inline uint32_t tn__line_key_after(uint32_t low, uint32_t high) {
    return low + (high - low + 6) / 8;
}
/* Makes a free key between a node and the one before it. False: out of memory. */
bool tn__line_give_key(tn__line *line, uint32_t before);

#endif
