/* hgmma.c: launches GEMMs of the matrix unit hgmma by the kernels of hgmma.cu, hgmma_over.cu and hgmma_act.cu. An
 * estimate of the time chooses the tile, whether slices are computed apart (split-K), and whether the units of the last
 * two waves are cut (stream-K), within the way that the caller, or a trial of library.c, chose (choices.h explains the
 * words). */
#include "device/cuda/ops/hgmma.h"

enum {
    BK = LS_CUDA_HGMMA_K,
    ROW_BYTES = 128,  /* of a tile in shared memory */
    ALIGN_BYTES = 16, /* alignment that TMA requires */
    TILES = 5,
    WIDE_TILE = 0, /* holds the sums of a slice outside registers, of which it has too few */
    END_TILE = 1,  /* of hgmma_act.cu */
    OVER_TILE = 3, /* of hgmma_over.cu, */
    TALL_TILE = 4, /* and with 256 rows */
    COORDINATE_MAX = 0x7FFFFF00,
    BLOCKS_MAX = LS_CUDA_FLAGS / 2, /* two warpgroups of a block have a flag each */
};

/* Upper bound of the scratch memory. */
#define SCRATCH_MAX ((size_t)1 << 30)

/* Cycles of a multiprocessor (measured: build/bench/gpu_kernels, rows hgmma). Only their ratios matter. */
#define EDGE_CYCLES 1500.0  /* prologue and epilogue of a tile, */
#define EDGE_PER_BYTE 0.014 /* and for each byte of C that it stores */
#define OVER_CYCLES 300.0   /* the same if the epilogue overlaps the next tile, */
#define SUM_CYCLES 300.0    /* and more if it adds two slices */
#define HELD_CYCLES 1200.0  /* to hold a slice's sums and add them to the next one's */
#define SET_PER_BYTE 0.025  /* sums stored to memory or loaded */
#define MEMORY_PER_BYTE 0.06
#define LAUNCH_CYCLES 4000.0
#define CUT_FACTOR                                                                                                     \
    1.04 /* blocks whose tiles are cut are at other k at a time, and the second cache holds less for all */

typedef struct tile_kind {
    size_t m, n;
    double step_cycles;
    bool has_second; /* registers for the sums of a first slice; then there are two at most */
    size_t shared;
} tile_kind;

static const tile_kind tiles[TILES] = {
    {LS_CUDA_HGMMA_M, LS_CUDA_HGMMA_HELD_N, 1080, false, LS_CUDA_HGMMA_HELD_SHARED},
    {LS_CUDA_HGMMA_M, 192, 850, true, LS_CUDA_HGMMA_SHARED(192)},
    {LS_CUDA_HGMMA_M, 128, 640, true, LS_CUDA_HGMMA_SHARED(128)},
    [OVER_TILE] = {LS_CUDA_HGMMA_M, LS_CUDA_HGMMA_OVER_N, 850, true, LS_CUDA_HGMMA_SHARED(LS_CUDA_HGMMA_OVER_N)},
    [TALL_TILE] = {LS_CUDA_HGMMA_TALL_M, LS_CUDA_HGMMA_OVER_N, 1600, false, LS_CUDA_HGMMA_TALL_SHARED},
};

_Static_assert(LS_CUDA_HGMMA_ACT_N == 192, "the tile END_TILE");
_Static_assert((int)LS_GEMM_GELU == LS_CUDA_HGMMA_GELU && (int)LS_GEMM_GELU_GRAD == LS_CUDA_HGMMA_GELU_GRAD &&
                   (int)LS_GEMM_GATED_GRAD == LS_CUDA_HGMMA_GATED_GRAD && (int)LS_GEMM_GATED == LS_CUDA_HGMMA_GATED,
               "kernels know epilogues by the numbers of ls_gemm_end");

