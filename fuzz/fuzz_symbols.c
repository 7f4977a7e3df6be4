/* fuzz_symbols.c - any bytes as a file of code in which functions are looked up, as the command
 * watch does for the mappings of another process.
 *
 * The first two bytes are the offset of the mapping in the file. What must hold: every address of
 * the mapping gets a name that ends, of at most 200 bytes, or a number; other addresses get none.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fuzz.h"
#include "interop/watch/table.h"

#define SYMBOLS_FIRST UINT64_C(0x10000)
#define SYMBOLS_BYTES UINT64_C(0x1000)
#define SYMBOLS_STEP 61u

static char symbols_folder[] = "/tmp/tenure-fuzz-XXXXXX";
static char symbols_path[64];

static void symbols_leave(void) {
    (void)unlink(symbols_path);
    (void)rmdir(symbols_folder);
}

static void symbols_begin(void) {
    fuzz_must(mkdtemp(symbols_folder) != NULL && atexit(symbols_leave) == 0);
    snprintf(symbols_path, sizeof symbols_path, "%s/code", symbols_folder);
}

static void symbols_put(const uint8_t *data, size_t size) {
    (void)unlink(symbols_path);
    int file = open(symbols_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fuzz_must(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

/* Adds one mapping, as a line of /proc/PID/maps. */
static void symbols_map(tn__watch_symbols *symbols, unsigned offset) {
    char line[256];
    struct stat facts;
    fuzz_must(stat(symbols_path, &facts) == 0);
    int size = snprintf(
        line, sizeof line, "%llx-%llx r-xp %x %x:%x %llu %s\n", (unsigned long long)SYMBOLS_FIRST,
        (unsigned long long)(SYMBOLS_FIRST + SYMBOLS_BYTES), offset, major(facts.st_dev),
        minor(facts.st_dev), (unsigned long long)facts.st_ino, symbols_path);
    tn__watch_symbols_add(symbols, line, (size_t)size);
    fuzz_must(!tn__watch_symbols_are_missing(symbols));
}

static const char *symbols_find(tn__watch_symbols *symbols, uint64_t address) {
    const char *line = NULL, *module = NULL;
    tn__watch_symbols_find(symbols, address, &line, &module);
    fuzz_must((line == NULL) == (module == NULL));
    if (module != NULL) fuzz_must(strcmp(module, "code") == 0);
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tn_context context = tn__context(NULL);
    tn__arena arena;
    if (size < 2) return 0;
    if (symbols_path[0] == '\0') symbols_begin();
    symbols_put(data + 2, size - 2);
    tn__arena_init(&arena, &context);
    tn__watch_symbols *symbols = tn__watch_symbols_open(0, &arena); /* no process has this number */
    fuzz_must(symbols != NULL);
    symbols_map(symbols, (unsigned)data[0] | (unsigned)data[1] << 8);
    /* a return address follows its call, so the first is one byte after the mapping begins */
    fuzz_must(symbols_find(symbols, SYMBOLS_FIRST) == NULL);
    fuzz_must(symbols_find(symbols, SYMBOLS_FIRST + SYMBOLS_BYTES + 1) == NULL);
    for (uint64_t at = 1; at <= SYMBOLS_BYTES; at += SYMBOLS_STEP) {
        const char *line = symbols_find(symbols, SYMBOLS_FIRST + at);
        fuzz_must(line != NULL && strlen(line) > 0 && strlen(line) <= 200);
        if (strncmp(line, "0x", 2) != 0) fuzz_accept();
    }
    tn__watch_symbols_close(symbols);
    tn__arena_release(&arena);
    return 0;
}
