/* operands.h: numbers, matmuls and attention as bench and probe measure them. */
#ifndef LS_LAB_OPERANDS_H
#define LS_LAB_OPERANDS_H

#include "device/ops.h"

/* Number i of a fixed sequence, in [−1, 1). bench/gemm_openblas.c has the same. */
float ls_operand_value(size_t i);

/* Sets the sizes of a matmul of whole matrices: C is m × n, sums have k terms in so many slices; `bounds` holds them.
 */
void ls_operand_matmul(ls_gemm *g, ls_gemm_form form, size_t m, size_t n, size_t k, int slices, size_t *bounds);

/* Causal attention over one sequence: q, k and v, and their gradients, lie side by side in rows of 3 · heads · d. */
typedef struct ls_operand_heads {
    size_t T, heads, d;
    ls_dtype act;
    ls_unit unit;
    void *qkv, *o, *dout, *dqkv;
    float *stats; /* 3 · heads · T */
} ls_operand_heads;

/* The call borrows `part`. */
ls_attention_call ls_operand_attention(const ls_operand_heads *heads, ls_attention *part);

#endif
