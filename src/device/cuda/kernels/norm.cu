/* norm.cu: layer norm and RMS norm without dropout (common/norm.cuh); launched by ops/norm.c. */
#include "device/cuda/common/norm.cuh"

NORM_KERNELS(layer_norm, false, , false)
NORM_KERNELS(rms_norm, true, , false)
