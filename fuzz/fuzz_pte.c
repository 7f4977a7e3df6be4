/* fuzz_pte.c - any bytes as an ExecuTorch program: read, verified, planned, written again.
 *
 * What is written is read again and compared by tn__foreign_rewrite itself. Seeds:
 * tests/foreign/pte.py --corpus FOLDER. */
#include "fuzz_foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_foreign *foreign;
    tn__span file = {bytes, size};
    tn_status status = tn__pte_read("f.pte", file, NULL, NULL, &foreign, NULL);
    fuzz_must(status != TN_E_INTERNAL);
    if (status != TN_OK) return 0;
    fuzz_holders(foreign);
    fuzz_plan(foreign, file);
    tn_foreign_destroy(foreign);
    return 0;
}