static const ls_cuda_kernel kernels_of_two[] = {[LS_GEMM_NN] = LS_CUDA_hgmma_over_nn_2,
                                                [LS_GEMM_NT] = LS_CUDA_hgmma_over_nt_2,
                                                [LS_GEMM_TN] = LS_CUDA_hgmma_over_tn_2};
static const ls_cuda_kernel kernels[3][TILES] = {
    [LS_GEMM_NN] = {LS_CUDA_hgmma_nn_256, LS_CUDA_hgmma_nn_192, LS_CUDA_hgmma_nn_128, LS_CUDA_hgmma_over_nn,
                    LS_CUDA_hgmma_tall_nn},
    [LS_GEMM_NT] = {LS_CUDA_hgmma_nt_256, LS_CUDA_hgmma_nt_192, LS_CUDA_hgmma_nt_128, LS_CUDA_hgmma_over_nt,
                    LS_CUDA_hgmma_tall_nt},
    [LS_GEMM_TN] = {LS_CUDA_hgmma_tn_256, LS_CUDA_hgmma_tn_192, LS_CUDA_hgmma_tn_128, LS_CUDA_hgmma_over_tn,
                    LS_CUDA_hgmma_tall_tn},
};

/* ---- TMA operands ------------------------------------------------------------------------------------------------ */

static int slices_of(const ls_gemm *g) { return g->slices > 1 ? g->slices : 1; }
static size_t length_of(const ls_gemm *g, int s) { return g->slices > 1 ? g->bounds[s + 1] - g->bounds[s] : g->k; }

static bool is_aligned(const void *p, ls_dtype dtype, size_t stride) {
    return (uintptr_t)p % ALIGN_BYTES == 0 && stride * ls_dtype_bytes(dtype) % ALIGN_BYTES == 0;
}

/* Returns the period in k: the length of a sequence or slice that is padded with +0 to whole steps; k if only the end
 * is padded; 0 if the kernels do not support the matmul. */
static size_t period_of(const ls_gemm *g) {
    int slices = slices_of(g);
    bool are_steps = true, are_alike = true, are_along = g->form != LS_GEMM_TN;
    for (int s = 0; s < slices; s++) {
        if (!length_of(g, s)) return 0;
        are_alike = are_alike && length_of(g, s) == length_of(g, 0);
        are_steps = are_steps && (length_of(g, s) % BK == 0 || s + 1 == slices);
    }
    size_t period = g->period && g->period % BK ? g->period : are_steps ? g->k : are_alike ? length_of(g, 0) : 0;
    if (period && period < g->k && are_along && period * ls_dtype_bytes(g->dtype) % ALIGN_BYTES) return 0;
    return period;
}

bool ls_cuda_hgmma_takes(ls_device *device, const ls_gemm *g) {
    return g->unit == LS_UNIT_HGMMA && ls_cuda_has_wgmma(device) && g->k && g->m <= COORDINATE_MAX &&
           g->n <= COORDINATE_MAX && g->k <= COORDINATE_MAX && is_aligned(g->a, g->dtype, g->lda) &&
           is_aligned(g->b, g->dtype, g->ldb) && period_of(g);
}

/* ---- the estimate ------------------------------------------------------------------------------------------------ */

/* A variant of a GEMM: tile, split and stream-K. */
typedef struct hgmma_plan {
    int tile, each; /* each: slices of a part, which a unit computes apart from the others (1 or 2); 0: all together */
    bool is_cut;
    size_t tiles_m, tiles_n, parts, units, blocks, whole;
    size_t steps; /* of a unit; of the longest where they are apart */
    int far_levels;
    size_t scratch;
} hgmma_plan;

/* Returns the steps of `length` values of k, each period padded to whole steps. */
static size_t steps_of(const ls_gemm *g, size_t period, size_t length) {
    return period < g->k ? length / period * ls_cuda_divide_up(period, BK) : ls_cuda_divide_up(length, BK);
}

