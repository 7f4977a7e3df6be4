/* dist.h - several ranks: parts of tensors, pipeline stages, communication, the programs of ranks,
 * and the predicted time of a cluster.
 */
#ifndef TENURE_DIST_H
#define TENURE_DIST_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/dist.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/estimate.h>
#include <tenure/fit.h>
#include <tenure/graph.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- parts ----------------------------------------------------------------------------------- */

/* Describes which part of each tensor a rank has in a tensor-parallel model.
 *
 *     // ... train.tensor_ranks and .tensor_rank (a tn_train_options) were set
 *     const tn_tensor_part *part = tn_training_part(&training, weights);
 *     if (part != NULL) // this rank has a part of them: read all, keep the part
 *         tn_tensor_part_take(part, train.tensor_ranks, train.tensor_rank, whole, mine);
 *
 * A tensor is cut along one axis. If it consists of several matrices side by side (queries, keys
 * and values in one), each of them is a block that is cut separately, so that a rank has the same
 * part of each.
 * Units: elements, bytes.
 * Threads: any number at once; nothing is changed.
 */

typedef struct tn_tensor_part {
    /* A static tensor: a parameter, a statistic, optimizer state, or a parameter in a shard
     * (tn_trained.shard). */
    tn_tensor_id tensor;
    uint32_t axis;        /* the axis along which the tensor is cut */
    uint32_t block_count; /* number of matrices side by side in the tensor; 1: a single matrix */
    /* [block_count] extent of each matrix along the axis, a multiple of the number of ranks */
    const int64_t *blocks;
    uint32_t rank;        /* number of axes of the tensor */
    const int64_t *shape; /* [rank] shape of the whole tensor */
    uint64_t bytes;       /* bytes of the whole tensor */
} tn_tensor_part;

/* Copy the part of rank `rank` out of the whole tensor (take) or into it (put). `whole` has
 * tn_tensor_part.bytes bytes, `mine` has bytes / ranks.
 *
 * ranks, rank  as in tn_train_options
 * Cost: O(bytes / ranks).
 */
TN_API void tn_tensor_part_take(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                                const void *whole, void *mine);
TN_API void tn_tensor_part_put(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                               const void *mine, void *whole);

/* --- stages ---------------------------------------------------------------------------------- */

/* Describes a training step with all micro-batches in one graph, for a pipeline.
 *
 * tn_train makes the graph (tn_train_options.pipeline_parts) and records here the part and the
 * micro-batch of each tensor; tn_program_pipeline (dist.h) makes the program of one stage. A part
 * is a run of consecutive operators of the model; a round is a micro-batch.
 */

#define TN_STAGE_PARTS_MAX 64u

typedef enum tn_way { TN_WAY_FORWARD, TN_WAY_BACKWARD, TN_WAY_UPDATE } tn_way;

/* Where a tensor of a pipelined training step is made: the part of the model, the micro-batch
 * (`round`) and the pass. */
typedef struct tn_home {
    uint32_t part, round;
    /* the pass in which the tensor is made; UPDATE: after the passes of all micro-batches, so
     * `round` has no meaning */
    tn_way way;
    /* a parameter: the tensor is made in each part that reads this parameter; TN_NONE: the tensor
     * is made only in `part` */
    tn_tensor_id of;
    uint64_t readers; /* for static tensors of the model: bit p is set if part p reads the tensor */
} tn_home;

/* The tensors of one micro-batch in the step's graph. */
typedef struct tn_round {
    /* the tensors of this micro-batch with labels, loss and number of correct labels; TN_NONE: the
     * step has no such tensor */
    tn_tensor_id labels, loss, correct;
    /* [input_count] the inputs of the model for the micro-batch, in the model's order */
    const tn_tensor_id *inputs;
} tn_round;

typedef struct tn_stages {
    uint32_t parts, rounds;
    const tn_round *round; /* [rounds] */
    uint32_t input_count;
    /* [tensors] where each tensor is made, for the graph as tn_train made it */
    const tn_home *homes;
    uint32_t tensors;
    /* [tensors] whether all ranks that share a stage (tn_train_options.tensor_ranks) have equal
     * values in the tensor; NULL: not known for any tensor */
    const bool *alike;
    /* number of tensor-parallel ranks of the step and number of this rank, as in train.h; 1 and 0:
     * the model is not cut */
    uint32_t tensor_ranks, tensor_rank;
} tn_stages;

