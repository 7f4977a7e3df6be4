/* program.h - the order of execution: instructions, programs, events of a run, predicted times. The
 * live ranges and buffers of a program are in occupancy.h. */
#ifndef TENURE_PROGRAM_H
#define TENURE_PROGRAM_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/program.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/graph.h>
#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- facts about one operator ---------------------------------------------------------------- */

typedef struct tn_cost {
    /* number of operations (a multiply-add counts 2); TN_SIZE_UNKNOWN: the operator has no rule */
    uint64_t flops;
    uint64_t bytes_moved; /* bytes of inputs read + bytes of outputs written */
} tn_cost;
/* Returns the arithmetic and the memory traffic of an operator. */
TN_API tn_cost tn_op_cost(const tn_graph *graph, tn_op_id op);

/* How an output of an operator may use the memory of an input. */
typedef struct tn_view {
    /* the tensor with the memory: an input, or the tensor attribute of a Constant; TN_NONE: the
     * output is not a view */
    tn_tensor_id source;
    /* true: the operator is an alias by definition (aten::view, relu_), so the output must be a
     * view */
    bool must;
    bool whole; /* true: the offset is not known, so the view keeps all bytes of `source` live */
    uint64_t offset; /* bytes from the start of `source` to the view; 0 if `whole` */
} tn_view;
/* Whether output `output` can be or must be a view of an input. */
TN_API tn_view tn_op_view(const tn_graph *graph, tn_op_id op, uint32_t output);

/* Returns the inputs over which the operator may write `output` (same bytes, element by element):
 * bit i is input i. */
TN_API uint64_t tn_op_inplace(const tn_graph *graph, tn_op_id op, uint32_t output);

/* Whether output 0 consists of the bytes of the inputs, concatenated: a Concat along the outermost
 * dimension that is not 1, with sizes that do not depend on data. */
TN_API bool tn_op_joins(const tn_graph *graph, tn_op_id op);

/* Returns the inputs that the operator writes into and returns as outputs (aten::relu_, an
 * optimizer's step): bit i is input i. */
TN_API uint64_t tn_op_changes(const tn_graph *graph, tn_op_id op);

/* Whether the operator has side effects beyond its outputs (tflite's ASSIGN_VARIABLE), or draws
 * random numbers (also a Dropout in training mode). Such operators keep their file order among each
 * other. */
TN_API bool tn_op_is_ordered(const tn_graph *graph, tn_op_id op);

/* Whether a second run of the operator gives the same result and has no side effect. True if the
 * operator writes into no input, draws no random numbers from the state of the run, owns no blocks,
 * and need not keep a place among other operators. False if this is not known. */
TN_API bool tn_op_may_repeat(const tn_graph *graph, tn_op_id op);

/* The form in which an operator runs. The first run has the form of the graph. If its registry
 * entry names a type for recomputation (BatchNormApply for BatchNormTrain), a repeated run has that
 * type: it reads the results of the first run in place of the inputs which that run changed,
 * changes nothing, and defines only output 0. Every other operator is repeated as it is, if
 * tn_op_may_repeat allows it. */
typedef struct tn_op_form {
    const tn_op *op; /* the operator that has the operands; owned by the graph */
    /* type of the operator that runs, in the domain of `op`; NULL: the operator must not be
     * repeated */
    const char *type;
    uint32_t input_count;  /* number of inputs, equal to that of the operator */
    uint32_t output_count; /* number of outputs: the first outputs of the operator */
    uint64_t changes; /* inputs that are written into and returned as outputs: bit i is input i */
    /* inputs that are replaced by results of the first run: if bit i is set, the operator's output
     * i is read instead of its input i */
    uint64_t found;
} tn_op_form;
/* Returns the form in which an operator runs the first time, or with `again` true, in which it is
 * repeated. */
TN_API tn_op_form tn_op_form_of(const tn_graph *graph, tn_op_id op, bool again);
/* Returns the id of input `index` of a form; TN_NONE: the input is omitted. */
TN_API tn_tensor_id tn_op_form_input(const tn_op_form *form, uint32_t index);

/* Returns the scratch bytes of the operator while it runs; 0 if its rule names no scratch. */
TN_API uint64_t tn_op_workspace(const tn_graph *graph, tn_op_id op);

/* The operator registry (`tenure list operators`). The order of indices is stable: operators are
 * sorted by domain, then by name. */
TN_API uint32_t tn_op_rule_count(void);
TN_API const char *tn_op_rule_type(uint32_t index);
TN_API const char *tn_op_rule_domain(uint32_t index);
TN_API bool tn_op_rule_has_gradient(uint32_t index); /* train.h */
TN_API bool tn_op_rule_has_split(uint32_t index);    /* rewrite.h */

