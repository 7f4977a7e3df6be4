/* sha256.c - computes the digest by which the content security policy of a page allows the page's
 * own script.
 *
 * Names in a plan come from files that are not trusted. If escaping a name ever fails, a browser
 * that enforces the policy still runs no script except the one with this digest.
 *
 * Cost: O(size).
 *
 * Sources: FIPS 180-4 (2015), sections 4.1.2, 4.2.2, 5.3.3 and 6.2; RFC 4648 for base64.
 */
#include "report/format.h"

typedef struct sha256_state {
    uint32_t hash[8];
} sha256_state;

static uint32_t sha256_turn(uint32_t value, unsigned by) {
    return value >> by | value << (32 - by);
}

static void sha256_block(sha256_state *state, const uint8_t *bytes) {
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
               (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (sha256_turn(a, 7) ^ sha256_turn(a, 18) ^ a >> 3) + w[i - 7] +
               (sha256_turn(b, 17) ^ sha256_turn(b, 19) ^ b >> 10);
    }
    memcpy(v, state->hash, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = sha256_turn(v[4], 6) ^ sha256_turn(v[4], 11) ^ sha256_turn(v[4], 25);
        uint32_t one = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t s0 = sha256_turn(v[0], 2) ^ sha256_turn(v[0], 13) ^ sha256_turn(v[0], 22);
        uint32_t two = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state->hash[i] += v[i];
}

static void sha256_digest(const uint8_t *bytes, size_t size, uint8_t digest[32]) {
    sha256_state state = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                           0x1f83d9ab, 0x5be0cd19}};
    size_t whole = size / 64 * 64, rest = size - whole;
    for (size_t at = 0; at < whole; at += 64) sha256_block(&state, bytes + at);
    uint8_t last[128] = {0};
    size_t padded = rest < 56 ? 64 : 128;
    if (rest > 0) memcpy(last, bytes + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[padded - 1 - (size_t)i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
    for (size_t at = 0; at < padded; at += 64) sha256_block(&state, last + at);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(state.hash[i / 4] >> (24 - 8 * (i % 4)));
}

const char *tn__sha256_source(const void *bytes, size_t size, char text[TN__SHA256_SOURCE_MAX]) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t digest[33] = {0}; /* 32 bytes of the digest, padded to a multiple of three for base64 */
    sha256_digest(bytes, size, digest);
    char *at = text + sizeof "sha256-" - 1;
    memcpy(text, "sha256-", sizeof "sha256-" - 1);
    for (int i = 0; i < 33; i += 3) {
        uint32_t three = (uint32_t)digest[i] << 16 | (uint32_t)digest[i + 1] << 8 | digest[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6) *at++ = letters[three >> shift & 63];
    }
    at[-1] = '='; /* Base64 encodes 32 bytes as 43 characters and one '='. */
    *at = '\0';
    return text;
}
