/* alike.c - checks that all ranks are about to run the same computation, by comparing hashes of it.
 *
 * From the graph the hash covers operators, types and extents, and attributes except seeds and
 * those that name a rank's part. From the program it covers the communication in its order. A group
 * is described by its size and by when it is first called, because its number may differ from rank
 * to rank. How a rank stays within its memory is not compared.
 * Cost: O(graph + instructions x groups). Source of the hash: FNV-1a.
 */
#include "graph/attr.h"
#include "run/dist/world.h"

static uint64_t alike_bytes(uint64_t hash, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}
#define ALIKE_BEGIN UINT64_C(14695981039346656037)

static uint64_t alike_text(uint64_t hash, const char *text) {
    return alike_bytes(hash, text, strlen(text) + 1);
}

static uint64_t alike_number(uint64_t hash, uint64_t number) {
    return alike_bytes(hash, &number, sizeof number);
}

static uint64_t alike_tensor(uint64_t hash, const tn_tensor *tensor) {
    hash = alike_number(hash, tensor->dtype);
    hash = alike_number(hash, tensor->rank);
    bool shaped = tensor->rank <= TN_RANK_MAX;
    for (uint32_t d = 0; shaped && d < tensor->rank; d++)
        hash = alike_number(hash, (uint64_t)tensor->shape[d]);
    return hash;
}

static uint64_t alike_attr(uint64_t hash, const tn_op *op, const tn_attr *attr) {
    if (tn__attr_of_ranks(op, attr->name) != TN__ATTR_SAME) return hash;
    hash = alike_text(hash, attr->name);
    if (attr->ints != NULL) hash = alike_bytes(hash, attr->ints, attr->count * sizeof(int64_t));
    if (attr->floats != NULL) hash = alike_bytes(hash, attr->floats, attr->count * sizeof(double));
    for (uint32_t i = 0; attr->strings != NULL && i < attr->count; i++)
        hash = alike_text(hash, attr->strings[i]);
    return hash;
}

static uint64_t alike_graph(const tn_graph *graph) {
    uint64_t hash = ALIKE_BEGIN;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        hash = alike_tensor(hash, tn_graph_tensor(graph, id));
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        hash = alike_text(hash, op->type);
        hash = alike_bytes(hash, op->inputs, op->input_count * sizeof *op->inputs);
        hash = alike_bytes(hash, op->outputs, op->output_count * sizeof *op->outputs);
        for (uint32_t i = 0; i < op->attr_count; i++) hash = alike_attr(hash, op, &op->attrs[i]);
    }
    return hash;
}

#define ALIKE_GROUPS 32u /* groups that the hash distinguishes */

/* Hashes its size and its index in the order of first use. */
static uint64_t alike_group(uint64_t hash, tn_world *world, uint32_t group, uint32_t *seen,
                            uint32_t *count) {
    const tn__group *found = tn__world_find(world, group);
    uint32_t at = 0;
    while (at < *count && seen[at] != group) at++;
    if (at == *count && at < ALIKE_GROUPS) seen[(*count)++] = group;
    return alike_number(alike_number(hash, at), found != NULL ? found->count : 0);
}

/* Stages of a pipeline communicate differently; tn_programs_verify has checked them together. */
static bool alike_is_stage(const tn_program *program) {
    bool stage = false;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        const tn_instruction *it = &tn_program_instructions(program)[s];
        stage = stage || tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_PEER;
    }
    return stage;
}

static uint64_t alike_talks(tn_world *world, const tn_program *program) {
    uint32_t seen[ALIKE_GROUPS], groups = 0;
    uint64_t hash = ALIKE_BEGIN;
    if (alike_is_stage(program)) return hash;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        const tn_instruction *it = &tn_program_instructions(program)[s];
        if (tn_opcode_facts_of(it->opcode)->blocks != TN_BLOCKS_GROUP) continue;
        hash = alike_number(hash, it->opcode);
        hash = alike_group(hash, world, it->group, seen, &groups);
        hash = alike_number(hash, it->reduction);
        hash = alike_tensor(hash, tn_graph_tensor(tn_program_graph(program), it->tensor));
    }
    return hash;
}

tn_status tn_world_alike(tn_world *world, const tn_program *program, uint64_t seed,
                         tn_error *error) {
    const tn_world_same same[] = {
        {"version of tenure", alike_text(ALIKE_BEGIN, tn_version())},
        {"model", alike_graph(tn_program_graph(program))},
        {"sequence of messages", alike_talks(world, program)},
        {"seed", seed},
    };
    return tn_world_compare(world, same, sizeof same / sizeof *same, error);
}