/* --- instruction ----------------------------------------------------------------------------- */

/* The instruction set of programs, and the table of the effects of each
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

/* X(name, text, reads, changes, defines, releases, link, blocks, flags): the tensors that an
 * instruction reads, writes in place, defines and releases (TN_AFFECTS_*); the link that it uses
 * (TN_LINK_*); the party that it blocks in addition to its stream (TN_BLOCKS_*); its other operands
 * (flags). */
/* clang-format off */
#define TN_OPCODE_TABLE(X)                                                                         \
    /* copies a graph input from the caller to the device */                                       \
    X(PUT, "put", NONE, NONE, TENSOR, NONE, FROM_HOST, CALLER, 0)                                  \
    /* runs an operator: inputs, changes and outputs of its tn_op_form */                          \
    X(APPLY, "apply", OPERATOR, OPERATOR, OPERATOR, NONE, NONE, NOBODY, 0)                         \
    /* copies a graph output from the device to the caller */                                      \
    X(GET, "get", TENSOR, NONE, NONE, NONE, TO_HOST, CALLER, 0)                                    \
    /* ends the live range of a tensor, and holds its memory up to here, as in a recorded run */   \
    X(FREE, "free", NONE, NONE, NONE, TENSOR, NONE, NOBODY, TN_KEEPS)                        \
    /* drops a tensor until it is defined again; its memory is free after its last reader */       \
    X(DROP, "drop", NONE, NONE, NONE, TENSOR, NONE, NOBODY, 0)                                     \
    /* copies a tensor to the host; its memory is free when the copy and all readers are done */   \
    X(SWAP_OUT, "swap_out", TENSOR, NONE, NONE, TENSOR, TO_HOST, NOBODY, TN_USES_SLOT)             \
    /* copies a tensor back; its memory is held from the start on. The host copy is unchanged */   \
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
    /* reduces; each rank receives one section of the result, in `other` or in place */            \
    X(SCATTER, "scatter", TENSOR, NONE, OTHER, NONE, GROUP, GROUP,                                 \
      TN_USES_GROUP | TN_USES_REDUCTION | TN_MAY_CHANGE)                                           \
    /* only waits for a signal; put before an instruction that must wait for several */            \
    X(WAIT, "wait", NONE, NONE, NONE, NONE, NONE, NOBODY, TN_USES_WAIT)                            \
    /* reads a constant, which is absent when the program starts, from its file. Its memory is     \
     * held from the start of the read; a DROP needs no copy of it */                              \
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

/* How the values of the ranks are combined, in the form X(name, text). */
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
    uint32_t stream; /* the stream that runs the instruction, less than TN_STREAM_MAX; 0: compute */
    tn_op_id op;     /* for APPLY: the operator; otherwise TN_NONE */
    tn_tensor_id tensor; /* the tensor of every opcode except APPLY and WAIT; otherwise TN_NONE */
    /* for ENCODE and DECODE: the encoded form. For GATHER and SCATTER: the result, in memory of its
     * own. Otherwise TN_NONE. */
    tn_tensor_id other;
    /* the instruction starts after this signal; 0: it starts in the order of its stream */
    uint32_t wait;
    uint32_t signal; /* a unique number, signalled when the instruction has ended; 0: no signal */
    /* for SWAP_OUT and SWAP_IN: number of a buffer on the host that several tensors share over
     * time, from 1 to the number of instructions. 0: the tensor has a host buffer of its own. */
    uint32_t slot;
    uint32_t peer; /* for SEND and RECV: the other rank */
    /* for SEND and RECV: a number that distinguishes messages between two ranks; messages with one
     * tag arrive in the order of sending. */
    uint32_t tag;
    /* for SEND and RECV: section number `part` of `parts` equal sections of the tensor, at its
     * place in the tensor; 0, 0: the whole tensor. A GATHER in place brings the sections that other
     * ranks have received. */
    uint32_t part, parts;
    /* for REDUCE, GATHER and SCATTER: the group of ranks that take part; 0: all ranks */
    uint32_t group;
    tn_codec codec;         /* for ENCODE and DECODE: the codec */
    tn_reduction reduction; /* for REDUCE and SCATTER: how values are combined */
    /* for APPLY: whether the operator runs in its repeated form (tn_op_form_of), after a first
     * run */
    bool again;
} tn_instruction;
#define TN_INSTRUCTION_INIT                                                                        \
    TN_INIT(tn_instruction, TN_SET(op, TN_NONE) TN_SET(tensor, TN_NONE) TN_SET(other, TN_NONE))
#define TN_STREAM_MAX 64u

/* --- the table of instructions --- */

