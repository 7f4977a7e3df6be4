/* ranks.c - training runs of several ranks, which train on different samples or hold different
 * parts of a model: how the ranks start, and the results that they combine.
 *
 * The averages of gradients are computed by the program of the step. The training loop does the
 * rest. All ranks begin with the first rank's parameters, state and step, whatever their own files
 * contain. The loss and the number of correct answers of a step are those of the whole batch. When
 * one rank is asked to stop, all ranks stop after the next step.
 */
#include <stdio.h>

#include "run/trainer/checkpoint.h"
#include "run/trainer/trainer.h"

/* largest number of bytes that are broadcast at once, unless one tensor is larger */
#define RANKS_PIECE (UINT64_C(64) << 20)

/* Checks that the ranks with the other tensor-parallel parts of the model form the given group. */
static tn_status ranks_find_tensor(tn_trainer *trainer, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    uint32_t group = trainer->options.tensor_group, mine = 0;
    if (trainer->tensor_ranks == 1) return TN_OK;
    uint32_t members = to->members(to->self, group, &mine);
    if (members == trainer->tensor_ranks && mine == trainer->tensor_rank) return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "rank %u has part %u of %u of the model, and is member %u of %u of group %u "
            "(tn_trainer_options.tensor_group)",
            to->rank, trainer->tensor_rank, trainer->tensor_ranks, mine, members, group);
}

/* Finds the number of pipeline stages, and which of them this rank runs, from the group of the
 * ranks with the other stages. */
static tn_status ranks_find_stage(tn_trainer *trainer, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    const tn_stages *stages = trainer->training->stages;
    uint32_t group = trainer->options.pipeline_group, mine = 0;
    if (stages == NULL || stages->parts == 1) return TN_OK;
    uint32_t members = to->members(to->self, group, &mine);
    if (members == 0 || stages->parts % members != 0)
        TN_FAIL(
            error, TN_E_INVALID,
            "rank %u is one of %u of group %u (tn_trainer_options.pipeline_group), which do not "
            "share %u parts of a model",
            to->rank, members, group, stages->parts);
    trainer->stages = members;
    trainer->stage = mine;
    return TN_OK;
}

/* Checks that the part of each shard that a rank stores has the same number as the rank's part of
 * each batch. Otherwise parts would be missing from a checkpoint, or be there twice. */
static tn_status ranks_check_shards(const tn_trainer *trainer, tn_error *error) {
    const tn_training *step = trainer->training;
    uint32_t parts = trainer->state.parts;
    if (step->sharded_count == 0) return TN_OK;
    const tn_sharded *shard = &step->sharded[0];
    uint64_t count = shard->bytes / shard->part_bytes, index = shard->from / shard->part_bytes;
    if (count == parts && index == trainer->part) return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "the step is of a rank that keeps part %llu of %llu (tn_train_options.shard_count), "
            "and this is member %u of %u of those that train the same (tn_trainer_options.exchange "
            "and group)",
            (unsigned long long)index, (unsigned long long)count, trainer->part, parts);
}

tn_status tn__trainer_find_part(tn_trainer *trainer, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    const tn_part_sums sums = tn_training_parts(trainer->training);
    trainer->state.parts = trainer->tensor_ranks = trainer->stages = 1;
    if (sums.ranks > 1) {
        trainer->tensor_ranks = sums.ranks;
        trainer->tensor_rank = sums.rank;
    }
    if (to == NULL) return ranks_check_shards(trainer, error);
    uint32_t group = trainer->options.group;
    trainer->state.parts = to->members(to->self, group, &trainer->part);
    if (trainer->state.parts == 0)
        TN_FAIL(error, TN_E_INVALID, "rank %u has no part in group %u", to->rank, group);
    TN_TRY(ranks_check_shards(trainer, error));
    TN_TRY(ranks_find_stage(trainer, error));
    return ranks_find_tensor(trainer, error);
}

