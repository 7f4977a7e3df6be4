/* hash.c - a hash of bytes that detects damage, but not attacks. It processes eight bytes at a
 * time, and each bit affects all bits of the hash. */
#include "base/base.h"

uint64_t tn__hash(uint64_t hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    uint64_t word;
    for (; size > 0; bytes += sizeof word) {
        size_t take = size < sizeof word ? size : sizeof word;
        word = 0;
        memcpy(&word, bytes, take);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
        size -= take;
    }
    return hash;
}
