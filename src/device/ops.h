/* ops.h: the operations of a device, each on whole tensors.
 *
 * The formulas are in docs/arithmetic.md, the call structs and what their pointers mean in calls.h; what may alias what
 * stands with the kernels (cpu/kernels.h). A result never depends on the number of threads or on the ISA.
 *
 * 16-bit tensors are widened as they are read and rounded once as they are written; all arithmetic is fp32.
 * LS_ERR_INPUT for a type that is neither LS_F32 nor LS_BF16 nor LS_F16.
 *
 * Ids and targets are not checked here: whoever reads data checks it. Every operation may fail with LS_ERR_RESOURCE,
 * when the device has no memory for its scratch; scratch grows with the largest operation so far and stays. */
#ifndef LS_DEVICE_OPS_H
#define LS_DEVICE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "device/calls.h"
#include "device/device.h"

typedef struct ls_ops {
    /* LS_ERR_INPUT: types and unit do not go together, or the device lacks this unit. */
    ls_status (*gemm)(ls_device *device, const ls_gemm *call);
    /* Operations a second that it could reach at best with this unit (LS_UNIT_CHAIN: in fp32), measured now in a few
     * hundredths of a second; 0: not known. */
    double (*peak_flops_s)(ls_device *device, ls_unit unit);

    /* Convolutions in fp32. LS_ERR_INPUT where a shape or its groups make no sense. */
    ls_status (*conv_forward)(ls_device *device, const ls_conv_call *call);
    ls_status (*conv_input_grad)(ls_device *device, const ls_conv_call *call);
    ls_status (*conv_weight_grad)(ls_device *device, const ls_conv_call *call);

    /* y and taps from x; dx from dy and taps. */
    ls_status (*max_pool_forward)(ls_device *device, const ls_pooling_call *call);
    ls_status (*max_pool_backward)(ls_device *device, const ls_pooling_call *call);
    ls_status (*mean_pool_forward)(ls_device *device, const ls_pooling_call *call);
    ls_status (*mean_pool_backward)(ls_device *device, const ls_pooling_call *call);

    /* Statistics of each ghost group, and y; all of the next five. */
    ls_status (*batch_norm_forward)(ls_device *device, const ls_batch_norm_call *call);
    /* Sums of x, [group][channel]; mean from such sums, or from their sum over groups where it is shared. */
    ls_status (*batch_norm_sums)(ls_device *device, const ls_batch_norm_call *call, float *sums);
    ls_status (*batch_norm_mean)(ls_device *device, const ls_batch_norm_call *call, const float *sums);
    /* Sums of (x − mean)²; rstd, and var, from them or from running statistics, whose count is 1. */
    ls_status (*batch_norm_squares)(ls_device *device, const ls_batch_norm_call *call, float *sums);
    ls_status (*batch_norm_rstd)(ls_device *device, const ls_batch_norm_call *call, const float *sums);
    /* y from x, mean and rstd: also with running statistics. */
    ls_status (*batch_norm_apply)(ls_device *device, const ls_batch_norm_call *call);
    /* sum and dot of each ghost group; dx and dresidual from them. */
    ls_status (*batch_norm_grad_sums)(ls_device *device, const ls_batch_norm_call *call);
    ls_status (*batch_norm_input_grad)(ls_device *device, const ls_batch_norm_call *call);

    ls_status (*norm_forward)(ls_device *device, const ls_norm_call *call);
    ls_status (*norm_backward)(ls_device *device, const ls_norm_call *call);
    ls_status (*norm_params)(ls_device *device, const ls_norm_call *call, const ls_token_groups *groups);

    ls_status (*act_forward)(ls_device *device, ls_act_fn fn, void *y, const void *x, ls_dtype act, size_t n);
    /* x: of ReLU and the sigmoid, the result of forward. */
    ls_status (*act_backward)(ls_device *device, ls_act_fn fn, void *dx, const void *dy, const void *x, ls_dtype act,
                              size_t n);
    ls_status (*gated_forward)(ls_device *device, const ls_gated_call *call);
    ls_status (*gated_backward)(ls_device *device, const ls_gated_call *call);
    ls_status (*bias_gelu_forward)(ls_device *device, const ls_bias_gelu_call *call);
    /* db is [slices][columns]. */
    ls_status (*bias_grad)(ls_device *device, float *db, const void *dy, ls_dtype act, size_t dy_stride, size_t columns,
                           const ls_token_groups *groups);

    /* y[r] = c[r] + bias, for rows of `columns` elements; without bias a conversion. In fp32 y may be c. */
    ls_status (*bias_add)(ls_device *device, void *y, ls_dtype act, size_t y_stride, const float *c, size_t c_stride,
                          const float *bias, size_t rows, size_t columns);

    /* y = residual + dropout(x); backward is the same call without residual, from dy to dx. */
    ls_status (*dropout_add)(ls_device *device, const ls_dropout_call *call);

    ls_status (*rope_forward)(ls_device *device, const ls_rope_call *call);
    ls_status (*rope_backward)(ls_device *device, const ls_rope_call *call);

    /* position NULL: a copy of the token row. The ids in `tokens` are memory of the device. */
    ls_status (*embed_forward)(ls_device *device, float *y, size_t y_stride, const void *token, ls_dtype token_dtype,
                               const float *position, size_t position0, size_t period, const ls_embed_tokens *tokens);
    /* Of each id that is looked up: dtoken[id] = sum + dtoken[id], where dtoken holds −0 or the gradient of another use
     * of the table; with accumulate the sum goes on from dtoken[id]. Slices do not matter. */
    ls_status (*embed_token_grad)(ls_device *device, float *dtoken, const float *dy, size_t dy_stride,
                                  const ls_embed_tokens *tokens, const ls_token_groups *groups);
    /* dposition[t], t < T, is the sum over the sequences. Slices do not matter. */
    ls_status (*embed_position_grad)(ls_device *device, float *dposition, const float *dy, size_t dy_stride, size_t C,
                                     const ls_token_groups *groups);

    /* loss from z; also m and l, and dz, where they are not NULL. All targets lie in the columns. */
    ls_status (*loss_rows)(ls_device *device, const ls_loss_call *call);
    /* m and z_target from z. */
    ls_status (*loss_max)(ls_device *device, const ls_loss_call *call);
    /* sums from z and m. */
    ls_status (*loss_sums)(ls_device *device, const ls_loss_call *call);
    /* loss from z_target, m and l. */
    ls_status (*loss_values)(ls_device *device, const ls_loss_call *call);
    /* dz from z, m and l. */
    ls_status (*loss_grad)(ls_device *device, const ls_loss_call *call);

    /* o, m and l */
    ls_status (*attention_forward)(ls_device *device, const ls_attention_call *call);
    /* dots, dq, dk and dv; first_query is 0. */
    ls_status (*attention_backward)(ls_device *device, const ls_attention_call *call);

    /* `step` is host memory. `copy` gets the new w, rounded to a 16-bit type; NULL: none. */
    ls_status (*adamw)(ls_device *device, float *w, float *m, float *v, void *copy, ls_dtype copy_dtype, const float *g,
                       const ls_adamw_step *step, size_t n);
    /* b NULL: without momentum. */
    ls_status (*sgd)(ls_device *device, float *w, float *b, void *copy, ls_dtype copy_dtype, const float *g,
                     const ls_sgd_step *step, size_t n);
    /* out[i] = Σ x² of block i of LS_SQUARE_BLOCK elements, in double. */
    ls_status (*square_sums)(ls_device *device, double *out, const float *x, size_t n);
    ls_status (*scale)(ls_device *device, float *y, const float *x, float factor, size_t n);

    /* Between LS_F32 and LS_BF16 or LS_F16; LS_ERR_INPUT for any other pair. */
    ls_status (*convert)(ls_device *device, void *out, ls_dtype to, const void *in, ls_dtype from, size_t n);

    /* y = x rounded to a 16-bit type, as fp32; y may be x. */
    ls_status (*round)(ls_device *device, float *y, const float *x, ls_dtype to, size_t n);

    /* y = a + b */
    ls_status (*add)(ls_device *device, float *y, const float *a, const void *b, ls_dtype b_dtype, size_t n);
    /* The tree over contributions of `elems` elements each: LS_F32, or LS_BF16 or LS_F16, which are widened. 1 ≤ leaves
     * ≤ LS_GROUPS_MAX, else LS_ERR_INPUT. `out` may be one of the fp32 contributions. */
    ls_status (*tree_sum)(ls_device *device, float *out, const void *const *contributions, ls_dtype dtype, int leaves,
                          size_t elems);
    /* out[i] = the maximum of inputs[0][i] … inputs[count−1][i]. 1 ≤ count ≤ LS_WORKERS_MAX, else LS_ERR_INPUT. `out`
     * may be one of the inputs. */
    ls_status (*max)(ls_device *device, float *out, const float *const *inputs, int count, size_t elems);
    /* Every element becomes `value`: −0 for a buffer of sums, which no byte can fill in. */
    ls_status (*set)(ls_device *device, float *y, float value, size_t n);

    /* Adds to out, which is host memory, how many elements are what ls_count names, of x·scale in `type`. */
    ls_status (*count)(ls_device *device, int64_t out[LS_COUNTS], const float *x, float scale, ls_dtype type, size_t n);
    /* before = after − before, of weights before and after an update. *lost, which is host memory, grows by the
     * elements that an update left as they were though it was not 0: by[i] ≠ 0 says so. */
    ls_status (*difference)(ls_device *device, float *before, const float *after, const float *by, int64_t *lost,
                            size_t n);
    /* The hash of `bytes` bytes, to *out, which is host memory. It is that of the hashes of its pieces. */
    ls_status (*hash)(ls_device *device, ls_hash128 *out, const void *x, size_t bytes);
    /* *index, which is host memory, becomes that of the first element that is not finite, or n. */
    ls_status (*find_bad)(ls_device *device, const void *x, ls_dtype dtype, size_t n, size_t *index);
} ls_ops;

#endif
