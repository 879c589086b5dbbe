/* conv_grad.cu: gradients of the weights of 3 × 3 and 1 × 1 convolutions (ls_conv_weight_grad), whose chains are long and few; launched by
 * ops/conv_grad.c.
 *
 * A thread has one channel of the images, OUT channels of dy, and all nine taps between them: 9·OUT chains. The lanes of
 * a warp have neighbouring channels of the images and the same of dy. A window that moves on keeps the pixels that it
 * shares with the one before in registers, so 9·OUT multiply-adds take 3·STRIDE numbers of the images, which lie beside
 * each other in shared memory, and OUT of dy, which all lanes share.
 *
 * Rows of the images are in a ring in shared memory, some turns ahead of the windows; a turn is ROWS rows of windows. In
 * front of each image is a row of zeros, which is also the one behind the image before. Left of a row a window has
 * zeros in registers, right of it there is a pixel of zeros in the ring. */
#include "device/cuda/common/patches.cuh"

/* A block's walk over the images of a slice, for rows of WIDTH windows; run() is the kernel. */
template <int WIDTH, int STRIDE, int OUT> struct walk {
    enum {
        WARPS = LS_CUDA_CONV_GRAD_THREADS / 32,
        ROWS = LS_CUDA_CONV_GRAD_ROWS(WIDTH),
        AHEAD = LS_CUDA_CONV_GRAD_AHEAD,
        RING = LS_CUDA_CONV_GRAD_RING(WIDTH, STRIDE),
        ROW = LS_CUDA_CONV_GRAD_ROW(WIDTH, STRIDE),
        OUTS = WARPS * OUT,               /* channels of dy of the block */
        DY = ROWS * WIDTH * OUTS,         /* of a turn */
        FIRST = STRIDE * (ROWS - 1) + 3,  /* rows of a turn, */
        MORE = STRIDE * ROWS,             /* and by how many the next one is further */
    };
    float *rows, *dys;
    const float *x, *dy; /* next to be brought; dy of this thread */
    uint32_t row, height; /* of the image that is being brought, and the zeros in front of it */
    uint32_t turn, turns, turns_each; /* to be brought; of all images, and of one */
    int slot, dy_slot;
    size_t row_elems, dy_elems;
    float sum[OUT][3][3];

    /* Return the thread's lane, which is its channel of the images in the block, and its warp, which has OUT channels of dy. */
    LS_DEVICE static int lane() { return threadIdx.x % 32; }
    LS_DEVICE static int warp() { return threadIdx.x / 32; }

    /* Starts to load the next row of the images, or the zeros in front of one, into the ring. */
    LS_DEVICE void bring_row(size_t channels) {
        enum { QUADS = WIDTH * STRIDE * 8 };
        const bool is_there = row > 0;
        LS_UNROLL for (int first = 0; first < QUADS; first += LS_CUDA_CONV_GRAD_THREADS) {
            const int q = first + threadIdx.x;
            if (QUADS % LS_CUDA_CONV_GRAD_THREADS && q >= QUADS) continue;
            copy16_async_or_zero(rows + slot * ROW + q * 4, x + (is_there ? q / 8 * channels : 0) + q % 8 * 4, is_there);
        }
        if (is_there) x += row_elems;
        row = row == height ? 0 : row + 1;
        slot = slot + 1 == RING ? 0 : slot + 1;
    }
    /* Starts to load what the next turn needs: the rows that it has more than the one before it, and its dy. Commits a group of copies
     * even if there is no turn left. */
    LS_DEVICE void bring(size_t channels, size_t outs) {
        enum { QUADS = DY / 4 };
        if (turn < turns) {
            const int count = turn == 0 ? FIRST : turn % turns_each == 0 ? MORE + 1 : MORE;
            LS_NO_UNROLL for (int i = 0; i < count; i++) bring_row(channels);
            LS_UNROLL for (int first = 0; first < QUADS; first += LS_CUDA_CONV_GRAD_THREADS) {
                const int q = first + threadIdx.x;
                if (QUADS % LS_CUDA_CONV_GRAD_THREADS && q >= QUADS) continue;
                copy16_async(dys + dy_slot * DY + q * 4, dy + q / (OUTS / 4) * outs + q % (OUTS / 4) * 4);
            }
            dy += dy_elems;
            dy_slot = dy_slot == AHEAD ? 0 : dy_slot + 1;
            turn++;
        }
        copy_async_commit();
    }
    /* Multiplies a row of windows: adds the products of dy at `d` and the rows of the ring from `first` on to the sums. */
    LS_DEVICE void multiply(int first, const float *d) {
        const float *from[3];
        float pixel[3][3], out[OUT];
        LS_UNROLL for (int ky = 0; ky < 3; ky++) {
            const int at = first + ky;
            from[ky] = rows + (at < RING ? at : at - RING) * ROW + lane();
            pixel[ky][0] = 0.0f;
            if (STRIDE == 1) pixel[ky][1] = from[ky][0];
        }
        /* Column c of the image is pixel[…][(c + 1) % 3]. */
        LS_UNROLL for (int p = 0; p < WIDTH; p++) {
            LS_UNROLL for (int kx = 3 - STRIDE; kx < 3; kx++)
                LS_UNROLL for (int ky = 0; ky < 3; ky++)
                    pixel[ky][(STRIDE * p + kx) % 3] = from[ky][(STRIDE * p + kx - 1) * 32];
            if constexpr (OUT == 4) {
                const float4 four = *(const float4 *)(d + p * OUTS);
                out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
            } else {
                const float2 two = *(const float2 *)(d + p * OUTS);
                out[0] = two.x, out[1] = two.y;
            }
            LS_UNROLL for (int o = 0; o < OUT; o++)
                LS_UNROLL for (int ky = 0; ky < 3; ky++)
                    LS_UNROLL for (int kx = 0; kx < 3; kx++)
                        sum[o][ky][kx] = __fmaf_rn(out[o], pixel[ky][(STRIDE * p + kx) % 3], sum[o][ky][kx]);
        }
    }

    /* Computes the block's part of dw, or of the sums of its slice (parts). */
    LS_DEVICE void run(const ls_cuda_conv_grad &a) {
        const ls_cuda_gemm &g = a.g;
        LS_SHARED(float, shared);
        rows = shared;
        dys = shared + RING * ROW;
        if (STRIDE == 1)
            for (int i = threadIdx.x; i < RING * 32; i += LS_CUDA_CONV_GRAD_THREADS)
                rows[i / 32 * ROW + WIDTH * 32 + i % 32] = 0.0f;
        const uint32_t in_blocks = (uint32_t)(a.channels / 32), block = blockIdx.x;
        const size_t in = block % in_blocks * 32, o = block / in_blocks * OUTS;
        const size_t position = g.bounds[blockIdx.z], positions = g.bounds[blockIdx.z + 1] - position;
        turns = (uint32_t)(positions / (ROWS * WIDTH));
        turns_each = a.height / (STRIDE * ROWS);
        height = a.height;
        row_elems = WIDTH * STRIDE * a.channels;
        dy_elems = ROWS * WIDTH * g.m;
        x = (const float *)g.b + position * (STRIDE * STRIDE) * a.channels + in;
        dy = (const float *)g.a + position * g.m + o;
        row = 0, turn = 0, slot = 0, dy_slot = 0;

        const size_t column = in + lane(), line = o + warp() * OUT;
        LS_UNROLL for (int i = 0; i < OUT; i++)
            LS_UNROLL for (int tap = 0; tap < 9; tap++)
                sum[i][tap / 3][tap % 3] =
                    g.accumulate ? ((const float *)g.c)[(line + i) * g.ldc + tap * a.channels + column] : 0.0f;

        LS_UNROLL for (int i = 0; i < AHEAD; i++) bring(a.channels, g.m);
        int first = 0, dy_at = 0;
        uint32_t left = turns_each; /* turns of this image */
        for (uint32_t t = 0; t < turns; t++) {
            copy_async_wait<AHEAD - 1>();
            __syncthreads();
            bring(a.channels, g.m);
            LS_NO_UNROLL for (int r = 0; r < ROWS; r++) {
                const int at = first + STRIDE * r;
                multiply(at < RING ? at : at - RING, dys + dy_at * DY + r * WIDTH * OUTS + warp() * OUT);
            }
            first += --left ? MORE : MORE + 1;
            if (first >= RING) first -= RING;
            if (!left) left = turns_each;
            dy_at = dy_at == AHEAD ? 0 : dy_at + 1;
        }

        LS_UNROLL for (int i = 0; i < OUT; i++)
            LS_UNROLL for (int tap = 0; tap < 9; tap++) {
                const size_t r = line + i, c = tap * a.channels + column;
                const float value = sum[i][tap / 3][tap % 3];
                if (g.parts)
                    g.parts[(blockIdx.z * g.m + r) * g.n + c] = value;
                else
                    ((float *)g.c)[r * g.ldc + c] = finished(g, r, c, value);
            }
    }
};

