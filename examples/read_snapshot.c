/* read_snapshot.c - who held the memory of a GPU when it ran out: a memory snapshot of PyTorch,
 * read without Python.
 *
 *     read_snapshot [SNAPSHOT.pickle]
 *
 * The file is data to this reader: nothing in it is run. At each time that an allocation failed,
 * and at the peak, the lines of the program that hold the most.
 */
#define TENURE_EXPERIMENTAL
#include <tenure/snapshot.h>

#include <inttypes.h>
#include <stdio.h>

static void show(const tn_snapshot_lives *lives, uint64_t time, const char *when) {
    tn_snapshot_group lines[3];
    uint64_t requested, reserved;
    char size[TN_SIZE_TEXT_MAX];
    tn_snapshot_bytes_at(lives, time, &requested, &reserved);
    printf("%s: %s\n", when, tn_size_format(requested, size));
    uint32_t count = tn_snapshot_groups(lives, time, TN_SNAPSHOT_BY_LINE, lines, 3);
    for (uint32_t i = 0; i < count && i < 3; i++)
        printf("  %12" PRIu64 " bytes in %" PRIu64 " blocks  %s\n", lines[i].bytes, lines[i].count,
               lines[i].name);
}

static tn_status show_device(const tn_snapshot *snapshot, uint32_t device, tn_error *error) {
    tn_snapshot_lives *lives;
    uint64_t times[4];
    tn_status status = tn_snapshot_live(snapshot, device, &lives, error);
    if (status != TN_OK) return status;
    uint32_t failures = tn_snapshot_ooms(lives, times, 4);
    for (uint32_t i = 0; i < failures && i < 4; i++) show(lives, times[i], "out of memory");
    show(lives, tn_snapshot_facts_of(lives)->peak_time, "peak");
    tn_snapshot_lives_destroy(lives);
    return TN_OK;
}

int main(int count, char **arguments) {
    const char *path = count > 1 ? arguments[1] : "examples/snapshots/out_of_memory.pickle";
    tn_snapshot *snapshot;
    tn_error error = {0};
    tn_status status = tn_snapshot_load(path, NULL, &snapshot, &error);
    if (status == TN_OK) {
        for (uint32_t i = 0; i < tn_snapshot_device_count(snapshot) && status == TN_OK; i++)
            status = show_device(snapshot, i, &error);
        tn_snapshot_destroy(snapshot);
    }
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    return tn_status_exit_code(status);
}
