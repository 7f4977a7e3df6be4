/* zip.h - a bounded reader of zip archives: the list of members, and the bytes of one.
 *
 * Nothing is extracted to the disk. Every number of the archive is checked before it is used: a
 * member lies in the file, its local header agrees with the central directory, no two members have
 * one name, and no name is absolute or contains "..". Encrypted and split archives are refused.
 * Source: PKWARE's APPNOTE.TXT 6.3.10.
 */
#ifndef TN_IMPORT_ZIP_H
#define TN_IMPORT_ZIP_H

#include "base/base.h"
#include "io/import/onnx/wire.h"

typedef struct tn__zip_member {
    tn__span name;
    uint64_t header;       /* offset of the member's local header in the file */
    uint64_t packed, size; /* bytes of the member as it is stored in the file, and unpacked */
    uint32_t crc;
    uint16_t method, flags;
} tn__zip_member;

typedef struct tn__zip {
    const tn_context *context;
    tn__span file;
    tn__zip_member *members;
    size_t count, room;
    tn__names names; /* name -> index of the member */
    tn_error *error;
} tn__zip;

/* Reads the list of members. Call tn__zip_release on success and on failure. Errors: E_INVALID (a
 * damaged archive; the message has the byte), E_UNSUPPORTED (encrypted or split), E_NO_MEMORY. */
tn_status tn__zip_open(const tn_context *context, tn__span file, tn__zip *zip, tn_error *error);
void tn__zip_release(tn__zip *zip);

/* Finds a member by its name; NULL if the archive has no such member. */
const tn__zip_member *tn__zip_find(const tn__zip *zip, const char *name, size_t length);
/* Sets *offset to the position of a member's data in the file, and *plain to whether the data is
 * stored without compression. Errors: E_INVALID (its local header is damaged). */
tn_status tn__zip_range(const tn__zip *zip, const tn__zip_member *member, uint64_t *offset,
                        bool *plain);
/* Sets *bytes to the unpacked data of a member. *made is NULL if the data lies in the file;
 * otherwise the caller frees it with tn__free(context, *made, bytes->size + 1). Errors: E_INVALID
 * (damaged, or larger than ZIP_RATIO times its packed size), E_UNSUPPORTED (another compression
 * method), E_NO_MEMORY. */
tn_status tn__zip_read(const tn__zip *zip, const tn__zip_member *member, tn__span *bytes,
                       uint8_t **made);

#endif