/* The order in which a stage goes through its passes, in the form X(name, text, sentence) */
/* clang-format off */
#define TN_PIPELINE_TABLE(X)                                                                       \
    X(ONE_BACK, "1f1b", "one forward, one backward in turn, as soon as there is one to go back")   \
    X(ALL_AHEAD, "gpipe", "all forward passes, then all backward ones")
/* clang-format on */
typedef enum tn_pipeline {
#define TN_X(name, text, sentence) TN_PIPELINE_##name,
    TN_PIPELINE_TABLE(TN_X)
#undef TN_X
        TN_PIPELINE_COUNT
} tn_pipeline;
/* Returns the name of a pipeline order, such as "1f1b"; a static string. NULL: the value is out of
 * range. */
TN_API const char *tn_pipeline_name(tn_pipeline schedule);

/* --- exchange -------------------------------------------------------------------------------- */

/* Communication of a rank with other ranks, as a table of functions.
 *
 *     // ... world: of dist.h
 *     tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
 *     options.exchange = tn_world_exchange(world); // of dist.h, or your own
 *
 * SEND, RECV, REDUCE, GATHER and SCATTER (program.h) call these functions with memory of the
 * arena; an engine without an exchange refuses them. An engine knows nothing else of other ranks.
 *
 * A call returns when its memory can be used again. Calls of one stream are in order; calls of
 * several streams come from several threads at once. A group is a number that all of its members
 * know; 0 is all ranks. The implementation of the table must limit the time that a call waits.
 * Units: bytes, elements.
 */

typedef struct tn_exchange {
    size_t struct_size;
    void *self;
    uint32_t rank, ranks; /* number of this rank, and number of all ranks */
    /* Returns the number of ranks in a group and the index of this rank in `mine`; 0: this rank is
     * not a member. */
    uint32_t (*members)(void *self, uint32_t group, uint32_t *mine);
    /* Whether elements of a type can be reduced with a given reduction. */
    bool (*reduces)(void *self, tn_dtype dtype, tn_reduction reduction);
    tn_status (*send)(void *self, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                      tn_error *error);
    tn_status (*recv)(void *self, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                      tn_error *error);
    /* Reduces `count` elements over all members of a group, in place. */
    tn_status (*reduce)(void *self, uint32_t group, void *data, uint64_t count, tn_dtype dtype,
                        tn_reduction reduction, tn_error *error);
    /* Sends the section of each member, `bytes` each, to all members, in the order of the members
     * (all-gather). `part` may point to its place in `all`. */
    tn_status (*gather)(void *self, uint32_t group, const void *part, void *all, uint64_t bytes,
                        tn_error *error);
    /* Reduces like `reduce`, but each member receives only its section of `count` elements
     * (reduce-scatter). `part` may point to its place in `all`; the other data in `all` is then
     * lost. */
    tn_status (*scatter)(void *self, uint32_t group, void *all, void *part, uint64_t count,
                         tn_dtype dtype, tn_reduction reduction, tn_error *error);
    /* Sends the data of member `root` to all members. Ranks use it when they are set up; no
     * instruction calls it. */
    tn_status (*broadcast)(void *self, uint32_t group, uint32_t root, void *data, uint64_t bytes,
                           tn_error *error);
} tn_exchange;

/* --- dist ------------------------------------------------------------------------------------ */

