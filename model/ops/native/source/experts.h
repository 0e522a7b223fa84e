/* Products of rows sorted by expert: linear experts, one for each token (Eq. 7), and SwiGLU experts (section 3.5).

   A block of an expert's rows is gathered, multiplied and scattered while the block is in the cache. `tokens` are the
   block's tokens; gradients of scores and of weights are added to. */

/* ---- linear experts ---- */

/* Compute y[t] = scores[t] * x[t] W for the tokens of one block. `memory` [BLOCK * (I + O)] is overwritten. */
static void linear_forward(
    int64 rows, int64 I, int64 O, in x, in scores, in weights, const int64 *tokens, out memory, out y) {
    REAL *rows_in = memory, *rows_out = memory + BLOCK * I;
    gather(rows, I, x, tokens, rows_in);
    gemm_prefetching(rows, O, I, rows_in, I, 1, weights, O, rows_out, O, 0, weights + I * O, I * O);
    for (int64 i = 0; i < rows; i++) {
        const REAL score = scores[tokens[i]], *from = rows_out + i * O;
        REAL *into = y + tokens[i] * O;
        for (int64 o = 0; o < O; o++) into[o] = from[o] * score;
    }
}

/* Compute the gradients of one block from gathered rows_in [rows, I] and rows_gradient [rows, O].
   `transposed` [O, I] are the expert's merged weights; `shared` [I, O], or NULL, passes no gradient on to the scores.
   `memory` [BLOCK * (I + O)] and rows_in are overwritten. */
static void linear_rows_backward(int64 rows, int64 I, int64 O, REAL *rows_in, in rows_gradient, in transposed,
    in shared, in scores, const int64 *tokens, out memory, out x_gradient, out scores_gradient, out weights_gradient) {
    REAL *product = memory, *shared_product = memory + BLOCK * I;
    gemm_prefetching(rows, I, O, rows_gradient, O, 1, transposed, I, product, I, 0, weights_gradient, I * O);
    if (shared) gemm(rows, O, I, rows_in, I, 1, shared, O, shared_product, O, 0);
    for (int64 i = 0; i < rows; i++) {
        const REAL score = scores[tokens[i]], *from = product + i * I;
        REAL *into = x_gradient + tokens[i] * I, *row = rows_in + i * I;
        scores_gradient[tokens[i]] +=
            dot(I, from, row) - (shared ? dot(O, shared_product + i * O, rows_gradient + i * O) : 0);
        for (int64 j = 0; j < I; j++) {
            into[j] = from[j] * score;
            row[j] *= score;
        }
    }
    gemm_prefetching(I, O, rows, rows_in, 1, I, rows_gradient, O, weights_gradient, O, 1, transposed + I * O, I * O);
}

/* Gather the rows of x [T, I] and y_gradient [T, O], then as above. `memory` [BLOCK * 2 * (I + O)] is overwritten. */
static void linear_backward(int64 rows, int64 I, int64 O, in x, in y_gradient, in transposed, in shared, in scores,
    const int64 *tokens, out memory, out x_gradient, out scores_gradient, out weights_gradient) {
    REAL *rows_in = memory, *rows_gradient = memory + BLOCK * I, *rest = rows_gradient + BLOCK * O;
    gather(rows, I, x, tokens, rows_in);
    gather(rows, O, y_gradient, tokens, rows_gradient);
    linear_rows_backward(rows, I, O, rows_in, rows_gradient, transposed, shared, scores, tokens, rest, x_gradient,
        scores_gradient, weights_gradient);
}

int mixed_forward(int64 T, int64 E, int64 I, int64 O, in(x, T, I), in(scores, T, 1), in(merged, E, I, O),
    in_int64(tokens, T), in_int32(ends, E), out(y, T, O)) {
    WORKSPACE(memory, BLOCK * (I + O));
    FOR_EACH_BLOCK(E, ends) linear_forward(rows, I, O, x, scores, merged + e * I * O, tokens + begin, memory, y);
    return 0;
}

int mixed_backward(int64 T, int64 E, int64 I, int64 O, in(x, T, I), in(scores, T, 1), in(transposed, E, O, I),
    in_or_null(shared, I, O), in_int64(tokens, T), in_int32(ends, E), in(y_gradient, T, O), out(x_gradient, T, I),
    out(scores_gradient, T, 1), out(weights_gradient, E, I, O)) {
    WORKSPACE(memory, BLOCK * 2 * (I + O));
    zero(T, scores_gradient);
    FOR_EACH_BLOCK(E, ends)
        linear_backward(rows, I, O, x, y_gradient, transposed + e * I * O, shared, scores, tokens + begin, memory,
            x_gradient, scores_gradient, weights_gradient + e * I * O);
    return 0;
}

/* ---- SwiGLU experts of normalised x ---- */

/* Compute y[t] = the sum over t's experts of score * (silu(x G) * (x U)) W. `inward` [E, H, 2F] are gate G and up
   projection U side by side; `projected` [P, 2F], in the experts' order, is kept for the backward pass. */
