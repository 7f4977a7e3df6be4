/* json.c - writes the complete plan as JSON, in the format "mem-plan". The document has the options
 * that made the plan, and pools and buffers with their offsets. For a model it also has tensors,
 * steps and static memory.
 *
 * The document contains everything that is needed to check the plan. src/plan/io/json.c reads the
 * buffers, and src/cli/model/plan_file.c reads the options, tensors and steps. Tensors and
 * operators are identified by their index in the planned graph. Names are for people and may be
 * empty or repeated. All numbers except the gap and the speeds of pools are integers, and an
 * unknown value is null. Each buffer, tensor and step is on a line of its own, so that two plans
 * can be compared by line. Equal plans give equal bytes: the output contains no clock time, and
 * nothing about the machine except the kernels for which memory is planned.
 */
#include <stdio.h>

#include "plan/problem/problem.h"
#include "report/format.h"

static void json_key(tn__text *text, const char *key) { tn__text_printf(text, "\"%s\":", key); }

static void json_integer(tn__text *text, const char *key, uint64_t value) {
    json_key(text, key);
    tn__words_integer(text, value);
}

static void json_time(tn__text *text, const char *key, int64_t value) {
    json_key(text, key);
    tn__words_signed(text, value);
}

static void json_string(tn__text *text, const char *key, const char *value) {
    json_key(text, key);
    tn__text_json(text, value);
}

static void json_id(tn__text *text, const char *key, uint32_t id) {
    json_key(text, key);
    if (id == TN_NONE)
        tn__text_put(text, "null");
    else
        tn__words_integer(text, id);
}

/* --- how the plan was made --- */

static void json_value(tn__text *text, const char *value) {
    if (value == NULL)
        tn__text_put(text, "true");
    else
        tn__text_json(text, value);
}

/* Writes the options of the plan: {"order":"auto","bank":["a=1024","b=none"]}. Options with equal
 * names are adjacent in the report and become one list. */
static void json_options(tn__text *text, const tn_report *report) {
    const tn_report_option *list = report->options;
    tn__text_put(text, ",\n\"library\":");
    tn__text_json(text, tn_version());
    if (report->command != NULL)
        tn__text_put(text, ","), json_string(text, "command", report->command);
    tn__text_put(text, ",\"options\":{");
    for (uint32_t i = 0, end; i < report->option_count; i = end) {
        for (end = i + 1; end < report->option_count && strcmp(list[end].name, list[i].name) == 0;)
            end++;
        tn__text_put(text, i > 0 ? "," : "");
        tn__text_json(text, list[i].name);
        tn__text_put(text, end > i + 1 ? ":[" : ":");
        for (uint32_t k = i; k < end; k++) {
            if (k > i) tn__text_put(text, ",");
            json_value(text, list[k].value);
        }
        if (end > i + 1) tn__text_put(text, "]");
    }
    tn__text_put(text, "}");
}

/* --- pools and buffers --- */

static void json_reserved(tn__text *text, const tn_problem *problem, tn_bank_id bank) {
    uint32_t count, written = 0;
    const tn_reserved *ranges = tn_problem_reserved(problem, &count);
    for (uint32_t i = 0; i < count; i++) {
        /* JSON plans have numbers of at most 63 bits, and no buffer lies above 2^63 */
        if (ranges[i].bank != bank || ranges[i].first > INT64_MAX) continue;
        uint64_t last = ranges[i].last < INT64_MAX ? ranges[i].last : INT64_MAX;
        tn__text_put(text, written++ == 0 ? ",\"reserved\":[[" : ",[");
        tn__words_integer(text, ranges[i].first);
        tn__text_put(text, ",");
        tn__words_integer(text, last);
        tn__text_put(text, "]");
    }
    if (written > 0) tn__text_put(text, "]");
}

/* Writes a list of pairs of buffers: separations, or reuse costs. */
static void json_pairs(tn__text *text, const char *member, const tn_pair *pairs, uint32_t count,
                       bool costs) {
    if (count == 0) return;
    tn__text_printf(text, ",\n\"%s\":[", member);
    for (uint32_t i = 0; i < count; i++) {
        tn__text_printf(text, "%s[%u,%u", i > 0 ? "," : "", pairs[i].a, pairs[i].b);
        if (costs) tn__text_put(text, ","), tn__words_integer(text, pairs[i].cost);
        tn__text_put(text, "]");
    }
    tn__text_put(text, "]");
}