typedef enum tn_affects {
    TN_AFFECTS_NONE,
    TN_AFFECTS_TENSOR,  /* the tensor `tensor` of the instruction */
    TN_AFFECTS_OTHER,   /* the tensor `other` of the instruction */
    TN_AFFECTS_OPERATOR /* the tensors that the instruction's operator reads, changes or defines */
} tn_affects;

typedef enum tn_link {
    TN_LINK_NONE,
    TN_LINK_FROM_HOST,
    TN_LINK_TO_HOST,
    TN_LINK_FROM_PEER,
    TN_LINK_TO_PEER,
    TN_LINK_GROUP, /* the links to the ranks of a group, in both directions */
    TN_LINK_FROM_STORAGE
} tn_link;

typedef enum tn_blocks {
    TN_BLOCKS_NOBODY,
    /* the instruction blocks the thread that runs the program, until the copy is done */
    TN_BLOCKS_CALLER,
    TN_BLOCKS_PEER, /* the instruction blocks its own rank and the peer, until both have arrived */
    TN_BLOCKS_GROUP
} tn_blocks;

enum { /* flags of an opcode (tn_opcode_facts.flags) */
       TN_USES_SLOT = 1u << 0,
       TN_USES_CODEC = 1u << 1, /* required */
       TN_USES_PEER = 1u << 2,  /* the instruction names a peer and a tag */
       TN_USES_GROUP = 1u << 3,
       TN_USES_REDUCTION = 1u << 4,
       TN_USES_WAIT = 1u << 5, /* must wait for a signal; opcodes without this flag may */
       TN_KEEPS = 1u << 6, /* the released memory can be used again only after the instruction */
       TN_MAY_CHANGE = 1u << 7 /* `other` may be missing; the instruction then works in place */
};

typedef struct tn_opcode_facts {
    const char *name;
    tn_affects reads, changes, defines, releases;
    tn_link link;
    tn_blocks blocks;
    uint32_t flags; /* flags of the opcode: TN_USES_*, TN_KEEPS, TN_MAY_CHANGE */
} tn_opcode_facts;
/* Returns the row of an opcode; for an invalid opcode an empty row named "unknown". */
TN_API const tn_opcode_facts *tn_opcode_facts_of(tn_opcode opcode);
TN_API const char *tn_opcode_name(tn_opcode opcode);
TN_API const char *tn_codec_name(tn_codec codec);
TN_API bool tn_codec_is_lossless(tn_codec codec); /* Whether decoding restores every bit. */
/* Returns the bytes of the encoded form of `count` elements of 4 bytes. `filled` of the elements
 * are not zero (-0.0 counts as not zero); only CSR depends on that number. Saturates. NONE: 4 bytes
 * per element. */
TN_API uint64_t tn_codec_bytes(tn_codec codec, uint64_t count, uint64_t filled);
TN_API const char *tn_reduction_name(tn_reduction reduction);

/* The tensors of one instruction; TN_NONE where there is no tensor. The tensors of an APPLY are the
 * operands of tn_op_form_of(graph, instruction.op, instruction.again). A changed tensor is also
 * read. */
typedef struct tn_effects {
    tn_tensor_id reads, changes, defines, releases;
} tn_effects;
/* Returns the tensors that an instruction reads, changes, defines and releases. */
TN_API tn_effects tn_instruction_effects(const tn_instruction *instruction);

/* --- program --------------------------------------------------------------------------------- */

/* The order of execution, and the buffers and live ranges that follow from it.
 *
 *     // ... graph: from tn_graph_load or built by hand, inferred
 *     tn_program *program;
 *     tn_occupancy *occupancy;
 *     tn_layout layout;
 *     if (tn_program_create(graph, NULL, &program, &error) ||
 *         tn_occupancy_create(program, NULL, &occupancy, &error) ||
 *         tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &error))
 *         return 2;
 *
 * A program is a list of instructions (program.h); instruction i runs at step i. Every
 * technique that saves memory is a pass: it takes a program and returns a program.
 *
 * An occupancy (`tn_occupancy`) is the result of liveness analysis and buffer assignment. It says
 * when each tensor is live (`tn_life`, a live range), and which tensors share one body (a buffer)
 * as views or in-place results. It also contains the problem for the planners (plan.h).
 * Threads: any number of threads may read; one thread at a time may change.
 */

/* One block of a control-flow operator: instructions [first, last). The operator's own APPLY
 * follows its regions. */
typedef struct tn_region {
    tn_op_id op;
    tn_block_id block;
    uint32_t first, last;
    /* true: the region is the body of a loop, so tensors that it reads from outside stay live until
     * `last` */
    bool repeats;
} tn_region;

