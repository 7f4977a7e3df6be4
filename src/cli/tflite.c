/* tflite.c - lets a report write a plan into the .tflite file that was read. */
#include "cli/cli.h"

#include "base/base.h"

static tn_status tflite_write_plan(void *self, const uint64_t *offsets, const char *output,
                                   tn_error *error) {
    const cli_input *input = self;
    return tn_tflite_write_plan(input->path, &input->import, input->graph, offsets, output, error);
}

void cli_report_model(tn_report *report, cli_input *input) {
    if (input->occupancy == NULL || !tn__has_suffix(input->path, ".tflite")) return;
    report->write_plan = tflite_write_plan;
    report->write_plan_self = input;
}
