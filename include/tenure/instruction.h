/* instruction.h - the one instruction set, and the one table of what each instruction does.
 *
 *     tn_instruction drop = TN_INSTRUCTION_INIT, fetch = TN_INSTRUCTION_INIT;
 *     drop.opcode = TN_DROP, drop.tensor = 7;
 *     fetch.opcode = TN_SWAP_IN, fetch.tensor = 7, fetch.stream = 1, fetch.signal = 1;
 *     printf("%s releases %u\n", tn_opcode_name(drop.opcode),
 *            tn_instruction_effects(&drop).releases); // drop releases 7
 *     printf("%s defines %u\n", tn_opcode_name(fetch.opcode),
 *            tn_instruction_effects(&fetch).defines); // swap_in defines 7
 *
 * Streams. Instructions of one stream follow each other. Two streams know of each other by signals
 * alone: who reads what another stream defined, or defines again what another stream still reads,
 * waits for it. A copy, a message or an operator holds its operands from its start to its end, and
 * its end is known to another stream when that has waited for it, or for something behind it; so an
 * asynchronous copy is one on a stream of its own. Instructions that block the caller (PUT, GET)
 * follow those of the same opcode, whatever their streams.
 *
 * The list is one of the orders in which a program may run: signals come before who waits for them.
 */
#ifndef TENURE_INSTRUCTION_H
#define TENURE_INSTRUCTION_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text, reads, changes, defines, releases, link, blocks, flags): which of its tensors an
 * instruction reads, writes in place, defines, releases (TN_AFFECTS_*); the link that it crosses
 * (TN_LINK_*); whom it keeps waiting beside its stream (TN_BLOCKS_*); what else it uses. */
/* clang-format off */
#define TN_OPCODE_TABLE(X)                                                                         \
    /* host to device */                                                                           \
    X(PUT, "put", NONE, NONE, TENSOR, NONE, FROM_HOST, CALLER, 0)                                  \
    /* runs an operator: inputs, changes and outputs of its tn_op_form */                          \
    X(APPLY, "apply", OPERATOR, OPERATOR, OPERATOR, NONE, NONE, NOBODY, 0)                         \
    /* device to host */                                                                           \
    X(GET, "get", TENSOR, NONE, NONE, NONE, TO_HOST, CALLER, 0)                                    \
    /* not needed again; its memory is kept up to here, as a run that was recorded kept it */      \
    X(FREE, "free", NONE, NONE, NONE, TENSOR, NONE, NOBODY, TN_KEEPS)                        \
    /* not needed before it is defined again: its memory ends with its last reader */              \
    X(DROP, "drop", NONE, NONE, NONE, TENSOR, NONE, NOBODY, 0)                                     \
    /* copied to the host and released when the copy, and whoever else reads it, is done */        \
    X(SWAP_OUT, "swap_out", TENSOR, NONE, NONE, TENSOR, TO_HOST, NOBODY, TN_USES_SLOT)             \
    /* copied back: held from the start of the copy. The host's copy stays what it is */           \
    X(SWAP_IN, "swap_in", NONE, NONE, TENSOR, NONE, FROM_HOST, NOBODY, TN_USES_SLOT)               \
    X(ENCODE, "encode", TENSOR, NONE, OTHER, NONE, NONE, NOBODY, TN_USES_CODEC)                    \
    X(DECODE, "decode", OTHER, NONE, TENSOR, NONE, NONE, NOBODY, TN_USES_CODEC)                    \
    X(SEND, "send", TENSOR, NONE, NONE, NONE, TO_PEER, PEER, TN_USES_PEER)                         \
    X(RECV, "recv", NONE, NONE, TENSOR, NONE, FROM_PEER, PEER, TN_USES_PEER)                       \
    /* all ranks of a group give and get: in place */                                              \
    X(REDUCE, "reduce", TENSOR, TENSOR, NONE, NONE, GROUP, GROUP,                                  \
      TN_USES_GROUP | TN_USES_REDUCTION)                                                           \
    /* every rank's part to all: `other` is the parts by rank; without it, in place */             \
    X(GATHER, "gather", TENSOR, NONE, OTHER, NONE, GROUP, GROUP, TN_USES_GROUP | TN_MAY_CHANGE)    \
    /* reduced, and each rank gets a part: `other`; without it, in place */                        \
    X(SCATTER, "scatter", TENSOR, NONE, OTHER, NONE, GROUP, GROUP,                                 \
      TN_USES_GROUP | TN_USES_REDUCTION | TN_MAY_CHANGE)                                           \
    /* does nothing but wait: for who needs more than one */                                       \
    X(WAIT, "wait", NONE, NONE, NONE, NONE, NONE, NOBODY, TN_USES_WAIT)                            \
    /* what is constant comes from the file that keeps it; it is not here when the program starts, \
     * and a DROP needs no copy. Held from the start of the reading */                             \
    X(FETCH, "fetch", NONE, NONE, TENSOR, NONE, FROM_STORAGE, NOBODY, 0)
/* clang-format on */
typedef enum tn_opcode {
#define TN_X(name, text, reads, changes, defines, releases, link, blocks, flags) TN_##name,
    TN_OPCODE_TABLE(TN_X)
#undef TN_X
        TN_OPCODE_COUNT
} tn_opcode;

/* How an encoded form relates to its tensor: X(name, text, lossless). */
/* clang-format off */
#define TN_CODEC_TABLE(X)                                                                          \
    X(NONE, "none", 1)                                                                             \
    X(BITS, "bits", 0)         /* one bit an element, whether it is above 0: all that the       \
                                * gradient of Relu asks for */                     \
    X(CSR, "csr", 1)           /* what is not 0, with narrow indices */                            \
    X(FLOAT16, "float16", 0) X(FLOAT10, "float10", 0) X(FLOAT8, "float8", 0)
