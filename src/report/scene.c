/* scene.c - the things with a name that pictures and lists show.
 *
 * With a model these are the lives of its tensors, each in its window of a body; scratch memory
 * has a body and no tensor, and is listed by its body. Without a model the bodies themselves are
 * listed, all of kind "buffer". Formats read this list and never ask which of the two it is.
 *
 * Cost: O(lives + bodies + operands of the operators that define them).
 */
#include <stdio.h>

#include "report/format.h"

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

/* Whether tensor shares memory by definition of its operator, not by our choice. */
static bool scene_is_alias(const tn_graph *graph, tn_tensor_id tensor) {
    tn_op_id producer = tn_graph_tensor(graph, tensor)->producer;
    if (producer == TN_NONE) return false;
    const tn_op *op = tn_graph_op(graph, producer);
    for (uint32_t output = 0; output < op->output_count; output++) {
        if (op->outputs[output] == tensor) return tn_op_view(graph, producer, output).must;
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

static tn_status scene_add_body(tn__scene *scene, tn_body_id id, uint32_t kind, tn_error *error) {
    const tn_body *body = tn_problem_body(scene->report->problem, id);
    tn__item item = {.body = id,
                     .kind = kind,
                     .bytes = body->size,
                     .hi = body->size,
                     .first = body->first,
                     .last = body->last,
                     .step = kind == TN__KIND_BUFFER ? TN_NONE : (uint32_t)body->first,
                     .source = TN_NONE};
    TN_TRY(scene_body_name(scene, id, &item.name, error));
    scene->items[scene->item_count++] = item;
    return TN_OK;
}

static void scene_add_life(tn__scene *scene, const tn_life *life) {
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(scene->report->occupancy));
    const tn_tensor *tensor = tn_graph_tensor(graph, life->tensor);
    uint64_t size = tn_problem_body(scene->report->problem, life->body)->size;
    tn__item item = {.name = tensor->name,
                     .tensor = tensor,
                     .body = life->body,
                     .kind = tensor->kind,
                     .bytes = life->bytes,
                     .lo = life->whole ? 0 : life->delta,
                     .hi = life->whole ? size : tn__add_sat(life->delta, life->bytes),
                     .first = life->first,
                     .last = life->last,
                     .step = life->first,
                     .source = TN_NONE,
                     .share = life->share,
                     .whole = life->whole,
                     .alias = life->share != TN_SHARE_OWN && scene_is_alias(graph, life->tensor)};
    scene->items[scene->item_count++] = item;
}

/* Turns the source of each life from a tensor into the item that is its latest life before. */
static tn_status scene_link(tn__scene *scene, const tn_life *lives, uint32_t life_count,
                            const uint32_t *item_of_life, tn_error *error) {
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(scene->report->occupancy));
    uint32_t tensors = tn_graph_tensor_count(graph);
    uint32_t *latest = tn__arena_array(&scene->arena, tensors, sizeof *latest);
    if (latest == NULL && tensors > 0) return tn__no_memory(error, "the lives of a report");
    for (uint32_t t = 0; t < tensors; t++) latest[t] = TN_NONE;
    for (uint32_t i = 0; i < life_count; i++) {
        if (lives[i].source != TN_NONE)
            scene->items[item_of_life[i]].source = latest[lives[i].source];
        latest[lives[i].tensor] = item_of_life[i];
    }
    return TN_OK;
}

/* Lives in their order, which is by first; a body without a life goes before the first life that
 * starts after it. */
static tn_status scene_from_model(tn__scene *scene, tn_error *error) {
    const tn_occupancy *occupancy = scene->report->occupancy;
    const tn_life *lives = tn_occupancy_lives(occupancy);
    uint32_t life_count = tn_occupancy_life_count(occupancy);
    uint32_t bodies = tn_problem_count(scene->report->problem);
    bool *told = tn__arena_array(&scene->arena, (size_t)bodies + 1, sizeof *told);
    uint32_t *item_of_life =
        tn__arena_array(&scene->arena, (size_t)life_count + 1, sizeof *item_of_life);
    scene->items =
        tn__arena_array(&scene->arena, (size_t)life_count + bodies + 1, sizeof *scene->items);
    if (told == NULL || item_of_life == NULL || scene->items == NULL)
        return tn__no_memory(error, "the lives of a report");
    for (uint32_t i = 0; i < life_count; i++) told[lives[i].body] = true;
    tn_body_id body = 0;
    for (uint32_t i = 0; i <= life_count; i++) {
        for (; body < bodies; body++) {
            if (told[body]) continue;
            if (i < life_count &&
                tn_problem_body(scene->report->problem, body)->first >= lives[i].first)
                break;
            TN_TRY(scene_add_body(scene, body, TN_KIND_WORKSPACE, error));
        }
        if (i == life_count) break;
        item_of_life[i] = scene->item_count;
        scene_add_life(scene, &lives[i]);
    }
    TN_TRY(scene_link(scene, lives, life_count, item_of_life, error));
    scene->summary = tn_occupancy_summary(occupancy);
    scene->naive = scene->summary.naive;
    scene->first = 0;
    scene->last = tn__step_count(scene->report);
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
        scene->total[kind] = scene->summary.total[kind];
    return TN_OK;
}

static tn_status scene_from_problem(tn__scene *scene, tn_error *error) {
    const tn_problem *problem = scene->report->problem;
    uint32_t bodies = tn_problem_count(problem);
    scene->items = tn__arena_array(&scene->arena, bodies, sizeof *scene->items);
    if (scene->items == NULL && bodies > 0) return tn__no_memory(error, "the buffers of a report");
    for (tn_body_id b = 0; b < bodies; b++) {
        const tn_body *body = tn_problem_body(problem, b);
        TN_TRY(scene_add_body(scene, b, TN__KIND_BUFFER, error));
        scene->total[TN__KIND_BUFFER] = tn__add_sat(scene->total[TN__KIND_BUFFER], body->size);
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
    return TN_OK;
}

/* --- pieces --- */

/* Sets plain[body] for bodies that one item draws exactly as they are planned. */
static void scene_mark_plain(const tn__scene *scene, uint8_t *items_of, bool *plain) {
    for (uint32_t i = 0; i < scene->item_count; i++)
        items_of[scene->items[i].body] = items_of[scene->items[i].body] ? 2 : 1;
    for (uint32_t i = 0; i < scene->item_count; i++) {
        const tn__item *item = &scene->items[i];
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
