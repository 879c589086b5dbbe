/* conv.cu: GEMMs over patches that are gathered from the images as a step is read (im2col without storing the matrix; kernels/gemm.cuh,
 * ls_gemm_patches in calls.h); launched by ops/gemm.c.
 *
 * Names: the form of the GEMM and its tile (args/gemm.h); odd: channels that fill no vector. Readers are those of gemm.cuh.
 *
 * Where channels fill no vector, elements are found one by one. What a tap reads outside of the image is an operand +0. */
#include "device/cuda/common/patches.cuh"

/* The reader of an operand whose rows are positions, with columns by fours. A thread advances from k to k by additions: it looks for its
 * pixels only where a tap ends. */
template <int LINES, int THREADS, bool VECTOR> struct patches_along_k : held_along_k<LINES, THREADS> {
    using base = held_along_k<LINES, THREADS>;
    const float *image[base::COUNT], *pixel[base::COUNT]; /* of each line; pixel NULL: outside */
    int y[base::COUNT], x[base::COUNT];
    uint32_t tap, channel; /* of the next k: the channel may be behind the tap's last */
    const ls_cuda_patches *patches;

    /* Finds tap and pixels of the present k, after `channel` has passed the last channel of a tap. */
    LS_DEVICE void find_pixels() {
        while (channel >= patches->channels.divisor) {
            channel -= patches->channels.divisor;
            tap++;
        }
        const uint32_t line = divide(tap, patches->taps_x);
        const int tap_y = (int)line * patches->tap_y, tap_x = (int)(tap - line * patches->taps_x.divisor) * patches->tap_x;
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            const int at_y = y[i] + tap_y, at_x = x[i] + tap_x;
            pixel[i] = is_inside(*patches, at_y, at_x) ? image[i] + pixel_at(*patches, at_y, at_x) : nullptr;
        }
    }
    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const ls_cuda_patches &p, const void *images, size_t line0, size_t lines) {
        patches = &p;
        base::clear();
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            const size_t line = line0 + base::line(i);
            patch_row row;
            row.find(p, (uint32_t)(line < lines ? line : lines - 1));
            image[i] = (const float *)images + row.image;
            y[i] = row.y;
            x[i] = row.x;
        }
        tap = 0;
        channel = (uint32_t)first_k(g) + base::k4() * 4;
        find_pixels();
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t, int count, float *) {
        if (channel >= patches->channels.divisor) find_pixels();
        if (ALL || base::k4() * 4 < count)
            LS_UNROLL for (int i = 0; i < base::COUNT; i++)
                base::held[i] = pixel[i] ? load4(pixel[i] + channel) : make_float4(0, 0, 0, 0);
        channel += ALL ? (uint32_t)GEMM_K : (uint32_t)count;
    }
};

/* The reader of positions as lines, for any number of channels: columns one by one. */
template <int LINES, int THREADS> struct patches_along_k<LINES, THREADS, false> : held_along_k<LINES, THREADS> {
    using base = held_along_k<LINES, THREADS>;
    using base::held;
    const float *from;
    patch_row row[base::COUNT];
    const ls_cuda_patches *patches;

    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &, const ls_cuda_patches &p, const void *images, size_t line0, size_t lines) {
        from = (const float *)images;
        patches = &p;
        base::clear();
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            size_t line = line0 + base::line(i);
            row[i].find(p, (uint32_t)(line < lines ? line : lines - 1));
        }
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t k, int count, float *) {
        const uint32_t k0 = (uint32_t)k + base::k4() * 4;
        const int there = count - base::k4() * 4;
        LS_UNROLL for (int e = 0; e < 4; e++) {
            if (!ALL && e >= there) continue;
            patch_column c;
            c.find(*patches, k0 + e);
            LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
                const int y = row[i].y + c.y, x = row[i].x + c.x;
                ((float *)&held[i])[e] =
                    is_inside(*patches, y, x) ? from[row[i].image + pixel_at(*patches, y, x) + c.channel] : 0.0f;
            }
        }
    }
};

