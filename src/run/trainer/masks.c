/* masks.c - gradual magnitude pruning during training: the weights of smallest magnitude become
 * zero and stay zero, step after step, until each pruned parameter has the share of zeros that was
 * asked for.
 *
 * A mask has a bit for each element of a parameter; it is set once the element is pruned, and never
 * cleared. After each update of the parameters, the elements of the mask become zero again,
 * whatever the optimizer has added to them, so the next forward pass reads zeros. At the steps of
 * the schedule, the elements of smallest magnitude that are not yet in the mask join it. Elements
 * of equal magnitude join from the last one on. Masks are in host memory, and in checkpoints,
 * because an element may be zero without being pruned.
 *
 * Cost: each step copies the pruned parameters out of static memory and back, O(elements). A step
 * of the schedule also counts the magnitudes twice, without sorting.
 *
 * Source: Zhu and Gupta, "To prune, or not to prune: exploring the efficacy of pruning for model
 * compression" (2017): the cubic schedule, and a share for each layer.
 */
#include "run/trainer/trainer.h"
#include "graph/rules/sparse_weights.h"

#include <math.h>
#include <stdio.h>

struct tn__mask {
    tn_tensor_id parameter;
    uint64_t elements, pruned; /* number of elements; of those whose bit is set */
    uint8_t *bits;             /* [elements / 8 rounded up] */
    int64_t bytes; /* number of bytes in `bits`, the shape of the mask in a checkpoint */
};

struct tn__masks {
    tn_prune_schedule schedule; /* with its defaults, without its patterns */
    tn__mask *list;
    uint32_t count;
    float *values, *open; /* room for the elements of the largest parameter, twice */
    tn__magnitudes *found;
};

/* --- the schedule --- */

double tn_prune_share_at(const tn_prune_schedule *schedule, uint64_t done) {
    if (done < schedule->begin) return 0;
    if (done >= schedule->end) return schedule->share;
    double left = 1 - (double)(done - schedule->begin) / (double)(schedule->end - schedule->begin);
    return schedule->share * (1 - left * left * left);
}

/* Whether the masks grow after `done` updates. */
static bool masks_grow_at(const tn_prune_schedule *schedule, uint64_t done) {
    if (done < schedule->begin || done > schedule->end) return false;
    return done == schedule->end || (done - schedule->begin) % schedule->every == 0;
}

static tn_status masks_schedule(const tn_trainer *trainer, tn_prune_schedule *schedule,
                                tn_error *error) {
    uint64_t total = trainer->state.total;
    if (!(schedule->share >= 0 && schedule->share < 1))
        TN_FAIL(error, TN_E_INVALID, "a share of %g to prune is outside of [0, 1)",
                schedule->share);
    if (schedule->end == 0) {
        uint64_t usual = total - total / 4;
        schedule->end = usual > schedule->begin ? usual : schedule->begin;
    }
    if (schedule->begin > schedule->end)
        TN_FAIL(error, TN_E_INVALID, "the pruning begins at step %llu, after its end at step %llu",
                (unsigned long long)schedule->begin, (unsigned long long)schedule->end);
    if (schedule->every == 0) schedule->every = 1 + (schedule->end - schedule->begin) / 32;
    char note[160];
    if (schedule->end <= total || trainer->context.log == NULL) return TN_OK;
    snprintf(note, sizeof note,
             "the pruning ends at step %llu, but the run at step %llu; it can be resumed",
             (unsigned long long)schedule->end, (unsigned long long)total);
    trainer->context.log(trainer->context.self, note);
    return TN_OK;
}

/* --- which parameters --- */

static bool masks_matches(const tn_prune_schedule *schedule, const tn_tensor *tensor) {
    for (uint32_t i = 0; i < schedule->pattern_count; i++)
        if (tn__glob(schedule->patterns[i], tensor->name)) return true;
    return schedule->pattern_count == 0 && tensor->rank >= 2;
}