/* A world: several ranks that run one program together, or one program each.
 *
 *     // ... one_rank: the work of a rank, with `world`; complete: examples/several_ranks.c
 *     const tn_exchange *to = tn_world_exchange(world);
 *     if (to->reduce(to->self, 0, &mean, 1, TN_FLOAT32, TN_REDUCTION_MEAN, &error))
 *         return 2;
 *     // ... and on each process
 *     tn_world_options options = TN_WORLD_OPTIONS_INIT;
 *     options.ranks = 4; // threads of this process, or processes of mpirun
 *     return tn_world_run(&options, one_rank, NULL, &error) == TN_OK ? 0 : 2;
 *
 * Ranks are threads of one process, or processes that `mpirun` started (Open MPI, loaded if it is
 * installed). Both transports only carry messages. The collectives are implemented once, on top of
 * them (collectives.c), so results do not depend on the transport. Sums are computed in the order
 * of a fixed tree over the ranks, independent of arrival order and message size: the same ranks
 * give the same bits.
 *
 * No rank waits forever. A rank that fails reports the reason to the others. A rank that gives no
 * sign of life for `silence_s`, or keeps another rank waiting for `patience_s`, ends the run. All
 * ranks then end with the same status and the number of that rank.
 * Units: bytes, elements, seconds.
 * Threads: several threads may call the exchange of a world; the other calls are for one thread at
 * a time.
 */

typedef struct tn_world tn_world;

typedef struct tn_world_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the world. All ranks call its
     * allocator. */
    const tn_context *context;
    /* name of the transport; NULL: "mpi" if mpirun started this process, otherwise "threads" */
    const char *driver;
    uint32_t ranks; /* number of ranks; 0: as many as mpirun has started, or 1 */
    /* seconds without a sign of life after which a rank counts as failed; 0: 10 */
    double silence_s;
    double patience_s; /* seconds that a rank may keep another one waiting; 0: 600 */
    /* Called when a run failed, on one rank only and from any thread. The callback reports the
     * error to the user and returns the exit status of the whole job. The process may end when the
     * callback returns. NULL: not called. */
    int (*tell)(void *self, tn_status status, const tn_error *error);
    void *self;
} tn_world_options;
#define TN_WORLD_OPTIONS_INIT                                                                      \
    TN_INIT(tn_world_options, TN_SET(struct_size, sizeof(tn_world_options)))

/* Runs `rank` on every rank of a world and waits for all of them. Call it once per process. A
 * process is all ranks (threads) or one rank (mpi).
 *
 * Errors: on all ranks the error of the rank that failed first, with its number; E_UNKNOWN
 * (driver), E_INVALID (the number of ranks differs from `ranks`), E_UNSUPPORTED (Open MPI is not
 * installed), E_STOPPED (a rank is silent or kept another one waiting), E_CONFLICT (ranks
 * communicate about different things), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_world_run(const tn_world_options *options,
                                         tn_status (*rank)(void *self, tn_world *world,
                                                           tn_error *error),
                                         void *self, tn_error *error);

TN_API uint32_t tn_world_rank(const tn_world *world);
TN_API uint32_t tn_world_ranks(const tn_world *world);
/* Returns the exchange for tn_engine_options.exchange and for direct calls; it lives as long as the
 * world. */
TN_API const tn_exchange *tn_world_exchange(tn_world *world);

/* Defines a group of ranks; its members are numbered in the order of `ranks`. `group` is an unused
 * number above 0. All members must define the group with equal arguments; other ranks need not know
 * it. Other threads of the rank may communicate meanwhile. Errors: E_INVALID, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_world_group(tn_world *world, uint32_t group, const uint32_t *ranks,
                                           uint32_t count, tn_error *error);

/* --- ranks as a grid ---
 *
 *     // ... world: of a rank
 *     tn_grid grid;
 *     if (tn_grid_parse("data=2,pipeline=4", &grid, &error) ||
 *         tn_world_grid(world, &grid, &error))
 *         return 2;
 *     tn_place at = tn_grid_place(&grid, tn_world_rank(world));
 *     uint32_t group = tn_grid_group(&grid, TN_GRID_DATA, tn_world_rank(world)); // for a REDUCE
 *
 * Adjacent ranks share a layer (tensor); the next axis has other samples (data), the last other
 * stages (pipeline): rank = (pipeline data_count + data) tensor_count + tensor. So the ranks that
 * communicate most are nearest, as in Megatron-LM. */

typedef enum tn_grid_axis {
    TN_GRID_TENSOR,   /* ranks with shards of one layer, on the same samples */
    TN_GRID_DATA,     /* ranks with the same model, on other samples */
    TN_GRID_PIPELINE, /* ranks with other layers */
    TN_GRID_AXES
} tn_grid_axis;