static size_t scratch_max(ls_device *device) {
    size_t limit = ls_cuda_scratch_limit(device);
    return limit < SCRATCH_MAX ? limit : SCRATCH_MAX;
}

/* Returns whether TMA can store C, or the parts of a split. */
static bool is_staged(const ls_gemm *g, bool are_apart) {
    return are_apart ? g->n * sizeof(float) % ALIGN_BYTES == 0 : is_aligned(g->c, g->c_dtype, g->ldc);
}

/* Returns whether the kernels of hgmma_over.cu support a plan. TMA must store C, or the parts, and unless slices are
 * split there is nothing to add to C. Tiles of 256 rows have one slice and, unless split, no bias. Tiles with an
 * overlapped epilogue have one slice or two, are not cut, and every slice has LS_CUDA_HGMMA_OVER_STEPS steps or
 * more. */
static bool is_over(const ls_gemm *g, size_t period, const hgmma_plan *p) {
    int each = p->each ? p->each : slices_of(g);
    if (!is_staged(g, p->each) || (!p->each && (g->accumulate || g->siblings))) return false;
    if (p->tile == TALL_TILE) return each == 1 && (p->each || !g->bias);
    for (int s = 0; s < slices_of(g); s++)
        if (steps_of(g, period, length_of(g, s)) < LS_CUDA_HGMMA_OVER_STEPS) return false;
    return each <= 2 && !p->is_cut;
}

/* Returns the bytes for sums of tiles that two blocks share: each block has two sets of 128 rows. */
static size_t begun_bytes(const hgmma_plan *p) {
    return 2 * p->blocks * LS_CUDA_HGMMA_M * tiles[p->tile].n * sizeof(float);
}

/* Returns the number of tiles across the columns of gates; each tile has as many columns of the gated values. */
static size_t tiles_across(const ls_gemm *g, const tile_kind *t) { return ls_cuda_divide_up(g->gate, t->n / 2); }

/* Plans a tile with `each` slices a part (0: no split), cut or not. Returns false if the kernels do not support it or
 * the scratch is too small; *out is then undefined. */
static bool plan_of(ls_device *device, const ls_gemm *g, size_t period, int tile, int each, bool is_cut,
                    hgmma_plan *out) {
    const tile_kind *t = &tiles[tile];
    int slices = slices_of(g), levels = 0;
    size_t set = t->m * t->n * sizeof(float), processors = ls_cuda_processors(device);
    hgmma_plan p = {.tile = tile, .each = each, .is_cut = is_cut, .parts = 1};
    bool are_alike = true;
    for (int s = 0; s < slices; s++) {
        size_t steps = steps_of(g, period, length_of(g, s));
        are_alike = are_alike && steps == steps_of(g, period, length_of(g, 0));
        p.steps = each == 1 ? (steps > p.steps ? steps : p.steps) : p.steps + steps;
    }
    if (each) p.parts = (size_t)(slices / each);
    if (each > 1) p.steps /= p.parts; /* which are alike */
    p.tiles_m = ls_cuda_divide_up(g->m, t->m);
    p.tiles_n = g->end == LS_GEMM_GATED ? g->n / (2 * g->gate) * tiles_across(g, t) : ls_cuda_divide_up(g->n, t->n);
    p.units = p.tiles_m * p.tiles_n * p.parts;
    p.blocks = p.units < processors ? p.units : processors;
    p.whole = p.units;
    if (p.units > INT32_MAX || p.tiles_n > INT32_MAX / LS_CUDA_HGMMA_BAND || p.steps > UINT32_MAX) return false;
    if (tile >= OVER_TILE && (!is_over(g, period, &p) || (each && !are_alike))) return false;
    if (each > 1 && (!are_alike || slices % each)) return false;
    while (!each && (1 << levels) < slices) levels++;
    if (t->has_second && levels > 1) return false;
    p.far_levels = tile == WIDE_TILE && levels > 1 ? levels - 1 : 0;
    if (is_cut) {
        /* One wave less than there are is made of whole tiles, the rest is cut. */
        if (p.units <= processors || p.units % processors == 0 || p.far_levels || (each && !are_alike) ||
            !ls_cuda_flags(device) || processors > BLOCKS_MAX)
            return false;
        p.whole = (p.units / processors - 1) * processors;
        if ((p.units - p.whole) * p.steps > UINT32_MAX) return false;
        p.scratch = begun_bytes(&p);
    }
    if (each) {
        size_t bytes;
        if (__builtin_mul_overflow(g->m, g->n, &bytes) ||
            __builtin_mul_overflow(bytes, p.parts * sizeof(float), &bytes))
            return false;
        p.scratch += bytes;
    }
    p.scratch += p.blocks * (size_t)p.far_levels * set;
    *out = p;
    return p.scratch <= scratch_max(device);
}

