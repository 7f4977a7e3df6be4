/* plan_model.c - the whole corridor: model -> graph -> program -> problem -> layout -> picture.
 *
 *     cc plan_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>
#include <tenure/tenure.h>

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: plan_model MODEL.onnx\n"), 2;
    tn_error error = {0};
    tn_graph *graph = NULL;         /* what is computed */
    tn_program *program = NULL;     /* when */
    tn_occupancy *occupancy = NULL; /* which tensor lives when, and in which body */
    tn_layout layout = {0};         /* where */
    tn_status status = tn_graph_load(arguments[1], NULL, &graph, &error);
    if (status == TN_OK) status = tn_program_create(graph, NULL, &program, &error);
    if (status == TN_OK) status = tn_occupancy_create(program, NULL, &occupancy, &error);
    if (status == TN_OK) status = tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &error);
    if (status == TN_OK) {
        tn_memory_summary summary = tn_occupancy_summary(occupancy);
        char text[TN_SIZE_TEXT_MAX];
        printf("%u operators, %u tensors that need memory\n", tn_graph_op_count(graph),
               tn_occupancy_life_count(occupancy));
        printf("without reuse %s\n", tn_size_format(summary.naive, text));
        printf("arena         %s, %s\n", tn_size_format(layout.peak, text),
               tn_verdict_name(layout.verdict));
        /* the first lives: a tensor's address is its body's offset plus delta */
        const tn_life *lives = tn_occupancy_lives(occupancy);
        for (uint32_t i = 0; i < 3 && i < tn_occupancy_life_count(occupancy); i++)
            printf("  %-24.24s steps [%u, %u) at %llu\n",
                   tn_graph_tensor(graph, lives[i].tensor)->name, lives[i].first, lives[i].last,
                   (unsigned long long)(layout.offset[lives[i].body] + lives[i].delta));
        tn_report report = {.struct_size = sizeof report,
                            .input = arguments[1],
                            .problem = tn_occupancy_problem(occupancy),
                            .layout = &layout,
                            .occupancy = occupancy};
        char *page;
        size_t size;
        status = tn_report_render(&report, "html", &page, &size, &error);
        if (status == TN_OK) printf("the picture has %zu bytes\n", size), tn_report_release(page);
    }
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
    return tn_status_exit_code(status);
}
