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

/* A stage of a pipeline gets its rules after the division, because the division takes only programs
 * without changes. */
static bool setup_again_is_later(const tn_setup_options *options) {
    return options->divide != NULL && options->divide->arranges && tn__rules_any(options->rules);
}

bool tn__setup_recomputes(const tn_setup_options *options) {
    bool shares = options->recompute != NULL && setup_again_options(options).share != 0;
    return shares || (tn__rules_any(options->rules) && !setup_again_is_later(options));
}

static tn_status setup_again_make(const tn_setup *setup, const tn_setup_options *options,
                                  const tn_program *from, tn_program **made,
                                  tn_recompute_report *report, tn_error *error) {
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn_recompute_options again = setup_again_options(options);
    memory.statics = NULL;
    memory.static_count = 0;
    memory.statics_first = false;
    again.memory = &memory;
    if (again.context == NULL) again.context = &setup->context;
    return tn_program_recompute(from, &again, made, report, error);
}

tn_status tn__setup_rule_divided(const tn_setup *setup, const tn_setup_options *options,
                                 const tn_program *divided, tn_program **ruled, tn_error *error) {
    tn_recompute_report report;
    *ruled = NULL;
    if (!setup_again_is_later(options)) return TN_OK;
    return setup_again_make(setup, options, divided, ruled, &report, error);
}

tn_status tn__setup_recompute(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    const bool later = setup_again_is_later(options);
    tn_recompute_report report;
    tn_program *made;
    tn__setup_part *part;
    if (!tn__setup_recomputes(options) && !later) return TN_OK;
    TN_TRY(setup_again_make(setup, options, tn__setup_ordered(setup), &made, &report, error));
    if (!tn__setup_recomputes(options)) { /* only checked: one stage has not all operators */
        tn_program_destroy(made);
        return TN_OK;
    }
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
