/* torch.h - a PyTorch that trains the same network beside us: bench/fit_torch.py in a process of
 * its own, which is asked for one step at a time. */
#ifndef TN_BENCH_TORCH_H
#define TN_BENCH_TORCH_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct bench_torch {
    pid_t process; /* 0: there is none */
    FILE *ask, *hear;
} bench_torch;

typedef struct bench_torch_step {
    double ms;      /* the least of those asked for; 0: none was */
    uint64_t bytes; /* held at once */
} bench_torch_step;

/* Runs SCRIPT by PYTHON with the words, and waits until it says that it is ready. False: it never
 * did, as where there is no PyTorch; then there is no process. */
int bench_torch_open(bench_torch *torch, const char *python, const char *const *words);
/* Finds a segmenting within so many bytes. Its answer is one line; false: there was none. */
int bench_torch_plan(const bench_torch *torch, uint64_t bytes, char *answer, size_t room);
/* Another step, "plain" or "fitted". */
void bench_torch_run(const bench_torch *torch, const char *which, bench_torch_step *step);
void bench_torch_close(bench_torch *torch);

#endif