bool tn__trainer_communicates(const tn_trainer *trainer) {
    bool parts = trainer->options.exchange != NULL && trainer->tensor_ranks > 1;
    return parts || trainer->state.parts > 1 || trainer->stages > 1;
}

bool tn__trainer_leads(const tn_trainer *trainer) {
    return trainer->part == 0 && trainer->tensor_rank == 0 && trainer->stage == 0;
}

bool tn__trainer_is_lone(const tn_trainer *trainer) {
    return trainer->training->parts != NULL && trainer->options.exchange == NULL;
}

tn_status tn__trainer_lone(tn_error *error) {
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "a rank of a model that is cut has a part of it, which is no checkpoint: give the "
            "trainer the way to the others (tn_trainer_options.exchange)");
}

/* --- start --- */

/* Whether this rank can read the initial contents of whole tensors, also of tensors of which it
 * holds only a part. */
static bool ranks_reads(const tn_trainer *trainer) {
    const tn_contents_of *contents = &trainer->contents;
    return contents->read != NULL && (trainer->tensor_ranks == 1 || contents->model != NULL);
}

/* Lists the settings that all ranks must have in common. If they differ, the ranks' parameters
 * diverge, or ranks wait for each other at different steps. Each line is X(name, value). */
#define RANKS_SAME_TABLE(X)                                                                        \
    X("seed of the order of samples", trainer->is.seed)                                            \
    X("number of samples", trainer->is.samples)                                                    \
    X("batch", trainer->is.batch)                                                                  \
    X("number of micro-batches", trainer->is.micro_batches)                                        \
    X("number of steps", trainer->state.total)                                                     \
    X("learning rate", ranks_bits(trainer->rate.rate))                                             \
    X("schedule of the learning rate", trainer->rate.schedule)                                     \
    X("warm-up", trainer->rate.warmup)                                                             \
    X("share to prune", ranks_bits(tn__masks_schedule(trainer)->share))                            \
    X("first step of pruning", tn__masks_schedule(trainer)->begin)                                 \
    X("last step of pruning", tn__masks_schedule(trainer)->end)                                    \
    X("number of steps between prunings", tn__masks_schedule(trainer)->every)                      \
    X("number of steps between checkpoints", ranks_saves(trainer))

enum {
#define RANKS_X(name, number) +1
    RANKS_SAME = 0 RANKS_SAME_TABLE(RANKS_X)
#undef RANKS_X
};

/* the message that the first rank sends to all others before a run begins */
typedef struct ranks_start {
    uint64_t done, resumed, reads;
    uint64_t same[RANKS_SAME];
    tn_error error; /* why the run cannot start; if it can, the status is TN_OK */
} ranks_start;

static uint64_t ranks_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the number of steps between checkpoints that all ranks write together. Returns 0 if there
 * are no checkpoints, or the first rank writes them alone. */
static uint64_t ranks_saves(const tn_trainer *trainer) {
    bool together =
        trainer->training->sharded_count > 0 || trainer->tensor_ranks > 1 || trainer->stages > 1;
    return together && trainer->options.checkpoint != NULL ? trainer->options.checkpoint_every : 0;
}

static void ranks_same(const tn_trainer *trainer, uint64_t *same) {
    const uint64_t list[] = {
#define RANKS_X(name, number) number,
        RANKS_SAME_TABLE(RANKS_X)
#undef RANKS_X
    };
    memcpy(same, list, sizeof list);
}

/* Broadcasts bytes of the first rank: to the ranks that train the same part of the model, then to
 * the other pipeline stages, and in each stage to the ranks with the other tensor-parallel
 * parts. */
