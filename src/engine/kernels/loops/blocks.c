/* blocks.c - elementwise operators with broadcasting, as plain loops over runs of elements
 * (blocks.h).
 *
 * Cost: O(elements), and O(rank) for each block of TN__BLOCK elements.
 */
#include "engine/kernels/loops/blocks.h"

tn_status tn__reader_init(const tn_kernel_call *call, const tn_operand *operand,
                          const tn_operand *output, int64_t axis, tn__operand_reader *reader) {
    uint32_t rank = output->rank, shift = 0;
    bool fits = operand->rank <= rank;
    if (fits) shift = axis < 0 ? rank - operand->rank : (uint32_t)axis;
    fits = fits && (uint64_t)shift + operand->rank <= rank;
    reader->data = operand->data;
    reader->dtype = operand->dtype;
    reader->rank = 0;
    uint64_t stride = 1;
    /* go from the innermost dimension to the outermost */
    for (uint32_t d = rank; d-- > 0 && fits;) {
        bool inside = d >= shift && d - shift < operand->rank;
        uint64_t extent = (uint64_t)output->shape[d];
        uint64_t own = inside ? (uint64_t)operand->shape[d - shift] : 1;
        fits = own == 1 || own == extent;
        uint64_t step = own == 1 ? 0 : stride;
        stride *= own;
        if (extent == 1) continue;
        uint32_t last = reader->rank;
        if (last > 0 && step == reader->strides[last - 1] * reader->extents[last - 1]) {
            reader->extents[last - 1] *= extent;
            continue;
        }
        reader->extents[last] = extent;
        reader->strides[last] = step;
        reader->rank++;
    }
    if (fits) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID,
                         "the shape of an operand of rank %u does not broadcast to the result's",
                         operand->rank);
}

/* Writes `count` copies of the element at `from` to `to`. */
static void blocks_repeat(const char *from, size_t size, size_t count, char *to) {
#define BLOCKS_REPEAT(type)                                                                        \
    {                                                                                              \
        type element;                                                                              \
        memcpy(&element, from, sizeof element);                                                    \
        for (size_t i = 0; i < count; i++)                                                         \
            memcpy(to + i * sizeof element, &element, sizeof element);                             \
    }
    if (size == 1)
        memset(to, *from, count);
    else if (size == 2)
        BLOCKS_REPEAT(uint16_t)
    else if (size == 4)
        BLOCKS_REPEAT(uint32_t)
    else
        BLOCKS_REPEAT(uint64_t)
#undef BLOCKS_REPEAT
}

/* Copies the operand's elements for `count` elements of the output to `to`, from output element
 * `first` on. Elements that are broadcast are repeated. */
static void blocks_gather(const tn__operand_reader *reader, uint64_t first, size_t count,
                          char *to) {
    size_t size = tn__element_size(reader->dtype), stride = (size_t)reader->strides[0];
    uint64_t place[TN_RANK_MAX], at = 0, rest = first;
    for (uint32_t d = 0; d < reader->rank; d++) {
        place[d] = rest % reader->extents[d];
        rest /= reader->extents[d];
        at += place[d] * reader->strides[d];
    }
    while (count > 0) {
        uint64_t left = reader->extents[0] - place[0];
        size_t run = left < count ? (size_t)left : count;
        const char *from = reader->data + at * size;
        if (stride != 0)
            memcpy(to, from, run * size);
        else
            blocks_repeat(from, size, run, to);
        to += run * size;
        count -= run;
        at += run * stride;
        place[0] += run;
        for (uint32_t d = 0; d + 1 < reader->rank && place[d] == reader->extents[d]; d++) {
            /* the index of dimension d is back at 0: advance the next dimension, as in an
             * odometer */
            at -= place[d] * reader->strides[d];
            place[d] = 0;
            place[d + 1]++;
            at += reader->strides[d + 1];
        }
    }
}

/* Returns the address of the operand's element for output element `first`, if the operand's
 * elements for all `count` elements are adjacent or are a single element. Otherwise returns
 * NULL. */
static const char *blocks_inside(const tn__operand_reader *reader, uint64_t first, size_t count) {
    uint64_t at = 0, rest = first;
    if (first % reader->extents[0] + count > reader->extents[0]) return NULL;
    for (uint32_t d = 0; d < reader->rank; d++) {
        at += rest % reader->extents[d] * reader->strides[d];
        rest /= reader->extents[d];
    }
    return reader->data + at * tn__element_size(reader->dtype);
}

