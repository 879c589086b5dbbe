/* token_sums.h: sums over tokens, by gradient group (a fixed part of the batch), shared by the host code for gradients
 * of norms, biases and the position table (docs/reference/arithmetic.md, "Sums over tokens").
 *
 * A first kernel sums the tokens of each token slice (a fixed part) of each sequence into scratch memory.
 * ls_cuda_join_tokens() then launches the kernel that adds the sequences of each group in order, and the groups by
 * their tree. */
#ifndef LS_DEVICE_CUDA_OPS_TOKEN_SUMS_H
#define LS_DEVICE_CUDA_OPS_TOKEN_SUMS_H

#include "device/cuda/args/token_sums.h"
#include "device/cuda/launch.h"

/* Launches the join of `sums` tensors, in[i] into out[i]: sequences in order, then the tree over groups. The
 * caller has set rows, columns, inputs, strides and outputs in `args`, and slices or block where it has them; an
 * output has no gaps between its rows. The function changes *args: it sets bounds, groups and accumulate from
 * `groups`, and the alignment. Does nothing if there are no rows or columns. */
ls_status ls_cuda_join_tokens(ls_device *device, ls_cuda_token_join *args, int sums, const ls_token_groups *groups);

/* Fills `slices`, by which a kernel finds the token slices of a sequence, from `groups`. A long list is copied to the
 * device. */
ls_status ls_cuda_slices_set(ls_device *device, ls_cuda_slices *slices, const ls_token_groups *groups);

#endif
