/* The hot loops of training on one CPU core, called by native_kernels.py and compiled by native.py; kernels.py says
   what they compute.

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

static out scratch(whole count) {
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
        int32_t bits;
        float power;
    } scale = {.bits = ((int32_t)n + 127) << 23};
    return x < -87.0f ? 0 : p * scale.power;
}

static inline REAL sigmoid(REAL x) { return 1 / (1 + exponential(-x)); }

/* One tile of a product, all of it in registers: c [rows, vectors * WIDTH] (+)= a [rows, k] b. */
static inline __attribute__((always_inline)) void tile(const int rows, const int vectors, whole k, in a, whole a_row,
    whole a_column, in b, whole b_row, out c, whole c_row, int add) {
    vector sum[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sum[r][v] = add ? *(const vector *)(c + r * c_row + v * WIDTH) : (vector){0};
    for (whole p = 0; p < k; p++) {
        vector right[VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) right[v] = *(const vector *)(b + p * b_row + v * WIDTH);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const REAL left = a[r * a_row + p * a_column];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) sum[r][v] += left * right[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) *(vector *)(c + r * c_row + v * WIDTH) = sum[r][v];
}

/* `vectors` columns of tiles, one below the other. */
static inline __attribute__((always_inline)) void tiles(const int vectors, whole m, whole k, in a, whole a_row,
    whole a_column, in b, whole b_row, out c, whole c_row, int add) {
    for (; m >= ROWS; m -= ROWS, a += ROWS * a_row, c += ROWS * c_row)
        tile(ROWS, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add);
    switch (m) {
    case 5: tile(5, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add); break;
    case 4: tile(4, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add); break;
    case 3: tile(3, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add); break;
    case 2: tile(2, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add); break;
    case 1: tile(1, vectors, k, a, a_row, a_column, b, b_row, c, c_row, add); break;
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
                begin > 0);
        }
        for (whole i = 0; i < rows; i++)
            for (whole j = 0; j < n; j++) {
                REAL *to = c + (top + i) * c_row + j;
                *to = add ? *to + sums[i * WIDTH + j] : sums[i * WIDTH + j];
            }
    }
}

/* c [m, n] (+)= a [m, k] b [k, n]; a is read by its two strides, so it may be a transposed one. */
static void product(
    whole m, whole n, whole k, in a, whole a_row, whole a_column, in b, whole b_row, out c, whole c_row, int add) {
    for (; n >= VECTORS * WIDTH; n -= VECTORS * WIDTH, b += VECTORS * WIDTH, c += VECTORS * WIDTH)
        tiles(VECTORS, m, k, a, a_row, a_column, b, b_row, c, c_row, add);
    for (; VECTORS > 2 && n >= 2 * WIDTH; n -= 2 * WIDTH, b += 2 * WIDTH, c += 2 * WIDTH)
        tiles(2, m, k, a, a_row, a_column, b, b_row, c, c_row, add);
    for (; n >= WIDTH; n -= WIDTH, b += WIDTH, c += WIDTH) tiles(1, m, k, a, a_row, a_column, b, b_row, c, c_row, add);
    if (n) narrow_product(m, n, k, a, a_row, a_column, b, b_row, c, c_row, add);
}

/* [rows, columns] with a row stride -> dense [columns, rows]. */
static void transpose(whole rows, whole columns, in from, whole row, out to) {
    for (whole begin = 0; begin < rows; begin += WIDTH)
        for (whole j = 0; j < columns; j++)
            for (whole i = begin; i < smaller(begin + WIDTH, rows); i++) to[j * rows + i] = from[i * row + j];
}

static void gather(whole rows, whole width, in from, const whole *tokens, out to) {
    for (whole i = 0; i < rows; i++) memcpy(to + i * width, from + tokens[i] * width, width * sizeof(REAL));
}

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

