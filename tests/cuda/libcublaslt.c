/* libcublaslt.c: a libcublasLt.so.13 for tests, beside the libcuda that plays a GPU. It follows the formula of the
 * tensor cores (portable/hgmma.h), on the stream, so it has the bits of the kernels; LS_LT_PLAYS says what else it
 * does:
 *
 *     (not set)   it cannot be started
 *     equal       one algorithm
 *     differs     one, with one bit of C the other way round
 *     mixed       first that one, then the right one
 *     slow        the right one, which takes its time
 *     gaps        the right one, which writes behind a row
 *
 * ls_lt_played[] counts products by algorithm. With -DWITHOUT_GUESSES it has no
 * cublasLtMatmulAlgoGetHeuristic. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "device/cpu/portable/hgmma.h"

#define API __attribute__((visibility("default"))) int

enum { R_32F = 0, R_16F = 2, FAILED = 7, SLOW_NS = 100000000 };
enum { RIGHT, DIFFERS, SLOW, GAPS };

typedef struct desc {
    int turns[2];
} desc;
typedef struct layout {
    int type;
    uint64_t rows, columns;
    int64_t ld, step;
    int32_t batch;
} layout;
typedef struct preference {
    uint64_t workspace;
    uint32_t reduction;
} preference;
typedef struct algorithm {
    uint64_t words[8];
} algorithm;
typedef struct found {
    algorithm algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} found;

typedef struct job {
    desc d;
    layout la, lb, lc, ld;
    const uint16_t *a, *b;
    const float *c;
    void *to;
    float beta;
    int plays;
} job;

__attribute__((visibility("default"))) extern int ls_lt_played[];
int ls_lt_played[GAPS + 1];

static const char *plays(void) { return getenv("LS_LT_PLAYS") ? getenv("LS_LT_PLAYS") : ""; }

API cublasLtCreate(void **handle);
API cublasLtDestroy(void *handle);
size_t cublasLtGetVersion(void);
API cublasLtMatmulDescCreate(desc **out, int compute, int scale);
API cublasLtMatmulDescDestroy(desc *d);
API cublasLtMatmulDescSetAttribute(desc *d, int attribute, const void *value, size_t bytes);
API cublasLtMatrixLayoutCreate(layout **out, int type, uint64_t rows, uint64_t columns, int64_t ld);
API cublasLtMatrixLayoutDestroy(layout *l);
API cublasLtMatrixLayoutSetAttribute(layout *l, int attribute, const void *value, size_t bytes);
API cublasLtMatmulPreferenceCreate(preference **out);
API cublasLtMatmulPreferenceDestroy(preference *p);
API cublasLtMatmulPreferenceSetAttribute(preference *p, int attribute, const void *value, size_t bytes);
API cublasLtMatmulAlgoGetHeuristic(void *handle, desc *d, layout *a, layout *b, layout *c, layout *to, preference *p,
                                   int most, found *out, int *count);
API cublasLtMatmul(void *handle, desc *d, const float *alpha, const void *a, layout *la, const void *b, layout *lb,
                   const float *beta, const void *c, layout *lc, void *to, layout *lto, const algorithm *algo,
                   void *workspace, size_t bytes, void *stream);

int cublasLtCreate(void **handle) {
    *handle = handle;
    return *plays() ? 0 : FAILED;
}
int cublasLtDestroy(void *handle) { return handle ? 0 : FAILED; }
__attribute__((visibility("default"))) size_t cublasLtGetVersion(void) { return 130001; }

int cublasLtMatmulDescCreate(desc **out, int compute, int scale) {
    *out = calloc(1, sizeof **out);
    return compute == 68 && scale == R_32F ? 0 : FAILED;
}
int cublasLtMatmulDescDestroy(desc *d) {
    free(d);
    return 0;
}
int cublasLtMatmulDescSetAttribute(desc *d, int attribute, const void *value, size_t bytes) {
    if (attribute < 3 || attribute > 4 || bytes != sizeof(int32_t)) return FAILED;
    memcpy(&d->turns[attribute - 3], value, bytes);
    return 0;
}

int cublasLtMatrixLayoutCreate(layout **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    *out = malloc(sizeof **out);
    **out = (layout){type, rows, columns, ld, 0, 1};
    return (uint64_t)ld >= rows ? 0 : FAILED;
}
int cublasLtMatrixLayoutDestroy(layout *l) {
    free(l);
    return 0;
}
int cublasLtMatrixLayoutSetAttribute(layout *l, int attribute, const void *value, size_t bytes) {
    if (attribute == 5 && bytes == sizeof l->batch)
        memcpy(&l->batch, value, bytes);
    else if (attribute == 6 && bytes == sizeof l->step)
        memcpy(&l->step, value, bytes);
    else
        return FAILED;
    return 0;
}

int cublasLtMatmulPreferenceCreate(preference **out) {
    *out = malloc(sizeof **out);
    **out = (preference){1, 1};
    return 0;
}
int cublasLtMatmulPreferenceDestroy(preference *p) {
    free(p);
    return 0;
}
int cublasLtMatmulPreferenceSetAttribute(preference *p, int attribute, const void *value, size_t bytes) {
    if (attribute == 1 && bytes == sizeof p->workspace)
        memcpy(&p->workspace, value, bytes);
    else if (attribute == 3 && bytes == sizeof p->reduction)
        memcpy(&p->reduction, value, bytes);
    else if (attribute < 5 || attribute > 8 || bytes != sizeof(uint32_t))
        return FAILED;
    return 0;
}

#ifndef WITHOUT_GUESSES
int cublasLtMatmulAlgoGetHeuristic(void *handle, desc *d, layout *a, layout *b, layout *c, layout *to, preference *p,
                                   int most, found *out, int *count) {
    (void)handle, (void)d, (void)a, (void)b, (void)c, (void)to;
    if (p->workspace || p->reduction || most < 2) return FAILED; /* sums would be split over k */
    const char *text = plays();
    int ways[2], n = 0;
    if (strcmp(text, "differs") == 0 || strcmp(text, "mixed") == 0) ways[n++] = DIFFERS;
    if (strcmp(text, "equal") == 0 || strcmp(text, "mixed") == 0) ways[n++] = RIGHT;
    if (strcmp(text, "slow") == 0) ways[n++] = SLOW;
    if (strcmp(text, "gaps") == 0) ways[n++] = GAPS;
    for (int i = 0; i < n; i++) out[i] = (found){.algo = {{1000 + (uint64_t)ways[i]}}};
    *count = n;
    return 0;
}
#endif

