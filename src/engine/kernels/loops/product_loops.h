/* product_loops.h - the loops of a matrix product C = A B for one element type and one width of
 * vectors. product_types.h includes this file after it has defined PRODUCT(name), PRODUCT_TYPE,
 * PRODUCT_SUM, PRODUCT_READ, PRODUCT_WRITE, PRODUCT_SCALE, PRODUCT_PLAIN (whether elements are
 * summed without conversion), PRODUCT_VECTOR (bytes of a vector) and PRODUCT_TARGET.
 *
 * If the rows of B are contiguous, C is computed in tiles of up to 4 rows and 64 columns. The terms
 * of the inner dimension are summed in blocks of 64; the sums of a few columns at a time are kept
 * in registers. Otherwise the columns of B and the rows of A are contiguous, and each element of C
 * is a dot product in 16 lanes. The sum of each block is added to a total, so the error of a sum of
 * n terms grows at worst as n / 64 + 64. The order in which the terms of an element are added
 * depends neither on the width of vectors nor on other elements, so the bits are the same on all
 * machines.
 */
#define PRODUCT_ROWS 4u
#define PRODUCT_COLUMNS 64u
#define PRODUCT_BLOCK 64u
#define PRODUCT_LANES 16u
/* count of numbers in one vector register */
#define PRODUCT_EACH (PRODUCT_VECTOR / (uint32_t)sizeof(PRODUCT_SUM))
#define PRODUCT_STRIP (2 * PRODUCT_EACH)
#define PRODUCT_STRIPS (PRODUCT_COLUMNS / PRODUCT_STRIP)
#define PRODUCT_PARTS (PRODUCT_LANES > PRODUCT_EACH ? PRODUCT_LANES / PRODUCT_EACH : 1u)
/* dot products of this number of rows and columns are computed together, in registers */
#define PRODUCT_SIDE (PRODUCT_PARTS > 2 ? 1u : 2u)

static inline __attribute__((always_inline)) void PRODUCT(store)(const tn__product *p, uint64_t row,
                                                                 uint64_t column, uint64_t count,
                                                                 const PRODUCT_SUM *sums) {
    PRODUCT_TYPE *to = (PRODUCT_TYPE *)p->c + row * p->c_row + column;
    const PRODUCT_TYPE *addend = p->addend;
    for (uint64_t j = 0; j < count; j++) {
        PRODUCT_SUM sum = p->scale == 1 ? sums[j] : PRODUCT_SCALE(p->scale, sums[j]);
        if (addend != NULL) {
            PRODUCT_SUM more =
                PRODUCT_READ(addend[row * p->addend_row + (column + j) * p->addend_column]);
            sum += p->addend_scale == 1 ? more : PRODUCT_SCALE(p->addend_scale, more);
        }
        to[j] = PRODUCT_WRITE(sum);
    }
}

/* A vector type, because compilers do not keep a short array in a vector register. */
typedef PRODUCT_SUM PRODUCT(vector) __attribute__((vector_size(PRODUCT_VECTOR)));

static inline __attribute__((always_inline)) void PRODUCT(load)(const PRODUCT_TYPE *from,
                                                                PRODUCT(vector) * to) {
    if (PRODUCT_PLAIN)
        memcpy(to, from, sizeof *to);
    else
        for (uint32_t i = 0; i < PRODUCT_EACH; i++) (*to)[i] = PRODUCT_READ(from[i]);
}

/* Adds the terms [from, to) of the inner dimension to the sums of a few rows and PRODUCT_STRIP
 * columns. The partial sums are in registers. */
static inline __attribute__((always_inline)) void PRODUCT(strip)(const tn__product *p, uint64_t row,
                                                                 uint64_t rows, uint64_t column,
                                                                 uint64_t from, uint64_t to,
                                                                 PRODUCT(vector) (*total)[2]) {
    PRODUCT(vector) part[PRODUCT_ROWS][2] = {{{0}}};
    const PRODUCT_TYPE *a = (const PRODUCT_TYPE *)p->a + row * p->a_row;
    const PRODUCT_TYPE *b = (const PRODUCT_TYPE *)p->b + column;
    for (uint64_t l = from; l < to; l++) {
        PRODUCT(vector) right[2];
        PRODUCT(load)(b + l * p->b_inner, &right[0]);
        PRODUCT(load)(b + l * p->b_inner + PRODUCT_EACH, &right[1]);
        PRODUCT_UNROLL
        for (uint64_t r = 0; r < rows; r++) {
            PRODUCT_SUM factor = PRODUCT_READ(a[r * p->a_row + l * p->a_inner]);
            part[r][0] += factor * right[0];
            part[r][1] += factor * right[1];
        }
    }
    PRODUCT_UNROLL
    for (uint64_t r = 0; r < rows; r++) {
        total[r][0] += part[r][0];
        total[r][1] += part[r][1];
    }
}

