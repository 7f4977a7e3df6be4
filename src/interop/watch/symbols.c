/* symbols.c - names for addresses of the code of another process.
 *
 * The publishing process stores addresses, and lines of its mappings for readers after its end.
 * Looking up their names there would take the lock of the dynamic loader within malloc, which can
 * deadlock. The reader finds the file that is mapped at an address in /proc/PID/maps, and the
 * function in the symbol table of that file. Files are read with bounds, not mapped: they may
 * change or be damaged. A file that was replaced since it was mapped (another inode) is not read.
 * Without a symbol, the line is the address in the file, as addr2line takes it.
 *
 * Cost: one pass over the mappings; for each file with an address, O(n log n) for its n functions.
 * Source: System V ABI, Object Files, for ELF; proc(5) for the mappings.
 */
#include "interop/watch/table.h"

#ifndef __linux__

tn__watch_symbols *tn__watch_symbols_open(uint64_t pid, tn__arena *arena) {
    (void)pid;
    return tn__arena_alloc(arena, 1);
}
bool tn__watch_symbols_are_missing(const tn__watch_symbols *symbols) {
    (void)symbols;
    return false;
}
void tn__watch_symbols_add(tn__watch_symbols *symbols, const char *text, size_t size) {
    (void)symbols, (void)text, (void)size;
}
void tn__watch_symbols_find(tn__watch_symbols *symbols, uint64_t address, const char **line,
                            const char **module) {
    (void)symbols, (void)address, (void)line, (void)module;
}
void tn__watch_symbols_close(tn__watch_symbols *symbols) { (void)symbols; }

#else

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    SYMBOLS_RANGES = 20000,      /* executable mappings that are remembered */
    SYMBOLS_HEADERS = 4096,      /* program headers, and sections, of a file */
    SYMBOLS_FUNCTIONS = 4 << 20, /* functions of a file */
    SYMBOLS_NAME = 200,          /* bytes of a name that are shown */
};

typedef struct symbols_function {
    uint64_t first, size;
    uint32_t name; /* offset in the strings of the file */
} symbols_function;

/* A file with code, and its functions by address. */
typedef struct symbols_file {
    const char *path;
    uint64_t device_major, device_minor, inode;
    bool is_read;
    int descriptor; /* -1: it cannot be read */
    Elf64_Phdr *segments;
    uint32_t segment_count;
    uint64_t strings, strings_size; /* the section of the names */
    symbols_function *functions;
    size_t function_count, function_room;
} symbols_file;

typedef struct symbols_range {
    uint64_t first, last, offset;
    uint32_t file;
} symbols_range;

struct tn__watch_symbols {
    tn__arena *arena;
    symbols_range *ranges; /* in ascending order */
    size_t range_count, range_room;
    symbols_file *files;
    size_t file_count, file_room;
};

/* --- mappings --------------------------------------------------------------------------------- */

/* Finds or adds the file of a mapping; files of one path follow each other. False: memory is
 * out. */
static bool symbols_add_file(tn__watch_symbols *symbols, const symbols_file *file) {
    symbols_file *last = symbols->file_count > 0 ? &symbols->files[symbols->file_count - 1] : NULL;
    if (last != NULL && last->inode == file->inode && strcmp(last->path, file->path) == 0)
        return true;
    if (!tn__reserve(symbols->arena->context, &symbols->files, &symbols->file_room,
                     symbols->file_count + 1, sizeof *symbols->files))
        return false;
    symbols_file *made = &symbols->files[symbols->file_count];
    *made = *file;
    made->path = tn__arena_string(symbols->arena, file->path, strlen(file->path));
    if (made->path == NULL) return false;
    symbols->file_count++;
    return true;
}