/* The reader of an operand whose columns are lines and whose k are positions. */
template <int LINES, int THREADS, bool VECTOR> struct patches_across_k : quads_across_k<LINES, THREADS> {
    using base = quads_across_k<LINES, THREADS>;
    const float *from;
    int count;
    patch_column column[4];
    const ls_cuda_patches *patches;

    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_patches &p, const void *images, size_t line0, size_t lines) {
        from = (const float *)images;
        patches = &p;
        count = base::lines_there(line0, lines);
        uint32_t first = count ? (uint32_t)line0 + base::line() : 0;
        LS_UNROLL for (int e = 0; e < 4; e++) column[e].find(p, first + (e < count ? e : 0));
    }
    /* Returns the element of a row and a column; NULL outside the image. */
    LS_DEVICE const float *number(const patch_row &r, const patch_column &c) const {
        int y = r.y + c.y, x = r.x + c.x;
        return is_inside(*patches, y, x) ? from + r.image + pixel_at(*patches, y, x) + c.channel : nullptr;
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t k, int k_count, float *to) {
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            if (!ALL && base::row(i) >= k_count) continue;
            patch_row r;
            r.find(*patches, (uint32_t)k + base::row(i));
            float *place = base::place(to, i);
            if constexpr (VECTOR) {
                const float *p = number(r, column[0]);
                copy16_async_or_zero(place, p ? p : from, p != nullptr);
            } else {
                LS_UNROLL for (int e = 0; e < 4; e++) {
                    if (e >= count) continue;
                    const float *p = number(r, column[e]);
                    if (p)
                        copy4_async(place + e, p);
                    else
                        place[e] = 0.0f;
                }
            }
        }
    }
    /* Does nothing: fetch() copies straight to shared memory. */
    LS_DEVICE void keep(float *, int) {}
};

/* The reader of a B whose rows lie on a grid (ls_gemm_grid) and whose columns are lines; a thread advances from row to row by additions,
 * too. */
template <int LINES, int THREADS, bool VECTOR> struct grid_across_k : quads_across_k<LINES, THREADS> {
    using base = quads_across_k<LINES, THREADS>;
    const float *from, *at[base::COUNT];
    int count;
    uint32_t left[base::COUNT]; /* rows until step1 or step0 */
    const ls_cuda_grid_rows *rows;

    /* Finds the address of row k, for the thread's row number i. */
    LS_DEVICE void find(int i, uint32_t k) {
        at[i] = from + grid_row_at(*rows, k);
        left[i] = rows->n2.divisor - (k - divide(k, rows->n2) * rows->n2.divisor);
    }
    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const ls_cuda_grid_rows &grid, const void *matrix, size_t line0,
                        size_t lines) {
        rows = &grid;
        count = base::lines_there(line0, lines);
        from = (const float *)matrix + (count ? line0 + base::line() : 0);
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) find(i, (uint32_t)first_k(g) + base::row(i));
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t k, int k_count, float *to) {
        const uint32_t step = ALL ? (uint32_t)GEMM_K : (uint32_t)k_count;
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            if (ALL || base::row(i) < k_count) {
                if (VECTOR)
                    copy16_async(base::place(to, i), at[i]);
                else
                    copy_some(base::place(to, i), at[i], count);
            }
            if (left[i] > step) {
                left[i] -= step;
                at[i] += step * rows->step2;
            } else {
                find(i, (uint32_t)k + step + base::row(i));
            }
        }
    }
    /* Does nothing: fetch() copies straight to shared memory. */
    LS_DEVICE void keep(float *, int) {}
};

/* Computes a tile of C of form NN: A are patches, rows of B lie on a grid. */
template <class S, bool VECTOR = true> LS_DEVICE void conv_nn(const ls_cuda_gemm_gather &c) {
    size_t m0, n0;
    find_tile<S>(c.g, m0, n0);
    patches_along_k<S::BM, S::THREADS, VECTOR> a;
    grid_across_k<S::BN, S::THREADS, VECTOR> b;
    a.open(c.g, c.patches, c.g.a, m0, c.g.m);
    b.open(c.g, c.b_rows, c.g.b, n0, c.g.n);
    multiply<S>(c.g, a, b, m0, n0);
}

/* Computes a tile of C of form NT: A are patches. */
template <class S, bool VECTOR = true> LS_DEVICE void conv_nt(const ls_cuda_gemm_gather &c) {
    size_t m0, n0;
    find_tile<S>(c.g, m0, n0);
    patches_along_k<S::BM, S::THREADS, VECTOR> a;
    rows_along_k<S::BN, S::THREADS, VECTOR> b;
    a.open(c.g, c.patches, c.g.a, m0, c.g.m);
    b.open(c.g, c.g.b, c.g.ldb, n0, c.g.n);
    multiply<S>(c.g, a, b, m0, n0);
}

