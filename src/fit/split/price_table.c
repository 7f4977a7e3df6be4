/* price_table.c - counts elements, bytes and copies of each operator of a window for one number
 * of parts.
 *
 * All of these depend only on later operators, with one exception: an operand is known to exist
 * in parts only when its maker joins the region. Until then a part takes its elements from the
 * whole operand; after that, its copies are counted again.
 *
 * Cost: O(operands x parts) for each operator.
 */
#include "fit/split/price.h"

/* The first, the second, a middle and the last part differ; all others are like the middle one. */
static bool price_is_seen(uint32_t part, uint32_t parts) {
    return part < 2 || part == parts / 2 || part + 2 > parts;
}

static void price_use(split_pricer *pricer, const price_table *table) {
    split_region *region = pricer->region;
    for (uint32_t c = 0; c < TN_SPLIT_AXES; c++) {
        region->parts[c] = table->parts[c];
        region->need[c] = table->need[c];
        region->made[c] = table->made[c];
    }
}

tn_status tn__price_make_table(split_pricer *pricer, const uint32_t *parts, price_table **made,
                               tn_error *error) {
    split_region *region = pricer->region;
    tn__arena *arena = &region->arena;
    price_table *table = tn__arena_array(arena, 1, sizeof *table);
    if (table == NULL) return tn__no_memory(error, "a split graph");
    table->at = region->op_count;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        size_t count = (size_t)region->made_count * parts[c] + 1;
        table->parts[c] = parts[c];
        table->need[c] = tn__arena_array(arena, count, sizeof *table->need[c]);
        table->made[c] = tn__arena_array(arena, count, sizeof *table->made[c]);
        if (table->need[c] == NULL || table->made[c] == NULL)
            return tn__no_memory(error, "a split graph");
    }
    uint32_t across = region->axis_count > 1 ? parts[1] : 1;
    for (uint32_t a = 0; a < parts[0]; a++)
        for (uint32_t b = 0; b < across; b++) {
            if (!price_is_seen(a, parts[0]) || !price_is_seen(b, across)) continue;
            table->part[table->seen][0] = a;
            table->part[table->seen++][1] = b;
        }
    table->tensors = tn__arena_array(arena, (size_t)table->seen * region->made_count + 1,
                                     sizeof *table->tensors);
    table->steps =
        tn__arena_array(arena, (size_t)table->seen * region->op_count + 1, sizeof *table->steps);
    if (table->tensors == NULL || table->steps == NULL)
        return tn__no_memory(error, "a split graph");
    *made = table;
    return TN_OK;
}

price_part tn__price_part(const split_pricer *pricer, price_table *table, uint32_t seen) {
    const split_region *region = pricer->region;
    return (price_part){.pricer = pricer,
                        .table = table,
                        .part = table->part[seen],
                        .tensors = table->tensors + (size_t)seen * region->made_count,
                        .steps = table->steps + (size_t)seen * region->op_count};
}

/* Whether elements along an axis are contiguous in memory. */
bool tn__price_is_piece(const tn_tensor *tensor, uint32_t axis) {
    for (uint32_t i = 0; i < tensor->rank && tn__memory_axis(tensor, i) != axis; i++)
        if (tensor->shape[tn__memory_axis(tensor, i)] != 1) return false;
    return true;
}

/* Bytes of a tensor with this many elements along each cut. */
static uint64_t price_bytes(const split_pricer *pricer, uint32_t tensor, const int64_t *extents) {
    const split_region *region = pricer->region;
    const split_tensor *at = &region->tensors[tensor];
    const tn_tensor *whole = tn__price_whole(pricer, tensor);
    uint64_t bytes = tn__split_bytes(whole);
    for (uint32_t c = 0; c < region->axis_count; c++)
        if (at->axis[c] != TN_NONE && whole->shape[at->axis[c]] > 0)
            bytes = bytes / (uint64_t)whole->shape[at->axis[c]] * (uint64_t)extents[c];
    return bytes;
}

static void price_extents(const price_part *part, uint32_t tensor, bool made, int64_t *extents) {
    const split_region *region = part->pricer->region;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        split_span span = made ? *tn__split_made(region, c, part->part[c], tensor)
                               : *tn__split_need(region, c, part->part[c], tensor);
        extents[c] = span.last > span.first ? span.last - span.first : 0;
    }
}

/* Whether an operand exists in parts, and the table has counted its maker. */
static bool price_is_cut(const price_part *part, uint32_t tensor) {
    const split_region *region = part->pricer->region;
    return tn__split_is_cut(region, tensor) && region->tensors[tensor].maker >= part->table->at;
}

/* The bytes that a part reads of one operand. copies: they must be copied first, because they
 * are not contiguous. */
static uint64_t price_operand(const price_part *part, uint32_t at, uint32_t input, bool *copies) {
    const split_region *region = part->pricer->region;
    const tn_op *op = tn__price_op(part->pricer, at);
    const tn_tensor *whole = tn_graph_tensor(region->graph, op->inputs[input]);
    uint32_t tensor = tn__split_local(region, op->inputs[input]);
    bool cut = price_is_cut(part, tensor), piece = true, all = true;
    uint64_t taken = whole->bytes == TN_SIZE_UNKNOWN ? 0 : whole->bytes;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        tn__tile wanted;
        tn__need need;
        if (!tn__split_part_need(region, at, input, c, part->part[c], &wanted, &need) ||
            need.axis == TN_NONE)
            continue;
        split_span have = {0, whole->shape[need.axis]};
        if (cut) have = *tn__split_need(region, c, part->part[c], tensor);
        bool same = need.first == have.first && need.last == have.last;
        if (same && !cut) continue;
        if (whole->shape[need.axis] > 0)
            taken = taken / (uint64_t)whole->shape[need.axis] * (uint64_t)(need.last - need.first);
        if (same) continue;
        all = false;
        piece = piece && tn__price_is_piece(whole, need.axis);
    }
    *copies = !all && (!piece || part->pricer->model->copies);
    return taken;
}

