/* scene.c - makes the named items that pictures and lists show.
 *
 * With a model, an item is a live range of a tensor, at its bytes within a buffer. The workspace of
 * an operator is an item without a tensor and has the name of its buffer. Without a model the
 * buffers are the items, all of kind "buffer".
 *
 * Cost: O(live ranges + buffers + outputs of the operators that define them).
 */
#include "report/format.h"
#include "program/program.h"
#include "report/estimate/phases.h"

#include <stdio.h>

/* --- phases and purposes of a training step --------------------------------------------------- */

/* Finds, for a training step, the phase of each step of the program and the purpose of each tensor.
 *
 * Kinds of tensors distinguish parameters, gradients and optimizer state. But they do not show
 * which activations determine the memory of training. An activation that the backward pass reads is
 * live for all steps in between, while other activations are freed after a few steps. So an
 * activation that is made in the forward pass and is live when the backward pass begins gets the
 * role SAVED. Cost: O(live ranges + instructions + operands).
 */

static const struct {
    const char *name, *words;
} roles_table[] = {
#define TN_X(NAME, name, words) {name, words},
    TN__ROLE_TABLE(TN_X)
#undef TN_X
};

const char *tn__role_name(tn__role role) { return roles_table[role].name; }
const char *tn__role_words(tn__role role) { return roles_table[role].words; }

const char *tn__phase_words(uint8_t phase) {
    return phase == TN_PHASE_FORWARD ? "forward"
                                     : (phase == TN_PHASE_BACKWARD ? "backward" : "update");
}

static tn__role roles_of_kind(uint32_t kind) {
    switch (kind) {
    case TN_KIND_PARAMETER:
        return TN__ROLE_PARAMETER;
    case TN_KIND_CONSTANT:
        return TN__ROLE_CONSTANT;
    case TN_KIND_OPTIMIZER_STATE:
        return TN__ROLE_OPTIMIZER_STATE;
    case TN_KIND_GRADIENT:
        return TN__ROLE_GRADIENT;
    case TN_KIND_INPUT:
        return TN__ROLE_INPUT;
    case TN_KIND_OUTPUT:
        return TN__ROLE_OUTPUT;
    case TN_KIND_WORKSPACE:
        return TN__ROLE_WORKSPACE;
    default:
        return TN__ROLE_PASSING;
    }
}

/* Returns the role of an item. `back` is the first step after the forward pass. */
static tn__role roles_of(const tn__report_item *item, int64_t back) {
    tn__role role = roles_of_kind(item->kind);
    bool across = item->first < back && item->last > back;
    return role == TN__ROLE_PASSING && across ? TN__ROLE_SAVED : role;
}

/* Sums the bytes of each role at the peak. Bytes that several items share count for one of them. */
static tn_status roles_at_peak(tn__scene *scene, tn_error *error) {
    tn_occupant *rows = tn__arena_array(&scene->arena, (size_t)scene->item_count + 1, sizeof *rows);
    if (rows == NULL) return tn__no_memory(error, "who holds the peak");
    uint32_t count =
        tn_occupancy_holders(scene->report->occupancy, TN_NONE, rows, scene->item_count);
    for (uint32_t i = 0; i < count; i++)
        scene->role_at_peak[scene->items[rows[i].life].role] += rows[i].bytes;
    return TN_OK;
}

/* Sets the phases, and the role of every item. Does nothing for a program without gradients. */
static tn_status scene_roles(tn__scene *scene, tn_error *error) {
    uint32_t steps = tn__step_count(scene->report), back = 0;
    uint8_t *phases = tn__arena_array(&scene->arena, (size_t)steps + 1, sizeof *phases);
    if (phases == NULL) return tn__no_memory(error, "the phases of a step");
    tn__phases_of(tn_occupancy_program(scene->report->occupancy), phases);
    while (back < steps && phases[back] == TN_PHASE_FORWARD) back++;
    if (back == steps) return TN_OK;
    scene->phases = phases;
    for (uint32_t i = 0; i < scene->item_count; i++) {
        tn__report_item *item = &scene->items[i];
        item->role = roles_of(item, back);
        if (!item->alias)
            scene->role_total[item->role] = tn__add_sat(scene->role_total[item->role], item->bytes);
    }
    /* kinds without items are outside the arena */
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
        if (!scene->occurs[kind]) scene->role_total[roles_of_kind(kind)] = scene->total[kind];
    return roles_at_peak(scene, error);
}

/* --- items ------------------------------------------------------------------------------------ */

