/* kernels.h: the table of single-threaded functions that do the arithmetic of a CPU, one small struct for each family.
 * Operations (ops/) divide a tensor among threads and call a kernel for each part; collectives call `add` directly.
 *
 * The table is filled once, with the kernels of the widest ISA of this CPU; all ISAs give the same bits, and the
 * contract that fixes them is docs/reference/arithmetic.md. A kernel allocates nothing and keeps nothing; scratch comes
 * from the caller. The comment at each kernel says how threads may split its work. Strides count elements and may be
 * larger than the row.
 *
 * "Chain": a sum in ascending order, one fused multiply-add (or addition) after another. "Slice": a fixed part of a row
 * or matrix whose sum stands alone before slices are added. "sum16": a sum in 16 lanes, which are then added in pairs.
 * "Matrix unit": the instructions that multiply 16-bit matrices, each with an order of its own (device/unit.h). */
#ifndef LS_DEVICE_CPU_KERNELS_H
#define LS_DEVICE_CPU_KERNELS_H

#include "device/cpu/gemm/gemm.h"

/* Sums and copies of whole vectors: what the collectives are made of. Unless a contract says otherwise an output may be
 * exactly one of the inputs, but must not overlap it partly; no alignment beyond the element's is needed. */
typedef struct ls_add_kernels {
    /* out[i] = a[i] + b[i] */
    void (*add_f32)(float *out, const float *a, const float *b, size_t n);
    /* out[i] = a[i] + b[i] modulo 2^64 */
    void (*add_i64)(uint64_t *out, const uint64_t *a, const uint64_t *b, size_t n);
    /* out0[i] = out1[i] = a[i] + b[i]; out0 and out1 may be a and b in either order. */
    void (*add_two_f32)(float *out0, float *out1, const float *a, const float *b, size_t n);
    /* out[i] = in[i], exact; out and in do not overlap. */
    void (*widen_bf16)(float *out, const uint16_t *in, size_t n);
    /* Copies to memory that will not be read soon, with non-temporal stores if the CPU has them. No overlap. Such
     * stores are not ordered: call fence_stream before another thread may read them. */
    void (*copy_stream)(void *out, const void *in, size_t bytes);
    void (*fence_stream)(void); /* orders the stores of copy_stream before later ones */
} ls_add_kernels;

/* Elementary functions over arrays of floats. out[i] = f(in[i]); out is in, or does not overlap it. Element i depends
 * on in[i] alone, so threads may split the array anywhere. Every NaN that comes out is 0x7FC00000. */
typedef void (*ls_math_fn)(float *out, const float *in, size_t n);

typedef struct ls_math_kernels {
    ls_math_fn exp;     /* +0 where the result is below 2^-126 */
    ls_math_fn log;     /* NaN below zero, -inf of either zero */
    ls_math_fn tanh;    /* odd, keeps -0 */
    ls_math_fn sigmoid; /* 1 / (1 + e^-x); +0 where e^x is below 2^-126 */
    ls_math_fn erf;     /* odd, keeps -0 */
    ls_math_fn sin;     /* odd, keeps -0; NaN of infinities */
    ls_math_fn cos;     /* NaN of infinities */
    /* in[i]^y for in[i] >= 0, either zero being zero; NaN below zero. x^0 and 1^y are 1, whatever the other is. */
    void (*pow)(float *out, const float *in, float y, size_t n);
} ls_math_kernels;

/* Kernels that take a call (device/calls.h) take it in fp32, whatever types the operation may have; a part of a call is
 * a call with fewer rows and other pointers. */

/* Layer norm and RMS norm over rows of C ≥ 1 elements. Every row stands alone, so threads may split rows anywhere;
 * parameter gradients chain over the rows, so there threads split columns. An output may be exactly one of the inputs
 * of the same row layout (dx may be dy or x, y may be x), unless said otherwise. */
typedef struct ls_norm_kernels {
    /* y, rstd and, of layer norm, mean: y = norm(x)·w + b, or (x·rstd)·w. */
    void (*forward)(const ls_norm_call *call);
    /* dx, which is overwritten. */
    void (*backward)(const ls_norm_call *call);
    /* dw and, of layer norm, db, of one row each, continue their chains over the rows, ascending. They overlap nothing
     * else. */
    void (*params)(const ls_norm_call *call);
} ls_norm_kernels;

/* One image: rows of `channels` numbers, one behind the other, with the one row of statistics that it belongs to.
 * Chains go on from what is in the sums, in channels begin … end−1. */
