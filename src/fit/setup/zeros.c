/* zeros.c - runs a compiled model once, and counts the share of zeros in each tensor.
 *
 * The engine counts (src/engine/forms.c). Cost: one run.
 */
#include "fit/setup/made_up.h"

#include <tenure/measure.h>

static tn_status zeros_run(tn__made_up *run, const tn_array *inputs, uint32_t input_count,
                           tn_error *error) {
    if (inputs == NULL) return tn__made_up_run(run, error);
    return tn_engine_run(run->engine, inputs, input_count, run->outputs, run->output_count, error);
}

tn_status tn_setup_zeros(const tn_setup *setup, const tn_engine_options *engine,
                         const tn_array *inputs, uint32_t input_count, float *zeros,
                         tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn__made_up run;
    tn__options(&options, sizeof options, engine);
    options.struct_size = sizeof options;
    options.zeros = zeros;
    tn_status status = tn__made_up_open(&run, setup, &options, error);
    if (status == TN_OK) status = zeros_run(&run, inputs, input_count, error);
    tn__made_up_close(&run);
    return status;
}
