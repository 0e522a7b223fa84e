/* Training's hot loops for one CPU core, in C: this file includes the others and is compiled once for float, once
   for double (REAL).

   At the sizes of a CPU most of a step is spent around the matrix products: gathering rows by expert, norms, routing,
   passes over memory. Here each expert's rows are gathered, normalised, multiplied, scaled and scattered while they are
   in the cache. Sums run in a fixed order.

   Memory: matrices are row-major and contiguous; the caller (library.py) checks shapes and types and owns inputs and
   outputs. A function writes its outputs and nothing else, allocates what it needs beyond them itself, and returns 1
   if there is no memory, else 0. `in` and `out` pointers of one call never overlap.

   Axes: T tokens, E experts, A active experts, P = T*A token-expert pairs sorted by expert, H hidden, F expert size,
   I and O inputs and outputs, N and M query and key/value heads, K head size, R routing size, L depths of a code,
   D visible depths, C codes (one for all tokens, or T). */

#include "arithmetic.h"
#include "gemm.h"
#include "norm.h"
#include "routing.h"
#include "experts.h"
#include "attend.h"

/* ---- a whole attention with mixed projections: norm, routing, projections, heads, attention, output projection ----

   Along the sequence where there are `starts`, else along the depth. The forward pass writes the final ones of the D
   `keys` and `values` (D = 1 along the sequence) and reads the others, those of earlier depths. Merged weights inward
   [E, H, (N + 2 M) K] and outward [E, N K, H].

   Along the depth each token is by itself: its attention is computed while its rows are in the cache. */

/* Outputs beside y, for the backward pass: routing (see route_forward); `projected` queries and keys [T, (N + M) K] and
   `head_scales` [T, N + M], in the experts' order; `query`; `attended` [T, N K]; `scores` along the depth
   [T, N, D], or log-sum-exps along the sequence [T, N, 1]. */
int attention_forward(int64 T, int64 H, int64 R, int64 E, int64 N, int64 M, int64 K, int64 D, int64 C, double epsilon,
    in(x, T, H), in(gain, H), in(router_query, H, R), in(router_keys, E, R), in(bias, E),
    in(inward, E, H, (N + 2 * M) * K), in(outward, E, N * K, H), in(query_gain, K), in(key_gain, K), in(code, C, K),
    in_int64_or_null(starts, T), in_list(keys, D, T, M, K), in_list(values, D, T, M, K), out(norms, T),
    out(queries, T, R), out(query_scales, T), out(router_logits, T, 1), out(router_scores, T, 1), out_int64(ids, T, 1),
    out_int64(tokens, T), out_int32(ends, E), out_int64(order, T), out(projected, T, (N + M) * K),
    out(head_scales, T, N + M), out(query, T, N, K), out(attended, T, N, K), out(scores, T, N, D), out(y, T, H)) {
    const int64 I = N * K, QK = (N + M) * K, O = QK + M * K;
    REAL *key = keys[D - 1], *value = values[D - 1];
    WORKSPACE(rows_in, BLOCK * (H + M * K + I + H));
    REAL *rows_value = rows_in + BLOCK * H, *memory = rows_value + BLOCK * M * K;
    if (route_forward(T, H, R, E, 1, 0, epsilon, x, gain, router_query, router_keys, bias, norms, queries, query_scales,
            router_logits, router_scores, ids, tokens, ends, order))
        return 1;
    FOR_EACH_BLOCK(E, ends) {
        const REAL *expert = inward + e * H * O;
        gather_normalised(rows, H, x, gain, norms, router_scores, tokens + begin, rows_in);
        gemm_prefetching(
            rows, QK, H, rows_in, H, 1, expert, O, projected + begin * QK, QK, 0, expert + H * O, H * O);
        gemm(rows, M * K, H, rows_in, H, 1, expert + QK, O, rows_value, M * K, 0);
        for (int64 i = 0; i < rows; i++) {
            const int64 place = begin + i, t = tokens[place];
            copy(M * K, rows_value + i * M * K, value + t * M * K);
            FOR_SIZE(K, rotate_heads(N, M, size, epsilon, projected + place * QK, query_gain, key_gain,
                            code + t * code_stride(C, K), query + t * I, key + t * M * K,
                            head_scales + place * (N + M)));
            if (!starts)
                FOR_SIZE(K, attend_depths(N, M, size, D, t, query + t * I, keys, values, attended + t * I,
                                scores + t * N * D));
        }
        if (!starts)
            linear_forward(rows, I, H, attended, router_scores, outward + e * I * H, tokens + begin, memory, y);
    }
    if (!starts) return 0;
    if (attend_forward(T, N, M, K, query, key, value, starts, attended, scores)) return 1;
    FOR_EACH_BLOCK(E, ends)
        linear_forward(rows, I, H, attended, router_scores, outward + e * I * H, tokens + begin, memory, y);
    return 0;
}

