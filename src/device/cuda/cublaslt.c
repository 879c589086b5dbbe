/* cublaslt.c: loads cuBLASLt and describes our GEMMs to it. Its matrices are column-major: our C is its C transposed,
 * so A and B change places. */
#include "device/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"

/* Our own declarations of the library's interface, so that the build needs no CUDA headers. */
typedef int cublasStatus_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulHeuristicResult {
    ls_lt_algorithm algo;
    size_t workspace;
    cublasStatus_t state;
    float waves;
    int reserved[4];
} cublasLtMatmulHeuristicResult;

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_COMPUTE_32F = 68,
    CUDA_R_32F = 0,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, /* of B, C and D: the next three */
    CUBLASLT_REDUCTION_SCHEME_NONE = 0,
    GUESSES_MAX = 16,
};

/* The functions that are looked up in the library: name, parameters. */
#define LT_CALLS(X)                                                                                                    \
    X(cublasLtCreate, (cublasLtHandle_t * handle))                                                                     \
    X(cublasLtDestroy, (cublasLtHandle_t handle))                                                                      \
    X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * out, int compute, int scale))                                  \
    X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc))                                                          \
    X(cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t desc, int attribute, const void *value, size_t bytes))     \
    X(cublasLtMatrixLayoutCreate,                                                                                      \
      (cublasLtMatrixLayout_t * out, int type, uint64_t rows, uint64_t columns, int64_t ld))                           \
    X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                                    \
    X(cublasLtMatrixLayoutSetAttribute,                                                                                \
      (cublasLtMatrixLayout_t layout, int attribute, const void *value, size_t bytes))                                 \
    X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * out))                                              \
    X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                                        \
    X(cublasLtMatmulPreferenceSetAttribute,                                                                            \
      (cublasLtMatmulPreference_t preference, int attribute, const void *value, size_t bytes))                         \
    X(cublasLtMatmulAlgoGetHeuristic,                                                                                  \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,         \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int most,            \
       cublasLtMatmulHeuristicResult *out, int *count))                                                                \
    X(cublasLtMatmul,                                                                                                  \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,                           \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,              \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,                       \
       const ls_lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, CUstream stream))

/* The loaded library; one for the process, never unloaded once it works. */
static struct {
    void *library;
    size_t version; /* 0: not loaded */
#define MEMBER(name, parameters) cublasStatus_t(*name) parameters;
    LT_CALLS(MEMBER)
#undef MEMBER
    size_t (*cublasLtGetVersion)(void);
} calls;

struct ls_cublaslt {
    cublasLtHandle_t handle;
};

struct ls_lt_product {
    cublasLtHandle_t handle;
    ls_lt_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, added, c; /* a and b as ls_gemm names them; the calls of the library swap them */
};

/* Stores the address of a function of the library in the function pointer at `out`. LS_ERR_INPUT of this machine
 * if it is missing. */
static ls_status find_lt_symbol(const char *name, void *out) {
    void *symbol = dlsym(calls.library, name);
    if (!symbol) return ls_fail_here(LS_ERR_INPUT, "libcublasLt has no %s: install that of CUDA 12 or newer", name);
    memcpy(out, &symbol, sizeof symbol);
    return LS_OK;
}

/* Loads libcublasLt (13, else 12) and fills `calls`. LS_ERR_INPUT of this machine if it is absent or lacks a
 * function; the caller then unloads what was loaded. */
static ls_status load_cublaslt(void) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    for (size_t i = 0; !calls.library && i < sizeof names / sizeof *names; i++)
        calls.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!calls.library) return ls_fail_here(LS_ERR_INPUT, "libcublasLt is not here (%s)", dlerror());
#define LOAD(name, parameters) LS_TRY(find_lt_symbol(#name, &calls.name));
    LT_CALLS(LOAD)
#undef LOAD
    LS_TRY(find_lt_symbol("cublasLtGetVersion", &calls.cublasLtGetVersion));
    calls.version = calls.cublasLtGetVersion();
    return calls.version ? LS_OK : ls_fail_here(LS_ERR_INPUT, "libcublasLt has no version");
}

ls_status ls_cublaslt_version(size_t *out) {
    *out = 0;
    if (!calls.version) {
        ls_status status = load_cublaslt();
        if (status != LS_OK) {
            if (calls.library) (void)dlclose(calls.library);
            calls.library = NULL;
            return status;
        }
    }
    *out = calls.version;
    return LS_OK;
}

