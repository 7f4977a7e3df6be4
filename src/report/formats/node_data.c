/* node_data.c - writes the live bytes at each operator of a model, which Model Explorer shows as
 * colours on its graph.
 *
 *     {"name":"live MiB","results":{"conv1_out":{"value":4.5},...},"gradient":[...]}
 *
 * A node is found by its id or by the name of any of its output tensors. The ids depend on the
 * adapter that reads the model, so the name of the first output is written. The values are numbers
 * in MiB, so that Model Explorer can sort and sum them. An operator that runs several times, as in
 * a program with recomputation, has the largest of its values.
 *
 * Source: Model Explorer, common/types.ts and node_data_builder.py: the form for one graph.
 */
#include "report/format.h"

#define NODE_DATA_MIB 1048576.0

typedef struct node_data {
    const tn_report *report;
    tn__names names; /* name of a tensor -> its row */
    const char **keys;
    uint64_t *live;
    uint32_t count;
} node_data;

/* Returns the live bytes at a step: those of the last point of the curve that is not later. */
static uint64_t node_data_at(const tn__curve *curve, int64_t step) {
    size_t low = 0, high = curve->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (curve->at[middle] <= step)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? curve->live[low - 1] : 0;
}

static bool node_data_add(node_data *data, const char *name, uint64_t live) {
    uint32_t row;
    if (!tn__names_add(&data->names, name, strlen(name), data->count, &row)) return false;
    if (row == TN__NAMES_NONE) {
        row = data->count++;
        data->keys[row] = name;
    }
    if (live > data->live[row]) data->live[row] = live;
    return true;
}

/* Returns the name of the first output of a step's operator; NULL: it has no output, or the step
 * moves data. */
static const char *node_data_name(const tn_report *report, uint32_t step) {
    const tn_program *program = tn_occupancy_program(report->occupancy);
    const tn_instruction *instruction = &tn_program_instructions(program)[step];
    if (instruction->op == TN_NONE) return NULL;
    const tn_graph *graph = tn_program_graph(program);
    const tn_op *op = tn_graph_op(graph, instruction->op);
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        const char *name = tn_graph_tensor(graph, op->outputs[i])->name;
        if (name != NULL && name[0] != '\0') return name;
    }
    return NULL;
}

static tn_status node_data_fill(node_data *data, const tn__curve *curve, tn_error *error) {
    uint32_t steps = tn__step_count(data->report);
    for (uint32_t step = 0; step < steps; step++) {
        const char *name = node_data_name(data->report, step);
        if (name != NULL && !node_data_add(data, name, node_data_at(curve, step)))
            return tn__no_memory(error, "the live bytes of the operators");
    }
    return TN_OK;
}

static void node_data_write(const node_data *data, tn__text *text) {
    tn__text_put(text, "{\"name\":\"live MiB\",\"results\":{");
    for (uint32_t i = 0; i < data->count; i++) {
        tn__text_put(text, i > 0 ? ",\n" : "\n");
        tn__text_json(text, data->keys[i]);
        tn__text_put(text, ":{\"value\":");
        tn__words_number(text, (double)data->live[i] / NODE_DATA_MIB);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "\n},\"gradient\":[{\"stop\":0,\"bgColor\":\"#ffffff\"},"
                       "{\"stop\":1,\"bgColor\":\"#e4572e\"}]}\n");
}

static tn_status node_data_render(const tn_report *report, tn__text *text, tn_error *error) {
    if (report->occupancy == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "the input is a problem; the format is for models");
    tn_context context = tn__context(report->context);
    size_t rows = (size_t)tn__step_count(report) + 1;
    tn__curve curve;
    node_data data = {.report = report};
    tn__names_init(&data.names, &context);
    data.keys = tn__alloc_array(&context, rows, sizeof *data.keys);
    data.live = tn__alloc_array(&context, rows, sizeof *data.live);
    tn_status status = tn__curve_make(&curve, report->problem, &context, error);
    if (status == TN_OK && (data.keys == NULL || data.live == NULL))
        status = tn__no_memory(error, "the live bytes of the operators");
    if (status == TN_OK) status = node_data_fill(&data, &curve, error);
    if (status == TN_OK) node_data_write(&data, text);
    tn__curve_release(&curve);
    tn__free(&context, (void *)(uintptr_t)data.keys,
             data.keys != NULL ? rows * sizeof *data.keys : 0);
    tn__free(&context, data.live, data.live != NULL ? rows * sizeof *data.live : 0);
    tn__names_release(&data.names);
    return status;
}

const tn_report_format tn__report_format_node_data = {
    .name = "node_data",
    .suffix = ".nodes.json",
    .summary = "the live bytes at each operator of a model, for Model Explorer",
    .render = node_data_render,
};
