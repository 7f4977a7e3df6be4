/* split_model.c - a network in parts: as little memory as a tenth more work lets, and what that is;
 * then the curve of memory against work.
 *
 *     split_model MODEL.onnx
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>

#include <tenure/engine.h>
#include <tenure/graph.h>

static int fail(const tn_error *error) {
    fprintf(stderr, "%s%s%s\n", error->where, error->where[0] != '\0' ? ": " : "", error->message);
    return 2;
}

static tn_status curve(const tn_graph *graph, const tn_setup_options *options, tn_error *error) {
    tn_setup *points[6];
    uint32_t found;
    tn_status status = tn_setup_split_sweep(graph, options, 6, points, &found, error);
    for (uint32_t i = 0; i < found; i++) {
        const tn_split_report *report = tn_setup_splits(points[i]); /* NULL: the whole, the last */
        printf("%llu bytes for %.1f %% more work\n",
               (unsigned long long)tn_setup_need(points[i]).arena,
               100 * (report != NULL ? report->work : 0));
        tn_setup_destroy(points[i]);
    }
    return status;
}

int main(int count, char **words) {
    tn_graph *graph;
    tn_setup *setup;
    tn_error error = {0};
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_setup_split split = {.share = 0.1};
    if (count != 2) return fprintf(stderr, "usage: split_model MODEL.onnx\n"), 2;
    if (tn_graph_load(words[1], NULL, &graph, &error) != TN_OK) return fail(&error);
    options.no_kernels = true; /* of the graph alone: the same on every machine */
    options.split = &split;
    if (tn_setup_create(graph, &options, &setup, &error) != TN_OK) {
        tn_graph_destroy(graph);
        return fail(&error);
    }
    const tn_split_report *report = tn_setup_splits(setup);
    if (report == NULL) {
        printf("whole: %llu bytes\n", (unsigned long long)tn_setup_need(setup).arena);
    } else {
        double more = (double)report->parts.flops / (double)report->whole.flops - 1;
        printf("in %u regions: %llu bytes instead of %llu, %.1f %% more operations\n",
               report->count, (unsigned long long)tn_setup_need(setup).arena,
               (unsigned long long)report->whole_arena, 100 * more);
        for (uint32_t i = 0; i < report->count; i++)
            printf("  operators #%u to #%u: %u x %u parts, halos %s\n", report->regions[i].first,
                   report->regions[i].last, report->regions[i].parts[0],
                   report->regions[i].parts[1], report->regions[i].keep ? "kept" : "again");
    }
    tn_setup_destroy(setup);
    split.share = 0.5;
    tn_status status = curve(graph, &options, &error);
    tn_graph_destroy(graph);
    return status == TN_OK ? 0 : fail(&error);
}
