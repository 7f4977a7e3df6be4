/* dist.h - several ranks that run one program, or one each: a world.
 *
 *     // ... one_rank: what a rank does, with `world`; examples/several_ranks.c is the whole of it
 *     const tn_exchange *to = tn_world_exchange(world);
 *     if (to->reduce(to->self, 0, &mean, 1, TN_FLOAT32, TN_REDUCTION_MEAN, &error))
 *         return 2;
 *     // ... and on each process
 *     tn_world_options options = TN_WORLD_OPTIONS_INIT;
 *     options.ranks = 4; // threads of this process; under mpirun its processes
 *     return tn_world_run(&options, one_rank, NULL, &error) == TN_OK ? 0 : 2;
 *
 * Ranks are threads of one process, or processes that `mpirun` started (Open MPI, loaded when it is
 * there). Both carry messages and nothing else: what is made of them stands once (collectives.c),
 * so results do not depend on the carrier. Sums are made in the order of a fixed tree over the
 * ranks, whatever arrives first and however large a message is: the same ranks give the same bits.
 *
 * Nobody waits for ever. A rank that fails tells the others why; one that gives no sign of life for
 * `silence_s`, or keeps another waiting for `patience_s`, ends the run. All ranks then end with the
 * same status and the name of that rank.
 * Units: bytes, elements, seconds.
 * Threads: the exchange of a world may be called by several; the other calls by one at a time.
 */
#ifndef TENURE_DIST_H
#define TENURE_DIST_H

#include <tenure/exchange.h>
#include <tenure/program.h>
#include <tenure/shard.h>
#include <tenure/stages.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_world tn_world;

typedef struct tn_world_options {
    size_t struct_size;
    const tn_context
        *context;       /* NULL or outlives the world; its allocator is called by all ranks */
    const char *driver; /* NULL: "mpi" where mpirun started this process, else "threads" */
    uint32_t ranks;     /* that there are to be; 0: as many as mpirun has started, or 1 */
    double silence_s;   /* 0 = 10 */
    double patience_s;  /* 0 = 600 */
    /* NULL, or called when a run failed, on one rank alone and from any thread: tells people of it,
     * and returns the exit status of the whole job. The process may end when it returns. */
    int (*tell)(void *self, tn_status status, const tn_error *error);
    void *self;
} tn_world_options;
#define TN_WORLD_OPTIONS_INIT                                                                      \
    TN_INIT(tn_world_options, TN_SET(struct_size, sizeof(tn_world_options)))

/* Runs `rank` on every rank of a world and waits for all of them: called once per process, which is
 * all ranks (threads) or one of them (mpi).
 *
 * Errors: that of the rank that failed first, with its number, on all ranks; E_UNKNOWN (driver),
 * E_INVALID (another number of ranks than was asked for), E_UNSUPPORTED (Open MPI is not there),
 * E_STOPPED (a rank is silent, or kept another waiting), E_CONFLICT (ranks that do not talk about
 * the same), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_world_run(const tn_world_options *options,
                                         tn_status (*rank)(void *self, tn_world *world,
                                                           tn_error *error),
                                         void *self, tn_error *error);

TN_API uint32_t tn_world_rank(const tn_world *world);
TN_API uint32_t tn_world_ranks(const tn_world *world);
/* For tn_engine_options.exchange and for calls of one's own; lives as long as the world. */
TN_API const tn_exchange *tn_world_exchange(tn_world *world);

/* A group of these ranks, by which member is numbered: `group` is a number above 0 that has no
 * group yet. All members say the same; others need not know of it. It may be made while other
 * threads of the rank talk. Errors: E_INVALID, E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_world_group(tn_world *world, uint32_t group, const uint32_t *ranks,
                                           uint32_t count, tn_error *error);

/* --- ranks as a grid ---------------------------------------------------------------------------
 *
 *     // ... world: of a rank
 *     tn_grid grid;
 *     if (tn_grid_parse("data=2,pipeline=4", &grid, &error) ||
 *         tn_world_grid(world, &grid, &error))
 *         return 2;
 *     tn_place at = tn_grid_place(&grid, tn_world_rank(world));
 *     uint32_t group = tn_grid_group(&grid, TN_GRID_DATA, tn_world_rank(world)); // for a REDUCE
 *
 * Neighbours in number share a layer (tensor), then come those with other samples (data), then
 * other stages (pipeline): rank = (pipeline data_count + data) tensor_count + tensor. So those that
 * talk most are nearest, as in Megatron-LM. */

typedef enum tn_grid_axis {
    TN_GRID_TENSOR,   /* parts of one layer, on the same samples */
    TN_GRID_DATA,     /* the same model on other samples */
    TN_GRID_PIPELINE, /* other layers */
    TN_GRID_AXES
} tn_grid_axis;

