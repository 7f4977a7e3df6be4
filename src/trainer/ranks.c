/* ranks.c - several ranks that train the same on other samples: how they begin, and what they tell.
 *
 * Gradients are the program's business. Here is what the loop has to agree on: all begin with the
 * first member's parameters, state and step, whoever has read what; a step's loss and answers are
 * those of the whole batch; and when one of them is told to stop, all do behind the next step.
 */
#include "trainer/trainer.h"

#define RANKS_PIECE (UINT64_C(64) << 20) /* bytes that are broadcast at once */

tn_status tn__trainer_find_part(tn_trainer *trainer, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    trainer->state.parts = 1;
    if (to == NULL) return TN_OK;
    uint32_t group = trainer->options.group;
    trainer->state.parts = to->members(to->self, group, &trainer->part);
    if (trainer->state.parts == 0)
        TN_FAIL(error, TN_E_INVALID, "rank %u has no part in group %u", to->rank, group);
    return TN_OK;
}

/* --- how they begin --- */

typedef struct ranks_piece { /* static tensors [first, last) of what is kept */
    uint32_t first, last;
    uint64_t bytes;
} ranks_piece;

static uint64_t ranks_bytes(const tn__keeping *keeping, uint32_t index) {
    return tn_graph_tensor(keeping->graph, keeping->ids[index])->bytes;
}

/* As many of them as fill a piece; at least one. */
static ranks_piece ranks_next(const tn__keeping *keeping, uint32_t first) {
    ranks_piece piece = {.first = first, .last = first};
    while (piece.last < keeping->count) {
        uint64_t bytes = ranks_bytes(keeping, piece.last);
        if (piece.last > first && piece.bytes + bytes > RANKS_PIECE) break;
        piece.bytes += bytes;
        piece.last++;
    }
    return piece;
}

static tn_status ranks_move(const tn_trainer *trainer, tn_engine *engine, const ranks_piece *piece,
                            uint8_t *bytes, bool in, tn_error *error) {
    const tn__keeping *keeping = &trainer->keeping;
    for (uint32_t i = piece->first; i < piece->last; i++) {
        uint64_t size = ranks_bytes(keeping, i);
        TN_TRY(in ? tn_engine_set_static(engine, keeping->ids[i], bytes, size, error)
                  : tn_engine_get_static(engine, keeping->ids[i], bytes, size, error));
        bytes += size;
    }
    return TN_OK;
}

static tn_status ranks_spread_piece(const tn_trainer *trainer, const ranks_piece *piece,
                                    uint8_t *bytes, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    const tn_exchange *to = options->exchange;
    if (trainer->part == 0)
        TN_TRY(ranks_move(trainer, trainer->engine, piece, bytes, false, error));
    TN_TRY(to->broadcast(to->self, options->group, 0, bytes, piece->bytes, error));
    if (trainer->part > 0) TN_TRY(ranks_move(trainer, trainer->engine, piece, bytes, true, error));
    return trainer->part > 0 && options->twin != NULL
               ? ranks_move(trainer, options->twin, piece, bytes, true, error)
               : TN_OK;
}

static tn_status ranks_spread_all(const tn_trainer *trainer, tn_error *error) {
    const tn__keeping *keeping = &trainer->keeping;
    tn_status status = TN_OK;
    for (uint32_t at = 0; at < keeping->count && status == TN_OK;) {
        ranks_piece piece = ranks_next(keeping, at);
        uint8_t *bytes = tn__alloc(&trainer->context, (size_t)piece.bytes);
        if (bytes == NULL) return tn__no_memory(error, "what ranks begin with");
        status = ranks_spread_piece(trainer, &piece, bytes, error);
        tn__free(&trainer->context, bytes, (size_t)piece.bytes);
        at = piece.last;
    }
    return status;
}

tn_status tn__trainer_spread(tn_trainer *trainer, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    if (to == NULL || trainer->state.parts == 1) return TN_OK;
    TN_TRY(ranks_spread_all(trainer, error));
    TN_TRY(to->broadcast(to->self, trainer->options.group, 0, &trainer->state.done,
                         sizeof trainer->state.done, error));
    trainer->state.first = trainer->state.done;
    return TN_OK;
}

/* --- what they tell --- */

tn_status tn__trainer_sum(tn_trainer *trainer, double *loss, int64_t *correct, tn_error *error) {
    const tn_exchange *to = trainer->options.exchange;
    double sums[] = {*loss, (double)*correct, trainer->asked};
    if (trainer->state.parts == 1) return TN_OK;
    TN_TRY(
        to->reduce(to->self, trainer->options.group, sums, 3, TN_FLOAT64, TN_REDUCTION_SUM, error));
    *loss = sums[0] / trainer->state.parts;
    *correct = (int64_t)sums[1];
    trainer->told = sums[2] > 0;
    return TN_OK;
}
