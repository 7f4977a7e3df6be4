/* place.c - a compiler's last pass: the values of a program get their bytes of one arena.
 *
 *     cc -c -O2 -DNDEBUG tenure_plan.c && cc place.c tenure_plan.o -pthread -lm && ./a.out
 */
#include "tenure_plan.h"

#include <stdio.h>

/* What a compiler knows of a value: its size, and the instructions between which it is live. */
typedef struct value {
    const char *name;
    uint64_t size;
    int defined, last_used;
    int view_of; /* the value whose bytes it is part of, or -1 */
    uint64_t at; /* out: from the start of the arena */
} value;

/* Both ends of a life are instructions that run, so a result never lies over its operand. */
static tn_status add_value(tn_problem *problem, const value *v, tn_error *error) {
    tn_body body = {0};
    body.name = v->name;
    body.size = v->size;
    body.first = v->defined;
    body.last = v->last_used + 1;
    if (v->view_of >= 0) {
        body.flags = TN_BODY_TIED;
        body.leader = (tn_body_id)v->view_of;
    }
    return tn_problem_add(problem, &body, NULL, error);
}

/* Gives every value its place; `arena` receives how many bytes they need. */
static tn_status place(value *values, int count, uint64_t *arena, tn_error *error) {
    tn_problem *problem;
    tn_layout layout;
    tn_status status = tn_problem_create(NULL, &problem, error);
    if (status != TN_OK) return status;
    status = tn_problem_set_alignment(problem, 64, error);
    for (int i = 0; i < count && status == TN_OK; i++)
        status = add_value(problem, &values[i], error);
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.work_limit = 1000000; /* not a time limit: the same program gets the same code */
    if (status == TN_OK) status = tn_plan(problem, &options, &layout, error);
    if (status == TN_OK) {
        for (int i = 0; i < count; i++) values[i].at = layout.offset[i];
        *arena = layout.peak;
        printf("%s: no plan of these buffers needs less than %llu bytes\n",
               tn_verdict_name(layout.verdict), (unsigned long long)layout.lower_bound);
        tn_layout_release(&layout);
    }
    tn_problem_destroy(problem);
    return status;
}

int main(void) {
    value values[] = {
        {"image", 49152, 0, 1, -1, 0},  {"padded", 55488, 1, 2, -1, 0},
        {"conv", 262144, 2, 4, -1, 0},  {"scratch", 73728, 2, 2, -1, 0},
        {"pooled", 65536, 4, 6, -1, 0}, {"flat", 65536, 5, 6, 4, 0},
        {"scores", 4000, 6, 7, -1, 0},
    };
    int count = (int)(sizeof values / sizeof *values);
    uint64_t arena;
    tn_error error;
    tn_status status = place(values, count, &arena, &error);
    if (status != TN_OK) {
        fprintf(stderr, "%s: %s\n", error.where, error.message);
        return tn_status_exit_code(status);
    }
    for (int i = 0; i < count; i++)
        printf("%-8s %7llu\n", values[i].name, (unsigned long long)values[i].at);
    printf("arena    %7llu\n", (unsigned long long)arena);
    return values[5].at == values[4].at ? 0 : 4; /* the view is where its owner is */
}