static tn_status ranks_broadcast(const tn_trainer *trainer, void *bytes, uint64_t size,
                                 tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    const tn_exchange *to = options->exchange;
    if (trainer->state.parts > 1 && trainer->tensor_rank == 0 && trainer->stage == 0)
        TN_TRY(to->broadcast(to->self, options->group, 0, bytes, size, error));
    if (trainer->stages > 1 && trainer->tensor_rank == 0)
        TN_TRY(to->broadcast(to->self, options->pipeline_group, 0, bytes, size, error));
    return trainer->tensor_ranks > 1
               ? to->broadcast(to->self, options->tensor_group, 0, bytes, size, error)
               : TN_OK;
}

/* tensors from number `first` up to, but not including, `last` in the list, which are sent
 * together */
typedef struct ranks_piece {
    uint32_t first, last;
    uint64_t bytes;
} ranks_piece;

typedef struct ranks_spread {
    tn_trainer *trainer;
    /* the checkpoint to resume from; NULL for a new run, and on all ranks but the first */
    const tn_checkpoint *from;
    const ranks_start *start;
} ranks_spread;

static bool ranks_has_all(const tn__keep *keep) {
    return !keep->apart && keep->cut == NULL && !keep->staged;
}

/* Whether this tensor must be sent. In a new run, optimizer state begins at zero on every rank. A
 * divided tensor can be sent only if the first rank can read the whole tensor. */
static bool ranks_goes(const ranks_spread *it, const tn__keep *keep) {
    bool reads = keep->role != TN_ROLE_STATE && it->start->reads != 0;
    return it->start->resumed != 0 || ranks_has_all(keep) || reads;
}

/* Returns the next tensors to send: as many as fit into RANKS_PIECE bytes, but at least one. */
static ranks_piece ranks_next(const ranks_spread *it, uint32_t first) {
    const tn__keeping *keeping = &it->trainer->keeping;
    ranks_piece piece = {.first = first, .last = first};
    for (; piece.last < keeping->count; piece.last++) {
        const tn__keep *keep = &keeping->list[piece.last];
        if (!ranks_goes(it, keep)) continue;
        if (piece.bytes > 0 && piece.bytes + keep->bytes > RANKS_PIECE) break;
        piece.bytes += keep->bytes;
    }
    return piece;
}

static tn_status ranks_take(const ranks_spread *it, uint32_t index, uint8_t *bytes,
                            tn_error *error) {
    const tn_trainer *trainer = it->trainer;
    const tn__keep *keep = &trainer->keeping.list[index];
    const tn_contents_of *contents = &trainer->contents;
    if (it->from != NULL) {
        if (keep->bytes > 0) memcpy(bytes, it->from->kept[index].bytes, (size_t)keep->bytes);
        return TN_OK;
    }
    if (ranks_has_all(keep)) return tn__keep_get(keep, trainer->engine, bytes, error);
    const tn_graph *graph = keep->cut != NULL ? contents->model : trainer->training->graph;
    tn_tensor_id id = keep->in_shard ? keep->parameter : keep->in;
    return contents->read(contents->self, graph, id, bytes, keep->bytes, error);
}

static tn_status ranks_give(const ranks_spread *it, const tn__keep *keep, const uint8_t *bytes,
                            tn_error *error) {
    const tn_trainer *trainer = it->trainer;
    tn_engine *twin = trainer->options.twin;
    bool leads = tn__trainer_leads(trainer);
    /* the first rank holds these contents already */
    if (leads && it->from == NULL && ranks_has_all(keep)) return TN_OK;
    TN_TRY(tn__keep_set(keep, trainer->engine, bytes, error));
    return twin != NULL ? tn__keep_set(keep, twin, bytes, error) : TN_OK;
}

static tn_status ranks_spread_piece(const ranks_spread *it, const ranks_piece *piece,
                                    uint8_t *bytes, tn_error *error) {
    const tn_trainer *trainer = it->trainer;
    const tn__keep *list = trainer->keeping.list;
    uint8_t *at = bytes;
    for (uint32_t i = piece->first; i < piece->last && tn__trainer_leads(trainer); i++) {
        if (!ranks_goes(it, &list[i])) continue;
        TN_TRY(ranks_take(it, i, at, error));
        at += list[i].bytes;
    }
    TN_TRY(ranks_broadcast(trainer, bytes, piece->bytes, error));
    at = bytes;
    for (uint32_t i = piece->first; i < piece->last; i++) {
        if (!ranks_goes(it, &list[i])) continue;
        TN_TRY(ranks_give(it, &list[i], at, error));
        at += list[i].bytes;
    }
    return TN_OK;
}

