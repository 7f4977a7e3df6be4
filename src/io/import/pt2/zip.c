/* zip.c - reads zip archives. See zip.h. */
#include "io/import/pt2/zip.h"

#define ZLIB_CONST
#include <zlib.h>

enum {
    ZIP_END = 22,     /* bytes of the end record without its comment */
    ZIP_END64 = 56,   /* bytes of the end record of zip64 archives */
    ZIP_LOCATOR = 20, /* bytes of the zip64 locator, which gives the position of that record */
    /* bytes of an entry of the central directory without its name and extra fields */
    ZIP_CENTRAL = 46,
    ZIP_LOCAL = 30,    /* bytes of a local header without its name and extra fields */
    ZIP_ENCRYPTED = 1, /* flags */
    /* flag: the local header has sizes and checksum 0, and they follow after the data */
    ZIP_SIZES_AFTER = 8,
    ZIP_STORED = 0, /* methods */
    ZIP_DEFLATED = 8
};
#define ZIP_MEMBERS_MOST 1000000u
#define ZIP_TEXT_MOST ((uint64_t)2 << 30)
#define ZIP_RATIO 1000u
#define ZIP_FREE ((uint64_t)1 << 20)

static uint16_t zip_u16(const uint8_t *at) { return (uint16_t)tn__little(at, 2); }
static uint32_t zip_u32(const uint8_t *at) { return (uint32_t)tn__little(at, 4); }
static uint64_t zip_u64(const uint8_t *at) { return tn__little(at, 8); }

static tn_status zip_bad(const tn__zip *zip, uint64_t byte, const char *what) {
    tn_status status =
        tn__fail(zip->error, TN_E_INVALID, "%s: not a zip archive, damaged, or cut off", what);
    return tn__where(zip->error, status, "byte %llu", (unsigned long long)byte);
}

static int zip_shown(tn__span name) { return name.size < 80 ? (int)name.size : 80; }

/* Whether [offset, offset + size) lies in the file. */
static bool zip_inside(const tn__zip *zip, uint64_t offset, uint64_t size) {
    return size <= zip->file.size && offset <= zip->file.size - size;
}

/* --- the central directory --- */

typedef struct zip_directory {
    uint64_t count, offset, size;
} zip_directory;

/* Reads the end record of a zip64 archive, which lies before the ordinary end record and has 64-bit
 * numbers. */
static tn_status zip_directory64(const tn__zip *zip, size_t end, zip_directory *directory) {
    const uint8_t *bytes = zip->file.bytes;
    if (end < ZIP_LOCATOR || zip_u32(bytes + end - ZIP_LOCATOR) != 0x07064b50)
        return zip_bad(zip, end, "the record of a large archive is absent");
    uint64_t at = zip_u64(bytes + end - ZIP_LOCATOR + 8);
    if (!zip_inside(zip, at, ZIP_END64) || zip_u32(bytes + at) != 0x06064b50)
        return zip_bad(zip, end - ZIP_LOCATOR, "the record of a large archive is elsewhere");
    *directory = (zip_directory){zip_u64(bytes + at + 32), zip_u64(bytes + at + 48),
                                 zip_u64(bytes + at + 40)};
    return TN_OK;
}

/* Finds the end record, which is the last thing in the file, in front of a comment of at most 64
 * KiB. */
