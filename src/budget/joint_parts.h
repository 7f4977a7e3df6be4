/* joint_parts.h - what the parts of a line share: joint_line.c puts runs in and takes them out,
 * joint_keys.c knows where bytes are, joint_ends.c makes, writes and reads the whole.
 */
#ifndef TN_BUDGET_JOINT_PARTS_H
#define TN_BUDGET_JOINT_PARTS_H

#include "budget/joint_line.h"

#define LINE_WINDOW 4096u /* keys; beyond that all are given anew */

static inline int64_t tn__line_bytes(const tn__line *line, uint32_t value) {
    return (int64_t)line->work->values[value].bytes;
}
static inline int64_t tn__line_scratch(const tn__line *line, const tn__line_node *node) {
    return node->job == TN_NONE ? 0 : (int64_t)line->work->jobs[node->job].scratch;
}

/* Whether the first output of a node takes the memory of an input that ends there. */
bool tn__line_moves(const tn__line *line, const tn__line_node *node);
/* A touch behind another one of its value; TN_NONE: as the first. */
void tn__line_link(tn__line *line, uint32_t touch, uint32_t prev);
/* A node before another one, without what it touches. */
void tn__line_chain(tn__line *line, uint32_t node, uint32_t next);
/* A node with the touches of a job, not in the list yet. TN_NONE: out of memory. */
uint32_t tn__line_make_node(tn__line *line, uint32_t job, bool again);
/* All keys and bytes anew. The head has the key of the first run: what is there from the start is
 * there then. False: out of memory. */
bool tn__line_number(tn__line *line);
/* The key of a run that is put in between two: more of what it was put in for follow. */
static inline uint32_t tn__line_key_after(uint32_t low, uint32_t high) {
    return low + (high - low + 6) / 8;
}
/* A free key between a node and the one before it. False: out of memory. */
bool tn__line_give_key(tn__line *line, uint32_t before);

#endif
