/* attention_hgmma.c: launches attention on tensor cores: with the unit hgmma by the kernels of attention_hgmma.cu and
 * attention_hgmma_once.cu (TMA tiles) if the GPU, the shapes and the alignment allow it and this is no audit, else by
 * those of attention_hgmma_any.cu. The bits are the same. */
#include "device/cuda/args/attention_hgmma.h"

#include <stdbool.h>
#include <string.h>

#include "device/cuda/ops/attention.h"

enum {
    FEW_QUERIES = 64, /* this many or fewer do not fill a tile */
    TILE_HEAD_MAX = 128,
    TILE_ROWS = 64,      /* of a tile that TMA loads at once */
    MASKS_MAX = 1 << 30, /* bytes */
};

/* One pass: rows of a tile, and bytes of shared memory. By head sizes, up to 64, 128 and 256, then by type. */
typedef struct pass {
    ls_cuda_kernel kernel;
    size_t rows;
    unsigned threads;
    size_t shared;
} pass;

enum { SIZES = 3, TILE_SIZES = 2 };

#define ANY_FORWARD(d)                                                                                                 \
    {                                                                                                                  \
        LS_CUDA_attention_hgmma_any_forward_##d, LS_CUDA_HGMMA_ANY_QUERIES, LS_CUDA_HGMMA_ANY_FORWARD_THREADS,         \
            LS_CUDA_HGMMA_ANY_FORWARD_ELEMS(d) * sizeof(uint16_t)                                                      \
    }
#define ANY_BACKWARD(pass, d)                                                                                          \
    {                                                                                                                  \
        LS_CUDA_attention_hgmma_any_##pass##_##d, LS_CUDA_HGMMA_ANY_QUERIES, LS_CUDA_HGMMA_ANY_BACKWARD_THREADS,       \
            LS_CUDA_HGMMA_ANY_BACKWARD_ELEMS(d) * sizeof(uint16_t)                                                     \
    }
static const pass any_forward[SIZES] = {ANY_FORWARD(64), ANY_FORWARD(128), ANY_FORWARD(256)};
static const pass any_queries[SIZES] = {ANY_BACKWARD(queries, 64), ANY_BACKWARD(queries, 128),
                                        ANY_BACKWARD(queries, 256)};
static const pass any_keys[SIZES] = {ANY_BACKWARD(keys, 64), ANY_BACKWARD(keys, 128), ANY_BACKWARD(keys, 256)};

#define TYPES(name, rows, threads)                                                                                     \
    {                                                                                                                  \
        {LS_CUDA_attention_hgmma_##name##_bf16, rows, threads, LS_CUDA_HGMMA_SHARED}, {                                \
            LS_CUDA_attention_hgmma_##name##_f16, rows, threads, LS_CUDA_HGMMA_SHARED                                  \
        }                                                                                                              \
    }
#define TILES(name, groups) TYPES(name, 64 * (groups), 128 * (groups) + 128)
/* Without dropout, and with it. */
static const pass tile_forward[TILE_SIZES][2][2] = {
    {TILES(forward_64, LS_CUDA_HGMMA_FORWARD_GROUPS_64), TILES(forward_64_drop, LS_CUDA_HGMMA_FORWARD_GROUPS_64_DROP)},
    {TILES(forward_128, LS_CUDA_HGMMA_FORWARD_GROUPS_128), TILES(forward_128_drop, LS_CUDA_HGMMA_FORWARD_GROUPS_128)}};
static const pass tile_queries[2][2] = {TILES(queries_128, LS_CUDA_HGMMA_BACKWARD_GROUPS),
                                        TILES(queries_128_drop, LS_CUDA_HGMMA_BACKWARD_GROUPS)};
static const pass tile_keys[2][2] = {TILES(keys_128, LS_CUDA_HGMMA_BACKWARD_GROUPS),
                                     TILES(keys_128_drop, LS_CUDA_HGMMA_BACKWARD_GROUPS)};

/* All gradients in one kernel, for heads of up to 64; rows are keys. If a head has several tiles, pairs of blocks may
 * share it. */