/* The kernels of 3 × 3 convolutions with rows of WIDTH windows. */
template <int WIDTH, int STRIDE, int OUT> LS_DEVICE void conv_grad(const ls_cuda_conv_grad &a) {
    walk<WIDTH, STRIDE, OUT> w;
    w.run(a);
}

/* ---- few channels ------------------------------------------------------------------------------------------------ */

/* The walk for the first layer. With its few channels, there are so few chains that each scheduler gets one warp: a thread has one
 * channel of dy, which the lanes have side by side, one of the images, which is the block's, and the three taps of a row, which is the
 * warp's. */
struct thin_walk {
    enum {
        WIDTH = 32,
        THREADS = LS_CUDA_CONV_GRAD_THIN_THREADS,
        ROWS = LS_CUDA_CONV_GRAD_THIN_ROWS,
        AHEAD = LS_CUDA_CONV_GRAD_AHEAD,
        RING = LS_CUDA_CONV_GRAD_THIN_RING,
        DY = ROWS * WIDTH * 32,
    };
    float *rows, *dys;
    const float *x, *dy;
    uint32_t row, height, turn, turns, turns_each, row_quads;
    int slot, dy_slot;
    float sum[3];

    /* Starts to load what the next turn needs, as walk::bring() does. */
    LS_DEVICE void bring(size_t outs) {
        if (turn < turns) {
            const int count = turn == 0 ? ROWS + 2 : turn % turns_each == 0 ? ROWS + 1 : ROWS;
            LS_NO_UNROLL for (int i = 0; i < count; i++) {
                if (threadIdx.x < row_quads)
                    copy16_async_or_zero(rows + (slot * row_quads + threadIdx.x) * 4, x + (row ? threadIdx.x * 4 : 0),
                                         row > 0);
                if (row) x += row_quads * 4;
                row = row == height ? 0 : row + 1;
                slot = slot + 1 == RING ? 0 : slot + 1;
            }
            for (int q = threadIdx.x; q < DY / 4; q += THREADS)
                copy16_async(dys + dy_slot * DY + q * 4, dy + q / 8 * outs + q % 8 * 4);
            dy += ROWS * WIDTH * outs;
            dy_slot = dy_slot == AHEAD ? 0 : dy_slot + 1;
            turn++;
        }
        copy_async_commit();
    }
    /* Adds the products of a row of windows to the sums of the three taps: from: the row of the image, from this thread's channel on;
     * d: the row of dy, from its channel on. */
    LS_DEVICE void multiply(const float *from, const float *d, uint32_t channels) {
        float pixel[3];
        pixel[0] = 0.0f;
        pixel[1] = from[0];
        LS_UNROLL for (int p = 0; p < WIDTH; p++) {
            pixel[(p + 2) % 3] = p + 1 < WIDTH ? from[(p + 1) * channels] : 0.0f;
            const float out = d[p * 32];
            LS_UNROLL for (int kx = 0; kx < 3; kx++) sum[kx] = __fmaf_rn(out, pixel[(p + kx) % 3], sum[kx]);
        }
    }
    LS_DEVICE void run(const ls_cuda_conv_grad &a) {
        const ls_cuda_gemm &g = a.g;
        LS_SHARED(float, shared);
        const uint32_t channels = (uint32_t)a.channels, channel = blockIdx.x % channels;
        const uint32_t lane = threadIdx.x % 32, ky = threadIdx.x / 32;
        const size_t line = blockIdx.x / channels * 32 + lane;
        const size_t position = g.bounds[blockIdx.z], positions = g.bounds[blockIdx.z + 1] - position;
        row_quads = WIDTH * channels / 4;
        rows = shared;
        dys = shared + RING * row_quads * 4;
        turns = (uint32_t)(positions / (ROWS * WIDTH));
        turns_each = a.height / ROWS;
        height = a.height;
        x = (const float *)g.b + position * channels;
        dy = (const float *)g.a + position * g.m + blockIdx.x / channels * 32;
        row = 0, turn = 0, slot = 0, dy_slot = 0;
        float *c = (float *)g.c + line * g.ldc;
        LS_UNROLL for (int kx = 0; kx < 3; kx++)
            sum[kx] = g.accumulate ? c[(ky * 3 + kx) * channels + channel] : 0.0f;
        LS_UNROLL for (int i = 0; i < AHEAD; i++) bring(g.m);
        int first = 0, dy_at = 0;
        uint32_t left = turns_each;
        for (uint32_t t = 0; t < turns; t++) {
            copy_async_wait<AHEAD - 1>();
            __syncthreads();
            bring(g.m);
            LS_NO_UNROLL for (int r = 0; r < ROWS; r++) {
                const int at = first + r + (int)ky;
                multiply(rows + (at < RING ? at : at - RING) * row_quads * 4 + channel,
                         dys + dy_at * DY + r * WIDTH * 32 + lane, channels);
            }
            first += --left ? ROWS : ROWS + 1;
            if (first >= RING) first -= RING;
            if (!left) left = turns_each;
            dy_at = dy_at == AHEAD ? 0 : dy_at + 1;
        }
        LS_UNROLL for (int kx = 0; kx < 3; kx++) {
            const size_t column = (ky * 3 + kx) * channels + channel;
            if (g.parts)
                g.parts[(blockIdx.z * g.m + line) * g.n + column] = sum[kx];
            else
                c[column] = finished(g, line, column, sum[kx]);
        }
    }
};

