/* patches.cuh: computes the addresses of a matrix of patches (ls_gemm_patches), for conv.cu and conv_grad.cu. */
#pragma once
#include "device/cuda/kernels/gemm.cuh"

LS_DEVICE bool is_inside(const ls_cuda_patches &p, int y, int x) {
    return (uint32_t)y < p.height && (uint32_t)x < p.width;
}

LS_DEVICE size_t pixel_at(const ls_cuda_patches &p, int y, int x) {
    return ((size_t)y * p.width + x) * p.channels.divisor;
}

/* A column of the matrix: how far its tap is from the first, and the channel. */
struct patch_column {
    int y, x;
    uint32_t channel;
    LS_DEVICE void find(const ls_cuda_patches &p, uint32_t column) {
        uint32_t tap = divide(column, p.channels), row = divide(tap, p.taps_x);
        channel = column - tap * p.channels.divisor;
        y = (int)row * p.tap_y;
        x = (int)(tap - row * p.taps_x.divisor) * p.tap_x;
    }
};

/* A row of the matrix: the pixel under the first tap, which may be outside, and where the image begins. */
struct patch_row {
    int y, x;
    size_t image;
    LS_DEVICE void find(const ls_cuda_patches &p, uint32_t row) {
        uint32_t i = divide(row, p.positions), rest = row - i * p.positions.divisor, line = divide(rest, p.rows_x);
        image = i * p.image_step;
        y = p.first_y + (int)line * p.step_y;
        x = p.first_x + (int)(rest - line * p.rows_x.divisor) * p.step_x;
    }
};