static inline __attribute__((always_inline)) void PRODUCT(tile)(const tn__product *p, uint64_t row,
                                                                uint64_t rows, uint64_t column) {
    PRODUCT(vector) total[PRODUCT_STRIPS][PRODUCT_ROWS][2] = {{{{0}}}};
    for (uint64_t k = 0; k < p->inner; k += PRODUCT_BLOCK) {
        uint64_t end = p->inner - k < PRODUCT_BLOCK ? p->inner : k + PRODUCT_BLOCK;
        for (uint64_t s = 0; s < PRODUCT_STRIPS; s++)
            PRODUCT(strip)(p, row, rows, column + s * PRODUCT_STRIP, k, end, total[s]);
    }
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t s = 0; s < PRODUCT_STRIPS; s++) {
            PRODUCT_SUM sums[PRODUCT_STRIP];
            memcpy(sums, total[s][r], sizeof sums);
            PRODUCT(store)(p, row + r, column + s * PRODUCT_STRIP, PRODUCT_STRIP, sums);
        }
}

/* Computes a tile with fewer rows or columns, or with columns of B that are not adjacent. Adds
 * terms in the order of PRODUCT(tile). */
static inline __attribute__((always_inline)) void PRODUCT(rest)(const tn__product *p, uint64_t row,
                                                                uint64_t rows, uint64_t column,
                                                                uint64_t columns) {
    PRODUCT_SUM total[PRODUCT_ROWS][PRODUCT_COLUMNS] = {{0}};
    for (uint64_t k = 0; k < p->inner; k += PRODUCT_BLOCK) {
        uint64_t end = p->inner - k < PRODUCT_BLOCK ? p->inner : k + PRODUCT_BLOCK;
        PRODUCT_SUM part[PRODUCT_ROWS][PRODUCT_COLUMNS] = {{0}};
        for (uint64_t l = k; l < end; l++) {
            const PRODUCT_TYPE *b = (const PRODUCT_TYPE *)p->b + l * p->b_inner;
            for (uint64_t r = 0; r < rows; r++) {
                const PRODUCT_TYPE *a = p->a;
                PRODUCT_SUM factor = PRODUCT_READ(a[(row + r) * p->a_row + l * p->a_inner]);
                if (p->b_column == 1)
                    for (uint64_t j = 0; j < columns; j++)
                        part[r][j] += factor * PRODUCT_READ(b[column + j]);
                else
                    for (uint64_t j = 0; j < columns; j++)
                        part[r][j] += factor * PRODUCT_READ(b[(column + j) * p->b_column]);
            }
        }
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t j = 0; j < columns; j++) total[r][j] += part[r][j];
    }
    for (uint64_t r = 0; r < rows; r++) PRODUCT(store)(p, row + r, column, columns, total[r]);
}

/* Computes the dot products of a few rows of `a` and a few columns of `b` together. Each sum has
 * the bits that it would have alone. */
