/* box.c - copies boxes of elements, and implements the other functions of box.h. A box is a
 * multi-dimensional array with a stride per dimension in the source and in the destination.
 *
 * A copy is a nest of loops. Dimensions that are adjacent in both memories are merged first, so few
 * remain. The innermost dimension is then either contiguous in both memories (memcpy), or a row
 * with strides. A row with strides is combined with the dimension that is contiguous in the source
 * to a plane, which is a transposition. Planes are copied in tiles of 16 x 16, so that all bytes of
 * a cache line are used before the line is evicted.
 *
 * Cost: O(elements) of the box, O(1) memory.
 */
#include "engine/kernels/loops/box.h"

#include "graph/op.h"

#include <math.h>

/* --- walks --- */

bool tn__walk_is_empty(const tn__walk *walk) {
    for (uint32_t d = 0; d < walk->rank; d++)
        if (walk->extent[d] <= 0) return true;
    return false;
}

void tn__walk_add(tn__walk *walk, int64_t extent, int64_t stride_0, int64_t stride_1) {
    tn_assert(walk->rank < TN__WALK_RANK);
    walk->extent[walk->rank] = extent;
    walk->stride[0][walk->rank] = stride_0;
    walk->stride[1][walk->rank++] = stride_1;
}

/* Removes dimensions of extent 1 and merges dimensions that are adjacent in both memories. */
static void box_merge(tn__walk *box) {
    uint32_t rank = 0;
    for (uint32_t d = 0; d < box->rank; d++) {
        int64_t extent = box->extent[d], to = box->stride[0][d], from = box->stride[1][d];
        if (extent == 1) continue;
        if (rank && box->stride[0][rank - 1] == to * extent &&
            box->stride[1][rank - 1] == from * extent) {
            extent *= box->extent[rank - 1];
            rank--;
        }
        box->extent[rank] = extent;
        box->stride[0][rank] = to;
        box->stride[1][rank++] = from;
    }
    box->rank = rank;
}

/* Removes dimension d from the box and returns its extent and its strides in both memories. */
static void box_take(tn__walk *box, uint32_t d, int64_t *extent, int64_t *to, int64_t *from) {
    *extent = box->extent[d];
    *to = box->stride[0][d];
    *from = box->stride[1][d];
    for (; d + 1 < box->rank; d++) {
        box->extent[d] = box->extent[d + 1];
        box->stride[0][d] = box->stride[0][d + 1];
        box->stride[1][d] = box->stride[1][d + 1];
    }
    box->rank--;
}

/* --- copies of planes: rows i of elements j --- */

typedef struct box_plane {
    int64_t rows, columns;
    int64_t to_row, to_column, from_row, from_column;
} box_plane;

enum { box_tile = 16 };

static inline __attribute__((always_inline)) void
box_plane_copy(const box_plane *plane, size_t width, char *to, const char *from) {
    for (int64_t top = 0; top < plane->rows; top += box_tile) {
        int64_t bottom = top + box_tile < plane->rows ? top + box_tile : plane->rows;
        for (int64_t left = 0; left < plane->columns; left += box_tile) {
            int64_t right = left + box_tile < plane->columns ? left + box_tile : plane->columns;
            for (int64_t i = top; i < bottom; i++) {
                char *out = to + i * plane->to_row + left * plane->to_column;
                const char *in = from + i * plane->from_row + left * plane->from_column;
                for (int64_t j = left; j < right; j++) {
                    memcpy(out, in, width);
                    out += plane->to_column;
                    in += plane->from_column;
                }
            }
        }
    }
}

static void box_plane_run(const box_plane *plane, uint32_t width, char *to, const char *from) {
    switch (width) {
    case 1:
        box_plane_copy(plane, 1, to, from);
        break;
    case 2:
        box_plane_copy(plane, 2, to, from);
        break;
    case 4:
        box_plane_copy(plane, 4, to, from);
        break;
    case 8:
        box_plane_copy(plane, 8, to, from);
        break;
    default:
        box_plane_copy(plane, 16, to, from);
        break;
    }
}

/* Copies a box. Its innermost dimension must be contiguous in both memories, or it has no
 * dimensions. */
