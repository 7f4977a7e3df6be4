/* fuzz_idx.c - any bytes as an idx file, packed by gzip or not.
 *
 * What must hold: an array of bytes whose size is the product of its extents, or an error with a
 * message and nothing allocated.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "run/trainer/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    tn_context context = tn__context(NULL);
    tn_array array = {0};
    tn_error error = {0};
    uint64_t sum = 0, bytes = 1;
    int descriptor = memfd_create("idx", 0);
    fuzz_must(descriptor >= 0 && write(descriptor, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    context.follow_links = true; /* the path is a link out of its folder */
    tn_status status = tn__idx_load(path, &context, &array, &error);
    close(descriptor);
    if (status != TN_OK) {
        fuzz_must(error.status == status && error.message[0] && array.data == NULL);
        return 0;
    }
    fuzz_accept();
    for (uint32_t d = 0; d < array.rank; d++) bytes *= (uint64_t)array.shape[d];
    fuzz_must(array.rank >= 1 && array.rank <= 4 && array.bytes == bytes);
    for (uint64_t i = 0; i < bytes; i++) sum += ((const uint8_t *)array.data)[i];
    volatile uint64_t sink = sum; /* so that the reading is not left out */
    (void)sink;
    tn_array_release(&array, NULL);
    return 0;
}
