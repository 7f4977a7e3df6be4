/* file.c - a file as a device: memory for what is put aside, as large as the disk.
 *
 * All blocks lie in one file without a name: whatever ends us, nothing is left behind. Room on the
 * disk is taken with a block, so that a full disk is told then and not by a copy; it is given back
 * with it, where the file system can. Blocks follow each other and no offset is used twice, so that
 * an address is an offset, and a new block reads as zeros.
 *
 * What is written is on its way to the disk at once, and waited for where much of it is still in
 * the system's memory: a copy is then as fast as the disk, and memory is not taken by another name.
 * Reading gives back what it has read. (On a file system that is memory itself all is memory.)
 *
 * Cost: a read or a write for each MiB of a copy; a block O(1), and what the disk takes to find it.
 */
#include <stdatomic.h>

#include "device/threads.h"
#include "device/ranges.h"

#define FILE_ALIGNMENT 4096u             /* a page: blocks do not share any */
#define FILE_START ((tn_address)1 << 20) /* so that no address is 0 */
#define FILE_PIECE ((uint64_t)1 << 20)   /* that is written before the disk begins with it */
#define FILE_AHEAD ((uint64_t)4 << 20)   /* that may be on its way */
#define FILE_BUFFER ((uint64_t)32 << 10) /* of a copy within the file */

typedef struct file_device {
    tn__threads threads;
    tn__ranges file;
    tn_address next;          /* of the next block; under the lock of the device */
    _Atomic(uint64_t) on_way; /* bytes written since the disk was waited for */
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

/* Who comes to the bound waits for all that was written, also by others. */
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
    (void)tn__ranges_free(&device->file, &limits->capacity); /* else none is known */
    *state = device;
    return TN_OK;
}

const tn__driver tn__device_file = {
    .name = "file",
    .summary = "a file without a name in $TMPDIR or /tmp; file:DIR in that folder",
    .takes_text = true,
    .open = file_open,
    .close = file_close,
    .alloc = file_alloc,
    .free = file_free,
    TN__THREADS_DRIVER,
};
