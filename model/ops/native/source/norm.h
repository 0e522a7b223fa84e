/* RMSNorm, and rotary position codes (RoPE) with the norms behind them: of routing keys and of attention heads.

   A code [K] holds K/2 pairs (cosine, sine); pair i rotates (x[2i], x[2i + 1]). */

static inline REAL norm_scale(int64 H, in x, double epsilon) { return 1 / sqrt(dot(H, x, x) / H + (REAL)epsilon); }

static inline void normalise(int64 H, in x, in gain, REAL scale, out y) {
    for (int64 i = 0; i < H; i++) y[i] = x[i] * scale * gain[i];
}

/* Gather rows of x, normalised, and times the `scores` of their tokens where there are scores. */
static void gather_normalised(
    int64 rows, int64 H, in x, in gain, in scales, in scores, const int64 *tokens, out into) {
    for (int64 i = 0; i < rows; i++) {
        const int64 t = tokens[i];
        normalise(H, x + t * H, gain, scores ? scales[t] * scores[t] : scales[t], into + i * H);
    }
}

/* Replace the gradient of the normalised row by the gradient of x. The gradient of the gain is added to. */
static inline void normalise_backward(int64 H, in x, in gain, REAL scale, out gradient, out gain_gradient) {
    REAL along = 0;
    for (int64 i = 0; i < H; i++) {
        const REAL product = gradient[i] * x[i] * scale;
        gain_gradient[i] += product;
        along += product * gain[i];
    }
    along *= scale / H;
    for (int64 i = 0; i < H; i++) gradient[i] = (gradient[i] * gain[i] - along * x[i]) * scale;
}

int norm_forward(int64 T, int64 H, double epsilon, in(x, T, H), in(gain, H), out(y, T, H), out(scales, T)) {
    for (int64 t = 0; t < T; t++, x += H, y += H) normalise(H, x, gain, scales[t] = norm_scale(H, x, epsilon), y);
    return 0;
}

int norm_backward(int64 T, int64 H, in(x, T, H), in(gain, H), in(scales, T), in(y_gradient, T, H),
    out(x_gradient, T, H), out(gain_gradient, H)) {
    zero(H, gain_gradient);
    for (int64 t = 0; t < T; t++, x += H, y_gradient += H, x_gradient += H) {
        memcpy(x_gradient, y_gradient, H * sizeof(REAL));
        normalise_backward(H, x, gain, scales[t], x_gradient, gain_gradient);
    }
    return 0;
}

/* ---- routing keys ---- */

/* Rotate the pairs of x [K] by the angles of `code`; backwards with `sign` -1. */
static inline void rotate(int64 K, in x, in code, REAL sign, out y) {
    for (int64 i = 0; i < K; i += 2) {
        const REAL cosine = code[i], sine = sign * code[i + 1];
        y[i] = x[i] * cosine - x[i + 1] * sine;
        y[i + 1] = x[i + 1] * cosine + x[i] * sine;
    }
}

/* Normalise keys [E, R], multiply by gain / sqrt(R), and rotate backwards by the code [R] of each of L depths:
   `prepared` [L, E, R]. Rotating all queries of a depth forwards would give the same scores at a higher cost. */
int keys_forward(int64 L, int64 E, int64 R, double epsilon, in(keys, E, R), in(gain, R), in_or_null(code, L, R),
    out(prepared, L, E, R), out(scales, E)) {
    WORKSPACE(normalised, 2 * R);
    REAL *factor = normalised + R;
    for (int64 r = 0; r < R; r++) factor[r] = gain[r] / sqrt((double)R);
    for (int64 e = 0; e < E; e++, keys += R, prepared += R) {
        normalise(R, keys, factor, scales[e] = norm_scale(R, keys, epsilon), normalised);
        if (!code) memcpy(prepared, normalised, R * sizeof(REAL));
        for (int64 l = 0; code && l < L; l++) rotate(R, normalised, code + l * R, -1, prepared + l * E * R);
    }
    return 0;
}

int keys_backward(int64 L, int64 E, int64 R, in(keys, E, R), in(gain, R), in_or_null(code, L, R), in(scales, E),
    in_list(prepared_gradients, L, E, R), out(keys_gradient, E, R), out(gain_gradient, R)) {
    WORKSPACE(rotated, 2 * R);
    REAL *factor = rotated + R;
    const REAL root = 1 / sqrt((double)R);
    for (int64 r = 0; r < R; r++) factor[r] = gain[r] * root;
    zero(E * R, keys_gradient);
    zero(R, gain_gradient);
    for (int64 e = 0; e < E; e++) {
        REAL *key_gradient = keys_gradient + e * R;
        for (int64 l = 0; l < L; l++) {
            const REAL *gradient = prepared_gradients[l] + e * R;
            if (code) rotate(R, gradient, code + l * R, 1, rotated), gradient = rotated;
            for (int64 r = 0; r < R; r++) key_gradient[r] += gradient[r];
        }
        normalise_backward(R, keys + e * R, factor, scales[e], key_gradient, gain_gradient);
    }
    for (int64 r = 0; r < R; r++) gain_gradient[r] *= root;
    return 0;
}