static void gather_normalised(whole rows, whole H, in x, in gain, in scales, const whole *tokens, out to) {
    for (whole i = 0; i < rows; i++) normalise(H, x + tokens[i] * H, gain, scales[tokens[i]], to + i * H);
}

static inline void normalise_backward(
    whole H, in x, in gain, REAL scale, in y_gradient, out x_gradient, out gain_gradient) {
    REAL along = 0;
    for (whole i = 0; i < H; i++) {
        const REAL through = y_gradient[i] * x[i] * scale;
        gain_gradient[i] += through;
        along += through * gain[i];
    }
    along *= scale / H;
    for (whole i = 0; i < H; i++) x_gradient[i] = (y_gradient[i] * gain[i] - along * x[i]) * scale;
}

static void norm_scales(whole T, whole H, in x, double epsilon, out scales) {
    for (whole t = 0; t < T; t++) scales[t] = norm_scale(H, x + t * H, epsilon);
}

void norm_forward(whole T, whole H, in x, in gain, double epsilon, out y, out scales) {
    for (whole t = 0; t < T; t++, x += H, y += H) normalise(H, x, gain, scales[t] = norm_scale(H, x, epsilon), y);
}

void norm_backward(whole T, whole H, in x, in gain, in scales, in y_gradient, out x_gradient, out gain_gradient) {
    memset(gain_gradient, 0, H * sizeof(REAL));
    for (whole t = 0; t < T; t++, x += H, y_gradient += H, x_gradient += H)
        normalise_backward(H, x, gain, scales[t], y_gradient, x_gradient, gain_gradient);
}

/* ---- routing (Eq. 2), of x [T, H] behind a norm where there is a gain ---- */

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
                for (whole e = 1; e < E; e++) best = biased[e] > biased[best] ? e : best;
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
    in norms, in q, in scales, in chosen, const whole *ids, in weights_gradient, out rows, out gain_gradient,
    out query_gradient, out keys_gradient) {
    REAL *turned = scratch(H * R + BLOCK * (R + 2 * H + A)), *q_gradient = turned + H * R;
    REAL *rows_in = q_gradient + BLOCK * R, *gradient = rows_in + BLOCK * H, *opened = gradient + BLOCK * H;
    transpose(H, R, query, R, turned);
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
        memcpy(gradient, rows + begin * H, count * H * sizeof(REAL));
        product(count, H, R, q_gradient, R, 1, turned, H, gradient, H, 1);
        product(H, R, count, own_x, 1, H, q_gradient, R, query_gradient, R, 1);
        if (!gain) memcpy(rows + begin * H, gradient, count * H * sizeof(REAL));
        for (whole i = 0, t = begin; gain && i < count; i++, t++)
            normalise_backward(H, x + t * H, gain, norms[t], gradient + i * H, rows + t * H, gain_gradient);
    }
    free(turned);
}

/* ---- linear experts, one for each token (Eq. 7) ---- */

/* The backward pass of the `rows` tokens `own` of one expert: rows_in [rows, I] times its weights, times the scores.
   `turned` are its weights transposed, `shared` the shared ones, transposed too, where there are any. Rows_in is spent.
   To the gradients of scores and weights this is added. */
static void linear_backward(whole rows, whole I, whole O, REAL *rows_in, in gradient, in turned, in shared, in scores,
    const whole *own, REAL *through, out x_gradient, out scores_gradient, out weights_gradient) {
    REAL *shared_through = through + BLOCK * I;
    product(rows, I, O, gradient, O, 1, turned, I, through, I, 0);
    if (shared) product(rows, I, O, gradient, O, 1, shared, I, shared_through, I, 0);
    for (whole i = 0; i < rows; i++) {
        const REAL score = scores[own[i]], *from = through + i * I;
        REAL *to = x_gradient + own[i] * I, *row = rows_in + i * I;
        scores_gradient[own[i]] += dot(I, from, row) - (shared ? dot(I, shared_through + i * I, row) : 0);
        for (whole j = 0; j < I; j++) {
            to[j] = from[j] * score;
            row[j] *= score;
        }
    }
    product(I, O, rows, rows_in, 1, I, gradient, O, weights_gradient, O, 1);
}

