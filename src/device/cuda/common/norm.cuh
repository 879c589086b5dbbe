/* norm.cuh: layer norm and RMS norm (docs/reference/arithmetic.md, "Norms"). A block has some rows, and three phases:
 *
 *     load    all threads: rows from global into shared memory; backward computes g and h of them
 *     sum     half a warp for a row: thread j of sixteen is lane j of sum16
 *     store   all threads: results from shared memory
 *
 * So global memory is read once, by wide loads, whatever the length of a row. The chains of a sum are long and few;
 * while a block adds, other blocks of the multiprocessor use the memory. A row that does not fit into shared memory
 * (HELD false) is read again in each phase.
 *
 * If gradients of parameters are computed too and their chains are short, a block has the tokens of a chain, some rows
 * at a time, and the phases for each of them; a thread has the same four columns in all, and their sums in registers.
 *
 * DROP: with dropout of the branch that is added to x, and of the rounded copy of dx. These kernels are separate,
 * because the others would be slower with the test. */
#pragma once
#include "device/cuda/args/norm.h"
#include "device/cuda/common/drop.cuh"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/pack.cuh"

enum { FORWARD_AT_ONCE = 4, BACKWARD_AT_ONCE = 2, STEPS = 16 }; /* packs that a thread has under way; numbers that a lane has */

/* The rows that this thread block computes. */
struct norm_block {
    size_t first, rows; /* the first row, and how many there are */
    LS_DEVICE explicit norm_block(const ls_cuda_norm &a) {
        const size_t together = a.together ? (size_t)a.together : 1;
        first = blockIdx.x * together;
        rows = a.rows - first < together ? a.rows - first : together;
    }
    LS_DEVICE norm_block(size_t first, size_t rows) : first(first), rows(rows) {}
};

/* Calls finish(row, column, before(column), load(row, column)) for each pack of columns and each row of the block. Several loads are in
 * flight together: of rows or, if there are few, of columns. `before` loads what the rows of a column share. */
template <int W, int AT_ONCE, class B, class L, class F>
LS_DEVICE void each_pack(const ls_cuda_norm &a, const norm_block &at, const B &before, const L &load, const F &finish) {
    const size_t step = (size_t)blockDim.x * W;
    decltype(load((size_t)0, (size_t)0)) in[AT_ONCE];
    if (at.rows >= AT_ONCE) {
        for (size_t c = (size_t)threadIdx.x * W; c < a.C; c += step) {
            const auto shared = before(c);
            size_t r = 0;
            for (; r + AT_ONCE <= at.rows; r += AT_ONCE) {
                LS_UNROLL for (int k = 0; k < AT_ONCE; k++) in[k] = load(r + k, c);
                LS_UNROLL for (int k = 0; k < AT_ONCE; k++) finish(r + k, c, shared, in[k]);
            }
            for (; r < at.rows; r++) finish(r, c, shared, load(r, c));
        }
        return;
    }
    for (size_t r = 0; r < at.rows; r++) {
        size_t c = (size_t)threadIdx.x * W;
        for (; c + (AT_ONCE - 1) * step < a.C; c += AT_ONCE * step) {
            decltype(before(c)) shared[AT_ONCE];
            LS_UNROLL for (int k = 0; k < AT_ONCE; k++) in[k] = load(r, c + k * step), shared[k] = before(c + k * step);
            LS_UNROLL for (int k = 0; k < AT_ONCE; k++) finish(r, c + k * step, shared[k], in[k]);
        }
        for (; c < a.C; c += step) finish(r, c, before(c), load(r, c));
    }
}

/* Calls use(load(i)) for all i of this thread's lane of sum16, in order, several loads before the first use. */
template <class L, class F> LS_DEVICE void each_step(size_t C, const L &load, const F &use) {
    size_t i = threadIdx.x % 16;
    for (; i + 16 * (STEPS - 1) < C; i += 16 * STEPS) {
        decltype(load(i)) in[STEPS];
        LS_UNROLL for (int k = 0; k < STEPS; k++) in[k] = load(i + 16 * k);
        LS_UNROLL for (int k = 0; k < STEPS; k++) use(in[k]);
    }
    for (; i < C; i += 16) use(load(i));
}