static const pass tile_once[2][2] = {TYPES(once, 128, 512), TYPES(once_drop, 128, 512)};
static const pass tile_pairs[2][2] = {TYPES(pairs, 128, 512), TYPES(pairs_drop, 128, 512)};

/* Returns the row of the tables above for this head size, up to 256; tables of TILE_SIZES have the first two. */
static int size_index(size_t head_size) { return head_size <= 64 ? 0 : head_size <= 128 ? 1 : 2; }

/* Converts a checked call to the kernel's arguments, with all heads in one launch and without scratch (stats, sums,
 * turns and masks are NULL). */
static ls_cuda_attention_hgmma args_of(const ls_cuda_attention_job *job) {
    return (ls_cuda_attention_hgmma){
        .a = job->args,
        .stat_rows = ls_cuda_divide_up((size_t)job->args.T, LS_CUDA_HGMMA_STAT_STEP) * LS_CUDA_HGMMA_STAT_STEP,
        .B = (uint32_t)job->B,
        .heads = (uint32_t)job->heads,
        .kv_heads = (uint32_t)job->kv_heads,
        .all_heads = (uint32_t)job->heads,
    };
}

/* Launches a pass of attention_hgmma_any.cu: a block for each tile of rows, head and sequence. */
static ls_status run_any(ls_device *device, const ls_cuda_attention_hgmma *args, const pass *p, size_t rows,
                         size_t heads) {
    ls_cuda_grid grid = {ls_cuda_divide_up(rows, p->rows), heads, args->B};
    if (!args->B) return LS_OK;
    if (p->shared > ls_cuda_shared_max(device))
        return ls_fail_here(
            LS_ERR_INPUT,
            "attention heads of %d numbers need %zu bytes of shared memory for tensor cores, and %s has "
            "%zu: use --matrix-unit chain, or --precision fp32",
            args->a.head_size, p->shared, device->about ? device->about : device->name, ls_cuda_shared_max(device));
    return ls_cuda_launch(device, p->kernel, grid, p->threads, p->shared, args);
}

/* Returns whether all rows are aligned to 16 bytes. */
static bool is_aligned(const void *at, size_t row_stride, size_t head_stride) {
    return (uintptr_t)at % 16 == 0 && row_stride % 8 == 0 && head_stride % 8 == 0;
}

/* Makes the TMA tensor map of one tensor of a part; false if TMA cannot load it. */
static bool map_of(ls_device *device, const ls_attention_call *call, ls_attention_in x, size_t heads, size_t rows,
                   size_t rows_apart, ls_cuda_tensor_map *out) {
    const size_t counts[4] = {call->parts[0].head_size, heads, rows, call->B};
    const size_t strides[3] = {2 * x.head_stride, 2 * x.row_stride, 2 * x.row_stride * rows_apart};
    return ls_cuda_heads_map(device, x.at, counts, strides, TILE_ROWS, out);
}

/* Makes the tensor maps of a part, that of dout only if `backward`. Returns false if one is impossible, or an output
 * (o, or in backward dq, dk and dv) is not aligned. */
static bool maps_of(ls_device *device, const ls_attention_call *call, const ls_attention *a, bool backward,
                    ls_cuda_attention_maps *out) {
    size_t queries = a->T - a->first_query, apart = call->query_rows;
    bool is_made = map_of(device, call, a->q, a->heads, queries, apart, &out->q) &&
                   map_of(device, call, a->k, a->kv_heads, a->T, call->key_rows, &out->k) &&
                   map_of(device, call, a->v, a->kv_heads, a->T, call->key_rows, &out->v);
    if (!backward) return is_made && is_aligned(a->o.at, a->o.row_stride, a->o.head_stride);
    return is_made && map_of(device, call, a->dout, a->heads, queries, apart, &out->dout) &&
           is_aligned(a->dq.at, a->dq.row_stride, a->dq.head_stride) &&
           is_aligned(a->dk.at, a->dk.row_stride, a->dk.head_stride) &&
           is_aligned(a->dv.at, a->dv.row_stride, a->dv.head_stride);
}