static tn_status ranks_spread_all(const ranks_spread *it, tn_error *error) {
    const tn_context *context = &it->trainer->context;
    tn_status status = TN_OK;
    for (uint32_t at = 0; at < it->trainer->keeping.count && status == TN_OK;) {
        ranks_piece piece = ranks_next(it, at);
        uint8_t *bytes = tn__alloc(context, (size_t)piece.bytes + 1);
        if (bytes == NULL) return tn__no_memory(error, "what ranks begin with");
        status = ranks_spread_piece(it, &piece, bytes, error);
        tn__free(context, bytes, (size_t)piece.bytes + 1);
        at = piece.last;
    }
    return status;
}

/* Replaces each of `count` numbers by its sum over all ranks of the run. */
static tn_status ranks_sum(const tn_trainer *trainer, double *sums, uint64_t count,
                           tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    const tn_exchange *to = options->exchange;
    const struct {
        bool is;
        uint32_t group;
    } groups[] = {{trainer->stages > 1, options->pipeline_group},
                  {trainer->state.parts > 1, options->group},
                  {trainer->tensor_ranks > 1, options->tensor_group}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i].is)
            TN_TRY(to->reduce(to->self, groups[i].group, sums, count, TN_FLOAT64, TN_REDUCTION_SUM,
                              error));
    return TN_OK;
}

/* Fails if a rank has other settings than the first rank. differs: zeroed array with one element
 * for each rank; set to the number, counted from 1, of a setting in which that rank differs from
 * the first. */
static tn_status ranks_compare_with(const tn_trainer *trainer, const ranks_start *start,
                                    double *differs, tn_error *error) {
    static const char *const names[] = {
#define RANKS_X(name, number) name,
        RANKS_SAME_TABLE(RANKS_X)
#undef RANKS_X
    };
    const tn_exchange *to = trainer->options.exchange;
    uint64_t mine[RANKS_SAME];
    ranks_same(trainer, mine);
    for (uint32_t i = RANKS_SAME; i-- > 0;)
        if (mine[i] != start->same[i]) differs[to->rank] = i + 1;
    TN_TRY(ranks_sum(trainer, differs, to->ranks, error));
    for (uint32_t rank = 0; rank < to->ranks; rank++)
        if (differs[rank] > 0)
            TN_FAIL(error, TN_E_CONFLICT, "rank %u has another %s than the first", rank,
                    names[(uint32_t)differs[rank] - 1]);
    return TN_OK;
}

static tn_status ranks_compare(const tn_trainer *trainer, const ranks_start *start,
                               tn_error *error) {
    uint32_t ranks = trainer->options.exchange->ranks;
    double *differs = tn__alloc_array(&trainer->context, ranks, sizeof *differs);
    if (differs == NULL) return tn__no_memory(error, "how ranks differ");
    tn_status status = ranks_compare_with(trainer, start, differs, error);
    tn__free(&trainer->context, differs, ranks * sizeof *differs);
    return status;
}

/* Returns a copy of an error, with the number of the rank added to the place where the error
 * occurred, because each rank may report the error. */
static tn_error ranks_words(uint32_t rank, const tn_error *from) {
    tn_error words = {.status = from->status};
    snprintf(words.where, sizeof words.where, "rank %u%s%.180s", rank, from->where[0] ? ", " : "",
             from->where);
    memcpy(words.message, from->message, sizeof words.message);
    return words;
}