const void *tn__reader_block(const tn__operand_reader *reader, uint64_t first, size_t count,
                             tn_dtype wanted, tn__block_room *room, size_t *step) {
    tn__block_room gathered;
    const void *from = reader->data;
    *step = reader->rank > 0 && reader->strides[0] != 0;
    if (reader->rank > 0) from = blocks_inside(reader, first, count);
    if (from == NULL) {
        char *to = reader->dtype == wanted ? (char *)room : (char *)&gathered;
        blocks_gather(reader, first, count, to);
        from = to;
        *step = 1;
    }
    return tn__convert_block(reader->dtype, from, wanted, room, *step ? count : 1);
}

/* shorter runs are copied into a block, because a call of the loop for each would cost more */
enum { BLOCKS_RUN = 64 };

/* Returns how many elements to process next, from `first` on: a run that is contiguous or constant
 * in every operand if it is long enough, else a block. */
static size_t blocks_length(const tn__operand_reader *readers, uint32_t count, uint64_t first,
                            uint64_t left, bool direct) {
    uint64_t run = left;
    for (uint32_t k = 0; k < count; k++) {
        if (readers[k].rank == 0) continue;
        uint64_t inside = readers[k].extents[0] - first % readers[k].extents[0];
        run = inside < run ? inside : run;
    }
    if (run < BLOCKS_RUN)
        run = left;
    else if (direct)
        return (size_t)run;
    return run < TN__BLOCK ? (size_t)run : TN__BLOCK;
}

tn_status tn__elementwise_run(tn_kernel_call *call, const tn__elementwise *how) {
    tn_operand *output = &call->outputs[0];
    tn__operand_reader readers[TN__BLOCK_INPUTS];
    tn__block_room rooms[TN__BLOCK_INPUTS], made;
    const uint64_t count = tn__operand_count(output);
    const size_t size = tn__element_size(output->dtype);
    bool direct = output->dtype == how->make; /* true if no operand needs a conversion */
    if (how->inputs == 1)                     /* loops with one input do not support broadcasting */
        TN_TRY(tn__call_expect(call, output->dtype, tn__operand_count(&call->inputs[0])));
    if (count == 0) return TN_OK;
    for (uint32_t k = 0; k < how->inputs; k++) {
        int64_t axis = k == 1 && how->aligned ? how->axis : -1;
        TN_TRY(tn__reader_init(call, &call->inputs[k], output, axis, &readers[k]));
        direct = direct && readers[k].dtype == how->load[k];
    }
    tn__loop_block block = {.parameters = how->parameters};
    for (uint64_t first = 0, some; first < count; first += some) {
        some = blocks_length(readers, how->inputs, first, count - first, direct);
        char *to = (char *)output->data + first * size;
        for (uint32_t k = 0; k < how->inputs; k++)
            block.from[k] = tn__reader_block(&readers[k], first, (size_t)some, how->load[k],
                                             &rooms[k], &block.step[k]);
        block.count = some;
        block.to = output->dtype == how->make ? (void *)to : &made;
        how->loop(&block);
        if (block.to == &made) tn__convert(how->make, &made, output->dtype, to, some);
    }
    return TN_OK;
}

tn_status tn__unary_run(tn_kernel_call *call, const tn__unary *unary) {
    double parameters[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++)
        if (unary->attributes[i] != NULL)
            parameters[i] = tn__attr_float(call->op, unary->attributes[i], unary->otherwise[i]);
    tn_dtype type = tn__computed_type(call->inputs[0].dtype);
    tn__loop loop = type == TN_FLOAT32  ? unary->floats
                    : type == TN_INT64  ? unary->ints
                    : type == TN_UINT64 ? unary->uints
                                        : NULL;
    if (loop == NULL && type == TN_UINT64 && unary->ints != NULL) {
        loop = unary->ints;
        type = TN_INT64;
    } else if (loop == NULL) {
        loop = unary->doubles;
        type = TN_FLOAT64;
    }
    return tn__elementwise_run(
        call,
        &(tn__elementwise){
            .loop = loop, .inputs = 1, .load = {type}, .make = type, .parameters = parameters});
}

/* --- acceptance --- */

static bool blocks_same_shape(const tn_tensor *a, const tn_tensor *b) {
    return a->rank == b->rank && a->rank != TN_RANK_UNKNOWN &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

bool tn__elementwise_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *output = tn__setup_output(setup, 0);
    if (output == NULL || !tn__is_numeric(output->dtype) || output->format.block != 0) return false;
    for (uint32_t i = 0; i < setup->op->input_count; i++) {
        const tn_tensor *input = tn__setup_input(setup, i);
        if (input == NULL) continue;
        bool last = input->format.order == TN_ORDER_NHWC;
        if (!tn__is_numeric(input->dtype) || input->format.block != 0) return false;
        if (last != (output->format.order == TN_ORDER_NHWC)) return false;
        if (last && !blocks_same_shape(input, output)) return false;
    }
    return true;
}
