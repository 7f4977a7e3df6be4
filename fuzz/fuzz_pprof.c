/* fuzz_pprof.c - any bytes as a memory profile: each grouping adds up to the bytes of all samples.
 * Seeds: tests/foreign/sites.py --corpus FOLDER. */
#include <stdlib.h>

#include "fuzz.h"
#include "interop/profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void fuzz_groups(const tn__profile *profile, tn__profile_by by) {
    tn__profile_group *groups;
    uint32_t count;
    uint64_t sum = 0;
    tn__arena names;
    tn__arena_init(&names, NULL);
    if (tn__profile_groups(profile, by, &names, &groups, &count, NULL) != TN_OK) abort();
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && groups[i].bytes > groups[i - 1].bytes) abort();
        if (groups[i].sample >= profile->sample_count) abort();
        sum += groups[i].bytes;
    }
    if (sum != profile->bytes) abort();
    tn__free(&profile->context, groups, ((size_t)count + 1) * sizeof *groups);
    tn__arena_release(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn__profile *profile;
    (void)tn__pprof_recognises("input", bytes, size);
    tn_status status = tn__pprof_read("input", bytes, size, NULL, &profile, NULL);
    if (status == TN_E_INTERNAL) abort();
    if (status != TN_OK) return 0;
    fuzz_accept();
    fuzz_groups(profile, TN__PROFILE_BY_LINE);
    fuzz_groups(profile, TN__PROFILE_BY_KIND);
    fuzz_groups(profile, TN__PROFILE_BY_DEVICE);
    tn__profile_destroy(profile);
    return 0;
}
