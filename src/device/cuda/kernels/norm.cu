/* norm.cu: norms without dropout. */
#include "device/cuda/common/norm.cuh"

NORM_KERNELS(layer_norm, false, , false)
NORM_KERNELS(rms_norm, true, , false)