/* ---- products, columns one behind the other ---------------------------------------------------------------------- */

static uint16_t element(const uint16_t *m, const layout *l, int turns, uint64_t row, uint64_t column) {
    return turns ? m[(int64_t)row * l->ld + (int64_t)column] : m[(int64_t)column * l->ld + (int64_t)row];
}

static float chain(const job *j, const uint16_t *a, const uint16_t *b, uint64_t row, uint64_t column, uint64_t k) {
    format f = j->la.type == R_16F ? format_f16 : format_bf16;
    float sum = 0;
    for (uint64_t at = 0; at < k; at += GRANULE) {
        uint16_t x[GRANULE] = {0}, y[GRANULE] = {0};
        line lx, ly;
        for (uint64_t i = 0; i < GRANULE && at + i < k; i++) {
            x[i] = element(a, &j->la, j->d.turns[0], row, at + i);
            y[i] = element(b, &j->lb, j->d.turns[1], at + i, column);
        }
        take_line(&lx, x, f);
        take_line(&ly, y, f);
        sum = add_granule(&lx, &ly, f, sum);
    }
    return sum;
}

/* To nearest even; there are no infinities here. */
static uint16_t half_of(float x, int type) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type != R_16F) return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    double size = fabs((double)x);
    int exponent = size < 0x1p-14 ? -14 : ilogb(size);
    double steps = nearbyint(ldexp(size, 10 - exponent)); /* of 2^(exponent − 10) */
    return (uint16_t)((bits >> 31 << 15) | (uint32_t)((exponent + 14) * 1024 + (int)steps));
}

static void run(void *ctx) {
    job *j = ctx;
    uint64_t rows = j->ld.rows, columns = j->ld.columns, k = j->d.turns[0] ? j->la.rows : j->la.columns;
    size_t elem = j->ld.type == R_32F ? sizeof(float) : sizeof(uint16_t);
    for (int64_t batch = 0; batch < j->ld.batch; batch++) {
        char *to = (char *)j->to + (size_t)(batch * j->ld.step) * elem;
        for (uint64_t column = 0; column < columns; column++)
            for (uint64_t row = 0; row < rows; row++) {
                size_t at = (size_t)column * (size_t)j->ld.ld + row;
                float sum = chain(j, j->a + batch * j->la.step, j->b + batch * j->lb.step, row, column, k);
                if (j->beta != 0) sum = sum + j->c[(size_t)column * (size_t)j->lc.ld + row];
                uint16_t half = half_of(sum, j->ld.type);
                memcpy(to + at * elem, elem == sizeof sum ? (void *)&sum : (void *)&half, elem);
            }
        char *last = to + ((columns - 1) * (size_t)j->ld.ld + rows - 1) * elem;
        if (j->plays == DIFFERS && j->beta == 0) last[elem - 2] ^= 1; /* an addition does not round it away */
        if (j->plays == GAPS && (uint64_t)j->ld.ld > rows) to[rows * elem] ^= 1;
    }
    if (j->plays == SLOW) nanosleep(&(struct timespec){0, SLOW_NS}, NULL);
    free(j);
}

int cublasLtMatmul(void *handle, desc *d, const float *alpha, const void *a, layout *la, const void *b, layout *lb,
                   const float *beta, const void *c, layout *lc, void *to, layout *lto, const algorithm *algo,
                   void *workspace, size_t bytes, void *stream) {
    (void)handle, (void)workspace;
    if (*alpha != 1.0f || bytes || (*beta != 0 && (lto->type != R_32F || *beta != 1.0f))) return FAILED;
    ls_lt_played[algo->words[0] - 1000]++;
    int (*host)(void *stream, void (*fn)(void *), void *ctx);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD),
         *symbol = driver ? dlsym(driver, "cuLaunchHostFunc") : NULL;
    if (!symbol) return FAILED;
    memcpy(&host, &symbol, sizeof host);
    job *j = malloc(sizeof *j);
    *j = (job){*d, *la, *lb, *lc, *lto, a, b, c, to, *beta, (int)algo->words[0] - 1000};
    return host(stream, run, j);
}
