/* fuzz_shards.c - any bytes as a checkpoint that ranks have written together: the file that names
 * its parts, and one of these.
 *
 * The first two bytes are the size of the first file; what is behind it is the second, under the
 * name that a first part has. They are read as they are, and with hashes and sizes that are right,
 * so that what stands behind these is read, too. What must hold: tensors with terminated names
 * whose contents can be read, or an error with a message.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "run/trainer/checkpoint.h"

#define FUZZ_HASH_AT offsetof(tn__checkpoint_head, hash)
#define FUZZ_PART "f.ck.1.0-of-1"

static char shards_folder[] = "/tmp/tenure-fuzz-XXXXXX";

static const char *shards_path(const char *name) {
    static char paths[2][64];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", shards_folder, name);
    return path;
}

static void shards_leave(void) {
    (void)unlink(shards_path("f.ck"));
    (void)unlink(shards_path(FUZZ_PART));
    (void)rmdir(shards_folder);
}

static void shards_write(const char *name, const uint8_t *bytes, size_t size) {
    const char *path = shards_path(name);
    (void)unlink(path); /* a file that is cut off is written to disk when it is closed */
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fuzz_must(file >= 0 && write(file, bytes, size) == (ssize_t)size && close(file) == 0);
}

static void shards_look(const tn_checkpoint *checkpoint) {
    uint64_t sum = 0;
    fuzz_accept();
    for (uint32_t i = 0; i < tn_checkpoint_count(checkpoint); i++) {
        const tn_kept *kept = tn_checkpoint_tensor(checkpoint, i);
        fuzz_must(kept->role <= TN_ROLE_STATE && kept->rank <= TN_RANK_MAX);
        sum += strlen(kept->name);
        for (uint64_t k = 0; k < kept->size; k++) sum += kept->bytes[k];
    }
    volatile uint64_t sink = sum; /* so that the reading is not left out */
    (void)sink;
}

static void shards_try(const uint8_t *index, size_t named, const uint8_t *part, size_t size) {
    tn_checkpoint *checkpoint = NULL;
    tn_error error = {0};
    shards_write("f.ck", index, named);
    shards_write(FUZZ_PART, part, size);
    tn_status status = tn_checkpoint_open(shards_path("f.ck"), NULL, &checkpoint, &error);
    fuzz_must(status == TN_OK || (error.status == status && error.message[0]));
    fuzz_must((status == TN_OK) == (checkpoint != NULL));
    if (status == TN_OK) shards_look(checkpoint);
    tn_checkpoint_close(checkpoint);
}

static void shards_mend(uint8_t *bytes, size_t size) {
    if (size < FUZZ_HASH_AT + 8) return;
    uint64_t hash = tn__checkpoint_hash(bytes, size);
    memcpy(bytes + FUZZ_HASH_AT, &hash, 8);
}

/* Each entry that names the part has its size and hash. */
static void shards_mend_entries(uint8_t *index, size_t named, const uint8_t *part, size_t size) {
    size_t name = sizeof FUZZ_PART, at = FUZZ_HASH_AT + 8; /* the shortest head ends there */
    tn__shard_entry entry = {.bytes = size};
    if (size >= FUZZ_HASH_AT + 8) memcpy(&entry.hash, part + FUZZ_HASH_AT, 8);
    for (; at + name + sizeof entry <= named; at++)
        if (memcmp(index + at, FUZZ_PART, name) == 0)
            memcpy(index + at + name, &entry, sizeof entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool there;
    if (!there) {
        fuzz_must(mkdtemp(shards_folder) != NULL);
        atexit(shards_leave);
        there = true;
    }
    size_t named = size >= 2 ? (size_t)data[0] | (size_t)data[1] << 8 : 0;
    if (size < 2 || named > size - 2) return 0;
    shards_try(data + 2, named, data + 2 + named, size - 2 - named);
    uint8_t *mended = malloc(size);
    fuzz_must(mended != NULL);
    memcpy(mended, data, size);
    shards_mend(mended + 2 + named, size - 2 - named);
    shards_mend_entries(mended + 2, named, mended + 2 + named, size - 2 - named);
    shards_mend(mended + 2, named);
    shards_try(mended + 2, named, mended + 2 + named, size - 2 - named);
    free(mended);
    return 0;
}
