/* pruning.c - decides which elements of the weights become zero.
 *
 * Only numbers of elements are decided here: the mask follows from the number that each weight
 * keeps, and PruneWeights finds it at set-up. For one threshold over all weights, their magnitudes
 * are counted in two passes (graph/rules/sparse_weights.h), and a third pass counts the elements
 * that each weight keeps; so at most one weight is in memory at a time.
 */
#include <math.h>
#include <tenure/rewrite.h>

#include "graph/element.h"
#include "graph/rewrite/rewrite.h"
#include "graph/rules/sparse_weights.h"

typedef struct pruning_job {
    tn__draft draft;
    tn_prune_options asked;
    tn_pruning *pruning;
    size_t room;
    tn__magnitudes *found;
    float *weights; /* elements of the current weight */
    uint64_t weights_room;
    tn_error *error;
} pruning_job;

/* --- the weights that are pruned --- */

/* Finds the tensor that has the elements of input 1 of the operator, in some order; TN_NONE if an
 * operator other than a Constant, a reshape or a transposition computes it. */
static tn_tensor_id pruning_source(const tn__draft *draft, tn_op_id id) {
    static const char *const moves[] = {"Identity",  "Transpose", "Reshape",
                                        "Unsqueeze", "Squeeze",   "Flatten"};
    tn_tensor_id at = tn__draft_input(draft, id, 1);
    for (;;) {
        const tn_tensor *tensor = tn__draft_tensor_of(draft, at);
        if (tensor->producer == TN_NONE || tensor->value != NULL) return at;
        tn_op_id made = draft->tensors[at].producer;
        const tn_op *op = tn__draft_op_of(draft, made);
        const tn_attr *constant = tn__attr(op, "value");
        if (tn__draft_is(draft, made, "Constant"))
            return constant != NULL && constant->type == TN_ATTR_TENSOR ? constant->tensor
                                                                        : TN_NONE;
        bool moved = false;
        for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
            moved = moved || tn__draft_is(draft, made, moves[i]);
        if (!moved) return TN_NONE;
        at = op->inputs[0];
    }
}

static bool pruning_fits(const tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_tensor_id w = tn__draft_input(draft, id, 1);
    uint32_t axis;
    if (op->block != 0 || tn__draft_is(draft, id, "ConvTranspose") ||
        !tn__draft_weights_axis(draft, id, &axis) || !tn__draft_is_known(draft, w) ||
        draft->tensors[w].uses != 1 || draft->tensors[w].fixed)
        return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, w);
    if (!tn__draft_has(draft, id, TN_RULE_CONV) && tensor->rank != 2) return false;
    return tensor->bytes > 0 && pruning_source(draft, id) != TN_NONE && op->inputs[0] != TN_NONE &&
           !tn__draft_is_static(draft, op->inputs[0]);
}

static tn_status pruning_list(pruning_job *job) {
    tn_pruning *pruning = job->pruning;
    const tn_block *block = tn_graph_block(job->draft.graph, 0);
    for (uint32_t i = 0; i < block->op_count; i++) {
        tn_op_id id = block->ops[i];
        if (!pruning_fits(&job->draft, id)) continue;
        if (!tn__reserve(&pruning->context, &pruning->weights, &job->room,
                         (size_t)pruning->count + 1, sizeof *pruning->weights))
            return tn__no_memory(job->error, "a pruning");
        tn_tensor_id w = tn__draft_input(&job->draft, id, 1);
        uint64_t bytes = tn__draft_tensor_of(&job->draft, w)->bytes, elements = bytes / 4;
        pruning->weights[pruning->count++] = (tn_pruned){.op = id,
                                                         .elements = elements,
                                                         .kept = elements,
                                                         .norm = NAN,
                                                         .lost = NAN,
                                                         .bytes = bytes};
        if (elements > job->weights_room) job->weights_room = elements;
    }
    return TN_OK;
}

/* --- counting magnitudes of the weights' elements --- */

static tn_status pruning_read(pruning_job *job, const tn_pruned *at) {
    const tn_graph *graph = job->draft.graph;
    tn_tensor_id source = pruning_source(&job->draft, at->op);
    const tn_tensor *tensor = tn_graph_tensor(graph, source);
    if (tensor->bytes != at->bytes)
        TN_FAIL(job->error, TN_E_INVALID, "'%.80s' has not the bytes of the weights that it is",
                tensor->name);
    if (tensor->payload.size != 0 || !tn__tensor_fill(tensor, job->weights, at->bytes))
        TN_TRY(
            job->asked.read(job->asked.self, graph, source, job->weights, at->bytes, job->error));
    for (uint64_t i = 0; i < at->elements; i++)
        if (isnan(job->weights[i]))
            TN_FAIL(job->error, TN_E_INVALID,
                    "element %llu of '%.80s' is not a number: it has no magnitude to prune by",
                    (unsigned long long)i, tensor->name);
    return TN_OK;
}

static uint64_t pruning_zeros(const pruning_job *job, const tn_pruned *at) {
    uint64_t zeros = 0;
    for (uint64_t i = 0; i < at->elements; i++) zeros += job->weights[i] == 0;
    return zeros;
}

/* Counts the elements of the current weight that stay, and sums the squares of all elements and of
 * those that become zero. */