typedef struct tn_grid { /* The number of ranks along each axis of a grid: at least 1. */
    uint32_t tensor, data, pipeline;
    /* number of groups of layers (model chunks) per stage; 1: not interleaved */
    uint32_t interleave;
} tn_grid;
#define TN_GRID_INIT                                                                               \
    TN_INIT(tn_grid, TN_SET(tensor, 1) TN_SET(data, 1) TN_SET(pipeline, 1) TN_SET(interleave, 1))
#define TN_GRID_MOST (UINT32_C(1) << 20) /* largest number of ranks along an axis */

/* Parses a grid such as "data=2,tensor=4,pipeline=2,interleave=2": each axis at most once, in any
 * order; an axis that is not given is 1. Errors: E_INVALID (another word, an axis given twice, a
 * number outside 1 to TN_GRID_MOST, 2^32 ranks or more). */
TN_API TN_CHECKED tn_status tn_grid_parse(const char *text, tn_grid *grid, tn_error *error);
/* Returns the number of ranks of a grid. */
TN_API uint32_t tn_grid_ranks(const tn_grid *grid);

typedef struct tn_place { /* The position of a rank along each axis of a grid, from 0. */
    uint32_t tensor, data, pipeline;
} tn_place;
/* tn_grid_place returns the position of a rank along each axis; tn_grid_rank returns the rank at a
 * position. */
TN_API tn_place tn_grid_place(const tn_grid *grid, uint32_t rank);
TN_API uint32_t tn_grid_rank(const tn_grid *grid, tn_place place);
/* Returns the number of the group of ranks that differ from `rank` only along `axis`; 0 if these
 * are all ranks. Every group of the grid has its own number, so that the programs of all ranks can
 * be verified together. For `axis` TN_GRID_AXES: returns the first number that the grid does not
 * use. */
TN_API uint32_t tn_grid_group(const tn_grid *grid, tn_grid_axis axis, uint32_t rank);

/* Defines the three groups of this rank, with members in their order along the axis, including
 * groups of one member. Errors: E_INVALID (the grid and the world have different numbers of ranks),
 * those of tn_world_group. */
TN_API TN_CHECKED tn_status tn_world_grid(tn_world *world, const tn_grid *grid, tn_error *error);

/* --- agreement of all ranks --- */

/* A barrier that combines the status of all ranks; all ranks must call it. Returns TN_OK if `mine`
 * is TN_OK on all ranks. Otherwise it returns, on all ranks, the status and error message of the
 * lowest rank with an error. */
TN_API TN_CHECKED tn_status tn_world_agree(tn_world *world, tn_status mine, tn_error *error);

typedef struct tn_world_same { /* A thing that must be equal on all ranks, with its hash. */
    const char *what;          /* name of the thing, such as "the model"; a static string */
    uint64_t hash;
} tn_world_same;
/* Compares hashes among all ranks; all must call it with the same number of hashes. Errors, on all
 * ranks: E_CONFLICT (the message names the thing that differs, and the first rank that differs from
 * rank 0). */
TN_API TN_CHECKED tn_status tn_world_compare(tn_world *world, const tn_world_same *same,
                                             uint32_t count, tn_error *error);

/* Compares among all ranks the program that every rank is about to run, and its seed: version,
 * graph, communication with other ranks. Attributes "seed" of operators may differ. */
TN_API TN_CHECKED tn_status tn_world_alike(tn_world *world, const tn_program *program,
                                           uint64_t seed, tn_error *error);

/* --- time ------------------------------------------------------------------------------------ */

/* Computes the seconds to add to this rank's clock to get the clock of rank 0; all ranks must call
 * it. For machines with unrelated clocks the error is at most half of the shortest of several round
 * trips. The result is 0 if the difference is not distinguishable from 0, as among processes of one
 * machine. Errors: those of the exchange, as for tn_world_run. Cost: 16 round trips per rank. */
TN_API TN_CHECKED tn_status tn_world_clock(tn_world *world, double *shift_s, tn_error *error);

/* The speed of collective calls of all ranks, in the form of tn_simulate. */
typedef struct tn_world_rates {
    double latency_s, bytes_per_s;
} tn_world_rates;
/* Measures the speed of a small and a large REDUCE of all ranks. The results are the medians of a
 * few calls on rank 0, equal on all ranks. With one rank nothing is measured (0, 0: calls take no
 * time). Errors: E_NO_MEMORY, those of the exchange. */