/* Returns the version of the format that has all constraints of the problem. Readers of version 1
 * do not know separations, reuse costs and reserved ranges, and readers of version 2 no exclusions;
 * they would misunderstand the problem. */
static int json_version(const tn_problem *problem) {
    uint32_t apart, costs, reserved, exclusions;
    tn_problem_exclusions(problem, &exclusions);
    tn_problem_separations(problem, &apart);
    tn_problem_reuse_costs(problem, &costs);
    tn_problem_reserved(problem, &reserved);
    return exclusions > 0 ? 3 : apart > 0 || costs > 0 || reserved > 0 ? 2 : 1;
}

static void json_orders(tn__text *text, const char *member, const tn_wait *pairs, uint32_t count) {
    if (count == 0) return;
    tn__text_printf(text, ",\n\"%s\":[", member);
    for (uint32_t i = 0; i < count; i++)
        tn__text_printf(text, "%s[%u,%u]", i ? "," : "", pairs[i].before, pairs[i].after);
    tn__text_put(text, "]");
}

/* Writes the events of the program, and the bytes that they use. */
static void json_events(tn__text *text, const tn_problem *problem) {
    uint32_t events, orders, waits, spans;
    const uint64_t *times = tn_problem_events(problem, &events);
    const tn_wait *order = tn_problem_orders(problem, &orders);
    const tn_wait *fixed = tn_problem_waits(problem, &waits);
    const tn_span *span = tn_problem_spans(problem, &spans);
    if (events == 0) return;
    tn__text_put(text, ",\n\"events\":[");
    for (uint32_t e = 0; e < events; e++) {
        if (e > 0) tn__text_put(text, ",");
        tn__words_integer(text, times[e]);
    }
    tn__text_put(text, "]");
    json_orders(text, "order", order, orders);
    json_orders(text, "waits", fixed, waits);
    tn__text_put(text, ",\n\"spans\":[");
    for (uint32_t i = 0; i < spans; i++, span++) {
        tn__text_printf(text, "%s{\"buffer\":%u,\"write\":", i ? ",\n" : "\n", span->body);
        if (span->first == TN_EVENT_NONE)
            tn__text_put(text, "null");
        else
            tn__text_printf(text, "%u", span->first);
        tn__text_put(text, ",\"uses\":[");
        for (uint32_t k = 0; k < span->use_count; k++)
            tn__text_printf(text, "%s%u", k ? "," : "", span->uses[k]);
        tn__text_put(text, "],");
        json_integer(text, "lo", span->lo);
        tn__text_put(text, ",");
        json_integer(text, "hi", span->hi);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
}

static void json_pools(tn__text *text, const tn_report *report) {
    const tn_problem *problem = report->problem;
    tn__text_put(text, ",\n\"pools\":[");
    for (tn_bank_id id = 0; id < tn_problem_bank_count(problem); id++) {
        const tn_bank *bank = tn_problem_bank(problem, id);
        uint64_t alignment = 1; /* largest alignment of any buffer in the pool */
        for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
            const tn_body *body = tn_problem_body(problem, b);
            if (report->layout->bank[b] == id && body->alignment > alignment)
                alignment = body->alignment;
        }
        tn__text_printf(text, "%s\n{\"id\":%u,", id ? "," : "", id);
        json_string(text, "name", bank->name);
        if (bank->capacity)
            tn__text_put(text, ","), json_integer(text, "capacity", bank->capacity);
        else
            tn__text_put(text, ",\"capacity\":null");
        tn__text_put(text, ",");
        json_integer(text, "alignment", alignment);
        tn__text_put(text, ",");
        json_integer(text, "peak", report->layout->bank_peak[id]);
        tn__text_put(text, ",");
        json_integer(text, "lower_bound", report->layout->bank_lower_bound[id]);
        if (report->layout->bank_count > 1)
            tn__text_put(text, ","),
                json_integer(text, "traffic", report->layout->bank_traffic[id]);
        if (bank->bytes_per_s > 0) {
            tn__text_put(text, ",\"bytes_per_s\":");
            tn__words_number(text, bank->bytes_per_s);
        }
        json_reserved(text, problem, id);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
}

/* Writes the pieces of a buffer, unless the buffer is a single rectangle of its full size. */
static void json_pieces(tn__text *text, const tn_body *body) {
    tn_piece one;
    uint32_t count;
    const tn_piece *pieces = tn__body_pieces(body, &one, &count);
    if (count == 0 || (count == 1 && pieces->lo == 0 && pieces->hi == body->size)) return;
    tn__text_put(text, ",\"pieces\":[");
    for (uint32_t p = 0; p < count; p++) {
        tn__text_put(text, p ? ",[" : "[");
        tn__words_signed(text, pieces[p].first);
        tn__text_put(text, ",");
        tn__words_signed(text, pieces[p].last);
        tn__text_put(text, ",");
        tn__words_integer(text, pieces[p].lo);
        tn__text_put(text, ",");
        tn__words_integer(text, pieces[p].hi);
        tn__text_put(text, "]");
    }
    tn__text_put(text, "]");
}

static void json_clocks(tn__text *text, const tn_body *body, uint32_t streams, bool ends) {
    tn__text_put(text, ends ? ",\"ends\":[" : ",\"begins\":[");
    for (uint32_t p = 0; p < body->piece_count; p++) {
        const int64_t *clocks = ends ? body->pieces[p].ends : body->pieces[p].begins;
        tn__text_put(text, p ? ",[" : "[");
        for (uint32_t s = 0; s < streams; s++) {
            if (s > 0) tn__text_put(text, ",");
            tn__words_signed(text, clocks[s]);
        }
        tn__text_put(text, "]");
    }
    tn__text_put(text, "]");
}

/* Writes streams, ties and the choice of a bank, but only if the problem has any of them. */
static void json_limits(tn__text *text, const tn_problem *problem, const tn_body *body) {
    if (tn_problem_streams(problem) > 1 && body->size > 0) {
        json_clocks(text, body, tn_problem_streams(problem), false);
        json_clocks(text, body, tn_problem_streams(problem), true);
    }
    if (body->flags & TN_BODY_TIED) {
        tn__text_printf(text, ",\"leader\":%u,", body->leader);
        json_integer(text, "delta", body->delta);
    }
    if (body->flags & TN_BODY_ANY_BANK) tn__text_put(text, ",\"any_pool\":true");
    if (body->flags & TN__BODY_IN_BANK) tn__text_put(text, ",\"any_pool\":false");
    if (body->traffic > 0) tn__text_put(text, ","), json_integer(text, "traffic", body->traffic);
}

/* Writes the buffers. The kind of a buffer is that of its first item. */
static tn_status json_buffers(tn__text *text, tn__scene *scene, tn_error *error) {
    const tn_problem *problem = scene->report->problem;
    uint32_t count = tn_problem_count(problem);
    const tn__report_item **owner =
        tn__arena_array(&scene->arena, (size_t)count + 1, sizeof(void *));
    if (owner == NULL) return tn__no_memory(error, "a JSON plan");
    for (uint32_t i = scene->item_count; i-- > 0;) owner[scene->items[i].body] = &scene->items[i];
    tn__text_put(text, ",\n\"buffers\":[");
    for (tn_body_id b = 0; b < count; b++) {
        const tn_body *body = tn_problem_body(problem, b);
        tn__text_printf(text, "%s\n{\"id\":%u,", b ? "," : "", b);
        json_string(text, "name", body->name ? body->name : owner[b]->name);
        tn__text_put(text, ",");
        json_integer(text, "size", body->size);
        tn__text_put(text, ",");
        json_time(text, "first", body->first);
        tn__text_put(text, ",");
        json_time(text, "last_excl", body->last);
        tn__text_printf(text, ",\"pool\":%u,", scene->report->layout->bank[b]);
        json_integer(text, "offset", scene->report->layout->offset[b]);
        tn__text_put(text, ",");
        json_integer(text, "alignment", body->alignment);
        tn__text_printf(text, ",\"kind\":\"%s\"", tn__kind_text(owner[b]->kind));
        json_pieces(text, body);
        json_limits(text, problem, body);
        if (body->flags & TN_BODY_PINNED) tn__text_put(text, ",\"pinned\":true");
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
    return TN_OK;
}

/* --- tensors and steps of a model --- */

static void json_shape(tn__text *text, const tn_tensor *tensor) {
    tn__text_put(text, ",\"shape\":");
    if (tensor->rank == TN_RANK_UNKNOWN) {
        tn__text_put(text, "null");
        return;
    }
    tn__text_put(text, "[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (i > 0) tn__text_put(text, ",");
        if (tensor->shape[i] == TN_DIM_UNKNOWN)
            tn__text_put(text, "null");
        else
            tn__words_signed(text, tensor->shape[i]);
    }
    tn__text_put(text, "]");
}

/* Writes one item. Its members `tensor` and `node` are indices in the planned graph. An item
 * without a tensor is the workspace of its node. */
static void json_tensor(tn__text *text, const tn__scene *scene, uint32_t index) {
    static const char *const shares[] = {"own", "view", "inplace", "fused"};
    const tn__report_item *item = &scene->items[index];
    const tn_life *life = &tn_occupancy_lives(scene->report->occupancy)[index];
    uint64_t base = scene->report->layout->offset[item->body];
    tn__step step = tn__step_of(scene->report, item->step);
    json_string(text, "name", item->name);
    tn__text_put(text, ",");
    json_id(text, "tensor", life->tensor);
    tn__text_put(text, ",");
    json_id(text, "node", life->op);
    tn__text_printf(text, ",\"buffer\":%u,", item->body);
    json_integer(text, "delta", item->lo);
    tn__text_put(text, ",");
    json_integer(text, "offset", tn__add_sat(base, item->lo));
    tn__text_put(text, ",");
    json_integer(text, "size", item->bytes);
    tn__text_put(text, ",");
    json_time(text, "first", item->first);
    tn__text_put(text, ",");
    json_time(text, "last_excl", item->last);
    tn__text_printf(text, ",\"kind\":\"%s\",\"dtype\":", tn__kind_text(item->kind));
    if (item->tensor) {
        tn__text_json(text, tn_dtype_name(item->tensor->dtype));
        json_shape(text, item->tensor);
    } else {
        tn__text_put(text, "null,\"shape\":null");
    }
    tn__text_put(text, ",");
    json_string(text, "op", step.name);
    tn__text_put(text, ",");
    json_string(text, "op_type", step.type);
    tn__text_printf(text, ",\"share\":\"%s\",\"source\":", shares[item->share]);
    if (item->source == TN_NONE)
        tn__text_put(text, "null");
    else
        tn__text_json(text, scene->items[item->source].name);
    if (scene->phases) tn__text_printf(text, ",\"role\":\"%s\"", tn__role_name(item->role));
    if (scene->report->fit) tn__text_printf(text, ",\"decision\":\"%s\"", tn_fate_name(item->fate));
    if (item->tensor && item->tensor->flags & TN_TENSOR_BOUND)
        tn__text_put(text, ",\"upper_bound\":true");
}

static void json_unless_0(tn__text *text, const char *key, uint64_t value) {
    if (value == 0) return;
    tn__text_put(text, ",");
    json_integer(text, key, value);
}

/* Writes the operands of an instruction other than its operator, as the table of opcodes lists
 * them. Members about streams are written only if they differ from the default. */
static void json_uses(tn__text *text, const tn_graph *graph, const tn_instruction *it) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    const tn_tensor_id tensors[] = {facts->blocks != TN_BLOCKS_CALLER ? it->tensor : TN_NONE,
                                    it->other};
    for (int i = 0; i < 2; i++) {
        if (tensors[i] == TN_NONE) continue;
        tn__text_put(text, ",");
        json_string(text, i == 0 ? "tensor" : "other", tn_graph_tensor(graph, tensors[i])->name);
    }
    if (it->tensor != TN_NONE) tn__text_put(text, ","), json_id(text, "tensor_id", it->tensor);
    if (it->other != TN_NONE) tn__text_put(text, ","), json_id(text, "other_id", it->other);
    if (it->again) tn__text_put(text, ",\"recomputed\":true");
    json_unless_0(text, "stream", it->stream);
    json_unless_0(text, "wait", it->wait);
    json_unless_0(text, "signal", it->signal);
    json_unless_0(text, "slot", it->slot);
    json_unless_0(text, "group", it->group);
    if (facts->flags & TN_USES_PEER) {
        tn__text_put(text, ",");
        json_integer(text, "peer", it->peer);
        tn__text_put(text, ",");
        json_integer(text, "tag", it->tag);
        json_unless_0(text, "part", it->part);
        json_unless_0(text, "parts", it->parts);
    }
    if (facts->flags & TN_USES_CODEC) {
        tn__text_put(text, ",");
        json_string(text, "codec", tn_codec_name(it->codec));
    }
    if (facts->flags & TN_USES_REDUCTION) {
        tn__text_put(text, ",");
        json_string(text, "reduction", tn_reduction_name(it->reduction));
    }
}

/* Writes the blocks of control flow, and the tensors that the program owns, but only if there are
 * any. */
static void json_program(tn__text *text, const tn_program *program) {
    const tn_region *regions = tn_program_regions(program);
    uint32_t count = tn_program_region_count(program), forms;
    const tn_encoded *encoded = tn_program_encoded(program, &forms);
    if (count > 0) tn__text_put(text, "],\n\"regions\":[");
    for (uint32_t i = 0; i < count; i++)
        tn__text_printf(text,
                        "%s{\"node\":%u,\"block\":%u,\"first\":%u,\"last_excl\":%u,\"repeats\":%s}",
                        i > 0 ? ",\n" : "\n", regions[i].op, regions[i].block, regions[i].first,
                        regions[i].last, regions[i].repeats ? "true" : "false");
    if (forms > 0) tn__text_put(text, "],\n\"encoded\":[");
    for (uint32_t i = 0; i < forms; i++) {
        tn__text_printf(text, "%s{\"tensor\":%u,\"codec\":\"%s\",", i > 0 ? ",\n" : "\n",
                        encoded[i].tensor, tn_codec_name(encoded[i].codec));
        json_integer(text, "bytes", encoded[i].bytes);
        tn__text_put(text, "}");
    }
}

static void json_model(tn__text *text, const tn__scene *scene) {
    tn__text_put(text, ",\n\"tensors\":[");
    for (uint32_t i = 0; i < scene->item_count; i++) {
        tn__text_put(text, i ? ",\n{" : "\n{");
        json_tensor(text, scene, i);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "],\n\"steps\":[");
    const tn_program *program = tn_occupancy_program(scene->report->occupancy);
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        const tn_instruction *instruction = &tn_program_instructions(program)[i];
        tn__step step = tn__step_of(scene->report, i);
        tn__text_put(text, i ? ",\n{" : "\n{");
        json_string(text, "opcode", tn_opcode_name(instruction->opcode));
        tn__text_put(text, ",");
        if (instruction->op != TN_NONE) { /* index in the graph, which `tenure verify` reads */
            json_integer(text, "node", instruction->op);
            tn__text_put(text, ",");
        }
        json_string(text, "op", step.name);
        tn__text_put(text, ",");
        json_string(text, "type", instruction->op == TN_NONE ? "" : step.type);
        json_uses(text, tn_program_graph(program), instruction);
        if (scene->phases)
            tn__text_printf(text, ",\"phase\":\"%s\"", tn__phase_words(scene->phases[i]));
        tn__text_put(text, "}");
    }
    json_program(text, program);
    tn__text_put(text, "],\n\"static\":{");
    json_integer(text, "parameter", scene->summary.total[TN_KIND_PARAMETER]);
    tn__text_put(text, ",");
    json_integer(text, "constant", scene->summary.total[TN_KIND_CONSTANT]);
    json_unless_0(text, "optimizer_state", scene->summary.total[TN_KIND_OPTIMIZER_STATE]);
    tn__text_put(text, "}");
}

