/* measure.c - runs a job in a child process; the judge looks at what comes back. */
#include "bench/kit/measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void measure_say(measure_result *result, const tn_error *error) {
    snprintf(result->message, sizeof result->message, "%.159s", error->message);
}

/* In the child: a planner of ours. */
static void measure_plan(const measure_job *job, measure_result *result) {
    tn_problem *problem = NULL;
    tn_error error = {0};
    tn_layout layout;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.planner = job->planner;
    options.timeout_s = job->timeout_s;
    options.work_limit = job->work_limit;
    if (tn_problem_load(job->path, NULL, &problem, NULL, &error) != TN_OK) {
        measure_say(result, &error);
        return;
    }
    result->bodies = tn_problem_count(problem);
    if (tn_plan(problem, &options, &layout, &error) != TN_OK) {
        measure_say(result, &error);
        return;
    }
    result->solved = true;
    result->optimal = layout.verdict == TN_VERDICT_OPTIMAL;
    result->peak = layout.peak;
    result->lower_bound = layout.lower_bound;
    result->plan_s = layout.seconds;
}

/* In the parent, after a command: is what it wrote a plan? */
static void measure_judge(const measure_job *job, const char *output, measure_result *result) {
    tn_problem *problem = NULL;
    tn_error error = {0};
    uint64_t *offsets = NULL;
    tn_layout layout = {0};
    if (tn_problem_load(output, NULL, &problem, &offsets, &error) != TN_OK || offsets == NULL ||
        tn_layout_from_offsets(problem, offsets, &layout, &error) != TN_OK ||
        tn_layout_verify(problem, &layout, NULL, &error) != TN_OK) {
        measure_say(result, &error);
    } else {
        result->solved = true;
        result->bodies = tn_problem_count(problem);
        result->peak = layout.peak;
        result->lower_bound = layout.lower_bound;
        result->optimal = layout.peak == layout.lower_bound;
    }
    (void)job;
    tn_layout_release(&layout);
    if (problem != NULL) tn_offsets_release(NULL, offsets, tn_problem_count(problem));
    tn_problem_destroy(problem);
}

static void measure_replace(char *text, size_t room, const char *name, const char *value) {
    char made[4096];
    for (char *at = strstr(text, name); at != NULL; at = strstr(text, name)) {
        snprintf(made, sizeof made, "%.*s%s%s", (int)(at - text), text, value, at + strlen(name));
        snprintf(text, room, "%s", made);
    }
}

static uint64_t measure_bound(const char *path) {
    tn_problem *problem = NULL;
    tn_error error;
    uint64_t bytes = 0;
    int64_t step;
    if (tn_problem_load(path, NULL, &problem, NULL, &error) == TN_OK &&
        tn_problem_lower_bound(problem, 0, &bytes, &step, &error) != TN_OK)
        bytes = 0;
    tn_problem_destroy(problem);
    return bytes;
}

static void measure_usage(pid_t child, measure_result *result) {
    struct rusage usage;
    int status;
    if (wait4(child, &status, 0, &usage) != child) return;
    result->user_s = (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec;
    result->memory_mib = (double)usage.ru_maxrss / 1024;
    if (WIFSIGNALED(status)) snprintf(result->message, sizeof result->message, "killed");
}

static void measure_command(const measure_job *job, measure_result *result) {
    char output[] = "/tmp/tenure_bench_XXXXXX.csv", command[4096], number[24];
    uint64_t capacity = job->capacity != 0 ? job->capacity : measure_bound(job->path);
    int file = mkstemps(output, 4);
    if (file < 0) return;
    close(file);
    snprintf(number, sizeof number, "%" PRIu64, capacity);
    snprintf(command, sizeof command, "%s", job->command);
    measure_replace(command, sizeof command, "{input}", job->path);
    measure_replace(command, sizeof command, "{output}", output);
    measure_replace(command, sizeof command, "{capacity}", number);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (child > 0) measure_usage(child, result);
    measure_judge(job, output, result);
    unlink(output);
}

void measure_run(const measure_job *job, measure_result *result) {
    *result = (measure_result){0};
    if (job->command != NULL) {
        measure_command(job, result);
        return;
    }
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_t child = fork();
    if (child == 0) {
        measure_plan(job, result);
        _exit(write(ends[1], result, sizeof *result) == (ssize_t)sizeof *result ? 0 : 1);
    }
    close(ends[1]);
    if (child > 0) {
        if (read(ends[0], result, sizeof *result) != (ssize_t)sizeof *result)
            *result = (measure_result){.message = "no answer"};
        measure_usage(child, result);
    }
    close(ends[0]);
}
