/* setup_fit.c - the stages RECOMPUTE and FIT, which change only the program. RECOMPUTE applies
 * rules and recomputes within a work budget; FIT calls tn_fit if the plan exceeds the budget.
 *
 * The budget is for all memory on the device. Costs are requested only if the plan exceeds it,
 * because measuring takes time. The stage FIT starts from the program of the stage ORDER, with the
 * existing kernels. Tensors and operators keep their ids, so later stages do not depend on this
 * stage. If the stage RECOMPUTE has recomputed operators, FIT chooses them again, together with
 * other techniques.
 *
 * Cost: that of a plan; if the plan exceeds the budget, that of tn_costs_measure and tn_fit.
 */
#include <tenure/engine.h>

#include "fit/budget/rules.h"
#include "fit/budget/search/seek.h"
#include "fit/setup/setup.h"

/* --- stage RECOMPUTE -------------------------------------------------------------------------- */

/* Runs the stage RECOMPUTE: applies the rules of the user, and recomputes tensors within a work
 * budget to save memory.
 *
 * Tensors, operators and kernels do not change, only the program does. Static memory is not counted
 * yet, because it is occupied all the time. Cost: that of tn_program_recompute.
 */

static tn_recompute_options setup_recompute_options(const tn_setup_options *options) {
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn__options(&again, sizeof again, options->recompute);
    again.struct_size = sizeof again;
    again.rules = options->rules;
    return again;
}

/* Whether the rules are applied only after the program is divided. This is so for a stage of a
 * pipeline, because only programs without changes can be divided. */
static bool setup_recompute_is_later(const tn_setup_options *options) {
    return options->divide != NULL && options->divide->arranges && tn__rules_any(options->rules);
}

bool tn__setup_recomputes(const tn_setup_options *options) {
    bool shares = options->recompute != NULL && setup_recompute_options(options).share != 0;
    return shares || (tn__rules_any(options->rules) && !setup_recompute_is_later(options));
}

static tn_status setup_recompute_make(const tn_setup *setup, const tn_setup_options *options,
                                      const tn_program *from, tn_program **made,
                                      tn_recompute_report *report, tn_error *error) {
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn_recompute_options again = setup_recompute_options(options);
    memory.statics = NULL;
    memory.static_count = 0;
    memory.statics_first = false;
    again.memory = &memory;
    if (again.context == NULL) again.context = &setup->context;
    return tn_program_recompute(from, &again, made, report, error);
}

/* Applies the rules to the program of a stage of a pipeline. *ruled is NULL if there are no
 * rules. */
static tn_status setup_rule_divided(const tn_setup *setup, const tn_setup_options *options,
                                    const tn_program *divided, tn_program **ruled,
                                    tn_error *error) {
    tn_recompute_report report;
    *ruled = NULL;
    if (!setup_recompute_is_later(options)) return TN_OK;
    return setup_recompute_make(setup, options, divided, ruled, &report, error);
}

tn_status tn__setup_recompute(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    const bool later = setup_recompute_is_later(options);
    tn_recompute_report report;
    tn_program *made;
    tn__setup_part *part;
    if (!tn__setup_recomputes(options) && !later) return TN_OK;
    TN_TRY(setup_recompute_make(setup, options, tn__setup_ordered(setup), &made, &report, error));
    /* this stage recomputes nothing: the rules were applied only to check them, because a pipeline
     * stage, which does not have all operators, gets them after the division */
    if (!tn__setup_recomputes(options)) {
        tn_program_destroy(made);
        return TN_OK;
    }
    tn_status status = tn__setup_part_make(setup, PART_RECOMPUTED, &part, error);
    if (status != TN_OK) {
        tn_program_destroy(made);
        return status;
    }
    part->program = made;
    part->report = report;
    /* parts of later stages refer to the old program, so they are released */
    for (int kind = PART_STATICS; kind < PART_COUNT; kind++) tn__setup_part_release(setup, kind);
    return TN_OK;
}

/* --- stage FIT -------------------------------------------------------------------------------- */