/* Checks that each pattern matches the name of a parameter. */
static tn_status masks_check_patterns(const tn_trainer *trainer, const tn_prune_schedule *schedule,
                                      tn_error *error) {
    const tn__keeping *keeping = &trainer->keeping;
    for (uint32_t p = 0; p < schedule->pattern_count; p++) {
        bool any = false;
        for (uint32_t i = 0; i < keeping->count && !any; i++)
            any = keeping->list[i].role == TN_ROLE_PARAMETER &&
                  tn__glob(schedule->patterns[p], keeping->list[i].name);
        if (!any)
            TN_FAIL(error, TN_E_INVALID,
                    "no trained parameter matches '%.80s', which is to be pruned",
                    schedule->patterns[p]);
    }
    return TN_OK;
}

/* Adds the mask of a parameter to the tensors of a checkpoint. */
static tn_status masks_keep(tn_trainer *trainer, const tn__keep *of, tn__mask *mask,
                            tn_error *error) {
    tn__keeping *keeping = &trainer->keeping;
    char name[200];
    snprintf(name, sizeof name, "%.190s.mask", of->name);
    const char *kept = tn__arena_string(&trainer->arena, name, strlen(name));
    mask->bytes = (int64_t)((mask->elements + 7) / 8);
    mask->bits = tn__arena_array(&trainer->arena, (size_t)mask->bytes, 1);
    if (kept == NULL || mask->bits == NULL) return tn__no_memory(error, "the mask of a parameter");
    uint64_t bytes = (uint64_t)mask->bytes;
    keeping->list[keeping->count++] = (tn__keep){.name = kept,
                                                 .role = TN_ROLE_STATE,
                                                 .dtype = TN_UINT8,
                                                 .rank = 1,
                                                 .shape = &mask->bytes,
                                                 .bytes = bytes,
                                                 .in = TN_NONE,
                                                 .size = bytes,
                                                 .length = bytes,
                                                 .parameter = TN_NONE,
                                                 .held = mask->bits};
    return TN_OK;
}

static tn_status masks_list(tn_trainer *trainer, tn__masks *masks, tn_error *error) {
    const tn_graph *graph = trainer->training->graph;
    const uint32_t count = trainer->keeping.count;
    uint64_t most = 1;
    masks->list = tn__arena_array(&trainer->arena, count, sizeof *masks->list);
    if (masks->list == NULL) return tn__no_memory(error, "the masks of parameters");
    for (uint32_t i = 0; i < count; i++) {
        const tn__keep keep = trainer->keeping.list[i];
        if (keep.role != TN_ROLE_PARAMETER || keep.dtype != TN_FLOAT32) continue;
        if (!masks_matches(&masks->schedule, tn_graph_tensor(graph, keep.parameter))) continue;
        if (keep.in_shard || keep.cut != NULL || keep.staged)
            TN_FAIL(
                error, TN_E_UNSUPPORTED,
                "'%.80s' is divided among ranks, and pruning needs whole parameters: divide only "
                "the samples",
                keep.name);
        tn__mask *mask = &masks->list[masks->count++];
        *mask = (tn__mask){.parameter = keep.in, .elements = keep.bytes / sizeof(float)};
        if (mask->elements > most) most = mask->elements;
        trainer->state.prunable += mask->elements;
        TN_TRY(masks_keep(trainer, &keep, mask, error));
    }
    if (masks->count == 0)
        TN_FAIL(
            error, TN_E_INVALID,
            "there is nothing to prune: no trained float32 parameter matches, or has two extents");
    masks->values = tn__arena_array(&trainer->arena, most, sizeof *masks->values);
    masks->open = tn__arena_array(&trainer->arena, most, sizeof *masks->open);
    masks->found = tn__arena_array(&trainer->arena, 1, sizeof *masks->found);
    return masks->values != NULL && masks->open != NULL && masks->found != NULL
               ? TN_OK
               : tn__no_memory(error, "the masks of parameters");
}

