/* The hot loops of training on one CPU core, called by native_kernels.py and native_parts.py, compiled by native.py;
   kernels.py says what they compute.

   At the sizes of a CPU most of a step is spent around the matrix products: gathering rows by expert, norms, routing,
   passes over memory. Here each expert's rows are gathered, normalised, multiplied, scaled and put back while they are
   in the cache. REAL is float (or double, for tests). Everything is row-major and dense; sums run in a fixed order.

   Axes: T tokens, E experts, A active experts, P = T*A token-expert pairs sorted by expert, H hidden, F expert size,
   I and O inputs and outputs, N and M query and key/value heads, K head size, R routing size, D visible depths. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
enum { BYTES = 64, ROWS = 6, VECTORS = 4 };
#elif defined(__AVX__)
enum { BYTES = 32, ROWS = 6, VECTORS = 2 };
#elif defined(__ARM_NEON)
enum { BYTES = 16, ROWS = 6, VECTORS = 4 };
#else
enum { BYTES = 16, ROWS = 6, VECTORS = 2 };
#endif
enum { WIDTH = BYTES / sizeof(REAL), BLOCK = 96, QUERIES = 16 };

typedef REAL vector __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef int64_t whole;
typedef const REAL *restrict in;
typedef REAL *restrict out;

static REAL *scratch(whole count) {
    REAL *memory = malloc((count ? count : 1) * sizeof(REAL));
    if (!memory) {
        fprintf(stderr, "out of memory: %lld bytes for a kernel\n", (long long)(count * sizeof(REAL)));
        abort();
    }
    return memory;
}

/* ---- arithmetic ---- */

static inline whole smaller(whole a, whole b) { return a < b ? a : b; }

static inline whole filled_up(whole n) { return (n + WIDTH - 1) / WIDTH * WIDTH; }

