/* rank_messages.c - runs the instructions for other ranks (SEND, RECV, REDUCE, GATHER, SCATTER) by
 * calling the functions of the exchange, which the caller of the engine provides.
 *
 * The exchange reads and writes operands at their planned addresses; no copy is made. An
 * instruction of another stream runs in that stream's thread, at the same time as kernels. The
 * engine waits for an instruction of stream 0.
 */
#include "engine/engine.h"

/* --- checks --- */

static tn_status talk_check_parts(const tn_exchange *exchange, const tn_instruction *it,
                                  const tn_tensor *tensor, const tn_tensor *other,
                                  tn_error *error) {
    uint32_t mine, members = exchange->members(exchange->self, it->group, &mine);
    if (members == 0)
        TN_FAIL(error, TN_E_INVALID, "rank %u has no part in group %u", exchange->rank, it->group);
    if (it->opcode == TN_REDUCE) return TN_OK;
    bool gathers = it->opcode == TN_GATHER;
    uint64_t whole = gathers && other != NULL ? other->bytes : tensor->bytes;
    uint64_t part = other == NULL ? whole / members : gathers ? tensor->bytes : other->bytes;
    /* bytes of an element. SCATTER sums whole elements, so the part of each rank must be a multiple
     * of this size */
    uint64_t unit = tn_dtype_bits(tensor->dtype) / 8;
    bool cut = it->opcode == TN_SCATTER && unit > 1 && part % unit != 0;
    if (tn__mul_sat(part, members) == whole && !cut) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "%llu bytes are not %u parts of %llu", (unsigned long long)whole,
            members, (unsigned long long)part);
}

tn_status tn__talk_check(const tn_exchange *exchange, const tn_graph *graph,
                         const tn_instruction *it, tn_error *error) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    const tn_tensor *tensor = tn_graph_tensor(graph, it->tensor);
    const tn_tensor *other = it->other != TN_NONE ? tn_graph_tensor(graph, it->other) : NULL;
    if (exchange == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "this engine does not run '%s': it was given no way to other ranks "
                "(tn_engine_options.exchange)",
                facts->name);
    if ((facts->flags & TN_USES_PEER) && it->peer >= exchange->ranks)
        TN_FAIL(error, TN_E_INVALID, "there is no rank %u: there are %u", it->peer,
                exchange->ranks);
    bool reduces = (facts->flags & TN_USES_REDUCTION) != 0;
    if (reduces && !exchange->reduces(exchange->self, tensor->dtype, it->reduction))
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s of %s is nothing that is done over ranks",
                tn_reduction_name(it->reduction), tn_dtype_name(tensor->dtype));
    if (facts->flags & TN_USES_GROUP) return talk_check_parts(exchange, it, tensor, other, error);
    return TN_OK;
}

/* --- calls --- */

/* Finds the address of all data of a GATHER or SCATTER, and the address and size of this rank's
 * part of it. The part is the operand `other` if the instruction has one. Otherwise the part is a
 * range of the whole tensor. */
static void talk_parts(const tn__stream_item *item, bool gathers, uint8_t **part, uint8_t **whole,
                       uint64_t *bytes) {
    const tn_exchange *exchange = item->streams->exchange;
    const tn_instruction *it = &tn_program_instructions(item->streams->program)[item->step];
    uint32_t mine = 0, members = exchange->members(exchange->self, it->group, &mine);
    if (it->other != TN_NONE) {
        *part = gathers ? item->data : item->other;
        *whole = gathers ? item->other : item->data;
        *bytes = gathers ? item->bytes : item->other_bytes;
        return;
    }
    *bytes = item->bytes / members;
    *whole = item->data;
    *part = item->data + mine * *bytes;
}

static tn_status talk_group(const tn__stream_item *item, const tn_instruction *it,
                            tn_error *error) {
    const tn_exchange *exchange = item->streams->exchange;
    const tn_operand *operand = &item->streams->executor->operands[it->tensor];
    uint64_t width = tn_dtype_bits(operand->dtype) / 8, bytes;
    uint8_t *part, *whole;
    if (it->opcode == TN_REDUCE)
        return exchange->reduce(exchange->self, it->group, item->data, item->bytes / width,
                                operand->dtype, it->reduction, error);
    talk_parts(item, it->opcode == TN_GATHER, &part, &whole, &bytes);
    if (it->opcode == TN_GATHER)
        return exchange->gather(exchange->self, it->group, part, whole, bytes, error);
    return exchange->scatter(exchange->self, it->group, whole, part, bytes / width, operand->dtype,
                             it->reduction, error);
}

tn_status tn__talk(void *self, tn_error *error) {
    tn__stream_item *item = self;
    const tn_exchange *exchange = item->streams->exchange;
    const tn_instruction *it = &tn_program_instructions(item->streams->program)[item->step];
    const tn_graph *graph = item->streams->executor->graph;
    double start = tn__clock_s();
    tn_status status;
    if (it->opcode == TN_SEND)
        status = exchange->send(exchange->self, it->peer, it->tag, item->data, item->bytes, error);
    else if (it->opcode == TN_RECV)
        status = exchange->recv(exchange->self, it->peer, it->tag, item->data, item->bytes, error);
    else
        status = talk_group(item, it, error);
    item->talk_s = tn__clock_s() - start;
    if (status == TN_OK) return TN_OK;
    return tn__where(error, status, "step %u, %s of '%.60s'", item->step,
                     tn_opcode_name(it->opcode), tn_graph_tensor(graph, it->tensor)->name);
}

static void talk_bind(const tn__streams *streams, tn_tensor_id id, uint8_t **data,
                      uint64_t *bytes) {
    const tn_operand *operand = &streams->executor->operands[id];
    *data = operand->data;
    *bytes = tn__operand_bytes(operand);
}

void tn__talk_begin(tn__streams *streams, tn__stream_item *item) {
    const tn_instruction *it = &tn_program_instructions(streams->program)[item->step];
    talk_bind(streams, it->tensor, &item->data, &item->bytes);
    if (it->other != TN_NONE) talk_bind(streams, it->other, &item->other, &item->other_bytes);
    if (it->parts > 0) {
        item->bytes /= it->parts;
        item->data += it->part * item->bytes;
    }
    streams->talk_count++;
    streams->talk_bytes += item->bytes;
}

tn_status tn__streams_talk(tn__streams *streams, uint32_t step) {
    tn__stream_item *item = &streams->items[streams->item_of[step]];
    tn__talk_begin(streams, item);
    tn_status status = tn__talk(item, streams->executor->error);
    streams->stalled_s += item->talk_s;
    return status;
}

double tn__talk_seconds(const tn__streams *streams) {
    double seconds = 0;
    for (uint32_t i = 0; i < streams->item_count && streams->talk_count > 0; i++)
        seconds += streams->items[i].talk_s;
    return seconds;
}