/* Weights [E, I, O] to dense [E, O, I]. */
void transpose_weights(whole E, whole I, whole O, in weights, out turned) {
    for (whole e = 0; e < E; e++) transpose(I, O, weights + e * I * O, O, turned + e * I * O);
}

void mixed_forward(
    whole E, whole I, whole O, in x, in scores, in merged, const whole *tokens, const int32_t *ends, out y) {
    REAL *rows_in = scratch(BLOCK * (I + O)), *rows_out = rows_in + BLOCK * I;
    for (whole e = 0, begin = 0; e < E; e++, merged += I * O)
        for (whole rows; begin < ends[e]; begin += rows) {
            const whole *own = tokens + begin;
            rows = next_rows(ends[e] - begin);
            gather(rows, I, x, tokens + begin, rows_in);
            product(rows, O, I, rows_in, I, 1, merged, O, rows_out, O, 0);
            for (whole i = 0; i < rows; i++) {
                const REAL score = scores[own[i]], *from = rows_out + i * O;
                REAL *to = y + own[i] * O;
                for (whole o = 0; o < O; o++) to[o] = from[o] * score;
            }
        }
    free(rows_in);
}

/* `turned` are the merged weights and `shared` the shared ones, transposed. The merged ones' gradient [E, I, O] is
   added to what it is. */
void mixed_backward(whole T, whole E, whole I, whole O, in x, in scores, in turned, in shared, const whole *tokens,
    const int32_t *ends, in y_gradient, out x_gradient, out scores_gradient, out weights_gradient) {
    REAL *rows_in = scratch(BLOCK * (3 * I + O)), *through = rows_in + BLOCK * I, *gradient = through + BLOCK * 2 * I;
    memset(scores_gradient, 0, T * sizeof(REAL));
    for (whole e = 0, begin = 0; e < E; e++, turned += I * O, weights_gradient += I * O)
        for (whole rows; begin < ends[e]; begin += rows) {
            rows = next_rows(ends[e] - begin);
            gather(rows, I, x, tokens + begin, rows_in);
            gather(rows, O, y_gradient, tokens + begin, gradient);
            linear_backward(rows, I, O, rows_in, gradient, turned, shared, scores, tokens + begin, through, x_gradient,
                scores_gradient, weights_gradient);
        }
    free(rows_in);
}

/* ---- entering an attention: a norm, the projections, and their heads turned and normalised ---- */

/* One token's fused projections to queries and keys, turned and normalised, and values. */
static inline void split_heads(whole N, whole M, whole K, in projected, in query_gain, in key_gain, in code,
    double epsilon, out query, out key, out value, out scales) {
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
    memcpy(value, projected + (N + M) * K, M * K * sizeof(REAL));
}

/* `memory` [2 K] is spent. */
static inline void split_heads_backward(whole N, whole M, whole K, in projected, in query_gain, in key_gain, in code,
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
    memcpy(gradient + (N + M) * K, value_gradient, M * K * sizeof(REAL));
}

/* Heads alone, of projected [T, (N + 2 M) K]. */
void heads_forward(whole T, whole N, whole M, whole K, double epsilon, in projected, in query_gain, in key_gain,
    in code, whole code_row, out query, out key, out value, out scales) {
    for (whole t = 0; t < T; t++)
        split_heads(N, M, K, projected + t * (N + 2 * M) * K, query_gain, key_gain, code + t * code_row, epsilon,
            query + t * N * K, key + t * M * K, value + t * M * K, scales + t * (N + M));
}