typedef struct tn_program tn_program;

typedef struct tn_program_options {
    size_t struct_size;
    /* name of the order: "file" (also for NULL), "memory", or "auto", which is the order with the
     * lowest peak of live bytes; if the order of the file has the lowest peak, too, it is chosen */
    const char *order;
    /* how live bytes are counted; NULL: defaults. The member `claimed` is ignored */
    const struct tn_occupancy_options *memory;
    /* [sequence_count] the caller's own order, which replaces `order`: every operator that is not
     * folded, once; the order is checked */
    const tn_op_id *sequence;
    uint32_t sequence_count;
} tn_program_options;
#define TN_PROGRAM_OPTIONS_INIT                                                                    \
    TN_INIT(tn_program_options, TN_SET(struct_size, sizeof(tn_program_options)))

/* Lowers an inferred graph: a PUT per graph input, an APPLY per operator that is not folded, a GET
 * per graph output. Blocks of control flow are inlined, and each is ordered separately. Every order
 * preserves the results: consumers follow producers, and readers of memory that an operator
 * overwrites (relu_) stay before or after that operator, as in the file.
 * The graph must outlive the program. Errors: E_INVALID (a sequence that breaks these rules; the
 * message names both operators), E_UNKNOWN (order), E_NO_MEMORY. Cost: docs/planners/orders.md. */
TN_API TN_CHECKED tn_status tn_program_create(const tn_graph *graph,
                                              const tn_program_options *options,
                                              tn_program **program, tn_error *error);

/* Operator `after` must wait for operator `before`, although no path of the graph leads from one to
 * the other: with a given layout, `after` writes bytes that `before` used last. */
typedef struct tn_dependency {
    tn_op_id before, after;
} tn_dependency;

/* Puts the operators whose names match the pattern on a stream. `type:PATTERN` matches their types.
 * In a pattern, * stands for any characters and ? for one. */
typedef struct tn_stream_rule {
    const char *pattern;
    uint32_t stream;
} tn_stream_rule;

typedef struct tn_program_streams_options {
    size_t struct_size;
    uint32_t count;            /* number of streams, from 1 to TN_STREAM_MAX */
    const uint32_t *stream_of; /* [operators] the caller's choice; TN_NONE: chosen. NULL: all are
                                * chosen */
    /* [operators] time of each operator in picoseconds; NULL: estimated from operations and
     * bytes */
    const uint64_t *times;
    /* [rule_count] if several rules match an operator, the last one counts; a rule replaces the
     * choice of `stream_of` */
    const tn_stream_rule *rules;
    uint32_t rule_count;
    /* [after_count] further pairs of operators of which the second waits for the first, such as the
     * result of tn_plan_dependencies: with them, the layout stays valid on streams */
    const tn_dependency *after;
    uint64_t after_count;
} tn_program_streams_options;
#define TN_PROGRAM_STREAMS_OPTIONS_INIT                                                            \
    TN_INIT(tn_program_streams_options,                                                            \
            TN_SET(struct_size, sizeof(tn_program_streams_options)) TN_SET(count, 1))

/* Puts the operators of a program on streams that work at the same time. Operators keep their
 * order; each goes to the stream on which it can start first (list scheduling). An operator waits
 * for the operators on other streams that it must follow. The occupancy of the new program lets two
 * tensors share memory only if all uses of one are known to end before the other is defined. The
 * engine runs the kernels of different streams at the same time (tn_engine_usage.kernel_streams).
 *
 * program  only runs operators, as tn_program_create makes it, without blocks of control flow
 * made     out; release with tn_program_destroy
 *
 * Errors: E_INVALID (a number of streams out of range, a stream that does not exist, a rule that
 * matches no operator, a pair of `after` against the order of the program), E_UNSUPPORTED (other
 * instructions, or control flow), E_NO_MEMORY. Cost: O(operators (streams^2 + rules) + operands).
 * Source: list scheduling, Graham 1969. */
TN_API TN_CHECKED tn_status tn_program_on_streams(const tn_program *program,
                                                  const tn_program_streams_options *options,
                                                  tn_program **made, tn_error *error);

typedef struct tn_program_streams_report {
    uint32_t streams;   /* number of streams that run operators */
    uint32_t waits;     /* number of instructions that wait for another stream */
    uint64_t serial_ps; /* time of all operators one after the other, in picoseconds */
    /* time of the program on its streams, if only the waits between streams delay it */
    uint64_t total_ps;
} tn_program_streams_report;
/* Computes the time of a program on its streams. Only operators take time; `times` are as in
 * tn_program_streams_options. Errors: E_NO_MEMORY. Cost: O(instructions). */
