/* fuzz_records.c - any bytes as records with vectors for sizes: read, given objects, verified. */

#include <stdlib.h>
#include <string.h>

#include <tenure/objects.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_object_record *records = NULL;
    char **names = NULL;
    uint32_t count = 0;
    tn_objects_options options = TN_OBJECTS_OPTIONS_INIT;
    tn_objects objects;
    tn_error error = {0};
    tn_status status = tn_object_records_load_memory("input.csv", bytes, size, NULL, &records,
                                                     &names, &count, &options.kind, &error);
    if (status != TN_OK) {
        fuzz_must(records == NULL && error.message[0] != '\0' && error.where[0] != '\0');
        return 0;
    }
    fuzz_must(options.kind > TN_SIZE_BYTES && options.kind <= TN_SIZE_BHWC);
    for (uint32_t i = 0; i < count; i++) fuzz_must(names[i] != NULL);
    status = tn_objects_plan(records, count, &options, &objects, &error);
    fuzz_must(status == TN_OK || status == TN_E_INVALID); /* sizes beyond 2^63 - 1 */
    if (status == TN_OK) {
        fuzz_accept();
        tn_objects_release(&objects);
    }
    tn_object_records_release(NULL, records, names, count);
    return 0;
}
