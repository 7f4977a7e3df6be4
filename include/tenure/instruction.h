/* instruction.h - the instruction set of programs, and the table of the effects of each
 * instruction.
 *
 *     tn_instruction drop = TN_INSTRUCTION_INIT, fetch = TN_INSTRUCTION_INIT;
 *     drop.opcode = TN_DROP, drop.tensor = 7;
 *     fetch.opcode = TN_SWAP_IN, fetch.tensor = 7, fetch.stream = 1, fetch.signal = 1;
 *     printf("%s releases %u\n", tn_opcode_name(drop.opcode),
 *            tn_instruction_effects(&drop).releases); // drop releases 7
 *     printf("%s defines %u\n", tn_opcode_name(fetch.opcode),
 *            tn_instruction_effects(&fetch).defines); // swap_in defines 7
 *
 * Streams. Instructions of one stream run in order. Two streams are ordered only by signals: an
 * instruction waits for a signal before it reads a tensor that another stream defined, or redefines
 * a tensor that another stream still reads. A copy, a message or an operator holds its operands
 * from its start to its end. Another stream knows that it has ended only after waiting for it, or
 * for a later instruction of its stream. So an asynchronous copy is a copy on a stream of its own.
 * Instructions that block the caller (PUT, GET) follow those with the same opcode on any stream.
 *
 * The list of a program is one valid order of execution: a signal comes before the instructions
 * that wait for it. A link is the path of a transfer; a codec encodes tensors.
 */
#ifndef TENURE_INSTRUCTION_H
#define TENURE_INSTRUCTION_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text, reads, changes, defines, releases, link, blocks, flags): the tensors that an
 * instruction reads, writes in place, defines and releases (TN_AFFECTS_*); the link that it uses
 * (TN_LINK_*); the party that it blocks in addition to its stream (TN_BLOCKS_*); its other operands
 * (flags). */
/* clang-format off */
#define TN_OPCODE_TABLE(X)                                                                         \
    /* host to device */                                                                           \
    X(PUT, "put", NONE, NONE, TENSOR, NONE, FROM_HOST, CALLER, 0)                                  \
    /* runs an operator: inputs, changes and outputs of its tn_op_form */                          \
    X(APPLY, "apply", OPERATOR, OPERATOR, OPERATOR, NONE, NONE, NOBODY, 0)                         \
    /* device to host */                                                                           \
    X(GET, "get", TENSOR, NONE, NONE, NONE, TO_HOST, CALLER, 0)                                    \
    /* end of life; the memory is held up to this point, as in a recorded run */                   \
    X(FREE, "free", NONE, NONE, NONE, TENSOR, NONE, NOBODY, TN_KEEPS)                        \
    /* not needed until it is defined again: the memory is free after the last reader */           \
    X(DROP, "drop", NONE, NONE, NONE, TENSOR, NONE, NOBODY, 0)                                     \
    /* copy to the host; the memory is free when the copy and all other readers are done */        \
    X(SWAP_OUT, "swap_out", TENSOR, NONE, NONE, TENSOR, TO_HOST, NOBODY, TN_USES_SLOT)             \
    /* copy back: held from the start of the copy. The copy on the host is unchanged */            \
    X(SWAP_IN, "swap_in", NONE, NONE, TENSOR, NONE, FROM_HOST, NOBODY, TN_USES_SLOT)               \
    X(ENCODE, "encode", TENSOR, NONE, OTHER, NONE, NONE, NOBODY, TN_USES_CODEC)                    \
    X(DECODE, "decode", OTHER, NONE, TENSOR, NONE, NONE, NOBODY, TN_USES_CODEC)                    \
    X(SEND, "send", TENSOR, NONE, NONE, NONE, TO_PEER, PEER, TN_USES_PEER)                         \
    X(RECV, "recv", NONE, NONE, TENSOR, NONE, FROM_PEER, PEER, TN_USES_PEER)                       \
    /* reduces the tensors of all ranks of a group, in place */                                    \
    X(REDUCE, "reduce", TENSOR, TENSOR, NONE, NONE, GROUP, GROUP,                                  \
      TN_USES_GROUP | TN_USES_REDUCTION)                                                           \
    /* sends each rank's section to all: `other` has all sections by rank, or in place */          \
    X(GATHER, "gather", TENSOR, NONE, OTHER, NONE, GROUP, GROUP, TN_USES_GROUP | TN_MAY_CHANGE)    \
    /* reduces, and each rank receives one section: `other`, or in place */                        \
    X(SCATTER, "scatter", TENSOR, NONE, OTHER, NONE, GROUP, GROUP,                                 \
      TN_USES_GROUP | TN_USES_REDUCTION | TN_MAY_CHANGE)                                           \
    /* only waits for a signal, for instructions that need more than one */                        \
    X(WAIT, "wait", NONE, NONE, NONE, NONE, NONE, NOBODY, TN_USES_WAIT)                            \
    /* reads a constant from its file. It is absent when the program starts, and a DROP            \
     * needs no copy. Held from the start of the read */                                           \
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
    X(BITS, "bits", 0)         /* one bit per element, whether it is above 0, as the               \
                                * gradient of Relu needs */                                        \
    X(CSR, "csr", 1)           /* nonzero elements, with narrow indices */                         \
    X(FLOAT16, "float16", 0) X(FLOAT10, "float10", 0) X(FLOAT8, "float8", 0)