TN_API TN_CHECKED tn_status tn_program_streams_of(const tn_program *program, const uint64_t *times,
                                                  tn_program_streams_report *report,
                                                  tn_error *error);
/* Makes a program from the caller's instructions, which come from a pass or a recorded run. The
 * instructions are copied and checked by tn_program_verify. */
TN_API TN_CHECKED tn_status tn_program_from(const tn_graph *graph,
                                            const tn_instruction *instructions, uint32_t count,
                                            const tn_region *regions, uint32_t region_count,
                                            tn_program **program, tn_error *error);
/* An encoded (compressed) form of a tensor. The form is a tensor of the program, not of the given
 * graph, because no operator computes it. */
typedef struct tn_encoded {
    tn_tensor_id tensor; /* the tensor that is encoded */
    tn_codec codec;
    /* bytes reserved for the form; 0: enough for any tensor data (tn_codec_bytes) */
    uint64_t bytes;
} tn_encoded;
/* Makes a program from the caller's instructions (as tn_program_from does) that may name encoded
 * forms. The program gets a graph of its own, with the ids of the given graph; `encoded[k]` is
 * tensor tn_graph_tensor_count(graph) + k of it. That graph lives as long as the program. Only
 * ENCODE, DECODE (as `other`), swaps and releases may name an encoded form. The given graph must
 * outlive the program. Errors: E_INVALID (a tensor of unknown size or without whole bytes; fewer
 * bytes than any tensor data need; and those of tn_program_from), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_program_from_encoded(
    const tn_graph *graph, const tn_encoded *encoded, uint32_t encoded_count,
    const tn_instruction *instructions, uint32_t count, const tn_region *regions,
    uint32_t region_count, tn_program **program, tn_error *error);
/* Returns the encoded forms of a program, [*count]; they are the last *count tensors of its graph,
 * in order. */
TN_API const tn_encoded *tn_program_encoded(const tn_program *program, uint32_t *count);
/* Checks that a program can run and computes what its graph says. tn_program_from accepts no other
 * program. The check uses the table of program.h and covers every interleaving of streams and
 * every choice of branches:
 * - a tensor is read only while it is present, and neither defined nor released twice;
 * - an operator runs a second time only if that gives the same result;
 * - a swapped or encoded tensor comes back unchanged;
 * - the graph's outputs are fetched, or another rank computes them;
 * - regions of control flow are nested, and end in their operator;
 * - every dependency between streams has a wait.
 * Errors: E_INVALID (the message names the instruction, its tensor, the reason and the remedy),
 * E_NO_MEMORY. Cost: O(instructions + operands), plus O(waits streams) with several streams. */
TN_API TN_CHECKED tn_status tn_program_verify(const tn_program *program, tn_error *error);
/* Checks the programs of all ranks, each alone and all together; programs[r] is that of rank r. The
 * k-th SEND from one rank to another with a tag matches the k-th RECV there with that tag, of equal
 * size. The k-th REDUCE, GATHER or SCATTER of a group matches the k-th one of every rank that calls
 * the group (group 0: all ranks). The check proves that no rank deadlocks, where stream 0 issues
 * the instructions in list order. A single program with messages that name peer 0 sends to itself
 * across two streams, stream 0 after the other. Errors: E_INVALID (the message names rank,
 * instruction, tensor and the missing match), E_NO_MEMORY. Cost: O(instructions + operands + m log
 * m) for m communicating instructions. */
TN_API TN_CHECKED tn_status tn_programs_verify(const tn_program *const *programs, uint32_t count,
                                               tn_error *error);
TN_API void tn_program_destroy(tn_program *program);
TN_API const tn_graph *tn_program_graph(const tn_program *program);

/* The order of a program, and how close to optimal it is known to be. Bytes are live bytes at the
 * peak step; every tensor is rounded up to its alignment. */
typedef struct tn_program_order {
    /* name of the order that was chosen: "file" if the requested order is no better; "sequence" for
     * the caller's own; "" after tn_program_from. Static string */
    const char *name;
    uint64_t peak;  /* live bytes at the peak step; 0: not computed */
    uint64_t bound; /* lower bound: no order of these operators needs fewer bytes; 0: not known */
    bool proved;    /* true: peak == bound, so no order of these operators is better */
} tn_program_order;
TN_API tn_program_order tn_program_order_of(const tn_program *program);
/* Names and summaries of the orders, for lists and --help; without "auto". */
TN_API uint32_t tn_order_count(void);
TN_API const char *tn_order_name(uint32_t index);
TN_API const char *tn_order_summary(uint32_t index);
TN_API uint32_t tn_program_count(const tn_program *program);
TN_API const tn_instruction *tn_program_instructions(const tn_program *program);
TN_API uint32_t tn_program_region_count(const tn_program *program);
TN_API const tn_region *tn_program_regions(const tn_program *program);

