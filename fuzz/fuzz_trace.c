/* fuzz_trace.c - any bytes as a recorded trace: read, and replayed in a small pool of each kind. */
#include <tenure/pool.h>

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "memory/pool/technique.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_pool_trace *trace;
    if (tn_pool_trace_load_memory("input.csv", bytes, size, NULL, &trace, NULL) != TN_OK) return 0;
    fuzz_accept();
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        tn_pool *pool;
        options.pool = tn_pool_name(p);
        options.capacity = 32 << 20;
        if (tn_pool_create(&options, &pool, NULL) != TN_OK) continue; /* planned needs a plan */
        tn_status status = tn_pool_replay(pool, trace, NULL, NULL);
        if (status != TN_OK && status != TN_E_EXHAUSTED && status != TN_E_NO_MEMORY) abort();
        if (tn__pool_check(pool) != NULL) abort();
        tn_pool_destroy(pool);
    }
    tn_pool_trace_destroy(trace);
    return 0;
}
