/* file.c - a file as a device: memory for swapped data, as large as the disk.
 *
 * All blocks lie in one file without a name, so nothing is left however the process ends. Disk
 * space is allocated with a block, so that a full disk is reported at that time and not by a copy;
 * it is freed with the block if the file system can do that. Blocks follow each other and no offset
 * is used twice, so an address is an offset, and a new block reads as zeros.
 *
 * Written data is sent to the disk at once. If much of it is still in the system's memory, the
 * writer waits for it, so a copy is as fast as the disk and the data does not fill the page cache.
 * Reading drops the pages that were read from the cache. (On a file system in memory, everything
 * stays in memory.)
 *
 * Cost: a copy takes a read or a write for each MiB, within the file both for each FILE_BUFFER
 * bytes; a block O(1), and the disk's time to allocate it.
 */
#include <stdatomic.h>

#include "memory/device/threads.h"
#include "memory/device/ranges.h"

#define FILE_ALIGNMENT 4096u /* a page, so that blocks share no page */
/* address of the first block; it is above 0, because 0 is no valid address */
#define FILE_START ((tn_address)1 << 20)
/* number of written bytes after which the system is asked to write them to the disk */
#define FILE_PIECE ((uint64_t)1 << 20)
#define FILE_AHEAD ((uint64_t)4 << 20) /* limit of written bytes that may wait to reach the disk */
#define FILE_BUFFER ((uint64_t)32 << 10) /* bytes of the buffer for a copy within the file */

typedef struct file_device {
    tn__threads threads;
    tn__ranges file;
    tn_address next;          /* address of the next block; protected by the device's lock */
    _Atomic(uint64_t) on_way; /* number of bytes written since the last wait for the disk */
} file_device;

/* --- blocks --- */

static tn_status file_alloc(void *state, uint64_t size, tn_address *address, tn_error *error) {
    file_device *device = state;
    uint64_t room, next;
    if (!tn__align_up(size, FILE_ALIGNMENT, &room) || !tn__add(device->next, room, &next))
        TN_FAIL(error, TN_E_NO_MEMORY, "no file is that large");
    TN_TRY(tn__ranges_take(&device->file, device->next - FILE_START, room, error));
    *address = device->next;
    device->next = next;
    return TN_OK;
}

static void file_free(void *state, tn_address address, uint64_t size) {
    const file_device *device = state;
    uint64_t room;
    if (tn__align_up(size, FILE_ALIGNMENT, &room))
        tn__ranges_give(&device->file, address - FILE_START, room);
}

/* --- copies --- */

/* Asks the system to write a range of the file to the disk. The thread that reaches the limit waits
 * for all written bytes, including those of other threads. */
static tn_status file_wrote(file_device *device, uint64_t at, uint64_t size, tn_error *error) {
    tn__ranges_begin(&device->file, at, size);
    if (atomic_fetch_add(&device->on_way, size) + size < FILE_AHEAD) return TN_OK;
    atomic_store(&device->on_way, 0);
    return tn__ranges_settle(&device->file, error);
}

static tn_status file_put(void *state, tn_address to, const void *from, uint64_t size,
                          tn_error *error) {
    file_device *device = state;
    for (uint64_t done = 0; done < size;) {
        uint64_t at = to - FILE_START + done, piece = FILE_PIECE - at % FILE_PIECE;
        if (piece > size - done) piece = size - done;
        TN_TRY(tn__ranges_write(&device->file, at, (const char *)from + done, piece, error));
        TN_TRY(file_wrote(device, at, piece, error));
        done += piece;
    }
    return TN_OK;
}

static tn_status file_get(void *state, void *to, tn_address from, uint64_t size, tn_error *error) {
    const file_device *device = state;
    return tn__ranges_read_past_cache(&device->file, from - FILE_START, to, size, error);
}

static tn_status file_copy(void *state, tn_address to, tn_address from, uint64_t size,
                           tn_error *error) {
    char buffer[FILE_BUFFER];
    for (uint64_t done = 0; done < size;) {
        uint64_t piece = size - done < FILE_BUFFER ? size - done : FILE_BUFFER;
        TN_TRY(file_get(state, buffer, from + done, piece, error));
        TN_TRY(file_put(state, to + done, buffer, piece, error));
        done += piece;
    }
    return TN_OK;
}

/* --- opening --- */

static void file_close(void *state) {
    file_device *device = state;
    tn_context context = device->threads.context;
    tn__threads_close(&device->threads);
    tn__ranges_close(&device->file);
    tn__free(&context, device, sizeof *device);
}

static tn_status file_open(const tn_context *context, const tn_device_options *options,
                           uint32_t index, void **state, tn_device_limits *limits,
                           tn_error *error) {
    static const tn__threads_ways ways = {file_put, file_get, file_copy};
    const char *folder = strchr(options->device, ':');
    (void)index;
    file_device *device = tn__alloc_array(context, 1, sizeof *device);
    if (device == NULL) return tn__no_memory(error, "a device");
    tn_status status =
        tn__threads_open(&device->threads, context, &ways, options->link_bytes_per_s, error);
    if (status != TN_OK) {
        tn__free(context, device, sizeof *device);
        return status;
    }
    device->next = FILE_START;
    status = tn__ranges_temporary(folder != NULL ? folder + 1 : NULL, 0, &device->file, error);
    if (status != TN_OK) {
        file_close(device);
        return status;
    }
    limits->alignment = FILE_ALIGNMENT;
    limits->link_bytes_per_s = options->link_bytes_per_s;
    /* if the free space cannot be read, the capacity stays unknown */
    (void)tn__ranges_free(&device->file, &limits->capacity);
    *state = device;
    return TN_OK;
}

const tn__driver tn__device_file = {
    .name = "file",
    .summary = "an unnamed file in $TMPDIR or /tmp; file:DIR in that folder",
    .takes_text = true,
    .open = file_open,
    .close = file_close,
    .alloc = file_alloc,
    .free = file_free,
    TN__THREADS_DRIVER,
};