/* --- trace ----------------------------------------------------------------------------------- */

/* Records events of a run or of a simulation of a program.
 *
 *     tn_trace *trace;
 *     tn_error error;
 *     tn_event event = {.kind = TN_EVENT_STEP, .opcode = TN_APPLY, .op = TN_NONE,
 *                       .tensor = TN_NONE, .body = TN_NONE, .start_s = 1.5, .duration_s = 0.25};
 *     uint64_t count;
 *     if (tn_trace_create(NULL, 1000, &trace, &error) != TN_OK)
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     event.live[TN_KIND_ACTIVATION] = 4096;
 *     tn_trace_add(trace, &event);
 *     printf("%g s\n", tn_trace_events(trace, &count)[0].duration_s); // 0.25 s
 *     tn_trace_destroy(trace);
 *
 * Memory for events is allocated when the trace is created, and never while a program runs. Events
 * that do not fit are counted and dropped. Reports read only events: tn_report_write with a trace
 * and the suffix .trace.json.
 *
 * Units: bytes, seconds.
 * Threads: any number of threads may add at once; reading and clearing must wait for them.
 */

typedef enum tn_event_kind {
    TN_EVENT_STEP,  /* an instruction ran */
    TN_EVENT_ALLOC, /* a tensor, or the workspace of `op`, got memory */
    TN_EVENT_FREE,  /* the tensor, or the workspace, released its memory */
} tn_event_kind;

typedef struct tn_event {
    tn_event_kind kind;
    tn_opcode opcode;    /* opcode of the instruction */
    uint32_t step;       /* index of the instruction in the program */
    uint32_t run;        /* number of the run, from 0 */
    uint32_t stream;     /* the stream that ran the instruction */
    tn_op_id op;         /* the operator of an APPLY, and of a workspace; otherwise TN_NONE */
    tn_tensor_id tensor; /* the tensor of PUT, GET, ..., ALLOC, FREE; otherwise TN_NONE */
    /* for ALLOC and FREE: the buffer of the problem; for STEP, and for weights: TN_NONE */
    tn_body_id body;
    double start_s;    /* start in seconds, on any monotonic clock */
    double duration_s; /* duration in seconds; 0 for ALLOC and FREE */
    /* for PUT, GET, ...: bytes moved; for ALLOC and FREE: size of the block; otherwise 0 */
    uint64_t bytes;
    /* Bytes in use by kind. For STEP: while the instruction runs, including operands and workspace,
     * as in the plan's curve (tn_occupancy_live). For ALLOC and FREE: after the event. */
    uint64_t live[TN_KIND_COUNT];
} tn_event;

typedef struct tn_trace tn_trace;

/* Creates a trace.
 *
 * capacity  number of events; at least 1
 *
 * Errors: E_INVALID (capacity), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_trace_create(const tn_context *context, uint64_t capacity,
                                            tn_trace **trace, tn_error *error);
TN_API void tn_trace_destroy(tn_trace *trace); /* Destroys a trace; NULL has no effect. */
/* Adds a copy of the event to a trace; with a NULL trace the call has no effect. Cost: O(1), no
 * allocation. */
TN_API void tn_trace_add(tn_trace *trace, const tn_event *event);
/* Returns the events of a trace, in the order of adding. */
TN_API const tn_event *tn_trace_events(const tn_trace *trace, uint64_t *count);
/* Returns the number of events that did not fit in the trace. */
TN_API uint64_t tn_trace_dropped(const tn_trace *trace);
/* Removes all events, so that the trace is as after tn_trace_create. */
TN_API void tn_trace_clear(tn_trace *trace);

/* --- simulate -------------------------------------------------------------------------------- */

/* Predicts the run time of a program from the costs of its instructions.
 *
 *     // ... program: from tn_program_create or a pass; costs: from tn_costs_measure
 *     tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
 *     tn_simulation simulation;
 *     options.costs = tn_costs_list(costs), options.again = tn_costs_again_list(costs);
 *     options.to_host_bytes_per_s = options.from_host_bytes_per_s = 12e9;
 *     if (tn_simulate(program, &options, &simulation, &error))
 *         return 2;
 *     // simulation.total_ps; simulation.stall_ps of it are stalls
 *     tn_simulation_release(&simulation);
 *
 * The model follows the engine (engine.h). One thread walks the list in order. It runs instructions
 * of stream 0, and those that block the caller (PUT, GET), itself. It issues instructions of other
 * streams when it reaches them; they start when their stream has finished its earlier work. An
 * instruction with a wait starts when its signal was given. A copy also needs its direction of the
 * link, which serves one copy at a time, in list order. The walk itself and instructions such as
 * DROP take no time.
 *
 * Control flow that depends on data is estimated: the slowest branch of an operator, and the known
 * number of iterations of a loop, or one if it is unknown. tn_simulation.guesses counts these
 * estimates.
 *
 * Units: picoseconds (TN_COSTS_PER_S of search.h is a second), bytes.
 * Threads: any number of calls at once, each with its own trace.
 */