tn_status tn__setup_measure(const tn_setup *setup, const tn_setup_options *options, double seconds,
                            tn_costs **made, tn_error *error) {
    tn_measure_options measure = TN_MEASURE_OPTIONS_INIT;
    /* costs are computed from default rates, because nothing is measured here */
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    measure.context = model.context = &setup->context;
    if (tn_setup_kernels(setup) == NULL || options->divide != NULL)
        return tn_costs_create_model(tn_setup_graph(setup), &model, made, error);
    measure.seconds = seconds;
    measure.occupancy = tn_setup_occupancy(setup);
    measure.setup = setup;
    if (options->stream != NULL) measure.bytes = options->stream->budget;
    return tn_costs_measure(tn_setup_kernels(setup), &measure, made, NULL, error);
}

tn_status tn__setup_costs(const tn_setup *setup, const tn_setup_options *options, tn_costs **made,
                          tn_error *error) {
    *made = NULL;
    if (options->costs != NULL) return TN_OK;
    if (options->make_costs != NULL)
        return options->make_costs(options->make_costs_self, setup, made, error);
    return tn__setup_measure(setup, options, TN__MEASURE_S, made, error);
}

static tn_fit_options setup_fit_options(const tn_setup *setup, const tn_setup_options *options) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    tn__options(&fit, sizeof fit, options->fit);
    fit.struct_size = sizeof fit;
    if (fit.context == NULL) fit.context = &setup->context;
    fit.fixed_bytes = tn__setup_fixed(setup);
    if (options->rules != NULL) fit.rules = options->rules;
    return fit;
}

/* Returns the layout of the compiled model if it is a layout of this program; otherwise NULL. */
static const tn_layout *setup_fit_laid(const tn_setup *setup, const tn_program *program) {
    return program == tn_setup_program(setup) ? tn_setup_layout(setup) : NULL;
}

static uint64_t setup_fit_budget(const tn_setup_options *options) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    tn__options(&fit, sizeof fit, options->fit);
    return fit.budget;
}

/* Moves a result into a compiled model. It replaces the program, and the parts of all later
 * stages. */
static tn_status setup_fit_take(tn_setup *setup, const tn_setup_options *options, int kind,
                                tn_fit_result *result, tn_error *error) {
    tn__setup_part *fit, *occupancy, *layout;
    bool inside = options->statics != TN_STATIC_APART;
    for (int old = inside ? PART_OCCUPANCY : PART_STATICS; old < PART_COUNT; old++)
        /* parts of later stages belong to the old program, so they are released */
        tn__setup_part_release(setup, old);
    tn__setup_part_release(setup, kind);
    tn_status status = tn__setup_part_make(setup, kind, &fit, error);
    if (status != TN_OK) {
        tn_fit_release(result);
        return status;
    }
    fit->fitted = *result;
    TN_TRY(tn__setup_part_make(setup, PART_OCCUPANCY, &occupancy, error));
    occupancy->occupancy = fit->fitted.occupancy;
    fit->fitted.occupancy = NULL;
    TN_TRY(tn__setup_part_make(setup, PART_LAYOUT, &layout, error));
    layout->layout = fit->fitted.layout;
    fit->fitted.layout = (tn_layout){0};
    return TN_OK;
}

tn_status tn__setup_search(const tn_setup *setup, const tn_setup_options *options,
                           const tn_program *program, const tn_costs *costs, tn_fit_result *result,
                           tn__refusal *refusal, tn_error *error) {
    tn_fit_options fit = setup_fit_options(setup, options);
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn_plan_options plan = tn__setup_plan_options(setup, options);
    fit.memory = &memory;
    fit.plan = &plan;
    return tn__fit_seek(program, setup_fit_laid(setup, program), costs, &fit, result, refusal,
                        error);
}

tn_status tn__setup_sweep(const tn_setup *setup, const tn_setup_options *options,
                          const tn_costs *costs, uint32_t count, uint64_t *budgets,
                          tn_fit_result *results, tn_error *error) {
    tn_fit_options fit = setup_fit_options(setup, options);
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn_plan_options plan = tn__setup_plan_options(setup, options);
    fit.memory = &memory;
    fit.plan = &plan;
    const tn_program *program = tn__setup_ordered(setup);
    return tn__fit_sweep(program, setup_fit_laid(setup, program), costs, &fit, count, budgets,
                         results, error);
}