TN_API TN_CHECKED tn_status tn_world_measure_link(tn_world *world, tn_world_rates *rates,
                                                  tn_error *error);

typedef struct tn_world_usage {
    uint64_t messages, bytes; /* messages and bytes that this rank has sent so far */
    /* bytes within `bytes` that were sent to a single rank (SEND), for example to another stage */
    uint64_t direct_bytes;
    uint64_t scratch; /* bytes of host memory for incoming messages, outside the plan */
} tn_world_usage;
/* Returns the communication of this rank so far. */
TN_API tn_world_usage tn_world_measure(tn_world *world);

/* The registry of transports (drivers), for lists. */
TN_API uint32_t tn_world_driver_count(void);
TN_API const char *tn_world_driver_name(uint32_t index);
TN_API const char *tn_world_driver_summary(uint32_t index);

/* --- programs of several ranks -----------------------------------------------------------------
 */

/* Data parallelism. Every bucket of gradients (tn_train_options.bucket_bytes) is averaged over the
 * members of the group as soon as it is complete, on a stream of its own. Instructions that read
 * the bucket wait for that. Parameter updates are moved after the next bucket, so that
 * communication overlaps with its computation. All ranks run the same program.
 *
 * program   not changed; must outlive the graph of the new program
 * averaged  out
 * Errors: E_INVALID (no buckets), E_UNSUPPORTED (tensors that are kept encoded), those of
 * tn_program_from. */
TN_API TN_CHECKED tn_status tn_program_average(const tn_program *program, uint32_t group,
                                               tn_program **averaged, tn_error *error);

/* Options of data parallelism with sharding (ZeRO). The program is that of a step with
 * tn_train_options.shard. Buckets of gradients are summed over the group as tn_program_average
 * does, but each member receives only the shard that it updates (SCATTER); with TN_SHARD_GRADIENTS
 * the shard is stored separately, so that the bucket can be released. Updated parameters are sent
 * to all members (GATHER). With TN_SHARD_PARAMETERS, parameters are gathered before they are read,
 * on a stream of their own, dropped after the last reader, and gathered again for the next one.
 * Memory limits how early: the gathered parameters take at most the bytes that one instruction
 * reads plus `ahead_bytes`. A parameter that is read again before that many bytes of other
 * parameters is kept. Rules (fit.h) about the operators ShardWhole can say otherwise: KEEP gathers
 * once, in addition to these bytes; RECOMPUTE gathers again for the backward pass. The programs of
 * the ranks differ only in their shards. */
typedef struct tn_program_shard_options {
    size_t struct_size;
    tn_shard shard;
    uint32_t group; /* the group of ranks that share the work */
    /* A second group with the same ranks, so that gathering parameters overlaps with reducing
     * buckets. If it equals `group`, reducing and gathering share one stream. */
    uint32_t gather_group;
    /* bytes of parameters to gather ahead; 0: the bytes of the largest gathered shard */
    uint64_t ahead_bytes;
    /* The rules that the compiled model obeys (tn_setup_options.rules), read only during the call;
     * NULL: none */
    const tn_rules *rules;
} tn_program_shard_options;
#define TN_PROGRAM_SHARD_OPTIONS_INIT                                                              \
    TN_INIT(tn_program_shard_options, TN_SET(struct_size, sizeof(tn_program_shard_options)))

/* Makes the program of one rank with sharding. Errors: those of tn_program_average; E_INVALID (a
 * step for another sharding), E_UNSUPPORTED (with TN_SHARD_PARAMETERS: control flow, and programs
 * that a budget has changed). */
TN_API TN_CHECKED tn_status tn_program_shard(const tn_program *program,
                                             const tn_program_shard_options *options,
                                             tn_program **sharded, tn_error *error);