typedef struct tn_grid { /* how many ranks along each axis: all at least 1 */
    uint32_t tensor, data, pipeline;
    uint32_t interleave; /* pieces of the model that each stage has by turns; 1: one */
} tn_grid;
#define TN_GRID_INIT                                                                               \
    TN_INIT(tn_grid, TN_SET(tensor, 1) TN_SET(data, 1) TN_SET(pipeline, 1) TN_SET(interleave, 1))
#define TN_GRID_MOST (UINT32_C(1) << 20) /* along an axis */

/* "data=2,tensor=4,pipeline=2,interleave=2": each at most once, in any order; 1 where it is not
 * there. Errors: E_INVALID (another word, twice, no number from 1 to TN_GRID_MOST, 2^32 ranks and
 * more). */
TN_API TN_CHECKED tn_status tn_grid_parse(const char *text, tn_grid *grid, tn_error *error);
TN_API uint32_t tn_grid_ranks(const tn_grid *grid);

typedef struct tn_place { /* where a rank is: which one along each axis, from 0 */
    uint32_t tensor, data, pipeline;
} tn_place;
TN_API tn_place tn_grid_place(const tn_grid *grid, uint32_t rank);
TN_API uint32_t tn_grid_rank(const tn_grid *grid, tn_place place);
/* The group of those along an axis that have all else in common with `rank`: its number differs
 * from that of every other group of the grid, so that programs of all ranks can be verified
 * together; 0, where these are all ranks. `axis` TN_GRID_AXES: a number behind all of them, from
 * which on others are free. */
TN_API uint32_t tn_grid_group(const tn_grid *grid, tn_grid_axis axis, uint32_t rank);

/* Makes the three groups that this rank is in, members in their order along the axis; those of one
 * member as well. Errors: E_INVALID (the grid has another number of ranks than the world), those
 * of tn_world_group. */
TN_API TN_CHECKED tn_status tn_world_grid(tn_world *world, const tn_grid *grid, tn_error *error);

/* --- what all agree on ----------------------------------------------------------------------- */

/* All ranks come here, each with how it got on: TN_OK where all did; else the status and, in
 * `error`, the words of the lowest rank that did not, on all ranks. */
TN_API TN_CHECKED tn_status tn_world_agree(tn_world *world, tn_status mine, tn_error *error);

typedef struct tn_world_same { /* what all ranks have to have in common */
    const char *what;          /* "the model"; static */
    uint64_t hash;
} tn_world_same;
/* All ranks come here with as many hashes of the same things. Errors, on all ranks alike:
 * E_CONFLICT (what differs, and the first rank that has another one than rank 0). */
TN_API TN_CHECKED tn_status tn_world_compare(tn_world *world, const tn_world_same *same,
                                             uint32_t count, tn_error *error);

/* The same for a program that every rank is about to run, and its seed: version, graph, what is
 * said to others. Attributes "seed" of operators may differ. */
TN_API TN_CHECKED tn_status tn_world_alike(tn_world *world, const tn_program *program,
                                           uint64_t seed, tn_error *error);

/* --- time ------------------------------------------------------------------------------------ */

/* Seconds to add to this rank's clock, so that it tells the time of rank 0's: all ranks come here.
 * Of machines whose clocks have nothing to do with each other it is right within half of the
 * shortest way there and back of several; 0 where that cannot tell it from none, as among processes
 * of one machine. Errors: those of the exchange, as of tn_world_run. Cost: 16 messages there and
 * back for each rank. */
TN_API TN_CHECKED tn_status tn_world_clock(tn_world *world, double *shift_s, tn_error *error);

typedef struct tn_world_rates { /* of calls of all ranks, as tn_simulate reckons with them */
    double latency_s, bytes_per_s;
} tn_world_rates;
/* How fast a small and a large REDUCE of all ranks are now: the medians of a few on rank 0, for all
 * ranks alike. Nothing of one rank (0, 0: takes no time). Errors: E_NO_MEMORY, those of the
 * exchange.
 */
TN_API TN_CHECKED tn_status tn_world_measure_link(tn_world *world, tn_world_rates *rates,
                                                  tn_error *error);

typedef struct tn_world_usage {
    uint64_t messages, bytes; /* that this rank has sent so far */
    uint64_t direct_bytes;    /* of these to one rank (SEND), as to another stage */
    uint64_t scratch;         /* bytes of the host's memory for what arrives, beside the plan */
} tn_world_usage;
TN_API tn_world_usage tn_world_measure(tn_world *world);

/* The registry, for lists. */
TN_API uint32_t tn_world_driver_count(void);
TN_API const char *tn_world_driver_name(uint32_t index);
TN_API const char *tn_world_driver_summary(uint32_t index);

/* --- programs of several ranks -----------------------------------------------------------------
 */

