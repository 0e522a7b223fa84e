/* General matrix products (GEMM) for matrices that fit into the cache, and copies of rows into and out of blocks. */

/* Weights to prefetch while a product computes: of many experts, each met once in a while, no near cache holds the
   weights. */
typedef struct {
    const char *at, *end;
} prefetch;
enum { LINE = 64 };

/* Compute one tile in registers: c [rows, vectors * WIDTH] (+)= a [rows, k] b [k, vectors * WIDTH]. */
INLINE void gemm_tile(const int rows, const int vectors, int64 k, in a, int64 a_row, int64 a_column, in b, int64 b_row,
    out c, int64 c_row, int add, prefetch *next) {
    vector sum[ROWS][VECTORS];
    const char *line = next ? next->at : NULL;
    const int64 step = next && next->at < next->end ? LINE : 0;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sum[r][v] = add ? *(const vector *)(c + r * c_row + v * WIDTH) : (vector){0};
    for (int64 p = 0; p < k; p++) {
        vector right[VECTORS];
        if (next) __builtin_prefetch(line, 0, 2), line += step;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) right[v] = *(const vector *)(b + p * b_row + v * WIDTH);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const REAL left = a[r * a_row + p * a_column];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) sum[r][v] += left * right[v];
        }
    }
    if (next) next->at = line;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) *(vector *)(c + r * c_row + v * WIDTH) = sum[r][v];
}

