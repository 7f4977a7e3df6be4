/* fuzz_json.c - any bytes as a problem in JSON: read, written, read again, planned when small. */

#include <tenure/plan.h>

#include "fuzz_problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    return fuzz_problem("input.json", bytes, size);
}