/* Weight gradient of a 3 × 3 convolution over images of few channels, 32 windows wide. */
LS_KERNEL_ALONE(conv_grad_thin, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THIN_THREADS) {
    thin_walk w;
    w.run(a);
}

/* ---- windows of one pixel ---------------------------------------------------------------------------------------- */

/* The walk for 1 × 1 convolutions. Lanes and warps as above: a thread has a channel of the images and OUT of dy; a turn is some
 * positions. */
struct point_walk {
    enum {
        THREADS = LS_CUDA_CONV_GRAD_THREADS,
        OUT = 4,
        OUTS = THREADS / 32 * OUT,
        AHEAD = LS_CUDA_CONV_GRAD_AHEAD,
        TURN = LS_CUDA_CONV_GRAD_POINTS,
        X = TURN * 32,
        DY = TURN * OUTS,
    };
    float *xs, *dys;
    size_t next, end, in, out; /* position to be brought; channels of the block */
    int slot;
    float sum[OUT];

    /* Starts to load the positions of the next turn and their dy. */
    LS_DEVICE void bring(const ls_cuda_conv_grad &a) {
        const int count = (int)min(end - next, (size_t)TURN);
        for (int q = threadIdx.x; q < count * 8; q += THREADS) {
            patch_row r;
            r.find(a.patches, (uint32_t)next + q / 8);
            copy16_async(xs + slot * X + q * 4,
                         (const float *)a.g.b + r.image + pixel_at(a.patches, r.y, r.x) + in + q % 8 * 4);
        }
        for (int q = threadIdx.x; q < count * (OUTS / 4); q += THREADS)
            copy16_async(dys + slot * DY + q * 4,
                         (const float *)a.g.a + (next + q / (OUTS / 4)) * a.g.m + out + q % (OUTS / 4) * 4);
        next += count;
        slot = slot == AHEAD ? 0 : slot + 1;
        copy_async_commit();
    }
    /* Continues the chains with one position. */
    LS_DEVICE void multiply(const float *x, const float *dy) {
        const float4 d = *(const float4 *)dy;
        sum[0] = __fmaf_rn(d.x, *x, sum[0]);
        sum[1] = __fmaf_rn(d.y, *x, sum[1]);
        sum[2] = __fmaf_rn(d.z, *x, sum[2]);
        sum[3] = __fmaf_rn(d.w, *x, sum[3]);
    }
    LS_DEVICE void run(const ls_cuda_conv_grad &a) {
        const ls_cuda_gemm &g = a.g;
        LS_SHARED(float, shared);
        const uint32_t in_blocks = (uint32_t)(a.channels / 32), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        xs = shared;
        dys = shared + (AHEAD + 1) * X;
        in = blockIdx.x % in_blocks * 32;
        out = blockIdx.x / in_blocks * OUTS;
        next = g.bounds[blockIdx.z];
        end = g.bounds[blockIdx.z + 1];
        slot = 0;
        const size_t line = out + warp * OUT, column = in + lane;
        LS_UNROLL for (int i = 0; i < OUT; i++)
            sum[i] = g.accumulate ? ((const float *)g.c)[(line + i) * g.ldc + column] : 0.0f;
        size_t left = end - next;
        LS_UNROLL for (int i = 0; i < AHEAD; i++) bring(a);
        for (int at = 0; left; at = at == AHEAD ? 0 : at + 1) {
            const float *x = xs + at * X + lane, *dy = dys + at * DY + warp * OUT;
            copy_async_wait<AHEAD - 1>();
            __syncthreads();
            bring(a);
            if (left >= TURN) {
                LS_UNROLL for (int p = 0; p < TURN; p++) multiply(x + p * 32, dy + p * OUTS);
                left -= TURN;
            } else {
                for (; left; left--, x += 32, dy += OUTS) multiply(x, dy);
            }
        }
        LS_UNROLL for (int i = 0; i < OUT; i++) {
            if (g.parts)
                g.parts[(blockIdx.z * g.m + line + i) * g.n + column] = sum[i];
            else
                ((float *)g.c)[(line + i) * g.ldc + column] = finished(g, line + i, column, sum[i]);
        }
    }
};

