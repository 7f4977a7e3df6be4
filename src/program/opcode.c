/* opcode.c - lookup functions over the table of opcodes. */
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "base/base.h"

const tn_opcode_facts *tn_opcode_facts_of(tn_opcode opcode) {
    static const tn_opcode_facts rows[] = {
#define TN_X(opcode, text, read, change, define, release, crosses, holds, uses)                    \
    [TN_##opcode] = {.name = text,                                                                 \
                     .reads = TN_AFFECTS_##read,                                                   \
                     .changes = TN_AFFECTS_##change,                                               \
                     .defines = TN_AFFECTS_##define,                                               \
                     .releases = TN_AFFECTS_##release,                                             \
                     .link = TN_LINK_##crosses,                                                    \
                     .blocks = TN_BLOCKS_##holds,                                                  \
                     .flags = (uses)},
        TN_OPCODE_TABLE(TN_X)
#undef TN_X
            [TN_OPCODE_COUNT] = {.name = "unknown"}};
    return &rows[(size_t)opcode < TN_OPCODE_COUNT ? (size_t)opcode : TN_OPCODE_COUNT];
}

const char *tn_opcode_name(tn_opcode opcode) { return tn_opcode_facts_of(opcode)->name; }

const char *tn_codec_name(tn_codec codec) {
    static const char *const names[] = {
#define TN_X(name, text, lossless) [TN_CODEC_##name] = text,
        TN_CODEC_TABLE(TN_X)
#undef TN_X
    };
    return (size_t)codec < TN_CODEC_COUNT ? names[codec] : "unknown";
}

bool tn_codec_is_lossless(tn_codec codec) {
    static const bool lossless[] = {
#define TN_X(name, text, keeps) [TN_CODEC_##name] = keeps,
        TN_CODEC_TABLE(TN_X)
#undef TN_X
    };
    return (size_t)codec < TN_CODEC_COUNT && lossless[codec];
}

static uint64_t opcode_rows(uint64_t count, uint64_t width) {
    return count / width + (count % width != 0);
}

/* CSR: a header of 16 bytes; 2 bytes per row of 256 elements for its count; per nonzero element 1
 * byte for its column and 4 bytes for its value. */
uint64_t tn_codec_bytes(tn_codec codec, uint64_t count, uint64_t filled) {
    switch (codec) {
    case TN_CODEC_BITS:
        return opcode_rows(count, 8);
    case TN_CODEC_CSR:
        return tn__add_sat(16 + 2 * opcode_rows(count, 256), tn__mul_sat(filled, 5));
    case TN_CODEC_FLOAT16:
        return tn__mul_sat(count, 2);
    case TN_CODEC_FLOAT10: /* a word of 32 bits holds three elements */
        return tn__mul_sat(opcode_rows(count, 3), 4);
    case TN_CODEC_FLOAT8:
        return count;
    default:
        return tn__mul_sat(count, 4);
    }
}

const char *tn_reduction_name(tn_reduction reduction) {
    static const char *const names[] = {
#define TN_X(name, text) [TN_REDUCTION_##name] = text,
        TN_REDUCTION_TABLE(TN_X)
#undef TN_X
    };
    return (size_t)reduction < TN_REDUCTION_COUNT ? names[reduction] : "unknown";
}

static tn_tensor_id opcode_tensor(const tn_instruction *it, tn_affects part) {
    return part == TN_AFFECTS_TENSOR ? it->tensor : part == TN_AFFECTS_OTHER ? it->other : TN_NONE;
}

tn_effects tn_instruction_effects(const tn_instruction *it) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    bool in_place = (facts->flags & TN_MAY_CHANGE) && it->other == TN_NONE;
    return (tn_effects){.reads = opcode_tensor(it, facts->reads),
                        .changes = in_place ? it->tensor : opcode_tensor(it, facts->changes),
                        .defines = opcode_tensor(it, facts->defines),
                        .releases = opcode_tensor(it, facts->releases)};
}