/* Estimates the time of a plan in cycles of a multiprocessor. */
static double cost_of(ls_device *device, const ls_gemm *g, const hgmma_plan *p) {
    const tile_kind *t = &tiles[p->tile];
    int slices = slices_of(g);
    bool are_apart = p->each != 0, goes_over = p->tile == OVER_TILE;
    double elems = (double)(t->m * t->n), set = elems * sizeof(float), all = (double)g->m * (double)g->n;
    double c_bytes = are_apart ? set : elems * (double)ls_dtype_bytes(g->c_dtype);
    double edge = EDGE_CYCLES + c_bytes * EDGE_PER_BYTE;
    double over = OVER_CYCLES + ((p->each ? p->each : slices) > 1 ? SUM_CYCLES : 0);
    double unit = (double)p->steps * t->step_cycles + (goes_over ? over : edge);
    if (!are_apart && g->accumulate) unit += set * SET_PER_BYTE;
    if (!are_apart) unit += (double)g->siblings * set * SET_PER_BYTE;
    if (p->tile == WIDE_TILE) unit += HELD_CYCLES * (double)((are_apart ? p->each : slices) / 2);
    if (p->far_levels) unit += 2 * set * SET_PER_BYTE * (double)((slices - 1) / 2);
    double cost =
        p->is_cut ? ((double)p->units / (double)p->blocks * unit + 2 * set * SET_PER_BYTE + EDGE_CYCLES) * CUT_FACTOR
                  : (double)ls_cuda_divide_up(p->units, p->blocks) * unit;
    if (goes_over) cost += edge; /* of the last */
    if (are_apart)
        cost += LAUNCH_CYCLES + all * sizeof(float) * (2 * (double)p->parts + 1 + g->siblings) * MEMORY_PER_BYTE /
                                    (double)ls_cuda_processors(device);
    return cost;
}

/* Returns whether a plan with this tile, `each` slices a part (0: no split) and with or without stream-K belongs to
 * this way. To LS_CUDA_OWN and LS_CUDA_OWN_SECOND belong all tiles of hgmma.cu, but no parts of two slices. */
static bool is_of_way(ls_cuda_way way, int tile, int each, bool is_cut) {
    if (way == LS_CUDA_WIDE || way == LS_CUDA_WIDE_CUT)
        return tile == WIDE_TILE && !each && is_cut == (way == LS_CUDA_WIDE_CUT);
    if (way == LS_CUDA_PAIRS || each == 2) return way == LS_CUDA_PAIRS && each == 2 && tile != TALL_TILE;
    if (way == LS_CUDA_OVER) return tile == OVER_TILE;
    if (way == LS_CUDA_TALL || way == LS_CUDA_TALL_CUT) return tile == TALL_TILE && is_cut == (way == LS_CUDA_TALL_CUT);
    return tile < OVER_TILE;
}

/* Sets *best to the fastest plan of a way by the estimate, except with tile `but` (−1: all). Returns false, with *best
 * unchanged, if there is none. A split needs more slices than a part has. */
