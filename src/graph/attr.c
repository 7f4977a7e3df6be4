/* attr.c - reads the attributes of an operator. */
#include "graph/attr.h"

#include <string.h>

const tn_attr *tn__attr(const tn_op *op, const char *name) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (strcmp(op->attrs[i].name, name) == 0) return &op->attrs[i];
    return NULL;
}

int64_t tn__attr_int(const tn_op *op, const char *name, int64_t otherwise) {
    const tn_attr *attr = tn__attr(op, name);
    return attr != NULL && attr->type == TN_ATTR_INT && attr->ints != NULL ? attr->ints[0]
                                                                           : otherwise;
}

double tn__attr_float(const tn_op *op, const char *name, double otherwise) {
    const tn_attr *attr = tn__attr(op, name);
    return attr != NULL && attr->type == TN_ATTR_FLOAT && attr->floats != NULL ? attr->floats[0]
                                                                               : otherwise;
}

const char *tn__attr_string(const tn_op *op, const char *name, const char *otherwise) {
    const tn_attr *attr = tn__attr(op, name);
    return attr != NULL && attr->type == TN_ATTR_STRING && attr->strings != NULL ? attr->strings[0]
                                                                                 : otherwise;
}

const int64_t *tn__attr_ints(const tn_op *op, const char *name, uint32_t *count) {
    static const int64_t nothing = 0;
    const tn_attr *attr = tn__attr(op, name);
    *count = 0;
    if (attr == NULL || (attr->type != TN_ATTR_INTS && attr->type != TN_ATTR_INT)) return NULL;
    if (attr->ints == NULL) return &nothing;
    *count = attr->count;
    return attr->ints;
}

const double *tn__attr_floats(const tn_op *op, const char *name, uint32_t *count) {
    static const double nothing = 0;
    const tn_attr *attr = tn__attr(op, name);
    *count = 0;
    if (attr == NULL || (attr->type != TN_ATTR_FLOATS && attr->type != TN_ATTR_FLOAT)) return NULL;
    if (attr->floats == NULL) return &nothing;
    *count = attr->count;
    return attr->floats;
}

bool tn__op_has_blocks(const tn_op *op) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_BLOCK) return true;
    return false;
}

tn__attr_ranks tn__attr_of_ranks(const tn_op *op, const char *name) {
    static const char *const may[] = {"part", "from", "starts", "ends"};
    static const char *const own[] = {"first", "places", "rank"};
    if (strcmp(name, "seed") == 0) return TN__ATTR_MAY;
    if (op->domain == NULL || strcmp(op->domain, "tenure") != 0) return TN__ATTR_SAME;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return TN__ATTR_OF_RANK;
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        if (strcmp(name, may[i]) == 0) return TN__ATTR_MAY;
    return TN__ATTR_SAME;
}