int swiglu_forward(int64 T, int64 E, int64 A, int64 H, int64 F, in(x, T, H), in(gain, H), in(norms, T),
    in(scores, T, A), in(inward, E, H, 2 * F), in(outward, E, F, H), in_int64(tokens, T * A), in_int32(ends, E),
    in_int64(order, T * A), out(projected, T * A, 2 * F), out(y, T, H)) {
    WORKSPACE(rows_in, BLOCK * (2 * H + F));
    REAL *rows_out = rows_in + BLOCK * H, *hidden = rows_out + BLOCK * H;
    zero(T * H, y);
    FOR_EACH_BLOCK(E, ends) {
        const REAL *expert_inward = inward + e * 2 * F * H, *expert_outward = outward + e * F * H;
        REAL *rows_projected = projected + begin * 2 * F;
        gather_normalised(rows, H, x, gain, norms, NULL, tokens + begin, rows_in);
        gemm_prefetching(
            rows, 2 * F, H, rows_in, H, 1, expert_inward, 2 * F, rows_projected, 2 * F, 0, expert_outward, F * H);
        for (int64 i = 0; i < rows; i++) {
            const REAL score = scores[order[begin + i]], *gate = rows_projected + i * 2 * F, *up = gate + F;
            REAL *into = hidden + i * F;
            for (int64 f = 0; f < F; f++) into[f] = gate[f] * sigmoid(gate[f]) * up[f] * score;
        }
        gemm_prefetching(rows, H, F, hidden, F, 1, expert_outward, H, rows_out, H, 0, expert_inward + 2 * F * H,
            2 * F * H);
        scatter_add(rows, H, rows_out, tokens + begin, y);
    }
    return 0;
}

/* Compute the gradients of normalised x, of the scores, and (added to) of both banks of weights. */
int swiglu_backward(int64 T, int64 E, int64 A, int64 H, int64 F, in(x, T, H), in(gain, H), in(norms, T),
    in(scores, T, A), in(inward_transposed, E, 2 * F, H), in(outward_transposed, E, H, F), in_int64(tokens, T * A),
    in_int32(ends, E), in_int64(order, T * A), in(projected, T * A, 2 * F), in(y_gradient, T, H), out(x_gradient, T, H),
    out(scores_gradient, T, A), out(inward_gradient, E, H, 2 * F), out(outward_gradient, E, F, H)) {
    WORKSPACE(rows_in, BLOCK * (3 * H + 4 * F));
    REAL *rows_gradient = rows_in + BLOCK * H, *rows_out = rows_gradient + BLOCK * H, *hidden = rows_out + BLOCK * H;
    REAL *hidden_gradient = hidden + BLOCK * F, *projected_gradient = hidden_gradient + BLOCK * F;
    zero(T * H, x_gradient);
    FOR_EACH_BLOCK(E, ends) {
        const REAL *inward = inward_transposed + e * 2 * F * H, *outward = outward_transposed + e * F * H;
        REAL *inward_sum = inward_gradient + e * 2 * F * H, *outward_sum = outward_gradient + e * F * H;
        gather_normalised(rows, H, x, gain, norms, NULL, tokens + begin, rows_in);
        gather(rows, H, y_gradient, tokens + begin, rows_gradient);
        gemm_prefetching(rows, F, H, rows_gradient, H, 1, outward, F, hidden_gradient, F, 0, outward_sum, F * H);
        for (int64 i = 0; i < rows; i++) {
            const int64 pair = order[begin + i];
            const REAL score = scores[pair], *gate = projected + (begin + i) * 2 * F, *up = gate + F;
            REAL *gradient = hidden_gradient + i * F, *row_hidden = hidden + i * F, sum = 0;
            REAL *gate_gradient = projected_gradient + i * 2 * F, *up_gradient = gate_gradient + F;
            for (int64 f = 0; f < F; f++) {
                const REAL open = sigmoid(gate[f]), silu = gate[f] * open, scaled = gradient[f] * score;
                sum += gradient[f] * silu * up[f];
                row_hidden[f] = silu * up[f] * score;
                up_gradient[f] = scaled * silu;
                gate_gradient[f] = scaled * up[f] * (open + silu * (1 - open));
            }
            scores_gradient[pair] = sum;
        }
        gemm_prefetching(F, H, rows, hidden, 1, F, rows_gradient, H, outward_sum, H, 1, inward_sum, 2 * F * H);
        gemm_prefetching(
            H, 2 * F, rows, rows_in, 1, H, projected_gradient, 2 * F, inward_sum, 2 * F, 1, inward, 2 * F * H);
        gemm_prefetching(rows, H, 2 * F, projected_gradient, 2 * F, 1, inward, H, rows_out, H, 0, outward + F * H,
            F * H);
        scatter_add(rows, H, rows_out, tokens + begin, x_gradient);
    }
    return 0;
}