static inline REAL dot(whole n, in a, in b) {
    REAL sum = 0;
    for (whole i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Of whole vectors. */
static inline REAL largest(whole n, in a) {
    REAL most[WIDTH];
    memcpy(most, a, sizeof(most));
    for (whole i = WIDTH; i < n; i += WIDTH)
        for (whole j = 0; j < WIDTH; j++) most[j] = a[i + j] > most[j] ? a[i + j] : most[j];
    for (whole j = 1; j < WIDTH; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0];
}

/* e^x within 5 ulp (70 on a processor that cannot multiply and add in one), in a form that compilers vectorise. 0
   below -87, where float runs out; no more than e^88, so that infinity does not stay what it is. NaN does. */
static inline REAL exponential(REAL x) {
    if (sizeof(REAL) == sizeof(double)) return exp(x);
    float y = x, n, r, p;
    y = y > 88.0f ? 88.0f : y;
    y = y < -87.0f ? -87.0f : y;
    n = rintf(y * 1.44269504088896341f);
    r = y - n * 0.693359375f + n * 2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union {
        uint32_t bits;
        float power;
    } scale = {.bits = (uint32_t)((int32_t)n + 127) << 23};
    return x < -87.0f ? 0 : p * scale.power;
}

static inline REAL sigmoid(REAL x) { return 1 / (1 + exponential(-x)); }

/* A call for heads of `size` numbers, compiled once more for each usual size, which its loops then know. */
#define FOR_SIZE(K, call) \
    switch (K) { \
    case 32: { const whole size = 32; call; } break; \
    case 64: { const whole size = 64; call; } break; \
    default: { const whole size = K; call; } \
    }
#define INLINE static inline __attribute__((always_inline))

/* Memory that is to be read next. A product fetches it line by line into the second cache while it computes: of many
   experts, each met once in a while, the weights are in no near one. */
typedef struct {
    const char *at, *end;
} ahead;
enum { LINE = 64 };

/* One tile of a product, all of it in registers: c [rows, vectors * WIDTH] (+)= a [rows, k] b. */
INLINE void tile(const int rows, const int vectors, whole k, in a, whole a_row, whole a_column, in b, whole b_row,
    out c, whole c_row, int add, ahead *next) {
    vector sum[ROWS][VECTORS];
    const char *line = next ? next->at : NULL;
    const whole step = next && next->at < next->end ? LINE : 0;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sum[r][v] = add ? *(const vector *)(c + r * c_row + v * WIDTH) : (vector){0};
    for (whole p = 0; p < k; p++) {
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

/* `vectors` columns of tiles, one below the other. */
INLINE void tiles(const int vectors, whole m, whole k, in a, whole a_row, whole a_column, in b, whole b_row, out c,
    whole c_row, int add, ahead *next) {
    for (; m >= ROWS; m -= ROWS, a += ROWS * a_row, c += ROWS * c_row)
        tile(ROWS, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    switch (m) {
    case 5: tile(5, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 4: tile(4, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 3: tile(3, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 2: tile(2, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    case 1: tile(1, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add, next); break;
    }
}

/* c [m, n] (+)= a [m, k] b [k, n] for n < WIDTH: the columns are filled up to whole vectors in between. */
static void narrow_product(
    whole m, whole n, whole k, in a, whole a_row, whole a_column, in b, whole b_row, out c, whole c_row, int add) {
    REAL right[BLOCK * WIDTH], sums[BLOCK * WIDTH];
    for (whole top = 0; top < m; top += BLOCK) {
        const whole rows = smaller(BLOCK, m - top);
        for (whole begin = 0; begin < k || begin == 0; begin += BLOCK) {
            const whole terms = smaller(BLOCK, k - begin);
            for (whole p = 0; p < terms; p++)
                for (whole j = 0; j < WIDTH; j++) right[p * WIDTH + j] = j < n ? b[(begin + p) * b_row + j] : 0;
            tiles(1, rows, terms, a + top * a_row + begin * a_column, a_row, a_column, right, WIDTH, sums, WIDTH,
                begin > 0, NULL);
        }
        for (whole i = 0; i < rows; i++)
            for (whole j = 0; j < n; j++) {
                REAL *to = c + (top + i) * c_row + j;
                *to = add ? *to + sums[i * WIDTH + j] : sums[i * WIDTH + j];
            }
    }
}

/* c [m, n] (+)= a [m, k] b [k, n]; a is read by its two strides, so it may be a transposed one. */
INLINE void any_product(whole m, whole n, whole k, in a, whole a_row, whole a_column, in b, whole b_row, out c,
    whole c_row, int add, ahead *next) {
    for (; n >= VECTORS * WIDTH; n -= VECTORS * WIDTH, b += VECTORS * WIDTH, c += VECTORS * WIDTH)
        tiles(VECTORS, m, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    for (; VECTORS > 2 && n >= 2 * WIDTH; n -= 2 * WIDTH, b += 2 * WIDTH, c += 2 * WIDTH)
        tiles(2, m, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    for (; n >= WIDTH; n -= WIDTH, b += WIDTH, c += WIDTH)
        tiles(1, m, k, a, a_row, a_column, b, b_row, c, c_row, add, next);
    if (n) narrow_product(m, n, k, a, a_row, a_column, b, b_row, c, c_row, add);
}

static void product(
    whole m, whole n, whole k, in a, whole a_row, whole a_column, in b, whole b_row, out c, whole c_row, int add) {
    any_product(m, n, k, a, a_row, a_column, b, b_row, c, c_row, add, NULL);
}

/* The same, fetching about `count` numbers from `next` on, whether they are there or not. */
static void fetching_product(whole m, whole n, whole k, in a, whole a_row, whole a_column, in b, whole b_row, out c,
    whole c_row, int add, in next, whole count) {
    ahead memory = {(const char *)next, (const char *)(next + count)};
    any_product(m, n, k, a, a_row, a_column, b, b_row, c, c_row, add, &memory);
}

/* [rows, columns] -> [columns, rows], each with a row stride. */
static void transpose(whole rows, whole columns, in from, whole row, out to, whole to_row) {
    whole begin = 0;
    for (; begin + WIDTH <= rows; begin += WIDTH)
        for (whole j = 0; j < columns; j++)
#pragma GCC unroll 16
            for (whole i = 0; i < WIDTH; i++) to[j * to_row + begin + i] = from[(begin + i) * row + j];
    for (; begin < rows; begin++)
        for (whole j = 0; j < columns; j++) to[j * to_row + begin] = from[begin * row + j];
}

/* Short rows: a call of memcpy would take longer than the copy. */
static inline void copy(whole n, in from, out to) {
    whole i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        *(vector *)(to + i) = *(const vector *)(from + i);
        *(vector *)(to + i + WIDTH) = *(const vector *)(from + i + WIDTH);
    }
    for (; i < n; i++) to[i] = from[i];
}

static void gather(whole rows, whole width, in from, const whole *tokens, out to) {
    for (whole i = 0; i < rows; i++) copy(width, from + tokens[i] * width, to + i * width);
}

/* For all rows, sorted by expert e, `rows` of them from `begin` on. */
#define EACH_BLOCK(E, ends) \
    for (whole e = 0, begin = 0, rows; e < (E); e++) \
        for (; begin < (ends)[e] && (rows = next_rows((ends)[e] - begin)); begin += rows)

/* How many of the `left` rows to take next: about equally many each time, in whole tiles, and at most BLOCK. */
static inline whole next_rows(whole left) {
    const whole blocks = (left + BLOCK - 1) / BLOCK, rows = (left + blocks - 1) / blocks;
    return smaller((rows + ROWS - 1) / ROWS * ROWS, left);
}

/* ---- norms ---- */

static inline REAL norm_scale(whole H, in x, double epsilon) { return 1 / sqrt(dot(H, x, x) / H + (REAL)epsilon); }

static inline void normalise(whole H, in x, in gain, REAL scale, out y) {
    for (whole i = 0; i < H; i++) y[i] = x[i] * scale * gain[i];
}

/* Times the tokens' `scores`, if there are any. */
static void gather_normalised(
    whole rows, whole H, in x, in gain, in scales, in scores, const whole *tokens, out to) {
    for (whole i = 0; i < rows; i++) {
        const whole t = tokens[i];
        normalise(H, x + t * H, gain, scores ? scales[t] * scores[t] : scales[t], to + i * H);
    }
}

/* `gradient` is that of y and then that of x. */
static inline void normalise_backward(whole H, in x, in gain, REAL scale, out gradient, out gain_gradient) {
    REAL along = 0;
    for (whole i = 0; i < H; i++) {
        const REAL through = gradient[i] * x[i] * scale;
        gain_gradient[i] += through;
        along += through * gain[i];
    }
    along *= scale / H;
    for (whole i = 0; i < H; i++) gradient[i] = (gradient[i] * gain[i] - along * x[i]) * scale;
}

static void norm_scales(whole T, whole H, in x, double epsilon, out scales) {
    for (whole t = 0; t < T; t++) scales[t] = norm_scale(H, x + t * H, epsilon);
}

void norm_forward(whole T, whole H, in x, in gain, double epsilon, out y, out scales) {
    for (whole t = 0; t < T; t++, x += H, y += H) normalise(H, x, gain, scales[t] = norm_scale(H, x, epsilon), y);
}

void norm_backward(whole T, whole H, in x, in gain, in scales, in y_gradient, out x_gradient, out gain_gradient) {
    memset(gain_gradient, 0, H * sizeof(REAL));
    for (whole t = 0; t < T; t++, x += H, y_gradient += H, x_gradient += H) {
        memcpy(x_gradient, y_gradient, H * sizeof(REAL));
        normalise_backward(H, x, gain, scales[t], x_gradient, gain_gradient);
    }
}

/* ---- routing (Eq. 2), of x [T, H] behind a norm where there is a gain ---- */

/* Turn the pairs of x [K] by the angles of `code`, or with `sign` -1 back. */
static inline void turn(whole K, in x, in code, REAL sign, out y) {
    for (whole i = 0; i < K; i += 2) {
        const REAL cosine = code[i], sine = sign * code[i + 1];
        y[i] = x[i] * cosine - x[i + 1] * sine;
        y[i + 1] = x[i + 1] * cosine + x[i] * sine;
    }
}

/* Keys [E, R] as the scores of each depth need them, [L, E, R]: normalised, times gain and 1/sqrt(R), and turned back
   by the depth's code [L, R] where there is one. */
void keys_forward(whole L, whole E, whole R, double epsilon, in keys, in gain, in code, out prepared, out scales) {
    REAL *ready = scratch(2 * R), *factor = ready + R;
    for (whole r = 0; r < R; r++) factor[r] = gain[r] / sqrt((double)R);
    for (whole e = 0; e < E; e++, keys += R, prepared += R) {
        normalise(R, keys, factor, scales[e] = norm_scale(R, keys, epsilon), ready);
        if (!code) memcpy(prepared, ready, R * sizeof(REAL));
        for (whole l = 0; code && l < L; l++) turn(R, ready, code + l * R, -1, prepared + l * E * R);
    }
    free(ready);
}

/* `gradients` are L pointers to [E, R]. */
void keys_backward(whole L, whole E, whole R, in keys, in gain, in code, in scales, REAL *const *gradients,
    out keys_gradient, out gain_gradient) {
    REAL *turned = scratch(2 * R), *factor = turned + R;
    const REAL root = 1 / sqrt((double)R);
    for (whole r = 0; r < R; r++) factor[r] = gain[r] * root;
    memset(keys_gradient, 0, E * R * sizeof(REAL));
    memset(gain_gradient, 0, R * sizeof(REAL));
    for (whole e = 0; e < E; e++) {
        REAL *own = keys_gradient + e * R;
        for (whole l = 0; l < L; l++) {
            const REAL *from = gradients[l] + e * R;
            if (code) turn(R, from, code + l * R, 1, turned), from = turned;
            for (whole r = 0; r < R; r++) own[r] += from[r];
        }
        normalise_backward(R, keys + e * R, factor, scales[e], own, gain_gradient);
    }
    for (whole r = 0; r < R; r++) gain_gradient[r] *= root;
    free(turned);
}

/* Pairs sorted by expert, stably. */
static void dispatch(whole P, whole A, whole E, const whole *ids, whole *order, whole *tokens, int32_t *ends) {
    memset(ends, 0, E * sizeof(int32_t));
    for (whole i = 0; i < P; i++) ends[ids[i]]++;
    for (whole e = 1; e < E; e++) ends[e] += ends[e - 1];
    for (whole i = P - 1; i >= 0; i--) { /* from behind, so that each end moves to its run's begin */
        const whole place = --ends[ids[i]];
        order[place] = i, tokens[place] = i / A;
    }
    for (whole e = 0; e + 1 < E; e++) ends[e] = ends[e + 1];
    if (E) ends[E - 1] = P;
}

/* `norms` are the scales of the norm, q the queries before theirs, `scales` what normalises them, `chosen` the scores
   without bias. Order and tokens of the T * A pairs are the experts'. */
void route_forward(whole T, whole H, whole R, whole E, whole A, whole normalised, double epsilon, in x, in gain,
    in query, in keys, in bias, out norms, out q, out scales, out chosen, out weights, whole *ids, whole *order,
    whole *tokens, int32_t *ends) {
    const whole wide = filled_up(E);
    REAL *turned = scratch(R * wide + BLOCK * (wide + H) + E), *scores = turned + R * wide;
    REAL *rows_in = scores + BLOCK * wide, *biased = rows_in + BLOCK * H;
    memset(turned, 0, R * wide * sizeof(REAL));
    for (whole e = 0; e < E; e++)
        for (whole r = 0; r < R; r++) turned[r * wide + e] = keys[e * R + r];
    for (whole begin = 0; begin < T; begin += BLOCK) {
        const whole rows = smaller(BLOCK, T - begin);
        const REAL *own_x = x + begin * H;
        if (gain) norm_forward(rows, H, own_x, gain, epsilon, rows_in, norms + begin), own_x = rows_in;
        product(rows, R, H, own_x, H, 1, query, R, q + begin * R, R, 0);
        product(rows, wide, R, q + begin * R, R, 1, turned, wide, scores, wide, 0);
        norm_scales(rows, R, q + begin * R, epsilon, scales + begin);
        for (whole i = 0; i < rows; i++) {
            const whole t = begin + i;
            REAL *own = scores + i * wide;
            const REAL scale = scales[t];
            for (whole e = 0; e < E; e++) biased[e] = (own[e] *= scale) + bias[e];
            for (whole a = 0; a < A; a++) {
                whole best = 0;
                REAL most = biased[0];
                for (whole e = 1; e < E; e++) {
                    best = biased[e] > most ? e : best;
                    most = biased[e] > most ? biased[e] : most;
                }
                ids[t * A + a] = best;
                chosen[t * A + a] = own[best];
                biased[best] = -INFINITY;
            }
        }
    }
    for (whole i = 0; i < T * A; i++) weights[i] = sigmoid(chosen[i]);
    for (whole t = 0; normalised && t < T; t++) {
        REAL total = (REAL)1e-20;
        for (whole a = 0; a < A; a++) total += weights[t * A + a];
        for (whole a = 0; a < A; a++) weights[t * A + a] /= total;
    }
    free(turned);
    dispatch(T * A, A, E, ids, order, tokens, ends);
}

/* `rows` [T, H] holds the gradient that (normalised) x has from elsewhere, and then that of x. */
void route_backward(whole T, whole H, whole R, whole E, whole A, whole normalised, in x, in gain, in query, in keys,
    in norms, in q, in scales, in chosen, const whole *ids, in weights_gradient, out rows,
    out gain_gradient, out query_gradient, out keys_gradient) {
    REAL *turned = scratch(H * R + BLOCK * (R + H + A)), *q_gradient = turned + H * R;
    REAL *rows_in = q_gradient + BLOCK * R, *opened = rows_in + BLOCK * H;
    transpose(H, R, query, R, turned, H);
    if (gain) memset(gain_gradient, 0, H * sizeof(REAL));
    memset(keys_gradient, 0, E * R * sizeof(REAL));
    memset(query_gradient, 0, H * R * sizeof(REAL));
    for (whole begin = 0; begin < T; begin += BLOCK) {
        const whole count = smaller(BLOCK, T - begin);
        for (whole i = 0; i < count * A; i++) opened[i] = sigmoid(chosen[begin * A + i]);
        for (whole i = 0; i < count; i++) {
            const whole t = begin + i;
            const REAL *own_q = q + t * R, *own = opened + i * A;
            REAL total = (REAL)1e-20, mean = 0, along = 0, *to = q_gradient + i * R;
            for (whole a = 0; normalised && a < A; a++) {
                total += own[a];
                mean += own[a] * weights_gradient[t * A + a];
            }
            memset(to, 0, R * sizeof(REAL));
            for (whole a = 0; a < A; a++) {
                const REAL *key = keys + ids[t * A + a] * R;
                REAL through = weights_gradient[t * A + a], *key_gradient = keys_gradient + ids[t * A + a] * R;
                if (normalised) through = (through - mean / total) / total;
                through *= own[a] * (1 - own[a]) * scales[t];
                along += through * chosen[t * A + a];
                for (whole r = 0; r < R; r++) {
                    to[r] += through * key[r];
                    key_gradient[r] += through * own_q[r];
                }
            }
            along *= scales[t] / R;
            for (whole r = 0; r < R; r++) to[r] -= along * own_q[r];
        }
        const REAL *own_x = x + begin * H;
        if (gain) {
            for (whole i = 0; i < count; i++) normalise(H, own_x + i * H, gain, norms[begin + i], rows_in + i * H);
            own_x = rows_in;
        }
        product(count, H, R, q_gradient, R, 1, turned, H, rows + begin * H, H, 1);
        product(H, R, count, own_x, 1, H, q_gradient, R, query_gradient, R, 1);
        for (whole t = begin; gain && t < begin + count; t++)
            normalise_backward(H, x + t * H, gain, norms[t], rows + t * H, gain_gradient);
    }
    free(turned);
}

/* ---- linear experts, one for each token (Eq. 7) ---- */

/* The backward pass of the `rows` tokens `own` of an expert: rows_in [rows, I] times its weights, times the scores.
   `turned` are its weights transposed, `shared` the shared ones [I, O], where there are any. `memory` [BLOCK * (I + O)]
   and rows_in are spent. To the gradients of scores and weights this is added. */
static void linear_rows_backward(whole rows, whole I, whole O, REAL *rows_in, in gradient, in turned, in shared,
    in scores, const whole *own, out memory, out x_gradient, out scores_gradient, out weights_gradient) {
    REAL *through = memory, *of_shared = memory + BLOCK * I;
    fetching_product(rows, I, O, gradient, O, 1, turned, I, through, I, 0, weights_gradient, I * O);
    if (shared) product(rows, O, I, rows_in, I, 1, shared, O, of_shared, O, 0);
    for (whole i = 0; i < rows; i++) {
        const REAL score = scores[own[i]], *from = through + i * I;
        REAL *to = x_gradient + own[i] * I, *row = rows_in + i * I;
        scores_gradient[own[i]] += dot(I, from, row) - (shared ? dot(O, of_shared + i * O, gradient + i * O) : 0);
        for (whole j = 0; j < I; j++) {
            to[j] = from[j] * score;
            row[j] *= score;
        }
    }
    fetching_product(I, O, rows, rows_in, 1, I, gradient, O, weights_gradient, O, 1, turned + I * O, I * O);
}

/* The same for rows of x [T, I] and of y_gradient [T, O]. `memory` [BLOCK * 2 * (I + O)] is spent. */
static void linear_backward(whole rows, whole I, whole O, in x, in y_gradient, in turned, in shared, in scores,
    const whole *own, out memory, out x_gradient, out scores_gradient, out weights_gradient) {
    REAL *rows_in = memory, *gradient = memory + BLOCK * I, *rest = gradient + BLOCK * O;
    gather(rows, I, x, own, rows_in);
    gather(rows, O, y_gradient, own, gradient);
    linear_rows_backward(rows, I, O, rows_in, gradient, turned, shared, scores, own, rest, x_gradient, scores_gradient,
        weights_gradient);
}

/* Weights [E, I, O] to dense [E, O, I]. */
void transpose_weights(whole E, whole I, whole O, in weights, out turned) {
    for (whole e = 0; e < E; e++) transpose(I, O, weights + e * I * O, O, turned + e * I * O, I);
}

/* The forward pass of some of an expert's tokens. `memory` [BLOCK * (I + O)] is spent. */
static void linear_forward(
    whole rows, whole I, whole O, in x, in scores, in weights, const whole *own, out memory, out y) {
    REAL *rows_in = memory, *rows_out = memory + BLOCK * I;
    gather(rows, I, x, own, rows_in);
    fetching_product(rows, O, I, rows_in, I, 1, weights, O, rows_out, O, 0, weights + I * O, I * O);
    for (whole i = 0; i < rows; i++) {
        const REAL score = scores[own[i]], *from = rows_out + i * O;
        REAL *to = y + own[i] * O;
        for (whole o = 0; o < O; o++) to[o] = from[o] * score;
    }
}

void mixed_forward(
    whole E, whole I, whole O, in x, in scores, in merged, const whole *tokens, const int32_t *ends, out y) {
    REAL *memory = scratch(BLOCK * (I + O));
    EACH_BLOCK(E, ends) linear_forward(rows, I, O, x, scores, merged + e * I * O, tokens + begin, memory, y);
    free(memory);
}

/* `turned` are the merged weights transposed. Their gradient [E, I, O] is added to what it is. */
void mixed_backward(whole T, whole E, whole I, whole O, in x, in scores, in turned, in shared, const whole *tokens,
    const int32_t *ends, in y_gradient, out x_gradient, out scores_gradient, out weights_gradient) {
    REAL *memory = scratch(BLOCK * 2 * (I + O));
    memset(scores_gradient, 0, T * sizeof(REAL));
    EACH_BLOCK(E, ends)
        linear_backward(rows, I, O, x, y_gradient, turned + e * I * O, shared, scores, tokens + begin, memory,
            x_gradient, scores_gradient, weights_gradient + e * I * O);
    free(memory);
}

/* ---- heads of an attention, turned and normalised ---- */

/* One token's fused projections to queries and keys, turned and normalised. */
INLINE void split_heads(whole N, whole M, whole K, in projected, in query_gain, in key_gain, in code, double epsilon,
    out query, out key, out scales) {
    for (whole head = 0; head < N + M; head++) {
        const REAL *from = projected + head * K, *gain = head < N ? query_gain : key_gain;
        REAL *to = head < N ? query + head * K : key + (head - N) * K;
        const REAL scale = scales[head] = norm_scale(K, from, epsilon);
        for (whole i = 0; i < K; i += 2) {
            const REAL cosine = code[i] * scale, sine = code[i + 1] * scale;
            to[i] = (from[i] * cosine - from[i + 1] * sine) * gain[i];
            to[i + 1] = (from[i + 1] * cosine + from[i] * sine) * gain[i + 1];
        }
    }
}

/* `memory` [2 K] is spent. */
INLINE void split_heads_backward(whole N, whole M, whole K, in projected, in query_gain, in key_gain, in code,
    in scales, in query_gradient, in key_gradient, in value_gradient, out gradient, out query_gain_gradient,
    out key_gain_gradient, out memory) {
    REAL *turned = memory, *through = memory + K;
    for (whole head = 0; head < N + M; head++) {
        const REAL *own = projected + head * K, *gain = head < N ? query_gain : key_gain, scale = scales[head];
        const REAL *from = head < N ? query_gradient + head * K : key_gradient + (head - N) * K;
        REAL *gain_gradient = head < N ? query_gain_gradient : key_gain_gradient, *to = gradient + head * K;
        for (whole i = 0; i < K; i += 2) {
            turned[i] = (own[i] * code[i] - own[i + 1] * code[i + 1]) * scale;
            turned[i + 1] = (own[i + 1] * code[i] + own[i] * code[i + 1]) * scale;
        }
        for (whole i = 0; i < K; i++) {
            gain_gradient[i] += from[i] * turned[i];
            through[i] = from[i] * gain[i];
        }
        const REAL along = dot(K, through, turned) / K;
        for (whole i = 0; i < K; i++) through[i] = (through[i] - along * turned[i]) * scale;
        for (whole i = 0; i < K; i += 2) {
            to[i] = through[i] * code[i] + through[i + 1] * code[i + 1];
            to[i + 1] = through[i + 1] * code[i] - through[i] * code[i + 1];
        }
    }
    copy(M * K, value_gradient, gradient + (N + M) * K);
}

/* Of projected [T, (N + 2 M) K]. */
void heads_forward(whole T, whole N, whole M, whole K, double epsilon, in projected, in query_gain, in key_gain,
    in code, whole code_row, out query, out key, out value, out scales) {
    for (whole t = 0; t < T; t++, projected += (N + 2 * M) * K) {
        FOR_SIZE(K, split_heads(N, M, size, projected, query_gain, key_gain, code + t * code_row, epsilon,
                        query + t * N * K, key + t * M * K, scales + t * (N + M)));
        copy(M * K, projected + (N + M) * K, value + t * M * K);
    }
}

void heads_backward(whole T, whole N, whole M, whole K, in projected, in query_gain, in key_gain, in code,
    whole code_row, in scales, in query_gradient, in key_gradient, in value_gradient, out gradient,
    out query_gain_gradient, out key_gain_gradient) {
    REAL *memory = scratch(2 * K);
    memset(query_gain_gradient, 0, K * sizeof(REAL));
    memset(key_gain_gradient, 0, K * sizeof(REAL));
    for (whole t = 0; t < T; t++)
        FOR_SIZE(K, split_heads_backward(N, M, size, projected + t * (N + 2 * M) * K, query_gain, key_gain,
                        code + t * code_row, scales + t * (N + M), query_gradient + t * N * K, key_gradient + t * M * K,
                        value_gradient + t * M * K, gradient + t * (N + 2 * M) * K, query_gain_gradient,
                        key_gain_gradient, memory));
    free(memory);
}

/* ---- SwiGLU experts (section 3.5) of normalised x ---- */

/* `projected` [P, 2F], gate and up side by side in the experts' order, is kept for the
   backward pass. */
void swiglu_forward(whole T, whole E, whole H, whole F, in x, in gain, in norms, in weights, in inward, in outward,
    const whole *order, const whole *tokens, const int32_t *ends, out projected, out y) {
    REAL *rows_in = scratch(BLOCK * (2 * H + F)), *rows_out = rows_in + BLOCK * H, *hidden = rows_out + BLOCK * H;
    memset(y, 0, T * H * sizeof(REAL));
    EACH_BLOCK(E, ends) {
        const REAL *own_inward = inward + e * 2 * F * H, *own_outward = outward + e * F * H;
        const whole *own = tokens + begin;
        REAL *own_projected = projected + begin * 2 * F;
        gather_normalised(rows, H, x, gain, norms, NULL, own, rows_in);
        fetching_product(rows, 2 * F, H, rows_in, H, 1, own_inward, 2 * F, own_projected, 2 * F, 0, own_outward, F * H);
        for (whole i = 0; i < rows; i++) {
            const REAL weight = weights[order[begin + i]], *gate = own_projected + i * 2 * F, *up = gate + F;
            REAL *to = hidden + i * F;
            for (whole f = 0; f < F; f++) to[f] = gate[f] * sigmoid(gate[f]) * up[f] * weight;
        }
        fetching_product(
            rows, H, F, hidden, F, 1, own_outward, H, rows_out, H, 0, own_inward + 2 * F * H, 2 * F * H);
        for (whole i = 0; i < rows; i++) {
            REAL *to = y + own[i] * H, *from = rows_out + i * H;
            for (whole h = 0; h < H; h++) to[h] += from[h];
        }
    }
    free(rows_in);
}

/* The gradients of both weights, whose transposed ones are given, are added to what they are. */
void swiglu_backward(whole T, whole E, whole H, whole F, in x, in gain, in norms, in weights, in inward_turned,
    in outward_turned, in projected, const whole *order, const whole *tokens, const int32_t *ends, in y_gradient,
    out rows_gradient, out weights_gradient, out inward_gradient, out outward_gradient) {
    REAL *rows_in = scratch(BLOCK * (3 * H + 4 * F)), *gradient = rows_in + BLOCK * H, *rows_out = gradient + BLOCK * H;
    REAL *hidden = rows_out + BLOCK * H, *through = hidden + BLOCK * F, *projected_gradient = through + BLOCK * F;
    memset(rows_gradient, 0, T * H * sizeof(REAL));
    EACH_BLOCK(E, ends) {
        const REAL *own_inward = inward_turned + e * 2 * F * H, *own_outward = outward_turned + e * F * H;
        const whole *own = tokens + begin;
        REAL *of_inward = inward_gradient + e * 2 * F * H, *of_outward = outward_gradient + e * F * H;
        gather_normalised(rows, H, x, gain, norms, NULL, own, rows_in);
        gather(rows, H, y_gradient, own, gradient);
        fetching_product(rows, F, H, gradient, H, 1, own_outward, F, through, F, 0, of_outward, F * H);
        for (whole i = 0; i < rows; i++) {
            const whole pair = order[begin + i];
            const REAL weight = weights[pair], *gate = projected + (begin + i) * 2 * F, *up = gate + F;
            REAL *from = through + i * F, *own_hidden = hidden + i * F, sum = 0;
            REAL *gate_gradient = projected_gradient + i * 2 * F, *up_gradient = gate_gradient + F;
            for (whole f = 0; f < F; f++) {
                const REAL open = sigmoid(gate[f]), silu = gate[f] * open, scaled = from[f] * weight;
                sum += from[f] * silu * up[f];
                own_hidden[f] = silu * up[f] * weight;
                up_gradient[f] = scaled * silu;
                gate_gradient[f] = scaled * up[f] * (open + silu * (1 - open));
            }
            weights_gradient[pair] = sum;
        }
        fetching_product(F, H, rows, hidden, 1, F, gradient, H, of_outward, H, 1, of_inward, 2 * F * H);
        fetching_product(
            H, 2 * F, rows, rows_in, 1, H, projected_gradient, 2 * F, of_inward, 2 * F, 1, own_inward, 2 * F * H);
        fetching_product(rows, H, 2 * F, projected_gradient, 2 * F, 1, own_inward, H, rows_out, H, 0,
            own_outward + F * H, F * H);
        for (whole i = 0; i < rows; i++) {
            REAL *to = rows_gradient + own[i] * H, *from = rows_out + i * H;
            for (whole h = 0; h < H; h++) to[h] += from[h];
        }
    }
    free(rows_in);
}

/* ---- attention along the sequence (Eq. 1): token t sees `starts[t]` to t ---- */

/* Turn the scores of queries against keys [rows, columns] from key `low` on into probabilities: zero where nothing is
   to be seen, e^(score - sum) elsewhere, where `sum` is found if it is not known (it is in the backward pass). */
static void probabilities(whole first, whole rows, whole low, whole columns, const whole *starts, REAL scale,
    out scores, out sums, whole sums_row, int known) {
    for (whole i = 0; i < rows; i++, scores += columns, sums += sums_row) {
        const whole begin = starts[first + i] - low, end = first + i + 1 - low;
        for (whole j = 0; j < begin; j++) scores[j] = -INFINITY;
        for (whole j = end; j < columns; j++) scores[j] = -INFINITY;
        const REAL less = known ? *sums : largest(columns, scores) * scale;
        REAL total = 0;
        for (whole j = 0; j < columns; j++) total += scores[j] = exponential(scores[j] * scale - less);
        if (known) continue;
        for (whole j = 0; j < columns; j++) scores[j] /= total;
        *sums = less + log(total);
    }
}

/* The widest run of keys that any block of queries meets. */
static whole widest(whole T, const whole *starts) {
    whole most = 0;
    for (whole first = 0; first < T; first += QUERIES) {
        const whole run = smaller(first + QUERIES, T) - starts[first];
        most = run > most ? run : most;
    }
    return filled_up(most);
}

/* The row stride of transposed heads. Keys are met in whole vectors, so behind the last one there must be numbers to
   be read; and rows that lie powers of two apart would drive each other from the cache. */
static inline whole heads_row(whole T) { return filled_up(T) + WIDTH; }

static void transpose_heads(whole T, whole M, whole K, in from, out to) {
    const whole row = heads_row(T);
    transpose(T, K, from, M * K, to, row);
    for (whole k = 0; k < K; k++) memset(to + k * row + T, 0, (row - T) * sizeof(REAL));
}

void attend_forward(
    whole T, whole N, whole M, whole K, in query, in key, in value, const whole *starts, out attended, out sums) {
    const REAL scale = 1 / sqrt((double)K);
    const whole row = heads_row(T);
    REAL *turned = scratch(K * row + QUERIES * widest(T, starts)), *scores = turned + K * row;
    for (whole head = 0; head < N; head++) {
        const whole own = head / (N / M);
        if (head % (N / M) == 0) transpose_heads(T, M, K, key + own * K, turned);
        for (whole first = 0; first < T; first += QUERIES) {
            const whole rows = smaller(QUERIES, T - first), low = starts[first], keys = first + rows - low;
            const whole columns = filled_up(keys), at = (first * N + head) * K;
            product(rows, columns, K, query + at, N * K, 1, turned + low, row, scores, columns, 0);
            probabilities(first, rows, low, columns, starts, scale, scores, sums + first * N + head, N, 0);
            product(rows, K, keys, scores, columns, 1, value + (low * M + own) * K, M * K, attended + at, N * K, 0);
        }
    }
    free(turned);
}

void attend_backward(whole T, whole N, whole M, whole K, in query, in key, in value, const whole *starts, out sums,
    in gradient, out query_gradient, out key_gradient, out value_gradient) {
    const REAL scale = 1 / sqrt((double)K);
    const whole most = widest(T, starts), row = heads_row(T);
    REAL *turned_keys = scratch(2 * (K * row + QUERIES * most)), *turned_values = turned_keys + K * row;
    REAL *scores = turned_values + K * row, *through = scores + QUERIES * most;
    memset(key_gradient, 0, T * M * K * sizeof(REAL));
    memset(value_gradient, 0, T * M * K * sizeof(REAL));
    for (whole head = 0; head < N; head++) {
        const whole own = head / (N / M);
        if (head % (N / M) == 0) {
            transpose_heads(T, M, K, key + own * K, turned_keys);
            transpose_heads(T, M, K, value + own * K, turned_values);
        }
        for (whole first = 0; first < T; first += QUERIES) {
            const whole rows = smaller(QUERIES, T - first), low = starts[first], keys = first + rows - low;
            const whole columns = filled_up(keys), at = (first * N + head) * K, there = (low * M + own) * K;
            product(rows, columns, K, query + at, N * K, 1, turned_keys + low, row, scores, columns, 0);
            probabilities(first, rows, low, columns, starts, scale, scores, sums + first * N + head, N, 1);
            product(rows, columns, K, gradient + at, N * K, 1, turned_values + low, row, through, columns, 0);
            product(keys, K, rows, scores, 1, columns, gradient + at, N * K, value_gradient + there, M * K, 1);
            for (whole i = 0; i < rows; i++) {
                REAL *score = scores + i * columns, *own_through = through + i * columns;
                const REAL mean = dot(columns, score, own_through);
                for (whole j = 0; j < columns; j++) score[j] *= (own_through[j] - mean) * scale;
            }
            product(rows, K, keys, scores, columns, 1, key + there, M * K, query_gradient + at, N * K, 0);
            product(keys, K, rows, scores, 1, columns, query + at, N * K, key_gradient + there, M * K, 1);
        }
    }
    free(turned_keys);
}

/* ---- attention along the depth (section 3.4): D `keys` and `values`, pointers to [T, M, K] ---- */

/* All heads of token t. */
INLINE void see_depths(whole N, whole M, whole K, whole D, whole t, in query, REAL *const *keys,
    REAL *const *values, out attended, out scores) {
    const REAL scale = 1 / sqrt((double)K);
    for (whole head = 0; head < N; head++) {
        const whole at = (t * M + head / (N / M)) * K;
        const REAL *own = query + head * K;
        REAL *score = scores + head * D, *to = attended + head * K, most = -INFINITY, total = 0;
        for (whole d = 0; d < D; d++) {
            score[d] = dot(K, own, keys[d] + at) * scale;
            most = score[d] > most ? score[d] : most;
        }
        for (whole d = 0; d < D; d++) total += score[d] = exponential(score[d] - most);
        memset(to, 0, K * sizeof(REAL));
        for (whole d = 0; d < D; d++) {
            const REAL share = score[d] /= total, *value = values[d] + at;
            for (whole k = 0; k < K; k++) to[k] += share * value[k];
        }
    }
}

/* The gradients of keys and values lie behind each other, [D, T, M, K], `apart` = T M K. `through` [D] is spent. */
INLINE void see_depths_backward(whole N, whole M, whole K, whole D, whole t, in query, REAL *const *keys,
    REAL *const *values, in scores, in gradient, out query_gradient, out key_gradients, out value_gradients,
    whole apart, out through) {
    const REAL scale = 1 / sqrt((double)K);
    for (whole head = 0; head < N; head++) {
        const whole at = (t * M + head / (N / M)) * K, others = head % (N / M); /* that share its keys */
        const REAL *own = query + head * K, *score = scores + head * D, *from = gradient + head * K;
        REAL *to = query_gradient + head * K, mean = 0;
        for (whole d = 0; d < D; d++) {
            through[d] = dot(K, from, values[d] + at);
            mean += through[d] * score[d];
        }
        memset(to, 0, K * sizeof(REAL));
        for (whole d = 0; d < D; d++) {
            const REAL slope = score[d] * (through[d] - mean) * scale, *key = keys[d] + at;
            REAL *key_gradient = key_gradients + d * apart + at, *value_gradient = value_gradients + d * apart + at;
            for (whole k = 0; k < K; k++) {
                to[k] += slope * key[k];
                key_gradient[k] = (others ? key_gradient[k] : 0) + slope * own[k];
                value_gradient[k] = (others ? value_gradient[k] : 0) + score[d] * from[k];
            }
        }
    }
}

void depth_forward(whole T, whole N, whole M, whole K, whole D, in query, REAL *const *keys, REAL *const *values,
    out attended, out scores) {
    for (whole t = 0; t < T; t++)
        FOR_SIZE(K, see_depths(N, M, size, D, t, query + t * N * K, keys, values, attended + t * N * K,
                        scores + t * N * D));
}

void depth_backward(whole T, whole N, whole M, whole K, whole D, in query, REAL *const *keys, REAL *const *values,
    in scores, in gradient, out query_gradient, out key_gradients, out value_gradients) {
    REAL *through = scratch(D);
    for (whole t = 0; t < T; t++)
        FOR_SIZE(K, see_depths_backward(N, M, size, D, t, query + t * N * K, keys, values, scores + t * N * D,
                        gradient + t * N * K, query_gradient + t * N * K, key_gradients, value_gradients, T * M * K,
                        through));
    free(through);
}

/* ---- a whole attention with mixed projections: norm, routing, projections, heads, attention, and back ---- */

/* What the backward pass needs of the forward one, besides keys and values: projected queries and keys [T, (N + M) K]
   and what normalises them [T, N + M] in the experts' order, everything else in that of the tokens. native_parts.py
   knows how many numbers they are. */
typedef struct {
    REAL *norms, *q, *scales, *chosen, *scores, *projected, *head_scales, *query, *attended;
} kept_numbers;

static REAL *take(REAL **memory, whole count) { return (*memory += count) - count; }

static kept_numbers lay_out(whole T, whole R, whole N, whole M, whole K, REAL *memory) {
    kept_numbers own;
    own.norms = take(&memory, T);
    own.q = take(&memory, T * R);
    own.scales = take(&memory, T);
    own.chosen = take(&memory, T);
    own.scores = take(&memory, T);
    own.projected = take(&memory, T * (N + M) * K);
    own.head_scales = take(&memory, T * (N + M));
    own.query = take(&memory, T * N * K);
    own.attended = take(&memory, T * N * K);
    return own;
}

/* Along the sequence where there are `starts`, else along the depth, with D `keys` and `values` of which the last are
   `key` and `value`. Merged weights inward [E, H, O = (N + 2 M) K], outward [E, N K, H].
   `seen` are the sums [T, N] of attend_forward or the scores [T, N, D] of depth_forward; `kept` is laid out above;
   `places` [3, T] are ids, and order and tokens of the dispatch.

   Along the depth each token is by itself: what it sees, and the way back, come while its rows are in the cache. */
void attention_forward(whole T, whole H, whole R, whole E, whole N, whole M, whole K, whole D, double epsilon, in x,
    in gain, in router, in router_keys, in bias, in inward, in outward, in query_gain, in key_gain, in code,
    whole code_row, const whole *starts, REAL *const *keys, REAL *const *values, REAL *key, REAL *value,
    out seen, out kept, whole *places, int32_t *ends, out y) {
    const kept_numbers own = lay_out(T, R, N, M, K, kept);
    const whole *tokens = places + 2 * T, I = N * K, C = (N + M) * K, O = C + M * K;
    REAL *rows_in = scratch(BLOCK * (H + M * K + I + H)), *values_in = rows_in + BLOCK * H;
    REAL *memory = values_in + BLOCK * M * K;
    route_forward(T, H, R, E, 1, 0, epsilon, x, gain, router, router_keys, bias, own.norms, own.q, own.scales,
        own.chosen, own.scores, places, places + T, places + 2 * T, ends);
    EACH_BLOCK(E, ends) {
        const REAL *weights = inward + e * H * O;
        gather_normalised(rows, H, x, gain, own.norms, own.scores, tokens + begin, rows_in);
        fetching_product(
            rows, C, H, rows_in, H, 1, weights, O, own.projected + begin * C, C, 0, weights + H * O, H * O);
        product(rows, M * K, H, rows_in, H, 1, weights + C, O, values_in, M * K, 0);
        for (whole i = 0; i < rows; i++) {
            const whole place = begin + i, t = tokens[place];
            copy(M * K, values_in + i * M * K, value + t * M * K);
            FOR_SIZE(K, split_heads(N, M, size, own.projected + place * C, query_gain, key_gain, code + t * code_row,
                            epsilon, own.query + t * I, key + t * M * K, own.head_scales + place * (N + M)));
            if (!starts)
                FOR_SIZE(K, see_depths(N, M, size, D, t, own.query + t * I, keys, values, own.attended + t * I,
                                seen + t * N * D));
        }
        if (!starts)
            linear_forward(rows, I, H, own.attended, own.scores, outward + e * I * H, tokens + begin, memory, y);
    }
    if (starts) {
        attend_forward(T, N, M, K, own.query, key, value, starts, own.attended, seen);
        EACH_BLOCK(E, ends)
            linear_forward(rows, I, H, own.attended, own.scores, outward + e * I * H, tokens + begin, memory, y);
    }
    free(rows_in);
}

/* The last of `key_gradients` and `value_gradients` [D, T, M, K] are those of `key` and `value`; what these have from
   later depths, if anything, is added to them. The gradients of inward and outward, of which the transposed ones are
   given, are added to what they are. */
void attention_backward(whole T, whole H, whole R, whole E, whole N, whole M, whole K, whole D, in x, in gain,
    in router, in router_keys, in inward_turned, in outward_turned, in shared_inward, in shared_outward, in query_gain,
    in key_gain, in code, whole code_row, const whole *starts, REAL *const *keys, REAL *const *values, in key, in value,
    out seen, out kept, const whole *places, const int32_t *ends, in y_gradient, in later_key,
    in later_value, REAL *key_gradients, REAL *value_gradients, out x_gradient, out inward_gradient,
    out outward_gradient, out gain_gradient, out router_gradient, out router_keys_gradient, out query_gain_gradient,
    out key_gain_gradient) {
    const kept_numbers own = lay_out(T, R, N, M, K, kept);
    const whole *tokens = places + 2 * T, I = N * K, C = (N + M) * K, O = C + M * K;
    REAL *attended_gradient = scratch(2 * T * I + T + BLOCK * 4 * (H + O) + 2 * K + D);
    REAL *query_gradient = attended_gradient + T * I, *scores_gradient = query_gradient + T * I;
    REAL *rows_in = scores_gradient + T, *gradient = rows_in + BLOCK * H, *memory = gradient + BLOCK * O;
    REAL *of_head = memory + BLOCK * 3 * (H + O), *through = of_head + 2 * K;
    const whole last = (D - 1) * T * M * K;
    REAL *key_gradient = key_gradients + last, *value_gradient = value_gradients + last;
    memset(scores_gradient, 0, T * sizeof(REAL));
    memset(query_gain_gradient, 0, K * sizeof(REAL));
    memset(key_gain_gradient, 0, K * sizeof(REAL));
    if (starts) {
        EACH_BLOCK(E, ends)
            linear_backward(rows, I, H, own.attended, y_gradient, outward_turned + e * I * H, shared_outward,
                own.scores, tokens + begin, memory, attended_gradient, scores_gradient, outward_gradient + e * I * H);
        attend_backward(T, N, M, K, own.query, key, value, starts, seen, attended_gradient, query_gradient,
            key_gradient, value_gradient);
    }
    EACH_BLOCK(E, ends) {
        if (!starts)
            linear_backward(rows, I, H, own.attended, y_gradient, outward_turned + e * I * H, shared_outward,
                own.scores, tokens + begin, memory, attended_gradient, scores_gradient, outward_gradient + e * I * H);
        gather_normalised(rows, H, x, gain, own.norms, NULL, tokens + begin, rows_in);
        for (whole i = 0; i < rows; i++) {
            const whole place = begin + i, t = tokens[place], at = t * M * K;
            if (!starts)
                FOR_SIZE(K, see_depths_backward(N, M, size, D, t, own.query + t * I, keys, values, seen + t * N * D,
                                attended_gradient + t * I, query_gradient + t * I, key_gradients, value_gradients,
                                T * M * K, through));
            for (whole j = 0; later_key && j < M * K; j++) key_gradient[at + j] += later_key[at + j];
            for (whole j = 0; later_value && j < M * K; j++) value_gradient[at + j] += later_value[at + j];
            FOR_SIZE(K, split_heads_backward(N, M, size, own.projected + place * C, query_gain, key_gain,
                            code + t * code_row, own.head_scales + place * (N + M), query_gradient + t * I,
                            key_gradient + at, value_gradient + at, gradient + i * O, query_gain_gradient,
                            key_gain_gradient, of_head));
        }
        linear_rows_backward(rows, H, O, rows_in, gradient, inward_turned + e * H * O, shared_inward, own.scores,
            tokens + begin, memory, x_gradient, scores_gradient, inward_gradient + e * H * O);
    }
    route_backward(T, H, R, E, 1, 0, x, gain, router, router_keys, own.norms, own.q, own.scales, own.chosen, places,
        scores_gradient, x_gradient, gain_gradient, router_gradient, router_keys_gradient);
    free(attended_gradient);
}