/* Tensor parallelism. After each operator with partial results (a graph of
 * tn_train_options.tensor_ranks), the members of the group combine the results, on the stream of
 * that operator. The programs of the ranks differ only in their shards. The result of a RankGather
 * is dropped when other communication follows its last reader, and gathered again for later
 * readers.
 *
 * program  not changed; must outlive the graph of the new program. An operator that a rule
 *          recomputes is followed by its communication each time
 * rules    rules (fit.h), the same on all ranks: KEEP of a RankGather keeps its result; NULL: none
 * joined   out
 * Errors: E_UNSUPPORTED (tensors that are kept encoded), those of tn_program_from. */
TN_API TN_CHECKED tn_status tn_program_join(const tn_program *program, uint32_t group,
                                            const tn_rules *rules, tn_program **joined,
                                            tn_error *error);

/* Pipeline parallelism: makes the program of one stage from a step that has all micro-batches in
 * one graph (tn_train_options.pipeline_parts). Chunk p of the model belongs to stage p modulo the
 * number of stages; with twice as many chunks as stages each stage has two of them (interleaved).
 * Tensors that another stage reads are sent on streams that overlap with computation, with the
 * tensor's id as tag. A parameter that several stages read is kept, summed and updated in each of
 * them. The programs of all stages are made and verified together (tn_programs_verify).
 * tn_program_average can follow if a stage has several ranks. */
typedef struct tn_program_pipeline_options {
    size_t struct_size;
    const tn_stages *stages; /* the stages of tn_training; read only during the call */
    uint32_t stage_count, stage;
    tn_pipeline schedule;
    const uint32_t *ranks; /* [stage_count] ranks of the stages; NULL: ranks 0, 1, ... */
    /* For a model that is also tensor parallel (tn_train_options.tensor_ranks): the number of ranks
     * per stage, the index of this rank among them, and the group of this stage's ranks, which
     * combine partial results as in tn_program_join. `ranks` are then the ranks of the other stages
     * that have the same shard. 0 and 1: one rank has the whole stage. */
    uint32_t tensor_ranks, tensor_rank, tensor_group;
    /* A tensor that has equal values on all ranks of a stage (tn_stages.alike) is sent to the next
     * stage in sections, one from each rank, if their number divides it, and is assembled there.
     * True: each rank sends the whole tensor. This multiplies the bytes between stages by the
     * number of ranks and saves communication within the stages. */
    bool whole_sends;
    /* for the ranks of a stage, as in tn_program_join; NULL: none */
    const tn_rules *rules;
} tn_program_pipeline_options;
#define TN_PROGRAM_PIPELINE_OPTIONS_INIT                                                           \
    TN_INIT(tn_program_pipeline_options, TN_SET(struct_size, sizeof(tn_program_pipeline_options)))

/* Makes the program of one stage of a pipeline.
 *
 * program  of the step's graph, rewritten or not, as tn_program_create makes it; not changed; must
 *           outlive the graph of the new program
 * staged   out
 * Errors: E_INVALID (the number of stages does not divide the chunks, or, when interleaved, the
 * micro-batches), E_UNSUPPORTED (control flow; a program that a budget or recomputation has
 * changed; a fused operator across a stage boundary that reads a tensor which another stage
 * updates, for which the message names the operator), those of tn_programs_verify. Cost: O(stages x
 * instructions).
 */
TN_API TN_CHECKED tn_status tn_program_pipeline(const tn_program *program,
                                                const tn_program_pipeline_options *options,
                                                tn_program **staged, tn_error *error);

/* --- cluster --------------------------------------------------------------------------------- */

/* Predicts the time of a training iteration of a large transformer on many devices, and
 * finds the fastest division among them.
 *
 *     tn_large large = {.model = {.hidden = 12288, .layers = 96, .heads = 96,
 *                                 .vocabulary = 51200},
 *                       .sequence = 2048, .batch = 1536, .recompute = TN_RECOMPUTE_FULL};
 *     tn_cluster cluster = TN_CLUSTER_INIT;
 *     tn_cluster_found found;
 *     tn_error error;
 *     cluster.devices = 1536;
 *     cluster.memory = UINT64_C(80) << 30;
 *     cluster.flops = 312e12, cluster.bytes_per_s = 2039e9;
 *     if (tn_cluster_search(&cluster, &large, NULL, &found, &error) != TN_OK) return 1;
 *     printf("%.1f s an iteration\n", found.time.seconds); // found.large: how it is divided
 *
 * The model is not fitted to measurements. A product takes its operations at the data-sheet rate or
 * its bytes at the memory bandwidth, whichever is longer. Other operators take their bytes.
 * Messages take their bytes at the rate of their link (rings), and gradients are summed after the
 * last backward pass without overlap. Micro-batches go through the stages one by one in 1F1B order,
 * interleaved or not. Launches, message latency and clock throttling are not counted, so real
 * iterations take longer; docs/estimate.md compares published ones.
 * Units: bytes, seconds, FLOP/s.
 * Threads: everything is read only.
 * Source: Narayanan et al. 2021 (schedules, scatter/gather), Korthikanti et al. 2022.
 */

