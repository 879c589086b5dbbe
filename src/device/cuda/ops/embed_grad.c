/* embed_grad.c: launches the gradients of the token and position tables (kernels/embed_grad.cu): sums over tokens.
 * Rows are sorted by token id first, so that the rows of an id are neighbours, in ascending order. */
#include "device/cuda/args/embed_grad.h"

#include "device/cuda/ops/list.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"
#include "device/cuda/ops/token_sums.h"

enum { WIDTH = 4, BLOCKS_Y_MAX = 1 << 15, SCAN_THREADS_MIN = 32, COUNTS_OF_A_THREAD = 8 };

/* Launches a stable radix sort of rows by id, a pass of three kernels per digit: row numbers end in sort->to,
 * their ids' places in sort->keys. `first` and `spare` have room for a number per row and take turns as input and
 * output. */
static ls_status sort_tokens(ls_device *device, ls_cuda_sort *sort, uint32_t *first, uint32_t *spare) {
    uint32_t *keys = sort->keys;
    unsigned scan_threads = SCAN_THREADS_MIN;
    while (scan_threads < LS_CUDA_SCAN_THREADS &&
           (size_t)scan_threads * COUNTS_OF_A_THREAD < LS_CUDA_SORT_DIGITS * (size_t)sort->tiles)
        scan_threads *= 2;
    sort->to = first;
    for (sort->shift = 0; sort->shift < 32 && sort->places >> sort->shift > 0; sort->shift += LS_CUDA_SORT_BITS) {
        bool is_last = sort->shift + LS_CUDA_SORT_BITS >= 32 || sort->places >> (sort->shift + LS_CUDA_SORT_BITS) == 0;
        sort->keys = is_last ? keys : NULL;
        LS_TRY(ls_cuda_launch(device, LS_CUDA_sort_count, (ls_cuda_grid){sort->tiles, 1, 1}, LS_CUDA_SORT_THREADS, 0,
                              sort));
        LS_TRY(ls_cuda_launch(device, LS_CUDA_sort_scan, (ls_cuda_grid){1, 1, 1}, scan_threads, 0, sort));
        LS_TRY(ls_cuda_launch(device, LS_CUDA_sort_scatter, (ls_cuda_grid){sort->tiles, 1, 1}, LS_CUDA_SORT_THREADS, 0,
                              sort));
        if (is_last) break;
        sort->from = sort->to;
        sort->to = sort->to == first ? spare : first;
    }
    return LS_OK;
}

LS_ASSERT_ARGS(ls_token_grad_call, 5);
/* Launches the computation of dtoken[id] += the sum of dy over the tokens of each id, in order, by groups. Tokens that
 * this part of the table lacks are skipped. Takes scratch for the sort. */
ls_status ls_cuda_op_embed_token_grad(ls_device *device, const ls_token_grad_call *c) {
    const ls_embed_tokens *tokens = c->tokens;
    const ls_token_groups *groups = c->groups;
    LS_TRY(ls_token_groups_check_rows(groups, tokens->rows));
    if (tokens->rows == 0 || tokens->C == 0 || tokens->id_end <= tokens->id_begin) return LS_OK;
    if (tokens->rows >= UINT32_MAX)
        return ls_fail(LS_ERR_INPUT, "%zu tokens at once are more than a GPU sorts: use a smaller micro-batch",
                       tokens->rows);
    size_t n = tokens->rows, tiles = ls_cuda_divide_up(n, LS_CUDA_SORT_TILE), longs = n / LS_CUDA_TOKEN_MANY;
    void *memory;
    LS_TRY(ls_cuda_scratch(device, (3 * n + LS_CUDA_SORT_DIGITS * tiles + 1 + longs) * sizeof(uint32_t), &memory));
    uint32_t *first = memory, *spare = first + n;
    ls_cuda_sort sort = {.ids = tokens->ids,
                         .id_begin = tokens->id_begin,
                         .places = (uint32_t)tokens->id_end - (uint32_t)tokens->id_begin,
                         .n = (uint32_t)n,
                         .tiles = (uint32_t)tiles,
                         .counts = spare + 2 * n,
                         .keys = spare + n,
                         .list = spare + 2 * n + LS_CUDA_SORT_DIGITS * tiles};
    LS_TRY(sort_tokens(device, &sort, first, spare));
    ls_cuda_token_grad args = {.order = sort.to,
                               .keys = sort.keys,
                               .list = sort.list,
                               .n = sort.n,
                               .places = sort.places,
                               .dtoken = c->dtoken,
                               .dy = c->dy,
                               .dy_stride = c->dy_stride,
                               .C = tokens->C,
                               .T = groups->T,
                               .accumulate = groups->accumulate,
                               .groups = groups->groups};
    LS_TRY(ls_cuda_sizes_set(device, &args.bounds, groups->bounds, (size_t)groups->groups + 1));
    args.aligned = tokens->C % WIDTH == 0 && ls_cuda_fits(c->dtoken, LS_F32, 0, WIDTH) &&
                   ls_cuda_fits(c->dy, LS_F32, c->dy_stride, WIDTH);
    ls_cuda_grid grid = {ls_cuda_divide_up(n, LS_CUDA_TOKEN_GRAD_THREADS / 32), 1, 1};
    bool is_few = groups->groups <= 1 << LS_CUDA_FEW_LEVELS;
    LS_TRY(ls_cuda_launch(device, is_few ? LS_CUDA_token_grad : LS_CUDA_token_grad_many, grid,
                          LS_CUDA_TOKEN_GRAD_THREADS, 0, &args));
    if (longs == 0) return LS_OK;
    size_t pieces = ls_cuda_divide_up(tokens->C, args.aligned ? 32 * WIDTH : 32), blocks = ls_cuda_processors(device);
    grid = (ls_cuda_grid){blocks < longs ? blocks : longs, pieces < BLOCKS_Y_MAX ? pieces : BLOCKS_Y_MAX, 1};
    return ls_cuda_launch(device, LS_CUDA_token_grad_long, grid, 32 * LS_CUDA_TOKEN_LONG_WARPS, 0, &args);
}

LS_ASSERT_ARGS(ls_position_grad_call, 5);
/* Launches the computation of dposition[t] = the sum of dy at position t over the sequences, by groups. */
ls_status ls_cuda_op_embed_position_grad(ls_device *device, const ls_position_grad_call *c) {
    LS_TRY(ls_token_groups_check(c->groups));
    ls_cuda_token_join joins = {.rows = {.rows = c->groups->T, .columns = c->C},
                                .in_stride = c->dy_stride,
                                .in_sequence = c->groups->T * c->dy_stride,
                                .in = {c->dy},
                                .out = {c->dposition}};
    return ls_cuda_join_tokens(device, &joins, 1, c->groups);
}
