/* patches.cuh: computes the addresses of a matrix of image patches that is not stored (im2col, ls_gemm_patches in calls.h), for conv.cu
 * and conv_grad.cu. */
#pragma once
#include "device/cuda/kernels/gemm.cuh"

/* Returns whether a pixel is inside the image; others read as +0. */
LS_DEVICE bool is_inside(const ls_cuda_patches &p, int y, int x) {
    return (uint32_t)y < p.height && (uint32_t)x < p.width;
}

/* Returns the offset, in elements within an image, of channel 0 of a pixel. (channels.divisor is the number of channels.) */
LS_DEVICE size_t pixel_at(const ls_cuda_patches &p, int y, int x) {
    return ((size_t)y * p.width + x) * p.channels.divisor;
}

/* A column of the matrix: how many pixels its tap lies below (y) and right (x) of the first tap, and the channel. */
struct patch_column {
    int y, x;
    uint32_t channel;
    /* Computes the fields for this column. */
    LS_DEVICE void find(const ls_cuda_patches &p, uint32_t column) {
        uint32_t tap = divide(column, p.channels), row = divide(tap, p.taps_x);
        channel = column - tap * p.channels.divisor;
        y = (int)row * p.tap_y;
        x = (int)(tap - row * p.taps_x.divisor) * p.tap_x;
    }
};

/* A row of the matrix, that is, a position of the window: the pixel under the first tap, which may lie outside the image, and the offset of
 * the image in elements. */
struct patch_row {
    int y, x;
    size_t image;
    /* Computes the fields for this row. */
    LS_DEVICE void find(const ls_cuda_patches &p, uint32_t row) {
        uint32_t i = divide(row, p.positions), rest = row - i * p.positions.divisor, line = divide(rest, p.rows_x);
        image = i * p.image_step;
        y = p.first_y + (int)line * p.step_y;
        x = p.first_x + (int)(rest - line * p.rows_x.divisor) * p.step_x;
    }
};
