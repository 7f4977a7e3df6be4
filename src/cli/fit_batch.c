/* fit_batch.c - the largest batch that fits: doubled until it does not, then halved between. */
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "cli/fit.h"

#define BATCH_MOST (UINT64_C(1) << 32)

/* One trial; `solved` keeps the last that fitted. */
static tn_status batch_try(const cli_fit *fit, uint64_t batch, bool plainly, bool *fits,
                           cli_fit *solved, tn_error *error) {
    cli_fit trial = *fit;
    trial.batch = batch;
    tn_status status = cli_fit_open(&trial, error);
    if (status == TN_OK) status = cli_fit_solve(&trial, error);
    bool none = status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
    *fits = status == TN_OK;
    if (*fits && plainly) *fits = trial.results[0].plain_bytes <= trial.options.budget;
    if (!*fits || solved == NULL) {
        cli_fit_close(&trial);
        return none ? TN_OK : status;
    }
    cli_fit_close(solved);
    *solved = trial;
    return TN_OK;
}

/* From a batch that is known to fit, or 0. */
static tn_status batch_largest(const cli_fit *fit, bool plainly, uint64_t known, uint64_t *largest,
                               cli_fit *solved, tn_error *error) {
    uint64_t fits = known, fails = known > 0 ? 2 * known : 1;
    bool fine = true;
    while (fine) {
        TN_TRY(batch_try(fit, fails, plainly, &fine, solved, error));
        if (!fine) break;
        fits = fails;
        fails *= 2;
        if (fails > BATCH_MOST)
            TN_FAIL(error, TN_E_INVALID, "memory hardly depends on the batch: 2^32 fit");
    }
    while (fails - fits > 1 + fits / 256) {
        uint64_t middle = fits + (fails - fits) / 2;
        TN_TRY(batch_try(fit, middle, plainly, &fine, solved, error));
        if (fine)
            fits = middle;
        else
            fails = middle;
    }
    *largest = fits;
    return TN_OK;
}

tn_status cli_fit_batches(cli_fit *fit, uint64_t *plain, uint64_t *fitted, tn_error *error) {
    cli_fit keep = *fit, solved = {0};
    keep.options.pass = "keep";
    TN_TRY(batch_largest(&keep, true, 0, plain, NULL, error));
    tn_status status = batch_largest(fit, false, *plain, fitted, &solved, error);
    bool one = status == TN_OK && *fitted > 0 && solved.program == NULL; /* the plain one's batch */
    if (one) status = batch_try(fit, *fitted, false, &one, &solved, error);
    if (status != TN_OK || *fitted == 0) {
        cli_fit_close(&solved);
        return status;
    }
    cli_input_release(&fit->input);
    *fit = solved;
    return TN_OK;
}
