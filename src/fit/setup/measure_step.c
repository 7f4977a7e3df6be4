/* measure_step.c - measures a step as a whole and scales the costs of its operators to it.
 *
 * In a step, caches, pages and clock rates differ from those of operators that are measured alone,
 * whatever is warmed before them. So a few steps of the program are run on generated data, and all
 * costs are multiplied by the ratio of the fastest step to the predicted one. If the program does
 * more than compute (copies, messages, files), or does not fit, costs stay as they are.
 * Cost: one step to warm up, and up to STEP_RUNS more.
 */
#include "fit/setup/made_up.h"
#include "fit/setup/measure.h"
#include "graph/element.h"

#define STEP_RUNS 4u
#define STEP_SHARE 0.25 /* share of the measuring time after which no new step begins */
/* spread of weights around 0: small enough that deep networks neither vanish nor overflow */
#define STEP_SPREAD 0.1

static bool step_computes(const tn_program *program) {
    const tn_instruction *list = tn_program_instructions(program);
    for (uint32_t i = 0; i < tn_program_count(program); i++) switch (list[i].opcode) {
        case TN_PUT:
        case TN_APPLY:
        case TN_GET:
        case TN_FREE:
        case TN_DROP:
            continue;
        default:
            return false;
        }
    return true;
}

/* Fills the tensors that the graph does not know: weights. */
static tn_status step_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    uint32_t width = tn_dtype_bits(tensor->dtype) / 8;
    bool floats = tn__is_short_float(tensor->dtype) || tensor->dtype == TN_FLOAT64;
    tn__random random = {.state = (uint64_t)id + 1};
    (void)self;
    (void)error;
    memset(bytes, 0, (size_t)size);
    for (uint64_t i = 0; floats && i < size / width; i++) {
        double unit = (double)(tn__random_next(&random) >> 11) * 0x1p-52 - 1;
        uint64_t element = tn__element_of(tensor->dtype, STEP_SPREAD * unit);
        memcpy((uint8_t *)bytes + i * width, &element, width);
    }
    return TN_OK;
}

/* Duration of the fastest step in seconds; 0: the program does not run on generated data. */
static double step_least(const tn__measure_whole *whole, tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn__made_up run;
    double began = tn__clock_s(), least = 0;
    options.context = whole->context;
    options.read = step_read;
    tn_status status = tn__made_up_open(&run, whole->setup, &options, error);
    for (uint32_t i = 0; i <= STEP_RUNS && status == TN_OK; i++) {
        double start = tn__clock_s();
        if (i > 1 && start - began > STEP_SHARE * whole->seconds) break;
        status = tn__made_up_run(&run, error);
        double took = tn__clock_s() - start;
        if (i > 0 && (least == 0 || took < least)) least = took;
    }
    tn__made_up_close(&run);
    return status == TN_OK ? least : 0;
}

double tn__measure_scale(const tn__measure_whole *whole, const tn_costs *costs, double *seconds) {
    tn_simulation simulation;
    tn_error unwanted;
    *seconds = 0;
    if (whole->setup == NULL || !step_computes(tn_setup_program(whole->setup)) ||
        tn_setup_layout(whole->setup) == NULL || tn_setup_need(whole->setup).total > whole->room ||
        tn_setup_predict(whole->setup, costs, NULL, &simulation, &unwanted) != TN_OK)
        return 1;
    double predicted = (double)simulation.total_ps / (double)TN_COSTS_PER_S;
    tn_simulation_release(&simulation);
    *seconds = step_least(whole, &unwanted);
    return *seconds > 0 && predicted > 0 ? *seconds / predicted : 1;
}
