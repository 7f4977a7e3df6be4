/* fuzz_snapshot.c - any bytes as a memory snapshot: read, followed, added up, served by a pool. */
#include <tenure/snapshot.h>

#include <stdlib.h>

#include "fuzz.h"
#include "memory/pool/technique.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void fuzz_serve(const tn_snapshot_lives *lives) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool;
    options.pool = "caching";
    options.capacity = 1 << 30;
    if (tn_pool_create(&options, &pool, NULL) != TN_OK) return;
    tn_status status = tn_snapshot_serve(lives, pool, NULL);
    if (status != TN_OK && status != TN_E_EXHAUSTED && status != TN_E_NO_MEMORY) abort();
    if (tn__pool_check(pool) != NULL) abort();
    tn_pool_destroy(pool);
}

/* Sums that are made in different ways must be equal, whatever the file says. */
static void fuzz_device(const tn_snapshot *snapshot, uint32_t device) {
    tn_snapshot_lives *lives;
    tn_snapshot_group groups[64];
    tn_snapshot_hole holes[4];
    uint64_t requested, reserved, times[4], sum = 0;
    tn_pool_trace *trace;
    tn_problem *problem;
    if (tn_snapshot_live(snapshot, device, &lives, NULL) != TN_OK) return;
    fuzz_accept();
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(lives);
    tn_snapshot_bytes_at(lives, facts->peak_time, &requested, &reserved);
    if (requested != facts->peak_requested) abort();
    for (int by = 0; by < 3; by++)
        (void)tn_snapshot_groups(lives, facts->event_count, (tn_snapshot_by)by, groups, 64);
    uint32_t count = tn_snapshot_groups(lives, facts->peak_time, TN_SNAPSHOT_BY_LINE, groups, 64);
    for (uint32_t i = 0; i < count && i < 64; i++) sum += groups[i].bytes;
    if (count <= 64 && sum != requested) abort();
    (void)tn_snapshot_ooms(lives, times, 4);
    uint64_t free_bytes = 0, waiting = 0;
    (void)tn_snapshot_holes(snapshot, device, holes, 4, NULL, &free_bytes);
    tn_snapshot_causes causes = tn_snapshot_hole_causes(snapshot, device);
    if (tn__add_sat(tn__add_sat(causes.hard, causes.soft), causes.stream) != free_bytes) abort();
    count = tn_snapshot_waiting(lives, groups, 64);
    for (uint32_t i = 0; i < count && i < 64; i++) waiting += groups[i].bytes;
    if (count <= 64 && waiting != facts->waiting_bytes) abort();
    if (tn_snapshot_trace(lives, &trace, NULL) == TN_OK) tn_pool_trace_destroy(trace);
    if (tn_snapshot_problem(lives, 512, NULL, &problem, NULL) == TN_OK) tn_problem_destroy(problem);
    fuzz_serve(lives);
    tn_snapshot_lives_destroy(lives);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_snapshot *snapshot;
    if (tn_snapshot_load_memory("input", bytes, size, NULL, &snapshot, NULL) != TN_OK) return 0;
    uint32_t devices = tn_snapshot_device_count(snapshot);
    for (uint32_t i = 0; i < devices && i < 8; i++) fuzz_device(snapshot, i);
    tn_snapshot_destroy(snapshot);
    return 0;
}
