/* node_run.h - one model, run: what node_tests.c asks for. */
#ifndef TESTS_ENGINE_NODE_RUN_H
#define TESTS_ENGINE_NODE_RUN_H

#include <tenure/graph.h>

#define NODE_INPUTS_MAX 64
#define NODE_OUTPUTS_MAX 64

typedef struct node_options {
    bool plain;   /* without oneDNN */
    bool rewrite; /* tn_graph_rewrite first */
    bool again;   /* run twice, and compare */
} node_options;

/* names    [input_count] of the inputs, as their data give them
 * outputs  [output_count], data released by the caller with tn_array_release */
tn_status node_run(const char *path, const node_options *options, const tn_array *inputs,
                   const char *const *names, uint32_t input_count, tn_array *outputs,
                   uint32_t output_count, tn_error *error);

#endif