static bool choose_but(ls_device *device, const ls_gemm *g, size_t period, int but, ls_cuda_way way, hgmma_plan *best) {
    double least = -1;
    for (int i = 0; i < 6 * TILES; i++) {
        int tile = i / 6, each = i / 2 % 3;
        bool is_cut = i % 2;
        hgmma_plan plan;
        if (tile == but || !is_of_way(way, tile, each, is_cut) || (each && slices_of(g) <= each)) continue;
        if (!plan_of(device, g, period, tile, each, is_cut, &plan)) continue;
        double cost = cost_of(device, g, &plan);
        if (least >= 0 && cost >= least) continue;
        least = cost;
        *best = plan;
    }
    return least >= 0;
}

/* Sets *best to the best plan of a way; of LS_CUDA_OWN_SECOND, to the best with another tile than the best. Returns
 * false if there is none; *best may have changed. */
static bool choose_plan(ls_device *device, const ls_gemm *g, size_t period, ls_cuda_way way, hgmma_plan *best) {
    return choose_but(device, g, period, -1, way, best) &&
           (way != LS_CUDA_OWN_SECOND || choose_but(device, g, period, best->tile, way, best));
}

static bool is_same(const hgmma_plan *a, const hgmma_plan *b) {
    return a->tile == b->tile && a->each == b->each && a->is_cut == b->is_cut;
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/* Makes the tensor map of an operand of `lines` lines with k elements. If `is_along`, a line is a row; otherwise it is
 * a column. */
static ls_status map_operand(ls_device *device, const ls_gemm *g, size_t period, const void *at, size_t ld,
                             bool is_along, size_t lines, size_t tile_lines, ls_cuda_tensor_map *out) {
    ls_cuda_tiled tiled = {.at = at, .dtype = g->dtype, .sizes = {period, lines, g->k / period}};
    tiled.strides[0] = ld;
    tiled.strides[1] = tiled.sizes[2] == 1 ? ld : is_along ? period : period * ld; /* of one alone: any */
    tiled.box[0] = BK;
    tiled.box[1] = (uint32_t)tile_lines;
    if (!is_along) {
        tiled.sizes[0] = lines;
        tiled.sizes[1] = period;
        tiled.box[1] = BK;
    }
    return ls_cuda_tensor_map_of(device, &tiled, out);
}

/* Makes the tensor map of C, or of the parts if args->g.parts is set, and sets args->c_is_staged; neither if TMA cannot
 * store it, and then threads do. */
static ls_status map_c(ls_device *device, const ls_gemm *g, ls_cuda_hgmma *args) {
    bool are_apart = args->g.parts != NULL;
    if (!is_staged(g, are_apart)) return LS_OK;
    ls_cuda_tiled tiled = {.at = are_apart ? args->g.parts : g->c, .dtype = are_apart ? LS_F32 : g->c_dtype};
    size_t ld = are_apart ? g->n : g->ldc;
    args->c_is_staged = 1;
    tiled.sizes[0] = g->n;
    tiled.sizes[1] = g->m;
    tiled.sizes[2] = are_apart ? (size_t)(args->g.slices / args->each) : 1;
    tiled.strides[0] = ld;
    tiled.strides[1] = are_apart ? g->m * g->n : ld;
    tiled.box[0] = ROW_BYTES / (uint32_t)ls_dtype_bytes(tiled.dtype);
    tiled.box[1] = LS_CUDA_HGMMA_STAGED_ROWS;
    return ls_cuda_tensor_map_of(device, &tiled, &args->c);
}

/* Fills the arguments of the kernel, except the tensor map of C and what only hgmma_act.cu needs. Takes the plan's
 * scratch: first the sums of cut units, then the parts of a split or the upper levels of the tree (never both). */
static ls_status args_of(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *call, size_t period,
                         const hgmma_plan *plan, ls_cuda_hgmma *out) {
    const tile_kind *t = &tiles[plan->tile];
    ls_cuda_hgmma args = {.g = *call, .units = (uint32_t)plan->units, .whole = (uint32_t)plan->whole};
    args.each = plan->each ? plan->each : slices_of(g);
    args.is_periodic = period < g->k;
    args.g.period = period;
    args.g.tiles_m = (uint32_t)plan->tiles_m;
    args.g.tiles_n = (uint32_t)plan->tiles_n;
    args.g.far_levels = plan->far_levels;
    args.tiles = ls_cuda_divider_of(plan->tiles_m * plan->tiles_n);
    args.band = ls_cuda_divider_of(plan->tiles_n * LS_CUDA_HGMMA_BAND);
    char *scratch = NULL;
    if (plan->scratch) {
        void *memory;
        LS_TRY(ls_cuda_scratch(device, plan->scratch, &memory));
        scratch = memory;
    }
    if (plan->is_cut) {
        size_t line = (plan->units - plan->whole) * plan->steps;
        args.steps = (uint32_t)plan->steps;
        args.line_each = (uint32_t)(line / plan->blocks);
        args.line_rest = (uint32_t)(line % plan->blocks);
        args.begun = (float *)(void *)scratch;
        args.is_begun = ls_cuda_flags(device);
        scratch += begun_bytes(plan);
    }
    if (plan->each) args.g.parts = (float *)(void *)scratch;
    if (plan->far_levels) args.g.far = (float *)(void *)scratch;
    LS_TRY(map_operand(device, g, period, g->a, g->lda, g->form != LS_GEMM_TN, g->m, t->m, &args.a));
    LS_TRY(map_operand(device, g, period, g->b, g->ldb, g->form == LS_GEMM_NT, g->n,
                       g->end == LS_GEMM_GATED ? t->n / 2 : t->n, &args.b));
    *out = args;
    return LS_OK;
}

bool ls_cuda_hgmma_has_way(ls_device *device, const ls_gemm *g, ls_cuda_way way) {
    hgmma_plan plan, first;
    if (!ls_cuda_hgmma_takes(device, g) || !choose_plan(device, g, period_of(g), way, &plan)) return false;
    return way == LS_CUDA_OWN || !choose_plan(device, g, period_of(g), LS_CUDA_OWN, &first) || !is_same(&plan, &first);
}

/* Adds the parts of split slices. A part of two slices is a subtree, so the tree over the parts is correct. */
static ls_status join_parts(ls_device *device, const ls_cuda_hgmma *args) {
    ls_cuda_gemm parts = args->g;
    parts.slices /= args->each;
    return ls_cuda_gemm_join_parts(device, &parts);
}

ls_status ls_cuda_hgmma_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *call, ls_cuda_way way,
                            bool *is_done) {
    size_t period = period_of(g);
    hgmma_plan plan = {0};
    *is_done = false;
    if (!choose_plan(device, g, period, way, &plan)) return LS_OK;
    if (ls_cuda_computes_otherwise(device) && !choose_plan(device, g, period, LS_CUDA_OVER, &plan))
        (void)choose_plan(device, g, period, LS_CUDA_OWN_SECOND, &plan);
    *is_done = true;
    ls_cuda_hgmma args;
    LS_TRY(args_of(device, g, call, period, &plan, &args));
    LS_TRY(map_c(device, g, &args));
    bool has_two = plan.tile == OVER_TILE && args.each == 2;
    ls_cuda_kernel kernel = has_two ? kernels_of_two[g->form] : kernels[g->form][plan.tile];
    if (kernel == LS_CUDA_hgmma_over_nt && plan.steps >= LS_CUDA_HGMMA_SPREAD_STEPS && !plan.each)
        kernel = LS_CUDA_hgmma_over_nt_spread;
    LS_TRY(ls_cuda_launch(device, kernel, (ls_cuda_grid){plan.blocks, 1, 1}, LS_CUDA_HGMMA_THREADS,
                          tiles[plan.tile].shared, &args));
    return plan.each ? join_parts(device, &args) : LS_OK;
}

