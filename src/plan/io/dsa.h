/* dsa.h - problems of the format dsa-problem-v1, which json.c parses. */
#ifndef TN_PLAN_IO_DSA_H
#define TN_PLAN_IO_DSA_H

#include "base/json.h"
#include "plan/io/io.h"

tn_status tn__dsa_read(tn__reading *reading, const json_t *root);

#endif
