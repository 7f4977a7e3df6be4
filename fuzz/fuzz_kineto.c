/* fuzz_kineto.c - any text as a trace of PyTorch's profiler: sums of its live ranges agree.
 * Seeds: tests/foreign/kineto.py --corpus FOLDER. */
#include <stdlib.h>

#include "fuzz.h"
#include "interop/snapshot/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void fuzz_device(const tn_snapshot *snapshot, uint32_t device) {
    tn_snapshot_lives *lives;
    tn_snapshot_group groups[64];
    tn_pool_trace *trace;
    uint64_t requested, reserved, sum = 0;
    if (tn__snapshot_device_name(snapshot, device) == NULL) abort();
    if (tn_snapshot_live(snapshot, device, &lives, NULL) != TN_OK) return;
    fuzz_accept();
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(lives);
    tn_snapshot_bytes_at(lives, facts->peak_time, &requested, &reserved);
    if (requested != facts->peak_requested || reserved != 0) abort();
    uint32_t count = tn_snapshot_groups(lives, facts->peak_time, TN_SNAPSHOT_BY_LINE, groups, 64);
    for (uint32_t i = 0; i < count && i < 64; i++) sum += groups[i].bytes;
    if (count <= 64 && sum != requested) abort();
    if (tn_snapshot_trace(lives, &trace, NULL) == TN_OK) tn_pool_trace_destroy(trace);
    tn_snapshot_lives_destroy(lives);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_snapshot *snapshot;
    if (!tn__kineto_is(bytes, size)) return 0;
    tn_status status = tn_snapshot_load_memory("input", bytes, size, NULL, &snapshot, NULL);
    if (status == TN_E_INTERNAL) abort();
    if (status != TN_OK) return 0;
    uint32_t devices = tn_snapshot_device_count(snapshot);
    if (devices == 0) abort();
    for (uint32_t i = 0; i < devices && i < 8; i++) fuzz_device(snapshot, i);
    tn_snapshot_destroy(snapshot);
    return 0;
}
