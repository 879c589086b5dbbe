/* attention_hgmma.cuh: what the kernels of attention with the matrix unit hgmma share: those for Hopper's tensor cores
 * (attention_hgmma.cu, attention_hgmma_once.cu) and those for any shape (attention_hgmma_any.cu). */
#pragma once
#include "device/cuda/args/attention_hgmma.h"
#include "device/cuda/common/base.cuh"
#include "device/cuda/common/exp2.cuh"
#include "device/cuda/common/math.cuh"
#include "device/cuda/common/philox.cuh"

#define LS_INFINITY __uint_as_float(0x7F800000u)

/* Rounds two numbers to fp16 or bf16 and packs them, the first in the low half. On a GPU a NaN may get other bits than the contract's. */
template <bool IS_F16> LS_DEVICE uint32_t rounded_pair(float low, float high) {
#ifdef LS_CUDA_ON_CPU_H
    return IS_F16 ? to_f16(low) | (uint32_t)to_f16(high) << 16 : to_bf16(low) | (uint32_t)to_bf16(high) << 16;
#else
    uint32_t pair;
    if (IS_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#endif
}

/* Returns the scale of scores inside exp2: scale · log2 e, rounded once. */
LS_DEVICE float scale2_of(const ls_cuda_attention_part &part) { return (float)((double)part.scale * 0x1.71547652b82fep+0); }

/* Returns the index of element 0 of row 0 of a head in its tensor. */
LS_DEVICE size_t head_at(const ls_cuda_heads &x, uint32_t sequence, uint32_t head) {
    return sequence * x.sequence_stride + head * x.head_stride;
}

/* Returns the statistics L of a head's queries, `head` counted from the first of this launch; D of the contract is stat_rows further. */
LS_DEVICE float *stats_of(const ls_cuda_attention_hgmma &h, uint32_t sequence, uint32_t head) {
    return h.stats + ((size_t)sequence * h.all_heads + h.head0 + head) * 2 * h.stat_rows;
}

/* Returns the dropout masks (ls_cuda_attention_hgmma::masks) of a head for block `block` of 64 columns, from row `line` on. */
LS_DEVICE uint16_t *masks_at(const ls_cuda_attention_hgmma &h, uint32_t sequence, uint32_t head, int block, int line) {
    const size_t before = (size_t)sequence * h.all_heads + h.head0 + head;
    return h.masks + ((before * (h.stat_rows / 64) + (size_t)block) * h.stat_rows + (size_t)line) * 4;
}

/* The dropout of the weights of a head: which pairs of query and key are kept. */
struct dropout_rule {
    uint64_t first; /* the pair of query 0 and key 0 */
    uint64_t T;
    uint32_t threshold;
    float scale;
    ls_cuda_rng key;
    /* Sets all fields for a head of a part. */
    LS_DEVICE void open(const ls_cuda_attention &a, const ls_cuda_attention_part &part, uint32_t sequence, uint32_t head) {
        T = (uint64_t)a.T;
        first = (part.drop_head0 + sequence * part.drop_heads + head) * T * T;
        threshold = part.drop_threshold;
        scale = part.drop_scale;
        key = part.drop_key;
    }
    /* Returns what the weight of a pair is multiplied by: 0 or the scale. */
    LS_DEVICE float factor(int query, int k) const {
        const uint64_t index = first + (uint64_t)query * T + (uint64_t)k;
        const uint4 words = philox_block(key, index / 4);
        const uint32_t low = index & 1 ? words.y : words.x, high = index & 1 ? words.w : words.z;
        return (index & 2 ? high : low) < threshold ? 0.0f : scale;
    }
    /* Returns 32 bits: bit i is set if the pair of the query with key k + i is kept. What the numbers of a run have in common is
     * computed once. */
    LS_DEVICE uint32_t kept(int query, int k) const {
        enum { BLOCKS = 8 };
        const uint64_t index = first + (uint64_t)query * T + (uint64_t)k, high = index / 4 >> 32 << 32;
        const uint32_t low = (uint32_t)(index / 4), shift = (uint32_t)index % 4;
        if (!threshold) return ~0u;
        uint32_t bits = 0, last = 0;
        if (low > ~0u - BLOCKS) {
            LS_NO_UNROLL for (int i = 0; i < 32; i++) bits |= (uint32_t)(factor(query, k + i) != 0.0f) << i;
            return bits;
        }
        LS_UNROLL for (int i = BLOCKS - 1; i >= 0; i--) add_kept(bits, philox_block(key, high | (low + (uint32_t)i)));
        if (!shift) return bits;
        add_kept(last, philox_block(key, high | (low + BLOCKS)));
        return bits >> shift | last << (32 - shift);
    }
    /* Shifts four more bits in at the low end, for the four words of a run of the generator, the first lowest. */
    LS_DEVICE void add_kept(uint32_t &bits, const uint4 &x) const {
        add_bit(bits, x.w), add_bit(bits, x.z), add_bit(bits, x.y), add_bit(bits, x.x);
    }
    /* Shifts one bit in: whether the number is not below the threshold, as the carry of its sum with 2^32 − threshold. A threshold of 0,
     * which has no carry, does not come here. */
    LS_DEVICE void add_bit(uint32_t &bits, uint32_t number) const {
#ifdef LS_CUDA_ON_CPU_H
        bits = 2 * bits + (number >= threshold);
#else
        asm("{\n.reg .u32 t;\nadd.cc.u32 t, %1, %2;\naddc.u32 %0, %0, %0;\n}" : "+r"(bits) : "r"(number), "r"(-threshold));
#endif
    }
};
