/* predict.c - predicts the time of a run of a set-up before it runs. */
#include <tenure/measure.h>

#include "fit/budget/costs.h"

static tn_status predict_by(const tn_setup *setup, const tn_costs *costs,
                            const tn_simulate_options *given, tn_simulation *simulation,
                            tn_error *error) {
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    if (tn_costs_graph(costs) != tn_setup_graph(setup))
        TN_FAIL(error, TN_E_INVALID, "the costs are of another graph");
    options.occupancy = tn_setup_occupancy(setup);
    return tn__costs_simulate(costs, tn_setup_program(setup), &options, simulation, error);
}

tn_status tn_setup_predict(const tn_setup *setup, const tn_costs *costs,
                           const tn_simulate_options *options, tn_simulation *simulation,
                           tn_error *error) {
    tn_measure_options measure = TN_MEASURE_OPTIONS_INIT;
    tn_costs *made;
    if (costs != NULL) return predict_by(setup, costs, options, simulation, error);
    if (tn_setup_kernels(setup) == NULL)
        TN_FAIL(error, TN_E_INVALID, "nothing can be measured without kernels");
    measure.occupancy = tn_setup_occupancy(setup);
    measure.setup = setup;
    TN_TRY(tn_costs_measure(tn_setup_kernels(setup), &measure, &made, NULL, error));
    tn_status status = predict_by(setup, made, options, simulation, error);
    tn_costs_destroy(made);
    return status;
}
