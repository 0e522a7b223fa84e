/* Routing (Eq. 2): each token's A experts, their scores, and the token-expert pairs sorted by expert. */

/* Sort the P pairs by expert, stably (counting sort). Pair i belongs to token i / A.

   Example: A = 2, E = 3, ids = {2, 0, 0, 1} (token 0 chose experts 2 and 0, token 1 chose 0 and 1) gives
   order = {1, 2, 3, 0}, tokens = {0, 1, 1, 0}, ends = {2, 3, 4}: rows 0 and 1 are expert 0's, row 2 is expert 1's. */
static void dispatch(int64 P, int64 A, int64 E, const int64 *ids, int64 *order, int64 *tokens, int32_t *ends) {
    memset(ends, 0, E * sizeof(int32_t));
    for (int64 i = 0; i < P; i++) ends[ids[i]]++;
    for (int64 e = 1; e < E; e++) ends[e] += ends[e - 1];
    for (int64 i = P - 1; i >= 0; i--) { /* from behind: each end moves to the begin of its run */
        const int64 place = --ends[ids[i]];
        order[place] = i, tokens[place] = i / A;
    }
    for (int64 e = 0; e + 1 < E; e++) ends[e] = ends[e + 1];
    if (E) ends[E - 1] = P;
}

/* Choose the A experts of the largest logit + bias for each row of x [T, H], normalised where there is a gain.
   Outputs beside ids and scores, for the backward pass: `norms` scale x, `queries` [T, R] are not normalised,
   `query_scales` normalise them, `logits` [T, A] are the chosen ones without bias. */
int route_forward(int64 T, int64 H, int64 R, int64 E, int64 A, int64 normalised, double epsilon, in(x, T, H),
    in_or_null(gain, H), in(query, H, R), in(keys, E, R), in(bias, E), out_or_null(norms, T), out(queries, T, R),
    out(query_scales, T), out(logits, T, A), out(scores, T, A), out_int64(ids, T, A), out_int64(tokens, T * A),
    out_int32(ends, E), out_int64(order, T * A)) {
    const int64 wide = round_up(E);
    WORKSPACE(keys_transposed, R * wide + BLOCK * (wide + H) + E);
    REAL *block_logits = keys_transposed + R * wide, *rows_in = block_logits + BLOCK * wide;
    REAL *biased = rows_in + BLOCK * H;
    zero(R * wide, keys_transposed);
    for (int64 e = 0; e < E; e++)
        for (int64 r = 0; r < R; r++) keys_transposed[r * wide + e] = keys[e * R + r];
    for (int64 begin = 0; begin < T; begin += BLOCK) {
        const int64 rows = min(BLOCK, T - begin);
        const REAL *block = x + begin * H;
        if (gain) norm_forward(rows, H, epsilon, block, gain, rows_in, norms + begin), block = rows_in;
        gemm(rows, R, H, block, H, 1, query, R, queries + begin * R, R, 0);
        gemm(rows, wide, R, queries + begin * R, R, 1, keys_transposed, wide, block_logits, wide, 0);
        for (int64 i = 0; i < rows; i++) {
            const int64 t = begin + i;
            REAL *logit = block_logits + i * wide;
            const REAL scale = query_scales[t] = norm_scale(R, queries + t * R, epsilon);
            for (int64 e = 0; e < E; e++) biased[e] = (logit[e] *= scale) + bias[e];
            for (int64 a = 0; a < A; a++) {
                int64 best = 0;
                REAL most = biased[0];
                for (int64 e = 1; e < E; e++) {
                    best = biased[e] > most ? e : best;
                    most = biased[e] > most ? biased[e] : most;
                }
                ids[t * A + a] = best;
                logits[t * A + a] = logit[best];
                biased[best] = -INFINITY;
            }
        }
    }
    for (int64 i = 0; i < T * A; i++) scores[i] = sigmoid(logits[i]);
    for (int64 t = 0; normalised && t < T; t++) {
        REAL total = (REAL)1e-20;
        for (int64 a = 0; a < A; a++) total += scores[t * A + a];
        for (int64 a = 0; a < A; a++) scores[t * A + a] /= total;
    }
    dispatch(T * A, A, E, ids, order, tokens, ends);
    return 0;
}

/* Replace the gradient that normalised x [T, H] has from elsewhere by the whole gradient of x. */
int route_backward(int64 T, int64 H, int64 R, int64 E, int64 A, int64 normalised, in(x, T, H), in_or_null(gain, H),
    in(query, H, R), in(keys, E, R), in_or_null(norms, T), in(queries, T, R), in(query_scales, T), in(logits, T, A),
    in_int64(ids, T, A), in(scores_gradient, T, A), out(x_gradient, T, H), out_or_null(gain_gradient, H),
    out(query_gradient, H, R), out(keys_gradient, E, R)) {
    WORKSPACE(query_transposed, H * R + BLOCK * (R + H + A));
    REAL *queries_gradient = query_transposed + H * R, *rows_in = queries_gradient + BLOCK * R;
    REAL *sigmoids = rows_in + BLOCK * H;
    transpose(H, R, query, R, query_transposed, H);
    if (gain) zero(H, gain_gradient);
    zero(E * R, keys_gradient);
    zero(H * R, query_gradient);
    for (int64 begin = 0; begin < T; begin += BLOCK) {
        const int64 rows = min(BLOCK, T - begin);
        for (int64 i = 0; i < rows * A; i++) sigmoids[i] = sigmoid(logits[begin * A + i]);
        for (int64 i = 0; i < rows; i++) {
            const int64 t = begin + i;
            const REAL *raw_query = queries + t * R, *score = sigmoids + i * A;
            REAL total = (REAL)1e-20, mean = 0, along = 0, *gradient = queries_gradient + i * R;
            for (int64 a = 0; normalised && a < A; a++) {
                total += score[a];
                mean += score[a] * scores_gradient[t * A + a];
            }
            zero(R, gradient);
            for (int64 a = 0; a < A; a++) {
                const int64 e = ids[t * A + a];
                REAL logit_gradient = scores_gradient[t * A + a];
                if (normalised) logit_gradient = (logit_gradient - mean / total) / total;
                logit_gradient *= score[a] * (1 - score[a]) * query_scales[t];
                along += logit_gradient * logits[t * A + a];
                for (int64 r = 0; r < R; r++) {
                    gradient[r] += logit_gradient * keys[e * R + r];
                    keys_gradient[e * R + r] += logit_gradient * raw_query[r];
                }
            }
            along *= query_scales[t] / R;
            for (int64 r = 0; r < R; r++) gradient[r] -= along * raw_query[r];
        }
        const REAL *block = x + begin * H;
        for (int64 i = 0; gain && i < rows; i++) normalise(H, block + i * H, gain, norms[begin + i], rows_in + i * H);
        gemm(rows, H, R, queries_gradient, R, 1, query_transposed, H, x_gradient + begin * H, H, 1);
        gemm(H, R, rows, gain ? rows_in : block, 1, H, queries_gradient, R, query_gradient, R, 1);
        for (int64 t = begin; gain && t < begin + rows; t++)
            normalise_backward(H, x + t * H, gain, norms[t], x_gradient + t * H, gain_gradient);
    }
    return 0;
}
