/* embed_grad.cu: the gradient of the token table (docs/reference/arithmetic.md, "Sums over tokens"); launched by ops/embed_grad.c.
 *
 * Rows of dy are sorted by id with a stable radix sort, from the lowest digit: sort_count counts the digits of each tile of rows, sort_scan
 * computes the prefix sums over digits and tiles, sort_scatter moves every row to its place. Atomics are on integers only, so their order
 * does not matter. Then a warp sums each id, from its first row on; an id with more than LS_CUDA_TOKEN_MANY rows goes to a list, in any
 * order, and the warps of a block sum the groups of such an id. */
#include "device/cuda/args/embed_grad.h"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/tree.cuh"

/* Returns the number of the row that is at place i of the order so far. */
LS_DEVICE uint32_t row_at(const ls_cuda_sort &a, uint32_t i) { return a.from ? a.from[i] : i; }
/* Returns the place of a row's token in the table; a.places, which sorts last, if it is outside. */
LS_DEVICE uint32_t key_of(const ls_cuda_sort &a, uint32_t row) {
    uint32_t place = (uint32_t)a.ids[row] - (uint32_t)a.id_begin;
    return place < a.places ? place : a.places;
}
/* Returns the digit of this pass. */
LS_DEVICE uint32_t digit_of(const ls_cuda_sort &a, uint32_t key) { return key >> a.shift & (LS_CUDA_SORT_DIGITS - 1); }

/* Counts the digits of each tile of rows. */
LS_KERNEL(sort_count, ls_cuda_sort, LS_CUDA_SORT_THREADS) {
    __shared__ uint32_t count[LS_CUDA_SORT_DIGITS];
    for (uint32_t d = threadIdx.x; d < LS_CUDA_SORT_DIGITS; d += LS_CUDA_SORT_THREADS) count[d] = 0;
    __syncthreads();
    for (uint32_t r = 0; r < LS_CUDA_SORT_ROUNDS; r++) {
        uint64_t i = (uint64_t)blockIdx.x * LS_CUDA_SORT_TILE + r * LS_CUDA_SORT_THREADS + threadIdx.x;
        if (i < a.n) atomicAdd(&count[digit_of(a, key_of(a, row_at(a, (uint32_t)i)))], 1u);
    }
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < LS_CUDA_SORT_DIGITS; d += LS_CUDA_SORT_THREADS)
        a.counts[d * (uint64_t)a.tiles + blockIdx.x] = count[d];
}