const char *tn__kind_text(uint32_t kind) {
    return kind == TN__KIND_BUFFER ? "buffer" : tn_kind_name((tn_kind)kind);
}

uint32_t tn__step_count(const tn_report *report) {
    if (report->occupancy == NULL) return 0;
    return tn_program_count(tn_occupancy_program(report->occupancy));
}

tn__step tn__step_of(const tn_report *report, uint32_t step) {
    if (step >= tn__step_count(report)) return (tn__step){"", ""};
    const tn_program *program = tn_occupancy_program(report->occupancy);
    const tn_instruction *instruction = &tn_program_instructions(program)[step];
    if (instruction->op == TN_NONE) return (tn__step){tn_opcode_name(instruction->opcode), ""};
    const tn_op *op = tn_graph_op(tn_program_graph(program), instruction->op);
    return (tn__step){op->type, op->name};
}

/* Returns whether a live range shares memory because its operator requires that, and not because
 * the planner chose it. */
static bool scene_is_alias(const tn_graph *graph, const tn_life *life) {
    if (life->share == TN_SHARE_OWN || life->op == TN_NONE) return false;
    const tn_op *op = tn_graph_op(graph, life->op);
    for (uint32_t output = 0; output < op->output_count; output++) {
        if (op->outputs[output] == life->tensor) return tn_op_view(graph, life->op, output).must;
    }
    return false;
}

static tn_status scene_body_name(tn__scene *scene, tn_body_id id, const char **name,
                                 tn_error *error) {
    *name = tn_problem_body(scene->report->problem, id)->name;
    if (*name) return TN_OK;
    char number[16];
    int length = snprintf(number, sizeof number, "%u", id);
    *name = tn__arena_string(&scene->arena, number, (size_t)length);
    return *name ? TN_OK : tn__no_memory(error, "the names of buffers");
}

/* Returns an array with the last step of each operator, or TN_NONE for operators that no
 * instruction executes. Returns NULL if memory ran out. */
static uint32_t *scene_op_steps(tn__scene *scene) {
    const tn_program *program = tn_occupancy_program(scene->report->occupancy);
    uint32_t ops = tn_graph_op_count(tn_program_graph(program));
    uint32_t *steps = tn__arena_array(&scene->arena, (size_t)ops + 1, sizeof *steps);
    if (steps == NULL) return NULL;
    for (uint32_t op = 0; op < ops; op++) steps[op] = TN_NONE;
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        tn_op_id op = tn_program_instructions(program)[i].op;
        if (op != TN_NONE) steps[op] = i;
    }
    return steps;
}

/* Returns the instruction that defines a live range, which usually is that of its first step. But
 * the output of an If is live from the end of a branch on, and no instruction defines the formal
 * inputs of a block. */
static uint32_t scene_step(const tn__scene *scene, const tn_life *life, const uint32_t *op_steps) {
    const tn_program *program = tn_occupancy_program(scene->report->occupancy);
    if (life->is_static) return TN_NONE; /* a static tensor exists before the first instruction */
    const tn_instruction *first = &tn_program_instructions(program)[life->first];
    if (life->op == TN_NONE)
        return first->op == TN_NONE && first->tensor == life->tensor ? life->first : TN_NONE;
    return first->op == life->op ? life->first : op_steps[life->op];
}

static tn_status scene_add_life(tn__scene *scene, const tn_life *life, const uint32_t *op_steps,
                                tn_error *error) {
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(scene->report->occupancy));
    uint64_t size = tn_problem_body(scene->report->problem, life->body)->size;
    tn__report_item item = {.body = life->body,
                            .kind = tn_life_kind(graph, life),
                            .bytes = life->bytes,
                            .lo = life->whole ? 0 : life->delta,
                            .hi = life->whole ? size : tn__add_sat(life->delta, life->bytes),
                            .first = life->first,
                            .last = life->last,
                            .step = scene_step(scene, life, op_steps),
                            .source = TN_NONE,
                            .share = life->share,
                            .whole = life->whole,
                            .alias = scene_is_alias(graph, life)};
    if (life->tensor == TN_NONE) {
        TN_TRY(scene_body_name(scene, life->body, &item.name, error));
    } else {
        item.tensor = tn_graph_tensor(graph, life->tensor);
        item.name = item.tensor->name;
    }
    scene->items[scene->item_count++] = item;
    return TN_OK;
}

/* Sets the source of each item to the latest earlier item of the source tensor of its live
 * range. */
