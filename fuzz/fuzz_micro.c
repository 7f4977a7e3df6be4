/* fuzz_micro.c - any bytes as a .tflite model whose plan is read, replaced and read again, and
 * whose scratch memory is counted.
 *
 * What must hold: a plan that is written is read back as it was; errors have a message; the model
 * in parts (tn_split_file) is measured or refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/graph.h>
#include <tenure/rewrite.h>

#include "fuzz.h"
#include "base/base.h"

#define MICRO_OPS_MAX 200u

static char micro_folder[] = "/tmp/tenure-fuzz-XXXXXX";
static char micro_model[64], micro_planned[64];

static void micro_leave(void) {
    (void)unlink(micro_model);
    (void)unlink(micro_planned);
    (void)rmdir(micro_folder);
}

static void micro_begin(void) {
    fuzz_must(mkdtemp(micro_folder) != NULL);
    atexit(micro_leave);
    snprintf(micro_model, sizeof micro_model, "%s/m.tflite", micro_folder);
    snprintf(micro_planned, sizeof micro_planned, "%s/p.tflite", micro_folder);
}

static void micro_put(const uint8_t *data, size_t size) {
    (void)unlink(micro_model);
    int file = open(micro_model, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fuzz_must(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static void micro_judge(tn_status status, const tn_error *error) {
    fuzz_must(status != TN_E_INTERNAL);
    fuzz_must(status == TN_OK || (error->status == status && error->message[0]));
}

/* Every tensor at a multiple of 16: what is written must be read back. */
static void micro_plan(const tn_graph *graph, uint64_t *offsets, uint64_t *read_back) {
    tn_error error = {0};
    uint32_t count = tn_graph_tensor_count(graph);
    tn_status status = tn_tflite_read_plan(micro_model, NULL, graph, offsets, &error);
    micro_judge(status, &error);
    if (status != TN_OK)
        for (uint32_t i = 0; i < count; i++) offsets[i] = 16 * (uint64_t)i;
    error = (tn_error){0};
    status = tn_tflite_write_plan(micro_model, NULL, graph, offsets, micro_planned, &error);
    micro_judge(status, &error);
    if (status != TN_OK) return;
    fuzz_accept();
    status = tn_tflite_read_plan(micro_planned, NULL, graph, read_back, &error);
    micro_judge(status, &error);
    for (uint32_t i = 0; status == TN_OK && i < count; i++)
        fuzz_must(read_back[i] == offsets[i] || read_back[i] == TN_SIZE_UNKNOWN);
}

static void micro_work(const tn_graph *graph) {
    tn_error error = {0};
    tn_export_report report;
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    tn_export_options parts = TN_EXPORT_OPTIONS_INIT;
    size_t room = (size_t)tn_graph_tensor_count(graph) + tn_graph_op_count(graph) + 1;
    uint64_t *offsets = calloc(2 * room, sizeof *offsets);
    if (offsets == NULL) return;
    micro_judge(tn_micro_workspaces(micro_model, NULL, graph, &options, offsets, &error), &error);
    micro_plan(graph, offsets, offsets + room);
    parts.budget = 1;
    error = (tn_error){0};
    micro_judge(tn_split_file(micro_model, NULL, &parts, &report, &error), &error);
    free(offsets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool there;
    tn_graph *graph = NULL;
    tn_error error = {0};
    if (!there) micro_begin();
    there = true;
    micro_put(data, size);
    tn_status status = tn_graph_load(micro_model, NULL, &graph, &error);
    micro_judge(status, &error);
    if (status == TN_OK && tn_graph_op_count(graph) <= MICRO_OPS_MAX) micro_work(graph);
    tn_graph_destroy(graph);
    return 0;
}
