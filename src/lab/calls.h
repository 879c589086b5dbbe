/* calls.h: the calls that bench and probe measure (lab/timer.h): matmuls, attention, collectives and messages. Memory
 * belongs to the caller. */
#ifndef LS_LAB_CALLS_H
#define LS_LAB_CALLS_H

#include "device/ops.h"
#include "lab/timer.h"
#include "plan/native/machine.h"

/* ---- matmuls and attention --------------------------------------------------------------------------------------- */

/* Returns number i of a fixed pseudo-random sequence of operands, in [−1, 1). bench/gemm_openblas.c has the same. */
float ls_operand_value(size_t i);

/* Sets the sizes of a matmul of whole matrices, not its types or pointers: C is m × n, its sums have k terms in so many
 * slices (parts that are added up by themselves), whose slices + 1 bounds are written to `bounds`, which the call
 * borrows. */
void ls_operand_matmul(ls_gemm *g, ls_gemm_form form, size_t m, size_t n, size_t k, int slices, size_t *bounds);

/* Causal attention over one sequence: q, k and v, and their gradients, lie side by side in rows of 3 · heads · d. */
typedef struct ls_operand_heads {
    size_t T, heads, d; /* tokens; heads of a sequence; columns of a head */
    ls_dtype act;
    ls_unit unit;
    void *qkv, *o, *dout, *dqkv; /* q, k, v; output; its gradient; gradients of q, k, v */
    float *stats;                /* 3 · heads · T */
} ls_operand_heads;

/* Makes a call of attention over these operands; the call borrows `part`, which is filled. */
ls_attention_call ls_operand_attention(const ls_operand_heads *heads, ls_attention *part);
/* Returns a dropout of one weight in ten, for part.drop. */
ls_attention_drop ls_operand_drop(const ls_operand_heads *heads);

/* Returns how many seconds longer `whole` takes than the plain call; at least 1e-9, because 0 means not measured. */
static inline double ls_more_seconds(double plain, double whole) { return whole - plain > 1e-9 ? whole - plain : 1e-9; }

/* ---- collectives and messages, on a vector of fp32 numbers ------------------------------------------------------- */

/* One worker's view of the vector that is being measured. */
typedef struct ls_link_vector {
    ls_comm *comm;
    int rank, size;
    ls_native_op op; /* LS_NATIVE_SEND: a ping-pong of workers 0 and 1, the others have no part */
    size_t elems;
    float *in, *out;                    /* buffers of the whole vector */
    size_t shards[LS_WORKERS_MAX + 1];  /* even shards, first elements */
    size_t shard_bytes[LS_WORKERS_MAX]; /* the same in bytes */
} ls_link_vector;

/* Sets the size of the vector, in bytes of the whole, and its shards. Its memory must be large enough. */
void ls_link_resize(ls_link_vector *vector, size_t bytes);
/* Runs the operation once (a ping-pong both ways) on an ls_link_vector. It is an ls_timer_call. Collective. */
ls_status ls_link_call(void *vector);
/* Measures the seconds of the operation, of a ping-pong one way; 0 on workers that have no part in it. All workers of
 * timer->comm make the call together: those of the vector, or of several vectors at the same time. */
ls_status ls_link_time(const ls_timer *timer, ls_link_vector *vector, ls_timing *out);

#endif