static tn_status zip_find_directory(const tn__zip *zip, zip_directory *directory) {
    const uint8_t *bytes = zip->file.bytes;
    size_t size = zip->file.size, at = size;
    if (size < ZIP_END) return zip_bad(zip, 0, "the file is too short");
    for (at = size - ZIP_END;; at--) {
        bool fits =
            zip_u32(bytes + at) == 0x06054b50 && zip_u16(bytes + at + 20) == size - at - ZIP_END;
        if (fits) break;
        if (at == 0 || size - at >= ZIP_END + UINT16_MAX)
            return zip_bad(zip, size, "the list of members is absent");
    }
    if (zip_u16(bytes + at + 4) != 0 || zip_u16(bytes + at + 6) != 0)
        TN_FAIL(zip->error, TN_E_UNSUPPORTED, "an archive in several parts; join them first");
    *directory = (zip_directory){zip_u16(bytes + at + 10), zip_u32(bytes + at + 16),
                                 zip_u32(bytes + at + 12)};
    bool large = directory->count == UINT16_MAX || directory->offset == UINT32_MAX ||
                 directory->size == UINT32_MAX;
    if (large) TN_TRY(zip_directory64(zip, at, directory));
    if (!zip_inside(zip, directory->offset, directory->size))
        return zip_bad(zip, at, "the list of members is outside of the file");
    return TN_OK;
}

/* Reads the zip64 extra field (number 1). It has those of size, packed size and offset that do not
 * fit the entry's 32 bits, in this order. */
static tn_status zip_extra64(const tn__zip *zip, const uint8_t *extra, uint32_t size,
                             tn__zip_member *member) {
    uint64_t *wide[] = {&member->size, &member->packed, &member->header};
    uint32_t at = 0;
    while (size - at >= 4 && zip_u16(extra + at) != 1) {
        uint32_t skip = 4u + zip_u16(extra + at + 2);
        if (skip > size - at) break;
        at += skip;
    }
    uint32_t left = size - at >= 4 && zip_u16(extra + at) == 1 ? zip_u16(extra + at + 2) : 0;
    if (left > size - at - 4) left = 0;
    at += 4;
    for (uint32_t i = 0; i < 3; i++) {
        if (*wide[i] != UINT32_MAX) continue;
        if (left < 8)
            return zip_bad(zip, (uint64_t)(extra - zip->file.bytes),
                           "the size of a member is absent");
        *wide[i] = zip_u64(extra + at);
        at += 8;
        left -= 8;
    }
    return TN_OK;
}

/* Returns whether a name is absolute or contains "..". Names are never used as paths, but PyTorch
 * does not write such a name, so the archive is refused. */
static bool zip_name_leaves(tn__span name) {
    const uint8_t *bytes = name.bytes;
    if (name.size == 0 || bytes[0] == '/' || bytes[0] == '\\') return true;
    for (size_t i = 0; i + 1 < name.size; i++) {
        bool begins = i == 0 || bytes[i - 1] == '/' || bytes[i - 1] == '\\';
        bool ends = i + 2 == name.size || bytes[i + 2] == '/' || bytes[i + 2] == '\\';
        if (begins && ends && bytes[i] == '.' && bytes[i + 1] == '.') return true;
    }
    return false;
}

static tn_status zip_add(tn__zip *zip, const tn__zip_member *member) {
    uint32_t existing;
    int shown = zip_shown(member->name);
    const char *name = (const char *)member->name.bytes;
    if (zip_name_leaves(member->name))
        TN_FAIL(zip->error, TN_E_INVALID, "member '%.*s' would leave the folder of the archive",
                shown, name);
    if (member->flags & ZIP_ENCRYPTED)
        TN_FAIL(zip->error, TN_E_UNSUPPORTED, "member '%.*s' is encrypted", shown, name);
    if (!tn__reserve(zip->context, &zip->members, &zip->room, zip->count + 1,
                     sizeof *zip->members) ||
        !tn__names_add(&zip->names, name, member->name.size, (uint32_t)zip->count, &existing))
        return tn__no_memory(zip->error, "the members of an archive");
    if (existing != TN__NAMES_NONE)
        TN_FAIL(zip->error, TN_E_INVALID, "two members are called '%.*s'", shown, name);
    zip->members[zip->count++] = *member;
    return TN_OK;
}