typedef struct tn_simulate_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the simulation */
    const tn_context *context;
    /* [operators] time of an APPLY of each operator; NULL: operators take no time */
    const uint64_t *costs;
    /* [operators] time of an APPLY that recomputes, in the operator's repeat form if it has one;
     * NULL: the times in `costs` */
    const uint64_t *again;
    /* rate of the link from device to host in bytes per second, for GET and SWAP_OUT; 0: copies
     * take no time */
    double to_host_bytes_per_s;
    /* rate of the link from host to device in bytes per second, for PUT and SWAP_IN; 0: copies take
     * no time */
    double from_host_bytes_per_s;
    /* rate of SEND, RECV, REDUCE, ...; other ranks are assumed to be always ready */
    double peer_bytes_per_s;
    double codec_bytes_per_s; /* rate of ENCODE and DECODE, for the bytes of both forms */
    double latency_s; /* latency of each copy and message, during which its direction is busy */
    /* the trace that receives the events, in the form of those of a run; NULL: no events */
    tn_trace *trace;
    /* occupancy of this program, for live bytes and for ALLOC and FREE; NULL: only steps, without
     * live bytes */
    const struct tn_occupancy *occupancy;
    uint32_t run;   /* number that the run has in the events */
    double start_s; /* start of the run on the clock of the events, in seconds */
    /* rate and latency of FETCH; the storage is a link of its own */
    double from_storage_bytes_per_s, storage_latency_s;
    /* [tensors] bytes that a FETCH of each tensor reads; NULL: the bytes of the tensor */
    const uint64_t *fetch_bytes;
    double peer_latency_s; /* latency of each message to other ranks, in addition to latency_s */
} tn_simulate_options;
#define TN_SIMULATE_OPTIONS_INIT                                                                   \
    TN_INIT(tn_simulate_options, TN_SET(struct_size, sizeof(tn_simulate_options)))

/* A stall: stream 0 was ready and had to wait. */
typedef struct tn_stall {
    uint32_t step; /* the instruction that waited */
    uint32_t on;   /* the instruction that it waited for */
    /* start and duration of the stall; the start is counted from the start of the run */
    uint64_t start_ps, duration_ps;
} tn_stall;

typedef struct tn_simulation {
    uint64_t total_ps; /* time until the last instruction of all streams has ended; saturating */
    /* sum of the times of all APPLY, ENCODE and DECODE, including concurrent ones */
    uint64_t compute_ps;
    uint64_t stall_ps;                 /* sum of all stalls */
    uint64_t to_host_ps, from_host_ps; /* busy time of each direction of the link */
    uint64_t to_host_bytes, from_host_bytes, peer_bytes;
    tn_stall *stalls; /* [stall_count] the stalls, in order */
    uint32_t stall_count;
    uint32_t guesses;                             /* number of estimates for control flow */
    uint64_t from_storage_ps, from_storage_bytes; /* time and bytes of all FETCH instructions */
} tn_simulation;

/* Predicts the run time of a program.
 *
 * simulation  out; release with tn_simulation_release
 *
 * Errors: E_INVALID (a rate or latency that is negative or not finite; an occupancy of another
 * program), E_NO_MEMORY. Cost: O(instructions + operands), times the depth of control flow; plus
 * O(signals log signals) with signals and O(lives log lives) with an occupancy. */
TN_API TN_CHECKED tn_status tn_simulate(const tn_program *program,
                                        const tn_simulate_options *options,
                                        tn_simulation *simulation, tn_error *error);
/* Releases a simulation; NULL has no effect. */
TN_API void tn_simulation_release(tn_simulation *simulation);

/* --- timeline -------------------------------------------------------------------------------- */

/* Draws what several ranks did at the same time, in one picture.
 *
 *     tn_timeline *line;
 *     tn_error error;
 *     if (tn_timeline_create(NULL, "lm.onnx", 2, &line, &error) ||
 *         tn_timeline_rank(line, 1, "data 1", 4096, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     printf("%u ranks\n", tn_timeline_ranks(line)); // 2 ranks
 *     // for each rank: tn_timeline_add with the trace of a run or of a simulation
 *     tn_timeline_destroy(line);
 *
 * Each rank has lanes for computation, communication and copies, and below them the live bytes of
 * its arena. The predicted run is drawn above the measured one, each from its own start, to one
 * scale. Ranks in other processes send their part as bytes (tn_timeline_pack).
 *
 * Units: bytes, seconds.
 * Threads: one thread at a time.
 */

