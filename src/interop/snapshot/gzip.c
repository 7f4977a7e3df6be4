/* gzip.c - unpacks gzip (RFC 1952) and deflate (RFC 1951), because some tools compress memory
 * snapshots.
 *
 * The codes of each length are consecutive numbers, so a symbol is decoded bit by bit from the
 * number of codes of each length. So no table is needed that a file could make large. Every read
 * and every copy is bounded; checksum and length are verified at the end. A snapshot of a gigabyte
 * takes tens of seconds, which is rare enough to do without a library.
 *
 * Source: RFC 1951, RFC 1952; the method of decoding is that of M. Adler's puff.c (zlib).
 */
#include "interop/snapshot/snapshot.h"

#include <inttypes.h>

/* limit of unpacked bytes per packed byte: snapshots are packed to a tenth or less, but deflate
 * could reach a thousandth */
#define GZIP_RATIO 100u
#define GZIP_FREE ((size_t)64 << 20)

enum { GZIP_BITS_MOST = 15, GZIP_SYMBOLS = 288, GZIP_DISTANCES = 30 };

typedef struct gzip_state {
    const tn_context *context;
    const uint8_t *from;
    size_t size, at;
    uint32_t bits, bit_count; /* bits that were read but not used yet, and their number */
    uint8_t *to;
    size_t made, room, member; /* member: offset at which the output of the current member begins */
    size_t most;               /* limit of unpacked bytes */
    tn_error *error;
} gzip_state;

typedef struct gzip_code { /* a canonical Huffman code */
    uint16_t count[GZIP_BITS_MOST + 1], symbol[GZIP_SYMBOLS];
} gzip_code;

static tn_status gzip_bad(const gzip_state *it, const char *what) {
    TN_FAIL(it->error, TN_E_INVALID, "gzip: %s at byte %zu", what, it->at);
}

static tn_status gzip_bits(gzip_state *it, uint32_t need, uint32_t *value) {
    while (it->bit_count < need) {
        if (it->at == it->size) return gzip_bad(it, "the file ends");
        it->bits |= (uint32_t)it->from[it->at++] << it->bit_count;
        it->bit_count += 8;
    }
    *value = it->bits & ((UINT32_C(1) << need) - 1);
    it->bits >>= need;
    it->bit_count -= need;
    return TN_OK;
}

static tn_status gzip_put(gzip_state *it, uint8_t byte) {
    if (it->made == it->most)
        TN_FAIL(it->error, TN_E_INVALID,
                "gzip: more than %zu bytes come from %zu packed ones, which is unusual; "
                "unpack it with gunzip",
                it->most, it->size);
    if (!tn__reserve(it->context, &it->to, &it->room, it->made + 1, 1))
        return tn__no_memory(it->error, "an unpacked file");
    it->to[it->made++] = byte;
    return TN_OK;
}

/* --- codes --- */

/* Makes a code from the lengths [count] of its symbols; false if they are no code. A code may be
 * incomplete only if it has a single symbol. */
static bool gzip_code_make(gzip_code *code, const uint8_t *lengths, uint32_t count) {
    uint16_t offset[GZIP_BITS_MOST + 1] = {0};
    int32_t left = 1;
    memset(code, 0, sizeof *code);
    for (uint32_t i = 0; i < count; i++) code->count[lengths[i]]++;
    if (code->count[0] == count) return true; /* the code has no symbols, so it is never used */
    for (uint32_t bits = 1; bits <= GZIP_BITS_MOST; bits++) {
        left = 2 * left - code->count[bits];
        if (left < 0) return false;
    }
    for (uint32_t bits = 1; bits < GZIP_BITS_MOST; bits++)
        offset[bits + 1] = (uint16_t)(offset[bits] + code->count[bits]);
    for (uint32_t i = 0; i < count; i++)
        if (lengths[i] != 0) code->symbol[offset[lengths[i]]++] = (uint16_t)i;
    return left == 0 || (uint32_t)code->count[0] + 1 == count;
}