/* Makes the tensor maps of LS_CUDA_HGMMA_PARTS parts from `first` on. Returns false if TMA cannot load one of them. */
static bool fill_maps(ls_device *device, const ls_attention_call *call, int first, bool backward,
                      ls_cuda_attention_tiles *tiles) {
    for (int p = first; p < call->nparts && p < first + LS_CUDA_HGMMA_PARTS; p++)
        if (!maps_of(device, call, &call->parts[p], backward, &tiles->maps[p - first])) return false;
    return true;
}

/* Returns the bytes of the dropout masks, one bit per query and key; 0 without dropout. */
static size_t masks_bytes(const ls_attention_call *call, const ls_cuda_attention_hgmma *args) {
    size_t heads = (size_t)args->B * args->all_heads;
    return call->parts[0].drop.scale > 0 ? heads * args->stat_rows * (args->stat_rows / 8) : 0;
}

/* Returns whether the kernels with TMA tiles support this call. `space` is overwritten. */
static bool takes_tiles(ls_device *device, const ls_attention_call *call, const ls_cuda_attention_hgmma *args,
                        bool backward, ls_cuda_attention_tiles *space) {
    const ls_attention *a = &call->parts[0];
    if (a->unit != LS_UNIT_HGMMA || !ls_cuda_has_wgmma(device) || a->head_size > TILE_HEAD_MAX || a->head_size % 8 ||
        a->T - a->first_query <= FEW_QUERIES || !call->B || ls_cuda_computes_otherwise(device))
        return false;
    for (int p = 1; p < call->nparts; p++)
        if (call->parts[p].drop.scale != a->drop.scale) return false;
    if (a->drop.scale > 0 && (a->first_query || masks_bytes(call, args) > MASKS_MAX)) return false;
    for (int first = 0; first < call->nparts; first += LS_CUDA_HGMMA_PARTS)
        if (!fill_maps(device, call, first, backward, space)) return false;
    return true;
}

/* Launches persistent groups of `together` blocks; each block computes one row of tiles of a head at a time. */
static ls_status run_groups(ls_device *device, const ls_cuda_attention_tiles *tiles, const pass *p, size_t rows,
                            size_t heads, size_t together) {
    ls_cuda_attention_tiles args = *tiles;
    size_t all = heads * args.h.B, groups = ls_cuda_processors(device) / together;
    args.rows = (uint32_t)ls_cuda_divide_up(rows, p->rows);
    if (all * args.rows > UINT32_MAX)
        return ls_fail(LS_ERR_INPUT, "attention of %zu heads of %zu positions: use a smaller micro-batch", all, rows);
    size_t work = all * ls_cuda_divide_up(args.rows, together);
    ls_cuda_grid grid = {(groups < work ? groups : work) * together, 1, 1};
    return ls_cuda_launch(device, p->kernel, grid, p->threads, p->shared, &args);
}
/* Launches persistent blocks that each compute one tile after another. */
static ls_status run_tiles(ls_device *device, const ls_cuda_attention_tiles *tiles, const pass *p, size_t rows,
                           size_t heads) {
    return run_groups(device, tiles, p, rows, heads, 1);
}

/* Calls `run` once for every LS_CUDA_HGMMA_PARTS parts, whose tensor maps fit into one launch. */
static ls_status each_launch(ls_device *device, const ls_attention_call *call, const ls_cuda_attention_hgmma *all,
                             bool backward, ls_status (*run)(ls_device *device, const ls_cuda_attention_tiles *tiles)) {
    ls_cuda_attention_tiles tiles = {.h = *all};
    for (int first = 0; first < call->nparts; first += LS_CUDA_HGMMA_PARTS) {
        tiles.h.heads = tiles.h.kv_heads = 0;
        for (int p = first; p < call->nparts && p < first + LS_CUDA_HGMMA_PARTS; p++) {
            tiles.h.heads += (uint32_t)call->parts[p].heads;
            tiles.h.kv_heads += (uint32_t)call->parts[p].kv_heads;
        }
        (void)fill_maps(device, call, first, backward, &tiles);
        LS_TRY(run(device, &tiles));
        tiles.h.a.parts += LS_CUDA_HGMMA_PARTS;
        tiles.h.head0 += tiles.h.heads;
    }
    return LS_OK;
}

