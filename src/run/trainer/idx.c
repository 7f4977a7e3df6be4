/* idx.c - reads files of idx format: a head of magic number and extents, in big-endian order, and
 * then the elements, of one byte each. */
#include "run/trainer/data.h"

#ifndef TENURE_MINIMAL
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* The size that a file states is limited to IDX_RATIO times the size of the file plus IDX_FREE,
 * because an untrusted file must not decide how much memory is used, and gzip packs zeros 1,032 to
 * 1. Photographs and text pack far less than 100 to 1; a file of constants is accepted up to
 * IDX_FREE; a file without gzip never reaches the limit. */
#define IDX_RATIO 100u
#define IDX_FREE (UINT64_C(64) << 20)
/* the data is read in steps of this many bytes, so a file with a false head costs no more memory
 * than this beyond its contents */
#define IDX_STEP (UINT64_C(1) << 26)

static uint32_t idx_big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Reports why zlib returned fewer bytes than were requested. */
static tn_status idx_fail(gzFile file, const char *path, tn_error *error) {
    int why = Z_OK;
    (void)gzerror(file, &why);
    if (why == Z_MEM_ERROR) return tn__no_memory(error, path);
    if (why == Z_ERRNO)
        return tn__where(error, tn__fail_system(error, errno, "read"), "%.200s", path);
    TN_FAIL(error, TN_E_INVALID, "%.200s is cut short or damaged", path);
}

static tn_status idx_unpack(gzFile file, const char *path, void *bytes, size_t size,
                            tn_error *error) {
    int got = gzread(file, bytes, (unsigned)size);
    return got < 0 || (size_t)got != size ? idx_fail(file, path, error) : TN_OK;
}

static tn_status idx_head(gzFile file, const char *path, uint64_t most, tn_array *array,
                          tn_error *error) {
    uint8_t head[4 + 4 * 4];
    TN_TRY(idx_unpack(file, path, head, 4, error));
    if (head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] < 1 || head[3] > 4)
        TN_FAIL(error, TN_E_INVALID, "%.200s is not an idx file of bytes", path);
    array->dtype = TN_UINT8;
    array->rank = head[3];
    TN_TRY(idx_unpack(file, path, head + 4, 4 * (size_t)array->rank, error));
    array->bytes = 1;
    for (uint32_t d = 0; d < array->rank; d++) {
        array->shape[d] = idx_big_endian(head + 4 + 4 * d);
        array->bytes = tn__mul_sat(array->bytes, (uint64_t)array->shape[d]);
    }
    if (array->bytes > most)
        TN_FAIL(error, TN_E_INVALID,
                "%.200s states %llu bytes, more than %llu, which are taken of a packed file of its "
                "size; unpack it",
                path, (unsigned long long)array->bytes, (unsigned long long)most);
    return TN_OK;
}

/* Reads the data of a file and checks that nothing follows it. The end of the file is read as well,
 * because the checksum is there. *at: set to the number of bytes allocated for the data. */
static tn_status idx_body(gzFile file, const char *path, const tn_context *context, tn_array *array,
                          uint64_t *at, tn_error *error) {
    uint8_t more;
    while (*at < array->bytes) {
        uint64_t step = array->bytes - *at < IDX_STEP ? array->bytes - *at : IDX_STEP;
        void *grown = tn__resize(context, array->data, *at, *at + step);
        if (grown == NULL) return tn__no_memory(error, path);
        array->data = grown;
        *at += step;
        TN_TRY(idx_unpack(file, path, (uint8_t *)grown + *at - step, step, error));
    }
    int got = gzread(file, &more, 1);
    if (got > 0) TN_FAIL(error, TN_E_INVALID, "%.200s is longer than its head says", path);
    return got < 0 ? idx_fail(file, path, error) : TN_OK;
}

/* Opens a file of a data set, without following a link out of its folder unless `follow_links`: the
 * user names the folder of a data set, but not its files. *most: set to the largest size that the
 * file may state. */
static tn_status idx_open(const char *path, bool follow_links, gzFile *file, uint64_t *most,
                          tn_error *error) {
    struct stat facts = {0};
    int descriptor = tn__open_beneath(path, tn__base_name(path), follow_links,
                                      O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (descriptor < 0 && errno == EXDEV) return tn__outside(path, tn__base_name(path), error);
    if (descriptor >= 0 && (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))) {
        close(descriptor);
        TN_FAIL(error, TN_E_INVALID, "%.200s is not a regular file", path);
    }
    *file = descriptor >= 0 ? gzdopen(descriptor, "rb") : NULL;
    if (*file == NULL) {
        int reason = errno;
        if (descriptor >= 0) close(descriptor);
        if (descriptor >= 0 || reason == ENOMEM) return tn__no_memory(error, path);
        TN_FAIL(error, TN_E_IO,
                "cannot open %.200s: %s; Debian has Fashion-MNIST in the package "
                "dataset-fashion-mnist",
                path, strerror(reason));
    }
    *most = tn__add_sat(IDX_FREE, tn__mul_sat((uint64_t)facts.st_size, IDX_RATIO));
    return TN_OK;
}

tn_status tn__idx_load(const char *path, const tn_context *given, tn_array *array,
                       tn_error *error) {
    tn_context context = tn__context(given);
    tn_array read = {0};
    uint64_t room = 0;
    uint64_t most = IDX_FREE;
    gzFile file;
    TN_TRY(idx_open(path, context.follow_links, &file, &most, error));
    tn_status status = idx_head(file, path, most, &read, error);
    if (status == TN_OK) status = idx_body(file, path, &context, &read, &room, error);
    int closed = gzclose(file);
    if (status == TN_OK && closed != Z_OK)
        status = tn__fail(error, TN_E_INVALID, "%.200s is cut short or damaged", path);
    if (status == TN_OK)
        *array = read;
    else
        tn__free(&context, read.data, room);
    return status;
}
#else
tn_status tn__idx_load(const char *path, const tn_context *context, tn_array *array,
                       tn_error *error) {
    (void)context;
    (void)array;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%.200s: this build reads no packed data; it needs zlib1g-dev",
            path);
}
#endif
