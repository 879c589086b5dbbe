/* act.cu: activations, gates and bias, element by element (docs/reference/arithmetic.md, "Activations"); launched by ops/act.c. */
#include "device/cuda/args/act.h"
#include "device/cuda/common/act_table.cuh"

/* Returns the activation of x. */
template <int FN> LS_DEVICE float act_of(float x) {
    if (FN == LS_CUDA_GELU) return gelu(x);
    if (FN == LS_CUDA_SILU) return x * sigmoid_of(x);
    if (FN == LS_CUDA_RELU) return x <= 0.0f ? 0.0f : x;
    return sigmoid_of(x);
}

/* Returns the gradient of x from that of y; for ReLU and the sigmoid, x is what forward wrote. */
template <int FN> LS_DEVICE float dx_of(float dy, float x) {
    if (FN == LS_CUDA_GELU) return dy * gelu_slope(x);
    if (FN == LS_CUDA_SILU) return dy * silu_slope(x, sigmoid_of(x));
    if (FN == LS_CUDA_RELU) return x <= 0.0f ? 0.0f : dy;
    return dy * (x * (1.0f - x));
}

/* Computes y of all elements. T: element type of all tensors. */
template <int FN, class T> LS_DEVICE void forward(const ls_cuda_act &a) {
    each_elem<widest<T>::n, LS_CUDA_ACT_PACKS>(
        a.flat, [&](auto w, size_t i) { return load_pack<w.n>((const T *)a.x + i); },
        [&](auto w, size_t i, const auto &x) {
            store_pack<w.n>((T *)a.y + i, map(x, [](float v) { return act_of<FN>(v); }));
        });
}

template <int W> struct two_packs { pack<W> a, b; };

/* Computes dx, into a.y, of all elements. */
template <int FN, class T> LS_DEVICE void backward(const ls_cuda_act &a) {
    each_elem<widest<T>::n, 1>(
        a.flat,
        [&](auto w, size_t i) {
            return two_packs<w.n>{load_pack<w.n>((const T *)a.dy + i), load_pack<w.n>((const T *)a.x + i)};
        },
        [&](auto w, size_t i, const auto &in) {
            store_pack<w.n>((T *)a.y + i, map(in.a, in.b, [](float dy, float x) { return dx_of<FN>(dy, x); }));
        });
}

/* Calls the instance of `call` for the activation a.fn. */
#define BY_FUNCTION(call, T)                                                                                           \
    do {                                                                                                               \
        if (a.fn == LS_CUDA_GELU)                                                                                      \
            call<LS_CUDA_GELU, T>(a);                                                                                  \
        else if (a.fn == LS_CUDA_SILU)                                                                                 \
            call<LS_CUDA_SILU, T>(a);                                                                                  \
        else if (a.fn == LS_CUDA_RELU)                                                                                 \
            call<LS_CUDA_RELU, T>(a);                                                                                  \
        else                                                                                                           \
            call<LS_CUDA_SIGMOID, T>(a);                                                                               \
    } while (0)

/* Computes y of any activation, by formula. */
LS_KERNEL(act_forward, ls_cuda_act, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { BY_FUNCTION(forward, T); });
}

/* Computes dx of any activation, by formula. */
LS_KERNEL(act_backward, ls_cuda_act, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { BY_FUNCTION(backward, T); });
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* Where a gate takes sigmoids (of SiLU) or tanhs (of GELU) from: each is computed when it is asked for, or all are
 * looked up. What is made of them is act_table's. */
template <int FN> struct computed_gates {
    enum { FUNCTION = FN };
    template <int W> struct found {
        const pack<W> &x;
        LS_DEVICE float operator[](int i) const {
            return FN == LS_CUDA_GELU ? gelu_tanh(x.v[i], x.v[i] * x.v[i]) : sigmoid_of(x.v[i]);
        }
    };
    /* Returns a view of the tanhs or sigmoids of a pack. */
    template <int W> LS_DEVICE found<W> of(const pack<W> &x) const { return {x}; }
};
template <int FN> struct table_gates {
    enum { FUNCTION = FN };
    const act_table<FN> &table;
    template <int W> struct found {
        float s[W];
        LS_DEVICE float operator[](int i) const { return s[i]; }
    };
    /* Returns a view of the tanhs or sigmoids of a pack. */
    template <int W> LS_DEVICE found<W> of(const pack<W> &x) const {
        found<W> f;
        table.look_up(x.v, f.s);
        return f;
    }
};