static void box_copy_pieces(tn__walk *box, uint32_t width, char *to, const char *from) {
    uint64_t piece = width;
    if (box->rank && box->stride[0][box->rank - 1] == width &&
        box->stride[1][box->rank - 1] == width)
        piece *= (uint64_t)box->extent[--box->rank];
    do memcpy(to + box->at[0], from + box->at[1], piece);
    while (tn__walk_next(box));
}

/* Copies a box plane by plane. Its last dimension gives the columns of a plane. The rows are the
 * dimension that is contiguous in the source, or, if no dimension is, the dimension before the
 * last. */
static void box_copy_planes(tn__walk *box, uint32_t width, char *to, const char *from) {
    box_plane plane = {.rows = 1};
    box_take(box, box->rank - 1, &plane.columns, &plane.to_column, &plane.from_column);
    uint32_t row = box->rank - 1;
    for (uint32_t d = 0; d < box->rank; d++)
        if (box->stride[1][d] == width) row = d;
    if (box->rank) box_take(box, row, &plane.rows, &plane.to_row, &plane.from_row);
    do box_plane_run(&plane, width, to + box->at[0], from + box->at[1]);
    while (tn__walk_next(box));
}

static bool box_stays(const tn__walk *box) {
    return memcmp(box->stride[0], box->stride[1], box->rank * sizeof box->stride[0][0]) == 0;
}

tn_status tn__box_copy(const tn_kernel_call *call, tn__walk *box, uint32_t width, void *to,
                       const void *from) {
    if (tn__walk_is_empty(box)) return TN_OK;
    box_merge(box);
    if (to == from) {
        if (box_stays(box)) return TN_OK;
        return tn__call_fail(call, TN_E_INTERNAL,
                             "an output lies on its input, whose elements it has in another order");
    }
    uint32_t last = box->rank - 1;
    bool dense = box->rank == 0 || (box->stride[0][last] == width && box->stride[1][last] == width);
    uint64_t piece = dense && box->rank ? (uint64_t)box->extent[last] * width : width;
    if (dense && piece <= 16 && tn__is_power_of_two(piece) && box->rank > 1) {
        box->rank--; /* treat a short contiguous range of bytes as one element */
        width = (uint32_t)piece;
        box_merge(box);
        dense = false;
    }
    if (dense)
        box_copy_pieces(box, width, to, from);
    else
        box_copy_planes(box, width, to, from);
    return TN_OK;
}

void tn__fill(void *to, uint64_t count, uint32_t width, const void *element) {
    static const char nought[16];
    if (count == 0) return;
    if (memcmp(element, nought, width) == 0) {
        memset(to, 0, count * width);
        return;
    }
    tn__move(to, element, width);
    /* copy the part that is filled, twice as much each time, up to ranges that stay in the cache */
    for (uint64_t done = 1; done < count;) {
        uint64_t piece = done < 4096 ? done : 4096;
        if (piece > count - done) piece = count - done;
        memcpy((char *)to + done * width, to, piece * width);
        done += piece;
    }
}

void tn__dense_strides(const tn_operand *operand, int64_t *strides) {
    int64_t stride = tn__width(operand->dtype);
    for (uint32_t d = operand->rank; d-- > 0; stride *= operand->shape[d]) strides[d] = stride;
}

static tn_tensor box_formed(const tn_operand *operand) {
    return (tn_tensor){.rank = operand->rank, .format = operand->format};
}

static void box_strides(const tn_operand *operand, int64_t *strides) {
    tn_tensor like = box_formed(operand);
    int64_t stride = tn__width(operand->dtype);
    for (uint32_t i = operand->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= operand->shape[tn__memory_axis(&like, i)];
    }
}

uint32_t tn__box_of(tn__walk *box, const int64_t *extents, const tn_operand *to,
                    const tn_operand *from, uint32_t axis) {
    tn_tensor like = box_formed(to);
    uint32_t place = 0;
    *box = (tn__walk){.rank = to->rank};
    box_strides(to, box->stride[0]);
    box_strides(from, box->stride[1]);
    for (uint32_t i = 0; i < to->rank; i++) {
        uint32_t d = tn__memory_axis(&like, i);
        box->extent[i] = extents[d];
        if (d == axis) place = i;
    }
    return place;
}

/* --- checks of operators and operands, for kernels that copy elements --- */