/* Weight gradient of a 1 × 1 convolution. */
LS_KERNEL_ALONE(conv_grad_point, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) {
    point_walk w;
    w.run(a);
}

/* Weight gradients of 3 × 3 convolutions: the name has the width of dy and, if it is 2, the stride. */
LS_KERNEL_ALONE(conv_grad_32, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) { conv_grad<32, 1, LS_CUDA_CONV_GRAD_OUT(32)>(a); }
LS_KERNEL_ALONE(conv_grad_16, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) { conv_grad<16, 1, LS_CUDA_CONV_GRAD_OUT(16)>(a); }
LS_KERNEL_ALONE(conv_grad_8, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) { conv_grad<8, 1, LS_CUDA_CONV_GRAD_OUT(8)>(a); }
LS_KERNEL_ALONE(conv_grad_4, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) { conv_grad<4, 1, LS_CUDA_CONV_GRAD_OUT(4)>(a); }
LS_KERNEL_ALONE(conv_grad_16_by_2, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) { conv_grad<16, 2, LS_CUDA_CONV_GRAD_OUT(16)>(a); }
LS_KERNEL_ALONE(conv_grad_8_by_2, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) { conv_grad<8, 2, LS_CUDA_CONV_GRAD_OUT(8)>(a); }
LS_KERNEL_ALONE(conv_grad_4_by_2, ls_cuda_conv_grad, LS_CUDA_CONV_GRAD_THREADS) { conv_grad<4, 2, LS_CUDA_CONV_GRAD_OUT(4)>(a); }