/* Data parallel: every bucket of gradients (tn_train_options.bucket_bytes) becomes the mean of all
 * members of the group as soon as it is complete, on a stream of its own, and who reads it waits
 * for that. What only updates parameters by it is moved behind the next bucket, so that the bucket
 * has that time to travel. All ranks run the same program.
 *
 * program   outlives the new one's graph; left as it is
 * Errors: E_INVALID (no buckets), E_UNSUPPORTED (tensors that are kept encoded), those of
 * tn_program_from. */
TN_API TN_CHECKED tn_status tn_program_average(const tn_program *program, uint32_t group,
                                               tn_program **averaged, tn_error *error);

/* Data parallel where ranks divide more among them than samples; the program is of a step that was
 * made for that (tn_train_options.shard). Buckets are added up as above, but each member gets the
 * part that it updates (SCATTER), with TN_SHARD_GRADIENTS into memory of its own, so that the
 * bucket goes. Parameters that it has updated go to all (GATHER). With TN_SHARD_PARAMETERS they are
 * gathered before they are read, on a stream of their own, dropped behind their last reader and
 * gathered again for the next. How far ahead is bounded by memory: all that are there at once take
 * no more than what one instruction reads, and `ahead_bytes`. What is read again before so many
 * bytes of others stays. The ranks' programs differ by their parts alone. */
typedef struct tn_program_shard_options {
    size_t struct_size;
    tn_shard shard;
    uint32_t group;        /* who takes part */
    uint32_t gather_group; /* the same ranks by another number, so that parameters are gathered
                            * beside buckets; `group`: in turn with them, on one stream */
    uint64_t
        ahead_bytes; /* of parameters that are gathered ahead of need; 0: as the largest shard */
} tn_program_shard_options;
#define TN_PROGRAM_SHARD_OPTIONS_INIT                                                              \
    TN_INIT(tn_program_shard_options, TN_SET(struct_size, sizeof(tn_program_shard_options)))

/* Errors: those of tn_program_average; E_INVALID (a step that was made for another division),
 * E_UNSUPPORTED (with TN_SHARD_PARAMETERS: control flow, and programs that a budget has changed).
 */
TN_API TN_CHECKED tn_status tn_program_shard(const tn_program *program,
                                             const tn_program_shard_options *options,
                                             tn_program **sharded, tn_error *error);

/* Tensor parallel: behind each operator whose result is to become one over ranks (a graph of
 * tn_train_options.tensor_ranks) the members of the group make it one, in the stream of that
 * operator. All ranks run programs of the same graph but for which part they are.
 *
 * program   outlives the new one's graph; left as it is
 * Errors: E_UNSUPPORTED (tensors that are kept encoded), those of tn_program_from. */
TN_API TN_CHECKED tn_status tn_program_join(const tn_program *program, uint32_t group,
                                            tn_program **joined, tn_error *error);

/* Pipeline parallel: the program of one stage, of a step that has all micro-batches in one graph
 * (tn_train_options.pipeline_parts). Part p of the model belongs to stage p modulo their number, so
 * that with twice as many parts each stage has two of them by turns (interleaved). What a stage
 * makes and another reads is sent, on streams beside the computing, with the tensor's id as its
 * tag. A parameter that several stages read is kept, summed up and updated in each. Programs of all
 * stages are made and verified together (tn_programs_verify) before this one is handed out.
 * tn_program_average may follow, where a stage has several ranks. */
typedef struct tn_program_pipeline_options {
    size_t struct_size;
    const tn_stages *stages; /* of tn_training; read only by the call */
    uint32_t stage_count, stage;
    tn_pipeline schedule;
    const uint32_t *ranks; /* [stage_count] who they are; NULL: ranks 0, 1, ... */
    /* Of a model that is cut, too (tn_train_options.tensor_ranks): how many have parts of each
     * stage, and the group of those of this one, who make one what has to be as tn_program_join
     * would have it; `ranks` are then those with the same part of the other stages. 0 and 1: each
     * has all of its stage */
    uint32_t tensor_ranks, tensor_rank, tensor_group;
    /* What those of a stage have alike (tn_stages.alike) goes to the next one in parts, one from
     * each of them, if their number divides it, and is put together there. With this each sends all
     * of it: as many times the bytes between stages, and fewer within */
    bool whole_sends;
} tn_program_pipeline_options;
#define TN_PROGRAM_PIPELINE_OPTIONS_INIT                                                           \
    TN_INIT(tn_program_pipeline_options, TN_SET(struct_size, sizeof(tn_program_pipeline_options)))

/* program   of the step's graph, rewritten or not, as tn_program_create makes it; outlives the new
 *           one's graph; left as it is
 * Errors: E_INVALID (stages that do not divide the parts, or with several pieces the
 * micro-batches), E_UNSUPPORTED (control flow; a program that a budget or recomputing has changed;
 * an operator that was put together across a cut and reads what another stage updates, named),
 * those of tn_programs_verify. Cost: O(stages x instructions). */
TN_API TN_CHECKED tn_status tn_program_pipeline(const tn_program *program,
                                                const tn_program_pipeline_options *options,
                                                tn_program **staged, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