static bool box_is_plain(const tn_tensor *tensor) {
    return tensor == NULL || (tn__width(tensor->dtype) != 0 && tensor->format.block == 0 &&
                              tensor->format.order != TN_ORDER_NHWC);
}

bool tn__accepts_output(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < setup->op->output_count; i++)
        if (tn__setup_output(setup, i) != NULL) return true;
    return false;
}

bool tn__accepts_bytes(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < setup->op->input_count; i++)
        if (!box_is_plain(tn__setup_input(setup, i))) return false;
    for (uint32_t i = 0; i < setup->op->output_count; i++)
        if (!box_is_plain(tn__setup_output(setup, i))) return false;
    return tn__accepts_output(setup);
}

static bool box_is_like(const tn_tensor *tensor, const tn_tensor *like) {
    return tensor == NULL ||
           (tn__width(tensor->dtype) != 0 && tensor->format.block == 0 &&
            (tensor->format.order == TN_ORDER_NHWC) == (like->format.order == TN_ORDER_NHWC));
}

bool tn__accepts_one_format(const tn_kernel_setup *setup) {
    const tn_tensor *like = tn__setup_output(setup, 0);
    if (like == NULL) return false;
    for (uint32_t i = 0; i < setup->op->input_count; i++)
        if (!box_is_like(tn__setup_input(setup, i), like)) return false;
    for (uint32_t i = 0; i < setup->op->output_count; i++)
        if (!box_is_like(tn__setup_output(setup, i), like)) return false;
    return true;
}

bool tn__accepts_numbers(const tn_kernel_setup *setup) {
    const tn_tensor *input = tn__setup_input(setup, 0);
    return input != NULL && tn__is_number(input->dtype) && tn__accepts_bytes(setup);
}

uint64_t tn__setup_count(const tn_tensor *tensor) {
    uint64_t count = 1;
    if (tensor == NULL || tensor->rank > TN_RANK_MAX) return 0;
    for (uint32_t d = 0; d < tensor->rank; d++)
        count = tensor->shape[d] < 0 ? 0 : tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    return count;
}

tn_status tn__call_shape(tn_kernel_call *call, uint32_t output, uint32_t rank,
                         const int64_t *shape) {
    tn_operand *operand = tn__call_output(call, output);
    uint64_t bytes;
    if (operand == NULL) return TN_OK;
    if (operand->rank != rank)
        return tn__call_fail(call, TN_E_INVALID, "output %u is of rank %u, not %u as planned",
                             output, rank, operand->rank);
    if (tn_tensor_size(operand->dtype, operand->format, rank, shape, &bytes, NULL) != TN_OK)
        return tn__call_fail(call, TN_E_INVALID, "output %u has extents that make no size", output);
    if (bytes > operand->room)
        return tn__call_fail(call, TN_E_INVALID,
                             "output %u takes %llu bytes where %llu are planned", output,
                             (unsigned long long)bytes, (unsigned long long)operand->room);
    for (uint32_t d = 0; d < rank && !tn__call_is_bound(call, output); d++)
        if (shape[d] != operand->shape[d])
            return tn__call_fail(call, TN_E_INVALID,
                                 "output %u has extent %lld at axis %u, not %lld as stated", output,
                                 (long long)shape[d], d, (long long)operand->shape[d]);
    if (rank && operand->shape != shape) memcpy(operand->shape, shape, rank * sizeof *shape);
    return TN_OK;
}

tn_status tn__call_list(const tn_kernel_call *call, uint32_t input, const char *attr, uint32_t most,
                        int64_t *list, uint32_t *count, bool *given) {
    const tn_operand *operand = tn__call_input(call, input);
    const int64_t *ints = NULL;
    uint64_t length = 0;
    if (operand != NULL) {
        length = tn__operand_count(operand);
    } else if (attr != NULL) {
        ints = tn__attr_ints(call->op, attr, count);
        length = *count;
    }
    *given = operand != NULL || ints != NULL;
    if (length > most)
        return tn__call_fail(call, TN_E_INVALID, "%llu entries in a list of at most %u",
                             (unsigned long long)length, most);
    *count = (uint32_t)length;
    for (uint32_t i = 0; i < *count; i++)
        list[i] = operand != NULL ? tn__index(operand, i) : ints[i];
    return TN_OK;
}