typedef struct ls_batch_norm_kernels {
    /* sums = fma(x − mean, x − mean, sums) */
    void (*squares)(const ls_batch_norm_call *image, size_t begin, size_t end);
    /* y from x, mean and rstd, with residual and ReLU if the call has them. */
    void (*apply)(const ls_batch_norm_call *image);
    /* Continues sum and dot with dy behind ReLU, and with its products with the normalised x. */
    void (*grad_sums)(const ls_batch_norm_call *image, size_t begin, size_t end);
    /* dx and dresidual; sum and dot must have been divided by their count. */
    void (*input_grad)(const ls_batch_norm_call *image);
} ls_batch_norm_kernels;

/* Activations, residual and bias. All but bias_grad are elementwise: threads may split them anywhere, and an output may
 * be exactly one of the inputs with the same stride. */
typedef struct ls_act_kernels {
    void (*forward[LS_ACT_FNS])(float *y, const float *x, size_t n);
    /* x is the input of forward; for ReLU and the sigmoid it is the output. */
    void (*backward[LS_ACT_FNS])(float *dx, const float *dy, const float *x, size_t n);
    void (*gated_forward)(const ls_gated_call *call);
    /* dgate may be gate and dup may be up, and either may be dy. */
    void (*gated_backward)(const ls_gated_call *call);
    /* pre may be c. */
    void (*bias_gelu_forward)(const ls_bias_gelu_call *call);
    /* y = a + b */
    void (*residual)(float *y, const float *a, const float *b, size_t n);
    /* db[c], column_begin ≤ c < column_end, continues its chain of additions over the rows, ascending; db does not
     * overlap dy. Threads split columns. Pointers are those of the whole row, whatever the range. */
    void (*bias_grad)(float *db, const float *dy, size_t dy_stride, size_t rows, size_t column_begin,
                      size_t column_end);
} ls_act_kernels;

/* Forward writes rows begin … end−1 of the result, counted over all images, backward rows of dx: threads split rows. */
typedef void (*ls_pooling_rows)(const ls_pooling_call *call, size_t begin, size_t end);

typedef struct ls_pooling_kernels {
    ls_pooling_rows max_forward;
    ls_pooling_rows max_backward;
    ls_pooling_rows mean_forward;
    ls_pooling_rows mean_backward;
} ls_pooling_kernels;

/* Rows and heads stand alone: threads may split both anywhere; one that begins in the middle of a sequence passes
 * where. */
typedef struct ls_rope_kernels {
    void (*forward)(const ls_rope_call *call);
    /* x is the gradient of the rotated values, y becomes that of the values before. */
    void (*backward)(const ls_rope_call *call);
} ls_rope_kernels;

/* Threads may split rows anywhere. */
typedef struct ls_dropout_kernels {
    /* y = residual + (kept ? x·scale : +0). Without residual it is backward too: x is then dy and y is dx. */
    void (*dropout_add)(const ls_dropout_call *call);
} ls_dropout_kernels;

typedef struct ls_embed_kernels {
    /* y[r] = token[ids[r] − id_begin] + position[(position0 + r) mod period]. Threads may split rows. */
    void (*forward)(const ls_embed_call *call);
    /* dtoken[ids[r] − id_begin] += dy[r], r ascending, in columns column_begin … column_end−1. Threads split columns,
     * or ids. Pointers are those of whole rows, whatever the range. */
    void (*token_grad)(float *dtoken, const float *dy, size_t dy_stride, const ls_embed_tokens *tokens,
                       size_t column_begin, size_t column_end);
    /* to[c] goes on with dy[rows[0]][c], dy[rows[1]][c], …, `count` of them, for c < columns. */
    void (*row_sums)(float *to, const float *dy, size_t dy_stride, const size_t *rows, size_t count, size_t columns);
    /* dposition[(position0 + r) mod period] += dy[r], r ascending. Threads split columns. */
    void (*position_grad)(float *dposition, const float *dy, size_t dy_stride, size_t position0, size_t period,
                          size_t rows, size_t C, size_t column_begin, size_t column_end);
} ls_embed_kernels;

/* Softmax cross-entropy over a row of logits in slices. Probabilities are never stored. A worker that holds some slices
 * of a row calls slice_max on them, and after the maximum over all workers slice_sum; with the tree of all sums
 * slice_grad. One that holds the whole row calls row. Rows stand alone: threads may split rows anywhere, but never a
 * slice. */
/* The `target` of slice_grad if the target's column is not in this slice. */
#define LS_LOSS_NO_TARGET SIZE_MAX

/* The maximum of a row's logits, the sum of exp(z − m), and the loss. */
typedef struct ls_loss_row {
    float m, l, loss;
} ls_loss_row;