static tn_status scene_link(tn__scene *scene, const tn_life *lives, tn_error *error) {
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(scene->report->occupancy));
    uint32_t tensors = tn_graph_tensor_count(graph);
    uint32_t *latest = tn__arena_array(&scene->arena, (size_t)tensors + 1, sizeof *latest);
    if (latest == NULL) return tn__no_memory(error, "the lives of a report");
    for (uint32_t t = 0; t < tensors; t++) latest[t] = TN_NONE;
    for (uint32_t i = 0; i < scene->item_count; i++) {
        if (lives[i].source != TN_NONE) scene->items[i].source = latest[lives[i].source];
        if (lives[i].tensor != TN_NONE) latest[lives[i].tensor] = i;
    }
    return TN_OK;
}

/* Sets the decision of a fit about the tensor of each item. */
static tn_status scene_fates(tn__scene *scene, tn_error *error) {
    const tn_occupancy *occupancy = scene->report->occupancy;
    const tn_program *program = tn_occupancy_program(occupancy);
    uint32_t tensors = tn_graph_tensor_count(tn_program_graph(program)), forms;
    uint8_t *fates = tn__arena_array(&scene->arena, (size_t)tensors + 1, sizeof *fates);
    if (fates == NULL) return tn__no_memory(error, "what became of tensors");
    (void)tn_program_encoded(program, &forms);
    tn_program_fates(program, fates);
    memset(fates + tensors - forms, TN_FATE_ENCODED, forms);
    for (uint32_t i = 0; i < scene->item_count; i++) {
        tn_tensor_id id = tn_occupancy_lives(occupancy)[i].tensor;
        if (id != TN_NONE) scene->items[i].fate = (tn_fate)fates[id];
    }
    return tn_fit_fates(occupancy, &scene->fates, error);
}

static tn_status scene_from_model(tn__scene *scene, tn_error *error) {
    const tn_occupancy *occupancy = scene->report->occupancy;
    const tn_life *lives = tn_occupancy_lives(occupancy);
    uint32_t count = tn_occupancy_life_count(occupancy);
    const uint32_t *op_steps = scene_op_steps(scene);
    scene->items = tn__arena_array(&scene->arena, (size_t)count + 1, sizeof *scene->items);
    if (op_steps == NULL || scene->items == NULL)
        return tn__no_memory(error, "the lives of a report");
    for (uint32_t i = 0; i < count; i++) TN_TRY(scene_add_life(scene, &lives[i], op_steps, error));
    TN_TRY(scene_link(scene, lives, error));
    scene->summary = tn_occupancy_summary(occupancy);
    scene->naive = scene->summary.naive;
    scene->first = 0;
    scene->last = tn__step_count(scene->report);
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
        scene->total[kind] = scene->summary.total[kind];
    return scene->report->fit != NULL ? scene_fates(scene, error) : TN_OK;
}

static tn_status scene_from_problem(tn__scene *scene, tn_error *error) {
    const tn_problem *problem = scene->report->problem;
    uint32_t bodies = tn_problem_count(problem);
    scene->items = tn__arena_array(&scene->arena, bodies, sizeof *scene->items);
    if (scene->items == NULL && bodies > 0) return tn__no_memory(error, "the buffers of a report");
    for (tn_body_id b = 0; b < bodies; b++) {
        const tn_body *body = tn_problem_body(problem, b);
        tn__report_item *item = &scene->items[scene->item_count++];
        const tn_report_mark *mark = scene->report->marks ? &scene->report->marks[b] : NULL;
        uint32_t kind = mark && mark->kind < TN_KIND_COUNT ? mark->kind : TN__KIND_BUFFER;
        *item = (tn__report_item){.body = b,
                                  .kind = kind,
                                  .note = mark && mark->note ? mark->note : "",
                                  .bytes = body->size,
                                  .hi = body->size,
                                  .first = body->first,
                                  .last = body->last,
                                  .step = TN_NONE,
                                  .source = TN_NONE};
        TN_TRY(scene_body_name(scene, b, &item->name, error));
        scene->total[kind] = tn__add_sat(scene->total[kind], body->size);
        if (b == 0 || body->first < scene->first) scene->first = body->first;
        if (b == 0 || body->last > scene->last) scene->last = body->last;
    }
    scene->naive = tn_problem_naive(problem);
    return TN_OK;
}

tn_status tn__scene_make(tn__scene *scene, const tn_report *report, tn_error *error) {
    *scene = (tn__scene){.report = report};
    tn__arena_init(&scene->arena, report->context);
    TN_TRY(report->occupancy ? scene_from_model(scene, error) : scene_from_problem(scene, error));
    for (uint32_t i = 0; i < scene->item_count; i++) scene->occurs[scene->items[i].kind] = true;
    return report->occupancy ? scene_roles(scene, error) : TN_OK;
}