tn_status tn__call_same_type(const tn_kernel_call *call, uint32_t first, uint32_t second) {
    tn_dtype a = call->inputs[first].dtype, b = call->inputs[second].dtype;
    if (a == b) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "inputs %u and %u are of types %s and %s", first,
                         second, tn_dtype_name(a), tn_dtype_name(b));
}

tn_status tn__call_scratch(const tn_kernel_call *call, uint64_t bytes) {
    if (bytes <= call->workspace_bytes) return TN_OK;
    return tn__call_fail(call, TN_E_INTERNAL, "%llu bytes of scratch wanted, %llu planned",
                         (unsigned long long)bytes, (unsigned long long)call->workspace_bytes);
}

tn_status tn__call_bad_index(const tn_kernel_call *call, int64_t index, uint32_t axis,
                             int64_t extent) {
    return tn__call_fail(call, TN_E_INVALID, "index %lld is outside extent %lld of axis %u",
                         (long long)index, (long long)extent, axis);
}

/* --- numbers --- */

bool tn__is_real(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}

bool tn__is_number(tn_dtype dtype) {
    switch (dtype) {
    case TN_BOOL:
    case TN_UINT8:
    case TN_INT8:
    case TN_UINT16:
    case TN_INT16:
    case TN_UINT32:
    case TN_INT32:
    case TN_UINT64:
    case TN_INT64:
        return true;
    default:
        return tn__is_real(dtype);
    }
}

double tn__load(tn_dtype dtype, const void *element) {
    tn_operand one = {.data = (void *)element, .dtype = dtype};
    return tn__operand_float(&one, 0);
}

void tn__store_int(tn_dtype dtype, void *element, int64_t whole) {
    if (dtype == TN_BOOL) whole = whole != 0;
    if (tn__is_real(dtype))
        tn__store(dtype, element, (double)whole);
    else /* on a little-endian machine the low bytes are the number modulo the range of its type */
        memcpy(element, &whole, tn__width(dtype) <= 8 ? tn__width(dtype) : 8);
}

void tn__store(tn_dtype dtype, void *element, double real) {
    float single = (float)real;
    uint16_t half;
    switch (dtype) {
    case TN_FLOAT32:
        memcpy(element, &single, sizeof single);
        break;
    case TN_FLOAT64:
        memcpy(element, &real, sizeof real);
        break;
    case TN_FLOAT16:
        half = tn__float_to_half(single);
        memcpy(element, &half, sizeof half);
        break;
    case TN_BFLOAT16:
        half = tn__float_to_bfloat(single);
        memcpy(element, &half, sizeof half);
        break;
    default: {
        int64_t whole = real >= 0x1p63 ? INT64_MAX : real <= -0x1p63 ? INT64_MIN : 0;
        if (real > -0x1p63 && real < 0x1p63) whole = (int64_t)real;
        if (dtype == TN_BOOL) whole = real != 0;
        tn__store_int(dtype, element, whole);
    }
    }
}

uint64_t tn__order_key(tn_dtype dtype, const void *element) {
    tn_operand one = {.data = (void *)element, .dtype = dtype};
    if (!tn__is_real(dtype)) {
        uint64_t bits = (uint64_t)tn__operand_int(&one, 0);
        return dtype == TN_UINT64 ? bits : bits ^ UINT64_C(1) << 63;
    }
    double real = tn__operand_float(&one, 0);
    uint64_t bits;
    if (isnan(real)) return UINT64_MAX;
    real += 0.0; /* turns -0 into 0, so that both get the same key */
    memcpy(&bits, &real, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* A merge sort from the bottom up: sorted runs of 1, 2, 4, ... elements are merged from one array
 * into the other. */
void tn__sort(int64_t *order, int64_t *spare, int64_t count, tn__before before, const void *self) {
    int64_t *from = order, *to = spare;
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t first = 0; first < count; first += 2 * run) {
            int64_t middle = count - first < run ? count : first + run;
            int64_t last = count - first < 2 * run ? count : first + 2 * run;
            int64_t a = first, b = middle;
            for (int64_t k = first; k < last; k++) {
                bool second = b < last && (a >= middle || before(self, from[b], from[a]));
                to[k] = from[second ? b++ : a++];
            }
        }
        int64_t *other = from;
        from = to;
        to = other;
    }
    if (from != order) memcpy(order, from, (uint64_t)count * sizeof *order);
}