/* Reads one line of the mappings. Other lines than those of code in a file are skipped. */
static void symbols_read_line(tn__watch_symbols *symbols, const char *line) {
    symbols_range range = {0};
    symbols_file file = {.descriptor = -1};
    char rights[5] = "";
    int path = 0;
    if (sscanf(line,
               "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx64 ":%" SCNx64 " %" SCNu64 " %n",
               &range.first, &range.last, rights, &range.offset, &file.device_major,
               &file.device_minor, &file.inode, &path) < 7 ||
        path == 0 || line[path] != '/' || rights[2] != 'x' || range.last <= range.first)
        return;
    file.path = line + path;
    bool is_next =
        symbols->range_count == 0 || range.first >= symbols->ranges[symbols->range_count - 1].last;
    if (!is_next || symbols->range_count >= SYMBOLS_RANGES || !symbols_add_file(symbols, &file) ||
        !tn__reserve(symbols->arena->context, &symbols->ranges, &symbols->range_room,
                     symbols->range_count + 1, sizeof *symbols->ranges))
        return;
    range.file = (uint32_t)(symbols->file_count - 1);
    symbols->ranges[symbols->range_count++] = range;
}

tn__watch_symbols *tn__watch_symbols_open(uint64_t pid, tn__arena *arena) {
    char path[64], line[5000];
    tn__watch_symbols *symbols = tn__arena_alloc(arena, sizeof *symbols);
    if (symbols == NULL) return NULL;
    symbols->arena = arena;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        symbols_read_line(symbols, line);
    }
    if (maps != NULL) fclose(maps);
    return symbols;
}

bool tn__watch_symbols_are_missing(const tn__watch_symbols *symbols) {
    return symbols->range_count == 0;
}

void tn__watch_symbols_add(tn__watch_symbols *symbols, const char *text, size_t size) {
    char line[5000];
    for (size_t at = 0, length; at < size; at += length + 1) {
        const char *end = memchr(text + at, '\n', size - at);
        length = end != NULL ? (size_t)(end - (text + at)) : size - at;
        if (length >= sizeof line) continue;
        memcpy(line, text + at, length);
        line[length] = '\0';
        symbols_read_line(symbols, line);
    }
}

void tn__watch_symbols_close(tn__watch_symbols *symbols) {
    if (symbols == NULL) return;
    const tn_context *context = symbols->arena->context;
    for (size_t i = 0; i < symbols->file_count; i++) {
        symbols_file *file = &symbols->files[i];
        if (file->is_read && file->descriptor >= 0) close(file->descriptor);
        tn__free(context, file->functions, file->function_room * sizeof *file->functions);
    }
    tn__free(context, symbols->files, symbols->file_room * sizeof *symbols->files);
    tn__free(context, symbols->ranges, symbols->range_room * sizeof *symbols->ranges);
}

/* --- functions of a file ---------------------------------------------------------------------- */

