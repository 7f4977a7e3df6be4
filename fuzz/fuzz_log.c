/* fuzz_log.c - any bytes as a recorded run, and what was read replayed in little memory.
 *
 * What must hold: an error that says where and nothing made, or a log that every policy replays by
 * bytes and in an arena, within the budget.
 */
#include <stdlib.h>
#include <string.h>

#include <tenure/eager.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void log_replay(const tn_evict_log *log, uint64_t budget) {
    for (uint32_t i = 0; i < 2 * tn_evict_policy_count(); i++) {
        tn_evict_options options = TN_EVICT_OPTIONS_INIT;
        tn_evict_outcome outcome;
        options.policy = tn_evict_policy_name(i / 2);
        options.budget = budget;
        options.addresses = i % 2 == 1;
        options.overhead_max = 3;
        options.link_bytes_per_s = 1000000;
        tn_status status = tn_evict_simulate(log, &options, &outcome, NULL);
        fuzz_must(status == TN_OK || status == TN_E_INVALID); /* a value that was overwritten */
        fuzz_must(status != TN_OK || outcome.counts.peak_bytes <= budget);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_evict_log *log = NULL;
    tn_error error = {0};
    uint64_t peak;
    if (size > 1 << 14) return 0;
    if (tn_evict_log_parse(NULL, bytes, size, "fuzz", &log, &error) != TN_OK) {
        fuzz_must(log == NULL && error.message[0] != '\0' && strncmp(error.where, "fuzz", 4) == 0);
        return 0;
    }
    fuzz_accept();
    fuzz_must(tn_evict_plain_peak(log, &peak, NULL) == TN_OK);
    log_replay(log, peak);
    log_replay(log, peak / 2);
    tn_evict_log_destroy(log);
    return 0;
}
