/* ops.h: the operations of a device, each on whole tensors: the one table through which blocks of a model (nn/),
 * collectives, optimizer and guards compute.
 *
 * Every operation takes the device and a call, a struct of arguments: calls.h says what the calls mean, and
 * docs/reference/arithmetic.md has the formulas. cpu/kernels.h says which outputs may be inputs. A result never depends
 * on the number of threads or on the ISA. One list, LS_OPS, makes the table and, in each device, the declarations of
 * its functions.
 *
 * 16-bit tensors are widened as they are read and rounded once as they are written; arithmetic on tensors is fp32.
 * LS_ERR_INPUT for a type that is neither LS_F32 nor LS_BF16 nor LS_F16.
 *
 * An operation goes to the current queue of the device and may still run when it returns (device.h). Ids and targets
 * are not checked here but by the code that reads data. Every operation may fail with LS_ERR_RESOURCE, when the device
 * has no memory for its scratch; scratch beyond what was lent to the device grows with the largest operation so far and
 * stays. */
#ifndef LS_DEVICE_OPS_H
#define LS_DEVICE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/calls.h"
#include "device/device.h"

#define LS_OPS(X)                                                                                                      \
    X(gemm, ls_gemm) /* LS_ERR_INPUT: types and unit do not go together, or the device lacks this unit */              \
    /* Convolutions in fp32. LS_ERR_INPUT where a shape or its groups make no sense. */                                \
    X(conv_forward, ls_conv_call)                                                                                      \
    X(conv_input_grad, ls_conv_call)                                                                                   \
    X(conv_weight_grad, ls_conv_call)                                                                                  \
    /* y and taps from x; dx from dy and taps. */                                                                      \
    X(max_pool_forward, ls_pooling_call)                                                                               \
    X(max_pool_backward, ls_pooling_call)                                                                              \
    X(mean_pool_forward, ls_pooling_call)                                                                              \
    X(mean_pool_backward, ls_pooling_call)                                                                             \
    X(batch_norm_forward, ls_batch_norm_call)    /* statistics of each ghost group, and y; all of the next five */     \
    X(batch_norm_sums, ls_batch_norm_call)       /* sums of x */                                                       \
    X(batch_norm_mean, ls_batch_norm_call)       /* mean from such sums, or from their sum over groups */              \
    X(batch_norm_squares, ls_batch_norm_call)    /* sums of (x − mean)² */                                          \
    X(batch_norm_rstd, ls_batch_norm_call)       /* rstd, and var, from them or from running statistics (count 1) */   \
    X(batch_norm_apply, ls_batch_norm_call)      /* y from x, mean and rstd: also with running statistics */           \
    X(batch_norm_grad_sums, ls_batch_norm_call)  /* sum and dot of each ghost group */                                 \
    X(batch_norm_input_grad, ls_batch_norm_call) /* dx and dresidual from them */                                      \
    X(norm_forward, ls_norm_call)                                                                                      \
    X(norm_backward, ls_norm_call)                                                                                     \
    X(norm_params, ls_norm_call)                                                                                       \
    X(act_forward, ls_act_call)                                                                                        \
    X(act_backward, ls_act_call) /* x: of ReLU and the sigmoid, the result of forward */                               \
    X(gated_forward, ls_gated_call)                                                                                    \
    X(gated_backward, ls_gated_call)                                                                                   \
    X(bias_gelu_forward, ls_bias_gelu_call)                                                                            \
    X(bias_grad, ls_bias_grad_call)                                                                                    \
    X(bias_add, ls_bias_add_call)                                                                                      \
    X(dropout_add, ls_dropout_call) /* backward is the same call without residual, from dy to dx */                    \
    X(rope_forward, ls_rope_call)                                                                                      \
    X(rope_backward, ls_rope_call)                                                                                     \
    X(embed_forward, ls_embed_call)                                                                                    \
    X(embed_token_grad, ls_token_grad_call)                                                                            \
    X(embed_position_grad, ls_position_grad_call)                                                                      \
    X(loss_rows, ls_loss_call) /* loss from z; also m and l, and dz, where they are not NULL; all targets are here */  \
    X(loss_max, ls_loss_call)  /* m and z_target from z */                                                             \
    X(loss_sums, ls_loss_call) /* sums from z and m */                                                                 \
    X(loss_values, ls_loss_call)             /* loss from z_target, m and l */                                         \
    X(loss_grad, ls_loss_call)               /* dz from z, m and l */                                                  \
    X(attention_forward, ls_attention_call)  /* o, m and l */                                                          \
    X(attention_backward, ls_attention_call) /* dots, dq, dk and dv; first_query is 0 */                               \
    X(update, ls_update_call)                                                                                          \
    X(scale, ls_scale_call)                                                                                            \
    X(set, ls_set_call)                                                                                                \
    X(convert, ls_convert_call)                                                                                        \
    X(round, ls_round_call)                                                                                            \
    X(add, ls_add_call)                                                                                                \
    X(copy_rows, ls_copy_rows_call)                                                                                    \
    X(tree_sum, ls_tree_sum_call)                                                                                      \
    X(tree_rows, ls_tree_rows_call)                                                                                    \
    X(max, ls_max_call)                                                                                                \
    X(square_sums, ls_square_sums_call)                                                                                \
    X(add_losses, ls_add_losses_call)                                                                                  \
    X(count_right, ls_count_right_call)                                                                                \
    X(count, ls_count_call)                                                                                            \
    X(difference, ls_difference_call)                                                                                  \
    X(state_sums, ls_state_sums_call)                                                                                  \
    X(hash, ls_hash_call)                                                                                              \
    X(hash_blocks, ls_hash_blocks_call)                                                                                \
    X(find_bad, ls_find_bad_call)

/* The table. The caller runs device->ops->gemm(device, &call) and so on. */
typedef struct ls_ops {
#define LS_OP_MEMBER(name, call_type) ls_status (*name)(ls_device * device, const call_type *call);
    LS_OPS(LS_OP_MEMBER)
#undef LS_OP_MEMBER
    /* Returns whether gemm takes this call with its epilogue (`end`). If not, the caller runs the activation itself. */
    bool (*gemm_ends)(ls_device *device, const ls_gemm *call);
    /* Measures, in a few hundredths of a second, the most FLOP/s that the device reaches with this matrix unit
     * (LS_UNIT_CHAIN: in fp32). 0: not known. */
    double (*peak_flops_s)(ls_device *device, ls_unit unit);
} ls_ops;

/* Returns false, always: the gemm_ends of a device without fused epilogues. */
static inline bool ls_gemm_ends_never(ls_device *device, const ls_gemm *call) {
    (void)device, (void)call;
    return false;
}

#endif
