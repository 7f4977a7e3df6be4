/* setup_again.c - runs the stage RECOMPUTE: applies the rules of the user, and spends a work budget
 * on recomputing tensors, for less memory.
 *
 * Tensors, operators and kernels stay as they are; only the program changes. Static memory is not
 * counted yet, because it is there all the time.
 * Cost: that of tn_program_recompute.
 */
#include "fit/budget/rules.h"
#include "fit/setup/setup.h"

static tn_recompute_options setup_again_options(const tn_setup_options *options) {
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn__options(&again, sizeof again, options->recompute);
    again.struct_size = sizeof again;
    again.rules = options->rules;
    return again;
}

/* A rank whose program is fitted after the division gets its rules there. */
bool tn__setup_recomputes(const tn_setup_options *options) {
    bool later = options->divide != NULL && options->divide->arranges && options->fit != NULL;
    bool shares = options->recompute != NULL && setup_again_options(options).share != 0;
    return shares || (tn__rules_any(options->rules) && !later);
}

tn_status tn__setup_recompute(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn_recompute_options again = setup_again_options(options);
    tn_recompute_report report;
    tn_program *made;
    tn__setup_part *part;
    if (!tn__setup_recomputes(options)) return TN_OK;
    memory.statics = NULL;
    memory.static_count = 0;
    memory.statics_first = false;
    again.memory = &memory;
    if (again.context == NULL) again.context = &setup->context;
    TN_TRY(tn_program_recompute(tn__setup_ordered(setup), &again, &made, &report, error));
    tn_status status = tn__setup_part_make(setup, PART_AGAIN, &part, error);
    if (status != TN_OK) {
        tn_program_destroy(made);
        return status;
    }
    part->program = made;
    part->report = report;
    /* static memory was found for the former program */
    for (int kind = PART_STATICS; kind < PART_COUNT; kind++) tn__setup_part_release(setup, kind);
    return TN_OK;
}
