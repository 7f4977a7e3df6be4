/* net.h - a model's file, set up to be run or trained, with inputs that are made up.
 *
 *     bench_net net = {0};
 *     bench_plan plan = {.threads = 2};
 *     status = bench_load(&net, path, NULL, true, &error);
 *     if (status == TN_OK) status = bench_train(&net, &train, &rewrite, &error); // or bench_infer
 *     if (status == TN_OK) status = bench_open(&net, &plan, &error);
 *     if (status == TN_OK) status = bench_step(&net, &ms, &error);
 *     bench_close(&net); // whatever was done
 *
 * Between bench_load and bench_open rewrites are the caller's, as far as single ones: what
 * tenure/run.h does not open. The rest is tn_setup_create and tn_setup_open.
 */
#ifndef TN_BENCH_NET_H
#define TN_BENCH_NET_H

#include <tenure/tenure.h>
#include <tenure/train.h>

typedef struct bench_net {
    tn_graph *file; /* as it was */
    tn_contents *contents;
    tn_graph *model; /* that is trained; NULL: it is not */
    tn_training training;
    tn_graph *rewritten; /* what is set up */
    tn_setup *setup;
    const tn_graph *graph; /* as it runs */
    tn_engine *engine;
    tn_trace *trace;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    bool processor; /* of the plan */
} bench_net;

typedef struct bench_plan {
    uint32_t threads;
    const char *order; /* as in tn_program_options */
    tn_inplace inplace;
    tn_recompute_options again; /* `share` 0: none; its size is filled in */
    float rate;                 /* of learning */
    bool traced;                /* for bench_profile */
    float *zeros;               /* as in tn_engine_options */
    uint64_t enough;            /* as in tn_plan_options, of bench_open_program */
    bool processor;             /* bench_step tells processor time: where others work, too */
} bench_plan;

/* made_up: contents that the file has not; else it is an error that it has not. */
tn_status bench_load(bench_net *net, const char *path, const tn_import_options *import,
                     bool made_up, tn_error *error);
tn_status bench_infer(bench_net *net, const tn_rewrite_options *rewrite, tn_error *error);
/* The model as it is trained, for whoever chooses parameters by name; bench_train does it else. */
tn_status bench_model_to_train(bench_net *net, tn_error *error);
/* rewrite   `use` is filled in */
tn_status bench_train(bench_net *net, const tn_train_options *train,
                      const tn_rewrite_options *rewrite, tn_error *error);
tn_status bench_open(bench_net *net, const bench_plan *plan, tn_error *error);
/* An engine for another program of the graph that `net` runs, which stays open and is closed last:
 * the same kernels and contents. `other` starts zeroed.
 *
 * link  bytes a second, each way; 0: as fast as it goes */
tn_status bench_open_program(const bench_net *net, const bench_plan *plan,
                             const tn_program *program, double link, bench_net *other,
                             tn_error *error);
void bench_close(bench_net *net);

/* Costs of the operators of an open net, measured with its kernels. */
tn_status bench_costs(const bench_net *net, tn_costs **costs, tn_error *error);
/* tn_fit of its program; `fixed_bytes` and `memory` are filled in. */
tn_status bench_fit(const bench_net *net, const tn_costs *costs, const tn_fit_options *options,
                    tn_fit_result *result, tn_error *error);

/* One run; *ms becomes its milliseconds of wall time (or the processor's, of all threads) where
 * that is less. */
tn_status bench_step(bench_net *net, double *ms, tn_error *error);
/* Prints where the time of the second run went, by operator and kernel: at most `rows`. */
void bench_profile(const bench_net *net, uint32_t rows);

/* "1,2": fills numbers[room] and returns how many. */
uint32_t bench_numbers(const char *text, uint32_t *numbers, uint32_t room);
uint32_t bench_reals(const char *text, double *numbers, uint32_t room); /* "0.7,0.5" */
double bench_mib(uint64_t bytes);

#endif
