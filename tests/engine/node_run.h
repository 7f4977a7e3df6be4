/* node_run.h - one model, run once: what node_tests.c asks for. */
#ifndef TESTS_ENGINE_NODE_RUN_H
#define TESTS_ENGINE_NODE_RUN_H

#include <tenure/array.h>

/* outputs  [output_count], data released by the caller with tn_array_release */
tn_status node_run(const char *path, const tn_array *inputs, uint32_t input_count,
                   const tn_array *expected, tn_array *outputs, uint32_t output_count,
                   tn_error *error);

#endif
