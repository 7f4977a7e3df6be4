/* losses.c - tells the errors of lossy codecs in a run. */
#include "cli/losses.h"

#include <inttypes.h>
#include <stdlib.h>

#define LOSSES_SHOWN 10u /* rows of the table; the JSON has all */

static int losses_by_error(const void *a, const void *b) {
    const tn_engine_loss *x = a, *y = b;
    return (x->relative < y->relative) - (x->relative > y->relative);
}

void cli_losses_read(cli_losses *losses, const tn_engine *engine) {
    uint32_t count = engine != NULL ? tn_engine_losses(engine, NULL, 0) : 0;
    *losses = (cli_losses){.rows = calloc((size_t)count + 1, sizeof *losses->rows)};
    if (losses->rows == NULL || count == 0) return;
    losses->count = tn_engine_losses(engine, losses->rows, count);
    qsort(losses->rows, losses->count, sizeof *losses->rows, losses_by_error);
}

void cli_losses_release(cli_losses *losses) {
    free(losses->rows);
    *losses = (cli_losses){0};
}

double cli_max_error(struct argp_state *state, const char *value) {
    double error = cli_share(state, "max-error", value);
    if (!(error > 0)) cli_misuse(state, "--max-error: use an error above 0, such as 1%%");
    return error;
}

static const cli_facts loss_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", "tensor", "name of the tensor"),
        CLI_FACT(WORD, "codec", "codec", "float16, float10 or float8"),
        CLI_FACT(BYTES, "bytes", "bytes", "bytes of the tensor"),
        CLI_FACT(BYTES, "form_bytes", "encoded", "bytes of its encoded form"),
        CLI_FACT(COUNT, "measured", "measured", "number of times that the error was measured"),
        CLI_FACT(COUNT, "kept", "kept",
                 "of these: how often it was above --max-error, so that the tensor was kept on the "
                 "host unencoded"),
        CLI_FACT(REAL, "largest", "largest difference",
                 "largest difference of an element; null: it is infinite"),
        CLI_FACT(SHARE, "relative", "relative error",
                 "norm of the difference / norm of the tensor, the largest that was measured; "
                 "null: it is infinite"),
        CLI_FACTS_END}};
const cli_facts cli_losses_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "losses",
                    "with lossy codecs: the error of each encoded tensor, the largest first; "
                    "measured in every 16th run from the first, with --max-error in every run",
                    &loss_facts),
        CLI_FACTS_END}};

void cli_losses_tell(cli_answer *answer, const cli_losses *losses) {
    if (losses->count == 0) return;
    const tn_engine_loss *worst = &losses->rows[0];
    uint64_t kept = 0;
    for (uint32_t i = 0; i < losses->count; i++) kept += losses->rows[i].kept;
    cli_tell_line(answer, "lossy forms", "%u tensor%s, relative error at most %.3g %%%s",
                  losses->count, losses->count == 1 ? "" : "s", 100 * worst->relative,
                  kept > 0 ? " (kept on the host where above --max-error)" : "");
    cli_answer_open(answer, "losses");
    for (uint32_t i = 0; i < losses->count; i++) {
        const tn_engine_loss *it = &losses->rows[i];
        if (i >= LOSSES_SHOWN && cli_answer_table(answer) != NULL) break;
        cli_answer_open(answer, NULL);
        cli_tell_word(answer, "name", it->name);
        cli_tell_word(answer, "codec", tn_codec_name(it->codec));
        cli_tell(answer, "bytes", it->bytes);
        cli_tell(answer, "form_bytes", it->form_bytes);
        cli_tell(answer, "measured", it->measured);
        cli_tell(answer, "kept", it->kept);
        cli_tell_real(answer, "largest", it->largest);
        cli_tell_real(answer, "relative", it->relative);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

void cli_engine_losses_tell(cli_answer *answer, const tn_engine *engine) {
    cli_losses losses;
    cli_losses_read(&losses, engine);
    cli_losses_tell(answer, &losses);
    cli_losses_release(&losses);
}
