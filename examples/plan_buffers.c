/* plan_buffers.c - ten buffers that live for a while: where should each one lie?
 *
 *     cc plan_buffers.c $(pkg-config --cflags --libs tenure) && ./a.out
 */
#include <stdio.h>
#include <tenure/plan.h>

int main(void) {
    /* size in bytes; live in steps [first, last): the last step is the first without it */
    static const tn_body buffers[] = {
        {.name = "input", .size = 602112, .first = 0, .last = 1},
        {.name = "conv1", .size = 1605632, .first = 0, .last = 2},
        {.name = "relu1", .size = 1605632, .first = 1, .last = 3},
        {.name = "pool1", .size = 401408, .first = 2, .last = 6},
        {.name = "conv2", .size = 802816, .first = 3, .last = 5},
        {.name = "relu2", .size = 802816, .first = 4, .last = 6},
        {.name = "add", .size = 802816, .first = 5, .last = 7},
        {.name = "gap", .size = 4096, .first = 6, .last = 8},
        {.name = "logits", .size = 4000, .first = 7, .last = 9},
        {.name = "softmax", .size = 4000, .first = 8, .last = 10},
    };
    tn_error error;
    tn_problem *problem;
    tn_layout layout;
    if (tn_problem_create(NULL, &problem, &error) != TN_OK) return 4;
    tn_status status = tn_problem_set_alignment(problem, 64, &error);
    for (int i = 0; i < 10 && status == TN_OK; i++)
        status = tn_problem_add(problem, &buffers[i], NULL, &error);
    if (status == TN_OK)
        status = tn_plan(problem, NULL, &layout, &error); /* NULL: planner "auto" */
    if (status != TN_OK) {
        fprintf(stderr, "%s: %s\n", error.where, error.message);
        tn_problem_destroy(problem);
        return tn_status_exit_code(status);
    }
    char text[TN_SIZE_TEXT_MAX];
    for (tn_body_id i = 0; i < layout.body_count; i++)
        printf("%-8s at %8llu\n", buffers[i].name, (unsigned long long)layout.offset[i]);
    printf("arena:       %s, %s\n", tn_size_format(layout.peak, text),
           tn_verdict_name(layout.verdict));
    printf("lower bound: %s\n", tn_size_format(layout.lower_bound, text));
    printf("no reuse:    %s\n", tn_size_format(tn_problem_naive(problem), text));
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    return 0;
}
