/* Types, workspaces, and functions of single numbers and vectors. */

#include <math.h>
#include <stdint.h>
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
typedef int64_t int64;
typedef const REAL *restrict in;
typedef REAL *restrict out;

/* Parameters of the functions that Python calls: name, then shape, which signatures.py reads and checks. */
#define in(name, ...) const REAL *restrict name
#define in_or_null(name, ...) const REAL *restrict name
#define in_int32(name, ...) const int32_t *name
#define in_int64(name, ...) const int64 *name
#define in_int64_or_null(name, ...) const int64 *name
#define in_list(name, count, ...) REAL *const *name
#define out(name, ...) REAL *restrict name
#define out_or_null(name, ...) REAL *restrict name
#define out_int32(name, ...) int32_t *name
#define out_int64(name, ...) int64 *name

#define INLINE static inline __attribute__((always_inline))

/* Allocate a workspace of `count` numbers, freed when the function returns. Without memory the function returns 1. */
#define WORKSPACE(name, count) \
    REAL *name __attribute__((cleanup(free_workspace))) = malloc(((count) + 1) * sizeof(REAL)); \
    if (!name) return 1
INLINE void free_workspace(REAL **memory) { free(*memory); }

/* Call a function with K as the constant `size`: one compiled copy for each usual head size. */
#define FOR_SIZE(K, call) \
    switch (K) { \
    case 32: { const int64 size = 32; call; } break; \
    case 64: { const int64 size = 64; call; } break; \
    default: { const int64 size = K; call; } \
    }

INLINE int64 min(int64 a, int64 b) { return a < b ? a : b; }

/* Round n up to whole vectors. */
INLINE int64 round_up(int64 n) { return (n + WIDTH - 1) / WIDTH * WIDTH; }

static inline void zero(int64 n, REAL *a) { memset(a, 0, n * sizeof(REAL)); }

static inline REAL dot(int64 n, in a, in b) {
    REAL sum = 0;
    for (int64 i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Return the largest of n numbers, n a multiple of WIDTH. */
static inline REAL maximum(int64 n, in a) {
    REAL most[WIDTH];
    memcpy(most, a, sizeof(most));
    for (int64 i = WIDTH; i < n; i += WIDTH)
        for (int64 j = 0; j < WIDTH; j++) most[j] = a[i + j] > most[j] ? a[i + j] : most[j];
    for (int64 j = 1; j < WIDTH; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0];
}

/* Return e^x within 5 ulp (70 ulp without fused multiply-add), in a form that compilers vectorise. The result is 0 below
   -87, where float runs out, and at most e^88. NaN stays NaN. */
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