void heads_backward(whole T, whole N, whole M, whole K, in projected, in query_gain, in key_gain, in code,
    whole code_row, in scales, in query_gradient, in key_gradient, in value_gradient, out gradient,
    out query_gain_gradient, out key_gain_gradient) {
    REAL *memory = scratch(2 * K);
    memset(query_gain_gradient, 0, K * sizeof(REAL));
    memset(key_gain_gradient, 0, K * sizeof(REAL));
    for (whole t = 0; t < T; t++)
        split_heads_backward(N, M, K, projected + t * (N + 2 * M) * K, query_gain, key_gain, code + t * code_row,
            scales + t * (N + M), query_gradient + t * N * K, key_gradient + t * M * K, value_gradient + t * M * K,
            gradient + t * (N + 2 * M) * K, query_gain_gradient, key_gain_gradient, memory);
    free(memory);
}

/* `projected` [T, O = (N + 2 M) K] and `head_scales` [T, N + M], in the experts' order, are kept for the backward
   pass. Weights [E, H, O]. */
void enter_forward(whole H, whole N, whole M, whole K, whole E, double epsilon, in x, in gain, in norms, in scores,
    in weights, const whole *tokens, const int32_t *ends, in query_gain, in key_gain, in code, whole code_row,
    out projected, out head_scales, out query, out key, out value) {
    const whole O = (N + 2 * M) * K;
    REAL *rows_in = scratch(BLOCK * H);
    for (whole e = 0, begin = 0; e < E; e++, weights += H * O)
        for (whole rows; begin < ends[e]; begin += rows) {
            rows = next_rows(ends[e] - begin);
            gather_normalised(rows, H, x, gain, norms, tokens + begin, rows_in);
            product(rows, O, H, rows_in, H, 1, weights, O, projected + begin * O, O, 0);
            for (whole i = begin; i < begin + rows; i++) {
                const whole t = tokens[i];
                REAL *own = projected + i * O;
                for (whole o = 0; o < O; o++) own[o] *= scores[t];
                split_heads(N, M, K, own, query_gain, key_gain, code + t * code_row, epsilon, query + t * N * K,
                    key + t * M * K, value + t * M * K, head_scales + i * (N + M));
            }
        }
    free(rows_in);
}

/* `rows_gradient` [T, H] is that of normalised x; those of scores and merged weights are added to what they are. */
void enter_backward(whole H, whole N, whole M, whole K, whole E, in x, in gain, in norms, in scores, in turned,
    in shared, const whole *tokens, const int32_t *ends, in query_gain, in key_gain, in code, whole code_row,
    in projected, in head_scales, in query_gradient, in key_gradient, in value_gradient, out rows_gradient,
    out scores_gradient, out weights_gradient, out query_gain_gradient, out key_gain_gradient) {
    const whole O = (N + 2 * M) * K;
    REAL *rows_in = scratch(BLOCK * (3 * H + O) + 2 * K);
    REAL *through = rows_in + BLOCK * H, *gradient = through + BLOCK * 2 * H, *memory = gradient + BLOCK * O;
    memset(query_gain_gradient, 0, K * sizeof(REAL));
    memset(key_gain_gradient, 0, K * sizeof(REAL));
    for (whole e = 0, begin = 0; e < E; e++, turned += H * O, weights_gradient += H * O)
        for (whole rows; begin < ends[e]; begin += rows) {
            rows = next_rows(ends[e] - begin);
            gather_normalised(rows, H, x, gain, norms, tokens + begin, rows_in);
            for (whole i = 0; i < rows; i++) {
                const whole t = tokens[begin + i];
                split_heads_backward(N, M, K, projected + (begin + i) * O, query_gain, key_gain, code + t * code_row,
                    head_scales + (begin + i) * (N + M), query_gradient + t * N * K, key_gradient + t * M * K,
                    value_gradient + t * M * K, gradient + i * O, query_gain_gradient, key_gain_gradient, memory);
            }
            linear_backward(rows, H, O, rows_in, gradient, turned, shared, scores, tokens + begin, through,
                rows_gradient, scores_gradient, weights_gradient);
        }
    free(rows_in);
}

