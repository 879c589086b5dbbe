/* norm_drop.cu: layer norm and RMS norm with dropout of the branch that is added to the residual stream before the norm, and of its
 * gradient in backward (common/norm.cuh); launched by ops/norm.c. */
#include "device/cuda/common/norm.cuh"

NORM_KERNELS(layer_norm, false, _drop, true)
NORM_KERNELS(rms_norm, true, _drop, true)