/* left() returns what dropout leaves of the elements from column c of a row on: x itself without DROP. */
template <bool DROP> struct dropout {
    template <int W> LS_DEVICE static pack<W> left(const ls_cuda_norm &a, size_t row, size_t c, const pack<W> &x) {
        return drop_pack<2>(a.drop, row_of_batch(a.drop, row) * a.C + c, x);
    }
};
template <> struct dropout<false> {
    template <int W> LS_DEVICE static const pack<W> &left(const ls_cuda_norm &, size_t, size_t, const pack<W> &x) { return x; }
};

/* Sets `row` to the row, within the block, of this thread's half warp; returns false for warps without one. A shuffle needs all lanes,
 * so a half warp without a row takes row 0, and writes nothing because !is_in. */
LS_DEVICE bool sums(const norm_block &at, size_t &row, bool &is_in) {
    if (threadIdx.x / 32 * 2 >= at.rows) return false;
    row = threadIdx.x / 16;
    is_in = row < at.rows;
    if (!is_in) row = 0;
    return true;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Returns W elements of the norm's input from column c on: x, plus what dropout leaves of the branch if there is one. */
template <int W, class T, bool DROP> LS_DEVICE pack<W> input(const ls_cuda_norm &a, size_t row, size_t c) {
    pack<W> x = load_pack<W>(a.x + row * a.x_stride + c);
    return a.branch ? add(x, dropout<DROP>::left(a, row, c, load_pack<W>((const T *)a.branch + row * a.C + c))) : x;
}

/* Weight and bias of a pack of columns. */
template <int W> struct weights { pack<W> w, b; };

/* Computes y, mean, rstd and sum of the block's rows. T: type of y and branch; W: elements of a pack; HELD: rows lie in shared memory. */
template <bool RMS, class T, int W, bool HELD, bool DROP> LS_DEVICE void forward_rows(const ls_cuda_norm &a) {
    __shared__ float means[LS_CUDA_NORM_ROWS], rstds[LS_CUDA_NORM_ROWS];
    LS_SHARED(float, held);
    const norm_block at(a);
    const size_t pitch = (size_t)a.pitch;
    if (HELD && !a.branch) {
        each_pack<W, FORWARD_AT_ONCE>(
            a, at, [](size_t) { return 0; }, [](size_t, size_t) { return 0; },
            [&](size_t r, size_t c, int, int) {
                const float *from = a.x + (at.first + r) * a.x_stride + c;
                W == 4 ? copy16_async(held + r * pitch + c, from) : copy4_async(held + r * pitch + c, from);
            });
        copy_async_commit();
        copy_async_wait<0>();
    } else if (HELD) {
        each_pack<W, FORWARD_AT_ONCE>(
            a, at, [](size_t) { return 0; }, [&](size_t r, size_t c) { return input<W, T, DROP>(a, at.first + r, c); },
            [&](size_t r, size_t c, int, const pack<W> &x) { store_pack<W>(held + r * pitch + c, x); });
    }
    if (HELD) __syncthreads();

    size_t row;
    bool is_in;
    if (sums(at, row, is_in)) {
        const float n = (float)a.C;
        float sum = 0.0f, mean = 0.0f, squares = 0.0f;
        auto number = [&](size_t i) { return HELD ? held[row * pitch + i] : input<1, T, DROP>(a, at.first + row, i).v[0]; };
        if (!RMS) {
            each_step(a.C, number, [&](float x) { sum = sum + x; });
            mean = __fdiv_rn(join16(sum), n);
        }
        each_step(a.C, number, [&](float x) {
            float d = RMS ? x : x - mean;
            squares = __fmaf_rn(d, d, squares);
        });
        const float rstd = __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(join16(squares), n) + a.eps));
        if (is_in && threadIdx.x % 16 == 0) {
            means[row] = mean, rstds[row] = rstd;
            a.rstd[at.first + row] = rstd;
            if (!RMS) a.mean[at.first + row] = mean;
        }
    }
    __syncthreads();

    each_pack<W, FORWARD_AT_ONCE>(
        a, at,
        [&](size_t c) {
            weights<W> w = {load_pack<W>(a.w + c), {}};
            if (!RMS) w.b = load_pack<W>(a.b + c);
            return w;
        },
        [&](size_t r, size_t c) {
            return HELD ? load_pack<W>((const float *)held + r * pitch + c) : input<W, T, DROP>(a, at.first + r, c);
        },
        [&](size_t r, size_t c, const weights<W> &w, const pack<W> &x) {
            const float mean = means[r], rstd = rstds[r];
            pack<W> y;
            LS_UNROLL for (int k = 0; k < W; k++)
                y.v[k] = RMS ? (x.v[k] * rstd) * w.w.v[k] : __fmaf_rn((x.v[k] - mean) * rstd, w.w.v[k], w.b.v[k]);
            if (a.sum) store_pack<W>(a.sum + (at.first + r) * a.C + c, x);
            store_pack<W>((T *)a.y + (at.first + r) * a.y_stride + c, y);
        });
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The factors of the gradient: g = dy·w, and h, the normalised x. */
template <int W> struct factors { pack<W> g, h; };