const char *ls_cuda_cublaslt(void) {
    static char text[LS_MESSAGE_MAX];
    size_t version;
    if (ls_cublaslt_version(&version) == LS_OK)
        (void)snprintf(text, sizeof text, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    else
        (void)snprintf(text, sizeof text, "no (all products by our own kernels: %.400s)", ls_status_message());
    return text;
}

/* Converts a result of the library to a status. */
static ls_status check_cublas(cublasStatus_t status, const char *call) {
    if (status == CUBLAS_STATUS_SUCCESS) return LS_OK;
    return ls_fail_here(LS_ERR_FAILED, "cuBLASLt failed: %s: status %d", call, status);
}
#define CALL(name, ...) LS_TRY(check_cublas(calls.name(__VA_ARGS__), #name))

ls_status ls_cublaslt_open(ls_cublaslt **out) {
    size_t version;
    *out = NULL;
    LS_TRY(ls_cublaslt_version(&version));
    ls_cublaslt *lt = calloc(1, sizeof *lt);
    if (!lt) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    ls_status status = check_cublas(calls.cublasLtCreate(&lt->handle), "cublasLtCreate");
    if (status == LS_OK)
        *out = lt;
    else
        free(lt);
    return status;
}

void ls_cublaslt_close(ls_cublaslt *lt) {
    if (!lt) return;
    (void)calls.cublasLtDestroy(lt->handle);
    free(lt);
}

/* Returns the library's constant for a type (cudaDataType); any type but fp32 and fp16 counts as bf16. */
static int type_of(ls_dtype dtype) { return dtype == LS_F32 ? CUDA_R_32F : dtype == LS_F16 ? CUDA_R_16F : CUDA_R_16BF; }

/* Creates the layout of a batch of `batch` row-major matrices of `rows` × `columns`, `step` elements apart: for
 * cuBLASLt, column-major ones of `columns` × `rows`. The caller destroys *out, also on failure if it is set. */
static ls_status layout_of(ls_dtype dtype, size_t rows, size_t columns, size_t ld, size_t batch, size_t step,
                           cublasLtMatrixLayout_t *out) {
    int32_t count = (int32_t)batch;
    int64_t offset = (int64_t)step;
    CALL(cublasLtMatrixLayoutCreate, out, type_of(dtype), columns, rows, (int64_t)ld);
    if (batch == 1) return LS_OK;
    CALL(cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    CALL(cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof offset);
    return LS_OK;
}

/* Creates the descriptor and the four layouts. On failure the caller closes what was created. */
static ls_status describe_product(ls_lt_product *p) {
    const ls_lt_shape *s = &p->shape;
    bool a_turns = s->form == LS_GEMM_TN, b_turns = s->form == LS_GEMM_NT;
    int32_t first = b_turns ? CUBLAS_OP_T : CUBLAS_OP_N, second = a_turns ? CUBLAS_OP_T : CUBLAS_OP_N;
    CALL(cublasLtMatmulDescCreate, &p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    CALL(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    CALL(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    LS_TRY(layout_of(s->dtype, a_turns ? s->k : s->m, a_turns ? s->m : s->k, s->lda, s->batch, s->a_step, &p->a));
    LS_TRY(layout_of(s->dtype, b_turns ? s->n : s->k, b_turns ? s->k : s->n, s->ldb, s->batch, s->b_step, &p->b));
    LS_TRY(layout_of(s->c_dtype, s->m, s->n, s->ldadded, s->batch, s->c_step, &p->added));
    return layout_of(s->c_dtype, s->m, s->n, s->ldc, s->batch, s->c_step, &p->c);
}

ls_status ls_lt_product_open(ls_cublaslt *lt, const ls_lt_shape *shape, ls_lt_product **out) {
    *out = NULL;
    ls_lt_product *product = calloc(1, sizeof *product);
    if (!product) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    product->handle = lt->handle;
    product->shape = *shape;
    ls_status status = describe_product(product);
    if (status == LS_OK)
        *out = product;
    else
        ls_lt_product_close(product);
    return status;
}

void ls_lt_product_close(ls_lt_product *product) {
    if (!product) return;
    cublasLtMatrixLayout_t layouts[] = {product->a, product->b, product->added, product->c};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i]) (void)calls.cublasLtMatrixLayoutDestroy(layouts[i]);
    if (product->desc) (void)calls.cublasLtMatmulDescDestroy(product->desc);
    free(product);
}

/* Asks the heuristic for up to `most` algorithms without workspace and split-K that run at our alignments. Fills
 * found[] and *count; `preference` is changed, and the caller destroys it. */
static ls_status run_heuristic(ls_lt_product *p, cublasLtMatmulPreference_t preference,
                               cublasLtMatmulHeuristicResult *found, int most, int *count) {
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint32_t aligned[] = {p->shape.align_b, p->shape.align_a, p->shape.align_added, p->shape.align_c};
    const uint64_t workspace = 0;
    CALL(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
         sizeof reduction);
    CALL(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
         sizeof workspace);
    for (int i = 0; i < 4; i++)
        CALL(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
             &aligned[i], sizeof aligned[i]);
    CALL(cublasLtMatmulAlgoGetHeuristic, p->handle, p->desc, p->b, p->a, p->added, p->c, preference, most, found,
         count);
    return LS_OK;
}

int ls_lt_product_guess(ls_lt_product *product, ls_lt_algorithm *out, int most) {
    cublasLtMatmulHeuristicResult found[GUESSES_MAX];
    cublasLtMatmulPreference_t preference;
    int count = 0, taken = 0;
    if (most > GUESSES_MAX) most = GUESSES_MAX;
    if (calls.cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return 0;
    ls_status status = run_heuristic(product, preference, found, most, &count);
    (void)calls.cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; status == LS_OK && i < count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && !found[i].workspace) out[taken++] = found[i].algo;
    return taken;
}

/* Searches the heuristic's list, because cublasLtMatmulAlgoCheck() refuses algorithms that the heuristic returns
 * and that run. */
bool ls_lt_product_takes(ls_lt_product *product, const ls_lt_algorithm *algorithm, int most) {
    ls_lt_algorithm guesses[GUESSES_MAX];
    int count = ls_lt_product_guess(product, guesses, most);
    for (int i = 0; i < count; i++)
        if (memcmp(&guesses[i], algorithm, sizeof *algorithm) == 0) return true;
    return false;
}

ls_status ls_lt_product_run(ls_lt_product *p, const ls_lt_algorithm *algorithm, const ls_lt_operands *operands,
                            CUstream stream) {
    const float one = 1, zero = 0;
    const void *added = operands->added ? operands->added : operands->c;
    CALL(cublasLtMatmul, p->handle, p->desc, &one, operands->b, p->b, operands->a, p->a, operands->added ? &one : &zero,
         added, operands->added ? p->added : p->c, operands->c, p->c, algorithm, NULL, 0, stream);
    return LS_OK;
}
