/* experts.c - hits and guesses of a cache of experts (docs/experts.md), for a sequence of tokens.
 *
 *     experts MODEL.onnx STEPS CORRELATION|FILE PART...
 *
 * MODEL has one float32 input, as tests/cli/mixtures.py writes it. The inputs of STEPS runs are
 * random vectors; each is CORRELATION times the one before plus noise, so that routers choose some
 * experts again. With FILE they are the float32 vectors of this file (experts_trained.py). PART is
 * a part of the bytes that all weights and the arena need. One line for each part: experts in the
 * cache; hits, right guesses and bytes per run, and milliseconds per run, after the first half of
 * the runs.
 */
#include <tenure/tenure.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 1;

static float noise(void) { /* the sum of twelve uniform numbers, less 6: nearly normal */
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(state >> 11) / 9007199254740992.0;
    }
    return (float)sum;
}

static void fail(const tn_error *error) {
    fprintf(stderr, "%s: %s\n", error->where, error->message);
    exit(1);
}

static double checksum(const tn_array *output) {
    double sum = 0;
    for (uint64_t i = 0; i < output->bytes / 4; i++) sum += ((const float *)output->data)[i];
    return sum;
}

/* The next input: a part of a file, or a random vector like the one before. */
static void fill(tn_array *input, FILE *file, double correlation) {
    float *x = input->data;
    const size_t count = (size_t)input->bytes / 4;
    if (file != NULL && fread(x, 4, count, file) != count) {
        fprintf(stderr, "the file of inputs is too short\n");
        exit(1);
    }
    for (size_t i = 0; i < count && file == NULL; i++)
        x[i] = (float)(correlation * x[i] + sqrt(1 - correlation * correlation) * noise());
}

/* Runs all steps, with inputs of `words`. Returns the bytes that weights and arena need. */
static uint64_t run(const char *path, uint64_t budget, int steps, const char *words, double *sum) {
    char *end;
    const double correlation = strtod(words, &end);
    FILE *file = *end == '\0' ? NULL : fopen(words, "rb");
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session;
    tn_engine_usage usage, all = {0};
    tn_error error;
    options.stream = budget > 0;
    options.budget = budget;
    if (tn_session_open_file(path, NULL, &options, &session, &error)) fail(&error);
    const tn_setup *setup = tn_session_setup(session);
    const tn_expert_cache *cache = tn_setup_experts(setup);
    const tn_block *block = tn_graph_block(tn_setup_given(setup), 0);
    tn_array *input = tn_session_array(session, block->inputs[0]);
    double seconds = 0;
    int counted = steps - steps / 2;
    state = 1;
    *sum = 0;
    if (*end != '\0' && file == NULL) {
        perror(words);
        exit(1);
    }
    fill(input, file, 0);
    for (int step = 0; step < steps; step++) {
        if (tn_session_run(session, &error)) fail(&error);
        *sum += checksum(tn_session_array(session, block->outputs[0]));
        tn_engine_measure(tn_session_engine(session), &usage);
        if (step + 1 < steps) fill(input, file, correlation);
        if (step < steps / 2) continue;
        seconds += usage.seconds;
        all.row_uses += usage.row_uses, all.row_hits += usage.row_hits;
        all.row_guesses += usage.row_guesses, all.row_right += usage.row_right;
        all.row_withheld += usage.row_withheld;
        all.row_bytes += usage.row_bytes, all.row_wait_seconds += usage.row_wait_seconds;
        all.fetch_bytes += usage.fetch_bytes;
    }
    const uint64_t need = tn_setup_need(setup).total;
    if (cache != NULL)
        printf("| %u of %u | %.2f | %.1f %% | %.1f %% | %.2f | %.1f %% | %.2f | %.2f | %.2f |\n",
               cache->slots, cache->experts, (double)need / 1048576,
               100.0 * (double)all.row_hits / (double)all.row_uses,
               all.row_guesses > 0 ? 100.0 * (double)all.row_right / (double)all.row_guesses : 0,
               (double)all.row_bytes / counted / 1048576,
               all.row_guesses > 0 ? 100.0 * (double)all.row_withheld / (double)all.row_guesses : 0,
               (double)all.fetch_bytes / counted / 1048576, 1e3 * all.row_wait_seconds / counted,
               1e3 * seconds / counted);
    else
        printf("| all | %.2f | | | 0 | | 0 | 0 | %.2f |\n", (double)need / 1048576,
               1e3 * seconds / counted);
    fflush(stdout);
    tn_session_close(session);
    if (file != NULL) fclose(file);
    return need;
}

int main(int count, char **words) {
    double whole, sum;
    if (count < 4)
        return fprintf(stderr, "usage: experts MODEL STEPS CORRELATION|FILE PART...\n"), 2;
    int steps = atoi(words[2]);
    printf(
        "| experts | MiB | hits | right guesses | MiB read in a run | not read | other weights | "
        "waited ms | ms |\n");
    uint64_t need = run(words[1], 0, steps, words[3], &whole);
    for (int i = 4; i < count; i++) {
        run(words[1], (uint64_t)((double)need * atof(words[i])), steps, words[3], &sum);
        if (sum != whole) return fprintf(stderr, "other results\n"), 1;
    }
    return 0;
}