typedef struct ls_loss_kernels {
    /* −inf for n = 0 */
    float (*slice_max)(const float *z, size_t n);
    /* sum16 of exp(z_j − m) */
    float (*slice_sum)(const float *z, size_t n, float m);
    /* dz_j = (exp(z_j − m) / l − [j = target])·g, target counted from the begin of the slice; dz may be z. */
    void (*slice_grad)(float *dz, const float *z, size_t n, float m, float l, size_t target, float g);
    /* log(l) − (z_target − m) */
    float (*value)(float z_target, float m, float l);
    /* A whole row: slice i holds z[bounds[i] … bounds[i+1]−1], 1 ≤ slices ≤ 4096. `target` counts from z[0]. dz may
     * be z; NULL: no gradient. */
    ls_loss_row (*row)(float *dz, const float *z, const size_t *bounds, size_t slices, size_t target, float g);
} ls_loss_kernels;

/* The same for 16-bit logits, with the order of sums and the exponential that GPUs use with all units that are tensor
 * cores (hgmma and the others of ls_unit_is_tensor_core()), in portable C on any CPU. */
typedef struct ls_loss_hgmma_kernels {
    /* −inf for n = 0; a zero is +0 */
    float (*slice_max)(const uint16_t *z, ls_dtype type, size_t n);
    /* The sum of ex2(fma(z_j, log2 e, −(m·log2 e))) in the order of a GPU's kernel. */
    float (*slice_sum)(const uint16_t *z, ls_dtype type, size_t n, float m);
    /* As ls_loss_kernels.slice_grad, rounded to `type`. */
    void (*slice_grad)(uint16_t *dz, const uint16_t *z, ls_dtype type, size_t n, float m, float l, size_t target,
                       float g);
} ls_loss_hgmma_kernels;

/* Attention of one sequence. A kernel takes ranges, and any division of the heads, queries or keys into ranges
 * gives the same bits. Ranges with scratch of their own may run at the same time:
 *
 *     forward           o, m, l      of a range of heads and queries
 *     backward_dots     dots         of a range of heads and queries    after forward
 *     backward          dq, dk, dv   of one kv head and its heads       after backward_dots of these
 *
 *     backward_queries  dq           of a range of heads and queries    after backward_dots of these
 *     backward_keys     dk, dv       of a range of keys of one kv head  after backward_dots of all queries
 *
 * The last two together give what `backward` gives; they make the weights twice, but can be divided further. */
typedef struct ls_attention_kernels {
    /* o, m and l from q, k and v, for positions query_begin … query_end−1 of heads head_begin … head_end−1. */
    void (*forward)(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin, size_t query_end,
                    float *scratch);
    /* dots from dout and o. */
    void (*backward_dots)(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin,
                          size_t query_end);
    /* dq of the heads of one kv head, dk and dv of that one, from q, k, v, dout, m, l and dots. */
    void (*backward)(const ls_attention *a, size_t kv_head, float *scratch);
    /* dq from q, k, v, dout, m, l and dots. */
    void (*backward_queries)(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin,
                             size_t query_end, float *scratch);
    /* dk and dv of keys key_begin … key_end−1 of one kv head, from q, k, v, dout, m, l and dots of all queries. */
    void (*backward_keys)(const ls_attention *a, size_t kv_head, size_t key_begin, size_t key_end, float *scratch);
} ls_attention_kernels;

/* Blocking of the kernels, in positions. Callers best pass ranges of a multiple of LS_ATTENTION_BLOCK; larger ranges
 * save packing. Tiles of the matmuls have at most LS_ATTENTION_TILE rows or columns. */
enum {
    LS_ATTENTION_BLOCK = 96,     /* queries */
    LS_ATTENTION_KEYS = 288,     /* keys in backward; a multiple of the queries */
    LS_ATTENTION_CHUNK = 256,    /* keys that are packed together in forward */
    LS_ATTENTION_TILE = 32,      /* at most */
    LS_ATTENTION_KEPT = 1 << 20, /* elements of all keys, up to which forward packs them once for all queries */
};

/* Returns how many floats of scratch one thread needs for the largest of the kernels, for this shape, type and unit. If
 * that overflows, a number of at least SIZE_MAX / 16, so that the allocation fails. Nothing in the scratch is kept
 * between calls. */
