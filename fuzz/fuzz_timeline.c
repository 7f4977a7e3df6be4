/* fuzz_timeline.c - any bytes as what another rank says it did.
 *
 * The first byte is the rank that they are unpacked for. What must hold: a timeline that can be
 * joined, measured, packed again and destroyed, or an error with a message.
 */
#include <stdlib.h>

#include <tenure/program.h>

#include "fuzz.h"
#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tn_timeline *line = NULL;
    tn_error error = {0};
    void *bytes;
    uint64_t packed;
    if (size == 0) return 0;
    uint32_t rank = data[0] % 3;
    fuzz_must(tn_timeline_create(NULL, "m.onnx", 2, &line, &error) == TN_OK);
    tn_status status = tn_timeline_unpack(line, rank, data + 1, size - 1, &error);
    fuzz_must(status != TN_E_INTERNAL);
    fuzz_must(status == TN_OK || (error.status == status && error.message[0]));
    if (status == TN_OK) {
        fuzz_accept();
        status = tn_timeline_meet(line, &error);
        fuzz_must(status == TN_OK);
        for (uint32_t kind = 0; kind < TN_TIMELINE_KINDS; kind++)
            (void)tn_timeline_measure(line, rank, (tn_timeline_kind)kind);
        fuzz_must(tn_timeline_pack(line, rank, &bytes, &packed, &error) == TN_OK);
        tn_timeline_release(line, bytes, packed);
    }
    tn_timeline_destroy(line);
    return 0;
}