static tn_status gzip_symbol(gzip_state *it, const gzip_code *code, uint32_t *symbol) {
    uint32_t value = 0, first = 0, index = 0, bit = 0;
    for (uint32_t bits = 1; bits <= GZIP_BITS_MOST; bits++) {
        TN_TRY(gzip_bits(it, 1, &bit));
        value |= bit;
        uint32_t count = code->count[bits];
        if (value < first + count) {
            *symbol = code->symbol[index + (value - first)];
            return TN_OK;
        }
        index += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    return gzip_bad(it, "an invalid code");
}

/* --- blocks --- */

static tn_status gzip_copy(gzip_state *it, uint32_t length, uint32_t distance) {
    if (distance > it->made - it->member) return gzip_bad(it, "a distance before the beginning");
    for (uint32_t i = 0; i < length; i++) TN_TRY(gzip_put(it, it->to[it->made - distance]));
    return TN_OK;
}

static tn_status gzip_compressed(gzip_state *it, const gzip_code *letters,
                                 const gzip_code *distances) {
    static const uint16_t length_base[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                           15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                           67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t length_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t distance_base[] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    static const uint8_t distance_bits[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                            6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
    for (;;) {
        uint32_t symbol = 0, more = 0, length, distance;
        TN_TRY(gzip_symbol(it, letters, &symbol));
        if (symbol == 256) return TN_OK;
        if (symbol < 256) {
            TN_TRY(gzip_put(it, (uint8_t)symbol));
            continue;
        }
        symbol -= 257;
        if (symbol >= sizeof length_bits) return gzip_bad(it, "an invalid length");
        TN_TRY(gzip_bits(it, length_bits[symbol], &more));
        length = length_base[symbol] + more;
        TN_TRY(gzip_symbol(it, distances, &symbol));
        if (symbol >= GZIP_DISTANCES) return gzip_bad(it, "an invalid distance");
        TN_TRY(gzip_bits(it, distance_bits[symbol], &more));
        distance = distance_base[symbol] + more;
        TN_TRY(gzip_copy(it, length, distance));
    }
}

static tn_status gzip_fixed(gzip_state *it) {
    uint8_t lengths[GZIP_SYMBOLS];
    gzip_code letters, distances;
    for (uint32_t i = 0; i < GZIP_SYMBOLS; i++)
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    (void)gzip_code_make(&letters, lengths, GZIP_SYMBOLS);
    memset(lengths, 5, GZIP_DISTANCES);
    /* the standard's fixed code of distances is incomplete, so the result is ignored */
    (void)gzip_code_make(&distances, lengths, GZIP_DISTANCES);
    return gzip_compressed(it, &letters, &distances);
}

/* Reads the code lengths of the codes for letters and for distances, which are themselves coded. */
static tn_status gzip_lengths(gzip_state *it, const gzip_code *code, uint8_t *lengths,
                              uint32_t count) {
    for (uint32_t i = 0; i < count;) {
        uint32_t symbol = 0, more = 0, repeats;
        uint8_t value = 0;
        TN_TRY(gzip_symbol(it, code, &symbol));
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == 16 && i == 0) return gzip_bad(it, "a repeat without a length before it");
        if (symbol == 16) value = lengths[i - 1];
        TN_TRY(gzip_bits(it, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &more));
        repeats = (symbol == 18 ? 11 : 3) + more;
        if (repeats > count - i) return gzip_bad(it, "more lengths than there are codes");
        while (repeats-- > 0) lengths[i++] = value;
    }
    return TN_OK;
}

static tn_status gzip_dynamic(gzip_state *it) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                      11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[GZIP_SYMBOLS + 32] = {0};
    uint32_t letter_count = 0, distance_count = 0, count = 0, bits = 0;
    gzip_code letters, distances;
    TN_TRY(gzip_bits(it, 5, &letter_count));
    TN_TRY(gzip_bits(it, 5, &distance_count));
    TN_TRY(gzip_bits(it, 4, &count));
    letter_count += 257;
    distance_count += 1;
    if (letter_count > 286 || distance_count > GZIP_DISTANCES)
        return gzip_bad(it, "too many codes");
    for (uint32_t i = 0; i < count + 4; i++) {
        TN_TRY(gzip_bits(it, 3, &bits));
        lengths[order[i]] = (uint8_t)bits;
    }
    if (!gzip_code_make(&letters, lengths, 19)) return gzip_bad(it, "an invalid code");
    memset(lengths, 0, sizeof lengths);
    TN_TRY(gzip_lengths(it, &letters, lengths, letter_count + distance_count));
    if (lengths[256] == 0) return gzip_bad(it, "a block without an end");
    if (!gzip_code_make(&letters, lengths, letter_count) ||
        !gzip_code_make(&distances, lengths + letter_count, distance_count))
        return gzip_bad(it, "an invalid code");
    return gzip_compressed(it, &letters, &distances);
}

static tn_status gzip_stored(gzip_state *it) {
    it->bits = it->bit_count = 0;
    if (it->size - it->at < 4) return gzip_bad(it, "the file ends");
    uint32_t length = it->from[it->at] | (uint32_t)it->from[it->at + 1] << 8;
    uint32_t check = it->from[it->at + 2] | (uint32_t)it->from[it->at + 3] << 8;
    if ((length ^ check) != 0xffff) return gzip_bad(it, "a length that is damaged");
    it->at += 4;
    if (it->size - it->at < length) return gzip_bad(it, "the file ends");
    for (uint32_t i = 0; i < length; i++) TN_TRY(gzip_put(it, it->from[it->at++]));
    return TN_OK;
}

static tn_status gzip_inflate(gzip_state *it) {
    uint32_t last = 0, sort = 0;
    it->bits = it->bit_count = 0;
    while (last == 0) {
        TN_TRY(gzip_bits(it, 1, &last));
        TN_TRY(gzip_bits(it, 2, &sort));
        if (sort == 3) return gzip_bad(it, "a block of no known sort");
        TN_TRY(sort == 0 ? gzip_stored(it) : sort == 1 ? gzip_fixed(it) : gzip_dynamic(it));
    }
    return TN_OK;
}

/* --- members --- */

static uint32_t gzip_sum(const uint8_t *bytes, size_t size) {
    uint32_t table[256], sum = UINT32_MAX;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    for (size_t i = 0; i < size; i++) sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 255];
    return ~sum;
}

