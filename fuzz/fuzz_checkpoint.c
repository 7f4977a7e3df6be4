/* fuzz_checkpoint.c - any bytes as a checkpoint of training, as they are and with a hash that is
 * right, so that what stands behind it is read, too.
 *
 * What must hold: tensors with terminated names whose contents lie inside the bytes, or an error
 * with a message.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "graph/element.h"
#include "run/trainer/checkpoint.h"

#define FUZZ_HASH_AT 72u /* behind magic, version, count and tn_checkpoint_run */

static void checkpoint_look(const tn_checkpoint *checkpoint) {
    uint64_t sum = 0;
    fuzz_accept();
    for (uint32_t i = 0; i < tn_checkpoint_count(checkpoint); i++) {
        const tn_kept *kept = tn_checkpoint_tensor(checkpoint, i);
        fuzz_must(kept->role <= TN_ROLE_STATE && kept->rank <= TN_RANK_MAX);
        fuzz_must(tn_checkpoint_find(checkpoint, kept->name) != NULL ||
                  kept->role == TN_ROLE_STATE);
        for (uint64_t k = 0; k < kept->size; k++) sum += kept->bytes[k];
        sum += tn__first_odd(kept->bytes, kept->size, kept->dtype);
    }
    volatile uint64_t sink = sum; /* so that the reading is not left out */
    (void)sink;
}

static void checkpoint_try(const uint8_t *data, size_t size) {
    tn_checkpoint *checkpoint = NULL;
    tn_error error = {0};
    tn_status status = tn_checkpoint_read("f.ck", data, size, NULL, &checkpoint, &error);
    fuzz_must(status == TN_OK || (error.status == status && error.message[0]));
    fuzz_must((status == TN_OK) == (checkpoint != NULL));
    if (status == TN_OK) checkpoint_look(checkpoint);
    tn_checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    checkpoint_try(data, size);
    if (size < FUZZ_HASH_AT + 8) return 0;
    uint8_t *mended = malloc(size);
    fuzz_must(mended != NULL);
    memcpy(mended, data, size);
    uint64_t hash = tn__checkpoint_hash(data, size);
    memcpy(mended + FUZZ_HASH_AT, &hash, 8);
    checkpoint_try(mended, size);
    free(mended);
    return 0;
}
