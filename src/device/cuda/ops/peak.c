/* peak.c: measures the peak FLOP/s of a GPU. */
#include "device/cuda/args/peak.h"

#include "base/clock.h"
#include "device/cuda/ops/ops.h"

enum { RUNS = 4, STEPS_FIRST = 64, BLOCKS_MAX = 1 << 20 };

/* How a unit is measured: multiply-adds of a block in a step. */
typedef struct peak_way {
    ls_cuda_kernel kernel;
    unsigned threads;
    double each;
} peak_way;
static const peak_way chain_way = {LS_CUDA_peak, LS_CUDA_PEAK_THREADS,
                                   (double)LS_CUDA_PEAK_CHAINS *LS_CUDA_PEAK_THREADS};
static const peak_way hgmma_way = {
    LS_CUDA_peak_hgmma, LS_CUDA_PEAK_HGMMA_THREADS,
    (double)LS_CUDA_PEAK_HGMMA_TOGETHER *LS_CUDA_PEAK_HGMMA_M *LS_CUDA_PEAK_HGMMA_N *LS_CUDA_PEAK_HGMMA_K};
static const peak_way mma_way = {LS_CUDA_peak_mma, LS_CUDA_PEAK_MMA_THREADS,
                                 (double)LS_CUDA_PEAK_MMA_THREADS / 32 * LS_CUDA_PEAK_MMA_TOGETHER * 16 * 8 * 16};

/* Runs the kernel once with `blocks` blocks of `steps` steps, and sets *seconds to its time on the host's clock, launch
 * latency included. Waits for the GPU. */
static ls_status run_steps(ls_device *device, const peak_way *way, size_t blocks, size_t steps, double *seconds) {
    void *memory;
    LS_TRY(ls_cuda_scratch(device, sizeof(float), &memory));
    ls_cuda_peak args = {.steps = steps, .factor = 0.5f, .out = memory};
    LS_TRY(ls_device_finish(device));
    double begin = ls_clock_seconds();
    LS_TRY(ls_cuda_launch(device, way->kernel, (ls_cuda_grid){blocks, 1, 1}, way->threads, 0, &args));
    LS_TRY(ls_device_finish(device));
    *seconds = ls_clock_seconds() - begin;
    return LS_OK;
}

/* Runs longer and longer loops until one takes a few milliseconds; returns the best rate of several of these. */
double ls_cuda_peak_flops_s(ls_device *device, ls_unit unit) {
    const double enough_s = 0.004;
    size_t blocks = ls_cuda_blocks(device, BLOCKS_MAX), steps = STEPS_FIRST;
    double seconds = 0, best = 0;
    const peak_way *way = !ls_unit_is_tensor_core(unit) ? &chain_way
                          : ls_cuda_has_wgmma(device)   ? &hgmma_way
                                                        : &mma_way;
    if (ls_cuda_check_unit(device, unit) != LS_OK) return 0;
    if (run_steps(device, way, blocks, steps, &seconds) != LS_OK) return 0; /* loads the kernel */
    for (int run = 0; run < RUNS;) {
        if (run_steps(device, way, blocks, steps, &seconds) != LS_OK || seconds <= 0) return 0;
        double rate = 2.0 * (double)steps * way->each * (double)blocks / seconds;
        if (rate > best) best = rate;
        if (seconds < enough_s)
            steps *= 4;
        else
            run++;
    }
    return best;
}