static tn_status zip_entry(tn__zip *zip, uint64_t *at, uint64_t end) {
    const uint8_t *entry = zip->file.bytes + *at;
    if (end - *at < ZIP_CENTRAL || zip_u32(entry) != 0x02014b50)
        return zip_bad(zip, *at, "an entry of the list of members is damaged");
    uint32_t name = zip_u16(entry + 28), extra = zip_u16(entry + 30);
    uint64_t size = (uint64_t)ZIP_CENTRAL + name + extra + zip_u16(entry + 32);
    if (end - *at < size) return zip_bad(zip, *at, "an entry of the list of members is cut off");
    tn__zip_member member = {.name = {entry + ZIP_CENTRAL, name},
                             .header = zip_u32(entry + 42),
                             .packed = zip_u32(entry + 20),
                             .size = zip_u32(entry + 24),
                             .crc = zip_u32(entry + 16),
                             .method = zip_u16(entry + 10),
                             .flags = zip_u16(entry + 8)};
    TN_TRY(zip_extra64(zip, entry + ZIP_CENTRAL + name, extra, &member));
    *at += size;
    return zip_add(zip, &member);
}

tn_status tn__zip_open(const tn_context *context, tn__span file, tn__zip *zip, tn_error *error) {
    zip_directory directory = {0};
    *zip = (tn__zip){.context = context, .file = file, .error = error};
    tn__names_init(&zip->names, context);
    TN_TRY(zip_find_directory(zip, &directory));
    if (directory.count > ZIP_MEMBERS_MOST)
        TN_FAIL(error, TN_E_INVALID, "the archive has %llu members; the most is %u",
                (unsigned long long)directory.count, ZIP_MEMBERS_MOST);
    uint64_t at = directory.offset, end = directory.offset + directory.size;
    for (uint64_t i = 0; i < directory.count; i++) TN_TRY(zip_entry(zip, &at, end));
    return TN_OK;
}

void tn__zip_release(tn__zip *zip) {
    tn__free(zip->context, zip->members, zip->room * sizeof *zip->members);
    tn__names_release(&zip->names);
}

const tn__zip_member *tn__zip_find(const tn__zip *zip, const char *name, size_t length) {
    uint32_t at = tn__names_find(&zip->names, name, length);
    return at == TN__NAMES_NONE ? NULL : &zip->members[at];
}

/* --- reading one member --- */

/* Finds the offset of a member's data. It must read the local header, because the extra fields
 * there can be longer than those in the central directory. */
static tn_status zip_data(const tn__zip *zip, const tn__zip_member *member, uint64_t *offset) {
    uint64_t at = member->header;
    if (!zip_inside(zip, at, ZIP_LOCAL) || zip_u32(zip->file.bytes + at) != 0x04034b50)
        return zip_bad(zip, at, "the header of a member is not where the list says");
    const uint8_t *local = zip->file.bytes + at;
    uint32_t name = zip_u16(local + 26), extra = zip_u16(local + 28);
    *offset = at + ZIP_LOCAL + name + extra;
    if (!zip_inside(zip, *offset, member->packed))
        return zip_bad(zip, at, "a member reaches beyond the end of the file");
    bool same = name == member->name.size &&
                memcmp(local + ZIP_LOCAL, member->name.bytes, name) == 0 &&
                zip_u16(local + 8) == member->method;
    bool later = (zip_u16(local + 6) & ZIP_SIZES_AFTER) != 0;
    uint32_t packed = zip_u32(local + 18), size = zip_u32(local + 22);
    if (!later)
        same = same && zip_u32(local + 14) == member->crc &&
               (packed == UINT32_MAX || packed == member->packed) &&
               (size == UINT32_MAX || size == member->size);
    if (!same) return zip_bad(zip, at, "the header of a member and the list of members disagree");
    return TN_OK;
}

tn_status tn__zip_range(const tn__zip *zip, const tn__zip_member *member, uint64_t *offset,
                        bool *plain) {
    *plain = member->method == ZIP_STORED && member->packed == member->size;
    return zip_data(zip, member, offset);
}

