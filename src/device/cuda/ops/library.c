/* library.c: autotunes GEMMs on tensor cores: runs them by cuBLASLt or, with the matrix unit hgmma, by our own kernels
 * in another way than hgmma.c would choose, if that is faster and gives the same bits.
 *
 * When a large GEMM occurs for the second time, a trial runs all contenders on random numbers in memory that is freed
 * at the end. Our default kernels compute C. A contender, another way of hgmma.c or an algorithm of the library's
 * heuristic, is rejected unless every byte of its C is the same. The fastest of the rest is chosen if it is faster by
 * GAIN. The result is kept in a file (choices.h). If memory for a trial is short, or trials have taken TRIALS_S, our
 * default kernels are used for this run. */
#include "device/cuda/ops/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "device/cuda/args/compare.h"
#include "device/cuda/choices.h"
#include "device/cuda/modules.h"
#include "device/cuda/ops/hgmma.h"

enum {
    GUESSES = 6,      /* of each way */
    ROUNDS = 3,       /* of timing */
    REPEATS_MAX = 16, /* runs of a contender in a round */
    ALIGN_MAX = 256,
    GRANULE = 16,      /* k of an instruction of the unit */
    NUMBERS = 1048573, /* random numbers; a prime, so that rows begin at different ones */
    EXPONENTS = 14,    /* of these numbers: four decades */
};

/* Upper bound of the scratch for the sums of all slices. */
#define PARTS_MAX ((size_t)1 << 30)
/* Shortest time of a contender in a round. */
#define ROUND_S 0.002
#define GAIN 1.02
/* Contenders this much slower than the best in the first round are not timed again. */
#define HOPELESS 1.1
/* Time of all trials in a run. */
#define TRIALS_S 15.0
/* Smaller GEMMs are not worth a trial. */
#define FLOPS_MIN 1e10

/* A GEMM that occurred at least once. Of `choice` the key is always valid, the rest if is_chosen. */
typedef struct known {
    ls_cuda_choice choice;
    bool is_chosen;
    ls_lt_product *product; /* of a choice of the library; NULL: our own kernels */
} known;

