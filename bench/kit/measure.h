/* measure.h - one planner, or somebody's program, on one file: height, user seconds, memory.
 *
 * Each measurement is a process of its own that reads the file, plans and ends; so user seconds and
 * resident memory are those of the whole job, and a program of somebody else is measured alike. */
#ifndef TN_BENCH_MEASURE_H
#define TN_BENCH_MEASURE_H

#include <tenure/plan.h>

typedef struct measure_job {
    const char *path;    /* CSV */
    const char *planner; /* NULL with `command` */
    const char *command; /* shell; {input} {output} {capacity} are filled in */
    uint64_t capacity;   /* bytes, for {capacity}; 0: the lower bound of the file */
    double timeout_s;    /* 0: none; a command is not stopped */
    uint64_t work_limit; /* 0: none */
} measure_job;

typedef struct measure_result {
    bool solved; /* a valid plan */
    bool optimal;
    uint32_t bodies;
    uint64_t peak, lower_bound;
    double user_s;     /* of the process, reading included */
    double plan_s;     /* wall time of planning; 0 for a command */
    double memory_mib; /* resident, at most */
    char message[160];
} measure_result;

void measure_run(const measure_job *job, measure_result *result);

#endif
