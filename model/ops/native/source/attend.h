/* Attention (Eq. 1) along the sequence and along the depth. Query head n reads key/value head n / (N / M). */

/* ---- along the sequence: token t attends to tokens starts[t] to t ---- */

/* Turn the scores of queries against the keys from key `low` on, [rows, columns], into probabilities e^(score - sum),
   zero outside of the token's document. `sums` holds each row's log-sum-exp: known in the backward pass, else found. */
static void softmax_rows(int64 first, int64 rows, int64 low, int64 columns, const int64 *starts, REAL scale,
    out scores, out sums, int64 sums_row, int known) {
    for (int64 i = 0; i < rows; i++, scores += columns, sums += sums_row) {
        const int64 begin = starts[first + i] - low, end = first + i + 1 - low;
        for (int64 j = 0; j < begin; j++) scores[j] = -INFINITY;
        for (int64 j = end; j < columns; j++) scores[j] = -INFINITY;
        const REAL less = known ? *sums : maximum(columns, scores) * scale;
        REAL total = 0;
        for (int64 j = 0; j < columns; j++) total += scores[j] = exponential(scores[j] * scale - less);
        if (known) continue;
        for (int64 j = 0; j < columns; j++) scores[j] /= total;
        *sums = less + log(total);
    }
}

/* Return the widest run of keys that a block of queries meets, in whole vectors. */
static int64 widest(int64 T, const int64 *starts) {
    int64 most = 0;
    for (int64 first = 0; first < T; first += QUERIES) {
        const int64 run = min(first + QUERIES, T) - starts[first];
        most = run > most ? run : most;
    }
    return round_up(most);
}

/* Return the row stride of transposed heads. Whole vectors are read, so numbers must follow the final key; and rows
   that lie powers of two apart would evict each other from the cache. */
static inline int64 heads_row(int64 T) { return round_up(T) + WIDTH; }

static void transpose_head(int64 T, int64 M, int64 K, in from, out into) {
    const int64 row = heads_row(T);
    transpose(T, K, from, M * K, into, row);
    for (int64 k = 0; k < K; k++) zero(row - T, into + k * row + T);
}

int attend_forward(int64 T, int64 N, int64 M, int64 K, in(query, T, N, K), in(key, T, M, K), in(value, T, M, K),
    in_int64(starts, T), out(attended, T, N, K), out(sums, T, N)) {
    const REAL scale = 1 / sqrt((double)K);
    const int64 row = heads_row(T);
    WORKSPACE(keys_transposed, K * row + QUERIES * widest(T, starts));
    REAL *scores = keys_transposed + K * row;
    for (int64 head = 0; head < N; head++) {
        const int64 group = head / (N / M);
        if (head % (N / M) == 0) transpose_head(T, M, K, key + group * K, keys_transposed);
        for (int64 first = 0; first < T; first += QUERIES) {
            const int64 rows = min(QUERIES, T - first), low = starts[first], keys = first + rows - low;
            const int64 columns = round_up(keys), at = (first * N + head) * K;
            gemm(rows, columns, K, query + at, N * K, 1, keys_transposed + low, row, scores, columns, 0);
            softmax_rows(first, rows, low, columns, starts, scale, scores, sums + first * N + head, N, 0);
            gemm(rows, K, keys, scores, columns, 1, value + (low * M + group) * K, M * K, attended + at, N * K, 0);
        }
    }
    return 0;
}

int attend_backward(int64 T, int64 N, int64 M, int64 K, in(query, T, N, K), in(key, T, M, K), in(value, T, M, K),
    in_int64(starts, T), out(sums, T, N), in(gradient, T, N, K), out(query_gradient, T, N, K),
    out(key_gradient, T, M, K), out(value_gradient, T, M, K)) {
    const REAL scale = 1 / sqrt((double)K);
    const int64 row = heads_row(T), wide = widest(T, starts);
    WORKSPACE(keys_transposed, 2 * (K * row + QUERIES * wide));
    REAL *values_transposed = keys_transposed + K * row, *scores = values_transposed + K * row;
    REAL *scores_gradient = scores + QUERIES * wide;
    zero(T * M * K, key_gradient);
    zero(T * M * K, value_gradient);
    for (int64 head = 0; head < N; head++) {
        const int64 group = head / (N / M);
        if (head % (N / M) == 0) {
            transpose_head(T, M, K, key + group * K, keys_transposed);
            transpose_head(T, M, K, value + group * K, values_transposed);
        }
        for (int64 first = 0; first < T; first += QUERIES) {
            const int64 rows = min(QUERIES, T - first), low = starts[first], keys = first + rows - low;
            const int64 columns = round_up(keys), at = (first * N + head) * K, seen = (low * M + group) * K;
            gemm(rows, columns, K, query + at, N * K, 1, keys_transposed + low, row, scores, columns, 0);
            softmax_rows(first, rows, low, columns, starts, scale, scores, sums + first * N + head, N, 1);
            gemm(rows, columns, K, gradient + at, N * K, 1, values_transposed + low, row, scores_gradient, columns, 0);
            gemm(keys, K, rows, scores, 1, columns, gradient + at, N * K, value_gradient + seen, M * K, 1);
            for (int64 i = 0; i < rows; i++) {
                REAL *score = scores + i * columns, *score_gradient = scores_gradient + i * columns;
                const REAL mean = dot(columns, score, score_gradient);
                for (int64 j = 0; j < columns; j++) score[j] *= (score_gradient[j] - mean) * scale;
            }
            gemm(rows, K, keys, scores, columns, 1, key + seen, M * K, query_gradient + at, N * K, 0);
            gemm(keys, K, rows, scores, 1, columns, query + at, N * K, key_gradient + seen, M * K, 1);
        }
    }
    return 0;
}

