/* replay.c - a fuzz target without a fuzzer: runs it once over every file of a folder. Fails if the
 * target accepts none of them: see fuzz.h. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 1;
    static uint8_t bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    /* a copy of the exact size, so that a sanitizer sees the first byte beyond */
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL) return 1;
    for (size_t i = 0; i < size; i++) exact[i] = bytes[i];
    LLVMFuzzerTestOneInput(exact, size);
    for (size_t cut = 0; cut < size; cut += 1 + size / 16) LLVMFuzzerTestOneInput(exact, cut);
    free(exact);
    return 0;
}

int main(int count, char **arguments) {
    int files = 0;
    DIR *folder = opendir(count > 1 ? arguments[1] : ".");
    if (folder == NULL) return fprintf(stderr, "no such folder\n"), 1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
        if (replay_file(path) != 0) return fprintf(stderr, "cannot read %s\n", path), 1;
        files++;
    }
    closedir(folder);
    printf("%d seeds replayed, %llu inputs accepted\n", files, (unsigned long long)fuzz_accepted);
    return files > 0 && fuzz_accepted > 0 ? 0 : 1;
}
