/* fit_batch.c - the largest batch that fits: doubled until it does not, then halved between. */
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "cli/fit.h"

#define BATCH_MOST (UINT64_C(1) << 32)
#define BATCH_GRAIN 256u /* part of it that halving ends with */

/* Whether there is any program of a batch; `plainly`: whether it fits as it is. */
static tn_status batch_try(const cli_fit *fit, uint64_t batch, bool plainly, bool *fits,
                           tn_error *error) {
    cli_fit trial = *fit;
    trial.batch = batch;
    trial.options.any = true;
    if (plainly) trial.options.pass = "keep";
    tn_status status = cli_fit_open(&trial, error);
    if (status == TN_OK) status = cli_fit_solve(&trial, error);
    bool none = status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
    *fits = status == TN_OK;
    cli_fit_release(&trial);
    return none ? TN_OK : status;
}

/* From a batch that is known to fit, or 0. */
static tn_status batch_largest(const cli_fit *fit, bool plainly, uint64_t known, uint64_t *largest,
                               tn_error *error) {
    uint64_t fits = known, fails = known > 0 ? 2 * known : 1;
    bool fine = true;
    while (fine) {
        TN_TRY(batch_try(fit, fails, plainly, &fine, error));
        if (!fine) break;
        fits = fails;
        fails *= 2;
        if (fails > BATCH_MOST)
            TN_FAIL(error, TN_E_INVALID, "memory hardly depends on the batch: 2^32 fit");
    }
    while (fails - fits > 1 + fits / BATCH_GRAIN) {
        uint64_t middle = fits + (fails - fits) / 2;
        TN_TRY(batch_try(fit, middle, plainly, &fine, error));
        *(fine ? &fits : &fails) = middle;
    }
    *largest = fits;
    return TN_OK;
}

tn_status cli_fit_batches(cli_fit *fit, uint64_t *plain, uint64_t *fitted, tn_error *error) {
    TN_TRY(batch_largest(fit, true, 0, plain, error));
    TN_TRY(batch_largest(fit, false, *plain, fitted, error));
    if (*fitted == 0) return TN_OK;
    fit->batch = *fitted;
    TN_TRY(cli_fit_open(fit, error));
    return cli_fit_solve(fit, error);
}