/* Returns whether to take the wide kernel of the statistics: o and dout are aligned, and this is no audit. */
static bool has_wide_rows(ls_device *device, const ls_attention_call *call) {
    if (call->parts[0].head_size % 8 || ls_cuda_computes_otherwise(device)) return false;
    for (int p = 0; p < call->nparts; p++) {
        const ls_attention *a = &call->parts[p];
        if (!is_aligned(a->o.at, a->o.row_stride, a->o.head_stride) ||
            !is_aligned(a->dout.at, a->dout.row_stride, a->dout.head_stride))
            return false;
    }
    return true;
}

/* Computes L and D of every query, and clears args->turns. */
static ls_status run_stats(ls_device *device, const ls_attention_call *call, const ls_cuda_attention_hgmma *args) {
    const pass any = {LS_CUDA_attention_hgmma_stats, LS_CUDA_HGMMA_STATS_ROWS, 16 * LS_CUDA_HGMMA_STATS_ROWS, 0};
    size_t blocks = args->stat_rows / LS_CUDA_HGMMA_STATS_WIDE_ROWS;
    if (!args->B || !has_wide_rows(device, call)) return run_any(device, args, &any, args->stat_rows, args->heads);
    return ls_cuda_launch(device, LS_CUDA_attention_hgmma_stats_wide, (ls_cuda_grid){args->heads, blocks, args->B},
                          2 * LS_CUDA_HGMMA_STATS_WIDE_ROWS, 0, args);
}

/* Computes the dropout masks, with a line for each query or, if `across`, key. Nothing without dropout. */
static ls_status run_masks(ls_device *device, ls_cuda_attention_hgmma *args, bool across) {
    size_t tiles = args->stat_rows / LS_CUDA_HGMMA_MASK_TILE;
    if (!args->masks) return LS_OK;
    args->masks_across = across;
    return ls_cuda_launch(device, LS_CUDA_attention_hgmma_masks, (ls_cuda_grid){tiles * tiles, args->heads, args->B},
                          LS_CUDA_HGMMA_MASK_THREADS, 0, args);
}

/* Launches forward of the parts of one launch (each_launch). */
static ls_status forward_tiles(ls_device *device, const ls_cuda_attention_tiles *tiles) {
    const pass *p =
        &tile_forward[size_index((size_t)tiles->h.a.head_size)][tiles->h.masks != NULL][tiles->h.a.act == LS_CUDA_F16];
    return run_tiles(device, tiles, p, (size_t)(tiles->h.a.T - tiles->h.a.first_query), tiles->h.heads);
}

/* Estimates the time of the gradients of `all` heads on `count` blocks (or pairs), in steps of 64 queries: whole heads
 * as long as every block gets one, then a share of the remaining heads. */
static double rounds_of(size_t all, size_t count, size_t longest, size_t head) {
    size_t rest = all % count;
    double share = (double)rest * (double)head / (double)count;
    return (double)(all / count * head) + (rest == 0 ? 0 : share > (double)longest ? share : (double)longest);
}

/* Returns whether pairs of blocks are faster, although the second block idles during queries that only the first sees.
 * On an H200 pairs took 21 % less where the idle time adds 3 % (64 heads of 4 × 4096 queries) and 5 % less where it
 * adds 11 % (768 of 1024). */
static bool pays_by_pairs(ls_device *device, size_t all, size_t T) {
    size_t blocks = ls_cuda_processors(device), rows = ls_cuda_divide_up(T, 128), pairs = ls_cuda_divide_up(rows, 2);
    if (blocks < 2 || rows < 2) return false;
    double alone = rounds_of(all, blocks, 2 * rows, rows * (rows + 1));
    return rounds_of(all, blocks / 2, 2 * rows, 2 * rows * pairs - 2 * pairs * (pairs - 1)) <= 1.13 * alone;
}