/* --- pieces --- */

/* Sets plain[b] for each buffer b that is drawn exactly as planned by the rectangle of a single
 * item. */
static void scene_mark_plain(const tn__scene *scene, uint8_t *items_of, bool *plain) {
    for (uint32_t i = 0; i < scene->item_count; i++)
        items_of[scene->items[i].body] = items_of[scene->items[i].body] ? 2 : 1;
    for (uint32_t i = 0; i < scene->item_count; i++) {
        const tn__report_item *item = &scene->items[i];
        tn_piece one;
        uint32_t count;
        const tn_piece *piece =
            tn__body_pieces(tn_problem_body(scene->report->problem, item->body), &one, &count);
        bool same = count == 1 && piece->first == item->first && piece->last == item->last &&
                    piece->lo == item->lo && piece->hi == item->hi;
        plain[item->body] = count == 0 || (same && items_of[item->body] == 1);
    }
}

tn_status tn__scene_pieces(tn__scene *scene, tn_error *error) {
    const tn_problem *problem = scene->report->problem;
    uint32_t bodies = tn_problem_count(problem);
    size_t total = 1;
    for (tn_body_id b = 0; b < bodies; b++) total += tn_problem_body(problem, b)->piece_count + 1;
    uint8_t *items_of = tn__arena_array(&scene->arena, (size_t)bodies + 1, sizeof *items_of);
    bool *plain = tn__arena_array(&scene->arena, (size_t)bodies + 1, sizeof *plain);
    scene->pieces = tn__arena_array(&scene->arena, total, sizeof *scene->pieces);
    if (items_of == NULL || plain == NULL || scene->pieces == NULL)
        return tn__no_memory(error, "the pieces of a picture");
    scene_mark_plain(scene, items_of, plain);
    for (tn_body_id b = 0; b < bodies; b++) {
        tn_piece one;
        uint32_t count;
        const tn_piece *pieces = tn__body_pieces(tn_problem_body(problem, b), &one, &count);
        for (uint32_t p = 0; p < count && !plain[b]; p++)
            scene->pieces[scene->piece_count++] = (tn__scene_piece){b, pieces[p]};
    }
    return TN_OK;
}

void tn__scene_release(tn__scene *scene) { tn__arena_release(&scene->arena); }

/* --- readers of an item ----------------------------------------------------------------------- */

/* Finds the steps that read an item.
 *
 * A tensor that was swapped or recomputed has several live ranges. A step reads the latest live
 * range that began before the step. A live range therefore has the uses of its tensor up to the
 * start of the tensor's next live range.
 */

typedef struct uses_state {
    const tn_life *lives;
    uint32_t life_count, tensors;
    /* [tensors] during a backward pass over the live ranges: when the next live range of the tensor
     * begins, or TN_NONE */
    uint32_t *until;
    tn__lists of; /* [tensors] lists of the steps that use each tensor */
} uses_state;

static void uses_fill(void *self, tn__lists *uses) {
    uses_state *state = self;
    memset(state->until, 0xff, state->tensors * sizeof *state->until);
    for (uint32_t i = state->life_count; i-- > 0;) {
        const tn_life *life = &state->lives[i];
        if (life->tensor == TN_NONE) continue;
        uint32_t end = state->of.first[life->tensor + 1], *until = &state->until[life->tensor];
        uint32_t u = tn__lists_after(&state->of, life->tensor, life->first);
        for (; u < end && state->of.items[u] <= *until; u++)
            tn__lists_add(uses, i, state->of.items[u]);
        *until = life->first;
    }
}

tn_status tn__uses_make(tn__scene *scene, tn__uses *uses, tn_error *error) {
    const tn_occupancy *occupancy = scene->report->occupancy;
    const tn_program *program = tn_occupancy_program(occupancy);
    uses_state state = {.lives = tn_occupancy_lives(occupancy),
                        .life_count = tn_occupancy_life_count(occupancy),
                        .tensors = tn_graph_tensor_count(tn_program_graph(program))};
    TN_TRY(tn__program_uses(program, &scene->arena, &state.of, error));
    state.until = tn__arena_array(&scene->arena, (size_t)state.tensors + 1, sizeof *state.until);
    tn__lists made;
    if (state.until == NULL ||
        !tn__lists_make(&made, state.life_count, &scene->arena, uses_fill, &state))
        return tn__no_memory(error, "the uses of tensors");
    *uses = (tn__uses){.start = made.first, .steps = made.items};
    return TN_OK;
}