/* Compute c [m, vectors * WIDTH] (+)= a [m, k] b [k, vectors * WIDTH], tile below tile. */
INLINE void gemm_column(const int vectors, int64 m, int64 k, in a, int64 a_row, int64 a_column, in b, int64 b_row,
    out c, int64 c_row, int add, prefetch *next) {
    for (; m >= ROWS; m -= ROWS, a += ROWS * a_row, c += ROWS * c_row)
        gemm_tile(ROWS, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    switch (m) {
    case 5: gemm_tile(5, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 4: gemm_tile(4, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 3: gemm_tile(3, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 2: gemm_tile(2, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 1: gemm_tile(1, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    }
}

/* Compute c [m, n] (+)= a [m, k] b [k, n] for n < WIDTH: columns of zeros fill b up to a whole vector. */
static void gemm_narrow(
    int64 m, int64 n, int64 k, in a, int64 a_row, int64 a_column, in b, int64 b_row, out c, int64 c_row, int add) {
    REAL right[BLOCK * WIDTH], sums[BLOCK * WIDTH];
    for (int64 top = 0; top < m; top += BLOCK) {
        const int64 rows = min(BLOCK, m - top);
        for (int64 begin = 0; begin < k || begin == 0; begin += BLOCK) {
            const int64 terms = min(BLOCK, k - begin);
            for (int64 p = 0; p < terms; p++)
                for (int64 j = 0; j < WIDTH; j++) right[p * WIDTH + j] = j < n ? b[(begin + p) * b_row + j] : 0;
            gemm_column(1, rows, terms, a + top * a_row + begin * a_column, a_row, a_column, right, WIDTH, sums, WIDTH,
                begin > 0, NULL);
        }
        for (int64 i = 0; i < rows; i++)
            for (int64 j = 0; j < n; j++) {
                REAL *element = c + (top + i) * c_row + j;
                *element = add ? *element + sums[i * WIDTH + j] : sums[i * WIDTH + j];
            }
    }
}

INLINE void gemm_any(int64 m, int64 n, int64 k, in a, int64 a_row, int64 a_column, in b, int64 b_row, out c,
    int64 c_row, int add, prefetch *next) {
    for (; n >= VECTORS * WIDTH; n -= VECTORS * WIDTH, b += VECTORS * WIDTH, c += VECTORS * WIDTH)
        gemm_column(VECTORS, m, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    for (; VECTORS > 2 && n >= 2 * WIDTH; n -= 2 * WIDTH, b += 2 * WIDTH, c += 2 * WIDTH)
        gemm_column(2, m, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    for (; n >= WIDTH; n -= WIDTH, b += WIDTH, c += WIDTH)
        gemm_column(1, m, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    if (n) gemm_narrow(m, n, k, a, a_row, a_column, b, b_row, c, c_row, add);
}

/* Compute c [m, n] = a [m, k] b [k, n], or add the product to c. The two strides of a allow for a transposed matrix:
   a_row = 1 and a_column = m read a [k, m]. */
static void gemm(
    int64 m, int64 n, int64 k, in a, int64 a_row, int64 a_column, in b, int64 b_row, out c, int64 c_row, int add) {
    gemm_any(m, n, k, a, a_row, a_column, b, b_row, c, c_row, add, NULL);
}

/* Compute as `gemm` does and prefetch about `count` numbers at `next`, which need not be valid memory. */
static void gemm_prefetching(int64 m, int64 n, int64 k, in a, int64 a_row, int64 a_column, in b, int64 b_row, out c,
    int64 c_row, int add, in next, int64 count) {
    prefetch memory = {(const char *)next, (const char *)(next + count)};
    gemm_any(m, n, k, a, a_row, a_column, b, b_row, c, c_row, add, &memory);
}

/* Transpose `from` [rows, columns] into `into` [columns, rows], each with its row stride. */
static void transpose(int64 rows, int64 columns, in from, int64 from_row, out into, int64 into_row) {
    int64 begin = 0;
    for (; begin + WIDTH <= rows; begin += WIDTH)
        for (int64 j = 0; j < columns; j++)
#pragma GCC unroll 16
            for (int64 i = 0; i < WIDTH; i++) into[j * into_row + begin + i] = from[(begin + i) * from_row + j];
    for (; begin < rows; begin++)
        for (int64 j = 0; j < columns; j++) into[j * into_row + begin] = from[begin * from_row + j];
}

/* Transpose weights [E, I, O] to [E, O, I]. */
int transpose_weights(int64 E, int64 I, int64 O, in(weights, E, I, O), out(transposed, E, O, I)) {
    for (int64 e = 0; e < E; e++) transpose(I, O, weights + e * I * O, O, transposed + e * I * O, I);
    return 0;
}

/* Copy a short row: calling memcpy would take longer than the copy. */
static inline void copy(int64 n, in from, out into) {
    int64 i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        *(vector *)(into + i) = *(const vector *)(from + i);
        *(vector *)(into + i + WIDTH) = *(const vector *)(from + i + WIDTH);
    }
    for (; i < n; i++) into[i] = from[i];
}

/* Gather the rows of `tokens` from `from` [T, width]. */
static void gather(int64 rows, int64 width, in from, const int64 *tokens, out into) {
    for (int64 i = 0; i < rows; i++) copy(width, from + tokens[i] * width, into + i * width);
}

/* Add rows to the rows of `tokens` in `into` [T, width]. */
static void scatter_add(int64 rows, int64 width, in from, const int64 *tokens, out into) {
    for (int64 i = 0; i < rows; i++) {
        REAL *row = into + tokens[i] * width;
        for (int64 j = 0; j < width; j++) row[j] += from[i * width + j];
    }
}

/* Loop over rows sorted by expert: `rows` rows of expert e from row `begin` on, at most BLOCK at a time. */
#define FOR_EACH_BLOCK(E, ends) \
    for (int64 e = 0, begin = 0, rows; e < (E); e++) \
        for (; begin < (ends)[e] && (rows = block_rows((ends)[e] - begin)); begin += rows)

/* Return the size of the next block of `left` rows: blocks of about equal size, in whole tiles, at most BLOCK rows. */
static inline int64 block_rows(int64 left) {
    const int64 blocks = (left + BLOCK - 1) / BLOCK, rows = (left + blocks - 1) / blocks;
    return min((rows + ROWS - 1) / ROWS * ROWS, left);
}