tn_status tn__trainer_spread(tn_trainer *trainer, const tn_checkpoint *from, const tn_error *why,
                             tn_error *error) {
    ranks_start start = {
        .done = trainer->state.done, .resumed = from != NULL, .reads = ranks_reads(trainer)};
    const ranks_spread it = {.trainer = trainer, .from = from, .start = &start};
    ranks_same(trainer, start.same);
    if (why->status != TN_OK) start.error = ranks_words(trainer->options.exchange->rank, why);
    TN_TRY(ranks_broadcast(trainer, &start, sizeof start, error));
    /* only the first rank has read the files, so all ranks fail with its error */
    if (start.error.status != TN_OK) {
        if (error != NULL) *error = start.error;
        return start.error.status;
    }
    TN_TRY(ranks_compare(trainer, &start, error));
    TN_TRY(ranks_spread_all(&it, error));
    trainer->state.first = trainer->state.done = start.done;
    return TN_OK;
}

/* --- a checkpoint that all ranks write --- */

bool tn__trainer_shares(const tn_trainer *trainer) {
    return trainer->training->sharded_count > 0 && trainer->state.parts > 1;
}

static tn_status ranks_save(tn_trainer *trainer, tn__shard_job *job, const tn_checkpoint_run *run,
                            tn__shard_entry *entries, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    uint32_t group = trainer->options.group;
    if (job->part == 0) TN_TRY(tn__shards_begin(job, &trainer->context, error));
    TN_TRY(to->broadcast(to->self, group, 0, &job->turn, sizeof job->turn, error));
    TN_TRY(
        tn__shards_write(job, trainer->engine, &trainer->keeping, run, &entries[job->part], error));
    TN_TRY(to->gather(to->self, group, &entries[job->part], entries, sizeof *entries, error));
    for (uint32_t i = 0; i < job->parts; i++) trainer->state.saved_bytes += entries[i].bytes;
    return job->part == 0 ? tn__shards_name_all(job, entries, &trainer->context, run, error)
                          : TN_OK;
}

tn_status tn__trainer_save_shards(tn_trainer *trainer, const char *path,
                                  const tn_checkpoint_run *run, tn_error *error) {
    tn__shard_job job = {.path = path, .part = trainer->part, .parts = trainer->state.parts};
    tn__shard_entry *entries = tn__alloc_array(&trainer->context, job.parts, sizeof *entries);
    if (entries == NULL) return tn__no_memory(error, "a checkpoint");
    trainer->state.saved_bytes = 0;
    tn_status status = ranks_save(trainer, &job, run, entries, error);
    tn__free(&trainer->context, entries, job.parts * sizeof *entries);
    return status;
}

/* --- results combined over all ranks --- */

tn_status tn__trainer_sum(tn_trainer *trainer, double *loss, int64_t *correct, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    const tn_trainer_options *options = &trainer->options;
    double sums[] = {*loss, (double)*correct, trainer->asked};
    /* only the last pipeline stage has loss and correct answers; the other stages add 0 */
    if (trainer->stages > 1) {
        TN_TRY(to->reduce(to->self, options->pipeline_group, sums, 3, TN_FLOAT64, TN_REDUCTION_SUM,
                          error));
        *loss = sums[0];
        *correct = (int64_t)sums[1];
    }
    if (trainer->state.parts > 1) {
        TN_TRY(to->reduce(to->self, options->group, sums, 3, TN_FLOAT64, TN_REDUCTION_SUM, error));
        *loss = sums[0] / trainer->state.parts;
        *correct = (int64_t)sums[1];
    }
    /* ranks with different tensor-parallel parts have the same loss already, so only the requests
     * to stop are summed */
    if (tn__trainer_communicates(trainer) && trainer->tensor_ranks > 1)
        TN_TRY(to->reduce(to->self, options->tensor_group, &sums[2], 1, TN_FLOAT64,
                          TN_REDUCTION_SUM, error));
    trainer->stopping = sums[2] > 0;
    return TN_OK;
}