typedef struct tn_timeline tn_timeline;

typedef enum tn_timeline_kind {
    TN_TIMELINE_PREDICTED, /* predicted: the events of tn_simulate */
    TN_TIMELINE_MEASURED,  /* measured: the events of a run */
    TN_TIMELINE_KINDS
} tn_timeline_kind;

/* Creates a timeline.
 *
 * input  the title of the picture: the model's name. Copied
 * ranks  at least 1
 *
 * Errors: E_INVALID, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_create(const tn_context *context, const char *input,
                                               uint32_t ranks, tn_timeline **line, tn_error *error);
TN_API void tn_timeline_destroy(tn_timeline *line); /* Destroys a timeline; NULL has no effect. */
TN_API uint32_t tn_timeline_ranks(const tn_timeline *line);

/* Sets the label of a rank and the peak of live bytes in its plan. `label` is copied; NULL: the
 * picture shows only the number of the rank. Errors: E_INVALID (no such rank), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_rank(tn_timeline *line, uint32_t rank, const char *label,
                                             uint64_t planned_peak, tn_error *error);
/* Adds one run of a rank's program; it replaces an earlier one of that kind.
 *
 * occupancy  of the program that ran; not needed after the call
 * run        number of the run in the trace; only its steps are used
 * shift_s    added to all times, to convert them to the clock of rank 0 (tn_world_clock)
 *
 * Errors: E_INVALID (no such rank; no step of that run, or a step outside the program),
 * E_NO_MEMORY. Cost: O(events + instructions + operands). */
TN_API TN_CHECKED tn_status tn_timeline_add(tn_timeline *line, uint32_t rank, tn_timeline_kind kind,
                                            const struct tn_occupancy *occupancy,
                                            const tn_trace *trace, uint32_t run, double shift_s,
                                            tn_error *error);

/* Makes the predictions of all ranks consistent. A prediction of one rank assumes that the others
 * are always ready; after this call ranks wait for each other as in a run: a collective begins when
 * its last rank arrives, and is drawn from the arrival of each rank. Nothing changes if something
 * is unknown (control flow, calls that never match). Errors: E_NO_MEMORY. Cost: O(calls x ranks +
 * instructions log instructions). */
TN_API TN_CHECKED tn_status tn_timeline_meet(tn_timeline *line, tn_error *error);

/* Converts a rank to bytes and back, for another process of the same version and machine type. The
 * caller owns `bytes` and releases them with tn_timeline_release. Errors: E_INVALID (bytes that
 * tn_timeline_pack did not make, no such rank), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_pack(const tn_timeline *line, uint32_t rank, void **bytes,
                                             uint64_t *size, tn_error *error);
TN_API TN_CHECKED tn_status tn_timeline_unpack(tn_timeline *line, uint32_t rank, const void *bytes,
                                               uint64_t size, tn_error *error);
TN_API void tn_timeline_release(const tn_timeline *line, void *bytes, uint64_t size);

/* Times of one rank, in seconds, and its bytes. */
typedef struct tn_timeline_sums {
    double span_s;    /* time from the rank's first start to its last end */
    double compute_s; /* computing */
    double talk_s;    /* time in communication */
    double hidden_s;  /* time within talk_s in which the rank also computed */
    /* time without computation, between the first start and the last end on any rank: the bubble of
     * a pipeline */
    double idle_s;
    uint64_t peak;  /* peak of live bytes of the rank */
    uint64_t sent;  /* bytes of the rank's communication calls, each counted once */
    uint32_t talks; /* number of communication calls of the rank */
} tn_timeline_sums;
/* Measures one rank in one kind of timeline. Returns zeros for an unknown rank or an empty kind.
 * Cost: O(n log n). */
TN_API tn_timeline_sums tn_timeline_measure(const tn_timeline *line, uint32_t rank,
                                            tn_timeline_kind kind);

/* Writes the picture of a timeline. The suffix selects the format: .html (a self-contained page),
 * .svg, .json. The file is replaced atomically. Errors: E_UNSUPPORTED (suffix), E_IO,
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_timeline_write(const tn_timeline *line, const char *path,
                                              tn_error *error);
/* Whether tn_timeline_write supports the suffix of a file name. */
TN_API bool tn_timeline_writes(const char *path);

#ifdef __cplusplus
}
#endif
#endif