static bool symbols_read(int file, void *to, size_t size, uint64_t offset) {
    if (offset > INT64_MAX) return false;
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(file, (char *)to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

/* Opens the file of a mapping, if it is still the one that is mapped. The path may come from a
 * table, so a device, which may act when it is opened, is not opened. */
static int symbols_open_file(const symbols_file *file) {
    struct stat found;
    if (stat(file->path, &found) != 0 || !S_ISREG(found.st_mode)) return -1;
    int descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return -1;
    if (fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) && found.st_ino == file->inode &&
        major(found.st_dev) == file->device_major && minor(found.st_dev) == file->device_minor)
        return descriptor;
    close(descriptor);
    return -1;
}

/* Reads the symbols of one section, in pieces. */
static void symbols_read_section(const tn_context *context, symbols_file *file,
                                 const Elf64_Shdr *section) {
    Elf64_Sym piece[512];
    uint64_t count = section->sh_size / sizeof *piece;
    for (uint64_t i = 0; i < count; i += sizeof piece / sizeof *piece) {
        uint64_t some =
            count - i < sizeof piece / sizeof *piece ? count - i : sizeof piece / sizeof *piece;
        uint64_t offset = tn__add_sat(section->sh_offset, i * sizeof *piece);
        if (!symbols_read(file->descriptor, piece, (size_t)some * sizeof *piece, offset)) return;
        for (uint64_t k = 0; k < some; k++) {
            if (ELF64_ST_TYPE(piece[k].st_info) != STT_FUNC || piece[k].st_size == 0) continue;
            if (file->function_count == SYMBOLS_FUNCTIONS ||
                !tn__reserve(context, &file->functions, &file->function_room,
                             file->function_count + 1, sizeof *file->functions))
                return;
            file->functions[file->function_count++] =
                (symbols_function){piece[k].st_value, piece[k].st_size, piece[k].st_name};
        }
    }
}

static int symbols_compare(const void *left, const void *right) {
    const symbols_function *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

/* Reads the segments and the functions of a file: those of its full symbol table, or of the table
 * for the dynamic loader. */
static void symbols_read_file(tn__watch_symbols *symbols, symbols_file *file) {
    Elf64_Ehdr header;
    file->is_read = true;
    file->descriptor = symbols_open_file(file);
    if (file->descriptor < 0 || !symbols_read(file->descriptor, &header, sizeof header, 0) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] !=
            (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB) ||
        header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > SYMBOLS_HEADERS)
        return;
    file->segments = tn__arena_array(symbols->arena, header.e_phnum + 1u, sizeof *file->segments);
    if (file->segments == NULL ||
        !symbols_read(file->descriptor, file->segments, header.e_phnum * sizeof *file->segments,
                      header.e_phoff))
        return;
    file->segment_count = header.e_phnum;
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > SYMBOLS_HEADERS) return;
    Elf64_Shdr *sections = tn__arena_array(symbols->arena, header.e_shnum + 1u, sizeof *sections);
    if (sections == NULL || !symbols_read(file->descriptor, sections,
                                          header.e_shnum * sizeof *sections, header.e_shoff))
        return;
    const Elf64_Shdr *chosen = NULL;
    for (uint32_t i = 0; i < header.e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB ||
            (sections[i].sh_type == SHT_DYNSYM && chosen == NULL))
            chosen = &sections[i];
    if (chosen == NULL || chosen->sh_link >= header.e_shnum) return;
    file->strings = sections[chosen->sh_link].sh_offset;
    file->strings_size = sections[chosen->sh_link].sh_size;
    symbols_read_section(symbols->arena->context, file, chosen);
    if (file->function_count > 0)
        qsort(file->functions, file->function_count, sizeof *file->functions, symbols_compare);
}

/* Turns an offset in the file into an address of the file's code; false: it is in no segment. */
static bool symbols_to_address(const symbols_file *file, uint64_t offset, uint64_t *address) {
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type != PT_LOAD || offset < segment->p_offset ||
            offset - segment->p_offset >= segment->p_filesz)
            continue;
        *address = offset - segment->p_offset + segment->p_vaddr;
        return true;
    }
    return false;
}

/* Finds the function at an address; NULL: no symbol covers it, or its name cannot be
 * read. */
static const char *symbols_name(const tn__watch_symbols *symbols, const symbols_file *file,
                                uint64_t address) {
    char name[SYMBOLS_NAME + 1];
    size_t low = 0, high = file->function_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (file->functions[middle].first <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return NULL;
    const symbols_function *found = &file->functions[low - 1];
    if (address - found->first >= found->size || found->name >= file->strings_size) return NULL;
    uint64_t size = file->strings_size - found->name;
    if (size > SYMBOLS_NAME) size = SYMBOLS_NAME;
    if (!symbols_read(file->descriptor, name, (size_t)size,
                      tn__add_sat(file->strings, found->name)))
        return NULL;
    name[size] = '\0';
    return name[0] != '\0' ? tn__arena_string(symbols->arena, name, strlen(name)) : NULL;
}

void tn__watch_symbols_find(tn__watch_symbols *symbols, uint64_t address, const char **line,
                            const char **module) {
    size_t low = 0, high = symbols->range_count;
    uint64_t code = address - 1; /* the call is before the address to which it returns */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols->ranges[middle].first <= code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || code >= symbols->ranges[low - 1].last) return;
    const symbols_range *range = &symbols->ranges[low - 1];
    symbols_file *file = &symbols->files[range->file];
    if (!file->is_read) symbols_read_file(symbols, file);
    uint64_t place = tn__add_sat(range->offset, code - range->first);
    const char *name = NULL;
    char text[32];
    if (symbols_to_address(file, place, &place)) name = symbols_name(symbols, file, place);
    if (name == NULL) {
        snprintf(text, sizeof text, "0x%" PRIx64, place);
        name = tn__arena_string(symbols->arena, text, strlen(text));
    }
    if (name == NULL) return;
    *line = name;
    *module = tn__base_name(file->path);
}

#endif