/* What backward loads of a pack of columns of a row; factors_with() makes g and h of it. */
template <bool RMS, class T, int W> struct raw_packs {
    pack<W> dy, x;
    float mean, rstd;

    LS_DEVICE raw_packs() {}
    /* Loads the pack from column c on of a row. */
    LS_DEVICE raw_packs(const ls_cuda_norm &a, size_t row, size_t c) {
        dy = load_pack<W>((const T *)a.dy + row * a.dy_stride + c);
        x = load_pack<W>(a.x + row * a.x_stride + c);
        rstd = a.rstd[row], mean = RMS ? 0.0f : a.mean[row];
    }
    /* Returns g = dy·w and h, the normalised x. */
    LS_DEVICE factors<W> factors_with(const pack<W> &w) const {
        factors<W> f;
        LS_UNROLL for (int k = 0; k < W; k++) {
            f.g.v[k] = dy.v[k] * w.v[k];
            f.h.v[k] = (RMS ? x.v[k] : x.v[k] - mean) * rstd;
        }
        return f;
    }
};

/* A pack of factors and, if the gradient is added to it, of the old dx. */
template <int W> struct grad_packs {
    factors<W> f;
    pack<W> old;
};

/* Computes the two means over each row that the gradient needs, ts[row] of g·h and means[row] of g (0 with RMS), from the factors
 * load(row, column) of all C columns. */
template <bool RMS, class L>
LS_DEVICE void gradient_sums(size_t C, const norm_block &at, const L &load, float *ts, float *means) {
    size_t row;
    bool is_in;
    if (!sums(at, row, is_in)) return;
    const float n = (float)C;
    float sum = 0.0f, dot = 0.0f;
    each_step(
        C, [&](size_t i) { return load(row, i); },
        [&](const factors<1> &f) {
            dot = __fmaf_rn(f.g.v[0], f.h.v[0], dot);
            if (!RMS) sum = sum + f.g.v[0];
        });
    const float t = __fdiv_rn(join16(dot), n), mean = RMS ? 0.0f : __fdiv_rn(join16(sum), n);
    if (is_in && threadIdx.x % 16 == 0) ts[row] = t, means[row] = mean;
}

/* Returns dx of a pack; t and mean are those of gradient_sums(). */
template <bool RMS, int W>
LS_DEVICE pack<W> gradient(const ls_cuda_norm &a, const grad_packs<W> &in, float t, float mean, float rstd) {
    pack<W> dx;
    LS_UNROLL for (int k = 0; k < W; k++) {
        const float g = in.f.g.v[k], z = rstd * __fmaf_rn(-in.f.h.v[k], t, RMS ? g : g - mean);
        dx.v[k] = a.add ? in.old.v[k] + z : z;
    }
    return dx;
}

/* Returns y of a pack from h, the normalised x: backward computes y again with it. */
template <bool RMS, int W> LS_DEVICE pack<W> output(const pack<W> &h, const weights<W> &w) {
    pack<W> y;
    LS_UNROLL for (int k = 0; k < W; k++) y.v[k] = RMS ? h.v[k] * w.w.v[k] : __fmaf_rn(h.v[k], w.w.v[k], w.b.v[k]);
    return y;
}

