/* made_up.h - an engine of a set-up with arrays for what goes in and comes out, for runs whose
 * results nobody reads: what operators take, how many zeros they make. */
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

/* Numbers that go in are between -1 and 1, indices 0. `it` is closed whatever comes of it.
 * Errors: E_UNKNOWN (a size that is not known), E_NO_MEMORY, those of tn_setup_open. */
tn_status tn__made_up_open(tn__made_up *it, const tn_setup *setup, const tn_engine_options *options,
                           tn_error *error);
/* One run. Errors: those of tn_engine_run. */
tn_status tn__made_up_run(tn__made_up *it, tn_error *error);
void tn__made_up_close(tn__made_up *it);

#endif