typedef struct tn_cluster {
    uint64_t devices;   /* number of devices, which are identical */
    uint64_t per_node;  /* number of devices that the fast link connects; 0: 8 */
    uint64_t memory;    /* bytes of memory of a device; 0: no limit */
    double flops;       /* rate of a device in FLOP/s, for products in the type of the weights */
    double bytes_per_s; /* memory bandwidth of a device */
    double fast, slow;  /* bytes/s that a device sends: within its node, and to other nodes */
    /* true: each tensor rank sends the whole output of a stage, not only its share */
    bool whole_sends;
} tn_cluster;
/* The links of a node with eight A100: 300 GB/s inside, a network card of 25 GB/s per device. */
#define TN_CLUSTER_INIT                                                                            \
    TN_INIT(tn_cluster, TN_SET(per_node, 8) TN_SET(fast, 300e9) TN_SET(slow, 25e9))

typedef struct tn_cluster_time { /* The predicted time of an iteration, in seconds. */
    double seconds;
    /* times of the stage that is busy longest: time of products; of other operators; of messages
     * between tensor ranks. The rest of `pass` is spent in bubbles and sends */
    double products, other, tensor;
    double pass;         /* time of the forward and backward passes of all micro-batches */
    double data, update; /* time of summing gradients; of updating parameters */
    double bubble;       /* share of `pass` in which the busiest stage is idle */
    /* Utilisation of the devices: the operations of the iteration (tn_large_estimate) as a share of
     * what their rate allows. Recomputed operations count only with full recomputation, as in
     * publications. */
    double share;
    /* bytes that a device sends to other nodes: the maximum over all devices */
    uint64_t slow_bytes;
} tn_cluster_time;

/* Predicts one division (large->tensor, pipeline, data, micro, interleave, ...). Memory is not
 * checked.
 * Cost: stages x chunks x micro-batches.
 * Errors: E_INVALID (as tn_large_estimate_make; the ranks are not as many as the devices; rates
 * that are not positive; micro-batches that interleaved stages cannot share evenly, or four million
 * passes or more), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_cluster_time_make(const tn_cluster *cluster, const tn_large *large,
                                                 tn_cluster_time *time, tn_error *error);

/* The choices of the search for a division; false: the value in `large` is used. */
typedef struct tn_cluster_free {
    uint32_t struct_size;
    bool recompute, shard, sequence_parallel;
} tn_cluster_free;
#define TN_CLUSTER_FREE_INIT                                                                       \
    TN_INIT(tn_cluster_free, TN_SET(struct_size, sizeof(tn_cluster_free)) TN_SET(recompute, true)  \
                                 TN_SET(shard, true) TN_SET(sequence_parallel, true))

typedef struct tn_cluster_found {
    tn_large large; /* the model with the division that was found */
    tn_large_estimate memory;
    tn_cluster_time time;
    uint64_t tried, fitting; /* number of divisions that were tried, and number of those that fit */
} tn_cluster_found;

/* Finds the division with the shortest predicted time among all that fit: tensor ranks within a
 * node, stages with equal numbers of layers, micro-batches of powers of two, any number of chunks.
 * Ties go to the division with less memory. `choices` NULL: everything may be chosen.
 * Errors: as tn_cluster_time_make; E_INFEASIBLE (none fits; the message states the least memory).
 */
TN_API TN_CHECKED tn_status tn_cluster_search(const tn_cluster *cluster, const tn_large *large,
                                              const tn_cluster_free *choices,
                                              tn_cluster_found *found, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
