#include "bench/kit/torch.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TORCH_WORDS 16u

/* In the child: standard input and output are the pipes. */
static void torch_become(const char *python, const char *const *words, const int *in,
                         const int *out) {
    char *list[TORCH_WORDS + 2] = {(char *)python};
    for (uint32_t i = 0; i < TORCH_WORDS && words[i] != NULL; i++) list[i + 1] = (char *)words[i];
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[0]);
    close(in[1]);
    close(out[0]);
    close(out[1]);
    execvp(python, list);
    _exit(127);
}

/* The next line that begins with `word`; what libraries say of themselves is passed over. */
static int torch_hear(const bench_torch *torch, const char *word, char *line, size_t room) {
    while (fgets(line, (int)room, torch->hear) != NULL)
        if (strncmp(line, word, strlen(word)) == 0) return 1;
    return 0;
}

int bench_torch_open(bench_torch *torch, const char *python, const char *const *words) {
    int in[2], out[2];
    char line[256];
    *torch = (bench_torch){0};
    if (pipe(in) != 0) return 0;
    if (pipe(out) != 0) {
        close(in[0]);
        close(in[1]);
        return 0;
    }
    signal(SIGPIPE, SIG_IGN); /* one that went away is seen by its silence */
    torch->process = fork();
    if (torch->process == 0) torch_become(python, words, in, out);
    close(in[0]);
    close(out[1]);
    torch->ask = fdopen(in[1], "w");
    torch->hear = fdopen(out[0], "r");
    if (torch->process > 0 && torch_hear(torch, "ready", line, sizeof line)) return 1;
    bench_torch_close(torch);
    return 0;
}

int bench_torch_plan(const bench_torch *torch, uint64_t bytes, char *answer, size_t room) {
    fprintf(torch->ask, "plan %" PRIu64 "\n", bytes);
    fflush(torch->ask);
    if (!torch_hear(torch, "segmented", answer, room)) return 0;
    answer[strcspn(answer, "\n")] = '\0';
    return 1;
}

void bench_torch_run(const bench_torch *torch, const char *which, bench_torch_step *step) {
    char line[256];
    double ms;
    fprintf(torch->ask, "%s\n", which);
    fflush(torch->ask);
    if (!torch_hear(torch, "ms", line, sizeof line) ||
        sscanf(line, "ms %lf %" SCNu64, &ms, &step->bytes) != 2)
        return;
    if (step->ms == 0 || ms < step->ms) step->ms = ms;
}

void bench_torch_close(bench_torch *torch) {
    if (torch->ask != NULL) fclose(torch->ask); /* the end of its input: it ends */
    if (torch->hear != NULL) fclose(torch->hear);
    if (torch->process > 0) waitpid(torch->process, NULL, 0);
    *torch = (bench_torch){0};
}