static tn_status setup_fit_run(tn_setup *setup, const tn_setup_options *options, int kind,
                               const tn_costs *costs, tn_error *error) {
    tn_fit_result result = {0};
    tn__refusal refusal;
    tn_status status = tn__setup_search(
        setup, options, kind == PART_DIVIDED ? tn_setup_program(setup) : tn__setup_ordered(setup),
        costs, &result, &refusal, error);
    if (status != TN_OK) {
        tn_fit_release(&result);
        return tn__refusal_fail(&refusal, status, error);
    }
    return setup_fit_take(setup, options, kind, &result, error);
}

tn_status tn__setup_fitted_from(const tn_setup *base, const tn_setup_options *options,
                                tn_fit_result *result, tn_setup **setup, tn_error *error) {
    tn_setup *made;
    tn_status status = tn__setup_share(base, PART_COUNT, &made, error);
    if (status != TN_OK) {
        tn_fit_release(result);
        return status;
    }
    status = setup_fit_take(made, options, PART_FIT, result, error);
    bool inside = options->statics != TN_STATIC_APART;
    if (status == TN_OK && made->parts[PART_STATICS] == NULL)
        status = tn__setup_count_statics(made, tn_setup_program(made), inside, error);
    if (status == TN_OK) {
        *setup = made;
        return TN_OK;
    }
    tn_setup_destroy(made);
    return status;
}

/* Plans the existing program. *needs: its memory exceeds the budget. */
static tn_status setup_fit_asks(tn_setup *setup, const tn_setup_options *options, bool *needs,
                                tn_error *error) {
    *needs = false;
    if (options->fit == NULL || options->unplanned || options->without_reuse) return TN_OK;
    uint64_t budget = setup_fit_budget(options);
    if (budget == 0) return TN_OK;
    TN_TRY(tn__setup_occupy(setup, options, error));
    TN_TRY(tn__setup_plan(setup, options, error));
    *needs = tn_setup_need(setup).total > budget;
    return TN_OK;
}

static tn_status setup_fit_search(tn_setup *setup, const tn_setup_options *options, int part,
                                  tn_error *error) {
    tn_costs *made;
    TN_TRY(tn__setup_costs(setup, options, &made, error));
    const tn_costs *costs = made != NULL ? made : options->costs;
    tn_status status = setup_fit_run(setup, options, part, costs, error);
    tn_costs_destroy(made);
    return status;
}

tn_status tn__setup_fit(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    bool needs;
    /* ranks keep the order of their messages, so each is fitted after the division */
    if (options->divide != NULL && options->divide->arranges) return TN_OK;
    TN_TRY(setup_fit_asks(setup, options, &needs, error));
    return needs ? setup_fit_search(setup, options, PART_FIT, error) : TN_OK;
}

/* Fits the program of one rank to the budget. The search applies the rules itself, so it begins
 * with the program to which they were not applied yet. */
tn_status tn__setup_fit_divided(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn_fit_result *divided = &setup->parts[PART_DIVIDED]->fitted;
    tn_program *plain = divided->program, *ruled;
    bool needs = false, plans;
    TN_TRY(setup_rule_divided(setup, options, plain, &ruled, error));
    if (ruled != NULL) divided->program = ruled;
    tn_status status = setup_fit_asks(setup, options, &needs, error);
    if (ruled != NULL && (status != TN_OK || needs)) {
        tn__setup_part_release(setup, PART_OCCUPANCY);
        tn__setup_part_release(setup, PART_LAYOUT);
        divided->program = plain;
        tn_program_destroy(ruled);
        if (status == TN_OK) status = setup_fit_asks(setup, options, &plans, error);
    } else if (ruled != NULL) {
        tn_program_destroy(plain);
    }
    if (status != TN_OK || !needs) return status;
    return setup_fit_search(setup, options, PART_DIVIDED, error);
}