/* Computes y = fn(gate)·up; `gates`: where fn comes from. */
template <class T, class G> LS_DEVICE void gate_rows(const ls_cuda_gated &a, const G &gates) {
    each_row<widest<T>::n, 1>(
        a.rows,
        [&](auto w, size_t row, size_t c) {
            size_t in = row * a.in_stride + c;
            return two_packs<w.n>{load_pack<w.n>((const T *)a.gate + in), load_pack<w.n>((const T *)a.up + in)};
        },
        [&](auto w, size_t row, size_t c, const auto &in) {
            pack<w.n> y;
            const auto s = gates.of(in.a);
#pragma unroll
            for (int i = 0; i < w.n; i++) y.v[i] = act_table<G::FUNCTION>::y(in.a.v[i], s[i]) * in.b.v[i];
            store_pack<w.n>((T *)a.y + row * a.y_stride + c, y);
        });
}

/* Computes y = silu(gate)·up, by formula. */
LS_KERNEL(gated_forward, ls_cuda_gated, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { gate_rows<T>(a, computed_gates<LS_CUDA_SILU>()); });
}

/* Computes y = gelu(gate)·up, by formula. */
LS_KERNEL(gated_gelu_forward, ls_cuda_gated, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { gate_rows<T>(a, computed_gates<LS_CUDA_GELU>()); });
}

template <int W> struct gate_packs { pack<W> gate, up, dy; };

/* Computes dgate and dup from gate, up and dy. */
template <class T, class G> LS_DEVICE void gate_grad_rows(const ls_cuda_gated &a, const G &gates) {
    each_row<widest<T>::n, 1>(
        a.rows,
        [&](auto w, size_t row, size_t c) {
            size_t in = row * a.in_stride + c;
            return gate_packs<w.n>{load_pack<w.n>((const T *)a.gate + in), load_pack<w.n>((const T *)a.up + in),
                                   load_pack<w.n>((const T *)a.dy + row * a.dy_stride + c)};
        },
        [&](auto w, size_t row, size_t c, const auto &in) {
            pack<w.n> dgate, dup;
            const auto all = gates.of(in.gate);
#pragma unroll
            for (int i = 0; i < w.n; i++) {
                float x = in.gate.v[i], dy = in.dy.v[i], s = all[i];
                dgate.v[i] = (dy * in.up.v[i]) * act_table<G::FUNCTION>::slope(x, s);
                dup.v[i] = dy * act_table<G::FUNCTION>::y(x, s);
            }
            store_pack<w.n>((T *)a.dgate + row * a.din_stride + c, dgate);
            store_pack<w.n>((T *)a.dup + row * a.din_stride + c, dup);
        });
}

/* Computes dgate and dup of silu(gate)·up, by formula. */
LS_KERNEL(gated_backward, ls_cuda_gated, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { gate_grad_rows<T>(a, computed_gates<LS_CUDA_SILU>()); });
}

/* Computes dgate and dup of gelu(gate)·up, by formula. */
LS_KERNEL(gated_gelu_backward, ls_cuda_gated, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { gate_grad_rows<T>(a, computed_gates<LS_CUDA_GELU>()); });
}

/* ---- large tensors of bf16 by table ------------------------------------------------------------------------------ */

/* Fills the table of FN in shared memory and calls run(table). All threads of the block call it. */
template <int FN, class F> LS_DEVICE void with_table(F run) {
    __shared__ float memory[FN == LS_CUDA_GELU ? LS_CUDA_GELU_TABLE : LS_CUDA_SIGMOID_TABLE];
    act_table<FN> table{memory};
    table.make((int)threadIdx.x, (int)blockDim.x);
    __syncthreads();
    run(table);
}

/* Computes y of all elements, which are bf16, by table. */
template <int FN> LS_DEVICE void forward_by_table(const ls_cuda_act &a) {
    with_table<FN>([&](const act_table<FN> &table) {
        each_elem<8, LS_CUDA_TABLE_PACKS>(
            a.flat, [&](auto w, size_t i) { return load_pack<w.n>((const bf16 *)a.x + i); },
            [&](auto w, size_t i, const auto &x) {
                pack<w.n> t;
                table.look_up(x.v, t.v);
                store_pack<w.n>((bf16 *)a.y + i, map(x, t, [](float v, float s) { return act_table<FN>::y(v, s); }));
            });
    });
}

/* Computes dx, into a.y, of all elements, which are bf16, by table. */
template <int FN> LS_DEVICE void backward_by_table(const ls_cuda_act &a) {
    with_table<FN>([&](const act_table<FN> &table) {
        each_elem<8, LS_CUDA_TABLE_PACKS>(
            a.flat,
            [&](auto w, size_t i) {
                return two_packs<w.n>{load_pack<w.n>((const bf16 *)a.dy + i), load_pack<w.n>((const bf16 *)a.x + i)};
            },
            [&](auto w, size_t i, const auto &in) {
                pack<w.n> dx;
                table.look_up(in.b.v, dx.v);
#pragma unroll
                for (int k = 0; k < w.n; k++) dx.v[k] = in.a.v[k] * act_table<FN>::slope(in.b.v[k], dx.v[k]);
                store_pack<w.n>((bf16 *)a.y + i, dx);
            });
    });
}

