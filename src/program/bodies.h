/* bodies.h - bodies (buffers) while lives (live ranges) join them: shared by bodies.c and
 * fuse.c. */
#ifndef TN_PROGRAM_BODIES_H
#define TN_PROGRAM_BODIES_H

#include "program/occupancy.h"

typedef struct groups_state {
    occ_state *occ;
    uint32_t *next;     /* [lives] next member of the body, OCC_NONE at the end */
    uint32_t *head;     /* [lives] by root: newest member that may still live */
    uint32_t *begin;    /* [lives] by root: first step of the body */
    uint64_t *base;     /* [lives] by root: address of the body that claims imply, or
                         * SIZE_UNKNOWN */
    uint32_t *all;      /* [lives] by root: list of all members, including dead ones */
    uint32_t *all_next; /* [lives] */
    uint32_t *size;     /* [lives] by root: members */
    uint32_t *changed;  /* [lives] last step at which an operator writes into a source of this
                         * alias; 0: never */
} groups_state;

/* The life of a tensor that is read at a step; OCC_NONE: static. */
uint32_t tn__groups_life_at(const occ_state *occ, tn_tensor_id tensor, uint32_t step);
/* The address that claims give a life; TN_SIZE_UNKNOWN: no claim. */
uint64_t tn__groups_claim(const occ_state *occ, const occ_life *life);

/* Whether all uses of a life are known to be over at a step, when streams have clocks. */
bool tn__groups_is_over(const occ_state *occ, const occ_life *life, uint32_t step);

/* fuse.c: fills `changed`. Then it places the inputs of a concatenation or a bucket inside the
 * output, which has just opened a body. */
void tn__groups_watch(groups_state *groups);
void tn__groups_fuse(groups_state *groups, uint32_t id);

#endif