/* Counts the reads and copies of a part of an operator; replaces the previous count. */
static void price_count_step(const price_part *part, uint32_t at) {
    const tn_op *op = tn__price_op(part->pricer, at);
    price_table *table = part->table;
    price_step *step = &part->steps[at], before = *step;
    if (!step->any) return;
    step->copied = step->read = step->moves = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        bool copies;
        if (op->inputs[i] == TN_NONE) continue;
        uint64_t taken = price_operand(part, at, i, &copies);
        step->read = tn__add_sat(step->read, taken);
        if (!copies) continue;
        step->copied = tn__add_sat(step->copied, taken);
        step->moves++;
    }
    table->bytes_read += step->read - before.read;
    table->moved += 2 * (step->copied - before.copied);
    table->moves += step->moves - before.moves;
}

/* Bytes of the tail of a tensor that the next part keeps. */
static uint64_t price_kept(const price_part *part, uint32_t tensor) {
    const split_region *region = part->pricer->region;
    uint32_t at = part->part[0];
    if (!region->keep || at + 1 >= region->parts[0]) return 0;
    split_span next = *tn__split_need(region, 0, at + 1, tensor);
    split_span made = *tn__split_made(region, 0, at + 1, tensor);
    int64_t end = made.first < made.last ? made.first : next.last, extent = end - next.first;
    return extent > 0 ? price_bytes(part->pricer, tensor, &extent) : 0;
}

static void price_count_result(const price_part *part, uint32_t tensor) {
    const split_pricer *pricer = part->pricer;
    const split_region *region = pricer->region;
    price_table *table = part->table;
    price_tensor *size = &part->tensors[tensor];
    int64_t need[TN_SPLIT_AXES], made[TN_SPLIT_AXES];
    price_extents(part, tensor, false, need);
    price_extents(part, tensor, true, made);
    size->need = price_bytes(pricer, tensor, need);
    size->made = price_bytes(pricer, tensor, made);
    bool joins =
        region->keep && need[0] > made[0] &&
        !tn__price_is_piece(tn__price_whole(pricer, tensor), region->tensors[tensor].axis[0]);
    size->joins = joins ? tn__add_sat(size->need, size->made) : 0;
    if (!region->tensors[tensor].read) return;
    size->kept = price_kept(part, tensor);
    table->moved += 3 * size->kept;
    table->halo += size->kept;
    table->moves += size->kept > 0 ? 2 : 0;
}

/* Operations that all parts of an operator need in addition to those of the whole. */
static double price_extra(const split_pricer *pricer, uint32_t at) {
    const split_region *region = pricer->region;
    uint32_t t = tn__split_result(region, at);
    double times = 1;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        int64_t sum = 0, extent = tn__price_whole(pricer, t)->shape[region->tensors[t].axis[c]];
        for (uint32_t p = 0; p < region->parts[c]; p++) {
            split_span made = *tn__split_made(region, c, p, t);
            if (made.last > made.first) sum += made.last - made.first;
        }
        times *= (double)sum / (double)extent;
    }
    return times > 1 ? (times - 1) * (double)pricer->model->flops[pricer->first + at] : 0;
}

static void price_count_op(const split_pricer *pricer, price_table *table, uint32_t at) {
    const split_region *region = pricer->region;
    const tn_op *op = tn__price_op(pricer, at);
    table->at = at;
    table->extra += price_extra(pricer, at);
    for (uint32_t s = 0; s < table->seen; s++) {
        price_part part = tn__price_part(pricer, table, s);
        int64_t made[TN_SPLIT_AXES];
        bool any = true;
        price_extents(&part, tn__split_result(region, at), true, made);
        for (uint32_t c = 0; c < region->axis_count; c++) any = any && made[c] > 0;
        part.steps[at].any = any;
        price_count_step(&part, at);
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (op->outputs[k] == TN_NONE) continue;
            uint32_t tensor = tn__split_local(region, op->outputs[k]);
            price_count_result(&part, tensor);
            if (any) table->bytes_made = tn__add_sat(table->bytes_made, part.tensors[tensor].made);
            const tn__lists *readers = &pricer->readers;
            for (uint32_t i = readers->first[tensor]; i < readers->first[tensor + 1]; i++)
                if (region->ops[readers->items[i]].parts)
                    price_count_step(&part, readers->items[i]);
        }
    }
}

void tn__price_catch_up(split_pricer *pricer, price_table *table) {
    price_use(pricer, table);
    while (table->at > pricer->region->begin && !table->failed) {
        uint32_t at = table->at - 1;
        if (!pricer->region->ops[at].parts)
            table->at = at;
        else if (tn__split_ranges_op(pricer->region, at) != TN_OK)
            table->failed = true;
        else
            price_count_op(pricer, table, at);
    }
}
