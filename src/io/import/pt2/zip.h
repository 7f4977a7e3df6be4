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
    uint64_t header;       /* offset of its local header */
    uint64_t packed, size; /* bytes in the file, and of its contents */
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

/* Errors: E_INVALID with the byte, E_UNSUPPORTED, E_NO_MEMORY. Release it in either case. */
tn_status tn__zip_open(const tn_context *context, tn__span file, tn__zip *zip, tn_error *error);
void tn__zip_release(tn__zip *zip);

/* NULL: there is no such member. */
const tn__zip_member *tn__zip_find(const tn__zip *zip, const char *name, size_t length);
/* The range of a member that is stored without compression, in the file. *plain false: it is
 * compressed. Errors: E_INVALID (its local header is damaged). */
tn_status tn__zip_range(const tn__zip *zip, const tn__zip_member *member, uint64_t *offset,
                        bool *plain);
/* The contents of a member. *made is NULL if they lie in the file, else it belongs to the caller:
 * tn__free(context, *made, bytes->size + 1). Errors: E_INVALID (damaged, or it would become more
 * than 1000 times larger), E_UNSUPPORTED (another method), E_NO_MEMORY. */
tn_status tn__zip_read(const tn__zip *zip, const tn__zip_member *member, tn__span *bytes,
                       uint8_t **made);

#endif
