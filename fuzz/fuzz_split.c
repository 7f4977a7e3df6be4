/* fuzz_split.c - any bytes as a model that is written in tiles.
 *
 * The first byte decides: its lowest bit the format (.onnx, .tflite), the others the budget, as a
 * share of the peak. What must hold: a written file is a model that loads, has the measured peak or
 * less, and the size that is reported; otherwise an error with a message and no file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/graph.h>
#include <tenure/rewrite.h>

#include "fuzz.h"
#include "base/base.h"

#define SPLIT_OPS_MAX 40u
#define SPLIT_WORK 2000u /* regions that are priced: a search must not take the fuzzer's time */

static char split_folder[] = "/tmp/tenure-fuzz-XXXXXX";
static char split_in[2][64], split_out[2][64];

static void split_leave(void) {
    for (int i = 0; i < 2; i++) {
        (void)unlink(split_in[i]);
        (void)unlink(split_out[i]);
    }
    (void)rmdir(split_folder);
}

static void split_begin(void) {
    fuzz_must(mkdtemp(split_folder) != NULL);
    atexit(split_leave);
    for (int i = 0; i < 2; i++) {
        const char *suffix = i != 0 ? "tflite" : "onnx";
        snprintf(split_in[i], sizeof *split_in, "%s/m.%s", split_folder, suffix);
        snprintf(split_out[i], sizeof *split_out, "%s/o.%s", split_folder, suffix);
    }
}

static void split_put(const char *path, const uint8_t *data, size_t size) {
    (void)unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fuzz_must(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static void split_judge(tn_status status, const tn_error *error) {
    fuzz_must(status != TN_E_INTERNAL);
    fuzz_must(status == TN_OK || (error->status == status && error->message[0]));
}

static void split_work(int format, uint32_t share) {
    const char *out = split_out[format];
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    tn_error error = {0};
    struct stat facts;
    options.budget = 1;
    options.work_limit = SPLIT_WORK;
    tn_status status = tn_split_file(split_in[format], NULL, &options, &report, &error);
    split_judge(status, &error);
    if (status != TN_OK && status != TN_E_EXHAUSTED) return;
    options.budget = report.parts + (report.whole - report.parts) / 128 * share;
    error = (tn_error){0};
    (void)unlink(out);
    status = tn_split_file(split_in[format], out, &options, &report, &error);
    split_judge(status, &error);
    fuzz_must((stat(out, &facts) == 0) == (status == TN_OK));
    if (status != TN_OK) return;
    fuzz_must((uint64_t)facts.st_size == report.file_bytes && report.parts <= options.budget);
    tn_graph *graph = NULL;
    status = tn_graph_load(out, NULL, &graph, &error);
    fuzz_must(status == TN_OK);
    fuzz_accept();
    tn_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool there;
    tn_graph *graph = NULL;
    tn_error error = {0};
    if (size < 1) return 0;
    if (!there) split_begin();
    there = true;
    int format = data[0] & 1;
    split_put(split_in[format], data + 1, size - 1);
    tn_status status = tn_graph_load(split_in[format], NULL, &graph, &error);
    split_judge(status, &error);
    bool small = status == TN_OK && tn_graph_op_count(graph) <= SPLIT_OPS_MAX;
    tn_graph_destroy(graph);
    if (small) split_work(format, data[0] >> 1);
    return 0;
}