/* ---- with a fused epilogue --------------------------------------------------------------------------------------- */

/* Sets *best to the faster of the plan with whole tiles and that with cut ones. Returns false if that with whole tiles
 * does not fit. */
static bool choose_end_plan(ls_device *device, const ls_gemm *g, hgmma_plan *best) {
    hgmma_plan cut;
    if (!plan_of(device, g, g->k, END_TILE, 0, false, best)) return false;
    if (plan_of(device, g, g->k, END_TILE, 0, true, &cut) && cost_of(device, g, &cut) < cost_of(device, g, best))
        *best = cut;
    return true;
}

/* Returns whether C, y and pre consist of aligned pieces of 16 bytes, and gates of whole pieces. With LS_GEMM_GATED
 * there must be a y and no bias. */
static bool has_pieces(const ls_gemm *g) {
    const size_t piece = ALIGN_BYTES / sizeof(uint16_t);
    if (!is_aligned(g->c, g->dtype, g->ldc) || !is_aligned(g->y, g->dtype, 0) || !is_aligned(g->pre, g->dtype, 0))
        return false;
    bool is_gated = g->end == LS_GEMM_GATED;
    if (is_gated && (!g->y || g->bias)) return false;
    return g->n % piece == 0 && ((g->end != LS_GEMM_GATED_GRAD && !is_gated) ||
                                 (g->gate && g->gate % piece == 0 && g->n % (is_gated ? 2 * g->gate : g->gate) == 0));
}