/* Writes the name of an operator, or its type and index if it has no name. */
static void json_op_name(tn__text *text, const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    char made[96];
    snprintf(made, sizeof made, "%.60s #%u", op->type, id);
    tn__text_json(text, op->name[0] != '\0' ? op->name : made);
}

/* Writes the pairs of operators that cannot run at the same time with this plan, or null if they
 * are unknown. Without memory for them the text fails, because null would be another answer. */
static void json_dependencies(tn__text *text, const tn_report *report) {
    tn_dependency *list;
    uint64_t count;
    tn_error why;
    tn_status status = tn_plan_dependencies(report->occupancy, report->layout, &list, &count, &why);
    if (status != TN_OK) {
        text->failed = text->failed || status == TN_E_NO_MEMORY;
        tn__text_put(text, ",\n\"dependencies_added\":null");
        return;
    }
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(report->occupancy));
    tn__text_put(text, ",\n\"dependencies_added\":[");
    for (uint64_t i = 0; i < count; i++) {
        tn__text_put(text, i ? ",\n[" : "\n[");
        json_op_name(text, graph, list[i].before);
        tn__text_put(text, ",");
        json_op_name(text, graph, list[i].after);
        tn__text_put(text, "]");
    }
    tn__text_put(text, "]");
    tn_dependencies_release(list);
}

