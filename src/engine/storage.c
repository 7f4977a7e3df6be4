/* storage.c - measures how fast weights can be read from their files.
 * Cost: reading at most two stretches, past the system's cache.
 */
#include <tenure/engine.h>

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "memory/device/ranges.h"

#define STORAGE_PIECE ((uint64_t)16 << 20)
#define STORAGE_STRETCH ((uint64_t)128 << 20)

/* Reads [from, to) piece by piece, as a run reads weights that follow each other. *seconds is
 * lowered to the duration. */
static tn_status storage_stretch(const tn__ranges *file, uint64_t from, uint64_t to, uint8_t *bytes,
                                 double *seconds, tn_error *error) {
    tn__ranges_forget(file, from, to - from);
    double start = tn__clock_s();
    for (uint64_t at = from; at < to; at += STORAGE_PIECE) {
        uint64_t size = to - at < STORAGE_PIECE ? to - at : STORAGE_PIECE;
        TN_TRY(tn__ranges_read_past_cache(file, at, bytes, size, error));
    }
    double took = tn__clock_s() - start;
    if (took < *seconds) *seconds = took;
    return TN_OK;
}

/* Takes the faster of two stretches, one in each half of the file, because other work on the
 * machine can only slow a reading down. Operators are measured in the same way. */
static tn_status storage_sample(const tn__ranges *file, uint8_t *bytes, double *bytes_per_s,
                                tn_error *error) {
    uint64_t half = file->size / 2, size = file->size - half;
    double seconds = INFINITY;
    if (size > STORAGE_STRETCH) size = STORAGE_STRETCH;
    memset(bytes, 0, STORAGE_PIECE); /* touch the pages before the clock starts */
    if (size <= half) TN_TRY(storage_stretch(file, 0, size, bytes, &seconds, error));
    TN_TRY(storage_stretch(file, half, half + size, bytes, &seconds, error));
    *bytes_per_s = (double)size / (seconds > 1e-9 ? seconds : 1e-9);
    return TN_OK;
}

/* Writes a file of zeros in a folder, to disk, so that the system's cache can drop it. */
static tn_status storage_write(const char *folder, uint8_t *bytes, tn__ranges *file,
                               tn_error *error) {
    TN_TRY(tn__ranges_temporary(folder, STORAGE_STRETCH, file, error));
    memset(bytes, 0, STORAGE_PIECE);
    for (uint64_t at = 0; at < STORAGE_STRETCH; at += STORAGE_PIECE)
        TN_TRY(tn__ranges_write(file, at, bytes, STORAGE_PIECE, error));
    return tn__ranges_settle(file, error);
}

tn_status tn_storage_measure(const char *path, double *bytes_per_s, tn_error *error) {
    struct stat facts;
    tn__ranges file = {.descriptor = -1};
    uint8_t *bytes = malloc(STORAGE_PIECE);
    if (bytes == NULL) return tn__no_memory(error, path);
    bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    tn_status status =
        folder ? storage_write(path, bytes, &file, error) : tn__ranges_open(path, &file, error);
    if (status == TN_OK && file.size == 0)
        status = tn__where(error, tn__fail(error, TN_E_INVALID, "an empty file has no speed"), "%s",
                           path);
    if (status == TN_OK) status = storage_sample(&file, bytes, bytes_per_s, error);
    free(bytes);
    tn__ranges_close(&file);
    return status;
}