/* ---- SwiGLU experts (section 3.5) of normalised x ---- */

/* `projected` [P, 2F], gate and up side by side in the experts' order, is kept for the backward pass. */
void swiglu_forward(whole T, whole E, whole H, whole F, in x, in gain, in norms, in weights, in inward, in outward,
    const whole *order, const whole *tokens, const int32_t *ends, out projected, out y) {
    REAL *rows_in = scratch(BLOCK * (2 * H + F)), *rows_out = rows_in + BLOCK * H, *hidden = rows_out + BLOCK * H;
    memset(y, 0, T * H * sizeof(REAL));
    for (whole e = 0, begin = 0; e < E; e++, inward += 2 * F * H, outward += F * H)
        for (whole rows; begin < ends[e]; begin += rows) {
            const whole *own = tokens + begin;
            rows = next_rows(ends[e] - begin);
            gather_normalised(rows, H, x, gain, norms, tokens + begin, rows_in);
            product(rows, 2 * F, H, rows_in, H, 1, inward, 2 * F, projected + begin * 2 * F, 2 * F, 0);
            for (whole i = 0; i < rows; i++) {
                const REAL weight = weights[order[begin + i]], *gate = projected + (begin + i) * 2 * F, *up = gate + F;
                REAL *to = hidden + i * F;
                for (whole f = 0; f < F; f++) to[f] = gate[f] * sigmoid(gate[f]) * up[f] * weight;
            }
            product(rows, H, F, hidden, F, 1, outward, H, rows_out, H, 0);
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
    for (whole e = 0, begin = 0; e < E; e++) {
        for (whole rows; begin < ends[e]; begin += rows) {
            const whole *own = tokens + begin;
            rows = next_rows(ends[e] - begin);
            gather_normalised(rows, H, x, gain, norms, tokens + begin, rows_in);
            gather(rows, H, y_gradient, tokens + begin, gradient);
            product(rows, F, H, gradient, H, 1, outward_turned, F, through, F, 0);
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
            product(F, H, rows, hidden, 1, F, gradient, H, outward_gradient, H, 1);
            product(H, 2 * F, rows, rows_in, 1, H, projected_gradient, 2 * F, inward_gradient, 2 * F, 1);
            product(rows, H, 2 * F, projected_gradient, 2 * F, 1, inward_turned, H, rows_out, H, 0);
            for (whole i = 0; i < rows; i++) {
                REAL *to = rows_gradient + own[i] * H, *from = rows_out + i * H;
                for (whole h = 0; h < H; h++) to[h] += from[h];
            }
        }
        inward_turned += 2 * F * H, outward_turned += F * H, inward_gradient += 2 * F * H, outward_gradient += F * H;
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

/* Keys are met in whole vectors, so beyond the last one some more numbers must be there to be read. */
static void transpose_heads(whole T, whole M, whole K, in from, out to) {
    transpose(T, K, from, M * K, to);
    memset(to + K * T, 0, WIDTH * sizeof(REAL));
}

void attend_forward(
    whole T, whole N, whole M, whole K, in query, in key, in value, const whole *starts, out attended, out sums) {
    const REAL scale = 1 / sqrt((double)K);
    REAL *turned = scratch(K * T + WIDTH + QUERIES * widest(T, starts)), *scores = turned + K * T + WIDTH;
    for (whole head = 0; head < N; head++) {
        const whole own = head / (N / M);
        if (head % (N / M) == 0) transpose_heads(T, M, K, key + own * K, turned);
        for (whole first = 0; first < T; first += QUERIES) {
            const whole rows = smaller(QUERIES, T - first), low = starts[first], keys = first + rows - low;
            const whole columns = filled_up(keys), at = (first * N + head) * K;
            product(rows, columns, K, query + at, N * K, 1, turned + low, T, scores, columns, 0);
            probabilities(first, rows, low, columns, starts, scale, scores, sums + first * N + head, N, 0);
            product(rows, K, keys, scores, columns, 1, value + (low * M + own) * K, M * K, attended + at, N * K, 0);
        }
    }
    free(turned);
}

void attend_backward(whole T, whole N, whole M, whole K, in query, in key, in value, const whole *starts, out sums,
    in gradient, out query_gradient, out key_gradient, out value_gradient) {
    const REAL scale = 1 / sqrt((double)K);
    const whole most = widest(T, starts);
    REAL *turned_keys = scratch(2 * (K * T + WIDTH + QUERIES * most)), *turned_values = turned_keys + K * T + WIDTH;
    REAL *scores = turned_values + K * T + WIDTH, *through = scores + QUERIES * most;
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
            product(rows, columns, K, query + at, N * K, 1, turned_keys + low, T, scores, columns, 0);
            probabilities(first, rows, low, columns, starts, scale, scores, sums + first * N + head, N, 1);
            product(rows, columns, K, gradient + at, N * K, 1, turned_values + low, T, through, columns, 0);
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

/* ---- attention along the depth (section 3.4): D entries, `keys` and `values` are arrays of pointers to [T, M, K] ---- */

void depth_forward(whole T, whole N, whole M, whole K, whole D, in query, out const *keys, out const *values,
    out attended, out scores) {
    const REAL scale = 1 / sqrt((double)K);
    for (whole row = 0; row < T * N; row++, query += K, attended += K, scores += D) {
        const whole at = (row / N * M + row % N / (N / M)) * K;
        REAL most = -INFINITY, total = 0;
        for (whole d = 0; d < D; d++) {
            scores[d] = dot(K, query, keys[d] + at) * scale;
            most = scores[d] > most ? scores[d] : most;
        }
        for (whole d = 0; d < D; d++) total += scores[d] = exponential(scores[d] - most);
        memset(attended, 0, K * sizeof(REAL));
        for (whole d = 0; d < D; d++) {
            const REAL score = scores[d] /= total, *value = values[d] + at;
            for (whole k = 0; k < K; k++) attended[k] += score * value[k];
        }
    }
}

/* The gradients of keys and values lie behind each other: [D, T, M, K]. */
void depth_backward(whole T, whole N, whole M, whole K, whole D, in query, out const *keys, out const *values,
    in scores, in gradient, out query_gradient, out key_gradients, out value_gradients) {
    const REAL scale = 1 / sqrt((double)K);
    const whole size = T * M * K;
    REAL *through = scratch(D);
    if (N != M) {
        memset(key_gradients, 0, D * size * sizeof(REAL));
        memset(value_gradients, 0, D * size * sizeof(REAL));
    }
    for (whole row = 0; row < T * N; row++, query += K, gradient += K, query_gradient += K, scores += D) {
        const whole at = (row / N * M + row % N / (N / M)) * K;
        REAL mean = 0;
        for (whole d = 0; d < D; d++) {
            through[d] = dot(K, gradient, values[d] + at);
            mean += through[d] * scores[d];
        }
        memset(query_gradient, 0, K * sizeof(REAL));
        for (whole d = 0; d < D; d++) {
            const REAL score = scores[d], slope = score * (through[d] - mean) * scale, *key = keys[d] + at;
            REAL *key_gradient = key_gradients + d * size + at, *value_gradient = value_gradients + d * size + at;
            for (whole k = 0; k < K; k++) query_gradient[k] += slope * key[k];
            if (N == M)
                for (whole k = 0; k < K; k++)
                    key_gradient[k] = slope * query[k], value_gradient[k] = score * gradient[k];
            else
                for (whole k = 0; k < K; k++)
                    key_gradient[k] += slope * query[k], value_gradient[k] += score * gradient[k];
        }
    }
    free(through);
}