static void json_result(tn__text *text, const tn__scene *scene) {
    const tn_layout *layout = scene->report->layout;
    tn__text_put(text, ",\n\"result\":{");
    json_string(text, "status", tn_verdict_name(layout->verdict));
    tn__text_put(text, ",");
    json_string(text, "planner", layout->planner ? layout->planner : "");
    tn__text_put(text, ",");
    json_string(text, "objective", tn_objective_name(layout->objective));
    tn__text_put(text, ",");
    json_integer(text, "peak", layout->peak);
    tn__text_put(text, ",");
    json_integer(text, "lower_bound", layout->lower_bound);
    tn__text_put(text, ",\"gap\":");
    tn__words_number(text, tn__words_gap(layout->peak, layout->lower_bound));
    tn__text_put(text, ",");
    json_integer(text, "naive", scene->naive);
    tn__text_put(text, ",");
    json_integer(text, "seed", layout->seed);
    tn__text_put(text, ",");
    json_integer(text, "work", layout->work);
    uint32_t costs;
    tn_problem_reuse_costs(scene->report->problem, &costs);
    /* the number is left out if readers would refuse it as too large */
    if (costs > 0 && layout->reuse_cost <= INT64_MAX) {
        tn__text_put(text, ",");
        json_integer(text, "reuse_cost", layout->reuse_cost);
        tn__text_put(text, ",");
        json_integer(text, "reuse_cost_bound", layout->reuse_cost_bound);
    }
    uint32_t events;
    tn_problem_events(scene->report->problem, &events);
    if (events > 0 && layout->time <= INT64_MAX) {
        const uint64_t numbers[] = {layout->waits, layout->waits_bound, layout->time,
                                    layout->time_bound, layout->workers};
        const char *const names[] = {"waits", "waits_bound", "time", "time_bound", "workers"};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            tn__text_put(text, ",");
            json_integer(text, names[i], numbers[i]);
        }
    }
    tn__text_put(text, "}}\n");
}