/* clang-format on */
typedef enum tn_codec {
#define TN_X(name, text, lossless) TN_CODEC_##name,
    TN_CODEC_TABLE(TN_X)
#undef TN_X
        TN_CODEC_COUNT
} tn_codec;

/* How the values of the ranks are combined: X(name, text). */
#define TN_REDUCTION_TABLE(X) X(SUM, "sum") X(MEAN, "mean") X(MAX, "max")
typedef enum tn_reduction {
#define TN_X(name, text) TN_REDUCTION_##name,
    TN_REDUCTION_TABLE(TN_X)
#undef TN_X
        TN_REDUCTION_COUNT
} tn_reduction;

/* An instruction. Members that its opcode does not use keep the values of TN_INSTRUCTION_INIT. */
typedef struct tn_instruction {
    tn_opcode opcode;
    uint32_t stream;     /* 0: compute; less than TN_STREAM_MAX */
    tn_op_id op;         /* APPLY: the operator; else TN_NONE */
    tn_tensor_id tensor; /* the tensor of all other opcodes except WAIT; else TN_NONE */
    /* ENCODE, DECODE: the encoded form. GATHER, SCATTER: the result, in memory of its own. Else
     * TN_NONE. */
    tn_tensor_id other;
    uint32_t wait;   /* starts after this signal; 0: starts in the order of its stream */
    uint32_t signal; /* a unique number, signalled when it has ended; 0: no signal */
    /* SWAP_OUT, SWAP_IN: a buffer on the host that several tensors share over time, from 1 to the
     * number of instructions. 0: a buffer of its own. */
    uint32_t slot;
    uint32_t peer; /* SEND, RECV: the other rank */
    /* SEND, RECV: distinguishes messages between two ranks; messages with the same tag arrive in
     * the order of sending. */
    uint32_t tag;
    /* SEND, RECV: section number `part` of `parts` equal sections of the tensor, at its place in
     * the tensor; 0, 0: the whole tensor. A GATHER in place brings the sections that other ranks
     * have received. */
    uint32_t part, parts;
    uint32_t group;         /* REDUCE, GATHER, SCATTER: the members; 0: all ranks */
    tn_codec codec;         /* ENCODE, DECODE */
    tn_reduction reduction; /* REDUCE, SCATTER */
    bool again;             /* APPLY: the repeated form (tn_op_form_of), after a first run */
} tn_instruction;
#define TN_INSTRUCTION_INIT                                                                        \
    TN_INIT(tn_instruction, TN_SET(op, TN_NONE) TN_SET(tensor, TN_NONE) TN_SET(other, TN_NONE))
#define TN_STREAM_MAX 64u

/* --- reading the table --- */

typedef enum tn_affects {
    TN_AFFECTS_NONE,
    TN_AFFECTS_TENSOR,  /* instruction.tensor */
    TN_AFFECTS_OTHER,   /* instruction.other */
    TN_AFFECTS_OPERATOR /* the tensors that its operator reads, changes or defines */
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
    TN_BLOCKS_CALLER, /* the thread that runs the program, until the copy is done */
    TN_BLOCKS_PEER,   /* itself and its peer, until both have arrived */
    TN_BLOCKS_GROUP
} tn_blocks;

enum { /* tn_opcode_facts.flags */
       TN_USES_SLOT = 1u << 0,
       TN_USES_CODEC = 1u << 1, /* required */
       TN_USES_PEER = 1u << 2,  /* and a tag */
       TN_USES_GROUP = 1u << 3,
       TN_USES_REDUCTION = 1u << 4,
       TN_USES_WAIT = 1u << 5, /* required; optional for others */
       TN_KEEPS = 1u << 6,     /* the released memory can be reused only after this instruction */
       TN_MAY_CHANGE = 1u << 7 /* `other` may be missing; then it works in place */
};

typedef struct tn_opcode_facts {
    const char *name;
    tn_affects reads, changes, defines, releases;
    tn_link link;
    tn_blocks blocks;
    uint32_t flags; /* TN_USES_*, TN_MAY_CHANGE */
} tn_opcode_facts;
/* The row of an opcode; an empty row named "unknown" for an invalid opcode. */
TN_API const tn_opcode_facts *tn_opcode_facts_of(tn_opcode opcode);
TN_API const char *tn_opcode_name(tn_opcode opcode);
TN_API const char *tn_codec_name(tn_codec codec);
TN_API bool tn_codec_is_lossless(tn_codec codec); /* decoding restores every bit */
/* Bytes of the encoded form of `count` elements of 4 bytes. `filled` of them are not zero (-0.0
 * counts as not zero); only CSR depends on it. Saturates. NONE: 4 bytes per element. */
TN_API uint64_t tn_codec_bytes(tn_codec codec, uint64_t count, uint64_t filled);
TN_API const char *tn_reduction_name(tn_reduction reduction);

/* The tensors of one instruction, TN_NONE for none. Those of an APPLY are the operands of
 * tn_op_form_of(graph, instruction.op, instruction.again). A changed tensor is also read. */
typedef struct tn_effects {
    tn_tensor_id reads, changes, defines, releases;
} tn_effects;
/* The tensors that an instruction reads, changes, defines and releases. */
TN_API tn_effects tn_instruction_effects(const tn_instruction *instruction);

#ifdef __cplusplus
}
#endif
#endif
