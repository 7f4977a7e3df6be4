/* product_loops.h - the loops of a matrix product for one element type. Included by product.c once
 * per type, with PRODUCT(name), PRODUCT_TYPE, PRODUCT_SUM, PRODUCT_READ, PRODUCT_WRITE defined.
 *
 * Rows of B that lie together: a tile of C of a few rows and 64 columns gathers `inner` in blocks
 * of 64, innermost loop along the row of B. Otherwise, columns of B and rows of A that lie
 * together: dot products in 16 lanes. Sums of blocks are added to sums of sums, so that the error
 * of n terms grows as n / 64 + 64 at the worst.
 */
#define PRODUCT_ROWS 4u
#define PRODUCT_COLUMNS 64u
#define PRODUCT_BLOCK 64u
#define PRODUCT_LANES 16u

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

static inline __attribute__((always_inline)) void PRODUCT(tile)(const tn__product *p, uint64_t row,
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

/* Said to be a vector: a compiler that is shown an array of so few takes it apart. */
typedef PRODUCT_SUM PRODUCT(lanes)
    __attribute__((vector_size(PRODUCT_LANES * sizeof(PRODUCT_SUM)), aligned(16)));

static inline __attribute__((always_inline)) PRODUCT_SUM
PRODUCT(dot)(const PRODUCT_TYPE *a, const PRODUCT_TYPE *b, uint64_t count) {
    PRODUCT(lanes) total = {0};
    PRODUCT_SUM sum = 0;
    uint64_t k = 0;
    while (count - k >= PRODUCT_LANES) {
        PRODUCT(lanes) part = {0}, left, right;
        for (uint64_t n = 0; n < PRODUCT_BLOCK && count - k >= PRODUCT_LANES;
             n++, k += PRODUCT_LANES) {
            for (uint64_t i = 0; i < PRODUCT_LANES; i++) left[i] = PRODUCT_READ(a[k + i]);
            for (uint64_t i = 0; i < PRODUCT_LANES; i++) right[i] = PRODUCT_READ(b[k + i]);
            part += left * right;
        }
        total += part;
    }
    for (; k < count; k++) sum += PRODUCT_READ(a[k]) * PRODUCT_READ(b[k]);
    for (uint64_t i = 0; i < PRODUCT_LANES; i++) sum += total[i];
    return sum;
}

/* The others are compiled into it, so that they have its vectors. */
TN_WIDE static void PRODUCT(run)(const tn__product *p) {
    bool dots = p->a_inner == 1 && p->b_inner == 1 && (p->b_column != 1 || p->columns == 1);
    if (dots) {
        const PRODUCT_TYPE *a = p->a, *b = p->b;
        for (uint64_t i = 0; i < p->rows; i++)
            for (uint64_t j = 0; j < p->columns; j++) {
                PRODUCT_SUM sum = PRODUCT(dot)(a + i * p->a_row, b + j * p->b_column, p->inner);
                PRODUCT(store)(p, i, j, 1, &sum);
            }
        return;
    }
    for (uint64_t j = 0; j < p->columns; j += PRODUCT_COLUMNS) {
        uint64_t columns = p->columns - j < PRODUCT_COLUMNS ? p->columns - j : PRODUCT_COLUMNS;
        for (uint64_t i = 0; i < p->rows; i += PRODUCT_ROWS) {
            uint64_t rows = p->rows - i < PRODUCT_ROWS ? p->rows - i : PRODUCT_ROWS;
            PRODUCT(tile)(p, i, rows, j, columns);
        }
    }
}

#undef PRODUCT_ROWS
#undef PRODUCT_COLUMNS
#undef PRODUCT_BLOCK
#undef PRODUCT_LANES
#undef PRODUCT
#undef PRODUCT_TYPE
#undef PRODUCT_SUM
#undef PRODUCT_READ
#undef PRODUCT_WRITE
#undef PRODUCT_SCALE