/* Computes a tile of C of form TN: B are patches. */
template <class S, bool VECTOR = true> LS_DEVICE void conv_tn(const ls_cuda_gemm_gather &c) {
    size_t m0, n0;
    find_tile<S>(c.g, m0, n0);
    columns_across_k<S::BM, S::THREADS, VECTOR> a;
    patches_across_k<S::BN, S::THREADS, VECTOR> b;
    a.open(c.g, c.g.a, c.g.lda, m0, c.g.m);
    b.open(c.patches, c.g.b, n0, c.g.n);
    multiply<S>(c.g, a, b, m0, n0);
}

/* The kernels: one for each form and tile. */
LS_KERNEL_ALONE(conv_nn_large, ls_cuda_gemm_gather, large::THREADS) { conv_nn<large>(a); }
LS_KERNEL_ALONE(conv_nn_narrow, ls_cuda_gemm_gather, narrow::THREADS) { conv_nn<narrow>(a); }
LS_KERNEL_ALONE(conv_nn_small, ls_cuda_gemm_gather, small::THREADS) { conv_nn<small>(a); }
LS_KERNEL_ALONE(conv_nt_large, ls_cuda_gemm_gather, large::THREADS) { conv_nt<large>(a); }
LS_KERNEL_ALONE(conv_nt_narrow, ls_cuda_gemm_gather, narrow::THREADS) { conv_nt<narrow>(a); }
LS_KERNEL_ALONE(conv_nt_small, ls_cuda_gemm_gather, small::THREADS) { conv_nt<small>(a); }
LS_KERNEL_ALONE(conv_tn_large, ls_cuda_gemm_gather, large::THREADS) { conv_tn<large>(a); }
LS_KERNEL_ALONE(conv_tn_narrow, ls_cuda_gemm_gather, narrow::THREADS) { conv_tn<narrow>(a); }
LS_KERNEL_ALONE(conv_tn_small, ls_cuda_gemm_gather, small::THREADS) { conv_tn<small>(a); }
LS_KERNEL(conv_tn_tiny, ls_cuda_gemm_gather, tiny::THREADS) { conv_tn<tiny>(a); }
/* Channels that fill no vectors: those of the first layer. */
LS_KERNEL_ALONE(conv_nn_odd, ls_cuda_gemm_gather, narrow::THREADS) { conv_nn<narrow, false>(a); }
LS_KERNEL_ALONE(conv_nt_odd, ls_cuda_gemm_gather, narrow::THREADS) { conv_nt<narrow, false>(a); }
LS_KERNEL_ALONE(conv_tn_odd, ls_cuda_gemm_gather, narrow::THREADS) { conv_tn<narrow, false>(a); }

/* Writes the patches as a matrix (im2col). For a GEMM with few columns and many k, computing addresses would take longer than multiplying. */
LS_KERNEL(conv_unfold, ls_cuda_unfold, LS_CUDA_GEMM_UNFOLD_THREADS) {
    const uint32_t width = a.width.divisor, step = gridDim.x * LS_CUDA_GEMM_UNFOLD_THREADS;
    /* A block's rows are beside each other; numbers of 31 bits are counted within them. */
    const size_t rows = (size_t)gridDim.x * LS_CUDA_GEMM_UNFOLD_THREADS;
    for (size_t first = 0; first < a.rows; first += rows) {
        const uint32_t count = (uint32_t)min(rows, a.rows - first) * width;
        for (uint32_t i = blockIdx.x * LS_CUDA_GEMM_UNFOLD_THREADS + threadIdx.x; i < count; i += step) {
            const uint32_t row = divide(i, a.width), column = i - row * width;
            patch_row r;
            patch_column c;
            r.find(a.patches, (uint32_t)(first + row));
            c.find(a.patches, column);
            const int y = r.y + c.y, x = r.x + c.x;
            float value = 0.0f;
            if (column < a.columns && is_inside(a.patches, y, x))
                value = a.images[r.image + pixel_at(a.patches, y, x) + c.channel];
            a.to[first * width + i] = value;
        }
    }
}