static inline size_t ls_attention_scratch_elems(const ls_attention *a) {
    size_t T = a->T, block = LS_ATTENTION_BLOCK + LS_ATTENTION_TILE, keys = LS_ATTENTION_KEYS + LS_ATTENTION_TILE;
    size_t row = a->head_size + LS_ATTENTION_TILE, sums = 0;
    size_t packed = LS_ATTENTION_CHUNK + (T <= LS_ATTENTION_KEPT / a->head_size ? T : 0);
    size_t forward = (2 * packed + 2 * block + LS_ATTENTION_TILE) * row + block * (T + 2 * LS_ATTENTION_TILE);
    size_t tiles = 3 * block * keys + (keys + 3 * block) * LS_ATTENTION_TILE;
    size_t backward = (5 * keys + 5 * block + 2 * LS_ATTENTION_TILE) * row + tiles;
    if (a->act != LS_F32) { /* rows in fp32, and dq of a whole kv head; a unit packs all keys at once */
        bool is_unit = a->unit != LS_UNIT_CHAIN;
        size_t rows = is_unit ? 4 : a->heads / a->kv_heads;
        if (__builtin_mul_overflow(rows * row, T + LS_ATTENTION_TILE, &sums) || sums > SIZE_MAX / 64)
            return SIZE_MAX / 16;
        forward += (LS_ATTENTION_CHUNK + block) * row + (is_unit ? T * row + block * T : 0);
        backward += 2 * (keys + block) * row + sums;
    }
    return forward > backward ? forward : backward;
}

/* Optimizer steps and what goes with them, over flat arrays. Elementwise, so threads and shards may split anywhere;
 * square_sums only at multiples of LS_SQUARE_BLOCK. Arrays do not overlap. */
typedef struct ls_optim_kernels {
    /* Elements begin … end−1, and their copies in bf16; those in f16 are the caller's. |m|, |v| < 2^−126 of AdamW
     * become +0 before they are used. */
    void (*update)(const ls_update_piece *call, size_t begin, size_t end);
    /* out[i] = Σ x² of elements 1024·i … 1024·i+1023, the last block possibly short, in double. */
    void (*square_sums)(double *out, const float *x, size_t n);
    /* y = x·factor; y may be x. */
    void (*scale)(float *y, const float *x, float factor, size_t n);
    /* Σ of the patterns of x times `by`, mod 2^64: a block of a state sum, or a part of one. */
    uint64_t (*state_block)(const float *x, const uint32_t *by, size_t n);
} ls_optim_kernels;

typedef struct ls_kernels {
    const char *isa; /* name of the instruction set that filled it last, such as "avx2" */
    ls_add_kernels add;
    ls_gemm_kernels gemm;
    ls_math_kernels math;
    ls_norm_kernels norm;
    ls_batch_norm_kernels batch_norm;
    ls_act_kernels act;
    ls_pooling_kernels pooling;
    ls_rope_kernels rope;
    ls_dropout_kernels dropout;
    ls_embed_kernels embed;
    ls_loss_kernels loss;
    ls_loss_hgmma_kernels loss_hgmma;
    ls_attention_kernels attention;
    ls_attention_kernels attention_bfmmla; /* bf16 with LS_UNIT_BFMMLA; all NULL where the CPU lacks it */
    ls_attention_kernels attention_hgmma;  /* 16 bits with any unit of tensor cores, by ls_attention.unit */
    ls_optim_kernels optim;
    ls_convert_kernels convert;
} ls_kernels;

/* Returns the table for this CPU, without the ISAs that --isa or LS_ISA switch off. It is static, filled on the first
 * call; any thread may call. */
const ls_kernels *ls_kernels_get(void);
/* Fills the whole table: with portable kernels, and over them those of the ISAs in the mask (1 << LS_ISA_AVX2, …); for
 * ls_kernels_get(), tests, benchmarks and audits. Running it needs a CPU with these ISAs. Attention with BFMMLA is
 * there if this CPU has it, and the emulation of tensor cores always, whatever the mask. */
void ls_kernels_fill(ls_kernels *table, unsigned isa_mask);

/* Sets the whole table to portable C; entries of matrix units become NULL, here and in the next three. */
void ls_kernels_fill_portable(ls_kernels *table);
/* Sets the whole table to the kernels for NEON, without those of matrix units. */
void ls_kernels_fill_neon(ls_kernels *table);
/* Sets the whole table to the kernels for AVX2, without those of matrix units. */
void ls_kernels_fill_avx2(ls_kernels *table);
/* Sets the whole table to the kernels for AVX-512, without those of matrix units. */
void ls_kernels_fill_avx512(ls_kernels *table);
/* Fills attention for bf16 tensors with BFMMLA, on an ARM64 CPU with BF16. The units of x86-64 have none. */
void ls_attention_kernels_fill_bfmmla(ls_attention_kernels *table);
/* Fills attention for 16-bit tensors in the order of tensor cores, on any CPU; all but backward_dots. */
void ls_attention_kernels_fill_hgmma(ls_attention_kernels *table);
/* Fills the loss of 16-bit logits in the order of GPUs with tensor cores, on any CPU. */
void ls_loss_kernels_fill_hgmma(ls_loss_hgmma_kernels *table);

#endif