/* Computes dx of GELU of bf16 elements by a table of slopes: one access instead of a tanh and a formula. */
LS_DEVICE void slopes_by_table(const ls_cuda_act &a) {
    __shared__ float memory[LS_CUDA_SLOPE_TABLE];
    gelu_slopes table{memory};
    table.make((int)threadIdx.x, (int)blockDim.x);
    __syncthreads();
    each_elem<8, LS_CUDA_TABLE_PACKS>(
        a.flat,
        [&](auto w, size_t i) {
            return two_packs<w.n>{load_pack<w.n>((const bf16 *)a.dy + i), load_pack<w.n>((const bf16 *)a.x + i)};
        },
        [&](auto w, size_t i, const auto &in) {
            enum { TWOS = (w.n + 1) / 2 };
            pack<w.n> dx;
            uint32_t two[TWOS];
            float slope[2 * TWOS];
#pragma unroll
            for (int k = 0; k < TWOS; k++)
                two[k] = __float_as_uint(in.b.v[2 * k]) >> 16 | (__float_as_uint(in.b.v[2 * k + (w.n > 1)]) & 0xFFFF0000u);
            table.look_up(two, slope);
#pragma unroll
            for (int k = 0; k < w.n; k++) dx.v[k] = in.a.v[k] * slope[k];
            store_pack<w.n>((bf16 *)a.y + i, dx);
        });
}

/* Computes y of GELU or SiLU of bf16 elements, by table. */
LS_KERNEL_MANY(act_forward_table, ls_cuda_act, LS_CUDA_TABLE_THREADS, LS_CUDA_TABLE_BLOCKS) {
    a.fn == LS_CUDA_GELU ? forward_by_table<LS_CUDA_GELU>(a) : forward_by_table<LS_CUDA_SILU>(a);
}

/* Computes dx of GELU or SiLU of bf16 elements, by table. */
LS_KERNEL_MANY(act_backward_table, ls_cuda_act, LS_CUDA_TABLE_THREADS, LS_CUDA_TABLE_MORE_BLOCKS) {
    a.fn == LS_CUDA_GELU ? slopes_by_table(a) : backward_by_table<LS_CUDA_SILU>(a);
}

/* gate_rows() of bf16 tensors by table. */
template <int FN> LS_DEVICE void gate_by_table(const ls_cuda_gated &a) {
    with_table<FN>([&](const act_table<FN> &table) { gate_rows<bf16>(a, table_gates<FN>{table}); });
}
/* gate_grad_rows() of bf16 tensors by table. */
template <int FN> LS_DEVICE void gate_grad_by_table(const ls_cuda_gated &a) {
    with_table<FN>([&](const act_table<FN> &table) { gate_grad_rows<bf16>(a, table_gates<FN>{table}); });
}

#define TABLE_GATE(name, run)                                                                                          \
    LS_KERNEL_MANY(name, ls_cuda_gated, LS_CUDA_TABLE_THREADS, LS_CUDA_TABLE_MORE_BLOCKS) { run(a); }
TABLE_GATE(gated_forward_table, gate_by_table<LS_CUDA_SILU>)
TABLE_GATE(gated_backward_table, gate_grad_by_table<LS_CUDA_SILU>)
TABLE_GATE(gated_gelu_forward_table, gate_by_table<LS_CUDA_GELU>)
TABLE_GATE(gated_gelu_backward_table, gate_grad_by_table<LS_CUDA_GELU>)

/* ---- bias -------------------------------------------------------------------------------------------------------- */

/* Computes y = c + bias (BIAS false: y = c), or with GELU pre = c + bias, y = gelu(pre); y has type T. */
template <bool GELU, bool BIAS, class T> LS_DEVICE void bias_rows(const ls_cuda_bias &a) {
    each_row<4, LS_CUDA_ACT_ROWS>(
        a.rows,
        [&](auto w, size_t row, size_t c) {
            pack<w.n> x = load_pack<w.n>(a.c + row * a.c_stride + c);
            return BIAS ? add(x, load_pack<w.n>(a.bias + c)) : x;
        },
        [&](auto w, size_t row, size_t c, const auto &x) {
            if (GELU) store_pack<w.n>(a.pre + row * a.pre_stride + c, x);
            store_pack<w.n>((T *)a.y + row * a.y_stride + c, GELU ? map(x, [](float v) { return gelu(v); }) : x);
        });
}

/* Computes pre = c + bias, y = gelu(pre), in fp32. */
LS_KERNEL(bias_gelu_forward, ls_cuda_bias, LS_CUDA_PACK_THREADS) { bias_rows<true, true, float>(a); }

/* Computes y = c + bias, or only converts c if there is no bias. */
LS_KERNEL_MANY(bias_add, ls_cuda_bias, LS_CUDA_PACK_THREADS, 4) {
    LS_BY_TYPE(a.act, T, { a.bias ? bias_rows<false, true, T>(a) : bias_rows<false, false, T>(a); });
}