/* ---- heads of an attention ---- */

/* Rotate, then normalise, the N query and M key heads in one token's projections. */
INLINE void rotate_heads(int64 N, int64 M, int64 K, double epsilon, in projected, in query_gain, in key_gain, in code,
    out query, out key, out scales) {
    for (int64 head = 0; head < N + M; head++) {
        const REAL *x = projected + head * K, *gain = head < N ? query_gain : key_gain;
        REAL *y = head < N ? query + head * K : key + (head - N) * K;
        const REAL scale = scales[head] = norm_scale(K, x, epsilon);
        for (int64 i = 0; i < K; i += 2) {
            const REAL cosine = code[i] * scale, sine = code[i + 1] * scale;
            y[i] = (x[i] * cosine - x[i + 1] * sine) * gain[i];
            y[i + 1] = (x[i + 1] * cosine + x[i] * sine) * gain[i + 1];
        }
    }
}

/* Compute the gradient of one token's projections to queries, keys and values. `memory` [2 K] is overwritten. */
INLINE void rotate_heads_backward(int64 N, int64 M, int64 K, in projected, in query_gain, in key_gain, in code,
    in scales, in query_gradient, in key_gradient, in value_gradient, out projected_gradient, out query_gain_gradient,
    out key_gain_gradient, out memory) {
    REAL *normalised = memory, *gradient = memory + K;
    for (int64 head = 0; head < N + M; head++) {
        const REAL *x = projected + head * K, *gain = head < N ? query_gain : key_gain, scale = scales[head];
        const REAL *y_gradient = head < N ? query_gradient + head * K : key_gradient + (head - N) * K;
        REAL *gain_gradient = head < N ? query_gain_gradient : key_gain_gradient;
        REAL *x_gradient = projected_gradient + head * K;
        for (int64 i = 0; i < K; i += 2) {
            normalised[i] = (x[i] * code[i] - x[i + 1] * code[i + 1]) * scale;
            normalised[i + 1] = (x[i + 1] * code[i] + x[i] * code[i + 1]) * scale;
        }
        for (int64 i = 0; i < K; i++) {
            gain_gradient[i] += y_gradient[i] * normalised[i];
            gradient[i] = y_gradient[i] * gain[i];
        }
        const REAL along = dot(K, gradient, normalised) / K;
        for (int64 i = 0; i < K; i++) gradient[i] = (gradient[i] - along * normalised[i]) * scale;
        rotate(K, gradient, code, -1, x_gradient);
    }
    copy(M * K, value_gradient, projected_gradient + (N + M) * K);
}

/* Return the row stride of C codes: C is 1 (one code for all tokens) or T. */
INLINE int64 code_stride(int64 C, int64 K) { return C == 1 ? 0 : K; }

/* Split projections [T, (N + 2 M) K] into rotated and normalised queries and keys, and values. */
int heads_forward(int64 T, int64 N, int64 M, int64 K, int64 C, double epsilon, in(projected, T, (N + 2 * M) * K),
    in(query_gain, K), in(key_gain, K), in(code, C, K), out(query, T, N, K), out(key, T, M, K), out(value, T, M, K),
    out(scales, T, N + M)) {
    for (int64 t = 0; t < T; t++, projected += (N + 2 * M) * K, code += code_stride(C, K)) {
        FOR_SIZE(K, rotate_heads(N, M, size, epsilon, projected, query_gain, key_gain, code, query + t * N * K,
                        key + t * M * K, scales + t * (N + M)));
        copy(M * K, projected + (N + M) * K, value + t * M * K);
    }
    return 0;
}

int heads_backward(int64 T, int64 N, int64 M, int64 K, int64 C, in(projected, T, (N + 2 * M) * K), in(query_gain, K),
    in(key_gain, K), in(code, C, K), in(scales, T, N + M), in(query_gradient, T, N, K), in(key_gradient, T, M, K),
    in(value_gradient, T, M, K), out(projected_gradient, T, (N + 2 * M) * K), out(query_gain_gradient, K),
    out(key_gain_gradient, K)) {
    WORKSPACE(memory, 2 * K);
    zero(K, query_gain_gradient);
    zero(K, key_gain_gradient);
    for (int64 t = 0; t < T; t++, code += code_stride(C, K))
        FOR_SIZE(K, rotate_heads_backward(N, M, size, projected + t * (N + 2 * M) * K, query_gain, key_gain, code,
                        scales + t * (N + M), query_gradient + t * N * K, key_gradient + t * M * K,
                        value_gradient + t * M * K, projected_gradient + t * (N + 2 * M) * K, query_gain_gradient,
                        key_gain_gradient, memory));
    return 0;
}