struct ls_cuda_library {
    ls_cublaslt *lt;              /* NULL: cuBLASLt is absent or switched off */
    bool is_off;                  /* LS_PRODUCT_TRIALS=no: no trials */
    bool takes_small, takes_slow; /* LS_CUBLASLT=any, always: for tests */
    char path[1024];              /* of the file of choices, or "" */
    ls_cuda_choices kept;         /* all choices of the file, and those of this run */
    double spent_s;               /* on trials */
    known *list;                  /* GEMMs that occurred */
    size_t count, capacity;
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Sets library->path, whose name has a hash of all that makes results comparable: GPU, driver, version of cuBLASLt
 * and our own kernels. It stays "" without a cache folder. */
static void find_file(ls_device *device, size_t version, ls_cuda_library *library) {
    char folder[768], name[LS_HASH_TEXT_BYTES];
    int driver;
    if (!ls_cuda_cache_folder(folder, sizeof folder)) return;
    const char *model = ls_cuda_model(device, &driver);
    const size_t numbers[] = {version, (size_t)driver, ls_cuda_processors(device), sizeof(ls_cuda_choice),
                              library->takes_slow};
    const ls_hash128 parts[] = {ls_hash_bytes(model, strlen(model)), ls_hash_bytes(numbers, sizeof numbers),
                                ls_cuda_family_hash("hgmma"), ls_cuda_family_hash("hgmma_over")};
    ls_hash_text(ls_hash_combine(parts, sizeof parts / sizeof *parts), name);
    (void)snprintf(library->path, sizeof library->path, "%s/products-%s", folder, name);
}

/* Returns the state of autotuning of a device, opened on first use as the variables LS_CUBLASLT and
 * LS_PRODUCT_TRIALS say; reads the file of choices, unless trials are off. NULL: a dry device, or memory is short. */
static ls_cuda_library *library_of(ls_device *device) {
    ls_cuda_library **slot = ls_cuda_library_of(device);
    if (!slot || *slot) return slot ? *slot : NULL;
    ls_cuda_library *library = calloc(1, sizeof *library);
    if (!library) return NULL;
    *slot = library;
    const char *asked = getenv("LS_CUBLASLT"), *trials = getenv("LS_PRODUCT_TRIALS");
    library->is_off = trials && strcmp(trials, "no") == 0;
    if (library->is_off) return library;
    size_t version = 0;
    library->takes_slow = asked && strcmp(asked, "always") == 0;
    library->takes_small = library->takes_slow || (asked && strcmp(asked, "any") == 0);
    bool is_off = asked && strcmp(asked, "no") == 0;
    if (!is_off && (ls_cublaslt_version(&version) != LS_OK || ls_cublaslt_open(&library->lt) != LS_OK))
        ls_log_debug("products by our own kernels: %s", ls_status_message());
    if (!library->lt) version = 0;
    find_file(device, version, library);
    if (*library->path) ls_cuda_choices_read(&library->kept, library->path);
    return library;
}

void ls_cuda_library_close(ls_cuda_library *library) {
    if (!library) return;
    for (size_t i = 0; i < library->count; i++) ls_lt_product_close(library->list[i].product);
    ls_cublaslt_close(library->lt);
    ls_cuda_choices_clear(&library->kept);
    free(library->list);
    free(library);
}

/* ---- GEMMs ------------------------------------------------------------------------------------------------------- */

/* Returns the number of slices of k, at least 1. */
static int slices_of(const ls_gemm *g) { return g->slices > 1 ? g->slices : 1; }

/* Returns the alignment of an address in bytes, a power of two of at most ALIGN_MAX; ALIGN_MAX for NULL. */
static unsigned align_of(const void *p) {
    uintptr_t at = (uintptr_t)p, align = at & (~at + 1);
    return !at || align > ALIGN_MAX ? ALIGN_MAX : (unsigned)align;
}

/* Returns the bytes of the fp32 sums of all slices; SIZE_MAX on overflow. */
static size_t parts_bytes(const ls_gemm *g) {
    size_t bytes;
    if (__builtin_mul_overflow(g->m, g->n, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)slices_of(g) * sizeof(float), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Returns whether cuBLASLt could compute this GEMM: 16-bit operands, slices of equal length that start from +0
 * and, after them, only what a kernel of ours or one addend can do. */
static bool is_plain(const ls_gemm *g) {
    int slices = slices_of(g);
    if (g->accumulate || g->end || g->dtype == LS_F32 || (g->period && g->period % GRANULE)) return false;
    for (int s = 0; g->slices > 1 && s < slices; s++)
        if (g->bounds[s + 1] - g->bounds[s] != g->bounds[1]) return false;
    if (slices > 1) return g->bounds[1] > 0;
    return !g->bias && g->siblings <= 1 && g->k;
}

/* Returns whether a GEMM is large enough for a trial. */
static bool is_large(const ls_gemm *g) { return 2.0 * (double)g->m * (double)g->n * (double)g->k >= FLOPS_MIN; }

/* Returns the key of a GEMM for the table of choices. */
static ls_cuda_product_key key_of(ls_device *device, const ls_gemm *g) {
    ls_cuda_product_key key = {
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .lda = g->lda,
        .ldb = g->ldb,
        .ldc = g->ldc,
        .ldadded = g->siblings ? g->ldsibling : 0,
        .period = g->period,
        .first = g->slices > 1 ? g->bounds[1] : 0,
        .form = (uint32_t)g->form,
        .dtype = (uint32_t)g->dtype,
        .c_dtype = (uint32_t)g->c_dtype,
        .slices = (uint32_t)slices_of(g),
        .siblings = (uint32_t)g->siblings,
        .has_bias = g->bias != NULL,
        .align_a = align_of(g->a),
        .align_b = align_of(g->b),
        .align_c = align_of(g->c),
        .align_added = ALIGN_MAX,
    };
    for (int s = 0; s < g->siblings; s++) {
        unsigned align = align_of(g->sibling[s]);
        if (align < key.align_added) key.align_added = align;
        if ((const void *)g->sibling[s] == g->c) key.is_in_place = 1;
    }
    key.has_scratch = parts_bytes(g) <= PARTS_MAX && parts_bytes(g) <= ls_cuda_scratch_limit(device);
    return key;
}

/* Returns whether a GEMM can be computed in this way of cuBLASLt, and sets *out to the request to the library. */
static bool shape_of(const ls_gemm *g, const ls_cuda_product_key *key, ls_cuda_way way, ls_lt_shape *out) {
    int slices = slices_of(g);
    bool is_apart = way == LS_CUDA_LIBRARY_APART;
    size_t k = slices > 1 ? g->bounds[1] : g->k;
    if (!is_plain(g) || (way == LS_CUDA_LIBRARY) != (slices == 1) || (is_apart && !key->has_scratch) ||
        (way == LS_CUDA_LIBRARY_IN_TURN && (slices != 2 || g->c_dtype != LS_F32 || g->siblings || g->bias)))
        return false;
    *out = (ls_lt_shape){
        .form = g->form,
        .dtype = g->dtype,
        .c_dtype = is_apart ? LS_F32 : g->c_dtype,
        .m = g->m,
        .n = g->n,
        .k = k,
        .lda = g->lda,
        .ldb = g->ldb,
        .ldc = is_apart ? g->n : g->ldc,
        .batch = is_apart ? (size_t)slices : 1,
        .a_step = g->form == LS_GEMM_TN ? k * g->lda : k,
        .b_step = g->form == LS_GEMM_NT ? k : k * g->ldb,
        .c_step = g->m * g->n,
        .align_a = key->align_a,
        .align_b = key->align_b,
        .align_c = is_apart ? ALIGN_MAX : key->align_c,
    };
    out->ldadded = way == LS_CUDA_LIBRARY && g->siblings ? g->ldsibling : out->ldc;
    out->align_added = way == LS_CUDA_LIBRARY && g->siblings ? key->align_added : out->align_c;
    return true;
}

/* What enqueue() passes to cuBLASLt. */
typedef struct enqueued {
    ls_lt_product *product;
    const ls_lt_algorithm *algorithm;
    ls_lt_operands operands;
} enqueued;

/* Callback of ls_cuda_enqueue(): `ctx` is an `enqueued`. */
static ls_status enqueue(void *ctx, struct CUstream_st *stream) {
    const enqueued *e = ctx;
    return ls_lt_product_run(e->product, e->algorithm, &e->operands, stream);
}

/* Enqueues a GEMM by cuBLASLt in the given way: as one GEMM, as a batch over slices into scratch that our kernel
 * joins, or as two GEMMs of which the second adds to the first. */
static ls_status run_library(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_way way,
                             ls_lt_product *product, const ls_lt_algorithm *algorithm) {
    enqueued e = {product, algorithm, {g->a, g->b, g->siblings ? g->sibling[0] : NULL, g->c}};
    if (way == LS_CUDA_LIBRARY) return ls_cuda_enqueue(device, "cublaslt", enqueue, &e);
    e.operands.added = NULL;
    if (way == LS_CUDA_LIBRARY_APART) {
        ls_cuda_gemm join = *args;
        void *parts;
        LS_TRY(ls_cuda_scratch(device, parts_bytes(g), &parts));
        e.operands.c = join.parts = parts;
        LS_TRY(ls_cuda_enqueue(device, "cublaslt", enqueue, &e));
        return ls_cuda_gemm_join_parts(device, &join);
    }
    size_t bytes = g->bounds[1] * ls_dtype_bytes(g->dtype);
    LS_TRY(ls_cuda_enqueue(device, "cublaslt", enqueue, &e));
    e.operands.a = (const char *)g->a + bytes * (g->form == LS_GEMM_TN ? g->lda : 1);
    e.operands.b = (const char *)g->b + bytes * (g->form == LS_GEMM_NT ? 1 : g->ldb);
    e.operands.added = g->c;
    return ls_cuda_enqueue(device, "cublaslt", enqueue, &e);
}

/* ---- a trial ----------------------------------------------------------------------------------------------------- */

/* A trial: memory for operands of random numbers, and the call on them. Behind and before each operand there is
 * room, so that they are aligned no better than the real ones. a … differ are byte offsets in `memory`. */
typedef struct trial {
    ls_device *device;
    ls_cuda_own own;
    ls_gemm g;         /* the call on this memory, with C of our own kernels */
    ls_cuda_gemm args; /* the kernel's arguments of it */
    char *memory;
    size_t a, b, added, own_c, c, differ, all; /* added: the bias, too; own_c: C of our kernels; all: bytes in all */
    size_t c_bytes;                            /* of each C, with the room around it */
} trial;

/* An implementation in a trial. */
typedef struct contender {
    ls_cuda_way way;
    ls_lt_product *product; /* of a way of the library; shared by its algorithms */
    ls_lt_algorithm algorithm;
    double seconds; /* its shortest mean time of a round */
} contender;

/* Reserves bytes for a matrix with a margin of ALIGN_MAX on both sides: returns its offset and advances *at. */
static size_t take(size_t *at, size_t rows, size_t ld, size_t elem) {
    size_t begin = *at;
    *at += (rows * ld * elem + ALIGN_MAX - 1) / ALIGN_MAX * ALIGN_MAX + 2 * ALIGN_MAX;
    return begin;
}

/* Returns an address behind the margin of a reserved matrix at `memory`, with exactly this alignment. */
static void *behind(char *memory, unsigned align) { return memory + ALIGN_MAX + (align < ALIGN_MAX ? align : 0); }

/* Lays out the trial's memory (sets the offsets): operands, our C, the contender's C, the flag of the comparison. */
static void place(trial *t, const ls_gemm *g) {
    size_t elem = ls_dtype_bytes(g->dtype), at = 0;
    size_t ldadded = g->siblings && g->ldsibling > g->n ? g->ldsibling : g->n;
    t->a = take(&at, g->form == LS_GEMM_TN ? g->k : g->m, g->lda, elem);
    t->b = take(&at, g->form == LS_GEMM_NT ? g->n : g->k, g->ldb, elem);
    t->added = take(&at, g->siblings ? g->m : 1, ldadded, sizeof(float));
    t->own_c = take(&at, g->m, g->ldc, ls_dtype_bytes(g->c_dtype));
    t->c_bytes = at - t->own_c;
    t->c = at;
    t->differ = at + t->c_bytes;
    t->all = t->differ + ALIGN_MAX;
}

/* Replaces the operands of the call *out and of the arguments *args, copies of g's, by the memory of the trial; C
 * begins at offset `c`. A sibling that is C stays C. */
static void move_call(const trial *t, const ls_gemm *g, const ls_cuda_product_key *key, size_t c, ls_gemm *out,
                      ls_cuda_gemm *args) {
    const float *added = behind(t->memory + t->added, key->align_added);
    out->a = args->a = behind(t->memory + t->a, key->align_a);
    out->b = args->b = behind(t->memory + t->b, key->align_b);
    out->c = args->c = behind(t->memory + c, key->align_c);
    for (int s = 0; s < g->siblings; s++)
        out->sibling[s] = args->sibling[s] = (const void *)g->sibling[s] == g->c ? out->c : added;
    if (g->bias) out->bias = args->bias = added;
}

/* Fills the operands, but not C, with random 16-bit numbers of both signs over four decades. */
static ls_status make_numbers(const trial *t) {
    const size_t bytes = t->own_c, count = bytes / sizeof(uint16_t) < NUMBERS ? bytes / sizeof(uint16_t) : NUMBERS;
    uint16_t *numbers = malloc(count * sizeof *numbers);
    if (!numbers) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    const ls_rng_key key = ls_rng_key_make(1, 1, 0);
    int digits = t->g.dtype == LS_F16 ? 10 : 7, one = t->g.dtype == LS_F16 ? 15 : 127;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = ls_rng_u64(key, i);
        unsigned exponent = (unsigned)one - (unsigned)(bits >> 16) % EXPONENTS;
        numbers[i] = (uint16_t)((bits & 0x8000) | exponent << digits | (bits & ((1U << digits) - 1)));
    }
    size_t had = count * sizeof *numbers;
    ls_status status = ls_device_copy_in(t->device, t->memory, numbers, had);
    free(numbers);
    for (; status == LS_OK && had < bytes; had *= 2)
        status = ls_device_copy(t->device, t->memory + had, t->memory, had < bytes - had ? had : bytes - had);
    return status;
}

/* Initializes C before a matmul: zero, or the addend if the matmul adds to C in place. */
static ls_status begin_c(const trial *t, const ls_cuda_product_key *key, size_t c) {
    LS_TRY(ls_device_fill(t->device, t->memory + c, 0, t->c_bytes));
    if (!key->is_in_place) return LS_OK;
    size_t bytes = t->c_bytes - 2 * ALIGN_MAX, added = t->own_c - t->added - 2 * ALIGN_MAX;
    return ls_device_copy(t->device, t->memory + c + ALIGN_MAX, t->memory + t->added, bytes < added ? bytes : added);
}

/* Enqueues one run of a contender: by our own kernels or by cuBLASLt. */
static ls_status run_once(const trial *t, const contender *x, const ls_gemm *g, const ls_cuda_gemm *args) {
    return x->way < LS_CUDA_LIBRARY ? t->own(t->device, g, x->way)
                                    : run_library(t->device, g, args, x->way, x->product, &x->algorithm);
}

/* Runs a contender once and sets *out to whether every byte of its C is the same as ours; false too if it fails to
 * run. Waits for the GPU. An error is one of the device. */
static ls_status has_our_bytes(const trial *t, const contender *x, const ls_cuda_product_key *key, const ls_gemm *g,
                               const ls_cuda_gemm *args, bool *out) {
    uint32_t differ = 0;
    ls_cuda_compare call = {t->memory + t->own_c, t->memory + t->c, t->c_bytes / LS_CUDA_COMPARE_BYTES,
                            (uint32_t *)(void *)(t->memory + t->differ)};
    *out = false;
    LS_TRY(begin_c(t, key, t->c));
    if (run_once(t, x, g, args) != LS_OK) return LS_OK; /* it cannot run this GEMM after all */
    LS_TRY(ls_device_fill(t->device, call.differ, 0, sizeof differ));
    ls_cuda_grid grid = {ls_cuda_blocks(t->device, ls_cuda_divide_up(call.n, LS_CUDA_COMPARE_THREADS)), 1, 1};
    LS_TRY(ls_cuda_launch(t->device, LS_CUDA_compare, grid, LS_CUDA_COMPARE_THREADS, 0, &call));
    LS_TRY(t->device->calls->copy_out(t->device, &differ, call.differ, sizeof differ)); /* no read of a step */
    *out = !differ;
    return LS_OK;
}

/* Sets *seconds to the mean time of `repeats` runs of a contender, on the host's clock, from an idle GPU to an
 * idle GPU. */
static ls_status time_once(const trial *t, const contender *x, const ls_gemm *g, const ls_cuda_gemm *args, int repeats,
                           double *seconds) {
    LS_TRY(ls_device_finish(t->device));
    double begin = ls_clock_seconds();
    for (int i = 0; i < repeats; i++) LS_TRY(run_once(t, x, g, args));
    LS_TRY(ls_device_finish(t->device));
    *seconds = (ls_clock_seconds() - begin) / repeats;
    return LS_OK;
}

/* Times all contenders round by round, because the clock of a GPU varies, and keeps the shortest time of each in
 * `seconds`. Contenders that are hopeless after the first round are not timed again. The first is our default
 * kernel. */
static ls_status time_all(const trial *t, contender *list, int count, const ls_gemm *g, const ls_cuda_gemm *args) {
    double once;
    LS_TRY(time_once(t, &list[0], g, args, 1, &once));
    int repeats = once > 0 && ROUND_S / once < REPEATS_MAX ? (int)(ROUND_S / once) + 1 : REPEATS_MAX;
    double best = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            double seconds;
            if (round && i && list[i].seconds > best * HOPELESS) continue;
            LS_TRY(time_once(t, &list[i], g, args, repeats, &seconds));
            if (round == 0 || seconds < list[i].seconds) list[i].seconds = seconds;
            if (best == 0 || seconds < best) best = seconds;
        }
    return LS_OK;
}

/* Fills `list` and *count with our default kernel first, then all contenders whose C has the same bytes; none of our
 * own other ways if library->takes_slow, which is to test the library. `moved`
 * and `args` are the call on the trial's memory, with the contender's C. The caller closes `products`, one per way
 * of the library, even on failure. */
static ls_status find_contenders(const trial *t, const ls_gemm *g, const ls_cuda_product_key *key,
                                 const ls_cuda_library *library, const ls_gemm *moved, const ls_cuda_gemm *args,
                                 ls_lt_product **products, contender *list, int *count) {
    bool is_equal;
    list[(*count)++] = (contender){.way = LS_CUDA_OWN};
    for (ls_cuda_way way = LS_CUDA_OWN + 1; way < LS_CUDA_LIBRARY && !library->takes_slow; way++) {
        contender x = {.way = way};
        if (!ls_cuda_hgmma_has_way(t->device, moved, way)) continue;
        LS_TRY(has_our_bytes(t, &x, key, moved, args, &is_equal));
        if (is_equal) list[(*count)++] = x;
        if (!is_equal) ls_log_warn("way %d to make a product has other bits than our first: it is not used", (int)way);
    }
    if (!library->lt) return LS_OK;
    for (ls_cuda_way way = LS_CUDA_LIBRARY; way < LS_CUDA_WAYS; way++) {
        ls_lt_shape shape;
        ls_lt_algorithm guesses[GUESSES];
        if (!shape_of(g, key, way, &shape) || ls_lt_product_open(library->lt, &shape, &products[way]) != LS_OK)
            continue;
        int found = ls_lt_product_guess(products[way], guesses, GUESSES), equal = 0;
        for (int i = 0; i < found; i++) {
            contender x = {.way = way, .product = products[way], .algorithm = guesses[i]};
            LS_TRY(has_our_bytes(t, &x, key, moved, args, &is_equal));
            if (is_equal) list[(*count)++] = x;
            equal += is_equal;
        }
        ls_log_debug("a product of %zu × %zu × %zu, way %d: cuBLASLt has %d algorithms, %d with our bits", g->m, g->n,
                     g->k, (int)way, found, equal);
    }
    return LS_OK;
}

/* Logs the best time of each way, at debug level. least[]: seconds by way; 0: not timed. */
static void tell(const ls_gemm *g, const double least[LS_CUDA_WAYS]) {
    static const char *const forms[] = {[LS_GEMM_NN] = "NN", [LS_GEMM_NT] = "NT", [LS_GEMM_TN] = "TN"};
    static const char *const ways[] = {"hgmma", "second",   "over",     "pairs", "tall",   "tall cut",
                                       "wide",  "wide cut", "cuBLASLt", "apart", "in turn"};
    _Static_assert(sizeof ways / sizeof *ways == LS_CUDA_WAYS, "a name for each");
    char text[256];
    int at = 0;
    for (int way = 0; way < LS_CUDA_WAYS; way++)
        if (least[way] > 0)
            at +=
                snprintf(text + at, sizeof text - (size_t)at, "%s %s %.1f", at ? "," : "", ways[way], 1e6 * least[way]);
    if (at)
        ls_log_debug("a product %s of %zu × %zu × %zu, %d slices%s, in µs by%s", forms[g->form], g->m, g->n, g->k,
                     slices_of(g), g->bias ? ", bias" : "", text);
}

/* Runs a trial of GEMM `g` in the memory of `t`: our default kernels compute C, then contenders with the same bytes
 * are timed. If there are such contenders, sets out->own_us to the time of the default kernels and out->best_us to
 * that of the fastest contender. Sets out->way and out->algorithm to that contender only if it is faster by GAIN.
 * With library->takes_slow nothing is timed (both times are 0), and the first contender is taken. The caller presets
 * *out. */
static ls_status compete(trial *t, const ls_gemm *g, const ls_cuda_product_key *key, const ls_cuda_library *library,
                         ls_cuda_choice *out) {
    ls_lt_product *products[LS_CUDA_WAYS] = {0};
    contender list[LS_CUDA_LIBRARY + (LS_CUDA_WAYS - LS_CUDA_LIBRARY) * GUESSES];
    int count = 0, best = 0;
    ls_gemm moved = t->g;
    ls_cuda_gemm args = t->args;
    LS_TRY(make_numbers(t));
    LS_TRY(begin_c(t, key, t->own_c));
    move_call(t, g, key, t->own_c, &t->g, &t->args);
    LS_TRY(t->own(t->device, &t->g, LS_CUDA_OWN));
    move_call(t, g, key, t->c, &moved, &args);
    ls_status status = find_contenders(t, g, key, library, &moved, &args, products, list, &count);
    if (status == LS_OK && count > 1 && !library->takes_slow) status = time_all(t, list, count, &moved, &args);
    double least[LS_CUDA_WAYS] = {0};
    for (int i = 0; status == LS_OK && i < count; i++) {
        if (i && (!best || list[i].seconds < list[best].seconds)) best = i;
        double *at = &least[list[i].way];
        if (*at == 0 || list[i].seconds < *at) *at = list[i].seconds;
    }
    tell(g, least);
    if (status == LS_OK && best) {
        out->own_us = (float)(1e6 * list[0].seconds);
        out->best_us = (float)(1e6 * list[best].seconds);
        if (library->takes_slow || list[best].seconds * GAIN < list[0].seconds) {
            out->way = list[best].way;
            out->algorithm = list[best].algorithm;
        }
    }
    for (int way = 0; way < LS_CUDA_WAYS; way++) ls_lt_product_close(products[way]);
    return status;
}

/* Allocates memory, runs a trial and frees the memory; waits for all queues. If memory is short, sets *is_tried to
 * false and returns LS_OK. */
static ls_status try_out(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, const ls_cuda_product_key *key,
                         const ls_cuda_library *library, ls_cuda_own own, ls_cuda_choice *out, bool *is_tried) {
    trial t = {.device = device, .own = own, .g = *g, .args = *args};
    void *memory;
    *is_tried = false;
    place(&t, g);
    LS_TRY(ls_device_finish(device));
    /* Allocates without notice to other observers, because the memory is freed at once. */
    ls_status status = device->calls->alloc(device, t.all, &memory);
    if (status == LS_ERR_RESOURCE) return LS_OK;
    LS_TRY(status);
    t.memory = memory;
    ls_cuda_launch_one_by_one(device, true);
    status = compete(&t, g, key, library, out);
    ls_cuda_launch_one_by_one(device, false);
    device->calls->free(device, memory);
    *is_tried = status == LS_OK;
    return status;
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/* Returns the GEMM with this key that occurred before, or NULL. Valid until the next is added. */
static known *find_known(ls_cuda_library *library, const ls_cuda_product_key *key) {
    for (size_t i = 0; i < library->count; i++)
        if (memcmp(&library->list[i].choice.key, key, sizeof *key) == 0) return &library->list[i];
    return NULL;
}

/* Makes a choice ready to run: opens the algorithm that it names, if it is one of cuBLASLt. If it comes from the
 * file (was_kept) and the heuristic does not list it any more, our default kernels are used and the GEMM has its
 * trial again. If the algorithm of a trial just made cannot be opened, the default kernels are chosen. */
static void open_choice(ls_cuda_library *library, const ls_gemm *g, known *k, bool was_kept) {
    ls_lt_shape shape;
    ls_cuda_way way = (ls_cuda_way)k->choice.way;
    k->is_chosen = true;
    if (way < LS_CUDA_LIBRARY) return;
    if (shape_of(g, &k->choice.key, way, &shape) && ls_lt_product_open(library->lt, &shape, &k->product) == LS_OK &&
        (!was_kept || ls_lt_product_takes(k->product, &k->choice.algorithm, GUESSES)))
        return;
    ls_lt_product_close(k->product);
    k->product = NULL;
    k->choice.way = LS_CUDA_OWN;
    k->is_chosen = !was_kept;
}

/* Adds a GEMM that occurs for the first time, as the last of library->list, with the choice of the file; without
 * one, it has its trial when it occurs again. */
static ls_status add_known(ls_cuda_library *library, const ls_gemm *g, const ls_cuda_product_key *key) {
    if (library->count == library->capacity) {
        size_t capacity = library->capacity ? 2 * library->capacity : 32;
        known *list = realloc(library->list, capacity * sizeof *list);
        if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory");
        library->list = list;
        library->capacity = capacity;
    }
    const ls_cuda_choice *kept = ls_cuda_choices_find(&library->kept, key);
    known *k = &library->list[library->count++];
    *k = (known){.choice = {.key = *key}};
    if (kept) k->choice = *kept;
    if (kept) open_choice(library, g, k, true);
    return LS_OK;
}

/* Runs the trial of a GEMM, unless trials have taken TRIALS_S, and keeps its result in *k and in the file. Without
 * a trial the default is chosen for this run, and the file does not change. */
static ls_status choose(ls_device *device, ls_cuda_library *library, const ls_gemm *g, const ls_cuda_gemm *args,
                        ls_cuda_own own, known *k) {
    bool is_tried = false;
    double begin = ls_clock_seconds();
    if (library->spent_s < TRIALS_S)
        LS_TRY(try_out(device, g, args, &k->choice.key, library, own, &k->choice, &is_tried));
    library->spent_s += ls_clock_seconds() - begin;
    if (is_tried) {
        LS_TRY(ls_cuda_choices_add(&library->kept, &k->choice));
        if (*library->path) ls_cuda_choices_write(&library->kept, library->path);
    }
    open_choice(library, g, k, false);
    return LS_OK;
}

ls_status ls_cuda_library_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_own own,
                              bool *is_done) {
    *is_done = false;
    if (ls_cuda_computes_otherwise(device) || device->queue != LS_QUEUE_COMPUTE) return LS_OK;
    bool has_ways = !g->accumulate && ls_cuda_hgmma_takes(device, g);
    if (!has_ways && !is_plain(g)) return LS_OK;
    ls_cuda_library *library = library_of(device);
    if (!library || library->is_off || (!is_large(g) && !library->takes_small) || (!has_ways && !library->lt))
        return LS_OK;
    ls_cuda_product_key key = key_of(device, g);
    known *k = find_known(library, &key);
    if (!k) {
        LS_TRY(add_known(library, g, &key));
        k = &library->list[library->count - 1];
    } else if (!k->is_chosen) {
        LS_TRY(choose(device, library, g, args, own, k));
    }
    ls_cuda_way way = (ls_cuda_way)k->choice.way;
    *is_done = k->product || (k->is_chosen && way != LS_CUDA_OWN && has_ways && ls_cuda_hgmma_has_way(device, g, way));
    if (!*is_done) return LS_OK;
    return k->product ? run_library(device, g, args, way, k->product, &k->choice.algorithm) : own(device, g, way);
}
