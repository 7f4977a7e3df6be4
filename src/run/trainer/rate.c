/* rate.c - learning rates as a function of the number of the step and of the number of steps, so
 * that a resumed run continues with the same rates.
 */
#include <tenure/trainer.h>

#include <math.h>
#include <string.h>

static double rate_constant(double passed) {
    (void)passed;
    return 1;
}

static double rate_linear(double passed) { return 1 - passed; }

static double rate_cosine(double passed) { return 0.5 * (1 + cos(3.14159265358979324 * passed)); }

static const struct {
    const char *name, *summary;
} rate_texts[] = {
#define TN_X(name, text, sentence) {text, sentence},
    TN_SCHEDULE_TABLE(TN_X)
#undef TN_X
};

/* [schedule] fraction of the rate, given the fraction of the steps that has passed */
static double (*const rate_shares[])(double passed) = {rate_constant, rate_linear, rate_cosine};
_Static_assert(sizeof rate_shares / sizeof *rate_shares == TN_SCHEDULE_COUNT, "one for each");

tn_schedule tn_schedule_find(const char *text) {
    uint32_t i = 0;
    while (i < TN_SCHEDULE_COUNT && strcmp(rate_texts[i].name, text) != 0) i++;
    return (tn_schedule)i;
}

const char *tn_schedule_name(tn_schedule schedule) {
    return (unsigned)schedule < TN_SCHEDULE_COUNT ? rate_texts[schedule].name : NULL;
}

const char *tn_schedule_summary(tn_schedule schedule) {
    return (unsigned)schedule < TN_SCHEDULE_COUNT ? rate_texts[schedule].summary : NULL;
}

double tn_rate_at(const tn_rate *rate, uint64_t done) {
    double warmup = (double)rate->warmup;
    if (done < rate->warmup) return rate->rate * ((double)done + 1) / (warmup + 1);
    double passed = ((double)done - warmup) / ((double)rate->total - warmup);
    return rate->rate * rate_shares[rate->schedule](passed);
}