tn_status tn__masks_make(tn_trainer *trainer, tn_error *error) {
    const tn_prune_schedule *asked = trainer->options.prune;
    if (asked == NULL || asked->share == 0) return TN_OK;
    tn__masks *masks = tn__arena_array(&trainer->arena, 1, sizeof *masks);
    if (masks == NULL) return tn__no_memory(error, "the masks of parameters");
    masks->schedule = *asked;
    TN_TRY(masks_schedule(trainer, &masks->schedule, error));
    TN_TRY(masks_check_patterns(trainer, &masks->schedule, error));
    TN_TRY(masks_list(trainer, masks, error));
    masks->schedule.patterns = NULL;
    masks->schedule.pattern_count = 0;
    trainer->masks = masks;
    return TN_OK;
}

const tn_prune_schedule *tn__masks_schedule(const tn_trainer *trainer) {
    static const tn_prune_schedule none = {0};
    return trainer->masks != NULL ? &trainer->masks->schedule : &none;
}

/* --- the weights --- */

static bool mask_has(const tn__mask *mask, uint64_t i) { return mask->bits[i / 8] >> i % 8 & 1; }

/* Adds elements to the mask until it has `target` of them: those of smallest magnitude. */
static void mask_grow(tn__masks *masks, tn__mask *mask, uint64_t target) {
    uint64_t count = 0;
    if (target <= mask->pruned) return;
    for (uint64_t i = 0; i < mask->elements; i++)
        if (!mask_has(mask, i)) masks->open[count++] = masks->values[i];
    tn__magnitudes_find(masks->found, masks->open, count, count - (target - mask->pruned));
    for (uint64_t i = 0; i < mask->elements; i++)
        if (!mask_has(mask, i) && !tn__magnitudes_keeps(masks->found, masks->values[i]))
            mask->bits[i / 8] = (uint8_t)(mask->bits[i / 8] | 1u << i % 8);
    mask->pruned = target;
}

/* The number of elements to prune: `share` of them, rounded, but at least one stays. */
static uint64_t mask_target(const tn__mask *mask, double share) {
    double target = nearbyint(share * (double)mask->elements);
    if (mask->elements == 0) return 0;
    return target >= (double)mask->elements ? mask->elements - 1 : (uint64_t)target;
}

static tn_status mask_apply(tn_trainer *trainer, tn__mask *mask, bool grows, double share,
                            tn_error *error) {
    tn__masks *masks = trainer->masks;
    tn_engine *twin = trainer->options.twin;
    uint64_t bytes = mask->elements * sizeof(float);
    if (mask->pruned == 0 && !grows) return TN_OK;
    TN_TRY(tn_engine_get_static(trainer->engine, mask->parameter, masks->values, bytes, error));
    if (grows) mask_grow(masks, mask, mask_target(mask, share));
    for (uint64_t i = 0; i < mask->elements; i++)
        if (mask_has(mask, i)) masks->values[i] = 0;
    TN_TRY(tn_engine_set_static(trainer->engine, mask->parameter, masks->values, bytes, error));
    if (twin == NULL) return TN_OK;
    TN_TRY(tn_engine_get_static(twin, mask->parameter, masks->values, bytes, error));
    for (uint64_t i = 0; i < mask->elements; i++)
        if (mask_has(mask, i)) masks->values[i] = 0;
    return tn_engine_set_static(twin, mask->parameter, masks->values, bytes, error);
}

tn_status tn__masks_apply(tn_trainer *trainer, tn_error *error) {
    tn__masks *masks = trainer->masks;
    if (masks == NULL) return TN_OK;
    uint64_t done = trainer->state.done;
    bool grows = masks_grow_at(&masks->schedule, done);
    trainer->state.pruned = 0;
    for (uint32_t i = 0; i < masks->count; i++) {
        TN_TRY(mask_apply(trainer, &masks->list[i], grows,
                          tn_prune_share_at(&masks->schedule, done), error));
        trainer->state.pruned += masks->list[i].pruned;
    }
    return TN_OK;
}

tn_status tn__masks_start(tn_trainer *trainer, tn_error *error) {
    tn__masks *masks = trainer->masks;
    for (uint32_t m = 0; masks != NULL && m < masks->count; m++) {
        tn__mask *mask = &masks->list[m];
        mask->pruned = 0;
        for (uint64_t i = 0; i < mask->elements; i++) mask->pruned += mask_has(mask, i);
    }
    return tn__masks_apply(trainer, error);
}