/* Replaces each count by the sum of those before it, and empties the list of long ids. One block; a thread has consecutive counts. */
LS_KERNEL(sort_scan, ls_cuda_sort, LS_CUDA_SCAN_THREADS) {
    __shared__ uint32_t sums[LS_CUDA_SCAN_THREADS];
    const uint64_t n = (uint64_t)LS_CUDA_SORT_DIGITS * a.tiles, each = (n + blockDim.x - 1) / blockDim.x;
    uint64_t begin = threadIdx.x * each, end = begin + each < n ? begin + each : n;
    uint32_t mine = 0;
    for (uint64_t i = begin; i < end; i++) mine += a.counts[i];
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (uint32_t step = 1; step < blockDim.x; step *= 2) {
        uint32_t before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    uint32_t sum = sums[threadIdx.x] - mine;
    if (threadIdx.x == 0) *a.list = 0;
    for (uint64_t i = begin; i < end; i++) {
        uint32_t count = a.counts[i];
        a.counts[i] = sum;
        sum += count;
    }
}

/* Moves the rows of a tile to their places, equal digits in their order. Warp w has rows w·256 … w·256 + 255, 32 at a time. */
LS_KERNEL(sort_scatter, ls_cuda_sort, LS_CUDA_SORT_THREADS) {
    enum { WARPS = LS_CUDA_SORT_THREADS / 32 };
    __shared__ uint32_t place[WARPS][LS_CUDA_SORT_DIGITS], lanes[WARPS][LS_CUDA_SORT_DIGITS];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t row[LS_CUDA_SORT_ROUNDS], key[LS_CUDA_SORT_ROUNDS];
    for (uint32_t d = threadIdx.x; d < LS_CUDA_SORT_DIGITS; d += LS_CUDA_SORT_THREADS)
        for (int w = 0; w < WARPS; w++) place[w][d] = lanes[w][d] = 0;
    __syncthreads();
    const uint64_t first = (uint64_t)blockIdx.x * LS_CUDA_SORT_TILE + warp * (32 * LS_CUDA_SORT_ROUNDS) + lane;
#pragma unroll
    for (int r = 0; r < LS_CUDA_SORT_ROUNDS; r++) {
        row[r] = key[r] = 0;
        if (first + 32 * r >= a.n) continue;
        row[r] = row_at(a, (uint32_t)(first + 32 * r));
        key[r] = key_of(a, row[r]);
        atomicAdd(&place[warp][digit_of(a, key[r])], 1u);
    }
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < LS_CUDA_SORT_DIGITS; d += LS_CUDA_SORT_THREADS) {
        uint32_t sum = a.counts[d * (uint64_t)a.tiles + blockIdx.x];
        for (int w = 0; w < WARPS; w++) {
            uint32_t count = place[w][d];
            place[w][d] = sum;
            sum += count;
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < LS_CUDA_SORT_ROUNDS; r++) {
        const bool is_in = first + 32 * r < a.n;
        const uint32_t d = digit_of(a, key[r]);
        if (is_in) atomicOr(&lanes[warp][d], 1u << lane);
        __syncwarp();
        uint32_t equals = lanes[warp][d], before = __popc(equals & ((1u << lane) - 1)), to = place[warp][d] + before;
        __syncwarp();
        if (is_in && before == 0) {
            place[warp][d] += __popc(equals);
            lanes[warp][d] = 0;
        }
        __syncwarp();
        if (!is_in) continue;
        a.to[to] = row[r];
        if (a.keys) a.keys[to] = key[r];
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Returns the smallest number of a warp to all its lanes. */
LS_DEVICE uint32_t least(uint32_t x) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        uint32_t other = __shfl_xor_sync(~0u, x, mask);
        x = other < x ? other : x;
    }
    return x;
}

/* Returns the gradient group, from `low` on, that has the row. */
LS_DEVICE int group_of(const ls_cuda_token_grad &a, uint64_t row, int low) {
    int high = a.groups - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (row < size_at(a.bounds, middle + 1) * a.T)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The next 32 of the sorted rows, one for each lane: the place of its id in the table, and its number. */
struct next_rows {
    uint32_t key, row;
};

/* Loads places i … i + 31 of the sorted order; behind the end the key is a.places. */
LS_DEVICE next_rows look_ahead(const ls_cuda_token_grad &a, uint32_t i) {
    const uint64_t at = (uint64_t)i + threadIdx.x % 32;
    return at < a.n ? next_rows{a.keys[at], a.order[at]} : next_rows{a.places, 0};
}

/* Continues the sum with the first n of the 32 rows ahead, in order. c: this lane's first column. */
template <int W, int AT_ONCE>
LS_DEVICE void add_rows(const ls_cuda_token_grad &a, const next_rows &ahead, uint32_t n, size_t c, pack<W> &sum) {
    for (uint32_t first = 0; first < n; first += AT_ONCE) {
        pack<W> x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            size_t from = __shfl_sync(~0u, ahead.row, (int)(first + k));
            if (first + k < n && c < a.C) x[k] = load_pack<W>(a.dy + from * a.dy_stride + c);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (first + k < n) sum = add(sum, x[k]);
    }
}

/* Sums the rows of the id whose first row is at i of the sorted order, and adds them to its row of the table, which is loaded
 * early. */
template <int W, int LEVELS>
LS_DEVICE void add_id(const ls_cuda_token_grad &a, uint32_t i, next_rows ahead, uint32_t key, size_t c) {
    const pack<W> nothing = map(pack<W>(), [](float) { return -0.0f; });
    float *to = a.dtoken + (size_t)key * a.C + c;
    const pack<W> old = c < a.C ? load_pack<W>(to) : nothing;
    tree<W, LEVELS> t;
    t.begin();
    int group = 0;
    bool goes_on = true;
    while (goes_on) {
        group = group_of(a, __shfl_sync(~0u, ahead.row, 0), group);
        const uint64_t end = size_at(a.bounds, group + 1) * a.T;
        pack<W> sum = a.accumulate ? old : nothing; /* the former with one group alone */
        uint32_t n = 32;
        while (n == 32) {
            n = least(ahead.key == key && ahead.row < end ? 32u : threadIdx.x % 32);
            add_rows<W, 4>(a, ahead, n, c, sum);
            i += n;
            goes_on = n == 32 || __shfl_sync(~0u, ahead.key, (int)n) == key;
            if (goes_on) ahead = look_ahead(a, i);
        }
        t.push(group, sum);
    }
    t.end();
    if (c < a.C) store_pack<W>(to, a.accumulate ? t.sum : add(t.sum, old));
}

/* Sums the rows of each id into its row of the table: a warp for each place of the sorted order, which returns where no id begins, and
 * adds an id with many rows to the list instead. */
template <int LEVELS> LS_DEVICE void sum_ids(const ls_cuda_token_grad &a) {
    const uint64_t i = (uint64_t)blockIdx.x * (LS_CUDA_TOKEN_GRAD_THREADS / 32) + threadIdx.x / 32;
    if (i >= a.n) return;
    const next_rows ahead = look_ahead(a, (uint32_t)i);
    const uint32_t before = i > 0 ? a.keys[i - 1] : a.places, key = __shfl_sync(~0u, ahead.key, 0);
    if (key == a.places || key == before) return;
    if (i + LS_CUDA_TOKEN_MANY < a.n && a.keys[i + LS_CUDA_TOKEN_MANY] == key) {
        if (threadIdx.x % 32 == 0) a.list[1 + atomicAdd(a.list, 1u)] = (uint32_t)i;
        return;
    }
    const size_t width = a.aligned ? 4 : 1;
    for (size_t first = 0; first < a.C; first += 32 * width) {
        size_t c = first + threadIdx.x % 32 * width;
        a.aligned ? add_id<4, LEVELS>(a, (uint32_t)i, ahead, key, c) : add_id<1, LEVELS>(a, (uint32_t)i, ahead, key, c);
    }
}

/* Sums ids with up to 2^LS_CUDA_FEW_LEVELS groups, for which registers remain for more warps; token_grad_many any number. */
LS_KERNEL_MANY(token_grad, ls_cuda_token_grad, LS_CUDA_TOKEN_GRAD_THREADS, 4) { sum_ids<LS_CUDA_FEW_LEVELS>(a); }
/* Sums ids with any number of groups; token_grad is faster for up to 2^LS_CUDA_FEW_LEVELS. */
LS_KERNEL(token_grad_many, ls_cuda_token_grad, LS_CUDA_TOKEN_GRAD_THREADS) { sum_ids<12>(a); }

/* ---- ids with many rows ------------------------------------------------------------------------------------------ */

/* Returns the first place from `low` on whose number is not below `bound`, or `high`. */
LS_DEVICE uint32_t place_of(const uint32_t *numbers, uint32_t low, uint32_t high, uint64_t bound) {
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (numbers[middle] < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the sum continued over places i … end − 1 of the sorted order; the next row numbers are loaded while these are added. */
template <int W>
LS_DEVICE pack<W> add_places(const ls_cuda_token_grad &a, uint32_t i, uint32_t end, size_t c, pack<W> sum) {
    next_rows ahead = look_ahead(a, i);
    while (i < end) {
        const next_rows next = look_ahead(a, i + 32);
        add_rows<W, 8>(a, ahead, end - i < 32 ? end - i : 32, c, sum);
        ahead = next;
        i = end - i < 32 ? end : i + 32;
    }
    return sum;
}

/* Sums the ids of the list, one per block after another; a warp adds the rows of a group, and the first warp joins the groups. */
template <int W> LS_DEVICE void sum_long(const ls_cuda_token_grad &a, void *space) {
    enum { WARPS = LS_CUDA_TOKEN_LONG_WARPS };
    const pack<W> nothing = map(pack<W>(), [](float) { return -0.0f; });
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    pack<W>(*parts)[32] = (pack<W>(*)[32])space; /* of each warp */
    __shared__ bool is_there[WARPS];
    for (uint32_t item = blockIdx.x; item < *a.list; item += gridDim.x) {
        const uint32_t first = a.list[1 + item], key = a.keys[first], end = place_of(a.keys, first, a.n, (uint64_t)key + 1);
        for (size_t at = (size_t)32 * W * blockIdx.y; at < a.C; at += (size_t)32 * W * gridDim.y) {
            const size_t c = at + lane * W;
            float *to = a.dtoken + (size_t)key * a.C + c;
            const pack<W> old = c < a.C ? load_pack<W>(to) : nothing;
            tree<W> t;
            t.begin();
            for (int base = 0; base < a.groups; base += WARPS) {
                const int group = base + (int)warp;
                uint32_t low = end, high = end;
                if (group < a.groups) {
                    low = place_of(a.order, first, end, size_at(a.bounds, group) * a.T);
                    high = place_of(a.order, low, end, size_at(a.bounds, group + 1) * a.T);
                }
                parts[warp][lane] = add_places<W>(a, low, high, c, a.accumulate ? old : nothing);
                is_there[warp] = low < high;
                __syncthreads();
                for (int w = 0; warp == 0 && w < WARPS; w++)
                    if (is_there[w]) t.push(base + w, parts[w][lane]);
                __syncthreads();
            }
            t.end();
            if (warp == 0 && c < a.C) store_pack<W>(to, a.accumulate ? t.sum : add(t.sum, old));
        }
    }
}

/* Sums the ids of the list, one per block; each warp has a group. */
LS_KERNEL_MANY(token_grad_long, ls_cuda_token_grad, 32 * LS_CUDA_TOKEN_LONG_WARPS, 2) {
    __shared__ float4 space[LS_CUDA_TOKEN_LONG_WARPS * 32];
    a.aligned ? sum_long<4>(a, space) : sum_long<1>(a, space);
}