/* ---- along the depth (section 3.4): D `keys` and `values`, pointers to [T, M, K], of each token's own depths ---- */

/* Attend with all heads of token t. */
INLINE void attend_depths(int64 N, int64 M, int64 K, int64 D, int64 t, in query, REAL *const *keys,
    REAL *const *values, out attended, out scores) {
    const REAL scale = 1 / sqrt((double)K);
    for (int64 head = 0; head < N; head++) {
        const int64 at = (t * M + head / (N / M)) * K;
        REAL *score = scores + head * D, *into = attended + head * K, most = -INFINITY, total = 0;
        for (int64 d = 0; d < D; d++) {
            score[d] = dot(K, query + head * K, keys[d] + at) * scale;
            most = score[d] > most ? score[d] : most;
        }
        for (int64 d = 0; d < D; d++) total += score[d] = exponential(score[d] - most);
        zero(K, into);
        for (int64 d = 0; d < D; d++) {
            const REAL probability = score[d] /= total, *value = values[d] + at;
            for (int64 k = 0; k < K; k++) into[k] += probability * value[k];
        }
    }
}

/* Compute the gradients of token t: those of keys and values into [D, T, M, K], `stride` = T M K apart. `memory` [D] is
   overwritten. */
INLINE void attend_depths_backward(int64 N, int64 M, int64 K, int64 D, int64 t, in query, REAL *const *keys,
    REAL *const *values, in scores, in attended_gradient, out query_gradient, out keys_gradient, out values_gradient,
    int64 stride, out memory) {
    const REAL scale = 1 / sqrt((double)K);
    for (int64 head = 0; head < N; head++) {
        const int64 at = (t * M + head / (N / M)) * K, add = head % (N / M); /* to the group's other query heads */
        const REAL *own_query = query + head * K, *score = scores + head * D, *gradient = attended_gradient + head * K;
        REAL *into = query_gradient + head * K, mean = 0;
        for (int64 d = 0; d < D; d++) {
            memory[d] = dot(K, gradient, values[d] + at);
            mean += memory[d] * score[d];
        }
        zero(K, into);
        for (int64 d = 0; d < D; d++) {
            const REAL slope = score[d] * (memory[d] - mean) * scale, *key = keys[d] + at;
            REAL *key_gradient = keys_gradient + d * stride + at, *value_gradient = values_gradient + d * stride + at;
            for (int64 k = 0; k < K; k++) {
                into[k] += slope * key[k];
                key_gradient[k] = (add ? key_gradient[k] : 0) + slope * own_query[k];
                value_gradient[k] = (add ? value_gradient[k] : 0) + score[d] * gradient[k];
            }
        }
    }
}

int depth_forward(int64 T, int64 N, int64 M, int64 K, int64 D, in(query, T, N, K), in_list(keys, D, T, M, K),
    in_list(values, D, T, M, K), out(attended, T, N, K), out(scores, T, N, D)) {
    for (int64 t = 0; t < T; t++)
        FOR_SIZE(K, attend_depths(N, M, size, D, t, query + t * N * K, keys, values, attended + t * N * K,
                        scores + t * N * D));
    return 0;
}

int depth_backward(int64 T, int64 N, int64 M, int64 K, int64 D, in(query, T, N, K), in_list(keys, D, T, M, K),
    in_list(values, D, T, M, K), in(scores, T, N, D), in(gradient, T, N, K), out(query_gradient, T, N, K),
    out(keys_gradient, D, T, M, K), out(values_gradient, D, T, M, K)) {
    WORKSPACE(memory, D);
    for (int64 t = 0; t < T; t++)
        FOR_SIZE(K, attend_depths_backward(N, M, size, D, t, query + t * N * K, keys, values, scores + t * N * D,
                        gradient + t * N * K, query_gradient + t * N * K, keys_gradient, values_gradient, T * M * K,
                        memory));
    return 0;
}