/* Launches the kernel of all gradients for the parts of one launch, by pairs of blocks where pays_by_pairs(). */
static ls_status once_tiles(ls_device *device, const ls_cuda_attention_tiles *tiles) {
    int type = tiles->h.a.act == LS_CUDA_F16, drops = tiles->h.masks != NULL;
    size_t T = (size_t)tiles->h.a.T, kv_heads = tiles->h.kv_heads;
    if (pays_by_pairs(device, kv_heads * tiles->h.B, T))
        return run_groups(device, tiles, &tile_pairs[drops][type], T, kv_heads, 2);
    return run_tiles(device, tiles, &tile_once[drops][type], T, kv_heads);
}

/* Launches dQ of the parts of one launch, for heads of more than 64. */
static ls_status queries_tiles(ls_device *device, const ls_cuda_attention_tiles *tiles) {
    const pass *p = &tile_queries[tiles->h.masks != NULL][tiles->h.a.act == LS_CUDA_F16];
    return run_tiles(device, tiles, p, (size_t)tiles->h.a.T, tiles->h.heads);
}

/* Launches dK and dV of the parts of one launch, for heads of more than 64. */
static ls_status keys_tiles(ls_device *device, const ls_cuda_attention_tiles *tiles) {
    const pass *p = &tile_keys[tiles->h.masks != NULL][tiles->h.a.act == LS_CUDA_F16];
    return run_tiles(device, tiles, p, (size_t)tiles->h.a.T, tiles->h.kv_heads);
}

/* Launches the gradients behind run_stats(): by one kernel if args->turns is set, else by two passes. The dropout
 * masks are computed before each pass, in the lines that it reads. */
static ls_status backward_tiles(ls_device *device, const ls_attention_call *call, ls_cuda_attention_hgmma *args) {
    if (args->turns) {
        LS_TRY(run_masks(device, args, true));
        return each_launch(device, call, args, true, once_tiles);
    }
    LS_TRY(run_masks(device, args, false));
    LS_TRY(each_launch(device, call, args, true, queries_tiles));
    LS_TRY(run_masks(device, args, true));
    return each_launch(device, call, args, true, keys_tiles);
}

ls_status ls_cuda_attention_hgmma_forward(ls_device *device, const ls_attention_call *call,
                                          const ls_cuda_attention_job *job) {
    ls_cuda_attention_hgmma args = args_of(job);
    ls_cuda_attention_tiles space;
    if (takes_tiles(device, call, &args, false, &space)) {
        size_t masks = masks_bytes(call, &args);
        void *memory = NULL;
        if (masks) LS_TRY(ls_cuda_scratch(device, masks, &memory));
        args.masks = memory;
        args.drop_scale = call->parts[0].drop.scale;
        LS_TRY(run_masks(device, &args, false));
        return each_launch(device, call, &args, false, forward_tiles);
    }
    return run_any(device, &args, &any_forward[size_index(call->parts[0].head_size)], job->queries, job->heads);
}

ls_status ls_cuda_attention_hgmma_backward(ls_device *device, const ls_attention_call *call,
                                           const ls_cuda_attention_job *job) {
    ls_cuda_attention_hgmma args = args_of(job);
    ls_cuda_attention_tiles space;
    bool by_tiles = takes_tiles(device, call, &args, true, &space);
    size_t rows = job->B * job->heads * args.stat_rows, pieces = rows / 64;
    bool once = by_tiles && size_index(call->parts[0].head_size) == 0;
    size_t masks = by_tiles ? masks_bytes(call, &args) : 0, sums = once ? pieces * (LS_CUDA_HGMMA_SUMS + 1) : 0;
    void *memory;
    LS_TRY(ls_cuda_scratch(device, masks + (2 * rows + sums) * sizeof(float), &memory));
    args.masks = masks ? memory : NULL;
    args.drop_scale = call->parts[0].drop.scale;
    args.stats = (float *)((char *)memory + masks);
    if (once) {
        args.sums = args.stats + 2 * rows;
        args.turns = (uint32_t *)(args.sums + pieces * LS_CUDA_HGMMA_SUMS);
    }
    LS_TRY(run_stats(device, call, &args));
    if (by_tiles) return backward_tiles(device, call, &args);
    int size = size_index(call->parts[0].head_size);
    LS_TRY(run_any(device, &args, &any_queries[size], job->queries, job->heads));
    return run_any(device, &args, &any_keys[size], job->queries, job->kv_heads);
}
