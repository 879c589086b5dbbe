/* norm_drop.cu: norms with dropout of what is added to the stream in front of them, and of what goes back to there. */
#include "device/cuda/common/norm.cuh"

NORM_KERNELS(layer_norm, false, _drop, true)
NORM_KERNELS(rms_norm, true, _drop, true)
