/* tensor_parallel.c - replaces the model by the part of it that belongs to one rank.
 *
 * Gradients, buckets and updates are then made for the part as for any model. Operators of the
 * graph (graph/ops/training/ranks.c) say which tensors the ranks have to combine, and their
 * gradients say so for the backward pass. Only the loss differs if each rank has some of the
 * classes. An optimizer's state is cut like its parameter.
 */
#include <stdio.h>

#include "graph/train/frame.h"

/* --- making the model of one rank --- */

static tn_status cut_check(const tn__train *it) {
    const tn_train_options *options = &it->options;
    if (options->tensor_rank >= options->tensor_ranks)
        TN_FAIL(it->error, TN_E_INVALID, "there is no rank %u of %u", options->tensor_rank,
                options->tensor_ranks);
    if (options->dynamic_loss_scale)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "a loss scale that adapts looks at all gradients, of which a rank of a cut model "
                "has a part");
    for (tn_tensor_id id = 0; id < it->tensors; id++)
        if (it->begins[id] != TN_NONE)
            TN_FAIL(it->error, TN_E_UNSUPPORTED,
                    "'%.80s' is a parameter that an operator of the model hands out; cut what "
                    "tn_train_model makes of it",
                    tn_graph_tensor(it->model, id)->name);
    return TN_OK;
}

/* The axis of the classes if the loss accepts scores that are cut along it. */
static uint32_t cut_classes(const tn__train *it) {
    const tn_tensor *scores = tn_graph_tensor(it->model, it->scores);
    const tn_tensor *shaped = tn_graph_tensor(it->model, it->shaped);
    bool same = scores->rank == shaped->rank && tn__shape_known(scores);
    for (uint32_t d = 0; same && d < scores->rank; d++) same = scores->shape[d] == shaped->shape[d];
    if (it->options.loss != TN_LOSS_CROSS_ENTROPY || !same || scores->rank < 2) return TN_NONE;
    return tn_loss_axis(scores->rank, scores->shape);
}

/* Chooses the parameters to train, and checks that they are those that are trained in the whole
 * model. */
static tn_status cut_choose(tn__train *it, const bool *trained, uint32_t tensors) {
    TN_TRY(tn__train_choose(it));
    for (tn_tensor_id id = 0; id < it->tensors; id++)
        if (it->trained[id] != (id < tensors && trained[id]))
            TN_FAIL(it->error, TN_E_INTERNAL, "'%.80s' is a parameter of the part alone",
                    tn_graph_tensor(it->model, id)->name);
    return TN_OK;
}

tn_status tn__train_cut(tn__train *it) {
    const bool *trained = it->trained;
    uint32_t tensors = it->tensors;
    if (it->options.tensor_ranks <= 1 && it->options.sequence_parallel)
        TN_FAIL(it->error, TN_E_INVALID,
                "sequence_parallel: what lies between the parts of a model is divided by those "
                "that have them, and it is whole (tensor_ranks)");
    if (it->options.tensor_ranks <= 1) return TN_OK;
    TN_TRY(cut_check(it));
    tn__cuts cuts = {.graph = it->model,
                     .ranks = it->options.tensor_ranks,
                     .rank = it->options.tensor_rank,
                     .runs = it->runs,
                     .depends = it->depends,
                     .trained = it->trained,
                     .uses = it->uses,
                     .scores = it->scores,
                     .shaped = it->shaped,
                     .classes = cut_classes(it),
                     .keeps_outputs = it->options.keep_outputs,
                     .sequence = it->options.sequence_parallel,
                     .context = it->context,
                     .arena = &it->arena,
                     .error = it->error};
    TN_TRY(tn__cuts_graph(&cuts));
    it->whole = it->model;
    it->model = it->part = cuts.made;
    it->tensors = tn_graph_tensor_count(it->model);
    it->origin = cuts.origin;
    it->cuts = cuts.cuts;
    it->strips = cuts.strips;
    it->cut_sums.parameters = cuts.parameters;
    it->cut_sums.whole = cuts.whole;
    it->cut_sums.cut = cuts.cut;
    it->cut_sums.between = cuts.between;
    return cut_choose(it, trained, tensors);
}