static tn_status json_render(const tn_report *report, tn__text *text, tn_error *error) {
    tn__scene scene;
    tn_status status = tn__scene_make(&scene, report, error);
    if (status == TN_OK) {
        tn__text_printf(text, "{\"format\":\"mem-plan\",\"version\":%d,\"unit\":\"bytes\",",
                        json_version(report->problem));
        json_string(text, "input", report->input);
        if (report->kernels != NULL) { /* `tenure verify` reads this member */
            tn__text_put(text, ",\"kernels\":");
            tn__words_kernels(text, report->kernels);
        }
        if (report->options != NULL) json_options(text, report);
        if (tn_problem_streams(report->problem) > 1)
            tn__text_printf(text, ",\"streams\":%u", tn_problem_streams(report->problem));
        json_pools(text, report);
        status = json_buffers(text, &scene, error);
        uint32_t count;
        const tn_pair *pairs = tn_problem_separations(report->problem, &count);
        json_pairs(text, "apart", pairs, count, false);
        pairs = tn_problem_exclusions(report->problem, &count);
        json_pairs(text, "exclusions", pairs, count, false);
        pairs = tn_problem_reuse_costs(report->problem, &count);
        json_pairs(text, "reuse_costs", pairs, count, true);
        json_events(text, report->problem);
    }
    if (status == TN_OK) {
        if (report->occupancy)
            json_model(text, &scene), json_dependencies(text, report);
        else
            tn__text_put(text, ",\n\"static\":{}");
        tn__fit_json(text, &scene);
        json_result(text, &scene);
    }
    tn__scene_release(&scene);
    return status;
}

const tn_report_format tn__report_format_json = {
    .name = "json",
    .suffix = ".json",
    .summary = "the whole plan: buffers, tensors, steps, result",
    .render = json_render,
};
