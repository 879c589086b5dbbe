/* gemm_openblas.c: the peer of `lockstep bench kernels`, matmuls by OpenBLAS.
 *
 *   gemm_openblas THREADS NT:256x3072x768 TN:3072x768x256
 *
 * prints "form m n k seconds" for each. The method is that of src/lab/timer.c and bench/kernels_gemm.c, so that
 * the two can be compared: the same numbers, batches that grow until one is long enough to tell how long a call takes,
 * then the median of up to five samples that take SAMPLES_S together; some elements are checked. */
#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 5, REPEATS_MAX = 20000, CHECKS = 16 };
static const double SAMPLES_S = 0.05;

typedef struct product {
    const char *form; /* "NN", "NT" or "TN" */
    size_t m, n, k, lda, ldb;
    float *a, *b, *c;
} product;

static void fail(const char *what, const char *value) {
    fprintf(stderr, "gemm_openblas: %s %s\n", what, value);
    exit(2);
}

static double now_s(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) fail("no clock", "");
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float value(size_t i) { return (float)((uint32_t)i * 2654435761u >> 22) / 512.0f - 1.0f; }

static float *allocate(size_t elems) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, elems * sizeof(float)) != 0) fail("out of memory", "");
    return memory;
}

static void call_once(const product *p) {
    cblas_sgemm(CblasRowMajor, p->form[0] == 'T' ? CblasTrans : CblasNoTrans,
                p->form[1] == 'T' ? CblasTrans : CblasNoTrans, (blasint)p->m, (blasint)p->n, (blasint)p->k, 1.0f, p->a,
                (blasint)p->lda, p->b, (blasint)p->ldb, 0.0f, p->c, (blasint)p->n);
}

static double time_batch(const product *p, int repeats) {
    double start = now_s();
    for (int i = 0; i < repeats; i++) call_once(p);
    return (now_s() - start) / repeats;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(const product *p) {
    double times[SAMPLES], once = 0;
    for (int calls = 1; calls <= REPEATS_MAX; calls *= 4) {
        once = time_batch(p, calls);
        if (once * calls >= SAMPLES_S / SAMPLES / 5) break;
    }
    if (once < 1e-9) once = 1e-9;
    double fit = SAMPLES_S / once, each = fit / SAMPLES;
    int samples = fit < 1 ? 1 : fit < SAMPLES ? (int)fit : SAMPLES;
    int repeats = each < 1 ? 1 : each > REPEATS_MAX ? REPEATS_MAX : (int)each;
    for (int s = 0; s < samples; s++) times[s] = time_batch(p, repeats);
    qsort(times, (size_t)samples, sizeof *times, compare_doubles);
    return samples % 2 ? times[samples / 2] : (times[samples / 2 - 1] + times[samples / 2]) / 2;
}

static void check(const product *p, const char *name) {
    for (size_t c = 0; c < CHECKS; c++) {
        size_t at = (p->m * p->n - 1) * c / (CHECKS - 1), i = at / p->n, j = at % p->n;
        double sum = 0, size = 0;
        for (size_t k = 0; k < p->k; k++) {
            double x = (double)p->a[p->form[0] == 'T' ? k * p->lda + i : i * p->lda + k];
            double y = (double)p->b[p->form[1] == 'T' ? j * p->ldb + k : k * p->ldb + j];
            sum += x * y;
            size += fabs(x * y);
        }
        if (!(fabs((double)p->c[at] - sum) <= (double)p->k * 0x1p-24 * size)) fail("wrong result of", name);
    }
}

static int read_number(const char *text, int max, const char **end) {
    char *stop = NULL;
    errno = 0;
    long number = strtol(text, &stop, 10);
    if (errno != 0 || stop == text || number < 1 || number > max) fail("no number from 1 up:", text);
    *end = stop;
    return (int)number;
}

static void read_product(const char *text, product *p) {
    static const char *const forms[] = {"NN", "NT", "TN"};
    const char *at = text;
    for (int f = 0; f < 3; f++)
        if (strncmp(text, forms[f], 2) == 0 && text[2] == ':') p->form = forms[f];
    if (p->form == NULL) {
        fail("no product like NT:256x3072x768:", text);
        return;
    }
    p->m = (size_t)read_number(text + 3, 1 << 24, &at);
    if (*at++ != 'x') fail("no product like NT:256x3072x768:", text);
    p->n = (size_t)read_number(at, 1 << 24, &at);
    if (*at++ != 'x') fail("no product like NT:256x3072x768:", text);
    p->k = (size_t)read_number(at, 1 << 24, &at);
    if (*at != '\0') fail("no product like NT:256x3072x768:", text);
    p->lda = p->form[0] == 'T' ? p->m : p->k;
    p->ldb = p->form[1] == 'T' ? p->k : p->n;
}

static void run(const char *text) {
    product p = {0};
    read_product(text, &p);
    p.a = allocate(p.m * p.k);
    p.b = allocate(p.n * p.k);
    p.c = allocate(p.m * p.n);
    for (size_t i = 0; i < p.m * p.k; i++) p.a[i] = value(i);
    for (size_t i = 0; i < p.n * p.k; i++) p.b[i] = value(i + 12345);
    memset(p.c, 0, p.m * p.n * sizeof(float));
    double seconds = measure(&p);
    check(&p, text);
    printf("%s %zu %zu %zu %.9f\n", p.form, p.m, p.n, p.k, seconds);
    free(p.a);
    free(p.b);
    free(p.c);
}

int main(int argc, char **argv) {
    const char *end = NULL;
    if (argc < 3) fail("usage: gemm_openblas THREADS", "FORM:MxNxK…");
    int threads = read_number(argv[1], 1024, &end);
    if (*end != '\0') fail("no number of threads:", argv[1]);
    openblas_set_num_threads(threads);
    const char *library = openblas_get_config(), *name_end = strchr(library, ' ');
    size_t chars = name_end == NULL ? strlen(library) : (size_t)(name_end - library) + 1;
    chars += strcspn(library + chars, " "); /* the version is the second word */
    printf("# library %.*s, kernels for %s\n", (int)chars, library, openblas_get_corename());
    for (int i = 2; i < argc; i++) run(argv[i]);
    return fflush(stdout) == 0 ? 0 : 1;
}
