/* fuzz_node_stats.c - any text as node memory statistics of ONNX Runtime: the rows are sorted.
 * Seeds: tests/foreign/sites.py --corpus FOLDER. */
#include <stdlib.h>

#include "fuzz.h"
#include "interop/profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn__node_stats *stats;
    (void)tn__node_stats_recognises(bytes, size);
    tn_status status = tn__node_stats_read("input", bytes, size, NULL, &stats, NULL);
    if (status == TN_E_INTERNAL) abort();
    if (status != TN_OK) return 0;
    fuzz_accept();
    if (stats->count == 0) abort();
    for (size_t i = 1; i < stats->count; i++)
        if (tn__add_sat(stats->rows[i].outputs, stats->rows[i].scratch) >
            tn__add_sat(stats->rows[i - 1].outputs, stats->rows[i - 1].scratch))
            abort();
    tn__node_stats_destroy(stats);
    return 0;
}