static void pruning_apply(pruning_job *job, tn_pruned *at) {
    at->kept = 0;
    at->norm = at->lost = 0;
    for (uint64_t i = 0; i < at->elements; i++) {
        double square = (double)job->weights[i] * (double)job->weights[i];
        bool stays = tn__magnitudes_keeps(job->found, job->weights[i]);
        at->kept += stays;
        at->norm += square;
        at->lost += stays ? 0 : square;
    }
}

/* --- how many elements each weight keeps --- */

/* The number of elements that stay if `share` of them become zero: that number is rounded, and at
 * least one element stays. */
static uint64_t pruning_kept(double share, uint64_t elements) {
    double pruned = nearbyint(share * (double)elements);
    if (elements == 0) return 0;
    return pruned >= (double)elements ? 1 : elements - (uint64_t)pruned;
}

static uint64_t pruning_least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static tn_status pruning_each(pruning_job *job) {
    for (uint32_t i = 0; i < job->pruning->count; i++) {
        tn_pruned *at = &job->pruning->weights[i];
        at->kept = pruning_kept(job->asked.share, at->elements);
        if (job->asked.read == NULL) continue;
        TN_TRY(pruning_read(job, at));
        uint64_t kept = pruning_least(at->kept, at->elements - pruning_zeros(job, at));
        tn__magnitudes_find(job->found, job->weights, at->elements, kept);
        pruning_apply(job, at);
    }
    return TN_OK;
}

static tn_status pruning_all(pruning_job *job) {
    tn_pruning *pruning = job->pruning;
    uint64_t elements = 0, zeros = 0, kept = 0;
    for (uint32_t pass = 0; pass < 3; pass++) {
        if (pass < 2) memset(job->found->bins, 0, sizeof job->found->bins);
        for (uint32_t i = 0; i < pruning->count; i++) {
            tn_pruned *at = &pruning->weights[i];
            TN_TRY(pruning_read(job, at));
            if (pass == 0) elements += at->elements, zeros += pruning_zeros(job, at);
            if (pass < 2)
                tn__magnitudes_count(job->found, pass, job->weights, at->elements);
            else
                pruning_apply(job, at);
        }
        if (pass == 0)
            kept = pruning_least(pruning_kept(job->asked.share, elements), elements - zeros);
        if (pass < 2) tn__magnitudes_end(job->found, pass, kept);
    }
    return TN_OK;
}

/* --- the public functions --- */

static tn_status pruning_make(pruning_job *job) {
    const tn_context *context = &job->pruning->context;
    bool global = job->asked.scope == TN_PRUNE_GLOBAL;
    TN_TRY(tn__draft_begin(&job->draft));
    TN_TRY(pruning_list(job));
    job->found = tn__alloc_array(context, 1, sizeof *job->found);
    job->weights = tn__alloc_array(context, (size_t)job->weights_room, sizeof *job->weights);
    if (job->found == NULL || job->weights == NULL) return tn__no_memory(job->error, "a pruning");
    return global ? pruning_all(job) : pruning_each(job);
}

tn_status tn_prune(const tn_graph *graph, const tn_prune_options *options, tn_pruning *pruning,
                   tn_error *error) {
    tn_prune_options asked = TN_PRUNE_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_pruning made = {.context = tn__context(asked.context)};
    pruning_job job = {.draft = {.graph = graph, .context = made.context, .error = error},
                       .asked = asked,
                       .pruning = &made,
                       .error = error};
    if (!(asked.share >= 0 && asked.share < 1))
        TN_FAIL(error, TN_E_INVALID, "a share of %g to prune is outside of [0, 1)", asked.share);
    if ((unsigned)asked.scope > TN_PRUNE_TENSOR)
        TN_FAIL(error, TN_E_UNKNOWN, "there is no such scope of pruning");
    if (asked.scope == TN_PRUNE_GLOBAL && asked.read == NULL && asked.share > 0)
        TN_FAIL(error, TN_E_INVALID, "pruning over all weights needs their contents");
    tn_status status = TN_OK;
    if (asked.share > 0) {
        tn__arena_init(&job.draft.arena, &job.draft.context);
        status = pruning_make(&job);
        tn__free(&made.context, job.found, sizeof *job.found);
        tn__free(&made.context, job.weights, (size_t)job.weights_room * sizeof *job.weights);
        tn__draft_end(&job.draft);
    }
    made.room = job.room;
    if (status == TN_OK)
        *pruning = made;
    else
        tn_pruning_release(&made);
    return status;
}

void tn_pruning_measure(tn_pruning *pruning, const tn_graph *rewritten) {
    for (tn_op_id id = 0; id < tn_graph_op_count(rewritten); id++) {
        const tn_op *op = tn_graph_op(rewritten, id);
        bool sparse = tn__op_is(op, "tenure.SparseWeights");
        int64_t at = tn__attr_int(op, "weight", -1);
        if ((!sparse && !tn__op_is(op, "tenure.PruneWeights")) || at < 0 ||
            at >= (int64_t)pruning->count)
            continue;
        tn_pruned *weight = &pruning->weights[at];
        if (!sparse && weight->stored != 0) continue;
        weight->bits = sparse ? (uint32_t)tn__attr_int(op, "bits", 0) : 0;
        weight->stored = 0;
        for (uint32_t k = 0; k < op->output_count; k++)
            weight->stored += tn_graph_tensor(rewritten, op->outputs[k])->bytes;
    }
}

void tn_pruning_release(tn_pruning *pruning) {
    if (pruning == NULL) return;
    tn__free(&pruning->context, pruning->weights, pruning->room * sizeof *pruning->weights);
    *pruning = (tn_pruning){0};
}