/* clang-format on */
typedef enum tn_codec {
#define TN_X(name, text, lossless) TN_CODEC_##name,
    TN_CODEC_TABLE(TN_X)
#undef TN_X
        TN_CODEC_COUNT
} tn_codec;

/* How the ranks' values become one: X(name, text). */
#define TN_REDUCTION_TABLE(X) X(SUM, "sum") X(MEAN, "mean") X(MAX, "max")
typedef enum tn_reduction {
#define TN_X(name, text) TN_REDUCTION_##name,
    TN_REDUCTION_TABLE(TN_X)
#undef TN_X
        TN_REDUCTION_COUNT
} tn_reduction;

/* What its opcode does not use stays as TN_INSTRUCTION_INIT has it. */
typedef struct tn_instruction {
    tn_opcode opcode;
    uint32_t stream;     /* 0: compute; below TN_STREAM_MAX */
    tn_op_id op;         /* APPLY; else TN_NONE */
    tn_tensor_id tensor; /* the others, but WAIT; else TN_NONE */
    tn_tensor_id other;  /* ENCODE, DECODE: the encoded form; GATHER, SCATTER: what they define, in
                          * memory of its own; else TN_NONE */
    uint32_t wait;       /* starts when that signal was given; 0: with its stream */
    uint32_t signal;     /* given when it has ended; a number of one's own choice, once; 0: none */
    uint32_t slot;       /* SWAP_OUT, SWAP_IN: buffer of the host pool, from 1, that several tensors
                          * have by turns; at most the instructions. 0: one of the tensor's own */
    uint32_t peer;       /* SEND, RECV: the other rank */
    uint32_t tag;        /* SEND, RECV: tells messages between two ranks apart; those of one tag
                          * arrive in the order in which they were sent */
    uint32_t part, parts; /* SEND, RECV: of so many equal stretches of the tensor that one alone, in
                           * its place there; 0, 0: all of it. A GATHER in place brings the others,
                           * which other ranks have received */
    uint32_t group;       /* REDUCE, GATHER, SCATTER: who takes part; 0: all ranks */
    tn_codec codec;       /* ENCODE, DECODE */
    tn_reduction reduction; /* REDUCE, SCATTER */
    bool again;             /* APPLY: in its repeat form (tn_op_form_of), behind one that is not */
} tn_instruction;
#define TN_INSTRUCTION_INIT                                                                        \
    TN_INIT(tn_instruction, TN_SET(op, TN_NONE) TN_SET(tensor, TN_NONE) TN_SET(other, TN_NONE))
#define TN_STREAM_MAX 64u

/* --- the table, read ------------------------------------------------------------------------- */

typedef enum tn_affects {
    TN_AFFECTS_NONE,
    TN_AFFECTS_TENSOR,  /* instruction.tensor */
    TN_AFFECTS_OTHER,   /* instruction.other */
    TN_AFFECTS_OPERATOR /* what its operator reads, changes or defines */
} tn_affects;

typedef enum tn_link {
    TN_LINK_NONE,
    TN_LINK_FROM_HOST,
    TN_LINK_TO_HOST,
    TN_LINK_FROM_PEER,
    TN_LINK_TO_PEER,
    TN_LINK_GROUP, /* both directions */
    TN_LINK_FROM_STORAGE
} tn_link;

typedef enum tn_blocks {
    TN_BLOCKS_NOBODY,
    TN_BLOCKS_CALLER, /* who runs the program, until the copy is done */
    TN_BLOCKS_PEER,   /* and is kept until the other end is there */
    TN_BLOCKS_GROUP
} tn_blocks;

enum { /* tn_opcode_facts.flags */
       TN_USES_SLOT = 1u << 0,
       TN_USES_CODEC = 1u << 1, /* and is refused without one */
       TN_USES_PEER = 1u << 2,  /* and tag */
       TN_USES_GROUP = 1u << 3,
       TN_USES_REDUCTION = 1u << 4,
       TN_USES_WAIT = 1u << 5, /* and is refused without one; others may have one */
       TN_KEEPS = 1u << 6,     /* who takes the memory that it releases comes after it */
       TN_MAY_CHANGE = 1u << 7 /* `other` may be missing: then it works in place */
};

typedef struct tn_opcode_facts {
    const char *name;
    tn_affects reads, changes, defines, releases;
    tn_link link;
    tn_blocks blocks;
    uint32_t flags; /* TN_USES_*, TN_MAY_CHANGE */
} tn_opcode_facts;
/* The opcode's row; of what is none, an empty row named "unknown". */
TN_API const tn_opcode_facts *tn_opcode_facts_of(tn_opcode opcode);
TN_API const char *tn_opcode_name(tn_opcode opcode);
TN_API const char *tn_codec_name(tn_codec codec);
TN_API bool tn_codec_is_lossless(tn_codec codec); /* decoding gives back every bit */
/* Bytes of the encoded form of `count` elements of 4 bytes, of which `filled` are not zero (of
 * which CSR alone takes notice; -0.0 is no zero). Saturates; NONE: 4 bytes each. */
TN_API uint64_t tn_codec_bytes(tn_codec codec, uint64_t count, uint64_t filled);
TN_API const char *tn_reduction_name(tn_reduction reduction);

/* The tensors of one instruction, TN_NONE where there is none; those of an APPLY are its
 * operator's: tn_op_form_of(graph, instruction.op, instruction.again). What is changed is read as
 * well. */
typedef struct tn_effects {
    tn_tensor_id reads, changes, defines, releases;
} tn_effects;
TN_API tn_effects tn_instruction_effects(const tn_instruction *instruction);

#ifdef __cplusplus
}
#endif
#endif