bool ls_cuda_hgmma_ends(ls_device *device, const ls_gemm *g) {
    hgmma_plan plan;
    return !ls_cuda_computes_otherwise(device) && g->form == LS_GEMM_NT && slices_of(g) == 1 && !g->accumulate &&
           !g->siblings && g->c_dtype == g->dtype && has_pieces(g) &&
           (double)g->m * (double)g->n >=
               (double)ls_cuda_processors(device) * (double)(tiles[END_TILE].m * tiles[END_TILE].n) &&
           ls_cuda_hgmma_takes(device, g) && period_of(g) == g->k && choose_end_plan(device, g, &plan);
}

ls_status ls_cuda_hgmma_run_end(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *call) {
    static const ls_cuda_kernel ends[][2] = {
        [LS_GEMM_GELU] = {LS_CUDA_hgmma_gelu_bf16, LS_CUDA_hgmma_gelu_f16},
        [LS_GEMM_GELU_GRAD] = {LS_CUDA_hgmma_gelu_grad_bf16, LS_CUDA_hgmma_gelu_grad_f16},
        [LS_GEMM_GATED_GRAD] = {LS_CUDA_hgmma_gated_grad_bf16, LS_CUDA_hgmma_gated_grad_f16},
        [LS_GEMM_GATED] = {LS_CUDA_hgmma_gated_bf16, LS_CUDA_hgmma_gated_f16},
    };
    hgmma_plan plan = {0};
    ls_cuda_hgmma args;
    if (!choose_end_plan(device, g, &plan)) return ls_fail(LS_ERR_FAILED, "a matmul that was taken has no plan");
    LS_TRY(args_of(device, g, call, g->k, &plan, &args));
    args.y = g->y;
    args.pre = g->pre;
    args.gate = ls_cuda_divider_of(g->gate);
    if (g->end == LS_GEMM_GATED) args.across = ls_cuda_divider_of(tiles_across(g, &tiles[END_TILE]));
    return ls_cuda_launch(device, ends[g->end][g->dtype == LS_F16], (ls_cuda_grid){plan.blocks, 1, 1},
                          LS_CUDA_HGMMA_ACT_THREADS, LS_CUDA_HGMMA_ACT_SHARED, &args);
}
