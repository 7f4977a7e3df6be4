/* made_up.h - an engine of a set-up with its own input and output arrays, for runs whose results
 * are not read: measuring the times of operators, counting their zeros. */
#ifndef TN_ENGINE_MADE_UP_H
#define TN_ENGINE_MADE_UP_H

#include <tenure/setup.h>

#include "base/base.h"

typedef struct tn__made_up {
    tn_context context;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    tn__arena arena;
} tn__made_up;

/* Input numbers are between -1 and 1, indices are 0. The caller closes `it` after success and after
 * failure.
 * Errors: E_UNKNOWN (a size is not known), E_NO_MEMORY, those of tn_setup_open.
 */
tn_status tn__made_up_open(tn__made_up *it, const tn_setup *setup, const tn_engine_options *options,
                           tn_error *error);
/* One run. Errors: those of tn_engine_run. */
tn_status tn__made_up_run(tn__made_up *it, tn_error *error);
void tn__made_up_close(tn__made_up *it);

#endif