/* Computes dx of the block's rows, and dx_copy and y where they are not NULL. */
template <bool RMS, class T, int W, bool HELD, bool DROP> LS_DEVICE void backward_rows(const ls_cuda_norm &a) {
    __shared__ float ts[LS_CUDA_NORM_ROWS], means[LS_CUDA_NORM_ROWS];
    LS_SHARED(float, gs);
    const norm_block at(a);
    const size_t pitch = (size_t)a.pitch;
    float *hs = gs + (size_t)a.together * pitch;
    auto weight = [&](size_t c) { return load_pack<W>(a.w + c); };
    if (HELD) {
        each_pack<W, BACKWARD_AT_ONCE>(
            a, at, weight,
            [&](size_t r, size_t c) {
                /* What the gradient is added to is needed later; until then it may come nearer. */
                if (a.add && c % 32 < W) prefetch(a.dx + (at.first + r) * a.dx_stride + c);
                return raw_packs<RMS, T, W>(a, at.first + r, c);
            },
            [&](size_t r, size_t c, const pack<W> &w, const raw_packs<RMS, T, W> &in) {
                const factors<W> f = in.factors_with(w);
                store_pack<W>(gs + r * pitch + c, f.g);
                store_pack<W>(hs + r * pitch + c, f.h);
            });
        __syncthreads();
    }

    gradient_sums<RMS>(
        a.C, at,
        [&](size_t row, size_t i) {
            return HELD ? factors<1>{{{gs[row * pitch + i]}}, {{hs[row * pitch + i]}}}
                        : raw_packs<RMS, T, 1>(a, at.first + row, i).factors_with(load_pack<1>(a.w + i));
        },
        ts, means);
    __syncthreads();

    each_pack<W, BACKWARD_AT_ONCE>(
        a, at,
        [&](size_t c) {
            weights<W> w = {};
            if (a.y) w.w = weight(c);
            if (a.y && !RMS) w.b = load_pack<W>(a.b + c);
            return w;
        },
        [&](size_t r, size_t c) {
            grad_packs<W> in;
            if (HELD)
                in.f = {load_pack<W>((const float *)gs + r * pitch + c), load_pack<W>((const float *)hs + r * pitch + c)};
            else
                in.f = raw_packs<RMS, T, W>(a, at.first + r, c).factors_with(weight(c));
            if (a.add) in.old = load_pack<W>((const float *)a.dx + (at.first + r) * a.dx_stride + c);
            return in;
        },
        [&](size_t r, size_t c, const weights<W> &w, const grad_packs<W> &in) {
            const pack<W> dx = gradient<RMS>(a, in, ts[r], means[r], a.rstd[at.first + r]);
            store_pack<W>(a.dx + (at.first + r) * a.dx_stride + c, dx);
            if (a.dx_copy)
                store_pack<W>((T *)a.dx_copy + (at.first + r) * a.C + c, dropout<DROP>::left(a, at.first + r, c, dx));
            if (a.y) store_pack<W>((T *)a.y + (at.first + r) * a.y_stride + c, output<RMS>(in.f.h, w));
        });
}

/* ---- backward, with the gradients of parameters ------------------------------------------------------------------ */

/* A thread's sums over the tokens of a chain: gradients of weight and bias, and the sum of dx. */
struct token_sums { pack<4> w, b, dx; };

/* What chain_rows() loads of four columns of a row; 16-bit numbers stay packed until they are needed, which saves registers. */
template <bool RMS, class T> struct chain_packs {
    pack<4> x;
    uint2 dy, branch;
    float mean, rstd;

    LS_DEVICE chain_packs() {}
    /* Loads the four columns from c on of a row. */
    LS_DEVICE chain_packs(const ls_cuda_norm &a, size_t row, size_t c) {
        x = load_pack<4>(a.x + row * a.x_stride + c);
        dy = *(const uint2 *)((const T *)a.dy + row * a.dy_stride + c);
        branch = a.branch ? *(const uint2 *)((const T *)a.branch + row * a.C + c) : make_uint2(0, 0);
        rstd = a.rstd[row], mean = RMS ? 0.0f : a.mean[row];
    }
};

/* Computes backward of the rows of this block's chain (a run of up to chains.block tokens of a slice) and their sums for the gradients
 * of parameters. With one block on a multiprocessor, DEEP rows at a time: the packs of the next rows, and the old dx, are loaded while
 * these are added, because no other block uses the memory then. DEEP 0: a few rows. */