static uint32_t gzip_word(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static tn_status gzip_skip_text(gzip_state *it) {
    while (it->at < it->size)
        if (it->from[it->at++] == 0) return TN_OK;
    return gzip_bad(it, "the file ends");
}

static tn_status gzip_header(gzip_state *it) {
    enum { SUM = 2, EXTRA = 4, NAME = 8, COMMENT = 16 };
    if (it->size - it->at < 10) return gzip_bad(it, "the file ends");
    if (!tn__gzip_is(it->from + it->at, it->size - it->at) || it->from[it->at + 2] != 8)
        return gzip_bad(it, "no header of a member");
    uint8_t flags = it->from[it->at + 3];
    it->at += 10;
    if (flags & EXTRA) {
        if (it->size - it->at < 2) return gzip_bad(it, "the file ends");
        size_t extra = it->from[it->at] | (size_t)it->from[it->at + 1] << 8;
        it->at += 2;
        if (it->size - it->at < extra) return gzip_bad(it, "the file ends");
        it->at += extra;
    }
    if (flags & NAME) TN_TRY(gzip_skip_text(it));
    if (flags & COMMENT) TN_TRY(gzip_skip_text(it));
    if ((flags & SUM) != 0 && it->size - it->at < 2) return gzip_bad(it, "the file ends");
    if (flags & SUM) it->at += 2;
    return TN_OK;
}

static tn_status gzip_member(gzip_state *it) {
    TN_TRY(gzip_header(it));
    it->member = it->made;
    TN_TRY(gzip_inflate(it));
    if (it->size - it->at < 8) return gzip_bad(it, "the file ends");
    size_t made = it->made - it->member;
    uint32_t sum = gzip_sum(made > 0 ? it->to + it->member : NULL, made);
    if (gzip_word(it->from + it->at) != sum || gzip_word(it->from + it->at + 4) != (uint32_t)made)
        return gzip_bad(it, "the check sum does not agree");
    it->at += 8;
    return TN_OK;
}

bool tn__gzip_is(const void *bytes, size_t size) {
    return size >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

tn_status tn__gzip_read(const tn_context *context, const void *bytes, size_t size, uint8_t **made,
                        size_t *made_size, size_t *made_room, tn_error *error) {
    gzip_state it = {.context = context,
                     .from = bytes,
                     .size = size,
                     .most = (size_t)tn__add_sat(GZIP_FREE, tn__mul_sat(size, GZIP_RATIO)),
                     .error = error};
    tn_status status = TN_OK;
    while (status == TN_OK && it.at < size) {
        /* files from tapes are padded with zeros */
        bool padding = it.at > 0 && it.from[it.at] == 0;
        if (padding) it.at++;
        if (!padding) status = gzip_member(&it);
    }
    if (status != TN_OK) {
        tn__free(context, it.to, it.room);
        return status;
    }
    *made = it.to;
    *made_size = it.made;
    *made_room = it.room;
    return TN_OK;
}