/* Compute all gradients. To those of the final key and value, their gradients from later depths are added, if there
   are any. Gradients of inward and outward are added to. */
int attention_backward(int64 T, int64 H, int64 R, int64 E, int64 N, int64 M, int64 K, int64 D, int64 C, in(x, T, H),
    in(gain, H), in(router_query, H, R), in(router_keys, E, R), in(inward_transposed, E, (N + 2 * M) * K, H),
    in(outward_transposed, E, H, N * K), in_or_null(shared_inward, H, (N + 2 * M) * K),
    in_or_null(shared_outward, N * K, H), in(query_gain, K), in(key_gain, K), in(code, C, K),
    in_int64_or_null(starts, T), in_list(keys, D, T, M, K), in_list(values, D, T, M, K), in(norms, T),
    in(queries, T, R), in(query_scales, T), in(router_logits, T, 1), in(router_scores, T, 1), in_int64(ids, T, 1),
    in_int64(tokens, T), in_int32(ends, E), in(projected, T, (N + M) * K), in(head_scales, T, N + M),
    in(query, T, N, K), in(attended, T, N, K), out(scores, T, N, D), in(y_gradient, T, H),
    in_or_null(later_key, T, M, K), in_or_null(later_value, T, M, K), out(keys_gradient, D, T, M, K),
    out(values_gradient, D, T, M, K), out(x_gradient, T, H), out(inward_gradient, E, H, (N + 2 * M) * K),
    out(outward_gradient, E, N * K, H), out(gain_gradient, H), out(router_query_gradient, H, R),
    out(router_keys_gradient, E, R), out(query_gain_gradient, K), out(key_gain_gradient, K)) {
    const int64 I = N * K, QK = (N + M) * K, O = QK + M * K;
    WORKSPACE(attended_gradient, 2 * T * I + T + BLOCK * 4 * (H + O) + 2 * K + D);
    REAL *query_gradient = attended_gradient + T * I, *router_scores_gradient = query_gradient + T * I;
    REAL *rows_in = router_scores_gradient + T, *rows_gradient = rows_in + BLOCK * H;
    REAL *memory = rows_gradient + BLOCK * O;
    REAL *head_memory = memory + BLOCK * 3 * (H + O), *depth_memory = head_memory + 2 * K;
    REAL *key_gradient = keys_gradient + (D - 1) * T * M * K, *value_gradient = values_gradient + (D - 1) * T * M * K;
    zero(T, router_scores_gradient);
    zero(K, query_gain_gradient);
    zero(K, key_gain_gradient);
    if (starts) {
        FOR_EACH_BLOCK(E, ends)
            linear_backward(rows, I, H, attended, y_gradient, outward_transposed + e * I * H, shared_outward,
                router_scores, tokens + begin, memory, attended_gradient, router_scores_gradient,
                outward_gradient + e * I * H);
        if (attend_backward(T, N, M, K, query, keys[D - 1], values[D - 1], starts, scores, attended_gradient,
                query_gradient, key_gradient, value_gradient))
            return 1;
    }
    FOR_EACH_BLOCK(E, ends) {
        if (!starts)
            linear_backward(rows, I, H, attended, y_gradient, outward_transposed + e * I * H, shared_outward,
                router_scores, tokens + begin, memory, attended_gradient, router_scores_gradient,
                outward_gradient + e * I * H);
        gather_normalised(rows, H, x, gain, norms, NULL, tokens + begin, rows_in);
        for (int64 i = 0; i < rows; i++) {
            const int64 place = begin + i, t = tokens[place], at = t * M * K;
            if (!starts)
                FOR_SIZE(K, attend_depths_backward(N, M, size, D, t, query + t * I, keys, values, scores + t * N * D,
                                attended_gradient + t * I, query_gradient + t * I, keys_gradient, values_gradient,
                                T * M * K, depth_memory));
            for (int64 j = at; later_key && j < at + M * K; j++) key_gradient[j] += later_key[j];
            for (int64 j = at; later_value && j < at + M * K; j++) value_gradient[j] += later_value[j];
            FOR_SIZE(K, rotate_heads_backward(N, M, size, projected + place * QK, query_gain, key_gain,
                            code + t * code_stride(C, K), head_scales + place * (N + M), query_gradient + t * I,
                            key_gradient + at, value_gradient + at, rows_gradient + i * O, query_gain_gradient,
                            key_gain_gradient, head_memory));
        }
        linear_rows_backward(rows, H, O, rows_in, rows_gradient, inward_transposed + e * H * O, shared_inward,
            router_scores, tokens + begin, memory, x_gradient, router_scores_gradient, inward_gradient + e * H * O);
    }
    return route_backward(T, H, R, E, 1, 0, x, gain, router_query, router_keys, norms, queries, query_scales,
        router_logits, ids, router_scores_gradient, x_gradient, gain_gradient, router_query_gradient,
        router_keys_gradient);
}