template <bool RMS, class T, int DEEP, bool DROP> LS_DEVICE void chain_rows(const ls_cuda_norm_chains &chains) {
    enum { W = 4, AT_ONCE = 2 };
    __shared__ float ts[LS_CUDA_NORM_ROWS], means[LS_CUDA_NORM_ROWS];
    LS_SHARED(float, gs);
    const ls_cuda_norm &a = chains.norm;
    const size_t number = blockIdx.x / chains.most, sequence = number / chains.slices.slices,
                 slice = number % chains.slices.slices, pitch = (size_t)a.pitch, together = (size_t)a.together;
    const size_t limit = sequence * chains.slices.T + token_of(chains.slices, slice + 1);
    size_t row = sequence * chains.slices.T + token_of(chains.slices, slice) + blockIdx.x % chains.most * chains.block;
    if (row >= limit) return;
    const size_t end = limit - row < chains.block ? limit : row + chains.block, c = (size_t)threadIdx.x * W;
    const bool has_columns = c < a.C;
    float *hs = gs + together * pitch;
    token_sums sums = {};
    chain_packs<RMS, T> in[DEEP + 1];
    pack<W> old[DEEP + 1];
    auto load_next = [&](size_t from) { /* as many as there are */
        LS_UNROLL for (int k = 0; k < DEEP; k++)
            if (has_columns && from + k < end) in[k] = chain_packs<RMS, T>(a, from + k, c);
    };
    if (DEEP) load_next(row);
    LS_NO_UNROLL for (size_t rows; row < end; row += rows) {
        rows = end - row < together ? end - row : together;
        auto load = [&](size_t r) {
            /* What the gradient is added to is needed later; until then it may come nearer. */
            if (a.add && c % 32 == 0) prefetch(a.dx + (row + r) * a.dx_stride + c);
            return chain_packs<RMS, T>(a, row + r, c);
        };
        auto take = [&](size_t r, const pack<W> &w, const chain_packs<RMS, T> &in) {
            const pack<W> dy = load_pack<W>((const T *)&in.dy);
            pack<W> x = in.x;
            factors<W> f;
            if (a.branch) x = add(x, dropout<DROP>::left(a, row + r, c, load_pack<W>((const T *)&in.branch)));
            LS_UNROLL for (int k = 0; k < W; k++) {
                f.g.v[k] = dy.v[k] * w.v[k];
                f.h.v[k] = (RMS ? x.v[k] : x.v[k] - in.mean) * in.rstd;
                sums.w.v[k] = __fmaf_rn(dy.v[k], f.h.v[k], sums.w.v[k]);
                if (!RMS) sums.b.v[k] = sums.b.v[k] + dy.v[k];
            }
            store_pack<W>(gs + r * pitch + c, f.g);
            store_pack<W>(hs + r * pitch + c, f.h);
        };
        if (has_columns) {
            const pack<W> w = load_pack<W>(a.w + c);
            if (DEEP) {
                LS_UNROLL for (int k = 0; k < DEEP; k++)
                    if ((size_t)k < rows) take((size_t)k, w, in[k]);
                LS_UNROLL for (int k = 0; k < DEEP; k++)
                    if (a.add && (size_t)k < rows) old[k] = load_pack<W>((const float *)a.dx + (row + k) * a.dx_stride + c);
                load_next(row + rows);
            } else {
                size_t r = 0;
                LS_NO_UNROLL for (; r + AT_ONCE <= rows; r += AT_ONCE) {
                    chain_packs<RMS, T> now[AT_ONCE];
                    LS_UNROLL for (int k = 0; k < AT_ONCE; k++) now[k] = load(r + k);
                    LS_UNROLL for (int k = 0; k < AT_ONCE; k++) take(r + k, w, now[k]);
                }
                LS_NO_UNROLL for (; r < rows; r++) take(r, w, load(r));
            }
        }
        __syncthreads();
        gradient_sums<RMS>(
            a.C, norm_block(row, rows),
            [&](size_t r, size_t i) { return factors<1>{{{gs[r * pitch + i]}}, {{hs[r * pitch + i]}}}; }, ts, means);
        __syncthreads();
        if (!has_columns) continue;
        weights<W> w = {};
        if (a.y) w.w = load_pack<W>(a.w + c);
        if (a.y && !RMS) w.b = load_pack<W>(a.b + c);
        auto give = [&](size_t r, const pack<W> &was) {
            grad_packs<W> of;
            of.f = {load_pack<W>((const float *)gs + r * pitch + c), load_pack<W>((const float *)hs + r * pitch + c)};
            if (DEEP)
                of.old = was;
            else if (a.add)
                of.old = load_pack<W>((const float *)a.dx + (row + r) * a.dx_stride + c);
            const pack<W> dx = gradient<RMS>(a, of, ts[r], means[r], a.rstd[row + r]);
            store_pack<W>(a.dx + (row + r) * a.dx_stride + c, dx);
            if (a.dx_copy) {
                uint32_t two[2];
                bits_of_all(T(), dropout<DROP>::left(a, row + r, c, dx), two);
                const uint2 rounded = make_uint2(two[0], two[1]);
                *(uint2 *)((T *)a.dx_copy + (row + r) * a.C + c) = rounded;
                if (chains.dx_sums) sums.dx = add(sums.dx, load_pack<W>((const T *)&rounded));
            }
            if (a.y) store_pack<W>((T *)a.y + (row + r) * a.y_stride + c, output<RMS>(of.f.h, w));
        };
        if (DEEP) {
            LS_UNROLL for (int k = 0; k < DEEP; k++)
                if ((size_t)k < rows) give((size_t)k, old[k]);
        } else {
            if (DROP) {
                LS_NO_UNROLL for (size_t r = 0; r < rows; r++) give(r, old[0]);
            } else {
                LS_UNROLL_2 for (size_t r = 0; r < rows; r++) give(r, old[0]);
            }
        }
    }
    if (!has_columns) return;
    const size_t at = (size_t)blockIdx.x * a.C + c;
    store_pack<W>(chains.dw + at, sums.w);
    if (!RMS) store_pack<W>(chains.db + at, sums.b);
    if (chains.dx_sums) store_pack<W>(chains.dx_sums + at, sums.dx);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Runs forward_rows or backward_rows as the host has divided the rows: held or not, by packs or by elements. */
#define NORM_BY_SHAPE(rows, RMS, T, DROP)    \
    do {                                     \
        if (!a.together)                     \
            rows<RMS, T, 1, false, DROP>(a); \
        else if (a.aligned)                  \
            rows<RMS, T, 4, true, DROP>(a);  \
        else                                 \
            rows<RMS, T, 1, true, DROP>(a);  \
    } while (0)

/* Chains are compiled for 16-bit gradients only. */
#define NORM_CHAINS(RMS, DEEP, DROP) \
    a.norm.act == LS_CUDA_BF16 ? chain_rows<RMS, bf16, DEEP, DROP>(a) : chain_rows<RMS, f16, DEEP, DROP>(a)

/* Defines the kernels kind_forward##with and so on. Shared memory limits the blocks of long rows; their registers are bounded
 * so that they do not limit them further. */
#define NORM_KERNELS(kind, RMS, with, DROP)                                                               \
    LS_KERNEL_MANY(kind##_forward##with, ls_cuda_norm, LS_CUDA_NORM_THREADS, DROP && LS_BEFORE_HOPPER ? 3 : 4) { \
        LS_BY_TYPE(a.act, T, { NORM_BY_SHAPE(forward_rows, RMS, T, DROP); });                             \
    }                                                                                                     \
    LS_KERNEL_MANY(kind##_backward##with, ls_cuda_norm, LS_CUDA_NORM_THREADS, 3) {                        \
        LS_BY_TYPE(a.act, T, { NORM_BY_SHAPE(backward_rows, RMS, T, DROP); });                            \
    }                                                                                                     \
    LS_KERNEL_MANY(kind##_chains##with, ls_cuda_norm_chains, LS_CUDA_NORM_CHAIN_THREADS, 2) {             \
        NORM_CHAINS(RMS, 0, DROP);                                                                        \
    }                                                                                                     \
    LS_KERNEL(kind##_chains_few##with, ls_cuda_norm_chains, LS_CUDA_NORM_CHAIN_THREADS) {                 \
        NORM_CHAINS(RMS, LS_CUDA_NORM_FEW_ROWS, DROP);                                                    \
    }