/* zlib counts bytes in 32 bits, so a large member is passed to it in sections of this many
 * bytes. */
#define ZIP_SLICE ((size_t)1 << 30)

static int zip_inflate(z_stream *stream, const uint8_t *from, size_t packed, uint8_t *to,
                       size_t size) {
    int done = Z_OK;
    stream->next_in = from;
    stream->next_out = to;
    size_t in = packed, out = size;
    while (done == Z_OK) {
        uInt give = (uInt)(in < ZIP_SLICE ? in : ZIP_SLICE);
        uInt room = (uInt)(out < ZIP_SLICE ? out : ZIP_SLICE);
        stream->avail_in = give;
        stream->avail_out = room;
        done = inflate(stream, Z_NO_FLUSH);
        in -= give - stream->avail_in;
        out -= room - stream->avail_out;
        if (done == Z_BUF_ERROR || (done == Z_OK && out == 0 && in == 0)) break;
        if (done == Z_OK && give == stream->avail_in && room == stream->avail_out) break;
    }
    return done == Z_STREAM_END && out == 0 && in == 0 ? Z_OK : Z_DATA_ERROR;
}

static tn_status zip_unpack(const tn__zip *zip, const tn__zip_member *member, const uint8_t *from,
                            uint8_t **made) {
    z_stream stream = {0};
    if (member->size > ZIP_FREE && member->size / ZIP_RATIO > member->packed)
        TN_FAIL(zip->error, TN_E_INVALID, "member '%.*s' would become more than %u times larger",
                zip_shown(member->name), (const char *)member->name.bytes, ZIP_RATIO);
    *made = tn__alloc(zip->context, (size_t)member->size + 1);
    if (*made == NULL || inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
        tn__free(zip->context, *made, (size_t)member->size + 1);
        *made = NULL;
        return tn__no_memory(zip->error, "a member of an archive");
    }
    int done = zip_inflate(&stream, from, (size_t)member->packed, *made, (size_t)member->size);
    inflateEnd(&stream);
    if (done == Z_OK) return TN_OK;
    tn__free(zip->context, *made, (size_t)member->size + 1);
    *made = NULL;
    TN_FAIL(zip->error, TN_E_INVALID, "the compressed data of member '%.*s' is damaged",
            zip_shown(member->name), (const char *)member->name.bytes);
}

tn_status tn__zip_read(const tn__zip *zip, const tn__zip_member *member, tn__span *bytes,
                       uint8_t **made) {
    uint64_t offset;
    *made = NULL;
    TN_TRY(zip_data(zip, member, &offset));
    const uint8_t *from = zip->file.bytes + offset;
    bool stored = member->method == ZIP_STORED;
    if (!stored && member->method != ZIP_DEFLATED)
        TN_FAIL(zip->error, TN_E_UNSUPPORTED,
                "member '%.*s' is compressed by method %u; store it, or use deflate",
                zip_shown(member->name), (const char *)member->name.bytes, member->method);
    if (member->size > ZIP_TEXT_MOST || (stored && member->packed != member->size))
        TN_FAIL(zip->error, TN_E_INVALID, "member '%.*s' has %llu bytes", zip_shown(member->name),
                (const char *)member->name.bytes, (unsigned long long)member->size);
    if (!stored) TN_TRY(zip_unpack(zip, member, from, made));
    *bytes = (tn__span){*made != NULL ? *made : from, (size_t)member->size};
    uLong crc = crc32_z(crc32_z(0, NULL, 0), bytes->bytes, bytes->size);
    if ((uint32_t)crc == member->crc) return TN_OK;
    if (*made != NULL) tn__free(zip->context, *made, (size_t)member->size + 1);
    *made = NULL;
    TN_FAIL(zip->error, TN_E_INVALID, "the checksum of member '%.*s' is wrong: the file is damaged",
            zip_shown(member->name), (const char *)member->name.bytes);
}