static inline __attribute__((always_inline)) void PRODUCT(dots)(const tn__product *p, uint64_t row,
                                                                uint64_t rows, uint64_t column,
                                                                uint64_t columns) {
    const PRODUCT_TYPE *a = (const PRODUCT_TYPE *)p->a + row * p->a_row;
    const PRODUCT_TYPE *b = (const PRODUCT_TYPE *)p->b + column * p->b_column;
    const uint64_t whole = p->inner - p->inner % PRODUCT_LANES;
    PRODUCT(vector) total[4][PRODUCT_PARTS];
    PRODUCT_UNROLL
    for (uint64_t i = 0; i < rows * columns; i++) {
        PRODUCT_UNROLL
        for (uint64_t v = 0; v < PRODUCT_PARTS; v++) total[i][v] = (PRODUCT(vector)){0};
    }
    for (uint64_t k = 0; k < whole; k += PRODUCT_BLOCK * PRODUCT_LANES) {
        uint64_t end =
            whole - k < PRODUCT_BLOCK * PRODUCT_LANES ? whole : k + PRODUCT_BLOCK * PRODUCT_LANES;
        PRODUCT(vector) part[4][PRODUCT_PARTS];
        PRODUCT_UNROLL
        for (uint64_t i = 0; i < rows * columns; i++) {
            PRODUCT_UNROLL
            for (uint64_t v = 0; v < PRODUCT_PARTS; v++) part[i][v] = (PRODUCT(vector)){0};
        }
        for (uint64_t l = k; l < end; l += PRODUCT_LANES) {
            PRODUCT_UNROLL
            for (uint64_t v = 0; v < PRODUCT_PARTS; v++) {
                PRODUCT(vector) left[2], right[4];
                PRODUCT_UNROLL
                for (uint64_t r = 0; r < rows; r++)
                    PRODUCT(load)(a + r * p->a_row + l + v * PRODUCT_EACH, &left[r]);
                PRODUCT_UNROLL
                for (uint64_t c = 0; c < columns; c++) {
                    PRODUCT(load)(b + c * p->b_column + l + v * PRODUCT_EACH, &right[c]);
                    PRODUCT_UNROLL
                    for (uint64_t r = 0; r < rows; r++) part[c * rows + r][v] += left[r] * right[c];
                }
            }
        }
        PRODUCT_UNROLL
        for (uint64_t i = 0; i < rows * columns; i++) {
            PRODUCT_UNROLL
            for (uint64_t v = 0; v < PRODUCT_PARTS; v++) total[i][v] += part[i][v];
        }
    }
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++) {
            PRODUCT_SUM sum = 0, lanes[PRODUCT_LANES];
            memcpy(lanes, total[c * rows + r], sizeof lanes);
            for (uint64_t k = whole; k < p->inner; k++)
                sum += PRODUCT_READ(a[r * p->a_row + k]) * PRODUCT_READ(b[c * p->b_column + k]);
            for (uint64_t i = 0; i < PRODUCT_LANES; i++) sum += lanes[i];
            PRODUCT(store)(p, row + r, column + c, 1, &sum);
        }
}

static inline __attribute__((always_inline)) void PRODUCT(all_dots)(const tn__product *p) {
    uint64_t i = 0, j;
    for (; i + PRODUCT_SIDE <= p->rows; i += PRODUCT_SIDE) {
        for (j = 0; j + PRODUCT_SIDE <= p->columns; j += PRODUCT_SIDE)
            PRODUCT(dots)(p, i, PRODUCT_SIDE, j, PRODUCT_SIDE);
        if (j < p->columns) PRODUCT(dots)(p, i, PRODUCT_SIDE, j, 1);
    }
    if (i == p->rows) return;
    for (j = 0; j + 2 * PRODUCT_SIDE <= p->columns; j += 2 * PRODUCT_SIDE)
        PRODUCT(dots)(p, i, 1, j, 2 * PRODUCT_SIDE);
    for (; j < p->columns; j++) PRODUCT(dots)(p, i, 1, j, 1);
}

/* Runs the product. All other functions are inlined into this one, so that they are compiled for
 * the vectors of PRODUCT_TARGET. */
PRODUCT_TARGET static void PRODUCT(run)(const tn__product *p) {
    if (p->a_inner == 1 && p->b_inner == 1 && (p->b_column != 1 || p->columns == 1)) {
        PRODUCT(all_dots)(p);
        return;
    }
    for (uint64_t j = 0; j < p->columns; j += PRODUCT_COLUMNS) {
        uint64_t columns = p->columns - j < PRODUCT_COLUMNS ? p->columns - j : PRODUCT_COLUMNS;
        bool full = columns == PRODUCT_COLUMNS && p->b_column == 1;
        for (uint64_t i = 0; i < p->rows; i += PRODUCT_ROWS) {
            uint64_t rows = p->rows - i < PRODUCT_ROWS ? p->rows - i : PRODUCT_ROWS;
            if (full && rows == PRODUCT_ROWS)
                PRODUCT(tile)(p, i, PRODUCT_ROWS, j);
            else if (full && rows == 1 && sizeof(PRODUCT_SUM) < 8)
                PRODUCT(tile)(p, i, 1, j);
            else
                PRODUCT(rest)(p, i, rows, j, columns);
        }
    }
}

#undef PRODUCT_ROWS
#undef PRODUCT_COLUMNS
#undef PRODUCT_BLOCK
#undef PRODUCT_LANES
#undef PRODUCT_EACH
#undef PRODUCT_STRIP
#undef PRODUCT_STRIPS
#undef PRODUCT_PARTS
#undef PRODUCT_SIDE
#undef PRODUCT
#undef PRODUCT_TYPE
#undef PRODUCT_SUM
#undef PRODUCT_PLAIN
#undef PRODUCT_READ
#undef PRODUCT_WRITE
#undef PRODUCT_SCALE
