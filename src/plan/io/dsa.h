/* dsa.h - problems and solutions of the formats dsa-problem-v1 and dsa-solution-v1. */
#ifndef TN_PLAN_IO_DSA_H
#define TN_PLAN_IO_DSA_H

#include "base/json.h"
#include "base/table.h"
#include "plan/io/io.h"

/* Reads a problem from a parsed file. May change `root`. */
tn_status tn__dsa_read(tn__reading *reading, json_t *root);
/* Reads the placements of a solution for `problem`; see tn_layout_load. `name` is that of the
 * file. */
tn_status tn__dsa_solution_read(const tn_problem *problem, const char *name, const json_t *root,
                                uint64_t *offsets, tn_bank_id *banks, tn_error *error);

/* Returns the fingerprint that dsa-solver gives to a problem file: the hash FNV-1a of the file in
 * canonical form. May change `root`. Returns false if memory is exhausted. */
bool tn__dsa_fingerprint(json_t *root, uint64_t *fingerprint);

/* Numbers of the items of a list, found by their ids. */
typedef struct tn__dsa_ids {
    const int64_t *ids; /* id of each item */
    tn__table table;
} tn__dsa_ids;
/* Returns the number of the item with this id; UINT32_MAX if no item has it. */
uint32_t tn__dsa_find(const tn__dsa_ids *ids, int64_t id);
/* Adds item `number`, which has the id ids->ids[number] and for which memory is reserved. Returns
 * false if an earlier item has the same id. */
bool tn__dsa_add(tn__dsa_ids *ids, uint32_t number);

/* Reads an integer of an object that must be at least `least`. */
bool tn__dsa_integer(const json_t *object, const char *member, int64_t least, int64_t *value);
/* Returns a member of an object that is not one of `known`, names that end with a blank each; NULL
 * if all are known. With `empty`, unknown members that are null or empty are passed over. */
const char *tn__dsa_unknown(const json_t *object, const char *known, bool empty);

#endif
