/* fit_batch.c - the largest batch that fits: doubling, then bisection.
 *
 * The search for the batch accepts any program that fits, which is quick. Such a search can find
 * smaller programs than the smallest of `tn_fit`, which then has no answer for that batch. In that
 * case a second search goes down from there with full answers.
 */
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "cli/fit.h"

#define BATCH_MOST (UINT64_C(1) << 32)
#define BATCH_GRAIN 256u /* bisection stops at this fraction */

typedef struct batch_search {
    const cli_fit *fit; /* the original options */
    cli_fit best;       /* the largest batch that fits, with its answer; or zero */
    bool plainly;       /* without fitting */
    bool carefully;     /* require a full answer, not any program that fits */
} batch_search;

static bool batch_is_none(tn_status status) {
    return status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
}

/* Whether a batch has a program that fits; stores it in s->best. */
static tn_status batch_try(batch_search *s, uint64_t batch, bool *fits, tn_error *error) {
    cli_fit trial = *s->fit;
    trial.batch = batch;
    trial.options.any = !s->carefully;
    if (s->plainly) trial.options.pass = "none";
    tn_status status = cli_fit_open(&trial, error);
    if (status == TN_OK) status = cli_fit_solve(&trial, error);
    bool none = batch_is_none(status);
    none |= status == TN_E_STOPPED && cli_interrupted();
    *fits = status == TN_OK;
    if (*fits) {
        cli_fit_release(&s->best);
        s->best = trial;
    } else {
        cli_fit_release(&trial);
    }
    return none ? TN_OK : status;
}

/* Bisects between a batch that fits, or 0, and one that does not. */
static tn_status batch_halve(batch_search *s, uint64_t fits, uint64_t fails, uint64_t *largest,
                             tn_error *error) {
    while (fails - fits > 1 + fits / BATCH_GRAIN && !cli_interrupted()) {
        uint64_t middle = fits + (fails - fits) / 2;
        bool fine;
        TN_TRY(batch_try(s, middle, &fine, error));
        *(fine ? &fits : &fails) = middle;
    }
    *largest = fits;
    return TN_OK;
}

/* Starts from a batch that fits, or 0. After an interruption the largest so far is the result. */
static tn_status batch_largest(batch_search *s, uint64_t known, uint64_t *largest,
                               tn_error *error) {
    uint64_t fits = known, fails = known > 0 ? 2 * known : 1;
    bool fine = !cli_interrupted();
    while (fine) {
        TN_TRY(batch_try(s, fails, &fine, error));
        if (!fine) break;
        fits = fails;
        fails *= 2;
        if (fails > BATCH_MOST)
            TN_FAIL(error, TN_E_INVALID,
                    "a batch of 2^32 fits, so memory does not depend on the batch; check that the "
                    "first input has a batch dimension");
    }
    return batch_halve(s, fits, fails, largest, error);
}

/* Searches below a batch without an answer. The result is near, so the first steps are small. */
static tn_status batch_below(batch_search *s, uint64_t known, uint64_t *largest, tn_error *error) {
    uint64_t fails = *largest, step = 1 + fails / BATCH_GRAIN;
    s->carefully = true;
    while (fails - known > step && !cli_interrupted()) {
        bool fine;
        TN_TRY(batch_try(s, fails - step, &fine, error));
        if (fine) return batch_halve(s, fails - step, fails, largest, error);
        fails -= step;
        step *= 2;
    }
    return batch_halve(s, known, fails, largest, error);
}

/* --- the answer --- */

static tn_status batch_take(cli_fit *fit, batch_search *s, tn_error *error) {
    const tn_fit_options options = fit->options;
    if (s->best.result_count == 0)
        TN_FAIL(error, TN_E_STOPPED, "stopped before a batch that fits was found; allow more time");
    *fit = s->best;
    fit->options.any = options.any;
    fit->options.pass = options.pass;
    s->best = (cli_fit){0};
    return TN_OK;
}

static tn_status batch_solve(cli_fit *fit, uint64_t batch, tn_error *error) {
    fit->batch = batch;
    TN_TRY(cli_fit_open(fit, error));
    return cli_fit_solve(fit, error);
}

/* The answer for the largest batch: searched as if that batch had been requested, or the best so
 * far after an interruption. */
static tn_status batch_answer(cli_fit *fit, batch_search *s, uint64_t plain, uint64_t *fitted,
                              tn_error *error) {
    bool searched = false;
    if (!cli_interrupted() && *fitted > 0) {
        tn_status status = batch_solve(fit, *fitted, error);
        if (!batch_is_none(status) || cli_interrupted()) return status;
        cli_fit_release(fit);
        *fit = *s->fit;
        searched = true;
        TN_TRY(batch_below(s, plain, fitted, error));
    }
    if (cli_interrupted()) {
        TN_TRY(batch_take(fit, s, error));
        *fitted = fit->batch;
        cli_note("the search was stopped; larger batches may fit");
        return TN_OK;
    }
    if (*fitted == 0) return TN_OK;
    return searched && *fitted > plain ? batch_take(fit, s, error)
                                       : batch_solve(fit, *fitted, error);
}

tn_status cli_fit_batches(cli_fit *fit, uint64_t *plain, uint64_t *fitted, tn_error *error) {
    const cli_fit asked = *fit;
    batch_search search = {.fit = &asked, .plainly = true};
    tn_status status = batch_largest(&search, 0, plain, error);
    search.plainly = false;
    if (status == TN_OK) status = batch_largest(&search, *plain, fitted, error);
    if (status == TN_OK) status = batch_answer(fit, &search, *plain, fitted, error);
    cli_fit_release(&search.best);
    return status;
}