const tn__cut *tn__train_cut_of(const tn__train *it, tn_tensor_id any) {
    tn_tensor_id id = tn__train_in_first(it, any);
    if (it->cuts == NULL || id >= tn_graph_tensor_count(it->whole)) return NULL;
    if (it->cuts[id].blocks > 0) return &it->cuts[id];
    return it->strips[id].blocks > 0 ? &it->strips[id] : NULL;
}

const tn_tensor *tn__train_whole_of(const tn__train *it, tn_tensor_id id) {
    return tn_graph_tensor(it->whole, tn__train_in_first(it, id));
}

bool tn__train_places(const tn__train *it, tn_tensor_id id, int64_t *places) {
    const tn__cut *cut = tn__train_cut_of(it, id);
    if (cut == NULL || cut->sizes != NULL) return false;
    const tn_tensor *whole = tn__train_whole_of(it, id);
    int64_t inner = whole->shape[cut->axis] / cut->blocks;
    for (uint32_t d = cut->axis + 1; d < whole->rank; d++) inner *= whole->shape[d];
    places[0] = inner / it->options.tensor_ranks;
    places[1] = inner;
    places[2] = places[0] * it->options.tensor_rank;
    return true;
}

/* --- the loss if each rank has some of the classes --- */

static tn_status cut_tensor(tn__train *it, const char *name, tn_tensor_id *id) {
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

/* Adds an operator of the loss, named after its output. */
static tn_status cut_op(tn__train *it, const char *type, const tn_tensor_id *inputs,
                        uint32_t input_count, const tn_tensor_id *outputs, uint32_t output_count,
                        const tn_attr *attrs) {
    return tn__train_op(it, tn_graph_tensor(it->graph, outputs[0])->name, type, inputs, input_count,
                        outputs, output_count, attrs, attrs != NULL ? 3 : 0);
}

tn_status tn__train_class_loss(tn__train *it, const int64_t *axis) {
    enum { OWN_MOST, MOST, OWN_SUMS, SUMS, COUNT };
    static const char *const names[] = {"loss.own_most", "loss.most", "loss.own_sums", "loss.sums"};
    int64_t whole = tn__train_whole_of(it, it->scores)->shape[*axis];
    int64_t first = whole / it->options.tensor_ranks * it->options.tensor_rank;
    const tn_attr attrs[] = {TN__ATTR_INT("axis", axis), TN__ATTR_INT("first", &first),
                             TN__ATTR_INT("whole", &whole)};
    tn_tensor_id made[COUNT], outputs[] = {it->made.loss, it->made.correct};
    for (uint32_t i = 0; i < COUNT; i++) TN_TRY(cut_tensor(it, names[i], &made[i]));
    const tn_tensor_id inputs[] = {it->scores, it->made.labels, made[MOST], made[SUMS]};
    TN_TRY(cut_op(it, "ClassMax", inputs, 1, &made[OWN_MOST], 1, attrs));
    TN_TRY(cut_op(it, "RankMax", &made[OWN_MOST], 1, &made[MOST], 1, NULL));
    TN_TRY(cut_op(it, "ClassSums", inputs, 3, &made[OWN_SUMS], 1, attrs));
    TN_TRY(cut_op(it, "RankSum", &made[OWN_SUMS], 1, &made[SUMS], 1, NULL));
    return cut_op(it, "ClassLoss", inputs, 4, outputs, 2, attrs);
}

/* --- reporting the parts of tensors --- */

struct tn_parts {
    tn__arena arena;
    tn_context context;
    tn_tensor_part *list; /* [count] the parts, sorted by id */
    uint32_t count;
    tn_part_sums sums;
};

void tn__parts_destroy(const tn_context *context, struct tn_parts *parts) {
    if (parts == NULL) return;
    tn__arena_release(&parts->arena);
    tn__free(context, parts, sizeof *parts);
}

static int cut_order(const void *a, const void *b) {
    const tn_tensor_part *x = a, *y = b;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static tn_status cut_report(tn__train *it, struct tn_parts *parts, tn_tensor_id like,
                            tn_tensor_id id) {
    const tn__cut *cut = tn__train_cut_of(it, like);
    if (cut == NULL || id == TN_NONE) return TN_OK;
    return tn__cuts_part(&parts->arena, tn_graph_tensor(it->whole, like), id, cut,
                         &parts->list[parts->count++], it->error);
}

static tn_status cut_list(tn__train *it, struct tn_parts *parts) {
    uint32_t tensors = tn_graph_tensor_count(it->whole);
    size_t most = tensors + 4 * (size_t)it->made.parameter_count + 1;
    parts->list = tn__arena_array(&parts->arena, most, sizeof *parts->list);
    if (parts->list == NULL) return tn__no_memory(it->error, "parts of a model");
    for (tn_tensor_id id = 0; id < tensors; id++)
        if (tn_graph_tensor(it->graph, id)->producer == TN_NONE)
            TN_TRY(cut_report(it, parts, id, id));
    for (uint32_t i = 0; i < it->made.parameter_count; i++) {
        const tn_trained *trained = &it->made.parameters[i];
        /* a parameter of a shard is a view that an operator makes, so the loop above left it out */
        if (trained->shard != TN_NONE)
            TN_TRY(cut_report(it, parts, trained->parameter, trained->parameter));
        const tn_tensor_id state[] = {trained->state[0], trained->state[1], trained->sum};
        for (uint32_t k = 0; k < 3; k++)
            TN_TRY(cut_report(it, parts, trained->parameter, state[k]));
    }
    qsort(parts->list, parts->count, sizeof *parts->list, cut_order);
    return TN_OK;
}

#define CUT_TALKS (TN_RULE_RANKS_SUM | TN_RULE_RANKS_MAX | TN_RULE_RANKS_WHOLE)

static void cut_count_sums(const tn_graph *graph, tn_part_sums *sums) {
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        bool parts = tn__op_has(graph, id, TN_RULE_RANKS_PART);
        if (!parts && !tn__op_has(graph, id, CUT_TALKS)) continue;
        uint64_t bytes = tn_graph_tensor(graph, parts ? op->inputs[0] : op->outputs[0])->bytes;
        sums->sums++;
        sums->bytes = tn__add_sat(sums->bytes, bytes);
    }
}

tn_status tn__train_parts(tn__train *it) {
    if (it->cuts == NULL) return TN_OK;
    struct tn_parts *parts = tn__alloc_array(it->context, 1, sizeof *parts);
    if (parts == NULL) return tn__no_memory(it->error, "parts of a model");
    it->made.parts = parts;
    parts->context = *it->context;
    tn__arena_init(&parts->arena, &parts->context);
    parts->sums = it->cut_sums;
    parts->sums.ranks = it->options.tensor_ranks;
    parts->sums.rank = it->options.tensor_rank;
    const char *whole = parts->sums.whole;
    if (whole != NULL) {
        parts->sums.whole = tn__arena_string(&parts->arena, whole, strlen(whole));
        if (parts->sums.whole == NULL) return tn__no_memory(it->error, "parts of a model");
    }
    cut_count_sums(it->graph, &parts->sums);
    return cut_list(it, parts);
}

const tn_tensor_part *tn_training_part(const tn_training *training, tn_tensor_id tensor) {
    const struct tn_parts *parts = training->parts;
    tn_tensor_part key = {.tensor = tensor};
    if (parts == NULL || parts->count == 0) return NULL;
    return bsearch(&key, parts->list, parts->count, sizeof key, cut_order);
}

tn_status tn__train_read_part(const tn_training *training, const tn_tensor_part *part,
                              const tn_contents_of *contents, void *bytes, tn_error *error) {
    const tn_context *context = tn_graph_context(training->graph);
    const tn_part_sums *sums = &training->parts->sums;
    void *whole = tn__alloc(context, part->bytes);
    if (whole == NULL) return tn__no_memory(error, "a parameter, before it is cut");
    tn_status status =
        contents->read(contents->self, contents->model, part->tensor, whole, part->bytes, error);
    if (status == TN_OK) tn_tensor_part_take(part, sums->ranks, sums->rank, whole, bytes);
    tn__free(context, whole, part->bytes);
    return status;
}

tn_part_sums tn_training_parts(const tn_training *training) {
    return training->parts != NULL ? training->parts->sums : (tn_part_sums){0};
}
